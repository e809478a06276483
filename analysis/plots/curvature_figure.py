"""Figure of the linearised flow. Networks and particles share the first row of panels,
but not the second.

The title of each panel states what its lines and bands are; bands are omitted if there
are too few runs."""

import numpy as np
import xarray as xr
from matplotlib.axes import Axes
from matplotlib.figure import Figure

from analysis.linearization.curvature_table import (
    finite_values_at,
    median_interval,
    with_derived_variables,
)
from analysis.linearization.eigenmodes import NONE, NULL_MODE_TOLERANCE, STABILITY_KINDS
from analysis.panels import colours
from analysis.plots.figure_files import in_style, new_panels
from analysis.statistics.intervals import Interval, binomial_interval, mean_interval


def colour_of(quantity: str) -> str:
    """Colours of growing and of decaying modes, and of a third and a fourth
    quantity."""
    places = {"growing": 3, "decaying": 0, "third": 4, "fourth": 2}
    return colours.series_colours()[places[quantity]]


@in_style
def plot_curvature(result: xr.Dataset) -> Figure:
    """Panels of the result of `linearize_trajectory`."""
    result = with_derived_variables(result)
    runs = result.sizes["run"]
    caption = f"{runs} runs" if runs > 1 else "one run"
    title = f"The linearised flow along a run: {result.attrs['system']}, {caption}"
    is_network = result.attrs["system"] != "particles"
    widths = [4 / 3] * 3 + [2 if is_network else 4 / 3] * 3
    figure, panels = new_panels(widths, title, height=1.1)
    _spectrum(panels[0], result)
    _extremes(panels[1], result)
    _growing(panels[2], result)
    if not is_network:
        _plane(panels[3], result)
        _kinds(panels[4], result)
        _rest(panels[5], result)
    else:
        _movement(panels[3], result)
        _layers(panels[4], result)
        if "x_smallest" in result:
            _margins(panels[5], result)
        else:
            _trace(panels[5], result)
    return figure


def _spectrum(panel: Axes, result: xr.Dataset) -> None:
    """All eigenmodes of the first run."""
    step, growth = result["step"].values, result["growth_rate"].isel(run=0).values
    finite = growth[np.isfinite(growth)]
    largest = np.abs(finite).max(initial=0.0) or 1.0
    linear = 10.0 ** np.floor(np.log10(largest) - 4)
    places = np.broadcast_to(step[:, None], growth.shape)
    for sign, colour, label in (
        (1, colour_of("growing"), "growing"),
        (-1, colour_of("decaying"), "decaying"),
    ):
        visible = sign * growth > NULL_MODE_TOLERANCE * largest
        panel.scatter(
            places[visible],
            growth[visible],
            s=4,
            color=colour,
            label=label,
            linewidths=0,
        )
    panel.set_yscale("symlog", linthresh=linear, linscale=1.0)
    threshold = result.attrs["threshold"]
    panel.axhline(
        -threshold, color=colours.colour("muted"), linestyle="--", label="-2/lr"
    )
    panel.set_ylim(-3 * max(largest, threshold), 1e3 * largest)
    panel.set(
        xlabel="step", ylabel="growth rate (dimensionless)", xlim=step_limits(step)
    )
    panel.set_title(f"modes of the run of seed {int(result['seed'].values[0])}")
    panel.legend(markerscale=3, ncols=3, loc="upper center")


def _extremes(panel: Axes, result: xr.Dataset) -> None:
    """Fastest growth, and sharpness."""
    plot_statistic(
        panel,
        result,
        "sharpness",
        colour_of("decaying"),
        "sharpness (fastest decay)",
        median_interval,
    )
    grows = result["largest_growth"].where(result["largest_growth"] > 0)
    plot_statistic(
        panel,
        result.assign(grows=grows),
        "grows",
        colour_of("growing"),
        "fastest growth, if any",
        median_interval,
    )
    panel.axhline(
        result.attrs["threshold"],
        color=colours.colour("muted"),
        linestyle="--",
        label="2/lr",
    )
    panel.set(
        xlabel="step",
        ylabel="rate (dimensionless)",
        xlim=step_limits(result["step"].values),
    )
    use_log_axis(panel)
    title_panel(panel, result, "fastest modes against 2/lr", "medians")
    panel.legend(ncols=2, loc="upper center")


def _growing(panel: Axes, result: xr.Dataset) -> None:
    if np.isfinite(result["growing_modes"].values).any():
        plot_statistic(
            panel, result, "growing_modes", colour_of("growing"), "", median_interval
        )
        panel.set_ylim(0, max(1.0, 1.1 * panel.get_ylim()[1]))
    elif result["sharpness"].notnull().any():
        annotate_panel(panel, "only the extreme eigenvalues are known")
    else:
        annotate_panel(panel, "no run has a mode here")
    panel.set(xlabel="step", ylabel="modes", xlim=step_limits(result["step"].values))
    total = result.attrs.get("parameters", result.sizes["mode"])
    title_panel(panel, result, f"growing modes of {total}", "median")


def _movement(panel: Axes, result: xr.Dataset) -> None:
    """Fractions of the movement to the next frame, against chance."""
    lines = (
        ("lowest_share", colour_of("growing"), "lowest eigenvalue"),
        ("negative_share", colour_of("fourth"), "all negative ones"),
        ("highest_share", colour_of("decaying"), "highest one"),
    )
    step = result["step"].values
    intervals = {
        name: [
            mean_interval(finite_values_at(result[name], at)) for at in range(len(step))
        ]
        for name, _, _ in lines
    }
    means = np.array([item.value for every in intervals.values() for item in every])
    floor = min(means[means > 0], default=1.0) / 3
    for (
        name,
        colour,
        label,
    ) in lines:  # fractions are in 0..1, unlike their t intervals, and logarithmic axes have no 0
        shares = [
            Interval(
                interval.value, *np.clip([interval.low, interval.high], floor, 1.0)
            )
            for interval in intervals[name]
        ]
        _draw(panel, step, shares, colour, label)
    for name, colour in (
        ("negative_chance", colour_of("fourth")),
        ("lowest_chance", colours.colour("muted")),
    ):
        values = [
            mean_interval(finite_values_at(result[name], step)).value
            for step in range(result.sizes["step"])
        ]
        label = (
            "chance, one direction"
            if name == "lowest_chance"
            else "chance, all negative"
        )
        panel.plot(result["step"], values, color=colour, linestyle=":", label=label)
    panel.set(
        xlabel="step", ylabel="fraction of the squared movement", xlim=step_limits(step)
    )
    use_log_axis(panel)
    title_panel(panel, result, "movement to the next frame", "means")
    panel.legend(ncols=2, loc="upper center")


def _layers(panel: Axes, result: xr.Dataset) -> None:
    """The highest eigenvalue of each layer's block."""
    for place, layer in enumerate(result["layer"].values):
        one = result.assign(one=result["layer_highest"].isel(layer=place))
        colour = colours.series_colours()[place % 8]
        plot_statistic(
            panel,
            one,
            "one",
            colour,
            str(layer).replace("_", " "),
            median_interval,
            band=False,
        )
    panel.set(
        xlabel="step",
        ylabel="eigenvalue (dimensionless)",
        xlim=step_limits(result["step"].values),
    )
    title_panel(panel, result, "highest eigenvalue of each layer's block", "medians")
    if result["layer_highest"].notnull().any() or result["sharpness"].isnull().all():
        use_log_axis(panel)
        panel.legend(ncols=3, loc="upper center")
    else:
        annotate_panel(panel, "requires the whole Hessian")


def _trace(panel: Axes, result: xr.Dataset) -> None:
    plot_statistic(panel, result, "trace", colour_of("third"), "", median_interval)
    panel.set(
        xlabel="step",
        ylabel="trace (dimensionless)",
        xlim=step_limits(result["step"].values),
    )
    title_panel(panel, result, "trace of the Hessian", "median")


def _margins(panel: Axes, result: xr.Dataset) -> None:
    """Flip ratios of E + P in all frames, and of sequences in the analysed frames."""
    frames = result["x_largest_flip_ratio"].values
    ratio = np.where(np.isfinite(frames), frames, np.nan)
    known_frames = np.isfinite(ratio).any(axis=0)
    at, some = result["frame_step"].values[known_frames], ratio[:, known_frames]
    low, middle, high = (
        np.nanquantile(some, (0.05, 0.5, 0.95), axis=0) if some.size else ([], [], [])
    )
    panel.fill_between(at, low, high, color=colour_of("third"), alpha=0.25, linewidth=0)
    panel.plot(at, middle, color=colour_of("third"), label="largest E + P (band: 90%)")
    largest = result["xi_flip_ratio"].sel(quantile=1.0)
    plot_statistic(
        panel,
        result.assign(one=largest),
        "one",
        colour_of("fourth"),
        "largest xi",
        median_interval,
    )
    near = (result.attrs["lr"] / result["xi_length"].sel(quantile=0.0)).assign_attrs()
    plot_statistic(
        panel,
        result.assign(one=near),
        "one",
        colour_of("decaying"),
        "lr / smallest |xi|",
        median_interval,
    )
    panel.axhline(
        1, color=colours.colour("muted"), linestyle="--", label="direction may reverse"
    )
    panel.set(xlabel="step", ylabel="movement over distance")
    panel.set(xlim=step_limits(result["frame_step"].values))
    use_log_axis(panel)
    title_panel(panel, result, "flip ratio to the next frame", "medians")
    panel.legend(ncols=2, loc="upper center")


def _plane(panel: Axes, result: xr.Dataset) -> None:
    """The eigenmodes of all runs in the last frame."""
    growth, rotation = (
        result[name].isel(step=-1).values for name in ("growth_rate", "rotation_rate")
    )
    kinds = np.where(growth > 0, colour_of("growing"), colour_of("decaying"))
    panel.scatter(
        growth.ravel(),
        rotation.ravel(),
        s=5,
        color=kinds.ravel(),
        linewidths=0,
        alpha=0.5,
    )
    panel.axvline(0, color=colours.colour("muted"), linewidth=0.8)
    panel.set(
        xlabel="growth rate (dimensionless)", ylabel="rotation rate (dimensionless)"
    )
    largest = np.abs(growth[np.isfinite(growth)]).max(initial=0.0) or 1.0
    panel.set_xscale("symlog", linthresh=10.0 ** np.floor(np.log10(largest) - 3))
    if not np.abs(rotation[np.isfinite(rotation)]).max(initial=0.0):
        panel.set_ylim(-1, 1)
    if not np.isfinite(growth).any():
        annotate_panel(panel, "no run has a mode here")
    panel.set_title(f"modes of all runs at step {int(result['step'].values[-1])}")


def _kinds(panel: Axes, result: xr.Dataset) -> None:
    kind = result["kind"].values
    runs = (kind != NONE).sum(axis=0)
    for name, colour in {
        "stable": colour_of("decaying"),
        "saddle": colour_of("third"),
        "unstable": colour_of("growing"),
    }.items():
        counts = (kind == STABILITY_KINDS[name]).sum(axis=0)
        intervals = [
            binomial_interval(int(count), int(total))
            for count, total in zip(counts, runs, strict=True)
        ]
        _draw(panel, result["step"].values, intervals, colour, name)
    panel.set(
        xlabel="step",
        ylabel="fraction of runs",
        ylim=(-0.03, 1.18),
        xlim=step_limits(result["step"].values),
    )
    panel.set_yticks([0, 0.25, 0.5, 0.75, 1])
    title_panel(panel, result, "stability", "fractions of runs")
    panel.legend(ncols=3, loc="upper center")


def _rest(panel: Axes, result: xr.Dataset) -> None:
    plot_statistic(
        panel,
        result,
        "rest",
        colour_of("third"),
        "normalised force over force",
        median_interval,
    )
    plot_statistic(
        panel,
        result,
        "asymmetry",
        colour_of("fourth"),
        "antisymmetric part of dF/dx",
        median_interval,
    )
    panel.set(xlabel="step", ylabel="fraction", xlim=step_limits(result["step"].values))
    use_log_axis(panel)
    title_panel(panel, result, "distance from equilibrium, and asymmetry", "medians")
    panel.legend(loc="upper center")


def annotate_panel(panel: Axes, what: str) -> None:
    panel.annotate(what, (0.5, 0.5), xycoords="axes fraction", ha="center")


def plot_statistic(
    panel: Axes,
    result: xr.Dataset,
    name: str,
    colour: str,
    label: str,
    interval,
    band=True,
) -> None:
    intervals = [
        interval(finite_values_at(result[name], step))
        for step in range(result.sizes["step"])
    ]
    _draw(panel, result["step"].values, intervals, colour, label, band)


def _draw(
    panel: Axes,
    step: np.ndarray,
    intervals: list[Interval],
    colour: str,
    label: str,
    band: bool = True,
) -> None:
    value, low, high = np.array(intervals).T
    panel.plot(step, value, color=colour, marker="o", label=label)
    if band and np.isfinite(low).any():
        panel.fill_between(step, low, high, color=colour, alpha=0.22, linewidth=0)


def title_panel(panel: Axes, result: xr.Dataset, what: str, statistic: str) -> None:
    """Title: what a panel shows and, for several runs, what its lines and bands are."""
    bands = ", 95% bands" if panel.collections else ""
    title = f"{what}; {statistic}{bands}" if result.sizes["run"] > 1 else what
    panel.set_title(title)


def use_log_axis(panel: Axes) -> None:
    """A logarithmic y axis with room for a legend above its curves."""
    curves = [np.asarray(line.get_ydata(), dtype=np.float64) for line in panel.lines]
    curves += [
        np.asarray(path.vertices)[:, 1]
        for band in panel.collections
        for path in band.get_paths()
    ]
    values = (
        np.concatenate([np.ravel(curve) for curve in curves]) if curves else np.empty(0)
    )
    positive = values[np.isfinite(values) & (values > 0)]
    low, high = (
        (positive.min() / 1.5, positive.max() * 1.5) if positive.size else (0.1, 10.0)
    )
    panel.set_yscale("log")
    panel.set_ylim(low, high * max(high / low, 10.0) ** 0.35)
    if not positive.size:
        annotate_panel(panel, "no value is above 0")


def step_limits(step: np.ndarray) -> tuple[float, float]:
    first, last = float(step[0]), float(step[-1])
    margin = 0.02 * (last - first) or 0.5
    return first - margin, last + margin
