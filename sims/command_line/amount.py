"""How much of a system is run, and where it goes: the options that every simulation shares."""

import dataclasses
from pathlib import Path
from typing import Literal


@dataclasses.dataclass(frozen=True)
class EnsembleOptions:
    """How many runs are made, what is recorded of them, and where it goes; each command adds how long they are."""

    runs: int = 100
    """Number of runs; run r has seed SEED + r and depends on it alone."""
    seed: int = 0
    """Seed of the first run."""
    every: int | None = None
    """Steps between recorded frames; the first and the last are always recorded. None is every step of particles, every
    tenth epoch of the modular system, and every epoch of the sparse one."""
    record: Literal["all", "metrics"] = "all"
    """Record everything, or metrics without embeddings and weights."""
    device: Literal["auto", "cpu", "cuda"] = "auto"
    """Where to compute."""
    out: Path | None = None
    """Trajectory to write. None is runs/SYSTEM-HASH.nc, the hash over all that defines the run."""
    overwrite: bool = False
    """Start anew, whatever is there."""
