"""Panels of figures that are chosen by name, and those of a column."""

import itertools
import re

import pytest
from hypothesis import given
from hypothesis import strategies as st

from analysis import plots
from dynamics import ModularSettings, ParticleSettings, SparseSettings, simulate
from dynamics.settings import SettingsError

PANELS = st.lists(
    st.tuples(st.sampled_from("abcdefgh"), st.sampled_from([1.0, 4 / 3, 2.0, 4.0])),
    min_size=1,
    max_size=9,
)


def rows(figure):
    """Numbers of rows of panels of a figure."""
    figure.draw_without_rendering()
    return len({round(axes.get_position().y0, 2) for axes in figure.axes})


@given(PANELS, st.data())
def test_only_panels_with_the_chosen_names_are_part_of_the_figure(panels, data):
    names, widths = zip(*panels, strict=True)
    chosen = data.draw(st.sets(st.sampled_from(names), min_size=1))
    with plots.choose_panels(tuple(chosen)) as choice:
        figure, axes = plots.new_panels(widths, names=names)
    assert len(axes) == len(names)
    drawn = [
        name for name, one in zip(names, axes, strict=True) if one.figure is figure
    ]
    assert drawn == [name for name in names if name in chosen]
    assert set(choice.drawn) == chosen
    assert set(choice.left_out) == set(names) - chosen


@given(PANELS)
def test_a_column_has_the_first_panels_in_at_most_three_rows(panels):
    names, widths = zip(*panels, strict=True)
    with plots.use_style("screen", column=True), plots.choose_panels() as choice:
        figure, _ = plots.new_panels(widths, names=names)
    every = tuple(dict.fromkeys(names))
    assert choice.drawn == every[: len(choice.drawn)]
    assert rows(figure) <= 3 or len(choice.drawn) == 1
    with plots.choose_panels() as choice:
        plots.new_panels(widths, names=names)
    assert choice.drawn == every


def test_a_name_that_a_figure_lacks_is_refused():
    refused = pytest.raises(SettingsError, match=r"panels: found gone.*first, second")
    with plots.choose_panels(("gone",)), refused:
        plots.new_panels([1, 1], names=("first", "second"))
    with plots.choose_panels(("first",)) as choice:
        plots.new_panels([1])
    with pytest.raises(SettingsError, match="no names"):
        choice.check()


def test_a_command_prints_and_takes_the_names_of_its_panels(
    tmp_path, typed, monkeypatch
):
    monkeypatch.chdir(tmp_path)
    settings = ParticleSettings(n=5)
    simulate(settings, runs=3, steps=10, out=tmp_path / "a.nc", progress=False).close()
    command = ("analysis.curvature", "a.nc", "--frames", "2")
    _, text, _ = typed(*command)
    names = text.partition("panels")[2].split("\n")[0].strip().split(", ")
    assert len(names) == 6
    sizes = []
    for chosen in (names[:1], names[1:3], names):
        code, text, _ = typed(*command, "--panels", *chosen)
        assert code == 0
        assert set(chosen) <= set(text.replace(",", " ").replace(";", " ").split())
        sizes.append((tmp_path / "a-curvature.png").stat().st_size)
    assert all(one < other for one, other in itertools.pairwise(sizes))
    code, _, errors = typed(*command, "--panels", "gone")
    assert code == 2
    assert "--panels: found gone" in errors
    assert names[0] in errors


SMALL = {
    "p": ParticleSettings(n=7),
    "n": ModularSettings(n=7, hidden=6),
    "s": SparseSettings(length=4, sparsity=2, data=32, batch=16, hidden=8),
}
COMMANDS_WITH_PANELS = (
    *("audit n.nc", "compare n.nc p.nc", "formation n.nc p.nc", "overview n.nc"),
    *("circuits s.nc", "events s.nc", "gradients s.nc", "sparsity s.nc"),
    *("curvature p.nc --frames 2", "curvature n.nc --frames 2", "edge n.nc"),
    *("noise n.nc --frames 3", "weight_spectra n.nc", "spectral_density n.nc"),
    *("fate p.nc --copies 2", "llc n.nc --frames 2 --draws 20 --burn-in 5"),
)


@pytest.fixture(scope="module")
def small_files(tmp_path_factory):
    folder = tmp_path_factory.mktemp("small")
    for name, settings in SMALL.items():
        simulate(settings, runs=2, steps=48, every=2, out=folder / f"{name}.nc").close()
    return folder


@pytest.mark.parametrize("line", COMMANDS_WITH_PANELS)
def test_panels_are_refused_before_the_measure_by_the_names_of_the_figure(
    small_files, typed, monkeypatch, line
):
    monkeypatch.chdir(small_files)
    command, *words = line.split()
    code, text, errors = typed(f"analysis.{command}", *words, "--panels", "all")
    assert code == 0, errors
    drawn = re.search("^panels +(.*)$", text, re.MULTILINE)[1].split(", ")
    before = {path: path.stat().st_mtime_ns for path in small_files.iterdir()}
    code, text, errors = typed(f"analysis.{command}", *words, "--panels", "gone")
    assert code == 2
    assert "trajectory " not in text
    allowed = errors.strip().partition("one or more of ")[2].split(", ")
    assert set(drawn) <= set(allowed)
    assert before == {path: path.stat().st_mtime_ns for path in small_files.iterdir()}
