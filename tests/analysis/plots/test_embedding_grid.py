"""Final embeddings in a grid of panels."""

import numpy as np
import pytest

from analysis.plots.embedding_grid import plot_embeddings
from analysis.structures.projection import principal_plane


@pytest.mark.parametrize(("n", "dim"), [(1, 1), (1, 3), (2, 1), (17, 2), (30, 4), (120, 2)])
def test_any_embedding_can_be_drawn(n, dim, generator):
    x = generator.standard_normal((7, n, dim))
    figure = plot_embeddings(x, range(7), "title")
    assert len(figure.axes) == 7
    for axes, points in zip(figure.axes, x, strict=True):
        np.testing.assert_allclose(axes.collections[0].get_offsets(), principal_plane(points))
        assert axes.get_title().startswith("seed ")
