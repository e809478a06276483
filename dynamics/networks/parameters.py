"""The parameters of a network: arrays by name, and the flat rows that hold them one after another."""

import math
from collections.abc import Mapping

import numpy as np
import torch

Weights = Mapping[str, torch.Tensor]
"""A network's weights by the names of the trajectory's variables, with any leading axes, such as run and step."""


class NetworkParameters:
    """Names, dimensions and sizes of a network's weights.

    variables: the dimensions of each weight, in the order of flat rows; sizes: how long each dimension is.
    """

    def __init__(self, variables: Mapping[str, tuple[str, ...]], sizes: Mapping[str, int]) -> None:
        self.variables, self.sizes = dict(variables), dict(sizes)
        self.shapes = {name: tuple(sizes[dim] for dim in dims) for name, dims in variables.items()}
        self.lengths = [math.prod(shape) for shape in self.shapes.values()]
        self.begins = dict(zip(self.variables, np.cumsum([0, *self.lengths[:-1]]).tolist(), strict=True))
        """Where each weight begins in a flat row."""

    def flatten(self, weights: Mapping[str, np.ndarray]) -> np.ndarray:
        """Weights (run, *shape) as flat rows (run, parameter)."""
        named = zip(self.variables, self.lengths, strict=True)
        return np.concatenate([np.reshape(weights[name], (-1, length)) for name, length in named], axis=1)

    def unflatten(self, rows: torch.Tensor) -> dict[str, torch.Tensor]:
        """Views of flat parameters (..., parameter) as weights (..., *shape)."""
        pieces = torch.split(rows, self.lengths, dim=-1)
        return {
            name: piece.unflatten(-1, shape) for (name, shape), piece in zip(self.shapes.items(), pieces, strict=True)
        }
