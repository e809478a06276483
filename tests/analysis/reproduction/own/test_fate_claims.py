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


def test_a_start_that_decides_three_quarters():
    outcome = np.array([1] * 20 + [0] * 20)
    committor = np.array([1.0] * 15 + [0.5] * 5 + [0.0] * 15 + [0.5] * 5)
    less_the_rest = judged("OWN.fate-sparse", evidence(committor, outcome))[0]
    # between runs 3/16, within runs 1/16
    assert less_the_rest.estimate.value == pytest.approx(50, abs=4)
    assert less_the_rest.verdict is Verdict.HOLDS


def test_a_state_that_explains_more_than_an_earlier_one(generator):
    outcome = np.arange(60) % 2
    means = [np.full(60, 0.5), 0.05 + 0.9 * outcome, 0.01 + 0.98 * outcome]
    committors = generator.binomial(50, means) / 50
    counts = {"trials": np.full((3, 60), 50), "outcome": np.tile(outcome, (3, 1))}
    epochs = {"epoch": [0, 300, 600]}
    data = dataset(("epoch", "run"), epochs, committor=committors, **counts)
    more, later = judged("OWN.fate-epochs", data)
    # all of 0.25 between runs: 0.2025 at epoch 300; within: 0.0475
    assert more.estimate.value == pytest.approx(2 * 81 - 100, abs=8)
    assert more.verdict is Verdict.HOLDS
    assert later.estimate.value == pytest.approx(96 - 81, abs=4)
