"""Peaks of the gradient norm and events of the loss: how many events have a peak, at
which lag, and how many by chance.

Source: VC appendix A.1, figures 15, 16, 18 and 19. Drops and spikes are those of the
training loss (`analysis.transitions.change_points`), without initial drops. The peaks
of the gradient norm of a layer are its spikes and the highest frame of each hump, from
a rise to the drop after it. An event has a peak if there is one between its start and
its end or within a tolerance of them. Its lag is the time of the highest such peak
minus that of the middle of the event.

The numbers expected by chance are computed from peaks that are shifted circularly
within their run, which preserves their number and their distances, in two ways:

anywhere
    Shifts by any number of frames. They account for the numbers of peaks and events,
    but not for their times: if both avoid the same part of the run, they coincide more
    often than with these shifts although they are independent.
nearby
    Shifts by w to 2 w frames in both directions, with the w of the detection of events.
    Peaks stay in their part of the run. This baseline is conservative: events longer
    than w meet their own shifted peaks, and peaks closer than 2 w to an end of the run
    reappear at its other end.

The recorded norm of a frame is that of the last mini-batch before it. Particles have no
loss; their event is the departure from the start, where they reach half of their
largest displacement (`analysis.structures.embedding_motion`)."""

import itertools
from typing import NamedTuple

import numpy as np
import xarray as xr
from scipy import stats

from analysis.statistics.intervals import Interval, mean_interval
from analysis.structures.embedding_motion import embedding_displacement, rise_times
from analysis.transitions.change_points import (
    SeriesEvent,
    detect_events,
    middle_frame,
)
from analysis.transitions.detection import DEFAULT_DETECTION, DetectionConfig
from analysis.transitions.loss_events import trajectory_scalar
from dynamics.trajectory.diverged import valid_frames
from dynamics.trajectory.netcdf import TrajectoryError
from dynamics.trajectory.schema import check_variable_recorded

MIN_FRAMES = 20
"""Smallest number of valid frames of a run that is analysed."""

PEAK_TOLERANCE = 0.005
"""Largest distance of a peak from its event, as a fraction of the frames of the run; at
least two frames."""

_MAX_CORRELATION = 1 - 1e-9
"""Correlations are clipped to this absolute value, because Fisher's z is infinite at
1."""


class LossAndNorms(NamedTuple):
    """The valid frames of a run, and the thresholds of events of its loss."""

    falling: np.ndarray
    """The training loss, or the negative displacement of particles, (frame,)."""
    norms: np.ndarray
    """Gradient norms, (layer, frame)."""
    time: np.ndarray
    """Epoch of each frame, or its step where there are no epochs, (frame,)."""
    detection: DetectionConfig
    """Thresholds with the default level of the loss (`DetectionConfig.for_series`)."""


class NormPeaks(NamedTuple):
    """Peaks of a norm, in order of time."""

    frame: np.ndarray
    """Frame indices, (peak,)."""
    height: np.ndarray
    """Values of the norm, (peak,)."""


# --------------------------------------------------------------------------------- runs


def loss_and_norm_series(
    trajectory: xr.Dataset, config: DetectionConfig = DEFAULT_DETECTION
) -> list[LossAndNorms]:
    """The loss and the gradient norms of each run in its valid frames. Raises
    TrajectoryError."""
    if trajectory.sizes["step"] < MIN_FRAMES:
        result = trajectory.sizes["step"]
        raise TrajectoryError(
            f"dimension step: found {result} frames, peaks are detected in {MIN_FRAMES}"
            " or more"
        )
    if "loss" in trajectory:
        loss = trajectory_scalar(trajectory, "loss")
        config = config.for_series(loss)
        falling = loss.values.astype(np.float64)
    elif "embedding" in trajectory:
        falling = -embedding_displacement(trajectory).transpose("run", "step").values
    else:
        raise TrajectoryError(
            "variables loss, embedding: found neither, expected one to compare with"
            " gradient norms"
        )
    check_variable_recorded(trajectory, "gradient_norm")
    norms = (
        trajectory["gradient_norm"]
        .transpose("run", "layer", "step")
        .values.astype(np.float64)
    )
    finite = (
        valid_frames(trajectory).values
        & np.isfinite(falling)
        & np.isfinite(norms).all(axis=1)
    )
    lengths = np.where(finite.all(axis=1), finite.shape[1], finite.argmin(axis=1))
    time = trajectory[frame_clock(trajectory)].values.astype(np.float64)
    runs = zip(falling, norms, lengths, strict=True)
    return [
        LossAndNorms(one[:length], norm[:, :length], time[:length], config)
        for one, norm, length in runs
    ]


def frame_clock(trajectory: xr.Dataset) -> str:
    """The coordinate that has the times of frames: epoch, or step where there are no
    epochs."""
    return "epoch" if "epoch" in trajectory.variables else "step"


def loss_events_by_kind(
    falling: np.ndarray, particles: bool, config: DetectionConfig = DEFAULT_DETECTION
) -> dict[str, list[SeriesEvent]]:
    """Drops and spikes of a loss (frame,); for the negative displacement of particles,
    their departure ("escape")."""
    if particles:
        moment = float(rise_times(-falling, np.arange(len(falling)))) * (
            len(falling) - 1
        )
        departure = SeriesEvent(
            "drop", moment, moment, moment, 0.0, float(falling.min())
        )
        return {"escape": [] if np.isnan(moment) else [departure]}
    events = detect_events(falling, config)
    return {
        "drop": [
            event for event in events if event.kind == "drop" and not event.initial
        ],
        "spike": [event for event in events if event.kind == "spike"],
    }


# -------------------------------------------------------------------------------- peaks


def find_norm_peaks(
    norm: np.ndarray, config: DetectionConfig = DEFAULT_DETECTION
) -> NormPeaks:
    """Find the peaks of a norm: its spikes and the tops of its humps.

    Parameters
    ----------
    norm : ndarray, shape (frame,)
    config : DetectionConfig
        Thresholds.

    Returns
    -------
    NormPeaks

    Raises
    ------
    ValueError
        As `detect_events`.

    Examples
    --------
    >>> import numpy as np
    >>> from analysis.transitions import find_norm_peaks
    >>> find_norm_peaks(np.where(np.arange(200) == 50, 3.0, 1.0))
    NormPeaks(frame=array([50]), height=array([3.]))
    """
    norm = np.asarray(norm, np.float64)
    events = detect_events(norm, config)
    spikes = [event for event in events if event.kind == "spike"]
    frames = {round(event.middle) for event in spikes}
    changes = [event for event in events if event.kind in ("rise", "drop")]
    for rise, drop in itertools.pairwise(changes):
        if (rise.kind, drop.kind) == ("rise", "drop"):
            begin, end = int(rise.begin), int(np.ceil(drop.end))
            hump = norm[begin : end + 1]
            top = begin + middle_frame(np.flatnonzero(hump == hump.max()))
            if not any(spike.begin <= top <= spike.end for spike in spikes):
                frames.add(top)
    result = np.array(sorted(frames), np.int64)
    return NormPeaks(result, norm[result])


def peak_tolerance(frames: int) -> float:
    """The largest distance of a peak from its event, in frames."""
    return max(2.0, PEAK_TOLERANCE * frames)


def peak_lags(
    events: list[SeriesEvent],
    peaks: NormPeaks,
    tolerance: float,
    time: np.ndarray | None = None,
) -> np.ndarray:
    """Lag of the highest peak of each event, NaN for an event without a peak: (event,).

    time (frame,): times of the frames, in whose unit lags are; frames if not given."""
    lags = np.full(len(events), np.nan)
    for index, event in enumerate(events):
        near = (peaks.frame >= event.begin - tolerance) & (
            peaks.frame <= event.end + tolerance
        )
        if near.any():
            ends = event.middle, peaks.frame[near][peaks.height[near].argmax()]
            if time is not None:
                ends = np.interp(ends, np.arange(len(time)), time)
            lags[index] = ends[1] - ends[0]
    return lags


def match_counts_by_shift(
    events: list[SeriesEvent], peaks: NormPeaks, frames: int, tolerance: float
) -> np.ndarray:
    """The number of events with a peak when peaks are shifted circularly by 0 to frames
    - 1 frames: (shift,)."""
    is_peak = np.zeros(frames, bool)
    is_peak[peaks.frame] = True
    counts = np.zeros(frames, np.int64)
    cumulative = np.concatenate([[0], np.concatenate([is_peak, is_peak]).cumsum()])
    for event in events:
        first = max(0, int(np.ceil(event.begin - tolerance)))
        last = min(frames - 1, int(np.floor(event.end + tolerance)))
        begins = (
            first - np.arange(frames)
        ) % frames  # start of the window relative to the unshifted peaks
        counts += cumulative[begins + last - first + 1] > cumulative[begins]
    return counts


def nearby_shifts(frames: int, width: int) -> np.ndarray:
    """Circular shifts by one to two windows in both directions, as far as the run
    allows: (shift,)."""
    sizes = np.arange(width, min(2 * width, frames - width) + 1)
    return np.unique(np.concatenate([sizes, -sizes]) % frames)


# ------------------------------------------------------------------------- correlations


def circular_rank_correlation(norm: np.ndarray, decrease: np.ndarray) -> np.ndarray:
    """Spearman's correlation of two series (frame,) for all circular lags of the first:
    (lag,), from 0.

    NaN if one series is constant.
    """
    a, b = (stats.rankdata(item) for item in (norm, decrease))
    a, b = a - a.mean(), b - b.mean()
    size = np.sqrt((a * a).sum() * (b * b).sum())
    if size == 0:
        return np.full(len(a), np.nan)
    return np.fft.irfft(np.fft.rfft(a) * np.conj(np.fft.rfft(b)), len(a)) / size


def fisher_z(correlation: np.ndarray) -> np.ndarray:
    """Fisher's z of correlations of any shape."""
    return np.arctanh(np.clip(correlation, -_MAX_CORRELATION, _MAX_CORRELATION))


def mean_rank_correlation(correlations: np.ndarray) -> Interval:
    """Mean of correlations (run,) with its t interval, computed in Fisher's z and
    transformed back."""
    return Interval(
        *(float(np.tanh(value)) for value in mean_interval(fisher_z(correlations)))
    )
