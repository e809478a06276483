"""Figure of the normalisation near the origin: how far a step turns a vector there, and
how near to it runs come."""

import numpy as np
import xarray as xr
from matplotlib.axes import Axes
from matplotlib.patches import Circle
from matplotlib.ticker import LogLocator, NullFormatter

from analysis.linearization.normalisation import (
    normalisation_jacobian_norm,
    normalised_length,
)
from analysis.linearization.normalisation_margin import measure_normalisation_margins
from analysis.output.counts import count_of
from analysis.panels.colours import colour, series_colours
from analysis.plots.figure_files import new_figure
from analysis.reproduction.figures.figure import (
    SPARSE,
    DrawnFigure,
    FigureData,
    PaperFigure,
    sparse_settings,
)
from dynamics.settings import SparseSettings
from dynamics.trajectory.success import successful_runs

DISTANCES = (0.08, 0.5, 1.4)
"""Distances of points from the origin in the sketch."""

STEP = 0.3
"""What each of them is moved by."""


def vc12(data: FigureData) -> DrawnFigure:
    """How far equal steps turn normalised vectors; the derivative of the norms; how
    near to the origin runs come."""
    trajectory = data.only
    settings = sparse_settings(trajectory)
    normalisation_margins = measure_normalisation_margins(
        trajectory, [trajectory.sizes["step"] - 1]
    )
    figure = new_figure(10.5, 3.7, layout="constrained")
    left, middle, right = figure.subplots(1, 3)
    _draw_steps(left, normalised_length(settings.norm, 2))
    _draw_slopes(middle, settings)
    moved = _draw_approach(right, normalisation_margins, successful_runs(trajectory))
    for axes in (middle, right):
        axes.legend(loc="upper right", borderaxespad=0.1)
    every = int(np.ptp(trajectory["step"].values[:2]))
    rule = (
        "Left: a sketch, as in the paper: the same small step turns a vector little far"
        " from the origin and reverses it near the origin. Middle: largest slope of the"
        " norms. Right: of each run, the smallest length of an E + P and its largest"
        " movement between recorded frames over its length."
    )
    here = f"{moved} within {every} steps (between recorded frames)"
    return DrawnFigure(figure, here, rule, trajectory["seed"].values.tolist())


def _draw_steps(axes: Axes, radius: float) -> None:
    """Points that are moved by the same step, and where both are normalised to."""
    axes.add_patch(Circle((0, 0), radius, fill=False, edgecolor="0.6", linewidth=1))
    for distance, shade in zip(DISTANCES, series_colours(3), strict=True):
        x = distance * np.array([np.cos(-0.9), np.sin(-0.9)])
        moved = x + STEP * np.array([0.0, 1.0])
        ends = [radius * item / np.linalg.norm(item) for item in (x, moved)]
        angles = np.unwrap([np.arctan2(*item[::-1]) for item in ends])
        arc = np.linspace(float(angles[0]), float(angles[1]), 50)
        axes.plot(
            radius * np.cos(arc),
            radius * np.sin(arc),
            color=shade,
            linewidth=4,
            alpha=0.5,
        )
        for point, end in zip((x, moved), ends, strict=True):
            axes.plot(
                *np.stack([point, end]).T, color=shade, linewidth=0.7, linestyle=":"
            )
        axes.annotate(
            "",
            tuple(moved),
            tuple(x),
            arrowprops={"arrowstyle": "->", "color": shade, "linewidth": 2},
        )
        turn = np.degrees(abs(np.diff(angles)[0]))
        axes.plot(
            [],
            [],
            color=shade,
            linewidth=3,
            label=f"|x| = {distance:g}: turned by {turn:.0f}°",
        )
    axes.plot(0, 0, "k+", markersize=9)
    reach = 1.75 * max(radius, 1.0)
    axes.set(
        xlim=(-reach, reach),
        ylim=(-0.75 * reach, 1.25 * reach),  # with room for the legend above the circle
        aspect="equal",
        xlabel="first axis",
        ylabel="second axis",
    )
    axes.set_title(f"the same step of {STEP:g}, and N(x) on the circle")
    axes.legend(loc="upper left")


def _draw_slopes(axes: Axes, settings: SparseSettings) -> None:
    """The operator norm of N' against the distance from the origin, sharp and
    smooth."""
    kind = "rms" if settings.norm.startswith("rms") else "unit"
    length = np.logspace(-3, 1, 400)
    norms = {kind: "x / |x|", f"{kind}-smooth": "σ(|x|) x / |x|, the remedy"}
    for (norm, word), shade in zip(norms.items(), series_colours(2), strict=True):
        values = normalisation_jacobian_norm(length, norm, settings.dim)  # type: ignore[arg-type]
        axes.plot(length, values, color=shade, linewidth=1.8, label=f"{word} ({norm})")
    axes.set(
        xscale="log",
        yscale="log",
        xlabel="|x|, distance from the origin",
        ylabel="largest slope |N'(x)|",
    )
    axes.set_ylim(top=50 * axes.dataLim.y1)  # room for the legend
    axes.set_title("slopes of the norm near the origin")


def _draw_approach(axes: Axes, result: xr.Dataset, success: np.ndarray) -> str:
    """Each run's nearest approach of E + P to the origin and its largest movement in
    lengths; how many may flip."""
    near = np.nanmin(result["x_smallest"].values, axis=1)
    ratios = result["x_largest_flip_ratio"].values
    ratio = np.where(np.isfinite(ratios), ratios, 0.0).max(axis=1)
    for of, meaning, mark in ((~success, "failed", "x"), (success, "successful", "o")):
        axes.plot(
            near[of],
            ratio[of],
            mark,
            color=colour(meaning),
            markersize=5,
            linestyle="none",
            label=meaning,
        )
    axes.axhline(1, color="0.3", linewidth=0.9, linestyle="--")
    axes.set(
        xscale="log",
        yscale="log",
        xlabel="smallest |E + P| of a run",
        ylabel="largest movement / |E + P|",
    )
    axes.set_title("how near runs come")
    for axis in (axes.xaxis, axes.yaxis):
        axis.set_major_locator(LogLocator(subs=(1, 2, 5)))
        axis.set_major_formatter("{x:g}")
        axis.set_minor_formatter(NullFormatter())
    return (
        f"E + P moves by more than its length in {int((ratio > 1).sum())} of"
        f" {count_of(len(ratio), 'run')}"
    )


FIGURES = (
    PaperFigure(
        "vc12",
        "steps near the origin of the normalisation: a sketch as the paper's; next to it"
        " slopes of the norms, and distances of runs from the origin",
        SPARSE,
        "1 minute",
        vc12,
    ),
)
