"""The expected processor time of training the constant-attention network (CA) with each
backend on a CPU.

The time of an epoch is a sum of counts of operations times coefficients, which were
fitted to the grid of `benchmarks/bench_backends.py` on one core of an AMD EPYC (Zen 5).
They are constants, so that the choice of a backend, on which the last bits of a run
depend, is the same on every machine. On lanes sixteen runs or fewer take the same time,
and memory that does not fit into a core's cache makes them slower; matrix products take
the same time for each run."""

import math

from dynamics.settings import ModularSettings

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
