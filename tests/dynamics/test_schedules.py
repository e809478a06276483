"""Schedules of the learning rate: their values, in every backend, recorded, continued."""

import dataclasses
import math

import numpy as np
import pytest
import torch
from numpy.testing import assert_allclose, assert_array_equal

from dynamics import ModularSettings, SettingsError, branch, read_settings, simulate
from dynamics.optimizers import update_numbers
from dynamics.schedules import Schedule, register_schedule
from tests.dynamics.test_optimizers import BACKENDS, NETWORKS, SEEDS, SETTINGS, SMALL


def root(step, offset=1.0):
    return math.sqrt(offset / (step + offset))


register_schedule(Schedule("root", root))
SCHEDULES = ["warmup:4", "cosine:6", "cosine:6:0.1", "warmup:2,cosine:5", "root:3"]


def plain_rates(text, lr, steps):
    """Learning rates by schedulers of torch; None where torch has none."""
    name, *numbers = text.split(":")
    optimizer = torch.optim.SGD([torch.nn.Parameter(torch.zeros(1))], lr=lr)
    kinds = torch.optim.lr_scheduler
    if name == "warmup":
        first = 1 / int(numbers[0])
        count = int(numbers[0]) - 1
        scheduler = kinds.LinearLR(optimizer, first, 1.0, count)
    else:
        low = lr * float(numbers[1]) if len(numbers) > 1 else 0.0
        scheduler = kinds.CosineAnnealingLR(optimizer, int(numbers[0]), low)
    rates = []
    for _ in range(steps):
        rates.append(optimizer.param_groups[0]["lr"])
        optimizer.step()
        scheduler.step()
    return rates


@pytest.mark.parametrize(
    "text", ["warmup:4", "warmup:1000", "cosine:50", "cosine:50:0.1"]
)
def test_learning_rates_are_those_of_torch(text):
    settings = ModularSettings(lr=0.3, schedule=text)
    rates = [settings.lr * settings.learning_rate_factor(step) for step in range(50)]
    assert_allclose(rates, plain_rates(text, 0.3, 50), rtol=1e-9, atol=1e-15)


@pytest.mark.parametrize("text", SCHEDULES)
@pytest.mark.parametrize("backend", BACKENDS)
def test_updates_of_backends_have_the_scheduled_rate(backend, text):
    kind = backend.split()[0]
    plain = dataclasses.replace(SETTINGS[kind], optimizer="adamw", schedule=text)
    settings = dataclasses.replace(plain, weight_decay=0.3, lr=0.01)
    network, engine = NETWORKS[kind](settings), BACKENDS[backend](settings)
    value = settings.optimizer_value
    rows = network.flatten(network.initial(SEEDS))
    engine.set_state(rows, {key: np.zeros_like(rows) for key in value.moments}, 0)
    for step in range(7):
        before, moments = engine.weights().astype(float), engine.moments()
        engine.train(step, 1)
        numbers = update_numbers(settings.hyperparameters, step + 1)
        numbers["lr"] *= settings.learning_rate_factor(step)
        given = [moments[key].astype(float) for key in value.moments]
        weight = value.apply(engine.gradient().astype(float), before, given, numbers)[0]
        assert_allclose(engine.weights(), weight, rtol=3e-6, atol=1e-7)


@pytest.mark.parametrize("backend", ["simd", "blas"])
def test_rates_and_times_are_recorded_and_continued(tmp_path, backend):
    settings = dataclasses.replace(SMALL, schedule="warmup:5,cosine:40")
    options = {"runs": 2, "every": 4, "backend": backend, "progress": False}
    whole = simulate(settings, steps=40, **options)
    path = tmp_path / "a.nc"
    simulate(settings, steps=18, out=path, **options).close()
    longer = simulate(settings, steps=40, out=path, **options)
    for name in ("embedding", "learning_rate", "time"):
        assert_array_equal(longer[name].values, whole[name].values)
    rates = settings.lr * np.array(list(map(settings.learning_rate_factor, range(41))))
    steps = whole["step"].values
    assert whole["learning_rate"].dims == ("run", "step")
    assert_allclose(whole["learning_rate"][0], rates[steps], rtol=1e-6, atol=1e-9)
    sums = np.concatenate([[0], np.cumsum(rates)])
    assert_allclose(whole["time"], sums[steps], rtol=1e-12)
    assert read_settings(longer) == settings


def test_runs_without_a_schedule_are_as_before():
    plain = simulate(SMALL, runs=1, steps=4, progress=False)
    assert "learning_rate" not in plain
    assert "schedule" not in plain.attrs["config_json"]
    assert_allclose(plain["time"], SMALL.lr * plain["step"])


def test_metrics_and_branches_have_the_rate():
    plain = simulate(SMALL, runs=2, steps=8, every=4, record="metrics", progress=False)
    cooled = branch(plain, 4, schedule="cosine:8", record="metrics")
    assert_allclose(cooled["learning_rate"][0], [SMALL.lr / 2, 0], atol=1e-9)


@pytest.mark.parametrize(
    ("text", "message"),
    [
        (
            "step:3",
            "schedule: found step:3, allowed is one or several of constant, warm",
        ),
        ("warmup", "as in warmup:100"),
        ("warmup:a", "as in warmup:100"),
        ("cosine:-3", "cosine:STEPS:FLOOR with numbers from 0"),
        ("", "schedule: found"),
    ],
)
def test_wrong_schedules_are_refused_in_one_line(text, message):
    with pytest.raises(SettingsError, match=message) as caught:
        ModularSettings(schedule=text)
    assert "\n" not in str(caught.value)
