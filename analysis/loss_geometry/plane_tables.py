"""Tables of the loss on planes and lines."""

import pandas as pd
import xarray as xr

from analysis.output.tables import Column

LANDSCAPE_COLUMNS = [
    Column("step", "step"),
    Column("u", "frame_u", digits=3),
    Column("v", "frame_v", digits=3),
    Column("loss", "frame_loss", digits=4),
    Column("loss on the plane", "projected_loss", digits=4),
    Column("distance from the plane", "distance", digits=3),
]
LANDSCAPE_LEGEND = """
u, v: coordinates of the frame's projection on the plane, in units of the parameters (for
random directions, of the norm of the weights). The loss is that of the training data of
the run."""
BARRIER_COLUMNS = [
    Column("seeds", text=lambda row: f"{row['first']}, {row['second']}"),
    Column("barrier", "barrier", digits=4),
    Column("with matched units", "matched_barrier", digits=4),
]
BARRIER_LEGEND = """
Barrier: largest difference of the training loss on the straight line between two runs
from the straight line between the losses of its ends, on the data of the first. Matched:
the hidden units of the second run are permuted to those of the first."""


def landscape_table(result: xr.Dataset) -> pd.DataFrame:
    """A row for each frame of the result of `loss_landscape`."""
    names = ["frame_u", "frame_v", "frame_loss", "projected_loss", "distance"]
    return result[names].to_dataframe().reset_index()


def barrier_table(result: xr.Dataset) -> pd.DataFrame:
    """A row for each pair of runs of the result of `loss_barriers`."""
    return result[["barrier", "matched_barrier"]].to_dataframe().reset_index(drop=True)
