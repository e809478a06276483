"""Force audit and pair law of models from outside, against those of the same network
of the package."""

import dataclasses

import numpy as np
import pytest
import torch
from numpy.testing import assert_allclose, assert_array_equal

from analysis.forces import audit_forces, fit_pair_law
from analysis.forces.audited_runs import audited_trajectory, read_audited_run
from dynamics import ModelFile, ModularSettings, TransformerSettings, simulate
from dynamics.errors import TrajectoryError
from dynamics.recording.recorded_network import recorded_loss
from dynamics.settings import SettingsError
from tests.analysis.own_networks import as_recorded, model_of, with_recorded_pairs

N = 7
SETTINGS = {
    "constant attention": ModularSettings(n=N, hidden=9),
    "transformer": TransformerSettings(n=N, dim=8, heads=2, hidden=12),
}


@pytest.fixture(scope="module", params=SETTINGS)
def trajectory(request):
    settings = SETTINGS[request.param]
    return simulate(settings, runs=2, steps=40, every=10, seed=4)


def test_the_gradient_is_that_of_the_same_network_of_the_package(trajectory):
    frames = np.arange(trajectory.sizes["step"])
    for run in range(2):
        model = model_of(trajectory, run)
        recorded = audited_trajectory(as_recorded(trajectory), model)
        result = read_audited_run(recorded, run, frames, model)
        expected = read_audited_run(trajectory, run, frames)
        assert_allclose(result.embedding, expected.embedding, rtol=1e-7)
        assert_allclose(result.targets, expected.targets, 1e-5, 1e-7)
        assert_array_equal(result.pairs, expected.pairs)


def test_the_audit_is_that_of_the_same_network_of_the_package(trajectory):
    one = trajectory.isel(run=[0])
    expected = audit_forces(one, frames=3, renamings=4)
    model = model_of(trajectory)
    result = audit_forces(as_recorded(one), frames=3, renamings=4, model=model)
    for name in ("r_squared", "cosine", "weight"):
        assert_allclose(result[name], expected[name], 1e-4, 1e-5, err_msg=name)


def test_each_run_has_its_own_recorded_training_pairs(trajectory):
    recorded = with_recorded_pairs(trajectory)
    model = model_of(trajectory, training_pairs=None)
    whole = audited_trajectory(recorded, model)
    frames = np.array([0, 2])
    for run in range(2):
        result = read_audited_run(whole, run, frames, model)
        expected = read_audited_run(trajectory, run, frames)
        assert_allclose(result.targets, expected.targets, 1e-5, 1e-7)
        assert_array_equal(result.pairs, expected.pairs)
    with pytest.raises(SettingsError, match="different training pairs"):
        recorded_loss(recorded, model)


def test_pairs_of_a_model_file_are_used_and_named_for_a_recorded_gradient(trajectory):
    model = model_of(trajectory)
    recorded = as_recorded(trajectory).assign(
        embedding=trajectory["embedding"][:, :, :N],
        embedding_gradient=trajectory["embedding"][:, :, :N],
    )
    audited = read_audited_run(recorded, 0, np.array([1]), model)
    pairs = np.unique(np.sort(model.training_pairs(), axis=1), axis=0)
    assert_array_equal(audited.pairs, pairs)
    result = audit_forces(recorded, frames=2, renamings=0, model=model)
    assert result.attrs["pairs"] == "the training pairs"


def test_a_pair_law_is_fitted(trajectory):
    all_pairs = model_of(trajectory, training_pairs=None)
    batch = [(torch.tensor([[0, 1], [2, 2]]), torch.tensor([1, 4]))]

    def loss(parameters, batch):
        logits = all_pairs.logits(parameters, batch[0])
        return torch.nn.functional.cross_entropy(logits, batch[1])

    model = model_of(trajectory, loss=loss, batches=lambda: batch)
    result = fit_pair_law(as_recorded(trajectory), frames=4, model=model)
    assert np.isfinite(result["r_squared"].sel(law="four fields")).all()


def rename_numbers(model, names):
    """The same network with other names u of its numbers, so that its answer is u(a) +
    u(b); names (token,) are permuted."""
    names = torch.from_numpy(names)
    numbers = names.argsort().numpy()  # old numbers by their new names

    def operation(a, b):
        return (names.numpy()[a] + names.numpy()[b]) % N

    return dataclasses.replace(
        model,
        logits=lambda parameters, pairs: model.logits(parameters, names[pairs]),
        embedding=lambda parameters: model.embedding(parameters)[names],
        training_pairs=lambda: numbers[model.training_pairs()],
        operation=operation,
    )


def test_numbers_under_other_names_are_audited_as_those_that_are_added(trajectory):
    recorded, model = as_recorded(trajectory).isel(run=[0]), model_of(trajectory)
    renamed = rename_numbers(model, np.array([0, 3, 1, 6, 5, 2, 4]))
    expected = audit_forces(recorded, frames=2, renamings=2, model=model)
    result = audit_forces(recorded, frames=2, renamings=2, model=renamed)
    for name in ("r_squared", "renamed_r_squared", "cosine", "weight"):
        assert_allclose(result[name], expected[name], 1e-5, err_msg=name)


@pytest.mark.parametrize("operation", [np.subtract, np.multiply])
def test_an_operation_that_is_no_sum_of_embeddings_is_refused(trajectory, operation):
    recorded = as_recorded(trajectory)
    model = model_of(trajectory, operation=lambda a, b: operation(a, b) % N)
    with pytest.raises(SettingsError, match="no sum of the numbers under any names"):
        audit_forces(recorded, frames=2, model=model)
    stored = recorded.assign_attrs(model.attributes(N)).assign(
        embedding=trajectory["embedding"], embedding_gradient=trajectory["embedding"]
    )
    with pytest.raises(TrajectoryError, match=r"operation: found other, expected a \+"):
        audit_forces(stored, frames=2)


def test_a_recorded_gradient_is_preferred(trajectory):
    model = ModelFile(embedding=lambda parameters: 1 / 0, modulus=N)
    recorded = as_recorded(trajectory).assign(
        embedding=trajectory["embedding"][:, :, :N],
        embedding_gradient=trajectory["embedding"][:, :, :N],
    )
    audited = read_audited_run(recorded, 0, np.array([1]), model)
    following = recorded["embedding_gradient"].values[0, [2]]
    assert_array_equal(audited.targets[0], -following)


def constant_loss(parameters, batch):
    return torch.tensor(1.0)


def wrong_loss(parameters, batch):
    return parameters["embedding"].sum() * torch.nan


@pytest.mark.parametrize(
    ("changes", "words"),
    [
        ({"loss": constant_loss, "batches": lambda: [0]}, "does not depend"),
        ({"loss": wrong_loss, "batches": lambda: [0]}, "returns nan at frame 0"),
        ({"loss": lambda parameters, batch: 3, "batches": lambda: [0]}, "Attribute"),
        ({"loss": wrong_loss, "batches": list}, "RuntimeError"),
        ({"training_pairs": None}, "batches"),
        ({"embedding": None}, r"without embedding\(parameters\)"),
    ],
)
def test_wrong_functions_are_reported(trajectory, changes, words):
    recorded = as_recorded(trajectory).assign_attrs(modulus=N)
    if "embedding" in changes:
        embedding = trajectory["embedding"]
        recorded = recorded.assign(embedding=embedding)
    model = model_of(trajectory, **changes)
    with pytest.raises(SettingsError, match=words):
        audit_forces(recorded, frames=2, model=model)


def test_what_is_missing_is_said(trajectory):
    recorded = as_recorded(trajectory).assign(embedding=trajectory["embedding"])
    with pytest.raises(TrajectoryError, match="--model FILE.py"):
        audit_forces(recorded, frames=2)
