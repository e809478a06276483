"""What limits of stability need of optimizers: their numbers, and the second moments of
gradients, from the states of Adam and its relatives."""

import collections
import functools
import inspect
import math
from collections.abc import Iterable, Mapping, Sequence
from typing import Any, NamedTuple

import torch
from torch.optim.optimizer import register_optimizer_step_pre_hook

from dynamics.recording.quantities import NUMBER_NAMES, trained_parameter
from dynamics.settings import SettingsError


def acting_optimizer(optimizer: Any) -> Any:
    """The optimizer that makes the steps of another one, in whose attributes it is, as
    in those of SAM and of wrappers; otherwise the optimizer itself."""
    for value in vars(optimizer).values():
        if isinstance(value, torch.optim.Optimizer) and value is not optimizer:
            return acting_optimizer(value)
    return optimizer


def optimizer_numbers(optimizer: Any, group: int) -> tuple[float, ...]:
    """The numbers `NUMBER_NAMES` of a parameter group."""
    acting = acting_optimizer(optimizer)
    entries = optimizer.param_groups[group]
    numbers: dict[str, Any] = {}
    optimizer_class: Any = type(acting)
    kind = _kind_of(optimizer_class)
    if kind is not None and not entries.get("maximize"):
        decay = entries.get("weight_decay", 0.0)
        of_adamw = isinstance(acting, torch.optim.AdamW)
        decoupled = entries.get("decoupled_weight_decay", of_adamw)
        numbers = {
            "weight_decay": 0.0 if decoupled else decay,
            "decoupled_weight_decay": decay if decoupled else 0.0,
        }
        if kind is torch.optim.SGD:
            names = ("momentum", "nesterov", "dampening")
            numbers |= {name: entries.get(name, 0.0) for name in names}
        else:
            numbers["beta1"] = entries["betas"][0]
    return tuple(float(numbers.get(name, math.nan)) for name in NUMBER_NAMES)


@functools.cache
def _kind_of(optimizer: Any) -> Any:
    """Of SGD and Adam, AdamW included, the one whose step a class has; None for others."""
    kinds: tuple[Any, ...] = (torch.optim.SGD, torch.optim.AdamW, torch.optim.Adam)
    for kind in kinds:
        # torch replaces the method `step` of a class by a function that calls it
        steps = [inspect.unwrap(one.step) for one in (optimizer, kind)]
        if issubclass(optimizer, kind) and steps[0] is steps[1]:
            return kind
    return None


class MomentNames(NamedTuple):
    """Where an optimizer keeps second moments and counts its steps."""

    moment: str
    """Name in the state of a parameter."""
    steps: str
    """Name in the state of a parameter, or in a parameter group."""


def moment_names(optimizer: Any) -> MomentNames:
    """The names by which an optimizer keeps second moments, found in two steps of a
    twin of it that has one parameter. Raises SettingsError."""
    gradient = torch.arange(1.0, 5.0).reshape(2, 2) / 4
    group = optimizer.param_groups[0]
    for used in (gradient, gradient.to_sparse(1)):
        parameter = torch.nn.Parameter(
            torch.zeros(2, 2, device=group["params"][0].device)
        )
        parameter.grad = used.to(parameter.device)
        twin = object.__new__(type(optimizer))
        twin.__dict__ |= vars(optimizer) | {
            "state": collections.defaultdict(dict),
            "param_groups": [{**group, "params": [parameter]}],
            "_optimizer_step_pre_hooks": collections.OrderedDict(),
            "_optimizer_step_post_hooks": collections.OrderedDict(),
        }
        guard = register_optimizer_step_pre_hook(
            functools.partial(_refuse_others, twin)
        )
        try:
            type(optimizer).step(twin)
            state = dict(twin.state[parameter])
            expected = (1 - float(group["betas"][1])) * gradient.square()
            moments = [
                name
                for name, value in state.items()
                if isinstance(value, torch.Tensor)
                and value.shape == expected.shape
                and torch.allclose(value.cpu().float(), expected, rtol=1e-4, atol=0)
            ]
            first = _numbers({**twin.param_groups[0], **state})
            type(optimizer).step(twin)
            second = _numbers({**twin.param_groups[0], **twin.state[parameter]})
        except Exception:  # of an optimizer that takes other gradients
            continue
        finally:
            guard.remove()
        counts = [n for n, v in first.items() if v == 1 and second.get(n) == 2]
        if moments and counts:
            return MomentNames(moments[0], counts[-1])
    allowed = "an optimizer with second moments, such as Adam"
    raise SettingsError("moments", type(optimizer).__name__, allowed)


def _refuse_others(twin: Any, optimizer: Any, *arguments: Any) -> None:
    """Do not let the step of a twin make a step of the user's optimizers."""
    if optimizer is not twin:
        raise RuntimeError


def _numbers(entries: Mapping[str, Any]) -> dict[str, float]:
    """The numbers among the entries of a state or a group, by name."""
    return {
        name: float(value)
        for name, value in entries.items()
        if isinstance(value, int | float)
        or (isinstance(value, torch.Tensor) and value.numel() == 1)
    }


class SecondMoments:
    """The second moments of the parameters of several optimizers, which must have the
    same beta1 and eps. Raises SettingsError."""

    def __init__(self, optimizers: Iterable[Any]) -> None:
        self.names: dict[Any, MomentNames] = {}
        self.common: dict[str, float] = {}
        """beta1 and eps."""
        for optimizer in optimizers:
            self.add(optimizer)

    def add(self, optimizer: Any) -> None:
        """Take the moments of its parameters from this optimizer. Raises
        SettingsError."""
        acting = acting_optimizer(optimizer)
        names = moment_names(acting)
        for group in acting.param_groups:
            values = {"beta1": float(group["betas"][0]), "eps": float(group["eps"])}
            if self.common and values != self.common:
                raise SettingsError(
                    "moments",
                    f"{self.common} and {values}",
                    "the same beta1 and eps for all parameters",
                )
            self.common = values
        self.names.pop(acting, None)
        self.names[acting] = names

    def updates(self, names: Sequence[str], model: torch.nn.Module) -> torch.Tensor:
        """The numbers of updates that the second moments of the parameters of these
        names have received, (parameter,) float64."""
        counts = [self._of(name, model).updates for name in names]
        return torch.tensor(counts, dtype=torch.float64)

    def of(self, name: str, model: torch.nn.Module) -> torch.Tensor:
        """The second moment of a parameter, divided by its bias correction."""
        value, updates, beta2 = self._of(name, model)
        return value / (1 - beta2**updates) if updates else torch.zeros_like(value)

    def _of(self, name: str, model: torch.nn.Module) -> "_Moment":
        """The second moment of the parameter of this name, of the optimizer that was
        added last among those that have it. Raises SettingsError if there is none."""
        parameter = trained_parameter(name, model)
        for optimizer, names in reversed(self.names.items()):
            for group in optimizer.param_groups:
                is_in_group = any(parameter is item for item in group["params"])
                if parameter is not None and is_in_group:
                    entries = {**group, **optimizer.state.get(parameter, {})}
                    value = entries.get(names.moment, torch.zeros_like(parameter))
                    return _Moment(
                        entries.get(f"max_{names.moment}", value),  # of AMSGrad
                        float(entries.get(names.steps, 0)),
                        float(group["betas"][1]),
                    )
        allowed = "a parameter of an optimizer with second moments"
        raise SettingsError("moments", name, allowed)


class _Moment(NamedTuple):
    """The second moment of a parameter, zeros before its first update."""

    value: torch.Tensor
    updates: float
    """Number of updates that it has received."""
    beta2: float
