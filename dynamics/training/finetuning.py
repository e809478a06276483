"""Initial weights of a clustering head (VC) from a run trained on another task:
fine-tuning (VC section 4.2).

Position embeddings, query, value matrix, MLP, and the existing rows of the embedding
table are copied. New rows of the table are drawn at random, from their own random
stream."""

import numpy as np
import xarray as xr

from dynamics import randomness
from dynamics.initial_conditions import start_step_index
from dynamics.networks.clustering_head import ClusteringHead
from dynamics.settings import (
    SettingsError,
    SparseSettings,
    start_file,
    verify_content_hash,
)
from dynamics.training.starting_weights import (
    open_source_run,
    recorded_weights,
    runs_of_seeds,
)
from dynamics.trajectory.schema import read_settings
from dynamics.trajectory.success import successful_runs


def is_finetuning(settings: SparseSettings) -> bool:
    """Whether the initial weights are those of a trajectory."""
    return str(start_file(settings)).endswith(".nc")


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
    source = open_source_run(name, s)
    before = read_settings(source)
    for field in ("length", "dim", "hidden", "receptor_biases", "output_bias"):
        if getattr(before, field) != getattr(s, field):
            raise SettingsError(
                field, getattr(s, field), f"{getattr(before, field)}, as in {name}"
            )
    rows = before.rows  # type: ignore[attr-defined]
    if s.rows < rows:
        field = "table" if s.table else "vocab"
        raise SettingsError(
            field,
            getattr(s, field),
            f"at least {rows}, the rows of the table of {name}",
        )
    step = start_step_index(source, s.start_step)
    runs = source_run_indices(source, s, seeds)
    weights = recorded_weights(source, network, runs, step)
    table = randomness.normal_samples(
        seeds, "sparse/new_rows", network.shapes["embedding"]
    ).astype(np.float32)
    table[:, :rows] = weights["embedding"]
    return {**weights, "embedding": table}


def source_run_indices(
    source: xr.Dataset, s: SparseSettings, seeds: np.ndarray
) -> np.ndarray:
    """The run index in the source for each seed: the run of the same seed, or one of
    the successful runs in turn.

    Raises SettingsError.
    """
    seeds = np.asarray(seeds)
    if s.start_runs == "seed":
        step = start_step_index(source, s.start_step)
        return runs_of_seeds(source, step, seeds)
    successful = np.flatnonzero(successful_runs(source))
    if len(seeds) > len(successful):
        raise SettingsError(
            "runs",
            len(seeds),
            f"at most {len(successful)}, the successful runs of the source",
        )
    return successful[seeds % len(successful)]
