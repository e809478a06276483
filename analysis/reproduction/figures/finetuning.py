"""Figures of finetuning: a circuit of VC's network with a token more, before and after training on it."""

from collections.abc import Sequence

import numpy as np
import xarray as xr

from analysis.clustering_heads.labels import CircuitLabel
from analysis.reproduction.figures.circuits import LEGEND, cached_circuit_labels, plot_circuit_panels
from analysis.reproduction.figures.figure import (
    DrawnFigure,
    FigureData,
    RunChoice,
    name_run,
    runs_not_diverged,
    sparse_settings,
)
from analysis.reproduction.figures.settings_line import settings_summary
from dynamics.errors import TrajectoryError
from dynamics.initial_conditions import start_step_index
from dynamics.settings import SettingsError
from dynamics.training.finetuning import source_run_indices

CARRIED = ("position_embedding", "query", "value", "receptor")
"""Weights that finetuning begins with as they were, by which a source is known."""


def vc10(data: FigureData) -> DrawnFigure:
    """A circuit of p = 2 with a token more, as finetuning begins."""
    return _plot_finetuned_circuit(data, 0)


def vc11(data: FigureData) -> DrawnFigure:
    """The same circuit when finetuning has ended."""
    return _plot_finetuned_circuit(data, -1)


def _plot_finetuned_circuit(data: FigureData, frame: int) -> DrawnFigure:
    """The circuit of a finetuned run in its first or last frame."""
    source, trajectory = data.datasets
    places, begun = finetuning_start_points(source, trajectory)
    chosen = data.choose(
        lambda: best_finetuned_from_corrected(cached_circuit_labels(source, begun), places, trajectory)
    )
    figure = plot_circuit_panels(trajectory, chosen.run, data.small, int(trajectory["step"][frame]))
    when = "before finetuning" if frame == 0 else "after finetuning"
    rule = f"Chosen: {chosen.why}. {inherited_weights(source, trajectory, int(places[chosen.run]), begun)} {LEGEND}"
    here = f"{name_run(trajectory, chosen.run)}, p = {trajectory.sizes['token']}, {when}"
    return DrawnFigure(figure, here, rule, settings_summary(trajectory))


def inherited_weights(source: xr.Dataset, trajectory: xr.Dataset, place: int, begun: int) -> str:
    """Which weights a run that began with those of a run of its source has got from it."""
    rows = [sparse_settings(each).rows for each in (source, trajectory)]
    end = int(source["step"][-1])
    when = "at its end" if begun == end else f"at step {begun} of {end}"
    new = {0: "", 1: ", and a new row of the embedding"}.get(rows[1] - rows[0], ", and new rows of the embedding")
    return f"Its first weights are those of the source's {name_run(source, place)} {when}{new}."


def finetuning_start_points(source: xr.Dataset, trajectory: xr.Dataset) -> tuple[np.ndarray, int]:
    """Where along the source's runs each finetuned run began, (run,), and at which of its steps.

    Raises TrajectoryError where these runs did not begin at this source.
    """
    settings = sparse_settings(trajectory)
    other = TrajectoryError("the finetuned runs began at other weights than those of the source among the files")
    try:
        places = source_run_indices(source, settings, trajectory["seed"].values)
        at = start_step_index(source, settings.start_step)
    except SettingsError:
        raise other from None
    for name in CARRIED:
        first = trajectory[name].isel(step=0)
        same = source[name].isel(run=places, step=at).transpose("run", *first.transpose("run", ...).dims[1:])
        if same.shape != first.shape or not np.array_equal(same, first.transpose("run", ...)):
            raise other
    return places, int(source["step"][at])


def best_finetuned_from_corrected(
    labels: Sequence[CircuitLabel], places: np.ndarray, trajectory: xr.Dataset
) -> RunChoice:
    """Of the runs whose source was labelled corrected, as that of figure 2, the one that is best after finetuning.

    labels: of the source's runs; places: of each finetuned run among these. Raises TrajectoryError.
    """
    runs = [int(run) for run in runs_not_diverged(trajectory)]
    if not runs:
        raise TrajectoryError("dimension run: found no finetuned run that has not diverged, expected one at least")
    corrected = [run for run in runs if labels[places[run]].label == "corrected"]
    split = "unseen" if "unseen" in trajectory["split"].values else "test"
    accuracy = trajectory["accuracy"].sel(split=split).isel(step=-1).values
    best = max(corrected or runs, key=lambda run: accuracy[run])
    rule = f"NO circuit was labelled corrected; of all {len(runs)} runs"
    if corrected:
        rule = f"of {len(corrected)} runs whose circuit was labelled corrected, as that of figure 2,"
    return RunChoice(best, f"{rule} the first with the best accuracy after finetuning, {accuracy[best]:.3f} ({split})")
