"""Film a run: its panels at every recorded step, as an MP4 that browsers play, or a
small GIF (VC section 2.3).

python -m analysis.film RUN.nc
python -m analysis.film RUN.nc --event spike
python -m analysis.film RUN.nc RUN.nc --run 3 --run-of-other 7 --time events
python -m analysis.film RUN.nc --panels embedding loss --out docs/pictures/run.gif
"""

from __future__ import annotations

import dataclasses
import math
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Literal

import dynamics
from analysis import panels, plots
from analysis.command_line.panel_selection import (
    MIN_WIDTH,
    PanelOptions,
    arrange_panels,
    check_picture_path,
    default_picture_path,
    open_shown_runs,
    select_panels,
)
from analysis.command_line.parsing import run_command
from dynamics.settings import SettingsError, check_integer, check_real

if TYPE_CHECKING:
    from analysis.panels.scene import EventMark, Scene
    from analysis.plots.drawing.film_clock import FilmClock
    from analysis.plots.drawing.film_timeline import FilmFrames

_FORMATS = ("mp4", "gif")
_MIN_FPS, _LAST_SECONDS, _MAX_MAP_PIXELS = 0.1, 0.5, 288
_MAX_FRAMES = 600
_MAX_INTERPOLATED = 100
_COLUMN_WIDTH, _MOST_COLUMNS = 240, 8
_FPS, _GIF_FPS, _GIF_FRAMES, _GIF_WIDTH, _MAX_GIF_PANELS = 20.0, 10.0, 80, 480, 4
_GIF_PANELS = (
    "frequency_1",
    "attention",
    "embedding",
    "pair_sums",
    "sequence_embeddings",
    "transform_map",
    "loss",
    "imperfections",
    "force",
)
"""Panels of a GIF by default, the first four that a run has."""

_FILM_PANELS = ("token_embeddings", "sequence_embeddings", "assemblers")
"""Panels that an MP4 has by default beside the main ones, if a run has them."""

_INTERPOLATED = "interpolated between recorded frames"
"""Words in the title of a film with `--interpolate`."""

_FOLLOW = 0.5
"""How far the limits of panels follow the points: growth remains visible."""

_DROP_SECONDS, _MAX_DROP_HOLD = 8, 10
"""Least length of the film of a drop, as far as a frame need not be held for more film
frames than that."""


@dataclasses.dataclass(frozen=True)
class Options(PanelOptions):
    """Make a film (MP4 or GIF) of panels of one run, or of two runs side by side, with
    all recorded steps, or some for a GIF (VC section 2.3)."""

    fps: float | None = None
    """Number of film frames per second. Default: 20, or 10 for a GIF."""
    duration: float | None = None
    """Length of the film in seconds, for which recorded frames are shown for longer, or
    more of them in a second. Default: by the number of recorded frames."""
    aspect: str | None = None
    """Ratio of width and height, such as 16:9, for which the film has empty margins.
    Default: that of the panels."""
    time: Literal["events", "even", "linear"] = "events"
    """events: slower at drops, rises and spikes of the loss or force, faster in
    plateaus; even: the recorded frames at equal intervals, as with --every; linear: the
    same as even."""
    interpolate: int = 0
    """Number of frames drawn between two recorded ones, for films of few frames:
    positions and other numbers move linearly, classes of maps stay. The title of the
    film says so."""
    begin: int | None = None
    """First step. Default: the first recorded one."""
    end: int | None = None
    """Last step. Default: the last recorded one."""
    event: Literal["spike", "drop", "first-drop"] | None = None
    """Show a single event. spike: the highest spike, replayed and shown at every step;
    drop: the largest drop of the loss after its first plateau; first-drop: the first
    drop. Without --run, spike and drop are selected from all successful runs (or from
    all runs if none is successful), and first-drop from the default run. Default: the
    whole run."""

    def __post_init__(self) -> None:
        super().__post_init__()
        if self.fps is not None:
            check_real("fps", self.fps, positive=True, up_to=plots.MAX_FPS)
            if self.fps < _MIN_FPS:
                allowed = f"{_MIN_FPS:g} to {plots.MAX_FPS}"
                raise SettingsError("fps", self.fps, allowed)
        if self.duration is not None:
            check_real("duration", self.duration, positive=True, up_to=3600)
        aspect_ratio(self.aspect)
        check_integer("interpolate", self.interpolate, 0, _MAX_INTERPOLATED)
        other_range = self.begin is not None or self.end is not None
        if self.selection.at and (self.event or other_range):
            steps = " ".join(map(str, self.selection.at))
            raise SettingsError("at", steps, "no value with --begin, --end or --event")
        if self.event and (self.other or other_range):
            allowed = "a film of one run, without --begin and --end"
            raise SettingsError("event", self.event, allowed)


def aspect_ratio(text: str | None) -> float:
    """The ratio of width and height in a text such as 16:9; 0 without a text. Raises
    SettingsError."""
    if text is None:
        return 0.0
    try:
        width, height = map(float, text.split(":"))
        ratio = width / height
    except (ValueError, ZeroDivisionError):
        ratio = math.nan
    if not 0.1 <= ratio <= 10:
        allowed = "WIDTH:HEIGHT, a ratio of 0.1 to 10, such as 16:9"
        raise SettingsError("aspect", text, allowed)
    return ratio


def main(options: Options) -> None:
    """Choose runs, panels and frames; draw and encode them."""
    check_picture_path(options.out or Path("film.mp4"), _FORMATS)
    write_film = plots.write_film  # raises MissingPackage before anything is computed
    gif = options.out is not None and options.out.suffix.lower() == ".gif"
    spike = drop = None
    if options.event:
        options, event = _select_event(options)
        spike, drop = (event, None) if options.event == "spike" else (None, event)
    trajectories, runs = open_shown_runs(options)
    ending = f"-{options.event}.mp4" if options.event else ".mp4"
    name = default_picture_path(options, runs, ending)
    out = check_picture_path(options.out or name, _FORMATS)
    if spike:
        one = trajectories[0].isel(run=runs[0])
        steps = one["step"].values[one["step"].values <= int(one["last_step"])]
        first, last = plots.replay_range(spike, steps)
        print(
            f"spike       at step {spike.middle}; replayed from step {first} to {last},"
            " every step"
        )
        replayed, spike = plots.replay_spike(trajectories[0], runs[0], first, last)
        trajectories, runs = [replayed], [0]
    if gif:
        chosen = select_panels(options, trajectories, _GIF_PANELS, _MAX_GIF_PANELS)
    else:
        chosen = select_panels(options, trajectories, also=_FILM_PANELS)
    names, left_out = chosen
    layout = arrange_panels(options, names, _GIF_WIDTH * len(runs) if gif else None)
    map_pixels = min(layout.map_pixels, _MAX_MAP_PIXELS)
    scenes = [
        panels.build_scene(trajectory, run, options.axes, map_pixels, names, _FOLLOW)
        for trajectory, run in zip(trajectories, runs, strict=True)
    ]
    if spike:  # the events detected at every step are mostly noise
        scenes = [
            dataclasses.replace(
                scenes[0],
                title=f"{scenes[0].title}: a spike",
                detect_events=lambda: (spike,),
            )
        ]
    if options.interpolate:
        scenes = [
            dataclasses.replace(scene, title=f"{scene.title}; {_INTERPOLATED}")
            for scene in scenes
        ]
    fps = options.fps or (_GIF_FPS if gif else _FPS)
    film, frames = _plan_film(options, scenes, fps, drop, gif)
    if options.interpolate:
        film = plots.interpolate_film(film, options.interpolate)
        frames += f"; {options.interpolate} interpolated between two of them"
    if options.duration is not None:
        film, fps = plots.fit_duration(film, options.duration, fps)
    if gif:  # a GIF counts hundredths of a second, at least 2
        fps = 100 / max(2, round(100 / fps))
    print(f"time        {frames}: {film.length} frames, {film.length / fps:.1f} s")
    columns, leading = (options.columns, []) if gif else layout[:2]
    ratio = aspect_ratio(options.aspect)
    if ratio and options.columns is None and options.width is None:
        grid = _grid_of_aspect(scenes, names, leading, ratio)
    else:
        width = layout.width
        grid = plots.PanelGrid(scenes, names, columns, width, leading, even=True)
    clock = plots.film_clock(grid, film, fps)
    if ratio and options.width is not None:
        canvas = _even(options.width), _even(options.width / ratio)
        grid, clock = _fitting_grid(grid, clock, leading, columns, canvas, film, fps)
    else:
        canvas = plots.film_size(grid, ratio, 0 if clock is None else clock.height)
    write_film(grid, film, out, fps, size=canvas)
    size = f"{canvas[0]} x {canvas[1]}, {out.stat().st_size / 1e6:.2g} MB"
    print(f"panels      {', '.join(names)}{left_out}\nfilm        {out}  ({size})")


def _select_event(options: Options) -> tuple[Options, EventMark]:
    """The event of the option --event, and the options with its run. Raises
    SettingsError, TrajectoryError."""
    trajectory, run = (
        dynamics.open_trajectory(options.trajectory),
        options.run_indices[0],
    )
    assert options.event is not None
    if run is not None or options.event == "first-drop":
        run, _ = plots.select_run(trajectory, "run", run)
    run, event = plots.find_event(trajectory, run, options.event)
    selection = dataclasses.replace(options.selection, run_indices=())
    return dataclasses.replace(options, run=run, selection=selection), event


def _even(size: float) -> int:
    """The nearest even number, as films need."""
    return 2 * round(size / 2)


def _fitting_grid(
    grid: plots.PanelGrid,
    clock: FilmClock | None,
    leading: list[str],
    columns: int | None,
    size: tuple[int, int],
    film: FilmFrames,
    fps: float,
) -> tuple[plots.PanelGrid, FilmClock | None]:
    """The same panels so small that they and the strip of time are within a picture of
    a size (width, height). Raises SettingsError if they would be too small."""
    while grid.width > size[0] or _height(grid, clock) > size[1]:
        shrink = min(size[0] / grid.width, size[1] / _height(grid, clock))
        width = min(_even(grid.width * shrink), grid.width - 2)
        if width < MIN_WIDTH:
            allowed = f"more than {size[0]} with this aspect, or fewer panels"
            raise SettingsError("width", size[0], allowed)
        grid = plots.PanelGrid(
            grid.scenes, grid.panels, columns, width, leading, even=True
        )
        clock = plots.film_clock(grid, film, fps)
    return grid, clock


def _height(grid: plots.PanelGrid, clock: FilmClock | None) -> int:
    """The height of panels and of the strip of time."""
    return grid.height + (0 if clock is None else clock.height)


def _grid_of_aspect(
    scenes: Sequence[Scene], names: Sequence[str], leading: list[str], ratio: float
) -> plots.PanelGrid:
    """The panels in as many columns as make the ratio of width and height nearest to a
    given one."""
    grids = [
        plots.PanelGrid(
            scenes,
            names,
            columns,
            columns * _COLUMN_WIDTH * len(scenes),
            leading,
            even=True,
        )
        for columns in range(2 if leading else 1, _MOST_COLUMNS + 1)
    ]
    return min(grids, key=lambda grid: abs(math.log(grid.width / grid.height / ratio)))


def _plan_film(
    options: Options,
    scenes: Sequence[Scene],
    fps: float,
    drop: EventMark | None,
    gif: bool,
) -> tuple[FilmFrames, str]:
    """The frames of the film, and which these are in words. Raises SettingsError."""
    begin, end = options.begin, options.end
    if drop is not None:
        begin, end = plots.steps_around_drop(drop, scenes[0].steps)
    selection, last = options.selection, round(_LAST_SECONDS * fps)
    by_events = options.time == "events" and not options.event
    by_events = by_events and not selection.selects_frames
    film = plots.film_frames(
        scenes,
        begin,
        end,
        None if gif else 1,
        by_events,
        max(1, last),
        _GIF_FRAMES if gif else _MAX_FRAMES,
        selection,
    )
    if drop is not None:
        hold = max(1, round(_DROP_SECONDS * fps / len(film.frames)))
        film = film._replace(holds=film.holds * min(_MAX_DROP_HOLD, hold))
    summary = "every recorded frame"
    if selection.at or (selection.frames and selection.every is None):
        summary = "selected frames"
    elif film.every > 1:
        summary = f"one recorded frame in {film.every}, and the last"
    if by_events:
        summary = "frames by events: slower at drops and spikes, faster in plateaus"
    summary += f" ({len(film.frames)}), the last one for {film.holds[-1]} film frames"
    if panels.compares_by_run_fraction(scenes):
        summary += "; runs with different units at the same fraction"
    return film, summary


if __name__ == "__main__":
    run_command(main, Options, "analysis.film")
