"""A table for a person (aligned text) and for a program (CSV)."""

import csv
import io
import math
from collections.abc import Sequence
from pathlib import Path
from typing import NamedTuple

from analysis.output.files import replace_file
from analysis.statistics.intervals import Interval


class TextTable(NamedTuple):
    """Column names and rows of text."""

    header: Sequence[str]
    rows: Sequence[Sequence[str]]
    left: Sequence[int] = (0,)
    """Columns that are aligned to the left; the others are to the right."""

    def text(self) -> str:
        """The table in aligned columns."""
        lines = [self.header, *self.rows]
        widths = [max(len(line[k]) for line in lines) for k in range(len(self.header))]
        lines = [self.header, ["-" * width for width in widths], *self.rows]
        return "\n".join("  ".join(map(self._padded, range(len(widths)), line, widths)).rstrip() for line in lines)

    def _padded(self, column: int, cell: str, width: int) -> str:
        return cell.ljust(width) if column in self.left else cell.rjust(width)

    def csv(self) -> str:
        """The table as CSV, with a header."""
        out = io.StringIO()
        writer = csv.writer(out, lineterminator="\n")
        writer.writerow(self.header)
        writer.writerows(self.rows)
        return out.getvalue()

    def write_csv(self, path: Path) -> None:
        """Write the CSV to a file, or to the terminal for the path "-". Raises RecordingError."""
        if str(path) == "-":
            print(self.csv(), end="")
        else:
            with replace_file(path) as temporary:
                temporary.write_text(self.csv())


class TableRow(NamedTuple):
    """A row of a table, for a person and for a program."""

    text: list[str]
    """None for a row that only a program sees."""
    numbers: list[str]
    """None for a row that only a person sees."""


def print_rows(
    header: Sequence[str],
    columns: Sequence[str],
    rows: Sequence[TableRow],
    csv: Path | None,
    left: Sequence[int] = (0,),
) -> None:
    """Print the text under `header` and write the numbers under `columns` as CSV; with the CSV on the terminal,
    that alone."""
    if str(csv) != "-":
        print("\n" + TextTable(header, [row.text for row in rows if row.text], left).text())
    if csv:
        TextTable(columns, [row.numbers for row in rows if row.numbers]).write_csv(csv)


def format_number(value: float) -> str:
    """A number in full, or nothing where there is none."""
    return "" if math.isnan(value) else repr(value if isinstance(value, int) else float(value))


def format_percent(interval: Interval) -> str:
    """A share with its interval, in percent; a dash where there is no value."""
    if math.isnan(interval.value):
        return "-"
    return f"{100 * interval.value:.1f} [{100 * interval.low:.1f}, {100 * interval.high:.1f}]"


def format_interval(interval: Interval, digits: int = 0) -> str:
    """An estimate with its interval; a dash where there is no value."""
    if math.isnan(interval.value):
        return "-"
    shown = [f"{round(value, digits) + 0.0:.{digits}f}" for value in interval]  # never -0
    return shown[0] if math.isnan(interval.low) else f"{shown[0]} [{shown[1]}, {shown[2]}]"


def format_plus_minus(interval: Interval, digits: int = 1) -> str:
    """A mean with half its interval; a dash where there is no value."""
    if math.isnan(interval.value):
        return "-"
    half = "" if math.isnan(interval.half) else f" ± {interval.half:.{digits}f}"
    return f"{round(interval.value, digits) + 0.0:.{digits}f}{half}"  # never -0


def format_percent_plus_minus(interval: Interval) -> str:
    """A mean share with half its interval, in percent; a dash where there is no value."""
    return format_plus_minus(Interval(*(100 * value for value in interval)))
