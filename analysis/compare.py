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
    if trajectory.sizes["step"] < 2:
        raise TrajectoryError("dimension step: found a single frame, expected at least two")
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
    """Whether both have the same seeds in the same order and begin at the same shapes, of which two points have one."""
    import numpy as np

    from analysis.shapes import procrustes

    if (
        first.sizes["axis"] != second.sizes["axis"]
        or first.sizes["token"] < 3
        or not np.array_equal(first["seed"], second["seed"])
    ):
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
    import numpy as np

    from analysis.intervals import between_interval, binomial_interval, mean_interval, within_interval

    paired = bool(found.attrs["paired"])
    circles = [found[f"{side}_circle"].values for side in SIDES]
    first, second = (binomial_interval(int(np.nansum(each)), int(np.isfinite(each).sum())) for each in circles)
    result = [Line("circles, share", first, second, *_circle_test(circles[0], circles[1], paired))]
    for name, words in (
        ("imperfections", "imperfections of the others"),
        ("circularity", "largest norm / smallest"),
        ("escape", "escape, share of the time"),
        ("from_start", "shape distance from own start"),
    ):
        a, b = (found[f"{side}_{name}"].values for side in SIDES)
        if name == "imperfections":
            a, b = (np.where(circle == 0, each, np.nan) for each, circle in zip((a, b), circles, strict=True))
        result.append(Line(words, mean_interval(_finite(a)), mean_interval(_finite(b)), *_location_test(a, b, paired)))
    first, second = (within_interval(_finite_block(found[f"within_{side}"].values)) for side in SIDES)
    result.append(Line("shape distance within", first, second, float("nan"), ""))
    between = between_interval(_finite_block(found["between"].values), paired)
    result.append(Line("shape distance between", between, None, float("nan"), ""))
    return result + (_paired_lines(found) if paired else [])


def _circle_test(first: "np.ndarray", second: "np.ndarray", paired: bool) -> tuple[float, str]:
    """How likely so different shares are of equal chances: McNemar's exact test of pairs, else Fisher's."""
    import numpy as np
    from scipy import stats

    if paired:
        both = np.isfinite(first) & np.isfinite(second)
        one, other = ((first > second)[both].sum(), (second > first)[both].sum())
        return (float(stats.binomtest(int(one), int(one + other)).pvalue) if one + other else 1.0), "McNemar"
    samples = [_finite(each) for each in (first, second)]
    if not all(map(len, samples)):
        return float("nan"), "Fisher"
    table = [[int(each.sum()), len(each) - int(each.sum())] for each in samples]
    return float(stats.fisher_exact(table).pvalue), "Fisher"


def _location_test(first: "np.ndarray", second: "np.ndarray", paired: bool) -> tuple[float, str]:
    """How likely so different values are of one distribution: Wilcoxon's signed ranks of pairs, else Mann-Whitney."""
    import numpy as np
    from scipy import stats

    if paired:
        difference = _finite(first - second)
        if not len(difference):
            return float("nan"), "Wilcoxon"
        return (float(stats.wilcoxon(difference).pvalue) if np.any(difference) else 1.0), "Wilcoxon"
    a, b = _finite(first), _finite(second)
    return (float(stats.mannwhitneyu(a, b).pvalue) if len(a) and len(b) else float("nan")), "Mann-Whitney"


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
    by_chance = float((1 + sum(mean <= own.mean() for mean in means)) / (1 + PERMUTATIONS))
    nearest = int((between.argmin(axis=1) == np.arange(count)).sum())
    found_out = float(stats.binomtest(nearest, count, 1 / count).pvalue)
    nearer = [int((own < found[f"{side}_from_start"].values[both]).sum()) for side in SIDES]
    first, second = (binomial_interval(each, count) for each in nearer)
    nearest_share = binomial_interval(nearest, count)
    return [
        Line("pairs of one structure; unpaired", same, _alone(chance), kinds, "Fisher"),
        Line(
            "shape distance of pairs; unpaired",
            mean_interval(own),
            _alone(np.mean(means)),
            by_chance,
            "permutation, one-sided",
        ),
        Line("nearest is own partner; unpaired", nearest_share, _alone(1 / count), found_out, "binomial"),
        Line("nearer to partner than to own start", first, second, float("nan"), ""),
    ]


def _alone(value: float) -> "Interval":
    """A number that has no interval."""
    from analysis.intervals import Interval

    return Interval(float(value), float("nan"), float("nan"))


def _finite(values: "np.ndarray") -> "np.ndarray":
    import numpy as np

    return values[np.isfinite(values)]


def _finite_block(distances: "np.ndarray") -> "np.ndarray":
    """Distances between the runs that have some."""
    import numpy as np

    some = np.isfinite(distances)
    return distances[some.any(axis=1)][:, some.any(axis=0)]


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
    from analysis.comparison_figure import comparison_figure
    from analysis.figures import save_figure
    from analysis.results import check_result, write_result
    from dynamics.trajectory import open_trajectory

    say = sys.stderr if str(options.csv) == "-" else sys.stdout
    first = open_trajectory(options.first)
    _check(first, first)
    path, second = _second(options, first)
    what = {"result_of": "analysis.compare", "first": str(options.first), "second": str(path)}
    out = check_result(options.out or Path("comparisons") / f"{options.first.stem}-{path.stem}.nc", what)
    for side, each, name in ((SIDES[0], first, options.first), (SIDES[1], second, path)):
        diverged = int((~_valid(each)).sum())
        left_out = f", {diverged} diverged and left out" if diverged else ""
        print(f"{side:<11} {name}  ({each.sizes['run']} runs{left_out})", file=say)

    found = comparison(first, second)
    audited = _audit(first, second, options.law)
    found = found if audited is None else found.merge(audited, combine_attrs="no_conflicts")
    names = [f"{each.attrs['system']}: {name}" for each, name in ((first, options.first.stem), (second, path.stem))]
    picture = comparison_figure(found, names)
    write_result(found.assign_attrs(what), out)
    save_figure(picture, out.with_suffix(".png"))
    print(f"result      {out}\npicture     {out.with_suffix('.png')}", file=say)
    tables.show(HEADER, COLUMNS, [row(line) for line in lines(found)], options.csv, left=(0, 4))
    if audited is not None:
        _show_audit(audited, say)


def _second(options: Options, first: "xr.Dataset") -> "tuple[Path, xr.Dataset]":
    """The second trajectory, or particles that begin where the first began, run or found; with its file."""
    from dynamics.simulate import run_path, simulate
    from dynamics.trajectory import open_trajectory, settings_of

    if options.second is not None:
        second = open_trajectory(options.second)
        if isinstance(settings_of(second), ParticleSettings) or isinstance(settings_of(first), ParticleSettings):
            _refuse_changes(options.law, (), "the law is that of the particles given")
        if options.steps is not None:
            raise SettingsError("steps", options.steps, "no value here: no particles are made")
        return options.second, second
    _refuse_changes(options.law, ("n", "dim", "start", "start_step"), "that of the first trajectory is taken")
    tokens, dim = first.sizes["token"], first.sizes["axis"]
    law = dataclasses.replace(options.law, n=tokens, dim=dim, start=str(options.first), start_step=0)
    runs, seed = first.sizes["run"], int(first["seed"][0])
    path = run_path(law, runs, seed)
    return path, simulate(law, runs=runs, seed=seed, steps=options.steps, out=path)


def _refuse_changes(law: ParticleSettings, fields: tuple[str, ...], why: str) -> None:
    """Refuse settings that would not be used; no fields means all."""
    default = ParticleSettings()
    for field in fields or [each.name for each in dataclasses.fields(law)]:
        if getattr(law, field) != getattr(default, field):
            raise SettingsError(field, getattr(law, field), f"no value here: {why}")


def _audit(first: "xr.Dataset", second: "xr.Dataset", law: ParticleSettings) -> "xr.Dataset | None":
    """The force audit of the first that is a network, under the law of the first that is made of particles."""
    from analysis.audit import audit
    from dynamics.trajectory import settings_of

    sides = [(each, settings_of(each)) for each in (first, second)]
    laws = [settings for _, settings in sides if isinstance(settings, ParticleSettings)]
    weighty = [{"hidden_weight", "output_weight"} <= set(each.variables) for each, _ in sides]
    if not any(weighty):
        return None
    which = weighty.index(True)
    found = audit(sides[which][0], laws[0] if laws else law).assign_attrs(audited=SIDES[which])
    return found.rename({name: f"audit_{name}" for name in (*found.variables, "run")})


def _show_audit(found: "xr.Dataset", say) -> None:
    """The audit's table at some moments."""
    from analysis import audit
    from analysis.tables import Table

    plain = found.rename({name: str(name).removeprefix("audit_") for name in [*found.variables, "audit_run"]})
    shown = [each.text for each in audit.rows(plain)]
    which = plain.attrs["audited"]
    print(f"\nForce audit of the {which} trajectory\n" + Table(audit.HEADER, shown).text(), file=say)
    print(audit.legend(plain), file=say)


if __name__ == "__main__":
    command(main, Options, "analysis.compare")
