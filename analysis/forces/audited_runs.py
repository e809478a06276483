"""Runs that the force audit reads: embeddings, their targets, and the pairs that the
forces are summed over.

The targets are the negative gradient -dL/dE of the loss of the whole training split,
and the update, which is the displacement to the next recorded frame. For the systems
``modular`` and ``transformer`` the gradient is computed from the recorded weights. For
a model recorded by `dynamics.record` it is that of the first update after each frame,
without weight decay, or that of the frame, if a model file computes it; its training
pairs are those of the model file, or the variable `training_pairs` (run, step, pair, 2)
if it is recorded, else all unordered pairs. A pair whose two orders are data of a
transformer counts once, if any of both is trained on.

The forces act on sums of two embeddings. A model file may name another operation than a
+ b: if its answer is u(a) + u(b) + c modulo N with a permutation u, its numbers get
these names; any other one is refused."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import torch
import xarray as xr

from dynamics.errors import TrajectoryError
from dynamics.networks.constant_attention import ConstantAttention
from dynamics.networks.from_trajectory import network_of, weights
from dynamics.networks.transformer_network import Transformer
from dynamics.recording.model_file import ModelFile, sum_names
from dynamics.recording.recorded_network import (
    RecordedNetwork,
    known_training_pairs,
    with_model,
)
from dynamics.settings import (
    ModularSettings,
    RecordedSettings,
    SettingsError,
    TransformerSettings,
)
from dynamics.tasks import (
    all_pairs,
    modular_training_mask,
    operation_pairs,
    operation_splits,
)
from dynamics.trajectory.reader import open_trajectory
from dynamics.trajectory.schema import (
    OPERATION,
    SUM,
    adds_numbers,
    check_variable_recorded,
    numbers_modulo,
    read_settings,
)

TARGETS = ("gradient", "update")


class AuditedRun(NamedTuple):
    """A run at the audited frames."""

    embedding: np.ndarray
    """(step, token, axis) of the N numbers."""
    targets: np.ndarray
    """(target, step, token, axis), in the order of `TARGETS`."""
    pairs: np.ndarray
    """(pair, 2) training pairs, unordered and each once."""


def is_network(trajectory: xr.Dataset) -> bool:
    """Whether the trajectory is of a network whose gradient is computed, not of a
    recorded model."""
    return trajectory.attrs["system"] in (
        ModularSettings.system,
        TransformerSettings.system,
    )


def needs_model(trajectory: xr.Dataset, model: ModelFile | None) -> bool:
    """Whether the gradient is computed by the functions of a model from outside: one is
    given, and the gradient is not recorded."""
    return model is not None and "embedding_gradient" not in trajectory


def has_last_gradient(trajectory: xr.Dataset, model: ModelFile | None) -> bool:
    """Whether the gradient is known at the last frame, too, as it is computed from the
    recorded weights."""
    return is_network(trajectory) or needs_model(trajectory, model)


def audited_trajectory(
    trajectory: xr.Dataset, model: ModelFile | None = None
) -> xr.Dataset:
    """The trajectory with what a model file says of its embedding. Raises
    TrajectoryError if it lacks what the audit needs, SettingsError if the functions of
    the model fail."""
    trajectory = with_model(trajectory, model)
    if is_network(trajectory):
        _check_network_run(trajectory)
    elif model is not None and needs_model(trajectory, model):
        number_names(trajectory, model)
        RecordedNetwork(trajectory, model).embedding_gradient(0, 0)
    else:
        _check_recorded_run(trajectory)
        number_names(trajectory, model)
    return trajectory


def can_be_audited(trajectory: xr.Dataset) -> bool:
    """Whether a trajectory has what `audit_forces` needs."""
    try:
        audited_trajectory(trajectory)
    except TrajectoryError:
        return False
    return True


def read_audited_run(
    trajectory: xr.Dataset,
    run: int,
    frames: np.ndarray,
    model: ModelFile | None = None,
) -> AuditedRun:
    """A run of a trajectory that passes `audited_trajectory`, at the indices of some
    frames."""
    if is_network(trajectory):
        return _read_network_run(trajectory, run, frames)
    if model is not None and needs_model(trajectory, model):
        audited = _read_model_run(trajectory, run, frames, model)
    else:
        audited = _read_recorded_run(trajectory, run, frames, model)
    names = number_names(trajectory, model)
    order = np.argsort(names)
    return AuditedRun(
        audited.embedding[:, order],
        audited.targets[:, :, order],
        _unordered(names[audited.pairs]),
    )


def number_names(trajectory: xr.Dataset, model: ModelFile | None) -> np.ndarray:
    """The numbers (token,) that the tokens stand for, if a model from outside adds
    numbers with other names. Raises TrajectoryError, SettingsError if there are
    none."""
    n = numbers_modulo(trajectory)
    if model is None:
        if not adds_numbers(trajectory):
            raise TrajectoryError(
                f"attribute {OPERATION}: found {trajectory.attrs[OPERATION]}, expected"
                f" {SUM}, or --model FILE.py with operation(a, b)"
            )
        return np.arange(n)
    names = sum_names(model.answers(n))
    if names is None or len(set((names[1] - names[0]) % n)) > 1:
        raise SettingsError(
            "model",
            f"{model.name}: operation() that is no sum of the numbers under any names",
            f"{SUM}, or u(a) + u(b) + c, as the forces act on sums of two embeddings",
        )
    return names[0]


def _check_network_run(trajectory: xr.Dataset) -> None:
    settings = read_settings(trajectory)
    if isinstance(settings, TransformerSettings):
        for name, expected in (("task", "add"), ("own_vocabularies", False)):
            if getattr(settings, name) != expected:
                raise TrajectoryError(
                    f"attribute {name}: found {getattr(settings, name)}, expected"
                    f" {expected}"
                )
    for name in network_of(trajectory).variables:
        check_variable_recorded(trajectory, name)


def _read_network_run(
    trajectory: xr.Dataset, run: int, frames: np.ndarray
) -> AuditedRun:
    network: Any = network_of(trajectory)
    n = network.settings.n
    seeds = trajectory["seed"].values[[run]]
    one = trajectory[list(network.variables)].isel(run=[run]).load()
    recorded = weights(one.isel(step=frames).assign_attrs(trajectory.attrs), run=0)
    if isinstance(network, Transformer):
        chosen = operation_splits(network.settings, seeds)[0][0]
        data = operation_pairs(network.settings)[chosen]
        gradient = transformer_gradient(network, recorded, data)
        pairs = _unordered(data)
    else:
        chosen = modular_training_mask(network.settings, seeds)[0]
        gradient = embedding_gradient(network, recorded, chosen)
        pairs = all_pairs(n)[chosen]
    embedding, update = _embedding_and_update(one, 0, frames)
    return AuditedRun(embedding[:, :n], np.stack([-gradient, update])[:, :, :n], pairs)


def _embedding_and_update(
    trajectory: xr.Dataset, run: int, frames: np.ndarray
) -> tuple[np.ndarray, np.ndarray]:
    """The embedding at some frames, and its displacement to the next ones, 0 at the
    last: both (step, token, axis)."""
    table = trajectory["embedding"].isel(run=run).transpose("step", "token", "axis")
    embedding = table.isel(step=frames).values.astype(np.float64)
    later = np.minimum(frames + 1, trajectory.sizes["step"] - 1)
    return embedding, table.isel(step=later).values - embedding


def _read_model_run(
    trajectory: xr.Dataset, run: int, frames: np.ndarray, model: ModelFile
) -> AuditedRun:
    """Read a run, and compute its gradient from the loss of a model file."""
    network = RecordedNetwork(trajectory, model)
    n = network.n
    gradient = [network.embedding_gradient(run, frame) for frame in frames.tolist()]
    embedding, update = _embedding_and_update(trajectory, run, frames)
    targets = np.stack([-np.stack(gradient), update[:, :n]])
    return AuditedRun(embedding[:, :n], targets, _pairs_of(trajectory, run, model))


def _unordered(pairs: np.ndarray) -> np.ndarray:
    """Pairs (pair, 2) without their order, each once."""
    return np.unique(np.sort(pairs, axis=1), axis=0)


def embedding_gradient(
    network: ConstantAttention, weights: Mapping[str, torch.Tensor], chosen: np.ndarray
) -> np.ndarray:
    """dL/dE of the training loss of the network of CA in float64, (step, token, axis),
    at weights (step, ...) of a run.

    chosen (pair,) bool are the training pairs among `all_pairs`.
    """
    pairs = torch.from_numpy(all_pairs(network.settings.n))
    fraction = torch.from_numpy(chosen / chosen.sum())
    double = {name: weight.double() for name, weight in weights.items()}
    double["embedding"].requires_grad_()
    loss = network.loss(double, pairs, fraction).sum()
    return torch.autograd.grad(loss, double["embedding"])[0].numpy()


def transformer_gradient(
    network: Transformer, weights: Mapping[str, torch.Tensor], data: np.ndarray
) -> np.ndarray:
    """dL/dE of the mean loss of the training pairs of a transformer, as
    `embedding_gradient`; data (pair, 2)."""
    pairs = torch.from_numpy(data)
    gradients = []
    for step in range(len(weights["embedding"])):
        double = {name: weight[step].double() for name, weight in weights.items()}
        double["embedding"].requires_grad_()
        loss = network.losses(double, pairs).mean()
        gradients.append(torch.autograd.grad(loss, double["embedding"])[0].numpy())
    return np.stack(gradients)


def _check_recorded_run(trajectory: xr.Dataset) -> None:
    system = trajectory.attrs["system"]
    if "embedding_gradient" not in trajectory and system != RecordedSettings.system:
        networks = f"{ModularSettings.system}, {TransformerSettings.system}"
        expected = (
            f"{networks}, or a model recorded by dynamics.record(...,"
            " embedding_gradient=True), or --model FILE.py"
        )
        raise TrajectoryError(f"attribute system: found {system}, expected {expected}")
    numbers_modulo(trajectory)
    if "embedding_gradient" not in trajectory:
        raise TrajectoryError(
            "variable embedding_gradient: missing; dynamics.record(...,"
            " embedding_gradient=True) records it, and --model FILE.py with"
            " loss(parameters, batch), batches() and embedding(parameters) computes it"
        )
    if trajectory.sizes["step"] < 2:
        raise TrajectoryError(
            "dimension step: found a single frame, expected at least two"
        )


def _read_recorded_run(
    trajectory: xr.Dataset, run: int, frames: np.ndarray, model: ModelFile | None
) -> AuditedRun:
    """A run of a recorded model, whose gradient lies in the recorded frame after that
    of the embedding. Raises TrajectoryError if this frame was left out."""
    n = trajectory.attrs["modulus"]
    one = trajectory.isel(run=run)
    embedding, after, gradient = (
        values.isel(token=slice(n))
        .transpose("step", "token", "axis")
        .values.astype(np.float64)
        for values in (
            one["embedding"].isel(step=frames),
            one["embedding"].isel(step=frames + 1),
            _following_gradients(trajectory, run, frames),
        )
    )
    lasts = (one["step"].values[frames + 1] <= one["last_step"].values)[:, None, None]
    targets = np.stack([np.where(lasts, -gradient, 0.0), after - embedding])
    return AuditedRun(embedding, targets, _pairs_of(trajectory, run, model))


def _following_gradients(
    trajectory: xr.Dataset, run: int, frames: np.ndarray
) -> xr.DataArray:
    """The gradients (step, token, axis) of the first updates after some frames, each of
    which is recorded in the next frame of the file.

    If frames were left out of the dataset, they are read from its file. Raises
    TrajectoryError if there is none."""
    gradients = trajectory["embedding_gradient"].isel(run=run)
    gaps = np.diff(trajectory["step"].values)
    every = trajectory.attrs.get("every")
    if every is None or ((gaps[:-1] == every).all() and gaps[-1] <= every):
        return gradients.isel(step=frames + 1)
    source = trajectory.encoding.get("source")
    steps = trajectory["step"].values[frames]
    if source is not None and Path(source).exists():
        whole = open_trajectory(source)
        of_run = whole["seed"].values.tolist().index(int(trajectory["seed"][run]))
        place = np.searchsorted(whole["step"].values, steps)
        found = whole["step"].values[np.minimum(place, whole.sizes["step"] - 1)]
        is_there = (found == steps) & (place + 1 < whole.sizes["step"])
        if is_there.all() and "derived" not in whole.attrs:
            return whole["embedding_gradient"].isel(run=of_run, step=place + 1)
    raise TrajectoryError(
        f"dimension step: found {trajectory.sizes['step']} of the recorded frames; the"
        " gradient at an embedding is recorded in the frame after it, so the whole"
        " trajectory is needed, with frames to choose among them"
    )


def _pairs_of(trajectory: xr.Dataset, run: int, model: ModelFile | None) -> np.ndarray:
    """The pairs (pair, 2) over which forces of a run are summed."""
    n = trajectory.attrs["modulus"]
    pairs = known_training_pairs(trajectory, model, n, run)
    return all_pairs(n) if pairs is None else pairs
