"""Final embeddings in a grid of panels."""

import pytest
from numpy.testing import assert_allclose

from analysis.plots import use_style
from analysis.plots.embedding_grid import plot_embeddings
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


def test_marks_cover_the_numbers_of_tokens_below_them(generator):
    (axes,) = plot_embeddings(generator.standard_normal((1, 5, 2)), [0], "").axes
    marks = [item.get_zorder() for item in axes.collections]
    numbers = [item.get_zorder() for item in axes.texts]
    assert len(marks) == len(numbers) == 5
    assert numbers[:-1] < marks[1:]
    assert marks == sorted(set(marks))
