"""Initial positions from a file."""

from pathlib import Path

import numpy as np
import xarray as xr

from dynamics.errors import TrajectoryError
from dynamics.folders import read_plain_file
from dynamics.number_tables import TABLE_FORM, read_numbers
from dynamics.settings import ParticleSettings, SettingsError, verify_content_hash
from dynamics.trajectory.reader import open_trajectory


def load_initial_positions(settings: ParticleSettings, seeds: np.ndarray) -> np.ndarray:
    """Initial positions (run, token, axis) of runs with these seeds, from the file
    `settings.start`.

    Raises SettingsError.
    """
    path = verify_content_hash(settings.start)
    if path.suffix == ".nc":
        x = _positions_from_trajectory(path, settings.start_step, seeds)
    elif settings.start_step != 0:
        raise SettingsError(
            "start_step",
            settings.start_step,
            "0 for a file that is not a trajectory (.nc)",
        )
    else:
        x = _positions_from_table(path, seeds)
    if x.shape[1:] != (settings.n, settings.dim):
        found = f"{x.shape[1]} tokens of dimension {x.shape[2]} in {path}"
        raise SettingsError(
            "start", found, f"n={settings.n} tokens of dim={settings.dim}"
        )
    size = np.abs(x)
    if (
        not (size < 1e38).all()
        or ((size.max(axis=(1, 2)) < 1e-100) & (size.max(axis=(1, 2)) > 0)).any()
    ):
        found = f"{path} with values of {size.min()} to {size.max()}"
        if np.isnan(size).any():
            token, axis = np.argwhere(np.isnan(size))[0, 1:]
            found = f"{path} without a number for token {token}, axis {axis}"
        raise SettingsError("start", found, "sizes of 1e-100 to 1e38, or 0")
    return x


def open_start(path: Path) -> xr.Dataset:
    """Open the trajectory that a setting `start` names. Raises SettingsError."""
    try:
        return open_trajectory(path)
    except TrajectoryError as error:
        raise SettingsError(
            "start", str(error), "a complete, valid trajectory"
        ) from None


def start_step_index(source: xr.Dataset, step: int) -> int:
    """The index along `step` of a recorded step; -1 is the last. Raises
    SettingsError."""
    steps = source["step"].values
    at = len(steps) - 1 if step == -1 else int(np.searchsorted(steps, step))
    if at == len(steps) or steps[at] != (step if step != -1 else steps[-1]):
        allowed = (
            f"one of the {len(steps)} recorded steps from {steps[0]} to {steps[-1]}, or"
            " -1 for the last"
        )
        raise SettingsError("start_step", step, allowed)
    return at


def start_run_indices(source: xr.Dataset, seeds: np.ndarray) -> list[int]:
    """The index along `run` of the run of each seed. Raises SettingsError."""
    source_seeds = source["seed"].values
    index = {int(seed): run for run, seed in enumerate(source_seeds)}
    for seed in np.asarray(seeds).tolist():
        if seed not in index:
            missing = f"no run of seed {seed} in {source.encoding['source']}"
            raise SettingsError(
                "start",
                missing,
                f"seeds from {source_seeds.min()} to {source_seeds.max()}",
            )
    return [index[int(seed)] for seed in seeds]


def _positions_from_trajectory(path: Path, step: int, seeds: np.ndarray) -> np.ndarray:
    source = open_start(path)
    if "embedding" not in source:
        raise SettingsError(
            "start",
            f"{path}, which contains only metrics",
            "a trajectory that recorded its embedding",
        )
    runs = start_run_indices(source, seeds)
    frame = start_step_index(source, step)
    return (
        source["embedding"]
        .isel(step=frame)
        .transpose("run", "token", "axis")
        .values[runs]
        .astype(np.float64)
    )


def _positions_from_table(path: Path, seeds: np.ndarray) -> np.ndarray:
    try:
        if path.suffix == ".npy":
            x = np.load(path, allow_pickle=False)
        else:
            x = np.array(read_numbers(read_plain_file(path)))
        if not isinstance(x, np.ndarray):
            raise ValueError("it is an archive of arrays")
        if x.dtype.kind not in "iuf":
            raise ValueError(f"its numbers are {x.dtype}")
        x = x.astype(np.float64)
    except (ValueError, TypeError, EOFError, OSError, MemoryError) as error:
        raise SettingsError(
            "start",
            f"{path} ({error})",
            f"a .nc or .npy file, or a table: {TABLE_FORM}",
        ) from None
    if x.ndim == 2:
        return np.repeat(x[None], len(seeds), axis=0)
    if x.ndim == 3 and max(seeds) < len(x):
        return x[np.asarray(seeds)]
    allowed = (
        "shape (token, axis), or (seed, token, axis) with a row for each seed up to"
        f" {max(seeds)}"
    )
    raise SettingsError("start", f"shape {x.shape} in {path}", allowed)
