"""Learning rates and second moments of a frame's update, and the limits of curvature
beyond which an optimizer is unstable.

Gradient descent with the learning rate lr is unstable along an eigenvector of the
Hessian H whose eigenvalue exceeds 2 / lr (Cohen et al. 2021, arXiv 2103.00065). Adam is
unstable if the largest eigenvalue of P^-1/2 H P^-1/2 exceeds 2 (1 + beta1) / ((1 -
beta1) lr), with P = (1 - beta1^t) (sqrt(v) + eps) after t updates of Adam and its
bias-corrected second moments v (Cohen et al. 2022, arXiv 2207.14484). Parameters with
learning rates lr_i of their own scale H_ij by sqrt(lr_i lr_j) / lr."""

from __future__ import annotations

import json
from collections.abc import Sequence
from typing import Any, NamedTuple

import numpy as np
import xarray as xr

from dynamics.branching import open_source, states_at
from dynamics.networks.clustering_head import MLP_VARIABLES, ClusteringHead
from dynamics.networks.constant_attention import ConstantAttention
from dynamics.networks.from_trajectory import network_of
from dynamics.recording.model_loss import RecordedModel
from dynamics.recording.quantities import (
    LEARNING_RATES,
    MOMENT_UPDATES,
    SECOND_MOMENT,
    TRAINED,
)
from dynamics.settings import RecordedSettings, SparseSettings, TransformerSettings
from dynamics.training.transformer_backends import learning_rate
from dynamics.trajectory.schema import read_settings

_MOMENT = "exp_avg_sq"


class StabilityRates(NamedTuple):
    """The learning rates of a frame, and what they scale."""

    rate: float
    """The learning rate of the next update, lr; NaN if it is not known. Of a recorded
    model it is that of the first parameter group, or the largest if that is 0."""
    limit: float
    """Adam's limit of the preconditioned sharpness for this rate."""
    root: np.ndarray | None
    """Square root of each parameter's rate over this rate, (parameter,), with which H is
    multiplied on both sides; None if all are equal."""


def stability_rates(model: RecordedModel, run: int, frame: int) -> StabilityRates:
    """The learning rates of the update that follows a frame."""
    trajectory = model.trajectory
    settings = read_settings(trajectory)
    rate = float(settings.time_step) if getattr(settings, "optimizer", "") else np.nan
    if isinstance(settings, TransformerSettings):
        rate = learning_rate(settings, int(trajectory["step"][frame]))
    if "learning_rate" in trajectory:
        rate = float(trajectory["learning_rate"].isel(run=run, step=frame))
    rates = _by_parameter(model, LEARNING_RATES, run, frame)
    root = None
    if isinstance(settings, SparseSettings):
        network: Any = network_of(trajectory)
        rates = rate * relative_learning_rates(network)
    if rates is not None and len(np.unique(rates)) > 1:
        rate = rate if rate > 0 else float(rates.max())
        root = np.sqrt(rates / rate)
    beta1 = getattr(settings, "beta1", 0.0)
    limit = 2 * (1 + beta1) / ((1 - beta1) * rate) if rate else np.inf
    return StabilityRates(rate, limit, root)


def relative_learning_rates(network: ConstantAttention | ClusteringHead) -> np.ndarray:
    """The learning rate of each parameter over lr: (parameter,)."""
    discount = getattr(network.settings, "mlp_lr_discount", 1.0)
    rates = [
        1 / discount if name in MLP_VARIABLES else 1.0 for name in network.variables
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


def adam_scale(model: RecordedModel, run: int, frame: int) -> np.ndarray | None:
    """The inverse root of Adam's preconditioner, (parameter,), 0 for parameters without
    an update; None without second moments and before the first update.

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
    moment = model.row(run, frame, SECOND_MOMENT).cpu().double().numpy()
    beta1 = getattr(settings, "beta1", 0.0)
    eps = getattr(settings, "eps", 0.0)
    with np.errstate(divide="ignore"):
        scale = 1 / np.sqrt((1 - beta1**updates) * (np.sqrt(moment) + eps))
    return np.where(updates > 0, scale, 0.0)


def with_moments(trajectory: xr.Dataset, frames: Sequence[int]) -> xr.Dataset:
    """The frames of a trajectory with the bias-corrected second moments of Adam, as
    recordings have them, and the number of updates that they have received.

    Those of a network of this package come from its exact states, which are computed
    again; other trajectories stay as they are. frames: increasing indices along step.
    Raises as `dynamics.replay` does."""
    selected = trajectory.isel(step=list(frames))
    if trajectory.attrs["system"] == RecordedSettings.system:
        return selected
    network: Any = network_of(trajectory)
    if network.settings.optimizer == "sgd":
        return selected
    rows = []
    updates = []
    steps = selected["step"].values.tolist()
    seeds = trajectory["seed"].values
    states: Any = states_at(open_source(trajectory), seeds, steps, [])
    for state in states:
        moments = state.moments.get(_MOMENT, np.zeros_like(state.weights))
        updates.append(state.updates)
        rows.append(moments / (1 - network.settings.beta2 ** max(1, state.updates)))
    flat = np.split(np.stack(rows, axis=1), np.cumsum(network.lengths)[:-1], axis=-1)
    variables = {}
    for (name, dims), values in zip(network.variables.items(), flat, strict=True):
        shape = (*values.shape[:2], *network.shapes[name])
        moments = values.reshape(shape)
        variables[f"{SECOND_MOMENT}{name}"] = (("run", "step", *dims), moments)
    counts = {MOMENT_UPDATES: ("step", np.array(updates))}
    return selected.assign(variables).assign_coords(counts)
