"""Processes that are killed, stopped or run out of disk, and started again: the same bits, nothing lost."""

import os
import random
import signal
import subprocess
import sys
import time

import numpy as np
import pytest
import xarray as xr

from dynamics.errors import RecordingError, TrajectoryError
from dynamics.settings import ParticleSettings
from dynamics.simulation import simulate
from dynamics.trajectory import netcdf, recorder
from dynamics.trajectory.parts import closed_parts, parts_folder
from dynamics.trajectory.reader import checkpoints, open_trajectory

SETTINGS = ParticleSettings(n=5, fa=2.0)
AMOUNT = {"runs": 4, "steps": 4000, "every": 2}

# The same run with parts so small that there are dozens of them; says when the work begins.
SCRIPT = """
import sys
from dynamics import Interrupted, ParticleSettings, simulate
from dynamics.trajectory import recorder
recorder.PART_SECONDS = 0.03
simulate(ParticleSettings(n=5, fa=2.0), runs=1, steps=1)  # compile
print("working", flush=True)
try:
    simulate(ParticleSettings(n=5, fa=2.0), runs=4, steps=4000, every=2, out=sys.argv[1])
except Interrupted as stop:
    sys.exit(128 + stop.signum)
"""


def begin(path, environment):
    process = subprocess.Popen(
        [sys.executable, "-c", SCRIPT, str(path)], env=environment, stdout=subprocess.PIPE, text=True
    )
    assert process.stdout is not None
    assert process.stdout.readline() == "working\n"
    return process


@pytest.fixture(scope="module")
def undisturbed(tmp_path_factory):
    path = tmp_path_factory.mktemp("undisturbed") / "run.nc"
    simulate(SETTINGS, out=path, **AMOUNT).close()
    return path


def assert_same(path, undisturbed):
    for read in (open_trajectory, checkpoints):
        with read(path) as found, read(undisturbed) as expected:
            xr.testing.assert_equal(found, expected)
    assert not parts_folder(path).exists()


@pytest.mark.timeout(1800)
@pytest.mark.parametrize("number", [10, pytest.param(80, marks=pytest.mark.slow)])
def test_killed_at_random_moments(tmp_path, environment, undisturbed, number):
    """kill -9 while it computes, writes a part, merges or tidies up; at any time what is there is valid."""
    moments = random.Random(number)
    path = tmp_path / "run.nc"
    kills = finished = 0
    while kills < number or not path.exists():
        process = begin(path, environment)
        time.sleep(moments.uniform(0, 1.0))  # to the end takes about as long: some get there
        process.kill()
        if process.wait() == 0:
            finished += 1
            assert_same(path, undisturbed)
            path = tmp_path / f"run{finished}.nc"  # it was faster than the knife: another one
            continue
        kills += 1
        if path.exists() or closed_parts(path):
            try:
                with open_trajectory(path) as partial, open_trajectory(undisturbed) as expected:
                    there = expected.sel(step=partial["step"])
                    np.testing.assert_array_equal(partial["embedding"], there["embedding"])
            except TrajectoryError as error:
                assert "no frame of it is on disk yet" in str(error)  # a part without a frame
    simulate(SETTINGS, out=path, **AMOUNT).close()
    assert_same(path, undisturbed)


@pytest.mark.parametrize("which", [signal.SIGINT, signal.SIGTERM])
def test_a_signal_leaves_a_resumable_run_and_the_documented_exit_code(tmp_path, environment, undisturbed, which):
    path = tmp_path / "run.nc"
    process = begin(path, environment)
    while not closed_parts(path):  # the first of dozens
        time.sleep(0.001)
    process.send_signal(which)
    assert process.wait() == 128 + which
    assert closed_parts(path)
    with open_trajectory(path) as partial:
        assert 0 < partial["step"][-1] < 4000
    simulate(SETTINGS, out=path, **AMOUNT).close()
    assert_same(path, undisturbed)


def test_a_second_process_is_refused_and_the_first_not_disturbed(tmp_path, environment, undisturbed):
    path = tmp_path / "run.nc"
    process = begin(path, environment)
    while not closed_parts(path):
        time.sleep(0.001)
    process.send_signal(signal.SIGSTOP)  # alive, and not done before we have tried
    with pytest.raises(RecordingError, match="another process is writing it"):
        simulate(SETTINGS, out=path, **AMOUNT)
    process.send_signal(signal.SIGCONT)
    assert process.wait() == 0
    assert_same(path, undisturbed)


# --------------------------------------------------------------------------------------------- a full disk


@pytest.mark.parametrize(("limit", "part_seconds"), [(0, 60.0), (5_000, 0.03), (50_000, 60.0), (200_000, 0.03)])
def test_a_limit_on_file_size_is_an_error_and_loses_nothing(tmp_path, environment, undisturbed, limit, part_seconds):
    """Whether the lock, a part, the whole file or the merged one meets the limit: no incomplete file is left."""
    assert undisturbed.stat().st_size > 200_000
    path = tmp_path / "run.nc"
    script = SCRIPT.replace("0.03", str(part_seconds)).replace(
        'print("working"', f'import resource; resource.setrlimit(resource.RLIMIT_FSIZE, ({limit}, -1)); print("working"'
    )
    done = subprocess.run(
        [sys.executable, "-c", script, str(path)], env=environment, capture_output=True, text=True, check=False
    )
    assert done.returncode == 1
    assert "RecordingError" in done.stderr
    assert "a limit on file size" in done.stderr
    assert not path.exists()
    assert not list(tmp_path.rglob("*.tmp"))
    simulate(SETTINGS, out=path, **AMOUNT).close()
    assert_same(path, undisturbed)


def small_disk(folder):
    """Mount a tmpfs of 300 kB, or skip where that is not allowed."""
    done = subprocess.run(
        ["mount", "-t", "tmpfs", "-o", "size=300k", "tmpfs", str(folder)], capture_output=True, text=True, check=False
    )
    if done.returncode:
        pytest.skip(f"no small file system can be mounted here: {done.stderr.strip()}")


@pytest.mark.skipif(not hasattr(os, "geteuid") or os.geteuid() != 0, reason="mounting wants root")
def test_a_full_disk_is_an_error_and_loses_nothing(tmp_path, monkeypatch, undisturbed):
    disk = tmp_path / "disk"
    disk.mkdir()
    small_disk(disk)
    try:
        monkeypatch.setattr(recorder, "PART_BYTES", 100_000)
        monkeypatch.setattr("dynamics.simulation.check_resources", lambda *_: None)
        with pytest.raises(RecordingError, match="no space left"):
            simulate(SETTINGS, out=disk / "run.nc", **AMOUNT)
        parts = closed_parts(disk / "run.nc")
        assert parts
        with open_trajectory(disk / "run.nc") as partial, open_trajectory(undisturbed) as expected:
            xr.testing.assert_equal(partial["embedding"], expected["embedding"].sel(step=partial["step"]))
    finally:
        subprocess.run(["umount", "-l", str(disk)], check=True)  # HDF5 keeps open what it could not close


def test_a_write_that_is_lost_without_an_error_is_noticed(tmp_path, monkeypatch):
    """What netCDF4 may do on a full disk: the file closes, opens, and holds something else."""
    real = netcdf._write_group

    def forgetful(group, stack):
        real(group, stack)
        if "embedding" in group.variables:
            group["embedding"][-1, -1] = 0.0

    monkeypatch.setattr(netcdf, "_write_group", forgetful)
    with pytest.raises(RecordingError, match="variable embedding reads back differently"):
        simulate(SETTINGS, runs=2, steps=3, out=tmp_path / "run.nc")
    assert [path.name for path in tmp_path.iterdir()] == [".run.nc.lock"]


def test_a_value_that_is_not_finite_is_never_written(tmp_path):
    trajectory = simulate(SETTINGS, runs=2, steps=3)
    trajectory["embedding"][1, 2, 3, 0] = np.nan
    with pytest.raises(RecordingError, match="variable embedding: a value is not finite"):
        recorder.save_trajectory(trajectory, tmp_path / "run.nc")
    assert [path.name for path in tmp_path.iterdir()] == [".run.nc.lock"]
