"""CA section 5.2: whether hidden weights point at pair sums, in circles of several
numbers of tokens."""

from collections.abc import Sequence

import numpy as np
import xarray as xr

from analysis.forces.alignment import DIRECTIONS, weight_angles
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
    """Angles of the networks that end as circles, (circle,)."""
    needs = ensembles(params)
    return xr.concat([_measure_circles(runner.ensemble(n)) for n in needs], "circle")


def _measure_circles(trajectory: xr.Dataset) -> xr.Dataset:
    end = frame_values(trajectory, "embedding", -1)
    circles = np.flatnonzero(not_diverged(trajectory) & is_circle(end))
    of = load_classifier(trajectory.isel(run=circles), -1)
    angle, random = weight_angles(of.sums, of.hidden, of.bias)
    n = end.shape[1]
    corners = n // np.gcd(dominant_frequency(power_fractions(end[circles])), n)
    return described(
        "circle",
        {
            "angle": (angle, "mean angle of weights and nearest pair sum, degrees"),
            "random": (random, "the same of random directions, degrees"),
            "tokens": (np.full(len(circles), n), "number of tokens N"),
            "corners": (corners, "number of corners of the polygon of tokens"),
        },
    )


def angle_excess(evidence: xr.Dataset, chosen: xr.DataArray) -> Estimate:
    """How much larger the angle is than that of random directions, in percent, over
    chosen circles."""
    circles = evidence.isel(circle=chosen.values)
    excess = 100 * (circles["angle"] / circles["random"] - 1)
    return estimates.estimate_mean(excess, "circles")


ALIGNMENT = Claim(
    "CA.s5.2.weights-align",
    "section 5.2",
    "the weight vectors of the linear layer will tend to align with",
    "In circles the weights of hidden units tend to point at pair sums.",
    (
        Number(
            lambda evidence: angle_excess(evidence, evidence["tokens"] == 17),
            Sign.NEGATIVE,
            "angle between weights and the nearest pair sum, over that of random"
            " directions, less 1; N = 17",
            "%",
        ),
        Number(
            lambda evidence: angle_excess(evidence, evidence["corners"] % 2 == 1),
            Sign.NEGATIVE,
            "the same, polygons with an odd number of corners, N = 5 to 18",
            "%",
        ),
        Number(
            lambda evidence: angle_excess(evidence, evidence["corners"] % 2 == 0),
            Sign.NEGATIVE,
            "the same, even number of corners",
            "%",
        ),
    ),
    "At the end of training with weight decay 1; N = 17 is the paper's. The angles are"
    " a few degrees, since pair sums surround the origin. Units place their boundary,"
    " not their weights, on a pair sum: if the polygon has an odd number of corners,"
    " the weights then point midway between two others.",
    figure="ca6",
)

WEIGHT_ANGLES = Experiment(
    "ca.weight-angles",
    "angles between hidden weights and pair sums in circles of N = 5 to 18 tokens,"
    " weight decay 1",
    measure,
    quick=Sizing(1, {"tokens": [13, 16, 17], "runs": 100}, "three values of N"),
    default=Sizing(5, {"tokens": list(TOKENS), "runs": 200}),
    full=Sizing(25, {"tokens": list(TOKENS), "runs": 1000}),
    ensembles=ensembles,
    depends={"directions": DIRECTIONS},
    version=2,
    command="python -m analysis.weights",
    claims=(ALIGNMENT,),
)
