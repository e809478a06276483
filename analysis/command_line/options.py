"""Options that several commands share."""

import dataclasses
import sys
from pathlib import Path
from typing import Literal, TextIO

import tyro

from dynamics.settings import SparseSettings, StartRuns


@dataclasses.dataclass(frozen=True, kw_only=True)
class TableOptions:
    """Options of a command that prints a table."""

    csv: Path | None = None
    """CSV file for the table, with full precision; - prints CSV to stdout instead of
    the table."""

    @property
    def log(self) -> TextIO:
        """Stream for messages: stderr if the CSV is written to stdout, otherwise
        stdout."""
        return sys.stderr if str(self.csv) == "-" else sys.stdout


@dataclasses.dataclass(frozen=True, kw_only=True)
class PictureOptions(TableOptions):
    """Options of a command that prints a table and writes a picture."""

    style: Literal["paper", "screen", "dark"] = "screen"
    """Style of the picture: 180 mm wide for paper, larger for the screen, or larger on
    a dark background."""
    column: bool = False
    """Draw the picture for one column: 85 mm wide in the style paper, and as narrow in
    the others."""
    format: Literal["png", "svg", "pdf"] = "png"
    """Format of the picture."""

    def picture_path(self, path: Path) -> Path:
        """Path of the picture that belongs to another file."""
        return path.with_suffix(f".{self.format}")


@dataclasses.dataclass(frozen=True)
class SparseOptions(SparseSettings):
    """Task, network and training of VC's transformer. All values are dimensionless."""

    start: tyro.conf.Suppress[str] = "random"
    start_step: tyro.conf.Suppress[int] = 0
    start_runs: tyro.conf.Suppress[StartRuns] = "seed"

    @classmethod
    def of(cls, settings: SparseSettings) -> "SparseOptions":
        """Options that have the values of `settings`."""
        return cls(
            **{
                field.name: getattr(settings, field.name)
                for field in dataclasses.fields(settings)
            }
        )

    @property
    def settings(self) -> SparseSettings:
        """The settings that these options specify."""
        return SparseSettings(**dataclasses.asdict(self))
