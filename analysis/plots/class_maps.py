"""A portrait of trained networks: embeddings, class maps of the plane and curves (CA figures 3 and 4, appendix E)."""

from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import torch
import xarray as xr
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.lines import Line2D
from scipy import ndimage

from analysis.plots.curves import curves_caption, plot_metric_curves
from analysis.plots.drawing.colours import class_colours, pale_colours
from analysis.plots.embedding_grid import draw_tokens
from analysis.plots.figure_files import new_figure, save_figure
from analysis.structures.circles_and_grids import structure_label
from analysis.structures.projection import principal_axes
from dynamics.networks.constant_attention import ConstantAttention
from dynamics.networks.from_trajectory import constant_attention_of, weights
from dynamics.networks.parameters import Weights
from dynamics.settings import ModularSettings
from dynamics.tasks import all_pairs, training_pairs

_MAX_RUNS = 6
_COLUMNS = 2
SIDE, HEAD, GAP, MARGIN = 3.2, 0.5, 0.1, 0.25  # inches: of a panel, of the room for its title, between panels
KEY, CURVES, TOP = 0.75, 2.9, 0.6  # inches: heights of the legend, the curves and the title
CURVE_MARGIN = 0.75  # inches, for the labels of their axes
POINTS_PER_INCH = 72


# --------------------------------------------------------------------------------------------- class maps


class PlaneView(NamedTuple):
    """The plane in which a run is drawn: the point origin + scale (u, v) basis stands at (u, v)."""

    origin: np.ndarray  # (axis,)
    basis: np.ndarray  # (2, axis)
    scale: float

    def points(self, at: np.ndarray) -> np.ndarray:
        """(..., 2) -> (..., axis)"""
        return self.origin + self.scale * at @ self.basis

    def places(self, points: np.ndarray) -> np.ndarray:
        """(..., axis) -> (..., 2), projected where there are more axes than two."""
        return (points - self.origin) @ self.basis.T / self.scale


def pair_sum_view(sums: np.ndarray) -> PlaneView:
    """Where pair sums (pair, axis) lie within -1..1: on their line, in their plane, or along principal axes.

    The principal axes of all pair sums are those of the embedding: their covariance is a multiple of its.
    """
    dim = sums.shape[1]
    origin, basis = np.zeros(dim), np.eye(2, dim)
    if dim > 2:
        origin = sums.mean(axis=0)
        basis = principal_axes(sums)
    reach = np.abs((sums - origin) @ basis.T).max()
    return PlaneView(origin, basis, float(reach) or 1.0)


_VALUES_AT_ONCE = 1 << 22


@torch.no_grad()
def predict_classes(network: ConstantAttention, weights: Weights, points: np.ndarray) -> np.ndarray:
    """The predicted class argmax W_o relu(W_h x + b_h) + b_o of points x (point, axis): (point,) int64."""
    precise = {name: weight.double() for name, weight in weights.items()}  # weights of a diverged run may be huge
    at_once = max(1, _VALUES_AT_ONCE // (network.settings.n + network.settings.hidden))
    found = [np.empty(0, np.int64)]
    for start in range(0, len(points), at_once):
        halves = torch.from_numpy(points[start : start + at_once]) / 2  # a point is the sum of its half with itself
        twice = torch.arange(len(halves))[:, None].expand(-1, 2)
        found.append(network.logits({**precise, "embedding": halves}, twice).argmax(-1).numpy())
    return np.concatenate(found)


MAP_REACH = 1.1
"""How far a class map reaches beyond the origin; the furthest pair sum is at 1."""


def class_map(network: ConstantAttention, weights: Weights, view: PlaneView, side: int) -> np.ndarray:
    """Predicted classes at the centres of side x side pixels over ±REACH, (row, column), the lowest row first."""
    ticks = MAP_REACH * (2 * np.arange(side) + 1 - side) / side
    places = np.stack(np.meshgrid(ticks, ticks), axis=-1).reshape(-1, 2)
    return predict_classes(network, weights, view.points(places)).reshape(side, side)


# ------------------------------------------------------------------------------------------------- panels


class FinalState(NamedTuple):
    """A run in its last state. Pairs are in the order of `all_pairs`."""

    network: ConstantAttention
    weights: Weights
    sums: np.ndarray  # (pair, axis) E_i + E_j
    view: PlaneView
    target: np.ndarray  # (pair,) right classes
    predicted: np.ndarray  # (pair,)
    trained: np.ndarray  # (pair,) bool, whether in the training split

    def spread(self, places: np.ndarray, rank: np.ndarray) -> np.ndarray:
        """Places (point, 2), on a line at heights by rank 0..N-1, for they would cover each other there."""
        settings = self.network.settings
        if settings.dim > 1:
            return places
        return np.stack([places[:, 0], 0.95 * (2 * rank - settings.n + 1) / settings.n], axis=-1)


def final_state(trajectory: xr.Dataset, run: int) -> FinalState:
    """The run at a place along `run`, at the last frame, which after `last_step` repeats the last finite state."""
    network = constant_attention_of(trajectory)
    settings = network.settings
    last = weights(trajectory, run, int(trajectory["step"][-1]))
    pairs = all_pairs(settings.n)
    embedding = last["embedding"].double().numpy()
    sums = embedding[pairs[:, 0]] + embedding[pairs[:, 1]]
    seeds = trajectory["seed"].values[[run]]
    return FinalState(
        network,
        last,
        sums,
        pair_sum_view(sums),
        network.target(torch.from_numpy(pairs)).numpy(),
        predict_classes(network, last, sums),
        training_pairs(settings.n, settings.train_pairs, seeds)[0],
    )


def draw_embedding(axes: Axes, run: FinalState, name: str) -> None:
    """The tokens, numbered and coloured along the number line, as in a gallery."""
    embedding = run.weights["embedding"].double().numpy()
    view = run.view._replace(origin=run.view.origin / 2)  # the mean token is half the mean pair sum
    draw_tokens(axes, run.spread(2 * view.places(embedding), np.arange(len(embedding))))
    axes.set_title(f"{name}\n{structure_label(embedding)}", fontsize=8)


WORK, FINEST, COARSEST = 1 << 32, 400, 50


def draw_class_map(axes: Axes, run: FinalState) -> None:
    """The class of every point and, upon it, all pair sums: filled in training, hollow in validation."""
    settings = run.network.settings
    affordable = int(np.sqrt(WORK / (settings.hidden * (settings.n + settings.dim))))
    classes = class_map(run.network, run.weights, run.view, int(np.clip(affordable, COARSEST, FINEST)))
    colours = class_colours(settings.n)
    axes.imshow(
        pale_colours(colours)[classes],
        origin="lower",
        extent=(-MAP_REACH, MAP_REACH, -MAP_REACH, MAP_REACH),
        interpolation="nearest",
    )
    places = run.spread(run.view.places(run.sums), run.target)
    _draw_pair_sums(axes, places, colours[run.target], run.trained, run.predicted != run.target)
    if settings.n <= 100:
        _draw_class_numbers(axes, classes, places)
    axes.set(xlim=(-MAP_REACH, MAP_REACH), ylim=(-MAP_REACH, MAP_REACH), xticks=[], yticks=[])
    axes.set_title(f"class map\n{_accuracy_text(run)}", fontsize=8)


def _accuracy_text(run: FinalState) -> str:
    """How much of each split is right, in words."""
    right = run.predicted == run.target
    splits = {"training": run.trained, "validation": ~run.trained}
    return "right: " + ", ".join(f"{right[of].sum()}/{of.sum()} {name}" for name, of in splits.items() if of.any())


def _disc_area(pairs: int) -> float:
    """Area of the mark of a pair sum, in square points, where there are so many of them in a panel."""
    return float(np.clip(6000 / pairs, 8, 40))


def _draw_pair_sums(
    axes: Axes, places: np.ndarray, colours: np.ndarray, trained: np.ndarray, wrong: np.ndarray
) -> None:
    """Pair sums at places (pair, 2), with white edges to stand out, crossed out where wrong."""
    size = _disc_area(len(places))
    thin = 0.12 * np.sqrt(size)  # points
    x, y = places.T
    filled, hollow = np.flatnonzero(trained), np.flatnonzero(~trained)
    rings = colours[hollow].tolist()
    axes.scatter(x[filled], y[filled], s=size, c=colours[filled], edgecolors="white", linewidths=thin, zorder=2)
    axes.scatter(x[hollow], y[hollow], s=1.1 * size, c="white", edgecolors="white", linewidths=3 * thin, zorder=2)
    axes.scatter(x[hollow], y[hollow], s=0.8 * size, c="white", edgecolors=rings, linewidths=2 * thin, zorder=2)
    axes.scatter(x[wrong], y[wrong], s=0.45 * size, c="black", marker="x", linewidths=thin, zorder=3)


def _draw_class_numbers(axes: Axes, classes: np.ndarray, places: np.ndarray) -> None:
    """The number of its class in every region of a map (row, column) that has room for it between the pair sums."""
    side = len(classes)
    point = side / (SIDE * POINTS_PER_INCH)  # in pixels
    free = np.ones((side + 2, side + 2), dtype=bool)
    free[1:-1, 1:-1] = ndimage.maximum_filter(classes, 3) == ndimage.minimum_filter(classes, 3)
    free[[0, -1]] = free[:, [0, -1]] = False
    column, row = np.clip((side * (places / MAP_REACH + 1) / 2).astype(int), 0, side - 1).T
    marks = np.ones((side, side), dtype=bool)
    marks[row, column] = False
    disc_radius = point * np.sqrt(_disc_area(len(places)) / np.pi)
    inside, apart = ndimage.distance_transform_edt(free)[1:-1, 1:-1], ndimage.distance_transform_edt(marks)
    room = np.minimum(inside, apart - disc_radius)
    for row, column in ndimage.maximum_position(room, *class_regions(classes)):
        if room[row, column] >= 4.5 * point:
            x, y = MAP_REACH * (2 * np.array([column, row]) + 1 - side) / side
            number = str(classes[row, column])
            axes.text(x, y, number, ha="center", va="center", fontsize=6.5, color="0.25", zorder=1)


def class_regions(classes: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Which connected region of one class a pixel is in, (row, column), and the regions there are, from 1."""
    regions, count = np.zeros(classes.shape, np.int64), 0
    for number in np.unique(classes):
        found, more = ndimage.label(classes == number)
        regions += np.where(found > 0, found + count, 0)
        count += more
    return regions, np.arange(1, count + 1)


# ---------------------------------------------------------------------------------------- legend and curves


def draw_class_key(marks: Axes, strip: Axes, settings: ModularSettings) -> None:
    """What the marks of pair sums mean, and the colours of the classes as a strip."""
    n = settings.n
    style: dict[str, Any] = {"linestyle": "none", "markersize": 6.5, "color": "0.4"}
    handles = [Line2D([], [], marker="o", markeredgecolor="white", label="training pair", **style)]
    if settings.train_pairs < settings.pairs:
        hollow = {"markerfacecolor": "white", "markeredgewidth": 1.5}
        handles.append(Line2D([], [], marker="o", label="validation pair", **{**style, **hollow}))
    handles.append(Line2D([], [], marker="x", label="predicted wrongly", **{**style, "color": "black"}))
    marks.legend(handles=handles, loc="center", ncols=1, fontsize=8, frameon=False, borderpad=0)
    marks.axis("off")
    strip.imshow(class_colours(n)[None], aspect="auto", extent=(-0.5, n - 0.5, 0, 1))
    apart = next(step for step in (1, 2, 5, 10, 20, 50) if n <= 20 * step)
    strip.set(yticks=[], xlim=(-0.5, n - 0.5), xticks=range(0, n, apart))
    strip.tick_params(labelsize=7, length=2, pad=2)
    strip.set_title("class of a pair sum (full colour) and of the map (pale)", fontsize=8, pad=3)


# ------------------------------------------------------------------------------------------------- figure


def class_map_figure(trajectory: xr.Dataset, title: str = "") -> Figure:
    """Up to six runs of the modular system in their last state, and the curves of all. Raises TrajectoryError.

    Each run is a pair of panels: its embedding, and its class map with all pair sums. Without recorded
    weights there are the curves alone.
    """
    network = constant_attention_of(trajectory)
    shown = min(_MAX_RUNS, trajectory.sizes["run"]) if all(name in trajectory for name in network.variables) else 0
    columns, rows = min(_COLUMNS, max(1, shown)), -(-shown // _COLUMNS)
    width = 2 * MARGIN + columns * (2 * SIDE + GAP) + (columns - 1) * MARGIN if shown else 10.0
    panels = rows * (SIDE + HEAD) + KEY if shown else 0.0
    under = _figure_note(trajectory, shown)
    height = (TOP if under else TOP - 0.2) + panels + CURVES
    figure = new_figure(width, height)
    figure.suptitle(title, fontsize=12, y=1 - 0.12 / height, va="top")
    figure.text(0.5, 1 - 0.38 / height, under, fontsize=9, va="top", ha="center")
    for place in range(shown):
        left = MARGIN + (place % columns) * (2 * SIDE + GAP + MARGIN)
        bottom = CURVES + KEY + (rows - 1 - place // columns) * (SIDE + HEAD)
        run, name = final_state(trajectory, place), _run_name(trajectory, place)
        draw_embedding(add_axes_in_inches(figure, left, bottom, SIDE, SIDE), run, name)
        draw_class_map(add_axes_in_inches(figure, left + SIDE + GAP, bottom, SIDE, SIDE), run)
    if shown:
        half = width / 2
        strip = add_axes_in_inches(figure, half - 0.8, CURVES + 0.3, half + 0.8 - MARGIN, 0.16)
        draw_class_key(
            add_axes_in_inches(figure, MARGIN, CURVES, half - 0.8 - MARGIN, KEY - 0.1), strip, network.settings
        )
    _draw_loss_and_accuracy(figure, trajectory)
    return figure


def _draw_loss_and_accuracy(figure: Figure, trajectory: xr.Dataset) -> None:
    """Loss and accuracy along the lower edge."""
    each = (figure.get_figwidth() - 2 * CURVE_MARGIN - MARGIN) / 2
    for place, name in enumerate(("loss", "accuracy")):
        axes = add_axes_in_inches(figure, CURVE_MARGIN + place * (each + CURVE_MARGIN), 0.5, each, CURVES - 0.9)
        plot_metric_curves(axes, trajectory, name)
        if place == 0:
            axes.legend(loc="lower left", bbox_to_anchor=(0, 1), borderpad=0.3, ncols=2, fontsize=8, frameon=False)
        else:
            axes.set_title(curves_caption(trajectory), fontsize=8, loc="left")


def add_axes_in_inches(figure: Figure, left: float, bottom: float, width: float, height: float) -> Axes:
    """New axes at a place in inches."""
    across, up = figure.get_size_inches()
    return figure.add_axes((left / across, bottom / up, width / across, height / up))


def _figure_note(trajectory: xr.Dataset, shown: int) -> str:
    """What the panels do not say themselves."""
    runs, dim = trajectory.sizes["run"], constant_attention_of(trajectory).settings.dim
    notes = [f"{shown} of {runs} runs"] if 0 < shown < runs else []
    if shown and dim == 1:
        notes.append("one axis, across; tokens stand at the height of their number, pair sums at that of their class")
    if shown and dim > 2:
        notes.append(f"two principal axes of {dim}; class maps are of their plane through the mean pair sum")
    return "; ".join(notes)


def _run_name(trajectory: xr.Dataset, run: int) -> str:
    """The seed of a run, and where it ended if it diverged."""
    seed, last = int(trajectory["seed"][run]), int(trajectory["last_step"][run])
    return f"seed {seed}" + (f", diverged after step {last}" if last < int(trajectory["step"][-1]) else "")


def save_class_map_figure(trajectory: xr.Dataset, title: str, path: Path) -> None:
    """Draw the portrait into a PNG, whole or not at all. Raises TrajectoryError, RecordingError."""
    save_figure(class_map_figure(trajectory, title), path)
