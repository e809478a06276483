"""Norms of the gradients and updates of a model, measured around the steps of its
optimizers.

The gradients are those that the optimizer uses: after accumulation over several
backward passes, after clipping, and after a gradient scaler has divided them by its
scale."""

import fnmatch
import itertools
from collections.abc import Callable, Mapping, Sequence
from typing import Any, NamedTuple

import numpy as np
import torch

from dynamics.recording.quantities import near_names
from dynamics.settings import SettingsError

Layers = Mapping[str, str | Sequence[str]]
"""Patterns of parameter names, such as "blocks.*.mlp.*", by the name of a layer."""


def parameter_ids(optimizers: Sequence[torch.optim.Optimizer]) -> set[int]:
    """The identities of the parameters that the optimizers train."""
    return {
        id(parameter)
        for optimizer in optimizers
        for group in optimizer.param_groups
        for parameter in group["params"]
    }


def group_parameters(
    model: torch.nn.Module,
    optimizers: Sequence[torch.optim.Optimizer],
    layers: Layers | None,
) -> dict[str, list[torch.nn.Parameter]]:
    """The parameters that the optimizers train, by layer: each parameter is a layer,
    unless `layers` groups them.

    Raises SettingsError if a pattern matches nothing or a parameter is in two layers.
    """
    trained = parameter_ids(optimizers)
    named = {
        name: parameter
        for name, parameter in model.named_parameters()
        if id(parameter) in trained
    }
    if not named:
        raise SettingsError(
            "optimizer",
            "no parameter of the model",
            "an optimizer of this model's parameters",
        )
    if layers is None:
        return {name: [parameter] for name, parameter in named.items()}
    if not layers:
        raise SettingsError("layers", "no layer", "one layer or more, or None")
    groups: dict[str, list[torch.nn.Parameter]] = {}
    layer_of: dict[str, str] = {}
    for layer, patterns in layers.items():
        patterns = [patterns] if isinstance(patterns, str) else list(patterns)
        for pattern in patterns:
            names = fnmatch.filter(named, pattern)
            if not names:
                raise SettingsError(
                    f"layers[{layer!r}]", repr(pattern), near_names(pattern, named)
                )
            for name in names:
                if layer_of.setdefault(name, layer) != layer:
                    raise SettingsError(
                        f"layers[{layer!r}]",
                        name,
                        f"one layer each; it is in {layer_of[name]!r} too",
                    )
        groups[layer] = [
            parameter
            for name, parameter in named.items()
            if layer_of.get(name) == layer
        ]
    return groups


class UpdateNorms:
    """Counts the updates of a model's optimizers, and measures the norms of the last
    one. The norms stay on the device until they are read.

    is_wanted: called with the number of an update that was made; whether its norm is
    measured at once, and not when it is read. gradient_used: called
    with the index of an optimizer and the number of its updates before, while the
    parameters have the gradients of its next one. If a step computes the gradients
    itself, in a closure, they are those of its last evaluation: with several of them,
    as by LBFGS, at weights within the step."""

    def __init__(
        self,
        groups: Mapping[str, Sequence[torch.nn.Parameter]],
        optimizers: Sequence[torch.optim.Optimizer],
        is_wanted: Callable[[int], bool],
        gradient_used: Callable[[int, int], None],
    ) -> None:
        self.groups = groups
        self.is_wanted = is_wanted
        self.gradient_used = gradient_used
        self.counts = [0] * len(optimizers)
        self._before: list[list[torch.Tensor]] = [[] for _ in optimizers]
        self._is_due = [False] * len(optimizers)
        """Whether the norm of the last update is still to be measured."""
        self._owned = []
        for optimizer in optimizers:
            ids = parameter_ids([optimizer])
            owned = [
                [p for p in members if id(p) in ids] for members in groups.values()
            ]
            self._owned.append(owned)
        nothing = _GroupNorms([], [0] * len(groups), 1.0)
        self._gradient, self._update = ([nothing] * len(optimizers) for _ in range(2))
        self._last_gradient = nothing
        """Norms of the gradient before the update that is being made."""
        self._hooks = []
        for index, optimizer in enumerate(optimizers):
            before, after = self._before_update(index), self._after_update(index)
            self._hooks.append(optimizer.register_step_pre_hook(before))
            self._hooks.append(optimizer.register_step_post_hook(after))

    @property
    def gradient(self) -> np.ndarray:
        """Norms (layer,) of the gradient that the last update used, float32."""
        return _joint_norms(self._gradient)

    @property
    def update(self) -> np.ndarray:
        """Norms (layer,) of the last update, float32."""
        for index in np.flatnonzero(self._is_due).tolist():
            self._measure_update(index)
        return _joint_norms(self._update)

    @property
    def updates(self) -> int:
        """Number of updates: the largest of the optimizers' counts."""
        return max(self.counts)

    def remove(self) -> None:
        """Remove the hooks from the optimizers."""
        for hook in self._hooks:
            hook.remove()

    def _before_update(self, index: int) -> Callable[..., None]:
        def hook(
            optimizer: torch.optim.Optimizer, args: tuple, kwargs: Mapping[str, Any]
        ) -> None:
            self._last_gradient = self._gradient[index]
            self._keep_weights(index)
            if not has_closure(args, kwargs):  # else the step computes the gradients
                self._read_gradient(index, optimizer)

        return hook

    def _after_update(self, index: int) -> Callable[..., None]:
        def hook(
            optimizer: torch.optim.Optimizer, args: tuple, kwargs: Mapping[str, Any]
        ) -> None:
            # set by a gradient scaler for fused optimizers
            skipped = getattr(optimizer, "found_inf", None)
            if skipped is not None and bool(torch.as_tensor(skipped).any()):
                self._gradient[index] = self._last_gradient
                return
            if has_closure(args, kwargs):
                self._read_gradient(index, optimizer)
            self.counts[index] += 1
            self._is_due[index] = True
            if self.is_wanted(self.counts[index]):
                self._measure_update(index)

        return hook

    def _weights(self, index: int) -> list[torch.Tensor]:
        """The parameters of an optimizer, layer by layer."""
        return list(itertools.chain.from_iterable(self._owned[index]))

    @torch.no_grad()
    def _keep_weights(self, index: int) -> None:
        weights = self._weights(index)
        if not self._before[index]:
            self._before[index] = [torch.empty_like(weight) for weight in weights]
        torch._foreach_copy_(self._before[index], weights)

    def _read_gradient(self, index: int, optimizer: torch.optim.Optimizer) -> None:
        self.gradient_used(index, self.counts[index])
        gradients = [
            [parameter.grad for parameter in members if parameter.grad is not None]
            for members in self._owned[index]
        ]
        self._gradient[index] = _group_norms(gradients, loss_scale(optimizer))

    @torch.no_grad()
    def _measure_update(self, index: int) -> None:
        self._is_due[index] = False
        moved = iter(torch._foreach_sub(self._weights(index), self._before[index]))
        groups = [[next(moved) for _ in members] for members in self._owned[index]]
        self._update[index] = _group_norms(groups)


def loss_scale(optimizer: torch.optim.Optimizer) -> float:
    """The factor by which a fused optimizer multiplies gradients in its step, because a
    gradient scaler left it to."""
    scale = getattr(optimizer, "grad_scale", None)
    return 1.0 if scale is None else 1.0 / float(scale)


def has_closure(args: tuple, kwargs: Mapping[str, Any]) -> bool:
    """Whether a step of an optimizer, with the arguments that its hooks are given,
    computes the gradients itself."""
    return any(callable(argument) for argument in (*args[1:], *kwargs.values()))


class _GroupNorms(NamedTuple):
    """Norms of tensors, and how many of them, in order, belong to each group."""

    norms: list[torch.Tensor]
    counts: list[int]
    scale: float
    """Factor of all norms."""


def _group_norms(
    groups: Sequence[Sequence[torch.Tensor]], scale: float = 1.0
) -> _GroupNorms:
    tensors = [
        tensor.coalesce().values() if tensor.is_sparse else tensor
        for tensor in itertools.chain.from_iterable(groups)
    ]
    halves = (torch.float16, torch.bfloat16)
    wide = [tensor.float() if tensor.dtype in halves else tensor for tensor in tensors]
    norms = list(torch._foreach_norm(wide)) if wide else []
    return _GroupNorms(norms, list(map(len, groups)), scale)


def _joint_norms(optimizers: Sequence[_GroupNorms]) -> np.ndarray:
    """The norm of each group over the parts that several optimizers own, (group,)
    float32."""
    squares = np.zeros((len(optimizers), len(optimizers[0].counts)))
    for row, (norms, counts, scale) in zip(squares, optimizers, strict=True):
        values = [norm.to("cpu", torch.float64) for norm in norms]
        places = iter((torch.stack(values) ** 2).tolist() if values else [])
        row[:] = [sum(next(places) for _ in range(n)) * scale**2 for n in counts]
    return np.sqrt(squares.sum(axis=0)).astype(np.float32)
