"""Draw the figures of both papers from trajectories of this package: from given files, or from runs found or simulated.

python -m analysis.paper
python -m analysis.paper ca3
python -m analysis.paper vc5 runs/sparse-HASH.nc --out figure5.pdf
"""

import dataclasses
from pathlib import Path

import tyro

from analysis.command_line.parsing import run_command
from analysis.reproduction import figures
from dynamics.settings import SettingsError


@dataclasses.dataclass(frozen=True)
class Options:
    """Draw a figure of one of the two papers: ca1 to ca6 and ca-c to ca-f of CA, or vc1 to vc20 of VC. Without a name,
    list all figures: what each shows, which runs it needs and how long these take. Runs are read from runs/, or
    simulated if they are missing there."""

    figure: tyro.conf.Positional[str] = ""
    """Name of the figure, such as ca3, CA.3 or vc12."""
    trajectories: tyro.conf.Positional[tuple[Path, ...]] = ()
    """Files to draw the figure from, in any order. Default: the figure's own runs."""
    run: int | None = None
    """Run index to show, in figures of one run. Default: the run selected by the rule, which is printed."""
    runs: int | None = None
    """Number of runs in the ensembles that are read or simulated. Default: the figure's own number."""
    epochs: int | None = None
    """Length of these runs in epochs; for particles, in steps. Default: the figure's own length."""
    out: Path | None = None
    """PNG, SVG or PDF file to write. Default: paper-FIGURE.png in runs/, or beside the first of the given files."""
    small: bool = False
    """Write a small PNG for a web page: few colours, no title and caption, and fewer panels where labels would be too
    small to read."""
    list: bool = False
    """Only list the figures."""


def main(options: Options) -> None:
    """Draw a figure, or list all figures."""
    if options.list or not options.figure:
        print(figures.format_figure_list())
        return
    chosen = figures.get_paper_figure(options.figure)
    if options.run is not None and not chosen.picks:
        raise SettingsError("run", options.run, f"no value here: {chosen.source} shows several runs")
    folder = options.trajectories[0].parent if options.trajectories else Path("runs")
    out = figures.check_figure_path(options.out or folder / f"paper-{chosen.name}.png")
    if options.small and out.suffix.lower() != ".png":
        raise SettingsError("out", out, "the name of a file that ends in .png, for a small picture")
    print(f"{chosen.source}: {chosen.shows}")
    sizes = figures.SizeOverrides(options.runs, options.epochs)
    data = figures.load_figure_runs(chosen, options.trajectories, sizes, options.run)
    drawn = chosen.draw(data._replace(small=options.small))
    caption = figures.paper_figure_caption(drawn)
    if options.small:
        figures.save_small_png(drawn.figure, out)
    else:
        title = figures.paper_figure_title(chosen, drawn)
        figures.save_paper_figure(drawn.figure, figures.add_title_and_caption(drawn.figure, title, caption), out)
    print(f"here: {drawn.here}\n{caption}\npicture     {out}")


if __name__ == "__main__":
    run_command(main, Options, "analysis.paper")
