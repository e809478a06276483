"""The view of one or two runs: figures, a common time line, and the arguments of the
script in the browser.

The script consists of the files `_SCRIPTS`. A `Screen` can be part of a served page,
whose server sends the buffers in batches, or of an exported file, which contains them.
"""

from collections.abc import Sequence
from dataclasses import replace
from functools import cache
from pathlib import Path
from typing import Any

import numpy as np
from bokeh.models import Column, ColumnDataSource, CustomJS, Div, Row, UIElement

from analysis.explorer.bokeh_panels import make_bokeh_panel
from analysis.explorer.codec import frames_to_send
from analysis.explorer.event_marks import EVENT_MARK_COLOURS, event_text
from analysis.explorer.theme import ACCENT, FAINT, INK, text_div
from analysis.explorer.timeline import make_timeline
from analysis.panels.common_panels import join_notes
from analysis.panels.limits import common_panel_names, match_panels
from analysis.panels.scene import Map, Panel, Scene

PANEL_SIZES = {"small": 164, "medium": 218, "large": 326}
"""Smallest width of panels in pixels; they fill the width of the page. Three medium
ones fit beside the controls if the page is 1000 pixels wide."""
_RUN_NAMES = ("A", "B")
_SCRIPTS = ("buffers.js", "figures.js", "bar.js", "scrubber.js")
"""Scripts of the browser, in this order."""


def facts_line(scene: Scene, frames: np.ndarray) -> str:
    """What is known of a run, in words and one line, with the number of its frames if
    only some are sent."""
    status = scene.facts.get("status", "")
    facts = [{"done": "finished", "running": "still running"}.get(status, status)]
    for metric, label, scale, unit in (
        ("accuracy", "correct", 100, "%"),
        ("loss", "loss", 1, ""),
    ):
        values = [
            f"{scale * float(value):.3g}{unit} {name.removesuffix(metric).strip()}"
            for name, value in scene.facts.items()
            if name.endswith(metric)
        ]
        facts.append(f"{label}: {', '.join(values)}" if values else "")
    facts.append(scene.facts.get("structure", ""))
    for kinds, count in scene.event_counts().items():
        facts.append(f"{count} {kinds.removesuffix('s') if count == '1' else kinds}")
    if len(frames) < len(scene.steps):
        facts.append(f"{len(frames)} of {len(scene.steps)} frames, evenly spaced")
    return "; ".join(filter(None, facts))


def match_limits(scenes: Sequence[Scene]) -> list[Scene]:
    """Two scenes whose common panels have the same limits and colour scales, as in a
    film.

    A map fills the limits of its own run; the note says so if the other run has
    different ones."""
    if len(scenes) < 2:
        return list(scenes)
    matched: list[dict[str, Panel]] = [{} for _ in scenes]
    for panels in zip(*match_panels(scenes, common_panel_names(scenes)), strict=True):
        maps = any(isinstance(layer, Map) for layer in panels[0].layers)
        own_axes = maps and len({(panel.x, panel.y) for panel in panels}) > 1
        for by_name, panel in zip(matched, panels, strict=True):
            note = join_notes("own axes" if own_axes else "", panel.note)
            by_name[panel.name] = replace(panel, note=note)
    return [
        replace(
            scene,
            panels=tuple(by_name.get(panel.name, panel) for panel in scene.panels),
        )
        for scene, by_name in zip(scenes, matched, strict=True)
    ]


# --------------------------------------------------------------------------- the screen


@cache
def player_script() -> str:
    """The scripts of the browser."""
    code = "\n".join(
        (Path(__file__).parent / name).read_text(encoding="utf-8") for name in _SCRIPTS
    )
    return f"globalThis.scrubber ??= (() => {{\n{code}\nreturn new Player() }})()\n"


TAKE_CODE = """
if (scrubber.stage?.number !== number) scrubber.take({number, parts, lanes, marks, times, unit, start, keep, bar, told})
"""


class Screen:
    """Figures of one run or of two side by side, and the script that animates them."""

    made = 0

    def __init__(
        self,
        scenes: Sequence[Scene],
        panels: Sequence[str],
        bar: Div,
        status: Div | None,
        step: int | None = None,
        by: str = "clock",
        size: str = "medium",
        keep: bool = False,
        files: Sequence[str] = (),
    ) -> None:
        """step: the first step to show, of the first run, by default the last.

        keep: whether the browser keeps its position, if that is in the same unit of
        time. files: name of the file of each run, for the names of pictures."""
        self.files = list(files) or [""] * len(scenes)
        self.scenes, self.panels = match_limits(scenes), list(panels)
        self.frames = [frames_to_send(scene, panels) for scene in scenes]
        self.line = make_timeline(scenes, self.frames, by)
        last = len(self.line.times) - 1
        place = (
            last
            if step is None
            else self.line.place(0, self.scenes[0], self.frames[0], step)
        )
        self.first_frames = [int(frames[place]) for frames in self.line.frames]
        self.parts: list[dict[str, Any]] = []
        sizes = list(
            PANEL_SIZES.values()
        )  # beside another run, panels are a size smaller
        width = (
            PANEL_SIZES[size]
            if len(scenes) == 1
            else sizes[max(0, sizes.index(PANEL_SIZES[size]) - 1)]
        )
        grids: list[UIElement] = [
            self._grid(lane, place, width) for lane in range(len(scenes))
        ]
        self.parcel = ColumnDataSource()
        self.layout = Row(children=grids, sizing_mode="stretch_width", margin=0)
        self.layout.tags = [self.parcel]  # makes it part of the page
        Screen.made += 1
        self.status = status
        self.arguments = {
            "number": Screen.made,
            "parts": self.parts,
            "lanes": [self._lane(lane) for lane in range(len(scenes))],
            "marks": self._marks(),
            "times": self.line.times,
            "unit": self.line.unit,
            "start": place,
            "keep": keep,
            "bar": bar,
            "told": status,
        }

    def _grid(self, lane: int, place: int, width: int) -> Column:
        scene = self.scenes[lane]
        frame = self.frames[lane][self.line.frames[lane][place]]
        shared = {panel.name for panel in self.scenes[-1 - lane].panels}
        panels = [panel for panel in scene.panels if panel.name in self.panels]
        panels.sort(
            key=lambda panel: panel.name not in shared
        )  # of two systems, panels of both come first
        arrays = scene.arrays(np.array([frame]), [panel.name for panel in panels])
        made = [
            make_bokeh_panel(panel, scene, arrays, float(scene.clock[frame]))
            for panel in panels
        ]
        for item in made:
            for part in item.parts:
                part.update(lane=lane, shown=int(self.line.frames[lane][place]))
                if part["kind"] == "cursor":
                    part["clock"] = scene.clock[self.frames[lane]].astype(np.float64)
                self.parts.append(part)
        columns = f"repeat(auto-fill, minmax(min(100%, {width}px), 1fr))"
        look: dict[str, str | None] = {
            "display": "grid",
            "grid-template-columns": columns,
        }
        wall = Row(
            children=[item.layout for item in made],
            styles=look,
            sizing_mode="stretch_width",
            margin=0,
        )
        if len(self.scenes) == 1:  # the page shows the title above
            return Column(children=[wall], sizing_mode="stretch_width", margin=0)
        title = text_div(
            f"{_RUN_NAMES[lane]}: {scene.title}",
            15,
            INK,
            (0, 8, 3, 2),
            font_weight="650",
            border_bottom=f"2px solid {ACCENT}",
        )
        said = text_div(facts_line(scene, self.frames[lane]), 12, FAINT, (0, 8, 3, 2))
        return Column(
            children=[title, said, wall], sizing_mode="stretch_width", margin=0
        )

    def _lane(self, lane: int) -> dict[str, Any]:
        scene, frames = self.scenes[lane], self.frames[lane]
        return {
            "frames": self.line.frames[lane],
            "steps": scene.steps[frames].astype(np.float64),
            "clock": scene.clock[frames].astype(np.float64),
            "unit": scene.unit,
            "name": _RUN_NAMES[lane],
            "picture": f"{self.files[lane]}-run{scene.facts.get('run', '')}",
        }

    def _marks(self) -> list[dict[str, Any]]:
        """Event marks of all runs in order; plateaus first, so that other marks lie
        above them."""
        result = []
        for lane, scene in enumerate(self.scenes):
            for mark in scene.marks:
                if mark.kind in EVENT_MARK_COLOURS:
                    begin, place, end = (
                        self.line.place(lane, scene, self.frames[lane], at)
                        for at in mark[1:]
                    )
                    words = event_text(mark, scene)
                    words = (
                        f"{_RUN_NAMES[lane]}: {words}"
                        if len(self.scenes) > 1
                        else words
                    )
                    place = begin if mark.kind == "plateau" else place
                    result.append(
                        {
                            "lane": lane,
                            "kind": mark.kind,
                            "begin": begin,
                            "place": place,
                            "end": end,
                            "words": words,
                        }
                    )
        return sorted(
            result, key=lambda mark: (mark["kind"] != "plateau", mark["place"])
        )

    def frames_at(self, step: int) -> list[int]:
        """The index among the kept frames of each run when the first is at a step."""
        place = self.line.place(0, self.scenes[0], self.frames[0], step)
        return [int(frames[place]) for frames in self.line.frames]

    def steps_at(self, step: int) -> list[int]:
        """The step of each run when the first is at a step."""
        lanes = zip(self.scenes, self.frames, self.frames_at(step), strict=True)
        return [int(scene.steps[frames[frame]]) for scene, frames, frame in lanes]

    def listen(self) -> None:
        """Let the script of a served page receive the batches of buffers."""
        code = player_script() + TAKE_CODE + "scrubber.receive(parcel.data)"
        self.parcel.js_on_change(
            "data", CustomJS(args={**self.arguments, "parcel": self.parcel}, code=code)
        )
        self.point()

    def point(self) -> None:
        """Let a click or drag on a curve move the time line to that time."""
        for part in self.parts:
            if part["kind"] == "cursor":
                code = "globalThis.scrubber?.point(cb_obj.x, lane)"
                for event in ("tap", "pan"):
                    part["plot"].js_on_event(
                        event, CustomJS(args={"lane": part["lane"]}, code=code)
                    )
