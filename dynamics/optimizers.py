"""Optimizers as values, and schedules of the learning rate.

An optimizer changes every weight by itself. Its update is one function of scalars: of the
gradient, the weight, the moments, and numbers that all weights of a variable share. The
same function is compiled for SIMD lanes, applied to tensors of torch on every device,
and to arrays of NumPy. With g the gradient and t the number of the update, from 1:

    SGD    g + weight_decay w -> g;  b = momentum b + g;  w -= lr b
    Adam   g + weight_decay w -> g;  m = beta1 m + (1 - beta1) g
           v = beta2 v + (1 - beta2) g²
           w -= lr m / (1 - beta1^t) / (sqrt(v / (1 - beta2^t)) + eps)
    AdamW  w -= lr weight_decay w, then as Adam without the first term

`register_optimizer` adds others. The functions of this module (`sign`, `square_root`,
`absolute`, `maximum`, `minimum`, `multiply_add`) and + - * / are what an update may use.
This module imports no large package."""

import dataclasses
import functools
import inspect
import math
from collections.abc import Callable, Iterable, Mapping
from typing import Any

import lazy_loader as lazy

from dynamics.errors import SettingsError
from dynamics.own_functions import Registry, frozen_copy, source_digest

np = lazy.load("numpy")

HYPERPARAMETERS = ("lr", "weight_decay", "beta1", "beta2", "momentum", "eps")
"""Settings that an update may use, by the names of its arguments."""

NUMBERS = (*HYPERPARAMETERS, "step", "bias_correction1", "bias_correction2")
"""All numbers that an update may use: the settings, the number of the update from 1, and
1 - beta1**step and 1 - beta2**step."""

STATE_NAMES = (
    "step",
    "seeds",
    "weights",
    "updates",
    "gradient_norm",
    "update_norm",
    "last_step",
    "batch_seeds",
)
"""What else restart states contain; no moment has these names."""

# ------------------------------------------------------------------- functions of updates


def multiply_add(left: Any, right: Any, added: Any) -> Any:
    """left * right + added; on SIMD lanes with one rounding."""
    return left * right + added


def square_root(x: Any) -> Any:
    """The square root."""
    if isinstance(x, float):
        return math.sqrt(x)
    return x.sqrt() if hasattr(x, "sqrt") else np.sqrt(x)


def sign(x: Any) -> Any:
    """-1, 0 or 1, as x is negative, zero or positive."""
    return x.sign() if hasattr(x, "sign") else np.sign(x)


def absolute(x: Any) -> Any:
    """The absolute value."""
    return abs(x)


def maximum(x: Any, y: Any) -> Any:
    """The larger of two numbers, of which the first belongs to a weight."""
    return x.clamp(min=y) if hasattr(x, "clamp") else np.maximum(x, y)


def minimum(x: Any, y: Any) -> Any:
    """The smaller of two numbers, of which the first belongs to a weight."""
    return x.clamp(max=y) if hasattr(x, "clamp") else np.minimum(x, y)


FUNCTIONS = (multiply_add, square_root, sign, absolute, maximum, minimum)
"""What an update may call."""


# ------------------------------------------------------------------------------ the value


@dataclasses.dataclass(frozen=True)
class Preconditioner:
    """How an optimizer with second moments scales the gradient: what analyses of
    curvature need of it. Each function takes the numbers and moments that its arguments
    name.

    Parameters
    ----------
    second_moment : callable
        The mean squared gradient without bias, of the moments and of the numbers of
        `Optimizer.update`.
    scale : callable
        The preconditioner P of `second_moment` and numbers: an update is -lr m / P with
        a mean m of gradients.
    limit : callable
        The eigenvalue of P^-1/2 H P^-1/2, with the Hessian H, above which updates are
        unstable; `stability_limit` computes it for Adam.
    """

    second_moment: Callable[..., Any]
    scale: Callable[..., Any]
    limit: Callable[..., float]


@dataclasses.dataclass(frozen=True, eq=False)
class Optimizer:
    """An optimizer that changes every weight by itself.

    Parameters
    ----------
    name : str
        The name that the setting `optimizer` has.
    update : callable
        Returns the new weight and the new moments in the order of `moments`; without
        moments the weight alone. Its arguments are the gradient, the weight, the moments,
        and by their names numbers of `NUMBERS`; further ones have defaults. It consists
        of + - * / and `FUNCTIONS`.
    moments : tuple of str, optional
        Names of the moments, which are zero before the first update. Restart states
        contain them.
    preconditioner : Preconditioner, optional
        What analyses of preconditioned curvature need.
    if_zero : mapping of str to Optimizer, optional
        Simpler optimizers that this one is if a hyperparameter is zero.
    in_torch : callable, optional
        Name and options of the class in torch.optim with the same update, as a function
        of hyperparameters; torch applies `update` without it.
    limit : callable, optional
        The eigenvalue of the Hessian above which updates are unstable, as a function of
        hyperparameters, by their names, such as `stability_limit` of them. Without it
        analyses compare eigenvalues with 2 / lr, and say that this is the limit of
        gradient descent.
    decay_in_gradient : bool, optional
        Whether the weight decay is added to the gradient. Limits are then those of the
        Hessian plus the weight decay.

    Raises
    ------
    SettingsError
        If the arguments or the result of the update are not as described.

    Examples
    --------
    >>> from dynamics.optimizers import Optimizer, sign
    >>> def descend(gradient, weight, lr):
    ...     return weight - lr * sign(gradient)
    >>> Optimizer("sign_descent", descend).hyperparameters
    ('lr',)
    """

    name: str
    update: Callable[..., Any]
    moments: tuple[str, ...] = ()
    preconditioner: Preconditioner | None = None
    if_zero: Mapping[str, "Optimizer"] = dataclasses.field(default_factory=dict)
    in_torch: Callable[..., tuple[str, dict[str, Any]]] | None = None
    limit: Callable[..., float] | None = None
    decay_in_gradient: bool = False

    def __post_init__(self) -> None:
        if not isinstance(self.name, str) or not self.name.isidentifier():
            raise SettingsError("name of an optimizer", self.name, "an identifier")
        object.__setattr__(self, "moments", tuple(self.moments))
        for name in self.moments:
            if not name.isidentifier() or name in STATE_NAMES:
                allowed = f"identifiers other than {', '.join(STATE_NAMES)}"
                raise SettingsError(f"moments of {self.name}", name, allowed)
        self._check_arguments()

    @property
    def numbers(self) -> tuple[str, ...]:
        """The numbers that the update uses, in the order of its arguments."""
        return tuple(name for name in _arguments(self.update) if name in NUMBERS)

    @property
    def hyperparameters(self) -> tuple[str, ...]:
        """The settings that the update uses."""
        corrections = {"bias_correction1": "beta1", "bias_correction2": "beta2"}
        used = [corrections.get(name, name) for name in self.numbers]
        return tuple(name for name in HYPERPARAMETERS if name in used)

    @functools.cached_property
    def digest(self) -> str:
        """A digest of the source of the update and of the names of the moments. Raises
        SettingsError without a source."""
        simpler = [item.digest for item in self.if_zero.values()]
        field = f"update of {self.name}"
        return source_digest(self.update, field, FUNCTIONS, [*self.moments, *simpler])

    def apply(
        self, gradient: Any, weight: Any, moments: Iterable[Any], numbers: Mapping
    ) -> tuple[Any, ...]:
        """The new weight and moments, of arrays or tensors; numbers: by name."""
        result = self.update(
            gradient, weight, *moments, **{name: numbers[name] for name in self.numbers}
        )
        return result if self.moments else (result,)

    def with_hyperparameters(self, values: Mapping[str, float]) -> "Optimizer":
        """This optimizer, or the simpler one that it is with these values."""
        for name, simpler in self.if_zero.items():
            if values[name] == 0:
                return simpler
        return self

    def _check_arguments(self) -> None:
        allowed = (
            "a function of gradient, weight, moments, and numbers among"
            f" {', '.join(NUMBERS)}, or others with defaults"
        )
        field = f"update of {self.name}"
        names = list(_arguments(self.update))
        if len(names) < 2 + len(self.moments):
            raise SettingsError(field, f"{len(names)} arguments", allowed)
        for name, argument in list(_arguments(self.update).items())[
            2 + len(self.moments) :
        ]:
            if (name in NUMBERS) == (argument.default is not argument.empty):
                raise SettingsError(field, f"the argument {argument}", allowed)

    def check_result(self) -> None:
        """Raise SettingsError unless the update of two weights, and the preconditioner
        of their moments, give finite numbers."""
        values = np.linspace([0.5, 0.6], [0.75, 0.8], 2 + len(self.moments))
        numbers = dict.fromkeys(NUMBERS, 0.5)
        names = ", ".join(function.__name__ for function in FUNCTIONS)
        allowed = "the new weight" + "".join(f", {name}" for name in self.moments)
        allowed = f"finite numbers, {allowed}, by + - * / and {names}, without branches"
        shape = values[0].shape
        found = _finite_results(
            lambda: self.apply(values[0], values[1], values[2:], numbers), shape
        )
        if found != 1 + len(self.moments):
            words = f"{found} results" if isinstance(found, int) else found
            raise SettingsError(f"update of {self.name}", words, allowed)
        if self.limit is not None:
            found = _finite_results(
                functools.partial(call_by_names, self.limit, numbers), ()
            )
            if found != 1:
                allowed = f"a finite number, from arguments among {', '.join(NUMBERS)}"
                raise SettingsError(f"limit of {self.name}", found, allowed)
        if (p := self.preconditioner) is None:
            return
        known = {**numbers, **dict(zip(self.moments, values[2:], strict=True))}
        for name, further in (
            ("second_moment", {}),
            ("scale", {"second_moment": values[0]}),
            ("limit", {}),
        ):
            function = getattr(p, name)
            size = () if name == "limit" else shape
            compute = functools.partial(call_by_names, function, known | further)
            found = _finite_results(compute, size)
            if found != 1:
                arguments = ", ".join([*self.moments, "second_moment", *NUMBERS])
                field = f"{name} of the preconditioner of {self.name}"
                allowed = f"a finite number, from arguments among {arguments}"
                raise SettingsError(field, found, allowed)


def _finite_results(compute: Callable[[], Any], shape: tuple[int, ...]) -> int | str:
    """How many results of a shape a function of the user returns, one or a tuple of
    them, or what is wrong with them."""
    try:
        returned = compute()
        if not isinstance(returned, tuple):
            returned = (returned,)
        results = [np.asarray(value, float) for value in returned]
        wrong = [value for value in results if not np.isfinite(value).all()]
        others = [value.shape for value in results if value.shape != shape]
    except Exception as error:
        return f"{type(error).__name__}: {error}"
    if wrong:
        return f"the result {wrong[0]}"
    return f"a result of shape {others[0]}" if others else len(results)


def _arguments(function: Callable[..., Any]) -> Mapping[str, inspect.Parameter]:
    return inspect.signature(function).parameters


def call_by_names(function: Callable[..., Any], values: Mapping[str, Any]) -> Any:
    """The result of a function for those values that its arguments name."""
    names = _arguments(function)
    return function(**{name: values[name] for name in names if name in values})


def stability_limit(
    lr: Any,
    momentum: Any = 0.0,
    *,
    nesterov: Any = False,
    dampening: Any = 0.0,
    decoupled_decay: Any = 0.0,
) -> Any:
    """The eigenvalue of the Hessian above which an optimizer diverges on a quadratic
    loss.

    The update of the weights w with the gradient g is

        b = momentum b + (1 - dampening) g
        w = (1 - lr decoupled_decay) w - lr b

    with g + momentum b in place of b for Nesterov's momentum. Weight decay that is added
    to the gradient is a part of the Hessian: the limit is that of the eigenvalues of
    H + weight_decay. Adam with a preconditioner P that does not change has beta1 as
    `momentum` and as `dampening`; the limit is that of P^-1/2 H P^-1/2.

    Parameters
    ----------
    lr, momentum, dampening, decoupled_decay : float or array
        The numbers of the optimizer. As in torch, `dampening` without momentum has no
        effect.
    nesterov : bool or array of bool

    Returns
    -------
    float or array
        Infinite if lr is 0, and 0 if the weight decay alone diverges.

    Examples
    --------
    >>> float(stability_limit(0.5))
    4.0
    >>> float(stability_limit(0.5, 0.75)), float(stability_limit(0.5, 0.75, nesterov=True))
    (7.0, 2.8)
    """
    numbers = (lr, momentum, dampening, decoupled_decay)
    lr, momentum, dampening, decay = (np.asarray(item, float) for item in numbers)
    gain = lr * np.where(momentum == 0, 1, 1 - dampening)
    gain = gain * np.where(nesterov, 1 + 2 * momentum, 1)
    with np.errstate(divide="ignore"):
        return (np.maximum(2 - lr * decay, 0) * (1 + momentum) / gain)[()]


def update_numbers(hyperparameters: Mapping[str, Any], step: Any) -> dict[str, Any]:
    """The values of `NUMBERS` in an update; step: its number, from 1."""
    return {
        **hyperparameters,
        "step": step,
        "bias_correction1": 1 - hyperparameters["beta1"] ** step,
        "bias_correction2": 1 - hyperparameters["beta2"] ** step,
    }


# ------------------------------------------------------------------------------- built in


def _descend(gradient: Any, weight: Any, lr: Any, weight_decay: Any) -> Any:
    gradient = multiply_add(weight, weight_decay, gradient)
    return multiply_add(gradient, -lr, weight)


def _descend_with_momentum(
    gradient: Any,
    weight: Any,
    momentum_buffer: Any,
    lr: Any,
    weight_decay: Any,
    momentum: Any,
) -> Any:
    gradient = multiply_add(weight, weight_decay, gradient)
    momentum_buffer = multiply_add(momentum_buffer, momentum, gradient)
    return multiply_add(momentum_buffer, -lr, weight), momentum_buffer


def _adam(
    gradient: Any,
    weight: Any,
    exp_avg: Any,
    exp_avg_sq: Any,
    lr: Any,
    weight_decay: Any,
    beta1: Any,
    beta2: Any,
    eps: Any,
    bias_correction1: Any,
    bias_correction2: Any,
) -> Any:
    gradient = multiply_add(weight, weight_decay, gradient)
    exp_avg = multiply_add(exp_avg, beta1, gradient * (1 - beta1))
    exp_avg_sq = multiply_add(exp_avg_sq, beta2, gradient * gradient * (1 - beta2))
    size = 1 / square_root(bias_correction2)
    scale = multiply_add(square_root(exp_avg_sq), size, eps)
    weight = multiply_add(exp_avg / scale, -lr / bias_correction1, weight)
    return weight, exp_avg, exp_avg_sq


def _adamw(
    gradient: Any,
    weight: Any,
    exp_avg: Any,
    exp_avg_sq: Any,
    lr: Any,
    weight_decay: Any,
    beta1: Any,
    beta2: Any,
    eps: Any,
    bias_correction1: Any,
    bias_correction2: Any,
) -> Any:
    weight = weight * (1 - lr * weight_decay)
    exp_avg = multiply_add(exp_avg, beta1, gradient * (1 - beta1))
    exp_avg_sq = multiply_add(exp_avg_sq, beta2, gradient * gradient * (1 - beta2))
    size = 1 / square_root(bias_correction2)
    scale = multiply_add(square_root(exp_avg_sq), size, eps)
    weight = multiply_add(exp_avg / scale, -lr / bias_correction1, weight)
    return weight, exp_avg, exp_avg_sq


def _adam_second_moment(exp_avg_sq: Any, bias_correction2: Any) -> Any:
    return exp_avg_sq / bias_correction2


def _adam_scale(second_moment: Any, eps: Any, bias_correction1: Any) -> Any:
    return bias_correction1 * (square_root(second_moment) + eps)


def _adam_limit(lr: float, beta1: float) -> float:
    return stability_limit(lr, beta1, dampening=beta1)


def _adamw_limit(lr: float, beta1: float, weight_decay: float) -> float:
    return stability_limit(lr, beta1, dampening=beta1, decoupled_decay=weight_decay)


ADAM_PRECONDITIONER = Preconditioner(_adam_second_moment, _adam_scale, _adam_limit)
"""That of Adam (Cohen et al. 2022, arXiv 2207.14484)."""

_MOMENTS = ("exp_avg", "exp_avg_sq")

SGD = Optimizer(
    "sgd",
    _descend_with_momentum,
    ("momentum_buffer",),
    limit=stability_limit,
    decay_in_gradient=True,
    if_zero={
        "momentum": Optimizer(
            "sgd",
            _descend,
            limit=stability_limit,
            decay_in_gradient=True,
            in_torch=lambda: ("SGD", {}),
        ),
    },
    in_torch=lambda momentum: ("SGD", {"momentum": momentum}),
)
"""Gradient descent with momentum."""


def _adam_options(beta1: float, beta2: float, eps: float) -> dict[str, Any]:
    return {"betas": (beta1, beta2), "eps": eps}


ADAM = Optimizer(
    "adam",
    _adam,
    _MOMENTS,
    ADAM_PRECONDITIONER,
    decay_in_gradient=True,
    in_torch=lambda beta1, beta2, eps: ("Adam", _adam_options(beta1, beta2, eps)),
)
"""Adam (Kingma and Ba 2015, arXiv 1412.6980), with weight decay in the gradient."""

ADAMW = Optimizer(
    "adamw",
    _adamw,
    _MOMENTS,
    dataclasses.replace(ADAM_PRECONDITIONER, limit=_adamw_limit),
    in_torch=lambda beta1, beta2, eps: ("AdamW", _adam_options(beta1, beta2, eps)),
)
"""Adam with decoupled weight decay (Loshchilov and Hutter 2019, arXiv 1711.05101)."""

# ------------------------------------------------------------------------------- registry

_OPTIMIZERS = Registry("an optimizer", (SGD, ADAM, ADAMW))
BUILT_IN = _OPTIMIZERS.built_in

find_identity = _OPTIMIZERS.identity


def register_optimizer(optimizer: Optimizer) -> Optimizer:
    """Register an optimizer, so that settings can name it.

    Files contain its name and a digest of the source of its update; what continues or
    analyses them must register the same. A later registration of the same name replaces
    an earlier one for new settings.

    Parameters
    ----------
    optimizer : Optimizer

    Returns
    -------
    Optimizer
        The same.

    Raises
    ------
    SettingsError
        If the name is that of a built-in optimizer, or the update has no source or
        refers to other things than numbers and `FUNCTIONS`.
    """
    _OPTIMIZERS.check_name(optimizer.name)
    optimizer.check_result()
    _OPTIMIZERS.add(_frozen(optimizer), optimizer.digest)
    return optimizer


def _frozen(optimizer: Optimizer) -> Optimizer:
    """The optimizer with updates that keep the numbers that they refer to."""
    return dataclasses.replace(
        optimizer,
        update=frozen_copy(optimizer.update),
        if_zero={name: _frozen(item) for name, item in optimizer.if_zero.items()},
    )


def optimizer_names() -> tuple[str, ...]:
    """Names of all optimizers."""
    return tuple(dict.fromkeys(item.name for item in _OPTIMIZERS.values))


def optimizers_with(hyperparameter: str) -> tuple[str, ...]:
    """Names of the optimizers that use a hyperparameter."""
    names = [
        item.name
        for item in _OPTIMIZERS.values
        if hyperparameter in item.hyperparameters
    ]
    return tuple(dict.fromkeys(names))


def find_optimizer(identity: str) -> Optimizer:
    """The optimizer that `find_identity` has identified."""
    optimizer = _OPTIMIZERS.find(identity)
    assert optimizer is not None
    return optimizer
