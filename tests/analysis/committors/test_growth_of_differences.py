"""Lyapunov exponents of a linear flow, of the logistic map, and of particles by
products of derivatives."""

import dataclasses
from typing import ClassVar

import numpy as np
import pytest
import torch
from numpy.testing import assert_allclose

from analysis import linearization, lyapunov
from analysis.committors import (
    growth_of_differences,
    largest_exponents,
    linearized_exponents,
)
from dynamics import (
    ModularSettings,
    ParticleSettings,
    SettingsError,
    SparseSettings,
    all_pairs,
    branch_copies,
    register,
    simulate,
)
from dynamics.branching import open_source, states_at
from dynamics.networks.constant_attention import ConstantAttention
from dynamics.optimizers import Optimizer, register_optimizer, sign, update_numbers
from tests.dynamics.test_external_systems import Noise, NoiseSettings

RATES = np.array([0.5, -0.2, -1.0])
BASIS = np.linalg.qr(np.random.default_rng(3).standard_normal((3, 3)))[0]


@dataclasses.dataclass(frozen=True)
class FlowSettings(NoiseSettings):
    """A linear flow with rates 0.5, -0.2 and -1, in time steps of 0.01."""

    system: ClassVar[str] = "linear-flow"
    time_step: ClassVar[float] = 0.01


@dataclasses.dataclass(frozen=True)
class LogisticSettings(NoiseSettings):
    """x <- 4 x (1 - x), of exponent log 2."""

    system: ClassVar[str] = "logistic"


@dataclasses.dataclass(frozen=True)
class PointState:
    step: int
    last_step: np.ndarray
    embedding: np.ndarray


class Flow(Noise):
    shape = (3, 1)
    step_matrix = BASIS @ np.diag(np.exp(0.01 * RATES)) @ BASIS.T

    def initial(self, seeds):
        x = 1 + self.noise(seeds, 0)
        return PointState(0, np.zeros(len(seeds), np.int64), x)

    def map(self, x):
        return self.step_matrix @ x

    def advance(self, state, steps):
        x = state.embedding
        for _ in range(steps):
            x = self.map(x)
        return PointState(state.step + steps, state.last_step + steps, x)

    def observe(self, state):
        zeros = np.zeros((len(state.last_step), 1), np.float32)
        return {
            "embedding": state.embedding,
            "gradient_norm": zeros,
            "update_norm": zeros,
        }

    def restore(self, arrays):
        return PointState(**{**arrays, "step": int(arrays["step"])})


class Logistic(Flow):
    shape = (2, 1)

    def initial(self, seeds):
        x = 0.5 + 0.1 * np.tanh(self.noise(seeds, 0))
        return PointState(0, np.zeros(len(seeds), np.int64), x)

    def map(self, x):
        return 4 * x * (1 - x)


@pytest.fixture(autouse=True)
def registered(restored_registries):
    """The systems are known while a test of this module runs."""
    register(FlowSettings, Flow)
    register(LogisticSettings, Logistic)


def test_exponents_of_a_linear_flow_are_its_rates():
    source = simulate(FlowSettings(), runs=2, steps=1500, every=100)
    exponents = largest_exponents(
        source, 0, 1500, 3, span=50, size=1e-3, transient=1000
    )
    assert_allclose(exponents, [RATES] * 2, atol=1e-3)


def test_differences_of_a_linear_flow_grow_alike_at_all_sizes():
    source = simulate(FlowSettings(), runs=2, steps=1500, every=100)
    result = lyapunov(source, [0], 1500, [1e-6, 1e-2])
    growth = result["exponent"].values
    assert_allclose(growth[..., 0], growth[..., 1], atol=1e-3)
    assert (np.abs(growth - 0.5) < 0.2).all()


@pytest.mark.slow
def test_the_exponent_of_the_logistic_map_is_log_2():
    source = simulate(LogisticSettings(), runs=3000, steps=150, every=150)
    exponents = largest_exponents(source, 50, 150, 2, span=10, size=1e-10)
    assert exponents.mean() == pytest.approx(np.log(2), abs=1e-3)


def test_exponents_of_particles_are_those_of_products_of_derivatives():
    settings = ParticleSettings(n=7, fa=2.0)
    source = simulate(settings, runs=3, steps=40)
    by_copies = largest_exponents(source, 5, 25, 4, span=1, size=1e-8)
    by_products = linearized_exponents(source, 5, 25, 4)
    assert_allclose(by_copies, by_products, atol=1e-3)


DESCENT = ModularSettings(n=5, hidden=4, optimizer="sgd", lr=0.3, weight_decay=0.01)
"""CA's network under plain gradient descent."""


@pytest.mark.parametrize("of_embedding", [None, 0.1])
def test_exponents_of_gradient_descent_are_those_of_products_of_hessians(of_embedding):
    settings = dataclasses.replace(DESCENT, embedding_weight_decay=of_embedding)
    source = simulate(settings, runs=6, steps=28)
    by_copies = largest_exponents(source, 20, 28, 2, span=1, size=1e-4)
    by_products = linearized_exponents(source, 20, 28, 2)
    assert_allclose(by_copies, by_products, atol=1e-3)
    assert (np.abs(by_products).max(axis=1) > 0.02).all()


def active_units(trajectory):
    """Whether each hidden unit is active for each pair, by run and frame: (run, step,
    pair, hidden)."""
    points = trajectory["embedding"].transpose("run", "step", "token", "axis").values
    weights = trajectory["hidden_weight"].transpose("run", "step", "hidden", "axis")
    bias = trajectory["hidden_bias"].transpose("run", "step", "hidden").values
    sums = points[:, :, all_pairs(5)].sum(axis=3)
    return sums @ weights.values.swapaxes(2, 3) + bias[:, :, None] > 0


def test_exponents_jump_where_a_difference_switches_a_hidden_unit(monkeypatch):
    """The gradient of a ReLU network jumps where a unit becomes active for other pairs.
    With differences of this size that happens in two runs, and only in these the
    exponents differ from those of the derivatives."""
    source = simulate(DESCENT, runs=6, steps=28)
    switches = np.zeros(6, int)

    def watched(*arguments, **options):
        copies = branch_copies(*arguments, **options)
        active = active_units(copies).reshape(6, 2, -1)
        switches[:] += (active[:, 0] != active[:, 1]).sum(axis=1)
        return copies

    monkeypatch.setattr(growth_of_differences, "branch_copies", watched)
    by_copies = largest_exponents(source, 20, 28, 2, span=1, size=1e-3)
    errors = np.abs(by_copies - linearized_exponents(source, 20, 28, 2)).max(axis=1)
    assert (switches > 0).sum() == 2
    assert (errors[switches > 0] > 1).all()
    assert (errors[switches == 0] < 1e-3).all()
    switches[:] = 0
    largest_exponents(source, 20, 28, 2, span=1, size=1e-4)
    assert not switches.any()


@pytest.mark.parametrize("optimizer", ["adam", "adamw", "sgd"])
def test_derivatives_of_updates_are_differences_of_updates(optimizer):
    """Of weights and moments, with central differences in float64."""
    momentum = 0.9 if optimizer == "sgd" else 0.0
    settings = dataclasses.replace(
        DESCENT, optimizer=optimizer, momentum=momentum, lr=0.02, eps=1e-8
    )
    source = simulate(settings, runs=1, steps=12)
    network, value = ConstantAttention(settings), settings.optimizer_value
    loss = linearization.training_objective(network, 0).loss
    (state,) = states_at(open_source(source), np.array([0]), [9], [])
    numbers = update_numbers(settings.hyperparameters, state.updates + 1)
    vectors = [state.weights, *(state.moments[name] for name in value.moments)]
    begin = np.concatenate([row[0] for row in vectors]).astype(float)

    def updated(vector):
        weight, *moments = map(torch.from_numpy, np.split(vector, len(vectors)))
        gradient = torch.func.grad(loss)(weight)
        return np.concatenate(value.apply(gradient, weight, moments, numbers))

    (derivative,) = growth_of_differences._update_derivatives(source, settings, 9, 10)
    for column in np.random.default_rng(0).integers(len(begin), size=20):
        move = np.zeros(len(begin))
        move[column] = size = 1e-6 * abs(begin[column]) + 1e-12
        slope = (updated(begin + move) - updated(begin - move)) / (2 * size)
        scale = np.abs(slope).max()
        assert_allclose(derivative[0][:, column], slope, atol=1e-3 * scale)


def test_products_of_derivatives_are_for_few_systems():
    source = simulate(SPARSE, runs=1, steps=4)
    with pytest.raises(SettingsError, match="particles with step_rule force"):
        linearized_exponents(source, 0, 2, 1)


def test_an_update_without_a_derivative_has_no_exponents():
    register_optimizer(Optimizer("sign_descent", descend_by_signs))
    settings = dataclasses.replace(DESCENT, optimizer="sign_descent", weight_decay=0.0)
    source = simulate(settings, runs=1, steps=4)
    with pytest.raises(SettingsError, match="optimizer: found sign_descent"):
        linearized_exponents(source, 0, 2, 1)


def descend_by_signs(gradient, weight, lr):
    return weight - lr * sign(gradient)


SPARSE = SparseSettings(length=6, sparsity=2, data=50, batch=8, hidden=5)


def test_different_batches_part_runs_that_common_batches_keep_together():
    source = simulate(SPARSE, runs=2, steps=60)
    common, different = (
        lyapunov(source, [10], 20, [1e-3], 4, batches=batches)["exponent"]
        for batches in ("common", "different")
    )
    assert (different > common).all()


@pytest.mark.parametrize(
    ("options", "message"),
    [({"span": 0}, "span: found 0"), ({"batches": "other"}, "common or different")],
)
def test_bad_input_is_said_in_one_line(options, message):
    source = simulate(ParticleSettings(n=5), runs=1, steps=4)
    with pytest.raises(SettingsError, match=message):
        lyapunov(source, [0], **{"span": 2, **options})
