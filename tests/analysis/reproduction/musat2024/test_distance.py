"""Verdicts on claims about neighbours and laws of distance, for made evidence."""

import math

import numpy as np
import pytest
import xarray as xr

from analysis.reproduction.musat2024 import distance
from analysis.reproduction.verification.criteria import Verdict
from tests.analysis.reproduction import judging


def evidence(generator, effect: float, runs: int = 40) -> xr.Dataset:
    """Neighbours with effects of some size, and R² curves that are highest at the paper's powers if it is 1."""
    shape, dims = (2, runs), ("epoch", "run")
    noise = 0.05 * generator.standard_normal(shape)
    hits = np.full(shape, 200 + 100 * effect)
    values = dict.fromkeys(("unlike_rank", "right_side", "wrong_side"), -0.4 * effect + noise)
    values |= dict.fromkeys(("unlike_hits", "like_hits", "like_region"), hits)
    values |= {name: np.full(shape, 400.0) for name in ("unlike_count", "like_count")}
    data = {name: (dims, each) for name, each in (values | {"like_rank": 0.25 - 0.25 * effect + noise}).items()}
    for kind, powers in distance.POWERS.items():
        top = distance.PAPERS[kind] + 1 - effect + 0.2 * generator.standard_normal((*shape, 1))
        data[f"by_{kind}"] = ((*dims, f"{kind}_power"), 0.5 - 0.01 * (np.array(powers) - top) ** 2)
    coords = {"epoch": [20, 100], "run": np.arange(runs)}
    return xr.Dataset(data, coords | {f"{kind}_power": list(powers) for kind, powers in distance.POWERS.items()})


@pytest.mark.parametrize(
    ("effect", "verdicts"),
    [
        (1, {Verdict.REPRODUCED}),
        (-1, {Verdict.NOT, Verdict.UNDECIDED}),
        (0.1, {Verdict.PARTLY, Verdict.UNDECIDED}),
        (0, {Verdict.UNDECIDED, Verdict.NOT}),
    ],
)
def test_claims_are_judged_by_the_size_of_effects(effect, verdicts, generator):
    found = judging.verdicts(distance.CLAIMS, evidence(generator, effect), "ca.distance")
    assert set(found.values()) == verdicts
    if effect != 1:  # their ranges are our choice
        assert found["CA.s5.1.inverse"] == found["CA.s5.1.constant"] == Verdict.UNDECIDED


def test_the_best_power_is_where_the_mean_curve_is_highest(generator):
    found = distance.best_power(evidence(generator, 0.5), "repulsion", 20)
    assert found.interval.value == pytest.approx(1.5, abs=0.15)
    assert "with the paper's power" in found.note
    beyond = distance.best_power(evidence(generator, -9.0), "repulsion", 20)
    assert beyond.interval.value == 4.0
    assert "end of the powers" in beyond.note
    nothing = evidence(generator, 1.0) * np.nan
    assert math.isnan(distance.best_power(nothing, "repulsion", 20).interval.value)


def test_a_curve_is_highest_between_its_points():
    x = np.arange(0, 4.01, 0.25)
    assert distance.parabola_vertex(x, -((x - 1.1) ** 2)) == pytest.approx(1.1)
    assert distance.parabola_vertex(x, x) == 4.0
    assert distance.parabola_vertex(x, -x) == 0.0


def test_percentages_of_neighbours(generator):
    found = distance.neighbour_percentage(evidence(generator, 0.01), "like", "hits", 20)
    assert found.interval.value == pytest.approx(50.25)
    assert abs(found.effect) < 0.1
    none = evidence(generator, 1).assign(like_count=lambda data: 0 * data["like_count"])
    assert distance.neighbour_percentage(none, "like", "hits", 20).note == "there are none"
