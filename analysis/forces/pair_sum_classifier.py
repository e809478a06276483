"""The classifier that the layers after the embedding form in CA's network (CA section
5), at pair sums and elsewhere.

Arrays are of several runs: pair sums (run, pair, axis), right classes (run, pair). All
values are dimensionless."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
from scipy.special import softmax

from analysis.forces.alignment import unit_norm_fractions
from analysis.statistics.division import ratio

ANGLES, RADII = 180, (0.25, 0.5, 0.75)
"""Number of directions in the plane, and lengths, as fractions of that of the longest
pair sum, at which the predicted classes are compared."""


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


def softmax_slopes(of: Classifier) -> np.ndarray:
    """Norm of the gradient of the right class's softmax probability at each pair sum:
    (run, pair)."""
    probability, own = softmax(of.logits(of.sums), axis=-1), of.is_class(of.right)
    right = (probability * own).sum(axis=-1, keepdims=True)
    return np.linalg.norm(of.slopes(right * (own - probability)), axis=-1)


def class_boundary_distance(of: Classifier) -> np.ndarray:
    """Distance of each pair sum from the boundary between its class and the strongest
    rival, in a linear approximation: (run, pair). Negative on the rival's side; NaN
    where the margin does not change."""
    margin, slope = logit_margin(of), margin_slope(of)
    return ratio(margin, slope)


def logit_margin(of: Classifier) -> np.ndarray:
    """The right class's logit minus that of its strongest rival: (run, pair)."""
    logits, own = of.logits(of.sums), of.is_class(of.right)
    return np.where(own, logits, -np.inf).max(axis=-1) - np.where(
        own, -np.inf, logits
    ).max(axis=-1)


def margin_slope(of: Classifier) -> np.ndarray:
    """Norm of the gradient of `logit_margin` at each pair sum: (run, pair).

    Its inverse is the width of a softmax boundary between the two classes.
    """
    own = of.is_class(of.right)
    rival = of.is_class(np.where(own, -np.inf, of.logits(of.sums)).argmax(axis=-1))
    return np.linalg.norm(of.slopes(own * 1.0 - rival), axis=-1)


def evenness(sizes: np.ndarray) -> np.ndarray:
    """Fraction of the pair sums that would carry all the force if they shared it
    evenly: (run, pair) -> (run,).

    1 where all are equal, 1 over their number where one alone is not zero.
    """
    return ratio(sizes.sum(axis=-1) ** 2, (sizes**2).sum(axis=-1)) / sizes.shape[-1]


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


def nearest_pair_sums(sums: np.ndarray) -> np.ndarray:
    """The number of the nearest other pair sum of each one, (pair, axis) -> (pair,)."""
    distance = np.linalg.norm(sums[:, None] - sums[None], axis=-1)
    np.fill_diagonal(distance, np.inf)
    return distance.argmin(axis=1)


def accuracy_by_nearest_class(of: Classifier) -> tuple[np.ndarray, np.ndarray]:
    """Fractions of pairs that are classified right, both (run,); NaN where there is no
    such pair.

    First of the pairs whose nearest other pair sum is of their class, then of the
    others."""
    correct = of.logits(of.sums).argmax(axis=-1) == of.right
    nearest = np.array([nearest_pair_sums(sums) for sums in of.sums]).reshape(
        of.right.shape
    )
    like = np.take_along_axis(of.right, nearest, -1) == of.right
    first, second = (
        ratio((correct & those).sum(axis=-1), those.sum(axis=-1))
        for those in (like, ~like)
    )
    return first, second


def boundary_distance(of: Classifier) -> np.ndarray:
    """Mean distance of living units' boundaries from the origin, weighted by the norms
    of their weights: (run,)."""
    norm = np.linalg.norm(of.hidden, axis=-1)
    distance = np.abs(of.bias) / np.where(norm > 0, norm, 1.0)
    return (unit_norm_fractions(of.sums, of.hidden, of.bias) * distance).sum(axis=-1)


CLASSIFIER_MEASURES = {
    "relative_steepness": (
        "median over pairs of the slope of the logit margin, times the size of the pair"
        " sums"
    ),
    "evenness": "participation ratio of the gradients at pair sums",
    "offset": "mean distance of units' boundaries from the origin",
    "relative_offset": (
        "the same divided by the root mean square length of the pair sums"
    ),
    "slices": "fraction of the plane that is in the class further out in its direction",
    "right_near_like": (
        "training accuracy of pairs whose nearest pair sum is of their class"
    ),
    "right_near_unlike": (
        "training accuracy of pairs whose nearest pair sum is of another class"
    ),
}


def classifier_measures(of: Classifier) -> dict[str, np.ndarray]:
    """The CLASSIFIER_MEASURES of each run, (run,)."""
    offset, size = boundary_distance(of), np.sqrt((of.sums**2).sum(-1).mean(-1))
    near_like, near_unlike = accuracy_by_nearest_class(of)
    return {
        "relative_steepness": np.median(margin_slope(of), axis=-1) * size,
        "evenness": evenness(np.linalg.norm(pair_sum_gradients(of), axis=-1)),
        "offset": offset,
        "relative_offset": offset / size,
        "slices": radial_agreement(of),
        "right_near_like": near_like,
        "right_near_unlike": near_unlike,
    }
