"""Recording of models that are trained by loops of their own."""

import os
import random
import signal
import subprocess
import sys

import numpy as np
import pytest
import torch
import xarray as xr
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from numpy.testing import assert_allclose, assert_array_equal

import dynamics
from analysis.loss_geometry import edge_of_stability
from dynamics.errors import Interrupted, RecordingError, TrajectoryError
from dynamics.recording import model_recorder
from dynamics.settings import SettingsError

TOKENS = torch.arange(7)


class Tiny(torch.nn.Module):
    """Seven tokens in two dimensions, a hidden layer with dropout, seven classes."""

    def __init__(self) -> None:
        super().__init__()
        self.embed = torch.nn.Embedding(7, 2)
        self.hidden = torch.nn.Linear(2, 16)
        self.drop = torch.nn.Dropout(0.2)
        self.out = torch.nn.Linear(16, 7)

    def forward(self, tokens):
        return self.out(self.drop(torch.relu(self.hidden(self.embed(tokens)))))


def create_training(lr=0.01):
    """A model, its optimizer and a scheduler, from the same seed."""
    torch.manual_seed(3)
    np.random.seed(3)  # noqa: NPY002 - the global generator is part of the restart state
    random.seed(3)
    model = Tiny()
    optimizer = torch.optim.AdamW(model.parameters(), lr=lr)
    return model, optimizer, torch.optim.lr_scheduler.ExponentialLR(optimizer, 0.99)


def train_step(model, optimizer, scheduler=None):
    """One update on tokens that depend on all random generators; returns the loss."""
    keep = (
        (torch.rand(7) < 0.7)
        | torch.tensor(np.random.rand(7) < 0.1)  # noqa: NPY002
        | (torch.arange(7) == random.randrange(7))
    )
    loss = torch.nn.functional.cross_entropy(model(TOKENS[keep]), TOKENS[keep])
    optimizer.zero_grad()
    loss.backward()
    optimizer.step()
    if scheduler is not None:
        scheduler.step()
    return loss


def weights_of(model):
    """All weights as bytes."""
    return {name: value.numpy().tobytes() for name, value in model.state_dict().items()}


def plain_weights(updates):
    """The weights after a training that is not recorded."""
    training = create_training()
    for _ in range(updates):
        train_step(*training)
    return weights_of(training[0])


def record_training(
    path, updates, restore=False, nan_at=None, interrupt=lambda update: None, **options
):
    """Record a training of its own, from its restart state if asked, and return the
    model. `interrupt` is called between each update and its step of the recording; an
    embedding is NaN from update `nan_at` on."""
    model, optimizer, scheduler = create_training()
    states = {"scheduler": scheduler}
    with dynamics.record(model, optimizer, path, states=states, **options) as recording:
        for update in range(recording.restore() if restore else 0, updates):
            loss = train_step(model, optimizer, scheduler)
            interrupt(update)
            if update + 1 == nan_at:
                with torch.no_grad():
                    model.embed.weight[0] = torch.nan
            recording.step(loss=loss)
    return model


def measure_losses(model):
    """Loss and accuracy of two splits, with dropout, which draws random numbers."""
    logits = model(TOKENS)
    loss, right = (
        torch.nn.functional.cross_entropy(logits, TOKENS),
        (logits.argmax(1) == TOKENS).float().mean(),
    )
    return {
        "loss": {"train": loss, "test": loss + 1},
        "accuracy": {"train": right, "test": 0.5},
        "noise": random.random(),
    }


@pytest.fixture
def path(tmp_path):
    return tmp_path / "mine.nc"


def test_recording_changes_no_bit_and_the_file_has_the_values_of_the_model(path):
    model, optimizer, scheduler = create_training()
    seen = {0: model.embed.weight.detach().clone()}
    with dynamics.record(
        model,
        optimizer,
        path,
        every=4,
        embedding="embed.weight",
        modulus=7,
        variables={
            "turned": lambda model: model.hidden.weight.T,
            "bias": dynamics.ParameterView("out.bias", rows=3),
        },
        weights=True,
        layers={"embedding": "embed.*", "mlp": ["hidden.*", "out.*"]},
        evaluate=measure_losses,
        epoch_steps=2,
    ) as recording:
        for update in range(1, 11):
            before = [parameter.detach().clone() for parameter in model.parameters()]
            train_step(model, optimizer, scheduler)
            after = list(model.parameters())
            if update == 8:
                moved = [
                    float((new.detach() - old).norm())
                    for new, old in zip(after, before, strict=True)
                ]
                gradients = [float(item.grad.norm()) for item in after]
            recording.step()
            seen[update] = model.embed.weight.detach().clone()
    assert weights_of(model) == plain_weights(10)
    trajectory = dynamics.open_trajectory(path)
    assert trajectory["step"].values.tolist() == [0, 4, 8, 10]
    assert trajectory["epoch"].values.tolist() == [0, 2, 4, 5]
    rates = 0.01 * 0.99 ** np.arange(10)
    times = np.concatenate([[0], np.cumsum(rates)])[[0, 4, 8, 10]]
    assert_allclose(trajectory["time"], times, rtol=1e-12)
    for step in (0, 4, 8, 10):
        assert_array_equal(trajectory["embedding"].sel(step=step)[0], seen[step])
    assert_array_equal(
        trajectory["parameter.embed.weight"], trajectory["embedding"].values
    )
    assert trajectory["turned"].shape == (1, 4, 2, 16)
    assert trajectory["bias"].shape == (1, 4, 3)
    assert trajectory["loss"].sel(split="test").values - 1 == pytest.approx(
        trajectory["loss"].sel(split="train").values
    )
    assert trajectory["noise"].dims == ("run", "step")
    for name, norms in (("gradient_norm", gradients), ("update_norm", moved)):
        expected = [norms[0], np.linalg.norm(norms[1:])]
        assert_allclose(trajectory[name].sel(step=8)[0], expected, rtol=1e-5)
    assert (trajectory["update_norm"][0, 0] == 0).all()
    assert (trajectory["gradient_norm"][0, 0] > 0).all()
    assert dynamics.read_settings(trajectory).model == "Tiny"


def test_values_of_the_loop_are_recorded(path):
    model, optimizer, _ = create_training()
    calls = []

    def measure_accuracy():
        calls.append(recording.norms.updates)
        return {"train": 0.5, "test": 0.25}

    with dynamics.record(model, optimizer, path, every=5, seed=12) as recording:
        losses = []
        for _ in range(10):
            losses.append(train_step(model, optimizer).item())
            recording.step(loss=losses[-1], accuracy=measure_accuracy)
    assert calls == [1, 5, 10]
    trajectory = dynamics.open_trajectory(path)
    assert trajectory["loss"][0, :, 0].values == pytest.approx(
        [losses[0], losses[4], losses[9]]
    )
    assert trajectory["split"].values.tolist() == ["train"]
    assert trajectory["accuracy_test"][0].values.tolist() == [0.25] * 3
    assert trajectory["seed"].values == [12]


@pytest.mark.parametrize(
    ("evaluate", "accuracy", "message"),
    [
        (
            lambda model: {"accuracy": 1.5},
            None,
            "accuracy: found 1.5, allowed is a fraction from 0 to 1",
        ),
        (
            lambda model: {},
            {"train": 0.5, "test": lambda: "x"},
            "accuracy of test: found str, allowed is a number",
        ),
        (lambda model: 1.0, None, "evaluate: found a function that returns float"),
        (3, None, "evaluate: found int"),
    ],
)
def test_measured_values_that_do_not_fit_are_refused(path, evaluate, accuracy, message):
    model, optimizer, _ = create_training()
    refused = pytest.raises(SettingsError, match=f"^{message}")
    with (
        refused,
        dynamics.record(model, optimizer, path, evaluate=evaluate) as recording,
    ):
        recording.step(loss=train_step(model, optimizer), accuracy=accuracy)


def test_calls_outside_a_with_statement_or_without_updates_are_named(path):
    model, optimizer, _ = create_training()
    closed = dynamics.record(model, optimizer, path)
    for call in (closed.step, closed.restore):
        with pytest.raises(
            RecordingError,
            match=r"not open; use: with dynamics\.record\(\.\.\.\) as recording$",
        ):
            call()
    warned = pytest.warns(
        RuntimeWarning, match="4 calls of step, but no update of the optimizer was seen"
    )
    with (
        warned,
        dynamics.record(model, optimizer, path) as recording,
    ):
        for _ in range(4):
            recording.step(loss=0.5)
    assert dynamics.open_trajectory(path)["status"] == [0]


def test_gradients_are_those_that_updates_use(path):
    """After accumulation, unscaling and clipping; calls without an update count for
    nothing."""
    model, _, _ = create_training()
    optimizer = torch.optim.SGD(model.parameters(), lr=0.5)
    scaler = torch.amp.GradScaler("cpu", init_scale=2.0**10)
    with dynamics.record(model, optimizer, path) as recording:
        for batch in range(9):
            loss = torch.nn.functional.cross_entropy(model(TOKENS), TOKENS) / 3
            scaler.scale(loss).backward()
            if batch % 3 == 2:
                scaler.unscale_(optimizer)
                torch.nn.utils.clip_grad_norm_(model.parameters(), 0.01)
                scaler.step(optimizer)
                scaler.update()
                optimizer.zero_grad()
            recording.step(loss=loss.detach())
    trajectory = dynamics.open_trajectory(path)
    assert trajectory["step"].values.tolist() == [0, 1, 2, 3]
    assert_allclose(
        np.linalg.norm(trajectory["gradient_norm"][0], axis=-1), 0.01, rtol=1e-3
    )
    assert_allclose(
        trajectory["update_norm"][0, 1:],
        0.5 * trajectory["gradient_norm"][0, 1:],
        rtol=1e-3,
    )


class Unembedded(torch.nn.Module):
    """Seven tokens and an eighth that is no number, whose embeddings are stored as
    (axis, token)."""

    def __init__(self) -> None:
        super().__init__()
        self.embed = torch.nn.Parameter(torch.randn(2, 8))
        self.out = torch.nn.Linear(2, 7)

    def forward(self, tokens):
        return self.out(self.embed.T[tokens] + self.embed[:, 7])


@pytest.mark.parametrize("with_closure", [False, True])
def test_the_gradient_of_the_embedding_is_that_of_the_update_after_the_previous_frame(
    path, with_closure
):
    torch.manual_seed(3)
    model = Unembedded()
    optimizer, used = torch.optim.AdamW(model.parameters(), lr=0.01), []
    view = dynamics.ParameterView("embed", transpose=True, rows=7)

    def backward():
        optimizer.zero_grad()
        loss = torch.nn.functional.cross_entropy(model(TOKENS), TOKENS)
        loss.backward()
        torch.nn.utils.clip_grad_norm_(model.parameters(), 0.2)
        used.append(model.embed.grad.T[:7].numpy().copy())
        return loss

    with dynamics.record(
        model, optimizer, path, every=3, embedding=view, embedding_gradient=True
    ) as recording:
        for _ in range(8):
            if with_closure:
                optimizer.step(backward)
            else:
                backward()
                optimizer.step()
            recording.step()
    result = dynamics.open_trajectory(path)["embedding_gradient"]
    assert result.dims == ("run", "step", "token", "axis")
    assert_array_equal(result[0], [np.zeros((7, 2)), used[0], used[3], used[6]])


@pytest.mark.parametrize(
    ("embedding", "message"),
    [
        (None, "no embedding"),
        (lambda model: model.embed.weight, "function"),
        ("scale", "gradient of scale"),
    ],
)
def test_the_gradient_is_recorded_only_of_an_embedding_that_is_trained(
    path, embedding, message
):
    model, optimizer, _ = create_training()
    model.register_parameter("scale", torch.nn.Parameter(torch.ones(7, 2)))
    with pytest.raises(SettingsError, match=f"embedding_gradient: found .*{message}"):
        dynamics.record(
            model, optimizer, path, embedding=embedding, embedding_gradient=True
        )


def test_updates_with_a_closure_and_several_optimizers(path):
    model, _, _ = create_training()
    optimizers = [
        torch.optim.SGD(model.embed.parameters(), lr=0.1),
        torch.optim.SGD([*model.hidden.parameters(), *model.out.parameters()], lr=0.2),
    ]

    def closure():
        model.zero_grad()
        loss = torch.nn.functional.cross_entropy(model(TOKENS), TOKENS)
        loss.backward()
        return loss

    with dynamics.record(
        model,
        optimizers,
        path,
        layers={"embedding": "embed.*", "rest": ["hidden.*", "out.*"]},
    ) as recording:
        for _ in range(3):
            loss = optimizers[0].step(closure)
            optimizers[1].step()
            recording.step(loss=loss)
    trajectory = dynamics.open_trajectory(path)
    assert trajectory.sizes["step"] == 4
    assert_allclose(
        trajectory["update_norm"][0, 1:] / trajectory["gradient_norm"][0, 1:],
        [[0.1, 0.2]] * 3,
        rtol=1e-4,
    )


@pytest.mark.parametrize("line_search", [None, "strong_wolfe"])
def test_norms_of_a_step_with_several_evaluations_are_those_of_the_last_one(
    path, line_search
):
    torch.manual_seed(3)
    model = torch.nn.Sequential(
        torch.nn.Linear(3, 8), torch.nn.Tanh(), torch.nn.Linear(8, 1)
    )
    optimizer = torch.optim.LBFGS(
        model.parameters(), lr=0.3, max_iter=4, line_search_fn=line_search
    )
    x, evaluated, last = torch.randn(32, 3), [], []

    def closure():
        optimizer.zero_grad()
        loss = ((model(x) - torch.sin(3 * x[:, :1])) ** 2).mean()
        loss.backward()
        evaluated.append(
            [parameter.grad.norm().item() for parameter in model.parameters()]
        )
        return loss

    with dynamics.record(model, optimizer, path) as recording:
        for _ in range(3):
            loss = optimizer.step(closure)
            last.append(evaluated[-1])
            recording.step(loss=loss)
    assert len(evaluated) > 2 * len(last)
    result = dynamics.open_trajectory(path)["gradient_norm"][0]
    assert (result > 0).all()
    assert_allclose(result, [last[0], *last], rtol=1e-5)


@pytest.mark.parametrize("options", [{}, {"embedding": "weight", "weights": True}])
def test_a_lazy_model_is_recorded_after_a_forward_pass(path, options):
    model = torch.nn.LazyLinear(2)
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
    with pytest.raises(
        SettingsError,
        match=r"^model: found weight without a shape, [^\n]*forward pass[^\n]*$",
    ):
        dynamics.record(model, optimizer, path, **options)
    model(torch.ones(1, 3))
    with dynamics.record(model, optimizer, path, **options) as recording:
        model(torch.ones(1, 3)).sum().backward()
        optimizer.step()
        recording.step()
    assert dynamics.open_trajectory(path).sizes["step"] == 2


def test_a_model_on_the_meta_device_is_refused(path):
    model = torch.nn.Linear(3, 2, device="meta")
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
    with pytest.raises(
        SettingsError, match=r"^model: found weight on the meta device, [^\n]*$"
    ):
        dynamics.record(model, optimizer, path)


def test_weights_that_are_not_finite_mark_the_run_as_diverged(path):
    options = {"every": 2, "embedding": "embed.weight"}
    with pytest.warns(RuntimeWarning, match=r"embedding is not finite at step 8"):
        record_training(path, 10, nan_at=7, **options)
    trajectory = dynamics.open_trajectory(path)
    assert trajectory["step"].values.tolist() == [0, 2, 4, 6, 8]
    assert trajectory["last_step"].values == [6]
    assert not dynamics.not_diverged(trajectory).any()
    with pytest.raises(RecordingError, match="diverged"):
        record_training(path, 10, restore=True, **options)


@pytest.mark.parametrize("value", [float("nan"), float("inf")])
@pytest.mark.parametrize("at", [0, 3])
def test_a_loss_or_accuracy_that_is_not_finite_is_recorded_as_it_is(path, value, at):
    model, optimizer, _ = create_training()
    given = np.full(6, 0.5, np.float32)
    given[at] = value
    with dynamics.record(model, optimizer, path) as recording:
        for number in given:
            train_step(model, optimizer)
            recording.step(loss=float(number), accuracy=torch.tensor(number))
    trajectory = dynamics.open_trajectory(path)
    assert trajectory["status"].values == [1]
    for name in ("loss", "accuracy"):
        assert_array_equal(trajectory[name][0, 1:, 0], given)


@pytest.mark.filterwarnings("error")
def test_norms_beyond_float32_are_infinite(path):
    model = torch.nn.Linear(1, 1, bias=False).double()
    optimizer = torch.optim.SGD(model.parameters(), lr=1e-200)
    with dynamics.record(model, optimizer, path) as recording:
        (model.weight * 1e200).sum().backward()
        optimizer.step()
        recording.step(loss=torch.tensor(1e300, dtype=torch.float64))
    trajectory = dynamics.open_trajectory(path)
    assert trajectory["status"].values == [1]
    assert np.isinf(trajectory["gradient_norm"][0, -1]).all()
    assert_allclose(trajectory["update_norm"][0, -1], 1)
    assert np.isinf(trajectory["loss"][0, -1]).all()


@pytest.mark.parametrize("name", ["embedding_norm", "embeddings"])
def test_only_the_embedding_itself_diverges(path, name):
    """A number whose name begins as that of the embedding is recorded as it is."""
    model, optimizer, _ = create_training()
    with dynamics.record(
        model, optimizer, path, evaluate=lambda model: {name: np.nan}
    ) as recording:
        for _ in range(3):
            train_step(model, optimizer)
            recording.step()
    trajectory = dynamics.open_trajectory(path)
    assert trajectory["status"].values == [1]
    assert np.isnan(trajectory[name]).all()


BAD_ARGUMENTS = [
    (
        {"embedding": lambda model: model.embed.weight.char()},
        "embedding: found values of torch.int8, allowed is floating-point",
    ),
    ({"embedding": "embed.wieght"}, "embed.weight"),
    ({"embedding": "hidden.bias"}, "2 axes"),
    ({"embedding": lambda model: model.nothing}, "AttributeError"),
    ({"variables": {"seed": "out.bias"}}, "seed"),
    ({"embedding": dynamics.ParameterView("embed.weight", rows=8)}, "1 to 7"),
    ({"every": 0}, "every"),
    ({"layers": {"mlp": "hiden.*"}}, "hidden.weight"),
    ({"layers": {"a": "hidden.*", "b": "*.bias"}}, "one layer each"),
    ({"states": {"loader": [1]}}, "states"),
    ({"states": [1]}, "states: found a list, allowed is objects by name"),
    (
        {"embedding": torch.zeros(7, 2)},
        "embedding: found a tensor of shape .7, 2., allowed is the name of a parameter",
    ),
    ({"seed": -1}, "seed"),
    ({"modulus": 0.5}, "modulus"),
    ({"modulus": 7}, "7 without embedding"),
    (
        {"modulus": 8, "embedding": "embed.weight"},
        "7 rows for modulus=8, allowed is one row for each number modulo N$",
    ),
    (
        {"modulus": 5, "embedding": "embed.weight"},
        r'dynamics.ParameterView\("embed.weight", rows=5\).* --tokens 5',
    ),
]


def test_a_learning_rate_that_cannot_be_meant_is_named(path):
    model, optimizer, _ = create_training(lr=1e12)
    message = (
        "^learning rate of the optimizer: found 1000000000000.0, allowed is a finite"
        " number from 0 up to 1e6$"
    )
    with pytest.raises(SettingsError, match=message):
        dynamics.record(model, optimizer, path)


WRONG_KINDS = [
    *(("model", value) for value in (3, "word", [torch.nn.Linear(1, 1)], None)),
    *(("optimizer", value) for value in (3, "word", [], None)),
    *(("path", value) for value in (3, b"a.nc", ["a.nc"], None)),
    *(("model_file", value) for value in (3, ["a.py"])),
    *(
        (name, value)
        for name in ("variables", "layers", "states", "activations")
        for value in (3, "word", ["a"], {1: "embed"}, {"a": 3})
    ),
]


@pytest.mark.parametrize(("name", "value"), WRONG_KINDS)
def test_arguments_of_another_kind_are_refused_by_name(path, name, value):
    model, optimizer, _ = create_training()
    given = {"model": model, "optimizer": optimizer, "path": path, name: value}
    if name == "activations":
        given["probe"] = torch.zeros(1, dtype=torch.long)
    with pytest.raises(SettingsError) as error:
        dynamics.record(**given)
    fields = {name, "a"} if name == "variables" else {name.removesuffix("_file")}
    assert error.value.field.partition("[")[0] in fields
    assert "\n" not in str(error.value)


def test_an_optimizer_that_is_given_twice_is_refused(path):
    model, optimizer, _ = create_training()
    with pytest.raises(SettingsError, match="optimizer: found the same one twice"):
        dynamics.record(model, [optimizer, optimizer], path)


@pytest.mark.parametrize(("change", "message"), BAD_ARGUMENTS)
def test_bad_arguments_are_named_and_nothing_is_written(path, change, message):
    model, optimizer, _ = create_training()
    with pytest.raises(SettingsError, match=message):
        dynamics.record(model, optimizer, path, **change)
    assert not list(path.parent.iterdir())


def test_all_bad_arguments_are_named_at_once():
    model, optimizer, _ = create_training()
    with pytest.raises(SettingsError) as error:
        dynamics.record(
            model,
            optimizer,
            "mine.csv",
            every=0,
            embedding="embed",
            modulus=-1,
        )
    assert [line.partition(":")[0] for line in str(error.value).splitlines()] == [
        "path",
        "every",
        "modulus",
        "embedding (name of a parameter)",
    ]


def test_splits_that_change_are_refused(path):
    model, optimizer, _ = create_training()
    refused = pytest.raises(SettingsError, match="loss of train; accuracy of test")
    with refused, dynamics.record(model, optimizer, path) as recording:
        recording.step(loss=train_step(model, optimizer), accuracy={"test": 1})
        recording.step(loss=train_step(model, optimizer))


def test_an_existing_file_is_restored_or_overwritten_on_request_only(path):
    def run(updates, **options):
        return weights_of(record_training(path, updates, every=2, **options))

    run(5)
    with pytest.raises(RecordingError, match=r"restore\(\)"):
        run(5)
    assert run(11, restore=True) == plain_weights(11)
    assert dynamics.open_trajectory(path)["step"].values.tolist() == [
        *(0, 2, 4, 5),
        *(6, 8, 10, 11),
    ]
    with pytest.raises(SettingsError, match="modulus"):
        run(12, restore=True, modulus=7, embedding="embed.weight")
    run(3, overwrite=True)
    assert dynamics.open_trajectory(path)["step"].values.tolist() == [0, 2, 3]


def test_states_of_another_training_are_refused(path):
    record_training(path, 1)
    with (
        dynamics.record(*create_training()[:2], path) as recording,
        pytest.raises(TrajectoryError, match="scheduler"),
    ):
        recording.restore()


def signal_at(number):
    """A function that sends SIGINT to this process at an update."""
    return lambda update: update == number and os.kill(os.getpid(), signal.SIGINT)


def test_a_signal_ends_the_recording_between_two_updates(path):
    with pytest.raises(Interrupted):
        record_training(path, 20, interrupt=signal_at(6))
    assert not path.exists()
    assert dynamics.open_trajectory(path)["step"].values.tolist() == list(range(8))
    updates = []
    model = record_training(path, 20, restore=True, interrupt=updates.append)
    assert updates == list(range(7, 20))
    assert weights_of(model) == plain_weights(20)
    assert dynamics.open_trajectory(path).sizes["step"] == 21


@pytest.mark.parametrize("before_the_step", [False, True])
def test_an_exception_in_the_loop_keeps_what_is_recorded(path, capsys, before_the_step):
    def train(fails_at):
        model, optimizer, scheduler = create_training()
        states = {"scheduler": scheduler}
        with dynamics.record(
            model, optimizer, path, every=2, states=states
        ) as recording:
            for update in range(recording.restore(), 20):
                loss = train_step(model, optimizer, scheduler)
                if before_the_step and update == fails_at:
                    raise ZeroDivisionError
                recording.step(loss=loss)
                if update == fails_at:
                    raise ZeroDivisionError
        return model

    with pytest.raises(ZeroDivisionError):
        train(fails_at=8)  # update 9, at which no frame is recorded
    printed = capsys.readouterr().err
    assert "ZeroDivisionError; the recording up to update 8 is kept in" in printed
    assert "recording.restore() continues it" in printed
    assert dynamics.open_trajectory(path)["step"].values.tolist() == [0, 2, 4, 6, 8]
    assert weights_of(train(fails_at=None)) == plain_weights(20)
    assert dynamics.open_trajectory(path).sizes["step"] == 11


def test_an_exception_before_a_frame_is_recorded_loses_no_frame(path, monkeypatch):
    monkeypatch.setattr(model_recorder, "FIRST_PART_SECONDS", 0.0)
    with pytest.raises(ZeroDivisionError):
        record_training(path, 20, interrupt=lambda update: 1 / (9 - update), every=2)
    model = record_training(path, 20, restore=True, every=2)
    steps = dynamics.open_trajectory(path)["step"].values
    assert steps.tolist() == list(range(0, 21, 2))
    assert weights_of(model) == plain_weights(20)


def test_restart_states_lie_at_the_ends_of_epochs(path, monkeypatch):
    monkeypatch.setattr(model_recorder, "FIRST_PART_SECONDS", 0.0)
    record_training(path, 17, every=2, restart_every=5)
    assert dynamics.checkpoints(path)["checkpoint"].values.tolist() == [5, 10, 15, 17]


def test_a_signal_between_restart_states_keeps_the_last_of_them(path):
    options = {"every": 2, "restart_every": 4}
    with pytest.raises(Interrupted, match="at step 12;"):
        record_training(path, 20, interrupt=signal_at(14), **options)
    # frames after the restart state are kept, too
    assert dynamics.open_trajectory(path)["step"].values.tolist() == list(
        range(0, 15, 2)
    )
    model = record_training(path, 20, restore=True, **options)
    assert weights_of(model) == plain_weights(20)
    restarts = dynamics.checkpoints(path)["checkpoint"].values
    assert restarts.tolist() == [4, 8, 12, 16, 20]


def test_a_loss_of_the_loop_is_joined_with_one_that_is_evaluated(path):
    record_training(path, 4, every=2, evaluate=lambda model: {"loss": {"test": 0.5}})
    trajectory = dynamics.open_trajectory(path)
    assert trajectory["split"].values.tolist() == ["train", "test"]
    assert trajectory["loss"].sel(split="test").values.tolist() == [[0.5] * 3]


def test_the_state_after_the_last_update_is_recorded(tmp_path):
    files = []
    for every in (1, 4):
        files.append(tmp_path / f"{every}.nc")
        options = {"every": every, "weights": True, "embedding": "embed.weight"}
        record_training(files[-1], 6, embedding_gradient=True, seed=0, **options)
    every_step, some = map(dynamics.open_trajectory, files)
    assert some["step"].values.tolist() == [0, 4, 6]
    expected = every_step.sel(step=some["step"]).drop_vars("embedding_gradient")
    xr.testing.assert_equal(some.drop_vars("embedding_gradient"), expected)
    gradients = every_step["embedding_gradient"].sel(step=[1, 5])
    assert_array_equal(some["embedding_gradient"][:, 1:], gradients)


@pytest.mark.parametrize("reason", ["not called", "loss of none"])
def test_a_last_state_without_its_loss_is_said_to_be_missing(path, reason):
    model, optimizer, _ = create_training()

    def train():
        with dynamics.record(model, optimizer, path, every=2) as recording:
            for update in range(1, 6):
                loss = train_step(model, optimizer)
                if update < 5:
                    recording.step(loss=loss)
                elif reason == "loss of none":
                    recording.step()

    with pytest.warns(RuntimeWarning, match="the last 1 of 5 updates are not recorded"):
        train()
    assert dynamics.open_trajectory(path)["step"].values.tolist() == [0, 2, 4]


def test_a_loop_that_never_calls_step_is_said_to(path):
    model, optimizer, _ = create_training()

    def train():
        with dynamics.record(model, optimizer, path):
            for _ in range(3):
                train_step(model, optimizer)

    message = r"3 updates, but recording.step\(\) was never called"
    with pytest.warns(RuntimeWarning, match=message):
        train()


def test_a_variable_that_changes_its_shape_is_named(path):
    variables = {"memory": lambda model: torch.tensor(memory)}
    message = (
        r"no frame is recorded after step 0: memory has the shape \(2,\) at step 1, and"
        r" \(1,\) in the frames before$"
    )
    memory = [0.0]
    with pytest.warns(RuntimeWarning, match=message):
        record_training(path, 3, interrupt=memory.append, variables=variables)
    trajectory = dynamics.open_trajectory(path)
    assert trajectory["step"].values.tolist() == [0]
    assert trajectory["status"].values == [0]
    assert "memory has the shape" in trajectory.attrs["not_followed"]


def record_seed(folder, seed, updates=6, **options):
    """A recording of its own for one seed of an ensemble; returns the file."""
    file = folder / f"seed{seed}.nc"
    record_training(
        file, updates, every=2, embedding="embed.weight", seed=seed, **options
    )
    return file


@pytest.mark.filterwarnings("ignore:embedding is not finite")
def test_recordings_of_several_seeds_are_one_ensemble(tmp_path):
    files = [
        record_seed(tmp_path, 0),
        record_seed(tmp_path, 4, nan_at=3),
        record_seed(tmp_path, 2),
    ]
    joined = dynamics.open_trajectory(files)
    assert joined["seed"].values.tolist() == [0, 4, 2]
    assert joined["step"].values.tolist() == [0, 2, 4, 6]
    assert joined["last_step"].values.tolist() == [6, 2, 6]
    assert dynamics.not_diverged(joined).tolist() == [True, False, True]
    alone = dynamics.open_trajectory(files[2])
    assert_array_equal(joined["embedding"][2], alone["embedding"][0])
    assert (joined["loss"][1, 1:] == joined["loss"][1, 1]).all()
    dynamics.save_trajectory(joined, "all.nc")
    xr.testing.assert_equal(dynamics.open_trajectory("all.nc").load(), joined.load())
    (tmp_path / "all.nc").unlink()
    assert dynamics.open_trajectory("seed*.nc")["seed"].values.tolist() == [0, 2, 4]


def test_files_that_are_no_ensemble_are_refused(tmp_path):
    first = record_seed(tmp_path, 0)
    (tmp_path / "other").mkdir()
    for change, message in (
        ({"seed": 0}, "found 0 in"),
        ({"seed": 1, "updates": 8}, "ends at step"),
        ({"seed": 2, "modulus": 7}, "other.*: modulus 7 instead of 0$"),
    ):
        with pytest.raises(TrajectoryError, match=message):
            dynamics.open_trajectory([first, record_seed(tmp_path / "other", **change)])
    for nothing in ([], "no*.nc"):
        with pytest.raises(TrajectoryError, match="no such file"):
            dynamics.open_trajectory(nothing)


KILLED = """
import os, signal, sys
sys.path.insert(0, sys.argv[1])
from test_recording import *
import dynamics.recording.model_recorder
dynamics.recording.model_recorder.FIRST_PART_SECONDS = 0.0  # a part at each opportunity

def train(path, killed_at):
    model, optimizer, scheduler = create_training()
    options = {"embedding": "embed.weight", "embedding_gradient": True, "states": {"s": scheduler}}
    with dynamics.record(model, optimizer, path, every=3, **options) as recording:
        for update in range(recording.restore(), 40):
            loss = train_step(model, optimizer, scheduler)
            if update == killed_at:
                os.kill(os.getpid(), signal.SIGKILL)
            recording.step(loss=loss)
    assert weights_of(model) == plain_weights(40)
    steps = dynamics.open_trajectory(path)["step"].values.tolist()
    assert steps == [*range(0, 40, 3), 40], steps

def in_child(path, killed_at):
    child = os.fork()
    if child == 0:
        train(path, killed_at)
        os._exit(0)
    return os.waitpid(child, 0)[1]

torch.set_num_threads(1)
plain_weights(1)  # the parent imports what the children need
moments = [int(each) for each in sys.argv[3:]]
for moment in moments:
    assert in_child(f"{sys.argv[2]}/{moment}.nc", moment) == signal.SIGKILL
    assert in_child(f"{sys.argv[2]}/{moment}.nc", -1) == 0
train(f"{sys.argv[2]}/plain.nc", -1)
found = [dynamics.open_trajectory(f"{sys.argv[2]}/{name}.nc")["embedding_gradient"] for name in ("plain", *moments)]
assert all(np.array_equal(each, found[0]) for each in found)
print("all equal")
"""


def test_a_killed_training_goes_on_with_the_same_bits(tmp_path):
    command = [
        sys.executable,
        "-c",
        KILLED,
        os.path.dirname(__file__),
        tmp_path,
        *("0", "3", "22"),
    ]
    package = os.path.dirname(os.path.dirname(dynamics.__file__))
    done = subprocess.run(
        command, capture_output=True, text=True, check=False, cwd=package
    )
    assert done.stdout == "all equal\n", done.stderr


def test_evaluation_leaves_the_model_and_the_generators_as_they_were(tmp_path):
    """Running statistics of a model in training, and parts that are removed."""
    torch.manual_seed(0)
    model = torch.nn.Sequential(
        torch.nn.Linear(3, 4), torch.nn.BatchNorm1d(4), torch.nn.Dropout(0.5)
    )
    x = torch.randn(16, 3)
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
    calls = []

    def evaluate(model):
        calls.append(model.training)
        loss = model(x).square().mean()
        model[0].weight[0] = 0
        model.eval()
        model[1].running_var = torch.ones(4)
        torch.rand(3)
        return {"loss": float(loss)}

    def state():
        values = {name: value.clone() for name, value in model.state_dict().items()}
        return values, torch.get_rng_state(), model.training, model[1].training

    path = tmp_path / "mine.nc"
    with dynamics.record(model, optimizer, path, evaluate=evaluate) as recording:
        for _ in range(3):
            optimizer.zero_grad()
            model(x).square().mean().backward()
            optimizer.step()
            before = state()
            recording.step()
            after = state()
            assert all(
                torch.equal(after[0][name], before[0][name]) for name in before[0]
            )
            assert torch.equal(after[1], before[1])
            assert after[2:] == before[2:] == (True, True)
    assert calls == [True] * 4


class HalfTrained(torch.nn.Module):
    """A trained layer after a layer that is not trained."""

    def __init__(self):
        super().__init__()
        self.fixed = torch.nn.Linear(3, 3).requires_grad_(False)
        self.head = torch.nn.Linear(3, 2)

    def forward(self, x):
        return self.head(torch.tanh(self.fixed(x)))


@pytest.mark.parametrize("part", ["", "head"])
def test_parameters_that_are_not_trained_are_buffers(path, part):
    """Parameters without gradients are recorded as buffers, whether the optimizer holds
    them or not. Another instance of the model has the recorded loss, and only trained
    parameters have derivatives."""
    model, (x, labels) = HalfTrained(), (torch.randn(8, 3), torch.arange(8) % 2)
    trained = model.get_submodule(part).parameters()
    optimizer = torch.optim.Adam(trained, lr=0.01)
    losses = []
    options = {"weights": True, "moments": True}
    with dynamics.record(model, optimizer, path, **options) as recording:
        for _ in range(3):
            loss = torch.nn.functional.cross_entropy(model(x), labels)
            losses.append(loss.item())
            optimizer.zero_grad()
            loss.backward()
            optimizer.step()
            recording.step()
    trajectory, other = dynamics.open_trajectory(path), HalfTrained()
    names = {name for name in trajectory if name.startswith(("parameter.", "buffer."))}
    assert names == {
        *(f"buffer.fixed.{name}" for name in ("weight", "bias")),
        *(f"parameter.head.{name}" for name in ("weight", "bias")),
    }

    def loss(parameters, batch):
        logits = torch.func.functional_call(other, parameters, (batch,))
        return torch.nn.functional.cross_entropy(logits, labels)

    functions = dynamics.ModelFile(loss=loss, batches=lambda: [x])
    result = edge_of_stability(trajectory, [0, 1, 2], functions)
    assert result.attrs["parameters"] == 8
    assert_allclose(result["loss"][0], losses, rtol=1e-6)
    assert (result["preconditioned_sharpness"][0, 1:] > 0).all()


class Turning(torch.nn.Module):
    def __init__(self):
        super().__init__()
        self.weight = torch.nn.Parameter(torch.ones(2, dtype=torch.complex64))


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"weights": True}, "weights: found weight of torch.complex64"),
        ({"variables": {"w": "weight"}}, "w: found values of torch.complex64"),
        ({"layers": {}}, "layers: found no layer"),
    ],
)
def test_what_cannot_be_recorded_is_refused_before_the_training(path, options, message):
    model = Turning()
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
    with pytest.raises(SettingsError, match=message):
        dynamics.record(model, optimizer, path, **options)


def test_errors_of_a_loss_at_later_frames_are_reported(path):
    model, optimizer, _ = create_training()
    with dynamics.record(model, optimizer, path, weights=True) as recording:
        for _ in range(2):
            recording.step(loss=train_step(model, optimizer))
    first = dynamics.open_trajectory(path)["parameter.out.bias"].values[0, 0]

    def loss(parameters, batch):
        bias = parameters["out.bias"]
        if not torch.allclose(bias.detach().float(), torch.from_numpy(first)):
            raise ValueError("no loss here")
        return bias.square().sum()

    functions = dynamics.ModelFile(loss=loss, batches=lambda: [torch.zeros(1)])
    with pytest.raises(SettingsError, match="ValueError: no loss here"):
        edge_of_stability(dynamics.open_trajectory(path), [0, 2], functions)


BAD_NAMES = ["", "a/b", " a", "a ", "a\nb", "step", "time", "layer", "token", "status"]


@pytest.mark.parametrize("name", [*BAD_NAMES, "gradient_norm", "own", "embedding"])
def test_numbers_whose_names_the_file_uses_are_refused_at_the_first_frame(path, name):
    options = {"embedding": "embed.weight", "variables": {"own": "out.bias"}}
    with pytest.raises(SettingsError, match="evaluate"):
        record_training(path, 1, evaluate=lambda model: {name: 0.5}, **options)
    if name not in ("own", "embedding"):
        options["variables"] = {name: "out.bias"}
        with pytest.raises(SettingsError, match="name of a variable"):
            record_training(path, 1, **options)


@given(st.text(min_size=1, max_size=8))
@settings(max_examples=60, suppress_health_check=[HealthCheck.function_scoped_fixture])
def test_a_name_of_a_number_is_in_the_file_or_refused(tmp_path, name):
    path = tmp_path / "names.nc"
    metrics = {"accuracy": {"train": 0.5, name: 0.25}, "loss": {"train": 1.0}}
    options = {"evaluate": lambda model: metrics | {f"of {name}": 3}, "overwrite": True}
    try:
        record_training(path, 2, **options)
    except SettingsError as error:
        assert "name" in str(error)
        return
    with dynamics.open_trajectory(path) as trajectory:
        assert (trajectory[f"accuracy_{name}"] == 0.25).all()
        assert (trajectory[f"of {name}"] == 3).all()
        assert (trajectory["status"] == 1).all()


def test_two_numbers_with_one_name_are_refused(path):
    metrics = {"a": {"b": 1.0, "c": 2.0}, "a_b": 3.0}
    with pytest.raises(SettingsError, match="a_b twice"):
        record_training(path, 1, evaluate=lambda model: metrics)


class Clashing(torch.nn.Module):
    """A parameter whose name is that of a dimension of the other one."""

    def __init__(self):
        super().__init__()
        self.w = torch.nn.Parameter(torch.randn(3, 2))
        self.w_0 = torch.nn.Parameter(torch.randn(4))


def test_parameters_with_names_of_dimensions_are_recorded(path):
    model = Clashing()
    optimizer = torch.optim.Adam(model.parameters())
    variables = {"x": "w", "x_1": lambda model: model.w_0 > 0}
    options = {"weights": True, "moments": True, "variables": variables}
    with dynamics.record(model, optimizer, path, **options) as recording:
        (model.w.sum() + model.w_0.sum()).backward()
        optimizer.step()
        recording.step()
    with dynamics.open_trajectory(path) as trajectory:
        last = trajectory.isel(run=0, step=-1)
        assert_array_equal(last["parameter.w"], model.w.detach())
        assert_array_equal(last["parameter.w_0"], model.w_0.detach())
        assert_array_equal(last["x_1"], model.w_0.detach().numpy() > 0)


@pytest.mark.parametrize("kind", ["sparse", "quantized", "complex"])
def test_values_that_cannot_be_recorded_are_refused_at_the_beginning(path, kind):
    functions = {
        "sparse": lambda model: model.embed.weight.to_sparse(),
        "quantized": lambda model: torch.quantize_per_tensor(
            model.embed.weight, 0.1, 0, torch.qint8
        ),
        "complex": lambda model: torch.complex(model.embed.weight, model.embed.weight),
    }
    with pytest.raises(SettingsError, match="own"):
        record_training(path, 1, variables={"own": functions[kind]})


def test_moments_of_complex_parameters_are_refused_at_the_beginning(path):
    model = torch.nn.Linear(2, 2, dtype=torch.complex64)
    optimizer = torch.optim.Adam(model.parameters())
    with pytest.raises(SettingsError, match="moments"):
        dynamics.record(model, optimizer, path, moments=True)


@pytest.mark.parametrize(
    ("name", "before", "now"),
    [
        ("layers", {"a": "embed.*", "b": "[ho]*"}, {"b": "embed.*", "a": "[ho]*"}),
        ("layers", {"a": "embed.*", "b": "[ho]*"}, {"b": "[ho]*", "a": "embed.*"}),
        ("layers", None, {"all": "*"}),
        ("variables", {"x": "hidden.weight"}, {"x": "out.weight"}),
        ("embedding", "embed.weight", dynamics.ParameterView("embed.weight", rows=6)),
        ("probe", torch.arange(3), torch.arange(1, 4)),
        ("activations", {"x": "hidden"}, {"x": "embed"}),
    ],
)
def test_a_restored_recording_continues_with_the_same_quantities(
    path, name, before, now
):
    options = {"probe": torch.arange(3), "activations": {"y": "out"}}
    record_training(path, 4, **options | {name: before})
    content = path.read_bytes()
    with pytest.raises(SettingsError, match="as in the frames before|recorded"):
        record_training(path, 8, restore=True, **options | {name: now})
    assert path.read_bytes() == content
    record_training(path, 8, restore=True, **options | {name: before})
    with dynamics.open_trajectory(path) as trajectory:
        assert trajectory["step"][-1] == 8


@pytest.mark.parametrize("layers", [{"b": "*"}, {"a": "o*", "b": "[he]*"}])
def test_files_with_other_layers_are_no_ensemble(tmp_path, layers):
    paths = [tmp_path / "0.nc", tmp_path / "1.nc"]
    record_training(paths[0], 2, seed=0, layers={"a": "[he]*", "b": "o*"})
    record_training(paths[1], 2, seed=1, layers=layers)
    with pytest.raises(TrajectoryError, match=r"1\.nc: differs from .*layers"):
        dynamics.open_trajectory(paths)


def test_runs_of_an_ensemble_may_have_their_splits_in_another_order(tmp_path):
    orders = ["train", "test"], ["test", "train"]
    loss = {"train": 1.0, "test": 2.0}
    paths = [tmp_path / "0.nc", tmp_path / "1.nc"]
    for seed, (path, order) in enumerate(zip(paths, orders, strict=True)):
        measure = {"loss": {split: loss[split] for split in order}}
        record_training(path, 2, seed=seed, evaluate=lambda model, of=measure: of)
    joined = dynamics.open_trajectory(paths)
    for split, value in loss.items():
        assert (joined["loss"].sel(split=split) == value).all()


def test_restore_refuses_other_settings_of_the_optimizer(path):
    def train(decay, until, restore=False):
        model = Tiny()
        optimizer = torch.optim.AdamW(model.parameters(), lr=0.01, weight_decay=decay)
        with dynamics.record(model, optimizer, path) as recording:
            for _ in range(recording.restore() if restore else 0, until):
                train_step(model, optimizer)
                recording.step()
        return optimizer.param_groups[0]["weight_decay"]

    train(0.0, 4)
    with pytest.raises(SettingsError, match=r"optimizer: found weight_decay=1.0, "):
        train(1.0, 8, restore=True)
    assert train(0.0, 8, restore=True) == 0


def test_restore_names_the_learning_rate_and_the_argument_that_overwrites(path):
    for rate in (0.01, 0.1):
        model, optimizer, _ = create_training(rate)
        with dynamics.record(model, optimizer, path) as recording:
            if rate == 0.1:
                words = r"learning rate 0.01.*learning rate 0.1.*overwrite=True"
                with pytest.raises(SettingsError, match=words) as caught:
                    recording.restore()
                assert "--" not in str(caught.value)
            else:
                train_step(model, optimizer)
                recording.step()


def test_a_scripted_model_is_recorded(path):
    layers = torch.nn.Linear(3, 2), torch.nn.Dropout(), torch.nn.Linear(2, 1)
    model = torch.jit.script(torch.nn.Sequential(*layers))
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)

    def measure(model):
        model.eval()
        return {"loss": model(torch.ones(1, 3)).sum()}

    options = {"weights": True, "evaluate": measure}
    with dynamics.record(model, optimizer, path, **options) as recording:
        for _ in range(3):
            optimizer.zero_grad()
            model(torch.ones(2, 3)).square().mean().backward()
            optimizer.step()
            recording.step()
            assert model.training
    with dynamics.open_trajectory(path) as trajectory:
        last = trajectory["parameter.0.weight"][0, -1]
        assert_array_equal(last, model.state_dict()["0.weight"])


@pytest.mark.parametrize(
    "name",
    ["learning_rates", "moment_updates", "optimizer_numbers", "parameter.out.bias"],
)
def test_no_variable_of_the_user_is_replaced(path, name):
    model, optimizer, _ = create_training()
    options = {"weights": True, "moments": True, "variables": {name: "out.bias"}}
    with pytest.raises(SettingsError, match=f"name of a variable: found {name}"):
        dynamics.record(model, optimizer, path, **options)
