"""The progress measures of every run along its training, and their table.

Key frequencies are those of the last valid frame of a run, so that the restricted and
the excluded loss show when the final frequencies form (Nanda et al., arXiv 2301.05217).
All values are dimensionless, losses in nats."""

from __future__ import annotations

import math
from collections.abc import Mapping
from typing import Any

import numpy as np
import torch
import xarray as xr

from analysis.output.results import dimensionless
from analysis.output.tables import Column, format_interval
from analysis.progress_measures import logit_components
from analysis.progress_measures.adding_networks import (
    AddingNetwork,
    OwnNetwork,
    adding_network,
)
from analysis.progress_measures.grokking import grokking_phases, grokking_times
from analysis.progress_measures.own_performance import (
    learning_times,
    own_performance,
    unknown_phases,
    unknown_times,
)
from analysis.progress_measures.token_gradients import (
    gradient_symmetricity,
    random_triples,
)
from analysis.progress_measures.weight_components import (
    component_circularity,
    fourier_norms,
    gini_coefficient,
)
from analysis.statistics.intervals import drop_non_finite, median_interval
from analysis.statistics.survival import kaplan_meier
from analysis.structures.fourier import fourier_frequencies
from analysis.transitions.detection import MIN_WINDOW_FRAMES
from dynamics.progress import progress_bar
from dynamics.recording.model_file import ModelFile
from dynamics.settings import TransformerSettings
from dynamics.trajectory.diverged import valid_frames
from dynamics.trajectory.schema import time_unit
from dynamics.trajectory.selection import Selection, selected_frames

MEASURED_FRAMES = 101

PROGRESS_MEASURES: Mapping[str, str] = {
    "restricted_loss": "loss of all pairs by the key frequencies of a + b alone",
    "excluded_loss": "loss of the training pairs without the key frequencies of a + b",
    "key_fraction": (
        "fraction of the variance of the logits in the key frequencies of a + b"
    ),
    "embedding_gini": "Gini coefficient of the Fourier norms of the embedding",
    "map_gini": "Gini coefficient of the Fourier norms of the neuron-logit map",
    "gradient_symmetricity": (
        "mean cosine of the gradients of a logit at both embeddings"
    ),
    "distance_irrelevance": "how little the correct logit depends on a - b",
    "component_circularity": (
        "mean fraction of a principal component's power in one frequency"
    ),
    "squared_weights": "sum of squared weights",
}
"""What each measure (run, step) is."""

_BLOCK_BYTES = 2**30


def measure_progress(
    trajectory: xr.Dataset,
    frames: int | Selection = MEASURED_FRAMES,
    threshold: float = logit_components.KEY_FRACTION,
    model: ModelFile | None = None,
) -> xr.Dataset:
    """The progress measures of networks that add numbers modulo N, along their
    training.

    Parameters
    ----------
    trajectory : xarray.Dataset
        A trajectory of networks that learn addition, with recorded weights: system
        ``modular``, or ``transformer`` with the task ``add``; or of a model from
        outside, with its parameters.
    frames : int or Selection
        Number of measured frames, evenly spaced, with the first and the last, or a
        selection of frames.
    threshold : float
        Power of a key frequency, as a fraction of the largest power
        (`key_frequencies`).
    model : ModelFile, optional
        Functions of a model from outside: `logits` and `embedding`, and
        `training_pairs` for its excluded loss and its times. Measures that are unknown
        are NaN.

    Returns
    -------
    xarray.Dataset
        By run and step: the `PROGRESS_MEASURES`, and by frequency `embedding_norm` and
        `map_norm`, the Fourier norms of the embedding and of the neuron-logit map, and
        `sum_fraction`, the fraction of the variance of the logits in a frequency of a +
        b; NaN in the frames after a run diverged. By run: `key_frequency` (frequency),
        the variables of `grokking_times` and `grokking_phases`; `restricted_change` and
        `excluded_change`, the changes of both losses during circuit formation, and
        `weights_change`, that of the squared weights during cleanup. Attributes `unit`,
        the number of steps of a `unit_of_time`. For a model
        from outside also `loss` and `accuracy` (run, step, split), of its logits.

    Raises
    ------
    TrajectoryError
        If the trajectory is not of networks that add numbers, or has no weights, or if
        a frame needs more than 4 GiB.
    SettingsError
        For fewer than two frames.

    Examples
    --------
    >>> from analysis.progress_measures import measure_progress
    >>> from dynamics import ModularSettings, simulate
    >>> trajectory = simulate(ModularSettings(n=5, hidden=8), runs=2, steps=60, progress=False)
    >>> measure_progress(trajectory, frames=2)["restricted_loss"].sizes
    Frozen({'run': 2, 'step': 2})
    """
    network = adding_network(trajectory, model)
    own = isinstance(network, OwnNetwork)
    single = trajectory.sizes["step"] == 1
    if not own and not single:  # refuses a trajectory before the measures are computed
        learned = grokking_times(trajectory)
        if trajectory.sizes["step"] > MIN_WINDOW_FRAMES:
            learned = learned.merge(grokking_phases(trajectory))
        else:  # events are detected in six frames or more
            learned = learned.merge(unknown_phases(trajectory.sizes["run"]))
    elif not own:
        learned = unknown_times(trajectory)
    at = selected_frames(trajectory, frames, least=1 if own or single else 2)
    all_valid = valid_frames(trajectory).values
    valid = valid_frames(trajectory, at).values
    lasts = all_valid.sum(axis=1) - 1
    seeds = trajectory["seed"].values
    runs = []
    for run in progress_bar(range(len(seeds)), desc="measures", unit="run"):
        runs.append(_measure_run(network, run, at, int(lasts[run]), threshold))
    result = _labelled(runs, valid, trajectory, at, network.n)
    if isinstance(network, OwnNetwork):
        result = result.merge(own_performance(network, at))
        learned = learning_times(trajectory, result)
    word, unit = time_unit(trajectory)
    return _phase_changes(result.merge(learned)).assign_attrs(
        threshold=threshold, unit_of_time=word, unit=unit
    )


def _measure_run(
    network: AddingNetwork, run: int, frames: np.ndarray, last: int, threshold: float
) -> dict[str, np.ndarray]:
    """The measures of a run at the indices of some frames, each (step, ...), with the
    key frequencies of its last valid frame, whichever frames are measured."""
    keys = _key_frequencies(network, run, last, threshold)
    pairs = network.training_pairs(run)
    seed = int(network.trajectory["seed"].values[run])
    triples = random_triples(network.n, seed)
    width = max(1, _BLOCK_BYTES // network.frame_bytes)
    blocks = []
    for start in range(0, len(frames), width):
        weights = network.weights(run, frames[start : start + width])
        blocks.append(_measure_frames(network, weights, keys, pairs, triples))
    measured = {
        name: np.concatenate([block[name] for block in blocks]) for name in blocks[0]
    }
    return {**measured, "key_frequency": keys}


def _key_frequencies(
    network: AddingNetwork, run: int, frame: int, threshold: float
) -> np.ndarray:
    """The key frequencies of a run by the logits in a frame: (frequency,) bool."""
    logits = network.all_logits(network.weights(run, np.array([frame])))
    fractions = logit_components.sum_frequency_fractions(logits)
    return logit_components.key_frequencies(fractions[0], threshold)


def trajectory_key_frequencies(
    trajectory: xr.Dataset, threshold: float = logit_components.KEY_FRACTION
) -> np.ndarray:
    """The key frequencies of each run, by the logits in its last valid frame: (run,
    frequency) bool.

    Raises TrajectoryError unless it is a trajectory of networks that add numbers.
    """
    network = adding_network(trajectory)
    lasts = valid_frames(trajectory).values.sum(axis=1) - 1
    return np.stack(
        [_key_frequencies(network, *frame, threshold) for frame in enumerate(lasts)]
    )


def plane_key_frequencies(
    trajectory: xr.Dataset, threshold: float = logit_components.KEY_FRACTION
) -> np.ndarray | None:
    """The key frequencies in whose planes forces are compared: those of transformers in
    more than two dimensions, (run, frequency) bool; None for others."""
    transformer = trajectory.attrs["system"] == TransformerSettings.system
    if not transformer or trajectory.sizes["axis"] <= 2:
        return None
    return trajectory_key_frequencies(trajectory, threshold)


def _measure_frames(
    network: AddingNetwork,
    weights: Mapping[str, torch.Tensor],
    keys: np.ndarray,
    pairs: np.ndarray | None,
    triples: np.ndarray,
) -> dict[str, np.ndarray]:
    """The measures of some frames, each (step, ...), NaN for those that are unknown.
    weights (step, ...); keys (frequency,)."""
    logits = network.all_logits(weights)
    embedding = network.embedding(weights)
    squares = [
        values.square().flatten(1).sum(-1).numpy()
        for values in network.parameters(weights)
    ]
    norms = fourier_norms(embedding)
    unknown = np.full(len(embedding), np.nan)
    result = {
        "embedding_gini": gini_coefficient(norms),
        "gradient_symmetricity": gradient_symmetricity(network, weights, triples),
        "component_circularity": component_circularity(embedding),
        "squared_weights": np.sum(squares, axis=0),
        "embedding_norm": norms,
    }
    neurons = network.neuron_logit_map(weights)
    result |= {"map_norm": np.nan * norms, "map_gini": unknown}
    if neurons is not None:
        result["map_norm"] = fourier_norms(neurons)
        result["map_gini"] = gini_coefficient(result["map_norm"])
    if isinstance(network, OwnNetwork) and not network.adds:
        names = (
            "restricted_loss",
            "excluded_loss",
            "key_fraction",
            "distance_irrelevance",
        )
        fractions = np.full(norms.shape, np.nan)
        return result | dict.fromkeys(names, unknown) | {"sum_fraction": fractions}
    fractions = logit_components.sum_frequency_fractions(logits)
    excluded = unknown
    if pairs is not None:
        excluded = logit_components.excluded_loss(logits, keys, pairs)
    return result | {
        "restricted_loss": logit_components.restricted_loss(logits, keys),
        "excluded_loss": excluded,
        "key_fraction": (fractions * keys).sum(axis=-1),
        "distance_irrelevance": logit_components.distance_irrelevance(logits),
        "sum_fraction": fractions,
    }


_SPECTRA = {
    "embedding_norm": "Fourier norm of the embedding",
    "map_norm": "Fourier norm of the neuron-logit map",
    "sum_fraction": "fraction of the variance of the logits in a frequency of a + b",
}


def _labelled(
    runs: list[dict[str, np.ndarray]],
    valid: np.ndarray,
    trajectory: xr.Dataset,
    at: np.ndarray,
    n: int,
) -> xr.Dataset:
    """The measures of all runs as a dataset, NaN in frames that are not valid (run,
    step)."""
    result = xr.Dataset()
    for name, about in {**PROGRESS_MEASURES, **_SPECTRA}.items():
        values = np.stack([run[name] for run in runs])
        values[~valid] = np.nan
        dims = ("run", "step", "frequency")[: values.ndim]
        result[name] = (dims, values, dimensionless(about))
    keys = np.stack([run["key_frequency"] for run in runs])
    meaning = {"long_name": "whether it is a key frequency"}
    result["key_frequency"] = (("run", "frequency"), keys, meaning)
    frequencies = fourier_frequencies(n)
    coords = {
        "step": trajectory["step"].values[at],
        "seed": ("run", trajectory["seed"].values),
        "frequency": ("frequency", frequencies, dimensionless("k of ±k, in Z_N")),
    }
    return result.assign_coords(coords)


_PHASE_CHANGES = {
    "restricted_change": ("restricted_loss", "circuit formation"),
    "excluded_change": ("excluded_loss", "circuit formation"),
    "weights_change": ("squared_weights", "cleanup"),
}
"""The measure and the phase of each change."""


def _phase_changes(result: xr.Dataset) -> xr.Dataset:
    """The result with the changes of measures during a phase in which they show NA's
    three phases."""
    for name, (measure, phase) in _PHASE_CHANGES.items():
        moments = result[["begin", "end"]].sel(phase=phase)
        steps = result["step"].values
        changes = []
        for run, values in enumerate(result[measure].values):
            first, last = moments["begin"].values[run], moments["end"].values[run]
            change = np.interp(last, steps, values) - np.interp(first, steps, values)
            changes.append(change if np.isfinite(first + last) else np.nan)
        about = dimensionless(
            f"change of the {measure.replace('_', ' ')} during {phase}"
        )
        result[name] = ("run", np.array(changes), about)
    return result


# --------------------------------------------------------------------------- as a table


PROGRESS_COLUMNS = (
    Column("seed", "seed"),
    Column("memorised", "memorised", digits=0),
    Column("generalised", "generalised", digits=0),
    Column(
        "cleanup",
        text=lambda row: (
            "-"
            if np.isnan(row["cleanup_begin"])
            else f"{row['cleanup_begin']:.0f} to {row['cleanup_end']:.0f}"
        ),
    ),
    Column("key frequencies", "key_frequencies"),
    Column("restricted", "restricted_loss", text="{:.3g}".format),
    Column("excluded", "excluded_loss", text="{:.3g}".format),
    Column("Gini E", "embedding_gini", digits=2),
    Column("Gini map", "map_gini", digits=2),
    Column("symmetricity", "gradient_symmetricity", digits=3),
    Column("irrelevance", "distance_irrelevance", digits=2),
    Column("circularity", "component_circularity", digits=3),
)


_TIME_COLUMNS = ("memorised", "generalised", "cleanup")


def progress_columns(result: xr.Dataset) -> list[Column]:
    """The columns of the table; for a single frame those of times are replaced by the
    accuracies."""
    if _has_times(result):
        return list(PROGRESS_COLUMNS)
    columns = [c for c in PROGRESS_COLUMNS if c.heading not in _TIME_COLUMNS]
    splits = result["split"].values.tolist() if "accuracy" in result else []
    accuracies = [
        Column(f"accuracy {split}", f"accuracy_{split}", digits=3) for split in splits
    ]
    return [columns[0], *accuracies, *columns[1:]]


def _has_times(result: xr.Dataset) -> bool:
    return result.sizes["step"] > 1 or bool(np.isfinite(result["memorised"]).any())


def progress_rows(result: xr.Dataset) -> list[dict[str, Any]]:
    """A row of the table for each run: its times, in the result's unit, and the
    measures of its last valid frame."""
    rows = []
    unit = result.attrs["unit"]
    for run in range(result.sizes["run"]):
        one = result.isel(run=run)
        last = int(np.isfinite(one["squared_weights"].values).sum()) - 1
        row: dict[str, Any] = {"seed": int(one["seed"])}
        for name in ("memorised", "generalised", "delay"):
            row[name] = float(one[name]) / unit
        row["observed"] = int(one["observed"])
        if "accuracy" in result:
            for split in result["split"].values:
                row[f"accuracy_{split}"] = float(one["accuracy"][last].sel(split=split))
        for phase in ("circuit formation", "cleanup"):
            for end in ("begin", "end"):
                name = f"{phase}_{end}".replace(" ", "_")
                row[name] = float(one[end].sel(phase=phase)) / unit
        keys = one["frequency"].values[one["key_frequency"].values]
        row["key_frequencies"] = " ".join(map(str, keys))
        row |= {name: float(one[name][last]) for name in PROGRESS_MEASURES}
        row |= {name: float(one[name]) for name in _PHASE_CHANGES}
        rows.append(row)
    return rows


def describe_progress(result: xr.Dataset) -> str:
    """How many runs memorise and generalise, the median delay, and the changes of
    measures in the phases."""
    if not _has_times(result):
        return "a single frame, so times are unknown"
    unit = result.attrs["unit"]
    word = result.attrs["unit_of_time"]
    delay = result["delay"].values / unit
    observed = result["observed"].values
    finite = np.isfinite(delay)
    runs = result.sizes["run"]
    lines = [
        f"{finite.sum()} of {runs} runs memorise, {observed[finite].sum()} of these"
        " generalise"
    ]
    if finite.any():
        median = kaplan_meier(delay[finite], observed[finite]).median
        reached = (
            format_interval(median)
            if math.isfinite(median.value)
            else f"more than {delay[finite].max():.0f}"
        )
        lines.append(f"median delay: {reached} {word}s (Kaplan-Meier, 95%)")
    for name, (measure, phase) in _PHASE_CHANGES.items():
        changes = result[name].values
        if np.isfinite(changes).any():
            median = median_interval(drop_non_finite(changes))
            lines.append(
                f"{measure.replace('_', ' ')} during {phase}:"
                f" {format_interval(median, 2)} (median, 95%)"
            )
    return "\n".join(lines)
