r"""Exact first and second derivatives of the MLP of VC's network, by hidden unit.

    zeta - xi = sum_i a(w_i . N(xi) + b_i) u_i + c

The w_i are VC's receptors (the MLP's input weights), the u_i its assemblers (output
weights). Units do not mix: the second derivative with respect to the parameters of the
MLP has a small block for each unit, and sums over sequences are products of
activations' derivatives (hidden, sequence) with few features of a sequence. Tensors are
float64, the last axis is that of sequences; parameters are w (axis, hidden), u (axis,
hidden), then c and b if they exist. With ReLU, which is piecewise linear, second
derivatives are taken as 0."""

import torch

from analysis.linearization.attention_derivatives import (
    NormalisationDerivatives,
    batched_matmul,
)
from dynamics.networks.activation_functions import Activation
from dynamics.networks.parameters import Weights


class HiddenUnits:
    """The MLP at points N(xi) (axis, sequence): activations and their two derivatives,
    (hidden, sequence)."""

    def __init__(
        self, activation: Activation, weights: Weights, point: torch.Tensor
    ) -> None:
        self.receptor = weights["receptor"]
        self.assembler = weights["assembler"]
        self.hidden, self.dim = self.receptor.shape
        self.point = point
        self.biases = "receptor_bias" in weights
        self.shift = "transform_bias" in weights
        before = self.receptor @ point
        if self.biases:
            before = before + weights["receptor_bias"][:, None]
        self.active, self.slope, self.bend = activation.derivatives(before)
        wide = self.hidden * self.dim
        self.begins = (0, wide, 2 * wide, 2 * wide + self.dim * self.shift)
        """Index of the first parameter of w, u, c and b."""

    def _axis(self, axis: int, begin: int = 0) -> slice:
        """Indices of all units' parameters along an axis, of w, or of u if `begin` is
        its first index."""
        return slice(begin + axis * self.hidden, begin + (axis + 1) * self.hidden)

    def output(self, weights: Weights) -> torch.Tensor:
        """zeta - xi: (axis, sequence)."""
        result = self.assembler.T @ self.active
        return result + weights["transform_bias"][:, None] if self.shift else result

    def through(self, first: torch.Tensor) -> torch.Tensor:
        """d zeta / d xi: (axis, axis_in, sequence)."""
        pairs = (self.assembler[:, :, None] * self.receptor[:, None]).flatten(1)
        by_point = (pairs.T @ self.slope).unflatten(0, (self.dim, self.dim))
        return torch.eye(self.dim, dtype=torch.float64)[..., None] + batched_matmul(
            by_point, first
        )

    def fill(self, out: torch.Tensor, spread: torch.Tensor) -> None:
        """Write spread . d zeta, for spread (axis, rank, sequence): (parameter, rank,
        sequence)."""
        _, u, c, b = self.begins
        rank = spread.shape[1]
        error = (self.assembler @ spread.flatten(1)).unflatten(
            1, (rank, -1)
        ) * self.slope[:, None]
        for axis in range(self.dim):
            torch.mul(error, self.point[axis], out=out[self._axis(axis)])
            torch.mul(self.active[:, None], spread[axis], out=out[self._axis(axis, u)])
        if self.shift:
            out[c : c + self.dim] = spread
        if self.biases:
            out[b:] = error

    def point_bend(
        self, rho: torch.Tensor, point: NormalisationDerivatives
    ) -> torch.Tensor:
        """rho . d² zeta by xi: (axis, axis_in, sequence)."""
        back = self.assembler @ rho
        pairs = (self.receptor[:, :, None] * self.receptor[:, None]).flatten(1)
        by_point = (pairs.T @ (back * self.bend)).unflatten(0, (self.dim, self.dim))
        towards = self.receptor.T @ (back * self.slope)
        bent = (towards[:, None, None] * point.second).sum(0)
        return batched_matmul(batched_matmul(point.first, by_point), point.first) + bent

    def point_cross(self, rho: torch.Tensor, by_point: torch.Tensor) -> torch.Tensor:
        """sum_s rho . d² zeta by the front, through d N(xi) (axis, front, sequence),
        and the parameters of the MLP."""
        front = by_point.shape[1]
        back = self.assembler @ rho
        bent = (back * self.bend).T
        sloped = (back * self.slope).T
        flat = by_point.flatten(0, 1)
        by_bias = torch.einsum(
            "afi,ia->fi", (flat @ bent).unflatten(0, (self.dim, front)), self.receptor
        )
        result = torch.empty(
            front, self.begins[-1] + self.hidden * self.biases, dtype=torch.float64
        )
        _, u, c, b = self.begins
        direct = (flat @ sloped).unflatten(0, (self.dim, front))
        for axis in range(self.dim):
            outer = ((flat * self.point[axis]) @ bent).unflatten(0, (self.dim, front))
            result[:, self._axis(axis)] = (
                torch.einsum("afi,ia->fi", outer, self.receptor) + direct[axis]
            )
            outer = ((flat * rho[axis]) @ self.slope.T).unflatten(0, (self.dim, front))
            result[:, self._axis(axis, u)] = torch.einsum(
                "afi,ia->fi", outer, self.receptor
            )
        if self.shift:
            result[:, c : c + self.dim] = 0
        if self.biases:
            result[:, b:] = by_bias
        return result

    def add_own_bend(
        self, total: torch.Tensor, rho: torch.Tensor, point: torch.Tensor
    ) -> None:
        """Add sum_s rho . d² zeta by the parameters of the MLP: each unit's w, u and b
        among themselves."""
        back = self.assembler @ rho
        bent = (back * self.bend).T
        units = torch.arange(self.hidden)
        w, u, _, b = self.begins
        own = [w + axis * self.hidden + units for axis in range(self.dim)]
        out = [u + axis * self.hidden + units for axis in range(self.dim)]
        for one in range(self.dim):
            for other in range(one + 1):
                _add_both(
                    total, own[one], own[other], (point[one] * point[other]) @ bent
                )
            for other in range(self.dim):
                _add_both(
                    total,
                    own[one],
                    out[other],
                    (point[one] * rho[other]) @ self.slope.T,
                )
            if self.biases:
                _add_both(total, own[one], b + units, point[one] @ bent)
                _add_both(total, out[one], b + units, rho[one] @ self.slope.T)
        if self.biases:
            _add_both(total, b + units, b + units, bent.sum(0))

    def decoded(self, error: torch.Tensor, point: torch.Tensor) -> torch.Tensor:
        """sum_s error_k d zeta by the parameters of the MLP: (token, axis,
        parameter)."""
        rows = len(error)
        result = torch.zeros(
            rows,
            self.dim,
            self.begins[-1] + self.hidden * self.biases,
            dtype=torch.float64,
        )
        _, u, c, b = self.begins
        summed = error @ self.slope.T
        active = error @ self.active.T
        for axis in range(self.dim):
            by_receptor = (error * point[axis]) @ self.slope.T
            result[:, :, self._axis(axis)] = by_receptor[:, None] * self.assembler.T
            result[:, axis, self._axis(axis, u)] = active
            if self.shift:
                result[:, axis, c + axis] = error.sum(1)
        if self.biases:
            result[:, :, b:] = summed[:, None] * self.assembler.T
        return result


def _add_both(
    total: torch.Tensor, rows: torch.Tensor, columns: torch.Tensor, values: torch.Tensor
) -> None:
    """Add values at (rows, columns), and at (columns, rows) unless that is the same."""
    total[rows, columns] += values
    if not torch.equal(rows, columns):
        total[columns, rows] += values
