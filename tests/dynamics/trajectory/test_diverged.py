"""Masks of diverged runs and of the frames after they diverged."""

import numpy as np
import pytest
import xarray as xr

from dynamics.trajectory.diverged import count_diverged, mask_diverged, not_diverged, valid_frames


@pytest.fixture
def trajectory():
    """Three runs of four frames; the second diverged after step 10, the third at once."""
    return xr.Dataset({"last_step": ("run", [30, 10, 0])}, {"step": [0, 10, 20, 30]})


def test_runs_that_have_not_diverged(trajectory):
    assert not_diverged(trajectory).tolist() == [True, False, False]
    assert not_diverged(trajectory, 10).tolist() == [True, True, False]
    assert not_diverged(trajectory.isel(step=-1)).tolist() == [True, False, False]
    assert not_diverged(trajectory.isel(step=[0, 1])).tolist() == [True, True, False]
    assert count_diverged(trajectory) == 2


def test_frames_after_divergence_are_nan_in_any_order_of_dimensions(trajectory):
    expected = np.array([[1, 1, 1, 1], [1, 1, 0, 0], [1, 0, 0, 0]], bool)
    assert (valid_frames(trajectory).values == expected).all()
    assert valid_frames(trajectory.isel(run=1)).values.tolist() == [True, True, False, False]
    values = xr.DataArray(np.ones((4, 3, 2)), dims=("step", "run", "layer"))
    masked = mask_diverged(values, trajectory)
    assert masked.dims == values.dims
    np.testing.assert_array_equal(np.isfinite(masked.transpose("layer", "run", "step")), [expected, expected])
