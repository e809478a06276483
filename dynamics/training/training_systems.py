"""The training systems: ensembles of networks that implement the protocol
`dynamics.System`."""

import importlib
from abc import ABC, abstractmethod
from collections.abc import Mapping
from typing import Any, Generic, TypeVar

import numpy as np
import torch
from numba import get_num_threads

from dynamics import tasks
from dynamics.kernels.simd import LANES_32
from dynamics.networks.clustering_head import ClusteringHead
from dynamics.networks.constant_attention import ConstantAttention
from dynamics.networks.transformer_network import Transformer
from dynamics.settings import RANDOM
from dynamics.system import DEFAULT_CLOCK, SYSTEM_KINDS, SystemKind, resolve_device
from dynamics.training import (
    cuda_memory,
    modular_backends,
    sparse_backends,
    transformer_backends,
)
from dynamics.training.backends import Backend, TorchBackend
from dynamics.training.finetuning import finetuning_weights, is_finetuning
from dynamics.training.run_groups import (
    EnsembleTrainer,
    Trainer,
    TrainingState,
    advance_runs,
    observe_runs,
    with_gradient_norm,
    with_moments,
)
from dynamics.training.runwise_backend import PORTION_PAIRS
from dynamics.training.starting_weights import starting_weights
from dynamics.trajectory.description import FIRST_BACKENDS

_Network = TypeVar("_Network", ConstantAttention, ClusteringHead, Transformer)


class TrainingSystem(ABC, Generic[_Network]):
    """An ensemble of networks in training, as a `dynamics.System`. Subclasses define
    the network, the names of its splits and its backend.

    Parameters
    ----------
    settings : ModularSettings, SparseSettings or TransformerSettings
        Network, data and optimizer.
    device : {"auto", "cpu", "cuda"}, optional
        Where to compute; "auto" is a CUDA device if torch finds one.
    ensemble_width : int, optional
        Smallest width of torch's batched products on CUDA, on which rounding depends.
    """

    kind: SystemKind
    network_class: type[Any]
    split_names: Any
    """Function of the settings that returns the names of the splits."""
    torch_backend: type[TorchBackend]
    """Backend on a CUDA device"""
    cuda_bytes: Any
    """Function of the settings, of the number of parameters and of the number of runs
    that returns the memory of an ensemble on a CUDA device."""
    clock = DEFAULT_CLOCK
    backends: tuple[str, ...] = ()
    backend_name = ""

    def __init__(
        self, settings: Any, device: str = "auto", ensemble_width: int = 0
    ) -> None:
        self.settings = settings
        self.network: _Network = self.network_class(settings)
        self.splits = self.split_names(settings)
        self.device = device if device == "cpu" else resolve_device(device, self.kind)
        self.backends = self.kind.backends_on(self.device)
        if self.backends:
            kind_of_device = "cpu" if self.device == "cpu" else "cuda"
            self.backend_name = FIRST_BACKENDS[kind_of_device]
        self.ensemble_width = ensemble_width
        self.moment_names = settings.optimizer_value.moments
        self.variables = {
            **self.network.variables,
            "gradient_norm": ("layer",),
            "update_norm": ("layer",),
            "loss": ("split",),
            "accuracy": ("split",),
        }
        if settings.elapsed_times is not None:
            self.variables["learning_rate"] = ()
        self._trainer: EnsembleTrainer | None = None

    @abstractmethod
    def backend(self, seeds: np.ndarray) -> Backend:
        """The backend that trains the runs with these seeds."""

    @property
    def groups_on_threads(self) -> bool:
        """Whether groups of runs are trained on threads; otherwise the backend has
        threads of its own."""
        return self.device == "cpu"

    @property
    def device_memory(self) -> int:
        """Memory of a CUDA device in bytes; 0 on a CPU."""
        if self.device == "cpu":
            return 0
        return torch.cuda.get_device_properties(self.device).total_memory

    def working_bytes(self, runs: int) -> int:
        """Estimated memory in bytes for an ensemble of `runs`."""
        if self.device == "cpu":
            return self.cpu_bytes(runs)
        if self.backend_name == "blocks":
            return cuda_memory.block_bytes(
                self.settings, sum(self.network.lengths), runs
            )
        width = max(runs, self.ensemble_width, self.torch_backend.min_width)
        return self.cuda_bytes(self.settings, sum(self.network.lengths), width)

    @abstractmethod
    def cpu_bytes(self, runs: int) -> int:
        """The `working_bytes` on a CPU."""

    def initial_weights(self, seeds: np.ndarray) -> dict[str, np.ndarray]:
        """Weights at step 0, (run, *shape) float32."""
        if self.settings.start == RANDOM:
            return self.network.initial(seeds)
        return starting_weights(self.network, self.settings, seeds)

    def coords(self) -> dict[str, np.ndarray]:
        """Coordinates of the dimensions in `variables`; empty splits are omitted."""
        numbered = {dim: np.arange(size) for dim, size in self.network.sizes.items()}
        return {
            **numbered,
            "layer": np.array(list(self.network.variables)),
            "split": np.array(self.splits),
        }

    def initial(self, seeds: np.ndarray) -> TrainingState:
        """The state at step 0, one run per seed, with the norm of the first
        gradient."""
        rows = self.network.flatten(self.initial_weights(seeds))
        zeros = np.zeros((len(seeds), len(self.network.variables)))
        state = TrainingState(
            0,
            np.array(seeds),
            rows,
            {},
            0,
            zeros,
            zeros,
            np.zeros(len(seeds), np.int64),
            np.array(seeds),
        )
        return self._trainer_of(state).map_state(
            with_gradient_norm, with_moments(state, self.moment_names)
        )

    def advance(self, state: TrainingState, steps: int) -> TrainingState:
        """The state `steps` updates later. On a CPU a run depends only on its own
        state, bit for bit."""
        if steps == 0:
            return state
        state = with_moments(state, self.moment_names)
        return self._trainer_of(state).map_state(
            lambda trainer, part: advance_runs(trainer, part, steps), state
        )

    def observe(self, state: TrainingState) -> dict[str, np.ndarray]:
        """One frame: an array (run, ...) for each variable in `variables`."""
        frames = self._trainer_of(state).map(
            observe_runs, with_moments(state, self.moment_names)
        )
        frame = {
            name: np.concatenate([part[name] for part in frames]) for name in frames[0]
        }
        if "learning_rate" in self.variables:
            frame["learning_rate"] = self.learning_rates(state)
        return frame

    def learning_rates(self, state: TrainingState) -> np.ndarray:
        """The learning rate of the next update of each run, (run,); of a run that has
        diverged that of the update with which it did."""
        factor = self.settings.learning_rate_factor
        factors = [factor(int(step)) for step in state.last_step]
        return np.float32(self.settings.lr) * np.array(factors, np.float32)

    def _trainer_of(self, state: TrainingState) -> EnsembleTrainer:
        seeds = np.stack([state.seeds, state.batch_seeds], axis=1)
        if self._trainer is None or not np.array_equal(seeds, self._trainer.seeds):
            self._trainer = EnsembleTrainer(
                self._new_trainer, seeds, self.groups_on_threads
            )
        return self._trainer

    def _new_trainer(self, seeds: np.ndarray) -> Trainer:
        """A trainer of the runs with these seeds and batch seeds, (run, 2)."""
        backend = self.backend(seeds[:, 0])
        if (seeds[:, 0] != seeds[:, 1]).any():
            backend.order_batches_by(seeds[:, 1])
        return Trainer(self.network, backend)

    def checkpoint(self, state: TrainingState) -> dict[str, np.ndarray]:
        """The exact restart state for `restore`: `step`, and arrays with a leading run
        axis."""
        state = with_moments(state, self.moment_names)
        reshuffled = (state.batch_seeds != state.seeds).any()
        return {
            "step": np.asarray(state.step),
            "seeds": state.seeds,
            "weights": state.weights,
            **state.moments,
            "updates": np.full(len(state.seeds), state.updates),
            "gradient_norm": state.gradient_norm,
            "update_norm": state.update_norm,
            "last_step": state.last_step,
            **({"batch_seeds": state.batch_seeds} if reshuffled else {}),
        }

    def restore(self, arrays: Mapping[str, Any]) -> TrainingState:
        """The state from the arrays of `checkpoint`, for all of its runs or a subset of
        them."""
        names = ("seeds", "weights", "gradient_norm", "update_norm", "last_step")
        return TrainingState(
            step=int(arrays["step"]),
            moments={name: np.array(arrays[name]) for name in self.moment_names},
            updates=int(arrays["updates"].max()),  # of runs that go on
            batch_seeds=np.array(arrays.get("batch_seeds", arrays["seeds"])),
            **{name: np.array(arrays[name]) for name in names},
        )


def _block_backends() -> Any:
    """The module of backends that need numba-cuda."""
    return importlib.import_module("dynamics.training.cuda_backends")


class ModularSystem(TrainingSystem[ConstantAttention]):
    """The constant-attention network of CA on addition modulo N, as a
    `dynamics.System`.

    The parameters are those of `TrainingSystem`.

    Examples
    --------
    >>> import numpy as np
    >>> from dynamics import ModularSettings
    >>> system = ModularSystem(ModularSettings(n=5), device="cpu")
    >>> state = system.advance(system.initial(np.arange(3)), 2)
    >>> system.observe(state)["loss"].shape  # run, split
    (3, 2)
    """

    kind = SYSTEM_KINDS["modular"]
    numerics_version = kind.numerics_version
    network_class = ConstantAttention
    split_names = staticmethod(modular_backends.modular_splits)
    torch_backend = modular_backends.ModularTorchBackend
    cuda_bytes = staticmethod(cuda_memory.modular_bytes)

    @property
    def groups_on_threads(self) -> bool:
        return self.backend_name == "simd"

    def backend(self, seeds: np.ndarray) -> Backend:
        if self.backend_name == "simd":
            return modular_backends.ModularSimdBackend(self.network, seeds)
        if self.backend_name == "blas":
            return modular_backends.ModularBlasBackend(self.network, seeds)
        if self.backend_name == "blocks":
            return _block_backends().ModularBlockBackend(self.network, seeds)
        return self.torch_backend(self.network, seeds, self.device, self.ensemble_width)

    def cpu_bytes(self, runs: int) -> int:
        s = self.settings
        width = max(runs, LANES_32)
        if self.backend_name == "blas":
            evaluation = 16 * s.pairs * (s.hidden + 4 * s.n)
            return (
                runs * (40 * sum(self.network.lengths) + 48 * s.pairs)
                + get_num_threads() * evaluation
            )
        return 4 * (
            16 * width * sum(self.network.lengths)
            + 6 * width * s.pairs
            + 64 * LANES_32 * s.hidden * s.n
        )


class SparseSystem(TrainingSystem[ClusteringHead]):
    """The clustering head of VC on sparse modular addition, as a `dynamics.System`.

    The parameters are those of `TrainingSystem`.

    Examples
    --------
    >>> import numpy as np
    >>> from dynamics import SparseSettings
    >>> system = SparseSystem(SparseSettings(data=64), device="cpu")
    >>> system.initial(np.arange(3)).weights.shape  # run, parameter
    (3, 196)
    """

    kind = SYSTEM_KINDS["sparse"]
    numerics_version = kind.numerics_version
    network_class = ClusteringHead
    split_names = staticmethod(tasks.sparse_splits)
    torch_backend = sparse_backends.SparseTorchBackend
    cuda_bytes = staticmethod(cuda_memory.sparse_bytes)

    def initial_weights(self, seeds: np.ndarray) -> dict[str, np.ndarray]:
        if is_finetuning(self.settings):
            return finetuning_weights(self.network, seeds)
        return super().initial_weights(seeds)

    def backend(self, seeds: np.ndarray) -> Backend:
        if self.backend_name == "blocks":
            return _block_backends().SparseBlockBackend(self.network, seeds, self.clock)
        if self.device == "cpu":
            return sparse_backends.SparseSimdBackend(self.network, seeds, self.clock)
        return self.torch_backend(
            self.network, seeds, self.device, self.ensemble_width, self.clock
        )

    def cpu_bytes(self, runs: int) -> int:
        s = self.settings
        width = max(runs, LANES_32)
        run_bytes = 64 * sum(self.network.lengths) + s.data * (16 * s.length + 80)
        return width * run_bytes + 4 * LANES_32 * (
            2 * s.rows * s.length * s.dim + 4 * s.hidden
        )


class TransformerSystem(TrainingSystem[Transformer]):
    """The transformer of Zhong et al. and Nanda et al. on a binary operation, as a
    `dynamics.System`.

    The parameters are those of `TrainingSystem`.

    Examples
    --------
    >>> import numpy as np
    >>> from dynamics import TransformerSettings
    >>> system = TransformerSystem(TransformerSettings(n=5, dim=8), device="cpu")
    >>> state = system.advance(system.initial(np.arange(3)), 2)
    >>> system.observe(state)["loss"].shape  # run, split
    (3, 2)
    """

    kind = SYSTEM_KINDS["transformer"]
    numerics_version = kind.numerics_version
    network_class = Transformer
    split_names = staticmethod(transformer_backends.transformer_splits)
    torch_backend = transformer_backends.TransformerTorchBackend
    cuda_bytes = staticmethod(cuda_memory.transformer_bytes)
    groups_on_threads = False

    def backend(self, seeds: np.ndarray) -> Backend:
        if self.device == "cpu":
            return transformer_backends.TransformerCpuBackend(
                self.network, seeds, self.clock
            )
        return self.torch_backend(
            self.network, seeds, self.device, self.ensemble_width, self.clock
        )

    def cpu_bytes(self, runs: int) -> int:
        s = self.settings
        evaluation = 16 * s.pairs * s.elements + 16 * PORTION_PAIRS * s.width * s.layers
        return (
            runs * (64 * sum(self.network.lengths) + 32 * s.pairs)
            + get_num_threads() * evaluation
        )
