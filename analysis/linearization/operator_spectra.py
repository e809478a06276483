"""Hessians of a network's training loss: exact, both ends of the spectrum, trace, and
products with vectors.

The training loss is the mean cross-entropy over the training split, without the L2 term
or the weight decay of the optimizer: for CA the training pairs of the run's seed, for
VC its distinct training sequences, weighted by how often they occur.
`training_objective` returns it with a Hessian in closed form. The other functions take
any loss of flat parameters (parameter,) that torch can differentiate twice, in float64:
the closed forms are tested against them, and they are used for networks that are too
large for a whole Hessian. All values are dimensionless."""

from collections.abc import Callable
from typing import Literal, NamedTuple

import numpy as np
import torch
from scipy.sparse.linalg import ArpackError, LinearOperator, eigsh

from analysis.linearization.clustering_head_hessian import ClusteringHeadHessian
from analysis.linearization.constant_attention_hessian import ConstantAttentionHessian
from dynamics.networks.clustering_head import ClusteringHead
from dynamics.networks.constant_attention import ConstantAttention
from dynamics.networks.derivatives import FlatLoss, hessian_vector_product
from dynamics.tasks import all_pairs, distinct_sequences, training_pairs

_CHUNK = 64
"""Number of products with vectors that are computed at a time."""
_PROBES = 64
"""Default number of random vectors of an estimated trace."""
_ACCURACY = 1e-10
"""Relative accuracy of Lanczos eigenvalues."""
_MAX_RESTARTS = 10_000
"""Number of restarts after which Lanczos counts as not converging."""


def training_objective(
    network: ConstantAttention | ClusteringHead, seed: int
) -> ClusteringHeadHessian | ConstantAttentionHessian:
    """The training loss of the run with a seed, with the methods `loss(row)` and
    `hessian(row)` (exact)."""
    if isinstance(network, ConstantAttention):
        s = network.settings
        chosen = training_pairs(s.n, s.train_pairs, np.array([seed]))[0]
        return ConstantAttentionHessian(
            network, torch.from_numpy(all_pairs(s.n)[chosen])
        )
    tokens, counts = distinct_sequences(network.settings, seed, "train")
    return ClusteringHeadHessian(network, tokens, counts / counts.sum())


def dense_hessian(loss: FlatLoss, row: torch.Tensor) -> torch.Tensor:
    """The Hessian (parameter, parameter), as products with all unit vectors."""
    columns = _products(loss, row, torch.eye(len(row)))
    return (columns + columns.T) / 2


def _products(loss: FlatLoss, row: torch.Tensor, vectors: torch.Tensor) -> torch.Tensor:
    """The products of the Hessian with vectors (vector, parameter)."""
    product = hessian_vector_product(loss, row)
    return torch.cat([product(chunk) for chunk in vectors.split(_CHUNK)])


class ExtremeEigenpairs(NamedTuple):
    """Eigenvalues, ascending, and their eigenvectors (parameter, eigenvalue)."""

    values: np.ndarray
    vectors: np.ndarray


def extreme_eigenpairs(
    loss: FlatLoss, row: torch.Tensor, count: int = 1
) -> ExtremeEigenpairs:
    """Both ends of the spectrum, `count` eigenvalues each, by the Lanczos method from a
    fixed start.

    A Hessian of zeros, such as that of a network whose units are all dead, has
    eigenvalues 0 and eigenvectors NaN; both are NaN if Lanczos does not converge.
    Raises ValueError for a count beyond half the number of parameters."""
    size = len(row)
    if not 1 <= count <= (size - 1) // 2:
        raise ValueError(
            f"count: found {count}, expected 1 to {(size - 1) // 2} for {size}"
            " parameters"
        )
    apply = hessian_vector_product(loss, row)
    return lanczos(apply, size, 2 * count, "BE", _ACCURACY, max(40, 8 * count))


def lanczos(
    product: Callable[[torch.Tensor], torch.Tensor],
    size: int,
    count: int,
    which: Literal["LA", "LM", "BE"],
    tolerance: float,
    basis: int,
    shift: float = 0.0,
) -> ExtremeEigenpairs:
    """`count` eigenpairs of a symmetric operator by the Lanczos method (ARPACK), as
    `extreme_eigenpairs` returns them.

    product: of the operator with a vector (parameter,); which: the largest ones, those
    of largest magnitude, or half of them at each end; basis: number of vectors that are
    kept; shift: what is added to the diagonal meanwhile, so that `tolerance` is
    relative to eigenvalue plus shift. All eigenvalues are those of the whole matrix."""
    if count >= size:
        matrix = torch.stack([product(axis) for axis in torch.eye(size).double()])
        return ExtremeEigenpairs(*np.linalg.eigh((matrix + matrix.T).numpy() / 2))
    nowhere = np.full((size, count), np.nan)

    def apply(vector: np.ndarray) -> np.ndarray:
        given = np.ascontiguousarray(vector[:])
        numpy = product(torch.from_numpy(given)).numpy()
        return numpy + shift * given if shift else numpy

    start = np.random.Generator(np.random.Philox(0)).standard_normal(size)
    if not product(torch.from_numpy(start)).any():
        return ExtremeEigenpairs(np.zeros(count), nowhere)
    try:
        operator, vector_count = (
            LinearOperator((size, size), matvec=apply, dtype=float),
            min(size, basis),
        )
        values, vectors = eigsh(
            operator,
            count,
            which=which,
            v0=start,
            ncv=vector_count,
            maxiter=_MAX_RESTARTS,
            tol=tolerance,
        )
    except ArpackError:
        return ExtremeEigenpairs(np.full(count, np.nan), nowhere)
    order = np.argsort(values)
    return ExtremeEigenpairs(values[order] - shift, vectors[:, order])


class TraceEstimate(NamedTuple):
    """An estimated trace and its standard error."""

    value: float
    error: float


def estimate_trace(
    loss: FlatLoss, row: torch.Tensor, probes: int = _PROBES
) -> TraceEstimate:
    """The trace by Hutchinson's estimator, the mean of v . H v over fixed random signs
    v. Raises ValueError."""
    if probes < 2:
        raise ValueError(f"probes: found {probes}, expected at least 2")
    signs = (
        np.random.Generator(np.random.Philox(1)).integers(0, 2, (probes, len(row)))
        * 2.0
        - 1.0
    )
    vectors = torch.from_numpy(signs).to(row.dtype)
    applied = _products(loss, row, vectors)
    result = (vectors * applied).sum(-1)
    return TraceEstimate(float(result.mean()), float(result.std() / np.sqrt(probes)))
