"""Claims on VC's circuits, phases, saddles, sparsity and dimensions: verdicts on evidence whose answer is known."""

import math

import numpy as np
import pytest
import xarray as xr

from analysis.reproduction.claims import heads as head_claims
from analysis.reproduction.claims import saddles as saddle_claims
from analysis.reproduction.claims import sparsity as sparsity_claims
from analysis.reproduction.claims import task as task_claims
from analysis.reproduction.clustering_heads import fixed_points
from analysis.reproduction.experiments import norms, saddles
from analysis.reproduction.odonnat2024 import circuits, dimensions, sparsity
from analysis.reproduction.odonnat2024 import ideal_circuits as ideal
from analysis.reproduction.verification.criteria import Verdict
from analysis.statistics.intervals import Interval
from analysis.transitions.change_points import SeriesEvent
from tests.analysis.reproduction.judging import verdicts

# --------------------------------------------------------------------------------- circuits built by hand


def test_circuits_built_by_hand_are_as_the_paper_counts(evidence):
    evidence = evidence["vc.ideal"]
    assert ideal.worst_construction(evidence, "clusters").interval == Interval(6, 6, 6)
    assert ideal.worst_construction(evidence, "clusters", vocab=3).interval == Interval(21, 21, 21)
    assert ideal.construction_accuracy(evidence, vocab=3).interval.value == pytest.approx(100)
    assert ideal.construction_attention(evidence).interval.low > 99
    assert ideal.worst_construction(evidence, "leak", dim=None).count == 2
    for name, bound in (("order_share", ideal.BROKEN), ("absorbed", ideal.BROKEN), ("value_share", ideal.LEAK)):
        assert ideal.networks_within_bound(evidence, name, bound).interval.value == 100
    assert math.isnan(ideal.worst_construction(evidence, "clusters", dim=9).interval.value)


def test_the_worst_of_circuits_built_by_hand_counts():
    evidence = xr.Dataset(
        {
            "accuracy": ("circuit", [1.0, 0.9, 0.2]), "clusters": ("circuit", [6, 5, 9]),
            "leak": ("circuit", [0.0, 0.1, 0.3]), "attention": ("circuit", [1.0, 0.97, 1.0]),
        },
        {"tokens": ("circuit", [2, 2, 2]), "dim": ("circuit", [2, 2, 3])},
    )  # fmt: skip
    assert ideal.construction_accuracy(evidence).interval == Interval(90, 90, 90)
    assert ideal.worst_construction(evidence, "clusters").interval.value == 5
    assert ideal.worst_construction(evidence, "clusters", dim=None).interval.value == 9
    assert ideal.worst_construction(evidence, "leak").interval.value == 0.1
    assert ideal.worst_construction(evidence, "leak", dim=None).interval.value == 0.3
    assert ideal.construction_attention(evidence).interval == Interval(97, 97, 97)


def test_a_network_that_lacks_the_arrangement_is_told():
    evidence = xr.Dataset({"order_share": (("vocab", "network"), np.array([[0.0, 0.2], [0.0, 0.0]]))})
    assert ideal.networks_within_bound(evidence, "order_share", ideal.BROKEN).interval.value == 75


def test_the_settled_circuit_rests_and_the_built_one_does_not(evidence):
    evidence = evidence["ch.fixed-points"]
    assert fixed_points.residual_gradient(evidence, "settled").interval.value < 1e-8
    assert fixed_points.residual_gradient(evidence).interval.value > 1e-6
    assert fixed_points.settled_accuracy(evidence).interval.value == pytest.approx(100)
    assert fixed_points.breaking_eigenvalue(evidence).interval.value > 0


def test_pushes_that_grow_are_counted():
    evidence = xr.Dataset(
        {"distance": (("start", "step", "pushed"), np.array([[[0.0, 1, 1, 1], [0, 0.5, 2, 0.1]]]))},
        {"start": ["settled"], "step": ["pushed", "after"], "push": ("pushed", [0.0, 1e-3, 1e-3, 1e-2])},
    )
    assert fixed_points.returned_pushes(evidence).interval.value == pytest.approx(200 / 3)


# ---------------------------------------------------------------------------------------------- circuits


def labelled(labels, accuracy, **more):
    runs = len(labels)
    data = {
        "label": labels, "test_accuracy": accuracy, "unseen_accuracy": accuracy, "clusters": [6] * runs,
        "leaking": [0] * runs, "apart": [0] * runs, "sum_whole": [1] * runs, "sum_congruent": [1] * runs,
        "sum_share": [1.0] * runs, **more,
    }  # fmt: skip
    return xr.Dataset({name: ("run", np.array(values)) for name, values in data.items()}, attrs={"ideal_clusters": 6})


def test_kinds_are_counted_among_the_runs_that_have_learned():
    evidence = labelled(
        ["ideal", "corrected", "partial", "partial", "fuzzy", "none"], [1, 1, 1, 0.95, 0.95, 0.5],
        clusters=[6, 6, 9, 6, 12, 1], leaking=[0, 0, 1, 1, 5, 0], apart=[0, 0, 2, 0, 4, 0],
        sum_congruent=[1, 1, 1, 0, 0, 1],
    )  # fmt: skip
    assert circuits.labelled_circuits(evidence, "partial").interval.value == 40
    assert circuits.labelled_circuits(evidence, "partial").count == 5
    assert circuits.not_ideal(evidence).interval.value == 80
    assert circuits.several_missing(evidence).interval.value == 40
    assert circuits.more_clusters(evidence).interval.value == 50
    assert circuits.fuzzy_and_accurate(evidence).interval.value == 20
    assert circuits.all_invariances(evidence).interval.value == pytest.approx(200 / 3)
    assert circuits.ideal_clusters(evidence).interval.value == pytest.approx(200 / 3)
    assert circuits.congruent_sums(evidence).interval.value == 100
    assert circuits.congruent_failures(evidence).interval.value == pytest.approx(100 / 3)
    assert circuits.failed_runs(evidence).interval.value == pytest.approx(100 / 6)


def test_pairs_of_sums_are_compared_run_by_run():
    steps = np.array([[1, 1], [1, 1], [1, -1], [3, 1]])
    evidence = labelled(["ideal"] * 4, [1.0] * 4).assign(sum_steps=(("run", "position"), steps))
    assert circuits.different_sums(evidence).interval.value == pytest.approx(500 / 6)
    alike = evidence.assign(sum_steps=(("run", "position"), np.ones((4, 2), int)))
    found = circuits.different_sums(alike).interval
    assert (found.value, found.low) == (0, 0)
    assert 80 < found.high < 100  # two pairs without a run in common, neither of them different


def test_the_interval_of_pairs_stays_between_none_and_all():
    steps = np.arange(16).reshape(8, 2)
    steps[1] = steps[0]
    evidence = labelled(["ideal"] * 8, [1.0] * 8).assign(sum_steps=(("run", "position"), steps))
    found = circuits.different_sums(evidence).interval
    assert found.value == pytest.approx(100 * 27 / 28)
    assert 30 < found.low < found.value < found.high < 100


def test_collapse_by_the_value_matrix_is_told_from_one_before_it():
    ones = np.ones((3, 2))
    evidence = labelled(["corrected"] * 3, [1.0] * 3).assign(
        spurious_attention=(("run", "place"), ones), embedding_spread=(("run", "place"), ones),
        value_spread=(("run", "place"), 0.1 * ones),
    )  # fmt: skip
    assert circuits.spurious_collapse(evidence).interval.value == pytest.approx(0.1)
    before = evidence.assign(embedding_spread=(("run", "place"), 0.1 * ones))
    assert circuits.spurious_collapse(before).interval.value == pytest.approx(1)
    assert math.isnan(circuits.spurious_collapse(labelled(["none"], [0.5]).assign(
        dict.fromkeys(("spurious_attention", "embedding_spread", "value_spread"), (("run", "place"), ones[:1]))
    )).interval.value)  # fmt: skip


def test_a_start_that_is_kept_is_told_from_one_that_all_share(generator):
    noise = 0.05 * generator.standard_normal((30, 30))
    own = xr.Dataset({"inherited": (("run", "other_run"), 0.1 + 0.6 * np.eye(30) + noise)})
    assert circuits.start_similarity(own, "inherited").interval.value == pytest.approx(0.7, abs=0.05)
    assert circuits.excess_start_similarity(own, "inherited").interval.low > 0.5
    shared = xr.Dataset({"inherited": (("run", "other_run"), 0.7 + noise)})
    assert abs(circuits.excess_start_similarity(shared, "inherited").interval.value) < 0.05
    gone = own.copy(deep=True)
    gone["inherited"][3] = np.nan
    gone["inherited"][:, 3] = np.nan
    assert circuits.excess_start_similarity(gone, "inherited").count == 29


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
    own = verdicts(head_claims.OWN_CLAIMS, evidence, "vc.saddles")
    assert own == {"OWN.escape": Verdict.NOT, "OWN.escape-negative": Verdict.REPRODUCED,
                   "OWN.saddles-only": Verdict.REPRODUCED}  # fmt: skip
    slopes = evidence.assign(gradient=evidence["gradient"] * 0 + 1, negative=evidence["negative"] * 0)
    assert set(verdicts(saddle_claims.CLAIMS, slopes, "vc.saddles").values()) == {Verdict.NOT}
    assert saddles.plateau_gradient_ratio(slopes, "mini-batch").interval.value == 1


# ---------------------------------------------------------------------------------------------- sparsity


def sparse(less=True, dims=(2, 3, 4, 8)):
    each = np.stack([np.linspace(0.5, 0.8, 60), np.linspace(0.95, 1, 60)], axis=1).ravel()  # one after the other
    accuracy = np.tile(each, (len(dims), 1))
    level = (0.6 - 0.3 * accuracy) if less else (0.3 + 0.3 * accuracy)
    eps = np.logspace(-5, 2, 141)
    curve = np.broadcast_to(level[..., None], (*level.shape, len(eps))).copy()
    curve[..., 0], curve[..., -1] = 0.0, 1.0
    effect = np.full((len(dims), len(eps)), -1.0 if less else 1.0)
    return xr.Dataset(
        {"sparsity": (("dim", "run", "eps"), curve), "mean_sparsity": (("dim", "run"), level),
         "test_accuracy": (("dim", "run"), accuracy), "effect": (("dim", "eps"), effect),
         "p_value": (("dim", "eps"), np.full(effect.shape, 0.001))},
        {"dim": list(dims), "eps": eps},
    )  # fmt: skip


def test_dense_successes_reproduce_sparsity_and_sparse_ones_do_not():
    found = verdicts(sparsity_claims.CLAIMS, sparse(), "vc.sparsity")
    assert set(found.values()) == {Verdict.REPRODUCED}
    turned = verdicts(sparsity_claims.CLAIMS, sparse(less=False), "vc.sparsity")
    assert turned["VC.figure17.whole-range"] == turned["VC.figure17.separation"] == Verdict.NOT
    assert turned["VC.figure20.less-sparse"] == turned["VC.figure17.accuracy"] == Verdict.NOT


def test_a_dimension_that_was_not_run_is_said_to_be_missing():
    finding = sparsity.success_sparsity(sparse(dims=(2,)), dim=8)
    assert finding.skipped
    assert "not run" in finding.note


def test_thresholds_that_show_nothing_are_no_exceptions():
    none = sparse(dims=(2,))
    inside = (none["eps"].values > 9e-4) & (none["eps"].values < 10.1)
    unsure = none.assign(p_value=none["p_value"].where(none["eps"] < 1, 0.5))
    found = sparsity.less_sparse_thresholds(unsure).interval
    shown = 100 * (inside & (none["eps"].values < 1)).sum() / inside.sum()
    assert found == pytest.approx(Interval(shown, shown, 100))
    against = unsure.assign(effect=none["effect"].where(none["eps"] > 1e-2, 1.0))
    found = sparsity.less_sparse_thresholds(against).interval
    assert found.value < shown
    assert found.high == pytest.approx(found.value + 100 - shown)


# -------------------------------------------------------------------------------------------- dimensions


def tried(shares, runs=20):
    values = np.full((len(shares), runs), 0.5)
    for place, share in enumerate(shares):
        values[place, : round(share * runs)] = 1.0
    dims = [2, 3, 4, 8, 16, 32][: len(shares)]
    data = {f"{split}_accuracy": (("dim", "run"), values.copy()) for split in ("train", "test", "unseen")}
    return xr.Dataset(data, {"dim": dims})


def test_one_failure_at_eight_dimensions_is_told():
    all_right = tried([0.25, 0.5, 0.75, 1, 1, 1])
    claim = next(each for each in task_claims.CLAIMS if each.name == "VC.appA.3.all-from-8")
    assert verdicts([claim], all_right, "vc.dimensions")[claim.name] == Verdict.REPRODUCED
    assert verdicts([claim], tried([0.25, 0.5, 0.75, 0.95, 1, 1]), "vc.dimensions")[claim.name] == Verdict.PARTLY
    assert verdicts([claim], tried([0.25, 0.5, 0.75, 0.3, 0.3, 0.3]), "vc.dimensions")[claim.name] == Verdict.NOT


def test_success_rises_with_dimension_or_does_not():
    rising = tried([0.25, 0.5, 0.75, 1, 1, 1])
    assert dimensions.dimension_correlation(rising).interval.low > 0.3
    assert dimensions.success_gain(rising).interval.value == pytest.approx(75)
    level = tried([0.5] * 6)
    assert abs(dimensions.dimension_correlation(level).interval.value) < 1e-9
    assert dimensions.success_gain(level).interval.value == pytest.approx(0)
    assert dimensions.generalisation_gap(rising).interval.value == 0
    gap = rising.assign(unseen_accuracy=rising["unseen_accuracy"] - 0.1)
    assert dimensions.generalisation_gap(gap).interval.value == pytest.approx(10)


def test_missing_dimensions_give_no_number():
    evidence = tried([0.25])
    assert dimensions.success_at_dim(evidence, 8).left
    assert not dimensions.success_at_dim(evidence, 2).left
    assert math.isnan(dimensions.success_gain(evidence).interval.value)
