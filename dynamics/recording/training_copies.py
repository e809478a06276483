"""Copies of a recorded training that begin at one of its restart states, each slightly
displaced: what `dynamics.branch_copies` is for the systems of the package."""

from __future__ import annotations

import random
from collections.abc import Iterator, Mapping, Sequence
from copy import deepcopy
from pathlib import Path
from typing import Any

import numpy as np
import torch

from dynamics.errors import TrajectoryError
from dynamics.randomness import random_stream
from dynamics.recording.model_recorder import RESTART_STATE
from dynamics.recording.state_bytes import state_from_bytes
from dynamics.recording.training_state import Training, check_states
from dynamics.settings import SettingsError, check_integer, check_real
from dynamics.trajectory.reader import checkpoints


def training_copies(
    path: str | Path,
    model: torch.nn.Module,
    optimizer: torch.optim.Optimizer | Sequence[torch.optim.Optimizer],
    step: int,
    copies: int = 100,
    displace: float = 0.01,
    *,
    states: Mapping[str, Any] | None = None,
    reshuffle: bool = False,
) -> Iterator[int]:
    """Set a training to one of its recorded restart states, once for each copy.

    After each copy has been yielded, the caller's own loop trains the model from there
    and measures how it ends. After the last copy, and if the loop is left, the model,
    the optimizer, the `states` and the random generators have again the state that they
    had before.

    Parameters
    ----------
    path : str or Path
        The recording, made by `dynamics.record` with `restart_every`.
    model : torch.nn.Module
        The model, built as the recorded one.
    optimizer : torch.optim.Optimizer or sequence of them
        Its optimizers, built as the recorded ones.
    step : int
        Number of updates after which the copies begin; the recording must have a
        restart state there.
    copies : int
        Number of copies.
    displace : float
        Each component of a parameter that requires gradients is displaced by a normal
        number times this size times the standard deviation of the parameter in this
        state. A copy depends on the seed of the recording, the step and its number
        alone. 0 displaces nothing.
    states : mapping of str to object, optional
        As in `dynamics.record`.
    reshuffle : bool
        Give each copy random numbers of its own: the generators of torch, NumPy and
        Python, and those among the `states`, get a seed of the copy. By default all
        copies continue with the random numbers of the recording.

    Yields
    ------
    int
        The number of the copy, from 0.

    Raises
    ------
    SettingsError
        If an argument is not valid, or there is no restart state at this step.
    TrajectoryError
        If the file is damaged, has no restart states, or those of another model.

    Examples
    --------
    >>> import dynamics, torch
    >>> model = torch.nn.Linear(1, 1)
    >>> optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
    >>> def train(updates, recording=None):
    ...     for _ in range(updates):
    ...         optimizer.zero_grad()
    ...         (model(torch.ones(1)) ** 2).sum().backward()
    ...         optimizer.step()
    ...         if recording:
    ...             recording.step()
    >>> with dynamics.record(model, optimizer, "line.nc", restart_every=5) as recording:
    ...     train(20, recording)
    >>> ends = []
    >>> for copy in dynamics.training_copies("line.nc", model, optimizer, 10, copies=3):
    ...     train(10)
    ...     ends.append(abs(model(torch.ones(1)).item()) < 0.01)
    >>> ends
    [True, True, True]
    """
    training = Training(model, optimizer, states)
    check_states(training.states)
    check_integer("copies", copies, 1, 10_000_000)
    check_real("displace", displace)
    stored, seed = _restart_state(path, step)
    before = deepcopy(training.state())

    def continue_copies() -> Iterator[int]:
        try:
            for number in range(copies):
                # optimizers keep the tensors that they load
                training.restore(deepcopy(stored))
                stream = f"training-copies/{step}/{number}"
                _displace_parameters(training.model, displace, seed, stream)
                if reshuffle:
                    _seed_generators(training.states, seed, stream)
                yield number
        finally:
            training.restore(before)

    return continue_copies()


def _restart_state(path: str | Path, step: int) -> tuple[dict[str, Any], int]:
    """The restart state of a recording at a step, and the seed of the recording."""
    with checkpoints(path) as saved:
        if RESTART_STATE not in saved:
            raise TrajectoryError(
                f"{path}: no restart states of a recorded model; record it with"
                " restart_every"
            )
        steps = saved["checkpoint"].values.tolist()
        if step not in steps:
            allowed = f"a step with a restart state: {', '.join(map(str, steps))}"
            raise SettingsError("step", step, allowed)
        data = saved[RESTART_STATE].sel(checkpoint=step).isel(run=0).values
        return state_from_bytes(data), int(saved["seed"].values[0])


@torch.no_grad()
def _displace_parameters(
    model: torch.nn.Module, size: float, seed: int, stream: str
) -> None:
    if not size:
        return
    trained = {k: p for k, p in model.named_parameters() if p.requires_grad}
    for name, parameter in trained.items():
        noise = random_stream(seed, f"{stream}/{name}").standard_normal(parameter.shape)
        spread = parameter.double().std(correction=0).item()
        shift = torch.from_numpy(np.asarray(size * spread * noise))
        parameter.add_(shift.to(parameter.device, parameter.dtype))


def _seed_generators(states: Mapping[str, Any], seed: int, stream: str) -> None:
    """Seed all random generators that a training uses."""
    number = int(random_stream(seed, f"{stream}/random").integers(2**31))
    torch.manual_seed(number)
    np.random.seed(number)  # noqa: NPY002 - the global generator, which trainings use
    random.seed(number)
    for owner in states.values():
        if isinstance(owner, torch.Generator):
            owner.manual_seed(number)
        elif isinstance(owner, np.random.Generator):
            bits = owner.bit_generator
            bits.state = type(bits)(number).state
