"""Symbols of settings in the texts of figures."""

import re

_SYMBOL = re.compile(r"(?<![$\w])(f_a|g_a|g_r)(?![$\w])")


def typeset(text: str) -> str:
    """A text in which CA's constants, such as f_a, are drawn by matplotlib as symbols.

    Examples
    --------
    >>> typeset("particles, N = 17, f_a = 1")
    'particles, N = 17, $f_a$ = 1'
    """
    return _SYMBOL.sub(r"$\1$", text)
