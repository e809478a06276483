"""What remedies do to spikes and to accuracy: the runs of a trajectory trained again with one thing changed (VC 4.3).

python -m analysis.remedies RUN.nc
"""

import dataclasses
from pathlib import Path
from typing import TYPE_CHECKING

from analysis.command_line.parsing import run_command
from analysis.command_line.reading import TrajectoryOptions, open_input, write_result_and_picture
from analysis.transitions.detection import DetectionConfig
from dynamics.settings import SUCCESS_ACCURACY, SettingsError, SparseSettings, check_integer, check_real

if TYPE_CHECKING:
    import numpy as np
    import xarray as xr
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

    from analysis.output.tables import TableRow
    from analysis.statistics.intervals import Interval

TITLE = "Remedies of loss spikes"

UNCHANGED = "as recorded"

HEADER = (
    "remedy", "runs", "escaped", "spikes a run", "difference", "per 1000 epochs since", "difference",
    "test %", "difference", "> .98", "p",
)  # fmt: skip

MEASURES = ("spikes", "rate", "test")

ENDS = ("", "_low", "_high", "_gain", "_gain_low", "_gain_high")

COLUMNS = ("remedy", "runs", "escaped", *(f"{name}{end}" for name in MEASURES for end in ENDS), "successes", "p_value")

LEGEND = """per 1000 epochs since: spikes after the escape over all epochs after it, of all runs; a remedy that keeps
runs from learning has fewer spikes in a run, but not by that count. Differences are of the same runs, with 95%
intervals over runs (of the rates by the jackknife); p is McNemar's, for as many runs gained above .98 as lost"""


@dataclasses.dataclass(frozen=True)
class Options(TrajectoryOptions):
    """Train the runs of a trajectory again, each from its own first weights with its own data and batches, with the
    norm that is smooth at the origin, with a wider feed-forward layer, and with decay of the assemblers; compare spikes
    of the training loss and final accuracy run by run. They are kept in runs/ as other trajectories are; what is there
    already is not computed again."""

    hidden: int = 128
    """Width of the wider feed-forward layer. Its first units are those of the narrow one, but all its assemblers begin
    smaller, by the root of the ratio of the widths."""
    assembler_decays: tuple[float, ...] = (0.01, 0.1)
    """Weight decays of the assemblers, apart from the gradient (AdamW's)."""
    rule: DetectionConfig = dataclasses.field(default_factory=DetectionConfig)


# ---------------------------------------------------------------------------------------------- what is run


def intervention_settings(settings: SparseSettings, options: Options) -> dict[str, SparseSettings]:
    """The settings with one thing changed, by name. Raises SettingsError."""
    if settings.norm.endswith("smooth"):
        raise SettingsError("trajectory", f"norm {settings.norm}", "a run of norm rms or unit, to be made smooth")
    smooth = dataclasses.replace(settings, norm=f"{settings.norm}-smooth")  # type: ignore[arg-type]
    found = {"smooth norm": smooth}
    hidden = check_integer("hidden", options.hidden, settings.hidden + 1, 100_000)
    if settings.start == "random":  # weights from elsewhere have a width of their own
        found[f"h = {hidden}"] = dataclasses.replace(settings, hidden=hidden)
    decays = [check_real("assembler_decays", decay, positive=True) for decay in options.assembler_decays]
    if decays and (settings.optimizer not in ("adam", "adamw") or settings.weight_decay or settings.assembler_decay):
        said = f"a run of {settings.optimizer} with weight decay {settings.weight_decay or settings.assembler_decay:g}"
        raise SettingsError("trajectory", said, "one of adam without any decay; or --assembler-decays without a value")
    for decay in decays:
        found[f"decay {decay:g}"] = dataclasses.replace(settings, optimizer="adamw", assembler_decay=decay)
    return found


def train_intervention(
    trajectory: "xr.Dataset", settings: SparseSettings, device: str = "auto"
) -> "tuple[Path, xr.Dataset]":
    """The runs of a trajectory with other settings, run or found. Raises as `simulate` does."""
    from dynamics.preparation import run_path
    from dynamics.simulation import simulate

    runs, seed, every = trajectory.sizes["run"], int(trajectory["seed"][0]), int(trajectory.attrs["every"])
    path = run_path(settings, runs, seed, every, "metrics", device)
    return path, simulate(settings, runs, seed, int(trajectory["step"][-1]), every, "metrics", device, out=path)


def check_complete_ensemble(trajectory: "xr.Dataset") -> SparseSettings:
    """The settings of a trajectory whose runs can be trained again. Raises TrajectoryError."""
    import numpy as np

    from analysis.transitions.loss_events import check_enough_frames
    from dynamics.errors import TrajectoryError
    from dynamics.networks.from_trajectory import clustering_head_of

    settings = clustering_head_of(trajectory).settings
    check_enough_frames(trajectory)
    if "branched_at" in trajectory.attrs or "derived" in trajectory.attrs:
        raise TrajectoryError("a branch or selection cannot be trained again from its beginning")
    seeds = trajectory["seed"].values
    if not np.array_equal(seeds, seeds[0] + np.arange(len(seeds))):
        raise TrajectoryError("variable seed: found seeds that do not follow one another")
    return settings


# ------------------------------------------------------------------------------------------------ measures


def spike_measures(trajectory: "xr.Dataset", rule: DetectionConfig) -> "dict[str, np.ndarray]":
    """Of each run: spikes; spikes after its escape, and how many epochs there were; final test accuracy, (run,) each.

    NaN throughout for a run that diverged.
    """
    import numpy as np

    from analysis.transitions.loss_events import event_table, plateau_escape_times, trajectory_scalar
    from dynamics.trajectory.diverged import not_diverged

    losses = trajectory_scalar(trajectory, "loss")
    found, left = event_table(losses, rule), plateau_escape_times(losses, rule=rule)
    steps, epoch, runs = trajectory["step"].values, trajectory["epoch"].values, trajectory.sizes["run"]
    alive = not_diverged(trajectory)
    spike, of_run = found["kind"].values == "spike", found["of_run"].values
    late = spike & (found["middle"].values >= left["escape"].values[of_run])
    since = np.where(left["escaped"].values, epoch[-1] - np.interp(left["escape"].values, steps, epoch), 0.0)
    values = {
        "spikes": np.bincount(of_run[spike], minlength=runs),
        "late": np.where(since > 0, np.bincount(of_run[late], minlength=runs), 0),
        "since": since,
        "test": trajectory["accuracy"].isel(step=-1).sel(split="test").values,
    }
    return {name: np.where(alive, each, np.nan) for name, each in values.items()}


def compare_interventions(trajectories: "dict[str, xr.Dataset]", rule: DetectionConfig) -> "xr.Dataset":
    """The measures of all ensembles, (remedy, run)."""
    import numpy as np
    import xarray as xr

    each = {name: spike_measures(trajectory, rule) for name, trajectory in trajectories.items()}
    about = {
        "spikes": "spikes of the training loss",
        "late": "spikes after the escape",
        "since": "epochs after the escape",
        "test": "test accuracy at the end",
    }
    variables = {
        name: (("remedy", "run"), np.stack([one[name] for one in each.values()]), {"long_name": text, "units": "1"})
        for name, text in about.items()
    }
    seeds = next(iter(trajectories.values()))["seed"].values
    return xr.Dataset(variables, {"remedy": list(each), "seed": ("run", seeds)})


def mean_measure(result: "xr.Dataset", remedy: str, name: str) -> "Interval":
    """A measure of an ensemble; the rate is that of all its runs together."""
    import numpy as np

    from analysis.statistics.intervals import mean_interval

    if name == "rate":
        return jackknife_rate(*(result[each].sel(remedy=[remedy]).values for each in ("late", "since")))
    values = result[name].sel(remedy=remedy).values
    return mean_interval(values[np.isfinite(values)])


def intervention_effect(result: "xr.Dataset", remedy: str, name: str) -> "Interval":
    """What a remedy adds to a measure, in the runs that have it with and without."""
    from analysis.statistics.intervals import mean_interval

    if name == "rate":
        return jackknife_rate(*(result[each].sel(remedy=[UNCHANGED, remedy]).values for each in ("late", "since")))
    return mean_interval(paired_effects(result, remedy, name))


def paired_effects(result: "xr.Dataset", remedy: str, name: str) -> "np.ndarray":
    """What a remedy adds to a measure, by run, where both have one."""
    import numpy as np

    added = (result[name].sel(remedy=remedy) - result[name].sel(remedy=UNCHANGED)).values
    return added[np.isfinite(added)]


def jackknife_rate(counts: "np.ndarray", epochs: "np.ndarray") -> "Interval":
    """A rate per 1000 epochs, or the difference of the second and the first: both (one or two, run).

    The t interval is over runs, each left out in turn; NaN where a rate has no epochs.
    """
    import numpy as np

    from analysis.statistics.intervals import t_interval

    known = np.isfinite(counts).all(axis=0) & np.isfinite(epochs).all(axis=0)
    counts, epochs = counts[:, known], epochs[:, known]
    runs = counts.shape[1]
    totals, watched = counts.sum(axis=1, keepdims=True), epochs.sum(axis=1, keepdims=True)
    signs = np.array([1.0]) if len(counts) == 1 else np.array([-1.0, 1.0])
    with np.errstate(divide="ignore", invalid="ignore"):
        value = float(signs @ (1000 * totals / watched)[:, 0])
        without = signs @ (1000 * (totals - counts) / (watched - epochs))
    if runs < 2 or not np.isfinite(without).all():
        return t_interval(value, float("nan"), 1)
    error = np.sqrt((runs - 1) / runs * ((without - without.mean()) ** 2).sum())
    return t_interval(value, float(error), runs - 1)


def mcnemar_p_value(result: "xr.Dataset", remedy: str) -> float:
    """p-value of McNemar's exact test that a remedy makes as many runs succeed as fail."""
    from scipy import stats

    before, after = (result["test"].sel(remedy=name).values > SUCCESS_ACCURACY for name in (UNCHANGED, remedy))
    gained, lost = int((after & ~before).sum()), int((before & ~after).sum())
    return float(stats.binomtest(gained, gained + lost).pvalue) if gained + lost else float("nan")


# ------------------------------------------------------------------------------------------------ the table


def intervention_row(result: "xr.Dataset", remedy: str) -> "TableRow":
    """A remedy: its measures, and what it adds to each run."""
    import numpy as np

    from analysis.output.tables import TableRow, format_number, format_plus_minus
    from analysis.statistics.intervals import Interval

    test = result["test"].sel(remedy=remedy).values
    counts = [str(int(np.isfinite(test).sum())), str(int((result["since"].sel(remedy=remedy).values > 0).sum()))]
    text, numbers = [remedy, *counts], [remedy, *counts]
    for name in MEASURES:
        scale, digits = (100, 1) if name == "test" else (1, 2)
        added = intervention_effect(result, remedy, name) if remedy != UNCHANGED else Interval(*[float("nan")] * 3)
        shown = [Interval(*(scale * value for value in each)) for each in (mean_measure(result, remedy, name), added)]
        text += [format_plus_minus(shown[0], digits), _signed_interval(shown[1], digits)]
        numbers += [format_number(value / scale) for each in shown for value in each]
    p = mcnemar_p_value(result, remedy) if remedy != UNCHANGED else float("nan")
    successes = str(int((test > SUCCESS_ACCURACY).sum()))
    return TableRow([*text, successes, "-" if p != p else f"{p:.2g}"], [*numbers, successes, format_number(p)])


def _signed_interval(interval: "tuple[float, float, float]", digits: int) -> str:
    """A difference with its interval; a dash where there is none."""
    value, low, high = interval
    if value != value:
        return "-"
    bounds = "" if low != low else f" [{low:+.{digits}f}, {high:+.{digits}f}]"
    return f"{value:+.{digits}f}{bounds}"


# ----------------------------------------------------------------------------------------------- the figure


def plot_interventions(result: "xr.Dataset") -> "Figure":
    """What each remedy adds to spikes, to their rate and to accuracy: means over paired runs with 95% intervals."""
    from analysis.plots.figure_files import new_figure

    drawn = new_figure(12.5, 3.8)
    axes = drawn.subplots(1, 3)
    titles = ("spikes in a run", "spikes per 1000 epochs after the escape, all runs", "test accuracy at the end")
    for place, name, title in zip(axes, MEASURES, titles, strict=True):
        _plot_effects(place, result, name)
        place.set_title(title, fontsize=10)
    drawn.suptitle("What a remedy adds to the same runs: single runs faint, 95% intervals", fontsize=11)
    drawn.subplots_adjust(left=0.05, right=0.985, top=0.82, bottom=0.14, wspace=0.2)
    return drawn


def _plot_effects(axes: "Axes", result: "xr.Dataset", name: str) -> None:
    """The differences of one measure; a rate is that of all runs together."""
    import numpy as np

    generator = np.random.default_rng(0)  # for places beside each other alone
    names = [str(each) for each in result["remedy"].values if each != UNCHANGED]
    for place, remedy in enumerate(names):
        if name != "rate":
            added = paired_effects(result, remedy, name)
            x = place + generator.uniform(-0.25, 0.25, len(added))
            axes.plot(x, added, ".", color="0.6", markersize=4, alpha=0.6)
        found = intervention_effect(result, remedy, name)
        if found.value == found.value:
            half = np.nan_to_num(found.half)
            axes.errorbar(place, found.value, half, fmt="o", color="tab:red", capsize=4, markersize=5, zorder=3)
    axes.axhline(0, color="0.4", linewidth=0.8)
    axes.set_xticks(range(len(names)), names)
    axes.set_xlim(-0.6, len(names) - 0.4)
    axes.tick_params(labelsize=8)
    axes.grid(color="0.92", axis="y")
    axes.set_axisbelow(True)


# ---------------------------------------------------------------------------------------------- the command


def main(options: Options) -> None:
    """Train, or find, the remedied ensembles; print the table, write the result, draw the picture."""
    from analysis.output import tables

    trajectory, out = open_input(options, "remedies")
    settings = check_complete_ensemble(trajectory)
    ensembles = {UNCHANGED: trajectory}
    for name, changed in intervention_settings(settings, options).items():
        path, ensembles[name] = train_intervention(trajectory, changed)
        print(f"{name:<11} {path}", file=options.say)
    result = compare_interventions(ensembles, options.rule).assign_attrs(**dataclasses.asdict(options.rule))
    write_result_and_picture(options, "remedies", TITLE, result, plot_interventions(result), out)
    tables.print_rows(
        HEADER, COLUMNS, [intervention_row(result, str(name)) for name in result["remedy"].values], options.csv
    )
    print(LEGEND, file=options.say)


if __name__ == "__main__":
    run_command(main, Options, "analysis.remedies")
