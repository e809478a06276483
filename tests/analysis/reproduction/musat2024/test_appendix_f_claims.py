"""Projections of wider embeddings, and verdicts on the claim about them, for made
evidence."""

import numpy as np
import pytest
from scipy import stats

from analysis.reproduction.musat2024 import appendix_f_claims
from tests.analysis.reproduction.judging import (
    NO,
    OPEN,
    PARTLY,
    YES,
    dataset,
    part_verdicts,
)
from tests.polygons import polygon


@pytest.mark.parametrize(
    ("near", "imperfections", "chance", "expected"),
    [
        (30, 40.0, 140.0, [YES] * 6),
        (0, 140.0, 140.0, [NO] * 6),
        (17, 70.0, 170.0, [OPEN, OPEN, PARTLY, PARTLY, OPEN, OPEN]),
    ],
)
def test_verdicts_follow_the_number_of_structures(
    near, imperfections, chance, expected
):
    runs = np.arange(30)
    rare = {"imperfections": 135.0, "circle_distance": 0.4, "grid_distance": 0.1}
    rows = np.broadcast_arrays(
        np.where(runs < near, 0.0, 100.0) + imperfections + runs - 15,
        chance,
        0.5,
        np.where(runs < near, 0.05, 0.5),
    )
    names = (
        "imperfections",
        "chance_imperfections",
        "circle_distance",
        "grid_distance",
    )
    by_run = {name: np.stack([row, row]) for name, row in zip(names, rows, strict=True)}
    evidence = dataset(("dim", "run"), {"dim": [3, 4]}, **by_run)
    evidence = evidence.assign(
        {f"rare_{name}": ("dim", [value] * 2) for name, value in rare.items()}
    )
    assert part_verdicts("CA.appF.structures", evidence) == expected


def test_projections_find_a_circle_among_other_axes(generator):
    flat = np.concatenate(
        [polygon(7, step=3), 0.01 * generator.standard_normal((7, 1))], axis=1
    )
    turn = stats.special_ortho_group.rvs(3, random_state=1)
    data = appendix_f_claims.projection_measures(
        np.stack([flat, flat @ turn, generator.standard_normal((7, 3))])
    )
    in_plane, turned, no_circle = data["circle_distance"]
    assert in_plane < 0.01
    assert turned < 0.02
    assert no_circle > 0.3
