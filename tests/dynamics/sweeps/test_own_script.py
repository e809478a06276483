"""Sweeps of training scripts of one's own."""

from pathlib import Path

import dask
import numpy as np
import pandas as pd
import pytest
import xarray as xr
from distributed import LocalCluster
from numpy.testing import assert_allclose, assert_array_equal

from dynamics import open_trajectory
from dynamics.errors import TrajectoryError
from dynamics.settings import SettingsError
from dynamics.sweeps import (
    SweepInterrupted,
    combine_runs,
    compute_missing_runs,
    load_script,
    script_design,
)
from tests.conftest import ROOT

SCRIPT = """
import dataclasses
import torch
import dynamics

@dataclasses.dataclass(frozen=True)
class Settings:
    lr: float = 0.1
    width: int = 3
    steps: int = 20

def train(settings, seed, out):
    torch.manual_seed(seed)
    model = torch.nn.Linear(settings.width, 1)
    x = torch.randn(8, settings.width)
    optimizer = torch.optim.SGD(model.parameters(), lr=settings.lr)
    weight = {"first": lambda model: model.weight[0, 0]}
    with dynamics.record(model, optimizer, out, every=5, variables=weight) as recording:
        for step in range(settings.steps - seed):
            if CONDITION: raise KeyboardInterrupt
            loss = model(x).square().mean()
            optimizer.zero_grad()
            loss.backward()
            optimizer.step()
            recording.step(loss=loss)
"""


@pytest.fixture
def script(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    return write_script()


def write_script(condition="False"):
    Path("own.py").write_text(SCRIPT.replace("CONDITION", condition))
    return load_script("own.py")


def design_of(script, **words):
    axes = {"lr": [0.1, 0.2], "width": [2, 3, 4]}
    return script_design(script, script.settings(), axes, **{"runs": 2, **words})


def test_every_combination_is_trained_with_every_seed(script):
    design = design_of(script)
    assert compute_missing_runs(design) == 12
    result = combine_runs(design)
    assert result["final_loss"].dims == ("lr", "width", "run", "split")
    assert result["seed"].values.tolist() == [0, 1]
    run = design.points[4].runs[1]
    assert run.label == "lr=0.2, width=3, steps=20, seed=1"
    point = result.sel(lr=0.2, width=3).isel(run=1)
    with open_trajectory(run.path) as trajectory:
        loss = trajectory["loss"].isel(run=0, step=-1).values
        assert_array_equal(point["final_loss"], loss)
        first = trajectory["first"].isel(run=0)
        assert point["lowest_first"] == first.min()
        assert point["last_step"] == 19
    with open_trajectory(f"runs/{point['file'].item()}".replace("*", "0")) as one:
        assert one.sizes["run"] == 1


def test_finished_trainings_are_found_and_a_changed_script_is_trained_again(script):
    design = design_of(script)
    compute_missing_runs(design)
    assert compute_missing_runs(design) == 0
    design.runs[3].path.unlink()
    with pytest.raises(TrajectoryError, match="does not exist"):
        combine_runs(design)
    assert compute_missing_runs(design) == 1
    more = design_of(script, runs=3)
    assert compute_missing_runs(more) == 6
    changed = design_of(write_script("False and True"))
    assert compute_missing_runs(changed) == 12


def test_an_interrupted_sweep_continues(script, monkeypatch):
    expected = design_of(script, folder="expected")
    compute_missing_runs(expected)
    marker = (
        'step == 7 and settings.width == 3 and not __import__("os").path.exists("go")'
    )
    design = design_of(write_script(marker))
    with pytest.raises(SweepInterrupted, match="2 of 12 points are done"):
        compute_missing_runs(design)
    Path("go").touch()
    assert compute_missing_runs(design) == 10
    result, all_at_once = combine_runs(design), combine_runs(expected)
    drop = ["file"]
    xr.testing.assert_equal(result.drop_vars(drop), all_at_once.drop_vars(drop))
    assert not list(Path("runs").glob("*.parts"))


@pytest.mark.slow
def test_a_cluster_trains_with_the_same_bits(script, tmp_path):
    here, there = design_of(script), design_of(script, folder="there")
    compute_missing_runs(here)
    with (
        dask.config.set({"temporary-directory": str(tmp_path / "workers")}),
        LocalCluster(
            n_workers=1, threads_per_worker=1, dashboard_address=None, host="127.0.0.1"
        ) as cluster,
    ):
        compute_missing_runs(there, cluster.scheduler_address)
    xr.testing.assert_equal(combine_runs(here), combine_runs(there))


@pytest.mark.slow
def test_the_script_of_the_page_learns(script):
    page = (ROOT / "docs" / "guides" / "sweeps.md").read_text()
    section = page.split("## A training script of your own")[1]
    Path("own.py").write_text(section.split("```python\n")[1].split("```")[0])
    own = load_script("own.py")
    design = script_design(own, own.settings(), {"lr": [0.003, 0.03]}, runs=2)
    compute_missing_runs(design)
    result = combine_runs(design).mean(("run", "split"))
    assert (result["final_accuracy"] > 0.9).all()
    assert result["final_loss"].sel(lr=0.03) < result["final_loss"].sel(lr=0.003) / 2


MISTAKES = {
    "nothing": ("a = 1", "without a dataclass Settings"),
    "no train": (SCRIPT.split("def train")[0], "without a function train"),
    "error": ("\n1 / 0", "own.py, line 2: the file raises ZeroDivisionError"),
    "required": (SCRIPT.replace(" = 0.1", ""), r"Settings\(\) raises TypeError"),
}


@pytest.mark.parametrize("name", MISTAKES)
def test_a_wrong_script_is_refused(script, name):
    source, words = MISTAKES[name]
    Path("own.py").write_text(source)
    with pytest.raises(SettingsError, match=words):
        load_script("own.py")


def test_errors_of_a_training_are_reported_with_their_line(script):
    design = script_design(script, script.settings(), {"lr": [0.1, -1.0]})
    with pytest.raises(SettingsError, match=r"own.py, line 16: .* ValueError") as error:
        compute_missing_runs(design)
    assert error.value.__notes__ == ["at the point lr=-1.0, width=3, steps=20, seed=0"]
    text = SCRIPT.split("    with dynamics")[0].replace("CONDITION", "False")
    Path("own.py").write_text(text)
    silent = load_script("own.py")
    with pytest.raises(SettingsError, match=r"train\(\) that wrote no file"):
        compute_missing_runs(script_design(silent, silent.settings(), {}))


@pytest.mark.parametrize(
    ("axes", "words"),
    [
        ({"rate": [1]}, "rate: found"),
        ({"lr": []}, "no value"),
        ({"lr": [1.0, 1.0]}, "different values"),
        ({"lr": list(range(100_000))}, "at most 100000"),
    ],
)
def test_wrong_axes_are_refused(script, axes, words):
    with pytest.raises(SettingsError, match=words):
        script_design(script, script.settings(), axes)


def test_the_command_prints_a_table_and_draws(script, typed):
    words = ["own.py", "--lr", "0.1", "0.2", "--runs", "2", "--csv", "own.csv"]
    code, printed, errors = typed("sims.sweep", *words)
    assert code == 0, errors
    assert "(4 computed, 0 found)" in printed
    assert len(list(Path("runs").glob("sweep-own-*.png"))) == 1
    table = pd.read_csv("own.csv")
    design = script_design(script, script.settings(), {"lr": [0.1, 0.2]}, runs=2)
    loss = combine_runs(design)["final_loss"].mean("run")
    assert_allclose(table["train_loss"], loss[:, 0])
    code, _, errors = typed("sims.sweep", "own.py", "--lr", "much")
    assert (code, errors.count("\n")) == (2, 1)
    assert "--lr" in errors


def test_truth_values_that_are_wrong_are_refused_by_their_option(
    tmp_path, monkeypatch, typed
):
    monkeypatch.chdir(tmp_path)
    Path("own.py").write_text(
        SCRIPT.replace("CONDITION", "False").replace(
            "steps: int = 20", "steps: int = 20\n    biased: bool = True"
        )
    )
    code, _, errors = typed("sims.sweep", "own.py", "--biased", "true", "no")
    assert (code, errors) == (
        2,
        "error: --biased: found true no, allowed is True or False\n",
    )
    code, _, errors = typed("sims.sweep", "own.py", "--biased", "True", "False")
    assert (code, errors) == (0, "")


def test_a_sweep_with_fewer_runs_reads_its_own_files_only(script, typed):
    """The files of the five runs match its pattern of files too."""
    words = ["sims.sweep", "own.py", "--lr", "0.1", "0.2", "--csv", "own.csv", "--runs"]
    tables = {}
    for runs in (5, 2):
        code, printed, errors = typed(*words, str(runs))
        assert code == 0, errors
        tables[runs] = pd.read_csv("own.csv")
        losses = []
        for pattern in tables[runs]["file"]:
            files = sorted(Path("runs").glob(pattern))
            assert len(files) == 5
            finals = [open_trajectory(file)["loss"].values[0, -1, 0] for file in files]
            losses.append(np.mean(finals[:runs]))
        assert (tables[runs]["runs"] == runs).all()
        assert_allclose(tables[runs]["train_loss"], losses, rtol=1e-6)
    assert "(0 computed, 4 found)" in printed
    assert (tables[2]["train_loss"] != tables[5]["train_loss"]).all()
