"""The command of CA figure 6: what is measured, over which runs, and what is printed,
written and drawn."""

from pathlib import Path

import numpy as np
import pandas as pd
import pytest
from matplotlib.image import imread
from numpy.testing import assert_allclose, assert_array_equal

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
from analysis.statistics.intervals import mean_interval
from analysis.structures.circles_and_grids import is_circle
from dynamics import ModularSettings, all_pairs, simulate, training_pairs

SMALL = ModularSettings(n=5, hidden=6)


@pytest.fixture(scope="module")
def trajectory():
    return simulate(SMALL, runs=3, seed=7, steps=40, every=40)


def some_runs(seeds, circle, **values):
    """Runs whose measures are all the same number, with exceptions by name."""
    chances = (f"{name}_chance" for name in ALIGNMENT_MEASURES)
    names = (*WEIGHT_SIZES, *ALIGNMENT_MEASURES, *chances)
    values = dict.fromkeys(names, [0.5] * len(seeds)) | values
    result = {name: np.array(numbers, float) for name, numbers in values.items()}
    return {**result, "seed": np.asarray(seeds), "circle": np.asarray(circle)}


def mean_of_runs(*arguments, **values):
    return mean_weight_measures(some_runs(*arguments, **values))


def table_lines(rows):
    return format_table(make_table(rows), WEIGHT_COLUMNS).splitlines()


# ----------------------------------------------------------------------------- measured


def test_measures_of_each_run_are_those_of_its_last_frame(trajectory):
    result = measure_weights(trajectory)
    assert_array_equal(result["seed"], [7, 8, 9])
    last = trajectory.isel(step=-1)
    for r, seed in enumerate(result["seed"]):
        names = ["hidden_weight", "hidden_bias", "embedding"]
        w, b, x = (last[name].values[r].astype(float) for name in names)
        assert result["weight"][r] == pytest.approx(np.abs(w).mean())
        assert result["bias"][r] == pytest.approx(np.abs(b).mean())
        assert result["circle"][r] == is_circle(x)
        pairs = all_pairs(5)[training_pairs(5, 12, [seed])[0]]  # 80% of 15
        sums = embedding_pair_sums(x, pairs)
        for name, expected in (
            ("alignment", weight_alignment(sums, w, b)),
            ("boundaries", boundary_alignment(sums, w, b)),
            ("rays", pair_sum_collinearity(x, pairs)),
        ):
            values = [result[name][r], result[f"{name}_chance"][r]]
            assert_allclose(values, expected, rtol=1e-6)
    assert len(set(result["weight"])) == 3


def test_runs_that_diverged_are_left_out(trajectory):
    one = trajectory.copy()
    one["last_step"] = ("run", [40, 12, 40])
    whole, result = measure_weights(trajectory), measure_weights(one)
    for name, values in result.items():
        assert_array_equal(values, whole[name][[0, 2]])
    one["last_step"] = ("run", [1, 12, 39])
    none = measure_weights(one)
    assert all(len(values) == 0 for values in none.values())
    assert mean_weight_measures(none).runs == 0
    assert groups_by_structure([none]) == {}
    empty = {0.5: mean_weight_measures(none)}
    *_, row = table_lines(weight_rows(empty, {}))
    assert row.split() == ["0.5", "0", *"--------", "0"]
    plot_weights(empty, {}, "nothing")


@pytest.mark.parametrize("dim", [1, 2, 3, 4])
@pytest.mark.parametrize("n", [2, 3])
def test_measures_of_the_smallest_networks(n, dim):
    settings = ModularSettings(n=n, dim=dim, hidden=3, train_share=1.0)
    trajectory = simulate(settings, runs=2, steps=3, every=3)
    result = mean_weight_measures(measure_weights(trajectory))
    assert result.runs == 2
    rays = result.mean["rays"].value
    assert rays > 1 / dim - 1e-9


# ------------------------------------------------------------------------------- groups


def test_runs_of_one_seed_count_as_one():
    alignment, chance = [0.4, 0.5, 0.6, 0.52], [0.4, 0.4, 0.4, 0.6]
    result = mean_of_runs(
        [0, 0, 0, 1], [True] * 4, alignment=alignment, alignment_chance=chance
    )
    mean = result.mean["alignment"]
    assert mean.value == pytest.approx(0.51)
    expected = mean_interval(np.array([0.5, 0.52]), limits=(0, 1))
    assert (mean.low, mean.high) == pytest.approx((expected.low, expected.high))
    assert mean.half >= 12.706 * 0.01  # of t with one degree of freedom
    assert result.chance["alignment"] == pytest.approx(0.5)
    assert (result.runs, result.circles) == (4, 4)


def test_runs_without_living_units_have_sizes_only():
    alignment, weight = [0.2, np.nan, 0.4], [0.0, 3.0, 3.0]
    result = mean_of_runs([0, 1, 2], [False] * 3, alignment=alignment, weight=weight)
    assert result.mean["alignment"].value == pytest.approx(0.3)
    assert result.mean["weight"].value == pytest.approx(2)
    assert result.runs == 3


def test_circles_and_others_are_grouped():
    first = some_runs([0, 1], [True, False], rays=[1.0, 0.6])
    second = some_runs([0, 1], [True, True], rays=[0.9, 0.8])
    kinds = groups_by_structure([first, second])
    assert list(kinds) == ["circles", "others"]
    for kind, runs, rays in (("circles", 3, (0.95 + 0.8) / 2), ("others", 1, 0.6)):
        assert kinds[kind].runs == runs
        assert kinds[kind].mean["rays"].value == pytest.approx(rays)
    assert list(groups_by_structure([some_runs([3], [False])])) == ["others"]


# ---------------------------------------------------------------------------- the table


def test_rows_of_weight_decays_and_of_structures():
    group = mean_of_runs(
        [0, 1], [True, False], weight=[1.0, 3.0], rays_chance=[0.25, 0.25]
    )
    rows = weight_rows({0.3: group}, {"circles": group})
    lines = table_lines(rows)
    words = lines[2].split()[:5]
    assert words == "0.3 2 2.000 [0.000, 14.706]".split()  # a size is not negative
    assert lines[3].split()[:4] == ["circles", "2", "-", "-"]
    first, pooled = make_table(rows).iloc
    names = ["weight_decay", "structure", "weight", "rays", "rays_chance", "circles"]
    assert first[names].tolist() == [0.3, "all", 2.0, 0.5, 0.25, 1]
    assert pooled["structure"] == "circles"
    assert pooled[["weight_decay", "weight_high"]].isna().all()


# -------------------------------------------------------------------------- the command


WEIGHTS = "analysis.paper weights --runs 2 --epochs 30 --n 5 --hidden 6 --weight-decays"


def test_the_command(output_of):
    said = output_of(f"{WEIGHTS} 1 0 --csv out/figure6.csv")
    files = sorted(Path("runs").glob("*.nc"))
    (picture,) = Path("runs").glob("*.png")
    assert len(files) == 2
    assert all(str(path) in said for path in (*files, picture))
    assert imread(picture).shape[0] > 300
    table = pd.read_csv("out/figure6.csv")
    assert table["weight_decay"][:2].tolist() == [0, 1]
    assert table["structure"][:2].tolist() == ["all", "all"]
    assert table["runs"][2:].sum() == 4
    for _, row in table[:2].iterrows():
        settings = ModularSettings(n=5, hidden=6, weight_decay=row["weight_decay"])
        trajectory = simulate(settings, runs=2, steps=30, every=30)
        sizes = np.abs(trajectory.isel(step=-1)).mean()
        assert row["weight"] == pytest.approx(float(sizes["hidden_weight"]))
        assert row["bias"] == pytest.approx(float(sizes["hidden_bias"]))
    before = [path.stat().st_mtime_ns for path in files]
    assert output_of(f"{WEIGHTS} 0 1 1") == said  # the same grid
    assert [path.stat().st_mtime_ns for path in files] == before
    assert [*Path("runs").glob("*.png")] == [picture]


def test_the_figure_shows_the_table():
    groups = {
        decay: mean_of_runs([0, 1], circles, weight=weight, rays_chance=[chance] * 2)
        for decay, circles, weight, chance in (
            (0.0, [False, False], [1.0, 2.0], 0.7),
            (0.5, [True, False], [0.5, 0.5], 0.6),
        )
    }
    left, middle, right = plot_weights(groups, {"circles": groups[0.5]}, "title").axes
    line, _, (bars,) = left.containers[0]
    assert_allclose(np.array(line.get_ydata(), dtype=float), [1.5, 0.5])
    length = np.ptp(bars.get_segments()[0][:, 1])
    assert length == pytest.approx(2 * groups[0.0].mean["weight"].half)
    assert any(list(line.get_ydata()) == [0.7, 0.6] for line in middle.lines)
    (label,) = right.get_xticklabels()
    assert label.get_text() == "circles (2)"
