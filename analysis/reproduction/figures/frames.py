"""Panels of a run's scene on a sheet that stands still, at one frame or at several beside each other."""

import dataclasses
from collections.abc import Sequence

import numpy as np
from matplotlib.figure import Figure

from analysis.plots.drawing.panel_grid import PanelGrid
from analysis.plots.scenes.scene import Scene

SIDE = 200
"""Of a class map, in pixels."""
SMALL_WIDTH = 800
"""Of all panels of a small picture, in pixels."""


def plot_frames_in_blocks(
    scene: Scene, frames: Sequence[int], titles: Sequence[str], columns: int, width: int, timed: bool = True
) -> Figure:
    """All panels of a scene at each frame under its title, blocks of so many columns, the whole so many pixels wide.

    timed: whether the step is told.
    """
    sheet = PanelGrid([dataclasses.replace(scene, title=title) for title in titles], columns=columns, width=width)
    sheet.show(frames, [scene.arrays(np.array([frame])) for frame in frames])
    for clock in sheet.clocks:  # which a figure leaves out as long as they are to be drawn apart
        clock.set(animated=False, visible=timed)
    return sheet.figure
