"""Results of analyses as files."""

import numpy as np
import pytest
import xarray as xr
from numpy.testing import assert_array_equal

from analysis.output.result_origin import origin_of_result
from analysis.output.results import check_result_path, write_result
from analysis.transitions.lagged_correlations import stored_measure
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
        assert_array_equal(outcome["x"], result["x"])
    assert [path.name for path in (tmp_path / "deep").iterdir()] == ["r.nc"]


@pytest.mark.parametrize("error", [OSError, ValueError, RuntimeError])
def test_a_damaged_result_is_refused(tmp_path, monkeypatch, error):
    """netCDF raises several kinds of errors for it."""
    path = tmp_path / "r.nc"
    path.write_text("damaged")

    def read(path):
        raise error("NetCDF: HDF error")

    monkeypatch.setattr(xr, "open_dataset", read)
    with pytest.raises(SettingsError, match="another file or damaged"):
        check_result_path(path, {})
    trajectory = simulate(ParticleSettings(n=5), runs=2, steps=2)
    trajectory.encoding["source"] = str(tmp_path / "a.nc")
    path.rename(tmp_path / "a-fate.nc")
    assert stored_measure(trajectory, "committor") is None


def test_results_of_an_earlier_trajectory_in_the_same_file_are_not_used(tmp_path):
    path = tmp_path / "a.nc"
    trajectory = simulate(ParticleSettings(n=5), runs=2, steps=2, out=path)
    values = xr.Dataset(
        {"committor": (("run", "step"), np.ones((2, 3)))},
        {"step": trajectory["step"], "seed": trajectory["seed"]},
        {"trajectory": path.name, **origin_of_result(trajectory)},
    )
    write_result(values, tmp_path / "a-fate.nc")
    assert_array_equal(stored_measure(trajectory, "committor"), values["committor"])
    later = trajectory.assign_attrs(created_at="2000-01-01T00:00:00+00:00")
    assert stored_measure(later, "committor") is None
    without_time = {"trajectory": path.name}
    write_result(values.drop_attrs().assign_attrs(without_time), tmp_path / "a-fate.nc")
    assert stored_measure(later, "committor") is not None
