"""Ensembles of clustering heads (VC): run-epochs per second, compared with a torch
DataLoader loop."""

import statistics
import sys
import time
from pathlib import Path

import numpy as np
import torch

from dynamics.settings import SparseSettings
from dynamics.training.minibatches import epoch_orders
from dynamics.training.training_systems import SparseSystem

sys.path.insert(
    0, str(Path(__file__).parent.parent)
)  # for tests.plain_head, which no package installs

from tests.plain_head import Run

DEVICES = ["cpu", "cuda"] if torch.cuda.is_available() else ["cpu"]


def ensemble_rate(
    settings: SparseSettings, runs: int, device: str, epochs: int, scored: bool = True
) -> float:
    """Run-epochs per second, with or without evaluation on all splits after each
    epoch."""
    system = SparseSystem(settings, device)
    state = system.advance(
        system.initial(np.arange(runs)), 3
    )  # compiled, captured and warm
    system.observe(state)
    begin = time.perf_counter()
    for _ in range(epochs):
        state = system.advance(state, settings.epoch_steps)
        if scored:
            system.observe(state)
    return runs * epochs / (time.perf_counter() - begin)


def alone_rate(
    settings: SparseSettings, threads: int, scored: bool = True, epochs: int = 6
) -> float:
    """Epochs per second of a single torch.nn.Module with a DataLoader."""
    before = torch.get_num_threads()
    torch.set_num_threads(threads)
    try:
        run = Run(settings, 0)
        run.epoch()
        begin = time.perf_counter()
        for _ in range(epochs):
            run.epoch()
            if scored:
                run.scores("train")
                run.scores("test")
        return epochs / (time.perf_counter() - begin)
    finally:
        torch.set_num_threads(before)


class Throughput:
    """The default settings with other sizes, with evaluation after each epoch."""

    params = ([1, 16, 100, 400], [32, 128], [2, 3, 10], DEVICES)
    param_names = ("runs", "hidden", "vocab", "device")
    unit = "run-epochs/s"
    timeout = 600

    def track_ensemble(self, runs, hidden, vocab, device):
        settings = SparseSettings(hidden=hidden, vocab=vocab)
        return statistics.median(
            ensemble_rate(settings, runs, device, 4) for _ in range(3)
        )


class Batches:
    """Mini-batches of one sequence up to all sequences."""

    params = ([1, 8, 32, 256, 2048], DEVICES)
    param_names = ("batch", "device")
    unit = "run-epochs/s"
    timeout = 600

    def track_batches(self, batch, device):
        return statistics.median(
            ensemble_rate(SparseSettings(batch=batch), 100, device, 4) for _ in range(3)
        )


class SpeedUp:
    """Median throughput relative to single runs trained one after the other, on the
    faster of one and two threads."""

    params = ([1, 16, 100, 400], [True, False], DEVICES)
    param_names = ("runs", "scored", "device")
    unit = "times"
    timeout = 600

    def track_against_one_run_at_a_time(self, runs, scored, device):
        ours, theirs, settings = [], [], SparseSettings()
        for _ in range(5):
            ours.append(ensemble_rate(settings, runs, device, 5, scored))
            theirs.append([alone_rate(settings, threads, scored) for threads in (1, 2)])
        return statistics.median(ours) / max(
            statistics.median(their) for their in zip(*theirs, strict=True)
        )


class Parts:
    """Steps outside the kernels."""

    def setup(self):
        self.seeds = np.arange(100)

    def time_orders_of_a_hundred_runs(self):
        epoch_orders(self.seeds, 7, 2048)

    def time_begin_a_hundred_runs(self):
        SparseSystem(SparseSettings(), "cpu").initial(self.seeds)
