"""Conditions at which runs end: comparisons of a recorded number, registered ones, and
functions of a frame."""

import importlib
import math
import operator
import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any, NamedTuple

import numpy as np

from dynamics.errors import SettingsError
from dynamics.named_conditions import REGISTERED, FrameTest
from dynamics.observers import source_digests
from dynamics.settings import Settings, import_external_systems
from dynamics.system import Arrays, System

RELATIONS: dict[str, Callable[[Any, Any], Any]] = {
    ">": operator.gt,
    "<": operator.lt,
    ">=": operator.ge,
    "<=": operator.le,
}

_COMPARISON = re.compile(r"\s*([A-Za-z]\w*)(?:\.(\S+?))?\s*([<>]=?)\s*(\S+)\s*")
_BOOLEANS = "an array of booleans (run,)"


class Comparison(NamedTuple):
    """A comparison of a recorded number of a run, such as accuracy.test > 0.99."""

    variable: str
    entry: str
    """Name along the dimension of the variable; empty if it has none."""
    relation: str
    threshold: float

    def __str__(self) -> str:
        name = f"{self.variable}.{self.entry}" if self.entry else self.variable
        return f"{name} {self.relation} {self.threshold!r}"

    def test_of(self, system: System) -> FrameTest:
        """The test of a frame of a system. Raises SettingsError if it has no such
        number."""
        names = compared_names(system)
        name = f"{self.variable}.{self.entry}" if self.entry else self.variable
        if name not in names:
            raise SettingsError("until", name, f"one of {', '.join(names)}")
        index = names[name]

        def holds(frame: Arrays) -> np.ndarray:
            values = frame[self.variable]
            values = values if index is None else values[:, index]
            threshold = self.threshold
            if values.dtype.kind == "f":  # .99 as the recorded type has it
                threshold = values.dtype.type(threshold)
            result: np.ndarray = RELATIONS[self.relation](values, threshold)
            return result

        return holds


def compared_names(system: System) -> dict[str, int | None]:
    """Names of the numbers of each run that a system records, such as loss.train, and
    their indices along the second axis, if there is one."""
    coords = system.coords()
    names: dict[str, int | None] = {}
    for variable, dims in system.variables.items():
        if not dims:
            names[variable] = None
        elif dims in (("split",), ("layer",)):
            entries = coords[dims[0]].tolist()
            names |= {f"{variable}.{entry}": k for k, entry in enumerate(entries)}
        elif len(dims) == 1 and dims[0].startswith(f"{variable}_"):  # of an observer
            names |= {f"{variable}.{k}": k for k in range(len(coords[dims[0]]))}
    return names


@dataclass(frozen=True)
class NamedCondition:
    """A registered condition."""

    name: str
    create: Callable[[Settings], FrameTest]
    digest: str = ""
    """Of the source, if it is not part of this package."""

    def __str__(self) -> str:
        return f"{self.name}@{self.digest}" if self.digest else self.name

    def test_of(self, system: System) -> FrameTest:
        """The test of a frame of a system. Raises SettingsError."""
        return self.create(system.settings)


@dataclass(frozen=True)
class OwnCondition:
    """A function of a frame."""

    function: FrameTest
    digest: str

    def __str__(self) -> str:
        return f"function@{self.digest}"

    def test_of(self, system: System) -> FrameTest:
        """The function."""
        return self.function


Condition = Comparison | NamedCondition | OwnCondition


def find_condition(until: object) -> Condition:
    """The condition of an argument `until`: a comparison or the name of a registered
    condition as text, or a function of a frame. Raises SettingsError."""
    if callable(until):
        return OwnCondition(until, _digest(until))
    text = str(until)
    if not isinstance(until, str) or not (match := _COMPARISON.fullmatch(text)):
        return _registered_condition(text.strip())
    variable, entry, relation, number = match.groups()
    try:
        threshold = float(number)
    except ValueError:
        threshold = math.nan
    if not math.isfinite(threshold):
        raise SettingsError("until", text, f"a finite number after {relation}")
    return Comparison(variable, entry or "", relation, threshold)


def _registered_condition(name: str) -> NamedCondition:
    if name not in REGISTERED:
        import_external_systems()
    if name not in REGISTERED:
        known = ", ".join(["NAME > NUMBER (or <, >=, <=)", *REGISTERED])
        allowed = f"{known}, where NAME is as accuracy.test; in Python also a function"
        raise SettingsError("until", name, allowed)
    create = REGISTERED[name]
    if not isinstance(create, str):
        return NamedCondition(name, create, _digest(create))
    module, _, attribute = create.rpartition(".")
    return NamedCondition(name, getattr(importlib.import_module(module), attribute))


def _digest(function: Callable[..., Any]) -> str:
    """Twelve hexadecimal digits of the source of a function. Raises SettingsError."""
    digest = re.findall("[0-9a-f]{64}", source_digests({"until": function}))[0]
    return str(digest[:12])


def runs_that_hold(test: FrameTest, frame: Mapping[str, np.ndarray]) -> np.ndarray:
    """The runs (run,) for which a test of a frame, which it cannot change, is true.
    Raises SettingsError if it fails or returns something else than booleans."""
    views = {name: array.view() for name, array in frame.items()}
    for view in views.values():
        view.flags.writeable = False
    try:
        result = test(views)
    except SettingsError:
        raise
    except Exception as error:
        mistake = f"{type(error).__name__}: {error}"
        raise SettingsError("until", mistake, _BOOLEANS) from error
    runs = len(next(iter(frame.values())))
    if not isinstance(result, np.ndarray) or result.dtype != bool:
        kind = getattr(result, "dtype", type(result).__name__)
        raise SettingsError("until", f"a result of type {kind}", _BOOLEANS)
    if result.shape != (runs,):
        raise SettingsError("until", f"a result of shape {result.shape}", _BOOLEANS)
    return result
