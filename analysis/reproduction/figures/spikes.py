"""Figures of loss spikes: sequence embeddings that cross a decision boundary, and the feed-forward layer's response."""

import dataclasses
from collections.abc import Iterator
from typing import NamedTuple

import numpy as np
import torch
import xarray as xr
from matplotlib.axes import Axes
from matplotlib.collections import LineCollection
from matplotlib.lines import Line2D
from tqdm import tqdm

from analysis.plots.drawing.colours import class_colours, pale_colours
from analysis.plots.figure_files import new_figure
from analysis.plots.panels import build_scene
from analysis.reproduction.figures.circuits import SIDE, SMALL_WIDTH
from analysis.reproduction.figures.figure import DrawnFigure, FigureData, RunChoice, name_run, sparse_settings
from analysis.reproduction.figures.frames import plot_frames_in_blocks
from analysis.transitions.spike_attribution import TrainingSequences, forward_pass, training_sequences
from analysis.transitions.spike_replays import RecordedSpike, examine_spike, recorded_spikes, replay_span
from dynamics.branching import replay
from dynamics.errors import TrajectoryError
from dynamics.networks.from_trajectory import clustering_head_of, weights
from dynamics.networks.parameters import Weights
from dynamics.training.finetuning import successful_runs

WIDTH = 1500
"""Of all panels of figure 13, in pixels."""
MOST = 20
"""Spikes that are looked at, the highest first, until one crosses a boundary."""


class _SpikeReplay(NamedTuple):
    """A spike, and its replay at every step."""

    spike: RecordedSpike
    what: dict
    path: xr.Dataset
    chosen: RunChoice


def highest_crossing_spike(data: FigureData) -> _SpikeReplay:
    """Of successful runs the highest spike in which sequences cross a decision boundary, which explains it; see
    `analysis.transitions.spike_replays`. Where there is none, the highest one that rises. Raises TrajectoryError."""
    trajectory = data.only
    spikes, of = highest_spikes(trajectory, data.run)
    found: tuple[RecordedSpike, dict] | None = None
    why = f"NO spike of the {len(spikes)} highest {of} is explained by a boundary that is crossed; this is the highest"
    for spike, what in _replayed_spikes(trajectory, spikes):
        if not what:
            continue
        found = found or (spike, what)
        if what["cause"] == "feed-forward" and what["explained"]:
            found, why = (spike, what), f"the highest spike {of} that sequences which cross a decision boundary explain"
            break
    if found is None:
        raise TrajectoryError(f"none of {len(spikes)} spikes shows a rise when it is replayed")
    first, _, last = replay_span(trajectory, found[0])
    return _SpikeReplay(*found, replay(trajectory, found[0].run, first, last), RunChoice(found[0].run, why))


def highest_spikes(trajectory: xr.Dataset, run: int | None) -> tuple[list[RecordedSpike], str]:
    """The highest spikes of a run, or of the successful runs, or of all if these have none; and of which, in words.

    Raises TrajectoryError.
    """
    spikes, success = recorded_spikes(trajectory), successful_runs(trajectory)
    if run is not None:
        spikes, of = [each for each in spikes if each.run == run], "of the run that was asked for"
    elif any(success[each.run] for each in spikes):
        spikes, of = [each for each in spikes if success[each.run]], f"of the {int(success.sum())} successful runs"
    else:
        of = f"of {len(success)} runs, none of them successful with a spike,"
    if not spikes:
        raise TrajectoryError(f"found no spike of the loss {of.rstrip(',')}")
    return sorted(spikes, key=lambda each: each.level - each.height)[:MOST], of


def format_delay(moments: tuple[int, int]) -> str:
    """How much later the second of two steps is."""
    count = moments[1] - moments[0]
    return "one step later" if count == 1 else f"{count} steps later"


def _replayed_spikes(trajectory: xr.Dataset, spikes: list[RecordedSpike]) -> Iterator[tuple[RecordedSpike, dict]]:
    """Each spike and what `analysis.transitions.spike_replays` finds of it."""
    settings = sparse_settings(trajectory)
    for spike in tqdm(spikes, desc="spikes", unit="spike", disable=None, leave=False):
        yield spike, examine_spike(trajectory, spike, training_sequences(settings, spike.seed))[0]


def vc13(data: FigureData) -> DrawnFigure:
    """The loss around a spike, and sequence embeddings upon the map, before and after."""
    found = highest_crossing_spike(data)
    panels = ("loss", "transform_map")
    made = build_scene(found.path, 0, side=SIDE, panels=panels, marks=())
    moments = (found.what["foot"], found.what["at"] + 1)
    frames = [int(np.flatnonzero(made.steps == step)[0]) for step in moments]
    right = found.path["accuracy"].sel(split="train").isel(run=0).values[frames]
    blocks = [
        dataclasses.replace(made, title=f"{word}: {share:.0%} of training right")
        for word, share in zip(("before", "after"), right, strict=True)
    ]
    figure = plot_frames_in_blocks(blocks, frames, panels, 2, SMALL_WIDTH if data.small else WIDTH)
    rule = (
        f"Chosen: {found.chosen.why}. Replayed step by step: before is the spike's foot; after is "
        f"{format_delay(moments)}, behind the step with the largest rise. Left of each pair the loss with a cursor, "
        "right sequence embeddings upon the map of classes."
    )
    return DrawnFigure(figure, _format_spike(data.only, found), rule)


def _format_spike(trajectory: xr.Dataset, found: _SpikeReplay) -> str:
    """Which spike it is."""
    epochs = found.spike.step / sparse_settings(trajectory).epoch_steps
    return f"{name_run(trajectory, found.spike.run)}, spike at epoch {epochs:g}"


def vc14(data: FigureData) -> DrawnFigure:
    """What a small change of sequence embeddings does: before and after, with the assemblers between."""
    trajectory = data.only
    network = clustering_head_of(trajectory)
    if network.settings.dim != 2:
        raise TrajectoryError(f"dimension axis: found {network.settings.dim}, this figure is of 2")
    found = highest_crossing_spike(data)
    on = training_sequences(network.settings, found.spike.seed)
    moments = (found.what["foot"], found.what["at"] + 1)
    before, after = ({name: each.double() for name, each in weights(found.path, 0, step).items()} for step in moments)
    figure = new_figure(14.0, 5.0)
    left, middle, right = figure.subplots(1, 3)
    figure.subplots_adjust(left=0.05, right=0.985, top=0.9, bottom=0.2, wspace=0.22)
    with torch.no_grad():
        crossed = _draw_changes(left, right, network, before, after, on)
    _draw_assemblers(middle, before["assembler"].numpy())
    _draw_legend(figure, network.settings.vocab)
    rule = (
        f"Chosen, as in figure 13: {found.chosen.why}. Left: sequence embeddings of the distinct training "
        f"sequences at the spike's foot and {format_delay(moments)}; right: what the feed-forward layer makes of them. "
        "Black lines join the two where a sequence that was right is now wrong, others are pale. Axes are not equal."
    )
    here = f"{_format_spike(trajectory, found)}, {crossed:.0%} of sequences become wrong"
    return DrawnFigure(figure, here, rule)


def _draw_changes(left: Axes, right: Axes, network, before: Weights, after: Weights, on: TrainingSequences) -> float:
    """xi and zeta before and after; the share of sequences that become wrong."""
    old, new = forward_pass(network, before, on), forward_pass(network, after, on)
    wrong = (old.logits.argmax(-1) == on.targets) & (new.logits.argmax(-1) != on.targets)
    rgb = class_colours(network.settings.vocab)[on.targets.numpy()]
    ends = {left: (old.xi, new.xi), right: (network.transform(before, old.xi), network.transform(after, new.xi))}
    for axes, word in ((left, "sequence embeddings ξ"), (right, "transforms ζ, the response of the MLP")):
        first, last = (each.numpy() for each in ends[axes])
        _draw_displacements(axes, first, last, rgb, wrong.numpy())
        axes.set_title(word, fontsize=10)
        axes.set(xlabel="first axis", ylabel="second axis")
        axes.grid(color="0.92")
        axes.set_axisbelow(True)
    return float((on.weight * wrong).sum())


def _draw_displacements(axes: Axes, first: np.ndarray, last: np.ndarray, rgb: np.ndarray, wrong: np.ndarray) -> None:
    """Points (point, 2) before and after in their colours, pale but for those that become wrong, with lines between."""
    for some, colours in ((~wrong, pale_colours(rgb)), (wrong, rgb)):
        before, after = first[some], last[some]
        axes.scatter(
            before[:, 0], before[:, 1], s=30, facecolors="none", edgecolors=colours[some].tolist(), linewidths=0.8
        )
        axes.scatter(after[:, 0], after[:, 1], s=9, c=colours[some].tolist())
    lines = np.stack([first[wrong], last[wrong]], axis=1)
    axes.add_collection(LineCollection(list(lines), colors="0.1", linewidths=0.4, alpha=0.3))


def _draw_assemblers(axes: Axes, assemblers: np.ndarray) -> None:
    """The assemblers u (hidden, axis) as arrows, and how heavy and how much along one line they are."""
    singular = np.linalg.svd(assemblers, compute_uv=False)
    share = singular[0] ** 2 / max(float((singular**2).sum()), 1e-300)
    for x in assemblers:
        axes.annotate("", x, (0, 0), arrowprops={"arrowstyle": "-|>", "color": "#555555", "linewidth": 0.9})
    reach = 1.12 * max(float(np.abs(assemblers).max()), 1e-9)
    axes.set(xlim=(-reach, reach), ylim=(-reach, reach), xlabel="first axis", ylabel="second axis", aspect="equal")
    norm = float(np.linalg.norm(assemblers))
    axes.set_title(f"assemblers u: norm {norm:.1f}, {share:.1%} of squares along one line", fontsize=10)
    axes.grid(color="0.92")
    axes.set_axisbelow(True)


def _draw_legend(figure, classes: int) -> None:
    """What the marks mean."""
    rgb = class_colours(classes)
    marks = [Line2D([], [], marker="o", linestyle="none", color=tuple(colour), label=f"class {number}")
             for number, colour in enumerate(rgb)]  # fmt: skip
    hollow = {"marker": "o", "linestyle": "none", "color": "0.4"}
    marks += [
        Line2D([], [], markerfacecolor="none", markersize=7, label="before", **hollow),  # type: ignore[arg-type]
        Line2D([], [], markersize=4, label="after", **hollow),  # type: ignore[arg-type]
        Line2D([], [], color="0.1", linewidth=0.8, label="becomes wrong"),
    ]
    figure.legend(handles=marks, loc="lower center", ncols=len(marks), frameon=False, fontsize=9)
