"""Interventions against loss spikes: the runs of a trajectory trained again with one
setting changed (VC section 4.3).

Each run keeps its first weights, its data and its batches, so that runs with and
without a change form pairs."""

from __future__ import annotations

import dataclasses
import math
from collections.abc import Mapping, Sequence
from pathlib import Path

import numpy as np
import pandas as pd
import xarray as xr
from scipy import stats

from analysis.output.results import dimensionless
from analysis.output.tables import interval_columns, make_table
from analysis.statistics.intervals import NO_INTERVAL, Interval, mean_interval
from analysis.statistics.resampling import leave_one_out_interval
from analysis.transitions.detection import DEFAULT_DETECTION, DetectionConfig
from analysis.transitions.loss_events import (
    check_enough_frames,
    event_table,
    plateau_escape_times,
    trajectory_scalar,
)
from dynamics.ensemble import Ensemble
from dynamics.errors import TrajectoryError
from dynamics.networks.from_trajectory import clustering_head_of
from dynamics.settings import (
    SUCCESS_ACCURACY,
    SettingsError,
    SparseSettings,
    check_integer,
    check_real,
)
from dynamics.trajectory.diverged import not_diverged
from dynamics.trajectory.success import exceeds

UNCHANGED = "as recorded"

MEASURES = ("spikes", "rate", "test")
"""Spikes in a run; spikes per 1000 epochs after the escape; test accuracy at the
end."""
_LARGEST = {"spikes": math.inf, "test": 1.0}
"""Largest possible value of the measures of single runs."""


# ----------------------------------------------------------------------------- training


def intervention_settings(
    settings: SparseSettings,
    hidden: int = 128,
    assembler_decays: Sequence[float] = (0.01, 0.1),
) -> dict[str, SparseSettings]:
    """The settings with one thing changed, by the name of the intervention.

    Parameters
    ----------
    settings : SparseSettings
    hidden : int
        Width of the wider MLP; not used if the first weights come from a trajectory,
        which fixes the width.
    assembler_decays : sequence of float
        Weight decays of the output weights of the MLP, which VC calls assemblers; they
        are decoupled from the gradient, also for runs of Adam, which continue with
        AdamW.

    Returns
    -------
    dict of str to SparseSettings
        The norm that is smooth at the origin, the wider MLP, and each decay.

    Raises
    ------
    SettingsError
        If an intervention is impossible or is already part of the settings.

    Examples
    --------
    >>> from analysis.transitions import intervention_settings
    >>> from dynamics import SparseSettings
    >>> list(intervention_settings(SparseSettings()))
    ['smooth norm', 'h = 128', 'decay 0.01', 'decay 0.1']
    """
    if settings.norm.endswith("smooth"):
        raise SettingsError(
            "trajectory",
            f"norm {settings.norm}",
            "a run of norm rms or unit, to be made smooth",
        )
    smooth = dataclasses.replace(settings, norm=f"{settings.norm}-smooth")  # type: ignore[arg-type]
    result = {"smooth norm": smooth}
    hidden = check_integer("hidden", hidden, settings.hidden + 1, 100_000)
    if settings.start == "random":
        result[f"h = {hidden}"] = dataclasses.replace(settings, hidden=hidden)
    decays = [
        check_real("assembler_decays", decay, positive=True)
        for decay in assembler_decays
    ]
    if decays:
        _check_no_decay(settings)
    # without weight decay Adam and AdamW are the same
    optimizer = {"adam": "adamw"}.get(settings.optimizer, settings.optimizer)
    for decay in decays:
        result[f"decay {decay:g}"] = dataclasses.replace(
            settings, optimizer=optimizer, assembler_decay=decay
        )
    return result


def _check_no_decay(settings: SparseSettings) -> None:
    """Raise SettingsError if a variable is decayed, or the optimizer has no decay."""
    found = ""
    if "weight_decay" not in settings.optimizer_value.hyperparameters:
        found = f"a run of {settings.optimizer_value.name}, which has no weight decay"
    decayed = [name for name in settings.weight_names if settings.weight_decay_of(name)]
    if decayed:
        decay = settings.weight_decay_of(decayed[0])
        found = f"a run with weight decay {decay:g} of {decayed[0]}"
    if found:
        allowed = (
            "a run without weight decay, of an optimizer that has one; or"
            " --assembler-decays without a value"
        )
        raise SettingsError("trajectory", found, allowed)


def train_intervention(
    trajectory: xr.Dataset, settings: SparseSettings
) -> tuple[Path, xr.Dataset]:
    """Train the runs of a trajectory with other settings, or read them from runs/.
    Raises the errors of `simulate`."""
    runs = trajectory.sizes["run"]
    seed = int(trajectory["seed"][0])
    every = int(trajectory.attrs["every"])
    steps = int(trajectory["step"][-1])
    ensemble = Ensemble(settings, runs, seed, steps, every, "metrics")
    return ensemble.path, ensemble.simulate(ensemble.path)


def check_complete_ensemble(trajectory: xr.Dataset) -> SparseSettings:
    """The settings of a trajectory whose runs can be trained again. Raises
    TrajectoryError for others."""
    settings = clustering_head_of(trajectory).settings
    check_enough_frames(trajectory)
    if "branched_at" in trajectory.attrs or "derived" in trajectory.attrs:
        raise TrajectoryError(
            "a branch or selection cannot be trained again from its beginning"
        )
    seeds = trajectory["seed"].values
    if not np.array_equal(seeds, seeds[0] + np.arange(len(seeds))):
        raise TrajectoryError("variable seed: found seeds that are not consecutive")
    return settings


# ----------------------------------------------------------------------------- measures


def spike_measures(
    trajectory: xr.Dataset, config: DetectionConfig = DEFAULT_DETECTION
) -> dict[str, np.ndarray]:
    """Measures of each run, (run,): `spikes`; `late`, spikes after the escape; `since`,
    epochs after the escape; `test`, the test accuracy at the end. NaN for a run that
    has diverged."""
    losses = trajectory_scalar(trajectory, "loss")
    events = event_table(losses, config)
    left = plateau_escape_times(losses, config=config)
    steps = trajectory["step"].values
    epoch = trajectory["epoch"].values
    runs = trajectory.sizes["run"]
    spike = events["kind"].values == "spike"
    of_run = events["of_run"].values
    late = spike & (events["middle"].values >= left["escape"].values[of_run])
    since = np.where(
        left["escaped"].values,
        epoch[-1] - np.interp(left["escape"].values, steps, epoch),
        0.0,
    )
    measures = {
        "spikes": np.bincount(of_run[spike], minlength=runs),
        "late": np.where(since > 0, np.bincount(of_run[late], minlength=runs), 0),
        "since": since,
        "test": trajectory["accuracy"].isel(step=-1).sel(split="test").values,
    }
    alive = not_diverged(trajectory)
    return {
        name: np.where(alive, measure, np.nan) for name, measure in measures.items()
    }


_LONG_NAMES = {
    "spikes": "spikes of the training loss",
    "late": "spikes after the escape",
    "since": "epochs after the escape",
    "test": "test accuracy at the end",
}


def compare_interventions(
    trajectories: Mapping[str, xr.Dataset], config: DetectionConfig = DEFAULT_DETECTION
) -> xr.Dataset:
    """`spike_measures` of ensembles of the same runs, (remedy, run); the first ensemble
    is named UNCHANGED."""
    measures = {
        name: spike_measures(trajectory, config)
        for name, trajectory in trajectories.items()
    }
    variables = {
        name: (
            ("remedy", "run"),
            np.stack([measure[name] for measure in measures.values()]),
            dimensionless(text),
        )
        for name, text in _LONG_NAMES.items()
    }
    seeds = next(iter(trajectories.values()))["seed"].values
    return xr.Dataset(variables, {"remedy": list(measures), "seed": ("run", seeds)})


def ensemble_mean(result: xr.Dataset, remedy: str, name: str) -> Interval:
    """Mean of one of MEASURES in an ensemble, with its 95% interval; the rate is that
    of all runs together."""
    if name == "rate":
        rate = _jackknife_rate(
            *(result[word].sel(remedy=[remedy]).values for word in ("late", "since"))
        )
        return rate._replace(low=float(np.maximum(rate.low, 0)))
    values = result[name].sel(remedy=remedy).values
    return mean_interval(
        values[np.isfinite(values)],
        discrete=name == "spikes",
        limits=(0, _LARGEST[name]),
    )


def intervention_effect(result: xr.Dataset, remedy: str, name: str) -> Interval:
    """Mean change of one of MEASURES by an intervention, in pairs of runs, with its 95%
    interval."""
    if name == "rate":
        return _jackknife_rate(
            *(
                result[word].sel(remedy=[UNCHANGED, remedy]).values
                for word in ("late", "since")
            )
        )
    return mean_interval(
        paired_effects(result, remedy, name),
        discrete=name == "spikes",
        limits=(-_LARGEST[name], _LARGEST[name]),
    )


def paired_effects(result: xr.Dataset, remedy: str, name: str) -> np.ndarray:
    """The change of a measure in each run in which it is finite with and without the
    intervention, (pair,)."""
    change = (
        result[name].sel(remedy=remedy) - result[name].sel(remedy=UNCHANGED)
    ).values
    return change[np.isfinite(change)]


def _jackknife_rate(counts: np.ndarray, epochs: np.ndarray) -> Interval:
    """A rate per 1000 epochs of all runs together, or the difference of the second and
    the first rate.

    counts, epochs: (one or two, run). The interval is a jackknife interval over runs.
    """
    finite = np.isfinite(counts).all(axis=0) & np.isfinite(epochs).all(axis=0)
    counts, epochs = counts[:, finite], epochs[:, finite]
    totals = counts.sum(axis=1, keepdims=True)
    total_epochs = epochs.sum(axis=1, keepdims=True)
    signs = np.array([1.0]) if len(counts) == 1 else np.array([-1.0, 1.0])
    with np.errstate(divide="ignore", invalid="ignore"):
        value = float(signs @ (1000 * totals / total_epochs)[:, 0])
        without = signs @ (1000 * (totals - counts) / (total_epochs - epochs))
    return leave_one_out_interval(value, [without])


def mcnemar_p_value(result: xr.Dataset, remedy: str) -> float:
    """p-value of McNemar's exact test that as many runs gain success by the
    intervention as lose it."""
    before, after = (
        exceeds(result["test"].sel(remedy=name).values, SUCCESS_ACCURACY)
        for name in (UNCHANGED, remedy)
    )
    gained, lost = int((after & ~before).sum()), int((before & ~after).sum())
    return (
        float(stats.binomtest(gained, gained + lost).pvalue)
        if gained + lost
        else float("nan")
    )


def intervention_table(result: xr.Dataset) -> pd.DataFrame:
    """One row per ensemble: MEASURES and the changes by the intervention (`_gain`),
    each with its 95% interval."""
    rows = []
    for remedy in map(str, result["remedy"].values):
        test = result["test"].sel(remedy=remedy).values
        changed = remedy != UNCHANGED
        row = {"remedy": remedy, "runs": int(np.isfinite(test).sum())}
        row["escaped"] = int((result["since"].sel(remedy=remedy).values > 0).sum())
        for name in MEASURES:
            row |= interval_columns(name, ensemble_mean(result, remedy, name))
            gain = intervention_effect(result, remedy, name) if changed else NO_INTERVAL
            row |= interval_columns(f"{name}_gain", gain)
        row["successes"] = int(exceeds(test, SUCCESS_ACCURACY).sum())
        rows.append(
            row | {"p_value": mcnemar_p_value(result, remedy) if changed else np.nan}
        )
    return make_table(rows)
