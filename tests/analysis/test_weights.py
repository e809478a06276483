"""The command of CA figure 6: what is measured, over which runs, and what is printed,
written and drawn."""

import csv
from pathlib import Path

import numpy as np
import pytest
from matplotlib.image import imread

from analysis import weights
from analysis.forces import (
    WEIGHT_COLUMNS,
    groups_by_structure,
    mean_weight_measures,
    measure_weights,
    weight_rows,
)
from analysis.forces.alignment import (
    boundary_alignment,
    embedding_pair_sums,
    pair_sum_collinearity,
    weight_alignment,
)
from analysis.forces.hidden_weights import ALIGNMENT_MEASURES, WEIGHT_SIZES
from analysis.output.tables import format_table, make_table
from analysis.plots.weights_figure import plot_weights
from analysis.structures.circles_and_grids import is_circle
from analysis.weights import Options
from dynamics import ModularSettings, all_pairs, simulate, training_pairs

SMALL = ModularSettings(n=5, hidden=6)


@pytest.fixture(scope="module")
def trajectory():
    return simulate(SMALL, runs=3, seed=7, steps=40, every=40, progress=False)


def some_runs(seeds, circle, **values):
    """Runs whose measures are all the same number, with exceptions by name."""
    names = (
        *WEIGHT_SIZES,
        *ALIGNMENT_MEASURES,
        *(f"{alignment_measure}_chance" for alignment_measure in ALIGNMENT_MEASURES),
    )
    result = {
        name: np.asarray(values.get(name, np.full(len(seeds), 0.5)), dtype=float)
        for name in names
    }
    return {**result, "seed": np.asarray(seeds), "circle": np.asarray(circle)}


def tiny(**changes):
    return Options(
        **{
            "weight_decays": (1.0, 0.0),
            "runs": 2,
            "epochs": 30,
            "settings": SMALL,
            **changes,
        }
    )


# ----------------------------------------------------------------------------- measured


def test_measures_of_each_run_are_those_of_its_last_frame(trajectory):
    result = measure_weights(trajectory)
    np.testing.assert_array_equal(result["seed"], [7, 8, 9])
    last = trajectory.isel(step=-1)
    for r, seed in enumerate(result["seed"]):
        w, b, x = (
            last[name].values[r].astype(float)
            for name in ("hidden_weight", "hidden_bias", "embedding")
        )
        assert result["weight"][r] == pytest.approx(np.abs(w).mean())
        assert result["bias"][r] == pytest.approx(np.abs(b).mean())
        assert result["circle"][r] == is_circle(x)
        pairs = all_pairs(5)[training_pairs(5, 12, [seed])[0]]  # 80% of 15
        sums = embedding_pair_sums(x, pairs)
        for name, known in (
            ("alignment", weight_alignment(sums, w, b)),
            ("boundaries", boundary_alignment(sums, w, b)),
            ("rays", pair_sum_collinearity(x, pairs)),
        ):
            np.testing.assert_allclose(
                [result[name][r], result[f"{name}_chance"][r]], known, rtol=1e-6
            )
    assert len(set(result["weight"])) == 3


def test_runs_that_diverged_are_left_out(trajectory):
    one = trajectory.copy()
    one["last_step"] = ("run", [40, 12, 40])
    whole, result = measure_weights(trajectory), measure_weights(one)
    for name, values in result.items():
        np.testing.assert_array_equal(values, whole[name][[0, 2]])
    one["last_step"] = ("run", [1, 12, 39])
    none = measure_weights(one)
    assert all(len(values) == 0 for values in none.values())
    assert mean_weight_measures(none).runs == 0
    assert groups_by_structure([none]) == {}
    empty = {0.5: mean_weight_measures(none)}
    row = format_table(make_table(weight_rows(empty, {})), WEIGHT_COLUMNS).splitlines()[
        -1
    ]
    assert row.split() == ["0.5", "0", *"--------", "0"]
    plot_weights(empty, {}, "nothing")


@pytest.mark.parametrize("dim", [1, 2, 3, 4])
@pytest.mark.parametrize("n", [1, 2])
def test_measures_of_the_smallest_networks(n, dim):
    settings = ModularSettings(n=n, dim=dim, hidden=3, train_share=1.0)
    result = mean_weight_measures(
        measure_weights(simulate(settings, runs=2, steps=3, every=3, progress=False))
    )
    assert result.runs == 2
    assert (
        result.mean["rays"].value == pytest.approx(1)
        if n == 1
        else result.mean["rays"].value > 1 / dim - 1e-9
    )


# ------------------------------------------------------------------------------- groups


def test_runs_of_one_seed_count_as_one():
    runs = some_runs(
        [0, 0, 0, 1],
        [True] * 4,
        alignment=[0.4, 0.5, 0.6, 0.52],
        alignment_chance=[0.4, 0.4, 0.4, 0.6],
    )
    result = mean_weight_measures(runs)
    assert result.mean["alignment"].value == pytest.approx(0.51)
    assert result.mean["alignment"].half == pytest.approx(
        12.706 * 0.01, rel=1e-3
    )  # t of one degree of freedom
    assert result.chance["alignment"] == pytest.approx(0.5)
    assert (result.runs, result.circles) == (4, 4)


def test_runs_without_living_units_have_sizes_only():
    runs = some_runs(
        [0, 1, 2], [False] * 3, alignment=[0.2, np.nan, 0.4], weight=[0.0, 3.0, 3.0]
    )
    result = mean_weight_measures(runs)
    assert result.mean["alignment"].value == pytest.approx(0.3)
    assert result.mean["weight"].value == pytest.approx(2)
    assert result.runs == 3


def test_circles_and_others_are_grouped():
    first = some_runs([0, 1], [True, False], rays=[1.0, 0.6])
    kinds = groups_by_structure(
        [first, some_runs([0, 1], [True, True], rays=[0.9, 0.8])]
    )
    assert {kind: item.runs for kind, item in kinds.items()} == {
        "circles": 3,
        "others": 1,
    }
    assert kinds["circles"].mean["rays"].value == pytest.approx((0.95 + 0.8) / 2)
    assert kinds["others"].mean["rays"].value == pytest.approx(0.6)
    assert list(groups_by_structure([some_runs([3], [False])])) == ["others"]


# ---------------------------------------------------------------------------- the table


def test_rows_of_weight_decays_and_of_structures():
    group = mean_weight_measures(
        some_runs([0, 1], [True, False], weight=[1.0, 3.0], rays_chance=[0.25, 0.25])
    )
    table = make_table(weight_rows({0.3: group}, {"circles": group}))
    lines = format_table(table, WEIGHT_COLUMNS).splitlines()
    assert lines[2].split()[:5] == [
        "0.3",
        "2",
        "2.000",
        "[0.000,",
        "14.706]",
    ]  # a size is not negative
    assert lines[3].split()[:4] == ["circles", "2", "-", "-"]
    first, pooled = table.iloc[0], table.iloc[1]
    assert (first["weight_decay"], first["structure"], first["weight"]) == (
        0.3,
        "all",
        2.0,
    )
    assert (first["rays"], first["rays_chance"], first["circles"]) == (0.5, 0.25, 1)
    assert pooled["structure"] == "circles"
    assert pooled[["weight_decay", "weight_high"]].isna().all()


# -------------------------------------------------------------------------- the command


def test_the_command(capsys):
    weights.main(tiny(csv=Path("out/figure6.csv")))
    said = capsys.readouterr().out
    files = sorted(Path("runs").glob("*.nc"))
    (picture,) = Path("runs").glob("*.png")
    assert len(files) == 2
    assert all(str(path) in said for path in (*files, picture))
    assert imread(picture).shape[0] > 300
    rows = list(csv.DictReader(Path("out/figure6.csv").read_text().splitlines()))
    assert [(row["weight_decay"], row["structure"]) for row in rows[:2]] == [
        ("0.0", "all"),
        ("1.0", "all"),
    ]
    assert sum(int(row["runs"]) for row in rows[2:]) == 4
    for row in rows[:2]:
        settings = ModularSettings(
            n=5, hidden=6, weight_decay=float(row["weight_decay"])
        )
        last = simulate(settings, runs=2, steps=30, every=30, progress=False).isel(
            step=-1
        )
        assert float(row["weight"]) == pytest.approx(
            np.abs(last["hidden_weight"].values).mean()
        )
        assert float(row["bias"]) == pytest.approx(
            np.abs(last["hidden_bias"].values).mean()
        )
    before = [path.stat().st_mtime_ns for path in files]
    weights.main(tiny(weight_decays=(0.0, 1.0, 1.0)))  # the same grid
    assert capsys.readouterr().out == said
    assert [path.stat().st_mtime_ns for path in files] == before
    assert [*Path("runs").glob("*.png")] == [picture]


def test_nothing_but_the_csv_is_printed_to_the_terminal(capsys):
    weights.main(tiny(weight_decays=(0.5,), csv=Path("-")))
    said = capsys.readouterr()
    assert next(csv.DictReader(said.out.splitlines()))["weight_decay"] == "0.5"
    assert "weights-" not in said.out
    assert "weights-" in said.err


def test_the_figure_shows_the_table():
    groups = {
        0.0: mean_weight_measures(
            some_runs([0, 1], [False] * 2, weight=[1.0, 2.0], rays_chance=[0.7, 0.7])
        ),
        0.5: mean_weight_measures(
            some_runs([0, 1], [True, False], weight=[0.5, 0.5], rays_chance=[0.6, 0.6])
        ),
    }
    left, middle, right = plot_weights(groups, {"circles": groups[0.5]}, "title").axes
    line, _, (bars,) = left.containers[0]
    np.testing.assert_allclose(np.array(line.get_ydata(), dtype=float), [1.5, 0.5])
    assert np.ptp(bars.get_segments()[0][:, 1]) == pytest.approx(
        2 * groups[0.0].mean["weight"].half
    )
    assert any(list(line.get_ydata()) == [0.7, 0.6] for line in middle.lines)
    assert [xticklabel.get_text() for xticklabel in right.get_xticklabels()] == [
        "circles (2)"
    ]
