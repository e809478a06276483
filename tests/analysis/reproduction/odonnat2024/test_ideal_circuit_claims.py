"""Claims on circuits built by hand: what is measured of them, and verdicts on evidence
whose answer is known."""

from functools import partial

import numpy as np
import pytest

from analysis.reproduction.odonnat2024 import ideal_circuit_claims
from analysis.statistics.intervals import Interval
from tests.analysis.reproduction.judging import NO, YES, made_evidence, verdicts


def test_measured_ideal_circuits_have_the_papers_numbers(evidence):
    evidence = evidence["vc.ideal"]
    worst = partial(ideal_circuit_claims.worst_circuit, evidence)
    for vocab, count in ((2, 6), (3, 21)):
        clusters = worst("clusters", vocab=vocab, dim=2)
        assert clusters.interval == Interval(count, count, count)
        assert worst("accuracy", vocab=vocab).value == pytest.approx(1)
    assert worst("attention", scale=100).interval.low > 99
    assert worst("leak", vocab=2).count == 2  # one normalisation, two dimensions
    for name, bound in (
        ("order_share", 1e-9),
        ("absorbed", 1e-9),
        ("value_share", 1e-2),
    ):
        networks = ideal_circuit_claims.networks_within_bound(evidence, name, bound)
        assert networks.value == 100
    missing = worst("clusters", dim=9)
    assert np.isnan(missing.value)
    assert missing.note


def made(worst=0.0):
    """Circuits of p = 2 and 3 that lack the given fraction of each property, and random
    networks alike."""
    tokens, dim = np.repeat([2, 3], 4), np.tile([2, 2, 3, 3], 2)
    less = worst * (np.arange(8) % 2)  # of every other circuit
    networks = np.linspace(0, worst, 30).reshape(2, 15)
    columns = {
        "circuit": {
            "accuracy": 1 - less,
            "attention": 1 - less,
            "leak": less,
            "unswapped": less,
            "clusters": np.where(tokens == 2, 6, 21) - np.ceil(less),
            "tokens": tokens,
            "dim": dim,
        },
        "vocab network": dict.fromkeys(
            ("order_share", "value_share", "absorbed"), networks
        ),
    }
    evidence = made_evidence({"circuit": 8, "vocab": 2, "network": 15}, columns)
    return evidence.set_coords(["tokens", "dim"])


def test_the_circuit_furthest_from_its_ideal_value_is_the_worst():
    evidence = made(0.3)
    worst = partial(ideal_circuit_claims.worst_circuit, evidence)
    assert worst("accuracy", vocab=2, dim=2, scale=100).value == 70
    assert worst("clusters", vocab=3).value == 20
    assert worst("leak") == worst("unswapped")
    networks = ideal_circuit_claims.networks_within_bound(evidence, "order_share", 0.1)
    assert networks.value == pytest.approx(100 / 3)


@pytest.mark.parametrize(
    ("worst", "verdict", "others"),
    [
        (0.0, YES, {}),
        (
            0.005,
            NO,
            dict.fromkeys(
                [
                    "VC.figure1.classes",
                    "VC.figure1.attention",
                    "CH.figure1.ideal",
                    "VC.s2.3.ideal-collapse",
                    "VC.s3.1.suffix",
                    "OWN.two-dimensions-suffice",
                ],
                YES,
            ),
        ),
        (0.3, NO, {}),
    ],
)
def test_verdicts_follow_the_evidence(worst, verdict, others):
    outcome = verdicts(made(worst), "vc.ideal")
    assert outcome == dict.fromkeys(outcome, verdict) | others
