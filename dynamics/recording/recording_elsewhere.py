"""What is recorded in the processes of a training that do not record."""

import warnings
from collections.abc import Iterator
from pathlib import Path
from typing import Any, Self

import torch

from dynamics.errors import RecordingError
from dynamics.recording.metrics import Measured
from dynamics.recording.processes import is_distributed
from dynamics.recording.recording import NO_RESTORE, Recording
from dynamics.trajectory.reader import unfinished_files


class RecordingElsewhere(Recording):
    """What `record` returns in the processes of a training that do not record."""

    optimizer: Any = None
    """Optimizers are not followed."""

    def __init__(self, path: str | Path) -> None:
        self.path = Path(path).absolute()
        self._is_alone = not is_distributed()
        self._has_entered = False

    def __enter__(self) -> Self:
        self._has_entered = True
        return self

    def __exit__(self, *error: object) -> None:
        """Nothing is to be written."""

    def step(self, loss: Measured = None, accuracy: Measured = None) -> None:
        """Record nothing. Warns at the first call if there is no process group whose
        first process records."""
        if self._is_alone and not is_distributed():
            warnings.warn(
                f"{self.path}: nothing is recorded, as the launcher of this process says"
                " that it is not the first of a training; unset its variables, such as"
                " RANK and SLURM_PROCID, if it trains alone",
                RuntimeWarning,
                stacklevel=2,
            )
        self._is_alone = False

    def restore(self) -> int:
        """Return 0. Raises RecordingError if there is a recording to restore."""
        if self.path.exists() or unfinished_files(self.path):
            raise RecordingError(f"{self.path}: {NO_RESTORE}")
        return 0

    def branches(self, *arguments: Any, **options: Any) -> Iterator[torch.nn.Module]:
        """Raise RecordingError."""
        raise RecordingError(f"{self.path}: recorded by another process")
