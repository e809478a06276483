"""Panels of a run's scene on a sheet that stands still, at one frame or at several
beside each other."""

import dataclasses

import numpy as np
from matplotlib.axes import Axes
from matplotlib.figure import Figure

from analysis.panels.scene import Scene
from analysis.plots.drawing.artists import make_layer_artist
from analysis.plots.drawing.panel_grid import PanelGrid

SIDE = 200
"""Of a class map, in pixels."""
SMALL_WIDTH = 800
"""Of all panels of a small picture, in pixels."""


def plot_frame(
    scene: Scene, title: str, columns: int, width: int, timed: bool = True
) -> Figure:
    """All panels of a scene at its first frame under a title, in so many columns, the
    whole so many pixels wide.

    timed: whether the figure shows the step.
    """
    sheet = PanelGrid(
        [dataclasses.replace(scene, title=title)], columns=columns, width=width
    )
    sheet.show([0], [scene.arrays([0])])
    for clock in (
        sheet.clocks
    ):  # which a figure leaves out as long as they are to be drawn apart
        clock.set(animated=False, visible=timed)
    return sheet.figure


def draw_frame_panel(axes: Axes, scene: Scene, frame: int, px: float) -> None:
    """Draw the first panel of a scene at a frame. px: size in points of a layout pixel,
    which sets that of marks."""
    panel = scene.panels[0]
    axes.set(xlim=panel.x, ylim=panel.y, autoscale_on=False)
    arrays = scene.arrays([frame], [panel.name])
    for place, layer in enumerate(panel.layers):
        artist = make_layer_artist(axes, panel, layer, place, px)
        artist.show(
            arrays[layer.array][0] if hasattr(layer, "array") else np.empty(0), frame
        )
        for item in artist.moving:
            item.set_animated(False)
