"""What can be known of training on CUDA without a CUDA device.

Tensors on torch's device "meta" have a shape but no values. Every network trains,
evaluates and restarts there, in place of CUDA: an operation on tensors of two devices
fails, and so does, within a captured step, every access to a value. On the CPU, a
recorder of operations stands in for CUDA graphs: what it replays is what a graph
would."""

import contextlib

import numpy as np
import pytest
import torch
from torch.optim import optimizer
from torch.utils._python_dispatch import TorchDispatchMode
from torch.utils._pytree import tree_leaves, tree_map

from dynamics import ModularSettings, SparseSettings, TransformerSettings
from dynamics.training import run_groups, training_systems
from dynamics.training.modular_backends import ModularTorchBackend
from dynamics.training.sparse_backends import SparseTorchBackend
from dynamics.training.transformer_backends import TransformerTorchBackend
from tests.dynamics import test_optimizers  # noqa: F401 - registers lion, amsgrad
from tests.dynamics.training.test_training_systems import system_of

DEVICE = "meta"
SPARSE = SparseSettings(length=5, sparsity=2, data=50, batch=16, hidden=5)
TRANSFORMER = TransformerSettings(n=5, dim=8, heads=2, warmup=3)
SETTINGS = [
    *(ModularSettings(n=5, hidden=4, optimizer=name) for name in ("adamw", "adam")),
    ModularSettings(n=5, hidden=4, optimizer="sgd", momentum=0.9, weight_decay=0.0),
    ModularSettings(n=5, hidden=4, embedding_weight_decay=0.0),
    SPARSE,
    SparseSettings(
        length=5, sparsity=2, data=50, batch=16, hidden=5, mlp_lr_discount=3.0
    ),
    TRANSFORMER,
    TransformerSettings(n=5, dim=8, heads=2, attention_rate=0.0, batch=7),
    ModularSettings(
        n=5,
        hidden=4,
        schedule="warmup:3,cosine:9",
        decay_of=("embedding=0",),
        lr_of=("hidden_bias=0.001",),
        freeze=("output_bias",),
    ),
    ModularSettings(n=5, hidden=4, optimizer="amsgrad", weight_decay=0.0),
    SparseSettings(
        length=5, sparsity=2, data=50, batch=16, hidden=5, optimizer="lion", lr=1e-4
    ),
    TransformerSettings(
        n=5, dim=8, heads=2, optimizer="lion", lr=1e-4, freeze=("unembedding",)
    ),
]
BACKENDS = {
    "modular": ModularTorchBackend,
    "sparse": SparseTorchBackend,
    "transformer": TransformerTorchBackend,
}
FUSED = ("_fused_sgd_", "_fused_adam_", "_fused_adamw_")


class CapturedStep(TorchDispatchMode):
    """Fails on tensors of other devices while a step is captured. Operations that the
    host waits for fail by themselves, as they need values."""

    capturing = False
    operations = 0

    def __torch_dispatch__(self, operation, types, words=(), options=None):
        name = operation._schema.name.removeprefix("aten::")
        tensors = [
            item
            for item in tree_leaves((words, options or {}))
            if isinstance(item, torch.Tensor)
        ]
        if name in FUSED:  # without an implementation for this device
            assert {str(tensor.device) for tensor in tensors} == {DEVICE}, name
            return None
        result = operation(*words, **(options or {}))
        if self.capturing:
            self.operations += 1
            tensors += [
                item for item in tree_leaves(result) if isinstance(item, torch.Tensor)
            ]
            devices = {str(tensor.device) for tensor in tensors}
            assert devices <= {DEVICE}, f"{name} on {devices}"
        return result


class EmptyGraph:
    """A CUDA graph that replays nothing."""

    def pool(self):
        return None

    def replay(self):
        pass


def replace_graphs(monkeypatch, graph, capture):
    """Put a class and a context manager in place of CUDA's graphs and streams."""

    class Stream:
        def wait_stream(self, other):
            pass

    for name, value in {
        "CUDAGraph": graph,
        "graph": capture,
        "Stream": Stream,
        "current_stream": Stream,
        "stream": contextlib.nullcontext,
    }.items():
        monkeypatch.setattr(torch.cuda, name, value)


@pytest.fixture
def captured(monkeypatch):
    """A CUDA device without values."""
    mode = CapturedStep()

    @contextlib.contextmanager
    def capture(graph, **options):
        mode.capturing = True
        yield
        mode.capturing = False

    class Threads:
        def __init__(self, number):
            self.map = map

    replace_graphs(monkeypatch, EmptyGraph, capture)
    monkeypatch.setattr(torch.Tensor, "cpu", _zeros)
    monkeypatch.setattr(
        optimizer, "_get_fused_kernels_supported_devices", lambda: [DEVICE]
    )
    monkeypatch.setattr(training_systems, "resolve_device", lambda device, kind: DEVICE)
    monkeypatch.setattr(
        run_groups, "ThreadPoolExecutor", Threads
    )  # modes are per thread
    with mode:
        yield mode


def _zeros(tensor):
    """Zeros in place of the values that the tensor lacks."""
    return torch.zeros(tensor.shape, dtype=tensor.dtype)


@pytest.mark.parametrize("settings", SETTINGS, ids=lambda s: s.system)
def test_every_step_stays_on_the_device(captured, settings):
    """Gradients, updates, losses and restart states of every network."""
    trained = type(system_of(settings))(settings, "cuda")
    state = trained.initial(np.arange(3))
    state = trained.advance(state, 5)
    assert captured.operations > 20
    frame = trained.observe(state)
    assert {name: len(values) for name, values in frame.items()} == dict.fromkeys(
        trained.variables, 3
    )
    restored = trained.restore(trained.checkpoint(state))
    assert trained.advance(restored, 2).step == 7
    backend = trained.backend(np.arange(3))
    backend.set_state(state.weights, state.moments, state.updates)
    loss, accuracy = backend.exact_scores(np.array([True, False, True]))
    assert loss.shape == accuracy.shape == (2, len(trained.splits))


@pytest.mark.parametrize(
    ("change", "message"),
    [
        (lambda loss: loss * loss.detach().item(), "cannot be called on meta"),
        (lambda loss: loss + torch.ones(2).sum(), "ones on {'cpu'}"),
        (lambda loss: loss * (loss == loss).nonzero().sum(), "torch.nonzero"),
    ],
)
def test_a_step_that_leaves_the_device_is_found(captured, monkeypatch, change, message):
    loss = ModularTorchBackend.loss
    monkeypatch.setattr(
        ModularTorchBackend, "loss", lambda *words: change(loss(*words))
    )
    trained = type(system_of(SETTINGS[0]))(SETTINGS[0], "cuda")
    with pytest.raises(Exception, match=message):
        trained.advance(trained.initial(np.arange(3)), 5)


class RecordedGraph(TorchDispatchMode):
    """Records the operations of a step, and repeats them on the same tensors."""

    def __init__(self):
        super().__init__()
        self.records = []

    def __torch_dispatch__(self, operation, types, words=(), options=None):
        result = operation(*words, **(options or {}))
        self.records.append((operation, words, options or {}, result))
        return result

    def pool(self):
        return None

    @torch.no_grad()
    def replay(self):
        new = {}
        for operation, words, options, result in self.records:
            words, options = tree_map(
                lambda item, new=new: new.get(id(item), item), (words, options)
            )
            results = tree_leaves(operation(*words, **options))
            new |= dict(zip(map(id, tree_leaves(result)), results, strict=True))


class OtherDevice(str):
    """The CPU under a name that no comparison finds."""

    __hash__ = str.__hash__

    def __eq__(self, other):
        return False

    def __ne__(self, other):
        return True


@pytest.mark.parametrize("settings", SETTINGS, ids=lambda s: s.system)
def test_replayed_steps_are_those_of_plain_training(monkeypatch, settings):
    """A captured step reads all that changes from tensors: the rate of learning, the
    mini-batch and its size."""
    replace_graphs(monkeypatch, RecordedGraph, lambda graph, **options: graph)
    network, seeds = system_of(settings).network, np.arange(3)
    rows = network.flatten(network.initial(seeds))
    states = []
    for device in ("cpu", OtherDevice("cpu")):
        backend = BACKENDS[settings.system](network, seeds, device)
        moments = {name: np.zeros_like(rows) for name in backend.names}
        backend.set_state(rows, moments, 0)
        backend.train(0, 5)
        backend.train(5, 6)
        states.append([backend.weights(), backend.gradient(), backend.last_update()])
        states[-1] += [*backend.moments().values(), *backend.scores()]
    assert len(backend.graphs) == (1 if settings.epoch_steps == 1 else 2)
    for plain, replayed in zip(*states, strict=True):
        np.testing.assert_array_equal(plain, replayed)
