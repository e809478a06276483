"""Figure of the best pair law: R² along training in the whole space and in planes, and
the functions of the law."""

from __future__ import annotations

import numpy as np
import xarray as xr
from matplotlib.axes import Axes
from matplotlib.figure import Figure

from analysis.forces.law_words import law_words
from analysis.output.counts import count_of
from analysis.panels import colours, figure_panels
from analysis.plots.curves import (
    fill_interval,
    plot_quartile_band,
    set_early_time_axis,
    times_of_frames,
)
from analysis.plots.figure_files import draw_legend, in_style, new_panels

_SPACES = {"whole": "whole space", "planes": "key planes"}


@in_style
def plot_pair_law(result: xr.Dataset, name: str) -> Figure:
    """Draw the result of `fit_pair_law`: medians over runs with quartiles, and the
    functions with their 95% intervals beside those of the given law. name: that of the
    trajectory."""
    runs = result.sizes["run"]
    title = f"{name}: pair law of {count_of(runs, 'run')}"
    bands = ", 95% bands" if runs > 2 else ""
    spaces = result["space"].values
    names = figure_panels.PAIR_LAW[: 3 * len(spaces)]
    figure, panels = new_panels([4 / 3] * len(names), title, 1.1, names)
    for row, space in enumerate(spaces):
        of_space = result.sel(space=space)
        heading = _SPACES[str(space)]
        _plot_r_squared(panels[3 * row], of_space, heading)
        cut = _plot_functions(
            panels[3 * row + 1], of_space, ("like", "unlike"), "distance"
        )
        panels[3 * row + 1].set(
            title=f"{heading}: repulsion{bands}{cut}",
            xlabel="distance / root mean square",
            ylabel="strength / largest, negative attracts",
            xscale="log",
        )
        measured = of_space["like"].notnull() | of_space["unlike"].notnull()
        distances = of_space["distance"].values[measured.values]
        if distances.size:
            panels[3 * row + 1].set_xlim(distances[0] / 1.1, distances[-1] * 1.1)
        cut = _plot_functions(
            panels[3 * row + 2],
            of_space,
            ("like_alignment", "unlike_alignment"),
            "angle",
        )
        panels[3 * row + 2].set(
            title=f"{heading}: alignment{bands}{cut}",
            xlabel="cosine of the pair sums",
            ylabel="strength / largest, positive aligns",
        )
    draw_legend(figure)
    return figure


def _plot_r_squared(panel: Axes, result: xr.Dataset, heading: str) -> None:
    """Draw R² on held-out runs and frames, and of fits to each frame."""
    time, unit = times_of_frames(result)
    first, second, third = colours.series_colours(3)
    words = law_words(result)
    muted = colours.colour("muted")
    curves = (
        (first, words.name),
        (second, f"its {words.fields}, fitted"),
        (third, "pair law, fitted"),
        (muted, "pair law, tokens renamed"),
    )
    for law, (colour, label) in zip(result["law"].values, curves, strict=True):
        r_squared = result["r_squared"].sel(law=law)
        plot_quartile_band(panel, time, r_squared, colour, label)
    for law, colour, label in (
        ("pair law", third, "pair law of each frame"),
        ("renamed", muted, "each frame, renamed"),
    ):
        median = result["frame_r_squared"].sel(law=law).median("run")
        if median.notnull().any():
            panel.plot(time, median, color=colour, linestyle=":", label=label)
    quartiles = ", medians and quartiles" if result.sizes["run"] > 1 else ""
    panel.set(
        title=f"{heading}: fit to −dL/dE{quartiles}",
        ylabel="R²",
        ylim=(0, 1),
    )
    set_early_time_axis(panel, time, unit)


def _plot_functions(
    panel: Axes, result: xr.Dataset, names: tuple[str, str], axis: str
) -> str:
    """Draw the functions for like and for unlike pairs with their intervals, and those
    of the given law; return a note for the title if the limits cut an interval."""
    given = law_words(result).short_name
    panel.axhline(0, color=colours.colour("faint"), linewidth=0.8, zorder=0)
    for name, kind, colour in zip(
        names, ("like", "unlike"), colours.series_colours()[3:5], strict=True
    ):
        panel.plot(
            result[axis], result[name], color=colour, marker=".", label=f"{kind} pairs"
        )
        panel.plot(
            result[axis],
            result[f"paper_{name}"],
            color=colour,
            linestyle="--",
            label=f"{kind} pairs, {given}",
        )
        ends = result[f"{name}_low"], result[f"{name}_high"]
        fill_interval(panel, result[axis], *ends, colour)
    _limit_to_curves(panel, result, names)
    low, high = panel.get_ylim()
    is_cut = any(
        (result[f"{name}_low"] < low).any() or (result[f"{name}_high"] > high).any()
        for name in names
    )
    return ", wide ones cut" if is_cut else ""


def _limit_to_curves(panel: Axes, result: xr.Dataset, names: tuple[str, str]) -> None:
    """Set the vertical limits by the functions and by bands of the median width, so that
    one wide interval does not flatten the curves."""
    values = [result[name] for name in names]
    given = [result[f"paper_{name}"] for name in names]
    widths = [result[f"{name}_high"] - result[f"{name}_low"] for name in names]
    margin = max(float(width.median()) for width in widths)
    low = min(float(curve.min()) for curve in values + given)
    high = max(float(curve.max()) for curve in values + given)
    if np.isfinite(low - margin) and np.isfinite(high + margin):
        panel.set_ylim(low - margin, high + margin)
