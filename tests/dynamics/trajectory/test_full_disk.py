"""A disk that is full and has space again: every writer continues from its closed parts
to the same bits."""

import errno
import os
import shutil
from pathlib import Path

import pytest
import torch
import xarray as xr

from dynamics import (
    ModularSettings,
    ParticleSettings,
    RecordingError,
    SettingsError,
    open_trajectory,
    record,
    simulate,
)
from dynamics.recording import model_recorder
from dynamics.sweeps import compute_missing_runs, load_script, script_design, sweep
from dynamics.trajectory import netcdf, recorder
from dynamics.trajectory.reader import closed_parts

PARTICLES = ParticleSettings(n=5, fa=2.0)
SCRIPT = """
import dataclasses
from tests.dynamics.trajectory.test_full_disk import train_own_model

@dataclasses.dataclass
class Settings:
    lr: float = 0.01

def train(settings, seed, out):
    train_own_model(out)
"""


def train_own_model(path):
    torch.manual_seed(0)
    model = torch.nn.Sequential(torch.nn.Embedding(5, 2), torch.nn.Linear(2, 5))
    optimizer = torch.optim.Adam(model.parameters())
    tokens = torch.arange(5)
    with record(
        model, optimizer, path, embedding="0.weight", weights=True, seed=0
    ) as recording:
        for _ in range(recording.restore(), 100):
            loss = torch.nn.functional.cross_entropy(model(tokens), tokens)
            optimizer.zero_grad()
            loss.backward()
            optimizer.step()
            recording.step(loss=loss)


def simulate_particles(path):
    simulate(PARTICLES, runs=4, steps=240, every=2, out=path).close()


def train_modular(path):
    simulate(ModularSettings(n=7, hidden=6), runs=3, steps=120, out=path).close()


def sweep_particles(path):
    axes = {"fa": [1.0, 2.0]}
    sweep(PARTICLES, axes, runs=3, steps=160, record="all", folder=path.parent)


def sweep_script(path):
    Path("own.py").write_text(SCRIPT)
    script = load_script("own.py")
    compute_missing_runs(
        script_design(script, script.settings(), {}, runs=1, folder=path.parent)
    )


WRITERS = [
    simulate_particles,
    train_modular,
    train_own_model,
    sweep_particles,
    sweep_script,
]


@pytest.fixture
def fill_disk(tmp_path, monkeypatch):
    """Run a writer in a folder on a disk of some bytes; return its number of parts."""

    def run(writer, size):
        real = netcdf._write_groups

        def write(path, *words):
            real(path, *words)
            files = (tmp_path / "small").rglob("*.*")
            if sum(file.stat().st_size for file in files if file.is_file()) > size:
                raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))

        with monkeypatch.context() as patch:
            patch.setattr(netcdf, "_write_groups", write)
            with pytest.raises(RecordingError, match="No space left on device"):
                writer(tmp_path / "small" / "run.nc")
        assert not list(tmp_path.rglob("*.tmp"))
        return len(list((tmp_path / "small").rglob("part-*.nc")))

    return run


@pytest.mark.parametrize(
    "share", [1.5, *(pytest.param(k / 3, marks=pytest.mark.slow) for k in range(8))]
)
@pytest.mark.parametrize("writer", WRITERS)
def test_a_full_disk_loses_nothing(tmp_path, monkeypatch, fill_disk, writer, share):
    monkeypatch.setattr(recorder, "PART_BYTES", 8_000)
    monkeypatch.setattr(model_recorder, "FIRST_PART_SECONDS", 1e9)
    writer(tmp_path / "large" / "run.nc")
    paths = list((tmp_path / "large").glob("*.nc"))
    size = int(share * sum(path.stat().st_size for path in paths))
    parts = fill_disk(writer, size)
    assert parts or share < 1.5
    assert fill_disk(writer, size) == parts
    writer(tmp_path / "small" / "run.nc")
    for path in paths:
        with open_trajectory(path) as expected:
            xr.testing.assert_equal(
                open_trajectory(tmp_path / "small" / path.name), expected
            )


def test_space_is_counted_with_what_is_on_the_disk(tmp_path, monkeypatch, fill_disk):
    """A run is refused with the space that it needs in all; its parts stay, and count
    when it continues."""
    path = tmp_path / "small" / "run.nc"

    def simulate_many(path):
        simulate(PARTICLES, runs=40, steps=600, every=2, out=path).close()

    def set_free(mebibytes):
        usage = shutil._ntuple_diskusage(0, 0, mebibytes * 2**20)
        monkeypatch.setattr(shutil, "disk_usage", lambda _: usage)

    monkeypatch.setattr(recorder, "PART_BYTES", 200_000)
    set_free(1)
    words = "frames of 1.1 MiB in all, 1.1 MiB not yet on the disk, allowed is a disk"
    with pytest.raises(SettingsError, match=words):
        simulate_many(path)
    set_free(2)
    assert fill_disk(simulate_many, 850_000) == 3
    set_free(0.5)
    with pytest.raises(SettingsError, match="1.1 MiB in all, 0.. MiB not yet on"):
        simulate_many(path)
    assert len(closed_parts(path)) == 3
    set_free(0.6)
    simulate_many(path)
