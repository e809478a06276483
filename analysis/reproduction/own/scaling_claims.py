"""How the alignment at which circles replace grids depends on the number of
particles."""

from collections.abc import Sequence

import numpy as np
import xarray as xr

from analysis.reproduction.claim import Claim, Number, Sign
from analysis.reproduction.estimates import Estimate
from analysis.reproduction.experiment import (
    Experiment,
    Params,
    RequiredRuns,
    Runner,
    Sizing,
    described,
    frame_values,
)
from analysis.statistics.intervals import Interval
from analysis.statistics.transition_fit import fit_power, fit_transition
from analysis.structures.circles_and_grids import is_circle
from analysis.structures.finite_size import settings_of_size
from dynamics.settings import ParticleSettings

FAS = (0.5, 0.75, 1.0, 1.25, 1.5, 2.0, 3.0)


def ensembles(params: Params) -> Sequence[RequiredRuns]:
    """Particles of each number at each alignment constant, with a step size in
    proportion to 1 / N²."""
    return [
        RequiredRuns(
            settings_of_size(ParticleSettings(fa=fa), n),
            params["runs"],
            params["steps"],
            every=0,
        )
        for n in params["sizes"]
        for fa in FAS
    ]


def measure(runner: Runner, params: Params) -> xr.Dataset:
    """Whether each run ends as a circle, (n, fa, run)."""
    ends = [
        is_circle(frame_values(runner.ensemble(need), "embedding", -1))
        for need in ensembles(params)
    ]
    circle = np.reshape(ends, (len(params["sizes"]), len(FAS), params["runs"]))
    words = "whether it is a circle by CA algorithm 1"
    return described(
        ("n", "fa", "run"),
        {"circle": (circle.astype(np.float64), words)},
        {"n": list(params["sizes"]), "fa": list(FAS)},
    )


def transition_power(evidence: xr.Dataset, parameter: str) -> Estimate:
    """The power of N to which the midpoint or the width of the transition to circles is
    proportional."""
    circle = evidence["circle"].transpose("n", "fa", "run")
    counts = circle.sum("run").values.astype(int)
    totals = circle.count("run").values
    fits = [
        fit_transition(circle["fa"].values, *numbers)
        for numbers in zip(counts, totals, strict=True)
    ]
    sizes = circle["n"].values
    power = fit_power(sizes, [getattr(fit, parameter) for fit in fits])
    note = "" if np.isfinite(power.value) else "too few runs for a fit"
    return Estimate(Interval(*power), len(sizes), "numbers of particles", note)


SCALING = Claim(
    "OWN.scaling",
    "",
    "",
    "With more particles circles replace grids at a smaller alignment constant f_a.",
    (
        Number(
            lambda evidence: transition_power(evidence, "midpoint"),
            Sign.NEGATIVE,
            "power of N of the f_a at which half of the runs are circles",
            digits=2,
        ),
        Number(
            lambda evidence: transition_power(evidence, "width"),
            Sign.NEGATIVE,
            "power of N of the width of the transition in ln f_a",
            digits=2,
        ),
    ),
    "With this package's settings (CA.s6.more-circles has others) and 400 steps. A small"
    " shift over a sixfold range of N. The transition stays gradual; the page of"
    " finite-size scaling has up to 997 particles.",
    summary="more particles form circles at a smaller f_a",
)

EXPERIMENT = Experiment(
    "own.scaling",
    "circles among 7 to 43 particles at seven alignment constants",
    measure,
    default=Sizing(2, {"sizes": [7, 13, 17, 23, 43], "runs": 100, "steps": 400}),
    ensembles=ensembles,
    command="python -m analysis.paper scaling",
    claims=(SCALING,),
)
