"""Structures in which the runs of a sweep end, beside its settings."""

from pathlib import Path

import numpy as np
import pytest
import xarray as xr
from numpy.testing import assert_array_equal

from analysis.structures import add_structures, count_imperfections, is_circle
from dynamics import (
    ModularSettings,
    ParticleSettings,
    SparseSettings,
    final_embedding,
    open_trajectory,
    sweep,
)

SWEEPS = {
    "particles": (ParticleSettings(n=7), {"fa": [0.5, 4.0], "dim": [2, 3]}, "steps"),
    "modular": (ModularSettings(n=5, hidden=8), {"lr": [0.01, 0.1]}, "epochs"),
}


@pytest.mark.parametrize("name", SWEEPS)
@pytest.mark.parametrize("record", ["all", "metrics"])
def test_structures_are_those_of_the_last_frames(name, record):
    settings, axes, unit = SWEEPS[name]
    whole, amount = {"folder": "all"}, {"runs": 4, "every": 10, unit: 40}
    sweep(settings, axes, record="all", **whole, **amount)
    result = sweep(settings, axes, record=record, folder=record, **amount)
    result = add_structures(result, record)
    recorded = sweep(settings, axes, record="all", **whole, **amount)
    assert result["circles"].dims == (*axes, "run")
    for index in np.ndindex(result["file"].shape):
        place = dict(zip(axes, index, strict=True))
        file = Path("all", str(recorded["file"].isel(place).values))
        ends = final_embedding(open_trajectory(file)).values
        circle = is_circle(ends)
        assert_array_equal(result["circles"].isel(place), circle)
        imperfections = np.where(circle, np.nan, count_imperfections(ends))
        assert_array_equal(result["imperfections"].isel(place), imperfections)
    assert result.attrs == sweep(
        settings, axes, record=record, folder=record, **amount
    ).attrs | {"created_at": result.attrs["created_at"]}


def test_a_file_is_plotted_as_it_is():
    axes = {"fa": [0.5, 4.0], "n": [5, 7]}
    result = sweep(ParticleSettings(), axes, runs=4, steps=20)
    add_structures(result).to_netcdf("sweep.nc")
    with xr.open_dataset("sweep.nc") as written:
        fraction = written["circles"].mean("run", keep_attrs=True)
        mesh = fraction.plot()
    assert mesh.axes.get_xlabel().split(" [")[0] in axes
    assert mesh.colorbar.ax.get_ylabel().startswith("circles")


def test_runs_that_have_diverged_and_points_without_structures_are_missing(diverging):
    result = sweep(diverging, {"ga": [1.0, 2.0]}, runs=2, steps=30)
    circles = add_structures(result)["circles"]
    assert_array_equal(circles.isnull(), [[False, True]] * 2)
    result = sweep(ParticleSettings(), {"n": [3, 5]}, runs=2, steps=3)
    circles = add_structures(result)["circles"]
    assert_array_equal(circles.isnull().all("run"), [True, False])
    small = SparseSettings(length=4, sparsity=2, data=24, batch=8, hidden=4)
    result = sweep(small, {"lr": [0.01, 0.02]}, runs=2, epochs=1)
    assert add_structures(result).identical(result)


def test_a_file_that_is_longer_is_measured_at_the_end_of_the_sweep():
    axes, settings = {"fa": [1.0, 4.0]}, ParticleSettings(n=5)
    short = add_structures(sweep(settings, axes, runs=4, steps=7, every=7))
    sweep(settings, axes, runs=4, steps=90, every=7)
    again = add_structures(sweep(settings, axes, runs=4, steps=7, every=7))
    xr.testing.assert_equal(again, short)
