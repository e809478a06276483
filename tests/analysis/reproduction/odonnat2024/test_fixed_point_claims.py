"""Claims on fixed points: what is measured, and verdicts on evidence whose answer is
known."""

import numpy as np
import pytest

from analysis.reproduction.odonnat2024 import fixed_point_claims
from tests.analysis.reproduction.judging import NO, PARTLY, YES, made_evidence, verdicts

CLAIMS = ("CH.summary.fixed-points", "CH.summary.fixed-points-without-decay")


def test_the_settled_circuit_is_at_rest_and_the_built_one_is_not(evidence):
    evidence = evidence["ch.fixed-points"]
    assert fixed_point_claims.residual_gradient(evidence, "settled").value < 1e-8
    assert (
        fixed_point_claims.residual_gradient(evidence, fixed_point_claims.BUILT).value
        > 1e-6
    )
    assert fixed_point_claims.settled_accuracy(evidence).value == pytest.approx(100)
    assert fixed_point_claims.breaking_eigenvalue(evidence).value > 0


def made(gradients=(0.1, 1e-12), lowest=1e-3, accuracy=1.0, after=0.5):
    distance = np.ones((2, 31)) * [[1], [after]]
    distance[:, 0] = 0  # not pushed
    columns = {
        "circuit": {
            "gradient": gradients,
            "loss": [0.0, 1.0],
            "circuit_accuracy": [1.0, accuracy],
            "lowest": [0.0, 1.0],
        },
        "circuit order_mode": {"order_eigenvalue": [[1.0, 1.0], [lowest, 1.0]]},
        "circuit suffix_mode": {"suffix_eigenvalue": 1.0},
        "start step pushed": {"distance": distance},
    }
    lengths = {
        "circuit": [fixed_point_claims.BUILT, "settled"],
        "start": ["settled"],
        "step": ["pushed", "after"],
        "order_mode": 2,
        "suffix_mode": 1,
        "pushed": 31,
    }
    push = ("pushed", np.append(0, np.full(30, 1e-3)))
    return made_evidence(lengths, columns).assign_coords(push=push)


@pytest.mark.parametrize(
    ("changes", "expected"),
    [
        ({}, [YES, NO]),
        ({"gradients": (1e-12, 1e-12)}, [YES, YES]),
        ({"lowest": -1e-3, "after": 2.0}, [PARTLY, NO]),
        (
            {"gradients": (1, 1), "lowest": -1e-3, "after": 2.0, "accuracy": 0.5},
            [NO, NO],
        ),
    ],
)
def test_verdicts_follow_the_evidence(changes, expected):
    outcome = verdicts(made(**changes), "ch.fixed-points")
    assert outcome == dict(zip(CLAIMS, expected, strict=True))


def test_perturbations_that_grow_are_counted():
    evidence = made()
    evidence["distance"][0, 1, 1:11] = 2.0
    estimate = fixed_point_claims.returned_pushes(evidence)
    assert (estimate.value, estimate.count) == (pytest.approx(200 / 3), 30)
    assert "at most to 2.00" in estimate.note
