"""Kernels of particles in so many dimensions, which are compiled once on a machine and take some 15 s.

A process of its own does it and leaves them in Numba's cache, so that the page goes on meanwhile, for others too.
"""

import subprocess
import sys

import numpy as np

from dynamics.particles.system import ParticleSystem
from dynamics.settings import ParticleSettings

_under_way: dict[int, "subprocess.Popen[bytes] | None"] = {}
"""By dimension; None is there already."""

CODE = "import sys; from analysis.explorer.kernel_warmup import compile; compile(int(sys.argv[1]))"


def kernels_ready(dim: int) -> bool:
    """Whether particles of so many dimensions move at once. If not, it is seen to that they soon will."""
    if dim not in _under_way:
        silent = subprocess.DEVNULL
        command = [sys.executable, "-c", CODE, str(dim)]
        _under_way[dim] = subprocess.Popen(command, stdin=silent, stdout=silent, stderr=silent)
    process = _under_way[dim]
    return process is None or process.poll() is not None


def mark_kernels_ready(dim: int) -> None:
    """Particles of so many dimensions have moved in this process."""
    _under_way[dim] = None


def compile_kernels(dim: int) -> None:
    """Move particles of so many dimensions."""
    ParticleSystem(ParticleSettings(n=3, dim=dim)).initial(np.array([0]))
