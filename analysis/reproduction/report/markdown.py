"""A document as Markdown, as GitHub and others read it."""

import re
from collections.abc import Iterable

from analysis.reproduction.report.document import (
    MARKS,
    Badge,
    Block,
    Break,
    Bullets,
    Code,
    Document,
    Facts,
    Link,
    Paragraph,
    Picture,
    ReportTable,
    RichText,
    Section,
    Span,
    Strong,
)


def render_markdown(document: Document, folder: str) -> str:
    """The document; its pictures lie in a folder beside it."""
    lines = [f"# {_escape_markdown(document.title)}", *_blocks(document.blocks, folder)]
    for section in document.sections:
        lines += _section(section, 2, folder)
    return "\n\n".join(lines) + "\n"


def _section(section: Section, level: int, folder: str) -> list[str]:
    mark = f" · {MARKS[section.verdict]} {section.verdict.value}" if section.verdict else ""
    lines = [f'<a id="{section.anchor}"></a>\n\n{"#" * level} {_escape_markdown(section.title)}{mark}']
    lines += _blocks(section.blocks, folder)
    for each in section.sections:
        lines += _section(each, level + 1, folder)
    return lines


def _blocks(blocks: Iterable[Block], folder: str) -> list[str]:
    return [_block(block, folder) for block in blocks]


def _block(block: Block, folder: str) -> str:
    if isinstance(block, Paragraph):
        return _start(_rich(block.text))
    if isinstance(block, Bullets):
        return "\n".join(f"- {_start(_rich(item))}" for item in block.items)
    if isinstance(block, Facts):
        return "\n".join(f"- **{_escape_markdown(name)}**: {_rich(text)}" for name, text in block.facts)
    if isinstance(block, Picture):
        return f"![{_escape_markdown(block.alt)}]({folder}/{block.name}.png)\n\n{_start(_rich(block.caption))}"
    return _table(block)


def _table(table: ReportTable) -> str:
    lines = [[_escape_markdown(name) for name in table.header]]
    for row in table.rows:
        first, *others = map(_rich, row.cells)
        lines.append([f'<a id="{row.anchor}"></a>' * bool(row.anchor) + first, *others])
    head, *rows = ("|" + "|".join(line) + "|" for line in lines)  # without spaces, of which there would be thousands
    return "\n".join([head, "|" + "---|" * len(table.header), *rows])


def _rich(text: RichText) -> str:
    return "".join(map(_span, text))


def _span(span: Span) -> str:
    if isinstance(span, str):
        return _escape_markdown(span)
    if isinstance(span, Badge):
        return f"{MARKS[span.verdict]} {span.verdict.value}"
    if isinstance(span, Break):
        return "<br>"
    if isinstance(span, Code):
        return "`" + span.text.replace("|", "\\|") + "`"
    if isinstance(span, Link):
        to = span.to if "://" in span.to else f"#{span.to}"
        return f"[{_escape_markdown(span.text)}]({to})"
    assert isinstance(span, Strong)
    inner = span.text.strip()
    after = span.text[len(span.text.rstrip()) :] and " "  # emphasis must not end with a space
    return f"**{_escape_markdown(inner)}**{after}" if inner else ""


SIGNS = re.compile(r"[\\`*~$|<]|(?<![^\W_])_|_(?![^\W_])|\](?=[(\[:])|&(?=#?\w+;)")
"""What Markdown would read as more than a sign: not underscores within words, nor brackets that are no link's."""
FIRST = re.compile(r"^((#+|[-+]|\d+(?=[.)]))(?=[.)]?( |$))|>|[=-]+$)")
"""What it would read so at the beginning of a line."""


def _escape_markdown(text: str) -> str:
    """Plain text as Markdown that shows it as it is, on one line."""
    return SIGNS.sub(r"\\\g<0>", " ".join(text.split(" "))).replace("\n", " ")


def _start(text: str) -> str:
    """Text at the beginning of a line."""
    return FIRST.sub(lambda found: found[0] + "\\" if found[0].isdigit() else "\\" + found[0], text)
