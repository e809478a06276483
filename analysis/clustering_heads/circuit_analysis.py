"""Circuits that runs of VC's network have learned, and how they form (VC sections 3.1,
3.2 and 4.1).

For every run: the invariances of its sequence embeddings and the label that follows
from them; the sum that the embeddings encode; when clusters form and when the MLP
separates them; the correlation of attention at the start and at the end; and, with a
second ensemble of the same first weights, how far a change of settings moves the final
weights."""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np
import pandas as pd
import xarray as xr

from analysis.clustering_heads import init_dependence, invariances
from analysis.clustering_heads.encoded_sums import measure_encoded_sums
from analysis.clustering_heads.labels import (
    CIRCUIT_LABEL_MEANINGS,
    CIRCUIT_LABELS,
    circuit_labels,
    label_sensitivity,
)
from analysis.clustering_heads.learning_phases import measure_learning_phases
from analysis.output.tables import (
    Column,
    format_percent,
    format_plus_minus,
    format_table,
    interval_columns,
    make_table,
)
from analysis.statistics.intervals import (
    binomial_interval,
    drop_non_finite,
    mean_interval,
)
from dynamics.trajectory.selection import Selection, selected_frames
from dynamics.trajectory.success import successful_runs


def measure_circuits(
    trajectory: xr.Dataset,
    other: xr.Dataset | None = None,
    frames: int | Selection = 201,
) -> xr.Dataset:
    """The circuit of every run of VC's network at the last recorded step, and how it
    formed.

    Parameters
    ----------
    trajectory : xr.Dataset
        Of VC's network, with its weights.
    other : xr.Dataset, optional
        A trajectory of the same seeds and first weights with another setting.
    frames : int or Selection
        Largest number of recorded frames in which clusters are determined, or a
        selection of them.

    Returns
    -------
    xr.Dataset
        The variables of `measure_invariances`, `measure_encoded_sums`,
        `measure_learning_phases` and, with `other`, of `endpoint_similarity`;
        `inherited` (run, other_run), the correlation of attention at the start and the
        end; `label`, `reason` and `successful` (run); `sensitivity` (threshold, factor,
        kind).

    Raises
    ------
    TrajectoryError, SettingsError
    """
    selected_frames(trajectory, frames, least=2)  # checked before the work begins
    result = invariances.measure_invariances(trajectory)
    parts = [
        result,
        measure_encoded_sums(trajectory),
        measure_learning_phases(trajectory, frames),
        init_dependence.attention_start_end_correlation(trajectory)
        .rename("inherited")
        .to_dataset(),
    ]
    if other is not None:
        parts.append(init_dependence.endpoint_similarity(trajectory, other))
    whole = xr.merge(
        parts, compat="no_conflicts", join="outer", combine_attrs="drop_conflicts"
    )
    labels = circuit_labels(result)
    successful = successful_runs(trajectory)
    words = "whether the test accuracy at the end is above .98"
    for name, values, long_name in (
        ("label", [label.label for label in labels], "kind of circuit"),
        ("reason", [label.reason for label in labels], "why it is of that kind"),
        ("successful", successful, words),
    ):
        whole[name] = ("run", values, {"long_name": long_name})
    whole["sensitivity"] = label_sensitivity(result).rename(label="kind")
    return whole.assign_attrs(result.attrs)


# ------------------------------------------------------------------------------- tables


def circuit_table(result: xr.Dataset, ideal: int) -> pd.DataFrame:
    """A row for each label: number of runs, exact 95% interval of their fraction, t
    intervals of means over runs.

    result: that of `measure_circuits`; ideal: the number of clusters of an ideal
    circuit."""
    positions = ("counting", "other_counting")
    measures = {
        "accuracy": result["accuracy"].values,
        "mass": invariances.counting_attention(result),
        "leak": invariances.largest_leak(result),
        "unswapped": result["order_share"].max(positions, skipna=False).values,
    }
    conditions = {
        "successful": result["successful"].values,
        "ideal_clusters": result["clusters"].values == ideal,
        "congruent": result["sum_congruent"].values,
    }
    rows = []
    for label in CIRCUIT_LABELS:
        members = result["label"].values == label
        count = int(members.sum())
        row = {"label": label, "runs": count}
        row |= interval_columns("share", binomial_interval(count, result.sizes["run"]))
        row |= {
            name: int((members & condition.astype(bool)).sum())
            for name, condition in conditions.items()
        }
        for name, values in measures.items():
            mean = mean_interval(drop_non_finite(values[members]), limits=(0, 1))
            row |= interval_columns(name, mean)
        rows.append(row)
    return make_table(rows)


def circuit_columns(ideal: int) -> list[Column]:
    """The printed columns of `circuit_table`."""
    return [
        Column("label", "label"),
        Column("runs", "runs"),
        Column("% of runs", "share", digits=1, interval="bounds", scale=100),
        Column("above .98", "successful"),
        Column(f"{ideal} clusters", "ideal_clusters"),
        Column("congruent sum", "congruent"),
        Column("accuracy %", "accuracy", digits=1, interval="half-width", scale=100),
        Column("attention", "mass", digits=2, interval="half-width"),
        Column("leak", "leak", digits=3, interval="half-width"),
        Column("order", "unswapped", digits=3, interval="half-width"),
    ]


def format_missing_invariances(result: xr.Dataset) -> str:
    """A text table of the missing invariances of successful runs; empty if none are
    missing."""
    lacking = result["label"].isin(["partial", "fuzzy"]).values
    rows = []
    for run in np.flatnonzero(result["successful"].values & lacking):
        one = result.isel(run=run)
        rows.append(
            {
                "seed": int(one["seed"]),
                "label": str(one["label"].values),
                "clusters": int(one["clusters"]),
                "sums": int(one["sum_levels"]) or None,
                "steps": _describe_steps(one),
                "what is missing": str(one["reason"].values),
            }
        )
    return format_table(make_table(rows)) if rows else ""


def _describe_steps(one: xr.Dataset) -> str:
    """Positions whose steps in the encoded sum are not those of the task; a dash if no
    whole steps are encoded."""
    if not bool(one["sum_whole"]):
        return "-"
    steps = one["sum_steps"].values.round().astype(int)
    parts = []
    for position, step in enumerate(steps):
        expected = np.arange(len(step)) * int(position in one["counting"].values)
        if (step != expected).any():
            parts.append(f"x{position}: {', '.join(map(str, step[1:]))}")
    return "; ".join(parts) or "as in the task"


# ---------------------------------------------------------------------------- sentences


def describe_circuits(result: xr.Dataset, ideal: int) -> list[str]:
    """Sentences on clusters, sums, phases, start and end, another setting, and the
    thresholds of the labels."""
    lines = [
        *_describe_clusters(result, ideal),
        *_describe_phases(result),
        *_describe_inheritance(result),
    ]
    if "weight_distance" in result:
        lines += _describe_other_setting(result)
    return [*lines, _describe_thresholds(result)]


def _describe_clusters(result: xr.Dataset, ideal: int) -> list[str]:
    success = result["successful"].values.astype(bool)
    as_ideal = success & (result["clusters"].values == ideal)
    whole = result["label"].isin(["ideal", "corrected", "part of the values"]).values
    congruent = result["sum_congruent"].values.astype(bool)
    fraction = result["sum_share"].values[congruent]
    least = (
        f" (it explains at least {100 * fraction.min():.1f}% of the variance of xi)"
        if fraction.size
        else ""
    )
    return [
        (
            f"{success.sum()} runs are successful; {as_ideal.sum()} of them have the"
            f" {ideal} clusters of an ideal circuit, {(as_ideal & whole).sum()} of"
            f" these all invariances; {(success & whole).sum()} successful runs have"
            " all invariances"
        ),
        (
            f"{(success & congruent).sum()} of {success.sum()} successful and"
            f" {(~success & congruent).sum()} of {(~success).sum()} other runs encode a"
            f" sum of whole steps that is congruent to the target{least}"
        ),
    ]


def _describe_phases(result: xr.Dataset) -> list[str]:
    learned = result["successful"].values.astype(bool) & np.isfinite(
        result["formed"].values + result["separated"].values
    )
    if not learned.any():
        return ["no successful run shows when its clusters formed"]
    formed = result["formed"].values[learned]
    delay = result["separated"].values[learned] - formed
    later = int((delay > 0).sum())
    earlier = int((delay < 0).sum())
    total = len(delay)
    return [
        (
            f"clusters form at epoch {format_plus_minus(mean_interval(formed))}; the"
            f" MLP separates them {format_plus_minus(mean_interval(delay))} epochs"
            f" later (median {np.median(delay):g}; {total} runs)"
        ),
        (
            "separated after they formed:"
            f" {format_percent(binomial_interval(later, total))}% of runs; before:"
            f" {earlier}; in the same frame: {total - later - earlier}"
        ),
    ]


def _describe_inheritance(result: xr.Dataset) -> Iterator[str]:
    values = result["inherited"].values
    success = result["successful"].values.astype(bool)
    yield (
        "correlation of attention at the start and the end:"
        f" {_describe(values, 'greater')}"
    )
    if success.sum() > 1:
        yield (
            "the same for successful runs:"
            f" {_describe(values[np.ix_(success, success)], 'greater')}"
        )


def _describe_other_setting(result: xr.Dataset) -> Iterator[str]:
    for name, (meaning, alternative) in init_dependence.ENDPOINT_MEASURES.items():
        yield (
            f"{meaning}, with the other setting:"
            f" {_describe(result[name].values, alternative)}"
        )


def _describe(measure: np.ndarray, alternative: init_dependence.Alternative) -> str:
    """Means of a measure (run, other_run) over same-seed and other pairs, in words."""
    comparison = init_dependence.compare_same_seed(measure, alternative)
    p = f", p = {comparison.p:.2g}" if comparison.p == comparison.p else ""
    own = format_plus_minus(comparison.own, 2)
    others = format_plus_minus(comparison.others, 2)
    return f"same seed {own}, different seeds {others}{p} ({comparison.runs} runs)"


def _describe_thresholds(result: xr.Dataset) -> str:
    """How many labels change with each threshold."""
    changes = []
    for name in result["threshold"].values:
        counts = result["sensitivity"].sel(threshold=name)
        differences = abs(counts - counts.sel(factor=1.0)).sum("kind")
        halved = int(differences.sel(factor=0.5)) // 2
        doubled = int(differences.sel(factor=2.0)) // 2
        changes.append(f"{name} {halved}, {doubled}")
    return (
        "net number of runs whose label changes if a threshold is halved or doubled: "
        + "; ".join(changes)
    )


def circuit_legend(ideal: int, lacking: bool) -> list[str]:
    """Explanation of the columns; with `lacking` also of the table of missing
    invariances."""
    meanings = [
        f"{label}: {meaning}" for label, meaning in CIRCUIT_LABEL_MEANINGS.items()
    ]
    lines = [
        *(
            "; ".join(meanings[place : place + 2])
            for place in range(0, len(meanings), 2)
        ),
        (
            f"above .98: runs with a test accuracy above .98; {ideal} clusters: runs"
            " with as many clusters of sequence"
        ),
        (
            "embeddings xi as an ideal circuit; congruent sum: xi encodes a sum of"
            " tokens that is congruent to the target"
        ),
        (
            "attention: fraction on non-spurious positions; leak: largest fraction of"
            " the variance of xi due to the token"
        ),
        (
            "at a spurious position; order: that due to the order of two non-spurious"
            " ones (means ± half a 95% interval)"
        ),
    ]
    if lacking:
        lines += [
            (
                "sums: number of values of the sum that xi encodes; steps: what tokens"
                " 1, 2, ... at a position add to it"
            ),
            (
                "where this differs from the task: x8: 2 means that token 1 at position"
                " 8 adds 2, which is 0 modulo 2"
            ),
        ]
    return lines
