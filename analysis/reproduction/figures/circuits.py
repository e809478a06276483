"""Figures of circuits of VC's network: ideal ones and those that were learned."""

import dataclasses
import hashlib
from collections.abc import Callable, Sequence

import numpy as np
import torch
import xarray as xr
from matplotlib.figure import Figure

from analysis.clustering_heads.constructions import ideal_circuit
from analysis.clustering_heads.invariances import measure_invariances
from analysis.clustering_heads.labels import CircuitLabel, circuit_labels
from analysis.plots.panels import build_scene
from analysis.reproduction.figures.figure import DrawnFigure, FigureData, RunChoice, name_run, sparse_settings
from analysis.reproduction.figures.frames import plot_frames_in_blocks
from analysis.reproduction.figures.settings_line import untrained_summary
from dynamics.errors import TrajectoryError
from dynamics.networks.clustering_head import ClusteringHead
from dynamics.networks.from_trajectory import clustering_head_of
from dynamics.settings import SettingsError, SparseSettings
from dynamics.simulation import simulate
from dynamics.tasks import distinct_sequences, sparse_sum
from dynamics.training.finetuning import successful_runs

PANELS = (
    "token_embeddings", "position_embeddings", "sums", "normalised_sums",
    "attention", "values", "sequence_embeddings", "transform_map",
)  # fmt: skip
SIDE = 200
"""Of a class map, in pixels."""

LEGEND = (
    "Circles: counting positions; squares: other positions. Sequences: one colour per prefix, one shape per class. The "
    "map shows the predicted class of a sequence embedding, in paler colours where the probability is lower."
)

WIDTH, SMALL_WIDTH = 1360, 800
"""Of the panels, in pixels."""


def plot_circuit_panels(
    trajectory: xr.Dataset, run: int, small: bool, step: int | None = None, title: str = ""
) -> Figure:
    """The panels of a run's circuit at a recorded step, the last by default; of one with a title of its own, which is
    no run's, the step is not told."""
    last = int(trajectory["last_step"][run])
    moment = trajectory.sel(step=[last if step is None else step])  # alone, so that limits are those of this frame
    made = build_scene(moment, run, side=SIDE, panels=PANELS, marks=())
    width = SMALL_WIDTH if small else WIDTH
    return plot_frames_in_blocks(
        [dataclasses.replace(made, title=title or made.title)], [0], PANELS, 4, width, timed=not title
    )


def cached_circuit_labels(trajectory: xr.Dataset, step: int | None = None) -> list[CircuitLabel]:
    """The label of every run at a recorded step, the last by default. Raises TrajectoryError.

    The last few answers are kept: several figures show circuits of one ensemble.
    """
    step = int(trajectory["step"][-1]) if step is None else step
    known = _label_cache_key(trajectory, step)
    if known not in _labels:
        found = circuit_labels(measure_invariances(trajectory, step))
        while len(_labels) >= MOST_CACHED_LABELS:
            _labels.pop(next(iter(_labels)))
        _labels[known] = found
    return list(_labels[known])


MOST_CACHED_LABELS = 4
"""Ensembles at a step whose labels are kept."""
_labels: dict[str, list[CircuitLabel]] = {}


def _label_cache_key(trajectory: xr.Dataset, step: int) -> str:
    """A hash over all that labels depend on: attributes, which runs had not diverged, and the weights at a step, or all
    recorded ones where that step is none."""
    told = hashlib.sha256(f"{step} {sorted(trajectory.attrs.items())}".encode())
    recorded = trajectory.sel(step=[step]) if step in trajectory["step"].values else trajectory
    for name in ("seed", "last_step", *clustering_head_of(trajectory).variables):
        if name in recorded:
            told.update(f"{name} {recorded[name].shape}".encode())
            told.update(np.ascontiguousarray(recorded[name].values).tobytes())
    return told.hexdigest()


# --------------------------------------------------------------------------------------------- the four kinds


Kind = tuple[str, Callable[[CircuitLabel], bool]]
"""What a run is called in words, and whether a label is of that kind."""


def _plot_first_run_of_kind(data: FigureData, *kinds: Kind) -> DrawnFigure:
    """The first successful run of a kind, or of the next one named where there is none of the first."""
    trajectory = data.only
    if data.run is not None:
        (label,) = cached_circuit_labels(trajectory.isel(run=[data.run]))
        why = f"the run that was asked for, labelled {label.label}: {label.reason}"
        return _plot_final_circuit(data, RunChoice(data.run, why))
    return _plot_final_circuit(
        data, first_run_of_kind(cached_circuit_labels(trajectory), successful_runs(trajectory), kinds)
    )


def first_run_of_kind(labels: Sequence[CircuitLabel], success: np.ndarray, kinds: Sequence[Kind]) -> RunChoice:
    """The first run of the first kind that there is; successful ones come first. Raises TrajectoryError."""
    wanted = kinds[0][0]
    for words, fits in kinds:
        of_kind = [run for run, label in enumerate(labels) if fits(label)]
        if of_kind:
            run = min(of_kind, key=lambda each: not success[each])
            lacking = "" if words == wanted else f"NO run of {len(labels)} is {wanted}; instead "
            some = "first successful run" if success[run] else "first run"
            rule = f"{lacking}the {some} that is {words} ({len(of_kind)} of {len(labels)} are)"
            return RunChoice(run, f"{rule}: {labels[run].reason}")
    raise TrajectoryError(f"found no run that is {wanted} among {len(labels)}, nor any that has learned the task")


def _plot_final_circuit(data: FigureData, chosen: RunChoice) -> DrawnFigure:
    """The circuit of a run at its end."""
    trajectory = data.only
    figure = plot_circuit_panels(trajectory, chosen.run, data.small)
    rule = f"Chosen: {chosen.why}. {LEGEND}"
    return DrawnFigure(figure, f"{name_run(trajectory, chosen.run)}, at the end", rule)


def vc1(data: FigureData) -> DrawnFigure:
    """An ideal circuit: of a run, or built by hand where no run is ideal."""
    trajectory = data.only
    settings = sparse_settings(trajectory)
    labels = [] if data.run is not None else cached_circuit_labels(trajectory)
    if data.run is not None or any(each.label == "ideal" for each in labels):
        return _plot_first_run_of_kind(data, runs_with_label("ideal"))
    title = f"ideal circuit, p = {settings.vocab}, d = {settings.dim}"
    figure = plot_circuit_panels(ideal_circuit_trajectory(settings), 0, data.small, title=title)
    rule = (
        f"NONE of {len(labels)} runs is labelled ideal (at least .9 of the attention on the counting positions, all "
        f"alike, no other position of effect), so this circuit was built by hand with the properties of section 3.1. "
    )
    return DrawnFigure(figure, "built by hand, as no run is ideal", rule + LEGEND, untrained_summary(settings))


def ideal_circuit_trajectory(settings: SparseSettings) -> xr.Dataset:
    """The ideal circuit as a trajectory of a single frame. Raises SettingsError."""
    try:
        weights = ideal_circuit(settings)
    except ValueError as error:
        if isinstance(error, SettingsError):
            raise
        raise TrajectoryError(f"no ideal circuit is known for this task: {error}") from None
    found = simulate(settings, runs=1, steps=0, progress=False)
    for name, weight in weights.items():
        found[name] = found[name].copy(data=weight.float().numpy().reshape(found[name].shape))
    share, loss = _accuracy_and_loss(settings, weights)
    found["accuracy"] = found["accuracy"].copy(data=np.full(found["accuracy"].shape, share, np.float32))
    found["loss"] = found["loss"].copy(data=np.full(found["loss"].shape, loss, np.float32))
    return found


@torch.no_grad()
def _accuracy_and_loss(settings: SparseSettings, weights: dict[str, torch.Tensor]) -> tuple[float, float]:
    """Accuracy and loss of weights on the distinct training sequences of seed 0."""
    tokens = distinct_sequences(settings, 0, "train")[0]
    target = torch.from_numpy(sparse_sum(tokens, settings))
    logits = ClusteringHead(settings).logits(weights, torch.from_numpy(tokens))
    loss = torch.nn.functional.cross_entropy(logits, target)
    return float((logits.argmax(-1) == target).double().mean()), float(loss)


def runs_with_label(label: str) -> Kind:
    """Runs with a label."""
    return f"labelled {label}", lambda each: each.label == label


LEARNED: Kind = ("a run that has learned the task, however", lambda each: each.label != "none")
LACKING_BOTH: Kind = (
    "labelled partial and lacks invariance both to a suffix and to an order",
    lambda each: each.label == "partial" and bool(each.leaking) and bool(each.apart),
)


def vc2(data: FigureData) -> DrawnFigure:
    """Faulty attention, corrected by the value matrix."""
    return _plot_first_run_of_kind(data, runs_with_label("corrected"), runs_with_label("part of the values"), LEARNED)


def vc3(data: FigureData) -> DrawnFigure:
    """Partially learned invariances."""
    return _plot_first_run_of_kind(data, LACKING_BOTH, runs_with_label("partial"), LEARNED)


def vc4(data: FigureData) -> DrawnFigure:
    """A fuzzy construction."""
    return _plot_first_run_of_kind(data, runs_with_label("fuzzy"), runs_with_label("partial"), LEARNED)
