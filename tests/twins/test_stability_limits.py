"""Limits of stability against torch's own optimizers on quadratic losses."""

import numpy as np
import pytest
import torch
from hypothesis import assume, given, settings
from hypothesis import strategies as st

import dynamics
from analysis import linearization, loss_geometry
from analysis.linearization import SpectrumOptions
from dynamics import ModelFile, ModelLoss, ModularSettings, ParticleSettings
from dynamics.optimizers import stability_limit
from tests.twins.differences import examples

UPDATES = 3000
BIG = 1e3
"""How much larger weights are than at the beginning if updates are unstable."""

rates = st.floats(0.01, 1)
momenta = st.sampled_from([0.0, 0.3, 0.9]) | st.floats(0.05, 0.95)
decays = st.just(0.0) | st.floats(0.01, 0.5)
sides = st.sampled_from([0.97, 1.03])


def grows(optimizer, gradient, weights):
    """Whether the optimizer moves the weights away from the minimum at 0."""
    size = float(weights.detach().norm())
    for _ in range(UPDATES):
        weights.grad = gradient(weights.detach())
        optimizer.step()
        if float(weights.detach().norm()) > BIG * size:
            return True
    return False


@settings(max_examples=examples(20))
@given(
    rates,
    momenta,
    st.sampled_from(["plain", "nesterov", "dampening"]),
    st.floats(0, 0.9),
    decays,
    sides,
)
def test_gradient_descent(lr, momentum, kind, dampening, decay, side):
    assume(kind != "nesterov" or momentum > 0)
    weights = torch.nn.Parameter(torch.ones(1, dtype=torch.float64))
    options = {"nesterov": kind == "nesterov"}
    options["dampening"] = dampening if kind == "dampening" else 0.0
    limit = stability_limit(lr, momentum, **options)
    curvature = side * limit - decay
    optimizer = torch.optim.SGD(
        [weights], lr=lr, momentum=momentum, weight_decay=decay, **options
    )
    assert grows(optimizer, lambda w: curvature * w, weights) == (side > 1)


@settings(max_examples=examples(20))
@given(rates, momenta, decays, st.booleans(), st.floats(0.1, 10), sides)
def test_adam_whose_preconditioner_does_not_change(
    lr, beta1, decay, decoupled, root, side
):
    weights = torch.nn.Parameter(torch.full([1], 1e-3, dtype=torch.float64))
    kind = torch.optim.AdamW if decoupled else torch.optim.Adam
    betas = (beta1, 1 - 1e-12)
    optimizer = kind([weights], lr=lr, betas=betas, eps=0.5, weight_decay=decay)
    optimizer.state[weights] = {
        "step": torch.tensor(1e14),
        "exp_avg": torch.zeros_like(weights.data),
        "exp_avg_sq": torch.full_like(weights.data, root**2),
    }
    decoupled_decay = decay if decoupled else 0.0
    limit = stability_limit(lr, beta1, dampening=beta1, decoupled_decay=decoupled_decay)
    curvature = side * limit * (root + 0.5) - (0.0 if decoupled else decay)
    assert grows(optimizer, lambda w: curvature * w, weights) == (side > 1)


class Pairs(torch.nn.Module):
    """Weights in two groups."""

    def __init__(self):
        super().__init__()
        self.a = torch.nn.Parameter(torch.ones(2, dtype=torch.float64))
        self.b = torch.nn.Parameter(torch.ones(2, dtype=torch.float64))


groups = st.fixed_dictionaries(
    {
        "lr": rates,
        "momentum": momenta,
        "weight_decay": decays,
        "kind": st.sampled_from(["plain", "nesterov", "dampening"]),
    }
)


def group_of(numbers, weights):
    kind = numbers["kind"] if numbers["momentum"] else "plain"
    return {
        **{name: value for name, value in numbers.items() if name != "kind"},
        "nesterov": kind == "nesterov",
        "dampening": 0.4 if kind == "dampening" else 0.0,
        "params": [weights],
    }


def test_recorded_groups_of_different_numbers(tmp_path):
    """The fraction of the limit in the tables is above 1 if torch's optimizer, with other
    numbers for each group, diverges with this Hessian."""
    path = tmp_path / "pairs.nc"
    sides_seen = []

    @settings(max_examples=examples(10), deadline=None)
    @given(groups, groups, st.integers(0, 99), st.floats(0.3, 3), st.booleans())
    def check(first, second, seed, size, same_numbers):
        if same_numbers:
            second = first
        generator = np.random.default_rng(seed)
        factor = generator.standard_normal((4, 4))
        limits = [one["lr"] / 2 / (1 + one["momentum"]) for one in (first, second)]
        hessian = size * factor @ factor.T
        hessian /= np.linalg.eigvalsh(hessian)[-1] * max(limits)
        matrix = torch.from_numpy(hessian)

        def loss(parameters, batch):
            w = torch.cat([parameters["a"], parameters["b"]])
            return w @ batch @ w / 2

        model = Pairs()
        given_groups = [group_of(first, model.a), group_of(second, model.b)]
        optimizer = torch.optim.SGD(given_groups, lr=1.0)
        options = {"weights": True, "overwrite": True}
        with dynamics.record(model, optimizer, path, **options) as recording:
            loss(dict(model.named_parameters()), matrix).backward()
            optimizer.step()
            recording.step()
        with dynamics.open_trajectory(path) as opened:
            trajectory = opened.load()
        functions = ModelFile(loss=loss, batches=lambda: [matrix])
        edge = loss_geometry.edge_of_stability(trajectory, [1], functions)
        found = linearization.model_curvature(
            trajectory,
            ModelLoss(loss, lambda: [matrix]),
            [1],
            SpectrumOptions(eigenvalues=1),
            quiet=True,
        )
        fraction = edge["relative_sharpness"].item()
        assert found["relative_sharpness"].item() == pytest.approx(fraction, rel=1e-3)
        if same_numbers:
            above = found["sharpness"].item() > found["limit"].item()
            assert above == (fraction > 1)
        assume(abs(fraction - 1) > 0.02)
        sides_seen.append(fraction > 1)
        weights = torch.ones(4, dtype=torch.float64)
        with torch.no_grad():
            model.a.copy_(weights[:2])
            model.b.copy_(weights[2:])
        optimizer = torch.optim.SGD(optimizer.param_groups, lr=1.0)
        diverges = False
        for _ in range(UPDATES):
            w = torch.cat([model.a.detach(), model.b.detach()])
            diverges = float(w.norm()) > BIG * 2
            if diverges:
                break
            model.a.grad, model.b.grad = (matrix @ w).split(2)
            optimizer.step()
        assert diverges == (fraction > 1)

    check()
    assert set(sides_seen) == {False, True}


@pytest.mark.parametrize("system", ["modular", "particles"])
def test_curvature_counts_runs_above_the_limit(system):
    """Of networks with momentum and weight decay, and with a schedule of the rate."""
    plain = {"n": 5, "hidden": 3, "optimizer": "sgd"}
    if system == "particles":
        trajectory = dynamics.simulate(ParticleSettings(n=5), runs=2, steps=4, every=2)
        limits = np.full(3, 2 / dynamics.read_settings(trajectory).time_step)
    else:
        trained = ModularSettings(
            **plain, lr=0.5, momentum=0.6, weight_decay=0.25, schedule="warmup:4"
        )
        trajectory = dynamics.simulate(trained, runs=2, steps=4, every=2)
        lr = 0.5 * np.array([1, 3, 4]) / 4
        limits = 2 * 1.6 / lr - 0.25
    result = linearization.linearize_trajectory(trajectory, [0, 1, 2], quiet=True)
    for run in range(2):
        np.testing.assert_allclose(result["limit"].values[run], limits)
    decay = 0.25 if system == "modular" else 0.0
    expected = (result["sharpness"] + decay) / (limits + decay)
    np.testing.assert_allclose(result["relative_sharpness"], expected)
    table = linearization.tabulate_curvature(result)
    above = (result["sharpness"].values > limits).mean(axis=0)
    assert table["above_threshold"].tolist() == above.tolist()
