"""The pair law: it recovers known laws, predicts held-out runs and frames, and finds
none where there is none."""

import dataclasses

import numpy as np
import pytest
import xarray as xr
from numpy.testing import assert_allclose, assert_array_equal

from analysis import plots
from analysis.forces import audit_forces, fitted_laws
from analysis.forces.audited_runs import AuditedRun
from analysis.forces.directions import cosine_similarity, without_shift_and_scaling
from analysis.forces.pair_force_matrices import pair_sum_distance
from analysis.output.tables import format_table, make_table
from dynamics import all_pairs, read_settings, save_trajectory, simulate
from dynamics.law_files import read_law
from dynamics.particles import ParticleSystem
from dynamics.settings import ModularSettings, ParticleSettings
from dynamics.strengths import evaluate

LAW = ParticleSettings(n=11, fa=0.7)


def fit_to_targets(targets_of):
    """The fit of a space to targets that are a function of the positions (step, token,
    axis) of particles."""
    particles = simulate(LAW, runs=3, steps=60, every=6)["embedding"].values
    samples = []
    for run, x in enumerate(particles):
        names = [np.random.default_rng(run).permutation(11)]
        targets = np.stack([targets_of(x)] * 2)
        samples.append(
            (
                run,
                fitted_laws._read_samples(
                    AuditedRun(x, targets, all_pairs(11)), LAW, names
                ),
            )
        )
    result = fitted_laws._fit_space(samples, 3, 100).assign_coords(
        law=list(fitted_laws.LAWS),
        distance=("knot", fitted_laws.DISTANCES),
        angle=("angle_step", fitted_laws.ANGLE_CENTRES),
    )
    return result.assign_attrs(modulus=11, dim=2)


def test_the_law_of_particles_is_recovered_from_their_trajectories():
    result = fit_to_targets(lambda x: ParticleSystem(LAW).force(x)[0])
    held_out = result["r_squared"].mean(("run", "step"))
    assert_allclose(held_out.sel(law="CA"), 1)
    assert held_out.sel(law="pair law") > 0.97
    assert held_out.sel(law="renamed") < 0.3
    for name in fitted_laws.BASIS:
        assert_allclose(
            result[name][:-1], result[f"paper_{name}"][:-1], atol=0.08, err_msg=name
        )


def test_the_fitted_law_has_the_force_of_the_particles():
    """The same in size and direction, for the unit of length of normalised
    particles."""
    result = fit_to_targets(lambda x: ParticleSystem(LAW).force(x)[0])
    law = fitted_laws.fitted_forces(result.expand_dims(space=["whole"]))
    x = simulate(LAW, runs=3, steps=60, every=6)["embedding"].values.reshape(-1, 11, 2)
    force, fitted = (
        without_shift_and_scaling(ParticleSystem(settings).force(x)[0], x)
        for settings in (LAW, ParticleSettings(n=11, law=law))
    )
    assert cosine_similarity(force, fitted).mean() > 0.98
    assert_allclose((fitted**2).sum(), (force**2).sum(), rtol=0.05)


@pytest.mark.parametrize(("n", "dim"), [(2, 1), (5, 3), (17, 2), (59, 16)])
def test_the_unit_of_length_is_that_of_normalised_particles(n, dim, generator):
    x = generator.normal(size=(n, dim)) * np.arange(1, dim + 1)
    x -= x.mean(axis=0)
    expected = np.sqrt(4 * dim * (n + 2) / (n + 1))
    assert_allclose(pair_sum_distance(x / x.std(), all_pairs(n)), expected)


def test_forces_have_the_functions_of_the_result(generator):
    """Values that are not known are the nearest ones."""
    data = {"force_factor": 2.0}
    for name, count in fitted_laws.BASIS.items():
        knot = "knot" if count == 16 else "angle_step"
        data[name] = (knot, generator.normal(size=count))
    data["like"][1][[0, 1, 7]] = np.nan
    data["unlike_alignment"][1][:] = np.nan
    result = xr.Dataset(
        data,
        {
            "distance": ("knot", fitted_laws.DISTANCES),
            "angle": ("angle_step", fitted_laws.ANGLE_CENTRES),
        },
        {"modulus": 7, "dim": 2},
    ).expand_dims(space=["whole"])
    like, unlike, aligned, nothing = fitted_laws.fitted_forces(result, n=5, dim=3)
    unit = np.sqrt(4 * 3 * 7 / 6)
    r = np.geomspace(0.01, 20, 200)
    knots = np.log(fitted_laws.DISTANCES * unit)
    filled = data["like"][1].copy()
    filled[[0, 1, 7]] = filled[[2, 2, 6]]
    for force, values in ((like, filled), (unlike, data["unlike"][1])):
        expected = np.interp(np.log(r), knots, 2 * values)
        assert_allclose(evaluate(force.expression, r), expected, rtol=1e-9, atol=1e-12)
    c = np.linspace(-1, 1, 101)
    steps = np.clip(np.floor((c + 1) * 4), 0, 7).astype(int)
    expected = 2 * data["like_alignment"][1][steps]
    assert_allclose(evaluate(aligned.expression, c), expected)
    assert_array_equal(evaluate(nothing.expression, c), 0)


def test_the_intervals_contain_the_law_and_are_narrower_with_less_noise(generator):
    def noisy(noise):
        def targets(x):
            force = ParticleSystem(LAW).force(x)[0]
            size = np.sqrt((force**2).mean())
            return force + noise * size * generator.normal(size=x.shape)

        return targets

    widths = []
    for noise in (0.1, 1.0):
        result = fit_to_targets(noisy(noise))
        for name in fitted_laws.BASIS:
            low, high = result[f"{name}_low"], result[f"{name}_high"]
            assert ((low <= result[name]) | low.isnull()).all()
            assert ((result[name] <= high) | high.isnull()).all()
        inside = (result["like_low"] < result["paper_like"]) & (
            result["paper_like"] < result["like_high"]
        )
        assert inside.mean() > 0.6
        widths.append(float((result["like_high"] - result["like_low"]).median()))
    assert widths[0] < widths[1]


def test_a_fitted_law_is_simulated(trajectory, output_of):
    save_trajectory(trajectory, "n.nc")
    output_of("analysis.pair_law n.nc --frames 4 --run-indices 0 2")
    law = read_law("n-pair_law.nc")
    with xr.open_dataset("n-pair_law.nc") as result:
        assert law == fitted_laws.fitted_forces(result)
        assert np.isnan(result["like_low"]).all()  # of two runs
    output_of("sims.particles --law n-pair_law.nc --runs 2 --steps 3 --n 7 --out p.nc")
    with xr.open_dataset("p.nc") as particles:
        settings = read_settings(particles)
        assert settings.law == law
        assert np.isfinite(particles["embedding"]).all()


def test_another_law_is_compared_with_the_fitted_one(trajectory):
    law = ParticleSettings(repulsion="1/r**3", alignment="c**2")
    result = fitted_laws.fit_pair_law(trajectory, law, frames=4)
    assert result["law"].values.tolist() == list(fitted_laws.OWN_LAWS)
    table = make_table(fitted_laws.pair_law_rows(result))
    assert {"cosine_law", "r_squared_fields"} < set(table.columns)
    headings = [column.heading for column in fitted_laws.pair_law_columns(result)]
    assert "cosine law" in headings
    assert "'its fields'" in fitted_laws.pair_law_legend(result)
    figure = plots.plot_pair_law(result, "networks")
    labels = [
        text for panel in figure.axes for text in panel.get_legend_handles_labels()[1]
    ]
    assert "given law" in labels
    assert "like pairs, law" in labels
    audit = audit_forces(trajectory, law, frames=4).sel(target="gradient")
    assert_allclose(
        result["cosine"].isel(law=0, space=0).transpose("run", "step"),
        audit["cosine"].sel(part="normalised").transpose("run", "step"),
        rtol=1e-6,
    )


def test_another_law_is_recovered_which_that_of_the_paper_does_not_explain():
    """Repulsion of like pairs that decays with the distance, and no other force."""

    def force(x):
        sums, pairs = x[:, all_pairs(11)].sum(axis=2), all_pairs(11)
        between = sums[:, :, None] - sums[:, None]
        r = np.linalg.norm(between, axis=-1, keepdims=True)
        like = (pairs.sum(axis=1)[:, None] - pairs.sum(axis=1)) % 11 == 0
        on_pairs = np.where(like[..., None] & (r > 0), between * np.exp(-r), 0).sum(
            axis=2
        )
        onto = np.zeros((11, len(pairs)))
        for index in range(2):
            np.add.at(onto, (pairs[:, index], np.arange(len(pairs))), 1)
        return onto @ on_pairs

    result = fit_to_targets(force)
    held_out = result["r_squared"].mean(("run", "step"))
    assert held_out.sel(law="pair law") > 0.9
    assert held_out.sel(law="CA") < 0.3
    assert_allclose(result["frame_r_squared"].sel(law="pair law"), 1, atol=0.02)


def test_no_law_predicts_noise(generator):
    result = fit_to_targets(lambda x: generator.normal(size=x.shape))
    assert (
        abs(
            result["cosine"].sel(law=["pair law", "four fields"]).mean(("run", "step"))
        ).max()
        < 0.15
    )


def test_coefficients_do_not_depend_on_a_factor_of_each_sample(generator):
    fields = generator.normal(size=(5, 8, 6, 2))
    truth = np.array([1.0, -2.0, 0.5, 0.0, 3.0])
    target = generator.uniform(0.1, 10, size=(8, 1, 1)) * np.einsum(
        "f,fsta->sta", truth, fields
    )
    moments = fitted_laws.field_moments(
        fields, target, generator.normal(size=(8, 6, 2))
    )
    result = fitted_laws.fit_coefficients(moments, 1e-9)
    assert_allclose(result / result[0], truth, atol=1e-4)
    assert_allclose(fitted_laws.law_cosines(moments, result), 1, atol=1e-6)
    assert_allclose(fitted_laws.frame_r_squared(moments), 1)


@pytest.fixture(scope="module")
def trajectory():
    return simulate(
        ModularSettings(n=7, hidden=9),
        runs=3,
        seed=5,
        steps=40,
        every=5,
    )


def test_a_network_has_a_law_in_every_frame(trajectory):
    cut = trajectory.copy()
    cut["last_step"] = trajectory["last_step"].copy(data=[40, 20, 40])
    keys = np.array([[True, True, False]] * 3)
    result = fitted_laws.fit_pair_law(cut, frames=6, keys=keys)
    assert result["r_squared"].dims == ("run", "space", "law", "step")
    diverged = (result["seed"] == 6) & (result["step"] > 20)
    assert_array_equal(
        np.isnan(result["cosine"].sel(space="whole", law="CA")), diverged
    )
    four = result.sel(law="four fields")
    assert (
        (four["frame_r_squared"] >= four["r_squared"] - 1e-9)
        .where(~diverged, True)
        .all()
    )
    assert np.isnan(
        result["frame_r_squared"].sel(law="pair law")
    ).all()  # 48 coefficients, 11 numbers
    table = make_table(fitted_laws.pair_law_rows(result))
    assert table["runs"].tolist() == 2 * [3, 3, 3, 2, 2]
    assert (
        len(format_table(table, fitted_laws.pair_law_columns(result)).splitlines())
        == 2 + 10
    )
    only = fitted_laws.fit_pair_law(cut, dataclasses.replace(LAW, fa=0.0), frames=6)
    assert (
        only["cosine"].sel(law="CA", space="whole")
        != result["cosine"].sel(law="CA", space="whole")
    ).any()
