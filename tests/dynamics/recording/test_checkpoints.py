"""Trajectories from checkpoints on the disk."""

import argparse
import gc
import json
import pickle
import weakref

import numpy as np
import pytest
import torch
from numpy.testing import assert_allclose, assert_array_equal
from safetensors.torch import save_file

import dynamics
from analysis.loss_geometry import spectral_density
from dynamics.errors import TrajectoryError
from dynamics.recording import checkpoint_files
from dynamics.recording.recorded_network import RecordedNetwork
from dynamics.settings import SettingsError


def state(step, tokens=5):
    """A state dict that differs at each step."""
    generator = torch.Generator().manual_seed(step)
    return {
        "embed.weight": torch.randn(tokens, 3, generator=generator),
        "out.bias": torch.randn(tokens, generator=generator),
        "norm.running_mean": torch.full((3,), float(step)),
        "norm.num_batches_tracked": torch.tensor(step),
    }


STEPS = (0, 20, 100)


def saver(name, content, **options):
    """A function that saves a file for each step in a folder, and returns the arguments
    of `collect_checkpoints`."""

    def save(folder):
        for place, step in enumerate(STEPS):
            names = {"step": step, "place": place, "letter": "cab"[place]}
            torch.save(content(step), folder / name.format(**names))
        return [folder], options

    return save


def nested(step):
    """The state dict, as nested mappings of layers of which two are alike."""
    flat = state(step)
    layers = {name: {"kernel": torch.full((2, 2), float(step))} for name in ("0", "1")}
    layers["embed"] = {"weight": flat["embed.weight"]}
    norm = {"running_mean": flat["norm.running_mean"]}
    return {"out": {"bias": flat["out.bias"]}, "norm": norm, **layers}


save_names = saver("run7-step{step}.pt", state)
save_nested = saver(
    "{letter}.pth",
    lambda step: {"model": state(step), "epoch": step, "optimizer": {"lr": 0.1}},
    step_from="epoch",
)
save_lightning = saver(
    "epoch={place}-step={step}.ckpt",
    lambda step: {
        "epoch": STEPS.index(step),
        "global_step": step,
        "state_dict": state(step),
        "optimizer_states": [
            {"state": {0: {"exp_avg": torch.zeros(5, 3), "step": torch.tensor(step)}}}
        ],
    },
)
save_deep = saver(
    "{letter}.pth",
    lambda step: {
        "args": argparse.Namespace(width=3, lr=0.1),
        "meta": {"iteration": step, "version": 2},
        "state": {"nets": {"student": state(step)}, "optim": state(step)},
    },
    step_from="meta.iteration",
)
save_compiled = saver(
    "{letter}.pt",
    lambda step: {
        "model": {f"_orig_mod.{name}": value for name, value in state(step).items()},
        "step": step,
    },
    step_from="step",
)
save_layers = saver(
    "{letter}.pt",
    lambda step: {"params": nested(step), "step": step, "opt_state": {"count": step}},
    step_from="step",
)


def save_two_models(folder):
    for step in STEPS:
        torch.save(
            {"model": state(step), "average": state(step + 1)}, folder / f"{step}.ckpt"
        )
    return sorted(folder.iterdir(), reverse=True), {"state_dict": "model"}


def save_safetensors(folder):
    for step in STEPS:
        save_file(state(step), folder / f"model_{step:05d}.safetensors")
    return [folder], {}


def save_series(folder):
    content = {
        "state_dicts": [state(step) for step in STEPS],
        "epochs": list(STEPS),
        "losses": [3.0, 2.0, 1.0],
    }
    torch.save(content, folder / "run.pth")
    return [folder / "run.pth"], {"step_from": "epochs"}


def save_steps(folder):
    torch.save({step: state(step) for step in STEPS}, folder / "run.pth")
    return [folder / "run.pth"], {}


def save_trainer_folders(folder):
    for step in STEPS:
        inner = folder / f"checkpoint-{step}"
        inner.mkdir()
        save_file(state(step), inner / "model.safetensors")
        torch.save({"state": {}}, inner / "optimizer.pt")
        torch.save({"a": torch.ones(1)}, inner / "scheduler.pt")
    save_file(state(7), folder / "model.safetensors")
    return [folder], {}


def save_series_of_layers(folder):
    torch.save({"history": {s: nested(s) for s in STEPS}}, folder / "all.pt")
    return [folder / "all.pt"], {}


@pytest.mark.parametrize(
    "save",
    [
        save_layers,
        save_series_of_layers,
        save_trainer_folders,
        save_lightning,
        save_deep,
        save_compiled,
        save_names,
        save_nested,
        save_two_models,
        save_safetensors,
        save_series,
        save_steps,
    ],
)
def test_checkpoints_of_every_form_are_read(tmp_path, save):
    paths, options = save(tmp_path)
    variables = {
        "turned": dynamics.ParameterView("embed.weight", transpose=True, rows=2)
    }
    trajectory = dynamics.collect_checkpoints(
        paths, "embed.weight", variables=variables, weights=True, modulus=5, **options
    )
    dynamics.save_trajectory(trajectory, "out.nc")
    trajectory = dynamics.open_trajectory("out.nc")
    assert trajectory["step"].values.tolist() == list(STEPS)
    for step in STEPS:
        expected = state(step)["embed.weight"].numpy()
        assert_array_equal(trajectory["embedding"].sel(step=step)[0], expected)
        assert_array_equal(trajectory["turned"].sel(step=step)[0], expected.T[:2])
    assert {
        "parameter.embed.weight",
        "parameter.out.bias",
        "buffer.norm.running_mean",
    } < set(trajectory.data_vars)
    assert dynamics.missing_steps(trajectory) == []


def test_the_signature_is_that_of_a_recorded_model(tmp_path):
    model = torch.nn.Linear(3, 2)
    optimizer = torch.optim.SGD(model.parameters())
    result = []
    for name, item in (("same", model), ("other", torch.nn.Linear(4, 2))):
        (tmp_path / name).mkdir()
        torch.save(item.state_dict(), tmp_path / name / "0.pt")
        collected = dynamics.collect_checkpoints([tmp_path / name], weights=True)
        result.append(dynamics.read_settings(collected).signature)
    recorded = dynamics.record(model, optimizer, "mine.nc").settings.signature
    assert result[0] == recorded != result[1]


def test_missing_checkpoints_are_named(tmp_path):
    for step in (10, 20, 30, 50, 60, 70):
        torch.save(state(step), f"{step}.pt")
    trajectory = dynamics.collect_checkpoints([tmp_path], "embed.weight")
    assert dynamics.missing_steps(trajectory) == [40]
    assert trajectory["step"].values.tolist() == [10, 20, 30, 50, 60, 70]
    dynamics.save_trajectory(trajectory, "out.nc")
    assert dynamics.open_trajectory("out.nc")["step"].values[0] == 10


class Harmful:
    """Code that would run if the file were unpickled."""

    def __reduce__(self):
        return pytest.fail, ("code in a checkpoint was run",)


def write_other_model(folder):
    torch.save(state(0), folder / "0.pt")
    torch.save(state(9, tokens=6), folder / "9.pt")


def write_pickle(folder):
    (folder / "0.pt").write_bytes(pickle.dumps(Harmful(), protocol=2))
    torch.save({"embed.weight": Harmful()}, folder / "1.pt")


def write_truncated(folder):
    torch.save(state(0), folder / "0.pt")
    (folder / "9.pt").write_bytes((folder / "0.pt").read_bytes()[:300])


def write_not_finite(folder):
    torch.save({"embed.weight": torch.full((5, 3), torch.nan)}, folder / "0.pt")


def write_kind(folder, dtype, step=0):
    torch.save({"embed.weight": torch.eye(5, 3).to(dtype)}, folder / f"{step}.pt")


MISTAKES = [
    (lambda folder: None, {}, TrajectoryError, "no checkpoint"),
    (
        write_other_model,
        {},
        TrajectoryError,
        r"9.pt: embed.weight is \(6, 3\), but \(5, 3\) in .*another model\?",
    ),
    (
        write_pickle,
        {},
        TrajectoryError,
        r"contains (the class|other objects)[^\n\x1b]*; only tensors, [^\n\x1b]*$",
    ),
    (
        write_truncated,
        {},
        TrajectoryError,
        "9.pt: cannot be read, cut short or damaged",
    ),
    (write_not_finite, {}, TrajectoryError, "not finite"),
    (save_names, {"embedding": "embed.wieght"}, SettingsError, "embed.weight"),
    (save_names, {"embedding": None}, SettingsError, "embedding"),
    (save_names, {"modulus": 4}, SettingsError, r"5 rows for modulus=4, .* --tokens 4"),
    (save_names, {"step_from": "epoch"}, SettingsError, "epoch"),
    (save_two_models, {}, SettingsError, "one of model, average"),
    (save_series, {}, SettingsError, "epochs"),
    (
        lambda folder: write_kind(folder, torch.complex64),
        {},
        SettingsError,
        "embedding: found values of torch.complex64 in .*0.pt, allowed is real",
    ),
    (
        lambda folder: write_kind(folder, torch.complex64),
        {"embedding": None, "weights": True},
        SettingsError,
        "weights: found embed.weight of torch.complex64",
    ),
    (
        lambda folder: write_kind(folder, torch.int8),
        {},
        SettingsError,
        "embedding: found values of torch.int8 in .*0.pt, allowed is floating-point",
    ),
    (
        lambda folder: [
            write_kind(folder, torch.float32),
            write_kind(folder, torch.int8, 9),
        ],
        {},
        SettingsError,
        "embedding: found values of torch.int8 in .*9.pt",
    ),
    (
        lambda folder: torch.save(
            {"embed.weight": torch.eye(3).to_sparse()}, folder / "0.pt"
        ),
        {},
        SettingsError,
        "embedding: found a tensor of torch.sparse_coo in .*0.pt, allowed is a dense",
    ),
    (
        lambda folder: torch.save(
            {
                "embed.weight": torch.quantize_per_tensor(
                    torch.eye(3), 0.1, 0, torch.qint8
                )
            },
            folder / "0.pt",
        ),
        {},
        SettingsError,
        "embedding: found a tensor of torch.qint8 in .*0.pt, allowed is a dense",
    ),
    (
        lambda folder: [
            torch.save({"model": state(0), "epoch": 1}, folder / f"{n}.pt")
            for n in "ab"
        ],
        {"step_from": "epoch"},
        TrajectoryError,
        "step 1: found in",
    ),
]


def test_a_single_file_has_the_step_that_its_name_says(tmp_path):
    for name, step in (("ck-2000", 2000), ("grok113", 0), ("epoch=3-step=40", 40)):
        torch.save(state(1), f"{name}.pt")
        trajectory = dynamics.collect_checkpoints(
            [tmp_path / f"{name}.pt"], embedding="embed.weight"
        )
        assert trajectory["step"].values.tolist() == [step]


@pytest.mark.parametrize("key", ["optimizer", "opt", "adam", "optimizers"])
def test_states_of_an_optimizer_are_no_series(tmp_path, key):
    model = torch.nn.Linear(2, 2, bias=False)
    optimizer = torch.optim.Adam(model.parameters())
    model(torch.ones(2)).sum().backward()
    optimizer.step()
    stored = optimizer.state_dict()
    content = {
        "model": model.state_dict(),
        key: [stored] if key == "optimizers" else stored,
        "epoch": 3,
    }
    torch.save(content, tmp_path / "last.pt")
    trajectory = dynamics.collect_checkpoints([tmp_path / "last.pt"], "weight")
    assert trajectory["step"].values.tolist() == [0]
    assert_array_equal(trajectory["embedding"][0, 0], model.weight.detach())


def test_values_of_args_are_given_to_a_module(tmp_path):
    paths, options = save_deep(tmp_path)
    model = dynamics.ModelFile(embedding=lambda parameters: parameters["embed.weight"])
    trajectory = dynamics.collect_checkpoints(paths, model=model, **options)
    config = json.loads(trajectory.attrs["model_config"])
    assert (config["width"], config["lr"]) == (3, 0.1)


def test_a_single_file_of_layers_with_numbers_is_no_series(tmp_path):
    torch.save({"params": nested(3), "step": 3}, "one.pt")
    torch.save({"params": {"model": nested(3), "average": nested(4)}}, "two.pt")
    one = dynamics.collect_checkpoints([tmp_path / "one.pt"], weights=True)
    assert {"parameter.0.kernel", "parameter.1.kernel"} < set(one.data_vars)
    with pytest.raises(SettingsError, match=r"one of params.model, params.average"):
        dynamics.collect_checkpoints([tmp_path / "two.pt"], weights=True)


def test_masks_of_attention_are_buffers(tmp_path):
    mask = torch.full((3, 3), -torch.inf).triu(1)
    constants = {"attn.mask": mask, "attn.IGNORE": torch.tensor(-torch.inf)}
    for step in (0, 10):
        torch.save(state(step) | constants, f"{step}.pt")
    trajectory = dynamics.collect_checkpoints([tmp_path], weights=True)
    dynamics.save_trajectory(trajectory, "saved.nc")
    scores = torch.randn(3, 3)
    recorded = torch.from_numpy(trajectory["buffer.attn.mask"].values[0, 1])
    assert torch.equal((scores + recorded).softmax(1), (scores + mask).softmax(1))
    assert (trajectory["buffer.attn.IGNORE"] < -1e38).all()


def test_integers_are_recorded_as_they_are_and_are_no_weights(tmp_path):
    codes = torch.tensor([[1, -7]], dtype=torch.int8)
    for step in (0, 10):
        torch.save(state(step) | {"codes": codes}, tmp_path / f"{step}.pt")
    lines = []
    result = dynamics.collect_checkpoints(
        [tmp_path], variables={"codes": "codes"}, weights=True, log=lines.append
    )
    assert result["codes"].dtype == "int8"
    assert result["codes"].values.tolist() == [[[[1, -7]]] * 2]
    assert "parameter.codes" not in result
    others = "norm.num_batches_tracked, codes"
    assert f"left out    2 tensors that are not floating-point: {others}" in lines


@pytest.mark.parametrize(("write", "options", "error", "message"), MISTAKES)
def test_mistakes_are_named(tmp_path, write, options, error, message):
    write(tmp_path)
    with pytest.raises(error, match=message):
        dynamics.collect_checkpoints(
            [tmp_path], **{"embedding": "embed.weight", **options}
        )


class Tied(torch.nn.Module):
    def __init__(self):
        super().__init__()
        self.embed = torch.nn.Embedding(5, 2)
        self.out = torch.nn.Linear(2, 5)
        self.out.weight = self.embed.weight

    def forward(self, tokens):
        return self.out(torch.tanh(self.embed(tokens)))


@pytest.mark.parametrize("by_module", [True, False])
def test_a_tensor_with_two_names_is_one_parameter(tmp_path, by_module):
    model, tokens = Tied(), torch.arange(5)
    torch.save(model.state_dict(), tmp_path / "tied-0.pt")
    untied = {name: p.clone() for name, p in model.state_dict().items()}
    torch.save(untied, tmp_path / "tied-1.pt")
    paths = [tmp_path / f"tied-{step}.pt" for step in (0, 1)]
    assert "parameter.out.weight" in dynamics.collect_checkpoints(paths, weights=True)

    def logits(parameters, tokens):
        if by_module:
            return torch.func.functional_call(model, parameters, (tokens,))
        hidden = torch.tanh(parameters["embed.weight"][tokens])
        return hidden @ parameters["out.weight"].T + parameters["out.bias"]

    def loss(parameters, batch):
        return torch.nn.functional.cross_entropy(logits(parameters, batch), batch)

    functions = dynamics.ModelFile(
        logits=lambda parameters, pairs: logits(parameters, pairs[:, 0]),
        loss=loss,
        batches=lambda: [tokens],
        embedding=lambda parameters: parameters["out.weight"],
        modulus=5,
    )
    collected = dynamics.collect_checkpoints(paths[:1], model=functions)
    dynamics.save_trajectory(collected, tmp_path / "tied.nc")
    trajectory = dynamics.open_trajectory(tmp_path / "tied.nc")
    assert "parameter.embed.weight" in trajectory
    assert "parameter.out.weight" not in trajectory
    own = {name: p.detach().double() for name, p in model.named_parameters()}

    def plain_loss(weight, bias):
        logits = torch.tanh(weight) @ weight.T + bias
        return torch.nn.functional.cross_entropy(logits, tokens)

    arguments = own["embed.weight"], own["out.bias"]
    hessian = torch.autograd.functional.hessian(plain_loss, arguments)
    trace = sum(hessian[i][i].reshape(n, n).trace() for i, n in ((0, 10), (1, 5)))
    density = spectral_density(trajectory, [0], functions=functions)
    assert density.attrs["parameters"] == 15
    assert density["trace"].item() == pytest.approx(float(trace))
    gradient = torch.autograd.functional.jacobian(plain_loss, arguments)[0]
    network = RecordedNetwork(trajectory, functions)
    assert_allclose(network.embedding_gradient(0, 0), gradient, rtol=1e-6)


def write_folders(folder, name, write):
    for step in STEPS:
        inner = folder / name.format(step)
        inner.mkdir()
        write(inner, state(step))
        torch.save({"state": {}}, inner / "optimizer.pt")
    return folder


def write_shards(suffix, save):
    """A function that writes a state dict in two files with their index."""

    def write(inner, tensors):
        base, _, end = suffix.rpartition(".")
        names = [f"{base}-0000{part}-of-00002.{end}" for part in (1, 2)]
        places = {name: names[place % 2] for place, name in enumerate(tensors)}
        for name in names:
            part = {key: tensors[key] for key, file in places.items() if file == name}
            save(part, inner / name)
        index = {"metadata": {}, "weight_map": places}
        (inner / f"{suffix}.index.json").write_text(json.dumps(index), "utf-8-sig")

    return write


WRITERS = {
    "safetensors": lambda inner, tensors: save_file(
        tensors, inner / "model.safetensors"
    ),
    "bin": lambda inner, tensors: torch.save(tensors, inner / "pytorch_model.bin"),
    "adapter": lambda inner, tensors: save_file(
        tensors, inner / "adapter_model.safetensors"
    ),
    "shards": write_shards("model.safetensors", save_file),
    "shards of torch": write_shards("pytorch_model.bin", torch.save),
}


@pytest.mark.parametrize("writer", WRITERS)
@pytest.mark.parametrize(
    "name", ["step_{}", "checkpoint_{}", "checkpoint-{}", "{}", "global_step{}"]
)
def test_folders_of_checkpoints(tmp_path, name, writer):
    write_folders(tmp_path, name, WRITERS[writer])
    lines = []
    result = dynamics.collect_checkpoints(
        [tmp_path], "embed.weight", weights=True, log=lines.append
    )
    assert result["step"].values.tolist() == list(STEPS)
    for step in STEPS:
        expected = state(step)["embed.weight"]
        assert_array_equal(result["embedding"].sel(step=step)[0], expected)
    text = "\n".join(lines)
    assert text.startswith("steps       the number ")
    *rows, left_out = [line.split() for line in text.splitlines()[2:]]
    assert left_out[-1] == "norm.num_batches_tracked"
    assert sorted(int(row[0]) for row in rows) == list(STEPS)
    assert {row[1] for row in rows} == {"4"}


def test_each_folder_has_one_file(tmp_path):
    for step in STEPS:
        (tmp_path / f"step_{step}").mkdir()
        torch.save(state(step), tmp_path / f"step_{step}" / "weights.pt")
    result = dynamics.collect_checkpoints([tmp_path], "embed.weight")
    assert result["step"].values.tolist() == list(STEPS)
    files = sorted(tmp_path.glob("*/weights.pt"))
    result = dynamics.collect_checkpoints(files, "embed.weight")
    assert result["step"].values.tolist() == list(STEPS)


@pytest.mark.parametrize("prefix", ["", "params/"])
def test_arrays_of_numpy(tmp_path, prefix):
    for step in STEPS:
        layers = {
            f"{prefix}Dense_0/kernel": np.full((2, 3), step, np.float32),
            f"{prefix}Dense_1/kernel": np.full((3, 2), step, np.float32),
            f"{prefix}Dense_1/bias": np.full(2, step, np.float32),
            "opt_state/mu/kernel": np.zeros(3, np.float32),
        }
        np.savez(tmp_path / f"step_{step}.npz", **layers)
    result = dynamics.collect_checkpoints([tmp_path], weights=True)
    names = ["Dense_0.kernel", "Dense_1.kernel", "Dense_1.bias"]
    recorded = [name for name in result.data_vars if name.startswith("parameter.")]
    assert recorded == [f"parameter.{name}" for name in names]
    for step in STEPS:
        assert (result["parameter.Dense_1.bias"].sel(step=step) == step).all()


def test_arrays_of_objects_are_not_read(tmp_path):
    np.savez(tmp_path / "step_1.npz", a=np.array([Harmful()], object))
    with pytest.raises(TrajectoryError, match="cannot be read"):
        dynamics.collect_checkpoints([tmp_path], weights=True)


@pytest.mark.parametrize(
    ("steps", "message"),
    [
        ([0, 20], "2 numbers at epochs, allowed is a list of 3 steps"),
        (torch.tensor([0, 20]), "2 numbers at epochs|no list at epochs"),
        (7, "no list at epochs, allowed is a list of 3"),
        ([0.5, 1.0, 1.5], "a whole number from 0"),
    ],
)
def test_lists_of_other_lengths_are_refused(tmp_path, steps, message):
    content = {"states": [state(step) for step in STEPS], "epochs": steps}
    torch.save(content, tmp_path / "run.pt")
    with pytest.raises(SettingsError, match=message):
        dynamics.collect_checkpoints(
            [tmp_path / "run.pt"], "embed.weight", step_from="epochs"
        )


def write_several(folder):
    for step in STEPS:
        content = {"net": {"model": state(step), "ema": state(step)}, "step": step}
        torch.save(content, folder / f"step_{step}.pt")


@pytest.mark.parametrize(
    ("key", "names"),
    [
        ("net.model", ["embed.weight", "out.bias"]),
        ("net", ["model.embed.weight", "ema.embed.weight"]),
        ("all", ["net.model.embed.weight"]),
    ],
)
def test_the_user_says_which_tensors(tmp_path, key, names):
    write_several(tmp_path)
    with pytest.raises(SettingsError, match="state_dict: .*one of net.model, net.ema"):
        dynamics.collect_checkpoints([tmp_path], weights=True)
    result = dynamics.collect_checkpoints([tmp_path], weights=True, state_dict=key)
    assert {f"parameter.{name}" for name in names} <= set(result.data_vars)


def test_names_of_wrappers_and_rules(tmp_path):
    prefixes = ("module.", "module._orig_mod.", "")
    for step, prefix in zip(STEPS, prefixes, strict=True):
        tensors = {f"{prefix}{name}": value for name, value in state(step).items()}
        torch.save(tensors, tmp_path / f"step_{step}.pt")
    rules = ["embed.=table."]
    result = dynamics.collect_checkpoints([tmp_path], weights=True, rename=rules)
    assert "parameter.table.weight" in result
    assert "buffer.norm.running_mean" in result


def test_one_checkpoint_is_in_memory_at_a_time(tmp_path, monkeypatch):
    write_folders(tmp_path, "step_{}", WRITERS["bin"])
    load, alive = checkpoint_files.load_tensors, []

    def load_alone(path):
        gc.collect()
        assert not any(reference() is not None for reference in alive)
        content = load(path)
        alive.extend(weakref.ref(tensor) for tensor in content.values())
        return content

    monkeypatch.setattr(checkpoint_files, "load_tensors", load_alone)
    dynamics.collect_checkpoints([tmp_path], "embed.weight", weights=True)
    assert len(alive) == 4 * len(STEPS)


def write_parts(folder):
    for part in (1, 2):
        torch.save(state(part), folder / f"model-0000{part}-of-00002.bin")


def write_incomplete(folder):
    write_shards("model.safetensors", save_file)(folder, state(0))
    (folder / "model-00002-of-00002.safetensors").unlink()


@pytest.mark.parametrize(
    ("write", "error", "message"),
    [
        (write_parts, SettingsError, "a part of one, allowed is .*index.json"),
        (write_incomplete, TrajectoryError, "its part model-00002-of-.* is missing"),
        (
            saver("{letter}.pt", lambda step: {"model": state(step), "epoch": step}),
            SettingsError,
            "--step-from.*names in .*: model, epoch",
        ),
    ],
)
def test_what_is_incomplete_is_refused(tmp_path, write, error, message):
    write(tmp_path)
    with pytest.raises(error, match=message):
        dynamics.collect_checkpoints([tmp_path], weights=True)


def test_the_order_of_files_gives_steps(tmp_path):
    paths = [tmp_path / name for name in ("epoch_0.5.pt", "epoch_0.25.pt")]
    for path in paths:
        torch.save(state(1), path)
    with pytest.raises(SettingsError, match="--step-from order"):
        dynamics.collect_checkpoints(paths, weights=True)
    result = dynamics.collect_checkpoints(paths, weights=True, step_from="order")
    assert result["step"].values.tolist() == [0, 1]


def test_tensors_beside_a_state_dict_are_refused(tmp_path):
    content = {"model": state(1), "loss": torch.tensor(0.5), "optimizer": {"lr": 1.0}}
    torch.save(content, tmp_path / "step_1.pt")
    with pytest.raises(SettingsError, match=r"one of model, or all for all tensors"):
        dynamics.collect_checkpoints([tmp_path], weights=True)
    result = dynamics.collect_checkpoints([tmp_path], weights=True, state_dict="model")
    assert "parameter.embed.weight" in result


def test_files_of_a_folder_come_before_folders_in_it(tmp_path):
    for step in STEPS:
        torch.save(state(step), tmp_path / f"step_{step}.pt")
    (tmp_path / "v2").mkdir()
    torch.save(state(7), tmp_path / "v2" / "other.pt")
    result = dynamics.collect_checkpoints([tmp_path], "embed.weight")
    assert result["step"].values.tolist() == list(STEPS)


def test_a_checkpoint_of_lightning_has_one_state_dict(tmp_path):
    for step in STEPS:
        content = {
            "epoch": step // 20,
            "global_step": step,
            "state_dict": state(step),
            "hyper_parameters": {"lr": 0.1},
            "callbacks": {
                "Saving": {
                    "best_model_score": torch.tensor(1.0),
                    "best_k_models": {"a": torch.tensor(1.0)},
                }
            },
            "loops": {"fit_loop": {"state_dict": {}, "done": 3}},
            "optimizer_states": [{"state": {0: {"step": torch.tensor(step)}}}],
        }
        torch.save(content, tmp_path / f"epoch={step // 20}-step={step}.ckpt")
    result = dynamics.collect_checkpoints([tmp_path], "embed.weight", weights=True)
    assert result["step"].values.tolist() == list(STEPS)
    parameters = [name for name in result.data_vars if name.startswith("parameter.")]
    assert parameters == ["parameter.embed.weight", "parameter.out.bias"]
