"""The transformers as pure functions of a dict of tensors, whose keys are the trajectory's variable names.

Each tensor may have any leading axes, such as run and step; they are kept. So what was recorded can be
evaluated, differentiated (`torch.func.grad`) and mapped (`torch.func.vmap`) as it stands.
"""

from collections.abc import Mapping
from typing import ClassVar, TypeVar

import numpy as np
import torch
import xarray as xr

from dynamics import randomness
from dynamics.networks.clustering_head import ClusteringHead
from dynamics.networks.parameters import NetworkParameters, Weights
from dynamics.settings import ModularSettings, SettingsError, SparseSettings
from dynamics.trajectory.netcdf import TrajectoryError
from dynamics.trajectory.reader import read_settings


class ConstantAttention(NetworkParameters):
    """CA's network: o = W_o relu(W_h (E_a + E_b) + b_h) + b_o, which attends to both tokens alike (CA section 3)."""

    VARIABLES: ClassVar[dict[str, tuple[str, ...]]] = {
        "embedding": ("token", "axis"),
        "hidden_weight": ("hidden", "axis"),
        "hidden_bias": ("hidden",),
        "output_weight": ("class", "hidden"),
        "output_bias": ("class",),
    }

    def __init__(self, settings: ModularSettings) -> None:
        self.settings = settings
        sizes = {"token": settings.n, "class": settings.n, "axis": settings.dim, "hidden": settings.hidden}
        super().__init__(self.VARIABLES, sizes)

    def initial(self, seeds: np.ndarray) -> dict[str, np.ndarray]:
        """First weights, (run, ...) float32: E standard normal, both layers uniform within ±1/sqrt(fan-in)."""
        weights = {}
        for name in self.variables:
            stream, shape = f"modular/{name}", self.shapes[name]
            if name == "embedding":
                drawn = randomness.normal_samples(seeds, stream, shape)
            else:
                fan_in = self.settings.dim if name.startswith("hidden") else self.settings.hidden
                drawn = randomness.uniform_samples(seeds, stream, shape) / np.sqrt(fan_in)
            weights[name] = drawn.astype(np.float32)
        return weights

    def target(self, pairs: torch.Tensor) -> torch.Tensor:
        """The right class of pairs (pair, 2): (pair,)."""
        return (pairs[:, 0] + pairs[:, 1]) % self.settings.n

    def logits(self, weights: Weights, pairs: torch.Tensor) -> torch.Tensor:
        """Scores of the N classes for pairs (pair, 2) of tokens: (..., pair, class)."""
        tokens = weights["embedding"] @ weights["hidden_weight"].mT
        summed = tokens[..., pairs[:, 0], :] + tokens[..., pairs[:, 1], :] + weights["hidden_bias"][..., None, :]
        return torch.relu(summed) @ weights["output_weight"].mT + weights["output_bias"][..., None, :]

    def losses(self, weights: Weights, pairs: torch.Tensor) -> torch.Tensor:
        """Cross-entropy of each pair: (..., pair)."""
        log_share = torch.log_softmax(self.logits(weights, pairs), dim=-1)
        index = self.target(pairs).expand(log_share.shape[:-1])[..., None]
        return -torch.gather(log_share, -1, index)[..., 0]

    def loss(self, weights: Weights, pairs: torch.Tensor, share: torch.Tensor) -> torch.Tensor:
        """Mean cross-entropy, (...), over pairs weighted by `share` (..., pair), which sums to 1."""
        return (self.losses(weights, pairs) * share).sum(-1)


_Kind = TypeVar("_Kind", ConstantAttention, ClusteringHead)

NETWORKS: Mapping[str, type[ConstantAttention | ClusteringHead]] = {
    ModularSettings.system: ConstantAttention,
    SparseSettings.system: ClusteringHead,
}
"""Network class by the `system` that a trajectory names."""


def network_of(trajectory: xr.Dataset) -> ConstantAttention | ClusteringHead:
    """The network whose training a trajectory holds. Raises TrajectoryError."""
    settings = read_settings(trajectory)
    if settings.system not in NETWORKS:
        known = ", ".join(NETWORKS)
        raise TrajectoryError(f"attribute system: found {settings.system}, networks are {known}")
    return NETWORKS[settings.system](settings)  # type: ignore[arg-type]


def constant_attention_of(trajectory: xr.Dataset) -> ConstantAttention:
    """CA's network, if it is its training that a trajectory holds. Raises TrajectoryError."""
    return _of_system(trajectory, ConstantAttention, ModularSettings.system)


def clustering_head_of(trajectory: xr.Dataset) -> ClusteringHead:
    """VC's network, if it is its training that a trajectory holds. Raises TrajectoryError."""
    return _of_system(trajectory, ClusteringHead, SparseSettings.system)


def _of_system(trajectory: xr.Dataset, kind: type[_Kind], system: str) -> _Kind:
    network = network_of(trajectory)
    if not isinstance(network, kind):
        found = trajectory.attrs["system"]
        raise TrajectoryError(f"attribute system: found {found}, this is about {system}")
    return network


def check_variable_recorded(trajectory: xr.Dataset, name: str) -> None:
    """See that a weight is among what was recorded. Raises TrajectoryError."""
    if name not in trajectory:
        raise TrajectoryError(f"variable {name}: missing; a run with record=metrics keeps no weights")


def weights(trajectory: xr.Dataset, run: int | None = None, step: int | None = None) -> dict[str, torch.Tensor]:
    """The weights that a trajectory holds, for `network_of(trajectory)`.

    run: a place along `run`; step: a recorded step. None keeps the axis, so that shapes are (run, step, ...).
    Raises TrajectoryError, SettingsError.
    """
    found = {}
    for name, dims in network_of(trajectory).variables.items():
        check_variable_recorded(trajectory, name)
        values = trajectory[name].transpose("run", "step", *dims)
        if run is not None:
            if not 0 <= run < trajectory.sizes["run"]:
                raise SettingsError("run", run, f"a place from 0 to {trajectory.sizes['run'] - 1}")
            values = values.isel(run=run)
        if step is not None:
            if step not in trajectory["step"].values:
                raise SettingsError("step", step, "a recorded step")
            values = values.sel(step=step)
        found[name] = torch.from_numpy(np.array(values.values))
    return found
