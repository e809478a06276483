"""The edge of stability against whole matrices."""

import functools

import numpy as np
import pytest
import torch

import dynamics
from analysis.linearization import training_model, training_objective
from analysis.linearization.optimizer_limits import with_moments
from analysis.loss_geometry import (
    ChainOptions,
    edge_of_stability,
    gradient_noise,
    learning_coefficients,
    spectral_density,
)
from dynamics import ModularSettings, SparseSettings
from dynamics.branching import open_source, states_at
from dynamics.networks.constant_attention import ConstantAttention
from dynamics.optimizers import (
    Optimizer,
    Preconditioner,
    register_optimizer,
    square_root,
)
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
        decay = settings.weight_decay if settings.optimizer == "adamw" else 0.0
        limit = (2 - settings.lr * decay) * 1.9 / (0.1 * settings.lr)
        assert at["relative_preconditioned"] == pytest.approx(scaled / limit, rel=1e-4)
    assert result["preconditioned_sharpness"].isel(step=0).isnull().all()


def test_gradient_descent_has_the_plain_limit_alone():
    settings = ModularSettings(n=5, hidden=6, optimizer="sgd", lr=0.1, weight_decay=0.0)
    trained = dynamics.simulate(settings, runs=1, steps=20)
    result = edge_of_stability(trained, [-1])
    assert result["relative_sharpness"].item() == pytest.approx(
        0.05 * result["sharpness"].item()
    )
    assert result["relative_preconditioned"].isnull().all()


def test_momentum_and_weight_decay_have_their_limit():
    settings = ModularSettings(
        n=5,
        hidden=6,
        optimizer="sgd",
        lr=0.1,
        momentum=0.9,
        weight_decay=0.5,
        decay_of=("embedding=0",),
    )
    trained = dynamics.simulate(settings, runs=1, steps=20)
    result = edge_of_stability(trained, [-1])
    model = training_model(trained, 0)
    last = trained.sizes["step"] - 1
    hessian = torch.func.hessian(model.losses(0, last)[0])(model.row(0, last)).numpy()
    decays = [0.0 if name == "embedding" else 0.5 for name in model.shapes]
    hessian += np.diag(np.repeat(decays, model.lengths))
    expected = np.linalg.eigvalsh(hessian)[-1] * 0.1 / (2 * 1.9)
    assert result["relative_sharpness"].item() == pytest.approx(expected, rel=1e-4)
    assert result.attrs["limit_formula"] == "2(1+β)/lr − w"
    assert "β = 0.9" in result.attrs["limit_note"]
    assert "w = 0 to 0.5" in result.attrs["limit_note"]


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


def rmsprop(gradient, weight, square, lr, beta2, eps):
    square = beta2 * square + (1 - beta2) * gradient * gradient
    return weight - lr * gradient / (square_root(square) + eps), square


def test_an_own_optimizer_has_its_preconditioner_and_its_limit():
    own = Preconditioner(
        lambda square: square,
        lambda second_moment, eps: square_root(second_moment) + eps,
        lambda lr: 2 / lr,
    )
    register_optimizer(Optimizer("own_rmsprop", rmsprop, ("square",), own))
    settings = ModularSettings(
        n=5,
        hidden=4,
        optimizer="own_rmsprop",
        weight_decay=0.0,
        eps=1e-3,
        schedule="warmup:20",
        lr_of=("hidden_weight=0.04",),
    )
    run = dynamics.simulate(settings, runs=1, steps=12, every=6, progress=False)
    measured = edge_of_stability(run, [1])["relative_preconditioned"].item()
    (state,) = states_at(open_source(run), np.array([0]), [6], [])
    p = np.sqrt(state.moments["square"][0].astype(float)) + 1e-3
    network = ConstantAttention(settings)
    rates = [settings.learning_rate_of(name) for name in network.variables]
    scale = np.sqrt(np.repeat(rates, network.lengths) * 7 / 20 / p)
    objective = training_objective(network, 0)
    row = torch.from_numpy(state.weights[0].astype(float))
    scaled = scale[:, None] * objective.hessian(row).numpy() * scale
    assert measured == pytest.approx(np.linalg.eigvalsh(scaled)[-1] / 2, rel=1e-4)
