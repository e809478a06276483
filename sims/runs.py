"""What is in a folder of runs: their settings, how far they have come, and whether they are whole.

python -m sims.runs
"""

import dataclasses
from pathlib import Path

from analysis.command import command


@dataclasses.dataclass(frozen=True)
class Options:
    """List the trajectories in a folder, with the settings that differ from the defaults and their status."""

    folder: Path = Path("runs")
    """Where to look."""
    csv: Path | None = None
    """Also write the list as CSV; - is the terminal."""


HEADER = ("run", "status", "steps", "runs", "seed", "MB", "settings")


def main(options: Options) -> None:
    """Print one line for each run in the folder."""
    from analysis.tables import Table
    from dynamics.settings import SettingsError

    if not options.folder.is_dir():
        raise SettingsError("folder", options.folder, "an existing folder")
    suffix = ".parts"
    names = {path.name for path in options.folder.glob("*.nc")}
    names |= {path.name.removesuffix(suffix) for path in options.folder.glob(f"*.nc{suffix}") if path.is_dir()}
    if not names:
        print(f"no runs in {options.folder}")
        return
    table = Table(HEADER, [line(options.folder / name) for name in sorted(names)], left=(0, 1, 6))
    print(table.text())
    if options.csv:
        table.write_csv(options.csv)


def line(path: Path) -> list[str]:
    """One run as a row of the table; a damaged one says so."""
    from dynamics.recorder import is_locked
    from dynamics.storage import TrajectoryError
    from dynamics.trajectory import open_trajectory, part_files, parts_folder, settings_of

    files = [path] if path.exists() else []
    files += part_files(path)
    size = f"{sum(file.stat().st_size for file in files) / 1e6:.1f}"
    try:
        with open_trajectory(path) as trajectory:
            reached, planned = int(trajectory["step"][-1]), int(trajectory.attrs["steps"])
            diverged = int((trajectory["status"] == 2).sum())
            settings = settings_of(trajectory)
            amount = (
                "" if trajectory.attrs["every"] == settings.default_every else f" --every {trajectory.attrs['every']}"
            )
            amount += "" if trajectory.attrs["record"] == "all" else f" --record {trajectory.attrs['record']}"
            count, seed = str(trajectory.sizes["run"]), str(trajectory.attrs["seed"])
    except TrajectoryError as error:
        state = "running" if is_locked(path) else "unreadable"
        return [path.name, state, "-", "-", "-", size, str(error).removeprefix(f"{path}: ").split(" (")[0]]
    if is_locked(path):
        state = "running"
    elif parts_folder(path).exists():
        state = "interrupted"
    else:
        state = "done" + (f", {diverged} diverged" if diverged else "")
    steps = str(reached) if reached == planned else f"{reached} of {planned}"
    return [path.name, state, steps, count, seed, size, (changed(settings) + amount).strip() or "defaults"]


def changed(settings: object) -> str:
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
    command(main, Options, "sims.runs")
