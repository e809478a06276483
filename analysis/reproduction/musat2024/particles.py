"""CA table 2: what particles have become at three alignment constants."""

from collections.abc import Sequence

import numpy as np
import xarray as xr

from analysis.reproduction.verification.estimate import Estimate, percentage
from analysis.reproduction.verification.experiment import Experiment, Params, Runner, Size
from analysis.reproduction.verification.required_runs import RequiredRuns
from analysis.reproduction.verification.samples import estimate_mean
from analysis.structures.circles_and_grids import count_imperfections, is_circle
from dynamics.branching import final_embedding
from dynamics.settings import ParticleSettings

FAS = (0.5, 1.0, 2.0)
"""Alignment constants of the table."""


def ensembles(params: Params) -> Sequence[RequiredRuns]:
    """Particles of each row."""
    return [RequiredRuns(ParticleSettings(fa=fa), params["runs"]) for fa in FAS]


def measure(runner: Runner, params: Params) -> xr.Dataset:
    """Circles and imperfections at the end, (fa, run); a run that diverged has neither."""
    circle = np.full((len(FAS), params["runs"]), np.nan)
    imperfect = circle.copy()
    for place, need in enumerate(ensembles(params)):
        ends = final_embedding(runner.ensemble(need))
        circle[place, ends["seed"]] = is_circle(ends.values)
        imperfect[place, ends["seed"]] = count_imperfections(ends.values)
    return xr.Dataset(
        {"circle": (("fa", "run"), circle), "imperfections": (("fa", "run"), imperfect)}, {"fa": list(FAS)}
    )


TABLE_2 = Experiment(
    "ca.table2",
    "what particles have become after 100 steps with f_a = 0.5, 1 and 2",
    sizes={Size.QUICK: {"runs": 100}, Size.DEFAULT: {"runs": 1000}, Size.FULL: {"runs": 1000}},
    seconds={Size.QUICK: 1, Size.DEFAULT: 2, Size.FULL: 2},
    measure=measure,
    ensembles=ensembles,
    command="python -m analysis.table2 --runs 1000",
)


def particle_circles(evidence: xr.Dataset, fa: float) -> Estimate:
    """Percentage of circles at an alignment constant."""
    circle = evidence["circle"].sel(fa=fa).dropna("run").values
    return percentage(int(circle.sum()), len(circle), "simulations")


def particle_imperfections(evidence: xr.Dataset, fa: float) -> Estimate:
    """Mean imperfections of the runs that are not circles."""
    row = evidence.sel(fa=fa)
    values = row["imperfections"].values[row["circle"].values == 0]
    return estimate_mean(values, "simulations that are not circles")
