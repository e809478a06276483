"""The ideal circuit as a fixed point: symmetry of the gradient, Hessians against dense ones, rest, and the return."""

import dataclasses

import numpy as np
import pytest
import torch
import xarray as xr
from torch.func import grad

from analysis.clustering_heads.constructions import ideal_circuit
from analysis.clustering_heads.invariances import network_invariances
from analysis.clustering_heads.labels import LabelThresholds
from analysis.clustering_heads.stability import (
    BROKEN_SYMMETRIES,
    NULL_EIGENVALUE_TOLERANCE,
    RegularizedLoss,
    all_sequences,
    find_stationary_point,
    gradient_descent,
    local_landscape,
    random_perturbations,
    symmetry_breaking_directions,
)
from analysis.fixed_points import (
    LANDSCAPE_COLUMNS,
    broken_invariances,
    circuit_accuracies,
    flat_circuit,
    landscape_dataset,
    landscape_rows,
    perturbation_responses,
)
from dynamics.networks.clustering_head import ClusteringHead
from dynamics.settings import SettingsError, SparseSettings
from dynamics.tasks import sample_sequences, sparse_sum

SMALL = SparseSettings(length=6, sparsity=3, hidden=6)
NETWORK = ClusteringHead(SMALL)
EVERY = all_sequences(SMALL)


@pytest.fixture
def row(generator):
    """Weights at random."""
    return torch.from_numpy(generator.standard_normal(sum(NETWORK.lengths)))


def alike(row):
    """The same with one P for all counting positions, and one for all spurious ones."""
    found = row.clone()
    for part in BROKEN_SYMMETRIES:
        basis = symmetry_breaking_directions(NETWORK, part)
        found = found - basis @ (basis.T @ found)
    return found


def test_the_population_is_every_sequence_and_not_too_many():
    assert len(np.unique(EVERY, axis=0)) == len(EVERY) == 2**6
    with pytest.raises(SettingsError, match="length: found 12 at 3 tokens"):
        all_sequences(SparseSettings(vocab=3))


@pytest.mark.parametrize("vocab", [2, 3])
def test_the_objective_is_the_networks_loss(generator, vocab):
    s = dataclasses.replace(SMALL, vocab=vocab, table=4)
    network, every = ClusteringHead(s), all_sequences(s)
    row = torch.from_numpy(generator.standard_normal(sum(network.lengths)))
    target = torch.from_numpy(sparse_sum(every, s))
    plain = network.losses(network.unflatten(row), torch.from_numpy(every), target).mean()
    torch.testing.assert_close(RegularizedLoss(network, every)(row), plain)
    torch.testing.assert_close(RegularizedLoss(network, every, 0.3)(row), plain + 0.15 * (row @ row))


# ---------------------------------------------------------------------------------------------- symmetry


def test_breaking_directions_move_positions_apart_and_nothing_else(row):
    for part, places in (("order", [0, 1, 2]), ("suffix", [3, 4, 5])):
        basis = symmetry_breaking_directions(NETWORK, part)
        assert basis.shape == (len(row), 4)
        torch.testing.assert_close(basis.T @ basis, torch.eye(4).double())
        moved = NETWORK.unflatten(basis.T)
        assert all(not each.any() for name, each in moved.items() if name != "position_embedding")
        rest = [t for t in range(6) if t not in places]
        assert not moved["position_embedding"][:, rest].any()
        torch.testing.assert_close(moved["position_embedding"].sum(1), torch.zeros(4, 2).double(), atol=1e-12, rtol=0)
    assert symmetry_breaking_directions(ClusteringHead(SparseSettings(length=3, sparsity=3)), "suffix").shape[1] == 0


def test_the_gradient_of_the_population_breaks_no_symmetry_and_that_of_a_sample_does(row):
    symmetric = alike(row)
    sample = sample_sequences(SMALL, np.array([0]), "train")[0][:50].astype(np.int64)
    for part in BROKEN_SYMMETRIES:
        basis = symmetry_breaking_directions(NETWORK, part)
        assert float((basis.T @ grad(RegularizedLoss(NETWORK, EVERY))(symmetric)).norm()) < 1e-14
        assert float((basis.T @ grad(RegularizedLoss(NETWORK, sample))(symmetric)).norm()) > 1e-4
        assert float((basis.T @ grad(RegularizedLoss(NETWORK, EVERY))(row)).norm()) > 1e-4  # P that differ already


def test_each_breaking_eigenvalue_occurs_as_often_as_there_are_directions(row):
    s = SparseSettings(length=7, sparsity=4, hidden=6, dim=3)
    network = ClusteringHead(s)
    generator = np.random.default_rng(1)
    weights = torch.from_numpy(generator.standard_normal(sum(network.lengths)))
    for part in BROKEN_SYMMETRIES:
        basis = symmetry_breaking_directions(network, part)
        weights = weights - basis @ (basis.T @ weights)
    loss = RegularizedLoss(network, all_sequences(s))
    for part, often in (("order", 3), ("suffix", 2)):
        basis = symmetry_breaking_directions(network, part)
        values = torch.linalg.eigvalsh(basis.T @ loss.hessian(weights) @ basis).numpy().reshape(3, often)
        np.testing.assert_allclose(np.ptp(values, axis=1), 0, atol=1e-12)
        assert (np.diff(values.mean(axis=1)) > 1e-6).all()


def test_the_hessian_is_the_dense_one(row):
    loss = RegularizedLoss(NETWORK, EVERY, 0.1)
    dense = torch.autograd.functional.hessian(loss, row)
    torch.testing.assert_close(loss.hessian(row), dense, atol=1e-10, rtol=1e-8)


# ------------------------------------------------------------------------------------------------ at rest


def test_loss_and_gradient_fall_exponentially_with_the_gain():
    rows = [flat_circuit(NETWORK, ideal_circuit(SMALL, gain)) for gain in (2.0, 4.0, 6.0)]
    loss = RegularizedLoss(NETWORK, EVERY)
    found = np.array([[float(loss(row)), float(grad(loss)(row).norm())] for row in rows])
    falls = found[1:] / found[:-1]
    assert (falls < 0.05).all()
    np.testing.assert_allclose(falls[0, 0], falls[1, 0], rtol=0.2)


@pytest.fixture(scope="module")
def rest():
    loss = RegularizedLoss(NETWORK, EVERY, 1e-3)
    return loss, find_stationary_point(loss, flat_circuit(NETWORK, ideal_circuit(SMALL, 2.0)))


def test_a_circuit_settles_to_a_stable_fixed_point_that_keeps_its_invariances(rest):
    found = rest[1]
    assert found.gradient < 1e-10
    at = local_landscape(NETWORK, found.row, EVERY, EVERY, 1e-3)
    assert at.gradient < 1e-10
    largest = at.spectrum[-1]
    assert at.spectrum[0] > -NULL_EIGENVALUE_TOLERANCE * largest
    assert (
        int((np.abs(at.spectrum) < NULL_EIGENVALUE_TOLERANCE * largest).sum()) == 1
    )  # a rotation of all embeddings changes nothing
    assert min(values.min() for values in at.breaking) > 1e-5
    one = network_invariances(NETWORK, NETWORK.unflatten(found.row))
    assert one["accuracy"] == 1
    assert one["order_share"].max() < 1e-15
    assert one["value_share"][3:].max() < LabelThresholds().tolerance  # attention to the suffix is small, and not 0


def test_settling_finds_the_minimum_of_a_bowl():
    scale = torch.logspace(0, 4, 12, dtype=torch.float64)
    centre = torch.linspace(-1, 1, 12, dtype=torch.float64)

    class Bowl:
        def __call__(self, row):
            return (scale * (row - centre) ** 2).sum() + ((row - centre) ** 4).sum()

        def hessian(self, row):
            return torch.diag(2 * scale + 12 * (row - centre) ** 2)

    found = find_stationary_point(Bowl(), torch.zeros(12, dtype=torch.float64))
    torch.testing.assert_close(found.row, centre, atol=1e-8, rtol=0)


def test_rows_of_the_table_say_what_the_points_are(rest):
    at = local_landscape(NETWORK, rest[1].row, EVERY, EVERY[:40], 1e-3)
    rows = {"settled": rest[1].row}
    row = landscape_rows(landscape_dataset({"settled": at}).assign(circuit_accuracy=circuit_accuracies(NETWORK, rows)))[
        0
    ]
    assert row.text[:3] == ["settled", "100.0", f"{at.loss:.1e}"]
    numbers = dict(zip(LANDSCAPE_COLUMNS, row.numbers, strict=True))
    assert float(numbers["loss"]) == at.loss
    assert float(numbers["negative_eigenvalues"]) == 0


# ------------------------------------------------------------------------------------------------- pushes


def test_pushes_have_their_length_and_direction(row):
    found = random_perturbations(NETWORK, row, 0.01, 3)
    assert list(found) == ["none", "order", "suffix", "all"]
    assert not found["none"].any()
    for name in ("order", "suffix", "all"):
        np.testing.assert_allclose(found[name].norm(dim=1), 0.01 * float(row.norm()))
    basis = symmetry_breaking_directions(NETWORK, "order")
    torch.testing.assert_close(basis @ (basis.T @ found["order"].T), found["order"].T)
    assert not (symmetry_breaking_directions(NETWORK, "suffix").T @ found["order"].T).any()


def test_a_part_without_a_direction_is_not_pushed(generator):
    network = ClusteringHead(SparseSettings(length=4, sparsity=3))  # one spurious position
    row = torch.from_numpy(generator.standard_normal(sum(network.lengths)))
    assert list(random_perturbations(network, row, 0.01, 2)) == ["none", "order", "all"]


def test_descent_is_plain_gradient_descent_where_the_loss_falls(row):
    loss = RegularizedLoss(NETWORK, EVERY)
    starts = torch.stack([row, 0.5 * row])
    found = gradient_descent(loss, starts, 1e-3, 10, frames=3)
    assert found.steps.tolist() == [0, 5, 10]
    for start, end in zip(starts, found.rows[-1], strict=True):
        plain = start
        for _ in range(10):
            plain = plain - 1e-3 * grad(loss)(plain)
        torch.testing.assert_close(end, plain)
    np.testing.assert_allclose(found.time[:, 0], [0, 5e-3, 1e-2])


def test_no_step_of_a_descent_raises_the_loss():
    def bowl(row):
        return 100 * row[0] ** 2 + row[1] ** 2

    found = gradient_descent(bowl, torch.tensor([[1.0, 1.0]]).double(), 0.5, 60, frames=61)
    losses = [float(bowl(rows[0])) for rows in found.rows]
    assert (np.diff(losses) <= 0).all()
    assert losses[-1] < 0.01 * losses[0]


def test_a_small_push_off_the_fixed_point_comes_back(rest):
    from analysis.fixed_points import Options

    at = local_landscape(NETWORK, rest[1].row, EVERY, EVERY, 1e-3)
    options = Options(push=(1e-3,), steps=400)
    found = perturbation_responses(NETWORK, rest[1].row, at, EVERY, 1e-3, options)
    first, last = found.isel(step=0), found.isel(step=-1)
    for kind in ("order", "all"):
        place = int(np.argmax(found["kind"].values == kind))
        assert float(first["order_share"][place]) > 1e-8
        assert float(last["order_share"][place]) < 0.2 * float(first["order_share"][place])
    assert float(last["order_share"][0]) < 1e-15  # the one not pushed
    assert (found["pushed_loss"].diff("step") <= 0).all()


def test_what_is_broken_is_what_the_invariances_say(row):
    rows = torch.stack([row, 2 * row])
    found = broken_invariances(NETWORK, rows)
    for place in range(2):
        one = network_invariances(NETWORK, NETWORK.unflatten(rows[place]))
        np.testing.assert_allclose(found["order_share"][place], one["order_share"].max())
        np.testing.assert_allclose(found["value_share"][place], one["value_share"][3:].max())
        np.testing.assert_allclose(found["accuracy"][place], one["accuracy"])


# ------------------------------------------------------------------------------------------- the command


def test_the_command_prints_writes_and_draws(typed, tmp_path):
    words = ["--length", 6, "--sparsity", 3, "--hidden", 6, "--data", 50, "--steps", 10, "--out", "f.nc"]
    code, out, err = typed("analysis.fixed_points", *words, "--csv", "f.csv", "--push", 0.001, 0.01)
    assert (code, err) == (0, "")
    assert "settled" in out
    with xr.open_dataset(tmp_path / "f.nc") as found:
        assert found["circuit"].values.tolist() == ["gain 1", "gain 2", "gain 5", "gain 10", "settled"]
        assert found["start"].values.tolist() == ["gain 2", "settled"]
        assert found["order_share"].dims == ("start", "step", "pushed")
        assert found["kind"].values.tolist() == ["none", *["order", "suffix", "all"] * 2]
        assert float(found["broken"].max()) < 1e-12 < float(found["sample_broken"].max())
    assert (tmp_path / "f.png").stat().st_size > 10_000
    assert len((tmp_path / "f.csv").read_text().splitlines()) == 6
    code, _, err = typed("analysis.fixed_points", *words, "--push", 0.5)
    assert code == 2
    assert "which is something else" in err


def test_a_network_that_collapses_under_its_decay_is_told_of(typed):
    words = ["--length", 4, "--sparsity", 3, "--hidden", 6, "--data", 50, "--decay", 1, "--steps", 20, "--out", "f.nc"]
    code, out, err = typed("analysis.fixed_points", *words, "--push", 0.001)
    assert (code, err) == (0, "")
    assert "it no longer solves the task: accuracy 50.0%" in out
    assert "nan" not in out
    pushed = [line.split()[2] for line in out.splitlines() if line.startswith("gain 2 ") and "0.001" in line]
    assert pushed == ["order", "all"]  # one spurious position has no direction to be pushed in


@pytest.mark.parametrize(
    ("words", "said"),
    [
        (["--vocab", "4"], "--vocab: found 4"),
        (["--vocab", "3"], "--length: found 12 at 3 tokens"),
        (["--dim", "1"], "--dim: found 1"),
        (["--hidden", "3"], "--hidden: found 3, allowed is 5 or more"),
        (["--lr", "0.1"], "--lr: found 0.1, allowed is no value here: gradient descent on all sequences"),
        (["--optimizer", "adamw"], "--optimizer: found adamw, allowed is no value here"),
        (["--weight-decay", "0.1"], "--weight-decay: found 0.1, allowed is no value here"),
        (["--batch", "16"], "--batch: found 16, allowed is no value here"),
        (["--beta1", "0.5"], "--beta1: found 0.5, allowed is no value here"),
        (["--decay", "0"], "--decay: found 0"),
        (["--push", "2"], "--push: found 2"),
        (["--steps", "0"], "--steps: found 0"),
        (["--draws", "0"], "--draws: found 0"),
    ],
)
def test_mistakes_are_told_in_a_line(typed, words, said):
    code, _, err = typed("analysis.fixed_points", *words)
    assert code == 2
    assert said in err
    assert err.count("\n") == 1
