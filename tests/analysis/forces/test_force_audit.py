"""The force audit: it finds forces where there are some, and none where there are
none."""

import dataclasses
import re

import numpy as np
import pandas as pd
import pytest
import torch
import xarray as xr
from numpy.testing import assert_allclose, assert_array_equal

from analysis import plots
from analysis.forces import audit_comparison, audited_runs, fitted_laws, force_audit
from analysis.forces.directions import cosine_similarity, without_shift_and_scaling
from analysis.output.tables import format_table, make_table
from analysis.progress_measures import trajectory_key_frequencies
from dynamics import (
    all_pairs,
    save_trajectory,
    simulate,
    training_pairs,
)
from dynamics.networks.from_trajectory import network_of, weights
from dynamics.particles import FIELD_NAMES, ParticleSystem, force_fields, group_pairs
from dynamics.settings import (
    ModularSettings,
    ParticleSettings,
    TransformerSettings,
)
from dynamics.tasks import operation_pairs, operation_splits
from tests.laws import OWN_LAW, fields_by_loops

CONSTANTS = np.array([0.7, -2.0, 0.3, 1.5])


@pytest.fixture(scope="module")
def trajectory():
    return simulate(
        ModularSettings(n=7, hidden=9),
        runs=3,
        seed=5,
        steps=40,
        every=10,
    )


@pytest.fixture
def planted_gradient(monkeypatch):
    """Replaces -dL/dE by a function of the embeddings and the training pairs."""

    def plant(function):
        def gradient(network, result, chosen):
            return -function(
                result["embedding"].detach().numpy().astype(np.float64),
                all_pairs(7)[chosen],
            )

        monkeypatch.setattr(audited_runs, "embedding_gradient", gradient)

    return plant


def training_list(trajectory, run):
    s = network_of(trajectory).settings
    chosen = training_pairs(
        s.n, s.train_pairs, trajectory["seed"].values[run : run + 1]
    )[0]
    return all_pairs(s.n)[chosen], chosen


# ---------------------------------------------------------------------- array functions


@pytest.mark.parametrize("scale", [1e-12, 1.0, 1e9])
def test_a_fit_is_that_of_plain_least_squares(scale, generator):
    target = scale * generator.normal(size=(3, 7, 2))
    four = generator.normal(size=(4, 3, 7, 2))
    result = force_audit.fit_force_fields(target, four)
    for frame in range(3):
        x, y = four[:, frame].reshape(4, -1).T, target[frame].ravel()
        expected, residual, *_ = np.linalg.lstsq(x, y, rcond=None)
        assert_allclose(result.coefficients[frame], expected, rtol=1e-9)
        assert_allclose(result.r_squared[frame], 1 - residual[0] / (y @ y), rtol=1e-9)
        expected *= np.linalg.norm(x, axis=0) / np.linalg.norm(y)
        assert_allclose(result.weights[frame], expected, rtol=1e-9)


def test_fits_to_zero_vectors_are_nan(generator):
    four = generator.normal(size=(4, 2, 5, 2))
    four[1] = 0
    assert all(
        np.isnan(value).all()
        for value in force_audit.fit_force_fields(np.zeros((2, 5, 2)), four)
    )
    assert (
        force_audit.fit_force_fields(
            generator.normal(size=(2, 5, 2)), four
        ).coefficients[:, 1]
        == 0
    ).all()
    assert np.isnan(cosine_similarity(np.zeros((1, 5, 2)), four[:1, 0])).all()


def test_the_normalised_part_has_neither_shift_nor_size(generator):
    x, motion = generator.normal(size=(2, 6, 5, 3))
    part = without_shift_and_scaling(motion, x)
    assert_allclose(part.sum(axis=1), 0, atol=1e-12)
    assert_allclose(
        ((x - x.mean(1, keepdims=True)) * part).sum(axis=(1, 2)), 0, atol=1e-12
    )
    assert_allclose(without_shift_and_scaling(part, x), part, atol=1e-12)
    assert_allclose(without_shift_and_scaling(motion + 5 + 3 * x, x), part, atol=1e-12)
    assert_array_equal(without_shift_and_scaling(motion[:, :1], x[:, :1]), 0)
    assert_array_equal(without_shift_and_scaling(5 + 3 * x, x), 0)


def test_renamings_never_keep_the_task():
    assert force_audit.random_renamings(3, 0, 5) == []
    for n in (4, 5, 17):
        for names in force_audit.random_renamings(n, 1, 30):
            assert sorted(names) == list(range(n))
            i, j = np.triu_indices(n)
            classes = {
                (int(a), int(b))
                for a, b in zip((i + j) % n, (names[i] + names[j]) % n, strict=True)
            }
            assert len(classes) > n


@pytest.mark.parametrize(("n", "dim", "share"), [(2, 1, 1.0), (3, 3, 0.5)])
def test_networks_of_any_size_are_audited(n, dim, share):
    settings = ModularSettings(n=n, dim=dim, train_share=share)
    result = force_audit.audit_forces(
        simulate(settings, runs=2, steps=2, every=1), renamings=1
    )
    assert result.sizes["step"] == 3


def test_the_gradient_is_that_of_finite_differences(trajectory):
    network, result = network_of(trajectory), weights(trajectory, run=1)
    _, chosen = training_list(trajectory, 1)
    gradient = audited_runs.embedding_gradient(network, result, chosen)
    double = {name: weight.double() for name, weight in result.items()}
    share, pairs = (
        torch.from_numpy(chosen / chosen.sum()),
        torch.from_numpy(all_pairs(7)),
    )
    for token, axis in ((0, 0), (3, 1), (6, 0)):
        losses = []
        for sign in (1, -1):
            moved = {**double, "embedding": double["embedding"].clone()}
            moved["embedding"][:, token, axis] += sign * 1e-6
            losses.append(network.loss(moved, pairs, share).detach().numpy())
        assert_allclose(
            gradient[:, token, axis],
            (losses[0] - losses[1]) / 2e-6,
            rtol=1e-4,
            atol=1e-8,
        )
    recorded = trajectory["gradient_norm"].sel(layer="embedding")[1, 0]
    assert_allclose(np.linalg.norm(gradient[0]), recorded, rtol=1e-5)


# ---------------------------------------------------------------------- of a trajectory


@pytest.fixture(scope="module")
def transformers():
    settings = TransformerSettings(n=7, dim=6, heads=2, equals_token=True)
    return simulate(settings, runs=2, seed=3, steps=40, every=10)


def test_the_gradient_of_a_transformer_is_that_of_finite_differences(transformers):
    network, result = network_of(transformers), weights(transformers, run=1)
    read = audited_runs.read_audited_run(transformers, 1, np.array([0, 4]))
    data = operation_pairs(network.settings)[
        operation_splits(network.settings, np.array([4]))[0][0]
    ]
    assert read.embedding.shape == (2, 7, 6)
    assert {tuple(sorted(pair)) for pair in data.tolist()} == {
        tuple(pair) for pair in read.pairs.tolist()
    }
    double = {name: weight[4].double() for name, weight in result.items()}
    for token, axis in ((0, 0), (6, 5)):
        losses = []
        for sign in (1, -1):
            moved = {**double, "embedding": double["embedding"].clone()}
            moved["embedding"][token, axis] += sign * 1e-6
            losses.append(network.losses(moved, torch.from_numpy(data)).mean().item())
        assert_allclose(
            -read.targets[0, 1, token, axis], (losses[0] - losses[1]) / 2e-6, rtol=1e-4
        )
    recorded = transformers["gradient_norm"].sel(layer="embedding")[1, 0]
    whole = audited_runs.transformer_gradient(
        network, {name: weight[:1] for name, weight in result.items()}, data
    )
    assert_allclose(np.linalg.norm(whole), recorded, rtol=1e-4)


def test_transformers_are_audited_in_the_planes_of_their_key_frequencies(
    transformers, monkeypatch
):
    """A gradient that is the particle force of one plane, there and nowhere else, is
    found in this plane."""
    keys = trajectory_key_frequencies(transformers)
    assert keys.shape == (2, 3)
    assert keys.any(axis=1).all()
    keys = np.array([[True, False, False], [True, False, True]])
    read = audited_runs.read_audited_run

    def planted(trajectory, run, frames, model):
        result = read(trajectory, run, frames)
        component = np.stack(
            [np.cos(2 * np.pi * np.arange(7) / 7), np.sin(2 * np.pi * np.arange(7) / 7)]
        )
        plane = np.linalg.qr((component @ result.embedding).swapaxes(-1, -2))[0]
        system = ParticleSystem(ParticleSettings(n=7), pairs=result.pairs)
        force = system.force(result.embedding @ plane)[0] @ plane.swapaxes(-1, -2)
        return result._replace(targets=np.stack([2 * force, result.targets[1]]))

    monkeypatch.setattr(force_audit, "read_audited_run", planted)
    result = force_audit.audit_forces(transformers, renamings=1, keys=keys)
    in_planes = (
        result["plane_cosine"]
        .sel(target="gradient")
        .transpose("run", "frequency", "step")
        .values
    )
    assert_allclose(in_planes[:, 0], 1)
    assert (in_planes[1, 2] < 0.999).all()
    assert np.isnan(in_planes[:, 1]).all()
    assert (result["cosine"].sel(target="gradient") < 0.999).all()
    table = make_table(force_audit.audit_rows(result))
    headings = [column.heading for column in force_audit.audit_columns(result)]
    assert {"cosine planes", "R² planes", "renamed planes"} < set(headings)
    assert_allclose(
        table["plane_cosine"][0],
        [1 / 2 + in_planes[1, [0, 2], 0].mean() / 2],
        rtol=1e-6,
    )
    assert "planes of the key frequencies" in force_audit.audit_legend(result)


def test_a_gradient_made_of_the_forces_is_explained_whole(trajectory, planted_gradient):
    """-dL/dE replaced by the four fields with known constants: the audit finds these,
    and R² = 1."""
    planted_gradient(
        lambda x, pairs: np.einsum(
            "f,f...->...", CONSTANTS, force_fields(x, group_pairs(7, pairs)).force
        )
    )
    result = force_audit.audit_forces(trajectory).sel(target="gradient")
    assert_allclose(result["r_squared"], 1, atol=1e-9)
    expected = np.broadcast_to(CONSTANTS, result["coefficient"].shape)
    assert_allclose(result["coefficient"].transpose(..., "field"), expected, rtol=1e-5)
    assert result["renamed_r_squared"].sel(part="normalised").mean() < 0.97


def test_a_gradient_that_is_the_law_has_cosine_one(trajectory, planted_gradient):
    law = ParticleSettings(n=7, fa=2.0)
    planted_gradient(lambda x, pairs: 3 * ParticleSystem(law, pairs=pairs).force(x)[0])
    result = force_audit.audit_forces(trajectory, ParticleSettings(fa=2.0)).sel(
        target="gradient"
    )
    assert_allclose([result["cosine"], result["law_r_squared"]], 1)
    other = force_audit.audit_forces(trajectory, ParticleSettings(fa=0.0)).sel(
        target="gradient"
    )
    assert (other["cosine"] < 0.999).all()


OWN = ParticleSettings(law=OWN_LAW, fa=0.7)
ONE = ParticleSettings(law=OWN_LAW[1:2])


@pytest.mark.parametrize("law", [OWN, ONE, ParticleSettings(repulsion="1/r**3")])
def test_a_gradient_made_of_another_law_is_explained_whole(
    law, trajectory, planted_gradient
):
    particles = dataclasses.replace(law, n=7)
    planted_gradient(
        lambda x, pairs: 3 * ParticleSystem(particles, pairs=pairs).force(x)[0]
    )
    result = force_audit.audit_forces(trajectory, law)
    assert result["field"].values.tolist() == [force.name for force in law.forces]
    gradient = result.sel(target="gradient")
    for name in ("cosine", "law_r_squared", "r_squared"):
        assert_allclose(gradient[name], 1, atol=1e-9)
    by_ca = force_audit.audit_forces(trajectory).sel(target="gradient")
    assert (by_ca["cosine"] < 0.999).all()
    table = make_table(force_audit.audit_rows(result))
    assert_allclose(table["r_squared"], 1, atol=1e-9)
    count = len(law.forces)
    assert {f"weight_{force.name}" for force in law.forces} < set(table.columns)
    headings = [column.heading for column in force_audit.audit_columns(result)]
    assert f"R² {count} field{'s' * (count > 1)}" in headings
    number = {1: "One random direction ", 4: "Four random directions "}[count]
    assert number in force_audit.audit_legend(result)
    axes = plots.plot_audit(result, "networks").axes
    names = [force.name.replace("_", " ") for force in law.forces]
    assert axes[2].get_legend_handles_labels()[1] == names


def test_another_law_is_audited_in_more_dimensions(transformers, monkeypatch):
    read = audited_runs.read_audited_run

    def planted(trajectory, run, frames, model):
        result = read(trajectory, run, frames)
        fields = [fields_by_loops(x, result.pairs, OWN_LAW) for x in result.embedding]
        force = [constants @ field.reshape(4, -1) for field, _ in fields]
        targets = np.reshape(force, result.embedding.shape)
        return result._replace(targets=np.stack([targets, result.targets[1]]))

    constants = np.array([0.1, 2.0, -0.5, 1.0])
    monkeypatch.setattr(force_audit, "read_audited_run", planted)
    result = force_audit.audit_forces(
        transformers, OWN, frames=np.array([1, 3]), renamings=1
    )
    gradient = result.sel(target="gradient")
    assert_allclose(gradient["r_squared"], 1, atol=1e-8)
    expected = np.broadcast_to(constants, gradient["coefficient"].shape)
    assert_allclose(
        gradient["coefficient"].transpose(..., "field"), expected, rtol=1e-5
    )


def test_moments_are_named_by_the_law(trajectory):
    names = ["generalising", "generalised", "last"]
    moments = xr.DataArray(
        [[-1, 1, 4]] * 3, dims=("run", "moment"), coords={"moment": names}
    )
    audits = audit_comparison.combine_audits(
        {"a.nc": audit_comparison.audit_moments(trajectory, moments, OWN)}
    )
    headings = [column.heading for column in audit_comparison.moment_columns(audits)]
    assert {"cosine law", "R² 4 fields"} < set(headings)
    assert "cosine with the given law" in audit_comparison.moment_legend(audits)
    assert plots.plot_audits(audits).axes[0].get_ylabel() == "cosine with the given law"


def test_the_update_is_the_displacement_to_the_next_frame(trajectory):
    result = force_audit.audit_forces(trajectory, renamings=0)
    x = trajectory["embedding"].values.astype(np.float64)
    for run in range(3):
        pairs, _ = training_list(trajectory, run)
        four = force_fields(x[run, 1], group_pairs(7, pairs)).force
        expected = force_audit.fit_force_fields(x[run, 2] - x[run, 1], four)
        one = result.sel(target="update", part="whole").isel(run=run, step=1)
        assert_allclose(one["r_squared"], expected.r_squared, rtol=1e-4)
        assert_allclose(one["coefficient"], expected.coefficients, rtol=1e-3, atol=1e-9)
    assert np.isnan(result["cosine"].sel(target="update").isel(step=-1)).all()
    assert np.isnan(result["renamed_r_squared"]).all()


def test_frames_after_divergence_are_masked(trajectory):
    cut = trajectory.copy()
    cut["last_step"] = trajectory["last_step"].copy(data=[40, 10, 40])
    result = force_audit.audit_forces(cut)["cosine"].sel(
        target="gradient", part="whole"
    )
    assert_array_equal(
        np.isfinite(result.transpose("run", "step"))[1],
        [True, True, False, False, False],
    )
    assert np.isfinite(result.isel(run=[0, 2])).all()


MOMENTS = xr.DataArray(
    [[2, -1, 4], [0, 1, 4]], dims=("run", "moment"), coords={"moment": ["a", "b", "c"]}
)


def test_moments_have_the_values_of_their_frames(transformers):
    keys = trajectory_key_frequencies(transformers)
    result = audit_comparison.audit_moments(
        transformers, MOMENTS, ParticleSettings(fa=2.0), keys
    )
    assert result["recorded_step"].values.tolist() == [
        [20, pytest.approx(np.nan, nan_ok=True), 40],
        [0, 10, 40],
    ]
    audit = force_audit.audit_forces(
        transformers, ParticleSettings(fa=2.0), keys=keys
    ).sel(target="gradient")
    law = fitted_laws.fit_pair_law(transformers, ParticleSettings(fa=2.0), keys=keys)[
        "r_squared"
    ].sel(law="pair law")
    part = audit.sel(part="normalised")
    for run, frames in enumerate(MOMENTS.values):
        for moment, frame in enumerate(frames):
            here, there = {"run": run, "moment": moment}, {"run": run, "step": frame}
            whole, planes = (
                result.sel(space=space).isel(here) for space in ("whole", "planes")
            )
            for name in ("cosine", "r_squared", "renamed_r_squared"):
                expected = part[name].isel(there) if frame >= 0 else np.nan
                assert_allclose(whole[name], expected)
                expected = (
                    audit[f"plane_{name}"].isel(there).mean() if frame >= 0 else np.nan
                )
                assert_allclose(planes[name], expected)
            expected = law.isel(there).sel(space="planes") if frame >= 0 else np.nan
            assert_allclose(planes["pair_law_r_squared"], expected, atol=1e-9)


def test_files_are_compared_by_the_settings_that_differ(
    transformers, trajectory, output_of, tmp_path
):
    save_trajectory(transformers, "four.nc")
    flat = simulate(
        TransformerSettings(n=7, dim=2, heads=2, attention_rate=0.5),
        runs=3,
        steps=40,
    )
    save_trajectory(flat, "flat.nc")
    out = output_of("analysis.audit four.nc flat.nc --csv t.csv --x dim --out both.nc")
    assert "renamed tokens" in out
    table = pd.read_csv("t.csv")
    last = table[table["moment"] == "last"]
    assert last[["file", "attention_rate", "dim", "runs", "space"]].values.tolist() == [
        ["four.nc", 1, 6, 2, "whole"],
        ["four.nc", 1, 6, 2, "planes"],
        ["flat.nc", 0.5, 2, 3, "whole"],
    ]
    assert (last["cosine_low"] <= last["cosine"]).all()
    with xr.open_dataset("both.nc") as result:
        assert result.attrs["differing"] == "attention_rate dim equals_token"
        panels = plots.plot_audits(result, "dim").axes
    assert panels[0].get_xlabel() == "d"
    curves = ["attention rate α = 0.5", "attention rate α = 1"]
    assert panels[0].get_legend_handles_labels()[1] == curves
    save_trajectory(trajectory, "modular.nc")
    save_trajectory(trajectory, "again.nc")
    assert re.search("again.nc +last", output_of("analysis.audit modular.nc again.nc"))
    assert (tmp_path / "audits.png").stat().st_size > 1000


def test_a_setting_that_is_none_is_missing():
    files = [
        simulate(ModularSettings(n=5, embedding_weight_decay=decay), runs=1, steps=1)
        for decay in (None, 0.0)
    ]
    differing = audit_comparison.differing_settings(files)
    np.testing.assert_equal(differing, {"embedding_weight_decay": [np.nan, 0.0]})


def test_the_table_has_means_at_a_few_epochs(trajectory):
    audit = force_audit.audit_forces(trajectory)
    table = make_table(force_audit.audit_rows(audit, weight_decay=0.5))
    assert table["epoch"].tolist() == [0, 20, 40]
    assert len(table.columns) == 3 + 3 * (6 + 2 * len(FIELD_NAMES))
    mean = audit["cosine"].sel(target="gradient", part="whole").isel(step=2).mean()
    assert_allclose(table["cosine_whole"][1], mean)
    assert (table["r_squared_high"] <= 1).all()
    assert len(format_table(table, force_audit.audit_columns(audit)).splitlines()) == 5
