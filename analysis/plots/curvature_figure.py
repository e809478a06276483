"""Figure of the linearised flow. Networks and particles share the first row of panels, but not the second.

The title of each panel states what its lines and bands are; bands are omitted if there are too few runs.
"""

import numpy as np
import xarray as xr
from matplotlib.axes import Axes
from matplotlib.figure import Figure

from analysis.linearization.curvature_table import finite_values_at, median_interval, with_derived_variables
from analysis.linearization.eigenmodes import NONE, NULL_MODE_TOLERANCE, STABILITY_KINDS
from analysis.plots.drawing.colours import series_colours
from analysis.plots.figure_files import new_figure
from analysis.statistics.intervals import Interval, binomial_interval, mean_interval

GROW, DECAY, THIRD, FOURTH, CHANCE = "#c1440e", "#1b6ca8", "#2a7f4f", "#7a5ea8", "0.45"
_KIND_COLOURS = {"stable": DECAY, "saddle": "#d8a13a", "unstable": GROW}


def plot_curvature(found: xr.Dataset) -> Figure:
    """Panels of the result of `linearize_trajectory`."""
    found = with_derived_variables(found)
    figure = new_figure(14.0, 7.6)
    panels = figure.subplots(2, 3)
    _spectrum(panels[0, 0], found)
    _extremes(panels[0, 1], found)
    _growing(panels[0, 2], found)
    if found.attrs["system"] == "particles":
        _plane(panels[1, 0], found)
        _kinds(panels[1, 1], found)
        _rest(panels[1, 2], found)
    else:
        _movement(panels[1, 0], found)
        _layers(panels[1, 1], found)
        if "x_smallest" in found:
            _margins(panels[1, 2], found)
        else:
            _trace(panels[1, 2], found)
    for panel in panels.flat:
        panel.tick_params(labelsize=8)
        panel.grid(color="0.92", linewidth=0.7)
        panel.set_axisbelow(True)
    runs = found.sizes["run"]
    caption = f"{runs} runs" if runs > 1 else "one run"
    figure.suptitle(f"The linearised flow along a run: {found.attrs['system']}, {caption}", fontsize=11)
    figure.tight_layout(rect=(0, 0, 1, 0.98))
    return figure


def _spectrum(panel: Axes, found: xr.Dataset) -> None:
    """All eigenmodes of the first run."""
    step, growth = found["step"].values, found["growth_rate"].isel(run=0).values
    finite = growth[np.isfinite(growth)]
    largest = np.abs(finite).max(initial=0.0) or 1.0
    linear = 10.0 ** np.floor(np.log10(largest) - 4)
    places = np.broadcast_to(step[:, None], growth.shape)
    for sign, colour, label in ((1, GROW, "growing"), (-1, DECAY, "decaying")):
        shown = sign * growth > NULL_MODE_TOLERANCE * largest
        panel.scatter(places[shown], growth[shown], s=4, color=colour, label=label, linewidths=0)
    panel.set_yscale("symlog", linthresh=linear, linscale=1.0)
    threshold = found.attrs["threshold"]
    panel.axhline(-threshold, color=CHANCE, linewidth=1, linestyle="--", label="-2/lr")
    panel.set_ylim(-3 * max(largest, threshold), 1e3 * largest)
    panel.set(xlabel="step", ylabel="growth rate", xlim=step_limits(step))
    panel.set_title(f"modes of the run of seed {int(found['seed'].values[0])}", fontsize=9, loc="left")
    panel.legend(frameon=False, fontsize=8, markerscale=3, ncols=3, loc="upper center")


def _extremes(panel: Axes, found: xr.Dataset) -> None:
    """Fastest growth, and sharpness."""
    plot_statistic(panel, found, "sharpness", DECAY, "sharpness (fastest decay)", median_interval)
    grows = found["largest_growth"].where(found["largest_growth"] > 0)
    plot_statistic(panel, found.assign(grows=grows), "grows", GROW, "fastest growth, if any", median_interval)
    panel.axhline(found.attrs["threshold"], color=CHANCE, linewidth=1, linestyle="--", label="2/lr")
    panel.set(xlabel="step", ylabel="rate", xlim=step_limits(found["step"].values))
    use_log_axis(panel)
    title_panel(panel, found, "fastest modes against 2/lr", "medians")
    panel.legend(frameon=False, fontsize=8, ncols=2, loc="upper center")


def _growing(panel: Axes, found: xr.Dataset) -> None:
    if np.isfinite(found["growing_modes"].values).any():
        plot_statistic(panel, found, "growing_modes", GROW, "", median_interval)
        panel.set_ylim(0, max(1.0, 1.1 * panel.get_ylim()[1]))
    elif found["sharpness"].notnull().any():
        annotate_panel(panel, "only the extreme eigenvalues are known")
    else:
        annotate_panel(panel, "no run has a mode here")
    panel.set(xlabel="step", ylabel="modes", xlim=step_limits(found["step"].values))
    total = found.attrs.get("parameters", found.sizes["mode"])
    title_panel(panel, found, f"growing modes of {total}", "median")


def _movement(panel: Axes, found: xr.Dataset) -> None:
    """Fractions of the movement to the next frame, against chance."""
    lines = (
        ("lowest_share", GROW, "along the lowest eigenvalue"),
        ("negative_share", FOURTH, "within all negative ones"),
        ("highest_share", DECAY, "along the highest one"),
    )
    step = found["step"].values
    intervals = {
        name: [mean_interval(finite_values_at(found[name], at)) for at in range(len(step))] for name, _, _ in lines
    }
    means = np.array([each.value for every in intervals.values() for each in every])
    floor = min(means[means > 0], default=1.0) / 3
    for name, colour, label in lines:  # fractions are in 0..1, unlike their t intervals, and logarithmic axes have no 0
        shares = [Interval(each.value, *np.clip([each.low, each.high], floor, 1.0)) for each in intervals[name]]
        _draw(panel, step, shares, colour, label)
    for name, colour in (("negative_chance", FOURTH), ("lowest_chance", CHANCE)):
        values = [mean_interval(finite_values_at(found[name], step)).value for step in range(found.sizes["step"])]
        label = "chance, one direction" if name == "lowest_chance" else "chance, all negative"
        panel.plot(found["step"], values, color=colour, linewidth=1.6, linestyle=":", label=label)
    panel.set(xlabel="step", ylabel="fraction of the squared movement", xlim=step_limits(step))
    use_log_axis(panel)
    title_panel(panel, found, "movement to the next frame", "means")
    panel.legend(frameon=False, fontsize=7.5, ncols=2, loc="upper center")


def _layers(panel: Axes, found: xr.Dataset) -> None:
    """The highest eigenvalue of each layer's block."""
    for place, layer in enumerate(found["layer"].values):
        one = found.assign(one=found["layer_highest"].isel(layer=place))
        colour = series_colours()[place % 8]
        plot_statistic(panel, one, "one", colour, str(layer).replace("_", " "), median_interval, band=False)
    panel.set(xlabel="step", ylabel="eigenvalue", xlim=step_limits(found["step"].values))
    title_panel(panel, found, "highest eigenvalue of each layer's block", "medians")
    if found["layer_highest"].notnull().any() or found["sharpness"].isnull().all():
        use_log_axis(panel)
        panel.legend(frameon=False, fontsize=7.5, ncols=3, loc="upper center")
    else:
        annotate_panel(panel, "requires the whole Hessian")


def _trace(panel: Axes, found: xr.Dataset) -> None:
    plot_statistic(panel, found, "trace", THIRD, "", median_interval)
    panel.set(xlabel="step", ylabel="trace", xlim=step_limits(found["step"].values))
    title_panel(panel, found, "trace of the Hessian", "median")


def _margins(panel: Axes, found: xr.Dataset) -> None:
    """Flip ratios of E + P in all frames, and of sequences in the analysed frames."""
    frames = found["x_largest_flip_ratio"].values
    ratio = np.where(np.isfinite(frames), frames, np.nan)
    known_frames = np.isfinite(ratio).any(axis=0)
    at, some = found["frame_step"].values[known_frames], ratio[:, known_frames]
    low, middle, high = np.nanquantile(some, (0.05, 0.5, 0.95), axis=0) if some.size else ([], [], [])
    panel.fill_between(at, low, high, color=THIRD, alpha=0.25, linewidth=0)
    panel.plot(at, middle, color=THIRD, linewidth=1, label="E + P, largest (band: 90% of runs)")
    largest = found["xi_flip_ratio"].sel(quantile=1.0)
    plot_statistic(panel, found.assign(one=largest), "one", FOURTH, "xi, largest", median_interval)
    near = (found.attrs["lr"] / found["xi_length"].sel(quantile=0.0)).assign_attrs()
    plot_statistic(panel, found.assign(one=near), "one", DECAY, "lr / smallest |xi|", median_interval)
    panel.axhline(1, color=CHANCE, linewidth=1, linestyle="--", label="direction may reverse")
    panel.set(xlabel="step", ylabel="movement over distance")
    panel.set(xlim=step_limits(found["frame_step"].values))
    use_log_axis(panel)
    title_panel(panel, found, "flip ratio to the next frame", "medians")
    panel.legend(frameon=False, fontsize=7.5, ncols=2, loc="upper center")


def _plane(panel: Axes, found: xr.Dataset) -> None:
    """The eigenmodes of all runs in the last frame."""
    growth, rotation = (found[name].isel(step=-1).values for name in ("growth_rate", "rotation_rate"))
    colours = np.where(growth > 0, GROW, DECAY)
    panel.scatter(growth.ravel(), rotation.ravel(), s=5, color=colours.ravel(), linewidths=0, alpha=0.5)
    panel.axvline(0, color=CHANCE, linewidth=0.8)
    panel.set(xlabel="growth rate", ylabel="rotation rate")
    largest = np.abs(growth[np.isfinite(growth)]).max(initial=0.0) or 1.0
    panel.set_xscale("symlog", linthresh=10.0 ** np.floor(np.log10(largest) - 3))
    if not np.abs(rotation[np.isfinite(rotation)]).max(initial=0.0):
        panel.set_ylim(-1, 1)
    if not np.isfinite(growth).any():
        annotate_panel(panel, "no run has a mode here")
    panel.set_title(f"modes of all runs at step {int(found['step'].values[-1])}", fontsize=9, loc="left")


def _kinds(panel: Axes, found: xr.Dataset) -> None:
    kind = found["kind"].values
    runs = (kind != NONE).sum(axis=0)
    for name, colour in _KIND_COLOURS.items():
        counts = (kind == STABILITY_KINDS[name]).sum(axis=0)
        intervals = [binomial_interval(int(count), int(total)) for count, total in zip(counts, runs, strict=True)]
        _draw(panel, found["step"].values, intervals, colour, name)
    panel.set(xlabel="step", ylabel="fraction of runs", ylim=(-0.03, 1.18), xlim=step_limits(found["step"].values))
    panel.set_yticks([0, 0.25, 0.5, 0.75, 1])
    title_panel(panel, found, "stability", "fractions of runs")
    panel.legend(frameon=False, fontsize=8, ncols=3, loc="upper center")


def _rest(panel: Axes, found: xr.Dataset) -> None:
    plot_statistic(panel, found, "rest", THIRD, "normalised force over force", median_interval)
    plot_statistic(panel, found, "asymmetry", FOURTH, "antisymmetric part of dF/dx", median_interval)
    panel.set(xlabel="step", ylabel="fraction", xlim=step_limits(found["step"].values))
    use_log_axis(panel)
    title_panel(panel, found, "distance from equilibrium, and asymmetry", "medians")
    panel.legend(frameon=False, fontsize=8, loc="upper center")


def annotate_panel(panel: Axes, what: str) -> None:
    panel.annotate(what, (0.5, 0.5), xycoords="axes fraction", ha="center", fontsize=9)


def plot_statistic(panel: Axes, found: xr.Dataset, name: str, colour: str, label: str, interval, band=True) -> None:
    intervals = [interval(finite_values_at(found[name], step)) for step in range(found.sizes["step"])]
    _draw(panel, found["step"].values, intervals, colour, label, band)


def _draw(
    panel: Axes,
    step: np.ndarray,
    intervals: list[Interval],
    colour: str,
    label: str,
    band: bool = True,
) -> None:
    value, low, high = np.array(intervals).T
    panel.plot(step, value, color=colour, linewidth=1.5, marker="o", markersize=2.5, label=label)
    if band and np.isfinite(low).any():
        panel.fill_between(step, low, high, color=colour, alpha=0.22, linewidth=0)


def title_panel(panel: Axes, found: xr.Dataset, what: str, statistic: str) -> None:
    """Title: what a panel shows and, for several runs, what its lines and bands are."""
    bands = ", 95% bands" if panel.collections else ""
    told = f"{what}; {statistic}{bands}" if found.sizes["run"] > 1 else what
    panel.set_title(told, fontsize=9, loc="left")


def use_log_axis(panel: Axes) -> None:
    """A logarithmic y axis with room for a legend above its curves."""
    curves = [np.asarray(line.get_ydata(), dtype=np.float64) for line in panel.lines]
    curves += [np.asarray(path.vertices)[:, 1] for band in panel.collections for path in band.get_paths()]
    values = np.concatenate([np.ravel(each) for each in curves]) if curves else np.empty(0)
    shown = values[np.isfinite(values) & (values > 0)]
    low, high = (shown.min() / 1.5, shown.max() * 1.5) if shown.size else (0.1, 10.0)
    panel.set_yscale("log")
    panel.set_ylim(low, high * max(high / low, 10.0) ** 0.35)
    if not shown.size:
        annotate_panel(panel, "no value is above 0")


def step_limits(step: np.ndarray) -> tuple[float, float]:
    first, last = float(step[0]), float(step[-1])
    margin = 0.02 * (last - first) or 0.5
    return first - margin, last + margin
