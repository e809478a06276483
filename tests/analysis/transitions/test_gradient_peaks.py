"""Peaks of gradient norms against drops and spikes: planted series, brute force,
statistics, and the command."""

import dataclasses
import warnings

import numpy as np
import pytest
import xarray as xr
from hypothesis import given
from hypothesis import strategies as st
from numpy.testing import assert_allclose, assert_array_equal
from scipy import stats

from analysis.plots.gradients_figure import plot_gradient_norms
from analysis.structures.embedding_motion import departure_times, embedding_displacement
from analysis.transitions import (
    SeriesEvent,
    gradient_peaks,
    most_eventful_run,
    peak_coincidence,
)
from dynamics import (
    ModularSettings,
    ParticleSettings,
    SparseSettings,
    TrajectoryError,
    save_trajectory,
    simulate,
)

SMALL = SparseSettings(length=5, sparsity=2, data=40, batch=20, hidden=4)
FRAMES = 200


# ----------------------------------------------------------------------- peaks and lags


def test_peaks_are_spikes_and_maxima_of_wide_humps(generator):
    norm = 1 + 0.01 * generator.standard_normal(FRAMES)
    norm[50] = 9
    norm[120:150] += 5 * np.hanning(30)  # wider than a spike may be
    result = gradient_peaks.find_norm_peaks(norm)
    assert result.frame.tolist() == [50, pytest.approx(134.5, abs=3.5)]
    assert_array_equal(result.height, norm[result.frame])
    assert len(gradient_peaks.find_norm_peaks(np.ones(FRAMES)).frame) == 0


def test_the_lag_of_an_event_is_that_of_its_highest_peak():
    places = (("drop", 10, 12, 14), ("drop", 60, 62.5, 64), ("spike", 99, 100, 101))
    events = [SeriesEvent(*place, 1, 0) for place in places]
    peaks = gradient_peaks.NormPeaks(
        np.array([9, 13, 66, 90]), np.array([1.0, 3.0, 1.0, 9.0])
    )
    assert_array_equal(gradient_peaks.peak_lags(events, peaks, 2), [1, 3.5, np.nan])
    assert_array_equal(gradient_peaks.peak_lags(events, peaks, 1), [1, np.nan, np.nan])


@given(seed=st.integers(0, 200), slack=st.sampled_from([0.0, 1.5, 4.0]))
def test_match_counts_by_shift_are_those_of_shifted_peaks(seed, slack):
    generator, frames = np.random.default_rng(seed), 40
    middles = generator.uniform(2, 37, 4)
    begins, ends = np.clip(
        middles + generator.uniform(0, 3, (2, 4)) * [[-1], [1]], 0, frames - 1
    )
    events = [
        SeriesEvent("drop", *place, 1, 0)
        for place in zip(begins, middles, ends, strict=True)
    ]
    peaks = np.sort(generator.choice(frames, 5, replace=False))
    result = gradient_peaks.match_counts_by_shift(
        events, gradient_peaks.NormPeaks(peaks, np.ones(5)), frames, slack
    )
    for shift in range(frames):
        moved = gradient_peaks.NormPeaks(np.sort((peaks + shift) % frames), np.ones(5))
        assert (
            result[shift]
            == np.isfinite(gradient_peaks.peak_lags(events, moved, slack)).sum()
        )


def test_the_circular_correlation_is_that_of_spearman_at_every_lag(generator):
    norm, decrease = generator.standard_normal((2, 31))
    decrease[3:6] = 0  # ties
    result = gradient_peaks.circular_rank_correlation(norm, decrease)
    for lag in (0, 1, 7, 30):
        assert result[lag] == pytest.approx(
            stats.spearmanr(np.roll(norm, -lag), decrease).statistic
        )
    assert (
        gradient_peaks.circular_rank_correlation(
            np.roll(decrease, 4), decrease
        ).argmax()
        == 4
    )
    assert np.isnan(
        gradient_peaks.circular_rank_correlation(np.ones(31), decrease)
    ).all()


def test_the_run_that_is_drawn():
    assert most_eventful_run(np.array([[0, 9], [2, 0], [2, 3], [2, 3]])) == 2


# ------------------------------------------------------------------- whole trajectories


def test_mean_correlations_have_intervals_between_minus_1_and_1():
    result = gradient_peaks.mean_rank_correlation(np.array([0.9, -0.4]))
    assert -1 <= result.low < result.value < result.high <= 1
    values = np.array([0.2, 0.5, 0.4])
    z = np.arctanh(values)
    half = stats.t.ppf(0.975, 2) * z.std(ddof=1) / np.sqrt(3)
    expected = np.tanh([z.mean(), z.mean() - half, z.mean() + half])
    assert_allclose(gradient_peaks.mean_rank_correlation(values), expected)
    assert gradient_peaks.mean_rank_correlation(np.ones(3)).value == pytest.approx(1)


@pytest.mark.parametrize(("frames", "width"), [(200, 5), (20, 5), (21, 10), (20, 10)])
def test_shifts_nearby_are_from_a_window_on_either_way(frames, width):
    expected = [
        shift
        for shift in range(frames)
        if width <= min(shift, frames - shift) <= 2 * width
    ]
    assert gradient_peaks.nearby_shifts(frames, width).tolist() == expected


@pytest.fixture(scope="module")
def template():
    return simulate(SMALL, runs=6, steps=2 * (FRAMES - 1))


@pytest.fixture(scope="module")
def particles():
    return simulate(ParticleSettings(n=7), runs=5, steps=60)


def with_series(template, loss, norm):
    """The template with another loss (run, frame) in all splits, and other gradient
    norms (run, frame, layer)."""
    whole = template.copy(deep=True)
    for split in template["split"].values:
        whole["loss"].loc[{"split": split}] = loss
    whole["gradient_norm"] = (("run", "step", "layer"), norm.astype(np.float32))
    return whole


def noise(generator, runs, layers):
    loss = 0.7 + 0.002 * generator.standard_normal((runs, FRAMES))
    return loss, 1 + 0.02 * generator.standard_normal((runs, FRAMES, layers))


@pytest.fixture(scope="module")
def planted(template):
    """Losses that drop at one moment of each run and spike at another; a norm of the
    first layer that peaks three frames after the drop and with the spike, one of the
    second that peaks elsewhere, others that never do."""
    loss, norm = noise(np.random.default_rng(3), 6, template.sizes["layer"])
    for run in range(6):
        drop, spike = 40 + 7 * run, 130 + 6 * run
        loss[run] -= 0.4 / (1 + np.exp(-(np.arange(FRAMES) - drop)))
        loss[run, spike] += 0.5
        norm[run, [drop + 3, spike], 0] = 8
        norm[run, [15, drop + 40], 1] = 8
    return with_series(template, loss, norm)


@pytest.fixture(scope="module")
def coincidence(planted):
    return peak_coincidence(planted)


def test_planted_peaks_are_found_with_their_lag(coincidence):
    result, layers = coincidence, coincidence["layer"].values
    assert result["events"].values.tolist() == [[1, 1]] * 6
    first = result.sel(layer=layers[0])
    assert first["share"].values.tolist() == [1, 1]
    assert (first["p_value"] < 0.01).all()
    assert (first["share_low"] < 0.7).all()
    assert first["lag"].sel(kind=["drop", "spike"]).values.tolist() == [
        pytest.approx(3, abs=0.7),
        0,
    ]
    assert first["peaks"].values.tolist() == [2] * 6
    # two peaks of 200 frames: by chance one lies within the width of an event and its
    # tolerance
    assert 0.02 < first["by_chance"].sel(kind="spike", baseline="anywhere") < 0.12
    assert (
        first["by_chance"].sel(kind="spike", baseline="nearby") == 0
    )  # no other peak is that near
    assert (
        0.1 < first["by_chance"].sel(kind="drop", baseline="nearby") < 0.4
    )  # which is wide, and moved 5 or 6 early
    elsewhere = result.sel(layer=layers[1])
    assert elsewhere["share"].values.tolist() == [0, 0]
    assert (elsewhere["p_value"] == 1).all()
    assert elsewhere["lag"].isnull().all()
    assert result.sel(layer=layers[2])["peaks"].sum() == 0


def test_a_planted_correlation_is_found_at_its_lag_and_none_by_chance(planted):
    whole = planted.copy(deep=True)
    decrease = -np.diff(
        whole["loss"].sel(split="train").transpose("run", "step").values, axis=1
    )
    # two frames later
    whole["gradient_norm"][..., 4] = np.concatenate(
        [np.ones((6, 3)), 1 + decrease[:, :-2]], axis=1
    )
    result = peak_coincidence(whole)
    last = result.isel(layer=4)
    assert last["correlation_lag"] == 2
    assert last["correlation"] > 0.95
    assert last["correlation_gain_low"] > 0.5
    assert (last["correlation_p_value"] < 0.01).all()
    assert (result["correlation_p_value"][5] > 0.01).all()
    assert abs(result["correlation"][5]) < 0.2
    assert (
        result["correlation_at_lag"].sel(layer=last["layer"], frames=2)
        == last["correlation"]
    )


def test_peaks_in_the_same_part_of_a_run_do_not_coincide_by_the_nearby_baseline(
    template, generator
):
    """Spikes of the loss in the second half; the first layer's norm peaks there too but
    elsewhere, the second's with them. Shifts anywhere call both significant."""
    loss, norm = noise(generator, 24, template.sizes["layer"])
    places = np.arange(100, 192, 7)  # so far apart that each is a spike
    for run in range(24):
        spikes = generator.choice(places, 5, replace=False)
        loss[run, spikes] += 0.5
        norm[
            run,
            generator.choice(places, 6, replace=False) + generator.integers(0, 7),
            0,
        ] = 8
        norm[run, spikes, 1] = 8
    result = peak_coincidence(
        with_series(template.isel(run=np.arange(24) % 6), loss, norm)
    ).sel(kind="spike")
    apart, together = result.isel(layer=0), result.isel(layer=1)
    assert apart["total"] == 120
    assert apart["p_value"].sel(baseline="anywhere") < 0.01
    assert apart["p_value"].sel(baseline="nearby") > 0.1
    assert apart["by_chance"].sel(baseline="nearby") == pytest.approx(
        float(apart["share"]), abs=0.08
    )
    assert (together["p_value"] < 0.01).all()
    assert together["share"] == 1


def test_p_values_are_limited_by_the_number_of_shifts(planted):
    assert len(gradient_peaks.nearby_shifts(FRAMES, 5)) == 12
    for runs in (1, 2):
        result = (
            peak_coincidence(planted.isel(run=range(runs)))
            .isel(layer=0)
            .sel(kind="spike")
        )
        assert_allclose(result["p_value"].sel(baseline="nearby"), 1 / (1 + 12**runs))
    assert -1 <= result["correlation_low"] <= result["correlation_high"] <= 1


def test_frames_after_divergence_are_left_out(planted):
    result = peak_coincidence(
        planted.assign(last_step=("run", [2 * 90, *[2 * (FRAMES - 1)] * 4, 4]))
    )
    assert result["events"].values.tolist() == [[1, 0], *[[1, 1]] * 4, [0, 0]]
    assert result["peaks"][:, 0].values.tolist() == [1, 2, 2, 2, 2, 0]
    assert result["share"][0].values.tolist() == [1, 1]


def test_every_system(particles):
    network = peak_coincidence(
        simulate(ModularSettings(n=5, hidden=4), runs=2, steps=300)
    )
    assert network.sizes == {
        "layer": 5,
        "kind": 2,
        "run": 2,
        "frames": 11,
        "baseline": 2,
    }
    result = peak_coincidence(particles)
    assert result["kind"].values.tolist() == ["escape"]
    assert result["events"].values.ravel().tolist() == [1] * 5
    falling = -embedding_displacement(particles).transpose("run", "step").values
    middles = [
        gradient_peaks.loss_events_by_kind(one, True)["escape"][0].middle
        for one in falling
    ]
    assert_allclose(np.array(middles) / 60, departure_times(particles))
    still = dataclasses.replace(SMALL, lr=1e-12)
    assert peak_coincidence(simulate(still, runs=1, steps=60))["share"].isnull().all()
    with pytest.raises(TrajectoryError, match="found neither"):
        peak_coincidence(particles.drop_vars("embedding"))


def test_figures_without_scale_are_drawn_without_warnings(planted):
    whole = planted.assign(gradient_norm=0 * planted["gradient_norm"])
    single, empty = planted.assign(last_step=("run", [0] * 6)), planted.copy(deep=True)
    empty["gradient_norm"][0] = np.nan
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        for item in (whole, single, empty):
            plot_gradient_norms(item, peak_coincidence(item), 0).canvas.draw()


def test_the_command(planted, particles, output_of, tmp_path):
    save_trajectory(planted, "a.nc")
    out = output_of("analysis.gradients a.nc --csv t.csv")
    rows = [
        line.split("peak")[1].split()
        for line in out.splitlines()
        if "drops with a peak" in line
    ]
    assert rows[0][:4] == ["6", "1.00", "[0.54,", "1.00]"]
    assert rows[1][:2] == ["6", "0.00"]
    table = [line.split(",") for line in (tmp_path / "t.csv").read_text().splitlines()]
    assert [len(line) for line in table] == [len(table[0])] * (
        1 + 4 * planted.sizes["layer"]
    )
    assert table[0][6:10] == [
        "anywhere",
        "p_value_anywhere",
        "nearby",
        "p_value_nearby",
    ]
    assert [float(value) for value in table[2][8:10]] == [
        0,
        pytest.approx(1 / 1001),
    ]  # of spikes
    assert "shifts by 5 to 10 frames" in out
    with xr.open_dataset("a-gradients.nc") as result:
        assert result["share"].dims == ("layer", "kind")
        assert result["correlation_at_lag"].attrs["units"] == "1"
    assert (tmp_path / "a-gradients.png").stat().st_size > 10_000
    save_trajectory(particles, "p.nc")
    output_of("analysis.gradients p.nc --run 1")
