"""CA table 2 under the choices that the paper leaves open, one changed at a time from this package's defaults."""

import math
from collections.abc import Callable, Sequence
from itertools import pairwise

import xarray as xr

from analysis.reproduction.musat2024 import particles
from analysis.reproduction.verification import samples
from analysis.reproduction.verification.claim import Claim, Measurement, claims_of, finding, part
from analysis.reproduction.verification.criteria import Above, Verdict, judge_estimate
from analysis.reproduction.verification.estimate import Estimate
from analysis.reproduction.verification.experiment import Experiment, Params, Runner, sized
from analysis.reproduction.verification.final_frames import measure_ensembles
from analysis.reproduction.verification.required_runs import RequiredRuns
from analysis.statistics.intervals import NO_INTERVAL, Interval
from dynamics.settings import ParticleSettings

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
"""Readings of CA section 6. The step size of another rule has other units; 0.2 is about as long as the default."""

AGAINST = ("repulsion not balanced", "alignment not balanced", "variance not kept")
"""Readings that the paper's text excludes: both kinds of pairs contribute the same, and the variance is kept."""

COMPATIBLE = 5.0
"""Percentage of samples above which a printed mean and spread may be due to chance."""


def ensembles(params: Params) -> Sequence[RequiredRuns]:
    """Particles of each row of the table under each reading; the first and the last frame."""
    settings = [ParticleSettings(fa=fa, **change) for change in CHANGES.values() for fa in particles.FAS]  # type: ignore[arg-type]
    return [RequiredRuns(each, params["runs"], every=0) for each in settings]


def measure(runner: Runner, params: Params) -> xr.Dataset:
    """Circles and imperfections of particles under each reading, (reading, fa, run)."""
    needs, count, rows = ensembles(params), len(particles.FAS), []
    for start in range(0, len(needs), count):
        of_reading, dims = needs[start : start + count], ("fa", "run")
        rows.append(measure_ensembles(runner, of_reading, particles.QUANTITIES, particles.end_structures, dims))
    return xr.concat(rows, "reading").assign_coords(reading=list(CHANGES), fa=list(particles.FAS))


SENSITIVITY = Experiment(
    "own.sensitivity",
    "table 2 with each choice that the paper leaves open changed alone",
    measure=measure,
    quick=sized(2, runs=300),
    default=sized(5, runs=1000),
    ensembles=ensembles,
    depends={"changes": CHANGES},
    version=2,
    command="python -m analysis.table2 --runs 1000 --repulsion-balance count",
)


def percentage_of_readings(evidence: xr.Dataset, failure: Callable[[xr.Dataset], str]) -> Estimate:
    """Percentage of the open readings without a failure. The readings are no sample, so the interval has no width.

    failure is called with the evidence of a reading, as of ca.table2, and returns a description, or "" for no failure.
    """
    names = [str(name) for name in evidence["reading"].values if name != "defaults"]
    failures = {name: failure(evidence.sel(reading=name)) for name in names}
    counted = [name for name in names if name not in AGAINST]
    if not counted:
        return Estimate(NO_INTERVAL, 0, "readings", note="there are no readings")
    value = 100 * sum(not failures[name] for name in counted) / len(counted)
    excluded = dict.fromkeys(AGAINST, " (excluded by the paper's text, not counted)")
    note = "; ".join(f"{name}: {why}{excluded.get(name, '')}" for name, why in failures.items() if why)
    return Estimate(Interval(value, value, value), len(counted), "readings", note=note)


def contradicted_numbers(table: xr.Dataset) -> str:
    """How many of the six numbers of table 2 the claims of table 2 would call not reproduced."""
    parts = [each for fa in particles.FAS for each in particles.row_parts(fa)[:2]]
    count = sum(judge_estimate(each.criterion, each.measure(table)).verdict is Verdict.NOT for each in parts)
    return f"{count} of 6 numbers" if count else ""


def incompatible_spread(table: xr.Dataset) -> str:
    """How unlikely the printed mean and spread of imperfections at f_a = 2 are; empty if they may be due to chance."""
    chance = particles.chance_of_printed(particles.imperfections_of_grids(table, 2.0), 2.0)
    if math.isnan(chance):
        return "too few simulations"
    return f"{chance:.1f}% of samples" if chance < COMPATIBLE else ""


def falling_circles(table: xr.Dataset) -> str:
    """The percentages of circles, if there are significantly fewer at some f_a than at the next smaller one."""
    rows = [table["circle"].sel(fa=fa) for fa in particles.FAS]
    changes = [samples.difference_of_ones(high, low) for low, high in pairwise(rows)]
    if not any(change.interval.high < 0 for change in changes):
        return ""
    return ", ".join(f"{100 * float(row.mean()):.1f}%" for row in rows) + " circles"


def _reading_parts(failure: Callable[[xr.Dataset], str]) -> tuple[Measurement, ...]:
    """All readings, and most of them."""
    return (
        part(percentage_of_readings, Above(99), "all readings", "%", failure=failure),
        part(percentage_of_readings, Above(50), "more than half", "%", failure=failure),
    )


CLAIMS = claims_of(
    SENSITIVITY,
    finding(
        "OWN.sensitivity",
        "Table 2 does not depend on the choices that the paper leaves open.",
        "each of nine choices is changed alone: percentage of choices with which none of the six numbers is "
        '"not reproduced" by the criteria of table 2\'s claims, and with which samples of our grids have the printed '
        "mean and spread of imperfections at f_a = 2 by chance. Three changes that the text excludes are not counted",
        parts=(
            *_reading_parts(contradicted_numbers),
            part(percentage_of_readings, Above(50), "mean and spread at f_a = 2", "%", failure=incompatible_spread),
        ),
        meaning="table 2 would be evidence for one reading of section 6, chosen to reproduce it, not for the forces",
    ),
    Claim(
        "OWN.sensitivity-rise",
        "The number of circles increases with f_a whichever open choice is made.",
        "percentage of the nine choices with which circles nowhere become significantly fewer as f_a grows",
        parts=_reading_parts(falling_circles),
    ),
)
