"""A change of the working folder does not move the files of a run."""

import os

import pytest
import torch

import dynamics
from dynamics import ParticleSettings
from dynamics.recording import model_recorder


@pytest.fixture
def folders(tmp_path, monkeypatch):
    (tmp_path / "other").mkdir()
    monkeypatch.chdir(tmp_path)
    yield tmp_path
    written = sorted(path.name for path in (tmp_path / "other").iterdir())
    assert written == []


def test_a_recording_stays_where_it_began(folders, monkeypatch):
    monkeypatch.setattr(model_recorder, "FIRST_PART_SECONDS", 0.0)
    model = torch.nn.Linear(3, 1)
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
    with dynamics.record(model, optimizer, "run.nc") as recording:
        for update in range(6):
            model(torch.ones(2, 3)).square().mean().backward()
            optimizer.step()
            recording.step()
            if update == 2:
                os.chdir("other")
    assert dynamics.open_trajectory(folders / "run.nc").sizes["step"] == 7


def test_simulations_and_sweeps_stay_where_they_began(folders):
    def change_folder(frame):
        os.chdir(folders / "other")
        return frame["embedding"][..., 0, 0]

    observed = {"x": change_folder}
    settings, options = ParticleSettings(n=5), {"runs": 2, "steps": 4}
    dynamics.simulate(settings, **options, out="a.nc", observe=observed, progress=False)
    assert dynamics.open_trajectory(folders / "a.nc").sizes["step"] == 5
    os.chdir(folders)
    axes = {"fa": [1, 2]}
    dynamics.sweep(
        settings, axes, **options, folder="points", observe=observed, progress=False
    )
    assert len(list((folders / "points").glob("*.nc"))) == 2
