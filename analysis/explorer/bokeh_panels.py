"""A panel of a scene as a Bokeh figure, and the parts of it that change from frame to
frame.

Changing glyphs are drawn on the figure's upper canvas (level "overlay"); axes, frame
and curves are drawn on the lower one, which is painted once. The script of the page, or
a live page, writes into the data sources of `BokehPanel.parts`."""

import html
from dataclasses import dataclass
from typing import Any

import numpy as np
from bokeh import models
from bokeh.core.properties import value
from bokeh.plotting import figure
from bokeh.transform import transform
from matplotlib.colors import to_hex, to_rgba_array

from analysis.explorer.codec import IMAGE_LEVELS, encode_layer
from analysis.explorer.theme import FACE, script, style_sheet
from analysis.panels.colours import (
    band_opacity,
    colour,
    sequential_colours,
    text_colours,
)
from analysis.panels.common_panels import join_notes
from analysis.panels.contours import (
    FLAG_COMBINATIONS,
    contour_tiles,
    mark_contours,
    tile_pixels,
)
from analysis.panels.scene import (
    Arrows,
    Curves,
    EventMark,
    Image,
    LayerArrays,
    Map,
    Panel,
    Points,
    Scene,
)
from analysis.panels.style import widest_first, width_of_split

_MARK_SIZE, _LABELLED_MARK_SIZE = 7.0, 14.0
"""Diameter of a marker of size 1, and of a marker with a label, in pixels."""

_CURVE_WIDTH = 1.3
"""Width in pixels of the narrowest curves."""

LEFT, RIGHT, TOP, BOTTOM = 40, 9, 5, 24
"""Pixels around a frame, for ticks and their numbers."""
_SQUARE_FRAME: dict[str, str | None] = {
    "flex": "none",
    "height": f"calc(100cqw - {LEFT + RIGHT - TOP - BOTTOM}px)",
}
"""Styles of a figure with a square frame that fills the width of its container."""

MARKED_EVENTS = ("drop", "spike", "escape", "plateau", "rise", "decision")
"""Kinds of events that the page marks."""


@dataclass
class BokehPanel:
    """A panel, and its changing parts."""

    layout: models.Column
    plot: figure
    parts: list[dict[str, Any]]


def make_bokeh_panel(
    panel: Panel, arrays: LayerArrays, scene: Scene | None = None, at: float = 0.0
) -> BokehPanel:
    """A panel as a Bokeh figure that fills its column of the page.

    arrays: arrays of its layers at one frame, (1, ...). scene: that of a panel with
    curves. at: time of the frame.
    """
    plot = _empty_figure(panel)
    parts: list[dict[str, Any]] = []
    heading = panel_heading(panel)
    for layer in panel.layers:
        part: dict[str, Any] = {"plot": plot, "heading": heading}
        if isinstance(layer, Curves):
            assert scene is not None
            part |= _add_curves(plot, panel, layer, scene, at)
        else:
            values = arrays[layer.array]
            part["array"] = layer.array
            if isinstance(layer, Points):
                part |= _add_points(plot, layer, values)
            elif isinstance(layer, Arrows):
                part |= _add_arrows(plot, layer, values)
            else:
                part |= _add_pixels(plot, panel, layer, values)
        parts.append(part)
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
    return BokehPanel(layout, plot, parts)


# ---------------------------------------------------------------------- frame and title


def _empty_figure(panel: Panel) -> figure:
    """An empty figure with fixed limits, in a square frame."""
    limits = np.array([panel.x, panel.y])
    if panel.equal:  # the same scale on both axes
        half = np.ptp(limits, axis=1).max() / 2
        limits = np.add(limits.mean(axis=1, keepdims=True), [-half, half])
    x_range, y_range = limits.tolist()
    plot = figure(
        min_border_left=LEFT,
        min_border_right=RIGHT,
        min_border_top=TOP,
        min_border_bottom=BOTTOM,
        styles=_SQUARE_FRAME,
        x_range=x_range,
        y_range=y_range,
        y_axis_type="log" if panel.log else "linear",
        tools="",
        name=panel.title,
        html_attributes={"data-name": panel.title, "data-panel": panel.name},
    )
    images = [layer for layer in panel.layers if isinstance(layer, Image)]
    if images and not panel.equal:  # names of rows are in the hover text
        columns = images[0].columns
        every = max(1, -(-len(columns) * (1 + max(map(len, columns))) // 26))
        named = {place: columns[place] for place in range(0, len(columns), every)}
        plot.xaxis.ticker = models.FixedTicker(ticks=list(named))
        plot.xaxis.major_label_overrides = named
        plot.yaxis.visible = False
    if panel.origin:
        for span in (plot.vspan, plot.hspan):
            span(0.0, line_color=colour("grid"), level="underlay")
    return plot


def panel_heading(panel: Panel) -> models.Div:
    """The title, and below it a note, the legend of the curves, or the colours of a
    matrix; at the right an "i" that opens an explanation.

    In a row, titles are aligned at their upper edges and figures at their lower ones.
    If the panel shows another frame than the time bar, the script of the page says so
    in the element <em>."""
    title = html.escape(panel.title)
    text = f'<h2 title="{title}">{title}</h2><p>{_caption(panel)}</p><em></em>'
    if explanation := panel.explanation:
        text += (
            f'<details><summary aria-label="About: {title}">i</summary>{explanation}'
            "</details>"
        )
    styles = [style_sheet("heading")]
    return models.Div(
        text=text, stylesheets=styles, sizing_mode="stretch_width", margin=0
    )


def _caption(panel: Panel) -> str:
    """What axes and colours mean, as HTML."""
    swatches = []
    axes = [panel.y_label, panel.x_label]
    if panel.equal:
        axes = axes[::-1]
    for layer in panel.layers:
        if isinstance(layer, Curves):
            axes = [panel.x_label and f"by {panel.x_label}", panel.unit]
            axes += ["log"] * panel.log
            named = [*zip(layer.names, layer.colours, strict=True)]
            named += [(span.name, span.colour) for span in panel.spans]
            swatches += [
                f'<span><i style="background:{to_hex(rgb)}"></i>{html.escape(name)}'
                "</span>"
                for name, rgb in named
            ]
        elif isinstance(layer, Image):
            shades = ",".join(map(to_hex, sequential_colours(9)))
            bar = f'<i class="colours" style="background:linear-gradient(90deg,{shades})">'
            has_sides = not panel.equal and panel.y_label and panel.x_label
            if has_sides:
                axes = [f"rows: {panel.y_label}; columns: {panel.x_label}"]
            end = ";" if has_sides or panel.note else ""
            swatches.append(f"{layer.low:.2g}{bar}</i>{layer.high:.2g}{end}")
    note = join_notes(", ".join(filter(None, axes)), panel.note)
    return " ".join([*swatches, html.escape(note)])


# ------------------------------------------------------------------------------- layers


def add_hover(
    plot: figure,
    renderer: models.GlyphRenderer,
    tooltips: str,
    across: bool = False,
    **more: Any,
) -> None:
    """Add a hover text beside the marks of a renderer. tooltips: in Bokeh's notation,
    for example "@label (@x, @y)". across: for curves, whose values are those at the
    step nearest to the pointer, at any height of the panel."""
    if across:
        more |= {"attachment": "horizontal", "mode": "vline", "line_policy": "nearest"}
    plot.add_tools(models.HoverTool(renderers=[renderer], tooltips=tooltips, **more))


def mark_columns(values: np.ndarray) -> dict[str, np.ndarray]:
    """Columns of a data source for points (point, 2) or arrows (arrow, 4)."""
    numbers = np.ascontiguousarray(values.T, np.float32)
    if len(numbers) == 2:
        return dict(zip("xy", numbers, strict=True))
    x0, y0, x1, y1 = numbers
    # the triangle glyph points up
    angle = np.arctan2(y1 - y0, x1 - x0) - np.float32(np.pi / 2)
    return {"x0": x0, "y0": y0, "x1": x1, "y1": y1, "angle": angle}


def _add_points(plot: figure, layer: Points, values: np.ndarray) -> dict[str, Any]:
    """Add markers, the line through them, and their labels, as `artists.PointsArtist`
    does."""
    count = len(layer.names)
    colours = list(map(to_hex, layer.colours))
    shapes = [shape.replace("cross", "x") for shape in layer.shapes]
    shapes = shapes or ["circle"] * count
    filled = np.array(shapes) != "x"  # crosses cannot be filled
    if layer.filled is not None:
        filled &= layer.filled
    source = models.ColumnDataSource(
        {
            **mark_columns(values[0]),
            "fill": colours,
            "outline": np.where(filled, colour("background"), colours).tolist(),
            "alpha": filled.astype(float),
            "shape": shapes,
            "label": list(layer.names),
        }
    )
    size = _LABELLED_MARK_SIZE if layer.labelled else _MARK_SIZE * layer.size**0.5
    if layer.joined:
        line = models.Patch(x="x", y="y", fill_color=None, line_color=colour("faint"))
        plot.add_glyph(source, line, level="overlay")
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
    if layer.labelled:
        source.data["ink"] = list(map(to_hex, text_colours(layer.colours)))
        given = {"source": source, "plot": plot, "covering": 0.9 * size}
        hidden = models.CustomJSTransform(args=given, v_func=script("labels"))
        names = models.Text(
            x="x",
            y="y",
            text="label",
            x_offset=transform("x", hidden),
            text_align="center",
            text_baseline="middle",
            text_font_size="8.5px",
            text_color="ink",
            text_font=value(FACE),
        )
        plot.add_glyph(source, names, level="overlay")
    if set(shapes) != {"x"} and any(layer.names):  # crosses lie on other marks
        how: dict[str, Any] = {"point_policy": "snap_to_data", "attachment": "above"}
        add_hover(plot, marks, "@label (@x, @y)", **how)
    return {"kind": "points", "source": source, "count": count}


def _add_arrows(plot: figure, layer: Arrows, values: np.ndarray) -> dict[str, Any]:
    """Add arrows: shafts and heads."""
    texts = {"colour": list(map(to_hex, layer.colours)), "label": list(layer.names)}
    source = models.ColumnDataSource({**mark_columns(values[0]), **texts})
    shaft = models.Segment(line_color="colour", line_width=1.8)
    tip = models.Scatter(
        x="x1",
        y="y1",
        angle="angle",
        marker="triangle",
        size=8,
        fill_color="colour",
        line_color=None,
    )
    plot.add_glyph(source, shaft, level="overlay")
    tips = plot.add_glyph(source, tip, level="overlay")
    add_hover(plot, tips, "@label (@x1, @y1)", attachment="above")
    return {"kind": "arrows", "source": source, "count": len(layer.names)}


def _add_pixels(
    plot: figure, panel: Panel, layer: Map | Image, values: np.ndarray
) -> dict[str, Any]:
    """Add a map or a matrix that fills the panel; hovering shows the class or value."""
    palette, edges = pixel_palette(layer)
    source = models.ColumnDataSource(pixel_columns(layer, values[0], palette, edges))
    (left, right), (low, high) = panel.x, panel.y
    box = {"x": left, "y": low, "dw": right - left, "dh": high - low}
    tile = models.ImageRGBA(image="image", **box)
    renderer = plot.add_glyph(source, tile, level="overlay")
    words: dict[str, Any] = {"plot": plot, "source": source, "rows": None}
    if isinstance(layer, Map):
        words["names"] = list(layer.names)
    else:
        words |= {"rows": list(layer.rows[::-1]), "columns": list(layer.columns)}
        words |= {"low": layer.low, "high": layer.high, "levels": IMAGE_LEVELS}
        if layer.row_colours is not None:
            strip = _pixels(layer.row_colours[::-1])[:, None]
            edge = models.ImageRGBA(image="image", **box | {"dw": 0.025 * box["dw"]})
            colours = models.ColumnDataSource({"image": [strip]})
            plot.add_glyph(colours, edge, level="overlay")
        if layer.borders:
            plot.vspan(
                list(layer.borders),
                level="overlay",
                line_color="white",
                line_width=2,
            )
    named = models.CustomJSHover(args=words, code=script("hover"))
    form = {"$x": named}
    add_hover(plot, renderer, "$x{custom}", formatters=form, attachment="below")
    return {
        "kind": "pixels",
        "source": source,
        "tile": tile,
        "columns": values.shape[2],
        "palette": palette,
        "edges": edges,
        "map": isinstance(layer, Map),
    }


def pixel_columns(
    layer: Map | Image, values: np.ndarray, palette: np.ndarray, edges: bool
) -> dict[str, list[np.ndarray]]:
    """Columns of the data source of a map or a matrix (row, column): the pixels to draw,
    and for each cell the index of its class or level. palette, edges: as from
    `pixel_palette`."""
    numbers = np.asarray(values, np.uint16)
    if isinstance(layer, Image):
        numbers = encode_layer(layer, values[None])[0].reshape(values.shape)
    return {"image": [palette_pixels(numbers, palette, edges)], "number": [numbers]}


def _pixels(colours: np.ndarray) -> np.ndarray:
    """Colours (number, rgb) in 0..1 as opaque 32-bit pixels (number,) whose first byte
    in memory is red."""
    return np.round(255 * to_rgba_array(colours)).astype(np.uint8).view("<u4")[:, 0]


def pixel_palette(layer: Map | Image) -> tuple[np.ndarray, bool]:
    """Pixels of all class indices of a layer, (number,) uint32, and whether there are
    four for each, with contours.

    With contours, they are the flattened tiles of `contours.contour_tiles`, (value,
    row, column)."""
    if isinstance(layer, Image):
        gap = to_rgba_array(colour("faint"))[:, :3]
        return _pixels(np.vstack([sequential_colours(IMAGE_LEVELS + 1), gap])), False
    colours = contour_tiles(layer.palette) if layer.lines else np.asarray(layer.palette)
    return _pixels(colours.reshape(-1, 3)), layer.lines


def palette_pixels(numbers: np.ndarray, palette: np.ndarray, edges: bool) -> np.ndarray:
    """Pixels of class indices (row, column): one each, or four each with contours."""
    if not edges:
        return palette[numbers]
    tiles = palette.reshape(-1, 2, 2)
    marked = mark_contours(numbers, len(tiles) // FLAG_COMBINATIONS)
    return tile_pixels(tiles, marked)


def _add_curves(
    plot: figure, panel: Panel, layer: Curves, scene: Scene, at: float
) -> dict[str, Any]:
    """Add curves, with the events of the run above them, and a cursor."""
    x, y = np.asarray(layer.x, np.float64), np.asarray(layer.y, np.float64)
    order = widest_first(layer.names)
    names = [layer.names[curve] for curve in order]
    source = models.ColumnDataSource(
        {
            "x": [x] * len(y),
            "y": [y[curve] for curve in order],
            "colour": [to_hex(layer.colours[curve]) for curve in order],
            "label": names,
            "place": order,
            "width": [_CURVE_WIDTH * width_of_split(name) for name in names],
        }
    )
    glyph = models.MultiLine(xs="x", ys="y", line_color="colour", line_width="width")
    lines = plot.add_glyph(source, glyph)
    words = f"@label: $snap_y, {panel.x_label} $snap_x"
    add_hover(plot, lines, words, across=True, sort_by="place")
    for begin, end, of, _ in panel.spans:
        band = {"left": begin, "right": end, "fill_color": of, "line_color": None}
        plot.add_layout(models.BoxAnnotation(fill_alpha=band_opacity(), **band))
    _add_event_marks(plot, panel, scene)
    cursor = models.ColumnDataSource({"x": np.array([at], np.float32)})
    plot.vspan(
        "x", source=cursor, level="overlay", line_color=colour("ink"), line_width=1.2
    )
    return {"kind": "cursor", "source": cursor}


# ------------------------------------------------------------------------------- events


def _add_event_marks(plot: figure, panel: Panel, scene: Scene) -> None:
    """Add ticks at the upper edge at the middle of events, and bars over plateaus."""
    marks = [mark for mark in scene.marks if mark.kind in MARKED_EVENTS]
    if not marks:
        return
    low, high = panel.y
    edge = low * (high / low) ** 0.93 if panel.log else low + 0.93 * (high - low)
    bars = np.array([mark.kind == "plateau" for mark in marks])
    begin, middle, end = scene.clock_at(np.array([mark[1:] for mark in marks]).T)
    source = models.ColumnDataSource(
        {
            "x0": np.where(bars, begin, middle),
            "x1": np.where(bars, end, middle),
            "y0": np.where(bars, high, edge),
            "width": np.where(bars, 5, 2),
            "colour": [colour(mark.kind) for mark in marks],
            "label": [event_text(mark, scene) for mark in marks],
        }
    )
    glyph = models.Segment(y1=high, line_color="colour", line_width="width")
    add_hover(plot, plot.add_glyph(source, glyph), "@label")


def event_text(mark: EventMark, scene: Scene) -> str:
    """An event in words."""
    begin, middle, end = scene.clock_at(np.array(mark[1:]))
    if mark.kind == "plateau":
        return f"plateau, {scene.unit} {begin:.6g} to {end:.6g}"
    return f"{mark.kind} at {scene.unit} {middle:.6g}"
