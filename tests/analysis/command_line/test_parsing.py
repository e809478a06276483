"""Command lines as a user types them: help and mistakes."""

import pathlib
import re
import subprocess
import sys

import pytest

import analysis
import sims
from tests.dynamics.test_simulation import run

COMMANDS = [
    f"{package.__name__}.{path.stem}"
    for package in (sims, analysis)
    for path in pathlib.Path(package.__file__).parent.glob("[!_]*.py")
]


@pytest.mark.parametrize("program", COMMANDS)
def test_help_is_plain_and_imports_nothing_heavy(environment, program):
    code = f"""
import runpy, sys
sys.argv = ["x", "--help"]
try:
    runpy.run_module("{program}", run_name="__main__", alter_sys=True)
except SystemExit as end:
    assert end.code == 0
heavy = {{"numba", "numpy", "xarray", "scipy", "pandas.core", "matplotlib", "torch", "netCDF4", "distributed"}}
assert not heavy & set(sys.modules), heavy & set(sys.modules)
"""
    words = [sys.executable, "-c", code]
    done = subprocess.run(words, env={**environment, "COLUMNS": "500"}, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    assert f"python -m {program}" in done.stdout
    assert not re.search(r"\{None|None is|default: None|default: \)", done.stdout)
    for paper, source in (("CA", "arXiv 2408.09414"), ("VC", "arXiv 2410.24050")):
        assert bool(re.search(rf"\b{paper}\b", done.stdout)) == (source in done.stdout)


@pytest.mark.parametrize(
    "words",
    [
        ["--fa", "nan"],
        ["--fa", "-1"],
        ["--fa", "many"],
        ["--n", "0"],
        ["--n", "100000"],
        ["--dim", "1.5"],
        ["--runs", "0"],
        ["--runs", "9" * 30],
        ["--steps", "-1"],
        ["--every", "0"],
        ["--seed", "-1"],
        ["--start", "absent.npy"],
        ["--step-rule", "bogus"],
        ["--bogus"],
        ["--device", "cuda"],
        ["--out", "picture.png"],
        ["--dim", "65"],
    ],
)
def test_a_mistake_is_named_in_one_line(typed, tmp_path, words):
    code, _, errors = typed("sims.particles", *words)
    assert code == 2
    assert re.fullmatch(rf"error: (--[a-z ]+)*{words[0]}.*: found .*, allowed is .*\n", errors)
    assert not (tmp_path / "runs").exists()


@pytest.mark.parametrize(
    ("words", "message"),
    [
        ("sims.modular --steps 500", "--steps: found an option that does not exist here, allowed is --epochs, or"),
        ("sims.sparse --length 6 --steps=5", "--steps: found an option that does not exist here, allowed is --epochs"),
        ("sims.particles --epochs 5", "--epochs: found an option that does not exist here, allowed is --steps, or"),
        ("sims.particles --run 5", "--run: found an option that does not exist here, allowed is --runs, or"),
        ("sims.particles 5", "arguments of the command: found 5, allowed is"),
        ("sims.runs --folder", "--folder: found no value, allowed is a path"),
        ("sims.particles --runs 3 --runs abc", "--runs: found abc, allowed is a whole number"),
        ("sims.particles --runs=", "--runs: found no value, allowed is a whole number"),
        ("sims.runs --folder absent", "--folder: found absent, allowed is an existing folder"),
        ("sims.sweep", "name of the subcommand: found none, allowed is one of particles, modular, sparse"),
        ("sims.sweep particles --fa 1 many", "--fa: found 1 many, allowed is a number"),
        ("analysis.frame a.nc --axes 1", "--axes: found 1, allowed is INT INT"),
        ("analysis.events", "TRAJECTORY: found no value"),
        ("analysis.events a.nc --of=speeds", "--of: found speeds, allowed is one of loss, gradient, force, speed"),
    ],
)
def test_every_bad_argument_has_the_same_form(typed, words, message):
    code, _, errors = typed(*words.split())
    assert code == 2
    assert errors.startswith(f"error: {message}")
    assert errors.count("\n") == 1


def test_a_file_of_another_run_is_a_mistake(typed):
    run(out="a.nc")
    code, _, errors = typed("sims.particles", "--runs", 2, "--n", 4, "--out", "a.nc")
    assert code == 2
    assert "--out: found a.nc with runs=6" in errors


def test_what_cannot_be_done_has_code_1(typed, tmp_path):
    (tmp_path / "a.nc").write_bytes(b"")
    code, _, errors = typed("sims.particles", "--out", "a.nc")
    assert code == 1
    assert "no seal" in errors


def test_an_error_about_the_trajectory_names_its_file(typed):
    run(out="a.nc")
    assert typed("analysis.circuits", "a.nc")[2] == "error: a.nc: attribute system: found particles, expected sparse\n"


def test_a_reader_that_leaves_early_is_no_error(environment):
    pipe = f"{sys.executable} -m sims.particles --help | head -1; exit ${{PIPESTATUS[0]}}"
    done = subprocess.run(["bash", "-c", pipe], env=environment, capture_output=True, text=True, check=False)
    assert "Traceback" not in done.stderr
