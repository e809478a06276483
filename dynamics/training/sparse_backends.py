"""Backends for the clustering head (VC), trained in mini-batches in the order of
`dynamics.training.minibatches`."""

import numpy as np
import torch

from dynamics.kernels.simd import to_lanes
from dynamics.kernels.sparse_backprop import sparse_layout
from dynamics.kernels.sparse_minibatches import (
    LabelledSequences,
    sparse_scores,
    sparse_trainer,
)
from dynamics.networks.clustering_head import ClusteringHead
from dynamics.networks.parameters import Weights
from dynamics.settings import SparseSettings
from dynamics.system import DEFAULT_CLOCK, EpochClock
from dynamics.tasks import (
    EvaluationSequences,
    evaluation_sequences,
    sample_sequences,
    sparse_sum,
)
from dynamics.training.backends import (
    SimdBackend,
    TorchBackend,
    concatenate_scores,
    learning_rate_factors,
    mean_scores,
)
from dynamics.training.cuda_memory import runs_scored_together
from dynamics.training.minibatches import (
    epoch_and_batch,
    epoch_orders,
    index_bits,
    shuffle_keys,
)


def training_and_evaluation(
    s: SparseSettings, seeds: np.ndarray
) -> tuple[LabelledSequences, EvaluationSequences]:
    """The training sequences of runs, and the sequences that they are evaluated on."""
    train, test = (sample_sequences(s, seeds, split) for split in ("train", "test"))
    return LabelledSequences(
        train, sparse_sum(train, s).astype(np.int16)
    ), evaluation_sequences(s, train, test)


def exact_sparse_scores(
    network: ClusteringHead,
    rows: np.ndarray,
    evaluation: EvaluationSequences,
    mask: np.ndarray,
) -> tuple[np.ndarray, np.ndarray]:
    """The `scores` in float64 of the runs in `mask` (run,), of rows of weights of all
    runs."""
    scores = []
    for run in np.flatnonzero(mask):
        tokens, targets, counts = (
            torch.from_numpy(values[[run]]) for values in evaluation
        )
        weights = network.unflatten(torch.from_numpy(rows[[run]]).double())
        logits = network.logits(weights, tokens.long())
        scores.append(mean_scores(logits, targets.long(), counts))
    return concatenate_scores(scores)


class SparseSimdBackend(SimdBackend):
    """Training on a CPU, with the kernels of `dynamics.kernels.sparse_minibatches`."""

    def __init__(
        self,
        network: ClusteringHead,
        seeds: np.ndarray,
        clock: EpochClock = DEFAULT_CLOCK,
    ) -> None:
        super().__init__(network.settings, network, len(seeds))
        self.network = network
        self.clock = clock
        self.kernel = sparse_trainer(network.settings.optimizer_value)
        self.layout = sparse_layout(network)
        self.seeds = np.asarray(seeds, np.int64)
        self.axes = tuple(range(network.settings.dim))
        self.training, self.evaluation = training_and_evaluation(
            network.settings, seeds
        )
        self.counts = to_lanes(self.evaluation.counts.reshape(self.runs, -1))
        self.totals = self.evaluation.counts.sum(
            axis=1, dtype=np.float64
        )  # (run, split)
        self.order: tuple[int, np.ndarray] | None = None

    def order_batches_by(self, seeds: np.ndarray) -> None:
        self.seeds = seeds

    def train(self, step: int, steps: int) -> None:
        s = self.network.settings
        last = step + steps
        while step < last:
            batches = min(
                last - step,
                s.epoch_steps - epoch_and_batch(s.epoch_steps, self.clock, step)[1],
            )
            self._train_within_epoch(step, batches)
            step += batches

    def differentiate(self, step: int) -> None:
        self._train_within_epoch(step, 0)

    def _train_within_epoch(self, step: int, steps: int) -> None:
        """Apply the updates step + 1, ..., step + steps, all in one epoch; with 0
        steps, compute the gradient."""
        s = self.network.settings
        epoch, batch = epoch_and_batch(s.epoch_steps, self.clock, step)
        if self.order is None or self.order[0] != epoch:
            self.order = (epoch, epoch_orders(self.seeds, epoch, s.data))
        self.kernel(
            self.memory,
            self.layout,
            self.training,
            self.order[1],
            self.rates,
            learning_rate_factors(self.settings, step, steps),
            self.updates + 1,
            batch * s.batch,
            s.batch,
            steps,
            self.axes,
        )
        self.updates += steps

    def scores(self) -> tuple[np.ndarray, np.ndarray]:
        sequences = LabelledSequences(self.evaluation.tokens, self.evaluation.targets)
        loss, accuracy = sparse_scores(
            self.memory.weights, self.layout, sequences, self.counts, self.axes
        )
        return loss / self.totals, accuracy / self.totals

    def exact_scores(self, mask: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        return exact_sparse_scores(self.network, self.weights(), self.evaluation, mask)


class SparseTorchBackend(TorchBackend):
    """Training on a torch device. Full mini-batches and a shorter last one of an epoch
    have separate CUDA graphs."""

    network: ClusteringHead

    def __init__(
        self,
        network: ClusteringHead,
        seeds: np.ndarray,
        device: str,
        width: int = 0,
        clock: EpochClock = DEFAULT_CLOCK,
    ) -> None:
        s = network.settings
        self.clock = clock
        super().__init__(s, network, len(seeds), device, width)
        train, evaluation = training_and_evaluation(s, seeds)
        self.evaluation = [torch.from_numpy(values).to(device) for values in evaluation]
        self.together = min(self.width, runs_scored_together(s))
        runs = torch.from_numpy(np.minimum(np.arange(self.width), len(seeds) - 1)).to(
            device
        )  # repeat the last run
        self.tokens, self.targets = (
            torch.from_numpy(values).to(device)[runs] for values in train
        )
        self.seeds = torch.from_numpy(np.asarray(seeds, np.int64)).to(device)[
            runs, None
        ]
        self.index = torch.arange(s.data, device=device)
        self.order = self.index.repeat(self.width, 1)
        self.begin = torch.zeros((), dtype=torch.int64, device=device)
        self.epoch = -1

    def prepare(self, step: int) -> int:
        s = self.network.settings
        epoch, batch = epoch_and_batch(s.epoch_steps, self.clock, step)
        if epoch != self.epoch:
            bits = index_bits(s.data)
            keys = shuffle_keys(
                self.seeds, torch.full_like(self.seeds, epoch), self.index, bits
            )
            self.order.copy_(keys.sort(dim=1).values & ((1 << bits) - 1))
            self.epoch = epoch
        self.begin.fill_(batch * s.batch)
        return min(s.batch, s.data - batch * s.batch)

    def loss(self, weights: Weights, step: int) -> torch.Tensor:
        s = self.network.settings
        size = min(
            s.batch,
            s.data - epoch_and_batch(s.epoch_steps, self.clock, step)[1] * s.batch,
        )
        rows = self.order.index_select(1, self.begin + self.index[:size])
        tokens = torch.gather(
            self.tokens, 1, rows[..., None].expand(-1, -1, s.length)
        ).long()
        return (
            self.network.losses(
                weights, tokens, torch.gather(self.targets, 1, rows).long()
            )
            .mean(-1)
            .sum()
        )

    def scores_of(
        self, weights: Weights, runs: np.ndarray
    ) -> tuple[np.ndarray, np.ndarray]:
        parts = []
        for begin in range(0, len(runs), self.together):
            some = np.arange(begin, min(begin + self.together, len(runs)))
            padded = np.minimum(
                begin + np.arange(self.together), some[-1]
            )  # a fixed size: equal bits
            index, rows = (
                torch.from_numpy(indices).to(self.device)
                for indices in (runs[padded], padded)
            )
            tokens, targets, counts = (values[index] for values in self.evaluation)
            few = {name: weight[rows] for name, weight in weights.items()}
            scores = mean_scores(
                self.network.logits(few, tokens.long()), targets.long(), counts
            )
            parts.append((scores[0][: len(some)], scores[1][: len(some)]))
        return concatenate_scores(parts)
