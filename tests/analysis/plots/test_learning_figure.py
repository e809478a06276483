"""How an ensemble has learned: success rates, means, and the picture, also where there
is little to show."""

import dataclasses

import numpy as np
import pytest
from numpy.testing import assert_allclose

from analysis.clustering_heads.learning_outcome import (
    LEARNING_COLUMNS,
    final_accuracies,
    learning_table,
)
from analysis.output.tables import format_table
from analysis.panels.run_scene import build_scene
from analysis.plots.learning_figure import plot_learning
from analysis.statistics.intervals import binomial_interval, mean_interval
from dynamics import SparseSettings, TransformerSettings, simulate
from dynamics.trajectory.schema import DIVERGED

ENDS = ("", "_low", "_high")
SMALL = SparseSettings(length=6, sparsity=2, data=60, batch=16, hidden=6)


def planted(test, diverged=0):
    """A trajectory whose runs end at given test accuracies, the last of them
    diverged."""
    trajectory = simulate(SMALL, runs=len(test), steps=8)
    trajectory["accuracy"].loc[{"split": "test", "step": 8}] = test
    if diverged:
        trajectory["last_step"][-diverged:] = 3
        trajectory["status"][-diverged:] = DIVERGED
    return trajectory


def test_a_row_counts_successes_among_all_runs():
    trajectory = planted([0.5, 0.9, 0.91, 0.98, 0.99, 1.0, 1.0, 1.0], diverged=2)
    (result,) = learning_table(trajectory).to_dict("records")
    assert [result[name] for name in ("runs", "diverged", "vocab", "epochs")] == [
        8,
        2,
        2,
        2.0,
    ]
    for name, count in (("above_0.9", 4), ("above_0.98", 2), ("above_1", 1)):
        assert_allclose(
            [result[name + end] for end in ENDS], binomial_interval(count, 8)
        )
    alive = np.array([0.5, 0.9, 0.91, 0.98, 0.99, 1.0])
    assert_allclose(
        [result[f"test{end}"] for end in ENDS], mean_interval(alive, limits=(0, 1))
    )
    assert_allclose(final_accuracies(trajectory)["test"], alive)


def test_missing_splits_are_empty():
    table = learning_table(
        simulate(dataclasses.replace(SMALL, length=3), runs=2, steps=4)
    )
    assert table[[f"unseen{end}" for end in ENDS]].isna().all(axis=None)
    assert format_table(table, LEARNING_COLUMNS).endswith(" -")


def test_the_picture_shows_medians_of_successful_and_of_failed_runs_and_end_states():
    trajectory = planted([0.5, 0.51, 0.52, 0.99, 1.0])
    *panels, ends = plot_learning(trajectory).axes
    for place, (axes, name) in enumerate(
        zip(panels, ("loss", "accuracy") * 2, strict=True)
    ):
        runs = trajectory.isel(run=slice(3) if place > 1 else slice(3, 5))
        for line, split in zip(
            axes.lines[::3], trajectory["split"].values, strict=True
        ):
            assert_allclose(
                line.get_ydata(), runs[name].sel(split=split).median("run"), rtol=1e-6
            )
        medians = [line for line in axes.lines if not line.get_label().startswith("_")]
        assert len(medians) == 3
        assert (
            len({line.get_linewidth() for line in medians}) == 3
        )  # all visible where they coincide
    assert panels[0].get_title().split() == ["2", "successful", "runs"]
    assert sum(bar.get_width() for bar in ends.patches) == 5
    assert ends.patches[-1].get_width() == 2


@pytest.mark.parametrize("kind", ["one run", "no step", "all diverged"])
def test_the_picture_of_few_runs(kind):
    if kind == "all diverged":
        trajectory = planted([0.5, 0.6], diverged=2)
    else:
        trajectory = simulate(SMALL, runs=1, steps=8 if kind == "one run" else 0)
    drawn = plot_learning(trajectory)
    drawn.canvas.draw()
    low, high = drawn.axes[2].get_xlim()
    assert (low, high) == (0, 1.05)
    assert "nan" not in drawn.get_suptitle()


@pytest.mark.parametrize(
    ("change", "planes"),
    [({}, 2), ({"task": "multiply"}, 0), ({"record": "metrics"}, 0)],
)
def test_the_picture_of_a_transformer_shows_planes_of_frequencies(change, planes):
    settings = TransformerSettings(
        n=5, dim=8, heads=2, train_share=0.6, task=change.get("task", "add")
    )
    trajectory = simulate(settings, runs=3, steps=6, record=change.get("record", "all"))
    drawn = plot_learning(trajectory)
    planes_drawn = [
        axes for axes in drawn.axes if axes.get_title().startswith("embedding at")
    ]
    assert len(planes_drawn) == planes
    for place, axes in enumerate(planes_drawn, 1):
        expected = build_scene(trajectory, 0, panels=[f"frequency_{place}"]).arrays(
            [-1]
        )[f"frequency_{place}"][0]
        assert_allclose(axes.collections[0].get_offsets(), expected, atol=1e-5)
        assert axes.get_ylabel() == "seed 0" * (place == 1)


def test_a_transformer_that_diverged_has_no_planes():
    trajectory = simulate(
        TransformerSettings(n=5, dim=8, heads=2, train_share=0.6),
        runs=1,
        steps=6,
    )
    trajectory["last_step"][:], trajectory["status"][:] = 3, DIVERGED
    assert not any(
        axes.get_title().startswith("embedding at")
        for axes in plot_learning(trajectory).axes
    )
