"""Initial weights of a network from the file that the setting `start` names: a trajectory
of the same system, or arrays by variable."""

from collections.abc import Mapping
from pathlib import Path
from typing import Protocol

import numpy as np
import xarray as xr

from dynamics.initial_conditions import (
    open_start,
    start_run_indices,
    start_step_index,
)
from dynamics.settings import NetworkSettings, SettingsError, verify_content_hash
from dynamics.trajectory.diverged import not_diverged
from dynamics.trajectory.schema import read_settings


class Network(Protocol):
    """The variables of a network, and its initial weights."""

    variables: dict[str, tuple[str, ...]]
    shapes: dict[str, tuple[int, ...]]

    def initial(self, seeds: np.ndarray) -> dict[str, np.ndarray]:
        """Weights (run, ...) that are drawn with the seeds."""


def starting_weights(
    network: Network, settings: NetworkSettings, seeds: np.ndarray
) -> dict[str, np.ndarray]:
    """Initial weights by variable, (run, ...) float32, of runs with these seeds. Those
    that a file of arrays does not contain are drawn with the seeds.

    Raises SettingsError."""
    path = verify_content_hash(settings.start)
    if path.suffix == ".nc":
        source = open_source_run(path, settings)
        step = start_step_index(source, settings.start_step)
        runs = runs_of_seeds(source, step, seeds)
        weights = recorded_weights(source, network, runs, step)
    elif settings.start_step != 0:
        raise SettingsError(
            "start_step",
            settings.start_step,
            "0 for a file that is not a trajectory (.nc)",
        )
    else:
        given = weight_arrays(path, network, seeds)
        weights = {**network.initial(seeds), **given}
    for name, values in weights.items():
        if values.shape[1:] != network.shapes[name]:
            found = f"{name} of shape {values.shape[1:]} in {path}"
            allowed = f"{network.shapes[name]}, as these settings have it"
            raise SettingsError("start", found, allowed)
    return weights


def open_source_run(path: Path, settings: NetworkSettings) -> xr.Dataset:
    """The trajectory of another run of the same system. Raises SettingsError."""
    source = open_start(path)
    before = read_settings(source)
    if before.system != settings.system:
        what = f"{path} of the system {before.system}"
        raise SettingsError("start", what, f"a trajectory of {settings.system}")
    return source


def recorded_weights(
    source: xr.Dataset, network: Network, runs: np.ndarray, step: int
) -> dict[str, np.ndarray]:
    """The weights of some runs of a trajectory, given by index, at the index of a step.
    Raises SettingsError."""
    weights = {}
    for variable, dims in network.variables.items():
        if variable not in source:
            raise SettingsError(
                "start",
                f"{source.encoding['source']}, which contains only metrics",
                "a trajectory with recorded weights",
            )
        values = source[variable].transpose("run", "step", *dims).values
        weights[variable] = values[runs, step]
    return weights


def runs_of_seeds(source: xr.Dataset, step_index: int, seeds: np.ndarray) -> np.ndarray:
    """The run index in the source of the run of each seed. Raises SettingsError."""
    runs = np.array(start_run_indices(source, seeds), dtype=np.int64)
    step = int(source["step"].values[step_index])
    diverged = ~not_diverged(source, step)[runs]
    if diverged.any():
        what = f"a run of seed {seeds[diverged][0]} that diverged before step {step}"
        raise SettingsError("start", what, "runs that have not diverged")
    return runs


def weight_arrays(
    path: Path, network: Network, seeds: np.ndarray
) -> dict[str, np.ndarray]:
    """The arrays of a file by variable, (run, ...) float32: each is the same for all
    runs, or has a leading axis of seeds. Raises SettingsError."""
    arrays = {}
    for name, values in _read_arrays(path).items():
        if name not in network.shapes:
            allowed = f"variables among {', '.join(network.shapes)}"
            raise SettingsError("start", f"{name} in {path}", allowed)
        shape = network.shapes[name]
        if values.dtype.kind not in "iuf":
            found = f"{name} of type {values.dtype} in {path}"
            raise SettingsError("start", found, "arrays of numbers")
        if values.shape == shape:
            values = np.repeat(values[None], len(seeds), axis=0)
        elif values.shape[1:] == shape and max(seeds) < len(values):
            values = values[np.asarray(seeds)]
        else:
            found = f"{name} of shape {values.shape} in {path}"
            sizes = ", ".join(map(str, ("seed", *shape)))
            allowed = (
                f"shape {shape}, or ({sizes}) with a row for each seed up to"
                f" {max(seeds)}"
            )
            raise SettingsError("start", found, allowed)
        with np.errstate(over="ignore"):
            arrays[name] = values.astype(np.float32)
        if not np.isfinite(arrays[name]).all():
            found = f"{name} in {path} with a value that is not finite in float32"
            raise SettingsError("start", found, "finite numbers")
    return arrays


def _read_arrays(path: Path) -> Mapping[str, np.ndarray]:
    """The arrays of an .npz file by name. Raises SettingsError."""
    try:
        archive = np.load(path, allow_pickle=False)
        if isinstance(archive, np.ndarray):
            raise ValueError("it is one array, without names")
        with archive:
            return {name: archive[name] for name in archive.files}
    except Exception as error:  # damaged archives raise errors of many types
        reason = str(error).split("\n", maxsplit=1)[0] or type(error).__name__
        allowed = f"a trajectory (.nc), or a file of arrays (.npz) ({reason})"
        raise SettingsError("start", str(path), allowed) from None
