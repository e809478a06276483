"""Regions and boundaries of classifiers whose geometry is known."""

import numpy as np
import pytest
from numpy.testing import assert_allclose, assert_array_equal

from analysis.forces import class_regions
from analysis.forces.pair_sum_classifier import Classifier


def half_planes(sums, right, steepness=1.0):
    """A classifier of two classes, of the sign of the first axis."""
    axis = np.array([[[steepness, 0.0], [-steepness, 0.0]]])
    sums, right = np.asarray(sums, float)[None], np.asarray(right)[None]
    bias = np.zeros((1, 2))
    return Classifier(axis, bias, np.eye(2)[None], bias, sums, right)


def test_centres_are_those_of_half_discs():
    sums = [[1.0, 0.0], [0.2, 0.3], [-0.5, 0.1]]
    (centres,) = class_regions.region_centres(half_planes(sums, [0, 0, 1]))
    distance = class_regions.RIM * 4 / (3 * np.pi)
    expected = [[distance, 0], [distance, 0], [-distance, 0]]
    assert_allclose(centres, expected, atol=0.01)


def test_regions_are_connected():
    classes = np.array([[0, 1, 0], [0, 1, 0], [1, 1, 2]])
    inside = np.ones((3, 3), bool)
    inside[0, 1] = False
    regions = class_regions.label_regions(classes, inside)
    expected = [[1, 0, 2], [1, 3, 2], [3, 3, 4]]
    assert_array_equal(regions, expected)


def test_pair_sums_are_pushed_towards_the_centre_of_their_region(generator):
    """Across a boundary the gradient is along the first axis; but for a change of size,
    it is larger near the boundary, where it leads to the centre."""
    x = generator.uniform(0.05, 1, 40) * np.tile([1, -1], 20)
    sums = np.stack([x, generator.uniform(-1, 1, 40)], axis=-1)
    of = half_planes(sums, np.tile([0, 1], 20), 8.0)
    measures = class_regions.region_measures(of)
    toward = class_regions.region_centres(of)[0] - sums
    force = class_regions.without_shift_and_scaling(
        class_regions.pair_sum_gradients(of)[0], sums
    )
    along = [float(a @ b) for a, b in zip(force, toward, strict=True)]
    assert measures["central_count"] == 40
    assert measures["central_hits"] == sum(value > 0 for value in along) > 0


def test_slopes_of_sigmoids_of_different_widths(generator):
    """The slope of a sigmoid of steepness s is s / 4 at its centre, and falls with
    exp(-s) far from it."""
    steepness = generator.uniform(5, 20, 80)
    distance = np.repeat([0.0, 0.3, 0.6, 1.0], 20)
    probability = 1 / (1 + np.exp(-steepness * distance))
    slope = steepness * probability * (1 - probability)
    ranks = class_regions.slopes_by_steepness(slope, steepness, distance)
    assert ranks == {"near_rank": pytest.approx(1), "far_rank": pytest.approx(-1)}


def test_neighbours_and_their_distance_from_the_boundary():
    """Couples on a line, each with its own gap; boundaries of most are further away for
    larger gaps."""
    gap = np.linspace(0.1, 1, 12)
    place = 10.0 * np.arange(12)
    sums = np.stack([place, place + gap], axis=1).reshape(-1, 1) * [1.0, 0.0]
    right = np.repeat(np.arange(12), 2)
    right[-1] = 0  # the last couple has two classes
    correct = np.ones(24, bool)
    correct[0] = False
    wide = np.repeat(gap, 2)
    result = class_regions.neighbour_boundaries(sums, right, correct, 1 / wide, wide)
    assert (result["like_count"], result["like_region"]) == (11, 10)
    assert result["distance_rank"] == pytest.approx(1)
    assert result["width_rank"] == pytest.approx(-1)
    few = class_regions.neighbour_boundaries(
        sums[:6], right[:6], correct[:6], wide[:6], wide[:6]
    )
    assert np.isnan(few["distance_rank"])
