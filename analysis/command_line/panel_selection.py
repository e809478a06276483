"""Options of the commands that draw panels of one or two runs, and the default panels,
runs and sizes."""

from __future__ import annotations

import dataclasses
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Literal

import tyro

import dynamics
from analysis import output, panels, plots
from analysis.panels.style import COLUMN, FULL, GRID_DPI
from dynamics.settings import SettingsError, check_integer

if TYPE_CHECKING:
    import xarray as xr

MAX_PANELS = 16
"""Panels that are drawn by default, of a system without a choice of its own."""

_DEFAULT_PANELS = (
    (
        "embedding",
        "pair_sums",
        "force",
        "imperfections",
        "circularity",
        "gradient_norm",
    ),
    ("embedding", "pair_sums", "descent", "imperfections", "loss", "accuracy"),
    (
        "attention",
        "transform_map",
        "position_embeddings",
        "normalised_sums",
        "values",
        "normalised_sequences",
        "receptors",
        "output_map",
        "loss",
        "accuracy",
    ),
    (
        "frequency_1",
        "frequency_2",
        "attention",
        "correct_logits",
        "loss",
        "accuracy",
        "restricted_loss",
        "fourier_norms",
    ),
    (
        "frequency_1",
        "frequency_2",
        "correct_logits",
        "loss",
        "accuracy",
        "restricted_loss",
        "fourier_norms",
    ),
)
"""Panels that are drawn by default. A run uses the first tuple of which it has all
panels."""

_LEADING_PANELS = ("embedding", "pair_sums", "attention", "transform_map")
"""Panels that are larger than the others by default."""

ALL_PANELS = "all"

DEFAULT_WIDTH = 960
"""Default width in pixels for the panels of one run."""

MIN_WIDTH, MAX_WIDTH, MIN_PANEL_WIDTH = 120, 7680, 40
_MIN_READABLE_PANEL = 220
"""Smallest width in pixels of a panel in a picture for print: its letters then have at
least 6.5 points."""
_NETCDF_SIGNATURES = (b"\x89HDF", b"CDF")
_FIGURE_PIXELS_PER_MAP_PIXEL = 1.25


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
    """Names of the panels, in the order of drawing, or all. Particles: embedding,
    pair_sums, force, like_attraction, unlike_repulsion, like_alignment,
    unlike_alignment, imperfect_pair_sums (of many particles), circularity,
    imperfections. The network of CA: embedding, pair_sums, descent, law, hidden,
    circularity, imperfections, loss, accuracy, cosine. The network of VC:
    token_embeddings, position_embeddings, sums, normalised_sums, attention, values,
    sequence_embeddings, transform_map, normalised_sequences, receptors, assemblers,
    transforms, output_map, output_probabilities, loss, accuracy. Transformers:
    frequency_1, frequency_2 and so on, attention, correct_logits, loss, accuracy,
    restricted_loss, fourier_norms, embedding, circularity. All: gradient_norm,
    update_norm. Default: the main panels of the system, or the first 16; the most
    important ones are larger."""
    columns: int | None = None
    """Number of panels per row. Default: up to 4, or 3 in the style paper, 1 for a
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
    out: Path | None = None
    """File to write. Default: TRAJECTORY-runN with a suffix for the step or event, in
    the folder of the trajectory."""

    @property
    def runs(self) -> int:
        """Number of runs drawn."""
        return 1 if self.other is None else 2


# ------------------------------------------------------------------------------ choices


def select_panels(
    options: PanelOptions,
    trajectories: Sequence[xr.Dataset],
    default: Sequence[str] = (),
    most: int | None = None,
) -> tuple[tuple[str, ...], str]:
    """Names of the panels to draw, which all trajectories must have, and a note on
    panels that are not drawn.

    Without the option --panels, these are the first `most` (default: 16) panels, chosen
    from `default` if the trajectories have any of those, by default from the main
    panels of the system. Raises SettingsError, TrajectoryError."""
    names = [panels.panel_names(trajectory) for trajectory in trajectories]
    common = tuple(name for name in names[0] if all(name in others for others in names))
    for name in options.panels:
        if name not in common and options.panels != (ALL_PANELS,):
            raise SettingsError("panels", name, "one or more of " + ", ".join(common))
    if not common:
        raise SettingsError(
            "other", options.other, "a run that has panels in common with the first"
        )
    if options.panels:
        return (common if options.panels == (ALL_PANELS,) else options.panels), ""
    default = default or next(
        (
            default_panel
            for default_panel in _DEFAULT_PANELS
            if set(default_panel) <= set(common)
        ),
        (),
    )
    drawn = ([name for name in default if name in common] or common)[
        : most or MAX_PANELS
    ]
    left = [name for name in common if name not in drawn]
    return tuple(drawn), f"; with --panels also {', '.join(left)}" if left else ""


def check_picture_path(
    options: PanelOptions, default: Path, formats: Sequence[str]
) -> Path:
    """The picture's path. Raises SettingsError for other formats and for an existing
    trajectory or result file."""
    path = default if options.out is None else options.out
    if path.suffix[1:].lower() not in formats or path.is_dir():
        suffixes = [f".{one}" for one in formats]
        allowed = ", ".join(suffixes[:-1]) + f" or {suffixes[-1]}"
        raise SettingsError("out", path, f"the name of a file that ends in {allowed}")
    if path.is_file():
        with path.open("rb") as file:
            if file.read(8).startswith(_NETCDF_SIGNATURES):
                raise SettingsError(
                    "out", path, "a file that is not a trajectory or result"
                )
    return path


def check_panel_options(options: PanelOptions) -> None:
    """Raise SettingsError for options that are invalid for every trajectory."""
    if options.columns is not None:
        check_integer("columns", options.columns, 1, 100)
    if options.width is not None:
        check_integer("width", options.width, MIN_WIDTH, MAX_WIDTH)
    if options.run_of_other is not None and options.other is None:
        raise SettingsError(
            "run_of_other", options.run_of_other, "no value without a second file"
        )
    twice = next(
        (name for name in options.panels if options.panels.count(name) > 1), None
    )
    if twice is not None:
        raise SettingsError("panels", f"{twice} twice", "each panel once")


def panels_per_row(
    options: PanelOptions, names: Sequence[str]
) -> tuple[int, list[str]]:
    """Number of panels of a run beside each other, and those panels that are larger
    than the others.

    No panel is larger if panels are chosen by name, or if fewer than four fit beside
    each other in a picture for print."""
    chosen = options.panels not in ((), (ALL_PANELS,))
    leading = (
        []
        if chosen or len(names) < 3
        else [name for name in _LEADING_PANELS if name in names]
    )
    for_print = options.column or options.style == "paper"
    if options.columns or not for_print:
        return (
            options.columns or plots.default_columns(len(names), len(leading)),
            leading,
        )
    width = options.width or _default_width(options, len(names))
    most = max(1, width // (_MIN_READABLE_PANEL * options.runs))
    return min(plots.default_columns(len(names)), most), leading if most > 3 else []


def picture_width(options: PanelOptions, names: Sequence[str]) -> int:
    """Width of the picture of named panels of each run, in pixels. Raises SettingsError
    for too small panels."""
    width = (
        _default_width(options, len(names)) if options.width is None else options.width
    )
    columns = min(panels_per_row(options, names)[0], len(names))
    if width >= MIN_PANEL_WIDTH * columns * options.runs:
        return width
    if options.width is None:
        most = width // (MIN_PANEL_WIDTH * options.runs)
        raise SettingsError(
            "columns", options.columns, f"at most {most}, or a larger width"
        )
    raise SettingsError(
        "width",
        width,
        f"at least {MIN_PANEL_WIDTH * columns * options.runs}, or fewer columns",
    )


def _default_width(options: PanelOptions, count: int) -> int:
    """Width of the picture in pixels if none is chosen: that of a page or column of
    print, or that of its runs."""
    if options.style == "paper":
        return round(GRID_DPI * (COLUMN if options.column else FULL) / 25.4)
    width = (DEFAULT_WIDTH if count > 1 else 2 * DEFAULT_WIDTH // 3) * options.runs
    return round(DEFAULT_WIDTH * COLUMN / FULL) if options.column else width


def map_pixels(options: PanelOptions, names: Sequence[str]) -> int:
    """Pixels along each side of a class map in a figure with named panels of each
    run."""
    panel_width = (
        picture_width(options, names) / options.runs / panels_per_row(options, names)[0]
    )
    return int(min(480, max(96, panel_width / _FIGURE_PIXELS_PER_MAP_PIXEL)))


# ----------------------------------------------------------------------------- the runs


def open_shown_runs(options: PanelOptions) -> tuple[list[xr.Dataset], list[int]]:
    """Open the trajectories to draw and print their paths; return them and the indices
    of their runs."""
    paths = (
        [options.trajectory]
        if options.other is None
        else [options.trajectory, options.other]
    )
    trajectories = [dynamics.open_trajectory(path) for path in paths]
    runs: list[int] = []
    for path, trajectory in zip(paths, trajectories, strict=True):
        name, requested = (
            ("run_of_other", options.run_of_other) if runs else ("run", options.run)
        )
        if runs and requested is None:
            requested = (
                runs[0] + (path.resolve() == paths[0].resolve())
            ) % trajectory.sizes["run"]
        run, remark = plots.select_run(trajectory, name, requested)
        runs.append(run)
        print(f"trajectory  {path}  (run {run}{remark})")
    return trajectories, runs


def default_picture_path(options: PanelOptions, runs: Sequence[int], rest: str) -> Path:
    """Default name of a picture, beside the first trajectory."""
    stem = f"{output.plain_stem(options.trajectory)}-run{runs[0]}"
    if options.other is not None:
        same = options.other.resolve() == options.trajectory.resolve()
        stem += (
            f"-run{runs[1]}"
            if same
            else f"-{output.plain_stem(options.other)}-run{runs[1]}"
        )
    return options.trajectory.with_name(stem + rest)
