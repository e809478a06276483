"""Figures of live runs: panels whose arrays change, and charts over time."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import numpy as np
from bokeh.models import Column, ColumnDataSource, DataRange1d
from bokeh.plotting import figure
from matplotlib.colors import to_hex

from analysis.explorer.bokeh_panels import (
    add_curve_hover,
    make_bokeh_panel,
    mark_columns,
    palette_pixels,
    panel_heading,
)
from analysis.explorer.controls import StatusLine
from analysis.explorer.screen import panel_grid
from analysis.panels.colours import class_colours, colour, named_colours
from analysis.panels.scene import Arrows, Curves, Image, Map, Panel, Points
from dynamics.tasks import all_pairs, modular_sum

_MAX_POINTS = 4000
"""Points of a curve; earlier ones are dropped."""


class LivePanel:
    """A panel of a live run, with a line of text that changes."""

    def __init__(
        self,
        name: str,
        title: str,
        layers: Sequence[Points | Arrows | Map | Image],
        limits: tuple[float, float] = (-3.0, 3.0),
        side: int = 1,
        note: str = "",
        equal: bool = True,
    ) -> None:
        """side: rows and columns of maps and images."""
        blank: dict[str, np.ndarray] = {}
        for layer in layers:
            shape = (1, side, side)
            if isinstance(layer, Points | Arrows):
                shape = (1, len(layer.names), 4 if isinstance(layer, Arrows) else 2)
            blank[layer.array] = np.zeros(shape, np.uint16)
        panel = Panel(
            name, title, tuple(layers), limits, limits, note=note, equal=equal
        )
        made = make_bokeh_panel(panel, blank)
        self.plot, self.reach = made.plot, limits[1]
        self.parts = {part["array"]: part for part in made.parts}
        self.words = StatusLine()
        heading, plot = made.layout.children
        self.layout = made.layout
        self.layout.children = [heading, self.words.layout, plot]

    def show(self, **arrays: np.ndarray) -> None:
        """Show positions (point, 2), arrows (arrow, 4), or indices of classes or levels
        (row, column), the lowest row first."""
        for name, values in arrays.items():
            part = self.parts[name]
            if part["kind"] == "pixels":
                numbers = values.astype(np.uint16)
                pixels = palette_pixels(numbers, part["palette"], part["edges"])
                part["source"].data = {"image": [pixels], "number": [numbers]}
                continue
            every = slice(0, len(values))  # whole columns, and only these, are sent
            columns = mark_columns(values).items()
            part["source"].patch({key: [(every, x)] for key, x in columns})

    def fit(self, places: np.ndarray) -> None:
        """Adapt the limits, which are about the origin, to points, in large steps."""
        furthest = float(np.abs(places).max(initial=0.0))
        if not 0.4 * self.reach < furthest < 0.98 * self.reach and furthest:
            self.reach = reach = 1.3 * furthest
            for axis in (self.plot.x_range, self.plot.y_range):
                axis.update(start=-reach, end=reach)
            for part in self.parts.values():
                if part["kind"] == "pixels":
                    side = 2 * reach
                    part["tile"].update(x=-reach, y=-reach, dw=side, dh=side)


@dataclass(frozen=True)
class Chart:
    """Curves of quantities over time."""

    title: str
    curves: Mapping[str, str]  # columns and the names of their curves
    log: bool = False
    level: float | None = None  # a value marked by a dashed line
    limits: tuple[float, float] | None = None  # fixed vertical limits
    note: str = ""


class LiveCharts:
    """Charts of a live run beside each other, with one data source."""

    def __init__(self, charts: Sequence[Chart], unit: str) -> None:
        names = [name for chart in charts for name in chart.curves]
        self.source = ColumnDataSource({name: [] for name in ("x", *names)})
        self.unsent: list[Mapping[str, float]] = []
        self.layout = panel_grid([self._chart(chart, unit) for chart in charts])

    def _chart(self, chart: Chart, unit: str) -> Column:
        labels = tuple(chart.curves.values())
        rgb, empty = named_colours(labels), np.empty((len(labels), 0))
        layers = (Curves(np.empty(0), empty, rgb, labels),)
        unlimited, log = (0.0, 1.0), chart.log
        heading = panel_heading(
            Panel(
                "",
                chart.title,
                layers,
                unlimited,
                unlimited,
                unit,
                "",
                False,
                log,
                note=chart.note,
            )
        )
        plot = figure(
            x_range=DataRange1d(start=0, range_padding=0),
            y_range=chart.limits or DataRange1d(),
            y_axis_type="log" if log else "linear",
            tools="",
            height=170,
            name=chart.title,
            min_border_left=52,
            html_attributes={"data-name": chart.title},
        )
        for column, line_colour in zip(chart.curves, map(to_hex, rgb), strict=True):
            line = plot.line("x", column, source=self.source, line_color=line_colour)
            line.glyph.line_width = 1.6
        values = "".join(
            f"<br>{label}: @{name}" for name, label in chart.curves.items()
        )
        add_curve_hover(plot, plot.renderers[0], f"{unit} @x{values}")
        if chart.level is not None:
            muted = colour("muted")
            plot.hspan(chart.level, line_dash="dashed", line_color=muted)
        return Column(heading, plot, sizing_mode="stretch_width", margin=(8, 8, 0, 0))

    def clear(self) -> None:
        self.unsent = []
        self.source.data = {name: [] for name in self.source.data}

    def add(self, **values: float) -> None:
        """Add a point to each curve, which `draw` sends. x: the time."""
        self.unsent.append(values)

    def draw(self) -> None:
        if self.unsent:
            names = list(self.source.data)
            columns = {name: [row[name] for row in self.unsent] for name in names}
            self.source.stream(columns, rollover=_MAX_POINTS)
            self.unsent = []


def pair_sum_points(
    array: str, n: int, filled: np.ndarray | None = None, size: float = 1.0
) -> Points:
    """Marks of the pair sums of N tokens, coloured by modular sum."""
    pairs = all_pairs(n)
    residue = modular_sum(pairs, n)
    names = tuple(
        f"{i} + {j}, sum {k}" for (i, j), k in zip(pairs, residue, strict=True)
    )
    size *= float(np.clip(np.sqrt(150 / len(pairs)), 0.3, 1.2))
    return Points(array, class_colours(n)[residue], names, filled=filled, size=size)
