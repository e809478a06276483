"""Figures of live runs: square planes with points, arrows and maps, and charts over
time."""

from collections.abc import Sequence
from typing import Any

import numpy as np
from bokeh.models import (
    ColumnDataSource,
    FixedTicker,
    PrintfTickFormatter,
    Range1d,
    Span,
)
from bokeh.plotting import figure
from matplotlib.colors import to_hex

from analysis.explorer.bokeh_panels import (
    add_arrows,
    add_pixels,
    add_points,
    curve_hover_tool,
    palette_pixels,
    tick_values,
)
from analysis.explorer.codec import encode_layer
from analysis.explorer.theme import ACCENT, FAINT, RULE
from analysis.panels.colours import class_colours, named_colours
from analysis.panels.common_panels import token_points
from analysis.panels.particle_panels import cell_sums, shown_as_density
from analysis.panels.scene import Arrows, Image, Map, Panel, Points
from dynamics.tasks import all_pairs, modular_sum

_FRAME_STYLE = {"background": "white", "outline": f"1px solid {RULE}"}
_FEW_TOKENS = 25
"""Largest number of tokens for which markers are large."""
_FIRST_SPAN = 100.0
"""Initial range of a chart's horizontal axis, in steps."""
_DENSITY_SIDE = 100
"""Cells along a side of the density of pair sums."""
_FAR = 1e6
"""A coordinate outside every plane."""


class LivePlane:
    """A square plane about the origin, with equal scales. Positions are (point, 2)."""

    def __init__(self, reach: float, label: str) -> None:
        self.reach = reach
        x, y = Range1d(-reach, reach), Range1d(-reach, reach)
        self.figure = figure(
            x_range=x,
            y_range=y,
            tools="",
            toolbar_location=None,
            sizing_mode="scale_width",
            aspect_ratio=1,
            min_border=0,
            outline_line_color=None,
            background_fill_color=None,
            border_fill_color=None,
            styles=_FRAME_STYLE,
            html_attributes={"data-name": label, "data-picture": "below"},
            max_width=540,
            name=label,
        )
        # Axes, grids and spans query the page's styles at every paint, which takes
        # longer than painting all glyphs.
        self.figure.update(left=[], below=[], center=[])
        lines = ColumnDataSource(
            {"x": [-_FAR, 0], "y": [0, -_FAR], "x1": [_FAR, 0], "y1": [0, _FAR]}
        )
        self.figure.segment(
            "x", "y", "x1", "y1", source=lines, line_color=RULE, level="underlay"
        )

    def fit(self, places: np.ndarray) -> None:
        """Adapt the limits to points, in large steps."""
        furthest = float(np.abs(places).max(initial=0.0))
        if furthest > 0.98 * self.reach or 0 < furthest < 0.4 * self.reach:
            self.set_reach(1.3 * furthest)

    def set_reach(self, reach: float) -> None:
        self.reach = reach
        for axis in (self.figure.x_range, self.figure.y_range):
            axis.update(start=-reach, end=reach)

    def points(self, layer: Points) -> "_LiveLayer":
        """Marks, shown at positions (point, 2)."""
        return _LiveLayer(
            add_points(self.figure, layer, np.full((1, len(layer.names), 2), np.nan)),
            ("x", "y"),
        )

    def arrows(self, layer: Arrows) -> "_LiveLayer":
        """Arrows, shown at tails and heads (arrow, 4)."""
        part = add_arrows(self.figure, layer, np.full((1, len(layer.names), 4), np.nan))
        return _LiveLayer(part, ("x0", "y0", "x1", "y1"))

    def map(self, layer: Map | Image, side: int) -> "_LiveMap":
        """A map of classes, or of levels of an image, (row, column), the lowest row
        first."""
        limits = (-self.reach, self.reach)
        panel = Panel("map", "map", (layer,), limits, limits)
        return _LiveMap(
            add_pixels(self.figure, panel, layer, np.zeros((1, side, side), np.uint16))
        )


class _LiveLayer:
    """A drawn layer whose positions change."""

    def __init__(self, part: dict[str, Any], columns: Sequence[str]) -> None:
        self.source, self.columns = part["source"], columns

    def show(self, values: np.ndarray) -> None:
        """values: (point, column)"""
        columns = dict(zip(self.columns, values.T, strict=True))
        if "x1" in columns:  # the triangle glyph points up
            columns["angle"] = (
                np.arctan2(*(values[:, 3:1:-1] - values[:, 1::-1]).T) - np.pi / 2
            )
        _patch_source(self.source, columns)


class _LiveMap:
    """A drawn map whose classes change."""

    def __init__(self, part: dict[str, Any]) -> None:
        self.source = part["source"]
        self.palette = part["palette"]
        self.edges = part["edges"]
        self.tile = part["renderers"][0].glyph

    def show(self, numbers: np.ndarray) -> None:
        numbers = numbers.astype(np.uint16)
        self.source.data = {
            "image": [palette_pixels(numbers, self.palette, self.edges)],
            "number": [numbers],
        }


class LivePairSums:
    """Pair sums of N tokens: marks, or of many their density."""

    def __init__(self, n: int, plane: LivePlane) -> None:
        self.plane, self.dense = plane, shown_as_density(n)
        if self.dense:
            names = ("",) * _DENSITY_SIDE
            self.image = Image("density", 0.0, 1.0, names, names)
            self.marks: _LiveLayer | _LiveMap = plane.map(self.image, _DENSITY_SIDE)
            plane.figure.tools = []  # the cells have no names
        else:
            self.marks = plane.points(pair_sum_points(n))

    @property
    def title(self) -> str:
        return (
            "Density of pair sums (log)"
            if self.dense
            else "Pair sums, coloured by modular sum"
        )

    def show(self, places: np.ndarray) -> None:
        """Draw pair sums at `places` (pair, 2). A density is divided by its maximum."""
        self.plane.fit(places)
        if isinstance(self.marks, _LiveMap):
            reach = self.plane.reach
            self.marks.tile.update(x=-reach, y=-reach, dw=2 * reach, dh=2 * reach)
            density = np.log1p(
                cell_sums(places, np.array([[-reach, reach]] * 2), _DENSITY_SIDE)
            )
            places = encode_layer(self.image, density[None] / density.max()).reshape(
                density.shape
            )
        self.marks.show(places)


class LiveTokens:
    """Numbered tokens, joined along the number line; one may be selected. The data
    source is named after the plane."""

    def __init__(self, stage: LivePlane, n: int) -> None:
        self.ring = ColumnDataSource({"x": [np.nan], "y": [np.nan]})
        self.marks = stage.points(token_points("embedding", n, joined=True))
        self.marks.source.name = f"{stage.figure.name} tokens"
        stage.figure.scatter(
            "x",
            "y",
            size=24,
            fill_color=None,
            line_color=ACCENT,
            line_width=2,
            source=self.ring,
            level="overlay",
        )

    def show(self, places: np.ndarray, chosen: int | None = None) -> None:
        x, y = places.T
        self.marks.show(places)
        if chosen is not None:
            _patch_source(
                self.ring, {"x": x[chosen : chosen + 1], "y": y[chosen : chosen + 1]}
            )


class LiveChart:
    """Curves over steps. The limits widen in large steps, since Bokeh lays out the
    whole page for each new tick."""

    def __init__(
        self,
        label: str,
        names: Sequence[str],
        unit: str,
        log: bool = False,
        level: float | None = None,
        limits: tuple[float, float] | None = None,
    ) -> None:
        """level: a value marked by a dashed line; limits: fixed vertical limits."""
        self.names, self.log, self.fixed, self.level = names, log, limits, level
        self.source = ColumnDataSource({"x": [], **{name: [] for name in names}})
        self.figure = figure(
            x_range=Range1d(0, _FIRST_SPAN),
            y_range=Range1d(*(limits or (0.1, 1))),
            y_axis_type="log" if log else "linear",
            x_axis_label=unit,
            tools="",
            toolbar_location=None,
            height=170,
            sizing_mode="stretch_width",
            name=label,
            min_border_left=52,
            min_border_right=10,
            outline_line_color=None,
            background_fill_color="white",
            border_fill_color=None,
            html_attributes={"data-name": label},
        )
        labels = [name.removesuffix("_right") for name in names]
        for name, rgb in zip(names, named_colours(labels), strict=True):
            self.figure.line(
                "x", name, source=self.source, line_width=1.6, line_color=to_hex(rgb)
            )
        values = "<br>".join(
            f"{label}: @{name}{{%.4g}}"
            for label, name in zip(labels, names, strict=True)
        )
        columns = [f"@{name}" for name in ("x", *names)]
        self.figure.add_tools(
            curve_hover_tool(
                self.figure.renderers[0], f"{unit} @x{{%.7g}}<br>{values}", *columns
            )
        )
        if level is not None:
            self.figure.add_layout(
                Span(
                    location=level,
                    dimension="width",
                    line_color=FAINT,
                    line_dash="dashed",
                )
            )
        if log:
            self.figure.yaxis.formatter = PrintfTickFormatter(format="%g")
        _style_figure(self.figure)

    def show(self, columns: dict[str, np.ndarray]) -> None:
        """columns: x and each curve, each of shape (point,); others are ignored."""
        self.source.data = {
            name: np.asarray(columns[name], np.float32) for name in ("x", *self.names)
        }
        x, y = columns["x"], np.concatenate([columns[name] for name in self.names])
        positive = y[np.isfinite(y) & ((y > 0) | (not self.log))]
        across, up = self.figure.x_range, self.figure.y_range
        anew = len(x) < 2
        if anew or x[-1] > across.end:
            across.end = max(_FIRST_SPAN, 1.5 * float(x[-1]) if len(x) else _FIRST_SPAN)
        if self.fixed:
            return
        low, high = (positive.min(), positive.max()) if positive.size else (0.5, 1.0)
        if self.level is not None:
            low, high = min(low, self.level), max(high, self.level)
        if anew or low < up.start or high > up.end:
            limits = self.limits(float(low), float(high))
            up.update(start=limits[0], end=limits[1])
            if self.log:
                self.figure.yaxis.ticker = FixedTicker(ticks=tick_values(limits, True))

    def limits(self, low: float, high: float) -> tuple[float, float]:
        """Limits with room for later values."""
        if self.log:
            return low / 1.6, high * 1.6
        return 0.0 if low >= 0 else 1.2 * low, 1.25 * high or 1.0


def pair_sum_points(n: int, filled: np.ndarray | None = None) -> Points:
    """Marks of the pair sums of N tokens, coloured by modular sum."""
    pairs = all_pairs(n)
    residue = modular_sum(pairs, n)
    names = tuple(
        f"{i} + {j}, sum {k}" for (i, j), k in zip(pairs, residue, strict=True)
    )
    size = float(np.clip(np.sqrt(150 / len(pairs)), 0.3, 1.2))
    return Points("sums", class_colours(n)[residue], names, filled=filled, size=size)


def _style_figure(plot: figure) -> None:
    """Use few and thin lines."""
    plot.grid.grid_line_color = "#eef1f4"
    plot.axis.axis_line_color = RULE
    plot.axis.major_tick_line_color = RULE
    plot.axis.minor_tick_line_color = None
    plot.axis.axis_label_text_font_style = "normal"
    plot.axis.axis_label_text_font_size = plot.axis.major_label_text_font_size = "11px"
    plot.axis.axis_label_text_color = plot.axis.major_label_text_color = FAINT
    plot.axis.ticker.desired_num_ticks = 4


def _patch_source(source: ColumnDataSource, columns: dict[str, np.ndarray]) -> None:
    """Replace whole columns of a source and send only these."""
    source.patch(
        {
            name: [(slice(0, len(values)), np.asarray(values, np.float32))]
            for name, values in columns.items()
        }
    )
