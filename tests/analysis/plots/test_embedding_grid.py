"""Final embeddings in a grid of panels."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from numpy.testing import assert_allclose
from scipy.spatial.distance import pdist

from analysis.plots import use_style
from analysis.plots.embedding_grid import plot_embeddings, spread_marks
from analysis.structures.projection import principal_plane
from tests.analysis.plots.rendering import token_places


@pytest.mark.parametrize(
    ("n", "dim"), [(1, 1), (1, 3), (2, 1), (17, 2), (30, 4), (120, 2)]
)
def test_any_embedding_can_be_drawn(n, dim, generator):
    x = generator.standard_normal((7, n, dim))
    figure = plot_embeddings(x, range(7), "title")
    assert len(figure.axes) == 7
    for axes, points in zip(figure.axes, x, strict=True):
        assert_allclose(token_places(axes), principal_plane(points))
        assert axes.get_title().startswith("seed ")


@pytest.mark.parametrize(("column", "millimetres"), [(False, 180), (True, 85)])
def test_width_and_text_are_those_of_the_style(column, millimetres, generator):
    with use_style("paper", column) as style:
        figure = plot_embeddings(
            generator.standard_normal((20, 13, 2)), range(20), "a title " * 9
        )
    assert 25.4 * figure.get_figwidth() == pytest.approx(millimetres)
    assert all(
        axes.title.get_fontsize() == pytest.approx(1.08 * style.text)
        for axes in figure.axes
    )
    figure.canvas.draw()
    boxes = [axes.get_tightbbox() for axes in figure.axes]
    assert not any(a.overlaps(b) for at, a in enumerate(boxes) for b in boxes[:at])
    inside = [*boxes, figure.get_tightbbox().transformed(figure.dpi_scale_trans)]
    assert all(
        box.xmin >= 0 and box.xmax <= figure.bbox.xmax and box.ymin >= 0
        for box in inside
    )


@given(
    seed=st.integers(0, 2**32 - 1),
    n=st.integers(1, 40),
    flatness=st.sampled_from([0.0, 0.01, 0.2, 1.0]),
    coincident=st.booleans(),
)
def test_marks_move_apart_and_only_where_they_would_overlap(
    seed, n, flatness, coincident
):
    generator = np.random.default_rng(seed)
    points = generator.uniform(-0.8, 0.8, (n, 2)) * [1, flatness]
    points[: n // 2 * coincident] = points[0]
    apart = 0.1
    places = spread_marks(points, apart, 1.0)
    assert places.shape == points.shape
    assert np.abs(places).max() <= 1
    assert pdist(places).min(initial=apart) > 0.9 * apart
    if pdist(points).min(initial=apart) >= apart:
        assert_allclose(places, points)


def test_flat_embeddings_have_hollow_marks_and_say_so(generator):
    flat = generator.uniform(-1, 1, (1, 17, 2)) * [1, 0]
    figure = plot_embeddings(flat, [0], "title")
    assert_allclose(token_places(figure.axes[0]), principal_plane(flat[0]), atol=1e-12)
    assert "hollow marks lie beside" in " ".join(figure.get_suptitle().split())
    circle = np.exp(2j * np.pi * np.arange(17) / 17)
    points = np.stack([circle.real, circle.imag], axis=1)
    figure = plot_embeddings(points[None], [0], "title")
    assert "hollow" not in figure.get_suptitle()


def test_marks_cover_the_numbers_of_tokens_below_them(generator):
    (axes,) = plot_embeddings(generator.standard_normal((1, 5, 2)), [0], "").axes
    marks = [item.get_zorder() for item in axes.collections]
    numbers = [item.get_zorder() for item in axes.texts]
    assert len(marks) == len(numbers) == 5
    assert numbers[:-1] < marks[1:]
    assert marks == sorted(set(marks))
