"""Symbols of settings in the texts of figures, and texts that are no formulae although
they have dollar signs, such as names of layers."""

import functools
import re

from matplotlib.figure import Figure
from matplotlib.mathtext import MathTextParser
from matplotlib.text import Text

_SYMBOL = re.compile(r"(?<![$\w])(f_a|g_a|g_r)(?![$\w])")


def typeset(text: str) -> str:
    """A text in which CA's constants, such as f_a, are drawn by matplotlib as symbols.
    One that matplotlib would take for a formula and cannot read is drawn as it is.

    Examples
    --------
    >>> typeset("particles, N = 17, f_a = 1")
    'particles, N = 17, $f_a$ = 1'
    """
    if _is_readable(text):
        return _SYMBOL.sub(r"$\1$", text)
    return text.replace("$", r"\$")


def show_as_written(figure: Figure) -> None:
    """Let those texts of a figure that matplotlib would take for formulae and cannot
    read be drawn as they are."""
    for text in figure.findobj(Text):
        if not _is_readable(text.get_text()):
            text.set_text(typeset(text.get_text()))


@functools.cache
def _is_readable(text: str) -> bool:
    """Whether matplotlib can draw a text, whose lines are formulae if they have two
    dollar signs."""
    parser = MathTextParser("path")
    try:
        for line in text.split("\n"):
            if line.count("$") > 1:
                parser.parse(line)
    except ValueError:
        return False
    return True
