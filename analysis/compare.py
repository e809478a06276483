"""Comparison of two trajectories: structures, motion, shapes and, for a network, the
force audit.

python -m analysis.compare A.nc B.nc
"""

import dataclasses
import functools
from pathlib import Path
from typing import TYPE_CHECKING, TextIO

import tyro

import dynamics
from analysis import forces, output, plots, structures
from analysis.command_line.options import PictureOptions
from analysis.command_line.parsing import run_command
from analysis.command_line.result_files import (
    settings_in_words,
    write_result_and_picture,
)
from analysis.panels import figure_panels
from dynamics import particles
from dynamics.forces import CONSTANTS
from dynamics.settings import ParticleSettings, SettingsError
from dynamics.settings_text import SYMBOLS, setting_texts, short_text
from dynamics.trajectory.selection import Selection

if TYPE_CHECKING:
    import xarray as xr


@dataclasses.dataclass(frozen=True)
class Options(PictureOptions):
    """Compare two trajectories of any systems: a table, a picture and a NetCDF file.
    Without a second trajectory, particles (CA section 6) are simulated from the initial
    embeddings of each run of the first trajectory, which may itself be of particles,
    and the table shows how often both end in the same structure. Their step size is
    multiplied by (17 / N)^2."""

    first: tyro.conf.Positional[Path]
    """First trajectory."""
    second: tyro.conf.Positional[Path | None] = None
    """Second trajectory, with the same number of tokens. Default: particles are
    simulated."""
    law: ParticleSettings = dataclasses.field(default_factory=ParticleSettings)
    steps: int | None = None
    """Number of steps of the simulated particles. Default: 100."""
    selection: Selection = Selection()
    out: Path | None = None
    """NetCDF file for the result; the picture has the suffix of its format. Default:
    FIRST-SECOND-compare.nc, beside the first trajectory."""

    def names_of_panels(self) -> tuple[str, ...]:
        return figure_panels.COMPARISON


def main(options: Options) -> None:
    """Compare the trajectories; print, draw and write the result."""
    first = dynamics.open_trajectory(options.first)
    structures.check_comparable(first, first)
    path, second = _open_second(options, first)
    first, second = map(options.selection.apply, (first, second))
    inputs = {
        "result_of": "analysis.compare",
        "first": str(options.first),
        "second": str(path),
    }
    default_out = options.first.parent / (
        f"{output.plain_stem(options.first)}-{output.plain_stem(path)}-compare.nc"
    )
    out = output.check_result_path(options.out or default_out, inputs)
    for side, item, name in (("first", first, options.first), ("second", second, path)):
        diverged = dynamics.count_diverged(item)
        left_out = f", {diverged} diverged and left out" if diverged else ""
        print(
            f"{side:<11} {name}  ({item.sizes['run']} runs{left_out})", file=options.log
        )
    if options.second is None:
        symbols = {name: SYMBOLS[name] for name in CONSTANTS}
        law = ", ".join(setting_texts(options.law, always=symbols))
        start = "where the runs of the first trajectory start"
        print(
            f"            particles that were simulated with {law} and start {start}",
            file=options.log,
        )

    result = structures.compare_trajectories(first, second)
    reason = result.attrs["not_paired"]
    words = f"none: {reason}" if reason else "runs of equal seed, which begin alike"
    print(f"{'pairs':<11} {words}", file=options.log)
    audit = _audit(first, second, options.law)
    if audit is not None:
        prefixed = audit.rename(
            {name: f"audit_{name}" for name in (*audit.variables, "run")}
        )
        result = result.merge(prefixed, combine_attrs="no_conflicts")
    names = [settings_in_words(item) for item in (first, second)]
    picture = functools.partial(plots.plot_comparison, result, names)
    write_result_and_picture(options, result.assign_attrs(inputs), picture, out)
    table = output.make_table(structures.comparison_rows(result))
    output.output_table(table, structures.COMPARISON_COLUMNS, options.csv)
    if audit is not None:
        _print_audit(audit, options.log)


def _open_second(options: Options, first: "xr.Dataset") -> "tuple[Path, xr.Dataset]":
    """The second trajectory, or particles that begin where the first one began; with
    its file."""
    if options.second is None:
        _refuse_changes(
            options.law,
            ("n", "dim", "start", "start_step"),
            "that of the first trajectory is used",
        )
        return structures.simulate_particles_from(
            first, options.first, options.law, options.steps
        )
    second = dynamics.open_trajectory(options.second)
    if any(
        isinstance(dynamics.read_settings(item), ParticleSettings)
        for item in (first, second)
    ):
        names = tuple(field.name for field in dataclasses.fields(options.law))
        _refuse_changes(options.law, names, "the law is that of the given particles")
    if options.steps is not None:
        raise SettingsError(
            "steps", options.steps, "no value here: no particles are simulated"
        )
    return options.second, second


def _refuse_changes(law: ParticleSettings, names: tuple[str, ...], why: str) -> None:
    """Raise SettingsError for settings that would not be used."""
    default = ParticleSettings()
    for name in names:
        if getattr(law, name) != getattr(default, name):
            found = short_text(name, getattr(law, name))
            raise SettingsError(name, found, f"no value here: {why}")


def _audit(
    first: "xr.Dataset", second: "xr.Dataset", law: ParticleSettings
) -> "xr.Dataset | None":
    """The force audit of the first network among both, under the law of the first
    particles among them; None if no law is known of these particles."""
    sides = {"first": first, "second": second}
    settings = [dynamics.read_settings(item) for item in sides.values()]
    of_particles = [item for item in settings if isinstance(item, ParticleSettings)]
    laws = [item for item in of_particles if particles.has_known_law(item)]
    if of_particles and not laws:  # of a user's system with a law that is not known
        return None
    for side, trajectory in sides.items():
        if forces.can_be_audited(trajectory):
            return forces.audit_forces(
                trajectory, laws[0] if laws else law
            ).assign_attrs(audited=side)
    return None


def _print_audit(audit: "xr.Dataset", log: TextIO) -> None:
    table = output.format_table(
        output.make_table(forces.audit_rows(audit)), forces.audit_columns(audit)
    )
    print(
        f"\nForce audit of the {audit.attrs['audited']} trajectory\n{table}", file=log
    )
    print(forces.audit_legend(audit), file=log)


if __name__ == "__main__":
    run_command(main, Options, "analysis.compare")
