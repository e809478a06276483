"""Where some runs of an ensemble live while they train, and how they take their steps.

On a processor a run is a lane of compiled kernels, which differentiate and update without returning to Python; on a
CUDA device gradients come from autograd over batched products, updates from torch.optim, and a step is captured in a
graph. `modular_engines` and `sparse_engines` say what is learned.
"""

from abc import ABC, abstractmethod
from collections.abc import Mapping
from typing import Protocol

import numpy as np
import torch

from dynamics.kernels.optimizers import TrainingArrays, moment_names, optimizer_rule
from dynamics.kernels.simd import from_lanes, to_lanes
from dynamics.networks.parameters import NetworkParameters, Weights
from dynamics.settings import OptimizerSettings

MIN_CUDA_WIDTH = 64
"""Runs to which a smaller ensemble is padded on CUDA: batched products may round by the width of the batch."""


class Backend(Protocol):
    """Some runs, advanced in place. Rows are (run, parameter) float32, in the order of the network's parameters."""

    def hold(self, weights: np.ndarray, moments: Mapping[str, np.ndarray], updates: int) -> None:
        """Begin from rows of weights and of the optimizer's moments, which have seen so many updates."""

    def train(self, step: int, steps: int) -> None:
        """Take the updates step + 1, ..., step + steps; at least one."""

    def differentiate(self, step: int) -> None:
        """Find the gradient that the update step + 1 would use."""

    def weights(self) -> np.ndarray:
        """Rows of weights."""

    def moments(self) -> dict[str, np.ndarray]:
        """Rows of the optimizer's moments, by torch's names."""

    def gradient(self) -> np.ndarray:
        """Rows of the gradient that the last update used, or that `differentiate` found."""

    def moved(self) -> np.ndarray:
        """Rows of what the last update added to the weights."""

    def scores(self) -> tuple[np.ndarray, np.ndarray]:
        """Mean cross-entropy and share classified correctly, both (run, split) float64; not finite on overflow.

        Where m classes tie at the top, the right one among them, it counts 1/m.
        """

    def exact_scores(self, which: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        """`scores` of the runs `which` (run,) bool in float64, which finite float32 weights cannot overflow."""


# ------------------------------------------------------------------------------------------- on a processor


class SimdBackend(ABC):
    """Sixteen runs side by side. A run's bits depend on its own state alone."""

    def __init__(self, settings: OptimizerSettings, network: NetworkParameters, runs: int) -> None:
        self.runs, self.rule, self.names = runs, optimizer_rule(settings), moment_names(settings)
        empty = to_lanes(np.zeros((runs, sum(network.lengths)), np.float32))
        self.memory = TrainingArrays(*(np.zeros_like(empty) for _ in TrainingArrays._fields))
        self.updates = 0

    def hold(self, weights: np.ndarray, moments: Mapping[str, np.ndarray], updates: int) -> None:
        self.memory.weights[:] = to_lanes(weights)
        for name, values in zip(self.names, (self.memory.first, self.memory.second), strict=False):
            values[:] = to_lanes(moments[name])
        self.updates = updates

    def train(self, step: int, steps: int) -> None:
        self._train(step, steps)
        self.updates += steps

    @abstractmethod
    def _train(self, step: int, steps: int) -> None:
        """Change the memory."""

    @abstractmethod
    def differentiate(self, step: int) -> None: ...

    def weights(self) -> np.ndarray:
        return from_lanes(self.memory.weights, self.runs)

    def moments(self) -> dict[str, np.ndarray]:
        held = zip(self.names, (self.memory.first, self.memory.second), strict=False)
        return {name: from_lanes(values, self.runs) for name, values in held}

    def gradient(self) -> np.ndarray:
        return from_lanes(self.memory.gradient, self.runs)

    def moved(self) -> np.ndarray:
        return from_lanes(self.memory.weights, self.runs) - from_lanes(self.memory.before, self.runs)

    @abstractmethod
    def scores(self) -> tuple[np.ndarray, np.ndarray]: ...

    @abstractmethod
    def exact_scores(self, which: np.ndarray) -> tuple[np.ndarray, np.ndarray]: ...


# -------------------------------------------------------------------------------------- on a device of torch


class TorchBackend(ABC):
    """Batched products over a leading run axis, of `width` runs at least.

    discounts: by what the learning rate of some weights is divided. decays: what is added to the weight decay of some.
    Weights that are alike in both are a tensor.
    """

    def __init__(
        self,
        settings: OptimizerSettings,
        network: NetworkParameters,
        runs: int,
        device: str,
        width: int = 0,
        discounts: Mapping[str, float] | None = None,
        decays: Mapping[str, float] | None = None,
    ) -> None:
        self.network, self.runs, self.device = network, runs, device
        self.width = max(runs, width, MIN_CUDA_WIDTH)
        self.names = moment_names(settings)
        ways = [((discounts or {}).get(name, 1.0), (decays or {}).get(name, 0.0)) for name in network.variables]
        kinds = list(dict.fromkeys(ways))
        of_column = np.repeat([kinds.index(way) for way in ways], network.lengths)
        groups = [
            (np.flatnonzero(of_column == kind), settings.lr / discount, settings.weight_decay + decay)
            for kind, (discount, decay) in enumerate(kinds)
        ]
        self.columns = [torch.from_numpy(places).to(device) for places, *_ in groups]
        self.back = torch.cat(self.columns).argsort()
        self.parts = [torch.zeros(self.width, len(places), device=device) for places, *_ in groups]
        for part in self.parts:
            part.grad = torch.zeros_like(part)
            part.requires_grad_()
        rated = [
            {"params": [part], "lr": rate, "weight_decay": decay}
            for part, (_, rate, decay) in zip(self.parts, groups, strict=True)
        ]
        self.optimizer = torch_optimizer(settings, rated, device != "cpu")
        self.graphs: dict[int, torch.cuda.CUDAGraph] = {}
        self.before: list[torch.Tensor] = []
        self.updates = 0

    # ------------------------------------------------------------------------------ what is learned

    @abstractmethod
    def loss(self, weights: Weights, step: int) -> torch.Tensor:
        """The sum over all runs of the loss to be followed. Inside a graph, `step` is that of its capture."""

    def prepare(self, step: int) -> int:
        """Put in place what the loss at a step reads; the key of the graph that fits it."""
        return 0

    @abstractmethod
    def scores_of(self, weights: Weights, runs: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        """`scores` of the runs at these places; weights may be of more, which follow them."""

    # ---------------------------------------------------------------------------------- as an Engine

    @torch.no_grad()
    def hold(self, weights: np.ndarray, moments: Mapping[str, np.ndarray], updates: int) -> None:
        given = self._split(weights)
        kept = {name: self._split(moments[name]) for name in self.names}
        for at, (part, values) in enumerate(zip(self.parts, given, strict=True)):
            part.copy_(values)
            memory = self.optimizer.state[part]
            for name in self.names:
                memory.setdefault(name, torch.zeros_like(part)).copy_(kept[name][at])
            if "exp_avg" in self.names:
                memory.setdefault("step", torch.zeros((), device=part.device)).fill_(float(updates))
        self.updates = updates

    def train(self, step: int, steps: int) -> None:
        for at in range(step, step + steps):
            if at == step + steps - 1:
                self.before = [part.detach().clone() for part in self.parts]
            key = self.prepare(at)
            if self.device == "cpu":
                self._update(at)
            else:
                if key not in self.graphs:
                    self.graphs[key] = self._capture(at)
                self.graphs[key].replay()
        self.updates += steps

    def differentiate(self, step: int) -> None:
        self.prepare(step)
        self._differentiate(step)

    def weights(self) -> np.ndarray:
        return self._joined([part.detach() for part in self.parts])

    def moments(self) -> dict[str, np.ndarray]:
        return {name: self._joined([self.optimizer.state[part][name] for part in self.parts]) for name in self.names}

    def gradient(self) -> np.ndarray:
        return self._joined([_gradient_buffer(part) for part in self.parts])

    def moved(self) -> np.ndarray:
        pairs = zip(self.parts, self.before, strict=True)
        return self._joined([part.detach() - before for part, before in pairs])

    @torch.no_grad()
    def scores(self) -> tuple[np.ndarray, np.ndarray]:
        return self.scores_of(self._named(), np.arange(self.runs))

    @torch.no_grad()
    def exact_scores(self, which: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        at = np.flatnonzero(which)
        rows = torch.from_numpy(self.weights()[at]).to(self.device).double()
        return self.scores_of(self.network.unflatten(rows), at)

    # ----------------------------------------------------------------------------------------- parts

    def _named(self) -> dict[str, torch.Tensor]:
        return self.network.unflatten(torch.cat(self.parts, dim=1).index_select(1, self.back))

    def _split(self, rows: np.ndarray) -> list[torch.Tensor]:
        padded = torch.zeros(self.width, rows.shape[1])
        padded[: self.runs] = torch.from_numpy(np.ascontiguousarray(rows))
        return [padded.to(self.device)[:, columns] for columns in self.columns]

    def _joined(self, parts: list[torch.Tensor]) -> np.ndarray:
        return torch.cat(parts, dim=1)[: self.runs, self.back].cpu().numpy()

    def _differentiate(self, step: int) -> None:
        with torch.enable_grad():
            gradients = torch.autograd.grad(self.loss(self._named(), step), self.parts)
        for part, gradient in zip(self.parts, gradients, strict=True):
            _gradient_buffer(part).copy_(gradient)

    def _update(self, step: int) -> None:
        self._differentiate(step)
        self.optimizer.step()

    def _capture(self, step: int) -> torch.cuda.CUDAGraph:
        """A step as a graph; what the warm-up steps change is put back."""
        touched = [*self.parts, *(value for state in self.optimizer.state.values() for value in state.values())]
        before = [tensor.detach().clone() for tensor in touched]
        aside = torch.cuda.Stream()
        aside.wait_stream(torch.cuda.current_stream())
        with torch.cuda.stream(aside):
            for _ in range(3):
                self._update(step)
        torch.cuda.current_stream().wait_stream(aside)
        graph, others = torch.cuda.CUDAGraph(), list(self.graphs.values())
        with torch.cuda.graph(graph, pool=others[0].pool() if others else None):
            self._update(step)
        with torch.no_grad():
            for tensor, value in zip(touched, before, strict=True):
                tensor.copy_(value)
        return graph


def _gradient_buffer(part: torch.Tensor) -> torch.Tensor:
    """The tensor in which a parameter's gradient is kept."""
    assert part.grad is not None
    return part.grad


def torch_optimizer(settings: OptimizerSettings, groups: list[dict], graph: bool) -> torch.optim.Optimizer:
    """The update rule that settings name, fused, each group at its own rate and decay; with `graph` able to stand in
    one."""
    s = settings
    if s.optimizer == "sgd":
        return torch.optim.SGD(groups, momentum=s.momentum, fused=True)
    rule = torch.optim.AdamW if s.optimizer == "adamw" else torch.optim.Adam
    return rule(groups, betas=(s.beta1, s.beta2), fused=True, capturable=graph)


def mean_scores(logits: torch.Tensor, target: torch.Tensor, counts: torch.Tensor) -> tuple[np.ndarray, np.ndarray]:
    """Cross-entropy and share classified correctly, both (run, split) float64: logits (run, item, class), target (item)
    or (run, item), counts (run, item, split), how often each item occurs in each split."""
    target = target.expand(logits.shape[:-1])[..., None]
    right = torch.gather(logits, -1, target)
    losses = torch.logsumexp(logits.double(), -1) - right[..., 0].double()
    correct = (logits <= right).all(-1) / (logits == right).sum(-1).clamp(min=1).double()
    counts = counts.double()
    sums = ((values[..., None] * counts).sum(1) for values in (losses, correct))
    loss, accuracy = ((each / counts.sum(1)).cpu().numpy() for each in sums)
    return loss, accuracy
