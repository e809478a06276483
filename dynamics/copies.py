"""Copies of recorded runs that begin at many of their states, each with its own
perturbation, as one ensemble.

The copies of all states advance together: the ensemble begins with those of the
earliest step, and the copies of a later step join when it has reached their step."""

import hashlib
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import xarray as xr

from dynamics.branching import (
    branch_identity,
    changed_system,
    continued_state,
    default_end,
    open_source,
    record_branch,
    state_at,
    state_shape,
)
from dynamics.randomness import random_stream
from dynamics.settings import (
    MAX_STEPS,
    RecordMode,
    SettingsError,
    check_choice,
    check_integer,
)
from dynamics.stopping import NEVER, stop_steps
from dynamics.system import Arrays, State, System
from dynamics.trajectory.description import RecordingSchedule
from dynamics.trajectory.schema import read_settings


class CopyTable(NamedTuple):
    """The origin of each copy; each array is (run,), in increasing order of the
    step."""

    of_run: np.ndarray
    """Index of the run in the original trajectory."""
    from_step: np.ndarray
    """Step at which the copy begins."""
    displacement: np.ndarray
    """Size of its displacement."""
    copy: np.ndarray
    """Number of the copy, from 0, among those of the same state and size."""


def branch_copies(
    trajectory: str | Path | xr.Dataset,
    steps: int | Sequence[int] | Mapping[int, Sequence[int]],
    copies: int | Sequence[int] = 100,
    displace: float | Sequence[float] = 0.01,
    *,
    direction: Mapping[str, np.ndarray] | None = None,
    reshuffle: bool = False,
    until: int | None = None,
    every: int | None = None,
    record: RecordMode = "all",
    out: str | Path | None = None,
    overwrite: bool = False,
    progress: bool = False,
    **changes: Any,
) -> xr.Dataset:
    """Continue recorded runs from their exact states at several steps, with many copies
    of each state, each with its own perturbation, as one ensemble.

    Parameters
    ----------
    trajectory : str, Path or xarray.Dataset
        A trajectory, or its file.
    steps : int, sequence of int, or mapping of int to sequence of int
        Steps at which the copies begin, for all runs; or for each index of a run. They
        need not be recorded.
    copies : int or sequence of int
        Number of copies of each state and size, or their numbers from 0. A copy depends
        on the seed of its run, the step and its number alone.
    displace : float or sequence of float
        Sizes of the displacements. Each component of a variable of the state is
        displaced by a normal number times the size times the standard deviation of the
        variable in this state. A copy has the same normal numbers for all sizes. Size 0
        displaces nothing.
    direction : mapping of str to array, optional
        Displace along this direction instead, by the size times the array: for a name
        of a variable of the state an array of its shape, or (run of the original, ...).
    reshuffle : bool
        Give each copy mini-batches of its own or, of particles with a temperature,
        noise of its own; copies with the same number have the same whatever their
        displacement. By default a copy has those of its run.
    until : int, optional
        Last step. Default: as in `branch`.
    every : int, optional
        Steps between recorded frames, from the first of `steps` on. Default: only the
        first and the last frame.
    record, out, overwrite, progress
        As in `simulate`.
    **changes
        Settings that differ from those of the original.

    Returns
    -------
    xarray.Dataset
        A trajectory whose runs are the copies, with the coordinates `of_run`,
        `from_step`, `displacement` and `copy` (run). Before its step a copy repeats its
        first frame. A run that has diverged or stopped before a step has copies that
        have, too.

    Raises
    ------
    SettingsError, TrajectoryError, RecordingError
        As `branch` does.

    Examples
    --------
    >>> from dynamics import ParticleSettings, branch_copies, simulate
    >>> trajectory = simulate(ParticleSettings(n=5), runs=3, steps=20, progress=False)
    >>> ends = branch_copies(trajectory, steps=[0, 10], copies=4, displace=[0.01, 0.1])
    >>> ends.sizes["run"], ends["from_step"].values[[0, -1]]
    (48, array([ 0, 10]))
    """
    source = open_source(trajectory)
    check_choice("record", record, ("all", "metrics"))
    table = copy_table(source, steps, copies, displace)
    first, last = int(table.from_step[0]), int(table.from_step[-1])
    system = changed_system(source, first, changes)
    end = default_end(source, system) if until is None else until
    until = check_integer("until", end, last, MAX_STEPS)
    every = check_integer("every", every or max(1, until - first), 1, MAX_STEPS)
    perturbation = Perturbation(source, system, table, direction, reshuffle)
    count = len(table.of_run)
    seeds = np.arange(count)
    stopped = stop_steps(source, source["seed"].values[table.of_run])
    identity = branch_identity(system, source, seeds, first, every, record)
    identity["copies"] = perturbation.digest()
    return record_branch(
        source,
        JoiningSystem(system, table.from_step),  # type: ignore[arg-type]
        identity,
        RecordingSchedule(until, every, first, first),
        seeds,
        perturbation.first_state,
        out,
        overwrite,
        progress,
        run_coords=table._asdict(),
        ends=np.where(stopped < table.from_step, stopped, NEVER),
    )


def copy_table(
    source: xr.Dataset,
    steps: int | Sequence[int] | Mapping[int, Sequence[int]],
    copies: int | Sequence[int],
    displace: float | Sequence[float],
) -> CopyTable:
    """The copies of `branch_copies`, which explains the parameters. Raises
    SettingsError."""
    runs = range(source.sizes["run"])
    first = int(source["step"][0])
    steps_of = (
        steps
        if isinstance(steps, Mapping)
        else dict.fromkeys(runs, np.atleast_1d(steps))
    )
    starts = sorted(
        (
            check_integer("step", step, first, MAX_STEPS),
            check_integer("run", run, 0, runs[-1]),
        )
        for run, run_steps in steps_of.items()
        for step in run_steps
    )
    if not starts or len(set(starts)) < len(starts):
        raise SettingsError("steps", steps, "one or more steps, each once")
    sizes = np.atleast_1d(np.asarray(displace, float))
    if not np.isfinite(sizes).all() or len(np.unique(sizes)) < len(sizes):
        raise SettingsError("displace", displace, "finite numbers, each once")
    if isinstance(copies, int):
        copies = range(check_integer("copies", copies, 1, 10_000_000))
    numbers = np.asarray(copies)
    start, size, number = np.meshgrid(
        np.arange(len(starts)), np.arange(len(sizes)), numbers, indexing="ij"
    )
    from_step, of_run = np.array(starts, np.int64)[start.ravel()].T
    return CopyTable(of_run, from_step, sizes[size.ravel()], number.ravel())


@dataclass(frozen=True)
class Perturbation:
    """The states in which the copies of a table begin."""

    source: xr.Dataset
    system: System
    table: CopyTable
    direction: Mapping[str, np.ndarray] | None
    reshuffle: bool

    def __post_init__(self) -> None:
        shapes = state_shape(self.system)
        runs = self.source.sizes["run"]
        for name, array in (self.direction or {}).items():
            if name not in shapes:
                raise SettingsError("direction", name, f"one of {', '.join(shapes)}")
            shape = np.shape(array)
            if shape not in (shapes[name], (runs, *shapes[name])):
                allowed = f"shape {shapes[name]}, or with a leading axis of {runs} runs"
                raise SettingsError("direction", f"{name} of shape {shape}", allowed)
        batches = getattr(self.system.settings, "batch", 0)
        shuffles = batches and self.system.device == "cpu"
        chance = shuffles or getattr(self.system.settings, "temperature", 0)
        if self.reshuffle and not chance:
            allowed = (
                "no value: only runs with mini-batches on a CPU or with a temperature"
                " are reshuffled"
            )
            raise SettingsError("reshuffle", True, allowed)

    def digest(self) -> str:
        """Twelve hexadecimal digits that distinguish the copies from others."""
        result = hashlib.sha256(b"reshuffle" if self.reshuffle else b"")
        for column in self.table:
            result.update(column.tobytes())
        for name, array in (self.direction or {}).items():
            result.update(name.encode() + np.asarray(array, float).tobytes())
        return result.hexdigest()[:12]

    def first_state(self, received: list[int]) -> State:
        """The state of the ensemble at its first step; `received` collects signals.
        Raises Interrupted."""
        table = self.table
        pieces = []
        for step in np.unique(table.from_step):
            at = table.from_step == step
            runs, rows = np.unique(table.of_run[at], return_inverse=True)
            seeds = self.source["seed"].values[runs]
            state = state_at(self.source, seeds, int(step), received)
            state = continued_state(self.system, state, seeds)
            arrays = self.system.checkpoint(state)
            copies = {
                name: values[rows] for name, values in arrays.items() if name != "step"
            }
            self._displace(copies, CopyTable(*(column[at] for column in table)), seeds)
            pieces.append(copies)
        updates_before = {
            int(piece["updates"][0]) - step
            for step, piece in zip(np.unique(table.from_step), pieces, strict=True)
            if "updates" in piece
        }
        before = read_settings(self.source).epoch_steps
        new_epochs = self.system.settings.epoch_steps != before
        if len(pieces) > 1 and (len(updates_before) > 1 or new_epochs):
            allowed = "a single step with a change of the optimizer or the mini-batches"
            raise SettingsError("steps", f"{len(pieces)} steps", allowed)
        first = table.from_step[0]
        whole = {name: np.concatenate([p[name] for p in pieces]) for name in pieces[0]}
        return JoiningSystem(self.system, table.from_step).restore(
            {**whole, "step": first}
        )

    def _displace(
        self, arrays: dict[str, np.ndarray], table: CopyTable, seeds: np.ndarray
    ) -> None:
        """Displace the copies of one step in place; `arrays` (run, ...) are those of a
        restart state. All runs have equally many copies, one run after another."""
        step = int(table.from_step[0])
        runs = np.unique(table.of_run)
        numbers = int(table.copy.max()) + 1
        shapes = state_shape(self.system)
        variables = state_variables(self.system, arrays)
        if not variables and table.displacement.any():
            allowed = "0: the restart state has none of the variables of the system"
            raise SettingsError("displace", table.displacement[-1], allowed)
        count = len(table.copy) // len(runs)
        rows_of_run = np.arange(len(table.copy)).reshape(len(runs), count)
        sizes = table.displacement[:count]
        rows_of_run, sizes = rows_of_run[:, sizes != 0], sizes[sizes != 0, None]
        for name, values in variables.items():
            for run, seed, rows in zip(runs, seeds, rows_of_run, strict=True):
                if self.direction is None:
                    stream = random_stream(int(seed), f"copies/{step}/{name}")
                    noise = stream.standard_normal((numbers, values.shape[1]))
                    spread = values[rows].std(axis=1, keepdims=True)
                    shift = spread * noise[table.copy[rows]]
                else:
                    whole = (self.source.sizes["run"], *shapes[name])
                    directions = self.direction.get(name, np.zeros(whole))
                    shift = np.broadcast_to(directions, whole)[run].ravel()
                values[rows] += (sizes * shift).astype(values.dtype)
        displaced = table.displacement != 0
        if hasattr(self.system, "normalise") and displaced.any():
            positions = arrays["embedding"]
            positions[displaced] = self.system.normalise(positions[displaced])
        if self.reshuffle:
            has_noise = "noise_seed" in arrays
            source = "noise" if has_noise else "batches"
            own_seeds = [
                random_stream(int(seed), f"copies/{step}/{source}").integers(
                    2**62, size=numbers
                )
                for seed in seeds
            ]
            arrays["noise_seed" if has_noise else "batch_seeds"] = np.concatenate(
                own_seeds
            )[np.repeat(np.arange(len(runs)) * numbers, count) + table.copy]


def state_variables(system: System, arrays: Arrays) -> dict[str, np.ndarray]:
    """The variables of a state, (run, component), as views of the arrays of a restart
    state."""
    network = getattr(system, "network", None)
    if network is None:
        names = [name for name in state_shape(system) if name in arrays]
        return {name: arrays[name].reshape(len(arrays[name]), -1) for name in names}
    places = zip(network.begins.items(), network.lengths, strict=True)
    return {name: arrays["weights"][:, at : at + size] for (name, at), size in places}


# ------------------------------------------------------------------------- the ensemble


@dataclass(frozen=True)
class JoiningState:
    """A state of runs that have begun, and the restart states of those that wait."""

    begun: State
    waiting: Arrays
    """Arrays (run, ...) of a restart state, without its step."""

    @property
    def step(self) -> int:
        return self.begun.step

    @property
    def last_step(self) -> np.ndarray:
        count = len(self.waiting["last_step"])
        return np.concatenate([self.begun.last_step, np.full(count, self.step)])


class JoiningSystem:
    """A system whose runs begin at different steps, `begins` (run,), in increasing
    order. A run that has not begun keeps its first state."""

    def __init__(self, system: System, begins: np.ndarray) -> None:
        self.system = system
        self.begins = begins

    def __getattr__(self, name: str) -> Any:
        return getattr(self.system, name)

    def restore(self, arrays: Arrays) -> JoiningState:
        """The state from the arrays of `checkpoint`."""
        step = int(arrays["step"])
        runs = {name: values for name, values in arrays.items() if name != "step"}
        begun = int(np.searchsorted(self.begins, step, side="right"))
        first = {name: values[:begun] for name, values in runs.items()}
        return JoiningState(
            self.system.restore({**first, "step": arrays["step"]}),
            {name: values[begun:] for name, values in runs.items()},
        )

    def checkpoint(self, state: JoiningState) -> Arrays:
        """The arrays of a restart state of all runs."""
        begun = self.system.checkpoint(state.begun)
        joined = {
            name: np.concatenate([begun[name], values])
            for name, values in state.waiting.items()
        }
        return {**joined, "step": begun["step"]}

    def advance(self, state: JoiningState, steps: int) -> JoiningState:
        """The state `steps` steps later, with the runs that have begun until then."""
        end = state.step + steps
        while state.step < end:
            begun = len(state.begun.last_step)
            stop = int(min([end, *self.begins[begun : begun + 1]]))
            advanced = self.system.advance(state.begun, stop - state.step)
            state = JoiningState(advanced, state.waiting)
            if begun < len(self.begins) and self.begins[begun] == stop:
                state = self.restore(self.checkpoint(state))
        return state

    def observe(self, state: JoiningState) -> Arrays:
        """One frame; of runs that have not begun, their first state."""
        frame = self.system.observe(state.begun)
        if not len(state.waiting["last_step"]):
            return frame
        waiting = self.system.restore({**state.waiting, "step": np.asarray(state.step)})
        later = self.system.observe(waiting)
        return {
            name: np.concatenate([values, later[name]])
            for name, values in frame.items()
        }
