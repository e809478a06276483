"""CKA and participation ratio against their definitions."""

import numpy as np
import pytest
import torch
import xarray as xr
from numpy.testing import assert_allclose

import dynamics
from analysis.structures import (
    linear_cka,
    participation_ratio,
    representation_measures,
)
from dynamics.errors import TrajectoryError

RNG = np.random.default_rng(0)
X, Y = RNG.standard_normal((20, 6)), RNG.standard_normal((20, 4))


def test_cka_is_that_of_its_definition():
    x, y = X - X.mean(0), Y - Y.mean(0)
    expected = np.linalg.norm(x.T @ y) ** 2
    expected /= np.linalg.norm(x.T @ x) * np.linalg.norm(y.T @ y)
    assert linear_cka(X, Y) == pytest.approx(expected)


def test_cka_of_equal_shapes_and_of_points_in_one_place():
    assert linear_cka(np.stack([X, 3 * X + 5]), X) == pytest.approx(np.ones(2))
    assert np.isnan(linear_cka(X, np.ones((20, 3))))


def test_participation_ratio_is_that_of_the_covariance():
    values = np.linalg.eigvalsh(np.cov(X.T))
    expected = values.sum() ** 2 / (values**2).sum()
    assert participation_ratio(X) == pytest.approx(expected)
    assert participation_ratio(np.outer(np.arange(5.0), [1, 2])) == pytest.approx(1)


def test_the_command_and_the_measures(tmp_path, output_of):
    x = torch.randn(12, 4, generator=torch.Generator().manual_seed(0))
    for seed in (0, 1):
        torch.manual_seed(seed)
        model = torch.nn.Sequential(torch.nn.Linear(4, 3), torch.nn.Tanh())
        optimizer = torch.optim.SGD(model.parameters(), lr=0.5)
        options = {"activations": {"out": "1"}, "probe": x, "seed": seed}
        path = tmp_path / f"s{seed}.nc"
        with dynamics.record(model, optimizer, path, **options) as recording:
            for _ in range(4):
                optimizer.zero_grad()
                model(x).square().mean().backward()
                optimizer.step()
                recording.step()
    trajectory = dynamics.open_trajectory("s?.nc")
    result = representation_measures(trajectory, range(5)).sel(layer="out")
    first, other = trajectory["activation.out"].values[:, 2].astype(float)
    expected = float(linear_cka(first, other))
    assert result["cka_between_runs"].values[:, 2] == pytest.approx(expected)
    assert result["cka_to_last"].values[:, -1] == pytest.approx(1)
    assert result["procrustes_to_last"].values[:, -1] == pytest.approx(0, abs=1e-6)
    assert np.isnan(result["cka_step"].values[:, 0]).all()
    with pytest.raises(TrajectoryError, match="activation.NAME: missing"):
        representation_measures(trajectory.drop_vars("activation.out"), [0])
    text = output_of("analysis.activations", "s?.nc")
    assert "CKA between runs" in text


@pytest.mark.parametrize("value", [np.nan, np.inf])
def test_activations_that_are_not_finite_leave_a_gap(value):
    x = np.random.default_rng(0).standard_normal((2, 3, 6, 4))
    x[0, 1, 2, 3] = value
    trajectory = xr.Dataset(
        {
            "activation.out": (("run", "step", "example", "feature"), x),
            "last_step": ("run", [2, 2]),
        },
        {"step": np.arange(3), "seed": ("run", np.arange(2))},
        {"system": "recorded"},
    )
    result = representation_measures(trajectory, range(3)).sel(layer="out")
    for name in ("participation_ratio", "cka_to_last", "procrustes_to_last"):
        assert np.isnan(result[name].values).tolist() == [[0, 1, 0], [0, 0, 0]]
    assert np.isnan(result["cka_between_runs"].values[:, 1]).all()


def test_runs_are_compared_with_runs_that_have_not_diverged():
    """And with their own last frame, whichever frames are selected."""
    x = np.random.default_rng(0).standard_normal((3, 4, 12, 5))
    trajectory = xr.Dataset(
        {
            "activation.out": (("run", "step", "example", "feature"), x),
            "last_step": ("run", [3, 3, 1]),
        },
        {"step": np.arange(4), "seed": ("run", np.arange(3))},
        {"system": "recorded"},
    )
    result = representation_measures(trajectory, [1, 2]).sel(layer="out")
    similar = np.array([[linear_cka(a, b) for a in x[:, 1]] for b in x[:, 1]])
    assert result["cka_between_runs"][0, 0] == pytest.approx(similar[0, 1:].mean())
    pair = float(linear_cka(x[0, 2], x[1, 2]))
    expected = [pair, pair, np.nan]
    assert_allclose(result["cka_between_runs"][:, 1], expected)
    last = [linear_cka(x[run, 2], x[run, 3]) for run in (0, 1)]
    assert_allclose(result["cka_to_last"][:2, 1], last)
