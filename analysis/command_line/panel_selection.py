"""What commands that show panels of a run, or of two side by side, have in common: options, and what they mean."""

import dataclasses
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING

import tyro

from dynamics.settings import SettingsError, check_integer

if TYPE_CHECKING:
    import xarray as xr

    from analysis.plots.scenes.scene import Scene

MAX_PANELS = 16
"""Panels that are shown where none are named."""

DEFAULT_WIDTH = 960
"""Default width in pixels of a scene's panels, and of a single panel's two thirds of it."""

MIN_WIDTH, MAX_WIDTH = 120, 7680
MIN_PANEL_WIDTH = 40
"""Pixels of a panel, with all around it, at least."""
_NETCDF_SIGNATURES = (b"\x89HDF", b"CDF")
"""How netCDF files begin."""
_FIGURE_PIXELS_PER_MAP_PIXEL = 1.25
"""Pixels of a figure to one of its maps, in each direction."""


@dataclasses.dataclass(frozen=True)
class PanelOptions:
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


# ------------------------------------------------------------------------------------------------- choices


def default_run(trajectory: "xr.Dataset") -> tuple[int, str]:
    """The first run that has learned what it should, else the first one; and why, in words."""
    from analysis.statistics.success import success_mask
    from analysis.structures.circles_and_grids import circles
    from dynamics.settings import SparseSettings
    from dynamics.trajectory.diverged import not_diverged
    from dynamics.trajectory.schema import read_settings

    if isinstance(read_settings(trajectory), SparseSettings):
        good, word = success_mask(trajectory), "successful"
    elif "embedding" in trajectory:
        alive = not_diverged(trajectory)
        good, word = circles(trajectory["embedding"].isel(step=-1)).values & alive, "a circle"
    else:
        return 0, ", the first one"
    if not good.any():
        return 0, f", the first one, as none is {word}"
    return int(good.argmax()), f", the first that is {word} of {len(good)}"


def select_run(trajectory: "xr.Dataset", name: str, run: int | None) -> tuple[int, str]:
    """The place along `run` that is asked for, or the default, and why. Raises SettingsError."""
    if run is None:
        return default_run(trajectory)
    if not 0 <= run < trajectory.sizes["run"]:
        raise SettingsError(name, run, f"a place from 0 to {trajectory.sizes['run'] - 1}")
    return run, ""


def select_panels(options: PanelOptions, trajectories: "Sequence[xr.Dataset]") -> tuple[tuple[str, ...], str]:
    """Names of the panels that all have, those asked for or the first of them; and what is left out, in words.

    Raises SettingsError, TrajectoryError.
    """
    from analysis.plots.panels import panel_names

    names = [panel_names(each) for each in trajectories]
    shared = tuple(name for name in names[0] if all(name in others for others in names))
    for name in options.panels:
        if name not in shared:
            raise SettingsError("panels", name, "some of " + ", ".join(shared))
    if not shared:
        raise SettingsError("other", options.other, "a run that has panels in common with the first")
    if options.panels:
        return options.panels, ""
    left = f"; with --panels also {', '.join(shared[MAX_PANELS:])}" if len(shared) > MAX_PANELS else ""
    return shared[:MAX_PANELS], left


def check_picture_path(options: PanelOptions, default: Path, formats: Sequence[str]) -> Path:
    """The file to be written, which is no file of data. Raises SettingsError."""
    path = default if options.out is None else options.out
    if path.suffix[1:].lower() not in formats or path.is_dir():
        names = [f".{one}" for one in formats]
        allowed = ", ".join(names[:-1]) + f" or {names[-1]}"
        raise SettingsError("out", path, f"the name of a file that ends in {allowed}")
    if path.is_file():
        with path.open("rb") as file:
            if file.read(8).startswith(_NETCDF_SIGNATURES):
                raise SettingsError("out", path, "a name that no trajectory or result has, which would be lost")
    return path


def check_panel_options(options: PanelOptions) -> None:
    """See that numbers are what they can be. Raises SettingsError."""
    if options.columns is not None:
        check_integer("columns", options.columns, 1, 100)
    if options.width is not None:
        check_integer("width", options.width, MIN_WIDTH, MAX_WIDTH)
    if options.run_of_other is not None and options.other is None:
        raise SettingsError("run_of_other", options.run_of_other, "no value without a second file")
    twice = next((name for name in options.panels if options.panels.count(name) > 1), None)
    if twice is not None:
        raise SettingsError("panels", f"{twice} twice", "each panel once")


def picture_width(options: PanelOptions, count: int) -> int:
    """Of the picture, in pixels, for so many panels of each run. Raises SettingsError where they would be too small."""
    from analysis.plots.drawing.panel_layout import default_columns

    runs = 1 if options.other is None else 2
    width = (DEFAULT_WIDTH if count > 1 else 2 * DEFAULT_WIDTH // 3) * runs if options.width is None else options.width
    columns = min(options.columns or default_columns(count), count)
    if width < MIN_PANEL_WIDTH * columns * runs:
        name, value = ("columns", options.columns) if options.width is None else ("width", options.width)
        some = (
            f"at most {width // (MIN_PANEL_WIDTH * runs)}"
            if name == "columns"
            else f"at least {MIN_PANEL_WIDTH * columns * runs}"
        )
        raise SettingsError(name, value, f"{some}, for panels that can be made out")
    return width


def map_pixels(options: PanelOptions, names: Sequence[str]) -> int:
    """Pixels of a map, for a whole figure at once."""
    from analysis.plots.drawing.panel_layout import default_columns

    columns = options.columns or default_columns(len(names))
    return int(
        min(
            480,
            max(
                96,
                picture_width(options, len(names))
                / (2 if options.other else 1)
                / columns
                / _FIGURE_PIXELS_PER_MAP_PIXEL,
            ),
        )
    )


# ----------------------------------------------------------------------------------------------- the runs


def open_shown_runs(options: PanelOptions) -> "tuple[list[xr.Dataset], list[int]]":
    """The trajectories that are shown, and the places of their runs, which are told. Raises as they do."""
    from dynamics.trajectory.reader import open_trajectory

    paths = [options.trajectory, *([] if options.other is None else [options.other])]
    trajectories = [open_trajectory(path) for path in paths]
    runs: list[int] = []
    for path, trajectory in zip(paths, trajectories, strict=True):
        if runs and options.run_of_other is None:
            run, why = (runs[0] + (path.resolve() == paths[0].resolve())) % trajectory.sizes["run"], ""
        else:
            name = "run_of_other" if runs else "run"
            run, why = select_run(trajectory, name, getattr(options, name))
        runs.append(run)
        print(f"trajectory  {path}  (run {run}{why}{divergence_note(trajectory, run)})")
    return trajectories, runs


def divergence_note(trajectory: "xr.Dataset", run: int) -> str:
    """That a run diverged, in words, where it did."""
    from dynamics.trajectory.schema import DIVERGED

    if trajectory["status"].values[run] != DIVERGED:
        return ""
    return f", which diverged after step {int(trajectory['last_step'].values[run])}"


def default_picture_path(options: PanelOptions, runs: Sequence[int], rest: str) -> Path:
    """The default name of a picture, beside the first trajectory."""
    stem = f"{options.trajectory.stem}-run{runs[0]}"
    if options.other is not None:
        same = options.other.resolve() == options.trajectory.resolve()
        stem += f"-run{runs[1]}" if same else f"-{options.other.stem}-run{runs[1]}"
    return options.trajectory.with_name(stem + rest)


def make_scenes(
    options: PanelOptions, trajectories: "Sequence[xr.Dataset]", runs: Sequence[int], names: Sequence[str], side: int
) -> "list[Scene]":
    """What is to be seen of each run. Raises SettingsError, TrajectoryError."""
    from analysis.plots.panels import build_scene

    return [build_scene(each, run, options.axes, side, names) for each, run in zip(trajectories, runs, strict=True)]
