"""Training, restarting and recording on a CUDA device."""

import contextlib
import gc
import itertools
from concurrent.futures import ThreadPoolExecutor

import numpy as np
import pytest
import torch
import xarray as xr

import dynamics
from dynamics import (
    ModularSettings,
    SparseSettings,
    TransformerSettings,
    branch,
    branch_copies,
    open_trajectory,
    replay,
    simulate,
    training_copies,
)
from dynamics.ensemble import create_system
from dynamics.system import SYSTEM_KINDS
from dynamics.trajectory.schema import DIVERGED
from tests.dynamics import test_optimizers  # noqa: F401 - registers amsgrad
from tests.dynamics.training.single_updates import assert_same_updates_on

pytestmark = pytest.mark.cuda

SETTINGS = [
    ModularSettings(n=7, hidden=9),
    ModularSettings(n=7, hidden=9, embedding_weight_decay=0.0),
    SparseSettings(length=6, sparsity=2, data=50, batch=16, hidden=5),
    SparseSettings(data=5000, batch=70, norm="unit-smooth", activation="relu"),
    TransformerSettings(n=11, dim=16, heads=2, attention_rate=0.5),
    TransformerSettings(n=11, dim=16, heads=2, batch=40, equals_token=True),
    TransformerSettings(n=7, dim=16, heads=2, layers=2, attention_rate=0.0),
    ModularSettings(
        n=7,
        hidden=9,
        schedule="warmup:5,cosine:30",
        decay_of=("embedding=0",),
        lr_of=("hidden_bias=0.001",),
        freeze=("output_bias",),
    ),
    ModularSettings(n=7, hidden=9, optimizer="amsgrad", weight_decay=0.0, eps=1e-4),
    ModularSettings(n=7, hidden=9, optimizer="amsgrad", weight_decay=0.0, split_seed=1),
    TransformerSettings(n=7, dim=16, heads=2, optimizer="amsgrad", weight_decay=0.0),
    ModularSettings(n=7, hidden=9, activation="gelu"),
    ModularSettings(n=7, hidden=9, activation="tanh"),
    SparseSettings(
        length=6, sparsity=2, data=50, batch=16, hidden=5, activation="tanh"
    ),
    TransformerSettings(n=11, dim=16, heads=2, activation="tanh"),
]
EACH_SYSTEM = pytest.mark.parametrize(
    ("settings", "backend"),
    [
        (settings, backend)
        for settings in SETTINGS
        for backend in SYSTEM_KINDS[settings.system].cuda_backends or ("auto",)
    ],
    ids=lambda item: getattr(item, "system", item),
)


@pytest.fixture(autouse=True)
def empty_folder(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)


def run(settings, runs=4, steps=20, **options):
    return simulate(settings, runs, steps=steps, every=5, device="cuda", **options)


@EACH_SYSTEM
def test_networks_train_as_on_a_cpu(settings, backend):
    here = create_system(settings, "cpu")
    there = create_system(settings, "cuda", backend=backend)
    assert_same_updates_on(here, there, 4, 20)


@EACH_SYSTEM
def test_equal_ensembles_have_equal_bits(settings, backend):
    first, second = (run(settings, backend=backend) for _ in range(2))
    xr.testing.assert_identical(first.drop_attrs(), second.drop_attrs())
    assert first.attrs.get("backend", "auto") == backend


@EACH_SYSTEM
def test_a_run_in_a_block_of_its_own_depends_on_itself_alone(settings, backend):
    if backend == "blocks":
        many, alone = (run(settings, runs, backend=backend) for runs in (300, 1))
        xr.testing.assert_equal(many.isel(run=[0]).drop_attrs(), alone.drop_attrs())


@EACH_SYSTEM
def test_a_continued_run_and_a_replay_have_the_same_bits(settings, backend):
    whole = run(settings, backend=backend)
    run(settings, steps=10, out="run.nc", backend=backend).close()
    continued = run(settings, out="run.nc").load()
    xr.testing.assert_equal(continued.drop_attrs(), whole.drop_attrs())
    repeated = replay("run.nc", 2, 5, 20)
    for name in ("embedding", "loss"):
        xr.testing.assert_equal(
            repeated[name].sel(step=[5, 10, 15, 20]),
            whole[name].isel(run=[2]).sel(step=[5, 10, 15, 20]),
        )


def test_threads_train_ensembles_side_by_side():
    def train(seed):
        with torch.cuda.stream(torch.cuda.Stream()):
            return run(SETTINGS[4], runs=1, steps=40, seed=seed)

    with ThreadPoolExecutor(4) as threads:
        together = list(threads.map(train, range(8)))
    for seed, trajectory in enumerate(together):
        xr.testing.assert_identical(
            trajectory, train(seed).assign_attrs(trajectory.attrs)
        )


def test_copies_without_displacement_follow_their_run():
    source = run(SETTINGS[0], out="run.nc")["embedding"].isel(step=-1)
    for displace in (0.0, 0.1):
        ends = branch_copies("run.nc", [5, 10], 3, displace)
        expected = source.isel(run=ends["of_run"].values).values
        same = np.array_equal(ends["embedding"].isel(step=-1), expected)
        assert same == (displace == 0)
    after = branch("run.nc", 10, lr=0.001)
    assert after.attrs["device"] == "cuda"


def test_a_run_that_diverges_leaves_the_others_unchanged():
    settings = ModularSettings(n=5, optimizer="sgd", lr=1e6, weight_decay=1.0)
    trajectory = run(settings)
    assert (trajectory["status"] == DIVERGED).all()
    assert np.isfinite(trajectory["loss"].isel(step=0)).all()


def test_an_ensemble_takes_no_more_memory_than_estimated():
    for settings in (ModularSettings(), SparseSettings(), TransformerSettings()):
        gc.collect()
        torch.cuda.empty_cache()
        torch.cuda.reset_peak_memory_stats()
        before = torch.cuda.memory_allocated()
        backend = "torch" if SYSTEM_KINDS[settings.system].cuda_backends else "auto"
        system = create_system(settings, "cuda", backend=backend)
        system.observe(system.advance(system.initial(np.arange(64)), 3))
        used = torch.cuda.max_memory_allocated() - before
        assert used <= system.working_bytes(64), settings.system


class Trial:
    """A model with dropout on the GPU, and everything that can be recorded of it."""

    def __init__(self, path):
        torch.manual_seed(0)
        layers = torch.nn.Linear(4, 8), torch.nn.Tanh(), torch.nn.Dropout(0.2)
        self.model = torch.nn.Sequential(*layers, torch.nn.Linear(8, 3)).cuda()
        self.optimizer = torch.optim.AdamW(self.model.parameters(), lr=0.01)
        self.inputs = torch.randn(32, 4).cuda()
        self.labels = self.inputs[:, :3].argmax(1)
        self.path = path

    def update(self):
        loss = torch.nn.functional.cross_entropy(self.model(self.inputs), self.labels)
        self.optimizer.zero_grad()
        loss.backward()
        self.optimizer.step()
        return loss

    def train(self, updates, restore=False):
        """Train up to a number of updates; return the weights."""
        with dynamics.record(
            self.model,
            self.optimizer,
            self.path,
            every=5,
            weights=True,
            moments=True,
            activations={"hidden": "1"},
            probe=self.inputs,
            restart_every=5,
        ) as recording:
            first = recording.restore() if restore else 0
            for _ in range(first, updates):
                recording.step(loss=self.update())
        return self.weights()

    def weights(self):
        return [parameter.detach().clone() for parameter in self.model.parameters()]


def assert_equal(first, second):
    for one, other in zip(first, second, strict=True):
        torch.testing.assert_close(one, other, rtol=0, atol=0)


def test_a_recording_is_restored_with_its_random_numbers():
    whole = Trial("whole.nc").train(20)
    stopped = Trial("run.nc")
    with pytest.raises(KeyboardInterrupt), stopped_after(stopped, 12):
        stopped.train(20)
    restored = Trial("run.nc")
    torch.rand(5, device="cuda")
    assert_equal(restored.train(20, restore=True), whole)
    one, other = (open_trajectory(path) for path in ("whole.nc", "run.nc"))
    for name, values in one.data_vars.items():
        np.testing.assert_array_equal(values, other[name], err_msg=name)
    assert one["activation.hidden"].sizes["step"] == 5


@contextlib.contextmanager
def stopped_after(trial, updates):
    """Raise KeyboardInterrupt in an update."""
    update, count = trial.update, itertools.count()

    def stop():
        if next(count) == updates:
            raise KeyboardInterrupt
        return update()

    trial.update = stop
    yield


def test_copies_of_a_recording_begin_at_its_state():
    trial = Trial("run.nc")
    end = trial.train(20)
    ends = []
    for _ in training_copies("run.nc", trial.model, trial.optimizer, 10, 2, 0.0):
        for _ in range(10):
            trial.update()
        ends.append(trial.weights())
    for weights in ends:
        assert_equal(weights, end)
    assert_equal(trial.weights(), end)
