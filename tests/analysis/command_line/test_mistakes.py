"""Mistakes in command lines and files: each is reported in one line, with the exit
code, and nothing is written."""

import shlex
import shutil

import numpy as np
import pytest
import xarray as xr

from analysis.output.results import write_result
from dynamics import (
    ModularSettings,
    ParticleSettings,
    SparseSettings,
    TransformerSettings,
    branch,
    save_trajectory,
    simulate,
)

SPARSE = SparseSettings(length=5, sparsity=2, data=64, batch=16, hidden=8)
VALUES = {
    "sims.particles": (
        "--fa nan, --fa -1.0, --fa many, --n 0, --n 1, --dim 1.5, --dim 65, --runs 0, --runs"
        " 9e30, --steps -1, --every 0, --seed -1, --start absent.npy, --step-rule"
        " bogus, --device cuda, --out picture.png"
    ),
    "sims.modular --n 5": "--epochs -1",
    "analysis.paper ablation": (
        "--panels, --panels depth, --points 0, --points 1001, --max-hidden 9,"
        " --max-hidden 10001, --epochs 0, --epochs 9999999999999999, --lr nan,"
        " --scheduler here --panels lr, --out a.png"
    ),
    "analysis.audit --n 5": "--epochs -1",
    "analysis.audit n.nc": "--frames 1",
    "analysis.circuits s.nc": "--frames 1",
    "analysis.compare n.nc": (
        "--fa -1.0, --start n.nc, --n 9, --csv n.nc, --csv ., --csv x.png"
    ),
    "analysis.compare n.nc n.nc": "--out x.txt, --out n.nc, --steps 9",
    "analysis.curvature n.nc": "--at 5, --frames 0, --runs 4, --runs 0, --out a.png",
    "analysis.events p.nc": (
        "--escape-share 0.0, --escape-share 2.0, --split train, --depth -1.0, --out"
        " p.nc, --csv p.nc"
    ),
    "analysis.film n.nc": (
        "--out film.avi, --fps 0.0, --fps 1e-09, --every 0, --begin 50, --run 9,"
        " --columns 0, --columns -2 --out film.gif, --panels film, --event spike"
        " --begin 3, --out data.mp4"
    ),
    "analysis.film data.mp4": "--out data.mp4",
    "analysis.fixed_points": (
        "--vocab 4, --dim 1, --decay 0.0, --push 2.0, --steps 0, --draws 0"
    ),
    "analysis.formation p.nc": "--every 0, --run 4, --run -1",
    "analysis.frame n.nc": (
        "--run 3, --run -1, --step 41, --step -2, --panels circles, --panels loss loss,"
        " --out figure.jpg, --out data.png, --width 7, --width 120 --columns 90,"
        " --columns 0, --run-of-other 1"
    ),
    "analysis.frame data.png": "--out data.png",
    "analysis.gradients p.nc": "--run 3",
    "analysis.pair_law n.nc": "--frames 3",
    "analysis.paper scaling": (
        "--n, --n 2, --n 7 7, --values, --values 0.0 1.0, --runs 1 2, --runs 0,"
        " --length 0, --every 0, --step-size 0.0, --system sparse, --scheduler here --n"
        " 5, --out a.png"
    ),
    "analysis.sparsity s.nc": "--runs 0",
    "analysis.spikes s.nc": "--most 0",
    "analysis.paper table1 --n 5": "--epochs -1",
    "analysis.paper transfer": "--vocabs 2, --vocabs, --epochs 0, --out result.txt, --runs 0",
    "analysis.paper weights": (
        "--weight-decay 0.3, --weight-decays, --weight-decays -1.0 0.1, --epochs 0,"
        " --runs 0"
    ),
}
MESSAGES = [
    (
        "sims.modular --steps 500",
        "--steps: found an option that does not exist here, allowed is --epochs, or",
    ),
    (
        "sims.sparse --length 6 --steps=5",
        "--steps: found an option that does not exist here, allowed is --epochs",
    ),
    (
        "sims.particles --epochs 5",
        "--epochs: found an option that does not exist here, allowed is --steps, or",
    ),
    (
        "sims.particles --run 5",
        "--run: found an option that does not exist here, allowed is --runs, or",
    ),
    (
        "sims.particles --bogus",
        (
            "--bogus: found an option that does not exist here, allowed is an option"
            " that --help"
        ),
    ),
    ("sims.collect", "CHECKPOINTS: found no value, allowed is folders or files"),
    ("sims.particles 5", "arguments of the command: found 5, allowed is options only"),
    (
        "sims.modular --from n.nc",
        "--from: found an option that does not exist here, allowed is --start, or",
    ),
    ("sims.particles --n 100000", "--n --dim --runs: found"),
    (
        "sims.particles --runs 3 --runs abc",
        "--runs: found abc, allowed is a whole number",
    ),
    ("sims.particles --runs=", "--runs: found no value, allowed is a whole number"),
    (
        "sims.particles --n 5 --start start.csv --csv start.csv",
        "--csv: found start.csv, allowed is a file that the",
    ),
    ("sims.runs --folder", "--folder: found no value, allowed is a path"),
    (
        "sims.runs --folder absent",
        "--folder: found absent, allowed is an existing folder",
    ),
    (
        "sims.sweep",
        "name of the system: found none, allowed is one of particles, modular, sparse",
    ),
    ("sims.sweep particles --fa 1 many", "--fa: found 1 many, allowed is a number"),
    (
        "analysis.paper ablation --start a.nc",
        "--start: found an option that does not exist here",
    ),
    ("analysis.paper ablation --folder ''", "--folder: found no name"),
    ("analysis.audit n.nc n.nc", "TRAJECTORIES: found n.nc n.nc, allowed is each file"),
    ("analysis.audit n.nc five.nc --x dim", "--x: found dim, allowed is n or hidden"),
    ("analysis.paper ablation --data 16", "--batch: found 32"),
    (
        "analysis.compare",
        "FIRST: found no value, allowed is a trajectory file, such as",
    ),
    (
        "analysis.events",
        "TRAJECTORY: found no value, allowed is a trajectory file, such as",
    ),
    (
        "analysis.events a.nc --of=speeds",
        "--of: found speeds, allowed is one of loss, gradient, force, speed",
    ),
    ("analysis.events p.nc s.nc --of speed", "OTHERS: found"),
    ("analysis.fixed_points --vocab 3", "--length: found 12 at 3 tokens"),
    ("analysis.fixed_points --hidden 3", "--hidden: found 3, allowed is 5 or more"),
    (
        "analysis.fixed_points --lr 0.1",
        "--lr: found 0.1, allowed is no value here: gradient descent on all sequences",
    ),
    (
        "analysis.fixed_points --optimizer adamw",
        "--optimizer: found adamw, allowed is no value here",
    ),
    (
        "analysis.fixed_points --weight-decay 0.1",
        "--weight-decay: found 0.1, allowed is no value here",
    ),
    ("analysis.fixed_points --batch 16", "--batch: found 16, allowed is no value here"),
    (
        "analysis.fixed_points --beta1 0.5",
        "--beta1: found 0.5, allowed is no value here",
    ),
    ("analysis.frame a.nc --axes 1", "--axes: found 1, allowed is two whole numbers"),
    (
        "analysis.frame n.nc --axes 0 3",
        "--axes: found (0, 3), allowed is two different axes from 0 to 1",
    ),
    (
        "analysis.frame m.nc --panels embedding",
        "--panels: found embedding, allowed is all, or one or more of loss",
    ),
    (
        "analysis.sparsity s.nc --step 3",
        "--at: found 3, allowed is a recorded step, nearest are 0 and 4",
    ),
]
FILES = {
    "none.nc: no such file": (
        "circuits s.nc none.nc, compare none.nc, compare n.nc none.nc, curvature"
        " none.nc, events none.nc, formation none.nc, sparsity none.nc, spikes none.nc"
    ),
    "p.nc: attribute system: found particles, expected sparse": (
        "circuits p.nc, paper remedies p.nc, sparsity p.nc, spikes p.nc"
    ),
    "attribute system: found particles, expected modular, transformer, or a model": (
        "audit p.nc, audit n.nc p.nc"
    ),
    "p.nc: attribute system: found particles, expected modular": "pair_law p.nc",
    "p.nc: attribute system: found particles, expected a network": "progress p.nc",
    "p.nc: attribute system: found particles, networks are": (
        "edge p.nc, landscape p.nc, llc p.nc, noise p.nc, spectral_density p.nc"
    ),
    "n.nc: attribute system: found modular, expected sparse": "circuits n.nc",
    "m.nc: variable embedding: missing; a run recorded with record=metrics": (
        "circuits m.nc, curvature m.nc, sparsity m.nc"
    ),
    "variable embedding: missing; a run recorded with record=metrics": (
        "audit nm.nc, compare n.nc nm.nc"
    ),
    "nm.nc: variable embedding: missing; a run recorded with record=metrics": (
        "curvature nm.nc, formation nm.nc, progress nm.nc"
    ),
    "attribute task: found multiply, expected a network that adds": "audit x.nc",
    "x.nc: attribute task: found multiply, expected a network": "progress x.nc",
    "attribute own_vocabularies: found True, expected False": "audit v.nc",
    "n.nc: dimension run: found a single run": "pair_law n.nc --runs 1",
    "five.nc: dimension split: found train alone": "progress five.nc",
    "dimension token: found 7 and 5, expected equal": "compare n.nc five.nc",
    "dimension token: found 2, expected at least 3": "compare two.nc",
    "large.nc: n: found 78 with 3081 pairs": "curvature large.nc",
    "x.nc: attribute system: found transformer, expected one of": "curvature x.nc",
    "s.nc: attribute modulus: found 2, expected at least 5": "formation s.nc",
    "text.nc: not a NetCDF file": "compare text.nc, frame text.nc",
    "cut.nc: cut short": "events cut.nc",
    "result.nc: a result of sims.sweep or of an analysis": "frame result.nc",
    "few.nc: dimension step: found 4 frames": "events few.nc, gradients few.nc",
    "n.nc: dimension step: found 5 frames": ("film n.nc --run 0 --event spike"),
    "dimension token: found 2": "compare s.nc",
    "p.nc: variable loss: missing": "events p.nc --of loss",
    "s.nc: found the same runs": "circuits s.nc s.nc",
    "link.nc: found the same runs": "circuits s.nc link.nc",
    "the second trajectory: found runs of other seeds, expected runs of the same": (
        "circuits s.nc seeds.nc"
    ),
    "gap.nc: seeds are not consecutive": "compare gap.nc",
    "branch.nc: a branch or selection": "paper remedies branch.nc",
    ".: is a folder": "compare .",
    "": "compare ''",
}


@pytest.fixture(scope="module")
def inputs(tmp_path_factory):
    """A folder of files that commands are given."""
    folder = tmp_path_factory.mktemp("inputs")
    for name, settings, words in (
        ("p", ParticleSettings(n=7), {"steps": 12}),
        ("few", ParticleSettings(n=7), {"steps": 3}),
        ("large", ParticleSettings(n=78), {"steps": 1}),
        ("two", ParticleSettings(n=2, dim=1), {"steps": 1}),
        ("n", ModularSettings(n=7, hidden=6), {"steps": 40}),
        ("nm", ModularSettings(n=7, hidden=6), {"steps": 40, "record": "metrics"}),
        ("five", ModularSettings(n=5, train_share=1.0), {"steps": 40}),
        ("x", TransformerSettings(n=5, dim=4, task="multiply"), {"steps": 2}),
        ("v", TransformerSettings(n=5, dim=4, own_vocabularies=True), {"steps": 2}),
        ("s", SPARSE, {"steps": 24, "every": 4}),
        ("m", SPARSE, {"steps": 24, "every": 4, "record": "metrics"}),
        ("seeds", SPARSE, {"steps": 24, "every": 4, "seed": 7}),
    ):
        trajectory = simulate(settings, runs=3, out=folder / f"{name}.nc", **words)
        if name == "n":
            save_trajectory(trajectory.isel(run=[0, 2]), folder / "gap.nc")
    branch(folder / "s.nc", 4, out=folder / "branch.nc", lr=0.01)
    shutil.copy(folder / "p.nc", folder / "data.png")
    shutil.copy(folder / "p.nc", folder / "data.mp4")
    (folder / "link.nc").symlink_to("s.nc")
    (folder / "cut.nc").write_bytes((folder / "p.nc").read_bytes()[:-9])
    write_result(
        xr.Dataset(attrs={"result_of": "analysis.compare"}), folder / "result.nc"
    )
    (folder / "text.nc").write_text("no trajectory")
    np.savetxt(folder / "start.csv", np.eye(5, 2), delimiter=",")
    return folder


@pytest.fixture
def failure(typed, inputs, monkeypatch):
    """The exit code and the one line of error of a command, which leaves its folder as
    it was."""

    def run(command):
        monkeypatch.chdir(inputs)
        before = {path: path.read_bytes() for path in inputs.iterdir()}
        code, _, error = typed(*shlex.split(command))
        assert {path: path.read_bytes() for path in inputs.iterdir()} == before
        assert error.count("\n") == 1
        return code, error

    return run


@pytest.mark.parametrize("command", VALUES)
def test_a_wrong_value_of_an_option_is_named(failure, command):
    for words in VALUES[command].split(", "):
        option, value = (*words.split(), "none")[:2]
        code, error = failure(f"{command} {words}")
        assert code == 2
        assert error.startswith(f"error: {option}: found {value}")
        assert ", allowed is " in error


@pytest.mark.parametrize(("command", "message"), MESSAGES)
def test_a_wrong_argument_is_explained(failure, command, message):
    code, error = failure(command)
    assert (code, error[: len(message) + 7]) == (2, f"error: {message}")


@pytest.mark.parametrize("message", FILES)
def test_a_file_that_cannot_be_used_has_exit_code_1(failure, message):
    for command in FILES[message].split(", "):
        code, error = failure(f"analysis.{command}")
        assert (code, error[: len(message) + 7]) == (1, f"error: {message}")
