"""Losses, accuracies and other numbers of a recorded model, by split."""

from collections.abc import Callable, Collection, Mapping, Sequence
from typing import Any

import numpy as np
import torch

from dynamics.recording.observed_training import ObservedTraining
from dynamics.recording.quantities import check_name, describe
from dynamics.settings import SettingsError
from dynamics.trajectory.schema import VARIABLES

Measured = float | torch.Tensor | Mapping[str, Any] | Callable[[], Any] | None
"""A loss or accuracy: a number, numbers by the name of the split, or a function that
returns one of them."""

METRICS = ("loss", "accuracy")


def copy_of(measured: Measured) -> Measured:
    """A loss or accuracy whose tensors do not change any more."""
    if isinstance(measured, Mapping):
        return {split: copy_of(value) for split, value in measured.items()}
    if isinstance(measured, torch.Tensor):
        # without waiting for another device
        is_number = measured.is_cpu and measured.numel() == 1
        return measured.item() if is_number else measured.detach().clone()
    return measured


def _by_split(
    name: str, measured: Any, restore: Callable[[], None]
) -> dict[str, float]:
    """Numbers by split; a single number is that of the split train. `restore` is called
    after each function. Raises SettingsError."""
    if callable(measured):
        measured = measured()
        restore()
    splits = measured if isinstance(measured, Mapping) else {"train": measured}
    numbers = {}
    for split, value in splits.items():
        if callable(value):
            value = value()
            restore()
        try:
            numbers[str(split)] = float(
                value.detach() if isinstance(value, torch.Tensor) else value
            )
        except (TypeError, ValueError, RuntimeError, OverflowError):
            which = f"{name} of {split}" if splits is measured else name
            allowed = "a number, numbers by split, or a function that returns them"
            raise SettingsError(which, describe(value), allowed) from None
    return numbers


def shared_splits(given: Mapping[str, Sequence[str]]) -> list[str]:
    """The splits of loss and accuracy that both have; those of one if the other is not
    measured."""
    first, *others = [given[name] for name in METRICS if name in given] or [[]]
    return [split for split in first if all(split in names for names in others)]


def is_fraction(values: Any) -> np.ndarray:
    """Which accuracies, numbers or an array, are fractions from 0 to 1, up to rounding,
    or not finite."""
    values = np.asarray(values, np.float64)
    return ~np.isfinite(values) | ((values >= 0) & (values <= 1 + 1e-6))


def metric_arrays(
    values: Mapping[str, Mapping[str, float | np.ndarray]],
) -> dict[str, np.ndarray]:
    """Variables, float32, from numbers or arrays (...) by name and split: losses and
    accuracies (..., split) of the splits that both have, and others (...). Raises
    SettingsError if two have the same name."""
    shared = shared_splits({name: list(parts) for name, parts in values.items()})
    arrays = {}
    for name, splits in values.items():
        if name in METRICS and shared:
            parts = [_as_float32(splits[split]) for split in shared]
            arrays[name] = np.stack(parts, axis=-1)
        is_single = name not in METRICS and list(splits) == ["train"]
        for split, value in splits.items():
            if name in METRICS and split in shared:
                continue
            variable = name if is_single else f"{name}_{split}"
            if variable in arrays:
                allowed = "a name for each number, as name and split are joined by _"
                raise SettingsError("name of a number", f"{variable} twice", allowed)
            arrays[variable] = _as_float32(value)
    return arrays


def _as_float32(values: float | np.ndarray) -> np.ndarray:
    """Numbers as float32; those beyond 3.4e38 are infinite."""
    with np.errstate(over="ignore"):
        return np.array(values, np.float32)


class Metrics:
    """Reads losses, accuracies and other numbers of a training, which all frames have of
    the same splits: those that `step` is given, and those that `evaluate` measures.

    taken: names of variables that numbers of `evaluate` cannot have."""

    def __init__(
        self,
        training: ObservedTraining,
        evaluate: Callable[[torch.nn.Module], Mapping[str, Any]] | None,
        taken: Collection[str] = (),
    ) -> None:
        self.training = training
        self.taken = {*VARIABLES, *taken}
        self.function = evaluate
        self.splits: dict[str, list[str]] | None = None
        """The splits of each metric; None before the first frame."""

    def evaluate(self) -> Mapping[str, Any]:
        """What the user's function measures now. Raises SettingsError."""
        if self.function is None:
            return {}
        if not callable(self.function):
            found = describe(self.function)
            raise SettingsError("evaluate", found, "a function of the model")
        with self.training.undisturbed():
            metrics = self.function(self.training.model)
        if not isinstance(metrics, Mapping):
            found = f"a function that returns {describe(metrics)}"
            raise SettingsError("evaluate", found, 'one that returns {"loss": ...}')
        for name in metrics:
            if name not in METRICS:
                check_name("name that evaluate returns", name, self.taken)
        return metrics

    def read(
        self, loss: Measured, accuracy: Measured, evaluated: Mapping[str, Any]
    ) -> dict[str, np.ndarray]:
        """The variables of a frame; splits that loss and accuracy do not share get
        variables of their own, such as accuracy_test. Raises SettingsError."""
        given = {"loss": loss, "accuracy": accuracy}
        given = {name: value for name, value in given.items() if value is not None}
        values: dict[str, dict[str, float]] = {}
        parts = [
            part
            for item in (*given.values(), *evaluated.values())
            for part in (item.values() if isinstance(item, Mapping) else [item])
        ]
        calls = any(map(callable, parts))
        with self.training.undisturbed(calls, gradients=True) as restore:
            for name, value in (*given.items(), *evaluated.items()):
                numbers = _by_split(name, value, restore)
                values[name] = {**values.get(name, {}), **numbers}
        for fraction in values.get("accuracy", {}).values():
            if not is_fraction(fraction):
                raise SettingsError("accuracy", fraction, "a fraction from 0 to 1")
        splits = {name: list(parts) for name, parts in values.items()}
        if self.splits is None:
            for split in {split for names in splits.values() for split in names}:
                check_name("name of a split", split)
            for name in {*metric_arrays(values)} - {*METRICS}:
                check_name("name of a number", name, self.taken)
            self.splits = splits
        if splits != self.splits:
            allowed = f"{_describe_splits(self.splits)}, as in the first frame"
            raise SettingsError("loss, accuracy", _describe_splits(splits), allowed)
        return metric_arrays(values)


def _describe_splits(given: Mapping[str, Sequence[str]]) -> str:
    """The splits of each metric, in words."""
    return (
        "; ".join(f"{name} of {', '.join(splits)}" for name, splits in given.items())
        or "none"
    )
