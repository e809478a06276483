"""VC section 4.1: the same initial weights trained with other learning rates and batch
sizes."""

import dataclasses
from collections.abc import Sequence

import numpy as np
import xarray as xr

from analysis.clustering_heads.init_dependence import (
    ENDPOINT_MEASURES,
    endpoint_similarity,
)
from analysis.output.results import dimensionless
from analysis.reproduction.verification import (
    Estimate,
    Params,
    RequiredRuns,
    Runner,
    as_percentage,
    declare_experiment,
    samples,
)
from analysis.statistics import intervals, jackknife_runs, rank_correlation
from analysis.transitions import (
    DEFAULT_DETECTION,
    plateau_escape_times,
    trajectory_scalar,
)
from dynamics.settings import SparseSettings

CHANGES: tuple[dict, ...] = ({"lr": 0.002}, {"lr": 0.005}, {"batch": 16}, {"batch": 64})
"""Hyperparameters that are changed, one at a time, by a factor of at most 2."""

EVERY = 5
"""Epochs between frames."""


# --------------------------------------------------------------------------- experiment


def ensembles(params: Params) -> Sequence[RequiredRuns]:
    """The recipe, and each change of it. The recipe with every epoch, as other
    experiments need it."""
    base, epochs = SparseSettings(**params.get("settings", {})), params.get("epochs")
    changed = [
        dataclasses.replace(base, **change) for change in params.get("changes", CHANGES)
    ]
    others = [
        RequiredRuns(settings, params["runs"], epochs, EVERY) for settings in changed
    ]
    return [RequiredRuns(base, params["runs"], epochs), *others]


def measure(runner: Runner, params: Params) -> xr.Dataset:
    """When runs escape, (setting, run), and how similar they end to those with the
    recipe, (change, run)."""
    needs = ensembles(params)
    first, *others = (runner.ensemble(need) for need in needs)
    first = (
        first.isel(step=slice(None, None, EVERY))
        if (first.sizes["step"] - 1) % EVERY == 0
        else first
    )
    names = [
        f"{name} {value:g}"
        for change in params.get("changes", CHANGES)
        for name, value in change.items()
    ]
    similar = xr.concat(
        [_end_similarities(first, trajectory) for trajectory in others], "change"
    ).assign_coords(change=names)
    rows = [
        plateau_escape_times(trajectory_scalar(trajectory, "loss"))
        for trajectory in (first, *others)
    ]
    escapes = xr.concat(rows, "setting").assign_coords(setting=["recipe", *names])
    epoch_steps = xr.DataArray(
        [need.settings.epoch_steps or 1 for need in needs], dims="setting"
    )
    about = {
        "long_name": "when the first level is left, or the run ends",
        "units": "epochs",
    }
    return similar.merge(escapes[["escaped"]]).assign(
        wait=(escapes["escape"] / epoch_steps).assign_attrs(about)
    )


def _end_similarities(first: xr.Dataset, other: xr.Dataset) -> xr.Dataset:
    """Each of `ENDPOINT_MEASURES` between a run's two ends, and its mean between that
    run's end and those of others."""
    result, similarities = {}, endpoint_similarity(first, other)
    for name, (about, _) in ENDPOINT_MEASURES.items():
        own, others = samples.own_and_others(similarities[name].values)
        result[f"own_{name}"] = ("run", own, dimensionless(f"{about}, same seed"))
        result[f"other_{name}"] = (
            "run",
            others,
            dimensionless(f"{about}, other seeds"),
        )
    return xr.Dataset(result)


RELATIVES = declare_experiment(
    "vc.relatives",
    measure,
    ensembles,
    depends={"rule": dataclasses.asdict(DEFAULT_DETECTION), "every": EVERY},
)


# ---------------------------------------------------------------------------- estimates


def escape_times_apart(evidence: xr.Dataset) -> Estimate:
    """Percentage of pairs of runs, with the recipe and with a change, whose escape
    times differ by a factor of 2.

    A run that does not escape counts as later than its end. Pairs for which this does
    not decide are left out."""
    wait, escaped = evidence["wait"].values, evidence["escaped"].values.astype(bool)
    both, one = escaped[:1] & escaped[1:], escaped[:1] ^ escaped[1:]
    far = np.maximum(wait[:1], wait[1:]) > 2 * np.minimum(wait[:1], wait[1:])
    far &= both | (one & (escaped[:1] == (wait[:1] < wait[1:])))
    decided = both | far
    note = (
        f"without pairs of which none escapes, and {int((one & ~decided).sum())} of which"
        " one escapes too late to tell"
    )
    interval = as_percentage(
        intervals.clustered_binomial_interval(far.sum(axis=0), decided.sum(axis=0))
    )
    return Estimate(interval, int(decided.sum()), "pairs of runs", note=note)


def escape_time_correlation(evidence: xr.Dataset) -> Estimate:
    """Rank correlation of escape times with the recipe and with a change, mean over
    changes, of runs that escape with both. Interval over runs."""
    times = evidence["wait"].where(evidence["escaped"].astype(bool)).values
    times = times[:, np.isfinite(times[0]) & np.isfinite(times[1:]).any(axis=0)]

    def mean_correlation(runs: np.ndarray) -> float:
        recipe, *others = times[:, runs]
        correlations = []
        for changed in others:
            escaped = np.isfinite(changed)
            correlations.append(
                rank_correlation(recipe[escaped], changed[escaped]).value
            )
        if not np.isfinite(correlations).any():
            return float("nan")
        return float(np.nanmean(correlations))

    count = times.shape[1]
    if count < 4:
        return Estimate(
            intervals.NO_INTERVAL, count, note="too few runs escape with both settings"
        )
    interval = jackknife_runs(mean_correlation, count)
    return Estimate(
        interval, count, "runs that escape", interval.value, "Spearman's rho"
    )


def end_similarity(evidence: xr.Dataset, name: str) -> Estimate:
    """A measure between the ends of a run with the recipe and with a change: mean over
    changes, then over runs. The note compares it with that between the ends of
    different seeds."""
    own, others = evidence[f"own_{name}"], evidence[f"other_{name}"]
    estimate = samples.estimate_mean(own.mean("change"))
    if not estimate.count:
        return estimate._replace(note="all runs have diverged")
    note = ", ".join(
        f"{float(similarity.mean()):.2f} with {similarity['change'].item()}"
        for similarity in own
    )
    apart = samples.paired_difference(
        own.mean("change"), others.mean("change")
    ).interval
    note += f"; between different seeds {float(others.mean('change').mean()):.2f}"
    return estimate._replace(
        note="{}, a difference of {:.2f} [{:.2f}, {:.2f}]".format(note, *apart)
    )
