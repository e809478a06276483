"""Processes that are killed or run out of disk, and started again: the same bits,
nothing lost."""

import itertools
import os
import resource
import signal
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest
import xarray as xr

from dynamics import (
    ParticleSettings,
    RecordingError,
    TrajectoryError,
    checkpoints,
    open_trajectory,
    simulate,
)
from dynamics.particles.particle_system import ParticleSystem
from dynamics.trajectory import netcdf, recorder
from dynamics.trajectory.reader import closed_parts, parts_folder

SETTINGS = ParticleSettings(n=5, fa=2.0)
AMOUNT = {"runs": 4, "steps": 600, "every": 2}
PART_BYTES = 20_000
"""Size of a part, of which the run has six."""


@pytest.fixture(scope="module")
def undisturbed(tmp_path_factory):
    path = tmp_path_factory.mktemp("undisturbed") / "run.nc"
    simulate(SETTINGS, out=path, **AMOUNT).close()
    return path


def assert_same(path, undisturbed):
    """The run, continued, is the same as if nothing had happened."""
    simulate(SETTINGS, out=path, **AMOUNT).close()
    for read in (open_trajectory, checkpoints):
        with read(path) as result, read(undisturbed) as expected:
            xr.testing.assert_equal(result, expected)
    assert not parts_folder(path).exists()


def assert_partial(path, undisturbed):
    with open_trajectory(path) as partial, open_trajectory(undisturbed) as expected:
        xr.testing.assert_equal(
            partial["embedding"], expected["embedding"].sel(step=partial["step"])
        )


CHANGES = ("os.mkdir", "os.rename", "os.remove", "os.rmdir", "open")


def write_until(path, number, events=CHANGES, name=""):
    """Kill this process right before the `number`-th such change of a file in the
    folder whose name begins so."""
    seen = []

    def kill(result, words):
        if result in events and (
            file := Path(str(words[result == "os.rename"]))
        ).name.startswith(name):
            seen.extend([file] * (path.parent in file.parents))
            if len(seen) == number:
                os.kill(os.getpid(), signal.SIGKILL)

    sys.addaudithook(kill)
    recorder.PART_BYTES = PART_BYTES
    simulate(SETTINGS, out=path, **AMOUNT)


@pytest.fixture
def ended(processes):
    """The exit code of a process that calls a function."""

    def call(function, *words):
        process = processes.Process(target=function, args=words)
        process.start()
        process.join()
        return process.exitcode

    return call


RENAME, REMOVE = "os.rename", "os.remove"
STAGES = [
    (1, RENAME, "part-", 0),
    (3, RENAME, "part-", 2),
    (1, RENAME, "run.nc", 6),
    (3, REMOVE, "part-", 4),
]
"""The place at which the process is killed, and the number of parts on disk at that
moment."""


def test_a_run_killed_at_each_stage_continues_to_the_same_bits(
    tmp_path, undisturbed, ended
):
    """kill -9 while it computes and writes parts, before the merged file has its name,
    and while parts are removed."""
    path = tmp_path / "run.nc"
    for number, event, name, parts in STAGES:
        assert ended(write_until, path, number, [event], name) == -signal.SIGKILL
        assert len(closed_parts(path)) == parts
        assert path.exists() == (event == REMOVE)
        if parts:
            assert_partial(path, undisturbed)
    assert_same(path, undisturbed)


@pytest.mark.slow
@pytest.mark.timeout(1800)
def test_a_run_killed_at_any_change_of_a_file_continues_to_the_same_bits(
    tmp_path, undisturbed, ended
):
    for number in itertools.count(1):
        path = tmp_path / str(number) / "run.nc"
        if ended(write_until, path, number) == 0:
            break
        if path.exists() or closed_parts(path):
            assert_partial(path, undisturbed)
        assert_same(path, undisturbed)
    assert number > 40


def test_a_second_writer_is_refused_and_the_first_continues(
    tmp_path, monkeypatch, undisturbed
):
    path, advance, refused = tmp_path / "run.nc", ParticleSystem.advance, []

    def interfere(self, state, steps):
        if closed_parts(path) and not refused:
            with pytest.raises(
                RecordingError, match="another process is writing it"
            ) as error:
                simulate(SETTINGS, out=path, **AMOUNT)
            refused.append(error)
        return advance(self, state, steps)

    monkeypatch.setattr(recorder, "PART_BYTES", PART_BYTES)
    monkeypatch.setattr(ParticleSystem, "advance", interfere)
    assert_same(path, undisturbed)
    assert refused


# -------------------------------------------------------------------------- a full disk


def write_with_limit(path, limit, part_bytes):
    resource.setrlimit(resource.RLIMIT_FSIZE, (limit, -1))
    recorder.PART_BYTES = part_bytes
    with pytest.raises(RecordingError, match="a limit on file size"):
        simulate(SETTINGS, out=path, **AMOUNT)


@pytest.mark.parametrize(
    ("limit", "part_bytes"),
    [(0, 1e9), (5_000, PART_BYTES), (50_000, 1e9), (120_000, PART_BYTES)],
)
def test_a_limit_on_file_size_is_an_error_and_loses_nothing(
    tmp_path, undisturbed, ended, limit, part_bytes
):
    """Whether the lock, a part, the whole file or the merged one meets the limit: no
    incomplete file is left."""
    assert undisturbed.stat().st_size > 120_000
    path = tmp_path / "run.nc"
    assert ended(write_with_limit, path, limit, part_bytes) == 0
    assert len(closed_parts(path)) == (6 if limit == 120_000 else 0)
    assert not path.exists()
    assert not list(tmp_path.rglob("*.tmp"))
    assert_same(path, undisturbed)


@pytest.fixture
def small_disk(tmp_path):
    """A tmpfs of 300 kB, or a skip where that cannot be mounted."""
    words = ["mount", "-t", "tmpfs", "-o", "size=300k", "tmpfs", str(tmp_path)]
    done = subprocess.run(words, capture_output=True, text=True, check=False)
    if done.returncode:
        pytest.skip(f"no small file system can be mounted here: {done.stderr.strip()}")
    yield tmp_path
    subprocess.run(
        ["umount", "-l", str(tmp_path)], check=True
    )  # HDF5 keeps open what it could not close


@pytest.mark.skipif(
    not hasattr(os, "geteuid") or os.geteuid() != 0, reason="mounting wants root"
)
def test_a_full_disk_is_an_error_and_loses_nothing(
    small_disk, monkeypatch, undisturbed
):
    path = small_disk / "run.nc"
    monkeypatch.setattr(recorder, "PART_BYTES", PART_BYTES)
    monkeypatch.setattr("dynamics.ensemble.check_resources", lambda *_: None)
    with pytest.raises(RecordingError, match="no space left"):
        simulate(SETTINGS, out=path, **AMOUNT)
    assert closed_parts(path)
    assert_partial(path, undisturbed)


def test_values_that_are_lost_or_not_finite_are_refused(tmp_path, monkeypatch):
    """What netCDF4 may do on a full disk: the file closes, opens, and holds something
    else."""
    trajectory = simulate(SETTINGS, runs=2, steps=3)
    trajectory["embedding"][1, 2, 3, 0] = np.nan
    with pytest.raises(
        RecordingError, match="variable embedding: a value is not finite"
    ):
        recorder.save_trajectory(trajectory, "run.nc")
    assert list(tmp_path.iterdir()) == []
    real = netcdf._write_group

    def forgetful(group, *arguments):
        real(group, *arguments)
        if "embedding" in group.variables:
            group["embedding"][-1, -1] = 0.0

    monkeypatch.setattr(netcdf, "_write_group", forgetful)
    with pytest.raises(
        RecordingError, match="variable embedding reads back differently"
    ):
        simulate(SETTINGS, runs=2, steps=3, out="run.nc")
    assert list(tmp_path.iterdir()) == []


def test_a_dataset_of_another_program_is_refused():
    other = xr.Dataset({"loss": (("run", "step"), np.ones((2, 5)))})
    with pytest.raises(TrajectoryError, match="attribute Conventions: found None"):
        recorder.save_trajectory(other, "other.nc")
