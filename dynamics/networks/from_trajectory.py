"""The network that a trajectory belongs to, and its recorded weights as tensors."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TypeVar

import numpy as np
import torch
import xarray as xr

from dynamics.errors import TrajectoryError
from dynamics.networks.clustering_head import ClusteringHead
from dynamics.networks.constant_attention import ConstantAttention
from dynamics.networks.transformer_network import Transformer
from dynamics.settings import (
    ModularSettings,
    SettingsError,
    SparseSettings,
    TransformerSettings,
)
from dynamics.trajectory.schema import check_variable_recorded, read_settings

_Network = TypeVar("_Network", ConstantAttention, ClusteringHead, Transformer)

Network = ConstantAttention | ClusteringHead | Transformer

NETWORKS: Mapping[str, type[Network]] = {
    ModularSettings.system: ConstantAttention,
    SparseSettings.system: ClusteringHead,
    TransformerSettings.system: Transformer,
}
"""Network class for each value of the trajectory attribute `system`."""


def network_of(trajectory: xr.Dataset) -> Network:
    """Return the network whose training a trajectory records.

    Parameters
    ----------
    trajectory : xarray.Dataset
        A trajectory of the system ``modular``, ``sparse`` or ``transformer``, from
        `dynamics.simulate` or `dynamics.open_trajectory`.

    Returns
    -------
    ConstantAttention, ClusteringHead or Transformer
        The network with the settings stored in the trajectory. It holds no weights: see
        `weights`.

    Raises
    ------
    TrajectoryError
        If the trajectory does not record the training of a network.

    Examples
    --------
    >>> from dynamics import ModularSettings, simulate
    >>> trajectory = simulate(ModularSettings(n=5), runs=2, steps=2, progress=False)
    >>> network_of(trajectory).settings.n
    5
    """
    settings = read_settings(trajectory)
    if settings.system not in NETWORKS:
        raise TrajectoryError(
            f"attribute system: found {settings.system}, networks are"
            f" {', '.join(NETWORKS)}"
        )
    return NETWORKS[settings.system](settings)  # type: ignore[arg-type]


def constant_attention_of(trajectory: xr.Dataset) -> ConstantAttention:
    """The constant-attention network (CA) of a trajectory. Raises TrajectoryError for
    any other system."""
    return _network_of_class(trajectory, ConstantAttention, ModularSettings.system)


def clustering_head_of(trajectory: xr.Dataset) -> ClusteringHead:
    """The clustering head (VC) of a trajectory. Raises TrajectoryError for any other
    system."""
    return _network_of_class(trajectory, ClusteringHead, SparseSettings.system)


def transformer_of(trajectory: xr.Dataset) -> Transformer:
    """The transformer (ZL, NA) of a trajectory. Raises TrajectoryError for any other
    system."""
    return _network_of_class(trajectory, Transformer, TransformerSettings.system)


def _network_of_class(
    trajectory: xr.Dataset, network_class: type[_Network], system: str
) -> _Network:
    if trajectory.attrs["system"] != system:
        papers = {
            ModularSettings.system: "CA",
            SparseSettings.system: "VC",
            TransformerSettings.system: "ZL and NA",
        }
        name = trajectory.attrs["system"]
        raise TrajectoryError(
            f"attribute system: found {name}, expected {system}, the network of"
            f" {papers[system]}"
        )
    network = network_of(trajectory)
    assert isinstance(network, network_class)
    return network


def weights(
    trajectory: xr.Dataset, run: int | None = None, step: int | None = None
) -> dict[str, torch.Tensor]:
    """Return the weights recorded in a trajectory of a network.

    Parameters
    ----------
    trajectory : xarray.Dataset
        A trajectory of a network with recorded weights (``record="all"``).
    run : int, optional
        Index along the dimension `run`. By default all runs, and the result keeps that
        axis.
    step : int, optional
        A recorded step. By default all recorded steps, and the result keeps that axis.

    Returns
    -------
    dict of str to torch.Tensor
        Weights by variable name, float32, shapes (run, step, ...) without the axes that
        were selected. This is what the methods of `network_of(trajectory)` take.

    Raises
    ------
    TrajectoryError
        If the trajectory contains no weights.
    SettingsError
        If there is no such run or recorded step.

    Examples
    --------
    >>> from dynamics import ModularSettings, simulate
    >>> trajectory = simulate(ModularSettings(n=5, hidden=8), runs=2, steps=2, progress=False)
    >>> weights(trajectory, run=0, step=2)["hidden_weight"].shape
    torch.Size([8, 2])
    """
    tensors = {}
    for name, dims in network_of(trajectory).variables.items():
        check_variable_recorded(trajectory, name)
        values = trajectory[name].transpose("run", "step", *dims)
        if run is not None:
            if not 0 <= run < trajectory.sizes["run"]:
                raise SettingsError(
                    "run", run, f"an index from 0 to {trajectory.sizes['run'] - 1}"
                )
            values = values.isel(run=run)
        if step is not None:
            if step not in trajectory["step"].values:
                raise SettingsError("step", step, "a recorded step")
            values = values.sel(step=step)
        tensors[name] = torch.from_numpy(np.array(values.values))
    return tensors
