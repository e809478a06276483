"""Claims on circuits built by hand: what is measured of them, and verdicts on evidence
whose answer is known."""

import numpy as np
import pytest
import xarray as xr

from analysis.reproduction.odonnat2024 import ideal_circuits
from analysis.statistics.intervals import Interval
from tests.analysis.reproduction.judging import NO, YES, verdicts


def test_measured_ideal_circuits_have_the_papers_numbers(evidence):
    evidence = evidence["vc.ideal"]
    for vocab, count in ((2, 6), (3, 21)):
        found = ideal_circuits.worst_circuit(evidence, "clusters", vocab=vocab, dim=2)
        assert found.interval == Interval(count, count, count)
        assert ideal_circuits.worst_circuit(
            evidence, "accuracy", vocab=vocab
        ).value == pytest.approx(1)
    assert (
        ideal_circuits.worst_circuit(evidence, "attention", scale=100).interval.low > 99
    )
    assert (
        ideal_circuits.worst_circuit(evidence, "leak", vocab=2).count == 2
    )  # one normalisation, two dimensions
    for name, bound in (
        ("order_share", 1e-9),
        ("absorbed", 1e-9),
        ("value_share", 1e-2),
    ):
        assert ideal_circuits.networks_within_bound(evidence, name, bound).value == 100
    assert np.isnan(ideal_circuits.worst_circuit(evidence, "clusters", dim=9).value)
    assert ideal_circuits.worst_circuit(evidence, "clusters", dim=9).note


def made(worst=0.0):
    """Circuits of p = 2 and 3 that lack the given fraction of each property, and random
    networks alike."""
    tokens, dim = np.repeat([2, 3], 4), np.tile([2, 2, 3, 3], 2)
    less = worst * (np.arange(8) % 2)  # of every other circuit
    properties = {
        "accuracy": 1 - less,
        "attention": 1 - less,
        "leak": less,
        "unswapped": less,
    }
    clusters = np.where(tokens == 2, 6, 21) - np.ceil(less)
    data = {
        name: ("circuit", values)
        for name, values in {**properties, "clusters": clusters}.items()
    }
    networks = np.linspace(0, worst, 30).reshape(2, 15)
    data |= dict.fromkeys(
        ("order_share", "value_share", "absorbed"), (("vocab", "network"), networks)
    )
    return xr.Dataset(data, {"tokens": ("circuit", tokens), "dim": ("circuit", dim)})


def test_the_circuit_furthest_from_its_ideal_value_is_the_worst():
    evidence = made(0.3)
    assert (
        ideal_circuits.worst_circuit(
            evidence, "accuracy", vocab=2, dim=2, scale=100
        ).value
        == 70
    )
    assert ideal_circuits.worst_circuit(evidence, "clusters", vocab=3).value == 20
    assert ideal_circuits.worst_circuit(
        evidence, "leak"
    ) == ideal_circuits.worst_circuit(evidence, "unswapped")
    assert ideal_circuits.networks_within_bound(
        evidence, "order_share", 0.1
    ).value == pytest.approx(100 / 3)


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
    found = verdicts(made(worst), "vc.ideal")
    assert found == dict.fromkeys(found, verdict) | others
