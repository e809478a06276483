"""Schedules of the learning rate as values.

A schedule is a function of the number of updates so far, whose value multiplies learning
rates in the next update:

    constant        1
    warmup:n        min(1, (step + 1) / n)
    cosine:n:f      f + (1 - f) (1 + cos(pi min(1, step / n))) / 2

The setting `schedule` names schedules with their numbers, and several of them, separated
by commas, for their product: "warmup:100,cosine:2000". `register_schedule` adds others.
This module imports only the standard library."""

import dataclasses
import functools
import inspect
import math
from array import array
from collections.abc import Callable, Iterator, Mapping

from dynamics.errors import SettingsError
from dynamics.own_functions import Registry, frozen_copy, source_digest

CONSTANT = "constant"
"""Name of the default."""


@dataclasses.dataclass(frozen=True)
class Schedule:
    """A schedule of the learning rate.

    Parameters
    ----------
    name : str
        The name that the setting `schedule` has.
    factor : callable
        What multiplies learning rates: a function of the number of updates so far and of
        the numbers that follow the name in the setting; the last of them may have
        defaults.

    Examples
    --------
    >>> from dynamics.schedules import Schedule
    >>> Schedule("root", lambda step: (step + 1) ** -0.5).factor(3)
    0.5
    """

    name: str
    factor: Callable[..., float]

    def __post_init__(self) -> None:
        if not isinstance(self.name, str) or not self.name.isidentifier():
            raise SettingsError("name of a schedule", self.name, "an identifier")

    @property
    def form(self) -> str:
        """The name with those of its numbers, as in "warmup:STEPS"."""
        names = list(inspect.signature(self.factor).parameters)[1:]
        return ":".join([self.name, *map(str.upper, names)])


def _constant(step: int) -> float:
    return 1.0


def _warmup(step: int, steps: float) -> float:
    return min(1.0, (step + 1) / max(1, steps))


def _cosine(step: int, steps: float, floor: float = 0.0) -> float:
    passed = min(1.0, step / max(1, steps))
    return floor + (1 - floor) * (1 + math.cos(math.pi * passed)) / 2


_SCHEDULES = Registry(
    "a schedule",
    (
        Schedule(CONSTANT, _constant),
        Schedule("warmup", _warmup),
        Schedule("cosine", _cosine),
    ),
)

find_identity = _SCHEDULES.identity


def register_schedule(schedule: Schedule) -> Schedule:
    """Register a schedule, so that settings can name it.

    Files contain its name and a digest of the source of its function.

    Parameters
    ----------
    schedule : Schedule

    Returns
    -------
    Schedule
        The same.

    Raises
    ------
    SettingsError
        If the name is that of a built-in schedule, or the function has no source or
        refers to other things than numbers and modules.
    """
    _SCHEDULES.check_name(schedule.name)
    digest = source_digest(schedule.factor, f"schedule {schedule.name}", (abs, min))
    frozen = dataclasses.replace(schedule, factor=frozen_copy(schedule.factor))
    _SCHEDULES.add(frozen, digest)
    return schedule


def schedule_forms() -> list[str]:
    """The schedules with the names of their numbers."""
    return [item.form for item in _SCHEDULES.values]


def schedule_names(text: str) -> list[str]:
    """The names of the schedules in a setting."""
    return [part.split(":")[0].strip() for part in text.split(",")]


def schedule_identity(text: str) -> str:
    """A setting with the identities of its schedules. Raises SettingsError."""
    parts = []
    for part in text.split(","):
        name, *numbers = map(str.strip, part.split(":"))
        parts.append(":".join([find_identity(name) or name, *numbers]))
    identity = ",".join(parts)
    first = schedule_factor(identity)(0)
    if not 0 <= first < math.inf:
        raise SettingsError("schedule", text, f"factors from 0, not {first}")
    return identity


@functools.lru_cache(maxsize=64)
def schedule_factor(text: str) -> Callable[[int], float]:
    """The product of the schedules in a setting as a function of the number of updates so
    far. Raises SettingsError."""
    first, *others = (_bound_factor(part, text) for part in text.split(","))
    if not others:
        return first

    def product(step: int) -> float:
        result = first(step)
        for factor in others:
            result *= factor(step)
        return result

    return product


def _bound_factor(part: str, text: str) -> Callable[[int], float]:
    """A schedule with its numbers. Raises SettingsError."""
    allowed = f"one or several of {', '.join(schedule_forms())}, as in warmup:100"
    name, *words = part.split(":")
    schedule = _SCHEDULES.find(name)
    if schedule is None:
        raise SettingsError("schedule", text, allowed)
    try:
        numbers = [float(word) for word in words]
        inspect.signature(schedule.factor).bind(0, *numbers)
    except (TypeError, ValueError):
        raise SettingsError("schedule", text, allowed) from None
    if not all(0 <= number < math.inf for number in numbers):
        raise SettingsError("schedule", text, f"{schedule.form} with numbers from 0")
    if not numbers:
        return schedule.factor
    return lambda step: schedule.factor(step, *numbers)


class ElapsedTimes(Mapping[int, float]):
    """The sum of the learning rates of the updates before each step."""

    def __init__(self, lr: float, factor: Callable[[int], float]) -> None:
        self.lr = lr
        self.factor = factor
        self._sums = array("d", [0.0])

    def __getitem__(self, step: int) -> float:
        for at in range(len(self._sums) - 1, step):
            self._sums.append(self._sums[-1] + self.lr * self.factor(at))
        return self._sums[step]

    def __iter__(self) -> Iterator[int]:
        return iter(range(len(self._sums)))

    def __len__(self) -> int:
        return len(self._sums)


@functools.lru_cache(maxsize=8)
def elapsed_times(lr: float, text: str) -> ElapsedTimes:
    """The sums of learning rates under a setting."""
    return ElapsedTimes(lr, schedule_factor(text))
