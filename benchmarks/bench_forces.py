"""Force sums over N, D and ensembles, and how much faster they are than the baselines."""

import numpy as np
from numba import get_num_threads, set_num_threads

from benchmarks.baselines import numpy_fields, plain_fields, speed_up
from dynamics.forces import fields
from dynamics.pairs import pair_list
from dynamics.tasks import all_pairs


def embeddings(runs: int, n: int, dim: int = 2) -> np.ndarray:
    return np.random.default_rng(1).standard_normal((runs, n, dim))


class Fields:
    """All four fields: an ensemble across runs, and one run alone."""

    params = ([(1000, 17), (16, 59), (2, 113), (1, 17), (1, 59), (1, 113)], [1, 2, 3])
    param_names = ("runs, N", "D")

    def setup(self, size, dim):
        self.x = embeddings(*size, dim)
        self.pairs = pair_list(size[1])
        fields(self.x, self.pairs)  # compiled and warm

    def time_fields(self, size, dim):
        fields(self.x, self.pairs)


class SpeedUp:
    """Against the double loop of tests/naive.py, compiled: the same outputs, no fastmath, nothing hoisted.

    An ensemble runs on all threads in both, a single run on one thread in both.
    """

    params = [(1000, 17), (16, 59), (8, 113), (1, 17), (1, 59), (1, 113)]
    param_names = ("runs, N",)
    unit = "times"
    timeout = 600

    def track_against_the_plain_loop(self, size):
        runs, n = size
        x, pairs, list_of_pairs = embeddings(runs, n), all_pairs(n), pair_list(n)
        first, second = np.ascontiguousarray(pairs[:, 0]), np.ascontiguousarray(pairs[:, 1])
        threads = get_num_threads()
        set_num_threads(threads if runs > 1 else 1)
        try:
            return speed_up(
                lambda: plain_fields(x, first, second, n), lambda: fields(x, list_of_pairs), 3 if n > 100 else 7
            )
        finally:
            set_num_threads(threads)


class SpeedUpOverNumPy:
    """Against whole (pair, pair) arrays, run after run; both on as many threads as they take."""

    params = [(1, 17), (16, 17), (1, 59), (16, 59)]
    param_names = ("runs, N",)
    unit = "times"
    timeout = 600

    def track_against_numpy(self, size):
        runs, n = size
        x, pairs, list_of_pairs = embeddings(runs, n), all_pairs(n), pair_list(n)
        return speed_up(
            lambda: [numpy_fields(run, pairs[:, 0], pairs[:, 1], n) for run in x], lambda: fields(x, list_of_pairs)
        )
