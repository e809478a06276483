"""Advancing an ensemble of networks: groups of runs on threads, and the treatment of
runs that diverge.

The runs are divided among threads. Each thread has one backend
(`dynamics.training.backends`) for its group of runs and takes all steps up to the next
recorded frame without waiting for others. There is a single group on CUDA, and for the
transformer, whose backend has threads of its own.

A run has diverged when a weight or moment is no longer finite, which also happens when
the activations of a training input overflow. It keeps its last finite state, and the
other runs continue. Since a number that is not finite remains so, the state is checked
only after several steps; if a run has diverged, these steps are repeated in two halves,
recursively."""

from __future__ import annotations

import dataclasses
import itertools
import operator
from collections.abc import Callable, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from typing import Any, TypeVar

import numpy as np
from numba import get_num_threads

from dynamics.kernels.simd import LANES_32
from dynamics.networks.parameters import NetworkParameters
from dynamics.training.backends import Backend

_FLOAT32_MAX = float(np.finfo(np.float32).max)


@dataclasses.dataclass(frozen=True)
class TrainingState:
    """An ensemble after `step` updates. The arrays are never changed in place."""

    step: int
    seeds: np.ndarray
    """(run,) Seeds."""
    weights: np.ndarray
    """(run, parameter) float32, flat in the order of the network's variables."""
    moments: Mapping[str, np.ndarray]
    """Moments of the optimizer by name, each (run, parameter)."""
    updates: int
    """Number of updates that the moments have received: `step`, unless a branch has
    changed the optimizer."""
    gradient_norm: np.ndarray
    """(run, layer) Norm of the gradient that the last update used."""
    update_norm: np.ndarray
    """(run, layer) Norm of the last update."""
    last_step: np.ndarray
    """(run,) `step`, or for a run that has diverged the last step before it
    diverged."""
    batch_seeds: np.ndarray
    """(run,) Seeds of the order of the training data: `seeds`, unless a copy of a run
    has other mini-batches."""


_PER_RUN = (
    "seeds",
    "weights",
    "gradient_norm",
    "update_norm",
    "last_step",
    "batch_seeds",
)


def _map_arrays(function: Callable[..., Any], *states: TrainingState) -> TrainingState:
    """The first state with the result of `function` for each per-run array of all
    states."""
    first = states[0]
    arrays: dict[str, Any] = {
        name: function(*(getattr(state, name) for state in states)) for name in _PER_RUN
    }
    moments = {
        name: function(*(state.moments[name] for state in states))
        for name in first.moments
    }
    return dataclasses.replace(first, moments=moments, **arrays)


def _merge_runs(
    mask: np.ndarray, these: TrainingState, others: TrainingState
) -> TrainingState:
    """The state `these` for the runs where `mask` (run,) is true, `others` elsewhere;
    the step of `these`."""
    return _map_arrays(
        lambda new, old: np.where(mask.reshape(-1, *(1,) * (new.ndim - 1)), new, old),
        these,
        others,
    )


def with_moments(state: TrainingState, names: Sequence[str]) -> TrainingState:
    """The state with moments of these names: its own if it has them, else zeros, as
    after a change of optimizer."""
    if set(names) == set(state.moments):
        return state
    moments = {name: np.zeros_like(state.weights) for name in names}
    return dataclasses.replace(state, moments=moments, updates=0)


# -------------------------------------------------------------------- one group of runs


class Trainer:
    """A network and the backend that trains a group of runs; remembers which state the
    backend holds."""

    def __init__(self, network: NetworkParameters, backend: Backend) -> None:
        self.network = network
        self.backend = backend
        self.begins = np.array(list(network.begins.values()))
        self.held: np.ndarray | None = (
            None  # the weights of the state that the backend holds
        )

    def load(self, state: TrainingState) -> None:
        """Make the backend hold a state."""
        if state.weights is not self.held:
            self.backend.set_state(state.weights, state.moments, state.updates)
            self.held = state.weights

    def norms(self, rows: np.ndarray) -> np.ndarray:
        """Norm of each layer, (run, layer) float64, of rows (run, parameter)."""
        doubled = rows.astype(np.float64)
        return np.sqrt(np.add.reduceat(doubled * doubled, self.begins, axis=1))


def with_gradient_norm(trainer: Trainer, state: TrainingState) -> TrainingState:
    """An initial state, with the norm of its gradient."""
    trainer.load(state)
    trainer.backend.differentiate(state.step)
    return dataclasses.replace(
        state, gradient_norm=trainer.norms(trainer.backend.gradient())
    )


def advance_runs(trainer: Trainer, state: TrainingState, steps: int) -> TrainingState:
    """The state `steps` updates later; runs that have diverged keep their last finite
    state."""
    after = _attempt_steps(trainer, state, steps)
    running = state.last_step == state.step
    finite = running & np.isfinite(after.weights).all(axis=1)
    for moment in after.moments.values():
        finite &= np.isfinite(moment).all(axis=1)
    if finite.all():
        trainer.held = after.weights
        return after
    if (finite == running).all() or steps == 1:
        return _merge_runs(finite, after, state)
    half = steps // 2
    return advance_runs(trainer, advance_runs(trainer, state, half), steps - half)


def _attempt_steps(trainer: Trainer, state: TrainingState, steps: int) -> TrainingState:
    """The state `steps` updates later, whether finite or not."""
    trainer.load(state)
    trainer.held = None
    backend = trainer.backend
    backend.train(state.step, steps)
    return TrainingState(
        step=state.step + steps,
        seeds=state.seeds,
        weights=backend.weights(),
        moments=backend.moments(),
        updates=state.updates + steps,
        gradient_norm=trainer.norms(backend.gradient()),
        update_norm=trainer.norms(backend.last_update()),
        last_step=np.full(len(state.seeds), state.step + steps, np.int64),
        batch_seeds=state.batch_seeds,
    )


def observe_runs(trainer: Trainer, state: TrainingState) -> dict[str, np.ndarray]:
    """The recorded variables of a state."""
    trainer.load(state)
    loss, accuracy = trainer.backend.scores()
    overflow = ~np.isfinite(loss).all(
        axis=1
    )  # the weights are finite, but the logits overflow in float32
    if overflow.any():
        loss[overflow], accuracy[overflow] = trainer.backend.exact_scores(overflow)
    layers = zip(
        trainer.network.shapes.items(),
        trainer.begins,
        trainer.network.lengths,
        strict=True,
    )
    return {
        **{
            name: state.weights[:, at : at + size].reshape(-1, *shape)
            for (name, shape), at, size in layers
        },
        "gradient_norm": _to_float32(state.gradient_norm),
        "update_norm": _to_float32(state.update_norm),
        "loss": _to_float32(loss),
        "accuracy": _to_float32(accuracy),
    }


def _to_float32(values: np.ndarray) -> np.ndarray:
    """Values as float32; those that are too large become the largest float32."""
    return np.minimum(values, _FLOAT32_MAX).astype(np.float32)


# ------------------------------------------------------------------------- the ensemble

_Result = TypeVar("_Result")


class EnsembleTrainer:
    """An ensemble divided into groups of runs, with a trainer and a thread for each;
    `make` creates a trainer.

    divided: whether there is more than one group.
    """

    def __init__(
        self, make: Callable[[np.ndarray], Trainer], seeds: np.ndarray, divided: bool
    ) -> None:
        self.seeds = np.array(seeds)
        blocks = -(-len(seeds) // LANES_32)
        threads = min(blocks, get_num_threads()) if divided else 1
        bounds = [
            min(len(seeds), LANES_32 * (blocks * k // threads))
            for k in range(threads + 1)
        ]
        self.groups = [slice(*ends) for ends in itertools.pairwise(bounds)]
        self.pool = ThreadPoolExecutor(threads)
        self.trainers = list(
            self.pool.map(lambda rows: make(self.seeds[rows]), self.groups)
        )
        self.last: tuple[TrainingState, list[TrainingState]] | None = None

    def map(
        self,
        function: Callable[[Trainer, TrainingState], _Result],
        state: TrainingState,
    ) -> list[_Result]:
        """The results of a function for each group of runs, each computed on its own
        thread."""
        if (
            self.last is not None and state is self.last[0]
        ):  # the parts that the trainers hold
            parts = self.last[1]
        else:
            selections = [operator.itemgetter(rows) for rows in self.groups]
            parts = [_map_arrays(selection, state) for selection in selections]
        return list(self.pool.map(function, self.trainers, parts))

    def map_state(
        self,
        function: Callable[[Trainer, TrainingState], TrainingState],
        state: TrainingState,
    ) -> TrainingState:
        """As `map`, for a function that returns a state; the results are
        concatenated."""
        parts = self.map(function, state)
        whole = _map_arrays(lambda *arrays: np.concatenate(arrays), *parts)
        self.last = (whole, parts)
        return whole
