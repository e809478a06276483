"""Plain text as Markdown."""

import re

SYMBOLS = re.compile(r"[\\`*~$|<]|(?<![^\W_])_|_(?![^\W_])|\](?=[(\[:])|&(?=#?\w+;)")
"""What Markdown would read as markup: not underscores within words, nor brackets that
are not part of a link."""


def escape_markdown(text: str) -> str:
    """Plain text as one line of Markdown, with a backslash before symbols that Markdown
    would interpret within a line.

    >>> print(escape_markdown("f_a * 2 | [1](2)"))
    f_a \\* 2 \\| [1\\](2)
    """
    return SYMBOLS.sub(r"\\\g<0>", " ".join(str(text).split()))
