"""Whether peaks of the gradient norm coincide with drops and spikes of the loss, over
all runs of a trajectory.

`analysis.transitions.gradient_peaks` defines peaks, events and the two baselines of
circular shifts. The rank correlation of a run is Spearman's correlation of the gradient
norm and the decrease of the loss since the previous frame, at a lag of the norm behind
the decrease; runs are treated as circular. Its mean over runs is computed in Fisher's z
and reported at the lag where it is farthest from 0; the value expected by chance is the
same statistic of shifted runs, for each shift at its own such lag. Slow trends of both
series produce a correlation that hardly depends on the lag, so the gain is the
correlation minus its mean at the largest lags, one window before and after.

All values are dimensionless. Lags of peaks are in epochs, or steps where there are no
epochs; lags of correlations are in frames, which have a time only if frames are evenly
spaced.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
import pandas as pd
import xarray as xr

from analysis.output.results import dimensionless
from analysis.output.tables import interval_columns, make_table
from analysis.statistics.intervals import (
    clustered_binomial_interval,
    drop_non_finite,
    mean_interval,
    median_interval,
)
from analysis.transitions import gradient_peaks
from analysis.transitions.detection import DEFAULT_DETECTION, DetectionConfig
from dynamics.progress import progress_bar
from dynamics.randomness import random_stream
from dynamics.trajectory.schema import check_variable_recorded

CHANCE_NAMES = ("by chance", "p value")
SHIFT_BASELINES = ("anywhere", "nearby")

_RANDOM_SHIFTS = 1000


def peak_coincidence(
    trajectory: xr.Dataset, config: DetectionConfig = DEFAULT_DETECTION
) -> xr.Dataset:
    """Compare peaks of the gradient norm of each layer with the drops and spikes of the
    loss.

    Parameters
    ----------
    trajectory : Dataset
        Networks, or particles, whose only event is their departure ("escape").
    config : DetectionConfig
        Thresholds of events and peaks.

    Returns
    -------
    Dataset
        By (layer, kind): `share`, the fraction of events with a peak, and `lag`, the
        median over runs of the median lag of a run, in epochs, or steps where there
        are no epochs, both with `_low` and `_high`;
        `total` and `matched`, numbers of events and of those with a peak. By (layer,
        kind, baseline): `by_chance`, the expected fraction, and `p_value`, one-sided.
        By layer: `correlation` with `_low` and `_high`, `correlation_lag`,
        `correlation_gain` with `_low` and `_high`, and `correlation_runs`, the number
        of runs that have a correlation, in which neither series is constant; by (layer,
        baseline):
        `correlation_by_chance` and `correlation_p_value`, two-sided; by (layer,
        frames): `correlation_at_lag`. By run: `events` (run, kind) and `peaks` (run,
        layer).

    Raises
    ------
    TrajectoryError
        If the trajectory has fewer than 20 frames, or neither a loss nor embeddings.

    Examples
    --------
    >>> from analysis.transitions import peak_coincidence
    >>> from dynamics import ParticleSettings, simulate
    >>> particles = simulate(ParticleSettings(n=7), runs=3, steps=60, progress=False)
    >>> peak_coincidence(particles)["events"].values.tolist()
    [[1], [1], [1]]
    """
    check_variable_recorded(trajectory, "gradient_norm")
    layers = [str(value) for value in trajectory["layer"].values]
    particles = "loss" not in trajectory
    kinds = ["escape"] if particles else ["drop", "spike"]
    width = config.width(trajectory.sizes["step"])
    tally = _Tally.empty(
        trajectory.sizes["run"], len(layers), len(kinds), 2 * width + 1
    )
    lags = np.arange(-width, width + 1)
    anywhere, nearby = (
        random_stream(0, f"gradients/{word}") for word in ("shifts", "nearby")
    )
    series = gradient_peaks.loss_and_norm_series(trajectory, config)
    for run, one in enumerate(progress_bar(series, desc="peaks", unit="run")):
        frames = len(one.falling)
        if frames < gradient_peaks.MIN_FRAMES:
            continue
        events = gradient_peaks.loss_events_by_kind(
            one.falling, particles, one.detection
        )
        tolerance = gradient_peaks.peak_tolerance(frames)
        shifts = gradient_peaks.nearby_shifts(frames, config.width(frames))
        tally.shifts[run] = len(shifts)
        # signed, because the same shifts are used for differences of frames, a series
        # that is one frame shorter
        shifts = np.where(shifts > frames / 2, shifts - frames, shifts)
        offsets = np.stack(
            [
                anywhere.integers(0, frames, _RANDOM_SHIFTS),
                nearby.choice(shifts, _RANDOM_SHIFTS),
            ]
        )
        for layer, norm in enumerate(one.norms):
            peaks = gradient_peaks.find_norm_peaks(norm, config)
            tally.peaks[run, layer] = len(peaks.frame)
            for index, kind in enumerate(kinds):
                counts = gradient_peaks.match_counts_by_shift(
                    events[kind], peaks, frames, tolerance
                )
                found_lags = gradient_peaks.peak_lags(
                    events[kind], peaks, tolerance, one.time
                )
                tally.add_events(
                    (run, layer, index), found_lags, counts[offsets % frames]
                )
            correlation = gradient_peaks.circular_rank_correlation(
                norm[1:], -np.diff(one.falling)
            )
            tally.add_correlation((run, layer), correlation, offsets, lags)
    statistics = _match_statistics(tally, layers, kinds).merge(
        _correlation_statistics(tally, layers, lags)
    )
    event_counts = (("run", "kind"), tally.total[:, 0], dimensionless("events"))
    meaning = dimensionless("peaks of the gradient norm")
    return statistics.assign(
        events=event_counts, peaks=(("run", "layer"), tally.peaks, meaning)
    ).assign_coords(seed=("run", trajectory["seed"].values))


class _Tally(NamedTuple):
    """Counts by run, layer and kind of event, and sums over runs with shifted peaks."""

    total: np.ndarray  # (run, layer, kind), number of events
    matched: np.ndarray  # (run, layer, kind), events with a peak
    lag: np.ndarray  # (run, layer, kind), median lag
    shifted: np.ndarray  # (baseline, layer, kind, shift), events with a shifted peak
    peaks: np.ndarray  # (run, layer), number of peaks
    shifts: np.ndarray  # (run,), number of different nearby shifts
    correlations: np.ndarray  # (run, layer, lag)
    shifted_z: np.ndarray  # (baseline, layer, shift, lag), Fisher's z of shifted runs

    @classmethod
    def empty(cls, runs: int, layers: int, kinds: int, lags: int) -> _Tally:
        shape = (runs, layers, kinds)
        shifted = (len(SHIFT_BASELINES), layers)
        return cls(
            total=np.zeros(shape, int),
            matched=np.zeros(shape, int),
            lag=np.full(shape, np.nan),
            shifted=np.zeros((*shifted, kinds, _RANDOM_SHIFTS)),
            peaks=np.zeros(shape[:2], int),
            shifts=np.ones(runs),
            correlations=np.full((*shape[:2], lags), np.nan),
            shifted_z=np.zeros((*shifted, _RANDOM_SHIFTS, lags)),
        )

    def add_events(self, at: tuple, lags: np.ndarray, shifted: np.ndarray) -> None:
        """Add the events of one kind in one run and one layer.

        lags (event,) from `peak_lags`; shifted (baseline, shift): numbers of events
        with a shifted peak."""
        self.total[at], self.matched[at] = len(lags), np.isfinite(lags).sum()
        self.shifted[:, *at[1:]] += shifted
        if np.isfinite(lags).any():
            self.lag[at] = np.nanmedian(lags)

    def add_correlation(
        self, at: tuple, circular: np.ndarray, offsets: np.ndarray, lags: np.ndarray
    ) -> None:
        """Add the correlation of one run and layer at all circular lags, unless it is
        undefined."""
        self.correlations[at] = circular[lags % len(circular)]
        if np.isfinite(circular[0]):
            self.shifted_z[:, at[1]] += gradient_peaks.fisher_z(circular)[
                (offsets[..., None] + lags) % len(circular)
            ]

    def p_values(self, reached: np.ndarray, runs: np.ndarray) -> np.ndarray:
        """p-values (baseline,) from the numbers of shifts that reach the observed
        value, for some runs (run,).

        For few runs the number of combinations of nearby shifts is small: the p-value
        is at least one over their number, with the observed combination included."""
        smallest = 1 / (1 + np.prod(self.shifts[runs]))
        return np.maximum((1 + reached) / (1 + _RANDOM_SHIFTS), [0.0, smallest])


def _match_statistics(tally: _Tally, layers: list[str], kinds: list[str]) -> xr.Dataset:
    """The fraction of events with a peak, and the lag, by layer and kind."""
    shape = (len(layers), len(kinds))
    values = np.full((8, *shape), np.nan)
    chance = np.full((2, *shape, len(SHIFT_BASELINES)), np.nan)
    for layer, kind in np.ndindex(shape):
        total, matched = tally.total[:, layer, kind], tally.matched[:, layer, kind]
        if not total.sum():
            continue
        shifted = tally.shifted[:, layer, kind] / total.sum()
        fraction = clustered_binomial_interval(matched, total)
        lag = tally.lag[:, layer, kind]
        reached = (shifted >= fraction.value - 1e-12).sum(axis=1)
        chance[:, layer, kind] = (
            shifted.mean(axis=1),
            tally.p_values(reached, total > 0),
        )
        median_lag = median_interval(drop_non_finite(lag))
        values[:, layer, kind] = (*fraction, *median_lag, total.sum(), matched.sum())
    names = "share, share low, share high, lag, lag low, lag high, total, matched"
    data = {}
    for words, value in zip(
        [*names.split(", "), *CHANCE_NAMES], [*values, *chance], strict=True
    ):
        dims = ("layer", "kind", "baseline")[: value.ndim]
        data[words.replace(" ", "_")] = (dims, value, dimensionless(words))
    return xr.Dataset(
        data, {"layer": layers, "kind": kinds, "baseline": list(SHIFT_BASELINES)}
    )


def _correlation_statistics(
    tally: _Tally, layers: list[str], lags: np.ndarray
) -> xr.Dataset:
    """The mean correlation over runs at the lag where it is farthest from 0, and the
    same for shifted runs."""
    values = np.full((7, len(layers)), np.nan)
    chance = np.full((2, len(layers), len(SHIFT_BASELINES)), np.nan)
    means = np.full((len(layers), len(lags)), np.nan)
    runs = np.isfinite(tally.correlations[..., 0]).sum(axis=0)
    for layer in range(len(layers)):
        finite = np.isfinite(tally.correlations[:, layer, 0])
        if not finite.any():
            continue
        value = tally.correlations[finite, layer]
        means[layer] = np.tanh(gradient_peaks.fisher_z(value).mean(axis=0))
        best = int(np.abs(means[layer]).argmax())
        shifted = np.tanh(np.abs(tally.shifted_z[:, layer] / finite.sum()).max(axis=-1))
        reached = (shifted >= abs(means[layer, best]) - 1e-6).sum(axis=1)
        chance[:, layer] = shifted.mean(axis=1), tally.p_values(reached, finite)
        gains = value[:, best] - value[:, [0, -1]].mean(axis=1)
        values[:, layer] = (
            *gradient_peaks.mean_rank_correlation(value[:, best]),
            lags[best],
            *mean_interval(gains, limits=(-2, 2)),
        )
    words = ("", "low", "high", "lag", "gain", "gain, low", "gain, high", *CHANCE_NAMES)
    data = {}
    for word, value in zip(words, [*values, *chance], strict=True):
        text = f"correlation, {word}".removesuffix(", ")
        name = text.replace(",", "").replace(" ", "_")
        dims = ("layer", "baseline")[: value.ndim]
        data[name] = (dims, value, dimensionless(f"rank {text}"))
    meaning = dimensionless("mean rank correlation at a lag of the norm")
    data["correlation_at_lag"] = (("layer", "frames"), means, meaning)
    data["correlation_runs"] = (
        ("layer",),
        runs,
        dimensionless("runs with a correlation"),
    )
    return xr.Dataset(
        data, {"layer": layers, "frames": lags, "baseline": list(SHIFT_BASELINES)}
    )


# -------------------------------------------------------------------------------- table


def frame_interval(trajectory: xr.Dataset) -> tuple[str, float]:
    """The unit of time, epoch or step, and the time between two frames; NaN if frames
    are not evenly spaced, by a tenth or more (the last, which is always recorded, may be
    nearer)."""
    clock = gradient_peaks.frame_clock(trajectory)
    gaps = np.diff(trajectory[clock].values)
    usual = float(np.median(gaps)) if gaps.size else np.nan
    uneven = np.abs(gaps[: max(1, len(gaps) - 1)] - usual) >= 0.1 * usual
    return clock, np.nan if uneven.any() else usual


def most_eventful_run(events: np.ndarray) -> int:
    """The run with most events of the first kind, in case of a tie with most of all
    kinds; events: (run, kind)."""
    return int((events[:, 0] * (1 + events.sum()) + events.sum(axis=1)).argmax())


def coincidence_table(result: xr.Dataset, frame: float) -> pd.DataFrame:
    """One row per layer and kind of event, and two for the correlation of each layer.

    frame: the time between two frames (`frame_interval`), for the lag of the
    correlation.
    """
    rows = []
    for layer in map(str, result["layer"].values):
        here = result.sel(layer=layer)
        for kind in map(str, result["kind"].values):
            one = here.sel(kind=kind)
            row = {
                "layer": layer,
                "measure": f"{kind}s with a peak",
                "number": int(np.nan_to_num(one["total"])),
            }
            row |= _with_bounds("value", one, "share") | _chance_columns(one)
            rows.append(row | _with_bounds("lag", one, "lag"))
        runs = int(here["correlation_runs"])
        row = {"layer": layer, "measure": "rank correlation", "number": runs}
        row |= _with_bounds("value", here, "correlation")
        row |= _chance_columns(here, "correlation_")
        rows.append(row | {"lag": float(here["correlation_lag"]) * frame})
        row = {"layer": layer, "measure": "more than at far lags", "number": runs}
        rows.append(row | _with_bounds("value", here, "correlation_gain"))
    return make_table(rows)


def _with_bounds(column: str, result: xr.Dataset, name: str) -> dict[str, float]:
    return interval_columns(
        column, [float(result[f"{name}{end}"]) for end in ("", "_low", "_high")]
    )


def _chance_columns(result: xr.Dataset, prefix: str = "") -> dict[str, float]:
    columns = {}
    for baseline in SHIFT_BASELINES:
        by_chance = result.sel(baseline=baseline)
        columns[baseline] = float(by_chance[f"{prefix}by_chance"])
        columns[f"p_value_{baseline}"] = float(by_chance[f"{prefix}p_value"])
    return columns
