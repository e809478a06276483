"""Claims on weights, forces and weight decay, for evidence whose answer is known."""

import numpy as np
import pytest
import xarray as xr

from analysis.forces.alignment import embedding_pair_sums
from analysis.reproduction.claim import Verdict
from analysis.reproduction.musat2024 import (
    decay_by_part_claims,
    force_audit_claims,
    weight_angle_claims,
)
from dynamics import all_pairs, simulate
from tests.analysis.reproduction.evidence_by_hand import dataset, judged, made_evidence
from tests.polygons import polygon


def test_weights_and_biases_without_weight_decay(generator):
    noise = np.exp(0.1 * generator.standard_normal((2, 50)))
    evidence = dataset(
        ("weight_decay", "run"),
        {"weight_decay": [0.0, 1.0]},
        weight=noise * [[2.0], [1.0]],
        bias=noise * [[6.0], [1.0]],
        movement=noise * [[1.0], [5.0]],
    )
    weights, biases, more = (
        one.estimate.value for one in judged("CA.figure6.decay-limits", evidence)
    )
    assert weights == pytest.approx(100, abs=10)
    assert 1 + biases / 100 == pytest.approx((1 + weights / 100) * (1 + more / 100))
    assert more == pytest.approx(200)
    (halt,) = judged("CA.s5.1.halt", evidence)
    assert halt.estimate.value == pytest.approx(-80, abs=2)
    assert halt.verdict is Verdict.HOLDS


def test_weight_decay_of_each_part():
    needs = decay_by_part_claims.ensembles({"runs": 4})
    decays = [
        (
            need.settings.weight_decay_of("hidden_weight"),
            need.settings.weight_decay_of("embedding"),
        )
        for need in needs
    ]
    assert decays == list(decay_by_part_claims.PARTS.values())


def test_changes_by_part_are_of_equal_seeds(generator):
    """Networks that are circles in one of two cases count in accuracies only."""
    seeds = generator.standard_normal(40)
    imperfections = 90 + 10 * seeds - np.array([0, 40, 30, 60])[:, None]
    circle = np.zeros((4, 40))
    circle[1, :10], imperfections[1, :10] = 1, 1e6
    accuracy = 20 + seeds + np.array([0, 20, 10, 30])[:, None]
    noise = 0.1 * generator.standard_normal((4, 40))
    evidence = dataset(
        ("decayed", "run"),
        {"decayed": list(decay_by_part_claims.PARTS)},
        circle=circle,
        imperfections=imperfections + noise,
        accuracy=accuracy + noise,
    )
    numbers = judged("CA.s7.link", evidence)
    values = [number.estimate.value for number in numbers]
    assert values == pytest.approx([-40, 20, -30, 10, -60], abs=0.1)
    assert [number.estimate.count for number in numbers[:3]] == [30, 40, 40]


@pytest.mark.parametrize("power", [1.6, 4.0, -0.75])
def test_the_best_power_is_where_the_mean_curve_is_highest(power, generator):
    powers = np.array(force_audit_claims.POWERS["repulsion"])
    best = power + 0.2 * generator.standard_normal((1, 40, 1))
    evidence = xr.Dataset(
        {
            "by_repulsion": (
                ("epoch", "run", "repulsion_power"),
                0.5 - 0.01 * (powers - best) ** 2,
            )
        },
        {"epoch": [20], "repulsion_power": powers},
    )
    estimate = force_audit_claims.best_power(evidence, "repulsion", 20)
    assert estimate.value == pytest.approx(power, abs=0.1)
    nothing = force_audit_claims.best_power(evidence * np.nan, "repulsion", 20)
    assert np.isnan(nothing.value)


def test_changes_of_clustering_and_of_alignment_are_sums_of_two_fields():
    decay = np.array([0.0, 1.0])[:, None, None]
    size = np.array([1.0, 2.0, 4.0, 8.0])[:, None, None, None]
    epoch, run = np.array([1.0, 1.0, 10.0])[:, None], 1 + 0.01 * np.arange(20)
    evidence = made_evidence(
        {
            "field": [*force_audit_claims.CLUSTERING, *force_audit_claims.ALIGNMENT],
            "weight_decay": [0.0, 1.0],
            "epoch": [20, 100, 2000],
            "run": 20,
        },
        {"field weight_decay epoch run": {"weight": size * decay * epoch * run}},
    )
    numbers = judged("CA.s7.forces", evidence)
    mean = run.mean()
    expected = [3 * mean, 12 * mean, 3 * mean, 12 * mean, 30 * mean, 120 * mean]
    assert [number.estimate.value for number in numbers] == pytest.approx(expected)


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
    """Random directions are 15 degrees from the nearest of twelve."""
    evidence = weight_angle_claims.measure(Polygons(), {"tokens": [6], "runs": 3})
    assert evidence["corners"].values.tolist() == [6, 3]
    np.testing.assert_allclose(evidence["weight"], [0, 0], atol=0.01)
    assert evidence["boundary"][0] == pytest.approx(0, abs=0.01)
    assert evidence["boundary"][1] == pytest.approx(2, rel=0.05)
