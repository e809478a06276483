"""VC section 4.3: estimates and verdicts on spikes whose causes are made up."""

import numpy as np
import pytest

from analysis.reproduction.odonnat2024 import spike_claims
from tests.analysis.reproduction.judging import (
    NO,
    OPEN,
    PARTLY,
    YES,
    dataset,
    part_verdicts,
)

PLAIN = {
    "way": "embedding",
    "input_ratio": 0.1,
    "xi_ratio": 0.2,
    "turn": 0.0,
    "lr": 0.003,
    "remaining_smooth": 0.1,
    "remaining_smooth_alike": 1.0,
    "remaining_half": 0.1,
    "remaining_hundredth": 0.01,
    "remaining_descent": 0.1,
    "remaining_descent_hundredth": -0.01,
    "flip_steps": 0.0,
    "flip_rise": 0.0,
    "largest_input_ratio": 0.2,
    "largest_xi_ratio": 0.3,
    "closeness": 0.9,
    "crossing_distance": 0.1,
    "other_distance": 0.4,
    "crossed_in_step": 0.06,
    "crossed_ordinary": 0.01,
    **{f"{name}_rank": 0.8 for name in spike_claims.RANKED},
}


def made_spikes(causes, of_run, runs=None, **columns):
    """Evidence of spikes with some causes; other measures are plain unless given."""
    columns = {
        "cause": np.array(causes, "U13"),
        "of_run": np.array(of_run, int),
        **PLAIN,
        **columns,
    }
    runs = runs or max(of_run, default=5) + 1
    evidence = dataset(
        "spike",
        **{name: np.resize(column, len(causes)) for name, column in columns.items()},
    )
    return evidence.merge(
        dataset(
            "run",
            spikes=np.bincount(columns["of_run"], minlength=runs),
            escaped=np.arange(runs) % 2 == 0,
            successful=np.arange(runs) % 4 == 0,
        )
    )


def percentages(evidence, *conditions):
    return [
        spike_claims.spike_percentage(evidence, condition).value
        for condition in conditions
    ]


def test_percentages_of_causes():
    data = made_spikes(
        ["feed-forward", "neither", "normalisation", "both", ""],
        [0, 0, 1, 2, 3],
        runs=6,
    )
    assert spike_claims.runs_with_spikes(data).value == pytest.approx(100 * 4 / 6)
    assert percentages(data, "flips", "crossings", "flips or crossings") == [
        50,
        50,
        75,
    ]
    note = "largest update of E + P 0.10 of its length, of xi 0.20; in 3 runs"
    assert spike_claims.spike_percentage(data, "flips").note == note
    calm = made_spikes([], [])
    conditions = (
        "turns",
        "flips",
        "flips over all steps",
        "crossings",
        "flips or crossings",
        "flips, crossings or turns",
        "half step",
        "smooth norm",
    )
    assert np.isnan(percentages(calm, *conditions)).all()
    for name in (
        "crossed_by_embedding",
        "crossing_update",
        "update_in_crossings",
        "mean_assembler_rank",
        "crossing_closeness",
        "misclassified_beyond_ordinary",
    ):
        assert np.isnan(getattr(spike_claims, name)(calm).value)


def test_a_vector_that_turns_far_is_no_flip():
    data = made_spikes(
        ["neither"] * 40, range(40), turn=np.radians(np.repeat([29.0, 31.0], 20))
    )
    assert percentages(data, "flips", "turns", "flips, crossings or turns") == [
        0,
        50,
        50,
    ]
    assert (
        spike_claims.spike_percentage(data, "turns").note
        == "median turn 30.0 degrees; in 40 runs"
    )
    assert part_verdicts("CH.figure5.normalisation", data) == [YES, NO]


def test_spikes_with_crossings_are_averaged_by_run():
    data = made_spikes(
        ["feed-forward"] * 3 + ["neither"],
        [0, 0, 1, 1],
        way=["embedding", "boundary", "embedding", "boundary"],
        xi_ratio=[0.1, 0.3, 0.4, 9.0],
        gain_rank=[0.6, 0.8, 0.9, 0.0],
        remaining_smooth=[0.1, 0.9, 0.1, 0.1],
        remaining_smooth_alike=[1, 1, 0.5, 1],
        remaining_half=[0.1, 0.6, 0.7, 0.9],
        closeness=[0.5, 0.7, 0.8, np.nan],
        crossed_in_step=[0.1, 0.3, 0.4, 0.1],
        crossed_ordinary=[0.0, 0.0, 0.1, 0.2],
    )
    measures = (
        spike_claims.crossed_by_embedding,
        spike_claims.crossing_update,
        spike_claims.misclassified_beyond_ordinary,
    )
    assert [measure(data).value for measure in measures] == pytest.approx(
        [200 / 3, 30, 15]
    )
    rank = spike_claims.mean_assembler_rank(data)
    assert (rank.value, rank.effect) == pytest.approx((80, 0.6))
    assert percentages(data, "smooth norm", "half step") == [50, 25]
    assert (
        spike_claims.spike_percentage(data, "smooth norm").note
        == "3 comparable; in 2 runs"
    )
    assert spike_claims.crossing_closeness(data).value == pytest.approx(70)
    assert (
        spike_claims.crossing_closeness(data).note
        == "median distance 10.0% of |xi|, of others 40.0%"
    )


def test_updates_in_crossings_are_compared_with_those_of_other_spikes():
    data = made_spikes(
        ["feed-forward"] * 4 + ["neither"] * 4,
        [0, 1, 2, 3] * 2,
        xi_ratio=[0.4, 0.1, 0.2, 0.2, 0.1, 0.1, 0.1, 0.1],
    )
    estimate = spike_claims.update_in_crossings(data)
    assert (estimate.value, estimate.count) == (pytest.approx(2), 8)
    assert estimate.note == "medians 20.0% and 10.0%"
    assert 0.5 < estimate.interval.low < 2 < estimate.interval.high < 8
    only = spike_claims.update_in_crossings(made_spikes(["both"] * 4, range(4)))
    assert np.isnan(only.value)


def test_updates_longer_than_either_vector():
    data = made_spikes(
        ["neither"] * 3,
        [0, 0, 2],
        runs=4,
        largest_input_ratio=[0.4, 0.2, 1.5],
        largest_xi_ratio=[0.5, 2.99, np.nan],
    )
    estimate = spike_claims.runs_with_long_updates(data)
    assert estimate.value == 50
    assert estimate.note == (
        "E + P moves by at most 1.50 of its length, by more than its length in 1 runs;"
        " xi moves by at most 2.99 of its length, by more than its length in 1 runs"
    )
    short = made_spikes(["neither"] * 100, range(100))
    assert part_verdicts("VC.s4.3.scheduled-steps", short) == [NO]


def test_behaviours_differ_by_escape_success_and_spikes():
    data = made_spikes(["neither"], [1], runs=4)
    estimate = spike_claims.different_behaviours(data)
    # run 0 escapes and is successful, 1 has the spike, 2 escapes, 3 does nothing
    assert estimate.value == 100
    assert estimate.note == "2 escape, 1 are successful, 1 have spikes"
    same = made_spikes(["neither"] * 40, range(40)).assign(
        escaped=("run", np.ones(40, bool)), successful=("run", np.ones(40, bool))
    )
    assert spike_claims.different_behaviours(same).value == 0
    assert part_verdicts("VC.s2.1.variety", same) == [OPEN]


def test_flips_at_each_learning_rate():
    rates = np.repeat([0.001, 0.003, 0.01, 0.03], 60)
    grid = made_spikes(["neither"] * 240, range(240), lr=rates)
    assert part_verdicts("OWN.flip", grid) == [YES] * 4
    grid["flip_rise"] = (
        "spike",
        np.where(np.arange(240) >= 220, 0.6, 0.4),
    )  # over all steps
    grid["cause"][0] = "normalisation"  # in the steepest step
    assert part_verdicts("OWN.flip", grid) == [YES, YES, YES, NO]
    assert spike_claims.spikes_without_flips(grid, 0.03).value == pytest.approx(
        100 * 40 / 60
    )


MIXED = [PARTLY, PARTLY, OPEN]
CALIBRATION = [  # claim, causes of 60 spikes, other measures, verdicts
    ("VC.s4.3.flips", {"normalisation": 30}, {"flip_rise": 0.9}, [NO, YES, YES]),
    ("VC.s4.3.flips", {}, {}, [NO, NO, NO]),
    (
        "VC.s4.3.flips",
        {"normalisation": 5},
        {"flip_rise": 0.1, "turn": 1.0},
        [YES, OPEN, NO],
    ),
    ("VC.figure13.crossing", {"feed-forward": 40}, {}, [YES, YES, YES]),
    (
        "VC.figure13.crossing",
        {},
        {"closeness": 0.5, "crossed_in_step": 0.01},
        [NO, NO, NO],
    ),
    (
        "VC.figure13.crossing",
        {"feed-forward": 5},
        {"closeness": 0.55, "crossed_in_step": 0.015},
        MIXED,
    ),
    ("VC.s4.3.two-causes", {"feed-forward": 50}, {}, [YES, YES]),
    ("VC.s4.3.two-causes", {"feed-forward": 5}, {}, [OPEN, OPEN]),
    ("VC.figure13.small-change", {"feed-forward": 30}, {"xi_ratio": 0.2}, [YES] * 3),
    (
        "VC.figure13.small-change",
        {"feed-forward": 30},
        {"way": "boundary", "xi_ratio": np.repeat([0.5, 0.1], 30)},
        [OPEN] * 3,
    ),
    ("VC.figure14.assemblers", {"feed-forward": 60}, {}, [YES]),
    ("VC.figure14.assemblers", {"feed-forward": 60}, {"gain_rank": 0.4}, [NO]),
    ("VC.figure14.assemblers", {"feed-forward": 60}, {"gain_rank": 0.53}, [PARTLY]),
    ("VC.s4.3.too-long", {}, {"remaining_half": 0.6}, [YES, YES, OPEN]),
    ("VC.s4.3.too-long", {}, {"remaining_descent": -0.1}, [YES, OPEN, YES]),
    (
        "VC.s4.3.too-long",
        {},
        {"remaining_descent_hundredth": 0.01},
        [OPEN, YES, YES],
    ),
    ("OWN.spikes-printed", {"feed-forward": 40}, {}, [YES] * 4),
    ("OWN.spikes-three", {"normalisation": 40}, {}, [YES, YES, NO, NO]),
    ("VC.s4.3.smoothing-a-step", {}, {"remaining_smooth_alike": 0.5}, [OPEN]),
]


@pytest.mark.parametrize(("claim", "causes", "measures", "verdicts"), CALIBRATION)
def test_verdicts_on_true_false_and_marginal_evidence(
    claim, causes, measures, verdicts, generator
):
    names = [cause for cause, count in causes.items() for _ in range(count)]
    measures = {"closeness": 0.9, "crossed_in_step": 0.06, "gain_rank": 0.8} | measures
    noise = 0.001 * generator.normal(size=60)
    values = {
        name: measure if isinstance(measure, str) else measure + noise
        for name, measure in measures.items()
    }
    data = made_spikes(names + ["neither"] * (60 - len(names)), range(60), **values)
    assert part_verdicts(claim, data) == verdicts


def test_ranks_of_assemblers_among_escaped_runs():
    weights = np.zeros((4, 3, 2, 2))
    weights[:, :, 0, 0] = [
        [1.0],
        [2.0],
        [3.0],
        [9.0],
    ]  # along one axis; the last has not escaped
    weights[1, :, 1, 1] = 2.0
    trajectory = dataset(
        ("run", "step", "hidden", "axis"), {"step": [0, 10, 20]}, assembler=weights
    )
    trajectory["last_step"] = ("run", [20, 20, 20, 20])
    escapes = dataset("run", escape=[1.0, 1, 1, 20], escaped=[True, True, True, False])
    ranks = spike_claims.assembler_ranks(
        trajectory, dataset("spike", of_run=[2, 1, 0, 0], at=[12, 12, -1, 0]), escapes
    )
    for name, expected in {
        "gain": [1, 0.5],
        "norm": [1, 0.5],
        "alignment": [0.75, 0],
    }.items():
        np.testing.assert_allclose(ranks[f"{name}_rank"], [*expected, np.nan, np.nan])
