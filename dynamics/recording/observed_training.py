"""A training as a recording sees it, from one call of `Recording.step` to the next."""

import contextlib
import math
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any

import torch

from dynamics.recording.moments import acting_optimizer, optimizer_numbers
from dynamics.recording.quantities import (
    NUMBER_NAMES,
    Quantity,
    calls_user_code,
    named_tensors,
    trained_parameter,
)
from dynamics.recording.tensor_marks import TensorMarks
from dynamics.recording.training_state import Training, undisturbed
from dynamics.recording.update_norms import learning_rate, trained_identities


class ObservedTraining(Training):
    """A training, the learning rates and modes that it had at the latest call of `step`,
    and marks of what its tensors were after it."""

    def __init__(
        self, model: torch.nn.Module, optimizer: Any, states: Mapping[str, Any] | None
    ) -> None:
        super().__init__(model, optimizer, states)
        self.calls_user_code = False
        """Whether reading the recorded quantities runs code of the user."""
        self._states: list[tuple[Any, Any, int]] = []
        self.tensors: dict[str, torch.Tensor] = {}
        """The parameters and buffers that the model had at the last look, by name."""
        self._trained: list[torch.Tensor] = []
        self._others: list[torch.Tensor] = []
        self._trained_marks = TensorMarks()
        self._other_marks = TensorMarks()
        self.running: list[Any] = []
        """Steps of optimizers and functions of the user that are running."""
        self.keeps_numbers = False
        """Whether the numbers of the optimizers are recorded."""
        self.keep_settings()

    def keep_settings(self) -> None:
        """Keep the learning rates that the optimizers have now, the modes of the modules,
        and if they are recorded the optimizers' other numbers."""
        self.rates = [
            (group["params"], learning_rate(optimizer, index))
            for optimizer in self.optimizers
            for index, group in enumerate(optimizer.param_groups)
        ]
        """The parameters and the learning rate of each parameter group."""
        if self.keeps_numbers:
            self._numbers = [
                (group["params"], optimizer_numbers(optimizer, index))
                for optimizer in self.optimizers
                for index, group in enumerate(optimizer.param_groups)
            ]
        modules = [self.model]
        for module in modules:  # faster than model.modules()
            parts = module._modules.values()
            modules += [part for part in parts if part is not None]
        self._modes = [(module, module.training) for module in modules]

    @contextlib.contextmanager
    def undisturbed(
        self, calls_user_code: bool = True, gradients: bool = False
    ) -> Iterator[Callable[[], None]]:
        """Call code of the user, if there is some, with the modes that were kept."""
        if not calls_user_code:
            yield lambda: None
            return
        now = [(module, module.training) for module, _ in self._modes]
        self.running.append(self)
        for module, mode in self._modes:
            module.training = mode
        try:
            with undisturbed(self.wrapper, self.states, gradients) as restore:
                yield restore
        finally:
            self.running.remove(self)
            for module, mode in now:
                module.training = mode

    def look(self, quantities: Mapping[str, Quantity]) -> None:
        """Find the present parameters and buffers."""
        self.tensors = named_tensors(self.model)
        tensors = self.tensors.values()
        self._trained = [item for item in tensors if item.requires_grad]
        self._others = [item for item in tensors if not item.requires_grad]
        self.calls_user_code = any(
            calls_user_code(quantity, self.tensors) for quantity in quantities.values()
        )

    def mark(self) -> None:
        """Mark the parameters, the buffers and the states of the optimizers."""
        self._trained_marks.take(self._trained)
        self._other_marks.take(self._others)
        self._states = [
            (optimizer, optimizer.state, len(optimizer.state))
            for optimizer in self.optimizers
            if hasattr(optimizer, "state")
        ]

    def weights_differ(self) -> bool:
        """Whether trained parameters have changed since they were marked."""
        return self._trained_marks.values_differ()

    def has_been_written(self) -> bool:
        """Whether something has written to the model or its optimizers since they were
        marked."""
        present = set(map(id, named_tensors(self.model).values()))
        return (
            not present.issuperset(map(id, self._trained + self._others))
            or self._trained_marks.have_changed()
            or self._other_marks.have_changed()
            or any(
                optimizer.state is not state or len(state) != length
                for optimizer, state, length in self._states
            )
        )

    def follow(self, optimizer: Any) -> None:
        """Let an optimizer whose step begins take the place of those that had some of
        its parameters."""
        optimizers = self.optimizers
        if any(optimizer in (one, acting_optimizer(one)) for one in optimizers):
            return
        trained = trained_identities([optimizer])
        others = [
            one for one in optimizers if trained.isdisjoint(trained_identities([one]))
        ]
        self.optimizers = [optimizer, *others]

    def learning_rate(self, model: torch.nn.Module) -> torch.Tensor:
        """The learning rate of the first parameter group of the first optimizer at the
        latest call of `step`, float64; 1 if it has none."""
        _, rate = self.rates[0]
        return torch.as_tensor(rate, dtype=torch.float64, device="cpu")

    def learning_rates(
        self, names: Sequence[str], model: torch.nn.Module
    ) -> torch.Tensor:
        """The learning rates of the trained parameters of these names at the latest
        call of `step`, (parameter,) float64; 0 for one that no optimizer has."""
        by_parameter = {
            id(parameter): float(rate)
            for parameters, rate in self.rates
            for parameter in parameters
        }
        values = [
            by_parameter.get(id(trained_parameter(name, model)), 0.0) for name in names
        ]
        return torch.tensor(values, dtype=torch.float64)

    def optimizer_numbers(
        self, names: Sequence[str], model: torch.nn.Module
    ) -> torch.Tensor:
        """The numbers `NUMBER_NAMES` of the optimizers of the trained parameters of
        these names at the latest call of `step`, (parameter, number) float64; NaN for
        one that no optimizer has."""
        by_parameter = {
            id(parameter): numbers
            for parameters, numbers in self._numbers
            for parameter in parameters
        }
        none = (math.nan,) * len(NUMBER_NAMES)
        values = [
            by_parameter.get(id(trained_parameter(name, model)), none) for name in names
        ]
        return torch.tensor(values, dtype=torch.float64).reshape(len(names), len(none))
