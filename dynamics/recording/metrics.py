"""Losses, accuracies and other numbers of a recorded model, by split."""

from collections.abc import Callable, Mapping, Sequence
from typing import Any

import numpy as np
import torch

from dynamics.recording.quantities import describe
from dynamics.settings import SettingsError

Measured = float | torch.Tensor | Mapping[str, Any] | Callable[[], Any] | None
"""A loss or accuracy: a number, numbers by the name of the split, or a function that
returns one of them."""

METRICS = ("loss", "accuracy")


def copy_of(measured: Measured) -> Measured:
    """A loss or accuracy whose tensors do not change any more."""
    if isinstance(measured, Mapping):
        return {split: copy_of(value) for split, value in measured.items()}
    if isinstance(measured, torch.Tensor):
        return measured.detach().clone()
    return measured


def calls_functions(measured: Any) -> bool:
    """Whether a loss or accuracy is a function, or contains one."""
    if isinstance(measured, Mapping):
        return any(map(callable, measured.values()))
    return callable(measured)


def by_split(
    name: str, measured: Any, restore: Callable[[], None] = lambda: None
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
        except (TypeError, ValueError, RuntimeError):
            which = f"{name} of {split}" if splits is measured else name
            allowed = "a number, numbers by split, or a function that returns them"
            raise SettingsError(which, describe(value), allowed) from None
    return numbers


def shared_splits(given: Mapping[str, Sequence[str]]) -> list[str]:
    """The splits of loss and accuracy that both have; those of one if the other is not
    measured."""
    first, *others = [given[name] for name in METRICS if name in given] or [[]]
    return [split for split in first if all(split in names for names in others)]


def metric_arrays(values: Mapping[str, Mapping[str, float]]) -> dict[str, np.ndarray]:
    """Variables of a frame, float32, from numbers by name and split: losses and
    accuracies (split,) of the splits that both have, and scalars."""
    shared = shared_splits({name: list(parts) for name, parts in values.items()})
    arrays = {}
    for name, splits in values.items():
        if name in METRICS and shared:
            arrays[name] = np.array([splits[split] for split in shared], np.float32)
        for split, value in splits.items():
            if name not in METRICS:
                arrays[name if list(splits) == ["train"] else f"{name}_{split}"] = (
                    np.array(value, np.float32)
                )
            elif split not in shared:
                arrays[f"{name}_{split}"] = np.array(value, np.float32)
    return arrays


def describe_splits(given: Mapping[str, Sequence[str]]) -> str:
    """The splits of each metric, in words."""
    return (
        "; ".join(f"{name} of {', '.join(splits)}" for name, splits in given.items())
        or "none"
    )
