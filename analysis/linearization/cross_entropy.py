"""Derivatives of a mean cross-entropy by logits, and products of a matrix with its
transpose, for exact Hessians.

With p the softmax of logits l and y the one-hot target, the gradient is p - y and the
Hessian diag p - p p^T, which is the covariance of one draw from p. Its Cholesky factor
has a closed form (sequential conditioning): with the tails q_j = p_j+1 + p_j+2 + ... it
is the matrix of columns sqrt(p_j q_j / q_j-1) (e_j - sum_k>j p_k / q_j e_k), one fewer
than there are classes. Tensors are float64; the last axis is that of examples."""

from typing import NamedTuple

import torch

_BLOCK = 56
"""Largest number of rows for which a product of a matrix with its transpose is not
divided into blocks."""
_SMALLEST_TAIL = 1e-300
"""Lower bound of tails, which avoids a division by 0."""


class CrossEntropyDerivatives(NamedTuple):
    """First and second derivative of the loss by logits, for each example."""

    error: torch.Tensor
    """(class, example) p - y, times the weight of the example"""
    root: torch.Tensor
    """(class, rank, example): root root^T is diag p - p p^T, times the weight"""


def cross_entropy_derivatives(
    logits: torch.Tensor, target: torch.Tensor, share: torch.Tensor
) -> CrossEntropyDerivatives:
    """First and second derivative of the cross-entropy by logits.

    logits: (class, example); target: (example,); share: weights of the examples,
    (example,)."""
    p = torch.softmax(logits, 0)
    error = p - (target == torch.arange(len(p))[:, None]).to(p.dtype)
    tails = p.flip(0).cumsum(0).flip(0).clamp(min=_SMALLEST_TAIL)
    size = torch.sqrt(share * p[:-1] * tails[1:] / tails[:-1])
    rank = len(p) - 1
    root = torch.zeros(rank + 1, rank, p.shape[1], dtype=p.dtype)
    for column in range(rank):
        root[column, column] = size[column]
        root[column + 1 :, column] = -p[column + 1 :] / tails[column + 1] * size[column]
    return CrossEntropyDerivatives(error * share, root)


def add_gram(total: torch.Tensor, rows: torch.Tensor) -> None:
    """total += rows rows^T, (row, row) and (row, number); off-diagonal blocks are
    computed once."""
    if len(rows) <= _BLOCK:
        total.addmm_(rows, rows.T)
        return
    half = len(rows) // 2
    add_gram(total[:half, :half], rows[:half])
    add_gram(total[half:, half:], rows[half:])
    block = rows[half:] @ rows[:half].T
    total[half:, :half] += block
    total[:half, half:] += block.T
