"""The backend that computes each run of an ensemble by itself, as matrix products with
torch on a CPU.

The items of a run are divided into portions of a fixed size, and each portion is
computed on one thread. So the bits of a run depend neither on the ensemble nor on the
number of threads. Threads take whole runs, or, if there are fewer runs than threads,
portions. Subclasses of `TorchRun` define the network and its gradient."""

from __future__ import annotations

import itertools
from abc import ABC, abstractmethod
from collections.abc import Callable, Iterable, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from typing import Any, TypeVar

import numpy as np
import torch
from numba import get_num_threads

from dynamics.networks.parameters import NetworkParameters
from dynamics.settings import OptimizerSettings
from dynamics.training.backends import Backend, concatenate_scores, torch_optimizer

PORTION_PAIRS = 1024
"""Largest number of pairs that are computed together; their activations fit into a
core's cache."""

Map = Callable[[Callable[..., Any], Iterable[Any]], Iterable[Any]]
"""A function such as `map`."""
_Portion = TypeVar("_Portion")


class TorchRun(ABC):
    """One run in training on a CPU. Methods with an argument `map_portions` compute portions of
    the pairs with this `map`."""

    def __init__(
        self,
        network: NetworkParameters,
        settings: OptimizerSettings,
        dtype: torch.dtype,
    ) -> None:
        self.settings = settings
        self.parameters = torch.zeros(
            sum(network.lengths), dtype=dtype, requires_grad=True
        )
        self.weights = network.unflatten(self.parameters.detach())
        self.gradient = torch.zeros_like(self.parameters)
        rates, self.sizes = network.parts(
            settings.learning_rate_of, settings.weight_decay_of
        )
        self.parts = self.parameters.detach().split(self.sizes)
        """Views of the parameters: one view for each learning rate and weight decay."""
        options: list[dict] = []
        gradients = self.gradient.split(self.sizes)
        for part, gradient, (rate, decay) in zip(
            self.parts, gradients, rates, strict=True
        ):
            part.grad = gradient
            options.append({"params": [part], "lr": rate, "weight_decay": decay})
        self.rates = [rate for rate, _ in rates]
        self.optimizer = torch_optimizer(settings, options, graph=False)
        self.before = self.parameters.detach().clone()

    @abstractmethod
    def differentiate(self, step: int, map_portions: Map = map) -> None:
        """Store the gradient that update step + 1 uses in `gradient`."""

    @abstractmethod
    def scores(self, dtype: torch.dtype) -> tuple[np.ndarray, np.ndarray]:
        """Mean cross-entropy and accuracy, both (1, split) float64, of logits computed
        in `dtype`."""

    @torch.no_grad()
    def set_state(
        self, weights: np.ndarray, moments: Mapping[str, np.ndarray], updates: int
    ) -> None:
        """Set the weights and the optimizer's moments, each (parameter,)."""
        self.parameters.copy_(torch.from_numpy(weights))
        for part in self.parts:
            self.optimizer.state[part] = {"step": torch.tensor(float(updates))}
        for name, values in moments.items():
            moment = torch.from_numpy(values).to(self.parameters.dtype, copy=True)
            pieces = moment.split(self.sizes)
            for part, piece in zip(self.parts, pieces, strict=True):
                self.optimizer.state[part][name] = piece

    def moment(self, name: str) -> torch.Tensor:
        """A moment of the optimizer, (parameter,)."""
        return torch.cat([self.optimizer.state[part][name] for part in self.parts])

    def train(self, step: int, steps: int, map_portions: Map = map) -> None:
        """Apply the updates step + 1, ..., step + steps."""
        for at in range(step, step + steps):
            self.differentiate(at, map_portions)
            if at == step + steps - 1:
                self.before.copy_(self.parameters.detach())
            factor = self.settings.learning_rate_factor(at)
            groups = self.optimizer.param_groups
            for group, rate in zip(groups, self.rates, strict=True):
                group["lr"] = rate * factor
            self.optimizer.step()


def pair_portions(pairs: torch.Tensor) -> tuple[torch.Tensor, ...]:
    """The pairs in portions of almost equal size, whose number is a power of two, for
    2, 4 ... threads."""
    count = 1
    while count * PORTION_PAIRS < len(pairs):
        count *= 2
    return torch.tensor_split(pairs, count)


def sum_over_portions(
    function: Callable[[_Portion], tuple[torch.Tensor, ...]],
    portions: Sequence[_Portion],
    map_portions: Map,
) -> tuple[torch.Tensor, ...]:
    """The sums of the tensors that a function returns for each portion, added in the
    order of the portions."""
    if len(portions) == 1:
        return function(portions[0])
    total, *others = map_portions(function, portions)
    for part in others:
        for whole, addend in zip(total, part, strict=True):
            whole += addend
    return total


class RunwiseBackend(Backend):
    """Training on a CPU, each run by itself. A run depends only on its own state, bit
    for bit."""

    def __init__(
        self, settings: OptimizerSettings, runs: Sequence[TorchRun], dtype: torch.dtype
    ) -> None:
        self.names = settings.optimizer_value.moments
        self.runs = runs
        self.dtype = dtype
        self.threads = get_num_threads()
        # each thread computes products of torch by itself: with more their bits may differ
        self.pool, self.single = (
            ThreadPoolExecutor(size, initializer=torch.set_num_threads, initargs=(1,))
            for size in (self.threads, 1)
        )

    def set_state(
        self, weights: np.ndarray, moments: Mapping[str, np.ndarray], updates: int
    ) -> None:
        for at, run in enumerate(self.runs):
            run.set_state(
                weights[at], {name: moments[name][at] for name in self.names}, updates
            )
        self.updates = updates

    def train(self, step: int, steps: int) -> None:
        self._for_each_run(
            lambda run, map_portions: run.train(step, steps, map_portions)
        )
        self.updates += steps

    def differentiate(self, step: int) -> None:
        self._for_each_run(
            lambda run, map_portions: run.differentiate(step, map_portions)
        )

    def _for_each_run(self, function: Callable[[TorchRun, Map], Any]) -> None:
        """Call a function of each run and of the `map` for its portions."""
        if (
            len(self.runs) < self.threads
        ):  # what is outside the portions runs on one thread, too
            list(self.single.map(lambda run: function(run, self.pool.map), self.runs))
        else:
            list(self.pool.map(lambda run: function(run, map), self.runs))

    def weights(self) -> np.ndarray:
        return self._rows(lambda run: run.parameters)

    def moments(self) -> dict[str, np.ndarray]:
        return {
            name: self._rows(lambda run, name=name: run.moment(name))
            for name in self.names
        }

    def gradient(self) -> np.ndarray:
        return self._rows(lambda run: run.gradient)

    def last_update(self) -> np.ndarray:
        return self._rows(lambda run: run.parameters.detach() - run.before)

    def _rows(self, values: Callable[..., torch.Tensor]) -> np.ndarray:
        return torch.stack([values(run).detach() for run in self.runs]).numpy()

    def scores(self) -> tuple[np.ndarray, np.ndarray]:
        return concatenate_scores(
            self.pool.map(lambda run: run.scores(self.dtype), self.runs)
        )

    def exact_scores(self, mask: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        runs = itertools.compress(self.runs, mask)
        return concatenate_scores(
            self.pool.map(lambda run: run.scores(torch.float64), runs)
        )
