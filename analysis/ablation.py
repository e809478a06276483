"""VC figures 6 and 7: test accuracy after training against batch size, hidden width, learning rate, and how much
slower the feed-forward layer learns. Along a panel a seed keeps its data, first weights and shuffles.

python -m analysis.ablation
python -m analysis.ablation --panels lr mlp-lr-discount --runs 20 --points 10
"""

import dataclasses
import sys
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal, NamedTuple

from analysis.command_line.options import SparseOptions
from analysis.command_line.parsing import run_command
from dynamics.settings import SUCCESS_ACCURACY, SettingsError, SparseSettings, check_integer

if TYPE_CHECKING:
    import xarray as xr
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

    from analysis.output.tables import TableRow
    from analysis.statistics.intervals import Interval
    from dynamics.sweeps.design import SweepDesign, SweepPoint

ABLATION_PANELS = {
    "batch": "batch size",
    "hidden": "hidden width h",
    "lr": "learning rate",
    "mlp_lr_discount": "discount c: the MLP learns at lr / c",
}
"""The settings that are swept, and what stands under their panels."""

PanelName = Literal["batch", "hidden", "lr", "mlp-lr-discount"]

HIDDEN_WIDTH_RANGE = (10, 10_000)
"""Hidden widths of the paper, first and last."""

HEADER = (
    "panel", "value", "runs", "diverged", "seed {seed} %", "test %", "s.d. %", "unseen %", "> .98", "test > .98 %",
)  # fmt: skip

COLUMNS = (
    "panel", "value", "runs", "diverged", "first", "test", "test_low", "test_high", "test_deviation",
    "unseen", "unseen_low", "unseen_high", "count_above_0.98", "above_0.98", "above_0.98_low", "above_0.98_high",
    "file",
)  # fmt: skip


# ----------------------------------------------------------------------------------------------- the options


@dataclasses.dataclass(frozen=True)
class Options:
    """VC figures 6 and 7: test accuracy at the end against batch size, hidden width, learning rate and the discount of
    the feed-forward layer's learning rate, of one run and of many. What is there already is not computed again. Runs
    that diverge are left out of the means and counted; none of them counts as a success."""

    panels: tuple[PanelName, ...] = ("batch", "hidden", "lr", "mlp-lr-discount")
    """What to sweep, each on its own with all else as the settings say."""
    points: int = 20
    """Values in each panel but batch, whose values are the powers of two up to --data, at most 2048. Widths are whole
    numbers, of which few points may give fewer."""
    max_hidden: int = HIDDEN_WIDTH_RANGE[1]
    """Leave out hidden widths above this. The widest, 10000, costs 150 times what 32 does, and the five widest more
    than all other points together."""
    runs: int = 100
    """Runs for each value; run r has seed SEED + r. The paper has 100."""
    seed: int = 0
    """Seed of the first run, which is the one of figure 6."""
    epochs: int = 1000
    """How long to train; the paper has 1000. Runs of another length are not gone on with."""
    device: Literal["auto", "cpu", "cuda"] = "auto"
    """Where to compute."""
    folder: str = "runs"
    """Where the trajectories are kept, as sparse-HASH.nc; those that are there are not computed again."""
    out: Path | None = None
    """The combined results, with the picture beside them. None is FOLDER/sweep-ablation-HASH.nc."""
    csv: Path | None = None
    """Also write the table, as numbers, to a CSV file; - is the terminal."""
    scheduler: str | None = None
    """Compute on the workers of a dask cluster, such as tcp://127.0.0.1:8786. None is this process."""
    settings: SparseOptions = dataclasses.field(default_factory=SparseOptions)
    """The recipe of all panels; what a panel sweeps it takes from there, and its value here is marked in that panel."""


def swept_values(name: str, points: int, data: int, max_hidden: int) -> list[int] | list[float]:
    """The values of a panel, ascending, each once."""
    import numpy as np

    if name == "batch":
        return [2**k for k in range(12) if 2**k <= data]
    if name == "hidden":
        widths = np.logspace(1, 4, points).astype(int)
        return sorted({int(width) for width in widths if width <= max_hidden})
    ends = {"lr": (0, -4), "mlp_lr_discount": (-2, 2)}[name]
    return sorted(float(value) for value in np.logspace(*ends, points))


def plan_ablation(options: Options) -> "dict[str, SweepDesign]":
    """A sweep for each panel, in the order of `PANELS`, by its setting. Raises SettingsError."""
    from dynamics.sweeps.design import sweep_design

    wanted = {name.replace("-", "_") for name in options.panels}
    if not wanted:
        raise SettingsError("panels", "none", "one or more of " + ", ".join(ABLATION_PANELS).replace("_", "-"))
    check_integer("points", options.points, 2, 1000)
    check_integer("max_hidden", options.max_hidden, *HIDDEN_WIDTH_RANGE)
    check_integer("epochs", options.epochs, 1, 2**53)
    base = options.settings.settings
    return {
        name: sweep_design(
            base,
            {name: swept_values(name, options.points, base.data, options.max_hidden)},
            runs=options.runs,
            seed=options.seed,
            epochs=options.epochs,
            every=options.epochs,  # the first and the last frame alone, so that scoring costs nothing
            device=options.device,
            folder=options.folder,
        )
        for name in ABLATION_PANELS
        if name in wanted
    }


# ----------------------------------------------------------------------------------------------- the command


def main(options: Options) -> None:
    """Train, or find, all runs; draw both figures, write what was found, and print a line for each value."""
    grids = plan_ablation(options)
    from analysis.output import tables
    from analysis.output.results import check_result_path, write_result
    from analysis.plots.figure_files import save_figure
    from dynamics.preparation import check_trajectory_path
    from dynamics.sweeps.run import combine_points, compute_missing_points

    say = sys.stderr if str(options.csv) == "-" else sys.stdout
    grid, what = merge_ablation_sweeps(grids.values()), {"result_of": "analysis.ablation"}
    out = check_result_path(check_trajectory_path(options.out or Path(options.folder) / ablation_file_name(grid)), what)
    if any(out.absolute() == point.path.absolute() for point in grid.points):
        raise SettingsError("out", out, "another file than those of the runs")
    computed = compute_missing_points(grid, options.scheduler, work=ablation_point_cost)
    print(f"ensembles   {len(grid.points)} in {options.folder} ({computed} computed, the others found)", file=say)
    result = ablation_dataset({name: combine_points(each) for name, each in grids.items()}).assign_attrs(
        what, epochs=options.epochs
    )
    write_result(result, out)
    save_figure(plot_ablation(result), out.with_suffix(".png"))
    print(f"result      {out}\npicture     {out.with_suffix('.png')}", file=say)
    header = [word.format(seed=options.seed) for word in HEADER]
    tables.print_rows(header, COLUMNS, ablation_rows(result), options.csv)


def merge_ablation_sweeps(grids: "Iterable[SweepDesign]") -> "SweepDesign":
    """The points of all panels as one grid, the cheapest first, and each once: panels meet in the recipe."""
    grids = list(grids)
    points = {point.path: point for grid in grids for point in grid.points}
    return dataclasses.replace(grids[0], axes={}, points=sorted(points.values(), key=ablation_point_cost))


def ablation_file_name(grid: "SweepDesign") -> str:
    """The file name of a result: its hash is over the points and the recipe, which they alone do not tell."""
    import hashlib

    words = " ".join(sorted(point.path.stem for point in grid.points)) + repr(grid.settings)
    return f"sweep-ablation-{hashlib.sha256(words.encode()).hexdigest()[:12]}.nc"


def ablation_point_cost(point: "SweepPoint") -> float:
    """What a point costs, in no unit."""
    assert isinstance(point.settings, SparseSettings)
    return point.steps * training_step_cost(point.settings)


def training_step_cost(settings: SparseSettings) -> float:
    """What a step costs: as measured, two sequences more than it has, and each 40 units more."""
    return (settings.batch + 2.0) * (settings.hidden + 40.0)


# ------------------------------------------------------------------------------------------------ the result


class AblationPoint(NamedTuple):
    """What became of the runs of one value. Those that diverged are in no mean, and have not succeeded."""

    value: int | float
    file: str
    runs: int
    """All of them."""
    diverged: int
    first: float
    """Test accuracy of the first run; NaN if it diverged."""
    test: "Interval"
    deviation: float
    """Standard deviation of the test accuracy over runs, with n - 1; NaN for fewer than two."""
    unseen: "Interval"
    above: int
    """Runs above `SUCCESS`."""
    success: "Interval"


def ablation_dataset(found: "Mapping[str, xr.Dataset]") -> "xr.Dataset":
    """Combined sweeps, each along its own setting, as one result: accuracy_NAME and loss_NAME (NAME, run, split) at
    the end, where NaN is a run that diverged, status_NAME (NAME, run) and file_NAME (NAME)."""
    import json

    import xarray as xr

    from dynamics.trajectory.schema import DIVERGED

    variables = {}
    for name, swept in found.items():
        alive = swept["status"] != DIVERGED
        for kind in ("accuracy", "loss"):
            last = swept[f"final_{kind}"]
            variables[f"{kind}_{name}"] = last.where(alive).assign_attrs(last.attrs)
        variables |= {f"status_{name}": swept["status"], f"file_{name}": swept["file"]}
    attrs = dict(next(iter(found.values())).attrs, title="Ablations of VC's training recipe")
    attrs["swept"] = json.dumps(list(found))
    return xr.Dataset(variables, attrs=attrs)


def swept_settings(result: "xr.Dataset") -> list[str]:
    """The settings that a result has panels of."""
    return [name for name in ABLATION_PANELS if f"accuracy_{name}" in result]


def ablation_points(result: "xr.Dataset", name: str) -> list[AblationPoint]:
    """A line for each value of a panel."""
    import numpy as np

    from analysis.statistics.intervals import binomial_interval, mean_interval

    found, accuracy = [], result[f"accuracy_{name}"].transpose(name, "split", "run")
    for at, value in enumerate(result[name].values.tolist()):
        split = {str(each): accuracy.values[at, k] for k, each in enumerate(accuracy["split"].values)}
        alive = split["test"][~np.isnan(split["test"])].astype(np.float64)
        unseen, above = split.get("unseen", np.empty(0)), int((alive > SUCCESS_ACCURACY).sum())
        found.append(
            AblationPoint(
                value=value,
                file=str(result[f"file_{name}"].values[at]),
                runs=accuracy.sizes["run"],
                diverged=accuracy.sizes["run"] - len(alive),
                first=float(split["test"][0]),
                test=mean_interval(alive),
                deviation=float(alive.std(ddof=1)) if len(alive) > 1 else np.nan,
                unseen=mean_interval(unseen[~np.isnan(unseen)]),
                above=above,
                success=binomial_interval(above, accuracy.sizes["run"]),
            )
        )
    return found


def ablation_rows(result: "xr.Dataset") -> "list[TableRow]":
    """The lines of all panels, for a person and for a program."""
    return [ablation_row(name, line) for name in swept_settings(result) for line in ablation_points(result, name)]


def ablation_row(name: str, line: AblationPoint) -> "TableRow":
    """A line for a person and for a program."""
    from analysis.output.tables import TableRow, format_number, format_percent, format_percent_plus_minus

    def digits(value: float) -> str:
        return "-" if value != value else f"{100 * value:.1f}"

    word = str(line.value) if isinstance(line.value, int) else f"{line.value:.3g}"
    text = [
        name.replace("_", "-"),
        word,
        str(line.runs),
        str(line.diverged),
        digits(line.first),
        format_percent_plus_minus(line.test),
    ]
    text += [
        digits(line.deviation),
        format_percent_plus_minus(line.unseen),
        str(line.above),
        format_percent(line.success),
    ]
    numbers = [line.value, line.runs, line.diverged, line.first, *line.test, line.deviation, *line.unseen]
    numbers += [line.above, *line.success]
    return TableRow(text, [text[0], *map(format_number, numbers), line.file])


# ------------------------------------------------------------------------------------------------ the figure

ONE, MEAN, ABOVE, LOST = "C0", "C0", "C1", "C3"


def plot_ablation(result: "xr.Dataset") -> "Figure":
    """Test accuracy at the end against each panel's values: the first run above (VC figure 6), all below (figure 7).
    A single run has figure 6 alone."""
    from analysis.plots.figure_files import new_figure
    from dynamics.trajectory.schema import read_settings

    names, s, runs = swept_settings(result), read_settings(result), result.sizes["run"]
    assert isinstance(s, SparseSettings)
    height = 2.6 if runs == 1 else 5.2  # of the panels, in inches
    drawn = new_figure(max(6.4, 3.3 * len(names)), height)
    grid = drawn.subplots(1 if runs == 1 else 2, len(names), sharex="col", sharey=True, squeeze=False)
    for name, column in zip(names, grid.T, strict=True):
        found = ablation_points(result, name)
        _plot_first_run(column[0], found, f"run of seed {result.attrs['seed']}")
        if runs > 1:
            plot_ablation_means(column[1], found)
        for axes in column:
            decorate_ablation_panel(axes, name, [line.value for line in found], s)
        column[-1].set_xlabel(ABLATION_PANELS[name], fontsize=9)
    captions = f"seed {result.attrs['seed']} (VC figure 6)", f"{runs} runs (VC figure 7)"
    for axes, words in zip(grid[:, 0], captions, strict=False):
        axes.set_title(words, fontsize=9, loc="left")
        axes.set_ylabel("test accuracy" if axes is grid[0, 0] else "test accuracy, share of runs", fontsize=9)
    grid[0, 0].set_ylim(-0.04, 1.06)
    task = f"Sum of {s.sparsity} of {s.length} tokens modulo {s.vocab}"
    add_title_and_legend(drawn, height, f"{task}: test accuracy after {result.attrs['epochs']} epochs")
    return drawn


def _plot_first_run(axes: "Axes", found: Sequence[AblationPoint], label: str) -> None:
    """The first run, and a cross at 0 where it diverged."""
    axes.plot([each.value for each in found], [each.first for each in found],
              color=ONE, linewidth=1.2, marker="o", markersize=3, label=label)  # fmt: skip
    lost = [each.value for each in found if each.first != each.first]
    if lost:
        axes.plot(lost, [0] * len(lost), color=LOST, marker="x", markersize=5, linestyle="none", label="diverged")


def plot_ablation_means(axes: "Axes", found: Sequence[AblationPoint]) -> None:
    """The mean over runs with its 95% interval, the standard deviation as a band, and shares of runs."""
    import numpy as np

    x, mean = np.array([each.value for each in found]), np.array([each.test.value for each in found])
    spread = np.array([each.deviation for each in found])
    half = np.nan_to_num([each.test.half for each in found])
    axes.errorbar(x, mean, half, color=MEAN, linewidth=1.2, marker="o", markersize=3, capsize=2, elinewidth=1,
                  label="mean, with its 95% interval")  # fmt: skip
    axes.fill_between(x, mean - spread, mean + spread, color=MEAN, alpha=0.18, linewidth=0,
                      label="± standard deviation (VC's band)")  # fmt: skip
    known = np.pad(np.isfinite(spread), 1)
    alone = known[1:-1] & ~known[:-2] & ~known[2:]  # where the band has no width
    axes.vlines(x[alone], (mean - spread)[alone], (mean + spread)[alone], color=MEAN, alpha=0.18, linewidth=8)
    axes.plot(x, [each.success.value for each in found], color=ABOVE, linewidth=1, marker=".", markersize=3,
              label="share of runs above .98")  # fmt: skip
    lost = {each.value: each.diverged / each.runs for each in found if each.diverged}
    if lost:
        axes.plot(list(lost), list(lost.values()), color=LOST, marker="x", markersize=5, linestyle="none",
                  label="share of runs that diverged")  # fmt: skip


def decorate_ablation_panel(axes: "Axes", name: str, x: Sequence[float], settings: SparseSettings) -> None:
    """A logarithmic axis of a decade or more over the values and that of the recipe, which is marked, and chance."""
    from matplotlib.ticker import LogLocator, NullFormatter

    at = getattr(settings, name)
    axes.axhline(1 / settings.vocab, color="0.35", linewidth=0.9, linestyle=":", label=f"chance, 1/{settings.vocab}")
    axes.axvline(at, color="0.5", linewidth=0.9, linestyle="--", label="the recipe's value")
    low, high = min(*x, at), max(*x, at)
    margin = max(1.2, (12 * low / high) ** 0.5)
    axes.set_xscale("log", base=2 if name == "batch" else 10)
    axes.set_xlim(low / margin, high * margin)
    if name != "batch" and high < 50 * low:  # where powers of ten would be one or two
        axes.xaxis.set_major_locator(LogLocator(subs=(1, 2, 5)))
        axes.xaxis.set_major_formatter("{x:g}")
    axes.xaxis.set_minor_formatter(NullFormatter())
    axes.tick_params(labelsize=8)
    axes.grid(color="0.92", linewidth=0.7)
    axes.set_axisbelow(True)


def add_title_and_legend(drawn: "Figure", height: float, title: str) -> None:
    """Title above the panels and one legend below them; the figure grows by what both need."""
    width = drawn.get_figwidth()
    named: dict[str, Any] = {}
    for axes in drawn.axes:
        handles, labels = axes.get_legend_handles_labels()
        named |= dict(zip(labels, handles, strict=True))
    of_both = ("chance", "the recipe", "share")
    named = dict(sorted(named.items(), key=lambda each: each[0].startswith(of_both)))
    deep = -(-len(named) // int(width / 2.2))
    above, below = 0.7, 0.65 + 0.2 * deep  # inches
    whole = height + above + below
    drawn.set_figheight(whole)
    drawn.suptitle(title, fontsize=11, y=1 - 0.12 / whole, va="top")
    drawn.legend(named.values(), named.keys(), loc="lower center", bbox_to_anchor=(0.5, 0.0),
                 ncols=-(-len(named) // deep), frameon=False, fontsize=8)  # fmt: skip
    drawn.subplots_adjust(
        left=0.62 / width, right=1 - 0.2 / width, bottom=below / whole, top=1 - above / whole, wspace=0.08, hspace=0.16
    )


if __name__ == "__main__":
    run_command(main, Options, "analysis.ablation")
