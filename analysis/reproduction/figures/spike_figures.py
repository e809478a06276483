"""Figures of loss spikes: sequence embeddings that cross a decision boundary, and the
feed-forward layer's response."""

from collections.abc import Sequence
from typing import Any, NamedTuple

import numpy as np
import torch
import xarray as xr
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.lines import Line2D

from analysis.output.counts import count_of
from analysis.panels.colours import class_colours, colour, pale_colours
from analysis.panels.sparse_arrays import class_level_numbers, probability_palette
from analysis.plots.figure_files import new_figure
from analysis.reproduction.figures.figure import (
    SPARSE,
    DrawnFigure,
    FigureData,
    PaperFigure,
    name_run,
    sparse_settings,
)
from analysis.transitions.spike_attribution import (
    ForwardPass,
    TrainingSequences,
    forward_pass,
    training_sequences,
)
from analysis.transitions.spike_replays import (
    RecordedSpike,
    examine_spike,
    recorded_spikes,
    replay_span,
)
from dynamics.branching import replay
from dynamics.errors import TrajectoryError
from dynamics.networks.clustering_head import ClusteringHead
from dynamics.networks.from_trajectory import clustering_head_of, weights
from dynamics.networks.parameters import Weights
from dynamics.progress import progress_bar
from dynamics.trajectory.success import successful_runs

WIDTH = 7.8
"""Width of the figures in inches."""

MAP_SIDE = 400
"""Side of a class map in pixels."""

MOST = 20
"""Spikes that are looked at, the highest first, until one crosses a boundary."""


class _SpikeReplay(NamedTuple):
    """A spike, and its replay at every step."""

    spike: RecordedSpike
    moments: tuple[int, int]
    """Steps before and after the spike: its foot, and the step behind the largest
    rise"""
    path: xr.Dataset
    here: str
    """Which spike it is"""
    why: str
    """The rule by which it was chosen"""


def highest_crossing_spike(data: FigureData) -> _SpikeReplay:
    """Of successful runs the highest spike in which sequences cross a decision
    boundary, which explains it; see `analysis.transitions.spike_replays`. Where there
    is none, the highest one that rises. Raises TrajectoryError."""
    trajectory = data.only
    settings = sparse_settings(trajectory)
    spikes, of = highest_spikes(trajectory, data.run)
    result: tuple[RecordedSpike, dict] | None = None
    why = (
        f"NO spike of the {len(spikes)} highest {of} is explained by a boundary that is"
        " crossed; this is the highest"
    )
    for spike in progress_bar(spikes, desc="spikes", unit="spike"):
        what = examine_spike(
            trajectory, spike, training_sequences(settings, spike.seed)
        ).values
        if what and what["cause"] == "feed-forward" and what["explained"]:
            result = (spike, what)
            why = (
                f"the highest spike {of} that sequences which cross a decision"
                " boundary explain"
            )
            break
        if what and not result:
            result = spike, what
    if result is None:
        raise TrajectoryError(
            f"none of {len(spikes)} spikes shows a rise when it is replayed"
        )
    spike, what = result
    first, _, last = replay_span(trajectory, spike)
    path = replay(trajectory, spike.run, first, last)
    here = (
        f"{name_run(trajectory, spike.run)}, spike at epoch"
        f" {spike.step / settings.epoch_steps:g}"
    )
    return _SpikeReplay(spike, (what["foot"], what["at"] + 1), path, here, why)


def highest_spikes(
    trajectory: xr.Dataset, run: int | None
) -> tuple[list[RecordedSpike], str]:
    """The highest spikes of a run, or of the successful runs, or of all if these have
    none; and of which, in words.

    Raises TrajectoryError.
    """
    spikes = recorded_spikes(trajectory)
    success = successful_runs(trajectory)
    if run is not None:
        spikes = [spike for spike in spikes if spike.run == run]
        of = "of the run that was asked for"
    elif any(success[spike.run] for spike in spikes):
        spikes = [spike for spike in spikes if success[spike.run]]
        of = f"of {count_of(int(success.sum()), 'successful run')}"
    else:
        of = (
            f"of {count_of(len(success), 'run')}, none of them successful with a spike,"
        )
    if not spikes:
        raise TrajectoryError(f"found no spike of the loss {of.rstrip(',')}")
    return sorted(spikes, key=lambda spike: spike.level - spike.height)[:MOST], of


def format_delay(moments: tuple[int, int]) -> str:
    """How much later the second of two steps is."""
    count = moments[1] - moments[0]
    return "one step later" if count == 1 else f"{count} steps later"


class _SpikeStates(NamedTuple):
    """The network before and after the step of a spike, on the distinct training
    sequences of its run."""

    network: ClusteringHead
    on: TrainingSequences
    weights: Sequence[Weights]
    passes: list[ForwardPass]
    correct: list[np.ndarray]
    """Of each sequence, whether it is classified correctly: (sequence,)"""

    @property
    def lost(self) -> np.ndarray:
        """Of each sequence, whether it is correct before and wrong after:
        (sequence,)."""
        return self.correct[0] & ~self.correct[1]


@torch.no_grad()
def _states_of_spike(trajectory: xr.Dataset, result: _SpikeReplay) -> _SpikeStates:
    network = clustering_head_of(trajectory)
    on = training_sequences(network.settings, result.spike.seed)
    states = [
        {name: weight.double() for name, weight in weights(result.path, 0, at).items()}
        for at in result.moments
    ]
    passes = [forward_pass(network, state, on) for state in states]
    return _SpikeStates(
        network,
        on,
        states,
        passes,
        [(item.logits.argmax(-1) == on.targets).numpy() for item in passes],
    )


MOMENTS = ("before", "after")


def vc13(data: FigureData) -> DrawnFigure:
    """The loss around a spike, and sequence embeddings on the map of classes, before
    and after."""
    trajectory = data.only
    result = highest_crossing_spike(data)
    states = _states_of_spike(trajectory, result)
    epochs = [step / sparse_settings(trajectory).epoch_steps for step in result.moments]
    figure = new_figure(WIDTH, 6.6, layout="constrained")
    (whole, close), maps = figure.subplots(2, 2, height_ratios=(0.75, 1))
    for axes, path, run in (
        (whole, trajectory, result.spike.run),
        (close, result.path, 0),
    ):
        losses = path["loss"].sel(split="train").isel(run=run)
        axes.plot(path["epoch"], losses, color=colour("train"), linewidth=1)
        axes.set(yscale="log", xlabel="epoch", ylabel="loss (nats)")
    whole.axvline(epochs[1], color=colour("spike"), linewidth=1, linestyle="--")
    whole.set_title("training loss, the whole run; dashed: the spike")
    close.set_title("training loss at the spike, step by step", pad=16)
    for epoch, word, side, shift in zip(
        epochs, MOMENTS, ("right", "left"), (-3, 3), strict=True
    ):
        close.axvline(epoch, color=colour("spike"), linewidth=1, linestyle="--")
        how: dict[str, Any] = {
            "xytext": (shift, 2),
            "textcoords": "offset points",
            "ha": side,
        }
        close.annotate(word, (epoch, 1), xycoords=("data", "axes fraction"), **how)
    xi = [item.xi.numpy() for item in states.passes]
    limits = _limits_of(np.concatenate([item[states.lost] for item in xi]))
    shares = (
        result.path["accuracy"]
        .sel(split="train", step=list(result.moments))
        .isel(run=0)
        .values
    )
    for axes, places, weight, word, share in zip(
        maps, xi, states.weights, MOMENTS, shares, strict=True
    ):
        _draw_class_map(axes, states.network, weight, limits)
        _draw_sequences(axes, places, states)
        axes.set_title(f"{word}: {share:.0%} of training correct")
    classes = class_colours(states.network.settings.rows)
    marks = [
        Line2D([], [], **DOT | {"color": item}, label=f"class {label}")
        for label, item in enumerate(classes)
    ]
    marks.append(
        Line2D(
            [],
            [],
            **DOT | {"color": "0.5", "markeredgecolor": "black"},
            label="becomes wrong",
        )
    )
    figure.legend(
        handles=marks,
        loc="outside lower center",
        ncols=len(marks),
    )
    rule = (
        f"Chosen: {result.why}. Replayed step by step: before is the spike's foot;"
        " after is "
        f"{format_delay(result.moments)}, behind the step with the largest rise. Below:"
        " distinct training sequences "
        "in the colour of their class, on the map of predicted classes, enlarged to the"
        " sequences that become "
        "wrong; both have the same limits. Axes are not equal."
    )
    return DrawnFigure(figure, result.here, rule, [result.spike.seed])


Limits = tuple[float, float, float, float]


def _limits_of(places: np.ndarray, margin: float = 0.12) -> Limits:
    """Limits (left, right, low, high) around places (point, 2)."""
    low, high = places.min(axis=0), places.max(axis=0)
    room = margin * np.maximum(high - low, 1e-6)
    (left, bottom), (right, top) = low - room, high + room
    return float(left), float(right), float(bottom), float(top)


@torch.no_grad()
def _draw_class_map(
    axes: Axes, network: ClusteringHead, weight: Weights, limits: Limits
) -> None:
    """The class that the feed-forward layer and the output give to each place, paler
    where it is less probable."""
    left, right, low, high = limits
    x, y = np.meshgrid(
        np.linspace(left, right, MAP_SIDE), np.linspace(low, high, MAP_SIDE)
    )
    places = torch.from_numpy(np.stack([x, y], axis=-1).reshape(-1, 2))
    numbers = class_level_numbers(
        network.transform(weight, places) @ weight["embedding"].mT
    )
    rgb = probability_palette(network.settings.rows)[
        numbers.reshape(MAP_SIDE, MAP_SIDE)
    ]
    axes.imshow(
        rgb, extent=limits, origin="lower", aspect="auto", interpolation="nearest"
    )
    axes.set(
        xlabel="ξ, first axis",
        ylabel="ξ, second axis",
        autoscale_on=False,
    )
    axes.grid(visible=False)
    axes.locator_params(nbins=5)


def _draw_sequences(axes: Axes, places: np.ndarray, states: _SpikeStates) -> None:
    """Sequences at places (sequence, 2) in the colours of their classes, with a black
    edge if they become wrong."""
    rgb = class_colours(states.network.settings.rows)[states.on.targets]
    for some, edge, size in ((~states.lost, "white", 10), (states.lost, "black", 14)):
        x, y = places[some].T
        axes.scatter(x, y, s=size, c=rgb[some], edgecolors=edge, linewidths=0.4)


def vc14(data: FigureData) -> DrawnFigure:
    """What a small change of sequence embeddings does: before and after, with the
    assemblers between."""
    spike = highest_crossing_spike(data)
    states = _states_of_spike(data.only, spike)
    network = states.network
    on = states.on
    with torch.no_grad():
        pairs = zip(states.weights, states.passes, strict=True)
        responses = [
            network.transform(weight, pair.xi).numpy() for weight, pair in pairs
        ]
    prefixes = np.sort(on.tokens[:, list(network.settings.counting)].numpy(), axis=1)
    multisets, group = np.unique(prefixes, axis=0, return_inverse=True)
    group = group.ravel()  # NumPy 2.0 gives a column
    names = ["".join(map(str, multiset)) for multiset in multisets.tolist()]
    rgb = class_colours(network.settings.rows)[
        multisets.sum(axis=1) % network.settings.vocab
    ]
    figure = new_figure(WIDTH, 3.9, layout="constrained")
    left, middle, right = figure.subplots(1, 3, width_ratios=(1, 0.9, 1.1))
    _draw_displacements(
        left, [item.xi.numpy() for item in states.passes], group, names, rgb
    )
    direction = _draw_assemblers(middle, states.weights[0]["assembler"].numpy())
    _draw_responses(
        right,
        [response @ direction for response in responses],
        group,
        names,
        rgb,
        states.correct[1],
    )
    _draw_legend(figure)
    moved = [
        np.linalg.norm(after - before, axis=1).mean()
        for before, after in (
            tuple(item.xi.numpy() for item in states.passes),
            tuple(responses),
        )
    ]
    rule = (
        f"Chosen, as in figure 13: {spike.why}. Before is the spike's foot, after is"
        f" {format_delay(spike.moments)}. "
        "Left: means of the sequence embeddings of distinct training sequences with the"
        " same tokens, in any order, "
        "at the positions that count; an arrow leads from before to after. Right: the"
        " response of the feed-forward "
        "layer to these sequences, along the line on which the assemblers lie; colours"
        " are those of the correct "
        f"class. In the mean over sequences ξ moves by {moved[0]:.2g}, ζ by"
        f" {moved[1]:.2g}. Axes are not equal."
    )
    lost = float((on.weight * torch.from_numpy(states.lost)).sum())
    return DrawnFigure(
        figure,
        f"{spike.here}, {lost:.0%} of sequences become wrong",
        rule,
        [spike.spike.seed],
    )


def _draw_displacements(
    axes: Axes,
    ends: Sequence[np.ndarray],
    group: np.ndarray,
    names: Sequence[str],
    rgb: np.ndarray,
) -> None:
    """Sequence embeddings (sequence, 2) before and after, pale, and an arrow between
    the means of each group."""
    x, y = ends[0].T
    axes.scatter(x, y, s=5, c=pale_colours(rgb)[group], linewidths=0)
    for place, (name, shade) in enumerate(zip(names, rgb, strict=True)):
        before, after = (end[group == place].mean(axis=0) for end in ends)
        arrow = {
            "arrowstyle": "-|>",
            "color": shade,
            "linewidth": 1.8,
            "shrinkA": 0,
            "shrinkB": 0,
        }
        axes.annotate("", after, before, arrowprops=arrow)
        axes.annotate(name, after, (6, 0), textcoords="offset points", va="center")
    axes.set(xlabel="first axis", ylabel="second axis")
    axes.set_title("sequence embeddings ξ")


def _draw_assemblers(axes: Axes, assemblers: np.ndarray) -> np.ndarray:
    """The assemblers u (hidden, axis) as arrows, with their norm; returns the direction
    (axis,) of the line nearest to them."""
    _, singular, directions = np.linalg.svd(assemblers, full_matrices=False)
    fraction = singular[0] ** 2 / max(float((singular**2).sum()), 1e-300)
    for x in assemblers:
        axes.annotate(
            "",
            x,
            (0, 0),
            arrowprops={"arrowstyle": "-|>", "color": "#555555", "linewidth": 0.9},
        )
    reach = 1.12 * max(float(np.abs(assemblers).max()), 1e-9)
    axes.set(
        xlim=(-reach, reach),
        ylim=(-reach, reach),
        aspect="equal",
        xlabel="first axis",
        ylabel="second axis",
    )
    norm = float(np.linalg.norm(assemblers))
    axes.set_title(
        f"assemblers u: norm {norm:.1f},\n{fraction:.1%} of squares on a line"
    )
    return directions[0]


def _draw_responses(
    axes: Axes,
    ends: Sequence[np.ndarray],
    group: np.ndarray,
    names: Sequence[str],
    rgb: np.ndarray,
    correct: np.ndarray,
) -> None:
    """Responses (sequence,) along a line, a row for each group: before as rings, after
    as dots, or crosses if wrong."""
    colours = rgb[group]
    axes.scatter(
        ends[0],
        group + 0.18,
        s=14,
        facecolors="none",
        edgecolors=colours,
        linewidths=0.6,
    )
    for some, mark in ((correct, "o"), (~correct, "x")):
        axes.scatter(
            ends[1][some],
            group[some] - 0.18,
            s=10,
            c=colours[some],
            marker=mark,
            linewidths=0.7,
        )
    axes.set_yticks(range(len(names)), names)
    axes.set(
        xlabel="ζ along the assemblers' line",
        ylabel="non-spurious tokens",
        ylim=(-0.6, len(names) - 0.4),
    )
    axes.set_title("transforms ζ")


DOT: dict[str, Any] = {
    "marker": "o",
    "linestyle": "none",
    "color": "0.4",
    "markersize": 5,
}


def _draw_legend(figure: Figure) -> None:
    """What the marks mean."""
    styles = {
        "before": {"markerfacecolor": "none"},
        "after, correct": {},
        "after, wrong": {"marker": "x"},
    }
    marks = [
        Line2D([], [], **DOT | style, label=label) for label, style in styles.items()
    ]
    marks.insert(
        0,
        Line2D(
            [],
            [],
            color="0.4",
            linewidth=1.8,
            label="arrows: from before to after, mean of a group",
        ),
    )
    figure.legend(
        handles=marks,
        loc="outside lower center",
        ncols=len(marks),
    )


FIGURES = (
    PaperFigure(
        "vc13",
        "a loss spike, sequence embeddings before and after",
        SPARSE,
        "2 minutes",
        vc13,
        one_run=True,
    ),
    PaperFigure(
        "vc14",
        "a loss spike: change of sequence embeddings, MLP output weights, change of the"
        " MLP's response",
        SPARSE,
        "2 minutes",
        vc14,
        one_run=True,
    ),
)
