"""All events of a trajectory in one dataset, and tables of them by run, by layer and by
trajectory."""

from __future__ import annotations

import dataclasses
from collections.abc import Sequence
from typing import Any, NamedTuple

import numpy as np
import pandas as pd
import xarray as xr

from analysis.output.tables import interval_columns, make_table
from analysis.statistics.intervals import Interval, drop_non_finite, median_interval
from analysis.statistics.run_success import success_mask
from analysis.statistics.survival import kaplan_meier, logrank_p_value
from analysis.transitions import loss_events
from analysis.transitions.detection import DEFAULT_DETECTION, DetectionConfig
from analysis.transitions.layer_motion import layer_motion_at_drops
from dynamics.settings import SUCCESS_ACCURACY, SettingsError, check_real
from dynamics.trajectory.diverged import not_diverged
from dynamics.trajectory.schema import time_unit


def analyse_events(
    trajectory: xr.Dataset,
    scalar: str | None = None,
    split: str | None = None,
    escape_fraction: float | None = None,
    config: DetectionConfig = DEFAULT_DETECTION,
) -> xr.Dataset:
    """Detect the events of a scalar in every run, its escapes and first two drops, and
    the motion of layers in them.

    Parameters
    ----------
    trajectory : Dataset
    scalar : {"loss", "gradient", "force", "speed"}, optional
        Default: the loss, or the force of a system without a loss, or, if no norms were
        recorded either, the speed.
    split : str, optional
        The split of a loss (default: the training split).
    escape_fraction : float, optional
        The change that counts as an escape, as a fraction of the first level (default:
        that of ESCAPE_CRITERIA).
    config : DetectionConfig
        Thresholds.

    Returns
    -------
    Dataset, dims event, run, phase, layer
        `event_NAME` (event) for each column of `event_table`, and `of_run`; the
        variables of `first_two_drops`, `plateau_escape_times` and
        `layer_motion_at_drops`; `seed`, `successful` and `alive` (run), the last for
        runs that have not diverged. All moments are steps; the attribute `unit` is the
        number of steps of a `unit_of_time` (epoch or step).

    Raises
    ------
    SettingsError, TrajectoryError
        As `trajectory_scalar`, and for a split of a scalar without splits or a fraction
        out of range.

    Examples
    --------
    >>> from analysis.transitions import analyse_events
    >>> from dynamics.settings import ParticleSettings
    >>> from dynamics.simulation import simulate
    >>> particles = simulate(ParticleSettings(n=5), runs=2, steps=30, progress=False)
    >>> result = analyse_events(particles)
    >>> result.attrs["scalar"], result["escaped"].sizes["run"]
    ('force', 2)
    """
    name = scalar or loss_events.default_scalar_name(trajectory)
    if split is not None and name != "loss":
        raise SettingsError("split", split, f"no value here: a {name} has no splits")
    if escape_fraction is not None:
        largest = 1e6 if loss_events.ESCAPE_CRITERIA[name].rising else 1
        escape_fraction = check_real(
            "escape_share", escape_fraction, positive=True, up_to=largest
        )
    values = loss_events.trajectory_scalar(trajectory, name, split)
    config = config.for_series(values)
    events = loss_events.event_table(values, config)
    drops = loss_events.first_two_drops(events, trajectory.sizes["run"])
    parts = [
        events.rename({name: f"event_{name}" for name in events.data_vars}),
        drops,
        loss_events.plateau_escape_times(values, escape_fraction, config),
        layer_motion_at_drops(trajectory, drops, config),
    ]
    result = xr.merge(parts).assign_coords(seed=trajectory["seed"].variable)
    words = {"long_name": "whether it ends above .98 test accuracy"}
    result["successful"] = ("run", success_mask(trajectory), words)
    words = {"long_name": "whether it has not diverged"}
    result["alive"] = ("run", not_diverged(trajectory), words)
    word, unit = time_unit(trajectory)
    return result.assign_attrs(
        system=trajectory.attrs.get("system", ""),
        scalar=name,
        unit_of_time=word,
        unit=unit,
        first_step=int(trajectory["step"][0]),
        **dataclasses.asdict(config),
    )


def reported_runs(result: xr.Dataset) -> np.ndarray:
    """The runs whose drops are summarised, (run,) bool: those that succeed, or all if
    none does."""
    successful = result["successful"].values
    return successful if successful.any() else np.ones(len(successful), bool)


def describe_reported_runs(result: xr.Dataset) -> str:
    """What `reported_runs` are, such as "4 of 5 runs, accuracy above .98; 1 left
    out"."""
    runs = reported_runs(result)
    if not result["successful"].any():
        return f"all {len(runs)} runs"
    left_out = len(runs) - runs.sum()
    accuracy = f"{SUCCESS_ACCURACY:g}".lstrip("0")
    words = f"{runs.sum()} of {len(runs)} runs, accuracy above {accuracy}"
    return f"{words}; {left_out} left out" if left_out else words


class TwoDropCounts(NamedTuple):
    """How many runs have two drops or more, one, and none, and how long the phase
    between two drops lasts."""

    two: int
    one: int
    none: int
    between: Interval
    """Median over runs, in the result's unit of time, with its 95% interval."""


def count_two_drops(drops: xr.Dataset, result: xr.Dataset) -> TwoDropCounts:
    """Counts of `drops` (from `first_two_drops`) among the `reported_runs` of a
    result."""
    runs = reported_runs(result)
    between = drops["between"].values[runs] / result.attrs["unit"]
    none, one, two = np.bincount(drops["drops"].values[runs].clip(max=2), minlength=3)
    median = median_interval(drop_non_finite(between))
    return TwoDropCounts(int(two), int(one), int(none), median)


def two_drops_by_window(
    values: xr.DataArray, config: DetectionConfig
) -> dict[float, xr.Dataset]:
    """`first_two_drops` of a scalar (run, step) with the window changed by some
    factors, by window."""
    result = {}
    for factor in (0.5, 2.0):
        changed = dataclasses.replace(config, window=min(0.5, factor * config.window))
        events = loss_events.event_table(values, changed)
        result[changed.window] = loss_events.first_two_drops(events, len(values))
    return result


# ------------------------------------------------------------------------------- tables


def run_event_table(result: xr.Dataset) -> pd.DataFrame:
    """Escape, first two drops and numbers of events by run; times in the result's unit
    of time."""
    unit = result.attrs["unit"]
    rows = []
    for run in range(result.sizes["run"]):
        one = result.isel(run=run)
        row = {"seed": int(one["seed"]), "escape": float(one["escape"]) / unit}
        row |= {name: int(one[name]) for name in ("escaped", "successful")}
        for phase in one["phase"].values:
            drop = one.sel(phase=phase)
            for name in loss_events.MOMENTS:
                row[f"{phase}_{name}"] = float(drop[name]) / unit
        row["between"] = float(one["between"]) / unit
        is_drop = (one["of_run"] == run) & (one["event_kind"] == "drop")
        middles = np.sort(one["event_middle"].values[is_drop.values]) / unit
        row["all_drops"] = " ".join(f"{middle:.1f}" for middle in middles)
        rows.append(
            row | {name: int(one[name]) for name in ("drops", "spikes", "rises")}
        )
    table = make_table(rows)
    has_more = (table["drops"] > 2).any()
    return table if has_more else table.drop(columns="all_drops")


def layer_motion_table(result: xr.Dataset) -> pd.DataFrame:
    """Relative speed and gradient lag of each layer at the drops: medians over
    `reported_runs` with 95% intervals."""
    runs = reported_runs(result)
    rows = []
    for layer in result["layer"].values:
        row: dict[str, Any] = {"layer": str(layer)}
        for name, unit in (("speed", 1.0), ("lag", result.attrs["unit"])):
            for phase in result["phase"].values:
                values = result[name].sel(layer=layer, phase=phase).values[runs] / unit
                median = median_interval(drop_non_finite(values))
                row |= interval_columns(f"{name}_{phase}", median)
        rows.append(row)
    return make_table(rows)


def escape_comparison(
    results: Sequence[xr.Dataset], names: Sequence[str]
) -> pd.DataFrame:
    """Median escape time of each result, with its 95% interval, and log-rank p-value
    against the first result.

    Times are counted from the first frame, which is not step 0 in a branch.
    `observed_until` is the longest time that a run was observed. Raises SettingsError
    if units of time differ."""
    rows: list[dict[str, Any]] = []
    samples = []
    first_unit = results[0].attrs["unit_of_time"]
    for name, result in zip(names, results, strict=True):
        unit = result.attrs["unit_of_time"]
        if unit != first_unit:
            words = f"{name}, whose time is counted in {unit}s"
            allowed = f"trajectories whose time is counted in {first_unit}s"
            raise SettingsError("others", words, allowed)
        steps = result["escape"].values - result.attrs["first_step"]
        samples.append((steps / result.attrs["unit"], result["escaped"].values))
        curve = kaplan_meier(*samples[-1])
        row = {
            "trajectory": name,
            "runs": curve.runs,
            "escaped": curve.events,
            "p_value": logrank_p_value(samples[0], samples[-1]) if rows else np.nan,
        }
        row |= interval_columns("median", curve.median)
        rows.append(row | {"observed_until": float(curve.time[-1])})
    return make_table(rows)
