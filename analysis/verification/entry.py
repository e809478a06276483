"""The entry of a claim: what is stated, how it was tested, what was found, and how to do it again."""

from collections.abc import Mapping
from typing import NamedTuple

from analysis.verification.claim import Part
from analysis.verification.disagreements import against
from analysis.verification.document import (
    Block,
    Bullets,
    Code,
    Facts,
    Link,
    Paragraph,
    Picture,
    Rich,
    Row,
    Section,
    Span,
    Strong,
    Table,
)
from analysis.verification.judged import Judged
from analysis.verification.rules import Judgement, Verdict
from analysis.verification.study import Size, Study
from analysis.verification.wording import amount, counted_from, difference, effect, rule_words, sentence, stated


class Drawn(NamedTuple):
    """A picture that there is."""

    shows: str
    """What is to be seen, for those who cannot"""
    caption: str = ""
    home: str = ""
    """The claim under which it stands, if it is of one"""


def entry(one: Judged, study: Study | None, drawn: Mapping[str, Drawn]) -> Section:
    """The entry of a claim, whose study may be missing where it is not testable."""
    claim = one.claim
    blocks: list[Block] = [Paragraph((Strong(claim.statement),))]
    if one.findings:
        blocks += [_found(one), *_plainly(one)]
    elif one.verdict is Verdict.LEFT:
        blocks.append(Paragraph((_left(one, study),)))
    else:
        blocks.append(Paragraph((f"Not tested: {sentence(claim.untestable)}",)))
    blocks.append(Facts(tuple(_facts(one, study, drawn))))
    picture = drawn.get(claim.figure)
    if picture and picture.home == claim.name:
        blocks.append(Picture(claim.figure, picture.shows, (picture.caption,)))
    return Section(claim.name, claim.name, tuple(blocks), (), claim.paper, one.verdict)


def _found(one: Judged) -> Table:
    """A row for each part: what is stated, what is found, how far apart they are."""
    parts = list(zip(one.claim.parts, one.findings, one.judgements, strict=True))
    several, effects = len(parts) > 1, any(effect(finding) for _, finding, _ in parts)
    rows = []
    for part, finding, judgement in parts:
        cells: list[Rich] = [(part.label,)] * several
        cells += [
            (stated(part),),
            (Strong(amount(finding.interval, part)),),
            (f"{finding.count:,} {finding.of}",),
            (_apart(part, judgement),),
        ]
        cells += [(effect(finding),)] * effects
        cells.append((f"{judgement.verdict.value}: {judgement.why}" if several else sentence(judgement.why),))
        rows.append(Row(tuple(cells)))
    header = [""] * several + ["stated", "here", "of", "difference"] + ["effect"] * effects + ["why"]
    return Table(tuple(header), tuple(rows))


def _apart(part: Part, judgement: Judgement) -> str:
    told = difference(judgement, part)
    return f"{told} {counted_from(part.rule)}" if told else ""


def _plainly(one: Judged) -> list[Block]:
    """What a reader must not miss: a contradiction, and notes."""
    blocks: list[Block] = []
    told: dict[Verdict, str] = {
        Verdict.NOT: "This contradicts the paper." if one.claim.paper != "OWN" else "This does not hold.",
        Verdict.PARTLY: _only_partly(one),
    }
    if one.verdict in told:
        meaning = f" What follows: {sentence(one.claim.meaning)}" if one.claim.meaning else ""
        blocks.append(Paragraph((Strong(told[one.verdict]), meaning)))
    same = len({finding.note for finding in one.findings}) == 1
    notes = [
        ("" if same or not part.label else f"{part.label}: ") + sentence(finding.note)
        for part, finding, judgement in zip(one.claim.parts, one.findings, one.judgements, strict=True)
        if finding.note and finding.note != judgement.why
    ]
    notes = list(dict.fromkeys(notes))
    if notes:
        blocks.append(
            Bullets(tuple((note,) for note in notes)) if len(notes) > 1 else Paragraph((f"Note: {notes[0]}",))
        )
    return blocks


def _only_partly(one: Judged) -> str:
    """Why, or which parts do not bear a claim out."""
    if len(one.judgements) == 1:
        return f"Only partly: {one.judgements[0].why}."
    against_it = [part.label for part, _, judgement in against(one) if judgement.verdict is Verdict.NOT and part.label]
    unsure = [part.label for part, _, judgement in against(one) if judgement.verdict is Verdict.PARTLY and part.label]
    told = [f"against it: {', '.join(against_it)}"] * bool(against_it) + [f"open: {', '.join(unsure)}"] * bool(unsure)
    return "This bears the claim out only in part" + (f" ({'; '.join(told)})." if told else ".")


def _left(one: Judged, study: Study | None) -> str:
    sizes = [size.value for size in Size if study and size in study.sizes]
    larger = f"; it is done at {' and '.join(sizes)} size" if sizes else ""
    return f"Not tested at this size, {one.size.value}: its study is too dear for it{larger}."


def _facts(one: Judged, study: Study | None, drawn: Mapping[str, Drawn]) -> list[tuple[str, Rich]]:
    """How it was tested, and how to do it again."""
    claim = one.claim
    facts: list[tuple[str, Rich]] = [("Source", (claim.source,))]
    if claim.readings:
        facts.append(("Readings", _readings(claim.readings)))
    if claim.untestable:
        return [*facts, ("Figure", _figure(claim.figure, claim.name, drawn))] if claim.figure else facts
    facts.append(("Measured", (sentence(claim.measured),)))
    facts.append(("Rule", (_rules(one),)))
    facts.append(("Refuted by", (sentence(claim.refuted),)))
    if study:
        facts.append(("Study", (_study(one, study),)))
    facts.append(("To repeat", _commands(one, study)))
    if claim.figure:
        facts.append(("Figure", _figure(claim.figure, claim.name, drawn)))
    return facts


def _readings(readings: tuple[str, ...]) -> Rich:
    letters = "abcdefghijklmnopqrstuvwxyz"
    spans: list[Span] = ["The words may mean: "]
    for place, reading in enumerate(readings):
        spans += [Strong(f"({letters[place % 26]}) "), reading, "; " if place + 1 < len(readings) else ". "]
    return *spans, "Tested is (a)."


def _rules(one: Judged) -> str:
    """The rule of each part, or the one that all have."""
    parts = one.claim.parts
    words = [rule_words(part) for part in parts]
    if len(set(words)) == 1:
        return sentence("each " * (len(parts) > 1) + words[0])
    return sentence("; ".join(f"{part.label}: {each}" for part, each in zip(parts, words, strict=True)))


def _study(one: Judged, study: Study) -> str:
    """Which study it is read off, how large, and in what that is less than the paper's."""
    told = f"{study.name}: {study.what}"
    params = study.sizes.get(one.size)
    if params:
        told += f"; {one.size.value} size: " + ", ".join(f"{name} {_value(value)}" for name, value in params.items())
    if study.reduced and one.size is Size.DEFAULT:
        told += f"; smaller than in the paper: {study.reduced}"
    if study.reduced and one.size is Size.QUICK:
        told += "; smaller than in the paper"
    return sentence(told)


def _value(value: object) -> str:
    if isinstance(value, list | tuple):
        return "[" + ", ".join(map(_value, value)) + "]"
    return f"{value:g}" if isinstance(value, float) else str(value)


def _commands(one: Judged, study: Study | None) -> Rich:
    size = one.size
    if one.verdict is Verdict.LEFT:
        done = study.sizes if study else (Size.DEFAULT,)
        size = next((each for each in (Size.DEFAULT, *Size) if each in done), size)
    option = "" if size is Size.DEFAULT else f" --{size.value}"
    spans: list[Span] = [Code(f"python -m analysis.verify --only {one.claim.name}{option}")]
    if study and study.command:
        spans += ["; more of it: ", Code(study.command)]
    return tuple(spans)


def _figure(name: str, claim: str, drawn: Mapping[str, Drawn]) -> Rich:
    command = Code(f"python -m analysis.paper {name}")
    if name not in drawn:
        return command, " draws it, and makes the runs that it needs."
    home = drawn[name].home
    return (command, ", drawn below.") if home == claim else (command, ", drawn under ", Link(home, home), ".")
