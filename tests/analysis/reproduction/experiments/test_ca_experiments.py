"""Claims of CA: estimates and verdicts on evidence whose answer is known."""

import math

import numpy as np
import pytest
import xarray as xr
from scipy import stats

from analysis.reproduction.musat2024 import appendix_f, structures, table1
from analysis.reproduction.musat2024 import networks as network_studies
from analysis.reproduction.musat2024 import particles as particle_studies
from analysis.reproduction.own import sensitivity
from analysis.reproduction.verification import final_frames, samples
from analysis.reproduction.verification.criteria import Above, Verdict, combine_verdicts, judge_estimate
from analysis.statistics.intervals import difference_interval, mean_interval
from analysis.statistics.resampling import jackknife_groups, jackknife_runs, leave_one_out_interval
from analysis.structures.lattices import perfect_grids
from dynamics.trajectory.diverged import not_diverged
from tests.analysis.reproduction.judging import part_verdicts, verdict
from tests.analysis.reproduction.musat2024.networks_evidence import DECAY, table

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
    good = table(more, imperfections=100 - 70 * DECAY + 5 * noise)
    bad = good.assign_coords(weight_decay=1 - good["weight_decay"].values).sortby("weight_decay")
    bad = bad.assign_coords(weight_decay=list(network_studies.DECAYS))
    for name in ("CA.s4.decay-circles", "CA.s4.decay-imperfections"):
        assert set(part_verdicts(name, good)) == {Verdict.REPRODUCED}
        assert set(part_verdicts(name, bad)) == {Verdict.NOT}
    assert network_studies.weight_decay_trend(table(0 * more), "circle").note


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
