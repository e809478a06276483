"""Plain text as Markdown."""

import re

SYMBOLS = re.compile(r"[\\`*~$|<]|(?<![^\W_])_|_(?![^\W_])|\](?=[(\[:])|&(?=#?\w+;)")
"""What Markdown would read as markup: not underscores within words, nor brackets that
are not part of a link."""


def escape_markdown(text: str) -> str:
    """Plain text as one line of Markdown, with a backslash before symbols that Markdown
    would interpret within a line, and with the index of f_a.

    >>> print(escape_markdown("f_a * 2 | [1](2)"))
    fₐ \\* 2 \\| [1\\](2)
    """
    words = " ".join(str(text).split()).replace(
        "f_a", "f\N{LATIN SUBSCRIPT SMALL LETTER A}"
    )
    return SYMBOLS.sub(r"\\\g<0>", words)
