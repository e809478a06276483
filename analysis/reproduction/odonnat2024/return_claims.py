"""VC appendix A.1: whether a spike of the loss takes the weights back to where they
were before it."""

import numpy as np
import xarray as xr

from analysis.reproduction.odonnat2024.circuit_claims import default_networks
from analysis.reproduction.odonnat2024.drop_measures import layer_path
from analysis.reproduction.verification import (
    Estimate,
    Params,
    Runner,
    declare_experiment,
    described,
    samples,
)
from analysis.transitions import DEFAULT_DETECTION, SeriesEvent, gradient_peaks

AFTER = 3
"""Frames after the peak of a spike in which the weights may return."""


def measure(runner: Runner, params: Params) -> xr.Dataset:
    """Fraction of the displacement in a spike that the next frames undo, median over
    the spikes of a run, and the same a window earlier: (run,)."""
    trajectory = runner.ensemble(default_networks(params)[0])
    names = trajectory["layer"].values.tolist()
    paths = np.concatenate([layer_path(trajectory, name) for name in names], axis=-1)
    window = DEFAULT_DETECTION.width(trajectory.sizes["step"])
    medians = []
    for path, one in zip(
        paths, gradient_peaks.loss_and_norm_series(trajectory), strict=True
    ):
        medians.append([np.nan, np.nan])
        if len(one.falling) < gradient_peaks.MIN_FRAMES:
            continue
        path = path[: len(one.falling)].astype(np.float64)
        spikes = gradient_peaks.loss_events_by_kind(one.falling, particles=False)
        fractions = [returned_fractions(path, s, window) for s in spikes["spike"]]
        if np.isfinite(fractions).any():
            medians[-1] = np.nanmedian(fractions, axis=0).tolist()
    returned, ordinary = np.transpose(medians)
    columns = {
        "returned": (returned, "fraction of the displacement that is undone"),
        "ordinary": (ordinary, "the same one window before the spike"),
    }
    return described("run", columns)


def returned_fractions(
    path: np.ndarray, spike: SeriesEvent, window: int
) -> tuple[float, float]:
    """Fraction of the displacement from the beginning of a spike to its peak that the
    frames after it undo, along its direction, and the same a window earlier; NaN where
    there are no such frames. path: (frame, parameter)."""
    begin, peak = int(spike.begin), round(spike.middle)
    return tuple(  # type: ignore[return-value]
        undone_fraction(path, begin - shift, peak - shift) for shift in (0, window)
    )


def undone_fraction(path: np.ndarray, begin: int, peak: int) -> float:
    """How much of the displacement between two frames the following frames undo: 1 if
    the path returns, 0 if it does not, negative if it goes on."""
    if not 0 <= begin < peak < len(path) - AFTER:
        return float("nan")
    moved, then = path[peak] - path[begin], path[peak + AFTER] - path[peak]
    square = float(moved @ moved)
    return float(-then @ moved) / square if square > 0 else float("nan")


RETURNS = declare_experiment(
    "vc.returns",
    measure,
    default_networks,
    depends={"after": AFTER, "events": DEFAULT_DETECTION},
)


def returned_percentage(evidence: xr.Dataset) -> Estimate:
    """Percentage of the displacement that is undone: median over runs."""
    ordinary = float(evidence["ordinary"].median())
    note = f"{100 * ordinary:.0f}% a window earlier" if np.isfinite(ordinary) else ""
    return samples.estimate_median(100 * evidence["returned"], "runs with spikes", note)
