"""Sweeps: design, combined dataset, finished points, interruptions, and a dask cluster
whose workers die."""

import contextlib
import csv
import dataclasses
import functools
import itertools
import json
import re
import shlex
import signal
import sys
import time
from pathlib import Path

import dask
import numpy as np
import pytest
import xarray as xr
from distributed import Client, LocalCluster
from numpy.testing import assert_allclose, assert_array_equal

from analysis.structures import add_structures, is_circle, summarise_structures
from dynamics import (
    MissingPackage,
    TrajectoryError,
    final_embedding,
    open_trajectory,
    run_path,
    simulate,
)
from dynamics.particles.particle_system import ParticleSystem
from dynamics.settings import (
    ModularSettings,
    ParticleSettings,
    SettingsError,
    SparseSettings,
)
from dynamics.sweeps import combine_points, compute_missing_points, sweep, sweep_design
from dynamics.sweeps import dask_backend as module
from dynamics.sweeps.dask_backend import SweepError, compute_point
from dynamics.trajectory import DIVERGED, DONE, closed_parts
from dynamics.trajectory.description import recorded_backend
from sims.command_line.sweep_options import design_from_options, sweep_options
from sims.command_line.sweep_results import sweep_rows
from tests.interruptions import interrupt_at

SETTINGS = ParticleSettings(n=5)
AXES = {"fa": [0.5, 2.0], "step_rule": ["force", "direction", "particle"]}
AMOUNT = {"runs": 3, "steps": 12, "every": 5}


SPARSE = SparseSettings(length=4, sparsity=2, data=24, batch=4, hidden=4)


@pytest.fixture
def here(output_of):
    return functools.partial(output_of, "sims.sweep")


# ----------------------------------------------------------------------------- the grid


def test_a_sweep_is_its_single_runs(tmp_path):
    result = sweep(SETTINGS, AXES, seed=7, **AMOUNT)
    assert dict(result.sizes) == {"fa": 2, "step_rule": 3, "run": 3, "layer": 1}
    for name, values in {**AXES, "seed": [7, 8, 9]}.items():
        assert result[name].values.tolist() == values
    assert (result["status"] == DONE).all()
    for fa, rule in itertools.product(*AXES.values()):
        settings = dataclasses.replace(SETTINGS, fa=fa, step_rule=rule)
        alone = simulate(settings, seed=7, record="metrics", **AMOUNT)
        point = result.sel(fa=fa, step_rule=rule)
        assert str(point["file"].values) == run_path(settings, 3, 7, 5, "metrics").name
        assert int(point["steps"]) == 12
        with open_trajectory(tmp_path / "runs" / str(point["file"].values)) as written:
            xr.testing.assert_equal(written, alone)
        for name in ("gradient_norm", "update_norm"):
            frames = alone[name].transpose("step", "run", "layer").values
            assert_array_equal(point[f"final_{name}"], frames[-1])
            assert_array_equal(point[f"peak_{name}"], frames.max(axis=0))
            first = 1 if name == "update_norm" else 0  # 0 at step 0 by definition
            assert_array_equal(point[f"lowest_{name}"], frames[first:].min(axis=0))
            assert point[f"peak_{name}"].dtype == np.float32
    config = json.loads(json.dumps(dataclasses.asdict(SETTINGS)))
    assert json.loads(result.attrs["config_json"]) == config
    assert json.loads(result.attrs["swept"]) == ["fa", "step_rule"]
    assert [result.attrs[name] for name in ("system", "runs", "seed", "record")] == [
        "particles",
        3,
        7,
        "metrics",
    ]
    assert "numpy" in json.loads(result.attrs["package_versions"])


def test_a_sweep_of_networks_keeps_the_splits_that_all_points_have():
    settings, amount = (
        ModularSettings(n=5, hidden=4),
        {"runs": 2, "every": 2},
    )
    result = sweep(
        settings,
        {"train_share": [0.8, 1.0], "weight_decay": [0.0, 1.0]},
        epochs=6,
        **amount,
    )
    assert result["split"].values.tolist() == ["train"]
    assert result.attrs["left_out"] == "split validation"
    assert (result["epochs"] == 6).all()
    alone = simulate(settings, steps=6, record="metrics", **amount)
    there = sweep(settings, {"lr": [0.01]}, epochs=6, **amount)
    assert there["split"].values.tolist() == ["train", "validation"]
    for name in ("loss", "accuracy"):
        assert_array_equal(there[f"final_{name}"][0], alone[name].isel(step=-1))
        assert_array_equal(there[f"peak_{name}"][0], alone[name].max("step"))
    assert not any(
        np.isnan(values).any()
        for values in result.data_vars.values()
        if values.dtype.kind == "f"
    )
    for backend in ("simd", "blas"):
        point = sweep_design(
            settings, {"lr": [0.01]}, epochs=6, backend=backend, runs=2, every=2
        ).points[0]
        sweep(settings, {"lr": [0.01]}, epochs=6, backend=backend, **amount)
        with open_trajectory(point.path) as trained:
            assert recorded_backend(trained.attrs) == backend


def test_epochs_may_have_different_numbers_of_steps():
    result = sweep(SPARSE, {"batch": [4, 8]}, runs=2, epochs=5, every=2)
    assert [result[name].values.tolist() for name in ("steps", "epochs")] == [
        [30, 15],
        [5, 5],
    ]
    with open_trajectory(f"runs/{result['file'].values[1]}") as second:
        assert second["step"].values.tolist() == [0, 6, 12, 15]
    assert [
        point.steps for point in sweep_design(SPARSE, {"batch": [4, 8]}).points
    ] == [6000, 3000]
    with pytest.raises(SettingsError, match="steps: found 5, allowed is epochs"):
        sweep(SPARSE, {"batch": [4]}, steps=5)
    with pytest.raises(SettingsError, match="epochs: found 5, allowed is steps"):
        sweep(SETTINGS, {"fa": [1]}, epochs=5)


def test_peaks_are_over_the_frames_before_a_run_diverged(diverging):
    result = sweep(diverging, {"ga": [1.0, 2.0]}, runs=2, steps=30)
    assert result["status"].values.tolist() == [[DONE, DIVERGED]] * 2
    assert result["last_step"].values.tolist() == [[30, 0]] * 2
    ended = result.isel(run=1)
    for name in ("gradient_norm", "update_norm"):
        assert_array_equal(ended[f"lowest_{name}"], ended[f"peak_{name}"])
    assert np.isfinite(result["peak_gradient_norm"]).all()


def test_means_of_a_point_leave_out_runs_that_have_diverged(diverging):
    result = sweep(diverging, {"ga": [1.0, 2.0]}, runs=2, steps=30)
    rows = sweep_rows(result)
    assert [(row["runs"], row["diverged"]) for row in rows] == [(2, 1)] * 2
    means = [row["embedding_gradient_norm"] for row in rows]
    assert_allclose(means, result["final_gradient_norm"].isel(run=0).values.ravel())


INVALID_AXES = [
    *(
        ("fa", {"fa": values})
        for values in ([1, 1.0], [], [1, -1], [(1, 2)], 3, np.array([1.0, 1.0]))
    ),
    *(("start", {"start": "random"}), ("system", {"system": ["modular"]})),
    *(
        ("fa, ga", {"fa": range(1000), "ga": range(1000)}),
        ("step_rule", {"step_rule": ["force", "other"]}),
    ),
]


@pytest.mark.parametrize(("field", "axes"), INVALID_AXES)
def test_axes_are_checked_before_anything_is_computed(tmp_path, axes, field):
    with pytest.raises(SettingsError) as refused:
        sweep(SETTINGS, axes, **AMOUNT)
    assert refused.value.field == field
    assert list(tmp_path.iterdir()) == []


# ------------------------------------------------------------------ what is found again


def test_an_enlarged_sweep_computes_what_is_missing(tmp_path, computed):
    sweep(SETTINGS, {"fa": [0.5, 2.0]}, **AMOUNT)
    before = {
        path: path.stat().st_mtime_ns for path in (tmp_path / "runs").glob("*.nc")
    }
    result = sweep(SETTINGS, {"fa": [0.5, 1.0, 2.0]}, **AMOUNT)
    assert [settings.fa for settings in computed] == [0.5, 2.0, 1.0]
    assert all(path.stat().st_mtime_ns == when for path, when in before.items())
    assert len(set(result["file"].values.tolist())) == 3
    sweep(
        SETTINGS, {"fa": [1.0, 2.0]}, **{**AMOUNT, "steps": 10}
    )  # shorter: as they were then
    assert len(computed) == 3
    longer, anew = (
        sweep(SETTINGS, {"fa": [1.0]}, folder=name, **{**AMOUNT, "steps": 40})
        for name in ("runs", "anew")
    )
    assert len(computed) == 5
    xr.testing.assert_equal(longer, anew)
    with pytest.raises(
        SettingsError, match="steps: found 11 steps, allowed is a length recorded in"
    ):
        sweep(SETTINGS, {"fa": [1.0]}, **{**AMOUNT, "steps": 11})


def test_a_damaged_point_is_named(tmp_path):
    axes = {"fa": [1.0, 2.0]}
    damaged = tmp_path / "runs" / str(sweep(SETTINGS, axes, **AMOUNT)["file"].values[1])
    damaged.write_bytes(damaged.read_bytes()[:-1])
    with pytest.raises(TrajectoryError, match=damaged.name) as error:
        sweep(SETTINGS, axes, **AMOUNT)
    assert error.value.__notes__ == ["at the point fa=2.0"]


@pytest.mark.parametrize("signum", [signal.SIGINT, signal.SIGTERM])
def test_an_interrupted_sweep_continues(typed, monkeypatch, signum):
    def advance(self, state, steps):
        if self.settings.fa == 2 and state.step == 5:
            signal.raise_signal(signum)
        return real(self, state, steps)

    real, words = (
        ParticleSystem.advance,
        "particles --fa 1 2 3 --n 5 --runs 3 --steps 12 --every 5",
    )
    with monkeypatch.context() as patch:
        patch.setattr(ParticleSystem, "advance", advance)
        code, _, errors = typed("sims.sweep", *words.split())
    assert code == 128 + signum
    last = errors.strip().splitlines()[-1]
    assert (
        last
        == "interrupted: 1 of 3 points are done: the same command continues from there"
    )
    points = [dataclasses.replace(SETTINGS, fa=fa) for fa in (1.0, 2.0)]
    first, second = (run_path(point, 3, 0, 5, "metrics") for point in points)
    assert first.exists()
    assert closed_parts(second)
    sweep(SETTINGS, {"fa": [1, 2, 3]}, **AMOUNT)
    with open_trajectory(second) as result:
        xr.testing.assert_equal(result, simulate(points[1], record="metrics", **AMOUNT))
    assert not list(second.parent.glob("*.parts"))


# ---------------------------------------------------------------------------- a cluster

PRELOAD = """
import os
from dynamics import Ensemble

Ensemble.real_simulate = getattr(Ensemble, "real_simulate", Ensemble.simulate)

def simulate(ensemble, *arguments, **options):
    fa = ensemble.settings.fa
    if fa == 66.0 or fa == 77.0 and not os.path.exists(MARK):
        open(MARK, "w").close()
        os.kill(os.getpid(), 9)
    return ensemble.real_simulate(*arguments, **options)

Ensemble.simulate = simulate
"""
"""A worker dies of a point with f_a = 66, and of the first with f_a = 77 that any
worker begins."""


@pytest.fixture(scope="module")
def cluster(tmp_path_factory, processes):
    """Two worker processes of one thread; a scheduler that gives up at the second
    death."""
    preload = tmp_path_factory.mktemp("cluster") / "preload.py"
    preload.write_text(f"MARK = {str(preload.with_name('killed'))!r}\n{PRELOAD}")
    settings = {
        "distributed.scheduler.allowed-failures": 1,
        "temporary-directory": str(preload.parent),
        "distributed.worker.multiprocessing-method": processes.get_start_method(),
    }
    shape = {"n_workers": 2, "threads_per_worker": 1, "processes": True}
    with (
        dask.config.set(settings),
        LocalCluster(
            **shape, dashboard_address=None, host="127.0.0.1", preload=[str(preload)]
        ) as cluster,
    ):
        yield cluster.scheduler_address


@pytest.mark.parametrize("kind", ["client", "cluster"])
def test_clients_and_clusters_of_dask_compute_a_sweep_and_stay_open(cluster, kind):
    expected = sweep(SETTINGS, {"fa": [1, 2]}, folder="here", **AMOUNT)
    with contextlib.ExitStack() as stack:
        if kind == "client":
            scheduler = stack.enter_context(Client(cluster, set_as_default=False))
        else:
            shape = {"processes": False, "n_workers": 1, "threads_per_worker": 2}
            scheduler = stack.enter_context(
                LocalCluster(**shape, dashboard_address=None)
            )
        for axes in ([1, 2], [3, 4]):
            there = sweep(
                SETTINGS, {"fa": axes}, scheduler=scheduler, folder="there", **AMOUNT
            )
            if axes == [1, 2]:
                xr.testing.assert_equal(there, expected)
        name = getattr(scheduler.status, "name", scheduler.status)
        assert name == "running"
    with pytest.raises(SettingsError, match="scheduler: found a .* that is closed"):
        sweep(SETTINGS, {"fa": [5]}, scheduler=scheduler, **AMOUNT)
    with pytest.raises(SettingsError, match="scheduler: found a int, allowed is an"):
        sweep(SETTINGS, {"fa": [5]}, scheduler=8786, **AMOUNT)


def test_each_point_is_saved_once_although_a_worker_is_killed(cluster, monkeypatch):
    placed, save = [], module._save_file
    monkeypatch.setattr(
        module,
        "_save_file",
        lambda point, content: [placed.append(point.path), save(point, content)],
    )
    axes = {"fa": [1, 77, 3, 4]}
    there = sweep(SETTINGS, axes, scheduler=cluster, folder="there", **AMOUNT)
    xr.testing.assert_equal(there, sweep(SETTINGS, axes, folder="here", **AMOUNT))
    assert len(set(placed)) == len(placed) == 4
    files = {path.name for path in Path("there").iterdir()}
    assert files == set(there["file"].values.tolist())
    for name in files:
        with (
            open_trajectory(f"there/{name}") as one,
            open_trajectory(f"here/{name}") as other,
        ):
            xr.testing.assert_equal(one, other)


def test_a_point_that_kills_workers_is_named_when_the_others_are_done(
    cluster, here, tmp_path
):
    errors = here(
        *"particles --fa 66 1 2 --n 5 --runs 2 --scheduler".split(), cluster, code=1
    )
    assert re.fullmatch(
        r"error: workers died while they computed these points.*: fa=66.0\n", errors
    )
    assert len(list((tmp_path / "runs").glob("*.nc"))) == 2


def test_errors_of_workers_are_raised_unchanged(cluster, tmp_path):
    np.save("x.npy", 1e-300 * np.arange(10.0).reshape(5, 2))
    settings, errors = (
        ParticleSettings(n=5, start=str(tmp_path / "x.npy"), variance="none"),
        [],
    )
    for scheduler in (None, cluster):
        with pytest.raises(SettingsError) as error:
            sweep(
                settings,
                {"fa": [0.0, 1.0]},
                folder="runs",
                scheduler=scheduler,
                **AMOUNT,
            )
        errors.append(error.value)
    assert str(errors[0]) == str(errors[1])
    assert re.fullmatch(r"at the point fa=[01].0", errors[1].__notes__[0])


def test_an_interrupted_or_shorter_point_is_replaced_by_a_worker(cluster, tmp_path):
    sweep(SETTINGS, {"fa": [1.0]}, **AMOUNT)
    axes, longer = {"fa": [1.0, 2.0]}, {**AMOUNT, "steps": 60}
    with interrupt_at(ParticleSystem, 20) as stop:
        sweep(SETTINGS, axes, **longer)
    assert str(stop.value) == "interrupted: 0 of 2 points are done"
    assert list((tmp_path / "runs").glob("*.parts"))
    there = sweep(SETTINGS, axes, scheduler=cluster, **longer)
    assert not list((tmp_path / "runs").glob("*.parts"))
    xr.testing.assert_equal(there, sweep(SETTINGS, axes, folder="anew", **longer))


def test_what_a_worker_sends_is_checked_before_it_takes_its_name(tmp_path, monkeypatch):
    monkeypatch.setattr(
        "distributed.get_worker",
        lambda: type("Worker", (), {"local_directory": str(tmp_path)}),
    )
    grid = sweep_design(SETTINGS, {"fa": [1.0, 2.0]}, runs=2, steps=5)
    first, second = grid.points
    content = compute_point(first)
    for point, sent in [
        (first, content[:-1]),
        (first, content[:500] + b"x" + content[501:]),
        (second, content),
    ]:
        with pytest.raises(SweepError, match="returned a wrong file"):
            module._save_file(point, sent)
    with pytest.raises(SweepError, match="found 5 of 6 steps"):
        longer = dataclasses.replace(first.ensemble, steps=6)
        module._save_file(first._replace(ensemble=longer), content)
    assert not list((tmp_path / "runs").glob("*.nc"))
    left = first.path.with_name(
        f".{first.path.name}.1.2.tmp"
    )  # by a client that was killed
    left.write_bytes(content)
    module._save_file(first, content)
    assert not list((tmp_path / "runs").glob(".*.tmp"))
    simulate(
        first.settings,
        runs=2,
        steps=9,
        record="metrics",
        out=first.path,
    ).close()
    module._save_file(first, content)  # somebody has extended it since: that stays
    with open_trajectory(first.path) as longer:
        assert int(longer["step"][-1]) == 9
    assert compute_missing_points(grid) == 1
    assert combine_points(grid)["file"].values.tolist() == [
        first.path.name,
        second.path.name,
    ]


def test_a_scheduler_that_does_not_answer_is_an_error(here, monkeypatch):
    monkeypatch.setattr(module, "CONNECT_TIMEOUT", 0.5)
    begin = time.monotonic()
    errors = here(
        "particles",
        "--fa",
        1,
        2,
        "--runs",
        1,
        "--scheduler",
        "tcp://127.0.0.1:1",
        code=1,
    )
    assert errors == "error: scheduler tcp://127.0.0.1:1: no answer within 0.5 s\n"
    assert time.monotonic() - begin < 10


def test_without_dask_the_error_names_the_package(monkeypatch):
    monkeypatch.setitem(sys.modules, "distributed", None)
    with pytest.raises(
        MissingPackage, match=re.escape("pip install 'training-dynamics[sweep]'")
    ):
        sweep(SETTINGS, AXES, scheduler="tcp://127.0.0.1:1", **AMOUNT)


# -------------------------------------------------------------------------- the command


PARTICLES = "particles", "Alignment constant f_a (CA eq 4).", "--steps", "--epochs"
MODULAR = "modular", "Width H of the hidden layer.", "--epochs", "--steps"


@pytest.mark.parametrize(("system", "text", "length", "absent"), [PARTICLES, MODULAR])
def test_help_has_the_texts_of_the_settings(
    here, monkeypatch, system, text, length, absent
):
    monkeypatch.setenv("COLUMNS", "200")
    printed = here(system, "--help")
    for told in (f"python -m sims.sweep {system}", text, length):
        assert told in printed
    assert absent not in printed


def test_options_are_those_of_the_settings():
    options = sweep_options(SparseSettings)()
    assert (options.settings.batch, options.settings.positions) == ((32,), ())
    names = {
        "length": (4,),
        "sparsity": (2,),
        "data": (24,),
        "hidden": (4,),
        "batch": (4, 8),
        "positions": (1, 2),
    }
    chosen = dataclasses.replace(options.settings, **names)
    design = design_from_options(
        dataclasses.replace(options, settings=chosen, epochs=2)
    )
    assert design.axes == {"batch": [4, 8]}
    assert design.settings == dataclasses.replace(SPARSE, positions=(1, 2))
    assert [point.steps for point in design.points] == [12, 6]


def test_the_command_prints_a_line_for_each_point(here):
    words = "particles --fa 1 2 --n 5 --ga 1 3 --runs 4 --steps 5".split()
    lines = here(*words, "--csv", "a.csv").splitlines()
    assert lines[0] == "points      4 in runs (4 computed, 0 found)"
    sweep_file = re.fullmatch(
        r"sweep       (runs/sweep-particles-[0-9a-f]{12}\.nc)", lines[1]
    )[1]
    assert lines[2] == f"picture     {sweep_file.removesuffix('nc')}png"
    heading = "fa ga runs circles % [95%] imperfections embedding force diverged file"
    assert lines[4].split() == heading.split()
    assert len(lines) == 11
    rows = list(csv.DictReader(Path("a.csv").read_text().splitlines()))
    assert [(row["fa"], row["ga"]) for row in rows] == [
        ("1.0", "1.0"),
        ("1.0", "3.0"),
        ("2.0", "1.0"),
        ("2.0", "3.0"),
    ]
    expected = sweep(
        ParticleSettings(n=5),
        {"fa": [1, 2], "ga": [1, 3]},
        runs=4,
        steps=5,
    )
    with xr.open_dataset(sweep_file) as written:
        xr.testing.assert_equal(written.load(), add_structures(expected))
    norms = expected["final_gradient_norm"].mean("run").values.flat
    assert_allclose([float(row["embedding_gradient_norm"]) for row in rows], norms)
    assert here(*words).splitlines()[0] == "points      4 in runs (0 computed, 4 found)"


def test_structures_are_those_of_the_recorded_embeddings(here):
    words = (
        "particles --fa 1 2 --n 7 --runs 6 --steps 60 --record all --csv a.csv --column"
        " --format svg"
    )
    printed = here(*words.split())
    assert re.search(
        r"fa +runs +circles % \[95%\] +imperfections +embedding force", printed
    )
    assert "imperfections: mean of the runs that are not circles" in printed
    rows = list(csv.DictReader(Path("a.csv").read_text().splitlines()))
    for row in rows:
        ends = final_embedding(open_trajectory(Path("runs", row["file"]))).values
        result = summarise_structures(ends)
        assert [row["runs"], row["circles"]] == ["6", str(is_circle(ends).sum())]
        for name, interval, scale in (
            ("circles_percent", result.circle_fraction, 100),
            ("imperfections", result.imperfections, 1),
        ):
            values = [float(row[name + end] or "nan") for end in ("", "_low", "_high")]
            assert_allclose(values, scale * np.array(interval))
    picture = Path(re.search(r"picture +(.*\.svg)", printed)[1]).read_text()
    for label in (">circles / %<", ">imperfections<"):
        assert picture.count(label) == 1
    assert picture.count(">f<") == picture.count(">a<") == 2  # $f_a$ below two panels
    assert ">embedding force<" not in picture  # not what one wants to know
    task = (
        "sparse --lr 0.01 0.02 --length 4 --sparsity 2 --data 24 --batch 8 --hidden 4"
    )
    assert "circles" not in here(
        *task.split(), *"--epochs 2 --runs 2 --record all".split()
    )


def test_a_long_table_is_shortened_on_the_terminal_alone(here, monkeypatch):
    monkeypatch.setattr("sims.command_line.MAX_PRINTED_POINTS", 2)
    printed = here(*"particles --fa 1 2 3 --n 3 --runs 1 --steps 1 --csv a.csv".split())
    assert printed.splitlines()[-1] == "and 1 more points; --csv FILE.csv writes all"
    assert len(list(csv.DictReader(Path("a.csv").read_text().splitlines()))) == 3


INVALID = [
    *(f"--fa {values}" for values in ("1 nan", "", "1 1", "1 many")),
    *(f"--part {part}" for part in ("0/3", "4/3", "3", "''", "a/b", "1/0", "1/2/3")),
    *(f"--scheduler {address}" for address in ("bogus", "''", "tcp://127.0.0.1:99999")),
    *(
        "--folder ''",
        "--folder file",
        "--csv a.nc",
        "--out a.png",
        "--out other.nc",
        "--step-rule force bogus",
    ),
    *(
        "--n 3 4.5",
        "--n 5 100000 --runs 100000",
        "--epochs 3",
        "--steps -1",
        "--every 0",
        "--runs 0",
    ),
]


@pytest.mark.parametrize(
    "words", ["nosuch --fa 1", "", *(f"particles {words}" for words in INVALID)]
)
def test_invalid_options_are_reported_in_a_line(typed, tmp_path, words):
    for name in ("file", "other.nc"):
        (tmp_path / name).touch()
    code, _, errors = typed("sims.sweep", *shlex.split(words))
    named = [*words.removeprefix("particles ").split(), "particles"][0]
    assert code == 2
    assert named in errors
    assert not (tmp_path / "runs").exists()
