"""VC figures 6 and 7: test accuracy after training against batch size, hidden width, learning rate, and how much
slower the MLP learns.

python -m analysis.ablation
python -m analysis.ablation --panels lr mlp-lr-discount --runs 20 --points 10
"""

from __future__ import annotations

import dataclasses
from pathlib import Path
from typing import Literal

from analysis import output, plots, transitions
from analysis.command_line.options import SparseOptions, TableOptions
from analysis.command_line.parsing import run_command
from analysis.output.tables import Column, output_table
from dynamics.settings import SettingsError

PanelName = Literal["batch", "hidden", "lr", "mlp-lr-discount"]


@dataclasses.dataclass(frozen=True)
class Options(TableOptions):
    """VC figures 6 and 7: test accuracy at the end against batch size, hidden width, learning rate, and the discount of
    the MLP's learning rate, of one run and of many. Runs that diverge are left out of the means and counted; none of
    them counts as a success. What is already there is not computed again."""

    panels: tuple[PanelName, ...] = ("batch", "hidden", "lr", "mlp-lr-discount")
    """Settings to sweep, one at a time around the recipe."""
    points: int = 20
    """Values in each panel, except batch, whose values are the powers of two up to --data and 2048. Hidden widths are
    whole numbers; small ones may coincide."""
    max_hidden: int = 10_000
    """Leave out hidden widths above this. The widest of the paper, 10000, costs 150 times what 32 does, and the five
    widest cost more than all other points together."""
    runs: int = 100
    """Runs for each value; run r has seed SEED + r. The paper has 100."""
    seed: int = 0
    """Seed of the first run, which figure 6 shows."""
    epochs: int = 1000
    """Training epochs, 1000 in the paper. Runs of another length are not extended."""
    device: Literal["auto", "cpu", "cuda"] = "auto"
    """Where to compute."""
    folder: str = "runs"
    """Folder of the trajectories, sparse-HASH.nc; those that are there are not computed again."""
    out: Path | None = None
    """File for the combined result, with the figure beside it. Default: FOLDER/sweep-ablation-HASH.nc."""
    scheduler: str | None = None
    """Compute on the workers of the dask cluster at this address, such as tcp://127.0.0.1:8786. Default: in this
    process."""
    settings: SparseOptions = dataclasses.field(default_factory=SparseOptions)
    """The recipe of all panels. A panel replaces the value of its own setting and marks the recipe's value."""


def main(options: Options) -> None:
    """Train or find all runs; print a row for each value, write the result, draw both figures."""
    designs = transitions.plan_ablation(
        options.settings.settings, options.panels, options.points, options.max_hidden, options.runs, options.seed,
        options.epochs, options.device, options.folder,
    )  # fmt: skip
    design, attrs = transitions.merge_ablation_sweeps(designs.values()), {"result_of": "analysis.ablation"}
    out = options.out or Path(options.folder) / transitions.ablation_file_name(design)
    out = output.check_result_path(out, attrs)
    if any(out.absolute() == point.path.absolute() for point in design.points):
        raise SettingsError("out", out, "another file than those of the runs")
    result, computed = transitions.run_ablation(designs, options.scheduler)
    result = result.assign_attrs(attrs, epochs=options.epochs)
    count = f"{len(design.points)} in {options.folder} ({computed} computed, the others found)"
    print(f"ensembles   {count}", file=options.log)
    output.write_result(result, out)
    plots.save_figure(plots.plot_ablation(result), out.with_suffix(".png"))
    print(f"result      {out}\npicture     {out.with_suffix('.png')}", file=options.log)
    output_table(transitions.ablation_table(result), _columns(options.seed), options.csv)


def _columns(seed: int) -> list[Column]:
    return [
        Column("panel", "panel"),
        Column("value", "value", text=lambda value: str(value) if isinstance(value, int) else f"{value:.3g}"),
        Column("runs", "runs"),
        Column("diverged", "diverged"),
        Column(f"seed {seed} %", "first", digits=1, scale=100),
        Column("test %", "test", digits=1, interval="half-width", scale=100),
        Column("s.d. %", "test_deviation", digits=1, scale=100),
        Column("unseen %", "unseen", digits=1, interval="half-width", scale=100),
        Column("> .98", "count_above_0.98"),
        Column("test > .98 %", "above_0.98", digits=1, interval="bounds", scale=100),
    ]


if __name__ == "__main__":
    run_command(main, Options, "analysis.ablation")
