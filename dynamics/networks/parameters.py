"""The parameters of a network: weights by name, and flat rows that hold all of them one
after another."""

import itertools
import math
import operator
from collections.abc import Callable, Mapping

import numpy as np
import torch

Weights = Mapping[str, torch.Tensor]
"""Weights of a network by the variable names of the trajectory, with any leading axes,
such as run and step."""


class NetworkParameters:
    """Base class of the networks: names, dimensions and sizes of the weights.

    Parameters
    ----------
    variables : mapping of str to tuple of str
        Dimensions of each weight, in the order of the flat rows.
    sizes : mapping of str to int
        Length of each dimension.

    Examples
    --------
    >>> import numpy as np
    >>> parameters = NetworkParameters({"embedding": ("token", "axis"), "bias": ("token",)}, {"token": 3, "axis": 2})
    >>> parameters.flatten({"embedding": np.ones((1, 3, 2)), "bias": np.zeros((1, 3))}).shape  # run, parameter
    (1, 9)
    """

    def __init__(
        self, variables: Mapping[str, tuple[str, ...]], sizes: Mapping[str, int]
    ) -> None:
        self.variables = dict(variables)
        self.sizes = dict(sizes)
        self.shapes = {
            name: tuple(sizes[dim] for dim in dims) for name, dims in variables.items()
        }
        self.lengths = [math.prod(shape) for shape in self.shapes.values()]
        self.begins = dict(
            zip(
                self.variables, np.cumsum([0, *self.lengths[:-1]]).tolist(), strict=True
            )
        )
        """Offset of each weight in a flat row."""

    def flatten(self, weights: Mapping[str, np.ndarray]) -> np.ndarray:
        """Weights (run, *shape) as flat rows (run, parameter)."""
        named = zip(self.variables, self.lengths, strict=True)
        return np.concatenate(
            [np.reshape(weights[name], (-1, length)) for name, length in named], axis=1
        )

    def unflatten(self, rows: torch.Tensor) -> dict[str, torch.Tensor]:
        """Views of flat parameters (..., parameter) as weights (..., *shape)."""
        pieces = torch.split(rows, self.lengths, dim=-1)
        return {
            name: piece.unflatten(-1, shape)
            for (name, shape), piece in zip(self.shapes.items(), pieces, strict=True)
        }

    def parts(
        self, *functions: Callable[[str], float]
    ) -> tuple[list[tuple[float, ...]], list[int]]:
        """Ranges of neighbouring weights for whose names functions have the same values:
        these values, and the numbers of parameters."""
        values = [tuple(f(name) for f in functions) for name in self.variables]
        groups = [
            (value, sum(length for _, length in members))
            for value, members in itertools.groupby(
                zip(values, self.lengths, strict=True), key=operator.itemgetter(0)
            )
        ]
        return [value for value, _ in groups], [size for _, size in groups]
