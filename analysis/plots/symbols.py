"""Symbols of settings in the texts of figures."""

import re

_SYMBOL = re.compile(r"(?<![$\w])f_a(?![$\w])")


def typeset(text: str) -> str:
    """A text with f_a, CA's strength of the alignment, as matplotlib draws a symbol.

    Examples
    --------
    >>> typeset("particles, N = 17, f_a = 1")
    'particles, N = 17, $f_a$ = 1'
    """
    return _SYMBOL.sub("$f_a$", text)
