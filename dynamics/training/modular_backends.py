"""Backends for the constant-attention network (CA), trained on its whole training split at every step."""

import numpy as np
import torch

from dynamics.kernels.modular_backprop import modular_layout, modular_scores, pair_quads, train_modular
from dynamics.kernels.simd import to_lanes
from dynamics.networks.constant_attention import ConstantAttention
from dynamics.networks.parameters import Weights
from dynamics.settings import ModularSettings
from dynamics.tasks import all_pairs, training_pairs
from dynamics.training.backends import SimdBackend, TorchBackend, mean_scores


def modular_splits(s: ModularSettings) -> tuple[str, ...]:
    """Names of the splits that are not empty."""
    return ("train", "validation") if s.train_pairs < s.pairs else ("train",)


def split_pair_counts(s: ModularSettings, seeds: np.ndarray) -> np.ndarray:
    """Number of times that each pair occurs in each split, 0 or 1: (run, pair, split) float64."""
    train = training_pairs(s.n, s.train_pairs, seeds)
    return np.stack([train, ~train][: len(modular_splits(s))], axis=-1).astype(np.float64)


class ModularSimdBackend(SimdBackend):
    """Training on a CPU, with the kernels of `dynamics.kernels.modular_backprop`."""

    def __init__(self, network: ConstantAttention, seeds: np.ndarray) -> None:
        s = network.settings
        super().__init__(s, network, len(seeds))
        self.network, self.pairs = network, pair_quads(s.n)
        self.layout = modular_layout(s.n, s.hidden, s.dim)
        self.counts = split_pair_counts(s, seeds)
        self.totals = self.counts.sum(axis=1)  # (run, split)
        padded = np.zeros((self.runs, self.pairs.first.size), np.float32)
        padded[:, : s.pairs] = self.counts[..., 0] / s.train_pairs
        self.pair_weights = to_lanes(padded)

    def train(self, step: int, steps: int) -> None:
        train_modular(self.memory, self.layout, self.pair_weights, self.pairs, self.rule, self.updates + 1, steps)
        self.updates += steps

    def differentiate(self, step: int) -> None:
        self.train(step, 0)

    def scores(self) -> tuple[np.ndarray, np.ndarray]:
        per_pair = modular_scores(self.memory.weights, self.layout, self.pairs, self.runs)
        loss, accuracy = ((values[..., None] * self.counts).sum(axis=1) / self.totals for values in per_pair)
        return loss, accuracy

    def exact_scores(self, mask: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        pairs = torch.from_numpy(all_pairs(self.network.settings.n))
        weights = self.network.unflatten(torch.from_numpy(self.weights()[mask]).double())
        logits = self.network.logits(weights, pairs)
        return mean_scores(logits, self.network.target(pairs), torch.from_numpy(self.counts[mask]))


class ModularTorchBackend(TorchBackend):
    """Training on a torch device."""

    network: ConstantAttention

    def __init__(self, network: ConstantAttention, seeds: np.ndarray, device: str, width: int = 0) -> None:
        s = network.settings
        super().__init__(s, network, len(seeds), device, width)
        self.pairs = torch.from_numpy(all_pairs(s.n)).to(device)
        self.counts = torch.from_numpy(split_pair_counts(s, seeds)).to(device)
        self.pair_weights = torch.zeros(self.width, s.pairs, device=device)
        self.pair_weights[: self.runs] = self.counts[..., 0] / s.train_pairs

    def loss(self, weights: Weights, step: int) -> torch.Tensor:
        return self.network.loss(weights, self.pairs, self.pair_weights).sum()

    def scores_of(self, weights: Weights, runs: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        logits = self.network.logits(weights, self.pairs)[: len(runs)]
        return mean_scores(logits, self.network.target(self.pairs), self.counts[torch.from_numpy(runs).to(self.device)])
