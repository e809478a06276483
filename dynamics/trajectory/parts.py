"""Part files of an unfinished run: NAME.nc.parts/part-FIRST-LAST.nc, next to the file
of the finished run, NAME.nc. Frames that an interrupted recording has after its last
restart state are in frames-FIRST-LAST.nc beside them."""

import re
from pathlib import Path
from typing import NamedTuple

from dynamics.errors import TrajectoryError
from dynamics.provenance import IDENTITY_ATTRIBUTES
from dynamics.trajectory.netcdf import open_group, resolve_link


def parts_folder(path: str | Path) -> Path:
    """The folder of the parts of an unfinished run, next to the file of the finished
    run."""
    path = resolve_link(path)
    return path.parent / f"{path.name}.parts"


class PartFile(NamedTuple):
    """A part of an unfinished run: the frames after step `begin`, up to and including
    step `end`."""

    path: Path
    begin: int
    end: int


def part_file_name(begin: int, end: int, kind: str = "part") -> str:
    """The file name of a part, or with the kind "frames" of frames after the parts."""
    return f"{kind}-{begin:016d}-{end:016d}.nc"


def closed_parts(path: str | Path) -> list[PartFile]:
    """The complete parts of an unfinished run, in order of their steps; other files in
    the folder are ignored."""
    result = []
    for file in parts_folder(path).glob("part-*.nc"):
        if match := re.fullmatch(r"part-(\d{16})-(\d{16})\.nc", file.name):
            result.append(PartFile(file, int(match[1]), int(match[2])))
    return sorted(result, key=lambda part: (part.begin, part.end))


def frames_after_parts(path: str | Path) -> PartFile | None:
    """The frames of an interrupted recording after its last restart state, which are
    read, but from which nothing continues; None if there are none."""
    parts = closed_parts(path)
    begin = parts[-1].end if parts else 0
    for file in parts_folder(path).glob(f"frames-{begin:016d}-*.nc"):
        return PartFile(file, begin, last_step_of(file))
    return None


def last_step_of(file: Path) -> int:
    """The step at which a part, or frames after the parts, end."""
    return int(file.stem.rpartition("-")[2])


def unfinished_files(path: str | Path) -> list[Path]:
    """The files with the frames of an unfinished run, in order of their steps."""
    after = frames_after_parts(path)
    files = [part.path for part in closed_parts(path)]
    return files if after is None else [*files, after.path]


def first_step_of_parts(parts: list[PartFile]) -> int:
    """The first step of the run that these parts belong to: 0, or the step at which a
    branch begins."""
    with open_group(parts[0].path) as root:
        return int(root.attrs.get("branched_at", 0))


def check_parts_contiguous(parts: list[PartFile], position: int) -> int:
    """Check that parts follow one another from step `position` on; return their last
    step.

    Raises TrajectoryError if one is missing or belongs to another run.
    """
    first = None
    for part in parts:
        if part.begin != position:
            raise TrajectoryError(
                f"{part.path}: begins at step {part.begin}, expected {position}: a part"
                " is missing"
            )
        with (
            open_group(part.path) as root,
            open_group(part.path, "checkpoint") as states,
        ):
            if int(states["checkpoint"][-1]) != part.end:
                raise TrajectoryError(
                    f"{part.path}: ends at step {int(states['checkpoint'][-1])},"
                    f" expected {part.end}"
                )
            result = {name: root.attrs.get(name) for name in IDENTITY_ATTRIBUTES}
        first = result if first is None else first
        if result != first:
            name = next(
                name for name in IDENTITY_ATTRIBUTES if result[name] != first[name]
            )
            raise TrajectoryError(
                f"{part.path}: belongs to another run: {name} is {result[name]},"
                f" expected {first[name]}"
            )
        position = part.end
    return position
