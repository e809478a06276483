"""NA: the phases of training, and the measures that change before the network
generalises."""

import dataclasses
from collections.abc import Sequence
from typing import Any

import numpy as np
import xarray as xr

from analysis import progress_measures
from analysis.output.results import dimensionless
from analysis.progress_measures.logit_components import KEY_FRACTION
from analysis.reproduction.verification import (
    Estimate,
    Measure,
    Params,
    RequiredRuns,
    Runner,
    declare_experiment,
    samples,
)
from analysis.statistics.intervals import NO_INTERVAL
from analysis.structures.formation_times import halfway_time
from dynamics.settings import TRANSFORMER_PRESETS
from dynamics.trajectory.diverged import not_diverged

SERIES = (
    "restricted_loss",
    "excluded_loss",
    "embedding_gini",
    "map_gini",
    "squared_weights",
)
"""Of the progress measures, those of NA."""
THRESHOLDS = {
    "memorised": progress_measures.MEMORISED,
    "generalised": progress_measures.GENERALISED,
}
"""Training and test accuracy above which a network has memorised or generalised."""
FALLING = ("test_loss", "restricted_loss", "squared_weights")
"""Measures that fall when a network generalises; the others rise."""


def ensembles(params: Params) -> Sequence[RequiredRuns]:
    """Networks of a preset."""
    settings = dataclasses.replace(
        TRANSFORMER_PRESETS[params["preset"]], **params.get("settings", {})
    )
    return [
        RequiredRuns(
            settings,
            params["runs"],
            params["epochs"],
            params["every"],
            must=("n", "weight_decay"),
        )
    ]


def measure(runner: Runner, params: Params) -> xr.Dataset:
    """Times and phases of the networks that have not diverged, and their measures along
    training (run, step)."""
    (need,) = ensembles(params)
    trajectory = runner.ensemble(need)
    trajectory = trajectory.isel(run=not_diverged(trajectory))
    result = progress_measures.measure_progress(
        trajectory, frames=trajectory.sizes["step"]
    )
    names = [*SERIES, "memorised", "generalised", "begin", "end"]
    evidence = result[names].assign_coords(
        step=result["step"].values / result.attrs["unit"]
    )
    for name in ("memorised", "generalised", "begin", "end"):
        evidence[name] = (evidence[name] / result.attrs["unit"]).assign_attrs(
            result[name].attrs, units="1"
        )
    for name in ("loss", "accuracy"):
        values = trajectory[name].sel(split="test").transpose("run", "step").values
        evidence[f"test_{name}"] = (
            ("run", "step"),
            values,
            dimensionless(f"{name} of the test pairs"),
        )
    count = result["key_frequency"].sum("frequency").values
    evidence["keys"] = (
        "run",
        count,
        dimensionless("number of key frequencies at the end"),
    )
    return evidence.drop_vars("seed").assign_attrs(preset=params["preset"])


PHASES, SMALL = (
    declare_experiment(
        name,
        measure,
        ensembles,
        depends={**THRESHOLDS, "keys": KEY_FRACTION},
    )
    for name in ("na.phases", "na.small")
)


# ---------------------------------------------------------------------------- estimates


def of_preset(
    evidence: xr.Dataset, preset: str, estimator: Measure, **selection: Any
) -> Estimate:
    """An estimate that is compared with a number of the runs of a preset; skipped for
    another."""
    if evidence.attrs["preset"] != preset:
        note = "the number is of another modulus than that of this size"
        return Estimate(NO_INTERVAL, 0, note=note, skipped=True)
    return estimator(evidence, **selection)


def measure_in_phases(
    evidence: xr.Dataset, measure: str, estimator: Measure, **selection: Any
) -> Estimate:
    """An estimate from the `value` of a measure at both edges of phases, (run, phase,
    edge), and its `pace`, the change per epoch in the direction in which it changes,
    (run, phase)."""
    edges = evidence[["begin", "end"]].to_array("edge").transpose("run", "phase", ...)
    series = evidence[measure].transpose("run", "step").values
    steps = evidence["step"].values
    runs = zip(edges.values, series, strict=True)
    values = [np.interp(times, steps, values) for times, values in runs]
    value = edges.copy(data=np.reshape(values, edges.shape))
    change, epochs = (
        array.sel(edge="end") - array.sel(edge="begin") for array in (value, edges)
    )
    pace = direction(measure) * (change / epochs.where(epochs > 0))
    return estimator(xr.Dataset({"value": value, "pace": pace}), **selection)


def direction(measure: str) -> int:
    """1 for a measure that rises when a network generalises, -1 for one that falls."""
    return -1 if measure in FALLING else 1


def half_lead(evidence: xr.Dataset, measure: str) -> Estimate:
    """Epochs from half of a measure's change to half of the test loss's fall, both
    after memorisation. A change is that from memorisation to the last frame."""
    return samples.paired_difference(
        _half_times(evidence, "test_loss"), _half_times(evidence, measure)
    )


def _half_times(evidence: xr.Dataset, measure: str) -> np.ndarray:
    """When a measure is last half-way between memorisation and the end, NaN for runs in
    which it does not change in its direction: (run,)."""
    times = np.full(evidence.sizes["run"], np.nan)
    for run in np.flatnonzero(np.isfinite(evidence["memorised"].values)):
        one = evidence.isel(run=run)
        later = one.isel(step=one["step"].values >= float(one["memorised"]))
        falling = -direction(measure) * later[measure].values
        if np.isfinite(falling).all() and falling[-1] < falling[0]:
            times[run] = halfway_time(falling, later["step"].values)
    return times
