"""Circuits built by hand: what is measured of them, and the worst of several."""

import numpy as np

from analysis.reproduction.claim import Verdict
from analysis.reproduction.odonnat2024 import ideal_circuit_claims
from tests.analysis.reproduction.evidence_by_hand import dataset, verdicts

CLAIMS = ideal_circuit_claims.IDEAL.claims


def test_measured_circuits_solve_the_task_with_a_cluster_for_each_multiset(evidence):
    measured = evidence["vc.ideal"]
    assert measured["clusters"].sel(norm="rms").values.tolist() == [6, 21]
    (claim,) = CLAIMS
    assert verdicts(claim, measured) == [Verdict.AGREES] * 4


def test_the_circuit_furthest_from_the_ideal_is_the_worst():
    clusters = np.array([[6, 6, 6, 6], [21, 21, 24, 20]])
    evidence = dataset(
        ("vocab", "norm"),
        {"vocab": [2, 3]},
        clusters=clusters,
        accuracy=1 - clusters % 2,
    )
    worst = ideal_circuit_claims.worst_circuit(evidence, "clusters", 3, ideal=21)
    assert worst.interval == (24, 24, 24)
    assert verdicts(CLAIMS[0], evidence) == [Verdict.AGREES, Verdict.DIFFERS] * 2
