"""The largest differences between the analyses and their plain versions.

`python -m tests.twins.differences` tries ten times as many inputs as the tests do, and
prints for each analysis the number of comparisons and the largest difference."""

import os
import sys

import numpy as np
import pandas as pd
import pytest

from dynamics import save_trajectory
from tests.twins.intervals import equal

FACTOR = int(os.environ.get("TWIN_EXAMPLES", "1"))
LARGEST: dict[str, float] = {}
COMPARED: dict[str, int] = {}


def examples(number):
    """Number of examples of hypothesis."""
    return number * FACTOR


def same(analysis, actual, expected, tolerance=1e-9):
    """Both are equal within the tolerance, relative to the larger of 1 and the expected
    number; the difference is kept under the name of the analysis."""
    actual, expected = np.broadcast_arrays(
        np.asarray(actual, float), np.asarray(expected, float)
    )
    equal(actual, expected, tolerance)
    finite = np.isfinite(expected)
    COMPARED[analysis] = COMPARED.get(analysis, 0) + actual.size
    if finite.any():
        difference = np.abs(actual - expected)[finite]
        relative = (difference / np.maximum(1, np.abs(expected[finite]))).max()
        LARGEST[analysis] = max(LARGEST.get(analysis, 0.0), float(relative))


def row_has(analysis, row, name, expected, tolerance=1e-9):
    """A row of a table has this value with this interval."""
    actual = [row[name], row[f"{name}_low"], row[f"{name}_high"]]
    same(analysis, actual, expected, tolerance)


def is_drawn(analysis, axes, x, y, tolerance=1e-9):
    """Check that one line of the axes goes through these points; points without a value
    are left out."""
    x, y = np.asarray(x, float), np.asarray(y, float)
    x, y = x[np.isfinite(y)], y[np.isfinite(y)]
    distances = []
    for line in axes.lines:
        a, b = (np.asarray(v, float) for v in line.get_data())
        a, b = a[np.isfinite(b)], b[np.isfinite(b)]
        if len(a) == len(x) and np.allclose(a, x, rtol=1e-9, atol=1e-12):
            distances.append((np.abs(b - y).max(initial=0.0), b))
    assert distances, f"no line at {x}"
    same(analysis, min(distances, key=lambda pair: pair[0])[1], y, tolerance)


def check_csv(analysis, typed, words, trajectory, table):
    """The CSV file that a command writes of a trajectory has the columns and the numbers
    of a table."""
    save_trajectory(trajectory, "t.nc")
    code, _, errors = typed(f"analysis.{analysis}", "t.nc", *words, "--csv", "t.csv")
    assert code == 0, errors
    numbers = list(table.select_dtypes("number"))
    texts = dict.fromkeys(set(table) - set(numbers), str)
    written = pd.read_csv("t.csv", dtype=texts)
    assert list(written) == list(table)
    same(analysis, written[numbers], table[numbers].astype(float))
    for name in texts:
        assert written[name].fillna("").tolist() == table[name].fillna("").tolist()


def main():
    # The tests import this module by its own name.
    from tests.twins import differences

    differences.FACTOR = 10
    status = pytest.main(
        ["tests/twins", "-m", "not slow", "-q", "-p", "no:cacheprovider"]
    )
    for name, difference in sorted(differences.LARGEST.items()):
        print(f"{name:30} {differences.COMPARED[name]:9,} {difference:.1e}")
    return status


if __name__ == "__main__":
    sys.exit(main())
