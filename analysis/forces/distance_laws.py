"""Forces between pair sums as functions of their distance (CA section 5.1), against the
gradient at the pair sums.

Functions of one network take its pair sums (pair, axis), their classes (pair,), and
minus the gradient of each pair's own loss at its pair sum (pair, axis). A common shift
and scaling of the pair sums is removed from the gradient and from the forces, as
particles' normalisation does. All values are dimensionless."""

from __future__ import annotations

import math

import numpy as np

from analysis.forces.directions import without_shift_and_scaling
from analysis.forces.force_audit import fit_force_fields
from analysis.forces.pair_sum_classifier import (
    Classifier,
    class_boundary_distance,
    nearest_pair_sums,
    pair_sum_gradients,
    softmax_slopes,
)
from analysis.statistics.division import ratio
from analysis.statistics.ranks import rank_correlation

REPULSIONS = tuple(float(power) for power in np.arange(-0.75, 4.01, 0.25))
"""Powers p of laws of repulsion 1 / r^p; the paper's is 1. Not -1: but for a shift and
a change of size, a repulsion of different classes that is proportional to the distance
equals such an attraction of the same class."""
ATTRACTIONS = tuple(float(power) for power in np.arange(-2, 3.01, 0.25))
"""Powers q of laws of attraction r^q; the paper's is 0."""
SOFT = 1e-9
"""Distances below this fraction of the pair sums' size count as zero, as in the
forces."""
FEWEST = 10
"""Smallest number of cases of a rank correlation."""

NEIGHBOUR_MEASURES = {
    "unlike_count": "neighbours of different classes",
    "unlike_hits": "of these, those that the gradient pushes apart",
    "unlike_rank": "Spearman's rho of that push and the distance",
    "like_count": "neighbours of the same class",
    "like_hits": "of these, those that the gradient pulls together",
    "like_rank": "Spearman's rho of that pull and the distance",
    "like_region": "of these, those that the network predicts to be of one class",
    "right_side": (
        "Spearman's rho of the slope of the softmax and the distance from the boundary,"
        " on its right side"
    ),
    "wrong_side": "the same on its wrong side",
}


def neighbour_measures(of: Classifier) -> dict[str, np.ndarray]:
    """The NEIGHBOUR_MEASURES of each run, (run,)."""
    forces, slopes = pair_sum_gradients(of), softmax_slopes(of)
    distances = class_boundary_distance(of)
    predicted = of.logits(of.sums).argmax(axis=-1)
    rows = [
        nearest_neighbour_motion(
            of.sums[run], of.right[run], forces[run], predicted[run]
        )
        | slope_distance_correlation(slopes[run], distances[run])
        for run in range(len(forces))
    ]
    return {name: np.array([row[name] for row in rows]) for name in NEIGHBOUR_MEASURES}


def distance_law_fits(
    sums: np.ndarray, right: np.ndarray, force: np.ndarray
) -> tuple[np.ndarray, np.ndarray]:
    """R² of the paper's four fields with other powers of the distance: (repulsion,) and
    (attraction,)."""
    between = sums[:, None] - sums[None]
    r = np.linalg.norm(between, axis=-1)
    near = r <= SOFT * np.sqrt((sums**2).sum(axis=-1).mean())
    like = right[:, None] == right[None]
    safe = np.where(near, 1.0, r)
    unit = np.where(near[..., None], 0.0, between / safe[..., None])
    length = np.linalg.norm(sums, axis=-1, keepdims=True)
    toward = ratio(sums, length, 0.0)
    facing = (sums @ sums.T > 0) & ~np.eye(len(sums), dtype=bool)
    aligned = [(facing & like) @ toward, -((facing & ~like) @ toward)]
    repelled = [
        np.einsum("kl,kla->ka", np.where(like, 0.0, safe**-p), unit) for p in REPULSIONS
    ]
    attracted = [
        -np.einsum("kl,kla->ka", np.where(like & ~near, safe**q, 0.0), unit)
        for q in ATTRACTIONS
    ]
    y, along, push, pull = (
        without_shift_and_scaling(np.stack(fields), sums)
        for fields in ([force], aligned, repelled, attracted)
    )
    first = [push, pull[[ATTRACTIONS.index(0.0)]], along[:1], along[1:]]
    second = [push[[REPULSIONS.index(1.0)]], pull, along[:1], along[1:]]
    by_repulsion, by_attraction = (
        fit_force_fields(
            np.broadcast_to(y, shape),
            np.stack([np.broadcast_to(field, shape) for field in fields]),
        )
        for fields, shape in ((first, push.shape), (second, pull.shape))
    )
    return by_repulsion.r_squared, by_attraction.r_squared


def nearest_neighbour_motion(
    sums: np.ndarray, right: np.ndarray, force: np.ndarray, predicted: np.ndarray
) -> dict[str, float]:
    """How neighbours, each a pair sum and the one nearest to it, move toward or away
    from each other.

    predicted is the predicted class (pair,). For neighbours of different classes
    ("unlike") and of the same class ("like"): their number, how many are pushed apart
    or pulled together, and Spearman's correlation of that with their distance; for the
    same class also how many are predicted to be of one class."""
    force = without_shift_and_scaling(force, sums)
    pairs = np.stack([np.arange(len(sums)), nearest_pair_sums(sums)], axis=-1)
    one, other = np.unique(np.sort(pairs, axis=-1), axis=0).T
    distance = np.linalg.norm(sums[one] - sums[other], axis=-1)
    away = (sums[one] - sums[other]) / np.maximum(distance, 1e-300)[:, None]
    along = ((force[one] - force[other]) * away).sum(axis=-1)
    same, apart = right[one] == right[other], distance > 0
    result = {}
    for kind, chosen, motion in (
        ("unlike", ~same & apart, along),
        ("like", same & apart, -along),
    ):
        result[f"{kind}_count"] = float(chosen.sum())
        result[f"{kind}_hits"] = float((motion[chosen] > 0).sum())
        result[f"{kind}_rank"] = _rank_correlation(motion[chosen], distance[chosen])
    result["like_region"] = float(
        (predicted[one] == predicted[other])[same & apart].sum()
    )
    return result


def slope_distance_correlation(
    slope: np.ndarray, distance: np.ndarray
) -> dict[str, float]:
    """Spearman's correlation of the slope of the softmax with the distance from the
    boundary, on both sides of it.

    slope, distance (pair,): the distance is negative on the wrong side, and NaN where
    there is none."""
    right, wrong = distance > 0, distance < 0
    return {
        "right_side": _rank_correlation(slope[right], distance[right]),
        "wrong_side": _rank_correlation(slope[wrong], -distance[wrong]),
    }


def parabola_vertex(x: np.ndarray, y: np.ndarray) -> float:
    """Where a curve on an even grid is highest, by a parabola through its highest point
    and that one's neighbours."""
    best = int(y.argmax())
    if best in (0, len(y) - 1):
        return float(x[best])
    before, here, after = y[best - 1 : best + 2]
    bend = before - 2 * here + after
    return float(
        x[best] + (x[1] - x[0]) * (0.5 * (before - after) / bend if bend < 0 else 0.0)
    )


def _rank_correlation(first: np.ndarray, second: np.ndarray) -> float:
    """Spearman's rho of two quantities (case,); NaN for too few cases, or where one
    does not vary."""
    return rank_correlation(first, second).value if len(first) >= FEWEST else math.nan
