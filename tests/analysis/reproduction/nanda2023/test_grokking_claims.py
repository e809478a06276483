"""Verdicts on NA's claims for made evidence of networks that memorise and
generalise."""

import numpy as np
import pytest
import xarray as xr
from analysis.reproduction.rule import Verdict

from analysis.reproduction.nanda2023 import grokking_claims
from tests.analysis.reproduction.judging import (
    NO,
    OPEN,
    PARTLY,
    YES,
    made_evidence,
    part_verdict,
    part_verdicts,
)

EPOCHS = np.arange(0, 4001, 50.0)
RUNS = 8


def sigmoid(epoch, middle, width=100.0):
    return 1 / (1 + np.exp(-(epoch - middle) / width))


@pytest.fixture
def made(generator):
    """Networks that memorise at epoch 100 and generalise at 1,650, as NA describes
    it."""
    apart = generator.uniform(-20, 20, (RUNS, 1))
    epoch = EPOCHS - apart
    before, after = np.minimum(epoch, 1400) / 1400, np.clip((epoch - 1400) / 400, 0, 1)
    generalised = sigmoid(epoch, 1600, 60)
    gini = 0.1 + 0.1 * before + 0.4 * after
    begin = np.array([0.0, 100.0, 1400.0]) + apart
    end = np.array([100.0, 1400.0, 1800.0]) + apart
    columns = {
        "run step": {
            "test_loss": 8 * (1 - generalised),
            "test_accuracy": generalised,
            "restricted_loss": 4 * (1 - sigmoid(epoch, 900)),
            "excluded_loss": 4 * sigmoid(epoch, 900),
            "embedding_gini": gini,
            "map_gini": gini,
            "squared_weights": 2500 - 800 * before - 900 * after,
        },
        "run": {
            "memorised": 100 + apart[:, 0],
            "generalised": 1650 + apart[:, 0],
            "keys": 4 + np.arange(RUNS) % 3,
        },
        "run phase": {"begin": begin, "end": end},
    }
    phase_names = ["memorisation", "circuit formation", "cleanup"]
    lengths = {"run": RUNS, "step": EPOCHS, "phase": phase_names}
    return made_evidence(lengths, columns, preset="small")


DESCRIBED = (
    "NA.grokking.delay",
    "NA.phases.excluded",
    "NA.phases.restricted",
    "NA.phases.gini",
    "NA.phases.squared-weights",
)


@pytest.mark.parametrize("name", DESCRIBED)
def test_phases_as_the_paper_describes_them_are_reproduced(name, made):
    assert set(part_verdicts(name, made)) == {YES}


def test_measures_that_change_late_or_evenly_are_not_reproduced(made):
    late = np.maximum(np.arange(len(EPOCHS)) - 20, 0)  # a thousand epochs
    restricted = made["restricted_loss"].copy(
        data=made["restricted_loss"].values[:, late]
    )
    even = xr.zeros_like(made["map_gini"]) + made["step"] / 4000
    even = even + 1e-3 * xr.DataArray(np.arange(RUNS), dims="run") * even * (1 - even)
    changed = made.assign(
        restricted_loss=restricted,
        excluded_loss=restricted,
        map_gini=even,
        squared_weights=3000 - 500 * even,
    )
    assert part_verdict("NA.phases.excluded", changed, 0) == NO
    assert part_verdicts("NA.phases.restricted", changed) == [PARTLY, NO]
    assert part_verdicts("NA.phases.gini", changed) == [YES, NO]
    assert part_verdict("NA.phases.squared-weights", changed, 1) == NO
    falling = made.assign(test_loss=8 - 0.005 * made["step"] + 0 * made["test_loss"])
    assert part_verdict("NA.phases.excluded", falling, 1) == OPEN


def test_half_of_a_change_is_found_between_memorisation_and_the_end(made):
    lead = grokking_claims.half_lead(made, "restricted_loss")
    assert lead.value == pytest.approx(700, abs=10)
    first = made.assign(memorised=made["memorised"].where(made["run"] > 0))
    assert grokking_claims.half_lead(first, "restricted_loss").count == RUNS - 1


def test_numbers_of_a_modulus_are_compared_with_runs_of_that_modulus(made):
    assert part_verdicts("NA.record.p53", made) == [YES, YES]
    assert set(part_verdicts("NA.phases.epochs", made)) == {Verdict.SKIPPED}
    large = made.assign_attrs(preset="nanda")
    large = large.assign({name: 14 * large[name] for name in ("begin", "end")})
    assert set(part_verdicts("NA.record.p53", large)) == {Verdict.SKIPPED}
    assert part_verdict("NA.phases.epochs", large, 0) == YES
    assert part_verdict("NA.phases.key-frequencies", large, 0) == YES


@pytest.mark.parametrize(
    ("memorised", "generalised", "expected"),
    [
        ([True] * 6, [False] * 6, [YES, YES]),
        ([True] * 6, [True] * 6, [YES, NO]),
        ([False] * 6, [False] * 6, [NO, YES]),
        ([], [], [Verdict.UNTESTABLE] * 2),
    ],
)
def test_networks_without_weight_decay_are_counted(memorised, generalised, expected):
    times = {"memorised": memorised, "generalised": generalised}
    made = xr.Dataset(
        {
            name: ("run", np.where(reached, 100.0, np.nan))
            for name, reached in times.items()
        }
    )
    made["test_accuracy"] = ("run", np.full(len(memorised), 40.0))
    assert part_verdicts("NA.weight-decay.needed", made) == expected
