"""Figure of the force audit of several networks at moments of training, against a
setting in which they differ."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import xarray as xr
from matplotlib.axes import Axes
from matplotlib.colors import to_rgba_array
from matplotlib.figure import Figure

from analysis.forces.law_words import law_words
from analysis.panels import colours, figure_panels
from analysis.plots.curves import OrderedLook, ordered_looks
from analysis.plots.figure_files import (
    draw_intervals,
    draw_legend,
    in_style,
    new_panels,
)
from analysis.statistics.intervals import drop_non_finite, mean_interval

_SPACES = {"whole": "whole space", "planes": "key planes"}
_MOMENTS = {
    "generalising": "accuracy .5",
    "generalised": "accuracy .9",
    "last": "at the end",
}
_SYMBOLS = {"attention_rate": "attention rate α", "dim": "d", "n": "N"}


@in_style
def plot_audits(audits: xr.Dataset, x: str = "attention_rate") -> Figure:
    """Draw the result of `combine_audits`: cosine with the law, and R² of its fields,
    with 95% intervals.

    x: the setting on the horizontal axis; if it is the same in all files, or a system
    lacks it, the first one in which they differ and that all have. Each combination of
    the other settings is a curve. A moment that no run reaches is left out."""
    differing = audits.attrs["differing"].split()
    shared = [name for name in differing if _all_have(audits, name)] or ["file"]
    x = x if x in shared else shared[0]
    others = [name for name in differing if name != x]
    distinguishing = _distinguishing(audits, others)
    curves = _files_of_curves(audits, distinguishing, x)
    looks = _looks(audits, distinguishing, len(curves))
    reached = audits["recorded_step"].notnull().any(("file", "run"))
    cases = [
        (m, s)
        for m in _MOMENTS
        if reached.sel(moment=m)
        for s in audits["space"].values
    ]
    words = law_words(audits)
    figure, panels = new_panels(
        [1.0] * (2 * len(cases)), "", 1.1, figure_panels.AUDITS * len(cases)
    )
    for at, (moment, space) in enumerate(cases):
        for panel, name in zip(
            panels[2 * at : 2 * at + 2], ("cosine", "r_squared"), strict=True
        ):
            of_case = audits.sel(moment=moment, space=space)
            _plot_curves(panel, of_case, x, curves, looks, name)
            panel.set(
                title=f"{_SPACES[str(space)]}, {_MOMENTS[moment]}",
                xlabel=_SYMBOLS.get(x, x.replace("_", " ")),
            )
        panels[2 * at].set(ylabel=f"cosine with the {words.name}")
        panels[2 * at + 1].set(ylabel=f"R² of its {words.fields}", ylim=(-0.03, 1.03))
    cosines = panels[::2]
    lowest = min([-0.25, *(panel.get_ylim()[0] for panel in cosines)])
    for panel in cosines:
        panel.set_ylim(lowest, 1.03)
    draw_legend(figure)
    return figure


def _all_have(audits: xr.Dataset, name: str) -> bool:
    """Whether no system lacks a setting."""
    values = audits[name]
    return bool(
        (values != "").all() if values.dtype.kind in "UO" else values.notnull().all()
    )


def _files_of_curves(
    audits: xr.Dataset, others: list[str], x: str
) -> dict[str, list[int]]:
    """The indices of the files of each curve in the order of x, by the settings that
    the curve is for."""
    curves: dict[str, list[int]] = {}
    for at in np.lexsort(
        [audits[name].values for name in (x, *reversed(others))]
    ).tolist():
        values = (audits[name].values[at] for name in others)
        names = [
            f"{_SYMBOLS.get(name, name.replace('_', ' '))} = {_short(value)}"
            for name, value in zip(others, values, strict=True)
        ]
        curves.setdefault(", ".join(names) or "mean, 95% interval", []).append(at)
    return curves


def _short(value: object) -> str:
    return f"{value:g}" if isinstance(value, float) else str(value)


def _distinguishing(audits: xr.Dataset, names: list[str]) -> list[str]:
    """Those of the settings without which fewer files would differ, in their order."""
    chosen: list[str] = []
    rows: list[tuple[str, ...]] = [()] * audits.sizes["file"]
    for name in names:
        values = audits[name].values.tolist()
        longer = [(*row, str(value)) for row, value in zip(rows, values, strict=True)]
        if len(set(longer)) > len(set(rows)):
            chosen = [*chosen, name]
            rows = longer
    return chosen


def _looks(audits: xr.Dataset, settings: list[str], curves: int) -> list[OrderedLook]:
    """Looks of the curves, in the order of a single setting if it is a number."""
    looks = ordered_looks(curves)
    if len(settings) == 1 and audits[settings[0]].dtype.kind in "iuf":
        return looks
    inks = to_rgba_array(colours.series_colours(curves))[:, :3]
    return [look._replace(color=ink) for look, ink in zip(looks, inks, strict=True)]


def _plot_curves(
    panel: Axes,
    audits: xr.Dataset,
    x: str,
    curves: dict[str, list[int]],
    looks: Sequence[OrderedLook],
    name: str,
) -> None:
    """Draw a measure of each curve's files with intervals over runs, and R² with
    renamed tokens."""
    panel.axhline(0, color=colours.colour("faint"), linewidth=0.8, zorder=0)
    numbers = audits[x].dtype.kind == "f"
    width = float(np.ptp(audits[x].values)) if numbers else 1.0
    for at, ((label, files), look) in enumerate(
        zip(curves.items(), looks, strict=True)
    ):
        apart = (
            0.012 * width * (at - (len(curves) - 1) / 2)
        )  # so that bars do not cover each other
        places = (audits[x].values[files] if numbers else np.array(files)) + apart
        samples = [drop_non_finite(audits[name].values[file]) for file in files]
        intervals = np.array(
            [
                mean_interval(sample, limits=(-float(name == "cosine"), 1))
                for sample in samples
            ]
        )
        draw_intervals(
            panel, places, intervals, capsize=2, label=label, **look._asdict()
        )
        if name == "r_squared":
            renamed = audits["renamed_r_squared"].mean("run").values[files]
            panel.plot(places, renamed, color=look.color, linestyle=":")
    if name == "r_squared":
        panel.plot(
            [],
            [],
            color=colours.colour("muted"),
            linestyle=":",
            label="R² with renamed tokens",
        )
    if not numbers:
        count = audits.sizes["file"]
        panel.set_xticks(
            range(count), audits[x].values, rotation=0 if count < 3 else 90
        )
        panel.set_xlim(-0.5, count - 0.5)
