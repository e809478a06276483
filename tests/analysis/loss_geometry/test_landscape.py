"""Landscapes of models whose loss is known, and barriers between equal networks."""

import signal

import numpy as np
import pytest
import torch
import xarray as xr
from numpy.testing import assert_allclose

import dynamics
from analysis.linearization import training_model
from analysis.loss_geometry import (
    loss_barriers,
    loss_landscape,
    parameter_planes,
)
from analysis.loss_geometry.parameter_planes import losses_at, random_plane
from analysis.plots import plot_landscape
from dynamics import ModelFile, ModularSettings, SettingsError

POSITIONS = torch.tensor([[3.0, 1.0], [1.0, 1.5], [0.5, 0.125], [0.0, 0.0]]).double()


def valley(x, y):
    """A loss of two parameters."""
    return x**2 + 10 * (y - x**2) ** 2


@pytest.fixture
def points(tmp_path):
    """A model of two parameters with four frames."""
    for step, position in enumerate(POSITIONS):
        torch.save({"place": position}, f"point-{step}.pt")

    def loss(parameters, batch):
        return valley(*parameters["place"]) + 0 * batch.sum()

    functions = ModelFile(loss=loss, batches=lambda: [torch.zeros(1, 1)])
    return dynamics.collect_checkpoints([tmp_path], model=functions), functions


def test_a_model_without_filters_has_no_random_plane(points):
    trajectory, functions = points
    with pytest.raises(SettingsError, match="plane: found random, and no parameter"):
        loss_landscape(trajectory, [3], "random", points=3, functions=functions)


@pytest.mark.parametrize(
    ("plane", "frames"), [("trajectory", [0, 1, 2, 3]), ("frames", [0, 1, 3])]
)
def test_a_model_of_two_parameters_has_its_exact_loss_everywhere(points, plane, frames):
    trajectory, functions = points
    result = loss_landscape(trajectory, frames, plane, points=9, functions=functions)
    at = POSITIONS[frames].numpy()
    coordinates = np.stack([result["frame_u"], result["frame_v"]], -1)
    # the plane is the whole space, so that coordinates are moved and rotated positions
    movement = np.linalg.lstsq(coordinates - coordinates[0], at - at[0], rcond=None)[0]
    assert_allclose(movement @ movement.T, np.eye(2), atol=1e-12)
    v, u = np.meshgrid(result["v"], result["u"], indexing="ij")
    places = (np.stack([u, v], -1) - coordinates[0]) @ movement + at[0]
    exact = valley(places[..., 0], places[..., 1])
    assert_allclose(result["loss"], exact, rtol=1e-9, atol=1e-12)
    assert_allclose(result["distance"], 0, atol=1e-9)
    assert_allclose(result["frame_loss"], valley(*at.T))
    assert_allclose(result["projected_loss"], valley(*at.T), atol=1e-12)
    assert float(result["explained"].sum()) == pytest.approx(1)


@pytest.fixture(scope="module")
def trained():
    settings = ModularSettings(n=7, hidden=16)
    return dynamics.simulate(settings, runs=3, steps=200, every=20)


def test_the_plane_of_a_trajectory_has_its_largest_variances(trained):
    result = loss_landscape(trained, range(11), points=3)
    model = training_model(trained, 0)
    rows = torch.stack([model.row(0, frame) for frame in range(11)]).numpy()
    others = rows - rows[-1]
    powers = np.linalg.eigvalsh(others @ others.T)[::-1]
    assert_allclose(result["explained"], powers[:2] / powers.sum())
    left = np.square(result["distance"]).sum() / np.square(others).sum()
    assert left == pytest.approx(1 - powers[:2].sum() / powers.sum())
    loss = trained["loss"].values[0, :, 0]
    assert_allclose(result["frame_loss"], loss, rtol=1e-5)


def test_random_directions_have_the_norms_of_the_filters(trained):
    model = training_model(trained, 0)
    row = model.row(0, -1)
    plane = random_plane(model, row, seed=1)
    weights = model.unflatten(row)
    for direction in plane.directions:
        for name, piece in model.unflatten(direction).items():
            if piece.ndim < 2:
                assert not piece.any()
            else:
                torch.testing.assert_close(piece.norm(dim=1), weights[name].norm(dim=1))
    result = loss_landscape(trained, [10], "random", points=3, seed=1)
    middle = float(result["loss"].sel(u=0, v=0))
    assert middle == pytest.approx(float(result["frame_loss"][0]))
    again = loss_landscape(trained, [10], "random", points=3, seed=1)
    xr.testing.assert_identical(result, again)


def test_permuted_hidden_units_are_no_barrier_after_matching(trained):
    """The second run is the first one with its hidden units in another order."""
    first = trained.isel(run=[0])
    order = np.random.default_rng(0).permutation(16)
    names = ["hidden_weight", "hidden_bias", "output_weight"]
    axes = {name: first[name].get_axis_num("hidden") for name in names}
    permuted = first.assign(
        {
            name: first[name].copy(data=first[name].values.take(order, axis=axis))
            for name, axis in axes.items()
        }
    )
    both = xr.concat([first, permuted.assign_coords(seed=("run", [0]))], "run")
    result = loss_barriers(both.assign_attrs(first.attrs), points=11).isel(pair=0)
    assert float(result["barrier"]) > 0.1
    assert float(result["matched_barrier"]) == pytest.approx(0, abs=1e-9)
    assert_allclose(result["loss"][[0, -1]], result["matched_loss"][0])


def test_barriers_of_all_pairs_are_those_of_the_definition(trained):
    result = loss_barriers(trained, points=5)
    assert list(result["first"].values) == [0, 0, 1]
    assert list(result["second"].values) == [1, 2, 2]
    loss = result["loss"].values
    straight = np.linspace(loss[:, 0], loss[:, -1], 5, axis=1)
    assert_allclose(result["barrier"], (loss - straight).max(axis=1))
    model = training_model(trained, 1)
    middle = (model.row(0, -1) + training_model(trained, 2).row(0, -1)) / 2
    assert loss[2, 2] == pytest.approx(float(model.losses(0, -1)[0](middle)))


def test_wrong_arguments_are_refused(trained, points):
    with pytest.raises(SettingsError, match="three for this plane"):
        loss_landscape(trained, [0, 1], "frames")
    with pytest.raises(SettingsError, match="frames on a line"):
        loss_landscape(trained, [0, 1, 1], "frames")
    with pytest.raises(SettingsError, match="two or more that have not diverged"):
        loss_barriers(trained.isel(run=[0]))
    with pytest.raises(SettingsError, match="units: found head"):
        loss_barriers(trained, units={"head": 0})
    with pytest.raises(SettingsError, match="axes of the same length"):
        loss_barriers(trained, units={"hidden_weight": 0, "output_weight": 0})


def test_an_interrupted_plane_has_the_rows_before(points, monkeypatch):
    trajectory, functions = points
    whole = loss_landscape(trajectory, [0, 1, 3], points=5, functions=functions)
    calls = iter(range(100))

    def interrupted_losses(losses, rows):
        if len(rows) == 5 and next(calls) == 3:
            signal.raise_signal(signal.SIGINT)
        return losses_at(losses, rows)

    monkeypatch.setattr(parameter_planes, "losses_at", interrupted_losses)
    lines = []
    result = loss_landscape(
        trajectory, [0, 1, 3], points=5, functions=functions, log=lines.append
    )
    assert lines == ["cost        5 x 5 losses of 2 parameters"]
    assert result.attrs["rows_left"] == 2
    assert result["loss"][:3].values.tolist() == whole["loss"][:3].values.tolist()
    assert result["loss"][3:].isnull().all()
    assert plot_landscape(result).axes


def normalised_layers():
    layers = torch.nn.Linear(3, 4), torch.nn.BatchNorm1d(4), torch.nn.Tanh()
    return torch.nn.Sequential(*layers, torch.nn.Linear(4, 3)).eval()


HIDDEN_AXES = {f"0.{name}": 0 for name in ("weight", "bias")} | {"3.weight": 1}
HIDDEN_AXES |= {
    f"1.{name}": 0 for name in ("weight", "bias", "running_mean", "running_var")
}


def test_the_ends_of_a_line_have_buffers_of_their_own():
    """Two models with BatchNorm in eval mode, of which the second is the first one with
    its units in another order and other running statistics."""
    torch.manual_seed(0)
    inputs = torch.randn(12, 3)
    labels = torch.randint(0, 3, (12,))
    model = normalised_layers()
    states = []
    for path in ("first-0.pt", "second-0.pt"):
        model[1].running_mean.uniform_()
        states.append({name: p.clone() for name, p in model.state_dict().items()})
        order = torch.tensor([2, 0, 3, 1])
        for name, axis in HIDDEN_AXES.items() if states[1:] else ():
            states[1][name] = states[1][name].index_select(axis, order)
        torch.save(states[-1], path)

    def loss(parameters, batch):
        logits = torch.func.functional_call(model, parameters, (batch[0],))
        return torch.nn.functional.cross_entropy(logits, batch[1])

    functions = ModelFile(loss=loss, batches=lambda: [(inputs, labels)])
    runs = [
        dynamics.collect_checkpoints([f"{name}-0.pt"], model=functions, seed=seed)
        for seed, name in enumerate(("first", "second"))
    ]
    trajectory = xr.concat(runs, "run", combine_attrs="override")
    result = loss_barriers(trajectory, 0, 3, HIDDEN_AXES, functions)
    floats = [
        {name: p for name, p in state.items() if p.is_floating_point()}
        for state in states
    ]
    matched = floats[1] | {
        name: floats[1][name].index_select(axis, order.argsort())
        for name, axis in HIDDEN_AXES.items()
    }
    for name, end in (("loss", floats[1]), ("matched_loss", matched)):
        expected = [
            loss({k: torch.lerp(p, end[k], f) for k, p in floats[0].items()}, batch)
            for f in (0, 0.5, 1)
            for batch in functions.batches()
        ]
        assert_allclose(result[name].values[0], expected, rtol=1e-5)


def test_a_model_of_one_parameter_has_no_plane():
    torch.save({"weight": torch.ones(1)}, "one-0.pt")
    functions = ModelFile(
        loss=lambda parameters, _: parameters["weight"].square().sum(),
        batches=lambda: [torch.zeros(1)],
    )
    trajectory = dynamics.collect_checkpoints(["one-0.pt"], model=functions)
    with pytest.raises(SettingsError, match="found one parameter"):
        loss_landscape(trajectory, [0], "random", functions=functions)
