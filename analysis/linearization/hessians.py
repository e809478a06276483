"""Hessians of a network's training loss: whole, at both ends, their trace, and products with vectors.

The training loss is the mean cross-entropy over the training split, without the L2 term or the weight decay of the
optimizer: for CA the training pairs of the run's seed, for VC its distinct training sequences by how often they occur.
`objective` gives it with a Hessian in closed form. The functions beside it take any loss of flat parameters
(parameter,), twice differentiable by torch, in float64: they are what the closed forms are tested against, and what
there is for networks too large for a whole Hessian. All values are dimensionless.
"""

from collections.abc import Callable
from typing import NamedTuple

import numpy as np
import torch
from scipy.sparse.linalg import ArpackError, LinearOperator, eigsh

from analysis.linearization.clustering_head_hessian import ClusteringHeadHessian
from analysis.linearization.constant_attention_hessian import ConstantAttentionHessian
from dynamics.networks.clustering_head import ClusteringHead
from dynamics.networks.constant_attention import ConstantAttention
from dynamics.tasks import all_pairs, distinct_sequences, training_pairs

LossFunction = Callable[[torch.Tensor], torch.Tensor]
"""From flat parameters (parameter,) to a number."""

_CHUNK = 64
"""Products with vectors that are taken at a time."""
_PROBES = 64
"""Random vectors of an estimated trace."""
_ACCURACY = 1e-10
"""Relative one of Lanczos eigenvalues."""
_MAX_RESTARTS = 10_000
"""Restarts of Lanczos after which it counts as not converging."""


def training_objective(
    network: ConstantAttention | ClusteringHead, seed: int
) -> ClusteringHeadHessian | ConstantAttentionHessian:
    """The training loss of the run of a seed, with its exact Hessian: `loss(row)` and `hessian(row)`."""
    if isinstance(network, ConstantAttention):
        s = network.settings
        chosen = training_pairs(s.n, s.train_pairs, np.array([seed]))[0]
        return ConstantAttentionHessian(network, torch.from_numpy(all_pairs(s.n)[chosen]))
    tokens, counts = distinct_sequences(network.settings, seed, "train")
    return ClusteringHeadHessian(network, tokens, counts / counts.sum())


def hessian_vector_product(loss: LossFunction, row: torch.Tensor) -> LossFunction:
    """The Hessian at parameters (parameter,) as a function of the vector that it is applied to.

    By two backward passes, the first of which is done once: forward derivatives of torch do not bear threads.
    """
    back = torch.func.vjp(torch.func.grad(loss), row)[1]
    return lambda vector: back(vector)[0]


def dense_hessian(loss: LossFunction, row: torch.Tensor) -> torch.Tensor:
    """The whole Hessian, (parameter, parameter), as its products with all unit vectors."""
    columns = torch.func.vmap(hessian_vector_product(loss, row), chunk_size=_CHUNK)(
        torch.eye(len(row), dtype=row.dtype)
    )
    return (columns + columns.T) / 2


class ExtremeEigenpairs(NamedTuple):
    """The lowest and the highest eigenvalues, (2 count,) rising, with their vectors as columns (parameter, 2 count)."""

    values: np.ndarray
    vectors: np.ndarray


def extreme_eigenpairs(loss: LossFunction, row: torch.Tensor, count: int = 1) -> ExtremeEigenpairs:
    """Both ends of the spectrum by Lanczos, `count` eigenvalues each, from a fixed start.

    A Hessian of zeros, such as that of units which are all dead, has eigenvalues 0 and no directions of its own, which
    are NaN; both are NaN where Lanczos does not converge. Raises ValueError for a count that leaves no others.
    """
    size = len(row)
    if not 1 <= count <= (size - 1) // 2:
        raise ValueError(f"count: found {count}, expected 1 to {(size - 1) // 2} for {size} parameters")
    apply = hessian_vector_product(loss, row)
    operator = LinearOperator(
        (size, size),
        matvec=lambda vector: apply(torch.from_numpy(np.ascontiguousarray(vector[:]))).numpy(),
        dtype=float,
    )
    start = np.random.Generator(np.random.Philox(0)).standard_normal(size)
    nowhere = np.full((size, 2 * count), np.nan)
    if not operator.matvec(start).any():
        return ExtremeEigenpairs(np.zeros(2 * count), nowhere)
    try:
        values, vectors = eigsh(
            operator,
            2 * count,
            which="BE",
            v0=start,
            ncv=min(size, max(40, 8 * count)),
            maxiter=_MAX_RESTARTS,
            tol=_ACCURACY,
        )
    except ArpackError:
        return ExtremeEigenpairs(np.full(2 * count, np.nan), nowhere)
    order = np.argsort(values)
    return ExtremeEigenpairs(values[order], vectors[:, order])


class TraceEstimate(NamedTuple):
    """An estimated trace, and the standard error of the estimate."""

    value: float
    error: float


def estimate_trace(loss: LossFunction, row: torch.Tensor, probes: int = _PROBES) -> TraceEstimate:
    """The trace by Hutchinson's estimate, the mean of v . H v over fixed random signs v. Raises ValueError."""
    if probes < 2:
        raise ValueError(f"probes: found {probes}, expected at least 2")
    signs = np.random.Generator(np.random.Philox(1)).integers(0, 2, (probes, len(row))) * 2.0 - 1.0
    vectors = torch.from_numpy(signs).to(row.dtype)
    applied = torch.func.vmap(hessian_vector_product(loss, row), chunk_size=_CHUNK)(vectors)
    found = (vectors * applied).sum(-1)
    return TraceEstimate(float(found.mean()), float(found.std() / np.sqrt(probes)))
