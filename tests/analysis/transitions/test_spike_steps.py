"""Measures over all steps of a spike: distances to decision boundaries, closeness,
flips, and ordinary steps."""

import numpy as np
import pytest
import torch

from analysis.transitions import spike_attribution as attribution
from analysis.transitions import spike_steps
from dynamics.networks.clustering_head import ClusteringHead
from dynamics.settings import SparseSettings
from tests.analysis.transitions.test_spike_attribution import BOTH, ONE, head

SMALL = SparseSettings(length=4, sparsity=2, data=16, batch=16, hidden=8)


def random_weights(network, seed):
    return {
        name: torch.from_numpy(value[0]).double()
        for name, value in network.initial(np.array([seed])).items()
    }


@pytest.mark.parametrize("norm", ["rms", "unit", "rms-smooth"])
def test_distances_to_boundaries_agree_with_finite_differences(norm):
    network = ClusteringHead(
        SparseSettings(length=4, sparsity=2, hidden=8, norm=norm, table=3)
    )
    weights, sequences = (
        random_weights(network, 3),
        attribution.training_sequences(SMALL, 3),
    )
    result = spike_steps.boundary_distances(network, weights, sequences)
    xi = network.sequence_embedding(weights, sequences.tokens)

    def logits(x):
        return network.transform(weights, x) @ weights["embedding"].mT

    shifts = 1e-6 * torch.eye(2).double()
    slopes = torch.stack(
        [(logits(xi + shift) - logits(xi - shift)) / 2e-6 for shift in shifts], dim=-1
    )
    for row, target in enumerate(sequences.targets):
        others = [k for k in range(3) if k != target]
        margins = [logits(xi)[row, target] - logits(xi)[row, k] for k in others]
        steepness = [(slopes[row, target] - slopes[row, k]).norm() for k in others]
        expected = (
            min(
                margin / slope for margin, slope in zip(margins, steepness, strict=True)
            )
            / xi[row].norm()
        )
        assert float(result[row]) == pytest.approx(float(expected), rel=1e-5)


def path(weights, moved, loss, foot=0):
    """Measures of a replay through some weights; the steepest step is the last."""
    frames = {
        name: torch.stack([item[name] for item in (weights, *moved)])
        for name in weights
    }
    rise = attribution.LossRise(foot, len(moved) - 1, len(moved), len(moved))
    return spike_steps.step_measures(
        ClusteringHead(ONE), BOTH, frames, np.array(loss), rise, foot
    )


def test_flips_are_counted_at_every_step():
    before, x = head(0.1, 5.0)
    flipped = {**before, "position_embedding": before["position_embedding"] - 2.5 * x}
    worse = {**flipped, "receptor": flipped["receptor"] * 1.1}
    result = path(before, [before, flipped, worse], [1.0, 1.0, 2.0, 5.0])
    assert (result["flip_steps"], result["flip_rise"]) == (1, pytest.approx(0.25))
    assert result["flips_in_rise"] == pytest.approx(1 / 3)
    assert np.isnan([result["flips_ordinary"], result["xi_ratio_ordinary"]]).all()
    early = path(before, [before, flipped, flipped], [1.0, 1.0, 1.0, 2.0], foot=2)
    assert (early["flip_steps"], early["flips_ordinary"]) == (0, 0.5)
    # in one of the two ordinary steps, xi becomes -xi
    assert early["xi_ratio_ordinary"] == pytest.approx(1, abs=1e-3)
    assert result["largest_input_ratio"] == pytest.approx(2.5)
    calm = path(before, [before, before], [1.0, 1.0, 1.0])
    assert (calm["flip_steps"], calm["flip_rise"], calm["largest_xi_ratio"]) == (
        0,
        0,
        0,
    )


def test_crossings_of_the_steepest_step_and_of_ordinary_steps():
    before, _ = head(1.0, 20.0)
    over = {
        **before,
        "receptor_bias": torch.tensor([200.0, 0.0]).double(),
    }  # the boundary moves over token 0
    result = path(before, [before, before, over], [1.0, 1.0, 1.0, 9.0], foot=2)
    assert (result["crossed_in_step"], result["crossed_ordinary"]) == (0.5, 0)
    distances = spike_steps.boundary_distances(ClusteringHead(ONE), before, BOTH)
    assert (result["crossing_distance"], result["other_distance"]) == tuple(
        map(float, distances)
    )
    assert result["closeness"] == float(distances[0] < distances[1])
    unsteady = path(before, [over, before, over], [1.0, 1.0, 1.0, 9.0], foot=2)
    assert (
        unsteady["crossed_ordinary"] == 0.25
    )  # in one of the two steps before the spike, half of the sequences
    none = path(before, [before], [1.0, 2.0])
    assert np.isnan(
        [none["closeness"], none["crossed_ordinary"], none["crossing_distance"]]
    ).all()
