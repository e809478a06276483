"""VC appendix A.1: moments of a run, and verdicts on made-up saddles, slopes and
minima."""

import numpy as np
import pytest
import xarray as xr

from analysis.reproduction.claim import Verdict
from analysis.reproduction.odonnat2024 import saddle_claims
from tests.analysis.reproduction.evidence_by_hand import (
    dataset,
    made_evidence,
    verdicts,
)

HOLDS, CONTRADICTED = Verdict.HOLDS, Verdict.CONTRADICTED


def test_frames_of_the_plateau_and_of_the_largest_fall_in_the_drop():
    begin, end = 10 * np.array([[0, 60], [60, 100], [100, 120], [120, 200]]).T
    events = dataset(
        "event",
        kind=["plateau", "plateau", "drop", "drop"],
        begin=begin,
        middle=(begin + end) // 2,
        end=end,
        initial=np.zeros(4, bool),
    )
    values = np.where(np.arange(301) <= 113, 1.0, 0.5) - np.arange(301) / 1000
    loss = xr.DataArray(values, {"step": 10 * np.arange(301)}, ("step",))
    frames = saddle_claims.plateau_and_drop
    assert frames(events, loss) == [80, 113]
    assert frames(events.isel(event=[0, 1]), loss) is None
    assert frames(events.isel(event=[2, 3]), loss) is None


def made(gradient=0.01, negative=0.03, lowest=0.03, down=0.5):
    """24 runs per setup, with a gradient of 1 in drops and a negative curvature of a
    thousandth at the end."""
    noise = 1 + 0.01 * np.linspace(-1, 1, 24)
    columns = {
        "setup run moment": {
            "gradient": [gradient, 1.0, 0.1] * (noise[:, None] ** [1, 2, 1]),
            "negative": [negative, 0.2, 0.001] * (noise[:, None] ** [1, 1, 2]),
        },
        "setup run": {
            "lowest_share": lowest * noise,
            "negative_share": down * noise,
            "negative_chance": 0.3,
        },
    }
    lengths = {
        "setup": [saddle_claims.FULL, saddle_claims.MINI],
        "moment": list(saddle_claims.MOMENTS),
    }
    return made_evidence(lengths | {"run": 24}, columns)


@pytest.mark.parametrize(
    ("gradient", "negative", "curvature", "slope"),
    [
        (0.01, 0.03, HOLDS, HOLDS),
        (2.0, 0.03, HOLDS, CONTRADICTED),
        (0.01, 1e-5, CONTRADICTED, HOLDS),
    ],
)
def test_verdicts_on_saddles_slopes_and_minima(gradient, negative, curvature, slope):
    evidence = made(gradient, negative)
    result = verdicts(saddle_claims.SADDLE, evidence)
    assert result == [curvature, curvature, slope, slope]


def test_plateaus_are_compared_with_the_end_of_the_same_runs():
    evidence = made()
    evidence["negative"].loc[{"run": 0, "moment": "plateau"}] = np.nan
    ratio = saddle_claims.plateau_ratio(evidence, "negative", saddle_claims.FULL, "end")
    assert (ratio.value, ratio.count) == (pytest.approx(np.log10(30), abs=0.01), 23)


@pytest.mark.parametrize(("lowest", "along"), [(0.03, HOLDS), (0.001, CONTRADICTED)])
@pytest.mark.parametrize(("down", "negative"), [(0.5, HOLDS), (0.1, CONTRADICTED)])
def test_verdicts_on_the_direction_of_the_escape(lowest, along, down, negative):
    evidence = made(lowest=lowest, down=down)
    assert verdicts(saddle_claims.ESCAPE, evidence) == [negative, along]
