"""Time in films: frames between recorded ones, and the strip of films whose time is
uneven."""

import itertools

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from analysis.panels.run_scene import build_scene
from analysis.plots import PanelGrid
from analysis.plots.drawing.film_clock import FilmClock, time_is_uneven
from analysis.plots.drawing.film_encoder import (
    draw_frames,
    film_clock,
    film_size,
    interpolate_arrays,
)
from analysis.plots.drawing.film_timeline import (
    FilmFrames,
    interpolate_film,
    shown_steps,
)
from dynamics import ParticleSettings, SparseSettings, simulate

HOLDS = st.lists(st.integers(1, 4), min_size=1, max_size=8)


def film_of(holds):
    """A film of the frames 0, 1, ... of one scene."""
    return FilmFrames(np.arange(len(holds))[:, None], np.array(holds))


@pytest.fixture(scope="module")
def scene():
    trajectory = simulate(
        ParticleSettings(n=5, fa=2.0), runs=1, steps=40, every=10, progress=False
    )
    return build_scene(trajectory, 0, panels=["embedding", "pair_sums"], follow=0.5)


@pytest.fixture(scope="module")
def grid(scene):
    return PanelGrid([scene], ["embedding", "pair_sums"], width=480, even=True)


@given(HOLDS, st.integers(0, 5))
def test_each_recorded_frame_is_shown_once_and_steps_between_are_even(holds, between):
    film = interpolate_film(film_of(holds), between)
    steps = 10 * np.arange(len(holds))
    shown = shown_steps(film, steps)
    assert film.length == sum(holds[:-1]) * (between + 1) + holds[-1]
    assert np.array_equal(shown[film.fractions == 0], steps)
    expected = [
        step + 10 * k / (hold * (between + 1))
        for step, hold in zip(steps, holds[:-1], strict=False)
        for k in range(hold * (between + 1))
    ]
    assert np.allclose(shown, [*expected, steps[-1]])


@given(st.floats(0, 1), st.integers(0, 2**32 - 1))
def test_numbers_are_linear_between_frames_and_classes_stay(fraction, seed):
    random = np.random.default_rng(seed)
    now, then = random.normal(size=(2, 3, 4, 2))
    then[1, 2] = np.nan
    fractions = np.array([0.0, fraction, 1.0])
    result = interpolate_arrays(now, then, fractions)
    for k, share in enumerate(fractions):
        for row in range(4):
            lacks = np.isnan(then[k, row]).any()
            between = (1 - share) * now[k, row] + share * then[k, row]
            expected = now[k, row] if lacks else between
            assert np.allclose(result[k, row], expected)
    classes = random.integers(9, size=(3, 4), dtype=np.uint16)
    assert np.array_equal(
        interpolate_arrays(classes, classes[::-1], fractions), classes
    )


def test_recorded_frames_are_drawn_as_without_interpolation(grid, scene):
    film = film_of([1] * len(scene.steps))
    plain = [picture.copy() for picture in draw_frames(grid, film)]
    smooth = interpolate_film(film, 3)
    pictures = [picture.copy() for picture in draw_frames(grid, smooth)]
    assert all(map(np.array_equal, pictures[::4], plain))
    assert not any(itertools.starmap(np.array_equal, itertools.pairwise(pictures)))


@given(HOLDS)
def test_time_is_uneven_where_frames_are_held_for_different_times(holds):
    steps = 7 * np.arange(len(holds))
    inner = holds[:-2]  # the last interval and the last frame do not count
    assert time_is_uneven(film_of(holds), steps) == (len(set(inner)) > 1)
    even = interpolate_film(film_of([2] * len(holds)), 3)
    assert not time_is_uneven(even, steps)


def test_a_film_of_even_time_has_no_strip(grid, scene):
    count = len(scene.steps)
    assert film_clock(grid, film_of([3] * count), 10) is None
    uneven = film_of([1, 5] + [1] * (count - 2))
    clock = film_clock(grid, uneven, 10)
    assert clock.height % 2 == 0
    size = film_size(grid, below=clock.height)
    assert size == (grid.width, grid.height + clock.height)


def test_the_cursor_moves_with_the_steps(grid, scene):
    film = film_of([1, 8, 1, 1, 1])
    clock = FilmClock(grid, film, 2.0)
    centres = []
    for step in scene.steps:
        changed = (clock.at(step) != clock.background).any(axis=(0, 2))
        centres.append(np.flatnonzero(changed).mean())
    left, right = clock.ends
    expected = left + (right - left) * scene.steps / scene.steps[-1]
    assert np.allclose(centres, expected, atol=1.5)


def test_relevant_positions_end_at_a_line():
    settings = SparseSettings(length=6, sparsity=2, data=64, batch=16, hidden=8)
    trajectory = simulate(settings, runs=1, steps=8, every=4, progress=False)
    scene = build_scene(trajectory, 0, panels=["attention"])
    (image,) = scene.panels[0].layers
    relevant = np.isin(np.arange(settings.length), list(settings.counting))
    for position in range(settings.length - 1):
        changes = relevant[position] != relevant[position + 1]
        assert (position + 0.5 in image.borders) == changes
    assert image.borders
    grid = PanelGrid([scene], ["attention"], width=480)
    (artist,) = (item for _, item in grid.artists[0])
    lines = artist.moving[-1].get_segments()
    assert [line[0, 0] for line in lines] == list(image.borders)
