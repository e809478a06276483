"""A change of a series between two levels: its size, and the moments at which it
begins, is half completed and ends."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
from numpy.lib.stride_tricks import sliding_window_view


class SeriesEvent(NamedTuple):
    """A drop, rise, spike or plateau. Moments are frame indices, with fractions between
    frames."""

    kind: str
    """One of drop, rise, spike and plateau."""
    begin: float
    middle: float
    """Where half of a drop or rise is completed; the peak of a spike; the middle of a
    plateau."""
    end: float
    before: float
    """Level before the event, in the unit of the series."""
    after: float
    """Level after the event; the peak value of a spike."""
    initial: bool = False
    """Whether a drop or rise begins before the second frame."""


def medians_beside(x: np.ndarray, width: int) -> tuple[np.ndarray, np.ndarray]:
    """Medians of up to `width` frames before each frame (of the first frame, its own
    value) and of up to `width` frames from each frame on."""
    before, after = np.empty(len(x)), np.empty(len(x))
    if len(x) > width:
        inside = np.median(sliding_window_view(x, width), axis=1)
        before[width:], after[: len(x) - width + 1] = inside[:-1], inside
    for frame in range(min(width, len(x))):
        before[frame] = np.median(x[: max(1, frame)])
        after[-1 - frame] = np.median(x[-1 - frame :])
    return before, after


def equal_if_near(change: np.ndarray, x: np.ndarray) -> np.ndarray:
    """Changes of a series x rounded to 1e-12 of its largest value, (frame,), so that
    rounding in another unit does not make equal changes a peak."""
    unit = 1e-12 * np.abs(x).max()
    return np.round(change / unit) * unit if unit > 0 else change


def largest_level(x: np.ndarray, width: int) -> float:
    """The largest absolute median of `width` successive frames, or of all frames if
    there are fewer."""
    after = medians_beside(x, width)[1]
    return float(np.abs(after[: max(1, len(x) - width + 1)]).max())


def window_noise(frames: int, width: int) -> np.ndarray:
    """Standard deviation of the difference of the medians that `medians_beside`
    returns, for noise of standard deviation 1, (frame,).

    The variance of a median of w frames is pi / (2 w); windows are shorter at both ends
    of the series."""
    frame = np.arange(frames)
    before = np.clip(frame, 1, width)
    after = np.clip(frames - frame, 1, width)
    return np.sqrt(np.pi / 2 * (1 / before + 1 / after))


def change_size(event: SeriesEvent) -> float:
    return (
        event.before - event.after
        if event.kind == "drop"
        else event.after - event.before
    )


def make_change(
    kind: str, x: np.ndarray, near: float, before: float, after: float
) -> SeriesEvent:
    """A drop or rise between two levels, near a frame."""
    progress = (before - x) / (
        before - after
    )  # 0 at the level before, 1 at the level after
    half = _crossing(progress, 0.5, near)
    begin, end = _last_before(progress, 0.1, half), _first_after(progress, 0.9, half)
    return SeriesEvent(kind, begin, half, end, before, after, initial=begin < 1)


def _crossing(progress: np.ndarray, fraction: float, near: float) -> float:
    """The moment closest to a frame at which the progress increases through a
    fraction."""
    up = np.flatnonzero((progress[:-1] < fraction) & (progress[1:] >= fraction))
    if not up.size:
        return float(near)
    return _time_between(progress, fraction, int(up[np.argmin(np.abs(up - near))]))


def _last_before(progress: np.ndarray, fraction: float, moment: float) -> float:
    """The last time before `moment` at which the progress is at most `fraction`; 0 if
    there is none."""
    below = np.flatnonzero(progress[: int(moment) + 1] <= fraction)
    if not below.size:
        return 0.0
    at = int(below[-1])
    if at + 1 == len(progress) or progress[at + 1] <= fraction:
        return float(at)
    return _time_between(progress, fraction, at)


def _first_after(progress: np.ndarray, fraction: float, moment: float) -> float:
    """The first time after `moment` at which the progress is at least `fraction`; the
    last frame if there is none."""
    begin = int(np.ceil(moment))
    above = np.flatnonzero(progress[begin:] >= fraction)
    if not above.size:
        return float(len(progress) - 1)
    at = begin + int(above[0])
    if at == 0 or progress[at - 1] >= fraction:
        return float(at)
    return _time_between(progress, fraction, at - 1)


def _time_between(progress: np.ndarray, fraction: float, at: int) -> float:
    """When the progress is at a fraction between a frame and the next one."""
    return at + float((fraction - progress[at]) / (progress[at + 1] - progress[at]))
