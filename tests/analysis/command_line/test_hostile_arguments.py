"""Every command with the same arguments that are no file and no value: one line on
stderr, exit code 1 or 2, nothing written."""

import importlib
import os
from pathlib import Path

import numpy as np
import pytest

import analysis
import sims
from analysis import clustering_heads
from analysis.command_line.help_texts import option_names
from dynamics import (
    ModularSettings,
    ParticleSettings,
    RecordingError,
    SparseSettings,
    simulate,
)

COMMANDS = [
    f"{package.__name__}.{path.stem}"
    for package in (sims, analysis)
    for path in sorted(Path(package.__file__).parent.glob("[!_]*.py"))
]
HOSTILE = [
    *("nan", "inf", "-inf", "1e400", "0", "-1", "18446744073709551616", "-", "--"),
    *("", " ", "\n", "a\nb.nc", "\N{SNOWMAN}.nc", "\udcff.nc", "%s{}", "x" * 300),
    *(".", "..", "/", "folder", "folder.nc", "parts.nc", "absent.nc", "text.nc/x"),
    *("loop.nc", "loop.nc/x.nc", "dead.nc", "pipe.nc", "/dev/null", "/proc/self/mem"),
    *("text.nc", "empty.nc", "bytes.nc", "a.npy", "code.py", "z.pt", "[", "[!a"),
]
"""No value of an option of this kind, and no trajectory."""
FIRST_WORDS = {
    "sims.sweep": "particles",
    **dict.fromkeys(("analysis.circuits", "analysis.remedies"), "s.nc"),
    **dict.fromkeys(("analysis.sparsity", "analysis.spikes"), "s.nc"),
    **{
        f"analysis.{name}": "n.nc"
        for name in (
            "compare curvature events film formation frame gradients pair_law progress"
        ).split()
    },
}
"""The arguments that a command needs before its options."""
LAST_WORDS = {"analysis.explore": ["--export", "page.html"]}


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    """A folder of three short trajectories, and of what is none."""
    folder = tmp_path_factory.mktemp("hostile")
    sparse = SparseSettings(length=5, sparsity=2, data=64, batch=16, hidden=8)
    for name, settings, steps in (
        ("p", ParticleSettings(n=7), 12),
        ("n", ModularSettings(n=7, hidden=6), 40),
        ("s", sparse, 24),
    ):
        path = folder / f"{name}.nc"
        simulate(settings, runs=3, steps=steps, out=path, progress=False).close()
    for name in ("folder", "folder.nc", "parts.nc.parts"):
        (folder / name).mkdir()
    (folder / "loop.nc").symlink_to("loop.nc")
    (folder / "dead.nc").symlink_to("gone")
    os.mkfifo(folder / "pipe.nc")
    np.save(folder / "a.npy", np.eye(7, 2))
    for name, content in (
        ("text.nc", b"no"),
        ("empty.nc", b""),
        ("bytes.nc", b"\x89HDF" + bytes(range(256)) * 20),
        ("code.py", b"raise SystemExit('it ran')\n"),
        ("z.pt", b"PK\3\4xx"),
    ):
        (folder / name).write_bytes(content)
    return folder


@pytest.fixture
def refuses(folder, typed, monkeypatch):
    """Check that a command is refused in one line, or that its arguments are valid."""

    def refuse_to_compute(*_):
        raise RecordingError("the arguments are valid")

    monkeypatch.chdir(folder)
    monkeypatch.setattr("dynamics.ensemble.record_run", refuse_to_compute)
    monkeypatch.setattr(clustering_heads, "fixed_point_landscape", refuse_to_compute)

    def check(*words):
        before = {path: path.lstat().st_mtime_ns for path in folder.iterdir()}
        code, _, errors = typed(*words)
        after = {path: path.lstat().st_mtime_ns for path in folder.iterdir()}
        if code == 0:
            for path in after.keys() - before.keys():
                path.unlink()
            return
        assert code in (1, 2), words
        *messages, error = errors.splitlines()
        assert error.startswith("error: "), (words, errors)
        assert not messages or "--csv=-" in words, (words, errors)
        assert after == before, words

    return check


def words_of(command, *words):
    first = FIRST_WORDS.get(command)
    return [command, *([first] if first else []), *words, *LAST_WORDS.get(command, [])]


def options_of(command):
    module = importlib.import_module(command)
    record = getattr(module, "ANALYSIS", None)
    return option_names(record.options if record else module.Options)[0]


@pytest.mark.parametrize("command", COMMANDS)
def test_a_file_that_is_no_trajectory_is_refused(refuses, command):
    for word in HOSTILE:
        refuses(command, word, *LAST_WORDS.get(command, []))


@pytest.mark.parametrize("command", COMMANDS)
def test_an_option_takes_no_hostile_value(refuses, command):
    """Each value with one option, and each option with some values."""
    names = options_of(command)
    for index, word in enumerate(HOSTILE):
        option = names[index % len(names)].replace("_", "-")
        refuses(*words_of(command, f"--{option}={word}"))


@pytest.mark.slow
@pytest.mark.timeout(1800)
@pytest.mark.parametrize("command", COMMANDS)
def test_no_option_takes_any_hostile_value(refuses, command):
    for name in options_of(command):
        for word in HOSTILE:
            refuses(*words_of(command, f"--{name.replace('_', '-')}={word}"))
