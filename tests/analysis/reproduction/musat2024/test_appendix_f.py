"""Projections of wider embeddings, and verdicts on the claim about them, for made evidence."""

import numpy as np
import pytest
import xarray as xr
from scipy import stats

from analysis.reproduction.musat2024 import appendix_f
from analysis.reproduction.verification.criteria import Verdict
from tests.analysis.reproduction import judging
from tests.polygons import polygon


@pytest.mark.parametrize(
    ("near", "imperfections", "expected"),
    [
        (30, 40.0, [Verdict.REPRODUCED] * 6),
        (0, 140.0, [Verdict.NOT] * 2 + [Verdict.UNDECIDED] * 2 + [Verdict.NOT] * 2),
        (17, 70.0, [Verdict.UNDECIDED] * 6),
    ],
)
def test_structures_are_judged_by_how_many_there_are(near, imperfections, expected):
    runs = np.arange(30)
    values = {
        "imperfections": np.where(runs < near, 0.0, 100.0) + imperfections + runs - 15,
        "chance_imperfections": np.full(30, 140.0) + (100 * (near < 30) if near else 0),
        "circle_distance": np.full(30, 0.5),
        "grid_distance": np.where(runs < near, 0.05, 0.5),
    }
    data = {name: (("dim", "run"), np.stack([row, row])) for name, row in values.items()}
    rare = {"imperfections": 135.0, "circle_distance": 0.4, "grid_distance": 0.1}
    data |= {f"rare_{name}": ("dim", [value] * 2) for name, value in rare.items()}
    assert judging.part_verdicts("CA.appF.structures", xr.Dataset(data, {"dim": [3, 4]})) == expected


def test_projections_find_a_circle_among_other_axes(generator):
    flat = np.concatenate([polygon(7, step=3), 0.01 * generator.standard_normal((7, 1))], axis=1)
    turn = stats.special_ortho_group.rvs(3, random_state=1)
    found = appendix_f.projection_measures(np.stack([flat, flat @ turn, generator.standard_normal((7, 3))]))
    assert found["circle_distance"][0] < 0.01
    assert found["circle_distance"][1] < 0.02
    assert found["circle_distance"][2] > 0.3
