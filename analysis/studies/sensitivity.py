"""CA table 2 under the choices that the paper leaves open, each changed alone from this package's defaults."""

import dataclasses

import numpy as np
import xarray as xr
from tqdm import tqdm

from analysis.structures import imperfections, is_circle
from analysis.studies.ends import alive, frame, whole
from analysis.studies.particles import FAS
from analysis.verification.finding import Finding, Reported, counted, printed, share
from analysis.verification.study import Lab, Params, Size, Study
from dynamics.settings import ParticleSettings
from dynamics.simulate import simulate

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

PRINTED: dict[float, tuple[Reported, Reported]] = {
    0.5: (counted(0), printed("35.5 ± 3.7")),
    1.0: (counted(17), printed("36.3 ± 4.8")),
    2.0: (counted(56), printed("42.9 ± 10.1")),
}
"""Circles, in percent, and imperfections of the others, of the paper's table."""


def measure(lab: Lab, params: Params) -> xr.Dataset:
    """Circles and imperfections of particles under each reading, (reading, fa, run)."""
    runs, shape = params["runs"], (len(CHANGES), len(FAS), params["runs"])
    circle, imperfect = np.full(shape, np.nan), np.full(shape, np.nan)
    for place, change in enumerate(tqdm(CHANGES.values(), desc="readings", disable=None, leave=False)):
        for column, fa in enumerate(FAS):
            settings = dataclasses.replace(ParticleSettings(fa=fa), **change)
            steps = settings.default_steps
            trajectory = simulate(settings, runs, steps=steps, every=steps)
            kept = alive(trajectory)
            x = frame(trajectory, "embedding", -1)[kept]
            circle[place, column] = whole(is_circle(x), kept)
            imperfect[place, column] = whole(imperfections(x), kept)
    dims = ("reading", "fa", "run")
    return xr.Dataset(
        {
            "circle": (dims, circle, {"long_name": "whether it is a circle by CA algorithm 1", "units": "1"}),
            "imperfections": (dims, imperfect, {"long_name": "grid imperfections at the end", "units": "1"}),
        },
        {"reading": list(CHANGES), "fa": list(FAS)},
    )


SENSITIVITY = Study(
    "own.sensitivity",
    "table 2 with each choice that the paper leaves open changed alone",
    sizes={Size.QUICK: {"runs": 300}, Size.DEFAULT: {"runs": 300}, Size.FULL: {"runs": 1000}},
    seconds={Size.QUICK: 10, Size.DEFAULT: 10, Size.FULL: 30},
    measure=measure,
    command="python -m analysis.table2 --runs 300 --repulsion-balance count",
)


def numbers(evidence: xr.Dataset, reading: str, fa: float) -> tuple[float, float]:
    """Percentage of circles, and mean imperfections of the others; NaN where there are none."""
    row = evidence.sel(reading=reading, fa=fa).dropna("run")
    others = row["imperfections"].values[row["circle"].values == 0]
    circles = row["circle"].values
    return (float(100 * circles.mean()) if len(circles) else np.nan,
            float(others.mean()) if len(others) else np.nan)  # fmt: skip


def outside(evidence: xr.Dataset, reading: str) -> list[str]:
    """Which of the six numbers are outside the paper's intervals; what has no value is."""
    found = []
    for fa, paper_row in PRINTED.items():
        for name, value, paper in zip(
            ("circles", "imperfections"), numbers(evidence, reading, fa), paper_row, strict=True
        ):
            if not paper.interval.low <= value <= paper.interval.high:
                found.append(f"{name} at f_a = {fa:g}")
    return found


def changed(evidence: xr.Dataset) -> list[str]:
    """The readings, those that the evidence has, without the defaults themselves."""
    return [str(each) for each in evidence["reading"].values if each != "defaults"]


def within(evidence: xr.Dataset) -> Finding:
    """Percentage of readings under which all six numbers stay within the paper's intervals."""
    out = {reading: outside(evidence, reading) for reading in changed(evidence)}
    note = "; ".join(f"{reading}: {len(each)} of 6 outside" for reading, each in out.items() if each)
    return share(sum(not each for each in out.values()), len(out), "readings", note)


def still_rise(evidence: xr.Dataset) -> Finding:
    """Percentage of readings under which circles become more from f_a = 0.5 to 1, and from 1 to 2."""
    circles = {reading: [numbers(evidence, reading, fa)[0] for fa in FAS] for reading in changed(evidence)}
    rising = {reading: low < middle < high for reading, (low, middle, high) in circles.items()}
    told = [f"{reading}: {', '.join(f'{each:.1f}' for each in circles[reading])}%"
            for reading, rises in rising.items() if not rises]  # fmt: skip
    return share(sum(rising.values()), len(rising), "readings", f"not so: {'; '.join(told)}" if told else "")
