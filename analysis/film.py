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
    Showing,
    checked_options,
    checked_out,
    chosen_panels,
    chosen_run,
    named,
    opened,
    scenes_of,
    width_of,
)
from analysis.command_line.parsing import command
from dynamics.settings import SettingsError, check_real, check_whole

if TYPE_CHECKING:
    import numpy as np
    import xarray as xr

    from analysis.plots.drawing.film_timeline import Reel
    from analysis.plots.drawing.panel_grid import Sheet
    from analysis.plots.scenes.scene import Mark, Scene

FORMATS = ("mp4", "gif")

SLOWEST = 0.1
"""Film frames a second, at least."""

LAST = 0.5
"""Seconds for which the last frame is held."""

MAP = 96
"""Pixels of a map in each direction."""

AT_ONCE = 24
"""Frames whose arrays are found at once, while those before are drawn."""

FPS, GIF_FPS = 20.0, 10.0
GIF_FRAMES, GIF_WIDTH, GIF_PANELS = 110, 480, 4
"""What a GIF has, where nothing else is asked for: so many frames, pixels across for each run, and panels."""

TELLING = (
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

SECONDS = 8
"""That a film of a drop takes at least, if its frames need not be held for too long."""
LONGEST = 10


@dataclasses.dataclass(frozen=True)
class Options(Showing):
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


def found_event(trajectory: "xr.Dataset", run: int | None, kind: str) -> "tuple[int, Mark]":
    """The run and the event that are meant, of its loss or force. Raises TrajectoryError."""
    import numpy as np

    from analysis.plots.scenes.scene import Mark
    from analysis.statistics.success import succeeded
    from analysis.transitions.loss_events import default_scalar, events, scalar
    from dynamics.trajectory.netcdf import TrajectoryError

    values = scalar(trajectory, default_scalar(trajectory))
    found = events(values if run is None else values.isel(run=[run]))
    of = np.flatnonzero((found["kind"].values == kind.removeprefix("first-")) & ~found["initial"].values)
    good = succeeded(trajectory)[found["of_run"].values[of]]
    of = of[good] if run is None and good.any() else of
    if not of.size:
        where = "any run" if run is None else f"run {run}"
        raise TrajectoryError(
            f"no {kind.removeprefix('first-')} in {where}; python -m analysis.events lists what there is"
        )
    size = np.abs(found["after"].values - found["before"].values)[of]
    at = of[0] if kind.startswith("first-") else of[size.argmax()]
    begin, middle, end = (round(float(found[name].values[at])) for name in ("begin", "middle", "end"))
    return int(found["of_run"].values[at]) if run is None else run, Mark(kind, begin, middle, end)


def around(spike: "Mark", steps: "np.ndarray") -> tuple[int, int]:
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


def repeated(trajectory: "xr.Dataset", run: int, spike: "Mark") -> "tuple[xr.Dataset, Mark]":
    """The run around a spike at every step, and where the peak is. Raises TrajectoryError, Interrupted."""
    import numpy as np

    from analysis.plots.scenes.scene import Mark
    from analysis.transitions.loss_events import default_scalar, scalar
    from dynamics.simulation import replay

    steps = trajectory["step"].values
    first, last = around(spike, steps[steps <= int(trajectory["last_step"].values[run])])
    print(f"spike       at step {spike.middle}; repeated from step {first} to {last}, every step")
    found = replay(trajectory, run, first, last, progress=True)
    values = scalar(found, default_scalar(found)).values[0]
    peak = int(found["step"].values[np.nanargmax(values)])
    return found, Mark("spike", peak, peak, peak)


# ------------------------------------------------------------------------------------------------ the film


def film(sheet: "Sheet", reel: "Reel", out: Path, fps: float, progress: bool = True) -> None:
    """Draw a sheet at all frames of a reel into an MP4 or GIF. Raises RecordingError."""
    from tqdm import tqdm

    from analysis.plots.drawing.film_encoder import encoder

    with (
        encoder(out, (sheet.width, sheet.height), fps) as write,
        tqdm(total=reel.length, unit="frame", disable=None if progress else True, leave=False) as bar,
    ):
        for picture, hold in zip(pictures(sheet, reel), reel.holds.tolist(), strict=True):
            for _ in range(hold):
                write(picture)
            bar.update(hold)


def pictures(sheet: "Sheet", reel: "Reel") -> "Iterator[np.ndarray]":
    """The sheet at each frame of a reel, (height, width, rgba); the next one overwrites it.

    The arrays of the next frames are found by another thread while these are drawn.
    """
    from concurrent.futures import ThreadPoolExecutor

    def look(chunk: "np.ndarray"):
        return [scene.arrays(frames, sheet.panels) for scene, frames in zip(sheet.scenes, chunk.T, strict=True)]

    chunks = [reel.frames[k : k + AT_ONCE] for k in range(0, len(reel.frames), AT_ONCE)]
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


def timed(options: Options, scenes: "Sequence[Scene]", fps: float, drop: "Mark | None", gif: bool) -> "Reel":
    """What the film shows, as options say. Raises SettingsError."""
    from analysis.plots.drawing.film_timeline import SLOW, by_shares, reel

    begin, end = options.begin, options.end
    if drop is not None:
        begin, end = beyond(drop, scenes[0].steps)
    by_events, every, last = options.time == "events", options.every, max(1, round(LAST * fps))
    if every is None:
        shown = len(reel(scenes, begin, end).frames)
        every = -(-shown // GIF_FRAMES) if gif else 1
    found = reel(scenes, begin, end, every, by_events, last)
    if drop is not None:
        hold = min(LONGEST, max(1, round(SECONDS * fps / len(found.frames))))
        found = found._replace(holds=found.holds * hold)
    times = f", {SLOW} times as long near drops and spikes" if by_events else ""
    which = "every recorded frame" if every == 1 else f"one recorded frame in {every}, and the last"
    times += "; runs that count time in other units by the share that is over" if by_shares(scenes) else ""
    print(f"time        {which}{times}: {found.length} frames, {found.length / fps:.1f} s")
    return found


def beyond(drop: "Mark", steps: "np.ndarray") -> tuple[int, int]:
    """Steps from half a drop's length, or ten recorded frames, before it to as much after it."""
    import numpy as np

    first, last = (int(np.searchsorted(steps, at)) for at in (drop.begin, drop.end))
    margin = max(10, (last - first) // 2)
    return int(steps[max(0, first - margin)]), int(steps[min(len(steps) - 1, last + margin)])


def checked(options: Options) -> None:
    """See that options fit together. Raises SettingsError."""
    checked_options(options)
    checked_out(options, Path("film.mp4"), FORMATS)
    if options.every is not None:
        check_whole("every", options.every, 1, 2**53)
    if options.fps is not None:
        check_real("fps", options.fps, positive=True, up_to=240)
        if options.fps < SLOWEST:
            raise SettingsError("fps", options.fps, f"{SLOWEST:g} to 240")
    if options.event and (options.other or options.begin is not None or options.end is not None):
        raise SettingsError("event", options.event, "a film of one run, without --begin and --end")


def main(options: Options) -> None:
    """Choose run, panels and time; draw and encode."""
    checked(options)
    import analysis.plots.drawing.film_encoder  # noqa: F401, which says where it lacks a package
    from analysis.plots.drawing.panel_grid import Sheet

    gif = options.out is not None and options.out.suffix.lower() == ".gif"
    event = None
    if options.event:
        options, event = with_event(options)
    trajectories, runs = opened(options)
    rest = f"-{options.event}" if options.event else ""
    out = checked_out(options, named(options, runs, f"{rest}.mp4"), FORMATS)
    if options.event == "spike" and event:
        found, event = repeated(trajectories[0], runs[0], event)
        trajectories, runs = [found], [0]
    names, left = chosen_panels(options, trajectories)
    if gif and not options.panels:
        names, left = tuple(name for name in TELLING if name in names)[:GIF_PANELS] or names, ""
    width = GIF_WIDTH * len(runs) if gif and options.width is None else width_of(options, len(names))
    scenes = scenes_of(options, trajectories, runs, names, MAP)
    if options.event == "spike" and event:  # one of every step has drops and spikes of its own, mostly noise
        scenes = [dataclasses.replace(scenes[0], title=f"{scenes[0].title}: a spike", marks=(event,))]
    fps = options.fps or (GIF_FPS if gif else FPS)
    fps = 100 / max(2, round(100 / fps)) if gif else fps  # a GIF counts hundredths of a second, from 2 on
    shown = timed(options, scenes, fps, event if options.event != "spike" else None, gif)
    sheet = Sheet(scenes, names, options.columns, width, even=True)
    film(sheet, shown, out, fps)
    size = f"{sheet.width} x {sheet.height}, {out.stat().st_size / 1e6:.2g} MB"
    print(f"panels      {', '.join(names)}{left}\nfilm        {out}  ({size})")


def with_event(options: Options) -> "tuple[Options, Mark]":
    """The options with the run of the event that they ask for, and that event. Raises as `found_event` does."""
    from dynamics.trajectory.reader import open_trajectory

    trajectory, run = open_trajectory(options.trajectory), options.run
    assert options.event is not None
    if run is not None or options.event == "first-drop":
        run, _ = chosen_run(trajectory, "run", run)
    run, event = found_event(trajectory, run, options.event)
    return dataclasses.replace(options, run=run), event


if __name__ == "__main__":
    command(main, Options, "analysis.film")
