"""ZL: measures of networks, and numbers on evidence whose answer is known."""

import numpy as np
import pytest

from analysis.plots.attention_rate_figure import networks_in_range
from analysis.progress_measures import measure_progress
from analysis.reproduction.claim import Verdict
from analysis.reproduction.zhong2023 import attention_rate_claims
from analysis.reproduction.zhong2023.attention_rate_claims import FIFTHS, RATE
from dynamics import TransformerSettings, simulate
from tests.analysis.reproduction.evidence_by_hand import judged, made_evidence

RATES = np.array([0.0, 0.05, 0.15, 0.3, 0.5, 0.7, 0.9, 1.0])
MIDDLES = [0.1, 0.3, 0.5, 0.7, 0.9]


@pytest.fixture
def printed(generator):
    """Evidence whose means are those that are printed, between the middles of the
    fifths interpolated."""
    columns = {}
    for name in attention_rate_claims.MEASURES:
        means = np.interp(RATES, MIDDLES, [getattr(row, name) for row in FIFTHS])
        noise = 0.02 * generator.standard_normal((len(RATES), 30))
        columns[name] = means[:, None] + noise - noise.mean(axis=1, keepdims=True)
    lengths = {"attention_rate": RATES, "run": 30}
    return made_evidence(lengths, {"attention_rate run": columns})


@pytest.mark.parametrize("name", ["symmetricity", "irrelevance"])
def test_the_printed_table_agrees_and_a_reversed_one_does_not(name, printed):
    table = judged(f"ZL.runs.{name}", printed)
    assert {one.verdict for one in table} == {Verdict.AGREES}
    first = printed[name].sel(attention_rate=[0.05, 0.15]).mean()
    others = printed[name].sel(attention_rate=[0.9, 0.7, 0.5, 0.3]).mean("run")
    np.testing.assert_allclose(
        [one.estimate.value for one in table], [*others.values, first]
    )
    backwards = printed[name].isel(attention_rate=slice(None, None, -1)).variable
    reverse = printed.assign({name: backwards})
    assert judged(f"ZL.runs.{name}", reverse)[0].verdict is Verdict.DIFFERS


def test_the_transition_is_from_pizza_to_clock(printed):
    transition = judged("ZL.figure7.transition", printed)
    assert {one.verdict for one in transition} == {Verdict.HOLDS}
    reverse = printed.assign_coords(attention_rate=RATES[::-1])
    transition = judged("ZL.figure7.transition", reverse)
    assert {one.verdict for one in transition} == {Verdict.CONTRADICTED}


def test_networks_at_the_ends_of_a_range_are_used_if_there_are_no_others(printed):
    usual = RATE.default.params["rates"]
    fewer = printed.sel(attention_rate=[rate for rate in RATES if rate in usual])
    chosen = [networks_in_range(fewer, row.low, row.high) for row in FIFTHS]
    rates = [set(networks["attention_rate"].values) for networks in chosen]
    assert rates == [{0.0}, {0.3}, {0.5}, {0.7}, {1.0}]
    assert chosen[0].sizes["network"] == 30


def test_single_networks_have_their_numbers_as_seeds_and_rates_in_fifths():
    params = {"runs": 2, "every": 4, "rates": [1.0], "epochs": [8]}
    params |= {"single_rates": [0.7, 0.2, 0.4], "single_epochs": 4}
    needs = attention_rate_claims.ensembles(params)
    sizes = [(need.runs, need.seed, need.steps) for need in needs]
    assert sizes == [(2, 0, 8), (1, 0, 4), (1, 1, 4), (1, 2, 4)]
    drawn = [
        round((k % 5 + np.random.default_rng([2306, 17844, k]).random()) / 5, 4)
        for k in range(40)
    ]
    assert RATE.full.params["single_rates"] == drawn


def test_measures_of_networks_are_those_of_the_progress_command():
    settings = TransformerSettings(n=7, dim=8, heads=2, attention_rate=0.5)
    trajectory = simulate(settings, runs=2, steps=20, every=4)
    data = attention_rate_claims.network_measures(trajectory)
    expected = measure_progress(trajectory).isel(step=-1)
    names = ("gradient_symmetricity", "distance_irrelevance", "component_circularity")
    for measure, name in zip(attention_rate_claims.MEASURES, names, strict=True):
        np.testing.assert_allclose(data[measure], expected[name])
