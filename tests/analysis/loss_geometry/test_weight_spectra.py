"""Spectra of weights against their definitions, and of matrices with given ranks."""

import signal

import numpy as np
import pytest
import torch
import xarray as xr

import dynamics
from analysis.loss_geometry import effective_rank, weight_spectra
from analysis.plots import plot_weight_spectra
from dynamics import ModularSettings

STATES = [
    torch.diag(torch.tensor([3.0, 3.0, 0.0])),
    torch.diag(torch.tensor([3.0, 4.0, 0.0])),
    torch.diag(torch.tensor([3.0, 5.0, 0.0])),
    torch.diag(torch.tensor([3.0, 5.0, 2.0])),
]


def test_matrices_with_given_singular_values(tmp_path):
    for step, matrix in enumerate(STATES):
        torch.save({"m": matrix, "v": matrix.sum(0)}, f"model-{step}.pt")
    trajectory = dynamics.collect_checkpoints([tmp_path], weights=True)
    result = weight_spectra(trajectory, range(4), values=2).isel(run=0)
    matrix = result.sel(layer="m")
    vector = result.sel(layer="v")
    assert matrix["singular_value"].values.tolist() == [[3, 3], [4, 3], [5, 3], [5, 3]]
    p = np.array([0.5, 0.3, 0.2])
    expected = [2, None, None, np.exp(-(p * np.log(p)).sum())]
    assert matrix["effective_rank"].values[[0, 3]] == pytest.approx(expected[::3])
    assert matrix["stable_rank"].values == pytest.approx([2, 25 / 16, 34 / 25, 38 / 25])
    assert matrix["distance"].values == pytest.approx([0, 1, 2, 8**0.5])
    assert matrix["update_alignment"].values == pytest.approx(
        [np.nan, 1, 0, np.nan], nan_ok=True
    )
    assert (vector["effective_rank"] == 1).all()
    assert vector["norm"].values == pytest.approx([18**0.5, 5, 34**0.5, 38**0.5])
    assert np.isnan(effective_rank(np.zeros(3)))


def test_parameters_without_elements_are_left_out(tmp_path):
    for step, matrix in enumerate(STATES):
        torch.save({"m": matrix, "none": torch.zeros(0, 3)}, f"model-{step}.pt")
    trajectory = dynamics.collect_checkpoints([tmp_path], weights=True)
    result = weight_spectra(trajectory, range(4))
    assert result["layer"].values.tolist() == ["m"]


def test_ranks_of_a_network():
    trained = dynamics.simulate(ModularSettings(n=5), runs=2, steps=20)
    trained["status"][1] = 2
    trained["last_step"][1] = trained["step"].values[0]
    result = weight_spectra(trained, [0, -1])
    assert result["distance"][1].isnull().sum("layer").values.tolist() == [0, 5]
    values = np.linalg.svd(trained["hidden_weight"].values[0, -1], compute_uv=False)
    spectrum = result["singular_value"].sel(layer="hidden_weight").values[0, 1]
    assert spectrum[: len(values)] == pytest.approx(values, rel=1e-5)


def test_interrupted_spectra_have_the_frames_before(monkeypatch):
    trained = dynamics.simulate(ModularSettings(n=5), runs=1, steps=30, every=10)
    whole = weight_spectra(trained, range(4))
    measure_matrices = np.linalg.svd
    calls = iter(range(100))

    def interrupted_svd(*args, **kwargs):
        if next(calls) == 12:
            signal.raise_signal(signal.SIGINT)
        return measure_matrices(*args, **kwargs)

    monkeypatch.setattr(np.linalg, "svd", interrupted_svd)
    lines = []
    result = weight_spectra(trained, range(4), log=lines.append)
    assert "4 frames of 1 runs" in lines[0]
    assert result.attrs["frames_left"] == 2
    xr.testing.assert_equal(
        result.isel(step=slice(2)).drop_attrs(), whole.isel(step=slice(2)).drop_attrs()
    )
    assert result["norm"].isel(step=slice(2, None)).isnull().all()


def test_the_figure_of_a_diverged_run_shows_its_last_finite_frame():
    trained = dynamics.simulate(ModularSettings(n=5), runs=1, steps=30, every=10)
    trained["status"][:] = 2
    trained["last_step"][:] = 10
    figure = plot_weight_spectra(weight_spectra(trained, range(4)))
    ranks = weight_spectra(trained, [1])["effective_rank"].squeeze()
    layer = str(ranks["layer"][int(np.argmax(ranks.values))].item())
    title = f"singular values of {layer.replace('_', ' ')}, largest dark"
    assert figure.axes[3].get_title() == title
    plot_weight_spectra(weight_spectra(trained, [3]))
