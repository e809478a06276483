"""Tables 1 and 2 of CA for one's own ensembles, beside the rows that the paper prints.

Table 1 is of networks trained at four weight decays, table 2 of
particles at three alignment constants."""

from __future__ import annotations

import dataclasses
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any, NamedTuple, TextIO, TypeVar

import numpy as np
import xarray as xr

from analysis.output.tables import (
    Column,
    format_percent,
    format_table,
    interval_columns,
    make_table,
    output_table,
)
from analysis.statistics.intervals import (
    binomial_interval,
    correlation_interval,
    mean_interval,
)
from analysis.structures.circles_and_grids import (
    FEWEST_TOKENS,
    StructureSummary,
    count_imperfections,
    is_circle,
    summarise_structures,
)
from analysis.structures.ensemble_ends import (
    EnsembleEnds,
    ends_of_trajectory,
    left_out,
    simulate_ends,
)
from analysis.structures.printed_tables import TABLE_1, TABLE_2, PrintedRow
from dynamics.branching import final_embedding
from dynamics.ensemble import Ensemble
from dynamics.errors import TrajectoryError
from dynamics.settings import ModularSettings, ParticleSettings, SettingsError
from dynamics.settings_text import EXPRESSIONS
from dynamics.trajectory.diverged import count_diverged

SettingsT = TypeVar("SettingsT", ModularSettings, ParticleSettings)


class _Table(NamedTuple):
    """A table of the paper."""

    setting: str
    """Setting in which the rows differ"""
    label: str
    fixed: Sequence[str]
    """Settings that the paper states. Those that it leaves open may differ"""
    printed: Mapping[float, PrintedRow]
    columns: Sequence[Column]


STRUCTURE_COLUMNS = (
    Column("circles % [95%]", "circles_percent", digits=1, interval="bounds"),
    Column("imperfections", "imperfections", digits=1, interval="half-width"),
)
"""The columns on structures that any ensemble can have, see `structure_columns`."""

_CIRCLES = (Column("runs", "runs"), STRUCTURE_COLUMNS[0])
_IMPERFECTIONS = STRUCTURE_COLUMNS[1]

END_COLUMNS = (*_CIRCLES, Column("others", "others"), _IMPERFECTIONS)
"""Columns of a table of the structures in which runs end, see `structure_columns`."""
END_LEGEND = (
    "others: runs that do not end as a circle; imperfections: mean over these runs"
)
"""Legend of a table with these columns."""

TABLES = {
    ModularSettings.system: _Table(
        "weight_decay",
        "weight decay",
        [field.name for field in dataclasses.fields(ModularSettings)],
        TABLE_1,
        (
            Column("weight decay", "weight_decay"),
            *_CIRCLES,
            Column(
                "their accuracy %",
                "circle_accuracy_percent",
                digits=1,
                interval="half-width",
            ),
            Column("others", "others"),
            Column(
                "others' accuracy %",
                "other_accuracy_percent",
                digits=1,
                interval="half-width",
            ),
            _IMPERFECTIONS,
            Column("correlation [95%]", "correlation", digits=2, interval="bounds"),
        ),
    ),
    ParticleSettings.system: _Table(
        "fa",
        "f_a",
        ("ga", "gr", "n", "dim", "start", *EXPRESSIONS, "law", "temperature"),
        TABLE_2,
        (Column("f_a", "fa"), *END_COLUMNS),
    ),
}
"""The tables by the system of their ensembles. Imperfections and their correlation with
accuracy are those of the runs that are no circle."""


def network_columns(embedding: np.ndarray, accuracy: np.ndarray) -> dict[str, Any]:
    """Columns of table 1 from final embeddings (run, token, axis) and validation
    accuracies (run,), which may be NaN.

    Raises ValueError for another shape or an embedding that is not finite.
    """
    result = summarise_structures(embedding)
    circle = is_circle(embedding)
    imperfections = count_imperfections(embedding[~circle])
    circle_accuracy = mean_interval(accuracy[circle], limits=(0, 1))
    other_accuracy = mean_interval(accuracy[~circle], limits=(0, 1))
    return {
        "runs": result.runs,
        "circles": result.circles,
        **interval_columns("circles_percent", result.circle_fraction, 100),
        **interval_columns("circle_accuracy_percent", circle_accuracy, 100),
        "others": result.grids,
        **interval_columns("other_accuracy_percent", other_accuracy, 100),
        **interval_columns("imperfections", result.imperfections),
        **interval_columns(
            "correlation", correlation_interval(imperfections, accuracy[~circle])
        ),
    }


def final_numbers(trajectory: xr.Dataset) -> xr.DataArray:
    """`dynamics.final_embedding` of a trajectory whose tokens are the numbers modulo
    their number, of which there are at least five. Raises TrajectoryError."""
    ends = final_embedding(trajectory)
    n, tokens = int(trajectory.attrs["modulus"]), ends.sizes["token"]
    if n != tokens or n < FEWEST_TOKENS:
        raise TrajectoryError(
            f"dimension token: found {tokens} tokens and the modulus {n}, expected the"
            f" numbers modulo N, from N = {FEWEST_TOKENS}"
        )
    return ends


def structure_columns(embedding: np.ndarray) -> dict[str, Any]:
    """Columns of table 2 from final embeddings (run, token, axis). Raises ValueError as
    `network_columns` does."""
    return summary_columns(summarise_structures(embedding))


def summary_columns(structures: StructureSummary) -> dict[str, Any]:
    """Columns of table 2 from a summary of an ensemble."""
    return {
        "runs": structures.runs,
        "circles": structures.circles,
        **interval_columns("circles_percent", structures.circle_fraction, 100),
        "others": structures.grids,
        **interval_columns("imperfections", structures.imperfections),
    }


def ca_table_row(trajectory: xr.Dataset) -> dict[str, Any]:
    """The row of table 1 or 2 from the last frames of the runs that have not diverged.

    The paper's numbers stand beside it if the table has a row for the settings.
    """
    return _row_of_ends(ends_of_trajectory(trajectory))


def _row_of_ends(ends: EnsembleEnds) -> dict[str, Any]:
    settings = ends.settings
    printed = printed_row(settings, ends.steps)
    if isinstance(settings, ModularSettings):
        columns = network_columns(ends.embedding, ends.accuracy)
        compared = [
            "circle_accuracy_percent",
            "other_accuracy_percent",
            "imperfections",
            "correlation",
        ]
    else:
        columns = structure_columns(ends.embedding)
        compared = ["imperfections"]
    name = _table_of(settings).setting
    paper = {
        f"paper_{item}": printed and getattr(printed, item).split(" ")[0]
        for item in compared
    }
    is_used = name not in getattr(settings, "unused_settings", ())
    return {
        name: getattr(settings, name) if is_used else None,
        **columns,
        "paper_circles_of_100": printed and printed.circles,
        **paper,
    }


def _table_of(settings: Any) -> _Table:
    """The table of the system of settings. Raises SettingsError if it has none."""
    if settings.system not in TABLES:
        allowed = "those of " + " or ".join(TABLES)
        raise SettingsError("settings", f"those of {settings.system}", allowed)
    return TABLES[settings.system]


def printed_row(settings: Any, steps: int) -> PrintedRow | None:
    """The row that the paper's table has for these settings, if it has one."""
    table = _table_of(settings)
    default = type(settings)()
    fixed = [name for name in table.fixed if name != table.setting]
    if steps != default.default_steps or any(
        getattr(settings, name) != getattr(default, name) for name in fixed
    ):
        return None
    return table.printed.get(getattr(settings, table.setting))


def table_rows(
    settings: SettingsT,
    runs: int,
    seed: int,
    epochs: int | None,
    device: str,
    log: TextIO,
) -> list[dict[str, Any]]:
    """The rows of the table of a system from ensembles of any size, which are simulated
    or found in runs/, see `simulate_ends`.

    Raises SettingsError if the setting of the rows has a value other than the default,
    and as `simulate` does."""
    ensembles = _row_ensembles(settings, runs, seed, epochs, device)
    return [
        _row_of_ends(simulate_ends(ensemble, _row_label(row), log))
        for row, ensemble in ensembles
    ]


def table_ensembles(
    settings: SettingsT, runs: int, seed: int, epochs: int | None, log: TextIO
) -> Iterator[tuple[SettingsT, xr.Dataset]]:
    """Simulate an ensemble for each row of the table of a system, or find it in runs/;
    print its file to `log`.

    Returns settings and trajectories. Raises as `table_rows` does."""
    for row, ensemble in _row_ensembles(settings, runs, seed, epochs, "auto"):
        trajectory = ensemble.simulate(ensemble.path)
        files = f"{ensemble.path}{left_out(count_diverged(trajectory))}"
        print(f"{_row_label(row)}: {files}", file=log)
        yield row, trajectory


def _row_label(settings: ModularSettings | ParticleSettings) -> str:
    """The setting of a row and its value."""
    table = TABLES[settings.system]
    return f"{table.label} = {getattr(settings, table.setting):g}"


def _row_ensembles(
    settings: SettingsT, runs: int, seed: int, epochs: int | None, device: str
) -> list[tuple[SettingsT, Ensemble]]:
    """The settings and the ensembles of the rows of the table of a system. Raises SettingsError
    for another system, and for a value of the setting of the rows."""
    table = _table_of(settings)
    result = getattr(settings, table.setting)
    values = [f"{value:g}" for value in table.printed]
    if result != getattr(type(settings), table.setting):
        allowed = (
            f"no value here: the table has rows for {', '.join(values[:-1])} and"
            f" {values[-1]}"
        )
        raise SettingsError(table.setting, result, allowed)
    rows = [
        dataclasses.replace(settings, **{table.setting: value})  # type: ignore[arg-type]
        for value in table.printed
    ]
    return [
        (row, Ensemble(row, runs, seed, steps=epochs, device=device)) for row in rows
    ]


def print_ca_table(rows: Sequence[Mapping[str, Any]], csv: Path | None) -> None:
    """Print a table, with the paper's rows below it, and write it as CSV; a CSV on the
    terminal is printed alone."""
    table = make_table(rows)
    of_paper = next(item for item in TABLES.values() if item.setting in rows[0])
    output_table(table, of_paper.columns, csv)
    if str(csv) != "-":
        print(END_LEGEND)
    settings = table[of_paper.setting][table["paper_circles_of_100"].notna()]
    if len(settings) and str(csv) != "-":
        print(
            "\nin the paper:\n"
            + format_table(
                make_table(_printed_cells(of_paper, value) for value in settings)
            )
        )


def _printed_cells(table: _Table, value: float) -> dict[str, str]:
    """The cells of a printed row by the headings of the columns."""
    printed = table.printed[value]
    cells = {name: text or "-" for name, text in printed._asdict().items()}
    cells |= {table.setting: f"{value:g}", "runs": "100"}
    cells["others"] = str(100 - printed.circles)
    cells["circles_percent"] = format_percent(binomial_interval(printed.circles, 100))
    return {column.heading: cells[column.name] for column in table.columns}
