"""Figure of the experiment remedies: the effects of each intervention on the same
runs."""

import textwrap

import numpy as np
import xarray as xr
from matplotlib.axes import Axes
from matplotlib.figure import Figure

from analysis.panels import colours, figure_panels
from analysis.plots.figure_files import (
    annotate_panel,
    draw_intervals,
    in_style,
    new_panels,
)
from analysis.transitions.interventions import (
    MEASURES,
    UNCHANGED,
    intervention_effect,
    paired_effects,
)

_LETTERS = 8
"""Letters in a line of the name of an intervention, if words allow it."""


@in_style
def plot_interventions(result: xr.Dataset) -> Figure:
    """Draw the mean change of spikes, of their rate and of accuracy with 95% intervals,
    and single pairs of runs.

    result: from `compare_interventions`.
    """
    title = (
        "Effect of each intervention on the same runs; dots: single runs; 95% intervals"
    )
    figure, panels = new_panels([4 / 3] * 3, title, names=figure_panels.INTERVENTIONS)
    titles = (
        "spikes per run",
        "spikes per 1000 epochs after the escape, all runs",
        "test accuracy at the end",
    )
    quantities = ("the number", "the number per 1000 epochs", "the accuracy")
    for axes, name, title, quantity in zip(
        panels, MEASURES, titles, quantities, strict=True
    ):
        _plot_effects(axes, result, name)
        axes.set(title=title, ylabel=f"change of {quantity}")
        if not np.isfinite(_effect_values(result, name)).any():
            axes.set_yticks([])
            why = "no run has escaped" if name == "rate" else "no run has a value"
            annotate_panel(axes, why)
    return figure


def _remedies(result: xr.Dataset) -> list[str]:
    """Names of the interventions."""
    return [str(value) for value in result["remedy"].values if value != UNCHANGED]


def _effect_values(result: xr.Dataset, name: str) -> list[float]:
    """The mean change of a measure by each intervention."""
    return [
        intervention_effect(result, remedy, name).value for remedy in _remedies(result)
    ]


def _plot_effects(axes: Axes, result: xr.Dataset, name: str) -> None:
    generator = np.random.default_rng(0)  # for horizontal positions only
    remedies = _remedies(result)
    for place, remedy in enumerate(remedies):
        if name != "rate":
            changes = paired_effects(result, remedy, name)
            x = place + generator.uniform(-0.25, 0.25, len(changes))
            axes.plot(x, changes, ".", color=colours.colour("muted"), alpha=0.6)
        effect = intervention_effect(result, remedy, name)
        if np.isfinite(effect.value):
            draw_intervals(
                axes,
                place,
                effect,
                fmt="o",
                color=colours.colour("ink"),
                capsize=4,
                zorder=3,
            )
    axes.axhline(0, color=colours.colour("muted"), linewidth=0.8)
    names = [textwrap.fill(remedy, _LETTERS) for remedy in remedies]
    axes.set_xticks(range(len(remedies)), names)
    axes.set_xlim(-0.6, len(remedies) - 0.4)
    axes.grid(False, axis="x")
