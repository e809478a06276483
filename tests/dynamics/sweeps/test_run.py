"""Sweeps: design, combined dataset, finished points, interruptions, and a dask cluster whose workers die."""

import csv
import dataclasses
import functools
import json
import os
import re
import signal
import subprocess
import sys
import threading
import time
from typing import ClassVar

import dask
import numpy as np
import pytest
import xarray as xr
from distributed import Client, LocalCluster

from analysis.command_line.help_texts import field_descriptions
from dynamics import system as registry
from dynamics.errors import MissingPackage, TrajectoryError
from dynamics.particles.system import ParticleSystem
from dynamics.run_checks import run_path
from dynamics.settings import SETTINGS_CLASSES as KNOWN
from dynamics.settings import ModularSettings, ParticleSettings, SettingsError
from dynamics.simulation import simulate
from dynamics.sweeps import dask_backend as module
from dynamics.sweeps.dask_backend import SweepError, compute_point
from dynamics.sweeps.design import sweep_design
from dynamics.sweeps.run import SweepInterrupted, combine_points, compute_missing_points, sweep
from dynamics.trajectory.parts import closed_parts
from dynamics.trajectory.reader import open_trajectory
from dynamics.trajectory.schema import DIVERGED, DONE
from sims.command_line.sweep_options import design_from_options, sweep_options

SETTINGS = ParticleSettings(n=5)
AXES = {"fa": [0.5, 2.0], "step_rule": ["force", "direction", "particle"]}
AMOUNT = {"runs": 3, "steps": 12, "every": 5, "progress": False}


@dataclasses.dataclass(frozen=True)
class BatchSettings(ParticleSettings):
    """Particles with epochs, as many steps long as the batch says, and an option that is no axis."""

    system: ClassVar[str] = "batches"
    batch: int = 4
    """Examples in a step."""
    positions: tuple[int, ...] = ()
    """Positions that count."""

    @property
    def epoch_steps(self) -> int:  # type: ignore[override]
        return 24 // self.batch

    @property
    def default_steps(self) -> int:  # type: ignore[override]
        return 3 * self.epoch_steps

    @property
    def default_every(self) -> int:  # type: ignore[override]
        return self.epoch_steps


@pytest.fixture
def batches(monkeypatch):
    monkeypatch.setitem(KNOWN, "batches", BatchSettings)
    monkeypatch.setitem(registry.SYSTEM_CLASSES, "batches", ParticleSystem)


@pytest.fixture
def here(typed):
    return functools.partial(typed, "sims.sweep")


def bare(result: xr.Dataset) -> xr.Dataset:
    """The dataset without attributes, which include the time and versions."""
    return result.drop_attrs().load()


# -------------------------------------------------------------------------------------------- the grid


def test_a_sweep_is_its_single_runs(tmp_path):
    result = sweep(SETTINGS, AXES, seed=7, **AMOUNT)
    assert dict(result.sizes) == {"fa": 2, "step_rule": 3, "run": 3, "layer": 1}
    assert result["fa"].values.tolist() == AXES["fa"]
    assert result["step_rule"].values.tolist() == AXES["step_rule"]
    assert result["seed"].values.tolist() == [7, 8, 9]
    assert (result["status"] == DONE).all()
    for fa in AXES["fa"]:
        for rule in AXES["step_rule"]:
            settings = dataclasses.replace(SETTINGS, fa=fa, step_rule=rule)
            alone = simulate(settings, seed=7, record="metrics", **AMOUNT)
            point = result.sel(fa=fa, step_rule=rule)
            assert str(point["file"].values) == run_path(settings, 3, 7, 5, "metrics").name
            assert int(point["steps"]) == 12
            with open_trajectory(tmp_path / "runs" / str(point["file"].values)) as written:
                xr.testing.assert_equal(written, alone)
            for name in ("gradient_norm", "update_norm"):
                frames = alone[name].transpose("step", "run", "layer").values
                np.testing.assert_array_equal(point[f"final_{name}"], frames[-1])
                np.testing.assert_array_equal(point[f"peak_{name}"], frames.max(axis=0))
                first = 1 if name == "update_norm" else 0  # 0 at step 0 by definition
                np.testing.assert_array_equal(point[f"lowest_{name}"], frames[first:].min(axis=0))
                assert point[f"peak_{name}"].dtype == np.float32


def test_attributes_tell_what_was_swept():
    attrs = sweep(SETTINGS, AXES, **AMOUNT).attrs
    assert json.loads(attrs["config_json"]) == dataclasses.asdict(SETTINGS)
    assert json.loads(attrs["swept"]) == ["fa", "step_rule"]
    assert (attrs["system"], attrs["runs"], attrs["seed"], attrs["record"]) == ("particles", 3, 0, "metrics")
    assert "numpy" in json.loads(attrs["package_versions"])


def test_a_sweep_of_networks_keeps_the_splits_that_all_points_have():
    axes = {"train_share": [0.8, 1.0], "weight_decay": [0.0, 1.0]}
    settings = ModularSettings(n=5, hidden=4)
    result = sweep(settings, axes, runs=2, epochs=6, every=2, progress=False)
    assert result["split"].values.tolist() == ["train"]
    assert result.attrs["left_out"] == "split validation"
    assert (result["epochs"] == 6).all()
    for name in ("loss", "accuracy"):
        alone = simulate(settings, runs=2, steps=6, every=2, record="metrics", progress=False)
        there = sweep(dataclasses.replace(settings), {"lr": [0.01]}, runs=2, epochs=6, every=2, progress=False)
        assert there["split"].values.tolist() == ["train", "validation"]
        np.testing.assert_array_equal(there[f"final_{name}"][0], alone[name].isel(step=-1))
        np.testing.assert_array_equal(there[f"peak_{name}"][0], alone[name].max("step"))
    assert not any(np.isnan(values).any() for values in result.data_vars.values() if values.dtype.kind == "f")


def test_epochs_may_have_different_numbers_of_steps(batches):
    result = sweep(BatchSettings(n=3), {"batch": [4, 8]}, runs=2, epochs=5, every=2, progress=False)
    assert result["steps"].values.tolist() == [30, 15]
    assert result["epochs"].values.tolist() == [5, 5]
    with open_trajectory(f"runs/{result['file'].values[1]}") as second:
        assert second["step"].values.tolist() == [0, 6, 12, 15]
    own = sweep(BatchSettings(n=3), {"batch": [4, 8]}, runs=2, progress=False)
    assert own["steps"].values.tolist() == [18, 9]
    with pytest.raises(SettingsError, match="steps: found 5, allowed is epochs"):
        sweep(BatchSettings(n=3), {"batch": [4]}, steps=5)
    with pytest.raises(SettingsError, match="epochs: found 5, allowed is steps"):
        sweep(SETTINGS, {"fa": [1]}, epochs=5)


def test_peaks_are_over_the_frames_before_a_run_diverged(tmp_path, generator):
    x = generator.standard_normal((2, 5, 2))
    x[1] *= 9e37 / np.abs(x[1]).max()
    np.save(tmp_path / "x.npy", x - x.mean(axis=1, keepdims=True))
    settings = ParticleSettings(n=5, variance="none", start=str(tmp_path / "x.npy"))
    result = sweep(settings, {"ga": [1.0, 2.0]}, runs=2, steps=30, progress=False)
    assert result["status"].values.tolist() == [[DONE, DIVERGED]] * 2
    assert result["last_step"].values.tolist() == [[30, 0]] * 2
    ended = result.isel(run=1)
    for name in ("gradient_norm", "update_norm"):
        np.testing.assert_array_equal(ended[f"lowest_{name}"], ended[f"peak_{name}"])
    assert np.isfinite(result["peak_gradient_norm"]).all()


@pytest.mark.parametrize(
    ("axes", "field"),
    [
        ({"fa": [1, 1.0]}, "fa"),
        ({"fa": []}, "fa"),
        ({"fa": [1, -1]}, "fa"),
        ({"fa": [(1, 2)]}, "fa"),
        ({"start": "random"}, "start"),
        ({"fa": 3}, "fa"),
        ({"fa": np.array([1.0, 1.0])}, "fa"),
        ({"system": ["modular"]}, "system"),
        ({"fa": range(1000), "ga": range(1000)}, "fa, ga"),
        ({"step_rule": ["force", "other"]}, "step_rule"),
    ],
)
def test_axes_are_checked_before_anything_is_computed(tmp_path, axes, field):
    with pytest.raises(SettingsError) as refused:
        sweep(SETTINGS, axes, **AMOUNT)
    assert refused.value.field == field
    assert list(tmp_path.iterdir()) == []


# ------------------------------------------------------------------------------------ what is found again


def test_an_enlarged_sweep_computes_what_is_missing(tmp_path, computed):
    sweep(SETTINGS, {"fa": [0.5, 2.0]}, **AMOUNT)
    before = {path: path.stat().st_mtime_ns for path in (tmp_path / "runs").glob("*.nc")}
    result = sweep(SETTINGS, {"fa": [0.5, 1.0, 2.0]}, **AMOUNT)
    assert [settings.fa for settings in computed] == [0.5, 2.0, 1.0]
    assert all(path.stat().st_mtime_ns == when for path, when in before.items())
    assert len(set(result["file"].values.tolist())) == 3
    sweep(SETTINGS, {"fa": [1.0, 2.0]}, **{**AMOUNT, "steps": 10})  # shorter: as they were then
    assert len(computed) == 3
    longer = sweep(SETTINGS, {"fa": [1.0]}, **{**AMOUNT, "steps": 40})
    assert len(computed) == 4
    xr.testing.assert_equal(longer, sweep(SETTINGS, {"fa": [1.0]}, folder="anew", **{**AMOUNT, "steps": 40}))
    with pytest.raises(SettingsError, match="steps: found 11, allowed is a length recorded in"):
        sweep(SETTINGS, {"fa": [1.0]}, **{**AMOUNT, "steps": 11})


def test_a_damaged_point_is_named(tmp_path):
    result = sweep(SETTINGS, AXES, **AMOUNT)
    damaged = tmp_path / "runs" / str(result["file"].values[1, 0])
    damaged.write_bytes(damaged.read_bytes()[:-1])
    with pytest.raises(TrajectoryError, match=damaged.name) as error:
        sweep(SETTINGS, AXES, **AMOUNT)
    assert error.value.__notes__ == ["at the point fa=2.0, step_rule=force"]


LONG = ParticleSettings(n=11)
LONG_AMOUNT = {"runs": 8, "steps": 20000, "every": 5000, "progress": False}


@pytest.mark.parametrize("which", [signal.SIGINT, signal.SIGTERM])
def test_an_interrupted_sweep_goes_on(environment, tmp_path, which):
    words = [
        "sims.sweep",
        "particles",
        "--fa",
        "1",
        "2",
        "3",
        "--n",
        "11",
        "--runs",
        "8",
        "--steps",
        "20000",
        "--every",
        "5000",
    ]
    process = subprocess.Popen([sys.executable, "-m", *words], env=environment, stderr=subprocess.PIPE, text=True)
    first, second, _ = [run_path(dataclasses.replace(LONG, fa=fa), 8, 0, 5000, "metrics") for fa in (1.0, 2.0, 3.0)]
    while not second.with_name(f".{second.name}.lock").exists():
        assert process.poll() is None
        time.sleep(0.01)
    time.sleep(0.2)
    process.send_signal(which)
    _, errors = process.communicate()
    assert process.returncode == 128 + which
    last = errors.strip().splitlines()[-1]
    assert last == "interrupted: 1 of 3 points are done: the same command continues from there"
    assert first.exists()
    assert closed_parts(second)
    result = sweep(LONG, {"fa": [1, 2, 3]}, **LONG_AMOUNT)
    with open_trajectory(tmp_path / "runs" / str(result["file"].values[1])) as found:
        alone = simulate(dataclasses.replace(LONG, fa=2.0), record="metrics", **LONG_AMOUNT)
        xr.testing.assert_equal(found, alone)
    assert not list((tmp_path / "runs").glob("*.parts"))


# ---------------------------------------------------------------------------------------------- a cluster

KILLER = 66.0
PRELOAD = f"""
import os
from dynamics.sweeps import design
from dynamics.simulation import simulate as real

def simulate(settings, **words):
    if settings.fa == {KILLER}:
        os.kill(os.getpid(), 9)
    return real(settings, **words)

design.simulate = simulate
"""


@pytest.fixture(scope="module")
def cluster(tmp_path_factory):
    """Two worker processes of one thread, which one setting kills; a scheduler that gives up at the second death."""
    preload = tmp_path_factory.mktemp("cluster") / "preload.py"
    preload.write_text(PRELOAD)
    settings = {"distributed.scheduler.allowed-failures": 1, "temporary-directory": str(preload.parent)}
    shape = {"n_workers": 2, "threads_per_worker": 1, "processes": True}
    with (
        dask.config.set(settings),
        LocalCluster(**shape, dashboard_address=None, host="127.0.0.1", preload=[str(preload)]) as cluster,
    ):
        yield cluster.scheduler_address


def kill_a_busy_worker(address, killed):
    with Client(address, set_as_default=False) as client:
        pids = client.run(os.getpid)
        busy: list[str] = []
        while not busy:
            busy = [worker for worker, tasks in client.processing().items() if tasks]
            time.sleep(0.02)
        time.sleep(0.3)
        os.kill(pids[busy[0]], signal.SIGKILL)
        killed.append(busy[0])


def test_a_killed_worker_loses_and_doubles_nothing(cluster, tmp_path, monkeypatch):
    placed = []
    save = module._save_file
    monkeypatch.setattr(module, "_save_file", lambda point, content: [placed.append(point.path), save(point, content)])
    killed, axes = [], {"fa": [1, 2, 3, 4]}
    knife = threading.Thread(target=kill_a_busy_worker, args=(cluster, killed))
    knife.start()
    there = sweep(LONG, axes, scheduler=cluster, folder="there", **LONG_AMOUNT)
    knife.join()
    assert killed
    xr.testing.assert_identical(bare(there), bare(sweep(LONG, axes, folder="here", **LONG_AMOUNT)))
    assert len(set(placed)) == len(placed) == 4
    files = {path.name for path in (tmp_path / "there").iterdir() if not path.name.endswith(".lock")}
    assert files == set(there["file"].values.tolist())
    for name in files:
        with open_trajectory(tmp_path / "there" / name) as one, open_trajectory(tmp_path / "here" / name) as other:
            xr.testing.assert_equal(one, other)


def test_a_point_that_kills_workers_is_named_when_the_others_are_done(cluster, here, tmp_path):
    words = ["particles", "--fa", KILLER, 1, 2, "--n", 5, "--runs", 2, "--scheduler", cluster]
    code, _, errors = here(*words)
    assert code == 1
    assert re.fullmatch(r"error: workers died while they computed these points.*: fa=66.0\n", errors)
    assert len(list((tmp_path / "runs").glob("*.nc"))) == 2


def test_errors_of_workers_come_back_as_themselves(cluster, tmp_path):
    np.save(tmp_path / "x.npy", 1e-300 * np.arange(10.0).reshape(5, 2))
    settings = ParticleSettings(n=5, start=str(tmp_path / "x.npy"), variance="none")
    with pytest.raises(SettingsError) as here:
        sweep(settings, {"fa": [0.0, 1.0]}, folder="here", **AMOUNT)
    with pytest.raises(SettingsError) as there:
        sweep(settings, {"fa": [0.0, 1.0]}, folder="there", scheduler=cluster, **AMOUNT)
    assert str(here.value) == str(there.value)
    assert re.fullmatch(r"at the point fa=[01].0", there.value.__notes__[0])


def test_an_interrupted_or_shorter_point_is_replaced_by_a_worker(cluster, tmp_path, monkeypatch):
    sweep(SETTINGS, {"fa": [1.0]}, **AMOUNT)
    monkeypatch.setattr(ParticleSystem, "advance", stopping(ParticleSystem.advance))
    with pytest.raises(SweepInterrupted) as stop:
        sweep(SETTINGS, {"fa": [1.0, 2.0]}, **{**AMOUNT, "steps": 60})
    monkeypatch.undo()
    monkeypatch.chdir(tmp_path)
    assert str(stop.value) == "interrupted: 0 of 2 points are done"
    assert list((tmp_path / "runs").glob("*.parts"))
    longer = {**AMOUNT, "steps": 60}
    there = sweep(SETTINGS, {"fa": [1.0, 2.0]}, scheduler=cluster, **longer)
    assert not list((tmp_path / "runs").glob("*.parts"))
    xr.testing.assert_identical(bare(there), bare(sweep(SETTINGS, {"fa": [1.0, 2.0]}, folder="anew", **longer)))


def stopping(advance):
    """`advance` after which there is a SIGINT."""

    def stopped(system, state, steps):
        state = advance(system, state, steps)
        os.kill(os.getpid(), signal.SIGINT)
        return state

    return stopped


def test_what_a_worker_sends_is_checked_before_it_takes_its_name(tmp_path, monkeypatch):
    monkeypatch.setattr("distributed.get_worker", lambda: type("Worker", (), {"local_directory": str(tmp_path)}))
    grid = sweep_design(SETTINGS, {"fa": [1.0, 2.0]}, runs=2, steps=5)
    first, second = grid.points
    content = compute_point(first, grid)
    for point, sent in [(first, content[:-1]), (first, content[:500] + b"x" + content[501:]), (second, content)]:
        with pytest.raises(SweepError, match="returned a wrong file"):
            module._save_file(point, sent)
    with pytest.raises(SweepError, match="returned 5 of 6 steps"):
        module._save_file(first._replace(steps=6), content)
    assert not list((tmp_path / "runs").glob("*.nc"))
    left = first.path.with_name(f".{first.path.name}.1.2.tmp")  # by a client that was killed
    left.write_bytes(content)
    module._save_file(first, content)
    assert not list((tmp_path / "runs").glob(".*.tmp"))
    simulate(first.settings, runs=2, steps=9, record="metrics", out=first.path, progress=False).close()
    module._save_file(first, content)  # somebody has extended it since: that stays
    with open_trajectory(first.path) as longer:
        assert int(longer["step"][-1]) == 9
    assert compute_missing_points(grid, progress=False) == 1
    assert combine_points(grid)["file"].values.tolist() == [first.path.name, second.path.name]


def test_a_scheduler_that_does_not_answer_is_an_error(here, monkeypatch):
    monkeypatch.setattr(module, "CONNECT_TIMEOUT", 0.5)
    begin = time.monotonic()
    code, _, errors = here("particles", "--fa", 1, 2, "--runs", 1, "--scheduler", "tcp://127.0.0.1:1")
    assert code == 1
    assert errors == "error: scheduler tcp://127.0.0.1:1: no answer within 0.5 s\n"
    assert time.monotonic() - begin < 10


def test_without_dask_it_is_said_how_to_get_it(monkeypatch):
    monkeypatch.setitem(sys.modules, "distributed", None)
    with pytest.raises(MissingPackage, match=re.escape("pip install 'training-dynamics[sweep]'")):
        sweep(SETTINGS, AXES, scheduler="tcp://127.0.0.1:1", **AMOUNT)


# -------------------------------------------------------------------------------------------- the command


@pytest.mark.parametrize("system", ["particles", "modular"])
def test_help_shows_the_help_of_settings_and_imports_nothing_heavy(environment, system):
    code = f"""
import runpy, sys
sys.argv = ["x", "{system}", "--help"]
try:
    runpy.run_module("sims.sweep", run_name="__main__", alter_sys=True)
except SystemExit as end:
    assert end.code == 0
heavy = {{"numba", "numpy", "xarray", "scipy", "matplotlib", "torch", "netCDF4", "distributed"}} & set(sys.modules)
assert not heavy, heavy
"""
    words = [sys.executable, "-c", code]
    done = subprocess.run(words, env={**environment, "COLUMNS": "200"}, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    assert f"python -m sims.sweep {system}" in done.stdout
    help_of = {"particles": "Alignment constant f_a (CA eq 4).", "modular": "Width H of the hidden layer."}
    assert help_of[system] in done.stdout
    assert ("--epochs" in done.stdout, "--steps" in done.stdout) == (system == "modular", system == "particles")


def test_options_are_made_of_any_settings(batches):
    texts = field_descriptions(BatchSettings)
    assert texts["batch"] == "Examples in a step."
    assert texts["fa"] == field_descriptions(ParticleSettings)["fa"]
    chosen = sweep_options(BatchSettings)()
    assert chosen.settings.batch == (4,)
    assert chosen.settings.positions == ()
    chosen = dataclasses.replace(
        chosen, settings=dataclasses.replace(chosen.settings, batch=(4, 8), fa=(2.0,), positions=(1, 2)), epochs=2
    )
    grid = design_from_options(chosen)
    assert grid.axes == {"batch": [4, 8]}
    assert grid.settings == BatchSettings(fa=2.0, positions=(1, 2))
    assert [point.steps for point in grid.points] == [12, 6]


def test_the_command_prints_a_line_for_each_point(here, tmp_path):
    words = ["particles", "--fa", 1, 2, "--n", 5, "--ga", 1, 3, "--runs", 4, "--steps", 5]
    code, printed, _ = here(*words, "--csv", "a.csv")
    assert code == 0
    lines = printed.splitlines()
    assert lines[0] == "points      4 in runs (4 computed, 0 found)"
    sweep_file = tmp_path / re.fullmatch(r"sweep       (runs/sweep-particles-[0-9a-f]{12}\.nc)", lines[1])[1]
    assert lines[3].split() == ["fa", "ga", "runs", "embedding", "force", "diverged", "file"]
    assert len(lines) == 9
    rows = list(csv.DictReader((tmp_path / "a.csv").open()))
    assert [(row["fa"], row["ga"]) for row in rows] == [("1.0", "1.0"), ("1.0", "3.0"), ("2.0", "1.0"), ("2.0", "3.0")]
    with xr.open_dataset(sweep_file) as written:
        expected = sweep(ParticleSettings(n=5), {"fa": [1, 2], "ga": [1, 3]}, runs=4, steps=5, progress=False)
        xr.testing.assert_equal(written.load(), expected)
        np.testing.assert_allclose(
            [float(row["embedding_gradient_norm"]) for row in rows],
            expected["final_gradient_norm"].mean("run").values.flat,
        )
    code, printed, _ = here(*words)
    assert printed.splitlines()[0] == "points      4 in runs (0 computed, 4 found)"


def test_a_long_table_is_shortened_on_the_terminal_alone(here, tmp_path, monkeypatch):
    monkeypatch.setattr("sims.command_line.MAX_PRINTED_POINTS", 2)
    code, printed, _ = here("particles", "--fa", 1, 2, 3, "--n", 3, "--runs", 1, "--steps", 1, "--csv", "a.csv")
    assert code == 0
    assert printed.splitlines()[-1] == "and 1 more points; --csv FILE.csv writes all"
    assert len(list(csv.DictReader((tmp_path / "a.csv").open()))) == 3


@pytest.mark.parametrize(
    ("words", "named"),
    [
        (["nosuch", "--fa", "1"], "nosuch"),
        ([], "particles"),
        (["particles", "--fa", "1", "nan"], "--fa"),
        (["particles", "--fa"], "--fa"),
        (["particles", "--fa", "1", "1"], "--fa"),
        (["particles", "--fa", "1", "many"], "--fa"),
        (["particles", "--step-rule", "force", "bogus"], "--step-rule"),
        (["particles", "--n", "3", "4.5"], "--n"),
        (["particles", "--folder", ""], "--folder"),
        (["particles", "--folder", "file"], "--folder"),
        (["particles", "--epochs", "3"], "--epochs"),
        (["particles", "--steps", "-1"], "--steps"),
        (["particles", "--every", "0"], "--every"),
        (["particles", "--runs", "0"], "--runs"),
        (["particles", "--out", "a.png"], "--out"),
        (["particles", "--out", "other.nc"], "--out"),
        (["particles", "--csv", "a.nc"], "--csv"),
        (["particles", "--n", "5", "100000", "--runs", "100000"], "--n"),
        (["particles", "--scheduler", "bogus"], "--scheduler"),
        (["particles", "--scheduler", ""], "--scheduler"),
        (["particles", "--scheduler", "tcp://127.0.0.1:99999"], "--scheduler"),
    ],
)
def test_a_mistake_is_named_without_a_traceback(here, tmp_path, words, named):
    (tmp_path / "file").write_text("")
    (tmp_path / "other.nc").write_text("")
    code, _, errors = here(*words)
    assert code == 2
    assert named in errors
    assert not (tmp_path / "runs").exists()
