"""Trainers: runs of an ensemble that take optimizer steps, each on its own training split.

Runs are shared out among threads, one optimizer of torch's to each share, and a thread takes all steps up to
the next recorded frame without waiting for another. On CUDA there is one share, whose step is captured in a
graph.

A run whose weights or moments are no longer finite, which also happens where the activations of any pair of tokens
overflow, has diverged: it stays at its last finite state and ends there, and the others go on. No step is checked by
itself: a number that is not finite stays so, hence it is enough to look after some steps and, where one is found, to
take these again in halves.
"""

import dataclasses
import itertools
import threading
from collections.abc import Callable, Mapping
from concurrent.futures import ThreadPoolExecutor
from typing import TypeVar

import numpy as np
import torch
from numba import get_num_threads

from dynamics.engines import AutogradEngine, Engine, LaneEngine
from dynamics.lanes import WIDTH_32
from dynamics.networks import ConstantAttention
from dynamics.settings import ModularSettings
from dynamics.tasks import training_pairs

LARGEST = float(np.finfo(np.float32).max)


@dataclasses.dataclass(frozen=True)
class TrainingState:
    """An ensemble after `step` updates. Nothing in it is changed in place; tensors are on the system's device."""

    step: int
    seeds: np.ndarray  # (run,)
    weights: torch.Tensor  # (run, parameter) float32, flat in the order of the network's variables
    moments: Mapping[str, torch.Tensor]  # the optimizer's, each (run, parameter)
    updates: int  # that the moments have seen: `step`, but where a branch has changed the optimizer
    gradient_norm: np.ndarray  # (run, layer) of the gradient that the last update used
    update_norm: np.ndarray  # (run, layer) of the last update
    last_step: np.ndarray  # (run,) `step`, or where a run diverged the last step before


# -------------------------------------------------------------------------------------- some of the runs


class Trainer:
    """Advances some runs, given by their seeds, by optimizer steps."""

    def __init__(self, network: ConstantAttention, seeds: np.ndarray, device: str, width: int = 0) -> None:
        s = network.settings
        chosen = training_pairs(s.n, s.train_pairs, seeds)
        self.network = network
        self.splits = [chosen / s.train_pairs]  # weight of each pair in a split's mean, (run, pair)
        if s.train_pairs < s.pairs:
            self.splits.append(~chosen / (s.pairs - s.train_pairs))
        self.engine: Engine = (
            LaneEngine(network, self.splits[0])
            if device == "cpu"
            else AutogradEngine(network, self.splits[0], device, width)
        )
        self.optimizer = new_optimizer(s, self.engine.parameter)
        self.moment_names = moment_names(s)
        self.begins = np.cumsum([0, *network.lengths[:-1]])
        self.graph: torch.cuda.CUDAGraph | None = None
        self.holds: torch.Tensor | None = None

    @torch.no_grad()
    def take(self, state: TrainingState) -> None:
        """Begin from a state. The one given last is held already."""
        if state.weights is self.holds:
            return
        parameter = self.engine.parameter
        parameter.copy_(self.engine.arrange(state.weights))
        memory = self.optimizer.state[parameter]
        for name in self.moment_names:
            memory.setdefault(name, torch.zeros_like(parameter)).copy_(self.engine.arrange(state.moments[name]))
        if "exp_avg" in self.moment_names:
            memory.setdefault("step", torch.zeros((), device=parameter.device)).fill_(float(state.updates))
        self.holds = state.weights

    def run(self, steps: int) -> None:
        """Take so many steps."""
        self.holds = None
        if not self.engine.parameter.is_cuda:
            for _ in range(steps):
                self._step()
        elif steps:
            self.graph = self.graph or self._capture()
            for _ in range(steps):
                self.graph.replay()

    def _step(self) -> None:
        self.engine.differentiate()
        self.optimizer.step()

    def _capture(self) -> torch.cuda.CUDAGraph:
        """A step as a graph; what the warm-up steps change is put back."""
        state = self.optimizer.state[self.engine.parameter]
        touched = [self.engine.parameter, *(value for value in state.values() if torch.is_tensor(value))]
        before = [tensor.detach().clone() for tensor in touched]
        aside = torch.cuda.Stream()
        aside.wait_stream(torch.cuda.current_stream())
        with torch.cuda.stream(aside):
            for _ in range(3):
                self._step()
        torch.cuda.current_stream().wait_stream(aside)
        graph = torch.cuda.CUDAGraph()
        with torch.cuda.graph(graph):
            self._step()
        with torch.no_grad():
            for tensor, value in zip(touched, before, strict=True):
                tensor.copy_(value)
        return graph

    def is_finite(self) -> bool:
        """Whether all weights and moments are."""
        memory = self.optimizer.state[self.engine.parameter]
        held = [self.engine.parameter.detach(), *(memory[name] for name in self.moment_names)]
        return all(bool(torch.isfinite(tensor).all()) for tensor in held)

    def weights(self) -> torch.Tensor:
        """(run, parameter)"""
        return self.engine.rows(self.engine.parameter.detach())

    def moments(self) -> dict[str, torch.Tensor]:
        """The optimizer's, each (run, parameter)."""
        memory = self.optimizer.state[self.engine.parameter]
        return {name: self.engine.rows(memory[name]) for name in self.moment_names}

    def gradient_norm(self) -> np.ndarray:
        """Norm of the last gradient, (run, layer)."""
        assert self.engine.parameter.grad is not None
        return self.norms(self.engine.parameter.grad)

    def norms(self, arranged: torch.Tensor) -> np.ndarray:
        """Norm of each layer, (run, layer), of numbers in the engine's order."""
        rows = self.engine.rows(arranged).cpu().numpy().astype(np.float64)
        return np.sqrt(np.add.reduceat(rows * rows, self.begins, axis=1))


def new_optimizer(settings: ModularSettings, parameter: torch.Tensor) -> torch.optim.Optimizer:
    """The update rule that settings name, fused; on CUDA able to stand in a graph."""
    s = settings
    if s.optimizer == "sgd":
        return torch.optim.SGD([parameter], lr=s.lr, momentum=s.momentum, weight_decay=s.weight_decay, fused=True)
    rule = torch.optim.AdamW if s.optimizer == "adamw" else torch.optim.Adam
    betas, graph = (s.beta1, s.beta2), parameter.is_cuda
    return rule([parameter], lr=s.lr, betas=betas, weight_decay=s.weight_decay, fused=True, capturable=graph)


def moment_names(settings: ModularSettings) -> tuple[str, ...]:
    """What the optimizer remembers of each parameter, by torch's names."""
    if settings.optimizer == "sgd":
        return ("momentum_buffer",) if settings.momentum else ()
    return ("exp_avg", "exp_avg_sq")


# ------------------------------------------------------------------------------- the steps of these runs


def at_rest(trainer: Trainer, state: TrainingState) -> TrainingState:
    """A state at step 0 with the norm of its gradient."""
    trainer.take(state)
    trainer.engine.differentiate()
    return dataclasses.replace(state, gradient_norm=trainer.gradient_norm())


def advanced(trainer: Trainer, state: TrainingState, steps: int) -> TrainingState:
    """The state some steps later, of runs that have diverged as it was before."""
    after = attempt(trainer, state, steps)
    running = state.last_step == state.step
    if running.all() and trainer.is_finite():
        trainer.holds = after.weights
        return after
    finite = torch.isfinite(after.weights).all(1)
    for moment in after.moments.values():
        finite &= torch.isfinite(moment).all(1)
    kept = finite.cpu().numpy() & running
    if (kept == running).all() or steps == 1:
        return chosen_rows(kept, after, state)
    half = steps // 2
    return advanced(trainer, advanced(trainer, state, half), steps - half)


def with_moments(state: TrainingState, names: tuple[str, ...]) -> TrainingState:
    """The state with the moments of these names: all its own, or none yet, as where a branch changes the optimizer."""
    if set(names) == set(state.moments):
        return state
    moments = {name: torch.zeros_like(state.weights) for name in names}
    return dataclasses.replace(state, moments=moments, updates=0)


def attempt(trainer: Trainer, state: TrainingState, steps: int) -> TrainingState:
    """Steps taken by all runs, whatever comes of it; the last one is measured."""
    trainer.take(state)
    trainer.run(steps - 1)
    before = trainer.engine.parameter.detach().clone()
    trainer.run(1)
    return TrainingState(
        step=state.step + steps,
        seeds=state.seeds,
        weights=trainer.weights(),
        moments=trainer.moments(),
        updates=state.updates + steps,
        gradient_norm=trainer.gradient_norm(),
        update_norm=trainer.norms(trainer.engine.parameter.detach() - before),
        last_step=np.full(len(state.seeds), state.step + steps, np.int64),
    )


def chosen_rows(rows: np.ndarray, these: TrainingState, others: TrainingState) -> TrainingState:
    """One state where `rows` (run,) holds, the other elsewhere; the step of the first."""
    if rows.all():
        return these
    on_device = torch.from_numpy(rows).to(these.weights.device)[:, None]
    return TrainingState(
        step=these.step,
        seeds=these.seeds,
        weights=torch.where(on_device, these.weights, others.weights),
        moments={name: torch.where(on_device, new, others.moments[name]) for name, new in these.moments.items()},
        updates=these.updates,
        gradient_norm=np.where(rows[:, None], these.gradient_norm, others.gradient_norm),
        update_norm=np.where(rows[:, None], these.update_norm, others.update_norm),
        last_step=np.where(rows, these.last_step, others.last_step),
    )


def frame(trainer: Trainer, state: TrainingState) -> dict[str, np.ndarray]:
    """What is recorded of these runs."""
    trainer.take(state)
    losses, right = trainer.engine.scores()
    beyond = ~np.isfinite(losses).all(axis=1)  # about to diverge: weights are finite, logits in float32 no more
    if beyond.any():
        losses[beyond], right[beyond] = in_double(trainer.network, state.weights.cpu()[beyond])
    weights = trainer.network.unflatten(state.weights)
    return {
        **{name: np.ascontiguousarray(value.cpu().numpy()) for name, value in weights.items()},
        "gradient_norm": single(state.gradient_norm),
        "update_norm": single(state.update_norm),
        "loss": single(np.stack([(losses * split).sum(1) for split in trainer.splits], axis=1)),
        "accuracy": single(np.stack([(right * split).sum(1) for split in trainer.splits], axis=1)),
    }


def in_double(network: ConstantAttention, rows: torch.Tensor) -> tuple[np.ndarray, np.ndarray]:
    """`Engine.scores` in float64, which finite float32 weights cannot overflow."""
    engine = AutogradEngine(network, np.zeros((len(rows), network.settings.pairs)), "cpu")
    with torch.no_grad():
        engine.parameter = engine.arrange(rows).double()
    return engine.scores()


def single(values: np.ndarray) -> np.ndarray:
    """As float32, what is beyond its range at its end."""
    return np.minimum(values, LARGEST).astype(np.float32)


# ------------------------------------------------------------------------------------------ the ensemble

Result = TypeVar("Result")


class Team:
    """A trainer for each thread's share of the runs."""

    def __init__(self, network: ConstantAttention, seeds: np.ndarray, device: str, width: int) -> None:
        self.seeds = np.array(seeds)
        groups = -(-len(seeds) // WIDTH_32)
        threads = min(groups, get_num_threads()) if device == "cpu" else 1
        bounds = [min(len(seeds), WIDTH_32 * (groups * k // threads)) for k in range(threads + 1)]
        self.shares = [slice(*ends) for ends in itertools.pairwise(bounds)]
        self.trainers = [Trainer(network, seeds[rows], device, width) for rows in self.shares]
        self.pool = pool_of(threads)
        self.last: tuple[TrainingState, list[TrainingState]] | None = None

    def each(self, work: Callable[[Trainer, TrainingState], Result], state: TrainingState) -> list[Result]:
        """The work done on every share of a state, each on a thread of its own."""
        if self.last is not None and state is self.last[0]:  # the parts that trainers hold
            parts = self.last[1]
        else:
            parts = [part_of(state, rows) for rows in self.shares]
        return list(self.pool.map(work, self.trainers, parts))

    def next(self, work: Callable[[Trainer, TrainingState], TrainingState], state: TrainingState) -> TrainingState:
        """As `each`, put together again: there too, since torch's own threads would stand in the way of these."""
        parts = self.each(work, state)
        whole = self.pool.submit(joined, parts).result()
        self.last = (whole, parts)
        return whole


def pool_of(threads: int) -> ThreadPoolExecutor:
    """Threads in which torch has no threads of its own; elsewhere it keeps what it has."""
    before, together = torch.get_num_threads(), threading.Barrier(threads)
    pool = ThreadPoolExecutor(threads, initializer=torch.set_num_threads, initargs=(1,))
    list(pool.map(lambda _: together.wait(), range(threads)))  # each has begun
    torch.set_num_threads(before)  # the last call also counts for threads that begin later
    return pool


def part_of(state: TrainingState, rows: slice) -> TrainingState:
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


def joined(parts: list[TrainingState]) -> TrainingState:
    """The inverse of `part_of`, of all shares."""
    return TrainingState(
        step=parts[0].step,
        seeds=np.concatenate([part.seeds for part in parts]),
        weights=torch.cat([part.weights for part in parts]),
        moments={name: torch.cat([part.moments[name] for part in parts]) for name in parts[0].moments},
        updates=parts[0].updates,
        gradient_norm=np.concatenate([part.gradient_norm for part in parts]),
        update_norm=np.concatenate([part.update_norm for part in parts]),
        last_step=np.concatenate([part.last_step for part in parts]),
    )
