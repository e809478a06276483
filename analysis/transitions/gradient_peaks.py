"""Whether peaks of the gradient norm go with drops and spikes of the loss (VC appendix A.1, figures 15, 16, 18, 19).

Drops and spikes of the training loss are those of `analysis.transitions.change_points`, without drops that a run
begins with. Peaks of
a layer's gradient norm, by the same rule, are its spikes, and the highest frame of each hump, from a rise to the drop
after it. A drop or spike has a peak if one lies between its begin and its end, or up to a tolerance beside; its lag is
the moment of the highest of these after the moment at which the drop is half done, or the spike highest.

By chance is what is left when the peaks of every run are moved around its circle, so that they keep their number and
their distances. Two baselines differ in how far:

    anywhere   by a random number of frames, 0 to all. That controls for how many peaks and events there are, but not
               for when: where both keep to the same part of a run, and leave another quiet, they fall together more
               often than these say although neither heeds the other.
    nearby     by w to 2 w frames either way, w being the rule's window. Peaks stay in the part of the run where they
               are, so that what is more than this is a coincidence to the window. Events wider than w meet their own
               peaks again when moved, which makes this one cautious; peaks within 2 w of an end come in at the other.

What survives both, in 100 runs of VC's default: spikes go with peaks in every layer; drops do so in the embedding, the
position embedding, the query and the assembler, and before them in the transform bias. In the value, the receptor and
its bias drops have no more peaks than the time around them: what shifts anywhere make of that is the quiet before the
escape from the plateau.

The rank correlation of a run is Spearman's, of the norm with the decrease of the loss since the frame before, at a lag
of the norm behind the decrease; runs are taken for circles there too. Its mean over runs is that of Fisher's z,
transformed back. The lag is the one at which that is farthest from 0, and by chance is its size for runs that were
moved, each time at its own farthest lag. Slow trends of both make a correlation that hardly depends on the lag: the
gain is what the correlation has more than at the largest lags looked at, a window of the rule before and behind.

The norm recorded at a frame is that of the last mini-batch before it, at weights one step old. Particles have no loss:
their event is the escape from the start, half of the largest displacement (`analysis.structures.embedding_motion`),
and their decrease is
the increase of the displacement. All values are dimensionless but lags, which count frames.
"""

import itertools
from typing import NamedTuple

import numpy as np
import xarray as xr
from scipy import stats
from tqdm import tqdm

from analysis.statistics.intervals import Interval, clustered_binomial_interval, mean_interval, median_interval
from analysis.structures.embedding_motion import embedding_displacement
from analysis.transitions.change_points import SeriesEvent, detect_events
from analysis.transitions.detection import DEFAULT_DETECTION, DetectionConfig
from dynamics.errors import TrajectoryError
from dynamics.randomness import random_stream
from dynamics.trajectory.diverged import valid_frames

RANDOM_SHIFTS = 1000
MIN_FRAMES = 20
PEAK_TOLERANCE = 0.005
"""Share of a run's frames, two at least, by which a peak may miss an event."""

LOSS_SPLIT = "train"

SHIFT_BASELINES = ("anywhere", "nearby")
"""How far peaks are moved for what chance gives."""

MAX_CORRELATION = 1 - 1e-9
"""Correlations are taken for no larger in Fisher's z, which has no value at 1."""


class LossAndNorms(NamedTuple):
    """A run as long as it is valid: what drops, (frame,), and the norms (layer, frame)."""

    falling: np.ndarray
    norms: np.ndarray


class NormPeaks(NamedTuple):
    """Frames of the peaks of a norm, ascending, and how high they are, each (peak,)."""

    frame: np.ndarray
    height: np.ndarray


# --------------------------------------------------------------------------------------------------- arrays


def find_norm_peaks(norm: np.ndarray, rule: DetectionConfig = DEFAULT_DETECTION) -> NormPeaks:
    """The peaks of a norm (frame,): spikes and the tops of humps. Raises ValueError."""
    norm = np.asarray(norm, np.float64)
    events = detect_events(norm, rule)
    frames = {round(event.middle) for event in events if event.kind == "spike"}
    steps = [event for event in events if event.kind in ("rise", "drop")]
    for rise, drop in itertools.pairwise(steps):
        if (rise.kind, drop.kind) == ("rise", "drop"):
            begin, end = int(rise.begin), int(np.ceil(drop.end))
            frames.add(begin + int(norm[begin : end + 1].argmax()))
    found = np.array(sorted(frames), np.int64)
    return NormPeaks(found, norm[found])


def peak_tolerance(frames: int) -> float:
    """By how many frames a peak may miss an event."""
    return max(2.0, PEAK_TOLERANCE * frames)


def peak_lags(events: list[SeriesEvent], peaks: NormPeaks, slack: float) -> np.ndarray:
    """Lag of the highest peak between begin and end of each event, give or take a slack: (event,); NaN for none."""
    lags = np.full(len(events), np.nan)
    for place, event in enumerate(events):
        near = (peaks.frame >= event.begin - slack) & (peaks.frame <= event.end + slack)
        if near.any():
            lags[place] = peaks.frame[near][peaks.height[near].argmax()] - event.middle
    return lags


def match_counts_by_shift(events: list[SeriesEvent], peaks: NormPeaks, frames: int, slack: float) -> np.ndarray:
    """How many events have a peak when these are moved around the circle by 0 ... frames - 1: (shift,)."""
    there = np.zeros(frames, bool)
    there[peaks.frame] = True
    counts = np.zeros(frames, np.int64)
    twice = np.concatenate([[0], np.concatenate([there, there]).cumsum()])
    for event in events:
        first = max(0, int(np.ceil(event.begin - slack)))
        last = min(frames - 1, int(np.floor(event.end + slack)))
        begins = (first - np.arange(frames)) % frames  # where the window lies among peaks that were not moved
        counts += twice[begins + last - first + 1] > twice[begins]
    return counts


def circular_rank_correlation(norm: np.ndarray, decrease: np.ndarray) -> np.ndarray:
    """Spearman's correlation of two series (frame,) at all lags of the first: (lag,), from 0 on; NaN if one is flat."""
    a, b = (stats.rankdata(each) for each in (norm, decrease))
    a, b = a - a.mean(), b - b.mean()
    size = np.sqrt((a * a).sum() * (b * b).sum())
    if size == 0:
        return np.full(len(a), np.nan)
    return np.fft.irfft(np.fft.rfft(a) * np.conj(np.fft.rfft(b)), len(a)) / size


def nearby_shifts(frames: int, width: int) -> np.ndarray:
    """The shifts (way,) that are nearby, either way: from a window on, to two windows, or as far as the circle lets."""
    sizes = np.arange(width, min(2 * width, frames - width) + 1)
    return np.unique(np.concatenate([sizes, -sizes]) % frames)


def fisher_z(correlation: np.ndarray) -> np.ndarray:
    """Fisher's z of correlations, of any shape."""
    return np.arctanh(np.clip(correlation, -MAX_CORRELATION, MAX_CORRELATION))


def mean_rank_correlation(correlations: np.ndarray) -> Interval:
    """The mean over runs of correlations (run,), with a t interval, both in Fisher's z and transformed back."""
    return Interval(*(float(np.tanh(value)) for value in mean_interval(fisher_z(correlations))))


# ------------------------------------------------------------------------------------------------- labelled


def loss_and_norm_series(trajectory: xr.Dataset) -> list[LossAndNorms]:
    """What each run is judged by, as long as it is valid. Raises TrajectoryError."""
    if trajectory.sizes["step"] < MIN_FRAMES:
        found = trajectory.sizes["step"]
        raise TrajectoryError(f"dimension step: found {found} frames, peaks are looked for in {MIN_FRAMES} or more")
    if "loss" in trajectory:
        falling = trajectory["loss"].sel(split=LOSS_SPLIT).transpose("run", "step").values.astype(np.float64)
    elif "embedding" in trajectory:
        falling = -embedding_displacement(trajectory).transpose("run", "step").values
    else:
        raise TrajectoryError(
            "variables loss, embedding: found neither, expected one, whose course peaks are held against"
        )
    norms = trajectory["gradient_norm"].transpose("run", "layer", "step").values.astype(np.float64)
    valid = valid_frames(trajectory).values
    finite = valid & np.isfinite(falling) & np.isfinite(norms).all(axis=1)
    lengths = np.where(finite.all(axis=1), finite.shape[1], finite.argmin(axis=1))
    return [
        LossAndNorms(one[:length], norm[:, :length]) for one, norm, length in zip(falling, norms, lengths, strict=True)
    ]


def loss_events_by_kind(
    falling: np.ndarray, particles: bool, rule: DetectionConfig = DEFAULT_DETECTION
) -> dict[str, list[SeriesEvent]]:
    """Drops and spikes of a loss (frame,); of particles the one escape."""
    if particles:
        half = falling.min() / 2
        at = int((falling <= half).argmax()) if half < 0 else 0
        if not at:
            return {"escape": []}
        moment = at - (half - falling[at]) / (falling[at - 1] - falling[at])
        return {"escape": [SeriesEvent("drop", moment, moment, moment, 0.0, float(falling.min()))]}
    events = detect_events(falling, rule)
    return {
        "drop": [event for event in events if event.kind == "drop" and not event.initial],
        "spike": [event for event in events if event.kind == "spike"],
    }


def peak_coincidence(trajectory: xr.Dataset, rule: DetectionConfig = DEFAULT_DETECTION) -> xr.Dataset:
    """Peaks of each layer's norm against drops and spikes, and the rank correlation with the decrease.

    By layer and kind of event: `share` of events with a peak, `by_chance` and `p_value` (baseline), `lag` of the peaks
    (median over runs of the run's median); share and lag with `_low` and `_high`. By layer: `correlation` (mean over
    runs, with `_low` and `_high`), `correlation_by_chance` and `correlation_p_value` (baseline), `correlation_lag`,
    `correlation_gain` (with `_low` and `_high`); and `correlation_at_lag` (layer, frames). By run: `events`
    (run, kind), `peaks` (run, layer).

    Raises TrajectoryError.
    """
    layers = [str(each) for each in trajectory["layer"].values]
    particles = "loss" not in trajectory
    kinds = ["escape"] if particles else ["drop", "spike"]
    width = rule.width(trajectory.sizes["step"])
    tally = _Tally.empty(trajectory.sizes["run"], len(layers), len(kinds), 2 * width + 1)
    lags = np.arange(-width, width + 1)
    far, near = (random_stream(0, f"gradients/{word}") for word in ("shifts", "nearby"))
    for run, one in enumerate(tqdm(loss_and_norm_series(trajectory), "peaks", unit="run", disable=None, leave=False)):
        frames = len(one.falling)
        if frames < MIN_FRAMES:
            continue
        events, slack = loss_events_by_kind(one.falling, particles, rule), peak_tolerance(frames)
        ways = nearby_shifts(frames, rule.width(frames))
        tally.ways[run] = len(ways)
        # signed, so that a shift means the same on the circle of frames and on that of their differences, one shorter
        ways = np.where(ways > frames / 2, ways - frames, ways)
        offsets = np.stack([far.integers(0, frames, RANDOM_SHIFTS), near.choice(ways, RANDOM_SHIFTS)])
        for layer, norm in enumerate(one.norms):
            seen = find_norm_peaks(norm, rule)
            tally.peaks[run, layer] = len(seen.frame)
            for place, kind in enumerate(kinds):
                tally.add_events((run, layer, place), events[kind], seen, offsets, frames, slack)
            tally.add_correlation(
                (run, layer), circular_rank_correlation(norm[1:], -np.diff(one.falling)), offsets, lags
            )
    found = _shares(tally, layers, kinds).merge(_correlations(tally, layers, lags))
    return found.assign(
        events=(("run", "kind"), tally.total[:, 0], _named("events")),
        peaks=(("run", "layer"), tally.peaks, _named("peaks of the gradient norm")),
    ).assign_coords(seed=("run", trajectory["seed"].values))


class _Tally(NamedTuple):
    """Counts by run, layer and kind, and sums over runs of what was moved."""

    total: np.ndarray
    matched: np.ndarray
    lag: np.ndarray
    moved: np.ndarray  # (baseline, layer, kind, shift), events that have a peak
    peaks: np.ndarray  # (run, layer)
    ways: np.ndarray  # (run,), how many shifts are nearby
    correlations: np.ndarray  # (run, layer, lag)
    moved_z: np.ndarray  # (baseline, layer, shift, lag)

    @classmethod
    def empty(cls, runs: int, layers: int, kinds: int, lags: int) -> "_Tally":
        shape, moved = (runs, layers, kinds), (len(SHIFT_BASELINES), layers)
        return cls(
            np.zeros(shape, int), np.zeros(shape, int), np.full(shape, np.nan), np.zeros((*moved, kinds,
                RANDOM_SHIFTS)),
            np.zeros(shape[:2], int), np.ones(runs), np.full((*shape[:2], lags), np.nan),
            np.zeros((*moved, RANDOM_SHIFTS, lags)),
        )  # fmt: skip

    def add_events(
        self, at: tuple, events: list[SeriesEvent], peaks: NormPeaks, offsets: np.ndarray, frames: int, slack: float
    ) -> None:
        """Count one run's events of one kind against one layer's peaks; offsets (baseline, shift)."""
        lags = peak_lags(events, peaks, slack)
        self.total[at], self.matched[at] = len(lags), np.isfinite(lags).sum()
        self.moved[:, *at[1:]] += match_counts_by_shift(events, peaks, frames, slack)[offsets % frames]
        if np.isfinite(lags).any():
            self.lag[at] = np.nanmedian(lags)

    def add_correlation(self, at: tuple, everywhere: np.ndarray, offsets: np.ndarray, lags: np.ndarray) -> None:
        """Add one run's correlation at all lags of its circle; nothing where it has none."""
        self.correlations[at] = everywhere[lags % len(everywhere)]
        if np.isfinite(everywhere[0]):
            self.moved_z[:, at[1]] += fisher_z(everywhere)[(offsets[..., None] + lags) % len(everywhere)]

    def p_values(self, reached: np.ndarray, runs: np.ndarray) -> np.ndarray:
        """Of how many shifts reached what was seen (baseline,), in some runs (run,): (baseline,).

        Few runs can be moved nearby in few ways only, of which that which was seen is one.
        """
        least = 1 / (1 + np.prod(self.ways[runs]))
        return np.maximum((1 + reached) / (1 + RANDOM_SHIFTS), [0.0, least])


def _shares(tally: _Tally, layers: list[str], kinds: list[str]) -> xr.Dataset:
    shape = (len(layers), len(kinds))
    values, against = np.full((8, *shape), np.nan), np.full((2, *shape, len(SHIFT_BASELINES)), np.nan)
    for layer, kind in np.ndindex(shape):
        total, matched = tally.total[:, layer, kind], tally.matched[:, layer, kind]
        if not total.sum():
            continue
        chance = tally.moved[:, layer, kind] / total.sum()
        share, lag = clustered_binomial_interval(matched, total), tally.lag[:, layer, kind]
        reached = (chance >= share.value - 1e-12).sum(axis=1)
        against[:, layer, kind] = chance.mean(axis=1), tally.p_values(reached, total > 0)
        rest = median_interval(lag[np.isfinite(lag)])
        values[:, layer, kind] = (*share, *rest, total.sum(), matched.sum())
    names = ("share", "share_low", "share_high", "lag", "lag_low", "lag_high", "total", "matched")
    dims = ("layer", "kind")
    data: dict[str, tuple] = {
        name: (dims, each, _named(name.replace("_", " "))) for name, each in zip(names, values, strict=True)
    }
    for name, each in zip(("by_chance", "p_value"), against, strict=True):
        data[name] = ((*dims, "baseline"), each, _named(name.replace("_", " ")))
    return xr.Dataset(data, {"layer": layers, "kind": kinds, "baseline": list(SHIFT_BASELINES)})


def _correlations(tally: _Tally, layers: list[str], lags: np.ndarray) -> xr.Dataset:
    """The mean over runs at the lag where it is farthest from 0, and the same of runs moved around their circles."""
    values, against = np.full((7, len(layers)), np.nan), np.full((2, len(layers), len(SHIFT_BASELINES)), np.nan)
    means = np.full((len(layers), len(lags)), np.nan)
    for layer in range(len(layers)):
        known = np.isfinite(tally.correlations[:, layer, 0])
        if not known.any():
            continue
        each = tally.correlations[known, layer]
        means[layer] = np.tanh(fisher_z(each).mean(axis=0))
        best = int(np.abs(means[layer]).argmax())
        chance = np.tanh(np.abs(tally.moved_z[:, layer] / known.sum()).max(axis=-1))
        reached = (chance >= abs(means[layer, best]) - 1e-6).sum(axis=1)
        against[:, layer] = chance.mean(axis=1), tally.p_values(reached, known)
        gain = np.clip(mean_interval(each[:, best] - each[:, [0, -1]].mean(axis=1)), -2, 2)  # as correlations differ
        values[:, layer] = (*mean_rank_correlation(each[:, best]), lags[best], *gain)
    names = ("", "_low", "_high", "_lag", "_gain", "_gain_low", "_gain_high")
    data: dict[str, tuple] = {
        f"correlation{name}": ("layer", row, _named(f"rank correlation{name.replace('_', ', ')}"))
        for name, row in zip(names, values, strict=True)
    }
    for name, row in zip(("by_chance", "p_value"), against, strict=True):
        attrs = _named(f"rank correlation, {name.replace('_', ' ')}")
        data[f"correlation_{name}"] = (("layer", "baseline"), row, attrs)
    data["correlation_at_lag"] = (("layer", "frames"), means, _named("mean rank correlation at a lag of the norm"))
    return xr.Dataset(data, {"layer": layers, "frames": lags, "baseline": list(SHIFT_BASELINES)})


def _named(long_name: str) -> dict[str, str]:
    return {"long_name": long_name, "units": "1"}
