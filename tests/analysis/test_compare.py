"""The command that compares two trajectories."""

import csv
import io
import shutil

import pytest
import xarray as xr
from matplotlib.image import imread

from dynamics.settings import ModularSettings, ParticleSettings
from dynamics.simulation import simulate


@pytest.fixture(scope="module")
def made_once(tmp_path_factory):
    folder = tmp_path_factory.mktemp("network")
    return folder, simulate(
        ModularSettings(n=7, hidden=9), runs=6, steps=60, every=10, out=folder / "a.nc", progress=False
    )


@pytest.fixture
def network(made_once):
    """A trajectory of networks in a.nc of the working directory."""
    folder, trajectory = made_once
    shutil.copy(folder / "a.nc", "a.nc")
    return trajectory


def test_the_command_makes_the_partner_and_leaves_table_picture_and_file(network, typed, tmp_path):
    words = ("analysis.compare", "a.nc", "--steps", 20, "--fa", 2, "--out", "c.nc")
    code, out, _ = typed(*words)
    assert code == 0
    assert "pairs of one structure" in out
    assert "Force audit" in out
    assert imread(tmp_path / "c.png").shape[0] > 500
    with xr.open_dataset("c.nc") as result:
        assert {"first_circle", "between", "audit_cosine", "audit_coefficient"} <= set(result.variables)
        assert '"fa": 2.0' in result.attrs["law"]
    _, out, err = typed(*words, "--csv", "-")
    table = list(csv.DictReader(io.StringIO(out)))
    assert table[0]["quantity"] == "circles, fraction"
    assert 0 <= float(table[0]["first"]) <= 1
    assert "Force audit" in err


def test_two_particle_systems_are_compared_without_an_audit(typed):
    for name, fa in (("b.nc", 1.0), ("c.nc", 3.0)):
        simulate(ParticleSettings(n=7, fa=fa), runs=3, steps=20, out=name, progress=False)
    _, out, _ = typed("analysis.compare", "b.nc", "c.nc")
    assert "Force audit" not in out
    assert "comparisons/b-c.png" in out


def test_an_ensemble_of_which_nothing_is_left_is_compared(typed):
    settings = ModularSettings(n=5, optimizer="sgd", lr=1e6)
    simulate(settings, runs=3, steps=20, every=5, out="odd.nc", progress=False)
    for words in (("odd.nc",), ("odd.nc", "odd.nc")):
        code, out, _ = typed("analysis.compare", *words)
        assert code == 0
        assert "circles, fraction" in out
        assert "3 diverged and left out" in out
        assert "nan" not in out
