"""One figure of a run at a step: what a network or particles make of things (VC section 2.3; CA figures 1 to 5).

python -m analysis.frame RUN.nc --run 3 --step 1200
python -m analysis.frame RUN.nc --run 3 --panels attention sequence_embeddings --out attention.pdf
python -m analysis.frame RUN.nc OTHER.nc --run 3
"""

import dataclasses
from pathlib import Path

from analysis.command_line.panel_selection import (
    PanelOptions,
    check_panel_options,
    check_picture_path,
    default_picture_path,
    make_scenes,
    map_pixels,
    open_shown_runs,
    picture_width,
    select_panels,
)
from analysis.command_line.parsing import run_command
from dynamics.settings import check_integer

_FORMATS = ("png", "svg", "pdf")


@dataclasses.dataclass(frozen=True)
class Options(PanelOptions):
    """Draw panels of a run at one step into a PNG, SVG or PDF."""

    step: int = -1
    """Which step; of steps that were not recorded the nearest that was. -1 is the last."""


# --------------------------------------------------------------------------------------------- the command


def main(options: Options) -> None:
    """Find the frame, draw and write it."""
    check_integer("step", options.step, -1, 2**62)
    check_panel_options(options)
    check_picture_path(options, Path("figure.png"), _FORMATS)
    import numpy as np

    from analysis.plots.drawing.film_timeline import compares_by_run_fraction, nearest_frame, simultaneous_frames
    from analysis.plots.drawing.panel_grid import PanelGrid

    trajectories, runs = open_shown_runs(options)
    names, left = select_panels(options, trajectories)
    width = picture_width(options, len(names))
    scenes = make_scenes(options, trajectories, runs, names, map_pixels(options, names))
    frames = simultaneous_frames(scenes, nearest_frame(scenes[0], options.step))
    step = int(scenes[0].steps[frames[0]])
    if options.step not in (-1, step):
        print(f"step        {step}, the nearest to {options.step} that was recorded")
    if compares_by_run_fraction(scenes):
        print("time        the runs count it in other units: of each the same share is over")
    out = check_picture_path(options, default_picture_path(options, runs, f"-step{step}.png"), _FORMATS)
    sheet = PanelGrid(scenes, names, options.columns, width)
    sheet.show(frames, [scene.arrays(np.array([frame])) for scene, frame in zip(scenes, frames, strict=True)])
    sheet.save(out)
    print(f"panels      {', '.join(names)}{left}\npicture     {out}  ({sheet.width} x {sheet.height})")


if __name__ == "__main__":
    run_command(main, Options, "analysis.frame")
