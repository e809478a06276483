"""Remedies: paired runs that differ in one setting, the differences, and the
command."""

import dataclasses

import numpy as np
import pytest
import xarray as xr
from numpy.testing import assert_array_equal
from scipy import stats

from analysis.transitions import interventions
from dynamics import SettingsError, SparseSettings, open_trajectory, simulate

SMALL = SparseSettings(length=5, sparsity=2, data=64, batch=16, hidden=8, lr=0.02)


def test_interventions_change_one_setting():
    result = interventions.intervention_settings(
        SMALL, hidden=16, assembler_decays=(0.5,)
    )
    assert list(result) == ["smooth norm", "h = 16", "decay 0.5"]
    plain = dataclasses.asdict(SMALL)
    changes = [
        {k: v for k, v in dataclasses.asdict(value).items() if plain[k] != v}
        for value in result.values()
    ]
    assert changes == [
        {"norm": "rms-smooth"},
        {"hidden": 16},
        {"optimizer": "adamw", "assembler_decay": 0.5},
    ]
    adamw = dataclasses.replace(SMALL, optimizer="adamw")  # without decay it is Adam
    one, other = (simulate(settings, runs=2, steps=30) for settings in (SMALL, adamw))
    assert_array_equal(one["assembler"], other["assembler"])


def test_measures_of_planted_spikes():
    """Spikes are counted; their rate is that after the escape; a run that diverged has
    none."""
    base = simulate(SMALL, runs=3, steps=600 * SMALL.epoch_steps, record="metrics")
    rows = np.where(np.arange(601) < 100, 1.0, 0.5) * np.ones((3, 1))
    rows[0, [50, 200, 300]] += 1.0
    base["loss"] = base["loss"].copy(
        data=np.repeat(rows[..., None], base.sizes["split"], axis=2).astype(np.float32)
    )
    base["last_step"][2] = 300 * SMALL.epoch_steps
    result = interventions.spike_measures(base)
    assert [result[name][:2].tolist() for name in ("spikes", "late")] == [
        [3, 0],
        [2, 0],
    ]
    assert result["since"][:2] == pytest.approx([500, 500], rel=0.01)
    assert all(np.isnan(values[2]) for values in result.values())


def test_differences_are_paired(generator):
    before, added = generator.normal(0.5, 0.2, 30), generator.normal(0.1, 0.01, 30)
    values = np.stack([before, before + added])
    values[1, 4] = np.nan
    measures = dict.fromkeys(
        ("spikes", "late", "since", "test"), (("remedy", "run"), values)
    )
    result = xr.Dataset(measures, {"remedy": [interventions.UNCHANGED, "better"]})
    expected = np.delete(added, 4)
    assert interventions.paired_effects(result, "better", "test") == pytest.approx(
        expected
    )
    unchanged, better = interventions.intervention_table(result).to_dict("records")
    # numbers of spikes are counts, whose variance is at least that of rounding
    half = stats.t.ppf(0.975, 28) * np.sqrt(1 / 12) / np.sqrt(29)
    gain = (better["spikes_gain"], better["spikes_gain_low"])
    assert gain == pytest.approx((expected.mean(), expected.mean() - half))
    assert np.isnan(unchanged["spikes_gain"])


def test_the_interval_of_a_rate_holds_it(generator):
    """Runs with rates of their own, watched for different times; also the difference of
    paired ensembles."""
    inside = np.zeros(2)
    for _ in range(200):
        epochs = generator.uniform(100, 900, (2, 60))
        own = generator.gamma(2, 1, 60) / 2
        counts = generator.poisson(np.stack([own * 0.004, own * 0.002]) * epochs)
        one, both = (
            interventions._jackknife_rate(counts[:1], epochs[:1]),
            interventions._jackknife_rate(counts, epochs),
        )
        inside += one.low <= 4 <= one.high, both.low <= -2 <= both.high
    assert ((inside / 200 >= 0.9) & (inside / 200 <= 0.985)).all()
    alone = interventions._jackknife_rate(np.array([[3.0]]), np.array([[500.0]]))
    assert (alone.value, np.isnan(alone.low)) == (6, True)
    assert np.isnan(
        interventions._jackknife_rate(np.zeros((1, 3)), np.zeros((1, 3))).value
    )


def test_mcnemar_counts_the_runs_that_change():
    test = np.array([[1.0, 0.5, 0.5, 0.5, 1.0], [1.0, 1.0, 1.0, 1.0, 0.5]])
    result = xr.Dataset(
        {"test": (("remedy", "run"), test)},
        {"remedy": [interventions.UNCHANGED, "other"]},
    )
    assert interventions.mcnemar_p_value(result, "other") == pytest.approx(
        stats.binomtest(3, 4).pvalue
    )
    assert np.isnan(interventions.mcnemar_p_value(result, interventions.UNCHANGED))


def test_the_command(output_of):
    simulate(SMALL, runs=3, steps=40 * SMALL.epoch_steps, out="a.nc")
    words = ("a.nc", "--hidden", 12, "--assembler-decays", 0.1)
    out = output_of("analysis.paper remedies", *words, "--csv", "t.csv")
    with xr.open_dataset("a-remedies.nc") as result:
        assert result.attrs["result_of"] == "analysis.remedies"
        assert result["remedy"].values.tolist() == [
            interventions.UNCHANGED,
            "smooth norm",
            "h = 12",
            "decay 0.1",
        ]
    again = [
        line
        for line in output_of("analysis.paper remedies", *words).splitlines()
        if "sparse-" in line
    ]
    assert again == [line for line in out.splitlines() if "sparse-" in line]
    assert open_trajectory(again[0].split()[-1])["seed"].values.tolist() == [0, 1, 2]


@pytest.mark.parametrize(
    ("base", "changes", "field"),
    [
        ({"norm": "unit-smooth"}, {}, "trajectory"),
        ({"weight_decay": 0.1}, {}, "trajectory"),
        ({"decay_of": ("query=0.1",)}, {}, "trajectory"),
        ({}, {"hidden": 8}, "hidden"),
        ({}, {"assembler_decays": (0.0,)}, "assembler_decays"),
    ],
)
def test_settings_that_cannot_be_intervened_on_are_refused(base, changes, field):
    with pytest.raises(SettingsError, match=field):
        interventions.intervention_settings(
            dataclasses.replace(SMALL, **base), **changes
        )


def test_decays_are_those_of_the_optimizer_of_the_runs():
    for name, used in (("sgd", "sgd"), ("adam", "adamw"), ("adamw", "adamw")):
        settings = dataclasses.replace(SMALL, optimizer=name)
        result = interventions.intervention_settings(settings, hidden=16)
        assert result["decay 0.1"].optimizer == used
        assert result["decay 0.1"].weight_decay_of("assembler") == 0.1
        assert result["smooth norm"].optimizer == name


def test_finetuned_runs_are_not_made_wider(output_of):
    simulate(SMALL, runs=2, steps=16, out="a.nc")
    simulate(
        dataclasses.replace(SMALL, start="a.nc", start_step=16),
        runs=2,
        steps=40,
        out="b.nc",
    )
    out = output_of("analysis.paper remedies b.nc --assembler-decays")
    assert "smooth norm" in out
    assert "h = " not in out
