"""Pictures of the gallery are what the code draws today: the figure of the data of each
shows what it showed when the picture was drawn."""

import dataclasses
import os

import numpy as np
import pytest
import xarray as xr
from hypothesis import given
from hypothesis import strategies as st

from analysis import plots
from analysis.plots.figure_files import in_style
from docs import picture_data
from docs.make_pictures import data_file
from docs.picture_data import Drawing, describe, is_same, read_drawing
from tests.conftest import ROOT

PICTURES = ROOT / "docs" / "pictures"
WITHOUT_DATA = {
    "run.gif",
    "explorer.png",
    *("frame.png", "many_particles.png", "transformer.png"),
}
"""The film, the page in the browser, and panels of single runs, which are drawn from
whole trajectories."""
STORED = sorted(name for name in os.listdir(PICTURES) if data_file(name).exists())


def test_each_file_of_data_has_a_picture():
    files = {path.name for path in (ROOT / "docs" / "picture-data").iterdir()}
    assert files == {data_file(name).name for name in STORED}
    assert not WITHOUT_DATA & set(STORED)
    assert sum(data_file(name).stat().st_size for name in STORED) < 3_000_000


@pytest.mark.parametrize("name", STORED)
def test_a_picture_is_not_stale(name):
    drawing = read_drawing(data_file(name))
    again = f"run `make pictures` or `python docs/make_pictures.py {name[:-4]}`"
    assert picture_data.hash_of(PICTURES / name) == drawing.picture, again
    assert is_same(describe(drawing.without_layout()), drawing.shows), again


def curves(colour="C0", label="a", shift=0.0, title="curves", runs=3):
    """A drawing of the kind of those of the gallery."""
    y = np.random.default_rng(0).normal(size=(runs, 5)) + shift
    data = xr.Dataset({"y": (("run", "step"), y), "unused": ("run", np.ones(runs))})
    return Drawing(f"{__name__}:plot_curves", [data, colour], {"names": [label, title]})


@in_style
def plot_curves(data, colour, names):
    label, title = names
    figure, (axes,) = plots.new_panels([2], title)
    axes.plot(data["y"].mean("run"), color=colour, label=label)
    axes.fill_between(range(5), data["y"].min("run"), data["y"].max("run"))
    axes.scatter(range(5), data["y"][0], c=data["y"][1])
    axes.imshow(data["y"])
    axes.legend()
    return figure


@pytest.mark.parametrize(
    "change", [{"colour": "C1"}, {"label": "b"}, {"shift": 0.1}, {"title": "other"}]
)
def test_a_change_of_what_is_drawn_is_seen(change):
    shown = describe(curves().without_layout())
    assert is_same(shown, describe(curves().without_layout()))
    assert not is_same(shown, describe(curves(**change).without_layout()))


def test_rounding_as_of_another_processor_is_not_seen():
    shown = describe(curves().without_layout())
    assert is_same(shown, describe(curves(shift=1e-7).without_layout()))


@given(
    st.recursive(
        st.none() | st.booleans() | st.integers() | st.text() | st.floats(width=32),
        lambda items: st.lists(items) | st.dictionaries(st.text(), items),
        max_leaves=8,
    )
)
def test_arguments_come_back_from_a_file(tmp_path_factory, value):
    path = tmp_path_factory.mktemp("data") / "data.zip"
    drawing = Drawing("module:name", [value], {"also": value})
    picture_data.write_drawing(drawing, path)
    assert repr(read_drawing(path)) == repr(drawing)


def test_datasets_come_back_reduced_to_what_is_drawn(tmp_path):
    drawing = picture_data.reduce_drawing(curves())
    picture_data.write_drawing(drawing, tmp_path / "data.zip")
    again = read_drawing(tmp_path / "data.zip")
    assert dataclasses.asdict(again).keys() == dataclasses.asdict(drawing).keys()
    assert again.whole
    xr.testing.assert_identical(again.arguments[0], drawing.arguments[0])
    assert set(again.arguments[0]) == {"y"}
    np.testing.assert_allclose(
        again.arguments[0]["y"], curves().arguments[0]["y"], rtol=1e-3
    )
    assert is_same(describe(again.without_layout()), describe(drawing.without_layout()))


def test_a_large_drawing_has_fewer_runs(monkeypatch):
    monkeypatch.setattr(picture_data, "LARGEST", 3000)
    drawing = picture_data.reduce_drawing(curves(runs=500))
    assert not drawing.whole
    assert drawing.arguments[0].sizes["run"] < 500
