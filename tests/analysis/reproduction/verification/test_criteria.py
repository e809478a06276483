"""Criteria: their verdicts on estimates whose verdict is known, and how often they
err."""

from functools import cache

import numpy as np
import pytest
from analysis.reproduction.rule import (
    Above,
    Agrees,
    Below,
    Every,
    Exists,
    Nearly,
    Verdict,
    Within,
)
from analysis.reproduction.verification import criteria

from analysis.reproduction.estimates import (
    Estimate,
    as_percentage,
    percentage,
    reported_count,
    reported_number,
)
from analysis.statistics.intervals import (
    NO_INTERVAL,
    Interval,
    binomial_interval,
    mean_interval,
)
from tests.analysis.reproduction.judging import NO, OPEN, PARTLY, UNTESTABLE, YES

SKIPPED = Verdict.SKIPPED
NUMBER = Agrees(reported_number("31.6 ± 4.0"), 5)


def estimate_of(value, low, high, count=100):
    return Estimate(Interval(value, low, high), count)


CASES = [
    (
        NUMBER,
        estimate_of(31.4, 28.0, 34.8),
        YES,
    ),  # close, and no more apart than by chance
    (NUMBER, estimate_of(37.0, 25.0, 49.0), OPEN),  # may be the same, may be far
    (NUMBER, estimate_of(35.0, 34.9, 35.1), YES),
    (NUMBER, estimate_of(36.0, 35.9, 36.1), PARTLY),  # certain to differ, but by little
    (NUMBER, estimate_of(45.0, 40.0, 50.0), NO),
    (Within(-2, 2), estimate_of(0, -1, 1), YES),
    (Within(-2, 2), estimate_of(0, -1, 3), OPEN),
    (Within(-2, 2), estimate_of(5, 3, 7), NO),
    *[
        (item, estimate_of(60, 55, 65), YES)
        for item in (Above(50, ours=True), Within(50, 100, ours=True))
    ],
    *[
        (item, estimate_of(40, 35, 45), OPEN)
        for item in (Above(50, ours=True), Within(50, 100, ours=True))
    ],
    (Every(), percentage(33, 33), YES),
    (Every(), percentage(5, 5), OPEN),  # too few
    (Every(), percentage(999, 1000), NO),
    (Every(), percentage(1, 2), NO),
    (Nearly(), percentage(33, 33), YES),
    (Nearly(), percentage(5, 5), OPEN),
    (Nearly(), percentage(97, 100), PARTLY),
    (Nearly(), percentage(1, 2), PARTLY),
    (Nearly(), percentage(12, 20), NO),
    (Nearly(), percentage(80, 100), NO),
    (Exists(), percentage(1, 100), YES),
    (Exists(), percentage(0, 10), OPEN),
    (Exists(), percentage(0, 100), NO),
]


@pytest.mark.parametrize(("criterion", "finding", "expected"), CASES)
def test_verdicts_of_criteria(criterion, finding, expected):
    assert criteria.judge_estimate(criterion, finding).verdict == expected


EFFECTS = [
    ((3, 1, 5), YES),
    (
        (0.3, 0.1, 0.5),
        PARTLY,
    ),  # in the stated direction, but the number is less than the minimum effect
    (
        (0.3, 0.1, 0.49),
        PARTLY,
    ),  # in the stated direction, and the minimum effect, which is ours, is excluded
    ((1, -1, 3), OPEN),
    ((-1, -3, 1), OPEN),  # against it, but the minimum effect is not excluded
    ((0, -0.2, 0.4), NO),  # the minimum effect is excluded
    ((-3, -5, -1), NO),
]


def test_a_number_nearer_to_the_contrary_contradicts_our_bound():
    """Distances of weights: below .5 counts as alike, 1.4 is that of unrelated ones."""
    alike = Below(0.5, 0.1, ours=True, contrary=1.4)
    for value, expected in ((0.3, YES), (0.45, PARTLY), (0.7, OPEN), (1.2, NO)):
        estimate = estimate_of(value, value - 0.04, value + 0.04)
        assert criteria.judge_estimate(alike, estimate).verdict == expected
    without = Below(0.5, 0.1, ours=True)
    assert criteria.judge_estimate(without, estimate).verdict == OPEN


@pytest.mark.parametrize(("interval", "expected"), EFFECTS)
def test_more_and_less_than_a_bound(interval, expected):
    value, low, high = interval
    assert (
        criteria.judge_estimate(Above(0, minimum=0.5), estimate_of(*interval)).verdict
        == expected
    )
    assert (
        criteria.judge_estimate(
            Below(0, minimum=0.5), estimate_of(-value, -high, -low)
        ).verdict
        == expected
    )
    assert (
        criteria.judge_estimate(
            Above(7, minimum=0.5), estimate_of(value + 7, low + 7, high + 7)
        ).verdict
        == expected
    )
    ours = criteria.judge_estimate(
        Above(0, minimum=0.5, ours=True), estimate_of(*interval)
    )
    assert ours.verdict == (OPEN if expected is NO else expected)
    assert ours.reason == (criteria.OUTSIDE if expected is NO else "")


@pytest.mark.parametrize(
    "criterion", [NUMBER, Above(3), Below(3), Within(2, 4), Nearly()]
)
@pytest.mark.parametrize("value", [3.5, 60.0])
def test_a_single_case_is_undecided(criterion, value):
    assert (
        criteria.judge_estimate(
            criterion, estimate_of(value, np.nan, np.nan, 1)
        ).verdict
        == OPEN
    )


@pytest.mark.parametrize(
    ("skipped", "expected"), [(False, UNTESTABLE), (True, SKIPPED)]
)
def test_an_estimate_without_a_value_has_no_verdict(skipped, expected):
    estimate = Estimate(
        NO_INTERVAL, 0, note="no circle among 100 runs", skipped=skipped
    )
    assert criteria.judge_estimate(Above(0), estimate) == (
        expected,
        estimate.note,
        NO_INTERVAL,
    )


PARTS = [
    ([YES, YES], YES),
    ([NO, NO], NO),
    ([YES, NO], PARTLY),
    ([YES, UNTESTABLE], YES),
    ([UNTESTABLE], UNTESTABLE),
    ([YES, OPEN], PARTLY),
    ([NO, OPEN], OPEN),
    ([YES, SKIPPED], PARTLY),
    ([NO, SKIPPED], NO),
    ([SKIPPED, SKIPPED], SKIPPED),
    ([], UNTESTABLE),
]


@pytest.mark.parametrize(("parts", "expected"), PARTS)
def test_verdicts_on_parts_are_combined(parts, expected):
    assert criteria.combine_verdicts(parts) == expected


@pytest.mark.parametrize(
    ("ours", "reported", "expected"),
    [
        (
            estimate_of(10, 7, 13),
            "6 ± 4",
            (4, -1, 9),
        ),  # symmetric intervals add in quadrature
        (
            estimate_of(10, 8, 15),
            "6 [5, 9]",
            (4, 4 - np.hypot(2, 3), 4 + np.hypot(5, 1)),
        ),  # sides that face each other
        (
            estimate_of(10, 9, 11, count=400),
            "10",
            (0, -np.hypot(1, 2), np.hypot(1, 2)),
        ),  # as exact as 100 of our runs
    ],
)
def test_intervals_of_differences_from_reported_numbers(ours, reported, expected):
    assert criteria.difference_from_reported(
        ours, reported_number(reported)
    ) == pytest.approx(expected)


def reported_mean(values):
    mean = mean_interval(values)
    return reported_number(f"{mean.value} ± {mean.half}")


def fraction_of_differences(pairs):
    """Fraction of pairs of our estimate and a reported number whose difference has an
    interval without 0."""
    intervals = [criteria.difference_from_reported(*pair) for pair in pairs]
    return np.mean([not interval.low <= 0 <= interval.high for interval in intervals])


def test_five_percent_of_true_counts_or_means_differ(generator):
    """Both are of 100 runs of the same distribution. Intervals of counts are
    conservative."""
    ours = cache(
        lambda count: Estimate(as_percentage(binomial_interval(count, 100)), 100)
    )
    theirs = cache(reported_count)
    counts = [
        (ours(one), theirs(other))
        for one, other in generator.binomial(100, 0.17, (400, 2)).tolist()
    ]
    chance = 3 * np.sqrt(0.05 * 0.95 / 400)
    assert fraction_of_differences(counts) <= 0.05 + chance
    samples = generator.normal(30, 20, (400, 2, 100))
    means = [
        (Estimate(mean_interval(ours), 100), reported_mean(theirs))
        for ours, theirs in samples
    ]
    assert abs(fraction_of_differences(means) - 0.05) <= chance


WORDS = [
    (Above(0.5), "", "interval above 0.5"),
    (Above(50, 10), "%", "interval above 50%, estimate at least 60%"),
    (Below(1, 0.2), "times", "interval below 1×, estimate at most 0.8×"),
    (Within(0, 10), "epochs", "interval from 0 to 10 epochs"),
    (Exists(), "%", "at least one case expected"),
    (Every(), "%", "no exception expected"),
    (NUMBER, "", "paper: 31.6 ± 4.0, margin 5"),
]


@pytest.mark.parametrize(("criterion", "unit", "expected"), WORDS)
def test_criteria_in_words(criterion, unit, expected):
    assert criterion.words(unit, 1) == expected


@pytest.mark.parametrize(
    ("unit", "interval", "expected"),
    [
        ("%", (17.4, -9.5, 44.4), "17.4% [0.0, 44.4]"),
        ("points", (81, 54.6, 107.5), "81.0 points [54.6, 100.0]"),
        ("%", (134, 130, 138), "134.0% [130.0, 138.0]"),  # a ratio
        ("", (0.9, 0.7, 1.1), "0.9 [0.7, 1.1]"),
    ],
)
def test_intervals_end_at_what_is_possible(unit, interval, expected):
    assert criteria.format_number(Interval(*interval), unit, 1) == expected
