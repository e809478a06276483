"""Claims on success and sparsity by dimension: estimates from evidence whose answer is
known."""

import numpy as np
import pytest

from analysis.reproduction.claim import Verdict
from analysis.reproduction.odonnat2024 import sparsity_claims
from tests.analysis.reproduction.evidence_by_hand import dataset, verdicts

DIMS = [2, 3, 4, 8, 16, 32]
RISING = (0.25, 0.5, 0.75, 0.9, 1, 1)


def made(fractions=RISING, slope=-1.0, runs=60):
    """Evidence in which fractions of the runs of each dimension succeed; sparsity
    changes with accuracy."""
    generator = np.random.default_rng(1)
    success = np.arange(runs) < runs * np.array(fractions)[:, None]
    accuracy = np.where(success, 1.0, 0.5) - 0.09 * generator.uniform(
        size=success.shape
    )
    coords = {"dim": DIMS[: len(fractions)]}
    sparsity = 0.5 + slope * (accuracy - 0.75)
    return dataset(
        ("dim", "run"), coords, test_accuracy=accuracy, mean_sparsity=sparsity
    )


@pytest.mark.parametrize(
    ("slope", "verdict"), [(-1, Verdict.HOLDS), (1, Verdict.CONTRADICTED)]
)
def test_verdicts_on_less_and_more_sparse_successes(slope, verdict):
    evidence = made(slope=slope)
    for claim in (sparsity_claims.LESS_SPARSE, sparsity_claims.LESS_SPARSE_ABOVE_2):
        assert set(verdicts(claim, evidence)) == {verdict}


def test_success_by_dimension():
    rising, level = made(), made((0.5,) * 6)
    correlation = sparsity_claims.dimension_correlation(rising)
    assert correlation.interval.low > 0.3
    assert "15 at d = 2" in correlation.note
    assert abs(sparsity_claims.dimension_correlation(level).value) < 1e-9
    success = sparsity_claims.success_from_8(rising)
    assert (success.value, success.count) == (pytest.approx(100 * 174 / 180), 180)
    every = made((0.25, 0.5, 0.75, 1, 1, 1))
    expected = [Verdict.HOLDS, Verdict.AGREES]
    assert verdicts(sparsity_claims.DIMENSION, every) == expected


def test_diverged_runs_and_missing_dimensions_do_not_count():
    evidence = made((0.25, 0.5))
    diverged = evidence.where(evidence["run"] > 9)
    assert sparsity_claims.success_sparsity(diverged, 2).count == 50
    for estimate in (
        sparsity_claims.success_sparsity(evidence, 8),
        sparsity_claims.success_from_8(evidence),
    ):
        assert estimate.count == 0
        assert np.isnan(estimate.value)


def test_measured_runs_of_each_dimension(evidence):
    runs = [
        sparsity_claims.runs_of_dim(evidence["vc.sparsity"], dim).sizes["run"]
        for dim in (2, 3, 16)
    ]
    assert runs == [4, 3, 0]
