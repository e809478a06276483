"""Ensembles of constant-attention networks (CA): run-epochs per second, compared with
single torch runs."""

import statistics
import sys
import tempfile
import time
from pathlib import Path

import numpy as np
import torch

from analysis import committor
from dynamics.settings import ModularSettings
from dynamics.simulation import simulate
from dynamics.training.training_systems import ModularSystem

sys.path.insert(
    0, str(Path(__file__).parent.parent)
)  # for tests.plain_torch, which no package installs

from tests.plain_torch import Run

DEVICES = ["cpu", "cuda"] if torch.cuda.is_available() else ["cpu"]
EPOCHS, ALONE = 200, 400


def ensemble_rate(runs: int, device: str, epochs: int = EPOCHS) -> float:
    """Run-epochs per second between two recorded frames."""
    system = ModularSystem(ModularSettings(), device)
    state = system.advance(
        system.initial(np.arange(runs)), 3
    )  # compiled, captured and warm
    begin = time.perf_counter()
    system.observe(system.advance(state, epochs))
    return runs * epochs / (time.perf_counter() - begin)


def alone_rate() -> float:
    """Epochs per second of a single torch.nn.Module, on all threads that torch uses."""
    run = Run(ModularSettings(), 0)
    for _ in range(20):
        run.step()
    begin = time.perf_counter()
    for _ in range(ALONE):
        run.step()
    return ALONE / (time.perf_counter() - begin)


class Throughput:
    """Training without recording."""

    params = ([1, 16, 100, 400, 1600], DEVICES)
    param_names = ("runs", "device")
    unit = "run-epochs/s"
    timeout = 600

    def track_ensemble(self, runs, device):
        return statistics.median(ensemble_rate(runs, device) for _ in range(5))


class SpeedUp:
    """Median throughput relative to single runs trained one after the other."""

    params = ([1, 16, 100, 400], DEVICES)
    param_names = ("runs", "device")
    unit = "times"
    timeout = 600

    def track_against_one_run_at_a_time(self, runs, device):
        rates = [(ensemble_rate(runs, device), alone_rate()) for _ in range(5)]
        return statistics.median(ours for ours, _ in rates) / statistics.median(
            theirs for _, theirs in rates
        )


class Committors:
    """Committors of 50 runs of 2000 epochs at 12 steps, by a tenth of 100 copies."""

    timeout = 1800
    number = 1
    repeat = 1

    def setup(self):
        self.folder = tempfile.TemporaryDirectory()
        out = Path(self.folder.name) / "modular.nc"
        settings = ModularSettings(weight_decay=1.0)
        self.source = simulate(settings, runs=50, every=100, out=out, progress=False)
        committor(self.source, "circle", [1999], 2)  # compiled and warm

    def teardown(self):
        self.source.close()
        self.folder.cleanup()

    def time_committor(self):
        committor(self.source, "circle", 12, 10, 0.2)


class Table1:
    """A row of CA table 1: 100 runs of 2000 epochs, every tenth recorded."""

    params = (["in memory", "a file"],)
    param_names = ("where",)
    timeout = 600
    number = 1
    repeat = 3

    def setup(self, where):
        self.folder = tempfile.TemporaryDirectory()
        ensemble_rate(100, "cpu", 5)

    def teardown(self, where):
        self.folder.cleanup()

    def time_row(self, where):
        out = Path(self.folder.name, "row.nc") if where == "a file" else None
        simulate(
            ModularSettings(),
            runs=100,
            out=out,
            overwrite=True,
            progress=False,
            device="cpu",
        ).close()
