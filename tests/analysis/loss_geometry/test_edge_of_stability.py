"""The edge of stability against whole matrices."""

import functools

import numpy as np
import pytest
import torch

import dynamics
from analysis.linearization import training_model
from analysis.linearization.optimizer_limits import with_moments
from analysis.loss_geometry import (
    ChainOptions,
    edge_of_stability,
    gradient_noise,
    learning_coefficients,
    spectral_density,
)
from dynamics import ModularSettings, SparseSettings
from dynamics.recording.quantities import SECOND_MOMENT
from dynamics.settings import MLP_VARIABLES

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


def test_sharpness_is_that_of_dense_matrices(trained):
    settings = dynamics.read_settings(trained)
    result = edge_of_stability(trained, [0, 3])
    last = with_moments(trained, [3])
    for run in range(2):
        model = training_model(last, run)
        rates = np.repeat(
            [0.25 if name in MLP_VARIABLES else 1.0 for name in model.shapes],
            model.lengths,
        )
        loss = model.losses(0, 0)[0]
        hessian = torch.func.hessian(loss)(model.row(0, 0)).numpy()
        plain = np.linalg.eigvals(rates[:, None] * hessian).real.max()
        moments = model.row(0, 0, SECOND_MOMENT).numpy()
        adam = (1 - settings.beta1**24) * (np.sqrt(moments) + 1e-8)
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
