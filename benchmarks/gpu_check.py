"""Check a GPU against the CPU: one update on both, a table of speeds, and the CUDA tests.
Writes one JSON file, anew after each line of it.

python -m benchmarks.gpu_check
python -m benchmarks.gpu_check --device simulator --no-tests
python -m benchmarks.gpu_check --device cpu --no-tests

The second line runs everything at small sizes in Numba's simulator of a GPU. The third
compares the CPU with itself. The exit status is 0 if all agrees, 1 if a test fails or a
difference is above its tolerance, and 3 if there is no CUDA device. What does not fit
into the time is left out, and the file says so."""

import argparse
import gc
import json
import os
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from datetime import UTC, datetime
from pathlib import Path
from typing import Any, NamedTuple
from xml.etree import ElementTree

import numpy as np
import torch

from dynamics.ensemble import create_system
from dynamics.settings import (
    ModularSettings,
    ParticleSettings,
    Settings,
    SparseSettings,
    TransformerSettings,
)
from dynamics.system import SYSTEM_KINDS, System, numba_cuda_is_installed
from dynamics.trajectory.description import (
    METRIC_VARIABLES,
    git_commit,
    package_versions,
)

AGREES, DIFFERS, NO_DEVICE = 0, 1, 3
"""Exit statuses."""
TOLERANCE = 1e-4
"""Largest norm of a variable's difference between the devices after one update of the
same state, relative to the norm of the variable's change in this update, or of its
value for losses, accuracies and norms. More updates tell less: where a gradient is
small, Adam magnifies its rounding, and CPUs with other kernels soon differ by 0.01."""
SECONDS = 480
"""Time for everything."""
MEASURED_SECONDS = 2.0
"""Time in which a speed is measured."""
HOST_RUNS = 1000
"""With more runs neither the CPU nor torch is faster, and they are not measured."""


class Case(NamedTuple):
    """Ensembles that are trained on both devices."""

    settings: Settings
    compared: int
    """Runs that are compared"""
    runs: tuple[int, ...]
    """Numbers of runs whose speed is measured"""
    updates: int = 20
    """Number of updates on the CPU before the one that both devices make"""
    on_device: Settings | None = None
    """Other settings with which the device computes, as it has no fast sums"""

    def settings_of(self, way: "Way") -> Settings:
        """The settings of the case on the device of a way of computing."""
        if way.device == "cpu" or self.on_device is None:
            return self.settings
        return self.on_device


CASES = {
    "constant-attention networks": Case(ModularSettings(), 400, (100, 1000, 10_000)),
    "clustering heads": Case(SparseSettings(), 100, (100, 1000, 10_000)),
    "transformers, constant attention": Case(
        TransformerSettings(attention_rate=0.0), 8, (1, 8, 48)
    ),
    "transformers, softmax attention": Case(TransformerSettings(), 8, (1, 8, 48)),
    "particles, N = 17": Case(ParticleSettings(n=17), 100, (100, 200_000)),
    "particles, N = 59": Case(ParticleSettings(n=59), 2, (1, 1000)),
    **{
        f"particles, N = {n}": Case(
            ParticleSettings(n=n),
            0,
            (1,),
            on_device=ParticleSettings(n=n, method="direct"),
        )
        for n in (199, 997)
    },
}
SMALL_CASES = {
    "constant-attention networks": Case(ModularSettings(n=4, hidden=3), 2, (2,), 2),
    "clustering heads": Case(
        SparseSettings(length=4, sparsity=2, data=9, batch=4, hidden=3), 2, (2,), 2
    ),
    "transformers": Case(TransformerSettings(n=5, dim=8, heads=2), 2, (1,), 4),
    "particles": Case(ParticleSettings(n=4, temperature=0.1), 2, (2,), 2),
}
"""Cases for the simulator."""


class Way(NamedTuple):
    """A device with one of its backends; the backend is empty without a choice."""

    device: str
    backend: str

    @property
    def name(self) -> str:
        return self.backend or self.device


def ways(settings: Settings, device: str) -> list[Way]:
    """The ways in which a device computes a system."""
    kind = SYSTEM_KINDS[settings.system]
    if device == "cpu":
        return [Way("cpu", "")]
    is_particles = isinstance(settings, ParticleSettings)
    if device == "simulator":
        has_kernels = is_particles or kind.cuda_backends
        return [Way(device, "" if is_particles else "blocks")] if has_kernels else []
    if is_particles and not kind.finds_cuda():
        return []
    backends = kind.cuda_backends or ("",)
    if not numba_cuda_is_installed():
        backends = tuple(name for name in backends if name != "blocks")
    return [Way(device, backend) for backend in backends]


def make_system(settings: Settings, way: Way, runs: int) -> System:
    """The system that computes an ensemble in one way."""
    if way.device == "simulator":
        system = create_system(settings, "cpu", runs=runs)
        system.backend_name = way.backend
        if isinstance(settings, ParticleSettings):
            system.device = "cuda"
        return system
    return create_system(settings, way.device, runs=runs, backend=way.backend or "auto")


# ---------------------------------------------------------------------- what is measured


def compare_devices(case: Case, way: Way) -> list[dict[str, Any]]:
    """The differences of all recorded variables between the CPU and a device after one
    update of the same state."""
    cpu = Way("cpu", "")
    here = make_system(case.settings_of(cpu), cpu, case.compared)
    there = make_system(case.settings_of(way), way, case.compared)
    state = here.advance(here.initial(np.arange(case.compared)), case.updates)
    before, arrays = here.observe(state), here.checkpoint(state)
    ours, other = (
        system.observe(system.advance(system.restore(arrays), 1))
        for system in (here, there)
    )
    rows = []
    for name, values in ours.items():
        values = values.astype(np.float64)
        size = values if name in METRIC_VARIABLES else values - before[name]
        norm = float(np.linalg.norm(size)) or 1.0
        difference = float(np.linalg.norm(values - other[name])) / norm
        agrees = difference <= TOLERANCE
        rows.append({"variable": name, "difference": difference, "agrees": agrees})
    return rows


def measure_speed(settings: Settings, way: Way, runs: int) -> dict[str, Any]:
    """Run-epochs a second between two frames, after a warm-up that compiles kernels and
    captures graphs; with kernels of this package also what they take of the device. Of
    particles, run-steps."""
    memory = DeviceMemory(settings, way)
    system = make_system(settings, way, runs)
    begin = time.perf_counter()
    state = system.advance(system.initial(np.arange(runs)), 3)
    system.observe(state)
    warm_up = time.perf_counter() - begin
    steps = settings.epoch_steps or 1
    epochs = 1
    while True:
        begin = time.perf_counter()
        state = system.advance(state, epochs * steps)
        system.observe(state)
        seconds = time.perf_counter() - begin
        if seconds > MEASURED_SECONDS / 4 or way.device == "simulator":
            break
        epochs *= max(2, min(100, int(MEASURED_SECONDS / 2 / max(seconds, 1e-6))))
    return {
        "rate": runs * epochs / seconds,
        "epochs": epochs,
        "seconds": seconds,
        "warm_up_seconds": warm_up,
        "bytes": memory.most(),
        **kernel_numbers(system),
    }


def kernel_numbers(system: Any) -> dict[str, Any]:
    """What the kernels of this package take of the device, and the time of their last
    launch."""
    if isinstance(system.settings, ParticleSettings) and system.device != "cpu":
        particles = system.device_particles
        updates, seconds = particles.launches.last
        launchers = ("block_mover", "mover", "pair_sums", "pair_fields")
        return {
            "launch_updates": updates,
            "launch_seconds": seconds,
            **{name: getattr(particles, name).occupancy() for name in launchers},
        }
    if system.backend_name != "blocks":
        return {}
    backend = system._trainer.trainers[0].backend
    updates, seconds = backend.launches.last
    return {
        "launch_updates": updates,
        "launch_seconds": seconds,
        "trainer": backend.trainer.occupancy(),
        "scorer": backend.scorer.occupancy(),
    }


class DeviceMemory:
    """The memory that torch takes on a device from now on."""

    def __init__(self, settings: Settings, way: Way) -> None:
        by_torch = settings.system != "particles" and way.backend != "blocks"
        self.counts = way.device == "cuda" and by_torch
        if self.counts:
            gc.collect()
            torch.cuda.empty_cache()
            torch.cuda.reset_peak_memory_stats()
            self.before = torch.cuda.memory_allocated()

    def most(self) -> int | None:
        """The most bytes so far; None where torch does not compute."""
        if self.counts:
            return torch.cuda.max_memory_allocated() - self.before
        return None


def run_cuda_tests(seconds: float) -> dict[str, Any]:
    """Numbers of CUDA tests that pass, fail and are skipped; they end after some
    seconds."""
    root = Path(__file__).parent.parent
    with tempfile.TemporaryDirectory() as folder:
        report = Path(folder, "tests.xml")
        command = [
            sys.executable,
            "-m",
            "pytest",
            "-m",
            "cuda",
            f"--junitxml={report}",
            "tests",
        ]
        try:
            subprocess.run(command, cwd=root, check=False, timeout=seconds)
        except subprocess.TimeoutExpired:
            return {"passed": 0, "failed": 0, "skipped": 0, "ended": "no time left"}
        suite = next(ElementTree.parse(report).getroot().iter("testsuite"))
    count = {
        name: int(suite.attrib[name])
        for name in ("tests", "failures", "errors", "skipped")
    }
    failed, skipped = count["failures"] + count["errors"], count["skipped"]
    return {
        "passed": count["tests"] - failed - skipped,
        "failed": failed,
        "skipped": skipped,
    }


# ------------------------------------------------------------------------------ the check


class Report:
    """The JSON file, written anew after each line."""

    def __init__(self, path: Path, device: str, seconds: float) -> None:
        self.path = path
        self.end = time.monotonic() + seconds
        self.content: dict[str, Any] = {
            "device": describe_device(device),
            "cores": os.cpu_count(),
            "created_at": datetime.now(UTC).isoformat(timespec="seconds"),
            "git_commit": git_commit(),
            "package_versions": package_versions(),
            "tolerance": TOLERANCE,
            "comparisons": [],
            "speeds": [],
            "tests": None,
        }
        self.write()

    @property
    def seconds_left(self) -> float:
        return self.end - time.monotonic()

    def write(self) -> None:
        part = self.path.with_suffix(".part")
        part.write_text(json.dumps(self.content, indent=1) + "\n")
        part.replace(self.path)

    def add(
        self, name: str, line: dict[str, Any], measure: Callable[[], Any]
    ) -> list[dict[str, Any]]:
        """Add what a function measures to a list, with what `line` says of it. An error
        becomes a line, too, as the others are still worth measuring."""
        if self.seconds_left < 0:
            measured: Any = {"left_out": "no time left"}
        else:
            try:
                measured = measure()
            except Exception as error:
                first_line, *_ = str(error).strip().splitlines() or [""]
                measured = {"error": f"{type(error).__name__}: {first_line}"}
        rows = measured if isinstance(measured, list) else [measured]
        rows = [{**line, **row} for row in rows]
        self.content[name] += rows
        self.write()
        return rows


def check_device(report: Report, device: str, cases: Mapping[str, Case]) -> None:
    """Compare all cases, then measure their speeds."""
    for name, case in cases.items():
        for way in ways(case.settings, device) if case.compared else []:
            line = {"case": name, "way": way.name}
            report.add("comparisons", line, lambda c=case, w=way: compare_devices(c, w))
    for line, settings, way, runs in speed_lines(device, cases):
        rows = report.add(
            "speeds", line, lambda s=settings, w=way, r=runs: measure_speed(s, w, r)
        )
        for row in rows:
            print(speed_text(row), flush=True)


def speed_lines(
    device: str, cases: Mapping[str, Case]
) -> Iterator[tuple[dict[str, Any], Settings, Way, int]]:
    """The speeds to measure: what a line says of one, the settings, the way and the
    number of runs."""
    for name, case in cases.items():
        for runs in case.runs:
            there = ways(case.settings, device)
            for way in [
                Way("cpu", ""),
                *(item for item in there if item.name != "cpu"),
            ]:
                slow = way.backend != "blocks" and case.settings.system != "particles"
                if not slow or runs <= HOST_RUNS:
                    line = {"case": name, "runs": runs, "way": way.name}
                    yield line, case.settings_of(way), way, runs


def speed_text(row: Mapping[str, Any]) -> str:
    """A line of the table of speeds."""
    what = f"{row['case']}, {row['runs']} runs, {row['way']}"
    if "rate" not in row:
        return f"{what}: {row.get('error') or row['left_out']}"
    return f"{what}: {row['rate']:.4g} run-epochs/s"


def describe_device(device: str) -> str:
    """The name of a device."""
    return torch.cuda.get_device_name() if device == "cuda" else device


def main(
    arguments: Sequence[str] | None = None, cases: Mapping[str, Case] | None = None
) -> int:
    """Check the device, write the JSON file and return the exit status."""
    parser = argparse.ArgumentParser(
        "python -m benchmarks.gpu_check", description=__doc__.splitlines()[0]
    )
    parser.add_argument(
        "--device",
        default="cuda",
        choices=("cuda", "cpu", "simulator"),
        help="compared with the CPU",
    )
    parser.add_argument(
        "--out", type=Path, default=Path("gpu-check.json"), help="JSON file to write"
    )
    parser.add_argument(
        "--no-tests", action="store_true", help="do not run the CUDA tests"
    )
    parser.add_argument(
        "--seconds", type=float, default=SECONDS, help="time for everything"
    )
    options = parser.parse_args(arguments)
    device = options.device
    if device == "cuda" and not torch.cuda.is_available():
        print(
            "gpu-check: torch finds no CUDA device; nothing was checked",
            file=sys.stderr,
        )
        return NO_DEVICE
    if device == "simulator" and os.environ.get("NUMBA_ENABLE_CUDASIM") != "1":
        # Numba reads it when it is imported
        words = sys.argv[1:] if arguments is None else arguments
        return subprocess.run(
            [sys.executable, "-m", "benchmarks.gpu_check", *words],
            env={**os.environ, "NUMBA_ENABLE_CUDASIM": "1"},
            check=False,
        ).returncode
    if cases is None:
        cases = SMALL_CASES if device == "simulator" else CASES
    report = Report(options.out, device, options.seconds)
    check_device(report, device, cases)
    if not options.no_tests:
        report.content["tests"] = run_cuda_tests(max(1.0, report.seconds_left))
        report.write()
    return print_result(report, options.out)


def print_result(report: Report, path: Path) -> int:
    """Print what differs and failed; return the exit status."""
    content = report.content
    compared = content["comparisons"]
    differing = [row for row in compared if not row.get("agrees", "left_out" in row)]
    for row in differing:
        if "error" in row:
            text = f"{row['case']}, {row['way']}: {row['error']}"
        else:
            text = (
                f"{row['case']}, {row['way']}: {row['variable']} differs by"
                f" {row['difference']:.2g} of its change"
            )
        print(text, file=sys.stderr)
    failed = content["tests"]["failed"] if content["tests"] else 0
    broken = [row for row in content["speeds"] if "error" in row]
    print(
        f"{content['device']}: {failed} tests failed, {len(differing)} variables differ;"
        f" figures in {path}"
    )
    return DIFFERS if failed or differing or broken else AGREES


if __name__ == "__main__":
    sys.exit(main())
