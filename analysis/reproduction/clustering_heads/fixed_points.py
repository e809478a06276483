"""CH's summary: the ideal circuit, built by hand, as a fixed point of gradient descent (`analysis.fixed_points`)."""

import numpy as np
import xarray as xr

from analysis.clustering_heads.landscape import DESCENT_FRAMES, PUSHED_GAIN, REST_GRADIENT, fixed_point_landscape
from analysis.clustering_heads.stability import MAX_POPULATION, NULL_TOLERANCE
from analysis.reproduction.verification.estimate import Estimate, percentage
from analysis.reproduction.verification.experiment import Experiment, Params, Runner, Size
from analysis.statistics.intervals import Interval
from dynamics.settings import SparseSettings

DECAY = 1e-4
"""Weight decay under which the circuit settles."""


def measure(runner: Runner, params: Params) -> xr.Dataset:
    """What `analysis.fixed_points` says of the circuit as it was built and as it has settled under weight decay."""
    settings = SparseSettings(**params.get("settings", {}))
    found = fixed_point_landscape(settings, DECAY, params["push"], params["draws"], params["steps"])
    some = found[["gradient", "loss", "circuit_accuracy", "order_eigenvalue", "suffix_eigenvalue"]]
    moved = found[["order_share", "value_share", "distance", "accuracy"]].isel(step=[0, -1])
    moved = moved.assign_coords(step=["pushed", "after"])
    lowest = found["eigenvalue"].min("mode").rename("lowest").assign_attrs(long_name="lowest eigenvalue", units="1")
    return some.assign(lowest=lowest).merge(moved, combine_attrs="override").assign_attrs(built=f"gain {PUSHED_GAIN:g}")


FIXED = Experiment(
    "ch.fixed-points",
    "the ideal circuit built by hand as a fixed point of gradient descent, with and without weight decay",
    sizes={
        Size.DEFAULT: {"push": [1e-4, 1e-3, 1e-2], "steps": 300, "draws": 1},
        Size.FULL: {"push": [1e-4, 1e-3, 1e-2], "steps": 300, "draws": 5},
    },
    seconds={Size.DEFAULT: 40, Size.FULL: 150},
    measure=measure,
    depends={"decay": DECAY, "built": PUSHED_GAIN, "at_rest": REST_GRADIENT, "frames": DESCENT_FRAMES,
        "null": NULL_TOLERANCE,
             "sequences": MAX_POPULATION},
    command="python -m analysis.fixed_points",
)  # fmt: skip


# ------------------------------------------------------------------------------------------------- findings


def residual_gradient(evidence: xr.Dataset, circuit: str = "") -> Estimate:
    """Norm of the gradient at a circuit, of the loss with its weight decay; without a name, as it was built."""
    name = circuit or str(evidence.attrs["built"])
    value = float(evidence["gradient"].sel(circuit=name))
    loss = float(evidence["loss"].sel(circuit=name))
    return Estimate(Interval(value, value, value), 1, "circuits", note=f"one point, computed; its loss is {loss:.2g}")


def settled_accuracy(evidence: xr.Dataset) -> Estimate:
    """Accuracy of the circuit that has settled, as a percentage."""
    value = 100 * float(evidence["circuit_accuracy"].sel(circuit="settled"))
    return Estimate(Interval(value, value, value), 1, "circuits", note="over all sequences, so that there is no chance")


def breaking_eigenvalue(evidence: xr.Dataset) -> Estimate:
    """The lowest eigenvalue of the Hessian at the settled circuit among directions that break an invariance."""
    one = evidence.sel(circuit="settled")
    value = min(float(one[f"{part}_eigenvalue"].min()) for part in ("order", "suffix"))
    whole = float(one["lowest"])
    return Estimate(Interval(value, value, value), 1, "circuits", note=f"of all directions {whole:.1g}")


def returned_pushes(evidence: xr.Dataset, start: str = "settled") -> Estimate:
    """Percentage of pushes, by any way and length, after which gradient descent brings a circuit nearer to where it
    was than it was pushed to."""
    one = evidence["distance"].sel(start=start).isel(pushed=np.flatnonzero(evidence["push"].values > 0))
    ratio = (one.sel(step="after") / one.sel(step="pushed")).values
    note = f"distances shrink to {np.median(ratio):.2f} in the median, at most to {ratio.max():.2f}"
    return percentage(int((ratio < 1).sum()), len(ratio), "pushes", note)
