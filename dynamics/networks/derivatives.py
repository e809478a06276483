"""Derivatives of a function of flat parameters, by backward passes of torch.

`torch.autograd` takes losses that `torch.func` refuses: with gradient checkpointing, with
autograd functions of the usual form, or of modules whose parameters require gradients.
Second derivatives are compared with their transpose and with differences of the gradient,
because some of torch, and many of users' autograd functions, are wrong."""

import contextlib
import importlib
from collections.abc import Callable, Iterator
from typing import Any

import torch
from torch.nn.attention import SDPBackend, sdpa_kernel
from torch.utils import checkpoint
from torch.utils._pytree import tree_map

from dynamics.networks.threads import single_thread_after_fork

single_thread_after_fork()

FlatLoss = Callable[..., torch.Tensor]
"""A function of flat parameters (parameter,), and perhaps more, that returns a number."""


def _plain_weight_norm(v: torch.Tensor, g: torch.Tensor, dim: int = 0) -> torch.Tensor:
    """Weight normalisation g v / |v| in place of torch's kernel, whose second derivative
    is wrong on a CPU (torch 2.13)."""
    axes = [axis for axis in range(v.ndim) if dim == -1 or axis != dim % v.ndim]
    return v * (g / v.square().sum(axes, keepdim=dim != -1).sqrt())


def _without_recomputation(*arguments: Any, **options: Any) -> Iterator[None]:
    """In place of the part of `torch.utils.checkpoint` that drops intermediate results."""
    yield


class _PlainCall:
    """In place of the autograd function of the reentrant `torch.utils.checkpoint`."""

    @staticmethod
    def apply(function: Callable[..., Any], preserve: bool, *arguments: Any) -> Any:
        return function(*arguments)


_REPLACEMENTS: tuple[tuple[Any, str, Any], ...] = (
    (torch, "_weight_norm", _plain_weight_norm),
    (
        importlib.import_module("torch.nn.utils.weight_norm"),
        "_weight_norm",
        _plain_weight_norm,
    ),
    (checkpoint, "_checkpoint_without_reentrant_generator", _without_recomputation),
    (checkpoint, "CheckpointFunction", _PlainCall),
)
"""Modules of torch, names in them, and what takes their place."""
_ORIGINALS = [getattr(module, name, None) for module, name, _ in _REPLACEMENTS]


@contextlib.contextmanager
def differentiable_twice() -> Iterator[None]:
    """Have torch compute functions in ways that have correct derivatives.

    Gradient checkpointing is switched off: it would compute intermediate results again
    during the backward pass, when `torch.func.functional_call` has put the module's own
    parameters back."""
    fast = torch.backends.mha.get_fastpath_enabled()
    torch.backends.mha.set_fastpath_enabled(False)
    for module, name, function in _REPLACEMENTS:
        setattr(module, name, function)
    try:
        with sdpa_kernel(SDPBackend.MATH):
            yield
    finally:
        for (module, name, _), function in zip(_REPLACEMENTS, _ORIGINALS, strict=True):
            setattr(module, name, function)
        torch.backends.mha.set_fastpath_enabled(fast)


def value_and_gradient(
    loss: FlatLoss, row: torch.Tensor, *arguments: Any
) -> tuple[torch.Tensor, torch.Tensor]:
    """A loss and its gradient (parameter,), zero if it does not depend on the row."""
    with _recorded_operations():
        leaf = row.detach().clone().requires_grad_()
        value = loss(leaf, *arguments)
        return value.detach(), _derivative(value, leaf).detach()


def depends_on(loss: FlatLoss, row: torch.Tensor) -> bool:
    """Whether torch computes a loss from the parameters, even if its gradient is 0."""
    with _recorded_operations():
        leaf = row.detach().clone().requires_grad_()
        value = loss(leaf)
        if not value.requires_grad:
            return False
        (gradient,) = torch.autograd.grad(value, leaf, allow_unused=True)
        return gradient is not None


def hessian_vector_product(
    loss: FlatLoss, row: torch.Tensor
) -> Callable[[torch.Tensor], torch.Tensor]:
    """The product of the Hessian at flat parameters (parameter,) with a vector, or with
    the rows of a matrix (vector, parameter), as a function of them.

    It uses two backward passes, the first of which is done once.

    >>> row = torch.tensor([1.0, 2.0], dtype=torch.float64)
    >>> hessian_vector_product(lambda row: (row**3).sum(), row)(torch.ones(2).double())
    tensor([ 6., 12.], dtype=torch.float64)
    """
    with _recorded_operations():
        leaf = row.detach().clone().requires_grad_()
        gradient = _derivative(loss(leaf), leaf, create_graph=True)

    def product(vectors: torch.Tensor) -> torch.Tensor:
        with _recorded_operations():
            return _derivative(
                gradient,
                leaf,
                grad_outputs=vectors.to(gradient),
                retain_graph=True,
                is_grads_batched=vectors.ndim > 1,
            ).detach()

    return product


def _derivative(
    value: torch.Tensor, leaf: torch.Tensor, **options: Any
) -> torch.Tensor:
    """The derivative by a leaf; zeros if there is none."""
    if not value.requires_grad:
        return torch.zeros_like(options.get("grad_outputs", leaf))
    (result,) = torch.autograd.grad(
        value, leaf, allow_unused=True, materialize_grads=True, **options
    )
    return result


@contextlib.contextmanager
def _recorded_operations() -> Iterator[None]:
    """Record operations for derivatives, whatever the caller has switched off."""
    with torch.inference_mode(False), torch.enable_grad():
        yield


def gradient_fault(loss: FlatLoss, row: torch.Tensor) -> str:
    """What is wrong with the gradient that torch computes, in words; empty if the central
    difference of the loss along it agrees with its norm."""
    value, gradient = value_and_gradient(loss, row)
    size = float(gradient.norm())
    direction = gradient / size if size else torch.ones_like(row) / row.numel() ** 0.5
    tolerance, rounding = _accuracy(value)
    rounding *= abs(float(value))
    differences = _central_differences(loss, row, direction)
    for step, difference in differences:
        if abs(float(difference) - size) <= tolerance * size + rounding / step:
            return ""
    return (
        f"its gradient has the norm {size:.4g}, but the central difference of the loss"
        f" along it is {float(difference):.4g}"
    )


def hessian_fault(loss: FlatLoss, row: torch.Tensor) -> str:
    """What is wrong with the Hessian that torch computes, in words; empty if a product
    with it agrees with its transpose and with a central difference of the gradient."""
    generator = torch.Generator().manual_seed(0)
    directions = torch.randn(2, len(row), generator=generator, dtype=torch.float64)
    directions = (directions / directions.norm(dim=1, keepdim=True)).to(row)
    product = hessian_vector_product(loss, row)
    products = torch.stack([product(direction) for direction in directions])
    if not products.isfinite().all():
        return "its Hessian is not finite"
    value, gradient = value_and_gradient(loss, row)
    tolerance, rounding = _accuracy(value)
    size = float(products.norm(dim=1).max())
    left, right = (directions @ products.T)[[0, 1], [1, 0]].tolist()
    if abs(left - right) > max(1e-4 * tolerance, rounding) * size:
        return (
            f"its Hessian is not symmetric: u.Hv is {left:.4g} and v.Hu is {right:.4g}"
            " for unit vectors"
        )
    rounding *= float(gradient.norm())
    differences = _central_differences(
        lambda place: value_and_gradient(loss, place)[1], row, directions[0]
    )
    for step, difference in differences:
        error = float((difference - products[0]).norm())
        if error <= tolerance * size + rounding / step:
            return ""
    return (
        f"the product of its Hessian with a unit vector, of length"
        f" {float(products[0].norm()):.4g}, differs by {error:.4g} from the central"
        " difference of the gradient"
    )


def _accuracy(value: torch.Tensor) -> tuple[float, float]:
    """The relative tolerance of differences of a loss, and its rounding error."""
    return (1e-3, 1e-14) if value.dtype == torch.float64 else (3e-2, 1e-5)


def _central_differences(
    function: Callable[[torch.Tensor], torch.Tensor],
    row: torch.Tensor,
    direction: torch.Tensor,
) -> Iterator[tuple[float, torch.Tensor]]:
    """Steps and central differences of a function along a unit vector. Large steps suit
    functions with rounding errors, small ones those with kinks; a correct derivative
    agrees at one of them."""
    scale = float(row.norm()) or 1.0
    for exponent in range(2, 10):
        step = scale * 10.0**-exponent
        shift = step * direction
        with torch.no_grad():
            change = function(row + shift) - function(row - shift)
        yield step, change / (2 * step)


def mapped(
    batched: Callable[..., Any],
    single: Callable[..., Any],
    in_dims: tuple[int | None, ...],
    chunk_size: int | None = None,
) -> Callable[..., Any]:
    """`batched` under `torch.func.vmap`; where this is refused, `single` for one entry
    after the other, and its results stacked."""
    vectorised: Any = torch.func.vmap(
        batched, in_dims, randomness="error", chunk_size=chunk_size
    )
    is_refused = False

    def run(*arguments: torch.Tensor) -> Any:
        nonlocal is_refused
        if not is_refused:
            try:
                return tree_map(torch.Tensor.detach, vectorised(*arguments))
            except Exception:  # of many classes; an error of the loss is raised again
                is_refused = True
        count = next(
            len(values)
            for values, dim in zip(arguments, in_dims, strict=True)
            if dim == 0
        )
        results = [
            single(
                *(
                    values if dim is None else values[index]
                    for values, dim in zip(arguments, in_dims, strict=True)
                )
            )
            for index in range(count)
        ]
        return tree_map(lambda *values: torch.stack(values).detach(), *results)

    return run


def mapped_gradient(
    loss: FlatLoss, in_dims: tuple[int | None, ...], chunk_size: int | None = None
) -> Callable[..., tuple[torch.Tensor, torch.Tensor]]:
    """The values and the gradients (entry, parameter) of a loss of flat parameters and
    further arguments, of which those with an axis in `in_dims` have many entries."""

    def batched(*arguments: Any) -> tuple[torch.Tensor, torch.Tensor]:
        gradient, value = torch.func.grad_and_value(loss)(*arguments)
        return value, gradient

    def single(*arguments: Any) -> tuple[torch.Tensor, torch.Tensor]:
        return value_and_gradient(loss, *arguments)

    return mapped(batched, single, in_dims, chunk_size)
