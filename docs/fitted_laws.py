"""Do particles under a fitted law end as the networks that it was fitted to?

    python docs/fitted_laws.py

For each weight decay a pair law is fitted to 100 networks of CA. Particles start where 100
other networks start, under this law and under CA's, and their ends are compared with those
of the networks. Prints the table of analyses/pair_law.md and draws its figure.
"""

from pathlib import Path

import numpy as np

from analysis import forces, plots, structures
from analysis.output import format_table, make_table
from analysis.panels import colours
from analysis.plots.curves import fill_interval
from analysis.plots.figure_files import draw_legend, in_style, new_panels
from dynamics import ModularSettings, ParticleSettings, open_trajectory, simulate

WEIGHT_DECAYS = (0.0, 0.3, 0.6, 1.0)
RUNS = 100
STEPS = 100
FOLDER = Path("runs")
FUNCTIONS = {
    "like": "attraction and repulsion, like pairs",
    "unlike": "attraction and repulsion, unlike pairs",
    "like_alignment": "alignment, like pairs",
}
SIDES = ("networks", "CA's law", "fitted law")
LABELS = ("networks", "particles under CA's law", "particles under the fitted law")
ENDS = {
    "circles %": ("runs that end as circles", "runs / %"),
    "imperfections": ("imperfections of the others", "mean number"),
    "distance": ("distance from the network's end", "distance (dimensionless)"),
}
"""Columns of the table that the lower panels show, with the titles and the labels of the
vertical axes of these panels."""

SHIFT = 0.02
"""Distance along the axis of weight decays between points at the same one."""


def train_networks(weight_decay, seed):
    """The file of networks with seeds from `seed` on."""
    path = FOLDER / f"networks-{weight_decay:g}-{seed}.nc"
    settings = ModularSettings(weight_decay=weight_decay)
    simulate(settings, runs=RUNS, seed=seed, out=path).close()
    return path


def end_measures(side, weight_decay, result, prefix):
    """A row of the table: the ends of one side of a comparison."""
    circle = result[f"{prefix}_circle"].values
    others = result[f"{prefix}_imperfections"].values[circle == 0]
    row = {
        "weight decay": weight_decay,
        "runs of": side,
        "circles %": 100 * np.nanmean(circle),
        "imperfections": np.nanmean(others),
        "departure": np.nanmean(result[f"{prefix}_departure"].values),
    }
    if side != SIDES[0]:
        between = result["between"].values
        apart = ~np.eye(len(between), dtype=bool)
        row["distance"] = np.nanmean(np.diagonal(between))
        row["by chance"] = np.nanmean(between[apart])
        row["nearest %"] = 100 * np.mean(between.argmin(axis=1) == np.arange(RUNS))
    return row


def compare_laws(weight_decay):
    """The fitted law at a weight decay, and the rows of the table."""
    fitted = forces.fit_pair_law(open_trajectory(train_networks(weight_decay, 0)))
    path = train_networks(weight_decay, RUNS)
    networks = open_trajectory(path)
    laws = {"CA's law": (), "fitted law": forces.fitted_forces(fitted)}
    rows = []
    for side, law in laws.items():
        settings = ParticleSettings(law=law, start=str(path))
        particles = simulate(settings, runs=RUNS, seed=RUNS, steps=STEPS)
        result = structures.compare_trajectories(networks, particles)
        if not rows:
            rows.append(end_measures(SIDES[0], weight_decay, result, "first"))
        rows.append(end_measures(side, weight_decay, result, "second"))
    return fitted, rows


@in_style
def draw_figure(laws, rows):
    """The fitted functions above, the ends of networks and particles below."""
    figure, panels = new_panels([4 / 3] * 6, height=1.1)
    ink = colours.colour("ink")
    for axis, (name, title) in zip(panels[:3], FUNCTIONS.items(), strict=True):
        x = "angle" if "alignment" in name else "distance"
        sign = "positive aligns" if x == "angle" else "negative attracts"
        for (decay, law), colour in zip(
            laws.items(), colours.ordered_colours(len(laws)), strict=True
        ):
            one = law.sel(space="whole")
            scale = float(np.abs(one["paper_like"]).max())
            low, high = (one[f"{name}_{end}"] / scale for end in ("low", "high"))
            fill_interval(axis, one[x], low, high, colour, label="95% intervals")
            label = f"weight decay {decay:g}"
            axis.plot(one[x], one[name] / scale, color=colour, label=label)
        axis.plot(
            one[x], one[f"paper_{name}"] / scale, "--", color=ink, label="CA's law"
        )
        axis.set(
            title=title,
            xlabel="cosine" if x == "angle" else "distance",
            ylabel=f"relative strength, {sign}",
        )
        if x == "distance":
            axis.set_xscale("log")
    for axis, (name, (title, quantity)) in zip(panels[3:], ENDS.items(), strict=True):
        for number, (side, label) in enumerate(zip(SIDES, LABELS, strict=True)):
            some = [row for row in rows if row["runs of"] == side and name in row]
            decays = np.array([row["weight decay"] for row in some])
            axis.plot(
                decays + SHIFT * (number - 1),
                [row[name] for row in some],
                "osd"[number],
                color=colours.colour("particles" if number else "network"),
                markerfacecolor=colours.colour("background") if number == 1 else None,
                label=label,
            )
        axis.set(
            title=title,
            xlabel="weight decay",
            ylabel=quantity,
            xticks=WEIGHT_DECAYS,
        )
    some = [row for row in rows if "by chance" in row]
    chance = np.mean([row["by chance"] for row in some])
    panels[5].axhline(chance, color=colours.colour("muted"), ls=":", label="by chance")
    draw_legend(figure)
    return figure


def main():
    FOLDER.mkdir(exist_ok=True)
    laws = {}
    rows = []
    for weight_decay in WEIGHT_DECAYS:
        laws[weight_decay], some = compare_laws(weight_decay)
        rows += some
    print(format_table(make_table(rows)))
    path = FOLDER / "fitted-laws.png"
    plots.save_figure(draw_figure(laws, rows), path)
    print(f"picture     {path}")


if __name__ == "__main__":
    main()
