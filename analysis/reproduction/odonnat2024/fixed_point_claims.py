"""CH, theorems: the ideal circuit, built by hand, as a fixed point of gradient descent
(`analysis.fixed_points`).

CH is the later version of VC, of which only the summary is known. Its other claims are
in the modules of the experiments that test them."""

import numpy as np
import xarray as xr

from analysis.clustering_heads.circuit_landscape import (
    DESCENT_FRAMES,
    PUSHED_GAIN,
    REST_GRADIENT,
    fixed_point_landscape,
)
from analysis.clustering_heads.stability import (
    MAX_POPULATION,
    NULL_TOLERANCE,
    SYMMETRIES,
)
from analysis.output.results import dimensionless
from analysis.reproduction.verification import (
    Estimate,
    Params,
    Runner,
    declare_experiment,
    percentage,
)
from analysis.statistics.intervals import Interval
from dynamics.settings import SparseSettings

DECAY = 1e-4
"""Weight decay under which the circuit settles."""

BUILT = f"gain {PUSHED_GAIN:g}"
"""Name of the circuit as it was built; "settled" is that at the stationary point with
weight decay."""


def measure(runner: Runner, params: Params) -> xr.Dataset:
    """Gradient and Hessian at the circuit as it was built and as it has settled, and
    distances after perturbations."""
    settings = SparseSettings(**params.get("settings", {}))
    landscape = fixed_point_landscape(
        settings, DECAY, params["push"], params["draws"], params["steps"]
    )
    points = landscape[
        [
            "gradient",
            "loss",
            "circuit_accuracy",
            *(f"{name}_eigenvalue" for name in SYMMETRIES),
        ]
    ]
    distance = (
        landscape["distance"].isel(step=[0, -1]).assign_coords(step=["pushed", "after"])
    )
    lowest = (
        landscape["eigenvalue"]
        .min("mode")
        .assign_attrs(dimensionless("lowest eigenvalue"))
    )
    return points.assign(lowest=lowest, distance=distance)


FIXED = declare_experiment(
    "ch.fixed-points",
    measure,
    depends={
        "decay": DECAY,
        "built": PUSHED_GAIN,
        "at_rest": REST_GRADIENT,
        "frames": DESCENT_FRAMES,
        "null": NULL_TOLERANCE,
        "sequences": MAX_POPULATION,
    },
)


def _exact(value: float, note: str) -> Estimate:
    """A number of one circuit, computed without sampling."""
    return Estimate(Interval(value, value, value), 1, "circuits", note=note)


def residual_gradient(evidence: xr.Dataset, circuit: str) -> Estimate:
    """Norm of the gradient at a circuit; that of the settled one with its weight
    decay."""
    one = evidence.sel(circuit=circuit)
    return _exact(float(one["gradient"]), f"the loss is {float(one['loss']):.2g}")


def settled_accuracy(evidence: xr.Dataset) -> Estimate:
    """Accuracy of the settled circuit over all sequences, as a percentage."""
    return _exact(
        100 * float(evidence["circuit_accuracy"].sel(circuit="settled")),
        "over all sequences",
    )


def breaking_eigenvalue(evidence: xr.Dataset) -> Estimate:
    """The lowest eigenvalue of the Hessian at the settled circuit in directions that
    break an invariance."""
    one = evidence.sel(circuit="settled")
    lowest = min(float(one[f"{name}_eigenvalue"].min()) for name in SYMMETRIES)
    return _exact(lowest, f"the lowest in all directions is {float(one['lowest']):.1g}")


def returned_pushes(evidence: xr.Dataset) -> Estimate:
    """Percentage of perturbations of the settled circuit that gradient descent
    reduces."""
    distance = (
        evidence["distance"]
        .sel(start="settled")
        .isel(pushed=np.flatnonzero(evidence["push"].values > 0))
    )
    ratio = (distance.sel(step="after") / distance.sel(step="pushed")).values
    note = (
        f"the distance shrinks to {np.median(ratio):.2f} of its value (median), at most"
        f" to {ratio.max():.2f}"
    )
    return percentage(int((ratio < 1).sum()), ratio.size, "perturbations", note)
