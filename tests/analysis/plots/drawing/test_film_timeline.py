"""The frames that films show and for how long; frames of several scenes at the same
time."""

import numpy as np
import pytest

from analysis.panels import EventMark
from analysis.plots import film_frames, nearest_frame
from analysis.plots.drawing import film_timeline
from dynamics.settings import SettingsError
from tests.analysis.plots.drawing.test_artists import FRAMES, make_scene


def test_the_nearest_frame():
    scene = make_scene()
    assert [nearest_frame(scene, step) for step in (0, 15, 17, 600, 640, -1)] == [
        0,
        0,
        1,
        19,
        20,
        20,
    ]
    with pytest.raises(SettingsError, match="from 0 to 640"):
        nearest_frame(scene, 641)


@pytest.mark.parametrize(
    ("every", "expected"),
    [
        (1, list(range(FRAMES))),
        (5, [0, 5, 10, 15, 20]),
        (6, [0, 6, 12, 18, 20]),
        (99, [0, 20]),
    ],
)
def test_every_so_many_frames_and_the_last_are_shown_once(every, expected):
    result = film_frames([make_scene()], every=every, last=10)
    assert result.frames[:, 0].tolist() == expected
    assert result.holds.tolist() == [1] * (len(expected) - 1) + [10]
    assert result.length == len(expected) + 9


def test_from_a_step_to_another():
    assert film_frames([make_scene()], begin=33, end=129).frames[:, 0].tolist() == [
        2,
        3,
        4,
    ]
    for words, field in (
        ({"begin": 641}, "begin"),
        ({"begin": 33, "end": 40}, "recorded frame"),
    ):
        with pytest.raises(SettingsError, match=field):
            film_frames([make_scene()], **words)


def test_films_are_slow_around_events_and_fast_in_plateaus():
    marks = (EventMark("drop", 160, 192, 224), EventMark("plateau", 320, 480, 640))
    scene = make_scene(detect_events=lambda: marks)
    result = film_frames([scene], by_events=True, last=3)
    shown = dict(zip(result.frames[:, 0].tolist(), result.holds.tolist(), strict=True))
    near = range(3, 10)  # 5 to 7, and two beside
    assert min(shown[frame] for frame in near) >= 2
    assert sum(shown[frame] for frame in near) >= 0.6 * FRAMES
    assert 0 < sum(frame > 10 for frame in shown) <= 4  # of ten frames in the plateau
    assert (min(shown), max(shown), shown[FRAMES - 1]) == (0, FRAMES - 1, 3)
    assert result.length == pytest.approx(FRAMES + 3, abs=1)
    assert film_frames([scene], by_events=True, most=9).length <= 10


def test_films_without_events_show_every_frame_equally_long():
    result = film_frames([make_scene(detect_events=tuple)], by_events=True)
    assert result.frames[:, 0].tolist() == list(range(FRAMES))
    assert set(result.holds[:-1].tolist()) == {1}


def test_two_scenes_go_by_one_clock():
    rare = make_scene(steps=np.array([0, 64, 640]), clock=np.array([0.0, 1.0, 10.0]))
    result = film_frames([rare, make_scene()])
    assert result.frames[:, 1].tolist() == list(range(FRAMES))
    assert result.frames[:, 0].tolist() == [0, 0] + [1] * 18 + [2]
    short = make_scene(steps=32 * np.arange(3), clock=np.arange(3) / 2)  # diverged
    assert film_frames([make_scene(), short]).frames[:, 1].tolist() == [0, 1] + [2] * 19


def test_scenes_of_other_units_go_by_shares():
    steps = make_scene(
        unit="step", steps=np.arange(0, 101, 50), clock=np.arange(0.0, 101, 50)
    )
    assert [
        time.max() for time in film_timeline.frame_times([make_scene(), steps])
    ] == [1, 1]
    assert film_timeline.simultaneous_frames([make_scene(), steps], 10) == [10, 1]
    assert film_timeline.simultaneous_frames([make_scene(), steps], 9) == [9, 0]
    assert film_timeline.simultaneous_frames([steps, make_scene()], 1) == [1, 10]
