"""VC appendices A.1 and A.3: peaks of gradient norms and events of the loss, counted in
made-up runs."""

import numpy as np
import pytest

from analysis.reproduction.odonnat2024 import gradient_norm_claims as norms
from analysis.transitions.change_points import SeriesEvent
from tests.analysis.reproduction.judging import (
    NO,
    OPEN,
    PARTLY,
    YES,
    made_evidence,
    part_verdicts,
)


def made_counts(matched, total, chance, **changes):
    """Evidence with the same numbers of events, (run,), in all setups, layers and
    kinds."""
    counts = {"matched": matched, "total": total, "chance": chance}
    by_run = {
        "drop_begin": 100.0,
        "drop_end": 110.0,
        "rise": 95.0,
        "window": 20.0,
        "returned": 1.5,
    }
    by_drop = {
        "drop_epoch": [250.0, 700.0],
        "drop_rise": 1.0,
        "nearest": [0.002, 0.004],
        "nearest_chance": 0.02,
    }
    lengths = {
        "setup": list(norms.SETUPS),
        "layer": [*norms.LAYERS, norms.WHOLE],
        "kind": list(norms.KINDS),
        "run": range(len(total)),
        "drop": 2,
    }
    counts = {
        name: np.reshape(values, (-1, 1, 1)) * 1.0 for name, values in counts.items()
    }
    columns = {"setup run layer kind": counts, "setup run": by_run}
    columns["setup run drop"] = by_drop
    for values in (by_run, by_drop):
        values |= {name: changes[name] for name in values if name in changes}
    return made_evidence(lengths, columns)


def test_peaks_beyond_chance_have_an_interval_over_runs():
    def excess(*counts):
        return norms.excess_peaks(made_counts(*counts), "mini-batch", "drop")

    many = [4, 3] * 10, [4] * 20, [1.0] * 20
    estimate = excess(*many)
    assert estimate.value == pytest.approx(62.5)
    assert (estimate.count, estimate.note) == (80, "88% against 25%")
    assert estimate.effect == pytest.approx(2 * np.arcsin(0.875**0.5) - np.pi / 3)
    half = 12.5 * 2.093 / np.sqrt(19)
    assert estimate.interval.low == pytest.approx(62.5 - half, abs=0.01)
    matched = norms.matched_peaks(made_counts(*many), "mini-batch", "drop")
    assert matched.value == pytest.approx(87.5)
    assert excess([1, 2] * 10, [4] * 20, [1.5] * 20).value == pytest.approx(0)
    assert np.isnan(excess([0], [0], [0]).value)
    most = excess([10, 10, 10, 6], [10] * 4, [0, 0, 1, 0]).interval
    assert most.low < most.value < most.high == 100


def test_runs_without_drops_do_not_count():
    evidence = made_counts([2, 0, np.nan, 2], [2, 0, np.nan, 2], [0, 0, np.nan, 0])
    assert norms.matched_peaks(evidence, "full batch", "drop").count == 4
    assert norms.setup_drops(evidence, "full batch", 2).value == pytest.approx(200 / 3)


def test_a_rise_counts_within_a_window_of_the_drop():
    evidence = made_counts([1] * 4, [1] * 4, [0] * 4, rise=[79.0, 81.0, 129.0, np.nan])
    estimate = norms.rises_with_drop(evidence, "full batch")
    assert (estimate.value, estimate.note) == (
        50,
        "runs in which it never rises so far: 1",
    )


def test_distances_to_the_nearest_peak():
    frames = np.arange(1000.0)
    drop = SeriesEvent("drop", 90, 100.0, 110, 1.0, 0.5)
    ripple = 0.001 * np.sin(frames / 3)

    def measures(norm):
        return norms._drop_measures([drop], norm, frames)[0]

    peak = 1 + ripple
    peak[398:403] += [1, 3, 5, 3, 1]
    epoch, rising, *distances = measures(peak)
    assert (epoch, rising) == (100, False)
    assert distances == pytest.approx([0.3, 0.3], abs=0.003)  # shifted both ways
    _, rising, distance, _ = measures(np.ones(1000))
    assert (rising, distance) == (False, 1.0)
    _, rising, *_ = measures(np.where(frames < 100, 1.0, 4.0) + ripple)
    assert rising


@pytest.mark.parametrize(("drop_end", "expected"), [(110.0, 0.2), (140.0, 0.05)])
def test_the_nearest_peak_is_in_lengths_of_the_first_drop(drop_end, expected):
    """A window of 20 frames is 2% of the run, so that 0.002 of it are two frames."""
    evidence = made_counts([1] * 8, [2] * 8, [0] * 8, drop_end=drop_end)
    estimate = norms.nearest_peak(evidence, "full batch")
    assert estimate.value == pytest.approx(expected)
    assert estimate.note == f"by chance {10 * expected:.2f}"
    without = made_counts([1] * 8, [2] * 8, [0] * 8, nearest_chance=np.nan)
    assert norms.nearest_peak(without, "full batch").note == "no run has a drop"


def test_rises_are_counted_by_drop():
    evidence = made_counts([1] * 4, [2] * 4, [0] * 4)
    evidence["drop_rise"][1, :2, 1] = 0
    evidence["drop_rise"][1, 3, 1] = np.nan
    estimate = norms.drops_with_rise(evidence, "mini-batch")
    assert (estimate.value, estimate.count) == (pytest.approx(500 / 7), 7)
    assert estimate.note == "100% of the first drops"
    first = norms.drops_with_rise(evidence, "mini-batch", first=True)
    assert (first.value, first.count) == (100, 4)
    evidence["drop_rise"][:] = np.nan
    assert norms.drops_with_rise(evidence, "mini-batch").count == 0


def test_a_run_like_the_example_has_both_drops_with_a_rise():
    evidence = made_counts([1] * 4, [2] * 4, [0] * 4)
    evidence["drop_rise"][1, 1, 1] = 0
    evidence["drop_epoch"][1, 2] = [600, 700]
    evidence["drop_epoch"][1, 3, 1] = np.nan
    example = ((125, 500), (350, 1000))
    assert norms.runs_like_example(evidence, "full batch", example).value == 100
    assert norms.runs_like_example(evidence, "mini-batch", example).value == 25


def test_updates_after_a_spike_are_compared_with_those_before():
    updates = np.where(np.isin(np.arange(200), [100, 101, 102]), 3.0, 1.0)
    assert (
        norms._growth_after_spikes(
            [SeriesEvent("spike", 99, 100.0, 101, 1.0, 3.0)], updates
        )
        == 3
    )
    assert np.isnan(norms._growth_after_spikes([], updates))


SINGLE = ("VC.figure15.precisely", "VC.appA.1.exit", "VC.appA.1.taken-back")
FALSE = {
    "nearest": 0.02,
    "drop_rise": 0.0,
    "rise": 300.0,
    "returned": np.linspace(0.89, 0.91, 20),
}
MARGINAL = {
    "nearest": 0.005,
    "drop_rise": [0.0, 1.0],
    "rise": [95.0, 300.0] * 10,
    "returned": np.linspace(1.04, 1.06, 20),
}


@pytest.mark.parametrize(
    ("matched", "chance", "rest", "rises", "peaks", "layers", "single"),
    [
        ([4, 3], [0.5, 1.0], {}, YES, YES, YES, [YES, YES, YES]),
        ([1, 0], [0.5, 1.0], FALSE, OPEN, OPEN, NO, [OPEN, OPEN, NO]),
        ([3, 3], [2.8, 2.81], MARGINAL, OPEN, YES, PARTLY, [OPEN, OPEN, PARTLY]),
    ],
)
def test_verdicts_on_true_false_and_marginal_evidence(
    matched, chance, rest, rises, peaks, layers, single
):
    evidence = made_counts(matched * 10, [4] * 20, chance * 10, **rest)
    for figure, most in ((15, peaks), (16, rises), (18, peaks), (19, rises)):
        assert part_verdicts(f"VC.figure{figure}.drops", evidence) == [most, layers]
        assert part_verdicts(f"VC.figure{figure}.drops-by-layer", evidence) == [
            layers
        ] * len(norms.LAYERS)
    assert [part_verdicts(name, evidence)[0] for name in SINGLE] == single


def test_salience_is_a_difference_of_setups():
    evidence = made_counts([4, 3] * 10, [4] * 20, [1.0] * 20)
    evidence["matched"].loc[{"setup": "mini-batch"}] -= 2.5
    assert norms.excess_peak_difference(
        evidence, "full batch", "mini-batch"
    ).value == pytest.approx(62.5)
    names = (
        "VC.appA.1.less-salient",
        "VC.figure16.more-salient",
        "VC.figure19.more-salient",
    )
    assert [part_verdicts(name, evidence) for name in names] == [
        [YES],
        [NO],
        [NO],
    ]  # with d = 3, both are the same
