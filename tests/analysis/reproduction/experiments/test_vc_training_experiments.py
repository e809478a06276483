"""Claims on VC's hyperparameters, transfer and spikes: estimates and verdicts on evidence whose answer is known."""

import itertools

import numpy as np
import pytest
import xarray as xr

from analysis.reproduction.claims import hyperparameters, spikes, transfer
from analysis.reproduction.experiments import ablation as ablations
from analysis.reproduction.experiments import finetuning, normalisation, recipe_changes, remedies
from analysis.reproduction.experiments import spikes as spiking
from analysis.reproduction.experiments import transfer as transfers
from analysis.reproduction.verification import samples
from analysis.reproduction.verification.criteria import Verdict, judge_estimate
from analysis.statistics.intervals import NO_INTERVAL
from tests.analysis.reproduction.judging import CLAIMS_BY_NAME, part_verdicts

# ------------------------------------------------------------------------------------------------- transfer


def accuracies(values, vocabs=(2, 3)):
    """Evidence of `vc.transfer`: (kind, vocab, run) by kind."""
    test = np.full((4, len(vocabs), len(values[0][0])), np.nan)
    for kind, rows in enumerate(values):
        test[kind, : len(rows)] = rows
    return xr.Dataset(
        {"test": (("kind", "vocab", "run"), test)}, {"kind": list(transfers.TRANSFER_KINDS), "vocab": list(vocabs)}
    )


def test_learning_from_scratch(generator):
    chance = 1 / 3 + 0.01 * generator.normal(size=30)
    some = chance.copy()
    some[:3] = 0.9
    for values, count in ((chance, 0), (some, 3)):
        found = accuracies([[np.full(30, 0.5), values]])
        assert transfers.learned_runs(found, 3).interval.value == pytest.approx(100 * count / 30)
        assert transfers.not_learned_runs(found, 3).interval.value == pytest.approx(100 - 100 * count / 30)
    assert transfers.learned_runs(found, 3).note == "the best run has 90.0%"
    assert np.isnan(transfers.learned_runs(found, 7).interval.value)
    assert "p = 7" in transfers.not_learned_runs(found, 7).note


def test_what_diverged_is_left_out():
    found = accuracies([[[0.5] * 4, [0.3, np.nan, 0.9, np.nan]]])
    assert transfers.learned_runs(found, 3).count == 2


def test_harder_with_p():
    rows = [np.linspace(1, 0.9, 10), np.linspace(0.7, 0.6, 10), np.linspace(0.3, 0.29, 10)]
    found = transfers.vocabulary_correlation(accuracies([rows], (2, 3, 4)))
    assert found.interval.value < -0.9
    assert transfers.vocabulary_correlation(accuracies([rows[::-1]], (2, 3, 4))).interval.value > 0.5
    assert "fewer than three" in transfers.vocabulary_correlation(accuracies([rows[:2]])).note


def test_gains_of_finetuning(generator):
    low, high = (mean + 0.05 * generator.normal(size=40) for mean in (0.4, 0.6))
    found = accuracies([[low, low], [low, low], [low * np.nan, high]])
    gain = transfers.finetuning_gain(found, 3)
    assert gain.interval.low < 20 < gain.interval.high
    assert gain.effect == pytest.approx(4, abs=1)
    against = accuracies([[high, high], [high, high], [low * np.nan, low]])
    assert (
        judge_estimate(transfer.LEARNING[-1].parts[0].rule, transfers.finetuning_gain(against, 3)).verdict
        == Verdict.NOT
    )
    assert transfers.finetuning_gain(against, 3, over=transfers.TRANSFER_KINDS[1]).interval.value == pytest.approx(
        -20, abs=4
    )


def test_effect_sizes_have_known_values():
    assert samples.cohens_d(np.array([1.0, 3.0]), np.array([0.0, 2.0])) == pytest.approx(1 / np.sqrt(2))
    assert np.isnan(samples.cohens_d(np.ones(3), np.ones(3)))
    assert np.isnan(samples.cohens_d(np.ones(1), np.ones(3)))


def test_a_run_that_learns_is_a_rare_exception():
    rule = transfer.LEARNING[0].parts[0].rule
    values = np.full(250, 0.2)
    for lucky, verdict in ((0, Verdict.REPRODUCED), (1, Verdict.PARTLY), (60, Verdict.NOT)):
        values[:lucky] = 0.8
        found = transfers.not_learned_runs(accuracies([[values, values]], (2, 5)), 5)
        assert judge_estimate(rule, found).verdict == verdict


@pytest.mark.parametrize(("best", "share"), [(0.81, 0.0), (0.92, 50.0)])
def test_better_than_all_from_scratch(best, share):
    found = accuracies([[[0.5] * 4, [0.3, 0.3, 0.3, 0.8]], [[0.5] * 4, [0.3, 0.3, 0.3, 0.805]],
                        [[np.nan] * 4, [0.3, 0.3, best, best]]])  # fmt: skip
    assert transfers.better_than_all(found, 3).interval.value == share
    solved = transfers.better_than_all(found.assign(test=(found["test"] / 0.805).clip(max=1)), 3)
    assert "no room" in solved.note
    assert solved.interval.value == 0


def test_nobody_beats_one_that_is_perfect():
    perfect = accuracies([[[0.5] * 90, [1.0] * 90], [[0.5] * 90, [1.0] * 90], [[np.nan] * 90, [1.0] * 90]])
    rule = CLAIMS_BY_NAME["VC.figure9.maximum"].parts[0].rule
    assert judge_estimate(rule, transfers.better_than_all(perfect, 3)).verdict == Verdict.NOT


# ------------------------------------------------------------------------------------------------ finetuning


def circuits(**changed):
    """Evidence of `vc.finetuning` of four runs."""
    plain = {
        "source_test": [1.0, 1.0, 1.0, 0.6], "clusters": [6, 6, 9, 40],
        "coarse_clusters": [6, 6, 6, 30], "source_whole": [1, 1, 0, 0],
        "test": [1.0, 0.99, 0.7, 0.4], "scratch_test": [0.3, 0.3, 0.3, 1.0], "carried": [1, 1, 1, 1],
        "kept": [1, 0, np.nan, np.nan], "whole": [1, 1, 0, 0], "corrected": [0, 1, 0, 0],
        "scratch_whole": [0, 0, 0, 1], "own_distance": [0.1, 0.3, 1, 1], "other_distance": [1.0, 1, 1, 1],
        "own_correlation": [0.9, 0.7, 0, 0], "other_correlation": [0.1, 0.1, 0, 0],
    }  # fmt: skip
    values = {
        name: ("run", np.asarray(each, float)) for name, each in {**plain, **changed}.items() if name != "attention"
    }
    given = changed.get("attention", [[0.5, 0.4, 0.05], [0.3, 0.4, 0.35], [np.nan] * 3, [np.nan] * 3])
    return xr.Dataset(
        {**values, "attention": (("run", "token"), given), "same_target": ("vocabulary", [1000, 1000])},
        attrs={"ideal": 6, "counting": 5, "length": 12},
    )


def test_what_reaches_all_sequences():
    assert finetuning.perfect_from_ideal(circuits()).interval.value == 100
    other = circuits(test=[1.0, 0.99, 1.0, 0.4])
    found = finetuning.perfect_from_ideal(other)
    assert (found.interval.value, found.count) == (50, 2)
    assert found.note == "the others from 9; with links twice as long 2 of 2 are from 6"
    assert finetuning.perfect_from_invariant(other).interval.value == 50
    none = finetuning.perfect_from_ideal(circuits(test=[0.5] * 4))
    assert judge_estimate(transfer.CIRCUITS[2].parts[0].rule, none).verdict == Verdict.UNTESTABLE


def test_circuits_before_and_after_finetuning():
    found = circuits()
    assert finetuning.both_invariances(found).interval.value == 50
    assert finetuning.both_invariances(found).note == "of the 3 runs above .98 it is 2"
    assert finetuning.intact_with_token(found).interval.value == 50
    assert finetuning.intact_with_token(found).count == 2
    assert finetuning.started_from_source(found).interval.value == 100
    assert finetuning.started_from_source(circuits(carried=[1, 0, 1, 1])).interval.value == 75
    assert finetuning.start_distance(found).interval.value == pytest.approx(20)
    assert finetuning.attention_correlation(found).interval.value == pytest.approx(0.8)
    assert finetuning.attention_on_old(found).interval.value == 50
    assert finetuning.corrected_runs(found).interval.value == 50
    assert finetuning.invariance_gain(found).interval.value == 25
    assert finetuning.invariance_gain(found).effect == pytest.approx(2 * np.arcsin(0.5**0.5) - 2 * np.arcsin(0.5))
    assert finetuning.invariance_gain(found).note == "2 of 4 against 1 of 4"
    assert finetuning.same_target(found.isel(vocabulary=[0])).interval.value == 100
    failed = circuits(test=[0.4] * 4, attention=[[np.nan] * 3] * 4)
    for finding in (finetuning.start_distance, finetuning.attention_correlation, finetuning.attention_on_old):
        assert finding(failed).interval is NO_INTERVAL
        assert finding(failed).note == finetuning.NO_SUCCESS


def test_no_circuits_in_few_runs_exclude_nothing():
    none = xr.Dataset({name: ("run", np.zeros(24)) for name in ("whole", "scratch_whole")})
    found = finetuning.invariance_gain(none)
    assert found.interval.low < -10
    assert found.interval.high > 10
    rule = transfer.OF_SUMMARY[1].parts[0].rule
    assert judge_estimate(rule, found).verdict == Verdict.UNDECIDED
    with_one = none.assign(whole=("run", np.ones(24)))
    assert judge_estimate(rule, finetuning.invariance_gain(with_one)).verdict == Verdict.REPRODUCED


def test_an_exception_refutes_only():
    other = circuits(test=[1.0, 0.99, 1.0, 0.4])
    assert set(part_verdicts("VC.s4.2.six-clusters-only", other)) == {Verdict.NOT}


def test_clusters_that_foretell_and_do_not(generator):
    counts = np.arange(6, 26)
    falling = circuits_of(counts, np.linspace(1, 0.4, 20))
    assert finetuning.cluster_correlation(falling, successful=True).interval.high < -0.9
    assert finetuning.fewer_clusters_probability(falling, successful=True).interval.value == 1
    shuffled = circuits_of(counts, generator.permutation(np.linspace(1, 0.4, 20)))
    assert abs(finetuning.cluster_correlation(shuffled, successful=False).interval.value) < 0.6
    assert "too few" in finetuning.cluster_correlation(circuits_of(counts * 0 + 6, np.linspace(1, 0.4, 20)), True).note
    assert np.isnan(finetuning.fewer_clusters_probability(circuits_of(counts, np.full(20, 0.4)), True).interval.value)
    assert finetuning.cluster_correlation(falling, successful=True).note == "those above .98 at p = 2"


def circuits_of(counts, test):
    return xr.Dataset({"clusters": ("run", counts), "test": ("run", test), "source_test": ("run", np.ones(len(test)))})


# ------------------------------------------------------------------------------------------------ ablation


def panel(values):
    """Evidence of a panel of learning rates, (value, run), each twice the one before."""
    return xr.Dataset({"test_lr": (("lr", "run"), np.asarray(values, float))}, {"lr": 0.5 ** np.arange(len(values))})


def test_jumps_of_single_runs():
    found = ablations.accuracy_jumps(panel([[0.5, 0.5], [1.0, 0.55], [0.5, np.nan]]), "lr")
    assert (found.interval.value, found.count) == (pytest.approx(200 / 3), 3)
    assert found.note == "in the first run, as in figure 6, 2 of 2; a step is by a factor of 0.5"
    assert ablations.accuracy_jumps(panel([[0.5, 0.5], [0.52, 0.5]]), "lr").interval.value == 0


def test_regularity_of_the_mean(generator):
    rule = CLAIMS_BY_NAME["VC.figure7.regular"].parts[0].rule
    noise = generator.uniform(size=(13, 32))  # a mean of 32 is smooth, whether values do something or not
    assert judge_estimate(rule, ablations.panel_regularity(panel(noise), "lr")).verdict != Verdict.REPRODUCED
    offset = generator.uniform(size=(1, 400)) + 0.1 * generator.uniform(size=(13, 400))  # good runs, not good values
    assert judge_estimate(rule, ablations.panel_regularity(panel(offset), "lr")).verdict == Verdict.NOT
    wave = np.sin(np.arange(13.0))[:, None] * 0.3 + noise
    found = ablations.panel_regularity(panel(wave), "lr")
    assert judge_estimate(rule, found).verdict == Verdict.REPRODUCED
    assert found.interval.high <= 1
    lost = np.vstack([wave, np.full((1, 32), np.nan)])
    assert ablations.panel_regularity(panel(lost), "lr").interval == found.interval
    lost[0, 3] = np.nan
    assert ablations.panel_regularity(panel(lost), "lr").count == 31
    assert np.isnan(ablations.panel_regularity(panel(lost[-3:]), "lr").interval.value)
    assert np.isnan(ablations.panel_regularity(panel(np.ones((5, 8))), "lr").interval.value)
    alike = ablations.panel_regularity(panel(np.repeat(noise[:, :1], 8, axis=1)), "lr")
    assert alike.interval.value == pytest.approx(1)
    assert np.isnan(alike.interval.low)


def test_regularity_is_that_of_all_halves(generator):
    values = generator.normal(size=(5, 6)) + np.arange(5.0)[:, None]
    apart = values - values.mean(axis=0)
    covariance, variance = 0.0, 0.0
    for half in itertools.combinations(range(6), 3):
        one, other = (apart[:, those].mean(axis=1) for those in (list(half), sorted(set(range(6)) - set(half))))
        covariance, variance = covariance + one @ other, variance + one @ one
    assert ablations.panel_regularity(panel(values), "lr").interval.value == pytest.approx(covariance / variance)


def test_the_same_start():
    losses = {f"first_loss_{name}": ((name, "run"), [[0.7, 0.8], [0.7, 0.8]]) for name in ablations.SAME_START}
    assert ablations.same_initial_loss(xr.Dataset(losses)).interval.value == 100
    losses["first_loss_lr"] = (("lr", "run"), [[0.7, 0.8], [0.7, 0.81]])
    assert ablations.same_initial_loss(xr.Dataset(losses)).interval.value == 50


# ----------------------------------------------------------------------------------------------- relatives


def waits(wait, escaped):
    return xr.Dataset({"wait": (("setting", "run"), wait), "escaped": (("setting", "run"), escaped)})


def test_times_that_are_far_apart():
    wait = [[1.0, 1.0, 1.0, 9.0, 6.0, 9.0], [1.5, 3.0, 9.0, 4.0, 9.0, 9.0]]
    escaped = [[True, True, True, False, True, False], [True, True, False, True, False, False]]
    found = recipe_changes.escape_times_apart(waits(wait, escaped))
    assert (found.interval.value, found.count) == (75, 4)  # apart: the second, third and fourth; the fifth is not known
    assert found.note.startswith("1 pairs")


def test_times_that_foretell_and_do_not(generator):
    wait = generator.uniform(1, 5, 40)
    yes = np.ones((2, 40), bool)
    assert recipe_changes.escape_time_correlation(waits([wait, 2 * wait], yes)).interval.value == pytest.approx(1)
    other = recipe_changes.escape_time_correlation(waits([wait, generator.permutation(wait)], yes))
    assert judge_estimate(hyperparameters.CLAIMS[4].parts[0].rule, other).verdict == Verdict.REPRODUCED
    assert np.isnan(recipe_changes.escape_time_correlation(waits([wait, wait], ~yes)).interval.value)


def test_ends_of_the_same_start():
    own, other = [[0.2, 0.4], [0.4, 0.6]], [[1.4, 1.4], [1.4, 1.4]]
    dims = ("change", "run")
    found = xr.Dataset({"own_weight_distance": (dims, own), "other_weight_distance": (dims, other)},
                       {"change": ["lr 0.005", "batch 64"]})  # fmt: skip
    ends = recipe_changes.end_similarity(found, "weight_distance")
    assert ends.interval.value == pytest.approx(0.4)
    assert ends.note == "0.30 with lr 0.005, 0.50 with batch 64; between different seeds 1.40"
    assert recipe_changes.excess_end_similarity(found, "weight_distance").interval.value == pytest.approx(1)
    lost = found * np.nan
    assert np.isnan(recipe_changes.end_similarity(lost, "weight_distance").interval.value)
    assert recipe_changes.excess_end_similarity(lost, "weight_distance").note


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
