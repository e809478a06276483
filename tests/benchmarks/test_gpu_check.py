"""The check of a GPU: what it compares and writes, with the CPU in place of a GPU, and
its exit statuses."""

import json
import subprocess

import pytest
import torch

from benchmarks import gpu_check
from benchmarks.gpu_check import Case
from dynamics import ModularSettings, SparseSettings, TransformerSettings, system
from dynamics.training import training_systems
from tests.dynamics.training.test_without_cuda import (
    OtherDevice,
    RecordedGraph,
    replace_graphs,
)

SMALL = {
    "networks": Case(ModularSettings(n=5, hidden=4), 3, (3,), 4),
    "heads": Case(
        SparseSettings(length=6, sparsity=2, data=50, batch=10, hidden=5), 2, (2,), 4
    ),
    "transformers": Case(TransformerSettings(n=5, dim=8, heads=2), 2, (2,), 4),
}


@pytest.fixture(autouse=True)
def short_measurements(monkeypatch):
    monkeypatch.setattr(gpu_check, "MEASURED_SECONDS", 0.01)


def test_differences_above_the_tolerance_and_failing_tests_are_reported(
    tmp_path, monkeypatch, capsys
):
    words = ["--device", "cpu", "--out", str(tmp_path / "figures.json")]
    monkeypatch.setattr(
        gpu_check,
        "run_cuda_tests",
        lambda seconds: {"passed": 1, "failed": 2, "skipped": 0},
    )
    assert gpu_check.main(words, {"networks": SMALL["networks"]}) == gpu_check.DIFFERS
    assert "2 tests failed" in capsys.readouterr().out
    monkeypatch.setattr(gpu_check, "TOLERANCE", -1.0)
    assert (
        gpu_check.main([*words, "--no-tests"], {"networks": SMALL["networks"]})
        == gpu_check.DIFFERS
    )
    assert "networks, cpu: embedding differs by 0 of its" in capsys.readouterr().err


def test_cuda_tests_are_counted_from_their_report(monkeypatch):
    def run(command, **options):
        (report,) = (
            word.removeprefix("--junitxml=")
            for word in command
            if word.startswith("--junitxml=")
        )
        suite = '<testsuite tests="9" failures="2" errors="1" skipped="1"/>'
        with open(report, "w") as file:
            file.write(f"<testsuites>{suite}</testsuites>")

    monkeypatch.setattr(gpu_check.subprocess, "run", run)
    assert gpu_check.run_cuda_tests(9) == {"passed": 5, "failed": 3, "skipped": 1}


def test_cuda_tests_end_with_the_time(monkeypatch):
    def run(command, **options):
        raise subprocess.TimeoutExpired(command, options["timeout"])

    monkeypatch.setattr(gpu_check.subprocess, "run", run)
    assert gpu_check.run_cuda_tests(9)["ended"] == "no time left"


def test_each_line_is_written_at_once_and_an_error_is_a_line(tmp_path, monkeypatch):
    path = tmp_path / "figures.json"
    seen = []

    def measure(settings, way, runs):
        seen.append(len(json.loads(path.read_text())["speeds"]))
        if len(seen) == 2:
            raise RuntimeError("wrong\nin two lines")
        return {"rate": 1.0}

    monkeypatch.setattr(gpu_check, "measure_speed", measure)
    monkeypatch.setattr(gpu_check, "compare_devices", lambda case, way: [])
    words = ["--device", "cpu", "--no-tests", "--out", str(path)]
    assert gpu_check.main(words, SMALL) == gpu_check.DIFFERS
    assert seen == [0, 1, 2]
    speeds = json.loads(path.read_text())["speeds"]
    assert speeds[1]["error"] == "RuntimeError: wrong"
    assert gpu_check.main([*words, "--seconds", "-1"], SMALL) == gpu_check.AGREES
    content = json.loads(path.read_text())
    for name in ("comparisons", "speeds"):
        assert {row["left_out"] for row in content[name]} == {"no time left"}


def test_a_dry_run_in_the_simulator(tmp_path, capsys):
    """From end to end, with the kernels of both small networks and of particles."""
    path = tmp_path / "figures.json"
    words = ["--device", "simulator", "--no-tests", "--out", str(path)]
    assert gpu_check.main(words) == gpu_check.AGREES
    content = json.loads(path.read_text())
    compared = {(row["case"], row["way"]) for row in content["comparisons"]}
    measured = {(row["case"], row["way"]) for row in content["speeds"]}
    simulated = {(name, way) for name, way in measured if way != "cpu"}
    assert simulated == {
        ("constant-attention networks", "blocks"),
        ("clustering heads", "blocks"),
        ("particles", "simulator"),
    }
    assert compared == simulated
    assert {name for name, _ in measured} == set(gpu_check.SMALL_CASES)
    for row in content["speeds"]:
        assert row["rate"] > 0
    assert "clustering heads, 2 runs, blocks: " in capsys.readouterr().out


def test_everything_runs_on_a_stub_of_a_gpu(tmp_path, monkeypatch, capsys):
    """The CPU under another name, with recorded operations in place of CUDA graphs."""
    replace_graphs(monkeypatch, RecordedGraph, lambda graph, **options: graph)
    monkeypatch.setattr(torch.cuda, "is_available", lambda: True)
    monkeypatch.setattr(torch.cuda, "get_device_name", lambda: "a stub")
    for name in ("empty_cache", "reset_peak_memory_stats"):
        monkeypatch.setattr(torch.cuda, name, lambda: None)
    for name in ("memory_allocated", "max_memory_allocated"):
        monkeypatch.setattr(torch.cuda, name, lambda: 0)
    monkeypatch.setattr(system, "cuda_is_available", lambda: True)
    for module in (system, gpu_check):
        monkeypatch.setattr(module, "numba_cuda_is_installed", lambda: False)
    monkeypatch.setattr(
        training_systems,
        "resolve_device",
        lambda device, kind: OtherDevice("cpu") if device == "cuda" else device,
    )
    monkeypatch.setattr(
        gpu_check,
        "run_cuda_tests",
        lambda seconds: {"passed": 1, "failed": 0, "skipped": 0},
    )
    out = tmp_path / "figures.json"
    assert gpu_check.main(["--out", str(out)], SMALL) == gpu_check.AGREES
    result = json.loads(out.read_text())
    assert result["device"] == "a stub"
    assert [row["case"] for row in result["speeds"][::2]] == list(SMALL)
    ways = [row["way"] for row in result["speeds"]]
    assert ways == ["cpu", "torch", "cpu", "torch", "cpu", "cuda"]
    compared = {(row["case"], row["variable"]) for row in result["comparisons"]}
    assert {("networks", "embedding"), ("heads", "loss")} <= compared
    differences = [row["difference"] for row in result["comparisons"]]
    assert 0 < max(differences) < gpu_check.TOLERANCE  # another backend than the CPU's
    assert "a stub: 0 tests failed, 0 variables differ" in capsys.readouterr().out


@pytest.mark.skipif(torch.cuda.is_available(), reason="there is a CUDA device")
def test_without_a_device_one_line_and_a_status_of_its_own(
    tmp_path, monkeypatch, capsys
):
    monkeypatch.chdir(tmp_path)
    assert gpu_check.main([]) == gpu_check.NO_DEVICE == 3
    assert (
        capsys.readouterr().err
        == "gpu-check: torch finds no CUDA device; nothing was checked\n"
    )
    assert not list(tmp_path.iterdir())
