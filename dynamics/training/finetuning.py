"""Transfer: first weights of VC's network from a run that has learned another task (VC section 5).

Position embeddings, query, value matrix and feed-forward layer are carried over as they are, and so are the rows of the
embedding table that the source has; new rows are drawn from a stream of their own.
"""

from pathlib import Path

import numpy as np
import xarray as xr

from dynamics import randomness
from dynamics.initial_conditions import open_start, start_run_indices, start_step_index, verify_content_hash
from dynamics.networks.clustering_head import ClusteringHead
from dynamics.settings import SUCCESS_ACCURACY, SettingsError, SparseSettings
from dynamics.trajectory.diverged import not_diverged
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
    places, step = source_run_indices(source, s, seeds), start_step_index(source, s.start_step)
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
    source = open_start(name)
    found = read_settings(source).system
    if found != SparseSettings.system:
        raise SettingsError("start", f"{name} of the system {found}", f"a trajectory of {SparseSettings.system}")
    return source


def successful_runs(trajectory: xr.Dataset, above: float = SUCCESS_ACCURACY, split: str = "test") -> np.ndarray:
    """Runs that have not diverged and end above an accuracy on a split: (run,) bool."""
    last = trajectory.isel(step=-1)
    right = last["accuracy"].sel(split=split).values > above
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
    places = np.array(start_run_indices(source, seeds), dtype=np.int64)
    begun = source["step"].values[start_step_index(source, s.start_step)]
    ended = source["last_step"].values[places] < begun
    if ended.any():
        found = f"a run of seed {seeds[ended][0]} that has diverged before step {begun}"
        raise SettingsError("start", found, "runs that have not, such as the successful ones")
    return places
