"""Engines of VC's network, trained in mini-batches whose order is that of `dynamics.training.minibatches`."""

import math

import numpy as np
import torch

from dynamics.kernels import sparse_minibatches
from dynamics.kernels.simd import to_lanes
from dynamics.kernels.sparse_backprop import sparse_layout
from dynamics.kernels.sparse_minibatches import LabelledSequences
from dynamics.networks.clustering_head import MLP_VARIABLES, ClusteringHead
from dynamics.networks.parameters import Weights
from dynamics.settings import SparseSettings
from dynamics.system import DEFAULT_CLOCK, EpochClock
from dynamics.tasks import EvaluationSequences, evaluation_sequences, sample_sequences, sparse_sum
from dynamics.training.backends import SimdBackend, TorchBackend, mean_scores
from dynamics.training.minibatches import epoch_orders, index_bits, shuffle_keys

MAX_SCORING_NUMBERS = 1 << 28
"""Activations and one-hot tokens that a device holds at a time when it scores."""


def _epoch_and_batch(s: SparseSettings, clock: EpochClock, step: int) -> tuple[int, int]:
    """The epoch in which the update step + 1 stands, and which batch of it that uses."""
    epochs, batch = divmod(step - clock.step, s.epoch_steps)
    return math.ceil(clock.epoch) + epochs, batch


def _training_and_scoring_data(
    network: ClusteringHead, seeds: np.ndarray
) -> tuple[LabelledSequences, EvaluationSequences]:
    """What runs are trained on, and what they are scored by."""
    s = network.settings
    train = sample_sequences(s, seeds, "train")
    return LabelledSequences(train, sparse_sum(train, s).astype(np.int16)), evaluation_sequences(
        s, train, sample_sequences(s, seeds, "test")
    )


class SparseSimdBackend(SimdBackend):
    """On a processor."""

    def __init__(self, network: ClusteringHead, seeds: np.ndarray, clock: EpochClock = DEFAULT_CLOCK) -> None:
        super().__init__(network.settings, network, len(seeds))
        self.clock = clock
        self.network, self.seeds, self.layout = network, np.asarray(seeds, np.int64), sparse_layout(network)
        self.train_on, self.scored = _training_and_scoring_data(network, seeds)
        self.score_on = LabelledSequences(self.scored.tokens, self.scored.targets)
        self.counts = to_lanes(self.scored.counts.reshape(self.runs, -1))
        self.totals = self.scored.counts.sum(axis=1, dtype=np.float64)  # (run, split)
        self.order: tuple[int, np.ndarray] | None = None

    def _train(self, step: int, steps: int) -> None:
        s, last, number = self.network.settings, step + steps, self.updates + 1
        while step < last:
            epoch, within = _epoch_and_batch(s, self.clock, step)
            taken = min(last - step, s.epoch_steps - within)
            self._go(epoch, within, number, taken)
            step, number = step + taken, number + taken

    def differentiate(self, step: int) -> None:
        self._go(*_epoch_and_batch(self.network.settings, self.clock, step), 1, 0)

    def _go(self, epoch: int, within: int, number: int, steps: int) -> None:
        """Steps inside an epoch, from its batch `within` on."""
        s = self.network.settings
        if self.order is None or self.order[0] != epoch:
            self.order = (epoch, epoch_orders(self.seeds, epoch, s.data))
        order, begin = self.order[1], within * s.batch
        sparse_minibatches.train_sparse(
            self.memory, self.layout, self.train_on, order, self.rule, s.mlp_lr_discount, s.assembler_decay, number,
            begin, s.batch, steps, s.dim,
        )  # fmt: skip

    def scores(self) -> tuple[np.ndarray, np.ndarray]:
        splits, dim = self.totals.shape[1], self.network.settings.dim
        sums = sparse_minibatches.sparse_scores(
            self.memory.weights, self.layout, self.score_on, self.counts, splits, dim
        )
        return sums[0] / self.totals, sums[1] / self.totals

    def exact_scores(self, which: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        found = []
        for run, row in zip(np.flatnonzero(which), self.weights()[which], strict=True):
            tokens, targets, counts = (torch.from_numpy(each[[run]]) for each in self.scored)
            weights = self.network.unflatten(torch.from_numpy(row[None]).double())
            found.append(mean_scores(self.network.logits(weights, tokens.long()), targets.long(), counts))
        losses, accuracies = zip(*found, strict=True)
        return np.concatenate(losses), np.concatenate(accuracies)


class SparseTorchBackend(TorchBackend):
    """On a device of torch. A batch of the usual size is one graph, the short one at the end of an epoch another."""

    network: ClusteringHead

    def __init__(
        self, network: ClusteringHead, seeds: np.ndarray, device: str, width: int = 0, clock: EpochClock = DEFAULT_CLOCK
    ) -> None:
        s, self.clock = network.settings, clock
        discounts = dict.fromkeys(MLP_VARIABLES, s.mlp_lr_discount)
        super().__init__(s, network, len(seeds), device, width, discounts, {"assembler": s.assembler_decay})
        filled = np.concatenate([seeds, np.repeat(seeds[-1:], self.width - len(seeds))])
        train, scored_on = _training_and_scoring_data(network, seeds)
        self.scored = [torch.from_numpy(each).to(device) for each in scored_on]
        each = 2 * s.data * (s.hidden + 2 * s.length * s.rows)
        self.together = max(1, min(self.width, MAX_SCORING_NUMBERS // each))  # runs that are scored at a time
        places = torch.from_numpy(np.minimum(np.arange(self.width), len(seeds) - 1)).to(device)
        self.tokens, self.targets = (torch.from_numpy(each).to(device)[places] for each in train)
        self.seeds = torch.from_numpy(np.asarray(filled, np.int64)).to(device)[:, None]
        self.index = torch.arange(s.data, device=device)
        self.order = self.index.repeat(self.width, 1)
        self.begin = torch.zeros((), dtype=torch.int64, device=device)
        self.epoch = -1

    def prepare(self, step: int) -> int:
        s = self.network.settings
        epoch, within = _epoch_and_batch(s, self.clock, step)
        if epoch != self.epoch:
            bits = index_bits(s.data)
            keys = shuffle_keys(self.seeds, torch.full_like(self.seeds, epoch), self.index, bits)
            self.order.copy_(keys.sort(dim=1).values & ((1 << bits) - 1))
            self.epoch = epoch
        self.begin.fill_(within * s.batch)
        return min(s.batch, s.data - within * s.batch)

    def loss(self, weights: Weights, step: int) -> torch.Tensor:
        s = self.network.settings
        size = min(s.batch, s.data - _epoch_and_batch(s, self.clock, step)[1] * s.batch)
        rows = self.order.index_select(1, self.begin + self.index[:size])
        tokens = torch.gather(self.tokens, 1, rows[..., None].expand(-1, -1, s.length)).long()
        return self.network.losses(weights, tokens, torch.gather(self.targets, 1, rows).long()).mean(-1).sum()

    def scores_of(self, weights: Weights, runs: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        parts = []
        for begin in range(0, len(runs), self.together):
            some = np.arange(begin, min(begin + self.together, len(runs)))
            padded = np.minimum(begin + np.arange(self.together), some[-1])  # always as wide, so that bits are the same
            places, rows = (torch.from_numpy(each).to(self.device) for each in (runs[padded], padded))
            tokens, targets, counts = (each[places] for each in self.scored)
            few = {name: weight[rows] for name, weight in weights.items()}
            found = mean_scores(self.network.logits(few, tokens.long()), targets.long(), counts)
            parts.append([each[: len(some)] for each in found])
        losses, accuracies = zip(*parts, strict=True)
        return np.concatenate(losses), np.concatenate(accuracies)
