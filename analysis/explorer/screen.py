"""One run or two on a page: their figures, the time line they share, and what the script in the browser is given.

The script is `scrubber.js`. A `Screen` can stand in a page with a server, which sends the buffers in parcels, and in a
file that carries them.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import Any

import numpy as np
from bokeh.models import Column as ColumnOf
from bokeh.models import ColumnDataSource, CustomJS, Row
from bokeh.models.ui import UIElement
from bokeh.models.widgets import Div

from analysis.explorer.glyphs import EVENTS, FACE, FAINT, INK, drawn, sentence
from analysis.explorer.packing import MOST_BYTES, kept, layers_of
from analysis.view.scene import Scene

ACCENT = "#0b6fa4"
SIZES = {"small": 218, "medium": 258, "large": 400}
"""Pixels across a panel, by word."""
NAMES = ("A", "B")
BY = {"clock": "epoch or step", "step": "step", "share": "share of the run"}
"""What two runs have in common at a moment."""


def svg(path: str) -> str:
    """A sign on a button."""
    shape = f'<path d="{path}" fill="currentColor"/>'
    return f'<svg viewBox="0 0 16 16" width="14" height="14" aria-hidden="true">{shape}</svg>'


SIGNS = {
    "before": "M2 3h2v10H2zM14 3v10L5 8z",
    "back": "M11 3v10L4 8z",
    "on": "M5 3v10l7-5z",
    "after": "M12 3h2v10h-2zM2 3v10l9-5z",
}
TITLES = {
    "before": "Previous event (page up)",
    "back": "One frame back (left arrow)",
    "on": "One frame on (right arrow)",
    "after": "Next event (page down)",
}
PLAY = "M4 2.5v11l9.5-5.5z"
PAUSE = "M4 3h3v10H4zM9 3h3v10H9z"
SPEEDS = (5, 10, 20, 30, 60, 120, 240)
"""Frames a second."""


def press(name: str) -> str:
    """A button of the bar."""
    return f'<button data-do="{name}" title="{TITLES[name]}" aria-label="{TITLES[name]}">{svg(SIGNS[name])}</button>'


def bar() -> Div:
    """Playing, and the slider; `scrubber.js` listens to it."""
    speeds = "".join(f'<option value="{speed}">{speed} frames/s</option>' for speed in SPEEDS)
    kinds = "".join(f'<span><i class="{kind}"></i>{kind}</span>' for kind in EVENTS)
    text = f"""<div class="bar" role="group" aria-label="Time">
    <div class="row">{press("before")}{press("back")}<button class="main" data-do="play" title="Play (space)"
    aria-label="Play"><span class="go">{svg(PLAY)}</span><span class="halt">{svg(PAUSE)}</span></button>
    {press("on")}{press("after")}<select data-do="speed" title="Speed" aria-label="Speed">{speeds}</select>
    <output></output><span class="kinds">{kinds}</span></div>
    <div class="line"><div class="ticks"></div><input type="range" data-do="seek" min="0" max="0" value="0" step="1"
    aria-label="Frame"></div></div>"""
    return Div(
        text=text, disable_math=True, sizing_mode="stretch_width", margin=(0, 8, 10, 0), stylesheets=[bar_look()]
    )


def bar_look() -> str:
    colours = "".join(f".{kind} {{ background: {colour}; }} " for kind, colour in EVENTS.items())
    return f"""
    :host {{ position: sticky; top: 0; z-index: 5; }}
    .bk-clearfix {{ width: 100%; }}
    .bar {{ font: 13px/1.3 {FACE}; color: {INK}; background: #fbfbfaf2; padding: 6px 0 4px; }}
    .row {{ display: flex; align-items: center; gap: 5px; flex-wrap: wrap; }}
    button, select {{ font: inherit; color: {INK}; background: white; border: 1px solid #c5ccd3; border-radius: 6px;
      height: 28px; padding: 0 8px; cursor: pointer; }}
    button svg {{ display: block; }}
    button:hover:enabled, select:hover {{ border-color: {ACCENT}; color: {ACCENT}; }}
    button:disabled {{ color: #b8c0c8; cursor: default; }}
    button.main {{ background: {ACCENT}; border-color: {ACCENT}; color: white; padding: 0 14px; }}
    button.main:hover {{ color: white; filter: brightness(1.1); }}
    .main .halt, .main.playing .go {{ display: none; }}
    .main.playing .halt {{ display: inline; }}
    :focus-visible {{ outline: 2px solid {ACCENT}; outline-offset: 2px; }}
    select {{ margin: 0 6px; }}
    output {{ font-variant-numeric: tabular-nums; font-weight: 600; }}
    .kinds {{ margin-left: auto; color: {FAINT}; font-size: 11px; }}
    .kinds i {{ display: inline-block; width: 8px; height: 8px; border-radius: 2px; margin: 0 4px 0 9px; }}
    .line {{ position: relative; margin-top: 5px; height: 26px; }}
    .ticks {{ position: absolute; left: 8px; right: 8px; top: 0; height: 9px; }}
    .ticks button {{ position: absolute; top: 0; width: 5px; height: 9px; padding: 0; margin-left: -2.5px; border: none;
      border-radius: 2px; }}
    .ticks button.plateau {{ margin: 0; height: 4px; top: 5px; border-radius: 0; opacity: 0.7; }}
    .ticks button:hover {{ filter: brightness(0.8); }}
    input[type=range] {{ position: absolute; left: 0; right: 0; bottom: 0; width: 100%; height: 16px; margin: 0;
      accent-color: {ACCENT}; cursor: pointer; }}
    {colours}"""


def line(words: str, size: int, colour: str, bold: bool = False) -> Div:
    """A line of plain text."""
    style: dict[str, str | None] = {"font": f"{600 if bold else 400} {size}px/1.35 {FACE}", "color": colour}
    return Div(text=words, render_as_text=True, styles=style, sizing_mode="stretch_width", margin=(0, 8, 3, 2))


def facts(scene: Scene) -> str:
    """What is known of a run, in a line."""
    return ", ".join(f"{name} {value}" for name, value in scene.facts.items() if name not in ("run", "seed"))


# ------------------------------------------------------------------------------------------------ the time line


@dataclass(frozen=True, eq=False)
class TimeLine:
    """The moments that can be looked at, and which of its frames each run has there."""

    times: np.ndarray  # (place,) increasing
    frames: tuple[np.ndarray, ...]  # of each run: (place,) int32, into the frames that are kept of it
    unit: str
    values: tuple[np.ndarray, ...]  # of each run: (kept,) where its frames lie on the line

    def place(self, lane: int, scene: Scene, frames: np.ndarray, step: float) -> int:
        """The place of a step of a run of whose frames some are kept."""
        value = np.interp(step, scene.steps[frames], self.values[lane])
        return int(np.clip(np.searchsorted(self.times, value, side="right") - 1, 0, len(self.times) - 1))


def time_line(scenes: Sequence[Scene], frames: Sequence[np.ndarray], by: str = "clock") -> TimeLine:
    """The time line of runs of which some frames are kept; `by`, of `BY`, is what they share.

    Of two that do not count time alike it is the share of the run.
    """
    units = {scene.unit for scene in scenes}
    if by == "clock" and len(units) > 1:
        by = "share"
    values, unit = [], {"clock": scenes[0].unit, "step": "step", "share": "share"}[by]
    for scene, some in zip(scenes, frames, strict=True):
        along = {"clock": scene.clock[some], "step": scene.steps[some], "share": np.linspace(0, 1, len(some))}[by]
        values.append(np.asarray(along, np.float64))
    times = np.unique(np.concatenate(values))
    times = times[kept(len(times))]
    places = tuple(
        np.clip(np.searchsorted(each, times, side="right") - 1, 0, len(each) - 1).astype(np.int32) for each in values
    )
    return TimeLine(times, places, unit, tuple(values))


def kept_frames(scene: Scene, panels: Sequence[str]) -> np.ndarray:
    """The frames of a run that a browser is given, as many as there is room for."""
    shown = scene.look(np.array([0]), list(layers_of(scene, panels)))
    size = sum(array.nbytes for array in shown.values() if np.issubdtype(array.dtype, np.floating))
    frames = kept(len(scene.steps))
    return frames if size * len(frames) <= MOST_BYTES else kept(len(scene.steps), max(2, MOST_BYTES // size))


# ---------------------------------------------------------------------------------------------------- the screen


@cache
def script() -> str:
    """What runs in the browser."""
    code = (Path(__file__).parent / "scrubber.js").read_text(encoding="utf-8")
    return f"globalThis.scrubber ??= (() => {{\n{code}\nreturn new Player() }})()\n"


TAKE = """
if (scrubber.stage?.number !== number) scrubber.take({number, parts, lanes, marks, times, unit, start, bar, told})
"""


class Screen:
    """Figures of one run, or of two side by side, and the script that moves them."""

    made = 0

    def __init__(
        self, scenes: Sequence[Scene], panels: Sequence[str], bar: Div, told: Div | None, step: int | None = None,
        by: str = "clock", size: str = "medium",
    ) -> None:  # fmt: skip
        """step: looked at first, of the first run; None goes on where the browser is."""
        self.scenes, self.panels = list(scenes), list(panels)
        self.frames = [kept_frames(scene, panels) for scene in scenes]
        self.line = time_line(scenes, self.frames, by)
        place = 0 if step is None else self.line.place(0, scenes[0], self.frames[0], step)
        self.parts: list[dict[str, Any]] = []
        grids: list[UIElement] = [self._grid(lane, place, SIZES[size]) for lane in range(len(scenes))]
        self.parcel = ColumnDataSource()
        self.layout = Row(children=grids, sizing_mode="stretch_width", margin=0)
        self.layout.tags = [self.parcel]  # so that it is in the page
        Screen.made += 1
        self.told = told
        self.arguments = {
            "number": Screen.made, "parts": self.parts, "lanes": [self._lane(lane) for lane in range(len(scenes))],
            "marks": self._marks(), "times": self.line.times, "unit": self.line.unit,
            "start": -1 if step is None else place, "bar": bar, "told": told,
        }  # fmt: skip

    def _grid(self, lane: int, place: int, width: int) -> ColumnOf:
        scene = self.scenes[lane]
        frame = self.frames[lane][self.line.frames[lane][place]]
        panels = [panel for panel in scene.panels if panel.name in self.panels]
        arrays = scene.arrays(np.array([frame]), [panel.name for panel in panels])
        made = [drawn(panel, scene, arrays, float(scene.clock[frame]), width) for panel in panels]
        for each in made:
            for part in each.parts:
                part["lane"] = lane
                if part["kind"] == "cursor":
                    part["clock"] = scene.clock[self.frames[lane]].astype(np.float64)
                self.parts.append(part)
        look: dict[str, str | None] = {"display": "flex", "flex-wrap": "wrap", "align-content": "flex-start"}
        wall = Row(children=[each.layout for each in made], styles=look, sizing_mode="stretch_width", margin=0)
        if len(self.scenes) == 1:  # which the page says above
            return ColumnOf(children=[wall], sizing_mode="stretch_width", margin=0)
        title = line(f"{NAMES[lane]}: {scene.title}", 14, INK, bold=True)
        return ColumnOf(children=[title, line(facts(scene), 12, FAINT), wall], sizing_mode="stretch_width", margin=0)

    def _lane(self, lane: int) -> dict[str, Any]:
        scene, frames = self.scenes[lane], self.frames[lane]
        return {
            "frames": self.line.frames[lane], "steps": scene.steps[frames].astype(np.float64),
            "clock": scene.clock[frames].astype(np.float64), "unit": scene.unit, "name": NAMES[lane],
        }  # fmt: skip

    def _marks(self) -> list[dict[str, Any]]:
        """Events of all runs, in their order, plateaus first, so that others lie above them."""
        found = []
        for lane, scene in enumerate(self.scenes):
            for mark in scene.marks:
                if mark.kind in EVENTS:
                    begin, place, end = (self.line.place(lane, scene, self.frames[lane], at) for at in mark[1:])
                    words = sentence(mark, scene)
                    words = f"{NAMES[lane]}: {words}" if len(self.scenes) > 1 else words
                    place = begin if mark.kind == "plateau" else place
                    found.append({"kind": mark.kind, "begin": begin, "place": place, "end": end, "words": words})
        return sorted(found, key=lambda mark: (mark["kind"] != "plateau", mark["place"]))

    def listen(self) -> None:
        """What takes parcels in a page with a server."""
        code = script() + TAKE + "scrubber.receive(parcel.data)"
        found = CustomJS(args={**self.arguments, "parcel": self.parcel}, code=code)
        self.parcel.js_on_change("data", found)
        self.point()

    def point(self) -> None:
        """A place on the clock of curves that is clicked or dragged to is looked at."""
        for part in self.parts:
            if part["kind"] == "cursor":
                code = "globalThis.scrubber?.point(cb_obj.x, lane)"
                for event in ("tap", "pan"):
                    part["plot"].js_on_event(event, CustomJS(args={"lane": part["lane"]}, code=code))
