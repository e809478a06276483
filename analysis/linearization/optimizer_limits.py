"""Learning rates and second moments of a frame's update, and the limits of curvature
beyond which an optimizer is unstable.

Gradient descent with the learning rate lr is unstable along an eigenvector of the
Hessian H whose eigenvalue exceeds 2 / lr (Cohen et al. 2021, arXiv 2103.00065). Adam is
unstable if the largest eigenvalue of P^-1/2 H P^-1/2 exceeds 2 (1 + beta1) / ((1 -
beta1) lr), with P = (1 - beta1^t) (sqrt(v) + eps) after t updates of Adam and its
bias-corrected second moments v (Cohen et al. 2022, arXiv 2207.14484). Parameters with
learning rates lr_i of their own scale H_ij by sqrt(lr_i lr_j) / lr. The preconditioner and
its limit are those of the optimizer's value (`dynamics.optimizers`)."""

from __future__ import annotations

import json
from collections.abc import Sequence
from typing import Any, NamedTuple

import numpy as np
import xarray as xr

from dynamics.branching import open_source, states_at
from dynamics.networks.clustering_head import ClusteringHead
from dynamics.networks.constant_attention import ConstantAttention
from dynamics.networks.from_trajectory import network_of
from dynamics.optimizers import (
    ADAM_PRECONDITIONER,
    Preconditioner,
    call_by_names,
    update_numbers,
)
from dynamics.recording.model_loss import RecordedModel
from dynamics.recording.quantities import (
    LEARNING_RATE,
    LEARNING_RATES,
    MOMENT_UPDATES,
    SECOND_MOMENT,
    TRAINED,
)
from dynamics.settings import OptimizerSettings, RecordedSettings
from dynamics.trajectory.schema import read_settings


class StabilityRates(NamedTuple):
    """The learning rates of a frame, and what they scale."""

    rate: float
    """The learning rate of the next update, lr; NaN if it is not known. Of a recorded
    model it is that of the first parameter group, or the largest if that is 0."""
    limit: float
    """The optimizer's limit of the preconditioned sharpness for this rate."""
    root: np.ndarray | None
    """Square root of each parameter's rate over this rate, (parameter,), with which H is
    multiplied on both sides; None if all are equal."""


def stability_rates(model: RecordedModel, run: int, frame: int) -> StabilityRates:
    """The learning rates of the update that follows a frame."""
    trajectory = model.trajectory
    rates: Any
    settings: Any = read_settings(trajectory)
    if isinstance(settings, OptimizerSettings):
        factor = settings.learning_rate_factor(int(trajectory["step"][frame]))
        rate = settings.lr * factor
        names = model.shapes
        by_name = [factor * settings.learning_rate_of(name) for name in names]
        rates = np.repeat(by_name, model.lengths)
    else:
        named = getattr(settings, "optimizer", "")
        rate = float(settings.time_step) if named else np.nan
        if LEARNING_RATE in trajectory:
            rate = float(trajectory[LEARNING_RATE].isel(run=run, step=frame))
        rates = _by_parameter(model, LEARNING_RATES, run, frame)
    root = None
    if rates is not None and len(np.unique(rates)) > 1:
        rate = rate if rate > 0 else float(rates.max())
        root = np.sqrt(rates / rate)
    values = {**_hyperparameters(settings), "lr": rate}
    limit = np.inf
    if rate:
        limit = call_by_names(_preconditioner(settings).limit, values)
    return StabilityRates(rate, limit, root)


def _preconditioner(settings: Any) -> Preconditioner:
    """The preconditioner of the optimizer; that of Adam for a recorded model."""
    value = getattr(settings, "optimizer_value", None)
    return getattr(value, "preconditioner", None) or ADAM_PRECONDITIONER


def _hyperparameters(settings: Any) -> dict[str, float]:
    """The decay rates and epsilon of settings; 0 for a recorded model without Adam."""
    names = ("beta1", "beta2", "momentum", "eps")
    return {name: getattr(settings, name, 0.0) for name in names}


def relative_learning_rates(network: ConstantAttention | ClusteringHead) -> np.ndarray:
    """The learning rate of each parameter over lr: (parameter,)."""
    settings = network.settings
    rates = [
        settings.learning_rate_of(name) / settings.lr for name in network.variables
    ]
    return np.repeat(rates, network.lengths)


def _by_parameter(
    model: RecordedModel, name: str, run: int, frame: int
) -> np.ndarray | None:
    """A variable that has one number for each trained tensor, or for all, as a number
    for each parameter: (parameter,); None if it is not recorded."""
    if name not in model.trajectory.variables:
        return None
    values = model.trajectory[name].isel(step=frame)
    if not values.ndim:
        return np.full(model.size, float(values))
    names = json.loads(model.trajectory.attrs[TRAINED])
    by_name = dict(zip(names, values.isel(run=run).values.tolist(), strict=True))
    return np.repeat([float(by_name[name]) for name in model.shapes], model.lengths)


def preconditioner_scale(
    model: RecordedModel, run: int, frame: int
) -> np.ndarray | None:
    """The inverse root of the optimizer's preconditioner, (parameter,), 0 for parameters
    without an update; None without second moments and before the first update.

    The number of updates is that of the moments, which is not the step of a branch or of
    a recording of a model that was trained before; only recordings that do not have it
    are taken to begin with the first update."""
    if not model.has_moments:
        return None
    updates = _by_parameter(model, MOMENT_UPDATES, run, frame)
    if updates is None:
        updates = np.full(model.size, float(model.trajectory["step"][frame]))
    if not updates.any():
        return None
    settings = read_settings(model.trajectory)
    numbers = update_numbers(_hyperparameters(settings), updates)
    moment = model.row(run, frame, SECOND_MOMENT).cpu().double().numpy()
    numbers["second_moment"] = moment
    with np.errstate(divide="ignore"):
        scale = 1 / np.sqrt(call_by_names(_preconditioner(settings).scale, numbers))
    return np.where(updates > 0, scale, 0.0)


def with_moments(trajectory: xr.Dataset, frames: Sequence[int]) -> xr.Dataset:
    """The frames of a trajectory with the second moments of its optimizer without bias, as
    recordings have those of Adam, and the number of updates that they have received.

    Those of a network of this package come from its exact states, which are computed
    again; other trajectories stay as they are. frames: increasing indices along step.
    Raises as `dynamics.replay` does."""
    selected = trajectory.isel(step=list(frames))
    if trajectory.attrs["system"] == RecordedSettings.system:
        return selected
    network: Any = network_of(trajectory)
    optimizer = network.settings.optimizer_value
    if optimizer.preconditioner is None:
        return selected
    rows = []
    updates = []
    steps = selected["step"].values.tolist()
    seeds = trajectory["seed"].values
    states: Any = states_at(open_source(trajectory), seeds, steps, [])
    for state in states:
        zeros = dict.fromkeys(optimizer.moments, np.zeros_like(state.weights))
        hyperparameters = network.settings.hyperparameters
        numbers = update_numbers(hyperparameters, max(1, state.updates))
        known = {**zeros, **state.moments, **numbers}
        updates.append(state.updates)
        rows.append(call_by_names(optimizer.preconditioner.second_moment, known))
    flat = np.split(np.stack(rows, axis=1), np.cumsum(network.lengths)[:-1], axis=-1)
    variables = {}
    for (name, dims), values in zip(network.variables.items(), flat, strict=True):
        shape = (*values.shape[:2], *network.shapes[name])
        moments = values.reshape(shape)
        variables[f"{SECOND_MOMENT}{name}"] = (("run", "step", *dims), moments)
    counts = {MOMENT_UPDATES: ("step", np.array(updates))}
    return selected.assign(variables).assign_coords(counts)
