"""The picture of a comparison: structures, motion, shapes, and the force audit of a network."""

from collections.abc import Sequence

import numpy as np
import xarray as xr
from matplotlib.figure import Figure

from analysis.plots.figure_files import new_figure
from analysis.statistics.intervals import binomial_interval

COLOURS = ("#1b6ca8", "#d1662f")
FIELD_COLOURS = ("#2a7f4f", "#c23b3b", "#7a5ea8", "#8a6d3b")


def plot_comparison(found: xr.Dataset, names: Sequence[str]) -> Figure:
    """Panels of `analysis.structures.comparison.compare_trajectories`, with those of the audit, where there is one,
    in a third
    row."""
    audited = "audit_cosine" in found
    figure = new_figure(11, 10.2 if audited else 7.0)
    rows = 3 if audited else 2
    panels = figure.subplots(rows, 3)
    _structures(panels[0, 0], panels[0, 1], found)
    _shapes(panels[0, 2], found)
    _curve(panels[1, 0], found, "speed", "speed of the embedding", relative=False)
    _curve(panels[1, 1], found, "gradient_norm", "norm of gradient or force, of its largest", relative=True)
    _curve(panels[1, 2], found, "displacement", "distance from the start, of its largest", relative=True)
    if audited:
        _audit(panels[2], found)
    lines = [panels[1, 2].get_lines()[k] for k in range(2)]
    figure.legend(lines, names, loc="upper center", ncols=2, frameon=False, fontsize=9)
    figure.tight_layout(rect=(0, 0, 1, 0.96))
    return figure


def _structures(shares, counts, found: xr.Dataset) -> None:
    others = []
    for place, side in enumerate(("first", "second")):
        circle = found[f"{side}_circle"].values
        circle = circle[np.isfinite(circle)]
        if len(circle):
            share = binomial_interval(int(circle.sum()), len(circle))
            spread = [[100 * (share.value - share.low)], [100 * (share.high - share.value)]]
            shares.bar(place, 100 * share.value, color=COLOURS[place], width=0.6)
            shares.errorbar(place, 100 * share.value, spread, color="0.2", capsize=4, linewidth=1)
        values = found[f"{side}_imperfections"].where(found[f"{side}_circle"] == 0).values
        others.append(values[np.isfinite(values)])
    both = np.concatenate(others)
    if both.size:
        bins = np.linspace(both.min() - 0.5, max(both.max() + 0.5, both.min() + 9.5), 21)
        for values, colour in zip(others, COLOURS, strict=True):
            if values.size:
                counts.hist(values, bins=bins, color=colour, alpha=0.6, density=True)
    shares.set(
        xticks=[0, 1], xticklabels=["first", "second"], xlim=(-0.7, 1.7), ylabel="%", title="circles, 95% interval"
    )
    counts.set(title="imperfections of the others", xlabel="imperfections", ylabel="density")
    _small(shares, counts)


def _shapes(panel, found: xr.Dataset) -> None:
    kinds = {"within_first": COLOURS[0], "within_second": COLOURS[1], "between": "0.35"}
    for name, colour in kinds.items():
        values = found[name].values
        values = values[np.isfinite(values)]
        if values.size:
            label = name.replace("_", " ")
            panel.hist(values, bins=np.linspace(0, 1, 41), histtype="step", color=colour, density=True, label=label)
    if found.attrs.get("paired"):
        own = np.diag(found["between"].values)
        own = own[np.isfinite(own)]
        if own.size:
            panel.hist(own, bins=np.linspace(0, 1, 41), density=True, color="0.35", alpha=0.25, label="begun alike")
    panel.set(
        title="shape distance of end states", xlabel="Procrustes, relabelled by units", ylabel="density", xlim=(0, 1)
    )
    if panel.get_legend_handles_labels()[0]:
        panel.legend(fontsize=7, frameon=False, loc="upper center")
    _small(panel)


def _curve(panel, found: xr.Dataset, name: str, title: str, relative: bool) -> None:
    """Median and quartiles over runs; relative: in units of the largest median."""
    time = found["normalised_time"].values
    for side, colour in zip(("first", "second"), COLOURS, strict=True):
        low, middle, high = found[name].sel(side=side).values
        unit = np.nanmax(middle) if relative and np.nanmax(middle, initial=0) > 0 else 1.0
        panel.fill_between(time, low / unit, high / unit, color=colour, alpha=0.2, linewidth=0)
        panel.plot(time, middle / unit, color=colour, linewidth=1.4)
    positive = np.nan_to_num(found[name].values) > 0
    if name != "displacement" and positive.any():
        panel.set_yscale("log")
    panel.set(title=title, xlabel="normalised time", xlim=(0, 1))
    _small(panel)


def _audit(panels, found: xr.Dataset) -> None:
    step = found["audit_step"].values
    part = found.sel(audit_target="gradient", audit_part="normalised")
    update = found["audit_cosine"].sel(audit_target="update", audit_part="normalised")
    whole = found["audit_cosine"].sel(audit_target="gradient", audit_part="whole")
    _band(panels[0], step, part["audit_cosine"], "#1b6ca8", "law and -dL/dE")
    _band(panels[0], step, update, "#d1662f", "law and applied update")
    _band(panels[0], step, whole, "0.5", "law and -dL/dE, with shift and size")
    panels[0].set(title="audit: cosine", ylim=(-1, 1))
    _band(panels[1], step, part["audit_r_squared"], "#1b6ca8", "four fields fitted")
    _band(panels[1], step, part["audit_renamed_r_squared"], "0.5", "the same, tokens renamed")
    _band(panels[1], step, part["audit_law_r_squared"], "#2a7f4f", "the law, one free scale")
    panels[1].set(title="audit: R² of -dL/dE", ylim=(0, 1))
    for field, colour in zip(found["audit_field"].values, FIELD_COLOURS, strict=True):
        label = str(field).replace("_", " ")
        _band(panels[2], step, part["audit_weight"].sel(audit_field=field), colour, label)
    panels[2].set(title="audit: weight of each field in the fit")
    for panel in panels:
        panel.axhline(0, color="0.8", linewidth=0.8, zorder=0)
        panel.set_xscale("symlog", linthresh=max(1, step[1] if len(step) > 1 else 1))
        panel.set_xlabel("step")
        panel.set_xlim(0, max(step[-1], 1))
        if panel.get_legend_handles_labels()[0]:
            panel.legend(fontsize=7, frameon=False)
    _small(*panels)


def _band(panel, step: np.ndarray, values: xr.DataArray, colour: str, label: str) -> None:
    """Median over runs with quartiles."""
    by_run = values.transpose("audit_run", "audit_step").values
    some = np.isfinite(by_run).any(axis=0)
    if not some.any():
        return
    low, middle, high = np.nanquantile(by_run[:, some], (0.25, 0.5, 0.75), axis=0)
    panel.fill_between(step[some], low, high, color=colour, alpha=0.18, linewidth=0)
    panel.plot(step[some], middle, color=colour, linewidth=1.3, label=label)


def _small(*panels) -> None:
    for panel in panels:
        panel.title.set_fontsize(10)
        panel.tick_params(which="both", labelsize=8)
        panel.xaxis.label.set_fontsize(8)
        panel.yaxis.label.set_fontsize(8)
        panel.spines[["top", "right"]].set_visible(False)
