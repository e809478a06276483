"""What the first and later states explain of the end of a run, for made numbers of
copies."""

import numpy as np
import pytest

from analysis.reproduction.claim import Verdict
from analysis.reproduction.own import fate_claims
from tests.analysis.reproduction.evidence_by_hand import dataset, judged


def evidence(committor, outcome):
    """The same committors for each perturbation, (run,), of 20 copies."""
    columns = {"committor": committor, "trials": np.full(len(outcome), 20)}
    names = list(fate_claims.PERTURBATIONS)
    rows = {name: [values] * len(names) for name, values in columns.items()}
    rows["outcome"] = [outcome] * len(names)
    return dataset(("perturbation", "run"), {"perturbation": names}, **rows)


@pytest.mark.parametrize("claim", ["particles", "networks"])
def test_verdicts_follow_what_the_first_state_decides(claim):
    name, outcome = f"OWN.fate-{claim}", np.arange(60) % 2
    decided = judged(name, evidence(0.99 * outcome, outcome))
    undecided = judged(name, evidence(np.full(60, 0.5), outcome))
    assert {one.verdict for one in decided} == {Verdict.HOLDS}
    assert Verdict.HOLDS not in {one.verdict for one in undecided}


def test_a_start_that_decides_half():
    outcome = np.array([1] * 20 + [0] * 20)
    committor = np.array([1.0] * 10 + [0.5] * 10 + [0.0] * 10 + [0.5] * 10)
    data = evidence(committor, outcome)
    left, explained, _ = judged("OWN.fate-sparse", data)
    # between runs 0.125 (1/4 - 1/8), within runs 1/8
    assert explained.estimate.value == pytest.approx(50, abs=3)
    assert left.estimate.value == pytest.approx(100 - explained.estimate.value)
    assert left.estimate.interval.low == 100 - explained.estimate.interval.high
    assert {left.verdict, explained.verdict} == {Verdict.HOLDS}


def test_a_state_that_explains_more_than_an_earlier_one(generator):
    outcome = np.arange(60) % 2
    means = [np.full(60, 0.5), 0.25 + 0.5 * outcome, 0.05 + 0.9 * outcome]
    committors = generator.binomial(50, means) / 50
    counts = {"trials": np.full((3, 60), 50), "outcome": np.tile(outcome, (3, 1))}
    epochs = {"epoch": [0, 300, 600]}
    data = dataset(("epoch", "run"), epochs, committor=committors, **counts)
    gain = fate_claims.explained_gain(data, 0, 2)
    # all of 0.25 between runs: 0.2025; within: 0.0475
    assert gain.value == pytest.approx(81, abs=4)
    gains = judged("OWN.fate-epochs", data)
    assert [one.verdict for one in gains] == [Verdict.HOLDS] * 2
