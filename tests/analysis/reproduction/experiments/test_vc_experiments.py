"""Claims on VC's phases and saddles: verdicts on evidence whose answer is known."""

import math

import numpy as np
import pytest
import xarray as xr

from analysis.reproduction.claims import saddles as saddle_claims
from analysis.reproduction.experiments import norms, saddles
from analysis.reproduction.own import sparse_networks
from analysis.reproduction.verification.criteria import Verdict
from analysis.transitions.change_points import SeriesEvent
from tests.analysis.reproduction.judging import verdicts

# ------------------------------------------------------------------------------------------------- norms


def counted(matched, total, chance, setups=norms.SETUPS):
    layers = [*saddle_claims.LAYERS, norms.WHOLE]
    shape = (len(setups), len(total), len(layers), 2)
    spread = [np.ones(shape) * np.array(each, float)[None, :, None, None] for each in (total, matched, chance)]
    dims = ("setup", "run", "layer", "kind")
    runs = len(total)
    data = dict(zip(("total", "matched", "chance"), ((dims, each) for each in spread), strict=True))
    flat = {"drop_begin": 100.0, "drop_end": 110.0, "rise": 95.0, "window": 20.0, "returned": 1.5}
    data |= {name: (("setup", "run"), np.full((len(setups), runs), value)) for name, value in flat.items()}
    by_drop = {"drop_epoch": [250.0, 700.0], "drop_rise": [1.0, 1.0], "nearest": [0.002, 0.004], "nearest_chance": 0.02}
    data |= {
        name: (("setup", "run", "drop"), np.ones((len(setups), runs, 2)) * value) for name, value in by_drop.items()
    }
    return xr.Dataset(data, {"setup": list(setups), "layer": layers, "kind": list(norms.KINDS)})


def test_peaks_beyond_chance_are_told_with_an_interval_over_runs():
    many = counted([4, 3] * 10, [4] * 20, [1.0] * 20)
    finding = norms.excess_peaks(many, "mini-batch", "drop")
    assert finding.interval.value == pytest.approx(62.5)
    assert finding.count == 80
    assert finding.effect > 1
    assert finding.interval.low == pytest.approx(62.5 - 12.5 * 2.093 / math.sqrt(19), abs=0.01)
    assert norms.matched_peaks(many, "mini-batch", "drop").interval.value == pytest.approx(87.5)
    none = counted([1, 2] * 10, [4] * 20, [1.5] * 20)
    assert norms.excess_peaks(none, "mini-batch", "drop").interval.value == pytest.approx(0)
    assert math.isnan(norms.excess_peaks(counted([0], [0], [0]), "mini-batch", "drop").interval.value)


def test_runs_without_drops_do_not_count():
    evidence = counted([2, 0, math.nan, 2], [2, 0, math.nan, 2], [0, 0, math.nan, 0])
    assert norms.matched_peaks(evidence, "full batch", "drop").count == 4
    assert norms.setup_drops(evidence, "full batch", 2).interval.value == pytest.approx(200 / 3)


def test_salience_is_the_difference_of_both():
    evidence = counted([4, 3] * 10, [4] * 20, [1.0] * 20)
    evidence["matched"].loc[{"setup": "mini-batch"}] -= 2.5
    finding = norms.excess_peak_difference(evidence, "full batch", "mini-batch")
    assert finding.interval.value == pytest.approx(62.5)
    assert finding.interval.low > 0
    assert norms.excess_peak_difference(evidence, "mini-batch", "full batch").interval.high < 0


def test_a_rise_counts_within_a_window_of_the_drop():
    evidence = counted([1] * 4, [1] * 4, [0] * 4)
    evidence["rise"][0] = [79.0, 81.0, 129.0, np.nan]
    assert norms.rises_with_drop(evidence, "full batch").interval.value == 50
    assert norms.update_growth(evidence, "full batch").interval.value == 1.5


def test_peaks_are_told_however_far_they_are():
    drop = SeriesEvent("drop", 90, 100.0, 110, 1.0, 0.5)
    norm = np.ones(1000) + 0.001 * np.sin(np.arange(1000) / 3)
    norm[398:403] += [1, 3, 5, 3, 1]
    ((epoch, met, distance, chance),) = norms._drops([drop], norm, np.arange(1000.0))
    assert (epoch, met) == (100, False)
    assert distance == pytest.approx(0.3, abs=0.003)
    assert chance == pytest.approx(0.3, abs=0.003)  # moved as far either way
    ((_, met, distance, _),) = norms._drops([drop], np.ones(1000), np.arange(1000.0))
    assert (met, distance) == (False, 1.0)
    risen = np.where(np.arange(1000) < 100, 1.0, 4.0) + 0.001 * np.sin(np.arange(1000) / 3)
    assert norms._drops([drop], risen, np.arange(1000.0))[0][1]
    evidence = counted([1] * 8, [2] * 8, [0] * 8)
    assert norms.nearest_peak(evidence, "full batch").interval.value == pytest.approx(0.3)
    evidence["nearest"][0, :, 1] = np.nan
    assert norms.nearest_peak(evidence, "full batch").interval.value == pytest.approx(0.2)
    evidence["nearest"][0] = np.nan
    assert math.isnan(norms.nearest_peak(evidence, "full batch").interval.value)


def test_a_run_like_the_example_needs_both_drops_with_a_rise():
    evidence = counted([1] * 4, [2] * 4, [0] * 4)
    evidence["drop_rise"][1, 1, 1] = 0
    evidence["drop_epoch"][1, 2] = [600, 700]
    evidence["drop_epoch"][1, 3, 1] = np.nan
    moments = saddle_claims.EXAMPLE
    assert norms.runs_like_example(evidence, "full batch", moments).interval.value == 100
    assert norms.runs_like_example(evidence, "mini-batch", moments).interval.value == 25


def test_no_share_is_beyond_all():
    evidence = counted([10, 10, 10, 6], [10] * 4, [0, 0, 1, 0])
    found = norms.excess_peaks(evidence, "mini-batch", "drop").interval
    assert found.high == 100
    assert found.low < found.value < 100


def test_updates_after_a_spike_are_held_against_those_before():
    updates = np.ones(200)
    updates[100:103] = 3
    assert norms._after_spikes([100], updates) == 3
    assert math.isnan(norms._after_spikes([], updates))


# ----------------------------------------------------------------------------------------------- saddles


def test_moments_of_a_run_are_found_among_its_events():
    rows = [("plateau", 0, 50, 100), ("drop", 100, 110, 120), ("plateau", 120, 150, 180), ("drop", 180, 190, 200)]
    columns = dict(zip(("kind", "begin", "middle", "end"), map(np.array, zip(*rows, strict=True)), strict=True))
    found = xr.Dataset({name: ("event", each) for name, each in columns.items()})
    found["initial"] = ("event", np.zeros(4, bool))
    steps = np.arange(0, 301)
    assert saddles.event_steps(found, steps) == [0, 50, 110, 150, 300]
    without = saddles.event_steps(found.isel(event=[0]), steps)
    assert np.isnan(without[1:4]).all()
    assert (without[0], without[-1]) == (0, 300)


def test_saddles_slopes_and_minima_are_told_apart():
    gradient = np.tile([1.0, 0.01, 1.0, 0.02, 0.1], (2, 24, 1))
    negative = np.tile([70.0, 60, 50, 50, 40], (2, 24, 1))
    dims = ("setup", "run", "moment")
    evidence = xr.Dataset(
        {"gradient": (dims, gradient), "negative": (dims, negative)},
        {"setup": list(saddles.SETUPS), "moment": list(saddles.MOMENTS)},
    )
    for name, value in (("lowest_share", 0.03), ("negative_share", 0.5), ("negative_chance", 0.3)):
        noise = np.linspace(-0.01, 0.01, 24) * (name != "negative_chance")
        evidence[f"escape_{name}"] = (dims[:2], np.tile(value + noise, (2, 1)))
    found = verdicts(saddle_claims.CLAIMS, evidence, "vc.saddles")
    assert set(found.values()) == {Verdict.REPRODUCED}
    own = verdicts(sparse_networks.CLAIMS, evidence, "vc.saddles")
    assert own == {"OWN.escape": Verdict.NOT, "OWN.escape-negative": Verdict.REPRODUCED,
                   "OWN.saddles-only": Verdict.REPRODUCED}  # fmt: skip
    slopes = evidence.assign(gradient=evidence["gradient"] * 0 + 1, negative=evidence["negative"] * 0)
    assert set(verdicts(saddle_claims.CLAIMS, slopes, "vc.saddles").values()) == {Verdict.NOT}
    assert saddles.plateau_gradient_ratio(slopes, "mini-batch").interval.value == 1
