"""Verdicts on claims about the classifier, for made evidence."""

import numpy as np
import pytest

from analysis.reproduction.musat2024 import classifier
from analysis.reproduction.verification.criteria import Verdict
from tests.analysis.reproduction import judging
from tests.analysis.reproduction.musat2024.networks_evidence import DECAY, table


def evidence(generator, effect: float):
    """Evidence of effects of some size: 1 is large, 0 none, less than 0 the opposite of what is claimed."""
    circle = np.broadcast_to(np.arange(40) < 10, (4, 40))
    noise = 0.01 * generator.standard_normal((4, 40))
    none, kind = effect * (DECAY == 0), effect * np.where(circle, 1, -1)
    return table(
        circle, relative_steepness=10.0**none + noise, offset=4.0**none + noise, relative_offset=0.3 + noise,
        evenness=0.5 - 0.4 * none + noise, slices=0.5 + 0.3 * kind + noise, longer=0.5 + 0.4 * kind + noise,
        right_near_like=0.75 + 0.15 * effect + noise, right_near_unlike=0.75 - 0.15 * effect - noise,
    )  # fmt: skip


@pytest.mark.parametrize(
    ("effect", "verdicts"),
    [(1, {Verdict.REPRODUCED}), (-1, {Verdict.NOT, Verdict.UNDECIDED}), (0.1, {Verdict.PARTLY})],
)
def test_claims_are_judged_by_the_size_of_effects(effect, verdicts, generator):
    found = judging.verdicts(classifier.CLAIMS, evidence(generator, effect), "ca.classifier")
    assert set(found.values()) == verdicts
    if effect < 0:  # of parts with a bound of our own, none contradicts the paper
        assert {name for name, verdict in found.items() if verdict is Verdict.UNDECIDED} == {
            "CA.s5.1.nowhere", "CA.figure4.pizza", "CA.s5.2.pizza"}  # fmt: skip


def test_estimates_and_notes(generator):
    found = evidence(generator, 1)
    assert classifier.clustered_accuracy_gain(found, 0.6).count == 30
    ratio = classifier.boundary_distance_ratio(found)
    assert ratio.interval.value == pytest.approx(4, rel=0.01)
    assert "0.30 without weight decay, 0.30 with" in ratio.note
