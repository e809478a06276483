"""Claims of CA: estimates and verdicts on evidence whose answer is known."""

import math

import numpy as np
import pytest
import torch
import xarray as xr
from scipy import stats

from analysis.reproduction.experiments import alignment as alignment_studies
from analysis.reproduction.experiments import (
    audit,
    classifier,
    distance,
    sequence,
)
from analysis.reproduction.experiments import weights as weight_studies
from analysis.reproduction.musat2024 import appendix_f, structures, table1
from analysis.reproduction.musat2024 import networks as network_studies
from analysis.reproduction.musat2024 import particles as particle_studies
from analysis.reproduction.own import sensitivity
from analysis.reproduction.verification import final_frames, samples
from analysis.reproduction.verification.criteria import Above, Verdict, combine_verdicts, judge_estimate
from analysis.statistics.intervals import difference_interval, mean_interval
from analysis.statistics.resampling import jackknife_groups, jackknife_runs, leave_one_out_interval
from analysis.structures.lattices import perfect_grids
from dynamics.networks.constant_attention import ConstantAttention
from dynamics.settings import ModularSettings
from dynamics.tasks import all_pairs
from dynamics.trajectory.diverged import not_diverged
from tests.analysis.reproduction.judging import part_verdicts, verdict

# ---------------------------------------------------------------------------------------------------- samples


def test_the_jackknife_of_a_mean_is_its_t_interval(generator):
    values = generator.standard_normal(30)
    for found in (jackknife_groups(lambda kept: values[kept].mean(), np.arange(30)),
                  jackknife_runs(lambda runs: float(values[runs].mean()), 30)):  # fmt: skip
        np.testing.assert_allclose(found, mean_interval(values))
    assert np.isnan(jackknife_runs(lambda runs: 1.0, 2).low)


def test_the_jackknife_leaves_out_whole_groups(generator):
    means = generator.standard_normal(12)
    values, groups = np.repeat(means, 5), np.repeat(np.arange(12), 5)
    found = jackknife_groups(lambda kept: values[kept].mean(), groups)
    np.testing.assert_allclose(found, mean_interval(means))
    assert math.isnan(jackknife_groups(lambda kept: 1.0, np.array([0, 0, 1])).low)


def test_the_jackknife_over_two_samples_is_welchs_error(generator):
    one, other = generator.standard_normal(12), 3 * generator.standard_normal(30)
    without = [[np.delete(one, k).mean() - other.mean() for k in range(12)],
               [one.mean() - np.delete(other, k).mean() for k in range(30)]]  # fmt: skip
    found = leave_one_out_interval(one.mean() - other.mean(), [np.array(each) for each in without])
    error = math.sqrt(one.var(ddof=1) / 12 + other.var(ddof=1) / 30)
    assert found.half == pytest.approx(stats.t.ppf(0.975, 11) * error)


def test_what_nothing_changes_is_no_certainty(generator):
    none = np.zeros(100)
    found = jackknife_runs(lambda runs: float(none[runs].mean()), 100)
    assert found.value == 0
    assert math.isnan(found.low)
    assert math.isnan(jackknife_groups(lambda kept: 0.1 + 0.2, np.arange(50)).high)
    for finding in (samples.estimate_mean(none), samples.paired_difference(none + 3, none),
        samples.independent_difference(none + 1, none),
                    samples.mean_by_seed(none, none == 0, np.arange(100), "circles")):  # fmt: skip
        assert math.isfinite(finding.interval.value)
        assert math.isnan(finding.interval.low)
        assert (
            judge_estimate(Above(-1), finding).verdict == judge_estimate(Above(9), finding).verdict == Verdict.UNDECIDED
        )
    assert samples.estimate_mean(none).note
    assert samples.estimate_mean(np.append(none, 1.0)).interval.high > 0


def test_differences_and_their_sizes(generator):
    one, other = generator.standard_normal(50) + 1, generator.standard_normal(40)
    found = samples.independent_difference(np.append(one, np.nan), other)
    assert found.interval == difference_interval(one, other)
    assert found.count == 90
    assert 0.4 < found.effect < 1.6
    assert samples.independent_difference(one, []).note
    ratio = samples.paired_ratio(np.array([2.0, 4.0, 6.0]), np.array([1.0, 2.0, 3.0]))
    np.testing.assert_allclose(ratio.interval, [2, 2, 2])
    apart = samples.percentage_difference((90, 10), (100, 100))
    assert apart.interval.value == pytest.approx(80)
    assert 60 < apart.interval.low < 75
    assert apart.interval.high < 90
    assert apart.effect == pytest.approx(2 * math.asin(math.sqrt(0.9)) - 2 * math.asin(math.sqrt(0.1)))
    assert math.isnan(samples.percentage_difference((0, 0), (0, 5)).interval.value)


def test_kinds_that_share_seeds_are_compared_over_seeds(generator):
    seeds = np.tile(np.arange(20), 2)
    values = np.concatenate([np.zeros(20), np.ones(20)]) + 5 * np.tile(generator.standard_normal(20), 2)
    first, second = np.arange(40) >= 20, np.arange(40) < 20
    values = values + 0.01 * generator.standard_normal(40)
    one = np.zeros(40)
    found = samples.stratified_difference(values, first, second, seeds, one, "networks")
    assert found.interval.value == pytest.approx(1, abs=0.02)
    assert 0 < found.interval.half < 0.02
    by_itself = samples.stratified_difference(values, first, second, np.arange(40), one, "networks")
    assert by_itself.interval.half > 1
    assert samples.stratified_difference(values, first, first & False, seeds, one, "networks").note
    pooled = samples.mean_by_seed(np.array([1.0, 3.0, 5.0]), np.ones(3, bool), np.array([0, 0, 1]), "circles")
    assert pooled.interval.value == 3.5
    assert (pooled.count, pooled.of) == (2, "seeds that have circles")


def test_kinds_are_compared_within_strata(generator):
    """Where one kind is rare, values are lower; within each stratum the first kind is better by 2."""
    strata = np.repeat([0, 1, 2], 200)
    first = generator.random(600) < np.array([0.1, 0.8, 0.0])[strata]
    values = np.array([0.0, 30.0, 99.0])[strata] + 2.0 * first + 0.5 * generator.standard_normal(600)
    found = samples.stratified_difference(values, first, ~first, np.tile(np.arange(200), 3), strata, "networks")
    apart = [values[first & (strata == k)].mean() - values[~first & (strata == k)].mean() for k in (0, 1)]
    weight = [min((first & (strata == k)).sum(), (~first & (strata == k)).sum()) for k in (0, 1)]
    assert found.interval.value == pytest.approx(np.average(apart, weights=weight))
    assert found.interval.low < 2 < found.interval.high
    assert found.interval.half < 0.3
    assert found.count == 400
    assert found.effect == pytest.approx(4, abs=0.6)


# --------------------------------------------------------------------------------------------- table 1 and halt


def table(circle, **quantities) -> xr.Dataset:
    """Evidence of the table's form from rows that broadcast to (weight_decay, run)."""
    shape = np.broadcast_shapes(np.shape(circle), *(np.shape(each) for each in quantities.values()))
    data = {name: (network_studies.DIMS, np.broadcast_to(np.asarray(values, float), shape))
            for name, values in {"circle": circle, **quantities}.items()}  # fmt: skip
    return xr.Dataset(data, {"weight_decay": list(network_studies.DECAYS), "run": np.arange(shape[1])})


DECAY = np.array(network_studies.DECAYS)[:, None]


def test_rows_of_table_1_are_counted_and_averaged(generator):
    circle = np.zeros((4, 100))
    circle[3, :18] = 1
    noise = generator.standard_normal((4, 100))
    found = table(circle, imperfections=31.6 + 20 * noise, accuracy=np.where(circle == 1, 60.4, 46.7) - 12 * noise)
    assert table1.network_circles(found, 1.0).interval.value == pytest.approx(18)
    assert table1.network_accuracy(found, 1.0, True).count == 18
    others = found.sel(weight_decay=1.0).where(found["circle"].sel(weight_decay=1.0) == 0)
    assert table1.network_imperfections(found, 1.0).interval.value == pytest.approx(
        float(others["imperfections"].mean())
    )
    assert table1.imperfection_correlation(found, 1.0).interval.value < -0.99
    assert verdict("CA.table1.wd1", found) == Verdict.REPRODUCED
    assert verdict("CA.table1.wd1", found.assign(circle=1 - found["circle"])) == Verdict.NOT
    assert verdict("CA.table1.wd1", found, 4) == Verdict.NOT  # a correlation of -1 is not -0.64
    assert math.isnan(table1.network_accuracy(found, 0.0, True).interval.value)
    assert table1.imperfection_correlation(found.assign(accuracy=0 * found["accuracy"]), 0.0).note


def test_circles_that_are_worse_contradict_the_paper(generator):
    circle = np.broadcast_to(np.arange(40) < 10, (4, 40))
    noise = 5 * generator.standard_normal((4, 40))
    for sign, expected in ((1, Verdict.REPRODUCED), (-1, Verdict.NOT)):
        found = table(circle, network_circle=circle, network_accuracy=50 + sign * 15 * circle + noise)
        assert set(part_verdicts("CA.table1.circles-ahead", found)) == {expected}
    none = table(0 * circle, network_circle=0 * circle, network_accuracy=noise)
    assert verdict("CA.table1.circles-ahead", none) == Verdict.UNTESTABLE


def test_what_weight_decay_does_is_read_either_way(generator):
    more = (np.arange(100) < 30 * DECAY).astype(float)
    noise = generator.standard_normal((4, 100))
    good = table(more, imperfections=100 - 70 * DECAY + 5 * noise, accuracy=20 + 30 * DECAY + 5 * noise,
                 train_accuracy=100 - 0 * noise)  # fmt: skip
    bad = good.assign_coords(weight_decay=1 - good["weight_decay"].values).sortby("weight_decay")
    bad = bad.assign_coords(weight_decay=list(network_studies.DECAYS))
    for name in ("CA.s4.decay-circles", "CA.s4.decay-imperfections", "CA.s7.generalises"):
        assert set(part_verdicts(name, good)) == {Verdict.REPRODUCED}
        assert set(part_verdicts(name, bad)) == {Verdict.NOT}
    assert network_studies.weight_decay_trend(table(0 * more), "circle").note
    assert network_studies.overfitting_gap(good, 0.0).interval.value == pytest.approx(80, abs=2)
    assert verdict("CA.s7.overfit", good, 1) == Verdict.REPRODUCED
    assert verdict("CA.s7.overfit", bad, 1) == Verdict.NOT


def test_clusters_against_start_and_chance():
    circle = np.broadcast_to(np.arange(20) < 5, (4, 20))
    imperfect = np.where(circle, 100, 30) + np.arange(20) % 4
    found = table(circle, imperfections=imperfect, start_imperfections=145.0, chance_imperfections=140.0)
    assert network_studies.clustered_sums(found, 0.6).interval.value == pytest.approx(100 * (1 - 31 / 153), abs=0.5)
    assert set(part_verdicts("CA.figure3.clusters", found)) == {Verdict.REPRODUCED}
    assert verdict("CA.figure4.no-clusters", found) == Verdict.REPRODUCED
    none = found.assign(imperfections=found["start_imperfections"] + np.arange(20) % 2)
    assert set(part_verdicts("CA.figure3.clusters", none)) == {Verdict.NOT}
    assert verdict("CA.figure4.no-clusters", none) == Verdict.NOT


def test_a_halt_is_told_from_motion(generator):
    still = np.where(DECAY == 0, 0.01, 0.3) * np.exp(0.1 * generator.standard_normal((4, 30)))
    found = table(0 * still, second_half=still, rate=still, slowing=still)
    for name in ("CA.s5.1.halt", "CA.s5.1.slowing"):
        assert set(part_verdicts(name, found)) == {Verdict.REPRODUCED}
        assert set(part_verdicts(name, found.assign({each: 0.1 / found[each] for each in found}))) == {Verdict.NOT}


# -------------------------------------------------------------------------------------------------- classifier


@pytest.fixture
def some_classifier(generator):
    """Of three networks with random weights, and those weights for `ConstantAttention`."""
    network = ConstantAttention(ModularSettings())
    drawn = {name: generator.standard_normal((3, *shape)) for name, shape in network.shapes.items()}
    pairs = all_pairs(17)
    x = drawn["embedding"]
    sums = x[:, pairs[:, 0]] + x[:, pairs[:, 1]]
    right = np.broadcast_to(pairs.sum(axis=1) % 17, sums.shape[:2])
    layers = (drawn[name] for name in ("hidden_weight", "hidden_bias", "output_weight", "output_bias"))
    return network, drawn, classifier.Classifier(*layers, sums, right)


def test_the_push_on_pair_sums_adds_up_to_the_gradient_of_the_embedding(some_classifier):
    network, drawn, of = some_classifier
    weights = {name: torch.from_numpy(values) for name, values in drawn.items()}
    weights["embedding"].requires_grad_()
    pairs = torch.from_numpy(all_pairs(17))
    network.losses(weights, pairs).sum().backward()
    pushed = classifier.pair_sum_gradients(of)
    onto = np.zeros_like(drawn["embedding"])
    for place, (i, j) in enumerate(all_pairs(17)):
        onto[:, i] += pushed[:, place]
        onto[:, j] += pushed[:, place]
    np.testing.assert_allclose(onto, -weights["embedding"].grad.numpy(), atol=1e-9)


def test_steepness_is_the_slope_of_the_margin(some_classifier):
    of = some_classifier[2]
    slope = np.zeros_like(of.sums)
    for axis in range(2):
        step = 1e-6 * np.eye(2)[axis]
        ahead, behind = (classifier.logit_margin(of._replace(sums=of.sums + sign * step)) for sign in (1, -1))
        slope[..., axis] = (ahead - behind) / 2e-6
    numeric, found = np.linalg.norm(slope, axis=-1), classifier.logit_steepness(of)
    assert (np.abs(found - numeric) < 1e-4 * (1 + numeric)).mean() > 0.99  # a kink or two may lie within a step
    scores = of.logits(of.sums)
    assert ((classifier.logit_margin(of) > 0) == (scores.argmax(axis=-1) == of.right)).all()


def test_what_regions_and_pushes_look_like(some_classifier):
    of = some_classifier[2]
    homogeneous = of._replace(bias=0 * of.bias, output_bias=0 * of.output_bias)
    np.testing.assert_allclose(classifier.radial_agreement(homogeneous), 1.0)
    assert (classifier.radial_agreement(of) < 0.99).all()
    one = np.zeros((1, 50))
    one[0, 3] = 2.0
    np.testing.assert_allclose(classifier.force_evenness(one), 1 / 50)
    np.testing.assert_allclose(classifier.force_evenness(np.full((1, 50), 0.1)), 1.0)
    assert math.isnan(classifier.force_evenness(np.zeros((1, 50)))[0])
    norms = np.linalg.norm(of.hidden, axis=-1)
    np.testing.assert_allclose(classifier.activation_offset(of._replace(bias=-0.3 * norms)), 0.3)
    along = of._replace(hidden=np.ones((3, 1, 2)), bias=np.zeros((3, 1)), output=np.zeros((3, 17, 1)))
    assert np.isnan(classifier.length_logit_correlation(along._replace(output_bias=np.zeros((3, 17))))).all()


def test_pairs_that_are_right_by_what_is_nearest_to_them(some_classifier):
    of = some_classifier[2]
    found = classifier.accuracy_by_nearest_class(of)
    for run in range(3):
        r = np.linalg.norm(of.sums[run, :, None] - of.sums[run], axis=-1)
        np.fill_diagonal(r, np.inf)
        like = of.right[run, r.argmin(axis=1)] == of.right[run]
        correct = of.logits(of.sums)[run].argmax(axis=-1) == of.right[run]
        assert found["right_near_like"][run] == pytest.approx(correct[like].mean())
        assert found["right_near_unlike"][run] == pytest.approx(correct[~like].mean())
    alone = of._replace(right=np.zeros_like(of.right))
    assert np.isnan(classifier.accuracy_by_nearest_class(alone)["right_near_unlike"]).all()


def test_clusters_are_classified_right_or_not(generator):
    circle = np.broadcast_to(np.arange(30) < 5, (4, 30))
    noise = 0.05 * generator.standard_normal((4, 30))
    found = table(circle, right_near_like=0.9 + noise, right_near_unlike=0.6 - noise)
    assert verdict("CA.s5.classified", found) == Verdict.REPRODUCED
    assert classifier.clustered_accuracy_gain(found, 0.6).count == 25
    turned = found.rename(right_near_like="right_near_unlike", right_near_unlike="right_near_like")
    assert verdict("CA.s5.classified", turned) == Verdict.NOT


def test_longer_pair_sums_are_surer_where_the_logit_is_their_length():
    angle = np.linspace(0, 2 * np.pi, 400, endpoint=False)
    ring = np.stack([np.cos(angle), np.sin(angle)], axis=-1)
    radius = 1 + np.arange(400) % 7
    of = classifier.Classifier(
        hidden=ring[None], bias=np.zeros((1, 400)), output=np.ones((1, 17, 400)), output_bias=np.zeros((1, 17)),
        sums=(radius[:, None] * ring)[None], right=np.zeros((1, 400), int),
    )  # fmt: skip
    assert classifier.length_logit_correlation(of)[0] > 0.999
    assert classifier.length_logit_correlation(of._replace(output=-of.output))[0] < -0.999


def test_classifiers_are_compared_with_and_without_weight_decay(generator):
    spread = np.exp(0.1 * generator.standard_normal((4, 30)))
    narrow = table(0 * spread, relative_steepness=np.where(DECAY == 0, 10, 1) * spread, offset=np.where(
        DECAY == 0, 2, 1) * spread, relative_offset=np.where(DECAY == 0, 0.5, 0.1) * spread,
        evenness=np.where(DECAY == 0, 0.1, 0.6) * spread)  # fmt: skip
    turned = narrow.isel(weight_decay=[3, 1, 2, 0]).assign_coords(weight_decay=list(network_studies.DECAYS))
    for name in ("CA.s5.1.narrow", "CA.s5.1.nowhere", "CA.s7.origin", "CA.s7.origin-absolute"):
        assert set(part_verdicts(name, narrow)) == {Verdict.REPRODUCED}
        assert set(part_verdicts(name, turned)) == {Verdict.NOT}


# ----------------------------------------------------------------------------------------- weights and alignment


def test_sizes_of_weights_against_weight_decay(generator):
    decay = np.array(weight_studies.DECAYS)[:, None]
    noise = np.exp(0.05 * generator.standard_normal((11, 10)))
    sizes = {"weight": 3 - 2 * decay, "bias": 5 - 4.5 * decay, "output_weight": 6 - 4 * decay}
    data = {name: (network_studies.DIMS, values * noise) for name, values in sizes.items()}
    found = xr.Dataset(data, {"weight_decay": list(weight_studies.DECAYS), "run": np.arange(10)})
    assert weight_studies.weight_size_ratio(found, "weight").interval.value == pytest.approx(3, rel=0.05)
    assert weight_studies.bias_to_weight_ratio(found).interval.value == pytest.approx(10 / 3, rel=0.05)
    turned = found.isel(weight_decay=slice(None, None, -1)).assign_coords(weight_decay=found["weight_decay"].values)
    for name in ("CA.figure6.limited", "CA.figure6.falls", "CA.figure6.biases", "CA.s7.output"):
        assert set(part_verdicts(name, found)) == {Verdict.REPRODUCED}
        assert set(part_verdicts(name, turned)) == {Verdict.NOT}


def test_alignment_below_chance_contradicts_the_paper(generator):
    circle = np.broadcast_to(np.arange(30) < 15, (4, 30))
    noise = 0.01 * generator.standard_normal((4, 30))
    found = table(circle, alignment=np.where(circle, 0.35, 0.5) + noise, alignment_chance=0.5,
                  rays=np.where(circle, 0.99, 0.7) + 0.1 * noise, rays_chance=0.68,
                  slices=np.where(circle, 0.8, 0.3) + noise,
                  longer=np.where(circle, 0.95, 0.6) + noise)  # fmt: skip
    assert verdict("CA.s5.2.weights-align", found) == Verdict.NOT
    assert verdict("CA.s5.2.weights-align", found.assign(alignment=1 - found["alignment"])) == Verdict.REPRODUCED
    assert "chance 0.50" in alignment_studies.circle_alignment(found, "alignment").note
    turned = found.assign(circle=1 - found["circle"], longer=found["longer"] / 2)
    for name in ("CA.figure4.rays", "CA.figure4.pizza", "CA.s5.2.pizza"):
        assert set(part_verdicts(name, found)) == {Verdict.REPRODUCED}
        assert set(part_verdicts(name, turned)) == {Verdict.NOT}
    alike = found.assign(longer=0 * found["longer"] + 0.8 + noise)  # as sure of longer ones, but no more than others
    assert verdict("CA.s5.2.pizza", alike, 0) == Verdict.REPRODUCED
    assert verdict("CA.s5.2.pizza", alike, 1) == Verdict.NOT
    assert verdict("CA.figure4.rays", found.assign(circle=0 * found["circle"])) == Verdict.UNTESTABLE


# ------------------------------------------------------------------------------------------------------- forces


def planted_force(sums, right, p, q):
    """Repulsion 1 / r^p of the unlike and attraction r^q of the like, in plain loops."""
    force = np.zeros_like(sums)
    for ij in range(len(sums)):
        for kl in range(len(sums)):
            apart = sums[ij] - sums[kl]
            r = np.linalg.norm(apart)
            if ij != kl and r > 1e-12:
                like = right[ij] == right[kl]
                force[ij] += -apart / r * 1.5 * r**q if like else apart / r * 0.7 * r**-p
    return force


@pytest.mark.parametrize(("p", "q"), [(1.0, 0.0), (2.0, 0.0), (0.0, 0.0), (1.0, 1.0), (1.0, -0.5)])
def test_the_power_of_a_planted_law_is_found_again(p, q, generator):
    x = generator.standard_normal((17, 2))
    pairs = all_pairs(17)
    sums, right = x[pairs[:, 0]] + x[pairs[:, 1]], pairs.sum(axis=1) % 17
    force = planted_force(sums, right, p, q) + 3.0 * sums + np.array([1.0, -2.0])  # which is to be left out
    by_p, by_q = distance.distance_law_fits(sums, right, force)
    if q == 0:
        assert by_p.max() > 1 - 1e-9
        assert distance.REPULSIONS[by_p.argmax()] == p
    if p == 1:
        assert by_q.max() > 1 - 1e-9
        assert distance.ATTRACTIONS[by_q.argmax()] == q


def test_a_curve_is_highest_between_its_points():
    x = np.arange(0, 4.01, 0.25)
    assert distance.parabola_vertex(x, -((x - 1.1) ** 2)) == pytest.approx(1.1)
    assert distance.parabola_vertex(x, x) == 4.0
    assert distance.parabola_vertex(x, -x) == 0.0


def distance_evidence(generator, at: float, runs: int = 40, **more) -> xr.Dataset:
    """Curves that are highest at a power, and neighbours."""
    dims, shape = ("weight_decay", "epoch", "run"), (4, 2, runs)
    data = {}
    for name, powers in (("repulsion", distance.REPULSIONS), ("attraction", distance.ATTRACTIONS)):
        top = at + 0.2 * generator.standard_normal((*shape, 1))
        data[f"by_{name}"] = ((*dims, f"{name}_power"), 0.5 - 0.01 * (np.array(powers) - top) ** 2)
    data |= {name: (dims, np.broadcast_to(np.asarray(values, float), shape)) for name, values in more.items()}
    coords = {"weight_decay": list(network_studies.DECAYS), "epoch": [20, 100], "run": np.arange(runs)}
    coords |= {"repulsion_power": list(distance.REPULSIONS), "attraction_power": list(distance.ATTRACTIONS)}
    return xr.Dataset(data, coords)


def test_powers_are_judged_by_where_the_mean_curve_is_highest(generator):
    for at, by_inverse, by_constant in ((1.0, Verdict.REPRODUCED, Verdict.NOT), (0.0, Verdict.NOT, Verdict.REPRODUCED),
                                        (2.5, Verdict.NOT, Verdict.NOT)):  # fmt: skip
        found = distance_evidence(generator, at)
        assert verdict("CA.s5.1.inverse", found, 1) == by_inverse
        assert verdict("CA.s5.1.constant", found, 1) == by_constant
        assert distance.best_power(found, "repulsion", 1.0, 20).interval.value == pytest.approx(at, abs=0.15)
    beyond = distance.best_power(distance_evidence(generator, 9.0), "repulsion", 1.0, 20)
    assert "end of the powers" in beyond.note
    assert beyond.interval.value == 4.0
    nothing = distance_evidence(generator, 1.0) * np.nan
    assert math.isnan(distance.best_power(nothing, "repulsion", 1.0, 20).interval.value)


def test_neighbours_are_counted_once_and_judged_either_way(generator):
    right = np.repeat(np.arange(12), 2)
    place = 10.0 * np.stack([np.arange(12) % 4, np.arange(12) // 4], axis=-1)
    gap = 1 + 0.1 * np.arange(12)[:, None] * np.array([1.0, 0.0])
    sums = np.stack([place, place + gap * np.array([1.0, 0.0])], axis=1).reshape(-1, 2) - 15
    toward = np.stack([gap, -gap], axis=1).reshape(-1, 2) * np.array([1.0, 0.0])
    taken = right.copy()
    found = distance.nearest_neighbour_motion(sums, right, toward, taken)
    assert (found["like_count"], found["like_hits"], found["like_region"]) == (12, 12, 12)
    assert found["like_rank"] == pytest.approx(1.0)
    assert found["unlike_count"] == 0
    assert distance.nearest_neighbour_motion(sums, right, toward, np.arange(24))["like_region"] == 0
    unlike = distance.nearest_neighbour_motion(sums, np.arange(24), -toward, np.arange(24))
    assert (unlike["unlike_count"], unlike["unlike_hits"], unlike["like_region"]) == (12, 12, 0)
    assert math.isnan(unlike["like_rank"])


def test_shift_and_size_are_left_out(generator):
    sums = generator.standard_normal((30, 2))
    left = distance.remove_shift_and_scale(np.stack([4 * sums + 1.0, sums[:, ::-1]]), sums)
    np.testing.assert_allclose(left[0], 0, atol=1e-12)
    assert np.linalg.norm(left[1]) > 0.1


def test_either_side_of_a_boundary(generator):
    margin = np.linspace(-3, 3, 41)
    bump = distance.push_distance_correlation(np.exp(-(margin**2)), margin)
    assert bump["right_side"] == pytest.approx(-1)
    assert bump["wrong_side"] == pytest.approx(-1)
    entropy = distance.push_distance_correlation(1 / (1 + np.exp(margin)), margin)
    assert entropy["right_side"] == pytest.approx(-1)
    assert entropy["wrong_side"] == pytest.approx(1)


def test_shares_and_correlations_of_neighbours(generator):
    noise = 0.05 * generator.standard_normal(40)
    for sign, expected in ((1, Verdict.REPRODUCED), (-1, Verdict.NOT)):
        hits = 15 if sign > 0 else 4
        found = distance_evidence(
            generator, 1.0, unlike_count=20, unlike_hits=hits, like_count=20, like_hits=hits, like_region=hits,
            unlike_rank=-sign * 0.4 + noise, right_side=-sign * 0.4 + noise, wrong_side=-sign * 0.4 + noise,
            like_rank=noise if sign > 0 else 0.5 + noise,
        )  # fmt: skip
        for name in ("apart", "together", "closer", "region", "sigmoid"):
            assert verdict(f"CA.s5.1.{name}", found) == expected
        assert verdict("CA.s5.1.sigmoid", found, 2) == expected
        assert verdict("CA.s5.1.constant", found, 2) == expected
    half = distance.moved_neighbours(distance_evidence(generator, 1.0, like_count=200, like_hits=101), "like", 1.0, 20)
    assert abs(half.effect) < 0.1
    assert "half" in half.note
    none = distance.moved_neighbours(distance_evidence(generator, 1.0, like_count=0, like_hits=0), "like", 1.0, 20)
    assert math.isnan(none.interval.value)
    assert none.note


def audit_evidence(generator, **quantities) -> xr.Dataset:
    shape = (4, 4, 30)
    dims = ("weight_decay", "epoch", "run")
    noise = 0.05 * generator.standard_normal(shape)
    data = {name: (dims, np.broadcast_to(np.asarray(values, float), shape) + noise) for name, values in
            quantities.items()}  # fmt: skip
    data["renamed_r_squared"] = (dims, np.full(shape, 0.15))
    data["law_r_squared"] = (dims, np.full(shape, 0.1))
    weight = np.stack([data["like"][1], data["unlike"][1]] * 2, axis=-1)
    names = ["like_attraction", "unlike_repulsion", "like_alignment", "unlike_alignment"]
    coords = {"weight_decay": list(network_studies.DECAYS), "epoch": [0, 20, 100, 2000], "field": names}
    found = xr.Dataset(data, coords)
    found["weight"] = ((*dims, "field"), weight)
    return found


def test_the_audit_is_judged_either_way(generator):
    decay = np.array(network_studies.DECAYS)[:, None, None]
    good = audit_evidence(generator, r_squared=0.6 + 0.2 * decay, like=0.2 + 0.4 * decay, unlike=0.2 + 0.4 * decay)
    bad = audit_evidence(generator, r_squared=0.15 - 0.1 * decay, like=-0.2 - 0.4 * decay, unlike=-0.2 - 0.4 * decay)
    for name in ("OWN.audit", "OWN.audit-names", "OWN.audit-decay", "CA.s5.1.signs", "CA.s5.2.field", "CA.s7.forces"):
        assert set(part_verdicts(name, good)) == {Verdict.REPRODUCED}
        assert set(part_verdicts(name, bad)) == {Verdict.NOT}
    assert audit.excess_r_squared(good, 1.0, 20).interval.value == pytest.approx(0.65, abs=0.05)


# ---------------------------------------------------------------------------------------------------- structures


def polygon(frequency: int) -> np.ndarray:
    angle = 2 * np.pi * frequency * np.arange(17) / 17
    return np.stack([np.cos(angle), np.sin(angle)], axis=-1)


def test_kinds_of_ideal_end_states(generator):
    lattice = perfect_grids(17).basis[7]
    order = generator.permutation(17)
    x = np.stack([polygon(3), lattice, generator.standard_normal((17, 2)), polygon(3)[order], lattice[order]])
    found = {f"network_{name}": (("weight_decay", "network"), values[None])
             for name, values in structures.structure_distances(x).items()}  # fmt: skip
    data = xr.Dataset(found, {"weight_decay": [1.0]}).assign(chance_grid_distance=0.13, chance_circle_distance=0.79)
    data["network_circle"] = (("weight_decay", "network"), [[1.0, 0.0, 0.0, 1.0, np.nan]])
    kinds = structures.end_states_by_kind(data, "network")
    assert kinds["circle"].tolist() == [[True, False, False, True, False]]
    assert kinds["grid"].tolist() == [[False, True, False, False, False]]
    assert kinds["neither"].tolist() == [[False, False, True, False, False]]
    assert structures.regular_polygon_mask(data, "network").tolist() == [[True, False, False, False, False]]
    assert structures.regular_circles(data, "network").interval.value == 50
    assert structures.circular_polygons(data, "network").interval.value == 100
    assert structures.end_state_kinds(data, "network", 1.0, ("circle", "grid")).interval.value == 75


def structure_evidence(network_kinds, particle_kinds) -> xr.Dataset:
    """Of kinds by name, (setting, run) each; accuracy by kind."""
    distance = {"circle": (0.9, 0.9), "grid": (0.05, 0.05), "imperfect grid": (0.05, 0.5), "neither": (0.5, 0.6)}
    accuracy = {"circle": 70.0, "grid": 75.0, "imperfect grid": 50.0, "neither": 20.0}
    data = {}
    for system, dim, kinds in (("network", "weight_decay", network_kinds), ("particle", "fa", particle_kinds)):
        kinds = np.asarray(kinds)
        dims = (dim, system)
        data[f"{system}_circle"] = (dims, (kinds == "circle").astype(float))
        for place, name in enumerate(("grid_distance", "perfect_distance")):
            data[f"{system}_{name}"] = (dims, np.vectorize(lambda kind, at=place: distance[kind][at])(kinds))
        data[f"{system}_circle_distance"] = (dims, np.where(kinds == "circle", 0.02, 0.85))
        imperfect = np.where(kinds == "neither", 140, 30) + np.arange(kinds.shape[1]) % 5
        data[f"{system}_imperfections"] = (dims, imperfect.astype(float))
        if system == "network":
            values = np.vectorize(accuracy.get)(kinds) + np.arange(kinds.shape[1]) % 7
            data["network_accuracy"] = (dims, values)
    coords = {"weight_decay": list(network_studies.DECAYS), "fa": list(particle_studies.FAS)}
    return xr.Dataset(data, coords).assign(chance_grid_distance=0.13, chance_circle_distance=0.79)


def kinds_of(count: int, **shares: int) -> list[str]:
    named = [kind for kind, many in shares.items() for _ in range(many)]
    return [name.replace("_", " ") for name in named + ["neither"] * (count - len(named))]


def test_structures_are_judged_either_way():
    mixed = kinds_of(400, circle=80, grid=120, imperfect_grid=120)
    networks_rows = [kinds_of(400, imperfect_grid=100), kinds_of(400, grid=50), mixed, mixed]
    rows = [kinds_of(400, grid=300), mixed, kinds_of(400, circle=250, grid=100)]
    good = structure_evidence(networks_rows, rows)
    nothing = structure_evidence([kinds_of(400)] * 4, [kinds_of(400)] * 3)
    for name in ("CA.s4.structures", "CA.figure1.both", "CA.figure2.imperfect", "CA.s6.structures",
                 "CA.figure5.three", "CA.s6.more-circles"):  # fmt: skip
        assert set(part_verdicts(name, good)) == {Verdict.REPRODUCED}
        assert set(part_verdicts(name, nothing)) == {Verdict.NOT}
    for name in ("CA.s4.order", "CA.s2.generalisation", "CA.appA.circles", "CA.s6.as-networks"):
        assert set(part_verdicts(name, good)) == {Verdict.REPRODUCED}
    assert verdict("CA.s4.order", nothing, 1) == Verdict.UNTESTABLE
    turned = good.assign(network_accuracy=100 - good["network_accuracy"])
    assert set(part_verdicts("CA.s4.order", turned)) == {Verdict.NOT}
    many = structure_evidence(networks_rows, [rows[0], kinds_of(400, circle=300), rows[2]])
    assert verdict("CA.s6.as-networks", many, 0) == Verdict.NOT
    assert verdict("CA.s6.as-networks", many, 1) == Verdict.NOT


def test_higher_dimensions_are_judged_either_way():
    values = np.tile(np.arange(30.0), (2, 1))
    dims = ("dim", "run")
    good = xr.Dataset(
        {"imperfections": (dims, 40 + values), "chance_imperfections": (dims, 140 + 0 * values),
         "circle_distance": (dims, 0.5 + 0 * values), "grid_distance": (dims, 0.05 + 0 * values),
         "rare_imperfections": ("dim", [135.0] * 2), "rare_circle_distance": ("dim", [0.4] * 2),
         "rare_grid_distance": ("dim", [0.1] * 2)}, {"dim": [3, 4]},
    )  # fmt: skip
    bad = good.assign(imperfections=100 + good["imperfections"], grid_distance=0.5 + good["grid_distance"])
    assert set(part_verdicts("CA.appF.structures", good)) == {Verdict.REPRODUCED}
    assert set(part_verdicts("CA.appF.structures", bad)) == {Verdict.NOT}


def test_projections_find_a_circle_among_other_axes(generator):
    flat = np.concatenate([polygon(5), 0.01 * generator.standard_normal((17, 1))], axis=1)
    turn = stats.special_ortho_group.rvs(3, random_state=1)
    found = appendix_f.projection_distances(np.stack([flat, flat @ turn, generator.standard_normal((17, 3))]))
    assert found["circle_distance"][0] < 0.01
    assert found["circle_distance"][1] < 0.02
    assert found["circle_distance"][2] > 0.3


# ---------------------------------------------------------------------------------------------- order of events


def sequence_evidence(network, particle) -> xr.Dataset:
    """Onsets (run, event) of circles."""
    network, particle = (np.asarray(each, float) for each in (network, particle))
    return xr.Dataset(
        {"network_onset": (("network", "event"), network),
         "particle_onset": (("particle", "event"), particle)},
        {"event": list(sequence.EVENTS)},
    )  # fmt: skip


def test_orders_that_agree_and_orders_that_do_not(generator):
    order = np.array([0.2, 0.5, 0.3, 0.1]) + 0.001 * generator.standard_normal((20, 4))
    order[:2] = order[:2, [0, 2, 1, 3]]  # two of another order, without which all would be the same
    same = sequence_evidence(order, 10 * order)
    assert 90 < sequence.same_order(same).interval.value < 100
    assert verdict("OWN.sequence", same, 0) == verdict("OWN.sequence", same, 1) == Verdict.REPRODUCED
    assert "particles: frequency, polygon, imperfections, circle" in sequence.same_order(same).note
    opposite = sequence_evidence(order, -order)
    assert 0 < sequence.same_order(opposite).interval.value < 10
    assert verdict("OWN.sequence", opposite, 0) == verdict("OWN.sequence", opposite, 1) == Verdict.NOT
    late = order.copy()
    late[:, 3] = np.inf  # a frequency that never dominates is last
    assert sequence.same_order(sequence_evidence(order, late)).interval.value < 50
    few = sequence_evidence(order[:2], order)
    assert math.isnan(sequence.same_order(few).interval.value)
    assert sequence.same_order(few).note


def test_agreement_is_the_mean_over_pairs_of_circles(generator):
    one, other = ((generator.random((6, 5)) < 0.4).astype(float) for _ in range(2))
    both = np.mean([[(a == b).mean() for b in other] for a in one])
    assert sequence.order_agreement_between(one, other) == pytest.approx(both)
    inside = np.mean([(one[i] == one[j]).mean() for i in range(6) for j in range(6) if i != j])
    assert sequence.order_agreement_within(one) == pytest.approx(inside)


# -------------------------------------------------------------------------------------------------- sensitivity


def sensitivity_evidence(circles) -> xr.Dataset:
    """Of shares of circles by reading, (reading, fa) of 300; imperfections as printed."""
    circles = np.asarray(circles)
    circle = (np.arange(300) < 300 * circles[..., None]).astype(float)
    printed = np.array([paper[1].interval.value for paper in sensitivity.PRINTED.values()])
    imperfect = np.broadcast_to(printed[:, None], circle.shape)
    dims = ("reading", "fa", "run")
    names = ["defaults", *(f"choice {k}" for k in range(1, len(circles)))]
    return xr.Dataset({"circle": (dims, circle), "imperfections": (dims, imperfect)},
                      {"reading": names, "fa": list(particle_studies.FAS)})  # fmt: skip


def of_readings(name: str, evidence: xr.Dataset) -> Verdict:
    """On a whole claim in its two parts."""
    return combine_verdicts(part_verdicts(name, evidence))


def test_readings_that_contradict_the_paper():
    table_2, other = [0.01, 0.17, 0.56], [0.2, 0.12, 0.9]
    good = sensitivity_evidence([table_2] * 10)
    assert of_readings("OWN.sensitivity", good) == of_readings("OWN.sensitivity-rise", good) == Verdict.REPRODUCED
    one = sensitivity_evidence([table_2] * 9 + [other])
    assert of_readings("OWN.sensitivity", one) == of_readings("OWN.sensitivity-rise", one) == Verdict.PARTLY
    bad = sensitivity_evidence([table_2] * 5 + [other] * 5)
    assert sensitivity.contradicted_numbers(bad, "choice 7") == ["circles at f_a = 0.5", "circles at f_a = 2"]
    found = sensitivity.uncontradicted_readings(bad)
    assert found.interval.value == pytest.approx(100 * 4 / 9)
    assert found.count == 9
    assert "choice 7 (2 of 6 numbers)" in found.note
    assert of_readings("OWN.sensitivity", bad) == of_readings("OWN.sensitivity-rise", bad) == Verdict.NOT
    assert "20.0%, 12.0%, 90.0%" in sensitivity.rising_circles(bad).note
    none = bad.assign(circle=bad["circle"] * np.nan)
    assert not sensitivity.contradicted_numbers(none, "choice 7")


def test_a_number_near_the_papers_interval_is_no_contradiction():
    near = sensitivity_evidence([[0.0, 0.09, 0.56], [0.0, 0.09, 0.56]])  # the paper's own interval begins at 10.2%
    assert not sensitivity.contradicted_numbers(near, "choice 1")
    assert sensitivity.contradicted_numbers(sensitivity_evidence([[0.0, 0.02, 0.56]] * 2), "choice 1")


def test_no_circles_at_all_do_not_say_that_they_do_not_rise():
    assert sensitivity.rising_circles(sensitivity_evidence([[0, 0, 0]] * 3)).interval.value == 100


def test_readings_against_the_papers_words_are_shown_and_not_counted():
    found = sensitivity_evidence([[0.01, 0.17, 0.56]] * 3 + [[0.9, 0.5, 0.1]])
    names = [*found["reading"].values[:3], sensitivity.AGAINST[0]]
    found = found.assign_coords(reading=names)
    for finding in (sensitivity.uncontradicted_readings(found), sensitivity.rising_circles(found)):
        assert finding.interval.value == 100
        assert finding.count == 2
        assert f"not counted, {sensitivity.AGAINST[0]}" in finding.note


def test_readings_are_ensembles_that_a_cluster_can_make():
    needs = sensitivity.ensembles({"runs": 4})
    assert len({need.settings for need in needs}) == len(needs) == len(sensitivity.CHANGES) * 3
    assert set(sensitivity.AGAINST) < set(sensitivity.CHANGES)


def test_frames_of_runs_that_diverged_are_left_out():
    kept = np.array([True, False, True])
    np.testing.assert_equal(final_frames.expand_to_runs(np.array([1.0, 2.0]), kept), [1.0, np.nan, 2.0])
    trajectory = xr.Dataset({"last_step": ("run", [10, 5])}, {"step": [0, 10]})
    assert not_diverged(trajectory).tolist() == [True, False]
