"""VC section 4.1: the same initial weights trained with other learning rates and batch
sizes."""

import dataclasses
from collections.abc import Mapping, Sequence

import xarray as xr

from analysis.clustering_heads.init_dependence import (
    ENDPOINT_MEASURES,
    endpoint_similarity,
)
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
    experiment_runs,
)
from dynamics.settings import SparseSettings

CHANGES: tuple[Mapping[str, float], ...] = (
    {"lr": 0.002},
    {"lr": 0.005},
    {"batch": 16},
    {"batch": 64},
)
"""Hyperparameters that are changed, one at a time, by a factor of at most 2."""


def ensembles(params: Params) -> Sequence[RequiredRuns]:
    """The recipe, with every epoch, as other experiments need it, and each change of
    it, of which only the first and the last frame are needed."""
    recipe = experiment_runs(SparseSettings(), params)
    changed = [
        dataclasses.replace(recipe.settings, **change)
        for change in params.get("changes", CHANGES)
    ]
    return [
        recipe,
        *(RequiredRuns(one, recipe.runs, recipe.epochs, every=0) for one in changed),
    ]


def measure(runner: Runner, params: Params) -> xr.Dataset:
    """How similar runs end to those with the recipe, (change, run)."""
    recipe, *others = (runner.ensemble(need) for need in ensembles(params))
    names = [
        f"{name} {value:g}"
        for change in params.get("changes", CHANGES)
        for name, value in change.items()
    ]
    similar = [_end_similarities(recipe, trajectory) for trajectory in others]
    return xr.concat(similar, "change").assign_coords(change=names)


def _end_similarities(recipe: xr.Dataset, other: xr.Dataset) -> xr.Dataset:
    """Distance of weights and correlation of attention between a run's two ends, and
    their means between that run's end and those of others."""
    similarities = endpoint_similarity(recipe, other)
    columns = {}
    for name in ("weight_distance", "attention_correlation"):
        about = ENDPOINT_MEASURES[name].meaning
        own, others = estimates.own_and_others(similarities[name].values)
        columns[f"own_{name}"] = (own, f"{about}, same seed")
        columns[f"other_{name}"] = (others, f"{about}, other seeds")
    return described("run", columns)


def end_similarity(evidence: xr.Dataset, name: str) -> Estimate:
    """A measure between the ends of a run with the recipe and with a change, less that
    between the ends of different seeds: mean over changes, then over runs."""
    own, others = (
        evidence[f"{whose}_{name}"].mean("change") for whose in ("own", "other")
    )
    difference = estimates.paired_difference(own, others)
    return estimates.note_means(difference, own, others, digits=2)


def distance_of_ends(evidence: xr.Dataset) -> Estimate:
    """The distance between the ends of a run with the recipe and with a change, over
    the mean of their distances from the start, less 1: mean over changes, then over
    runs."""
    distance = evidence["own_weight_distance"].mean("change")
    return estimates.estimate_mean(100 * (distance - 1))


FINAL_WEIGHTS = Claim(
    "VC.s4.1.final-weights",
    "section 4.1",
    "does not significantly alter the final weight configurations",
    "Other hyperparameters with the same initial weights hardly alter the final weights.",
    (
        Number(
            distance_of_ends,
            Sign.NEGATIVE,
            "distance between the two ends of a run, over their distance from the start,"
            " less 1",
            "%",
        ),
        Number(
            lambda evidence: end_similarity(evidence, "weight_distance"),
            Sign.NEGATIVE,
            "this distance, less that between ends of other initial weights",
            digits=2,
        ),
        Number(
            lambda evidence: end_similarity(evidence, "attention_correlation"),
            Sign.POSITIVE,
            "correlation of final attention of the two ends, less that with other"
            " initial weights",
            digits=2,
        ),
    ),
    "The two ends of a run are further from each other than from their start, though"
    " nearer than ends of other initial weights. Learning rates are .002 and .005 in"
    " place of .003, batches 16 and 64 in place of 32.",
    summary="other hyperparameters hardly alter the final weights",
)

RELATIVES = Experiment(
    "vc.relatives",
    "where the same initial weights end with other learning rates and batch sizes",
    measure,
    quick=Sizing(5, {"runs": 24}, "24 runs instead of 100"),
    default=Sizing(10, {"runs": 100}),
    ensembles=ensembles,
    version=2,
    command="python -m analysis.circuits RUN.nc OTHER.nc",
    claims=(FINAL_WEIGHTS,),
)
