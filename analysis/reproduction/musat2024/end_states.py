"""Structures in which networks and particles end: circles, grid imperfections, and the
distance from perfect circles and grids, beside the same with tokens renamed at random.

A renamed embedding has the same positions; its tokens are permuted. So an embedding is
nearer to a perfect structure than its renamed one only if its tokens are in order."""

import numpy as np
import xarray as xr

from analysis.reproduction import estimates
from analysis.reproduction.estimates import Estimate
from analysis.reproduction.experiment import frame_values
from analysis.structures.circles_and_grids import count_imperfections, is_circle
from analysis.structures.nearest_structures import nearest_circle, nearest_grid
from dynamics.randomness import random_stream

SHUFFLES = 20
"""Number of random permutations of the tokens, from which the imperfections expected by
chance are computed."""

END_STATE = {
    "circle": "whether it is a circle by CA algorithm 1",
    "imperfections": "grid imperfections at the end",
}
DISTANCES = {
    "circle_distance": "distance from the nearest perfect circle",
    "grid_distance": "distance from the nearest grid, with or without holes",
    "renamed_distance": "the smaller of both distances with tokens renamed at random",
}


def end_state(trajectory: xr.Dataset) -> dict[str, np.ndarray]:
    """Circles and imperfections at the end of each run, (run,) each."""
    end = frame_values(trajectory, "embedding", -1)
    return {"circle": is_circle(end), "imperfections": count_imperfections(end)}


def structure_distances(embedding: np.ndarray) -> dict[str, np.ndarray]:
    """The `DISTANCES` of embeddings (run, token, axis), each (run,)."""
    renamed = rename_tokens(embedding)
    return {
        "circle_distance": nearest_circle(embedding).distance,
        "grid_distance": nearest_grid(embedding).distance,
        "renamed_distance": np.minimum(
            nearest_circle(renamed).distance, nearest_grid(renamed).distance
        ),
    }


def rename_tokens(embedding: np.ndarray) -> np.ndarray:
    """The same positions with the tokens of each run permuted at random: (run, token,
    axis) -> (run, token, axis)."""
    generator = random_stream(0, "verify/renamed")
    numbers = np.broadcast_to(np.arange(embedding.shape[1]), embedding.shape[:2])
    order = generator.permuted(numbers, axis=1)
    return np.take_along_axis(embedding, order[..., None], axis=1)


def shuffled_imperfections(embedding: np.ndarray) -> np.ndarray:
    """Mean grid imperfections of the same positions with tokens permuted at random:
    (run, token, axis) -> (run,)."""
    generator = random_stream(0, "verify/tokens")
    permuted = [
        count_imperfections(embedding[:, generator.permutation(embedding.shape[1])])
        for _ in range(SHUFFLES)
    ]
    return np.mean(permuted, axis=0)


def nearer_than_renamed(evidence: xr.Dataset, of: str) -> Estimate:
    """Percentage of runs that are nearer to a circle or a grid than with renamed
    tokens, less the 50% by chance, in points; of evidence with `DISTANCES`."""
    runs = evidence.dropna("run", subset=["renamed_distance"])
    distance = np.minimum(runs["circle_distance"], runs["grid_distance"])
    nearer = distance < runs["renamed_distance"]
    return estimates.less_half(estimates.percentage_of_ones(nearer, of))
