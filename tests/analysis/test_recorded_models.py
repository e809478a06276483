"""Analyses of models that a loop of their own trains: of CA's network they find what
they find in its own file."""

import re

import numpy as np
import pytest
import torch
from numpy.testing import assert_allclose, assert_array_equal

import dynamics
from analysis.forces import audit_forces
from analysis.structures import (
    find_formation_times,
    structure_measures,
)
from analysis.transitions import analyse_events
from analysis.transitions.detection import DetectionConfig
from dynamics.networks.constant_attention import ConstantAttention
from tests.plain_torch import Run

SETTINGS = dynamics.ModularSettings(n=7, hidden=12)
STEPS, EVERY, SEEDS = 200, 10, (0, 1)


def record_plain_run(seed, path, steps=STEPS, every=EVERY, **options):
    run = Run(SETTINGS, seed)

    def evaluate(model):
        scores = {split: run.scores(split) for split in run.splits}
        losses = {split: loss for split, (loss, _) in scores.items()}
        accuracies = {split: accuracy for split, (_, accuracy) in scores.items()}
        return {"loss": losses, "accuracy": accuracies}

    with dynamics.record(
        run.net,
        run.rule,
        path,
        evaluate=evaluate,
        every=every,
        seed=seed,
        modulus=SETTINGS.n,
        embedding="embedding.weight",
        embedding_gradient=True,
        **options,
    ) as recording:
        for _ in range(steps):
            run.step()
            recording.step()


@pytest.fixture(scope="module")
def pair(tmp_path_factory):
    """Two runs recorded in plain loops of torch, and a trajectory of CA's network with
    the same weights, losses and norms."""
    folder = tmp_path_factory.mktemp("recorded")
    for seed in SEEDS:
        pairs = Run(SETTINGS, seed).splits["train"]
        variables = {"training_pairs": lambda model, pairs=pairs: pairs}
        path = folder / f"{seed}.nc"
        record_plain_run(seed, path, variables=variables, weights=True)
    recorded = dynamics.open_trajectory(str(folder / "?.nc")).load()
    words = {"runs": len(SEEDS), "steps": STEPS, "every": EVERY}
    simulated = dynamics.simulate(SETTINGS, **words)
    parameters = zip(ConstantAttention.VARIABLES, recorded["layer"].values, strict=True)
    sources = {name: f"parameter.{parameter}" for name, parameter in parameters}
    for name in ("loss", "accuracy", "gradient_norm", "update_norm"):
        sources[name] = name
    for name, source in sources.items():
        simulated[name].values = recorded[source].transpose("run", "step", ...).values
    return recorded, simulated


def assert_close(result, expected, names, **tolerance):
    """Variables of two datasets are equal within a tolerance."""
    for name in names.split():
        values = result[name].transpose(*expected[name].dims)
        assert_allclose(values, expected[name], err_msg=name, **tolerance)


def test_a_recorded_update_is_that_of_the_simulation(tmp_path):
    """After more updates two ways to train in float32 differ."""
    record_plain_run(0, tmp_path / "one.nc", steps=1, every=1)
    recorded = dynamics.open_trajectory(tmp_path / "one.nc")
    simulated = dynamics.simulate(SETTINGS, runs=1, steps=1, every=1)
    names = "embedding loss accuracy gradient_norm update_norm"
    assert_close(recorded, simulated, names, rtol=1e-4, atol=1e-5)


def test_the_audit_of_a_recorded_model_is_that_of_its_simulation(pair):
    result, expected = (audit_forces(item, frames=1000, renamings=2) for item in pair)
    assert result["step"].values.tolist() == expected["step"].values.tolist()[:-1]
    names = "cosine law_r_squared r_squared renamed_r_squared weight"
    expected = expected[names.split()].isel(step=slice(-1))
    assert np.isfinite(expected).to_array().all()
    assert_close(result, expected, names, atol=1e-4)


def test_formation_and_events_of_a_recorded_model_are_those_of_its_simulation(pair):
    result, expected = (find_formation_times(structure_measures(item)) for item in pair)
    assert_array_equal(result["formed"], expected["formed"])
    assert_close(result, expected, "onset", atol=1e-3)
    config = DetectionConfig(level="largest")
    result, expected = (analyse_events(item, config=config) for item in pair)
    assert_array_equal(result["event_kind"], expected["event_kind"])
    assert_close(result, expected, "escape begin middle end event_middle", atol=1e-2)


def test_frames_without_a_gradient_are_not_audited(pair):
    recorded = pair[0].copy()
    recorded["last_step"] = recorded["last_step"].copy(data=[STEPS, 20])
    audit = audit_forces(recorded, frames=1000, renamings=0)
    cosine = audit["cosine"].sel(target="gradient", part="whole")
    assert cosine.notnull().sum("step").values.tolist() == [STEPS // EVERY, 2]


def test_training_pairs_that_are_no_pairs_are_refused(pair):
    wrong = pair[0].drop_vars("training_pairs")
    audit = audit_forces(wrong, frames=2, renamings=0)
    assert audit.attrs["pairs"] == "all unordered pairs, each once"
    wrong["training_pairs"] = (("run", "step"), np.zeros((2, wrong.sizes["step"]), int))
    message = "variable training_pairs: found"
    with pytest.raises(dynamics.TrajectoryError, match=message):
        audit_forces(wrong)


@pytest.fixture
def folder(tmp_path):
    """Two seeds of a model whose tokens are no numbers, and checkpoints of a third."""
    for seed in (1, 2, 3):
        torch.manual_seed(seed)
        model = torch.nn.Sequential(
            torch.nn.Embedding(5, 3), *(torch.nn.Linear(3, 3) for _ in range(12))
        )
        optimizer = torch.optim.SGD(model.parameters(), lr=0.05)
        with dynamics.record(
            model, optimizer, f"words{seed}.nc", embedding="0.weight", seed=seed
        ) as recording:
            for step in range(30):
                if seed == 3:
                    torch.save(model.state_dict(), f"model-{step}.pt")
                loss = model(torch.arange(5)).square().mean()
                optimizer.zero_grad()
                loss.backward()
                optimizer.step()
                recording.step(loss=loss)
    dynamics.save_trajectory(
        dynamics.collect_checkpoints(["."], "0.weight", modulus=5), "checkpoints.nc"
    )
    return tmp_path


LACKS = {
    "formation words1.nc": "attribute modulus: found 0, .* take the modulus",
    "audit words1.nc": "attribute modulus: found 0, .* take the modulus",
    "audit checkpoints.nc": (
        r"variable embedding_gradient: missing; dynamics.record\(\.\.\.,"
        r" embedding_gradient=True\)"
    ),
    "gradients checkpoints.nc": (
        "variable gradient_norm: missing; .* dynamics.record measures them"
    ),
    "compare words1.nc": "attribute modulus: found 0",
    "compare words[12].nc": "attribute modulus: found 0",
    "circuits words1.nc": "found recorded, expected sparse, the network of VC",
}


def test_commands_read_what_they_can_and_say_what_they_lack(folder, typed):
    for words, written in {
        "events words[12].nc": "words-12-events.nc",
        "events words*.nc": (
            "words-events.nc"
        ),  # which is no trajectory, and is left out
        "gradients words*.nc": "words-gradients.png",
        "events checkpoints.nc": "checkpoints-events.png",
        "formation checkpoints.nc": "checkpoints-formation.png",
        "frame words*.nc --run 2 --out words.png": "words.png",
        "compare words1.nc words2.nc --out pair.nc": "pair.png",
    }.items():
        code, _, err = typed(*f"analysis.{words}".split())
        assert code == 0, err
        assert (folder / written).exists()
    for words, message in LACKS.items():
        code, _, err = typed(*f"analysis.{words}".split())
        assert code == 1
        assert re.fullmatch(f"error: .*{message}.*\n", err)
    assert "Sequential, SGD, 159 parameters" in typed("sims.runs", "--folder", ".")[1]
