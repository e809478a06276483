"""Training pairs that a file lists: two columns of tokens, separated by a comma, with or
without a header.

This module imports only the standard library."""

import csv
import io
from collections.abc import Callable

from dynamics.errors import SettingsError

FIELD = "train_pairs_file"
"""The setting that names the file."""
_COLUMNS = "two columns of tokens, separated by a comma"

Pair = tuple[int, int]


def parse_pairs(
    content: bytes, name: str, tokens: int, pair_of: Callable[[int, int], Pair | None]
) -> tuple[Pair, ...]:
    """The pairs in the content of a file, in its order.

    name: of the file, for error messages. tokens: their number. pair_of: the pair of the
    task that two tokens are, None if it is no pair of the task. Raises SettingsError for
    content that is not such a list, or lists a pair twice."""
    pairs: dict[Pair, int] = {}
    for line, row in _rows(content, name):
        where = f"{name}, line {line}"
        if len(row) != 2:
            found = f"{where} with {len(row)} column{'s' if len(row) > 1 else ''}"
            raise SettingsError(FIELD, found, _COLUMNS)
        try:
            first, second = map(int, row)
        except ValueError:
            found = f"{where}: {','.join(row)}"
            raise SettingsError(FIELD, found, _COLUMNS) from None
        for token in (first, second):
            if not 0 <= token < tokens:
                found = f"{where}: token {token}"
                raise SettingsError(FIELD, found, f"tokens from 0 to {tokens - 1}")
        pair = pair_of(first, second)
        if pair is None:
            found = f"{where}: {first},{second}"
            raise SettingsError(FIELD, found, "pairs a,b with a <= b without --ordered")
        if pair in pairs:
            found = f"{where}: {first},{second}, as in line {pairs[pair]}"
            raise SettingsError(FIELD, found, "each pair once")
        pairs[pair] = line
    if not pairs:
        raise SettingsError(FIELD, f"{name} without pairs", "at least one pair")
    return tuple(pairs)


def _rows(content: bytes, name: str) -> list[tuple[int, list[str]]]:
    """The rows of a CSV file that are not empty, with the numbers of their lines,
    without its header."""
    try:
        reader = csv.reader(io.StringIO(content.decode("utf-8-sig"), newline=""))
        rows = [(reader.line_num, [cell.strip() for cell in row]) for row in reader]
    except (UnicodeDecodeError, csv.Error) as error:
        allowed = f"a text file of {_COLUMNS} ({error})"
        raise SettingsError(FIELD, name, allowed) from None
    rows = [(line, row) for line, row in rows if any(row)]
    if rows and not any(map(_is_number, rows[0][1])):
        return rows[1:]
    return rows


def _is_number(cell: str) -> bool:
    try:
        float(cell)
    except ValueError:
        return False
    return True
