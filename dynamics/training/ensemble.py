"""Trainers: runs of an ensemble that take optimizer steps, each on its own training split.

Runs are shared out among threads, an engine (`dynamics.training.backends`) to each share, and a thread takes all
steps up to the
next recorded frame without waiting for another. On CUDA there is one share.

A run whose weights or moments are no longer finite, which also happens where the activations of an input that it learns
from overflow, has diverged: it stays at its last finite state and ends there, and the others go on. No step is checked
by itself: a number that is not finite stays so, hence it is enough to look after some steps and, where one is found, to
take these again in halves.
"""

import dataclasses
import itertools
from collections.abc import Callable, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from typing import TypeVar

import numpy as np
from numba import get_num_threads

from dynamics.kernels.simd import LANES_32
from dynamics.networks.parameters import NetworkParameters
from dynamics.training.backends import Backend

_FLOAT32_MAX = float(np.finfo(np.float32).max)


@dataclasses.dataclass(frozen=True)
class TrainingState:
    """An ensemble after `step` updates. Nothing in it is changed in place."""

    step: int
    seeds: np.ndarray  # (run,)
    weights: np.ndarray  # (run, parameter) float32, flat in the order of the network's variables
    moments: Mapping[str, np.ndarray]  # the optimizer's, each (run, parameter)
    updates: int  # that the moments have seen: `step`, but where a branch has changed the optimizer
    gradient_norm: np.ndarray  # (run, layer) of the gradient that the last update used
    update_norm: np.ndarray  # (run, layer) of the last update
    last_step: np.ndarray  # (run,) `step`, or where a run diverged the last step before


# -------------------------------------------------------------------------------------- some of the runs


class Trainer:
    """Advances some runs, and remembers which state their engine holds."""

    def __init__(self, network: NetworkParameters, engine: Backend) -> None:
        self.network, self.engine = network, engine
        self.begins = np.array(list(network.begins.values()))
        self.held: np.ndarray | None = None  # the weights of that state

    def take(self, state: TrainingState) -> None:
        """Begin from a state."""
        if state.weights is not self.held:
            self.engine.hold(state.weights, state.moments, state.updates)
            self.held = state.weights

    def norms(self, rows: np.ndarray) -> np.ndarray:
        """Norm of each layer, (run, layer), of rows (run, parameter)."""
        doubled = rows.astype(np.float64)
        return np.sqrt(np.add.reduceat(doubled * doubled, self.begins, axis=1))


def with_gradient_norm(trainer: Trainer, state: TrainingState) -> TrainingState:
    """A state before its first step with the norm of its gradient."""
    trainer.take(state)
    trainer.engine.differentiate(state.step)
    return dataclasses.replace(state, gradient_norm=trainer.norms(trainer.engine.gradient()))


def advance_runs(trainer: Trainer, state: TrainingState, steps: int) -> TrainingState:
    """The state some steps later, of runs that have diverged as it was before."""
    after = _attempt_steps(trainer, state, steps)
    kept = _finite_runs(after) & (state.last_step == state.step)
    if kept.all():
        trainer.held = after.weights
        return after
    if (kept == (state.last_step == state.step)).all() or steps == 1:
        return _merge_runs(kept, after, state)
    half = steps // 2
    return advance_runs(trainer, advance_runs(trainer, state, half), steps - half)


def _attempt_steps(trainer: Trainer, state: TrainingState, steps: int) -> TrainingState:
    """Steps taken by all runs, whatever comes of it; the last one is measured."""
    trainer.take(state)
    trainer.held = None
    engine = trainer.engine
    engine.train(state.step, steps)
    return TrainingState(
        step=state.step + steps,
        seeds=state.seeds,
        weights=engine.weights(),
        moments=engine.moments(),
        updates=state.updates + steps,
        gradient_norm=trainer.norms(engine.gradient()),
        update_norm=trainer.norms(engine.moved()),
        last_step=np.full(len(state.seeds), state.step + steps, np.int64),
    )


def _finite_runs(state: TrainingState) -> np.ndarray:
    """Whether all weights and moments of a run are, (run,)."""
    finite = np.isfinite(state.weights).all(axis=1)
    for moment in state.moments.values():
        finite &= np.isfinite(moment).all(axis=1)
    return finite


def with_moments(state: TrainingState, names: Sequence[str]) -> TrainingState:
    """The state with the moments of these names: all its own, or none yet, as where a branch changes the optimizer."""
    if set(names) == set(state.moments):
        return state
    moments = {name: np.zeros_like(state.weights) for name in names}
    return dataclasses.replace(state, moments=moments, updates=0)


def _merge_runs(rows: np.ndarray, these: TrainingState, others: TrainingState) -> TrainingState:
    """One state where `rows` (run,) holds, the other elsewhere; the step of the first."""
    if rows.all():
        return these
    column = rows[:, None]
    return TrainingState(
        step=these.step,
        seeds=these.seeds,
        weights=np.where(column, these.weights, others.weights),
        moments={name: np.where(column, new, others.moments[name]) for name, new in these.moments.items()},
        updates=these.updates,
        gradient_norm=np.where(column, these.gradient_norm, others.gradient_norm),
        update_norm=np.where(column, these.update_norm, others.update_norm),
        last_step=np.where(rows, these.last_step, others.last_step),
    )


def observe_runs(trainer: Trainer, state: TrainingState) -> dict[str, np.ndarray]:
    """What is recorded of these runs."""
    trainer.take(state)
    loss, accuracy = trainer.engine.scores()
    beyond = ~np.isfinite(loss).all(axis=1)  # about to diverge: weights are finite, logits in float32 no more
    if beyond.any():
        loss[beyond], accuracy[beyond] = trainer.engine.exact_scores(beyond)
    named = zip(trainer.network.shapes.items(), trainer.begins, trainer.network.lengths, strict=True)
    return {
        **{name: state.weights[:, at : at + size].reshape(-1, *shape) for (name, shape), at, size in named},
        "gradient_norm": _to_float32(state.gradient_norm),
        "update_norm": _to_float32(state.update_norm),
        "loss": _to_float32(loss),
        "accuracy": _to_float32(accuracy),
    }


def _to_float32(values: np.ndarray) -> np.ndarray:
    """As float32, what is beyond its range at its end."""
    return np.minimum(values, _FLOAT32_MAX).astype(np.float32)


# ------------------------------------------------------------------------------------------ the ensemble

_Result = TypeVar("_Result")


class EnsembleTrainer:
    """A trainer for each thread's share of the runs, which `make` gives for their seeds."""

    def __init__(self, make: Callable[[np.ndarray], Trainer], seeds: np.ndarray, device: str) -> None:
        self.seeds = np.array(seeds)
        groups = -(-len(seeds) // LANES_32)
        threads = min(groups, get_num_threads()) if device == "cpu" else 1
        bounds = [min(len(seeds), LANES_32 * (groups * k // threads)) for k in range(threads + 1)]
        self.shares = [slice(*ends) for ends in itertools.pairwise(bounds)]
        self.pool = ThreadPoolExecutor(threads)
        self.trainers = list(self.pool.map(lambda rows: make(self.seeds[rows]), self.shares))
        self.last: tuple[TrainingState, list[TrainingState]] | None = None

    def each(self, work: Callable[[Trainer, TrainingState], _Result], state: TrainingState) -> list[_Result]:
        """The work done on every share of a state, each on a thread of its own."""
        if self.last is not None and state is self.last[0]:  # the parts that trainers hold
            parts = self.last[1]
        else:
            parts = [state_of_runs(state, rows) for rows in self.shares]
        return list(self.pool.map(work, self.trainers, parts))

    def next(self, work: Callable[[Trainer, TrainingState], TrainingState], state: TrainingState) -> TrainingState:
        """As `each`, put together again."""
        parts = self.each(work, state)
        whole = concatenate_states(parts)
        self.last = (whole, parts)
        return whole


def state_of_runs(state: TrainingState, rows: slice) -> TrainingState:
    """Some runs of a state."""
    return TrainingState(
        step=state.step,
        seeds=state.seeds[rows],
        weights=state.weights[rows],
        moments={name: moment[rows] for name, moment in state.moments.items()},
        updates=state.updates,
        gradient_norm=state.gradient_norm[rows],
        update_norm=state.update_norm[rows],
        last_step=state.last_step[rows],
    )


def concatenate_states(parts: list[TrainingState]) -> TrainingState:
    """The inverse of `part_of`, of all shares."""
    return TrainingState(
        step=parts[0].step,
        seeds=np.concatenate([part.seeds for part in parts]),
        weights=np.concatenate([part.weights for part in parts]),
        moments={name: np.concatenate([part.moments[name] for part in parts]) for name in parts[0].moments},
        updates=parts[0].updates,
        gradient_norm=np.concatenate([part.gradient_norm for part in parts]),
        update_norm=np.concatenate([part.update_norm for part in parts]),
        last_step=np.concatenate([part.last_step for part in parts]),
    )
