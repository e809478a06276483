"""The edge of stability against dense matrices and torch's own moments."""

import functools

import numpy as np
import pytest
import torch
from numpy.testing import assert_allclose

import dynamics
from analysis.linearization.hessians import dense_hessian
from analysis.loss_geometry import (
    ChainOptions,
    edge_of_stability,
    gradient_noise,
    learning_coefficients,
    spectral_density,
    training_model,
)
from analysis.loss_geometry.stability_limits import second_moments
from dynamics import ModularSettings, SparseSettings
from dynamics.networks.clustering_head import MLP_VARIABLES

SPARSE = SparseSettings(
    length=5, sparsity=2, data=64, batch=16, hidden=8, mlp_lr_discount=4.0
)


@pytest.fixture(scope="module", params=["modular", "sparse"])
def trained(request, tmp_path_factory):
    """Two runs, on file with a restart state only at the end."""
    settings = {"modular": ModularSettings(n=5, hidden=6), "sparse": SPARSE}
    path = tmp_path_factory.mktemp("edge") / "run.nc"
    return dynamics.simulate(
        settings[request.param], runs=2, steps=24, every=8, out=path
    )


def torch_adam(trained, run, steps):
    """The square gradients that torch.optim.Adam averages along the recorded run, from
    replayed weights."""
    settings = dynamics.read_settings(trained)
    replayed = dynamics.replay(trained, run, 0, steps)
    model = training_model(replayed, 0)
    mean = torch.zeros(model.size, dtype=torch.float64)
    for step in range(steps):
        gradient = torch.func.grad(model.losses(0, step)[0])(model.row(0, step))
        mean = settings.beta2 * mean + (1 - settings.beta2) * gradient**2
    return mean.numpy() / (1 - settings.beta2**steps)


def test_moments_are_means_of_squared_gradients():
    settings = ModularSettings(n=5, hidden=6)
    trained = dynamics.simulate(settings, runs=2, steps=24, every=8)
    moments = second_moments(trained, [1, 3])
    for run in range(2):
        flat = [values[run, 1].ravel() for _, values in moments.values()]
        expected = torch_adam(trained, run, 24)
        assert_allclose(
            np.concatenate(flat), expected, rtol=1e-3, atol=1e-7 * expected.max()
        )


def test_sharpness_is_that_of_dense_matrices(trained):
    settings = dynamics.read_settings(trained)
    result = edge_of_stability(trained, [0, 3])
    moments = second_moments(trained, [3])
    for run in range(2):
        model = training_model(trained, run)
        rates = np.repeat(
            [0.25 if name in MLP_VARIABLES else 1.0 for name in model.shapes],
            model.lengths,
        )
        hessian = dense_hessian(model.losses(0, 3)[0], model.row(0, 3)).numpy()
        plain = np.linalg.eigvals(rates[:, None] * hessian).real.max()
        flat = np.concatenate([v[run, 0].ravel() for _, v in moments.values()])
        adam = (1 - settings.beta1**24) * (np.sqrt(flat.astype(np.float64)) + 1e-8)
        scaled = np.linalg.eigvals((rates / adam)[:, None] * hessian).real.max()
        at = result.isel(run=run, step=1)
        assert at["sharpness"] == pytest.approx(plain, rel=1e-4)
        assert at["relative_sharpness"] == pytest.approx(plain * settings.lr / 2, 1e-4)
        assert at["preconditioned_sharpness"] == pytest.approx(scaled, rel=1e-4)
        limit = 2 * 1.9 / (0.1 * settings.lr)
        assert at["relative_preconditioned"] == pytest.approx(scaled / limit, rel=1e-4)
    assert result["preconditioned_sharpness"].isel(step=0).isnull().all()


def test_gradient_descent_has_the_plain_limit_alone():
    settings = ModularSettings(n=5, hidden=6, optimizer="sgd", lr=0.1)
    trained = dynamics.simulate(settings, runs=1, steps=20)
    result = edge_of_stability(trained, [-1])
    assert result["relative_sharpness"].item() == pytest.approx(
        0.05 * result["sharpness"].item()
    )
    assert result["relative_preconditioned"].isnull().all()


CHAINS = ChainOptions(chains=2, draws=4, burn_in=0)
MEASURES = {
    "sharpness": edge_of_stability,
    "trace": spectral_density,
    "noise_scale": functools.partial(gradient_noise, modes=1),
    "llc": functools.partial(learning_coefficients, options=CHAINS),
}


@pytest.mark.parametrize("name", MEASURES)
def test_frames_at_which_the_loss_is_not_finite_have_no_values(tmp_path, name):
    """The logarithm of a weight that is negative in the last frame."""
    for step, weight in enumerate((1.0, 0.5, -0.5)):
        torch.save({"weight": torch.tensor([weight, 2.0])}, f"w-{step}.pt")
    inputs = torch.linspace(0.1, 1, 10).reshape(5, 2)

    def loss(parameters, batch):
        return (parameters["weight"].log() * batch).square().mean()

    functions = dynamics.ModelFile(loss=loss, batches=lambda: [inputs])
    trajectory = dynamics.collect_checkpoints([tmp_path], model=functions)
    result = MEASURES[name](trajectory, range(3), functions=functions)
    for variable in ("loss", name):
        if variable in result:
            finite = np.isfinite(result[variable].values[0])
            assert finite.tolist() == [True, True, False]
