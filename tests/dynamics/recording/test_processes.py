"""Recording of a training of two processes."""

import multiprocessing
import os

import numpy as np
import pytest
import torch
from numpy.testing import assert_allclose
from torch.optim.optimizer import _global_optimizer_pre_hooks

import dynamics
from dynamics.errors import RecordingError
from dynamics.recording.processes import is_first_process
from dynamics.settings import SettingsError

RANKS = 2
UPDATES = 5
INPUTS = torch.linspace(-1, 1, 4 * 6 * RANKS).reshape(RANKS, 6, 4)


def new_model():
    torch.manual_seed(1)
    layers = torch.nn.Linear(4, 3), torch.nn.Tanh(), torch.nn.Linear(3, 1)
    return torch.nn.Sequential(*layers)


def loss_of(model, inputs):
    return ((model(inputs) - inputs.sum(1, keepdim=True)) ** 2).mean()


def train(rank, folder, results):
    """Train the model with DDP and record it; put what happened into the queue."""
    os.chdir(folder)
    store = f"file://{folder}/processes"
    torch.distributed.init_process_group(
        "gloo", init_method=store, rank=rank, world_size=RANKS
    )
    model = torch.nn.parallel.DistributedDataParallel(new_model())
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
    evaluated = []

    def evaluate(module):
        evaluated.append(type(module).__name__)
        return {"loss": {"test": float(loss_of(module, INPUTS[0]))}}

    options = {"weights": True, "evaluate": evaluate}
    with dynamics.record(model, optimizer, "ddp.nc", **options) as recording:
        restored = recording.restore()
        for _ in range(UPDATES):
            optimizer.zero_grad()
            loss = loss_of(model, INPUTS[rank])
            loss.backward()
            optimizer.step()
            recording.step(loss=loss)
        hooks = len(_global_optimizer_pre_hooks)
    torch.distributed.barrier()
    messages = []

    def restore():
        with dynamics.record(model, optimizer, "ddp.nc") as again:
            again.restore()

    for attempt in (
        restore,
        lambda: dynamics.record(shard(model.module), optimizer, "fsdp.nc"),
    ):
        try:
            attempt()
        except (RecordingError, SettingsError) as error:
            messages.append(str(error))
    results.put((rank, restored, evaluated, hooks, messages))
    torch.distributed.barrier()
    torch.distributed.destroy_process_group()


def shard(model):
    """The model with parameters of which each process has a part."""
    from torch.distributed.fsdp import fully_shard

    return fully_shard(model)


def test_the_first_of_two_processes_records_the_mean_gradient(tmp_path):
    context = multiprocessing.get_context("fork")
    results = context.Queue()
    processes = [
        context.Process(target=train, args=(rank, str(tmp_path), results))
        for rank in range(RANKS)
    ]
    for process in processes:
        process.start()
    answers = [results.get(timeout=100) for _ in processes]
    found = {rank: rest for rank, *rest in answers}
    for process in processes:
        process.join()
    assert [process.exitcode for process in processes] == [0, 0]
    refused = ["restore() cannot continue", "of which each process has a shard"]
    for restored, _, _, messages in found.values():
        assert restored == 0
        assert all(
            text in message for text, message in zip(refused, messages, strict=True)
        )
    assert found[0][1:3] == [["Sequential"] * (UPDATES + 1), 1]
    assert found[1][1:3] == [[], 0]
    assert sorted(path.name for path in tmp_path.glob("*.nc")) == ["ddp.nc"]

    plain = new_model().double()
    trajectory = dynamics.open_trajectory(tmp_path / "ddp.nc")
    assert trajectory["layer"].values.tolist() == [
        n for n, _ in plain.named_parameters()
    ]
    for step in range(1, UPDATES + 1):
        plain.zero_grad()
        losses = torch.stack([loss_of(plain, part.double()) for part in INPUTS])
        losses.mean().backward()
        norms = [item.grad.norm().item() for item in plain.parameters()]
        frame = trajectory.sel(step=step).isel(run=0)
        assert_allclose(frame["gradient_norm"], norms, rtol=1e-4)
        assert_allclose(frame["update_norm"], 0.1 * np.array(norms), rtol=1e-4)
        assert_allclose(frame["loss"].sel(split="train"), losses[0].item(), rtol=1e-5)
        with torch.no_grad():
            for item in plain.parameters():
                item -= 0.1 * item.grad


@pytest.mark.parametrize(
    ("variables", "first"),
    [
        ({}, True),
        ({"RANK": "0", "LOCAL_RANK": "1"}, True),
        ({"RANK": "3"}, False),
        ({"LOCAL_RANK": "0", "NODE_RANK": "0"}, True),
        ({"LOCAL_RANK": "0", "NODE_RANK": "1"}, False),
        ({"LOCAL_RANK": "1"}, False),
        ({"SLURM_PROCID": "2"}, False),
    ],
)
def test_before_a_process_group_exists_the_launcher_says_who_records(
    tmp_path, monkeypatch, variables, first
):
    names = ("RANK", "LOCAL_RANK", "NODE_RANK", "SLURM_PROCID", "PMI_RANK")
    for name in (*names, "OMPI_COMM_WORLD_RANK"):
        monkeypatch.delenv(name, raising=False)
    for name, value in variables.items():
        monkeypatch.setenv(name, value)
    assert is_first_process() == first
    model = new_model()
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
    path = tmp_path / "m.nc"

    def record():
        with dynamics.record(model, optimizer, path) as recording:
            loss_of(model, INPUTS[0]).backward()
            optimizer.step()
            recording.step()

    if first:
        record()
    else:
        with pytest.warns(RuntimeWarning, match="nothing is recorded, as the launcher"):
            record()
    assert path.exists() == first
