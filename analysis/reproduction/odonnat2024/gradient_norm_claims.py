"""VC appendices A.1 and A.3, figures 15, 16, 18, 19: peaks of the gradient norm, and
drops and spikes of the loss.

Peaks, drops and spikes are those of `analysis.transitions.gradient_peaks`, counted by
run. What is expected by chance is the mean over all shifts of the peaks by one to two
windows."""

from collections.abc import Sequence

import numpy as np
import xarray as xr

from analysis.panels.colours import layer_labels
from analysis.reproduction.claim import Claim, Number, Sign
from analysis.reproduction.estimates import Estimate
from analysis.reproduction.experiment import (
    Experiment,
    Params,
    RequiredRuns,
    Runner,
    Sizing,
    described,
)
from analysis.statistics import intervals, jackknife_runs
from analysis.transitions import DEFAULT_DETECTION, SeriesEvent, gradient_peaks
from dynamics.settings import SparseSettings

SETUPS = FULL, MINI, FULL_3, MINI_3 = (
    "full batch",
    "mini-batch",
    "full batch, d = 3",
    "mini-batch, d = 3",
)
KINDS = DROP, SPIKE = ("drop", "spike")
WHOLE = "whole"
"""The norm of the whole gradient, as one of the layers."""
COUNTS = {
    "total": "number of drops or spikes",
    "matched": "number of these with a peak of the norm",
    "chance": "number expected by chance",
}


def ensembles(params: Params) -> Sequence[RequiredRuns]:
    """Networks of each setup; `analysis.paper` uses the same files."""
    data = SparseSettings().data
    epochs = params.get("epochs")
    full = params.get("updates", 4000), params.get("every", 4)
    return [
        RequiredRuns(SparseSettings(batch=data), params["full"], *full),
        RequiredRuns(SparseSettings(), params["mini"], epochs),
        RequiredRuns(SparseSettings(batch=data, dim=3), params["three"], *full),
        RequiredRuns(SparseSettings(dim=3), params["three"], epochs),
    ]


def measure(runner: Runner, params: Params) -> xr.Dataset:
    """Events with a peak, and by chance, (setup, run, layer, kind)."""
    setups = [_measure_setup(runner.ensemble(need)) for need in ensembles(params)]
    names = xr.Variable("setup", list(SETUPS))
    return xr.concat(setups, names, join="outer", combine_attrs="override")


def _measure_setup(trajectory: xr.Dataset) -> xr.Dataset:
    layers = [*map(str, trajectory["layer"].values), WHOLE]
    runs = trajectory.sizes["run"]
    counts = np.full((len(COUNTS), runs, len(layers), len(KINDS)), np.nan)
    for run, one in enumerate(gradient_peaks.loss_and_norm_series(trajectory)):
        if len(one.falling) < gradient_peaks.MIN_FRAMES:
            continue
        events = gradient_peaks.loss_events_by_kind(one.falling, particles=False)
        norms = np.vstack([one.norms, np.sqrt((one.norms**2).sum(axis=0))])
        by_layer = [match_counts(events, norm) for norm in norms]
        counts[:, run] = np.stack(by_layer, axis=1)
    columns = {
        name: (values, text)
        for (name, text), values in zip(COUNTS.items(), counts, strict=True)
    }
    coords = {"run": np.arange(runs), "layer": layers, "kind": list(KINDS)}
    return described(("run", "layer", "kind"), columns, coords)


def match_counts(events: dict[str, list[SeriesEvent]], norm: np.ndarray) -> np.ndarray:
    """Numbers of events, of those with a peak of a norm (frame,), and of those expected
    by chance: (3, kind)."""
    frames = len(norm)
    peaks = gradient_peaks.find_norm_peaks(norm)
    counts = []
    shifts = gradient_peaks.nearby_shifts(frames, DEFAULT_DETECTION.width(frames))
    tolerance = gradient_peaks.peak_tolerance(frames)
    for kind in KINDS:
        matched = gradient_peaks.match_counts_by_shift(
            events[kind], peaks, frames, tolerance
        )
        counts.append((len(events[kind]), matched[0], matched[shifts].mean()))
    return np.transpose(counts)


# ------------------------------------------------------------------------------- claims


def excess_peaks(
    evidence: xr.Dataset, setup: str, kind: str, names: Sequence[str] = (WHOLE,)
) -> Estimate:
    """Percentage of events with a peak of the norm of the gradient, mean over layers
    with these names, minus that expected by chance; runs are left out in turn."""
    layers = evidence.sel(setup=setup, kind=kind, layer=list(names))
    total, matched, chance = (layers[name].mean("layer").values for name in COUNTS)
    eventful = total > 0
    total, matched, chance = (item[eventful] for item in (total, matched, chance))
    if not len(total):
        return Estimate(intervals.NO_INTERVAL, 0, f"{kind}s", "there are none")

    def excess(runs: np.ndarray) -> float:
        return float(100 * (matched[runs] - chance[runs]).sum() / total[runs].sum())

    shares = (100 * item.sum() / total.sum() for item in (matched, chance))
    note = "{:.0f}% against {:.0f}%".format(*shares)
    interval = jackknife_runs(excess, len(total))
    return Estimate(interval, int(total.sum()), f"{kind}s", note)


def peak_number(setup: str, kind: str, whole: bool = True) -> Number:
    """The percentage of events with a peak beyond chance."""
    layers = "" if whole else " of a single layer"
    return Number(
        lambda evidence: excess_peaks(
            evidence, setup, kind, (WHOLE,) if whole else single_layers(evidence)
        ),
        Sign.POSITIVE,
        f"{kind}s with a peak of the gradient norm{layers}, minus chance, {setup}",
        "points",
    )


def fewest_peaks(evidence: xr.Dataset) -> Estimate:
    """With three dimensions, the kind of events, setup and layer with the fewest peaks
    of the layer's norm beyond chance."""
    found = {
        (layer, kind, setup): excess_peaks(evidence, setup, kind, [layer])
        for layer in single_layers(evidence)
        for kind in KINDS
        for setup in (FULL_3, MINI_3)
    }
    least = min(found, key=lambda key: found[key].interval.low)
    layer, kind, setup = least
    note = f"{kind}s, {layer_labels([layer])[0]}, {setup}"
    return found[least]._replace(note=note)


def single_layers(evidence: xr.Dataset) -> list[str]:
    """The names of the layers whose norms were measured."""
    return [str(name) for name in evidence["layer"].values if name != WHOLE]


def salience_change(evidence: xr.Dataset) -> Estimate:
    """Drops with a peak beyond chance, with mini-batches minus with full batches."""
    mini, full = (excess_peaks(evidence, setup, DROP) for setup in (MINI, FULL))
    interval = intervals.difference_of_estimates(mini.interval, full.interval)
    return Estimate(interval, mini.count + full.count, "drops")


FULL_BATCH_DROPS = Claim(
    "VC.figure15.drops",
    "appendix A.1, figure 15",
    "loss drops occur in tandem with high gradient norms",
    "In full-batch training, drops of the loss have a peak of the gradient norm more"
    " often than by chance.",
    (peak_number(FULL, DROP), peak_number(FULL, DROP, whole=False)),
    "A peak counts from the beginning of a drop to its end and for .5% of the run around"
    " it. Drops are long, so that chance alone gives many of them a peak. With"
    " steps of bounded length the loss can fall fast only where the gradient is large,"
    " so a link is expected in any network.",
    summary="drops of the loss have peaks of the gradient norm more often than by chance",
    figure="vc15",
)
MINI_BATCH = Claim(
    "VC.figure16.spikes-and-drops",
    "appendix A.1, figure 16",
    "Loss spikes occur in tandem with spikes in gradient norms",
    "In mini-batch training, spikes and drops of the loss have a peak of the gradient"
    " norm more often than by chance, drops less clearly than with full batches.",
    (
        peak_number(MINI, SPIKE),
        peak_number(MINI, DROP),
        Number(
            salience_change,
            Sign.NEGATIVE,
            "drops with a peak beyond chance, mini-batch minus full batch",
            "points",
        ),
    ),
    "More often than by chance, but most spikes have no peak: the norm is recorded for"
    " one mini-batch of each epoch. The caption of figure 16 says the opposite of the"
    " text about the drops.",
    summary="spikes of the loss have peaks of the gradient norm more often than by chance",
    figure="vc16",
)
THREE_DIMENSIONS = Claim(
    "VC.figure18.three-dimensions",
    "appendix A.3, figures 18 and 19",
    "occur in tandem with high gradient norms for each layer",
    "With three dimensions, too, drops and spikes of the loss have a peak of the gradient"
    " norm more often than by chance.",
    (
        *(
            peak_number(setup, kind)
            for setup in (FULL_3, MINI_3)
            for kind in (DROP, SPIKE)
        ),
        Number(
            fewest_peaks,
            Sign.POSITIVE,
            "the smallest of these differences over the norms of single layers",
            "points",
        ),
    ),
    "Nearly every full-batch spike has a peak; two thirds of the mini-batch spikes have"
    " none.",
    figure="vc18",
)

NORMS = Experiment(
    "vc.norms",
    "peaks of the gradient norm at drops and spikes of the loss, full batch and"
    " mini-batch, d = 2 and 3",
    measure,
    quick=Sizing(
        5,
        {"full": 12, "mini": 32, "three": 12, "updates": 2000},
        "fewer runs than 100, half as many full-batch updates",
    ),
    default=Sizing(
        20,
        {"full": 60, "mini": 100, "three": 20},
        "60 full-batch runs, and 20 with d = 3, not 100 each",
    ),
    full=Sizing(40, {"full": 100, "mini": 100, "three": 100}),
    ensembles=ensembles,
    depends={
        "events": DEFAULT_DETECTION,
        "tolerance": gradient_peaks.PEAK_TOLERANCE,
        "fewest": gradient_peaks.MIN_FRAMES,
    },
    version=3,
    command="python -m analysis.gradients RUN.nc",
    claims=(FULL_BATCH_DROPS, MINI_BATCH, THREE_DIMENSIONS),
)
