"""Whether peaks of the gradient norm go with drops and spikes of the loss (VC appendix A.1, figures 15, 16, 18, 19).

Drops and spikes of the training loss are those of `analysis.excursions`, without drops that a run begins with. Peaks of
a layer's gradient norm, by the same rule, are its spikes, and the highest frame of each hump, from a rise to the drop
after it. A drop or spike has a peak if one lies between its begin and its end, or up to a tolerance beside; its lag is
the moment of the highest of these after the moment at which the drop is half done, or the spike highest.

By chance is what is left when the peaks of every run are moved by a random number of frames around its circle, so that
they keep their number and their distances. The rank correlation of a run is Spearman's, of the norm with the decrease
of the loss since the frame before, at a lag of the norm behind the decrease; runs are taken for circles there too. The
lag is the one at which its mean over runs is farthest from 0, and by chance is the size of the mean of runs that were
moved, each time at its own farthest lag. Slow trends of both make a correlation that hardly depends on the lag: the
gain is what the correlation has more than at the largest lags looked at, a window of the rule before and behind.

The norm recorded at a frame is that of the last mini-batch before it, at weights one step old. Particles have no loss:
their event is the escape from the start, half of the largest displacement (`analysis.progress`), and their decrease is
the increase of the displacement. All values are dimensionless but lags, which count frames.
"""

import itertools
from typing import NamedTuple

import numpy as np
import xarray as xr
from scipy import stats
from tqdm import tqdm

from analysis.excursions import Event, events_of
from analysis.intervals import clustered_share, mean_interval, median_interval
from analysis.progress import displacement
from analysis.rule import RULE, Rule
from dynamics.randomness import stream
from dynamics.storage import TrajectoryError

SHIFTS = 1000
FEWEST_FRAMES = 20
TOLERANCE = 0.005
"""Share of a run's frames, two at least, by which a peak may miss an event."""

SPLIT = "train"


class Series(NamedTuple):
    """A run as long as it is valid: what drops, (frame,), and the norms (layer, frame)."""

    falling: np.ndarray
    norms: np.ndarray


class Peaks(NamedTuple):
    """Frames of the peaks of a norm, ascending, and how high they are, each (peak,)."""

    frame: np.ndarray
    height: np.ndarray


# --------------------------------------------------------------------------------------------------- arrays


def peaks_of(norm: np.ndarray, rule: Rule = RULE) -> Peaks:
    """The peaks of a norm (frame,): spikes and the tops of humps. Raises ValueError."""
    norm = np.asarray(norm, np.float64)
    events = events_of(norm, rule)
    frames = {round(event.middle) for event in events if event.kind == "spike"}
    steps = [event for event in events if event.kind in ("rise", "drop")]
    for rise, drop in itertools.pairwise(steps):
        if (rise.kind, drop.kind) == ("rise", "drop"):
            begin, end = int(rise.begin), int(np.ceil(drop.end))
            frames.add(begin + int(norm[begin : end + 1].argmax()))
    found = np.array(sorted(frames), np.int64)
    return Peaks(found, norm[found])


def tolerance(frames: int) -> float:
    """By how many frames a peak may miss an event."""
    return max(2.0, TOLERANCE * frames)


def lags_of(events: list[Event], peaks: Peaks, slack: float) -> np.ndarray:
    """Lag of the highest peak between begin and end of each event, give or take a slack: (event,); NaN for none."""
    lags = np.full(len(events), np.nan)
    for place, event in enumerate(events):
        near = (peaks.frame >= event.begin - slack) & (peaks.frame <= event.end + slack)
        if near.any():
            lags[place] = peaks.frame[near][peaks.height[near].argmax()] - event.middle
    return lags


def matched_by_shift(events: list[Event], peaks: Peaks, frames: int, slack: float) -> np.ndarray:
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


def circular_correlation(norm: np.ndarray, decrease: np.ndarray) -> np.ndarray:
    """Spearman's correlation of two series (frame,) at all lags of the first: (lag,), from 0 on; NaN if one is flat."""
    a, b = (stats.rankdata(each) for each in (norm, decrease))
    a, b = a - a.mean(), b - b.mean()
    size = np.sqrt((a * a).sum() * (b * b).sum())
    if size == 0:
        return np.full(len(a), np.nan)
    return np.fft.irfft(np.fft.rfft(a) * np.conj(np.fft.rfft(b)), len(a)) / size


# ------------------------------------------------------------------------------------------------- labelled


def series_of(trajectory: xr.Dataset) -> list[Series]:
    """What each run is judged by, as long as it is valid. Raises TrajectoryError."""
    if trajectory.sizes["step"] < FEWEST_FRAMES:
        found = trajectory.sizes["step"]
        raise TrajectoryError(f"dimension step: found {found} frames, peaks are looked for in {FEWEST_FRAMES} or more")
    if "loss" in trajectory:
        falling = trajectory["loss"].sel(split=SPLIT).transpose("run", "step").values.astype(np.float64)
    elif "embedding" in trajectory:
        falling = -displacement(trajectory).transpose("run", "step").values
    else:
        raise TrajectoryError(
            "variables loss, embedding: found neither, expected one, whose course peaks are held against"
        )
    norms = trajectory["gradient_norm"].transpose("run", "layer", "step").values.astype(np.float64)
    valid = (trajectory["step"] <= trajectory["last_step"]).transpose("run", "step").values
    finite = valid & np.isfinite(falling) & np.isfinite(norms).all(axis=1)
    lengths = np.where(finite.all(axis=1), finite.shape[1], finite.argmin(axis=1))
    return [Series(one[:length], norm[:, :length]) for one, norm, length in zip(falling, norms, lengths, strict=True)]


def events_by_kind(falling: np.ndarray, particles: bool, rule: Rule = RULE) -> dict[str, list[Event]]:
    """Drops and spikes of a loss (frame,); of particles the one escape."""
    if particles:
        half = falling.min() / 2
        at = int((falling <= half).argmax()) if half < 0 else 0
        if not at:
            return {"escape": []}
        moment = at - (half - falling[at]) / (falling[at - 1] - falling[at])
        return {"escape": [Event("drop", moment, moment, moment, 0.0, float(falling.min()))]}
    events = events_of(falling, rule)
    return {
        "drop": [event for event in events if event.kind == "drop" and not event.initial],
        "spike": [event for event in events if event.kind == "spike"],
    }


def coincidence(trajectory: xr.Dataset, rule: Rule = RULE) -> xr.Dataset:
    """Peaks of each layer's norm against drops and spikes, and the rank correlation with the decrease.

    By layer and kind of event: `share` of events with a peak, `by_chance`, `p_value`, `lag` of the peaks (median over
    runs of the run's median); share and lag with `_low` and `_high`. By layer: `correlation` (mean over runs, with
    `_low` and `_high`), `correlation_by_chance`, `correlation_p_value`, `correlation_lag`, `correlation_gain` (with
    `_low` and `_high`); and `correlation_at_lag` (layer, frames). By run: `events` (run, kind), `peaks` (run, layer).

    Raises TrajectoryError.
    """
    layers = [str(each) for each in trajectory["layer"].values]
    particles = "loss" not in trajectory
    kinds = ["escape"] if particles else ["drop", "spike"]
    width = rule.width(trajectory.sizes["step"])
    shape = (trajectory.sizes["run"], len(layers), len(kinds))
    tally = _Tally(np.zeros(shape, int), np.zeros(shape, int), np.zeros((*shape, SHIFTS)), np.full(shape, np.nan))
    peaks = np.zeros(shape[:2], int)
    correlations = np.full((*shape[:2], 2 * width + 1), np.nan)
    moved = np.full((*shape[:2], SHIFTS, 2 * width + 1), np.nan, np.float32)
    generator, lags = stream(0, "gradients/shifts"), np.arange(-width, width + 1)
    for run, one in enumerate(tqdm(series_of(trajectory), "peaks", unit="run", disable=None, leave=False)):
        frames = len(one.falling)
        if frames < FEWEST_FRAMES:
            continue
        events, slack = events_by_kind(one.falling, particles, rule), tolerance(frames)
        offsets = generator.integers(0, frames, SHIFTS)
        for layer, norm in enumerate(one.norms):
            seen = peaks_of(norm, rule)
            peaks[run, layer] = len(seen.frame)
            for place, kind in enumerate(kinds):
                tally.add((run, layer, place), events[kind], seen, offsets, frames, slack)
            everywhere = circular_correlation(norm[1:], -np.diff(one.falling))
            correlations[run, layer] = everywhere[lags % (frames - 1)]
            moved[run, layer] = everywhere[(offsets[:, None] + lags) % (frames - 1)]
    found = _shares(tally, layers, kinds).merge(_correlations(correlations, moved, layers, lags))
    return found.assign(
        events=(("run", "kind"), tally.total[:, 0], _named("events")),
        peaks=(("run", "layer"), peaks, _named("peaks of the gradient norm")),
    ).assign_coords(seed=("run", trajectory["seed"].values))


class _Tally(NamedTuple):
    """Counts by run, layer and kind."""

    total: np.ndarray
    matched: np.ndarray
    by_chance: np.ndarray  # (run, layer, kind, shift)
    lag: np.ndarray

    def add(self, at: tuple, events: list[Event], peaks: Peaks, offsets: np.ndarray, frames: int, slack: float) -> None:
        """Count one run's events of one kind against one layer's peaks."""
        lags = lags_of(events, peaks, slack)
        self.total[at], self.matched[at] = len(lags), np.isfinite(lags).sum()
        self.by_chance[at] = matched_by_shift(events, peaks, frames, slack)[offsets]
        if np.isfinite(lags).any():
            self.lag[at] = np.nanmedian(lags)


def _shares(tally: _Tally, layers: list[str], kinds: list[str]) -> xr.Dataset:
    values = np.full((10, len(layers), len(kinds)), np.nan)
    for layer in range(len(layers)):
        for kind in range(len(kinds)):
            total, matched = tally.total[:, layer, kind], tally.matched[:, layer, kind]
            if not total.sum():
                continue
            chance = tally.by_chance[:, layer, kind].sum(axis=0) / total.sum()
            share, lag = clustered_share(matched, total), tally.lag[:, layer, kind]
            reached = (chance >= share.value - 1e-12).sum()
            p_value = (1 + reached) / (1 + SHIFTS)
            rest = median_interval(lag[np.isfinite(lag)])
            values[:, layer, kind] = (*share, chance.mean(), p_value, *rest, total.sum(), matched.sum())
    names = (
        "share", "share_low", "share_high", "by_chance", "p_value", "lag", "lag_low", "lag_high", "total", "matched",
    )  # fmt: skip
    data = {
        name: (("layer", "kind"), each, _named(name.replace("_", " ")))
        for name, each in zip(names, values, strict=True)
    }
    return xr.Dataset(data, {"layer": layers, "kind": kinds})


def _correlations(each: np.ndarray, moved: np.ndarray, layers: list[str], lags: np.ndarray) -> xr.Dataset:
    """The mean over runs at the lag where it is farthest from 0, and the same of runs moved around their circles."""
    values = np.full((9, len(layers)), np.nan)
    means = np.full(each.shape[1:], np.nan)
    for layer in range(len(layers)):
        known = np.isfinite(each[:, layer, 0])
        if not known.any():
            continue
        means[layer] = each[known, layer].mean(axis=0)
        best = int(np.abs(means[layer]).argmax())
        chance = np.abs(moved[known, layer].mean(axis=0)).max(axis=1)
        reached = (chance >= abs(means[layer, best]) - 1e-6).sum()
        interval = mean_interval(each[known, layer, best])
        gain = mean_interval(each[known, layer, best] - each[known, layer][:, [0, -1]].mean(axis=1))
        values[:, layer] = (*interval, chance.mean(), (1 + reached) / (1 + SHIFTS), lags[best], *gain)
    names = ("", "_low", "_high", "_by_chance", "_p_value", "_lag", "_gain", "_gain_low", "_gain_high")
    data = {
        f"correlation{name}": ("layer", row, _named(f"rank correlation{name.replace('_', ', ')}"))
        for name, row in zip(names, values, strict=True)
    }
    at_lag = (("layer", "frames"), means, _named("mean rank correlation at a lag of the norm"))
    return xr.Dataset({**data, "correlation_at_lag": at_lag}, {"layer": layers, "frames": lags})


def _named(long_name: str) -> dict[str, str]:
    return {"long_name": long_name, "units": "1"}
