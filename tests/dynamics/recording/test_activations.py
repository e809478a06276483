"""Recorded activations against forward passes by hand."""

import pytest
import torch
from numpy.testing import assert_array_equal

import dynamics
from dynamics.settings import SettingsError


@pytest.fixture
def training():
    torch.manual_seed(0)
    layers = torch.nn.Linear(4, 8), torch.nn.Dropout(), torch.nn.Linear(8, 2)
    model = torch.nn.Sequential(*layers)
    return model, torch.optim.SGD(model.parameters(), lr=0.1), torch.randn(5, 4)


def train(recording, model, optimizer, updates, x):
    for _ in range(updates):
        optimizer.zero_grad()
        model(x).square().mean().backward()
        optimizer.step()
        recording.step()


@pytest.mark.parametrize("kind", ["tensor", "tuple", "dict"])
def test_activations_are_those_of_the_modules_in_eval_mode(training, tmp_path, kind):
    model, optimizer, x = training
    probe = {"tensor": x, "tuple": (x,), "dict": {"input": x}}[kind]
    options = {"activations": {"hidden": "1", "out": "2"}, "probe": probe}
    path = tmp_path / "a.nc"
    with dynamics.record(model, optimizer, path, every=2, **options) as recording:
        train(recording, model, optimizer, 4, x)
        assert model.training
    plain_model = [module.training for module in model.modules()]
    assert all(plain_model)
    trajectory = dynamics.open_trajectory(path)
    model.eval()
    expected = model[0](x).detach()
    last = trajectory.isel(run=0, step=-1)
    assert_array_equal(last["activation.hidden"], expected)
    assert_array_equal(last["activation.out"], model(x).detach())
    assert trajectory["activation.out"].shape == (1, 3, 5, 2)


def test_activations_change_no_bit_of_the_training(training, tmp_path):
    model, optimizer, x = training
    state = {name: value.clone() for name, value in model.state_dict().items()}
    weights = []
    for name, options in (
        ("plain", {}),
        ("probed", {"activations": {"out": "2"}, "probe": x}),
    ):
        model.load_state_dict(state)
        torch.manual_seed(1)
        path = tmp_path / f"{name}.nc"
        with dynamics.record(model, optimizer, path, **options) as recording:
            train(recording, model, optimizer, 5, x)
        weights.append(model[0].weight.detach().clone())
    assert torch.equal(*weights)


def test_wrong_arguments(training):
    model, optimizer, x = training
    with pytest.raises(SettingsError, match="activations: found mlp"):
        dynamics.record(model, optimizer, "a.nc", activations={"m": "mlp"}, probe=x)
    with pytest.raises(SettingsError, match="probe: found none"):
        dynamics.record(model, optimizer, "a.nc", activations={"m": "0"})


class Doubling(torch.nn.Module):
    """A module that changes its input in place."""

    def forward(self, x):
        return x.mul_(2)


def test_a_model_that_changes_its_input_leaves_the_probe_as_it_is(tmp_path):
    model = torch.nn.Sequential(Doubling(), torch.nn.Linear(4, 2))
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
    x = torch.randn(5, 4)
    given = x.clone()
    options = {"activations": {"twice": "0"}, "probe": x}
    path = tmp_path / "a.nc"
    with dynamics.record(model, optimizer, path, **options) as recording:
        train(recording, model, optimizer, 3, torch.randn(5, 4))
        assert_array_equal(x, given)
        x.zero_()  # the probe of the recording stays
    with dynamics.open_trajectory(path) as trajectory:
        for frame in trajectory["activation.twice"].values[0]:
            assert_array_equal(frame, 2 * given)


def test_a_module_that_is_not_called_is_named(training, tmp_path):
    model, optimizer, x = training
    model.spare = torch.nn.Identity()
    whole = torch.nn.Sequential(torch.nn.ModuleDict({"unused": torch.nn.Linear(4, 2)}))
    model = torch.nn.Sequential(*model[:3])
    model.register_module("list", whole)
    model.forward = lambda x: model[0](x)
    options = {"activations": {"x": "list.0.unused"}, "probe": x}
    with pytest.raises(
        SettingsError, match=r"list\.0\.unused, which the model does not"
    ):
        dynamics.record(model, optimizer, tmp_path / "a.nc", **options)
