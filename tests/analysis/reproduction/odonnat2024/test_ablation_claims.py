"""Claims on VC's ablations: estimates and verdicts on evidence whose answer is
known."""

import itertools

import numpy as np
import pytest
import xarray as xr

from analysis.reproduction.odonnat2024 import ablation_claims
from tests.analysis.reproduction.judging import NO, OPEN, YES, part_verdict


def panel(values, largest=1.0):
    """Evidence of a panel of learning rates, (value, run), each half the one before."""
    return xr.Dataset(
        {"test_lr": (("lr", "run"), values)},
        {"lr": largest * 0.5 ** np.arange(len(values))},
    )


def regularity(values):
    return ablation_claims.panel_regularity(panel(values), "lr")


def test_percentage_of_accuracy_jumps():
    estimate = ablation_claims.accuracy_jumps(
        panel([[0.5, 0.5], [1.0, 0.55], [0.5, np.nan]]), "lr"
    )
    assert (estimate.value, estimate.count) == (pytest.approx(200 / 3), 3)
    assert estimate.note == "2 of 2 steps from 0.25 to 1; 2 of 2 in the first run"
    assert (
        ablation_claims.accuracy_jumps(panel([[1.0, 1.0], [1.0, 0.95]]), "lr").value
        == 0
    )


def test_steps_between_values_at_which_all_runs_fail_are_left_out():
    failing = [[0.5, 0.5], [0.52, 0.5], [1.0, 0.5], [0.5, 0.5], [0.5, 0.7]]
    estimate = ablation_claims.accuracy_jumps(panel(failing), "lr")
    assert (estimate.value, estimate.count) == (50, 4)
    none = ablation_claims.accuracy_jumps(panel(failing[:2]), "lr")
    assert (none.count, none.note) == (0, "at no value enough runs are successful")


@pytest.mark.parametrize(("every", "expected"), [(2, YES), (8, OPEN), (40, OPEN)])
def test_verdicts_on_frequent_marginal_and_rare_jumps(every, expected):
    """One step in `every` is a jump; the bound of 10% is ours."""
    steps = (np.arange(40 * 20).reshape(40, 20) * 7 % every == 0).cumsum(axis=0) % 2
    assert part_verdict("VC.figure6.variability", panel(steps), part=2) == expected


def test_verdicts_on_the_regularity_of_means(generator):
    noise = generator.uniform(
        size=(13, 32)
    )  # a mean of 32 is smooth, whether values have an effect or not
    assert part_verdict("VC.figure7.regular", panel(noise), part=2) == OPEN
    offset = generator.uniform(size=(1, 400)) + 0.1 * generator.uniform(
        size=(13, 400)
    )  # good runs, not good values
    assert part_verdict("VC.figure7.regular", panel(offset), part=2) == OPEN
    wave = np.sin(np.arange(13.0))[:, None] * 0.3 + noise
    assert part_verdict("VC.figure7.regular", panel(wave), part=2) == YES
    assert regularity(wave).interval.high <= 1
    value, low, _ = regularity(np.repeat(noise[:, :1], 8, axis=1)).interval
    assert value == pytest.approx(1)
    assert np.isnan(low)


def test_the_regularity_leaves_out_what_diverged(generator):
    wave = np.sin(np.arange(13.0))[:, None] + generator.uniform(size=(13, 32))
    lost = np.vstack([wave, np.full((1, 32), np.nan)])
    assert regularity(lost).interval == regularity(wave).interval
    lost[0, 3] = np.nan
    assert regularity(lost).count == 31
    for values in (lost[-3:], np.ones((5, 8))):
        assert np.isnan(regularity(values).value)


def test_regularity_is_a_mean_over_all_halves(generator):
    values = generator.normal(size=(5, 6)) + np.arange(5.0)[:, None]
    apart = values - values.mean(axis=0)
    halves = np.array(
        [
            apart[:, list(half)].mean(axis=1)
            for half in itertools.combinations(range(6), 3)
        ]
    )
    others = 2 * apart.mean(axis=1) - halves
    assert regularity(values).value == pytest.approx(
        (halves * others).sum() / (halves**2).sum()
    )


@pytest.mark.parametrize(("at", "expected"), [(0, NO), (4, YES), (None, OPEN)])
def test_verdicts_on_the_best_value(at, expected, generator):
    """Learning rates are .048, .024, ..., so that the recipe's .003 is the fifth
    value."""
    values = 0.3 * generator.uniform(size=(9, 60))
    if at is not None:
        values[at] += 0.3
    assert part_verdict("OWN.recipe-optimum", panel(values, 0.048), part=2) == expected


def test_the_best_value_is_that_of_runs_that_have_not_diverged(generator):
    values = 0.1 * generator.uniform(size=(5, 40))
    values[2] += 0.1
    assert ablation_claims.best_value(panel(values), "lr").interval == (
        0.25,
        0.25,
        0.25,
    )
    assert ablation_claims.best_value(panel(values[2:]), "lr").note.endswith(
        "at the end of the range"
    )
    values[2, 1:] = np.nan
    assert ablation_claims.best_value(panel(values), "lr").value != 0.25
    assert np.isnan(ablation_claims.best_value(panel(values * np.nan), "lr").value)


def test_percentage_of_equal_initial_losses():
    losses = {
        f"first_loss_{name}": ((name, "run"), [[0.7, 0.8], [0.7, 0.8]])
        for name in ablation_claims.SAME_START
    }
    assert ablation_claims.same_initial_loss(xr.Dataset(losses)).value == 100
    losses["first_loss_lr"] = (("lr", "run"), [[0.7, 0.8], [0.7, 0.81]])
    assert ablation_claims.same_initial_loss(xr.Dataset(losses)).value == 50
