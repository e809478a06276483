"""CA section 5.2: whether hidden weights, or the boundaries at which hidden units become
active, point at pair sums, in circles of several numbers of tokens."""

from collections.abc import Sequence

import numpy as np
import xarray as xr

from analysis.forces.alignment import DIRECTIONS, boundary_angles, weight_angles
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
    frame_values,
)
from analysis.reproduction.musat2024.classifier_claims import load_classifier
from analysis.structures.circles_and_grids import is_circle
from analysis.structures.fourier import dominant_frequency, power_fractions
from dynamics.settings import ModularSettings
from dynamics.trajectory.diverged import not_diverged

TOKENS = tuple(range(5, 19))


def ensembles(params: Params) -> Sequence[RequiredRuns]:
    """Networks with weight decay 1 of several numbers of tokens."""
    settings = [ModularSettings(n=n, weight_decay=1.0) for n in params["tokens"]]
    return [experiment_runs(one, params, every=0) for one in settings]


def measure(runner: Runner, params: Params) -> xr.Dataset:
    """Angles between hidden units and pair sums, of each network that ends as a circle,
    (circle,)."""
    needs = ensembles(params)
    return xr.concat([_measure_circles(runner.ensemble(n)) for n in needs], "circle")


def _measure_circles(trajectory: xr.Dataset) -> xr.Dataset:
    end = frame_values(trajectory, "embedding", -1)
    circles = np.flatnonzero(not_diverged(trajectory) & is_circle(end))
    of = load_classifier(trajectory.isel(run=circles), -1)
    units = (of.sums, of.hidden, of.bias)
    n = end.shape[1]
    corners = n // np.gcd(dominant_frequency(power_fractions(end[circles])), n)
    columns = {
        "tokens": (np.full(len(circles), n), "number of tokens N"),
        "corners": (corners, "number of corners of the polygon of tokens"),
    }
    for name, angles in (("weight", weight_angles), ("boundary", boundary_angles)):
        angle, random = angles(*units)
        words = f"mean angle of the {name} and the nearest pair sum over that of random"
        columns[name] = (angle / random, f"{words} directions")
    return described("circle", columns)


def angle_excess(name: str, words: str, remainder: int | None = None) -> Number:
    """How much larger the angle of weights or boundaries is than that of random
    directions, in percent: of circles of 17 tokens, or of polygons whose number of
    corners has a remainder modulo 2."""

    def excess(evidence: xr.Dataset) -> Estimate:
        chosen = evidence["tokens"] == 17
        if remainder is not None:
            chosen = evidence["corners"] % 2 == remainder
        return estimates.estimate_mean(
            100 * (evidence[name][chosen.values] - 1), "circles"
        )

    label = (
        f"angle between {words} and the nearest pair sum, over that of random"
        " directions, less 1"
    )
    return Number(excess, Sign.NEGATIVE, label, "%")


ALIGNMENT = Claim(
    "CA.s5.2.weights-align",
    "section 5.2",
    "the weight vectors of the linear layer will tend to align with",
    "In circles the weights of hidden units point nearer to pair sums than random"
    " directions do.",
    (
        angle_excess("weight", "weights of N = 17"),
        angle_excess("weight", "weights of polygons with odd corners", 1),
        angle_excess("weight", "weights of polygons with even corners", 0),
        angle_excess("boundary", "boundaries of polygons with odd corners", 1),
        angle_excess("boundary", "boundaries of polygons with even corners", 0),
    ),
    "At the end of training with weight decay 1; N = 17 is the paper's, the others are"
    " from 5 to 18. The angles are a few degrees, since pair sums surround the origin."
    " A boundary is the line through the origin on one side of which a unit without"
    " bias is active; weights are perpendicular to it. Units place this line on pair"
    " sums. In a polygon with an even number of corners weights then point near one,"
    " too; with an odd number they point midway between two.",
    summary="hidden weights point nearer to pair sums than random directions do",
    figure="ca6",
)

WEIGHT_ANGLES = Experiment(
    "ca.weight-angles",
    "angles between hidden units and pair sums in circles of N = 5 to 18 tokens, weight"
    " decay 1",
    measure,
    quick=Sizing(1, {"tokens": [13, 16, 17], "runs": 100}, "three values of N"),
    default=Sizing(2, {"tokens": list(TOKENS), "runs": 200}),
    ensembles=ensembles,
    depends={"directions": DIRECTIONS},
    version=2,
    command="python -m analysis.paper weights",
    claims=(ALIGNMENT,),
)
