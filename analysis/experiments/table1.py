"""CA table 1: circles, accuracy and imperfections of networks trained at four weight
decays.

python -m analysis.paper table1
"""

import dataclasses
from typing import Literal

import tyro

from analysis import structures
from analysis.command_line.options import TableOptions
from dynamics.settings import ModularSettings


@dataclasses.dataclass(frozen=True)
class _RowSettings(ModularSettings):
    weight_decay: tyro.conf.Suppress[float] = ModularSettings.weight_decay


_RowSettings.__doc__ = ModularSettings.__doc__


@dataclasses.dataclass(frozen=True)
class Options(TableOptions):
    """Reproduce table 1 of CA: circles, validation accuracy and grid imperfections of
    networks trained with weight decay 0, 0.3, 0.6 and 1, together with the paper's
    values."""

    runs: int = 100
    """Number of networks per row; the paper uses 100. Of more than 5,000 only the last
    frames are stored, in portions."""
    seed: int = 0
    """Seed of the first run of each row."""
    epochs: int | None = None
    """Number of training epochs. Default: 2000, as in the paper."""
    device: Literal["auto", "cpu", "cuda"] = "auto"
    """Device to compute on."""
    settings: _RowSettings = dataclasses.field(default_factory=_RowSettings)


def main(options: Options) -> None:
    """Train or find the four ensembles; print them beside the paper's rows."""
    settings = ModularSettings(**dataclasses.asdict(options.settings))
    rows = structures.table_rows(
        settings,
        options.runs,
        options.seed,
        options.epochs,
        options.device,
        options.log,
    )
    structures.print_ca_table(rows, options.csv)
