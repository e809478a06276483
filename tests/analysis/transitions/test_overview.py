"""Measures on one time axis, and lagged correlations of series with a given lead."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from matplotlib.patches import Rectangle

import dynamics
from analysis.plots import plot_overview
from analysis.transitions import lagged_correlation, run_overview
from dynamics import ModularSettings
from dynamics.settings import SettingsError


@pytest.mark.parametrize("runs", [1, 30])
def test_a_given_lead_and_no_lead(runs):
    rng = np.random.default_rng(0)
    change, other = rng.standard_normal((2, runs, 120))
    common = rng.standard_normal(120)
    led = lagged_correlation(change, np.roll(change, 3, axis=1))
    values = [interval.value for interval in led.by_lag]
    assert led.lags[np.argmax(values)] == 3
    assert max(values) == pytest.approx(1, abs=1e-3)
    assert led.p_value < 0.05
    assert led.chance < 0.6
    free = lagged_correlation(change, other)
    assert free.p_value > 0.05
    if runs > 1:  # what all runs have in common is expected by chance
        shared = lagged_correlation(change + 3 * common, other + 3 * common)
        assert shared.chance > 0.8
        assert shared.p_value > 0.05


def test_measures_of_a_network_and_its_results(tmp_path, output_of):
    path = tmp_path / "m.nc"
    trained = dynamics.simulate(ModularSettings(n=5), runs=3, steps=60, every=2)
    dynamics.save_trajectory(trained, path)
    names = ["loss", "sharpness", "rank", "formation", "accuracy"]
    frames = range(0, 31, 3)
    result = run_overview(trained, names, frames)
    assert result.sizes["pair"] == 10
    finite = np.isfinite(result["measure"]).all("run").sum("step")
    assert finite.values.tolist() == [31, 11, 11, 11, 31]
    assert result["measure"][0].values == pytest.approx(trained["loss"][..., 0].values)
    output_of("analysis.noise", path, "--frames", "12")
    options = ["--show", "loss", "noise_scale", "gradient_size"]
    text = output_of("analysis.overview", path, *options, "--run", "1")
    assert "loss, gradient_size" in text
    assert (tmp_path / "m-overview.png").stat().st_size > 1000
    with pytest.raises(SettingsError, match="show: found nothing"):
        run_overview(trained, ["loss", "nothing"], frames)
    with pytest.raises(SettingsError, match="show: found loss loss"):
        run_overview(trained, ["loss", "loss"], frames)


def test_the_events_of_the_run_are_drawn():
    trained = dynamics.simulate(ModularSettings(n=5), runs=2, steps=60, every=2)
    loss = np.where(np.arange(31) < 12, 1.0, 0.01)
    trained["loss"].values[:] = loss[None, :, None]
    trained["loss"].values[0] = 1.0
    result = run_overview(trained, ["loss", "rank"], range(31))
    for run, bands in ((0, set()), (1, {"drop"})):
        panel = plot_overview(result, run).axes[0]
        kinds = result["event_kind"].values[result["of_run"].values == run]
        assert bands <= set(kinds.tolist())
        spans = [patch for patch in panel.patches if isinstance(patch, Rectangle)]
        assert len(spans) == np.isin(kinds, ["drop", "plateau"]).sum()


@given(st.integers(3, 6), st.integers(0, 3))
def test_runs_in_which_a_measure_is_constant_have_no_correlation(runs, constant):
    """They are left out and counted, and do not count as a correlation of 0."""
    generator = np.random.default_rng(runs)
    first = generator.standard_normal((runs, 20))
    second = first + generator.standard_normal((runs, 20))
    still = np.concatenate([first, generator.standard_normal((constant, 20))])
    result = lagged_correlation(still, np.pad(second, ((0, constant), (0, 0))))
    expected = lagged_correlation(first, second)
    np.testing.assert_allclose(result.by_lag, expected.by_lag)
    assert (result.runs == runs).all()
    nothing = lagged_correlation(first, 0 * second)
    assert (nothing.runs == 0).all()
    assert np.isnan([nothing.chance, nothing.p_value]).all()


def test_particles_have_measures_by_default(output_of, monkeypatch, tmp_path):
    monkeypatch.chdir(tmp_path)
    particles = dynamics.simulate(dynamics.ParticleSettings(n=5), runs=3, steps=30)
    dynamics.save_trajectory(particles, "p.nc")
    text = output_of("analysis.overview", "p.nc")
    for pair in ("force, speed", "force, formation", "speed, formation"):
        assert pair in text
