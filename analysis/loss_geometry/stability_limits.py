"""The edge of stability: sharpness over the limit beyond which an optimizer is unstable,
for gradient descent and for Adam.

Gradient descent with the learning rate lr is unstable along an eigenvector of the
Hessian H whose eigenvalue exceeds 2 / lr (Cohen et al. 2021, arXiv 2103.00065). Adam is
unstable if the largest eigenvalue of P^-1/2 H P^-1/2 exceeds 2 (1 + beta1) / ((1 -
beta1) lr), with P = (1 - beta1^t) (sqrt(v) + eps) after t updates of Adam and its
bias-corrected second moments v (Cohen et al. 2022, arXiv 2207.14484). Parameters with
learning rates lr_i of their own scale H_ij by sqrt(lr_i lr_j) / lr."""

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
import torch
import xarray as xr

from analysis.linearization.frame_results import Variables
from analysis.linearization.model_spectrum import (
    adam_scale,
    model_hessian,
    spectrum_ends,
    stability_rates,
)
from analysis.loss_geometry.frame_measures import BASIS, TOLERANCE, measure_frames
from dynamics.branching import open_source, states_at
from dynamics.networks.from_trajectory import network_of
from dynamics.recording.model_file import ModelFile
from dynamics.recording.model_loss import RecordedModel, mean_value_and_gradient
from dynamics.recording.quantities import MOMENT_UPDATES, SECOND_MOMENT
from dynamics.settings import RecordedSettings

_MOMENT = "exp_avg_sq"
_VARIABLES: Variables = {
    "loss": "training loss",
    "sharpness": "largest eigenvalue of the Hessian of the training loss",
    "relative_sharpness": "that eigenvalue times lr / 2",
    "preconditioned_sharpness": "largest eigenvalue of the Hessian preconditioned by Adam's second moments",
    "relative_preconditioned": "that eigenvalue over the threshold of stability of Adam",
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
        first update; what needs a learning rate is NaN if none was recorded.

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
    selected = trajectory.isel(step=list(frames))
    if trajectory.attrs["system"] != RecordedSettings.system:
        moments, updates = moments_and_updates(trajectory, frames)
        selected = selected.assign(moments).assign_coords(
            {MOMENT_UPDATES: ("step", updates)}
        )

    def before(model: RecordedModel, frame: int, count: int) -> None:
        if log is not None:
            log(f"cost        {count} frames of {model.size} parameters, each with")
            log("            the largest eigenvalues of two matrices")

    def measure(model: RecordedModel, frame: int) -> dict[str, float]:
        row, losses = model.row(0, frame), model.losses(0, frame)
        hessian = model_hessian(model, 0, frame)
        rates = stability_rates(model, 0, frame)
        root = torch.ones(model.size).double() if rates.root is None else rates.root
        scale = adam_scale(model, 0, frame)
        sharpness, preconditioned = (
            np.nan
            if factor is None
            else _largest_eigenvalue(hessian, root * factor, model.size)
            for factor in (torch.ones(model.size).double(), scale)
        )
        return {
            "loss": float(mean_value_and_gradient(losses, row)[0]),
            "sharpness": sharpness,
            "relative_sharpness": sharpness * rates.rate / 2,
            "preconditioned_sharpness": preconditioned,
            "relative_preconditioned": preconditioned / rates.limit,
        }

    return measure_frames(
        selected,
        range(len(frames)),
        measure,
        _VARIABLES,
        functions=functions,
        before=before,
    )


def _largest_eigenvalue(
    product: Callable[[torch.Tensor], torch.Tensor], factor: torch.Tensor, size: int
) -> float:
    """The largest eigenvalue of a matrix whose rows and columns are multiplied by a
    factor (parameter,)."""
    pairs, _ = spectrum_ends(
        lambda vector: factor * product(factor * vector),
        size,
        1,
        "LA",
        TOLERANCE,
        BASIS,
    )
    return float(pairs.values[-1])


Moments = dict[str, tuple[tuple[str, ...], np.ndarray]]
"""Second moments of Adam, as variables ``second_moment.NAME`` (run, step, ...)."""


def second_moments(trajectory: xr.Dataset, frames: Sequence[int]) -> Moments:
    """The first value of `moments_and_updates`."""
    return moments_and_updates(trajectory, frames)[0]


def moments_and_updates(
    trajectory: xr.Dataset, frames: Sequence[int]
) -> tuple[Moments, np.ndarray]:
    """The bias-corrected second moments of Adam at some frames of a network of this
    package, as in recordings, and the number of updates that they have received,
    (step,); empty and 0 for another optimizer. Raises as `dynamics.replay` does."""
    network: Any = network_of(trajectory)
    if network.settings.optimizer == "sgd":
        return {}, np.zeros(len(frames), int)
    steps = trajectory["step"].values[list(frames)].tolist()
    rows, updates = [], []
    seeds = trajectory["seed"].values
    states: Any = states_at(open_source(trajectory), seeds, steps, [])
    for state in states:
        moments = state.moments.get(_MOMENT, np.zeros_like(state.weights))
        updates.append(state.updates)
        rows.append(moments / (1 - network.settings.beta2 ** max(1, state.updates)))
    flat = np.split(np.stack(rows, axis=1), np.cumsum(network.lengths)[:-1], axis=-1)
    variables = {}
    for (name, dims), values in zip(network.variables.items(), flat, strict=True):
        shape = (*values.shape[:2], *(trajectory.sizes[dim] for dim in dims))
        variables[f"{SECOND_MOMENT}{name}"] = (
            ("run", "step", *dims),
            values.reshape(shape),
        )
    return variables, np.array(updates)
