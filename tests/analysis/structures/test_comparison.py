"""Comparisons of trajectories of particles and networks."""

import numpy as np
import pytest
import xarray as xr
from numpy.testing import assert_allclose, assert_array_equal

from analysis import (
    compare_trajectories,
    count_imperfections,
    end_shape_distances,
)
from analysis.structures import comparison_rows, is_circle, simulate_particles_from
from analysis.structures.comparison import COMPARED_SIDES, _circle_test, _location_test
from dynamics import (
    ModularSettings,
    ParticleSettings,
    TrajectoryError,
    read_settings,
    simulate,
)

NETWORK = ModularSettings(n=7, hidden=9)


@pytest.fixture(scope="module")
def network(tmp_path_factory):
    return simulate(
        NETWORK,
        6,
        steps=60,
        every=10,
        out=tmp_path_factory.mktemp("network") / "a.nc",
    )


@pytest.fixture(scope="module")
def particles():
    return simulate(ParticleSettings(n=7), runs=4, seed=2, steps=30)


def rows_of(comparison):
    return {row["quantity"]: row for row in comparison_rows(comparison)}


@pytest.mark.parametrize("which", ["network", "particles"])
def test_a_trajectory_does_not_differ_from_itself(which, request):
    trajectory = request.getfixturevalue(which)
    assert_allclose(np.diag(end_shape_distances(trajectory, trajectory)), 0, atol=1e-6)
    same = compare_trajectories(trajectory, trajectory)
    assert same.attrs["paired"] == 1
    tested = [
        row for row in comparison_rows(same) if row["test"] in ("McNemar", "Wilcoxon")
    ]
    assert len(tested) == 5
    assert all(row["p_value"] == 1 or np.isnan(row["p_value"]) for row in tested)
    assert_array_equal(
        same["speed"].sel(side="first"), same["speed"].sel(side="second")
    )


def test_the_numbers_are_those_of_the_trajectories(network, particles):
    result = compare_trajectories(network, particles)
    for side, trajectory in (("first", network), ("second", particles)):
        ends = trajectory["embedding"].isel(step=-1).values
        assert_array_equal(result[f"{side}_circle"], is_circle(ends))
        assert_array_equal(result[f"{side}_imperfections"], count_imperfections(ends))
        force = trajectory["gradient_norm"].sel(layer="embedding")
        last = result["gradient_norm"].sel(side=side, quantile=0.5, normalised_time=1)
        assert_allclose(last, np.median(force.isel(step=-1)), rtol=1e-6)
    assert result["between"].shape == (6, 4)
    assert_allclose(result["within_first"], result["within_first"].values.T, atol=1e-9)
    assert np.isnan(np.diag(result["within_second"])).all()
    assert result.attrs["paired"] == 0
    row = rows_of(result)["imperfections of the others"]
    others = [
        result[f"{side}_imperfections"].where(result[f"{side}_circle"] == 0)
        for side in COMPARED_SIDES
    ]
    assert_allclose(
        [row[side] for side in COMPARED_SIDES], [other.mean() for other in others]
    )


def test_intervals_stay_within_what_is_possible(network, particles):
    """Of two runs on each side the t intervals are wide."""
    rows = rows_of(
        compare_trajectories(network.isel(run=[0, 1]), particles.isel(run=[0, 1]))
    )
    for name, least, most in (
        ("imperfections of the others", 0, np.inf),
        ("largest norm / smallest", 1, np.inf),
        ("departure, fraction of the time", 0, 1),
        ("shape distance from own start", 0, 1),
        ("shape distance between", 0, 1),
    ):
        for side in COMPARED_SIDES:
            low, high = rows[name][f"{side}_low"], rows[name][f"{side}_high"]
            assert np.isnan(low) or (low >= least and high <= most), name


def test_pairs_are_found_and_matter(network):
    """Particles begun at the networks' first embeddings, against a second set begun
    elsewhere."""
    both = (
        ParticleSettings(n=7, start=start)
        for start in (network.encoding["source"], "random")
    )
    twin, other = (simulate(settings, runs=6, steps=50) for settings in both)
    assert compare_trajectories(network, twin).attrs["paired"] == 1
    assert compare_trajectories(network, other).attrs["paired"] == 0
    same = rows_of(compare_trajectories(twin, twin))
    assert same["the partner has the nearest shape: pairs; by chance"]["first"] == 1
    assert same["shape distance: of pairs; of shuffled pairs"]["p_value"] < 0.05
    assert same["shape distance: of pairs; of shuffled pairs"]["first"] < 1e-6
    single = rows_of(
        compare_trajectories(*(item.isel(run=[0]) for item in (network, twin)))
    )
    own = compare_trajectories(network, twin)["between"][0, 0]
    assert single["shape distance: of pairs; of shuffled pairs"][
        "first"
    ] == pytest.approx(float(own), abs=1e-6)


def test_simulated_particles_have_the_given_length_and_the_step_size_of_their_n(
    network,
):
    lengths, path = (
        (5, 60, 5),
        network.encoding["source"],
    )  # a shorter one after a longer one
    partners = [
        simulate_particles_from(network, path, ParticleSettings(), steps)[1]
        for steps in lengths
    ]
    assert [int(partner["step"][-1]) for partner in partners] == list(lengths)
    assert_array_equal(partners[0]["embedding"], partners[2]["embedding"])
    step_size = 0.003 * (17 / network.sizes["token"]) ** 2
    assert read_settings(partners[0]).step_size == pytest.approx(step_size)


def test_diverged_runs_are_left_out(network, particles):
    ill, none = (
        network.assign(last_step=("run", last))
        for last in ([60, 30, 60, 60, 60, 60], [30] * 6)
    )
    result = compare_trajectories(ill, particles)
    for name in ("first_circle", "first_imperfections", "first_departure", "between"):
        missing = np.isnan(result[name]).values.reshape(6, -1)
        assert (missing.T == [False, True, False, False, False, False]).all()
    assert np.isfinite(comparison_rows(result)[0]["first"])
    assert all(
        np.isnan(row["p_value"])
        for row in comparison_rows(compare_trajectories(none, particles))
    )


def test_a_single_frame_has_structures_and_shapes_but_no_motion(network, particles):
    result = compare_trajectories(network.isel(step=[-1]), particles)
    whole = compare_trajectories(network, particles)
    for name in ("first_circle", "first_imperfections", "between", "second_departure"):
        assert_array_equal(result[name], whole[name])
    for name in ("first_departure", "first_from_start"):
        assert np.isnan(result[name]).all()
    for name in ("speed", "displacement", "gradient_norm"):
        assert np.isnan(result[name].sel(side="first")).all()
        assert np.isfinite(result[name].sel(side="second")).any()
    assert comparison_rows(result)
    ends = particles.isel(step=[-1])
    rows = rows_of(compare_trajectories(ends, ends))
    assert np.isnan(rows["nearer to partner than to own start"]["first"])


def test_tokens_that_are_no_numbers_are_left_out(network, particles):
    more = xr.concat([network["embedding"], network["embedding"][:, :, :1]], "token")
    wide = network.drop_dims("token").assign(embedding=more)
    expected = compare_trajectories(network, particles)
    xr.testing.assert_identical(compare_trajectories(wide, particles), expected)


def test_imperfections_are_unknown_of_numbers_that_are_not_added(network, particles):
    other = network.assign_attrs(operation="other")
    assert np.isnan(compare_trajectories(other, particles)["first_imperfections"]).all()
    with pytest.raises(TrajectoryError, match=r"operation: found other, expected a \+"):
        simulate_particles_from(other, "any.nc", ParticleSettings(), 5)


def test_paired_runs_are_tested_in_pairs():
    a, b = (np.arange(100) < 20).astype(float), (np.arange(100) < 30).astype(float)
    p_value, test = _circle_test(a, b, paired=True)
    assert test == "McNemar"
    assert_allclose(p_value, 2 * 0.5**10)
    assert _circle_test(a, b, paired=False)[0] > 0.1
    assert _circle_test(a, a, paired=True)[0] == 1
    x = np.random.default_rng(1).normal(size=100)
    assert _location_test(x, x + 0.01, paired=True) == (
        pytest.approx(0, abs=1e-9),
        "Wilcoxon",
    )
    assert _location_test(x, x + 0.01, paired=False)[0] > 0.5
    assert _location_test(x, x, paired=True)[0] == 1


def test_runs_are_paired_by_seed_in_any_order(particles):
    """The numbers of pairs do not depend on the order of the runs of either side."""
    expected = comparison_rows(compare_trajectories(particles, particles))
    order = [2, 0, 3, 1]
    for first, second in (
        (particles, particles.isel(run=order)),
        (particles.isel(run=order), particles),
    ):
        result = compare_trajectories(first, second)
        assert (result.attrs["paired"], result.attrs["not_paired"]) == (1, "")
        assert_array_equal(result["first_seed"], result["second_seed"])
        assert_allclose(np.diag(result["between"]), 0, atol=1e-6)
        for row, other in zip(comparison_rows(result), expected, strict=True):
            assert row["quantity"] == other["quantity"]
            for name in ("first", "second"):
                if (
                    "shuffled" not in row["quantity"]
                    and "chance" not in row["quantity"]
                ):
                    assert_allclose(row[name], other[name], atol=1e-6)


@pytest.mark.parametrize("change", ["fewer", "twice", "other seeds"])
def test_runs_of_other_seeds_are_no_pairs(change, particles):
    seeds = {"fewer": [0, 1, 2], "twice": [0, 1, 2, 2], "other seeds": [3, 2, 1, 0]}
    other = particles.isel(run=seeds[change])
    if change == "other seeds":
        other = other.assign_coords(seed=("run", [7, 8, 9, 10]))
    result = compare_trajectories(particles, other)
    assert result.attrs["paired"] == 0
    assert result.attrs["not_paired"] == "seeds differ"
