"""docs/analyses/table1.md, table2.md, transfer.md, ablation.md, remedies.md and
learning.md: from runs to rows, and from rows to what is printed."""

import csv
import functools
import io
import math
import re
from contextlib import redirect_stdout

import numpy as np
import pandas as pd
import xarray as xr
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy import stats

from analysis import (
    clustering_heads,
    forces,
    linearization,
    loss_geometry,
    output,
    structures,
    transitions,
)
from dynamics import SparseSettings, simulate
from tests import naive
from tests.twins import intervals
from tests.twins.correlations import pearson
from tests.twins.differences import examples, row_has, same
from tests.twins.trajectories import modular, particles

VALUES = st.sampled_from([0.0, 0.5, 0.75, 0.98, 0.9801, 1.0])

# ------------------------------------------------------------------------------- twins


def difference_between(first, second):
    """Of two means between 0 and 1, from both intervals (Zou and Donner)."""
    m, low, high = intervals.mean_between(first)
    o, other_low, other_high = intervals.mean_between(second)
    return (
        m - o,
        m - o - math.hypot(m - low, other_high - o),
        m - o + math.hypot(high - m, o - other_low),
    )


def jackknife(statistic, runs, least=3):
    """Of a statistic of a list of runs."""
    value, n = statistic(runs), len(runs)
    if n < least:
        return value, math.nan, math.nan
    without = [statistic(runs[:k] + runs[k + 1 :]) for k in range(n)]
    mean = sum(without) / n
    error = math.sqrt((n - 1) / n * sum((w - mean) ** 2 for w in without))
    if error == 0 or math.isnan(error):
        return value, math.nan, math.nan
    half = stats.t.ppf(0.975, n - 1) * error
    return value, value - half, value + half


# ----------------------------------------------------------------------- tables 1 and 2


@st.composite
def embeddings(draw):
    """(run, frame, token, axis) of circles, grids, points and others."""
    tokens, seed = draw(st.integers(2, 6)), draw(st.integers(0, 99))
    kinds = draw(
        st.lists(
            st.sampled_from(["circle", "ties", "others", "point"]),
            min_size=1,
            max_size=7,
        )
    )
    generator = np.random.default_rng(seed)
    angles = 2 * np.pi * np.arange(tokens) / tokens
    x = generator.standard_normal((len(kinds), 2, tokens, 2))
    for run, kind in enumerate(kinds):
        if kind == "circle":
            x[run, -1] = np.stack([np.cos(angles), np.sin(angles)], axis=1)
        elif kind == "ties":
            x[run, -1] = generator.integers(-1, 2, (tokens, 2))
        elif kind == "point":
            x[run, -1] = 1.0
    return x


@settings(max_examples=examples(10))
@given(embeddings(), st.booleans(), st.data())
def test_tables_1_and_2(x, trained, data):
    runs, _, tokens, _ = x.shape
    diverged = data.draw(st.sets(st.integers(0, runs - 1), max_size=2))
    last = dict.fromkeys(diverged, 0)
    if trained:
        trajectory = modular(tokens, runs, 2, last=last)
        trajectory["embedding"][:] = x
        x = trajectory["embedding"].values.astype(float)
        accuracy = [data.draw(VALUES) for _ in range(runs)]
        trajectory["accuracy"].loc[{"split": "validation"}] = np.array(accuracy)[
            :, None
        ]
    else:
        trajectory = particles(x, last=last)
    row = structures.ca_table_row(trajectory)
    valid = [run for run in range(runs) if run not in diverged]
    circles = [run for run in valid if naive.is_circle(x[run, -1])]
    others = [run for run in valid if run not in circles]
    assert (row["runs"], row["circles"], row["others"]) == (
        len(valid),
        len(circles),
        len(others),
    )
    name = "tables 1 and 2"
    percent = 100 * np.array(intervals.fraction(len(circles), len(valid)))
    row_has(name, row, "circles_percent", percent)
    counts = [naive.imperfections(x[run, -1], tokens) for run in others]
    row_has(name, row, "imperfections", intervals.mean_of_counts(counts))
    if trained:
        accuracy = [float(np.float32(a)) for a in accuracy]
        for column, group in (("circle_accuracy", circles), ("other_accuracy", others)):
            mean = intervals.mean_between([accuracy[run] for run in group])
            row_has(name, row, f"{column}_percent", 100 * np.array(mean), 1e-7)
        expected = (math.nan,) * 3
        if len(others) > 1:
            r = pearson(counts, [accuracy[run] for run in others])
            expected = intervals.correlation(r, len(others))
        row_has(name, row, "correlation", expected, 1e-7)
    check_print(row, trained)


def check_print(row, trained):
    """The printed row has the numbers of the CSV, rounded."""
    text = io.StringIO()
    with redirect_stdout(text):
        structures.print_ca_table([row], None)
    lines = text.getvalue().splitlines()
    rule = next(k for k, line in enumerate(lines) if line.startswith("---"))
    edges = [m.span() for m in re.finditer("-+", lines[rule])]
    headings = [lines[rule - 1][a:b].strip() for a, b in edges]
    cells = dict(
        zip(headings, (lines[rule + 1][a:b].strip() for a, b in edges), strict=True)
    )
    assert int(cells["runs"]) == row["runs"]
    assert int(cells["others"]) == row["others"]
    check_bounds(cells["circles % [95%]"], row, "circles_percent", 1)
    check_half_width(cells["imperfections"], row, "imperfections", 1)
    if trained:
        check_bounds(cells["correlation [95%]"], row, "correlation", 2)
        for heading, name in (
            ("their accuracy %", "circle_accuracy_percent"),
            ("others' accuracy %", "other_accuracy_percent"),
        ):
            check_half_width(cells[heading], row, name, 1)


def numbers(cell):
    return [float(v) for v in re.findall(r"-?\d+\.?\d*", cell)]


def check_bounds(cell, row, name, digits):
    value, low, high = (row[name + end] for end in ("", "_low", "_high"))
    if math.isnan(value):
        assert cell == "-"
        return
    shown = numbers(cell)
    expected = [value] if math.isnan(low) else [value, low, high]
    same("printed tables", shown, expected, 0.5 * 10**-digits + 1e-9)


def check_half_width(cell, row, name, digits):
    value, low, high = (row[name + end] for end in ("", "_low", "_high"))
    if math.isnan(value):
        assert cell == "-"
        return
    shown = numbers(cell)
    rounding = 0.5 * 10**-digits + 1e-9
    if math.isnan(low):
        expected = [value]
    elif "±" in cell:
        expected = [value, (high - low) / 2]
        assert abs((high - value) - (value - low)) < 2 * rounding
    else:
        expected = [value, low, high]
    same("printed tables", shown, expected, rounding)


# ---------------------------------------------------------------------------- ablation


@settings(max_examples=examples(10))
@given(st.integers(1, 6), st.data())
def test_ablation(runs, data):
    accuracy = np.array(
        [
            [[data.draw(VALUES) for _ in range(3)] for _ in range(runs)]
            for _ in range(2)
        ],
        np.float32,
    )
    status = np.array(
        [
            [data.draw(st.sampled_from([1, 1, 2])) for _ in range(runs)]
            for _ in range(2)
        ],
        np.int8,
    )
    result = xr.Dataset(
        {
            "accuracy_lr": (("lr", "run", "split"), accuracy),
            "status_lr": (("lr", "run"), status),
            "file_lr": ("lr", ["a.nc", "b.nc"]),
        },
        {
            "lr": [0.1, 1.0],
            "split": ["train", "test", "unseen"],
            "seed": ("run", range(runs)),
        },
        {"swept": '["lr"]', "system": "sparse"},
    )
    result["accuracy_lr"] = result["accuracy_lr"].where(result["status_lr"] != 2)
    table = transitions.ablation_table(result).to_dict("records")
    for k, row in enumerate(table):
        valid = status[k] == 1
        test, unseen = (accuracy[k, valid, s].astype(float) for s in (1, 2))
        assert (row["runs"], row["diverged"]) == (runs, runs - valid.sum())
        first = accuracy[k, 0, 1] if valid[0] else math.nan
        same("ablation", row["first"], first)
        row_has("ablation", row, "test", intervals.mean_between(test), 1e-7)
        row_has("ablation", row, "unseen", intervals.mean_between(unseen), 1e-7)
        deviation = math.nan
        if len(test) > 1:
            deviation = math.sqrt(sum((test - test.mean()) ** 2) / (len(test) - 1))
        same("ablation", row["test_deviation"], deviation, 1e-6)
        above = sum(1 for v in accuracy[k, valid, 1] if v > np.float32(0.98))
        assert row["count_above_0.98"] == above
        row_has("ablation", row, "above_0.98", intervals.fraction(above, runs))


# ---------------------------------------------------------------------------- transfer


@settings(max_examples=examples(10))
@given(st.integers(1, 6), st.data())
def test_transfer(runs, data):
    kinds = [
        "scratch",
        "scratch, twice as long",
        "finetuned",
        "finetuned from successful",
    ]
    accuracy = np.array(
        [
            [
                [
                    data.draw(st.sampled_from([0.2, 0.5, 1.0, math.nan]))
                    for _ in range(runs)
                ]
            ]
            for _ in kinds[:3]
        ]
    )
    successful = np.array([data.draw(st.booleans()) for _ in range(runs)])
    accuracy = np.concatenate([accuracy, np.where(successful, accuracy[2:], math.nan)])
    result = xr.Dataset(
        {
            "accuracy": (("kind", "vocab", "run"), accuracy),
            "successful": ("run", successful),
            "clusters": ("run", np.arange(runs)),
        },
        {"kind": kinds, "vocab": [3], "seed": ("run", range(runs))},
    )
    row = clustering_heads.transfer_table(result).astype(float).to_dict("records")[0]
    groups = {}
    for kind, values in zip(kinds, accuracy[:, 0], strict=True):
        name = kind.replace(", ", " ").replace(" ", "_")
        groups[name] = [v for v in values if not math.isnan(v)]
        assert row[f"{name}_runs"] == len(groups[name])
        row_has("transfer", row, name, intervals.mean_between(groups[name]))
        same("transfer", row[f"{name}_max"], max(groups[name], default=math.nan))
    pair = groups["finetuned_from_successful"], groups["scratch_twice_as_long"]
    expected = (math.nan,) * 3
    if all(pair):
        expected = difference_between(*pair)
    row_has("transfer", row, "gain", expected)


# ---------------------------------------------------------------------------- remedies


@settings(max_examples=examples(10))
@given(st.integers(1, 7), st.data())
def test_remedies(runs, data):
    def draw(values):
        return np.array(
            [[data.draw(values) for _ in range(runs)] for _ in range(2)], float
        )

    late = draw(st.integers(0, 3))
    since = draw(st.sampled_from([0.0, 100.0, 950.0]))
    late[since == 0] = 0
    spikes, test = late + draw(st.integers(0, 1)), draw(VALUES).astype(np.float32)
    lost = draw(st.sampled_from([False, False, False, True])) == 1
    test, spikes, late, since = (
        np.where(lost, np.nan, v) for v in (test, spikes, late, since)
    )
    result = xr.Dataset(
        {
            name: (("remedy", "run"), values)
            for name, values in (
                ("spikes", spikes),
                ("late", late),
                ("since", since),
                ("test", test),
            )
        },
        {"remedy": [transitions.UNCHANGED, "x"], "seed": ("run", range(runs))},
    )
    rows = (
        transitions.intervention_table(result).astype({"runs": int}).to_dict("records")
    )
    both = ~lost[0] & ~lost[1]
    for k, row in enumerate(rows):
        here = ~lost[k]
        assert row["runs"] == here.sum()
        assert row["escaped"] == (since[k, here] > 0).sum()
        row_has("remedies", row, "spikes", intervals.mean_of_counts(spikes[k, here]))
        row_has("remedies", row, "test", intervals.mean_between(test[k, here]), 1e-7)
        own = [(late[k, r], since[k, r]) for r in range(runs) if here[r]]
        value, low, high = jackknife(rate, own) if own else (math.nan,) * 3
        row_has("remedies", row, "rate", (value, np.maximum(low, 0), high), 1e-7)
        above = [v > np.float32(0.98) for v in test[k].astype(np.float32)]
        assert row["successes"] == sum(above)
        if k == 0:
            continue
        change = spikes[1, both] - spikes[0, both]
        row_has(
            "remedies", row, "spikes_gain", intervals.mean_of_counts(change, -math.inf)
        )
        change = test[1, both] - test[0, both]
        row_has(
            "remedies", row, "test_gain", intervals.mean_between(change, -1, 1), 1e-7
        )
        was = [v > np.float32(0.98) for v in test[0].astype(np.float32)]
        gained = sum(a and not b for a, b in zip(above, was, strict=True))
        gone = sum(b and not a for a, b in zip(above, was, strict=True))
        same("remedies", row["p_value"], mcnemar(gained, gone))
        own = [(late[:, r], since[:, r]) for r in range(runs) if both[r]]
        expected = jackknife(change_of_rate, own) if own else (math.nan,) * 3
        row_has("remedies", row, "rate_gain", expected, 1e-7)


def change_of_rate(pairs):
    after, before = (rate([(c[k], e[k]) for c, e in pairs]) for k in (1, 0))
    return after - before


def rate(pairs):
    """Spikes per 1000 epochs after the escape, for all runs together."""
    epochs = sum(since for _, since in pairs)
    return 1000 * sum(late for late, _ in pairs) / epochs if epochs else math.nan


def mcnemar(gained, lost):
    n = gained + lost
    if n == 0:
        return math.nan
    few = min(gained, lost)
    return min(1.0, 2 * sum(math.comb(n, k) for k in range(few + 1)) / 2**n)


# ---------------------------------------------------------------------------- learning


@settings(max_examples=examples(10))
@given(st.integers(1, 6), st.booleans(), st.data())
def test_learning(runs, same_sequences, data):
    s = SparseSettings(length=5, sparsity=2, data=4, batch=4, hidden=2)
    trajectory = _sparse(s, runs).copy(deep=True)
    splits = trajectory["split"].values.tolist()
    draw = st.sampled_from([0.0, 0.5, 0.9, 0.98, 0.99, 1.0])
    accuracy = np.array([[data.draw(draw) for _ in splits] for _ in range(runs)])
    accuracy = accuracy.astype(np.float32)
    trajectory["accuracy"][:, -1] = accuracy
    lost = np.array(
        [data.draw(st.sampled_from([False, False, True])) for _ in range(runs)]
    )
    trajectory["status"][lost], trajectory["last_step"][lost] = 2, 0
    row = clustering_heads.learning_table(trajectory).to_dict("records")[0]
    assert (row["runs"], row["diverged"]) == (runs, lost.sum())
    test = accuracy[~lost, splits.index("test")]
    for level, count in (
        ("0.9", (test > np.float32(0.9)).sum()),
        ("0.98", (test > np.float32(0.98)).sum()),
        ("1", (test == 1).sum()),
    ):
        row_has("learning", row, f"above_{level}", intervals.fraction(count, runs))
    for k, split in enumerate(splits):
        expected = intervals.mean_between(accuracy[~lost, k].astype(float))
        row_has("learning", row, split, expected, 1e-7)


@functools.cache
def _sparse(settings, runs):
    return simulate(settings, runs=runs, steps=2, progress=False)


# ----------------------------------------------------------------------------- the CSV


def test_a_csv_has_the_numbers_of_the_rows(tmp_path):
    trajectory = modular(5, 3, 6)
    audit = forces.audit_forces(trajectory, frames=np.arange(5))
    law = forces.fit_pair_law(trajectory, frames=np.arange(5))
    curvature = linearization.linearize_trajectory(trajectory, [0, 3], quiet=True)
    edge = loss_geometry.edge_of_stability(trajectory, [0, 3])
    medians = {"sharpness": "sharpness", "relative_preconditioned": "limit"}
    for name, table, columns in (
        (
            "audit",
            output.make_table(forces.audit_rows(audit)),
            forces.audit_columns(audit),
        ),
        (
            "pair_law",
            output.make_table(forces.pair_law_rows(law)),
            forces.pair_law_columns(law),
        ),
        (
            "curvature",
            linearization.tabulate_curvature(curvature),
            linearization.curvature_columns(curvature),
        ),
        (
            "edge",
            linearization.median_table(edge, medians),
            linearization.median_columns(medians),
        ),
    ):
        path = tmp_path / f"{name}.csv"
        output.output_table(table, columns, path)
        with path.open() as file:
            rows = list(csv.DictReader(file))
        assert len(rows) == len(table)
        for row, expected in zip(rows, table.to_dict("records"), strict=True):
            assert list(row) == list(expected)
            for key, value in expected.items():
                if isinstance(value, str):
                    assert row[key] == value
                elif row[key] == "":
                    assert not np.isfinite(
                        np.float64(math.nan if value is pd.NA else value)
                    )
                else:
                    same(name, float(row[key]), value, 1e-12)
    for k, row in enumerate(
        linearization.median_table(edge, medians).to_dict("records")
    ):
        for variable in medians:
            values = edge[variable].values[:, k]
            expected = intervals.median(values)
            value = row[variable]
            same("edge", math.nan if value is pd.NA else value, expected[0])
