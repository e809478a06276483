"""Verdicts on claims about table 1, for made evidence."""

import numpy as np
import pytest
from analysis.reproduction.rule import combine_verdicts

from analysis.structures.printed_tables import TABLE_1
from tests.analysis.reproduction.judging import (
    NO,
    OPEN,
    PARTLY,
    UNTESTABLE,
    YES,
    part_estimate,
    part_verdicts,
)
from tests.analysis.reproduction.musat2024.networks_evidence import DECAY, table

ROWS = [f"CA.table1.wd{decay:g}" for decay in TABLE_1]


def column(name: str) -> np.ndarray:
    """A column of the printed table without intervals, 0 for a dash: (weight_decay,
    1)."""
    return np.array(
        [float(str(row[name]).split()[0].strip("-") or 0) for row in TABLE_1.values()]
    )[:, None]


def printed_table(
    generator, circles=0.0, imperfections=0.0, accuracy=0.0, correlation=1.0, runs=1000
):
    """Networks as in the printed table, with some numbers changed."""
    circle = np.arange(runs) < runs / 100 * (column("circles") + circles)
    one, other = generator.standard_normal((2, 4, runs))
    r = -column("correlation") * correlation
    data = (
        np.where(
            circle, column("circle_accuracy_percent"), column("other_accuracy_percent")
        )
        + accuracy
    )
    data = data + 12 * np.where(circle, other, r * one + np.sqrt(1 - r**2) * other)
    return table(
        circle,
        imperfections=column("imperfections") + imperfections + 20 * one,
        accuracy=data,
    )


@pytest.mark.parametrize(
    ("changes", "part", "expected"),
    [
        ({"circles": 25}, 0, NO),
        ({"circles": np.array([[8], [8], [-8], [-8]])}, 0, PARTLY),
        ({"accuracy": 20}, -3, NO),
        ({"accuracy": 6}, -3, PARTLY),
        ({"imperfections": 15}, -2, NO),
        ({"correlation": 0.5}, -1, NO),
    ],
)
def test_rows_are_compared_with_the_printed_ones(changes, part, expected, generator):
    as_printed, changed = printed_table(generator), printed_table(generator, **changes)
    for name in ROWS:
        assert set(part_verdicts(name, as_printed)) == {YES}
        assert part_verdicts(name, changed)[part] == expected


def test_estimates_are_those_of_the_networks(generator):
    evidence = printed_table(generator)
    row = evidence.sel(weight_decay=1.0)
    others = row.isel(run=row["circle"].values == 0)
    percentage, of_circles, _, imperfections, correlation = (
        part_estimate("CA.table1.wd1", evidence, part) for part in range(5)
    )
    assert percentage.value == pytest.approx(18)
    assert of_circles.count == 180
    expected = others["imperfections"].values.mean()
    assert imperfections.value == pytest.approx(expected)
    expected = np.corrcoef(others["imperfections"], others["accuracy"])[0, 1]
    assert correlation.value == pytest.approx(expected)
    none = evidence.where(evidence["circle"] == 0)
    assert np.isnan(part_estimate("CA.table1.wd1", none, 1).value)
    same = evidence.assign(accuracy=0 * evidence["accuracy"])
    assert part_estimate("CA.table1.wd1", same, 4).note


@pytest.mark.parametrize(
    ("effect", "expected"),
    [(1, [YES] * 3), (-1, [NO] * 3), (0.1, [PARTLY, PARTLY, PARTLY])],
)
def test_verdicts_follow_the_size_of_effects(effect, expected, generator):
    runs = 400
    circle = np.arange(runs) < runs * (
        0.3 * effect * DECAY + (0.3 if effect < 0 else 0.01)
    )
    one, other = generator.standard_normal((2, 4, runs))
    imperfections = 80 - 50 * effect * DECAY + 5 * one
    accuracy = 50 + 20 * effect * circle - np.where(circle, 0, 4 * one) + other
    evidence = table(circle, imperfections=imperfections, accuracy=accuracy)
    names = (
        "CA.table1.circles-ahead",
        "CA.s4.decay-circles",
        "CA.s4.decay-imperfections",
        "CA.table1.correlated",
    )
    outcome = [combine_verdicts(part_verdicts(name, evidence)) for name in names]
    assert outcome == [*expected, YES]
    opposite = evidence.assign(imperfections=-evidence["imperfections"])
    assert set(part_verdicts("CA.table1.correlated", opposite)) == {
        OPEN
    }  # the bound is ours


def test_without_circles_their_accuracy_is_not_compared(generator):
    none = printed_table(generator).assign(
        circle=lambda evidence: 0 * evidence["circle"]
    )
    assert set(part_verdicts("CA.table1.circles-ahead", none)) == {UNTESTABLE}
