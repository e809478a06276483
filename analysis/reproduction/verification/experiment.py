"""Experiments: ensembles that are run and measured once, for all claims that they test."""

import dataclasses
from collections.abc import Callable, Mapping, Sequence
from enum import StrEnum
from pathlib import Path
from typing import Any, TextIO

import xarray as xr

from analysis.reproduction.verification.required_runs import RequiredRuns, SizeOverrides
from dynamics.run_checks import run_path
from dynamics.simulation import simulate

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
        return run_path(need.settings, need.runs, 0, need.frame_gap(SizeOverrides()), need.record, self.device)

    def ensemble(self, need: RequiredRuns) -> xr.Dataset:
        """The trajectory of an ensemble, read or simulated. Raises what `simulate` raises."""
        steps, every = need.steps(SizeOverrides()), need.frame_gap(SizeOverrides())
        out = self.path(need)
        return simulate(
            need.settings, need.runs, steps=steps, every=every, record=need.record, device=self.device, out=out
        )


def _nothing(params: Params) -> Sequence[RequiredRuns]:
    return ()


@dataclasses.dataclass(frozen=True)
class Experiment:
    """What is run and measured for some claims."""

    name: str
    """Such as ca.table1"""
    what: str
    """What is measured, in one line"""
    sizes: Mapping[Size, Params]
    """Parameters of each size at which it is done"""
    seconds: Mapping[Size, float]
    """Time of the measurement on two cores, without that of the ensembles"""
    measure: Callable[[Runner, Params], xr.Dataset]
    """Returns small arrays, by run where possible; NaN marks missing values"""
    reduced: Mapping[Size, str] = dataclasses.field(default_factory=dict)
    """How a size is smaller than the paper's, if it is"""
    ensembles: Callable[[Params], Sequence[RequiredRuns]] = _nothing
    """What is needed of simulations and trainings; those that begin from others of them are not named here, and are
    made in this process"""
    depends: Mapping[str, Any] = dataclasses.field(default_factory=dict)
    """What else decides on the numbers, by name: constants of its module, defaults of analyses; as JSON has them"""
    version: int = 1
    """Increased when a change alters what is measured"""
    command: str = ""
    """Another command that shows more, such as python -m analysis.table1"""
