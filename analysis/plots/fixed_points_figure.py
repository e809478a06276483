"""The ideal circuit as a fixed point: gradients against size, Hessian spectra, and the return after a push."""

import numpy as np
import xarray as xr
from matplotlib.axes import Axes
from matplotlib.figure import Figure

from analysis.plots.figure_files import new_figure

_PART_COLOURS = {"all": "0.55", "order": "tab:blue", "suffix": "tab:orange"}


def plot_fixed_points(found: xr.Dataset) -> Figure:
    """Four panels for what `analysis.fixed_points.fixed_point_landscape` found."""
    drawn = new_figure(16.0, 4.9)
    panels = drawn.subplots(1, 4)
    _draw_gradients(panels[0], found)
    _draw_spectra(panels[1], found)
    for axes, start in zip(panels[2:], found["start"].values, strict=True):
        _draw_returns(axes, found.sel(start=start), str(start))
    lines, labels = panels[-1].get_legend_handles_labels()
    about = "pushed, by share of the norm of all parameters"
    drawn.legend(lines, labels, loc="lower right", ncols=max(1, len(labels) // 2), frameon=False, fontsize=8,
                 bbox_to_anchor=(0.99, 0.0), title=about, title_fontsize=8)  # fmt: skip
    for axes in panels:
        axes.tick_params(labelsize=8)
        axes.grid(color="0.92", linewidth=0.7)
        axes.set_axisbelow(True)
    drawn.subplots_adjust(left=0.045, right=0.99, top=0.92, bottom=0.26, wspace=0.27)
    return drawn


def _draw_gradients(axes: Axes, found: xr.Dataset) -> None:
    """Norms of the gradient and of its breaking part, of the population and of a sample, against the gain."""
    built = [name for name in found["circuit"].values if name.startswith("gain")]
    gains = [float(name.split()[1]) for name in built]
    some = found.sel(circuit=built)
    lines = {
        "loss": (some["loss"], "0.55", "-"),
        "gradient": (some["gradient"], "black", "-"),
        "of it, breaking order": (some["broken"].sel(part="order"), "tab:blue", "-"),
        "the same, training sample": (some["sample_broken"].sel(part="order"), "tab:blue", "--"),
    }
    for name, (values, colour, style) in lines.items():
        shown = np.maximum(values.values, 1e-30)
        axes.plot(gains, shown, color=colour, linestyle=style, marker="o", markersize=4, label=name)
    axes.set(yscale="log", xlabel="gain (size of the transform)", ylabel="norm, or loss")
    axes.set_title("Built by hand, no weight decay", fontsize=9, loc="left")
    axes.legend(frameon=False, fontsize=8, loc="lower left")


def _draw_spectra(axes: Axes, found: xr.Dataset) -> None:
    """Eigenvalues of the Hessian of the circuits that are pushed, in all and in breaking directions."""
    starts = [str(name) for name in found["start"].values]
    names, shift = ["eigenvalue", "order_eigenvalue", "suffix_eigenvalue"], (-0.25, 0.0, 0.25)
    for place, start in enumerate(starts):
        one = found.sel(circuit=start)
        for offset, name, colour in zip(shift, names, _PART_COLOURS.values(), strict=True):
            values = one[name].values
            label = {"eigenvalue": "all directions"}.get(name, "breaking " + name.split("_")[0]) if not place else None
            axes.plot(np.full(len(values), place + offset), values, "_", markersize=16, color=colour, label=label)
    largest = float(np.abs(found["eigenvalue"].sel(circuit=starts)).max())
    axes.set_yscale("symlog", linthresh=1e-8)
    ticks = [10.0**power for power in range(-8, int(np.ceil(np.log10(largest))) + 1, 2)]
    axes.set_yticks([*(-tick for tick in ticks[:4]), 0, *ticks])
    axes.axhline(0, color="0.4", linewidth=0.7)
    axes.set_xticks(range(len(starts)), starts)
    axes.set(xlim=(-0.6, len(starts) - 0.4), ylabel="eigenvalue of the Hessian")
    axes.set_title("Curvature (linear below 1e-8)", fontsize=9, loc="left")
    axes.legend(frameon=False, fontsize=8, loc="lower right")


def _draw_returns(axes: Axes, one: xr.Dataset, start: str) -> None:
    """The order share after pushes of all kinds that break it, by their length."""
    kinds, sizes = one["kind"].values, one["push"].values
    styles = dict(zip(sorted({float(size) for size in sizes if size}), (":", "--", "-"), strict=False))
    for place in range(one.sizes["pushed"]):
        kind, size = str(kinds[place]), float(sizes[place])
        if kind not in ("order", "all"):
            continue
        values = np.maximum(one["order_share"].values[:, place], 1e-16)
        first = place == int(((kinds == kind) & (sizes == size)).argmax())
        label = f"{'P of counting positions' if kind == 'order' else 'all parameters'}, {size:g}" if first else None
        colour = _PART_COLOURS["order"] if kind == "order" else "black"
        axes.plot(one["step"], values, color=colour, linestyle=styles.get(size, "-."), linewidth=1.2, label=label)
    axes.set(yscale="log", xlabel="step of gradient descent", ylabel="largest order share")
    axes.set_title(f"After pushes, {start}", fontsize=9, loc="left")
