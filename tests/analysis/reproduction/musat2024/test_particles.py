"""Verdicts on claims about table 2, for made evidence."""

import math

import numpy as np
import pytest
import xarray as xr
from scipy.stats import norm

from analysis.reproduction.musat2024 import particles
from analysis.reproduction.verification.criteria import Verdict
from tests.analysis.reproduction import judging

ROWS = [f"CA.table2.fa{fa:g}" for fa in particles.FAS]


def evidence(generator, circles=0.0, imperfections=0.0, spread=1.0, runs=1000) -> xr.Dataset:
    """Simulations as in the printed table, with some numbers changed."""
    rows = []
    for fa, printed in particles.PRINTED.items():
        mean, sd = float(printed["imperfections"].split()[0]), particles.printed_spread(fa).interval.value
        circle = np.arange(runs) < runs / 100 * (printed["circles"] + circles)
        noise = generator.permutation(norm.ppf((np.arange(runs) + 0.5) / runs))
        rows.append((circle, mean + imperfections + spread * sd * noise))
    circle, imperfect = (np.array(each, float) for each in zip(*rows, strict=True))
    dims = ("fa", "run")
    return xr.Dataset({"circle": (dims, circle), "imperfections": (dims, imperfect)}, {"fa": list(particles.FAS)})


@pytest.mark.parametrize(
    ("changes", "expected"),
    [
        ({}, [Verdict.REPRODUCED] * 3),
        ({"circles": 30}, [Verdict.NOT, Verdict.REPRODUCED, Verdict.REPRODUCED]),
        ({"imperfections": 15}, [Verdict.REPRODUCED, Verdict.NOT, Verdict.REPRODUCED]),
        ({"spread": 0.5}, [Verdict.REPRODUCED, Verdict.REPRODUCED, Verdict.NOT]),
        ({"imperfections": 4.4}, [Verdict.REPRODUCED, Verdict.PARTLY, Verdict.REPRODUCED]),
    ],
)
def test_rows_are_compared_with_the_printed_ones(changes, expected, generator):
    found = evidence(generator, **changes)
    for name in ROWS[:1] if Verdict.PARTLY in expected else ROWS:
        assert judging.part_verdicts(name, found) == expected, name


def test_the_printed_half_width_gives_a_standard_deviation():
    printed = particles.printed_spread(2.0)
    assert printed.interval.value == pytest.approx(10.1 * math.sqrt(44) / 2.0167, rel=1e-4)  # t of 43 degrees
    assert math.isnan(printed.interval.low)
    assert printed.runs == 44


def test_mean_and_spread_are_compared_together(generator):
    like, narrow = (evidence(generator, spread=spread) for spread in (1.0, 0.6))
    for found, low, high in ((like, 50, 100), (narrow, 0, 5)):
        assert low <= particles.chance_of_printed(particles.grid_imperfections(found, 2.0), 2.0) <= high
    assert "% of samples" in particles.imperfection_spread(like, 2.0).note
    one = like.isel(run=slice(-1, None))
    assert particles.imperfection_spread(one, 2.0).note == "too few simulations"


def test_samples_like_ours_are_seldom_far_from_ours(generator, monkeypatch):
    """Numbers "printed" of 44 simulations drawn from ours have a chance below 10% in about one of ten cases."""
    ours = generator.gamma(2.0, 18.0, 400)
    chances = []
    for _ in range(40):
        drawn = generator.choice(ours, 44)
        half = 2.0167 * drawn.std(ddof=1) / math.sqrt(44)
        printed = {"circles": 56, "imperfections": f"{drawn.mean():.1f} ± {half:.1f}"}
        monkeypatch.setitem(particles.PRINTED, 2.0, printed)
        chances.append(particles.chance_of_printed(ours, 2.0))
    assert 0 <= np.mean(np.array(chances) < 10) <= 0.25
    assert 30 < np.mean(chances) < 70
