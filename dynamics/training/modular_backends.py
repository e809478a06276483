"""Backends for the constant-attention network (CA), trained on its whole training split
at every step."""

import threading
from collections.abc import Iterable
from typing import NamedTuple

import numpy as np
import torch

from dynamics.kernels.modular_backprop import (
    modular_layout,
    modular_scores,
    modular_trainer,
    pair_quads,
)
from dynamics.kernels.pair_activations import add_pair_gradients, sum_pairs
from dynamics.kernels.simd import to_lanes
from dynamics.networks.constant_attention import ConstantAttention
from dynamics.networks.parameters import Weights
from dynamics.settings import ModularSettings
from dynamics.tasks import all_pairs, modular_training_mask
from dynamics.training.backends import (
    SimdBackend,
    TorchBackend,
    learning_rate_factors,
    mean_scores,
)
from dynamics.training.runwise_backend import (
    PORTION_PAIRS,
    Map,
    RunwiseBackend,
    TorchRun,
    pair_portions,
    sum_over_portions,
)


def modular_splits(s: ModularSettings) -> tuple[str, ...]:
    """Names of the splits that are not empty."""
    return ("train", "validation") if s.train_pairs < s.pairs else ("train",)


def split_pair_counts(s: ModularSettings, seeds: np.ndarray) -> np.ndarray:
    """Number of times that each pair occurs in each split, 0 or 1: (run, pair, split)
    float64."""
    train = modular_training_mask(s, seeds)
    return np.stack([train, ~train][: len(modular_splits(s))], axis=-1).astype(
        np.float64
    )


def split_means(
    per_pair: Iterable[np.ndarray], counts: np.ndarray
) -> tuple[np.ndarray, np.ndarray]:
    """Mean loss and accuracy over the pairs of each split, (run, split) both, from those
    of each pair (run, pair) and the `split_pair_counts`."""
    totals = counts.sum(axis=1)
    loss, accuracy = (
        (values[..., None] * counts).sum(axis=1) / totals for values in per_pair
    )
    return loss, accuracy


def exact_modular_scores(
    network: ConstantAttention, rows: np.ndarray, counts: np.ndarray
) -> tuple[np.ndarray, np.ndarray]:
    """The `scores` of rows of weights in float64, with the `split_pair_counts` of the
    same runs."""
    pairs = torch.from_numpy(all_pairs(network.settings.n))
    weights = network.unflatten(torch.from_numpy(rows).double())
    logits = network.logits(weights, pairs)
    return mean_scores(logits, network.target(pairs), torch.from_numpy(counts))


class ModularSimdBackend(SimdBackend):
    """Training on a CPU, with the kernels of `dynamics.kernels.modular_backprop`."""

    def __init__(self, network: ConstantAttention, seeds: np.ndarray) -> None:
        s = network.settings
        super().__init__(s, network, len(seeds))
        self.kernel = modular_trainer(s.optimizer_value)
        self.network = network
        self.pairs = pair_quads(s.n)
        self.layout = modular_layout(s)
        self.counts = split_pair_counts(s, seeds)
        padded = np.zeros((self.runs, self.pairs.first.size), np.float32)
        padded[:, : s.pairs] = self.counts[..., 0] / s.train_pairs
        self.pair_weights = to_lanes(padded)

    def train(self, step: int, steps: int) -> None:
        self.kernel(
            self.memory,
            self.layout,
            self.pair_weights,
            self.pairs,
            self.rates,
            learning_rate_factors(self.settings, step, steps),
            self.updates + 1,
            steps,
        )
        self.updates += steps

    def differentiate(self, step: int) -> None:
        self.train(step, 0)

    def scores(self) -> tuple[np.ndarray, np.ndarray]:
        per_pair = modular_scores(
            self.memory.weights, self.layout, self.pairs, self.runs
        )
        return split_means(per_pair, self.counts)

    def exact_scores(self, mask: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        return exact_modular_scores(
            self.network, self.weights()[mask], self.counts[mask]
        )


class _Scratch(threading.local):
    """Arguments of the activations of a portion of pairs, and derivatives with respect
    to the activations, (pair, hidden) each, for every thread."""

    def __init__(self, hidden: int, dtype: torch.dtype) -> None:
        self.arrays = torch.empty(2, PORTION_PAIRS, hidden, dtype=dtype)


class _PairPortion(NamedTuple):
    """Training pairs that are computed together, each array (pair,)."""

    first: np.ndarray
    second: np.ndarray
    target: torch.Tensor
    rows: torch.Tensor  # 0, 1, 2 ...


class ModularRun(TorchRun):
    """One run in training on a CPU with matrix products; `scratch` is shared by runs on
    the same thread.

    The gradient is that of `dynamics.kernels.modular_backprop`, summed over the
    training pairs only. With the matrices A of activations and Z of derivatives with
    respect to logits, a row for each pair, dW_o = Z' A and dA = Z W_o."""

    def __init__(
        self,
        network: ConstantAttention,
        seed: int,
        scratch: _Scratch,
        dtype: torch.dtype,
    ) -> None:
        super().__init__(network, network.settings, dtype)
        s = network.settings
        self.network = network
        self.scratch = scratch
        self.counts = torch.from_numpy(split_pair_counts(s, np.array([seed])))
        self.all_pairs = torch.from_numpy(all_pairs(s.n))
        portions = pair_portions(self.all_pairs[self.counts[0, :, 0] > 0])
        self.portions = []
        for pairs in portions:
            first, second = pairs.T.contiguous().numpy()
            target = network.target(pairs)
            rows = torch.arange(len(pairs))
            self.portions.append(_PairPortion(first, second, target, rows))

    @torch.no_grad()
    def differentiate(self, step: int, map_portions: Map = map) -> None:
        embedding, hidden_weight, hidden_bias, output_weight, output_bias = (
            self.weights.values()
        )
        projected = embedding @ hidden_weight.T
        rectified = self.network.activation.name == "relu"

        def gradients(pairs: _PairPortion) -> tuple[torch.Tensor, ...]:
            """The gradients with respect to E W_h', W_o and b_o, times the number of
            training pairs."""
            sums, passed = (array[: len(pairs.first)] for array in self.scratch.arrays)
            sum_pairs(
                projected.numpy(),
                hidden_bias.numpy(),
                pairs.first,
                pairs.second,
                rectified,
                sums.numpy(),
            )
            active, slopes = sums, sums
            if not rectified:
                active, slopes, _ = self.network.activation.derivatives(sums)
            errors = torch.softmax(
                torch.addmm(output_bias, active, output_weight.T), dim=-1
            )
            errors[pairs.rows, pairs.target] -= 1
            torch.mm(errors, output_weight, out=passed)
            by_token = torch.zeros_like(projected)
            add_pair_gradients(
                passed.numpy(),
                slopes.numpy(),
                rectified,
                pairs.first,
                pairs.second,
                by_token.numpy(),
            )
            return by_token, errors.T @ active, errors.sum(0)

        by_token, *output = sum_over_portions(gradients, self.portions, map_portions)
        parts = (
            by_token @ hidden_weight,
            by_token.T @ embedding,
            by_token.sum(0) / 2,
            *output,
        )  # / 2: two tokens a pair
        flat = [part.flatten() for part in parts]
        torch.cat(flat, out=self.gradient).div_(self.network.settings.train_pairs)

    @torch.no_grad()
    def scores(self, dtype: torch.dtype) -> tuple[np.ndarray, np.ndarray]:
        weights = self.network.unflatten(self.parameters.detach().to(dtype))
        logits = torch.cat(
            [
                self.network.logits(weights, pairs)
                for pairs in pair_portions(self.all_pairs)
            ]
        )
        return mean_scores(
            logits[None], self.network.target(self.all_pairs), self.counts
        )


class ModularBlasBackend(RunwiseBackend):
    """Training on a CPU, with matrix products."""

    def __init__(
        self,
        network: ConstantAttention,
        seeds: np.ndarray,
        dtype: torch.dtype = torch.float32,
    ) -> None:
        scratch = _Scratch(network.settings.hidden, dtype)
        super().__init__(
            network.settings,
            [ModularRun(network, int(seed), scratch, dtype) for seed in seeds],
            dtype,
        )


class ModularTorchBackend(TorchBackend):
    """Training on a torch device."""

    network: ConstantAttention

    def __init__(
        self, network: ConstantAttention, seeds: np.ndarray, device: str, width: int = 0
    ) -> None:
        s = network.settings
        super().__init__(s, network, len(seeds), device, width)
        self.pairs = torch.from_numpy(all_pairs(s.n)).to(device)
        self.counts = torch.from_numpy(split_pair_counts(s, seeds)).to(device)
        self.pair_weights = torch.zeros(self.width, s.pairs, device=device)
        self.pair_weights[: self.runs] = self.counts[..., 0] / s.train_pairs

    def loss(self, weights: Weights, step: int) -> torch.Tensor:
        return self.network.loss(weights, self.pairs, self.pair_weights).sum()

    def scores_of(
        self, weights: Weights, runs: np.ndarray
    ) -> tuple[np.ndarray, np.ndarray]:
        logits = self.network.logits(weights, self.pairs)[: len(runs)]
        return mean_scores(
            logits,
            self.network.target(self.pairs),
            self.counts[torch.from_numpy(runs).to(self.device)],
        )
