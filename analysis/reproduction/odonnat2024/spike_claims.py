"""VC section 4.3, figures 12 to 14: spikes of the training loss, replayed step by step
and attributed to a cause (`analysis.transitions.spike_attribution`).

The steepest step of each spike is examined. An update is compared with the length of
the vectors that are normalised: E + P of a token and position, and the embedding xi of
a sequence. A vector flips if its update is longer than it and turns it by over a right
angle."""

import itertools
from collections.abc import Sequence

import numpy as np
import pandas as pd
import xarray as xr

from analysis.reproduction import estimates
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
from analysis.reproduction.odonnat2024.circuit_claims import default_networks
from analysis.statistics import Interval
from analysis.transitions import (
    DEFAULT_DETECTION,
    plateau_escape_times,
    spike_replays,
    trajectory_scalar,
)
from analysis.transitions.spike_attribution import RISE_THRESHOLD, SMOOTH_NORM_AGREEMENT
from analysis.transitions.spike_steps import MAX_ORDINARY_STEPS
from dynamics.networks.threads import single_torch_thread
from dynamics.settings import SparseSettings

RANKED = ("gain", "norm", "alignment")
"""Measures of the assemblers: largest singular value, Frobenius norm, fraction of its
square along one direction."""
FLIP_MEASURES = ("flip_steps", "flip_rise", "largest_input_ratio", "largest_xi_ratio")
SPIKE_MEASURES = [
    *"of_run cause feed_forward_share xi_ratio xi_ratio_ordinary flip_steps".split(),
    *"flip_rise flips_in_rise flips_ordinary closeness".split(),
    *("crossed_in_step", "crossed_ordinary"),
]
"""Measures of a spike in the evidence, of those in
`analysis.transitions.spike_replays`."""


def measure(runner: Runner, params: Params) -> xr.Dataset:
    """Cause and steps of each spike, rank of its assemblers among those of other runs,
    (spike,)."""
    trajectory = runner.ensemble(default_networks(params)[0])
    with single_torch_thread():
        spikes = spike_replays.attribute_spikes(
            trajectory, spike_replays.recorded_spikes(trajectory)
        )
    escapes = plateau_escape_times(trajectory_scalar(trajectory, "loss"))
    ranks = assembler_ranks(trajectory, spikes, escapes)
    return spikes[SPIKE_MEASURES].merge(ranks).drop_vars("seed", errors="ignore")


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
        smaller = (measures < own) + 0.5 * (measures == own)
        ranks[:, spike] = smaller[:, others].mean(axis=1)
    about = "fraction of other escaped runs whose assemblers have a smaller measure"
    columns = {
        f"{name}_rank": (rank, about) for name, rank in zip(RANKED, ranks, strict=True)
    }
    return described("spike", columns)


OF = "runs with such spikes"
GRID = ("lr", "norm", "table")
"""Settings of the experiment with flips: learning rate, norm, rows of the embedding
table."""


def grid_ensembles(params: Params) -> Sequence[RequiredRuns]:
    """Runs in each setting of a grid of learning rates, norms and rows of the embedding
    table."""
    values = itertools.product(*(params[name] for name in GRID))
    rest = params.get("settings", {})
    size = (params["runs"], params.get("epochs"))
    return [
        RequiredRuns(
            SparseSettings(**(rest | dict(zip(GRID, value, strict=True)))), *size
        )
        for value in values
    ]


def measure_grid(runner: Runner, params: Params) -> xr.Dataset:
    """Causes of spikes, evenly spaced over the runs of each setting: (spike,). Runs are
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


# --------------------------------------------------------------------------- the spikes


def replayed_spikes(evidence: xr.Dataset) -> xr.Dataset:
    """The spikes whose loss rises when they are replayed."""
    return evidence.isel(spike=evidence["cause"].values != "")


def with_crossings(spikes: xr.Dataset) -> xr.Dataset:
    """The spikes of which sequences that cross a decision boundary make half of the rise
    or more."""
    return spikes.isel(spike=spikes["cause"].isin(["feed-forward", "both"]).values)


def run_means(spikes: xr.Dataset, values: estimates.Values) -> np.ndarray:
    """Means of values (spike,) over the spikes of each run, (run,)."""
    series = pd.Series(np.asarray(values, np.float64))
    return series.groupby(spikes["of_run"].values).mean().to_numpy()


def difference_over_runs(
    spikes: xr.Dataset, first: xr.DataArray, second: xr.DataArray
) -> Estimate:
    """Mean over runs of the difference of two values of their spikes, first - second."""
    one, other = (run_means(spikes, values) for values in (first, second))
    difference = estimates.paired_difference(one, other, OF)
    return estimates.note_means(difference, one, other, "%")


def misclassified_beyond_ordinary(evidence: xr.Dataset) -> Estimate:
    """Percentage of sequences that the steepest step misclassifies, minus that of
    ordinary steps."""
    spikes = replayed_spikes(evidence)
    crossed = 100 * spikes[["crossed_in_step", "crossed_ordinary"]]
    return difference_over_runs(spikes, *crossed.data_vars.values())


def beyond_half(spikes: xr.Dataset, name: str) -> Estimate:
    """A fraction, in percent, minus 50: mean over runs."""
    return estimates.estimate_mean(run_means(spikes, 100 * spikes[name] - 50), OF)


def move_in_step(evidence: xr.Dataset) -> Estimate:
    """Largest update of a sequence embedding over its length in the steepest step,
    relative to ordinary steps before the spike, as a change in percent: geometric mean
    over spikes with crossings, then over runs."""
    spikes = with_crossings(replayed_spikes(evidence))
    logarithm = np.log(spikes["xi_ratio"] / spikes["xi_ratio_ordinary"])
    estimate = estimates.estimate_mean(run_means(spikes, logarithm), OF)
    ratio = Interval(*np.exp(estimate.interval).tolist())
    return estimates.percent_change(estimate._replace(interval=ratio))


CROSSING = Claim(
    "VC.figure13.crossing",
    "section 4.3, figure 13",
    "due to the decision boundaries of the feedforward layer being quite close",
    "Most of the rise in loss spikes is due to sequence embeddings that cross a decision"
    " boundary of the MLP.",
    (
        Number(
            lambda evidence: beyond_half(
                replayed_spikes(evidence), "feed_forward_share"
            ),
            Sign.POSITIVE,
            "part of the rise due to sequences that cross a boundary, minus half",
            "points",
        ),
        Number(
            misclassified_beyond_ordinary,
            Sign.POSITIVE,
            "sequences that the steepest step misclassifies, minus ordinary steps",
            "points",
        ),
        Number(
            lambda evidence: beyond_half(replayed_spikes(evidence), "closeness"),
            Sign.POSITIVE,
            "probability that a crossing sequence was closer than another, minus half",
            "points",
        ),
        Number(
            move_in_step,
            Sign.POSITIVE,
            "largest change of a sequence embedding, relative to ordinary steps",
            "%",
            digits=0,
        ),
    ),
    "Crossing is not all: in many spikes sequences only lose confidence. The caption says"
    " that the sequence embeddings change by a small amount; they change far more than in"
    " ordinary steps, which does not show that the change is large. That crossing"
    " sequences were close to the boundary is partly a matter of geometry.",
    summary="most of the rise in loss spikes is due to sequence embeddings that cross a"
    " decision boundary of the MLP",
    figure="vc13",
)


def rank_number(name: str, label: str) -> Number:
    """The rank of the assemblers by one of `RANKED`, before spikes with crossings."""
    return Number(
        lambda evidence: beyond_half(
            with_crossings(replayed_spikes(evidence)), f"{name}_rank"
        ),
        Sign.POSITIVE,
        f"other runs whose assemblers have a smaller {label}, minus half",
        "points",
    )


ASSEMBLERS = Claim(
    "VC.figure14.assemblers",
    "section 4.3, figure 14",
    "This is due to heavy, or small but heavily correlated assemblers",
    "Spikes in which boundaries are crossed are due to assemblers (the MLP's output"
    " weights) that are large, or small and correlated.",
    (
        rank_number("gain", "largest singular value"),
        rank_number("norm", "norm"),
        rank_number("alignment", "correlation"),
    ),
    "Runs are compared before spikes with crossings. The largest singular value grows"
    " with size and with correlation. Only the correlation alone is clearly higher"
    " before such spikes.",
    summary="heavy or correlated assemblers cause spikes",
    figure="vc14",
)


def flips_beyond_ordinary(evidence: xr.Dataset) -> Estimate:
    """Percentage of the steps from the foot of a spike to its peak in which a vector
    flips, minus that of ordinary steps."""
    spikes = replayed_spikes(evidence)
    steps = 100 * spikes[["flips_in_rise", "flips_ordinary"]]
    difference = difference_over_runs(spikes, *steps.data_vars.values())
    flips = spikes["flip_steps"].values > 0
    most = 100 * spikes["flip_rise"].values.max(initial=0)
    note = (
        f"vectors flip in {flips.sum()} of {flips.size} spikes and carry at most"
        f" {most:.0f}% of the rise"
    )
    return difference._replace(note=note)


NORMALISATION = Claim(
    "VC.s4.3.normalisation",
    "section 4.3, figure 12",
    "high curvature of the RMS normalization layer near the origin",
    "Steps longer than a vector near the origin reverse its direction in normalisation,"
    " which causes some loss spikes.",
    (
        Number(
            flips_beyond_ordinary,
            Sign.POSITIVE,
            "steps in which a vector reverses its direction, in spikes minus in ordinary"
            " steps",
            "points",
            digits=2,
        ),
    ),
    "Reversals are so rare, in spikes as elsewhere, that they can explain hardly any"
    " spike of the default recipe; OWN.flips has other learning rates and norms. Turns"
    " short of a reversal are not counted.",
    summary="steps that are too long for the normalisation cause spikes (reversals are"
    " rare)",
    figure="vc12",
)


def crossings_minus_flips(evidence: xr.Dataset, lr: float | None = None) -> Estimate:
    """Percentage of spikes, at one learning rate or all, of which crossings make half of
    the rise, minus that of which flips do."""
    spikes = replayed_spikes(evidence)
    if lr is not None:
        spikes = spikes.isel(spike=np.isclose(spikes["lr"].values, lr))
    crossings, flips = (
        100.0 * (spikes["cause"] == cause)
        for cause in ("feed-forward", "normalisation")
    )
    return difference_over_runs(spikes, crossings, flips)


def rate_number(lr: float | None) -> Number:
    """The difference at a learning rate, or over all."""
    at = "all learning rates" if lr is None else f"learning rate {lr:g}"
    return Number(
        lambda evidence: crossings_minus_flips(evidence, lr),
        Sign.POSITIVE,
        f"spikes due to crossings, minus those due to flips, {at}",
        "points",
    )


FLIPS = Claim(
    "OWN.flips",
    "",
    "",
    "Loss spikes of VC's network are more often due to crossed decision boundaries than"
    " to flipped vectors, at four learning rates.",
    tuple(map(rate_number, (None, 0.001, 0.003, 0.01, 0.03))),
    "A spike is due to crossings or flips if sequences whose embedding crosses a"
    " boundary, or whose normalised vector flips, carry half of its rise or more. About"
    " four in ten are due to neither. Over three norms (that of the code, that of the"
    " paper, and the smooth one) and embedding tables of two and three rows.",
    summary="VC's spikes are more often due to crossed boundaries than to flipped"
    " vectors",
    figure="vc12",
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
SPIKES = Experiment(
    "vc.spikes",
    "every spike of the loss replayed step by step, and its cause",
    measure,
    quick=Sizing(25, {"runs": 24}, "24 runs, not 100"),
    default=Sizing(90, {"runs": 100}),
    ensembles=default_networks,
    depends=DEPENDS,
    version=4,
    command="python -m analysis.spikes RUN.nc",
    claims=(NORMALISATION, CROSSING, ASSEMBLERS),
)
_RATES_AND_NORMS = {
    "lr": [0.001, 0.003, 0.01, 0.03],
    "norm": ["rms", "unit", "rms-smooth"],
    "table": [2, 3],
}
FLIP_GRID = Experiment(
    "vc.flips",
    "causes of spikes at other learning rates, norms and embedding tables",
    measure_grid,
    quick=Sizing(
        12,
        {**_RATES_AND_NORMS, "lr": [0.003, 0.03], "runs": 4, "spikes": 4},
        "4 runs in each of 12 settings",
    ),
    default=Sizing(
        130,
        {**_RATES_AND_NORMS, "runs": 20, "spikes": 40},
        "20 runs in each of 24 settings",
    ),
    full=Sizing(320, {**_RATES_AND_NORMS, "runs": 50, "spikes": 100}),
    ensembles=grid_ensembles,
    depends=DEPENDS,
    claims=(FLIPS,),
)
