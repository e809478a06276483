"""Drops and rises that are large relative to the level beside them, at whatever speed.

A saddle-to-saddle training loses most of its loss in the first escape, and each later
escape is smaller and slower. Such a drop is a peak of the speed at which the series
falls, between two moments at which it falls more slowly. The change d between the
medians of W frames before and after each frame measures this speed; W is 5, 10, 20, ...
frames, up to a third of the series.

peak
    A frame where d is 1.25 times as large as in the valleys beside it, and larger than
    in them by twice `significance` standard deviations of the noise.
drop
    The change between the valleys beside a peak, or the frames where d is a fiftieth of
    that of the peak, if it is `depth` times the larger of the levels at these frames
    or more; levels below `floor` times the largest count as this.

An interval that the longer of two windows shows as one drop and the shorter as several
has several drops. Where both show one, the shorter window is used unless its drop is
smaller by a tenth. The noise is estimated in each part of the series from second
differences, so that a smooth descent is no noise."""

from __future__ import annotations

from typing import Any

import numpy as np
from scipy.ndimage import median_filter
from scipy.signal import find_peaks

from analysis.transitions.detection import MIN_WINDOW_FRAMES, DetectionConfig
from analysis.transitions.series_changes import (
    SeriesEvent,
    change_size,
    equal_if_near,
    largest_level,
    make_change,
    medians_beside,
    window_noise,
)

_LONGEST_WINDOW = 1 / 3
"""Longest window, as a fraction of the frames."""

_PEAK_RATIO = 1.25
"""Least ratio of the speed of the fall at a peak to that in the valleys beside it."""

_FOOT = 0.02
"""Speed at which a drop begins and ends, as a fraction of that at its peak."""

_MAD_TO_SIGMA = 1.4826


def find_local_changes(x: np.ndarray, config: DetectionConfig) -> list[SeriesEvent]:
    """Drops and rises in order. x (frame,): a series without spikes, or its logarithm
    if the level of the config is log."""
    scale = largest_level(x, config.width(len(x)))
    result: list[SeriesEvent] = []
    width = MIN_WINDOW_FRAMES
    while width <= max(MIN_WINDOW_FRAMES, _LONGEST_WINDOW * len(x)):
        before, after = medians_beside(x, width)
        noise = _change_noise(x, width, config)
        slow = 0.1 * _least_size(before, after, scale, config) * width / len(x)
        slowest = np.maximum(0.5 * config.significance * noise, slow)
        for sign in (1, -1):
            change = sign * (before - after) * width / _distances(len(x), width)
            change = equal_if_near(change, x)
            peaks = _significant_peaks(change, slowest, noise, config)
            for event, peak in _changes_around(peaks, change, slowest, x, width, sign):
                size = change_size(event)
                enough = size >= _least_size(event.before, event.after, scale, config)
                if enough and size >= config.significance * noise[peak]:
                    _add_change(result, event)
        width *= 2
    return sorted(result, key=lambda event: event.middle)


def _least_size(before: Any, after: Any, scale: float, config: DetectionConfig) -> Any:
    """The smallest change between two levels that counts; the levels are numbers or
    arrays."""
    if config.level == "log":
        return change_of_log(config.depth) + 0 * before
    level = np.maximum(np.abs(before), np.abs(after))
    return config.depth * np.maximum(level, config.floor * scale)


def change_of_log(depth: float) -> float:
    """The change of the natural logarithm in a drop by a fraction of the level."""
    return -float(np.log1p(-min(depth, 0.999)))


def _change_noise(x: np.ndarray, width: int, config: DetectionConfig) -> np.ndarray:
    """Standard deviation of the change between the medians beside each frame, scaled
    to the distance of whole windows, under noise alone, (frame,)."""
    second = np.zeros(len(x))
    second[1:-1] = np.abs(np.diff(x, 2))
    second[[0, -1]] = second[[1, -2]]
    around = 4 * max(width, config.width(len(x))) + 1
    around = min(around, len(x) - 1 + len(x) % 2)  # odd, so that it has a middle
    deviation = (
        _MAD_TO_SIGMA / np.sqrt(6) * median_filter(second, around, mode="nearest")
    )
    scale = width / _distances(len(x), width)
    return deviation * window_noise(len(x), width) * scale


def _significant_peaks(
    change: np.ndarray, slowest: np.ndarray, noise: np.ndarray, config: DetectionConfig
) -> np.ndarray:
    """Frames where the change has a peak. slowest (frame,): changes that count as
    none."""
    tiny = np.finfo(float).tiny
    speed = np.maximum(change, np.maximum(slowest, tiny))
    padded = np.log(np.pad(speed, 1, constant_values=tiny))
    peaks, properties = find_peaks(padded, prominence=np.log(_PEAK_RATIO))
    peaks = peaks - 1
    valleys = speed[peaks] * np.exp(-properties["prominences"])
    significant = speed[peaks] - valleys >= 2 * config.significance * noise[peaks]
    return peaks[significant & (speed[peaks] >= 2 * slowest[peaks])]


def _changes_around(
    peaks: np.ndarray,
    change: np.ndarray,
    slowest: np.ndarray,
    x: np.ndarray,
    width: int,
    sign: int,
) -> list[tuple[SeriesEvent, int]]:
    """The drop (sign 1) or rise (-1) around each peak, with the peak."""
    smooth = median_filter(x, MIN_WINDOW_FRAMES, mode="nearest")
    limits = np.concatenate([[0], peaks, [len(x) - 1]])
    result = []
    for lowest, peak, highest in zip(limits, peaks, limits[2:], strict=False):
        left, right = change[lowest : peak + 1], change[peak : highest + 1]
        if min(left.min(), right.min()) * _PEAK_RATIO > change[peak]:
            continue  # a straight line
        foot = max(_FOOT * change[peak], slowest[peak])
        first = lowest + np.flatnonzero(left <= max(left.min(), foot))[-1]
        last = peak + np.flatnonzero(right <= max(right.min(), foot))[0]
        before = x[0] if first == 0 else _level_at(x, first, width)
        after = _level_at(x, last, width)
        if sign * (before - after) > 0:
            kind = "drop" if sign == 1 else "rise"
            event = make_change(kind, smooth, float(peak), float(before), float(after))
            result.append((event, int(peak)))
    return result


def _distances(frames: int, width: int) -> np.ndarray:
    """Distance between the middles of the windows before and after each frame, which
    are shorter at both ends of the series, (frame,)."""
    frame = np.arange(frames)
    before, after = np.minimum(frame, width), np.minimum(frames - frame, width)
    distances = (before + after) / 2
    distances[0] -= 0.5  # the level before the first frame is its own value
    return distances


def _level_at(x: np.ndarray, frame: int, width: int) -> float:
    return float(np.median(x[max(0, frame - width // 2) : frame + width // 2 + 1]))


def _add_change(events: list[SeriesEvent], event: SeriesEvent) -> None:
    """Add a change that a longer window shows, or replace the part of it that a shorter
    one has shown."""
    inside = [
        other for other in events if other.begin < event.end and event.begin < other.end
    ]
    if len(inside) > 1:
        return
    for part in inside:
        if part.kind != event.kind or change_size(part) >= 0.9 * change_size(event):
            return
        events.remove(part)
    events.append(event)
