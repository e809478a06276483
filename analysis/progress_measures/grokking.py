"""Phases of training and the delay of generalisation (grokking), from the losses and
accuracies of a trajectory.

The phases are those of Nanda et al. (arXiv 2301.05217), by this rule, whose drops are
those of `analysis.transitions.change_points` with long windows:

    memorisation       from the first step to the end of the first drop of the training loss
    circuit formation  from there to the beginning of the largest drop of the errors of the other pairs
    cleanup            from there to the end of that drop

Errors are the fraction of wrong pairs, in the frames after memorisation; unlike the
loss, they do not fall when weight decay makes all logits smaller. A run has the last
two phases only if that drop at least halves the errors.

A run has memorised at the first recorded step with a training accuracy above .99, and
generalised at the first with an accuracy of the other pairs above .9. The delay is the
number of steps between; it is 0 if a run generalises first, and censored at the last
valid step if it does not generalise."""

from __future__ import annotations

import numpy as np
import xarray as xr

from analysis.statistics.run_success import evaluation_split
from analysis.transitions.change_points import SeriesEvent
from analysis.transitions.detection import DetectionConfig
from analysis.transitions.loss_events import event_table, trajectory_scalar
from dynamics.errors import TrajectoryError
from dynamics.trajectory.diverged import mask_diverged, valid_frames
from dynamics.trajectory.schema import check_variable_recorded
from dynamics.trajectory.success import exceeds

PHASES = ("memorisation", "circuit formation", "cleanup")
PHASE_DETECTION = DetectionConfig(window=0.05)
"""Thresholds of the drops that end phases, with windows of 5, 10 and 20% of the frames,
as cleanup can be slow."""

MEMORISED, GENERALISED = 0.99, 0.9
"""Accuracies of the training pairs and of the other pairs."""
GENERALISING = 0.5
"""Accuracy of the other pairs from which a run is generalising."""
_ROUNDING = 1e-6
"""Relative error of errors, from accuracies in float32."""
MOMENTS = ("memorised", "generalising", "generalised", "last")


def grokking_times(trajectory: xr.Dataset) -> xr.Dataset:
    """When each run has memorised and generalised, and the delay between.

    Parameters
    ----------
    trajectory : xarray.Dataset
        With the accuracies of the training split and of another.

    Returns
    -------
    xarray.Dataset
        By run: `memorised` and `generalised`, steps, NaN if never; `delay`, steps, and
        `observed`, whether it has ended. Without memorisation the delay is NaN.

    Raises
    ------
    TrajectoryError
        If the trajectory has no accuracies of two splits.

    Examples
    --------
    >>> from analysis.progress_measures import grokking_times
    >>> from dynamics import ModularSettings, simulate
    >>> trajectory = simulate(ModularSettings(n=5), runs=2, steps=2, progress=False)
    >>> grokking_times(trajectory)["observed"].values
    array([False, False])
    """
    train, other = _split_accuracies(trajectory)
    steps = trajectory["step"].values.astype(np.float64)
    memorised = _first_step(exceeds(train, MEMORISED), steps)
    generalised = _first_step(exceeds(other, GENERALISED), steps)
    ended = np.isfinite(generalised)
    until = np.where(ended, generalised, trajectory["last_step"].values)
    meanings = {
        "memorised": f"first step with a training accuracy above {MEMORISED:g}",
        "generalised": (
            f"first step with an accuracy of the other pairs above {GENERALISED:g}"
        ),
        "delay": "steps from memorisation to generalisation, or to the last step",
        "observed": "whether the delay has ended",
    }
    delay = np.maximum(until - memorised, 0)
    values = (memorised, generalised, delay, np.isfinite(memorised) & ended)
    return xr.Dataset(
        {
            name: ("run", value, {"long_name": meaning})
            for (name, meaning), value in zip(meanings.items(), values, strict=True)
        }
    )


def moment_frames(trajectory: xr.Dataset) -> xr.DataArray:
    """The first frame of each run that has memorised, the first with an accuracy of the
    other pairs of at least .5 (generalising), the first that has generalised, and the
    last valid one.

    Parameters
    ----------
    trajectory : xarray.Dataset
        With the accuracies of the training split and of another.

    Returns
    -------
    xarray.DataArray
        (run, moment) int, indices of frames; -1 for a moment that a run does not reach.

    Raises
    ------
    TrajectoryError
        If the trajectory has no accuracies of two splits.

    Examples
    --------
    >>> from analysis.progress_measures import moment_frames
    >>> from dynamics import ModularSettings, simulate
    >>> trajectory = simulate(ModularSettings(n=5), runs=1, steps=2, every=1, progress=False)
    >>> moment_frames(trajectory).sel(moment="last").values
    array([2])
    """
    train, other = _split_accuracies(trajectory)
    all_frames = np.arange(trajectory.sizes["step"])
    reached = (
        exceeds(train, MEMORISED),
        other >= GENERALISING,
        exceeds(other, GENERALISED),
    )
    frames = [_first_step(item, all_frames) for item in reached]
    frames.append(valid_frames(trajectory).values.sum(axis=1) - 1)
    indices = np.nan_to_num(np.stack(frames, axis=1), nan=-1).astype(int)
    return xr.DataArray(indices, {"moment": list(MOMENTS)}, ("run", "moment"))


def _split_accuracies(trajectory: xr.Dataset) -> list[np.ndarray]:
    """Accuracies (run, step) of the training split and of the other one; NaN from where
    a run has diverged."""
    splits = _splits(trajectory)
    accuracy = mask_diverged(trajectory["accuracy"], trajectory)
    accuracy = accuracy.transpose("run", "step", "split")
    return [accuracy.sel(split=split).values for split in splits]


def _first_step(reached: np.ndarray, steps: np.ndarray) -> np.ndarray:
    """The first step at which something is reached, NaN if never: (run, step), (step,)
    -> (run,)."""
    return np.where(reached.any(axis=1), steps[reached.argmax(axis=1)], np.nan)


def grokking_phases(
    trajectory: xr.Dataset, config: DetectionConfig = PHASE_DETECTION
) -> xr.Dataset:
    """The phases of each run.

    Parameters
    ----------
    trajectory : xarray.Dataset
        With the losses and accuracies of the training split and of another.
    config : DetectionConfig
        Thresholds of the drops.

    Returns
    -------
    xarray.Dataset
        `begin` and `end` (run, phase), steps, NaN for a phase that a run does not have.

    Raises
    ------
    TrajectoryError
        If the trajectory has too few frames, or no losses and accuracies of two splits.

    Examples
    --------
    >>> from analysis.progress_measures import grokking_phases
    >>> from dynamics import ModularSettings, simulate
    >>> trajectory = simulate(ModularSettings(n=5), runs=2, steps=80, every=10, progress=False)
    >>> grokking_phases(trajectory)["phase"].values
    array(['memorisation', 'circuit formation', 'cleanup'], dtype='<U17')
    """
    train, other = _splits(trajectory)
    begin, end = np.full((2, trajectory.sizes["run"], len(PHASES)), np.nan)
    memorised = end[:, 0]
    for run, drops in enumerate(
        _drops(trajectory_scalar(trajectory, "loss", train), config)
    ):
        if drops:
            begin[run, 0] = trajectory["step"].values[0]
            memorised[run] = drops[0].end
    accuracy = trajectory["accuracy"].sel(split=other, drop=True)
    errors = mask_diverged(1 - accuracy.astype(float), trajectory)
    later = errors.where(
        errors["step"] >= xr.DataArray(memorised, dims="run")
    ).transpose("run", "step")
    for run, drops in enumerate(_drops(later.rename("errors"), config)):
        cleanup = max(drops, key=lambda drop: drop.before - drop.after, default=None)
        if cleanup is not None and cleanup.after <= cleanup.before / 2 * (
            1 + _ROUNDING
        ):
            begin[run, 1:] = memorised[run], cleanup.begin
            end[run, 1:] = cleanup.begin, cleanup.end
    dims = ("run", "phase")
    data = {
        "begin": (dims, begin, {"long_name": "step at which the phase begins"}),
        "end": (dims, end, {"long_name": "step at which the phase ends"}),
    }
    return xr.Dataset(data, {"phase": list(PHASES)})


def _splits(trajectory: xr.Dataset) -> tuple[str, str]:
    """The names of the training split and of the split of the other pairs. Raises
    TrajectoryError."""
    check_variable_recorded(trajectory, "accuracy")
    train = str(trajectory["split"].values[0])
    other = evaluation_split(trajectory)
    if train == other:
        raise TrajectoryError(
            f"dimension split: found {train} alone, expected a second split, which is"
            " not trained on"
        )
    return train, other


def _drops(values: xr.DataArray, config: DetectionConfig) -> list[list[SeriesEvent]]:
    """The drops of a scalar (run, step) in each run, in order, by the same level for
    all systems; their moments are steps."""
    events = event_table(values.drop_attrs(), config)
    drops = events.isel(event=np.flatnonzero(events["kind"].values == "drop"))
    result: list[list[SeriesEvent]] = [[] for _ in range(values.sizes["run"])]
    for at, run in enumerate(drops["of_run"].values):
        result[run].append(
            SeriesEvent(*(drops[name].values[at] for name in SeriesEvent._fields))
        )
    return result
