"""The runs in a folder: their settings, how far they have come, and whether they can be
read.

python -m sims.runs
"""

import dataclasses
from pathlib import Path

from analysis.command_line.options import TableOptions
from analysis.command_line.parsing import run_command
from analysis.output.tables import Column, make_table, output_table
from dynamics.errors import SettingsError, TrajectoryError
from sims import command_line

NAMES = ("run", "status", "steps", "runs", "seed", "MB", "settings")
COLUMNS = [Column(name, name, digits=1 if name == "MB" else None) for name in NAMES]


@dataclasses.dataclass(frozen=True)
class Options(TableOptions):
    """List the trajectories in a folder: status, steps, size, and the settings that
    differ from the defaults. With --check, the exit code is 1 if a file cannot be
    read."""

    folder: Path = Path("runs")
    """Folder to list."""
    check: bool = False
    """Read each file completely and verify its SHA-256 checksum."""


def main(options: Options) -> None:
    """Print a line for each run in the folder."""
    if options.folder != Options.folder and not options.folder.is_dir():
        raise SettingsError("folder", options.folder, "an existing folder")
    files = command_line.list_run_files(options.folder)
    rows = [
        row
        for path in files
        if (row := command_line.describe_run_file(path, options.check))
    ]
    if not rows:
        print(f"no runs in {options.folder}", file=options.log)
        return
    output_table(
        make_table(row._asdict() for row in rows).drop(columns="note"),
        COLUMNS,
        options.csv,
    )
    for note in sorted({row.note for row in rows if row.note}):
        print(f"\n{note}", file=options.log)
    unreadable = sum(row.status == command_line.UNREADABLE for row in rows)
    if options.check:
        print(
            f"\nchecksums   right in {len(rows) - unreadable} of {len(rows)} files",
            file=options.log,
        )
    if options.check and unreadable:
        raise TrajectoryError(
            f"{unreadable} of {len(rows)} files in {options.folder} cannot be read"
        )


if __name__ == "__main__":
    run_command(main, Options, "sims.runs")
