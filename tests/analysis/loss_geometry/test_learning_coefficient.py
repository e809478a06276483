"""Local learning coefficients against closed forms, integrals and known values."""

import numpy as np
import pytest
import torch
from numpy.testing import assert_array_equal
from scipy.integrate import dblquad

import dynamics
from analysis.linearization import training_model
from analysis.loss_geometry import (
    ChainOptions,
    effective_draws,
    learning_coefficients,
    sample_losses,
    sharpness,
)
from dynamics import ModelFile, ModularSettings, SparseSettings
from dynamics.settings import SettingsError, TransformerSettings


def sampled(loss, center, beta, step_size, options):
    """The estimate of a loss of flat parameters at a temperature, and its standard
    error."""
    excess = sample_losses(lambda row, _: loss(row), center, 1, options, step_size)
    means = beta * excess.mean(axis=1)
    return means.mean(), means.std(ddof=1) / np.sqrt(len(means))


def chain_options(beta, localisation=1.0):
    return ChainOptions(16, 4000, 1000, None, localisation, beta)


def test_a_quadratic_minimum_has_its_closed_form():
    """Along a direction of curvature h, steps of size eps of the density of curvature
    k = beta h + gamma have the variance 1 / (k (1 - eps k / 4))."""
    curvature = torch.tensor([0.1, 1.0, 1.0, 4.0]).double()
    beta = 1000.0
    gamma = 100.0
    step_size = 5e-5
    value, error = sampled(
        lambda row: (curvature * row**2).sum() / 2,
        torch.zeros(4).double(),
        beta,
        step_size,
        chain_options(beta, gamma),
    )
    k = beta * curvature + gamma
    exact = (beta * curvature / (k * (1 - step_size * k / 4))).sum() / 2
    assert value == pytest.approx(float(exact), abs=3 * error)
    assert exact == pytest.approx(float((beta * curvature / k).sum() / 2), rel=0.05)
    assert error < 0.05


@pytest.mark.parametrize(
    ("powers", "threshold"),
    [
        ((1, 1), 0.5),
        pytest.param((1, 2), 0.25, marks=pytest.mark.slow),
        pytest.param((2, 2), 0.25, marks=pytest.mark.slow),
    ],
)
def test_products_of_powers_have_the_mean_of_their_density(powers, threshold):
    """The loss (x^a y^b)^2, whose real log canonical threshold is 1 / (2 max(a, b))."""
    a, b = powers
    beta = 1000.0

    def excess(x, y):
        return (x**a * y**b) ** 2

    def weight(y, x):
        return np.exp(-beta * excess(x, y) - (x * x + y * y) / 2)

    limits = (0, 6, 0, 6)
    total = dblquad(weight, *limits, epsabs=1e-9)[0]
    mean = dblquad(lambda y, x: beta * excess(x, y) * weight(y, x), *limits)[0] / total
    value, error = sampled(
        lambda row: excess(row[0], row[1]),
        torch.zeros(2).double(),
        beta,
        2e-4,
        chain_options(beta),
    )
    assert value == pytest.approx(mean, abs=3 * error)
    assert mean == pytest.approx(threshold, abs=0.15)


@pytest.mark.slow
def test_a_deep_linear_network_has_the_value_of_aoyagi():
    """Two matrices of 3 x 3 whose product has rank 1: 4 by the formula of Aoyagi and
    Watanabe (2005), of 18 parameters."""
    u = torch.tensor([2.0, 1.0, 2.0]).double() / 3
    v = torch.tensor([1.0, -2.0, 2.0]).double() / 3
    first = torch.zeros(3, 3).double()
    second = torch.zeros(3, 3).double()
    first[:, 0] = u
    second[0] = v

    def loss(row):
        product = row[:9].view(3, 3) @ row[9:].view(3, 3)
        return (product - torch.outer(u, v)).square().sum() / 2

    options = ChainOptions(20, 20000, 5000, None, 1.0, 1e5)
    center = torch.cat([first.ravel(), second.ravel()])
    value, error = sampled(loss, center, 1e5, 2e-6, options)
    assert value == pytest.approx(4.0, abs=3 * error)
    assert error < 0.1


def test_effective_draws_of_an_autoregressive_series():
    generator = np.random.default_rng(0)
    noise = generator.normal(size=(20, 20000))
    series = np.zeros_like(noise)
    for draw in range(1, series.shape[1]):
        series[:, draw] = 0.9 * series[:, draw - 1] + noise[:, draw]
    exact = 20000 * (1 - 0.9) / (1 + 0.9)
    assert effective_draws(series).mean() == pytest.approx(exact, rel=0.1)


@pytest.mark.parametrize(
    "settings",
    [
        ModularSettings(n=7),
        SparseSettings(length=4, sparsity=2, data=64, batch=16),
        TransformerSettings(n=5, dim=16, heads=2),
    ],
    ids=lambda settings: settings.system,
)
def test_the_loss_of_a_network_is_the_recorded_one(settings):
    trajectory = dynamics.simulate(settings, runs=2, steps=8, every=4)
    for run in range(2):
        model = training_model(trajectory, run)
        losses = [loss(model.row(0, 2)) for loss in model.losses(0, 2)]
        recorded = float(trajectory["loss"].sel(split="train")[run, 2])
        assert float(sum(losses)) == pytest.approx(recorded, rel=1e-5)


@pytest.fixture(scope="module")
def trained():
    settings = ModularSettings(n=7)
    return dynamics.simulate(settings, runs=2, steps=60, every=30)


FEW = ChainOptions(chains=3, draws=40, burn_in=10)


def test_a_frame_has_the_same_chains_in_any_selection(trained):
    together = learning_coefficients(trained, [0, 2], FEW)
    alone = learning_coefficients(trained.isel(run=[1]), [2], FEW)
    assert_array_equal(together["trace"][1, 1], alone["trace"][0, 0])
    other = learning_coefficients(trained.isel(run=[1]), [0], FEW)
    assert (together["trace"][1, 0] == other["trace"][0, 0]).all()
    assert (together["llc_error"] >= together["within_error"]).all()


def test_mini_batches_and_single_layers(trained):
    batches = ChainOptions(chains=3, draws=40, burn_in=10, batch=4)
    result = learning_coefficients(trained, [2], batches)
    assert np.isfinite(result["llc"]).all()
    layer = learning_coefficients(trained, [2], FEW, layers=["output*"])
    sizes = {
        name: trained[name][0, 0].size for name in ("output_weight", "output_bias")
    }
    assert layer.attrs["parameters"] == sum(sizes.values())
    with pytest.raises(SettingsError, match="layers: found nothing"):
        learning_coefficients(trained, [2], FEW, layers=["nothing"])


def test_diverging_chains_are_counted(trained):
    fast = ChainOptions(chains=3, draws=400, burn_in=10, step_size=1e3)
    result = learning_coefficients(trained, [2], fast)
    assert (result["diverged_chains"] == 3).all()
    assert result["llc"].isnull().all()


def one_layer_with(batches):
    """A checkpoint of a linear layer, and its loss with weights of the outputs, on
    batches (weights, inputs)."""
    torch.save(torch.nn.Linear(2, 3).state_dict(), "layer-0.pt")

    def loss(parameters, batch):
        weights, inputs = batch
        outputs = inputs @ parameters["weight"].T + parameters["bias"]
        return (weights * outputs.square()).mean()

    functions = ModelFile(loss=loss, batches=lambda: batches)
    return dynamics.collect_checkpoints(["layer-0.pt"], model=functions), functions


def test_tensors_that_examples_share_are_not_counted():
    weights = torch.ones(3)
    inputs = torch.randn(20, 2)
    trajectory, functions = one_layer_with([(weights, inputs)])
    with pytest.raises(SettingsError, match="tensors of 3 and of 20 entries"):
        learning_coefficients(trajectory, [0], ChainOptions(1, 2, 0), functions)
    triples = ModelFile(
        loss=lambda parameters, batch: functions.loss(parameters, batch[:2]),
        batches=lambda: [
            (weights, rows, torch.zeros(len(rows))) for rows in inputs.split(10)
        ],
    )
    options = ChainOptions(1, 2, 0, batch=5)
    result = learning_coefficients(trajectory, [0], options, triples)
    assert result.attrs["examples"] == 20
    assert np.isfinite(result["llc"]).all()


@pytest.mark.parametrize("size", [1, 2])
def test_models_of_one_and_two_parameters(size):
    """The closed form of a quadratic loss around a point that is no minimum: with the
    curvature h, the gradient h w and k = beta h + gamma, each direction has the excess
    beta ((1 / k + m^2) h / 2 + h w m) with the mean m = - beta h w / k."""
    weight = torch.full((size,), 0.3).double()
    torch.save({"weight": weight}, "few-0.pt")
    curvature = torch.tensor([2.0, 0.5]).double()[:size]
    functions = ModelFile(
        loss=lambda parameters, _: (curvature * parameters["weight"] ** 2).sum() / 2,
        batches=lambda: [torch.zeros(10)],
    )
    trajectory = dynamics.collect_checkpoints(["few-0.pt"], model=functions)
    beta = 50.0
    gamma = 10.0
    options = ChainOptions(64, 500, 100, 1e-3, gamma, beta)
    result = learning_coefficients(
        trajectory, [0], options, functions, dtype=torch.float64
    )
    k = beta * curvature + gamma
    mean = -beta * curvature * weight / k
    own = (1 / k + mean**2) * curvature / 2 + curvature * weight * mean
    error = result["llc_error"].item()
    assert result["llc"].item() == pytest.approx(float(beta * own.sum()), abs=3 * error)
    assert error < 0.05
    default = learning_coefficients(trajectory, [0], ChainOptions(2, 2, 0), functions)
    limit = 10 / np.log(10) * curvature.max() + 100
    assert default["step_size"].item() == pytest.approx(float(0.2 / limit), rel=0.02)
    largest = sharpness(trajectory, [0], functions).item()
    assert largest == pytest.approx(float(curvature.max()))
