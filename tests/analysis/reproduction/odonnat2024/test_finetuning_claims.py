"""Claims on VC's finetuned circuits: estimates from evidence whose answer is known."""

import numpy as np
import pytest

from analysis.reproduction.claim import Verdict
from analysis.reproduction.odonnat2024 import finetuning_claims
from tests.analysis.reproduction.evidence_by_hand import dataset, verdicts


def circuits(repeats=1, **changed):
    """Evidence of four runs, repeated."""
    plain = {
        "source_test": [1.0, 1.0, 1.0, 0.6],
        "clusters": [6, 6, 9, 40],
        "coarse_clusters": [6, 6, 6, 30],
        "source_whole": [1, 1, 0, 0],
        "test": [1.0, 0.99, 0.7, 0.4],
        "own_distance": [0.1, 0.4, 1, 1],
        "other_distance": [1.0, 1, 1, 1],
        "own_correlation": [0.9, 0.7, 0, 0],
        "other_correlation": [0.1, 0.0, 0, 0],
    }
    evidence = dataset("run", **{**plain, **changed}).assign_attrs(ideal=6)
    return evidence.isel(run=np.arange(4).repeat(repeats))


def test_one_exception_contradicts_that_only_ideal_circuits_transfer():
    claim = finetuning_claims.SIX_CLUSTERS_ONLY
    assert verdicts(claim, circuits(30)) == [Verdict.AGREES] * 3
    other = circuits(30, test=[1.0, 0.99, 1.0, 0.4])
    estimate = finetuning_claims.perfect_from_ideal(other, "clusters")
    assert (estimate.value, estimate.count) == (50, 60)
    assert estimate.note.startswith("others from 9, 9")
    assert finetuning_claims.perfect_from_ideal(other, "coarse_clusters").value == 100
    expected = [Verdict.DIFFERS, Verdict.AGREES, Verdict.DIFFERS]
    assert verdicts(claim, other) == expected
    assert verdicts(claim, circuits(test=[0.5] * 4)) == [Verdict.OPEN] * 3


def test_sources_that_solve_their_task_are_compared():
    gain = finetuning_claims.whole_source_gain(circuits())
    assert gain.value == pytest.approx(99.5 - 70)
    assert gain.note == "2 sources with both, 1 others"
    perfect = finetuning_claims.whole_source_gain(circuits(), perfect=True)
    assert perfect.value == 50
    many = circuits(40)
    many["test"] -= 0.001 * (np.arange(160) % 2)
    claim = finetuning_claims.INVARIANCES_HELP
    assert verdicts(claim, many) == [Verdict.HOLDS] * 2


def test_similarity_to_the_start_is_that_of_accurate_runs():
    distance = finetuning_claims.start_distance(circuits())
    assert (distance.value, distance.count) == (pytest.approx(-80), 2)
    similarity = finetuning_claims.attention_similarity(circuits())
    assert (similarity.value, similarity.count) == (pytest.approx(0.75), 2)
    assert similarity.note == "0.80 against 0.05"
    failed = circuits(test=[0.4] * 4)
    assert verdicts(finetuning_claims.LIKE_INITIAL, failed) == [Verdict.OPEN] * 2


def test_measured_ends_are_nearer_to_their_own_starts(evidence):
    measured = evidence["vc.finetuning"]
    assert (measured["own_distance"] < measured["other_distance"]).all()
