"""Networks that add two numbers modulo N, as the progress measures need them: those of
the package, and models from outside.

A model from outside may combine its numbers by another operation. If its answer is
u(a) + v(b) modulo N with permutations u and v, such as a - b, its pairs are named (u(a),
v(b)), and it adds."""

from __future__ import annotations

import types
from collections.abc import Mapping
from typing import Any

import numpy as np
import torch
import xarray as xr

from dynamics.errors import TrajectoryError
from dynamics.networks.from_trajectory import network_of, weights
from dynamics.recording.model_file import ModelFile, sum_names
from dynamics.recording.quantities import PARAMETER
from dynamics.recording.recorded_network import RecordedNetwork
from dynamics.settings import (
    ModularSettings,
    RecordedSettings,
    SettingsError,
    TransformerSettings,
)
from dynamics.tasks import (
    all_pairs,
    modular_training_mask,
    operation_pairs,
    operation_splits,
)
from dynamics.trajectory.schema import check_variable_recorded, read_settings

_MOST_BYTES = 2**32

Weights = Mapping[str, torch.Tensor]


class PackageNetwork:
    """A network of the package that adds. Raises TrajectoryError for another system."""

    def __init__(self, trajectory: xr.Dataset) -> None:
        settings = read_settings(trajectory)
        task = getattr(settings, "task", "add")
        networks = ModularSettings | TransformerSettings
        if not isinstance(settings, networks) or task != "add":
            result = f"task: found {task}"
            if task == "add":
                result = f"system: found {settings.system}"
            raise TrajectoryError(
                f"attribute {result}, expected a network that adds two numbers modulo N"
            )
        self.trajectory = trajectory
        self.network: Any = network_of(trajectory)
        for name in self.network.variables:
            check_variable_recorded(trajectory, name)
        self.settings = settings
        self.n = self.settings.n
        if self.n < 3:
            raise TrajectoryError(
                f"attribute modulus: found {self.n}, expected at least 3"
            )
        sizes = self.network.sizes
        self.frame_bytes = (
            8 * self.n**2 * (4 * self.n + 3 * sizes["hidden"] + 12 * sizes["axis"])
        )
        """Memory that the logits of all pairs in a frame take with their intermediate
        results, at most."""
        if self.frame_bytes > _MOST_BYTES:
            size = f"{self.frame_bytes / 2**30:.0f} GiB a frame"
            raise TrajectoryError(
                f"attribute modulus: found {self.n} numbers, which take {size},"
                f" expected at most {_MOST_BYTES // 2**30} GiB"
            )

    def weights(self, run: int, frames: np.ndarray) -> dict[str, torch.Tensor]:
        """The weights of a run at the indices of some frames: (step, ...) float64."""
        one = self.trajectory[list(self.network.variables)].isel(run=[run], step=frames)
        recorded = weights(one.load().assign_attrs(self.trajectory.attrs), run=0)
        return {name: weight.double() for name, weight in recorded.items()}

    def logits(self, weights: Weights, pairs: torch.Tensor) -> torch.Tensor:
        """Logits (..., pair, class) of pairs of numbers (pair, 2)."""
        return self.network.logits(weights, pairs)

    def all_logits(self, weights: Weights) -> np.ndarray:
        """Logits of all ordered pairs of numbers: (step, a, b, class)."""
        return all_logits(self.network, weights)

    def embedding(self, weights: Weights) -> np.ndarray:
        """(step, token, axis) of the N numbers."""
        return weights["embedding"][..., : self.n, :].numpy()

    def parameters(self, weights: Weights) -> list[torch.Tensor]:
        """The trained parameters (step, ...)."""
        return list(weights.values())

    def neuron_logit_map(self, weights: Weights) -> np.ndarray:
        """The weights between the last neurons and the logits: (step, class,
        neuron)."""
        return neuron_logit_map(weights)

    def training_pairs(self, run: int) -> np.ndarray:
        """The training pairs (pair, 2) of a run."""
        seeds = self.trajectory["seed"].values[[run]]
        if isinstance(self.settings, TransformerSettings):
            split = operation_splits(self.settings, seeds)[0][0]
            return operation_pairs(self.settings)[split]
        chosen = modular_training_mask(self.settings, seeds)[0]
        return all_pairs(self.n)[chosen]


class OwnNetwork:
    """A model from outside, by the functions of its model file.

    Raises TrajectoryError, SettingsError if it lacks `logits` or `embedding`, or if the
    functions fail."""

    def __init__(self, trajectory: xr.Dataset, model: ModelFile) -> None:
        self.recorded = RecordedNetwork(trajectory, model)
        self.n = self.recorded.n
        self.settings = types.SimpleNamespace(n=self.n)
        self.trajectory = trajectory
        self.frame_bytes = 64 * self.n**3
        self.answers = model.answers(self.n)
        names = sum_names(self.answers)
        self.adds = names is not None
        """Whether the answer is a sum of the numbers under other names."""
        same = np.arange(self.n)
        self.first: np.ndarray
        self.second: np.ndarray
        self.first, self.second = names or (same, same)
        self._parameters = [
            name
            for name, variable in self.recorded.names.items()
            if variable.startswith(PARAMETER)
        ]

    def weights(self, run: int, frames: np.ndarray) -> dict[str, torch.Tensor]:
        """The parameters and buffers of a run at the indices of some frames, (step,
        ...), and its `embedding` (step, token, axis)."""
        states = [self.recorded.parameters(run, frame) for frame in frames]
        result = {name: torch.stack([s[name] for s in states]) for name in states[0]}
        tables = [self.recorded.embedding(state).detach() for state in states]
        return {f"of.{name}": values for name, values in result.items()} | {
            "embedding": torch.stack(tables)
        }

    def logits(self, weights: Weights, pairs: torch.Tensor) -> torch.Tensor:
        """Logits (step, pair, class), with the `embedding` in place of the recorded
        one."""
        results = []
        for step, table in enumerate(weights["embedding"]):
            state = self.recorded.embedding_setter(self._state(weights, step))(table)
            results.append(self.recorded.logits(state, pairs))
        return torch.stack(results)

    def _state(self, weights: Weights, step: int) -> dict[str, torch.Tensor]:
        return {name: weights[f"of.{name}"][step] for name in self.recorded.names}

    def all_logits(self, weights: Weights) -> np.ndarray:
        """Logits of all ordered pairs of numbers: (step, a, b, class), of which a and b
        have the names that are added."""
        steps = range(len(weights["embedding"]))
        logits = [
            self.recorded.all_logits(self._state(weights, step)) for step in steps
        ]
        a, b = np.ix_(np.argsort(self.first), np.argsort(self.second))
        return np.stack(logits)[:, a, b]

    def embedding(self, weights: Weights) -> np.ndarray:
        return weights["embedding"].double().numpy()

    def parameters(self, weights: Weights) -> list[torch.Tensor]:
        return [weights[f"of.{name}"].double() for name in self._parameters]

    def neuron_logit_map(self, weights: Weights) -> None:
        """Unknown."""

    def training_pairs(self, run: int) -> np.ndarray | None:
        """The training pairs (pair, 2) by the names that are added; None if they are
        unknown."""
        pairs = self.recorded.training_pairs(run)
        if pairs is None:
            return None
        return np.stack([self.first[pairs[:, 0]], self.second[pairs[:, 1]]], axis=1)


AddingNetwork = PackageNetwork | OwnNetwork


def adding_network(
    trajectory: xr.Dataset, model: ModelFile | None = None
) -> AddingNetwork:
    """The network of a trajectory. Raises TrajectoryError unless it combines two
    numbers modulo N, SettingsError for a wrong model file."""
    if trajectory.attrs["system"] != RecordedSettings.system:
        if model is not None:
            raise SettingsError(
                "model",
                model.path or "a model",
                f"no value for the system {trajectory.attrs['system']}, only for a"
                " model from outside",
            )
        return PackageNetwork(trajectory)
    if model is None:
        raise TrajectoryError(
            "attribute system: found recorded, expected a network that adds two numbers"
            " modulo N, or a model file: --model FILE.py with logits(parameters,"
            " inputs) and embedding(parameters)"
        )
    return OwnNetwork(trajectory, model)


def all_logits(network: Any, weights: Weights) -> np.ndarray:
    """Logits of all ordered pairs of numbers: (..., a, b, class). weights: with any
    leading axes."""
    n = network.settings.n
    pairs = torch.cartesian_prod(torch.arange(n), torch.arange(n))
    with torch.no_grad():
        return network.logits(weights, pairs).unflatten(-2, (n, n)).numpy()


def neuron_logit_map(weights: Weights) -> np.ndarray:
    """The product of the weights between the neurons of the last layer and the logits:
    (..., class, neuron)."""
    if "output_weight" in weights:
        return weights["output_weight"].numpy()
    return (weights["unembedding"] @ weights["mlp_output"][..., -1, :, :]).numpy()
