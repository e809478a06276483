"""VC section 4.1: drops of the loss, what is learned in them, how weights move, and when runs escape.

Frames are those recorded, moments are in epochs. The two halves of the network are the front, which makes sequence
embeddings, and the feed-forward layer behind it; the front's embeddings also decode what comes out.
"""

from collections.abc import Sequence

import numpy as np
import xarray as xr

from analysis.clustering_heads.clusters import CLUSTER_LINK
from analysis.clustering_heads.learning_phases import MIN_RISE, SEQUENCE_EMBEDDING_WEIGHTS
from analysis.clustering_heads.learning_phases import measure_learning_phases as clusters_over_time
from analysis.reproduction.experiments.loss_drops import FRAMES, MOST_FRAMES, POINTS, measure_drops
from analysis.reproduction.experiments.movement import FEWEST_FRAMES, measure_first_drop_movement
from analysis.reproduction.verification.estimate import Estimate, percentage
from analysis.reproduction.verification.experiment import Experiment, Params, Runner, Size
from analysis.reproduction.verification.required_runs import RequiredRuns
from analysis.reproduction.verification.samples import estimate_mean, paired_difference
from analysis.statistics.intervals import NO_INTERVAL, Interval, mean_interval, median_interval
from analysis.statistics.resampling import jackknife_runs
from analysis.statistics.success import success_mask
from analysis.statistics.survival import kaplan_meier
from analysis.transitions.detection import DEFAULT_DETECTION
from analysis.transitions.layer_motion import layer_motion_at_drops
from analysis.transitions.loss_events import ESCAPE_CRITERIA, event_table, plateau_escape_times, trajectory_scalar
from analysis.transitions.loss_events import first_two_drops as two_drops
from dynamics.networks.threads import single_torch_thread
from dynamics.settings import SUCCESS_ACCURACY, SparseSettings

BACK = ("receptor", "receptor_bias", "assembler")
"""The feed-forward layer's weights that see the data; its output bias moves every class alike."""

MOMENTS_OVER_TIME = 201
"""Frames of a run at which its clusters are looked at."""


def ensembles(params: Params) -> Sequence[RequiredRuns]:
    """VC's default networks."""
    return [RequiredRuns(SparseSettings(), params["runs"], epochs=params.get("epochs"))]


def measure(runner: Runner, params: Params) -> xr.Dataset:
    """Drops, escapes, speeds, clusters and falls of every run."""
    trajectory = runner.ensemble(ensembles(params)[0])
    epoch_steps = SparseSettings().epoch_steps
    values = trajectory_scalar(trajectory, "loss")
    drops = two_drops(event_table(values), trajectory.sizes["run"])
    left, speeds = plateau_escape_times(values), layer_motion_at_drops(trajectory, drops)["speed"]
    found = clusters_over_time(trajectory, params.get("frames", MOMENTS_OVER_TIME))
    result = xr.Dataset({
        **{name: drops[name] / epoch_steps for name in ("begin", "middle", "end", "between")},
        **{name: drops[name] for name in ("drops", "spikes")},
        **{name: found[name] for name in ("formed", "separated", "fitted")},
        "escape": left["escape"] / epoch_steps, "escaped": left["escaped"], "speed": speeds,
        "successful": ("run", success_mask(trajectory), {"long_name": "whether it ends above .98 test accuracy"}),
    })  # fmt: skip
    for name in ("begin", "middle", "end", "between", "escape"):
        result[name].attrs = {**(left if name == "escape" else drops)[name].attrs, "units": "epoch"}
    with single_torch_thread():  # its products are small
        fallen = measure_drops(trajectory, drops)
    result = xr.merge([result, measure_first_drop_movement(trajectory, drops), fallen], join="exact", compat="override")
    window = float(DEFAULT_DETECTION.width(trajectory.sizes["step"]))
    return result.drop_vars(["step", "epoch"], errors="ignore").assign_attrs(
        window=window, last=float(trajectory["epoch"][-1])
    )


PHASES = Experiment(
    "vc.phases",
    "drops of the loss, what is learned in them, how weights move, when runs escape",
    sizes={Size.QUICK: {"runs": 32}, Size.DEFAULT: {"runs": 100}, Size.FULL: {"runs": 100}},
    seconds={Size.QUICK: 12, Size.DEFAULT: 35, Size.FULL: 35},
    measure=measure,
    reduced={Size.QUICK: "32 runs in place of the 100 that the paper averages over"},
    ensembles=ensembles,
    depends={
        "events": DEFAULT_DETECTION,
        "escape": ESCAPE_CRITERIA["loss"]._asdict(),
        "success": SUCCESS_ACCURACY,
        "gain": MIN_RISE,
        "link": CLUSTER_LINK,
        "frames": [MOMENTS_OVER_TIME, MOST_FRAMES, FEWEST_FRAMES],
        "points": POINTS,
    },
    command="python -m analysis.events RUN.nc",
)


# ------------------------------------------------------------------------------------------------- findings


def _phased_runs(evidence: xr.Dataset) -> np.ndarray:
    """The successful runs, of which phases are told, (run,) bool."""
    return evidence["successful"].values.astype(bool)


def runs_with_drops(evidence: xr.Dataset, least: int = 1, of_all: bool = True) -> Estimate:
    """Percentage of runs, or of the successful ones, with so many drops of the loss or more."""
    some = np.ones(evidence.sizes["run"], bool) if of_all else _phased_runs(evidence)
    hits = (evidence["drops"].values >= least) & some
    return percentage(int(hits.sum()), int(some.sum()), "runs" if of_all else "successful runs")


def drop_gap(evidence: xr.Dataset) -> Estimate:
    """Epochs from the end of the first drop to the begin of the second, median over successful runs that have both."""
    values = evidence["between"].values[_phased_runs(evidence)]
    values = values[np.isfinite(values)]
    single = int((evidence["drops"].values[_phased_runs(evidence)] == 1).sum())
    return Estimate(median_interval(values), len(values), "successful runs with two drops", note=f"{single} have one")


def gap_near_example(evidence: xr.Dataset, low: float, high: float) -> Estimate:
    """Percentage of successful runs whose second drop begins so many epochs after the first one's end."""
    values = evidence["between"].values[_phased_runs(evidence)]
    hits = (values >= low) & (values <= high)
    return percentage(int(hits.sum()), len(values), "successful runs")


def clusters_in_first_drop(evidence: xr.Dataset) -> Estimate:
    """Percentage of successful runs whose clusters form, for good, within a window of the first drop."""
    some, slack = _phased_runs(evidence), evidence.attrs["window"]
    formed, begin, end = evidence["formed"].values, evidence["begin"].values[:, 0], evidence["end"].values[:, 0]
    known = some & np.isfinite(formed) & np.isfinite(begin)
    hits = known & (formed >= begin - slack) & (formed <= end + slack)
    return percentage(
        int(hits.sum()), int(known.sum()), "successful runs with a drop", f"within {slack:g} epochs of it"
    )


def _clustering_progress(evidence: xr.Dataset, moment: str) -> np.ndarray:
    """How far sequence embeddings of successful runs have come from their first state to their final clusters at a
    moment, as a percentage of the rise of the variance between these: (run,) of those that rise by a tenth or more.

    moment: one of a drop, or "before", a window before the first begins.
    """
    some = evidence.isel(run=np.flatnonzero(_phased_runs(evidence)))
    first, before, last = (some["clustered_beside"].sel(frame=frame).values for frame in FRAMES)
    rise = np.where(last - first >= 0.1, last - first, np.nan)
    at = before if moment == "before" else some["clustered"].sel(moment=moment).values
    return 100 * (at - first) / rise


def clustering_progress(evidence: xr.Dataset, moment: str) -> Estimate:
    """Mean of it."""
    return estimate_mean(_clustering_progress(evidence, moment), "successful runs with that drop")


def clustering_gain(evidence: xr.Dataset, since: str = "first_begin") -> Estimate:
    """How much further it has come at the end of the first drop than at a moment before, in points."""
    return paired_difference(
        _clustering_progress(evidence, "first_end"), _clustering_progress(evidence, since), "successful runs"
    )


def accuracy_at_moment(evidence: xr.Dataset, moment: str) -> Estimate:
    """Accuracy on all sequences at a moment, as a percentage: mean over successful runs."""
    values = 100 * evidence["accuracy_at"].sel(moment=moment).values[_phased_runs(evidence)]
    values = values[np.isfinite(values)]
    found = Interval(*np.clip(mean_interval(values, discrete=True), 0, 100).tolist())
    return Estimate(found, len(values), "successful runs with that drop")


def loss_fall_by_layers(evidence: xr.Dataset, layers: Sequence[str], phase: str) -> Estimate:
    """Percentage of a drop's fall that some layers' movement makes: median over successful runs."""
    one = evidence.sel(phase=phase).isel(run=np.flatnonzero(_phased_runs(evidence)))
    values = 100 * one["work"].sel(layer=list(layers)).sum("layer", skipna=False).values
    values = values[np.isfinite(values)]
    rest = np.abs(one["residual"].values)
    note = f"layers make up the fall within {100 * np.nanmax(rest):.1f}%" if np.isfinite(rest).any() else ""
    return Estimate(median_interval(values), len(values), f"successful runs with a {phase} drop", note=note)


def layer_speed_up(evidence: xr.Dataset, layer: str, phase: str = "first") -> Estimate:
    """How many times as fast a layer moves in a drop as before it: median over successful runs."""
    values = evidence["speed"].sel(layer=layer, phase=phase).values[_phased_runs(evidence)]
    values = values[np.isfinite(values)]
    found = median_interval(values)
    return Estimate(found, len(values), "successful runs", effect=found.value, effect_name="ratio")


def total_speed_up(evidence: xr.Dataset) -> Estimate:
    """The same of all weights together in the first drop."""
    values = evidence["whole_speed"].values[_phased_runs(evidence)]
    values = values[np.isfinite(values)]
    found = median_interval(values)
    return Estimate(found, len(values), "successful runs", effect=found.value, effect_name="ratio")


def front_speed_up(evidence: xr.Dataset, phase: str = "first") -> Estimate:
    """How much more the front's layers speed up in a drop than the feed-forward layer's: the ratio of their geometric
    means, as the geometric mean over successful runs."""
    speed = evidence["speed"].sel(phase=phase)
    front, back = (
        np.log(speed.sel(layer=list(layers)).values).mean(axis=-1) for layers in (SEQUENCE_EMBEDDING_WEIGHTS, BACK)
    )
    gain = front - back
    gain = gain[_phased_runs(evidence) & np.isfinite(gain)]
    found = Interval(*np.exp(mean_interval(gain)))
    return Estimate(found, len(gain), "successful runs", effect=found.value, effect_name="ratio")


def straightness_gain(evidence: xr.Dataset) -> Estimate:
    """How much straighter weights move in the first drop than before it, of 1 for a straight line: over successful
    runs."""
    both = evidence["straightness"].isel(run=np.flatnonzero(_phased_runs(evidence)))
    before = both.sel(part="before")
    found = paired_difference(both.sel(part="inside"), before, "successful runs")
    return found._replace(note=f"before it {float(before.mean()):.2f} over stretches as long") if found.count else found


def clusters_before_accuracy(evidence: xr.Dataset) -> Estimate:
    """Percentage of successful runs whose clusters form before training accuracy tells them apart, of those that do
    not do both in one frame."""
    some = _phased_runs(evidence) & np.isfinite(evidence["formed"].values + evidence["separated"].values)
    return _order(evidence["formed"].values[some], evidence["separated"].values[some])


def front_first(evidence: xr.Dataset) -> Estimate:
    """Percentage of successful runs whose front comes half-way to its end before the feed-forward layer does, of
    those that do not do both in one frame: medians over their layers."""
    at = evidence["settled"]
    front, back = (
        at.sel(layer=list(layers)).median("layer", skipna=False).values for layers in (SEQUENCE_EMBEDDING_WEIGHTS, BACK)
    )
    some = _phased_runs(evidence) & np.isfinite(front + back)
    return _order(front[some], back[some])


def _order(first: np.ndarray, second: np.ndarray) -> Estimate:
    """Percentage of pairs of which the first is earlier, of those that are not tied."""
    ties = int((first == second).sum())
    earlier, total = int((first < second).sum()), len(first)
    found = percentage(earlier, total - ties, "successful runs", f"{ties} of {total} at once, which are left out")
    size = 2 * found.interval.value / 100 - 1
    return found._replace(effect=size, effect_name="rank-biserial of pairs")


def reclassified_sequences(evidence: xr.Dataset, phase: str = "second") -> Estimate:
    """Percentage of sequences that the feed-forward layer after a drop classifies otherwise than that before it, at
    unchanged sequence embeddings: mean over successful runs."""
    values = 100 * evidence["reclassified"].sel(phase=phase).values[_phased_runs(evidence)]
    values = values[np.isfinite(values)]
    moved = evidence["moved"].sel(phase=phase).values[_phased_runs(evidence)]
    note = f"its weights change by {100 * np.nanmedian(moved):.0f}% of their size" if np.isfinite(moved).any() else ""
    found = Interval(*np.clip(mean_interval(values, discrete=True), 0, 100).tolist())
    return Estimate(found, len(values), "successful runs with that drop", note=note)


def half_fall_spread(evidence: xr.Dataset) -> Estimate:
    """Spread over successful runs of how long it takes from the first drop's begin until the loss is half fallen, over
    that of when the first drop begins: ratio of standard deviations, with the jackknife's interval of its logarithm."""
    start, end = evidence["begin"].values[:, 0], evidence["fitted"].values
    some = _phased_runs(evidence) & np.isfinite(start + end)
    start, rest = start[some], (end - start)[some]
    if len(start) < 4 or not np.ptp(start) or not np.ptp(rest):
        return Estimate(NO_INTERVAL, len(start), "successful runs", note="too few successful runs")
    found = jackknife_runs(lambda at: float(np.log(rest[at].std(ddof=1) / start[at].std(ddof=1))), len(start))
    ratio = Interval(*np.exp(found))
    note = f"standard deviations of {rest.std(ddof=1):.0f} and {start.std(ddof=1):.0f} epochs"
    return Estimate(ratio, len(start), "successful runs", ratio.value, "ratio", note)


def escape_spread(evidence: xr.Dataset) -> Estimate:
    """Percentage of runs that take more than twice or less than half as long to escape as the median run;
    those that do not escape count as longer where the time they were watched is. Nothing, where fewer than half
    escape and there is no median."""
    moment, escaped = evidence["escape"].values, evidence["escaped"].values.astype(bool)
    middle = kaplan_meier(moment, escaped).median.value if escaped.any() else np.nan
    if not np.isfinite(middle):
        note = f"{escaped.sum()} of {len(moment)} runs escape, too few for a median"
        return Estimate(NO_INTERVAL, len(moment), note=note)
    far = (moment > 2 * middle) | (escaped & (moment < middle / 2))
    return percentage(int(far.sum()), len(moment), "runs", f"median {middle:.0f} epochs")
