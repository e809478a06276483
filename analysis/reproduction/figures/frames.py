"""Panels of scenes on a sheet that stands still: one run, or one run at several frames beside each other."""

from collections.abc import Sequence

import numpy as np
from matplotlib.figure import Figure

from analysis.plots.drawing.panel_grid import PanelGrid
from analysis.plots.scenes.scene import Scene


def plot_frames_in_blocks(
    scenes: Sequence[Scene], frames: Sequence[int], panels: Sequence[str], columns: int, width: int, timed: bool = True
) -> Figure:
    """Panels of each scene at its frame, blocks of so many columns side by side, the whole so many pixels wide.

    timed: whether the step is told.
    """
    sheet = PanelGrid(scenes, panels, columns=columns, width=width)
    arrays = [each.arrays(np.array([frame]), panels) for each, frame in zip(scenes, frames, strict=True)]
    sheet.show(frames, arrays)
    for clock in sheet.clocks:  # which a figure leaves out as long as they are to be drawn apart
        clock.set(animated=False, visible=timed)
    return sheet.figure
