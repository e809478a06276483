"""The edge of stability: sharpness over the limit beyond which an optimizer is unstable,
for gradient descent and for Adam (`analysis.linearization.optimizer_limits`)."""

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
import xarray as xr

from analysis.linearization.frame_results import Variables
from analysis.linearization.loss_operators import (
    hessian_operator,
    preconditioned_operator,
)
from analysis.linearization.operator_spectra import largest_eigenvalue
from analysis.linearization.optimizer_limits import (
    limit_words,
    preconditioner_scale,
    stability_rates,
    with_moments,
)
from analysis.loss_geometry.frame_measures import measure_frames
from dynamics.recording.model_file import ModelFile
from dynamics.recording.model_loss import RecordedModel, mean_value_and_gradient

_VARIABLES: Variables = {
    "loss": "training loss",
    "sharpness": "largest eigenvalue of the Hessian of the training loss",
    "relative_sharpness": "that eigenvalue over the limit of gradient descent with the momentum and weight decay of the optimizer",
    "preconditioned_sharpness": "largest eigenvalue of the Hessian preconditioned by the optimizer's second moments",
    "relative_preconditioned": "that eigenvalue over the threshold of stability of the optimizer",
}


def edge_of_stability(
    trajectory: xr.Dataset,
    frames: Sequence[int],
    functions: ModelFile | None = None,
    log: Callable[[str], Any] | None = None,
) -> xr.Dataset:
    """Sharpness over its limit of stability at some frames.

    The second moments of a network of this package come from its exact states, which
    are computed again from its restart states.

    Parameters
    ----------
    trajectory : xr.Dataset
        Of a network of this package with its weights, or of a recorded model.
    frames : sequence of int
        Increasing indices along `step`.
    functions : ModelFile, optional
        Functions of a recorded model.
    log : callable, optional
        Called with a line of text about the cost.

    Returns
    -------
    xr.Dataset
        `loss`, `sharpness`, `relative_sharpness`, `preconditioned_sharpness`,
        `relative_preconditioned` (run, step); dimensionless. The last two are NaN
        without second moments (for sgd, for a recording without them) and before the
        first update; what needs a learning rate is NaN if none was recorded. The
        attributes `limit_formula` and `limit_note` say which limits these are.

    Raises
    ------
    SettingsError, TrajectoryError
        As `training_model` and `dynamics.replay` do.

    Examples
    --------
    >>> from dynamics import ModularSettings, simulate
    >>> short = simulate(ModularSettings(n=5), runs=1, steps=20, progress=False)
    >>> result = edge_of_stability(short, [0, 1])
    >>> bool(result["relative_preconditioned"][0, 1] > 0)
    True
    """

    def before(model: RecordedModel, frame: int, count: int) -> None:
        if log is not None:
            log(f"cost        {count} frames of {model.size} parameters, each with")
            log("            the largest eigenvalues of two matrices")

    def measure(model: RecordedModel, frame: int) -> dict[str, float]:
        loss, _ = mean_value_and_gradient(model.losses(0, frame), model.row(0, frame))
        rates = stability_rates(model, 0, frame)
        hessian = hessian_operator(model, 0, frame)
        scaled = hessian if rates.root is None else hessian.scaled(rates.root)
        sharpness = largest_eigenvalue(scaled)
        relative = rates.plain.fraction(hessian, sharpness, rates.root)
        adam = preconditioned_operator(hessian, model, 0, frame)
        preconditioned = fraction = np.nan
        if adam is not None:
            preconditioned = largest_eigenvalue(adam)
            scale = preconditioner_scale(model, 0, frame)
            fraction = rates.preconditioned.fraction(
                hessian, preconditioned, rates.root, scale
            )
        return {
            "loss": loss,
            "sharpness": sharpness,
            "relative_sharpness": relative,
            "preconditioned_sharpness": preconditioned,
            "relative_preconditioned": fraction,
        }

    selected = with_moments(trajectory, frames)
    result = measure_frames(
        selected,
        range(len(frames)),
        measure,
        _VARIABLES,
        functions=functions,
        before=before,
    )
    return result.assign_attrs(limit_words(selected))
