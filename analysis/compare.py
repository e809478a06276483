"""Two trajectories side by side: structures, motion, shapes; and, where one is a network's, the force audit.

python -m analysis.compare A.nc B.nc

Nothing here asks which system wrote a trajectory, but for the audit, which needs a network's weights. Without a
second trajectory, particles are begun at the embeddings with which the first began, run by run, and it is said
how often both end in the same structure. All values are dimensionless.
"""

import dataclasses
import sys
from pathlib import Path
from typing import TYPE_CHECKING, NamedTuple

import tyro

from analysis.command import command
from dynamics.settings import ParticleSettings, SettingsError

if TYPE_CHECKING:
    import numpy as np
    import xarray as xr

    from analysis.intervals import Interval
    from analysis.tables import Row

PERMUTATIONS = 2000
QUARTILES = (0.25, 0.5, 0.75)
SIDES = ("first", "second")


# ------------------------------------------------------------------------------------------- the numbers


def comparison(first: "xr.Dataset", second: "xr.Dataset") -> "xr.Dataset":
    """What two trajectories of as many tokens have in common and what not.

    By run of each side, NaN where a run diverged: `circle`, `imperfections`, `circularity` of the end state,
    `escape`, and `from_start`, the shape distance of the end from the run's own start, each as first_... (first_run)
    and second_... (second_run). By side and normalised time, quartiles over runs: `speed`, `displacement`, and
    `gradient_norm` (a network's gradient, particles' force) of the embedding. Shape distances of the end states:
    `between` (first_run, second_run), `within_first`, `within_second`. Attribute paired: whether runs of equal seed
    begin at the same shape. Raises TrajectoryError.
    """
    import numpy as np
    import xarray as xr

    from analysis.shapes import end_distances

    for trajectory in (first, second):
        _check(trajectory, first)
    sides = list(zip((first, second), SIDES, strict=True))
    curves = xr.concat([_curves(each) for each, _ in sides], xr.Variable("side", list(SIDES)), join="exact")
    found = curves.assign({name: values for each, side in sides for name, values in _by_run(each, side).items()})
    for name, (a, b) in {"between": (0, 1), "within_first": (0, 0), "within_second": (1, 1)}.items():
        dims = (f"{SIDES[a]}_run", f"{SIDES[b]}_run" if a != b else "other_run")
        distances = end_distances(sides[a][0], sides[b][0]).transpose("run", "other_run").values
        if a == b:
            dims = (dims[0], f"{SIDES[a]}_other_run")
            np.fill_diagonal(distances, np.nan)
        found[name] = (dims, distances)
    for each, side in sides:
        found[f"{side}_seed"] = (f"{side}_run", each["seed"].values)
    return found.assign_attrs(paired=int(_paired(first, second)))


def _check(trajectory: "xr.Dataset", other: "xr.Dataset") -> None:
    from dynamics.storage import TrajectoryError

    if "embedding" not in trajectory:
        raise TrajectoryError("variable embedding: missing; a run with record=metrics cannot be compared")
    found, expected = trajectory.sizes["token"], other.sizes["token"]
    if found != expected:
        raise TrajectoryError(f"dimension token: found {expected} and {found}, expected as many in both trajectories")


def _valid(trajectory: "xr.Dataset") -> "np.ndarray":
    """Which runs have a last frame of their own."""
    return trajectory["last_step"].values >= int(trajectory["step"][-1])


def _by_run(trajectory: "xr.Dataset", side: str) -> "dict[str, tuple[str, np.ndarray]]":
    import numpy as np

    from analysis.progress import escape
    from analysis.shapes import shape_distance
    from analysis.structures import circularity, imperfections, is_circle

    alive = _valid(trajectory)
    start, ends = (
        trajectory["embedding"].isel(step=at).transpose("run", "token", "axis").values[alive] for at in (0, -1)
    )
    found = {}
    for name, values in {
        "circle": is_circle(ends),
        "imperfections": imperfections(ends),
        "circularity": circularity(ends),
        "escape": escape(trajectory).values[alive],
        "from_start": shape_distance(start, ends).distance,
    }.items():
        whole = np.full(len(alive), np.nan)
        whole[alive] = values
        found[f"{side}_{name}"] = (f"{side}_run", whole)
    return found


def _curves(trajectory: "xr.Dataset") -> "xr.Dataset":
    """Quartiles over runs on an even grid of normalised time."""
    import warnings

    import numpy as np
    import xarray as xr

    from analysis.progress import displacement, normalised, speed

    valid = trajectory["step"] <= trajectory["last_step"]
    force = trajectory["gradient_norm"].sel(layer="embedding", drop=True).where(valid)
    curves = {"speed": speed(trajectory), "displacement": displacement(trajectory), "gradient_norm": force}
    found = {}
    for name, curve in curves.items():
        even = normalised(curve).transpose("run", "normalised_time")
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", RuntimeWarning)  # where every run is NaN, so is the quartile
            quartiles = np.nanquantile(even.values, QUARTILES, axis=0)
        found[name] = (("quantile", "normalised_time"), quartiles)
    coords = {"quantile": list(QUARTILES), "normalised_time": even["normalised_time"].values}
    return xr.Dataset(found, coords)


def _paired(first: "xr.Dataset", second: "xr.Dataset") -> bool:
    """Whether both have the same seeds in the same order and begin at the same shapes."""
    import numpy as np

    from analysis.shapes import procrustes

    if first.sizes["axis"] != second.sizes["axis"] or not np.array_equal(first["seed"], second["seed"]):
        return False
    starts = [each["embedding"].isel(step=0).transpose("run", "token", "axis").values for each in (first, second)]
    return bool((procrustes(*starts) < 1e-3).all())


# ------------------------------------------------------------------------------------------ as sentences


class Line(NamedTuple):
    """A quantity of both sides, and how likely so large a difference is where there is none."""

    name: str
    first: "Interval"
    second: "Interval | None"
    p_value: float
    test: str


def lines(found: "xr.Dataset") -> list[Line]:
    """The table of a comparison. Raises nothing: what has no value is NaN."""
    from scipy import stats

    from analysis.intervals import binomial_interval, mean_interval

    circles = [_finite(found[f"{side}_circle"]) for side in SIDES]
    table = [[int(each.sum()), len(each) - int(each.sum())] for each in circles]
    first, second = (binomial_interval(int(each.sum()), len(each)) for each in circles)
    p_value = float(stats.fisher_exact(table).pvalue) if all(map(len, circles)) else float("nan")
    result = [Line("circles, share", first, second, p_value, "Fisher")]
    for name, words in (
        ("imperfections", "imperfections of the others"),
        ("circularity", "largest norm / smallest"),
        ("escape", "escape, share of the time"),
    ):
        kept = [found[f"{side}_{name}"] for side in SIDES]
        if name == "imperfections":
            kept = [each.where(found[f"{side}_circle"] == 0) for side, each in zip(SIDES, kept, strict=True)]
        a, b = (_finite(each) for each in kept)
        result.append(Line(words, mean_interval(a), mean_interval(b), _mann_whitney(a, b), "Mann-Whitney"))
    a, b = (_run_means(found[f"within_{side}"]) for side in SIDES)
    result.append(Line("shape distance within", mean_interval(a), mean_interval(b), float("nan"), ""))
    a, b = (_finite(found[f"{side}_from_start"]) for side in SIDES)
    result.append(
        Line("shape distance from own start", mean_interval(a), mean_interval(b), _mann_whitney(a, b), "Mann-Whitney")
    )
    result.append(Line("shape distance between", mean_interval(_run_means(found["between"])), None, float("nan"), ""))
    return result + (_paired_lines(found) if found.attrs["paired"] else [])


def _paired_lines(found: "xr.Dataset") -> list[Line]:
    """How alike runs end that began alike; beside it what would be were they not paired.

    Both ends may be alike for no other reason than that neither is far from the start they share: what their
    distance from each other has to be set against is that from the start, in the last line.
    """
    import numpy as np
    from scipy import stats

    from analysis.intervals import binomial_interval, mean_interval
    from dynamics.randomness import stream

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
    own, generator = np.diag(between), stream(0, "compare/permutations")
    means = [between[np.arange(count), generator.permutation(count)].mean() for _ in range(PERMUTATIONS)]
    by_chance = (1 + sum(mean <= own.mean() for mean in means)) / (1 + PERMUTATIONS)
    nearest = int((between.argmin(axis=1) == np.arange(count)).sum())
    found_out = float(stats.binomtest(nearest, count, 1 / count).pvalue)
    nearer = [int((own < found[f"{side}_from_start"].values[both]).sum()) for side in SIDES]
    first, second = (binomial_interval(each, count) for each in nearer)
    nearest_share = binomial_interval(nearest, count)
    return [
        Line("pairs of one structure; unpaired", same, _alone(chance), kinds, "Fisher"),
        Line("shape distance of pairs; unpaired", mean_interval(own), _alone(np.mean(means)), by_chance, "permutation"),
        Line("nearest is own partner; unpaired", nearest_share, _alone(1 / count), found_out, "binomial"),
        Line("nearer to partner than to own start", first, second, float("nan"), ""),
    ]


def _alone(value: float) -> "Interval":
    """A number that has no interval."""
    from analysis.intervals import Interval

    return Interval(float(value), float("nan"), float("nan"))


def _finite(values: "xr.DataArray") -> "np.ndarray":
    import numpy as np

    return values.values[np.isfinite(values.values)]


def _run_means(distances: "xr.DataArray") -> "np.ndarray":
    """Mean distance of each run to the others, so that an interval over runs is one over independent numbers."""
    import numpy as np

    kept = distances.values[np.isfinite(distances.values).any(axis=1)]
    return np.nanmean(kept, axis=1) if kept.size else np.empty(0)


def _mann_whitney(first: "np.ndarray", second: "np.ndarray") -> float:
    from scipy import stats

    if not (len(first) and len(second)):
        return float("nan")
    return float(stats.mannwhitneyu(first, second).pvalue)


HEADER = ("", "first", "second", "p", "test")
COLUMNS = ("quantity", "first", "first_low", "first_high", "second", "second_low", "second_high", "p_value", "test")


def row(line: Line) -> "Row":
    """A line for a person and for a program."""
    import math

    from analysis.intervals import Interval
    from analysis.tables import Row, number

    second = line.second or Interval(math.nan, math.nan, math.nan)
    p = "-" if math.isnan(line.p_value) else "< 0.0001" if line.p_value < 1e-4 else f"{line.p_value:.4f}"
    text = [line.name, _shown(line.first), _shown(second), p, line.test]
    return Row(text, [line.name, *map(number, (*line.first, *second, line.p_value)), line.test])


def _shown(interval: "Interval") -> str:
    import math

    if math.isnan(interval.value):
        return "-"
    bounds = "" if math.isnan(interval.low) else f" [{interval.low:.3g}, {interval.high:.3g}]"
    return f"{interval.value:.3g}{bounds}"


# -------------------------------------------------------------------------------------------- the command


@dataclasses.dataclass(frozen=True)
class Options:
    """Compare two trajectories of any systems: a table, a picture and a NetCDF file of what was found. Without a
    second one, particles are begun at the embeddings with which the first one began."""

    first: tyro.conf.Positional[Path]
    """A trajectory."""
    second: tyro.conf.Positional[Path | None] = None
    """Another one, of as many tokens."""
    law: ParticleSettings = dataclasses.field(default_factory=ParticleSettings)
    steps: int | None = None
    """Steps of the particles where they are made here. None is 100."""
    out: Path | None = None
    """File for the result; the picture lies beside it. None is comparisons/FIRST-SECOND.nc."""
    csv: Path | None = None
    """Also write the table, as numbers, to a CSV file; - is the terminal."""


def main(options: Options) -> None:
    """Compare; print, draw and write what was found."""
    from analysis import tables
    from analysis.comparison_figure import save_comparison
    from analysis.results import check_result, write_result
    from dynamics.trajectory import open_trajectory

    say = sys.stderr if str(options.csv) == "-" else sys.stdout
    first = open_trajectory(options.first)
    path = options.second or _partner(options, first)
    second = open_trajectory(path)
    out = check_result(options.out or Path("comparisons") / f"{options.first.stem}-{path.stem}.nc")
    print(f"first       {options.first}\nsecond      {path}", file=say)

    found = comparison(first, second)
    audited = _audit(first, second, options.law)
    found = found if audited is None else found.merge(audited, combine_attrs="no_conflicts")
    names = [f"{each.attrs['system']}: {name}" for each, name in ((first, options.first.stem), (second, path.stem))]
    write_result(found.assign_attrs(first=str(options.first), second=str(path)), out)
    save_comparison(found, names, out.with_suffix(".png"))
    print(f"result      {out}\npicture     {out.with_suffix('.png')}", file=say)
    tables.show(HEADER, COLUMNS, [row(line) for line in lines(found)], options.csv)
    if audited is not None:
        _show_audit(audited, say)


def _partner(options: Options, first: "xr.Dataset") -> Path:
    """Particles that begin at the embeddings with which the first trajectory began, run or found."""
    from dynamics.simulate import run_path, simulate

    if options.law.start != "random":
        raise SettingsError("start", options.law.start, "no value here: particles begin where the first trajectory did")
    tokens, dim = first.sizes["token"], first.sizes["axis"]
    law = dataclasses.replace(options.law, n=tokens, dim=dim, start=str(options.first), start_step=0)
    runs, seed = first.sizes["run"], int(first["seed"][0])
    path = run_path(law, runs, seed)
    simulate(law, runs=runs, seed=seed, steps=options.steps, out=path).close()
    return path


def _audit(first: "xr.Dataset", second: "xr.Dataset", law: ParticleSettings) -> "xr.Dataset | None":
    """The force audit of whichever is a network, under the law of whichever is made of particles."""
    from analysis.audit import audit
    from dynamics.trajectory import settings_of

    sides = [(each, settings_of(each)) for each in (first, second)]
    laws = [settings for _, settings in sides if isinstance(settings, ParticleSettings)]
    network = [each for each, _ in sides if {"hidden_weight", "output_weight"} <= set(each.variables)]
    if not network:
        return None
    found = audit(network[0], laws[0] if laws else law)
    return found.rename(
        {name: f"audit_{name}" for name in [*found.variables, "run"] if name in found.variables or name == "run"}
    )


def _show_audit(found: "xr.Dataset", say) -> None:
    """The audit's table at some moments."""
    from analysis import audit
    from analysis.tables import Table

    plain = found.rename({name: str(name).removeprefix("audit_") for name in [*found.variables, "audit_run"]})
    last = int(plain["step"][-1])
    shown = audit.rows(plain, [moment for moment in audit.MOMENTS if moment < last] + [last])
    print("\nForce audit of the network\n" + Table(audit.HEADER, [each.text for each in shown]).text(), file=say)
    print(audit.legend(plain), file=say)


if __name__ == "__main__":
    command(main, Options, "analysis.compare")
