"""Intervals against published values."""

import numpy as np
import pytest
from scipy import stats

from analysis.intervals import binomial_interval, mean_interval
from analysis.tables import Table, percent, plus_minus


@pytest.mark.parametrize(
    ("count", "low", "high"),
    [(0, 0.0, 0.0362), (17, 0.1023, 0.2582), (56, 0.4572, 0.6592), (100, 0.9638, 1.0)],
)
def test_clopper_pearson_of_a_hundred(count, low, high):
    assert binomial_interval(count, 100) == pytest.approx((count / 100, low, high), abs=1e-4)


def test_t_interval_of_a_mean():
    values = np.array([1.0, 2.0, 4.0])
    low, high = stats.t.interval(0.95, 2, loc=values.mean(), scale=stats.sem(values))
    assert mean_interval(values) == pytest.approx((values.mean(), low, high))


def test_what_has_no_interval_prints_as_none():
    assert plus_minus(mean_interval(np.array([]))) == "-"
    assert plus_minus(mean_interval(np.array([3.0]))) == "3.0"
    assert plus_minus(mean_interval(np.array([3.0, 3.0]))) == "3.0 ± 0.0"
    assert percent(binomial_interval(1, 2)).startswith("50.0 [")
    assert percent(binomial_interval(0, 0)) == "-"


def test_a_table_is_aligned_and_goes_to_csv(tmp_path):
    table = Table(("name", "x"), [("a", "1"), ("long, name", "20")])
    assert table.text().splitlines() == ["name         x", "----------  --", "a            1", "long, name  20"]
    table.write_csv(tmp_path / "deep" / "t.csv")
    assert (tmp_path / "deep" / "t.csv").read_text() == 'name,x\na,1\n"long, name",20\n'
