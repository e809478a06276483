"""The picture of the embeddings in which the runs of a command end."""

from pathlib import Path

import xarray as xr

from analysis import plots
from analysis.command_line.options import PictureOptions
from dynamics.settings import Settings
from dynamics.settings_text import describe_settings


def draw_ends(
    ends: xr.DataArray,
    settings: Settings,
    steps: int,
    options: PictureOptions,
    path: Path,
) -> None:
    """Draw the last embeddings (run, token, axis) beside the trajectory in `path`, if
    there are any, and print the file of the picture."""
    if not ends.sizes["run"]:
        return
    title = f"{describe_settings(settings)}, after {steps} steps"
    figure = plots.plot_embeddings(ends.values, ends["seed"].values, title)
    picture = options.picture_path(path)
    plots.save_figure(figure, picture)
    print(f"picture     {picture}", file=options.log)
