"""A document as one page that fetches nothing: styles, script and pictures are in it."""

import base64
import re
import struct
from collections.abc import Iterable
from html import escape
from pathlib import Path
from string import Template

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
    ReportRow,
    ReportTable,
    RichText,
    Section,
    Span,
    Strong,
)
from analysis.reproduction.verification.criteria import Verdict

INTERVAL = re.compile(r"\[([-\d.]+), ([-\d.]+)\]")
TEMPLATE = Path(__file__).with_name("report.html")


def render_html(document: Document, folder: Path) -> str:
    """The document as HTML; its pictures are read from a folder."""
    return Template(TEMPLATE.read_text(encoding="utf-8")).substitute(
        title=escape(document.title),
        contents=_contents(document.sections),
        front=_blocks(document.blocks, folder),
        verdicts=_choices("verdict", {each.value: each.value for each in _verdicts(document.sections)}),
        papers=_choices("paper", {each: PAPERS.get(each, each) for each in _papers(document.sections)}),
        body="\n".join(_section(each, 2, folder) for each in document.sections),
    )


PAPERS = {"OWN": "our own"}


def _entries(sections: Iterable[Section]) -> Iterable[Section]:
    for each in sections:
        if each.verdict:
            yield each
        yield from _entries(each.sections)


def _verdicts(sections: Iterable[Section]) -> list[Verdict]:
    found = {each.verdict for each in _entries(sections)}
    return [verdict for verdict in Verdict if verdict in found]


def _papers(sections: Iterable[Section]) -> list[str]:
    return list(dict.fromkeys(each.paper for each in _entries(sections)))


def _choices(what: str, names: dict[str, str]) -> str:
    """Boxes to tick, of what is to be seen."""
    boxes = (
        f'<label><input type="checkbox" name="{what}" value="{escape(value)}" checked> {escape(name)}</label>'
        for value, name in names.items()
    )
    return "".join(boxes)


def _contents(sections: Iterable[Section]) -> str:
    """The table of contents: sections, and below these what is no entry of a claim."""
    lines = []
    for each in sections:
        below = [one for one in each.sections if not one.verdict]
        inner = f"<ol>{''.join(map(_content, below))}</ol>" if below else ""
        lines.append(f'<li><a href="#{escape(each.anchor)}">{escape(each.title)}</a>{inner}</li>')
    return f"<ol>{''.join(lines)}</ol>"


def _content(section: Section) -> str:
    return f'<li><a href="#{escape(section.anchor)}">{escape(section.title)}</a></li>'


def _section(section: Section, level: int, folder: Path) -> str:
    entry = f' class="entry" data-paper="{section.paper}" data-verdict="{section.verdict.value}"' if (
        section.verdict) else ""  # fmt: skip
    badge = " " + _badge(section.verdict) if section.verdict else ""
    anchor = escape(section.anchor)
    heading = f'<h{level} id="{anchor}-title">{escape(section.title)}{badge}</h{level}>'
    inner = [_blocks(section.blocks, folder), *(_section(each, level + 1, folder) for each in section.sections)]
    kind = "article" if section.verdict else "section"
    whole = "\n".join([heading, *inner])
    return f'<{kind} id="{anchor}" aria-labelledby="{anchor}-title"{entry}>\n{whole}\n</{kind}>'


def _blocks(blocks: Iterable[Block], folder: Path) -> str:
    return "\n".join(_block(block, folder) for block in blocks)


def _block(block: Block, folder: Path) -> str:
    if isinstance(block, Paragraph):
        return f"<p>{_rich(block.text)}</p>"
    if isinstance(block, Bullets):
        return f"<ul>{''.join(f'<li>{_rich(item)}</li>' for item in block.items)}</ul>"
    if isinstance(block, Facts):
        facts = (f"<div><dt>{escape(name)}</dt><dd>{_rich(text)}</dd></div>" for name, text in block.facts)
        return f"<dl>{''.join(facts)}</dl>"
    if isinstance(block, Picture):
        return _picture(block, folder)
    return _table(block)


def _picture(picture: Picture, folder: Path) -> str:
    png = (folder / f"{picture.name}.png").read_bytes()
    width, height = struct.unpack(">II", png[16:24])  # of the header, so that nothing moves when it is shown
    data = base64.b64encode(png).decode()
    image = f'<img alt="{escape(picture.alt)}" width="{width}" height="{height}" src="data:image/png;base64,{data}">'
    return f"<figure>{image}<figcaption>{_rich(picture.caption)}</figcaption></figure>"


def _table(table: ReportTable) -> str:
    head = "".join(f'<th scope="col">{escape(name)}</th>' for name in table.header)
    rows = "\n".join(_row(row, table.header) for row in table.rows)
    return f'<div class="table"><table><thead><tr>{head}</tr></thead>\n<tbody>{rows}</tbody></table></div>'


def _row(row: ReportRow, header: tuple[str, ...]) -> str:
    """A row; each cell knows its column's name, which a narrow page shows before it."""
    mark = f' class="claim" data-paper="{row.paper}" data-verdict="{row.verdict.value}"' if row.verdict else ""
    mark += f' id="{escape(row.anchor)}"' if row.anchor else ""
    first, *others = (
        f' data-name="{escape(name)}">{_rich(cell)}' for cell, name in zip(row.cells, header, strict=True)
    )
    return f'<tr{mark}><th scope="row"{first}</th>' + "".join(f"<td{cell}</td>" for cell in others) + "</tr>"


def _rich(text: RichText) -> str:
    return "".join(map(_span, text))


def _badge(verdict: Verdict) -> str:
    return f'<span class="badge {verdict.name.lower()}">{MARKS[verdict]} {escape(verdict.value)}</span>'


def _span(span: Span) -> str:
    if isinstance(span, str):
        return _whole(escape(span))
    if isinstance(span, Badge):
        return _badge(span.verdict)
    if isinstance(span, Break):
        return "<br>"
    if isinstance(span, Code):
        return f"<code>{_words(span.text)}</code>"
    if isinstance(span, Link):
        to = span.to if "://" in span.to else f"#{span.to}"
        return f'<a href="{escape(to)}">{escape(span.text)}</a>'
    assert isinstance(span, Strong)
    return f"<strong>{_whole(escape(span.text))}</strong>"


def _words(command: str) -> str:
    """A command in which no line ends after the hyphens of an option."""
    words = command.split(" ")
    return " ".join(f"<span>{escape(each)}</span>" if each.startswith("-") else escape(each) for each in words)


def _whole(text: str) -> str:
    """Text in which no line ends within an interval."""
    return INTERVAL.sub("[\\1,\N{NO-BREAK SPACE}\\2]", text)
