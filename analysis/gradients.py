"""Gradient norms over training, layer by layer, and whether their peaks go with drops and spikes of the loss
(VC figures 15, 16, 18, 19).

python -m analysis.gradients RUN.nc [--run R]

The picture has one run as the paper has it, and beneath it all runs against chance.
`analysis/transitions/gradient_peaks.py` has the
definitions. Particles have the norm of their force, and their escape in the place of drops.
"""

import dataclasses
from typing import TYPE_CHECKING

from analysis.command_line.parsing import run_command
from analysis.command_line.reading import TrajectoryOptions
from analysis.transitions.detection import DetectionConfig
from dynamics.settings import SettingsError

if TYPE_CHECKING:
    import numpy as np
    import xarray as xr

    from analysis.output.tables import TableRow
    from analysis.statistics.intervals import Interval

HEADER = ("layer", "measure", "number", "value", "anywhere", "p", "nearby", "p", "lag")

COLUMNS = ("layer", "measure", "number", "value", "value_low", "value_high", "anywhere", "p_value_anywhere", "nearby",
           "p_value_nearby", "lag", "lag_low", "lag_high")  # fmt: skip

LEGEND = """peak: a spike of the norm, or the highest frame of a hump, from a rise to the drop after it
anywhere: the same with the peaks of each run moved around its circle by any number of frames, mean of 1000 times: that
controls for how many peaks there are, not for quiet parts of a run, such as before the escape, which have neither
nearby: moved by {} to {} frames either way, as the rule's window is: that controls for quiet parts as well
p: one-sided, of as much by these shifts; claim a coincidence where both are small
lag: how much later the peak is, median over runs; all intervals are 95%
rank correlation: of the norm with the decrease of the loss (of particles, the increase of the displacement), mean over
runs in Fisher's z at the lag where it is farthest from 0, for chance too, p two-sided; and how much more it is than at
the largest lags looked at, where nothing but slow trends of both is left"""


def _coincidence_rows(found: "xr.Dataset", clock: str, unit: float) -> "list[TableRow]":
    """The table: for each layer drops, spikes and the rank correlation. unit: how much of the clock a frame is."""
    result = []
    for layer in map(str, found["layer"].values):
        here = found.sel(layer=layer)
        for kind in map(str, found["kind"].values):
            result.append(_fraction_row(here.sel(kind=kind), layer, kind, clock, unit))
        result += _correlation_rows(here, layer, clock, unit)
    return result


def _fraction_row(found: "xr.Dataset", layer: str, kind: str, clock: str, unit: float) -> "TableRow":
    """How many events of a kind have a peak of a layer's norm, against both baselines, and its lag."""
    import math

    from analysis.output.tables import TableRow, format_number, format_percent
    from analysis.statistics.intervals import Interval

    total = 0 if math.isnan(float(found["total"])) else int(found["total"])
    share = _interval(found, "share")
    lag = Interval(*(value * unit for value in _interval(found, "lag")))
    chance, p_values = found["by_chance"].values, found["p_value"].values
    text = [layer, f"{kind}s with a peak, %", str(total), format_percent(share)]
    numbers = [layer, f"{kind}s with a peak", str(total), *map(format_number, share)]
    for level, p_value in zip(chance, p_values, strict=True):
        text += ["-" if not total else f"{100 * level:.1f}", _chance(p_value)]
        numbers += [format_number(level), format_number(p_value)]
    return TableRow([*text, _lag(lag, clock)], [*numbers, *map(format_number, lag)])


def _correlation_rows(found: "xr.Dataset", layer: str, clock: str, unit: float) -> "list[TableRow]":
    """The rank correlation of a layer's norm, against both baselines, and what it has more than at far lags."""
    import math

    from analysis.output.tables import TableRow, format_number

    runs = str(int((found["peaks"] >= 0).sum()))
    value, at = _interval(found, "correlation"), float(found["correlation_lag"]) * unit
    text = [layer, "rank correlation", "", _shown(value)]
    numbers = [layer, "rank correlation", runs, *map(format_number, value)]
    chance, p_values = found["correlation_by_chance"].values, found["correlation_p_value"].values
    for level, p_value in zip(chance, p_values, strict=True):
        text += ["-" if math.isnan(level) else f"{level:.2f}", _chance(p_value)]
        numbers += [format_number(level), format_number(p_value)]
    gain = _interval(found, "correlation_gain")
    return [
        TableRow([*text, "-" if math.isnan(at) else f"{at:.3g} {clock}s"], [*numbers, format_number(at), "", ""]),
        TableRow(
            [layer, "more than at far lags", "", _shown(gain), *[""] * 5],
            [layer, "more than at far lags", runs, *map(format_number, gain), *[""] * 7],
        ),
    ]


def _interval(found: "xr.Dataset", name: str) -> "Interval":
    from analysis.statistics.intervals import Interval

    return Interval(*(float(found[f"{name}{end}"]) for end in ("", "_low", "_high")))


def _shown(interval: "Interval") -> str:
    if interval.value != interval.value:
        return "-"
    bounds = "" if interval.low != interval.low else f" [{interval.low:.2f}, {interval.high:.2f}]"
    return f"{interval.value:.2f}{bounds}"


def _lag(interval: "Interval", clock: str) -> str:
    if interval.value != interval.value:
        return "-"
    bounds = "" if interval.low != interval.low else f" [{interval.low + 0.0:.3g}, {interval.high + 0.0:.3g}]"
    return f"{interval.value + 0.0:.3g}{bounds} {clock}s"


def _chance(p_value: float) -> str:
    return "-" if p_value != p_value else f"{p_value:.3f}"


def _frame_length(trajectory: "xr.Dataset") -> tuple[str, float]:
    """What the clock counts, epochs or steps, and how much of it passes between two frames, in the median."""
    import numpy as np

    clock = "epoch" if "epoch" in trajectory.variables else "step"
    return clock, float(np.median(np.diff(trajectory[clock].values)))


def most_eventful_run(events: "np.ndarray") -> int:
    """The first run with most of the first kind of events, and among these with most of all: events (run, kind)."""
    return int((events[:, 0] * (1 + events.sum()) + events.sum(axis=1)).argmax())


# ---------------------------------------------------------------------------------------------- the command


@dataclasses.dataclass(frozen=True)
class Options(TrajectoryOptions):
    """Gradient norms of every layer over training, and how their peaks go with drops and spikes of the loss."""

    run: int | None = None
    """Place of the run that is drawn. None is the first with most drops, and among these most spikes."""
    rule: DetectionConfig = dataclasses.field(default_factory=DetectionConfig)


def main(options: Options) -> None:
    """Find peaks and events, hold them against chance, print, draw and write."""
    from analysis.command_line.reading import open_input, write_result_and_picture
    from analysis.output import tables
    from analysis.plots.gradients_figure import plot_gradient_norms
    from analysis.transitions.gradient_peaks import peak_coincidence

    trajectory, out = open_input(options, "gradients")
    if options.run is not None and not 0 <= options.run < trajectory.sizes["run"]:
        raise SettingsError("run", options.run, f"a place from 0 to {trajectory.sizes['run'] - 1}")
    found = peak_coincidence(trajectory, options.rule)
    run = most_eventful_run(found["events"].values) if options.run is None else options.run
    clock, unit = _frame_length(trajectory)
    found = found.assign_attrs(frame=f"{unit:g} {clock}s")
    picture = plot_gradient_norms(trajectory, found, run, options.rule)
    tables.print_rows(HEADER, COLUMNS, _coincidence_rows(found, clock, unit), options.csv, left=(0, 1))
    width = options.rule.width(trajectory.sizes["step"])
    print(LEGEND.format(width, 2 * width), file=options.say)
    write_result_and_picture(
        options, "gradients", "Peaks of gradient norms, and drops and spikes of the loss", found, picture, out
    )


if __name__ == "__main__":
    run_command(main, Options, "analysis.gradients")
