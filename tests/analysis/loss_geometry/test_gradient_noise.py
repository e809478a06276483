"""The noise of gradients against its definition."""

import numpy as np
import pytest
import torch

import dynamics
from analysis import operator
from analysis.linearization import training_model
from analysis.loss_geometry import gradient_noise
from dynamics import ModelFile, ModularSettings
from dynamics.settings import SettingsError

INPUTS = torch.randn(40, 4, generator=torch.Generator().manual_seed(0)).double()
TARGETS = (INPUTS @ torch.tensor([1.0, -1.0, 0.5, 0.0]).double()).sign()


@pytest.fixture
def linear(tmp_path):
    """A recorded linear regression with two batches."""
    layer = torch.nn.Linear(4, 1, bias=False)
    torch.save(layer.state_dict(), "linear-0.pt")

    def loss(parameters, batch):
        return (batch[0] @ parameters["weight"][0] - batch[1]).square().mean() / 2

    batches = list(zip(INPUTS.split(20), TARGETS.split(20), strict=True))
    functions = ModelFile(loss=loss, batches=lambda: batches)
    return dynamics.collect_checkpoints([tmp_path], model=functions), functions


def test_a_linear_model_has_the_noise_of_its_definition(linear):
    trajectory, functions = linear
    result = gradient_noise(trajectory, [0], modes=1, functions=functions)
    result = result.isel(run=0, step=0)
    weight = trajectory["parameter.weight"].values[0, 0, 0].astype(float)
    x = INPUTS.numpy()
    y = TARGETS.numpy()
    gradients = (x @ weight - y)[:, None] * x
    mean = gradients.mean(axis=0)
    covariance = np.cov(gradients.T, bias=True)
    values = np.linalg.eigvalsh(covariance)[::-1]
    assert result["noise_trace"] == pytest.approx(np.trace(covariance))
    assert result["noise_scale"] == pytest.approx(np.trace(covariance) / (mean @ mean))
    assert result["noise_rank"] == pytest.approx(values.sum() ** 2 / (values**2).sum())
    assert result["noise_eigenvalue"][0] == pytest.approx(values[0])
    hessian = x.T @ x / len(x)
    vector = np.linalg.eigh(hessian)[1][:, -1]
    along = vector @ covariance @ vector
    assert result["hessian_eigenvalue"][0] == pytest.approx(
        np.linalg.eigvalsh(hessian)[-1]
    )
    assert result["alignment"][0] == pytest.approx(along / values[0], rel=1e-3)
    assert result["noise_along_hessian"] == pytest.approx(
        along / np.trace(covariance), rel=1e-3
    )
    assert result["gradient_along_hessian"] == pytest.approx(
        (mean @ vector) ** 2 / (mean @ mean), rel=1e-3
    )


def test_a_network_has_the_noise_of_a_loop_over_its_pairs():
    trained = dynamics.simulate(ModularSettings(n=5), runs=1, steps=30)
    result = gradient_noise(trained, [-1], modes=2).isel(run=0, step=0)
    model = training_model(trained, 0)
    (batch,) = model.batches
    row = model.row(0, -1)
    gradients = [
        torch.func.grad(lambda flat, pair=pair: model.batch_loss(0, -1)((pair,), flat))(
            row
        )
        for pair in batch[0].split(1)
    ]
    rows = torch.stack(gradients).numpy()
    noise = rows - rows.mean(axis=0)
    trace = np.square(noise).sum(axis=1).mean()
    assert result["noise_trace"] == pytest.approx(trace, rel=1e-9)
    hessian = operator(trained.isel(step=[-1])).matrix
    vectors = np.linalg.eigh(hessian)[1][:, -2:]
    along = np.square(noise @ vectors).sum() / np.square(noise).sum()
    assert result["noise_along_hessian"] == pytest.approx(along, rel=1e-3)


def test_a_loss_that_is_no_mean_is_refused(linear):
    trajectory, functions = linear

    def loss(parameters, batch):
        return (batch[0] @ parameters["weight"][0] - batch[1]).square().sum()

    summed = ModelFile(loss=loss, batches=functions.batches)
    with pytest.raises(SettingsError, match="not the mean of the losses"):
        gradient_noise(trajectory, [0], modes=1, functions=summed)
    with pytest.raises(SettingsError, match="modes: found 5, allowed is 1 to 4"):
        gradient_noise(trajectory, [0], modes=5, functions=functions)


def test_a_sum_over_some_of_the_examples_is_refused(linear):
    trajectory, functions = linear

    def total(parameters, batch):
        return len(batch[0]) * functions.loss(parameters, batch)

    sums = ModelFile(loss=total, batches=functions.batches)
    with pytest.raises(SettingsError, match="not the mean of the losses"):
        gradient_noise(trajectory, [0], examples=30, modes=1, functions=sums)


def test_more_modes_than_examples_have_no_noise_in_the_others(linear):
    trajectory, functions = linear
    result = gradient_noise(trajectory, [0], 3, modes=4, functions=functions)
    eigenvalues = result["noise_eigenvalue"].values[0, 0]
    assert (eigenvalues[:2] > 0).all()
    assert eigenvalues[2:] == pytest.approx(0, abs=1e-12)
