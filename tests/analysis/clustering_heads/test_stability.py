"""Circuits as fixed points: symmetry of the gradient, Hessians against dense ones,
rest, and gradient descent."""

import dataclasses

import numpy as np
import pytest
import torch
from numpy.testing import assert_allclose
from torch.func import grad

from analysis.clustering_heads import circuit_landscape, stability
from analysis.clustering_heads.constructions import ideal_circuit
from analysis.clustering_heads.invariances import network_invariances
from analysis.clustering_heads.labels import LabelThresholds
from analysis.clustering_heads.stability import (
    ROUNDING,
    SYMMETRIES,
    RegularizedLoss,
    all_sequences,
    symmetry_breaking_directions,
)
from dynamics import SparseSettings, sample_sequences, sparse_sum
from dynamics.networks.clustering_head import ClusteringHead

SMALL = SparseSettings(length=6, sparsity=3, hidden=6)
NETWORK = ClusteringHead(SMALL)
EVERY = all_sequences(SMALL)
DECAY = 1e-3


def random_parameters(network, generator):
    return torch.from_numpy(generator.standard_normal(sum(network.lengths)))


def symmetrized(network, row):
    """The parameters with one P for all non-spurious positions, and one for all
    spurious ones."""
    for part in SYMMETRIES:
        basis = symmetry_breaking_directions(network, part)
        row = row - basis @ (basis.T @ row)
    return row


@pytest.fixture
def row(generator):
    return random_parameters(NETWORK, generator)


@pytest.mark.parametrize("vocab", [2, 3])
def test_the_loss_is_that_of_the_network(generator, vocab):
    s = dataclasses.replace(SMALL, vocab=vocab, table=4)
    network, every = ClusteringHead(s), all_sequences(s)
    row = random_parameters(network, generator)
    target = torch.from_numpy(sparse_sum(every, s))
    plain = network.losses(
        network.unflatten(row), torch.from_numpy(every), target
    ).mean()
    torch.testing.assert_close(RegularizedLoss(network, every)(row), plain)
    torch.testing.assert_close(
        RegularizedLoss(network, every, 0.3)(row), plain + 0.15 * (row @ row)
    )


# ----------------------------------------------------------------------------- symmetry


def test_breaking_directions_move_positions_apart_and_nothing_else(row):
    for part, positions in (("order", [0, 1, 2]), ("suffix", [3, 4, 5])):
        basis = symmetry_breaking_directions(NETWORK, part)
        assert basis.shape == (len(row), 4)
        torch.testing.assert_close(basis.T @ basis, torch.eye(4).double())
        moved = NETWORK.unflatten(basis.T)
        position = moved.pop("position_embedding")
        assert not any(value.any() for value in moved.values())
        assert not position[:, [t for t in range(6) if t not in positions]].any()
        torch.testing.assert_close(
            position.sum(1), torch.zeros(4, 2).double(), atol=1e-12, rtol=0
        )
    whole = ClusteringHead(SparseSettings(length=3, sparsity=3))
    assert symmetry_breaking_directions(whole, "suffix").shape[1] == 0


def test_gradients_break_symmetry_only_on_samples_or_for_different_positions(row):
    sample = sample_sequences(SMALL, np.array([0]), "train")[0][:50].astype(np.int64)
    population = grad(RegularizedLoss(NETWORK, EVERY))
    for part in SYMMETRIES:
        basis, symmetric = (
            symmetry_breaking_directions(NETWORK, part),
            symmetrized(NETWORK, row),
        )
        assert float((basis.T @ population(symmetric)).norm()) < 1e-14
        assert (
            float((basis.T @ grad(RegularizedLoss(NETWORK, sample))(symmetric)).norm())
            > 1e-4
        )
        assert float((basis.T @ population(row)).norm()) > 1e-4  # P that differ already


def test_each_breaking_eigenvalue_occurs_as_often_as_there_are_directions():
    s = SparseSettings(length=7, sparsity=4, hidden=6, dim=3)
    network = ClusteringHead(s)
    row = symmetrized(network, random_parameters(network, np.random.default_rng(1)))
    hessian = RegularizedLoss(network, all_sequences(s)).hessian(row)
    for part, multiplicity in (("order", 3), ("suffix", 2)):
        basis = symmetry_breaking_directions(network, part)
        values = (
            torch.linalg.eigvalsh(basis.T @ hessian @ basis)
            .numpy()
            .reshape(3, multiplicity)
        )
        assert_allclose(np.ptp(values, axis=1), 0, atol=1e-12)
        assert (np.diff(values.mean(axis=1)) > 1e-6).all()


def test_the_hessian_is_the_dense_one(row):
    loss = RegularizedLoss(NETWORK, EVERY, 0.1)
    torch.testing.assert_close(
        loss.hessian(row),
        torch.autograd.functional.hessian(loss, row),
        atol=1e-10,
        rtol=1e-8,
    )


# ------------------------------------------------------------------------------ at rest


def test_loss_and_gradient_decrease_exponentially_with_the_gain():
    rows = [
        stability.flat_parameters(NETWORK, ideal_circuit(SMALL, gain))
        for gain in (2.0, 4.0, 6.0)
    ]
    loss = RegularizedLoss(NETWORK, EVERY)
    result = np.array(
        [[float(loss(row)), float(grad(loss)(row).norm())] for row in rows]
    )
    falls = result[1:] / result[:-1]
    assert (falls < 0.05).all()
    assert_allclose(falls[0, 0], falls[1, 0], rtol=0.2)


@pytest.fixture(scope="module")
def rest():
    start = stability.flat_parameters(NETWORK, ideal_circuit(SMALL, 2.0))
    result = stability.find_stationary_point(
        RegularizedLoss(NETWORK, EVERY, DECAY), start
    )
    return result, stability.local_landscape(NETWORK, result.row, EVERY, EVERY, DECAY)


def test_a_circuit_converges_to_a_stable_fixed_point_with_its_invariances(rest):
    result, at = rest
    assert result.gradient < 1e-10
    assert at["gradient"] < 1e-10
    spectrum = at["eigenvalue"].values
    null = stability.NULL_TOLERANCE * spectrum[-1]
    assert spectrum[0] > -null
    assert (
        np.abs(spectrum) < null
    ).sum() == 1  # a rotation of all embeddings changes nothing
    assert min(at[f"{part}_eigenvalue"].min() for part in SYMMETRIES) > 1e-5
    one = network_invariances(NETWORK, NETWORK.unflatten(result.row))
    assert one["accuracy"] == 1
    assert one["order_share"].max() < 1e-15
    assert (
        one["value_share"][3:].max() < LabelThresholds().tolerance
    )  # attention to the suffix is small, and not 0


def test_the_minimum_of_a_quartic_is_found():
    scale = torch.logspace(0, 4, 12, dtype=torch.float64)
    centre = torch.linspace(-1, 1, 12, dtype=torch.float64)

    class Quartic:
        def __call__(self, row):
            return (scale * (row - centre) ** 2).sum() + ((row - centre) ** 4).sum()

        def hessian(self, row):
            return torch.diag(2 * scale + 12 * (row - centre) ** 2)

    result = stability.find_stationary_point(
        Quartic(), torch.zeros(12, dtype=torch.float64)
    )
    torch.testing.assert_close(result.row, centre, atol=1e-8, rtol=0)


# ------------------------------------------------------------------------ perturbations


def test_perturbations_have_their_length_and_direction(row, generator):
    result = stability.random_perturbations(NETWORK, row, 0.01, 3)
    assert list(result) == ["none", "order", "suffix", "all"]
    assert not result["none"].any()
    for name in ("order", "suffix", "all"):
        assert_allclose(result[name].norm(dim=1), 0.01 * float(row.norm()))
    basis = symmetry_breaking_directions(NETWORK, "order")
    torch.testing.assert_close(basis @ (basis.T @ result["order"].T), result["order"].T)
    assert not (
        symmetry_breaking_directions(NETWORK, "suffix").T @ result["order"].T
    ).any()
    network = ClusteringHead(
        SparseSettings(length=4, sparsity=3)
    )  # one spurious position has no direction
    result = stability.random_perturbations(
        network, random_parameters(network, generator), 0.01, 2
    )
    assert list(result) == ["none", "order", "all"]


def test_gradient_descent_shortens_only_steps_that_raise_the_loss(row):
    loss = RegularizedLoss(NETWORK, EVERY)
    starts = torch.stack([row, 0.5 * row])
    result = stability.gradient_descent(loss, starts, 1e-3, 10, frames=3)
    assert result.steps.tolist() == [0, 5, 10]
    for start, end in zip(starts, result.rows[-1], strict=True):
        plain = start
        for _ in range(10):
            plain = plain - 1e-3 * grad(loss)(plain)
        torch.testing.assert_close(end, plain)
    assert_allclose(result.time[:, 0], [0, 5e-3, 1e-2])

    def bowl(row):
        return 100 * row[0] ** 2 + row[1] ** 2

    steep = stability.gradient_descent(
        bowl, torch.tensor([[1.0, 1.0]]).double(), 0.5, 60, frames=61
    )
    losses = [float(bowl(rows[0])) for rows in steep.rows]
    assert (np.diff(losses) <= 0).all()
    assert losses[-1] < 0.01 * losses[0]
    moves = steep.rows.diff(dim=0)[:, 0]
    slopes = torch.stack([grad(bowl)(rows[0]) for rows in steep.rows[:-1]])
    assert_allclose(moves, -np.diff(steep.time, axis=0) * slopes.numpy(), atol=1e-12)
    assert (moves == 0).all(dim=1).any()  # a rejected step takes no time


def test_small_perturbations_of_the_fixed_point_decay(rest):
    loss, lr = (
        RegularizedLoss(NETWORK, EVERY, DECAY),
        1 / float(rest[1]["eigenvalue"][-1]),
    )
    result = circuit_landscape.perturbation_responses(
        loss, rest[0].row, lr, (1e-3,), 1, 200
    )
    first, last = result.isel(step=0), result.isel(step=-1)
    for kind in ("order", "all"):
        place = int(np.argmax(result["kind"].values == kind))
        assert float(first["order_share"][place]) > 1e-8
        assert float(last["order_share"][place]) < 0.2 * float(
            first["order_share"][place]
        )
    assert float(last["order_share"][0]) < 1e-15  # the one not perturbed
    loss = result["pushed_loss"]
    assert (loss.diff("step") <= ROUNDING * loss).all()


def test_circuit_measures_are_those_of_single_networks(row):
    rows = torch.stack([row, 2 * row])
    result = circuit_landscape.circuit_measures(NETWORK, rows)
    for place in range(2):
        one = network_invariances(NETWORK, NETWORK.unflatten(rows[place]))
        here = [
            result[name][place] for name in ("order_share", "value_share", "accuracy")
        ]
        assert_allclose(
            here,
            [one["order_share"].max(), one["value_share"][3:].max(), one["accuracy"]],
        )
