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
from typing import TYPE_CHECKING, Literal

import tyro

from analysis import plots, transitions
from analysis.command_line.record import (
    PRINTED_ROWS,
    Analysis,
    MeasuredTrajectory,
    Report,
    TrajectoryOptions,
)
from analysis.output.tables import Column, format_interval, format_table
from analysis.transitions.detection import DetectionConfig
from dynamics.trajectory.selection import Selection

if TYPE_CHECKING:
    import pandas as pd
    import xarray as xr

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
    Column("all drops", "all_drops"),
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
gradient lag: time in {unit}s from the middle of the drop to the peak of the gradient \
norm"""


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
    selection: Selection = Selection()
    detection: DetectionConfig = dataclasses.field(default_factory=DetectionConfig)


def measure(
    trajectory: xr.Dataset,
    selection: Selection,
    of: Literal["loss", "gradient", "force", "speed"] | None,
    split: str | None,
    escape_share: float | None,
    detection: DetectionConfig,
    first: xr.Dataset | None,
) -> xr.Dataset:
    if first is not None:
        detection = dataclasses.replace(detection, level=first.attrs["level"])
    return transitions.analyse_events(
        selection.apply(trajectory),
        of if first is None else first.attrs["scalar"],
        split=split,
        escape_fraction=escape_share,
        config=detection,
    )


def events_report(measured: MeasuredTrajectory) -> Report:
    """The ensemble, drops in other windows, motion of the layers, the escape times of
    all trajectories, and the table of runs."""
    result, options = measured.result, measured.options
    scalar, unit = result.attrs["scalar"], result.attrs["unit_of_time"]
    values = transitions.trajectory_scalar(measured.selected, scalar, options.split)
    results = [item.result for item in measured.together]
    names = [item.path.stem for item in measured.together]
    comparison = transitions.escape_comparison(results, names)
    lines = []
    if values.sizes["step"] < transitions.MIN_FRAMES:
        lines.append(
            f"\nonly {values.sizes['step']} frames: events and escapes are uncertain"
            f" with fewer than {transitions.MIN_FRAMES}; record more often"
        )
    ensemble = _describe_ensemble(result, comparison.iloc[0], options.escape_share)
    lines.append("\n" + ensemble)
    windows = transitions.two_drops_by_window(values, options.detection)
    for window, drops in windows.items():
        lines.append(f"with --window {window:g}: {_describe_two_drops(drops, result)}")
    runs = transitions.describe_reported_runs(result)
    if result.sizes["layer"]:
        layers = transitions.layer_motion_table(result)
        lines.append(LAYER_LEGEND.format(runs=runs, unit=unit))
        lines.append(format_table(layers, LAYER_COLUMNS))
    if options.others:
        columns = [
            Column("trajectory", "trajectory"),
            Column("runs", "runs"),
            Column("escaped", "escaped"),
            Column(f"median escape, {unit}", text=_format_median_escape),
            Column(
                "log-rank p",
                "p_value",
                text=lambda p: "-" if math.isnan(p) else f"{p:.2g}",
            ),
        ]
        lines.append("\n" + format_table(comparison, columns))
    lines.append(f"\ntable: {runs}")
    reported = transitions.reported_runs(result)
    table = transitions.run_event_table(result)
    columns = [column for column in RUN_COLUMNS if column.name in ("", *table)]
    return Report(
        table,
        columns,
        summary="\n".join(lines),
        figure=lambda: plots.plot_events(values, results, names, unit),
        rows=reported & (reported.cumsum() <= PRINTED_ROWS),
    )


def _describe_ensemble(
    result: xr.Dataset, escapes: pd.Series, escape_share: float | None
) -> str:
    diverged, unit = int((~result["alive"].values).sum()), result.attrs["unit_of_time"]
    censored = (
        f"; {diverged} diverged and are censored from then on" if diverged else ""
    )
    begin = result.attrs["first_step"] / result.attrs["unit"]
    since = f" after the branch at {unit} {begin:g}" if begin else ""
    criterion = transitions.ESCAPE_CRITERIA[result.attrs["scalar"]]
    change = (
        f"{'rise' if criterion.rising else 'fall'} by"
        f" {escape_share or criterion.share:.0%}"
    )
    return (
        f"{escapes['escaped']} of {escapes['runs']} runs left the first level of"
        f" {SCALAR_DESCRIPTIONS[result.attrs['scalar']]} ({change} or more); half of"
        f" all by {unit} {_format_median_escape(escapes)}{since} (Kaplan-Meier,"
        f" 95%){censored}\n{int(result['spikes'].sum())} spikes in"
        f" {int((result['spikes'] > 0).sum())} runs; {int(result['rises'].sum())}"
        f" lasting rises\n{transitions.describe_reported_runs(result)}:"
        f" {_describe_two_drops(result, result)}"
    )


def _describe_two_drops(drops: xr.Dataset, result: xr.Dataset) -> str:
    two_drops = transitions.count_two_drops(drops, result)
    between, unit = format_interval(two_drops.between), result.attrs["unit_of_time"]
    return (
        f"{two_drops.two} have two drops or more, with {between} {unit}s between"
        f" (median, 95%); {two_drops.one} have one, {two_drops.none} none"
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


ANALYSIS = Analysis(
    name="events",
    title="Plateaus, drops and spikes",
    measure=measure,
    report=events_report,
    options=Options,
    diverged="",
    others="compared",
    files_first=True,
)

if __name__ == "__main__":
    ANALYSIS.run_command()
