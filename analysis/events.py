"""Plateaus, drops and spikes of the loss, or of another scalar of a trajectory;
two-phase learning; escape times.

python -m analysis.events RUN.nc
python -m analysis.events RUN.nc OTHER.nc
python -m analysis.events "seeds/*.nc"
python -m analysis.events PARTICLES.nc --of speed
"""

from __future__ import annotations

import dataclasses
import math
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal

import tyro

import dynamics
from analysis import plots, transitions
from analysis.command_line.parsing import run_command
from analysis.command_line.reading import (
    TrajectoryOptions,
    open_input,
    write_result_and_picture,
)
from analysis.output.tables import Column, format_interval, format_table, output_table
from analysis.transitions.detection import DetectionConfig

if TYPE_CHECKING:
    import pandas as pd
    import xarray as xr

TITLE = "Plateaus, drops and spikes"

PRINTED_RUNS = 40
"""Runs in the table on the terminal; the CSV has all."""

SCALAR_DESCRIPTIONS = {
    "loss": "the loss",
    "gradient": "the norm of the gradient",
    "force": "the norm of the force",
    "speed": "the speed of the embedding",
}

RUN_COLUMNS = (
    Column("seed", "seed"),
    Column(
        "escape",
        text=lambda row: f"{'' if row['escaped'] else '> '}{row['escape']:.1f}",
    ),
    Column("first drop", "first_middle", digits=1),
    Column("second drop", "second_middle", digits=1),
    Column("between", "between", digits=1),
    Column("spikes", "spikes"),
    Column("rises", "rises"),
)

LAYER_COLUMNS = (
    Column("layer", "layer"),
    Column("speed ratio, first", "speed_first", digits=1, interval="bounds"),
    Column("speed ratio, second", "speed_second", digits=1, interval="bounds"),
    Column("gradient lag, first", "lag_first", digits=1, interval="bounds"),
    Column("gradient lag, second", "lag_second", digits=1, interval="bounds"),
)

LAYER_LEGEND = """
layers, {runs}: medians with 95% intervals
speed ratio: speed of the weights during the drop divided by the speed before it
gradient lag: time in {unit}s from the middle of the drop to the peak of the gradient norm
"""


@dataclasses.dataclass(frozen=True)
class Options(TrajectoryOptions):
    """Detect plateaus, drops and spikes in every run of a trajectory. Also compute the
    time at which each run escapes from its first level (runs that do not escape are
    censored), and the speed of each layer during the drops of the loss (VC section 4.1
    and appendix A.1)."""

    others: tyro.conf.Positional[tuple[Path, ...]] = ()
    """Further trajectories whose escape times are compared with those of the first by
    the log-rank test."""
    of: Literal["loss", "gradient", "force", "speed"] | None = None
    """Scalar to analyse: a loss, the norm of the gradient, the norm of the force on
    particles, or the speed of the embedding. Default: the loss; of a system without a
    loss the force; without norms the speed."""
    split: str | None = None
    """Split of the loss. Default: the training split."""
    escape_share: float | None = None
    """Change, as a fraction of the first level, that counts as an escape. Default: 0.1
    (decrease) for a loss, 0.5 (decrease) for a force, 1 (increase) for a gradient or a
    speed."""
    detection: DetectionConfig = dataclasses.field(default_factory=DetectionConfig)


def main(options: Options) -> None:
    """Analyse the trajectories; print the tables, write the result, draw the figure."""
    trajectory, out = open_input(options, "events")
    choice: dict[str, Any] = {
        "split": options.split,
        "escape_fraction": options.escape_share,
    }
    choice["config"] = options.detection
    result = transitions.analyse_events(trajectory, options.of, **choice)
    name, unit = result.attrs["scalar"], result.attrs["unit_of_time"]
    results = [result]
    results += [
        transitions.analyse_events(dynamics.open_trajectory(path), name, **choice)
        for path in options.others
    ]
    names = [path.stem for path in (options.trajectory, *options.others)]
    comparison = transitions.escape_comparison(results, names)
    values = transitions.trajectory_scalar(trajectory, name, options.split)
    write_result_and_picture(
        options,
        "events",
        TITLE,
        result,
        plots.plot_events(values, results, names, unit),
        out,
    )
    if values.sizes["step"] < transitions.MIN_FRAMES:
        few = f"only {values.sizes['step']} frames: events and escapes are uncertain"
        print(
            f"\n{few} with fewer than {transitions.MIN_FRAMES}; record more often",
            file=options.log,
        )
    print(
        "\n" + _describe_ensemble(result, comparison.iloc[0], options.escape_share),
        file=options.log,
    )
    for window, drops in transitions.two_drops_by_window(
        values, options.detection
    ).items():
        print(
            f"with --window {window:g}: {_describe_two_drops(drops, result)}",
            file=options.log,
        )
    if result.sizes["layer"]:
        print(
            LAYER_LEGEND.format(
                runs=transitions.describe_reported_runs(result), unit=unit
            ),
            file=options.log,
            end="",
        )
        print(
            format_table(transitions.layer_motion_table(result), LAYER_COLUMNS),
            file=options.log,
        )
    if options.others:
        print(
            "\n" + format_table(comparison, _comparison_columns(unit)), file=options.log
        )
    reported = transitions.reported_runs(result)
    printed = reported & (reported.cumsum() <= PRINTED_RUNS)
    print(f"\ntable: {transitions.describe_reported_runs(result)}", file=options.log)
    output_table(transitions.run_event_table(result), RUN_COLUMNS, options.csv, printed)


def _describe_ensemble(
    result: xr.Dataset, escapes: pd.Series, escape_share: float | None
) -> str:
    diverged, unit = int((~result["alive"].values).sum()), result.attrs["unit_of_time"]
    censored = (
        f"; {diverged} diverged and are censored from then on" if diverged else ""
    )
    criterion = transitions.ESCAPE_CRITERIA[result.attrs["scalar"]]
    change = (
        f"{'rise' if criterion.rising else 'fall'} by"
        f" {escape_share or criterion.share:.0%}"
    )
    return (
        f"{escapes['escaped']} of {escapes['runs']} runs left the first level of"
        f" {SCALAR_DESCRIPTIONS[result.attrs['scalar']]} ({change} or more); half of"
        f" all by {unit} {_format_median_escape(escapes)} (Kaplan-Meier,"
        f" 95%){censored}\n{int(result['spikes'].sum())} spikes in"
        f" {int((result['spikes'] > 0).sum())} runs; {int(result['rises'].sum())}"
        f" lasting rises\n{transitions.describe_reported_runs(result)}:"
        f" {_describe_two_drops(result, result)}"
    )


def _describe_two_drops(drops: xr.Dataset, result: xr.Dataset) -> str:
    two_drops = transitions.count_two_drops(drops, result)
    return (
        f"{two_drops.two} have two drops or more, with {format_interval(two_drops.between)}"
        f" {result.attrs['unit_of_time']}s between (median, 95%); {two_drops.one} have one,"
        f" {two_drops.none} none"
    )


def _format_median_escape(escapes: pd.Series) -> str:
    """The median with its interval; a value or bound that was not reached is open."""
    value, low, high = (escapes[f"median{end}"] for end in ("", "_low", "_high"))
    after = f"after {escapes['observed_until']:.0f}"
    if math.isinf(value):
        return after
    return f"{value:.0f}" + (
        ""
        if math.isnan(low)
        else f" [{low:.0f}, {after if math.isinf(high) else f'{high:.0f}'}]"
    )


def _comparison_columns(unit: str) -> list[Column]:
    return [
        Column("trajectory", "trajectory"),
        Column("runs", "runs"),
        Column("escaped", "escaped"),
        Column(f"median escape, {unit}", text=_format_median_escape),
        Column(
            "log-rank p", "p_value", text=lambda p: "-" if math.isnan(p) else f"{p:.2g}"
        ),
    ]


if __name__ == "__main__":
    run_command(main, Options, "analysis.events")
