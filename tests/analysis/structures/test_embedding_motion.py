"""Speed, distance and escape against plain loops, on trajectories of any origin,
diverged and at rest."""

import math

import numpy as np
import pytest
import xarray as xr
from hypothesis import given
from hypothesis import strategies as st
from numpy.testing import assert_allclose, assert_array_equal

from analysis.structures import (
    embedding_displacement,
    frame_displacements,
    resample_evenly,
    rise_times,
)
from analysis.structures.embedding_motion import (
    departure_times,
    embedding_speed,
    frame_speeds,
    on_normalised_time,
)

seeds = st.integers(0, 2**32)


def trajectory_of(embedding, time, last_step=None):
    """A trajectory with these embeddings (run, step, token, axis), also after
    `last_step`."""
    runs, frames = embedding.shape[:2]
    step = 10 * np.arange(frames)
    last_step = np.full(runs, step[-1]) if last_step is None else np.asarray(last_step)
    return xr.Dataset(
        {
            "embedding": (("run", "step", "token", "axis"), embedding),
            "gradient_norm": (("run", "step", "layer"), np.ones((runs, frames, 2))),
            "last_step": ("run", last_step),
        },
        {
            "step": step,
            "time": ("step", np.asarray(time, dtype=float)),
            "seed": ("run", np.arange(runs) + 3),
        },
    )


def times_of(generator, frames):
    return np.cumsum(generator.uniform(0.1, 2, frames)) - 1


@pytest.fixture
def trajectory(generator):
    """Runs that go on to the end, diverge on the way, and diverge at once; the largest
    motion is after that."""
    scale = np.array([1, 1, 1, 100, 100, 100])[:, None, None]
    return trajectory_of(
        scale * generator.standard_normal((3, 6, 5, 2)),
        times_of(generator, 6),
        [50, 20, 0],
    )


def naive_rise(values, time, fraction):
    """Walk along the polygon of displacements until it comes to the level."""
    valid = [value for value in values if not np.isnan(value)]
    if not valid or max(valid) <= 0:
        return np.nan
    level = fraction * max(valid)
    k = next(k for k, value in enumerate(valid) if value >= level)
    at = time[k]
    if k > 0:
        at = time[k - 1] + (time[k] - time[k - 1]) * (level - valid[k - 1]) / (
            valid[k] - valid[k - 1]
        )
    return (at - time[0]) / (time[-1] - time[0])


# ------------------------------------------------------------------- speed and distance


@given(
    seed=seeds,
    frames=st.integers(1, 6),
    tokens=st.integers(1, 4),
    dim=st.integers(1, 3),
)
def test_speeds_and_displacements_are_those_of_plain_loops(seed, frames, tokens, dim):
    generator = np.random.default_rng(seed)
    x, time = (
        generator.standard_normal((2, frames, tokens, dim)),
        times_of(generator, frames),
    )
    speed, displacement = frame_speeds(x, time), frame_displacements(x)
    assert speed.shape == displacement.shape == (2, frames)
    for run in range(2):
        assert_array_equal([speed[run, 0], displacement[run, 0]], [np.nan, 0])
        for k in range(1, frames):
            moved = math.dist(x[run, k].ravel(), x[run, k - 1].ravel())
            assert_allclose(speed[run, k], moved / (time[k] - time[k - 1]), rtol=1e-12)
            distance = math.dist(x[run, k].ravel(), x[run, 0].ravel())
            assert_allclose(displacement[run, k], distance, rtol=1e-12)


@pytest.mark.parametrize("scale", [1e-300, 1e-170, 1e200, 8e307])
def test_very_small_and_large_distances_are_exact(scale):
    x = scale * np.array([[[0.0, 0.0]], [[0.75, -1.0]], [[-0.75, 1.0]]])
    assert_allclose(frame_displacements(x) / scale, [0, 1.25, 1.25])
    assert_allclose(frame_speeds(x[:2], np.array([0.0, 2.0]))[1] / scale, 0.625)
    assert frame_displacements(np.array([[[1.7e308]], [[-1.7e308]]]))[1] == np.inf


def test_single_precision_is_measured_in_double_precision(generator):
    x = generator.standard_normal((4, 5, 2)).astype(np.float32)
    assert_array_equal(
        frame_displacements(x), frame_displacements(x.astype(np.float64))
    )
    assert frame_displacements(x).dtype == np.float64


def test_labelled_functions_give_what_array_functions_give_until_a_run_diverged(
    trajectory,
):
    x, time = trajectory["embedding"].values, trajectory["time"].values
    valid = trajectory["step"].values <= trajectory["last_step"].values[:, None]
    arrays = frame_speeds(x, time), frame_displacements(x)
    expected_speed, expected = (np.where(valid, array, np.nan) for array in arrays)
    assert np.isnan(expected_speed[:, 0]).all()
    for result in (embedding_speed(trajectory), embedding_displacement(trajectory)):
        assert result.dims == ("run", "step")
        assert result["seed"].values.tolist() == [3, 4, 5]
        assert_array_equal(result["time"], trajectory["time"])
    other = trajectory.transpose("axis", "token", "step", "run", "layer")
    for given_one in (trajectory, other, trajectory.drop_vars("gradient_norm")):
        assert_array_equal(
            embedding_speed(given_one).transpose("run", "step"), expected_speed
        )
        assert_array_equal(
            embedding_displacement(given_one).transpose("run", "step"), expected
        )
        assert_array_equal(
            departure_times(given_one, 0.3), rise_times(expected, time, 0.3)
        )
    one = trajectory.isel(run=1)
    assert_array_equal(embedding_displacement(one), expected[1])
    assert_array_equal(departure_times(one, 0.3), rise_times(expected[1], time, 0.3))


# ------------------------------------------------------------------------------- escape


@given(
    values=st.lists(st.floats(0, 10) | st.just(0.0), min_size=2, max_size=8),
    masked=st.integers(0, 3),
    fraction=st.floats(0.01, 1) | st.just(1.0),
    seed=seeds,
)
def test_rise_times_are_those_of_plain_loops(values, masked, fraction, seed):
    values = np.array([value if value > 1e-6 else 0.0 for value in values])
    values[len(values) - masked :] = np.nan
    time = times_of(np.random.default_rng(seed), len(values))
    result = rise_times(values, time, fraction)
    assert_allclose(result, naive_rise(values, time, fraction), atol=1e-9)
    assert np.isnan(result) or 0 <= result <= 1
    stacked = rise_times(
        np.stack([values, 0 * values, 2 * values]), 5 * time + 3, fraction
    )
    assert_allclose(stacked, [result, np.nan, result], atol=1e-9)


@pytest.mark.parametrize("share", [0, -0.1, 1.01, np.nan])
def test_fractions_outside_0_to_1_are_refused(share, trajectory):
    with pytest.raises(ValueError, match="fraction: found"):
        departure_times(trajectory, share)


# ---------------------------------------------------------------------- normalised time


@given(seed=seeds, frames=st.integers(2, 9), points=st.integers(2, 30))
def test_resampling_is_that_of_numpy(seed, frames, points):
    generator = np.random.default_rng(seed)
    values, time = generator.standard_normal((3, frames)), times_of(generator, frames)
    grid = np.linspace(time[0], time[-1], points)
    expected = [np.interp(grid, time, row) for row in values]
    assert_allclose(resample_evenly(values, time, points), expected, atol=1e-7)


@given(frames=st.integers(2, 60), spacing=st.floats(1e-4, 10), start=st.floats(0, 100))
def test_recorded_frames_next_to_missing_ones_are_kept(frames, spacing, start):
    """Rounding puts grid points a little beside the frames that they are meant to
    be."""
    time, values = start + spacing * np.arange(frames), np.arange(frames, dtype=float)
    for at in range(frames):
        for kept in (np.arange(frames) <= at, np.arange(frames) >= at):
            cut = np.where(kept, values, np.nan)
            assert_allclose(resample_evenly(cut, time, frames), cut, atol=1e-7)


def test_nothing_is_interpolated_across_missing_frames():
    time, nan = np.array([0.0, 1.0, 2.0, 4.0]), np.nan
    result = resample_evenly(
        np.array([[0, 1, nan, nan], [nan, 1, 2, 4], [0, nan, 2, 4]]), time, 9
    )
    expected = [
        [0, 0.5, 1, *[nan] * 6],
        [nan, nan, 1, 1.5, 2, 2.5, 3, 3.5, 4],
        [0, nan, nan, nan, 2, 2.5, 3, 3.5, 4],
    ]
    assert_allclose(result, expected)


def test_other_quantities_are_normalised_by_name(trajectory, generator):
    norm = trajectory["gradient_norm"].copy(data=generator.random((3, 6, 2)))
    result = on_normalised_time(norm, points=4)
    assert set(result.dims) == {"run", "layer", "normalised_time"}
    expected = resample_evenly(
        np.moveaxis(norm.values, 1, -1), trajectory["time"].values, 4
    )
    assert_array_equal(result.transpose("run", "layer", "normalised_time"), expected)


def test_times_after_divergence_are_missing(trajectory):
    result = on_normalised_time(embedding_displacement(trajectory), points=200)
    time = trajectory["time"].values
    moment = (time - time[0]) / (time[-1] - time[0])
    assert_array_equal(
        np.isfinite(result), result["normalised_time"].values <= moment[[5, 2, 0], None]
    )


# ------------------------------------------------------------------------------- errors


def test_arrays_and_times_of_no_trajectory_are_refused(trajectory):
    values, time = np.zeros((2, 4)), np.arange(4.0)
    for wrong in (
        np.array([0.0, 2.0, 1.0, 3.0]),
        np.array([1.0, 1.0, 1.0, 1.0]),
        np.array([0.0, 1.0, 2.0, np.inf]),
        time[::-1],
        time[:3],
    ):
        for function, array in (
            (resample_evenly, values),
            (rise_times, values),
            (frame_speeds, np.zeros((4, 3, 2))),
        ):
            with pytest.raises(ValueError, match="time: found"):
                function(array, wrong)
    with pytest.raises(ValueError, match="not finite"):
        frame_displacements(np.full((2, 3, 2), np.nan))
    with pytest.raises(ValueError, match=r"expected \(\.\.\., step, token, axis\)"):
        frame_displacements(np.zeros((3, 2)))
    with pytest.raises(ValueError, match=r"expected \(\.\.\., step\)"):
        rise_times(np.zeros(()), time)
    for points, frames in ((1, 4), (5, 1)):
        with pytest.raises(ValueError, match="points: found"):
            resample_evenly(values[:, :frames], time[:frames], points)
    for data in (
        trajectory["last_step"],
        embedding_displacement(trajectory).drop_vars("time"),
    ):
        with pytest.raises(ValueError, match="expected step and time"):
            on_normalised_time(data)
