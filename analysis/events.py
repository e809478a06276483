"""Plateaus, drops and spikes of a loss, or of any scalar of a trajectory; two-phase learning; times of escape.

python -m analysis.events RUN.nc
python -m analysis.events RUN.nc OTHER.nc
python -m analysis.events PARTICLES.nc --of speed
"""

import dataclasses
from pathlib import Path
from typing import TYPE_CHECKING, Literal

import tyro

from analysis.command_line.parsing import run_command
from analysis.command_line.reading import TrajectoryOptions, open_input, write_result_and_picture
from analysis.transitions.detection import DetectionConfig
from dynamics.settings import SUCCESS_ACCURACY, SettingsError, check_real

if TYPE_CHECKING:
    import numpy as np
    import xarray as xr

    from analysis.output.tables import TableRow
    from analysis.statistics.survival import SurvivalCurve

TITLE = "Plateaus, drops and spikes"

PRINTED_RUNS = 40
"""Runs that the table of the terminal has; the CSV has all."""

HEADER = ("seed", "escape", "first drop", "second drop", "between", "spikes", "rises")

COLUMNS = (
    "seed", "escape", "escaped", "successful",
    *(f"{drop}_{name}" for drop in ("first", "second") for name in ("begin", "middle", "end")),
    "between", "drops", "spikes", "rises",
)  # fmt: skip

SCALAR_DESCRIPTIONS = {
    "loss": "the loss",
    "gradient": "the norm of the gradient",
    "force": "the norm of the force",
    "speed": "the speed of the embedding",
}
"""What is looked at, in words."""

LAYER_HEADER = ("layer", "speed x, first drop", "speed x, second drop", "gradient peak, first", "gradient peak, second")


@dataclasses.dataclass(frozen=True)
class Options(TrajectoryOptions):
    """Find plateaus, drops and spikes in every run of a trajectory; say when runs escape from their first level, with
    those that never do as censored, when the loss drops, and how fast each layer moves then (VC section 4.1, A.1)."""

    others: tyro.conf.Positional[tuple[Path, ...]] = ()
    """Further trajectories, whose times of escape are compared with the first one's by the log-rank test."""
    of: Literal["loss", "gradient", "force", "speed"] | None = None
    """The scalar: a loss; the norm of the gradient, or of the force on particles; the speed of the embedding. None is
    the loss, or where there is none the force."""
    split: str | None = None
    """Split of the loss. None is the one that is trained on."""
    escape_share: float | None = None
    """A run has escaped when it has lost this share of its first level, and not for a moment. None is 0.1 for a loss,
    0.5 for a force; a gradient and a speed escape when they have gained as much as the first level."""
    rule: DetectionConfig = dataclasses.field(default_factory=DetectionConfig)


# ------------------------------------------------------------------------------------------------ analysis


def analyse_events(options: Options, trajectory: "xr.Dataset") -> "xr.Dataset":
    """Events, phases and escapes of a trajectory as one dataset. Raises SettingsError, TrajectoryError."""
    from analysis.statistics.success import success_mask
    from analysis.structures.embedding_motion import time_unit
    from analysis.transitions.loss_events import (
        ESCAPE_CRITERIA,
        default_scalar_name,
        event_table,
        first_two_drops,
        layer_motion_at_drops,
        plateau_escape_times,
        trajectory_scalar,
    )
    from dynamics.trajectory.diverged import not_diverged

    name = options.of or default_scalar_name(trajectory)
    if options.split is not None and name != "loss":
        raise SettingsError("split", options.split, f"no value here: a {name} has no splits")
    share = options.escape_share
    if share is not None:
        share = check_real("escape_share", share, positive=True, up_to=1e6 if ESCAPE_CRITERIA[name].rising else 1)
    values = trajectory_scalar(trajectory, name, options.split)
    found = event_table(values, options.rule)
    drops = first_two_drops(found, trajectory.sizes["run"])
    renamed = found.rename({name: f"event_{name}" for name in found.data_vars})
    layers = layer_motion_at_drops(trajectory, drops, options.rule)
    result = renamed.merge(drops).merge(plateau_escape_times(values, share, options.rule)).merge(layers)
    result["seed"] = trajectory["seed"].drop_vars([name for name in trajectory["seed"].coords if name != "seed"])
    result["successful"] = ("run", success_mask(trajectory), {"long_name": "whether it ends above .98 test accuracy"})
    alive = not_diverged(trajectory)
    result["alive"] = ("run", alive, {"long_name": "whether it has not diverged"})
    word, unit = time_unit(trajectory)
    return result.assign_attrs(scalar=name, unit_of_time=word, unit=unit, **dataclasses.asdict(options.rule))


# ------------------------------------------------------------------------------------------------ the table


def _run_row(result: "xr.Dataset", run: int, epoch_steps: float) -> "TableRow":
    """A run: when it escaped, its drops, and how many spikes and rises it has."""
    from analysis.output.tables import TableRow, format_number

    one = result.isel(run=run)
    escape, escaped = float(one["escape"]) / epoch_steps, bool(one["escaped"])
    text = [str(int(one["seed"])), f"{'' if escaped else '> '}{escape:.1f}"]
    for value in (*one["middle"].values, float(one["between"])):
        text.append("-" if value != value else f"{value / epoch_steps:.1f}")
    text += [str(int(one[name])) for name in ("spikes", "rises")]
    moments = [float(one[name].values[drop]) for drop in (0, 1) for name in ("begin", "middle", "end")]
    numbers = [str(int(one["seed"])), format_number(escape), str(int(escaped)), str(int(one["successful"]))]
    numbers += [format_number(value / epoch_steps) for value in (*moments, float(one["between"]))]
    return TableRow(text, numbers + [str(int(one[name])) for name in ("drops", "spikes", "rises")])


def _layer_table(result: "xr.Dataset", runs: "np.ndarray", epoch_steps: float) -> str:
    """How fast layers move at the drops of some runs, and when their gradient norms peak: medians over these runs."""
    import numpy as np

    from analysis.output.tables import TextTable, format_interval
    from analysis.statistics.intervals import median_interval

    rows = []
    for layer in result["layer"].values:
        cells = [str(layer)]
        for name, unit, digits in (("speed", 1.0, 1), ("lag", epoch_steps, 1)):
            for phase in result["phase"].values:
                values = result[name].sel(layer=layer, phase=phase).values[runs] / unit
                cells.append(format_interval(median_interval(values[np.isfinite(values)]), digits))
        rows.append(cells)
    return TextTable(LAYER_HEADER, rows).text()


def _ensemble_summary(result: "xr.Dataset", word: str) -> str:
    """What the ensemble does, in sentences."""
    from analysis.statistics.survival import kaplan_meier

    unit, escaped = result.attrs["unit"], result["escaped"].values
    found = kaplan_meier(result["escape"].values / unit, escaped)
    ended, looked_at = int((~result["alive"].values).sum()), SCALAR_DESCRIPTIONS[result.attrs["scalar"]]
    lines = [
        f"{escaped.sum()} of {len(escaped)} runs left the first level of {looked_at}; half of all by {word} "
        f"{_format_median_escape(found)} (Kaplan-Meier, 95%)"
        + (f"; {ended} diverged and are watched until then" if ended else ""),
        f"{int(result['spikes'].sum())} spikes in {int((result['spikes'] > 0).sum())} runs; "
        f"{int(result['rises'].sum())} lasting rises",
        f"of {_describe_reported_runs(result)}, {_describe_two_drops(result, result, word)}",
    ]
    return "\n".join(lines)


def reported_runs(result: "xr.Dataset") -> "np.ndarray":
    """The runs of which drops are told: those above .98, or all where none is, (run,) bool."""
    import numpy as np

    successful = result["successful"].values
    return successful if successful.any() else np.ones(len(successful), bool)


def _describe_reported_runs(result: "xr.Dataset") -> str:
    """These runs in words."""
    count = int(reported_runs(result).sum())
    return f"the {count} runs above {SUCCESS_ACCURACY:g}" if result["successful"].any() else f"all {count} runs"


def _describe_two_drops(phases: "xr.Dataset", result: "xr.Dataset", word: str) -> str:
    """How many of the chosen runs of a result have two drops, by `phases` of them, and what lies between."""
    import numpy as np

    from analysis.output.tables import format_interval
    from analysis.statistics.intervals import median_interval

    drops, between = phases["drops"].values[reported_runs(result)], phases["between"].values[reported_runs(result)]
    gap = format_interval(median_interval(between[np.isfinite(between)] / result.attrs["unit"]))
    return (
        f"{(drops >= 2).sum()} have two drops or more, with {gap} {word}s between (median, 95%); "
        f"{(drops == 1).sum()} have one, {(drops == 0).sum()} none"
    )


def _window_sensitivity(options: Options, trajectory: "xr.Dataset", result: "xr.Dataset", word: str) -> str:
    """The same of drops through windows half and twice as long."""
    from analysis.transitions.loss_events import event_table, first_two_drops, trajectory_scalar

    values = trajectory_scalar(trajectory, result.attrs["scalar"], options.split)
    lines = []
    for factor in (0.5, 2.0):
        window = min(0.5, factor * options.rule.window)
        found = event_table(values, dataclasses.replace(options.rule, window=window))
        lines.append(
            f"with --window {window:g}: {_describe_two_drops(first_two_drops(found, len(values)), result, word)}"
        )
    return "\n".join(lines)


def _escape_comparison(results: "list[xr.Dataset]", names: list[str], word: str) -> str:
    """Median escape times of several trajectories, and how they differ from the first, by the log-rank test."""
    from analysis.output.tables import TextTable
    from analysis.statistics.survival import kaplan_meier, logrank_p_value

    samples = [(each["escape"].values / each.attrs["unit"], each["escaped"].values) for each in results]
    rows = []
    for name, sample in zip(names, samples, strict=True):
        found, p = kaplan_meier(*sample), logrank_p_value(samples[0], sample)
        shown = "-" if sample is samples[0] or p != p else f"{p:.2g}"
        rows.append([name, str(found.runs), str(found.events), _format_median_escape(found), shown])
    return TextTable(("trajectory", "runs", "escaped", f"median escape, {word}", "log-rank p"), rows).text()


def _format_median_escape(found: "SurvivalCurve") -> str:
    """By when half of the runs have escaped, with its interval; a bound that was not seen is left open."""
    value, low, high = (f"{each:.0f}" if each < float("inf") else "" for each in found.median)
    if not value:
        return f"after {found.time[-1]:.0f}"
    return f"{value} [{low}, {high or f'after {found.time[-1]:.0f}'}]"


# ---------------------------------------------------------------------------------------------- the command


def main(options: Options) -> None:
    """Analyse; print the tables, write the result, draw the picture."""
    import numpy as np

    from analysis.output import tables
    from analysis.plots.events_figure import plot_events
    from analysis.transitions.loss_events import trajectory_scalar
    from dynamics.trajectory.reader import open_trajectory

    trajectory, out = open_input(options, "events")
    result = analyse_events(options, trajectory)
    others = [open_trajectory(path) for path in options.others]
    further = [analyse_events(dataclasses.replace(options, of=result.attrs["scalar"]), each) for each in others]
    word, unit = result.attrs["unit_of_time"], result.attrs["unit"]
    for path, each in zip(options.others, further, strict=True):
        if each.attrs["unit_of_time"] != word:
            found = f"{path}, whose time is counted in {each.attrs['unit_of_time']}s"
            raise SettingsError("others", found, f"trajectories whose time is counted in {word}s")
    values = trajectory_scalar(trajectory, result.attrs["scalar"], options.split)
    names = [path.stem for path in (options.trajectory, *options.others)]
    picture = plot_events(values, [result, *further], names, reported_runs(result), word)
    write_result_and_picture(options, "events", TITLE, result, picture, out)
    print("\n" + _ensemble_summary(result, word), file=options.say)
    print(_window_sensitivity(options, trajectory, result, word), file=options.say)
    print(f"\nlayers of {_describe_reported_runs(result)}: medians with 95% intervals; speed in a drop over "
            "that before, and when the "
          f"gradient norm\npeaks, {word}s after the drop's middle\n" + _layer_table(result, reported_runs(result),
              unit),
          file=options.say)  # fmt: skip
    if further:
        print("\n" + _escape_comparison([result, *further], names, word), file=options.say)
    shown = set(np.flatnonzero(reported_runs(result))[:PRINTED_RUNS].tolist())
    rows = [_run_row(result, run, unit) for run in range(result.sizes["run"])]
    rows = [each if run in shown else each._replace(text=[]) for run, each in enumerate(rows)]
    tables.print_rows(HEADER, COLUMNS, rows, options.csv)


if __name__ == "__main__":
    run_command(main, Options, "analysis.events")
