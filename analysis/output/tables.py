"""Tables: one pandas DataFrame, printed for the terminal and written as CSV, LaTeX or
Markdown from the same columns.

An estimate with a 95% interval takes three columns of the DataFrame: `name`, `name_low`
and `name_high` (`interval_columns`). Missing values are NaN or None: empty in the CSV,
a dash on the terminal.

    columns = [
        Column("f_a", "fa"),
        Column("circles % [95%]", "circles_percent", digits=1, interval="bounds"),
        Column("imperfections", "imperfections", digits=1, interval="half-width"),
    ]
    output_table(make_table(rows), columns, options.csv)  # rows: a dict for each row
"""

from __future__ import annotations

import math
import numbers
from collections.abc import Callable, Iterable, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal, NamedTuple

import lazy_loader as lazy

from analysis.output.files import PRINTED_SUFFIXES, replace_file

if TYPE_CHECKING:
    import pandas as pd
else:
    pd = lazy.load("pandas")

MISSING = "-"
"""Text that the terminal shows for a missing value."""


class Column(NamedTuple):
    """A column of the printed table."""

    heading: str
    name: str = ""
    """Name of the column in the DataFrame; empty if `text` takes the whole row."""
    digits: int | None = None
    """Decimal places; None prints whole numbers as they are and others with up to six
    significant digits."""
    interval: Literal["", "bounds", "half-width"] = ""
    """How the columns name_low and name_high are shown: "1.0 [0.5, 1.5]" or "1.0 ±
    0.5"."""
    scale: float = 1
    """Factor of printed values, such as 100 for a fraction that is printed as a
    percentage."""
    text: Callable[[Any], str] | None = None
    """Function that returns the text of a cell from its value, or from the row (a dict)
    if `name` is empty."""


def make_table(rows: Iterable[Mapping[str, Any]]) -> pd.DataFrame:
    """The rows as a DataFrame; integer columns remain integer if values are missing."""
    records = [dict(row) for row in rows]
    table = pd.DataFrame.from_records(records)
    for name in table.columns:
        values = [row[name] for row in records if not _is_missing(row.get(name))]
        if values and all(isinstance(value, numbers.Integral) for value in values):
            table[name] = table[name].astype("Int64")
    return table


def interval_columns(
    name: str, interval: Sequence[float], scale: float = 1
) -> dict[str, Any]:
    """The three columns of an estimate with its interval (value, low, high)."""
    return {
        name + end: scale * float(value)
        for end, value in zip(("", "_low", "_high"), interval, strict=True)
    }


def format_table(table: pd.DataFrame, columns: Sequence[Column] | None = None) -> str:
    """The table as text: columns of words are aligned left, others right.

    Without `columns`, all columns of the DataFrame are shown under their own names.
    """
    columns = _printed_columns(table, columns)
    rows = table.to_dict("records")
    cells = []
    for column, texts in zip(columns, _cell_texts(rows, columns), strict=True):
        width = max(map(len, [column.heading, *texts]))
        words = any(isinstance(row.get(column.name), str) for row in rows)
        align = str.ljust if words else str.rjust
        lines = [column.heading, "-" * width, *texts]
        cells.append([align(line, width) for line in lines])
    return "\n".join("  ".join(line).rstrip() for line in zip(*cells, strict=True))


def _printed_columns(
    table: pd.DataFrame, columns: Sequence[Column] | None
) -> Sequence[Column]:
    """The columns, or all of the DataFrame under their own names."""
    if columns is None:
        return [Column(str(name), str(name)) for name in table]
    return columns


def _cell_texts(
    rows: Sequence[Mapping[str, Any]], columns: Sequence[Column]
) -> list[list[str]]:
    """The printed cells of each column, without line breaks, which would end a row."""
    return [
        [" ".join(_format_cell(column, row).splitlines()) for row in rows]
        for column in columns
    ]


def _format_cell(column: Column, row: Mapping[str, Any]) -> str:
    value: Any = row[column.name] if column.name else row
    if column.text is not None:
        return column.text(value)
    if isinstance(value, str):
        return value or MISSING
    if _is_missing(value):
        return MISSING
    if column.interval:
        bounds = [
            column.scale * float(row[column.name + end])
            for end in ("", "_low", "_high")
        ]
        if column.interval == "bounds":
            return format_interval(bounds, column.digits)
        return format_plus_minus(bounds, column.digits or 0)
    if column.digits is not None:
        return _fixed(column.scale * value, column.digits)
    return (
        str(value)
        if isinstance(value, numbers.Integral)
        else f"{column.scale * value:g}"
    )


def _is_missing(value: Any) -> bool:
    return value is None or value is pd.NA or value != value


def write_table(
    table: pd.DataFrame, path: Path, columns: Sequence[Column] | None = None
) -> None:
    """Write the table to a file, or as CSV to the terminal for the path "-". Says if it
    replaces a file. Raises RecordingError.

    A name that ends in .tex or .md has the printed `columns` as a table of LaTeX (with
    the package booktabs) or Markdown; every other one the whole table as CSV."""
    if path.suffix in PRINTED_FORMATS:
        columns = _printed_columns(table, columns)
        texts = _cell_texts(table.to_dict("records"), columns)
        printed = pd.DataFrame(
            {
                column.heading: pd.Series(text, dtype=str)
                for column, text in zip(columns, texts, strict=True)
            }
        )
        text = PRINTED_FORMATS[path.suffix](printed)
    else:
        text = _csv_text(table)
    if str(path) == "-":
        print(text, end="")
        return
    if path.exists():
        print(f"replaced    {path}")
    with replace_file(path) as temporary:
        temporary.write_text(text, encoding="utf-8")


def _csv_text(table: pd.DataFrame) -> str:
    exact = dict.fromkeys(table.select_dtypes("float32"), float) | dict.fromkeys(
        table.select_dtypes(bool), int
    )
    return table.astype(exact).to_csv(index=False, lineterminator="\n")


_LATEX_SYMBOLS = str.maketrans(
    {"±": r"$\pm$", "<": "$<$", ">": "$>$", "|": r"\textbar{}"}
)
"""LaTeX for symbols that it does not print, or prints as others, with its default fonts."""


def _latex_text(printed: pd.DataFrame) -> str:
    text = printed.to_latex(index=False, escape=True)
    return text.translate(_LATEX_SYMBOLS)


def _markdown_text(printed: pd.DataFrame) -> str:
    escaped = printed.map(lambda text: text.replace("|", r"\|"))
    return escaped.to_markdown(index=False, disable_numparse=True) + "\n"


PRINTED_FORMATS = dict(
    zip(PRINTED_SUFFIXES, (_latex_text, _markdown_text), strict=True)
)
"""How the printed columns are written, by the ending of a file's name."""


def output_table(
    table: pd.DataFrame,
    columns: Sequence[Column],
    csv: Path | None = None,
    rows: Any = slice(None),
) -> None:
    """Print `rows` (a slice or a mask) of a table under the headings of `columns`; write
    the whole table as `write_table` does.

    If `csv` is "-", only the CSV is printed.
    """
    if str(csv) != "-":
        print("\n" + format_table(table[rows], columns))
    if csv:
        write_table(table, csv, columns)


# ---------------------------------------------------------------- numbers and intervals


def format_percent(interval: Sequence[float]) -> str:
    """A fraction with its interval (value, low, high), in percent; a dash where there
    is no value."""
    if math.isnan(interval[0]):
        return MISSING
    value, low, high = (f"{100 * item:.1f}" for item in interval)
    return f"{value} [{low}, {high}]"


def format_interval(interval: Sequence[float], digits: int | None = 0) -> str:
    """An estimate with its interval (value, low, high); a dash where there is no finite
    one.

    digits: decimal places; None is three significant digits.
    """
    if not math.isfinite(interval[0]):
        return MISSING
    texts = []
    for number in interval:
        text = f"{number:.3g}" if digits is None else _fixed(number, digits)
        texts.append(text if math.isfinite(number) else MISSING)
    value, low, high = texts
    if all(math.isnan(bound) for bound in interval[1:]):
        return value
    return f"{value} [{low}, {high}]"


def format_plus_minus(interval: Sequence[float], digits: int = 1) -> str:
    """An estimate with half the width of its interval (value, low, high); a dash where
    there is no value.

    An interval that is not symmetric, such as one that ends at 0 or 1, is shown by its
    bounds."""
    value, low, high = interval
    if math.isnan(value):
        return MISSING
    if not (
        math.isnan(low)
        or math.isclose(value - low, high - value, rel_tol=1e-6, abs_tol=1e-12)
    ):
        return format_interval(interval, digits)
    half = (high - low) / 2
    return _fixed(value, digits) + ("" if math.isnan(half) else f" ± {half:.{digits}f}")


def format_percent_plus_minus(interval: Sequence[float]) -> str:
    """A fraction with half the width of its interval, in percent; a dash where there is
    no value."""
    return format_plus_minus([100 * value for value in interval])


def format_p_value(value: float) -> str:
    """A p-value with four digits; a dash where there is none."""
    return (
        MISSING if math.isnan(value) else "< 0.0001" if value < 1e-4 else f"{value:.4f}"
    )


def _fixed(value: float, digits: int) -> str:
    return f"{round(value, digits) + 0.0:.{digits}f}"  # never -0
