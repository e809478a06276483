"""CA table 2: circles, grids and imperfections of particles at three alignment
constants.

python -m analysis.paper table2 --runs 1000
"""

import dataclasses
from typing import Literal

import tyro

from analysis import structures
from analysis.command_line.options import TableOptions
from dynamics.settings import ParticleSettings


@dataclasses.dataclass(frozen=True)
class _RowSettings(ParticleSettings):
    fa: tyro.conf.Suppress[float] = ParticleSettings.fa


_RowSettings.__doc__ = ParticleSettings.__doc__


@dataclasses.dataclass(frozen=True)
class Options(TableOptions):
    """Reproduce table 2 of CA: circles, grids and imperfections of particles with
    alignment constant f_a = 0.5, 1 and 2, together with the paper's values."""

    runs: int = 100
    """Number of simulations per row; the paper uses 100. Of more than 5,000 only the last
    frames are stored, in portions."""
    seed: int = 0
    """Seed of the first run of each row."""
    device: Literal["auto", "cpu", "cuda"] = "auto"
    """Device to compute on."""
    settings: _RowSettings = dataclasses.field(default_factory=_RowSettings)


def main(options: Options) -> None:
    """Simulate or find the three ensembles; print them beside the paper's rows."""
    settings = ParticleSettings(**vars(options.settings))
    rows = structures.table_rows(
        settings, options.runs, options.seed, None, options.device, options.log
    )
    structures.print_ca_table(rows, options.csv)
