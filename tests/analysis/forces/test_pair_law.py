"""The pair law: it recovers known laws, predicts held-out runs and frames, and finds
none where there is none."""

import dataclasses

import numpy as np
import pytest
from numpy.testing import assert_allclose, assert_array_equal

from analysis.forces import fitted_laws
from analysis.forces.audited_runs import AuditedRun
from analysis.output.tables import format_table, make_table
from dynamics import all_pairs, simulate
from dynamics.particles import ParticleSystem
from dynamics.settings import ModularSettings, ParticleSettings

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
    return fitted_laws._fit_space(samples, 3, 100).assign_coords(
        law=list(fitted_laws.LAWS)
    )


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
