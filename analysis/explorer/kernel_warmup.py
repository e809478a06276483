"""Compilation of the particle kernels for a summation method and a number of
dimensions: about 15 s, once per machine.

A separate process compiles them into Numba's cache, so that the page stays responsive.
"""

import subprocess
import sys
from typing import NamedTuple

import numpy as np

from dynamics.particles.particle_system import ParticleSystem
from dynamics.settings import ParticleSettings, SumMethod


class Kernels(NamedTuple):
    """Which kernels a run needs: those for a number of dimensions and a method of
    summation."""

    dim: int
    method: SumMethod


_under_way: dict[Kernels, subprocess.Popen[bytes] | None] = {}
"""Compilation processes; None if the kernels are ready."""

CODE = """
import sys
from analysis.explorer.kernel_warmup import Kernels, compile_kernels
compile_kernels(Kernels(int(sys.argv[1]), sys.argv[2]))
"""


def kernels_of(n: int, dim: int) -> Kernels:
    """The kernels that N particles need."""
    uses_mesh = ParticleSettings(n=n, dim=dim).uses_mesh
    return Kernels(dim, "mesh" if uses_mesh else "direct")


def kernels_ready(kernels: Kernels) -> bool:
    """Whether kernels are ready; if not, their compilation is started."""
    if kernels not in _under_way:
        silent = subprocess.DEVNULL
        command = [sys.executable, "-c", CODE, str(kernels.dim), kernels.method]
        _under_way[kernels] = subprocess.Popen(
            command, stdin=silent, stdout=silent, stderr=silent
        )
    process = _under_way[kernels]
    return process is None or process.poll() is not None


def mark_kernels_ready(kernels: Kernels) -> None:
    """Note that kernels have run in this process."""
    _under_way[kernels] = None


def compile_kernels(kernels: Kernels) -> None:
    """Compile kernels by advancing particles."""
    ParticleSystem(
        ParticleSettings(n=3, dim=kernels.dim, method=kernels.method)
    ).initial(np.array([0]))
