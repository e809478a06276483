"""The papers' figures, from given trajectories or from runs found or simulated, and
their experiments: tables and figures from runs of their own.

python -m analysis.paper
python -m analysis.paper table1 --help
python -m analysis.paper ca3
python -m analysis.paper vc5 runs/sparse-HASH.nc --out figure5.pdf
"""

import dataclasses
import sys
from collections.abc import Sequence
from pathlib import Path

import tyro

from analysis import experiments
from analysis.command_line.command_list import EXPERIMENTS, print_commands
from analysis.command_line.panel_selection import check_picture_path
from analysis.command_line.parsing import run_command
from analysis.reproduction import figures
from dynamics.settings import SettingsError


@dataclasses.dataclass(frozen=True)
class Options:
    """Draw a figure of one of the papers: ca1 to ca6 and ca-c to ca-f of CA, vc1 to
    vc20 of VC, zl-rates or na-phases. Without a name, list all figures with a
    description, the runs that each needs and the time to compute them. Runs are read
    from runs/, or computed if they are missing there. The list begins with the
    experiments, which are commands with options of their own: EXPERIMENT --help."""

    figure: tyro.conf.Positional[str] = ""
    """Name of the figure, for example ca3, CA.3 or vc12. Default: list all
    figures and experiments."""
    trajectories: tyro.conf.Positional[tuple[Path, ...]] = ()
    """Trajectory files from which to draw the figure, as many and in the order of the
    runs in the list of figures. Default: these runs."""
    run: int | None = None
    """Index of the run, for figures that show one run. Default: selected by a rule,
    which is printed."""
    runs: int | None = None
    """Number of runs in the ensembles that are read or computed. Default: the number in
    the list of figures."""
    epochs: int | None = None
    """Length of these runs in epochs; for particles, in steps. Default: the default
    length for the figure."""
    out: Path | None = None
    """PNG, SVG or PDF file to write. Default: paper-FIGURE.png in runs/, or in the
    folder of the first given file."""
    small: bool = False
    """Write a small PNG for a web page, with few colours, without title and caption,
    and with fewer panels if the labels would be too small to read."""
    list: bool = False
    """Only list the figures and experiments."""


def main(options: Options) -> None:
    """Draw a figure, or list all experiments and figures."""
    if options.list or not options.figure:
        print("experiment (its options: python -m analysis.paper EXPERIMENT --help)")
        print_commands(Path(experiments.__file__).parent, EXPERIMENTS, "")
        print()
        print(figures.format_figure_list())
        return
    chosen = figures.get_paper_figure(options.figure)
    if options.run is not None and not chosen.one_run:
        raise SettingsError(
            "run", options.run, f"no value here: {chosen.source} shows several runs"
        )
    folder = options.trajectories[0].parent if options.trajectories else Path("runs")
    formats = ("png",) if options.small else ("png", "svg", "pdf")
    default = folder / f"paper-{chosen.name}.png"
    out = check_picture_path(options.out or default, formats)
    print(f"{chosen.source}: {chosen.shows}")
    sizes = figures.SizeOverrides(options.runs, options.epochs)
    data = figures.load_figure_runs(chosen, options.trajectories, sizes, options.run)
    drawn = figures.draw_paper_figure(chosen, data._replace(small=options.small))
    if options.small:
        figures.save_small_png(drawn.figure, out)
    else:
        title = chosen.title(drawn)
        figures.save_with_caption(drawn.figure, title, drawn.caption, out)
    print(f"here: {drawn.here}\n{drawn.caption}\npicture     {out}")


def run_paper(words: Sequence[str]) -> None:
    """Run the command of these words, the first of which may be an experiment."""
    if words and words[0] in EXPERIMENTS:
        del sys.argv[1]
        experiments.run_experiment(words[0])
    else:
        run_command(main, Options, "analysis.paper")


if __name__ == "__main__":
    run_paper(sys.argv[1:])
