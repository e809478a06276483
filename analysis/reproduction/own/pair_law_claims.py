"""How much of the gradient of CA's embeddings any force between pair sums explains."""

from collections.abc import Sequence

import xarray as xr

from analysis.forces.fitted_laws import LAWS, fit_pair_law
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
from dynamics.settings import ModularSettings
from dynamics.trajectory.diverged import not_diverged
from dynamics.trajectory.selection import Selection

FORMING = 90
"""Epoch, of those measured, at which structures form."""


def ensembles(params: Params) -> Sequence[RequiredRuns]:
    """Networks with weight decay 1."""
    return [experiment_runs(ModularSettings(weight_decay=1.0), params)]


def measure(runner: Runner, params: Params) -> xr.Dataset:
    """R² of each law on runs and frames that it was not fitted to, (law, epoch,
    run)."""
    trajectory = runner.ensemble(ensembles(params)[0])
    trajectory = trajectory.isel(run=not_diverged(trajectory))
    frames = Selection(frames=params["frames"], spacing="early")
    r_squared = fit_pair_law(trajectory, frames=frames)["r_squared"]
    r_squared = r_squared.sel(space="whole").transpose("law", "step", "run")
    words = "fraction of the negative gradient that the law explains"
    return described(
        ("law", "epoch", "run"),
        {"r_squared": (r_squared.values, words)},
        {"law": list(LAWS), "epoch": r_squared["step"].values},
    )


def r_squared(evidence: xr.Dataset, law: str, epoch: int) -> xr.DataArray:
    """R² of a law at the measured epoch that is nearest: (run,)."""
    return evidence["r_squared"].sel(law=law).sel(epoch=epoch, method="nearest")


def less_than(evidence: xr.Dataset, other: str, epoch: int = FORMING) -> Estimate:
    """R² of the fitted pair law less that of another law."""
    fitted = r_squared(evidence, "pair law", epoch)
    return estimates.paired_difference(
        fitted, r_squared(evidence, other, epoch), "networks"
    )


def explained_less_left(evidence: xr.Dataset) -> Estimate:
    """The part of the gradient that the fitted pair law explains, less the part that it
    does not."""
    explained = r_squared(evidence, "pair law", FORMING)
    return estimates.paired_difference(explained, 1 - explained, "networks")


PAIR_LAW = Claim(
    "OWN.pair-law",
    "",
    "",
    "While structures form, a law of the distance and the angle of two pair sums that is"
    " fitted to the gradient explains more of it than CA's forces, but less than it"
    " leaves unexplained.",
    (
        Number(
            lambda evidence: less_than(evidence, "CA"),
            Sign.POSITIVE,
            "R² of the fitted law less that of CA's, epoch 90",
            digits=2,
        ),
        Number(
            explained_less_left,
            Sign.NEGATIVE,
            "explained less unexplained part, fitted law, epoch 90",
            digits=2,
        ),
        Number(
            lambda evidence: less_than(evidence, "renamed"),
            Sign.POSITIVE,
            "R² of the fitted law less that with renamed tokens, epoch 90",
            digits=2,
        ),
        Number(
            lambda evidence: less_than(evidence, "CA", 2000),
            Sign.POSITIVE,
            "R² of the fitted law less that of CA's, epoch 2000",
            digits=2,
        ),
        Number(
            lambda evidence: less_than(evidence, "renamed", 2000),
            Sign.POSITIVE,
            "R² of the fitted law less that with renamed tokens, epoch 2000",
            digits=2,
        ),
    ),
    "Weight decay 1; laws are compared on networks and epochs that they were not fitted"
    " to. CA's law has its own constants. At epoch 90 it explains most of what the fitted law"
    " does. At epoch 2000 a law that is fitted with renamed tokens explains as much, so"
    " that what the fitted law explains there says nothing about which sums are equal.",
    summary="while structures form, a law of distance and angle that is fitted to other"
    " networks explains more of the gradient than CA's, but less than half",
)

EXPERIMENT = Experiment(
    "own.pair-law",
    "how much of the gradient of the embeddings CA's law and fitted laws explain",
    measure,
    quick=Sizing(8, {"runs": 20, "frames": 8}),
    default=Sizing(40, {"runs": 100, "frames": 8}),
    ensembles=ensembles,
    command="python -m analysis.pair_law RUN.nc",
    claims=(PAIR_LAW,),
)
