"""VC appendices A.1 and A.3: peaks of gradient norms and events of the loss, counted in
made-up runs."""

import numpy as np
import pytest

from analysis.reproduction.claim import Verdict
from analysis.reproduction.odonnat2024 import gradient_norm_claims as norms
from analysis.transitions.change_points import SeriesEvent
from tests.analysis.reproduction.evidence_by_hand import made_evidence, verdicts

LAYERS = ["query", "value", norms.WHOLE]


def made(matched, total, chance):
    """Evidence with the same numbers of events, (run,), in all setups, layers and
    kinds."""
    counts = {"matched": matched, "total": total, "chance": chance}
    columns = {
        name: np.reshape(values, (-1, 1, 1)) * 1.0 for name, values in counts.items()
    }
    lengths = {
        "setup": list(norms.SETUPS),
        "layer": LAYERS,
        "kind": list(norms.KINDS),
        "run": len(total),
    }
    return made_evidence(lengths, {"setup run layer kind": columns})


def test_peaks_beyond_chance_have_an_interval_over_runs():
    evidence = made([4, 3] * 10, [4] * 20, [1.0] * 20)
    estimate = norms.excess_peaks(evidence, norms.MINI, norms.DROP)
    assert (estimate.value, estimate.count) == (pytest.approx(62.5), 80)
    assert estimate.note == "88% against 25%"
    half = 12.5 * 2.093 / np.sqrt(19)
    assert estimate.interval.low == pytest.approx(62.5 - half, abs=0.01)
    evidence["matched"].loc[{"layer": "query"}] -= 2
    assert norms.excess_peaks(evidence, norms.MINI, norms.DROP).value == 62.5
    names = norms.single_layers(evidence)
    layers = norms.excess_peaks(evidence, norms.MINI, norms.DROP, names)
    assert layers.value == pytest.approx(62.5 - 25)


def test_runs_without_events_do_not_count():
    evidence = made([2, 0, np.nan, 2], [2, 0, np.nan, 2], [0, 0, np.nan, 0])
    assert norms.excess_peaks(evidence, norms.FULL, norms.SPIKE).count == 4
    calm = norms.excess_peaks(made([0], [0], [0]), norms.FULL, norms.SPIKE)
    assert (calm.count, calm.note) == (0, "there are none")


@pytest.mark.parametrize(
    ("matched", "verdict"), [(3, Verdict.HOLDS), (0, Verdict.CONTRADICTED)]
)
def test_verdicts_on_peaks_with_events_and_elsewhere(matched, verdict):
    evidence = made([matched, matched + 1] * 10, [4] * 20, [2.0] * 20)
    for claim in norms.NORMS.claims:
        directions = [
            item for item in verdicts(claim, evidence) if item != Verdict.OPEN
        ]
        assert set(directions) == {verdict}
    assert norms.salience_change(evidence).value == 0


def test_events_are_matched_with_peaks_of_a_norm():
    norm = np.ones(1000) + 0.001 * np.sin(np.arange(1000) / 3)
    norm[398:403] += [1, 3, 5, 3, 1]
    events = {
        "drop": [
            SeriesEvent("drop", begin, begin + 5, begin + 10, 1.0, 0.5)
            for begin in (395, 700)
        ],
        "spike": [SeriesEvent("spike", 100, 101, 102, 1.0, 2.0)],
    }
    total, matched, chance = norms.match_counts(events, norm)
    assert (total.tolist(), matched.tolist()) == ([2, 1], [1, 0])
    # shifts by 20 to 40 frames move the peak away from both drops
    assert chance.tolist() == [0, 0]
