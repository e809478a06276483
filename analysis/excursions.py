"""Drops, rises, spikes and plateaus of a series, by one rule that knows neither its unit nor its length.

Around each frame stand the medians of the w frames before and of the w frames after, w being a share of all frames. The
scale of a series is the largest such median.

    drop     the median after lies below the median before by `depth` of the scale or more, most at its peak
    rise     the same upward
    spike    a frame stands above both medians beside it by `depth` of the larger one and by `floor` of the scale, and
             is the highest so far as w frames on both sides; all else is looked for with spikes taken out
    plateau  w frames or more between drops and rises whose medians stay within `depth` of the scale

Each stands out of the noise, which is taken from the differences of neighbouring frames, by `significance` standard
deviations. A drop or rise happens at the moment when half of it is done, and begins and ends with a tenth and nine
tenths; a spike's begin and end are those of its half height. Moments between frames are interpolated. A drop or rise
that has begun before the second frame, so that no plateau was seen before it, is called initial.
"""

from collections.abc import Iterable
from typing import NamedTuple

import numpy as np
from numpy.lib.stride_tricks import sliding_window_view
from scipy.ndimage import maximum_filter1d, median_filter
from scipy.signal import find_peaks, peak_widths

from analysis.rule import FEWEST, RULE, Rule

KINDS = ("drop", "rise", "spike", "plateau")

GAUSSIAN = 1.4826
"""Standard deviation of Gaussian noise over the median of its size."""


class Event(NamedTuple):
    """An event; moments count frames."""

    kind: str
    begin: float
    middle: float
    """Where a drop or rise is half done, a spike's peak, a plateau's middle."""
    end: float
    before: float
    """Level before, in the series' unit."""
    after: float
    """Level after; of a spike that of its peak."""
    initial: bool = False


def events_of(series: np.ndarray, rule: Rule = RULE) -> list[Event]:
    """All events of a series (frame,) of finite numbers, in the order of their middles. Raises ValueError."""
    x = _checked(series)
    if len(x) <= FEWEST:
        return []
    spikes, seen = _despiked(x, rule)
    steps = _steps(seen, rule)
    return sorted([*spikes, *steps, *_plateaus(seen, steps, rule)], key=lambda event: event.middle)


def _checked(series: np.ndarray) -> np.ndarray:
    x = np.asarray(series, np.float64)
    if x.ndim != 1 or not len(x) or not np.isfinite(x).all():
        raise ValueError(f"series: found shape {x.shape}, expected (frame,) of finite numbers")
    return x


class _Seen(NamedTuple):
    """A series through its windows, each (frame,)."""

    x: np.ndarray
    before: np.ndarray
    """Median of the w frames before; the first frame stands for those that are not there."""
    after: np.ndarray
    """Median of the w frames from here on; likewise the last."""
    width: int
    scale: float
    noise: float


def _seen(x: np.ndarray, rule: Rule) -> _Seen:
    width = rule.width(len(x))
    padded = np.concatenate([np.full(width, x[0]), x, np.full(width, x[-1])])
    medians = np.median(sliding_window_view(padded, width), axis=1)
    before, after = medians[: len(x)], medians[width : width + len(x)]
    noise = GAUSSIAN / np.sqrt(2) * np.median(np.abs(np.diff(x))) if len(x) > 1 else 0.0
    return _Seen(x, before, after, width, float(np.abs(medians).max()), float(noise))


# ---------------------------------------------------------------------------------------------- spikes


def _spikes(seen: _Seen, rule: Rule) -> list[Event]:
    x, width = seen.x, seen.width
    beside = np.maximum(seen.before, np.append(seen.after[1:], x[-1]))
    height = x - beside
    changes = np.abs(np.diff(x, prepend=x[0]))
    noise = GAUSSIAN / np.sqrt(2) * median_filter(changes, 4 * width + 1, mode="nearest")  # it differs along a run
    least = np.maximum(np.maximum(rule.depth * np.abs(beside), rule.floor * seen.scale), rule.significance * noise)
    highest = x == maximum_filter1d(x, 2 * width + 1, mode="nearest")
    peaks = np.flatnonzero((height >= least) & highest & (height > 0))
    return [_spike(seen, int(peak), float(seen.before[peak])) for peak in peaks]


def _spike(seen: _Seen, peak: int, level: float) -> Event:
    x, half = seen.x, 0.5 * (level + seen.x[peak])
    begin = peak - _first_below(x[peak::-1], half)
    end = peak + _first_below(x[peak:], half)
    return Event("spike", begin, peak, end, level, float(x[peak]))


def _first_below(x: np.ndarray, level: float) -> float:
    """Where a series that begins above a level first crosses it; its length where it never does."""
    below = x <= level
    if not below.any():
        return float(len(x) - 1)
    at = int(below.argmax())
    return at - (level - x[at]) / (x[at - 1] - x[at]) if at else 0.0


def _despiked(x: np.ndarray, rule: Rule) -> tuple[list[Event], _Seen]:
    """Spikes, and the series without them."""
    spikes = _spikes(_seen(x, rule), rule)
    return spikes, _seen(_without(spikes, x, rule.width(len(x))), rule)


def _without(spikes: list[Event], x: np.ndarray, width: int) -> np.ndarray:
    """The series with a straight line in the place of each spike, down to a tenth of its height."""
    smooth = x.copy()
    for spike in spikes:
        peak, low = int(spike.middle), spike.before + 0.1 * (spike.after - spike.before)
        first = peak - min(2 * width, int(np.ceil(_first_below(x[peak::-1], low))))
        last = peak + min(2 * width, int(np.ceil(_first_below(x[peak:], low))))
        first, last = max(first, 0), min(last, len(x) - 1)
        smooth[first : last + 1] = np.linspace(smooth[first], smooth[last], last - first + 1)
    return smooth


# ---------------------------------------------------------------------------------------- drops and rises


def _steps(seen: _Seen, rule: Rule) -> list[Event]:
    """Drops and rises, in order."""
    return sorted([*_falls("drop", seen, rule), *_falls("rise", seen, rule)], key=lambda event: event.middle)


def _falls(kind: str, seen: _Seen, rule: Rule) -> Iterable[Event]:
    fall = seen.before - seen.after if kind == "drop" else seen.after - seen.before
    median_noise = seen.noise * np.sqrt(np.pi / seen.width)  # of the difference of two medians
    least = max(rule.depth * seen.scale, rule.significance * median_noise)
    if least <= 0:
        return []
    padded = np.concatenate([[0.0], fall, [0.0]])
    peaks, _ = find_peaks(padded, height=least, prominence=0.5 * least)
    left, right = peak_widths(padded, peaks, rel_height=0.5)[2:]
    smooth = median_filter(seen.x, FEWEST, mode="nearest")
    found = []
    for peak, low, high in zip(peaks - 1, left - 1, right - 1, strict=True):
        first, last = max(0, int(low)), min(len(fall) - 1, int(np.ceil(high)))
        found.append(_step(kind, smooth, int(peak), float(seen.before[first]), float(seen.after[last])))
    return {event.middle: event for event in found}.values()  # two peaks of the contrast may be of one fall


def _step(kind: str, x: np.ndarray, peak: int, before: float, after: float) -> Event:
    part = (before - x) / (before - after)  # from 0 to 1
    half = _crossing(part, 0.5, peak)
    begin, end = _back_to(part, 0.1, half), _on_to(part, 0.9, half)
    return Event(kind, begin, half, end, before, after, initial=begin < 1)


def _crossing(part: np.ndarray, share: float, near: int) -> float:
    """The moment nearest to a frame at which a part rises through a share."""
    up = np.flatnonzero((part[:-1] < share) & (part[1:] >= share))
    if not up.size:
        return float(near)
    at = int(up[np.argmin(np.abs(up - near))])
    return at + (share - part[at]) / (part[at + 1] - part[at])


def _back_to(part: np.ndarray, share: float, moment: float) -> float:
    """The last moment before another at which a part was up to a share; the first frame if it never was."""
    below = np.flatnonzero(part[: int(moment) + 1] <= share)
    return _crossing(part, share, int(below[-1])) if below.size else 0.0


def _on_to(part: np.ndarray, share: float, moment: float) -> float:
    """The first moment after another at which a part is from a share on; the last frame if it never is."""
    begin = int(np.ceil(moment))
    above = np.flatnonzero(part[begin:] >= share)
    return _crossing(part, share, begin + int(above[0]) - 1) if above.size else float(len(part) - 1)


# ------------------------------------------------------------------------------------- plateaus, escape


def _plateaus(seen: _Seen, steps: list[Event], rule: Rule) -> list[Event]:
    """What lies between drops and rises, where it is long and flat."""
    ends = [0.0, *(step.end for step in steps)]
    begins = [*(step.begin for step in steps), float(len(seen.x) - 1)]
    found = []
    for begin, end in zip(ends, begins, strict=True):
        first, last = int(np.ceil(begin)), int(end) - seen.width + 1
        if last < first:
            continue
        medians = seen.after[first : last + 1]
        if np.ptp(medians) < rule.depth * seen.scale or np.ptp(medians) == 0:
            level = (float(medians[0]), float(medians[-1]))
            found.append(Event("plateau", begin, 0.5 * (begin + end), end, *level))
    return found


class Escape(NamedTuple):
    """When a series left its first level for good; moments count frames."""

    moment: float
    """Until when it was watched, where it has not left."""
    observed: bool
    level: float


def escape_of(series: np.ndarray, share: float = 0.1, rising: bool = False, rule: Rule = RULE) -> Escape:
    """When a series (frame,) has lost (or, rising, gained) a share of its first level, and the frames after too.

    The first level is the median of the first w frames, or where the series begins with an initial drop or rise, of
    those after its end. The moment is where the series, by medians of five frames, crosses the changed level; after it
    the median of w frames is beyond. Raises ValueError.
    """
    x = _checked(series)
    if not share > 0:
        raise ValueError(f"share: found {share}, expected a number above 0")
    seen = _despiked(x, rule)[1]
    initial = [step.end for step in _steps(seen, rule) if step.initial] if len(x) > FEWEST else []
    begin, last = int(np.ceil(max(initial, default=0.0))), float(len(x) - 1)
    level = float(seen.after[begin])
    smooth = median_filter(seen.x, FEWEST, mode="nearest")
    gain, lasting = ((1 if rising else -1) * (values[begin:] - level) for values in (smooth, seen.after))
    least = share * abs(level)
    gone = np.flatnonzero((gain >= least) & (lasting >= least) & (gain > 0))
    if not gone.size:
        return Escape(last, False, level)
    at = int(gone[0])
    if at == 0 or gain[at - 1] >= least:
        return Escape(float(begin + at), True, level)
    return Escape(begin + at - (gain[at] - least) / (gain[at] - gain[at - 1]), True, level)
