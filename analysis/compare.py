"""Two trajectories side by side: structures, motion, shapes; and, where one is a network's, the force audit.

python -m analysis.compare A.nc B.nc

Nothing here asks which system wrote a trajectory, but for the audit, which needs a network's weights. Without a
second trajectory, particles are begun at the embeddings with which the first began, run by run, and it is said
how often both end in the same structure. All values are dimensionless.
"""

import dataclasses
import sys
from pathlib import Path
from typing import TYPE_CHECKING

import tyro

from analysis.command_line.parsing import run_command
from dynamics.settings import ParticleSettings, SettingsError

if TYPE_CHECKING:
    import xarray as xr

    from analysis.output.tables import TableRow
    from analysis.statistics.intervals import Interval
    from analysis.structures.comparison import ComparisonLine

HEADER = ("", "first", "second", "p", "test")
COLUMNS = ("quantity", "first", "first_low", "first_high", "second", "second_low", "second_high", "p_value", "test")


def _row(line: "ComparisonLine") -> "TableRow":
    """A line for a person and for a program."""
    import math

    from analysis.output.tables import TableRow, format_number
    from analysis.statistics.intervals import Interval

    second = line.second or Interval(math.nan, math.nan, math.nan)
    p = "-" if math.isnan(line.p_value) else "< 0.0001" if line.p_value < 1e-4 else f"{line.p_value:.4f}"
    text = [line.name, _shown(line.first), _shown(second), p, line.test]
    return TableRow(text, [line.name, *map(format_number, (*line.first, *second, line.p_value)), line.test])


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
    from analysis.output import tables
    from analysis.output.results import check_result_path, write_result
    from analysis.plots.comparison_figure import plot_comparison
    from analysis.plots.figure_files import save_figure
    from analysis.structures.comparison import SIDES, check_comparable, compare_trajectories, comparison_lines
    from dynamics.trajectory.diverged import count_diverged
    from dynamics.trajectory.reader import open_trajectory

    say = sys.stderr if str(options.csv) == "-" else sys.stdout
    first = open_trajectory(options.first)
    check_comparable(first, first)
    path, second = _second(options, first)
    what = {"result_of": "analysis.compare", "first": str(options.first), "second": str(path)}
    out = check_result_path(options.out or Path("comparisons") / f"{options.first.stem}-{path.stem}.nc", what)
    for side, each, name in ((SIDES[0], first, options.first), (SIDES[1], second, path)):
        diverged = count_diverged(each)
        left_out = f", {diverged} diverged and left out" if diverged else ""
        print(f"{side:<11} {name}  ({each.sizes['run']} runs{left_out})", file=say)

    found = compare_trajectories(first, second)
    audited = _audit(first, second, options.law)
    if audited is not None:
        prefixed = audited.rename({name: f"audit_{name}" for name in (*audited.variables, "run")})
        found = found.merge(prefixed, combine_attrs="no_conflicts")
    names = [f"{each.attrs['system']}: {name}" for each, name in ((first, options.first.stem), (second, path.stem))]
    picture = plot_comparison(found, names)
    write_result(found.assign_attrs(what), out)
    save_figure(picture, out.with_suffix(".png"))
    print(f"result      {out}\npicture     {out.with_suffix('.png')}", file=say)
    tables.print_rows(HEADER, COLUMNS, [_row(line) for line in comparison_lines(found)], options.csv, left=(0, 4))
    if audited is not None:
        _show_audit(audited, say)


def _second(options: Options, first: "xr.Dataset") -> "tuple[Path, xr.Dataset]":
    """The second trajectory, or particles that begin where the first began, run or found; with its file."""
    from dynamics.errors import TrajectoryError
    from dynamics.preparation import run_path
    from dynamics.simulation import simulate
    from dynamics.trajectory.reader import open_trajectory
    from dynamics.trajectory.schema import read_settings

    if options.second is not None:
        second = open_trajectory(options.second)
        if isinstance(read_settings(second), ParticleSettings) or isinstance(read_settings(first), ParticleSettings):
            _refuse_changes(options.law, (), "the law is that of the particles given")
        if options.steps is not None:
            raise SettingsError("steps", options.steps, "no value here: no particles are made")
        return options.second, second
    _refuse_changes(options.law, ("n", "dim", "start", "start_step"), "that of the first trajectory is taken")
    seeds = first["seed"].values
    if (seeds != seeds[0] + range(len(seeds))).any():
        raise TrajectoryError(f"{options.first}: seeds do not follow one another, so no particles can be begun there")
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
    from analysis.audit import audit_forces
    from analysis.structures.comparison import SIDES
    from dynamics.trajectory.schema import read_settings

    sides = [(each, read_settings(each)) for each in (first, second)]
    laws = [settings for _, settings in sides if isinstance(settings, ParticleSettings)]
    weighty = [{"hidden_weight", "output_weight"} <= set(each.variables) for each, _ in sides]
    if not any(weighty):
        return None
    which = weighty.index(True)
    return audit_forces(sides[which][0], laws[0] if laws else law).assign_attrs(audited=SIDES[which])


def _show_audit(found: "xr.Dataset", say) -> None:
    """The audit's table at some moments."""
    from analysis import audit
    from analysis.output.tables import TextTable

    shown = [each.text for each in audit.audit_rows(found)]
    which = found.attrs["audited"]
    print(f"\nForce audit of the {which} trajectory\n" + TextTable(audit.AUDIT_HEADER, shown).text(), file=say)
    print(audit.audit_legend(found), file=say)


if __name__ == "__main__":
    run_command(main, Options, "analysis.compare")
