"""Faults of a drawn figure: texts that overlap, are cut or too small, legends outside
their axes, over data or of what is not drawn, pale lines, limits far from the data, long
numbers at ticks, panels without data or words, figures that do not fit on a page."""

import itertools
import re
from collections.abc import Iterator
from typing import Any

import numpy as np
from matplotlib.axes import Axes
from matplotlib.collections import Collection
from matplotlib.colors import is_color_like, to_hex, to_rgb
from matplotlib.figure import Figure
from matplotlib.legend import Legend
from matplotlib.lines import Line2D
from matplotlib.patches import Patch
from matplotlib.transforms import Bbox

from analysis.panels.colours import colour
from analysis.panels.style import STYLES, current_style
from tests.contrast import contrast

USUAL_LOOKS = {"-", "None", "none", "", " ", None, "o"}
"""Line styles and markers that many lines have, so that they do not identify a line."""
PAPER = STYLES["paper"].width
TOLERANCE = 1.0
"""Pixels by which boxes may overlap or lie outside."""
PAGE = 240.0
"""Largest height of a figure in a column, in mm."""
COVERED = 0.01
"""Largest share of a panel's data that its legend may cover."""
TICK_LENGTH = 7
"""Most characters of a number at a tick."""
LETTERS = 6.45
"""Smallest size of letters in points on paper, after rounding to pixels."""
CONTRAST = 2.4
"""Smallest contrast of a line in a legend with the background. Lines of other runs, which
lie behind those that matter, have 2.5, all others at least 3."""
NATURAL_LIMITS = {"%": (0, 104), "": (-1.06, 1.06)}
"""Limits that an axis may have whatever its data: of percentages, and of fractions,
correlations and cosines."""


def token_places(axes: Axes) -> np.ndarray:
    """The positions (token, 2) of the tokens in a panel: those of their marks, or of the
    dots to which hollow marks belong, which are drawn before them."""
    marks = list(axes.collections)
    largest = max(mark.get_sizes().max() for mark in marks)
    is_dot = [mark.get_sizes().max() < 0.5 * largest for mark in marks]
    beside = [False, *is_dot[:-1]]
    places = [
        mark.get_offsets()
        for mark, is_beside in zip(marks, beside, strict=True)
        if not is_beside
    ]
    return np.concatenate(places)


def faults(figure: Figure, column: bool = False) -> list[str]:
    """What is wrong with a figure, a line each."""
    figure.draw_without_rendering()
    texts = {name: text.get_window_extent() for name, text in _texts(figure)}
    level = {name: box for name, box in texts.items() if not name.startswith("/")}
    whole = figure.bbox
    result = [
        f"cut by the edge: {name}"
        for name, box in texts.items()
        if not _contains(whole, box)
    ]
    result += [
        f"overlap: {first} and {second}"
        for (first, one), (second, other) in itertools.combinations(level.items(), 2)
        if _overlap(one, other)
    ]
    for axes in figure.axes:
        legend = axes.get_legend()
        if legend is None or not legend.get_visible() or not axes.get_visible():
            continue
        box = legend.get_window_extent()
        if not _contains(whole, box):
            result.append(f"legend cut by the edge: {_legend_name(legend)}")
        inside = box.overlaps(axes.bbox) and not _contains(axes.bbox, box)
        if inside:
            result.append(f"legend across the edge of its axes: {_legend_name(legend)}")
    if current_style().width <= PAPER:
        sizes = {text.get_fontsize(): name for name, text in _texts(figure)}
        if sizes and min(sizes) < LETTERS:
            result.append(f"{min(sizes):.1f} points: {sizes[min(sizes)]}")
    height = 25.4 * figure.get_figheight()
    if column and height > PAGE:
        result.append(f"height: {height:.0f} mm in a column")
    return result


def faults_of_axes(figure: Figure) -> list[str]:
    """What is wrong with the legends, limits and ticks of a figure that shows curves, a
    line each."""
    figure.draw_without_rendering()
    result: list[str] = []
    for axes in figure.axes:
        result += [*_covered_data(axes), *_far_limits(axes), *_long_ticks(axes)]
        if axes.get_visible() and axes.axison and not _has_content(axes):
            result.append(f"nothing in the panel: {axes.get_title()}")
    return [*result, *_faults_of_legends(figure)]


def _has_content(axes: Axes) -> bool:
    """Whether a panel shows data, or words in their place."""
    lines = [np.asarray(line.get_xydata(), float) for line in axes.lines]
    others = (axes.collections, axes.patches, axes.images, axes.texts, axes.child_axes)
    return any(np.isfinite(line).all(axis=1).any() for line in lines) or any(others)


def _faults_of_legends(figure: Figure) -> Iterator[str]:
    """Entries of what no panel shows, and lines that the background swallows."""
    legends = [*figure.legends, *(axes.get_legend() for axes in figure.axes)]
    drawn = set().union(*(_looks(item) for item in _artists(figure)))
    for legend in legends:
        if legend is None or not legend.get_visible():
            continue
        for handle, text in zip(legend.legend_handles, legend.get_texts(), strict=True):
            looks = _looks(handle)
            if not (looks & drawn or _is_of_any_colour(handle)):
                yield f"legend of what is not drawn: {text.get_text()}"
            if isinstance(handle, Line2D) and (handle.get_alpha() or 1) == 1:
                both = to_rgb(handle.get_color()), to_rgb(figure.get_facecolor())
                if contrast(*both) < CONTRAST:
                    yield f"contrast {contrast(*both):.1f}: {text.get_text()}"


def _is_of_any_colour(handle: Any) -> bool:
    """Whether an entry of a legend is a grey mark that stands for marks of all
    colours."""
    grey = {to_hex(colour(name)) for name in ("ink", "muted")}
    is_mark = isinstance(handle, Line2D) and handle.get_linestyle() == "None"
    return is_mark and to_hex(handle.get_color()) in grey


def _artists(figure: Figure) -> Iterator[Any]:
    """Lines with any data, marks, bands, bars and images of all panels."""
    for axes in figure.axes:
        for line in axes.lines:
            if np.isfinite(np.asarray(line.get_xydata(), float)).all(axis=1).any():
                yield line
        yield from (*axes.collections, *axes.patches)


def _looks(artist: Any) -> set[Any]:
    """Colours of an artist, and its line style and marker if these are special."""
    if isinstance(artist, Line2D):
        both = [artist.get_color(), artist.get_markerfacecolor()]
        special = {artist.get_linestyle(), artist.get_marker()} - USUAL_LOOKS
        return {to_hex(one) for one in both if is_color_like(one)} | special
    if isinstance(artist, Collection):
        special = (
            {":"} if any(dashes for _, dashes in artist.get_linestyles()) else set()
        )
        both = (*artist.get_facecolor(), *artist.get_edgecolor())
        return {to_hex(one) for one in both} | special
    if isinstance(artist, Patch):
        return {to_hex(artist.get_facecolor()), to_hex(artist.get_edgecolor())}
    parts = getattr(artist, "get_children", list)()
    return set().union(*(_looks(part) for part in parts))


def _covered_data(axes: Axes) -> Iterator[str]:
    """Legends over lines and points of their axes."""
    legend = axes.get_legend()
    if legend is None or not legend.get_visible():
        return
    points = [np.empty((0, 2))]
    for line in axes.lines:
        path = line.get_transform().transform_path(line.get_path())
        if line.get_linestyle() != "None" and len(path.vertices) > 1:
            path = path.interpolated(20)  # straight on the screen, also if log
        points.append(path.vertices)
    for item in axes.collections:
        offsets = np.ma.getdata(item.get_offsets())
        if len(offsets) > 1:
            points.append(item.get_offset_transform().transform(offsets))
    x, y = np.concatenate(points).T
    box = legend.get_window_extent()
    covered = (x > box.x0) & (x < box.x1) & (y > box.y0) & (y < box.y1)
    if covered.any() and covered.mean() > COVERED:
        name = _legend_name(legend)
        yield f"legend over {100 * covered.mean():.0f}% of the data: {name}"


def _far_limits(axes: Axes) -> Iterator[str]:
    """Vertical limits far from the data; with equal scales they depend on the other
    axis."""
    data = axes.dataLim
    low, high = sorted(axes.get_ylim())
    first, last = data.intervaly
    if not np.isfinite([first, last]).all() or axes.get_aspect() != "auto":
        return
    name = axes.get_ylabel() or axes.get_title()
    if axes.get_yscale() == "log":
        first = data.minposy if first <= 0 else first
        room = max(10**0.5, (last / first) ** 0.3)
        is_far = low < first / room or high > last * room
    elif axes.get_yscale() == "linear":
        first, last = min(first, 0), max(last, 0)
        room = 0.3 * (last - first)
        natural = NATURAL_LIMITS["%" if "%" in name else ""]
        is_far = low < min(first - room, natural[0])
        is_far |= high > max(last + room, natural[1])
    else:
        return
    if is_far:
        yield f"limits {low:g} to {high:g} of data {first:g} to {last:g}: {name}"


def _long_ticks(axes: Axes) -> Iterator[str]:
    """Numbers at ticks that are long, or products with powers."""
    for axis in (axes.xaxis, axes.yaxis):
        if not (axes.axison and axes.get_visible() and axis.get_visible()):
            continue
        for tick in axis._update_ticks():
            text = re.sub(r"\\mathdefault|[${}^]", "", tick.label1.get_text())
            is_number = re.fullmatch(r"[\d.\u2212e+-]+", text)
            if "times" in text or (is_number and len(text) > TICK_LENGTH):
                yield f"tick {tick.label1.get_text()}: {axes.get_title()}"


def _texts(figure: Figure):
    """Names and artists of all visible texts; the names of slanted ones, whose boxes
    say little, begin with a slash."""
    artists: list[Any] = [
        *figure.texts,
        *(text for legend in figure.legends for text in _legend_texts(legend)),
    ]
    for axes in figure.axes:
        for inner in (axes, *axes.child_axes):
            if axes.get_visible():
                artists += _axes_texts(inner)
    for index, artist in enumerate(artists):
        if artist is None or not artist.get_visible() or not artist.get_text().strip():
            continue
        slant = "/" if artist.get_rotation() % 90 else ""
        yield f"{slant}{artist.get_text()!r} ({index})", artist


def _axes_texts(axes: Axes):
    """Texts of axes: of the axis, titles, annotations, legend."""
    legend = axes.get_legend()
    texts = [*axes.texts, *(_legend_texts(legend) if legend else ())]
    texts += [axes.title, axes._left_title, axes._right_title]
    if axes.axison:
        for axis in (axes.xaxis, axes.yaxis):
            if not axis.get_visible():
                continue
            texts += [axis.label, axis.get_offset_text()]
            for tick in axis._update_ticks():
                texts += [tick.label1, tick.label2]
    return texts


def _legend_texts(legend: Legend):
    return [legend.get_title(), *legend.get_texts()] if legend.get_visible() else []


def _legend_name(legend: Legend) -> str:
    return ", ".join(text.get_text() for text in legend.get_texts())


def _contains(outer: Bbox, box: Bbox) -> bool:
    return bool(
        box.x0 >= outer.x0 - TOLERANCE
        and box.y0 >= outer.y0 - TOLERANCE
        and box.x1 <= outer.x1 + TOLERANCE
        and box.y1 <= outer.y1 + TOLERANCE
    )


def _overlap(one: Bbox, other: Bbox) -> bool:
    width = min(one.x1, other.x1) - max(one.x0, other.x0)
    height = min(one.y1, other.y1) - max(one.y0, other.y0)
    return bool(width > TOLERANCE and height > TOLERANCE)
