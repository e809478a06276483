"""Progress measures of models from outside, against those of the same network of the
package and against plain code."""

import dataclasses

import numpy as np
import pytest
import torch
from numpy.testing import assert_allclose, assert_array_equal

from analysis.progress_measures import (
    describe_progress,
    measure_progress,
    progress_columns,
    progress_rows,
)
from analysis.progress_measures.along_training import PROGRESS_MEASURES
from dynamics import ModularSettings, TransformerSettings, simulate
from dynamics.errors import TrajectoryError
from dynamics.recording.model_file import sum_names
from dynamics.settings import SettingsError
from tests.analysis.own_networks import as_recorded, model_of, with_recorded_pairs

N = 7
CA = ModularSettings(n=N, hidden=12)
SETTINGS = {
    "constant attention": CA,
    "transformer": TransformerSettings(n=N, dim=8, heads=2, hidden=12),
}


@pytest.fixture(scope="module", params=SETTINGS)
def trajectory(request):
    settings = SETTINGS[request.param]
    return simulate(settings, runs=1, steps=60, every=10, seed=4)


def test_measures_are_those_of_the_same_network_of_the_package(trajectory):
    expected = measure_progress(trajectory, frames=3)
    result = measure_progress(
        as_recorded(trajectory), frames=3, model=model_of(trajectory)
    )
    names = {*PROGRESS_MEASURES, "embedding_norm", "sum_fraction"} - {"map_gini"}
    for name in sorted(names):
        assert_allclose(result[name], expected[name], 1e-6, 1e-9, err_msg=name)
    assert np.isnan(result["map_gini"]).all()


def test_each_run_is_measured_with_its_own_recorded_training_pairs():
    whole = simulate(CA, runs=2, steps=40, every=20, seed=4)
    model = model_of(whole, training_pairs=None)
    result = measure_progress(with_recorded_pairs(whole), frames=2, model=model)
    expected = whole["loss"].sel(split="train", step=result["step"])
    assert_allclose(result["loss"].sel(split="train"), expected, rtol=1e-4)


def test_a_single_checkpoint_is_measured_and_has_no_times(trajectory):
    last = as_recorded(trajectory).isel(step=[-1])
    result = measure_progress(last, model=model_of(trajectory))
    assert np.isfinite(result["distance_irrelevance"]).all()
    assert np.isnan(result["restricted_change"]).all()
    assert np.isnan(result["memorised"]).all()
    assert "unknown" in describe_progress(result)
    headings = [column.heading for column in progress_columns(result)]
    assert headings[:4] == [
        "seed",
        "accuracy train",
        "accuracy test",
        "key frequencies",
    ]
    (row,) = progress_rows(result)
    recorded = trajectory["accuracy"].sel(split="train").values[0, -1]
    assert row["accuracy_train"] == pytest.approx(recorded)
    package = measure_progress(trajectory.isel(step=[-1]))
    assert_allclose(
        result["distance_irrelevance"], package["distance_irrelevance"], 1e-6
    )
    unknown = measure_progress(last, model=model_of(trajectory, training_pairs=None))
    assert np.isnan(unknown["excluded_loss"]).all()
    assert list(unknown["split"].values) == ["all"]


def test_another_operation_that_is_a_sum_of_renamed_numbers_is_measured_as_addition(
    trajectory,
):
    model = model_of(trajectory)
    recorded = as_recorded(trajectory)

    def logits(parameters, pairs):
        return model.logits(parameters, pairs * torch.tensor([2, 3]) % N)

    pairs = model.training_pairs() * [4, 5] % N  # 4 * 2 = 5 * 3 = 1 modulo 7
    other = dataclasses.replace(
        model,
        logits=logits,
        operation=lambda a, b: (2 * a + 3 * b) % N,
        training_pairs=lambda: pairs,
    )
    result = measure_progress(recorded, frames=2, model=other)
    expected = measure_progress(recorded, frames=2, model=model)
    for name in ("restricted_loss", "excluded_loss", "distance_irrelevance", "loss"):
        assert_allclose(result[name], expected[name], 1e-6, err_msg=name)


def test_measures_of_sums_are_unknown_for_an_operation_that_is_no_sum(trajectory):
    model = model_of(trajectory, operation=lambda a, b: (a * a + b) % N)
    result = measure_progress(as_recorded(trajectory), frames=2, model=model)
    assert np.isnan(result["restricted_loss"]).all()
    assert np.isfinite(result["gradient_symmetricity"]).all()


def test_names_of_sums():
    a, b = np.indices((5, 5))
    first, second = sum_names((2 * a + 3 * b + 1) % 5)
    sums = (first[:, None] + second) % 5
    assert_array_equal(sums, (2 * a + 3 * b + 1) % 5)
    assert sum_names(a * b % 5) is None


@pytest.mark.parametrize(
    ("changes", "words"),
    [
        ({"logits": None}, "without logits"),
        ({"embedding": None}, r"without embedding\(parameters\)"),
        ({"logits": lambda parameters, pairs: pairs}, "returns a tensor of shape"),
        (
            {"embedding": lambda parameters: 2 * parameters["embedding"]},
            "no part of one",
        ),
        ({"training_pairs": lambda: [[0, N]]}, r"numbers \(pair, 2\)"),
        ({"operation": lambda a, b: a + b}, "whole numbers from 0 to 6"),
        ({"logits": lambda parameters, pairs: 1 / 0}, "ZeroDivisionError"),
        (
            {
                "logits": lambda parameters, pairs: torch.full(
                    (len(pairs), N), torch.nan
                )
            },
            "not finite",
        ),
    ],
)
def test_wrong_functions_are_reported(trajectory, changes, words):
    with pytest.raises(SettingsError, match=words):
        measure_progress(
            as_recorded(trajectory), frames=2, model=model_of(trajectory, **changes)
        )


def test_a_model_is_needed_for_a_recording_and_refused_for_a_network(trajectory):
    with pytest.raises(TrajectoryError, match="--model"):
        measure_progress(as_recorded(trajectory), frames=2)
    with pytest.raises(SettingsError, match="no value for the system"):
        measure_progress(trajectory, frames=2, model=model_of(trajectory))
