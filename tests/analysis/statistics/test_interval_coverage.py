"""Intervals contain the true value as often as their page says."""

from pathlib import Path

import numpy as np
import pytest

from tests.analysis.statistics.interval_coverage import CASES, LEAST, SIZES, coverage

PAGE = Path(__file__).parents[3] / "docs" / "guides" / "intervals.md"
LABELS = [f"{case.interval}, {case.sample}" for case in CASES]


def test_the_page_has_every_case_and_none_is_low():
    cells = [
        [cell.strip() for cell in line.strip("|").split("|")]
        for line in PAGE.read_text().splitlines()
        if line.startswith("|")
    ]
    rows = {(row[0], row[1]): row[2:] for row in cells if len(row) == 2 + len(SIZES)}
    for case in CASES:
        values = rows[case.interval, case.sample]
        for size, value in zip(SIZES, values, strict=True):
            assert (value == "-") == (size not in case.sizes)
            assert value == "-" or float(value) >= 100 * LEAST


@pytest.mark.parametrize("case", CASES[3:8], ids=LABELS[3:8])
@pytest.mark.parametrize("size", [3, 10])
def test_means_between_limits_cover_the_truth(case, size):
    assert coverage(case, size, 300) >= 0.92 - 3 * np.sqrt(0.95 * 0.05 / 300)


@pytest.mark.slow
@pytest.mark.parametrize("case", CASES, ids=LABELS)
@pytest.mark.parametrize("size", SIZES)
def test_intervals_cover_the_truth(case, size):
    if size in case.sizes:
        assert coverage(case, size, 1000) >= LEAST - 3 * np.sqrt(0.95 * 0.05 / 1000)
