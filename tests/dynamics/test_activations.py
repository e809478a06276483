"""Activations as values: their derivatives, on lanes, and in every backend against plain
modules."""

import dataclasses

import numpy as np
import pytest
import torch
from numpy.testing import assert_allclose, assert_array_equal

from dynamics.kernels import activations
from dynamics.kernels.compiling import njit
from dynamics.kernels.simd import LANES_32, load_scalars, store_scalars
from dynamics.networks.activation_functions import ACTIVATIONS
from dynamics.tasks import operation_pairs, operation_splits
from tests import plain_head, plain_torch
from tests.dynamics.test_optimizers import BACKENDS, NETWORKS, SEEDS, SETTINGS
from tests.plain_torch import ACTIVATION_MODULES
from tests.plain_transformer import PlainTransformer, plain_tokens

EACH = pytest.mark.parametrize("name", ACTIVATIONS)
POINTS = torch.linspace(-6, 6, 1200, dtype=torch.float64)  # 0 is not among them


@EACH
def test_functions_are_those_of_torch_and_derivatives_those_of_autograd(name):
    activation = ACTIVATIONS[name]
    assert activation.name == name
    expected = ACTIVATION_MODULES[name]()
    slope = torch.func.vmap(torch.func.grad(expected))
    bend = torch.func.vmap(torch.func.grad(torch.func.grad(expected)))
    value = activation.function(POINTS)
    assert_array_equal(value, expected(POINTS))
    functions = (expected, slope, bend)
    results = activation.derivatives(POINTS)
    for result, function in zip(results, functions, strict=True):
        assert_allclose(result, function(POINTS), atol=1e-14)


def on_lanes(name, x):
    """Values and derivatives at float32 numbers (point,)."""
    code = activations.ACTIVATION_CODES[name]

    @njit
    def evaluate(x, code, value, slope):
        for group in range(x.size // LANES_32):
            after, derivative = activations.activate(load_scalars(x, group), code)
            store_scalars(value, group, after)
            store_scalars(slope, group, derivative)

    value, slope = np.empty_like(x), np.empty_like(x)
    evaluate(x, code, value, slope)
    return value, slope


@EACH
@pytest.mark.parametrize("low", [-40.0, -6.0, -0.7, -1e-3])
def test_lanes_have_the_functions_and_their_derivatives(name, low):
    x = np.linspace(low, -low, 4096, dtype=np.float32)
    value, slope = on_lanes(name, x)
    exact = ACTIVATIONS[name].derivatives(torch.from_numpy(x).double())
    assert_allclose(value, exact[0], atol=1e-6 * abs(low), rtol=1e-6)
    assert_allclose(slope, exact[1], atol=2e-6)


def test_tanh_on_lanes_is_accurate_near_the_origin():
    x = np.geomspace(1e-30, 20, 4096, dtype=np.float32)
    for sign in (1, -1):
        value, _ = on_lanes("tanh", sign * x)
        assert_allclose(value, np.tanh(sign * x.astype(float)), rtol=3e-7)


@EACH
def test_nan_stays_nan(name):
    x = np.full(LANES_32, np.nan, np.float32)
    assert np.isnan(on_lanes(name, x)[0]).all()
    assert ACTIVATIONS[name].function(torch.from_numpy(x)).isnan().all()


def gradient_of_modules(kind, settings, weights, run):
    """The gradient of the first update of a run, by variable, of a plain module in
    float64 with given weights."""
    if kind == "transformer":
        model = PlainTransformer(settings).double().load(weights)
        pairs = operation_pairs(settings)
        pairs = torch.from_numpy(pairs[operation_splits(settings, SEEDS)[0][run]])
        logits = model(plain_tokens(settings, pairs))
        target = pairs.sum(1) % settings.n
        torch.nn.functional.cross_entropy(logits, target).backward()
        flat = [parameter.grad.norm() for parameter in model.parameters()]
        return torch.stack(flat).norm()
    plain = {"modular": plain_torch, "sparse": plain_head}[kind].Run(settings, run)
    plain.net.double()
    for name, parameter in plain.parameters_by_name().items():
        turned = weights[name].T if name in plain.transposed else weights[name]
        parameter.data = turned.double().clone()
    plain.update(0)
    return torch.from_numpy(plain.gradient(NETWORKS[kind](settings))).norm()


@EACH
@pytest.mark.parametrize("backend", BACKENDS)
def test_gradients_of_every_backend_are_those_of_plain_modules(backend, name):
    """Compares norms of the gradients. The tests of the transformer compare the
    directions of its gradient."""
    kind = backend.split()[0]
    settings = dataclasses.replace(SETTINGS[kind], activation=name)
    network, engine = NETWORKS[kind](settings), BACKENDS[backend](settings)
    rows = network.flatten(network.initial(SEEDS))
    engine.set_state(rows, {key: np.zeros_like(rows) for key in engine.names}, 0)
    engine.differentiate(0)
    for run, row in enumerate(rows):
        weights = network.unflatten(torch.from_numpy(row))
        expected = gradient_of_modules(kind, settings, weights, run)
        result = np.linalg.norm(engine.gradient()[run].astype(float))
        assert result == pytest.approx(float(expected), rel=1e-5)
