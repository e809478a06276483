"""Figures of loss spikes: sequence embeddings that cross a decision boundary, and the feed-forward layer's response."""

from collections.abc import Sequence
from typing import Any, NamedTuple

import numpy as np
import torch
import xarray as xr
from matplotlib.axes import Axes
from matplotlib.collections import LineCollection
from matplotlib.figure import Figure
from matplotlib.lines import Line2D
from tqdm import tqdm

from analysis.plots.drawing.colours import class_colours, pale_colours
from analysis.plots.figure_files import new_figure
from analysis.plots.panels import build_scene
from analysis.reproduction.figures import frames
from analysis.reproduction.figures.figure import DrawnFigure, FigureData, name_run, sparse_settings
from analysis.transitions.spike_attribution import forward_pass, training_sequences
from analysis.transitions.spike_replays import RecordedSpike, examine_spike, recorded_spikes, replay_span
from dynamics.branching import replay
from dynamics.errors import TrajectoryError
from dynamics.networks.from_trajectory import clustering_head_of, weights
from dynamics.training.finetuning import successful_runs

WIDTH = 1500
"""Of all panels of figure 13, in pixels."""
MOST = 20
"""Spikes that are looked at, the highest first, until one crosses a boundary."""


class _SpikeReplay(NamedTuple):
    """A spike, and its replay at every step."""

    spike: RecordedSpike
    moments: tuple[int, int]
    """Steps before and after the spike: its foot, and the step behind the largest rise"""
    path: xr.Dataset
    here: str
    """Which spike it is"""
    why: str
    """The rule by which it was chosen"""


def highest_crossing_spike(data: FigureData) -> _SpikeReplay:
    """Of successful runs the highest spike in which sequences cross a decision boundary, which explains it; see
    `analysis.transitions.spike_replays`. Where there is none, the highest one that rises. Raises TrajectoryError."""
    trajectory = data.only
    settings, (spikes, of) = sparse_settings(trajectory), highest_spikes(trajectory, data.run)
    found: tuple[RecordedSpike, dict] | None = None
    why = f"NO spike of the {len(spikes)} highest {of} is explained by a boundary that is crossed; this is the highest"
    for spike in tqdm(spikes, desc="spikes", unit="spike", disable=None, leave=False):
        what = examine_spike(trajectory, spike, training_sequences(settings, spike.seed)).values
        if what and what["cause"] == "feed-forward" and what["explained"]:
            found, why = (spike, what), f"the highest spike {of} that sequences which cross a decision boundary explain"
            break
        if what and not found:
            found = spike, what
    if found is None:
        raise TrajectoryError(f"none of {len(spikes)} spikes shows a rise when it is replayed")
    spike, what = found
    first, _, last = replay_span(trajectory, spike)
    path = replay(trajectory, spike.run, first, last)
    here = f"{name_run(trajectory, spike.run)}, spike at epoch {spike.step / settings.epoch_steps:g}"
    return _SpikeReplay(spike, (what["foot"], what["at"] + 1), path, here, why)


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


def vc13(data: FigureData) -> DrawnFigure:
    """The loss around a spike, and sequence embeddings upon the map, before and after."""
    found = highest_crossing_spike(data)
    scene = build_scene(found.path, 0, side=frames.SIDE, panels=("loss", "transform_map"), marks=())
    right = found.path["accuracy"].sel(split="train", step=list(found.moments)).isel(run=0).values
    titles = [f"{word}: {share:.0%} of training right" for word, share in zip(("before", "after"), right, strict=True)]
    width = frames.SMALL_WIDTH if data.small else WIDTH
    at = np.searchsorted(scene.steps, found.moments).tolist()
    figure = frames.plot_frames_in_blocks(scene, at, titles, 2, width)
    rule = f"Chosen: {found.why}. Replayed step by step: before is the spike's foot; after is "
    rule += f"{format_delay(found.moments)}, behind the step with the largest rise. Left of each pair the loss with a "
    rule += "cursor, right sequence embeddings upon the map of classes."
    return DrawnFigure(figure, found.here, rule)


def vc14(data: FigureData) -> DrawnFigure:
    """What a small change of sequence embeddings does: before and after, with the assemblers between."""
    network = clustering_head_of(data.only)
    found = highest_crossing_spike(data)
    on = training_sequences(network.settings, found.spike.seed)
    with torch.no_grad():
        states = [{name: each.double() for name, each in weights(found.path, 0, at).items()} for at in found.moments]
        passes = [forward_pass(network, state, on) for state in states]
        responses = [network.transform(state, each.xi) for state, each in zip(states, passes, strict=True)]
    right = [each.logits.argmax(-1) == on.targets for each in passes]
    wrong = right[0] & ~right[1]
    rgb = class_colours(network.settings.vocab)
    figure = new_figure(14.0, 5.0)
    panels = figure.subplots(1, 3)
    figure.subplots_adjust(left=0.05, right=0.985, top=0.9, bottom=0.2, wspace=0.22)
    _draw_displacements(panels[0], [each.xi for each in passes], rgb[on.targets], wrong.numpy())
    _draw_assemblers(panels[1], states[0]["assembler"].numpy())
    _draw_displacements(panels[2], responses, rgb[on.targets], wrong.numpy())
    panels[0].set_title("sequence embeddings ξ", fontsize=10)
    panels[2].set_title("transforms ζ, the response of the MLP", fontsize=10)
    for axes in panels:
        axes.set(xlabel="first axis", ylabel="second axis")
        axes.grid(color="0.92")
        axes.set_axisbelow(True)
    _draw_legend(figure, rgb)
    rule = f"Chosen, as in figure 13: {found.why}. Left: sequence embeddings of the distinct training sequences at the "
    rule += f"spike's foot and {format_delay(found.moments)}; right: what the feed-forward layer makes of them. "
    rule += "Black lines join the two where a sequence that was right is now wrong, others are pale. Axes are not "
    rule += "equal."
    return DrawnFigure(figure, f"{found.here}, {float((on.weight * wrong).sum()):.0%} of sequences become wrong", rule)


def _draw_displacements(axes: Axes, ends: Sequence[torch.Tensor], rgb: np.ndarray, wrong: np.ndarray) -> None:
    """Points (point, 2) before and after in their colours, pale but for those that become wrong, with lines between."""
    first, last = (each.numpy() for each in ends)
    for some, colours in ((~wrong, pale_colours(rgb)), (wrong, rgb)):
        (x, y), shown = first[some].T, colours[some].tolist()
        axes.scatter(x, y, s=30, facecolors="none", edgecolors=shown, linewidths=0.8)
        axes.scatter(last[some, 0], last[some, 1], s=9, c=shown)
    lines = np.stack([first[wrong], last[wrong]], axis=1)
    axes.add_collection(LineCollection(list(lines), colors="0.1", linewidths=0.4, alpha=0.3))


def _draw_assemblers(axes: Axes, assemblers: np.ndarray) -> None:
    """The assemblers u (hidden, axis) as arrows, and how heavy and how much along one line they are."""
    singular = np.linalg.svd(assemblers, compute_uv=False)
    share = singular[0] ** 2 / max(float((singular**2).sum()), 1e-300)
    for x in assemblers:
        axes.annotate("", x, (0, 0), arrowprops={"arrowstyle": "-|>", "color": "#555555", "linewidth": 0.9})
    reach = 1.12 * max(float(np.abs(assemblers).max()), 1e-9)
    axes.set(xlim=(-reach, reach), ylim=(-reach, reach), aspect="equal")
    norm = float(np.linalg.norm(assemblers))
    axes.set_title(f"assemblers u: norm {norm:.1f}, {share:.1%} of squares along one line", fontsize=10)


def _draw_legend(figure: Figure, rgb: np.ndarray) -> None:
    """What the marks mean; rgb: colours of the classes."""
    dot: dict[str, Any] = {"marker": "o", "linestyle": "none", "color": "0.4"}
    marks = [
        Line2D([], [], **{**dot, "color": each}, label=f"class {label}") for label, each in enumerate(rgb.tolist())
    ]
    marks.append(Line2D([], [], markerfacecolor="none", markersize=7, label="before", **dot))
    marks.append(Line2D([], [], markersize=4, label="after", **dot))
    marks.append(Line2D([], [], color="0.1", linewidth=0.8, label="becomes wrong"))
    figure.legend(handles=marks, loc="lower center", ncols=len(marks), frameon=False, fontsize=9)
