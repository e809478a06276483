"""The largest difference between an analysis and its twin, by analysis."""

import numpy as np
import pandas as pd
import pytest

from dynamics import save_trajectory

largest: dict[str, float] = {}
"""Since the process began; the tests with the mark `slow` print it."""


def close(what, actual, expected, tolerance=1e-9):
    """Numbers that differ by no more than the tolerance, relative to the larger of 1
    and their size; NaN and inf must agree."""
    actual = np.asarray(actual, float)
    expected = np.asarray(expected, float)
    assert actual.shape == expected.shape, (what, actual.shape, expected.shape)
    np.testing.assert_allclose(
        actual, expected, rtol=tolerance, atol=tolerance, err_msg=what
    )
    finite = np.isfinite(expected)
    error = np.abs(actual - expected)[finite]
    error = error / np.maximum(np.abs(expected[finite]), 1)
    largest[what] = max([largest.get(what, 0.0), *error.ravel()])


def examples(few, many):
    """The number of examples by default, and in the test with the mark `slow`."""
    values = [few, pytest.param(many, marks=pytest.mark.slow)]
    return pytest.mark.parametrize("examples", values)


def report(*names):
    for name in names:
        print(f"{name}: largest difference {largest.get(name, 0.0):.1e}")


def check_csv(what, typed, words, trajectory, table):
    """The CSV file that a command writes of a trajectory has the columns and the numbers
    of a table."""
    save_trajectory(trajectory, "t.nc")
    code, _, said = typed(f"analysis.{what}", "t.nc", *words, "--csv", "t.csv")
    assert code == 0, said
    numbers = list(table.select_dtypes("number"))
    texts = dict.fromkeys(set(table) - set(numbers), str)
    written = pd.read_csv("t.csv", dtype=texts)
    assert list(written) == list(table)
    close(what, written[numbers], table[numbers].astype(float))
    for name in texts:
        assert written[name].fillna("").tolist() == table[name].fillna("").tolist()
