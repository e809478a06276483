"""Selections of runs and recorded frames."""

import numpy as np
import pytest
from numpy.testing import assert_array_equal

from dynamics import ParticleSettings, Selection, SettingsError, simulate, valid_frames
from dynamics.trajectory.frames import early_frames, evenly_spaced_frames
from dynamics.trajectory.selection import selected_frames


@pytest.fixture(scope="module")
def trajectory():
    return simulate(ParticleSettings(n=5), runs=3, steps=100, every=10)


@pytest.mark.parametrize("spaced", [evenly_spaced_frames, early_frames])
@pytest.mark.parametrize(
    ("count", "most"), [(1, 5), (3, 10), (5, 5), (201, 41), (3, 2), (10_000, 41)]
)
def test_frames_include_the_first_and_the_last(spaced, count, most):
    frames = spaced(count, most)
    assert (frames[0], frames[-1]) == (0, count - 1)
    assert len(frames) <= most
    assert (np.diff(frames) > 0).all()


@pytest.mark.parametrize(
    ("selection", "frames"),
    [
        ({}, range(11)),
        ({"frames": 1}, [0]),
        ({"frames": 3}, [0, 5, 10]),
        ({"frames": 10**9}, range(11)),
        ({"frames": 4, "spacing": "early"}, [0, 1, 4, 10]),
        ({"every": 4}, [0, 4, 8, 10]),
        ({"every": 4, "frames": 3}, [0, 4, 8, 10]),
        ({"frames": 3, "at": (100, 0, 0, 30)}, [0, 3, 10]),
    ],
)
def test_frames_are_a_number_a_stride_or_steps(trajectory, selection, frames):
    selected = Selection(**selection)
    assert list(selected.frame_indices(trajectory)) == list(frames)
    steps = selected.apply(trajectory)["step"]
    assert_array_equal(steps, 10 * np.array(frames))


@pytest.mark.parametrize(
    ("selection", "runs"),
    [({}, [0, 1, 2]), ({"runs": 2}, [0, 1]), ({"run_indices": (2, 0)}, [2, 0])],
)
def test_runs_are_the_first_or_those_that_are_named(trajectory, selection, runs):
    selected = Selection(**selection).apply(trajectory)
    assert_array_equal(selected["seed"], runs)


@pytest.mark.parametrize(
    ("selection", "message"),
    [
        ({"runs": 4}, "runs: found 4, allowed is a whole number from 1 to 3"),
        ({"run_indices": (0, 3)}, "run_indices: found 3, allowed is a run index from"),
        ({"run_indices": (1, 1)}, "run_indices: found 1 1, allowed is each index once"),
        ({"runs": 1, "run_indices": (0,)}, "runs, run_indices: found both"),
        ({"frames": 0}, "frames: found 0"),
        ({"every": 0}, "every: found 0"),
        ({"every": 2, "at": (0,)}, "every, at: found both"),
        ({"at": (0, 5)}, "at: found 5, allowed is a recorded step, nearest are 0 and"),
    ],
)
def test_other_runs_and_frames_are_refused(trajectory, selection, message):
    with pytest.raises(SettingsError, match=message):
        Selection(**selection).apply(trajectory)


def test_an_analysis_may_need_several_frames(trajectory):
    assert list(selected_frames(trajectory, 2, least=2)) == [0, 10]
    with pytest.raises(SettingsError, match="frames: found 1"):
        selected_frames(trajectory, 1, least=2)
    with pytest.raises(SettingsError, match="at: found 10, allowed is 2 recorded"):
        selected_frames(trajectory, Selection(at=(10,)), least=2)


def test_what_diverged_stays_masked(diverging):
    whole = simulate(diverging, runs=2, steps=4)
    selected = Selection(every=2).apply(whole)
    assert_array_equal(valid_frames(selected), valid_frames(whole).isel(step=[0, 2, 4]))
