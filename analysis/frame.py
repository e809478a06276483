"""One figure of a run at a step: what a network or particles make of things (VC section 2.3; CA figures 1 to 5).

python -m analysis.frame RUN.nc --run 3 --step 1200
python -m analysis.frame RUN.nc --run 3 --panels attention sequence_embeddings --out attention.pdf
python -m analysis.frame RUN.nc OTHER.nc --run 3
"""

import dataclasses
from pathlib import Path

from analysis.command_line.panel_selection import (
    Showing,
    checked_options,
    checked_out,
    chosen_panels,
    named,
    opened,
    scenes_of,
    side_of,
    width_of,
)
from analysis.command_line.parsing import command
from dynamics.settings import check_whole

FORMATS = ("png", "svg", "pdf")


@dataclasses.dataclass(frozen=True)
class Options(Showing):
    """Draw panels of a run at one step into a PNG, SVG or PDF."""

    step: int = -1
    """Which step; of steps that were not recorded the nearest that was. -1 is the last."""


# --------------------------------------------------------------------------------------------- the command


def main(options: Options) -> None:
    """Find the frame, draw and write it."""
    check_whole("step", options.step, -1, 2**62)
    checked_options(options)
    checked_out(options, Path("figure.png"), FORMATS)
    import numpy as np

    from analysis.plots.drawing.film_timeline import beside, by_shares, nearest
    from analysis.plots.drawing.panel_grid import Sheet

    trajectories, runs = opened(options)
    names, left = chosen_panels(options, trajectories)
    width = width_of(options, len(names))
    scenes = scenes_of(options, trajectories, runs, names, side_of(options, names))
    frames = beside(scenes, nearest(scenes[0], options.step))
    step = int(scenes[0].steps[frames[0]])
    if options.step not in (-1, step):
        print(f"step        {step}, the nearest to {options.step} that was recorded")
    if by_shares(scenes):
        print("time        the runs count it in other units: of each the same share is over")
    out = checked_out(options, named(options, runs, f"-step{step}.png"), FORMATS)
    sheet = Sheet(scenes, names, options.columns, width)
    sheet.show(frames, [scene.arrays(np.array([frame])) for scene, frame in zip(scenes, frames, strict=True)])
    sheet.save(out)
    print(f"panels      {', '.join(names)}{left}\npicture     {out}  ({sheet.width} x {sheet.height})")


if __name__ == "__main__":
    command(main, Options, "analysis.frame")
