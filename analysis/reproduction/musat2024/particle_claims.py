"""CA section 6 and table 2: circles and grid imperfections of particles at three
alignment constants.

The choices that the paper leaves open are changed one at a time from this package's
defaults (OWN.sensitivity).

What the particles of the same ensembles have in common with networks is measured in
`analysis.reproduction.musat2024.structure_claims`.
"""

import math
from collections.abc import Callable, Mapping, Sequence
from itertools import pairwise
from typing import Any

import numpy as np
import xarray as xr
from scipy.stats import t as student_t

from analysis.reproduction.musat2024 import networks
from analysis.reproduction.verification import (
    Agrees,
    Estimate,
    Measurement,
    Params,
    ReportedNumber,
    RequiredRuns,
    Runner,
    Verdict,
    declare_experiment,
    experiment_runs,
    frame_values,
    judge_estimate,
    mean_of,
    measure_ensembles,
    part,
    percentage_of,
    reported_count,
    reported_number,
    samples,
    selected_values,
)
from analysis.statistics.intervals import CONFIDENCE_LEVEL, NO_INTERVAL, Interval
from analysis.statistics.resampling import jackknife_runs
from analysis.structures.circles_and_grids import count_imperfections, is_circle
from analysis.structures.printed_tables import TABLE_2 as PRINTED
from dynamics.randomness import random_stream
from dynamics.settings import ParticleSettings

FAS = tuple(PRINTED)
"""Alignment constants of the table."""
RESAMPLES = 5000

QUANTITIES = {
    "circle": "whether it is a circle by CA algorithm 1",
    "imperfections": "grid imperfections at the end",
}


def ensembles(params: Params) -> Sequence[RequiredRuns]:
    """Particles of each row."""
    return [experiment_runs(ParticleSettings(fa=fa), params) for fa in FAS]


def measure(runner: Runner, params: Params) -> xr.Dataset:
    """Circles and imperfections at the end, (fa, run)."""
    evidence = measure_ensembles(
        runner, ensembles(params), QUANTITIES, end_structures, ("fa", "run")
    )
    return evidence.assign_coords(fa=list(FAS))


def end_structures(trajectory: xr.Dataset) -> dict[str, np.ndarray]:
    """The quantities of one ensemble, each (run,)."""
    end = frame_values(trajectory, "embedding", -1)
    return {"circle": is_circle(end), "imperfections": count_imperfections(end)}


TABLE_2 = declare_experiment("ca.table2", measure, ensembles)


def imperfections_of_grids(evidence: xr.Dataset, fa: float) -> np.ndarray:
    """Imperfections of the simulations that are not circles: (simulation,)."""
    return samples.finite_values(
        selected_values(evidence, "imperfections", where={"circle": 0}, fa=fa)
    )


def imperfection_spread(evidence: xr.Dataset, fa: float) -> Estimate:
    """Standard deviation of the imperfections of the simulations that are not circles,
    with its jackknife interval."""
    values = imperfections_of_grids(evidence, fa)

    def spread(runs: np.ndarray) -> float:
        return float(values[runs].std(ddof=1)) if len(runs) > 1 else math.nan

    interval = jackknife_runs(spread, len(values))
    p = probability_of_printed(values, fa)
    note = (
        f"p = {p:.3f}, the probability that a resample of our simulations of the"
        " paper's size deviates as much from ours as the printed mean and standard"
        " deviation do"
    )
    note = "too few simulations" if math.isnan(p) else note
    return Estimate(interval, len(values), networks.OTHERS, note=note)


def printed_spread(fa: float) -> ReportedNumber:
    """The standard deviation that a row's 95% half-width of the mean implies; the paper
    prints no interval of it."""
    half = reported_number(PRINTED[fa]["imperfections"]).interval.half
    grids = 100 - PRINTED[fa]["circles"]
    quantile = student_t.ppf((1 + CONFIDENCE_LEVEL) / 2, grids - 1)
    spread = Interval(half * math.sqrt(grids) / quantile, math.nan, math.nan)
    return ReportedNumber(spread, grids, f"from ± {half:.1f}")


def probability_of_printed(values: np.ndarray, fa: float) -> float:
    """Fraction of resamples of our imperfections, of the paper's size, that are as far
    from ours as the printed row.

    values (simulation,). The distance is Mahalanobis' of the mean and the logarithm of
    the standard deviation together."""
    printed = printed_spread(fa)
    if len(values) < 2 or np.ptp(values) == 0:
        return math.nan
    resamples = random_stream(0, "verify/resampling").choice(
        values, (RESAMPLES, printed.runs)
    )
    spreads = np.maximum(resamples.std(axis=1, ddof=1), 1e-9)
    points = np.stack([resamples.mean(axis=1), np.log(spreads)], axis=1)
    mean = reported_number(PRINTED[fa]["imperfections"]).interval.value
    row = [mean, math.log(printed.interval.value)]
    offsets = np.vstack([row, points]) - points.mean(axis=0)
    squared = (offsets * np.linalg.solve(np.cov(points.T), offsets.T).T).sum(axis=1)
    return float((squared[1:] >= squared[0]).mean())


def row_parts(fa: float) -> tuple[Measurement, ...]:
    """Circles, mean imperfections, and the standard deviation that their interval
    implies, compared with a row's."""
    circles = PRINTED[fa]["circles"]
    imperfections = reported_number(PRINTED[fa]["imperfections"], 100 - circles)
    return (
        part(
            percentage_of,
            Agrees(reported_count(circles), 10),
            "circles",
            "%",
            name="circle",
            of="simulations",
            fa=fa,
        ),
        part(
            mean_of,
            Agrees(imperfections, 5),
            "imperfections",
            name="imperfections",
            fa=fa,
            **networks.OTHERS_ONLY,
        ),
        part(
            imperfection_spread,
            Agrees(printed_spread(fa), 5),
            "standard deviation of imperfections",
            fa=fa,
        ),
    )


CHANGES: dict[str, dict[str, float | str]] = {
    "defaults": {},
    "half the step": {"step_size": 0.0015},
    "twice the step": {"step_size": 0.006},
    "steps of one length, 0.2 sqrt(N)": {"step_rule": "direction", "step_size": 0.2},
    "each particle steps 0.2": {"step_rule": "particle", "step_size": 0.2},
    "repulsion by the ratio of counts": {"repulsion_balance": "count"},
    "repulsion not balanced": {"repulsion_balance": "none"},
    "alignment by summed size": {"alignment_balance": "magnitude"},
    "alignment not balanced": {"alignment_balance": "none"},
    "variance 1 per axis": {"variance": "axis"},
    "variance not kept": {"variance": "none"},
    "(i, i) moves i once": {"diagonal": "once"},
    "(i, i) is no pair": {"diagonal": "none"},
}
"""Readings of CA section 6. The step size of another rule has other units; 0.2 is about
as long as the default."""

AGAINST = ("repulsion not balanced", "alignment not balanced", "variance not kept")
"""Readings that the paper's text excludes: both kinds of pairs contribute the same, and
the variance is kept."""

COMPATIBLE = 0.05
"""Probability above which a printed mean and spread may be due to chance."""


def ensembles_of_reading(
    params: Params, change: Mapping[str, Any]
) -> list[RequiredRuns]:
    """Particles of each row of the table with some settings changed; the first and the
    last frame."""
    return [
        RequiredRuns(ParticleSettings(fa=fa, **change), params["runs"], every=0)
        for fa in FAS
    ]


def ensembles_of_readings(params: Params) -> Sequence[RequiredRuns]:
    """The same under each reading."""
    return [
        need
        for change in CHANGES.values()
        for need in ensembles_of_reading(params, change)
    ]


def measure_readings(runner: Runner, params: Params) -> xr.Dataset:
    """Circles and imperfections of particles under each reading, (reading, fa, run)."""
    needs = [ensembles_of_reading(params, change) for change in CHANGES.values()]
    rows = [
        measure_ensembles(
            runner, reading_needs, QUANTITIES, end_structures, ("fa", "run")
        )
        for reading_needs in needs
    ]
    return xr.concat(rows, "reading").assign_coords(reading=list(CHANGES), fa=list(FAS))


SENSITIVITY = declare_experiment(
    "own.sensitivity",
    measure_readings,
    ensembles_of_readings,
    depends={"changes": CHANGES},
)


def percentage_of_choices(
    evidence: xr.Dataset, failure: Callable[[xr.Dataset], str], listed: bool = True
) -> Estimate:
    """Percentage of the open choices without a failure. The choices are no sample, so
    there is no interval.

    failure is called with the evidence of a choice, as of ca.table2, and returns a
    description, or "" for no failure. listed: whether the note lists the choices with
    their failures."""
    names = [str(name) for name in evidence["reading"].values if name != "defaults"]
    failures = {name: failure(evidence.sel(reading=name)) for name in names}
    counted = [name for name in names if name not in AGAINST]
    if not counted:
        return Estimate(NO_INTERVAL, 0, "choices", note="there are no choices")
    holding = sum(not failures[name] for name in counted)
    excluded = dict.fromkeys(AGAINST, " (not counted)")
    texts = [
        f"{name}: {why}{excluded.get(name, '')}"
        for name, why in failures.items()
        if why and listed
    ]
    note = "; ".join([f"{holding} of {len(counted)} choices", *texts])
    return Estimate(
        Interval(100 * holding / len(counted), math.nan, math.nan),
        len(counted),
        "choices",
        note=note,
    )


def contradicted_numbers(table: xr.Dataset) -> str:
    """How many of the six numbers of table 2 the claims of table 2 would call not
    reproduced."""
    parts = [one for fa in FAS for one in row_parts(fa)[:2]]
    verdicts = [judge_estimate(p.criterion, p.measure(table)).verdict for p in parts]
    count = verdicts.count(Verdict.NOT)
    return f"{count} of 6" if count else ""


def incompatible_spread(table: xr.Dataset) -> str:
    """How unlikely the printed mean and spread of imperfections at f_a = 2 are; empty
    if they may be due to chance."""
    p = probability_of_printed(imperfections_of_grids(table, 2.0), 2.0)
    if math.isnan(p):
        return "too few simulations"
    return f"p = {p:.3f}" if p < COMPATIBLE else ""


def falling_circles(table: xr.Dataset) -> str:
    """The percentages of circles, if there are significantly fewer at some f_a than at
    the next smaller one."""
    rows = [table["circle"].sel(fa=fa) for fa in FAS]
    changes = [samples.difference_of_ones(high, low) for low, high in pairwise(rows)]
    if not any(change.interval.high < 0 for change in changes):
        return ""
    return ", ".join(f"{100 * float(row.mean()):.1f}%" for row in rows) + " circles"
