"""Comparison of two trajectories of any systems: structures, motion and shapes, and
tests of their differences.

All values are dimensionless.
"""

from __future__ import annotations

import dataclasses
import math
import warnings
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np
import xarray as xr
from scipy import stats

from analysis.output.results import with_comments
from analysis.output.tables import Column, format_p_value, interval_columns
from analysis.statistics.intervals import (
    NO_INTERVAL,
    Interval,
    binomial_interval,
    drop_non_finite,
    mean_interval,
)
from analysis.statistics.ranks import mann_whitney_p_value
from analysis.statistics.resampling import mean_between_runs, mean_distance_within
from analysis.structures import embedding_motion
from analysis.structures.circles_and_grids import (
    count_imperfections,
    is_circle,
    norm_ratio,
)
from analysis.structures.finite_size import settings_of_size
from analysis.structures.procrustes import (
    end_shape_distances,
    match_shapes,
    procrustes_distance,
)
from dynamics.ensemble import Ensemble
from dynamics.errors import TrajectoryError
from dynamics.randomness import random_stream
from dynamics.settings import ParticleSettings
from dynamics.trajectory.diverged import mask_diverged, not_diverged
from dynamics.trajectory.schema import (
    EMBEDDING_LAYER,
    OPERATION,
    SUM,
    adds_numbers,
    check_variable_recorded,
    numbers_modulo,
)

COMPARED_SIDES = ("first", "second")

_PERMUTATIONS = 2000
_QUARTILES = (0.25, 0.5, 0.75)
_SAME_SHAPE = 1e-3
"""Largest shape distance between the first frames of a pair."""

_FEWEST_TOKENS = 3
"""Smallest number of tokens; all embeddings of one or two tokens have the same
shape."""


def compare_trajectories(first: xr.Dataset, second: xr.Dataset) -> xr.Dataset:
    """Compare the structures, the motion and the shapes of the embeddings of two
    trajectories.

    Parameters
    ----------
    first, second : xarray.Dataset
        Trajectories of any systems with the same number of tokens, at least 3. If
        tokens are numbers modulo N, those after the first N are left out.

    Returns
    -------
    xarray.Dataset
        By run of each side, as ``first_...`` (first_run) and ``second_...``
        (second_run), NaN for runs that diverged: `circle`, `imperfections` and
        `norm_ratio` of the last frame, `departure` (`departure_times`), and
        `from_start`, the shape distance of the last frame from the run's own first
        frame. Imperfections are NaN if tokens are no numbers, or are not added. By side, quantile and
        normalised time, quartiles over runs of `speed`, `displacement` and
        `gradient_norm` (the gradient of a network, the force on particles; NaN without
        norms) of the embedding. Shape distances of the last frames: `between`
        (first_run, second_run), `within_first` and `within_second`. Attribute `paired`:
        whether runs of equal seed begin at the same shape; if both sides have the same
        seeds in another order, the second is in that of the first. Attribute
        `not_paired`: why runs are not paired, or empty. Of a single frame, all that
        depends on time is NaN.

    Raises
    ------
    TrajectoryError
        For trajectories without embeddings, or with fewer than 3 or different numbers
        of tokens.

    Examples
    --------
    >>> from analysis.structures import compare_trajectories
    >>> from dynamics import ParticleSettings, simulate
    >>> weak, strong = (simulate(ParticleSettings(n=5, fa=fa), runs=3, steps=9, progress=False) for fa in (0.5, 2))
    >>> dict(compare_trajectories(weak, strong)["between"].sizes)
    {'first_run': 3, 'second_run': 3}
    """
    for trajectory in (first, second):
        check_comparable(trajectory, first)
    first, second = numbers_alone(first), numbers_alone(second)
    second = in_order_of_seeds(first, second)
    sides = list(zip((first, second), COMPARED_SIDES, strict=True))
    curves = xr.concat(
        [_curves(item) for item, _ in sides],
        xr.Variable("side", list(COMPARED_SIDES)),
        join="exact",
    )
    result = curves.assign(
        {
            name: values
            for item, side in sides
            for name, values in _by_run(item, side).items()
        }
    )
    result["between"] = (("first_run", "second_run"), _end_distances(first, second))
    for item, side in sides:
        distances = _end_distances(item, item)
        np.fill_diagonal(distances, np.nan)
        result[f"within_{side}"] = ((f"{side}_run", f"{side}_other_run"), distances)
        result[f"{side}_seed"] = (f"{side}_run", item["seed"].values)
    reason = _reason_not_paired(first, second)
    systems = {f"{side}_system": item.attrs["system"] for item, side in sides}
    result = result.assign_attrs(paired=int(not reason), not_paired=reason, **systems)
    comments = dict(_COMMENTS)
    for side in COMPARED_SIDES:
        comments |= {f"{side}_{name}": text for name, text in _RUN_COMMENTS.items()}
        comments[f"within_{side}"] = (
            f"shape distance of the end embeddings of two runs of the {side} trajectory"
        )
    return with_comments(result, comments)


_RUN_COMMENTS = {
    "circle": "whether the run ends as a circle (CA algorithm 1)",
    "imperfections": "grid imperfections at the end (CA algorithm 2)",
    "norm_ratio": "largest norm of a token over the smallest, at the end",
    "departure": (
        "normalised time at which the embedding first reaches half of its largest"
        " distance from the start"
    ),
    "from_start": "shape distance of the last frame from the first one of the run",
    "seed": "seed of the run",
}
"""What the variables of `compare_trajectories` by run are."""

_COMMENTS = {
    "speed": "quartiles over runs of the speed of the embedding",
    "displacement": "quartiles over runs of the displacement of the embedding",
    "gradient_norm": "quartiles over runs of the norm of the gradient, or of the force",
    "between": "shape distance of the end embeddings of runs of both trajectories",
    "quantile": "fraction of runs below the value",
    "normalised_time": "time from the first frame, 0, to the last one, 1",
    "side": "the first or the second trajectory",
}
"""What the other variables of `compare_trajectories` are."""


def _end_distances(first: xr.Dataset, second: xr.Dataset) -> np.ndarray:
    return end_shape_distances(first, second).transpose("run", "other_run").values


def numbers_alone(trajectory: xr.Dataset) -> xr.Dataset:
    """A trajectory without the tokens that are no numbers modulo N, if it has
    numbers."""
    return trajectory.isel(token=slice(trajectory.attrs["modulus"] or None))


def check_comparable(trajectory: xr.Dataset, other: xr.Dataset) -> None:
    """Raise TrajectoryError unless the two trajectories can be compared."""
    check_variable_recorded(trajectory, "embedding")
    tokens = numbers_alone(trajectory).sizes["token"]
    other_tokens = numbers_alone(other).sizes["token"]
    if tokens != other_tokens:
        allowed = "equal numbers in both trajectories"
        raise TrajectoryError(
            f"dimension token: found {other_tokens} and {tokens}, expected {allowed}"
        )
    if tokens < _FEWEST_TOKENS:
        allowed = (
            f"at least {_FEWEST_TOKENS}, since embeddings of fewer tokens all have the"
            " same shape"
        )
        raise TrajectoryError(f"dimension token: found {tokens}, expected {allowed}")


def simulate_particles_from(
    trajectory: xr.Dataset, source: Path, law: ParticleSettings, steps: int | None
) -> tuple[Path, xr.Dataset]:
    """Simulate particles that start at the first embeddings of a trajectory, run by
    run, or read them from runs/.

    source: the file of the trajectory. law: settings at N = 17; for other N the step
    size is scaled by `settings_of_size`. Raises TrajectoryError unless tokens are
    numbers and seeds are consecutive, and the errors of `simulate`."""
    n = numbers_modulo(trajectory)
    if not adds_numbers(trajectory):
        raise TrajectoryError(
            f"attribute {OPERATION}: found {trajectory.attrs[OPERATION]}, expected"
            f" {SUM}, which the forces between particles are for"
        )
    if not Path(source).is_file():
        how = "dynamics.save_trajectory(dynamics.open_trajectory(...), FILE) writes one"
        raise TrajectoryError(
            f"{source}: is not a single finished file, from which particles start;"
            f" {how}"
        )
    seeds = trajectory["seed"].values
    if (seeds != seeds[0] + range(len(seeds))).any():
        raise TrajectoryError(
            f"{source}: seeds are not consecutive, so particles cannot start at its"
            " embeddings"
        )
    tokens, dim = trajectory.sizes["token"], trajectory.sizes["axis"]
    if tokens != n:
        how = (
            f"particles need the embedding of the {n} numbers alone, as recorded with"
            f" rows={n}"
        )
        raise TrajectoryError(f"{source}: found {tokens} tokens, expected {n}; {how}")
    settings = dataclasses.replace(
        settings_of_size(law, tokens), dim=dim, start=str(source), start_step=0
    )
    ensemble = Ensemble(settings, len(seeds), int(seeds[0]), steps)
    return ensemble.path, ensemble.simulate(ensemble.path)


def _by_run(trajectory: xr.Dataset, side: str) -> dict[str, tuple[str, np.ndarray]]:
    finite = not_diverged(trajectory)
    starts = _frame_embedding(trajectory, 0)[finite]
    ends = _frame_embedding(trajectory, -1)[finite]
    has_sums = trajectory.attrs["modulus"] and adds_numbers(trajectory)
    measures = {
        "circle": is_circle(ends),
        "imperfections": count_imperfections(ends) if has_sums else np.nan,
        "norm_ratio": norm_ratio(ends),
        "departure": np.nan,
        "from_start": np.nan,
    }
    if trajectory.sizes["step"] > 1:
        departure = embedding_motion.departure_times(trajectory)
        measures["departure"] = departure.values[finite]
        measures["from_start"] = match_shapes(starts, ends).distance
    result = {}
    for name, values in measures.items():
        all_runs = np.full(len(finite), np.nan)
        all_runs[finite] = values
        result[f"{side}_{name}"] = (f"{side}_run", all_runs)
    return result


def _frame_embedding(trajectory: xr.Dataset, frame: int) -> np.ndarray:
    """The embedding (run, token, axis) at an index along step."""
    return (
        trajectory["embedding"]
        .isel(step=frame)
        .transpose("run", "token", "axis")
        .values
    )


def _curves(trajectory: xr.Dataset) -> xr.Dataset:
    """Quartiles over runs on an even grid of normalised time."""
    if trajectory.sizes["step"] < 2:
        twice = trajectory.isel(step=[0, 0]).assign_coords(time=("step", [0.0, 1.0]))
        return _curves(twice) * np.nan
    curves = {
        "speed": embedding_motion.embedding_speed(trajectory),
        "displacement": embedding_motion.embedding_displacement(trajectory),
        "gradient_norm": mask_diverged(_gradient_norm(trajectory), trajectory),
    }
    result = {}
    for name, curve in curves.items():
        even = embedding_motion.on_normalised_time(curve).transpose(
            "run", "normalised_time"
        )
        with warnings.catch_warnings():
            warnings.simplefilter(
                "ignore", RuntimeWarning
            )  # if every run is NaN, so is the quartile
            quartiles = np.nanquantile(even.values, _QUARTILES, axis=0)
        result[name] = (("quantile", "normalised_time"), quartiles)
    coords = {
        "quantile": list(_QUARTILES),
        "normalised_time": even["normalised_time"].values,
    }
    return xr.Dataset(result, coords)


def _gradient_norm(trajectory: xr.Dataset) -> xr.DataArray:
    """The norm of the gradient of the embedding, or of all parameters if it is not
    among the layers; NaN if there are no norms."""
    if "gradient_norm" not in trajectory:  # collected from checkpoints
        return xr.full_like(
            trajectory["embedding"].isel(token=0, axis=0, drop=True), np.nan, np.float64
        )
    norm = trajectory["gradient_norm"]
    layer = trajectory.attrs.get(EMBEDDING_LAYER, "embedding")
    if (
        layer in norm["layer"]
    ):  # a system defined elsewhere may have parameters of other names
        norm = norm.sel(layer=[layer])
    return (norm.astype(np.float64) ** 2).sum("layer") ** 0.5


def in_order_of_seeds(first: xr.Dataset, second: xr.Dataset) -> xr.Dataset:
    """The second trajectory with its runs in the order of the seeds of the first, if
    both have the same seeds, each once."""
    seeds = first["seed"].values
    others = second["seed"].values
    if len(np.unique(seeds)) < len(seeds) or sorted(seeds) != sorted(others):
        return second
    if (seeds == others).all():
        return second
    return second.isel(run=[int(np.flatnonzero(others == seed)[0]) for seed in seeds])


def _reason_not_paired(first: xr.Dataset, second: xr.Dataset) -> str:
    """Why runs are not paired; empty if runs of equal seed begin at the same shape."""
    if not np.array_equal(first["seed"], second["seed"]):
        return "seeds differ"
    if first.sizes["axis"] != second.sizes["axis"]:
        return "embeddings have different numbers of axes"
    distances = procrustes_distance(
        _frame_embedding(first, 0), _frame_embedding(second, 0)
    )
    if not (distances < _SAME_SHAPE).all():
        return "runs of equal seed begin at different shapes"
    return ""


# ---------------------------------------------------------------------------- the table


COMPARISON_COLUMNS = (
    Column("", "quantity"),
    *(Column(side, side, interval="bounds") for side in COMPARED_SIDES),
    Column("p", "p_value", text=format_p_value),
    Column("test", "test"),
)

_BY_RUN = {
    "imperfections": ("imperfections of the others", (0, math.inf)),
    "norm_ratio": ("largest norm / smallest", (1, math.inf)),
    "departure": ("departure, fraction of the time", (0, 1)),
    "from_start": ("shape distance from own start", (0, 1)),
}
"""Name in the table and possible range."""


def comparison_rows(comparison: xr.Dataset) -> list[dict[str, Any]]:
    """Rows of the table of a comparison: quantities of both sides with 95% intervals,
    and tests of the differences."""
    paired = bool(comparison.attrs["paired"])
    circles = [comparison[f"{side}_circle"].values for side in COMPARED_SIDES]
    fractions = [
        binomial_interval(int(np.nansum(item)), int(np.isfinite(item).sum()))
        for item in circles
    ]
    rows = [
        _row(
            "circles, fraction",
            fractions,
            *_circle_test(circles[0], circles[1], paired),
        )
    ]
    for name, (words, limits) in _BY_RUN.items():
        samples = [comparison[f"{side}_{name}"].values for side in COMPARED_SIDES]
        is_count = name == "imperfections"
        if is_count:
            samples = [
                np.where(circle == 0, counts, np.nan)
                for counts, circle in zip(samples, circles, strict=True)
            ]
        means = [
            mean_interval(drop_non_finite(values), is_count, limits)
            for values in samples
        ]
        rows.append(_row(words, means, *_location_test(samples[0], samples[1], paired)))
    within = [
        _within_unit(mean_distance_within(comparison[f"within_{side}"].values))
        for side in COMPARED_SIDES
    ]
    rows.append(_row("shape distance within", within))
    between = _within_unit(mean_between_runs(comparison["between"].values, paired))
    rows.append(_row("shape distance between", [between, NO_INTERVAL]))
    return rows + (_paired_rows(comparison) if paired else [])


def _row(
    quantity: str, sides: Sequence[Interval], p_value: float = math.nan, test: str = ""
) -> dict[str, Any]:
    """A quantity on both sides, and the p-value of its difference."""
    row: dict[str, Any] = {"quantity": quantity}
    for side, interval in zip(COMPARED_SIDES, sides, strict=True):
        row |= interval_columns(side, interval)
    return {**row, "p_value": p_value, "test": test}


def _within_unit(interval: Interval) -> Interval:
    """An interval of a distance, clipped to the range from 0 to 1."""
    return interval._replace(
        low=float(np.maximum(interval.low, 0)), high=float(np.minimum(interval.high, 1))
    )


def _circle_test(
    first: np.ndarray, second: np.ndarray, paired: bool
) -> tuple[float, str]:
    """P-value of equal fractions of circles: McNemar's exact test of pairs, else
    Fisher's. NaN for single runs, which no test compares."""
    if _are_single(first, second):
        return math.nan, ""
    if paired:
        both = np.isfinite(first) & np.isfinite(second)
        only_first = int((first > second)[both].sum())
        unequal = int((first != second)[both].sum())
        if not unequal:
            return 1.0, "McNemar"
        return float(stats.binomtest(only_first, unequal).pvalue), "McNemar"
    samples = [drop_non_finite(item) for item in (first, second)]
    if not all(map(len, samples)):
        return math.nan, "Fisher"
    table = [[int(sample.sum()), len(sample) - int(sample.sum())] for sample in samples]
    return float(stats.fisher_exact(table).pvalue), "Fisher"


def _location_test(
    first: np.ndarray, second: np.ndarray, paired: bool
) -> tuple[float, str]:
    """P-value of equal distributions: Wilcoxon's signed-rank test of pairs, else the
    Mann-Whitney test. NaN for single runs, which no test compares."""
    if _are_single(first, second):
        return math.nan, ""
    if paired:
        difference = drop_non_finite(first - second)
        if not len(difference):
            return math.nan, "Wilcoxon"
        if not difference.any():
            return 1.0, "Wilcoxon"
        return float(stats.wilcoxon(difference).pvalue), "Wilcoxon"
    p_value = mann_whitney_p_value(drop_non_finite(first), drop_non_finite(second))
    return p_value, "Mann-Whitney"


def _are_single(first: np.ndarray, second: np.ndarray) -> bool:
    return max(len(drop_non_finite(first)), len(drop_non_finite(second))) < 2


def _paired_rows(comparison: xr.Dataset) -> list[dict[str, Any]]:
    """Similarity of the ends of paired runs, which start at the same shape; the second
    column is for shuffled pairs.

    The ends of a pair may be similar only because neither is far from the common start.
    The distance between the ends therefore has to be compared with that from the start,
    in the last row."""
    first = comparison["first_circle"].values
    second = comparison["second_circle"].values
    both = np.isfinite(first) & np.isfinite(second)
    a = first[both] == 1
    b = second[both] == 1
    between = comparison["between"].values[np.ix_(both, both)]
    count = len(a)
    own = np.diag(between)
    generator = random_stream(0, "compare/permutations")
    distances = [mean_interval(own, limits=(0, 1)), NO_INTERVAL]
    if count < 2:
        return [_row("shape distance: of pairs; of shuffled pairs", distances)]
    table = [
        [int((a & b).sum()), int((a & ~b).sum())],
        [int((~a & b).sum()), int((~a & ~b).sum())],
    ]
    same_by_chance = a.mean() * b.mean() + (1 - a.mean()) * (1 - b.mean())
    means = [
        between[np.arange(count), generator.permutation(count)].mean()
        for _ in range(_PERMUTATIONS)
    ]
    nearest = int((between.argmin(axis=1) == np.arange(count)).sum())
    starts = [comparison[f"{side}_from_start"].values[both] for side in COMPARED_SIDES]
    nearer = [
        NO_INTERVAL
        if np.isnan(start).all()
        else binomial_interval((own < start).sum(), count)
        for start in starts
    ]
    alike = [
        binomial_interval(int((a == b).sum()), count),
        _without_bounds(same_by_chance),
    ]
    distances[1] = _without_bounds(float(np.mean(means)))
    partners = [binomial_interval(nearest, count), _without_bounds(1 / count)]
    by_permutation = float(
        (1 + sum(mean <= own.mean() for mean in means)) / (1 + _PERMUTATIONS)
    )
    by_count = float(stats.binomtest(nearest, count, 1 / count).pvalue)
    by_table = float(stats.fisher_exact(table).pvalue)
    return [
        _row(
            "both end in the same structure: pairs; by chance",
            alike,
            by_table,
            "Fisher",
        ),
        _row(
            "shape distance: of pairs; of shuffled pairs",
            distances,
            by_permutation,
            "permutation, one-sided",
        ),
        _row(
            "the partner has the nearest shape: pairs; by chance",
            partners,
            by_count,
            "binomial",
        ),
        _row("nearer to partner than to own start", nearer),
    ]


def _without_bounds(value: float) -> Interval:
    return Interval(float(value), math.nan, math.nan)
