"""Perfect grids: that they are what their definition says, and that none is missed."""

import itertools

import numpy as np
import pytest
from numpy.testing import assert_allclose

from analysis.structures import lattices
from analysis.structures.circles_and_grids import count_imperfections
from dynamics.tasks import all_pairs, modular_sum


def is_convex(points):
    """By the hull's half-planes: every lattice point of the box that is on the inner
    side of all edges belongs."""
    points = np.array(points, dtype=int)
    pairs = points[list(itertools.permutations(range(len(points)), 2))]
    ranges = (
        range(a, b + 1) for a, b in zip(points.min(0), points.max(0), strict=True)
    )
    box = np.array(list(itertools.product(*ranges)))

    def sides(others):  # of the lines through pairs: (pair, other)
        along, off = pairs[:, 1] - pairs[:, 0], others - pairs[:, :1]
        return along[:, :1] * off[..., 1] - along[:, 1:] * off[..., 0]

    edges = (sides(points) >= 0).all(axis=1)
    return (sides(box)[edges] >= 0).all(axis=0).sum() == len(points)


@pytest.mark.parametrize("n", [5, 6, 7, 9])
def test_windows_follow_the_definition(n):
    for places, step, _, lines in lattices.lattice_windows(n):
        assert len(np.unique(places[:, 0])) == lines
        assert is_convex(places)
        numbers = np.array(list(itertools.product(range(n), repeat=2)))
        assert (
            step
            in numbers[((numbers @ places.T - np.arange(n)) % n == 0).all(axis=1)][:, 1]
        )


@pytest.mark.parametrize(("n", "box"), [(5, (5, 4)), (6, (5, 3)), (7, (6, 3))])
def test_no_grid_in_a_box_is_missed(n, box):
    """All sets of N points of a box that have no holes, with all ways to number them,
    against the enumeration."""
    known, met = set(lattices._keys(lattices.perfect_grids(n).basis)), set()
    points = np.array(list(itertools.product(*map(range, box))))
    numbers = np.array(
        [
            (a * points[:, 0] + b * points[:, 1]) % n
            for a, b in itertools.product(range(n), repeat=2)
        ]
    )
    for chosen in itertools.combinations(range(len(points)), n):
        some = np.array(chosen)
        if points[some].min(axis=0).any():
            continue
        valid = [
            number for number in numbers[:, some] if len(set(number.tolist())) == n
        ]
        if valid and is_convex(points[some]):
            bases = [
                lattices.orthonormal_basis(points[some][np.argsort(item)])
                for item in valid
            ]
            met |= set(lattices._keys(np.stack(bases)))
    assert met
    assert met <= known


def test_seventeen_tokens_have_114_grids():
    grids = lattices.perfect_grids(17)
    assert grids.kind.max() + 1 == 114
    assert np.unique(np.bincount(grids.kind)).tolist() == [
        68,
        136,
        272,
    ]  # 272 labellings over the grid's symmetries
    assert_allclose(grids.basis.sum(axis=1), 0, atol=1e-12)
    assert len(set(lattices._keys(grids.basis))) == len(grids.kind)


def test_sums_that_coincide_are_of_one_class_and_corners_are_imperfect(generator):
    grids, pairs = lattices.perfect_grids(11), all_pairs(11)
    residue = modular_sum(pairs, 11)
    for basis in grids.basis[generator.choice(len(grids.kind), 60, replace=False)]:
        x = basis @ generator.standard_normal((2, 2))
        sums = np.round((x[pairs[:, 0]] + x[pairs[:, 1]]) * 1e7)
        for place in np.unique(sums, axis=0):
            assert len(set(residue[(sums == place).all(axis=1)])) == 1
        assert count_imperfections(x) >= 2  # a line has two corners, a polygon more


@pytest.mark.parametrize(
    ("rows", "expected"),
    [
        (((0, 2), (0, 2), (0, 2)), True),
        (((0, 2), (1, 2), (0, 2)), False),
        (((0, 2), (0, 1), (0, 2)), False),
        (((0, 2), (1, 2), (1, 2)), True),
    ],
)
def test_holes_are_found(rows, expected):
    assert lattices.has_no_holes(rows) is expected


def test_too_few_and_too_many_tokens_are_refused():
    for n in (2, lattices.MAX_GRID_TOKENS + 1):
        with pytest.raises(ValueError, match=f"found {n} tokens"):
            lattices.perfect_grids(n)
