"""Counts in words."""


def count_of(number: int, noun: str) -> str:
    """A number with its noun in the singular or plural.

    Examples
    --------
    >>> count_of(1, "run"), count_of(3, "run")
    ('1 run', '3 runs')
    """
    return f"{number} {noun}{'' if number == 1 else 's'}"
