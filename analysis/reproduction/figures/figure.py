"""A plate: one figure of a paper, what it needs, and what came of it here."""

import dataclasses
from collections.abc import Callable, Sequence
from typing import NamedTuple

import numpy as np
import xarray as xr
from matplotlib.figure import Figure

from dynamics.settings import RecordMode, Settings
from dynamics.trajectory.diverged import not_diverged


class SizeOverrides(NamedTuple):
    """What a person may ask for in place of a plate's own sizes; None is its own."""

    runs: int | None = None
    epochs: int | None = None
    """Of particles, steps"""


@dataclasses.dataclass(frozen=True)
class RequiredRuns:
    """Runs that a plate needs."""

    settings: Settings
    runs: int = 100
    epochs: int | None = None
    """How long; None is the system's own. Of particles, steps"""
    every: int | None = None
    """Epochs between recorded frames; None is the system's own, 0 the first and the last frame alone"""
    must: tuple[str, ...] = ()
    """Settings that a trajectory given in its place must have as here"""
    follows: bool = False
    """Whether it begins from the end of the ensemble before it"""
    weights: bool = True
    """Whether weights, or an embedding, must have been recorded"""
    record: RecordMode = "all"
    """What is recorded where it is made"""

    def steps(self, sizes: SizeOverrides) -> int:
        """How far it is run."""
        epochs = self.epochs if sizes.epochs is None else sizes.epochs
        return self.settings.default_steps if epochs is None else epochs * self._unit

    def frame_gap(self, sizes: SizeOverrides) -> int:
        """Steps between recorded frames."""
        if self.every is None:
            return self.settings.default_every
        return self.every * self._unit or self.steps(sizes)

    @property
    def _unit(self) -> int:
        """Steps of an epoch; one where there are no epochs."""
        return self.settings.epoch_steps or 1

    def words(self) -> str:
        """Which trajectory may stand for it."""
        system = self.settings.system
        told = [f"{name.replace('_', '-')} {_told(getattr(self.settings, name))}" for name in self.must]
        told += ["finetuned from another run"] * self.follows
        return f"a trajectory of {system}" + (f" with {', '.join(told)}" if told else "")


def _told(value: object) -> str:
    return f"{value:g}" if isinstance(value, int | float) else str(value)


@dataclasses.dataclass(frozen=True)
class RequiredResult:
    """What another command works out of many ensembles, which a plate needs."""

    title: str
    """Of the result, in its file"""
    command: str
    """That makes it, such as analysis.transfer"""
    make: Callable[[SizeOverrides], xr.Dataset]

    def words(self) -> str:
        """Which file may stand for it."""
        return f"a result of {self.command}"


class FigureData(NamedTuple):
    """What a plate is drawn from: a dataset for each of its needs, in their order."""

    datasets: tuple[xr.Dataset, ...]
    run: int | None = None
    """Place of the run that a person asked for"""
    small: bool = False
    """Whether for a web page, with fewer panels where letters could not be read otherwise"""

    @property
    def only(self) -> xr.Dataset:
        """The first, or only, one."""
        return self.datasets[0]

    def some(self, runs: Sequence[int], few: int) -> Sequence[int]:
        """The runs to be shown: all, or in a small picture a few."""
        return runs[:few] if self.small else runs


class DrawnFigure(NamedTuple):
    """A plate as it was drawn."""

    figure: Figure
    here: str
    """What ours is, in a few words for the title"""
    about: str
    """The settings"""
    rule: str
    """By which rule runs were chosen, and what to know when looking"""


class PaperFigure(NamedTuple):
    """A figure of a paper."""

    name: str
    """To be typed, such as ca3"""
    source: str
    """Such as CA figure 3"""
    shows: str
    """What is to be seen, and, where the paper does not define it, what it was taken to be"""
    needs: tuple[RequiredRuns | RequiredResult, ...]
    cost: str
    """How long its runs take on two cores, where they are not there"""
    draw: Callable[[FigureData], DrawnFigure]
    least: SizeOverrides = SizeOverrides()
    """The smallest sizes of which it can be drawn, where they are more than one"""
    picks: bool = True
    """Whether a person may name its run; not where it shows all, or runs of several kinds"""


class RunChoice(NamedTuple):
    """A run that a rule has chosen."""

    run: int
    """Its place"""
    why: str
    """The rule in words, as it came out"""


def runs_not_diverged(trajectory: xr.Dataset) -> np.ndarray:
    """Places of the runs that have not diverged: (run,)."""
    return np.flatnonzero(not_diverged(trajectory))


def run_seed(trajectory: xr.Dataset, run: int) -> int:
    """The seed of a run at a place."""
    return int(trajectory["seed"][run])


def name_run(trajectory: xr.Dataset, run: int) -> str:
    """A run in a title: its place, and its seed where that is another number."""
    seed = run_seed(trajectory, run)
    return f"run {run}" if seed == run else f"run {run} (seed {seed})"


def paper_figure_title(figure: PaperFigure, drawn: DrawnFigure) -> str:
    """The title of a drawn figure: which figure of the paper it is, and what is shown here."""
    return f"{figure.source}, here: {drawn.here}"


def paper_figure_caption(drawn: DrawnFigure) -> str:
    """The caption of a drawn figure: the rule by which runs were chosen, and the settings."""
    return f"{drawn.rule}\n{drawn.about[0].upper()}{drawn.about[1:]}."
