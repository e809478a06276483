"""What two trajectories have in common and what not: the numbers of a comparison, and the tests of their differences.

Nothing here asks which system wrote a trajectory. All values are dimensionless.
"""

import warnings
from typing import NamedTuple

import numpy as np
import xarray as xr
from scipy import stats

from analysis.statistics.intervals import Interval, binomial_interval, mean_interval
from analysis.statistics.resampling import mean_distance_between, mean_distance_within
from analysis.structures.circles_and_grids import circularity, count_imperfections, is_circle
from analysis.structures.embedding_motion import (
    departure_times,
    embedding_displacement,
    embedding_speed,
    on_normalised_time,
)
from analysis.structures.procrustes import end_shape_distances, match_shapes, procrustes_distance
from dynamics.errors import TrajectoryError
from dynamics.randomness import random_stream
from dynamics.trajectory.diverged import mask_diverged, not_diverged

PERMUTATIONS = 2000
QUARTILES = (0.25, 0.5, 0.75)
SIDES = ("first", "second")


def compare_trajectories(first: xr.Dataset, second: xr.Dataset) -> xr.Dataset:
    """What two trajectories of as many tokens have in common and what not.

    By run of each side, NaN where a run diverged: `circle`, `imperfections`, `circularity` of the end state,
    `escape`, and `from_start`, the shape distance of the end from the run's own start, each as first_... (first_run)
    and second_... (second_run). By side and normalised time, quartiles over runs: `speed`, `displacement`, and
    `gradient_norm` (a network's gradient, particles' force) of the embedding. Shape distances of the end states:
    `between` (first_run, second_run), `within_first`, `within_second`. Attribute paired: whether runs of equal seed
    begin at the same shape. Raises TrajectoryError.
    """
    for trajectory in (first, second):
        check_comparable(trajectory, first)
    sides = list(zip((first, second), SIDES, strict=True))
    curves = xr.concat([_curves(each) for each, _ in sides], xr.Variable("side", list(SIDES)), join="exact")
    found = curves.assign({name: values for each, side in sides for name, values in _by_run(each, side).items()})
    for name, (a, b) in {"between": (0, 1), "within_first": (0, 0), "within_second": (1, 1)}.items():
        dims = (f"{SIDES[a]}_run", f"{SIDES[b]}_run" if a != b else "other_run")
        distances = end_shape_distances(sides[a][0], sides[b][0]).transpose("run", "other_run").values
        if a == b:
            dims = (dims[0], f"{SIDES[a]}_other_run")
            np.fill_diagonal(distances, np.nan)
        found[name] = (dims, distances)
    for each, side in sides:
        found[f"{side}_seed"] = (f"{side}_run", each["seed"].values)
    return found.assign_attrs(paired=int(_paired(first, second)))


def check_comparable(trajectory: xr.Dataset, other: xr.Dataset) -> None:
    """See that two trajectories can be compared. Raises TrajectoryError."""
    if "embedding" not in trajectory:
        raise TrajectoryError("variable embedding: missing; a run with record=metrics cannot be compared")
    if trajectory.sizes["step"] < 2:
        raise TrajectoryError("dimension step: found a single frame, expected at least two")
    found, expected = trajectory.sizes["token"], other.sizes["token"]
    if found != expected:
        raise TrajectoryError(f"dimension token: found {expected} and {found}, expected as many in both trajectories")


def _by_run(trajectory: xr.Dataset, side: str) -> dict[str, tuple[str, np.ndarray]]:
    alive = not_diverged(trajectory)
    start, ends = (
        trajectory["embedding"].isel(step=at).transpose("run", "token", "axis").values[alive] for at in (0, -1)
    )
    found = {}
    for name, values in {
        "circle": is_circle(ends),
        "imperfections": count_imperfections(ends),
        "circularity": circularity(ends),
        "escape": departure_times(trajectory).values[alive],
        "from_start": match_shapes(start, ends).distance,
    }.items():
        whole = np.full(len(alive), np.nan)
        whole[alive] = values
        found[f"{side}_{name}"] = (f"{side}_run", whole)
    return found


def _curves(trajectory: xr.Dataset) -> xr.Dataset:
    """Quartiles over runs on an even grid of normalised time."""
    norm = trajectory["gradient_norm"]
    if "embedding" in norm["layer"]:  # else points are moved by parameters of other names
        norm = norm.sel(layer=["embedding"])
    force = mask_diverged((norm.astype(np.float64) ** 2).sum("layer") ** 0.5, trajectory)
    curves = {
        "speed": embedding_speed(trajectory),
        "displacement": embedding_displacement(trajectory),
        "gradient_norm": force,
    }
    found = {}
    for name, curve in curves.items():
        even = on_normalised_time(curve).transpose("run", "normalised_time")
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", RuntimeWarning)  # where every run is NaN, so is the quartile
            quartiles = np.nanquantile(even.values, QUARTILES, axis=0)
        found[name] = (("quantile", "normalised_time"), quartiles)
    coords = {"quantile": list(QUARTILES), "normalised_time": even["normalised_time"].values}
    return xr.Dataset(found, coords)


def _paired(first: xr.Dataset, second: xr.Dataset) -> bool:
    """Whether both have the same seeds in the same order and begin at the same shapes, of which two points have one."""
    if (
        first.sizes["axis"] != second.sizes["axis"]
        or first.sizes["token"] < 3
        or not np.array_equal(first["seed"], second["seed"])
    ):
        return False
    starts = [each["embedding"].isel(step=0).transpose("run", "token", "axis").values for each in (first, second)]
    return bool((procrustes_distance(*starts) < 1e-3).all())


# ------------------------------------------------------------------------------------------ as sentences


class ComparisonLine(NamedTuple):
    """A quantity of both sides, and how likely so large a difference is where there is none."""

    name: str
    first: Interval
    second: Interval | None
    p_value: float
    test: str


def comparison_lines(found: xr.Dataset) -> list[ComparisonLine]:
    """The table of a comparison. Raises nothing: what has no value is NaN."""
    paired = bool(found.attrs["paired"])
    circles = [found[f"{side}_circle"].values for side in SIDES]
    first, second = (binomial_interval(int(np.nansum(each)), int(np.isfinite(each).sum())) for each in circles)
    result = [ComparisonLine("circles, share", first, second, *_circle_test(circles[0], circles[1], paired))]
    for name, words in (
        ("imperfections", "imperfections of the others"),
        ("circularity", "largest norm / smallest"),
        ("escape", "escape, share of the time"),
        ("from_start", "shape distance from own start"),
    ):
        a, b = (found[f"{side}_{name}"].values for side in SIDES)
        if name == "imperfections":
            a, b = (np.where(circle == 0, each, np.nan) for each, circle in zip((a, b), circles, strict=True))
        result.append(
            ComparisonLine(words, mean_interval(_finite(a)), mean_interval(_finite(b)), *_location_test(a, b, paired))
        )
    first, second = (mean_distance_within(_finite_block(found[f"within_{side}"].values)) for side in SIDES)
    result.append(ComparisonLine("shape distance within", first, second, float("nan"), ""))
    between = mean_distance_between(_finite_block(found["between"].values), paired)
    result.append(ComparisonLine("shape distance between", between, None, float("nan"), ""))
    return result + (_paired_lines(found) if paired else [])


def _circle_test(first: np.ndarray, second: np.ndarray, paired: bool) -> tuple[float, str]:
    """How likely so different shares are of equal chances: McNemar's exact test of pairs, else Fisher's."""
    if paired:
        both = np.isfinite(first) & np.isfinite(second)
        one, other = ((first > second)[both].sum(), (second > first)[both].sum())
        return (float(stats.binomtest(int(one), int(one + other)).pvalue) if one + other else 1.0), "McNemar"
    samples = [_finite(each) for each in (first, second)]
    if not all(map(len, samples)):
        return float("nan"), "Fisher"
    table = [[int(each.sum()), len(each) - int(each.sum())] for each in samples]
    return float(stats.fisher_exact(table).pvalue), "Fisher"


def _location_test(first: np.ndarray, second: np.ndarray, paired: bool) -> tuple[float, str]:
    """How likely so different values are of one distribution: Wilcoxon's signed ranks of pairs, else Mann-Whitney."""
    if paired:
        difference = _finite(first - second)
        if not len(difference):
            return float("nan"), "Wilcoxon"
        return (float(stats.wilcoxon(difference).pvalue) if np.any(difference) else 1.0), "Wilcoxon"
    a, b = _finite(first), _finite(second)
    return (float(stats.mannwhitneyu(a, b).pvalue) if len(a) and len(b) else float("nan")), "Mann-Whitney"


def _paired_lines(found: xr.Dataset) -> list[ComparisonLine]:
    """How alike runs end that began alike; beside it what would be were they not paired.

    Both ends may be alike for no other reason than that neither is far from the start they share: what their
    distance from each other has to be set against is that from the start, in the last line.
    """
    a, b, between = found["first_circle"].values, found["second_circle"].values, found["between"].values
    both = np.isfinite(a) & np.isfinite(b)
    a, b, between = a[both] == 1, b[both] == 1, between[np.ix_(both, both)]
    count = len(a)
    if count < 2:
        return []
    table = [[int((a & b).sum()), int((a & ~b).sum())], [int((~a & b).sum()), int((~a & ~b).sum())]]
    chance = a.mean() * b.mean() + (1 - a.mean()) * (1 - b.mean())
    same = binomial_interval(int((a == b).sum()), count)
    kinds = float(stats.fisher_exact(table).pvalue)
    own, generator = np.diag(between), random_stream(0, "compare/permutations")
    means = [between[np.arange(count), generator.permutation(count)].mean() for _ in range(PERMUTATIONS)]
    by_chance = float((1 + sum(mean <= own.mean() for mean in means)) / (1 + PERMUTATIONS))
    nearest = int((between.argmin(axis=1) == np.arange(count)).sum())
    found_out = float(stats.binomtest(nearest, count, 1 / count).pvalue)
    nearer = [int((own < found[f"{side}_from_start"].values[both]).sum()) for side in SIDES]
    first, second = (binomial_interval(each, count) for each in nearer)
    nearest_share = binomial_interval(nearest, count)
    return [
        ComparisonLine("pairs of one structure; unpaired", same, _alone(chance), kinds, "Fisher"),
        ComparisonLine(
            "shape distance of pairs; unpaired",
            mean_interval(own),
            _alone(np.mean(means)),
            by_chance,
            "permutation, one-sided",
        ),
        ComparisonLine("nearest is own partner; unpaired", nearest_share, _alone(1 / count), found_out, "binomial"),
        ComparisonLine("nearer to partner than to own start", first, second, float("nan"), ""),
    ]


def _alone(value: float) -> Interval:
    """A number that has no interval."""
    return Interval(float(value), float("nan"), float("nan"))


def _finite(values: np.ndarray) -> np.ndarray:
    return values[np.isfinite(values)]


def _finite_block(distances: np.ndarray) -> np.ndarray:
    """Distances between the runs that have some."""
    some = np.isfinite(distances)
    return distances[some.any(axis=1)][:, some.any(axis=0)]
