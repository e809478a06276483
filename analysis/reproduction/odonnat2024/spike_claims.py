"""VC section 4.3, figures 13 and 14: spikes of the training loss, replayed step by step
and attributed to a cause.

The later version CH makes the same claims in its figures 4 and 5. An update is compared
with the length of the vectors that are normalised: E + P of a token and position, and
the embedding xi of a sequence."""

import itertools
from collections.abc import Callable, Sequence

import numpy as np
import xarray as xr

from analysis.reproduction.odonnat2024.circuit_claims import (
    default_networks,
    fraction_of_pairs,
)
from analysis.reproduction.verification import (
    Estimate,
    Params,
    RequiredRuns,
    Runner,
    as_percentage,
    declare_experiment,
    described,
    samples,
)
from analysis.statistics.intervals import (
    NO_INTERVAL,
    Interval,
    clustered_binomial_interval,
    mean_interval,
)
from analysis.transitions import (
    DEFAULT_DETECTION,
    plateau_escape_times,
    spike_replays,
    trajectory_scalar,
)
from analysis.transitions.spike_attribution import RISE_THRESHOLD, SMOOTH_NORM_AGREEMENT
from analysis.transitions.spike_steps import MAX_ORDINARY_STEPS
from dynamics.networks.threads import single_torch_thread
from dynamics.settings import SUCCESS_ACCURACY, SparseSettings

TURN = 30.0
"""Angle in degrees from which the direction of a vector changes substantially: by half
of its length."""

RANKED = ("gain", "norm", "alignment")
"""Measures of the assemblers: largest singular value, Frobenius norm, fraction of its
square along one direction."""

FLIP_MEASURES = ("flip_steps", "flip_rise", "largest_input_ratio", "largest_xi_ratio")
SPIKE_MEASURES = [
    *"of_run at cause way explained normalisation_share feed_forward_share".split(),
    *"input_ratio xi_ratio turn remaining_smooth remaining_smooth_alike".split(),
    *"remaining_half remaining_hundredth remaining_descent".split(),
    *("remaining_descent_hundredth", *FLIP_MEASURES, "closeness"),
    *"crossing_distance other_distance crossed_in_step crossed_ordinary".split(),
]
"""Measures of a spike in the evidence, of those in
`analysis.transitions.spike_replays`."""


def measure(runner: Runner, params: Params) -> xr.Dataset:
    """Cause and steps of each spike, rank of its assemblers among those of other runs,
    (spike,); runs, (run,)."""
    trajectory = runner.ensemble(default_networks(params)[0])
    with single_torch_thread():
        spikes = spike_replays.attribute_spikes(
            trajectory, spike_replays.recorded_spikes(trajectory)
        )
    escapes = plateau_escape_times(trajectory_scalar(trajectory, "loss"))
    evidence = (
        spikes[SPIKE_MEASURES]
        .merge(assembler_ranks(trajectory, spikes, escapes))
        .drop_vars("seed", errors="ignore")
    )
    accuracy = trajectory["accuracy"].sel(split="test").isel(step=-1)
    by_run = {
        "spikes": (spikes["examined"], "spikes of the run"),
        "escaped": (escapes["escaped"], "whether it escapes the first plateau"),
        "successful": (
            accuracy > SUCCESS_ACCURACY,
            "whether its test accuracy ends above .98",
        ),
    }
    return evidence.merge(described("run", by_run))


def assembler_ranks(
    trajectory: xr.Dataset, spikes: xr.Dataset, escapes: xr.Dataset
) -> xr.Dataset:
    """Fraction of the other runs that have escaped whose assemblers have smaller
    measures (`RANKED`) than those of the spike's run, in the last recorded frame before
    the examined step: (spike,). NaN if no other run has escaped."""
    ranks = np.full((len(RANKED), spikes.sizes["spike"]), np.nan)
    weights = trajectory["assembler"].transpose("run", "step", "hidden", "axis")
    for spike, (run, at) in enumerate(
        zip(spikes["of_run"].values, spikes["at"].values, strict=True)
    ):
        others = (
            escapes["escaped"]
            & (escapes["escape"] <= at)
            & (trajectory["last_step"] >= at)
        ).values
        others[run] = False
        if at < 0 or not others.any():
            continue
        now = weights.sel(step=at, method="ffill").values.astype(np.float64)
        values = np.linalg.svd(now, compute_uv=False)  # (run, axis)
        squares = (values**2).sum(axis=1)
        measures = np.stack([values[:, 0], squares, values[:, 0] ** 2 / squares])
        own = measures[:, [run]]
        ranks[:, spike] = ((measures < own) + 0.5 * (measures == own))[:, others].mean(
            axis=1
        )
    about = "fraction of other escaped runs whose assemblers have a smaller measure"
    columns = {
        f"{name}_rank": (rank, about) for name, rank in zip(RANKED, ranks, strict=True)
    }
    return described("spike", columns)


GRID = ("lr", "norm", "table")
"""Settings of the experiment with flips: learning rate, norm, rows of the embedding
table."""


def grid_ensembles(params: Params) -> Sequence[RequiredRuns]:
    """Runs in each setting of a grid of learning rates, norms and rows of the embedding
    table."""
    values = itertools.product(*(params[name] for name in GRID))
    rest, size = params.get("settings", {}), (params["runs"], params.get("epochs"))
    return [
        RequiredRuns(
            SparseSettings(**(rest | dict(zip(GRID, value, strict=True)))), *size
        )
        for value in values
    ]


def measure_grid(runner: Runner, params: Params) -> xr.Dataset:
    """Flips in spikes, evenly spaced over the runs of each setting: (spike,). Runs are
    numbered over all settings."""
    settings = []
    for place, need in enumerate(grid_ensembles(params)):
        trajectory = runner.ensemble(need)
        spikes = spike_replays.evenly_spaced_spikes(
            spike_replays.recorded_spikes(trajectory), params["spikes"]
        )
        with single_torch_thread():
            one = spike_replays.attribute_spikes(trajectory, spikes)[
                ["of_run", "cause", *FLIP_MEASURES]
            ]
        one["of_run"] += place * need.runs
        of_setting = {
            name: (
                np.full(len(spikes), getattr(need.settings, name)),
                f"{name} of the setting",
            )
            for name in GRID
        }
        settings.append(one.merge(described("spike", of_setting)))
    return xr.concat(settings, "spike", combine_attrs="override").drop_vars(
        "seed", errors="ignore"
    )


DEPENDS = {
    "rule": DEFAULT_DETECTION,
    "attributed": {
        "most": RISE_THRESHOLD,
        "fair": SMOOTH_NORM_AGREEMENT,
        "ordinary": MAX_ORDINARY_STEPS,
    },
    "replayed": {
        "most_back": spike_replays.MAX_FRAMES_BEFORE_PEAK,
        "after": spike_replays.FRACTION_AFTER_PEAK,
    },
}
SPIKES = declare_experiment("vc.spikes", measure, default_networks, depends=DEPENDS)
PRINTED_SPIKES, THREE_SPIKES = (
    declare_experiment(f"vc.spikes-{name}", measure, default_networks, depends=DEPENDS)
    for name in ("printed", "three")
)
FLIP_GRID = declare_experiment(
    "vc.flips", measure_grid, grid_ensembles, depends=DEPENDS
)


def runs_with_spikes(evidence: xr.Dataset) -> Estimate:
    """Percentage of runs whose training loss has spikes."""
    counts = evidence["spikes"]
    return samples.percentage_of_ones(
        counts > 0, "runs", f"{int(counts.sum())} spikes in all"
    )


def runs_with_long_updates(evidence: xr.Dataset) -> Estimate:
    """Percentage of runs in which, in a step of a spike, an update is longer than a sum
    E + P or a sequence embedding xi."""
    spikes = replayed_spikes(evidence)
    runs = np.arange(evidence.sizes["run"])
    longer, notes = np.zeros(len(runs), bool), []
    for name, vector in (("input", "E + P"), ("xi", "xi")):
        ratio = spikes[f"largest_{name}_ratio"].fillna(0).values
        by_vector = np.isin(runs, spikes["of_run"].values[ratio > 1])
        longer |= by_vector
        notes.append(
            f"{vector} moves by at most {ratio.max(initial=0):.2f} of its length, by"
            f" more than its length in {by_vector.sum()} runs"
        )
    return samples.percentage_of_ones(longer, "runs", "; ".join(notes))


def different_behaviours(evidence: xr.Dataset) -> Estimate:
    """Percentage of pairs of runs of which one alone escapes the first plateau, one
    alone is successful, or one alone has spikes."""
    behaviour = np.stack(
        [evidence["escaped"], evidence["successful"], evidence["spikes"] > 0], axis=-1
    )
    differ = (behaviour[:, None] != behaviour[None]).any(axis=-1)
    interval = as_percentage(fraction_of_pairs(differ.astype(np.float64)))
    counts = behaviour.sum(axis=0)
    note = "{} escape, {} are successful, {} have spikes".format(*counts)
    return Estimate(interval, len(behaviour), "runs", note=note)


def meets_condition(spikes: xr.Dataset, condition: str) -> xr.DataArray:
    """Which spikes are under a condition: (spike,) bool."""
    match condition:
        case "flips":
            return spikes["cause"].isin(["normalisation", "both"])
        case "flips over all steps":
            return spikes["flip_rise"] >= RISE_THRESHOLD
        case "crossings":
            return spikes["cause"].isin(["feed-forward", "both"])
        case "flips or crossings":
            return spikes["cause"] != "neither"
        case "turns":
            return spikes["turn"] > np.radians(TURN)
        case "flips, crossings or turns":
            return (spikes["cause"] != "neither") | meets_condition(spikes, "turns")
        case "half step":
            return spikes["remaining_half"] < RISE_THRESHOLD
        case "small descent":
            return spikes["remaining_descent_hundredth"] < 0
        case "descent":
            return spikes["remaining_descent"] > 0
        case _:  # smooth norm
            applies = spike_replays.smooth_norm_applies(spikes)
            return spikes["remaining_smooth"].where(applies) < RISE_THRESHOLD


def spike_percentage(evidence: xr.Dataset, condition: str) -> Estimate:
    """Percentage of spikes under a condition."""
    spikes = replayed_spikes(evidence)
    return _clustered_percentage(
        spikes, meets_condition(spikes, condition), "spikes", _note(spikes, condition)
    )


def spikes_without_flips(evidence: xr.Dataset, lr: float) -> Estimate:
    """Percentage of spikes at a learning rate for whose rise no flips account, neither
    in the replayed step nor over all steps."""
    spikes = replayed_spikes(evidence)
    spikes = spikes.isel(spike=np.isclose(spikes["lr"], lr))
    flips = meets_condition(spikes, "flips") | meets_condition(
        spikes, "flips over all steps"
    )
    note = (
        f"vectors flip in {int((spikes['flip_steps'] > 0).sum())} spikes and account"
        f" for {int(flips.sum())}; "
    )
    return _clustered_percentage(spikes, ~flips, "spikes", note)


def crossed_by_embedding(evidence: xr.Dataset) -> Estimate:
    """Percentage, of spikes with crossings, in which embeddings move over a boundary
    that stays."""
    spikes = replayed_spikes(evidence, "crossings")
    return _clustered_percentage(
        spikes, spikes["way"] == "embedding", "spikes with crossings"
    )


def replayed_spikes(evidence: xr.Dataset, condition: str = "") -> xr.Dataset:
    """The spikes whose loss rises when they are replayed, or those under a
    condition."""
    spikes = evidence.isel(spike=evidence["cause"].values != "")
    return (
        spikes.isel(spike=meets_condition(spikes, condition)) if condition else spikes
    )


def _clustered_percentage(
    spikes: xr.Dataset, hits: xr.DataArray, of: str, note: str = ""
) -> Estimate:
    """Percentage of spikes; the interval accounts for several spikes in a run."""
    if not len(hits):
        return Estimate(NO_INTERVAL, 0, of, note=f"no {of}")
    _, of_run = np.unique(spikes["of_run"].values, return_inverse=True)
    totals = np.bincount(of_run)
    interval = as_percentage(
        clustered_binomial_interval(
            np.bincount(of_run[hits.values], minlength=len(totals)), totals
        )
    )
    return Estimate(interval, len(hits), of, note=f"{note}in {len(totals)} runs")


def _note(spikes: xr.Dataset, condition: str) -> str:
    """A remark on the spikes under a condition, which ends with a separator."""
    if not spikes.sizes["spike"]:
        return ""
    if condition == "flips":
        largest = [float(spikes[name].max()) for name in ("input_ratio", "xi_ratio")]
        return "largest update of E + P {:.2f} of its length, of xi {:.2f}; ".format(
            *largest
        )
    if condition == "flips over all steps":
        count = int((spikes["flip_steps"] > 0).sum())
        most = 100 * float(spikes["flip_rise"].max())
        return (
            f"vectors flip in {count} spikes and account for at most {most:.0f}% of the"
            " rise; "
        )
    if condition == "small descent":
        uphill = 100 * float((spikes["remaining_hundredth"] > 0).mean())
        return f"a hundredth of Adam's update raises it in {uphill:.0f}%; "
    if condition == "turns":
        return f"median turn {np.median(np.degrees(spikes['turn'])):.1f} degrees; "
    return (
        f"{spike_replays.smooth_norm_applies(spikes).sum()} comparable; "
        if condition == "smooth norm"
        else ""
    )


def values_by_run(
    spikes: xr.Dataset, values: np.ndarray, middle: Callable = np.mean
) -> np.ndarray:
    """Mean or median of (spike,) values over the spikes of each run that has finite
    ones: (run,)."""
    of_run, finite = spikes["of_run"].values, np.isfinite(values)
    return np.array(
        [middle(values[finite & (of_run == run)]) for run in np.unique(of_run[finite])]
    )


def crossing_update(evidence: xr.Dataset) -> Estimate:
    """Largest update of a sequence embedding in percent of its length, in spikes with
    crossings: median over runs."""
    spikes = replayed_spikes(evidence, "crossings")
    values = 100 * values_by_run(spikes, spikes["xi_ratio"].values, np.median)
    return samples.estimate_median(values, "runs with such spikes")


def update_in_crossings(evidence: xr.Dataset) -> Estimate:
    """Largest update of a sequence embedding relative to its length, in spikes with
    crossings over that in other spikes: ratio of geometric means, runs left out in
    turn."""
    spikes = replayed_spikes(evidence)
    crossing = meets_condition(spikes, "crossings").values
    difference = samples.stratified_difference(
        np.log(spikes["xi_ratio"].values),
        crossing,
        ~crossing,
        groups=spikes["of_run"].values,
        strata=np.zeros(len(crossing)),
        of="spikes",
    )
    ratio = Interval(*np.exp(difference.interval))
    note = difference.note
    if not note:
        medians = (
            100 * spikes["xi_ratio"].values[kind] for kind in (crossing, ~crossing)
        )
        note = "medians {:.1f}% and {:.1f}%".format(*map(np.median, medians))
    return difference._replace(
        interval=ratio, effect=ratio.value, effect_name="ratio", note=note
    )


def crossing_closeness(evidence: xr.Dataset) -> Estimate:
    """Probability in percent that a sequence that crosses a boundary was closer to one
    than another: mean over runs."""
    spikes = replayed_spikes(evidence)
    values = 100 * values_by_run(spikes, spikes["closeness"].values)
    medians = [
        100 * spikes[f"{name}_distance"].median().item()
        for name in ("crossing", "other")
    ]
    note = (
        "median distance {:.1f}% of |xi|, of others {:.1f}%".format(*medians)
        if len(values)
        else ""
    )
    return samples.estimate_mean(values, "runs with such spikes", note)


def misclassified_beyond_ordinary(evidence: xr.Dataset) -> Estimate:
    """Percentage of sequences that the replayed step misclassifies, minus that of
    ordinary steps: mean over runs."""
    spikes = replayed_spikes(evidence)
    in_step, ordinary = (
        100 * spikes[f"crossed_{name}"] for name in ("in_step", "ordinary")
    )
    values = values_by_run(spikes, (in_step - ordinary).values)
    note = (
        f"{in_step.mean():.1f}% against {ordinary.mean():.1f}% of the sequences"
        if len(values)
        else ""
    )
    return samples.estimate_mean(values, "runs with spikes", note)


def mean_assembler_rank(evidence: xr.Dataset) -> Estimate:
    """Percentage of other escaped runs with a lower gain of the assemblers, in spikes
    with crossings: mean over runs."""
    spikes = replayed_spikes(evidence, "crossings")
    values, norm, alignment = (
        100 * values_by_run(spikes, spikes[f"{name}_rank"].values) for name in RANKED
    )
    note = (
        f"by size alone {norm.mean():.0f}%, by correlation alone"
        f" {alignment.mean():.0f}%"
        if len(values)
        else ""
    )
    interval = mean_interval(values)
    return Estimate(
        interval,
        len(values),
        "runs with such spikes",
        interval.value / 50 - 1,
        "rank-biserial",
        note,
    )
