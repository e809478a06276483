"""Figure of the command `spikes`: examples step by step, causes, the rise that remains
after changes, and updates."""

import numpy as np
import xarray as xr
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.ticker import MaxNLocator, NullFormatter

from analysis.panels import colours, figure_panels
from analysis.plots.figure_files import (
    annotate_panel,
    draw_legend,
    in_style,
    new_panels,
)
from analysis.transitions.spike_attribution import (
    RISE_THRESHOLD,
    SPIKE_CAUSES,
    STEP_CHANGES,
)
from analysis.transitions.spike_replays import smooth_norm_applies

_CHANGE_LABELS = {
    "unflipped": "without\nflips",
    "smooth": "smooth\nnorm",
    "frozen": "MLP\nfrozen",
    "held": "ξ\nheld",
}

_MAX_EXAMPLES = 3
_LIMITS_OF_RISE = (-0.6, 1.6)
"""Remaining fractions of the rise beyond these are drawn at them."""


@in_style
def plot_spike_attribution(result: xr.Dataset) -> Figure:
    """Draw the result of `attribute_spikes`."""
    examples = _example_spikes(result)
    count = max(1, len(examples))
    example, *others = figure_panels.SPIKES
    names = [example] * count + others
    widths = [4 / count] * count + [1.1, 2, 0.9]
    figure, panels = new_panels(widths, names=names)
    for axes, spike in zip(panels, examples, strict=False):
        _plot_path(axes, result, spike)
    draw_legend(figure)
    if not examples:
        annotate_panel(panels[0], "no spike")
        panels[0].set_axis_off()
    _plot_causes(panels[-3], result)
    _plot_remaining_rise(panels[-2], result)
    _plot_update_ratios(panels[-1], result)
    return figure


def _cause_colours() -> dict[str, str]:
    return dict(
        zip(SPIKE_CAUSES, colours.series_colours(len(SPIKE_CAUSES)), strict=True)
    )


def _example_spikes(result: xr.Dataset) -> list[int]:
    """The highest spike of each cause, then the highest of all others, up to
    _MAX_EXAMPLES."""
    height = np.nan_to_num((result["top"] - result["level"]).values, nan=-np.inf)
    order = [
        int(k) for k in np.argsort(-height, kind="stable") if np.isfinite(height[k])
    ]
    causes = result["cause"].values
    first = [
        next(k for k in order if causes[k] == cause)
        for cause in SPIKE_CAUSES
        if (causes == cause).any()
    ]
    return sorted([*first, *(k for k in order if k not in first)][:_MAX_EXAMPLES])


def _plot_path(axes: Axes, result: xr.Dataset, spike: int) -> None:
    """Draw the loss of a spike at every step, its recorded peak, its foot and the step
    that is examined."""
    one = result.isel(spike=spike)
    offset = result["offset"].values
    path = one["path"].values
    at, foot = (int(one[name]) - int(one["step"]) for name in ("at", "foot"))
    axes.plot(offset, path, color=colours.colour("train"))
    axes.axvline(
        foot,
        color=colours.colour("muted"),
        linewidth=0.8,
        linestyle=":",
        label="start of the spike",
    )
    axes.plot(
        [at, at + 1],
        [float(one["loss_before"]), float(one["loss_after"])],
        linewidth=2.5,
        color=colours.colour("spike"),
        label="step examined",
    )
    axes.plot(
        0,
        float(one["height"]),
        "o",
        color=colours.colour("ink"),
        label="peak of the recorded loss",
    )
    cause = str(one["cause"].values)
    cause += f" ({one['way'].values} crosses)" if cause == "feed-forward" else ""
    finite = offset[np.isfinite(path)]
    axes.set(xlabel="steps from the recorded peak", ylabel="loss (nats)")
    axes.set_title(f"seed {int(one['of_seed'])}: {cause}")
    first = max(finite[0], foot - 60)
    axes.set_xlim(first, finite[-1])
    seen = path[offset >= first]
    margin = 0.05 * (np.nanmax(seen) - np.nanmin(seen)) or 0.05
    axes.set_ylim(np.nanmin(seen) - margin, np.nanmax(seen) + margin)


def _plot_causes(axes: Axes, result: xr.Dataset) -> None:
    """Draw the number of spikes by cause."""
    causes = result["cause"].values
    explained = result["explained"].values.astype(bool)
    for place, cause in enumerate(SPIKE_CAUSES):
        members = causes == cause
        count = members.sum()
        axes.bar(place, count, color=_cause_colours()[cause], alpha=0.35)
        axes.bar(place, (members & explained).sum(), color=_cause_colours()[cause])
        axes.annotate(
            f"{count}", (place, count), (0, 2), textcoords="offset points", ha="center"
        )
    names = [
        cause.replace("normalisation", "normal-\nisation").replace("-f", "-\nf")
        for cause in SPIKE_CAUSES
    ]
    axes.set_xticks(range(len(SPIKE_CAUSES)), names)
    axes.set(ylabel="number of spikes", title="causes; faint: not explained")
    axes.yaxis.set_major_locator(MaxNLocator(5, integer=True))
    axes.set_ylim(
        0, 1.12 * max(1, *((causes == cause).sum() for cause in SPIKE_CAUSES))
    )


def _plot_remaining_rise(axes: Axes, result: xr.Dataset) -> None:
    """Draw the fraction of each spike's rise that remains after each change of the
    step, by cause."""
    causes = result["cause"].values
    there = [cause for cause in SPIKE_CAUSES if (causes == cause).any()]
    generator = np.random.default_rng(0)  # for horizontal positions only
    applicable = smooth_norm_applies(result).any()
    low, high = _LIMITS_OF_RISE
    limited = False
    changes = [name for name in STEP_CHANGES if name != "smooth" or applicable]
    for place, change in enumerate(changes):
        for beside, cause in enumerate(there):
            selected = (causes == cause) & (
                (change != "smooth") | smooth_norm_applies(result)
            )
            values = result[f"remaining_{change}"].values[selected]
            limited |= bool(((values < low) | (values > high)).any())
            x = (
                place
                + 0.26 * (beside - (len(there) - 1) / 2)
                + generator.uniform(-0.09, 0.09, len(values))
            )
            axes.plot(
                x,
                np.clip(values, low, high),
                ".",
                color=_cause_colours()[cause],
                alpha=0.6,
                label=cause if place == 0 else None,
            )
    axes.axhline(
        RISE_THRESHOLD,
        color=colours.colour("muted"),
        linewidth=0.8,
        linestyle="-.",
        label="explained below",
    )
    axes.set_xticks(
        range(len(changes)),
        [_CHANGE_LABELS.get(change, change) for change in changes],
    )
    axes.set(
        ylabel=f"fraction of the rise, within {low} and {high}"
        if limited
        else "fraction of the rise",
        title="rise that remains after a change of the step",
    )
    if there:
        axes.legend(ncols=len(there), markerscale=1.5)


def _plot_update_ratios(axes: Axes, result: xr.Dataset) -> None:
    """Draw the largest update of normalised vectors, divided by their lengths; above 1
    they may flip."""
    bins = np.logspace(-3, 1, 41)
    input_colour, xi_colour = colours.series_colours()[6:]
    ratios = [result[name].values for name in ("input_ratio", "xi_ratio")]
    axes.hist(
        [np.clip(values[np.isfinite(values)], 1e-3, 10) for values in ratios],
        bins=bins.tolist(),
        color=[input_colour, xi_colour],
        label=["$E + P$", "ξ"],
    )
    axes.axvline(1, color=colours.colour("muted"), linestyle="--")
    axes.set(
        xscale="log",
        xlabel="|update| / |vector|",
        ylabel="number of spikes",
        title="largest update; above 1 it may flip",
    )
    axes.xaxis.set_major_formatter("{x:g}")
    axes.xaxis.set_minor_formatter(NullFormatter())
    axes.yaxis.set_major_locator(MaxNLocator(5, integer=True))
    axes.legend()
