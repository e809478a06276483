"""A study: what is run, and measured once, for all the claims that are read off it."""

import dataclasses
from collections.abc import Callable, Mapping, Sequence
from enum import StrEnum
from pathlib import Path
from typing import Any, TextIO

import xarray as xr

from analysis.reproduction.figures.figure import RequiredRuns, SizeOverrides
from dynamics.preparation import run_path
from dynamics.simulation import simulate

Params = Mapping[str, Any]
"""Sizes of a study, such as {"runs": 100}: numbers, words and lists of these, as JSON has them."""


class Size(StrEnum):
    """How much of it is run."""

    QUICK = "quick"
    DEFAULT = "default"
    FULL = "full"


@dataclasses.dataclass(frozen=True)
class Runner:
    """What a study works with."""

    say: TextIO
    """Where a person is told things"""
    device: str = "auto"
    scheduler: str | None = None

    def path(self, need: RequiredRuns) -> Path:
        """Where an ensemble lives."""
        return run_path(need.settings, need.runs, 0, need.frame_gap(SizeOverrides()), need.record, self.device)

    def ensemble(self, need: RequiredRuns) -> xr.Dataset:
        """The trajectory of an ensemble, found or made. Raises as `simulate` does."""
        steps, every = need.steps(SizeOverrides()), need.frame_gap(SizeOverrides())
        out = self.path(need)
        return simulate(
            need.settings, need.runs, steps=steps, every=every, record=need.record, device=self.device, out=out
        )


def _nothing(params: Params) -> Sequence[RequiredRuns]:
    return ()


@dataclasses.dataclass(frozen=True)
class Experiment:
    """What is run and measured."""

    name: str
    """Such as ca.table1"""
    what: str
    """What is measured, in a line"""
    sizes: Mapping[Size, Params]
    """Parameters of each size; a size that is missing is one at which it is not done"""
    seconds: Mapping[Size, float]
    """How long the measuring takes on two cores, the making of ensembles aside"""
    measure: Callable[[Runner, Params], xr.Dataset]
    """Gives small arrays, by run where there are runs, NaN where there is no value"""
    reduced: Mapping[Size, str] = dataclasses.field(default_factory=dict)
    """In what a size is smaller than the paper's, where it is"""
    ensembles: Callable[[Params], Sequence[RequiredRuns]] = _nothing
    """What is needed of simulations and trainings; those that begin from others of them are not named here, and are
    made in this process"""
    depends: Mapping[str, Any] = dataclasses.field(default_factory=dict)
    """What else decides on the numbers, by name: constants of its module, defaults of analyses; as JSON has them"""
    version: int = 1
    """Raised when a change alters what is measured"""
    command: str = ""
    """Another command that shows more of it, such as python -m analysis.table1"""
