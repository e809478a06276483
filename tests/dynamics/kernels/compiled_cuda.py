"""Compiles kernels for a CUDA device of compute capability 9.0 without a device, and
writes what the compiler says of them as JSON.

python -m tests.dynamics.kernels.compiled_cuda [PART OF THE NAME OF A CASE]

It needs numba-cuda, NVVM and NVRTC (nvidia-nvvm, nvidia-cuda-nvrtc); with ptxas
(nvidia-cuda-nvcc) on the path or in CUDA_HOME/bin, it gives registers and the bytes that
a thread keeps in local memory."""

import importlib
import importlib.util
import json
import math
import os
import re
import shutil
import subprocess
import sys
import tempfile
from functools import partial
from pathlib import Path
from unittest import mock

import numpy as np
from numba import cuda, typeof

from dynamics import ModularSettings, ParticleSettings, SparseSettings
from dynamics.forces import Force
from dynamics.kernels import cuda_launching
from dynamics.particles import ParticleSystem
from dynamics.particles.integrator import TRACK_ROWS
from dynamics.training.cuda_backends import block_plan
from tests.dynamics import test_optimizers  # noqa: F401 - registers lion, amsgrad ...
from tests.dynamics.training.block_backends import block_backend
from tests.laws import OWN_LAW

CAPABILITY = (9, 0)
COMPILED = {
    "modular": ModularSettings(),
    "modular, wide": ModularSettings(n=59, hidden=128),
    "modular, small": ModularSettings(n=2, hidden=1, dim=1),
    **{
        f"modular, {name}": ModularSettings(optimizer=name, weight_decay=0.0)
        for name in ("adamw", "sgd", "lion", "amsgrad", "clipped", "sign_descent")
    },
    "modular, momentum": ModularSettings(optimizer="sgd", momentum=0.9),
    "modular, gelu": ModularSettings(activation="gelu"),
    "modular, tanh": ModularSettings(activation="tanh"),
    "sparse": SparseSettings(),
    "sparse, tanh": SparseSettings(activation="tanh"),
    "sparse, unit, relu, no biases": SparseSettings(
        norm="unit", activation="relu", receptor_biases=False, output_bias=False
    ),
    "sparse, smooth, wide, adamw": SparseSettings(
        norm="rms-smooth", dim=5, hidden=100, vocab=7, batch=100, optimizer="adamw"
    ),
    "sparse, much data": SparseSettings(data=20_000, length=16),
}
"""Settings of networks whose kernels are compiled for a device."""


def own_strength(r):
    return math.exp(-r) / (1 + r * r)


PARTICLES = {
    "particles": ParticleSettings(),
    "particles, N = 59": ParticleSettings(n=59),
    "particles, noise, 3 axes": ParticleSettings(
        dim=3, alignment_balance="magnitude", temperature=0.1
    ),
    "particles, on a line": ParticleSettings(dim=1, law=OWN_LAW),
    "particles, own functions and tables": ParticleSettings(
        law=(
            Force("own", "all", "difference", own_strength),
            Force("table", "like", "other", "interp(c, [-1, 0.1, 1], [0, 1, -0.5])"),
            Force("powers", "unlike", "difference", "r**0.3 + r**2.5 + log(1 + r)"),
            Force("choice", "unlike", "other", "where(c**3 > 0.1, abs(c), min(c, 0))"),
        )
    ),
}
"""The same of particles."""


class HostArray(np.ndarray):
    """An array in place of one on a device."""

    def copy_to_host(self):
        return np.array(self)

    def copy_to_device(self, values):
        self[:] = values


class Device:
    compute_capability = CAPABILITY
    MAX_SHARED_MEMORY_PER_BLOCK_OPTIN = cuda_launching.MAX_SHARED_BYTES


def compiler_is_found():
    """Whether numba-cuda and the libraries of NVIDIA's compiler are installed."""
    if importlib.util.find_spec("numba_cuda") is None:
        return False
    pathfinder = importlib.import_module("cuda.pathfinder")
    try:
        for name in ("nvvm", "nvrtc"):
            pathfinder.load_nvidia_dynamic_lib(name)
    except pathfinder.DynamicLibNotFoundError:
        return False
    return True


def ptx_of(launches):
    """The name and the PTX of each launched kernel."""
    result = []
    for kernel, arguments in launches:
        types = tuple(
            typeof(np.asarray(item) if isinstance(item, np.ndarray) else item)
            for item in arguments
        )
        code, _ = cuda.compile_ptx(kernel.py_func, types, cc=CAPABILITY)
        result.append((kernel.py_func.__name__, code))
    return result


def launches_of(compute):
    """The kernels that a function launches, each with its arguments."""
    launches = []

    def launch(launcher, blocks, *arguments):
        launches.append((launcher.kernel, arguments))

    with mock.patch.object(cuda_launching.BlockLauncher, "launch", launch):
        compute()
    return launches


def train(settings):
    """Train and score networks."""
    backend = block_backend(settings, 2, plan=block_plan(settings))
    backend.train(0, 1)
    backend.scores()


def advance(settings):
    """Advance particles, with a block for each run and with several."""
    particles = ParticleSystem(settings, "cpu").device_particles
    x = np.zeros((2, settings.n, settings.dim))
    noise = x[:, None] if settings.temperature else None
    for in_blocks in (True, False):
        particles.runs_in_blocks = lambda runs, answer=in_blocks: answer
        particles.run(x, 1, np.ones((TRACK_ROWS, 2)), noise)


def assembled(ptx):
    """What ptxas says of a kernel; empty without ptxas."""
    folder = os.environ.get("CUDA_HOME")
    program = shutil.which("ptxas") or (folder and shutil.which(f"{folder}/bin/ptxas"))
    if not program:
        return {}
    with tempfile.TemporaryDirectory() as place:
        source = Path(place, "kernel.ptx")
        source.write_text(ptx)
        command = [program, "-v", "-arch=sm_90", str(source), "-o", f"{place}/cubin"]
        said = subprocess.run(command, check=True, capture_output=True, text=True)
    numbers = {
        "registers": r"Used (\d+) registers",
        "stack_bytes": r"(\d+) bytes stack frame",
        "spilled_bytes": r"(\d+) bytes spill stores",
    }
    return {
        name: int(re.search(pattern, said.stderr)[1])
        for name, pattern in numbers.items()
    }


def main(words):
    device = mock.patch.object(cuda.dispatcher, "get_current_device", lambda: Device)
    to_device = mock.patch.object(
        cuda, "to_device", lambda values: np.array(values).view(HostArray)
    )
    synchronize = mock.patch.object(cuda, "synchronize", lambda: None)
    with device, to_device, synchronize:
        cases = {
            **{name: partial(train, settings) for name, settings in COMPILED.items()},
            **{
                name: partial(advance, settings) for name, settings in PARTICLES.items()
            },
        }
        for name, compute in cases.items():
            if words and words[0] not in name:
                continue
            for kernel, ptx in ptx_of(launches_of(compute)):
                counts = {
                    word: len(re.findall(re.escape(word), ptx))
                    for word in (
                        "fma.rn.f32",
                        "fma.rn.f64",
                        "ld.shared.f32",
                        "ld.local",
                    )
                }
                row = {"case": name, "kernel": kernel, **counts, **assembled(ptx)}
                print(json.dumps(row), flush=True)


if __name__ == "__main__":
    main(sys.argv[1:])
