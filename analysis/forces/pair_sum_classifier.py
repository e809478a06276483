"""The classifier that the layers after the embedding form in CA's network (CA section
5), at pair sums and elsewhere.

Arrays are of several runs: pair sums (run, pair, axis), right classes (run, pair). All
values are dimensionless."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
from scipy.special import softmax

ANGLES = 180
"""Number of directions in the plane in which the predicted classes are compared."""

RADII = (0.25, 0.5, 0.75)
"""Lengths, as fractions of that of the longest pair sum, at which they are compared."""


class Classifier(NamedTuple):
    """The layers after the embedding of some runs, and what they are trained on."""

    hidden: np.ndarray  # (run, hidden, axis)
    bias: np.ndarray  # (run, hidden)
    output: np.ndarray  # (run, class, hidden)
    output_bias: np.ndarray  # (run, class)
    sums: np.ndarray  # (run, pair, axis)
    right: np.ndarray  # (run, pair)

    def inputs(self, x: np.ndarray) -> np.ndarray:
        """Input of each unit at points (run, point, axis): (run, point, hidden)."""
        return np.einsum("rpa,rha->rph", x, self.hidden) + self.bias[:, None]

    def logits(self, x: np.ndarray) -> np.ndarray:
        """Logits at points (run, point, axis): (run, point, class)."""
        scores = np.einsum("rph,rch->rpc", np.maximum(self.inputs(x), 0), self.output)
        return scores + self.output_bias[:, None]

    def slopes(self, weight: np.ndarray) -> np.ndarray:
        """Gradient at each pair sum of the logits summed with weights (run, pair,
        class): (run, pair, axis)."""
        through = np.einsum("rpc,rch->rph", weight, self.output) * (
            self.inputs(self.sums) > 0
        )
        return np.einsum("rph,rha->rpa", through, self.hidden)

    def is_class(self, classes: np.ndarray) -> np.ndarray:
        """Classes of pairs (run, pair) as (run, pair, class) bool."""
        return classes[..., None] == np.arange(self.output.shape[1])


def pair_sum_gradients(of: Classifier) -> np.ndarray:
    """Minus the gradient of each pair's own cross-entropy with respect to its pair sum:
    (run, pair, axis)."""
    return -of.slopes(softmax(of.logits(of.sums), axis=-1) - of.is_class(of.right))


def radial_agreement(of: Classifier) -> np.ndarray:
    """Fraction of points in the plane that are in the class that lies further out in
    their direction: (run,)."""
    angle = 2 * np.pi * np.arange(ANGLES) / ANGLES
    rim = np.linalg.norm(of.sums, axis=-1).max(axis=-1)[:, None, None] * np.stack(
        [np.cos(angle), np.sin(angle)], -1
    )
    outer = of.logits(rim).argmax(axis=-1)
    return np.mean(
        [of.logits(radius * rim).argmax(axis=-1) == outer for radius in RADII],
        axis=(0, 2),
    )
