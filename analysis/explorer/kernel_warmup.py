"""Compilation of the particle kernels for a number of dimensions, which takes about 15 s, once per machine.

A separate process compiles them into Numba's cache, so that the page stays responsive.
"""

import subprocess
import sys

import numpy as np

from dynamics.particles.system import ParticleSystem
from dynamics.settings import ParticleSettings

_under_way: dict[int, subprocess.Popen[bytes] | None] = {}
"""Compilation processes by number of dimensions; None if the kernels are ready."""

CODE = "import sys; from analysis.explorer.kernel_warmup import compile_kernels; compile_kernels(int(sys.argv[1]))"


def kernels_ready(dim: int) -> bool:
    """Whether the kernels of a dimension are ready; if not, their compilation is started."""
    if dim not in _under_way:
        silent = subprocess.DEVNULL
        command = [sys.executable, "-c", CODE, str(dim)]
        _under_way[dim] = subprocess.Popen(command, stdin=silent, stdout=silent, stderr=silent)
    process = _under_way[dim]
    return process is None or process.poll() is not None


def mark_kernels_ready(dim: int) -> None:
    """Note that the kernels of a dimension have run in this process."""
    _under_way[dim] = None


def compile_kernels(dim: int) -> None:
    """Compile the kernels of a dimension by advancing particles."""
    ParticleSystem(ParticleSettings(n=3, dim=dim)).initial(np.array([0]))
