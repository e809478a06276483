"""CA table 2: what particles have become at three alignment constants."""

from collections.abc import Sequence

import numpy as np
import xarray as xr

from analysis.reproduction.experiments.samples import mean
from analysis.reproduction.figures.figure import Ensemble
from analysis.reproduction.verification.experiment import Lab, Params, Size, Study
from analysis.reproduction.verification.finding import Finding, share
from analysis.structures.circles_and_grids import imperfections, is_circle
from dynamics.settings import ParticleSettings
from dynamics.simulation import end_embedding

FAS = (0.5, 1.0, 2.0)
"""Alignment constants of the table."""


def ensembles(params: Params) -> Sequence[Ensemble]:
    """Particles of each row."""
    return [Ensemble(ParticleSettings(fa=fa), params["runs"]) for fa in FAS]


def measure(lab: Lab, params: Params) -> xr.Dataset:
    """Circles and imperfections at the end, (fa, run); a run that diverged has neither."""
    circle = np.full((len(FAS), params["runs"]), np.nan)
    imperfect = circle.copy()
    for place, need in enumerate(ensembles(params)):
        ends = end_embedding(lab.ensemble(need))
        circle[place, ends["seed"]] = is_circle(ends.values)
        imperfect[place, ends["seed"]] = imperfections(ends.values)
    return xr.Dataset(
        {"circle": (("fa", "run"), circle), "imperfections": (("fa", "run"), imperfect)}, {"fa": list(FAS)}
    )


TABLE_2 = Study(
    "ca.table2",
    "what particles have become after 100 steps with f_a = 0.5, 1 and 2",
    sizes={Size.QUICK: {"runs": 100}, Size.DEFAULT: {"runs": 1000}, Size.FULL: {"runs": 1000}},
    seconds={Size.QUICK: 1, Size.DEFAULT: 2, Size.FULL: 2},
    measure=measure,
    ensembles=ensembles,
    command="python -m analysis.table2 --runs 1000",
)


def circles(evidence: xr.Dataset, fa: float) -> Finding:
    """Percentage of circles at an alignment constant."""
    circle = evidence["circle"].sel(fa=fa).dropna("run").values
    return share(int(circle.sum()), len(circle), "simulations")


def grid_imperfections(evidence: xr.Dataset, fa: float) -> Finding:
    """Mean imperfections of the runs that are not circles."""
    row = evidence.sel(fa=fa)
    values = row["imperfections"].values[row["circle"].values == 0]
    return mean(values, "simulations that are not circles")
