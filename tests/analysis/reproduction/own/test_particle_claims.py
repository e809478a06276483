"""Our own claims on particles and on the forces between pair sums, for made
evidence."""

import numpy as np
import pytest

from analysis.reproduction.claim import Verdict
from analysis.reproduction.own import scaling_claims, sensitivity_claims
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


def test_the_reading_with_the_smallest_rise_is_named():
    shares = {name: [0.0, 0.2, 0.6] for name in sensitivity_claims.CHANGES}
    shares |= {"defaults": [0.0, 0.2, 0.7], "half the step": [0.0, 0.3, 0.1]}
    shares["variance not kept"] = [0.0, 0.0, 0.0]  # against the paper's words
    circle = np.arange(200) < 200 * np.array(list(shares.values()))[..., None]
    coords = {"reading": list(shares), "fa": [0.5, 1.0, 2.0]}
    data = dataset(("reading", "fa", "run"), coords, circle=circle.astype(float))
    rises = judged("CA.s6.more-circles", data)
    values = [one.estimate.value for one in rises]
    assert values == pytest.approx([10, 20, -20])
    assert rises[0].estimate.note == "half the step"
    assert rises[2].verdict is Verdict.CONTRADICTED


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
    expected = [0.1, 2 * best.mean() - 1, best.mean(), 0.1, best.mean()]
    assert [one.estimate.value for one in numbers] == pytest.approx(expected)
