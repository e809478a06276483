"""Backends on a CUDA device in which one block of threads trains one run, with Numba.

Weights and moments are on the device between recorded frames. A run depends only on its
own state, bit for bit, so no number of runs is recorded with it. Only what trains on
CUDA imports this module, which needs the package numba-cuda."""

from abc import abstractmethod
from collections.abc import Mapping
from typing import Any

import numpy as np
from numba import cuda

from dynamics.kernels.cuda_launching import (
    BlockLauncher,
    LaunchSizes,
    device_function,
    device_rows,
    shared_limit,
)
from dynamics.kernels.cuda_modular import (
    ModularPlan,
    modular_cuda_scorer,
    modular_cuda_trainer,
    modular_plan,
)
from dynamics.kernels.cuda_sparse import (
    SparsePlan,
    sparse_cuda_scorer,
    sparse_cuda_trainer,
    sparse_plan,
)
from dynamics.kernels.cuda_updates import device_rates, step_numbers
from dynamics.kernels.modular_backprop import modular_layout, pair_scores
from dynamics.kernels.optimizers import update_rates
from dynamics.kernels.sparse_backprop import sparse_layout
from dynamics.networks.clustering_head import ClusteringHead
from dynamics.networks.constant_attention import ConstantAttention
from dynamics.networks.parameters import NetworkParameters
from dynamics.own_functions import frozen_copy
from dynamics.settings import ModularSettings, OptimizerSettings, SparseSettings
from dynamics.system import DEFAULT_CLOCK, EpochClock
from dynamics.tasks import all_pairs
from dynamics.training.backends import Backend, learning_rate_factors
from dynamics.training.minibatches import (
    epoch_and_batch,
    index_bits,
    mix_bits,
    shuffle_keys,
)
from dynamics.training.modular_backends import (
    exact_modular_scores,
    split_means,
    split_pair_counts,
)
from dynamics.training.sparse_backends import (
    exact_sparse_scores,
    training_and_evaluation,
)


def reason_against_blocks(settings: ModularSettings | SparseSettings) -> str:
    """Why a block of threads cannot train a run with these settings; empty if it can."""
    plan = block_plan(settings)
    if plan is None or plan.shared_bytes > shared_limit():
        return "the network does not fit into the shared memory of a block of threads"
    return ""


def block_plan(settings: ModularSettings | SparseSettings) -> Any:
    """How a block computes a network; None if it cannot."""
    moments = len(settings.optimizer_value.moments)
    s = settings
    if isinstance(s, ModularSettings):
        return modular_plan(modular_layout(s), moments)
    layout = sparse_layout(ClusteringHead(s))
    return sparse_plan(layout, s.dim, s.data, s.batch, moments)


class BlockBackend(Backend):
    """Training on a CUDA device, a block of threads for each run."""

    def __init__(
        self, settings: OptimizerSettings, network: NetworkParameters, runs: int
    ) -> None:
        self.runs = runs
        self.settings = settings
        self.network = network
        self.size = sum(network.lengths)
        self.names = settings.optimizer_value.moments
        self.rates = update_rates(settings, network)
        self.device_rates = [
            cuda.to_device(values) for values in device_rates(self.rates)
        ]
        self.device_weights, self.device_gradient, self.device_before = (
            device_rows(runs, self.size) for _ in range(3)
        )
        # an array of a device has at least one number
        self.device_moments = device_rows(runs, max(1, len(self.names) * self.size))
        self.launches = LaunchSizes()

    @abstractmethod
    def launch(self, step: int, updates: int, numbers: Any) -> None:
        """Start the kernel that applies the updates step + 1, ..., step + updates, or
        with 0 updates computes the gradient; numbers: `step_numbers` on the device."""

    def set_state(
        self, weights: np.ndarray, moments: Mapping[str, np.ndarray], updates: int
    ) -> None:
        _copy_to(self.device_weights, weights)
        if self.names:
            rows = np.concatenate([moments[name] for name in self.names], axis=1)
            _copy_to(self.device_moments, rows)
        self.updates = updates

    def train(self, step: int, steps: int) -> None:
        def launch(begin: int, count: int) -> None:
            factors = learning_rate_factors(self.settings, step + begin, count)
            numbers = step_numbers(self.rates, factors, self.updates + begin + 1)
            self.launch(step + begin, count, cuda.to_device(numbers))

        self.launches.run(launch, steps)
        self.updates += steps

    def differentiate(self, step: int) -> None:
        self.launch(step, 0, cuda.to_device(np.zeros((1, 4))))

    def weights(self) -> np.ndarray:
        return self.device_weights.copy_to_host()

    def moments(self) -> dict[str, np.ndarray]:
        rows = self.device_moments.copy_to_host()
        size = self.size
        return {
            name: rows[:, place * size : (place + 1) * size].copy()
            for place, name in enumerate(self.names)
        }

    def gradient(self) -> np.ndarray:
        return self.device_gradient.copy_to_host()

    def last_update(self) -> np.ndarray:
        return self.weights() - self.device_before.copy_to_host()


def _copy_to(array: Any, rows: np.ndarray) -> None:
    """Copy rows (run, column) of float32 to an array on the device."""
    array.copy_to_device(np.ascontiguousarray(rows, np.float32))


class ModularBlockBackend(BlockBackend):
    """Training with the kernels of `dynamics.kernels.cuda_modular`."""

    def __init__(
        self,
        network: ConstantAttention,
        seeds: np.ndarray,
        plan: ModularPlan | None = None,
    ) -> None:
        s = network.settings
        super().__init__(s, network, len(seeds))
        plan = plan or block_plan(s)
        assert plan is not None
        self.network: ConstantAttention = network
        self.counts = split_pair_counts(s, seeds)
        pair_weights = self.counts[..., 0] / s.train_pairs
        self.pair_weights = cuda.to_device(pair_weights.astype(np.float32))
        tokens = np.ascontiguousarray(all_pairs(s.n).T, np.int32)
        self.pairs = [cuda.to_device(places) for places in tokens]
        self.per_pair = [device_rows(self.runs, s.pairs) for _ in range(3)]
        self.trainer, self.scorer = (
            BlockLauncher(kernel, plan.threads, plan.shared_bytes)
            for kernel in (
                modular_cuda_trainer(s.optimizer_value, plan),
                modular_cuda_scorer(plan),
            )
        )

    def launch(self, step: int, updates: int, numbers: Any) -> None:
        self.trainer.launch(
            self.runs,
            self.device_weights,
            self.device_moments,
            self.device_gradient,
            self.device_before,
            self.pair_weights,
            *self.pairs,
            *self.device_rates,
            numbers,
            updates,
        )

    def scores(self) -> tuple[np.ndarray, np.ndarray]:
        self.scorer.launch(self.runs, self.device_weights, *self.pairs, *self.per_pair)
        per_pair = pair_scores(*(values.copy_to_host() for values in self.per_pair))
        return split_means(per_pair, self.counts)

    def exact_scores(self, mask: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        return exact_modular_scores(
            self.network, self.weights()[mask], self.counts[mask]
        )


def _device_shuffle_keys() -> Any:
    """`shuffle_keys` as a device function."""
    mixed = {mix_bits: device_function(frozen_copy(mix_bits))}
    return device_function(frozen_copy(shuffle_keys, mixed))


_SHUFFLE_KEYS = _device_shuffle_keys()


class SparseBlockBackend(BlockBackend):
    """Training with the kernels of `dynamics.kernels.cuda_sparse`."""

    network: ClusteringHead

    def __init__(
        self,
        network: ClusteringHead,
        seeds: np.ndarray,
        clock: EpochClock = DEFAULT_CLOCK,
        plan: SparsePlan | None = None,
    ) -> None:
        s = network.settings
        super().__init__(s, network, len(seeds))
        plan = plan or block_plan(s)
        assert plan is not None
        self.clock = clock
        training, self.evaluation = training_and_evaluation(s, seeds)
        self.training = [cuda.to_device(values) for values in training]
        self.evaluated = [cuda.to_device(values) for values in self.evaluation]
        self.totals = self.evaluation.counts.sum(axis=1, dtype=np.float64)
        self.sums = device_rows(self.runs, 2 * self.totals.shape[1], np.float64)
        keys = 1 if plan.sorts_in_shared else self.runs * plan.sorted_length
        self.keys = cuda.to_device(np.zeros(keys, np.int64))
        self.order = device_rows(self.runs, s.data, np.int32)
        self.ordered_epoch = -1
        self.order_batches_by(seeds)
        self.trainer, self.scorer = (
            BlockLauncher(kernel, plan.threads, plan.shared_bytes)
            for kernel in (
                sparse_cuda_trainer(
                    s.optimizer_value, plan, _SHUFFLE_KEYS, index_bits(s.data)
                ),
                sparse_cuda_scorer(plan),
            )
        )

    def order_batches_by(self, seeds: np.ndarray) -> None:
        self.seeds = cuda.to_device(np.ascontiguousarray(seeds, np.int64))

    def launch(self, step: int, updates: int, numbers: Any) -> None:
        epoch_steps = self.network.settings.epoch_steps
        epoch, batch = epoch_and_batch(epoch_steps, self.clock, step)
        self.trainer.launch(
            self.runs,
            self.device_weights,
            self.device_moments,
            self.device_gradient,
            self.device_before,
            *self.training,
            self.seeds,
            self.keys,
            self.order,
            *self.device_rates,
            numbers,
            epoch,
            batch,
            int(epoch == self.ordered_epoch),
            updates,
        )
        last = step + max(1, updates) - 1
        self.ordered_epoch = epoch_and_batch(epoch_steps, self.clock, last)[0]

    def scores(self) -> tuple[np.ndarray, np.ndarray]:
        self.scorer.launch(self.runs, self.device_weights, *self.evaluated, self.sums)
        shape = (self.runs, 2, self.totals.shape[1])
        sums = self.sums.copy_to_host().reshape(shape)
        return sums[:, 0] / self.totals, sums[:, 1] / self.totals

    def exact_scores(self, mask: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        return exact_sparse_scores(self.network, self.weights(), self.evaluation, mask)
