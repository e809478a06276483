"""Transfer: first weights of VC's network from a run that has learned another task (VC section 5).

Position embeddings, query, value matrix and feed-forward layer are carried over as they are, and so are the rows of the
embedding table that the source has; new rows are drawn from a stream of their own.
"""

from pathlib import Path

import numpy as np
import xarray as xr

from dynamics import randomness
from dynamics.errors import TrajectoryError
from dynamics.initial_conditions import verify_content_hash
from dynamics.networks.clustering_head import ClusteringHead
from dynamics.settings import SUCCESS_ACCURACY, SettingsError, SparseSettings
from dynamics.trajectory.diverged import not_diverged
from dynamics.trajectory.reader import open_trajectory
from dynamics.trajectory.schema import read_settings


def finetuning_weights(network: ClusteringHead, seeds: np.ndarray) -> dict[str, np.ndarray]:
    """First weights, (run, *shape) float32, of the members of these seeds. Raises SettingsError."""
    s = network.settings
    name = verify_content_hash(s.start)
    source = _open_source(name)
    before = read_settings(source)
    assert isinstance(before, SparseSettings)
    for field in ("length", "dim", "hidden", "receptor_biases", "output_bias"):
        if getattr(before, field) != getattr(s, field):
            raise SettingsError(field, getattr(s, field), f"{getattr(before, field)}, as in {name}")
    if s.rows < before.rows:
        field = "table" if s.table else "vocab"
        raise SettingsError(field, getattr(s, field), f"at least the {before.rows} rows that the table of {name} has")
    places, step = source_run_indices(source, s, seeds), source_step_index(source, s)
    weights = {}
    for variable, dims in network.variables.items():
        if variable not in source:
            raise SettingsError("start", f"{name} with metrics alone", "a trajectory that recorded its weights")
        weights[variable] = source[variable].transpose("run", "step", *dims).values[places, step]
    fresh = randomness.normal_samples(seeds, "sparse/new_rows", network.shapes["embedding"]).astype(np.float32)
    fresh[:, : before.rows] = weights["embedding"]
    return {**weights, "embedding": fresh}


def _open_source(name: Path) -> xr.Dataset:
    """The source, if it is a whole trajectory of this system. Raises SettingsError."""
    try:
        source = open_trajectory(name)
        found = read_settings(source).system
    except TrajectoryError as error:
        raise SettingsError("start", str(error), "a whole trajectory") from None
    if found != SparseSettings.system:
        raise SettingsError("start", f"{name} of the system {found}", f"a trajectory of {SparseSettings.system}")
    return source


def source_step_index(source: xr.Dataset, s: SparseSettings) -> int:
    """Where along `step` the settings begin. Raises SettingsError."""
    steps = source["step"].values
    if s.start_step == -1:
        return len(steps) - 1
    at = int(np.searchsorted(steps, s.start_step))
    if at == len(steps) or steps[at] != s.start_step:
        allowed = f"a recorded step, of which there are {len(steps)} from {steps[0]} to {steps[-1]}, or -1, the last"
        raise SettingsError("start_step", s.start_step, allowed)
    return at


def successful_runs(trajectory: xr.Dataset, above: float = SUCCESS_ACCURACY) -> np.ndarray:
    """Which runs have not diverged and are above a test accuracy at the end, (run,) bool."""
    last = trajectory.isel(step=-1)
    right = last["accuracy"].sel(split="test").values > above
    return right & not_diverged(last)


def source_run_indices(source: xr.Dataset, s: SparseSettings, seeds: np.ndarray) -> np.ndarray:
    """Where along `run` the members of these seeds begin: at their own seed, or each at the next successful run.

    Raises SettingsError.
    """
    seeds = np.asarray(seeds)
    if s.start_runs == "successful":
        good = np.flatnonzero(successful_runs(source))
        if len(seeds) > len(good):
            raise SettingsError("runs", len(seeds), f"at most the {len(good)} successful ones of the source")
        return good[seeds % len(good)]
    place = {int(seed): at for at, seed in enumerate(source["seed"].values)}
    missing = [seed for seed in seeds.tolist() if seed not in place]
    if missing:
        known = source["seed"].values
        raise SettingsError("start", f"no run of seed {missing[0]} in it", f"seeds from {known.min()} to {known.max()}")
    places = np.array([place[seed] for seed in seeds.tolist()], dtype=np.int64)
    begun = source["step"].values[source_step_index(source, s)]
    ended = source["last_step"].values[places] < begun
    if ended.any():
        found = f"a run of seed {seeds[ended][0]} that has diverged before step {begun}"
        raise SettingsError("start", found, "runs that have not, such as the successful ones")
    return places
