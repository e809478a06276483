"""Sparsity of activations: closed forms, plain loops, and the command on planted and on
real runs."""

import dataclasses
import json
from pathlib import Path

import numpy as np
import pytest
import torch
import xarray as xr
from numpy.testing import assert_allclose, assert_array_equal

from analysis.clustering_heads import activation_sparsity as module
from analysis.clustering_heads import (
    compare_successes,
    measure_sparsity,
    trajectory_labels,
)
from analysis.clustering_heads.activation_sparsity import (
    SPARSITY_THRESHOLDS,
    count_below_thresholds,
    mean_sparsity,
)
from analysis.output import split_results
from dynamics import sample_sequences, save_trajectory, simulate
from dynamics.networks.from_trajectory import network_of, weights
from dynamics.settings import ModularSettings, SettingsError, SparseSettings

SMALL = SparseSettings(length=6, sparsity=2, data=60, batch=16, hidden=6)


@pytest.fixture(scope="module")
def small():
    return simulate(SMALL, runs=4, steps=8)


def gelu(x):
    return (
        0.5
        * x
        * (1 + torch.erf(torch.as_tensor(x / np.sqrt(2), dtype=torch.float64)).numpy())
    )


def test_counts_are_of_values_strictly_below(generator):
    values = np.array([[0.0, -1.0], [0.5, 2.0]])
    result = count_below_thresholds(values, np.array([1, 3]), np.array([0.5, 1.0, 3.0]))
    assert_array_equal(result, [1, 4, 8])
    values, often = generator.standard_normal((50, 3)), generator.integers(0, 4, 50)
    expected = [
        (often[:, None] * (np.abs(values) < eps)).sum() for eps in SPARSITY_THRESHOLDS
    ]
    assert_array_equal(count_below_thresholds(values, often), expected)
    with pytest.raises(ValueError, match="found shapes"):
        count_below_thresholds(values, often[:-1])


def test_mean_sparsity_averages_over_log_eps_in_the_range_of_the_paper():
    assert mean_sparsity(np.ones((2, 141))) == pytest.approx([1, 1])
    step = (SPARSITY_THRESHOLDS >= 0.99e-1).astype(
        float
    )  # half-way along the range in log eps, up to one interval
    assert mean_sparsity(step) == pytest.approx(0.5, abs=1 / 80)
    assert mean_sparsity((SPARSITY_THRESHOLDS > 10.5).astype(float)) == 0
    assert mean_sparsity(np.log10(SPARSITY_THRESHOLDS)) == pytest.approx(-1)


@pytest.mark.parametrize(
    "changes",
    [{}, {"receptor_biases": False, "norm": "unit-smooth"}, {"activation": "relu"}],
)
def test_activations_are_those_of_the_transform(changes):
    settings = dataclasses.replace(SMALL, **changes)
    trajectory = simulate(settings, runs=2, steps=4)
    network, result = network_of(trajectory), weights(trajectory)
    tokens = torch.from_numpy(
        sample_sequences(settings, np.array([5]), "train")[0].astype(np.int64)
    )
    xi = network.sequence_embedding(result, tokens)
    hidden = module.hidden_activations(network, result, tokens)
    zeta = xi + hidden @ result["assembler"] + result["transform_bias"][..., None, :]
    torch.testing.assert_close(zeta, network.transform(result, xi))


@pytest.mark.parametrize("few", [False, True])
def test_sparsity_of_a_trajectory_is_that_of_all_draws_one_by_one(
    small, few, monkeypatch
):
    if few:  # sequences at once
        monkeypatch.setattr(module, "_BATCH_BYTES", 5000)
    result = measure_sparsity(small, step=4)
    network = network_of(small)
    for split in ("train", "test"):
        held = {name: weight.double() for name, weight in weights(small, 2, 4).items()}
        tokens = sample_sequences(SMALL, small["seed"].values[[2]], split)[0].astype(
            np.int64
        )
        direction = network.normalise(
            network.sequence_embedding(held, torch.from_numpy(tokens))
        ).numpy()
        values = gelu(
            direction @ held["receptor"].numpy().T + held["receptor_bias"].numpy()
        )
        expected = [(np.abs(values) < eps).mean() for eps in SPARSITY_THRESHOLDS]
        assert_allclose(result["sparsity"].sel(split=split)[2], expected, atol=1e-12)
    assert (
        result["test_accuracy"] == small["accuracy"].sel(step=4, split="test")
    ).all()


def test_diverged_runs_are_nan_and_wrong_steps_are_refused(small):
    diverged = small.copy()
    diverged["last_step"] = small["last_step"].copy(data=[8, 4, 8, 8])
    result = measure_sparsity(diverged)
    known = np.isfinite(result["sparsity"])
    assert (
        known.all(["split", "eps"]).values.tolist()
        == known.any(["split", "eps"]).values.tolist()
    )
    assert known.all(["split", "eps"]).values.tolist() == [True, False, True, True]
    assert np.isnan(result["success"][1])
    assert np.isfinite(measure_sparsity(diverged, step=4)["success"]).all()
    for step, message in ((5, "nearest are 4 and 8$"), (9, "nearest is 8$")):
        with pytest.raises(SettingsError, match=message):
            measure_sparsity(small, step=step)


def planted(less):
    """Runs 0 to 7 succeed, 8 to 19 fail; successes are less sparse within the range
    where `less`."""
    place = np.log10(SPARSITY_THRESHOLDS)[None] - np.linspace(-1, 1, 20)[:, None]
    if less:
        place[:8] -= 2
    curves, success = (
        1 / (1 + np.exp(-3 * place)),
        ("run", (np.arange(20) < 8).astype(float)),
    )
    return xr.Dataset(
        {
            "sparsity": (("split", "run", "eps"), [curves, curves]),
            "success": success,
            "test_accuracy": success,
        },
        {"split": ["train", "test"], "eps": SPARSITY_THRESHOLDS},
    )


def test_a_planted_difference_is_found_and_none_elsewhere():
    result = compare_successes(planted(less=True)).sel(split="test")
    curves = (SPARSITY_THRESHOLDS, result["effect"].values, result["p_value"].values)
    low, high = module.differing_range(*curves, -1)
    assert low < 1e-2 < 1 < high
    assert np.isnan(module.differing_range(*curves, 1)).all()
    none = compare_successes(
        planted(less=False).assign(success=("run", np.arange(20) % 2 * 1.0))
    )
    assert (none["p_value"] > 0.05).all()
    all_failed = compare_successes(
        planted(less=True).assign(success=("run", np.zeros(20)))
    )
    assert np.isnan(all_failed["p_value"]).all()


def test_labels_name_the_settings_that_differ(small):
    def changed(**changes):
        return small.assign_attrs(
            config_json=json.dumps(
                {**json.loads(small.attrs["config_json"]), **changes}
            )
        )

    wide, other = (
        changed(dim=3, hidden=8),
        changed(dim=3, hidden=8, lr=0.01, data=50, batch=10),
    )
    assert trajectory_labels([small], ["a"]) == ["d = 2"]
    assert trajectory_labels([small, wide], ["a", "b"]) == [
        "d = 2, h = 6",
        "d = 3, h = 8",
    ]
    paths = [Path("x/a.nc"), Path("y/a.nc"), Path("b.nc")]
    assert trajectory_labels([small, other, wide], paths) == [
        "a (1)",
        "a (2)",
        "b",
    ]  # rather than a line of settings
    assert trajectory_labels([small, small], [Path("a.nc")] * 2) == ["a (1)", "a (2)"]


def test_errors_name_the_file(small, output_of):
    save_trajectory(small, "a.nc")
    simulate(ModularSettings(n=5), runs=1, steps=1, out="m.nc")
    assert "m.nc: attribute system: found modular" in output_of(
        "analysis.sparsity a.nc m.nc", code=1
    )


def test_the_command(small, output_of, tmp_path):
    wide = simulate(dataclasses.replace(SMALL, hidden=8), runs=2, steps=8)
    for name, trajectory in (("a", small), ("b", wide)):
        trajectory["accuracy"].loc[{"split": "test", "step": 8}] = np.linspace(
            0.5, 1, trajectory.sizes["run"]
        )
        save_trajectory(trajectory, f"{name}.nc")
    out = output_of("analysis.sparsity a.nc b.nc --csv table.csv")
    assert out.count("h = 6  t") == out.count("h = 8  t") == 2
    (result,) = tmp_path.glob("sparsity-*.nc")
    with xr.open_dataset(result) as outcome:
        first, second = split_results(outcome)
        assert first["sparsity"].dims == second["sparsity"].dims
        assert np.isfinite(first["sparsity"]).sum("eps").values[0].tolist() == [141] * 4
        assert (
            np.isfinite(second["sparsity"]).sum("eps").values[0].tolist() == [141] * 2
        )
    assert result.with_suffix(".png").stat().st_size > 10_000
    table = (tmp_path / "table.csv").read_text().splitlines()
    assert len(table) == 5
    assert table[1].startswith("h = 6,train,1,3,")
    out = output_of("analysis.sparsity a.nc --runs 2")  # no success
    assert "d = 2  train          0         2                -" in out
    assert (tmp_path / "a-sparsity.nc").exists()
