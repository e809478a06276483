"""Laws of distance and the motion of neighbours, for forces that are known."""

import math

import numpy as np
import pytest

from analysis.forces import distance_laws
from dynamics.tasks import all_pairs


def planted_force(sums, right, p, q):
    """Repulsion 1 / r^p of different classes and attraction r^q of the same class, in
    plain loops."""
    force = np.zeros_like(sums)
    for ij in range(len(sums)):
        for kl in range(len(sums)):
            apart = sums[ij] - sums[kl]
            r = np.linalg.norm(apart)
            if ij != kl and r > 1e-12:
                force[ij] += (
                    -apart / r * 1.5 * r**q
                    if right[ij] == right[kl]
                    else apart / r * 0.7 * r**-p
                )
    return force


@pytest.mark.parametrize(
    ("p", "q"), [(1.0, 0.0), (2.0, 0.0), (0.0, 0.0), (1.0, 1.0), (1.0, -0.5)]
)
def test_the_power_of_a_planted_law_is_found(p, q, generator):
    x = generator.standard_normal((11, 2))
    pairs = all_pairs(11)
    sums, right = x[pairs].sum(axis=1), pairs.sum(axis=1) % 11
    force = (
        planted_force(sums, right, p, q) + 3.0 * sums + np.array([1.0, -2.0])
    )  # scaling and shift do not count
    by_p, by_q = distance_laws.distance_law_fits(sums, right, force)
    if q == 0:
        assert by_p.max() > 1 - 1e-9
        assert distance_laws.REPULSIONS[by_p.argmax()] == p
    if p == 1:
        assert by_q.max() > 1 - 1e-9
        assert distance_laws.ATTRACTIONS[by_q.argmax()] == q


def test_neighbours_are_counted_once():
    """Twelve couples on a grid, each with its own gap, that move together or apart."""
    right = np.repeat(np.arange(12), 2)
    place = 10.0 * np.stack([np.arange(12) % 4, np.arange(12) // 4], axis=-1)
    gap = 1 + 0.1 * np.arange(12)[:, None] * np.array([1.0, 0.0])
    sums = (
        np.stack([place, place + gap * np.array([1.0, 0.0])], axis=1).reshape(-1, 2)
        - 15
    )
    toward = np.stack([gap, -gap], axis=1).reshape(-1, 2) * np.array([1.0, 0.0])
    result = distance_laws.nearest_neighbour_motion(sums, right, toward, right)
    assert (result["like_count"], result["like_hits"], result["like_region"]) == (
        12,
        12,
        12,
    )
    assert result["like_rank"] == pytest.approx(1.0)
    assert result["unlike_count"] == 0
    assert (
        distance_laws.nearest_neighbour_motion(sums, right, toward, np.arange(24))[
            "like_region"
        ]
        == 0
    )
    unlike = distance_laws.nearest_neighbour_motion(
        sums, np.arange(24), -toward, np.arange(24)
    )
    assert (unlike["unlike_count"], unlike["unlike_hits"], unlike["like_region"]) == (
        12,
        12,
        0,
    )
    assert math.isnan(unlike["like_rank"])


@pytest.mark.parametrize(
    ("size", "wrong_side"),
    [
        (lambda margin: np.exp(-(margin**2)), -1),
        (lambda margin: 1 / (1 + np.exp(margin)), 1),
    ],
)
def test_both_sides_of_a_boundary(size, wrong_side):
    margin = np.linspace(-3, 3, 41)
    result = distance_laws.slope_distance_correlation(size(margin), margin)
    assert result == pytest.approx({"right_side": -1, "wrong_side": wrong_side})
