"""Claims on the two phases of VC's learning: estimates and verdicts on evidence whose
answer is known."""

import numpy as np
import pytest
import torch
import xarray as xr

from analysis.reproduction.odonnat2024 import drop_measures, phase_claims
from tests.analysis.reproduction.judging import (
    CLAIMS_BY_NAME,
    NO,
    OPEN,
    PARTLY,
    UNTESTABLE,
    YES,
    dataset,
    made_evidence,
    part_verdict,
    verdicts,
)

LAYERS = [*phase_claims.FRONT, *phase_claims.BACK, "transform_bias"]
FRONT = np.isin(LAYERS, phase_claims.FRONT)
RUNS = 24
WORK = np.stack([np.where(FRONT, 0.2, 0.05), np.where(FRONT, 0.05, 0.2)])
SPEED = np.stack([np.where(FRONT, 8.0, 2.0), np.where(FRONT, 0.5, 1.0)])
CLUSTERED = np.array([0.2, 0.25, 0.3, 0.95, 0.97, 0.99, 1.0])
DIMS = {
    "run": RUNS,
    "phase": ["first", "second"],
    "layer": LAYERS,
    "part": ["before", "inside"],
    "moment": list(drop_measures.MOMENTS),
    "way": list(drop_measures.WAYS),
}


def evidence(**changes):
    """Evidence of runs that learn layer after layer, as the paper says, apart from
    changes, by their dimensions."""
    generator = np.random.default_rng(3)
    jitter = generator.uniform(0, 5, RUNS)
    late = 20 * jitter
    column = jitter[:, None]
    columns = {
        "run": {
            "successful": True,
            "drops": 2,
            "between": 80.0 + jitter,
            "formed": 210 + late,
            "separated": 300 + late,
            "fitted": 305 + late + generator.uniform(0, 1, RUNS),
            "escape": 200 + late,
            "escaped": True,
            "whole_speed": 5.0 + jitter,
        },
        "run phase": {
            "begin": [200, 300] + 20 * column,
            "end": [220, 320] + 20 * column,
            "residual": 0.0,
            "reclassified": 0.3 + column / 100,
            "moved": 0.1,
        },
        "run phase layer": {
            "speed": SPEED * (1 + column[..., None] / 1000 * FRONT),
            "work": WORK,
        },
        "run part": {"straightness": [0.2, 0.8] + column / [100, 200]},
        "way run layer": {"settled": np.where(FRONT, 210.0, 300.0) + column},
        "run moment": {
            "clustered": CLUSTERED - column / 100 * [0, -1, 1, 0.9, 0.8, 0, 0],
            "accuracy_at": [0, 0, 0.5, 0.7, 0.75, 1, 0] - column / 100,
        },
    }
    for dims, values in changes.items():
        columns[dims] = columns[dims] | values
    return made_evidence(DIMS, columns, window=20.0)


def test_learning_layer_after_layer_reproduces_all_claims():
    results = verdicts(evidence(), "vc.phases")
    within_a_factor_of_2 = {"VC.s4.1.escape-spread": OPEN}
    assert results == dict.fromkeys(results, YES) | within_a_factor_of_2


def test_learning_in_the_opposite_order_is_not_reproduced():
    usual = evidence()
    other = {
        dim: usual.isel({dim: [1, 0]}).assign_coords({dim: usual[dim]})
        for dim in ("phase", "part")
    }
    moments = xr.DataArray([0, 0.7, 0.75, 0.76, 0.77, 0.78, 0.8], dims="moment")
    opposite = usual.assign(
        formed=usual["separated"] + 50,
        work=other["phase"]["work"],
        settled=500 - usual["settled"],
        clustered=0.2 + moments + usual["between"] / 1e4 * (moments > 0),
        speed=1 / usual["speed"],
        whole_speed=usual["whole_speed"] * 0 + 1,
        between=usual["between"] * 5,
        drops=usual["drops"] * 0,
        reclassified=usual["reclassified"] / 100,
        accuracy_at=usual["accuracy_at"] - 0.3,
        straightness=other["part"]["straightness"],
        end=usual["end"] / 5,
        fitted=usual["begin"].sel(phase="first") * 3 + np.arange(RUNS) % 5,
        escape=("run", np.geomspace(10, 1000, RUNS)),
    )
    our_bounds = (
        "first-drop second-drop frontiers soon unstructured suddenly some-right"
    )
    expected = {
        **dict.fromkeys(our_bounds.split(), OPEN),
        **dict.fromkeys(("definitive", "escape-spread", "no-second-change"), YES),
        "example": OPEN,  # none of 24 does not exclude 5%
        "two-stages": OPEN,
        "snapshots": PARTLY,
    }
    for name, verdict in verdicts(opposite, "vc.phases").items():
        assert verdict == expected.get(name.split(".")[-1], NO), name


def drop_times(*begins):
    """Drops that begin at some epochs, (run, phase), and end as in the run that the
    paper shows."""
    return {"run phase": {"begin": np.concatenate(begins), "end": [260, 365]}}


COUNT = np.arange(RUNS)
MARGINAL = [
    ("drops", {"run": {"drops": COUNT % 2}}, OPEN),
    (
        "wander",
        {"run part": {"straightness": [0.5, 0.52] + COUNT[:, None] / [np.inf, 1e4]}},
        PARTLY,
    ),
    ("phase-change", {"run": {"whole_speed": 1.2 + COUNT / 1e3}}, PARTLY),
    (
        "second-drop",
        {"run phase layer": {"work": np.linspace(0.1, 0.15, RUNS)[:, None, None]}},
        OPEN,
    ),
    ("hierarchical", {"run": {"separated": 265.0}}, OPEN),
    ("example", drop_times([[244, 340]], [[500, 900]] * (RUNS - 1)), YES),
    ("example", drop_times([[200, 340]], [[500, 900]] * (RUNS - 1)), OPEN),
]


@pytest.mark.parametrize(("name", "changes", "expected"), MARGINAL)
def test_verdicts_on_marginal_evidence(name, changes, expected):
    tested = [key for key, of in CLAIMS_BY_NAME.items() if of.experiment == "vc.phases"]
    (claim,) = (key for key in tested if key.endswith(f".{name}"))
    assert part_verdict(claim, evidence(**changes), 0) == expected


def test_runs_that_never_escape_count_as_later():
    times, runs = np.where(np.arange(20) < 15, 100.0, 1000.0), np.arange(20)
    assert (
        phase_claims.escape_spread(
            dataset("run", escape=times, escaped=runs < 15)
        ).value
        == 25
    )
    few = phase_claims.escape_spread(dataset("run", escape=times, escaped=runs < 9))
    assert np.isnan(few.value)
    assert "9 of 20" in few.note


def test_runs_without_clusters_are_left_out_of_their_percentage():
    lost = evidence()
    lost["formed"][:4] = np.nan
    estimate = phase_claims.clusters_in_first_drop(lost)
    assert (estimate.value, estimate.count) == (100, RUNS - 4)


def test_drops_at_the_start_have_no_state_before_them():
    early = evidence()
    early["begin"][:4, 0] = 19.0
    before = phase_claims.clustering_progress(early, "before")
    assert before.count == RUNS - 4
    assert before.of == "successful runs with that drop after epoch 20"
    assert phase_claims.clustering_progress(early, "first_begin").count == RUNS
    assert phase_claims.clustering_gain(early, since="before").count == RUNS - 4


def test_ties_are_left_out_of_an_order():
    evidence = dataset(
        "run",
        formed=[1.0, 2, 3, 3],
        separated=[2.0, 2, 2, 4],
        successful=np.ones(4, bool),
    )
    estimate = phase_claims.clusters_before_accuracy(evidence)
    assert (estimate.value, estimate.count) == (pytest.approx(200 / 3), 3)
    assert "1 of 4" in estimate.note


def test_without_successful_runs_most_claims_are_untestable():
    outcome = verdicts(evidence(run={"successful": False}), "vc.phases")
    assert {name for name in outcome if outcome[name] != UNTESTABLE} == {
        "VC.s4.1.drops",
        "VC.s4.1.escape-spread",
    }


def test_the_decrease_of_a_loss_is_divided_among_parameters():
    rows = torch.tensor([[1.0, 2.0], [0.5, 2.0], [0.5, 0.0]], dtype=torch.float64)
    work, decrease = drop_measures.loss_decrease_by_parameter(
        lambda row: row[0] ** 3 + row[0] * row[1] ** 2, rows
    )
    assert decrease == pytest.approx(5 - 0.125)
    np.testing.assert_allclose(
        work, [5 - 2.125, 2.125 - 0.125], rtol=1e-12
    )  # one coordinate moves, then the other


def test_straightness_of_paths():
    assert drop_measures.path_straightness(
        np.array([[0.0, 0], [1, 0], [3, 0]])
    ) == pytest.approx(1)
    assert drop_measures.path_straightness(np.array([[0.0, 0], [1, 0], [0, 0]])) == 0
    assert drop_measures.path_straightness(np.zeros((3, 2))) == 0
    turning = np.array([[9.0, 9], [0, 0], [1, 0], [0, 0], [1, 0], [2, 0]])
    assert drop_measures.path_straightness(turning, 2) == pytest.approx(0.5)


def test_growth_delays_the_distance_but_not_the_direction():
    angle = (
        np.minimum(np.arange(11) / 4, 1) * np.pi / 2
    )  # turns by 90 degrees in the first four frames
    unit = np.stack([np.cos(angle), np.sin(angle)], axis=-1)
    growing = unit * np.linspace(1, 9, 11)[:, None]
    direction, path, distance = (
        drop_measures.remaining_ways(np.stack([unit, growing]))
        .round(12)
        .swapaxes(0, 1)[1]
    )
    np.testing.assert_allclose(
        direction, np.maximum(1 - np.arange(11) / 4, 0), atol=1e-7
    )
    assert (direction <= 0.5).argmax() == 2
    assert (path <= 0.5).argmax() == 4
    assert (distance <= 0.5).argmax() > 4
    np.testing.assert_allclose(
        drop_measures.remaining_ways(np.ones((1, 3, 2)))[..., 0], 0, atol=1e-7
    )
