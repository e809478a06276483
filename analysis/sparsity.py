"""How sparse the activations of successful and failed runs of VC's network are (VC figures 17 and 20).

python -m analysis.sparsity RUN.nc [MORE.nc ...]

A row of panels for each trajectory, labelled by the settings in which they differ; in a row, on the training and on the
test data, successes against failures and all runs coloured by test accuracy. The table has two tests: one of the mean
over log eps from 1e-3 to 10, the range that the paper names, by Mann and Whitney; and one of all thresholds at once,
by permuting which runs have succeeded. `analysis/clustering_heads/activation_sparsity.py` has the definitions.
"""

import dataclasses
import itertools
import textwrap
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING

import tyro

from analysis.command_line.parsing import run_command
from analysis.command_line.reading import TrajectoryOptions
from dynamics.settings import SettingsError

if TYPE_CHECKING:
    import numpy as np
    import xarray as xr
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

    from analysis.output.tables import TableRow
    from analysis.statistics.intervals import Interval

_HEADER = (
    "run", "split", "successes", "failures", "median sparsity", "of failures", "effect", "p", "less sparse",
    "more sparse", "with accuracy",
)  # fmt: skip

_COLUMNS = (
    "run", "split", "successes", "failures", "median_success", "median_failure", "effect", "effect_low", "effect_high",
    "p_value", "less_low", "less_high", "more_low", "more_high", "least_p_value", "correlation", "correlation_low",
    "correlation_high",
)  # fmt: skip

_SUCCESS_COLOUR, _FAILURE_COLOUR = "#0072b2", "#d55e00"

_MAX_LABEL = 30
"""Characters beyond which settings are no label, and a label takes more lines than one beside its panels."""

_SYMBOLS = {"dim": "d", "vocab": "p", "hidden": "h"}

_LEGEND = """sparsity: share of activations below eps, averaged over log eps from 1e-3 to 10
effect: rank-biserial, -1 where every success is less sparse than every failure
less sparse, more sparse: thresholds at which successes are, p < .05 for all thresholds at once
with accuracy: Spearman's correlation of sparsity and test accuracy over runs; all intervals are 95%"""


# ----------------------------------------------------------------------------------------------- the table


def _sparsity_row(found: "xr.Dataset", label: str, split: str) -> "TableRow":
    """Successes against failures on one split, from
    `analysis.clustering_heads.activation_sparsity.compare_successes`."""
    import numpy as np

    from analysis.output.tables import TableRow, format_number
    from analysis.statistics.ranks import mann_whitney_p_value, rank_biserial, rank_correlation

    here = found.sel(split=split)
    values, success = here["mean_sparsity"].values, here["success"].values
    one, other = values[success == 1], values[success == 0]
    medians = [float(np.median(each)) if len(each) else float("nan") for each in (one, other)]
    effect, p_value = rank_biserial(one, other), mann_whitney_p_value(one, other)
    ranges = [
        differing_range(here["eps"].values, here["effect"].values, here["p_value"].values, sign) for sign in (-1, 1)
    ]
    least = float(np.min(here["p_value"].values))
    known = np.isfinite(success)
    correlation = rank_correlation(values[known], here["test_accuracy"].values[known])
    text = [label, split, str(len(one)), str(len(other)), *(_short(each) for each in medians)]
    text += [
        _shown(effect),
        _chance(p_value),
        *("-" if low != low else f"{low:.2g} to {high:.2g}" for low, high in ranges),
    ]
    numbers = [label, split, str(len(one)), str(len(other)), *map(format_number, medians)]
    numbers += map(format_number, (*effect, p_value, *ranges[0], *ranges[1], least, *correlation))
    return TableRow([*text, _shown(correlation)], numbers)


def differing_range(eps: "np.ndarray", effect: "np.ndarray", p_value: "np.ndarray", sign: int) -> tuple[float, float]:
    """The least and the largest threshold at which the samples differ with an effect of this sign; NaN for none."""
    found = eps[(p_value < 0.05) & (sign * effect > 0)]  # NaN is not below
    return (float(found.min()), float(found.max())) if len(found) else (float("nan"), float("nan"))


def _short(value: float) -> str:
    return "-" if value != value else f"{value:.3f}"


def _shown(interval: "Interval") -> str:
    if interval.value != interval.value:
        return "-"
    bounds = "" if interval.low != interval.low else f" [{interval.low:.2f}, {interval.high:.2f}]"
    return f"{interval.value:.2f}{bounds}"


def _chance(p_value: float) -> str:
    return "-" if p_value != p_value else "< 0.0001" if p_value < 1e-4 else f"{p_value:.4f}"


def trajectory_labels(trajectories: "Sequence[xr.Dataset]", paths: Sequence[Path]) -> list[str]:
    """What tells the trajectories apart: the few settings in which they differ, or else the names of their files.

    Files of one name are numbered.
    """
    from dynamics.trajectory.schema import read_settings

    settings = [dataclasses.asdict(read_settings(each)) for each in trajectories]
    if len(settings) == 1:
        return [f"d = {settings[0]['dim']}"]
    names = [name for name in settings[0] if any(each[name] != settings[0][name] for each in settings)]
    names = [name for name in names if not name.startswith("start")]  # of which a file's checksum is part
    told = [", ".join(f"{_SYMBOLS.get(name, name)} = {each[name]}" for name in names) for each in settings]
    if len(set(told)) == len(told) and max(map(len, told)) <= _MAX_LABEL:
        return told
    stems = [path.stem for path in paths]
    count = {stem: itertools.count(1) for stem in stems}
    return [f"{stem} ({next(count[stem])})" if stems.count(stem) > 1 else stem for stem in stems]


def _check_file(trajectory: "xr.Dataset", path: Path, step: int | None) -> None:
    """See that a trajectory has activations at a step, before any are computed. Its errors have its name.

    Raises TrajectoryError, SettingsError.
    """
    from analysis.clustering_heads.activation_sparsity import network_and_step
    from dynamics.errors import TrajectoryError

    try:
        network_and_step(trajectory, step)
    except TrajectoryError as error:
        raise TrajectoryError(f"{path}: {error}") from None
    except SettingsError as error:
        raise SettingsError(error.field, error.found, f"{error.allowed} in {path.name}") from None


# ---------------------------------------------------------------------------------------------- the picture


def plot_sparsity(found: "Sequence[xr.Dataset]", names: Sequence[str]) -> "Figure":
    """A row for each trajectory: successes against failures, and test accuracy, on training and on test data."""
    from matplotlib.cm import ScalarMappable
    from matplotlib.colors import Normalize

    from analysis.clustering_heads.activation_sparsity import SPARSITY_SPLITS
    from analysis.plots.figure_files import new_figure

    high = 2.5 * len(found) + 1.1
    drawn = new_figure(14.0, high)
    panels = drawn.subplots(len(found), 4, squeeze=False, sharex=True, sharey=True)
    colours = ScalarMappable(Normalize(0, 1), "viridis")
    for line, (each, name) in enumerate(zip(found, names, strict=True)):
        for place, split in enumerate(SPARSITY_SPLITS):
            _draw_success(panels[line, 2 * place], each.sel(split=split))
            _draw_accuracy(panels[line, 2 * place + 1], each.sel(split=split), colours)
        words = "\n".join(textwrap.wrap(name, _MAX_LABEL))
        panels[line, 0].set_ylabel(f"{words}\nsparsity", fontsize=9)
    for place, split in enumerate(("training data", "test data")):
        panels[0, 2 * place].set_title(f"{split}: success and failure", fontsize=9)
        panels[0, 2 * place + 1].set_title(f"{split}: test accuracy", fontsize=9)
    for panel in panels[-1]:
        panel.set_xlabel("eps", fontsize=9)
    drawn.subplots_adjust(left=0.075, right=0.92, top=1 - 0.75 / high, bottom=0.5 / high, wspace=0.08, hspace=0.12)
    bar = drawn.colorbar(colours, cax=drawn.add_axes((0.935, 0.5 / high, 0.012, 1 - 1.25 / high)))
    bar.set_label("test accuracy", fontsize=9)
    bar.ax.tick_params(labelsize=8)
    _draw_legend(drawn)
    return drawn


def _draw_success(panel: "Axes", found: "xr.Dataset") -> None:
    """Each run's curve, and where along eps the two samples differ."""
    eps, success = found["eps"].values, found["success"].values
    for which, colour in ((0, _FAILURE_COLOUR), (1, _SUCCESS_COLOUR)):
        for values in found["sparsity"].values[success == which]:
            panel.plot(eps, values, color=colour, linewidth=0.9, alpha=0.5)
    differs = found["p_value"].values < 0.05
    panel.fill_between(eps, 0, 0.02, where=differs, color="0.25", linewidth=0, transform=panel.get_xaxis_transform())
    _frame(panel, eps)


def _draw_accuracy(panel: "Axes", found: "xr.Dataset", colours) -> None:
    """Each run's curve in the colour of its test accuracy."""
    accuracy = found["test_accuracy"].values
    for run in accuracy.argsort():
        if accuracy[run] == accuracy[run]:
            panel.plot(found["eps"], found["sparsity"][run], color=colours.to_rgba(accuracy[run]), linewidth=0.9)
    _frame(panel, found["eps"].values)


def _frame(panel: "Axes", eps: "np.ndarray") -> None:
    from analysis.clustering_heads.activation_sparsity import SPARSITY_RANGE

    panel.axvspan(*SPARSITY_RANGE, color="0.95", zorder=0)
    panel.set(xscale="log", xlim=(eps[0], eps[-1]), ylim=(-0.03, 1.03))
    panel.set_xticks([1e-5, 1e-3, 1e-1, 1e1])
    panel.tick_params(labelsize=8)
    panel.spines[["top", "right"]].set_visible(False)


def _draw_legend(drawn: "Figure") -> None:
    from matplotlib.lines import Line2D
    from matplotlib.patches import Patch

    marks = [
        Line2D([], [], color=_SUCCESS_COLOUR, label="test accuracy above .9"),
        Line2D([], [], color=_FAILURE_COLOUR, label="failures"),
        Patch(color="0.25", label="they differ, p < .05 for all eps at once"),
        Patch(color="0.92", label="the paper's range, 1e-3 to 10"),
    ]
    drawn.legend(handles=marks, loc="upper center", ncols=4, frameon=False, fontsize=9)


# ---------------------------------------------------------------------------------------------- the command


@dataclasses.dataclass(frozen=True)
class Options(TrajectoryOptions):
    """Sparsity of the activations of VC's network against the threshold, successful runs against failed ones."""

    more: tyro.conf.Positional[tuple[Path, ...]] = ()
    """More trajectories, a row of panels each."""
    step: int | None = None
    """Recorded step. None is the last of each trajectory."""
    runs: int | None = None
    """How many runs of each, from the first on; the paper has 20. None is all."""


def main(options: Options) -> None:
    """Measure, test, draw and write."""
    import xarray as xr

    from analysis.clustering_heads.activation_sparsity import SPARSITY_SPLITS, compare_successes, measure_sparsity
    from analysis.command_line.reading import open_input, write_result_and_picture
    from analysis.output import tables
    from analysis.output.files import combined_path
    from dynamics.trajectory.reader import open_trajectory

    paths = [options.trajectory, *options.more]
    if options.runs is not None and options.runs < 1:
        raise SettingsError("runs", options.runs, "a whole number from 1")
    if options.more and options.out is None:
        options = dataclasses.replace(options, out=combined_path(paths, "sparsity", ".nc"))
    first, out = open_input(options, "sparsity")
    trajectories = [first, *(open_trajectory(path) for path in options.more)]
    for trajectory, path in zip(trajectories, paths, strict=True):
        _check_file(trajectory, path, options.step)
    names = trajectory_labels(trajectories, paths)
    found = []
    for trajectory in trajectories:
        found.append(compare_successes(measure_sparsity(trajectory.isel(run=slice(options.runs)), options.step)))
    picture = plot_sparsity(found, names)
    for path, each in zip(paths, found, strict=True):
        if lost := int(each["success"].isnull().sum()):
            print(f"{path.name}: {lost} runs had diverged and are left out", file=options.say)
    rows = [
        _sparsity_row(each, name, split) for each, name in zip(found, names, strict=True) for split in SPARSITY_SPLITS
    ]
    tables.print_rows(_HEADER, _COLUMNS, rows, options.csv, left=(0, 1))
    print(_LEGEND, file=options.say)
    whole = xr.concat(found, xr.Variable("trajectory", names), join="outer", coords="different", compat="equals")
    whole = whole.assign_attrs(trajectories=", ".join(path.name for path in paths))
    write_result_and_picture(options, "sparsity", "Sparsity of hidden activations", whole, picture, out)


if __name__ == "__main__":
    run_command(main, Options, "analysis.sparsity")
