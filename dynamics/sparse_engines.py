"""Engines of VC's network, trained in mini-batches whose order is that of `dynamics.shuffles`."""

import numpy as np
import torch

from dynamics import head_batches
from dynamics.clustering_head import MLP, ClusteringHead
from dynamics.engines import LaneEngine, TorchEngine, mean_scores
from dynamics.head_batches import Sequences
from dynamics.head_gradients import head_layout
from dynamics.lanes import to_lanes
from dynamics.parameters import Weights
from dynamics.shuffles import bits_of, orders, sort_keys
from dynamics.tasks import Scored, scored, sequences, sparse_sum

SCORED_TOGETHER = 256
"""Runs that a device scores at a time, whose activations it holds in memory."""


def data_of(network: ClusteringHead, seeds: np.ndarray) -> tuple[Sequences, Scored]:
    """What runs are trained on, and what they are scored by."""
    s = network.settings
    train = sequences(s, seeds, "train")
    return Sequences(train, sparse_sum(train, s).astype(np.int16)), scored(s, train, sequences(s, seeds, "test"))


class HeadLanes(LaneEngine):
    """On a processor."""

    def __init__(self, network: ClusteringHead, seeds: np.ndarray) -> None:
        super().__init__(network.settings, network, len(seeds))
        self.network, self.seeds, self.layout = network, np.asarray(seeds, np.int64), head_layout(network)
        self.train_on, self.scored = data_of(network, seeds)
        self.score_on = Sequences(self.scored.tokens, self.scored.targets)
        self.counts = to_lanes(self.scored.counts.reshape(self.runs, -1))
        self.order: tuple[int, np.ndarray] | None = None

    def _train(self, step: int, steps: int) -> None:
        s, last, number = self.network.settings, step + steps, self.updates + 1
        while step < last:
            epoch, within = divmod(step, s.epoch_steps)
            taken = min(last - step, s.epoch_steps - within)
            self._go(epoch, within, number, taken)
            step, number = step + taken, number + taken

    def differentiate(self, step: int) -> None:
        self._go(*divmod(step, self.network.settings.epoch_steps), 1, 0)

    def _go(self, epoch: int, within: int, number: int, steps: int) -> None:
        """Steps inside an epoch, from its batch `within` on."""
        s = self.network.settings
        if self.order is None or self.order[0] != epoch:
            self.order = (epoch, orders(self.seeds, epoch, s.data))
        order, begin = self.order[1], within * s.batch
        discount = s.mlp_lr_discount
        head_batches.train(
            self.memory, self.layout, self.train_on, order, self.rule, discount, number, begin, s.batch, steps, s.dim
        )

    def scores(self) -> tuple[np.ndarray, np.ndarray]:
        splits, dim = self.scored.counts.shape[2], self.network.settings.dim
        return head_batches.score(self.memory.weights, self.layout, self.score_on, self.counts, splits, dim)

    def exact_scores(self, which: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        tokens, targets, counts = (torch.from_numpy(each[which]) for each in self.scored)
        weights = self.network.unflatten(torch.from_numpy(self.weights()[which]).double())
        return mean_scores(self.network.logits(weights, tokens.long()), targets.long(), counts)


class HeadTorch(TorchEngine):
    """On a device of torch. A batch of the usual size is one graph, the short one at the end of an epoch another."""

    def __init__(self, network: ClusteringHead, seeds: np.ndarray, device: str, width: int = 0) -> None:
        s = network.settings
        super().__init__(s, network, len(seeds), device, width, dict.fromkeys(MLP, s.mlp_lr_discount))
        self.head = network
        filled = np.concatenate([seeds, np.repeat(seeds[-1:], self.width - len(seeds))])
        train, self.scored = data_of(network, seeds)
        places = torch.from_numpy(np.minimum(np.arange(self.width), len(seeds) - 1)).to(device)
        self.tokens, self.targets = (torch.from_numpy(each).to(device)[places] for each in train)
        self.seeds = torch.from_numpy(np.asarray(filled, np.int64)).to(device)[:, None]
        self.index = torch.arange(s.data, device=device)
        self.order = self.index.repeat(self.width, 1)
        self.begin = torch.zeros((), dtype=torch.int64, device=device)
        self.epoch = -1

    def prepare(self, step: int) -> int:
        s = self.head.settings
        epoch, within = divmod(step, s.epoch_steps)
        if epoch != self.epoch:
            bits = bits_of(s.data)
            keys = sort_keys(self.seeds, torch.full_like(self.seeds, epoch), self.index, bits)
            self.order.copy_(keys.sort(dim=1).values & ((1 << bits) - 1))
            self.epoch = epoch
        self.begin.fill_(within * s.batch)
        return min(s.batch, s.data - within * s.batch)

    def loss(self, weights: Weights, step: int) -> torch.Tensor:
        s = self.head.settings
        size = min(s.batch, s.data - (step % s.epoch_steps) * s.batch)
        rows = self.order.index_select(1, self.begin + self.index[:size])
        tokens = torch.gather(self.tokens, 1, rows[..., None].expand(-1, -1, s.length)).long()
        return self.head.losses(weights, tokens, torch.gather(self.targets, 1, rows).long()).mean(-1).sum()

    def scores_of(self, weights: Weights, runs: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        parts = []
        for begin in range(0, len(runs), SCORED_TOGETHER):
            chosen = runs[begin : begin + SCORED_TOGETHER]
            tokens, targets, counts = (torch.from_numpy(each[chosen]).to(self.device) for each in self.scored)
            few = {name: weight[begin : begin + len(chosen)] for name, weight in weights.items()}
            parts.append(mean_scores(self.head.logits(few, tokens.long()), targets.long(), counts))
        losses, accuracies = zip(*parts, strict=True)
        return np.concatenate(losses), np.concatenate(accuracies)
