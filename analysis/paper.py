"""The figures of both papers, drawn from trajectories of this package: those given, or runs that are found or made.

python -m analysis.paper
python -m analysis.paper ca3
python -m analysis.paper vc5 runs/sparse-HASH.nc --out figure5.pdf
"""

import dataclasses
from pathlib import Path
from typing import TYPE_CHECKING

import tyro

from analysis.command_line.parsing import run_command

if TYPE_CHECKING:
    from analysis.reproduction.figures.figure import DrawnFigure, PaperFigure


@dataclasses.dataclass(frozen=True)
class Options:
    """Draw a figure of CA (ca1 to ca6, ca-c to ca-f) or VC (vc1 to vc20). Without one, list them: what each shows,
    what it needs and what that costs. Its runs are found where their commands keep them, in runs/, or made."""

    figure: tyro.conf.Positional[str] = ""
    """Which one, such as ca3, CA.3 or vc12."""
    trajectories: tyro.conf.Positional[tuple[Path, ...]] = ()
    """Files to draw it from, in any order. None is the runs that the figure itself names."""
    run: int | None = None
    """Place of the run to show, in figures of one run. None is that of the figure's rule, which is told."""
    runs: int | None = None
    """Size of the ensembles that are found or made. None is the figure's own."""
    epochs: int | None = None
    """Their length; of particles in steps. None is the figure's own."""
    out: Path | None = None
    """PNG, SVG or PDF to write. None is paper-FIGURE.png in runs/, or beside the first of the files."""
    small: bool = False
    """A small PNG for a web page: of few colours, without title and caption, and where letters could not be read
    otherwise with fewer panels."""
    list: bool = False
    """Only list the figures."""


def main(options: Options) -> None:
    """Draw a figure, or list all."""
    from analysis.reproduction.figures.figure import SizeOverrides
    from analysis.reproduction.figures.figure_runs import load_figure_runs
    from analysis.reproduction.figures.framing import (
        add_title_and_caption,
        check_figure_path,
        save_paper_figure,
        save_small_png,
    )
    from analysis.reproduction.figures.register import get_paper_figure
    from dynamics.settings import SettingsError
    from dynamics.simulation import RUNS_FOLDER

    if options.list or not options.figure:
        print(format_figure_list())
        return
    chosen = get_paper_figure(options.figure)
    if options.run is not None and not chosen.picks:
        raise SettingsError("run", options.run, f"no value here: {chosen.source} shows several runs")
    folder = options.trajectories[0].parent if options.trajectories else RUNS_FOLDER
    out = check_figure_path(options.out or folder / f"paper-{chosen.name}.png")
    if options.small and out.suffix.lower() != ".png":
        raise SettingsError("out", out, "the name of a file that ends in .png, for a small picture")
    print(f"{chosen.source}: {chosen.shows}")
    material = load_figure_runs(chosen, options.trajectories, SizeOverrides(options.runs, options.epochs), options.run)
    drawn = chosen.draw(material._replace(small=options.small))
    if options.small:
        save_small_png(drawn.figure, out)
    else:
        save_paper_figure(
            drawn.figure,
            add_title_and_caption(drawn.figure, paper_figure_title(chosen, drawn), paper_figure_caption(drawn)),
            out,
        )
    print(f"here: {drawn.here}\n{paper_figure_caption(drawn)}\npicture     {out}")


def paper_figure_title(plate: "PaperFigure", drawn: "DrawnFigure") -> str:
    """Which figure it is, and what ours is."""
    return f"{plate.source}, here: {drawn.here}"


def paper_figure_caption(drawn: "DrawnFigure") -> str:
    """The rule by which runs were chosen, and the settings."""
    return f"{drawn.rule}\n{drawn.about[0].upper()}{drawn.about[1:]}."


def format_figure_list() -> str:
    """All figures: what they need, how long that takes to make, and what they show."""
    import textwrap

    from analysis.reproduction.figures.register import PAPER_FIGURES

    lines = [f"{'figure':8}{'in the paper':16}{'needs':22}to make"]
    for each in PAPER_FIGURES:
        lines.append(f"{each.name:8}{each.source:16}{format_required_runs(each):22}{each.cost}")
        lines += textwrap.wrap(each.shows, 100, initial_indent=" " * 8, subsequent_indent=" " * 8)
    return "\n".join(lines) + "\n\n" + LEGEND


LEGEND = """needs: system and number of runs, unless files are given; runs that other commands have made are found
to make: how long that takes on two cores where they are not there; --runs and --epochs make smaller ones
the papers' other numbers: python -m analysis.table1 and analysis.table2 (CA tables 1 and 2); CA appendix A has the two
algorithms of analysis/structures/circles_and_grids.py, and appendix B is figure 6"""


def format_required_runs(plate: "PaperFigure") -> str:
    """The ensembles of a plate, in a few words."""
    from analysis.reproduction.figures.figure import RequiredRuns

    sizes: dict[str, list[int]] = {}
    for need in plate.needs:
        if not isinstance(need, RequiredRuns):
            return need.command
        sizes.setdefault(need.settings.system, []).append(need.runs)
    return "; ".join(
        f"{system} {len(runs)} x {runs[0]}" if len(runs) > 1 else f"{system} {runs[0]}"
        for system, runs in sizes.items()
    )


if __name__ == "__main__":
    run_command(main, Options, "analysis.paper")
