"""Gradient symmetricity: whether a logit depends in the same way on the embeddings of
both numbers.

With the embeddings E_a and E_b of the two positions as separate inputs, it is the mean
over triples (a, b, c) of the cosine between d(logit c)/dE_a and d(logit c)/dE_b (Zhong
et al., arXiv 2306.17844). Dimensionless. It is 1 for constant attention, whose logits
depend on E_a + E_b alone."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np
import torch

from analysis.statistics.division import ratio
from dynamics.randomness import random_stream

TRIPLES = 100


def random_triples(n: int, seed: int, count: int = TRIPLES) -> np.ndarray:
    """Random triples (triple, 3) of two numbers and a class, drawn uniformly and
    independently."""
    return random_stream(int(seed), "progress/triples").integers(0, n, (count, 3))


def gradient_symmetricity(
    network: Any, weights: Mapping[str, torch.Tensor], triples: np.ndarray
) -> np.ndarray:
    """The mean cosine between the gradients of a logit at the embeddings of both
    numbers.

    Parameters
    ----------
    network : ConstantAttention or Transformer
        With `settings.n` numbers and the method `logits(weights, pairs)`.
    weights : mapping of str to torch.Tensor
        Weights with any leading axes.
    triples : array, shape (triple, 3)
        Numbers a and b, and a class.

    Returns
    -------
    array, shape (...)
        Over the triples whose gradients are not 0; NaN if there is none.

    Examples
    --------
    >>> import numpy as np
    >>> from analysis.progress_measures import gradient_symmetricity
    >>> from dynamics import ModularSettings, simulate
    >>> from dynamics.networks import network_of, weights
    >>> trajectory = simulate(ModularSettings(n=5, hidden=8), runs=2, steps=2, progress=False)
    >>> triples = np.array([[0, 1, 2], [3, 3, 0]])
    >>> gradient_symmetricity(network_of(trajectory), weights(trajectory, step=2), triples).round(6)
    array([1., 1.])
    """
    first, second = (
        gradient.detach().numpy()
        for gradient in _input_gradients(network, weights, torch.from_numpy(triples))
    )
    size = np.linalg.norm(first, axis=-1) * np.linalg.norm(second, axis=-1)
    cosine = ratio((first * second).sum(axis=-1), size, 0.0)
    return ratio(cosine.sum(axis=-1), (size > 0).sum(axis=-1))


def _input_gradients(
    network: Any, weights: Mapping[str, torch.Tensor], triples: torch.Tensor
) -> tuple[torch.Tensor, torch.Tensor]:
    """d(logit c)/dE_a and d(logit c)/dE_b of triples (triple, 3), both (..., triple,
    axis).

    The embeddings of several triples are put into the rows of one table, which is
    differentiated once: two rows for each triple, so that a = b, too, has a row for
    each position. The rows of the triples' classes keep their values, because with tied
    weights the table is also the last layer."""
    n = network.settings.n
    table = weights["embedding"]
    offset = (
        n if getattr(network.settings, "own_vocabularies", False) else 0
    )  # where the rows of b begin
    result = []
    for a, b, label in (part.T for part in triples.split(n // 3)):
        at = torch.arange(len(a))
        is_free = torch.ones(n, dtype=torch.bool).index_fill(0, label, value=False)
        first, second = is_free.nonzero()[: 2 * len(a), 0].split(len(a))
        pairs = torch.stack([first, second], dim=-1)
        rows = table.clone()
        rows[..., first, :] = table[..., a, :]
        rows[..., offset + second, :] = table[..., offset + b, :]

        def summed_logits(
            embedding: torch.Tensor, pairs=pairs, at=at, label=label
        ) -> torch.Tensor:
            return network.logits({**weights, "embedding": embedding}, pairs)[
                ..., at, label
            ].sum()

        gradient = torch.func.grad(summed_logits)(rows)
        result.append((gradient[..., first, :], gradient[..., offset + second, :]))
    of_a, of_b = zip(*result, strict=True)
    return torch.cat(of_a, dim=-2), torch.cat(of_b, dim=-2)
