"""Kinds of end states, and verdicts on claims about them, for made evidence."""

import numpy as np
import pytest
import xarray as xr

from analysis.reproduction.musat2024 import networks, particle_claims, structure_claims
from analysis.structures.lattices import perfect_grids
from tests.analysis.reproduction.judging import (
    NO,
    OPEN,
    PARTLY,
    UNTESTABLE,
    YES,
    made_evidence,
    part_verdicts,
    verdicts,
)
from tests.polygons import polygon

CHANCE = {"chance_grid_distance": 0.13, "chance_circle_distance": 0.79}


def test_ideal_end_states_have_their_kind(generator):
    circle, grid = polygon(11, step=3), perfect_grids(11).basis[7]
    order = generator.permutation(11)
    random = generator.standard_normal((11, 2))
    x = np.stack([circle, grid, random, circle[order], grid[order]])
    columns = {
        f"network_{name}": values
        for name, values in structure_claims.structure_distances(x).items()
    }
    columns["network_circle"] = [1.0, 0.0, 0.0, 1.0, np.nan]
    evidence = made_evidence(
        {"weight_decay": [1.0], "network": 5}, {"weight_decay network": columns}
    ).assign(CHANCE)
    kinds = structure_claims.end_states_by_kind(evidence, "network")
    for kind, states in (
        ("circle", [True, False, False, True, False]),
        ("grid", [False, True, False, False, False]),
        ("neither", [False, False, True, False, False]),
    ):
        assert kinds[kind].tolist() == [states]
    both = ("circle", "grid")
    assert (
        structure_claims.percentage_of_kinds(evidence, "network", 1.0, both).value == 75
    )

    def overlap(evidence, of_circles):
        estimate = structure_claims.overlap_with_algorithm(
            evidence, "network", of_circles
        )
        return estimate.value, estimate.count

    # A circle in another order is no polygon.
    assert (overlap(evidence, True), overlap(evidence, False)) == ((50, 2), (100, 1))
    far = evidence.assign(chance_circle_distance=-1.0)  # no end state is as near
    assert overlap(far, True) == (0, 2)


DISTANCES = {
    "circle": (0.9, 0.9),
    "grid": (0.05, 0.05),
    "imperfect grid": (0.05, 0.5),
    "neither": (0.5, 0.6),
}
"""From grids with holes, and without."""


def evidence(
    network_rows, particle_rows, accuracy=(70, 75, 50, 20), runs=400
) -> xr.Dataset:
    """End states by the percentages of circles, grids and imperfect grids; mean
    accuracies of all four kinds."""
    evidence = xr.Dataset(CHANCE)
    grids, perfect_grids = np.transpose(list(DISTANCES.values()))
    vary = np.arange(runs) % 7
    settings = {"network": networks.DECAYS, "particle": particle_claims.FAS}
    for system, rows in (("network", network_rows), ("particle", particle_rows)):
        setting = structure_claims.SYSTEMS[system]
        bounds = np.cumsum(rows, axis=1)[:, :, None]
        places = (bounds <= 100 * np.arange(runs) / runs).sum(axis=1)
        columns = {
            f"{system}_circle": (places == 0).astype(float),
            f"{system}_grid_distance": grids[places],
            f"{system}_perfect_distance": perfect_grids[places],
            f"{system}_circle_distance": np.where(places == 0, 0.02, 0.85),
            f"{system}_imperfections": np.where(places == 3, 140.0, 30.0) + vary,
        }
        if system == "network":
            columns["network_accuracy"] = np.array(accuracy, float)[places] + vary
        lengths = {setting: list(settings[system]), system: runs}
        made = made_evidence(lengths, {f"{setting} {system}": columns})
        evidence = evidence.merge(made)
    return evidence


MIXED = (20, 30, 30)
NETWORKS = [(0, 0, 25), (0, 12, 0), MIXED, MIXED]


FALSE = dict.fromkeys(
    [
        "CA.s4.structures",
        "CA.figure1.both",
        "CA.figure2.imperfect",
        "CA.s6.structures",
        "CA.figure5.three",
        "CA.s6.more-circles",
    ],
    NO,
)


@pytest.mark.parametrize(
    ("network_rows", "particle_rows", "usual", "others"),
    [
        (
            NETWORKS,
            [(0, 75, 0), MIXED, (62, 25, 0)],
            YES,
            {"CA.s4.structures": PARTLY},
        ),  # not without weight decay
        (
            [(0, 0, 0)] * 4,
            [(0, 0, 0)] * 3,
            UNTESTABLE,
            FALSE | {"CA.s6.as-networks": YES},
        ),  # all are alike
    ],
)
def test_claims_are_true_with_structures_and_false_without(
    network_rows, particle_rows, usual, others
):
    outcome = verdicts(evidence(network_rows, particle_rows), "ca.structures")
    assert outcome == dict.fromkeys(outcome, usual) | others


@pytest.mark.parametrize(
    ("accuracy", "expected"), [((30, 25, 50, 80), NO), ((26, 26, 23, 20), PARTLY)]
)
@pytest.mark.parametrize("name", ["CA.s4.order", "CA.s2.generalisation"])
def test_verdicts_on_accuracies_follow_the_size_of_differences(
    name, accuracy, expected
):
    assert set(part_verdicts(name, evidence(NETWORKS, [MIXED] * 3, accuracy))) == {
        expected
    }


def test_verdicts_on_minorities_and_small_differences():
    data = evidence(
        [(5, 13, 10)] * 4, [(10, 10, 10), (13, 7, 10), (17, 3, 10)], runs=2000
    )
    for name, expected in (
        ("CA.s4.structures", PARTLY),
        ("CA.s6.structures", PARTLY),
        ("CA.s6.more-circles", PARTLY),
    ):
        assert set(part_verdicts(name, data)) == {expected}
    other = evidence([(10, 26, 20)] * 4, [(60, 20, 0)] * 3)
    assert set(part_verdicts("CA.s6.as-networks", other)) == {
        OPEN
    }  # the ranges are ours
