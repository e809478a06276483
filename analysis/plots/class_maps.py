"""Figure of CA's networks at the end of training: embeddings, class maps of the plane,
and curves of loss and accuracy (CA figures 3 and 4, appendix E)."""

from __future__ import annotations

import textwrap
from typing import Any, NamedTuple

import numpy as np
import torch
import xarray as xr
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.lines import Line2D
from scipy import ndimage

from analysis.panels.colours import class_colours, colour, pale_colours
from analysis.panels.modular_panels import classify_points
from analysis.panels.recorded_weights import batch_slices
from analysis.panels.style import current_style
from analysis.plots.curves import curves_caption, plot_metric_curves
from analysis.plots.embedding_grid import draw_tokens
from analysis.plots.figure_files import PAGE_HEIGHT, in_style, new_figure
from analysis.structures.circles_and_grids import structure_label
from analysis.structures.projection import principal_axes
from dynamics.networks.constant_attention import ConstantAttention
from dynamics.networks.from_trajectory import constant_attention_of, weights
from dynamics.networks.parameters import Weights
from dynamics.settings import ModularSettings
from dynamics.tasks import all_pairs, modular_training_mask
from dynamics.trajectory.schema import DIVERGED, STOPPED

_MAX_RUNS = 6
_COLUMNS = 2
SIDE = 3.2
"""Side in inches of a panel for which the sizes of markers and numbers are made; they
change with it."""
_HEAD = 5.0
_GAP = 0.8
_MARGIN = 2.0
_KEY_HEIGHT = 6.0
_CURVES_HEIGHT = 23.0
_TITLE_HEIGHT = 5.0
_NOTE_HEIGHT = 1.6
_CURVE_MARGIN = 6.5
"""Heights and widths in units of the size of text: title of a panel, between panels,
around all, and so on."""
_POINTS_PER_INCH = 72


# --------------------------------------------------------------------------- class maps


class PlaneView(NamedTuple):
    """The plane in which a run is drawn: the point origin + scale (u, v) basis is at
    (u, v)."""

    origin: np.ndarray  # (axis,)
    basis: np.ndarray  # (2, axis)
    scale: float

    def points(self, places: np.ndarray) -> np.ndarray:
        """(..., 2) -> (..., axis)"""
        return self.origin + self.scale * places @ self.basis

    def places(self, points: np.ndarray) -> np.ndarray:
        """(..., axis) -> (..., 2), projected where there are more than two axes."""
        return (points - self.origin) @ self.basis.T / self.scale


def pair_sum_view(sums: np.ndarray) -> PlaneView:
    """View of pair sums (pair, axis) within -1..1: on their line, in their plane, or
    along their principal axes.

    The principal axes equal those of the embedding, as the covariance of all pair sums
    is a multiple of its covariance."""
    dim = sums.shape[1]
    origin, basis = (
        (sums.mean(axis=0), principal_axes(sums))
        if dim > 2
        else (np.zeros(dim), np.eye(2, dim))
    )
    reach = np.abs((sums - origin) @ basis.T).max()
    return PlaneView(origin, basis, float(reach) or 1.0)


def predict_classes(
    network: ConstantAttention, weights: Weights, points: np.ndarray
) -> np.ndarray:
    """Predicted classes of points (point, axis): (point,) int64; in double precision,
    as weights may be huge."""
    precise = {name: weight.double() for name, weight in weights.items()}
    x = torch.from_numpy(points)
    batches = batch_slices(len(points), network.settings.n + network.settings.hidden)
    return np.concatenate(
        [classify_points(network, precise, x[batch]) for batch in batches]
    )


MAP_REACH = 1.1
"""Limit of the axes of a class map, on which the largest pair sum is at 1."""


def class_map(
    network: ConstantAttention, weights: Weights, view: PlaneView, side: int
) -> np.ndarray:
    """Predicted classes at the centres of side x side pixels within ±MAP_REACH, (row,
    column), the lowest row first."""
    ticks = MAP_REACH * (2 * np.arange(side) + 1 - side) / side
    places = np.stack(np.meshgrid(ticks, ticks), axis=-1).reshape(-1, 2)
    return predict_classes(network, weights, view.points(places)).reshape(side, side)


# ------------------------------------------------------------------------------- panels


class FinalState(NamedTuple):
    """A run at the end of training. Pairs are in the order of `all_pairs`."""

    network: ConstantAttention
    weights: Weights
    sums: np.ndarray  # (pair, axis) E_i + E_j
    view: PlaneView
    target: np.ndarray  # (pair,) correct classes
    predicted: np.ndarray  # (pair,)
    trained: np.ndarray  # (pair,) bool, whether in the training split

    def add_heights(self, places: np.ndarray, rank: np.ndarray) -> np.ndarray:
        """Positions (point, 2); points on a line are placed at heights by rank 0..N-1,
        so that they do not overlap."""
        settings = self.network.settings
        if settings.dim > 1:
            return places
        return np.stack(
            [places[:, 0], 0.95 * (2 * rank - settings.n + 1) / settings.n], axis=-1
        )


def final_state(trajectory: xr.Dataset, run: int) -> FinalState:
    """The state of a run (by index) at the last frame; for a diverged run, its last
    finite state."""
    network = constant_attention_of(trajectory)
    settings = network.settings
    last = weights(trajectory, run, int(trajectory["step"][-1]))
    pairs = all_pairs(settings.n)
    embedding = last["embedding"].double().numpy()
    sums = embedding[pairs[:, 0]] + embedding[pairs[:, 1]]
    target = network.target(torch.from_numpy(pairs)).numpy()
    trained = modular_training_mask(settings, trajectory["seed"].values[[run]])[0]
    predicted = predict_classes(network, last, sums)
    return FinalState(
        network, last, sums, pair_sum_view(sums), target, predicted, trained
    )


def draw_embedding(axes: Axes, run: FinalState, name: str) -> None:
    """Draw the tokens, numbered and coloured as classes."""
    embedding = run.weights["embedding"].double().numpy()
    view = run.view._replace(
        origin=run.view.origin / 2
    )  # the mean token is half the mean pair sum
    draw_tokens(
        axes, run.add_heights(2 * view.places(embedding), np.arange(len(embedding)))
    )
    axes.set_title(f"{name}\n{structure_label(embedding)}")


_MAP_WORK = 1 << 32
"""Maximum number of multiplications for a class map."""

_MIN_MAP_SIDE = 50
MAX_MAP_SIDE = 400
"""Limits of the side of a class map in pixels."""


def draw_class_map(axes: Axes, run: FinalState) -> None:
    """Draw the class map and, on top of it, all pair sums: filled for training, hollow
    for validation."""
    figure = axes.get_figure(root=True)
    assert figure is not None
    inches = float(axes.get_position().width * figure.get_figwidth())
    settings = run.network.settings
    side = int(np.sqrt(_MAP_WORK / (settings.hidden * (settings.n + settings.dim))))
    classes = class_map(
        run.network,
        run.weights,
        run.view,
        int(np.clip(side, _MIN_MAP_SIDE, MAX_MAP_SIDE)),
    )
    rgb = class_colours(settings.n)
    limits = (-MAP_REACH, MAP_REACH)
    axes.imshow(
        pale_colours(rgb)[classes],
        origin="lower",
        extent=limits * 2,
        interpolation="nearest",
    )
    places = run.add_heights(run.view.places(run.sums), run.target)
    _draw_pair_sums(
        axes,
        places,
        rgb[run.target],
        run.trained,
        run.predicted != run.target,
        _marker_area(run, inches),
    )
    if settings.n <= 100:
        _draw_class_numbers(axes, classes, places, _marker_area(run, inches), inches)
    axes.set(xlim=limits, ylim=limits, xticks=[], yticks=[])
    axes.spines[:].set_visible(True)
    right = run.predicted == run.target
    splits = {"training": run.trained, "validation": ~run.trained}
    counts = [
        f"{right[of].sum()}/{of.sum()} {name}"
        for name, of in splits.items()
        if of.any()
    ]
    axes.set_title("class map, correct:\n" + ", ".join(counts))


def _marker_area(run: FinalState, inches: float) -> float:
    """Area of a pair sum's marker in square points; smaller if there are more pairs.
    inches: side of the panel."""
    return float(np.clip(6000 / len(run.target), 8, 40)) * (inches / SIDE) ** 2


def _draw_pair_sums(
    axes: Axes,
    places: np.ndarray,
    rgb: np.ndarray,
    trained: np.ndarray,
    wrong: np.ndarray,
    size: float,
) -> None:
    """Draw pair sums at places (pair, 2) with white edges, which the areas of a class
    contrast with on each background, and crosses on the wrong ones. size: area of a
    marker."""
    thin = 0.12 * np.sqrt(size)  # points
    for of, area, faces, edges, width in (
        (trained, 1.0, rgb[trained], "white", 1),
        (~trained, 1.1, "white", "white", 3),
        (~trained, 0.8, "white", rgb[~trained].tolist(), 2),
    ):
        look: dict[str, Any] = {"c": faces, "edgecolors": edges, "zorder": 2}
        x, y = places[of].T
        axes.scatter(x, y, s=area * size, linewidths=width * thin, **look)
    cross: dict[str, Any] = {"c": "black", "marker": "x", "zorder": 3}
    x, y = places[wrong].T
    axes.scatter(x, y, s=0.45 * size, linewidths=thin, **cross)


def _draw_class_numbers(
    axes: Axes, classes: np.ndarray, places: np.ndarray, area: float, inches: float
) -> None:
    """Draw the class of each region of a map (row, column) where there is room between
    the pair sums."""
    side = len(classes)
    point = side / (inches * _POINTS_PER_INCH)  # in pixels
    free = np.ones((side + 2, side + 2), dtype=bool)
    free[1:-1, 1:-1] = ndimage.maximum_filter(classes, 3) == ndimage.minimum_filter(
        classes, 3
    )
    free[[0, -1]] = free[:, [0, -1]] = False
    column, row = np.clip(
        (side * (places / MAP_REACH + 1) / 2).astype(int), 0, side - 1
    ).T
    unmarked = np.ones((side, side), dtype=bool)
    unmarked[row, column] = False
    radius = point * np.sqrt(area / np.pi)
    inside = ndimage.distance_transform_edt(free)[1:-1, 1:-1]
    apart = ndimage.distance_transform_edt(unmarked)
    room = np.minimum(inside, apart - radius)
    for row, column in ndimage.maximum_position(room, *class_regions(classes)):
        if room[row, column] >= 0.7 * current_style().text * point:
            x, y = MAP_REACH * (2 * np.array([column, row]) + 1 - side) / side
            number = str(classes[row, column])
            axes.text(
                x, y, number, ha="center", va="center", color=colour("ink"), zorder=1
            )


def class_regions(classes: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Connected regions of one class in a map (row, column): region number of each
    pixel, and all numbers from 1."""
    regions = np.zeros(classes.shape, np.int64)
    count = 0
    for number in np.unique(classes):
        result, more = ndimage.label(classes == number)
        regions += np.where(result > 0, result + count, 0)
        count += more
    return regions, np.arange(1, count + 1)


# -------------------------------------------------------------------- legend and curves


def draw_class_key(marks: Axes, strip: Axes, settings: ModularSettings) -> None:
    """Draw the legend of pair sums into one axes, and the colours of the classes into
    the other."""
    n = settings.n
    looks: dict[str, Any] = {
        "training pair": {"markeredgecolor": "white"},
        "validation pair": {"markerfacecolor": "white", "markeredgewidth": 1.5},
        "predicted wrongly": {"marker": "x", "color": colour("ink")},
    }
    if settings.train_pairs == settings.pairs:
        del looks["validation pair"]
    usual: dict[str, Any] = {
        "linestyle": "none",
        "marker": "o",
        "color": colour("muted"),
    }
    usual["markersize"] = 0.7 * current_style().text
    handles = [
        Line2D([], [], label=label, **{**usual, **look})
        for label, look in looks.items()
    ]
    marks.legend(handles=handles, loc="center", ncols=1, borderpad=0)
    marks.axis("off")
    strip.imshow(class_colours(n)[None], aspect="auto", extent=(-0.5, n - 0.5, 0, 1))
    most = 10 if current_style().column else 20
    stride = next(step for step in (1, 2, 5, 10, 20, 50) if n <= most * step)
    strip.grid(False)
    strip.set(yticks=[], xlim=(-0.5, n - 0.5), xticks=range(0, n, stride))
    strip.tick_params(length=2, pad=2)
    strip.set_title("class of a pair sum (full colour) and of the map (pale)", pad=3)


def _draw_loss_and_accuracy(figure: Figure, trajectory: xr.Dataset) -> None:
    """Draw the curves along the lower edge."""
    inch = current_style().text / 72 * 10 / 9
    margin = _CURVE_MARGIN * inch
    width = (figure.get_figwidth() - 2 * margin - _MARGIN * inch) / 2
    size = (4 * inch, width, (_CURVES_HEIGHT - 8) * inch)
    loss = add_axes_in_inches(figure, margin, *size)
    plot_metric_curves(loss, trajectory, "loss")
    loss.legend(loc="lower left", bbox_to_anchor=(0, 1), borderpad=0.3, ncols=2)
    accuracy = add_axes_in_inches(figure, 2 * margin + width, *size)
    plot_metric_curves(accuracy, trajectory, "accuracy")
    accuracy.set_title(curves_caption(trajectory))


# ------------------------------------------------------------------------------- figure


@in_style
def class_map_figure(trajectory: xr.Dataset, title: str = "") -> Figure:
    """Draw up to six runs of the modular system at the end of training, and the curves
    of all runs.

    For each run there are two panels: its embedding, and its class map with all pair
    sums. Without recorded weights there are only the curves.

    Parameters
    ----------
    trajectory : xarray.Dataset
        A trajectory of the system ``modular``.
    title : str
        Title of the figure.

    Returns
    -------
    matplotlib.figure.Figure
        The figure, which is not shown in a window.

    Raises
    ------
    TrajectoryError
        If the trajectory is of another system.

    Examples
    --------
    >>> from dynamics import ModularSettings, simulate
    >>> trajectory = simulate(ModularSettings(n=5, hidden=8), runs=2, steps=2, record="metrics", progress=False)
    >>> [axes.get_ylabel() for axes in class_map_figure(trajectory).axes]
    ['loss (nats)', 'accuracy']
    """
    network = constant_attention_of(trajectory)
    drawn_runs = (
        min(_MAX_RUNS, trajectory.sizes["run"])
        if all(name in trajectory for name in network.variables)
        else 0
    )
    style = current_style()
    inch = style.text / 72 * 10 / 9
    head, gap, margin, key, curves, top = (
        inch * item
        for item in (_HEAD, _GAP, _MARGIN, _KEY_HEIGHT, _CURVES_HEIGHT, _TITLE_HEIGHT)
    )
    if style.column:  # the title of the colour bar has two lines
        key += 1.6 * inch
    columns = min(1 if style.column else _COLUMNS, max(1, drawn_runs))
    side = min((style.width - margin * (columns + 1)) / columns - gap, 2 * SIDE) / 2
    left = (style.width - columns * (2 * side + gap) - (columns - 1) * margin) / 2
    words = textwrap.wrap(title, int(1.5 * style.width / inch))
    top += 1.4 * inch * max(0, len(words) - 1)
    if style.column:  # as many as fit on a page
        room = PAGE_HEIGHT - top - key - curves
        drawn_runs = min(drawn_runs, int(room / (side + head)))
    note = _figure_note(trajectory, drawn_runs)
    if not note:
        top -= _NOTE_HEIGHT * inch
    rows = -(-drawn_runs // columns)
    height = top + (rows * (side + head) + key if drawn_runs else 0.0) + curves
    figure = new_figure(style.width, height)
    figure.suptitle("\n".join(words), y=1 - 0.8 * inch / height, va="top")
    below = top - (_TITLE_HEIGHT - 2.8) * inch
    lines = textwrap.fill(note, int(1.8 * style.width / inch))
    figure.text(0.5, 1 - below / height, lines, va="top", ha="center")
    for index in range(drawn_runs):
        across = left + (index % columns) * (2 * side + gap + margin)
        bottom = curves + key + (rows - 1 - index // columns) * (side + head)
        run = final_state(trajectory, index)
        name = _run_name(trajectory, index)
        draw_embedding(
            add_axes_in_inches(figure, across, bottom, side, side), run, name
        )
        draw_class_map(
            add_axes_in_inches(figure, across + side + gap, bottom, side, side), run
        )
    if drawn_runs:
        share = style.width * (0.44 if style.column else 1 / 3)
        strip = add_axes_in_inches(
            figure,
            share + margin,
            curves + 2.3 * inch,
            style.width - share - 2 * margin,
            1.2 * inch,
        )
        marks = add_axes_in_inches(figure, margin, curves, share - margin, key - inch)
        draw_class_key(marks, strip, network.settings)
    _draw_loss_and_accuracy(figure, trajectory)
    return figure


def add_axes_in_inches(
    figure: Figure, left: float, bottom: float, width: float, height: float
) -> Axes:
    """Add axes at a position in inches."""
    across, up = figure.get_size_inches()
    return figure.add_axes((left / across, bottom / up, width / across, height / up))


def _figure_note(trajectory: xr.Dataset, drawn_runs: int) -> str:
    """How many runs are shown, and how more or fewer than two axes are drawn."""
    runs = trajectory.sizes["run"]
    dim = constant_attention_of(trajectory).settings.dim
    notes = [f"{drawn_runs} of {runs} runs"] if 0 < drawn_runs < runs else []
    if drawn_runs:
        notes.append("lines join tokens i and i + 1")
    if drawn_runs and dim == 1:
        notes.append(
            "one axis, horizontal; the height of a token is its number, that of a pair"
            " sum its class"
        )
    if drawn_runs and dim > 2:
        notes.append(
            f"two principal axes of {dim}; class maps show their plane through the mean"
            " pair sum"
        )
    return "; ".join(notes)


def _run_name(trajectory: xr.Dataset, run: int) -> str:
    """The seed of a run, and the last step before it diverged or stopped."""
    seed = int(trajectory["seed"][run])
    last = int(trajectory["last_step"][run])
    status = int(trajectory["status"][run])
    if status == STOPPED:
        return f"seed {seed}, stopped at step {last}"
    return f"seed {seed}" + (
        f", diverged after step {last}" if status == DIVERGED else ""
    )
