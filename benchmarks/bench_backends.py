"""Training of CA's network by both CPU backends against a plain torch loop, over sizes
and numbers of runs.

python -m benchmarks.bench_backends    # prints the table of benchmarks/README.md, in some 15 minutes
"""

import itertools
import math
import statistics
import sys
import time
from collections.abc import Callable, Iterable
from pathlib import Path

import numpy as np

from dynamics import cost_model
from dynamics.ensemble import create_system
from dynamics.kernels.compiling import numba_threads
from dynamics.kernels.simd import LANES_32
from dynamics.networks.constant_attention import ConstantAttention
from dynamics.networks.threads import single_torch_thread
from dynamics.settings import ModularSettings
from dynamics.training.backends import Backend
from dynamics.training.modular_backends import ModularBlasBackend, ModularSimdBackend

sys.path.insert(
    0, str(Path(__file__).parent.parent)
)  # for tests.plain_torch, which no package installs

from tests.plain_torch import Run

SIZES = list(itertools.product((17, 59, 113), (32, 128, 512, 2048), (2, 32, 256)))
RUNS = (1, 4, 16, 400)
SECONDS, ROUNDS = 0.06, 5


def plain_epochs(s: ModularSettings) -> Callable[[int], None]:
    """A function that trains a plain module of one run for a number of epochs."""
    run = Run(s, 0)

    def train(epochs: int) -> None:
        for _ in range(epochs):
            run.step()

    return train


def backend_epochs(
    kind: Callable[..., Backend], s: ModularSettings, runs: int
) -> Callable[[int], None]:
    """A function that trains an ensemble with a backend for a number of epochs."""
    network, seeds = ConstantAttention(s), np.arange(runs)
    backend, rows = kind(network, seeds), network.flatten(network.initial(seeds))
    backend.set_state(
        rows, {name: np.zeros_like(rows) for name in s.optimizer_value.moments}, 0
    )
    return lambda epochs: backend.train(0, epochs)


def epoch_times(
    trainings: Iterable[Callable[[int], None]], clock: Callable[[], float]
) -> list[float]:
    """The median time of an epoch of each function, from interleaved measurements."""

    def seconds(train: Callable[[int], None], epochs: int) -> float:
        begin = clock()
        train(epochs)
        return (clock() - begin) / epochs

    counted = []
    for train in trainings:
        train(1)
        counted.append((train, max(1, int(SECONDS / seconds(train, 1)))))
    rounds = [[seconds(*item) for item in counted] for _ in range(ROUNDS)]
    return [statistics.median(times) for times in zip(*rounds, strict=True)]


def measured_times(
    s: ModularSettings, runs: int = 1, clock: Callable[[], float] = time.process_time
) -> list[float]:
    """Seconds of an epoch: of one run in a plain loop, and of all runs with the
    backends "simd" and "blas"."""
    kinds = ModularSimdBackend, ModularBlasBackend
    return epoch_times(
        [plain_epochs(s), *(backend_epochs(kind, s, runs) for kind in kinds)], clock
    )


def print_table() -> None:
    """Print the speed-up of the chosen backend over the plain loop, in processor time
    on one thread.

    On lanes up to sixteen runs take the time of sixteen, and others a multiple of it.
    """
    print(
        "| N | hidden | dim | plain, ms | 16 runs simd | one run blas |",
        *(f"{runs} runs |" for runs in RUNS),
    )
    print("|---" * (6 + len(RUNS)) + "|")
    for n, hidden, dim in SIZES:
        s = ModularSettings(n=n, hidden=hidden, dim=dim)
        plain, block, alone = measured_times(s)
        cells = []
        for runs in RUNS:
            seconds = {"simd": block * math.ceil(runs / LANES_32), "blas": alone * runs}
            expected = cost_model.epoch_seconds(s, runs)
            chosen = min(expected, key=expected.__getitem__)
            cells.append(f"{runs * plain / seconds[chosen]:.2g} {chosen} |")
        print(
            f"| {n} | {hidden} | {dim} | {1e3 * plain:.3g} | {1e3 * block:.3g} |"
            f" {1e3 * alone:.3g} |",
            *cells,
            flush=True,
        )


class SpeedUp:
    """Epochs of each run with the chosen backend relative to a plain loop, in processor
    time on one thread."""

    params = ([17, 113], [32, 512], [2, 256], [1, 16])
    param_names = ("n", "hidden", "dim", "runs")
    unit = "times"
    timeout = 600

    def track_processor_time(self, n, hidden, dim, runs):
        s = ModularSettings(n=n, hidden=hidden, dim=dim)
        with single_torch_thread(), numba_threads(1):
            plain, simd, blas = measured_times(s, runs)
        chosen = create_system(s, "cpu", runs=runs).backend_name
        return runs * plain / {"simd": simd, "blas": blas}[chosen]


if __name__ == "__main__":
    with single_torch_thread(), numba_threads(1):
        print_table()
