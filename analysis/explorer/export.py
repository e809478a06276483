"""Export of one or two runs as a single HTML file that needs no server and loads no
other files."""

import html
import json
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from bokeh.document import Document
from bokeh.embed import file_html
from bokeh.events import DocumentReady
from bokeh.models import Column, CustomJS
from bokeh.resources import INLINE

from analysis.explorer.catalogue import first_run
from analysis.explorer.codec import compress_buffer
from analysis.explorer.open_files import OpenFiles
from analysis.explorer.screen import Screen, time_bar
from analysis.explorer.theme import PAGE_STYLE, html_template, page_theme, script
from analysis.explorer.view_settings import parse_panels
from analysis.output.files import replace_file
from analysis.panels.common_panels import evenly_spaced_indices
from dynamics.settings import SettingsError

_MAP_FRAMES = 1001
"""Maximum number of frames of maps in a file; for other frames the nearest one is
shown, with a note."""


def export_page(
    path: Path | str,
    paths: Path | str | Sequence[Path | str],
    runs: int | Sequence[int | None] | None = None,
    panels: str = "",
    map_frames: int = _MAP_FRAMES,
) -> int:
    """Write the page; returns its size in bytes.

    paths: of a trajectory, or of two to compare. runs: run index in each, None for the
    default run; with one file and two runs, both are of that file. panels: names
    separated by commas, all by default. Raises SettingsError, TrajectoryError,
    RecordingError."""
    path = Path(path)
    if path.suffix not in (".html", ".htm") or path.is_dir():
        raise SettingsError("export", path, "the name of a file that ends in .html")
    several = [paths] if isinstance(paths, Path | str) else paths
    files = OpenFiles([Path(file) for file in several], verify=True)
    chosen = list(runs) if isinstance(runs, Sequence) else [runs]
    names = list(files.paths) * (len(chosen) if len(files.paths) == 1 else 1)
    chosen += [None] * (len(names) - len(chosen))
    if len(names) != len(chosen) or len(names) > 2:
        value = f"{len(files.paths)} files and {len(chosen)} runs"
        raise SettingsError("run", value, "a run, or two to compare")
    scenes = []
    for name, run in zip(names, chosen, strict=True):
        opened = files.opened(name)
        scenes.append(opened.scene(first_run(opened.entries) if run is None else run))
    every = dict.fromkeys(panel.name for scene in scenes for panel in scene.panels)
    drawn = parse_panels(panels, list(every)) or list(every)
    text = _page_text(Screen(scenes, drawn, time_bar(), files=names), map_frames)
    with replace_file(path) as temporary:
        temporary.write_text(text, encoding="utf-8")
    return len(text.encode())


def _page_text(screen: Screen, map_frames: int) -> str:
    """The HTML of the page."""
    document = Document(theme=page_theme())
    scenes = screen.scenes
    parts = [screen.arguments["bar"], screen.layout]
    document.add_root(Column(children=parts, sizing_mode="stretch_width"))
    code = screen.script(script("unpacking"))
    document.js_on_event(DocumentReady, CustomJS(args=screen.arguments, code=code))
    heading = html.escape("  |  ".join(scene.title for scene in scenes))
    words = {
        "heading": heading,
        "look": PAGE_STYLE,
        "facts": html.escape(screen.facts[0]) if len(scenes) == 1 else "",
        "buffers": json.dumps(_page_buffers(screen, map_frames)),
    }
    template = html_template("export")
    return file_html(
        document, INLINE, heading, template=template, template_variables=words
    )


def _page_buffers(screen: Screen, map_frames: int) -> dict[str, Any]:
    """All buffers of the screen, compressed, and the frames of each."""
    result: dict[str, Any] = {}
    for lane, kept in enumerate(screen.frames):
        for maps, most in ((False, len(kept)), (True, map_frames)):
            frames = evenly_spaced_indices(len(kept), max(2, most))
            for name, buffer in screen.buffers(lane, maps, frames).items():
                result[name] = compress_buffer(buffer) | {"frames": frames.tolist()}
    return result
