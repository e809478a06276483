"""VC section 4.3: estimates and verdicts on spikes whose causes are made up."""

import numpy as np
import pytest

from analysis.reproduction.claim import Verdict
from analysis.reproduction.odonnat2024 import spike_claims
from tests.analysis.reproduction.evidence_by_hand import dataset, verdicts

HOLDS, OPEN, CONTRADICTED = Verdict.HOLDS, Verdict.OPEN, Verdict.CONTRADICTED
PLAIN = {
    "lr": 0.003,
    "feed_forward_share": 0.8,
    "xi_ratio": 0.2,
    "xi_ratio_ordinary": 0.2,
    "flip_steps": 0.0,
    "flip_rise": 0.0,
    "flips_in_rise": 0.0,
    "flips_ordinary": 0.0,
    "closeness": 0.9,
    "crossed_in_step": 0.06,
    "crossed_ordinary": 0.01,
    **{f"{name}_rank": 0.8 for name in spike_claims.RANKED},
}


def made(causes, of_run=None, **columns):
    """Evidence of spikes with some causes; other measures are plain unless given."""
    size = len(causes)
    columns = {
        "cause": np.array(causes, "U13"),
        "of_run": np.arange(size) if of_run is None else np.array(of_run, int),
        **PLAIN,
        **columns,
    }
    return dataset(
        "spike", **{name: np.resize(column, size) for name, column in columns.items()}
    )


def test_spikes_are_averaged_by_run():
    evidence = made(
        ["feed-forward", "both", "feed-forward", "neither", ""],
        [0, 0, 1, 1, 2],
        closeness=[0.5, 0.7, 0.8, np.nan, 0.0],
        crossed_in_step=[0.1, 0.3, 0.4, 0.2, 9.0],
        feed_forward_share=[0.5, 0.7, 0.9, 0.1, 9.0],
        xi_ratio=[0.2, 0.8, 0.4, 9.0, 9.0],
        gain_rank=[0.6, 0.8, 0.9, 0.0, 0.0],
    )
    misclassified = spike_claims.misclassified_beyond_ordinary(evidence)
    assert (misclassified.value, misclassified.count) == (pytest.approx(24), 2)
    assert misclassified.note == "25.0% against 1.0%"
    spikes = spike_claims.replayed_spikes(evidence)
    closeness, rise = (
        spike_claims.beyond_half(spikes, name).value
        for name in ("closeness", "feed_forward_share")
    )
    assert (closeness, rise) == (pytest.approx(20), pytest.approx(5))
    # once and four times as far in one run, twice in the other
    assert spike_claims.move_in_step(evidence).value == pytest.approx(100)
    crossing = spike_claims.with_crossings(spikes)
    rank = spike_claims.beyond_half(crossing, "gain_rank")
    assert rank.value == pytest.approx(30)


def test_flips_are_compared_with_ordinary_steps():
    flips = {"flip_steps": [1, 0, 0], "flip_rise": [0.2, 0, 0]}
    flips |= {"flips_in_rise": [0.5, 0, 0.1], "flips_ordinary": [0.1, 0.2, 0]}
    evidence = made(["neither"] * 3, [0, 0, 1], **flips)
    estimate = spike_claims.flips_beyond_ordinary(evidence)
    assert estimate.value == pytest.approx(10)
    note = "vectors flip in 1 of 3 spikes and carry at most 20% of the rise"
    assert estimate.note == note


def test_without_spikes_nothing_is_decided():
    for claim in (*spike_claims.SPIKES.claims, *spike_claims.FLIP_GRID.claims):
        assert set(verdicts(claim, made([]))) == {OPEN}


def test_crossings_are_compared_with_flips_at_each_learning_rate():
    rates = np.repeat([0.001, 0.003, 0.01, 0.03], 60)
    causes = np.where(np.arange(240) % 2, "feed-forward", "neither").astype("U13")
    causes[180:220] = "normalisation"
    grid = made(causes, lr=rates)
    difference = spike_claims.crossings_minus_flips(grid, 0.03)
    assert difference.value == pytest.approx(100 * (10 - 40) / 60)
    assert difference.note == "16.7% against 66.7%"
    assert verdicts(spike_claims.FLIPS, grid) == [HOLDS] * 4 + [CONTRADICTED]


@pytest.mark.parametrize(
    ("measures", "crossing", "assemblers", "normalisation"),
    [
        ({"flips_in_rise": 0.1}, HOLDS, HOLDS, HOLDS),
        (
            {"crossed_in_step": 0.0, "gain_rank": 0.4, "flips_ordinary": 0.1},
            CONTRADICTED,
            CONTRADICTED,
            CONTRADICTED,
        ),
    ],
)
def test_verdicts_on_true_and_false_evidence(
    measures, crossing, assemblers, normalisation, generator
):
    values = {
        name: measures.get(name, PLAIN[name]) + 0.001 * generator.normal(size=60)
        for name in ("crossed_in_step", "gain_rank", "flips_in_rise", "flips_ordinary")
    }
    evidence = made(["feed-forward"] * 60, **values)
    claims = (
        spike_claims.CROSSING,
        spike_claims.ASSEMBLERS,
        spike_claims.NORMALISATION,
    )
    found = [verdicts(claim, evidence)[0] for claim in claims[1:]]
    found.insert(0, verdicts(spike_claims.CROSSING, evidence)[1])
    assert found == [crossing, assemblers, normalisation]


def test_ranks_of_assemblers_among_escaped_runs():
    weights = np.zeros((4, 3, 2, 2))
    # along one axis; the last has not escaped
    weights[:, :, 0, 0] = [[1.0], [2.0], [3.0], [9.0]]
    weights[1, :, 1, 1] = 2.0
    trajectory = dataset(
        ("run", "step", "hidden", "axis"), {"step": [0, 10, 20]}, assembler=weights
    )
    trajectory["last_step"] = ("run", [20, 20, 20, 20])
    escapes = dataset("run", escape=[1.0, 1, 1, 20], escaped=[True, True, True, False])
    ranks = spike_claims.assembler_ranks(
        trajectory, dataset("spike", of_run=[2, 1, 0, 0], at=[12, 12, -1, 0]), escapes
    )
    for name, expected in {
        "gain": [1, 0.5],
        "norm": [1, 0.5],
        "alignment": [0.75, 0],
    }.items():
        np.testing.assert_allclose(ranks[f"{name}_rank"], [*expected, np.nan, np.nan])
