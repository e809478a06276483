"""Norms of the gradients and updates of a model, measured around the steps of the
optimizers that train it.

The gradients are those that the optimizer uses: after accumulation over several
backward passes, after clipping, and after a gradient scaler has divided them by its
scale."""

import dataclasses
import fnmatch
import functools
import weakref
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any

import numpy as np
import torch
from torch.optim.optimizer import register_optimizer_step_pre_hook

from dynamics.recording.quantities import (
    check_mapping,
    named_parameters,
    near_names,
)
from dynamics.settings import SettingsError

Layers = Mapping[str, str | Sequence[str]]
"""Patterns of parameter names, such as "blocks.*.mlp.*", by the name of a layer."""


def parameters_of(optimizer: Any) -> list[torch.nn.Parameter]:
    """The parameters of an optimizer, group by group."""
    return [item for group in optimizer.param_groups for item in group["params"]]


def trained_identities(optimizers: Iterable[Any]) -> set[int]:
    """The identities of the parameters of several optimizers."""
    return {id(item) for one in optimizers for item in parameters_of(one)}


class ModelLayers:
    """The layers of which norms are recorded, and the parameters that each has now.

    By default each parameter that an optimizer trains is a layer; `patterns` groups
    them. A parameter that takes the name of another one also takes its layer. Raises
    SettingsError if a pattern matches nothing or a parameter is in two layers."""

    def __init__(
        self,
        model: torch.nn.Module,
        optimizers: Sequence[Any],
        patterns: Layers | None,
    ) -> None:
        trained = trained_identities(optimizers)
        named = named_parameters(model)
        names = [name for name, item in named.items() if id(item) in trained]
        if not names:
            raise SettingsError(
                "optimizer",
                "no parameter of the model",
                "an optimizer of this model's parameters",
            )
        if patterns is not None:
            check_mapping("layers", patterns, "patterns of parameter names by name")
        self.model = model
        self.patterns = patterns
        self.layer_of = (
            {name: name for name in names}
            if patterns is None
            else _layers_by_pattern(names, patterns)
        )
        self.names = list(dict.fromkeys(patterns or names))
        self.parameters: dict[str, torch.nn.Parameter] = {}
        """All parameters of the model by their present names."""
        self.layers: dict[int, str] = {}
        """The layer of a parameter by its identity."""
        self.known: set[int] = set()
        """Identities of parameters that the model had at first, or of their names."""
        self._first_names = set(named)
        self.refresh()

    def definition(self) -> dict[str, list[str]]:
        """The names of the parameters of each layer at the beginning."""
        members: dict[str, list[str]] = {name: [] for name in self.names}
        for name, layer in self.layer_of.items():
            members[layer].append(name)
        return members

    def refresh(self) -> None:
        """Find the present parameters of the model."""
        known = self.known
        before = {
            id(item): self.layers.get(id(item)) for item in self.parameters.values()
        }
        self.parameters = named_parameters(self.model)
        self.known = {
            id(item)
            for name, item in self.parameters.items()
            if name in self._first_names or id(item) in known
        }
        self.layers = {}
        for name, item in self.parameters.items():
            layer = before.get(id(item)) or self.layer_of.get(name)
            if layer is None and self.patterns is not None:
                layer = next(iter(_matching_layers(name, self.patterns)), None)
            if layer is not None:
                self.layers[id(item)] = layer

    def recorded_parameters(self) -> dict[str, torch.nn.Parameter]:
        """The parameters that are in a layer, by their present names."""
        return {
            name: item
            for name, item in self.parameters.items()
            if id(item) in self.layers
        }

    def not_finite(self) -> str:
        """The name of a parameter in a layer with a value that is not finite; empty if
        there is none."""
        parameters = self.recorded_parameters().items()
        infinite = (name for name, item in parameters if not item.isfinite().all())
        return next(infinite, "")

    def members(self, layer: str) -> list[str]:
        """The names of the parameters of a layer."""
        parameters = self.recorded_parameters().items()
        return [name for name, item in parameters if self.layers[id(item)] == layer]

    def unknown(self) -> list[str]:
        """The names of parameters that the model did not have at first."""
        return [
            name for name, item in self.parameters.items() if id(item) not in self.known
        ]

    def without_layer(self, optimizers: Iterable[Any]) -> list[str]:
        """The names of trained parameters that are in no layer, unless patterns have
        left them out."""
        trained = trained_identities(optimizers)
        return [
            name
            for name, item in self.parameters.items()
            if self.patterns is None
            and id(item) in trained
            and item.requires_grad
            and id(item) not in self.layers
        ]


def _matching_layers(name: str, patterns: Layers) -> list[str]:
    """The layers of which a pattern matches the name of a parameter."""
    return [
        layer
        for layer, words in patterns.items()
        if any(fnmatch.fnmatchcase(name, word) for word in _as_list(words))
    ]


def _as_list(words: str | Sequence[str]) -> list[str]:
    return [words] if isinstance(words, str) else list(words)


def _layers_by_pattern(names: Sequence[str], patterns: Layers) -> dict[str, str]:
    """The layer of each parameter that a pattern matches. Raises SettingsError."""
    if not patterns:
        raise SettingsError("layers", "no layer", "one layer or more, or None")
    for layer, words in patterns.items():
        if not isinstance(words, str | Sequence):
            allowed = "a pattern of parameter names, or a sequence of them"
            raise SettingsError(
                f"layers[{layer!r}]", f"a {type(words).__name__}", allowed
            )
        for word in _as_list(words):
            if not fnmatch.filter(names, word):
                near = near_names(word, names)
                raise SettingsError(f"layers[{layer!r}]", repr(word), near)
    result = {}
    for name in names:
        layers = _matching_layers(name, patterns)
        if len(layers) > 1:
            raise SettingsError(
                f"layers[{layers[1]!r}]",
                name,
                f"one layer each; it is in {layers[0]!r} too",
            )
        if layers:
            result[name] = layers[0]
    return result


@dataclasses.dataclass
class _Optimizer:
    """What is known of an optimizer that trains the model."""

    hooks: list[Any] = dataclasses.field(default_factory=list)
    identities: list[int] = dataclasses.field(default_factory=list)
    """Identities of its parameters."""
    parameters: list[torch.Tensor] = dataclasses.field(default_factory=list)
    """Those that are in a layer."""
    places: list[int] = dataclasses.field(default_factory=list)
    """Identities of these."""
    before: list[torch.Tensor] = dataclasses.field(default_factory=list)
    """Their values before the last update."""
    gradient: list[torch.Tensor] = dataclasses.field(default_factory=list)
    """The norms of their gradients in the update that is being made."""
    updates: int = 0
    """The number of the last update that it made."""
    rate: Any = 0.0
    is_due: bool = False
    """Whether the norms of the last update are still to be measured."""


class UpdateNorms:
    """Counts the updates that optimizers make to a model, and measures the norms of the
    last one. The norms stay on the device until they are read.

    Every optimizer of torch whose step trains parameters of the model is followed, also
    one that is built later. Of an optimizer that calls another one in its step, the
    outer step is the update. With several optimizers the number of updates between two
    calls of `settle` is the largest of theirs.

    is_wanted: called with the number of an update that was made; whether its norm is
    measured at once, and not when it is read. gradient_used: called
    with an optimizer and the number of updates before, while the
    parameters have the gradients of its next one. If a step computes the gradients
    itself, in a closure, they are those of its last evaluation: with several of them,
    as by LBFGS, at weights within the step. joined: called with an optimizer that is
    seen for the first time, or whose parameters are others than before. running: what
    is running, the outermost first: steps of optimizers, and functions of the user,
    whose steps are no updates."""

    def __init__(
        self,
        layers: ModelLayers,
        is_wanted: Callable[[int], bool],
        gradient_used: Callable[[Any, int], None],
        joined: Callable[[Any], None],
        running: list[Any],
    ) -> None:
        self.layers = layers
        self.is_wanted = is_wanted
        self.gradient_used = gradient_used
        self.joined = joined
        self.base = 0
        """Updates at the last call of `settle`."""
        self.updates = 0
        """Number of updates."""
        self.time: Any = 0.0
        """Sum of the learning rates that the updates used."""
        self._optimizers: weakref.WeakKeyDictionary[Any, _Optimizer] = (
            weakref.WeakKeyDictionary()
        )
        self._others: weakref.WeakSet[Any] = weakref.WeakSet()
        """Optimizers of other models."""
        self._running = running
        self._gradient: dict[int, torch.Tensor] = {}
        self._update: dict[int, torch.Tensor] = {}
        self._hook = register_optimizer_step_pre_hook(self._look_at)

    @property
    def gradient(self) -> np.ndarray:
        """Norms (layer,) of the gradient that the last update used, float32."""
        return self._by_layer(self._gradient)

    @property
    def update(self) -> np.ndarray:
        """Norms (layer,) of the last update, float32."""
        for one in self._optimizers.values():
            if one.is_due:
                self._measure_update(one)
        return self._by_layer(self._update)

    @property
    def optimizers(self) -> list[Any]:
        """The optimizers that have been seen to train the model."""
        return list(self._optimizers)

    def settle(self) -> int:
        """Number of updates; later ones of any optimizer count from here."""
        if self._running:  # its step has ended in an error
            optimizer = self._running[0]
            self._end_update(self._optimizers[optimizer], optimizer, (), {})
        self.base = self.updates
        return self.base

    def continue_from(self, updates: int, time: Any) -> None:
        """Count from a number of updates and a time."""
        self.base = self.updates = updates
        self.time = time

    def refresh(self) -> None:
        """Look at the present parameters of the model, and at each optimizer again when
        it makes its next update."""
        before = self.layers.layers
        self.layers.refresh()
        if self.layers.layers == before:
            return
        self._others.clear()
        for one in self._optimizers.values():
            one.identities = []
        for norms in (self._gradient, self._update):
            for place in set(norms) - set(self.layers.layers):
                del norms[place]

    def remove(self) -> None:
        """Remove the hooks from the optimizers."""
        self._hook.remove()
        for one in self._optimizers.values():
            for hook in one.hooks:
                hook.remove()

    def _look_at(self, optimizer: Any, args: tuple, kwargs: Mapping[str, Any]) -> None:
        """Follow an optimizer whose step begins if it trains parameters of the
        model."""
        if self._running:
            return
        identities = list(map(id, parameters_of(optimizer)))
        one = self._optimizers.get(optimizer)
        is_known = one is not None and one.identities == identities
        if is_known or optimizer in self._others:
            return
        self.layers.refresh()
        present = {id(item) for item in self.layers.parameters.values()}
        if not present.intersection(identities):
            self._others.add(optimizer)
            return
        if one is None:
            one = self._optimizers[optimizer] = _Optimizer()
            begin = functools.partial(self._begin_update, one)
            end = functools.partial(self._end_update, one)
            one.hooks = [
                optimizer.register_step_pre_hook(begin),
                optimizer.register_step_post_hook(end),
            ]
        one.identities = identities
        one.before = []
        one.parameters = [
            item for item in parameters_of(optimizer) if id(item) in self.layers.layers
        ]
        one.places = list(map(id, one.parameters))
        self.joined(optimizer)

    def _begin_update(
        self, one: _Optimizer, optimizer: Any, args: tuple, kwargs: Mapping[str, Any]
    ) -> None:
        self._running.append(optimizer)
        if len(self._running) > 1:
            return
        one.rate = learning_rate(optimizer)
        if len(self._optimizers) > 1:
            self._measure_others(one)
        with torch.no_grad():
            if not one.before:
                one.before = [torch.empty_like(weight) for weight in one.parameters]
            if one.before:
                torch._foreach_copy_(one.before, one.parameters)
            if not has_closure(args, kwargs):  # else the step computes the gradients
                self._read_gradient(optimizer, one)

    def _measure_others(self, one: _Optimizer) -> None:
        """Measure the last updates of other optimizers of the same parameters."""
        for other in self._optimizers.values():
            is_due = other.is_due and other is not one
            if is_due and not set(other.places).isdisjoint(one.places):
                self._measure_update(other)

    def _end_update(
        self, one: Any, optimizer: Any, args: tuple, kwargs: Mapping[str, Any]
    ) -> None:
        while self._running and self._running.pop() is not optimizer:
            pass
        if self._running:
            return
        # set by a gradient scaler for fused optimizers
        skipped = getattr(optimizer, "found_inf", None)
        if skipped is not None and bool(torch.as_tensor(skipped).any()):
            return
        if has_closure(args, kwargs):
            self._read_gradient(optimizer, one)
        self._gradient.update(zip(one.places, one.gradient, strict=True))
        one.updates = max(one.updates, self.base) + 1
        if one.updates > self.updates:
            self.updates, self.time = one.updates, self.time + one.rate
        one.is_due = True
        if self.is_wanted(one.updates):
            self._measure_update(one)

    def _read_gradient(self, optimizer: Any, one: _Optimizer) -> None:
        self.gradient_used(optimizer, max(one.updates, self.base))
        gradients = [item.grad for item in one.parameters]
        present = [gradient for gradient in gradients if gradient is not None]
        norms = _norms(present, loss_scale(optimizer))
        if len(present) < len(gradients):
            rest = iter(norms)
            norms = [
                _NOTHING if gradient is None else next(rest) for gradient in gradients
            ]
        one.gradient = norms

    @torch.no_grad()
    def _measure_update(self, one: _Optimizer) -> None:
        one.is_due = False
        if one.before:
            moved = torch._foreach_sub(_wide(one.parameters), _wide(one.before))
            self._update.update(zip(one.places, _norms(moved), strict=True))

    def _by_layer(self, norms: Mapping[int, torch.Tensor]) -> np.ndarray:
        """The norm of each layer (layer,) from those of the parameters, float32; one
        beyond 3.4e38 is infinite."""
        squares = dict.fromkeys(self.layers.names, 0.0)
        devices: dict[torch.device, list[int]] = {}
        for place, norm in norms.items():
            devices.setdefault(norm.device, []).append(place)
        for places in devices.values():
            values = torch.stack([norms[place].double() for place in places]).tolist()
            for place, value in zip(places, values, strict=True):
                if place in self.layers.layers:
                    squares[self.layers.layers[place]] += value * value
        with np.errstate(over="ignore"):
            return np.sqrt(list(squares.values())).astype(np.float32)


_NOTHING = torch.zeros(())


def learning_rate(optimizer: Any, group: int = 0) -> Any:
    """The learning rate of a parameter group of an optimizer, a float or a tensor that
    later changes of the rate leave as it is; 1 if there is none."""
    rate = optimizer.param_groups[group].get("lr")
    if isinstance(rate, torch.Tensor):
        return rate.detach().double().reshape(()).clone()
    return 1.0 if rate is None else float(rate)


def loss_scale(optimizer: Any) -> float:
    """The factor by which a fused optimizer multiplies gradients in its step, because a
    gradient scaler left it to."""
    scale = getattr(optimizer, "grad_scale", None)
    return 1.0 if scale is None else 1.0 / float(scale)


def has_closure(args: tuple, kwargs: Mapping[str, Any]) -> bool:
    """Whether a step of an optimizer, with the arguments that its hooks are given,
    computes the gradients itself."""
    return any(map(callable, (*args[1:], *kwargs.values())))


def _norms(tensors: Sequence[torch.Tensor], scale: float = 1.0) -> list[torch.Tensor]:
    """The norm of each tensor times a factor."""
    norms = list(torch._foreach_norm(_wide(tensors))) if tensors else []
    return norms if scale == 1 else [norm * scale for norm in norms]


def _wide(tensors: Iterable[torch.Tensor]) -> list[torch.Tensor]:
    """The tensors in float32 or float64; for a sparse tensor its values."""
    return [
        tensor if tensor.dtype in _WIDE and not tensor.is_sparse else _widened(tensor)
        for tensor in tensors
    ]


_WIDE = (torch.float32, torch.float64)


def _widened(tensor: torch.Tensor) -> torch.Tensor:
    """The values of a tensor that may be sparse, in float32 if they have half the
    precision."""
    values = tensor.coalesce().values() if tensor.is_sparse else tensor
    halves = (torch.float16, torch.bfloat16)
    return values.float() if values.dtype in halves else values
