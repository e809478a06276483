"""Export of one or two runs as a single HTML file that needs no server and loads no
other files."""

import dataclasses
import html
import json
from collections.abc import Sequence
from itertools import zip_longest
from pathlib import Path
from typing import Any

import numpy as np
from bokeh.document import Document
from bokeh.embed import file_html
from bokeh.events import DocumentReady
from bokeh.models import Column, CustomJS
from bokeh.resources import INLINE

from analysis.explorer.catalogue import first_run_to_show
from analysis.explorer.codec import (
    changing_layers,
    clip_arrows,
    compress_buffer,
    encode_layer,
    visible_range,
)
from analysis.explorer.open_files import OpenFiles
from analysis.explorer.screen import Screen, facts_line, time_bar
from analysis.explorer.theme import PAGE_STYLE, html_template, page_theme, script
from analysis.explorer.view_settings import parse_panels
from analysis.output.files import replace_file
from analysis.panels.common_panels import evenly_spaced_indices
from analysis.panels.scene import Arrows, Map
from dynamics.settings import SettingsError

_MAP_FRAMES = 1001
"""Maximum number of frames of maps in a file; for other frames the nearest one is
shown, with a note."""


def export_page(
    path: Path | str,
    files: Path | str | Sequence[Path | str] | OpenFiles,
    runs: int | Sequence[int | None] | None = None,
    panels: str = "",
    map_frames: int = _MAP_FRAMES,
) -> int:
    """Write the page; returns its size in bytes.

    files: a trajectory, or two to compare. runs: run index in each, None for the
    default run; with one file and two runs, both are of that file. panels: names
    separated by commas, all by default. Raises SettingsError, TrajectoryError,
    RecordingError."""
    path = Path(path)
    if path.suffix not in (".html", ".htm") or path.is_dir():
        raise SettingsError("export", path, "the name of a file that ends in .html")
    if not isinstance(files, OpenFiles):
        several = [files] if isinstance(files, Path | str) else files
        files = OpenFiles([Path(file) for file in several], verify=True)
    runs = runs if isinstance(runs, Sequence) else (runs,)
    names, count = list(files.paths), max(len(files.paths), len(runs))
    if not names or not 1 <= count <= 2:
        value = f"{len(names)} files and {len(runs)} runs"
        raise SettingsError("run", value, "a run, or two to compare")
    scenes, names = [], (2 * names)[:count] if len(names) == 1 else names
    for name, run in zip_longest(names, runs):
        opened = files.opened(name)
        run = first_run_to_show(opened.entries) if run is None else run
        scenes.append(opened.scene(run))
    every = dict.fromkeys(panel.name for scene in scenes for panel in scene.panels)
    drawn = parse_panels(panels, list(every)) or list(every)
    screen = Screen(scenes, drawn, time_bar(), None, files=names)
    text = _page_text(screen, map_frames)
    with replace_file(path) as temporary:
        temporary.write_text(text, encoding="utf-8")
    return len(text.encode())


def _page_text(screen: Screen, map_frames: int) -> str:
    """The HTML of the page."""
    document, scenes = Document(theme=page_theme()), screen.scenes
    parts = [screen.arguments["bar"], screen.layout]
    document.add_root(Column(children=parts, sizing_mode="stretch_width"))
    code = screen.script(script("unpacking"))
    document.js_on_event(DocumentReady, CustomJS(args=screen.arguments, code=code))
    screen.point()
    facts = facts_line(scenes[0], screen.frames[0]) if len(scenes) == 1 else ""
    words = {
        "heading": html.escape("  |  ".join(scene.title for scene in scenes)),
        "look": PAGE_STYLE,
        "facts": html.escape(facts),
        "buffers": json.dumps(_page_buffers(screen, map_frames)),
    }
    return file_html(
        document,
        INLINE,
        title=words["heading"],
        template=html_template("export"),
        template_variables=words,
    )


def _page_buffers(screen: Screen, map_frames: int) -> dict[str, Any]:
    """All buffers of the screen, compressed, and the frames of each."""
    result: dict[str, Any] = {}
    for lane, (scene, kept) in enumerate(
        zip(screen.scenes, screen.frames, strict=True)
    ):
        every = np.arange(len(kept))
        some = evenly_spaced_indices(len(kept), max(2, map_frames))
        layers = changing_layers(scene, screen.panels)
        for maps, frames in ((False, every), (True, some)):
            part = [name for name in layers if isinstance(layers[name], Map) == maps]
            arrays = scene.compute_arrays(kept[frames], part)
            for name in part:
                within = visible_range(scene, screen.panels, name)
                values = arrays[name]
                if isinstance(layers[name], Arrows):
                    values = clip_arrows(values, within)
                buffer = compress_buffer(encode_layer(layers[name], values), within)
                compressed = dataclasses.asdict(buffer) | {"frames": frames.tolist()}
                result[f"{lane}/{name}"] = compressed
    return result
