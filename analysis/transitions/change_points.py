"""Detection of drops, rises, spikes and plateaus in a series, independent of its unit
and length.

All windows have w frames, a fraction of the frames of the series. At each frame, the
level before is the median of the w frames before it, and the level after is the median
of the w frames that start with it. The scale of the series is the largest such median.

drop
    The level after is below the level before by `depth` times the scale or more, and
    this difference has a peak. Windows of 2 w and 4 w frames find slower drops that
    windows of w frames do not show. Overlapping drops are merged.
rise
    The same, upward.
spike
    A frame that is above both levels beside it by `depth` times the larger one and by
    `floor` times the scale, and is the maximum of the w frames on either side. Equal
    maxima between which the series stays above half of the height are one spike, at
    the middle one. Spikes are removed before drops, rises and plateaus are detected.
plateau
    4 w frames or more, between drops and rises, whose medians vary by less than a
    quarter of the smallest drop.

Each event exceeds the noise, estimated from the differences of successive frames, by
`significance` standard deviations. The middle of a drop or rise is where half of the
change is completed; it begins where a tenth and ends where nine tenths are completed. A
spike begins and ends at half of its height. These moments are interpolated between
frames. A drop or rise that begins before the second frame has no plateau before it and
is marked as `initial`.

A series that decreases to zero in a straight line has no drop: over 4 w, which is 0.08
of the frames, it loses less than 0.1 of its scale."""

from __future__ import annotations

from collections import deque
from typing import NamedTuple

import numpy as np
from scipy.ndimage import maximum_filter1d, median_filter
from scipy.signal import find_peaks, peak_widths

from analysis.transitions.detection import (
    DEFAULT_DETECTION,
    MIN_WINDOW_FRAMES,
    DetectionConfig,
)
from analysis.transitions.local_changes import change_of_log, find_local_changes
from analysis.transitions.series_changes import (
    SeriesEvent,
    change_size,
    equal_if_near,
    largest_level,
    make_change,
    medians_beside,
    window_noise,
)
from dynamics.settings import SettingsError

_WINDOW_FACTORS = (1, 2, 4)
"""Lengths of the windows in which drops and rises are detected, in units of w."""

_PLATEAU_TOLERANCE = 0.25
"""Largest variation of a plateau, as a fraction of the smallest drop."""

_LASTING_DEVIATIONS = 2.0
"""Standard deviations by which a change near the end of a series has to be larger, so
that noise leaves a constant level as rarely there as elsewhere (by simulation)."""

_MAD_TO_SIGMA = 1.4826
"""Standard deviation of Gaussian noise over the median of its absolute values."""


def detect_events(
    series: np.ndarray, config: DetectionConfig = DEFAULT_DETECTION
) -> list[SeriesEvent]:
    """Detect the drops, rises, spikes and plateaus of a series.

    Parameters
    ----------
    series : ndarray, shape (frame,)
        Finite numbers in any unit.
    config : DetectionConfig
        Thresholds.

    Returns
    -------
    list of SeriesEvent
        Ordered by their middles; empty for a series of five frames or fewer.

    Raises
    ------
    ValueError
        If the series is not one-dimensional, is empty, or has a value that is not
        finite.
    SettingsError
        If the level is log and a value is negative.

    Examples
    --------
    >>> import numpy as np
    >>> from analysis.transitions import detect_events
    >>> loss = np.where(np.arange(400) < 100, 1.0, 0.2)
    >>> [(event.kind, event.middle) for event in detect_events(loss)]
    [('plateau', 49.55), ('drop', 99.5), ('plateau', 249.45)]
    """
    x = _check_series(series, config)
    if len(x) <= MIN_WINDOW_FRAMES:
        return []
    spikes, smooth = _split_spikes(x, config)
    changes = _find_changes(smooth, config)
    return sorted(
        [*spikes, *changes, *_find_plateaus(smooth, changes, config)],
        key=lambda event: event.middle,
    )


def _check_series(series: np.ndarray, config: DetectionConfig) -> np.ndarray:
    x = np.asarray(series, np.float64)
    if x.ndim != 1 or not len(x) or not np.isfinite(x).all():
        raise ValueError(
            f"series: found shape {x.shape}, expected (frame,) of finite numbers"
        )
    if config.level == "log" and x.min() < 0:
        least = f"log for a series with negative values (the smallest is {x.min():g})"
        raise SettingsError("level", least, "largest or local")
    return x


class _Levels(NamedTuple):
    """A series and the levels before and after each of its frames, (frame,) each."""

    x: np.ndarray
    before: np.ndarray
    """Median of up to w frames before each frame; of the first frame, its own value."""
    after: np.ndarray
    """Median of up to w frames from each frame on."""
    width: int
    scale: float
    noise: float

    @property
    def difference_noise(self) -> float:
        """Standard deviation of the difference of two medians of w frames under noise
        alone."""
        return self.noise * float(np.sqrt(np.pi / self.width))

    @property
    def noise_by_frame(self) -> np.ndarray:
        """Standard deviation of the difference of the two levels beside each frame,
        whose windows are shorter at the ends of the series, (frame,)."""
        return self.noise * window_noise(len(self.x), self.width)

    def with_longer_windows(self, factor: int) -> _Levels:
        """The same series with windows that are longer by a factor."""
        before, after = medians_beside(self.x, factor * self.width)
        return self._replace(before=before, after=after, width=factor * self.width)


def _levels(x: np.ndarray, config: DetectionConfig) -> _Levels:
    width = config.width(len(x))
    before, after = medians_beside(x, width)
    changes = np.abs(np.diff(x)) if len(x) > 1 else 0.0
    noise = _MAD_TO_SIGMA / np.sqrt(2) * np.median(changes)
    # medians of whole windows, so that no single frame sets the scale
    scale = largest_level(x, width)
    return _Levels(x, before, after, width, scale, float(noise))


# ------------------------------------------------------------------------------- spikes


def _find_spikes(levels: _Levels, config: DetectionConfig) -> list[SeriesEvent]:
    x = levels.x
    width = levels.width
    beside = np.maximum(levels.before, np.append(levels.after[1:], x[-1]))
    height = x - beside
    # by frame, because the noise changes during a run
    changes = np.abs(np.diff(x, prepend=x[0]))
    changes = median_filter(changes, 4 * width + 1, mode="nearest")
    noise = _MAD_TO_SIGMA / np.sqrt(2) * changes
    threshold = np.maximum(config.depth * np.abs(beside), config.floor * levels.scale)
    threshold = np.maximum(threshold, config.significance * noise)
    highest = x == maximum_filter1d(x, 2 * width + 1, mode="nearest")
    tops = np.flatnonzero((height >= threshold) & highest & (height > 0))
    spikes: list[SeriesEvent] = []
    while tops.size:
        first = _make_spike(x, int(tops[0]), float(levels.before[tops[0]]))
        same = tops[(tops <= first.end) & (x[tops] == first.after)]
        peak = middle_frame(same)
        spikes.append(_make_spike(x, peak, float(levels.before[peak])))
        tops = tops[tops > same[-1]]
    return spikes


def middle_frame(frames: np.ndarray) -> int:
    """The frame in the middle of frames in order (frame,), at which a series has its
    largest value; the earlier of two."""
    return int(frames[(len(frames) - 1) // 2])


def _make_spike(x: np.ndarray, peak: int, level: float) -> SeriesEvent:
    half = 0.5 * (level + x[peak])
    begin = peak - _first_below(x[peak::-1], half)
    end = peak + _first_below(x[peak:], half)
    return SeriesEvent("spike", begin, peak, end, level, float(x[peak]))


def _first_below(x: np.ndarray, level: float) -> float:
    """Where a series that begins above a level first crosses it; its last frame if it
    never does."""
    below = x <= level
    if not below.any():
        return float(len(x) - 1)
    at = int(below.argmax())
    return at - float((level - x[at]) / (x[at - 1] - x[at])) if at else 0.0


def _split_spikes(
    x: np.ndarray, config: DetectionConfig
) -> tuple[list[SeriesEvent], _Levels]:
    """The spikes of a series, and the series without them."""
    spikes = _find_spikes(_levels(x, config), config)
    return spikes, _levels(_remove_spikes(spikes, x, config.width(len(x))), config)


def _remove_spikes(spikes: list[SeriesEvent], x: np.ndarray, width: int) -> np.ndarray:
    """The series with each spike, down to a tenth of its height, replaced by a straight
    line."""
    smooth = x.copy()
    for spike in spikes:
        peak = int(spike.middle)
        low = spike.before + 0.1 * (spike.after - spike.before)
        first = peak - min(2 * width, int(np.ceil(_first_below(x[peak::-1], low))))
        last = peak + min(2 * width, int(np.ceil(_first_below(x[peak:], low))))
        first, last = max(first, 0), min(last, len(x) - 1)
        smooth[first : last + 1] = np.linspace(
            smooth[first], smooth[last], last - first + 1
        )
    return smooth


# ---------------------------------------------------------------------- drops and rises


def _find_changes(levels: _Levels, config: DetectionConfig) -> list[SeriesEvent]:
    """Drops and rises in order."""
    if config.level == "log":
        return [
            event._replace(
                before=_from_logarithm(event.before),
                after=_from_logarithm(event.after),
            )
            for event in find_local_changes(_logarithm(levels.x), config)
        ]
    if config.level == "local":
        return find_local_changes(levels.x, config)
    # those that the shortest window shows, then those that only a longer one does
    smooth = median_filter(levels.x, MIN_WINDOW_FRAMES, mode="nearest")
    result: list[SeriesEvent] = []
    for factor in _WINDOW_FACTORS:
        longer = levels if factor == 1 else levels.with_longer_windows(factor)
        before = list(result)
        for kind in ("drop", "rise"):
            events = _changes_in_window(kind, longer, config, smooth)
            for event in _merge_overlapping(events, smooth):
                if all(
                    event.end <= other.begin or other.end <= event.begin
                    for other in before
                ):
                    result.append(event)
    return sorted(result, key=lambda event: event.middle)


_LEAST = float(np.finfo(np.float32).tiny)
"""The value that a value of 0 counts as in logarithms: the smallest normal float32,
1.2e-38."""


def _logarithm(x: np.ndarray) -> np.ndarray:
    """The natural logarithm of a series; smaller values than 1.2e-38 count as this."""
    return np.log(np.maximum(x, _LEAST))


def _from_logarithm(value: float) -> float:
    return 0.0 if value < np.log(_LEAST) + 1e-6 else float(np.exp(value))


def _changes_in_window(
    kind: str, levels: _Levels, config: DetectionConfig, smooth: np.ndarray
) -> list[SeriesEvent]:
    """Drops or rises between the levels of one window length; smooth (frame,): the
    series by medians of five."""
    sign = 1 if kind == "drop" else -1
    change = equal_if_near(sign * (levels.before - levels.after), levels.x)
    threshold = np.maximum(
        config.depth * levels.scale, config.significance * levels.noise_by_frame
    )
    if threshold.max() <= 0:
        return []
    padded = np.concatenate([[0.0], change, [0.0]])
    limits = np.pad(threshold, 1, mode="edge")
    peaks, _ = find_peaks(padded, height=limits, prominence=0.5 * limits)
    left, right = peak_widths(padded, peaks, rel_height=0.5)[2:]
    result = []
    for peak, low, high in zip(peaks - 1, left - 1, right - 1, strict=True):
        first, last = max(0, int(low)), min(len(change) - 1, int(np.ceil(high)))
        before, after = float(levels.before[first]), float(levels.after[last])
        if sign * (before - after) >= threshold[peak]:
            result.append(make_change(kind, smooth, float(peak), before, after))
    return result


def _merge_overlapping(
    events: list[SeriesEvent], smooth: np.ndarray
) -> list[SeriesEvent]:
    """Drops or rises, with those that overlap merged into one."""
    result: list[SeriesEvent] = []
    for event in sorted(events, key=lambda event: event.begin):
        if result and event.begin < result[-1].end:
            last = result.pop()
            deeper = max(last, event, key=change_size)
            merged = deeper._replace(before=last.before, after=event.after)
            event = deeper
            if change_size(merged) >= change_size(deeper):
                event = make_change(
                    merged.kind, smooth, merged.middle, merged.before, merged.after
                )
        result.append(event)
    return result


# ----------------------------------------------------------------------------- plateaus


def _find_plateaus(
    levels: _Levels, changes: list[SeriesEvent], config: DetectionConfig
) -> list[SeriesEvent]:
    """The longest flat stretches between drops and rises."""
    medians = levels.after
    if config.level in ("local", "log"):
        if config.level == "local":
            medians = np.maximum(medians, 0.1 * config.floor * levels.scale)
        medians = _logarithm(medians)
        tolerance = _PLATEAU_TOLERANCE * change_of_log(config.depth)
    else:
        tolerance = max(
            _PLATEAU_TOLERANCE * config.depth * levels.scale,
            config.significance * levels.difference_noise,
        )
    gap_begins = [0.0, *(change.end for change in changes)]
    gap_ends = [*(change.begin for change in changes), float(len(levels.x) - 1)]
    result = []
    for gap_begin, gap_end in zip(gap_begins, gap_ends, strict=True):
        first, last = int(np.ceil(gap_begin)), int(gap_end) - levels.width + 1
        for low, high in _flat_stretches(
            medians[first : max(first, last + 1)], tolerance, levels.width
        ):
            if high - low < 3 * levels.width:
                continue
            level = levels.after[[first + low, first + high]].tolist()
            begin = float(first + low) if low else gap_begin
            end = first + high + levels.width - 1.0
            end = gap_end if first + high == last else end
            middle = 0.5 * (begin + end)
            result.append(SeriesEvent("plateau", begin, middle, end, *level))
    return result


def _flat_stretches(
    medians: np.ndarray, tolerance: float, width: int
) -> list[tuple[int, int]]:
    """First and last index of the longest stretch that varies by less than a tolerance,
    and of those beside it.

    Stretches are a window apart, because neighbouring medians have frames in common.
    """
    if not len(medians):
        return []
    best = (0, 0)
    first = 0
    # indices of decreasing and of increasing values in the stretch
    highs, lows = deque[int](), deque[int]()
    for last, value in enumerate(medians):
        for indices, sign in ((highs, 1), (lows, -1)):
            while indices and sign * medians[indices[-1]] <= sign * value:
                indices.pop()
            indices.append(last)
        while medians[highs[0]] - medians[lows[0]] >= tolerance > 0:
            first += 1
            for indices in (highs, lows):
                if indices[0] < first:
                    indices.popleft()
        if last - first > best[1] - best[0]:
            best = (first, last)
    low, high = best
    before = _flat_stretches(medians[: max(0, low - width)], tolerance, width)
    offset = high + width + 1
    after = _flat_stretches(medians[offset:], tolerance, width)
    return [*before, best, *((offset + a, offset + b) for a, b in after)]


# ------------------------------------------------------------------------------- escape


class PlateauEscape(NamedTuple):
    """When a series left its first level."""

    moment: float
    """Frame index, with a fraction between frames; if the series has not left, its last
    frame (censored)."""
    observed: bool
    """Whether the series has left its first level."""
    level: float
    """The first level, in the unit of the series."""


def first_plateau_escape(
    series: np.ndarray,
    fraction: float = 0.1,
    rising: bool = False,
    config: DetectionConfig = DEFAULT_DETECTION,
) -> PlateauEscape:
    """Find when a series leaves its first level for good.

    The first level is the median of the first w frames; in a series with an initial
    drop or rise, of the w frames after its end. The series leaves it where its running
    median of five frames crosses the changed level, if the median of the following 4 w
    frames is beyond that level too. Near the end the following frames are fewer, at
    least five; their median is then beyond the level by more, so that noise leaves a
    constant level as rarely as elsewhere. An initial drop (rise, if `rising`) by half of the
    level or more that lasts w frames or more is itself the escape, at its middle.

    Parameters
    ----------
    series : ndarray, shape (frame,)
        Finite numbers in any unit.
    fraction : float
        The change that counts as an escape, as a fraction of the first level.
    rising : bool
        Whether the series escapes upward.
    config : DetectionConfig
        Thresholds; they set w and what an initial drop is.

    Returns
    -------
    PlateauEscape

    Raises
    ------
    ValueError
        If the series is not one of finite numbers, or the fraction is not positive.
    SettingsError
        As `detect_events`.

    Examples
    --------
    >>> import numpy as np
    >>> from analysis.transitions import first_plateau_escape
    >>> loss = np.where(np.arange(400) < 100, 1.0, 0.2)
    >>> first_plateau_escape(loss, 0.1)
    PlateauEscape(moment=99.125, observed=True, level=1.0)
    """
    x = _check_series(series, config)
    if not fraction > 0:
        raise ValueError(f"fraction: found {fraction}, expected a number above 0")
    levels = _split_spikes(x, config)[1]
    changes = _find_changes(levels, config) if len(x) > MIN_WINDOW_FRAMES else []
    initial = [change for change in changes if change.initial]
    for change in initial:
        is_long = change.end - change.begin >= levels.width
        is_large = change_size(change) >= 0.5 * abs(change.before)
        if is_long and is_large and change.kind == ("rise" if rising else "drop"):
            return PlateauEscape(change.middle, True, change.before)
    begin = int(np.ceil(max((change.end for change in initial), default=0.0)))
    level = float(levels.after[begin])
    smooth = median_filter(levels.x, MIN_WINDOW_FRAMES, mode="nearest")
    longer = levels.with_longer_windows(_WINDOW_FACTORS[-1])
    sign = 1 if rising else -1
    gain = sign * (smooth[begin:] - level)
    lasting_gain = sign * (longer.after[begin:] - level)
    threshold = fraction * abs(level)
    least = _least_lasting_gains(longer, threshold)[begin:]
    escaped = (gain >= threshold) & (lasting_gain >= least) & (gain > 0)
    half = MIN_WINDOW_FRAMES // 2
    escaped[: max(0, half - begin)] = False  # the running median needs five frames
    if not escaped.any():
        return PlateauEscape(len(x) - 1.0, False, level)
    at = int(escaped.argmax())
    moment = float(begin + at)
    if at and gain[at - 1] < threshold:
        moment -= float((gain[at] - threshold) / (gain[at] - gain[at - 1]))
    return PlateauEscape(moment, True, level)


def _least_lasting_gains(levels: _Levels, threshold: float) -> np.ndarray:
    """The gain of the median of the frames from each frame on that counts as lasting,
    (frame,): the threshold if there are levels.width frames; infinite if there are
    fewer than five. Between, it exceeds the threshold by _LASTING_DEVIATIONS times the
    increase of the standard deviation of this median."""
    following = np.minimum(np.arange(len(levels.x), 0, -1), levels.width)
    deviation = levels.noise * np.sqrt(np.pi / 2 / following)
    least = threshold + _LASTING_DEVIATIONS * (deviation - deviation[0])
    return np.where(following >= MIN_WINDOW_FRAMES, least, np.inf)
