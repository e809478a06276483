"""Command lines as a user types them: help and mistakes."""

import re
import runpy
import subprocess
import sys

import pytest

from analysis.command_line.command_list import ANALYSIS_GROUPS, EXPERIMENTS
from analysis.command_line.options import TableOptions
from analysis.command_line.parsing import run_command
from tests.commands import COMMANDS


def finished(words, environment):
    """The outcome of a command in another process."""
    return subprocess.run(
        words, env=environment, capture_output=True, text=True, check=False
    )


@pytest.mark.parametrize("program", COMMANDS)
def test_help_is_plain_and_imports_nothing_heavy(environment, program):
    module, *words = [*program.split(), "--help"]
    code = f"""
import runpy, sys
sys.argv = ["x", *{words}]
try:
    runpy.run_module("{module}", run_name="__main__", alter_sys=True)
except SystemExit as end:
    assert end.code == 0
heavy = {{"numba", "numpy._core", "xarray", "scipy", "pandas.core", "matplotlib", "torch", "netCDF4", "distributed"}}
assert not heavy & set(sys.modules), heavy & set(sys.modules)
"""
    done = finished([sys.executable, "-c", code], {**environment, "COLUMNS": "500"})
    assert done.returncode == 0, done.stderr
    assert f"python -m {program}" in done.stdout
    assert not re.search(r"\{None|None is|default: None|default: \)", done.stdout)
    for paper, source in (("CA", "arXiv 2408.09414"), ("VC", "arXiv 2410.24050")):
        assert bool(re.search(rf"\b{paper}\b", done.stdout)) == (source in done.stdout)


@pytest.mark.parametrize("name", EXPERIMENTS)
def test_a_former_name_says_the_present_one(name, typed, monkeypatch, capsys):
    _, expected, _ = typed(f"analysis.paper {name}", "--help")
    monkeypatch.setattr("sys.argv", ["x", "--help"])
    with pytest.raises(SystemExit) as end:
        runpy.run_module(f"analysis.{name}", run_name="__main__", alter_sys=True)
    assert not end.value.code
    said, told = capsys.readouterr()
    assert said == expected
    assert told == f"analysis.{name} is now: python -m analysis.paper {name}\n"


def test_a_reader_that_leaves_early_is_no_error(environment):
    pipe = (
        f"{sys.executable} -m sims.particles --help | head -1; exit ${{PIPESTATUS[0]}}"
    )
    done = finished(["bash", "-c", pipe], environment)
    assert "Traceback" not in done.stderr


@pytest.mark.parametrize(
    ("error", "message"),
    [
        (BrokenPipeError(32, "Broken pipe"), "error: output: Broken pipe\n"),
        (OSError("the tape is torn"), "error: the tape is torn\n"),
    ],
)
def test_an_error_of_the_system_is_said_in_a_line(error, message, monkeypatch, capsys):
    """Also a pipe to another program that breaks, which is no reader that leaves."""

    def main(options):
        raise error

    monkeypatch.setattr("sys.argv", ["x"])
    with pytest.raises(SystemExit) as end:
        run_command(main, TableOptions, "x")
    assert end.value.code == 1
    assert capsys.readouterr().err == message


@pytest.mark.parametrize(
    ("package", "command"), [("analysis", "analysis.events"), ("sims", "sims.sweep")]
)
def test_a_package_lists_its_commands(environment, package, command):
    done = finished([sys.executable, "-m", package], environment)
    assert re.search(rf"^python -m {command} .*\. *$", done.stdout, re.M)
    titles = {"", *ANALYSIS_GROUPS}
    lines = [line for line in done.stdout.splitlines() if line not in titles]
    assert all(re.match(r"python -m \w+\.\w+ {2,}\S", line) for line in lines)
