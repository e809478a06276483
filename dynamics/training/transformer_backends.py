"""Backends for the transformer, trained on its whole training split or on mini-batches.

The gradient of the cross-entropy with respect to the logits is softmax - target. In
float32 its entry for the correct class is 0 once the probability of that class rounds
to 1, which ends the training of a network that has memorised its data. Here this entry
is minus the sum of the others, which keeps its relative precision down to the smallest
float32."""

from __future__ import annotations

import numpy as np
import torch

from dynamics.networks.parameters import Weights
from dynamics.networks.transformer_network import Transformer
from dynamics.settings import TransformerSettings
from dynamics.system import DEFAULT_CLOCK, EpochClock
from dynamics.tasks import operation_pairs, operation_splits
from dynamics.training.backends import TorchBackend, concatenate_scores, mean_scores
from dynamics.training.minibatches import epoch_and_batch, epoch_orders
from dynamics.training.runwise_backend import (
    Map,
    RunwiseBackend,
    TorchRun,
    pair_portions,
    sum_over_portions,
)


def transformer_splits(s: TransformerSettings) -> tuple[str, ...]:
    """Names of the splits that are not empty."""
    return ("train", "test") if s.train_pairs < s.pairs else ("train",)


def split_counts(s: TransformerSettings, train: np.ndarray) -> np.ndarray:
    """Number of times that each pair occurs in each split, 0 or 1: (run, pair, split)
    float64.

    train: indices of the training pairs, (run, training pair).
    """
    trained = np.zeros((len(train), s.pairs))
    np.put_along_axis(trained, train, 1.0, axis=1)
    return np.stack([trained, 1 - trained][: len(transformer_splits(s))], axis=-1)


def loss_gradient(
    logits: torch.Tensor, target: torch.Tensor, count: int
) -> torch.Tensor:
    """Gradient of the sum of cross-entropies divided by `count` with respect to logits
    (item, class)."""
    gradient = torch.softmax(logits, dim=-1)
    gradient.scatter_(-1, target[:, None], 0.0)
    gradient.scatter_(-1, target[:, None], -gradient.sum(-1, keepdim=True))
    return gradient.div_(count)


# ----------------------------------------------------------------------------- on a CPU


class TransformerRun(TorchRun):
    """One run in training on a CPU."""

    def __init__(
        self, network: Transformer, seed: int, clock: EpochClock, dtype: torch.dtype
    ) -> None:
        super().__init__(network, network.settings, dtype)
        s = network.settings
        self.network = network
        self.seed = seed
        self.clock = clock
        train, _ = operation_splits(s, np.array([seed]))
        self.counts = torch.from_numpy(split_counts(s, train))
        self.all_pairs = torch.from_numpy(operation_pairs(s))
        self.train_pairs = self.all_pairs[torch.from_numpy(train[0])]
        self.order: tuple[int, torch.Tensor] | None = None

    def differentiate(self, step: int, map_portions: Map = map) -> None:
        pairs = self._batch(step)
        tables = self.network.prepare(self.network.unflatten(self.parameters))
        leaves = {
            name: table.detach().requires_grad_() for name, table in tables.items()
        }

        def gradients(portion: torch.Tensor) -> tuple[torch.Tensor, ...]:
            logits = self.network.pair_logits(leaves, portion)
            upstream = loss_gradient(
                logits.detach(), self.network.target(portion), len(pairs)
            )
            return torch.autograd.grad(logits, list(leaves.values()), upstream)

        total = sum_over_portions(gradients, pair_portions(pairs), map_portions)
        (gradient,) = torch.autograd.grad(list(tables.values()), self.parameters, total)
        self.gradient.copy_(gradient)

    def _batch(self, step: int) -> torch.Tensor:
        """The pairs of update step + 1."""
        s = self.network.settings
        if not s.batch:
            return self.train_pairs
        epoch, batch = epoch_and_batch(s.epoch_steps, self.clock, step)
        if self.order is None or self.order[0] != epoch:
            self.order = (
                epoch,
                torch.from_numpy(
                    epoch_orders(np.array([self.seed]), epoch, s.train_pairs)[0]
                ),
            )
        return self.train_pairs[self.order[1][batch * s.batch : (batch + 1) * s.batch]]

    @torch.no_grad()
    def scores(self, dtype: torch.dtype) -> tuple[np.ndarray, np.ndarray]:
        tables = self.network.prepare(
            self.network.unflatten(self.parameters.detach().to(dtype))
        )
        logits = torch.cat(
            [
                self.network.pair_logits(tables, pairs)
                for pairs in pair_portions(self.all_pairs)
            ]
        )
        return mean_scores(
            logits[None], self.network.target(self.all_pairs), self.counts
        )


class TransformerCpuBackend(RunwiseBackend):
    """Training on a CPU. A run depends only on its own state, bit for bit."""

    def __init__(
        self,
        network: Transformer,
        seeds: np.ndarray,
        clock: EpochClock = DEFAULT_CLOCK,
        dtype: torch.dtype = torch.float32,
    ) -> None:
        runs = [TransformerRun(network, int(seed), clock, dtype) for seed in seeds]
        super().__init__(network.settings, runs, dtype)

    def order_batches_by(self, seeds: np.ndarray) -> None:
        for run, seed in zip(self.runs, seeds.tolist(), strict=True):
            run.seed = seed  # type: ignore[attr-defined]


# ----------------------------------------------------------------- on a device of torch


class TransformerTorchBackend(TorchBackend):
    """Training on a torch device. Full mini-batches and a shorter last one of an epoch
    have separate CUDA graphs."""

    network: Transformer
    min_width = 1  # padding would take many times the time of a single network

    def __init__(
        self,
        network: Transformer,
        seeds: np.ndarray,
        device: str,
        width: int = 0,
        clock: EpochClock = DEFAULT_CLOCK,
    ) -> None:
        s = network.settings
        self.clock = clock
        super().__init__(s, network, len(seeds), device, width)
        runs = np.minimum(np.arange(self.width), len(seeds) - 1)  # repeat the last run
        self.seeds = np.asarray(seeds)[runs]
        train, _ = operation_splits(s, seeds)
        self.counts = torch.from_numpy(split_counts(s, train)).to(device)
        self.pairs = torch.from_numpy(operation_pairs(s)).to(device)
        self.train_pairs = self.pairs[
            torch.from_numpy(train[runs]).to(device)
        ]  # (run, pair, 2)
        self.batch = self.train_pairs[:, : s.batch_pairs].clone()
        self.order = torch.from_numpy(np.argsort(train[runs], axis=1)).to(device)
        self.epoch = -1

    def prepare(self, step: int) -> int:
        s = self.network.settings
        if not s.batch:
            return s.train_pairs
        epoch, batch = epoch_and_batch(s.epoch_steps, self.clock, step)
        if epoch != self.epoch:
            self.order.copy_(
                torch.from_numpy(epoch_orders(self.seeds, epoch, s.train_pairs))
            )
            self.epoch = epoch
        rows = self.order[:, batch * s.batch : (batch + 1) * s.batch]
        self.batch[:, : rows.shape[1]] = torch.take_along_dim(
            self.train_pairs, rows[..., None], dim=1
        )
        return rows.shape[1]

    def loss(self, weights: Weights, step: int) -> torch.Tensor:
        s = self.network.settings
        size = min(
            s.batch_pairs,
            s.train_pairs
            - epoch_and_batch(s.epoch_steps, self.clock, step)[1] * s.batch_pairs,
        )
        return self.network.losses(weights, self.batch[:, :size]).mean(-1).sum()

    def scores_of(
        self, weights: Weights, runs: np.ndarray
    ) -> tuple[np.ndarray, np.ndarray]:
        scores = []
        for at, run in enumerate(runs):
            logits = self.network.logits(
                {name: weight[at] for name, weight in weights.items()}, self.pairs
            )
            scores.append(
                mean_scores(
                    logits[None], self.network.target(self.pairs), self.counts[[run]]
                )
            )
        return concatenate_scores(scores)
