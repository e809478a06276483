"""Check a GPU against the CPU: the CUDA tests, the same training on both, and
throughput. Writes one JSON file.

python -m benchmarks.gpu_check
python -m benchmarks.gpu_check --device cpu --no-tests

The second line compares the CPU with itself. The exit status is 0 if all agrees, 1 if a
test fails or a difference is above its tolerance, and 3 if there is no CUDA device."""

import argparse
import gc
import json
import subprocess
import sys
import tempfile
import time
from collections.abc import Mapping, Sequence
from datetime import UTC, datetime
from pathlib import Path
from typing import Any, NamedTuple
from xml.etree import ElementTree

import numpy as np
import torch

from dynamics.ensemble import create_system
from dynamics.settings import (
    ModularSettings,
    Settings,
    SparseSettings,
    TransformerSettings,
)
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


class Case(NamedTuple):
    """An ensemble that is trained on both devices."""

    settings: Settings
    runs: int
    updates: int
    """Number of updates on the CPU before the one that both devices make"""
    epochs: int
    """Number of epochs in which the throughput is measured"""


CASES = {
    "constant-attention networks": Case(ModularSettings(), 400, 20, 200),
    "clustering heads": Case(SparseSettings(), 100, 20, 4),
    "transformers, constant attention": Case(
        TransformerSettings(attention_rate=0.0), 8, 20, 20
    ),
    "transformers, softmax attention": Case(TransformerSettings(), 8, 20, 20),
}


def compare_devices(case: Case, device: str) -> list[dict[str, Any]]:
    """The differences of all recorded variables between the CPU and a device after one
    update of the same state."""
    here, there = (create_system(case.settings, item) for item in ("cpu", device))
    state = here.advance(here.initial(np.arange(case.runs)), case.updates)
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


def training_rate(case: Case, device: str) -> float:
    """Run-epochs per second between two frames, after a warm-up that compiles kernels
    and captures graphs."""
    system = create_system(case.settings, device)
    state = system.advance(system.initial(np.arange(case.runs)), 3)
    system.observe(state)
    begin = time.perf_counter()
    system.observe(
        system.advance(state, case.epochs * (case.settings.epoch_steps or 1))
    )
    return case.runs * case.epochs / (time.perf_counter() - begin)


class DeviceMemory:
    """The memory that torch takes on a device from now on."""

    def __init__(self, device: str) -> None:
        self.device = device
        if device != "cpu":
            gc.collect()
            torch.cuda.empty_cache()
            torch.cuda.reset_peak_memory_stats()
            self.before = torch.cuda.memory_allocated()

    def most(self) -> int | None:
        """The most bytes so far; None on a CPU."""
        if self.device != "cpu":
            return torch.cuda.max_memory_allocated() - self.before
        return None


def check_device(device: str, cases: Mapping[str, Case]) -> dict[str, Any]:
    """The differences and the throughputs of all cases."""
    comparisons, rates = [], []
    for name, case in cases.items():
        comparisons += [{"case": name, **row} for row in compare_devices(case, device)]
        cpu = training_rate(case, "cpu")
        memory = DeviceMemory(device)
        other = training_rate(case, device)
        rates.append(
            {
                "case": name,
                "runs": case.runs,
                "cpu": cpu,
                "device": other,
                "ratio": other / cpu,
                "bytes": memory.most(),
            }
        )
    return {
        "tolerance": TOLERANCE,
        "comparisons": comparisons,
        "run_epochs_per_second": rates,
    }


def run_cuda_tests() -> dict[str, int]:
    """Numbers of CUDA tests that pass, fail and are skipped."""
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
        subprocess.run(command, cwd=root, check=False)
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


def describe_device(device: str) -> str:
    """The name of a device."""
    return torch.cuda.get_device_name() if device == "cuda" else "cpu"


def main(
    arguments: Sequence[str] | None = None, cases: Mapping[str, Case] = CASES
) -> int:
    """Check the device, write the JSON file and return the exit status."""
    parser = argparse.ArgumentParser(
        "python -m benchmarks.gpu_check", description=__doc__.splitlines()[0]
    )
    parser.add_argument(
        "--device",
        default="cuda",
        choices=("cuda", "cpu"),
        help="compared with the CPU",
    )
    parser.add_argument(
        "--out", type=Path, default=Path("gpu-check.json"), help="JSON file to write"
    )
    parser.add_argument(
        "--no-tests", action="store_true", help="do not run the CUDA tests"
    )
    options = parser.parse_args(arguments)
    if options.device == "cuda" and not torch.cuda.is_available():
        print(
            "gpu-check: torch finds no CUDA device; nothing was checked",
            file=sys.stderr,
        )
        return NO_DEVICE
    result = {
        "device": describe_device(options.device),
        "created_at": datetime.now(UTC).isoformat(timespec="seconds"),
        "git_commit": git_commit(),
        "package_versions": package_versions(),
        "tests": None if options.no_tests else run_cuda_tests(),
        **check_device(options.device, cases),
    }
    options.out.write_text(json.dumps(result, indent=1) + "\n")
    differing = [row for row in result["comparisons"] if not row["agrees"]]
    failed = result["tests"]["failed"] if result["tests"] else 0
    for row in differing:
        print(
            f"{row['case']}: {row['variable']} differs by {row['difference']:.2g} of"
            " its change",
            file=sys.stderr,
        )
    for row in result["run_epochs_per_second"]:
        print(
            f"{row['case']}: {row['device']:.4g} run-epochs/s, {row['ratio']:.3g} times"
            " the CPU's"
        )
    print(
        f"{result['device']}: {failed} tests failed, {len(differing)} variables differ;"
        f" figures in {options.out}"
    )
    return DIFFERS if failed or differing else AGREES


if __name__ == "__main__":
    sys.exit(main())
