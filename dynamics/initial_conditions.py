"""A given start: first embeddings from a file, pinned by content so that a run from them is repeatable."""

import csv
import dataclasses
import hashlib
import re
from pathlib import Path
from typing import Any

import numpy as np

from dynamics.errors import TrajectoryError
from dynamics.settings import ParticleSettings, SettingsError
from dynamics.trajectory.reader import open_trajectory

HASH_SEPARATOR = "#sha256="
"""Between the name of a file and the digest of its content."""


def with_start_hash(settings: ParticleSettings) -> ParticleSettings:
    """Settings whose `start` names a file by content as well, FILE#sha256=..., so that a run is repeatable."""
    return dataclasses.replace(settings, start=append_content_hash(settings.start))


def start_file(settings: Any) -> str | None:
    """The file that settings begin from, without its hash; None if there is none."""
    start = getattr(settings, "start", "random")
    return None if start == "random" else start.split(HASH_SEPARATOR)[0]


def append_content_hash(start: str) -> str:
    """FILE#sha256=... for the name of a file; "random", and what is pinned already, as it is. Raises SettingsError."""
    if start == "random" or re.search(HASH_SEPARATOR + "[0-9a-f]{64}$", start):
        return start
    return f"{start}{HASH_SEPARATOR}{file_sha256(Path(start))}"


def verify_content_hash(start: str) -> Path:
    """The file that a pinned start names, if it is still the same. Raises SettingsError."""
    name, _, digest = start.rpartition(HASH_SEPARATOR)
    if file_sha256(Path(name)) != digest:
        raise SettingsError("start", name, f"the file whose SHA-256 is {digest}; this one has changed since")
    return Path(name)


def load_initial_positions(settings: ParticleSettings, seeds: np.ndarray) -> np.ndarray:
    """The embeddings (run, token, axis) that `settings.start` gives to members with these seeds.

    Raises SettingsError.
    """
    path = verify_content_hash(settings.start)
    if path.suffix == ".nc":
        x = _start_from_trajectory(path, settings.start_step, seeds)
    elif settings.start_step != 0:
        raise SettingsError("start_step", settings.start_step, "0 for a file that is not a trajectory (.nc)")
    else:
        x = _start_from_table(path, seeds)
    if x.shape[1:] != (settings.n, settings.dim):
        found = f"{x.shape[1]} tokens of dimension {x.shape[2]} in {path}"
        raise SettingsError("start", found, f"n={settings.n} tokens of dim={settings.dim}")
    size = np.abs(x)
    if not (size < 1e38).all() or ((size.max(axis=(1, 2)) < 1e-100) & (size.max(axis=(1, 2)) > 0)).any():
        raise SettingsError(
            "start", f"{path} with values of {size.min()} to {size.max()}", "sizes of 1e-100 to 1e38, or 0"
        )
    return x


def file_sha256(path: Path) -> str:
    """SHA-256 of a file's content. Raises SettingsError."""
    try:
        return hashlib.sha256(path.read_bytes()).hexdigest()
    except OSError as error:
        raise SettingsError("start", str(path), f'"random" or a readable file ({error.strerror})') from None


def _start_from_trajectory(path: Path, step: int, seeds: np.ndarray) -> np.ndarray:
    try:
        trajectory = open_trajectory(path)
    except TrajectoryError as error:
        raise SettingsError("start", str(error), "a whole trajectory") from None
    if "embedding" not in trajectory:
        raise SettingsError("start", f"{path} with metrics alone", "a trajectory that recorded its embedding")
    known = trajectory["seed"].values
    missing = sorted(set(np.asarray(seeds).tolist()) - set(known.tolist()))
    if missing:
        raise SettingsError("start", f"no run of seed {missing[0]} in {path}", f"seeds {known.min()}..{known.max()}")
    steps = trajectory["step"].values
    at = len(steps) - 1 if step == -1 else int(np.searchsorted(steps, step))
    if at >= len(steps) or (step != -1 and steps[at] != step):
        raise SettingsError("start_step", step, f"a recorded step of {path}, which has {steps[0]}..{steps[-1]}")
    rows = [int(np.flatnonzero(known == seed)[0]) for seed in seeds]
    chosen = trajectory["embedding"].isel(step=at).transpose("run", "token", "axis").values[rows]
    return chosen.astype(np.float64)


def _start_from_table(path: Path, seeds: np.ndarray) -> np.ndarray:
    try:
        if path.suffix == ".npy":
            x = np.load(path, allow_pickle=False)
        else:
            with path.open(newline="") as lines:
                x = np.array([[float(cell) for cell in row] for row in csv.reader(lines) if row])
        if not isinstance(x, np.ndarray):
            raise ValueError("it is an archive of arrays")
        if x.dtype.kind not in "iuf":
            raise ValueError(f"its numbers are {x.dtype}")
        x = x.astype(np.float64)
    except (ValueError, TypeError, EOFError, OSError, MemoryError, csv.Error) as error:
        raise SettingsError("start", str(path), f"a .nc, .npy or .csv file of numbers ({error})") from None
    if x.ndim == 2:
        return np.repeat(x[None], len(seeds), axis=0)
    if x.ndim == 3 and max(seeds) < len(x):
        return x[np.asarray(seeds)]
    allowed = f"shape (token, axis), or (seed, token, axis) with a row for each seed up to {max(seeds)}"
    raise SettingsError("start", f"shape {x.shape} in {path}", allowed)
