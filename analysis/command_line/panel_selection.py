"""Options of the commands that draw panels of one or two runs, and the default panels,
runs and sizes."""

from __future__ import annotations

import dataclasses
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Literal, NamedTuple

import tyro

import dynamics
from analysis import output, panels, plots
from analysis.panels import figure_panels
from analysis.panels.style import COLUMN, FULL, GRID_DPI
from dynamics.settings import SettingsError, check_integer
from dynamics.trajectory.selection import Selection

if TYPE_CHECKING:
    import xarray as xr

_LEADING_PANELS = ("embedding", "pair_sums", "attention", "transform_map")
"""Panels that are larger than the others by default."""

DEFAULT_WIDTH = 960
"""Default width in pixels for the panels of one run."""

MIN_WIDTH, MAX_WIDTH, MIN_PANEL_WIDTH = 120, 7680, 40
_MIN_PRINTED_PANEL, _MIN_COLUMN_PANEL = 220, 150
"""Smallest width in pixels of a panel in the style paper, and in a picture for one
column."""
_MAX_HEIGHT = 240.0
"""Largest height in mm of a picture for one column."""
_MAX_COLUMN_PANELS = 6
"""Panels that are drawn by default in one column, of one run or of two together."""
_NETCDF_SIGNATURES = (b"\x89HDF", b"CDF")
_FIGURE_PIXELS_PER_MAP_PIXEL = 1.25


@dataclasses.dataclass(frozen=True)
class PanelSelection(Selection):
    """The run of each trajectory, and recorded frames."""

    runs: tyro.conf.Suppress[int | None] = None
    run_indices: tuple[int, ...] = ()
    """Index of the run in each trajectory: --run and --run-of-other as one option.
    Default: see --run."""


@dataclasses.dataclass(frozen=True)
class PanelOptions:
    """Options of commands that draw panels of one run, or of two side by side."""

    trajectory: tyro.conf.Positional[Path]
    """Trajectory file, or a pattern in quotes, such as "seed*.nc"; its runs may still
    be in progress."""
    other: tyro.conf.Positional[Path | None] = None
    """Second trajectory, drawn next to the first; give the same file again to compare
    two of its runs."""
    run: int | None = None
    """Run index. Default: the first successful run (for modular addition and particles,
    the first run that ends as a circle), or 0 if there is none."""
    run_of_other: int | None = None
    """Run index in the second trajectory. Default: the same index, or the next index if
    both files are the same."""
    panels: tuple[str, ...] = ()
    """Names of the panels, in the order of drawing, or all. The command prints the
    names of the panels that it draws and of those that the runs also have;
    docs/guides/films-and-page.md explains all. Default: the main panels of the system,
    or the first 16; the most important ones are larger."""
    columns: int | None = None
    """Number of panels per row. Default: up to 4, or 3 in the style paper, 2 for a
    column."""
    axes: tuple[int, int] | None = None
    """The two axes to draw, counted from 0, if there are more than two. Default: the
    principal axes."""
    width: int | None = None
    """Width of the picture in pixels, of which a PDF or SVG has 100 per inch. Default:
    960 per run, or 640 per run for a single panel; 180 mm in the style paper."""
    style: Literal["paper", "screen", "dark"] = "screen"
    """Style: 180 mm wide and a PNG of 300 pixels per inch for paper, larger for the
    screen, or on a dark background."""
    column: bool = False
    """Draw the picture for one column: 85 mm wide in the style paper, and as narrow in
    the others."""
    model: Path | None = None
    """Model file of a model from outside: a Python file, which is executed to draw the
    classes behind the pair sums. Default: the model file in the trajectory, if it has
    run on this computer."""
    trust_model: bool = False
    """Run the model file that is stored in the trajectory, even if it never ran on this
    computer."""
    selection: PanelSelection = dataclasses.field(default_factory=PanelSelection)
    out: Path | None = None
    """File to write. Default: TRAJECTORY-runN with a suffix for the step or event, in
    the folder of the trajectory."""

    def __post_init__(self) -> None:
        if self.columns is not None:
            check_integer("columns", self.columns, 1, 100)
        if self.width is not None:
            check_integer("width", self.width, MIN_WIDTH, MAX_WIDTH)
        if self.run_of_other is not None and self.other is None:
            allowed = "no value without a second file"
            raise SettingsError("run_of_other", self.run_of_other, allowed)
        indices = self.selection.run_indices
        if indices and (self.run, self.run_of_other) != (None, None):
            raise SettingsError("run, run_indices", "both", "one of them")
        if indices and len(indices) != self.runs:
            allowed = "the index of a run of each trajectory"
            raise SettingsError("run_indices", " ".join(map(str, indices)), allowed)
        for name in self.panels:
            if self.panels.count(name) > 1:
                raise SettingsError("panels", f"{name} twice", "each panel once")

    @property
    def runs(self) -> int:
        """Number of runs drawn."""
        return 1 if self.other is None else 2

    @property
    def run_indices(self) -> tuple[int | None, ...]:
        """Index of the run of each trajectory, None for the default one."""
        return self.selection.run_indices or (self.run, self.run_of_other)


# ------------------------------------------------------------------------------ choices


def select_panels(
    options: PanelOptions,
    trajectories: Sequence[xr.Dataset],
    default: Sequence[str] = (),
    most: int | None = None,
    also: Sequence[str] = (),
) -> tuple[tuple[str, ...], str]:
    """Names of the panels to draw, which all trajectories must have, and a note on
    panels that are not drawn.

    Without the option --panels, these are the first `most` panels (default: 16, or 6
    in one column), chosen from `default` if the trajectories have any of those, by
    default from the main panels of the first one's system and those of `also`. Raises
    SettingsError, TrajectoryError."""
    first, *others = [
        panels.build_panels(panels.RecordedRun(item, 0)) for item in trajectories
    ]
    common = tuple(
        name for name in first.panels if all(name in other.panels for other in others)
    )
    if not common:
        raise SettingsError(
            "other", options.other, "a run that has panels in common with the first"
        )
    figure_panels.check_names(options.panels, common)
    if options.panels:
        return common if options.panels == (figure_panels.ALL,) else options.panels, ""
    drawn = [name for name in default if name in common]
    if not drawn:
        drawn = list(first.main_among(common))
        drawn += [name for name in also if name in common and name not in drawn]
        drawn = _with_neighbours(drawn)
    fitting = (
        _MAX_COLUMN_PANELS // options.runs if options.column else panels.MAX_PANELS
    )
    drawn = drawn[: most or fitting]
    left = [name for name in common if name not in drawn]
    return tuple(drawn), f"; with --panels also {', '.join(left)}" if left else ""


def _with_neighbours(names: list[str]) -> list[str]:
    """Names of panels, with the assemblers after the receptors: both are weights of the
    same units."""
    if not {"receptors", "assemblers"} <= set(names):
        return names
    others = [name for name in names if name != "assemblers"]
    place = others.index("receptors") + 1
    return [*others[:place], "assemblers", *others[place:]]


def check_picture_path(path: Path, formats: Sequence[str]) -> Path:
    """The picture's path. Raises SettingsError for other formats and for an existing
    trajectory or result file."""
    if path.suffix[1:].lower() not in formats or path.is_dir():
        suffixes = [f".{name}" for name in formats]
        allowed = " or ".join(filter(None, (", ".join(suffixes[:-1]), suffixes[-1])))
        raise SettingsError("out", path, f"the name of a file that ends in {allowed}")
    if path.is_file():
        with path.open("rb") as file:
            if file.read(8).startswith(_NETCDF_SIGNATURES):
                raise SettingsError(
                    "out", path, "a file that is not a trajectory or result"
                )
    return path


class PanelArrangement(NamedTuple):
    """How the panels of a picture are arranged."""

    columns: int
    """Panels of a run beside each other."""
    leading: list[str]
    """Panels that are larger than the others."""
    width: int
    """Width of the picture in pixels."""
    map_pixels: int
    """Pixels along each side of a class map."""
    for_print: bool
    """Whether all text is as large as print needs."""


def arrange_panels(
    options: PanelOptions, names: Sequence[str], default_width: int | None = None
) -> PanelArrangement:
    """The arrangement of named panels of each run. Raises SettingsError for too small
    panels.

    No panel is larger if panels are chosen by name, or if fewer than four fit beside
    each other in a picture for print."""
    runs, for_print = options.runs, options.column or options.style == "paper"
    default_width = default_width or _default_width(options, len(names))
    width = default_width if options.width is None else options.width
    leading: list[str] = []
    if options.panels in ((), (figure_panels.ALL,)) and len(names) >= 3:
        leading = [name for name in _LEADING_PANELS if name in names]
    if options.columns is None and for_print:
        readable = _MIN_COLUMN_PANEL if options.column else _MIN_PRINTED_PANEL
        most = max(1, width // (readable * runs))
        columns = min(plots.default_columns(len(names)), most)
        leading = leading if most > 3 else []
    else:
        default_columns = plots.default_columns(len(names), len(leading))
        columns = options.columns or default_columns
    least = MIN_PANEL_WIDTH * min(columns, len(names)) * runs
    if width < least and options.width is None:
        most = width // (MIN_PANEL_WIDTH * runs)
        allowed = f"at most {most}, or a larger width"
        raise SettingsError("columns", options.columns, allowed)
    if width < least:
        raise SettingsError("width", width, f"at least {least}, or fewer columns")
    cells = 2 if leading else 1
    side = cells * width / runs / columns / _FIGURE_PIXELS_PER_MAP_PIXEL
    pixels = int(min(480, max(96, side)))
    return PanelArrangement(columns, leading, width, pixels, for_print)


def check_height(options: PanelOptions, height: int) -> None:
    """Raise SettingsError for a picture for one column that does not fit on a page.
    height: in pixels."""
    length = 25.4 * height / GRID_DPI
    if options.column and length > _MAX_HEIGHT:
        drawn = f"panels that are {length:.0f} mm high in one column"
        allowed = f"fewer panels or more --columns: at most {_MAX_HEIGHT:.0f} mm"
        raise SettingsError("panels", drawn, allowed)


def _default_width(options: PanelOptions, count: int) -> int:
    """Width of the picture in pixels if none is chosen: that of a page or column of
    print, or that of its runs."""
    if options.style == "paper":
        return round(GRID_DPI * (COLUMN if options.column else FULL) / 25.4)
    if options.column:
        return round(DEFAULT_WIDTH * COLUMN / FULL)
    return (DEFAULT_WIDTH if count > 1 else 2 * DEFAULT_WIDTH // 3) * options.runs


# ----------------------------------------------------------------------------- the runs


def open_shown_runs(options: PanelOptions) -> tuple[list[xr.Dataset], list[int]]:
    """Open the trajectories to draw and print their paths; return them and the indices
    of their runs."""
    paths = [path for path in (options.trajectory, options.other) if path is not None]
    trajectories = [dynamics.open_trajectory(path) for path in paths]
    if options.model is not None or options.trust_model:
        functions = dynamics.find_model(
            trajectories[0], options.model, options.trust_model
        )
        trajectories[0] = dynamics.with_model(trajectories[0], functions)
    runs: list[int] = []
    names = ("run", "run_of_other")
    if options.selection.run_indices:
        names = ("run_indices", "run_indices")
    for path, trajectory in zip(paths, trajectories, strict=True):
        requested = options.run_indices[len(runs)]
        if runs and requested is None:
            same_file = path.resolve() == paths[0].resolve()
            requested = (runs[0] + same_file) % trajectory.sizes["run"]
        run, remark = plots.select_run(trajectory, names[len(runs)], requested)
        runs.append(run)
        print(f"trajectory  {path}  (run {run}{remark})")
    return trajectories, runs


def default_picture_path(options: PanelOptions, runs: Sequence[int], rest: str) -> Path:
    """Default name of a picture, beside the first trajectory."""
    stem = f"{output.plain_stem(options.trajectory)}-run{runs[0]}"
    if options.other is not None:
        if options.other.resolve() != options.trajectory.resolve():
            stem += f"-{output.plain_stem(options.other)}"
        stem += f"-run{runs[1]}"
    return options.trajectory.parent / (stem + rest)
