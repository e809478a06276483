"""VC appendix A.1: moments of a run, and verdicts on made-up saddles, slopes and minima."""

import numpy as np
import pytest
import xarray as xr

from analysis.reproduction.odonnat2024 import saddles
from analysis.reproduction.verification.criteria import Verdict
from tests.analysis.reproduction.judging import part_verdicts

YES, NO, UNDECIDED, PARTLY = Verdict.REPRODUCED, Verdict.NOT, Verdict.UNDECIDED, Verdict.PARTLY


def test_moments_of_a_run_are_those_of_its_events():
    rows = [("plateau", 0, 50, 100), ("drop", 100, 110, 120), ("plateau", 120, 150, 180), ("drop", 180, 190, 200)]
    columns = dict(zip(("kind", "begin", "middle", "end"), map(np.array, zip(*rows, strict=True)), strict=True))
    events = xr.Dataset({name: ("event", each) for name, each in columns.items()})
    events["initial"] = ("event", np.zeros(4, bool))
    steps = np.arange(0, 301)
    assert saddles.event_steps(events, steps) == [0, 50, 110, 150, 300]
    without = saddles.event_steps(events.isel(event=[0]), steps)
    assert (without[0], np.isnan(without[1:4]).all(), without[-1]) == (0, True, 300)


def made_saddles(gradient=0.01, negative=70.0, lowest=0.03, down=0.5):
    """24 runs per setup, with a gradient of 1 in drops and 40 negative eigenvalues at the end."""
    noise, dims = np.linspace(-0.01, 0.01, 24), ("setup", "run", "moment")
    gradients, counts = np.array([1.0, gradient, 1.0, gradient, 0.1]), np.array([70.0, negative, 50, negative, 40])
    whole = {"gradient": np.tile(gradients, (2, 24, 1)), "negative": counts + np.tile(noise[:, None], (2, 1, 5))}
    whole["negative"][..., 1:4] += 100 * noise[:, None]
    evidence = xr.Dataset({name: (dims, each) for name, each in whole.items()})
    for name, value in (("lowest_share", lowest + noise), ("negative_share", down + noise), ("negative_chance", 0.3)):
        evidence[f"escape_{name}"] = (dims[:2], np.broadcast_to(value, (2, 24)))
    return evidence.assign_coords(setup=list(saddles.SETUPS), moment=list(saddles.MOMENTS))


@pytest.mark.parametrize("claim", ["VC.appA.1.plateau-saddle", "VC.appA.1.second-plateau"])
@pytest.mark.parametrize(
    ("gradient", "negative", "expected"),
    [(0.01, 70, [YES, YES]), (1.0, 40, [UNDECIDED, NO]), (0.01, 45, [YES, PARTLY]), (0.01, 20, [YES, NO])],
)
def test_verdicts_on_saddles_slopes_and_ends(claim, gradient, negative, expected):
    found = part_verdicts(claim, made_saddles(gradient, negative))
    assert found == [each for each in expected for _ in saddles.SETUPS]


def test_plateaus_are_compared_with_the_end_of_the_same_runs():
    evidence = made_saddles()
    evidence["negative"].loc[{"run": 0, "moment": "plateau"}] = np.nan
    estimate = saddles.excess_negative_curvature(evidence, "mini-batch")
    assert (estimate.interval.value, estimate.count) == (pytest.approx(30, abs=0.1), 23)
    assert estimate.note == "70 against 40 at the end (medians); 100% and 100% of the runs have any"
    assert saddles.plateau_gradient_ratio(evidence, "mini-batch").interval.value == 0.01


@pytest.mark.parametrize(("lowest", "along"), [(0.03, NO), (0.8, YES), (0.52, PARTLY)])
@pytest.mark.parametrize(("down", "negative"), [(0.5, YES), (0.3, NO), (0.35, PARTLY)])
def test_verdicts_on_the_direction_of_the_escape(lowest, along, down, negative):
    evidence = made_saddles(lowest=lowest, down=down)
    names = ("OWN.escape", "OWN.escape-negative", "OWN.saddles-only")
    assert [part_verdicts(name, evidence) for name in names] == [[along], [negative], [YES]]
    minima = evidence.assign(negative=0 * evidence["negative"])
    assert part_verdicts("OWN.saddles-only", minima) == [NO]
