"""VC figures 6 and 7: test accuracy against batch size, hidden width, learning rate and
that of the MLP.

python -m analysis.paper ablation
python -m analysis.paper ablation --panels lr mlp-lr-discount --runs 20 --points 10
"""

from __future__ import annotations

import dataclasses
import functools
from pathlib import Path
from typing import Literal

from analysis import output, plots, transitions
from analysis.command_line.options import PictureOptions, SparseOptions
from analysis.command_line.result_files import write_result_and_picture
from analysis.output.tables import Column, output_table
from dynamics.settings import SettingsError

PanelName = Literal["batch", "hidden", "lr", "mlp-lr-discount"]


@dataclasses.dataclass(frozen=True)
class Options(PictureOptions):
    """Reproduce VC figures 6 and 7: final test accuracy against batch size, hidden
    width, learning rate, and the discount of the MLP's learning rate, for one run and
    for many runs. Diverged runs are excluded from the means, their number is printed,
    and they do not count as successes. Existing runs are not computed again."""

    panels: tuple[PanelName, ...] = ("batch", "hidden", "lr", "mlp-lr-discount")
    """Settings to vary, one at a time; the other settings have the values given
    below."""
    points: int = 20
    """Number of values in each panel, except for batch, whose values are the powers of
    two up to 2048 and at most --data. Hidden widths are rounded to integers, so that
    small widths may coincide."""
    max_hidden: int = 10_000
    """Largest hidden width; larger values are left out. A width of 10000, the largest
    in the paper, takes 150 times as long as 32, and the five largest widths take longer
    than all other points together."""
    runs: int = 100
    """Number of runs for each value; run r has seed SEED + r. The paper uses 100."""
    seed: int = 0
    """Seed of the first run, which figure 6 shows."""
    epochs: int = 1000
    """Number of training epochs; the paper uses 1000. Existing runs of a different
    length are not extended."""
    device: Literal["auto", "cpu", "cuda"] = "auto"
    """Device to compute on."""
    folder: str = "runs"
    """Folder for the trajectories, sparse-HASH.nc; existing ones are not computed
    again."""
    out: Path | None = None
    """File for the combined result, with the figure beside it. Default:
    FOLDER/sweep-ablation-HASH.nc."""
    scheduler: str | None = None
    """Address of a dask scheduler on whose workers to compute, for example
    tcp://127.0.0.1:8786. Default: use this process."""
    settings: SparseOptions = dataclasses.field(default_factory=SparseOptions)
    """Settings of all panels. Each panel varies one setting and marks the value given
    here."""


def main(options: Options) -> None:
    """Train or find all runs; print a row for each value, write the result, draw both
    figures."""
    designs = transitions.plan_ablation(
        options.settings.settings,
        options.panels,
        options.points,
        options.max_hidden,
        options.runs,
        options.seed,
        options.epochs,
        options.device,
        options.folder,
    )
    design, attrs = (
        transitions.merge_ablation_sweeps(designs.values()),
        {"result_of": "analysis.ablation"},
    )
    out = options.out or Path(options.folder) / transitions.ablation_file_name(design)
    out = output.check_result_path(out, attrs)
    if any(out.absolute() == point.path.absolute() for point in design.points):
        raise SettingsError("out", out, "another file than those of the runs")
    result, computed = transitions.run_ablation(designs, options.scheduler)
    result = result.assign_attrs(attrs, epochs=options.epochs)
    count = (
        f"{len(design.points)} in {options.folder} ({computed} computed, the others"
        " found)"
    )
    print(f"ensembles   {count}", file=options.log)
    figure = functools.partial(plots.plot_ablation, result)
    write_result_and_picture(options, result, figure, out)
    output_table(
        transitions.ablation_table(result), _columns(options.seed), options.csv
    )


def _columns(seed: int) -> list[Column]:
    return [
        Column("panel", "panel"),
        Column(
            "value",
            "value",
            text=lambda value: str(value) if isinstance(value, int) else f"{value:.3g}",
        ),
        Column("runs", "runs"),
        Column("diverged", "diverged"),
        Column(f"seed {seed} %", "first", digits=1, scale=100),
        Column("test %", "test", digits=1, interval="half-width", scale=100),
        Column("s.d. %", "test_deviation", digits=1, scale=100),
        Column("unseen %", "unseen", digits=1, interval="half-width", scale=100),
        Column("> .98", "count_above_0.98"),
        Column("test > .98 %", "above_0.98", digits=1, interval="bounds", scale=100),
    ]
