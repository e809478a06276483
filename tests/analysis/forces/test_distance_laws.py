"""Laws of distance, for forces that are known."""

import numpy as np
import pytest

from analysis.forces import distance_laws
from dynamics.tasks import all_pairs


def planted_force(sums, right, p, q):
    """Repulsion 1 / r^p of different classes, attraction r^q of the same class, and
    alignment with the pair sums in the same half-space, in plain loops."""
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
            if ij != kl and sums[ij] @ sums[kl] > 0:
                toward = sums[kl] / np.linalg.norm(sums[kl])
                force[ij] += (0.4 if right[ij] == right[kl] else -0.3) * toward
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
