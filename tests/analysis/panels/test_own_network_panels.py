"""Pair sums and class maps of models from outside, against those of the same network of
the package."""

import numpy as np
import pytest
import torch
from numpy.testing import assert_allclose, assert_array_equal

import dynamics
from analysis import panels
from analysis.panels.common_panels import RecordedRun
from analysis.panels.modular_panels import ModularPanels
from analysis.panels.own_network_panels import OwnNetworkPanels
from dynamics import ModularSettings, simulate
from dynamics.recording.recorded_network import RecordedNetwork
from dynamics.settings import SettingsError
from tests.analysis.own_networks import as_recorded, model_of

N = 7


@pytest.fixture(scope="module", params=[2, 3])
def trajectory(request):
    settings = ModularSettings(n=N, dim=request.param, hidden=12)
    return simulate(settings, runs=1, steps=60, every=20, seed=4)


@pytest.fixture(scope="module")
def recorded(trajectory):
    """The same as checkpoints from outside, with the embedding that a model gives."""
    return dynamics.with_model(as_recorded(trajectory), model_of(trajectory))


def test_maps_crosses_and_marks_are_those_of_the_same_network(trajectory, recorded):
    network = RecordedNetwork(recorded, model_of(trajectory))
    own = OwnNetworkPanels(RecordedRun(recorded, 0, side=12), network)
    expected = ModularPanels(RecordedRun(trajectory, 0, side=12))
    frames = np.array([0, 3])
    for name in ("pair_places", "crosses", "classes"):
        values = [getattr(item, name)(frames) for item in (own, expected)]
        assert_allclose(*values, rtol=1e-5, err_msg=name)
    assert_array_equal(own.trained, expected.trained[own.marked])


def test_logits_that_depend_on_other_numbers_have_no_map(trajectory, recorded):
    def tied(parameters, pairs):
        table = parameters["embedding"][:N]
        return table[pairs].sum(1) @ table.T

    network = RecordedNetwork(recorded, model_of(trajectory, logits=tied))
    points = np.zeros((2, recorded.sizes["axis"]))
    with pytest.raises(SettingsError, match="embeddings of other numbers"):
        network.point_classes(network.parameters(0, 0), points)


SOURCE = f"""
modulus = {N}
def embedding(parameters): return parameters["embed"]
def logits(parameters, pairs): return parameters["embed"][pairs].sum(1) @ parameters["out"]
"""


@pytest.fixture
def collected(tmp_path, monkeypatch):
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    monkeypatch.chdir(tmp_path)
    for step in (0, 5):
        state = {"embed": torch.randn(N, 2), "out": torch.randn(2, N)}
        torch.save(state, tmp_path / f"{step}.pt")
    (tmp_path / "model.py").write_text(SOURCE)
    model = dynamics.load_model_file("model.py")
    return dynamics.collect_checkpoints(["0.pt", "5.pt"], model=model)


def test_a_model_file_that_has_run_here_gives_pair_sums(collected, tmp_path):
    assert panels.panel_names(collected)[:2] == ("embedding", "pair_sums")
    scene = panels.build_scene(collected, 0, side=8)
    assert scene.arrays([1])["classes"].shape == (1, 8, 8)
    (tmp_path / "cache" / "training-dynamics" / "model-files.txt").unlink()
    assert "pair_sums" not in panels.panel_names(collected)


def test_numbers_that_are_not_added_have_no_pair_sums(collected):
    other = collected.assign_attrs(operation="other")
    assert "pair_sums" not in panels.panel_names(other)
    assert "imperfections" not in panels.panel_names(other)


def test_vectors_have_a_curve_for_each_component(collected):
    values = np.arange(6.0).reshape(1, 2, 3)
    more = collected.assign(probe=(("run", "step", "probe_0"), values))
    scene = panels.build_scene(more, 0, panels=["probe"])
    (curves,) = scene.panels[0].layers
    assert curves.names == ("probe 0", "probe 1", "probe 2")
    assert_array_equal(curves.y, values[0].T)
