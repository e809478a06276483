"""VC section 4.1: the same initial weights trained with other learning rates and batch sizes."""

import dataclasses
from collections.abc import Sequence

import numpy as np
import xarray as xr

from analysis.clustering_heads.init_dependence import ENDPOINT_MEASURES, endpoint_similarity
from analysis.output.results import dimensionless
from analysis.reproduction.verification import samples
from analysis.reproduction.verification.claim import Claim, claims_of, finding, part
from analysis.reproduction.verification.criteria import Above, Below
from analysis.reproduction.verification.estimate import Estimate, as_percentage
from analysis.reproduction.verification.experiment import Experiment, Params, RequiredRuns, Runner, sized
from analysis.statistics import jackknife_runs, rank_correlation
from analysis.statistics.intervals import NO_INTERVAL, clustered_binomial_interval
from analysis.transitions import DEFAULT_DETECTION, plateau_escape_times, trajectory_scalar
from dynamics.settings import SparseSettings

CHANGES: tuple[dict, ...] = ({"lr": 0.002}, {"lr": 0.005}, {"batch": 16}, {"batch": 64})
"""Hyperparameters that are changed, one at a time, by a factor of at most 2."""

EVERY = 5
"""Epochs between frames."""

TWICE = 2.0
"""Factor between two times from which on they differ much."""


# ---------------------------------------------------------------------------------------------- experiment


def ensembles(params: Params) -> Sequence[RequiredRuns]:
    """The recipe, and each change of it. The recipe with every epoch, as other experiments need it."""
    base, epochs = SparseSettings(**params.get("settings", {})), params.get("epochs")
    changed = [dataclasses.replace(base, **change) for change in params.get("changes", CHANGES)]
    others = [RequiredRuns(each, params["runs"], epochs, EVERY) for each in changed]
    return [RequiredRuns(base, params["runs"], epochs), *others]


def measure(runner: Runner, params: Params) -> xr.Dataset:
    """When runs escape, (setting, run), and how similar they end to those with the recipe, (change, run)."""
    needs = ensembles(params)
    first, *others = (runner.ensemble(need) for need in needs)
    first = first.isel(step=slice(None, None, EVERY)) if (first.sizes["step"] - 1) % EVERY == 0 else first
    names = [f"{name} {value:g}" for change in params.get("changes", CHANGES) for name, value in change.items()]
    similar = xr.concat([_end_similarities(first, each) for each in others], "change").assign_coords(change=names)
    escapes = [
        _escapes(each, need.settings.epoch_steps or 1) for each, need in zip((first, *others), needs, strict=True)
    ]
    return similar.merge(xr.concat(escapes, "setting").assign_coords(setting=["recipe", *names]))


def _end_similarities(first: xr.Dataset, other: xr.Dataset) -> xr.Dataset:
    """Each of `ENDPOINT_MEASURES` between a run's two ends, and its mean between that run's end and those of others."""
    result, found = {}, endpoint_similarity(first, other)
    for name, (about, _) in ENDPOINT_MEASURES.items():
        own, others = samples.own_and_others(found[name].values)
        result[f"own_{name}"] = ("run", own, dimensionless(f"{about}, same seed"))
        result[f"other_{name}"] = ("run", others, dimensionless(f"{about}, other seeds"))
    return xr.Dataset(result)


def _escapes(trajectory: xr.Dataset, epoch_steps: int) -> xr.Dataset:
    """The epoch at which a run leaves its first level, or the last one, and whether it does."""
    found = plateau_escape_times(trajectory_scalar(trajectory, "loss"))
    about = {"long_name": "when the first level is left, or the run ends", "units": "epochs"}
    epochs, escaped = found["escape"].values / epoch_steps, found["escaped"].values
    return xr.Dataset(
        {"wait": ("run", epochs, about), "escaped": ("run", escaped, {"long_name": "whether the first level is left"})}
    )


RELATIVES = Experiment(
    "vc.relatives",
    "the same initial weights with other learning rates and batch sizes: when runs escape, where they end",
    measure=measure,
    quick=sized(5, "24 runs instead of 100", runs=24),
    default=sized(10, runs=100),
    ensembles=ensembles,
    depends={"rule": dataclasses.asdict(DEFAULT_DETECTION), "every": EVERY},
    command="python -m analysis.circuits A.nc OTHER.nc",
)


# ----------------------------------------------------------------------------------------------- estimates


def escape_times_apart(evidence: xr.Dataset) -> Estimate:
    """Percentage of pairs of runs, with the recipe and with a change, whose escape times differ by a factor of TWICE.

    A run that does not escape counts as later than its end. Pairs for which this does not decide are left out.
    """
    wait, escaped = evidence["wait"].values, evidence["escaped"].values.astype(bool)
    both, one = escaped[:1] & escaped[1:], escaped[:1] ^ escaped[1:]
    far = np.maximum(wait[:1], wait[1:]) > TWICE * np.minimum(wait[:1], wait[1:])
    far &= both | (one & (escaped[:1] == (wait[:1] < wait[1:])))
    known = both | far
    note = f"{int((one & ~known).sum())} pairs of which one escapes too late to decide, and those of which none does, "
    found = as_percentage(clustered_binomial_interval(far.sum(axis=0), known.sum(axis=0)))
    return Estimate(found, int(known.sum()), "pairs of runs", note=f"{note}are left out")


def escape_time_correlation(evidence: xr.Dataset) -> Estimate:
    """Rank correlation of escape times with the recipe and with a change, mean over changes, of runs that escape with
    both. Interval over runs."""
    wait, escaped = evidence["wait"].values, evidence["escaped"].values.astype(bool)

    def mean_correlation(runs: np.ndarray) -> float:
        values = []
        for other in range(1, len(wait)):
            both = runs[escaped[0, runs] & escaped[other, runs]]
            values.append(rank_correlation(wait[0, both], wait[other, both]).value)
        return float(np.nanmean(values)) if np.isfinite(values).any() else float("nan")

    ever = np.flatnonzero(escaped[0] & escaped[1:].any(axis=0))
    if len(ever) < 4:
        return Estimate(NO_INTERVAL, len(ever), note="too few runs escape with both settings")
    found = jackknife_runs(lambda places: mean_correlation(ever[places]), len(ever))
    return Estimate(found, len(ever), "runs that escape", found.value, "Spearman's rho")


def end_similarity(evidence: xr.Dataset, name: str) -> Estimate:
    """A measure between the ends of a run with the recipe and with a change: mean over changes, then over runs."""
    own, others = evidence[f"own_{name}"], evidence[f"other_{name}"]
    found = samples.estimate_mean(own.mean("change"))
    if not found.count:
        return found._replace(note="all runs have diverged")
    note = ", ".join(f"{float(each.mean()):.2f} with {each['change'].item()}" for each in own)
    return found._replace(note=f"{note}; between different seeds {float(others.mean('change').mean()):.2f}")


def excess_end_similarity(evidence: xr.Dataset, name: str) -> Estimate:
    """How much nearer a run's ends are to each other than to those of other seeds, mean over changes, then runs."""
    nearer = (evidence[f"other_{name}"] - evidence[f"own_{name}"]).mean("change").values
    return samples.paired_difference(nearer, np.zeros_like(nearer))


# -------------------------------------------------------------------------------------------------- claims

CHANGED = "learning rate .002 or .005, or batches of 16 or 64"

CLAIMS = claims_of(
    RELATIVES,
    finding(
        "VC.s4.1.time-varies",
        "The time until the phase change varies much if hyperparameters change.",
        f"percentage of seeds whose escape times with the recipe and with {CHANGED} differ by a factor of 2",
        (part(escape_times_apart, Above(10, 10, ours=True), "a factor of 2 apart", "%"),),
    ),
    Claim(
        "VC.s4.1.time-unpredictable",
        "The time that a run needs to escape from the first saddle point is hard to predict.",
        f"rank correlation of the escape times of the same seeds with the recipe and with {CHANGED}",
        (part(escape_time_correlation, Below(0.7, 0.1, ours=True), "rank correlation", digits=2),),
        departure="the predictor is the escape of the same initial weights with other hyperparameters",
    ),
    finding(
        "VC.s4.1.final-weights",
        "Other hyperparameters with the same initial weights do not alter the final weights significantly.",
        f"ends of a seed with the recipe and with {CHANGED}: distance of all weights relative to the way from start "
        "(1.4 for unrelated directions), and correlation of attention maps",
        (
            part(end_similarity, Below(0.5, 0.1, ours=True), "distance of weights", digits=2, name="weight_distance"),
            part(end_similarity, Above(0.7, 0.1, ours=True), "attention", digits=2, name="attention_correlation"),
            part(excess_end_similarity, Above(0, 0.1), "nearer than other seeds", digits=2, name="weight_distance"),
        ),
        meaning="the initial weights alone do not determine where a run ends; the training matters too",
    ),
)
