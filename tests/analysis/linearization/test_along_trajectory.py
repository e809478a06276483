"""The linearised flow of trajectories of all systems: eigenmodes, kinds of stability,
escapes, and the command."""

import csv

import numpy as np
import pytest
import xarray as xr
from hypothesis import given
from hypothesis import strategies as st
from numpy.testing import assert_allclose, assert_array_equal, assert_equal

from analysis.linearization import (
    eigenmodes,
    frame_indices,
    linearize_trajectory,
    network_curvature,
)
from analysis.linearization.curvature_table import curvature_columns, tabulate_curvature
from analysis.linearization.eigenmodes import (
    NONE,
    SADDLE,
    STABLE,
    UNSTABLE,
    sorted_eigenmodes,
    stability_kinds,
)
from analysis.linearization.plateau_escapes import (
    largest_loss_falls,
    measure_plateau_escapes,
)
from analysis.output.tables import format_table
from dynamics import open_trajectory, save_trajectory, simulate
from dynamics.settings import (
    ModularSettings,
    ParticleSettings,
    SparseSettings,
)

SYSTEMS = {
    "particles": ParticleSettings(n=6, fa=2.0),
    "modular": ModularSettings(n=5, hidden=3),
    "sparse": SparseSettings(data=64, hidden=4),
}


def printed_row(result, index):
    return (
        format_table(tabulate_curvature(result), curvature_columns(result))
        .splitlines()[2 + index]
        .split()
    )


# -------------------------------------------------------------------------------- modes


def test_modes_are_sorted_by_growth_and_conjugate_ones_by_rotation():
    result = sorted_eigenmodes(np.array([-1 - 2j, 3, -1 + 2j, -5, 0]))
    assert_array_equal(result, [[3, 0, -1, -1, -5], [0, 0, 2, -2, 0]])
    real = sorted_eigenmodes(np.array([[1.0, 2.0], [np.nan, np.nan]]))
    assert_array_equal(real.growth, [[2, 1], [np.nan, np.nan]])


@pytest.mark.parametrize(
    ("rates", "count", "kind"),
    [
        ([-1, -2], 0, STABLE),
        ([1, -2], 1, SADDLE),
        ([1, 2], 2, UNSTABLE),
        ([1e-7, -1], 0, STABLE),
        ([1, -1e-7], 1, UNSTABLE),
        ([1e-5, -1], 1, SADDLE),
        ([-1 + 5j, -1 - 5j], 0, STABLE),
        ([1e-6, 10j, -10j], 0, STABLE),
        ([0, 0], 0, STABLE),
        ([np.nan, np.nan], np.nan, NONE),
        ([], np.nan, NONE),
        ([1, np.nan, -2], 1, SADDLE),
    ],
)
def test_stability_kinds_of_planted_spectra(rates, count, kind):
    modes = sorted_eigenmodes(np.array(rates, complex))
    assert_equal(float(eigenmodes.count_growing(modes)), float(count))
    assert stability_kinds(modes) == kind


@given(
    st.lists(st.floats(-100, 100), min_size=1, max_size=8),
    st.sampled_from([1e-9, 1.0, 1e9]),
)
def test_stability_kinds_do_not_depend_on_the_unit_of_time(rates, scale):
    rates = np.round(np.array(rates), 3)
    modes = sorted_eigenmodes(rates)
    scaled = sorted_eigenmodes(scale * rates)
    assert_array_equal(stability_kinds(modes), stability_kinds(scaled))
    growing = (rates > 1e-6 * np.abs(rates).max()).sum()
    assert (
        eigenmodes.count_growing(modes) == eigenmodes.count_growing(scaled) == growing
    )


# ------------------------------------------------------------------------------- frames


def test_the_default_number_of_frames():
    for settings, count in (
        (ParticleSettings(n=5), 20),
        (SYSTEMS["modular"], 20),
        (ModularSettings(), 10),
    ):
        trajectory = simulate(settings, runs=1, steps=25, every=1)
        assert len(frame_indices(trajectory)) == count
        assert frame_indices(trajectory, 2) == [0, 25]


@pytest.fixture(scope="module")
def trajectories(tmp_path_factory):
    folder = tmp_path_factory.mktemp("runs")
    for name, settings in SYSTEMS.items():
        simulate(settings, runs=7, steps=12, every=4, out=folder / f"{name}.nc")
    return folder


@pytest.mark.parametrize("system", SYSTEMS)
def test_all_systems_have_the_same_variables(system):
    result = linearize_trajectory(
        simulate(SYSTEMS[system], runs=3, steps=4, every=2), [0, 1, 2]
    )
    growth = result["growth_rate"].values
    rotation = result["rotation_rate"].values
    assert result["growth_rate"].dims == ("run", "step", "mode")
    assert (np.diff(growth, axis=-1) <= 0).all()
    if system != "particles":
        assert not rotation.any()
        assert growth.shape[-1] == result.attrs["parameters"]
        assert_allclose(-growth.sum(axis=-1), result["trace"], rtol=1e-9)
    assert_allclose(result["sharpness"], -growth[..., -1])
    assert_allclose(result["limit"], 2 / SYSTEMS[system].time_step)
    assert result.attrs["limit_formula"] == "2/lr"
    modes = sorted_eigenmodes(growth + 1j * rotation)
    assert_array_equal(result["growing_modes"], eigenmodes.count_growing(modes))
    assert_array_equal(result["kind"], stability_kinds(modes))
    assert all(variable.dtype.kind in "fiU" for variable in result.variables.values())
    assert all("long_name" in variable.attrs for variable in result.data_vars.values())
    assert ("xi_length" in result) == (system == "sparse")


def test_two_particles_have_no_modes():
    result = linearize_trajectory(
        simulate(ParticleSettings(n=2), runs=2, steps=2), [0, 2]
    )
    assert result.sizes["mode"] == 0
    assert np.isnan(result["sharpness"]).all()
    assert (result["kind"] == NONE).all()
    assert printed_row(result, 0)[-2:] == ["-", "-"]


# ------------------------------------------------------------------------------ escapes


def test_the_largest_fall_is_that_of_the_lowest_loss_below_chance():
    losses = np.array(
        [
            [
                3.0,
                0.9,
                0.69,
                0.68,
                0.40,
                0.39,
                0.39,
            ],  # the first fall ends above chance, or nearly
            [0.7, 0.5, 5.0, 0.5, 0.45, 0.2, 0.2],  # the way back from a spike is none
            [3.0, 2.0, 0.8, 0.75, 0.71, 0.9, 0.8],  # never below chance
            [0.7, 0.6, np.nan, np.nan, np.nan, np.nan, np.nan],  # diverged
            [0.7, 0.7, 0.7, 0.7, 0.7, 0.7, 0.1],
        ]
    )
    place, fall = largest_loss_falls(losses, 0.7)
    assert_array_equal(place, [3, 4, -1, 0, 5])
    assert_allclose(fall, [0.28, 0.25, 0, 0.1, 0.6])
    assert largest_loss_falls(losses[:, :1], 0.7)[0].tolist() == [-1] * 5


def test_movement_fractions_at_an_escape_are_those_of_its_frame():
    trajectory = simulate(SYSTEMS["modular"], runs=3, steps=8, every=2)
    trajectory["loss"].loc[{"split": "train"}] = 9.0
    trajectory["loss"].loc[{"split": "train", "step": slice(6, 8)}] = 0.5
    trajectory["loss"].values[1] = 9.0
    result = measure_plateau_escapes(trajectory)
    whole = network_curvature.loss_curvature(trajectory, [2])
    assert_array_equal(result["escape_step"], [4, -1, 4])
    assert_allclose(result["escape_fall"], [np.log(5) - 0.5, 0, np.log(5) - 0.5])
    for name in ("lowest_share", "negative_share", "negative_chance", "highest_share"):
        expected = np.where([True, False, True], whole[name].values[:, 0], np.nan)
        assert_allclose(result[f"escape_{name}"], expected, rtol=1e-9)


# -------------------------------------------------------------------------- the command


@pytest.mark.parametrize("system", ["particles", "sparse"])
def test_the_command_prints_writes_and_draws(system, trajectories, output_of, tmp_path):
    out = tmp_path / "found.nc"
    words = (
        trajectories / f"{system}.nc",
        "--steps",
        3,
        "--out",
        out,
        "--csv",
        tmp_path / "found.csv",
    )
    assert "growing modes" in output_of("analysis.curvature", *words)
    assert out.with_suffix(".png").stat().st_size > 20_000
    with xr.open_dataset(out) as result:
        assert result.attrs["title"] == "Linearised flow along a run"
        assert result["step"].values.tolist() == [0, 8, 12]
        result.load()
    with open("found.csv") as file:
        table = list(csv.DictReader(file))
    assert [row["step"] for row in table] == ["0", "8", "12"]
    sharpness = result["sharpness"].values[:, 1]
    assert float(table[1]["sharpness"]) == np.median(sharpness)
    assert (
        float(table[1]["growing_modes_low"])
        == result["growing_modes"].values[:, 1].min()
    )  # of seven
    assert float(table[1]["above_threshold"]) == pytest.approx(
        (sharpness > result["limit"].values[:, 1]).mean()
    )
    if system != "particles":
        assert float(table[1]["lowest_share"]) == pytest.approx(
            result["lowest_share"].values[:, 1].mean()
        )
        assert float(table[1]["lowest_chance"]) == pytest.approx(
            1 / result.attrs["parameters"]
        )
        assert table[2]["lowest_share"] == ""  # nothing comes after the last frame


@pytest.mark.slow
@pytest.mark.parametrize("system", ["particles", "sparse"])
def test_extreme_eigenvalues_of_one_run_and_frame_are_drawn(
    system, trajectories, output_of, tmp_path, monkeypatch
):
    monkeypatch.setattr(network_curvature, "_MAX_DENSE", 10)
    words = (
        trajectories / f"{system}.nc",
        "--at",
        4,
        "--runs",
        1,
        "--out",
        tmp_path / "one.nc",
    )
    said = output_of("analysis.curvature", *words)
    assert (
        "-%" not in said
    )  # nothing is said of all negative directions, which are not known
    with xr.open_dataset("one.nc") as result:
        assert result.sizes["run"] == 1
        assert result["growth_rate"].notnull().all()
        assert result["growing_modes"].notnull().all() == (system == "particles")
        assert int(result["kind"][0, 0]) in (STABLE, SADDLE, UNSTABLE)


@pytest.mark.parametrize(
    ("system", "left"), [("particles", 1), ("particles", 0), ("sparse", 0)]
)
def test_ensembles_of_which_most_or_all_runs_have_diverged_are_drawn(
    system, left, trajectories, output_of, tmp_path
):
    trajectory = open_trajectory(trajectories / f"{system}.nc").load()
    trajectory["last_step"].values[:] = [4] * 6 + [12 if left else 4]
    trajectory["status"].values[:] = 2
    save_trajectory(trajectory, "lost.nc")
    words = ("--steps", 2) if left else ("--at", 12)
    out = output_of("analysis.curvature lost.nc", *words)
    last = next(
        line.split() for line in out.splitlines() if line.strip().startswith("12 ")
    )
    assert last[1] == str(left)
    assert (tmp_path / "lost-curvature.png").stat().st_size > 10_000


def test_frames_after_divergence_have_no_kind():
    trajectory = simulate(SYSTEMS["modular"], runs=2, steps=8, every=4)
    trajectory["last_step"].values[:] = [4, 0]
    result = linearize_trajectory(trajectory, [0, 1, 2])
    assert_array_equal(
        result["kind"].values == NONE, [[False, False, True], [False, True, True]]
    )
    assert printed_row(result, 2)[:4] == ["8", "0", "-", "-"]
