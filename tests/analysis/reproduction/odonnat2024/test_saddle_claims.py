"""VC appendix A.1: moments of a run, and verdicts on made-up saddles, slopes and
minima."""

import numpy as np
import pytest

from analysis.reproduction.odonnat2024 import saddle_claims
from tests.analysis.reproduction.judging import (
    NO,
    OPEN,
    PARTLY,
    YES,
    dataset,
    made_evidence,
    part_verdicts,
)


def test_moments_of_a_run_are_those_of_its_events():
    begin, end = np.array([[0, 100], [100, 120], [120, 180], [180, 200]]).T
    kinds = ["plateau", "drop", "plateau", "drop"]
    events = dataset(
        "event",
        kind=kinds,
        begin=begin,
        middle=(begin + end) // 2,
        end=end,
        initial=np.zeros(4, bool),
    )
    assert saddle_claims.event_steps(events, np.arange(301)) == [0, 50, 110, 150, 300]
    without = saddle_claims.event_steps(events.isel(event=[0]), np.arange(301))
    np.testing.assert_equal(without, [0, np.nan, np.nan, np.nan, 300])


def made_saddles(gradient=0.01, negative=70.0, lowest=0.03, down=0.5):
    """24 runs per setup, with a gradient of 1 in drops and 40 negative eigenvalues at
    the end."""
    noise = np.linspace(-0.01, 0.01, 24)
    column = noise[:, None] * [1, 101, 101, 101, 1]
    columns = {
        "setup run moment": {
            "gradient": [1.0, gradient, 1.0, gradient, 0.1],
            "negative": np.array([70, negative, 50, negative, 40]) + column,
        },
        "setup run": {
            "escape_lowest_share": lowest + noise,
            "escape_negative_share": down + noise,
            "escape_negative_chance": 0.3,
        },
    }
    lengths = {
        "setup": list(saddle_claims.SETUPS),
        "moment": list(saddle_claims.MOMENTS),
    }
    return made_evidence(lengths | {"run": 24}, columns)


@pytest.mark.parametrize(
    "claim", ["VC.appA.1.plateau-saddle", "VC.appA.1.second-plateau"]
)
@pytest.mark.parametrize(
    ("gradient", "negative", "expected"),
    [
        (0.01, 70, [YES] * 3),
        (1.0, 40, [OPEN, YES, OPEN]),
        (0.01, 45, [YES, YES, PARTLY]),
        (0.01, 0, [YES, NO, OPEN]),
    ],
)
def test_verdicts_on_saddles_slopes_and_ends(claim, gradient, negative, expected):
    outcome = part_verdicts(claim, made_saddles(gradient, negative))
    assert outcome == [verdict for verdict in expected for _ in saddle_claims.SETUPS]


def test_plateaus_are_compared_with_the_end_of_the_same_runs():
    evidence = made_saddles()
    evidence["negative"].loc[{"run": 0, "moment": "plateau"}] = np.nan
    estimate = saddle_claims.excess_negative_curvature(evidence, "mini-batch")
    assert (estimate.value, estimate.count) == (pytest.approx(30, abs=0.1), 23)
    assert (
        estimate.note
        == "70 against 40 at the end (medians); 100% and 100% of the runs have any"
    )
    assert saddle_claims.plateau_gradient_ratio(evidence, "mini-batch").value == 0.01


@pytest.mark.parametrize(("lowest", "along"), [(0.03, NO), (0.8, YES), (0.52, PARTLY)])
@pytest.mark.parametrize(("down", "negative"), [(0.5, YES), (0.3, NO), (0.35, PARTLY)])
def test_verdicts_on_the_direction_of_the_escape(lowest, along, down, negative):
    evidence = made_saddles(lowest=lowest, down=down)
    names = ("OWN.escape", "OWN.escape-negative", "OWN.saddles-only")
    assert [part_verdicts(name, evidence) for name in names] == [
        [along],
        [negative],
        [YES],
    ]
    minima = evidence.assign(negative=0 * evidence["negative"])
    assert part_verdicts("OWN.saddles-only", minima) == [NO]
