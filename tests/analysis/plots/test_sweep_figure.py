"""Figures of sweeps: curves over one setting, maps of two."""

import itertools
import math

import numpy as np
import pandas as pd
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from matplotlib.colors import to_rgba

from analysis.output.tables import Column, interval_columns, make_table
from analysis.panels.colours import colour
from analysis.plots import plot_sweep
from sims.command_line.sweep_results import sweep_figure_columns

CIRCLES = Column("circles % [95%]", "circles_percent", 1, "bounds")
IMPERFECTIONS = Column("imperfections", "imperfections", 1, "half-width")
FORCE = Column("embedding force", "embedding_gradient_norm", 4, "half-width")
TRAIN = Column("train accuracy %", "train_accuracy", 1, "half-width", 100)
TEST = Column("test accuracy %", "test_accuracy", 1, "half-width", 100)

VALUES = st.one_of(
    st.lists(st.floats(-1e3, 1e3), min_size=2, max_size=14, unique=True),
    st.lists(st.integers(0, 99), min_size=2, max_size=4, unique=True),
    st.lists(
        st.sampled_from(["force", "direction", "a", r"$\foo$"]), min_size=2, unique=True
    ),
    st.just([True, False]),
)


def rows_of(axes, columns, values):
    """A table with these values, and intervals of known widths."""
    rows = []
    for number, point in enumerate(itertools.product(*axes.values())):
        row = {**dict(zip(axes, point, strict=True)), "runs": 3}
        for column in columns:
            value = values(number) / column.scale
            row |= interval_columns(
                column.name, (value, value - 1 / column.scale, value + 2 / column.scale)
            )
        rows.append(row)
    return make_table(rows)


@settings(max_examples=12)
@given(first=VALUES, second=VALUES, missing=st.booleans())
def test_the_cells_of_a_map_are_the_points(first, second, missing):
    axes = {"fa": first, "n": second}
    table = rows_of(axes, [TEST], lambda number: np.nan if missing else number)
    figure = plot_sweep(table, ["fa", "n"], [TEST])
    maps = [axes for axes in figure.axes if axes.images]
    assert [panel.get_title() for panel in maps] == [
        "test accuracy / %",
        "width of the 95% interval / %",
    ]
    shown, width = (np.ma.filled(panel.images[0].get_array(), np.nan) for panel in maps)
    expected = np.arange(len(first) * len(second), dtype=float)
    expected = expected.reshape(len(first), len(second))
    if maps[0].get_xlabel() == "$f_a$":
        expected = expected.T
    if missing:
        assert np.isnan(shown).all()
        return
    np.testing.assert_allclose(shown, expected, atol=1e-9)
    np.testing.assert_allclose(width, 3.0)


@pytest.mark.parametrize(
    ("columns", "curves", "in_map"),
    [
        ([CIRCLES, IMPERFECTIONS, FORCE], [CIRCLES, IMPERFECTIONS], CIRCLES),
        ([FORCE], [FORCE], FORCE),
        ([TRAIN, TEST], [TRAIN, TEST], TEST),
        ([CIRCLES, IMPERFECTIONS, TRAIN], [CIRCLES, IMPERFECTIONS, TRAIN], CIRCLES),
    ],
)
def test_a_picture_shows_what_one_wants_to_know(columns, curves, in_map):
    columns = [Column("fa", "fa"), *columns]
    table = pd.DataFrame({column.name: [0.5, 0.5] for column in columns})
    assert sweep_figure_columns(table, columns, with_map=False) == curves
    assert sweep_figure_columns(table, columns, with_map=True) == [in_map]


@pytest.mark.parametrize(
    ("circles", "accuracy", "in_map"),
    [
        ([0, 0], [0.2, 0.9], TEST),
        ([10, 90], [0.5, 0.9], CIRCLES),
        ([10, 30], [0.5, 0.9], TEST),
        ([math.nan, math.nan], [0.5, 0.6], TEST),
        ([0, 0], [math.nan, 0.6], CIRCLES),
    ],
)
def test_a_map_shows_the_measure_of_the_larger_range(circles, accuracy, in_map):
    table = pd.DataFrame({CIRCLES.name: circles, TEST.name: accuracy})
    columns = [Column("fa", "fa"), CIRCLES, IMPERFECTIONS, TRAIN, TEST]
    assert sweep_figure_columns(table, columns, with_map=True) == [in_map]


@pytest.mark.parametrize("count", [1, 3])
def test_one_setting_or_three_make_curves(count):
    axes = {name: [1.0, 2.0, 50.0] for name in ("fa", "ga", "gr")[:count]}
    columns = [CIRCLES, IMPERFECTIONS]
    figure = plot_sweep(rows_of(axes, columns, float), list(axes), columns)
    assert not any(panel.images for panel in figure.axes)
    assert [panel.get_ylabel() for panel in figure.axes] == [
        "circles / %",
        "imperfections",
    ]


def test_splits_and_systems_have_their_colours_and_settings_their_symbols():
    axes = {"lr": [0.001, 0.003, 0.01]}
    table = rows_of(axes, [TRAIN, TEST], float)
    figure = plot_sweep(table, ["lr"], [TRAIN, TEST], "sparse")
    assert figure.get_suptitle().startswith("sparse modular addition: 3 runs")
    for panel, split in zip(figure.axes, ("train", "test"), strict=True):
        assert panel.lines[0].get_color() == pytest.approx(to_rgba(colour(split)))
        assert (panel.get_xlabel(), panel.get_xscale()) == ("learning rate", "log")
    axes = {"fa": [0.5, 1.0, 2.0]}
    (panel,) = plot_sweep(
        rows_of(axes, [CIRCLES], float), ["fa"], [CIRCLES], "particles"
    ).axes
    assert panel.lines[0].get_color() == pytest.approx(to_rgba(colour("particles")))
    assert (panel.get_xlabel(), panel.get_xscale()) == ("$f_a$", "linear")


def test_points_of_several_lines_lie_beside_each_other():
    axes = {"fa": [0.5, 1.0, 2.0], "n": [7, 11], "dim": [2, 3]}
    table = rows_of(axes, [CIRCLES], lambda number: 50.0)
    (panel,) = plot_sweep(table, list(axes), [CIRCLES], "particles").axes
    lines = [container.lines[0] for container in panel.containers]
    places = np.array([line.get_xdata() for line in lines], float)
    assert np.diff(places, axis=0).min() > 0
    np.testing.assert_allclose(places.mean(axis=0), axes["fa"])
    assert lines[0].axes.containers[0].get_label() == "N = 7, D = 2"
