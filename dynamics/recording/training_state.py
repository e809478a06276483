"""The complete state of a training: model, optimizers, random generators, and whatever
else it depends on."""

import contextlib
import random
from collections.abc import Callable, Iterable, Iterator, Mapping
from typing import Any

import numpy as np
import torch
from torch.nn.parameter import is_lazy

from dynamics.errors import TrajectoryError
from dynamics.recording.processes import inner_module
from dynamics.recording.quantities import check_mapping
from dynamics.settings import SettingsError

_OPTIMIZERS = "an optimizer of torch, or a sequence of different ones"


def as_optimizers(optimizer: Any) -> list[Any]:
    """One or several optimizers as a list; of one that only wraps another, as those of
    accelerate do, the other. Raises SettingsError."""
    given = [optimizer] if hasattr(optimizer, "param_groups") else optimizer
    if not isinstance(given, Iterable):
        given = [given]
    optimizers = [_without_wrapper(one) for one in given]
    if not optimizers or len(set(map(id, optimizers))) < len(optimizers):
        found = "the same one twice" if optimizers else "an empty sequence"
        raise SettingsError("optimizer", found, _OPTIMIZERS)
    return optimizers


def _without_wrapper(optimizer: Any) -> Any:
    inner = getattr(optimizer, "optimizer", None)
    has_hooks = hasattr(optimizer, "_optimizer_step_pre_hooks")
    if isinstance(inner, torch.optim.Optimizer) and not has_hooks:
        return _without_wrapper(inner)
    needed = ("param_groups", "state_dict", "load_state_dict")
    if not all(hasattr(optimizer, name) for name in needed):
        raise SettingsError("optimizer", f"a {type(optimizer).__name__}", _OPTIMIZERS)
    return optimizer


def check_states(states: Mapping[str, Any]) -> None:
    """Raise SettingsError unless the state of each object can be read and set."""
    check_mapping("states", states, 'objects by name, such as {"scheduler": scheduler}')
    for name, state in states.items():
        if not (
            isinstance(state, torch.Generator | np.random.Generator)
            or hasattr(state, "load_state_dict")
        ):
            allowed = (
                "objects with state_dict and load_state_dict, or generators of torch or"
                " NumPy"
            )
            raise SettingsError(
                f"states[{name!r}]", f"a {type(state).__name__}", allowed
            )


def group_numbers(optimizers: Iterable[Any]) -> list[dict[str, Any]]:
    """The settings of each parameter group of optimizers that are numbers, words or
    tuples of them, without learning rates, which schedules change."""
    groups = [group for optimizer in optimizers for group in optimizer.param_groups]
    return [
        {
            name: list(value) if isinstance(value, tuple) else value
            for name, value in group.items()
            if name not in ("params", "lr", "initial_lr") and _is_plain(value)
        }
        for group in groups
    ]


def _is_plain(value: Any) -> bool:
    """Whether a setting of an optimizer is a number, a word, none or a tuple of them."""
    if isinstance(value, tuple):
        return all(map(_is_plain, value))
    return value is None or isinstance(value, bool | int | float | str)


class Training:
    """A model, its optimizers, and other objects on which its training depends, by name.

    Raises SettingsError if an optimizer is none."""

    def __init__(
        self, model: torch.nn.Module, optimizer: Any, states: Mapping[str, Any] | None
    ) -> None:
        self.wrapper = model
        self.model = inner_module(model)
        self.optimizers = as_optimizers(optimizer)
        self.states = states or {}

    def state(self) -> dict[str, Any]:
        """The state of all of them, and of the random generators of torch, NumPy and
        Python."""
        return {
            "model": dict(self.model.state_dict()),
            "optimizers": [optimizer.state_dict() for optimizer in self.optimizers],
            "states": {name: _state_of(owner) for name, owner in self.states.items()},
            "random": read_random_state(),
        }

    def restore(self, stored: Mapping[str, Any]) -> None:
        """Set all of them to a stored state.

        Raises TrajectoryError if it is the state of another model, or lacks an object.
        """
        if sorted(stored["states"]) != sorted(self.states):
            recorded, given = (
                ", ".join(sorted(names)) or "none"
                for names in (stored["states"], self.states)
            )
            raise TrajectoryError(
                f"the restart state has the states {recorded}, but the recording was"
                f" given {given}"
            )
        try:
            self.model.load_state_dict(stored["model"])
            pairs = zip(self.optimizers, stored["optimizers"], strict=True)
            for optimizer, state in pairs:
                optimizer.load_state_dict(state)
        except (RuntimeError, ValueError, KeyError) as error:
            raise TrajectoryError(
                f"the restart state is not of this model and optimizer: {error}"
            ) from None
        for name, owner in self.states.items():
            _set_state_of(owner, stored["states"][name])
        set_random_state(stored["random"])


def _state_of(owner: Any) -> Any:
    if isinstance(owner, torch.Generator):
        return owner.get_state()
    return (
        owner.bit_generator.state
        if isinstance(owner, np.random.Generator)
        else owner.state_dict()
    )


def _set_state_of(owner: Any, state: Any) -> None:
    if isinstance(owner, torch.Generator):
        owner.set_state(state)
    elif isinstance(owner, np.random.Generator):
        owner.bit_generator.state = state
    else:
        owner.load_state_dict(state)


_DEVICES = ("cuda", "xpu")
"""Modules of torch whose devices have random generators of their own."""


def read_random_state() -> dict[str, Any]:
    """The state of the global random generators of torch, NumPy and Python."""
    version, values, gauss = random.getstate()
    state: dict[str, Any] = {
        "torch": torch.get_rng_state(),
        "numpy": np.random.get_state(legacy=False),  # noqa: NPY002 - the global generator, which trainings use
        "python": [version, np.array(values, np.uint64), gauss],
    }
    for name in _DEVICES:
        device = getattr(torch, name)
        if device.is_available() and device.is_initialized():
            state[name] = device.get_rng_state_all()
    if torch.backends.mps.is_available():
        state["mps"] = torch.mps.get_rng_state()
    return state


def set_random_state(state: Mapping[str, Any]) -> None:
    """Set the global random generators of torch, NumPy and Python."""
    version, values, gauss = state["python"]
    random.setstate((version, tuple(map(int, values)), gauss))
    np.random.set_state(state["numpy"])  # noqa: NPY002 - the global generator, which trainings use
    torch.set_rng_state(state["torch"])
    for name in _DEVICES:
        if name in state and getattr(torch, name).is_available():
            getattr(torch, name).set_rng_state_all(state[name])
    if "mps" in state and torch.backends.mps.is_available():
        torch.mps.set_rng_state(state["mps"])


@contextlib.contextmanager
def undisturbed(
    model: torch.nn.Module,
    states: Mapping[str, Any] | None = None,
    gradients: bool = False,
) -> Iterator[Callable[[], None]]:
    """Call functions of the user such that they leave no trace in the training.

    Yields a function that is to be called between two of them. Afterwards the
    modules of the model have the parts, modes, parameters, gradients and
    buffers of before, and torch its default type and, as NumPy, Python and the
    generators among the `states`, its random numbers. Unless `gradients`, operations
    are not recorded for derivatives."""
    generators = {
        name: state
        for name, state in (states or {}).items()
        if isinstance(state, torch.Generator | np.random.Generator)
    }
    random_states = {name: _state_of(owner) for name, owner in generators.items()}
    random_state = read_random_state()
    dtype = torch.get_default_dtype()
    modules = [_ModuleCopy(module) for module in model.modules()]
    tensors = [
        _TensorCopy(tensor)
        for tensor in (*model.parameters(), *model.buffers())
        if not is_lazy(tensor)
    ]
    is_recorded = gradients and torch.is_grad_enabled()

    def restore() -> None:
        torch.set_default_dtype(dtype)
        set_random_state(random_state)
        for name, owner in generators.items():
            _set_state_of(owner, random_states[name])
        for module_copy in modules:
            module_copy.restore()
        with torch.no_grad():
            for tensor_copy in tensors:
                tensor_copy.restore()
        torch.set_grad_enabled(is_recorded)

    with torch.set_grad_enabled(is_recorded):
        try:
            yield restore
        finally:
            restore()


class _ModuleCopy:
    """The mode of a module, and its parameters, buffers and modules by name."""

    def __init__(self, module: torch.nn.Module) -> None:
        self.module = module
        self.training = module.training
        stores: list[Any] = [module._parameters, module._buffers, module._modules]
        # those of a compiled ScriptModule cannot be changed
        self.parts = [
            (store, dict(store)) for store in stores if isinstance(store, dict)
        ]

    def restore(self) -> None:
        self.module.training = self.training
        for store, parts in self.parts:
            store.clear()
            store.update(parts)


class _TensorCopy:
    """The memory and the values of a parameter, a buffer or a gradient, and the gradient
    that it has."""

    def __init__(self, tensor: torch.Tensor) -> None:
        self.tensor = tensor
        self.data = tensor.detach()
        self.values = self.data.clone()
        self.requires_grad = tensor.requires_grad
        gradient = tensor.grad if tensor.is_leaf else None
        self.gradient = None if gradient is None else _TensorCopy(gradient)

    def restore(self) -> torch.Tensor:
        """Set the tensor to its values of before; those that are still the same are not
        written to."""
        tensor = self.tensor
        if tensor.is_sparse:
            return self.values
        if not _is_same(tensor, self.data):
            tensor.data = self.data
        if not torch.equal(tensor, self.values):
            tensor.detach().copy_(self.values)
        if tensor.is_leaf:
            tensor.requires_grad_(self.requires_grad)
            gradient = self.gradient
            tensor.grad = None if gradient is None else gradient.restore()
        return tensor


def _is_same(tensor: torch.Tensor, data: torch.Tensor) -> bool:
    """Whether a tensor has the type and memory of another one."""
    return (tensor.dtype, tensor.shape, tensor.data_ptr()) == (
        data.dtype,
        data.shape,
        data.data_ptr(),
    )
