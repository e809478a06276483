"""Derivatives of losses by torch, and what is wrong with some of them."""

import re

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from torch.nn.utils import parametrizations
from torch.utils.checkpoint import checkpoint

import dynamics
from analysis.linearization import SpectrumOptions, model_curvature
from analysis.loss_geometry import gradient_noise
from dynamics import ModelLoss, SettingsError
from dynamics.networks.derivatives import (
    depends_on,
    differentiable_twice,
    gradient_fault,
    hessian_fault,
    hessian_vector_product,
    mapped_gradient,
    value_and_gradient,
)

torch.manual_seed(0)
X = torch.randn(12, 3, dtype=torch.float64)
Y = X.sum(1, keepdim=True)


class Tanh(torch.autograd.Function):
    """The usual form, which `torch.func` refuses."""

    @staticmethod
    def forward(ctx, x):
        ctx.save_for_backward(x)
        return x.tanh()

    @staticmethod
    def backward(ctx, gradient):
        (x,) = ctx.saved_tensors
        return gradient * (1 - x.tanh() ** 2)


class Constant(Tanh):
    """Its backward pass has no derivative."""

    @staticmethod
    def backward(ctx, gradient):
        (x,) = ctx.saved_tensors
        return gradient * (1 - x.detach().tanh() ** 2)


class Skew(Tanh):
    """Its second derivative is not symmetric."""

    @staticmethod
    def backward(ctx, gradient):
        (x,) = ctx.saved_tensors
        slope = 1 - x.detach().tanh() ** 2
        return gradient * slope + 0.3 * (x - x.detach()).roll(1, -1)


class Steep(Tanh):
    """Its gradient is wrong."""

    @staticmethod
    def backward(ctx, gradient):
        (x,) = ctx.saved_tensors
        return 1.2 * gradient * (1 - x.tanh() ** 2)


class Once(Tanh):
    """It cannot be differentiated twice."""

    @staticmethod
    @torch.autograd.function.once_differentiable
    def backward(ctx, gradient):
        (x,) = ctx.saved_tensors
        return gradient * (1 - x.tanh() ** 2)


class Net(torch.nn.Module):
    def __init__(self, activation, layer=torch.nn.Linear, wrap=lambda layer: layer):
        super().__init__()
        self.first, self.last = wrap(layer(3, 4)), torch.nn.Linear(4, 1)
        self.activation = activation

    def forward(self, x):
        return self.last(self.activation(self.first, x))


def by(function):
    return lambda layer, x: function(layer(x))


def recomputed(reentrant):
    def activation(layer, x):
        return checkpoint(lambda v: layer(v).tanh(), x, use_reentrant=reentrant)

    return activation


def loss_of(model):
    """The loss as a function of flat parameters."""
    shapes = {name: p.shape for name, p in model.named_parameters()}
    sizes = [shape.numel() for shape in shapes.values()]

    def loss(row, x=X, y=Y):
        parts = zip(shapes.items(), row.split(sizes), strict=True)
        parameters = {name: part.view(shape) for (name, shape), part in parts}
        with differentiable_twice():
            output = torch.func.functional_call(model, parameters, (x,))
        return (output - y).square().mean()

    row = torch.cat([p.detach().reshape(-1) for p in model.parameters()])
    return loss, row


def plain_hessian(loss, row):
    """By central differences of central differences, of the loss alone."""
    axes = torch.eye(len(row), dtype=torch.float64) * 3e-4
    rows = [
        [
            loss(row + a + b)
            - loss(row + a - b)
            - loss(row - a + b)
            + loss(row - a - b)
            for b in axes
        ]
        for a in axes
    ]
    return torch.tensor(rows, dtype=torch.float64) / 3.6e-7


NETS = {
    "plain": Net(by(torch.tanh)),
    "function": Net(by(Tanh.apply)),
    "checkpoint": Net(recomputed(False)),
    "reentrant": Net(recomputed(True)),
    "weight norm": Net(by(torch.tanh), wrap=parametrizations.weight_norm),
    "weight norm of columns": Net(
        by(torch.tanh), wrap=lambda layer: parametrizations.weight_norm(layer, dim=1)
    ),
    "one norm": Net(
        by(torch.tanh), wrap=lambda layer: parametrizations.weight_norm(layer, dim=None)
    ),
    "old weight norm": Net(by(torch.tanh), wrap=torch.nn.utils.weight_norm),
    "spectral norm": Net(by(torch.tanh), wrap=parametrizations.spectral_norm),
    "relu": Net(by(torch.relu)),
    "linear": Net(by(lambda x: x)),
}


@pytest.mark.parametrize("name", NETS)
@pytest.mark.parametrize("frozen", [False, True])
def test_hessians_are_those_of_differences(name, frozen):
    model = NETS[name].double().eval().requires_grad_(not frozen)
    loss, row = loss_of(model)
    product = hessian_vector_product(loss, row)
    hessian = torch.stack([product(axis) for axis in torch.eye(len(row)).double()])
    with torch.no_grad():
        expected = plain_hessian(loss, row)
    assert torch.allclose(hessian, expected, atol=1e-5, rtol=1e-4)
    assert not hessian.requires_grad
    assert gradient_fault(loss, row) == hessian_fault(loss, row) == ""
    with torch.inference_mode():
        value, gradient = value_and_gradient(loss, row)
        assert torch.equal(product(torch.ones_like(row)), product(torch.ones_like(row)))
    assert value.item() == loss(row).item()
    values, gradients = mapped_gradient(loss, (0,))(torch.stack([row, row + 0.1]))
    assert torch.allclose(gradients[0], gradient, atol=1e-12)
    assert torch.allclose(values[1], loss(row + 0.1))


@pytest.mark.parametrize(
    ("function", "words"),
    [
        (Constant, "differs by .* from the central difference of the gradient"),
        (Skew, "is not symmetric|its gradient"),
        (Steep, "its gradient has the norm"),
    ],
)
def test_wrong_derivatives_are_named(function, words):
    loss, row = loss_of(Net(by(function.apply)).double())
    fault = gradient_fault(loss, row) or hessian_fault(loss, row)
    assert re.search(words, fault), fault


@settings(max_examples=25, deadline=None)
@given(
    size=st.integers(1, 30),
    scale=st.floats(1e-3, 1e3),
    flat=st.booleans(),
    single=st.booleans(),
    seed=st.integers(0, 99),
)
def test_correct_derivatives_have_no_fault(size, scale, flat, single, seed):
    generator = torch.Generator().manual_seed(seed)
    matrix = torch.randn(size, size, generator=generator, dtype=torch.float64)
    row = scale * torch.randn(size, generator=generator, dtype=torch.float64)

    def loss(row):
        inner = (matrix @ row / scale).relu() if flat else (matrix @ row / scale).sin()
        return (inner.float() if single else inner).square().mean()

    assert gradient_fault(loss, row) == ""
    assert hessian_fault(loss, row) == ""


def recorded(tmp_path, model):
    path = tmp_path / "own.nc"
    optimizer = torch.optim.SGD(model.parameters(), lr=0.05)
    with dynamics.record(model, optimizer, path, weights=True, overwrite=True) as run:
        for _ in range(2):
            optimizer.zero_grad()
            loss = (model(X.float()) - Y.float()).square().mean()
            loss.backward()
            optimizer.step()
            run.step(loss=loss)
    return dynamics.open_trajectory(path)


def given_loss(model):
    def loss(parameters, batch):
        output = torch.func.functional_call(model, parameters, (batch[0],))
        return (output - batch[1]).square().mean()

    return ModelLoss(loss, lambda: [(X, Y)])


@pytest.mark.parametrize("how", ["checkpoint", "function", "weight norm"])
def test_curvature_of_models_that_torch_func_refuses(tmp_path, how):
    model = NETS[how].float().requires_grad_()
    run = recorded(tmp_path, model)
    options = SpectrumOptions(eigenvalues=1)
    result = model_curvature(run, given_loss(model), [2], options, quiet=True)
    loss, _ = loss_of(model)
    names = [f"parameter.{name}" for name, _ in model.named_parameters()]
    flat = np.concatenate([run[name].values[0, 2].ravel() for name in names])
    expected = plain_hessian(loss, torch.from_numpy(flat).double())
    assert result.sharpness.item() == pytest.approx(
        float(torch.linalg.eigvalsh(expected)[-1]), rel=1e-4
    )


@pytest.mark.parametrize(
    ("function", "words"),
    [
        (Constant, "central difference of the gradient"),
        (Once, "differentiate twice|not symmetric"),
        (Steep, "its gradient has the norm"),
    ],
)
def test_wrong_derivatives_of_a_recorded_model_are_refused(tmp_path, function, words):
    model = Net(by(function.apply))
    run = recorded(tmp_path, model)
    options = SpectrumOptions(eigenvalues=1)
    with pytest.raises(SettingsError, match=words):
        model_curvature(run, given_loss(model), [2], options, quiet=True)


def test_a_stationary_point_depends_on_the_parameters(tmp_path):
    model = torch.nn.Linear(3, 1)
    torch.nn.init.zeros_(model.weight)
    torch.nn.init.zeros_(model.bias)
    optimizer = torch.optim.SGD(model.parameters(), lr=0.0)
    with dynamics.record(model, optimizer, tmp_path / "0.nc", weights=True) as run:
        model(X.float()).square().mean().backward()
        optimizer.step()
        run.step()
    trajectory = dynamics.open_trajectory(tmp_path / "0.nc")

    def loss(parameters, batch):
        output = torch.func.functional_call(model, parameters, (batch,))
        return output.square().mean()

    options = SpectrumOptions(eigenvalues=1)
    given = ModelLoss(loss, lambda: [X])
    result = model_curvature(trajectory, given, [0], options, quiet=True)
    inputs = torch.cat([X, torch.ones(len(X), 1)], 1)
    largest = torch.linalg.eigvalsh(2 * inputs.T @ inputs / len(X))[-1]
    assert result.sharpness.item() == pytest.approx(float(largest))
    assert result["gradient_size"].item() == 0
    outside = ModelLoss(lambda parameters, batch: model(batch.float()).mean(), given[1])
    with pytest.raises(SettingsError, match="does not depend on the parameters"):
        model_curvature(trajectory, outside, [0], options, quiet=True)


def test_a_loss_without_a_graph_does_not_depend_on_the_row():
    row = torch.ones(2)
    assert not depends_on(lambda row: row.detach().sum(), row)
    assert depends_on(lambda row: 0 * row.sum(), row)
    assert hessian_vector_product(lambda row: row.sum(), row)(row).tolist() == [0, 0]


def test_noise_of_a_model_that_torch_func_refuses(tmp_path):
    model = NETS["function"].float().requires_grad_()
    run = recorded(tmp_path, model)
    functions = dynamics.ModelFile(
        loss=given_loss(model).loss, batches=given_loss(model).batches
    )
    result = gradient_noise(run, [1], functions=functions)
    model = NETS["plain"].float()
    model.load_state_dict(NETS["function"].state_dict())
    plain = dynamics.ModelFile(
        loss=given_loss(model).loss, batches=given_loss(model).batches
    )
    expected = gradient_noise(run, [1], functions=plain)
    for name in ("noise_trace", "hessian_eigenvalue"):
        np.testing.assert_allclose(result[name], expected[name], rtol=1e-6)
