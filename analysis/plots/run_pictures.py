"""A figure of a run at a step, and a film of a run, for scripts and notebooks."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

import xarray as xr
from matplotlib.figure import Figure

from analysis import plots
from analysis.panels.run_scene import build_scene
from analysis.plots.drawing.film_timeline import film_frames, nearest_frame
from analysis.plots.drawing.panel_grid import PanelGrid


def plot_run(
    trajectory: xr.Dataset,
    run: int = 0,
    step: int = -1,
    panels: Sequence[str] | None = None,
    columns: int | None = None,
    width: int = 960,
) -> Figure:
    """Draw panels of a run at one step.

    Parameters
    ----------
    trajectory : xarray.Dataset
        A trajectory of any system.
    run : int
        Index along the dimension `run`.
    step : int
        The nearest recorded step is drawn; -1 is the last one.
    panels : sequence of str, optional
        Names of the panels, in their order; by default all of `panel_names`.
    columns : int, optional
        Panels in a row; by default up to four.
    width : int
        Width of the figure in pixels.

    Returns
    -------
    matplotlib.figure.Figure

    Raises
    ------
    SettingsError
        If there is no such run, step or panel.
    TrajectoryError
        If the run diverged before the first frame.

    Examples
    --------
    >>> from dynamics import ParticleSettings, simulate
    >>> trajectory = simulate(ParticleSettings(n=5), runs=1, steps=2, progress=False)
    >>> [axes.get_label() for axes in plot_run(trajectory, step=0, panels=["embedding", "circularity"]).axes]
    ['0-embedding', '0-circularity']
    """
    scene = build_scene(trajectory, run, panels=panels, follow=True)
    grid, frame = (
        PanelGrid([scene], columns=columns, width=width),
        nearest_frame(scene, step),
    )
    grid.show([frame], [scene.arrays([frame])])
    for clock in grid.clocks:  # a figure does not draw its own animated artists
        clock.set_animated(False)
    return grid.figure


def film_run(
    trajectory: xr.Dataset,
    path: str | Path,
    run: int = 0,
    panels: Sequence[str] | None = None,
    columns: int | None = None,
    width: int = 960,
    fps: float = 10,
    frames: int = 110,
) -> Path:
    """Write a film of a run as an MP4 or GIF.

    Parameters
    ----------
    trajectory : xarray.Dataset
        A trajectory of any system.
    path : str or Path
        File to write, NAME.mp4 or NAME.gif.
    run, panels, columns, width
        As of `plot_run`.
    fps : float
        Frames of the film per second.
    frames : int
        About this number of recorded frames is shown, at equal intervals, and the last
        one.

    Returns
    -------
    Path
        The file.

    Raises
    ------
    SettingsError, TrajectoryError
        As of `plot_run`.
    RecordingError
        If the file cannot be written.
    MissingPackage
        If imageio-ffmpeg is not installed.

    Examples
    --------
    >>> from dynamics import ParticleSettings, simulate
    >>> trajectory = simulate(ParticleSettings(n=5), runs=1, steps=2, progress=False)
    >>> film_run(trajectory, "run.gif", panels=["embedding"], width=320).name
    'run.gif'
    """
    scene = build_scene(trajectory, run, panels=panels, follow=True)
    film = film_frames([scene], every=None, last=max(1, round(fps / 2)), most=frames)
    plots.write_film(
        PanelGrid([scene], columns=columns, width=width, even=True),
        film,
        Path(path),
        fps,
        False,
    )
    return Path(path)
