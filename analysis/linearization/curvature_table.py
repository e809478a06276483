"""The table of `analysis.curvature`: a row a moment, medians and means over runs with 95% intervals."""

import numpy as np
import xarray as xr

from analysis.linearization.eigenmodes import NONE, STABILITY_KINDS
from analysis.output.tables import TableRow, format_number, format_percent, format_percent_plus_minus, format_plus_minus
from analysis.statistics.intervals import Interval, binomial_interval, mean_interval, median_interval

_MEDIANS = {"growing_modes": "growing modes", "largest_growth": "largest growth", "sharpness": "sharpness"}
_MOVEMENT_FRACTIONS = {
    "lowest_share": "movement along lowest",
    "lowest_chance": "chance of one direction",
    "negative_share": "within negative",
    "negative_chance": "chance of those",
}
"""Of networks: means of shares of the next movement."""
_ESCAPE_FRACTIONS = ("lowest_share", "negative_share", "negative_chance", "highest_share")
"""Of networks, at each run's escape."""
_PARTICLE_MEDIANS = {"rest": "not at rest", "asymmetry": "asymmetry"}
"""Of particles: medians."""


def finite_values_at(values: xr.DataArray, step: int) -> np.ndarray:
    """The values of the runs that have one, at one of the steps: (run,)."""
    each = values.isel(step=step).values
    return each[np.isfinite(each)]


def with_derived_variables(found: xr.Dataset) -> xr.Dataset:
    """The result with what the table and the picture draw from it."""
    chance = 1 / found.attrs["parameters"] if "parameters" in found.attrs else np.nan
    largest = found["growth_rate"].isel(mode=0) if found.sizes["mode"] else found["sharpness"] * np.nan
    return found.assign(largest_growth=largest, lowest_chance=found["sharpness"] * 0 + chance)


def curvature_header(found: xr.Dataset) -> tuple[str, ...]:
    """Names of the columns."""
    threshold = f"above 2/lr = {found.attrs['threshold']:.4g}, %"
    others = (
        _PARTICLE_MEDIANS
        if found.attrs["system"] == "particles"
        else {k: f"{v}, %" for k, v in _MOVEMENT_FRACTIONS.items()}
    )
    return ("step", "runs", *_MEDIANS.values(), threshold, *others.values(), "saddles, %", "stable, %")


def curvature_columns(found: xr.Dataset) -> list[str]:
    """Of the table as CSV: values and bounds."""
    others = _PARTICLE_MEDIANS if found.attrs["system"] == "particles" else _MOVEMENT_FRACTIONS
    names = [*_MEDIANS, "above_threshold", *others, *(name for name in STABILITY_KINDS if name != "none")]
    return ["step", "runs", *(f"{name}{end}" for name in names for end in ("", "_low", "_high"))]


def curvature_rows(found: xr.Dataset) -> list[TableRow]:
    """A row for each step."""
    found = with_derived_variables(found)
    return [_row(found, step) for step in range(found.sizes["step"])]


def _row(found: xr.Dataset, step: int) -> TableRow:
    kind = found["kind"].isel(step=step).values
    runs = int((kind != NONE).sum())
    medians = [median_interval(finite_values_at(found[name], step)) for name in _MEDIANS]
    sharp = finite_values_at(found["sharpness"], step)
    above = binomial_interval(int((sharp > found.attrs["threshold"]).sum()), len(sharp))
    if found.attrs["system"] == "particles":
        others = [median_interval(finite_values_at(found[name], step)) for name in _PARTICLE_MEDIANS]
        middle = [_median(each) for each in others]
    else:
        others = [mean_interval(finite_values_at(found[name], step)) for name in _MOVEMENT_FRACTIONS]
        middle = [
            _chance(each) if name.endswith("chance") else format_percent_plus_minus(each)
            for name, each in zip(_MOVEMENT_FRACTIONS, others, strict=True)
        ]
    places = {
        name: place for name, place in STABILITY_KINDS.items() if place != NONE
    }  # runs without a value are not counted
    shares = {name: binomial_interval(int((kind == place).sum()), runs) for name, place in places.items()}
    at = int(found["step"].values[step])
    text = [str(at), str(runs), *(_median(each) for each in medians), format_percent(above), *middle]
    text += [format_percent(shares["saddle"]), format_percent(shares["stable"])]
    every = [*medians, above, *others, *shares.values()]
    return TableRow(text, [str(at), str(runs), *(format_number(float(value)) for each in every for value in each)])


def _median(interval: Interval) -> str:
    if np.isnan(interval.value):
        return "-"
    bounds = "" if np.isnan(interval.low) else f" [{interval.low:.3g}, {interval.high:.3g}]"
    return f"{interval.value:.3g}{bounds}"


def _chance(interval: Interval) -> str:
    """A share in percent, to two significant digits, with half its interval where it varies."""
    if np.isnan(interval.value):
        return "-"
    digits = max(1, 1 - int(np.floor(np.log10(100 * interval.value)))) if interval.value > 0 else 1
    shown = Interval(*(100 * value for value in interval))
    return format_plus_minus(shown if shown.half > 1e-12 else shown._replace(low=np.nan), digits)


def escape_summary(found: xr.Dataset) -> str:
    """A sentence on the movement of networks as they leave a plateau; nothing of particles."""
    if "escape_step" not in found:
        return ""
    runs = int((found["escape_step"] >= 0).sum())
    if not runs:
        return "No run's training loss falls below that of a guess."
    means = {name: mean_interval(_finite(found[f"escape_{name}"])) for name in _ESCAPE_FRACTIONS}
    lowest, negative, highest = (
        format_percent_plus_minus(means[name]) for name in ("lowest_share", "negative_share", "highest_share")
    )
    chance = 100 / found.attrs["parameters"]
    told = (
        f"At the largest fall of the training loss below that of a guess ({runs} runs), of the squared movement\n"
        f"{lowest}% are along the lowest eigenvalue, {highest}% along the highest (chance {chance:.2g}%)"
    )
    if np.isnan(means["negative_share"].value):  # both ends of the spectrum alone are known
        return f"{told}."
    return f"{told}, {negative}% within all negative ones (chance {_chance(means['negative_chance'])}%)."


def _finite(values: xr.DataArray) -> np.ndarray:
    return values.values[np.isfinite(values.values)]


def curvature_legend(found: xr.Dataset) -> str:
    """What stands in the table."""
    first = "Medians with 95% intervals from order statistics, shares with exact ones."
    if found.attrs["system"] == "particles":
        second = "Not at rest: what moves particles over the force. Modes exclude common rotations; runs without any"
        return f"{first}\n{second} are not counted."
    second = "Movement: to the next recorded frame, mean share ± 95% interval; chance: of a random direction."
    third = "The loss is that of the training split, without weight decay; for Adam 2/lr is a scale and no limit."
    return f"{first}\n{second}\n{third}"
