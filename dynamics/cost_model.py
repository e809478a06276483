"""The expected time of training networks and of particles: that of the
constant-attention network (CA) with each backend on a CPU, and that of each system on a
CPU and on a CUDA device.

On a CPU the time of an epoch of CA's network is a sum of counts of operations times coefficients, which were
fitted to the grid of `benchmarks/bench_backends.py` on one core of an AMD EPYC (Zen 5).
They are constants, so that the choice of a backend, on which the last bits of a run
depend, is the same on every machine. On lanes sixteen runs or fewer take the same time,
and memory that does not fit into a core's cache makes them slower; matrix products take
the same time for each run."""

import math
from typing import Any

from dynamics.settings import (
    ModularSettings,
    ParticleSettings,
    SparseSettings,
    TransformerSettings,
)

LANES = 16
"""Runs that are trained together on lanes; `dynamics.kernels.simd.LANES_32`, which
needs a compiler to be imported."""

CACHED_OUTPUTS, CACHED_PARAMETERS = 2**13, 2**15
"""Sizes of the output layer and of all parameters from which sixteen runs on lanes no
longer fit into the cache."""


def epoch_seconds(s: ModularSettings, runs: int) -> dict[str, float]:
    """Expected seconds of an epoch of all runs on one thread, by backend."""
    outputs = s.n * s.hidden
    inputs = s.n * s.hidden * s.dim
    parameters = s.n * s.dim + s.hidden * (s.dim + 1) + outputs + s.n
    beyond_cache = (
        min(1.0, outputs / CACHED_OUTPUTS),
        min(1.0, parameters / CACHED_PARAMETERS),
    )
    block = s.pairs * outputs * (1.1e-9 + 2.5e-9 * beyond_cache[0]) + inputs * (
        1.5e-9 + 3.6e-9 * beyond_cache[1]
    )
    on_pairs = s.train_pairs * (6.5e-11 * outputs + 1.9e-9 * s.hidden + 2.4e-9 * s.n)
    one_run = 1.1e-4 + on_pairs + 1.5e-10 * inputs + 8e-10 * parameters
    return {"simd": block * math.ceil(runs / LANES), "blas": one_run * runs}


# ------------------------------------------------------------------------ a CUDA device
#
# Numbers of an NVIDIA H100 and of 16 cores of its host; each says whether it was measured.

HOST_CORE = 3.5
"""Time of a core of that host beside the core of `epoch_seconds`. Measured with 400 runs
of CA's network: 531,000 run-epochs a second."""
SPARSE_CORE_WORK = 1.1e-7
"""Seconds of a core for a sequence of sixteen runs and a hidden unit or position.
Measured with 100 runs of VC's head: 10,200 run-epochs a second."""
TRANSFORMER_CORES_WORK = 7.4e-9
"""Seconds of 16 cores for a pair, a block and a number of its width. Measured with 8
runs: 58 to 98 run-epochs a second."""

MODULAR_TORCH_WORK = 1.2e-10
"""Seconds of torch for a run, a pair and a hidden unit. Measured with 400 runs of CA's
network: 1.2 million run-epochs a second."""
SPARSE_TORCH_UPDATE = 3.1e-4
"""Seconds of an update of VC's head with torch. Measured with 100 runs: 4,960 run-epochs
a second."""
TRANSFORMER_TORCH_WORK = 2.6e-10
"""Seconds of torch for a pair, a block and a number of its width. Measured with 8 runs:
1,600 to 2,100 run-epochs a second."""
TRANSFORMER_UPDATE = 5e-4
"""Seconds of an update of a transformer without its work. Measured on the device; an
estimate on a CPU."""

LAUNCH = 1e-4
"""Seconds in which the host starts an update with torch. An estimate, not measured."""
FRAME = 5e-4
"""Seconds in which the host starts kernels and copies a frame, if each epoch is
recorded. An estimate, not measured."""
RESIDENT_BLOCKS = 396
"""Runs of a small network that train at a time, a block of threads each: three blocks on
each of 132 multiprocessors. An estimate, not measured."""
MODULAR_BLOCK_WORK = 2.4e-10
"""Seconds of a block for a pair, a class and a hidden unit. An estimate, not measured:
20 microseconds for an update of CA's network."""
SPARSE_BLOCK_WORK = 2.5e-9
"""Seconds of a block for a sequence and a hidden unit or position. An estimate, not
measured: 3.5 microseconds for an update of VC's head."""

PARTICLE_CORE_WORK = 1.5e-8
"""Seconds of a core for two pair sums of eight runs under CA's law, or for a pair sum and
eight others of one run. Measured on a core that was not one of that host, and shared."""
PARTICLE_LANES = 8
"""Lanes of a core; `dynamics.kernels.simd.LANES_64`. Each is a run, or a pair sum of one
run, whose threads share its pair sums. Then each pair is visited twice."""
PARTICLE_DEVICE_WORK = 5e-12
"""Seconds of the device for one pair sum and another one under CA's law, if all its
multiprocessors compute. An estimate, not measured: 50 instructions, of float64."""
PARTICLE_THREAD_WORK = 3e-7
"""Seconds of a thread for the same, if there are few. An estimate, not measured."""
PARTICLE_TRANSFER = 1e-10
"""Seconds in which a byte of a frame is copied to the device, or back. An estimate, not
measured."""


def device_seconds(
    settings: Any, runs: int, cores: int, backend: str
) -> dict[str, float]:
    """Expected seconds of an epoch of all runs, or of a step of particles, each of them
    recorded, by kind of device.

    cores: those of the host. backend: on the CUDA device."""
    return {
        "cpu": _cpu_seconds(settings, runs, cores),
        "cuda": _cuda_seconds(settings, runs, backend),
    }


def _cpu_seconds(s: Any, runs: int, cores: int) -> float:
    if isinstance(s, ParticleSettings):
        across = math.ceil(runs / PARTICLE_LANES / cores) / 2
        within = runs / PARTICLE_LANES / cores
        return PARTICLE_CORE_WORK * _pair_sums(s) ** 2 * min(across, within)
    blocks = math.ceil(runs / LANES)
    rounds = math.ceil(blocks / cores)
    if isinstance(s, ModularSettings):
        seconds = epoch_seconds(s, runs)
        lanes = seconds["simd"] / blocks * rounds
        return HOST_CORE * min(lanes, seconds["blas"] / min(cores, runs))
    if isinstance(s, SparseSettings):
        return SPARSE_CORE_WORK * s.data * (s.hidden + s.length) * rounds
    least = TRANSFORMER_UPDATE * s.epoch_steps * math.ceil(runs / cores)
    work = TRANSFORMER_CORES_WORK * 16 / cores
    return least + work * _transformer_numbers(s) * runs


def _cuda_seconds(s: Any, runs: int, backend: str) -> float:
    if isinstance(s, ParticleSettings):
        pairs = _pair_sums(s)
        work = max(PARTICLE_DEVICE_WORK * pairs**2 * runs, PARTICLE_THREAD_WORK * pairs)
        return FRAME + work + PARTICLE_TRANSFER * 16 * s.n * s.dim * runs
    rounds = math.ceil(runs / RESIDENT_BLOCKS)
    if isinstance(s, ModularSettings) and backend == "blocks":
        return FRAME + MODULAR_BLOCK_WORK * s.pairs * s.n * s.hidden * rounds
    if isinstance(s, ModularSettings):
        return LAUNCH + MODULAR_TORCH_WORK * s.pairs * s.hidden * runs
    if isinstance(s, SparseSettings) and backend == "blocks":
        return FRAME + SPARSE_BLOCK_WORK * s.data * (s.hidden + s.length) * rounds
    if isinstance(s, SparseSettings):
        return SPARSE_TORCH_UPDATE * s.epoch_steps * math.ceil(runs / 400)
    least = TRANSFORMER_UPDATE * s.epoch_steps
    return least + TRANSFORMER_TORCH_WORK * _transformer_numbers(s) * runs


def _pair_sums(s: ParticleSettings) -> int:
    return s.n * (s.n + 1) // 2


def _transformer_numbers(s: TransformerSettings) -> float:
    """Pairs times blocks times their width."""
    return s.pairs * s.layers * s.width
