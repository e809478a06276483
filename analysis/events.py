"""Plateaus, drops and spikes of a loss, or of any scalar of a trajectory; two-phase learning; times of escape.

python -m analysis.events RUN.nc
python -m analysis.events RUN.nc OTHER.nc
python -m analysis.events PARTICLES.nc --of speed
"""

import dataclasses
from pathlib import Path
from typing import TYPE_CHECKING, Literal

import tyro

from analysis.command import command
from analysis.reading import Reading, finish, opened
from analysis.rule import Rule
from dynamics.settings import SUCCESS

if TYPE_CHECKING:
    import numpy as np
    import xarray as xr

    from analysis.tables import Row

TITLE = "Plateaus, drops and spikes"

SHOWN = 40
"""Runs that the table of the terminal has; the CSV has all."""

HEADER = ("seed", "escape", "first drop", "second drop", "between", "spikes", "rises")

COLUMNS = (
    "seed", "escape", "escaped", "successful",
    *(f"{drop}_{name}" for drop in ("first", "second") for name in ("begin", "middle", "end")),
    "between", "drops", "spikes", "rises",
)  # fmt: skip

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
    """A run has escaped when it has lost this share of its first level for good. None is 0.1 for a loss, 0.5 for a
    force; a gradient and a speed escape when they have gained as much as the first level."""
    rule: Rule = dataclasses.field(default_factory=Rule)


# ------------------------------------------------------------------------------------------------ analysis


def analysed(options: Options, trajectory: "xr.Dataset") -> "xr.Dataset":
    """Events, phases and escapes of a trajectory as one dataset. Raises SettingsError, TrajectoryError."""
    from analysis.drops import at_drops, default_scalar, escapes, events, phases, scalar
    from dynamics.settings import check_real

    share = options.escape_share
    share = None if share is None else check_real("escape_share", share, positive=True, up_to=1e6)
    values = scalar(trajectory, options.of or default_scalar(trajectory), options.split)
    found = events(values, options.rule)
    drops = phases(found, trajectory.sizes["run"])
    renamed = found.rename({name: f"event_{name}" for name in found.data_vars})
    layers = at_drops(trajectory, drops, options.rule)
    result = renamed.merge(drops).merge(escapes(values, share, options.rule)).merge(layers)
    result["seed"] = trajectory["seed"].drop_vars([name for name in trajectory["seed"].coords if name != "seed"])
    result["successful"] = ("run", succeeded(trajectory), {"long_name": "whether it ends above .98 test accuracy"})
    return result.assign_attrs(scalar=str(values.name), **dataclasses.asdict(options.rule))


def succeeded(trajectory: "xr.Dataset") -> "np.ndarray":
    """Which runs end above .98 test (or validation) accuracy, (run,); none where there is no accuracy."""
    import numpy as np

    if "accuracy" not in trajectory:
        return np.zeros(trajectory.sizes["run"], bool)
    split = "test" if "test" in trajectory["split"].values else trajectory["split"].values[-1]
    last = trajectory.isel(step=-1)
    return ((last["accuracy"].sel(split=split) > SUCCESS) & (last["last_step"] >= last["step"])).values


# ------------------------------------------------------------------------------------------------ the table


def row(result: "xr.Dataset", run: int, epoch_steps: float) -> "Row":
    """A run: when it escaped, its drops, and how many spikes and rises it has."""
    from analysis.tables import Row, number

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

    from analysis.intervals import median_interval
    from analysis.tables import Table, bracketed

    rows = []
    for layer in result["layer"].values:
        cells = [str(layer)]
        for name, unit, digits in (("speed", 1.0, 1), ("lag", epoch_steps, 1)):
            for phase in result["phase"].values:
                values = result[name].sel(layer=layer, phase=phase).values[runs] / unit
                cells.append(bracketed(median_interval(values[np.isfinite(values)]), digits))
        rows.append(cells)
    return Table(LAYER_HEADER, rows).text()


def summary(result: "xr.Dataset", epoch_steps: float, word: str) -> str:
    """What the ensemble does, in sentences."""
    import numpy as np

    from analysis.intervals import median_interval
    from analysis.survival import survival
    from analysis.tables import bracketed

    escaped, drops = result["escaped"].values, result["drops"].values
    waiting = survival(result["escape"].values / epoch_steps, escaped)
    spikes = int(result["spikes"].sum())
    lines = [
        f"{escaped.sum()} of {len(escaped)} runs left their first level, half of all by {word} "
        f"{bracketed(waiting.median)} (Kaplan-Meier, 95%)",
        f"{spikes} spikes in {int((result['spikes'] > 0).sum())} runs; {int(result['rises'].sum())} lasting rises",
    ]
    chosen = result["successful"].values if result["successful"].any() else np.ones(len(drops), bool)
    which = f"the {chosen.sum()} runs above {SUCCESS:g}" if result["successful"].any() else f"all {len(drops)} runs"
    two = int((drops[chosen] >= 2).sum())
    between = result["between"].values[chosen] / epoch_steps
    gap = bracketed(median_interval(between[np.isfinite(between)]))
    lines.append(
        f"of {which}, {two} have two drops or more, with {gap} {word}s between (median, 95%); "
        f"{int((drops[chosen] == 1).sum())} have one, {int((drops[chosen] == 0).sum())} none"
    )
    return "\n".join(lines)


def compared(results: "list[xr.Dataset]", names: list[str], epoch_steps: float, word: str) -> str:
    """Median escape times of several trajectories, and how they differ from the first, by the log-rank test."""
    from analysis.survival import logrank, survival
    from analysis.tables import Table, bracketed

    samples = [(each["escape"].values / epoch_steps, each["escaped"].values) for each in results]
    rows = []
    for name, sample in zip(names, samples, strict=True):
        found, p = survival(*sample), logrank(samples[0], sample)
        shown = "-" if sample is samples[0] or p != p else f"{p:.2g}"
        rows.append([name, str(found.runs), str(found.events), bracketed(found.median), shown])
    return Table(("trajectory", "runs", "escaped", f"median escape, {word}", "log-rank p"), rows).text()


# ---------------------------------------------------------------------------------------------- the command


def main(options: Options) -> None:
    """Analyse; print the tables, write the result, draw the picture."""
    import numpy as np

    from analysis import tables
    from analysis.drops import scalar
    from analysis.events_figure import events_figure
    from analysis.progress import unit_of_time
    from dynamics.trajectory import open_trajectory

    trajectory, out = opened(options, "events")
    result = analysed(options, trajectory)
    others = {path: open_trajectory(path) for path in options.others}
    further = [analysed(dataclasses.replace(options, of=result.attrs["scalar"]), each) for each in others.values()]
    word, epoch_steps = unit_of_time(trajectory)
    values = scalar(trajectory, result.attrs["scalar"], options.split)
    names = [path.stem for path in (options.trajectory, *options.others)]
    picture = events_figure(values, [result, *further], names, epoch_steps, word)
    finish(options, "events", TITLE, result, picture, out)
    print("\n" + summary(result, epoch_steps, word), file=options.say)
    chosen = result["successful"].values if result["successful"].any() else np.ones(result.sizes["run"], bool)
    print(f"\nmedians over runs with 95% intervals; times in {word}s\n" + layer_table(result, chosen, epoch_steps),
          file=options.say)  # fmt: skip
    if further:
        print("\n" + compared([result, *further], names, epoch_steps, word), file=options.say)
    shown = set(np.flatnonzero(chosen)[:SHOWN].tolist())
    rows = [row(result, run, epoch_steps) for run in range(len(chosen))]
    rows = [each if run in shown else each._replace(text=[]) for run, each in enumerate(rows)]
    tables.show(HEADER, COLUMNS, rows, options.csv)


if __name__ == "__main__":
    command(main, Options, "analysis.events")
