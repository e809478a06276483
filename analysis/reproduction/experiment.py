"""Experiments: ensembles that are run and measured once, for all claims that they
test."""

import dataclasses
from collections.abc import Callable, Mapping, Sequence
from enum import StrEnum
from pathlib import Path
from typing import Any, NamedTuple, TextIO

import numpy as np
import xarray as xr

from analysis.output.results import dimensionless
from analysis.reproduction.claim import Claim
from dynamics.ensemble import RUNS_FOLDER, Ensemble
from dynamics.progress import progress_bar
from dynamics.settings import RecordMode, Settings
from dynamics.tasks import all_pairs, modular_training_mask
from dynamics.trajectory.diverged import not_diverged
from dynamics.trajectory.schema import read_settings

EVIDENCE_FOLDER = RUNS_FOLDER / "verify"
"""Folder of the measurements, unless another is given."""
Params = Mapping[str, Any]
"""Sizes of an experiment, such as {"runs": 100}: values that JSON can hold."""
WEIGHTS = {
    "embedding": ("token", "axis"),
    "hidden_weight": ("hidden", "axis"),
    "hidden_bias": ("hidden",),
    "output_weight": ("class", "hidden"),
    "output_bias": ("class",),
}


class Size(StrEnum):
    """Size of an experiment."""

    QUICK = "quick"
    DEFAULT = "default"
    FULL = "full"


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
    follows: bool = False
    """Whether it starts from the end of the ensemble before it"""
    weights: bool = True
    """Whether weights, or an embedding, must have been recorded"""
    record: RecordMode = "all"
    """What is recorded if it has to be simulated"""
    seed: int = 0
    """Seed of the first run"""

    def at(self, sizes: SizeOverrides) -> "RequiredRuns":
        """This ensemble with another number of runs, or another length."""
        epochs = self.epochs if sizes.epochs is None else sizes.epochs
        return dataclasses.replace(self, runs=sizes.runs or self.runs, epochs=epochs)

    @property
    def steps(self) -> int:
        """Number of steps."""
        if self.epochs is None:
            return self.settings.default_steps
        return self.epochs * (self.settings.epoch_steps or 1)

    @property
    def frame_gap(self) -> int:
        """Steps between recorded frames."""
        if self.every is None:
            return self.settings.default_every
        return self.every * (self.settings.epoch_steps or 1) or self.steps


def experiment_runs(
    settings: Settings,
    params: Params,
    every: int | None = None,
    runs: str = "runs",
) -> RequiredRuns:
    """Runs of an experiment whose parameters give the number of runs, under the name
    `runs`, and optionally their length and other settings."""
    changed = dataclasses.replace(settings, **params.get("settings", {}))
    return RequiredRuns(changed, params[runs], params.get("epochs"), every)


@dataclasses.dataclass(frozen=True)
class Runner:
    """Runs the ensembles that experiments need."""

    say: TextIO
    """Stream for progress and messages"""
    device: str = "auto"
    scheduler: str | None = None
    evidence: Path = EVIDENCE_FOLDER
    """Folder of the measurements"""

    def path(self, need: RequiredRuns) -> Path:
        """The file of an ensemble."""
        return self._ensemble(need).path

    def _ensemble(self, need: RequiredRuns) -> Ensemble:
        return Ensemble(
            need.settings,
            need.runs,
            need.seed,
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
    params: Params
    reduced: str = ""
    """How it is smaller than the paper's, if it is"""


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
    ensembles: Callable[[Params], Sequence[RequiredRuns]] = lambda params: ()
    """What is needed of simulations and trainings; those that begin from others of them
    are not named here, and are made in this process"""
    depends: Mapping[str, Any] = dataclasses.field(default_factory=dict)
    """What else decides on the numbers, by name: constants of its module, defaults of
    analyses; as JSON has them"""
    version: int = 1
    """Increased when a change alters what is measured"""
    command: str = ""
    """Another command that shows more, such as python -m analysis.paper table1"""
    claims: tuple[Claim, ...] = ()
    """The claims that it tests"""

    def at(self, size: Size) -> Sizing | None:
        """What it does at a size; None if it is not done."""
        return {
            Size.QUICK: self.quick,
            Size.DEFAULT: self.default,
            Size.FULL: self.full or self.default,
        }[size]


def frame_values(trajectory: xr.Dataset, name: str, at: int) -> np.ndarray:
    """A weight or embedding of all runs in a recorded frame: (run, ...) float64."""
    values = trajectory[name].isel(step=at).transpose("run", *WEIGHTS[name])
    return values.values.astype(np.float64)


def described(
    dims: str | tuple[str, ...],
    columns: Mapping[str, tuple[Any, str]],
    coords: Mapping[str, Any] | None = None,
) -> xr.Dataset:
    """Dimensionless variables with the same dimensions, each from its values and its
    description."""
    data = {
        name: (dims, np.asarray(values), dimensionless(text))
        for name, (values, text) in columns.items()
    }
    return xr.Dataset(data, coords)


def expand_to_runs(values: np.ndarray, chosen: np.ndarray) -> np.ndarray:
    """Values of the chosen runs, NaN of the others: chosen (run,) bool -> (run,)."""
    result = np.full((len(chosen), *np.shape(values)[1:]), np.nan)
    result[chosen] = values
    return result


def measure_ensembles(
    runner: Runner,
    needs: Sequence[RequiredRuns],
    quantities: Mapping[str, str],
    measure_runs: Callable[[xr.Dataset], Mapping[str, np.ndarray]],
    dims: tuple[str, str],
) -> xr.Dataset:
    """Quantities of the runs of several ensembles, with dims for (ensemble, run); NaN
    for runs that diverged.

    quantities are names with descriptions. measure_runs is called with the runs of a
    trajectory that have not diverged, and returns values of these. A run is
    at the place of its seed; where an ensemble has no run, the value is NaN."""
    most = max(need.seed + need.runs for need in needs)
    columns = {name: np.full((len(needs), most), np.nan) for name in quantities}
    numbered = enumerate(progress_bar(needs, unit="ensemble"))
    for number, need in numbered:
        trajectory = runner.ensemble(need)
        finite = not_diverged(trajectory)
        values = measure_runs(trajectory.isel(run=finite))
        for name, column in columns.items():
            runs = slice(need.seed, need.seed + need.runs)
            column[number, runs] = expand_to_runs(values[name], finite)
    variables = {name: (columns[name], words) for name, words in quantities.items()}
    return described(dims, variables)


def training_pairs_of_runs(trajectory: xr.Dataset) -> np.ndarray:
    """The pairs of tokens that each network is trained on: (run, pair, 2)."""
    settings = read_settings(trajectory)
    seeds = trajectory["seed"].values
    chosen = modular_training_mask(settings, seeds)  # type: ignore[arg-type]
    pairs = np.broadcast_to(all_pairs(settings.modulus), (*chosen.shape, 2))
    return pairs[chosen].reshape(len(seeds), settings.train_pairs, 2)  # type: ignore[attr-defined]
