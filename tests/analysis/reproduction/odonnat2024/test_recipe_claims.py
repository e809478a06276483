"""Ends of the same initial weights with other hyperparameters."""

import numpy as np
import pytest

from analysis.reproduction.claim import Verdict
from analysis.reproduction.odonnat2024 import recipe_claims
from tests.analysis.reproduction.conftest import RUNNER, SIZES
from tests.analysis.reproduction.evidence_by_hand import dataset, verdicts


@pytest.mark.parametrize(
    ("distance", "verdict"), [(0.9, Verdict.HOLDS), (1.5, Verdict.CONTRADICTED)]
)
def test_verdicts_on_the_ends_of_the_same_start(distance, verdict, generator):
    noise, other = 0.01 * generator.normal(size=(2, 2, 40))
    ends = {
        "own_weight_distance": distance + noise,
        "own_attention_correlation": 1.3 - distance + noise,
        "other_weight_distance": 1.3 + other,
        "other_attention_correlation": other,
    }
    evidence = dataset(("change", "run"), **ends)
    assert verdicts(recipe_claims.FINAL_WEIGHTS, evidence) == [verdict] * 3
    estimate = recipe_claims.end_similarity(evidence, "weight_distance")
    assert estimate.value == pytest.approx(distance - 1.3, abs=0.01)


def test_runs_end_alike_with_the_same_hyperparameters(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    same = SIZES["vc.relatives"] | {"changes": [{"lr": 0.02}], "epochs": 5}
    evidence = recipe_claims.measure(RUNNER, same)
    np.testing.assert_allclose(evidence["own_weight_distance"], 0)
    np.testing.assert_allclose(evidence["own_attention_correlation"], 1)
    assert (evidence["other_weight_distance"] > 0.5).all()
