"""Criteria: their verdicts on estimates whose verdict is known, and how often they err."""

import math
from functools import cache

import numpy as np
import pytest

from analysis.reproduction.verification.criteria import (
    Above,
    Agrees,
    Below,
    Every,
    Exists,
    Nearly,
    Verdict,
    Within,
    combine_verdicts,
    difference_from_reported,
    judge_estimate,
)
from analysis.reproduction.verification.estimate import (
    Estimate,
    as_percentage,
    percentage,
    reported_count,
    reported_number,
)
from analysis.statistics.intervals import NO_INTERVAL, Interval, binomial_interval, mean_interval

YES, PARTLY, NO, OPEN = Verdict.REPRODUCED, Verdict.PARTLY, Verdict.NOT, Verdict.UNDECIDED


def found(value, low, high, count=100):
    return Estimate(Interval(value, low, high), count)


@pytest.mark.parametrize(
    ("finding", "verdict"),
    [
        (found(31.4, 28.0, 34.8), YES),  # close, and no more apart than by chance
        (found(37.0, 25.0, 49.0), OPEN),  # may be the same, may be far
        (found(35.0, 34.9, 35.1), YES),
        (found(36.0, 35.9, 36.1), PARTLY),  # certain to differ, but by little
        (found(45.0, 40.0, 50.0), NO),
    ],
)
def test_agreement_with_a_number(finding, verdict):
    assert judge_estimate(Agrees(reported_number("31.6 ± 4.0"), 5), finding).verdict == verdict


@pytest.mark.parametrize(
    ("finding", "verdict"),
    [
        (found(3, 1, 5), YES),
        (found(0.3, 0.1, 0.5), PARTLY),  # in the stated direction, but less than the minimum effect
        (found(1, -1, 3), OPEN),
        (found(-1, -3, 1), OPEN),  # against it, but an effect of the size of the margin is not excluded
        (found(0, -0.2, 0.4), NO),  # an effect as large as the margin is excluded
        (found(-3, -5, -1), NO),
    ],
)
def test_more_and_less_than_a_bound(finding, verdict):
    assert judge_estimate(Above(0, minimum=0.5), finding).verdict == verdict
    value, low, high = finding.interval
    assert judge_estimate(Below(0, minimum=0.5), found(-value, -high, -low)).verdict == verdict
    assert judge_estimate(Above(7, minimum=0.5), found(value + 7, low + 7, high + 7)).verdict == verdict


@pytest.mark.parametrize("criterion", [Above(50, ours=True), Within(50, 100, ours=True)])
def test_a_bound_that_we_chose_contradicts_no_paper(criterion):
    assert judge_estimate(criterion, found(60, 55, 65)).verdict == YES
    assert judge_estimate(criterion, found(40, 35, 45)).verdict == OPEN


def test_ranges():
    rule = Within(-2, 2)
    assert judge_estimate(rule, found(0, -1, 1)).verdict == YES
    assert judge_estimate(rule, found(0, -1, 3)).verdict == OPEN
    assert judge_estimate(rule, found(5, 3, 7)).verdict == NO


def test_all_without_exception():
    assert judge_estimate(Every(), percentage(33, 33)).verdict == YES
    assert judge_estimate(Every(), percentage(5, 5)).verdict == OPEN  # too few
    assert judge_estimate(Every(), percentage(999, 1000)).verdict == NO
    assert judge_estimate(Every(), percentage(1, 2)).verdict == NO


def test_all_with_rare_exceptions():
    assert judge_estimate(Nearly(), percentage(33, 33)).verdict == YES
    assert judge_estimate(Nearly(), percentage(5, 5)).verdict == OPEN
    assert judge_estimate(Nearly(), percentage(97, 100)).verdict == PARTLY
    assert judge_estimate(Nearly(), percentage(1, 2)).verdict == PARTLY
    assert judge_estimate(Nearly(), percentage(12, 20)).verdict == NO
    assert judge_estimate(Nearly(), percentage(80, 100)).verdict == NO


def test_one_case_is_enough_where_one_is_claimed():
    assert judge_estimate(Exists(), percentage(1, 100)).verdict == YES
    assert judge_estimate(Exists(), percentage(0, 10)).verdict == OPEN
    assert judge_estimate(Exists(), percentage(0, 100)).verdict == NO


@pytest.mark.parametrize("rule", [Agrees(reported_number("31.6 ± 4.0"), 5), Above(3), Below(3), Within(2, 4), Nearly()])
@pytest.mark.parametrize("value", [3.5, 60.0])
def test_a_single_case_cannot_tell(rule, value):
    assert judge_estimate(rule, found(value, math.nan, math.nan, 1)).verdict == OPEN


def test_nothing_to_measure_is_no_verdict():
    judgement = judge_estimate(Above(0), Estimate(NO_INTERVAL, 0, note="no circle among 100 runs"))
    assert judgement.verdict == Verdict.UNTESTABLE
    assert judgement.reason == "no circle among 100 runs"


def test_what_is_not_measured_at_a_size_is_no_verdict():
    judgement = judge_estimate(Above(0), Estimate(NO_INTERVAL, 0, note="d = 32 takes longer", skipped=True))
    assert judgement == (Verdict.SKIPPED, "d = 32 takes longer", NO_INTERVAL)


def test_a_claim_in_parts():
    assert combine_verdicts([YES, YES]) == YES
    assert combine_verdicts([NO, NO]) == NO
    assert combine_verdicts([YES, NO]) == PARTLY
    assert combine_verdicts([YES, Verdict.UNTESTABLE]) == YES
    assert combine_verdicts([Verdict.UNTESTABLE]) == Verdict.UNTESTABLE
    assert combine_verdicts([YES, OPEN]) == PARTLY
    assert combine_verdicts([NO, OPEN]) == OPEN
    assert combine_verdicts([YES, Verdict.SKIPPED]) == PARTLY
    assert combine_verdicts([NO, Verdict.SKIPPED]) == NO
    assert combine_verdicts([Verdict.SKIPPED, Verdict.SKIPPED]) == Verdict.SKIPPED
    assert combine_verdicts([]) == Verdict.UNTESTABLE


def test_difference_of_symmetric_intervals_adds_in_quadrature():
    difference = difference_from_reported(found(10, 7, 13), reported_number("6 ± 4"))
    assert difference == pytest.approx((4, -1, 9))


def test_difference_of_skewed_intervals_takes_the_sides_that_face_each_other():
    difference = difference_from_reported(found(10, 8, 15), reported_number("6 [5, 9]"))
    assert difference == pytest.approx((4, 4 - math.hypot(2, 3), 4 + math.hypot(5, 1)))


def test_a_number_without_interval_counts_as_exact_as_ours_of_as_many_runs():
    difference = difference_from_reported(found(10, 9, 11, count=400), reported_number("10"))
    assert difference == pytest.approx((0, -math.hypot(1, 2), math.hypot(1, 2)))


def test_ninety_five_of_a_hundred_true_counts_agree(generator):
    """Both are of 100 runs of the same chance: no more than the nominal share is called further apart."""
    ours = cache(lambda count: Estimate(as_percentage(binomial_interval(count, 100)), 100))
    theirs, outside = cache(reported_count), 0
    for _ in range(400):
        one, other = map(int, generator.binomial(100, 0.17, 2))
        difference = difference_from_reported(ours(one), theirs(other))
        outside += not difference.low <= 0 <= difference.high
    assert outside <= 0.05 * 400 + 3 * math.sqrt(0.05 * 0.95 * 400)


def test_ninety_five_of_a_hundred_true_means_agree(generator):
    outside = 0
    for _ in range(400):
        ours, theirs = generator.normal(30, 20, (2, 100))
        paper = mean_interval(theirs)
        difference = difference_from_reported(
            Estimate(mean_interval(ours), 100), reported_number(f"{paper.value} ± {paper.half}")
        )
        outside += not difference.low <= 0 <= difference.high
    assert abs(outside - 0.05 * 400) <= 3 * math.sqrt(0.05 * 0.95 * 400)


def test_a_difference_that_matters_is_seen(generator):
    """A mean 15 away, of values that spread by 20, with 100 runs each."""
    seen = 0
    for _ in range(50):
        ours, theirs = generator.normal(45, 20, 100), generator.normal(30, 20, 100)
        paper = mean_interval(theirs)
        rule = Agrees(reported_number(f"{paper.value} ± {paper.half}"), 5)
        seen += judge_estimate(rule, Estimate(mean_interval(ours), 100)).verdict == NO
    assert seen >= 48


def test_words_name_the_criterion():
    assert Agrees(reported_count(17), 10).words() == "agrees with 17 of 100 up to 10"
    assert [Above(0.5).words(), Below(3).words(), Within(0, 10).words()] == ["above 0.5", "below 3", "from 0 to 10"]


def test_an_interval_on_the_other_side_of_zero_is_not_hidden_by_nan():
    assert np.isnan(judge_estimate(Above(0), found(math.nan, math.nan, math.nan)).difference.value)
