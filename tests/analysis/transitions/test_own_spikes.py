"""Attribution of spikes of recorded models to their layers, against plain code."""

import numpy as np
import pytest
import torch
from numpy.testing import assert_allclose

import dynamics
from analysis.transitions import attribute_own_spikes, own_spike_rows, recorded_spikes
from dynamics import ModelFile
from dynamics.settings import SettingsError
from tests.analysis.transitions.normalised_sums import NormalisedSums, model_file

N, FRAMES, PEAK = 5, 30, 20


PAIRS = torch.combinations(torch.arange(N), with_replacement=True)
SUMS = PAIRS.sum(1) % N
MODEL = model_file(N)


def loss_of(state):
    network = NormalisedSums(N).double()
    network.load_state_dict(state)
    with torch.no_grad():
        return float(torch.nn.functional.cross_entropy(network(PAIRS), SUMS))


def trajectory_with_spike(tmp_path, changes):
    """Checkpoints of equal weights but for one frame, in which some are multiplied; and
    the states of both."""
    torch.manual_seed(0)
    calm = NormalisedSums(N).double().state_dict()
    calm["out.weight"] *= 4
    high = {name: values * changes.get(name, 1.0) for name, values in calm.items()}
    for frame in range(FRAMES):
        state = high if frame == PEAK else calm
        torch.save(state, tmp_path / f"step-{frame}.pt")
    trajectory = dynamics.collect_checkpoints([tmp_path], model=MODEL)
    losses = np.full((1, FRAMES, 1), loss_of(calm))
    losses[0, PEAK] = loss_of(high)
    recorded = trajectory.assign(loss=(("run", "step", "split"), losses))
    return recorded.assign_coords(split=["train"]), calm, high


def test_the_cause_is_the_layer_without_which_the_loss_does_not_rise(tmp_path):
    changes = {"out.weight": -1.0, "out.bias": 2.0, "embed.weight": 1.1}
    trajectory, calm, high = trajectory_with_spike(tmp_path, changes)
    spikes = recorded_spikes(trajectory)
    assert [spike.step for spike in spikes] == [PEAK]
    result = attribute_own_spikes(trajectory, spikes, MODEL)
    assert result["at"].values.tolist() == [PEAK - 1]
    assert result["layer"].values.tolist() == ["embed", "out"]
    assert result["cause"].item() == "out"
    first, last = loss_of(calm), loss_of(high)
    assert_allclose(result["loss_after"], last, rtol=1e-6)
    for layer in ("embed", "out"):
        inside = {name: name.startswith(layer) for name in calm}
        frozen = {name: (calm if inside[name] else high)[name] for name in calm}
        alone = {name: (high if inside[name] else calm)[name] for name in calm}
        for name, state in (("frozen", frozen), ("alone", alone)):
            expected = (loss_of(state) - first) / (last - first)
            value = result[name].sel(layer=layer)
            assert_allclose(value, expected, rtol=1e-5, atol=1e-6)
    (row,) = own_spike_rows(result)
    assert row["frozen"] == result["frozen"].sel(layer="out").item()


def test_vectors_that_flip_before_a_norm_explain_a_spike(tmp_path):
    trajectory, *_ = trajectory_with_spike(tmp_path, {"embed.weight": -1.5})
    spikes = recorded_spikes(trajectory)
    result = attribute_own_spikes(trajectory, spikes, MODEL, "norm")
    assert result["cause"].item() == "embed"
    assert result["flipped"].item() == 1
    assert_allclose(result["unflipped"], 0, atol=1e-6)


def test_a_layer_that_is_not_there_is_named_with_near_ones(tmp_path):
    trajectory, *_ = trajectory_with_spike(tmp_path, {"embed.weight": -1.5})
    with pytest.raises(SettingsError, match="normalised: found nrm.*norm"):
        attribute_own_spikes(trajectory, recorded_spikes(trajectory), MODEL, "nrm")
    without = ModelFile(loss=lambda parameters, batch: 0, batches=lambda: [0])
    with pytest.raises(SettingsError, match="model file with module"):
        attribute_own_spikes(trajectory, [], without, "norm")


def test_without_spikes_the_table_is_empty(tmp_path):
    trajectory, *_ = trajectory_with_spike(tmp_path, {})
    result = attribute_own_spikes(trajectory, recorded_spikes(trajectory), MODEL)
    assert result.sizes["spike"] == 0
    assert own_spike_rows(result) == []


def test_the_command(tmp_path, monkeypatch, typed):
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    (tmp_path / "states").mkdir()
    trajectory, *_ = trajectory_with_spike(tmp_path / "states", {"out.weight": -1.0})
    dynamics.save_trajectory(trajectory, "mine.nc")
    with open("model.py", "w") as file:
        file.write(
            "from tests.analysis.transitions.test_own_spikes import MODEL\n"
            "module, embedding = MODEL.module, MODEL.embedding\n"
            "training_pairs, modulus = MODEL.training_pairs, MODEL.modulus\n"
        )
    words = "mine.nc --model model.py --normalised norm".split()
    code, out, _ = typed("analysis.spikes", *words)
    assert code == 0
    assert "1 spikes, 1 examined" in out
    assert "unflipped" in out
    code, _, err = typed("analysis.spikes", "mine.nc")
    assert code == 2
    assert "model: found none" in err
