"""Curves of loss or accuracy over training: the mean over runs of each split, and single runs in pale colours."""

import numpy as np
import xarray as xr
from matplotlib.axes import Axes
from matplotlib.collections import LineCollection
from matplotlib.ticker import LogLocator, NullFormatter

from analysis.plots.drawing.colours import split_colours
from analysis.plots.figure_files import draw_grid
from dynamics.trajectory.diverged import count_diverged, mask_diverged

_MAX_SINGLE_RUNS = 200
"""Largest number of single runs that are drawn; the mean is over all runs."""


def metric_curves(trajectory: xr.Dataset, name: str) -> tuple[np.ndarray, np.ndarray]:
    """A metric (run, split, step), NaN after a run has diverged, and its mean over the other runs (split, step)."""
    each = mask_diverged(trajectory[name], trajectory).transpose("run", "split", "step").astype(np.float64)
    finite = each.where(np.isfinite(each))
    return finite.values, finite.mean("run").values


def plot_metric_curves(axes: Axes, trajectory: xr.Dataset, name: str, single: str | None = None) -> None:
    """Draw a metric against epochs: the mean over all runs of each split, and single runs in pale colours.

    single: draw single runs of this split only, in grey; None draws those of all splits in their colours.
    """
    each, mean = metric_curves(trajectory, name)
    if name == "loss":
        each, mean = _set_log_loss_axis(axes, each, mean)
    else:
        axes.set(ylim=(-0.03, 1.03), ylabel=name)
    epoch = trajectory["epoch"].values
    some = each[:_MAX_SINGLE_RUNS] if len(each) > 1 else each[:0]
    splits = trajectory["split"].values.astype(str).tolist()
    for place, (split, colour) in enumerate(zip(splits, split_colours(splits), strict=True)):
        if single in (None, split):
            lines = [np.stack([epoch, values], axis=-1) for values in some[:, place]]
            faint = max(0.08, min(0.35, 4 / max(1, len(lines))))
            thin = LineCollection(lines, colors="0.2" if single else colour, linewidths=0.8, alpha=faint)
            axes.add_collection(thin, autolim=False)
        mark = "o" if len(epoch) == 1 else ""
        axes.plot(epoch, mean[place], color=colour, linewidth=1.8, marker=mark, label=split)
    first, last = epoch[0], epoch[-1]
    axes.set(xlabel="epoch", xlim=(first, last) if last > first else (first - 0.5, first + 0.5))
    draw_grid(axes)


def _set_log_loss_axis(axes: Axes, each: np.ndarray, mean: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Set a logarithmic axis over the losses; returns them with zeros replaced by the lower end of the axis."""
    positive = each[each > 0]
    low, high = (positive.min(), positive.max()) if positive.size else (0.1, 1.0)
    low, high = low / 1.25, high * 1.25
    zeros = bool((each == 0).any())
    axes.set(yscale="log", ylim=(low, high), ylabel="loss (0 at the lower edge)" if zeros else "loss")
    axes.yaxis.set_major_locator(LogLocator(subs=(1, 2, 5) if high < 100 * low else (1,), numticks=7))
    axes.yaxis.set_major_formatter("{x:g}")
    axes.yaxis.set_minor_formatter(NullFormatter())
    return np.maximum(each, low), np.maximum(mean, low)


def curves_caption(trajectory: xr.Dataset) -> str:
    """Caption that explains the thick and the thin lines."""
    runs = trajectory.sizes["run"]
    diverged = count_diverged(trajectory)
    lost = f" ({diverged} diverged)" if diverged else ""
    if runs == 1:
        return f"one run{', diverged' if diverged else ''}"
    some = f"the first {_MAX_SINGLE_RUNS} runs" if runs > _MAX_SINGLE_RUNS else "single runs"
    return f"thick: mean of {runs} runs{lost}; thin: {some}"
