"""What the report says: one document, whatever it is written as."""

from collections import Counter
from collections.abc import Mapping, Sequence

from analysis.reproduction.report import disagreements, overview
from analysis.reproduction.report.disagreements import contradictions
from analysis.reproduction.report.document import (
    Badge,
    Block,
    Break,
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
from analysis.reproduction.report.entry import RepeatedTexts, ReportPicture, claim_section
from analysis.reproduction.report.methods import coverage_section, experiments_section, methods_section
from analysis.reproduction.verification.coverage import OWN, PAPERS, place_in_paper
from analysis.reproduction.verification.criteria import Verdict
from analysis.reproduction.verification.experiment import Experiment, Size
from analysis.reproduction.verification.formatting import (
    as_sentence,
    format_date,
    format_duration,
    format_estimate,
    format_stated,
    quote_stated,
    shorten_text,
)
from analysis.reproduction.verification.results import ClaimResult, ReportProvenance

REPORT_TITLE = "Two papers on training dynamics, put to the test"
TITLES = {each.short: each.title for each in PAPERS} | {OWN: "Claims of our own"}


def build_report(
    every: Sequence[ClaimResult],
    about: ReportProvenance,
    studies: Mapping[str, Experiment],
    drawn: Mapping[str, ReportPicture],
) -> Document:
    """The whole report. `drawn` has the names of the pictures that there are, with what each shows."""
    said = RepeatedTexts()
    entries = {
        paper: [
            claim_section(one, studies.get(one.claim.experiment), drawn, said)
            for one in every
            if one.claim.paper == paper
        ]
        for paper in TITLES
    }
    papers = [_paper(paper, found) for paper, found in entries.items() if found]
    ends = methods_section(every), experiments_section(every, studies), coverage_section(every)
    return Document(REPORT_TITLE, _front(every, about), (_summary(every, drawn), *papers, *ends))


# ------------------------------------------------------------------------------------------------ the front


def _front(every: Sequence[ClaimResult], about: ReportProvenance) -> tuple[Block, ...]:
    named: list[Span] = []
    for paper in PAPERS[:2]:
        named += [" and " if named else "", Strong(paper.short), f" ({paper.authors}, "]
        named += [Link(paper.title, paper.address), ")"]
    what = Paragraph(
        (
            "Every table, figure and testable statement of ",
            *named,
            ", with ",
            Strong("CH"),
            ", VC's later version, as far as its summary goes, stands here as a claim beside what runs of this package "
            "give. Each claim was judged by a rule that was written down with it, and each can be checked alone by the "
            "command in its entry.",
        )
    )
    facts: list[tuple[str, RichText]] = [
        ("Size", (f"{about.size.value}: {SIZES[about.size]}",)),
        ("Date", (format_date(about.created_at),)),
        ("Claims", (f"{len(every)}, of which {sum(bool(one.estimates) for one in every)} were put to the test",)),
        ("Ensembles named by the studies", (f"{about.runs:,} runs",)),
        ("Time of the measuring", (f"{format_duration(about.seconds)}; runs that were there before aside",)),
        ("Environment", (", ".join(f"{name} {value}" for name, value in about.environment.items()),)),
    ]
    return what, Facts(tuple(facts))


SIZES = {
    Size.QUICK: "what can be had in minutes, with fewer runs than the papers have, and not all studies",
    Size.DEFAULT: "at the papers' own sizes where these fit into two and a half hours on two cores, and at stated "
    "smaller ones where not",
    Size.FULL: "at the papers' own sizes",
}


# ---------------------------------------------------------------------------------------------- the summary


def _summary(every: Sequence[ClaimResult], drawn: Mapping[str, ReportPicture]) -> Section:
    bars, forest = (
        tuple(Picture(name, drawn[name].shows, (drawn[name].caption,)) for name in (one,) if name in drawn)
        for one in (overview.VERDICTS_PICTURE, overview.NUMBERS_PICTURE)
    )
    sections = [
        Section("Verdicts", "verdicts", (_counts(every), *bars)),
        Section("The most interesting disagreements", "disagreements", _disagreements(every)),
    ]
    if forest:
        sections.append(Section("Numbers beside the papers'", "numbers", forest))
    sections.append(Section("All claims", "claims", (_table(every),)))
    return Section("Summary", "summary", (), tuple(sections))


def _counts(every: Sequence[ClaimResult]) -> ReportTable:
    found = Counter((one.claim.paper, one.verdict) for one in every)
    papers = [paper for paper in TITLES if any(one.claim.paper == paper for one in every)]
    rows = [
        ReportRow(((Link(_short(paper), f"paper-{paper}"),), *((str(found[paper, verdict]),) for verdict in Verdict),
             (str(sum(one.claim.paper == paper for one in every)),)))
        for paper in papers
    ]  # fmt: skip
    totals = [sum(one.verdict is verdict for one in every) for verdict in Verdict]
    rows.append(ReportRow((("all",), *((str(total),) for total in totals), (str(len(every)),))))
    return ReportTable(("", *(verdict.value for verdict in Verdict), "together"), tuple(rows))


def _short(paper: str) -> str:
    return "our own" if paper == OWN else paper


def _disagreements(every: Sequence[ClaimResult]) -> tuple[Block, ...]:
    told = disagreements.main_disagreements(every)
    if not told:
        return (Paragraph(("No claim of the papers that was tested was judged not reproduced, or only partly.",)),)
    return *(Paragraph(_told(one)) for one in told), Paragraph(
        (f"How they were picked: {disagreements.DISAGREEMENT_RULE}",)
    )


def _told(one: ClaimResult) -> RichText:
    """A disagreement in three sentences: what the paper says, what is found here, what it means."""
    worst = contradictions(one)[:2]
    found = "; ".join(
        (f"{part.label}: " if part.label else "")
        + f"{format_estimate(finding.interval, part)} ({finding.count:,} {finding.of}), where {quote_stated(part)}"
        for part, finding, _ in worst
    )
    more = len(contradictions(one)) - len(worst)
    further = f"; and so for {more} further number{'s' * (more > 1)}" if more else ""
    meaning = one.claim.meaning or "what follows from it is open"
    return (
        Link(one.claim.name, one.claim.name), " ", Badge(one.verdict), " ",
        Strong("The paper: "), as_sentence(one.claim.statement), " ",
        Strong("Here: "), as_sentence(found + further), " ",
        Strong("What it means: "), as_sentence(meaning),
    )  # fmt: skip


MOST = 3
"""Parts of a claim that the table of all claims tells; its entry has all of them."""
SHORT = 84
"""Signs of a statement that the table tells; its entry has all of them."""
WORST_FIRST = (Verdict.NOT, Verdict.PARTLY, Verdict.UNDECIDED, Verdict.REPRODUCED, Verdict.UNTESTABLE, Verdict.SKIPPED)


def _table(every: Sequence[ClaimResult]) -> ReportTable:
    return ReportTable(("claim", "what it states", "stated → here", "verdict"), tuple(map(_row, every)))


def _row(one: ClaimResult) -> ReportRow:
    cells: tuple[RichText, ...] = (
        (Link(one.claim.name, one.claim.name),),
        (shorten_text(one.claim.statement, SHORT),),
        _numbers(one),
        (Badge(one.verdict),),
    )
    return ReportRow(cells, one.claim.paper, one.verdict)


def _numbers(one: ClaimResult) -> RichText:
    """What is stated and what is found, a line for each part; of more than `MOST` those that hold least."""
    parts = list(zip(one.claim.parts, one.estimates, one.judgements, strict=True)) if one.estimates else []
    several, more = len(parts) > 1, len(parts) - MOST
    if more > 1:
        parts = sorted(parts, key=lambda each: WORST_FIRST.index(each[2].verdict))[:MOST]
    spans: list[Span] = []
    for part, finding, _ in parts:
        label = f"{part.label}: " if several else ""
        spans += [Break()] * bool(spans) + [f"{label}{format_stated(part)} → {format_estimate(finding.interval, part)}"]
    return *spans, *((Break(), f"and {more} more") if more > 1 else ())


# ----------------------------------------------------------------------------------------------- the papers


def _paper(paper: str, entries: list[Section]) -> Section:
    about = {each.short: each for each in PAPERS}.get(paper)
    if about is None:
        lead: RichText = ("What this package finds beside the papers, in the same form.",)
    else:
        lead = (f"{about.authors}: ", Link(about.title, about.address), ".")
        if paper == "CH":
            lead = (*lead, " The later version of VC, of which only the summary and some captions are known here.")
    firsts = {place_in_paper(each.title)[0]: each.anchor for each in reversed(entries)}
    jumps: list[Span] = []
    for place in dict.fromkeys(place_in_paper(each.title)[0] for each in entries):
        jumps += [" · "] * bool(jumps) + [Link(place, firsts[place])]
    title = "Claims of our own" if about is None else f"Claims of {paper}"
    return Section(title, f"paper-{paper}", (Paragraph(lead), Paragraph(tuple(jumps))), tuple(entries))
