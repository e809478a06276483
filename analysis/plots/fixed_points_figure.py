"""Figure of ideal circuits as fixed points: gradients, Hessian spectra, and descent
after perturbations."""

import numpy as np
import xarray as xr
from matplotlib.axes import Axes
from matplotlib.figure import Figure

from analysis.clustering_heads.circuit_landscape import CIRCUIT_GAINS, SETTLED
from analysis.panels import colours, figure_panels
from analysis.plots.figure_files import (
    draw_legend,
    in_style,
    legend_entries,
    new_panels,
)


def _direction_colours() -> dict[str, str]:
    """Colours of all directions, and of those that break a symmetry."""
    return {
        "all": colours.colour("muted"),
        **dict(zip(("order", "suffix"), colours.series_colours(4)[2:], strict=True)),
    }


@in_style
def plot_fixed_points(result: xr.Dataset) -> Figure:
    """Four panels of the result of `fixed_point_landscape`."""
    starts = [str(start) for start in result["start"].values]
    *first, descent = figure_panels.FIXED_POINTS
    names = (*first, *(descent for _ in starts))
    drawn, panels = new_panels([2] * len(names), names=names)
    _draw_gradients(panels[0], result)
    _draw_spectra(panels[1], result)
    for axes, start in zip(panels[2:], result["start"].values, strict=True):
        _draw_descent(axes, result.sel(start=start), str(start))
    if entries := legend_entries(drawn, panels[2:]):
        title = "perturbed, by length / norm of all parameters"
        draw_legend(drawn, entries, title=title, handlelength=3.5)
    return drawn


def _draw_gradients(axes: Axes, result: xr.Dataset) -> None:
    """Loss and norms of the gradient and of its symmetry-breaking part, for the
    population and a sample, over gain."""
    gains = {name: gain for name, gain in CIRCUIT_GAINS.items() if name != SETTLED}
    some = result.sel(circuit=list(gains))
    lines = (
        ("loss", some["loss"], colours.colour("muted"), "-"),
        ("gradient", some["gradient"], colours.colour("ink"), "-"),
        (
            "gradient, breaking order",
            some["broken"].sel(part="order"),
            _direction_colours()["order"],
            "-",
        ),
        (
            "the same on a training sample",
            some["sample_broken"].sel(part="order"),
            _direction_colours()["order"],
            "--",
        ),
    )
    for label, values, colour, style in lines:
        y = np.maximum(values.values, 1e-30)
        axes.plot(
            list(gains.values()),
            y,
            color=colour,
            linestyle=style,
            marker="o",
            markerfacecolor=colour if style == "-" else "none",
            label=label,
        )
    axes.set(
        yscale="log",
        xlabel="gain of the MLP",
        ylabel="norm, or loss (nats)",
    )
    axes.set_title("constructed circuits, no weight decay")
    axes.legend(handlelength=3.5)


def _draw_spectra(axes: Axes, result: xr.Dataset) -> None:
    """Eigenvalues of the Hessian at the perturbed circuits, in all and in
    symmetry-breaking directions."""
    starts = [str(name) for name in result["start"].values]
    for place, start in enumerate(starts):
        for offset, (part, colour) in zip(
            (-0.25, 0.0, 0.25), _direction_colours().items(), strict=True
        ):
            values = (
                result["eigenvalue" if part == "all" else f"{part}_eigenvalue"]
                .sel(circuit=start)
                .values
            )
            label = (
                None
                if place
                else "all directions"
                if part == "all"
                else f"breaking {part}"
            )
            x = np.full(len(values), place + offset)
            axes.plot(x, values, "_", markersize=16, color=colour, label=label)
    largest = float(np.abs(result["eigenvalue"].sel(circuit=starts)).max())
    axes.set_yscale("symlog", linthresh=1e-8)
    ticks = [10.0**power for power in range(-8, int(np.ceil(np.log10(largest))) + 1, 2)]
    axes.set_yticks([*(-tick for tick in ticks[:4]), 0, *ticks])
    axes.axhline(0, color=colours.colour("muted"), linewidth=0.7)
    axes.set_xticks(range(len(starts)), starts)
    axes.set(
        xlim=(-0.6, len(starts) - 0.4),
        ylabel="eigenvalue of the Hessian",
    )
    axes.set_title("curvature; axis linear below $10^{-8}$")
    axes.legend()


def _draw_descent(axes: Axes, one: xr.Dataset, start: str) -> None:
    """The order fraction after perturbations that break order, by their length."""
    styles = dict(
        zip(
            sorted({float(size) for size in one["push"].values if size}),
            (":", "--", "-"),
            strict=False,
        )
    )
    labelled = set()
    for place in range(one.sizes["pushed"]):
        kind = str(one["kind"].values[place])
        size = float(one["push"].values[place])
        if kind not in ("order", "all"):
            continue
        values = np.maximum(one["order_share"].values[:, place], 1e-16)
        label = (
            f"{'P of non-spurious positions' if kind == 'order' else 'all parameters'},"
            f" {size:g}"
        )
        colour = (
            _direction_colours()["order"] if kind == "order" else colours.colour("ink")
        )
        axes.plot(
            one["step"],
            values,
            color=colour,
            linestyle=styles.get(size, "-."),
            label=None if label in labelled else label,
        )
        labelled.add(label)
    axes.set(
        yscale="log", xlabel="step of gradient descent", ylabel="largest order fraction"
    )
    axes.set_title(f"after perturbations, {start}")
