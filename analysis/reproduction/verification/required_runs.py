"""Ensembles of runs that figures and experiments need."""

import dataclasses
from collections.abc import Mapping
from typing import Any, NamedTuple

from dynamics.settings import RecordMode, Settings


class SizeOverrides(NamedTuple):
    """Numbers of runs and lengths in place of a figure's own; None keeps its own."""

    runs: int | None = None
    epochs: int | None = None
    """Of particles, steps"""


@dataclasses.dataclass(frozen=True)
class RequiredRuns:
    """An ensemble of runs that a figure or an experiment needs."""

    settings: Settings
    runs: int = 100
    epochs: int | None = None
    """Length; None is the default of the system. For particles, in steps"""
    every: int | None = None
    """Epochs between recorded frames; None is the default of the system, 0 records the
    first and the last frame only"""
    must: tuple[str, ...] = ()
    """Settings in which a trajectory given in its place must agree"""
    follows: bool = False
    """Whether it starts from the end of the ensemble before it"""
    weights: bool = True
    """Whether weights, or an embedding, must have been recorded"""
    record: RecordMode = "all"
    """What is recorded if it has to be simulated"""

    def at(self, sizes: SizeOverrides) -> "RequiredRuns":
        """This ensemble with another number of runs, or another length."""
        epochs = self.epochs if sizes.epochs is None else sizes.epochs
        return dataclasses.replace(self, runs=sizes.runs or self.runs, epochs=epochs)

    @property
    def steps(self) -> int:
        """Number of steps."""
        return (
            self.settings.default_steps
            if self.epochs is None
            else self.epochs * self._unit
        )

    @property
    def frame_gap(self) -> int:
        """Steps between recorded frames."""
        return (
            self.settings.default_every
            if self.every is None
            else self.every * self._unit or self.steps
        )

    @property
    def _unit(self) -> int:
        """Steps per epoch; 1 for systems without epochs."""
        return self.settings.epoch_steps or 1

    def words(self) -> str:
        """A description of the trajectories that fit."""
        system = self.settings.system
        told = [
            f"{name.replace('_', '-')} {_told(getattr(self.settings, name))}"
            for name in self.must
        ]
        told += ["finetuned from another run"] * self.follows
        return f"a trajectory of {system}" + (
            f" with {', '.join(told)}" if told else ""
        )


def _told(value: object) -> str:
    return f"{value:g}" if isinstance(value, int | float) else str(value)


def experiment_runs(
    settings: Settings,
    params: Mapping[str, Any],
    every: int | None = None,
    runs: str = "runs",
) -> RequiredRuns:
    """Runs of an experiment whose parameters give the number of runs, under the name
    `runs`, and optionally their length and other settings."""
    changed = dataclasses.replace(settings, **params.get("settings", {}))
    return RequiredRuns(changed, params[runs], params.get("epochs"), every)
