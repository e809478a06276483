"""Figures of the papers: what each needs, and what is drawn."""

import dataclasses
from collections.abc import Callable, Sequence
from typing import NamedTuple

import numpy as np
import xarray as xr
from matplotlib.figure import Figure

from dynamics.settings import RecordMode, Settings
from dynamics.trajectory.diverged import not_diverged


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
    """Epochs between recorded frames; None is the default of the system, 0 records the first and the last frame only"""
    must: tuple[str, ...] = ()
    """Settings in which a trajectory given in its place must agree"""
    follows: bool = False
    """Whether it starts from the end of the ensemble before it"""
    weights: bool = True
    """Whether weights, or an embedding, must have been recorded"""
    record: RecordMode = "all"
    """What is recorded if it has to be simulated"""

    def steps(self, sizes: SizeOverrides) -> int:
        """Number of steps."""
        epochs = self.epochs if sizes.epochs is None else sizes.epochs
        return self.settings.default_steps if epochs is None else epochs * self._unit

    def frame_gap(self, sizes: SizeOverrides) -> int:
        """Steps between recorded frames."""
        if self.every is None:
            return self.settings.default_every
        return self.every * self._unit or self.steps(sizes)

    @property
    def _unit(self) -> int:
        """Steps per epoch; 1 for systems without epochs."""
        return self.settings.epoch_steps or 1

    def words(self) -> str:
        """A description of the trajectories that fit."""
        system = self.settings.system
        told = [f"{name.replace('_', '-')} {_told(getattr(self.settings, name))}" for name in self.must]
        told += ["finetuned from another run"] * self.follows
        return f"a trajectory of {system}" + (f" with {', '.join(told)}" if told else "")


def _told(value: object) -> str:
    return f"{value:g}" if isinstance(value, int | float) else str(value)


@dataclasses.dataclass(frozen=True)
class RequiredResult:
    """The result of another command, computed from many ensembles, that a figure needs."""

    title: str
    """The attribute `title` of the result's file"""
    command: str
    """The command that computes it, such as analysis.transfer"""
    make: Callable[[SizeOverrides], xr.Dataset]

    def words(self) -> str:
        """A description of the files that fit."""
        return f"a result of {self.command}"


class FigureData(NamedTuple):
    """The data of a figure: one dataset for each of its needs, in their order."""

    datasets: tuple[xr.Dataset, ...]
    run: int | None = None
    """Index of the requested run"""
    small: bool = False
    """Whether the figure is for a web page, with fewer panels where labels would be too small"""

    @property
    def only(self) -> xr.Dataset:
        """The first, or only, one."""
        return self.datasets[0]

    def some(self, runs: Sequence[int], few: int) -> Sequence[int]:
        """The runs to show: all of them, or the first few in a small picture."""
        return runs[:few] if self.small else runs


class DrawnFigure(NamedTuple):
    """A figure that has been drawn, with its texts."""

    figure: Figure
    here: str
    """What is shown here, in a few words for the title"""
    about: str
    """The settings"""
    rule: str
    """The rule by which runs were chosen, and what else a reader needs"""


class PaperFigure(NamedTuple):
    """A figure of a paper."""

    name: str
    """Name on the command line, such as ca3"""
    source: str
    """Such as CA figure 3"""
    shows: str
    """What it shows and, where the paper is not precise, how it was interpreted"""
    needs: tuple[RequiredRuns | RequiredResult, ...]
    cost: str
    """How long its runs take on two cores if they are missing"""
    draw: Callable[[FigureData], DrawnFigure]
    least: SizeOverrides = SizeOverrides()
    """The smallest sizes with which it can be drawn, if larger than one"""
    picks: bool = True
    """Whether one run can be selected; False for figures of several runs"""


class RunChoice(NamedTuple):
    """A run chosen by a rule."""

    run: int
    """Run index"""
    why: str
    """The rule in words, with its outcome"""


def runs_not_diverged(trajectory: xr.Dataset) -> np.ndarray:
    """Indices of the runs that have not diverged: (run,)."""
    return np.flatnonzero(not_diverged(trajectory))


def run_seed(trajectory: xr.Dataset, run: int) -> int:
    """The seed of a run."""
    return int(trajectory["seed"][run])


def name_run(trajectory: xr.Dataset, run: int) -> str:
    """The index of a run, for titles, with its seed if that differs."""
    seed = run_seed(trajectory, run)
    return f"run {run}" if seed == run else f"run {run} (seed {seed})"


def paper_figure_title(figure: PaperFigure, drawn: DrawnFigure) -> str:
    """The title of a drawn figure: which figure of the paper it is, and what is shown here."""
    return f"{figure.source}, here: {drawn.here}"


def paper_figure_caption(drawn: DrawnFigure) -> str:
    """The caption of a drawn figure: the rule by which runs were chosen, and the settings."""
    return f"{drawn.rule}\n{drawn.about[0].upper()}{drawn.about[1:]}."
