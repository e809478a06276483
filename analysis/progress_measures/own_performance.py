"""Losses and accuracies of a model from outside by its logits, and when it learned."""

from __future__ import annotations

import numpy as np
import xarray as xr
from scipy.special import log_softmax

from analysis.progress_measures.adding_networks import OwnNetwork
from analysis.progress_measures.grokking import PHASES, grokking_phases, grokking_times
from dynamics.errors import TrajectoryError
from dynamics.trajectory.schema import time_unit


def own_performance(network: OwnNetwork, frames: np.ndarray) -> xr.Dataset:
    """The mean `loss` and the `accuracy` (run, step, split) of the logits at the
    indices of some frames: of the training pairs and of the others, or of all pairs if
    the training pairs are unknown."""
    runs = network.trajectory.sizes["run"]
    trained = np.ones((runs, network.n, network.n), bool)
    known = False
    for run in range(runs):
        pairs = network.recorded.training_pairs(run)
        if pairs is not None:
            known = True
            trained[run] = False
            trained[run, pairs[:, 0], pairs[:, 1]] = True
    splits = {"train" if known else "all": trained}
    if not trained.all():
        splits["test"] = ~trained
    values = np.empty((2, runs, len(frames), len(splits)))
    answers = network.answers
    for run in range(values.shape[1]):
        for at, frame in enumerate(frames):
            parameters = network.recorded.parameters(run, frame)
            logits = network.recorded.all_logits(parameters)
            log_probability = log_softmax(logits, axis=-1)
            losses = -np.take_along_axis(log_probability, answers[..., None], -1)
            correct = logits.argmax(axis=-1) == answers
            for place, chosen in enumerate(splits.values()):
                means = losses[chosen[run]].mean(), correct[chosen[run]].mean()
                values[:, run, at, place] = means
    dims = ("run", "step", "split")
    return xr.Dataset(
        {"loss": (dims, values[0]), "accuracy": (dims, values[1])},
        {"step": network.trajectory["step"].values[frames], "split": list(splits)},
    )


def with_performance(trajectory: xr.Dataset, performance: xr.Dataset) -> xr.Dataset:
    """The trajectory with the `loss` and `accuracy` of `own_performance` in place of
    its other variables."""
    state = trajectory[["status", "last_step"]].drop_vars("split", errors="ignore")
    _, unit = time_unit(trajectory)
    result = state.assign(loss=performance["loss"], accuracy=performance["accuracy"])
    epochs = result["step"] / unit
    return result.assign_coords(epoch=epochs).assign_attrs(trajectory.attrs)


def learning_times(trajectory: xr.Dataset, performance: xr.Dataset) -> xr.Dataset:
    """The variables of `grokking_times` and `grokking_phases` by the recorded
    accuracies, or by those of the logits; NaN if both lack a second split, or have too
    few frames."""
    if trajectory.sizes["step"] == 1:
        return unknown_times(trajectory)
    for source in (trajectory, with_performance(trajectory, performance)):
        try:
            times = grokking_times(source)
        except TrajectoryError:
            continue
        try:
            return times.merge(grokking_phases(source))
        except TrajectoryError:
            return times.merge(unknown_phases(trajectory.sizes["run"]))
    return unknown_times(trajectory)


def unknown_times(trajectory: xr.Dataset) -> xr.Dataset:
    """The variables of `grokking_times` and `grokking_phases`, all of them NaN."""
    runs = trajectory.sizes["run"]
    unknown = ("run", np.full(runs, np.nan))
    times = xr.Dataset(dict.fromkeys(("memorised", "generalised", "delay"), unknown))
    times["observed"] = ("run", np.zeros(runs, bool))
    return times.merge(unknown_phases(runs))


def unknown_phases(runs: int) -> xr.Dataset:
    """The variables of `grokking_phases`, all of them NaN."""
    unknown = (("run", "phase"), np.full((runs, len(PHASES)), np.nan))
    return xr.Dataset({"begin": unknown, "end": unknown}, {"phase": list(PHASES)})
