"""What is in a folder of runs: their settings, how far they have come, and whether they are whole.

python -m sims.runs
"""

import dataclasses
from pathlib import Path

from analysis.command_line.parsing import run_command


@dataclasses.dataclass(frozen=True)
class Options:
    """List the trajectories in a folder, with the settings that differ from the defaults and their status."""

    folder: Path = Path("runs")
    """Where to look."""
    check: bool = False
    """Read every file to its end and check its SHA-256; otherwise only that it has one."""
    csv: Path | None = None
    """Also write the list as CSV; - is the terminal."""


RUN_COLUMNS = ("run", "status", "steps", "runs", "seed", "MB", "settings")


def main(options: Options) -> None:
    """Print one line for each run in the folder."""
    from analysis.output.tables import TextTable
    from dynamics.settings import SettingsError

    folder = options.folder
    if not folder.is_dir():
        raise SettingsError("folder", folder, "an existing folder")
    names = {path.name for path in folder.glob("*.nc")}
    names |= {path.name.removesuffix(".parts") for path in folder.glob("*.nc.parts")}
    names |= {path.name[1:].removesuffix(".lock") for path in folder.glob(".*.nc.lock") if _is_being_written(path)}
    if not names:
        print(f"no runs in {folder}")
        return
    unknown: dict[str, str] = {}
    rows = [row for name in sorted(names) if (row := describe_run_file(folder / name, options.check, unknown))]
    print(TextTable(RUN_COLUMNS, rows, left=(0, 1, 6)).text())
    if unknown:
        print("\nunknown system: " + "\nunknown system: ".join(unknown.values()))
    if options.csv:
        TextTable(RUN_COLUMNS, rows).write_csv(options.csv)


def _is_being_written(lock: Path) -> bool:
    """Whether the writer that a lock belongs to is alive."""
    from dynamics.trajectory.lock import is_locked

    return is_locked(lock.with_name(lock.name[1:].removesuffix(".lock")))


def describe_run_file(path: Path, thoroughly: bool, unknown: dict[str, str] | None = None) -> list[str] | None:
    """One run as a row of the table; a damaged one says so. None for what is no run but the result of an analysis.

    unknown: takes what is to be said, once, of systems that nobody has registered.
    """
    from analysis.output.results import is_result_file
    from dynamics.errors import TrajectoryError, UnknownSystem
    from dynamics.trajectory.lock import is_locked
    from dynamics.trajectory.netcdf import open_group
    from dynamics.trajectory.parts import closed_parts
    from dynamics.trajectory.reader import open_trajectory
    from dynamics.trajectory.schema import DIVERGED, read_settings

    parts = closed_parts(path)
    files = [part.path for part in parts] + ([path] if path.is_file() else [])
    size = f"{sum(file.stat().st_size for file in files if file.exists()) / 1e6:.1f}"
    running = is_locked(path)
    try:
        with open_trajectory(path, thoroughly) as trajectory:
            attrs, settings = trajectory.attrs, read_settings(trajectory)
            reached = int(trajectory["step"][-1])
            diverged = int((trajectory["status"] == DIVERGED).sum())
        if parts:
            with open_group(parts[-1].path, thoroughly=thoroughly) as newest:
                attrs, reached = newest.attrs, parts[-1].end
    except UnknownSystem as error:
        with open_group(parts[-1].path if parts else path, thoroughly=False) as whole:
            attrs = whole.attrs
        (unknown if unknown is not None else {})[attrs["system"]] = (
            str(error).removeprefix(f"{path}: ").removeprefix("attribute system: ")
        )
        found = [str(attrs[name]) for name in ("steps", "runs", "seed")]
        return [path.name, "unknown system", *found, size, str(attrs["system"])]
    except TrajectoryError as error:
        if path.is_file() and is_result_file(path):
            return None
        state = "running" if running else "unreadable"
        return [path.name, state, "-", "-", "-", size, str(error).removeprefix(f"{path}: ").split(" (")[0]]
    state = "running" if running else "interrupted" if parts else "done"
    state += f", {diverged} diverged" if diverged else ""
    planned = int(attrs["steps"])
    steps = str(reached) if reached == planned else f"{reached} of {planned}"
    options = _changed_settings(settings)
    options += "" if attrs["every"] == settings.default_every else f" --every {attrs['every']}"
    options += "" if attrs["record"] == "all" else f" --record {attrs['record']}"
    options += f" ({attrs['derived']})" if "derived" in attrs else ""
    options += f" (a branch at step {attrs['branched_at']})" if "branched_at" in attrs else ""
    return [path.name, state, steps, str(attrs["runs"]), str(attrs["seed"]), size, options.strip() or "defaults"]


def _changed_settings(settings: object) -> str:
    """The settings that differ from their defaults, as options."""
    assert dataclasses.is_dataclass(settings)
    different = {
        field.name: getattr(settings, field.name)
        for field in dataclasses.fields(settings)
        if getattr(settings, field.name) != field.default
    }
    different = {name: str(value).split("#sha256=")[0] for name, value in different.items()}
    return " ".join(f"--{name.replace('_', '-')} {value}" for name, value in different.items())


if __name__ == "__main__":
    run_command(main, Options, "sims.runs")
