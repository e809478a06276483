"""The command that compares two trajectories."""

import csv
import io
import shutil

import numpy as np
import pytest
import xarray as xr
from matplotlib.image import imread

from dynamics.settings import ModularSettings, ParticleSettings
from dynamics.simulation import simulate
from dynamics.trajectory.recorder import save_trajectory


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


def test_particles_are_not_begun_where_seeds_are_missing(network, typed):
    save_trajectory(network.isel(run=[0, 2]), "sel.nc")
    code, _, err = typed("analysis.compare", "sel.nc")
    assert (code, "seeds are not consecutive" in err) == (1, True)


def test_two_particle_systems_are_compared_without_an_audit(typed):
    for name, fa in (("b.nc", 1.0), ("c.nc", 3.0)):
        simulate(ParticleSettings(n=7, fa=fa), runs=3, steps=20, out=name, progress=False)
    _, out, _ = typed("analysis.compare", "b.nc", "c.nc")
    assert "Force audit" not in out
    assert "comparisons/b-c.png" in out


@pytest.mark.parametrize(
    ("words", "code", "said"),
    [
        (("none.nc",), 1, "none.nc: no such file"),
        ((".",), 1, ""),
        (("",), 1, ""),
        (("a.nc", "none.nc"), 1, "no such file"),
        (("a.nc", "a.nc", "--out", "x.txt"), 2, "--out: found x.txt"),
        (("a.nc", "a.nc", "--out", "a.nc"), 2, "--out: found a.nc"),
        (("a.nc", "--fa", "-1"), 2, "fa"),
        (("a.nc", "--start", "a.nc"), 2, "--start: found a.nc"),
        (("a.nc", "--n", "9"), 2, "--n: found 9"),
        (("a.nc", "a.nc", "--steps", "9"), 2, "--steps: found 9"),
        ((), 2, "found no value"),
    ],
)
def test_mistakes_are_told(network, typed, words, code, said):
    found, _, err = typed("analysis.compare", *words)
    assert found == code
    assert said.lower() in err.lower()


def test_an_ensemble_of_which_nothing_is_left_is_compared(typed):
    settings = ModularSettings(n=5, optimizer="sgd", lr=1e6)
    simulate(settings, runs=3, steps=20, every=5, out="odd.nc", progress=False)
    for words in (("odd.nc",), ("odd.nc", "odd.nc")):
        code, out, _ = typed("analysis.compare", *words)
        assert code == 0
        assert "circles, fraction" in out
        assert "3 diverged and left out" in out
        assert "nan" not in out


def test_two_tokens_are_refused(typed):
    simulate(ModularSettings(n=2, dim=1), runs=3, steps=20, every=5, out="two.nc", progress=False)
    code, _, err = typed("analysis.compare", "two.nc")
    assert (code, "dimension token: found 2" in err) == (1, True)


@pytest.mark.parametrize("words", [("a.nc", "--csv", "a.nc"), ("a.nc", "--csv", "."), ("a.nc", "--csv", "x.png")])
def test_a_csv_never_takes_the_place_of_something_else(network, typed, words, tmp_path):
    before = (tmp_path / "a.nc").read_bytes()
    code, _, err = typed("analysis.compare", *words)
    assert (code, err.startswith("error: --csv: found")) == (2, True)
    assert (tmp_path / "a.nc").read_bytes() == before


def test_the_csv_is_not_the_start(typed):
    np.savetxt("start.csv", np.random.default_rng(0).normal(size=(5, 2)), delimiter=",")
    code, _, err = typed("sims.particles", "--n", "5", "--start", "start.csv", "--csv", "start.csv")
    assert code == 2
    assert "a file that the command does not read" in err


@pytest.mark.parametrize("program", ["analysis.table1", "analysis.audit", "sims.modular"])
def test_errors_name_the_options_there_are(typed, program):
    code, _, err = typed(program, "--epochs", "-1", "--n", "5")
    assert (code, "--epochs: found -1" in err) == (2, True)
