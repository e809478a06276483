"""CA table 2 under the choices that the paper leaves open, each changed alone from this package's defaults."""

from collections.abc import Sequence
from itertools import pairwise

import numpy as np
import xarray as xr
from tqdm import tqdm

from analysis.reproduction.musat2024.particles import FAS
from analysis.reproduction.verification.criteria import Agrees, Verdict, judge_estimate
from analysis.reproduction.verification.estimate import Estimate, ReportedNumber, reported_count, reported_number
from analysis.reproduction.verification.experiment import Experiment, Params, Runner, Size
from analysis.reproduction.verification.final_frames import expand_to_runs, frame_values
from analysis.reproduction.verification.required_runs import RequiredRuns
from analysis.reproduction.verification.samples import (
    estimate_mean,
    finite_values,
    percentage_difference,
    percentage_or_none,
)
from analysis.statistics.intervals import NO_INTERVAL, Interval
from analysis.structures.circles_and_grids import count_imperfections, is_circle
from dynamics.settings import ParticleSettings
from dynamics.trajectory.diverged import not_diverged

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
"""Readings of CA section 6. A step of another rule has a size in other units; 0.2 is about as long as the default's."""

AGAINST = ("repulsion not balanced", "alignment not balanced", "variance not kept")
"""Those of them that its words exclude, which has both kinds of pairs contribute the same, and the variance kept."""

PRINTED: dict[float, tuple[ReportedNumber, ReportedNumber]] = {
    0.5: (reported_count(0), reported_number("35.5 ± 3.7")),
    1.0: (reported_count(17), reported_number("36.3 ± 4.8")),
    2.0: (reported_count(56), reported_number("42.9 ± 10.1")),
}
"""Circles, in percent, and imperfections of the others, of the paper's table."""
MARGINS = (10.0, 5.0)
"""How far apart each of the two may be, as in the claims of that table."""


def ensembles(params: Params) -> Sequence[RequiredRuns]:
    """Particles of each row of the table under each reading; the first and the last frame."""
    settings = [ParticleSettings(fa=fa, **change) for change in CHANGES.values() for fa in FAS]  # type: ignore[arg-type]
    return [RequiredRuns(each, params["runs"], every=0) for each in settings]


def measure(runner: Runner, params: Params) -> xr.Dataset:
    """Circles and imperfections of particles under each reading, (reading, fa, run)."""
    rows = [
        _ends(runner.ensemble(need)) for need in tqdm(ensembles(params), desc="readings", disable=None, leave=False)
    ]
    shape = (len(CHANGES), len(FAS), params["runs"])
    circle, imperfect = (np.array(each).reshape(shape) for each in zip(*rows, strict=True))
    dims = ("reading", "fa", "run")
    return xr.Dataset(
        {
            "circle": (dims, circle, {"long_name": "whether it is a circle by CA algorithm 1", "units": "1"}),
            "imperfections": (dims, imperfect, {"long_name": "grid imperfections at the end", "units": "1"}),
        },
        {"reading": list(CHANGES), "fa": list(FAS)},
    )


def _ends(trajectory: xr.Dataset) -> tuple[np.ndarray, np.ndarray]:
    """Whether each is a circle, and its imperfections: (run,), NaN of one that diverged."""
    kept = not_diverged(trajectory)
    x = frame_values(trajectory, "embedding", -1)[kept]
    return expand_to_runs(is_circle(x), kept), expand_to_runs(count_imperfections(x), kept)


SENSITIVITY = Experiment(
    "own.sensitivity",
    "table 2 with each choice that the paper leaves open changed alone",
    sizes={Size.QUICK: {"runs": 300}, Size.DEFAULT: {"runs": 300}, Size.FULL: {"runs": 1000}},
    seconds={Size.QUICK: 2, Size.DEFAULT: 2, Size.FULL: 5},
    measure=measure,
    ensembles=ensembles,
    depends={"changes": CHANGES},
    version=2,
    command="python -m analysis.table2 --runs 300 --repulsion-balance count",
)


# --------------------------------------------------------------------------------------------------- findings


def _open_readings(evidence: xr.Dataset) -> list[str]:
    """The readings that the paper leaves open, other than the defaults."""
    return [str(each) for each in evidence["reading"].values if each not in ("defaults", *AGAINST)]


def _circle_mask(evidence: xr.Dataset, reading: str, fa: float) -> np.ndarray:
    """Which simulations of a row are circles: (run,), those that diverged left out."""
    return finite_values(evidence["circle"].sel(reading=reading, fa=fa))


def _table_2_numbers(evidence: xr.Dataset, reading: str, fa: float) -> tuple[Estimate, Estimate]:
    """Percentage of circles, and mean imperfections of the others."""
    row, found = evidence.sel(reading=reading, fa=fa), _circle_mask(evidence, reading, fa)
    others = row["imperfections"].values[row["circle"].values == 0]
    return percentage_or_none(int(found.sum()), len(found), "simulations"), estimate_mean(
        others, "simulations that are not circles"
    )


def contradicted_numbers(evidence: xr.Dataset, reading: str) -> list[str]:
    """Which of the six numbers do not agree with the paper's, by the rule of table 2's own claims.

    They are further apart than by chance, and far. A number that there is none of contradicts nothing.
    """
    found = []
    for fa, paper in PRINTED.items():
        for name, margin, finding, number in zip(
            ("circles", "imperfections"), MARGINS, _table_2_numbers(evidence, reading, fa), paper, strict=True
        ):
            if judge_estimate(Agrees(number, margin), finding).verdict is Verdict.NOT:
                found.append(f"{name} at f_a = {fa:g}")
    return found


def uncontradicted_readings(evidence: xr.Dataset) -> Estimate:
    """Percentage of the open readings under which no number of table 2 is contradicted."""
    counted = _open_readings(evidence)
    off = {
        reading: len(contradicted_numbers(evidence, reading))
        for reading in (*counted, *_readings_against_words(evidence))
    }
    note = _listed({reading: f"{many} of 6 numbers" for reading, many in off.items() if many}, counted, "changed by")
    return _percentage_of_all([reading for reading in counted if not off[reading]], counted, note)


def rising_circles(evidence: xr.Dataset) -> Estimate:
    """Percentage of the open readings under which no step of f_a, 0.5 to 1 and 1 to 2, has fewer circles for certain.

    That a step has no circles at either end does not say that they do not become more.
    """
    counted = _open_readings(evidence)
    falling = {
        reading: told
        for reading in (*counted, *_readings_against_words(evidence))
        if (told := _falls(evidence, reading))
    }
    note = _listed(falling, counted, "fewer circles by")
    return _percentage_of_all([reading for reading in counted if reading not in falling], counted, note)


def _falls(evidence: xr.Dataset, reading: str) -> str:
    """The percentages of circles, where a rise between two rows is excluded; nothing where none is."""
    rows = [_circle_mask(evidence, reading, fa) for fa in FAS]
    steps = [
        percentage_difference((int(high.sum()), int(low.sum())), (len(high), len(low))) for low, high in pairwise(rows)
    ]
    if not any(step.interval.high < 0 for step in steps):
        return ""
    return ", ".join(f"{100 * row.mean():.1f}%" for row in rows)


def _readings_against_words(evidence: xr.Dataset) -> list[str]:
    """The readings against the paper's words that the evidence has."""
    return [str(each) for each in evidence["reading"].values if each in AGAINST]


def _percentage_of_all(held: Sequence[str], counted: Sequence[str], note: str) -> Estimate:
    """So many of all readings, as a percentage: all there are, not a sample, so that the interval has no width."""
    if not counted:
        return Estimate(NO_INTERVAL, 0, "readings", note="there are no readings")
    part = 100 * len(held) / len(counted)
    return Estimate(Interval(part, part, part), len(counted), "readings", note=note)


def _listed(told: dict[str, str], counted: Sequence[str], words: str) -> str:
    """What is told of readings, those that do not count apart."""
    groups = [[f"{name} ({what})" for name, what in told.items() if (name in counted) == own] for own in (True, False)]
    return "; ".join(
        f"{words}{rest} {', '.join(group)}"
        for group, rest in zip(groups, ("", ", against the paper's words and not counted,"), strict=True)
        if group
    )
