"""Numbers of recorded models that depend on how the model is trained and recorded:
several parameter groups, pretraining, tied weights, frames that were left out."""

import json

import numpy as np
import pytest
import torch

import dynamics
from analysis import loss_geometry, transitions
from analysis.forces.audited_runs import read_audited_run
from analysis.progress_measures.token_gradients import (
    gradient_symmetricity,
    random_triples,
)
from analysis.transitions import gradient_peaks
from dynamics import ModelFile, Selection
from dynamics.errors import TrajectoryError

N = 5


class Groups(torch.nn.Module):
    def __init__(self):
        super().__init__()
        self.a = torch.nn.Parameter(torch.ones(2))
        self.b = torch.nn.Parameter(torch.ones(3))


def quadratic(parameters, batch):
    """A loss whose Hessian has the eigenvalues 2 of a and 4 of b."""
    return parameters["a"].square().sum() + 2 * parameters["b"].square().sum()


QUADRATIC = ModelFile(loss=quadratic, batches=lambda: [torch.zeros(4)])


def train(model, optimizer, steps, step=lambda loss: None):
    for _ in range(steps):
        optimizer.zero_grad()
        loss = quadratic(dict(model.named_parameters()), None)
        loss.backward()
        optimizer.step()
        step(loss)


@pytest.mark.parametrize("rates", [(1e-3, 0.2), (0.2, 1e-3), (0.0, 0.1)])
def test_groups_have_their_own_learning_rates(rates):
    model = Groups()
    groups = [
        {"params": [model.a], "lr": rates[0]},
        {"params": [model.b], "lr": rates[1]},
    ]
    optimizer = torch.optim.SGD(groups)
    with dynamics.record(model, optimizer, "groups.nc", weights=True) as recording:
        train(model, optimizer, 2, lambda loss: recording.step(loss=loss))
    trajectory = dynamics.open_trajectory("groups.nc")
    result = loss_geometry.edge_of_stability(trajectory, [1], QUADRATIC)
    expected = max(2 * rates[0], 4 * rates[1]) / 2
    assert result["relative_sharpness"].item() == pytest.approx(expected, rel=1e-4)


def test_updates_of_adam_are_counted_from_its_beginning():
    """The same model has the same preconditioner whether all updates are recorded or
    only the last ones."""
    values = {}
    for before in (0, 7):
        model = Groups()
        optimizer = torch.optim.Adam(model.parameters(), lr=0.01)
        train(model, optimizer, before)
        path = f"after-{before}.nc"
        with dynamics.record(
            model, optimizer, path, weights=True, moments=True
        ) as recording:
            train(model, optimizer, 10 - before, lambda loss: recording.step(loss=loss))
        trajectory = dynamics.open_trajectory(path)
        result = loss_geometry.edge_of_stability(trajectory, [10 - before], QUADRATIC)
        values[before] = result["relative_preconditioned"].item()
    assert values[7] == pytest.approx(values[0], rel=1e-4)


class TiedNetwork:
    """Logits E tanh(E_a + 2 E_b) of a table E; `inputs` may be another table."""

    settings = type("Settings", (), {"n": N})

    def logits(self, weights, pairs, inputs=None):
        table = weights["embedding"]
        rows = table if inputs is None else inputs
        hidden = torch.tanh(rows[pairs[:, 0]] + 2 * rows[pairs[:, 1]])
        return hidden @ table.T


def test_the_last_layer_of_tied_weights_keeps_its_table(generator):
    table = torch.from_numpy(generator.standard_normal((N, 3)))
    triples = random_triples(N, 0)
    cosines = []
    for a, b, label in triples:
        rows = torch.stack([table[a], table[b]]).requires_grad_()
        logits = TiedNetwork().logits(
            {"embedding": table}, torch.tensor([[0, 1]]), rows
        )
        (gradient,) = torch.autograd.grad(logits[0, label], rows)
        cosines.append(torch.cosine_similarity(*gradient, dim=0).item())
    result = gradient_symmetricity(TiedNetwork(), {"embedding": table}, triples)
    assert result == pytest.approx(np.mean(cosines))


def test_the_gradient_of_left_out_frames_is_found_or_refused():
    torch.manual_seed(0)
    model = torch.nn.Sequential(torch.nn.Embedding(N, 2), torch.nn.Linear(2, N))
    optimizer = torch.optim.Adam(model.parameters(), lr=0.05)
    with dynamics.record(
        model,
        optimizer,
        "audit.nc",
        every=2,
        embedding="0.weight",
        modulus=N,
        embedding_gradient=True,
    ) as recording:
        for _ in range(21):
            optimizer.zero_grad()
            loss = torch.nn.functional.cross_entropy(
                model(torch.arange(N)), torch.arange(N)
            )
            loss.backward()
            optimizer.step()
            recording.step(loss=loss)
    whole = dynamics.open_trajectory("audit.nc")
    expected = read_audited_run(whole, 0, np.array([0, 3, 6])).targets[0]
    few = whole.isel(step=[0, 3, 6, 9])
    result = read_audited_run(few, 0, np.arange(3)).targets[0]
    np.testing.assert_array_equal(result, expected)
    few.encoding.pop("source")
    with pytest.raises(TrajectoryError, match="whole trajectory is needed"):
        read_audited_run(few, 0, np.arange(3))


@pytest.fixture(scope="module")
def stairs(tmp_path_factory):
    """A loss that falls in three steps, and a norm that is large from 20 to 70 steps
    after the first of them."""
    path = tmp_path_factory.mktemp("stairs") / "stairs.nc"
    model = torch.nn.Linear(2, 1, bias=False)
    optimizer = torch.optim.SGD(model.parameters(), lr=0.0)
    levels = np.repeat([1.0, 0.05, 0.02, 0.005], [300, 150, 150, 100])
    with dynamics.record(model, optimizer, path) as recording:
        for step, level in enumerate(levels):
            optimizer.zero_grad()
            scale = 5.0 if 320 <= step < 370 else 0.1
            (scale * model(torch.ones(1, 2)).sum()).backward()
            optimizer.step()
            recording.step(loss=torch.tensor(level * (1 + 1e-3 * np.sin(37.0 * step))))
    return dynamics.open_trajectory(path)


def test_events_are_those_of_all_analyses(stairs):
    events = transitions.analyse_events(stairs)
    result = transitions.peak_coincidence(stairs)
    assert int(events["drops"][0]) == 3
    assert int(result["events"].sel(kind="drop")[0]) == 3


@pytest.mark.parametrize("spacing", ["even", "early"])
def test_lags_are_times_whatever_the_spacing_of_frames(stairs, spacing):
    selected = Selection(frames=200, spacing=spacing).apply(stairs)
    one = gradient_peaks.loss_and_norm_series(selected)[0]
    drop = gradient_peaks.loss_events_by_kind(one.falling, False, one.detection)[
        "drop"
    ][0]
    peaks = gradient_peaks.find_norm_peaks(one.norms[0])
    lag = gradient_peaks.peak_lags([drop], peaks, 100, one.time)[0]
    steps = selected["step"].values
    middle = np.interp(drop.middle, np.arange(len(steps)), steps)
    assert lag == pytest.approx(steps[peaks.frame[0]] - middle)
    assert 15 < lag < 80


def recorded_edge(
    optimizer_of, change=lambda optimizer, step: None, frames=(2,), moments=False
):
    model = Groups()
    optimizer = optimizer_of(model)
    options = {"weights": True, "overwrite": True, "moments": moments}
    with dynamics.record(model, optimizer, "numbers.nc", **options) as recording:

        def step(loss):
            change(optimizer, recording.norms.updates)
            recording.step(loss=loss)

        train(model, optimizer, 2, step)
    trajectory = dynamics.open_trajectory("numbers.nc").load()
    result = loss_geometry.edge_of_stability(trajectory, list(frames), QUADRATIC)
    return trajectory, result


def test_momentum_that_changes_is_that_of_each_frame():
    def cycle(optimizer, step):
        optimizer.param_groups[0]["momentum"] = 0.9 - 0.2 * step

    trajectory, result = recorded_edge(
        lambda model: torch.optim.SGD(model.parameters(), lr=0.01, momentum=0.9),
        cycle,
        (0, 1, 2),
    )
    limits = 2 * (1 + np.array([0.9, 0.7, 0.5])) / 0.01
    np.testing.assert_allclose(result["relative_sharpness"][0], 4 / limits, rtol=1e-4)
    assert "β = 0.5 to 0.9" in result.attrs["limit_note"]
    names = json.loads(trajectory.attrs["optimizer_numbers"])
    momenta = trajectory["optimizer_numbers"][0, :, :, names.index("momentum")]
    np.testing.assert_allclose(momenta, np.transpose([[0.9, 0.7, 0.5]] * 2))


def test_files_without_the_numbers_have_the_limit_of_gradient_descent():
    trajectory, known = recorded_edge(
        lambda model: torch.optim.SGD(model.parameters(), lr=0.01, momentum=0.9)
    )
    assert known["relative_sharpness"].item() == pytest.approx(0.04 / 3.8, rel=1e-4)
    old = trajectory.drop_vars("optimizer_numbers")
    del old.attrs["optimizer_numbers"]
    result = loss_geometry.edge_of_stability(old, [2], QUADRATIC)
    assert result["relative_sharpness"].item() == pytest.approx(0.02, rel=1e-4)
    assert result.attrs["limit_formula"] == "2/lr"
    assert "does not have momentum and weight decay" in result.attrs["limit_note"]


class Halved(torch.optim.SGD):
    """A step of its own."""

    def step(self, closure=None):
        super().step()
        super().step()


@pytest.mark.parametrize(
    ("kind", "note"),
    [
        (torch.optim.Adagrad, "for Adagrad only a scale"),
        (Halved, "for Halved only a scale"),
        (torch.optim.AdamW, "for AdamW only a scale"),
        (torch.optim.SGD, "2/lr is the limit of gradient descent."),
    ],
)
def test_other_optimizers_are_compared_with_gradient_descent(kind, note):
    _, result = recorded_edge(lambda model: kind(model.parameters(), lr=0.01))
    assert result["relative_sharpness"].item() == pytest.approx(0.02, rel=1e-4)
    assert note in result.attrs["limit_note"]


@pytest.mark.parametrize(
    ("kind", "is_scale"),
    [(torch.optim.NAdam, True), (torch.optim.RAdam, True), (torch.optim.Adam, False)],
)
def test_notes_tell_limits_of_adam_from_those_of_variants(kind, is_scale):
    _, result = recorded_edge(
        lambda model: kind(model.parameters(), lr=0.01), moments=True
    )
    note = f"and for {kind.__name__} only a scale."
    assert ("that of Adam, " + note in result.attrs["limit_note"]) == is_scale
    assert "preconditioned eigenvalue" in result.attrs["limit_note"]


def test_momentum_of_one_group_is_named():
    def groups(model):
        return torch.optim.SGD(
            [
                {"params": [model.a], "momentum": 0.5, "weight_decay": 1.0},
                {"params": [model.b]},
            ],
            lr=0.01,
        )

    _, result = recorded_edge(groups)
    expected = max(3 * 0.01 / 3, 4 * 0.01 / 2)
    assert result["relative_sharpness"].item() == pytest.approx(expected, rel=1e-4)
    assert "β = 0 to 0.5" in result.attrs["limit_note"]
    assert result.attrs["limit_formula"] == "2(1+β)/lr − w"
