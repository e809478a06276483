"""Spectral densities against whole spectra, and the Gauss-Newton matrix against its
definition."""

import numpy as np
import pytest
import torch
from scipy.stats import wasserstein_distance

import dynamics
from analysis.linearization.hessians import dense_hessian
from analysis.loss_geometry import (
    gauss_newton_loss,
    lanczos_quadrature,
    spectral_density,
    training_model,
)
from dynamics import ModelFile, ModularSettings, SparseSettings
from dynamics.settings import SettingsError


@pytest.mark.slow
def test_the_quadrature_has_the_spectrum_of_a_model_of_2000_parameters(tmp_path):
    torch.manual_seed(0)
    layers = torch.nn.Linear(30, 40), torch.nn.Tanh(), torch.nn.Linear(40, 18)
    net = torch.nn.Sequential(*layers)
    x, y = torch.randn(100, 30).double(), torch.randn(100, 18).double()
    torch.save(net.state_dict(), "net-0.pt")

    def loss(parameters, batch):
        output = torch.func.functional_call(net, dict(parameters), (batch[0],))
        return (output - batch[1]).square().mean()

    functions = ModelFile(loss=loss, batches=lambda: [(x, y)])
    trajectory = dynamics.collect_checkpoints([tmp_path], weights=True)
    model = training_model(trajectory, 0, functions)
    assert model.size == 1978
    matrix = dense_hessian(model.losses(0, 0)[0], model.row(0, 0))
    values = np.linalg.eigvalsh(matrix.numpy())
    nodes, weights = np.concatenate(
        [lanczos_quadrature(matrix.mv, 1978, 80, seed) for seed in range(8)], axis=1
    )
    spread = values[-1] - values[0]
    distance = wasserstein_distance(values, nodes, None, weights)
    assert distance < 0.005 * spread
    options = {"steps": 80, "probes": 8, "whole": 0, "functions": functions}
    result = spectral_density(trajectory, [0], **options).isel(run=0, step=0)
    assert result["largest"] == pytest.approx(values[-1], rel=1e-8)
    assert result["lowest"] == pytest.approx(values[0], rel=1e-8)
    assert result["trace"] == pytest.approx(values.sum(), rel=0.1)
    null = 1e-4 * np.abs(values).max()
    assert result["saddle_index"] / 1978 == pytest.approx(
        (values < -null).mean(), abs=0.03
    )
    integral = np.trapezoid(result["density"], result["eigenvalue"])
    assert integral == pytest.approx(1, abs=0.01)
    with pytest.raises(SettingsError, match="matrix: found gauss_newton"):
        spectral_density(trajectory, [0], "gauss_newton", functions=functions)


@pytest.mark.parametrize(
    "settings",
    [
        ModularSettings(n=5),
        SparseSettings(length=3, sparsity=2, vocab=2, data=32, batch=16, hidden=4),
    ],
)
def test_the_gauss_newton_matrix_is_that_of_its_definition(settings):
    trained = dynamics.simulate(settings, runs=1, steps=20)
    model = training_model(trained, 0)
    row, (batch,) = model.row(0, -1), model.batches
    network = dynamics.networks.network_of(trained)

    def logits(flat):
        return network.logits(model.unflatten(flat), batch[0])

    jacobian = torch.func.jacrev(logits)(row)
    p = torch.softmax(logits(row), -1)
    inner = torch.diag_embed(p) - p[:, :, None] * p[:, None, :]
    expected = torch.einsum("ica,icd,idb->ab", jacobian, inner, jacobian) / len(p)
    loss = gauss_newton_loss(trained, model, row)
    assert torch.allclose(dense_hessian(loss, row), expected, atol=1e-12)
    gradient = torch.func.grad(model.losses(0, -1)[0])(row)
    assert torch.allclose(torch.func.grad(loss)(row), gradient, atol=1e-12)
    result = spectral_density(trained, [-1]).isel(run=0, step=0)
    hessian = dense_hessian(model.losses(0, -1)[0], row).numpy()
    values = np.linalg.eigvalsh(hessian)
    assert result["trace"] == pytest.approx(values.sum(), rel=1e-6)
    null = 1e-4 * np.abs(values).max()
    assert result["saddle_index"] == pytest.approx((values < -null).sum())
