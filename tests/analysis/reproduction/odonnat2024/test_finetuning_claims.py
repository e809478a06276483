"""Claims on VC's finetuned circuits: estimates and verdicts on evidence whose answer is
known."""

from functools import partial

import numpy as np
import pytest

from analysis.reproduction.odonnat2024 import finetuning_claims
from tests.analysis.reproduction.judging import (
    NO,
    OPEN,
    PARTLY,
    UNTESTABLE,
    YES,
    dataset,
    part_verdicts,
)


def circuits(**changed):
    """Evidence of `vc.finetuning` of four runs."""
    plain = {
        "source_test": [1.0, 1.0, 1.0, 0.6],
        "clusters": [6, 6, 9, 40],
        "coarse_clusters": [6, 6, 6, 30],
        "source_whole": [1, 1, 0, 0],
        "test": [1.0, 0.99, 0.7, 0.4],
        "scratch_test": [0.3, 0.3, 0.3, 1.0],
        "carried": [1, 1, 1, 1],
        "kept": [1, 0, np.nan, np.nan],
        "whole": [1, 1, 0, 0],
        "corrected": [0, 1, 0, 0],
        "scratch_whole": [0, 0, 0, 1],
        "own_distance": [0.1, 0.3, 1, 1],
        "other_distance": [1.0, 1, 1, 1],
        "own_correlation": [0.9, 0.7, 0, 0],
        "other_correlation": [0.1, 0.1, 0, 0],
    }
    attention = changed.pop(
        "attention", [[0.5, 0.4, 0.05], [0.3, 0.4, 0.35], [np.nan] * 3, [np.nan] * 3]
    )
    evidence = dataset("run", **{**plain, **changed}).assign_attrs(
        ideal=6, counting=5, length=12
    )
    return evidence.assign(
        attention=(("run", "token"), attention),
        same_target=("vocabulary", [1000, 1000]),
    )


@pytest.mark.parametrize(
    ("measure", "value", "note"),
    [
        (finetuning_claims.both_invariances, 200 / 3, "of all runs of p = 2: 2 of 4"),
        (partial(finetuning_claims.finetuned_percentage, name="kept"), 50, ""),
        (partial(finetuning_claims.finetuned_percentage, name="carried"), 100, ""),
        (finetuning_claims.start_distance, 20, ""),
        (
            finetuning_claims.attention_correlation,
            0.8,
            "0.10 with the starts of other runs",
        ),
        (
            finetuning_claims.attention_on_old,
            50,
            "mean attention on old tokens: 80%; if it were uniform: 28%",
        ),
        (
            partial(
                finetuning_claims.finetuned_percentage,
                name="corrected",
                of=finetuning_claims.ACCURATE,
            ),
            50,
            "",
        ),
        (
            finetuning_claims.invariance_gain,
            25,
            "2 of 4 finetuned, 1 of 4 from scratch",
        ),
        (finetuning_claims.same_target, 100, ""),
        (
            finetuning_claims.perfect_from_ideal,
            100,
            "1 of 1 started from 6 clusters; at twice the link length 1 from 6",
        ),
        (
            partial(
                finetuning_claims.finetuned_percentage,
                name="source_whole",
                of=finetuning_claims.PERFECT,
                interval=False,
            ),
            100,
            "",
        ),
    ],
)
def test_estimates_from_four_circuits(measure, value, note):
    estimate = measure(circuits())
    assert (estimate.value, estimate.note) == (pytest.approx(value), note)


def test_one_exception_refutes_that_only_ideal_circuits_transfer():
    other = circuits(test=[1.0, 0.99, 1.0, 0.4])
    estimate = finetuning_claims.perfect_from_ideal(other)
    assert (estimate.value, estimate.count) == (50, 2)
    assert np.isnan(estimate.interval.high)  # a single exception decides
    assert (
        estimate.note
        == "1 of 2 started from 6 clusters, others from 9; at twice the link length 2"
        " from 6"
    )
    only = "VC.s4.2.six-clusters-only"
    assert part_verdicts(only, other)[:2] == [NO, NO]
    assert part_verdicts(only, circuits(test=[0.5] * 4))[:2] == [UNTESTABLE] * 2


def test_sources_with_both_invariances_become_perfect_more_often():
    whole = np.arange(100) < 30
    sources = dataset("run", source_whole=whole, test=np.where(whole, 1.0, 0.9))
    estimate = finetuning_claims.perfect_sources(sources)
    assert estimate.value == 100
    assert estimate.note == (
        "30 of 30 sources with both invariances become perfect, 0 of 70 others"
    )


def test_without_accurate_runs_there_is_no_estimate():
    failed = circuits(test=[0.4] * 4, attention=[[np.nan] * 3] * 4)
    for measure in (
        finetuning_claims.start_distance,
        finetuning_claims.attention_correlation,
        finetuning_claims.attention_on_old,
    ):
        assert np.isnan(measure(failed).value)
        assert measure(failed).note == "there are no finetuned runs above .98"


@pytest.mark.parametrize(
    ("name", "changed", "expected"),
    [
        ("VC.s4.2.both-invariances", {}, [YES]),
        (
            "VC.s4.2.both-invariances",
            {"source_whole": [0] * 4},
            [OPEN],
        ),  # the bound is ours
        ("VC.figure11.embeddings", {"own_distance": [0.8, 0.9, 1, 1]}, [OPEN]),
        ("VC.figure11.embeddings", {"own_distance": [0.43, 0.45, 1, 1]}, [PARTLY]),
        ("VC.figure11.embeddings", {}, [YES]),
        ("VC.figure11.corrected", {}, [YES]),
        ("VC.figure11.corrected", {"corrected": [0] * 4}, [NO]),
        ("VC.s4.2.any-p", {}, [YES, NO]),
        ("VC.s4.2.any-p", {"kept": [1, 1, 1, np.nan]}, [YES] * 2),
        ("CH.summary.robust-invariants", {}, [YES]),
        ("CH.summary.robust-invariants", {"whole": [0] * 4}, [NO]),
        ("CH.summary.robust-invariants", {"whole": [0, 0, 0, 1]}, [OPEN]),
    ],
)
def test_verdicts_on_true_false_and_marginal_evidence(name, changed, expected):
    many = circuits(**changed).isel(run=np.arange(4).repeat(60))
    assert part_verdicts(name, many.isel(vocabulary=[0])) == expected


def test_few_runs_without_circuits_are_undecided():
    none = dataset("run", whole=np.zeros(24), scratch_whole=np.zeros(24))
    estimate = finetuning_claims.invariance_gain(none)
    assert estimate.interval.low < -10 < 10 < estimate.interval.high
    assert part_verdicts("CH.summary.robust-invariants", none) == [OPEN]


def sources(counts, test):
    return dataset("run", clusters=counts, test=test, source_test=np.ones(len(test)))


def test_verdicts_on_clusters_as_predictors_of_transfer(generator):
    counts, falling = np.arange(6, 26), np.linspace(1, 0.95, 20)
    predicting = sources(counts, falling)
    assert part_verdicts("OWN.clusters-transfer", predicting) == [YES] * 3
    assert (
        finetuning_claims.cluster_correlation(predicting, successful=True).interval.high
        < -0.9
    )
    assert (
        finetuning_claims.fewer_clusters_probability(predicting, successful=True).value
        == 1
    )
    shuffled = sources(counts, generator.permutation(falling))
    assert (
        abs(finetuning_claims.cluster_correlation(shuffled, successful=False).value)
        < 0.6
    )
    assert (
        part_verdicts("OWN.clusters-transfer", sources(counts[::-1], falling))
        == [NO] * 3
    )
    assert (
        "too few"
        in finetuning_claims.cluster_correlation(
            sources(counts * 0 + 6, falling), True
        ).note
    )
    assert np.isnan(
        finetuning_claims.fewer_clusters_probability(
            sources(counts, np.full(20, 0.4)), True
        ).value
    )
