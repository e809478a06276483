"""Initial weights of a clustering head (VC) from a run trained on another task:
fine-tuning (VC section 4.2).

Position embeddings, query, value matrix, MLP, and the existing rows of the embedding
table are copied. New rows of the table are drawn at random, from their own random
stream."""

import numpy as np
import xarray as xr

from dynamics import randomness
from dynamics.initial_conditions import (
    open_start,
    start_run_indices,
    start_step_index,
)
from dynamics.networks.clustering_head import ClusteringHead
from dynamics.settings import SettingsError, SparseSettings, verify_content_hash
from dynamics.trajectory.schema import read_settings
from dynamics.trajectory.success import successful_runs


def finetuning_weights(
    network: ClusteringHead, seeds: np.ndarray
) -> dict[str, np.ndarray]:
    """Return initial weights for fine-tuning, from the trajectory that the setting
    `start` names.

    Parameters
    ----------
    network : ClusteringHead
        The network to train; its settings name the source trajectory, the step and the
        choice of runs.
    seeds : numpy.ndarray
        Seed of each run, (run,).

    Returns
    -------
    dict of str to numpy.ndarray
        Weights by variable name, (run, ...) float32.

    Raises
    ------
    SettingsError
        If the source does not contain weights of a clustering head of matching sizes,
        or lacks the step or a run.
    """
    s = network.settings
    name = verify_content_hash(s.start)
    source = open_start(name)
    before = read_settings(source)
    if not isinstance(before, SparseSettings):
        what = f"{name} of the system {before.system}"
        raise SettingsError("start", what, f"a trajectory of {SparseSettings.system}")
    for field in ("length", "dim", "hidden", "receptor_biases", "output_bias"):
        if getattr(before, field) != getattr(s, field):
            raise SettingsError(
                field, getattr(s, field), f"{getattr(before, field)}, as in {name}"
            )
    if s.rows < before.rows:
        field = "table" if s.table else "vocab"
        raise SettingsError(
            field,
            getattr(s, field),
            f"at least {before.rows}, the rows of the table of {name}",
        )
    runs = source_run_indices(source, s, seeds)
    step = start_step_index(source, s.start_step)
    weights = {}
    for variable, dims in network.variables.items():
        if variable not in source:
            raise SettingsError(
                "start",
                f"{name}, which contains only metrics",
                "a trajectory with recorded weights",
            )
        weights[variable] = (
            source[variable].transpose("run", "step", *dims).values[runs, step]
        )
    table = randomness.normal_samples(
        seeds, "sparse/new_rows", network.shapes["embedding"]
    ).astype(np.float32)
    table[:, : before.rows] = weights["embedding"]
    return {**weights, "embedding": table}


def source_run_indices(
    source: xr.Dataset, s: SparseSettings, seeds: np.ndarray
) -> np.ndarray:
    """The run index in the source for each seed: the run of the same seed, or one of
    the successful runs in turn.

    Raises SettingsError.
    """
    seeds = np.asarray(seeds)
    if s.start_runs == "successful":
        successful = np.flatnonzero(successful_runs(source))
        if len(seeds) > len(successful):
            raise SettingsError(
                "runs",
                len(seeds),
                f"at most {len(successful)}, the successful runs of the source",
            )
        return successful[seeds % len(successful)]
    runs = np.array(start_run_indices(source, seeds), dtype=np.int64)
    step = source["step"].values[start_step_index(source, s.start_step)]
    diverged = source["last_step"].values[runs] < step
    if diverged.any():
        what = f"a run of seed {seeds[diverged][0]} that diverged before step {step}"
        raise SettingsError(
            "start", what, "runs that have not diverged, such as the successful runs"
        )
    return runs
