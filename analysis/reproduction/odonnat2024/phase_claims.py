"""VC section 4.1, figure 5, and the conclusion: drops of the loss, two phases of
learning, escapes from the plateau.

Times are in epochs. The first layers are those that make the sequence embeddings; the
token embeddings also decode the output. The last layers are those of the MLP
(`layer_labels`)."""

from collections.abc import Sequence
from typing import Any

import numpy as np
import xarray as xr

from analysis.clustering_heads import learning_phases
from analysis.clustering_heads.clusters import CLUSTER_LINK
from analysis.panels.colours import layer_labels
from analysis.reproduction.odonnat2024 import drop_measures
from analysis.reproduction.odonnat2024.circuit_claims import default_networks
from analysis.reproduction.verification import (
    Estimate,
    Params,
    Runner,
    declare_experiment,
    median_of,
    percentage,
    samples,
)
from analysis.statistics import intervals, jackknife_runs, kaplan_meier, success_mask
from analysis.transitions import DEFAULT_DETECTION, layer_motion_at_drops, loss_events
from dynamics.networks.threads import single_torch_thread
from dynamics.settings import SUCCESS_ACCURACY

FRONT = learning_phases.SEQUENCE_EMBEDDING_WEIGHTS
"""Weights of the first layers."""
_MLP = ("receptor", "receptor_bias", "assembler")
BACK = dict(zip(_MLP, layer_labels(_MLP), strict=True))
"""Weights of the MLP and what they are called, without its output bias, which moves all
classes alike."""
ALL_WEIGHTS = "all weights together"
SUCCESSFUL = "successful runs"
OF_SUCCESSFUL: dict[str, Any] = {"of": SUCCESSFUL, "where": {"successful": True}}
"""Arguments of `analysis.reproduction.estimates`."""
LABELS = {
    ALL_WEIGHTS: ALL_WEIGHTS,
    **{name: name.replace("_", " ") for name in FRONT},
    **BACK,
}

MOMENTS_OVER_TIME = 201
"""Largest number of frames of a run at which its clusters are measured."""


# --------------------------------------------------------------------------- experiment


def measure(runner: Runner, params: Params) -> xr.Dataset:
    """Drops, escapes, speeds, clusters and decreases of the loss of every run."""
    need = default_networks(params)[0]
    trajectory = runner.ensemble(need)
    epoch_steps = need.settings.epoch_steps or 1
    unit = {"units": "epoch"}
    values = loss_events.trajectory_scalar(trajectory, "loss")
    drops = loss_events.first_two_drops(
        loss_events.event_table(values), trajectory.sizes["run"]
    )
    escapes = loss_events.plateau_escape_times(values)
    learned = learning_phases.measure_learning_phases(
        trajectory, params.get("frames", MOMENTS_OVER_TIME)
    )
    times = {
        **drops[["begin", "end", "between"]].data_vars,
        "escape": escapes["escape"],
    }
    result = xr.Dataset(
        {
            **{
                name: (steps / epoch_steps).assign_attrs(steps.attrs | unit)
                for name, steps in times.items()
            },
            **learned[["formed", "separated", "fitted"]].data_vars,
            "drops": drops["drops"],
            "escaped": escapes["escaped"],
            "speed": layer_motion_at_drops(trajectory, drops)["speed"],
            "settled": drop_measures.measure_settling(trajectory),
            "successful": (
                "run",
                success_mask(trajectory),
                {"long_name": "whether it ends above .98 test accuracy"},
            ),
        }
    )
    with single_torch_thread():  # its products are small
        at_drops = drop_measures.measure_drops(trajectory, drops)
    motion = drop_measures.measure_first_drop_motion(trajectory, drops)
    result = xr.merge([result, motion, at_drops], join="exact", compat="override")
    window = float(DEFAULT_DETECTION.width(trajectory.sizes["step"]))
    return result.drop_vars(["step", "epoch"], errors="ignore").assign_attrs(
        window=window
    )


PHASES = declare_experiment(
    "vc.phases",
    measure,
    default_networks,
    depends={
        "rules": [
            DEFAULT_DETECTION,
            loss_events.ESCAPE_CRITERIA["loss"]._asdict(),
            drop_measures.POINTS,
        ],
        "constants": [SUCCESS_ACCURACY, learning_phases.MIN_RISE, CLUSTER_LINK],
        "frames": [
            MOMENTS_OVER_TIME,
            drop_measures.MOST_FRAMES,
            drop_measures.FEWEST_FRAMES,
        ],
    },
)


# ---------------------------------------------------------------------------- estimates


def _successful(evidence: xr.Dataset) -> xr.Dataset:
    """The successful runs. Only for these phases are measured."""
    return evidence.isel(run=np.flatnonzero(evidence["successful"].values))


def runs_with_drops(evidence: xr.Dataset, least: int, of: str = "runs") -> Estimate:
    """Percentage of all runs, or of the successful ones, with at least so many drops of
    the loss."""
    runs = evidence if of == "runs" else _successful(evidence)
    return samples.percentage_of_ones(runs["drops"] >= least, of)


def drop_gap(evidence: xr.Dataset) -> Estimate:
    """Epochs from the end of the first drop to the beginning of the second, median over
    successful runs with both."""
    some = _successful(evidence)
    note = f"successful runs with only one: {int((some['drops'] == 1).sum())}"
    return samples.estimate_median(
        some["between"], "successful runs with two drops", note
    )


def runs_near_example(
    evidence: xr.Dataset, moments: Sequence[tuple[float, float]], factor: float
) -> Estimate:
    """Percentage of successful runs whose drops begin and end at the given epochs
    (phase, 2), up to a factor."""
    epochs = _successful(evidence)[["begin", "end"]].to_array()
    ratios = epochs.transpose("run", "phase", "variable") / np.array(moments)
    near = np.abs(np.log(ratios)) <= np.log(factor)
    return samples.percentage_of_ones(near.all(["phase", "variable"]), SUCCESSFUL)


def clusters_in_first_drop(evidence: xr.Dataset) -> Estimate:
    """Percentage of successful runs whose clusters form within a window of the first
    drop."""
    some, slack = _successful(evidence).sel(phase="first"), evidence.attrs["window"]
    formed, begin, end = (some[name].values for name in ("formed", "begin", "end"))
    hits = (formed >= begin - slack) & (formed <= end + slack)
    both = np.isfinite(formed + begin)
    note = f"up to {slack:g} epochs from it"
    return samples.percentage_among(hits, both, "successful runs with a drop", note)


def _clustering_progress(evidence: xr.Dataset, moment: str) -> np.ndarray:
    """Percentage of the final clustering at a moment: (run,) for successful runs that
    cluster by a tenth or more.

    Clustering is the rise of the fraction of variance between the final clusters since
    the first frame. moment: one of `drop_measures.MOMENTS`. Runs whose first drop begins
    within a window of their first frame have no state one window before it."""
    some = _successful(evidence)
    clustered = some["clustered"]
    if moment == "before":
        begin = some["begin"].sel(phase="first")
        clustered = clustered.where(begin >= evidence.attrs["window"])
    first, at, last = (
        clustered.sel(moment=name).values for name in ("initial", moment, "final")
    )
    return 100 * (at - first) / np.where(last - first >= 0.1, last - first, np.nan)


def clustering_progress(evidence: xr.Dataset, moment: str) -> Estimate:
    """Percentage of the final clustering at a moment, mean over successful runs."""
    of = "successful runs with that drop"
    if moment == "before":
        of += f" after epoch {evidence.attrs['window']:g}"
    return samples.estimate_mean(_clustering_progress(evidence, moment), of)


def clustering_gain(evidence: xr.Dataset, since: str = "first_begin") -> Estimate:
    """Points of the final clustering that are added from a moment to the end of the
    first drop."""
    end, begin = (
        _clustering_progress(evidence, moment) for moment in ("first_end", since)
    )
    return samples.paired_difference(end, begin, SUCCESSFUL)


def loss_fall_by_layers(
    evidence: xr.Dataset, layers: Sequence[str], phase: str
) -> Estimate:
    """Percentage of the decrease of the loss in a drop that is due to some layers:
    median over successful runs."""
    one = _successful(evidence).sel(phase=phase)
    rest = samples.finite_values(np.abs(one["residual"]))
    note = (
        f"the sum over all layers is within {100 * rest.max():.1f}% of the decrease"
        if rest.size
        else ""
    )
    values = 100 * one["work"].sel(layer=list(layers)).sum("layer", skipna=False)
    return samples.estimate_median(values, f"successful runs with a {phase} drop", note)


def speed_up(evidence: xr.Dataset, layer: str, phase: str = "first") -> Estimate:
    """Speed of a layer, or of all weights in the first drop, over that before the drop:
    median over successful runs."""
    if layer == ALL_WEIGHTS:
        estimate = median_of(evidence, name="whole_speed", **OF_SUCCESSFUL)
    else:
        estimate = median_of(
            evidence, name="speed", layer=layer, phase=phase, **OF_SUCCESSFUL
        )
    return estimate._replace(effect=estimate.value, effect_name="ratio")


def front_speed_up(evidence: xr.Dataset) -> Estimate:
    """Speed-up of the first layers in the first drop over that of the last layers, both
    as geometric means over layers: geometric mean over successful runs."""
    speed = _successful(evidence)["speed"].sel(phase="first")
    front, back = (
        np.log(speed.sel(layer=list(layers)).values).mean(axis=-1)
        for layers in (FRONT, BACK)
    )
    gain = samples.finite_values(front - back)
    interval = intervals.Interval(*np.exp(intervals.mean_interval(gain)))
    return Estimate(
        interval,
        len(gain),
        SUCCESSFUL,
        effect=interval.value,
        effect_name="ratio",
    )


def _percentage_earlier(first: np.ndarray, second: np.ndarray) -> Estimate:
    """Percentage of runs in which the first time is earlier, without ties and runs that
    lack one of both."""
    both = np.isfinite(first + second)
    apart = both & (first != second)
    tied = both.sum() - apart.sum()
    note = f"{tied} of {both.sum()} runs have equal times and are left out"
    estimate = samples.percentage_among(
        first < second, apart, SUCCESSFUL, note if tied else ""
    )
    return estimate._replace(
        effect=2 * estimate.value / 100 - 1,
        effect_name="rank-biserial of pairs",
    )


def clusters_before_accuracy(evidence: xr.Dataset) -> Estimate:
    """Percentage of successful runs whose clusters form before the training accuracy
    rises."""
    some = _successful(evidence)
    return _percentage_earlier(some["formed"].values, some["separated"].values)


def first_layers_settle_first(evidence: xr.Dataset, way: str = "direction") -> Estimate:
    """Percentage of successful runs whose first layers have covered half of their way
    before the last ones have: medians over layers. way: one of `drop_measures.WAYS`, of
    which the others are in the note."""
    settled = _successful(evidence)["settled"]
    front, back = (
        settled.sel(layer=list(layers)).median("layer", skipna=False)
        for layers in (FRONT, BACK)
    )
    estimates = {
        name: _percentage_earlier(front.sel(way=name).values, back.sel(way=name).values)
        for name in drop_measures.WAYS
    }
    estimate = estimates.pop(way)
    notes = [estimate.note] if estimate.note else []
    for name, other in estimates.items():
        if other.count:
            words = drop_measures.WAYS[name]
            notes.append(f"by {words} it is {other.value:.0f}%")
    return estimate._replace(note="; ".join(notes))


def reclassified_sequences(evidence: xr.Dataset, phase: str = "second") -> Estimate:
    """Percentage of sequences that the MLP after a drop classifies differently than
    that before it, at unchanged sequence embeddings: mean over successful runs."""
    one = _successful(evidence).sel(phase=phase)
    moved = samples.finite_values(one["moved"])
    note = (
        f"the MLP's weights change by {100 * np.median(moved):.0f}% of their norm"
        if moved.size
        else ""
    )
    return samples.estimate_mean(
        100 * one["reclassified"],
        "successful runs with that drop",
        note,
        limits=(0, 100),
    )


def half_fall_spread(evidence: xr.Dataset) -> Estimate:
    """Spread of the time from the beginning of the first drop until half of the
    decrease of the loss, relative to that of the beginning of the first drop: ratio of
    standard deviations over successful runs."""
    some = _successful(evidence)
    start, half = some["begin"].sel(phase="first").values, some["fitted"].values
    both = np.isfinite(start + half)
    start, rest = start[both], (half - start)[both]
    if len(start) < 4 or not np.ptp(start) or not np.ptp(rest):
        note = "too few successful runs"
        return Estimate(intervals.NO_INTERVAL, len(start), SUCCESSFUL, note=note)
    interval = jackknife_runs(
        lambda at: float(np.log(rest[at].std(ddof=1) / start[at].std(ddof=1))),
        len(start),
    )
    ratio = intervals.Interval(*np.exp(interval))
    note = (
        f"standard deviations of {rest.std(ddof=1):.0f} and {start.std(ddof=1):.0f}"
        " epochs"
    )
    return Estimate(ratio, len(start), SUCCESSFUL, ratio.value, "ratio", note)


def escape_spread(evidence: xr.Dataset) -> Estimate:
    """Percentage of runs that escape more than twice as late, or less than half as
    late, as the median run.

    Runs that do not escape within twice the median count as later. NaN if fewer than
    half escape."""
    times, escaped = evidence["escape"].values, evidence["escaped"].values.astype(bool)
    middle = kaplan_meier(times, escaped).median.value if escaped.any() else np.nan
    if not np.isfinite(middle):
        note = f"{escaped.sum()} of {len(times)} runs escape: no median"
        return Estimate(intervals.NO_INTERVAL, len(times), note=note)
    far = (times > 2 * middle) | (escaped & (times < middle / 2))
    return percentage(int(far.sum()), len(times), "runs", f"median {middle:.0f} epochs")
