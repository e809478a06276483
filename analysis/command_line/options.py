"""Options that several commands share."""

import dataclasses
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import Literal, TextIO

import tyro

from analysis.panels import figure_panels
from dynamics.forces import Force
from dynamics.settings import ParticleSettings, SparseSettings, StartRuns


@dataclasses.dataclass(frozen=True, kw_only=True)
class TableOptions:
    """Options of a command that prints a table."""

    csv: Path | None = None
    """File for the table: .csv has full precision, .tex and .md the printed columns; -
    prints CSV to stdout instead of the table."""

    @property
    def log(self) -> TextIO:
        """Stream for messages: stderr if the CSV is written to stdout, otherwise
        stdout."""
        return sys.stderr if str(self.csv) == "-" else sys.stdout


@dataclasses.dataclass(frozen=True, kw_only=True)
class PictureOptions(TableOptions):
    """Options of a command that prints a table and writes a picture."""

    style: Literal["paper", "screen", "dark"] = "screen"
    """Style: 180 mm wide for paper, larger for the screen, or on a dark background."""
    column: bool = False
    """Draw the picture for one column, 85 mm wide on paper."""
    format: Literal["png", "svg", "pdf"] = "png"
    """Format of the picture."""
    panels: tuple[str, ...] = ()
    """Names of the panels of the picture, or all. The command prints the names of those
    that it draws and of the others. Default: all, or in one column those in the first
    three rows."""

    def __post_init__(self) -> None:
        names = self.names_of_panels()
        if self.panels and names is not None:
            figure_panels.check_names(self.panels, names)

    def names_of_panels(self) -> Sequence[str] | None:
        """Names of all panels that the picture may have. None: its data decide."""
        return None

    def picture_path(self, path: Path) -> Path:
        """Path of the picture that belongs to another file."""
        return path.with_suffix(f".{self.format}")


@dataclasses.dataclass(frozen=True, kw_only=True)
class LawOptions:
    """The law of forces that an analysis compares with."""

    fa: float = ParticleSettings.fa
    """Alignment constant f_a of the law; fits of its fields do not use it."""
    attraction: str = ParticleSettings.attraction
    """Strength of the law's attraction, as an expression of the distance r or a table
    (.csv)."""
    repulsion: str = ParticleSettings.repulsion
    """Strength of its repulsion, as an expression of r or a table."""
    alignment: str = ParticleSettings.alignment
    """Strength of its alignment, as an expression of the cosine c or a table."""
    law: tuple[Force, ...] = ()
    """Another law than CA's, as that of sims.particles: a file (.nc, .json) or JSON."""

    def __post_init__(self) -> None:
        for name in ("attraction", "repulsion", "alignment"):
            text = getattr(self.law_settings, name)  # of a table, not its file
            object.__setattr__(self, name, text)

    @property
    def law_settings(self) -> ParticleSettings:
        """Settings of particles with this law. Raises SettingsError."""
        names = [field.name for field in dataclasses.fields(LawOptions)]
        return ParticleSettings(**{name: getattr(self, name) for name in names})


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
