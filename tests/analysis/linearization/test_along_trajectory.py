"""The linearised flow in one format: modes, kinds, medians, the command for each system, and what it refuses."""

import csv

import numpy as np
import pytest
import xarray as xr
from hypothesis import given
from hypothesis import strategies as st
from scipy import stats

from analysis.linearization import eigenmodes, network_curvature
from analysis.linearization.along_trajectory import frame_indices, linearize_trajectory
from analysis.linearization.curvature_table import curvature_columns, tabulate_curvature
from analysis.linearization.plateau_escapes import largest_loss_falls, measure_plateau_escapes
from analysis.output.tables import format_table
from analysis.statistics.intervals import median_interval
from dynamics.settings import ModularSettings, ParticleSettings, SettingsError, SparseSettings
from dynamics.simulation import simulate
from dynamics.trajectory.reader import open_trajectory
from dynamics.trajectory.recorder import save_trajectory

SYSTEMS = {
    "particles": ParticleSettings(n=6, fa=2.0),
    "modular": ModularSettings(n=5, hidden=3),
    "sparse": SparseSettings(data=64, hidden=4),
}


def printed_row(found, index):
    return format_table(tabulate_curvature(found), curvature_columns(found)).splitlines()[2 + index].split()


# -------------------------------------------------------------------------------------------- modes


def test_modes_stand_by_falling_growth_and_conjugate_ones_by_falling_rotation():
    found = eigenmodes.sorted_eigenmodes(np.array([-1 - 2j, 3, -1 + 2j, -5, 0]))
    np.testing.assert_array_equal(found.growth, [3, 0, -1, -1, -5])
    np.testing.assert_array_equal(found.rotation, [0, 0, 2, -2, 0])
    real = eigenmodes.sorted_eigenmodes(np.array([[1.0, 2.0], [np.nan, np.nan]]))
    np.testing.assert_array_equal(real.growth, [[2, 1], [np.nan, np.nan]])


@pytest.mark.parametrize(
    ("rates", "count", "kind"),
    [
        ([-1, -2], 0, eigenmodes.STABLE), ([1, -2], 1, eigenmodes.SADDLE), ([1, 2], 2, eigenmodes.UNSTABLE), ([1e-7, -1], 0, eigenmodes.STABLE),
        ([1, -1e-7], 1, eigenmodes.UNSTABLE), ([1e-5, -1], 1, eigenmodes.SADDLE), ([-1 + 5j, -1 - 5j], 0, eigenmodes.STABLE),
        ([1e-6, 10j, -10j], 0, eigenmodes.STABLE), ([0, 0], 0, eigenmodes.STABLE), ([np.nan, np.nan], np.nan, eigenmodes.NONE), ([], np.nan, eigenmodes.NONE),
        ([1, np.nan, -2], 1, eigenmodes.SADDLE),
    ],
)  # fmt: skip
def test_kinds_of_planted_spectra(rates, count, kind):
    modes = eigenmodes.sorted_eigenmodes(np.array(rates, complex))
    np.testing.assert_equal(float(eigenmodes.count_growing(modes)), float(count))
    assert eigenmodes.stability_kinds(modes) == kind


@given(st.lists(st.floats(-100, 100), min_size=1, max_size=8), st.sampled_from([1e-9, 1.0, 1e9]))
def test_the_kind_does_not_depend_on_the_unit_of_time(rates, scale):
    rates = np.round(np.array(rates), 3)
    np.testing.assert_array_equal(
        eigenmodes.stability_kinds(eigenmodes.sorted_eigenmodes(rates)),
        eigenmodes.stability_kinds(eigenmodes.sorted_eigenmodes(scale * rates)),
    )
    assert (
        eigenmodes.count_growing(eigenmodes.sorted_eigenmodes(rates))
        == eigenmodes.count_growing(eigenmodes.sorted_eigenmodes(scale * rates))
        == (rates > 1e-6 * np.abs(rates).max()).sum()
    )


# -------------------------------------------------------------------------------------------- medians


def test_the_interval_of_a_median_covers_as_often_as_it_says(generator):
    for count in (6, 15, 100):
        found = [median_interval(each) for each in generator.exponential(size=(2000, count))]
        covered = np.mean([each.low <= np.log(2) <= each.high for each in found])
        assert covered > 0.95 - 4 * np.sqrt(0.95 * 0.05 / 2000)
        one_less = int(stats.binom.ppf(0.025, count, 0.5)) + 1  # the next narrower one covers too seldom
        assert 1 - 2 * stats.binom.cdf(one_less - 1, count, 0.5) < 0.95
    few = median_interval(np.arange(5.0))
    assert (few.value, np.isnan(few.low), np.isnan(few.high)) == (2, True, True)
    assert np.isnan(median_interval(np.array([])).value)
    assert median_interval(np.arange(6.0)) == (2.5, 0, 5)


# -------------------------------------------------------------------------------------------- frames


def test_frames_are_spaced_evenly_or_those_that_are_named():
    trajectory = simulate(ParticleSettings(n=5), runs=1, steps=100, every=10)
    assert frame_indices(trajectory, 3) == [0, 5, 10]
    assert frame_indices(trajectory, 1) == [0]
    assert frame_indices(trajectory, 10**9) == list(range(11))
    assert frame_indices(trajectory, 20, at=(100, 0, 0, 30)) == [0, 3, 10]
    with pytest.raises(SettingsError, match="at: found 5"):
        frame_indices(trajectory, 20, at=(0, 5))
    with pytest.raises(SettingsError, match="steps: found 0"):
        frame_indices(trajectory, 0)


@pytest.fixture(scope="module")
def trajectories(tmp_path_factory):
    folder = tmp_path_factory.mktemp("runs")
    for name, settings in SYSTEMS.items():
        simulate(settings, runs=7, steps=12, every=4, out=folder / f"{name}.nc")
    return folder


@pytest.mark.parametrize("system", SYSTEMS)
def test_all_systems_have_one_format(system):
    trajectory = simulate(SYSTEMS[system], runs=3, steps=4, every=2)
    found = linearize_trajectory(trajectory, [0, 1, 2], quiet=True)
    growth, rotation = found["growth_rate"].values, found["rotation_rate"].values
    assert found["growth_rate"].dims == ("run", "step", "mode")
    assert (np.diff(growth, axis=-1) <= 0).all()
    if system != "particles":
        assert not rotation.any()
        assert growth.shape[-1] == found.attrs["parameters"]
        np.testing.assert_allclose(-growth.sum(axis=-1), found["trace"], rtol=1e-9)
    np.testing.assert_allclose(found["sharpness"], -growth[..., -1])
    assert found.attrs["threshold"] == pytest.approx(2 / SYSTEMS[system].time_step)
    modes = eigenmodes.sorted_eigenmodes(growth + 1j * rotation)
    np.testing.assert_array_equal(found["growing_modes"], eigenmodes.count_growing(modes))
    np.testing.assert_array_equal(found["kind"], eigenmodes.stability_kinds(modes))
    for name, variable in found.variables.items():
        assert variable.dtype.kind in "fiU", name
        if name in found.data_vars:
            assert "long_name" in variable.attrs, name
    assert ("xi_length" in found) == (system == "sparse")


def test_two_particles_have_no_modes_and_that_is_no_error():
    found = linearize_trajectory(simulate(ParticleSettings(n=2), runs=2, steps=2), [0, 2], quiet=True)
    assert found.sizes["mode"] == 0
    assert np.isnan(found["sharpness"]).all()
    assert (found["kind"] == eigenmodes.NONE).all()
    assert printed_row(found, 0)[-2:] == ["-", "-"]


@pytest.mark.parametrize(
    ("settings", "count"), [(ParticleSettings(n=5), 20), (SYSTEMS["modular"], 20), (ModularSettings(), 10)]
)
def test_large_networks_have_fewer_frames(settings, count):
    assert len(frame_indices(simulate(settings, runs=1, steps=25, every=1, progress=False))) == count


# -------------------------------------------------------------------------------------------- escapes


def test_the_largest_fall_is_that_of_the_lowest_loss_below_a_guess():
    guess = 0.7
    losses = np.array([
        [3.0, 0.9, 0.69, 0.68, 0.40, 0.39, 0.39],  # the first fall ends above a guess, or nearly
        [0.7, 0.5, 5.0, 0.5, 0.45, 0.2, 0.2],  # the way back from a spike is none
        [3.0, 2.0, 0.8, 0.75, 0.71, 0.9, 0.8],  # never below a guess
        [0.7, 0.6, np.nan, np.nan, np.nan, np.nan, np.nan],  # diverged
        [0.7, 0.7, 0.7, 0.7, 0.7, 0.7, 0.1],
    ])  # fmt: skip
    place, fall = largest_loss_falls(losses, guess)
    np.testing.assert_array_equal(place, [3, 4, -1, 0, 5])
    np.testing.assert_allclose(fall, [0.28, 0.25, 0, 0.1, 0.6])
    assert largest_loss_falls(losses[:, :1], guess)[0].tolist() == [-1] * 5


def test_shares_at_an_escape_are_those_of_its_frame():
    trajectory = simulate(SYSTEMS["modular"], runs=3, steps=8, every=2)
    trajectory["loss"].loc[{"split": "train"}] = 9.0
    trajectory["loss"].loc[{"split": "train", "step": slice(6, 8)}] = 0.5
    trajectory["loss"].values[1] = 9.0
    found, whole = measure_plateau_escapes(trajectory), network_curvature.loss_curvature(trajectory, [2], quiet=True)
    np.testing.assert_array_equal(found["escape_step"], [4, -1, 4])
    np.testing.assert_allclose(found["escape_fall"], [np.log(5) - 0.5, 0, np.log(5) - 0.5])
    for name in ("lowest_share", "negative_share", "negative_chance", "highest_share"):
        expected = np.where([True, False, True], whole[name].values[:, 0], np.nan)
        np.testing.assert_allclose(found[f"escape_{name}"], expected, rtol=1e-9)


# -------------------------------------------------------------------------------------------- the command


@pytest.mark.parametrize("system", SYSTEMS)
def test_the_command_prints_draws_and_keeps(system, trajectories, typed, tmp_path):
    out = tmp_path / "found.nc"
    words = (trajectories / f"{system}.nc", "--steps", 3, "--out", out, "--csv", tmp_path / "found.csv")
    code, said, errors = typed("analysis.curvature", *words)
    assert (code, errors) == (0, "")
    assert "growing modes" in said
    assert out.with_suffix(".png").stat().st_size > 20_000
    with xr.open_dataset(out) as found:
        assert found.attrs["title"] == "Linearised flow along a run"
        assert found["step"].values.tolist() == [0, 8, 12]
        found.load()
    with open(tmp_path / "found.csv") as file:
        table = list(csv.DictReader(file))
    assert [row["step"] for row in table] == ["0", "8", "12"]
    assert float(table[1]["sharpness"]) == np.median(found["sharpness"].values[:, 1])
    assert float(table[1]["growing_modes_low"]) == found["growing_modes"].values[:, 1].min()  # of seven
    above = (found["sharpness"].values[:, 1] > found.attrs["threshold"]).mean()
    assert float(table[1]["above_threshold"]) == pytest.approx(above)
    if system != "particles":
        assert float(table[1]["lowest_share"]) == pytest.approx(found["lowest_share"].values[:, 1].mean())
        assert float(table[1]["lowest_chance"]) == pytest.approx(1 / found.attrs["parameters"])
        assert table[2]["lowest_share"] == ""  # nothing comes after the last frame


def test_one_run_one_frame_and_both_ends_alone_are_drawn(trajectories, typed, tmp_path, monkeypatch):
    monkeypatch.setattr(network_curvature, "_MAX_DENSE", 10)
    for system in SYSTEMS:
        words = (trajectories / f"{system}.nc", "--at", 4, "--runs", 1, "--out", tmp_path / f"{system}.nc")
        code, said, errors = typed("analysis.curvature", *words)
        assert (code, errors) == (0, "")
        assert "-%" not in said  # nothing is said of all negative directions, which are not known
        with xr.open_dataset(tmp_path / f"{system}.nc") as found:
            assert found.sizes["run"] == 1
            assert found["growth_rate"].notnull().all()
            assert found["growing_modes"].notnull().all() == (system == "particles")
            assert int(found["kind"][0, 0]) in (eigenmodes.STABLE, eigenmodes.SADDLE, eigenmodes.UNSTABLE)


def test_a_run_that_diverged_has_no_value_afterwards(typed, tmp_path):
    trajectory = simulate(SYSTEMS["modular"], runs=2, steps=8, every=4)
    trajectory["last_step"].values[:] = [4, 0]
    found = linearize_trajectory(trajectory, [0, 1, 2], quiet=True)
    np.testing.assert_array_equal(found["kind"].values == eigenmodes.NONE, [[False, False, True], [False, True, True]])
    assert printed_row(found, 2)[:4] == ["8", "0", "-", "-"]


@pytest.mark.parametrize(
    ("system", "words"), [("particles", []), ("particles", ["--at", 12]), ("sparse", ["--at", 12])]
)
def test_runs_that_have_diverged_are_more_than_those_that_have_not_or_all(system, words, trajectories, typed, tmp_path):
    trajectory = open_trajectory(trajectories / f"{system}.nc").load()
    trajectory["last_step"].values[:] = [4] * 6 + [4 if words else 12]
    trajectory["status"].values[:] = 2
    save_trajectory(trajectory, tmp_path / "lost.nc")
    code, out, errors = typed("analysis.curvature", "lost.nc", "--steps", 2, *words)
    assert (code, errors) == (0, "")
    last = next(line.split() for line in out.splitlines() if line.strip().startswith("12 "))
    assert last[1] == ("0" if words else "1")
    assert (tmp_path / "lost-curvature.png").stat().st_size > 10_000
