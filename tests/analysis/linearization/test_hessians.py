"""Hessians in closed form against products with vectors, curvlinops and finite differences; both ends; movements."""

import json

import numpy as np
import pytest
import torch
from curvlinops import HessianLinearOperator
from hypothesis import given
from hypothesis import settings as examples
from hypothesis import strategies as st

from analysis.linearization import clustering_head_hessian, network_curvature
from analysis.linearization.cross_entropy import add_gram, cross_entropy_derivatives
from analysis.linearization.hessians import dense_hessian, estimate_trace, extreme_eigenpairs, training_objective
from analysis.linearization.network_curvature import flat_weight_pairs, movement_fractions, relative_learning_rates
from analysis.linearization.network_curvature import loss_curvature as curvature_of
from dynamics.errors import TrajectoryError
from dynamics.networks.clustering_head import ClusteringHead
from dynamics.networks.constant_attention import ConstantAttention
from dynamics.settings import ModularSettings, ParticleSettings, SparseSettings
from dynamics.simulation import simulate
from dynamics.tasks import all_pairs, sample_sequences, sparse_sum, training_pairs


def network_for(settings):
    return (ClusteringHead if isinstance(settings, SparseSettings) else ConstantAttention)(settings)


def somewhere(network, seed=0, size=0.3):
    """Flat parameters near a first state, where nothing is special."""
    row = network.flatten(network.initial(np.array([seed])))[0].astype(np.float64)
    return torch.from_numpy(row + size * np.random.default_rng(seed).standard_normal(len(row)))


def off(found, expected):
    """Largest entry of the difference over the spectral norm."""
    return float((found - expected).abs().max() / torch.linalg.matrix_norm(expected, 2))


class Module(torch.nn.Module):
    """A network at some weights, as curvlinops takes it."""

    def __init__(self, network, row):
        super().__init__()
        self.network, self.weights = network, torch.nn.ParameterDict(network.unflatten(row.clone()))

    def forward(self, inputs):
        return self.network.logits({name: self.weights[name] for name in self.network.variables}, inputs)


def by_curvlinops(network, seed, row):
    """The Hessian of the mean cross-entropy over the whole training split, repeated sequences and all."""
    s, seeds = network.settings, np.array([seed])
    if isinstance(network, ConstantAttention):
        inputs = torch.from_numpy(all_pairs(s.n)[training_pairs(s.n, s.train_pairs, seeds)[0]])
        target = network.target(inputs)
    else:
        drawn = sample_sequences(s, seeds, "train")[0]
        inputs, target = torch.from_numpy(drawn.astype(np.int64)), torch.from_numpy(sparse_sum(drawn, s))
    module = Module(network, row)
    parameters = [module.weights[name] for name in network.variables]
    loss = torch.nn.CrossEntropyLoss()
    operator = HessianLinearOperator(module, loss, parameters, [(inputs, target)], check_deterministic=False)
    return operator @ torch.eye(len(row), dtype=torch.float64)


# ------------------------------------------------------------------------------------- VC's network

VARIANTS = [
    {}, {"table": 3}, {"table": 6, "norm": "unit"}, {"norm": "rms-smooth"}, {"norm": "unit-smooth", "table": 4},
    {"activation": "relu"}, {"receptor_biases": False}, {"output_bias": False}, {"vocab": 3}, {"dim": 1}, {"dim": 3},
    {"dim": 4, "vocab": 4, "norm": "unit", "receptor_biases": False, "output_bias": False},
    {"length": 6, "sparsity": 2, "positions": (0, 3)}, {"length": 1, "sparsity": 1},
]  # fmt: skip


@pytest.mark.parametrize("variant", VARIANTS, ids=str)
def test_the_heads_hessian_is_that_of_curvlinops(variant):
    network = ClusteringHead(SparseSettings(**{"data": 60, "batch": 30, "hidden": 5, **variant}))
    row = somewhere(network)
    found = training_objective(network, 3).hessian(row)
    assert torch.equal(found, found.T) or off(found, found.T) < 1e-14
    assert off(found, by_curvlinops(network, 3, row)) < 1e-12


def test_the_defaults_with_a_table_of_three_have_198_parameters_and_agree():
    network = ClusteringHead(SparseSettings(table=3))
    row = somewhere(network)
    found = training_objective(network, 0)
    assert len(row) == 198
    assert off(found.hessian(row), dense_hessian(found.loss, row)) < 1e-12


@given(
    vocab=st.integers(2, 4), more=st.integers(0, 2), length=st.integers(1, 5), dim=st.integers(1, 4),
    hidden=st.integers(1, 5), norm=st.sampled_from(["rms", "unit", "rms-smooth", "unit-smooth"]),
    activation=st.sampled_from(["gelu", "relu"]), biases=st.booleans(), bias=st.booleans(), seed=st.integers(0, 99),
)  # fmt: skip
@examples(max_examples=25)
def test_any_small_head_agrees_with_products(vocab, more, length, dim, hidden, norm, activation, biases, bias, seed):
    settings = SparseSettings(
        vocab=vocab, table=vocab + more, length=length, sparsity=1 + seed % length, dim=dim, hidden=hidden, norm=norm,
        activation=activation, receptor_biases=biases, output_bias=bias, data=40, batch=40,
    )  # fmt: skip
    network = ClusteringHead(settings)
    row, found = somewhere(network, seed), training_objective(network, seed)
    assert off(found.hessian(row), dense_hessian(found.loss, row)) < 1e-11


def test_it_does_not_matter_how_many_sequences_are_held_at_a_time(monkeypatch):
    network = ClusteringHead(SparseSettings(data=100, hidden=4))
    row, found = somewhere(network), training_objective(network, 1)
    whole = found.hessian(row)
    monkeypatch.setattr(clustering_head_hessian, "_MAX_ARRAY_SIZE", 3000)
    assert off(found.hessian(row), whole) < 1e-14
    monkeypatch.setattr(clustering_head_hessian, "_MAX_ARRAY_SIZE", 1)
    assert off(found.hessian(row), whole) < 1e-14


def test_sequence_embeddings_at_the_origin_do_no_harm():
    """With V = 0 all of them are there; these forms have a derivative, and autodiff the same."""
    for norm in ("rms", "rms-smooth", "unit-smooth"):
        network = ClusteringHead(SparseSettings(data=60, hidden=4, norm=norm, batch=60))
        row = somewhere(network)
        row[network.begins["value"] :][:4] = 0
        found = training_objective(network, 0)
        assert off(found.hessian(row), dense_hessian(found.loss, row)) < 1e-12


def test_a_saturated_network_has_no_nan():
    network = ClusteringHead(SparseSettings(data=60, hidden=4, table=5, batch=60))
    row = somewhere(network)
    row[:10] *= 1000  # logits of hundreds: shares underflow to 0
    found = training_objective(network, 0)
    expected = dense_hessian(found.loss, row)
    assert torch.isfinite(found.hessian(row)).all()
    assert off(found.hessian(row), expected) < 1e-9


# ------------------------------------------------------------------------------------- CA's network


@pytest.mark.parametrize(
    "settings",
    [ModularSettings(n=7, hidden=5), ModularSettings(n=5, dim=3, hidden=4, train_share=1.0),
     ModularSettings(n=4, dim=1, hidden=1), ModularSettings(n=2, hidden=3), ModularSettings()],
    ids=str,
)  # fmt: skip
def test_the_pair_networks_hessian_is_that_of_curvlinops(settings):
    network = ConstantAttention(settings)
    row = somewhere(network)
    assert off(training_objective(network, 5).hessian(row), by_curvlinops(network, 5, row)) < 1e-12


@pytest.mark.parametrize("settings", [ModularSettings(n=7, hidden=5), SparseSettings(data=64, hidden=4)])
def test_the_loss_is_the_recorded_one(settings):
    trajectory = simulate(settings, runs=2, seed=4, steps=6, every=3)
    network = network_for(settings)
    rows = flat_weight_pairs(trajectory, network, [0, 1, 2])
    for run, seed in enumerate((4, 5)):
        for frame in range(3):
            loss = training_objective(network, seed).loss(torch.from_numpy(rows[run, frame, 0]))
            recorded = trajectory["loss"].sel(split="train").values[run, frame]
            assert float(loss) == pytest.approx(recorded, rel=1e-5)
    np.testing.assert_array_equal(rows[:, 0, 1], rows[:, 1, 0])
    np.testing.assert_array_equal(rows[:, 2, 1], rows[:, 2, 0])


# ------------------------------------------------------------------------------------- parts


@given(classes=st.integers(1, 6), scale=st.sampled_from([0.1, 3.0, 400.0]), seed=st.integers(0, 99))
def test_the_root_of_a_softmaxs_covariance(classes, scale, seed):
    generator = np.random.default_rng(seed)
    logits = torch.from_numpy(scale * generator.standard_normal((classes, 9)))
    target, share = torch.from_numpy(generator.integers(0, classes, 9)), torch.from_numpy(generator.random(9))
    error, root = cross_entropy_derivatives(logits, target, share)
    p = torch.softmax(logits, 0)
    expected = torch.einsum("ks,kl->kls", p, torch.eye(classes, dtype=torch.float64)) - p[:, None] * p
    np.testing.assert_allclose(torch.einsum("krs,lrs->kls", root, root), share * expected, atol=1e-15)
    by_logits = torch.func.grad(
        lambda each: torch.nn.functional.cross_entropy(each.T, target, reduction="none") @ share
    )
    np.testing.assert_allclose(error, by_logits(logits), atol=1e-14)


@pytest.mark.parametrize("rows", [1, 56, 57, 200])
def test_a_product_with_the_own_transpose(rows, generator):
    x = torch.from_numpy(generator.standard_normal((rows, 31)))
    total = torch.ones(rows, rows, dtype=torch.float64)
    add_gram(total, x)
    np.testing.assert_allclose(total, 1 + x @ x.T, atol=1e-12)


def quadratic(matrix):
    return lambda row: row @ matrix @ row / 2 + row.sum()


def test_both_ends_and_the_trace_of_a_planted_hessian(generator):
    values = np.concatenate([[-3.0, -2.0, -1.0], np.linspace(-0.1, 0.1, 114), [5.0, 6.0, 7.0]])
    turn = np.linalg.qr(generator.standard_normal((120, 120)))[0]
    matrix = torch.from_numpy((turn * values) @ turn.T)
    loss, row = quadratic(matrix), torch.from_numpy(generator.standard_normal(120))
    assert off(dense_hessian(loss, row), matrix) < 1e-13
    found = extreme_eigenpairs(loss, row, 3)
    np.testing.assert_allclose(found.values, [-3, -2, -1, 5, 6, 7], atol=1e-10)
    for column, place in zip(found.vectors.T, (0, 1, 2, 117, 118, 119), strict=True):
        assert abs(column @ turn[:, place]) == pytest.approx(1, abs=1e-8)
    estimate = estimate_trace(loss, row, 4000)
    assert abs(estimate.value - values.sum()) < 4 * estimate.error
    assert estimate.error == pytest.approx(
        np.sqrt(2 * (np.square(matrix.numpy()).sum() - np.square(np.diag(matrix)).sum()) / 4000), rel=0.1
    )
    exact = estimate_trace(quadratic(torch.diag(torch.arange(1.0, 9.0, dtype=torch.float64))), row[:8])
    assert (exact.value, exact.error) == (36, 0)
    with pytest.raises(ValueError, match="count: found 60"):
        extreme_eigenpairs(loss, row, 60)
    with pytest.raises(ValueError, match="probes: found 1"):
        estimate_trace(loss, row, 1)


def test_a_hessian_of_zeros_and_one_that_does_not_converge_are_no_crash(generator, monkeypatch):
    row = torch.from_numpy(generator.standard_normal(50))
    flat = extreme_eigenpairs(lambda row: row.sum() + 0 * (row**2).sum(), row, 2)
    np.testing.assert_array_equal(flat.values, [0, 0, 0, 0])
    assert np.isnan(flat.vectors).all()
    monkeypatch.setattr("analysis.linearization.hessians._MAX_RESTARTS", 1)
    square = torch.from_numpy(generator.standard_normal((400, 400)))
    lost = extreme_eigenpairs(quadratic(square + square.T), torch.ones(400, dtype=torch.float64), 2)
    assert np.isnan(lost.values).all()
    assert lost.vectors.shape == (400, 4)
    broken = extreme_eigenpairs(lambda row: (row**2).sum() * torch.nan, row, 1)
    assert np.isnan(broken.values).all()


def test_shares_of_a_movement_add_up(generator):
    turn = np.linalg.qr(generator.standard_normal((9, 9)))[0]
    found = movement_fractions(turn, 2 * turn[:, 3] - 1e-3 * turn[:, 5])
    np.testing.assert_allclose(found[[3, 5]], [1, 2.5e-7], rtol=1e-6)
    assert movement_fractions(turn, generator.standard_normal(9)).sum() == pytest.approx(1)
    assert np.isnan(movement_fractions(turn, np.zeros(9))).all()


# ------------------------------------------------------------------------------------- along a trajectory


@pytest.fixture(scope="module")
def trained():
    return simulate(SparseSettings(data=64, hidden=4, lr=0.02), runs=3, steps=8, every=2)


def test_spectra_layers_and_traces_are_those_of_the_hessian(trained):
    threads = torch.get_num_threads()
    found = curvature_of(trained, [0, 3], quiet=True)
    assert torch.get_num_threads() == threads
    network = network_for(SparseSettings(data=64, hidden=4, lr=0.02))
    rows = flat_weight_pairs(trained, network, [0, 3])
    for run in range(3):
        for frame in range(2):
            here = found.isel(run=run, step=frame)
            hessian = dense_hessian(training_objective(network, run).loss, torch.from_numpy(rows[run, frame, 0]))
            values, vectors = np.linalg.eigh(hessian.numpy())
            np.testing.assert_allclose(here["eigenvalue"], values, atol=1e-12 * values[-1])
            assert here["trace"] == pytest.approx(values.sum())
            assert here["sharpness"] == pytest.approx(values[-1])
            for place, (name, begin) in enumerate(network.begins.items()):
                block = np.linalg.eigvalsh(hessian[begin:, begin:][: network.lengths[place], : network.lengths[place]])
                assert here["layer_lowest"].sel(layer=name) == pytest.approx(block[0], abs=1e-12)
                assert here["layer_highest"].sel(layer=name) == pytest.approx(block[-1], abs=1e-12)
            moved = rows[run, frame, 1] - rows[run, frame, 0]
            along = np.square(vectors.T @ moved) / (moved @ moved)
            assert here["lowest_share"] == pytest.approx(along[0], rel=1e-6, abs=1e-12)
            assert here["highest_share"] == pytest.approx(along[-1], rel=1e-6, abs=1e-12)
            negative = values < -1e-6 * np.abs(values).max()
            assert here["negative_share"] == pytest.approx(along[negative].sum(), rel=1e-6)
            assert here["negative_chance"] == pytest.approx(negative.mean())


def test_a_movement_planted_along_the_lowest_direction_is_found(trained):
    network = network_for(SparseSettings(data=64, hidden=4, lr=0.02))
    rows = flat_weight_pairs(trained, network, [1])
    planted = trained.copy(deep=True)
    for run in range(3):
        row = torch.from_numpy(rows[run, 0, 0])
        lowest = torch.linalg.eigh(training_objective(network, run).hessian(row)).eigenvectors[:, 0]
        for name, value in network.unflatten(row + 0.5 * lowest).items():
            planted[name].values[run, 2] = value.numpy()
    found = curvature_of(planted, [1], quiet=True)
    np.testing.assert_allclose(found["lowest_share"], 1, atol=1e-6)
    np.testing.assert_allclose(found["negative_share"], 1, atol=1e-6)
    np.testing.assert_allclose(found["highest_share"], 0, atol=1e-6)


def test_a_random_movement_has_the_chance_level(trained, generator):
    """1 / parameters along one direction, on average."""
    network = network_for(SparseSettings(data=64, hidden=4, lr=0.02))
    vectors = torch.linalg.eigh(training_objective(network, 0).hessian(somewhere(network))).eigenvectors.numpy()
    found = np.stack([movement_fractions(vectors, generator.standard_normal(len(vectors))) for _ in range(4000)])
    count = len(vectors)
    error = np.sqrt(2 / 4000) / count
    assert abs(found[:, 0].mean() - 1 / count) < 5 * error
    assert abs(found[:, :20].sum(axis=1).mean() - 20 / count) < 5 * np.sqrt(20) * error


def test_what_has_no_value_is_left_out(trained):
    lost = trained.copy(deep=True)
    lost["last_step"].values[0] = 4
    found = curvature_of(lost, [1, 2, 3, 4], quiet=True)
    known = np.isfinite(found["eigenvalue"].values).all(axis=-1)
    np.testing.assert_array_equal(known[0], [True, True, False, False])
    assert known[1:].all()
    np.testing.assert_array_equal(np.isfinite(found["lowest_share"].values[0]), [True, False, False, False])
    np.testing.assert_array_equal(np.isfinite(found["lowest_share"].values[1]), [True, True, True, False])


def test_both_ends_agree_with_the_whole(trained, monkeypatch):
    whole = curvature_of(trained, [0, 2], quiet=True)
    monkeypatch.setattr(network_curvature, "_MAX_DENSE", 10)
    ends = curvature_of(trained, [0, 2], quiet=True)
    assert ends.sizes["mode"] == 6
    expected = whole["eigenvalue"].values[..., [0, 1, 2, -3, -2, -1]]
    np.testing.assert_allclose(ends["eigenvalue"], expected, atol=1e-9 * expected.max())
    for name in ("sharpness", "lowest_share", "highest_share"):
        np.testing.assert_allclose(ends[name], whole[name], rtol=1e-5, atol=1e-12)
    assert np.isnan(ends["negative_share"]).all()
    assert (np.abs(ends["trace"] - whole["trace"]) < 5 * ends["trace_error"]).all()


@pytest.mark.parametrize("dense", [2000, 10])
def test_layers_of_other_learning_rates_have_their_own_limit(dense, monkeypatch):
    """Gradient descent with a step of its own for each layer is stable up to 2 / lr of the scaled Hessian."""
    settings = SparseSettings(data=64, hidden=4, mlp_lr_discount=0.05)
    trajectory, network = simulate(settings, runs=1, steps=2, every=2), ClusteringHead(settings)
    monkeypatch.setattr(network_curvature, "_MAX_DENSE", dense)
    found = curvature_of(trajectory, [1], quiet=True)
    hessian = (
        training_objective(network, 0)
        .hessian(torch.from_numpy(flat_weight_pairs(trajectory, network, [1])[0, 0, 0]))
        .numpy()
    )
    rates = relative_learning_rates(network)
    assert set(rates) == {1.0, 20.0}
    limit = np.abs(np.linalg.eigvals(np.diag(rates) @ hessian)).max()
    assert found["sharpness"].item() == pytest.approx(limit, rel=1e-8)


def test_a_run_that_is_finetuned_is_judged_on_its_own_task(tmp_path):
    simulate(SparseSettings(data=64, hidden=4), runs=2, steps=2, every=2, out=tmp_path / "first.nc")
    settings = SparseSettings(data=64, hidden=4, vocab=3, start=str(tmp_path / "first.nc"), start_step=-1)
    trajectory = simulate(settings, runs=2, steps=2, every=2)
    assert json.loads(trajectory.attrs["config_json"])["vocab"] == 3
    found = curvature_of(trajectory, [0], quiet=True)
    network = ClusteringHead(settings)
    hessian = by_curvlinops(network, 1, torch.from_numpy(flat_weight_pairs(trajectory, network, [0])[1, 0, 0]))
    np.testing.assert_allclose(found["eigenvalue"].values[1, 0], np.linalg.eigvalsh(hessian), atol=1e-12)


def test_it_wants_a_network_and_its_weights():
    with pytest.raises(TrajectoryError, match="networks are"):
        curvature_of(simulate(ParticleSettings(n=5), runs=1, steps=1), [0])
    metrics = simulate(ModularSettings(n=5, hidden=3), runs=1, steps=2, every=2, record="metrics")
    with pytest.raises(TrajectoryError, match=r"missing; a run recorded with record=metrics"):
        curvature_of(metrics, [0])
