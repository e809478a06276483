"""Films of sixteen panels of 240 pixels, four in a row: frames per second, compared
with clearing and redrawing."""

import statistics
import tempfile
import time
from pathlib import Path

import numpy as np
from matplotlib.backends.backend_agg import FigureCanvasAgg
from matplotlib.figure import Figure

from analysis.panels.common_panels import MAX_PANELS
from analysis.panels.run_scene import build_scene, panel_names
from analysis.panels.scene import (
    Arrows,
    Curves,
    Image,
    LayerArrays,
    Map,
    Panel,
    Points,
    Scene,
)
from analysis.plots.drawing.artists import MARKERS
from analysis.plots.drawing.film_encoder import draw_frames, write_film
from analysis.plots.drawing.film_timeline import FilmFrames, film_frames
from analysis.plots.drawing.panel_grid import PanelGrid
from dynamics.settings import SparseSettings
from dynamics.simulation import simulate

EPOCHS = 240


# ----------------------------------------------------------- baseline: clear and redraw


def clear_and_redraw(
    figure: Figure, shown: Scene, frame: int, arrays: LayerArrays
) -> np.ndarray:
    """Clear the figure and draw one frame with plain matplotlib: (height, width, rgba).
    arrays: of this frame only."""
    figure.clear()
    figure.suptitle(f"{shown.title}, step {shown.steps[frame]}", fontsize=10)
    for place, panel in enumerate(shown.panels):
        axes = figure.add_subplot(4, 4, place + 1)
        for layer in panel.layers:
            redraw(axes, panel, layer, frame, arrays)
        axes.set_title(panel.title, fontsize=8)
        axes.set(xlim=panel.x, ylim=panel.y, yscale="log" if panel.log else "linear")
        axes.tick_params(labelsize=6)
        axes.locator_params(axis="x", nbins=3)
        if panel.equal:
            axes.set_aspect("equal")
    figure.canvas.draw()
    return np.asarray(figure.canvas.buffer_rgba())


def redraw(axes, panel: Panel, layer, frame: int, arrays: LayerArrays) -> None:
    """Draw one layer with plain matplotlib."""
    if isinstance(layer, Curves):
        for y, colour, name in zip(layer.y, layer.colours, layer.names, strict=True):
            axes.plot(layer.x, y, color=colour, label=name)
        axes.axvline(layer.x[frame])
        axes.scatter(
            np.full(len(layer.y), layer.x[frame]), layer.y[:, frame], c=layer.colours
        )
        return
    values = arrays[layer.array][0]
    if isinstance(layer, Points):
        shapes = np.array(layer.shapes or ["circle"] * len(values))
        for shape in np.unique(shapes):
            of = shapes == shape
            axes.scatter(
                *values[of].T,
                s=20,
                c=layer.colours[of],
                marker=MARKERS[shape],
                edgecolors="white",
            )
        for (x, y), name in zip(values, layer.names, strict=True):
            if layer.labelled:
                axes.annotate(name, (x, y), fontsize=6)
    elif isinstance(layer, Arrows):
        tail, tip = values[:, :2], values[:, 2:] - values[:, :2]
        axes.quiver(
            *tail.T, *tip.T, color=layer.colours, angles="xy", scale_units="xy", scale=1
        )
    elif isinstance(layer, Map):
        axes.imshow(
            layer.palette[values],
            origin="lower",
            extent=(*panel.x, *panel.y),
            interpolation="nearest",
        )
    elif isinstance(layer, Image):
        extent = (*panel.x, *panel.y)
        axes.imshow(
            values,
            vmin=layer.low,
            vmax=layer.high,
            extent=extent,
            interpolation="nearest",
            aspect="auto",
        )


# ----------------------------------------------------------------------- the benchmarks


def frames_a_second(function, frames: int, repeats: int = 3) -> float:
    """Median frames per second of a function that draws `frames` frames."""
    function()
    result = []
    for _ in range(repeats):
        begin = time.perf_counter()
        function()
        result.append(frames / (time.perf_counter() - begin))
    return statistics.median(result)


class Film:
    """A film of a default run, whose limits follow the points. Arrays are computed
    while frames are drawn; a second process encodes."""

    timeout = 600

    def setup(self):
        trajectory = simulate(
            SparseSettings(), runs=1, seed=9, steps=EPOCHS * 64, every=64
        )
        self.scene = build_scene(
            trajectory, 0, panels=panel_names(trajectory)[:MAX_PANELS], follow=True
        )
        self.grid = PanelGrid([self.scene], width=960, even=True)
        self.film = film_frames([self.scene])

    def draw(self):
        for _ in draw_frames(self.grid, self.film):
            pass

    def encode(self):
        with tempfile.TemporaryDirectory() as folder:
            write_film(
                self.grid, self.film, Path(folder) / "film.mp4", 20, progress=False
            )

    def redraw(self, frames: range):
        figure = Figure(figsize=(9.6, 9.6), dpi=100)
        FigureCanvasAgg(figure)
        for frame in frames:
            clear_and_redraw(
                figure, self.scene, frame, self.scene.arrays(np.array([frame]))
            )

    def track_drawn(self):
        """Frames per second of drawing, including the computation of the arrays."""
        return frames_a_second(self.draw, len(self.film.frames))

    def track_encoded(self):
        """Frames per second of drawing and encoding."""
        return frames_a_second(self.encode, len(self.film.frames))

    def track_against_redrawing(self):
        """Speed relative to clearing and redrawing, both without encoding."""
        ratios, slow = [], range(0, len(self.film.frames), len(self.film.frames) // 6)
        some = FilmFrames(self.film.frames[:120], self.film.holds[:120])
        for _ in range(3):
            begin = time.perf_counter()
            self.redraw(slow)
            middle = time.perf_counter()
            for _ in draw_frames(self.grid, some):
                pass
            fast = (time.perf_counter() - middle) / len(some.frames)
            ratios.append((middle - begin) / len(slow) / fast)
        return statistics.median(ratios)

    track_drawn.unit = track_encoded.unit = "frames/s"
    track_against_redrawing.unit = "times"
