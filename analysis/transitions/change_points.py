"""Drops, rises, spikes and plateaus of a series, by one rule that knows neither its unit nor its length.

Around each frame stand the medians of the w frames before and of the w frames after, w being a share of all frames. The
scale of a series is the largest median of w frames.

    drop     the median after lies below the median before by `depth` of the scale or more, most at its peak; windows of
             2 w and 4 w are looked through as well, for slower falls where w shows none. Falls that overlap are one
    rise     the same upward
    spike    a frame stands above both medians beside it by `depth` of the larger one and by `floor` of the scale, and
             is the highest so far as w frames on both sides; all else is looked for with spikes taken out
    plateau  4 w frames or more between drops and rises whose medians change by less than a quarter of a drop

Each stands out of the noise, which is taken from the differences of neighbouring frames, by `significance` standard
deviations. A drop or rise happens at the moment when half of it is done, and begins and ends with a tenth and nine
tenths; a spike's begin and end are those of its half height. Moments between frames are interpolated. A drop or rise
that has begun before the second frame, so that no plateau was seen before it, is called initial.

A series that falls to nothing in a straight line has no drop: over 4 w, 0.08 of the frames, it loses less than 0.1.
"""

from collections import deque
from typing import NamedTuple

import numpy as np
from numpy.lib.stride_tricks import sliding_window_view
from scipy.ndimage import maximum_filter1d, median_filter
from scipy.signal import find_peaks, peak_widths

from analysis.transitions.detection import DEFAULT_DETECTION, MIN_WINDOW_FRAMES, DetectionConfig

EVENT_KINDS = ("drop", "rise", "spike", "plateau")

WINDOW_FACTORS = (1, 2, 4)
"""Longer windows, in units of the shortest, through which drops and rises are looked for that it does not show."""

PLATEAU_TOLERANCE = 0.25
"""Share of a drop's least depth by which a plateau's level may change."""

MAD_TO_STANDARD_DEVIATION = 1.4826
"""Standard deviation of Gaussian noise over the median of its size."""


class SeriesEvent(NamedTuple):
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


def detect_events(series: np.ndarray, rule: DetectionConfig = DEFAULT_DETECTION) -> list[SeriesEvent]:
    """All events of a series (frame,) of finite numbers, in the order of their middles. Raises ValueError."""
    x = _checked(series)
    if len(x) <= MIN_WINDOW_FRAMES:
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
    """Median of the w frames before, or as many as there are; the first frame has itself."""
    after: np.ndarray
    """Median of the w frames from here on, or as many as there are."""
    width: int
    scale: float
    noise: float

    @property
    def median_noise(self) -> float:
        """Standard deviation of the difference of two medians that noise alone makes."""
        return self.noise * float(np.sqrt(np.pi / self.width))


def _seen(x: np.ndarray, rule: DetectionConfig) -> _Seen:
    width = rule.width(len(x))
    before, after = _levels(x, width)
    noise = MAD_TO_STANDARD_DEVIATION / np.sqrt(2) * np.median(np.abs(np.diff(x))) if len(x) > 1 else 0.0
    whole = after[: max(1, len(x) - width + 1)]  # a first frame alone makes no level
    return _Seen(x, before, after, width, float(np.abs(whole).max()), float(noise))


def _through(seen: _Seen, factor: int) -> _Seen:
    """The same through longer windows."""
    before, after = _levels(seen.x, factor * seen.width)
    return seen._replace(before=before, after=after, width=factor * seen.width)


def _levels(x: np.ndarray, width: int) -> tuple[np.ndarray, np.ndarray]:
    """Medians of the frames before each, and of those from each on, as many as there are up to the width; the first
    frame has itself before it."""
    before, after = np.empty(len(x)), np.empty(len(x))
    if len(x) > width:
        inside = np.median(sliding_window_view(x, width), axis=1)
        before[width:], after[: len(x) - width + 1] = inside[:-1], inside
    for at in range(min(width, len(x))):
        before[at] = np.median(x[: max(1, at)])
        after[-1 - at] = np.median(x[-1 - at :])
    return before, after


# ---------------------------------------------------------------------------------------------- spikes


def _spikes(seen: _Seen, rule: DetectionConfig) -> list[SeriesEvent]:
    x, width = seen.x, seen.width
    beside = np.maximum(seen.before, np.append(seen.after[1:], x[-1]))
    height = x - beside
    changes = np.abs(np.diff(x, prepend=x[0]))
    noise = (
        MAD_TO_STANDARD_DEVIATION / np.sqrt(2) * median_filter(changes, 4 * width + 1, mode="nearest")
    )  # it differs along a run
    least = np.maximum(np.maximum(rule.depth * np.abs(beside), rule.floor * seen.scale), rule.significance * noise)
    highest = x == maximum_filter1d(x, 2 * width + 1, mode="nearest")
    peaks = np.flatnonzero((height >= least) & highest & (height > 0))
    return [_spike(seen, int(peak), float(seen.before[peak])) for peak in peaks]


def _spike(seen: _Seen, peak: int, level: float) -> SeriesEvent:
    x, half = seen.x, 0.5 * (level + seen.x[peak])
    begin = peak - _first_below(x[peak::-1], half)
    end = peak + _first_below(x[peak:], half)
    return SeriesEvent("spike", begin, peak, end, level, float(x[peak]))


def _first_below(x: np.ndarray, level: float) -> float:
    """Where a series that begins above a level first crosses it; its length where it never does."""
    below = x <= level
    if not below.any():
        return float(len(x) - 1)
    at = int(below.argmax())
    return at - (level - x[at]) / (x[at - 1] - x[at]) if at else 0.0


def _despiked(x: np.ndarray, rule: DetectionConfig) -> tuple[list[SeriesEvent], _Seen]:
    """Spikes, and the series without them."""
    spikes = _spikes(_seen(x, rule), rule)
    return spikes, _seen(_without(spikes, x, rule.width(len(x))), rule)


def _without(spikes: list[SeriesEvent], x: np.ndarray, width: int) -> np.ndarray:
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


def _steps(seen: _Seen, rule: DetectionConfig) -> list[SeriesEvent]:
    """Drops and rises, in order: those that a short window shows, then those that only a longer one does."""
    smooth = median_filter(seen.x, MIN_WINDOW_FRAMES, mode="nearest")
    found: list[SeriesEvent] = []
    known: list[tuple[float, float]] = []
    for factor in WINDOW_FACTORS:
        through = seen if factor == 1 else _through(seen, factor)
        for kind in ("drop", "rise"):
            for event in _merged(_falls(kind, through, rule, smooth), smooth):
                if all(event.end <= begin or end <= event.begin for begin, end in known):
                    found.append(event)
        known = [(event.begin, event.end) for event in found]
    return sorted(found, key=lambda event: event.middle)


def _falls(kind: str, seen: _Seen, rule: DetectionConfig, smooth: np.ndarray) -> list[SeriesEvent]:
    """Those of a kind that one window shows."""
    fall = seen.before - seen.after if kind == "drop" else seen.after - seen.before
    least = max(rule.depth * seen.scale, rule.significance * seen.median_noise)
    if least <= 0:
        return []
    padded = np.concatenate([[0.0], fall, [0.0]])
    peaks, _ = find_peaks(padded, height=least, prominence=0.5 * least)
    left, right = peak_widths(padded, peaks, rel_height=0.5)[2:]
    found = []
    for peak, low, high in zip(peaks - 1, left - 1, right - 1, strict=True):
        first, last = max(0, int(low)), min(len(fall) - 1, int(np.ceil(high)))
        before, after = float(seen.before[first]), float(seen.after[last])
        if (before - after if kind == "drop" else after - before) >= least:
            found.append(_step(kind, smooth, float(peak), before, after))
    return found


def _merged(events: list[SeriesEvent], smooth: np.ndarray) -> list[SeriesEvent]:
    """Falls of one kind with those that overlap made one."""
    found: list[SeriesEvent] = []
    for event in sorted(events, key=lambda event: event.begin):
        if found and event.begin < found[-1].end:
            last = found.pop()
            deeper = max(last, event, key=_depth)
            whole = deeper._replace(before=last.before, after=event.after)
            event = deeper
            if _depth(whole) >= _depth(deeper):
                event = _step(whole.kind, smooth, whole.middle, whole.before, whole.after)
        found.append(event)
    return found


def _depth(event: SeriesEvent) -> float:
    return event.before - event.after if event.kind == "drop" else event.after - event.before


def _step(kind: str, x: np.ndarray, near: float, before: float, after: float) -> SeriesEvent:
    part = (before - x) / (before - after)  # from 0 to 1
    half = _crossing(part, 0.5, near)
    begin, end = _back_to(part, 0.1, half), _on_to(part, 0.9, half)
    return SeriesEvent(kind, begin, half, end, before, after, initial=begin < 1)


def _crossing(part: np.ndarray, share: float, near: float) -> float:
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


def _plateaus(seen: _Seen, steps: list[SeriesEvent], rule: DetectionConfig) -> list[SeriesEvent]:
    """The longest flat stretches between drops and rises."""
    least = max(PLATEAU_TOLERANCE * rule.depth * seen.scale, rule.significance * seen.median_noise)
    ends = [0.0, *(step.end for step in steps)]
    begins = [*(step.begin for step in steps), float(len(seen.x) - 1)]
    found = []
    for begin, end in zip(ends, begins, strict=True):
        first, last = int(np.ceil(begin)), int(end) - seen.width + 1
        for low, high in _flat(seen.after[first : max(first, last + 1)], least, seen.width):
            if high - low < 3 * seen.width:
                continue
            level = (float(seen.after[first + low]), float(seen.after[first + high]))
            from_, to = max(begin, float(first + low)), float(first + high + seen.width - 1)
            to = end if first + high == last else to
            from_ = begin if low == 0 else from_
            found.append(SeriesEvent("plateau", from_, 0.5 * (from_ + to), to, *level))
    return found


def _flat(medians: np.ndarray, least: float, width: int) -> list[tuple[int, int]]:
    """First and last place of the longest stretch over which medians change by less, and of those beside it.

    Neighbouring medians share frames, so that stretches are a window apart.
    """
    if not len(medians):
        return []
    best, first = (0, 0), 0
    highs, lows = deque[int](), deque[int]()  # places of falling and of rising values in the stretch
    for last, value in enumerate(medians):
        for places, sign in ((highs, 1), (lows, -1)):
            while places and sign * medians[places[-1]] <= sign * value:
                places.pop()
            places.append(last)
        while medians[highs[0]] - medians[lows[0]] >= least > 0:
            first += 1
            for places in (highs, lows):
                if places[0] < first:
                    places.popleft()
        if last - first > best[1] - best[0]:
            best = (first, last)
    low, high = best
    before, after = _flat(medians[: max(0, low - width)], least, width), []
    after = [(high + width + 1 + a, high + width + 1 + b) for a, b in _flat(medians[high + width + 1 :], least, width)]
    return [*before, best, *after]


class PlateauEscape(NamedTuple):
    """When a series left its first level; moments count frames."""

    moment: float
    """Until when it was watched, where it has not left."""
    observed: bool
    level: float


def first_plateau_escape(
    series: np.ndarray, share: float = 0.1, rising: bool = False, rule: DetectionConfig = DEFAULT_DETECTION
) -> PlateauEscape:
    """When a series (frame,) has lost (or, rising, gained) a share of its first level, and the frames after too.

    The first level is the median of the first w frames, or where the series begins with an initial drop or rise, of
    those after its end. The moment is where the series, by medians of five frames, crosses the changed level; after it
    the median of 4 w frames is beyond. An initial drop (or, rising, rise) by half of the level or more, which lasts
    for w frames, is no prelude to a plateau but the escape itself, at its middle. Raises ValueError.
    """
    x = _checked(series)
    if not share > 0:
        raise ValueError(f"share: found {share}, expected a number above 0")
    seen = _despiked(x, rule)[1]
    initial = [step for step in _steps(seen, rule) if step.initial] if len(x) > MIN_WINDOW_FRAMES else []
    for step in initial:
        long = step.end - step.begin >= seen.width
        if long and step.kind == ("rise" if rising else "drop") and _depth(step) >= 0.5 * abs(step.before):
            return PlateauEscape(step.middle, True, step.before)
    begin, last = int(np.ceil(max((step.end for step in initial), default=0.0))), float(len(x) - 1)
    level = float(seen.after[begin])
    smooth = median_filter(seen.x, MIN_WINDOW_FRAMES, mode="nearest")
    lasts = _through(seen, WINDOW_FACTORS[-1]).after
    gain, lasting = ((1 if rising else -1) * (values[begin:] - level) for values in (smooth, lasts))
    least = share * abs(level)
    gone = np.flatnonzero((gain >= least) & (lasting >= least) & (gain > 0))
    if not gone.size:
        return PlateauEscape(last, False, level)
    at = int(gone[0])
    if at == 0 or gain[at - 1] >= least:
        return PlateauEscape(float(begin + at), True, level)
    return PlateauEscape(begin + at - (gain[at] - least) / (gain[at] - gain[at - 1]), True, level)
