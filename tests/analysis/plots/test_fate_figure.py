"""The figure of the variance that states explain."""

from numpy.testing import assert_allclose

from analysis import committor, plots
from analysis.committors import explained_variance
from dynamics import ParticleSettings, simulate


def is_wide(ends):
    """Whether the first particle ends at positive x."""
    return ends["embedding"].isel(step=-1, token=0, axis=0).values > 0


def test_the_figure_shows_the_explained_variance_of_all_steps():
    source = simulate(ParticleSettings(n=7, fa=2.0), runs=6, steps=40)
    options = {"copies": 8, "displace": 0.3}
    results = {
        "two": committor(source, is_wide, [0, 20], **options),
        "one": committor(source, is_wide, [0], **options),
    }
    first, later = plots.plot_explained_variance(results).axes
    two = [explained_variance(results["two"], step).value for step in (0, 1)]
    (line,) = later.lines[::3]
    assert_allclose(line.get_xydata(), [[0, two[0]], [0.5, two[1]]])
    names = [label.get_text() for label in first.get_yticklabels()]
    assert names == ["two", "one"]
    assert float(first.lines[0].get_xdata()[0]) == two[0]
