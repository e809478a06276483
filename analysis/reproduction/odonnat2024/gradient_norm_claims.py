"""VC appendices A.1 and A.3, figures 15, 16, 18, 19: peaks of the gradient norm, and
drops and spikes of the loss.

Peaks, drops and spikes are those of `analysis.transitions.gradient_peaks`, counted by
run. What is expected by chance is the mean over all shifts of the peaks by one to two
windows."""

from collections.abc import Iterator, Sequence

import numpy as np
import xarray as xr

from analysis.panels.colours import layer_labels
from analysis.reproduction.verification import (
    Estimate,
    Params,
    RequiredRuns,
    Runner,
    as_percentage,
    declare_experiment,
    samples,
)
from analysis.statistics import intervals, jackknife_runs
from analysis.transitions import (
    DEFAULT_DETECTION,
    SeriesEvent,
    detect_events,
    gradient_peaks,
    loss_events,
)
from dynamics.networks.clustering_head import ClusteringHead
from dynamics.settings import SparseSettings

SETUPS = FULL, MINI, FULL_3, MINI_3 = (
    "full batch",
    "mini-batch",
    "full batch, d = 3",
    "mini-batch, d = 3",
)
KINDS = ("drop", "spike")
WHOLE = "whole"
"""The norm of the whole gradient, as one of the layers."""
MEASURES = {
    "total": (("run", "layer", "kind"), "number of drops or spikes"),
    "matched": (("run", "layer", "kind"), "number of these with a peak of the norm"),
    "chance": (("run", "layer", "kind"), "number expected by chance"),
    "drop_epoch": (("run", "drop"), "epoch of the middle of a drop"),
    "drop_rise": (
        ("run", "drop"),
        "whether the norm of the whole gradient rises with it",
    ),
    "nearest": (
        ("run", "drop"),
        "distance from its middle to the nearest peak, fraction of the run",
    ),
    "nearest_chance": (("run", "drop"), "the same with shifted peaks"),
    "returned": (
        "run",
        "update norm after a spike over that before it, median over spikes",
    ),
    "drop_begin": ("run", "frame at which the first drop begins"),
    "drop_end": ("run", "frame at which the first drop ends"),
    "rise": ("run", "frame of the doubling of the norm for good"),
    "window": ("run", "frames of a window"),
}
"""Dimensions and meaning of what is measured."""


def ensembles(params: Params) -> Sequence[RequiredRuns]:
    """Networks of each setup; `analysis.paper` uses the same files."""
    data, epochs = SparseSettings().data, params.get("epochs")
    full = params.get("updates", 4000), params.get("every", 4)
    return [
        RequiredRuns(SparseSettings(batch=data), params["full"], *full),
        RequiredRuns(SparseSettings(), params["mini"], epochs),
        RequiredRuns(SparseSettings(batch=data, dim=3), params["three"], *full),
        RequiredRuns(SparseSettings(dim=3), params["three"], epochs),
    ]


def measure(runner: Runner, params: Params) -> xr.Dataset:
    """Events with a peak, and by chance, (setup, run, layer, kind); the first rise of
    the norm, (setup, run); time and nearest peak of each drop, (setup, run, drop)."""
    setups = [_measure_setup(runner.ensemble(need)) for need in ensembles(params)]
    return xr.concat(
        setups,
        xr.Variable("setup", list(SETUPS)),
        join="outer",
        combine_attrs="override",
    )


def _measure_setup(trajectory: xr.Dataset) -> xr.Dataset:
    layers = [*map(str, trajectory["layer"].values), WHOLE]
    runs = trajectory.sizes["run"]
    counts = np.full((3, runs, len(layers), len(KINDS)), np.nan)
    growth = np.full(runs, np.nan)
    epochs = trajectory["epoch"].values.astype(np.float64)
    updates = (
        ((trajectory["update_norm"].astype(np.float64) ** 2).sum("layer") ** 0.5)
        .transpose("run", "step")
        .values
    )
    drops = {}
    for run, one in enumerate(gradient_peaks.loss_and_norm_series(trajectory)):
        if len(one.falling) < gradient_peaks.MIN_FRAMES:
            continue
        events = gradient_peaks.loss_events_by_kind(one.falling, particles=False)
        norms = np.vstack([one.norms, np.sqrt((one.norms**2).sum(axis=0))])
        counts[:, run] = np.stack(
            [_match_counts(events, norm) for norm in norms], axis=1
        )
        growth[run] = _growth_after_spikes(
            events["spike"], updates[run, : len(one.falling)]
        )
        drops[run] = _drop_measures(events["drop"], norms[-1], epochs)
    by_drop = np.full((4, runs, max([2, *map(len, drops.values())])), np.nan)
    for run, values in drops.items():
        by_drop[:, run, : len(values)] = values.T
    width = np.full(runs, float(DEFAULT_DETECTION.width(trajectory.sizes["step"])))
    measures = zip(
        MEASURES.items(),
        (*counts, *by_drop, growth, *_first_rise(trajectory), width),
        strict=True,
    )
    variables = {
        name: (dims, values, {"long_name": text})
        for (name, (dims, text)), values in measures
    }
    coords = {
        "run": np.arange(runs),
        "layer": layers,
        "kind": list(KINDS),
        "drop": np.arange(by_drop.shape[2]),
    }
    return xr.Dataset(variables, coords)


def _match_counts(events: dict[str, list[SeriesEvent]], norm: np.ndarray) -> np.ndarray:
    """Numbers of events, of those with a peak of a norm (frame,), and of those expected
    by chance: (3, kind)."""
    frames, peaks, counts = len(norm), gradient_peaks.find_norm_peaks(norm), []
    shifts = gradient_peaks.nearby_shifts(frames, DEFAULT_DETECTION.width(frames))
    tolerance = gradient_peaks.peak_tolerance(frames)
    for kind in KINDS:
        matched = gradient_peaks.match_counts_by_shift(
            events[kind], peaks, frames, tolerance
        )
        counts.append((len(events[kind]), matched[0], matched[shifts].mean()))
    return np.transpose(counts)


def _drop_measures(
    drops: list[SeriesEvent], norm: np.ndarray, epochs: np.ndarray
) -> np.ndarray:
    """Of each drop (drop, 4): the epoch of its middle, whether a norm (frame,) rises
    with it, and the distance from its middle to the nearest peak of the norm, as it is
    and with shifted peaks, as fractions of the run."""
    frames, peaks = len(norm), gradient_peaks.find_norm_peaks(norm).frame
    tolerance = gradient_peaks.peak_tolerance(frames)
    rises = [event for event in detect_events(norm) if event.kind == "rise"]
    shifts = gradient_peaks.nearby_shifts(frames, DEFAULT_DETECTION.width(frames))
    measures = np.full((len(drops), 4), np.nan)
    for row, drop in zip(measures, drops, strict=True):
        rising = any(
            rise.begin <= drop.end + tolerance and rise.end >= drop.begin - tolerance
            for rise in rises
        )
        chance = np.mean(
            [
                _nearest_distance(drop.middle, (peaks + shift) % frames, frames)
                for shift in shifts
            ]
        )
        epoch = np.interp(drop.middle, np.arange(frames), epochs[:frames])
        row[:] = epoch, rising, _nearest_distance(drop.middle, peaks, frames), chance
    return measures


def _nearest_distance(middle: float, peaks: np.ndarray, frames: int) -> float:
    """Distance to the nearest of some peaks, as a fraction of the run; 1 without a
    peak."""
    return float(np.abs(peaks - middle).min() / frames) if len(peaks) else 1.0


def _growth_after_spikes(spikes: list[SeriesEvent], updates: np.ndarray) -> float:
    """Median update norm in the three frames from a spike on over that in a window
    before it, median over spikes."""
    width, ratios = DEFAULT_DETECTION.width(len(updates)), []
    for peak in (round(spike.middle) for spike in spikes):
        before = updates[max(1, peak - width) : peak - 2]
        if len(before) and np.median(before) > 0:
            ratios.append(np.median(updates[peak : peak + 3]) / np.median(before))
    return float(np.median(ratios)) if ratios else float("nan")


def _first_rise(trajectory: xr.Dataset) -> tuple[np.ndarray, ...]:
    """In frames, (run,): beginning and end of the first drop, first lasting rise of the
    norm of the whole gradient."""
    loss = loss_events.event_table(loss_events.trajectory_scalar(trajectory, "loss"))
    drops = loss_events.first_two_drops(loss, trajectory.sizes["run"]).sel(
        phase="first"
    )
    risen = loss_events.plateau_escape_times(
        loss_events.trajectory_scalar(trajectory, "gradient")
    )
    steps = trajectory["step"].values
    return tuple(
        np.interp(moments.values, steps, np.arange(len(steps)))
        for moments in (
            drops["begin"],
            drops["end"],
            risen["escape"].where(risen["escaped"]),
        )
    )


NORMS = declare_experiment(
    "vc.norms",
    measure,
    ensembles,
    depends={
        "events": DEFAULT_DETECTION,
        "tolerance": gradient_peaks.PEAK_TOLERANCE,
        "fewest": gradient_peaks.MIN_FRAMES,
        "escape": {
            name: loss_events.ESCAPE_CRITERIA[name]._asdict()
            for name in ("loss", "gradient")
        },
    },
)


def _counts(
    evidence: xr.Dataset, setup: str, layer: str, kind: str
) -> Iterator[np.ndarray]:
    """Total, matched and chance in the runs that have such events, (run,) each."""
    one = evidence.sel(setup=setup, layer=layer, kind=kind)
    return (
        one[name].values[one["total"].values > 0]
        for name in ("total", "matched", "chance")
    )


def matched_peaks(
    evidence: xr.Dataset, setup: str, kind: str, layer: str = WHOLE
) -> Estimate:
    """Percentage of events with a peak of a layer's norm; the interval accounts for
    several events in a run."""
    total, matched, chance = _counts(evidence, setup, layer, kind)
    note = (
        f"{100 * chance.sum() / total.sum():.0f}% by chance; in {len(total)} runs"
        if len(total)
        else ""
    )
    interval = as_percentage(intervals.clustered_binomial_interval(matched, total))
    return Estimate(
        interval,
        int(total.sum()),
        f"{kind}s",
        note=note or f"no {kind} of the loss in these runs",
    )


def excess_peaks(
    evidence: xr.Dataset, setup: str, kind: str, layer: str = WHOLE
) -> Estimate:
    """Percentage of events with a peak minus that expected by chance, with a jackknife
    interval; Cohen's h."""
    total, matched, chance = _counts(evidence, setup, layer, kind)
    if not len(total):
        return Estimate(
            intervals.NO_INTERVAL,
            0,
            f"{kind}s",
            note=f"no {kind} of the loss in these runs",
        )

    def excess(runs: np.ndarray) -> float:
        return float(100 * (matched[runs] - chance[runs]).sum() / total[runs].sum())

    interval = np.clip(jackknife_runs(excess, len(total)), -100, 100).tolist()
    fractions = np.array([matched.sum(), chance.sum()]) / total.sum()
    effect = float(2 * np.subtract(*np.arcsin(np.sqrt(fractions))))
    note = "{:.0%} against {:.0%}".format(*fractions)
    return Estimate(
        intervals.Interval(*interval),
        int(total.sum()),
        f"{kind}s",
        effect,
        "Cohen's h",
        note,
    )


def excess_peak_difference(
    evidence: xr.Dataset, first: str, second: str, kind: str = "drop"
) -> Estimate:
    """Difference of the excess over chance in two setups, of the whole gradient."""
    both = [excess_peaks(evidence, setup, kind) for setup in (first, second)]
    interval = intervals.difference_of_estimates(*(excess.interval for excess in both))
    return Estimate(interval, min(excess.count for excess in both), f"{kind}s")


def nearest_peak(evidence: xr.Dataset, setup: str) -> Estimate:
    """Distance from the middle of the first drop to the nearest peak, in lengths of the
    drop: median over runs."""
    one = evidence.sel(setup=setup)
    length = one["drop_end"] - one["drop_begin"]
    frames = one["window"] / DEFAULT_DETECTION.window
    distance, chance = (
        frames * one[name].isel({"drop": 0}) / length
        for name in ("nearest", "nearest_chance")
    )
    by_chance = samples.finite_values(chance)
    note = (
        f"by chance {np.median(by_chance):.2f}"
        if len(by_chance)
        else "no run has a drop"
    )
    return samples.estimate_median(distance, "runs with a drop", note)


def drops_with_rise(evidence: xr.Dataset, setup: str, first: bool = False) -> Estimate:
    """Percentage of drops, or of first drops, with which the norm of the whole gradient
    rises; the interval accounts for several drops in a run."""
    rises = evidence["drop_rise"].sel(setup=setup)
    if first:
        return samples.percentage_of_ones(rises.isel({"drop": 0}), "runs with a drop")
    total, hits = (counts.sum("drop").values for counts in (rises.notnull(), rises))
    interval = as_percentage(intervals.clustered_binomial_interval(hits, total))
    of_first = samples.finite_values(rises.isel({"drop": 0}))
    note = (
        f"{100 * of_first.mean():.0f}% of the first drops"
        if len(of_first)
        else "no drop of the loss in these runs"
    )
    return Estimate(interval, int(total.sum()), "drops", note=note)


def runs_like_example(
    evidence: xr.Dataset, setup: str, moments: Sequence[tuple[float, float]]
) -> Estimate:
    """Percentage of runs whose first drops are between the given epochs, each with a
    rise of the gradient norm."""
    one, (first, last) = evidence.sel(setup=setup), np.transpose(moments)
    has_data = one["total"].sel(layer=WHOLE, kind="drop").notnull().values
    epoch, rise = (
        one[name].values[:, : len(moments)] for name in ("drop_epoch", "drop_rise")
    )
    return samples.percentage_among(
        ((epoch >= first) & (epoch <= last) & (rise == 1)).all(axis=1), has_data, "runs"
    )


def rises_with_drop(evidence: xr.Dataset, setup: str) -> Estimate:
    """Percentage of runs with a drop whose gradient norm leaves its first level within
    a window of the first drop."""
    one = evidence.sel(setup=setup)
    rise, dropped = one["rise"], one["drop_begin"].notnull()
    note = (
        f"runs in which it never rises so far: {int((dropped & rise.isnull()).sum())}"
    )
    hits = (rise >= one["drop_begin"] - one["window"]) & (
        rise <= one["drop_end"] + one["window"]
    )
    return samples.percentage_among(
        hits.values, dropped.values, "runs with a drop", note
    )


def setup_drops(evidence: xr.Dataset, setup: str, least: int) -> Estimate:
    """Percentage of runs with at least so many drops."""
    total = evidence["total"].sel(setup=setup, layer=WHOLE, kind="drop").dropna("run")
    return samples.percentage_of_ones(total >= least, "runs")


VARIABLES = list(ClusteringHead(SparseSettings()).variables)
LAYERS = dict(zip(VARIABLES, layer_labels(VARIABLES), strict=True))
