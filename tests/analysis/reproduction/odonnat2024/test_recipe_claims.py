"""Claims on VC's changed hyperparameters: estimates and verdicts on evidence whose
answer is known."""

import numpy as np
import pytest

from analysis.reproduction.odonnat2024 import recipe_claims
from tests.analysis.reproduction.judging import (
    NO,
    OPEN,
    PARTLY,
    YES,
    dataset,
    part_verdicts,
)


def waits(wait, escaped):
    return dataset(("setting", "run"), wait=wait, escaped=escaped)


def test_pairs_of_escape_times_that_are_far_apart():
    wait = [[1.0, 1.0, 1.0, 9.0, 6.0, 9.0], [1.5, 3.0, 9.0, 4.0, 9.0, 9.0]]
    escaped = [
        [True, True, True, False, True, False],
        [True, True, False, True, False, False],
    ]
    estimate = recipe_claims.escape_times_apart(waits(wait, escaped))
    assert (estimate.value, estimate.count) == (
        75,
        4,
    )  # apart: the second, third and fourth; the fifth is unknown
    assert "and 1 of which one escapes too late" in estimate.note


@pytest.mark.parametrize(("noise", "expected"), [(10, YES), (0.05, OPEN), (1.0, OPEN)])
def test_verdicts_on_unpredictable_predictable_and_marginal_escapes(
    noise, expected, generator
):
    wait, other = generator.normal(size=(2, 60))
    data = waits(np.exp([wait, wait + noise * other]), np.ones((2, 60), bool))
    assert part_verdicts("VC.s4.1.time-unpredictable", data) == [
        expected
    ]  # the bound of 0.7 is ours


def test_correlation_of_escape_times(generator):
    wait, escaped = generator.uniform(1, 5, 40), np.ones((2, 40), bool)
    estimate, none = (
        recipe_claims.escape_time_correlation(waits([wait, 2 * wait], ended))
        for ended in (escaped, ~escaped)
    )
    assert estimate.value == pytest.approx(1)
    assert np.isnan(none.value)


@pytest.mark.parametrize(
    ("distance", "correlation", "expected"),
    [(0.3, 0.9, YES), (1.2, 0.4, PARTLY), (1.5, -0.1, NO)],
)
def test_verdicts_on_the_ends_of_the_same_start(
    distance, correlation, expected, generator
):
    noise = 0.01 * generator.normal(size=(2, 40))
    ends = {
        "own_weight_distance": distance + noise,
        "own_attention_correlation": correlation + noise,
        "other_weight_distance": 1.4 + noise,
        "other_attention_correlation": noise,
    }
    data = dataset(("change", "run"), {"change": ["lr 0.005", "batch 64"]}, **ends)
    assert part_verdicts("VC.s4.1.final-weights", data) == [expected] * 2


def test_ends_of_the_same_start():
    distances = {
        "own_weight_distance": [[0.2, 0.4], [0.4, 0.6]],
        "other_weight_distance": [[1.4, 1.4], [1.4, 1.4]],
    }
    data = dataset(("change", "run"), {"change": ["lr 0.005", "batch 64"]}, **distances)
    ends = recipe_claims.end_similarity(data, "weight_distance")
    assert ends.value == pytest.approx(0.4)
    seeds = "between different seeds 1.40, a difference of -1.00 [-2.27, 0.27]"
    assert ends.note == f"0.30 with lr 0.005, 0.50 with batch 64; {seeds}"
    lost = data * np.nan
    assert np.isnan(recipe_claims.end_similarity(lost, "weight_distance").value)
    assert (
        recipe_claims.end_similarity(lost, "weight_distance").note
        == "all runs have diverged"
    )
