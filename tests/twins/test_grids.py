"""Grids and chance levels of docs/analyses/formation.md in plain loops."""

import functools
import itertools
import math

import numpy as np
from hypothesis import example, given, settings
from hypothesis import strategies as st

from analysis.structures import (
    nearest_grid,
    nearest_perfect_grid,
    perfect_grids,
    structure_measures,
)
from tests.twins.differences import examples, same
from tests.twins.test_formation import circle_distance, imperfections, power
from tests.twins.trajectories import particles

# ------------------------------------------------------------------------------- twins


def area2(o, a, b):
    return (a[0] - o[0]) * (b[1] - o[1]) - (a[1] - o[1]) * (b[0] - o[0])


def hull(points):
    """Corners of the convex hull, counterclockwise, by Andrew's algorithm."""
    halves = []
    for row in (sorted(points), sorted(points, reverse=True)):
        half = []
        for p in row:
            while len(half) > 1 and area2(half[-2], half[-1], p) <= 0:
                half.pop()
            half.append(p)
        halves += half[:-1]
    return halves


def lattice_points_inside(points):
    """The number of lattice points in the convex hull, by Pick's theorem."""
    corners = hull(points)
    edges = list(zip(corners, corners[1:] + corners[:1], strict=True))
    double = abs(sum(a[0] * b[1] - a[1] * b[0] for a, b in edges))
    border = sum(math.gcd(b[0] - a[0], b[1] - a[1]) for a, b in edges)
    return (double + border) // 2 + 1


def compact(points):
    """The same points in the basis of two of their differences in which their
    coordinates are least."""
    best = None
    for o, a, b in itertools.permutations(points, 3):
        u, v = (a[0] - o[0], a[1] - o[1]), (b[0] - o[0], b[1] - o[1])
        det = u[0] * v[1] - u[1] * v[0]
        if abs(det) != 1:
            continue
        moved = []
        for x in points:
            d = (x[0] - o[0], x[1] - o[1])
            moved.append(
                (det * (d[0] * v[1] - d[1] * v[0]), det * (u[0] * d[1] - u[1] * d[0]))
            )
        key = (sum(x * x + y * y for x, y in moved), sorted(moved))
        if best is None or key < best:
            best = key
    return tuple(best[1])


@functools.cache
def windows(n):
    """Sets of n lattice points, not on one line, that are all lattice points of their
    convex hull; each once up to maps of the lattice."""
    if n == 3:
        return {((0, 0), (0, 1), (1, 0))}
    # a corner can be taken from each set but for a triangle on a line
    row = tuple((k, 0) for k in range(n - 1))
    result = set()
    for window in [row, *windows(n - 1)]:
        low, high = -n, max(n, 2)
        for p in itertools.product(range(low, high + 1), repeat=2):
            if p in window or (window is row and p[1] == 0):
                continue
            grown = [*window, p]
            if lattice_points_inside(grown) == n:
                result.add(compact(grown))
    return result


@functools.cache
def planes(n):
    """Orthonormal bases of the centred places of the tokens on all perfect grids, each
    plane once."""
    labelled = []
    for a in range(1, n):
        if math.gcd(a, n) == 1:
            labelled.append([(a * k % n, (k, 0)) for k in range(n)])
    for window in windows(n):
        for a, b in itertools.product(range(n), repeat=2):
            labels = [(a * x + b * y) % n for x, y in window]
            if len(set(labels)) == n:
                labelled.append(list(zip(labels, window, strict=True)))
    result = {}
    for tokens, first in itertools.product(labelled, range(n)):
        # the lattice may begin with any token
        moved = sorted(((v + first) % n, place) for v, place in tokens)
        places = np.array([place for _, place in moved], float)
        places -= places.mean(axis=0)
        u, s, _ = np.linalg.svd(places, full_matrices=False)
        u = u[:, s > 1e-9 * s[0]]
        result[tuple(np.round(u @ u.T, 6).ravel() + 0.0)] = u
    return list(result.values())


def perfect_distance(x):
    a = x - x[:1]  # exact for tokens in one point
    a = a - a.mean(axis=0)
    size = math.sqrt((a * a).sum())
    if size == 0:
        return 1.0
    a = a / size
    overlap = max(((u.T @ a) ** 2).sum() for u in planes(len(x)))
    return math.sqrt(max(0.0, 1 - overlap))


# ------------------------------------------------------------------------------- tests


@st.composite
def embeddings(draw, least=3, most=7):
    n, axes = draw(st.integers(least, most)), draw(st.integers(1, 4))
    generator = np.random.default_rng(draw(st.integers(0, 2**31)))
    kind = draw(st.sampled_from(["noise", "grid", "near", "ties", "still"]))
    if kind == "noise":
        return generator.standard_normal((n, axes))
    if kind == "ties":
        return generator.integers(-1, 2, (n, axes)).astype(float)
    if kind == "still":
        return np.full((n, axes), float(generator.integers(-3, 4)))
    basis = planes(n)[generator.integers(len(planes(n)))]
    x = basis @ generator.standard_normal((basis.shape[1], axes))
    return x + 0.05 * (kind == "near") * generator.standard_normal(x.shape) + 3


def test_perfect_grids_are_all_listed():
    for n in range(3, 8):
        grids = perfect_grids(n).basis
        assert len(grids) == len(planes(n))
        ours = [np.round(b @ b.T, 5) + 0.0 for b in grids]
        twins = [np.round(u @ u.T, 5) + 0.0 for u in planes(n)]
        for projection in twins:
            assert min(np.abs(projection - other).max() for other in ours) < 1e-4


def test_distances_from_grids():
    @settings(max_examples=examples(40))
    @given(embeddings())
    def check(x):
        if len(x) < 3:
            return
        twin = perfect_distance(x)
        # a square root of a difference near 0
        same("formation", nearest_perfect_grid(x).distance, twin, 2e-7)
        found = float(nearest_grid(x).distance)
        assert math.isnan(found) if math.isnan(twin) else found <= twin + 2e-7

    check()


MEASURES = {
    "circle_distance": circle_distance,
    "perfect_distance": perfect_distance,
    "dominant_fraction": lambda x: max(power(x)),
    "imperfections": imperfections,
}


def test_chance_levels():
    """They are those of 99 random renamings, of all 120 of five tokens."""

    @settings(max_examples=examples(2))
    @given(embeddings(5, 5))
    @example(np.array([[0.0], [-1.0], [1.0], [1.0], [1.0]]))  # tokens in one point
    def check(x):
        check_chance_levels(x)

    check()


def check_chance_levels(x):
    measures = structure_measures(particles(x[None, None], [0]))
    renamed = [x[list(p)] for p in itertools.permutations(range(5))]
    for name, measure in MEASURES.items():
        values = np.array([measure(y) for y in renamed], float)
        chance = float(measures["chance"].sel(measure=name)[0])
        mean = float(measures["expected"].sel(measure=name)[0])
        if np.isnan(values).all():
            assert math.isnan(chance)
            continue
        error = values.std() / math.sqrt(99)
        assert abs(mean - values.mean()) <= 6 * error + 1e-6
        nearest = values[np.argmin(np.abs(values - chance))]
        same("formation", chance, nearest, 2e-7)
        more = (
            values > chance + 1e-6
            if name == "dominant_fraction"
            else values < chance - 1e-6
        )
        # the chance that none of 99 is more extreme
        assert (1 - more.mean()) ** 99 > 1e-6
