"""Figures of the papers: what each needs, what is drawn, and the texts beside it."""

import dataclasses
from collections.abc import Callable, Sequence
from contextlib import AbstractContextManager
from typing import NamedTuple

import xarray as xr
from matplotlib import rc_context
from matplotlib.figure import Figure

from analysis.panels.style import Style, style_in_use
from analysis.plots.figure_files import style_parameters
from analysis.reproduction.experiment import RequiredRuns, SizeOverrides
from dynamics.settings import SparseSettings
from dynamics.settings_text import MAIN_SETTINGS, TASKS, setting_texts
from dynamics.trajectory.schema import read_settings

SPARSE = (RequiredRuns(SparseSettings()),)
"""VC's networks, which several figures need."""


@dataclasses.dataclass(frozen=True)
class RequiredResult:
    """The result of another command, computed from many ensembles, that a figure
    needs."""

    title: str
    """The attribute `title` of the result's file"""
    command: str
    """The command that computes it, such as analysis.paper transfer"""
    make: Callable[[SizeOverrides], xr.Dataset]


class RunChoice(NamedTuple):
    """A run chosen by a rule."""

    run: int
    """Run index"""
    why: str
    """The rule in words, with its outcome"""


class FigureData(NamedTuple):
    """The data of a figure: one dataset for each of its needs, in their order."""

    datasets: tuple[xr.Dataset, ...]
    run: int | None = None
    """Index of the requested run"""
    small: bool = False
    """Whether the figure is for a web page, with fewer panels where labels would be too
    small"""

    @property
    def only(self) -> xr.Dataset:
        """The first, or only, one."""
        return self.datasets[0]

    def choose(self, rule: Callable[[], RunChoice]) -> RunChoice:
        """The requested run, or the choice of a rule."""
        if self.run is None:
            return rule()
        return RunChoice(self.run, "the run that was asked for")


class DrawnFigure(NamedTuple):
    """A figure that has been drawn, with its texts."""

    figure: Figure
    here: str
    """What is shown here, in a few words for the title"""
    rule: str
    """The rule by which runs were chosen, and what else a reader needs"""
    seeds: Sequence[int] = ()
    """Seeds of the runs that are drawn, in the order of panels; none for weights that
    come from no run"""
    about: str = ""
    """The settings; by default those of all datasets"""

    @property
    def caption(self) -> str:
        """The rule by which runs were chosen, the seeds of those drawn, and the
        settings."""
        seeds = f"{format_seeds(self.seeds).capitalize()}. " if self.seeds else ""
        return f"{self.rule}\n{seeds}Data: {self.about}."


class PaperFigure(NamedTuple):
    """A figure of a paper."""

    name: str
    """Name on the command line, such as ca3"""
    shows: str
    """What it shows and, where the paper is not precise, how it was interpreted"""
    needs: tuple[RequiredRuns | RequiredResult, ...]
    cost: str
    """How long its runs take on two cores if they are missing"""
    draw: Callable[[FigureData], DrawnFigure]
    one_run: bool = False
    """Whether it shows one run, which can be selected"""

    @property
    def source(self) -> str:
        """The figure or appendix of the paper, such as CA figure 3, or else its
        subject."""
        paper, place = self.name[:2].upper(), self.name[2:]
        if len(place) > 2 and place.startswith("-"):
            return f"{paper} {place[1:]}"
        if place.startswith("-"):
            return f"{paper} appendix {place[1:].upper()}"
        return f"{paper} figure {place}"

    def title(self, drawn: DrawnFigure) -> str:
        """Which figure of the paper it is, and what is shown here."""
        return f"{self.source}: {drawn.here}"

    def alternative_text(self, drawn: DrawnFigure) -> str:
        """A text in place of the picture: what it shows, and the seeds of its runs."""
        seeds = f" ({format_seeds(drawn.seeds)})" if drawn.seeds else ""
        return f"{self.shows}{seeds}"


def draw_paper_figure(figure: PaperFigure, data: FigureData) -> DrawnFigure:
    """Draw a figure of a paper in the style `screen`. Raises TrajectoryError if the runs
    are too few or too short for it."""
    with style_in_use("screen"), rc_context(style_parameters()):
        drawn = figure.draw(data)
    return drawn._replace(about=drawn.about or settings_summary(*data.datasets))


def own_style(data: FigureData) -> AbstractContextManager[Style]:
    """The style of a figure that a command draws, too: with larger letters in a small
    picture."""
    return style_in_use("paper" if data.small else "screen")


def name_run(trajectory: xr.Dataset, run: int) -> str:
    """The index of a run, for titles, with its seed if that differs."""
    seed = int(trajectory["seed"][run])
    return f"run {run}" if seed == run else f"run {run} (seed {seed})"


def sparse_settings(trajectory: xr.Dataset) -> SparseSettings:
    """The settings of VC's network."""
    settings = read_settings(trajectory)
    assert isinstance(settings, SparseSettings)
    return settings


def format_seeds(seeds: Sequence[int]) -> str:
    """Seeds in words; several that follow each other as a range."""
    first, last = min(seeds), max(seeds)
    if len(seeds) > 2 and sorted(seeds) == list(range(first, last + 1)):
        return f"seeds {first} to {last}"
    return f"seed{'s' * (len(seeds) > 1)} {', '.join(map(str, seeds))}"


def settings_summary(*trajectories: xr.Dataset) -> str:
    """Task, settings, length and runs of trajectories of one system; a setting that
    differs has all its values."""
    settings = [read_settings(trajectory) for trajectory in trajectories]
    first = trajectories[0]
    system = settings[0].system
    main = MAIN_SETTINGS.get(system, {})
    texts = setting_texts(*settings, always=main, form="equation")
    lengths = [
        str(int(trajectory["step"][-1]) // (setting.epoch_steps or 1))
        for trajectory, setting in zip(trajectories, settings, strict=True)
    ]
    unit = "epochs" if "epoch" in first.variables else "steps"
    counts = [str(trajectory.sizes["run"]) for trajectory in trajectories]
    runs = " and ".join(dict.fromkeys(counts))
    item = " each" if len(trajectories) > 1 and runs.isdigit() else ""
    size = (
        f"{', '.join(dict.fromkeys(lengths))} {unit}, {runs}"
        f" {'run' if runs == '1' else 'runs'}{item} from seed {first['seed'].values[0]}"
    )
    return f"{TASKS.get(system, system)}: {', '.join([*texts, size])}"
