"""Masks of diverged runs and of the frames after they diverged."""

import numpy as np
import xarray as xr
from numpy.testing import assert_array_equal

from dynamics.trajectory.diverged import (
    count_diverged,
    mask_diverged,
    not_diverged,
    valid_frames,
)

TRAJECTORY = xr.Dataset({"last_step": ("run", [30, 10, 0])}, {"step": [0, 10, 20, 30]})
"""Three runs of four frames; the second diverged after step 10, the third at once."""


def test_runs_that_have_not_diverged():
    assert (
        not_diverged(TRAJECTORY).tolist()
        == not_diverged(TRAJECTORY.isel(step=-1)).tolist()
        == [True, False, False]
    )
    for result in (
        not_diverged(TRAJECTORY, 10),
        not_diverged(TRAJECTORY.isel(step=[0, 1])),
    ):
        assert result.tolist() == [True, True, False]
    assert count_diverged(TRAJECTORY) == 2


def test_frames_after_divergence_are_nan_in_any_order_of_dimensions():
    expected = np.array([[1, 1, 1, 1], [1, 1, 0, 0], [1, 0, 0, 0]], bool)
    assert (valid_frames(TRAJECTORY).values == expected).all()
    assert valid_frames(TRAJECTORY.isel(run=1)).values.tolist() == [
        True,
        True,
        False,
        False,
    ]
    values = xr.DataArray(np.ones((4, 3, 2)), dims=("step", "run", "layer"))
    masked = mask_diverged(values, TRAJECTORY)
    assert masked.dims == values.dims
    assert_array_equal(
        np.isfinite(masked.transpose("layer", "run", "step")), [expected, expected]
    )
