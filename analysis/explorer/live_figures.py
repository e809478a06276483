"""Figures of live runs: panels whose arrays change, and charts over time."""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from bokeh.models import Column, ColumnDataSource, DataRange1d
from bokeh.plotting import figure
from matplotlib.colors import to_hex

from analysis.explorer.bokeh_panels import (
    add_hover,
    make_bokeh_panel,
    mark_columns,
    panel_heading,
    pixel_columns,
)
from analysis.explorer.controls import StatusLine
from analysis.explorer.screen import panel_grid
from analysis.panels.colours import colour, named_colours
from analysis.panels.common_panels import EMBEDDING_EXPLANATION, token_points
from analysis.panels.scene import Arrows, Curves, Image, Map, Panel, Points
from analysis.panels.style import widest_first, width_of_split

MAP_SIDE = 100
"""Rows and columns of class maps and densities."""
_MAX_POINTS = 4000
"""Points of a curve; earlier ones are dropped."""


class LivePanel:
    """A panel of a live run, with a line of text that changes."""

    def __init__(
        self,
        name: str,
        title: str,
        layers: Sequence[Points | Arrows | Map | Image],
        arrays: Callable[["LivePanel"], Mapping[str, np.ndarray]],
        text: Callable[[], str] = str,
        limits: tuple[float, float] = (-3.0, 3.0),
        **more: Any,
    ) -> None:
        """arrays: the current arrays of the layers, without the axis of frames, for
        this panel, whose limits they may adapt. text: the current line of text. more:
        further fields of `Panel`."""
        self.arrays = arrays
        self.text = text
        self.reach = limits[1]
        self.layers = {layer.array: layer for layer in layers}
        blank: dict[str, np.ndarray] = {}
        for layer in layers:
            shape: tuple[int, ...] = (MAP_SIDE, MAP_SIDE)
            if isinstance(layer, Image):
                shape = (len(layer.rows), len(layer.columns))
            elif not isinstance(layer, Map):
                shape = (len(layer.names), 4 if isinstance(layer, Arrows) else 2)
            blank[layer.array] = np.zeros((1, *shape))
        panel = Panel(name, title, tuple(layers), limits, limits, **more)
        made = make_bokeh_panel(panel, blank)
        self.plot = made.plot
        self.layout = made.layout
        self.parts = {part["array"]: part for part in made.parts}
        self.text_line = StatusLine()
        self.layout.children.insert(1, self.text_line.layout)

    def draw(self) -> None:
        """Show the current arrays."""
        for name, values in self.arrays(self).items():
            part = self.parts[name]
            layer = self.layers[name]
            if isinstance(layer, Map | Image):
                columns = pixel_columns(layer, values, part["palette"], part["edges"])
                part["source"].data = columns
            else:  # whole columns, and only these, are sent
                every = slice(0, len(values))
                marks = mark_columns(values)
                part["source"].patch({key: [(every, x)] for key, x in marks.items()})

    def fit_limits(self, places: np.ndarray) -> np.ndarray:
        """Adapt the limits, which are about the origin, to points, in large steps;
        returns the points."""
        furthest = float(np.abs(places).max(initial=0.0))
        if not 0.4 * self.reach < furthest < 0.98 * self.reach and furthest:
            reach = 1.3 * furthest
            self.reach = reach
            for axis in (self.plot.x_range, self.plot.y_range):
                axis.update(start=-reach, end=reach)
            for part in self.parts.values():
                if part["kind"] == "pixels":
                    side = 2 * reach
                    part["tile"].update(x=-reach, y=-reach, dw=side, dh=side)
        return places


def token_panel(
    name: str,
    title: str,
    n: int,
    positions: Callable[[], np.ndarray],
    text: Callable[[], str],
    reach: float = 3.0,
    explanation: str = EMBEDDING_EXPLANATION,
) -> LivePanel:
    """A panel of N tokens at positions (token, 2), with a line through them."""
    layers = [token_points("embedding", n, joined=True)]

    def arrays(panel: LivePanel) -> dict[str, np.ndarray]:
        return {"embedding": panel.fit_limits(positions())}

    return LivePanel(
        name, title, layers, arrays, text, (-reach, reach), explanation=explanation
    )


@dataclass(frozen=True)
class Chart:
    """Curves of quantities over time."""

    title: str
    curves: Mapping[str, str]  # columns and the names of their curves
    log: bool = False
    level: float | None = None  # a value marked by a dashed line
    limits: tuple[float, float] | None = None  # fixed vertical limits
    note: str = ""


def split_charts(*splits: str) -> list[Chart]:
    """Charts of the loss and the accuracy of splits."""
    accuracy = {f"{split}_right": split for split in splits}
    return [
        Chart("Loss", dict(zip(splits, splits, strict=True)), log=True),
        Chart("Accuracy", accuracy, limits=(0, 1.05)),
    ]


class LiveCharts:
    """Charts of a live run beside each other, with one data source."""

    def __init__(self, charts: Sequence[Chart], unit: str) -> None:
        self.columns = ["x", *(name for chart in charts for name in chart.curves)]
        self.source = ColumnDataSource()
        self.latest = ColumnDataSource()
        """The last values, which are dots: a curve of one point is not visible."""
        self.clear()
        self.layout = panel_grid([self._chart(chart, unit) for chart in charts])

    def _chart(self, chart: Chart, unit: str) -> Column:
        labels = tuple(chart.curves.values())
        scale = "log" if chart.log else "linear"
        rgb = named_colours(labels)
        empty = np.empty((len(labels), 0))
        layers = (Curves(empty[0], empty, rgb, labels),)
        any_limits = (0.0, 1.0)
        how: dict[str, Any] = {"x_label": unit, "log": chart.log, "note": chart.note}
        panel = Panel("", chart.title, layers, any_limits, any_limits, **how)
        plot = figure(
            x_range=DataRange1d(start=0, range_padding=0),
            y_range=chart.limits or DataRange1d(),
            y_axis_type=scale,
            tools="",
            height=170,
            name=chart.title,
            min_border_left=52,
            html_attributes={"data-name": chart.title},
        )
        tooltips = f"{unit} @x"
        tooltips += "".join(
            f"<br>{label}: @{column}" for column, label in chart.curves.items()
        )
        columns = list(chart.curves)
        for curve in widest_first(labels):
            column, ink = columns[curve], to_hex(rgb[curve])
            width = 1.6 * width_of_split(labels[curve])
            line: dict[str, Any] = {"line_color": ink, "line_width": width}
            plot.line("x", column, source=self.source, **line)
            plot.scatter("x", column, source=self.latest, size=6, color=ink)
        add_hover(plot, plot.renderers[0], tooltips, across=True)
        if chart.level is not None:
            muted = colour("muted")
            plot.hspan(chart.level, line_dash="dashed", line_color=muted)
        parts = (panel_heading(panel), plot)
        made = Column(*parts, sizing_mode="stretch_width", margin=(8, 8, 0, 0))
        made.styles = {"align-self": "stretch", "height": "auto"}
        return made

    def clear(self) -> None:
        self.unsent: list[Mapping[str, float]] = []
        for source in (self.source, self.latest):
            source.data = {name: [] for name in self.columns}

    def add(self, **values: float) -> None:
        """Add a point to each curve, which `draw` sends. x: the time; a value that is
        not given is a gap."""
        self.unsent.append(values)

    def draw(self) -> None:
        nan = float("nan")
        columns = {
            name: [row.get(name, nan) for row in self.unsent] for name in self.columns
        }
        if self.unsent:
            self.source.stream(columns, rollover=_MAX_POINTS)
            last = {name: values[-1:] for name, values in columns.items()}
            self.latest.data = last
            self.unsent = []
