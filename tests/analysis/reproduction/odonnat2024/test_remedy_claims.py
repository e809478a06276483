"""VC section 4.3: changes of the number of spikes and of the accuracy in made-up
runs."""

import numpy as np
import pytest

from analysis.reproduction.odonnat2024 import remedy_claims
from tests.analysis.reproduction.judging import (
    NO,
    OPEN,
    PARTLY,
    YES,
    dataset,
    part_verdicts,
)

SMOOTH = "smooth norm"


def made_runs(fewer=3.0, after=0.8, name=SMOOTH, escaped=40):
    """40 runs with 5 or 6 spikes each in 1000 epochs, and as many less `fewer` with a
    remedy, of those that escape."""
    late = np.array([[5.0], [5.0 - fewer]]) + np.arange(40) // np.array([[1], [2]]) % 2
    since = np.full((2, 40), 1000.0)
    late[1, escaped:], since[1, escaped:] = 0, 0
    # values that are all equal have no interval
    test = np.array([[1.0], [after]]) + [[0.0], [5e-4]] * (-1.0) ** np.arange(40)
    coords = {"remedy": [remedy_claims.UNCHANGED, name]}
    return dataset(
        ("remedy", "run"), coords, spikes=late, late=late, since=since, test=test
    )


def test_changes_by_a_remedy():
    data = made_runs()
    fewer = remedy_claims.spike_rate_change(data, SMOOTH)
    late = data["late"].values
    assert fewer.value == pytest.approx(late[1].mean() - late[0].mean())
    assert fewer.effect == pytest.approx(late[1].mean() / late[0].mean())
    assert fewer.note.endswith(
        "spikes; 40 against 40 runs escape, test accuracy -20.0 points"
    )
    cost = remedy_claims.accuracy_change(data, SMOOTH)
    assert (cost.value, cost.note) == (
        pytest.approx(-20),
        "0 against 40 runs above .98 (McNemar's p 1.8e-12)",
    )
    never = data.assign(since=0 * data["since"], late=0 * data["late"])
    assert remedy_claims.spike_rate_change(never, SMOOTH).note.startswith(
        "no run escapes"
    )
    calm = remedy_claims.spike_rate_change(data.assign(late=0 * data["late"]), SMOOTH)
    assert np.isnan(calm.value)
    assert calm.note.startswith("no run has spikes")


def test_runs_that_escape_with_both_norms():
    data = made_runs(fewer=0.0, escaped=20)
    data["late"][0, 20:] = (
        9  # without the remedy, the runs that do not escape with it have the most spikes
    )
    every, both = (
        remedy_claims.spike_rate_change(data, SMOOTH, in_both=escaped_in_both)
        for escaped_in_both in (False, True)
    )
    assert "20 against 40 runs escape" in every.note
    assert (every.value, both.value, both.count) == (
        pytest.approx(-1.75),
        0,
        20,
    )


@pytest.mark.parametrize(
    ("fewer", "smooth", "wider"),
    [(3.0, YES, YES), (-3.0, NO, OPEN), (0.0, NO, OPEN), (0.8, PARTLY, PARTLY)],
)
def test_verdicts_on_true_false_and_marginal_evidence(fewer, smooth, wider):
    assert set(part_verdicts("VC.s4.3.smoothing", made_runs(fewer))) == {smooth}
    assert part_verdicts("VC.s4.3.capacity", made_runs(fewer, name="h = 128")) == [
        wider
    ]
    assert part_verdicts("OWN.smooth-norm", made_runs(fewer, 0.8)) == [smooth, NO]
    assert part_verdicts("OWN.smooth-norm", made_runs(fewer, 0.99)) == [smooth, YES]
