"""Figure of committors along runs, under the loss or the norm of the force."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np
import xarray as xr
from matplotlib.colors import to_rgb
from matplotlib.figure import Figure
from matplotlib.patches import Patch

from analysis.committors import explained_variance
from analysis.output.counts import count_of
from analysis.panels import figure_panels
from analysis.panels.colours import (
    class_colours,
    colour,
    interval_opacity,
    pale_colours,
)
from analysis.plots.curves import loss_label
from analysis.plots.figure_files import in_style, new_panels
from dynamics.settings import ParticleSettings
from dynamics.trajectory.diverged import mask_diverged

_SHIFT = 0.004
"""Distance in normalised time between the intervals of two results at one step."""


@in_style
def plot_committors(trajectory: xr.Dataset, result: xr.Dataset) -> Figure:
    """The loss of each run, or the norm of the force, and below it the fraction of the
    copies that end with the outcome; coloured by the end of the run itself. Beside it
    the last embeddings of a run that has the outcome, and of one that has not."""
    copies = f"{result.attrs['copies']} copies"
    if changes := result.attrs.get("changes"):
        copies += f" with {changes}"
    copies += f" displaced by {float(result['displacement'][0]):g} of the spread"
    if result.attrs.get("direction"):
        copies += " along the fastest growing mode"
    title = (
        f"Committors of {count_of(result.sizes['run'], 'run')}: {result.attrs['system']},"
        f" {copies}, outcome {result.attrs['outcome']}"
    )
    loss, force, committor = figure_panels.FATE
    panels = (loss if "loss" in trajectory else force, committor)
    figure, (above, below) = new_panels([4, 4], title, names=panels)
    series, name = _scalar(trajectory)
    ends = {1.0: colour("successful"), 0.0: colour("failed")}
    # bands of many runs lie on each other
    opacity = max(0.06, min(interval_opacity(), 2 / result.sizes["run"]))
    for run, has_outcome in enumerate(result["outcome"].values.tolist()):
        if has_outcome not in ends:
            continue
        look: dict[str, Any] = {
            "color": ends[has_outcome],
            "linewidth": 1,
            "alpha": 0.8,
        }
        above.plot(trajectory["step"], series.isel(run=run), **look)
        at = result.isel(run=run, displacement=0).dropna("step", subset=["committor"])
        below.plot(at["step"], at["committor"], marker=".", **look)
        below.fill_between(
            at["step"].values,
            at["committor_low"].values,
            at["committor_high"].values,
            color=ends[has_outcome],
            alpha=opacity,
            linewidth=0,
        )
    for has_outcome, label in ((1.0, "the run has the outcome"), (0.0, "it has not")):
        if has_outcome in result["outcome"]:
            below.plot([], [], color=ends[has_outcome], label=label)
    below.axhline(
        0.5, color=colour("muted"), linewidth=0.8, linestyle="--", label="half"
    )
    interval = Patch(color=colour("muted"), alpha=opacity, label="bands: 95% intervals")
    limits = float(trajectory["step"][0]), float(result.attrs["until"])
    if (series > 0).all():
        above.set_yscale("log")
    above.set(ylabel=name, xlim=limits)
    below.set(
        xlabel="step",
        ylabel="committor (fraction of copies)",
        xlim=limits,
        ylim=(-0.03, 1.03),
    )
    below.legend(handles=[*below.get_legend_handles_labels()[0], interval], ncols=2)
    for has_outcome in ends:
        runs = np.flatnonzero(result["outcome"] == has_outcome)
        if runs.size and "embedding" in trajectory:
            place = below.inset_axes((1.02, 0.5 * has_outcome + 0.02, 0.12, 0.38))
            points = trajectory["embedding"].isel(run=runs[0], step=-1, axis=[0, -1])
            x, y = points.transpose("axis", "token").values
            place.scatter(x, y, s=5, c=class_colours(len(x)), clip_on=False)
            place.set_aspect("equal", adjustable="datalim")
            place.set(xticks=[], yticks=[])
            place.margins(0.12)
            place.spines[:].set(visible=True, color=ends[has_outcome])
            place.set_title(f"end, seed {int(trajectory['seed'][runs[0]])}", pad=2)
    return figure


@in_style
def plot_explained_variance(results: Mapping[str, xr.Dataset]) -> Figure:
    """The fraction of the variance of the outcome that states explain, with 95%
    intervals: at the left the first states of each result of `committor`, at the right
    those of the later steps."""
    figure, (first, later) = new_panels(
        [5, 4], "How much of the end do states explain? (95% intervals)"
    )
    names = list(results)
    several = [name for name in names if results[name].sizes["step"] > 1]
    inks = _system_shades(results)
    for place, (name, result) in enumerate(results.items()):
        intervals = np.array(
            [explained_variance(result, at) for at in range(result.sizes["step"])]
        )
        value, low, high = np.clip(intervals.T, 0, 1)
        errors = np.nan_to_num([value - low, high - value])
        look: dict[str, Any] = {
            "color": inks[name],
            "marker": "o",
            "markersize": 4,
            "capsize": 2,
        }
        first.errorbar(value[0], place, xerr=errors[:, :1], **look)
        if name in several:
            times = (result["step"] / result.attrs["until"]).values
            beside = _SHIFT * (several.index(name) - (len(several) - 1) / 2)
            later.errorbar(times + beside, value, yerr=errors, label=name, **look)
    first.set(
        xlabel="fraction of the variance that the first state explains",
        xlim=(-0.03, 1.03),
    )
    first.set_yticks(range(len(names)), names)
    first.invert_yaxis()
    later.set(xlabel="normalised time (points at one time are drawn side by side)")
    later.set(ylabel="explained variance", ylim=(-0.03, 1.03))
    later.legend()
    return figure


def _system_shades(results: Mapping[str, xr.Dataset]) -> dict[str, np.ndarray]:
    """Colours of results by their names: violet for particles, green for networks. Those
    results that have several steps get different shades of their colour."""
    shades: dict[str, np.ndarray] = {}
    for particles in (True, False):
        ink = np.array(to_rgb(colour("particles" if particles else "network")))
        names = [
            name
            for name, result in results.items()
            if (result.attrs.get("system") == ParticleSettings.system) == particles
        ]
        several = [name for name in names if results[name].sizes["step"] > 1]
        shades |= dict.fromkeys(names, ink)
        for name, opacity in zip(
            several, np.linspace(1, 0.5, len(several)), strict=True
        ):
            shades[name] = pale_colours(ink, opacity)
    return shades


def _scalar(trajectory: xr.Dataset) -> tuple[xr.DataArray, str]:
    """The training loss, (run, step), or the norm of the gradient over all layers, and
    its name."""
    if "loss" in trajectory:
        loss = trajectory["loss"].isel(split=0)
        return mask_diverged(loss, trajectory), loss_label(trajectory.attrs["system"])
    norm = (trajectory["gradient_norm"] ** 2).sum("layer") ** 0.5
    return mask_diverged(norm, trajectory), "norm of the force"
