"""Several measures of the same runs on one time axis, with the events of the loss, and
what changes first.

For two measures x and y of R runs, the rank correlation at lag l is Spearman's
correlation of the change of x from frame t to t + 1 with that of y from t + l to t + l
+ 1, averaged over runs in Fisher's z. If x changes first, it is largest at a positive
lag. Expected by chance is the 95% quantile of the largest one over lags when x of run r is compared with y
of run r + k, for all k from 1 to R - 1 (circular shifts of the runs, which keep what
all runs have in common). A single run is shifted in time instead. A run in which a
measure does not change has no correlation and is left out.

All correlations are dimensionless; lags are in frames that both measures have."""

from collections.abc import Sequence
from itertools import combinations
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import xarray as xr
from scipy import stats

from analysis import loss_geometry, structures
from analysis.output.files import plain_stem
from analysis.output.result_origin import is_result_of
from analysis.output.results import dimensionless
from analysis.statistics.division import ratio
from analysis.statistics.intervals import Interval, drop_non_finite
from analysis.statistics.run_success import evaluation_split
from analysis.transitions.gradient_peaks import fisher_z, mean_rank_correlation
from analysis.transitions.loss_events import (
    ESCAPE_CRITERIA,
    default_scalar_name,
    event_table,
    trajectory_scalar,
)
from dynamics.errors import TrajectoryError
from dynamics.recording.model_file import ModelFile
from dynamics.settings import SettingsError
from dynamics.trajectory.diverged import mask_diverged
from dynamics.trajectory.netcdf import NETCDF_LOCK, READ_ERRORS

MOST_LAGS = 10
"""Largest lag in frames."""

MEASURES = ("llc", "sharpness", "noise_scale", "rank", "formation")
"""Measures that are computed at the selected frames. Rank: mean effective rank of the
layers. Formation: norm ratio of the embedding."""


def compute_measure(
    name: str,
    trajectory: xr.Dataset,
    frames: Sequence[int],
    functions: ModelFile | None,
) -> xr.DataArray:
    """One of MEASURES at some frames, (run, step)."""
    match name:
        case "llc":
            return loss_geometry.learning_coefficients(
                trajectory, frames, functions=functions
            )["llc"]
        case "sharpness":
            return loss_geometry.sharpness(trajectory, frames, functions)
        case "noise_scale":
            return loss_geometry.gradient_noise(
                trajectory, frames, modes=1, functions=functions
            )["noise_scale"]
        case "rank":
            spectra = loss_geometry.weight_spectra(trajectory, frames)
            return spectra["effective_rank"].mean("layer")
        case _:  # formation
            selected = trajectory.isel(step=list(frames))
            return structures.structure_measures(selected)["norm_ratio"]


def stored_measure(trajectory: xr.Dataset, name: str) -> xr.DataArray | None:
    """A variable (run, step) of a result file beside the trajectory, RUN-ANALYSIS.nc,
    if there is one of this trajectory; runs are matched by seed."""
    source = trajectory.encoding.get("source")
    if source is None:
        return None
    path = Path(source)
    for file in sorted(path.parent.glob(f"{plain_stem(path)}-*.nc")):
        try:
            with NETCDF_LOCK, xr.open_dataset(file) as result:
                of_this = is_result_of(result, trajectory, path.name)
                if not of_this or name not in result:
                    continue
                if set(result[name].dims) != {"run", "step"}:
                    continue
                by_seed = result[name].load().swap_dims(run="seed")
        except READ_ERRORS:  # damaged, or no result
            continue
        values = by_seed.reindex(seed=trajectory["seed"].values)
        return values.swap_dims(seed="run")
    return None


def overview_measure(
    trajectory: xr.Dataset,
    name: str,
    frames: Sequence[int],
    functions: ModelFile | None = None,
) -> xr.DataArray:
    """One measure at every recorded step (run, step), NaN where it is not measured: a
    scalar of `trajectory_scalar`, a variable of a result file beside the trajectory or
    of the trajectory, or one of MEASURES. Raises SettingsError, TrajectoryError."""
    values = stored_measure(trajectory, name)
    if name in ESCAPE_CRITERIA:
        values = trajectory_scalar(trajectory, name)
    elif values is None and name in MEASURES:
        values = compute_measure(name, trajectory, frames, functions)
    elif values is None and name in trajectory:
        values = mask_diverged(trajectory[name], trajectory)
        if "split" in values.dims:
            values = values.sel(split=evaluation_split(trajectory))
    if values is None or set(values.dims) != {"run", "step"}:
        names = ", ".join([*ESCAPE_CRITERIA, *MEASURES])
        allowed = f"{names}, or a variable (run, step) of the file or of its results"
        raise SettingsError("show", name, allowed)
    values = values.transpose("run", "step").drop_attrs()
    return values.reset_coords(drop=True).reindex(step=trajectory["step"].values)


class LaggedCorrelation(NamedTuple):
    """Rank correlations of the changes of two measures."""

    by_lag: list[Interval]
    """Mean over runs with its t interval, at each lag."""
    runs: np.ndarray
    """(lag,), the number of runs that have a correlation."""
    lags: np.ndarray
    chance: float
    """95% quantile of the largest magnitude over lags of shifted runs."""
    p_value: float


def lagged_correlation(first: np.ndarray, second: np.ndarray) -> LaggedCorrelation:
    """The correlation of changes (run, frame) of two measures at lags of the second
    behind the first.

    Raises
    ------
    TrajectoryError
        With fewer than eight changes.

    Examples
    --------
    >>> change = np.random.default_rng(0).standard_normal((5, 40))
    >>> result = lagged_correlation(change, np.roll(change, 2, axis=1))
    >>> result.lags[np.argmax([value for value, _, _ in result.by_lag])].item()
    2
    """
    runs, count = first.shape
    if count < 8:
        what = f"{count} changes in frames that two measures have, expected 8 or more"
        raise TrajectoryError(f"dimension step: found {what}")
    most = min(MOST_LAGS, count // 5)
    shifts = np.arange(1, runs)
    if runs == 1:
        second = np.stack([np.roll(second[0], shift) for shift in range(count)])
        shifts = np.arange(2 * most + 1, count - 2 * most)
    lags = np.arange(-most, most + 1)
    products = []
    for lag in lags.tolist():
        early = first[:, max(0, -lag) : count - max(0, lag)]
        late = second[:, max(0, lag) : count - max(0, -lag)]
        products.append(_unit_ranks(early) @ _unit_ranks(late).T)
    by_pair = np.array(products)  # (lag, run, shifted run)
    rows = np.arange(runs)
    shifted = np.array(
        [by_pair[:, rows, (rows + shift) % len(second)] for shift in shifts]
    )
    own = by_pair[:, rows, rows]  # (lag, run)
    by_lag = [mean_rank_correlation(drop_non_finite(at_lag)) for at_lag in own]
    counts = np.isfinite(own).sum(axis=1)
    largest = _largest_magnitudes(shifted)
    observed = _largest_magnitudes(own[None])
    if not (len(observed) and len(largest)):
        return LaggedCorrelation(by_lag, counts, lags, np.nan, np.nan)
    reached = 1 + int((largest >= observed[0]).sum())
    chance = float(np.quantile(largest, 0.95))
    return LaggedCorrelation(by_lag, counts, lags, chance, reached / (1 + len(largest)))


def _largest_magnitudes(correlations: np.ndarray) -> np.ndarray:
    """The largest magnitude over lags of the mean correlation over runs, for each shift
    of (shift, lag, run) that has a correlation."""
    z = fisher_z(correlations)
    finite = np.isfinite(z)
    means = np.abs(ratio(np.where(finite, z, 0.0).sum(axis=-1), finite.sum(axis=-1)))
    some = np.isfinite(means).any(axis=1)
    return np.tanh(np.nanmax(means[some], axis=1))


def _unit_ranks(values: np.ndarray) -> np.ndarray:
    """Centred ranks of each row with norm 1; NaN for constant rows, which have no
    correlation."""
    ranks = stats.rankdata(values, axis=1)
    ranks -= ranks.mean(axis=1, keepdims=True)
    norms = np.linalg.norm(ranks, axis=1, keepdims=True)
    return ratio(ranks, norms)


def run_overview(
    trajectory: xr.Dataset,
    names: Sequence[str],
    frames: Sequence[int],
    functions: ModelFile | None = None,
) -> xr.Dataset:
    """Measures of the same runs, events of their loss, and lagged correlations.

    Parameters
    ----------
    trajectory : xr.Dataset
    names : sequence of str
        Measures, as `overview_measure` defines them.
    frames : sequence of int
        Indices along `step` at which measures are computed.
    functions : ModelFile, optional
        Functions of a recorded model.

    Returns
    -------
    xr.Dataset
        `measure` (name, run, step) with NaN where it is not measured; by pair of
        measures: `correlation` with `_low` and `_high` (pair, lag), `chance` and
        `p_value` (pair), and `runs` (pair, lag), the number of runs that have a
        correlation; `event_NAME` (event) as `event_table` has them.

    Raises
    ------
    SettingsError
        For an unknown measure.
    TrajectoryError
        If a measure needs what is not recorded, or two have too few frames in common.

    Examples
    --------
    >>> from dynamics import ModularSettings, simulate
    >>> settings = ModularSettings(n=5)
    >>> short = simulate(settings, runs=3, steps=60, every=2, progress=False)
    >>> overview = run_overview(short, ["loss", "rank"], range(31))
    >>> overview["pair"].values.tolist()
    ['loss, rank']
    """
    if len(set(names)) < len(names):
        raise SettingsError("show", " ".join(names), "each measure once")
    measures = [overview_measure(trajectory, name, frames, functions) for name in names]
    pairs: dict[str, LaggedCorrelation] = {}
    for (first, x), (second, y) in combinations(zip(names, measures, strict=True), 2):
        both = np.isfinite(x.values) & np.isfinite(y.values)
        steps = both.any(axis=0)
        runs = both[:, steps].all(axis=1)
        changes = [np.diff(item.values[runs][:, steps], axis=1) for item in (x, y)]
        if not runs.any():
            raise TrajectoryError(
                f"{first}, {second}: no run has both at the same steps"
            )
        pairs[f"{first}, {second}"] = lagged_correlation(*changes)
    lags = np.arange(-MOST_LAGS, MOST_LAGS + 1)
    intervals = np.full((len(pairs), len(lags), 3), np.nan)
    counts = np.zeros((len(pairs), len(lags)), int)
    for row, count, result in zip(intervals, counts, pairs.values(), strict=True):
        row[result.lags + MOST_LAGS] = result.by_lag
        count[result.lags + MOST_LAGS] = result.runs
    try:
        values = trajectory_scalar(trajectory, default_scalar_name(trajectory))
        events = event_table(values)
    except TrajectoryError:  # too few frames
        events = xr.Dataset()
    data: dict[Any, Any] = {f"event_{name}": events[name] for name in events.data_vars}
    meaning = "mean rank correlation of changes, the second later by lag frames"
    for name, array in zip(
        ("", "_low", "_high"), np.moveaxis(intervals, -1, 0), strict=True
    ):
        dims = ("pair", "lag")
        data[f"correlation{name}"] = (dims, array, dimensionless(meaning))
    meaning = "runs in which both measures change"
    data["runs"] = (("pair", "lag"), counts, dimensionless(meaning))
    for name in ("chance", "p_value"):
        data[name] = ("pair", [getattr(item, name) for item in pairs.values()])
    data["measure"] = (("name", "run", "step"), np.array(measures))
    coords = {
        "name": list(names),
        "step": trajectory["step"].values,
        "seed": ("run", trajectory["seed"].values),
        "pair": list(pairs),
        "lag": lags,
    }
    return xr.Dataset(data, coords, {"system": trajectory.attrs["system"]})
