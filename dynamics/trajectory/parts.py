"""Part files of an unfinished run: NAME.nc.parts/part-FIRST-LAST.nc, next to the file
of the finished run, NAME.nc."""

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


def part_file_name(begin: int, end: int) -> str:
    """The file name of a part."""
    return f"part-{begin:016d}-{end:016d}.nc"


def closed_parts(path: str | Path) -> list[PartFile]:
    """The complete parts of an unfinished run, in order of their steps; other files in
    the folder are ignored."""
    result = []
    for file in parts_folder(path).glob("part-*.nc"):
        if match := re.fullmatch(r"part-(\d{16})-(\d{16})\.nc", file.name):
            result.append(PartFile(file, int(match[1]), int(match[2])))
    return sorted(result, key=lambda part: (part.begin, part.end))


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
