"""Grid imperfections by the sorted sweep, compared with a k-d tree."""

import numpy as np
from scipy.spatial import cKDTree

from analysis.structures.circles_and_grids import count_imperfections, is_circle
from benchmarks.baselines import speed_up
from dynamics.kernels.compiling import numba_threads
from dynamics.tasks import all_pairs, modular_sum


def embeddings(frames: int, n: int) -> np.ndarray:
    return np.random.default_rng(1).standard_normal((frames, n, 2))


def by_tree(x: np.ndarray) -> int:
    """Grid imperfections of one embedding without equal distances."""
    pairs = all_pairs(x.shape[0])
    sums, residue = x[pairs].sum(axis=1), modular_sum(pairs, x.shape[0])
    return int((residue[cKDTree(sums).query(sums, k=2)[1][:, 1]] != residue).sum())


class Structures:
    """10,000 frames at N = 17, and single frames with more tokens."""

    params = ([(10_000, 17), (1, 59), (1, 113)],)
    param_names = ("frames, N",)

    def setup(self, size):
        self.x = embeddings(*size)
        count_imperfections(self.x)

    def time_imperfections(self, size):
        count_imperfections(self.x)

    def time_circles(self, size):
        is_circle(self.x)


class SpeedUp:
    """Speed relative to SciPy's k-d tree, one frame on one thread."""

    params = [17, 59, 113]
    param_names = ("N",)
    unit = "times"

    def track_against_the_tree(self, n):
        x = embeddings(1, n)[0]
        with numba_threads(1):
            return speed_up(lambda: by_tree(x), lambda: count_imperfections(x), 15)
