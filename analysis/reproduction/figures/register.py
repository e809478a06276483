"""All figures of the papers."""

import re
import textwrap

from analysis.command_line.command_list import EXPERIMENTS
from analysis.reproduction.experiment import RequiredRuns
from analysis.reproduction.figures import (
    attention_figures,
    circuit_figures,
    embedding_figures,
    ensemble_figures,
    origin_figures,
    phase_figures,
    spike_figures,
    transformer_figures,
)
from analysis.reproduction.figures.figure import PaperFigure
from dynamics.settings import SettingsError


def _place(figure: PaperFigure) -> tuple[int, bool, int, str]:
    """The place of a figure in the list: by paper, then figures before appendices."""
    paper, place = figure.name[:2], figure.name[2:]
    appendix = place.startswith("-")
    number = 0 if appendix else int(place)
    return ["ca", "vc", "zl", "na"].index(paper), appendix, number, place


PAPER_FIGURES = tuple(
    sorted(
        (
            *embedding_figures.FIGURES,
            *circuit_figures.FIGURES,
            *phase_figures.FIGURES,
            *ensemble_figures.FIGURES,
            *attention_figures.FIGURES,
            *origin_figures.FIGURES,
            *spike_figures.FIGURES,
            *transformer_figures.FIGURES,
        ),
        key=_place,
    )
)


def get_paper_figure(name: str) -> PaperFigure:
    """The figure with a name, such as ca3; case and punctuation do not matter. Raises
    SettingsError."""
    letters = re.sub(r"[^a-z0-9]", "", name.lower())
    for figure in PAPER_FIGURES:
        if figure.name.replace("-", "") == letters:
            return figure
    names = ", ".join(figure.name for figure in PAPER_FIGURES)
    experiments = ", ".join(EXPERIMENTS)
    allowed = f"one of {names}; or, before all options, one of {experiments}"
    raise SettingsError("figure", name, allowed)


def format_figure_list() -> str:
    """A list of all figures: the runs that each needs, how long these take to compute,
    and what the figure shows."""
    lines = [f"{'figure':11}{'in the paper':16}{'needs':25}to make"]
    for figure in PAPER_FIGURES:
        needs = _format_required_runs(figure)
        lines.append(f"{figure.name:11}{figure.source:16}{needs:25}{figure.cost}")
        lines += textwrap.wrap(
            figure.shows, 100, initial_indent=" " * 8, subsequent_indent=" " * 8
        )
    return "\n".join(lines) + "\n\n" + LEGEND


LEGEND = """needs: system and number of runs, unless files are given; existing runs are read from runs/
to make: time to compute missing runs on two cores; --runs and --epochs give smaller ensembles
the two algorithms of CA appendix A are in analysis/structures/circles_and_grids.py, and appendix B is figure 6"""


def _format_required_runs(figure: PaperFigure) -> str:
    """The ensembles that a figure needs, in a few words."""
    sizes: dict[str, list[int]] = {}
    for need in figure.needs:
        if not isinstance(need, RequiredRuns):
            return need.command
        sizes.setdefault(need.settings.system, []).append(need.runs)
    return "; ".join(
        f"{name} {f'{len(runs)} x ' * (len(runs) > 1)}{runs[0]}"
        for name, runs in sizes.items()
    )
