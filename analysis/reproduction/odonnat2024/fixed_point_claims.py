"""CH, theorems: the ideal circuit, built by hand, as a fixed point of gradient descent
(`analysis.fixed_points`).

CH is the later version of VC, of which only the summary is known."""

import numpy as np
import xarray as xr

from analysis.clustering_heads.circuit_landscape import (
    DESCENT_FRAMES,
    PERTURBED,
    PERTURBED_GAIN,
    REST_GRADIENT,
    SETTLED,
    fixed_point_landscape,
)
from analysis.clustering_heads.stability import (
    MAX_POPULATION,
    NULL_TOLERANCE,
    SYMMETRIES,
)
from analysis.output.results import dimensionless
from analysis.reproduction.claim import Claim, Number, Sign, exact_number
from analysis.reproduction.estimates import Estimate
from analysis.reproduction.experiment import Experiment, Params, Runner, Sizing
from analysis.statistics.intervals import Interval
from dynamics.settings import SparseSettings

DECAY = 1e-4
"""Weight decay under which the circuit settles."""


def measure(runner: Runner, params: Params) -> xr.Dataset:
    """Gradient and Hessian at the circuit as it was built and as it has settled, and
    distances after perturbations."""
    settings = SparseSettings(**params.get("settings", {}))
    landscape = fixed_point_landscape(
        settings, DECAY, params["push"], params["draws"], params["steps"]
    )
    eigenvalues = [f"{name}_eigenvalue" for name in SYMMETRIES]
    points = landscape[["gradient", "loss", "circuit_accuracy", *eigenvalues]]
    distance = landscape["distance"].isel(step=[0, -1])
    lowest = landscape["eigenvalue"].min("mode")
    return points.assign(
        lowest=lowest.assign_attrs(dimensionless("lowest eigenvalue")),
        distance=distance.assign_coords(step=["pushed", "after"]),
    )


# ------------------------------------------------------------------------------- claims


def _exact(value: float, note: str = "") -> Estimate:
    """A number of one circuit, computed without sampling."""
    return Estimate(Interval(value, value, value), 1, "circuit", note)


def breaking_eigenvalue(evidence: xr.Dataset) -> Estimate:
    """The lowest eigenvalue of the Hessian at the settled circuit in directions that
    break an invariance."""
    one = evidence.sel(circuit=SETTLED)
    lowest = min(float(one[f"{name}_eigenvalue"].min()) for name in SYMMETRIES)
    return _exact(lowest, f"the lowest in all directions is {float(one['lowest']):.1g}")


def gradient_decades(evidence: xr.Dataset) -> Estimate:
    """Decimal logarithm of the gradient norm at the settled circuit, with its weight
    decay, over that at the circuit as it was built, without any."""
    gradient = evidence["gradient"]
    settled = float(gradient.sel(circuit=SETTLED))
    built = float(gradient.sel(circuit=PERTURBED))
    return _exact(float(np.log10(settled / built)))


def settled_accuracy(evidence: xr.Dataset) -> Estimate:
    """Accuracy of the settled circuit over all sequences, as a percentage."""
    return _exact(100 * float(evidence["circuit_accuracy"].sel(circuit=SETTLED)))


FIXED_POINT = Claim(
    "CH.summary.fixed-points",
    "summary of the web page",
    "clustering heads can arise as gradient-descent fixed points",
    "An ideal circuit built by hand, with a small weight decay added, comes to rest at a"
    " fixed point of gradient descent that keeps its invariances.",
    (
        Number(
            breaking_eigenvalue,
            Sign.POSITIVE,
            "lowest Hessian eigenvalue in directions that break an invariance",
            digits=6,
        ),
        Number(
            gradient_decades,
            Sign.NEGATIVE,
            "gradient norm at rest over that of the circuit as built (log10)",
        ),
        Number(
            settled_accuracy, exact_number(100), "sequences in their class at rest", "%"
        ),
    ),
    "One circuit for p = 2, built by hand, and a weight decay of .0001 that VC does not"
    " use. Without it the weights of a circuit that is right grow for ever, so that it is"
    " no fixed point. Weight decay alone may make these eigenvalues positive; in other"
    " directions the lowest is zero to rounding. That such circuits arise in training is"
    " not tested.",
    summary="an ideal circuit built by hand comes to rest at a fixed point, with a weight"
    " decay that VC does not use",
)

FIXED = Experiment(
    "ch.fixed-points",
    "gradient, Hessian and perturbations of the ideal circuit built by hand, with and"
    " without weight decay",
    measure,
    default=Sizing(40, {"push": [0.0001, 0.001, 0.01], "steps": 300, "draws": 1}),
    full=Sizing(150, {"push": [0.0001, 0.001, 0.01], "steps": 300, "draws": 5}),
    depends={
        "decay": DECAY,
        "built": PERTURBED_GAIN,
        "at_rest": REST_GRADIENT,
        "frames": DESCENT_FRAMES,
        "null": NULL_TOLERANCE,
        "sequences": MAX_POPULATION,
    },
    command="python -m analysis.fixed_points",
    claims=(FIXED_POINT,),
)
