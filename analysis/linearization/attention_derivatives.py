r"""Exact first and second derivatives of the normalisation N(x) and of the attention of
VC's network.

With normalised embeddings z of positions and tokens, scores z_t . q / sqrt d, their
softmax a over positions and m = sum_t a_t z_t (VC section 2), the derivative of m with
respect to score t is a_t (z_t - m), and with respect to z_t it is a_t. All derivatives
are in closed form. Tensors are float64; the last axis is that of sequences, so that
sums over them are over contiguous memory."""

import functools
import math
from typing import NamedTuple

import torch

from analysis.linearization.normalisation import radial_derivatives
from dynamics.settings import NormName, SparseSettings


class NormalisationDerivatives(NamedTuple):
    """N and its first two derivatives at some points; the last axis is that of the
    points."""

    value: torch.Tensor
    first: torch.Tensor
    second: torch.Tensor


def normalisation_derivatives(
    norm: NormName, x: torch.Tensor, width: float = 1.0
) -> NormalisationDerivatives:
    """N(x), N'(x) and N''(x) of points (axis, point): (axis, point), with one and two
    more axes before the last. width: of the smoothed region of a smooth norm.

    At the origin N'' is taken as 0, and so is N' of the unit form, which is undefined
    there.

    Examples
    --------
    >>> x = torch.tensor([[0.0], [2.0]], dtype=torch.float64)
    >>> normalisation_derivatives("unit", x).first[..., 0]
    tensor([[0.5000, 0.0000],
            [0.0000, 0.0000]], dtype=torch.float64)
    """
    length = torch.linalg.vector_norm(x, dim=0)
    safe = torch.where(length > 0, length, 1.0)
    unit = x / safe
    derivatives = radial_derivatives(
        norm, len(x), (safe if norm == "unit" else length).numpy(), width
    )
    f, df, dg, d2g = (torch.from_numpy(item) for item in derivatives)
    if norm == "unit":
        f, df, dg, d2g = (
            torch.where(length > 0, item, 0.0) for item in (f, df, dg, d2g)
        )
    along = unit[:, None] * unit
    across = torch.eye(len(x), dtype=x.dtype)[..., None] - along
    second = (
        across[:, :, None] * unit
        + across[:, None] * unit[:, None]
        + across * unit[:, None, None]
    )
    bend = df * second + d2g * (along[:, :, None] * unit)
    return NormalisationDerivatives(f * length * unit, f * across + dg * along, bend)


def batched_matmul(first: torch.Tensor, second: torch.Tensor) -> torch.Tensor:
    """Matrix products, sequence by sequence: (i, j, sequence), (j, k, sequence) -> (i,
    k, sequence)."""
    result = first[:, 0, None] * second[0]
    for middle in range(
        1, len(second)
    ):  # one big product would need memory for each of its terms
        result.addcmul_(first[:, middle, None], second[middle])
    return result


class PositionTokenTable:
    """Normalised embeddings z of all positions and tokens, their derivatives and
    attention scores.

    Arrays are (axis, ..., position x token).
    """

    def __init__(
        self,
        settings: SparseSettings,
        embedding: torch.Tensor,
        position: torch.Tensor,
        query: torch.Tensor,
    ) -> None:
        self.length = len(position)
        self.rows = len(embedding)
        self.dim = len(query)
        self.query = query / math.sqrt(self.dim)
        x = (position[:, None] + embedding).reshape(-1, self.dim).T.contiguous()
        self.value, self.first, self.second = normalisation_derivatives(
            settings.norm, x, settings.smooth_width
        )
        self.scores = self.query @ self.value
        self.score_slope = torch.einsum("a,abx->bx", self.query, self.first)


class AttentionMixture:
    """m = sum_t a_t z(t, x_t) of sequences, with attention a = softmax of their scores,
    and its derivatives.

    Parameters are E, P and q, in this order.
    """

    def __init__(self, table: PositionTokenTable, tokens: torch.Tensor) -> None:
        self.table = table
        self.tokens = tokens
        self.index = tokens + table.rows * torch.arange(table.length)[:, None]
        self.attention = torch.softmax(table.scores[self.index], 0)
        self.value = table.value[:, self.index]  # (axis, position, sequence)
        self.mean = (self.attention * self.value).sum(1)
        self.apart = self.value - self.mean[:, None]

    @functools.cached_property
    def first(self) -> torch.Tensor:
        """Derivative of z_t by its x_t: (axis, axis_in, position, sequence)."""
        return self.table.first[:, :, self.index]

    @functools.cached_property
    def score_slope(self) -> torch.Tensor:
        """Derivative of score t by its x_t: (axis_in, position, sequence)."""
        return self.table.score_slope[:, self.index]

    @functools.cached_property
    def slope(self) -> torch.Tensor:
        """Derivative of m by all parameters: (axis, parameter, sequence)."""
        table = self.table
        pulled = self.attention * self.apart
        by_position = self.attention * self.first
        by_position.addcmul_(pulled[:, None], self.score_slope)
        by_query = torch.einsum("ats,bts->abs", pulled, self.value) / math.sqrt(
            table.dim
        )
        parts = (
            self._by_token(by_position),
            by_position.transpose(1, 2).flatten(1, 2),
            by_query,
        )
        return torch.cat(parts, 1)

    def _by_token(self, by_position: torch.Tensor) -> torch.Tensor:
        """Sums over the positions of each token: (..., axis, position, sequence) ->
        (..., token x axis, sequence)."""
        own = [
            (by_position * (self.tokens == token)).sum(-2)
            for token in range(self.table.rows)
        ]
        return torch.stack(own, -3).flatten(-3, -2)

    def embedding_slope(self, value: torch.Tensor) -> torch.Tensor:
        """Derivative of xi = V m: (axis, parameter, sequence), with the entries of V
        last."""
        dim = len(value)
        count = self.mean.shape[-1]
        by_value = torch.zeros(dim, dim, dim, count, dtype=torch.float64)
        for axis in range(dim):
            by_value[axis, axis] = self.mean
        by_mixture = (value @ self.slope.reshape(dim, -1)).reshape(self.slope.shape)
        return torch.cat([by_mixture, by_value.flatten(1, 2)], 1)

    def bend(self, nu: torch.Tensor) -> torch.Tensor:
        """sum_s nu_s . d²m_s for nu (axis, sequence): (parameter, parameter).

        With k_t = a_t nu . (z_t - m), second derivatives of nu . m by scores t, u are
        k_t if t = u, less a_t k_u + k_t a_u; by score t and nu . z_u they are a_t if t
        = u, less a_t a_u."""
        dim = self.table.dim
        leaning = (nu[:, None, None] * self.first).sum(
            0
        )  # derivative of nu . z_t with respect to x_t
        pull = self.attention * (nu[:, None] * self.apart).sum(0)
        points = (self.table.rows + self.table.length) * dim
        total = torch.zeros(points + dim, points + dim, dtype=torch.float64)

        first = self._spread(self.attention * self.score_slope)
        common = (
            first @ self._spread(pull * self.score_slope + self.attention * leaning).T
        )
        total[:points, :points] -= common + common.T  # the term of any two positions
        self._add_own(total, nu, pull)
        cross, own = self._by_query(leaning, pull)
        total[points:, :points] += cross
        total[:points, points:] += cross.T
        total[points:, points:] += own
        return total

    def _by_query(
        self, leaning: torch.Tensor, pull: torch.Tensor
    ) -> tuple[torch.Tensor, torch.Tensor]:
        """The blocks of q with E and P, and of q with itself."""
        table = self.table
        lean = (pull * self.value).sum(1)  # sum_t k_t z_t
        by_score = (
            pull * self.value
            - self.mean[:, None] * pull
            - lean[:, None] * self.attention
        )
        mixed = by_score[:, None] * self.score_slope
        mixed.addcmul_((self.attention * self.apart)[:, None], leaning).addcmul_(
            pull, self.first
        )
        summed = torch.zeros(
            table.dim, table.dim, table.length * table.rows, dtype=torch.float64
        )
        summed.index_add_(2, self.index.flatten(), mixed.flatten(2))
        both = self.mean @ lean.T
        own = torch.einsum("ats,bts->ab", pull * self.value, self.value) - both - both.T
        return self._onto(summed) / math.sqrt(table.dim), own / table.dim

    def _spread(self, by_position: torch.Tensor) -> torch.Tensor:
        """Convert a derivative by x_t (axis, position, sequence) to one by E and P:
        (parameter, sequence)."""
        return torch.cat(
            [self._by_token(by_position), by_position.transpose(0, 1).flatten(0, 1)]
        )

    def _onto(self, by_place: torch.Tensor) -> torch.Tensor:
        """Convert a derivative by the table's x (..., axis, position x token) to one by
        E and P: (..., parameter)."""
        x = by_place.unflatten(-1, (self.table.length, self.table.rows))
        return torch.cat([x.sum(-2).mT.flatten(-2), x.sum(-1).mT.flatten(-2)], -1)

    def _add_own(
        self, total: torch.Tensor, nu: torch.Tensor, pull: torch.Tensor
    ) -> None:
        """Add the block of each x_t with itself, first summed over the sequences with
        the same token there."""
        table = self.table
        rows = table.rows
        length = table.length
        dim = table.dim
        summed = torch.zeros(dim + 1, length * rows, dtype=torch.float64)
        index = self.index.flatten()
        summed[0].index_add_(0, index, pull.flatten())
        summed[1:].index_add_(1, index, (self.attention * nu[:, None]).flatten(1))
        pulled = summed[0]
        leant = summed[1:]
        slope = table.score_slope
        lean = torch.einsum("ax,abx->bx", leant, table.first)
        both = slope[:, None] * lean
        own = pulled * slope[:, None] * slope + both + both.transpose(0, 1)
        own += torch.einsum(
            "ax,abcx->bcx", leant + pulled * table.query[:, None], table.second
        )
        own = own.unflatten(-1, (length, rows)).permute(
            2, 3, 0, 1
        )  # (position, token, axis, axis)
        tokens = rows * dim
        e_e = total[:tokens, :tokens].view(rows, dim, rows, dim)
        p_p = total[tokens:-dim, tokens:-dim].view(length, dim, length, dim)
        p_e = total[tokens:-dim, :tokens].view(length, dim, rows, dim)
        e_p = total[:tokens, tokens:-dim].view(rows, dim, length, dim)
        for token in range(rows):
            e_e[token, :, token] += own[:, token].sum(0)
        for position in range(length):
            p_p[position, :, position] += own[position].sum(0)
        p_e += own.permute(0, 2, 1, 3)
        e_p += own.permute(1, 2, 0, 3)
