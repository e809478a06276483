"""Events that films show: which spike or drop, and the steps around it."""

import numpy as np
import pytest
import xarray as xr

from analysis.panels import EventMark
from analysis.plots import find_event, replay_range, steps_around_drop
from dynamics.errors import TrajectoryError


def with_losses(losses):
    """A trajectory with nothing but a loss (run, step)."""
    losses = np.asarray(losses, np.float32)
    steps = 10 * np.arange(losses.shape[1])
    last = ("run", np.full(len(losses), steps[-1]))
    data = {"loss": (("run", "step", "split"), losses[..., None]), "last_step": last}
    return xr.Dataset(data, {"step": steps, "split": ["train"]})


def spiky(*heights, at=100, drop=None):
    loss = np.ones(200) + 0.001 * np.sin(np.arange(200))
    if drop:
        loss[drop:] *= 0.3
    for place, height in enumerate(heights):
        loss[at + 30 * place + np.arange(3)] += np.array([0.5, 1, 0.5]) * height
    return loss


def test_the_highest_spike_is_found():
    trajectory = with_losses([spiky(1.0, 2.0), spiky(0.5, 3.0), spiky(1.5)])
    for number, expected in ((None, 1), (0, 0)):
        run, spike = find_event(trajectory, number, "spike")
        assert (run, spike.kind, spike.middle) == (expected, "spike", 1310)
    with pytest.raises(TrajectoryError, match="no spike in run 0"):
        find_event(with_losses([np.ones(200)]), 0, "spike")


def test_the_first_and_the_largest_drop_are_found():
    loss = spiky(drop=60)
    loss[140:] *= 0.01
    for kind, step in (("first-drop", 590), ("drop", 590)):
        _, drop = find_event(with_losses([loss]), 0, kind)
        assert drop.kind == kind
        assert abs(drop.middle - step) <= 20
    loss = spiky(drop=60) + np.where(np.arange(200) < 140, 5.0, 0.0)
    assert abs(find_event(with_losses([loss]), 0, "drop")[1].middle - 1390) <= 20


def test_steps_around_a_spike():
    steps = 64 * np.arange(100)
    first, last = replay_range(EventMark("spike", 3150, 3200, 3250), steps)
    assert first <= 3200 - 128
    assert 3200 < last <= 3200 + 3 * 64
    assert first in steps
    assert replay_range(EventMark("spike", 0, 64, 128), steps) >= (0, 64)
    close = np.arange(1000)
    first, last = replay_range(EventMark("spike", 499, 500, 501), close)
    assert last - first >= 78
    assert replay_range(EventMark("spike", 998, 999, 999), close)[1] == 999


def test_steps_around_a_drop():
    steps = 64 * np.arange(100)
    assert steps_around_drop(EventMark("drop", 64 * 40, 64 * 45, 64 * 50), steps) == (
        64 * 30,
        64 * 60,
    )
    assert steps_around_drop(EventMark("drop", 64, 64, 64 * 97), steps) == (0, 64 * 99)
