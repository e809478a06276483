"""Figures of CA's network: grids, circles, class maps, appendices C, E and F, and figure 6."""

from collections.abc import Sequence
from itertools import combinations, pairwise

import numpy as np
import xarray as xr
from matplotlib.figure import Figure

from analysis.forces import hidden_weights
from analysis.plots.class_maps import add_axes_in_inches, draw_class_key, draw_class_map, draw_embedding, final_state
from analysis.plots.embedding_grid import draw_tokens
from analysis.plots.figure_files import new_figure
from analysis.plots.weights_figure import plot_weights
from analysis.reproduction.figures.figure import (
    DrawnFigure,
    FigureData,
    RunChoice,
    name_run,
    run_seed,
    runs_not_diverged,
)
from analysis.reproduction.figures.run_choice import EndStates, runs_with_seeds
from analysis.structures.circles_and_grids import structure_label
from dynamics.errors import TrajectoryError
from dynamics.trajectory.schema import check_variable_recorded, read_settings

GAP, HEAD = 0.12, 0.42  # inches: between panels, room for the title of one
TOKENS_NOTE = "tokens numbered and coloured along the number line, joined in their order; equal axes through the origin"


def decay_title(trajectory: xr.Dataset) -> str:
    """The weight decay, as a title has it."""
    return f"weight decay {read_settings(trajectory).weight_decay:g}"  # type: ignore[attr-defined]


def plot_embedding_panels(trajectory: xr.Dataset, runs: Sequence[int], columns: int, side: float) -> Figure:
    """The last embeddings of runs in one row of panels."""
    figure = new_figure(columns * (side + GAP) + GAP, side + HEAD + GAP)
    for place, run in enumerate(runs):
        axes = add_axes_in_inches(figure, GAP + place * (side + GAP), GAP, side, side)
        draw_tokens(axes, last_embedding(trajectory, run))
        axes.set_title(run_title(trajectory, run), fontsize=8.5, pad=3)
    return figure


def last_embedding(trajectory: xr.Dataset, run: int) -> np.ndarray:
    """The last embedding of a run, (token, axis) float64. Raises TrajectoryError."""
    check_variable_recorded(trajectory, "embedding")
    return trajectory["embedding"].isel(run=run, step=-1).transpose("token", "axis").values.astype(np.float64)


def check_two_axes(trajectory: xr.Dataset) -> None:
    """See that embeddings have two axes, as all of CA's but those of appendix F. Raises TrajectoryError."""
    if trajectory.sizes.get("axis", 2) != 2:
        found = trajectory.sizes["axis"]
        raise TrajectoryError(f"dimension axis: found {found}, this figure is of 2 (appendix F: 3, 4)")


def run_title(trajectory: xr.Dataset, run: int) -> str:
    """A run over its panel."""
    words = structure_label(last_embedding(trajectory, run))
    return f"{name_run(trajectory, run)}: {words.split(',')[0] if words.startswith('circle') else words}"


def ca1(data: FigureData) -> DrawnFigure:
    """A grid and a circle."""
    trajectory = data.only
    check_two_axes(trajectory)
    ends = EndStates(trajectory)
    grid, circle = ends.grid_run(), ends.circle_run()
    runs = [grid.run, circle.run]
    figure = plot_embedding_panels(trajectory, runs, 2, 3.3)
    here = f"{name_run(trajectory, grid.run)} and {name_run(trajectory, circle.run)}, {decay_title(trajectory)}"
    rule = f"Left: {grid.why}. Right: {circle.why}. Embeddings at the end, {TOKENS_NOTE}."
    return DrawnFigure(figure, here, rule)


def ca2(data: FigureData) -> DrawnFigure:
    """An imperfect grid."""
    trajectory = data.only
    check_two_axes(trajectory)
    chosen = data.choose(EndStates(trajectory).imperfect_run)
    figure = plot_embedding_panels(trajectory, [chosen.run], 1, 4.2)
    rule = f"Chosen: {chosen.why}. Embedding at the end, {TOKENS_NOTE}."
    return DrawnFigure(figure, f"{name_run(trajectory, chosen.run)}, {decay_title(trajectory)}", rule)


def ca3(data: FigureData) -> DrawnFigure:
    """Embedding and class map of a grid."""
    check_two_axes(data.only)
    return _plot_with_class_map(data, data.choose(EndStates(data.only).grid_run))


def ca4(data: FigureData) -> DrawnFigure:
    """Embedding and class map of a circle."""
    check_two_axes(data.only)
    return _plot_with_class_map(data, data.choose(EndStates(data.only).circle_run))


def _plot_with_class_map(data: FigureData, chosen: RunChoice) -> DrawnFigure:
    """A run's embedding beside the class map of the plane with its pair sums."""
    trajectory = data.only
    figure = _plot_class_map_pairs(trajectory, [chosen.run], 1, 3.9)
    rule = (
        f"Chosen: {chosen.why}. Left: the embedding at the end. Right: the predicted class of every point of the "
        "plane, and the sums of the embeddings of all pairs."
    )
    return DrawnFigure(figure, f"{name_run(trajectory, chosen.run)}, {decay_title(trajectory)}", rule)


def _plot_class_map_pairs(trajectory: xr.Dataset, runs: Sequence[int], columns: int, side: float) -> Figure:
    """A pair of panels a run, embedding and class map, over a legend of both."""
    rows, key = -(-len(runs) // columns), 0.75
    pair = 2 * side + 2 * GAP
    width = columns * (pair + 2 * GAP)
    figure = new_figure(width, rows * (side + HEAD) + key + GAP)
    for place, run in enumerate(runs):
        shown = final_state(trajectory, run)
        left = GAP + place % columns * (pair + 2 * GAP)
        bottom = figure.get_figheight() - (place // columns + 1) * (side + HEAD)
        draw_embedding(add_axes_in_inches(figure, left, bottom, side, side), shown, name_run(trajectory, run))
        draw_class_map(add_axes_in_inches(figure, left + side + GAP, bottom, side, side), shown)
    half = width / 2
    strip = add_axes_in_inches(figure, half - 0.6, 0.32, half, 0.16)
    key_axes = add_axes_in_inches(figure, GAP, 0.05, half - 0.9, key - 0.1)
    draw_class_key(key_axes, strip, read_settings(trajectory))  # type: ignore[arg-type]
    return figure


def ca_c(data: FigureData) -> DrawnFigure:
    """Twenty embeddings for each of four weight decays."""
    words = [decay_title(each) for each in data.datasets]
    figure, told = runs_by_trajectory(data, words)
    here = "weight decay " + ", ".join(word.split(" ")[-1] for word in words)
    return DrawnFigure(figure, here, f"{told} Embeddings at the end, {TOKENS_NOTE}; {KINDS_NOTE}")


def runs_by_trajectory(data: FigureData, words: Sequence[str]) -> tuple[Figure, str]:
    """A block of runs for each trajectory, under its word, and which runs these are."""
    rows, titles, told = [], [], []
    for trajectory in data.datasets:
        check_two_axes(trajectory)
        runs, said = runs_with_seeds(trajectory)
        told.append(said)
        some = data.some(runs, SMALL_COLUMNS)
        rows.append([last_embedding(trajectory, run) for run in some])
        titles.append([_short_run_title(trajectory, run) for run in some])
    figure = _plot_panel_blocks(rows, titles, words, SMALL_COLUMNS if data.small else COLUMNS)
    if len(set(told)) == 1:
        return figure, f"Each block: {told[0]}."
    return figure, "; ".join(f"{word}: {said}" for word, said in zip(words, told, strict=True)) + "."


def _short_run_title(trajectory: xr.Dataset, run: int) -> str:
    """A run over a small panel: its seed and what it is."""
    words = structure_label(last_embedding(trajectory, run))
    kind = "○" if words.startswith("circle") else words.split(", ")[1].split(" ")[0]
    return f"{run_seed(trajectory, run)}: {kind}"


KINDS_NOTE = "○ is a circle by algorithm 1, a number counts the imperfections of others."
COLUMNS, SMALL_COLUMNS = 10, 6
SIDE, MARK, LETTERS = 1.28, 44, 5.2  # of a small panel, in inches; area of its tokens, size of their numbers, in points


def _plot_panel_blocks(
    rows: Sequence[Sequence[np.ndarray]], titles: Sequence[Sequence[str]], words: Sequence[str], most: int = COLUMNS
) -> Figure:
    """Blocks of small panels, so many in a line, each block under its word."""
    side, head, title = SIDE, 0.2, 0.32
    lines = [-(-len(row) // most) for row in rows]
    columns = min(most, max(map(len, rows)))
    figure = new_figure(max(3.0, columns * (side + 0.06) + 0.12), sum(lines) * (side + head) + len(rows) * title + 0.1)
    top = figure.get_figheight()
    for row, names, word, count in zip(rows, titles, words, lines, strict=True):
        figure.text(0.1 / figure.get_figwidth(), (top - 0.2) / figure.get_figheight(), word, fontsize=10, va="center")
        top -= title
        for place, (x, name) in enumerate(zip(row, names, strict=True)):
            left = 0.09 + place % most * (side + 0.06)
            axes = add_axes_in_inches(figure, left, top - (place // most + 1) * (side + head), side, side)
            draw_tokens(axes, x, MARK, LETTERS)
            axes.set_title(name, fontsize=7.5, pad=2)
        top -= count * (side + head)
    return figure


SHOWN = range(10, 24)


def ca_e(data: FigureData) -> DrawnFigure:
    """Fourteen embeddings beside their class maps."""
    trajectory = data.only
    check_two_axes(trajectory)
    found, told = runs_with_seeds(trajectory, SHOWN)
    runs = data.some(found, 4)
    columns, side = (2, 2.35) if data.small else (3, 2.7)
    figure = _plot_class_map_pairs(trajectory, runs, min(columns, len(runs)), side)
    rule = (
        f"{told[0].upper()}{told[1:]}. Left of each pair the embedding at the end, right the predicted class of every "
        "point of the plane with the pair sums."
    )
    return DrawnFigure(figure, f"{len(runs)} runs, {decay_title(trajectory)}", rule)


def ca_f(data: FigureData) -> DrawnFigure:
    """Embeddings in three and four dimensions, each in three projections."""
    rows: list[list[np.ndarray]] = []
    titles: list[list[str]] = []
    words: list[str] = []
    for trajectory, count in zip(data.datasets, (7, 8), strict=True):
        runs = data.some(runs_not_diverged(trajectory)[:count].tolist(), 4)
        dim = trajectory.sizes["axis"]
        planes = list(combinations(range(3), 2)) if dim == 3 else list(pairwise(range(dim)))[:3]
        for first, second in planes:
            rows.append([last_embedding(trajectory, run)[:, [first, second]] for run in runs])
            titles.append([f"seed {run_seed(trajectory, run)}" for run in runs])
            words.append(f"D = {dim}: axes {first + 1} and {second + 1}")
    figure = _plot_panel_blocks(rows, titles, words)
    rule = (
        "The first runs, a column each, in three projections on two axes; the paper does not say which of the six "
        f"there are for D = 4. {TOKENS_NOTE.capitalize()}."
    )
    return DrawnFigure(figure, f"D = 3 and D = 4, {decay_title(data.only)}", rule)


def ca6(data: FigureData) -> DrawnFigure:
    """Size of the hidden weights and biases against weight decay."""
    decays = [read_settings(each).weight_decay for each in data.datasets]  # type: ignore[attr-defined]
    found = dict(sorted(zip(decays, map(hidden_weights.measure_weights, data.datasets), strict=True)))
    groups = {each: hidden_weights.mean_weight_measures(runs) for each, runs in found.items()}
    runs = data.only.sizes["run"]
    title = f"{runs} networks a weight decay, means with 95% intervals"
    figure = plot_weights(groups, hidden_weights.groups_by_structure(list(found.values())), title)
    for axes in figure.axes[1:]:
        axes.set_ylabel("rank, or share of variance", fontsize=9)
    rule = (
        "All runs. Left: the paper's figure. Middle and right: what the paper says of it in words (5.2), measured: how "
        "hidden weights and pair sums lie to each other, with chance levels."
    )
    return DrawnFigure(figure, f"{len(found)} weight decays", rule)
