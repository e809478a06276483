"""Escapes from the saddles of deep linear networks, whose times are known."""

import functools

import numpy as np
import pytest
from numpy.testing import assert_allclose
from scipy.integrate import solve_ivp

from analysis.transitions.change_points import detect_events
from analysis.transitions.detection import DetectionConfig


@functools.cache
def deep_linear_network(values, layers, frames, start=1e-6):
    """The loss (frame,) of a network with balanced weights along gradient flow, and the
    frames at which each mode has lost half of its loss.

    Each mode of a linear map with singular value s grows independently (Saxe et al.,
    arXiv 1312.6120): da/dt = L a^(2 - 2/L) (s - a)."""
    values = np.array(values, float)

    def speed(time, product):
        return layers * product ** (2 - 2 / layers) * (values - product)

    def learned(time, product):
        return (product / values).min() - 0.99

    learned.terminal = True
    flow = solve_ivp(
        speed,
        (0, 1e6),
        np.full(len(values), start),
        rtol=1e-9,
        atol=1e-15,
        events=learned,
        dense_output=True,
    )
    times = np.linspace(0, 1.1 * flow.t[-1], frames)
    fine = np.linspace(0, flow.t[-1], 100_000)
    products = flow.sol(fine)
    modes = (values[:, None] - products) ** 2 / 2
    halves = [fine[np.flatnonzero(mode < mode[0] / 2)[0]] for mode in modes]
    known = flow.sol(np.minimum(times, flow.t[-1]))
    loss = ((values[:, None] - known) ** 2).sum(0) / 2
    return loss, np.sort(halves) / times[1]


NETWORKS = {
    "three saddles": ((4, 2, 1), 2),
    "four saddles": ((8, 4, 2, 1), 2),
    "five saddles": ((16, 8, 4, 2, 1), 2),
    "three layers": ((6, 3, 1.5, 0.8), 3),
    "heights alike": ((3, 2, 1.2), 3),
}


@pytest.mark.parametrize("name", NETWORKS)
@pytest.mark.parametrize("frames", [200, 1000])
@pytest.mark.parametrize("noise", [0, 1e-4])
def test_every_escape_is_found_at_its_time(name, frames, noise):
    loss, halves = deep_linear_network(*NETWORKS[name], frames)
    loss = loss * (1 + noise * np.random.default_rng(0).normal(size=frames))
    events = detect_events(loss, DetectionConfig(level="local"))
    middles = [event.middle for event in events if event.kind == "drop"]
    assert len(middles) == len(halves)
    assert_allclose(middles, halves, rtol=0.03)


def test_two_slow_drops_near_each_other_are_both_found():
    frame = np.arange(400)

    def logistic(middle):
        return 1 / (1 + np.exp((frame - middle) / 2))

    loss = logistic(150) + 0.1 * logistic(170) + 0.01
    events = detect_events(loss, DetectionConfig(level="local"))
    middles = [event.middle for event in events if event.kind == "drop"]
    assert_allclose(middles, [150, 170], atol=2)


def test_a_drop_is_no_plateau():
    frame = np.arange(300)
    loss = 1.1 / (1 + np.exp((frame - 150) / 12))
    for level in ("largest", "local"):
        events = detect_events(loss, DetectionConfig(level=level))
        drop = next(event for event in events if event.kind == "drop")
        for plateau in (event for event in events if event.kind == "plateau"):
            assert plateau.end <= drop.begin or plateau.begin >= drop.end


def test_a_logarithm_shows_drops_of_any_size():
    frame = np.arange(600)
    levels = 10.0 ** -(frame // 150)
    events = detect_events(levels, DetectionConfig(level="log"))
    middles = [event.middle for event in events if event.kind == "drop"]
    assert_allclose(middles, [149.5, 299.5, 449.5], atol=1)
    flat = detect_events(np.ones(600), DetectionConfig(level="local"))
    assert [event.kind for event in flat] == ["plateau"]
