"""Tables of numbers in text files: a row a line, with commas, semicolons, tabs or blanks
between the cells, and with or without a header.

This module imports only the standard library."""

import csv
import io

SEPARATORS = (";", "\t", ",")
"""What separates the cells of a row: that of these which most rows contain, the first one
if they are equal; blanks if no row contains one."""
TABLE_FORM = "cells separated by commas, semicolons, tabs or blanks"
"""The form of a table, as words of an error message."""


def read_rows(content: bytes) -> list[tuple[int, list[str]]]:
    """The rows of a table that are not empty, with a header if there is one, and the
    numbers of their lines.

    Raises ValueError for content that is no text."""
    try:
        text = content.decode("utf-8-sig")
        if "\0" in text:
            raise ValueError("it is no text")
        lines = text.splitlines()
        separator = _separator(lines)
        if separator is None:
            rows = [(number, line.split()) for number, line in enumerate(lines, 1)]
        else:
            reader = csv.reader(io.StringIO(text, newline=""), delimiter=separator)
            rows = [(reader.line_num, [cell.strip() for cell in row]) for row in reader]
    except UnicodeDecodeError:
        raise ValueError("it is no text") from None
    except csv.Error as error:
        raise ValueError(str(error)) from None
    return [(line, row) for line, row in rows if any(row)]


def read_table(content: bytes) -> list[tuple[int, list[str]]]:
    """The rows of a table that are not empty, with the numbers of their lines. A first
    row without a number is a header and is left out.

    Raises ValueError for content that is no text."""
    rows = read_rows(content)
    has_header = rows and not any(map(_is_number, rows[0][1]))
    return rows[1:] if has_header else rows


def read_numbers(content: bytes) -> list[list[float]]:
    """The rows of a table of numbers, all of the same length.

    Raises ValueError, which names the first line that is wrong."""
    table = read_table(content)
    if not table:
        raise ValueError("it has no row of numbers")
    columns = len(table[0][1])
    numbers = []
    for line, row in table:
        if len(row) != columns:
            first = table[0][0]
            raise ValueError(
                f"line {line} has {len(row)} cells, line {first} has {columns}"
            )
        for cell in row:
            if not _is_number(cell):
                found = repr(cell[:40]) if cell else "an empty cell"
                raise ValueError(f"line {line}: {found} is no number{comma_hint(cell)}")
        numbers.append([float(cell) for cell in row])
    return numbers


def comma_hint(cell: str) -> str:
    """The end of a message about a cell that is no number: that decimals follow a
    point, if the cell has a comma instead."""
    has_comma = "," in cell and _is_number(cell.replace(",", "."))
    return "; decimals follow a point, not a comma" if has_comma else ""


def _separator(lines: list[str]) -> str | None:
    """What separates the cells of these lines, None for blanks."""
    counts = {
        separator: sum(separator in line for line in lines) for separator in SEPARATORS
    }
    most = max(counts, key=counts.__getitem__)
    return most if counts[most] else None


def _is_number(cell: str) -> bool:
    try:
        float(cell)
    except ValueError:
        return False
    return True
