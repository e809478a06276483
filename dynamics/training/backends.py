"""Backends that train some runs of an ensemble: their weights, their optimizer updates,
and their losses.

On a CPU each run is a SIMD lane of compiled kernels, which compute gradients and
updates outside Python. On a CUDA device gradients come from autograd over batched
products and updates from torch.optim, and a step is captured as a CUDA graph.
`modular_backends` and `sparse_backends` define the data and the loss."""

from __future__ import annotations

import inspect
import threading
from abc import ABC, abstractmethod
from collections.abc import Iterable, Mapping
from typing import Any

import numpy as np
import torch

from dynamics.kernels.optimizers import training_arrays, update_rates
from dynamics.kernels.simd import from_lanes, to_lanes
from dynamics.networks.parameters import NetworkParameters, Weights
from dynamics.networks.threads import single_thread_after_fork
from dynamics.optimizers import (
    HYPERPARAMETERS,
    Optimizer,
    call_by_names,
    update_numbers,
)
from dynamics.schedules import schedule_factor
from dynamics.settings import OptimizerSettings

MIN_CUDA_WIDTH = 64
"""Smaller ensembles of small networks are padded to this number of runs on CUDA,
because rounding may depend on the batch size."""
single_thread_after_fork()

_CAPTURE_LOCK = threading.Lock()
"""Held during the capture of a CUDA graph, so that threads can train ensembles, each on
its own stream."""


class Backend(ABC):
    """A group of runs that are trained in place.

    Rows are arrays (run, parameter) of float32, in the order of the network's
    parameters."""

    updates = 0
    """Number of updates that the optimizer's moments have received."""

    @abstractmethod
    def set_state(
        self, weights: np.ndarray, moments: Mapping[str, np.ndarray], updates: int
    ) -> None:
        """Set rows of weights and of the optimizer's moments, which have received
        `updates` updates."""

    @abstractmethod
    def train(self, step: int, steps: int) -> None:
        """Apply the updates step + 1, ..., step + steps; at least one."""

    @abstractmethod
    def differentiate(self, step: int) -> None:
        """Compute the gradient that update step + 1 would use."""

    def order_batches_by(self, seeds: np.ndarray) -> None:
        """Order the training data of the runs by other seeds (run,) than their own; for
        backends of mini-batches on a CPU, before the first step."""
        raise NotImplementedError

    @abstractmethod
    def weights(self) -> np.ndarray:
        """Rows of weights."""

    @abstractmethod
    def moments(self) -> dict[str, np.ndarray]:
        """Rows of the optimizer's moments, by their names in torch.optim."""

    @abstractmethod
    def gradient(self) -> np.ndarray:
        """Rows of the gradient that the last update used, or that `differentiate`
        computed."""

    @abstractmethod
    def last_update(self) -> np.ndarray:
        """Rows of the change of the weights in the last update."""

    @abstractmethod
    def scores(self) -> tuple[np.ndarray, np.ndarray]:
        """Mean cross-entropy and accuracy, both (run, split) float64; not finite on
        overflow.

        The accuracy of an item is 1/m if the correct class is one of m with the same
        largest logit."""

    @abstractmethod
    def exact_scores(self, mask: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        """The `scores` of the runs in `mask` (run,), in float64, which finite float32
        weights cannot overflow."""


def learning_rate_factors(
    settings: OptimizerSettings, step: int, steps: int
) -> np.ndarray:
    """What multiplies learning rates in the updates step + 1, ..., step + steps:
    (step,) float64."""
    if not settings.has_schedule:
        return np.ones(steps)
    factor = schedule_factor(settings.whole_schedule)
    return np.array([factor(at) for at in range(step, step + steps)], np.float64)


# ----------------------------------------------------------------------------- on a CPU


class SimdBackend(Backend):
    """Training in compiled kernels, sixteen runs at a time. A run depends only on its
    own state, bit for bit."""

    def __init__(
        self, settings: OptimizerSettings, network: NetworkParameters, runs: int
    ) -> None:
        self.runs = runs
        self.settings = settings
        self.rates = update_rates(settings, network)
        self.names = settings.optimizer_value.moments
        shape = to_lanes(np.zeros((runs, sum(network.lengths)), np.float32)).shape
        self.memory = training_arrays(shape, len(self.names))

    def set_state(
        self, weights: np.ndarray, moments: Mapping[str, np.ndarray], updates: int
    ) -> None:
        self.memory.weights[:] = to_lanes(weights)
        for name, values in zip(self.names, self.memory.moments, strict=True):
            values[:] = to_lanes(moments[name])
        self.updates = updates

    def weights(self) -> np.ndarray:
        return from_lanes(self.memory.weights, self.runs)

    def moments(self) -> dict[str, np.ndarray]:
        named = zip(self.names, self.memory.moments, strict=True)
        return {name: from_lanes(values, self.runs) for name, values in named}

    def gradient(self) -> np.ndarray:
        return from_lanes(self.memory.gradient, self.runs)

    def last_update(self) -> np.ndarray:
        return from_lanes(self.memory.weights, self.runs) - from_lanes(
            self.memory.before, self.runs
        )


# ----------------------------------------------------------------- on a device of torch


class TorchBackend(Backend):
    """Training with torch, as batched products over a leading axis of at least `width`
    runs, and of at least `min_width`.

    Weights with the same learning rate and weight decay share one tensor."""

    min_width = MIN_CUDA_WIDTH

    def __init__(
        self,
        settings: OptimizerSettings,
        network: NetworkParameters,
        runs: int,
        device: str,
        width: int = 0,
    ) -> None:
        self.network = network
        self.runs = runs
        self.device = device
        self.width = max(runs, width, self.min_width)
        self.settings = settings
        self.names = settings.optimizer_value.moments
        changes = [
            (settings.learning_rate_of(name), settings.weight_decay_of(name))
            for name in network.variables
        ]
        groups = list(dict.fromkeys(changes))
        group_of = np.repeat(
            [groups.index(change) for change in changes], network.lengths
        )
        self.columns = [
            torch.from_numpy(np.flatnonzero(group_of == at)).to(device)
            for at in range(len(groups))
        ]
        self.back = torch.cat(self.columns).argsort()
        self.parts = [
            torch.zeros(self.width, len(columns), device=device)
            for columns in self.columns
        ]
        options: list[dict] = []
        for part, (rate, decay) in zip(self.parts, groups, strict=True):
            part.grad = torch.zeros_like(part)
            part.requires_grad_()
            options.append({"params": [part], "lr": rate, "weight_decay": decay})
        self.optimizer = torch_optimizer(settings, options, device != "cpu")
        self.rates = [rate for rate, _ in groups]
        if settings.has_schedule:
            for group in self.optimizer.param_groups:
                # a tensor, which a CUDA graph reads at each step
                group["lr"] = torch.tensor(group["lr"], device=device)
        self.graphs: dict[int, torch.cuda.CUDAGraph] = {}
        self.before: list[torch.Tensor] = []

    @abstractmethod
    def loss(self, weights: Weights, step: int) -> torch.Tensor:
        """Training loss of update step + 1, summed over all runs. In a CUDA graph,
        `step` is that of its capture."""

    def prepare(self, step: int) -> int:
        """Prepare the data that the loss at a step reads; return the key of the CUDA
        graph that applies."""
        return 0

    @abstractmethod
    def scores_of(
        self, weights: Weights, runs: np.ndarray
    ) -> tuple[np.ndarray, np.ndarray]:
        """The `scores` of the runs with these indices, whose weights come first; more
        weights (padding) may follow."""

    @torch.no_grad()
    def set_state(
        self, weights: np.ndarray, moments: Mapping[str, np.ndarray], updates: int
    ) -> None:
        new_parts = self._split(weights)
        new_moments = {name: self._split(moments[name]) for name in self.names}
        for at, (part, values) in enumerate(zip(self.parts, new_parts, strict=True)):
            part.copy_(values)
            memory = self.optimizer.state[part]
            for name in self.names:
                memory.setdefault(name, torch.zeros_like(part)).copy_(
                    new_moments[name][at]
                )
            memory.setdefault("step", torch.zeros((), device=part.device)).fill_(
                float(updates)
            )
        self.updates = updates

    def train(self, step: int, steps: int) -> None:
        for at in range(step, step + steps):
            if at == step + steps - 1:
                self.before = [part.detach().clone() for part in self.parts]
            key = self.prepare(at)
            self._set_learning_rates(at)
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
        return self._to_rows([part.detach() for part in self.parts])

    def moments(self) -> dict[str, np.ndarray]:
        return {
            name: self._to_rows(
                [self.optimizer.state[part][name] for part in self.parts]
            )
            for name in self.names
        }

    def gradient(self) -> np.ndarray:
        return self._to_rows([_gradient_buffer(part) for part in self.parts])

    def last_update(self) -> np.ndarray:
        pairs = zip(self.parts, self.before, strict=True)
        return self._to_rows([part.detach() - before for part, before in pairs])

    @torch.no_grad()
    def scores(self) -> tuple[np.ndarray, np.ndarray]:
        return self.scores_of(self._named_weights(), np.arange(self.runs))

    @torch.no_grad()
    def exact_scores(self, mask: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        runs = np.flatnonzero(mask)
        rows = torch.from_numpy(self.weights()[runs]).to(self.device).double()
        return self.scores_of(self.network.unflatten(rows), runs)

    def _named_weights(self) -> dict[str, torch.Tensor]:
        return self.network.unflatten(
            torch.cat(self.parts, dim=1).index_select(1, self.back)
        )

    def _split(self, rows: np.ndarray) -> list[torch.Tensor]:
        padded = torch.zeros(self.width, rows.shape[1])
        padded[: self.runs] = torch.from_numpy(np.ascontiguousarray(rows))
        return [padded.to(self.device)[:, columns] for columns in self.columns]

    def _to_rows(self, parts: list[torch.Tensor]) -> np.ndarray:
        return torch.cat(parts, dim=1)[: self.runs, self.back].cpu().numpy()

    def _differentiate(self, step: int) -> None:
        with torch.enable_grad():
            gradients = torch.autograd.grad(
                self.loss(self._named_weights(), step), self.parts
            )
        for part, gradient in zip(self.parts, gradients, strict=True):
            _gradient_buffer(part).copy_(gradient)

    def _set_learning_rates(self, step: int) -> None:
        """Set the learning rates of the update that follows `step` updates."""
        if not self.settings.has_schedule:
            return
        factor = self.settings.learning_rate_factor(step)
        for group, rate in zip(self.optimizer.param_groups, self.rates, strict=True):
            group["lr"].fill_(rate * factor)

    def _update(self, step: int) -> None:
        self._differentiate(step)
        self.optimizer.step()

    def _capture(self, step: int) -> torch.cuda.CUDAGraph:
        """Capture one step as a CUDA graph; the changes made by the warm-up steps are
        undone."""
        touched = [
            *self.parts,
            *(
                value
                for state in self.optimizer.state.values()
                for value in state.values()
            ),
        ]
        before = [tensor.detach().clone() for tensor in touched]
        stream = torch.cuda.Stream()
        stream.wait_stream(torch.cuda.current_stream())
        with torch.cuda.stream(stream):
            for _ in range(3):
                self._update(step)
        torch.cuda.current_stream().wait_stream(stream)
        graph = torch.cuda.CUDAGraph()
        others = list(self.graphs.values())
        capture = torch.cuda.graph(
            graph,
            pool=others[0].pool() if others else None,
            stream=stream,
            capture_error_mode="thread_local",
        )
        with _CAPTURE_LOCK, capture:
            self._update(step)
        with torch.no_grad():
            for tensor, value in zip(touched, before, strict=True):
                tensor.copy_(value)
        return graph


def _gradient_buffer(part: torch.Tensor) -> torch.Tensor:
    """The tensor that holds the gradient of a parameter."""
    assert part.grad is not None
    return part.grad


class ElementwiseOptimizer(torch.optim.Optimizer):
    """A torch optimizer that applies the update of a `dynamics.optimizers.Optimizer`.

    The number of updates is a tensor, so that a step can be captured in a CUDA graph."""

    def __init__(
        self,
        groups: list[dict],
        optimizer: Optimizer,
        hyperparameters: Mapping[str, float],
    ) -> None:
        super().__init__(groups, dict(hyperparameters))
        self.value = optimizer
        for group in self.param_groups:
            for part in group["params"]:
                self.state[part]["step"] = torch.zeros((), device=part.device)
                for name in optimizer.moments:
                    self.state[part][name] = torch.zeros_like(part)

    @torch.no_grad()
    def step(self, closure: Any = None) -> None:  # type: ignore[override]
        """Update all parameters."""
        for group in self.param_groups:
            numbers = {name: group[name] for name in HYPERPARAMETERS}
            for part in group["params"]:
                state = self.state[part]
                state["step"] += 1
                names = self.value.moments
                weight, *moments = self.value.apply(
                    part.grad,
                    part,
                    [state[name] for name in names],
                    update_numbers(numbers, state["step"].double()),
                )
                part.copy_(weight)
                for name, moment in zip(names, moments, strict=True):
                    state[name].copy_(moment)


def torch_optimizer(
    settings: OptimizerSettings, groups: list[dict], graph: bool
) -> torch.optim.Optimizer:
    """The optimizer of the settings in torch, fused if torch has it, with a learning rate
    and weight decay per group.

    graph: whether its steps can be captured in a CUDA graph.
    """
    optimizer = settings.optimizer_value
    if optimizer.in_torch is None:
        return ElementwiseOptimizer(groups, optimizer, settings.hyperparameters)
    name, options = call_by_names(optimizer.in_torch, settings.hyperparameters)
    kind = getattr(torch.optim, name)
    if "capturable" in inspect.signature(kind).parameters:
        options["capturable"] = graph
    return kind(groups, fused=True, **options)


def mean_scores(
    logits: torch.Tensor, target: torch.Tensor, counts: torch.Tensor
) -> tuple[np.ndarray, np.ndarray]:
    """Mean cross-entropy and accuracy, both (run, split) float64.

    logits: (run, item, class); target: (item) or (run, item); counts: (run, item,
    split), how often each item occurs in each split."""
    target = target.expand(logits.shape[:-1])[..., None]
    right = torch.gather(logits, -1, target)
    losses = torch.logsumexp(logits.double(), -1) - right[..., 0].double()
    correct = (logits <= right).all(-1) / (logits == right).sum(-1).clamp(
        min=1
    ).double()
    counts = counts.double()
    sums = ((values[..., None] * counts).sum(1) for values in (losses, correct))
    loss, accuracy = ((total / counts.sum(1)).cpu().numpy() for total in sums)
    return loss, accuracy


def concatenate_scores(
    scores: Iterable[tuple[np.ndarray, np.ndarray]],
) -> tuple[np.ndarray, np.ndarray]:
    """Losses and accuracies of all runs, (run, split) each, from those of some runs at
    a time."""
    losses, accuracies = zip(*scores, strict=True)
    return np.concatenate(losses), np.concatenate(accuracies)
