"""Results of analyses as files."""

import numpy as np
import pytest
import xarray as xr

from analysis.output.results import check_result_path, write_result
from dynamics import ParticleSettings, SettingsError, simulate


def test_results_are_whole_and_never_written_over_trajectories(tmp_path):
    simulate(ParticleSettings(n=5), runs=2, steps=2, out="a.nc")
    tmp_path.joinpath("text.nc").write_text("mine")
    what = {"result_of": "test", "first": "a.nc"}
    result = xr.Dataset({"x": ("run", [1.0, np.nan])}, attrs=what)
    result.drop_attrs().to_netcdf("precious.nc")
    result.assign_attrs(first="b.nc").to_netcdf("other.nc")
    for name in ("a.nc", "text.nc", "precious.nc", "other.nc", "result.txt"):
        with pytest.raises(SettingsError, match="out: found"):
            check_result_path(tmp_path / name, what)
    for _ in range(2):
        write_result(result, check_result_path(tmp_path / "deep" / "r.nc", what))
    with xr.open_dataset(tmp_path / "deep" / "r.nc") as outcome:
        np.testing.assert_array_equal(outcome["x"], result["x"])
    assert [path.name for path in (tmp_path / "deep").iterdir()] == ["r.nc"]
