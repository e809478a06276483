"""Training pairs that a file lists: a table with two columns of tokens, with or without a
header.

This module imports only the standard library."""

from collections.abc import Callable

from dynamics.errors import SettingsError
from dynamics.number_tables import TABLE_FORM, read_table

FIELD = "train_pairs_file"
"""The setting that names the file."""
_COLUMNS = f"two columns of tokens, {TABLE_FORM}"

Pair = tuple[int, int]


def parse_pairs(
    content: bytes, name: str, tokens: int, pair_of: Callable[[int, int], Pair | None]
) -> tuple[Pair, ...]:
    """The pairs in the content of a file, in its order.

    name: of the file, for error messages. tokens: their number. pair_of: the pair of the
    task that two tokens are, None if it is no pair of the task. Raises SettingsError for
    content that is not such a list, or lists a pair twice."""
    try:
        rows = read_table(content)
    except ValueError as error:
        raise SettingsError(FIELD, f"{name} ({error})", _COLUMNS) from None
    pairs: dict[Pair, int] = {}
    for line, row in rows:
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
