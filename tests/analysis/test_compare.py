"""The command that compares two trajectories."""

import io

import pandas as pd
import pytest
import xarray as xr
from matplotlib.image import imread

from dynamics import ModularSettings, ParticleSettings, simulate


def test_particles_are_simulated_and_compared_with_a_network(small_runs, typed):
    words = "--steps 20 --fa 2 --out c.nc --csv -".split()
    code, out, err = typed("analysis.compare", small_runs["modular"], *words)
    assert code == 0
    row = pd.read_csv(io.StringIO(out)).iloc[0]
    assert row["quantity"] == "circles, fraction"
    assert 0 <= row["first"] <= 1
    assert "both end in the same structure" in out + err
    assert "Force audit" in err
    assert imread("c.png").shape[0] > 500
    with xr.open_dataset("c.nc") as result:
        names = "first_circle between audit_cosine audit_coefficient".split()
        assert set(names) <= set(result.variables)
        assert '"fa": 2.0' in result.attrs["law"]


@pytest.mark.slow
def test_two_particle_systems_are_compared_without_an_audit(typed):
    for name, fa in (("b.nc", 1.0), ("c.nc", 3.0)):
        settings = ParticleSettings(n=7, fa=fa)
        simulate(settings, runs=3, steps=20, out=name)
    _, out, _ = typed("analysis.compare", "b.nc", "c.nc")
    assert "Force audit" not in out
    assert "pairs       runs of equal seed, which begin alike" in out
    assert " b-c-compare.png" in out
    simulate(ParticleSettings(n=7), runs=2, seed=9, steps=20, out="d.nc")
    _, out, _ = typed("analysis.compare", "b.nc", "d.nc")
    assert "pairs       none: seeds differ" in out


def test_a_single_checkpoint_is_compared(typed):
    simulate(ParticleSettings(n=7), runs=1, steps=0, out="one.nc")
    for names in (("one.nc",), ("one.nc", "one.nc")):
        _, out, _ = typed("analysis.compare", *names)
        assert "shape distance between" in out
        assert "nan" not in out


@pytest.mark.parametrize("names", [("odd.nc",), ("odd.nc", "odd.nc")])
def test_ensembles_that_have_all_diverged_are_compared(output_of, names):
    settings = ModularSettings(n=5, optimizer="sgd", lr=1e6)
    simulate(settings, runs=3, steps=20, every=5, out="odd.nc")
    out = output_of("analysis.compare", *names)
    assert "circles, fraction" in out
    assert "3 diverged and left out" in out
    assert "nan" not in out
