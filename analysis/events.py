"""Plateaus, drops and spikes of a loss, or of any scalar of a trajectory; two-phase learning; times of escape.

python -m analysis.events RUN.nc
python -m analysis.events RUN.nc OTHER.nc
python -m analysis.events PARTICLES.nc --of speed
"""

import dataclasses
from pathlib import Path
from typing import TYPE_CHECKING, Literal

import tyro

from analysis.command_line.parsing import command
from analysis.command_line.reading import Reading, finish, opened
from analysis.transitions.detection import Rule
from dynamics.settings import SUCCESS, SettingsError, check_real

if TYPE_CHECKING:
    import numpy as np
    import xarray as xr

    from analysis.output.tables import Row
    from analysis.statistics.survival import Survival

TITLE = "Plateaus, drops and spikes"

SHOWN = 40
"""Runs that the table of the terminal has; the CSV has all."""

HEADER = ("seed", "escape", "first drop", "second drop", "between", "spikes", "rises")

COLUMNS = (
    "seed", "escape", "escaped", "successful",
    *(f"{drop}_{name}" for drop in ("first", "second") for name in ("begin", "middle", "end")),
    "between", "drops", "spikes", "rises",
)  # fmt: skip

SCALARS = {
    "loss": "the loss",
    "gradient": "the norm of the gradient",
    "force": "the norm of the force",
    "speed": "the speed of the embedding",
}
"""What is looked at, in words."""

LAYER_HEADER = ("layer", "speed x, first drop", "speed x, second drop", "gradient peak, first", "gradient peak, second")


@dataclasses.dataclass(frozen=True)
class Options(Reading):
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
    rule: Rule = dataclasses.field(default_factory=Rule)


# ------------------------------------------------------------------------------------------------ analysis


def analysed(options: Options, trajectory: "xr.Dataset") -> "xr.Dataset":
    """Events, phases and escapes of a trajectory as one dataset. Raises SettingsError, TrajectoryError."""
    from analysis.statistics.success import succeeded
    from analysis.structures.embedding_motion import unit_of_time
    from analysis.transitions.loss_events import ESCAPES, at_drops, default_scalar, escapes, events, phases, scalar

    name = options.of or default_scalar(trajectory)
    if options.split is not None and name != "loss":
        raise SettingsError("split", options.split, f"no value here: a {name} has no splits")
    share = options.escape_share
    if share is not None:
        share = check_real("escape_share", share, positive=True, up_to=1e6 if ESCAPES[name].rising else 1)
    values = scalar(trajectory, name, options.split)
    found = events(values, options.rule)
    drops = phases(found, trajectory.sizes["run"])
    renamed = found.rename({name: f"event_{name}" for name in found.data_vars})
    layers = at_drops(trajectory, drops, options.rule)
    result = renamed.merge(drops).merge(escapes(values, share, options.rule)).merge(layers)
    result["seed"] = trajectory["seed"].drop_vars([name for name in trajectory["seed"].coords if name != "seed"])
    result["successful"] = ("run", succeeded(trajectory), {"long_name": "whether it ends above .98 test accuracy"})
    alive = (trajectory["last_step"] >= trajectory["step"][-1]).values
    result["alive"] = ("run", alive, {"long_name": "whether it has not diverged"})
    word, unit = unit_of_time(trajectory)
    return result.assign_attrs(scalar=name, unit_of_time=word, unit=unit, **dataclasses.asdict(options.rule))


# ------------------------------------------------------------------------------------------------ the table


def row(result: "xr.Dataset", run: int, epoch_steps: float) -> "Row":
    """A run: when it escaped, its drops, and how many spikes and rises it has."""
    from analysis.output.tables import Row, number

    one = result.isel(run=run)
    escape, escaped = float(one["escape"]) / epoch_steps, bool(one["escaped"])
    text = [str(int(one["seed"])), f"{'' if escaped else '> '}{escape:.1f}"]
    for value in (*one["middle"].values, float(one["between"])):
        text.append("-" if value != value else f"{value / epoch_steps:.1f}")
    text += [str(int(one[name])) for name in ("spikes", "rises")]
    moments = [float(one[name].values[drop]) for drop in (0, 1) for name in ("begin", "middle", "end")]
    numbers = [str(int(one["seed"])), number(escape), str(int(escaped)), str(int(one["successful"]))]
    numbers += [number(value / epoch_steps) for value in (*moments, float(one["between"]))]
    return Row(text, numbers + [str(int(one[name])) for name in ("drops", "spikes", "rises")])


def layer_table(result: "xr.Dataset", runs: "np.ndarray", epoch_steps: float) -> str:
    """How fast layers move at the drops of some runs, and when their gradient norms peak: medians over these runs."""
    import numpy as np

    from analysis.output.tables import Table, bracketed
    from analysis.statistics.intervals import median_interval

    rows = []
    for layer in result["layer"].values:
        cells = [str(layer)]
        for name, unit, digits in (("speed", 1.0, 1), ("lag", epoch_steps, 1)):
            for phase in result["phase"].values:
                values = result[name].sel(layer=layer, phase=phase).values[runs] / unit
                cells.append(bracketed(median_interval(values[np.isfinite(values)]), digits))
        rows.append(cells)
    return Table(LAYER_HEADER, rows).text()


def summary(result: "xr.Dataset", word: str) -> str:
    """What the ensemble does, in sentences."""
    from analysis.statistics.survival import survival

    unit, escaped = result.attrs["unit"], result["escaped"].values
    found = survival(result["escape"].values / unit, escaped)
    ended, looked_at = int((~result["alive"].values).sum()), SCALARS[result.attrs["scalar"]]
    lines = [
        f"{escaped.sum()} of {len(escaped)} runs left the first level of {looked_at}; half of all by {word} "
        f"{waiting(found)} (Kaplan-Meier, 95%)" + (f"; {ended} diverged and are watched until then" if ended else ""),
        f"{int(result['spikes'].sum())} spikes in {int((result['spikes'] > 0).sum())} runs; "
        f"{int(result['rises'].sum())} lasting rises",
        f"of {which(result)}, {two_drops(result, result, word)}",
    ]
    return "\n".join(lines)


def chosen(result: "xr.Dataset") -> "np.ndarray":
    """The runs of which drops are told: those above .98, or all where none is, (run,) bool."""
    import numpy as np

    successful = result["successful"].values
    return successful if successful.any() else np.ones(len(successful), bool)


def which(result: "xr.Dataset") -> str:
    """These runs in words."""
    count = int(chosen(result).sum())
    return f"the {count} runs above {SUCCESS:g}" if result["successful"].any() else f"all {count} runs"


def two_drops(phases: "xr.Dataset", result: "xr.Dataset", word: str) -> str:
    """How many of the chosen runs of a result have two drops, by `phases` of them, and what lies between."""
    import numpy as np

    from analysis.output.tables import bracketed
    from analysis.statistics.intervals import median_interval

    drops, between = phases["drops"].values[chosen(result)], phases["between"].values[chosen(result)]
    gap = bracketed(median_interval(between[np.isfinite(between)] / result.attrs["unit"]))
    return (
        f"{(drops >= 2).sum()} have two drops or more, with {gap} {word}s between (median, 95%); "
        f"{(drops == 1).sum()} have one, {(drops == 0).sum()} none"
    )


def sensitivity(options: Options, trajectory: "xr.Dataset", result: "xr.Dataset", word: str) -> str:
    """The same of drops through windows half and twice as long."""
    from analysis.transitions.loss_events import events, phases, scalar

    values = scalar(trajectory, result.attrs["scalar"], options.split)
    lines = []
    for factor in (0.5, 2.0):
        window = min(0.5, factor * options.rule.window)
        found = events(values, dataclasses.replace(options.rule, window=window))
        lines.append(f"with --window {window:g}: {two_drops(phases(found, len(values)), result, word)}")
    return "\n".join(lines)


def compared(results: "list[xr.Dataset]", names: list[str], word: str) -> str:
    """Median escape times of several trajectories, and how they differ from the first, by the log-rank test."""
    from analysis.output.tables import Table
    from analysis.statistics.survival import logrank, survival

    samples = [(each["escape"].values / each.attrs["unit"], each["escaped"].values) for each in results]
    rows = []
    for name, sample in zip(names, samples, strict=True):
        found, p = survival(*sample), logrank(samples[0], sample)
        shown = "-" if sample is samples[0] or p != p else f"{p:.2g}"
        rows.append([name, str(found.runs), str(found.events), waiting(found), shown])
    return Table(("trajectory", "runs", "escaped", f"median escape, {word}", "log-rank p"), rows).text()


def waiting(found: "Survival") -> str:
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
    from analysis.plots.events_figure import events_figure
    from analysis.transitions.loss_events import scalar
    from dynamics.trajectory.reader import open_trajectory

    trajectory, out = opened(options, "events")
    result = analysed(options, trajectory)
    others = [open_trajectory(path) for path in options.others]
    further = [analysed(dataclasses.replace(options, of=result.attrs["scalar"]), each) for each in others]
    word, unit = result.attrs["unit_of_time"], result.attrs["unit"]
    for path, each in zip(options.others, further, strict=True):
        if each.attrs["unit_of_time"] != word:
            found = f"{path}, whose time is counted in {each.attrs['unit_of_time']}s"
            raise SettingsError("others", found, f"trajectories whose time is counted in {word}s")
    values = scalar(trajectory, result.attrs["scalar"], options.split)
    names = [path.stem for path in (options.trajectory, *options.others)]
    picture = events_figure(values, [result, *further], names, chosen(result), word)
    finish(options, "events", TITLE, result, picture, out)
    print("\n" + summary(result, word), file=options.say)
    print(sensitivity(options, trajectory, result, word), file=options.say)
    print(f"\nlayers of {which(result)}: medians with 95% intervals; speed in a drop over that before, and when the "
          f"gradient norm\npeaks, {word}s after the drop's middle\n" + layer_table(result, chosen(result), unit),
          file=options.say)  # fmt: skip
    if further:
        print("\n" + compared([result, *further], names, word), file=options.say)
    shown = set(np.flatnonzero(chosen(result))[:SHOWN].tolist())
    rows = [row(result, run, unit) for run in range(result.sizes["run"])]
    rows = [each if run in shown else each._replace(text=[]) for run, each in enumerate(rows)]
    tables.show(HEADER, COLUMNS, rows, options.csv)


if __name__ == "__main__":
    command(main, Options, "analysis.events")
