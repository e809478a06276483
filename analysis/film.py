"""A film of a run: its panels at every recorded step, as an MP4 that browsers play, or a small GIF (VC section 2.3).

python -m analysis.film RUN.nc
python -m analysis.film RUN.nc --event spike
python -m analysis.film RUN.nc RUN.nc --run 3 --run-of-other 7 --time events
python -m analysis.film RUN.nc --panels embedding loss --out docs/run.gif
"""

import dataclasses
import itertools
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Literal

from analysis.command_line.panel_selection import (
    PanelOptions,
    check_panel_options,
    check_picture_path,
    default_picture_path,
    make_scenes,
    open_shown_runs,
    picture_width,
    select_panels,
    select_run,
)
from analysis.command_line.parsing import run_command
from dynamics.settings import SettingsError, check_integer, check_real

if TYPE_CHECKING:
    import numpy as np
    import xarray as xr

    from analysis.plots.drawing.film_timeline import FilmFrames
    from analysis.plots.drawing.panel_grid import PanelGrid
    from analysis.plots.scenes.scene import EventMark, Scene

_FORMATS = ("mp4", "gif")

_MIN_FPS = 0.1
"""Film frames a second, at least."""

_LAST_SECONDS = 0.5
"""Seconds for which the last frame is held."""

FILM_MAP_PIXELS = 96
"""Pixels of a map in each direction."""

_FRAMES_PER_BATCH = 24
"""Frames whose arrays are found at once, while those before are drawn."""

FPS, GIF_FPS = 20.0, 10.0
GIF_FRAMES, GIF_WIDTH, GIF_PANELS = 110, 480, 4
"""What a GIF has, where nothing else is asked for: so many frames, pixels across for each run, and panels."""

_GIF_PANELS = (
    "embedding",
    "pair_sums",
    "attention",
    "sequence_embeddings",
    "transform_map",
    "loss",
    "imperfections",
    "force",
)
"""Panels that a GIF has, the first that there are."""

_DROP_SECONDS = 8
"""That a film of a drop takes at least, if its frames need not be held for too long."""
_MAX_HOLD = 10


@dataclasses.dataclass(frozen=True)
class Options(PanelOptions):
    """Film panels of a run, or of two side by side, step by recorded step; --event films one drop or spike of it."""

    fps: float | None = None
    """Film frames a second. None is 20, of a GIF 10."""
    time: Literal["linear", "events"] = "linear"
    """linear: a film frame for each recorded one. events: those near drops and spikes are held for 4."""
    begin: int | None = None
    """First step. None is the first recorded one."""
    end: int | None = None
    """Last step. None is the last one."""
    every: int | None = None
    """Show every so many-th recorded frame, and the last. None is 1, of a GIF as many as leave 110."""
    event: Literal["spike", "drop", "first-drop"] | None = None
    """spike: the highest one, repeated and shown at every single step. drop, first-drop: the largest drop of the loss
    after its first plateau, or the first, as it was recorded. Without --run: of all successful runs, or of all where
    there are none; first-drop: of the default run."""


# ----------------------------------------------------------------------------------------------- an event


def find_event(trajectory: "xr.Dataset", run: int | None, kind: str) -> "tuple[int, EventMark]":
    """The run and the event that are meant, of its loss or force. Raises TrajectoryError."""
    import numpy as np

    from analysis.plots.scenes.scene import EventMark
    from analysis.statistics.success import success_mask
    from analysis.transitions.loss_events import default_scalar_name, event_table, trajectory_scalar
    from dynamics.errors import TrajectoryError

    values = trajectory_scalar(trajectory, default_scalar_name(trajectory))
    found = event_table(values if run is None else values.isel(run=[run]))
    of = np.flatnonzero((found["kind"].values == kind.removeprefix("first-")) & ~found["initial"].values)
    good = success_mask(trajectory)[found["of_run"].values[of]]
    of = of[good] if run is None and good.any() else of
    if not of.size:
        where = "any run" if run is None else f"run {run}"
        raise TrajectoryError(
            f"no {kind.removeprefix('first-')} in {where}; python -m analysis.events lists what there is"
        )
    size = np.abs(found["after"].values - found["before"].values)[of]
    at = of[0] if kind.startswith("first-") else of[size.argmax()]
    begin, middle, end = (round(float(found[name].values[at])) for name in ("begin", "middle", "end"))
    return int(found["of_run"].values[at]) if run is None else run, EventMark(kind, begin, middle, end)


def replay_range(spike: "EventMark", steps: "np.ndarray") -> tuple[int, int]:
    """The steps from which to which a spike is repeated: two or more recorded frames before it, one or more after.

    steps: the recorded ones up to the last valid one.
    """
    import numpy as np

    peak = int(np.searchsorted(steps, spike.middle))
    begin, end = (int(np.searchsorted(steps, at)) for at in (spike.begin, spike.end))
    before, after = min(max(peak - begin + 1, 2), 4), min(max(end - peak, 1), 3)
    first, last = int(steps[max(0, peak - before)]), int(steps[min(len(steps) - 1, peak + after)])
    short = max(0, 80 - (last - first)) // 2  # where frames lie close together
    return max(int(steps[0]), first - short), min(int(steps[-1]), last + short)


def replay_spike(trajectory: "xr.Dataset", run: int, spike: "EventMark") -> "tuple[xr.Dataset, EventMark]":
    """The run around a spike at every step, and where the peak is. Raises TrajectoryError, Interrupted."""
    import numpy as np

    from analysis.plots.scenes.scene import EventMark
    from analysis.transitions.loss_events import default_scalar_name, trajectory_scalar
    from dynamics.branching import replay

    steps = trajectory["step"].values
    first, last = replay_range(spike, steps[steps <= int(trajectory["last_step"].values[run])])
    print(f"spike       at step {spike.middle}; repeated from step {first} to {last}, every step")
    found = replay(trajectory, run, first, last, progress=True)
    values = trajectory_scalar(found, default_scalar_name(found)).values[0]
    peak = int(found["step"].values[np.nanargmax(values)])
    return found, EventMark("spike", peak, peak, peak)


# ------------------------------------------------------------------------------------------------ the film


def write_film(sheet: "PanelGrid", reel: "FilmFrames", out: Path, fps: float, progress: bool = True) -> None:
    """Draw a sheet at all frames of a reel into an MP4 or GIF. Raises RecordingError."""
    from tqdm import tqdm

    from analysis.plots.drawing.film_encoder import open_film_encoder

    with (
        open_film_encoder(out, (sheet.width, sheet.height), fps) as write,
        tqdm(total=reel.length, unit="frame", disable=None if progress else True, leave=False) as bar,
    ):
        for picture, hold in zip(draw_frames(sheet, reel), reel.holds.tolist(), strict=True):
            for _ in range(hold):
                write(picture)
            bar.update(hold)


def draw_frames(sheet: "PanelGrid", reel: "FilmFrames") -> "Iterator[np.ndarray]":
    """The sheet at each frame of a reel, (height, width, rgba); the next one overwrites it.

    The arrays of the next frames are found by another thread while these are drawn.
    """
    from concurrent.futures import ThreadPoolExecutor

    def look(chunk: "np.ndarray"):
        return [scene.arrays(frames, sheet.panels) for scene, frames in zip(sheet.scenes, chunk.T, strict=True)]

    chunks = [reel.frames[k : k + _FRAMES_PER_BATCH] for k in range(0, len(reel.frames), _FRAMES_PER_BATCH)]
    with ThreadPoolExecutor(1) as pool:
        pending = pool.submit(look, chunks[0])
        for chunk, following in itertools.zip_longest(chunks, chunks[1:]):
            arrays = pending.result()
            if following is not None:
                pending = pool.submit(look, following)
            for place, frames in enumerate(chunk.tolist()):
                sheet.show(frames, arrays, [place] * len(frames))
                yield sheet.draw()


# --------------------------------------------------------------------------------------------- the command


def plan_film(
    options: Options, scenes: "Sequence[Scene]", fps: float, drop: "EventMark | None", gif: bool
) -> "FilmFrames":
    """What the film shows, as options say. Raises SettingsError."""
    from analysis.plots.drawing.film_timeline import EVENT_HOLD, compares_by_run_fraction, film_frames

    begin, end = options.begin, options.end
    if drop is not None:
        begin, end = steps_around_drop(drop, scenes[0].steps)
    by_events, every, last = options.time == "events", options.every, max(1, round(_LAST_SECONDS * fps))
    if every is None:
        shown = len(film_frames(scenes, begin, end).frames)
        every = -(-shown // GIF_FRAMES) if gif else 1
    found = film_frames(scenes, begin, end, every, by_events, last)
    if drop is not None:
        hold = min(_MAX_HOLD, max(1, round(_DROP_SECONDS * fps / len(found.frames))))
        found = found._replace(holds=found.holds * hold)
    times = f", {EVENT_HOLD} times as long near drops and spikes" if by_events else ""
    which = "every recorded frame" if every == 1 else f"one recorded frame in {every}, and the last"
    times += (
        "; runs that count time in other units by the share that is over" if compares_by_run_fraction(scenes) else ""
    )
    print(f"time        {which}{times}: {found.length} frames, {found.length / fps:.1f} s")
    return found


def steps_around_drop(drop: "EventMark", steps: "np.ndarray") -> tuple[int, int]:
    """Steps from half a drop's length, or ten recorded frames, before it to as much after it."""
    import numpy as np

    first, last = (int(np.searchsorted(steps, at)) for at in (drop.begin, drop.end))
    margin = max(10, (last - first) // 2)
    return int(steps[max(0, first - margin)]), int(steps[min(len(steps) - 1, last + margin)])


def _check_options(options: Options) -> None:
    """See that options fit together. Raises SettingsError."""
    check_panel_options(options)
    check_picture_path(options, Path("film.mp4"), _FORMATS)
    if options.every is not None:
        check_integer("every", options.every, 1, 2**53)
    if options.fps is not None:
        check_real("fps", options.fps, positive=True, up_to=240)
        if options.fps < _MIN_FPS:
            raise SettingsError("fps", options.fps, f"{_MIN_FPS:g} to 240")
    if options.event and (options.other or options.begin is not None or options.end is not None):
        raise SettingsError("event", options.event, "a film of one run, without --begin and --end")


def main(options: Options) -> None:
    """Choose run, panels and time; draw and encode."""
    _check_options(options)
    import analysis.plots.drawing.film_encoder  # noqa: F401, which says where it lacks a package
    from analysis.plots.drawing.panel_grid import PanelGrid

    gif = options.out is not None and options.out.suffix.lower() == ".gif"
    event = None
    if options.event:
        options, event = _select_event(options)
    trajectories, runs = open_shown_runs(options)
    rest = f"-{options.event}" if options.event else ""
    out = check_picture_path(options, default_picture_path(options, runs, f"{rest}.mp4"), _FORMATS)
    if options.event == "spike" and event:
        found, event = replay_spike(trajectories[0], runs[0], event)
        trajectories, runs = [found], [0]
    names, left = select_panels(options, trajectories)
    if gif and not options.panels:
        names, left = tuple(name for name in _GIF_PANELS if name in names)[:GIF_PANELS] or names, ""
    width = GIF_WIDTH * len(runs) if gif and options.width is None else picture_width(options, len(names))
    scenes = make_scenes(options, trajectories, runs, names, FILM_MAP_PIXELS)
    if options.event == "spike" and event:  # one of every step has drops and spikes of its own, mostly noise
        scenes = [dataclasses.replace(scenes[0], title=f"{scenes[0].title}: a spike", marks=(event,))]
    fps = options.fps or (GIF_FPS if gif else FPS)
    fps = 100 / max(2, round(100 / fps)) if gif else fps  # a GIF counts hundredths of a second, from 2 on
    shown = plan_film(options, scenes, fps, event if options.event != "spike" else None, gif)
    sheet = PanelGrid(scenes, names, options.columns, width, even=True)
    write_film(sheet, shown, out, fps)
    size = f"{sheet.width} x {sheet.height}, {out.stat().st_size / 1e6:.2g} MB"
    print(f"panels      {', '.join(names)}{left}\nfilm        {out}  ({size})")


def _select_event(options: Options) -> "tuple[Options, EventMark]":
    """The options with the run of the event that they ask for, and that event. Raises as `found_event` does."""
    from dynamics.trajectory.reader import open_trajectory

    trajectory, run = open_trajectory(options.trajectory), options.run
    assert options.event is not None
    if run is not None or options.event == "first-drop":
        run, _ = select_run(trajectory, "run", run)
    run, event = find_event(trajectory, run, options.event)
    return dataclasses.replace(options, run=run), event


if __name__ == "__main__":
    run_command(main, Options, "analysis.film")
