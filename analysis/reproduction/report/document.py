"""A document, to be written as Markdown or as a page: sections of blocks, of text with spans."""

from typing import NamedTuple

from analysis.reproduction.verification.criteria import Verdict


class Strong(NamedTuple):
    """Words that stand out."""

    text: str


class Code(NamedTuple):
    """What is to be typed."""

    text: str


class Link(NamedTuple):
    """To a section of the document, by its anchor, or with https:// to elsewhere."""

    text: str
    to: str


class Badge(NamedTuple):
    """A verdict, to be told at a glance."""

    verdict: Verdict


class Break(NamedTuple):
    """A new line, within a cell of a table."""


Span = str | Strong | Code | Link | Badge | Break
RichText = tuple[Span, ...]
"""Text; what is a plain str is shown as it is, whatever signs are in it."""


class Paragraph(NamedTuple):
    """A paragraph."""

    text: RichText


class Bullets(NamedTuple):
    """A list."""

    items: tuple[RichText, ...]


class Facts(NamedTuple):
    """Names, and what is to be said under each."""

    facts: tuple[tuple[str, RichText], ...]


class ReportRow(NamedTuple):
    """A row of a table; of a claim, which can be filtered, it says which paper and what verdict."""

    cells: tuple[RichText, ...]
    paper: str = ""
    verdict: Verdict | None = None
    anchor: str = ""
    """What links to this row name, if any do"""


class ReportTable(NamedTuple):
    """A table."""

    header: tuple[str, ...]
    rows: tuple[ReportRow, ...]


class Picture(NamedTuple):
    """A picture by its name, such as ca5, without folder and suffix."""

    name: str
    alt: str
    """What is to be seen, for those who cannot"""
    caption: RichText


Block = Paragraph | Bullets | Facts | ReportTable | Picture


class Section(NamedTuple):
    """A heading and what is below it."""

    title: str
    anchor: str
    blocks: tuple[Block, ...] = ()
    sections: "tuple[Section, ...]" = ()
    paper: str = ""
    """Of an entry: its paper, by which it can be filtered"""
    verdict: Verdict | None = None
    """Of an entry: by which it can be filtered"""


class Document(NamedTuple):
    """All of it."""

    title: str
    blocks: tuple[Block, ...]
    sections: tuple[Section, ...]


MARKS = {
    Verdict.REPRODUCED: "●",
    Verdict.PARTLY: "◐",
    Verdict.NOT: "✕",
    Verdict.UNDECIDED: "?",
    Verdict.UNTESTABLE: "–",
    Verdict.SKIPPED: "○",
}
"""A sign before each verdict, so that it is not told by colour alone."""
