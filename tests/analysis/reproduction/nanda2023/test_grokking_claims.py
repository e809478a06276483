"""NA: times, changes in phases and verdicts for made networks that memorise and
generalise."""

import numpy as np
import pytest
import xarray as xr

from analysis.reproduction.claim import Verdict
from analysis.reproduction.nanda2023 import grokking_claims
from tests.analysis.reproduction.evidence_by_hand import (
    dataset,
    judged,
    made_evidence,
)

EPOCHS = np.arange(0, 4001, 50.0)
RUNS = 8


def sigmoid(epoch, middle, width=100.0):
    return 1 / (1 + np.exp(-(epoch - middle) / width))


@pytest.fixture
def made(generator):
    """Networks that memorise at epoch 100, begin cleanup at 1,400 and end it at 1,800,
    as NA describes it."""
    apart = generator.uniform(-20, 20, (RUNS, 1))
    epoch = EPOCHS - apart
    before, after = np.minimum(epoch, 1400) / 1400, np.clip((epoch - 1400) / 400, 0, 1)
    gini = 0.1 + 0.1 * before + 0.4 * after
    edges = np.array([0.0, 100.0, 1400.0, 1800.0]) + apart
    columns = {
        "run step": {
            "test_loss": 8 * (1 - sigmoid(epoch, 1600, 60)),
            "restricted_loss": 4 * (1 - sigmoid(epoch, 900)),
            "excluded_loss": 1e-3 + 4 * sigmoid(epoch, 900) + (epoch < 125),
            "embedding_gini": gini,
            "map_gini": gini,
            "squared_weights": 2500 - 800 * before - 900 * after,
        },
        "run": {"memorised": 100 + apart[:, 0], "generalised": 1650 + 3 * apart[:, 0]},
        "run phase": {"begin": edges[:, :-1], "end": edges[:, 1:]},
    }
    phase_names = ["memorisation", "circuit formation", "cleanup"]
    lengths = {"run": RUNS, "step": EPOCHS, "phase": phase_names}
    return made_evidence(lengths, columns, preset="nanda")


def verdicts(name, evidence):
    return [one.verdict for one in judged(name, evidence)]


def test_phases_as_the_paper_describes_them_hold(made):
    for name in ("NA.grokking.delay", "NA.phases.progress", "NA.phases.cleanup"):
        assert set(verdicts(name, made)) == {Verdict.HOLDS}


def test_measures_that_change_late_or_evenly_do_not(made):
    late = np.maximum(np.arange(len(EPOCHS)) - 20, 0)  # a thousand epochs
    restricted = made["restricted_loss"].copy(
        data=made["restricted_loss"].values[:, late]
    )
    even = made["step"] / 4000 * (1 + 1e-3 * xr.DataArray(np.arange(RUNS), dims="run"))
    changed = made.assign(restricted_loss=restricted, map_gini=-even * even)
    assert verdicts("NA.phases.progress", changed)[0] is Verdict.CONTRADICTED
    assert verdicts("NA.phases.cleanup", changed)[1] is Verdict.CONTRADICTED


def test_changes_and_times_are_those_that_were_made(made):
    changes = judged("NA.phases.cleanup", made)
    # 900 in 400 epochs less 800 in 1400
    expected = 1000 * (-900 / 400 + 800 / 1400)
    assert changes[0].estimate.value == pytest.approx(expected, rel=0.05)
    between = grokking_claims.epochs_between(made, "restricted_loss", "test_loss")
    assert between.value == pytest.approx(700, abs=10)
    first = made.assign(memorised=made["memorised"].where(made["run"] > 0))
    between = grokking_claims.epochs_between(first, "restricted_loss", "test_loss")
    assert between.count == RUNS - 1


@pytest.mark.parametrize(
    ("generalised", "expected"), [(0.0, Verdict.HOLDS), (1.0, Verdict.OPEN)]
)
def test_networks_with_and_without_weight_decay_are_compared(generalised, expected):
    accuracy = 40 + 5 * np.arange(6.0)
    made = dataset(
        ("weight_decay", "run"),
        {"weight_decay": [0.0, 1.0]},
        generalised=[[generalised] * 6, [1.0] * 6],
        memorised=np.ones((2, 6)),
        test_accuracy=[accuracy, accuracy + 40 + np.arange(6)],
    )
    more, accurate, memorise = judged("NA.weight-decay", made)
    assert more.verdict is expected
    assert more.estimate.value == 100 * (1 - generalised)
    assert accurate.estimate.value == pytest.approx(42.5)
    assert memorise.verdict is Verdict.AGREES
