"""Figures of circuits of VC's network: ideal ones, those that were learned, and
finetuned ones with a token more."""

import dataclasses
import hashlib
from collections.abc import Callable, Sequence

import numpy as np
import xarray as xr
from matplotlib.figure import Figure

from analysis.clustering_heads.constructions import ideal_circuit
from analysis.clustering_heads.invariances import measure_invariances
from analysis.clustering_heads.labels import CircuitLabel, circuit_labels
from analysis.output.counts import count_of
from analysis.panels.run_scene import build_scene
from analysis.plots.drawing.panel_grid import PanelGrid
from analysis.reproduction.experiment import RequiredRuns
from analysis.reproduction.figures.figure import (
    SPARSE,
    DrawnFigure,
    FigureData,
    PaperFigure,
    RunChoice,
    name_run,
    settings_summary,
    sparse_settings,
)
from analysis.reproduction.figures.run_rules import runs_not_diverged
from dynamics.errors import TrajectoryError
from dynamics.initial_conditions import start_step_index
from dynamics.networks.from_trajectory import clustering_head_of
from dynamics.settings import SettingsError, SparseSettings
from dynamics.settings_text import describe_settings
from dynamics.simulation import simulate
from dynamics.training.finetuning import source_run_indices
from dynamics.trajectory.success import successful_runs

PANELS = (
    "token_embeddings",
    "position_embeddings",
    "sums",
    "normalised_sums",
    "attention",
    "values",
    "sequence_embeddings",
    "transform_map",
)
LEGEND = (
    "Circles: non-spurious positions; squares: spurious ones. Sequences: one colour per"
    " prefix, one shape per class. The map shows the predicted class of a sequence"
    " embedding, in paler colours where the probability is lower."
)

SIDE = 200
"""Of a class map, in pixels."""
WIDTH, SMALL_WIDTH = 1360, 800
"""Of the panels, in pixels; of those of a small picture."""


def plot_circuit_panels(
    trajectory: xr.Dataset,
    run: int,
    small: bool,
    step: int | None = None,
    title: str = "",
) -> Figure:
    """The panels of a run's circuit at a recorded step, the last by default; of one
    with a title of its own, which is no run's, the step is not told."""
    step = int(trajectory["last_step"][run]) if step is None else step
    moment = trajectory.sel(
        step=[step]
    )  # alone, so that limits are those of this frame
    scene = build_scene(moment, run, side=SIDE, panels=PANELS)
    scene = dataclasses.replace(scene, title=title or scene.title)
    sheet = PanelGrid([scene], columns=4, width=SMALL_WIDTH if small else WIDTH)
    sheet.show([0], [scene.arrays([0])])
    for clock in sheet.clocks:  # which a grid draws apart from the figure
        clock.set(animated=False, visible=not title)
    return sheet.figure


MOST_CACHED_LABELS = 4
"""Ensembles at a step whose labels are kept."""
_labels: dict[str, list[CircuitLabel]] = {}


def cached_circuit_labels(
    trajectory: xr.Dataset, step: int | None = None
) -> list[CircuitLabel]:
    """The label of every run at a recorded step, the last by default. Raises
    TrajectoryError.

    The last few answers are kept, by a hash over all that labels depend on: several
    figures show circuits of one ensemble."""
    step = int(trajectory["step"][-1]) if step is None else step
    digest = hashlib.sha256(f"{step} {sorted(trajectory.attrs.items())}".encode())
    for name in ("seed", "last_step", *clustering_head_of(trajectory).variables):
        recorded = (
            trajectory[name].sel(step=step)
            if "step" in trajectory[name].dims
            else trajectory[name]
        )
        digest.update(np.ascontiguousarray(recorded.values).tobytes())
    key = digest.hexdigest()
    if key not in _labels:
        _labels[key] = circuit_labels(measure_invariances(trajectory, step))
        for oldest in list(_labels)[:-MOST_CACHED_LABELS]:
            del _labels[oldest]
    return list(_labels[key])


# ----------------------------------------------------------------------- the four kinds


Kind = tuple[str, Callable[[CircuitLabel], bool]]
"""What is said of a run, such as "has learned the task", and whether it is true of one
with a label."""


def _plot_first_run_of_kind(data: FigureData, *kinds: Kind) -> DrawnFigure:
    """The final circuit of the first successful run of a kind, or of the next one named
    where there is none of it."""
    trajectory = data.only
    if data.run is None:
        chosen = first_run_of_kind(
            cached_circuit_labels(trajectory), successful_runs(trajectory), kinds
        )
    else:
        (label,) = cached_circuit_labels(trajectory.isel(run=[data.run]))
        chosen = RunChoice(
            data.run,
            f"the run that was asked for, labelled {label.label}: {label.reason}",
        )
    figure = plot_circuit_panels(trajectory, chosen.run, data.small)
    here = f"circuit of {name_run(trajectory, chosen.run)}, at the end"
    seeds = [int(trajectory["seed"][chosen.run])]
    return DrawnFigure(figure, here, f"Chosen: {chosen.why}. {LEGEND}", seeds)


def first_run_of_kind(
    labels: Sequence[CircuitLabel], success: np.ndarray, kinds: Sequence[Kind]
) -> RunChoice:
    """The first run of the first kind that there is; successful ones come first. Raises
    TrajectoryError."""
    kind = kinds[0][0]
    for words, fits in kinds:
        of_kind = [run for run, label in enumerate(labels) if fits(label)]
        if of_kind:
            run = min(of_kind, key=lambda run_index: not success[run_index])
            lacking = (
                "" if words == kind else f"NO run of {len(labels)} {kind}; instead "
            )
            some = "first successful run" if success[run] else "first run"
            rule = (
                f"{lacking}the {some} that {words} ({len(of_kind)} of"
                f" {count_of(len(labels), 'run')})"
            )
            return RunChoice(run, f"{rule}: {labels[run].reason}")
    raise TrajectoryError(
        f"found no run that {kind} among {len(labels)}, nor any that has learned"
        " the task"
    )


def vc1(data: FigureData) -> DrawnFigure:
    """An ideal circuit: of a run, or built by hand where no run is ideal."""
    trajectory = data.only
    labels = cached_circuit_labels(trajectory) if data.run is None else []
    if data.run is not None or any(label.label == "ideal" for label in labels):
        return _plot_first_run_of_kind(data, runs_with_label("ideal"))
    settings = sparse_settings(trajectory)
    title = f"ideal circuit, p = {settings.vocab}, d = {settings.dim}"
    figure = plot_circuit_panels(
        ideal_circuit_trajectory(settings), 0, data.small, title=title
    )
    rule = (
        f"NONE of {len(labels)} runs is labelled ideal (at least .9 of the attention on"
        " non-spurious positions, all "
        "alike, no other position of effect), so this circuit was built by hand with"
        " the properties of section "
        "3.1. "
    )
    here = "built by hand, as no run is ideal"
    about = f"{describe_settings(settings)}; not trained"
    return DrawnFigure(figure, here, rule + LEGEND, about=about)


def ideal_circuit_trajectory(settings: SparseSettings) -> xr.Dataset:
    """The weights of the ideal circuit as a trajectory of a single frame, without
    metrics. Raises SettingsError."""
    try:
        weights = ideal_circuit(settings)
    except SettingsError:
        raise
    except ValueError as error:
        raise TrajectoryError(
            f"no ideal circuit is known for this task: {error}"
        ) from None
    result = simulate(settings, runs=1, steps=0, progress=False).drop_vars(
        ["loss", "accuracy"]
    )
    for name, weight in weights.items():
        result[name] = result[name].copy(
            data=weight.float().numpy().reshape(result[name].shape)
        )
    return result


def runs_with_label(label: str) -> Kind:
    """Runs with a label."""
    return f"is labelled {label}", lambda circuit: circuit.label == label


LEARNED: Kind = (
    "has learned the task in any way",
    lambda circuit: circuit.label != "none",
)
LACKING_BOTH: Kind = (
    "is labelled partial and lacks invariance both to a suffix and to an order",
    lambda circuit: (
        circuit.label == "partial" and bool(circuit.leaking) and bool(circuit.apart)
    ),
)


def vc2(data: FigureData) -> DrawnFigure:
    """Faulty attention, corrected by the value matrix."""
    return _plot_first_run_of_kind(
        data,
        runs_with_label("corrected"),
        runs_with_label("part of the values"),
        LEARNED,
    )


def vc3(data: FigureData) -> DrawnFigure:
    """Partially learned invariances."""
    return _plot_first_run_of_kind(
        data, LACKING_BOTH, runs_with_label("partial"), LEARNED
    )


def vc4(data: FigureData) -> DrawnFigure:
    """A fuzzy construction."""
    return _plot_first_run_of_kind(
        data, runs_with_label("fuzzy"), runs_with_label("partial"), LEARNED
    )


# --------------------------------------------------------------------------- finetuning

CARRIED = ("position_embedding", "query", "value", "receptor")
"""Weights that finetuning begins with as they were, by which a source is known."""


def vc10(data: FigureData, frame: int = 0) -> DrawnFigure:
    """A circuit of p = 2 with a token more, in the first or the last frame of
    finetuning."""
    source, trajectory = data.datasets
    places, begun = finetuning_start_points(source, trajectory)
    chosen = data.choose(
        lambda: best_from_corrected(
            cached_circuit_labels(source, begun), places, trajectory
        )
    )
    figure = plot_circuit_panels(
        trajectory, chosen.run, data.small, int(trajectory["step"][frame])
    )
    when = "before finetuning" if frame == 0 else "after finetuning"
    rule = (
        f"Chosen: {chosen.why}."
        f" {inherited_weights(source, trajectory, int(places[chosen.run]), begun)}"
        f" {LEGEND}"
    )
    here = (
        f"circuit of {name_run(trajectory, chosen.run)},"
        f" p = {trajectory.sizes['token']}, {when}"
    )
    return DrawnFigure(
        figure,
        here,
        rule,
        [int(trajectory["seed"][chosen.run])],
        settings_summary(trajectory),
    )


def vc11(data: FigureData) -> DrawnFigure:
    """The circuit of figure 10 when finetuning has ended."""
    return vc10(data, frame=-1)


def inherited_weights(
    source: xr.Dataset, trajectory: xr.Dataset, place: int, begun: int
) -> str:
    """Which weights a run that began with those of a run of its source has got from
    it."""
    more = sparse_settings(trajectory).rows - sparse_settings(source).rows
    end = int(source["step"][-1])
    when = "at its end" if begun == end else f"at step {begun} of {end}"
    new = {0: "", 1: ", and a new row of the embedding"}.get(
        more, ", and new rows of the embedding"
    )
    return (
        f"Its first weights are those of the source's {name_run(source, place)}"
        f" {when}{new}."
    )


def finetuning_start_points(
    source: xr.Dataset, trajectory: xr.Dataset
) -> tuple[np.ndarray, int]:
    """Where along the source's runs each finetuned run began, (run,), and at which of
    its steps.

    Raises TrajectoryError where these runs did not begin at this source.
    """
    settings = sparse_settings(trajectory)
    other = TrajectoryError(
        "the finetuned runs began at other weights than those of the source among the"
        " files"
    )
    try:
        places = source_run_indices(source, settings, trajectory["seed"].values)
        at = start_step_index(source, settings.start_step)
    except SettingsError:
        raise other from None
    for name in CARRIED:
        first = trajectory[name].isel(step=0)
        if not np.array_equal(
            source[name].isel(run=places, step=at).transpose(*first.dims), first
        ):
            raise other
    return places, int(source["step"][at])


def best_from_corrected(
    labels: Sequence[CircuitLabel], places: np.ndarray, trajectory: xr.Dataset
) -> RunChoice:
    """The most accurate finetuned run among those whose source is labelled corrected,
    as the one of figure 2.

    labels: of the source's runs; places: of each finetuned run among these. Raises
    TrajectoryError."""
    runs = runs_not_diverged(trajectory).tolist()
    corrected = [run for run in runs if labels[places[run]].label == "corrected"]
    split = "unseen" if "unseen" in trajectory["split"].values else "test"
    accuracy = trajectory["accuracy"].sel(split=split).isel(step=-1).values
    best = max(corrected or runs, key=lambda run: accuracy[run])
    rule = f"NO circuit was labelled corrected; of all {len(runs)} runs"
    if corrected:
        rule = (
            f"of {count_of(len(corrected), 'run')} whose circuit was labelled corrected,"
            " as that of figure 2,"
        )
    return RunChoice(
        best,
        f"{rule} the first with the best accuracy after finetuning,"
        f" {accuracy[best]:.3f} ({split})",
    )


# -------------------------------------------------------------------------- the figures

FINETUNING = (
    *SPARSE,
    RequiredRuns(SparseSettings(vocab=3), every=0, follows=True),
)


def _circuit_figure(
    name: str, draw: Callable[[FigureData], DrawnFigure], of: str, tuned: bool = False
) -> PaperFigure:
    """A figure of the panels of a circuit."""
    shows = (
        f"embeddings, attention, values, sequence embeddings and the class map of {of}"
    )
    needs, cost = (FINETUNING, "2 minutes") if tuned else (SPARSE, "1 minute")
    return PaperFigure(name, shows, needs, cost, draw, one_run=True)


FIGURES = (
    _circuit_figure(
        "vc1", vc1, "the ideal circuit, constructed by hand if no run is ideal"
    ),
    _circuit_figure(
        "vc2", vc2, "a circuit with faulty attention that the values correct"
    ),
    _circuit_figure("vc3", vc3, "a circuit with partially learned invariances"),
    _circuit_figure("vc4", vc4, "a fuzzy circuit"),
    _circuit_figure(
        "vc10", vc10, "a circuit as in figure 2 with a token more, p = 3", tuned=True
    ),
    _circuit_figure(
        "vc11", vc11, "this circuit after 1000 epochs of finetuning", tuned=True
    ),
)
