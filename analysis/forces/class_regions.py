"""Regions of the plane that a classifier of pair sums gives one class, and the width of
the boundaries between them (CA section 5.1).

All values are dimensionless."""

import numpy as np
from scipy import ndimage

from analysis.forces.directions import without_shift_and_scaling
from analysis.forces.distance_laws import FEWEST
from analysis.forces.pair_sum_classifier import (
    Classifier,
    class_boundary_distance,
    margin_slope,
    nearest_pair_sums,
    pair_sum_gradients,
    softmax_slopes,
)
from analysis.statistics.ranks import rank_correlation

CELLS = 128
"""Cells along each side of the square in which regions are found."""
RIM = 1.05
"""Radius of the disc in which regions are found, relative to the length of the longest
pair sum."""
QUARTER = 0.25
"""Fraction of the pair sums that are nearest to their boundary, and furthest from
it."""

REGION_MEASURES = {
    "central_count": "pair sums that are classified correctly",
    "central_hits": (
        "of these, those that the gradient pushes toward the centre of their region"
    ),
    "like_count": "neighbours of the same class",
    "like_region": "of these, those that the network predicts to be of their class",
    "near_rank": (
        "Spearman's rho of the slope of the softmax and the steepness of the boundary, at"
        " the pair sums nearest to their boundary"
    ),
    "far_rank": "the same at the pair sums furthest from it",
    "distance_rank": (
        "Spearman's rho of the distance of two neighbours of the same class and their"
        " mean distance from the boundary"
    ),
    "width_rank": "the same of their distance and the mean steepness of the boundary",
}


def region_centres(of: Classifier) -> np.ndarray:
    """Centre of the region in which each pair sum lies: (run, pair, 2). Regions are
    connected, of one predicted class, and in the disc around the origin that has all
    pair sums; NaN for a pair sum whose cell has another class than it."""
    line = 2 * (np.arange(CELLS) + 0.5) / CELLS - 1
    cells = np.stack(np.meshgrid(line, line, indexing="ij"), axis=-1).reshape(-1, 2)
    inside = (np.linalg.norm(cells, axis=-1) <= 1).reshape(CELLS, CELLS)
    reach = RIM * np.linalg.norm(of.sums, axis=-1).max(axis=-1)[:, None, None]
    classes = of.logits(reach * cells).argmax(axis=-1).reshape(-1, CELLS, CELLS)
    at = np.clip((of.sums / reach + 1) / 2 * CELLS, 0, CELLS - 1).astype(int)
    predicted = of.logits(of.sums).argmax(axis=-1)
    centres = np.full(of.sums.shape, np.nan)
    for run, of_run in enumerate(classes):
        regions = label_regions(of_run, inside)
        count = np.maximum(np.bincount(regions.ravel()), 1)
        totals = [np.bincount(regions.ravel(), weights=x) for x in cells.T]
        rows, columns = at[run].T
        same = of_run[rows, columns] == predicted[run]
        centre = reach[run] * np.stack(totals, axis=-1) / count[:, None]
        centres[run, same] = centre[regions[rows, columns]][same]
    return centres


def label_regions(classes: np.ndarray, inside: np.ndarray) -> np.ndarray:
    """Numbers, from 1 on, of the connected regions of one class: (row, column); 0
    outside. classes, inside: (row, column)."""
    regions = np.zeros(classes.shape, int)
    for label in np.unique(classes[inside]):
        parts, _ = ndimage.label((classes == label) & inside)
        regions += np.where(parts > 0, parts + regions.max(), 0)
    return regions


def region_measures(of: Classifier) -> dict[str, np.ndarray]:
    """The REGION_MEASURES of each run, (run,)."""
    toward = region_centres(of) - of.sums
    predicted = of.logits(of.sums).argmax(axis=-1)
    gradients, slopes = pair_sum_gradients(of), softmax_slopes(of)
    steepness, distance = margin_slope(of), np.abs(class_boundary_distance(of))
    rows = []
    for run, (sums, right) in enumerate(zip(of.sums, of.right, strict=True)):
        force = without_shift_and_scaling(gradients[run], sums)
        correct = predicted[run] == right
        along = (force * toward[run]).sum(axis=-1)
        rows.append(
            {
                "central_count": (correct & np.isfinite(along)).sum(),
                "central_hits": (correct & (along > 0)).sum(),
            }
            | neighbour_boundaries(sums, right, correct, steepness[run], distance[run])
            | slopes_by_steepness(slopes[run], steepness[run], distance[run])
        )
    return {
        name: np.array([float(row[name]) for row in rows]) for name in REGION_MEASURES
    }


def slopes_by_steepness(
    slope: np.ndarray, steepness: np.ndarray, distance: np.ndarray
) -> dict[str, float]:
    """Correlation of the slope of the softmax with the steepness of the boundary, at
    the pair sums nearest to the boundary and furthest from it; each (pair,)."""
    low, high = np.nanquantile(distance, [QUARTER, 1 - QUARTER])
    chosen = {"near_rank": distance <= low, "far_rank": distance >= high}
    return {
        name: _correlation(slope[those], steepness[those])
        for name, those in chosen.items()
    }


def neighbour_boundaries(
    sums: np.ndarray,
    right: np.ndarray,
    correct: np.ndarray,
    steepness: np.ndarray,
    distance: np.ndarray,
) -> dict[str, float]:
    """Of neighbours (a pair sum and the one nearest to it) of the same class: their
    number, how many are both classified correctly, and how their distance is related
    to the boundary. sums (pair, axis), the others (pair,)."""
    pairs = np.stack([np.arange(len(sums)), nearest_pair_sums(sums)], axis=-1)
    pairs = np.unique(np.sort(pairs, axis=-1), axis=0)
    apart = np.linalg.norm(sums[pairs[:, 0]] - sums[pairs[:, 1]], axis=-1)
    like = (right[pairs[:, 0]] == right[pairs[:, 1]]) & (apart > 0)
    pairs, apart = pairs[like], apart[like]
    return {
        "like_count": float(like.sum()),
        "like_region": float(correct[pairs].all(axis=-1).sum()),
        "distance_rank": _correlation(apart, distance[pairs].mean(axis=-1)),
        "width_rank": _correlation(apart, steepness[pairs].mean(axis=-1)),
    }


def _correlation(first: np.ndarray, second: np.ndarray) -> float:
    """Spearman's correlation; NaN for too few values."""
    finite = np.isfinite(first) & np.isfinite(second)
    if finite.sum() < FEWEST:
        return float("nan")
    return rank_correlation(first[finite], second[finite]).value
