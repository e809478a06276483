"""Backends for the transformer, trained on its whole training split or on mini-batches.

On a CPU each run is computed by itself: its pairs are divided into portions of a fixed size, and each portion is
computed on one thread. So the bits of a run depend neither on the ensemble nor on the number of threads. Threads take
whole runs, or, if there are fewer runs than threads, portions.

The gradient of the cross-entropy with respect to the logits is softmax - target. In float32 its entry for the correct
class is 0 once the probability of that class rounds to 1, which ends the training of a network that has memorised its
data. Here this entry is minus the sum of the others, which keeps its relative precision down to the smallest float32.
"""

from __future__ import annotations

import itertools
from collections.abc import Callable, Iterable, Mapping
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import numpy as np
import torch
from numba import get_num_threads

from dynamics.kernels.optimizers import moment_names
from dynamics.networks.parameters import Weights
from dynamics.networks.transformer import Transformer
from dynamics.settings import TransformerSettings
from dynamics.system import DEFAULT_CLOCK, EpochClock
from dynamics.tasks import operation_pairs, operation_splits
from dynamics.training.backends import Backend, TorchBackend, concatenate_scores, mean_scores, torch_optimizer
from dynamics.training.minibatches import epoch_and_batch, epoch_orders

PORTION_PAIRS = 1024
"""Largest number of pairs that are computed together on a CPU; their activations fit into a core's cache."""


def learning_rate(s: TransformerSettings, step: int) -> float:
    """The learning rate of the update that follows `step` updates."""
    return s.lr * min(1.0, (step + 1) / max(1, s.warmup))


def transformer_splits(s: TransformerSettings) -> tuple[str, ...]:
    """Names of the splits that are not empty."""
    return ("train", "test") if s.train_pairs < s.pairs else ("train",)


def split_counts(s: TransformerSettings, train: np.ndarray) -> np.ndarray:
    """Number of times that each pair occurs in each split, 0 or 1: (run, pair, split) float64.

    train: indices of the training pairs, (run, training pair).
    """
    trained = np.zeros((len(train), s.pairs))
    np.put_along_axis(trained, train, 1.0, axis=1)
    return np.stack([trained, 1 - trained][: len(transformer_splits(s))], axis=-1)


def loss_gradient(logits: torch.Tensor, target: torch.Tensor, count: int) -> torch.Tensor:
    """Gradient of the sum of cross-entropies divided by `count` with respect to logits (item, class)."""
    gradient = torch.softmax(logits, dim=-1)
    gradient.scatter_(-1, target[:, None], 0.0)
    gradient.scatter_(-1, target[:, None], -gradient.sum(-1, keepdim=True))
    return gradient.div_(count)


# ------------------------------------------------------------------------------------------------- on a CPU

_Mapping = Callable[[Callable[..., Any], Iterable[Any]], Iterable[Any]]


class TransformerRun:
    """One run in training on a CPU. Methods with an argument `each` compute portions of the pairs with this `map`."""

    def __init__(self, network: Transformer, seed: int, clock: EpochClock, dtype: torch.dtype) -> None:
        s, self.network, self.seed, self.clock = network.settings, network, seed, clock
        train, _ = operation_splits(s, np.array([seed]))
        self.counts = torch.from_numpy(split_counts(s, train))
        self.all_pairs = torch.from_numpy(operation_pairs(s))
        self.train_pairs = self.all_pairs[torch.from_numpy(train[0])]
        self.parameters = torch.zeros(sum(network.lengths), dtype=dtype, requires_grad=True)
        self.parameters.grad = torch.zeros_like(self.parameters)
        group = {"params": [self.parameters], "lr": s.lr, "weight_decay": s.weight_decay}
        self.optimizer = torch_optimizer(s, [group], graph=False)
        self.before = self.parameters.detach().clone()
        self.order: tuple[int, torch.Tensor] | None = None

    @torch.no_grad()
    def set_state(self, weights: np.ndarray, moments: Mapping[str, np.ndarray], updates: int) -> None:
        """Set the weights and the optimizer's moments, each (parameter,)."""
        self.parameters.copy_(torch.from_numpy(weights))
        self.optimizer.state[self.parameters] = {
            **{name: torch.from_numpy(values).to(self.parameters.dtype, copy=True) for name, values in moments.items()},
            **({"step": torch.tensor(float(updates))} if "exp_avg" in moments else {}),
        }

    def train(self, step: int, steps: int, each: _Mapping = map) -> None:
        """Apply the updates step + 1, ..., step + steps."""
        for at in range(step, step + steps):
            self.differentiate(at, each)
            if at == step + steps - 1:
                self.before.copy_(self.parameters.detach())
            self.optimizer.param_groups[0]["lr"] = learning_rate(self.network.settings, at)
            self.optimizer.step()

    def differentiate(self, step: int, each: _Mapping = map) -> None:
        """Compute the gradient that update step + 1 uses."""
        pairs = self._batch(step)
        tables = self.network.prepare(self.network.unflatten(self.parameters))
        leaves = {name: table.detach().requires_grad_() for name, table in tables.items()}

        def gradients(portion: torch.Tensor) -> tuple[torch.Tensor, ...]:
            logits = self.network.pair_logits(leaves, portion)
            upstream = loss_gradient(logits.detach(), self.network.target(portion), len(pairs))
            return torch.autograd.grad(logits, list(leaves.values()), upstream)

        total, *others = each(gradients, _portions(pairs))
        for part in others:
            for whole, addend in zip(total, part, strict=True):
                whole += addend
        (gradient,) = torch.autograd.grad(list(tables.values()), self.parameters, total)
        self.parameters.grad = gradient

    def _batch(self, step: int) -> torch.Tensor:
        """The pairs of update step + 1."""
        s = self.network.settings
        if not s.batch:
            return self.train_pairs
        epoch, batch = epoch_and_batch(s.epoch_steps, self.clock, step)
        if self.order is None or self.order[0] != epoch:
            self.order = (epoch, torch.from_numpy(epoch_orders(np.array([self.seed]), epoch, s.train_pairs)[0]))
        return self.train_pairs[self.order[1][batch * s.batch : (batch + 1) * s.batch]]

    @torch.no_grad()
    def scores(self, dtype: torch.dtype) -> tuple[np.ndarray, np.ndarray]:
        """Mean cross-entropy and accuracy, both (1, split) float64, of logits computed in `dtype`."""
        tables = self.network.prepare(self.network.unflatten(self.parameters.detach().to(dtype)))
        logits = torch.cat([self.network.pair_logits(tables, pairs) for pairs in _portions(self.all_pairs)])
        return mean_scores(logits[None], self.network.target(self.all_pairs), self.counts)


def _portions(pairs: torch.Tensor) -> tuple[torch.Tensor, ...]:
    """The pairs in portions of almost equal size, whose number is a power of two, for 2, 4 ... threads."""
    count = 1
    while count * PORTION_PAIRS < len(pairs):
        count *= 2
    return torch.tensor_split(pairs, count)


class TransformerCpuBackend(Backend):
    """Training on a CPU. A run depends only on its own state, bit for bit."""

    def __init__(
        self,
        network: Transformer,
        seeds: np.ndarray,
        clock: EpochClock = DEFAULT_CLOCK,
        dtype: torch.dtype = torch.float32,
    ) -> None:
        self.names, self.dtype = moment_names(network.settings), dtype
        self.runs = [TransformerRun(network, int(seed), clock, dtype) for seed in seeds]
        self.threads = get_num_threads()
        self.pool = ThreadPoolExecutor(self.threads, initializer=torch.set_num_threads, initargs=(1,))

    def set_state(self, weights: np.ndarray, moments: Mapping[str, np.ndarray], updates: int) -> None:
        for at, run in enumerate(self.runs):
            run.set_state(weights[at], {name: moments[name][at] for name in self.names}, updates)
        self.updates = updates

    def train(self, step: int, steps: int) -> None:
        self._for_each_run(lambda run, each: run.train(step, steps, each))
        self.updates += steps

    def differentiate(self, step: int) -> None:
        self._for_each_run(lambda run, each: run.differentiate(step, each))

    def _for_each_run(self, function: Callable[[TransformerRun, _Mapping], Any]) -> None:
        """Call a function of each run and of the `map` for its portions."""
        if len(self.runs) < self.threads:
            for run in self.runs:
                function(run, self.pool.map)
        else:
            list(self.pool.map(lambda run: function(run, map), self.runs))

    def weights(self) -> np.ndarray:
        return self._rows(lambda run: run.parameters)

    def moments(self) -> dict[str, np.ndarray]:
        return {
            name: self._rows(lambda run, name=name: run.optimizer.state[run.parameters][name]) for name in self.names
        }

    def gradient(self) -> np.ndarray:
        return self._rows(lambda run: run.parameters.grad)

    def last_update(self) -> np.ndarray:
        return self._rows(lambda run: run.parameters.detach() - run.before)

    def _rows(self, values: Callable[..., torch.Tensor]) -> np.ndarray:
        return torch.stack([values(run).detach() for run in self.runs]).numpy()

    def scores(self) -> tuple[np.ndarray, np.ndarray]:
        return concatenate_scores(self.pool.map(lambda run: run.scores(self.dtype), self.runs))

    def exact_scores(self, mask: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        runs = itertools.compress(self.runs, mask)
        return concatenate_scores(self.pool.map(lambda run: run.scores(torch.float64), runs))


# -------------------------------------------------------------------------------------- on a device of torch


class TransformerTorchBackend(TorchBackend):
    """Training on a torch device. Full mini-batches and a shorter last one of an epoch have separate CUDA graphs."""

    network: Transformer

    def __init__(
        self, network: Transformer, seeds: np.ndarray, device: str, width: int = 0, clock: EpochClock = DEFAULT_CLOCK
    ) -> None:
        s, self.clock = network.settings, clock
        super().__init__(s, network, len(seeds), device, width)
        for group in self.optimizer.param_groups:
            group["lr"] = torch.tensor(group["lr"], device=device)  # a tensor, which a CUDA graph reads at each step
        runs = np.minimum(np.arange(self.width), len(seeds) - 1)  # repeat the last run
        self.seeds, (train, _) = np.asarray(seeds)[runs], operation_splits(s, seeds)
        self.counts = torch.from_numpy(split_counts(s, train)).to(device)
        self.pairs = torch.from_numpy(operation_pairs(s)).to(device)
        self.train_pairs = self.pairs[torch.from_numpy(train[runs]).to(device)]  # (run, pair, 2)
        self.batch = self.train_pairs[:, : s.batch_pairs].clone()
        self.order, self.epoch = torch.from_numpy(np.argsort(train[runs], axis=1)).to(device), -1

    def prepare(self, step: int) -> int:
        s = self.network.settings
        for group in self.optimizer.param_groups:
            group["lr"].fill_(learning_rate(s, step))
        if not s.batch:
            return s.train_pairs
        epoch, batch = epoch_and_batch(s.epoch_steps, self.clock, step)
        if epoch != self.epoch:
            self.order.copy_(torch.from_numpy(epoch_orders(self.seeds, epoch, s.train_pairs)))
            self.epoch = epoch
        rows = self.order[:, batch * s.batch : (batch + 1) * s.batch]
        self.batch[:, : rows.shape[1]] = torch.take_along_dim(self.train_pairs, rows[..., None], dim=1)
        return rows.shape[1]

    def loss(self, weights: Weights, step: int) -> torch.Tensor:
        s = self.network.settings
        size = min(s.batch_pairs, s.train_pairs - epoch_and_batch(s.epoch_steps, self.clock, step)[1] * s.batch_pairs)
        return self.network.losses(weights, self.batch[:, :size]).mean(-1).sum()

    def scores_of(self, weights: Weights, runs: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        found = []
        for at, run in enumerate(runs):
            logits = self.network.logits({name: weight[at] for name, weight in weights.items()}, self.pairs)
            found.append(mean_scores(logits[None], self.network.target(self.pairs), self.counts[[run]]))
        return concatenate_scores(found)
