r"""The exact Hessian of the training loss of VC's network, in closed form.

The loss of a sequence depends on the parameters before the MLP (E, P, q, V: "front")
only through xi, a point of few dimensions; and the MLP is a sum over hidden units, each
a function of N(xi) and its own parameters. With zeta = xi + sum_i a(w_i . N(xi) + b_i)
u_i + c, logits E zeta, their softmax p, and rho = E^T (p - target):

    H = sum_s J^T (diag p - p p^T) J                  J = d logits / d parameters
      + sum_s [ (p - target) . dE d zeta ]            logits are bilinear in the decoding E and zeta
      + sum_s [ rho . d² zeta at fixed xi(front) ]    units do not mix; coupled to the front through d N(xi)
      + sum_s [ (rho d zeta/d xi) . d² xi ]           functions of the front alone

Everything is in closed form, and the sums over sequences are matrix products. The first
sum takes the most time: with diag p - p p^T = M M^T in closed form (its rank is the
number of rows of the table minus one) it is the product of a (parameter, rank x
sequence) matrix with its transpose. The network is VC's (section 2), see
`dynamics.networks.clustering_head`; the embedding is also the output layer, and its
rows for tokens that occur in no sequence are part of the softmax too. ReLU is piecewise
linear: its second derivative is taken as 0. The L2 term of an optimizer is not part of
the loss.

Tensors are float64; the last axis is always that of sequences, so that all sums are
over contiguous memory."""

import numpy as np
import torch

from analysis.linearization import attention_derivatives
from analysis.linearization.attention_derivatives import (
    AttentionMixture,
    PositionTokenTable,
    batched_matmul,
)
from analysis.linearization.cross_entropy import add_gram, cross_entropy_derivatives
from analysis.linearization.hidden_unit_derivatives import HiddenUnits
from dynamics.networks.clustering_head import ClusteringHead
from dynamics.networks.parameters import Weights
from dynamics.tasks import sparse_sum

_MAX_ARRAY_SIZE = 1 << 20
"""Size of the largest temporary array, which determines how many sequences are
processed at a time."""


class ClusteringHeadHessian:
    """The loss of one network over sequences, and its Hessian; parameters are in the
    order of flat weights."""

    def __init__(
        self, network: ClusteringHead, tokens: np.ndarray, share: np.ndarray
    ) -> None:
        """tokens: (sequence, position); share: weights of the sequences in the loss,
        (sequence,)."""
        s = self.settings = network.settings
        self.network = network
        self.tokens = torch.from_numpy(np.array(tokens, np.int64))
        self.target = torch.from_numpy(np.array(sparse_sum(tokens, s), np.int64))
        self.share = torch.from_numpy(np.array(share, np.float64))
        self.dim = s.dim
        self.rows = s.rows
        self.length = s.length
        self.hidden = s.hidden
        self.front = (self.rows + self.length + 1 + self.dim) * self.dim
        self.parameters = sum(network.lengths)
        # internally, units come last: receptors and assemblers, the MLP's input and
        # output weights, are (axis, hidden)
        places = network.unflatten(torch.arange(self.parameters))
        turned = [
            place.T if name in ("receptor", "assembler") else place
            for name, place in places.items()
        ]
        self.outward = torch.argsort(torch.cat([place.reshape(-1) for place in turned]))
        """The internal index of each flat parameter."""

    def loss(self, row: torch.Tensor) -> torch.Tensor:
        """The loss at flat parameters (parameter,), differentiable by torch."""
        return (
            self.network.losses(self.network.unflatten(row), self.tokens, self.target)
            @ self.share
        )

    def hessian(self, row: torch.Tensor) -> torch.Tensor:
        """The Hessian (parameter, parameter) at flat parameters (parameter,)."""
        weights = self.network.unflatten(row.double())
        inputs = (weights["embedding"], weights["position_embedding"], weights["query"])
        table = PositionTokenTable(self.settings, *inputs)
        total = torch.zeros(self.parameters, self.parameters, dtype=torch.float64)
        widest = max(self.parameters * (self.rows - 1), self.front * self.dim**2)
        parts = min(
            len(self.share), max(1, round(len(self.share) * widest / _MAX_ARRAY_SIZE))
        )
        for some in np.array_split(np.arange(len(self.share)), parts):
            self._add(total, weights, table, slice(some[0], some[-1] + 1))
        return total[self.outward][:, self.outward]

    def _add(
        self,
        total: torch.Tensor,
        weights: Weights,
        table: PositionTokenTable,
        some: slice,
    ) -> None:
        """Add the contribution of some sequences."""
        f = self.front
        mixed = AttentionMixture(table, self.tokens[some].T)
        by_front = mixed.embedding_slope(
            weights["value"]
        )  # d xi (axis, front, sequence)
        xi = weights["value"] @ mixed.mean
        point = attention_derivatives.normalisation_derivatives(
            self.settings.norm, xi, self.settings.smooth_width
        )
        units = HiddenUnits(self.network.activation, weights, point.value)
        through = units.through(point.first)  # d zeta / d xi
        zeta_front = batched_matmul(through, by_front)
        zeta = xi + units.output(weights)
        error, root = cross_entropy_derivatives(
            weights["embedding"] @ zeta, self.target[some], self.share[some]
        )
        rho = weights["embedding"].T @ error

        spread = torch.einsum("krs,ka->ars", root, weights["embedding"])
        jacobian = torch.empty(self.parameters, *root.shape[1:], dtype=torch.float64)
        jacobian[:f] = batched_matmul(zeta_front.transpose(0, 1), spread)
        jacobian[: self.rows * self.dim] += (root[:, None] * zeta[:, None]).flatten(
            0, 1
        )
        units.fill(jacobian[f:], spread)
        add_gram(total, jacobian.flatten(1))

        by_point = batched_matmul(point.first, by_front)  # d N(xi)
        by_xi = (rho[:, None] * through).sum(0)
        bent = batched_matmul(units.point_bend(rho, point), by_front)
        total[:f, :f] += torch.einsum("afs,ags->fg", by_front, bent)
        self._add_front(total[:f, :f], mixed, weights["value"], by_xi)
        cross = units.point_cross(rho, by_point)
        total[:f, f:] += cross
        total[f:, :f] += cross.T
        units.add_own_bend(total[f:, f:], rho, point.value)
        by_front_too = (error @ zeta_front.flatten(0, 1).T).unflatten(1, (self.dim, f))
        decoded = torch.cat(
            [by_front_too, units.decoded(error, point.value)], -1
        ).flatten(0, 1)
        total[: len(decoded)] += decoded
        total[:, : len(decoded)] += decoded.T

    def _add_front(
        self,
        total: torch.Tensor,
        mixed: AttentionMixture,
        value: torch.Tensor,
        by_xi: torch.Tensor,
    ) -> None:
        """Add sum_s by_xi . d² xi, where xi = V m: m by the table, and V with it."""
        inner = len(total) - self.dim**2
        total[:inner, :inner] += mixed.bend(value.T @ by_xi)
        slope = mixed.slope
        cross = (by_xi @ slope.reshape(-1, slope.shape[-1]).T).reshape(
            self.dim * self.dim, inner
        )
        total[inner:, :inner] += cross
        total[:inner, inner:] += cross.T
