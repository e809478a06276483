"""How claims were judged, and where each place of the papers is answered for."""

import re
from collections import Counter
from collections.abc import Hashable, Mapping, Sequence
from functools import partial

from scipy import stats

from analysis.reproduction.report.document import (
    Block,
    Bullets,
    Code,
    Link,
    Paragraph,
    ReportRow,
    ReportTable,
    RichText,
    Section,
    Span,
    Strong,
)
from analysis.reproduction.verification import criteria as rules
from analysis.reproduction.verification.claim import Measurement
from analysis.reproduction.verification.coverage import OWN, PAPERS, UNTESTED_PLACES, directly_covering, unlisted_places
from analysis.reproduction.verification.criteria import Above, Agrees, Below, Within
from analysis.reproduction.verification.experiment import Experiment, Size
from analysis.reproduction.verification.results import ClaimResult


def methods_section(every: Sequence[ClaimResult]) -> Section:
    """By which rules claims were judged, and what that means over so many of them."""
    told = [_together(every), *_shared(every), FITTED]
    blocks = [*_docstring(rules.__doc__ or ""), *(Paragraph((each,)) for each in told)]
    return Section("How it was judged", "judging", tuple(blocks))


FITTED = (
    "CA does not say how long a step of its particles is, whether it follows the force or its direction, how unlike "
    "pairs are weighed, and which variance is kept. The defaults here are the most literal of those readings under "
    "which all six numbers of CA table 2 come out, of about forty that were tried: the table was fitted, and that it "
    "agrees is no independent confirmation. The claims of our own say how sensitive it is to these choices."
)


def _docstring(text: str) -> list[Block]:
    """Paragraphs and verdicts of a docstring: an indented line is a verdict and, after a gap, what it asks for."""
    blocks: list[Block] = []
    for indented, lines in _runs(text.strip().splitlines()):
        if indented:
            pairs = (re.split(r"\s{2,}", line.strip(), maxsplit=1) for line in lines)
            blocks.append(Bullets(tuple((Strong(pair[0]), ": ", pair[-1]) for pair in pairs)))
        else:
            blocks.append(Paragraph((" ".join(line.strip() for line in lines),)))
    return blocks


def _runs(lines: list[str]) -> list[tuple[bool, list[str]]]:
    """Lines that follow each other and are alike indented; an empty line ends what is before it."""
    runs: list[tuple[bool, list[str]]] = []
    fresh = True
    for line in lines:
        if not line.strip():
            fresh = True
            continue
        indented = line.startswith("    ")
        if fresh or runs[-1][0] != indented:
            runs.append((indented, []))
        runs[-1][1].append(line)
        fresh = False
    return runs


def _together(every: Sequence[ClaimResult]) -> str:
    """What 95% means over all comparisons."""
    held = [
        (part.criterion, judgement.difference)
        for one in every
        for part, judgement in zip(one.claim.parts, one.judgements, strict=False)
        if judgement.difference.half > 0 and one.claim.paper != OWN  # what has no width was not drawn by chance
    ]
    apart = [not found.low <= 0 <= found.high for rule, found in held if isinstance(rule, Agrees)]
    bounds = sum(isinstance(rule, Above | Below | Within) for rule, _ in held)
    tried = len(apart)
    if not tried:
        return "No number was compared with a paper's."
    most = int(stats.binom.ppf(0.95, tried, 0.05))
    missed = f"{sum(apart)} do" if any(apart) else "None does"
    return (
        f"{tried} numbers are compared with numbers of the papers. Had both been drawn from the same distribution, one "
        f"interval of a difference in twenty would still miss 0 by chance: {tried / 20:.1f} of these are to be "
        f"expected, and, were they independent, which those of one study are not, more than {most} in one report of "
        f"twenty at most. {missed}. {bounds} more are held against a bound or a range that the papers' words "
        "set: of those that are in truth just on the wrong side of it, one in forty would be called reproduced by "
        "chance. A single number that is a little apart says therefore little; one that is far apart, or several of "
        "one study, say much. Where a paper prints no interval, its number is taken to be as uncertain as ours would "
        "be of as many runs."
    )


def _shared(every: Sequence[ClaimResult]) -> list[str]:
    """How many verdicts rest on a number, by the same rule, that another claim is judged by too."""
    asked = [{_number(one, part) for part in one.claim.parts} for one in every if one.estimates]
    times = Counter(number for numbers in asked for number in numbers)
    count = sum(any(times[number] > 1 for number in numbers) for numbers in asked)
    if not count:
        return []
    return [
        f"Papers say things more than once, and one number may answer for several of them: {count} of the {len(asked)} "
        "verdicts rest, wholly or in a part, on a number that another claim is judged by too, by the same rule. "
        "Verdicts that are counted together are therefore fewer findings than claims."
    ]


def _number(one: ClaimResult, part: Measurement) -> tuple[Hashable, ...]:
    """What a part is judged by: how it is measured, on which study's evidence, and the rule."""
    how = part.measure
    if isinstance(how, partial):
        return one.claim.experiment, how.func, repr((how.args, sorted(how.keywords.items()))), part.criterion
    return one.claim.experiment, how, part.criterion


def experiments_section(every: Sequence[ClaimResult], studies: Mapping[str, Experiment]) -> Section:
    """What was run and measured, for the claims that are read off it."""
    names = dict.fromkeys(one.claim.experiment for one in every if one.claim.experiment in studies)
    size = every[0].size if every else Size.DEFAULT
    rows = tuple(_study_row(studies[name], size, sum(one.claim.experiment == name for one in every)) for name in names)
    header = ("study", "what is measured", f"{size.value} size", "smaller than the paper's", "claims", "more of it")
    lead = "What was run and measured, once each, for all the claims that are read off it."
    return Section("Studies", "studies", (Paragraph((lead,)), ReportTable(header, rows)))


def _study_row(study: Experiment, size: Size, claims: int) -> ReportRow:
    params = study.sizes.get(size)
    how_large = "not done at this size" if params is None else (
        ", ".join(f"{name.replace('_', ' ')} {_value(value)}" for name, value in params.items())
    )  # fmt: skip
    command: RichText = (Code(study.command),) if study.command else ("",)
    cells: tuple[RichText, ...] = (
        (study.name,), (study.what,), (how_large,), (study.reduced.get(size, ""),), (str(claims),), command
    )  # fmt: skip
    return ReportRow(cells, anchor=study.name)


def _value(value: object) -> str:
    if isinstance(value, list | tuple):
        return "[" + ", ".join(map(_value, value)) + "]"
    return f"{value:g}" if isinstance(value, float) else str(value)


def coverage_section(every: Sequence[ClaimResult]) -> Section:
    """Every place of the papers, and the claims that answer for it; these are linked without their paper's name."""
    claims = [one.claim for one in every]
    sections = []
    for paper in PAPERS:
        rows = []
        for place in paper.places:
            found = directly_covering(claims, paper, place)
            below = [each for each in paper.places if each.startswith(f"{place}.")]
            reason = UNTESTED_PLACES.get((paper.short, place))
            names = _links([each.name for each in found])
            nothing = f"states nothing to test: {reason}" if reason else (
                "see its parts" if below else "no claim among these"
            )  # fmt: skip
            further = ("; further ones below",) if names and below else ()
            rows.append(ReportRow(((place,), (*names, *further) or (nothing,))))
        for place, found in unlisted_places(claims, paper.short).items():
            rows.append(ReportRow(((place,), _links([each.name for each in found]))))
        sections.append(Section(paper.short, f"index-{paper.short}", (ReportTable(("place", "claims"), tuple(rows)),)))
    return Section(
        "Where everything is", "index",
        (Paragraph(("Every table, figure and section of the papers, and the claims that answer for it.",)),),
        tuple(sections),
    )  # fmt: skip


def _links(names: Sequence[str]) -> RichText:
    spans: list[Span] = []
    for name in names:
        spans += [", "] * bool(spans) + [Link(name.split(".", 1)[1], name)]
    return tuple(spans)
