"""VC figures 6 and 7: which values, what is computed, and what is printed, written and
drawn."""

import csv
import dataclasses
import json

import numpy as np
import pytest
import xarray as xr
from matplotlib.collections import LineCollection
from matplotlib.image import imread
from numpy.testing import assert_allclose, assert_array_equal

from analysis.command_line.options import SparseOptions
from analysis.experiments.ablation import Options, main
from analysis.plots.ablation_figure import plot_ablation
from analysis.statistics.intervals import mean_interval
from analysis.transitions import ablations
from dynamics import Ensemble, SettingsError, SparseSettings, simulate
from dynamics.sweeps import SweepPoint
from dynamics.trajectory.schema import DIVERGED, DONE

RECIPE = {"data": 24, "batch": 8, "length": 5, "sparsity": 2, "hidden": 6}
SETTINGS = SparseSettings(**RECIPE)
AMOUNT = {"runs": 3, "seed": 5, "epochs": 2, "points": 3, "max_hidden": 400}


def tiny(**changes):
    return Options(**{**AMOUNT, "settings": SparseOptions(**RECIPE), **changes})


def designs(settings=SETTINGS, **changes):
    return ablations.plan_ablation(settings, **{**AMOUNT, **changes})


def some_result(**accuracies):
    """A result of made-up test accuracies (value, run) by panel, where NaN is a run
    that diverged."""
    result = {}
    for name, accuracy in accuracies.items():
        test = np.array(accuracy, dtype=np.float32)
        final = np.stack([test, test, test / 2], axis=-1)
        values, dims = (
            ablations.swept_values(name, 20, 2048, 10_000)[: len(test)],
            (name, "run", "split"),
        )
        result[name] = xr.Dataset(
            {
                "final_accuracy": (
                    dims,
                    np.nan_to_num(final, nan=0.25),
                ),  # the last finite frame
                "final_loss": (dims, 1 - np.nan_to_num(final)),
                "status": (dims[:2], np.where(np.isnan(test), DIVERGED, DONE)),
                "file": (name, [f"{name}-{k}.nc" for k in range(len(test))]),
            },
            {name: values, "split": ["train", "test", "unseen"]},
            {
                "config_json": json.dumps(dataclasses.asdict(SparseSettings())),
                "system": "sparse",
                "seed": 4,
            },
        )
    return ablations.ablation_dataset(result).assign_attrs(epochs=7)


SOME = {
    "batch": [[1.0, 0.5, 0.75], [0.99, 0.985, np.nan]],
    "lr": [[np.nan, np.nan, np.nan], [np.nan, 0.5, np.nan], [0.6, 0.5, 0.7]],
}


# ------------------------------------------------------------------------------- values


@pytest.mark.parametrize(
    ("panel", "points", "data", "max_hidden", "expected"),
    [
        ("batch", 20, 2048, 10_000, [2**k for k in range(12)]),  # the paper's
        ("hidden", 20, 2048, 10_000, [int(width) for width in np.logspace(1, 4, 20)]),
        ("lr", 20, 2048, 10_000, list(np.logspace(0, -4, 20))[::-1]),
        ("mlp_lr_discount", 20, 2048, 10_000, list(np.logspace(-2, 2, 20))),
        ("batch", 20, 100_000, 10, [2**k for k in range(12)]),
        ("batch", 3, 100, 10, [1, 2, 4, 8, 16, 32, 64]),
        ("batch", 3, 1, 10, [1]),
        ("hidden", 4, 2048, 9_999, [10, 100, 1000]),
        ("hidden", 1, 2048, 10, [10]),
        ("lr", 2, 2048, 10, [0.0001, 1.0]),
    ],
)
def test_swept_values_of_panels(panel, points, data, max_hidden, expected):
    result = ablations.swept_values(panel, points, data, max_hidden)
    assert result == expected
    assert {type(value) for value in result} == {
        int if panel in ("batch", "hidden") else float
    }
    many = ablations.swept_values("hidden", 1000, 2048, 10_000)
    assert many[:4] == [10, 11, 12, 13]
    assert len(many) == len(set(many)) < 1000  # widths that coincide are swept once


def test_a_panel_sweeps_its_own_setting_around_the_recipe():
    result = designs(panels=("mlp-lr-discount", "lr", "hidden", "batch", "lr"))
    assert list(result) == list(ablations.ABLATION_PANELS)
    for name, grid in result.items():
        assert grid.axes == {name: ablations.swept_values(name, 3, 24, 400)}
        assert grid.settings == SETTINGS  # which is false of other types
        for point in grid.points:
            assert (
                dataclasses.replace(point.settings, **{name: getattr(SETTINGS, name)})
                == SETTINGS
            )
            assert (
                point.ensemble.every == point.steps == 2 * point.settings.epoch_steps
            )  # frames: first and last


def test_the_recipe_is_simulated_once_and_cheap_points_first():
    grid = ablations.merge_ablation_sweeps(designs().values())
    assert [sum(point.settings == SETTINGS for point in grid.points)] == [1]
    assert (
        len({point.path for point in grid.points})
        == len(grid.points)
        == 5 + 2 + 3 + 3 - 1
    )  # batch 8 is c = 1
    costs = [ablations.point_cost(point) for point in grid.points]
    assert costs == sorted(costs)
    assert grid.points[-1].settings.hidden == 316


def test_the_name_of_a_result_depends_on_points_and_recipe():
    def name(**changes):
        return ablations.ablation_file_name(
            ablations.merge_ablation_sweeps(designs(**changes).values())
        )

    plain = name(panels=("lr",))
    assert plain == name(panels=("lr",), max_hidden=10)
    assert plain.startswith(
        "sweep-"
    )  # by which sims.runs knows that it is no trajectory
    other = SparseSettings(**RECIPE, lr=0.01)  # the same runs, another mark
    different = {
        name(),
        name(panels=("lr",), settings=other),
        name(panels=("lr",), points=4),
        name(panels=("hidden",)),
    }
    assert len({plain, *different}) == 5


# -------------------------------------------------------------------------- the command


def test_the_command_gives_what_single_simulations_give(capsys, tmp_path):
    main(tiny(csv=tmp_path / "figure7.csv", folder="here"))
    said = capsys.readouterr().out
    (path,) = (tmp_path / "here").glob("sweep-ablation-*.nc")
    assert all(
        str(item.relative_to(tmp_path)) in said
        for item in (path, path.with_suffix(".png"))
    )
    assert imread(path.with_suffix(".png")).shape[0] > 500
    outcome = list(csv.DictReader((tmp_path / "figure7.csv").open()))
    assert [item["panel"] for item in outcome] == ["batch"] * 5 + ["hidden"] * 2 + [
        "lr"
    ] * 3 + ["mlp-lr-discount"] * 3
    with xr.open_dataset(path) as result:
        assert result.attrs["result_of"] == "analysis.ablation"
        assert json.loads(result.attrs["swept"]) == list(ablations.ABLATION_PANELS)
        assert result["seed"].values.tolist() == [5, 6, 7]
        for line in outcome:
            name = line["panel"].replace("-", "_")
            value = (int if name in ("batch", "hidden") else float)(line["value"])
            settings = SparseSettings(**{**RECIPE, name: value})
            alone = simulate(settings, 3, 5, steps=2 * settings.epoch_steps).isel(
                step=-1
            )
            assert (alone["status"] == DONE).all()
            test = alone["accuracy"].sel(split="test").values.astype(float)
            kept = result[f"accuracy_{name}"].sel({name: value, "split": "test"}).values
            assert_array_equal(kept, test.astype(np.float32))
            numbers = [
                float(line[word])
                for word in ("first", "test", "test_deviation", "above_0.98")
            ]
            assert_allclose(
                numbers, [test[0], test.mean(), test.std(ddof=1), (test > 0.98).mean()]
            )
            interval = mean_interval(test, limits=(0, 1))
            assert_allclose(
                [float(line["test_low"]), float(line["test_high"])],
                [interval.low, interval.high],
            )
            assert (line["runs"], line["diverged"]) == ("3", "0")
            assert (tmp_path / "here" / line["file"]).exists()


def test_only_missing_points_are_computed_and_only_results_are_replaced(
    computed, capsys, tmp_path
):
    for _ in range(2):
        main(tiny(panels=("lr",), out=tmp_path / "a.nc"))
        assert [item.lr for item in computed] == ablations.swept_values(
            "lr", 3, 24, 400
        )
    main(tiny(panels=("lr",), points=5))
    assert [item.lr for item in computed[3:]] == [0.001, 0.1]
    assert "5 in runs (2 computed" in capsys.readouterr().out
    for out in (next((tmp_path / "runs").glob("sparse-*.nc")), tmp_path / "runs"):
        with pytest.raises(SettingsError, match="out"):
            main(tiny(panels=("lr",), out=out))


# ---------------------------------------------------------------------------- the lines


def test_diverged_runs_are_in_no_mean_and_no_success():
    full, one, none, single, _ = ablations.ablation_table(some_result(**SOME)).to_dict(
        "records"
    )
    counts = ("value", "file", "runs", "diverged", "count_above_0.98")
    assert [full[name] for name in counts] == [1, "batch-0.nc", 3, 0, 1]
    assert [
        full[name] for name in ("test", "test_deviation", "unseen")
    ] == pytest.approx([0.75, 0.25, 0.375])
    assert [one[name] for name in counts[2:]] == [3, 1, 2]
    assert [one[name] for name in ("test", "above_0.98")] == pytest.approx(
        [0.9875, 2 / 3]
    )
    assert [none[name] for name in ("panel", "value", *counts[2:], "above_0.98")] == [
        "lr",
        0.0001,
        3,
        3,
        0,
        0,
    ]
    assert np.isnan(
        [
            none[name]
            for name in ("first", "test", "test_low", "test_high", "test_deviation")
        ]
    ).all()
    assert np.isnan(
        [single[name] for name in ("first", "test_low", "test_deviation")]
    ).all()
    assert single["test"] == 0.5


# --------------------------------------------------------------------------- the figure


def curve(axes, label):
    """x and y of a line by its label, as arrays."""
    (line,) = (item for item in axes.lines if item.get_label() == label)
    return np.array(line.get_data(), dtype=float)


def test_the_figure_shows_the_numbers_of_the_table():
    result = some_result(**SOME)
    above, below = np.array(plot_ablation(result).axes).reshape(2, 2)
    for name, one, all_of in zip(("batch", "lr"), above, below, strict=True):
        points = ablations.ablation_table(result, [name]).astype({"value": float})
        x, test, deviation = (
            points[word].to_numpy() for word in ("value", "test", "test_deviation")
        )
        assert_allclose(curve(one, "run of seed 4"), [x, points["first"]])
        mean, _, (bars,) = all_of.containers[0]
        assert_allclose(np.array(mean.get_data(), dtype=float), [x, test])
        halves = [np.ptp(bar[:, 1]) / 2 for bar in bars.get_segments() if len(bar)]
        expected = ((points["test_high"] - points["test_low"]) / 2).dropna()
        assert_allclose(
            [half for half in halves if not np.isnan(half)], expected, atol=1e-9
        )
        (band,) = (
            collection
            for collection in all_of.collections
            if "standard deviation" in str(collection.get_label())
        )
        (lone,) = (
            collection
            for collection in all_of.collections
            if isinstance(collection, LineCollection) and collection is not bars
        )
        corners = np.concatenate(
            [path.vertices for part in (band, lone) for path in part.get_paths()]
        )
        for at in np.flatnonzero(~np.isnan(deviation)):
            ends = corners[np.isclose(corners[:, 0], x[at]), 1]
            assert [ends.min(), ends.max()] == pytest.approx(
                [test[at] - deviation[at], test[at] + deviation[at]]
            )
        assert len(lone.get_paths()) == (
            name == "lr"
        )  # whose last value alone has runs enough
        assert_allclose(
            curve(all_of, "fraction of runs above .98")[1], points["above_0.98"]
        )
        for axes in (one, all_of):
            assert axes.get_xscale() == "log"
            assert set(curve(axes, "chance, 1/2")[1]) == {0.5}
            assert set(curve(axes, "the recipe's value")[0]) == {
                getattr(SparseSettings(), name)
            }
            assert axes.get_xlim()[0] < min(x) < max(x) < axes.get_xlim()[1]
    assert_array_equal(curve(above[1], "diverged"), [result["lr"][:2], [0, 0]])
    assert_allclose(curve(below[1], "fraction of runs that diverged")[1], [1, 2 / 3])
    assert not any(line.get_label() == "diverged" for line in above[0].lines)


def test_the_figure_of_one_run_has_one_panel():
    drawn = plot_ablation(some_result(hidden=[[0.5], [1.0]]))
    (axes,) = drawn.axes
    assert axes.get_title() == "seed 4 (VC fig. 6)"
    assert axes.get_xlabel() == ablations.ABLATION_PANELS["hidden"]
    (legend,) = drawn.legends
    assert [text.get_text() for text in legend.get_texts()] == [
        "run of seed 4",
        "chance, 1/2",
        "the recipe's value",
    ]


@pytest.mark.parametrize(
    ("runs", "names", "points"),
    [
        (1, ["batch"], 12),
        (2, ["hidden", "lr"], 2),
        (20, ["hidden", "lr"], 12),
        (20, [*ablations.ABLATION_PANELS], 1),
        (1, [*ablations.ABLATION_PANELS], 12),
        (2, ["batch"], 1),
    ],
)
def test_no_text_is_cut_or_covered(generator, check_texts, runs, names, points):
    accuracies = generator.random((points, runs))
    accuracies[0] = np.nan
    drawn = plot_ablation(some_result(**dict.fromkeys(names, accuracies)))
    drawn.canvas.draw()
    (legend,) = drawn.legends
    texts = [drawn._suptitle]
    for axes in drawn.axes:
        low, high = axes.get_xlim()
        ticks = [
            tick
            for tick in axes.get_xticklabels()
            if low <= tick.get_position()[0] <= high
        ]
        texts += [axes.xaxis.label, axes.yaxis.label, axes.title, *ticks]
    check_texts(
        drawn,
        [legend, *(text for text in texts if text.get_visible() and text.get_text())],
    )


# --------------------------------------------------------------------------------- work


def test_costs_of_points_follow_measured_times():
    def cost(**changes):
        s = SparseSettings(**changes)
        return ablations.point_cost(
            SweepPoint({}, Ensemble(s, steps=s.epoch_steps), None, {})
        )

    for changes, low, high in (
        ({"hidden": 10_000}, 100, 200),
        ({"batch": 1}, 2, 5),
        ({"hidden": 1000}, 10, 20),
    ):
        assert low < cost(**changes) / cost() < high
