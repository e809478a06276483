"""Table and summary of the linearised flow along a trajectory, with 95% intervals over
runs."""

from __future__ import annotations

import textwrap
from collections.abc import Callable, Iterable, Mapping
from functools import partial
from typing import Literal

import numpy as np
import pandas as pd
import xarray as xr

from analysis.linearization.eigenmodes import NONE, STABILITY_KINDS
from analysis.output.tables import (
    Column,
    format_percent_plus_minus,
    format_plus_minus,
    interval_columns,
    make_table,
)
from analysis.statistics.intervals import (
    Interval,
    binomial_interval,
    mean_interval,
    median_interval,
)

_MEDIANS = {
    "growing_modes": "growing modes",
    "largest_growth": "largest growth",
    "sharpness": "sharpness",
}
_PARTICLE_MEDIANS = {"rest": "not at rest", "asymmetry": "asymmetry"}
_NETWORK_MEANS = {
    "lowest_share": "movement along lowest, %",
    "lowest_chance": "chance of one direction, %",
    "negative_share": "within negative, %",
    "negative_chance": "chance of those, %",
}
"""Fractions of the movement to the next frame."""


DECAY = " − w"
"""End of the formula of a limit of H, with a weight decay w that is added to H."""

_fraction_interval = partial(mean_interval, limits=(0, 1))


def finite_values_at(values: xr.DataArray, index: int) -> np.ndarray:
    """Values (run, step) at one index along step, of the runs that have one: (run,)."""
    item = values.isel(step=index).values
    return item[np.isfinite(item)]


def intervals_at(
    result: xr.Dataset,
    index: int,
    names: Iterable[str],
    interval: Callable[[np.ndarray], Interval] = median_interval,
) -> dict[str, float]:
    """The columns of the medians over runs of some variables at a step, or of other
    estimates, with their intervals."""
    row: dict[str, float] = {}
    for name in names:
        values = finite_values_at(result[name], index)
        row |= interval_columns(name, interval(values))
    return row


def with_derived_variables(result: xr.Dataset) -> xr.Dataset:
    """The result of `linearize_trajectory` with `largest_growth` and `lowest_chance`
    (run, step)."""
    chance = 1 / result.attrs["parameters"] if "parameters" in result.attrs else np.nan
    largest = (
        result["growth_rate"].isel(mode=0)
        if result.sizes["mode"]
        else result["sharpness"] * np.nan
    )
    return result.assign(
        largest_growth=largest, lowest_chance=result["sharpness"] * 0 + chance
    )


def tabulate_curvature(result: xr.Dataset) -> pd.DataFrame:
    """A row for each step of the result of `linearize_trajectory`: medians, means, and
    fractions of runs."""
    result = with_derived_variables(result)
    if result.attrs["system"] == "particles":
        others = _PARTICLE_MEDIANS
        other_interval = median_interval
    else:
        others = _NETWORK_MEANS
        other_interval = _fraction_interval
    rows = []
    for index, step in enumerate(result["step"].values.tolist()):
        kind = result["kind"].isel(step=index).values
        row = {"step": step, "runs": int((kind != NONE).sum())}
        row |= intervals_at(result, index, _MEDIANS)
        fractions = result["relative_sharpness"].isel(step=index).values
        fractions = fractions[~np.isnan(fractions)]
        above = binomial_interval(int((fractions > 1).sum()), len(fractions))
        row |= interval_columns("above_threshold", above)
        row |= intervals_at(result, index, others, other_interval)
        for name, flag in STABILITY_KINDS.items():
            if flag != NONE:
                fraction = binomial_interval(int((kind == flag).sum()), row["runs"])
                row |= interval_columns(name, fraction)
        rows.append(row)
    return make_table(rows)


def curvature_columns(result: xr.Dataset) -> list[Column]:
    """The printed columns of `tabulate_curvature`."""
    limits = np.unique(result["limit"].values[np.isfinite(result["limit"].values)])
    value = f" = {limits[0]:.4g}" if len(limits) == 1 else ""
    above = f"above {result.attrs['limit_formula']}{value}, %"
    columns = [
        *median_columns(_MEDIANS),
        _percent(above, "above_threshold", "bounds"),
    ]
    if result.attrs["system"] == "particles":
        columns += median_columns(_PARTICLE_MEDIANS)[2:]
    else:
        for name, heading in _NETWORK_MEANS.items():
            if name.endswith("chance"):
                columns.append(Column(heading, text=partial(_chance_of_row, name=name)))
            else:
                columns.append(_percent(heading, name))
    columns.append(_percent("saddles, %", "saddle", "bounds"))
    columns.append(_percent("stable, %", "stable", "bounds"))
    return columns


def _percent(
    heading: str, name: str, interval: Literal["bounds", "half-width"] = "half-width"
) -> Column:
    return Column(heading, name, digits=1, interval=interval, scale=100)


def fraction_heading(result: xr.Dataset) -> str:
    """The heading of the largest eigenvalue over the limit of stability. A weight decay
    that is added to the Hessian is not part of the divisor."""
    formula = result.attrs["limit_formula"]
    divisor = formula.removesuffix(DECAY)
    return f"over {divisor}" if divisor == formula else f"plus w, over {divisor}"


def median_table(
    result: xr.Dataset, medians: Iterable[str], fractions: Iterable[str] = ()
) -> pd.DataFrame:
    """A row for each step of a result with variables (run, step): the number of runs
    with a loss, medians over runs of some variables, and means of fractions, with 95%
    intervals."""
    rows = []
    for index, step in enumerate(result["step"].values.tolist()):
        row = {"step": step, "runs": len(finite_values_at(result["loss"], index))}
        row |= intervals_at(result, index, medians)
        row |= intervals_at(result, index, fractions, _fraction_interval)
        rows.append(row)
    return make_table(rows)


def median_columns(headings: Mapping[str, str]) -> list[Column]:
    """The columns of the step, the number of runs, and medians with their intervals."""
    medians = [
        Column(heading, text=median_text(name)) for name, heading in headings.items()
    ]
    return [Column("step", "step"), Column("runs", "runs"), *medians]


def median_text(name: str) -> Callable[[dict], str]:
    def text(row: dict) -> str:
        value, low, high = (row[name + end] for end in ("", "_low", "_high"))
        if np.isnan(value):
            return "-"
        return (
            f"{value:.3g}" if np.isnan(low) else f"{value:.3g} [{low:.3g}, {high:.3g}]"
        )

    return text


def _chance_of_row(row: dict, name: str) -> str:
    return _format_chance([row[name + end] for end in ("", "_low", "_high")])


def _format_chance(interval: list[float]) -> str:
    """A fraction in percent, to two significant digits, with half its interval where it
    varies."""
    value, low, high = (100 * item for item in interval)
    digits = max(1, 1 - int(np.floor(np.log10(value)))) if value > 0 else 1
    return format_plus_minus(
        [value, low if high - low > 2e-12 else np.nan, high], digits
    )


def escape_summary(result: xr.Dataset) -> str:
    """A sentence on the movement of networks as they leave a plateau; empty for
    particles."""
    if "escape_step" not in result:
        return ""
    runs = int((result["escape_step"] >= 0).sum())
    if not runs:
        return "In no run does the training loss fall below the chance level."
    means = [
        mean_interval(result[f"escape_{name}"].dropna("run").values, limits=(0, 1))
        for name in (
            "lowest_share",
            "highest_share",
            "negative_share",
            "negative_chance",
        )
    ]
    lowest, highest, negative = map(format_percent_plus_minus, means[:3])
    sentence = (
        f"At the largest fall of the training loss below that of a guess ({runs} runs),"
        f" of the squared movement\n{lowest}% are along the direction of the lowest"
        f" eigenvalue, {highest}% along that of the highest\n(chance"
        f" {100 / result.attrs['parameters']:.3g}%)"
    )
    if np.isnan(means[2].value):  # only both ends of the spectrum are known
        return f"{sentence}."
    chance = _format_chance(list(means[3]))
    return (
        f"{sentence}, {negative}% within those of all negative ones (chance {chance}%)."
    )


def curvature_legend(result: xr.Dataset) -> str:
    """Explanation of the columns."""
    lines = [
        "Medians with 95% intervals from order statistics; fractions of runs with exact"
        " intervals."
    ]
    if result.attrs["system"] == "particles":
        lines += [
            (
                "Not at rest: norm of the force after normalisation divided by that of"
                " the force. Common rotations are not"
            ),
            "counted as modes, and runs without modes are left out.",
        ]
    else:
        lines += [
            (
                "Movement: to the next recorded frame, mean fraction of its squared"
                " norm ± 95% interval; chance:"
            ),
            (
                "for a random direction. The loss is that of the training split,"
                " without weight decay."
            ),
            *textwrap.wrap(result.attrs["limit_note"], 110, break_on_hyphens=False),
        ]
    return "\n".join(lines)
