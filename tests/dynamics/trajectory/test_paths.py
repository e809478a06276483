"""Paths of trajectories to be written."""

import pytest

from dynamics import ParticleSettings, save_trajectory, simulate
from dynamics.settings import SettingsError
from dynamics.trajectory.netcdf import check_trajectory_path


@pytest.mark.parametrize(
    ("path", "message"),
    [
        ("folder.nc/", "found folder.nc/, .*/ ends the name of a folder"),
        ("c\\d.nc", "a path without a backslash, which netCDF"),
        ("c\\d/e.nc", "a path without a backslash, which netCDF"),
        ("name.txt", "the name of a file that ends in .nc"),
        ("a" * 200 + ".nc", "no longer than 180 bytes"),
    ],
)
def test_paths_that_cannot_be_written_are_refused_with_the_reason(path, message):
    with pytest.raises(SettingsError, match=message):
        simulate(ParticleSettings(n=5), runs=1, steps=1, out=path)


def test_a_backslash_is_refused_by_save_trajectory():
    trajectory = simulate(ParticleSettings(n=5), runs=1, steps=1)
    with pytest.raises(SettingsError, match="without a backslash"):
        save_trajectory(trajectory, "c\\d.nc")


@pytest.mark.parametrize("name", ["a b.nc", "ä.nc", "a:b.nc", "a\nb.nc", "[x]'.nc"])
def test_other_signs_are_part_of_names(tmp_path, name):
    path = tmp_path / name
    assert check_trajectory_path(path) == path
    simulate(ParticleSettings(n=5), runs=1, steps=1, out=path).close()
    assert path.is_file()
