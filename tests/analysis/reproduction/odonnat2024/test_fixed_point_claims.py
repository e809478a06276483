"""The ideal circuit as a fixed point: what is measured, and verdicts on evidence whose
answer is known."""

import numpy as np
import pytest

from analysis.reproduction.claim import Verdict
from analysis.reproduction.odonnat2024 import fixed_point_claims
from tests.analysis.reproduction.evidence_by_hand import made_evidence, verdicts

HOLDS, AGREES = Verdict.HOLDS, Verdict.AGREES


def test_the_settled_circuit_is_at_rest_and_stable(evidence):
    measured = evidence["ch.fixed-points"]
    assert float(measured["gradient"].sel(circuit="settled")) < 1e-8
    assert fixed_point_claims.gradient_decades(measured).value < -2
    claim = fixed_point_claims.FIXED_POINT
    assert verdicts(claim, measured) == [HOLDS, HOLDS, AGREES]


@pytest.mark.parametrize(
    ("lowest", "accuracy", "expected"),
    [
        (1e-3, 1.0, [HOLDS, HOLDS, AGREES]),
        (-1e-3, 0.5, [Verdict.CONTRADICTED, HOLDS, Verdict.DIFFERS]),
    ],
)
def test_verdicts_follow_the_evidence(lowest, accuracy, expected):
    columns = {
        "circuit": {
            "gradient": [0.1, 1e-12],
            "circuit_accuracy": [1.0, accuracy],
            "lowest": np.zeros(2),
        },
        "circuit order_mode": {"order_eigenvalue": [[1.0, 1.0], [lowest, 1.0]]},
        "circuit suffix_mode": {"suffix_eigenvalue": 1.0},
    }
    lengths = {
        "circuit": [fixed_point_claims.PERTURBED, "settled"],
        "order_mode": 2,
        "suffix_mode": 1,
    }
    evidence = made_evidence(lengths, columns)
    assert verdicts(fixed_point_claims.FIXED_POINT, evidence) == expected
    assert fixed_point_claims.gradient_decades(evidence).value == pytest.approx(-11)
