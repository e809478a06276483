"""Draw how much of the gradient of transformers forces explain: R² of CA's four fields
and of the fitted pair law at three moments.

python docs/force_r2.py

The numbers are in force-r2.csv: means over runs with half-widths of 95% intervals.
`analysis.audit` and `analysis.pair_law` measure them; see analyses/audit.md."""

from pathlib import Path

import pandas as pd
from matplotlib.axes import Axes
from matplotlib.figure import Figure

from analysis import plots
from analysis.panels.colours import series_colours
from analysis.plots.figure_files import draw_legend, in_style

NUMBERS = Path(__file__).parent / "force-r2.csv"
PICTURE = Path("runs/force-r2.png")
MOMENTS = ("test accuracy .5", "test accuracy .9", "end")
SPACES = ("whole space", "planes of the key frequencies")
SHIFT = {"four fields": -0.16, "pair law": 0.16}
INKS = {"four fields": 0, "pair law": 3}
"""Indices of the colours of series: others than those of successful and failed runs."""


@in_style
def draw_figure(table: pd.DataFrame) -> Figure:
    """A panel for each space and moment, a line for each kind of network."""
    names = table[["n", "dim", "attention_rate"]].drop_duplicates()
    places = {tuple(row): place for place, row in enumerate(names.to_numpy())}
    figure = plots.new_figure(plots.current_style().width, 10, layout="constrained")
    panels = figure.subplots(2, 3, sharex=True, sharey=True)
    for space, line in zip(SPACES, panels, strict=True):
        for moment, axes in zip(MOMENTS, line, strict=True):
            chosen = table[(table["space"] == space) & (table["moment"] == moment)]
            draw_panel(axes, chosen, places)
            axes.set_title(f"{space},\n{moment}")
    first = panels[0, 0]
    labels = [f"N = {n:g}, d = {dim:g}, α = {rate:g}" for n, dim, rate in places]
    for axes in panels[:, 0]:
        axes.set_yticks(list(places.values()), labels)
    first.invert_yaxis()
    first.set_xlim((table["r2"] - table["half"]).min() - 0.02, 0.75)
    for axes in panels.flat:
        axes.set_xlabel("R²")
        axes.tick_params(labelbottom=True)
    draw_legend(figure)
    return figure


def draw_panel(axes: Axes, rows: pd.DataFrame, places: dict) -> None:
    """The means with their intervals, and the means with renamed tokens."""
    for law, of_law in rows.groupby("law"):
        keys = of_law[["n", "dim", "attention_rate"]].to_numpy()
        y = [places[tuple(key)] + SHIFT[law] for key in keys]
        options = {"color": series_colours()[INKS[law]], "ms": 4, "ls": "none"}
        axes.errorbar(
            of_law["r2"],
            y,
            xerr=of_law["half"],
            fmt="o",
            label=f"{law}, 95% interval",
            lw=1,
            **options,
        )
        label = f"{law}, tokens renamed"
        axes.plot(
            of_law["renamed_r2"], y, "o", mfc="none", label=label, zorder=3, **options
        )


if __name__ == "__main__":
    PICTURE.parent.mkdir(exist_ok=True)
    plots.save_figure(draw_figure(pd.read_csv(NUMBERS)), PICTURE)
    print(f"picture     {PICTURE}")
