"""Operators of curvature against whole matrices, curvlinops and finite differences; what
is computed from an operator against spectra that are planted."""

import numpy as np
import pytest
import torch
from curvlinops import GGNLinearOperator
from hypothesis import given
from hypothesis import settings as examples
from hypothesis import strategies as st
from numpy.testing import assert_allclose, assert_array_equal
from scipy.sparse.linalg import cg
from scipy.stats import wasserstein_distance

import dynamics
from analysis import operator
from analysis.linearization import (
    CurvatureOperator,
    estimate_trace,
    largest_eigenvalue,
    operator_spectra,
    spectral_measure,
    spectrum_ends,
    training_model,
    whole_spectrum,
)
from analysis.linearization.operator_spectra import (
    Eigenpairs,
    largest_magnitude,
    movement_fractions,
    relative_residuals,
)
from dynamics import ModelFile, ModularSettings, ParticleSettings, SparseSettings
from dynamics.errors import TrajectoryError
from dynamics.particles import ParticleSystem
from dynamics.settings import SettingsError, TransformerSettings

NETWORKS = {
    "modular": ModularSettings(n=5, hidden=6),
    "sparse": SparseSettings(
        length=5, sparsity=2, data=64, batch=16, hidden=8, mlp_lr_discount=4.0
    ),
    "transformer": TransformerSettings(n=5, dim=4, heads=2, hidden=4),
}


@pytest.fixture(scope="module", params=NETWORKS)
def frame(request):
    """The last frame of a trained network, in which Adam has made 24 updates."""
    trained = dynamics.simulate(NETWORKS[request.param], runs=2, steps=24, every=8)
    return trained.isel(run=[1], step=[3])


def products(curvature):
    """The whole matrix from products with unit vectors."""
    return curvature @ np.eye(curvature.size)


def close(result, expected, share=1e-11):
    assert np.abs(result - expected).max() < share * np.linalg.norm(expected, 2)


# -------------------------------------------------------------------- kinds of curvature


def test_hessians_are_second_derivatives(frame):
    model = training_model(frame, 0)
    expected = torch.func.hessian(model.losses(0, 0)[0])(model.row(0, 0)).numpy()
    hessian = operator(frame)
    close(hessian.matrix, expected)
    close(products(hessian), expected)


def test_the_hessian_of_a_recorded_model_is_the_mean_of_its_batches(tmp_path):
    torch.manual_seed(0)
    net = torch.nn.Sequential(torch.nn.Linear(3, 4), torch.nn.Tanh())
    torch.save(net.state_dict(), "net-0.pt")
    batches = list(torch.randn(4, 6, 3).double())

    def loss(parameters, batch):
        return torch.func.functional_call(net, dict(parameters), (batch,)).norm()

    functions = ModelFile(loss=loss, batches=lambda: batches)
    recorded = dynamics.collect_checkpoints([tmp_path], weights=True)
    model = training_model(recorded, 0, functions)

    def mean(row):
        return sum(loss(row) for loss in model.losses(0, 0)) / 4

    hessian = operator(recorded, functions=functions)
    assert hessian.shapes == {"0.weight": (4, 3), "0.bias": (4,)}
    close(hessian.matrix, torch.func.hessian(mean)(model.row(0, 0)).numpy())
    with pytest.raises(SettingsError, match="gauss_newton, allowed is hessian, prec"):
        operator(recorded, "gauss_newton", functions=functions)
    with pytest.raises(SettingsError, match="model: found none"):
        operator(recorded)


def test_gauss_newton_matrices_are_those_of_their_definition_and_of_curvlinops(frame):
    model = training_model(frame, 0)
    row = model.row(0, 0)
    inputs = model.batches[0][0]
    network = dynamics.networks.network_of(frame)

    class Module(torch.nn.Module):
        def __init__(self):
            super().__init__()
            self.row = torch.nn.Parameter(row.clone())

        def forward(self, inputs):
            return network.logits(model.unflatten(self.row), inputs)

    def logits(flat):
        return network.logits(model.unflatten(flat), inputs)

    jacobian = torch.func.jacrev(logits)(row)
    p = torch.softmax(logits(row), -1)
    inner = torch.diag_embed(p) - p[:, :, None] * p[:, None, :]
    expected = torch.einsum("ica,icd,idb->ab", jacobian, inner, jacobian) / len(p)
    found = operator(frame, "gauss_newton")
    close(found.matrix, expected.numpy())
    module = Module()
    theirs = GGNLinearOperator(
        module,
        torch.nn.CrossEntropyLoss(),
        [module.row],
        [(inputs, torch.zeros(len(p), dtype=torch.long))],
        check_deterministic=False,
    )
    vector = torch.randn(len(row), dtype=torch.float64)
    assert_allclose(found @ vector.numpy(), (theirs @ vector).detach(), atol=1e-12)
    assert whole_spectrum(found).values[0] > -1e-12


def torch_adam(settings, trained, steps):
    """The squared gradients that torch.optim.Adam averages along a run, with its
    correction of the beginning."""
    model = training_model(trained, 0)
    mean = torch.zeros(model.size, dtype=torch.float64)
    for step in range(steps):
        gradient = torch.func.grad(model.losses(0, step)[0])(model.row(0, step))
        mean = settings.beta2 * mean + (1 - settings.beta2) * gradient**2
    return mean.numpy() / (1 - settings.beta2**steps)


def test_preconditioned_hessians_are_those_of_torch_s_adam():
    settings = NETWORKS["modular"]
    trained = dynamics.simulate(settings, runs=1, steps=24, every=1)
    last = trained.isel(step=[24])
    moments = torch_adam(settings, trained, 24)
    root = ((1 - settings.beta1**24) * (np.sqrt(moments) + 1e-8)) ** -0.5
    expected = root[:, None] * operator(last).matrix * root
    found = operator(last, "preconditioned")
    close(found.matrix, expected, 2e-3)  # the run is in float32
    close(products(found), found.matrix)


@pytest.mark.parametrize("balance", ["magnitude", "none"])
def test_the_force_jacobian_is_that_of_differences(balance):
    settings = ParticleSettings(n=6, dim=3, fa=1.3, repulsion_balance=balance)
    run = dynamics.simulate(settings, runs=2, steps=6, every=3)
    last = run.isel(run=[1], step=[2])
    x = last["embedding"].values[0, 0]
    system = ParticleSystem(settings)

    def force(flat):
        return system.force(flat.reshape(1, *x.shape))[0].ravel()

    step = 1e-5
    columns = [
        (force(x.ravel() + move) - force(x.ravel() - move)) / (2 * step)
        for move in step * np.eye(x.size)
    ]
    jacobian = operator(last, "force_jacobian")
    assert not jacobian.is_symmetric
    close(jacobian.matrix, np.stack(columns, axis=-1), 1e-6)
    vector = np.arange(18.0)
    assert_allclose(jacobian.T @ vector, jacobian.matrix.T @ vector)
    rates = np.linalg.eigvals(jacobian.matrix)
    assert largest_eigenvalue(jacobian) == pytest.approx(rates.real.max())
    ends = spectrum_ends(jacobian, 4).values
    ordered = np.sort(rates.real)
    assert_allclose(ends.real, ordered[[0, 1, -2, -1]])
    assert largest_magnitude(jacobian) == pytest.approx(np.abs(rates).max())
    estimate = estimate_trace(jacobian, 2000)
    assert abs(estimate.value - rates.sum().real) < 4 * estimate.error
    with pytest.raises(SettingsError, match="not symmetric"):
        spectral_measure(jacobian)


@pytest.mark.parametrize("kind", ["hessian", "gauss_newton", "preconditioned"])
def test_layers_keep_their_rows_and_columns(frame, kind):
    whole = operator(frame, kind)
    part = operator(frame, kind, layers=["*embedding", list(whole.shapes)[-1]])
    places = [
        np.full(int(np.prod(shape)), name in part.shapes)
        for name, shape in whole.shapes.items()
    ]
    kept = np.flatnonzero(np.concatenate(places))
    assert 1 < part.size == len(kept) < whole.size
    close(part.matrix, whole.matrix[np.ix_(kept, kept)])
    close(products(part), part.matrix)
    with pytest.raises(SettingsError, match="layers: found embeding, .*embedding"):
        operator(frame, kind, layers=["embeding"])


def test_frames_and_kinds_that_do_not_fit_are_refused(frame):
    particles = dynamics.simulate(ParticleSettings(n=5), runs=2, steps=4)
    with pytest.raises(SettingsError, match="frame: found 2 values of run"):
        operator(particles.isel(step=[0]), "force_jacobian")
    with pytest.raises(SettingsError, match="frame: found no values of step"):
        operator(particles.isel(run=[0], step=0), "force_jacobian")
    with pytest.raises(SettingsError, match="allowed is force_jacobian for the system"):
        operator(particles.isel(run=[0], step=[0]))
    with pytest.raises(SettingsError, match="kind: found force_jacobian"):
        operator(frame, "force_jacobian")
    with pytest.raises(SettingsError, match="kind: found nothing"):
        operator(frame, "nothing")
    with pytest.raises(TrajectoryError, match="embedding"):
        operator(frame.drop_vars("embedding"))
    descent = ModularSettings(n=5, hidden=6, optimizer="sgd", lr=0.1)
    run = dynamics.simulate(descent, runs=1, steps=2)
    with pytest.raises(SettingsError, match="without second moments"):
        operator(run.isel(step=[-1]), "preconditioned")
    first = dynamics.simulate(NETWORKS["modular"], runs=1, steps=2).isel(step=[0])
    with pytest.raises(SettingsError, match="after the first update of Adam"):
        operator(first, "preconditioned")


# ------------------------------------------------------------- operations and spectra


def planted(values, generator):
    """An operator with these eigenvalues and its eigenvectors."""
    count = len(values)
    turn = np.linalg.qr(generator.standard_normal((count, count)))[0]
    matrix = (turn * values) @ turn.T
    return CurvatureOperator({"w": (count,)}, matrix.__matmul__), turn


@given(
    lengths=st.lists(st.integers(1, 4), min_size=1, max_size=4),
    is_symmetric=st.booleans(),
    has_closed_form=st.booleans(),
    seed=st.integers(0, 99),
)
@examples(max_examples=40)
def test_operations_are_those_of_matrices(lengths, is_symmetric, has_closed_form, seed):
    generator = np.random.default_rng(seed)
    size = sum(lengths)
    matrix = generator.standard_normal((size, size))
    if is_symmetric:
        matrix = matrix + matrix.T
    closed_form = (lambda: matrix) if has_closed_form else None
    shapes = {f"layer{place}": (1, length) for place, length in enumerate(lengths)}
    whole = CurvatureOperator(shapes, matrix.__matmul__, closed_form, is_symmetric)
    assert_allclose(whole.matrix, matrix, atol=1e-14)
    assert_allclose(whole.T @ np.eye(size), matrix.T, atol=1e-14)
    factor = generator.standard_normal(size)
    scaled = whole.scaled(factor)
    expected = np.diag(factor) @ matrix @ np.diag(factor)
    assert_allclose(scaled.matrix, expected, atol=1e-13)
    assert_allclose(products(scaled), expected, atol=1e-13)
    last = whole.restricted(["*" + str(len(lengths) - 1)])
    begin = size - lengths[-1]
    assert_allclose(last.matrix, matrix[begin:, begin:], atol=1e-14)
    assert_allclose(products(last), matrix[begin:, begin:], atol=1e-14)
    parts = whole.unflatten(factor)
    assert_array_equal(np.concatenate(list(parts.values()), axis=1)[0], factor)
    values = whole_spectrum(whole).values
    assert_allclose(np.sort_complex(values), np.sort_complex(np.linalg.eigvals(matrix)))
    if is_symmetric:
        measure = spectral_measure(whole)
        assert measure.trace() == pytest.approx(np.trace(matrix))
        assert measure.saddle_index() == pytest.approx((values < 0).sum())
        assert largest_eigenvalue(whole) == pytest.approx(values[-1], abs=1e-5)


def test_operators_are_linear_operators_of_scipy(generator):
    hessian, _ = planted(np.linspace(1.0, 2.0, 30), generator)
    right = generator.standard_normal(30)
    solution, info = cg(hessian, right, rtol=1e-12)
    assert info == 0
    assert_allclose(hessian @ solution, right, atol=1e-9)


def test_eigenvalues_near_zero_and_equal_ones_are_found(generator):
    """A spectrum without negative eigenvalues, most of which are zero."""
    values = np.concatenate([np.zeros(190), [1e-9, 0.1, 2.0, 2.0, 3.0]])
    hessian, turn = planted(values, generator)
    pairs = spectrum_ends(hessian, 6, "BE", 1e-8)
    assert largest_magnitude(hessian) == pytest.approx(3, rel=0.02)
    assert_allclose(pairs.values, [0, 0, 0, 2, 2, 3], atol=1e-8)
    assert abs(pairs.vectors[:, -1] @ turn[:, -1]) == pytest.approx(1)
    assert (relative_residuals(hessian, pairs) < 1e-8).all()
    wrong = Eigenpairs(pairs.values + 0.3, pairs.vectors)
    assert_allclose(relative_residuals(hessian, wrong), 0.3 / 3.3, rtol=1e-6)


def test_eigenpairs_that_are_not_found_are_nan(generator, monkeypatch):
    flat = spectrum_ends(CurvatureOperator({"w": (50,)}, np.zeros_like), 4)
    assert_array_equal(flat.values, [0, 0, 0, 0])
    assert np.isnan(flat.vectors).all()
    nothing = CurvatureOperator({"w": (50,)}, lambda vector: np.nan * vector)
    assert np.isnan(largest_eigenvalue(nothing))
    monkeypatch.setattr(operator_spectra, "_MAX_RESTARTS", 1)
    hessian, _ = planted(generator.standard_normal(400), generator)
    lost = spectrum_ends(hessian, 4, tolerance=1e-12)
    assert np.isnan(lost.values).all()
    assert lost.vectors.shape == (400, 4)
    assert np.isnan(relative_residuals(hessian, lost)).all()


def test_movement_fractions_are_squares_of_cosines(generator):
    turn = np.linalg.qr(generator.standard_normal((9, 9)))[0]
    result = movement_fractions(turn, 2 * turn[:, 3] - 1e-3 * turn[:, 5])
    assert_allclose(result[[3, 5]], [1, 2.5e-7], rtol=1e-6)
    assert movement_fractions(
        turn, generator.standard_normal(9)
    ).sum() == pytest.approx(1)
    assert np.isnan(movement_fractions(turn, np.zeros(9))).all()


def test_the_estimated_trace_has_its_standard_error(generator):
    values = generator.standard_normal(60)
    hessian, _ = planted(values, generator)
    trace, error = estimate_trace(hessian, 3000)
    assert abs(trace - values.sum()) < 4 * error
    off_diagonal = np.square(values).sum() - np.square(np.diag(hessian.matrix)).sum()
    assert error == pytest.approx(np.sqrt(2 * off_diagonal / 3000), rel=0.1)
    triple = CurvatureOperator({"w": (7,)}, lambda vector: 3 * vector)
    assert estimate_trace(triple, 2) == (21, 0)
    with pytest.raises(SettingsError, match="probes: found 1"):
        estimate_trace(triple, 1)


def test_the_quadrature_has_the_planted_spectrum(generator):
    values = np.concatenate([generator.normal(size=580), [9.0, 10.0] * 10])
    hessian, _ = planted(np.sort(values), generator)
    measure = spectral_measure(hessian, steps=60, probes=8, whole=0)
    spread = values.max() - values.min()
    assert measure.weights.sum() == pytest.approx(1)
    distance = wasserstein_distance(values, measure.values, None, measure.weights)
    assert distance < 0.005 * spread
    assert measure.values.max() == pytest.approx(10, rel=1e-8)
    assert measure.trace() == pytest.approx(values.sum(), rel=0.2)
    assert measure.saddle_index() == pytest.approx((values < 0).sum(), abs=20)
    points = np.linspace(-6, 12, 2000)
    assert np.trapezoid(measure.density(points, 0.05), points) == pytest.approx(1)
