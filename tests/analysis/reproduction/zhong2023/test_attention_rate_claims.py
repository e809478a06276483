"""Verdicts on ZL's claims for made evidence, and the measures of networks."""

import numpy as np
import pytest
import xarray as xr
from analysis.reproduction.rule import Agrees, Verdict

from analysis.plots.attention_rate_figure import networks_in_range
from analysis.progress_measures import measure_progress
from analysis.reproduction.zhong2023 import attention_rate_claims
from analysis.structures.printed_tables import ZL_RUNS
from dynamics import TransformerSettings, simulate
from tests.analysis.reproduction.judging import (
    CLAIMS_BY_NAME,
    NO,
    OPEN,
    YES,
    made_evidence,
    part_estimate,
    part_verdict,
    part_verdicts,
)

RATE = attention_rate_claims.RATE
RATES = np.array([0.0, 0.05, 0.15, 0.3, 0.5, 0.7, 0.9, 1.0])
MIDDLES = [0.1, 0.3, 0.5, 0.7, 0.9]


@pytest.fixture
def printed(generator):
    """Evidence whose means are near those that are printed, between the middles of the
    rows interpolated."""

    columns = {"test_accuracy": 100.0}
    for name in attention_rate_claims.MEASURES:
        means = np.interp(RATES, MIDDLES, [float(row[name]) for row in ZL_RUNS])
        noise = 0.004 * generator.standard_normal((2, len(RATES), 30))
        columns[name], columns[f"earlier_{name}"] = means[:, None] + noise
    lengths = {"attention_rate": RATES, "run": 30}
    return made_evidence(lengths, {"attention_rate run": columns})


@pytest.mark.parametrize("name", ["symmetricity", "irrelevance"])
def test_printed_means_are_reproduced_and_exchanged_ones_are_not(name, printed):
    assert set(part_verdicts(f"ZL.runs.{name}", printed)) == {YES}
    assert part_verdicts(f"ZL.figure.{name}", printed)[-2:] == [YES, YES]
    exchanged = printed.assign(
        {name: printed[name].isel(attention_rate=slice(None, None, -1)).variable}
    )
    assert NO in part_verdicts(f"ZL.runs.{name}", exchanged)
    assert part_verdicts(f"ZL.figure.{name}", exchanged)[-2:] == [NO, NO]


def test_every_number_of_the_table_is_compared_with_a_rate_of_its_row(printed):
    for name in ("symmetricity", "irrelevance", "circularity"):
        parts = CLAIMS_BY_NAME[f"ZL.runs.{name}"].parts
        assert all(isinstance(part.criterion, Agrees) for part in parts)
        assert [part.criterion.reported.printed for part in parts] == [
            row[name] for row in ZL_RUNS
        ]
        values = [part.measure(printed).value for part in parts]
        expected = printed[name].sel(attention_rate=[0.3, 0.5, 0.7, 0.9]).mean("run")
        first = printed[name].sel(attention_rate=[0.05, 0.15]).mean()
        np.testing.assert_allclose(values, [first, *expected])


def test_networks_at_the_ends_of_a_range_are_used_if_there_are_no_others(printed):
    usual = RATE.default.params["rates"]
    fewer = printed.sel(attention_rate=[rate for rate in RATES if rate in usual])
    chosen = [networks_in_range(fewer, row["low"], row["high"]) for row in ZL_RUNS]
    rates = [set(networks["attention_rate"].values) for networks in chosen]
    assert rates == [{0.0}, {0.3}, {0.5}, {0.7}, {1.0}]
    assert chosen[0].sizes["network"] == 30


def test_single_networks_stand_at_the_place_of_their_seed():
    params = {"runs": 2, "every": 4, "rates": [1.0], "epochs": [8]}
    params |= {"single_rates": [0.7, 0.2, 0.4], "single_epochs": 4}
    needs = attention_rate_claims.ensembles(params)
    assert [(need.runs, need.seed, need.steps) for need in needs] == [
        (2, 0, 8),
        (1, 0, 4),
        (1, 1, 4),
        (1, 2, 4),
    ]


def test_the_rates_of_single_networks_are_uniform_in_fifths():
    rates = RATE.full.params["single_rates"]
    drawn = [
        round((k % 5 + np.random.default_rng([2306, 17844, k]).random()) / 5, 4)
        for k in range(40)
    ]
    assert rates == drawn


def test_circular_networks_are_those_above_the_threshold(printed):
    circular = xr.zeros_like(printed["circularity"])
    circular[:, :10] = attention_rate_claims.CIRCULAR
    low = printed["symmetricity"].where(circular > 0, 0.0)
    part = CLAIMS_BY_NAME["ZL.runs.circular"].parts[-1]
    estimate = part.measure(printed.assign(circularity=circular, symmetricity=low))
    assert (estimate.count, estimate.of) == (10, "circular networks")
    assert estimate.value == pytest.approx(
        float(low.sel(attention_rate=0.9)[:10].mean())
    )


def test_rates_that_were_not_run_are_skipped_and_imperfect_networks_are_counted(
    printed,
):
    quick = printed.sel(attention_rate=[0.0, 1.0])
    estimates = [
        part.measure(quick) for part in CLAIMS_BY_NAME["ZL.runs.symmetricity"].parts
    ]
    assert [estimate.skipped for estimate in estimates] == [
        False,
        True,
        True,
        True,
        False,
    ]
    constant = printed.sel(attention_rate=[0.0])
    assert part_estimate("ZL.figure.irrelevance", constant).skipped
    assert part_verdict("ZL.runs.accuracy", printed, 0) == YES
    accuracy = printed["test_accuracy"].copy()
    accuracy[:, :15] = 99.0
    assert (
        part_verdict("ZL.runs.accuracy", printed.assign(test_accuracy=accuracy), 0)
        == NO
    )
    assert part_verdict("ZL.models.A", quick, 0) in (YES, Verdict.PARTLY)
    moved = printed.assign(earlier_irrelevance=printed["earlier_irrelevance"] + 1)
    assert part_verdicts("OWN.attention-rate-length", moved) == [YES, YES, OPEN, OPEN]


def test_measures_of_networks_are_those_of_the_progress_command():
    settings = TransformerSettings(n=7, dim=8, heads=2, attention_rate=0.5)
    trajectory = simulate(settings, runs=2, steps=20, every=4)
    data = attention_rate_claims.network_measures(trajectory)
    expected = measure_progress(trajectory).isel(step=-1)
    names = ("gradient_symmetricity", "distance_irrelevance", "component_circularity")
    for measure, name in zip(attention_rate_claims.MEASURES, names, strict=True):
        np.testing.assert_allclose(data[measure], expected[name])
