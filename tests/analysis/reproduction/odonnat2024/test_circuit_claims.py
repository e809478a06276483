"""Claims on circuits: estimates from evidence whose answer is known."""

import numpy as np
import pytest

from analysis.reproduction.claim import Verdict
from analysis.reproduction.odonnat2024 import circuit_claims
from tests.analysis.reproduction.evidence_by_hand import dataset, verdicts

OPEN, HOLDS, CONTRADICTED = Verdict.OPEN, Verdict.HOLDS, Verdict.CONTRADICTED


def made(label, **columns):
    """Evidence by run of networks that solve the task unless other accuracies are
    given."""
    runs = len(label)
    columns = {
        "label": label,
        "start_label": ["fuzzy"] * runs,
        "test_accuracy": np.ones(runs),
        "unseen_accuracy": np.ones(runs),
        "class_share": np.linspace(0.9, 1, runs),
        "start_class_share": np.full(runs, 0.3),
        "clusters": np.full(runs, 6),
        "sum_congruent": np.ones(runs),
        **columns,
    }
    return dataset("run", **columns)


def test_invariances_of_successful_runs_are_compared_with_those_before_training():
    label = ["corrected", "partial", "none", "ideal"]
    accuracy = [1, 1, 0.5, 0.97]
    share = [1.0, 0.5, 0.0, 0.0]
    evidence = made(label, test_accuracy=accuracy, class_share=share)
    gain = circuit_claims.invariant_variance_gain(evidence)
    assert (gain.value, gain.count) == (pytest.approx(45), 2)
    assert gain.note == "75% against 30%"
    assert circuit_claims.whole_circuit_gain(evidence).value == 50


def test_the_change_by_the_value_matrix_is_weighted_by_attention():
    spread = {
        "spurious_attention": np.array([[1.0, 0.0], [0.2, 0.2]] * 3),
        "embedding_spread": np.array([[0.4, 9.0], [0.3, 0.3]] * 3),
        "value_spread": np.array([[0.2, 9.0], [0.15, 0.15]] * 3),
    }
    evidence = made(["corrected"] * 5 + ["partial"]).merge(
        dataset(("run", "place"), **spread)
    )
    estimate = circuit_claims.spread_change_by_value(evidence)
    assert (estimate.value, estimate.count) == (pytest.approx(-50), 5)
    none = evidence.isel(run=slice(5, None))
    assert verdicts(circuit_claims.VALUE_CORRECTS, none) == [OPEN]


def test_similarity_to_the_own_start_exceeds_that_to_other_starts(generator):
    noise = 0.05 * generator.standard_normal((30, 30))
    own = dataset(("run", "other_run"), inherited=0.1 + 0.6 * np.eye(30) + noise)
    similarity = circuit_claims.own_start_similarity(own, "inherited")
    assert similarity.value == pytest.approx(0.6, abs=0.05)
    assert similarity.interval.low > 0.5
    diverged = own.where((own["run"] != 3) & (own["other_run"] != 3))
    assert circuit_claims.own_start_similarity(diverged, "inherited").count == 29


def test_one_successful_run_without_a_sum_is_an_exception():
    accuracy = np.where(np.arange(80) < 40, 1.0, 0.5)
    every = made(["ideal"] * 80, test_accuracy=accuracy, sum_congruent=accuracy == 1)
    assert verdicts(circuit_claims.SUM, every) == [Verdict.AGREES, HOLDS]
    congruent = every["sum_congruent"].values & (np.arange(80) > 0)
    one = every.assign(sum_congruent=("run", congruent))
    assert circuit_claims.congruent_sums(one).value == pytest.approx(97.5)
    assert verdicts(circuit_claims.SUM, one)[0] == Verdict.DIFFERS
