"""VC section 4.3: changes of the number of spikes in made-up runs."""

import numpy as np
import pytest

from analysis.reproduction.claim import Verdict
from analysis.reproduction.odonnat2024 import remedy_claims
from tests.analysis.reproduction.evidence_by_hand import dataset, verdicts

REMEDIES = ["smooth norm", "h = 128", "decay 0.01", "decay 0.1"]


def made(fewer=3.0, escaped=40):
    """40 runs with 5 or 6 spikes each in 1000 epochs, and as many less `fewer` with each
    remedy, of those that escape."""
    late = 5.0 + np.array([[0.0], *[[-fewer]] * 4]) + np.arange(40) % 2
    late[1:] = np.roll(late[1:], 1, axis=1)
    late[1:, 0] += 0.5  # values that are all equal have no interval
    since = np.full((5, 40), 1000.0)
    late[1:, escaped:], since[1:, escaped:] = 0, 0
    coords = {"remedy": [remedy_claims.UNCHANGED, *REMEDIES]}
    test = np.ones((5, 40))
    return dataset(
        ("remedy", "run"), coords, spikes=late, late=late, since=since, test=test
    )


def test_changes_by_a_remedy():
    evidence = made()
    change = remedy_claims.spike_rate_change(evidence, "smooth norm")
    late = evidence["late"].values
    assert change.value == pytest.approx(late[1].mean() - late[0].mean())
    assert change.note.startswith("2.5 against 5.5; 40 against 40 runs escape")
    never = evidence.assign(since=0 * evidence["since"], late=0 * evidence["late"])
    for empty in (never, evidence.drop_sel(remedy="smooth norm")):
        nothing = remedy_claims.spike_rate_change(empty, "smooth norm")
        assert np.isnan(nothing.value)
        assert nothing.note == "no run escapes"


def test_runs_that_escape_with_both_norms():
    evidence = made(fewer=0.0, escaped=20)
    # without the remedy, the runs that do not escape with it have the most spikes
    evidence["late"][0, 20:] = 9
    every, both = (
        remedy_claims.spike_rate_change(evidence, "smooth norm", in_both)
        for in_both in (False, True)
    )
    assert every.value == pytest.approx(-1.725)
    assert (both.value, both.count) == (pytest.approx(0.025), 20)


@pytest.mark.parametrize(
    ("fewer", "verdict"),
    [(3.0, Verdict.HOLDS), (-3.0, Verdict.CONTRADICTED), (0.0, Verdict.OPEN)],
)
def test_verdicts_on_true_false_and_no_effects(fewer, verdict):
    for claim in remedy_claims.REMEDIES.claims:
        assert set(verdicts(claim, made(fewer))) == {verdict}
