"""Draw panels of a run at one step: activations of a network, embeddings, forces (VC
section 2.3; CA figures 1 to 5).

python -m analysis.frame RUN.nc --run 3 --step 1200
python -m analysis.frame RUN.nc --run 3 --panels attention --out attention.pdf
python -m analysis.frame RUN.nc OTHER.nc --run 3
"""

from __future__ import annotations

import dataclasses
from pathlib import Path
from typing import Literal

import tyro

from analysis import panels, plots
from analysis.command_line.panel_selection import (
    PanelOptions,
    PanelSelection,
    arrange_panels,
    check_height,
    check_picture_path,
    default_picture_path,
    open_shown_runs,
    select_panels,
)
from analysis.command_line.parsing import run_command
from analysis.panels.style import GRID_DPI, STYLES
from dynamics import trajectory as recorded
from dynamics.settings import SettingsError, check_integer

_FORMATS = ("png", "svg", "pdf")


@dataclasses.dataclass(frozen=True)
class FrameSelection(PanelSelection):
    """The run of each trajectory, and the recorded frame."""

    frames: tyro.conf.Suppress[int | None] = None
    spacing: tyro.conf.Suppress[Literal["even", "early"]] = "even"
    every: tyro.conf.Suppress[int | None] = None
    at: tuple[int, ...] = ()
    """Recorded step to draw. Default: see --step."""

    def __post_init__(self) -> None:
        super().__post_init__()
        if len(self.at) > 1:
            steps = " ".join(map(str, self.at))
            raise SettingsError("at", steps, "one recorded step")


@dataclasses.dataclass(frozen=True)
class Options(PanelOptions):
    """Draw panels of one run, or of two runs side by side, at one step, and save them
    as PNG, SVG or PDF (VC section 2.3, CA figures 1 to 5)."""

    step: int = -1
    """Step to draw, or the nearest recorded step if it was not recorded; -1 is the last
    step."""
    format: Literal["png", "svg", "pdf"] = "png"
    """Format of the picture without --out, whose ending names it otherwise."""
    selection: FrameSelection = dataclasses.field(default_factory=FrameSelection)

    def __post_init__(self) -> None:
        super().__post_init__()
        if self.selection.at and self.step != -1:
            raise SettingsError("step, at", "both", "one of them")


def main(options: Options) -> None:
    """Find the frame, draw it and save it."""
    check_integer("step", options.step, -1, 2**62)
    check_picture_path(options.out or Path("figure.png"), _FORMATS)
    trajectories, runs = open_shown_runs(options)
    if any(trajectory.attrs["record"] == "metrics" for trajectory in trajectories):
        print(
            "recorded    only metrics; panels of embeddings and weights need a run with"
            " --record all"
        )
    names, left_out = select_panels(options, trajectories)
    layout = arrange_panels(options, names)
    scenes = [
        panels.build_scene(
            item, run, options.axes, layout.map_pixels, names, follow=True
        )
        for item, run in zip(trajectories, runs, strict=True)
    ]
    frame = plots.nearest_frame(scenes[0], options.step)
    if options.selection.at:
        (frame,) = recorded.frames_at(scenes[0].steps, options.selection.at)
    frames = plots.simultaneous_frames(scenes, int(frame))
    step = int(scenes[0].steps[frames[0]])
    if options.step not in (-1, step):
        print(f"step        {step}, the nearest to {options.step} that was recorded")
    if panels.compares_by_run_fraction(scenes):
        print(
            "time        units differ; each run is shown after the same fraction of its"
            " length"
        )
    default = default_picture_path(options, runs, f"-step{step}.{options.format}")
    out = check_picture_path(options.out or default, _FORMATS)
    grid = plots.PanelGrid(
        scenes, names, layout.columns, layout.width, layout.leading, layout.for_print
    )
    check_height(options, grid.height)
    arrays = [
        scene.arrays([frame]) for scene, frame in zip(scenes, frames, strict=True)
    ]
    grid.show(frames, arrays)
    dpi = STYLES["paper"].dpi if options.style == "paper" else GRID_DPI
    grid.save(out, dpi)
    is_png = out.suffix.lower() == ".png"
    lengths = grid.figure.get_size_inches() * (dpi if is_png else 25.4)
    size = " x ".join(f"{length:.0f}" for length in lengths)
    unit = "" if is_png else " mm"
    print(
        f"panels      {', '.join(names)}{left_out}\npicture     {out}  ({size}{unit})"
    )


if __name__ == "__main__":
    run_command(main, Options, "analysis.frame")
