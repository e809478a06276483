"""Fixtures and strategies that several test modules share."""

import gc
import importlib
import multiprocessing
import os
import signal
import sys
from multiprocessing import forkserver
from pathlib import Path

# Tests run in several processes on small tensors, for which more than one thread in
# torch and BLAS takes longer.
os.environ["OMP_NUM_THREADS"] = "1"

import numpy as np
import pytest
from hypothesis import HealthCheck, settings

ROOT = Path(__file__).parent.parent
sys.path.insert(0, str(ROOT))

pytest_plugins = ["tests.browser"]

# A shell without job control has what it starts in the background ignore SIGINT, and so
# do all that these start.
if signal.getsignal(signal.SIGINT) is signal.SIG_IGN:
    signal.signal(signal.SIGINT, signal.default_int_handler)

# Compiling a kernel takes seconds the first time, so no example has a deadline;
# examples repeat from run to run.
for profile, examples in (("quick", 20), ("thorough", 40)):
    settings.register_profile(
        profile,
        deadline=None,
        max_examples=examples,
        derandomize=True,
        suppress_health_check=[HealthCheck.too_slow],
    )
settings.load_profile("quick")


def pytest_configure(config):
    """CUDA devices are hidden from all tests but those with the mark `cuda`, which
    `make gpu-check` runs alone: on a CUDA device the others would not be exact. They run
    kernels for CUDA in Numba's simulator.
    `make test-all` tries more examples than `make test`."""
    if config.option.markexpr != "cuda":
        os.environ["CUDA_VISIBLE_DEVICES"] = ""
        os.environ["NUMBA_ENABLE_CUDASIM"] = "1"
    if not config.option.markexpr:
        settings.load_profile("thorough")


@pytest.hookimpl(tryfirst=True)
def pytest_runtest_setup():
    """torch's global generator starts each test in the same state, so that a model
    without a seed is the same whatever tests came before."""
    if torch := sys.modules.get("torch"):
        torch.manual_seed(0)


def pytest_collection_finish():
    """What modules hold stays until the end, so that it need not be looked through each
    time when garbage is collected."""
    gc.collect()
    gc.freeze()


def pytest_collection_modifyitems(items):
    """Tests with the mark `cuda` are skipped without a CUDA device."""
    marked = [item for item in items if item.get_closest_marker("cuda")]
    if marked and not importlib.import_module("torch").cuda.is_available():
        for item in marked:
            reason = "no CUDA device, or not selected by -m cuda"
            item.add_marker(pytest.mark.skip(reason=reason))


SHARED = {
    "browser": ("tests/analysis/explorer/", "tests/analysis/test_explore.py"),
    "forkserver": (
        "tests/dynamics/sweeps/",
        "tests/dynamics/trajectory/test_recorder.py",
    ),
}
"""What takes long to start, and the tests that use it."""


@pytest.hookimpl(optionalhook=True)
def pytest_xdist_make_scheduler(config, log):
    """With `--dist loadfile`, files whose tests share a browser or a forkserver go to
    one process, as one file does."""
    from xdist.scheduler import LoadFileScheduling

    class Scheduling(LoadFileScheduling):
        def _split_scope(self, nodeid):
            file = super()._split_scope(nodeid)
            return next(
                (name for name, files in SHARED.items() if file.startswith(files)), file
            )

    return Scheduling(config, log) if config.getvalue("dist") == "loadfile" else None


@pytest.fixture
def environment():
    """The environment of a subprocess that finds the packages from anywhere."""
    return {**os.environ, "PYTHONPATH": str(ROOT)}


@pytest.fixture(scope="session")
def processes():
    """Starts Python processes that are forks of one that has imported the packages, so
    that each takes no time."""
    context = multiprocessing.get_context("forkserver")
    context.set_forkserver_preload(
        [
            "dask.array",
            "distributed",
            "dynamics.particles.particle_system",
            "dynamics.sweeps.run",
        ]
    )
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("PYTHONPATH", str(ROOT))
        forkserver.ensure_running()
    return context


@pytest.fixture
def generator():
    return np.random.default_rng(20240814)


@pytest.fixture
def diverging(generator):
    """Settings of two runs of five particles, of which the second's positions pass the
    limit at the first step."""
    from dynamics.settings import ParticleSettings

    x = generator.standard_normal((2, 5, 2))
    x[1] *= 9e37 / np.abs(x[1]).max()
    np.save("x.npy", x - x.mean(axis=1, keepdims=True))
    return ParticleSettings(n=5, variance="none", start="x.npy")


@pytest.fixture
def typed(monkeypatch, capsys):
    """A command in this process: its exit code, what it prints and what it says of
    errors."""
    before = signal.getsignal(signal.SIGTERM)

    def run(program, *words):
        from tests import commands

        code = 0
        program, *arguments = [*program.split(), *map(str, words)]
        monkeypatch.setattr("sys.argv", [program, *arguments])
        try:
            commands.run(program, arguments)
        except SystemExit as end:
            code = end.code
        return code, *capsys.readouterr()

    yield run
    signal.signal(signal.SIGTERM, before)


@pytest.fixture
def output_of(typed):
    """What a command prints that ends with an exit code of 0, or its error of one line
    for another exit code."""

    def run(command, *words, code=0):
        result, out, err = typed(*command.split(), *words)
        assert (result, err.count("\n")) == (code, bool(code)), err
        return err if code else out

    return run


@pytest.fixture
def computed(monkeypatch):
    """The settings of a sweep's ensembles that are computed, in their order."""
    from dynamics import Ensemble

    result, simulate = [], Ensemble.simulate

    def counting(ensemble, *arguments, **options):
        result.append(ensemble.settings)
        return simulate(ensemble, *arguments, **options)

    monkeypatch.setattr(Ensemble, "simulate", counting)
    return result
