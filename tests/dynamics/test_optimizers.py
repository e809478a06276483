"""Optimizers as values: against torch.optim, on every backend, and registered ones."""

import dataclasses
import importlib
import types

import numpy as np
import pytest
import torch
from numpy.testing import assert_allclose, assert_array_equal

from dynamics import (
    ModularSettings,
    SettingsError,
    SparseSettings,
    TrajectoryError,
    TransformerSettings,
    open_trajectory,
    read_settings,
    simulate,
)
from dynamics.kernels.optimizers import optimizer_update
from dynamics.networks.clustering_head import ClusteringHead
from dynamics.networks.constant_attention import ConstantAttention
from dynamics.networks.transformer_network import Transformer
from dynamics.optimizers import (
    ADAM,
    ADAM_PRECONDITIONER,
    BUILT_IN,
    Optimizer,
    absolute,
    maximum,
    minimum,
    multiply_add,
    register_optimizer,
    sign,
    square_root,
    update_numbers,
)
from dynamics.own_functions import frozen_copy
from dynamics.training.backends import torch_optimizer
from dynamics.training.modular_backends import (
    ModularBlasBackend,
    ModularSimdBackend,
    ModularTorchBackend,
)
from dynamics.training.sparse_backends import SparseSimdBackend, SparseTorchBackend
from dynamics.training.transformer_backends import (
    TransformerCpuBackend,
    TransformerTorchBackend,
)


def simulated_backend(settings, runs):
    """The backend of blocks of threads on a CUDA device, in Numba's simulator."""
    from tests.dynamics.training.block_backends import block_backend

    return block_backend(settings, runs)


def lion(gradient, weight, mean, lr, weight_decay, beta1, beta2):
    """Lion (Chen et al. 2023, arXiv 2302.06675)."""
    direction = sign(beta1 * mean + (1 - beta1) * gradient)
    weight = weight - lr * (direction + weight_decay * weight)
    return weight, beta2 * mean + (1 - beta2) * gradient


def sign_descent(gradient, weight, lr):
    return weight - lr * sign(gradient)


def amsgrad(gradient, weight, mean, square, largest, lr, beta1, beta2, eps):
    """Three moments."""
    mean = beta1 * mean + (1 - beta1) * gradient
    square = beta2 * square + (1 - beta2) * gradient * gradient
    largest = maximum(largest, square)
    return weight - lr * mean / (square_root(largest) + eps), mean, square, largest


def clipped(gradient, weight, lr, step, bound=0.01):
    """All functions, the number of the update, and a constant."""
    moved = minimum(maximum(gradient, -bound), bound)
    size = absolute(gradient) / (absolute(gradient) + step)
    return multiply_add(moved * size, -lr, weight)


OWN = [
    register_optimizer(item)
    for item in (
        Optimizer("lion", lion, ("mean",)),
        Optimizer("sign_descent", sign_descent),
        Optimizer("amsgrad", amsgrad, ("mean", "square", "largest")),
        Optimizer("clipped", clipped),
    )
]
SMALL = ModularSettings(n=5, hidden=7, dim=3, train_share=0.7)
HEAD = SparseSettings(length=4, sparsity=2, data=20, batch=20, hidden=5)
TRANSFORMER = TransformerSettings(n=5, dim=8, heads=2, train_share=0.6)
BACKENDS = {
    "modular simd": lambda s: ModularSimdBackend(ConstantAttention(s), SEEDS),
    "modular blas": lambda s: ModularBlasBackend(ConstantAttention(s), SEEDS),
    "modular torch": lambda s: ModularTorchBackend(ConstantAttention(s), SEEDS, "cpu"),
    "modular blocks": lambda s: simulated_backend(s, 3),
    "sparse simd": lambda s: SparseSimdBackend(ClusteringHead(s), SEEDS),
    "sparse blocks": lambda s: simulated_backend(s, 3),
    "sparse torch": lambda s: SparseTorchBackend(ClusteringHead(s), SEEDS, "cpu"),
    "transformer blas": lambda s: TransformerCpuBackend(Transformer(s), SEEDS),
    "transformer torch": lambda s: TransformerTorchBackend(
        Transformer(s), SEEDS, "cpu"
    ),
}
SEEDS = np.arange(3)
SETTINGS = {"modular": SMALL, "sparse": HEAD, "transformer": TRANSFORMER}
NETWORKS = {
    "modular": ConstantAttention,
    "sparse": ClusteringHead,
    "transformer": Transformer,
}


# ---------------------------------------------------------------------------- torch.optim

CASES = [
    {"optimizer": "sgd", "lr": 0.1},
    {"optimizer": "sgd", "lr": 0.1, "weight_decay": 0.3},
    {"optimizer": "sgd", "lr": 0.03, "momentum": 0.9, "weight_decay": 0.1},
    {"optimizer": "adam"},
    {"optimizer": "adam", "weight_decay": 0.3, "beta1": 0.8, "beta2": 0.95},
    {"optimizer": "adamw", "eps": 1e-3},
    {"optimizer": "adamw", "weight_decay": 0.5, "lr": 0.02, "beta1": 0.0},
]


@pytest.mark.parametrize("case", CASES, ids=str)
@pytest.mark.parametrize("arrays", ["numpy", "torch"])
def test_updates_are_those_of_torch_in_float64(case, arrays):
    settings = ModularSettings(**{"weight_decay": 0.0, **case})
    weight = np.random.default_rng(0).standard_normal(30)
    parameter = torch.nn.Parameter(torch.from_numpy(weight.copy()))
    group = {"params": [parameter], "lr": settings.lr}
    group["weight_decay"] = settings.weight_decay
    theirs = torch_optimizer(settings, [group], graph=False)
    value = settings.optimizer_value
    moments = [np.zeros(30) for _ in value.moments]
    if arrays == "torch":
        weight, *moments = map(torch.from_numpy, (weight, *moments))
    for step in range(1, 51):
        gradient = 4 * weight - 1 / (1 + weight**2)
        numbers = update_numbers(settings.hyperparameters, step)
        weight, *moments = value.apply(gradient, weight, moments, numbers)
        with torch.no_grad():
            parameter.grad = 4 * parameter - 1 / (1 + parameter**2)
        theirs.step()
        assert_allclose(weight, parameter.detach(), rtol=1e-9, atol=1e-12)
    for name, moment in zip(value.moments, moments, strict=True):
        assert_allclose(moment, theirs.state[parameter][name], rtol=1e-9, atol=1e-12)


def test_every_built_in_optimizer_is_compared():
    assert {case["optimizer"] for case in CASES} == set(BUILT_IN)


# ------------------------------------------------------------------------------- backends


@pytest.mark.parametrize("name", [*BUILT_IN, *(item.name for item in OWN)])
@pytest.mark.parametrize("backend", BACKENDS)
def test_updates_of_backends_are_those_of_the_value(backend, name):
    kind = backend.split()[0]
    decay = 0.3 if name in ("lion", *BUILT_IN) else 0.0
    options = {"optimizer": name, "lr": 0.01, "weight_decay": decay}
    settings = dataclasses.replace(SETTINGS[kind], **options)
    network, engine = NETWORKS[kind](settings), BACKENDS[backend](settings)
    value = settings.optimizer_value
    rows = network.flatten(network.initial(SEEDS))
    zeros = {key: np.zeros_like(rows) for key in value.moments}
    engine.set_state(rows, zeros, 0)
    for step in range(4):
        before = engine.weights().astype(float)
        moments = engine.moments()
        engine.train(step, 1)
        numbers = update_numbers(settings.hyperparameters, step + 1)
        numbers["lr"] *= settings.learning_rate_factor(step)
        given = [moments[key].astype(float) for key in value.moments]
        gradient = engine.gradient().astype(float)
        weight, *expected = value.apply(gradient, before, given, numbers)
        compared = np.ones_like(gradient, bool)
        if name in ("lion", "sign_descent"):  # signs of numbers near 0 are rounded
            compared = np.abs(gradient) > 1e-7
        assert_allclose(
            engine.weights()[compared], weight[compared], rtol=3e-6, atol=1e-7
        )
        for key, moment in zip(value.moments, expected, strict=True):
            assert_allclose(engine.moments()[key], moment, rtol=1e-5, atol=1e-9)


def test_nan_stays_nan_in_functions_of_updates():
    optimizer = register_optimizer(Optimizer("sign_descent", sign_descent))
    settings = dataclasses.replace(SMALL, optimizer=optimizer.name, weight_decay=0.0)
    engine = ModularSimdBackend(ConstantAttention(settings), SEEDS)
    rows = np.full_like(engine.weights(), np.nan)
    engine.set_state(rows, {}, 0)
    engine.train(0, 1)
    assert np.isnan(engine.weights()).all()


# ----------------------------------------------------------------------------- from outside


def test_runs_of_an_own_optimizer_continue_and_are_identified(tmp_path, monkeypatch):
    settings = dataclasses.replace(SMALL, optimizer="lion", lr=0.003, beta2=0.99)
    whole = simulate(settings, runs=2, steps=30, progress=False)
    path = tmp_path / "lion.nc"
    simulate(settings, runs=2, steps=20, out=path, progress=False).close()
    longer = simulate(settings, runs=2, steps=30, out=path, progress=False)
    assert_array_equal(longer["embedding"].values, whole["embedding"].values)
    assert read_settings(longer) == settings
    assert settings.optimizer.startswith("lion@")
    longer.close()
    monkeypatch.setattr("dynamics.optimizers._OPTIMIZERS.registered", {})
    with pytest.raises(TrajectoryError, match="optimizer: found lion@"):
        open_trajectory(path)


def test_copies_belong_to_a_module_that_every_process_can_import():
    """Compiled code in the cache names it; a function of a notebook has none."""
    without = {**lion.__globals__, "__name__": None}
    copy = frozen_copy(types.FunctionType(lion.__code__, without, "lion"))
    assert importlib.import_module(copy.__module__)


def test_a_changed_update_is_another_optimizer():
    def update(gradient, weight, lr, factor=1.0):
        return weight - factor * lr * gradient

    register_optimizer(Optimizer("changed", update))
    first = ModularSettings(optimizer="changed", weight_decay=0.0)

    def update(gradient, weight, lr, factor=2.0):
        return weight - factor * lr * gradient

    register_optimizer(Optimizer("changed", update))
    second = ModularSettings(optimizer="changed", weight_decay=0.0)
    assert first.optimizer != second.optimizer
    update_one, update_two = (
        optimizer_update(item.optimizer_value) for item in (first, second)
    )
    assert update_one.__name__ != update_two.__name__


def unknown_name(gradient, weight, lr, rho):
    return weight - lr * rho * gradient


def too_few(gradient, weight, mean):
    return weight - gradient


def too_few_moments(gradient, weight, lr):
    return weight - lr * gradient


def of_numpy(gradient, weight, lr):
    return weight - lr * np.tanh(gradient)


def uses_a_helper(gradient, weight, lr):
    return weight - lr * of_numpy(gradient, weight, lr)


def branches(gradient, weight, lr):
    return weight - lr if gradient > 0 else weight + lr


def names_nothing(gradient, weight, lr):
    return weight - lr * learning_rate * gradient  # noqa: F821


@pytest.mark.parametrize(
    ("update", "moments", "message"),
    [
        (branches, (), "ValueError.*without branches"),
        (names_nothing, (), "NameError.*learning_rate"),
        (unknown_name, (), "the argument rho, allowed is a function of gradient"),
        (too_few, ("mean",), "allowed is.*the new weight, mean"),
        (lion, ("weights",), "moments of wrong: found weights"),
        (uses_a_helper, (), "refers to of_numpy, allowed is a function that refers"),
    ],
)
def test_a_wrong_update_is_refused_in_one_line(update, moments, message):
    with pytest.raises(SettingsError, match=message) as caught:
        register_optimizer(Optimizer("wrong", update, moments))
    assert "\n" not in str(caught.value)


@pytest.mark.parametrize(
    ("part", "function"),
    [
        ("second_moment", lambda v: v),
        ("scale", lambda second_moment, eps: None),
        ("limit", lambda lr: [2 / lr, lr]),
    ],
)
def test_a_wrong_preconditioner_is_refused_in_one_line(part, function):
    preconditioner = dataclasses.replace(ADAM_PRECONDITIONER, **{part: function})
    optimizer = dataclasses.replace(ADAM, name="wrong", preconditioner=preconditioner)
    with pytest.raises(SettingsError, match=f"{part} of the preconditioner of wrong"):
        register_optimizer(optimizer)


def test_a_wrong_limit_is_refused_in_one_line():
    optimizer = dataclasses.replace(ADAM, name="wrong", limit=lambda lr: -lr / 0)
    with pytest.raises(SettingsError, match="limit of wrong: found ZeroDivisionError"):
        register_optimizer(optimizer)


def test_a_changed_optimizer_is_named_as_such():
    register_optimizer(Optimizer("changes", too_few_moments))
    settings = dataclasses.replace(SMALL, optimizer="changes", weight_decay=0.0)
    digest = settings.optimizer.partition("@")[2]
    assert digest
    other = "0" * len(digest)
    with pytest.raises(SettingsError, match="changes whose source is as it was then"):
        dataclasses.replace(settings, optimizer=f"changes@{other}")


def test_an_update_that_cannot_be_compiled_is_refused_in_one_line():
    register_optimizer(Optimizer("of_numpy", of_numpy))
    settings = dataclasses.replace(SMALL, optimizer="of_numpy", weight_decay=0.0)
    with pytest.raises(SettingsError, match="optimizer: found of_numpy") as caught:
        simulate(settings, runs=1, steps=2, backend="simd")
    assert "\n" not in str(caught.value)


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"optimizer": "lamb"}, "optimizer: found lamb, allowed is one of sgd, adam"),
        (
            {"optimizer": "lion", "momentum": 0.5},
            "momentum: found 0.5.*optimizer is sgd",
        ),
        ({"optimizer": "sgd", "eps": 1e-3}, "eps: found 0.001.*is adam or adamw"),
        (
            {"optimizer": "amsgrad"},
            "weight_decay: found 0.6, allowed is none with amsgr",
        ),
        ({"eps": -1.0}, "eps: found -1.0"),
    ],
)
def test_settings_of_other_optimizers_are_refused(options, message):
    with pytest.raises(SettingsError, match=message):
        ModularSettings(**options)
