"""The command lines as a person types them: help, results, mistakes."""

import csv
import io
import re
import signal
import subprocess
import sys
import time

import numpy as np
import pytest
from matplotlib.image import imread

from analysis.plots.embedding_grid import plot_embeddings
from analysis.structures.projection import principal_plane
from dynamics.settings import ParticleSettings
from dynamics.simulation import simulate
from dynamics.trajectory.lock import trajectory_lock
from dynamics.trajectory.parts import closed_parts
from dynamics.trajectory.reader import open_trajectory
from sims.command_line import describe_run_file
from tests.dynamics.test_simulation import run, stop_at

COMMANDS = [
    "sims.particles",
    "sims.modular",
    "sims.sparse",
    "sims.sweep",
    "sims.runs",
    "analysis.table1",
    "analysis.table2",
    "analysis.weights",
    "analysis.ablation",
    "analysis.transfer",
    "analysis.audit",
    "analysis.compare",
    "analysis.events",
    "analysis.spikes",
    "analysis.remedies",
    "analysis.sparsity",
    "analysis.formation",
    "analysis.gradients",
    "analysis.curvature",
    "analysis.circuits",
    "analysis.fixed_points",
    "analysis.frame",
    "analysis.film",
    "analysis.paper",
    "analysis.explore",
    "analysis.verify",
]


@pytest.fixture
def call(environment):
    def run(*words):
        return subprocess.run(
            [sys.executable, "-m", *map(str, words)], env=environment, capture_output=True, text=True, check=False
        )

    return run


@pytest.fixture
def here(typed):
    """A command in this process: its exit code and what it prints to stderr."""

    def run(program, *words):
        code, _, errors = typed(program, *words)
        return code, errors

    return run


@pytest.mark.parametrize("program", COMMANDS)
def test_help_imports_nothing_heavy(environment, program):
    code = f"""
import runpy, sys
sys.argv = ["x", "--help"]
try:
    runpy.run_module("{program}", run_name="__main__", alter_sys=True)
except SystemExit as end:
    assert end.code == 0
heavy = {{"numba", "numpy", "xarray", "scipy", "matplotlib", "torch", "netCDF4"}} & set(sys.modules)
assert not heavy, heavy
"""
    done = subprocess.run([sys.executable, "-c", code], env=environment, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    assert f"python -m {program}" in done.stdout


def test_particles_give_a_row_a_trajectory_and_a_picture(call, tmp_path):
    done = call("sims.particles", "--fa", "2.0", "--runs", 20, "--csv", "row.csv")
    assert done.returncode == 0, done.stderr
    assert "56.0 [45.7, 65.9]" in done.stdout
    (trajectory,) = (tmp_path / "runs").glob("*.nc")
    with open_trajectory(trajectory) as data:
        assert data.sizes["run"] == 20
    assert imread(trajectory.with_suffix(".png")).shape[0] > 300
    _, row = csv.reader((tmp_path / "row.csv").open())
    assert row[:2] == ["2.0", "20"]
    again = call("sims.particles", "--fa", "2.0", "--runs", 20)
    assert "found" in again.stdout
    assert again.stdout.splitlines()[-1] == done.stdout.splitlines()[-1]


def test_the_paper_stands_only_beside_its_own_settings(call):
    assert "in the paper" not in call("sims.particles", "--runs", 3, "--ga", 2).stdout


def test_all_rows_of_table_2(call):
    done = call("analysis.table2", "--runs", 8, "--csv", "-")
    assert done.returncode == 0, done.stderr
    rows = list(csv.DictReader(io.StringIO(done.stdout)))
    assert [row["fa"] for row in rows] == ["0.5", "1.0", "2.0"]
    assert [row["paper_imperfections"] for row in rows] == ["35.5", "36.3", "42.9"]
    assert all(float(row["circles_percent_low"]) <= float(row["circles_percent"]) for row in rows)


def test_runs_are_listed_with_their_state(call, tmp_path):
    assert "no runs" in call("sims.runs", "--folder", ".").stdout
    simulate(ParticleSettings(n=3, fa=0.5), runs=2, steps=5, out="runs/done.nc", progress=False).close()
    (tmp_path / "runs" / "broken.nc").write_bytes(b"broken")
    lines = call("sims.runs").stdout.splitlines()
    assert re.search(r"^broken.nc +unreadable .* no seal", lines[3])
    assert re.search(r"^done.nc +done +5 +2 +0 +\d.\d +--fa 0.5 --n 3$", lines[4])


def test_runs_that_are_not_done_are_listed_as_what_they_are(tmp_path, monkeypatch):
    path = tmp_path / "a.nc"
    stop_at(monkeypatch, path, 30, steps=60)
    assert describe_run_file(path, True)[1:5] == ("interrupted", "30 of 60", 6, 0)
    with trajectory_lock(path):
        assert describe_run_file(path, False)[1] == "running"
    run(out=path)
    assert describe_run_file(path, False)[1:3] == ("done", "60")
    stop_at(monkeypatch, path, 70, steps=100, every=1)
    assert describe_run_file(path, True)[1:3] == ("interrupted", "70 of 100")
    with trajectory_lock(tmp_path / "new.nc"):
        assert describe_run_file(tmp_path / "new.nc", False)[1] == "running"


def test_a_diverged_run_shows_in_the_list(tmp_path, generator):
    x = generator.standard_normal((2, 5, 2))
    x[1] *= 9e37 / np.abs(x[1]).max()
    np.save(tmp_path / "x.npy", x)
    settings = ParticleSettings(n=5, variance="none", start=str(tmp_path / "x.npy"))
    simulate(settings, runs=2, steps=3, out=tmp_path / "a.nc", record="metrics", progress=False)
    cells = describe_run_file(tmp_path / "a.nc", False)
    assert cells.status == "done, 1 diverged"
    assert cells.settings.endswith("--record metrics")


@pytest.mark.parametrize(
    ("words", "named"),
    [
        (["--fa", "nan"], "fa"),
        (["--fa", "-1"], "fa"),
        (["--fa", "many"], "--fa"),
        (["--n", "0"], "n: found 0"),
        (["--n", "100000"], "--n"),
        (["--dim", "1.5"], "--dim"),
        (["--runs", "0"], "--runs"),
        (["--runs", "9" * 30], "--runs"),
        (["--steps", "-1"], "--steps"),
        (["--every", "0"], "--every"),
        (["--seed", "-1"], "--seed"),
        (["--start", "absent.npy"], "--start"),
        (["--step-rule", "bogus"], "--step-rule"),
        (["--bogus"], "--bogus"),
        (["--device", "cuda"], "--device"),
        (["--out", "picture.png"], "--out"),
        (["--dim", "65"], "dim"),
    ],
)
def test_a_mistake_is_named_without_a_traceback(here, tmp_path, words, named):
    code, errors = here("sims.particles", *words)
    assert code == 2
    assert named in errors
    assert not (tmp_path / "runs").exists()


def test_a_mistake_ends_a_process_with_code_2(call):
    done = call("sims.particles", "--every", "0")
    assert (done.returncode, done.stderr.startswith("error: --every: found 0, allowed is")) == (2, True)


def test_a_file_of_another_run_is_a_mistake(here):
    run(out="a.nc")
    code, errors = here("sims.particles", "--runs", 2, "--n", 4, "--out", "a.nc")
    assert code == 2
    assert "--out: found a.nc with runs=6" in errors


def test_what_cannot_be_done_has_code_1(here, tmp_path):
    (tmp_path / "a.nc").write_bytes(b"")
    code, errors = here("sims.particles", "--out", "a.nc")
    assert code == 1
    assert "no seal" in errors


@pytest.mark.parametrize(("which", "code"), [(signal.SIGINT, 130), (signal.SIGTERM, 143)])
def test_interrupted_it_says_how_to_go_on(environment, tmp_path, which, code):
    words = ["sims.particles", "--n", "3", "--runs", "2", "--steps", "100000000", "--every", "20000", "--out", "a.nc"]
    process = subprocess.Popen(
        [sys.executable, "-m", *words], env=environment, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True
    )
    while not (tmp_path / ".a.nc.lock").exists():  # taken right before the first step
        time.sleep(0.01)
    time.sleep(1)
    process.send_signal(which)
    _, errors = process.communicate()
    assert process.returncode == code
    last = errors.strip().splitlines()[-1]
    assert re.fullmatch(r"interrupted at step \d+ of 100000000; a.nc can be resumed: the same command goes on.*", last)
    assert closed_parts(tmp_path / "a.nc")


def test_a_reader_that_leaves_early_is_no_error(environment):
    pipe = f"{sys.executable} -m sims.particles --help | head -1; exit ${{PIPESTATUS[0]}}"
    done = subprocess.run(["bash", "-c", pipe], env=environment, capture_output=True, text=True, check=False)
    assert "Traceback" not in done.stderr


@pytest.mark.parametrize(("n", "dim"), [(1, 1), (1, 3), (2, 1), (17, 2), (30, 4), (120, 2)])
def test_any_embedding_can_be_drawn(n, dim, generator):
    x = generator.standard_normal((7, n, dim))
    figure = plot_embeddings(x, range(7), "title")
    assert len(figure.axes) == 7
    for axes, points in zip(figure.axes, x, strict=True):
        drawn = axes.collections[0].get_offsets()
        np.testing.assert_allclose(drawn, principal_plane(points))
        assert axes.get_title().startswith("seed ")
