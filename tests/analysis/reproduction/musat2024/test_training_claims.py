"""Verdicts on CA's claims about classifier, forces, alignment and weight decay, for
made evidence."""

import numpy as np
import pytest
import xarray as xr
from analysis.reproduction.rule import combine_verdicts

from analysis.forces.alignment import embedding_pair_sums
from analysis.reproduction.musat2024 import (
    classifier_claims,
    force_audit_claims,
    weight_decay_claims,
)
from analysis.reproduction.musat2024.networks import DECAYS
from dynamics import all_pairs, simulate
from tests.analysis.reproduction.judging import (
    NO,
    OPEN,
    PARTLY,
    UNTESTABLE,
    YES,
    made_evidence,
    part_estimate,
    part_verdicts,
    verdicts,
)
from tests.analysis.reproduction.musat2024.networks_evidence import DECAY, table
from tests.polygons import polygon

CIRCLE = np.broadcast_to(np.arange(40) < 20, (4, 40))


@pytest.fixture
def noise(generator):
    """Small differences between four weight decays and forty runs."""
    return 0.01 * generator.standard_normal((4, 40))


# Evidence of effects of some size: 1 is as claimed, 0 none, less than 0 the opposite.


def classifiers(effect, noise):
    none, kind = effect * (DECAY == 0), effect * np.where(CIRCLE, 1, -1)
    return table(
        CIRCLE,
        relative_steepness=10.0**none + noise,
        offset=4.0**none + noise,
        relative_offset=4.0**none + noise,
        evenness=0.5 - 0.4 * none + noise,
        slices=0.5 + 0.3 * kind + noise,
        irrelevance=0.5 - 0.4 * kind + 0.1 * noise,
        rays=0.78 + 0.17 * kind + 0.04 * effect + 0.1 * noise,
        rays_chance=0.68,
        right_near_like=0.75 + 0.15 * effect + noise,
        right_near_unlike=0.75 - 0.15 * effect - noise,
    )


def halt(effect, noise):
    moved = np.where(DECAY == 0, 0.15 * 15.0**-effect, 0.15) * np.exp(noise)
    return table(CIRCLE, second_half=moved, rate=moved, slowing=moved)


def outcomes(effect, noise):
    """End states of the networks of table 1."""
    accuracy = 60 + 40 * effect * (DECAY - 1) + 300 * noise
    before = 80 + 60 * effect
    imperfect = np.where(CIRCLE, 80 + 15 * effect, 80 - 40 * effect) + 300 * noise
    return table(
        CIRCLE,
        accuracy=accuracy,
        train_accuracy=60.0,
        imperfections=imperfect,
        start_imperfections=before,
        chance_imperfections=before,
    )


def sizes(effect, noise):
    decay = np.array(weight_decay_claims.DECAYS)[:, None]
    weight = np.exp(-effect * decay + 10 * np.resize(noise, (11, 40)))
    return table(
        np.zeros((11, 40)),
        weight_decay_claims.DECAYS,
        weight=weight,
        output_weight=weight,
        bias=weight**2,
    )


def neighbours(effect, noise):
    noise = 5 * noise[:2]
    falling, most = -0.4 * effect + noise, 200 + 100 * effect
    columns = {
        **dict.fromkeys(("unlike_rank", "right_side", "wrong_side"), falling),
        **dict.fromkeys(("unlike_hits", "like_hits", "like_region"), most),
        **dict.fromkeys(("unlike_count", "like_count"), 400),
        "like_rank": 0.25 - 0.25 * effect + noise,
    }
    evidence = made_evidence({"epoch": [20, 100], "run": 40}, {"epoch run": columns})
    for kind, powers in force_audit_claims.POWERS.items():
        top = force_audit_claims.PAPERS[kind] + 1 - effect + noise
        curves = 0.5 - 0.01 * (np.array(powers) - top[..., None]) ** 2
        evidence[f"{kind}_power"] = list(powers)
        evidence[f"by_{kind}"] = (("epoch", "run", f"{kind}_power"), curves)
    return evidence


def audits(effect, noise):
    grows = effect * (1 + np.array(DECAYS)[:, None, None])
    noise = noise[:, None]
    columns = {
        "weight_decay epoch run": {
            "r_squared": 0.15 + 0.3 * grows + noise,
            "renamed_r_squared": 0.15,
            "law_r_squared": 0.0,
        },
        "field weight_decay epoch run": {"weight": 0.4 * grows + noise},
    }
    lengths = {
        "weight_decay": list(DECAYS),
        "epoch": [0, 20, 100, 2000],
        "field": [
            "like_attraction",
            "unlike_repulsion",
            "like_alignment",
            "unlike_alignment",
        ],
        "run": 40,
    }
    return made_evidence(lengths, columns)


def angles(effect, noise):
    """Circles of 17 tokens with eight corners, and of 12 with eight or nine; weights
    align unless the number is odd."""
    circle = np.arange(40)
    odd = (circle % 2 == 1) & (circle >= 20)
    sign = np.where(np.array([[True], [False]]) & odd, -1, 1)  # (direction, circle)
    columns = {
        "epoch direction circle": {
            "angle": 2 * (1 - 0.6 * effect * sign + noise[0]),
            "random": 2.0,
        },
        "circle": {"tokens": np.where(circle < 20, 17, 12), "corners": 8 + odd},
    }
    lengths = {
        "epoch": list(classifier_claims.EPOCHS),
        "direction": ["weight", "boundary"],
        "circle": 40,
    }
    return made_evidence(lengths, columns)


@pytest.mark.parametrize(
    ("experiment", "made", "opposite", "small"),
    [
        ("ca.classifier", classifiers, {NO, OPEN}, {PARTLY}),
        ("ca.halt", halt, {OPEN}, {PARTLY}),
        ("ca.figure6", sizes, {NO}, {PARTLY, YES}),
        ("ca.distance", neighbours, {NO, OPEN}, {NO, OPEN, PARTLY}),
        ("ca.audit", audits, {NO}, {PARTLY, NO}),
        ("ca.weight-angles", angles, {NO}, {PARTLY}),
    ],
)
def test_verdicts_follow_the_size_of_effects(experiment, made, opposite, small, noise):
    for effect, expected in ((1, {YES}), (-1, opposite), (0.1, small)):
        outcome = verdicts(made(effect, noise), experiment)
        assert set(outcome.values()) == expected, effect


@pytest.mark.parametrize(("power", "expected"), [(1, YES), (3, NO), (-0.5, NO)])
def test_a_push_that_falls_by_another_power_is_not_reproduced(power, expected, noise):
    evidence = neighbours(1, noise)
    powers = evidence["repulsion_power"]
    best = power + xr.zeros_like(evidence["like_rank"]) + 5 * noise[:2]
    evidence["by_repulsion"] = 0.5 - 0.01 * (powers - best) ** 2
    outcome = verdicts(evidence, "ca.distance")
    assert outcome["CA.s5.1.inverse"] == expected


@pytest.mark.parametrize(
    ("effect", "expected"),
    [(1, [YES] * 4), (-1, [OPEN, NO, NO, NO]), (0.1, [PARTLY, PARTLY, PARTLY, PARTLY])],
)
def test_verdicts_on_clusters_and_accuracy_follow_the_size_of_effects(
    effect, expected, noise
):
    evidence = outcomes(effect, noise)
    names = (
        "CA.figure3.clusters",
        "CA.figure4.no-clusters",
        "CA.s7.overfit",
        "CA.s7.generalises",
    )
    assert [
        combine_verdicts(part_verdicts(name, evidence)) for name in names
    ] == expected


def test_estimates_and_notes(noise):
    data = classifiers(1, noise)
    assert part_estimate("CA.s5.classified", data).count == 20
    clustered = part_estimate("CA.figure3.clusters", outcomes(1, 0 * noise))
    assert clustered.value == pytest.approx(100 * (1 - 40 / 153))
    assert weight_decay_claims.bias_to_weight_ratio(
        sizes(1, noise)
    ).value == pytest.approx(np.e, rel=0.05)
    gap_change = part_estimate("CA.s7.overfit", outcomes(1, noise), 1)
    assert gap_change.value == pytest.approx(40, abs=2)
    assert (
        force_audit_claims.fields_r_squared(audits(1, noise), 20).note
        == "0.00 with the paper's constants"
    )
    assert (
        classifier_claims.rays_of_circles(data).note
        == "0.68 with tokens renamed at random"
    )
    assert (
        classifier_claims.relative_angle(angles(1, noise), "weight", tokens=17).note
        == "0.8° against 2.0°"
    )
    odd = classifier_claims.relative_angle(angles(1, 0 * noise), "weight", odd=True)
    assert (odd.value, odd.count) == (pytest.approx(1.6), 10)
    no_circles = data.assign(circle=0 * data["circle"])
    assert part_verdicts("CA.figure4.rays", no_circles) == [UNTESTABLE] * 2


def test_the_best_power_is_where_the_mean_curve_is_highest(noise):
    for effect, expected in (
        (0.4, 1.6),
        (-9, 4),
        (9, -0.75),
    ):  # between the powers that were tried, and at their ends
        estimate = force_audit_claims.best_power(
            neighbours(effect, noise), "repulsion", 20
        )
        assert estimate.value == pytest.approx(expected, abs=0.05)
        assert ("end of the powers" in estimate.note) == (effect != 0.4)
    nothing = neighbours(1, noise) * np.nan
    assert np.isnan(force_audit_claims.best_power(nothing, "repulsion", 20).value)
    none = neighbours(1, noise).assign(
        like_count=lambda evidence: 0 * evidence["like_count"]
    )
    assert (
        force_audit_claims.neighbour_percentage(none, "like", "hits", 20).note
        == "there are none"
    )


class Polygons:
    """Runs ensembles in which the first two networks are polygons with six and three
    corners, with weights on them."""

    def ensemble(self, need):
        trajectory = simulate(need.settings, need.runs, steps=2, every=1).load()
        embedding = np.stack(
            [polygon(6), polygon(6, step=2), polygon(6) * np.arange(1, 7)[:, None]]
        )
        trajectory["embedding"][:] = embedding[:, None].astype(np.float32)
        trajectory["hidden_weight"][:] = embedding_pair_sums(
            embedding, np.tile(all_pairs(6)[:1], (32, 1))
        )[:, None]
        trajectory["hidden_bias"][:] = 0.1
        return trajectory


def test_angles_are_measured_in_circles_only():
    data = classifier_claims.measure_angles(Polygons(), {"tokens": [6], "runs": 3})
    assert data["corners"].values.tolist() == [6, 3]
    end = data.sel(epoch=2000)
    np.testing.assert_allclose(
        end["angle"], [[0, 0], [0, 30]], atol=0.1
    )  # of weights, then of boundaries
    np.testing.assert_allclose(end["random"][:, 1], 15, rtol=0.05)
