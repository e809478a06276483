"""Claims on VC's drops of the loss: estimates from evidence whose answer is known, and
the decrease of the loss by layers."""

import numpy as np
import pytest
import torch

from analysis.reproduction.claim import Verdict
from analysis.reproduction.odonnat2024 import phase_claims
from dynamics.settings import MLP_VARIABLES, SparseSettings
from dynamics.simulation import simulate
from tests.analysis.reproduction.evidence_by_hand import (
    dataset,
    made_evidence,
    verdicts,
)

HOLDS, CONTRADICTED = Verdict.HOLDS, Verdict.CONTRADICTED
LAYERS = [*phase_claims.FIRST_LAYERS, *MLP_VARIABLES]
FIRST = np.isin(LAYERS, phase_claims.FIRST_LAYERS)
RUNS = 24


def made(first_part=0.8, second_part=0.2, speed=(4.0, 1.0), delay=30.0):
    """Runs whose first layers make these parts of the decrease in both drops. The first
    drops lie apart; in all runs but two, clusters form in them."""
    jitter = 0.001 * np.arange(RUNS)
    parts = np.array([first_part, second_part])[:, None]
    work = np.where(FIRST, parts / FIRST.sum(), (1 - parts) / (~FIRST).sum())
    factor = np.exp(np.outer(jitter - jitter.mean(), [1, 2]))[:, :, None]
    begin = 200.0 + 100 * np.arange(RUNS)
    formed = begin + 10 + 10 * jitter
    formed[[0, 12]] = 1.0
    columns = {
        "run": {
            "successful": True,
            "drops": 2,
            "begin": begin,
            "end": begin + 20,
            "formed": formed,
            "separated": formed + delay + jitter,
        },
        "run phase": {"residual": 0.0},
        "run phase layer": {
            "work": work + jitter[:, None, None] * [[0.01], [0.02]],
            "speed": np.array(speed)[:, None] * factor,
        },
    }
    lengths = {"run": RUNS, "phase": ["first", "second"], "layer": LAYERS}
    return made_evidence(lengths, columns, window=20.0)


@pytest.mark.parametrize("claim", phase_claims.PHASES.claims, ids=lambda one: one.name)
def test_learning_layer_after_layer_holds_and_the_opposite_order_does_not(claim):
    right = verdicts(claim, made())
    assert set(right) <= {HOLDS, Verdict.AGREES}
    opposite = made(0.2, 0.8, (0.5, 2.0), -30.0)
    opposite["drops"][:] = 0
    opposite["formed"] += 100
    opposite["separated"] += 100
    assert set(verdicts(claim, opposite)) <= {CONTRADICTED, Verdict.DIFFERS}


def test_runs_without_clusters_or_drops_are_left_out():
    lost = made()
    lost["formed"][:4] = np.nan
    estimate = phase_claims.clusters_at_first_drop(lost)
    assert (estimate.value, estimate.count) == (pytest.approx(95), RUNS - 4)
    assert estimate.note == "95% against 0%"
    lost["work"][:6, 1] = np.nan
    fall = phase_claims.typical_loss_fall(lost, MLP_VARIABLES, "second")
    assert (fall.value, fall.count) == (pytest.approx(30, abs=0.5), RUNS - 6)
    failed = made()
    failed["successful"][:] = False
    assert set(verdicts(phase_claims.SECOND_DROP, failed)) == {Verdict.OPEN}


def test_speeds_are_geometric_means():
    evidence = made(speed=(2.0, 1.0))
    evidence["speed"].loc[{"phase": "first", "layer": "query"}] *= 2**8
    assert phase_claims.speed_up(evidence, "first").value == pytest.approx(300)


def test_the_decrease_of_a_loss_is_divided_among_parameters():
    rows = torch.tensor([[1.0, 2.0], [0.5, 2.0], [0.5, 0.0]], dtype=torch.float64)
    work, decrease = phase_claims.loss_decrease_by_parameter(
        lambda row: row[0] ** 3 + row[0] * row[1] ** 2, rows
    )
    assert decrease == pytest.approx(5 - 0.125)
    np.testing.assert_allclose(
        work, [5 - 2.125, 2.125 - 0.125], rtol=1e-12
    )  # one coordinate moves, then the other


def test_layers_share_the_decrease_of_a_trained_network():
    small = SparseSettings(length=4, sparsity=2, data=32, batch=32, hidden=4, lr=0.01)
    trajectory = simulate(small, runs=2, steps=60, every=1, progress=False)
    moments = {"begin": [[10.0, 30.0]] * 2, "end": [[20.0, np.nan]] * 2}
    moments["begin"][1] = [np.nan, np.nan]
    drops = dataset(("run", "phase"), {"phase": ["first", "second"]}, **moments)
    drops["end"][0, 1] = 50.0
    falls = phase_claims.measure_loss_falls(trajectory, drops, [0, 1])
    total = falls["work"].sum("layer", skipna=False) + falls["residual"]
    np.testing.assert_allclose(total, [[1, 1], [np.nan, np.nan]])
    assert float(np.abs(falls["residual"][0]).max()) < 0.01
