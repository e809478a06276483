"""The view of one or two runs: figures, a common time line, and the arguments of the
script in the browser.

A `Screen` can be part of a served page, whose server sends the buffers in batches, or
of an exported file, which contains them."""

from collections.abc import Sequence
from dataclasses import replace
from typing import Any

import numpy as np
from bokeh.models import Column, ColumnDataSource, CustomJS, Div, Row, UIElement

from analysis.explorer.bokeh_panels import MARKED_EVENTS, event_text, make_bokeh_panel
from analysis.explorer.codec import encode_layer, frames_to_send
from analysis.explorer.theme import html_template, script, style_sheet, text_div
from analysis.explorer.timeline import make_timeline
from analysis.panels.common_panels import join_notes
from analysis.panels.limits import common_panel_names, match_panels
from analysis.panels.scene import Map, Scene

PANEL_WIDTH = 218
"""Smallest width of panels in pixels; they fill the width of the page. Three fit beside
the controls if the page is 1000 pixels wide. Those of two runs are narrower."""
_RUN_NAMES = ("A", "B")


def facts_line(scene: Scene, frames: np.ndarray) -> str:
    """What is known of a run, in words and one line, with the number of its frames if
    only some are sent."""
    status = scene.facts.get("status", "")
    facts = [{"done": "finished", "running": "still running"}.get(status, status)]
    for kinds, count in scene.event_counts().items():
        facts.append(f"{count} {kinds.removesuffix('s') if count == '1' else kinds}")
    if len(frames) < len(scene.steps):
        facts.append(f"{len(frames)} of {len(scene.steps)} frames, evenly spaced")
    labels = {"accuracy": "correct: ", "loss": "loss: ", "structure": ""}
    end = [
        label + scene.facts[name]
        for name, label in labels.items()
        if name in scene.facts
    ]
    if end:
        facts.append(f"at the last step: {'; '.join(end)}")
    return "; ".join(filter(None, facts))


def match_limits(scenes: Sequence[Scene]) -> list[Scene]:
    """Two scenes whose common panels have the same limits and colour scales, as in a
    film.

    A map fills the limits of its own run; the note says so if the other run has
    different ones."""
    if len(scenes) < 2:
        return list(scenes)
    matched = [{panel.name: panel for panel in scene.panels} for scene in scenes]
    for panels in zip(*match_panels(scenes, common_panel_names(scenes)), strict=True):
        maps = any(isinstance(layer, Map) for layer in panels[0].layers)
        own_axes = maps and len({(panel.x, panel.y) for panel in panels}) > 1
        for by_name, panel in zip(matched, panels, strict=True):
            note = join_notes("own axes" if own_axes else "", panel.note)
            by_name[panel.name] = replace(panel, note=note)
    return [
        replace(scene, panels=tuple(by_name.values()))
        for scene, by_name in zip(scenes, matched, strict=True)
    ]


def panel_grid(
    panels: Sequence[UIElement], width: float = PANEL_WIDTH, track: str = "auto-fit"
) -> Row:
    """Panels beside each other, as many as fit. width: the smallest of a panel, in
    pixels. track: whether few panels fill the page ("auto-fit"), or leave room for more
    ("auto-fill")."""
    columns = f"repeat({track}, minmax(min(100%, {width}px), 1fr))"
    looks: dict[str, str | None] = {"display": "grid", "grid-template-columns": columns}
    return Row(children=list(panels), styles=looks, sizing_mode="stretch_width")


def time_bar() -> Div:
    """Play buttons, a slider, and event marks; `bar.js` handles their events."""
    return Div(
        text=html_template("timebar").render(kinds=MARKED_EVENTS),
        disable_math=True,
        sizing_mode="stretch_width",
        margin=(0, 8, 10, 0),
        stylesheets=[style_sheet("bar")],
    )


class Screen:
    """Figures of one run or of two side by side, and the script that animates them."""

    count = 0
    """Screens made so far, each of which has a number in the browser."""

    def __init__(
        self,
        scenes: Sequence[Scene],
        panels: Sequence[str],
        bar: Div,
        status: Div | None = None,
        step: int | None = None,
        keep: bool = False,
        files: Sequence[str] = (),
    ) -> None:
        """step: the first step to show, of the first run, by default the last.

        keep: whether the browser keeps its position, if that is in the same unit of
        time. files: name of the file of each run, for the names of pictures."""
        self.scenes = match_limits(scenes)
        self.panels = list(panels)
        self.frames = [frames_to_send(scene, panels) for scene in scenes]
        self.facts = list(map(facts_line, scenes, self.frames))
        self.line = make_timeline(scenes, self.frames)
        place = len(self.line.times) - 1 if step is None else self._time_index(0, step)
        self.first_frames = [int(frames[place]) for frames in self.line.frames]
        self.parts: list[dict[str, Any]] = []
        grids = [self._run_layout(lane) for lane in range(len(scenes))]
        self.parcel = ColumnDataSource()
        self.layout = Row(children=grids, sizing_mode="stretch_width")
        self.layout.tags = [self.parcel]  # makes it part of the page
        Screen.count += 1
        self.arguments = {
            "number": Screen.count,
            "parts": self.parts,
            "lanes": [
                self._lane_arguments(lane, name) for lane, name in enumerate(files)
            ],
            "marks": self._mark_arguments(),
            "times": self.line.times,
            "unit": self.line.unit,
            "start": place,
            "keep": keep,
            "bar": bar,
            "told": status,
        }

    def _time_index(self, lane: int, step: int) -> int:
        """The index on the time line of a step of a run."""
        return self.line.index_of_step(lane, self.scenes[lane], self.frames[lane], step)

    def _run_layout(self, lane: int) -> UIElement:
        """The panels of a run; of two systems, those of both come first."""
        scene = self.scenes[lane]
        first = self.first_frames[lane]
        two = self.is_pair
        clock = scene.clock[self.frames[lane]].astype(np.float64)
        shared = {panel.name for panel in self.scenes[-1 - lane].panels}
        panels = [panel for panel in scene.panels if panel.name in self.panels]
        panels.sort(key=lambda panel: panel.name not in shared)
        arrays = scene.arrays(
            self.frames[lane][[first]], [panel.name for panel in panels]
        )
        made = [
            make_bokeh_panel(panel, arrays, scene, clock[first]) for panel in panels
        ]
        go = CustomJS(
            args={"lane": lane}, code="globalThis.scrubber?.point(cb_obj.x, lane)"
        )
        for part in (part for item in made for part in item.parts):
            part.update(lane=lane, shown=first)
            if part["kind"] == "cursor":  # a click on a curve moves the time line
                part["clock"] = clock
                part["plot"].js_on_event("tap", go)
                part["plot"].js_on_event("pan", go)
            self.parts.append(part)
        width = PANEL_WIDTH * (0.75 if two else 1)
        wall = panel_grid([item.layout for item in made], width, "auto-fill")
        heading: list[UIElement] = []
        if two:  # of one run, the page shows the title above
            rule = {"border_bottom": "2px solid var(--accent)", "font_weight": "650"}
            words = f"{_RUN_NAMES[lane]}: {scene.title}"
            place = (0, 8, 3, 2)
            title = text_div(words, 15, margin=place, **rule)
            heading = [title, text_div(self.facts[lane], 12, "muted", place)]
        return Column(children=[*heading, wall], sizing_mode="stretch_width")

    @property
    def is_pair(self) -> bool:
        """Whether two runs are compared."""
        return len(self.scenes) > 1

    def _lane_arguments(self, lane: int, file: str) -> dict[str, Any]:
        """What the script needs of a run."""
        scene = self.scenes[lane]
        frames = self.frames[lane]
        return {
            "frames": self.line.frames[lane],
            "steps": scene.steps[frames].astype(np.float64),
            "clock": scene.clock[frames].astype(np.float64),
            "unit": scene.unit,
            "name": _RUN_NAMES[lane],
            "picture": f"{file}-run{scene.facts.get('run', '')}",
        }

    def _mark_arguments(self) -> list[dict[str, Any]]:
        """Event marks of all runs in order; plateaus first, so that other marks lie
        above them."""
        result = []
        for lane, scene in enumerate(self.scenes):
            run = f"{_RUN_NAMES[lane]}: " if self.is_pair else ""
            for mark in scene.marks:
                if mark.kind in MARKED_EVENTS:
                    places = [self._time_index(lane, step) for step in mark[1:]]
                    at = dict(zip(("begin", "place", "end"), places, strict=True))
                    if mark.kind == "plateau":
                        at["place"] = at["begin"]
                    words = run + event_text(mark, scene)
                    result.append(
                        {"lane": lane, "kind": mark.kind, "words": words, **at}
                    )
        result.sort(key=lambda mark: (mark["kind"] != "plateau", mark["place"]))
        return result

    def frames_at(self, step: int) -> list[int]:
        """The index among the kept frames of each run when the first is at a step."""
        index = self._time_index(0, step)
        return [int(frames[index]) for frames in self.line.frames]

    def buffers(self, lane: int, maps: bool, kept: np.ndarray) -> dict[str, np.ndarray]:
        """The buffers by lane/array of the maps of a run, or of its other layers, at
        some of the kept frames."""
        layers = self.scenes[lane].changing_layers(self.panels)
        frames = self.frames[lane][kept]
        return {
            f"{lane}/{layer.array}": encode_layer(layer, layer.values(frames))
            for layer in layers
            if isinstance(layer, Map) == maps
        }

    def script(self, then: str) -> str:
        """The script of the browser, which takes this screen, and what follows it."""
        code = script("buffers", "figures", "bar", "scrubber")
        return f"globalThis.scrubber ??= (() => {{\n{code}\nreturn new Player() }})()\n{_TAKE}{then}"

    def receive_batches(self) -> None:
        """Let the script of a served page receive the batches of buffers."""
        code = self.script("scrubber.receive(parcel.data)")
        arguments = {**self.arguments, "parcel": self.parcel}
        self.parcel.js_on_change("data", CustomJS(args=arguments, code=code))


_TAKE = """
if (scrubber.stage?.number !== number) scrubber.take({number, parts, lanes, marks, times, unit, start, keep, bar, told})
"""
