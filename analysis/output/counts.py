"""Counts in words."""

_NUMERALS = ("no", "one", "two", "three", "four", "five", "six", "seven", "eight")


def number_in_words(number: int) -> str:
    """A number up to eight as a word, a larger one in digits.

    Examples
    --------
    >>> number_in_words(4), number_in_words(20)
    ('four', '20')
    """
    return _NUMERALS[number] if number < len(_NUMERALS) else str(number)


def count_of(number: int, noun: str) -> str:
    """A number and a noun, which is in the plural unless the number is 1.

    Examples
    --------
    >>> count_of(1, "run"), count_of(3, "run")
    ('1 run', '3 runs')
    """
    return f"{number} {noun}{'' if number == 1 else 's'}"
