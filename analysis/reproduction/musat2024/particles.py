"""CA section 6 and table 2: circles and grid imperfections of particles at three alignment constants.

What the particles of the same ensembles have in common with networks is measured in
`analysis.reproduction.musat2024.structures`.
"""

import math
from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
import xarray as xr
from scipy.stats import t as student_t

from analysis.reproduction.printed_numbers import TABLE_2 as PRINTED
from analysis.reproduction.verification import samples
from analysis.reproduction.verification.claim import Claim, Measurement, claims_of, main_result, part
from analysis.reproduction.verification.criteria import Agrees
from analysis.reproduction.verification.estimate import Estimate, ReportedNumber, reported_count, reported_number
from analysis.reproduction.verification.experiment import Experiment, Params, Runner, sized
from analysis.reproduction.verification.final_frames import frame_values, measure_ensembles
from analysis.reproduction.verification.required_runs import RequiredRuns
from analysis.statistics.intervals import CONFIDENCE_LEVEL, Interval
from analysis.statistics.resampling import jackknife_runs
from analysis.structures.circles_and_grids import count_imperfections, is_circle
from dynamics.randomness import random_stream
from dynamics.settings import ParticleSettings

FAS = tuple(PRINTED)
"""Alignment constants of the table."""
FITTED = "fitted: open choices of the method were chosen to match table 2"
"""The departure of every claim about these particles."""
RESAMPLES = 5000

QUANTITIES = {"circle": "whether it is a circle by CA algorithm 1", "imperfections": "grid imperfections at the end"}


def ensembles(params: Params) -> Sequence[RequiredRuns]:
    """Particles of each row."""
    return [RequiredRuns(ParticleSettings(fa=fa, **params.get("settings", {})), params["runs"]) for fa in FAS]


def measure(runner: Runner, params: Params) -> xr.Dataset:
    """Circles and imperfections at the end, (fa, run)."""
    found = measure_ensembles(runner, ensembles(params), QUANTITIES, end_structures, ("fa", "run"))
    return found.assign_coords(fa=list(FAS))


def end_structures(trajectory: xr.Dataset, kept: np.ndarray) -> dict[str, np.ndarray]:
    """The quantities of one ensemble, each (kept run,)."""
    end = frame_values(trajectory, "embedding", -1)[kept]
    return {"circle": is_circle(end), "imperfections": count_imperfections(end)}


TABLE_2 = Experiment(
    "ca.table2",
    "structures of particles after 100 steps with f_a = 0.5, 1 and 2",
    measure=measure,
    quick=sized(1, runs=100),
    default=sized(2, runs=1000),
    ensembles=ensembles,
    command="python -m analysis.table2 --runs 1000",
)


def particle_circle_percentage(evidence: xr.Dataset, fa: float) -> Estimate:
    """Percentage of circles at an alignment constant."""
    return samples.percentage_of_ones(evidence["circle"].sel(fa=fa), "simulations")


def imperfections_of_grids(evidence: xr.Dataset, fa: float) -> np.ndarray:
    """Imperfections of the simulations that are not circles: (simulation,)."""
    row = evidence.sel(fa=fa)
    return samples.finite_values(row["imperfections"].where(row["circle"] == 0))


def mean_imperfections(evidence: xr.Dataset, fa: float) -> Estimate:
    """Mean imperfections of the simulations that are not circles."""
    return samples.estimate_mean(imperfections_of_grids(evidence, fa), "simulations that are not circles")


def imperfection_spread(evidence: xr.Dataset, fa: float) -> Estimate:
    """Standard deviation of the imperfections of the simulations that are not circles, with its jackknife interval."""
    values = imperfections_of_grids(evidence, fa)
    found = jackknife_runs(lambda runs: float(values[runs].std(ddof=1)) if len(runs) > 1 else math.nan, len(values))
    chance = chance_of_printed(values, fa)
    note = f"{chance:.1f}% of samples of ours differ as much in mean and spread together"
    note = "too few simulations" if math.isnan(chance) else note
    return Estimate(found, len(values), "simulations that are not circles", note=note)


def printed_spread(fa: float) -> ReportedNumber:
    """The standard deviation that a row's 95% half-width of the mean implies; the paper prints no interval of it."""
    imperfections, grids = reported_number(PRINTED[fa]["imperfections"]).interval, 100 - PRINTED[fa]["circles"]
    spread = imperfections.half * math.sqrt(grids) / student_t.ppf((1 + CONFIDENCE_LEVEL) / 2, grids - 1)
    return ReportedNumber(Interval(spread, math.nan, math.nan), grids, f"{spread:.1f}")


def chance_of_printed(values: np.ndarray, fa: float) -> float:
    """Percentage of samples of our imperfections, of the paper's size, that are as far from ours as the printed row.

    values (simulation,). The distance is Mahalanobis' of the mean and the logarithm of the standard deviation together.
    """
    printed = printed_spread(fa)
    if len(values) < 2 or np.ptp(values) == 0:
        return math.nan
    drawn = random_stream(0, "verify/resampling").choice(values, (RESAMPLES, printed.runs))
    points = np.stack([drawn.mean(axis=1), np.log(np.maximum(drawn.std(axis=1, ddof=1), 1e-9))], axis=1)
    mean = reported_number(PRINTED[fa]["imperfections"]).interval.value
    offsets = np.vstack([[mean, math.log(printed.interval.value)], points]) - points.mean(axis=0)
    squared = (offsets * np.linalg.solve(np.cov(points.T), offsets.T).T).sum(axis=1)
    return float(100 * (squared[1:] >= squared[0]).mean())


def row_parts(fa: float) -> tuple[Measurement, ...]:
    """Circles, mean imperfections, and the standard deviation that their interval implies, compared with a row's."""
    circles = PRINTED[fa]["circles"]
    imperfections = reported_number(PRINTED[fa]["imperfections"], 100 - circles)
    return (
        part(particle_circle_percentage, Agrees(reported_count(circles), 10), "circles", "%", fa=fa),
        part(mean_imperfections, Agrees(imperfections, 5), "imperfections", fa=fa),
        part(imperfection_spread, Agrees(printed_spread(fa), 5), "standard deviation of imperfections", fa=fa),
    )


def _row_claim(fa: float, printed: Mapping[str, Any]) -> Claim:
    """The claim of a row."""
    return main_result(
        f"CA.table2.fa{fa:g}",
        f"With f_a = {fa:g}, {printed['circles']} of 100 simulations become circles. The others become grids with "
        f"{printed['imperfections']} imperfections on average.",
        "structures of N = 17 particles at the end, by the algorithms of CA appendix A; imperfections of those that "
        "are not circles. The paper's standard deviation follows from its interval of the mean",
        parts=row_parts(fa),
        departure=FITTED,
        readings=(
            "repulsion is scaled to the attraction, alignment by pair counts; steps are 0.003 times forces",
            "the other choices that the text leaves open, which OWN.sensitivity measures",
        ),
        figure="ca-d",
        meaning="the forces, as interpreted here, would not produce the structures as often as in the paper",
    )


CLAIMS = claims_of(TABLE_2, *(_row_claim(fa, printed) for fa, printed in PRINTED.items()))
