"""Sparsity of the hidden activations of VC's network, in successful and in failed runs
(VC appendices A.2 and A.3).

The sparsity at a threshold eps is the fraction of hidden activations, over all
sequences of a split and all hidden units, that are below eps in absolute value. A
sequence that was drawn twice counts twice. A curve over eps is reduced to one number by
its mean over log eps for eps from 1e-3 to 10, the range in which the paper finds
successful runs less sparse. A run is successful if its test accuracy is above .9. All
values are dimensionless."""

from __future__ import annotations

import dataclasses
import itertools
from collections.abc import Callable, Sequence
from pathlib import Path

import numpy as np
import pandas as pd
import torch
import xarray as xr

from analysis.output.results import dimensionless, labelled
from analysis.output.tables import Column, format_p_value, interval_columns, make_table
from analysis.statistics.ranks import (
    mann_whitney_p_value,
    rank_biserial,
    rank_biserial_profile,
    rank_correlation,
)
from dynamics.networks.clustering_head import ClusteringHead
from dynamics.networks.from_trajectory import clustering_head_of, weights
from dynamics.networks.parameters import Weights
from dynamics.progress import progress_bar
from dynamics.randomness import random_stream
from dynamics.settings import SettingsError
from dynamics.tasks import distinct_sequences
from dynamics.trajectory.diverged import not_diverged
from dynamics.trajectory.schema import check_variable_recorded, read_settings
from dynamics.trajectory.success import exceeds

SUCCESSFUL_ACCURACY = 0.9
"""Test accuracy above which a run counts as successful (VC appendix A.2)."""

SPARSITY_THRESHOLDS = np.logspace(-5, 2, 141)
"""Thresholds eps, twenty per decade."""

SPARSITY_RANGE = (1e-3, 10.0)
"""Thresholds at which VC finds successful networks less sparse."""

SPARSITY_SPLITS = ("train", "test")

_BATCH_BYTES = 64 << 20

_MAX_LABEL = 30
"""Longest label made of settings, in characters."""

_SYMBOLS = {"dim": "d", "vocab": "p", "hidden": "h"}


# ------------------------------------------------------------------------------- arrays


def hidden_activations(
    network: ClusteringHead, network_weights: Weights, tokens: torch.Tensor
) -> torch.Tensor:
    """Activations f(w_i . N(xi) + b_i) of the hidden units: (..., sequence,
    position) -> (..., sequence, hidden)."""
    embeddings = network.sequence_embedding(network_weights, tokens)
    preactivation = network.normalise(embeddings) @ network_weights["receptor"].mT
    if network.settings.receptor_biases:
        preactivation = preactivation + network_weights["receptor_bias"][..., None, :]
    return network.activation.function(preactivation)


def count_below_thresholds(
    values: np.ndarray, counts: np.ndarray, thresholds: np.ndarray = SPARSITY_THRESHOLDS
) -> np.ndarray:
    """How many values are below each threshold in absolute value.

    Parameters
    ----------
    values : array, (sequence, hidden)
    counts : array, (sequence,)
        How often each sequence counts.
    thresholds : array, (eps,)
        Ascending.

    Returns
    -------
    array, (eps,)

    Raises
    ------
    ValueError
        If the shapes do not agree or the thresholds do not ascend.

    Examples
    --------
    >>> count_below_thresholds([[0.0, -1.0], [0.5, 2.0]], [1, 3], [0.6, 1.5, 3.0])
    array([4., 5., 8.])
    """
    values = np.asarray(values)
    counts = np.asarray(counts)
    if (
        values.ndim != 2
        or counts.shape != values.shape[:1]
        or not (np.diff(thresholds) > 0).all()
    ):
        result = f"{values.shape}, {counts.shape} and thresholds that are"
        raise ValueError(
            f"values: found shapes {result} not ascending, expected (sequence, hidden),"
            " (sequence,)"
        )
    passed = np.searchsorted(
        thresholds, np.abs(values), side="right"
    )  # thresholds that do not exceed the value
    weight = np.broadcast_to(counts[:, None], values.shape)
    return np.bincount(passed.ravel(), weight.ravel(), len(thresholds) + 1)[
        :-1
    ].cumsum()


def mean_sparsity(sparsity: np.ndarray) -> np.ndarray:
    """Mean of sparsity curves over log eps in `SPARSITY_RANGE`: (..., eps) -> (...)."""
    eps = SPARSITY_THRESHOLDS
    low, high = SPARSITY_RANGE
    inside = (eps > low * (1 - 1e-9)) & (eps < high * (1 + 1e-9))
    log_eps = np.log(eps[inside])
    integral = np.trapezoid(sparsity[..., inside], log_eps, axis=-1)
    return integral / (log_eps[-1] - log_eps[0])


# ------------------------------------------------------------------------- trajectories


def check_activations(
    trajectory: xr.Dataset, step: int | None = None
) -> tuple[ClusteringHead, int]:
    """The network of a trajectory of VC's system and the recorded step, the last one by
    default.

    Raises TrajectoryError for another system or a trajectory without weights,
    SettingsError for another step."""
    network = clustering_head_of(trajectory)
    for name in network.variables:
        check_variable_recorded(trajectory, name)
    recorded = trajectory["step"].values
    if step is None:
        return network, int(recorded[-1])
    if step not in recorded:
        neighbours = [*recorded[recorded < step][-1:], *recorded[recorded > step][:1]]
        nearest = " and ".join(str(neighbour) for neighbour in neighbours)
        verb = "are" if len(neighbours) > 1 else "is"
        raise SettingsError("step", step, f"a recorded step, nearest {verb} {nearest}")
    return network, step


def measure_sparsity(trajectory: xr.Dataset, step: int | None = None) -> xr.Dataset:
    """Sparsity of the hidden activations of each run at a recorded step.

    Parameters
    ----------
    trajectory : xr.Dataset
        Of VC's network, with its weights.
    step : int, optional
        Default: the last one.

    Returns
    -------
    xr.Dataset
        `sparsity` (split, run, eps) on the run's own training and test sequences, its
        mean over log eps `mean_sparsity` (split, run), `test_accuracy` (run) and
        `success` (run), 1 or 0. NaN for runs that have diverged by this step.

    Raises
    ------
    TrajectoryError, SettingsError
    """
    network, step = check_activations(trajectory, step)
    valid = not_diverged(trajectory, step)
    shape = (len(SPARSITY_SPLITS), len(valid), len(SPARSITY_THRESHOLDS))
    sparsity = np.full(shape, np.nan)
    all_weights = {
        name: weight.double() for name, weight in weights(trajectory, step=step).items()
    }
    for run in progress_bar(np.flatnonzero(valid), desc="activations", unit="run"):
        run_weights = {name: weight[run] for name, weight in all_weights.items()}
        for place, split in enumerate(SPARSITY_SPLITS):
            sparsity[place, run] = _run_sparsity(
                network, run_weights, int(trajectory["seed"][run]), split
            )
    test = trajectory["accuracy"].sel(step=step, split="test").values
    accuracy = np.where(valid, test.astype(np.float64), np.nan)
    success = np.where(valid, exceeds(accuracy, SUCCESSFUL_ACCURACY), np.nan)
    mean = mean_sparsity(sparsity)
    words = f"test accuracy above {SUCCESSFUL_ACCURACY:g}"
    dims = ("split", "run", "eps")
    return xr.Dataset(
        {
            **labelled(dims, sparsity=(sparsity, "fraction of activations below eps")),
            **labelled(dims[:2], mean_sparsity=(mean, "mean over log eps, 1e-3 to 10")),
            **labelled(
                "run",
                test_accuracy=(accuracy, "test accuracy"),
                success=(success, words),
            ),
        },
        {
            "split": list(SPARSITY_SPLITS),
            "eps": ("eps", SPARSITY_THRESHOLDS, dimensionless("threshold")),
            "run": np.arange(len(valid)),
            "seed": ("run", trajectory["seed"].values),
            "step": step,
        },
    )


@torch.no_grad()
def _run_sparsity(
    network: ClusteringHead, run_weights: Weights, seed: int, split: str
) -> np.ndarray:
    """The sparsity of one run on one split of its seed: (eps,)."""
    s = network.settings
    tokens, counts = distinct_sequences(s, seed, split)
    batch = max(1, _BATCH_BYTES // (8 * (3 * s.length * s.rows + 4 * s.hidden)))
    total = np.zeros(len(SPARSITY_THRESHOLDS))
    for start in range(0, len(tokens), batch):
        some = slice(start, start + batch)
        values = hidden_activations(
            network, run_weights, torch.from_numpy(tokens[some])
        )
        total += count_below_thresholds(values.numpy(), counts[some])
    return total / (s.data * s.hidden)


def compare_successes(result: xr.Dataset) -> xr.Dataset:
    """The result of `measure_sparsity` with a comparison of successful and failed runs
    at every threshold.

    Adds `effect` and `p_value` (split, eps): the rank-biserial correlation, negative
    where successful runs are less sparse, and its p-value for all thresholds at once,
    by permutations of the runs' success."""
    success = result["success"].values
    finite = np.isfinite(success)
    profiles = []
    for split in SPARSITY_SPLITS:
        sparsity = result["sparsity"].sel(split=split).values[finite]
        generator = random_stream(0, f"sparsity/{split}")
        profiles.append(
            rank_biserial_profile(sparsity, success[finite] == 1, generator)
        )
    effect, p_value = map(np.stack, zip(*profiles, strict=True))
    variables = labelled(
        ("split", "eps"),
        effect=(effect, "rank-biserial correlation of success"),
        p_value=(p_value, "p-value, all thresholds at once"),
    )
    return result.assign(variables)


# ---------------------------------------------------------------------------- the table


def sparsity_table(
    results: Sequence[xr.Dataset], labels: Sequence[str]
) -> pd.DataFrame:
    """A row for each result of `compare_successes` and split: successful runs against
    failed ones."""
    named = zip(results, labels, strict=True)
    return make_table(
        _split_row(result, label, split)
        for result, label in named
        for split in SPARSITY_SPLITS
    )


def _split_row(result: xr.Dataset, label: str, split: str) -> dict:
    """The row of a result and a split."""
    here = result.sel(split=split)
    values = here["mean_sparsity"].values
    success = here["success"].values
    successes = values[success == 1]
    failures = values[success == 0]
    row = {
        "run": label,
        "split": split,
        "successes": len(successes),
        "failures": len(failures),
    }
    for name, sample in (("median_success", successes), ("median_failure", failures)):
        row[name] = np.median(sample) if len(sample) else np.nan
    row |= interval_columns("effect", rank_biserial(successes, failures))
    row["p_value"] = mann_whitney_p_value(successes, failures)
    for name, sign in (("less", -1), ("more", 1)):
        low, high = differing_range(
            here["eps"].values, here["effect"].values, here["p_value"].values, sign
        )
        row[f"{name}_low"] = low
        row[f"{name}_high"] = high
    row["least_p_value"] = np.min(here["p_value"].values)
    finite = np.isfinite(success)
    accuracy = here["test_accuracy"].values
    correlation = rank_correlation(values[finite], accuracy[finite])
    return row | interval_columns("correlation", correlation)


def differing_range(
    eps: np.ndarray, effect: np.ndarray, p_value: np.ndarray, sign: int
) -> tuple[float, float]:
    """The lowest and highest threshold (eps,) with p < .05 and an effect of this sign;
    NaN if there is none."""
    differing = eps[(p_value < 0.05) & (sign * effect > 0)]  # false for NaN
    if not len(differing):
        return np.nan, np.nan
    return float(differing.min()), float(differing.max())


def _range_text(name: str) -> Callable[[dict], str]:
    return lambda row: (
        "-"
        if np.isnan(row[f"{name}_low"])
        else f"{row[f'{name}_low']:.2g} to {row[f'{name}_high']:.2g}"
    )


SPARSITY_COLUMNS = (
    *(Column(name, name) for name in ("run", "split", "successes", "failures")),
    Column("median sparsity", "median_success", digits=3),
    Column("of failures", "median_failure", digits=3),
    Column("effect", "effect", digits=2, interval="bounds"),
    Column("p", "p_value", text=format_p_value),
    Column("less sparse", text=_range_text("less")),
    Column("more sparse", text=_range_text("more")),
    Column("with accuracy", "correlation", digits=2, interval="bounds"),
)

SPARSITY_LEGEND = """sparsity: fraction of activations below eps, averaged over log eps from 1e-3 to 10
effect: rank-biserial correlation, -1 if every successful run is less sparse than every failed one; p: Mann-Whitney test
less sparse, more sparse: thresholds at which successful runs are less or more sparse than failed runs, with p < .05
jointly for all thresholds
with accuracy: Spearman's correlation of sparsity and test accuracy over runs; all intervals are 95%"""


def trajectory_labels(
    trajectories: Sequence[xr.Dataset], paths: Sequence[Path]
) -> list[str]:
    """A label for each trajectory: the settings in which they differ, or the name of
    its file if these are too many.

    Files with the same name are numbered.
    """
    settings = [
        dataclasses.asdict(read_settings(trajectory)) for trajectory in trajectories
    ]
    if len(settings) == 1:
        return [f"d = {settings[0]['dim']}"]
    names = [
        name
        for name, value in settings[0].items()
        if not name.startswith("start")  # contains the checksum of a file
        and any(setting[name] != value for setting in settings)
    ]
    labels = [
        ", ".join(f"{_SYMBOLS.get(name, name)} = {setting[name]}" for name in names)
        for setting in settings
    ]
    if len(set(labels)) == len(labels) and max(map(len, labels)) <= _MAX_LABEL:
        return labels
    stems = [path.stem for path in paths]
    numbers = {stem: itertools.count(1) for stem in stems}
    return [
        f"{stem} ({next(numbers[stem])})" if stems.count(stem) > 1 else stem
        for stem in stems
    ]
