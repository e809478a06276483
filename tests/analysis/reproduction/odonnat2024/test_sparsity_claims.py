"""Claims on success and sparsity by dimension: estimates and verdicts on evidence whose
answer is known."""

import numpy as np
import pytest

from analysis.reproduction.odonnat2024 import sparsity_claims
from analysis.statistics.intervals import Interval
from tests.analysis.reproduction.judging import (
    NO,
    OPEN,
    PARTLY,
    YES,
    made_evidence,
    verdicts,
)

DIMS = (2, 3, 4, 8, 16, 32)


def made(fractions, slope=-1.0, noise=0.0, gap=0.1, runs=60):
    """Evidence in which fractions of the runs of each dimension succeed; sparsity
    changes with accuracy."""
    generator = np.random.default_rng(1)
    success = (np.arange(runs) * np.array(fractions)[:, None]) % 1 + np.array(
        fractions
    )[:, None] > 1 - 1e-9
    accuracy = np.where(success, 1.0, 0.5) - 0.1 * generator.uniform(
        0, 0.9, success.shape
    )
    level = (
        0.5
        + 0.3 * slope * (accuracy - 0.75)
        + noise * generator.standard_normal(success.shape)
    )
    eps = np.logspace(-5, 2, 141)
    curve = np.repeat(level[..., None], len(eps), axis=-1)
    curve[..., 0], curve[..., -1] = 0.0, 1.0
    sign = np.sign(slope)
    columns = {
        "dim run eps": {"sparsity": curve},
        "dim eps": {"effect": sign, "p_value": 0.001},
        "dim run": {
            "mean_sparsity": level,
            "train_accuracy": accuracy,
            "test_accuracy": accuracy,
            "unseen_accuracy": accuracy - gap * (1 + level),
        },
    }
    return made_evidence(
        {"dim": list(DIMS[: len(fractions)]), "run": runs, "eps": eps}, columns
    )


RISING, LEVEL = (0.25, 0.5, 0.75, 1, 1, 1), (0.5,) * 6

# A claim that is not named has the first verdict.
CASES = {
    "true": (
        made((0.25, 0.5, 0.75, 0.95, 1, 1), slope=-2),
        YES,
        {PARTLY: ["VC.appA.3.all-from-8"]},
    ),
    "sparser": (
        made(RISING, slope=1),
        NO,
        {
            YES: [
                "VC.appA.3.dimension",
                "VC.appA.3.all-from-8",
                "VC.appA.3.generalisation",
                "VC.figure17.range",
            ],
            OPEN: ["VC.figure17.separation", "VC.appA.2.many-neurons"],
        },
    ),
    "no relation": (
        made(LEVEL, noise=10, gap=0),
        NO,
        {
            YES: ["VC.figure17.range", "VC.figure17.whole-range"],
            OPEN: [
                "VC.figure17.separation",
                "VC.figure17.less-sparse",
                "VC.figure17.accuracy",
                "VC.figure20.less-sparse",
                "VC.appA.2.many-neurons",
                "VC.appA.3.dimension",
                "VC.appA.3.generalisation",
            ],
        },
    ),
}


@pytest.mark.parametrize("case", CASES)
def test_verdicts_follow_the_evidence(case):
    evidence, usual, others = CASES[case]
    expected = {name: verdict for verdict, names in others.items() for name in names}
    results = verdicts(evidence, "vc.sparsity")
    assert results == dict.fromkeys(results, usual) | expected


def test_inactive_units_contradict_the_range():
    evidence = made(RISING)
    evidence["sparsity"][..., 0] += 0.07 + 0.01 * evidence["test_accuracy"]
    assert sparsity_claims.sparsity_at_threshold(evidence, 0).value == pytest.approx(
        7.65, abs=0.2
    )
    assert verdicts(evidence, "vc.sparsity")["VC.figure17.range"] == PARTLY


@pytest.mark.parametrize(("successes", "verdict"), [(20, YES), (19, PARTLY), (6, NO)])
def test_failures_at_eight_dimensions(successes, verdict):
    evidence = made((0.25, 0.5, 0.75, *[successes / 20] * 3), runs=20)
    assert verdicts(evidence, "vc.sparsity")["VC.appA.3.all-from-8"] == verdict


def test_measured_runs_of_each_dimension(evidence):
    data = evidence["vc.sparsity"]
    assert [
        sparsity_claims.runs_of_dim(data, dim).sizes["run"] for dim in (2, 3, 16)
    ] == [
        4,
        3,
        0,
    ]
    one = sparsity_claims.runs_of_dim(data, 3)
    assert all(
        one[f"{split}_accuracy"].notnull().all()
        for split in ("train", "test", "unseen")
    )
    assert (one["sparsity"].diff("eps") >= 0).all()


def test_success_by_dimension():
    rising, level = made(RISING), made(LEVEL)
    correlation = sparsity_claims.dimension_correlation(rising)
    assert correlation.interval.low > 0.3
    assert "15 of 60 at d = 2" in correlation.note
    assert sparsity_claims.success_gain(rising).value == pytest.approx(75)
    assert abs(sparsity_claims.dimension_correlation(level).value) < 1e-9
    assert sparsity_claims.success_gain(level).value == pytest.approx(0)
    assert sparsity_claims.generalisation_gap(
        made(RISING, slope=0, noise=0.01)
    ).value == pytest.approx(15, abs=0.1)


def test_active_units_of_successful_and_other_runs():
    evidence = made((0.5,), slope=0, noise=0)
    evidence["sparsity"] += 0.2 * (evidence["test_accuracy"] < 0.9)
    gain = sparsity_claims.active_units_gain(evidence)
    assert (gain.value, gain.count) == (pytest.approx(20), 60)


def test_dimensions_without_runs_have_no_estimate():
    evidence = made((0.25,))
    for missing in (
        sparsity_claims.success_at_dim(evidence, 8),
        sparsity_claims.success_sparsity(evidence, dim=8),
    ):
        assert missing.skipped
        assert "not run" in missing.note
    assert not sparsity_claims.success_at_dim(evidence, 2).skipped
    assert np.isnan(sparsity_claims.success_gain(evidence).value)
    diverged = evidence.where(evidence["run"] > 9)
    assert (
        sparsity_claims.success_at_dim(diverged, 2).count
        == sparsity_claims.runs_of_dim(diverged, 2).sizes["run"]
        == 50
    )
    assert (
        sparsity_claims.success_at_dim(evidence.where(evidence["run"] < 0), 2).note
        == "all runs diverged"
    )


def test_thresholds_without_a_significant_difference_are_no_exceptions():
    evidence = made((0.5,))
    eps = evidence["eps"]
    inside = (eps > 9e-4) & (eps < 10.1)
    unsure = evidence.assign(p_value=evidence["p_value"].where(eps < 1, 0.5))
    bounds = sparsity_claims.less_sparse_thresholds(unsure).interval
    percent = 100 * float((inside & (eps < 1)).sum() / inside.sum())
    assert bounds == pytest.approx(Interval(percent, percent, 100))
    opposite = sparsity_claims.less_sparse_thresholds(
        unsure.assign(effect=evidence["effect"].where(eps > 1e-2, 1.0))
    ).interval
    assert opposite.value < percent
    assert opposite.high == pytest.approx(opposite.value + 100 - percent)
    undefined = evidence.assign(p_value=evidence["p_value"] * np.nan)
    assert np.isnan(sparsity_claims.less_sparse_thresholds(undefined).value)
