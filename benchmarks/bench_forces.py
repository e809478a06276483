"""Force sums for several N, D and ensemble sizes, and their speed relative to the
baselines."""

import numpy as np
from numba import get_num_threads

from benchmarks.baselines import numpy_fields, plain_fields, speed_up
from dynamics.forces import ca_forces
from dynamics.kernels.compiling import numba_threads
from dynamics.particles.fast_forces import fast_fields
from dynamics.particles.pair_forces import force_fields
from dynamics.particles.pair_list import PairList, group_pairs
from dynamics.tasks import all_pairs


def embeddings(runs: int, n: int, dim: int = 2) -> np.ndarray:
    return np.random.default_rng(1).standard_normal((runs, n, dim))


def ensemble(size: tuple[int, int]) -> tuple[np.ndarray, np.ndarray, PairList]:
    """Embeddings of an ensemble (runs, N), all pairs of tokens, and the pairs grouped
    for the kernels."""
    return embeddings(*size), all_pairs(size[1]), group_pairs(size[1])


class Fields:
    """All four fields of an ensemble, and of a single run."""

    params = ([(1000, 17), (16, 59), (2, 113), (1, 17), (1, 59), (1, 113)], [1, 2, 3])
    param_names = ("runs, N", "D")

    def setup(self, size, dim):
        self.x = embeddings(*size, dim)
        self.pairs = group_pairs(size[1])
        force_fields(self.x, self.pairs)  # compiled and warm

    def time_fields(self, size, dim):
        force_fields(self.x, self.pairs)


class Laws:
    """Fields of laws with other strengths of repulsion, for sizes (runs, N). The first
    one is CA's."""

    params = (
        [(100, 17), (1, 59), (1, 199)],
        [
            "1/r",
            "1/r**3",
            "1/(1 + r**2)",
            "1/r - 0.5/r**3",
            "exp(-r)",
            "interp(r, [0, 1, 2, 3, 4], [9, 1, 0.5, 0.3, 0.2])",
            "interp(r, [0.1, 0.3, 1, 3, 5], [9, 3, 1, 0.3, 0.2])",
            "interp(log(r), [-3, -2, -1, 0, 1], [9, 3, 1, 0.3, 0.2])",
        ],
    )
    param_names = ("runs, N", "repulsion")

    def setup(self, size, repulsion):
        self.law = ca_forces(repulsion=repulsion)
        self.x = embeddings(*size)
        self.pairs = group_pairs(size[1])
        force_fields(self.x, self.pairs, self.law)  # compiled and warm

    def time_fields(self, size, repulsion):
        force_fields(self.x, self.pairs, self.law)


class Methods:
    """All four fields of one embedding in the plane by direct and by fast sums, over
    N."""

    params = ([59, 113, 199, 257, 499, 997, 1997], ["direct", "mesh"])
    param_names = ("N", "method")
    timeout = 600

    def setup(self, n, method):
        if n > 300 and method == "direct":
            raise NotImplementedError("takes minutes")
        self.x = embeddings(1, n)[0]
        self.pairs = group_pairs(n)
        self.compute_fields(method)  # compiled and warm

    def compute_fields(self, method):
        return (
            force_fields(self.x, self.pairs)
            if method == "direct"
            else fast_fields(self.x, self.pairs, 1e-6)
        )

    def time_fields(self, n, method):
        self.compute_fields(method)


class SpeedUp:
    """Speed relative to the compiled double loop of tests/naive.py, with the same
    outputs and no fastmath.

    An ensemble runs on all threads in both, a single run on one thread in both.
    """

    params = ([(1000, 17), (16, 59), (8, 113), (1, 17), (1, 59), (1, 113)],)
    param_names = ("runs, N",)
    unit = "times"
    timeout = 600

    def track_against_the_plain_loop(self, size):
        x, pairs, list_of_pairs = ensemble(size)
        first, second = (
            np.ascontiguousarray(pairs[:, 0]),
            np.ascontiguousarray(pairs[:, 1]),
        )
        with numba_threads(1 if size[0] == 1 else get_num_threads()):
            return speed_up(
                lambda: plain_fields(x, first, second, size[1]),
                lambda: force_fields(x, list_of_pairs),
                3 if size[1] > 100 else 7,
            )


class SpeedUpOverNumPy:
    """Speed relative to (pair, pair) arrays in NumPy, one run after the other.

    NumPy chooses its number of threads. A single run of the kernel uses one thread: a
    second would wait for the threads of the preceding matrix product, which stay busy
    for a while."""

    params = ([(1, 17), (16, 17), (1, 59), (16, 59)],)
    param_names = ("runs, N",)
    unit = "times"
    timeout = 600

    def track_against_numpy(self, size):
        x, pairs, list_of_pairs = ensemble(size)
        with numba_threads(1 if size[0] == 1 else get_num_threads()):
            return speed_up(
                lambda: [
                    numpy_fields(run, pairs[:, 0], pairs[:, 1], size[1]) for run in x
                ],
                lambda: force_fields(x, list_of_pairs),
            )
