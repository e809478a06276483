"""A panel of a scene as a Bokeh figure, and the parts of it that the player in the
browser changes from frame to frame.

Changing glyphs are drawn on the figure's upper canvas (level "overlay"); axes, frame
and curves are drawn on the lower one, which is painted once. The player writes slices
of buffers into the data sources of `BokehPanel.parts` and repaints."""

import html
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
from bokeh import models
from bokeh.core.properties import value
from bokeh.plotting import figure
from bokeh.transform import transform
from matplotlib.colors import to_hex, to_rgba_array
from matplotlib.ticker import MaxNLocator

from analysis.explorer.codec import IMAGE_LEVELS, encode_layer
from analysis.explorer.event_marks import draw_event_marks
from analysis.explorer.panel_explanations import PANEL_EXPLANATIONS
from analysis.explorer.theme import FACE, FAINT, INK, RULE, WARNING, style_sheet
from analysis.panels.colours import colour, sequential_colours, text_colours
from analysis.panels.common_panels import join_notes
from analysis.panels.scene import (
    Arrows,
    Curves,
    Image,
    LayerArrays,
    Map,
    Panel,
    Points,
    Scene,
)
from analysis.plots.drawing.axes_decoration import format_tick
from analysis.plots.drawing.contours import contour_tiles, mark_contours, tile_pixels

_MARK_SIZE, _LABELLED_MARK_SIZE = 7.0, 14.0
"""Diameter of a marker of size 1, and of a marker with a label, in pixels."""

LEFT, RIGHT, TOP, BOTTOM = 40, 9, 5, 24
"""Pixels around a frame, for ticks and their numbers."""
_SQUARE_FRAME: dict[str, str | None] = {
    "flex": "none",
    "height": f"calc(100cqw - {LEFT + RIGHT - TOP - BOTTOM}px)",
}
"""Styles of a figure with a square frame that fills the width of its container."""

_HOVER_FORMAT = "{%.4g}"
"""Format of numbers in hover texts."""


@dataclass
class BokehPanel:
    """A panel, and its changing parts."""

    layout: models.Column
    parts: list[dict[str, Any]]


def make_bokeh_panel(
    panel: Panel, scene: Scene, arrays: LayerArrays, at: float
) -> BokehPanel:
    """A panel as a Bokeh figure that fills its column of the page.

    arrays: arrays of its layers at one frame, (1, ...). at: time of that frame.
    """
    plot = _empty_figure(panel)
    parts: list[dict[str, Any]] = []
    for layer in panel.layers:
        if isinstance(layer, Curves):
            parts.append(_add_curves(plot, panel, layer, scene, at))
        elif isinstance(layer, Points):
            parts.append(add_points(plot, layer, arrays[layer.array]))
        elif isinstance(layer, Arrows):
            parts.append(add_arrows(plot, layer, arrays[layer.array]))
        else:
            parts.append(add_pixels(plot, panel, layer, arrays[layer.array]))
    heading = panel_heading(panel)
    for part in parts:
        part.update(plot=plot, heading=heading)
    layout = models.Column(
        children=[heading, plot],
        sizing_mode="stretch_width",
        margin=(0, 8, 4, 0),
        name=panel.name,
        styles={
            "container-type": "inline-size",
            "align-self": "stretch",
            "height": "auto",
        },
    )
    return BokehPanel(layout, parts)


# ---------------------------------------------------------------------- frame and title


def _empty_figure(panel: Panel) -> figure:
    """An empty figure with fixed limits, in a square frame."""
    x, y = _square_limits(panel)
    plot = figure(
        min_border_left=LEFT,
        min_border_right=RIGHT,
        min_border_top=TOP,
        min_border_bottom=BOTTOM,
        sizing_mode="stretch_width",
        styles=_SQUARE_FRAME,
        x_range=models.Range1d(start=x[0], end=x[1]),
        y_range=models.Range1d(start=y[0], end=y[1]),
        y_axis_type="log" if panel.log else "linear",
        toolbar_location=None,
        tools="",
        lod_threshold=None,
        outline_line_color=RULE,
        background_fill_color=colour("background"),
        border_fill_color=None,
        margin=0,
        name=panel.title,
        html_attributes={"data-name": panel.title, "data-panel": panel.name},
    )
    plot.grid.visible = False
    image = next((layer for layer in panel.layers if isinstance(layer, Image)), None)
    for axis, limits, log in ((plot.xaxis, x, False), (plot.yaxis, y, panel.log)):
        places = tick_values(limits, log)
        axis.ticker = models.FixedTicker(ticks=places)
        axis.major_label_overrides = {place: format_tick(place) for place in places}
        axis.axis_line_color = axis.minor_tick_line_color = None
        axis.major_tick_line_color, axis.major_tick_out, axis.major_tick_in = RULE, 3, 0
        axis.major_label_text_font_size, axis.major_label_text_color = "10px", FAINT
        axis.major_label_text_font, axis.major_label_standoff = FACE, 3
    if image is not None and not panel.equal:
        _name_matrix_cells(plot, image)
    if panel.origin:
        plot.line([0.0, 0.0], y, line_color=colour("grid"), line_width=1)
        plot.line(x, [0.0, 0.0], line_color=colour("grid"), line_width=1)
    return plot


def _square_limits(panel: Panel) -> tuple[tuple[float, float], tuple[float, float]]:
    """The limits of a panel, extended to equal scales if `panel.equal` is true."""
    if not panel.equal:
        return panel.x, panel.y
    half = max(panel.x[1] - panel.x[0], panel.y[1] - panel.y[0]) / 2
    middles = (sum(panel.x) / 2, sum(panel.y) / 2)
    return (middles[0] - half, middles[0] + half), (
        middles[1] - half,
        middles[1] + half,
    )


def tick_values(limits: tuple[float, float], log: bool) -> list[float]:
    """A few round numbers within limits."""
    low, high = limits
    if log and high / low >= 30:
        powers = np.arange(np.ceil(np.log10(low)), np.floor(np.log10(high)) + 1)
        return [float(10.0**power) for power in powers[:: -(-len(powers) // 4)]]
    if log and high / low >= 3:
        powers = np.arange(np.floor(np.log10(low)), np.ceil(np.log10(high)) + 1)
        every = [
            float(f"{lead}e{int(power)}") for power in powers for lead in (1, 2, 5)
        ]
        return [tick for tick in every if low <= tick <= high]
    values = MaxNLocator(3, steps=[1, 2, 2.5, 5, 10]).tick_values(low, high)
    return [float(round(tick, 12)) for tick in values if low <= tick <= high]


def _name_matrix_cells(plot: figure, image: Image) -> None:
    """Label the columns below the matrix, as many as fit; labels of rows are in the
    hover text."""
    every = max(1, -(-len(image.columns) * max(map(len, image.columns)) // 26))
    places = list(range(0, len(image.columns), every))
    plot.xaxis.ticker = models.FixedTicker(ticks=places)
    plot.xaxis.major_label_overrides = {place: image.columns[place] for place in places}
    plot.yaxis.visible = False


def panel_heading(panel: Panel) -> models.Div:
    """The title, and below it a note, the legend of the curves, or the colours of a
    matrix; at the right an "i" that opens an explanation.

    In a row, titles are aligned at their upper edges and figures at their lower ones.
    If the panel shows another frame than the time bar, the script of the page says so
    in the element <em>."""
    caption, note = _caption(panel)
    image = next((layer for layer in panel.layers if isinstance(layer, Image)), None)
    scale = f"{image.low:.2g} to {image.high:.2g}" if image else ""
    notes = join_notes(scale, panel.note)
    said = html.escape(f"{panel.title}. {notes}" if notes else panel.title, quote=True)
    text = (
        f'<h3 title="{said}">{html.escape(panel.title)}</h3><p'
        f' title="{html.escape(note)}">{caption}</p><em></em>'
    )
    if explanation := PANEL_EXPLANATIONS.get(panel.name, ""):
        name = html.escape(f"About: {panel.title}", quote=True)
        text += (
            f'<details><summary aria-label="{name}">i</summary>{explanation}</details>'
        )
    return models.Div(
        text=text, sizing_mode="stretch_width", margin=0, stylesheets=[_HEADING_STYLE]
    )


def _caption(panel: Panel) -> tuple[str, str]:
    """The caption as HTML, and what it says without swatches."""
    curves = [layer for layer in panel.layers if isinstance(layer, Curves)]
    image = next((layer for layer in panel.layers if isinstance(layer, Image)), None)
    if curves:
        swatches = [
            '<span style="white-space:nowrap"><i'
            f' style="background:{to_hex(colour)}"></i>{html.escape(name)}</span>'
            for layer in curves
            for name, colour in zip(layer.names, layer.colours, strict=True)
        ]
        scale = "log" if panel.log else ""
        axis = ", ".join(
            filter(
                None,
                (
                    panel.x_label and f"by {panel.x_label}",
                    scale,
                    _off_scale(panel, curves),
                ),
            )
        )
        names = ", ".join(name for layer in curves for name in layer.names)
        notes = [
            note
            for note in panel.note.split("; ")
            if note and not note.startswith("off scale")
        ]
        return " ".join([*swatches, html.escape(axis)]), "; ".join(
            [f"{names} {axis}", *notes]
        )
    x_first, y_first = (panel.x_label, panel.y_label), (panel.y_label, panel.x_label)
    axes = (
        ", ".join(filter(None, x_first))
        if panel.equal
        else " / ".join(filter(None, y_first))
    )
    note = join_notes(axes, panel.note)
    if image is None:
        return html.escape(note), note
    return (
        (
            f"<span>{html.escape(note)}</span>"
            f" {image.low:.2g}{_COLOUR_BAR}{image.high:.2g}"
        ),
        note,
    )


def _off_scale(panel: Panel, curves: Sequence[Curves]) -> str:
    """Says where curves leave the panel."""
    y = np.concatenate([layer.y.ravel() for layer in curves])
    sides = {"above": y > panel.y[1], "below": y < panel.y[0]}
    join = " and ".join(side for side, beyond in sides.items() if beyond.any())
    return f"off scale {join}" if join else ""


_HEADING_STYLE = style_sheet("heading", warning=WARNING)
_COLOUR_BAR = (
    '<i class="colours"'
    f' style="background:linear-gradient(90deg,{",".join(map(to_hex, sequential_colours(9)))})"></i>'
)
"""Colours of the values of a matrix, from the lowest to the highest."""

# ------------------------------------------------------------------------------- layers


def _hover_tool(renderer: models.GlyphRenderer, x: str, y: str) -> models.HoverTool:
    """The hover text of a mark: its name and position, above it. x, y: columns in
    Bokeh's notation."""
    said = f"@label ({x}{_HOVER_FORMAT}, {y}{_HOVER_FORMAT})"
    formats = {x: "printf", y: "printf"}
    return models.HoverTool(
        renderers=[renderer],
        tooltips=said,
        formatters=formats,
        point_policy="snap_to_data",
        attachment="above",
    )


def curve_hover_tool(
    renderer: models.GlyphRenderer, said: str, *columns: str
) -> models.HoverTool:
    """The hover text of curves: values at the recorded step nearest to the pointer, at
    any height of the panel.

    columns: those of the source that the text shows.
    """
    formats = dict.fromkeys(("$snap_x", "$snap_y", *columns), "printf")
    return models.HoverTool(
        renderers=[renderer],
        tooltips=said,
        formatters=formats,
        mode="vline",
        line_policy="nearest",
        attachment="horizontal",
    )


def add_points(plot: figure, layer: Points, values: np.ndarray) -> dict[str, Any]:
    """Add markers, the line through them, and their labels, as `artists.PointsArtist`
    does."""
    colours = list(map(to_hex, layer.colours))
    filled = (
        np.ones(len(colours), bool)
        if layer.filled is None
        else np.asarray(layer.filled, bool)
    )
    shapes = ["x" if shape == "cross" else shape for shape in layer.shapes] or [
        "circle"
    ] * len(colours)
    filled &= np.array([shape != "x" for shape in shapes])  # crosses cannot be filled
    outline = [
        colour("background") if full else own
        for full, own in zip(filled, colours, strict=True)
    ]
    x, y = np.ascontiguousarray(values[0].T, np.float32)
    source = models.ColumnDataSource(
        {
            "x": x,
            "y": y,
            "fill": colours,
            "outline": outline,
            "alpha": np.where(filled, 1.0, 0.0),
            "shape": shapes,
            "label": list(layer.names),
        }
    )
    size = _LABELLED_MARK_SIZE if layer.labelled else _MARK_SIZE * layer.size**0.5
    renderers: list[models.GlyphRenderer] = []
    if layer.joined:
        outline_of_all = models.Patch(
            x="x", y="y", fill_color=None, line_color=colour("faint")
        )
        renderers.append(plot.add_glyph(source, outline_of_all, level="overlay"))
    mark = models.Scatter(
        x="x",
        y="y",
        marker="shape",
        size=size,
        fill_color="fill",
        fill_alpha="alpha",
        line_color="outline",
        line_width=min(0.8, 5 * layer.size) if filled.all() else 1.2,
    )
    marks = plot.add_glyph(source, mark, level="overlay")
    renderers.append(marks)
    if layer.labelled:
        source.data["ink"] = list(map(to_hex, text_colours(layer.colours)))
        words = {"source": source, "plot": plot, "covering": 0.9 * size}
        offset = transform(
            "x", models.CustomJSTransform(args=words, v_func=_LABELS_CODE)
        )
        names = models.Text(
            x="x",
            y="y",
            text="label",
            x_offset=offset,
            text_align="center",
            text_baseline="middle",
            text_font_size="8.5px",
            text_color="ink",
            text_font=value(FACE),
        )
        renderers.append(plot.add_glyph(source, names, level="overlay"))
    if set(shapes) != {"x"}:  # crosses lie on other marks
        plot.add_tools(_hover_tool(marks, "@x", "@y"))
    return {
        "kind": "points",
        "array": layer.array,
        "source": source,
        "renderers": renderers,
        "count": len(colours),
    }


_LABELS_CODE = (Path(__file__).parent / "labels.js").read_text(encoding="utf-8")


def add_arrows(plot: figure, layer: Arrows, values: np.ndarray) -> dict[str, Any]:
    """Add arrows: shafts and heads."""
    colours = list(map(to_hex, layer.colours))
    x0, y0, x1, y1 = np.ascontiguousarray(values[0].T, np.float32)
    angle = np.arctan2(y1 - y0, x1 - x0) - np.float32(np.pi / 2)
    source = models.ColumnDataSource(
        {
            "x0": x0,
            "y0": y0,
            "x1": x1,
            "y1": y1,
            "angle": angle,
            "colour": colours,
            "label": list(layer.names),
        }
    )
    shaft = models.Segment(
        x0="x0", y0="y0", x1="x1", y1="y1", line_color="colour", line_width=1.8
    )
    shafts = plot.add_glyph(source, shaft, level="overlay")
    tip = models.Scatter(
        x="x1",
        y="y1",
        angle="angle",
        marker="triangle",
        size=8,
        fill_color="colour",
        line_color=None,
    )
    tips = plot.add_glyph(source, tip, level="overlay")
    plot.add_tools(_hover_tool(tips, "@x1", "@y1"))
    renderers = [shafts, tips]
    return {
        "kind": "arrows",
        "array": layer.array,
        "source": source,
        "renderers": renderers,
        "count": len(colours),
    }


def add_pixels(
    plot: figure, panel: Panel, layer: Map | Image, values: np.ndarray
) -> dict[str, Any]:
    """Add a map or a matrix that fills the panel; hovering shows the class or value."""
    level = (
        encode_layer(layer, values)[0].reshape(values.shape[1:])
        if isinstance(layer, Image)
        else None
    )
    pixels = level if level is not None else np.asarray(values[0], np.uint16)
    palette, edges = pixel_palette(layer)
    source = models.ColumnDataSource(
        {"image": [palette_pixels(pixels, palette, edges)], "number": [pixels]}
    )
    x, y = panel.x, panel.y
    tile = models.ImageRGBA(
        image="image", x=x[0], y=y[0], dw=x[1] - x[0], dh=y[1] - y[0]
    )
    renderer = plot.add_glyph(source, tile, level="overlay")
    if isinstance(layer, Image) and layer.row_colours is not None:
        strip = _pixels(layer.row_colours[::-1])[:, None]
        edge = models.ImageRGBA(
            image="image", x=x[0], y=y[0], dw=0.025 * (x[1] - x[0]), dh=y[1] - y[0]
        )
        plot.add_glyph(
            models.ColumnDataSource({"image": [strip]}), edge, level="overlay"
        )
    words: dict[str, Any] = {"box": [*x, *y], "source": source}
    if isinstance(layer, Map):
        words |= {"names": list(layer.names), "rows": None, "columns": None}
    else:
        words |= {
            "names": None,
            "rows": list(layer.rows[::-1]),
            "columns": list(layer.columns),
        }
        words |= {"low": layer.low, "high": layer.high, "levels": IMAGE_LEVELS}
    named = models.CustomJSHover(args=words, code=_HOVER_CODE)
    plot.add_tools(
        models.HoverTool(
            renderers=[renderer],
            tooltips="$x{custom}",
            formatters={"$x": named},
            attachment="below",
        )
    )
    part = {
        "kind": "pixels",
        "array": layer.array,
        "source": source,
        "renderers": [renderer],
    }
    return part | {
        "columns": pixels.shape[1],
        "palette": palette,
        "edges": edges,
        "map": isinstance(layer, Map),
    }


_HOVER_CODE = (Path(__file__).parent / "hover.js").read_text(encoding="utf-8")


def _pixels(colours: np.ndarray) -> np.ndarray:
    """Colours (number, rgb) in 0..1 as opaque 32-bit pixels (number,) whose first byte
    in memory is red."""
    return np.round(255 * to_rgba_array(colours)).astype(np.uint8).view("<u4")[:, 0]


def pixel_palette(layer: Map | Image) -> tuple[np.ndarray, bool]:
    """Pixels of all class indices of a layer, (number,) uint32, and whether there are
    four for each, with contours.

    With contours, they are the flattened tiles of `contours.contour_tiles`, (4 number,
    row, column)."""
    if isinstance(layer, Image):
        return (
            _pixels(
                np.vstack([sequential_colours(IMAGE_LEVELS + 1), np.full(3, 0.85)])
            ),
            False,
        )
    colours = contour_tiles(layer.palette) if layer.lines else np.asarray(layer.palette)
    return _pixels(colours.reshape(-1, 3)), layer.lines


def palette_pixels(numbers: np.ndarray, palette: np.ndarray, edges: bool) -> np.ndarray:
    """Pixels of class indices (row, column): one each, or four each with contours."""
    if not edges:
        return palette[numbers]
    four = palette.reshape(-1, 2, 2)
    return tile_pixels(four, mark_contours(numbers, len(four) // 4))


def _add_curves(
    plot: figure, panel: Panel, layer: Curves, scene: Scene, at: float
) -> dict[str, Any]:
    """Add curves, with the events of the run above them, and a cursor."""
    x, y = np.asarray(layer.x, np.float64), np.asarray(layer.y, np.float64)
    source = models.ColumnDataSource(
        {
            "x": [x] * len(y),
            "y": list(y),
            "colour": list(map(to_hex, layer.colours)),
            "label": list(layer.names),
        }
    )
    lines = plot.add_glyph(
        source, models.MultiLine(xs="x", ys="y", line_color="colour", line_width=1.3)
    )
    for begin, end, of, _ in panel.spans:
        band = models.BoxAnnotation(
            left=begin, right=end, fill_color=of, fill_alpha=0.13, line_color=None
        )
        plot.add_layout(band)
    draw_event_marks(plot, panel, scene)
    cursor = models.ColumnDataSource({"x": np.array([at], np.float32)})
    span = plot.vspan(
        "x", source=cursor, level="overlay", line_color=INK, line_width=1.2
    )
    plot.add_tools(
        curve_hover_tool(
            lines, f"@label: $snap_y{_HOVER_FORMAT}, {panel.x_label} $snap_x{{%.7g}}"
        )
    )
    return {
        "kind": "cursor",
        "source": cursor,
        "renderers": [span],
        "clock": np.asarray(scene.clock, np.float64),
    }
