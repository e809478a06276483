"""Operators of curvature of a training loss, by products of its second derivative with
vectors.

A product is two backward passes, the first of which is kept if there is only one batch:
that is the fastest way, and what needs memory. curvlinops' operators, which need a module
and a loss function apart, are compared with these in tests. The whole Hessians of the
networks of both papers are computed in closed form."""

from __future__ import annotations

import functools
from collections.abc import Sequence
from typing import Any

import numpy as np
import torch
import xarray as xr

from analysis.linearization.clustering_head_hessian import ClusteringHeadHessian
from analysis.linearization.constant_attention_hessian import ConstantAttentionHessian
from analysis.linearization.curvature_operators import (
    CurvatureOperator,
    Product,
)
from analysis.linearization.operator_kinds import Kind
from analysis.linearization.optimizer_limits import (
    preconditioner_scale,
    stability_rates,
    with_moments,
)
from analysis.linearization.training_loss import training_model, training_objective
from dynamics.networks.derivatives import FlatLoss, hessian_vector_product
from dynamics.networks.from_trajectory import network_of
from dynamics.recording.model_file import ModelFile
from dynamics.recording.model_loss import RecordedModel
from dynamics.settings import (
    ModularSettings,
    RecordedSettings,
    SettingsError,
    SparseSettings,
)

_CLOSED_FORMS = (ModularSettings.system, SparseSettings.system)
"""Systems whose Hessian has a closed form."""


class LossOperator(CurvatureOperator):
    """An operator whose whole spectrum is computed by torch, in as many threads as torch
    has: numpy would use all cores in each of several threads."""

    def eigh(self) -> tuple[np.ndarray, np.ndarray]:
        values, vectors = torch.linalg.eigh(torch.from_numpy(self.matrix))
        return values.numpy(), vectors.numpy()

    def eigvalsh(self) -> np.ndarray:
        return torch.linalg.eigvalsh(torch.from_numpy(self.matrix)).numpy()


def loss_operator(
    frame: xr.Dataset, kind: Kind, functions: ModelFile | None = None
) -> CurvatureOperator:
    """The kinds of `operator` that belong to a training loss, at a trajectory of one
    frame. Raises SettingsError, TrajectoryError."""
    if kind == "preconditioned":
        frame = with_moments(frame, [0])
    model = training_model(frame, 0, functions)
    if kind == "gauss_newton":
        return gauss_newton_operator(model, 0)
    hessian = hessian_operator(model, 0, 0)
    if kind == "hessian":
        return hessian
    preconditioned = preconditioned_operator(hessian, model, 0, 0)
    if preconditioned is None:
        allowed = "a frame after the first update of Adam, with its moments"
        words = "preconditioned without second moments of Adam"
        raise SettingsError("kind", words, allowed)
    return preconditioned


def hessian_operator(model: RecordedModel, run: int, frame: int) -> CurvatureOperator:
    """The Hessian of a model's loss at a frame, after a check of its derivatives. Raises
    SettingsError."""
    model.check_derivatives(run, frame)
    row = model.row(run, frame)
    product = hessian_product(model.losses(run, frame), row)
    trajectory = model.trajectory
    if trajectory.attrs["system"] not in _CLOSED_FORMS:
        return LossOperator(model.shapes, product)

    def closed_form() -> np.ndarray:
        network: Any = network_of(trajectory)
        objective = training_objective(network, int(trajectory["seed"][run]))
        return objective.hessian(row).numpy()

    return LossOperator(model.shapes, product, closed_form)


def objective_operator(
    objective: ConstantAttentionHessian | ClusteringHeadHessian, row: torch.Tensor
) -> CurvatureOperator:
    """The Hessian of a training loss with a closed form at flat parameters."""
    return LossOperator(
        objective.network.shapes,
        hessian_product([objective.loss], row),
        lambda: objective.hessian(row).numpy(),
    )


def preconditioned_operator(
    hessian: CurvatureOperator, model: RecordedModel, run: int, frame: int
) -> CurvatureOperator | None:
    """A Hessian with the optimizer's preconditioner and the learning rates of layers; None
    without second moments and before the first update."""
    scale = preconditioner_scale(model, run, frame)
    if scale is None:
        return None
    root = stability_rates(model, run, frame).root
    return hessian.scaled(scale if root is None else root * scale)


def gauss_newton_operator(model: RecordedModel, frame: int) -> CurvatureOperator:
    """The Gauss-Newton matrix of the training loss of a network of this package: the
    Hessian of the loss with logits that are linear in the parameters (Schraudolph 2002,
    Neural Computation 14, 1723). Raises SettingsError."""
    row = model.row(0, frame)
    loss = linear_logits_loss(model, row)
    return LossOperator(model.shapes, hessian_product([loss], row))


def linear_logits_loss(model: RecordedModel, row: torch.Tensor) -> FlatLoss:
    """The training loss of a network of this package as a function of flat parameters,
    with logits that are linear in them around a row. Raises SettingsError."""
    if model.trajectory.attrs["system"] == RecordedSettings.system:
        allowed = "hessian for a recorded model, whose loss is one function"
        raise SettingsError("matrix", "gauss_newton", allowed)
    network: Any = network_of(model.trajectory)
    inputs, *rest = model.batches[0]
    targets = rest[0] if rest else network.target(inputs)

    def logits(flat: torch.Tensor) -> torch.Tensor:
        return network.logits(model.unflatten(flat), inputs)

    def loss(flat: torch.Tensor) -> torch.Tensor:
        value, change, *_ = torch.func.jvp(logits, (row,), (flat - row,))
        return torch.nn.functional.cross_entropy(value + change, targets.reshape(-1))

    return loss


def hessian_product(losses: Sequence[FlatLoss], row: torch.Tensor) -> Product:
    """The product of the Hessian of the mean loss of the batches at flat parameters with
    a vector, as a function of the vector.

    With one batch its gradient's graph is kept; with several, only that of one batch at
    a time is in memory."""

    @functools.cache
    def only_batch() -> Any:
        return hessian_vector_product(losses[0], row)

    def product(vector: np.ndarray) -> np.ndarray:
        given = torch.from_numpy(np.ascontiguousarray(vector)).to(row)
        if len(losses) == 1:
            return only_batch()(given).to("cpu", torch.float64).numpy()
        total = torch.zeros_like(given)
        for loss in losses:
            total += hessian_vector_product(loss, row)(given)
        return (total / len(losses)).to("cpu", torch.float64).numpy()

    return product
