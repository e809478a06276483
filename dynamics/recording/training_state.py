"""The complete state of a training: model, optimizers, random generators, and whatever
else it depends on."""

import contextlib
import random
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

import numpy as np
import torch

from dynamics.errors import TrajectoryError
from dynamics.settings import SettingsError


def as_optimizers(
    optimizer: torch.optim.Optimizer | Sequence[torch.optim.Optimizer],
) -> list[torch.optim.Optimizer]:
    """One or several optimizers as a list."""
    if isinstance(optimizer, torch.optim.Optimizer):
        return [optimizer]
    return list(optimizer)


def check_states(states: Mapping[str, Any]) -> None:
    """Raise SettingsError unless the state of each object can be read and set."""
    if not isinstance(states, Mapping):
        raise SettingsError(
            "states",
            f"a {type(states).__name__}",
            'objects by name, such as {"scheduler": scheduler}',
        )
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


def read_training_state(
    model: torch.nn.Module,
    optimizers: Sequence[torch.optim.Optimizer],
    states: Mapping[str, Any],
) -> dict[str, Any]:
    """The state of a model, its optimizers, other objects, and the random generators of
    torch, NumPy and Python."""
    return {
        "model": dict(model.state_dict()),
        "optimizers": [optimizer.state_dict() for optimizer in optimizers],
        "states": {name: _state_of(state) for name, state in states.items()},
        "random": read_random_state(),
    }


def set_training_state(
    stored: Mapping[str, Any],
    model: torch.nn.Module,
    optimizers: Sequence[torch.optim.Optimizer],
    states: Mapping[str, Any],
) -> None:
    """Set a model, its optimizers, other objects and the random generators to a stored
    state.

    Raises TrajectoryError if the state is that of another model, or lacks an object.
    """
    if sorted(stored["states"]) != sorted(states):
        recorded, given = (
            ", ".join(sorted(names)) or "none" for names in (stored["states"], states)
        )
        raise TrajectoryError(
            f"the restart state has the states {recorded}, but the recording was given"
            f" {given}"
        )
    try:
        model.load_state_dict(stored["model"])
        for optimizer, state in zip(optimizers, stored["optimizers"], strict=True):
            optimizer.load_state_dict(state)
    except (RuntimeError, ValueError, KeyError) as error:
        raise TrajectoryError(
            f"the restart state is not of this model and optimizer: {error}"
        ) from None
    for name, owner in states.items():
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


def read_random_state() -> dict[str, Any]:
    """The state of the global random generators of torch, NumPy and Python."""
    version, values, gauss = random.getstate()
    state: dict[str, Any] = {
        "torch": torch.get_rng_state(),
        "numpy": np.random.get_state(legacy=False),  # noqa: NPY002 - the global generator, which trainings use
        "python": [version, np.array(values, np.uint64), gauss],
    }
    if torch.cuda.is_available() and torch.cuda.is_initialized():
        state["cuda"] = torch.cuda.get_rng_state_all()
    return state


def set_random_state(state: Mapping[str, Any]) -> None:
    """Set the global random generators of torch, NumPy and Python."""
    version, values, gauss = state["python"]
    random.setstate((version, tuple(map(int, values)), gauss))
    np.random.set_state(state["numpy"])  # noqa: NPY002 - the global generator, which trainings use
    torch.set_rng_state(state["torch"])
    if "cuda" in state and torch.cuda.is_available():
        torch.cuda.set_rng_state_all(state["cuda"])


@contextlib.contextmanager
def undisturbed(model: torch.nn.Module, parameters: bool = False) -> Iterator[None]:
    """Keep a model's buffers, modes and, if required, parameters and the random
    generators unchanged while a user's function is called, which may update running
    statistics or remove parts of the model. Gradients are not recorded."""
    random_state = read_random_state()
    modes = [(module, module.training) for module in model.modules()]
    tensors = [*model.buffers(), *(model.parameters() if parameters else ())]
    copies = [tensor.detach().clone() for tensor in tensors]
    buffers = [(module, dict(module._buffers)) for module in model.modules()]
    try:
        with torch.no_grad():
            yield
    finally:
        set_random_state(random_state)
        for module, training in modes:
            module.training = training
        for module, of_module in buffers:
            module._buffers.update(of_module)
        with torch.no_grad():
            for tensor, copy in zip(tensors, copies, strict=True):
                if not torch.equal(tensor, copy):
                    tensor.copy_(copy)
