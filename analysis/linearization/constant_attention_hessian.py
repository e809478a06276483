r"""The exact Hessian of the training loss of CA's network, in closed form.

With x the sum of both embeddings of a pair, m_i = 1 where unit i is active, h_i = m_i
(w_i . x + b_i), logits W_o h + b_o, their softmax p and errors r = p - target:

    H = sum_pairs J^T (diag p - p p^T) J            J = d logits / d parameters
      + sum_pairs r_k d W_o,ki dh_i                 logits are bilinear in output weights and h
      + sum_pairs (W_o^T r)_i m_i dw_i . dx         h is bilinear in hidden weights and x

ReLU is piecewise linear: its second derivative is taken as 0, also for pairs on the
boundary of a unit; that of other activations adds a block for each unit. The diagonal block of the output layer is a sum of Kronecker
products. The network is that of CA section 3, see
`dynamics.networks.constant_attention`; AdamW's weight decay is not part of the loss.
Tensors are float64, pairs along the last axis."""

from __future__ import annotations

from typing import NamedTuple

import torch

from analysis.linearization.cross_entropy import add_gram, cross_entropy_derivatives
from dynamics.networks.constant_attention import ConstantAttention
from dynamics.networks.parameters import Weights


class ConstantAttentionHessian:
    """The mean cross-entropy over some pairs, and its Hessian; parameters are in the
    order of flat weights."""

    def __init__(self, network: ConstantAttention, pairs: torch.Tensor) -> None:
        """pairs: (pair, 2) int64, with equal weights."""
        self.network = network
        self.pairs = pairs
        self.share = torch.full((len(pairs),), 1 / len(pairs), dtype=torch.float64)
        tokens = torch.arange(network.settings.n)[:, None]
        self.holds = (pairs[:, 0] == tokens).double() + (pairs[:, 1] == tokens).double()
        """How often each pair contains each token: (token, pair)."""

    def loss(self, row: torch.Tensor) -> torch.Tensor:
        """The loss at flat parameters (parameter,), differentiable by torch."""
        return self.network.loss(self.network.unflatten(row), self.pairs, self.share)

    def hessian(self, row: torch.Tensor) -> torch.Tensor:
        """The Hessian (parameter, parameter) at flat parameters (parameter,)."""
        weights = self.network.unflatten(row.double())
        hidden = self._hidden(weights)
        logits = (
            weights["output_weight"] @ hidden.value + weights["output_bias"][:, None]
        )
        error, root = cross_entropy_derivatives(
            logits, self.network.target(self.pairs), self.share
        )
        before = self.network.begins["output_weight"]
        total = torch.zeros(len(row), len(row), dtype=torch.float64)

        inner = total[:before, :before]
        self._add_inner(inner, weights, hidden, error, root)
        if hidden.bend.any():
            self._add_bend(inner, weights, hidden, error)
        spread = torch.einsum("krs,lrs->kls", root, root)
        total[before:, before:] = _output_block(spread, hidden.value)
        cross = self._cross(weights, hidden, error, spread)
        total[before:, :before] = cross
        total[:before, before:] = cross.T
        return total

    def _hidden(self, weights: Weights) -> _Hidden:
        sums = weights["embedding"].T @ self.holds
        before = weights["hidden_weight"] @ sums + weights["hidden_bias"][:, None]
        return _Hidden(sums, *self.network.activation.derivatives(before))

    def _add_inner(
        self,
        total: torch.Tensor,
        weights: Weights,
        hidden: _Hidden,
        error: torch.Tensor,
        root: torch.Tensor,
    ) -> None:
        """Add the block of embeddings and hidden layer."""
        output = weights["output_weight"]
        slope = torch.einsum("ki,krs->irs", output, root) * hidden.slope[:, None]
        add_gram(total, self._by_inner(weights, hidden, slope).flatten(1))
        back = (output.T @ error) * hidden.slope
        held = self.holds @ back.T  # (token, hidden)
        begin = self.network.begins["hidden_weight"]
        dim = weights["embedding"].shape[-1]
        width = len(back)
        for axis in range(dim):
            rows = torch.arange(axis, begin, dim)[:, None]
            columns = begin + torch.arange(axis, width * dim, dim)
            total[rows, columns] += held
            total[columns[:, None], rows.T] += held.T

    def _add_bend(
        self,
        total: torch.Tensor,
        weights: Weights,
        hidden: _Hidden,
        error: torch.Tensor,
    ) -> None:
        """Add what the second derivative of the activation contributes to the block of
        embeddings and hidden layer: for each unit, a block of all embeddings, its
        weights and its bias."""
        bent = (weights["output_weight"].T @ error) * hidden.bend
        tokens, dim = weights["embedding"].shape
        begin = self.network.begins["hidden_weight"]
        bias = self.network.begins["hidden_bias"]
        own = torch.cat([hidden.sums, torch.ones_like(hidden.sums[:1])])
        for unit, row in enumerate(weights["hidden_weight"]):
            by_embedding = self.holds[:, None] * row[:, None]  # (token, axis, pair)
            slopes = torch.cat([by_embedding.flatten(0, 1), own])
            places = torch.arange(tokens * dim + dim + 1)
            places[begin:-1] += unit * dim
            places[-1] = bias + unit
            total[places[:, None], places] += (slopes * bent[unit]) @ slopes.T

    def _by_inner(
        self, weights: Weights, hidden: _Hidden, slope: torch.Tensor
    ) -> torch.Tensor:
        """slope . dh by embeddings and hidden layer, for slope (hidden, number, pair):
        (parameter, number, pair)."""
        count = slope.shape[1]
        by_sum = torch.einsum("ia,irs->ars", weights["hidden_weight"], slope)
        parts = (
            self.holds[:, None, None] * by_sum,
            slope[:, None] * hidden.sums[:, None],
            slope,
        )
        return torch.cat([part.reshape(-1, count, slope.shape[-1]) for part in parts])

    def _cross(
        self,
        weights: Weights,
        hidden: _Hidden,
        error: torch.Tensor,
        spread: torch.Tensor,
    ) -> torch.Tensor:
        """The block of the output layer with all earlier layers: (output parameter,
        parameter)."""
        output = weights["output_weight"]
        width = len(hidden.value)
        slope = torch.einsum("kls,li->iks", spread, output) * hidden.slope[:, None]
        slopes = self._by_inner(weights, hidden, slope)  # (parameter, class, pair)
        by_bias = slopes.sum(-1).T
        by_weight = (
            (slopes @ hidden.value.T).permute(1, 2, 0).contiguous()
        )  # (class, hidden, parameter)

        unit_slope = hidden.slope
        dim = weights["embedding"].shape[-1]
        begin = self.network.begins["hidden_weight"]
        bias = self.network.begins["hidden_bias"]
        held = torch.einsum("ks,is,vs->kiv", error, unit_slope, self.holds)
        by_weight[..., :begin] += (
            held[..., None] * weights["hidden_weight"][:, None]
        ).flatten(-2)
        units = torch.arange(width)
        by_unit = torch.einsum("ks,is,as->kia", error, unit_slope, hidden.sums)
        for axis in range(dim):
            by_weight[:, units, begin + units * dim + axis] += by_unit[..., axis]
        by_weight[:, units, bias + units] += error @ unit_slope.T
        return torch.cat([by_weight.flatten(0, 1), by_bias])


class _Hidden(NamedTuple):
    sums: torch.Tensor  # (axis, pair) of both embeddings
    value: torch.Tensor  # (hidden, pair) activations
    slope: torch.Tensor  # (hidden, pair) their first derivatives
    bend: torch.Tensor  # (hidden, pair) their second derivatives


def _output_block(spread: torch.Tensor, hidden: torch.Tensor) -> torch.Tensor:
    """The Hessian by output weights and biases: sum over pairs of spread (class, class)
    times (h, 1) (h, 1)^T."""
    classes = len(spread)
    width, count = hidden.shape
    with_bias = torch.cat([hidden, torch.ones(1, count, dtype=torch.float64)])
    products = (with_bias[:, None] * with_bias).flatten(0, 1)
    both = (spread.flatten(0, 1) @ products.T).reshape(
        classes, classes, width + 1, width + 1
    )
    weight = both[..., :width, :width].permute(0, 2, 1, 3).reshape(classes * width, -1)
    mixed = both[..., :width, width].permute(0, 2, 1).reshape(classes * width, classes)
    return torch.cat(
        [
            torch.cat([weight, mixed], 1),
            torch.cat([mixed.T, both[..., width, width]], 1),
        ]
    )
