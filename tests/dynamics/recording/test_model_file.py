"""Model files: which source runs, and how its mistakes are reported."""

import subprocess
import sys

import pytest
import torch
import xarray as xr
from numpy.testing import assert_allclose, assert_array_equal

import dynamics
from dynamics.errors import TrajectoryError
from dynamics.recording.model_loss import RecordedModel
from dynamics.recording.recorded_network import RecordedNetwork, with_model
from dynamics.settings import SettingsError
from dynamics.user_code import reported_errors

N = 5
SOURCE = f"""
modulus = {N}
def logits(parameters, inputs):
    table = parameters["embed.weight"]
    return table[inputs].sum(1) @ table.T
def embedding(parameters):
    return parameters["embed.weight"]
"""


@pytest.fixture(autouse=True)
def cache(tmp_path, monkeypatch):
    """A computer on which no model file has run, and a working folder of its own."""
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    monkeypatch.chdir(tmp_path)
    return tmp_path / "cache"


@pytest.fixture
def checkpoints(tmp_path):
    folder = tmp_path / "checkpoints"
    folder.mkdir()
    for step in (0, 10, 20):
        generator = torch.Generator().manual_seed(step)
        content = {"embed.weight": torch.randn(N, 3, generator=generator)}
        torch.save(content, folder / f"step-{step}.pt")
    return folder


@pytest.fixture
def collected(checkpoints, tmp_path):
    """A trajectory with the source of a model file, from a computer elsewhere."""
    path = tmp_path / "model.py"
    path.write_text(SOURCE)
    model = dynamics.load_model_file(path)
    trajectory = dynamics.collect_checkpoints([checkpoints], model=model)
    path.unlink()
    (tmp_path / "cache" / "training-dynamics" / "model-files.txt").unlink()
    return trajectory


# ------------------------------------------------------------------------ what may run


def test_the_source_in_a_trajectory_runs_only_if_it_is_trusted(collected, tmp_path):
    with pytest.raises(SettingsError, match=r"model.py in the trajectory.*--trust"):
        dynamics.find_model(collected)
    assert dynamics.find_model(collected, trust=True).modulus == N
    assert dynamics.find_model(collected).modulus == N


def test_a_source_that_is_named_is_trusted_from_then_on(collected, tmp_path):
    copy = tmp_path / "own.py"
    copy.write_text(SOURCE)
    assert dynamics.find_model(collected, copy).path == copy
    assert dynamics.find_model(collected).path.name == "model.py"


@pytest.mark.parametrize("trust", [False, True])
def test_a_changed_source_is_refused(collected, trust):
    changed = collected.assign_attrs(model_source=SOURCE + "print('changed')")
    with pytest.raises(TrajectoryError, match="was changed after it was stored"):
        dynamics.find_model(changed, trust=trust)


def test_opening_a_trajectory_runs_nothing(checkpoints, tmp_path, capsys):
    path = tmp_path / "model.py"
    path.write_text(SOURCE + "print('this runs')")
    model = dynamics.load_model_file(path)
    assert "this runs" in capsys.readouterr().out
    trajectory = dynamics.collect_checkpoints([checkpoints], model=model)
    dynamics.save_trajectory(trajectory, "runs/saved.nc")
    reopened = dynamics.open_trajectory("runs/saved.nc")
    assert reopened.attrs["model_source"] == path.read_text()
    assert capsys.readouterr().out == ""


def test_a_home_folder_that_cannot_be_written_only_forgets(cache, tmp_path):
    cache.write_text("a file in place of the folder")
    path = tmp_path / "model.py"
    path.write_text(SOURCE)
    assert dynamics.load_model_file(path).modulus == N


def test_modules_beside_the_file_replace_none_of_python(tmp_path):
    (tmp_path / "helper.py").write_text(SOURCE)
    (tmp_path / "copy.py").write_text("def deepcopy(value): return None")
    source = """
from helper import *
import copy
def operation(a, b):
    import late
    return a - b
"""
    (tmp_path / "late.py").write_text("")
    (tmp_path / "model.py").write_text(source)
    model = dynamics.load_model_file("model.py")
    assert model.modulus == N
    assert model.operation(3, 1) == 2
    words = [
        sys.executable,
        "-c",
        f"import sys; sys.path = {sys.path}; import copy; copy.copy",
    ]
    subprocess.run(words, check=True)
    assert sys.path[0] != str(tmp_path)


# ------------------------------------------------------------------ what the file gives


def test_collected_checkpoints_have_the_embedding_and_the_modulus(collected):
    table = collected["parameter.embed.weight"]
    assert_array_equal(collected["embedding"], table)
    assert collected.attrs["modulus"] == N


def test_a_model_file_that_is_named_later_completes_the_trajectory(collected):
    model = dynamics.find_model(collected, trust=True)
    bare = collected.drop_vars("embedding").assign_attrs(modulus=0)
    completed = with_model(bare, model)
    xr.testing.assert_allclose(
        completed["embedding"].astype("f4"), collected["embedding"].drop_attrs()
    )
    assert completed.attrs["modulus"] == N
    assert with_model(bare, None) is bare


def test_a_module_is_called_with_the_recorded_weights(tmp_path):
    source = """
import torch
modulus = 5
class Network(torch.nn.Module):
    def __init__(self, width):
        super().__init__()
        self.embed = torch.nn.Embedding(5, width)
        self.norm = torch.nn.BatchNorm1d(width)
        self.out = torch.nn.Linear(width, 5, bias=False)
    def forward(self, pairs):
        return self.out(self.norm(self.embed(pairs).sum(1)))
def module(config): return Network(config["width"])
"""
    (tmp_path / "net.py").write_text(source)
    model = dynamics.load_model_file("net.py")
    network = model.module({"width": 4}).eval()
    network.norm.running_mean[:] = torch.arange(4.0)
    content = {"width": 4, "weights": network.state_dict()}
    torch.save(content, tmp_path / "one-7.pt")
    trajectory = dynamics.collect_checkpoints(["one-7.pt"], model=model)
    recorded = RecordedNetwork(trajectory, model)
    pairs = torch.tensor([[0, 1], [4, 2]])
    result = recorded.logits(recorded.parameters(0, 0), pairs)
    assert_allclose(result.detach(), network(pairs).detach(), rtol=1e-5)


def test_a_recording_contains_the_model_file(tmp_path):
    path = tmp_path / "model.py"
    path.write_text(SOURCE)

    class Network(torch.nn.Module):
        def __init__(self):
            super().__init__()
            self.embed = torch.nn.Embedding(N + 1, 3)

    network = Network()
    optimizer = torch.optim.SGD(network.parameters(), lr=0.1)
    with dynamics.record(network, optimizer, "mine.nc", model_file=path) as recording:
        for _ in range(3):
            optimizer.zero_grad()
            network.embed.weight.square().sum().backward()
            optimizer.step()
            recording.step()
    trajectory = dynamics.open_trajectory("mine.nc")
    assert trajectory.attrs["modulus"] == N
    weight = trajectory["parameter.embed.weight"].values
    assert_array_equal(trajectory["embedding"], weight[:, :, :N])
    assert dynamics.find_model(trajectory).source == SOURCE


# -------------------------------------------------------------------- what goes wrong


MISTAKES = {
    "no Python": ("def logits(", r"bad.py, line 1: the file raises SyntaxError"),
    "raises": ("\n1 / 0", r"bad.py, line 2: the file raises ZeroDivisionError"),
    "ends": ("raise SystemExit(3)", r"bad.py, line 1: the file raises SystemExit: 3"),
    "empty": ("", "bad.py without any of them"),
    "no function": ("logits = 3", "logits: found int, allowed is a function"),
    "no number": (
        "modulus = 'a'\ndef module(config): ...",
        "modulus: found a, allowed",
    ),
    "no text": (b"\xff\xfe\x00", "bad.py: 'utf-8' codec"),
    "null": (b"a = 1\x00", "bad.py"),
    "no GPU": (
        "import torch\ntorch.zeros(2, device='cuda')\ndef module(config): ...",
        r"bad.py, line 2: the file raises (AssertionError|RuntimeError)",
    ),
}


@pytest.mark.parametrize("name", MISTAKES)
def test_a_bad_file_is_reported_with_its_line(tmp_path, name):
    if name == "no GPU" and torch.cuda.is_available():
        pytest.skip("there is a GPU")
    source, words = MISTAKES[name]
    path = tmp_path / "bad.py"
    path.write_bytes(source if isinstance(source, bytes) else source.encode())
    with pytest.raises(SettingsError, match=words) as error:
        dynamics.load_model_file(path)
    assert "\n" not in str(error.value)


@pytest.mark.parametrize("path", ["nowhere.py", ".", ""])
def test_no_file_is_reported(path):
    with pytest.raises(SettingsError, match="--model|model: found"):
        dynamics.load_model_file(path)


def test_an_interrupted_function_is_named_with_its_line(tmp_path, capsys):
    path = tmp_path / "endless.py"
    path.write_text("import signal\nsignal.raise_signal(signal.SIGINT)")
    with pytest.raises(KeyboardInterrupt):
        dynamics.load_model_file(path)
    assert f"{path}, line 2: the file was running" in capsys.readouterr().err


def test_functions_that_mix_types_say_what_helps():
    words = r"use .double\(\)"
    with pytest.raises(SettingsError, match=words), reported_errors(None, "loss()"):
        torch.zeros(2, 2) @ torch.zeros(2, 2, dtype=torch.float64)


@pytest.mark.parametrize("name", ["logits", "embedding", "loss"])
def test_a_name_that_is_missing_is_reported_with_near_ones(checkpoints, tmp_path, name):
    source = f"""
modulus = {N}
def {name}(parameters, *batch):
    return parameters["embd.weight"]
def batches(): return [None]
"""
    (tmp_path / "model.py").write_text(source)
    model = dynamics.load_model_file("model.py")
    words = rf"model.py, line 4: {name}\(\) raises KeyError.*example embed.weight"
    with pytest.raises(SettingsError, match=words):
        trajectory = dynamics.collect_checkpoints([checkpoints], model=model)
        RecordedModel(trajectory, dynamics.recorded_loss(trajectory, model))


def test_mistakes_of_functions_are_reported_when_checkpoints_are_collected(
    checkpoints, tmp_path
):
    for line, words in (
        ("def training_pairs(): return [[0, 9]]", r"training_pairs\(\) returns"),
        ("def operation(a, b): return a + b", r"operation\(\) returns"),
        ("def logits(parameters, inputs): return inputs", r"logits\(\) returns"),
    ):
        (tmp_path / "model.py").write_text(SOURCE + line)
        model = dynamics.load_model_file("model.py")
        with pytest.raises(SettingsError, match=f"model.py: {words}"):
            dynamics.collect_checkpoints([checkpoints], model=model)


def test_missing_parameters_are_named_with_near_ones(collected, tmp_path):
    source = """
import torch
def module(config): return torch.nn.ModuleDict({"embedd": torch.nn.Embedding(5, 3)})
"""
    (tmp_path / "net.py").write_text(source)
    model = dynamics.load_model_file("net.py")
    with pytest.raises(
        SettingsError, match=r"embedd.weight, which is not in.*example embed.weight"
    ):
        RecordedNetwork(collected, model)
