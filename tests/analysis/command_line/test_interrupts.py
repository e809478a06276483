"""SIGINT and SIGTERM: a line, the exit code, and never a traceback."""

import re
import signal
import subprocess
import sys
import time

import pytest

from analysis.command_line.interrupts import BEFORE_START, MESSAGE
from analysis.command_line.options import PictureOptions
from analysis.command_line.parsing import run_command
from dynamics.trajectory.reader import closed_parts


def start(environment, *words):
    """A Python process whose errors can be read."""
    command = [sys.executable, *words]
    return subprocess.Popen(command, env=environment, stderr=subprocess.PIPE, text=True)


@pytest.mark.parametrize(
    ("words", "module", "which"),
    [
        ("sims.particles --n 3 --steps 1", "tyro", signal.SIGINT),
        ("sims.runs --folder .", "netCDF4", signal.SIGINT),
        ("sims.particles --n 3 --steps 1", "numpy._core", signal.SIGTERM),
        ("sims.runs --folder .", "xarray", signal.SIGTERM),
    ],
)
def test_a_command_interrupted_during_imports_prints_one_line(
    environment, words, module, which
):
    process = start(environment, "-X", "importtime", "-m", *words.split())
    errors = []
    for line in process.stderr:
        errors.append(line)
        if re.search(rf"\| +{module}$", line):
            process.send_signal(which)
            break
    errors += process.stderr
    assert process.wait() == 128 + which
    message = BEFORE_START if module == "tyro" else MESSAGE
    assert [line for line in errors if not line.startswith("import time")] == [
        f"{message}\n"
    ]


@pytest.mark.parametrize("which", [signal.SIGINT, signal.SIGTERM])
def test_an_interrupted_simulation_prints_how_to_continue(environment, tmp_path, which):
    words = "sims.particles --n 3 --runs 2 --steps 100000000 --every 20000 --out a.nc"
    words += " --overwrite" if which == signal.SIGTERM else ""
    process = start(environment, "-m", *words.split())
    while not (tmp_path / ".a.nc.lock").exists():  # taken right before the first step
        time.sleep(0.01)
    time.sleep(0.1)
    process.send_signal(which)
    _, errors = process.communicate()
    assert process.returncode == 128 + which
    without = " without --overwrite" if which == signal.SIGTERM else ""
    message = (
        r"interrupted at step \d+ of 100000000; a.nc can be resumed: the same"
        rf" command{without} continues from there"
    )
    assert re.fullmatch(message, errors.strip().splitlines()[-1])
    assert closed_parts(tmp_path / "a.nc")


LAST_MOMENT = """
import atexit, os, signal

class Signals:
    def __del__(self, kill=os.kill, words=(os.getpid(), int(signal.{0}))):
        kill(*words)

signal.last = Signals()
atexit.register(os.kill, os.getpid(), signal.{0})
"""


@pytest.mark.parametrize("name", ["SIGINT", "SIGTERM"])
def test_a_command_that_has_ended_is_not_interrupted(environment, tmp_path, name):
    """A signal while Python shuts down."""
    (tmp_path / "sitecustomize.py").write_text(LAST_MOMENT.format(name))
    environment["PYTHONPATH"] += f":{tmp_path}"
    process = start(environment, "-m", "sims.runs")
    assert process.communicate()[1] == ""
    assert process.returncode == 0


def test_an_exit_within_compiled_code_keeps_its_code(monkeypatch):
    """Compiled code replaces a SystemExit by a SystemError."""

    def main(options):
        raise SystemError("an exception set") from SystemExit(143)

    monkeypatch.setattr("sys.argv", ["command"])
    with pytest.raises(SystemExit) as end:
        run_command(main, PictureOptions, "command")
    assert end.value.code == 143
