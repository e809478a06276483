"""Training systems: what `dynamics.simulation` asks of a system, of ensembles of networks
(`dynamics.training.ensemble`)."""

import dataclasses
from abc import ABC, abstractmethod
from collections.abc import Mapping
from typing import Any, Generic, TypeVar

import numpy as np
import torch

from dynamics import tasks
from dynamics.initial_conditions import append_content_hash
from dynamics.kernels.optimizers import moment_names
from dynamics.kernels.simd import LANES_32
from dynamics.networks.clustering_head import ClusteringHead
from dynamics.networks.constant_attention import ConstantAttention
from dynamics.settings import ModularSettings, OptimizerSettings, SettingsError, SparseSettings
from dynamics.system import DEFAULT_CLOCK
from dynamics.training import modular_backends, sparse_backends
from dynamics.training.backends import Backend
from dynamics.training.ensemble import (
    EnsembleTrainer,
    Trainer,
    TrainingState,
    advance_runs,
    observe_runs,
    with_gradient_norm,
    with_moments,
)
from dynamics.training.finetuning import finetuning_weights

_Network = TypeVar("_Network", ConstantAttention, ClusteringHead)


class TrainingSystem(ABC, Generic[_Network]):
    """A network that learns, as a `System`: see `dynamics.simulation` for the protocol."""

    clock = DEFAULT_CLOCK

    def __init__(
        self,
        network: _Network,
        splits: tuple[str, ...],
        settings: OptimizerSettings,
        device: str,
        ensemble_width: int,
    ) -> None:
        self.network: _Network = network
        self.splits = splits
        self.device, self.ensemble_width = resolve_device(device), ensemble_width
        self.moment_names = moment_names(settings)
        self.variables = {
            **network.variables,
            "gradient_norm": ("layer",),
            "update_norm": ("layer",),
            "loss": ("split",),
            "accuracy": ("split",),
        }
        self._team: EnsembleTrainer | None = None

    @abstractmethod
    def engine(self, seeds: np.ndarray) -> Backend:
        """What trains the runs of these seeds."""

    @abstractmethod
    def working_bytes(self, runs: int) -> int:
        """Memory that a run takes, known before any is taken."""

    def first_weights(self, seeds: np.ndarray) -> dict[str, np.ndarray]:
        """Weights at step 0, (run, *shape) float32."""
        return self.network.initial(seeds)

    def coords(self) -> dict[str, np.ndarray]:
        """Coordinates of the dimensions that `variables` names; a split that is empty is left out."""
        numbered = {dim: np.arange(size) for dim, size in self.network.sizes.items()}
        return {**numbered, "layer": np.array(list(self.network.variables)), "split": np.array(self.splits)}

    def initial(self, seeds: np.ndarray) -> TrainingState:
        """First weights, one run a seed; `gradient_norm` is that of the first gradient there."""
        rows = self.network.flatten(self.first_weights(seeds))
        still = np.zeros((len(seeds), len(self.network.variables)))
        state = TrainingState(0, np.array(seeds), rows, {}, 0, still, still, np.zeros(len(seeds), np.int64))
        return self._team_of(state).next(with_gradient_norm, with_moments(state, self.moment_names))

    def advance(self, state: TrainingState, steps: int) -> TrainingState:
        """The state `steps` updates later; on a processor a run's bits depend on nothing but its own state."""
        if steps == 0:
            return state
        state = with_moments(state, self.moment_names)
        return self._team_of(state).next(lambda trainer, part: advance_runs(trainer, part, steps), state)

    def observe(self, state: TrainingState) -> dict[str, np.ndarray]:
        """One frame: an array (run, ...) for each of `variables`."""
        frames = self._team_of(state).each(observe_runs, with_moments(state, self.moment_names))
        return {name: np.concatenate([part[name] for part in frames]) for name in self.variables}

    def _team_of(self, state: TrainingState) -> EnsembleTrainer:
        if self._team is None or not np.array_equal(state.seeds, self._team.seeds):
            self._team = EnsembleTrainer(
                lambda seeds: Trainer(self.network, self.engine(seeds)), state.seeds, self.device
            )
        return self._team

    def checkpoint(self, state: TrainingState) -> dict[str, np.ndarray]:
        """All that `restore` needs, exactly: `step`, and arrays with a leading run axis."""
        state = with_moments(state, self.moment_names)
        return {
            "step": np.asarray(state.step),
            "seeds": state.seeds,
            "weights": state.weights,
            **state.moments,
            "updates": np.full(len(state.seeds), state.updates),
            "gradient_norm": state.gradient_norm,
            "update_norm": state.update_norm,
            "last_step": state.last_step,
        }

    def restore(self, arrays: Mapping[str, Any]) -> TrainingState:
        """The state of which `checkpoint` gave the arrays, or some of its runs."""
        names = ("seeds", "weights", "gradient_norm", "update_norm", "last_step")
        return TrainingState(
            step=int(arrays["step"]),
            moments={name: np.array(arrays[name]) for name in self.moment_names},
            updates=int(arrays["updates"][0]),
            **{name: np.array(arrays[name]) for name in names},
        )


class ModularSystem(TrainingSystem[ConstantAttention]):
    """CA's network on addition modulo N."""

    numerics_version = 3
    """Raised whenever a change alters results."""

    def __init__(self, settings: ModularSettings, device: str = "auto", ensemble_width: int = 0) -> None:
        self.settings = settings
        splits = modular_backends.modular_splits(settings)
        super().__init__(ConstantAttention(settings), splits, settings, device, ensemble_width)

    def engine(self, seeds: np.ndarray) -> Backend:
        if self.device == "cpu":
            return modular_backends.ModularSimdBackend(self.network, seeds)
        return modular_backends.ModularTorchBackend(self.network, seeds, self.device, self.ensemble_width)

    def working_bytes(self, runs: int) -> int:
        s, width = self.settings, max(runs, LANES_32)
        return 4 * (16 * width * sum(self.network.lengths) + 6 * width * s.pairs + 64 * LANES_32 * s.hidden * s.n)


class SparseSystem(TrainingSystem[ClusteringHead]):
    """VC's network on sparse modular addition."""

    numerics_version = 2
    """Raised whenever a change alters results."""

    def __init__(self, settings: SparseSettings, device: str = "auto", ensemble_width: int = 0) -> None:
        self.settings = dataclasses.replace(settings, start=append_content_hash(settings.start))
        super().__init__(ClusteringHead(self.settings), tasks.sparse_splits(settings), settings, device, ensemble_width)

    def first_weights(self, seeds: np.ndarray) -> dict[str, np.ndarray]:
        if self.settings.start == "random":
            return super().first_weights(seeds)
        return finetuning_weights(self.network, seeds)

    def engine(self, seeds: np.ndarray) -> Backend:
        if self.device == "cpu":
            return sparse_backends.SparseSimdBackend(self.network, seeds, self.clock)
        return sparse_backends.SparseTorchBackend(self.network, seeds, self.device, self.ensemble_width, self.clock)

    def working_bytes(self, runs: int) -> int:
        s, width = self.settings, max(runs, LANES_32)
        each = 64 * sum(self.network.lengths) + s.data * (16 * s.length + 80)
        return width * each + 4 * LANES_32 * (2 * s.rows * s.length * s.dim + 4 * s.hidden)


def resolve_device(device: str) -> str:
    """cpu or cuda. Raises SettingsError."""
    if device not in ("auto", "cpu", "cuda"):
        raise SettingsError("device", device, "auto, cpu or cuda")
    if device == "cuda" and not torch.cuda.is_available():
        raise SettingsError("device", device, "auto or cpu: torch finds no CUDA device here")
    if device == "auto":
        return "cuda" if torch.cuda.is_available() else "cpu"
    return device
