"""How much of a system is run, and where it goes: the options that every simulation shares."""

import dataclasses
from pathlib import Path
from typing import TYPE_CHECKING, Literal, TextIO

from dynamics.settings import Settings, SettingsError

if TYPE_CHECKING:
    import xarray as xr


@dataclasses.dataclass(frozen=True)
class Amount:
    """How many runs are made, what is recorded of them, and where it goes; each command adds how long they are."""

    runs: int = 100
    """Number of runs; run r has seed SEED + r and depends on it alone."""
    seed: int = 0
    """Seed of the first run."""
    every: int | None = None
    """Steps between recorded frames; the first and the last are always recorded. None is the system's own."""
    record: Literal["all", "metrics"] = "all"
    """Record everything, or metrics without embeddings and weights."""
    device: Literal["auto", "cpu", "cuda"] = "auto"
    """Where to compute."""
    out: Path | None = None
    """Trajectory to write. None is runs/SYSTEM-HASH.nc, the hash over all that defines the run."""
    overwrite: bool = False
    """Start anew, whatever is there."""


def made(
    settings: Settings, length: int | None, amount: Amount, say: TextIO, option: str = "steps"
) -> "tuple[Path, xr.Dataset]":
    """The trajectory, run or found, and its file; says which to `say`.

    length: how many steps; option: the command's name for it. Raises as `simulate` does.
    """
    from dynamics.simulate import run_path, simulate

    path = amount.out or run_path(settings, amount.runs, amount.seed, amount.every, amount.record, amount.device)
    before = path.stat().st_mtime_ns if path.exists() else None
    try:
        trajectory = simulate(settings, steps=length, **dataclasses.asdict(dataclasses.replace(amount, out=path)))
    except SettingsError as error:
        raise SettingsError(error.field.replace("steps", option), error.found, error.allowed) from None
    how = "found" if before == path.stat().st_mtime_ns else "written"
    last = int(trajectory["step"][-1])
    print(f"trajectory  {path}  ({how}: {trajectory.sizes['run']} runs, {last} {option})", file=say)
    return path, trajectory
