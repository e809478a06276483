"""Figures of the papers: what each needs, and what is drawn."""

import dataclasses
import re
from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from contextlib import AbstractContextManager
from typing import NamedTuple

import xarray as xr
from matplotlib.figure import Figure

from analysis.panels.style import Style, style_in_use
from analysis.reproduction.experiment import RequiredRuns, SizeOverrides
from analysis.reproduction.figures.settings_line import settings_summary
from dynamics.settings import SparseSettings
from dynamics.trajectory.schema import read_settings


@dataclasses.dataclass(frozen=True)
class RequiredResult:
    """The result of another command, computed from many ensembles, that a figure
    needs."""

    title: str
    """The attribute `title` of the result's file"""
    command: str
    """The command that computes it, such as analysis.transfer"""
    make: Callable[[SizeOverrides], xr.Dataset]

    def words(self) -> str:
        """A description of the files that fit."""
        return f"a result of {self.command}"


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
        return (
            rule()
            if self.run is None
            else RunChoice(self.run, "the run that was asked for")
        )


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
    least: SizeOverrides = SizeOverrides()
    """The smallest sizes with which it can be drawn, if larger than one"""
    picks: bool = True
    """Whether one run can be selected; False for figures of several runs"""

    @property
    def source(self) -> str:
        """The figure or appendix of the paper, such as CA figure 3, or else its
        subject."""
        paper, place = self.name[:2].upper(), self.name[2:]
        if len(place) > 2 and place.startswith("-"):
            return f"{paper} {place[1:]}"
        return (
            f"{paper} appendix {place[1:].upper()}"
            if place.startswith("-")
            else f"{paper} figure {place}"
        )


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


def drawn_panel_names(figure: Figure) -> list[str]:
    """What each panel of a figure shows, in the order of drawing, by the label, the
    title or the x label of its axes. Keys and colour bars, whose labels are in angle
    brackets, are no panels."""
    names = []
    for axes in figure.axes:
        if axes.axison or axes.get_label():
            labels = (
                axes.get_label(),
                axes.get_title(),
                axes.get_title("left"),
                axes.get_xlabel(),
            )
            names.append(next((str(item) for item in labels if item), ""))
    in_grid = re.compile(r"^\d+-(\w+)$")  # such as 0-token_embeddings, of `PanelGrid`
    visible = (name for name in names if not name.startswith("<"))
    return [
        in_grid.sub(lambda match: match[1].replace("_", " "), name) for name in visible
    ]


def panel_sentences(figure: Figure, sentences: Mapping[str, str]) -> str:
    """Of the sentences about panels, by how the names of these panels begin, those
    whose panels are in a figure."""
    names = drawn_panel_names(figure)
    return " ".join(
        text
        for start, text in sentences.items()
        if any(name.startswith(start) for name in names)
    )


def format_seeds(seeds: Sequence[int]) -> str:
    """Seeds in words; several that follow each other as a range."""
    first, last = min(seeds), max(seeds)
    if len(seeds) > 2 and sorted(seeds) == list(range(first, last + 1)):
        return f"seeds {first} to {last}"
    return f"seed{'s' * (len(seeds) > 1)} {', '.join(map(str, seeds))}"


def draw_paper_figure(figure: PaperFigure, data: FigureData) -> DrawnFigure:
    """Draw a figure. Raises TrajectoryError if the data do not suffice."""
    drawn = figure.draw(data)
    return (
        drawn if drawn.about else drawn._replace(about=settings_summary(*data.datasets))
    )


def paper_figure_title(figure: PaperFigure, drawn: DrawnFigure) -> str:
    """The title of a drawn figure: which figure of the paper it is, and what is shown
    here."""
    return f"{figure.source}: {drawn.here}"


def paper_figure_caption(drawn: DrawnFigure) -> str:
    """The caption of a drawn figure: the rule by which runs were chosen, the seeds of
    those drawn, and the settings."""
    seeds = f"{format_seeds(drawn.seeds).capitalize()}. " if drawn.seeds else ""
    return f"{drawn.rule}\n{seeds}Data: {drawn.about}."


def paper_figure_alt(drawn: DrawnFigure) -> str:
    """A text in place of a drawn figure: what its panels show, and the seeds of their
    runs."""
    panels = Counter(drawn_panel_names(drawn.figure)).items()
    words = [f"{count} of {name}" if count > 1 else name for name, count in panels]
    return "; ".join(words) + (f" ({format_seeds(drawn.seeds)})" if drawn.seeds else "")
