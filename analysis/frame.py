"""One figure of a run at a step: what a network or particles make of things (VC section 2.3; CA figures 1 to 5).

python -m analysis.frame RUN.nc --run 3 --step 1200
python -m analysis.frame RUN.nc --run 3 --panels attention sequence_embeddings --out attention.pdf
python -m analysis.frame RUN.nc OTHER.nc --run 3
"""

import dataclasses
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING

import tyro

from analysis.command import command
from dynamics.settings import SettingsError, check_whole

if TYPE_CHECKING:
    import xarray as xr

    from analysis.view.scene import Scene

MOST = 16
"""Panels that are shown where none are named."""

SIDE = 960
"""Default width in pixels of a scene's panels, and of a single panel's two thirds of it."""

NARROW, WIDE = 120, 7680
PIXEL = 1.25
"""Pixels of a figure to one of its maps, in each direction."""


@dataclasses.dataclass(frozen=True)
class Showing:
    """Options of commands that show panels of a run, or of two side by side."""

    trajectory: tyro.conf.Positional[Path]
    """A trajectory, finished or still running."""
    other: tyro.conf.Positional[Path | None] = None
    """One to be shown beside it; the same file again, to compare two of its runs."""
    run: int | None = None
    """Place of the run. None is the first successful one (of modular addition and particles, the first that ends as a
    circle), or 0."""
    run_of_other: int | None = None
    """Place of the other's run. None is the same place, of the same file the next one."""
    panels: tuple[str, ...] = ()
    """Which panels, in this order; a name that is not known is answered with all names. None is the first 16."""
    columns: int | None = None
    """Panels in a row. None is up to 4."""
    axes: tuple[int, int] | None = None
    """The two axes, counted from 0, that are shown where there are more. None is the principal ones."""
    width: int | None = None
    """Of the whole picture in pixels. None is 960 for each run, 640 for a single panel."""
    out: Path | None = None
    """File to write. None is beside the trajectory."""


@dataclasses.dataclass(frozen=True)
class Options(Showing):
    """Draw panels of a run at one step into a PNG, SVG or PDF."""

    step: int = -1
    """Which step; of steps that were not recorded the nearest that was. -1 is the last."""


# ------------------------------------------------------------------------------------------------- choices


def default_run(trajectory: "xr.Dataset") -> tuple[int, str]:
    """The first run that has learned what it should, else the first one; and why, in words."""
    from analysis.events import succeeded
    from analysis.structures import circles
    from dynamics.settings import SparseSettings
    from dynamics.trajectory import settings_of

    if isinstance(settings_of(trajectory), SparseSettings):
        good, word = succeeded(trajectory), "successful"
    elif "embedding" in trajectory:
        alive = (trajectory["last_step"] >= trajectory["step"][-1]).values
        good, word = circles(trajectory["embedding"].isel(step=-1)).values & alive, "a circle"
    else:
        return 0, ", the first one"
    if not good.any():
        return 0, f", the first one, as none is {word}"
    return int(good.argmax()), f", the first that is {word} of {len(good)}"


def chosen_run(trajectory: "xr.Dataset", name: str, run: int | None) -> tuple[int, str]:
    """The place along `run` that is asked for, or the default, and why. Raises SettingsError."""
    if run is None:
        return default_run(trajectory)
    if not 0 <= run < trajectory.sizes["run"]:
        raise SettingsError(name, run, f"a place from 0 to {trajectory.sizes['run'] - 1}")
    return run, ""


def chosen_panels(options: Showing, trajectories: "Sequence[xr.Dataset]") -> tuple[tuple[str, ...], str]:
    """Names of the panels that all have, those asked for or the first of them; and what is left out, in words.

    Raises SettingsError, TrajectoryError.
    """
    from analysis.panels import panel_names

    names = [panel_names(each) for each in trajectories]
    shared = tuple(name for name in names[0] if all(name in others for others in names))
    for name in options.panels:
        if name not in shared:
            raise SettingsError("panels", name, "some of " + ", ".join(shared))
    if not shared:
        raise SettingsError("other", options.other, "a run that has panels in common with the first")
    if options.panels:
        return options.panels, ""
    left = f"; with --panels also {', '.join(shared[MOST:])}" if len(shared) > MOST else ""
    return shared[:MOST], left


def checked_out(out: Path | None, default: Path, formats: Sequence[str]) -> Path:
    """The file to be written. Raises SettingsError."""
    path = default if out is None else out
    if path.suffix[1:] not in formats or path.is_dir():
        raise SettingsError("out", path, "the name of a file that ends in " + " or ".join(f".{one}" for one in formats))
    return path


def width_of(options: Showing, count: int) -> int:
    """Of the picture, in pixels, for so many panels of each run. Raises SettingsError."""
    if options.columns is not None:
        check_whole("columns", options.columns, 1, 100)
    if options.width is not None:
        return check_whole("width", options.width, NARROW, WIDE)
    return (SIDE if count > 1 else 2 * SIDE // 3) * (1 if options.other is None else 2)


def side_of(options: Showing, names: Sequence[str]) -> int:
    """Pixels of a map, for a whole figure at once."""
    from analysis.view.layout import columns_for

    columns = options.columns or columns_for(len(names))
    return int(min(480, max(96, width_of(options, len(names)) / (2 if options.other else 1) / columns / PIXEL)))


# ----------------------------------------------------------------------------------------------- the runs


def opened(options: Showing) -> "tuple[list[xr.Dataset], list[int]]":
    """The trajectories that are shown, and the places of their runs, which are told. Raises as they do."""
    from dynamics.trajectory import open_trajectory

    paths = [options.trajectory, *([] if options.other is None else [options.other])]
    trajectories = [open_trajectory(path) for path in paths]
    runs: list[int] = []
    for path, trajectory in zip(paths, trajectories, strict=True):
        if runs and options.run_of_other is None:
            run, why = (runs[0] + (path.resolve() == paths[0].resolve())) % trajectory.sizes["run"], ""
        else:
            name = "run_of_other" if runs else "run"
            run, why = chosen_run(trajectory, name, getattr(options, name))
        runs.append(run)
        print(f"trajectory  {path}  (run {run}{why})")
    return trajectories, runs


def named(options: Showing, runs: Sequence[int], rest: str) -> Path:
    """The default name of a picture, beside the first trajectory."""
    stem = f"{options.trajectory.stem}-run{runs[0]}"
    if options.other is not None:
        same = options.other.resolve() == options.trajectory.resolve()
        stem += f"-run{runs[1]}" if same else f"-{options.other.stem}-run{runs[1]}"
    return options.trajectory.with_name(stem + rest)


def scenes_of(
    options: Showing, trajectories: "Sequence[xr.Dataset]", runs: Sequence[int], names: Sequence[str], side: int
) -> "list[Scene]":
    """What is to be seen of each run. Raises SettingsError, TrajectoryError."""
    from analysis.panels import scene

    return [scene(each, run, options.axes, side, names) for each, run in zip(trajectories, runs, strict=True)]


# --------------------------------------------------------------------------------------------- the command


def main(options: Options) -> None:
    """Find the frame, draw and write it."""
    check_whole("step", options.step, -1, 2**62)
    checked_out(options.out, Path("figure.png"), ("png", "svg", "pdf"))
    import numpy as np

    from analysis.view.pacing import beside, nearest
    from analysis.view.sheet import Sheet

    trajectories, runs = opened(options)
    names, left = chosen_panels(options, trajectories)
    width = width_of(options, len(names))
    scenes = scenes_of(options, trajectories, runs, names, side_of(options, names))
    frames = beside(scenes, nearest(scenes[0], options.step))
    step = int(scenes[0].steps[frames[0]])
    if options.step not in (-1, step):
        print(f"step        {step}, the nearest to {options.step} that was recorded")
    out = checked_out(options.out, named(options, runs, f"-step{step}.png"), ("png", "svg", "pdf"))
    sheet = Sheet(scenes, names, options.columns, width)
    sheet.show(frames, [scene.arrays(np.array([frame])) for scene, frame in zip(scenes, frames, strict=True)])
    sheet.save(out)
    print(f"panels      {', '.join(names)}{left}\npicture     {out}  ({sheet.width} x {sheet.height})")


if __name__ == "__main__":
    command(main, Options, "analysis.frame")
