"""Figure of finite-size scaling: fractions of circles with their fits, and how the
transition depends on N."""

from __future__ import annotations

import numpy as np
import pandas as pd
import xarray as xr
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.ticker import FixedLocator, NullLocator

from analysis.panels import colours, figure_panels
from analysis.plots.curves import OrderedLook, ordered_looks
from analysis.plots.figure_files import (
    draw_intervals,
    draw_legend,
    in_style,
    legend_entries,
    new_panels,
)
from analysis.statistics.transition_fit import logistic_fraction
from analysis.structures.finite_size import scaling_rows, swept_setting

_AXIS_LABELS = {"fa": "alignment constant $f_a$", "weight_decay": "weight decay"}


@in_style
def plot_scaling(result: xr.Dataset) -> Figure:
    """Draw the fraction of circles, imperfections and times of formation against the
    setting, a colour for each N, all with 95% intervals. If there is a transition, draw
    its midpoint and width against N, otherwise the fraction."""
    axis = swept_setting(result)
    table = pd.DataFrame(scaling_rows(result))
    sizes = result["n"].values
    looks = dict(zip(sizes.tolist(), ordered_looks(len(sizes)), strict=True))
    transition = bool(np.isfinite(result["midpoint"]).any())
    widths = [1.6, 1.2, 1.2, 2, 2] if transition else [2] * 4
    absent = {"sizes"} if transition else {"midpoint", "width"}
    names = [name for name in figure_panels.SCALING if name not in absent]
    figure, panels = new_panels(widths, names=names)
    circles, *by_size, formation, imperfections = panels
    _plot_fractions(circles, result, table, looks)
    _plot_column(formation, table, axis, "formation", looks)
    _plot_column(imperfections, table, axis, "imperfections", looks)
    formation.set(
        title="step from which circles stay", ylabel="median step", ylim=(0, None)
    )
    imperfections.set(
        title="imperfections of other runs", ylabel="mean per pair", ylim=(0, None)
    )
    for panel in (circles, formation, imperfections):
        _set_logarithmic(panel, result[axis].values, _AXIS_LABELS[axis])
    if transition:
        for panel, name in zip(by_size, ("midpoint", "width"), strict=True):
            _plot_parameter(panel, result, name, looks)
        by_size[0].set(title="midpoint: half are circles", ylabel=_AXIS_LABELS[axis])
        by_size[1].set(
            title="width, from 10 to 90%", ylabel="change of the setting's logarithm"
        )
    else:
        _plot_fractions_by_size(by_size[0], result, table)
        by_size[0].legend()
    draw_legend(figure, legend_entries(figure, [formation, circles, imperfections]))
    return figure


def _plot_fractions(
    panel: Axes,
    result: xr.Dataset,
    table: pd.DataFrame,
    looks: dict[float, OrderedLook],
) -> None:
    """Draw the fraction of circles with the fitted curve of each N."""
    axis = swept_setting(result)
    _plot_column(panel, table, axis, "circles", looks, linestyle="none")
    x = np.geomspace(float(result[axis][0]), float(result[axis][-1]), 200)
    for n, look in looks.items():
        middle, width = (
            float(result[name].sel(n=n, bound="value"))
            for name in ("midpoint", "width")
        )
        if np.isfinite(middle):
            panel.plot(
                x, logistic_fraction(x, middle, max(width, 1e-3)), color=look.color
            )
    panel.axhline(0.5, color=colours.colour("muted"), linestyle=":")
    panel.set(title="runs that end as circles", ylabel="fraction", ylim=(-0.03, 1.03))


def _plot_fractions_by_size(
    panel: Axes, result: xr.Dataset, table: pd.DataFrame
) -> None:
    """Draw the fraction of circles against N, a line for each value of the setting."""
    axis = swept_setting(result)
    values = result[axis].values
    looks = ordered_looks(len(values))
    for at, (value, look) in enumerate(zip(values, looks, strict=True)):
        rows = table[table[axis] == value]
        intervals = rows[["circles", "circles_low", "circles_high"]].to_numpy(float)
        draw_intervals(
            panel,
            _beside(rows["n"], at, len(looks)),
            intervals,
            **look._asdict(),
            elinewidth=1,
            label=f"{_AXIS_LABELS[axis]} {value:g}",
        )
    panel.set(
        title="runs that end as circles, against N",
        ylabel="fraction",
        ylim=(-0.03, 1.03),
    )
    _set_logarithmic(panel, result["n"].values, "N")


def _beside(x: pd.Series, at: int, count: int) -> pd.Series:
    """Positions on a logarithmic axis of the points of one of `count` lines, so that
    their bars do not cover each other."""
    return x * (1 + 0.012 * (at - (count - 1) / 2))


def _plot_column(
    panel: Axes,
    table: pd.DataFrame,
    axis: str,
    name: str,
    looks: dict[float, OrderedLook],
    linestyle: str = "-",
) -> None:
    """Draw a column of the table of points against the setting."""
    for at, (n, look) in enumerate(looks.items()):
        rows = table[table["n"] == n]
        x = _beside(rows[axis], at, len(looks))
        intervals = rows[[name, f"{name}_low", f"{name}_high"]].to_numpy(float)
        draw_intervals(
            panel,
            x,
            intervals,
            **look._asdict(),
            linestyle=linestyle,
            elinewidth=1,
            label=f"N = {n}",
        )


def _plot_parameter(
    panel: Axes, result: xr.Dataset, name: str, looks: dict[float, OrderedLook]
) -> None:
    """Draw the midpoint or the width of each N, and the fitted power of N."""
    sizes = result["n"].values
    estimates = result[name].values
    bounded = np.where(np.isfinite(estimates), estimates, np.nan)
    for n, estimate in zip(sizes, bounded, strict=True):
        draw_intervals(panel, [n], estimate, **looks[int(n)]._asdict(), elinewidth=1)
    power = result[f"{name}_power"].values
    if np.isfinite(power).all():
        bounded_sizes = np.isfinite(bounded).all(axis=1) & (bounded[:, 1] > 0)
        weights = np.log(bounded[bounded_sizes, 2] / bounded[bounded_sizes, 1]) ** -2.0
        level = np.average(
            np.log(bounded[bounded_sizes, 0]) - power[0] * np.log(sizes[bounded_sizes]),
            weights=weights,
        )
        ends = sizes[bounded_sizes][[0, -1]]
        n = np.geomspace(ends[0], ends[-1], 50)
        label = f"$N^b$: b = {power[0]:.2f} [{power[1]:.2f}, {power[2]:.2f}]"
        panel.plot(
            n,
            np.exp(level) * n ** power[0],
            color=colours.colour("muted"),
            linestyle="--",
        )
        box = {"facecolor": colours.colour("background"), "edgecolor": "none", "pad": 2}
        panel.text(
            0.5, 0.97, label, transform=panel.transAxes, ha="center", va="top", bbox=box
        )
    _set_logarithmic(panel, sizes, "N")
    largest = np.nanmax(np.append(estimates[:, 0], 0.1))
    panel.set_ylim(
        0, 1.1 * min(4 * largest, np.nanmax(np.append(bounded, 0.1)))
    )  # longer bars are cut


def _set_logarithmic(panel: Axes, values: np.ndarray, label: str) -> None:
    """Set a logarithmic axis with ticks at up to eleven of the values, at least a
    factor of 1.28 apart."""
    ticks: list[float] = []
    factor = max(1.28, (values[-1] / values[0]) ** 0.1)
    for value in values:
        if not ticks or value >= factor * ticks[-1]:
            ticks.append(float(value))
    panel.set_xscale("log")
    panel.xaxis.set_major_locator(FixedLocator(ticks))
    panel.xaxis.set_major_formatter("{x:g}")
    panel.xaxis.set_minor_locator(NullLocator())
    panel.set(xlabel=label, xlim=(0.85 * values[0], 1.15 * values[-1]))
