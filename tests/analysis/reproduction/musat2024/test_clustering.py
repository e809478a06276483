"""Verdicts on claims about clusters of pair sums, for made evidence."""

import numpy as np
import pytest

from analysis.reproduction.musat2024 import clustering
from analysis.reproduction.verification.criteria import Verdict
from tests.analysis.reproduction import judging
from tests.analysis.reproduction.musat2024.networks_evidence import table

CIRCLE = np.broadcast_to(np.arange(20) < 5, (4, 20))


def evidence(grids: float, before: float):
    """Imperfections of the networks that are not circles, at the end, and before; circles have 100."""
    imperfect = np.where(CIRCLE, 100, grids) + np.arange(20) % 4
    return table(CIRCLE, imperfections=imperfect, start_imperfections=before, chance_imperfections=before)


@pytest.mark.parametrize(
    ("grids", "before", "verdicts"),
    [(30, 145, [Verdict.REPRODUCED] * 2), (72, 79, [Verdict.PARTLY] * 2), (145, 140, [Verdict.UNDECIDED, Verdict.NOT])],
)
def test_claims_are_judged_by_the_size_of_effects(grids, before, verdicts):
    assert list(judging.verdicts(clustering.CLAIMS, evidence(grids, before), "ca.table1").values()) == verdicts


def test_percentage_of_clustered_pair_sums():
    found = clustering.clustered_sums(evidence(30, 145), 0.6)
    assert found.interval.value == pytest.approx(100 * (1 - 31.6 / 153), abs=0.01)
    assert found.count == 15
