"""Experiments: ensembles that are run and measured once, for all claims that they
test."""

import dataclasses
from collections.abc import Callable, Mapping, Sequence
from enum import StrEnum
from pathlib import Path
from typing import Any, NamedTuple, TextIO

import xarray as xr

from analysis.reproduction.verification.required_runs import RequiredRuns
from dynamics.ensemble import Ensemble

Params = Mapping[str, Any]
"""Sizes of an experiment, such as {"runs": 100}: values that JSON can hold."""


class Size(StrEnum):
    """Size of an experiment."""

    QUICK = "quick"
    DEFAULT = "default"
    FULL = "full"


@dataclasses.dataclass(frozen=True)
class Runner:
    """Runs the ensembles that experiments need."""

    say: TextIO
    """Stream for progress and messages"""
    device: str = "auto"
    scheduler: str | None = None

    def path(self, need: RequiredRuns) -> Path:
        """The file of an ensemble."""
        return self._ensemble(need).path

    def _ensemble(self, need: RequiredRuns) -> Ensemble:
        return Ensemble(
            need.settings,
            need.runs,
            steps=need.steps,
            every=need.frame_gap,
            record=need.record,
            device=self.device,
        )

    def ensemble(self, need: RequiredRuns) -> xr.Dataset:
        """The trajectory of an ensemble, read or simulated. Raises what `simulate`
        raises."""
        ensemble = self._ensemble(need)
        return ensemble.simulate(ensemble.path)


class Sizing(NamedTuple):
    """What an experiment does at one size."""

    seconds: float
    """Time of the measurement on two cores, without that of the ensembles"""
    reduced: str
    """How it is smaller than the paper's, if it is"""
    params: Params


def sized(seconds: float, reduced: str = "", /, **params: Any) -> Sizing:
    """An experiment at one size: its time on two cores, how it is smaller than the
    paper's, and its parameters."""
    return Sizing(seconds, reduced, params)


def _nothing(params: Params) -> Sequence[RequiredRuns]:
    return ()


@dataclasses.dataclass(frozen=True)
class Experiment:
    """What is run and measured for some claims."""

    name: str
    """Such as ca.table1"""
    what: str
    """What is measured, in one line"""
    measure: Callable[[Runner, Params], xr.Dataset]
    """Returns small arrays, by run where possible; NaN marks missing values"""
    default: Sizing
    quick: Sizing | None = None
    """None if it is not done at this size"""
    full: Sizing | None = None
    """None if it is as at the default size"""
    ensembles: Callable[[Params], Sequence[RequiredRuns]] = _nothing
    """What is needed of simulations and trainings; those that begin from others of them
    are not named here, and are made in this process"""
    depends: Mapping[str, Any] = dataclasses.field(default_factory=dict)
    """What else decides on the numbers, by name: constants of its module, defaults of
    analyses; as JSON has them"""
    version: int = 1
    """Increased when a change alters what is measured"""
    command: str = ""
    """Another command that shows more, such as python -m analysis.table1"""

    def at(self, size: Size) -> Sizing | None:
        """What it does at a size; None if it is not done."""
        return {
            Size.QUICK: self.quick,
            Size.DEFAULT: self.default,
            Size.FULL: self.full or self.default,
        }[size]
