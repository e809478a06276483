"""Compilation of the particle kernels for a law, a summation method and a number of
dimensions: about 15 s, once per machine.

A separate process compiles them into Numba's cache, so that the page stays responsive.
"""

import subprocess
import sys

import numpy as np

from dynamics.forces import bare_forces
from dynamics.particles.particle_system import ParticleSystem
from dynamics.settings import ParticleSettings
from dynamics.settings_text import setting_texts

_under_way: dict[ParticleSettings, subprocess.Popen[bytes] | None] = {}
"""The process that compiles the kernels of each `settings_of_kernels`, or None when they
are compiled."""

CODE = """
from analysis.explorer.kernel_warmup import compile_kernels
from dynamics.forces import Force
from dynamics.settings import ParticleSettings
compile_kernels(ParticleSettings({settings}))
"""


def settings_of_kernels(settings: ParticleSettings) -> ParticleSettings:
    """Settings of three particles for which the same kernels are compiled."""
    return ParticleSettings(
        n=3,
        dim=settings.dim,
        method="mesh" if settings.uses_mesh else "direct",
        law=bare_forces(settings.forces),
    )


def kernels_ready(kernels: ParticleSettings) -> bool:
    """Whether kernels are ready; if not, their compilation is started."""
    if kernels not in _under_way:
        silent = subprocess.DEVNULL
        code = CODE.format(settings=", ".join(setting_texts(kernels, form="code")))
        process = subprocess.Popen(
            [sys.executable, "-"], stdin=subprocess.PIPE, stdout=silent, stderr=silent
        )
        assert process.stdin is not None
        process.stdin.write(code.encode())
        process.stdin.close()
        _under_way[kernels] = process
    under_way = _under_way[kernels]
    return under_way is None or under_way.poll() is not None


def mark_kernels_ready(kernels: ParticleSettings) -> None:
    """Note that kernels have run in this process."""
    _under_way[kernels] = None


def compile_kernels(kernels: ParticleSettings) -> None:
    """Compile kernels by computing a force."""
    system = ParticleSystem(kernels)
    system.force(system.normalise(np.eye(3, kernels.dim)[None]))
