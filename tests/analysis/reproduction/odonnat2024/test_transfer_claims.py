"""Claims on VC's larger vocabularies: estimates and verdicts on evidence whose answer
is known."""

import numpy as np
import pytest
import xarray as xr

from analysis.reproduction.odonnat2024 import transfer_claims
from tests.analysis.reproduction.judging import NO, OPEN, PARTLY, YES, part_verdicts


def accuracies(values, vocabs=(2, 3)):
    """Evidence of `vc.transfer`: (kind, vocab, run) by kind."""
    test = np.full((4, len(vocabs), len(values[0][0])), np.nan)
    for kind, rows in enumerate(values):
        test[kind, : len(rows)] = rows
    coords = {"kind": list(transfer_claims.TRANSFER_KINDS), "vocab": list(vocabs)}
    return xr.Dataset({"test": (("kind", "vocab", "run"), test)}, coords)


def test_runs_that_learn_from_scratch(generator):
    chance = 1 / 3 + 0.01 * generator.normal(size=30)
    for count in (0, 3):
        data = accuracies(
            [[np.full(30, 0.5), np.where(np.arange(30) < count, 0.9, chance)]]
        )
        assert transfer_claims.learned_runs(data, 3).value == pytest.approx(
            100 * count / 30
        )
        assert transfer_claims.learned_runs(
            data, 3, something=False
        ).value == pytest.approx(100 - 100 * count / 30)
    assert transfer_claims.learned_runs(data, 3).note == "the best run has 90.0%"
    assert np.isnan(transfer_claims.learned_runs(data, 7).value)
    assert (
        transfer_claims.learned_runs(
            accuracies([[[0.5] * 4, [0.3, np.nan, 0.9, np.nan]]]), 3
        ).count
        == 2
    )


@pytest.mark.parametrize(("lucky", "expected"), [(0, YES), (1, PARTLY), (60, NO)])
def test_a_run_that_learns_is_a_rare_exception(lucky, expected):
    values = np.where(np.arange(250) < lucky, 0.8, 0.2)
    data = accuracies([[values, values]], (2, 5))
    assert part_verdicts("VC.s4.2.nothing-above-4", data)[0] == expected


def test_correlation_with_the_vocabulary():
    rows = [
        np.linspace(1, 0.9, 10),
        np.linspace(0.7, 0.6, 10),
        np.linspace(0.3, 0.29, 10),
    ]
    assert (
        transfer_claims.vocabulary_correlation(accuracies([rows], (2, 3, 4))).value
        < -0.9
    )
    assert (
        transfer_claims.vocabulary_correlation(
            accuracies([rows[::-1]], (2, 3, 4))
        ).value
        > 0.5
    )
    assert (
        "fewer than three"
        in transfer_claims.vocabulary_correlation(accuracies([rows[:2]])).note
    )


@pytest.mark.parametrize(
    ("gain", "expected"),
    [(0.2, YES), (0.04, PARTLY), (0.03, OPEN), (0, NO), (-0.2, NO)],
)
def test_verdicts_on_gains_of_finetuning(gain, expected, generator):
    count = 8 if expected == OPEN else 250
    noise = 0.06 * generator.permutation(np.linspace(-1, 1, count))
    scratch, tuned = 0.4 + noise, 0.4 + gain + noise
    data = accuracies(
        [[scratch, scratch], [scratch, scratch], [scratch * np.nan, tuned]]
    )
    estimate = transfer_claims.finetuning_gain(data, 3)
    assert estimate.value == pytest.approx(100 * gain)
    assert set(part_verdicts("VC.s4.2.finetuning-p3", data)) == {expected}
    assert transfer_claims.finetuning_gain(
        data, 3, over=transfer_claims.LONG
    ).effect == pytest.approx(gain / noise.std(ddof=1))


@pytest.mark.parametrize(("best", "percentage"), [(0.81, 0.0), (0.92, 50.0)])
def test_runs_better_than_all_from_scratch(best, percentage):
    data = accuracies(
        [
            [[0.5] * 4, [0.3, 0.3, 0.3, 0.8]],
            [[0.5] * 4, [0.3, 0.3, 0.3, 0.805]],
            [[np.nan] * 4, [0.3, 0.3, best, best]],
        ]
    )
    assert transfer_claims.better_than_all(data, 3).value == percentage


@pytest.mark.parametrize(("best", "expected"), [(1, YES), (0.995, YES), (0.9, NO)])
def test_a_tie_with_a_perfect_run_is_at_least_equal(best, expected):
    data = accuracies(
        [
            [[0.5] * 90, [1.0] * 90],
            [[0.5] * 90, [1.0] * 90],
            [[np.nan] * 90, [0.3] * 89 + [best]],
        ]
    )
    assert part_verdicts("VC.figure9.maximum", data)[0] == expected
    assert "equal" in transfer_claims.better_than_all(data, 3).note
