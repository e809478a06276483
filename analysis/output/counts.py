"""Counts in words."""


def count_of(number: int, noun: str) -> str:
    """A number and a noun, which is in the plural unless the number is 1.

    Examples
    --------
    >>> count_of(1, "run"), count_of(3, "run")
    ('1 run', '3 runs')
    """
    return f"{number} {noun}{'' if number == 1 else 's'}"
