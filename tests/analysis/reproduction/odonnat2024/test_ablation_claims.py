"""Claims on VC's ablations: estimates from evidence whose answer is known."""

import itertools

import numpy as np
import pytest
import xarray as xr

from analysis.reproduction.claim import Verdict
from analysis.reproduction.odonnat2024 import ablation_claims
from tests.analysis.reproduction.evidence_by_hand import verdicts


def made(values):
    """Evidence with the same accuracies, (value, run), in each panel."""
    panels = ablation_claims.ABLATION_PANELS
    return xr.Dataset(
        {f"test_{name}": ((name, "run"), values) for name in panels},
        {name: np.arange(len(values)) for name in panels},
    )


def test_the_regularity_is_a_mean_over_all_halves(generator):
    values = generator.normal(size=(5, 6)) + np.arange(5.0)[:, None]
    apart = values - values.mean(axis=0)
    halves = np.array(
        [
            apart[:, list(half)].mean(axis=1)
            for half in itertools.combinations(range(6), 3)
        ]
    )
    others = 2 * apart.mean(axis=1) - halves
    regularity = ablation_claims.regularity_of_means(made(values))
    assert regularity.value == pytest.approx(
        (halves * others).sum() / (halves**2).sum()
    )


def test_the_correlation_of_curves_is_that_of_pairs_of_runs(generator):
    values = generator.normal(size=(7, 4))
    apart = values - values.mean(axis=0)
    pairs = itertools.permutations(range(4), 2)
    shared = np.mean([apart[:, one] @ apart[:, other] for one, other in pairs])
    own = np.mean((apart**2).sum(axis=0))
    assert ablation_claims.curve_correlation(values) == pytest.approx(shared / own)
    assert np.isnan(ablation_claims.curve_correlation(np.ones((5, 8))))


def test_verdicts_on_values_with_and_without_an_effect(generator):
    claim = ablation_claims.REGULARITY
    noise = generator.uniform(size=(13, 60))
    effect = 0.2 * np.sin(np.arange(13.0))[:, None]
    assert verdicts(claim, made(effect + noise)) == [Verdict.HOLDS] * 2
    # a mean of many is smooth, whether values have an effect or not
    assert verdicts(claim, made(noise))[0] == Verdict.OPEN
    smooth = made(10 * effect + noise)
    assert verdicts(claim, smooth) == [Verdict.HOLDS, Verdict.CONTRADICTED]


def test_values_at_which_runs_diverge_are_left_out(generator):
    values = np.sin(np.arange(13.0))[:, None] + generator.uniform(size=(13, 32))
    lost = np.vstack([values, values[:1]])
    lost[-1, 3] = np.nan
    regularity = ablation_claims.regularity_of_means
    assert regularity(made(lost)) == regularity(made(values))
