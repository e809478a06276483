"""Claims on VC's hyperparameters, transfer and spikes: estimates and verdicts on evidence whose answer is known."""

import numpy as np
import pytest
import xarray as xr

from analysis.reproduction.claims import spikes
from analysis.reproduction.experiments import normalisation, remedies
from analysis.reproduction.experiments import spikes as spiking
from analysis.reproduction.verification.criteria import Verdict, judge_estimate
from tests.analysis.reproduction.judging import part_verdicts

# ------------------------------------------------------------------------------------------------- spikes


def spikes_with(causes, of_run, runs=6, **columns):
    count = len(causes)
    plain = {
        "way": np.array(["embedding"] * count, "U9"), "input_ratio": np.full(count, 0.1),
        "xi_ratio": np.full(count, 0.2), "remaining_smooth": np.full(count, 0.1),
        "remaining_smooth_alike": np.ones(count), "remaining_half": np.full(count, 0.1), "turn": np.zeros(count),
        **{f"{name}_rank": np.full(count, 0.8) for name in ("gain", "norm", "alignment")},
    }  # fmt: skip
    columns = {**plain, **columns, "cause": np.array(causes, "U13"), "of_run": np.array(of_run)}
    found = {name: ("spike", values) for name, values in columns.items()}
    return xr.Dataset({**found, "spikes": ("run", np.bincount(of_run, minlength=runs))})


def test_shares_of_causes():
    found = spikes_with(["feed-forward", "neither", "normalisation", "both", ""], [0, 0, 1, 2, 3])
    assert spiking.runs_with_spikes(found).interval.value == pytest.approx(100 * 4 / 6)
    assert spiking.caused_spikes(found, spiking.FLIPS).interval.value == 50
    assert "0.10 of its length" in spiking.caused_spikes(found, spiking.FLIPS).note
    assert spiking.caused_spikes(found, spiking.CROSSINGS).interval.value == 50
    assert spiking.caused_spikes(found, ("normalisation", "feed-forward", "both")).interval.value == 75
    assert spiking.spikes_without_flip(found).interval.value == 50
    calm = spikes_with([], [])
    assert spiking.caused_spikes(calm, spiking.FLIPS).count == 0
    for finding in (spiking.spikes_without_flip, spiking.turned_spikes, spiking.caused_or_turned,
        spiking.crossed_by_embedding,
                    spiking.crossing_update, spiking.mean_assembler_rank,
                        spiking.removed_by_smoothing,
                    spiking.removed_by_half_step):  # fmt: skip
        assert np.isnan(finding(calm).interval.value)


def test_no_flip_in_many_spikes_is_no_cause():
    found = spikes_with(["neither"] * 60, np.repeat(np.arange(60), 1), 60)
    assert judge_estimate(spikes.FLIP.rule, spiking.caused_spikes(found, spiking.FLIPS)).verdict == Verdict.NOT
    rule = spikes.OWN_CLAIMS[1].parts[0].rule
    assert judge_estimate(rule, spiking.spikes_without_flip(found)).verdict == Verdict.REPRODUCED
    found["cause"][0] = "normalisation"
    assert judge_estimate(rule, spiking.spikes_without_flip(found)).verdict == Verdict.NOT


def test_a_vector_that_turns_far_is_no_flip_but_counts():
    found = spikes_with(["neither"] * 40, np.arange(40), 40, turn=np.radians(np.repeat([29.0, 31.0], 20)))
    assert spiking.turned_spikes(found).interval.value == 50
    assert spiking.turned_spikes(found).note.startswith("in the middle spike by 30.0 degrees")
    assert spiking.caused_or_turned(found).interval.value == 50
    assert part_verdicts("CH.figure5.normalisation", found) == [Verdict.REPRODUCED, Verdict.NOT]
    assert spiking.turned_spikes(spikes_with(["neither"] * 40, np.arange(40), 40)).interval.value == 0


def test_crossings_by_run():
    causes, of_run = ["feed-forward"] * 3 + ["neither"], [0, 0, 1, 1]
    found = spikes_with(
        causes, of_run, way=np.array(["embedding", "boundary", "embedding", "boundary"]),
        xi_ratio=np.array([0.1, 0.3, 0.4, 9.0]), gain_rank=np.array([0.6, 0.8, 0.9, 0.0]),
        remaining_smooth=np.array([0.1, 0.9, 0.1, 0.1]), remaining_smooth_alike=np.array([1, 1, 0.5, 1]),
        remaining_half=np.array([0.1, 0.6, 0.7, 0.9]),
    )  # fmt: skip
    assert spiking.crossed_by_embedding(found).interval.value == pytest.approx(200 / 3)
    assert spiking.crossing_update(found).interval.value == pytest.approx(30)
    assert spiking.mean_assembler_rank(found).interval.value == pytest.approx(80)
    assert spiking.mean_assembler_rank(found).effect == pytest.approx(0.6)
    assert spiking.removed_by_smoothing(found).interval.value == 50
    assert spiking.removed_by_smoothing(found).note.startswith("before 3 both")
    assert spiking.removed_by_half_step(found).interval.value == 25


def test_vectors_within_a_step_of_the_origin():
    import json

    tokens, places = np.zeros((2, 1, 2, 2)), np.full((2, 1, 3, 2), 2.0)
    tokens[1, 0, 1] = -1.999  # run 1 has one at .001 on both axes
    trajectory = xr.Dataset(
        {"embedding": (("run", "step", "token", "axis"), tokens),
         "position_embedding": (("run", "step", "position", "axis"), places)},
        attrs={"system": "sparse", "config_json": json.dumps({"length": 3, "sparsity": 2, "lr": 0.01})},
    )  # fmt: skip
    reach = spiking.step_to_length_ratio(trajectory)
    np.testing.assert_allclose(reach, [0.005, 10])
    found = spiking.within_step_of_origin(xr.Dataset({"reach": ("run", reach)}))
    assert (found.interval.value, found.note) == (50, "the largest such update is 10.00 of the length")


def test_assemblers_among_those_of_others():
    weights = np.zeros((4, 3, 2, 2))
    weights[:, :, 0, 0] = [[1.0], [2.0], [3.0], [9.0]]  # along one axis; the last has not escaped
    weights[1, :, 1, 1] = 2.0
    trajectory = xr.Dataset(
        {"assembler": (("run", "step", "hidden", "axis"), weights), "last_step": ("run", [20, 20, 20, 20])},
        {"step": [0, 10, 20]},
    )
    left = xr.Dataset({"escape": ("run", [1.0, 1, 1, 20]), "escaped": ("run", [True, True, True, False])})
    found = xr.Dataset({"of_run": ("spike", [2, 1, 0, 0]), "at": ("spike", [12, 12, -1, 0])})
    ranks = spiking.assembler_rank_among_runs(trajectory, found, left)
    np.testing.assert_allclose(ranks["gain_rank"], [1, 0.5, np.nan, np.nan])
    np.testing.assert_allclose(ranks["norm_rank"], [1, 0.5, np.nan, np.nan])
    np.testing.assert_allclose(ranks["alignment_rank"], [0.75, 0, np.nan, np.nan])


# ------------------------------------------------------------------------------------ remedies, normalisation


def test_what_a_remedy_does(generator):
    late = np.stack([np.full(40, 5.0), np.full(40, 2.0)]) + generator.integers(0, 2, (2, 40))
    found = xr.Dataset(
        {
            "spikes": (("remedy", "run"), late), "late": (("remedy", "run"), late),
            "since": (("remedy", "run"), np.full((2, 40), 1000.0)),
            "test": (("remedy", "run"), np.stack([np.full(40, 1.0), np.full(40, 0.8)])),
        },
        {"remedy": ["as recorded", "smooth norm"]},
    )  # fmt: skip
    fewer = remedies.spike_rate_change(found, "smooth norm")
    assert fewer.interval.low < -3 < fewer.interval.high
    assert fewer.effect == pytest.approx(late[1].mean() / late[0].mean())
    assert judge_estimate(spikes.OWN_CLAIMS[0].parts[0].rule, fewer).verdict == Verdict.REPRODUCED
    cost = remedies.accuracy_change(found, "smooth norm")
    assert cost.interval.value == pytest.approx(-20)
    assert cost.note.startswith("0 against 40 above .98, 40 against 40 escape")
    assert judge_estimate(spikes.OWN_CLAIMS[0].parts[1].rule, cost).verdict == Verdict.NOT
    never = found.assign(since=0 * found["since"], late=0 * found["late"])
    assert remedies.spike_rate_change(never, "smooth norm").note.startswith("no run escapes")
    calm = remedies.spike_rate_change(found.assign(late=0 * found["late"]), "smooth norm")
    assert np.isnan(calm.interval.value)
    assert calm.note.startswith("no run spikes")


def test_what_a_step_does_to_a_direction(evidence):
    found = evidence["vc.normalisation"]
    assert normalisation.unchanged_below_length(found).interval.value == 100
    assert normalisation.flips_beyond_length(found).interval.value == 100
    assert normalisation.disproportionate_changes(found).interval.value > 0
    flat = found.assign(changed=0 * found["changed"], turned=0 * found["turned"] + 2, moved=found["small"])
    assert normalisation.unchanged_below_length(flat).interval.value < 100
    assert normalisation.flips_beyond_length(flat).interval.value == 0
    assert normalisation.disproportionate_changes(flat).interval.value == 0
