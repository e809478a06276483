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
import statistics
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Literal

from analysis import output, plots, transitions
from analysis.command_line.analysis import PRINTED_ROWS, Analysis
from analysis.output.tables import Column, format_interval, format_table
from analysis.panels import figure_panels
from analysis.transitions.detection import DetectionConfig
from dynamics.settings import RecordedSettings

if TYPE_CHECKING:
    import pandas as pd
    import xarray as xr
    from matplotlib.figure import Figure

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
class Events(Analysis):
    """Detect plateaus, drops and spikes in every run of a trajectory. Also compute the
    time at which each run escapes from its first level (runs that do not escape are
    censored), and the speed of each layer during the drops of the loss (VC section 4.1
    and appendix A.1).

    Examples
    --------
    >>> from analysis import Events
    >>> from dynamics import ModularSettings, simulate
    >>> trajectory = simulate(ModularSettings(n=5), runs=3, steps=200, progress=False)
    >>> result = Events(of="loss").measure(trajectory)
    >>> result["escape"].dims
    ('run',)
    """

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

    title = "Plateaus, drops and spikes"
    several = "compared"
    diverged = ""

    def measure(self, trajectory: xr.Dataset) -> xr.Dataset:
        return transitions.analyse_events(
            self.selection.apply(trajectory),
            self.of,
            split=self.split,
            escape_fraction=self.escape_share,
            config=self.detection,
        )

    def for_others(self, result: xr.Dataset) -> Events:
        """The same scalar and level."""
        detection = dataclasses.replace(self.detection, level=result.attrs["level"])
        scalar = result.attrs["scalar"]
        return dataclasses.replace(self, of=scalar, detection=detection)

    def table(self, result: xr.Dataset) -> pd.DataFrame:
        return transitions.run_event_table(result)

    def printed_columns(self, result: xr.Dataset) -> Sequence[Column]:
        table = self.table(result)
        return [column for column in RUN_COLUMNS if column.name in ("", *table)]

    def printed_rows(self, table: pd.DataFrame) -> pd.Series:
        reported = table["successful"].astype(bool)
        if not reported.any():
            reported = ~reported
        return reported & (reported.cumsum() <= PRINTED_ROWS)

    def text_above(self, result: xr.Dataset, trajectory: xr.Dataset) -> str:
        """The ensemble, drops in other windows, motion of the layers, and the escape
        times of all trajectories."""
        unit = result.attrs["unit_of_time"]
        values = self._scalar(result, trajectory)
        results = output.split_results(result)
        comparison = transitions.escape_comparison(results, trajectory_names(results))
        lines = []
        if values.sizes["step"] < transitions.MIN_FRAMES:
            lines.append(
                f"\nonly {values.sizes['step']} frames: events and escapes are uncertain"
                f" with fewer than {transitions.MIN_FRAMES}; record more often"
            )
        gaps = values["step"].diff("step").values
        if gaps.size and gaps.max() > _UNEVEN * statistics.median(gaps.tolist()):
            lines.append(
                f"\nframes are {gaps.min()} to {gaps.max()} steps apart: events are found"
                " by frames, so a drop across a wide gap may be counted twice"
            )
        recorded = trajectory.attrs["system"] == RecordedSettings.system
        begins = "first frame at" if recorded else "branch at"
        ensemble = _describe_ensemble(
            result, comparison.iloc[0], self.escape_share, begins
        )
        lines.append("\n" + ensemble)
        windows = transitions.two_drops_by_window(values, self.detection)
        for window, drops in windows.items():
            words = _describe_two_drops(drops, result)
            lines.append(f"with --window {window:g}: {words}")
        runs = transitions.describe_reported_runs(result)
        if result.sizes["layer"]:
            layers = transitions.layer_motion_table(result)
            lines.append(LAYER_LEGEND.format(runs=runs, unit=unit))
            lines.append(format_table(layers, LAYER_COLUMNS))
        if len(results) > 1:
            columns = _comparison_columns(unit)
            lines.append("\n" + format_table(comparison, columns))
        lines.append(f"\ntable: {runs}")
        return "\n".join(lines)

    def panel_names(self) -> tuple[str, ...]:
        return figure_panels.EVENTS

    def figure(self, result: xr.Dataset, trajectory: xr.Dataset) -> Figure:
        values = self._scalar(result, trajectory)
        results = output.split_results(result)
        unit = result.attrs["unit_of_time"]
        return plots.plot_events(values, results, trajectory_names(results), unit)

    def _scalar(self, result: xr.Dataset, trajectory: xr.Dataset) -> xr.DataArray:
        """The analysed scalar in the selected runs and frames."""
        selected = self.selection.apply(trajectory)
        scalar = result.attrs["scalar"]
        return transitions.trajectory_scalar(selected, scalar, self.split)


_UNEVEN = 3
"""The command says that frames are unevenly spaced if the largest gap between two frames is
more than this number times the median gap."""


def trajectory_names(results: Sequence[xr.Dataset]) -> list[str]:
    """Names of the files of results, without suffix, or numbers from 1."""
    return [
        Path(result.attrs.get("trajectory", str(number))).stem
        for number, result in enumerate(results, 1)
    ]


def _comparison_columns(unit: str) -> list[Column]:
    """Columns of the comparison of escape times."""
    return [
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


def _describe_ensemble(
    result: xr.Dataset, escapes: pd.Series, escape_share: float | None, begins: str
) -> str:
    diverged, unit = int((~result["alive"].values).sum()), result.attrs["unit_of_time"]
    censored = (
        f"; {diverged} diverged and are censored from then on" if diverged else ""
    )
    begin = result.attrs["first_step"] / result.attrs["unit"]
    since = f" after the {begins} {unit} {begin:g}" if begin else ""
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


if __name__ == "__main__":
    Events.main()
