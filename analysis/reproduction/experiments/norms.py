"""VC appendices A.1 and A.3: whether peaks of the gradient norm go with drops and spikes of the loss.

Peaks, drops, spikes and what chance gives are those of `analysis.transitions.gradient_peaks`, counted by run here;
chance is that of
peaks moved by one to two windows, over all such shifts. Beside the layers stands the whole gradient.
"""

from collections.abc import Sequence

import numpy as np
import xarray as xr

from analysis.reproduction.verification.estimate import Estimate, as_percentage, percentage
from analysis.reproduction.verification.experiment import Experiment, Params, Runner, Size
from analysis.reproduction.verification.required_runs import RequiredRuns
from analysis.statistics.intervals import NO_INTERVAL, Interval, clustered_binomial_interval, median_interval
from analysis.statistics.resampling import jackknife_runs
from analysis.transitions.change_points import SeriesEvent, detect_events
from analysis.transitions.detection import DEFAULT_DETECTION
from analysis.transitions.gradient_peaks import (
    MIN_FRAMES,
    PEAK_TOLERANCE,
    find_norm_peaks,
    loss_and_norm_series,
    loss_events_by_kind,
    match_counts_by_shift,
    nearby_shifts,
    peak_lags,
)
from analysis.transitions.gradient_peaks import peak_tolerance as slack_of
from analysis.transitions.loss_events import ESCAPE_CRITERIA, plateau_escape_times, trajectory_scalar
from analysis.transitions.loss_events import event_table as events_of_scalar
from analysis.transitions.loss_events import first_two_drops as two_drops
from dynamics.settings import SparseSettings

SETUPS = ("full batch", "mini-batch", "full batch, d = 3", "mini-batch, d = 3")
KINDS = ("drop", "spike")
WHOLE = "whole"
"""Stands among the layers for the whole gradient."""


def ensembles(params: Params) -> Sequence[RequiredRuns]:
    """Networks of each setup, as `analysis.paper` has them, so that files are shared."""
    data, updates, epochs = SparseSettings().data, params.get("updates", 4000), params.get("epochs")
    every = params.get("every", 4)
    return [
        RequiredRuns(SparseSettings(batch=data), params["full"], epochs=updates, every=every),
        RequiredRuns(SparseSettings(), params["mini"], epochs=epochs),
        RequiredRuns(SparseSettings(batch=data, dim=3), params["three"], epochs=updates, every=every),
        RequiredRuns(SparseSettings(dim=3), params["three"], epochs=epochs),
    ]


def measure(runner: Runner, params: Params) -> xr.Dataset:
    """Events with a peak, and by chance, (setup, run, layer, kind); when the norm rises first, (setup, run); of each
    drop, in order, when it is and how far the whole gradient's nearest peak is, (setup, run, drop)."""
    return xr.concat(
        [_of_setup(runner.ensemble(need)) for need in ensembles(params)],
        xr.Variable("setup", list(SETUPS)), join="outer", combine_attrs="override",
    )  # fmt: skip


def _of_setup(trajectory: xr.Dataset) -> xr.Dataset:
    """All of one trajectory; runs are by place."""
    layers = [*map(str, trajectory["layer"].values), WHOLE]
    shape = (trajectory.sizes["run"], len(layers), len(KINDS))
    total, matched, chance = (np.full(shape, np.nan) for _ in range(3))
    returned, of_drops = np.full(shape[0], np.nan), []
    epochs = trajectory["epoch"].values.astype(np.float64)
    updates = ((trajectory["update_norm"].astype(np.float64) ** 2).sum("layer") ** 0.5).transpose("run", "step").values
    for run, one in enumerate(loss_and_norm_series(trajectory)):
        frames = len(one.falling)
        if frames < MIN_FRAMES:
            continue
        found, slack = loss_events_by_kind(one.falling, particles=False), slack_of(frames)
        ways = nearby_shifts(frames, DEFAULT_DETECTION.width(frames))
        norms = np.concatenate([one.norms, np.sqrt((one.norms**2).sum(axis=0, keepdims=True))])
        for layer, norm in enumerate(norms):
            peaks = find_norm_peaks(norm)
            for kind, name in enumerate(KINDS):
                lags = peak_lags(found[name], peaks, slack)
                total[run, layer, kind], matched[run, layer, kind] = len(lags), np.isfinite(lags).sum()
                chance[run, layer, kind] = match_counts_by_shift(found[name], peaks, frames, slack)[ways].mean()
        returned[run] = _after_spikes([round(event.middle) for event in found["spike"]], updates[run, :frames])
        of_drops += [(run, place, *each) for place, each in enumerate(_drops(found["drop"], norms[-1], epochs))]
    dims = ("run", "layer", "kind")
    result = xr.Dataset(
        {
            "total": (dims, total, _named("number of drops or spikes")),
            "matched": (dims, matched, _named("those with a peak of the norm")),
            "chance": (dims, chance, _named("those that would have one were peaks elsewhere nearby")),
            "returned": ("run", returned, _named("update norm after a spike over that before, median over spikes")),
        },
        {"run": np.arange(shape[0]), "layer": layers, "kind": list(KINDS)},
    )  # fmt: skip
    return result.assign(_first_rise(trajectory)).merge(_by_drop(of_drops, shape[0]))


def _named(long_name: str, units: str = "1") -> dict[str, str]:
    return {"long_name": long_name, "units": units}


def _drops(drops: list[SeriesEvent], norm: np.ndarray, epochs: np.ndarray) -> list[tuple[float, bool, float, float]]:
    """Of each drop the epoch of its middle, whether a norm (frame,) rises with it, and how far from its middle the
    norm's nearest peak is, there and with the peaks elsewhere nearby, as shares of the run."""
    frames, slack, peaks = len(norm), slack_of(len(norm)), find_norm_peaks(norm).frame
    rises = [event for event in detect_events(norm) if event.kind == "rise"]
    moved = [(peaks + way) % frames for way in nearby_shifts(frames, DEFAULT_DETECTION.width(frames))]
    found = []
    for drop in drops:
        met = any(each.begin <= drop.end + slack and each.end >= drop.begin - slack for each in rises)
        chance = np.mean([_to_nearest(drop.middle, each, frames) for each in moved])
        epoch = np.interp(drop.middle, np.arange(frames), epochs[:frames])
        found.append((float(epoch), met, _to_nearest(drop.middle, peaks, frames), float(chance)))
    return found


def _to_nearest(middle: float, peaks: np.ndarray, frames: int) -> float:
    """Distance of a moment to the nearest of some peaks, as a share of the run; all of it where there is none."""
    return float(np.abs(peaks - middle).min() / frames) if len(peaks) else 1.0


def _by_drop(rows: list[tuple[int, int, float, bool, float, float]], runs: int) -> xr.Dataset:
    """The same, (run, drop), NaN behind the last drop of a run."""
    about = {
        "drop_epoch": _named("middle of each drop", "epoch"),
        "drop_rise": _named("whether the whole gradient's norm rises with it"),
        "nearest": _named("distance from its middle to the norm's nearest peak, as a share of the run"),
        "nearest_chance": _named("the same were peaks elsewhere nearby"),
    }
    most = max([2, *(place + 1 for _, place, *_ in rows)])
    values = np.full((len(about), runs, most), np.nan)
    for run, place, *each in rows:
        values[:, run, place] = each
    data = {name: (("run", "drop"), one, attrs) for (name, attrs), one in zip(about.items(), values, strict=True)}
    return xr.Dataset(data, {"run": np.arange(runs), "drop": np.arange(most)})


def _after_spikes(peaks: list[int], updates: np.ndarray) -> float:
    """Median over spikes of the update norm in the three frames from the peak on over that in a window before; medians
    of frames. NaN without spikes."""
    width, ratios = DEFAULT_DETECTION.width(len(updates)), []
    for peak in peaks:
        before = updates[max(1, peak - width) : peak - 2]
        if len(before) and np.median(before) > 0:
            ratios.append(np.median(updates[peak : peak + 3]) / np.median(before))
    return float(np.median(ratios)) if ratios else float("nan")


def _first_rise(trajectory: xr.Dataset) -> dict[str, tuple]:
    """In frames, where the first drop begins and ends, and where the whole gradient norm first rises for good."""
    steps = trajectory["step"].values
    gap = float(np.median(np.diff(steps)))
    drops = two_drops(events_of_scalar(trajectory_scalar(trajectory, "loss")), trajectory.sizes["run"])
    risen = plateau_escape_times(trajectory_scalar(trajectory, "gradient"))
    rise = np.where(risen["escaped"].values, risen["escape"].values / gap, np.nan)
    found = {name: drops[name].values[:, 0] / gap for name in ("begin", "end")}
    window = np.full(len(rise), float(DEFAULT_DETECTION.width(len(steps))))
    return {
        "drop_begin": ("run", found["begin"], _named("begin of the first drop", "frame")),
        "drop_end": ("run", found["end"], _named("end of the first drop", "frame")),
        "rise": ("run", rise, _named("when the gradient norm has doubled, for good", "frame")),
        "window": ("run", window, _named("frames of a window", "frame")),
    }


NORMS = Experiment(
    "vc.norms",
    "peaks of the gradient norm against drops and spikes of the loss, full batch and mini-batch, d = 2 and 3",
    sizes={
        Size.QUICK: {"full": 12, "mini": 32, "three": 12, "updates": 2000},
        Size.DEFAULT: {"full": 60, "mini": 100, "three": 20},
        Size.FULL: {"full": 100, "mini": 100, "three": 100},
    },
    seconds={Size.QUICK: 5, Size.DEFAULT: 20, Size.FULL: 40},
    measure=measure,
    reduced={
        Size.QUICK: "12 runs of full batches, with half as many updates, and of d = 3, and 32 of mini-batches, in "
        "place of 100 of each",
        Size.DEFAULT: "60 runs of full batches, and 20 of d = 3, in place of 100 of each",
    },
    ensembles=ensembles,
    depends={
        "events": DEFAULT_DETECTION,
        "tolerance": PEAK_TOLERANCE,
        "fewest": MIN_FRAMES,
        "escape": {name: ESCAPE_CRITERIA[name]._asdict() for name in ("loss", "gradient")},
    },
    version=2,
    command="python -m analysis.gradients RUN.nc",
)


# ------------------------------------------------------------------------------------------------- findings


def _counts(evidence: xr.Dataset, setup: str, layer: str, kind: str) -> dict[str, np.ndarray]:
    """Totals, matched and chance of the runs that have such events, (run,) each."""
    one = evidence.sel(setup=setup, layer=layer, kind=kind)
    some = np.flatnonzero(np.nan_to_num(one["total"].values) > 0)
    return {name: one[name].values[some] for name in ("total", "matched", "chance")}


def matched_peaks(evidence: xr.Dataset, setup: str, kind: str, layer: str = WHOLE) -> Estimate:
    """Percentage of drops or spikes with a peak of a layer's norm; the interval allows for several of one run."""
    of = _counts(evidence, setup, layer, kind)
    total = int(of["total"].sum())
    if not total:
        return Estimate(NO_INTERVAL, 0, f"{kind}s", note=f"no {kind} of the loss in these runs")
    chance = 100 * of["chance"].sum() / total
    note = f"{chance:.0f}% by chance; in {len(of['total'])} runs"
    return Estimate(
        as_percentage(clustered_binomial_interval(of["matched"], of["total"])), total, f"{kind}s", note=note
    )


def excess_peaks(evidence: xr.Dataset, setup: str, kind: str, layer: str = WHOLE) -> Estimate:
    """How many points more of them have a peak than by chance, with the jackknife's interval over runs; Cohen's h."""
    of = _counts(evidence, setup, layer, kind)
    if not len(of["total"]):
        return Estimate(NO_INTERVAL, 0, f"{kind}s", note=f"no {kind} of the loss in these runs")

    def statistic(runs: np.ndarray) -> float:
        return float(100 * (of["matched"][runs] - of["chance"][runs]).sum() / of["total"][runs].sum())

    found = Interval(*np.clip(jackknife_runs(statistic, len(of["total"])), -100, 100).tolist())
    total = of["total"].sum()
    angles = [2 * np.arcsin(np.sqrt(of[name].sum() / total)) for name in ("matched", "chance")]
    note = f"{100 * of['matched'].sum() / total:.0f}% against {100 * of['chance'].sum() / total:.0f}%"
    return Estimate(found, int(total), f"{kind}s", float(angles[0] - angles[1]), "Cohen's h", note)


def excess_peak_difference(evidence: xr.Dataset, first: str, second: str, kind: str = "drop") -> Estimate:
    """How many points more the excess over chance is in one setup than in another, of the whole gradient."""
    both = [excess_peaks(evidence, setup, kind) for setup in (first, second)]
    (one, low, high), (other, least, most) = (each.interval for each in both)
    value = one - other
    bounds = (value - np.hypot(one - low, most - other), value + np.hypot(high - one, other - least))
    return Estimate(Interval(value, *map(float, bounds)), min(each.count for each in both), f"{kind}s")


def nearest_peak(evidence: xr.Dataset, setup: str) -> Estimate:
    """How far from the middle of a drop the nearest peak of the whole gradient's norm is, matched or not, in percent
    of the run: median over runs of the median over their drops."""
    one = evidence[["nearest", "nearest_chance"]].sel(setup=setup)
    values, chance = (100 * one[name].median("drop").values for name in ("nearest", "nearest_chance"))
    values, chance = values[np.isfinite(values)], chance[np.isfinite(chance)]
    note = f"by chance {np.median(chance):.2g}%" if len(chance) else "no run has a drop"
    return Estimate(median_interval(values), len(values), "runs with a drop", note=note)


def runs_like_example(evidence: xr.Dataset, setup: str, moments: Sequence[tuple[float, float]]) -> Estimate:
    """Percentage of runs whose first drops lie each between two epochs and come with a rise of the gradient's norm."""
    one = evidence.sel(setup=setup)
    there = np.isfinite(one["total"].sel(layer=WHOLE, kind="drop").values)
    epoch, rise = one["drop_epoch"].values, one["drop_rise"].values
    hits = there.copy()
    for place, (first, last) in enumerate(moments):
        hits &= (epoch[:, place] >= first) & (epoch[:, place] <= last) & (rise[:, place] == 1)
    return percentage(int(hits.sum()), int(there.sum()))


def rises_with_drop(evidence: xr.Dataset, setup: str) -> Estimate:
    """Percentage of the runs with a drop whose gradient norm first doubles for good within a window of the first."""
    one = evidence.sel(setup=setup)
    begin, end, rise, window = (one[name].values for name in ("drop_begin", "drop_end", "rise", "window"))
    some = np.isfinite(begin)
    hits = some & (rise >= begin - window) & (rise <= end + window)
    never = int((some & ~np.isfinite(rise)).sum())
    return percentage(int(hits.sum()), int(some.sum()), "runs with a drop", f"in {never} it never does")


def setup_drops(evidence: xr.Dataset, setup: str, least: int) -> Estimate:
    """Percentage of runs with so many drops or more."""
    total = evidence["total"].sel(setup=setup, layer=WHOLE, kind="drop").values
    total = total[np.isfinite(total)]
    return percentage(int((total >= least).sum()), len(total))


def update_growth(evidence: xr.Dataset, setup: str) -> Estimate:
    """How many times as large updates are right after a spike as before it: median over runs with spikes."""
    values = evidence["returned"].sel(setup=setup).values
    values = values[np.isfinite(values)]
    found = median_interval(values)
    return Estimate(found, len(values), "runs with spikes", effect=found.value, effect_name="ratio")
