"""VC appendices A.1 and A.3, figures 15, 16, 18, 19: peaks of the gradient norm, and drops and spikes of the loss.

Peaks, drops and spikes are those of `analysis.transitions.gradient_peaks`, counted by run. What is expected by chance
is the mean over all shifts of the peaks by one to two windows.
"""

from collections.abc import Sequence

import numpy as np
import xarray as xr

from analysis.reproduction.verification import samples
from analysis.reproduction.verification.claim import Claim, claims_of, example, finding, part
from analysis.reproduction.verification.criteria import Above, Below, Exists
from analysis.reproduction.verification.estimate import Estimate, as_percentage
from analysis.reproduction.verification.experiment import Experiment, Params, RequiredRuns, Runner, sized
from analysis.statistics.intervals import NO_INTERVAL, Interval, clustered_binomial_interval, difference_of_estimates
from analysis.statistics.resampling import jackknife_runs
from analysis.transitions import DEFAULT_DETECTION, SeriesEvent, detect_events, gradient_peaks, loss_events
from dynamics.networks.clustering_head import ClusteringHead
from dynamics.settings import SparseSettings

SETUPS = FULL, MINI, FULL_3, MINI_3 = ("full batch", "mini-batch", "full batch, d = 3", "mini-batch, d = 3")
FIGURES = dict(zip(SETUPS, (15, 16, 18, 19), strict=True))
KINDS = ("drop", "spike")
WHOLE = "whole"
"""The norm of the whole gradient, as one of the layers."""


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
    """Events with a peak, and by chance, (setup, run, layer, kind); the first rise of the norm, (setup, run);
    time and nearest peak of each drop, (setup, run, drop)."""
    found = [_measure_setup(runner.ensemble(need)) for need in ensembles(params)]
    return xr.concat(found, xr.Variable("setup", list(SETUPS)), join="outer", combine_attrs="override")


def _measure_setup(trajectory: xr.Dataset) -> xr.Dataset:
    layers, runs = [*map(str, trajectory["layer"].values), WHOLE], trajectory.sizes["run"]
    counts, growth = np.full((3, runs, len(layers), len(KINDS)), np.nan), np.full(runs, np.nan)
    epochs = trajectory["epoch"].values.astype(np.float64)
    updates = ((trajectory["update_norm"].astype(np.float64) ** 2).sum("layer") ** 0.5).transpose("run", "step").values
    drops = {}
    for run, one in enumerate(gradient_peaks.loss_and_norm_series(trajectory)):
        if len(one.falling) < gradient_peaks.MIN_FRAMES:
            continue
        events = gradient_peaks.loss_events_by_kind(one.falling, particles=False)
        norms = np.vstack([one.norms, np.sqrt((one.norms**2).sum(axis=0))])
        counts[:, run] = np.stack([_match_counts(events, norm) for norm in norms], axis=1)
        spikes = [round(each.middle) for each in events["spike"]]
        growth[run] = _growth_after_spikes(spikes, updates[run, : len(one.falling)])
        drops[run] = _drop_measures(events["drop"], norms[-1], epochs)
    by_drop = np.full((4, runs, max([2, *map(len, drops.values())])), np.nan)
    for run, values in drops.items():
        by_drop[:, run, : len(values)] = values.T
    dims = ("run", "layer", "kind")
    measures = {
        "total": (dims, counts[0], "number of drops or spikes"),
        "matched": (dims, counts[1], "number of these with a peak of the norm"),
        "chance": (dims, counts[2], "number expected by chance"),
        "returned": ("run", growth, "update norm after a spike over that before it, median over spikes"),
        "drop_epoch": (("run", "drop"), by_drop[0], "epoch of the middle of a drop"),
        "drop_rise": (("run", "drop"), by_drop[1], "whether the norm of the whole gradient rises with it"),
        "nearest": (("run", "drop"), by_drop[2], "distance from its middle to the nearest peak, fraction of the run"),
        "nearest_chance": (("run", "drop"), by_drop[3], "the same with shifted peaks"),
        **_first_rise(trajectory),
    }
    variables = {name: (dims, values, {"long_name": text}) for name, (dims, values, text) in measures.items()}
    coords = {"run": np.arange(runs), "layer": layers, "kind": list(KINDS), "drop": np.arange(by_drop.shape[2])}
    return xr.Dataset(variables, coords)


def _match_counts(events: dict[str, list[SeriesEvent]], norm: np.ndarray) -> np.ndarray:
    """Numbers of events, of those with a peak of a norm (frame,), and of those expected by chance: (3, kind)."""
    frames, peaks = len(norm), gradient_peaks.find_norm_peaks(norm)
    tolerance = gradient_peaks.peak_tolerance(frames)
    shifts = gradient_peaks.nearby_shifts(frames, DEFAULT_DETECTION.width(frames))
    counts = []
    for kind in KINDS:
        lags = gradient_peaks.peak_lags(events[kind], peaks, tolerance)
        chance = gradient_peaks.match_counts_by_shift(events[kind], peaks, frames, tolerance)[shifts].mean()
        counts.append((len(lags), np.isfinite(lags).sum(), chance))
    return np.transpose(counts)


def _drop_measures(drops: list[SeriesEvent], norm: np.ndarray, epochs: np.ndarray) -> np.ndarray:
    """Of each drop (drop, 4): the epoch of its middle, whether a norm (frame,) rises with it, and the distance from its
    middle to the nearest peak of the norm, as it is and with shifted peaks, as fractions of the run."""
    frames, peaks = len(norm), gradient_peaks.find_norm_peaks(norm).frame
    tolerance = gradient_peaks.peak_tolerance(frames)
    rises = [event for event in detect_events(norm) if event.kind == "rise"]
    shifts = gradient_peaks.nearby_shifts(frames, DEFAULT_DETECTION.width(frames))
    found = np.full((len(drops), 4), np.nan)
    for row, drop in zip(found, drops, strict=True):
        rising = any(each.begin <= drop.end + tolerance and each.end >= drop.begin - tolerance for each in rises)
        chance = np.mean([_nearest_distance(drop.middle, (peaks + shift) % frames, frames) for shift in shifts])
        epoch = np.interp(drop.middle, np.arange(frames), epochs[:frames])
        row[:] = epoch, rising, _nearest_distance(drop.middle, peaks, frames), chance
    return found


def _nearest_distance(middle: float, peaks: np.ndarray, frames: int) -> float:
    """Distance to the nearest of some peaks, as a fraction of the run; 1 without a peak."""
    return float(np.abs(peaks - middle).min() / frames) if len(peaks) else 1.0


def _growth_after_spikes(peaks: list[int], updates: np.ndarray) -> float:
    """Median update norm in the three frames from a spike on over that in a window before it, median over spikes."""
    width, ratios = DEFAULT_DETECTION.width(len(updates)), []
    for peak in peaks:
        before = updates[max(1, peak - width) : peak - 2]
        if len(before) and np.median(before) > 0:
            ratios.append(np.median(updates[peak : peak + 3]) / np.median(before))
    return float(np.median(ratios)) if ratios else float("nan")


def _first_rise(trajectory: xr.Dataset) -> dict[str, tuple]:
    """In frames: begin and end of the first drop, and the first lasting rise of the norm of the whole gradient."""
    steps, runs = trajectory["step"].values, trajectory.sizes["run"]
    gap = float(np.median(np.diff(steps)))
    loss = loss_events.event_table(loss_events.trajectory_scalar(trajectory, "loss"))
    drops = loss_events.first_two_drops(loss, runs)
    risen = loss_events.plateau_escape_times(loss_events.trajectory_scalar(trajectory, "gradient"))
    found = {
        "drop_begin": (drops["begin"].values[:, 0] / gap, "frame at which the first drop begins"),
        "drop_end": (drops["end"].values[:, 0] / gap, "frame at which the first drop ends"),
        "rise": (risen["escape"].where(risen["escaped"]).values / gap, "frame of the doubling of the norm for good"),
        "window": (np.full(runs, float(DEFAULT_DETECTION.width(len(steps)))), "frames of a window"),
    }
    return {name: ("run", *each) for name, each in found.items()}


NORMS = Experiment(
    "vc.norms",
    "peaks of the gradient norm at drops and spikes of the loss, full batch and mini-batch, d = 2 and 3",
    measure=measure,
    quick=sized(5, "fewer runs than 100, half as many full-batch updates", full=12, mini=32, three=12, updates=2000),
    default=sized(20, "60 full-batch runs, and 20 with d = 3, not 100 each", full=60, mini=100, three=20),
    full=sized(40, full=100, mini=100, three=100),
    ensembles=ensembles,
    depends={
        "events": DEFAULT_DETECTION,
        "tolerance": gradient_peaks.PEAK_TOLERANCE,
        "fewest": gradient_peaks.MIN_FRAMES,
        "escape": {name: loss_events.ESCAPE_CRITERIA[name]._asdict() for name in ("loss", "gradient")},
    },
    version=2,
    command="python -m analysis.gradients RUN.nc",
)


def _counts(evidence: xr.Dataset, setup: str, layer: str, kind: str) -> dict[str, np.ndarray]:
    """Total, matched and chance in the runs that have such events, (run,) each."""
    one = evidence.sel(setup=setup, layer=layer, kind=kind)
    one = one.isel(run=np.nan_to_num(one["total"].values) > 0)
    return {name: one[name].values for name in ("total", "matched", "chance")}


def matched_peaks(evidence: xr.Dataset, setup: str, kind: str, layer: str = WHOLE) -> Estimate:
    """Percentage of events with a peak of a layer's norm; the interval accounts for several events in a run."""
    of = _counts(evidence, setup, layer, kind)
    total = int(of["total"].sum())
    if not total:
        return Estimate(NO_INTERVAL, 0, f"{kind}s", note=f"no {kind} of the loss in these runs")
    note = f"{100 * of['chance'].sum() / total:.0f}% by chance; in {len(of['total'])} runs"
    found = as_percentage(clustered_binomial_interval(of["matched"], of["total"]))
    return Estimate(found, total, f"{kind}s", note=note)


def excess_peaks(evidence: xr.Dataset, setup: str, kind: str, layer: str = WHOLE) -> Estimate:
    """Percentage of events with a peak less that expected by chance, with a jackknife interval; Cohen's h."""
    of = _counts(evidence, setup, layer, kind)
    if not len(of["total"]):
        return Estimate(NO_INTERVAL, 0, f"{kind}s", note=f"no {kind} of the loss in these runs")

    def excess(runs: np.ndarray) -> float:
        return float(100 * (of["matched"][runs] - of["chance"][runs]).sum() / of["total"][runs].sum())

    found = Interval(*np.clip(jackknife_runs(excess, len(of["total"])), -100, 100).tolist())
    fractions = {name: of[name].sum() / of["total"].sum() for name in ("matched", "chance")}
    effect = float(2 * np.subtract(*(np.arcsin(np.sqrt(each)) for each in fractions.values())))
    note = "{matched:.0%} against {chance:.0%}".format(**fractions)
    return Estimate(found, int(of["total"].sum()), f"{kind}s", effect, "Cohen's h", note)


def excess_peak_difference(evidence: xr.Dataset, first: str, second: str, kind: str = "drop") -> Estimate:
    """Difference of the excess over chance in two setups, of the whole gradient."""
    both = [excess_peaks(evidence, setup, kind) for setup in (first, second)]
    found = difference_of_estimates(*(each.interval for each in both))
    return Estimate(found, min(each.count for each in both), f"{kind}s")


def nearest_peak(evidence: xr.Dataset, setup: str) -> Estimate:
    """Distance from the middle of a drop to the nearest peak in percent of the run, median over runs of the median."""
    one = 100 * evidence[["nearest", "nearest_chance"]].sel(setup=setup).median("drop")
    values, chance = (one[name].dropna("run").values for name in ("nearest", "nearest_chance"))
    note = f"by chance {np.median(chance):.2g}%" if len(chance) else "no run has a drop"
    return samples.estimate_median(values, "runs with a drop", note)


def runs_like_example(evidence: xr.Dataset, setup: str, moments: Sequence[tuple[float, float]]) -> Estimate:
    """Percentage of runs whose first drops are between the given epochs, each with a rise of the gradient norm."""
    one = evidence.sel(setup=setup)
    known = np.isfinite(one["total"].sel(layer=WHOLE, kind="drop").values)
    epoch, rise = (one[name].values[:, : len(moments)] for name in ("drop_epoch", "drop_rise"))
    first, last = np.transpose(moments)
    return samples.percentage_among(((epoch >= first) & (epoch <= last) & (rise == 1)).all(axis=1), known, "runs")


def rises_with_drop(evidence: xr.Dataset, setup: str) -> Estimate:
    """Percentage of runs with a drop whose gradient norm doubles for good within a window of the first drop."""
    one = evidence.sel(setup=setup)
    begin, end, rise, window = (one[name].values for name in ("drop_begin", "drop_end", "rise", "window"))
    dropped = np.isfinite(begin)
    note = f"in {int((dropped & np.isnan(rise)).sum())} the norm never doubles for good"
    hits = (rise >= begin - window) & (rise <= end + window)
    return samples.percentage_among(hits, dropped, "runs with a drop", note)


def setup_drops(evidence: xr.Dataset, setup: str, least: int) -> Estimate:
    """Percentage of runs with at least so many drops."""
    total = evidence["total"].sel(setup=setup, layer=WHOLE, kind="drop").dropna("run")
    return samples.percentage_of_ones(total >= least, "runs")


def update_growth(evidence: xr.Dataset, setup: str) -> Estimate:
    """Update norm after a spike over that before it: median over runs with spikes."""
    return samples.estimate_median(evidence["returned"].sel(setup=setup), "runs with spikes")


RULE = (
    "an event has a peak if there is one from its begin to its end, or within 0.5% of the run of these "
    "(`analysis.transitions.gradient_peaks`); by chance: the same with peaks shifted by one to two windows"
)
LAYERS = tuple(ClusteringHead(SparseSettings()).variables)
EXAMPLE = ((125, 500), (350, 1000))
"""Epochs between which the two drops of VC figure 16 may be: within a factor of 2 of those that the paper names."""
RISING = "gradient norm that doubles for good within a window (2% of the run) of the first drop"


def training_words(setup: str) -> str:
    """A setup in words, such as full-batch training with d = 3."""
    return f"{setup.replace('full batch', 'full-batch')} training".replace(", d = 3 training", " training with d = 3")


def _event_claims(setup: str, kind: str, by_layer: bool = True) -> list[Claim]:
    """Events of a setup coincide with peaks of the norm of the whole gradient, and of each layer's."""
    name = f"VC.figure{FIGURES[setup]}.{kind}s"
    matched = part(matched_peaks, Above(50, 5, ours=True), f"{kind}s with a peak", "%", setup=setup, kind=kind)
    whole = finding(
        name,
        f"In {training_words(setup)}, {kind}s of the loss occur together with high gradient norms.",
        f"percentage of {kind}s with a peak of the norm of the whole gradient, and this less that by chance; {RULE}",
        (part(excess_peaks, Above(0, 10), "more than by chance", "points", setup=setup, kind=kind), matched),
        meaning=f"gradient norms do not show when {kind}s happen",
    )
    layers = Claim(
        f"{name}-by-layer",
        f"In {training_words(setup)}, the gradient norm of each layer is high at {kind}s of the loss.",
        f"percentage of {kind}s with a peak of a layer's gradient norm, less the percentage by chance",
        tuple(
            part(excess_peaks, Above(0, 10), layer.replace("_", " "), "points", setup=setup, kind=kind, layer=layer)
            for layer in LAYERS
        ),
    )
    return [whole, layers] if by_layer else [whole]


def _salience_claim(name: str, first: str, second: str, contrary: str = "") -> Claim:
    """Drops coincide with peaks more clearly in one setup than in another."""
    batches = [setup.removesuffix(", d = 3") for setup in (first, second)]
    return Claim(
        f"VC.{name}",
        f"Drops coincide with high gradient norms more clearly in {training_words(first)} than with {batches[1]}.",
        "difference of the percentages of drops with a peak, each less that by chance",
        (part(excess_peak_difference, Above(0, 10), " less ".join(batches), "points", first=first, second=second),),
        departure=f"{contrary} states the contrary" if contrary else "",
        figure=f"vc{FIGURES[first]}",
    )


IN_MOST = Above(50, 5, ours=True)

CLAIMS = (
    *claims_of(
        NORMS,
        Claim(
            "VC.appA.1.exit",
            "The exit from a saddle shows in the gradient norm, which rises when the first drop begins.",
            f"percentage of full-batch runs with a drop that have a {RISING}",
            (part(rises_with_drop, IN_MOST, "runs", "%", setup=FULL),),
        ),
        *_event_claims(FULL, "drop"),
        Claim(
            "VC.figure15.precisely",
            "In full-batch training, peaks of the gradient norm precisely match the drops.",
            "distance from the middle of a drop to the nearest peak of the norm, in percent of the run: median of runs",
            (part(nearest_peak, Below(0.5, ours=True), "distance", "%", digits=2, setup=FULL),),
            departure="the length of the paper's run is not stated",
        ),
        example(
            "VC.figure15.three",
            "A full-batch run has three drops.",
            "percentage of runs with three drops or more",
            (part(setup_drops, Exists(), "runs", "%", setup=FULL, least=3),),
        ),
        *_event_claims(MINI, "drop"),
        Claim(
            "VC.figure16.first-rise",
            "In mini-batch training the first drop coincides with the first increase of the gradient norm.",
            f"percentage of runs with a drop that have a {RISING}",
            tuple(part(rises_with_drop, IN_MOST, f"d = {d}", "%", setup=one) for d, one in ((2, MINI), (3, MINI_3))),
            places="figure 16, figure 19, appendix A.1",
        ),
        _salience_claim("appA.1.less-salient", FULL, MINI, "VC.figure16.more-salient"),
        _salience_claim("figure16.more-salient", MINI, FULL, "VC.appA.1.less-salient"),
        example(
            "VC.figure16.example",
            "In the run shown, the loss drops around epoch 250, with the first rise of the gradient norm, and again "
            "around epoch 700, where the norm has an inflection point.",
            "percentage of runs with drops at epochs 125 to 500 and 350 to 1000, both with a rise of the gradient norm",
            (part(runs_like_example, Exists(), "such runs", "%", setup=MINI, moments=EXAMPLE),),
            departure="epochs may differ from the paper's by a factor of 2",
        ),
        *_event_claims(MINI, "spike"),
        Claim(
            "VC.appA.1.taken-back",
            "After a spike, large updates take the model back.",
            "update norm in the three epochs after a spike over that before it, median over runs with spikes",
            (part(update_growth, Above(1, 0.1), "after over before", digits=2, setup=MINI),),
        ),
        *_event_claims(FULL_3, "drop"),
        *_event_claims(FULL_3, "spike", by_layer=False),
        *_event_claims(MINI_3, "drop"),
        *_event_claims(MINI_3, "spike"),
        _salience_claim("figure19.more-salient", MINI_3, FULL_3),
    ),
    Claim(
        "VC.appA.3.any-dimension",
        "Many of these behaviours can be analysed whatever the dimension is.",
        untestable="a remark on method; its applications are the claims of figures 18 to 20",
    ),
)
