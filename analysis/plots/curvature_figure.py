"""Figure of the linearised flow. Networks and particles share the first row of panels,
but not the second.

The title of each panel states what its lines and bands are; bands are omitted if there
are too few runs."""

from collections.abc import Callable
from typing import Any

import numpy as np
import xarray as xr
from matplotlib.axes import Axes
from matplotlib.figure import Figure

from analysis.linearization.curvature_table import (
    DECAY,
    finite_values_at,
    with_derived_variables,
)
from analysis.linearization.eigenmodes import NONE, NULL_MODE_TOLERANCE, STABILITY_KINDS
from analysis.output.counts import count_of
from analysis.panels import colours
from analysis.panels.colours import colour
from analysis.plots.curves import (
    fill_interval,
    in_units_of_time,
    layer_looks,
    log_limits,
    time_label,
)
from analysis.plots.figure_files import annotate_panel, in_style, new_panels
from analysis.statistics.intervals import (
    Interval,
    binomial_interval,
    mean_interval,
    median_interval,
)

_MOST_MARKERS = 100
"""Number of frames up to which lines have markers; of more, lines are thin."""


def colour_of(role: str) -> str:
    """Colours of growing and of decaying modes, of a third and a fourth quantity, or
    of a meaning."""
    places = {"growing": 3, "decaying": 0, "third": 4, "fourth": 2}
    return colours.series_colours()[places[role]] if role in places else colour(role)


@in_style
def plot_curvature(result: xr.Dataset) -> Figure:
    """Panels of the result of `linearize_trajectory`."""
    result = in_units_of_time(with_derived_variables(result))
    system = result.attrs["system"]
    title = f"The linearised flow over time: {system}, {count_of_runs(result)}"
    last = {"trace": _trace}
    if "x_smallest" in result:
        last = {"flips": _margins}
    second = {"movement": _movement, "layers": _layers, **last}
    width = 2.0
    if system == "particles":
        second = {"plane": _plane, "stability": _kinds, "rest": _rest}
        width = 4 / 3
    first = {"modes": _spectrum, "rates": _extremes, "growing": _growing}
    drawings = first | second
    figure, panels = new_panels([width] * 6, title, 1.1, list(drawings))
    for panel, draw in zip(panels, drawings.values(), strict=True):
        draw(panel, result)
    return figure


def linear_range(values: np.ndarray, decades: int) -> float:
    """The power of ten up to which a logarithmic axis with both signs is linear: that
    below all values, or so many decades below the largest."""
    sizes = np.abs(values[values != 0])
    largest = sizes.max(initial=0.0) or 1.0
    smallest = max(sizes.min(initial=largest), largest / 10.0**decades)
    return float(10.0 ** np.floor(np.log10(smallest)))


def _spectrum(panel: Axes, result: xr.Dataset) -> None:
    """All eigenmodes of the first run."""
    step = result["step"].values
    growth = result["growth_rate"].isel(run=0).values
    finite = growth[np.isfinite(growth)]
    largest = np.abs(finite).max(initial=0.0) or 1.0
    linear = linear_range(finite, 4)
    places = np.broadcast_to(step[:, None], growth.shape)
    for sign, kind in ((1, "growing"), (-1, "decaying")):
        visible = sign * growth > NULL_MODE_TOLERANCE * largest
        look: dict[str, Any] = {"s": 4, "color": colour_of(kind), "linewidths": 0}
        panel.scatter(places[visible], growth[visible], label=kind, **look)
    panel.set_yscale("symlog", linthresh=linear, linscale=1.0)
    limit = result["limit"].isel(run=0)
    formula = result.attrs["limit_formula"]
    _draw_limit(panel, -limit, f"−({formula})" if DECAY in formula else f"−{formula}")
    visible = limit.values[np.isfinite(limit.values)]
    limits = -3 * max([largest, *visible]), 3 * largest
    label = f"growth rate\n(linear to {linear:g})"
    xlabel = time_label(result)
    panel.set(xlabel=xlabel, ylabel=label, xlim=step_limits(step), ylim=limits)
    panel.set_title(f"modes of the run of seed {int(result['seed'].values[0])}")
    panel.legend(markerscale=3, ncols=3)


def _extremes(panel: Axes, result: xr.Dataset) -> None:
    """Fastest growth, and sharpness."""
    decay = result["sharpness"]
    growth = result["largest_growth"]
    plot_statistic(panel, decay, "decaying", "sharpness (fastest decay)")
    plot_statistic(
        panel, growth.where(growth > 0), "growing", "fastest growth, of runs that grow"
    )
    formula = result.attrs["limit_formula"]
    _draw_limit(panel, result["limit"].median("run"), formula)
    what = f"fastest modes against {formula}"
    finish_panel(panel, result, what, "rate", log=True, columns=2)


def _draw_limit(panel: Axes, limit: xr.DataArray, label: str) -> None:
    """The limit of stability (step,), which changes with the learning rate."""
    look: dict[str, Any] = {"color": colour("muted"), "linestyle": "--", "label": label}
    values = np.unique(limit.values[np.isfinite(limit.values)])
    if len(values) == 1:
        panel.axhline(values[0], **look)
    elif len(values):
        panel.plot(limit["step"], limit, **look)


def _growing(panel: Axes, result: xr.Dataset) -> None:
    if np.isfinite(result["growing_modes"].values).any():
        plot_statistic(panel, result["growing_modes"], "growing")
        panel.set_ylim(0, max(1.0, 1.1 * panel.get_ylim()[1]))
    elif result["sharpness"].notnull().any():
        annotate_panel(panel, "only the extreme eigenvalues are known")
    else:
        annotate_panel(panel, "no run has a mode here")
    total = result.attrs.get("parameters", result.sizes["mode"])
    what = f"growing modes of {total}"
    finish_panel(panel, result, what, "number of modes", "median")


def _movement(panel: Axes, result: xr.Dataset) -> None:
    """Fractions of the movement to the next frame, against chance."""
    lines = (
        ("lowest_share", "growing", "lowest eigenvalue"),
        ("negative_share", "fourth", "all negative ones"),
        ("highest_share", "decaying", "highest one"),
    )
    intervals = {
        name: intervals_of_frames(result[name], mean_interval) for name, *_ in lines
    }
    means = np.array([item.value for every in intervals.values() for item in every])
    floor = min(means[means > 0], default=1.0) / 3
    # fractions are in 0..1, unlike their t intervals, and logarithmic axes have no 0
    for name, role, label in lines:
        shares = [
            Interval(item.value, *np.clip([item.low, item.high], floor, 1.0))
            for item in intervals[name]
        ]
        _draw(panel, result["step"].values, shares, colour_of(role), label)
    for name, ink, label in (
        ("negative_chance", colour_of("fourth"), "chance, all negative"),
        ("lowest_chance", colour("muted"), "chance, one direction"),
    ):
        values = [
            item.value for item in intervals_of_frames(result[name], mean_interval)
        ]
        panel.plot(result["step"], values, color=ink, linestyle=":", label=label)
    what = "movement to the next frame"
    ylabel = "fraction of the squared movement"
    finish_panel(panel, result, what, ylabel, "means", log=True, columns=2)


def _layers(panel: Axes, result: xr.Dataset) -> None:
    """The highest eigenvalue of each layer's block."""
    highest = result["layer_highest"]
    looks = layer_looks(colours.layer_labels(result["layer"].values.tolist()))
    for place, look in enumerate(looks):
        intervals = intervals_of_frames(highest.isel(layer=place), median_interval)
        _draw(panel, result["step"].values, intervals, band=False, **look)
    has_values = highest.notnull().any() or result["sharpness"].isnull().all()
    if not has_values:
        annotate_panel(panel, "requires the whole Hessian")
    finish_panel(
        panel,
        result,
        "highest eigenvalue of each layer's block",
        "eigenvalue",
        log=bool(has_values),
        columns=3 if has_values else 0,
    )


def _trace(panel: Axes, result: xr.Dataset) -> None:
    plot_statistic(panel, result["trace"], "third")
    what = "trace of the Hessian"
    finish_panel(panel, result, what, "trace", "median")


def _margins(panel: Axes, result: xr.Dataset) -> None:
    """Flip ratios of E + P in all frames, and of sequences in the analysed frames."""
    at = result["frame_step"].values
    by_frame = (
        result["x_largest_flip_ratio"].rename(frame="step").assign_coords(step=at)
    )
    known = by_frame.isel(step=np.isfinite(by_frame.values).any(axis=0))
    plot_statistic(panel, known, "third", "largest of $E + P$")
    largest = result["xi_flip_ratio"].sel(quantile=1.0)
    plot_statistic(panel, largest, "fourth", r"largest of $\xi$")
    near = result.attrs["lr"] / result["xi_length"].sel(quantile=0.0)
    plot_statistic(panel, near, "decaying", r"lr / smallest $|\xi|$")
    label = "direction may reverse"
    panel.axhline(1, color=colour("muted"), linestyle="--", label=label)
    what = "flip ratio to the next frame"
    ylabel = "movement over distance"
    finish_panel(panel, result, what, ylabel, log=True, columns=2)
    panel.set(xlim=step_limits(at))


def _plane(panel: Axes, result: xr.Dataset) -> None:
    """The eigenmodes of all runs in the last frame."""
    growth, rotation = (
        result[name].isel(step=-1).values for name in ("growth_rate", "rotation_rate")
    )
    kinds = np.where(growth > 0, colour_of("growing"), colour_of("decaying")).ravel()
    look: dict[str, Any] = {"s": 5, "color": kinds, "linewidths": 0, "alpha": 0.5}
    panel.scatter(growth.ravel(), rotation.ravel(), **look)
    panel.axvline(0, color=colour("muted"), linewidth=0.8)
    finite = growth[np.isfinite(growth)]
    linear = linear_range(finite, 3)
    panel.set_xscale("symlog", linthresh=linear)
    panel.set(xlabel=f"growth rate (linear to {linear:g})", ylabel="rotation rate")
    low, high = finite.min(initial=0.0), finite.max(initial=0.0)
    panel.set_xlim(2 * min(low, -linear), 2 * max(high, linear))
    if not np.abs(rotation[np.isfinite(rotation)]).max(initial=0.0):
        panel.set_ylim(-1, 1)
    if not np.isfinite(growth).any():
        annotate_panel(panel, "no run has a mode here")
    last = f"{time_label(result)} {result['step'].values[-1]:g}"
    panel.set_title(f"modes of all runs at {last}")


def _kinds(panel: Axes, result: xr.Dataset) -> None:
    kind = result["kind"].values
    runs = (kind != NONE).sum(axis=0)
    roles = {"stable": "decaying", "saddle": "third", "unstable": "growing"}
    for name, role in roles.items():
        counts = (kind == STABILITY_KINDS[name]).sum(axis=0)
        intervals = [
            binomial_interval(int(count), int(total))
            for count, total in zip(counts, runs, strict=True)
        ]
        _draw(panel, result["step"].values, intervals, colour_of(role), name)
    panel.set(ylim=(-0.03, 1.03), yticks=[0, 0.25, 0.5, 0.75, 1])
    statistic = "fractions of runs"
    finish_panel(panel, result, "stability", "fraction of runs", statistic, columns=3)


def _rest(panel: Axes, result: xr.Dataset) -> None:
    plot_statistic(panel, result["rest"], "third", "normalised force over force")
    label = r"antisymmetric part of $\partial F / \partial x$"
    plot_statistic(panel, result["asymmetry"], "fourth", label)
    what = "distance from equilibrium, and asymmetry"
    finish_panel(panel, result, what, "fraction", log=True, columns=1)


# ----------------------------------------------------------- also of the other analyses


def count_of_runs(result: xr.Dataset) -> str:
    """The number of runs in words."""
    return count_of(result.sizes["run"], "run")


def intervals_of_frames(
    values: xr.DataArray, interval: Callable[[np.ndarray], Interval]
) -> list[Interval]:
    """The interval over runs of values (run, step) in each frame."""
    frames = range(values.sizes["step"])
    return [interval(finite_values_at(values, frame)) for frame in frames]


def plot_statistic(
    panel: Axes,
    values: xr.DataArray,
    role: str,
    label: str = "",
    interval: Callable[[np.ndarray], Interval] = median_interval,
    band: bool = True,
) -> None:
    """Draw medians, or another statistic, over runs of values (run, step), with their
    intervals. role: of `colour_of`."""
    intervals = intervals_of_frames(values, interval)
    _draw(panel, values["step"].values, intervals, colour_of(role), label, band)


def _draw(
    panel: Axes,
    step: np.ndarray,
    intervals: list[Interval],
    color: Any,
    label: str,
    band: bool = True,
    linestyle: str = "-",
) -> None:
    value, low, high = np.array(intervals).T
    look: dict[str, Any] = (
        {"marker": "o"} if len(step) <= _MOST_MARKERS else {"linewidth": 0.6}
    )
    panel.plot(step, value, linestyle, color=color, label=label, **look)
    if band and np.isfinite(low).any():
        fill_interval(panel, step, low, high, color)


def finish_panel(
    panel: Axes,
    result: xr.Dataset,
    what: str,
    ylabel: str,
    statistic: str = "medians",
    log: bool = False,
    columns: int = 0,
) -> None:
    """Set the title, the axes and the legend of a panel of curves over time.

    The title is what a panel shows and, for several runs, what its lines and bands are.
    log: whether the y axis is logarithmic. columns: of the legend; 0: without one."""
    bands = ", 95% bands" if panel.collections else ""
    title = f"{what}; {statistic}{bands}" if result.sizes["run"] > 1 else what
    limits = step_limits(result["step"].values)
    panel.set(xlabel=time_label(result), ylabel=ylabel, xlim=limits, title=title)
    if log:
        use_log_axis(panel)
    if columns:
        panel.legend(ncols=columns)


def use_log_axis(panel: Axes) -> None:
    """A logarithmic y axis over the curves and bands of a panel."""
    curves = [np.asarray(line.get_ydata(), dtype=np.float64) for line in panel.lines]
    curves += [
        np.asarray(path.vertices)[:, 1]
        for band in panel.collections
        for path in band.get_paths()
    ]
    values = (
        np.concatenate([np.ravel(curve) for curve in curves]) if curves else np.empty(0)
    )
    panel.set_yscale("log")
    panel.set_ylim(log_limits(values))
    if not (values > 0).any():
        annotate_panel(panel, "no value is above 0")


def step_limits(step: np.ndarray) -> tuple[float, float]:
    first, last = float(step[0]), float(step[-1])
    margin = 0.02 * (last - first) or 0.5
    return first - margin, last + margin
