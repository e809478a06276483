"""Export of one or two runs as a single HTML file that needs no server and loads no
other files."""

import dataclasses
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

from analysis.explorer.catalogue import first_run_to_show
from analysis.explorer.codec import (
    changing_layers,
    clip_arrows,
    compress_buffer,
    encode_layer,
    visible_range,
)
from analysis.explorer.open_files import OpenFiles
from analysis.explorer.screen import (
    PANEL_SIZES,
    TAKE_CODE,
    Screen,
    facts_line,
    player_script,
)
from analysis.explorer.theme import FAINT, PAGE_STYLE, html_template
from analysis.explorer.timebar import time_bar
from analysis.explorer.timeline import COMPARE_BY
from analysis.explorer.view_settings import parse_axes, parse_panels
from analysis.output.files import replace_file
from analysis.panels.common_panels import evenly_spaced_indices
from analysis.panels.run_scene import build_scene
from analysis.panels.scene import Arrows, Map, Scene
from dynamics.settings import SettingsError, check_choice

_MAP_FRAMES = 1001
"""Maximum number of frames of maps in a file; for other frames the nearest one is
shown, with a note."""


def export_page(
    path: Path | str,
    files: Path | str | Sequence[Path | str] | OpenFiles,
    runs: int | Sequence[int | None] | None = None,
    panels: str = "",
    axes: str = "",
    step: int | None = None,
    by: str = "clock",
    size: str = "medium",
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
    check_choice("by", by, tuple(COMPARE_BY))
    check_choice("size", size, tuple(PANEL_SIZES))
    if not isinstance(files, OpenFiles):
        files = OpenFiles(
            [
                Path(file)
                for file in ([files] if isinstance(files, Path | str) else files)
            ],
            verify=True,
        )
    runs = runs if isinstance(runs, Sequence) else (runs,)
    scenes, names = _chosen_scenes(files, runs, axes)
    available = list(
        dict.fromkeys(panel.name for scene in scenes for panel in scene.panels)
    )
    drawn = parse_panels(panels, available) or available
    text = _page_text(
        Screen(scenes, drawn, time_bar(), None, step, by, size, files=names), map_frames
    )
    with replace_file(path) as temporary:
        temporary.write_text(text, encoding="utf-8")
    return len(text.encode())


def _chosen_scenes(
    files: OpenFiles, runs: Sequence[int | None], axes: str
) -> tuple[list[Scene], list[str]]:
    """The scenes of one run, or of two, and the names of their files. Raises
    SettingsError, TrajectoryError."""
    names, count = list(files.paths), max(len(files.paths), len(runs))
    if not names or not 1 <= count <= 2:
        raise SettingsError(
            "run",
            f"{len(names)} files and {len(runs)} runs",
            "a run, or two to compare",
        )
    scenes, named = [], [names[min(lane, len(names) - 1)] for lane in range(count)]
    for lane in range(count):
        trajectory, entries = files.opened(named[lane])
        run = runs[lane] if lane < len(runs) else None
        scenes.append(
            build_scene(
                trajectory,
                first_run_to_show(entries) if run is None else run,
                parse_axes(axes),
            )
        )
    return scenes, named


def _page_text(screen: Screen, map_frames: int) -> str:
    """The HTML of the page."""
    document, scenes = Document(), screen.scenes
    document.add_root(
        Column(
            children=[screen.arguments["bar"], screen.layout],
            sizing_mode="stretch_width",
        )
    )
    code = (
        player_script()
        + TAKE_CODE
        + (Path(__file__).parent / "unpacking.js").read_text(encoding="utf-8")
    )
    document.js_on_event(DocumentReady, CustomJS(args=screen.arguments, code=code))
    screen.point()
    words = {
        "heading": html.escape("  |  ".join(scene.title for scene in scenes)),
        "look": PAGE_STYLE,
        "faint": FAINT,
        "facts": html.escape(facts_line(scenes[0], screen.frames[0]))
        if len(scenes) == 1
        else "",
        "buffers": json.dumps(_page_buffers(screen, map_frames)),
    }
    template = html_template("export")
    return file_html(
        document,
        INLINE,
        title=words["heading"],
        template=template,
        template_variables=words,
    )


def _page_buffers(screen: Screen, map_frames: int) -> dict[str, Any]:
    """All buffers of the screen, compressed, and the frames of its maps."""
    result: dict[str, Any] = {}
    of: dict[str, list[int]] = {}
    for lane, (item, frames) in enumerate(
        zip(screen.scenes, screen.frames, strict=True)
    ):
        layers = changing_layers(item, screen.panels)
        some = evenly_spaced_indices(len(frames), max(2, map_frames))
        for maps in (False, True):
            part = {
                name: layer
                for name, layer in layers.items()
                if isinstance(layer, Map) == maps
            }
            arrays = item.compute_arrays(frames[some] if maps else frames, list(part))
            for name, layer in part.items():
                within = visible_range(item, screen.panels, name)
                values = (
                    clip_arrows(arrays[name], within)
                    if isinstance(layer, Arrows)
                    else arrays[name]
                )
                result[f"{lane}/{name}"] = dataclasses.asdict(
                    compress_buffer(encode_layer(layer, values), within)
                )
                if maps:
                    of[f"{lane}/{name}"] = some.tolist()
    return {"buffers": result, "frames": of}
