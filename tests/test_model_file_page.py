"""The page on model files: its layouts compute what networks of these kinds compute."""

import re

import pytest
import torch
from numpy.testing import assert_allclose

import dynamics
from dynamics.recording.recorded_network import RecordedNetwork
from tests.conftest import ROOT
from tests.plain_transformer import PlainTransformer

PAGE = (ROOT / "docs" / "guides" / "model-files.md").read_text()
N, HEADS, WIDTH, DIM = 7, 2, 8, 16
SECTIONS = dict(
    re.findall(r"\n### ([^\n]*)\n.*?```python\n(.*?)```", PAGE, flags=re.DOTALL)
)
NAMES = dict(
    zip(("own code", "transformer_lens", "module", "gpt2"), SECTIONS, strict=True)
)
PAIRS = torch.cartesian_prod(torch.arange(N), torch.arange(N))


@pytest.fixture(autouse=True)
def folder(tmp_path, monkeypatch):
    """A working folder, and a computer on which no model file has run."""
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    monkeypatch.chdir(tmp_path)


def model_file(name, **constants):
    """The model file of a layout for the modulus N."""
    source = SECTIONS[NAMES[name]]
    for constant, value in {"modulus": N, **constants}.items():
        source = re.sub(rf"\b{constant} = [\d.]+", f"{constant} = {value}", source)
    with open("model.py", "w") as file:
        file.write(source)
    return dynamics.load_model_file("model.py")


def collected(content, model):
    torch.save(content, "model-30.pt")
    trajectory = dynamics.collect_checkpoints(["model-30.pt"], model=model)
    return RecordedNetwork(trajectory, model)


def assert_same(network, expected):
    """The logits of all pairs; those of the page are in float64 if they can be."""
    with torch.no_grad():
        result = network.logits(network.parameters(0, 0), PAIRS)
    assert_allclose(result, expected.detach()[:, :N], rtol=1e-4, atol=1e-5)


def plain_transformer(equals, rate):
    """A network of ZL or NA, and a batch of all its sequences."""
    settings = dynamics.TransformerSettings(
        n=N, dim=DIM, heads=HEADS, attention_rate=rate, equals_token=equals
    )
    torch.manual_seed(1)
    network = PlainTransformer(settings)
    torch.nn.init.normal_(network.positions)
    tokens = torch.cat([PAIRS, torch.full((len(PAIRS), 1), N)], dim=1)
    return network, tokens[:, : settings.positions]


def by_heads(layer, heads=HEADS):
    """Weights (head, head_axis, axis) of a linear layer."""
    return layer.weight.unflatten(0, (heads, -1))


@pytest.mark.parametrize(("equals", "rate"), [(False, 0.3), (True, 1.0)])
def test_the_layout_of_their_own_code(equals, rate):
    network, tokens = plain_transformer(equals, rate)
    (block,) = network.blocks
    attn, mlp = "blocks.0.attn.", "blocks.0.mlp."
    state = {
        "embed.W_E": network.embedding.weight.T,
        "pos_embed.W_pos": network.positions,
        attn + "W_Q": by_heads(block.query),
        attn + "W_K": by_heads(block.key),
        attn + "W_V": by_heads(block.value),
        attn + "W_O": block.output.weight,
        mlp + "W_in": block.mlp_input.weight,
        mlp + "b_in": block.mlp_input.bias,
        mlp + "W_out": block.mlp_output.weight,
        mlp + "b_out": block.mlp_output.bias,
        "unembed.W_U": network.unembedding.weight.T,
    }
    state = {name: tensor.detach().clone() for name, tensor in state.items()}
    recorded = collected({"model": state}, model_file("own code", RATE=rate))
    assert_same(recorded, network(tokens))


def test_the_layout_of_transformer_lens():
    network, tokens = plain_transformer(True, 1.0)
    (block,) = network.blocks
    attn, mlp = "blocks.0.attn.", "blocks.0.mlp."
    state = {
        "embed.W_E": network.embedding.weight,
        "pos_embed.W_pos": network.positions,
        attn + "W_Q": by_heads(block.query).mT,
        attn + "W_K": by_heads(block.key).mT,
        attn + "W_V": by_heads(block.value).mT,
        attn + "W_O": block.output.weight.T.unflatten(0, (HEADS, -1)),
        attn + "b_Q": torch.zeros(HEADS, WIDTH),
        attn + "b_K": torch.zeros(HEADS, WIDTH),
        attn + "b_V": torch.zeros(HEADS, WIDTH),
        attn + "b_O": torch.zeros(DIM),
        mlp + "W_in": block.mlp_input.weight.T,
        mlp + "b_in": block.mlp_input.bias,
        mlp + "W_out": block.mlp_output.weight.T,
        mlp + "b_out": block.mlp_output.bias,
        "unembed.W_U": network.unembedding.weight.T,
        "unembed.b_U": torch.zeros(N),
    }
    state = {name: tensor.detach().clone() for name, tensor in state.items()}
    assert_same(collected(state, model_file("transformer_lens")), network(tokens))


def test_the_layout_of_a_module():
    model = model_file("module")
    torch.manual_seed(2)
    config = {"dim": DIM, "heads": HEADS}
    network = model.module(config).eval()
    content = {**config, "weights": network.state_dict()}
    assert_same(collected(content, model), network(PAIRS))


def test_the_layout_of_gpt2():
    transformers = pytest.importorskip("transformers")
    model = model_file("gpt2")
    torch.manual_seed(3)
    config = transformers.GPT2Config(
        vocab_size=N + 1, n_positions=3, n_embd=32, n_layer=1, n_head=2
    )
    network = transformers.GPT2LMHeadModel(config).eval()
    tokens = torch.cat([PAIRS, torch.full((len(PAIRS), 1), N)], dim=1)
    recorded = collected(network.state_dict(), model)
    assert_same(recorded, network(tokens).logits[:, -1])


@pytest.mark.parametrize("name", NAMES)
def test_a_layout_is_short(name):
    lines = [line for line in SECTIONS[NAMES[name]].splitlines() if line.strip()]
    assert len(lines) <= 25
