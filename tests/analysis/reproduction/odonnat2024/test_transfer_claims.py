"""Claims on VC's larger vocabularies: estimates from evidence whose answer is known."""

import numpy as np
import pytest
import xarray as xr

from analysis.clustering_heads import vocabulary_transfer
from analysis.reproduction.claim import Verdict
from analysis.reproduction.odonnat2024 import transfer_claims
from tests.analysis.reproduction.evidence_by_hand import verdicts

KINDS = list(vocabulary_transfer.TRANSFER_KINDS)


def accuracies(vocab, **by_kind):
    """Evidence of one vocabulary: accuracies by kind, (run,)."""
    names = {"scratch": 0, "long": 1, "finetuned": 2}
    runs = len(next(iter(by_kind.values())))
    test = np.full((len(KINDS), 1, runs), np.nan)
    for name, values in by_kind.items():
        test[names[name], 0] = values
    coords = {"kind": KINDS, "vocab": [vocab]}
    return xr.Dataset({"test": (("kind", "vocab", "run"), test)}, coords)


@pytest.mark.parametrize("gain", [0.2, -0.2])
def test_gains_of_finetuning(gain, generator):
    long = 0.4 + 0.06 * generator.permutation(np.linspace(-1, 1, 250))
    evidence = accuracies(3, long=long, finetuned=long + gain)
    estimate = transfer_claims.finetuning_gain(evidence, 3)
    assert estimate.value == pytest.approx(100 * gain)
    assert np.sign(estimate.interval.low) == np.sign(estimate.interval.high)
    assert np.isnan(transfer_claims.finetuning_gain(evidence, 4).value)


@pytest.mark.parametrize("lucky", [0, 1, 60])
def test_runs_that_guess_learn_nothing(lucky, generator):
    guesses = generator.binomial(2048, 0.2, 250) / 2048
    values = np.where(np.arange(250) < lucky, 0.3, guesses)
    values[-1] = np.nan
    evidence = accuracies(5, scratch=values)
    estimate = transfer_claims.runs_without_learning(evidence, [5, 6])
    assert estimate.value == pytest.approx(100 * (249 - lucky) / 249)
    assert estimate.count == 249
    none = transfer_claims.runs_without_learning(evidence, [7])
    assert (none.count, none.note) == (0, "there are no runs")


def test_a_run_that_learns_is_an_exception():
    guesses = np.full(250, 0.2)
    evidence = accuracies(5, scratch=guesses)
    claim = transfer_claims.NOTHING_ABOVE_4
    assert verdicts(claim, evidence)[:2] == [Verdict.AGREES] * 2
    guesses[0] = 0.5
    evidence = accuracies(5, scratch=guesses)
    assert verdicts(claim, evidence)[:2] == [Verdict.DIFFERS] * 2
