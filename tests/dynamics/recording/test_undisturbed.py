"""Recording changes no bit of a training, and what it records is what was true when
`step` was called: random combinations of options, optimizers and layers."""

import contextlib
import functools
import random
import warnings

import numpy as np
import pytest
import torch
from hypothesis import HealthCheck, Phase, given, settings
from hypothesis import strategies as st
from numpy.testing import assert_allclose, assert_array_equal
from torch.nn.utils.prune import l1_unstructured

import dynamics
from analysis import embedding_speed
from analysis.linearization import SpectrumOptions, model_curvature
from analysis.structures import on_normalised_time
from dynamics.recording import model_recorder

INPUTS = torch.linspace(-2, 2, 48).reshape(12, 4).sin()
TARGETS = INPUTS.prod(1, keepdim=True)
UPDATES = 7


class TwoSteps(torch.optim.Optimizer):
    """Sharpness-aware minimisation: an ascent, then a step of another optimizer with
    the gradient that is found there."""

    def __init__(self, parameters, lr):
        super().__init__(parameters, {"lr": lr})
        self.base_optimizer = torch.optim.SGD(self.param_groups, lr=lr, momentum=0.5)
        self.param_groups = self.base_optimizer.param_groups

    @torch.no_grad()
    def first_step(self):
        for parameter in self.param_groups[0]["params"]:
            self.state[parameter]["old"] = parameter.data.clone()
            parameter.add_(parameter.grad, alpha=0.05)

    @torch.no_grad()
    def second_step(self):
        for parameter in self.param_groups[0]["params"]:
            parameter.data = self.state[parameter]["old"]
        self.base_optimizer.step()


class CountingInGroups(torch.optim.Optimizer):
    """Adam that counts its steps in its groups, has other names for its moments, and
    writes to `.data`."""

    def __init__(self, parameters, lr):
        defaults = {"lr": lr, "betas": (0.9, 0.99), "eps": 1e-8, "k": 0}
        super().__init__(parameters, defaults)

    @torch.no_grad()
    def step(self, closure=None):
        for group in self.param_groups:
            group["k"] += 1
            first, second = group["betas"]
            for parameter in group["params"]:
                state, gradient = self.state[parameter], parameter.grad
                for name in ("m", "v"):
                    state.setdefault(name, torch.zeros_like(parameter))
                state["m"].lerp_(gradient, 1 - first)
                state["v"].lerp_(gradient.square(), 1 - second)
                change = state["m"] / (state["v"].sqrt() + group["eps"])
                parameter.data.sub_(group["lr"] * change)


def _muon(parameters):
    parameters = list(parameters)
    matrices = [item for item in parameters if item.ndim == 2]
    others = [item for item in parameters if item.ndim != 2]
    return [torch.optim.Muon(matrices, lr=0.01), torch.optim.Adam(others, lr=0.01)]


OPTIMIZERS = {
    "SGD": lambda items: torch.optim.SGD(items, lr=0.05, momentum=0.9),
    "Adam": lambda items: torch.optim.Adam(items, lr=0.01, amsgrad=True),
    "AdamW fused": lambda items: torch.optim.AdamW(items, lr=0.01, fused=True),
    "AdamW foreach": lambda items: torch.optim.AdamW(items, lr=0.01, foreach=True),
    "Adamax": lambda items: torch.optim.Adamax(items, lr=0.01),
    "LBFGS": lambda items: torch.optim.LBFGS(items, lr=0.1, max_iter=3),
    "Muon": _muon,
    "two steps": lambda items: TwoSteps(items, lr=0.05),
    "counting in groups": lambda items: CountingInGroups(items, lr=0.01),
    "in groups": lambda items: torch.optim.SGD(
        [{"params": [item], "lr": 0.01 * (k + 1)} for k, item in enumerate(items)]
    ),
}
WITH_MOMENTS = {"Adam", "AdamW fused", "AdamW foreach", "counting in groups"}


def new_model(layers):
    """Two linear layers with what is named between them."""
    torch.manual_seed(5)
    first, last = torch.nn.Linear(4, 6), torch.nn.Linear(6, 1)
    if "weight norm" in layers:
        first = torch.nn.utils.parametrizations.weight_norm(first)
    if "spectral norm" in layers:
        last = torch.nn.utils.parametrizations.spectral_norm(last)
    between = [torch.nn.Tanh()]
    if "batch norm" in layers:
        between.insert(0, torch.nn.BatchNorm1d(6))
    if "dropout" in layers:
        between.append(torch.nn.Dropout(0.3))
    middle = torch.nn.Sequential(*between)
    if "compiled" in layers:  # the wrapper, without the time of the compiler
        middle = torch.compile(middle, backend="eager", disable=True)
    return torch.nn.Sequential(first, middle, last)


def loss_of(model):
    return ((model(INPUTS) - TARGETS) ** 2).mean()


class Loop:
    """A training loop that keeps what its optimizers do, in float64."""

    def __init__(self, optimizer, layers):
        torch.manual_seed(9)
        random.seed(9)
        self.model = new_model(layers)
        self.optimizers = OPTIMIZERS[optimizer](self.model.parameters())
        if not isinstance(self.optimizers, list):
            self.optimizers = [self.optimizers]
        self.seen = {}

    def closure(self):
        for one in self.optimizers:
            one.zero_grad()
        loss = loss_of(self.model)
        loss.backward()
        return loss

    def update(self):
        """One update; the loss."""
        loss = (
            None
            if isinstance(self.optimizers[0], torch.optim.LBFGS)
            else self.closure()
        )
        if isinstance(self.optimizers[0], TwoSteps):
            self.optimizers[0].first_step()
            self.closure()
            before = [
                self.optimizers[0].state[p]["old"].clone() for p in self.parameters
            ]
            self.optimizers[0].second_step()
        else:
            before = [item.detach().clone() for item in self.parameters]
            for one in self.optimizers:
                loss = one.step(self.closure) if loss is None else (one.step(), loss)[1]
        moved = [
            (item.detach().double() - old.double()).norm().item()
            for item, old in zip(self.parameters, before, strict=True)
        ]
        used = [item.grad.double().norm().item() for item in self.parameters]
        return loss, used, moved

    @property
    def parameters(self):
        return list(self.model.parameters())

    def run(self, recording=None):
        for update in range(1, UPDATES + 1):
            loss, used, moved = self.update()
            weights = {
                name: tensor.detach().clone()
                for name, tensor in self.model.state_dict().items()
            }
            self.seen[update] = used, moved, loss.item(), weights
            if recording is not None:
                recording.step(loss=loss, accuracy=lambda: torch.rand(()).item())
        return self.model.state_dict(), torch.rand(3), random.random()


def disturb(model):
    """What a careless function of a user does to a training."""
    with torch.enable_grad():
        loss_of(model).backward()
    torch.optim.SGD(model.parameters(), lr=3.0).step()
    model.half()
    model.double()
    model.float()
    model.eval()
    torch.set_default_dtype(torch.float64)
    torch.set_grad_enabled(True)
    model.requires_grad_(False)
    random.random()
    torch.rand(3)
    model.train()
    model(INPUTS.float())
    with torch.no_grad():
        for item in model.parameters():
            item.mul_(2.0)
            item.grad = torch.ones_like(item)


def measure(model):
    model.requires_grad_(True)
    with torch.enable_grad():
        loss_of(model).backward()
    disturb(model)
    return {"loss": {"test": float("nan")}, "noise": random.random()}


def hidden(model):
    result = model[0](INPUTS)
    disturb(model)
    return result


OPTIONS = st.fixed_dictionaries(
    {"every": st.sampled_from([1, 3, 4])},
    optional={
        "weights": st.just(True),
        "evaluate": st.just(measure),
        "variables": st.just({"hidden": hidden, "bias": "0.bias"}),
        "probe": st.just(INPUTS),
        "layers": st.just({"first": "0.*", "rest": "[12].*"}),
        "moments": st.just(True),
    },
)
LAYERS = st.sets(
    st.sampled_from(
        ["weight norm", "spectral norm", "batch norm", "dropout", "compiled"]
    )
)


def random_trainings(count):
    """A decorator of a test of this many random trainings."""
    choose = given(
        optimizer=st.sampled_from(sorted(OPTIMIZERS)), layers=LAYERS, options=OPTIONS
    )
    limits = settings(
        max_examples=count,
        deadline=None,
        phases=[Phase.explicit, Phase.reuse, Phase.generate],
        suppress_health_check=[
            HealthCheck.function_scoped_fixture,
            HealthCheck.too_slow,
        ],
    )
    return lambda test: limits(choose(test))


@random_trainings(10)
def test_a_recorded_training_has_the_bits_of_a_plain_one(
    tmp_path, optimizer, layers, options
):
    check_training(tmp_path, optimizer, layers, options)


@pytest.mark.slow
@random_trainings(200)
def test_many_recorded_trainings_have_the_bits_of_plain_ones(
    tmp_path, optimizer, layers, options
):
    check_training(tmp_path, optimizer, layers, options)


def check_training(tmp_path, optimizer, layers, options):
    """Compare a recorded training with a plain one, and the file with its own loop."""
    if "moments" in options and optimizer not in WITH_MOMENTS:
        del options["moments"]
    if "probe" in options:
        options["activations"] = {"out": "2"}
    plain = Loop(optimizer, layers).run()
    loop, path = Loop(optimizer, layers), tmp_path / "m.nc"
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        with dynamics.record(
            loop.model, loop.optimizers, path, overwrite=True, seed=0, **options
        ) as recording:
            recorded = loop.run(recording)
    for name, tensor in plain[0].items():
        assert torch.equal(recorded[0][name], tensor), name
    assert torch.equal(recorded[1], plain[1])
    assert recorded[2] == plain[2]
    assert torch.get_default_dtype() == torch.float32
    check_frames(path, loop, options)


def check_frames(path, loop, options):
    """Compare a recording with what the loop has kept."""
    with dynamics.open_trajectory(path) as trajectory:
        every = options["every"]
        steps = sorted({*range(0, UPDATES + 1, every), UPDATES})
        assert trajectory["step"].values.tolist() == steps
        assert trajectory["status"].values == [1]
        names = [n.replace("_orig_mod.", "") for n, _ in loop.model.named_parameters()]
        in_layer = [
            trajectory["layer"]
            .values.tolist()
            .index(
                name
                if "layers" not in options
                else "first"
                if name[0] == "0"
                else "rest"
            )
            for name in names
        ]
        for step in steps[1:]:
            used, moved, loss, weights = loop.seen[step]
            frame = trajectory.sel(step=step).isel(run=0)
            for name, norms in (("gradient_norm", used), ("update_norm", moved)):
                expected = np.sqrt(np.bincount(in_layer, np.square(norms)))
                assert_allclose(frame[name], expected, rtol=2e-5, atol=1e-9)
            assert_allclose(frame["loss"].sel(split="train"), loss, rtol=1e-6)
            for name, values in weights.items():
                for kind in ("parameter", "buffer"):
                    variable = f"{kind}.{name.replace('_orig_mod.', '')}"
                    if variable in frame:
                        assert_array_equal(frame[variable], values)
        if "weights" in options:
            assert {f"parameter.{name}" for name in names} <= set(trajectory.data_vars)


# ------------------------------------------- what changes between and after the updates


def plain_loop(model, optimizer, updates, recording, before=lambda update: None):
    """A loop whose optimizer is what `before` returns, if it returns one."""
    for update in range(updates):
        optimizer = before(update) or optimizer
        loss = loss_of(model)
        model.zero_grad()
        loss.backward()
        optimizer.step()
        recording.step(loss=loss)


def sgd(model):
    return torch.optim.SGD(model.parameters(), lr=0.05)


@pytest.mark.parametrize(
    "write",
    [
        lambda model, best: model.load_state_dict(best),
        lambda model, best: [p.data.mul_(0.5) for p in model.parameters()],
        lambda model, best: setattr(model[2].bias, "data", torch.ones(1)),
        lambda model, best: setattr(model, "2", torch.nn.Linear(6, 1)),
        lambda model, best: model[1][0].reset_running_stats(),
    ],
)
@pytest.mark.parametrize(("every", "in_parts"), [(1, False), (1, True), (4, False)])
def test_weights_that_are_written_after_the_last_call_are_not_its_frame(
    tmp_path, monkeypatch, write, every, in_parts
):
    if in_parts:
        monkeypatch.setattr(model_recorder, "FIRST_PART_SECONDS", 0.0)
    model, path = new_model({"batch norm"}), tmp_path / "m.nc"
    best = {name: tensor.clone() for name, tensor in model.state_dict().items()}
    expected = (
        contextlib.nullcontext()
        if every == 1
        else pytest.warns(
            RuntimeWarning, match="something else has written to the model"
        )
    )
    options = {"every": every, "weights": True}
    with expected, dynamics.record(model, sgd(model), path, **options) as recording:
        plain_loop(model, recording.optimizer, 6, recording)
        bias = model[2].bias.item()
        write(model, best)
    trajectory = dynamics.open_trajectory(path)
    assert trajectory["step"].values[-1] == (6 if every == 1 else 4)
    assert trajectory["status"].values == [1 if every == 1 else 0]
    if every == 1:
        assert trajectory["parameter.2.bias"].values[0, -1] == np.float32(bias)
    with (
        pytest.raises(dynamics.RecordingError, match="no restart state at its end"),
        dynamics.record(
            model, sgd(model), path, seed=int(trajectory["seed"][0]), **options
        ) as again,
    ):
        again.restore()


@pytest.mark.parametrize("how", ["seen", "set"])
def test_an_optimizer_that_is_built_again_is_followed(tmp_path, how):
    model, path = new_model(set()), tmp_path / "m.nc"
    optimizer = torch.optim.Adam(model.parameters(), lr=0.01)

    def replace(update):
        if update != 4:
            return None
        new = torch.optim.SGD(model.parameters(), lr=0.5)
        if how == "set":
            recording.optimizer = new
        return new

    with dynamics.record(model, optimizer, path, weights=True) as recording:
        plain_loop(model, optimizer, 8, recording, replace)
    trajectory = dynamics.open_trajectory(path).isel(run=0)
    assert trajectory["status"] == 1
    assert_array_equal(trajectory["parameter.2.bias"][-1], model[2].bias.detach())
    assert_allclose(trajectory["learning_rate"], [0.01] * 5 + [0.5] * 4)
    assert_allclose(trajectory["time"][-1], 4 * 0.01 + 4 * 0.5)
    ratio = trajectory["update_norm"][5:] / trajectory["gradient_norm"][5:]
    assert_allclose(ratio, 0.5, rtol=1e-4)


def test_updates_before_an_optimizer_is_built_again_are_not_in_its_norm(tmp_path):
    model, path = new_model(set()), tmp_path / "m.nc"
    optimizer = torch.optim.Adam(model.parameters(), lr=0.5)

    def replace(update):
        return torch.optim.SGD(model.parameters(), lr=0.5) if update == 3 else None

    with dynamics.record(model, optimizer, path, every=4) as recording:
        plain_loop(model, optimizer, 8, recording, replace)
    norms = dynamics.open_trajectory(path).isel(run=0)
    ratio = norms["update_norm"][1:] / norms["gradient_norm"][1:]
    assert_allclose(ratio, 0.5, rtol=1e-4)


def unfreeze(model):
    model[0].requires_grad_(True)
    return sgd(model)


def deepen(model):
    model.append(torch.nn.Linear(1, 1))
    return sgd(model)


def widen(model):
    model[2] = torch.nn.Linear(6, 2)
    return sgd(model)


def update_by_hand(model):
    with torch.no_grad():
        for item in model.parameters():
            item.mul_(0.9)
    return torch.optim.SGD([torch.nn.Parameter(torch.zeros(1))])


@pytest.mark.parametrize(
    ("change", "message", "last"),
    [
        (unfreeze, "the norms of 2 parameters that are trained since step 5", 8),
        (deepen, "the values of 2 parameters that the model has since step 5", 8),
        (
            widen,
            "no frame is recorded after step 4: parameter.2.weight has the shape",
            4,
        ),
        (update_by_hand, "weights have changed since step 4, but no update", 4),
    ],
)
def test_what_cannot_be_followed_is_said_at_the_next_call(
    tmp_path, change, message, last
):
    model, path, said = new_model(set()), tmp_path / "m.nc", []
    if change is unfreeze:
        model[0].requires_grad_(False)
    optimizer = torch.optim.SGD(
        [item for item in model.parameters() if item.requires_grad], lr=0.05
    )

    def before(update):
        said.append(len(seen))
        return change(model) if update == 4 else None

    with warnings.catch_warnings(record=True) as seen:
        warnings.simplefilter("always")
        with dynamics.record(model, optimizer, path, weights=True) as recording:
            plain_loop(model, optimizer, 8, recording, before)
    assert said == [0] * 5 + [1] * 3
    assert message in str(seen[0].message)
    assert "\n" not in str(seen[0].message)
    trajectory = dynamics.open_trajectory(path)
    assert trajectory["step"].values.tolist() == list(range(last + 1))
    assert trajectory["status"].values == [0]
    assert message in trajectory.attrs["not_followed"]


def test_the_loss_is_refused_where_parameters_are_missing(tmp_path):
    model, path = torch.nn.Sequential(torch.nn.Linear(3, 3)), tmp_path / "m.nc"
    optimizer = torch.optim.SGD(model.parameters(), lr=0.05)
    inputs = torch.ones(4, 3)
    with (
        warnings.catch_warnings(),
        dynamics.record(model, optimizer, path, weights=True) as recording,
    ):
        warnings.simplefilter("ignore")
        for update in range(6):
            if update == 3:
                model.append(torch.nn.Linear(3, 3))
                optimizer.add_param_group({"params": [*model[1].parameters()]})
            optimizer.zero_grad()
            model(inputs).square().mean().backward()
            optimizer.step()
            recording.step()
    trajectory = dynamics.open_trajectory(path)

    def loss(parameters, batch):
        weights = {**dict(model.named_parameters()), **parameters}
        weights = {name: weights[name].to(batch) for name in weights}
        return torch.func.functional_call(model, weights, (batch,)).square().mean()

    model_loss = dynamics.ModelLoss(loss, lambda: [inputs])
    curvature = functools.partial(model_curvature, trajectory, model_loss, quiet=True)
    assert np.isfinite(curvature([3], SpectrumOptions(1))["sharpness"]).all()
    with pytest.raises(
        dynamics.TrajectoryError, match="step: found 4, allowed is less"
    ):
        curvature([3, 4], SpectrumOptions(1))


def test_weights_that_are_pruned_are_recorded_as_the_model_uses_them(tmp_path):
    model, path = new_model(set()), tmp_path / "m.nc"

    def prune(update):
        if update == 3:
            l1_unstructured(model[0], "weight", 0.5)

    optimizer = sgd(model)
    with dynamics.record(model, optimizer, path, weights=True) as recording:
        plain_loop(model, optimizer, 6, recording, prune)
    values = dynamics.open_trajectory(path)["parameter.0.weight"][0]
    assert_array_equal(values[-1], model[0].weight.detach())
    assert (np.count_nonzero(values == 0, axis=(1, 2)) == [0] * 4 + [12] * 3).all()


def test_second_moments_of_pruned_weights_are_those_of_the_optimizer(tmp_path):
    model, path = new_model(set()), tmp_path / "m.nc"

    def prune(update):
        if update == 3:
            l1_unstructured(model[0], "weight", 0.5)

    optimizer = torch.optim.Adam(model.parameters(), lr=0.01, betas=(0.9, 0.5))
    with dynamics.record(model, optimizer, path, moments=True) as recording:
        plain_loop(model, optimizer, 6, recording, prune)
    trajectory = dynamics.open_trajectory(path)
    assert trajectory["status"] == [1]
    moment = optimizer.state[model[0].weight_orig]["exp_avg_sq"] / (1 - 0.5**6)
    assert_allclose(trajectory["second_moment.0.weight"][0, -1], moment, rtol=1e-6)


@pytest.mark.parametrize("options", [{"moments": True}, {"weights": True}])
def test_a_module_that_is_removed_ends_the_recording_alone(tmp_path, options):
    model, path = new_model(set()), tmp_path / "m.nc"
    model.append(torch.nn.Linear(1, 1))
    optimizer = torch.optim.Adam(model.parameters(), lr=0.01)

    def remove(update):
        if update == 3:
            del model[3]

    with (
        pytest.warns(RuntimeWarning, match="no frame is recorded after step 3"),
        dynamics.record(model, optimizer, path, **options) as recording,
    ):
        plain_loop(model, optimizer, 6, recording, remove)
    assert dynamics.open_trajectory(path)["step"].values.tolist() == [0, 1, 2, 3]


def test_a_head_that_is_initialised_again_is_followed(tmp_path):
    model, path = new_model(set()), tmp_path / "m.nc"

    def replace(update):
        if update != 3:
            return None
        model[2] = torch.nn.Linear(6, 1)
        return sgd(model)

    with dynamics.record(model, sgd(model), path, weights=True, every=2) as recording:
        plain_loop(model, recording.optimizer, 6, recording, replace)
    last = dynamics.open_trajectory(path).isel(run=0, step=-1)
    assert last["status"] == 1
    assert_array_equal(last["parameter.2.weight"], model[2].weight.detach())
    norm = last["gradient_norm"].sel(layer="2.weight")
    assert_allclose(norm, model[2].weight.grad.norm().item(), rtol=1e-6)


@pytest.mark.parametrize(
    "kind", [torch.optim.SGD, torch.optim.Adamax, torch.optim.RMSprop, torch.optim.Muon]
)
def test_optimizers_without_second_moments_are_refused_at_record(tmp_path, kind):
    model = torch.nn.Linear(4, 3, bias=False)
    before = model.weight.detach().clone()
    optimizer = kind(model.parameters(), lr=0.1)
    with pytest.raises(dynamics.SettingsError, match=f"moments: found {kind.__name__}"):
        dynamics.record(model, optimizer, tmp_path / "m.nc", moments=True)
    assert torch.equal(model.weight, before)
    assert not optimizer.state


@pytest.mark.parametrize("optimizer", sorted(WITH_MOMENTS))
def test_second_moments_are_those_of_the_recurrence(tmp_path, optimizer):
    loop = Loop(optimizer, set())
    (one,) = loop.optimizers
    beta = one.param_groups[0]["betas"][1]
    moment, largest = torch.zeros(6, 4, dtype=torch.float64), 0.0
    with dynamics.record(loop.model, one, tmp_path / "m.nc", moments=True) as recording:
        for _ in range(UPDATES):
            loop.update()
            moment = (
                beta * moment + (1 - beta) * loop.model[0].weight.grad.double() ** 2
            )
            largest = torch.maximum(moment, torch.as_tensor(largest))
            recording.step()
    used = largest if optimizer == "Adam" else moment  # AMSGrad
    last = dynamics.open_trajectory(tmp_path / "m.nc").isel(run=0, step=-1)
    expected = used / (1 - beta**UPDATES)
    assert_allclose(last["second_moment.0.weight"], expected, rtol=1e-5)


class WithoutRate(torch.optim.Optimizer):
    """Takes steps of a fixed size."""

    def __init__(self, parameters):
        super().__init__(parameters, {})

    @torch.no_grad()
    def step(self, closure=None):
        for parameter in self.param_groups[0]["params"]:
            parameter.sub_(0.01 * parameter.grad.sign())


@pytest.mark.parametrize(
    ("new_optimizer", "times"),
    [
        (lambda items: WithoutRate(items), [0, 1, 2, 3, 4]),
        (lambda items: torch.optim.SGD(items, lr=0.0), [0, 1, 2, 3, 4]),
        (
            lambda items: torch.optim.SGD(items, lr=torch.tensor(0.5)),
            [0, 0.5, 1, 1.5, 2],
        ),
    ],
)
def test_time_passes_without_a_learning_rate(tmp_path, new_optimizer, times):
    model = new_model(set())
    optimizer = new_optimizer(model.parameters())
    with dynamics.record(model, optimizer, tmp_path / "m.nc") as recording:
        plain_loop(model, optimizer, 4, recording)
    trajectory = dynamics.open_trajectory(tmp_path / "m.nc")
    assert trajectory["time"].values.tolist() == times


def test_a_warm_up_from_zero_can_be_analysed(tmp_path):
    """Speeds of frames between which no time passes are left out."""
    model, path = new_model(set()), tmp_path / "m.nc"
    optimizer = sgd(model)
    scheduler = torch.optim.lr_scheduler.LambdaLR(optimizer, lambda update: update / 4)
    with dynamics.record(model, optimizer, path, embedding="0.weight") as recording:
        plain_loop(
            model, optimizer, 8, recording, lambda update: update and scheduler.step()
        )
    trajectory = dynamics.open_trajectory(path)
    used = 0.05 * np.arange(8) / 4
    assert_allclose(trajectory["time"], np.concatenate([[0], np.cumsum(used)]))
    speed = embedding_speed(trajectory)[0]
    assert np.isnan(speed.values).tolist() == [True] * 2 + [False] * 7
    assert np.isfinite(on_normalised_time(speed.expand_dims("run"))[0, 50:]).all()


@pytest.mark.parametrize("dtype", [torch.float16, torch.bfloat16, torch.float64])
def test_norms_of_updates_are_those_of_the_exact_differences(dtype):
    torch.manual_seed(0)
    model = torch.nn.Linear(40, 30).to(dtype)
    optimizer = torch.optim.SGD(model.parameters(), lr=0.7)
    inputs = torch.randn(8, 40).to(dtype)
    expected = []
    with dynamics.record(model, optimizer, "half.nc") as recording:
        for _ in range(3):
            before = [item.detach().double().clone() for item in model.parameters()]
            optimizer.zero_grad()
            loss = model(inputs).square().mean()
            loss.backward()
            optimizer.step()
            recording.step(loss=loss)
            after = [item.detach().double() for item in model.parameters()]
            moved = zip(after, before, strict=True)
            expected.append([float((new - old).norm()) for new, old in moved])
    norms = dynamics.open_trajectory("half.nc")["update_norm"].values[0, 1:]
    assert_allclose(norms, expected, rtol=1e-6)
