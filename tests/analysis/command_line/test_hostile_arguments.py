"""Every command with the same arguments that are no file and no value: one line on
stderr, exit code 1 or 2, nothing written."""

import os
import shutil

import numpy as np
import pytest
import torch

from analysis import clustering_heads
from analysis.command_line.help_texts import option_kinds
from dynamics import (
    ModularSettings,
    ParticleSettings,
    RecordingError,
    SparseSettings,
    record,
    simulate,
    sweeps,
)
from dynamics.sweeps import load_script
from sims.command_line.sweep_options import script_sweep_options
from tests.commands import COMMANDS, arguments_of

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
    "sims.collect": "weights.pt",
    "analysis.activations": "r.nc",
    "analysis.explore": "",
    "analysis.paper": "ca2",
    **dict.fromkeys(("analysis.circuits", "analysis.paper remedies"), "s.nc"),
    **dict.fromkeys(("analysis.sparsity", "analysis.spikes"), "s.nc"),
}
"""What stands before the options, if it is not the trajectory of a network."""
OTHER_LINES = [
    ["analysis.compare", "p.nc", "n.nc"],
    *([f"analysis.{name}", "s.nc"] for name in "events fate noise".split()),
    ["analysis.llc", "s.nc", "--frames", "2", "--draws", "20", "--burn-in", "5"],
    *([f"analysis.{name}", "p.nc"] for name in "audit fate film".split()),
    *([f"analysis.{name}", "r.nc"] for name in "overview weight_spectra".split()),
    *([f"analysis.{name}", "r.nc"] for name in "curvature edge landscape".split()),
    *([f"analysis.{name}", "r.nc"] for name in "llc noise spectral_density".split()),
]
"""Further commands with their first arguments."""
LAST_WORDS = {"analysis.explore": ["--export", "page.html"]}


MODEL = """
modulus = 7
def logits(parameters, inputs):
    table = parameters["0.weight"]
    return table[inputs].sum(1) @ parameters["1.weight"].T
def embedding(parameters):
    return parameters["0.weight"]
def training_pairs():
    return [[i, j] for i in range(7) for j in range(i, 7)]
"""
SCRIPT = """
import dataclasses

@dataclasses.dataclass
class Settings:
    lr: float = 0.01
    width: int = 4

def train(settings, seed, out):
    raise NotImplementedError
"""


def record_own_model(folder):
    """A recorded model with a model file and activations; its weights as a file of
    torch."""
    torch.manual_seed(0)
    model = torch.nn.Sequential(torch.nn.Embedding(7, 3), torch.nn.Linear(3, 7, False))
    optimizer, tokens = torch.optim.Adam(model.parameters()), torch.arange(7)
    torch.save(model.state_dict(), folder / "weights.pt")
    (folder / "model.py").write_text(MODEL)
    with record(
        model,
        optimizer,
        folder / "r.nc",
        every=2,
        weights=True,
        model_file=folder / "model.py",
        activations={"sum": "0"},
        probe=tokens,
    ) as recording:
        for _ in range(12):
            optimizer.zero_grad()
            loss = torch.nn.functional.cross_entropy(model(tokens), tokens)
            loss.backward()
            optimizer.step()
            recording.step(loss=loss)


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
        simulate(settings, runs=3, steps=steps, out=path).close()
    record_own_model(folder)
    for name in ("folder", "folder.nc", "parts.nc.parts"):
        (folder / name).mkdir()
    (folder / "loop.nc").symlink_to("loop.nc")
    (folder / "dead.nc").symlink_to("gone")
    for suffix in (".nc", ".csv", ".json", ".npz"):
        os.mkfifo(folder / f"pipe{suffix}")
    np.save(folder / "a.npy", np.eye(7, 2))
    for name, content in (
        ("text.nc", b"no"),
        ("empty.nc", b""),
        ("bytes.nc", b"\x89HDF" + bytes(range(256)) * 20),
        ("code.py", b"raise SystemExit('it ran')\n"),
        ("z.pt", b"PK\3\4xx"),
        ("own.py", SCRIPT.encode()),
    ):
        (folder / name).write_bytes(content)
    return folder


def refuse_to_compute(*_, **__):
    raise RecordingError("the arguments are valid")


@pytest.fixture
def refuses(folder, typed, monkeypatch):
    """Check that a command is refused in one line, or that its arguments are valid."""
    monkeypatch.chdir(folder)
    monkeypatch.setattr("dynamics.ensemble.record_run", refuse_to_compute)
    monkeypatch.setattr(clustering_heads, "fixed_point_landscape", refuse_to_compute)

    def check(*words):
        before = {path: path.lstat().st_mtime_ns for path in folder.iterdir()}
        code, _, errors = typed(*words)
        after = {path: path.lstat().st_mtime_ns for path in folder.iterdir()}
        if code == 0:
            for path in after.keys() - before.keys():
                if path.is_dir():
                    shutil.rmtree(path)
                else:
                    path.unlink()
            return
        assert code in (1, 2), words
        *messages, error = errors.splitlines()
        assert error.startswith("error: "), (words, errors)
        assert not messages or "--csv=-" in words, (words, errors)
        assert after == before, words

    return check


def options_of(command):
    """Names of the options and of the arguments without a name."""
    return [list(names) for names in option_kinds(arguments_of(command))]


def words_of(line, *words):
    """A command with the words that it needs before its options, and more."""
    command, *first = line
    if not first:
        needed = "n.nc" if options_of(command)[1] else ""
        first = FIRST_WORDS.get(command, needed).split()
    return [command, *first, *words, *LAST_WORDS.get(command, [])]


LINES = [*([command] for command in COMMANDS), *OTHER_LINES]


@pytest.mark.parametrize("command", COMMANDS)
def test_a_file_that_is_no_trajectory_is_refused(refuses, command):
    for word in HOSTILE[COMMANDS.index(command) % 2 :: 2]:
        refuses(command, word, *LAST_WORDS.get(command, []))


@pytest.mark.parametrize("line", LINES, ids=" ".join)
def test_an_option_takes_no_hostile_value(refuses, line):
    """A quarter of the values, each with one option; others with the next lines."""
    names = options_of(line[0])[0]
    for index, word in enumerate(HOSTILE[LINES.index(line) % 4 :: 4]):
        option = names[index % len(names)].replace("_", "-")
        refuses(*words_of(line, f"--{option}={word}"))


@pytest.mark.parametrize(
    "words",
    [
        "sims.particles --law=pipe.nc",
        "sims.particles --law=pipe.json",
        "sims.particles --attraction=pipe.csv",
        "sims.particles --start=pipe.csv",
        "sims.modular --start=pipe.npz",
        "sims.modular --train-pairs-file=pipe.csv",
        "analysis.audit p.nc --law=pipe.json",
    ],
)
def test_no_command_waits_for_a_pipe(words, folder, typed, monkeypatch):
    monkeypatch.chdir(folder)
    code, _, errors = typed(*words.split())
    assert code == 2
    assert "it is a pipe" in errors or "this is a pipe" in errors


@pytest.mark.slow
@pytest.mark.timeout(1800)
@pytest.mark.parametrize("line", LINES, ids=" ".join)
def test_no_option_takes_any_hostile_value(refuses, line):
    for name in options_of(line[0])[0]:
        for word in HOSTILE:
            refuses(*words_of(line, f"--{name.replace('_', '-')}={word}"))


def test_a_sweep_of_a_script_takes_no_hostile_value(refuses, folder, monkeypatch):
    options = script_sweep_options(load_script(folder / "own.py"))
    monkeypatch.setattr(sweeps, "compute_missing_runs", refuse_to_compute)
    for name in option_kinds(options)[0]:
        for word in HOSTILE[::3]:
            refuses("sims.sweep", "own.py", f"--{name.replace('_', '-')}={word}")
