"""The entry of a claim: what is stated, how it was tested, what was found, and how to do it again."""

from collections.abc import Mapping
from typing import NamedTuple

from analysis.reproduction.report.document import (
    Badge,
    Block,
    Code,
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
from analysis.reproduction.verification.claim import Claim, Measurement
from analysis.reproduction.verification.criteria import Agrees, Judgement, Verdict
from analysis.reproduction.verification.estimate import Estimate
from analysis.reproduction.verification.experiment import Experiment, Size
from analysis.reproduction.verification.formatting import (
    as_sentence,
    format_difference,
    format_effect,
    format_estimate,
    format_rule,
)
from analysis.reproduction.verification.results import ClaimResult


class ReportPicture(NamedTuple):
    """A picture that there is."""

    shows: str
    """What is to be seen, for those who cannot"""
    caption: str = ""
    home: str = ""
    """The claim under which it stands, if it is of one"""


class RepeatedTexts:
    """What entries have said, so that the next of a family of claims need not say the same again."""

    def __init__(self) -> None:
        self.first: dict[tuple[str, str], str] = {}

    def once(self, claim: str, what: str, told: str, words: RichText) -> RichText:
        """The words, or which claim has the same already."""
        first = self.first.setdefault((what, told), claim)
        return words if first == claim or len(told) < LONG else ("As for ", Link(first, first), ".")


LONG = 70
"""Signs below which a text is said again."""


def claim_section(
    one: ClaimResult, study: Experiment | None, drawn: Mapping[str, ReportPicture], said: RepeatedTexts
) -> Section:
    """The entry of a claim, whose study may be missing where it is not testable; `said` is what those before it say."""
    claim = one.claim
    stands: RichText = (Strong(claim.statement), f" ({claim.paper} {claim.places})")
    if claim.untestable:
        blocks: list[Block] = [Paragraph((*stands, " ", *_untested(one, drawn)))]
    else:
        blocks = [Paragraph(stands)]
        blocks += [*_plainly(one)] if one.estimates else [Paragraph((_left(one, study),))]
        facts = _facts(one, study, drawn, said)
        if len(one.estimates) == 1:
            facts = [*_found_alone(one), *facts]
        elif one.estimates:
            blocks.append(_found(one))
            facts = [*((name.capitalize(), (f"each {text}",)) for name, text in _alike(one).items()), *facts]
        blocks.append(Facts(tuple(facts)))
    picture = drawn.get(claim.figure)
    if picture and picture.home == claim.name:
        blocks.append(Picture(claim.figure, picture.shows, (picture.caption,)))
    return Section(claim.name, claim.name, tuple(blocks), (), claim.paper, one.verdict)


def _untested(one: ClaimResult, drawn: Mapping[str, ReportPicture]) -> RichText:
    """Why a claim cannot be tested, in a line."""
    claim = one.claim
    readings = (" The words may mean: ", *_readings(claim.readings)) if claim.readings else ()
    figure = (" Figure: ", *_figure(claim, drawn), ".") if claim.figure else ()
    return f"Not tested: {as_sentence(claim.untestable)}", *readings, *figure


def _found_alone(one: ClaimResult) -> list[tuple[str, RichText]]:
    """Of a claim of one part: the rule, what is found, and how far it is from a paper's number."""
    (part,), (finding,), (judgement,) = one.claim.parts, one.estimates, one.judgements
    apart = _apart(part, judgement)
    told = [_of(finding), format_effect(finding), f"{apart} from the paper's" if apart else ""]
    here = "".join(f", {each}" for each in told if each)
    return [("Criterion", (format_rule(part),)), ("Here", (Strong(format_estimate(finding.interval, part)), here))]


def _found(one: ClaimResult) -> ReportTable:
    """Of a claim of several parts: the same in a row for each, with its verdict; only columns that have something."""
    parts = list(zip(one.claim.parts, one.estimates, one.judgements, strict=True))
    same = len({finding.note for finding in one.estimates}) == 1
    columns: dict[str, list[RichText]] = {
        "": [(part.label,) for part in one.claim.parts],
        "rule": [(format_rule(part),) for part in one.claim.parts],
        "here": [(Strong(format_estimate(finding.interval, part)),) for part, finding, _ in parts],
        "of": [(_of(finding).removeprefix("of "),) for finding in one.estimates],
        "from the paper's": [(_apart(part, judgement),) for part, _, judgement in parts],
        "effect": [(format_effect(finding),) for finding in one.estimates],
        "verdict": [_verdict(judgement) for judgement in one.judgements],
        "note": [("" if same else _note(finding, judgement),) for _, finding, judgement in parts],
    }
    common = _alike(one)
    kept = {
        name: cells for name, cells in columns.items() if name not in common and any(cell != ("",) for cell in cells)
    }
    return ReportTable(tuple(kept), tuple(map(ReportRow, zip(*kept.values(), strict=True))))


def _alike(one: ClaimResult) -> dict[str, str]:
    """What all parts have in common, which their table need not say of each: the rule, and of how many."""
    rules = {format_rule(part) for part in one.claim.parts}
    counts = {_of(finding).removeprefix("of ") for finding in one.estimates}
    found = {"rule": rules, "of": counts}
    return {name: next(iter(texts)) for name, texts in found.items() if len(texts) == 1 and any(texts)}


def _of(finding: Estimate) -> str:
    """How many it was found of."""
    return f"of {finding.count:,} {finding.of}" if finding.count else ""


def _apart(part: Measurement, judgement: Judgement) -> str:
    """How far it is from a paper's number."""
    return format_difference(judgement, part) if isinstance(part.criterion, Agrees) else ""


def _verdict(judgement: Judgement) -> RichText:
    """The verdict on a part, and why it is no better."""
    if judgement.verdict is Verdict.REPRODUCED:
        return (judgement.verdict.value,)
    return Badge(judgement.verdict), f": {judgement.reason}" if judgement.reason else ""


def _note(finding: Estimate, judgement: Judgement) -> str:
    """What is to be known beside a number, unless it is said as the reason of the verdict."""
    return finding.note if finding.note != judgement.reason else ""


def _plainly(one: ClaimResult) -> list[Block]:
    """What a reader must not miss: a contradiction, what follows from it, and a note on the whole."""
    blocks: list[Block] = []
    alone = one.judgements[0].reason if len(one.judgements) == 1 else ""
    told: dict[Verdict, str] = {
        Verdict.NOT: "This contradicts the paper" if one.claim.paper != "OWN" else "This does not hold",
        Verdict.PARTLY: "Only partly",
        Verdict.UNDECIDED: "These runs cannot tell",
        Verdict.UNTESTABLE: "This could not be tested",
        Verdict.SKIPPED: "Not tested at this size",
    }
    if one.verdict in told:
        meaning = one.claim.meaning if one.verdict in (Verdict.NOT, Verdict.PARTLY) else ""
        why = f": {alone.removesuffix('.')}." if alone else "."
        lead = "What follows" if one.verdict is Verdict.NOT else "If it is wrong"
        follows = f" {lead}: {as_sentence(meaning)}" if meaning else ""
        blocks.append(Paragraph((Strong(told[one.verdict]), why, follows)))
    notes = {_note(*each) for each in zip(one.estimates, one.judgements, strict=True)}
    if len({finding.note for finding in one.estimates}) == 1 and any(notes):
        blocks.append(Paragraph((f"Note: {as_sentence(notes.pop())}",)))
    return blocks


def _left(one: ClaimResult, study: Experiment | None) -> str:
    sizes = [size.value for size in Size if study and size in study.sizes]
    larger = f"; it is done at {' and '.join(sizes)} size" if sizes else ""
    return f"Not tested at this size, {one.size.value}: its study is too dear for it{larger}."


def _facts(
    one: ClaimResult, study: Experiment | None, drawn: Mapping[str, ReportPicture], said: RepeatedTexts
) -> list[tuple[str, RichText]]:
    """How it was tested, and how to do it again."""
    claim = one.claim
    facts: list[tuple[str, RichText]] = []
    if claim.readings:
        readings = _readings(claim.readings)
        facts.append(("Readings", said.once(claim.name, "readings", " ".join(claim.readings), readings)))
    facts.append(("Measured", said.once(claim.name, "Measured", claim.measured, (as_sentence(claim.measured),))))
    if not one.estimates:
        facts.append(("Criterion", (_rules(one),)))
    repeat: RichText = (Code(_command(one, study)),)
    if study:
        smaller = ", smaller than the paper's" if study.reduced.get(one.size) else ""
        repeat = (*repeat, "; study ", Link(study.name, study.name), smaller)
    if claim.figure:
        repeat = (*repeat, "; figure ", *_figure(claim, drawn))
    return [*_joined(facts), ("To repeat", repeat)]


def _joined(facts: list[tuple[str, RichText]]) -> list[tuple[str, RichText]]:
    """Facts of which one after the other says the same, as one."""
    told: list[tuple[str, RichText]] = []
    for name, words in facts:
        if told and told[-1][1] == words:
            told[-1] = (f"{told[-1][0]}, {name.lower()}", words)
        else:
            told.append((name, words))
    return told


def _readings(readings: tuple[str, ...]) -> RichText:
    """What the words may mean, lettered."""
    letters = "abcdefghijklmnopqrstuvwxyz"
    spans: list[Span] = []
    for place, reading in enumerate(readings):
        spans += [Strong(f"({letters[place % 26]}) "), reading, "; " if place + 1 < len(readings) else ""]
    return *spans, ". Tested is (a)."


def _rules(one: ClaimResult) -> str:
    """The rule of each part, or the one that all have."""
    parts = one.claim.parts
    words = [format_rule(part) for part in parts]
    if len(set(words)) == 1:
        return as_sentence("each " * (len(parts) > 1) + words[0])
    return as_sentence("; ".join(f"{part.label}: {each}" for part, each in zip(parts, words, strict=True)))


def _command(one: ClaimResult, study: Experiment | None) -> str:
    """What tests this claim alone."""
    size = one.size
    if one.verdict is Verdict.SKIPPED:
        done = study.sizes if study else (Size.DEFAULT,)
        size = next((each for each in (Size.DEFAULT, *Size) if each in done), size)
    option = "" if size is Size.DEFAULT else f" --{size.value}"
    return f"python -m analysis.verify --only {one.claim.name}{option}"


def _figure(claim: Claim, drawn: Mapping[str, ReportPicture]) -> RichText:
    """The command that draws a claim's figure, and where it is drawn here."""
    name, command = claim.figure, Code(f"python -m analysis.paper {claim.figure}")
    if name not in drawn:
        return (command,)
    home = drawn[name].home
    return (command, ", below") if home == claim.name else (Link(f"under {home}", home),)
