"""Events of a run on the page of recorded runs: colours, texts, and marks above
curves."""

from collections.abc import Sequence

import numpy as np
from bokeh.models import ColumnDataSource, HoverTool, Segment
from bokeh.plotting import figure

from analysis.panels.colours import colour
from analysis.panels.scene import EventMark, Panel, Scene

EVENT_MARK_COLOURS = {
    kind: colour(kind) for kind in ("drop", "spike", "escape", "plateau", "rise")
}
"""Colours of events, by kind."""


def draw_event_marks(plot: figure, panel: Panel, scene: Scene) -> None:
    """Draw ticks at the upper edge at the middle of events, and bars over plateaus."""
    marks = [mark for mark in scene.marks if mark.kind in EVENT_MARK_COLOURS]
    if not marks:
        return
    low, high = panel.y
    edge = (
        float(low * (high / low) ** 0.93)
        if panel.log
        else float(low + 0.93 * (high - low))
    )
    for bars in (True, False):
        y0, width = (high, 5) if bars else (edge, 2)
        data: dict[str, list] = {"begin": [], "end": [], "colour": [], "label": []}
        for mark in marks:
            if (mark.kind == "plateau") != bars:
                continue
            data["begin"].append(mark.begin if bars else mark.middle)
            data["end"].append(mark.end if bars else mark.middle)
            data["colour"].append(EVENT_MARK_COLOURS[mark.kind])
            data["label"].append(event_text(mark, scene))
        for end in ("begin", "end"):
            data[end] = _clock_at(scene, data[end]).tolist()
        source = ColumnDataSource(data)
        glyph = Segment(
            x0="begin", x1="end", y0=y0, y1=high, line_color="colour", line_width=width
        )
        renderer = plot.add_glyph(source, glyph)
        plot.add_tools(HoverTool(renderers=[renderer], tooltips="@label"))


def _clock_at(scene: Scene, steps: Sequence[int]) -> np.ndarray:
    """Times of steps in the units of a scene."""
    return np.interp(steps, scene.steps, scene.clock)


def event_text(mark: EventMark, scene: Scene) -> str:
    """An event as text."""
    begin, middle, end = _clock_at(scene, [mark.begin, mark.middle, mark.end])
    if mark.kind == "plateau":
        return f"plateau, {scene.unit} {begin:.6g} to {end:.6g}"
    return f"{mark.kind} at {scene.unit} {middle:.6g}"
