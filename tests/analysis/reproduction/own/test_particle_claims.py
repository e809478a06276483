"""Our own claims on particles and on the forces between pair sums, for made
evidence."""

import numpy as np
import pytest

from analysis.reproduction.claim import Verdict
from analysis.reproduction.musat2024 import particle_claims
from analysis.reproduction.own import scaling_claims
from analysis.statistics import logistic_fraction
from tests.analysis.reproduction.evidence_by_hand import dataset, judged


def test_the_power_of_a_transition_is_recovered():
    sizes, runs = np.array([7, 13, 17, 23, 43]), 400
    shares = [
        logistic_fraction(np.array(scaling_claims.FAS), 2 * n**-0.1, 3 * n**-0.3)
        for n in sizes
    ]
    counts = np.round(runs * np.array(shares))
    circle = (np.arange(runs) < counts[..., None]).astype(float)
    coords = {"n": sizes, "fa": list(scaling_claims.FAS)}
    data = dataset(("n", "fa", "run"), coords, circle=circle)
    midpoint, width = judged("OWN.scaling", data)
    assert midpoint.estimate.value == pytest.approx(-0.1, abs=0.02)
    assert width.estimate.value == pytest.approx(-0.3, abs=0.03)
    assert {midpoint.verdict, width.verdict} == {Verdict.HOLDS}


def test_the_readings_with_extreme_differences_are_named():
    shares = {name: [0.0, 0.2, 0.6] for name in particle_claims.CHANGES}
    shares |= {"twice the step": [0.0, 0.2, 0.7], "half the step": [0.0, 0.3, 0.1]}
    circle = np.arange(200) < 200 * np.array(list(shares.values()))[..., None]
    coords = {"reading": list(shares), "fa": [0.5, 1.0, 2.0]}
    dims = ("reading", "fa", "run")
    data = dataset(dims, coords, circle_of_reading=circle.astype(float))
    rise = particle_claims.smallest_difference(data, 2.0, 1.0)
    assert (rise.value, rise.note) == (pytest.approx(-20), "half the step")
    widest = judged("OWN.sensitivity", data)[0].estimate
    assert widest.value == pytest.approx(60)
    assert widest.note == "twice the step; half the step"


def test_laws_are_compared_on_the_same_networks(generator):
    best = generator.uniform(0.2, 0.4, 30)
    laws = {
        "CA": best - 0.1,
        "four fields": best,
        "pair law": best,
        "renamed": 0 * best,
    }
    coords = {"law": list(laws), "epoch": [0, 90, 2000]}
    values = np.broadcast_to(np.array(list(laws.values()))[:, None], (4, 3, 30))
    data = dataset(("law", "epoch", "run"), coords, r_squared=values + 1e-9 * best)
    numbers = judged("OWN.pair-law", data)
    expected = [0.1, 2 * best.mean() - 1, best.mean(), 0.1]
    assert [one.estimate.value for one in numbers] == pytest.approx(expected)
