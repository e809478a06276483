"""Exceptions, sys.exit and signals at random lines of a training: the frames up to the
last completed call of `step` are kept, and the file can be used again."""

import logging
import os
import random
import signal
import sys

import lightning
import pytest
import torch
import transformers
from test_callbacks import TOKENS, Model, Module
from torch.utils.data import DataLoader, TensorDataset

import dynamics
from dynamics.errors import TrajectoryError
from dynamics.recording.lightning_callback import LightningRecording
from dynamics.recording.trainer_callback import TrainerRecording
from dynamics.trajectory.netcdf import is_locked

UPDATES = 8
SIGNALS = (signal.SIGINT, signal.SIGTERM)


class interrupted_at:
    """Raises an error, or sends a signal, at one of the lines of functions that run,
    counted in the order in which they run."""

    def __init__(self, line, event, *functions):
        self.line, self.event = line, event
        self.codes = [function.__code__ for function in functions]

    def __enter__(self):
        self.before = sys.gettrace()
        sys.settrace(self._call)

    def __exit__(self, *error):
        sys.settrace(self.before)

    def _call(self, frame, event, argument):
        return self._line if frame.f_code in self.codes else None

    def _line(self, frame, event, argument):
        if event != "line":
            return self._line
        self.line -= 1
        if self.line == 0:
            sys.settrace(None)
            if self.event in SIGNALS:
                os.kill(os.getpid(), self.event)
            else:
                raise self.event
        return self._line


def new_training():
    torch.manual_seed(2)
    model = torch.nn.Sequential(
        torch.nn.Linear(3, 4), torch.nn.BatchNorm1d(4), torch.nn.Dropout(0.2)
    )
    return model, torch.optim.Adam(model.parameters(), lr=0.05)


def train(model, optimizer, begin, step):
    for _ in range(begin, UPDATES):
        optimizer.zero_grad()
        loss = (model(torch.rand(5, 3)) - 1).square().mean()
        loss.backward()
        optimizer.step()
        metrics = {"loss": loss}
        step(**metrics)
        del metrics


def record_training(path, calls, **options):
    model, optimizer = new_training()
    with dynamics.record(model, optimizer, path, **options) as recording:
        begin = recording.restore()

        def step(**metrics):
            recording.step(**metrics)
            calls.append(recording.norms.updates)

        train(model, optimizer, begin, step)
    return [tensor.clone() for tensor in model.state_dict().values()]


def last_step(path):
    """The last recorded step; 0 if there is none."""
    try:
        trajectory = dynamics.open_trajectory(path)
    except TrajectoryError:
        return 0
    steps = trajectory["step"].values
    assert steps.tolist() == list(range(len(steps)))
    return int(steps[-1])


def check_plain(path, line, event):
    handlers = list(map(signal.getsignal, SIGNALS))
    calls = []
    try:
        with interrupted_at(line, event, train):
            record_training(path, calls, overwrite=True, seed=0)
    except BaseException as error:
        if event not in SIGNALS:
            assert error is event
    reached = calls[-1] if calls else 0
    if event in SIGNALS:  # take effect in the next call, whose frame is recorded
        reached = min(reached + 1, UPDATES)
    assert last_step(path) == reached, line
    assert list(map(signal.getsignal, SIGNALS)) == handlers
    assert not is_locked(path)
    ended = path.exists() or path.with_name(f"{path.name}.parts").exists()
    recorded = record_training(path, [], seed=0, overwrite=not ended)
    plain = record_training(path.with_name("plain.nc"), [], overwrite=True)
    assert all(map(torch.equal, recorded, plain))
    assert last_step(path) == UPDATES


EVENTS = [ZeroDivisionError(), SystemExit(3), KeyboardInterrupt(), *SIGNALS]


def random_lines(count):
    """Events at random lines of a loop of some fifty lines."""
    generator = random.Random(count)
    return [
        (generator.randrange(1, 8 * UPDATES), EVENTS[place % len(EVENTS)])
        for place in range(count)
    ]


def test_a_loop_that_is_interrupted_keeps_its_frames(tmp_path):
    for place, (line, event) in enumerate(random_lines(10)):
        check_plain(tmp_path / f"{place}.nc", line, event)


@pytest.mark.slow
def test_loops_that_are_interrupted_at_thirty_lines_keep_their_frames(tmp_path):
    for place, (line, event) in enumerate(random_lines(60)):
        check_plain(tmp_path / f"{place}.nc", line, event)


class InterruptedModule(Module):
    def training_step(self, batch, index):
        loss = super().training_step(batch, index)
        return {"loss": loss}

    def on_train_batch_end(self, outputs, batch, index):
        self.last_batch = index


def fit_lightning(path):
    logging.getLogger("lightning.pytorch").setLevel(logging.ERROR)
    module = InterruptedModule()
    trainer = lightning.Trainer(
        accelerator="cpu",
        logger=False,
        enable_checkpointing=False,
        enable_progress_bar=False,
        enable_model_summary=False,
        callbacks=[LightningRecording(path, overwrite=True)],
        max_epochs=2,
    )
    data = DataLoader(TensorDataset(TOKENS, TOKENS), batch_size=8)
    return (lambda: trainer.global_step), lambda: trainer.fit(module, data)


class InterruptedModel(Model):
    def forward(self, tokens, labels):
        result = super().forward(tokens, labels)
        return {**result, "tokens": tokens}


def fit_transformers(path):
    arguments = transformers.TrainingArguments(
        output_dir=path.parent / "out",
        report_to=[],
        save_strategy="no",
        logging_strategy="no",
        disable_tqdm=True,
        use_cpu=True,
        per_device_train_batch_size=8,
        max_steps=UPDATES,
    )
    trainer = transformers.Trainer(
        InterruptedModel(),
        arguments,
        train_dataset=[{"tokens": token, "labels": token} for token in TOKENS],
        callbacks=[TrainerRecording(path, overwrite=True)],
    )
    return (lambda: trainer.state.global_step), trainer.train


LIBRARIES = {
    "Lightning": (
        fit_lightning,
        (InterruptedModule.training_step, InterruptedModule.on_train_batch_end),
    ),
    "Trainer": (fit_transformers, (InterruptedModel.forward,)),
}


def check_library(path, library, line, event):
    new_fit, functions = LIBRARIES[library]
    handlers = list(map(signal.getsignal, SIGNALS))
    updates, fit = new_fit(path)
    try:
        with interrupted_at(line, event, *functions):
            fit()
        ended = UPDATES
    except BaseException:
        ended = updates()
    assert last_step(path) == ended, (library, line, event)
    assert list(map(signal.getsignal, SIGNALS)) == handlers
    assert not is_locked(path)


@pytest.mark.filterwarnings("ignore")
@pytest.mark.parametrize("library", sorted(LIBRARIES))
def test_a_library_that_is_interrupted_keeps_its_frames(tmp_path, library):
    for place, event in enumerate([ZeroDivisionError(), signal.SIGTERM]):
        check_library(tmp_path / f"{place}.nc", library, 8 + 3 * place, event)
    _, fit = LIBRARIES[library][0](tmp_path / "m.nc")
    fit()
    assert last_step(tmp_path / "m.nc") == UPDATES


@pytest.mark.slow
@pytest.mark.filterwarnings("ignore")
@pytest.mark.parametrize("library", sorted(LIBRARIES))
def test_libraries_that_are_interrupted_at_thirty_lines_keep_their_frames(
    tmp_path, library
):
    for place, (line, event) in enumerate(random_lines(30)):
        path = tmp_path / f"{place}.nc"
        check_library(path, library, line % (2 * UPDATES) + 1, event)
