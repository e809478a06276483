"""Two pictures of all claims: verdicts by paper, and every number beside a paper's."""

import math
from collections import Counter
from collections.abc import Sequence
from typing import NamedTuple

from matplotlib.axes import Axes
from matplotlib.figure import Figure

from analysis.plots.figure_files import new_figure
from analysis.reproduction.verification.coverage import OWN, PAPERS, place_in_paper
from analysis.reproduction.verification.criteria import Agrees, Verdict
from analysis.reproduction.verification.results import ClaimResult
from analysis.statistics.intervals import Interval

VERDICTS_PICTURE, NUMBERS_PICTURE = "verdicts", "numbers"
"""Names of the pictures."""

COLOURS = {
    Verdict.REPRODUCED: "#2166ac",
    Verdict.PARTLY: "#e69f00",
    Verdict.NOT: "#8b1a1a",
    Verdict.UNDECIDED: "#8fb8b0",
    Verdict.UNTESTABLE: "#c8c8c8",
    Verdict.SKIPPED: "#ececec",
}
"""Of verdicts: as far apart in lightness as in hue, so that any eye and a printer tell them apart."""
HATCHES = {Verdict.PARTLY: "///", Verdict.NOT: "xxx", Verdict.UNDECIDED: "---", Verdict.SKIPPED: "..."}
MARKERS = {
    Verdict.REPRODUCED: "o", Verdict.PARTLY: "D", Verdict.NOT: "X", Verdict.UNDECIDED: "s", Verdict.UNTESTABLE: ".",
}  # fmt: skip
EDGE = 4.0
"""Margins to either side that are shown."""
LINE = 0.19
"""Inches from one number to the next."""


class _ComparedNumber(NamedTuple):
    """A number beside a paper's."""

    place: str
    """Paper and table or figure, by which numbers are grouped"""
    label: str
    difference: Interval
    """In units of the margin"""
    verdict: Verdict


def compared_numbers(every: Sequence[ClaimResult]) -> list[_ComparedNumber]:
    """Every number that a paper prints, its margin being the unit, in the claims' order."""
    found = []
    for one in every:
        for part, judgement in zip(one.claim.parts, one.judgements, strict=False) if one.claim.paper != OWN else ():
            if (
                isinstance(part.criterion, Agrees)
                and part.criterion.margin > 0
                and math.isfinite(judgement.difference.value)
            ):
                place, what = place_in_paper(one.claim.name)
                scaled = Interval(*(each / part.criterion.margin for each in judgement.difference))
                label = ", ".join(each for each in (what, part.label) if each)
                found.append(_ComparedNumber(f"{one.claim.paper} {place}", label, scaled, judgement.verdict))
    return found


def plot_compared_numbers(found: Sequence[_ComparedNumber]) -> Figure:
    """Differences with their intervals, a line each, grouped by place (a forest plot)."""
    places = list(dict.fromkeys(each.place for each in found))
    lines = len(found) + len(places)
    height = LINE * (lines + 1) + 0.95
    figure = new_figure(8, height)
    axes = figure.add_axes((0, 0.6 / height, 0.97, 1 - 0.95 / height))
    axes.axvspan(-1, 1, color="0.92", linewidth=0)
    axes.axvline(0, color="0.35", linewidth=0.9)
    line, labels = 0, list[tuple[int, str, bool]]()
    for place in places:
        labels.append((line, place, True))
        for each in (one for one in found if one.place == place):
            line += 1
            labels.append((line, each.label, False))
            _draw(axes, line, each)
        line += 1
    texts = []
    for at, label, heading in labels:
        text = axes.text(-EDGE * 1.05, at, _short(label), ha="right", va="center", fontsize=8.5 if heading else 8,
                         fontweight="bold" if heading else "normal", color="0.1" if heading else "0.25")  # fmt: skip
        texts.append(text)
    left = 0.05 + max(text.get_window_extent().width for text in texts) / figure.bbox.width
    axes.set_position((left, 0.6 / height, 0.97 - left, 1 - 0.95 / height))
    axes.set(xlim=(-EDGE, EDGE), ylim=(lines - 0.3, -0.7), yticks=[])
    axes.set_xlabel("ours less the paper's, in margins", fontsize=9)
    axes.tick_params(labelsize=8.5)
    axes.spines[["top", "left", "right"]].set_visible(False)
    for verdict in (each for each in MARKERS if any(number.verdict is each for number in found)):
        axes.plot([], [], MARKERS[verdict], color=COLOURS[verdict], markersize=6, label=verdict.value)
    figure.legend(loc="upper right", ncols=3, frameon=False, fontsize=8.5, bbox_to_anchor=(0.99, 1.0))
    return figure


def _short(label: str, most: int = 52) -> str:
    return label if len(label) <= most else label[: most - 1] + "…"


def _draw(axes: Axes, line: int, each: _ComparedNumber) -> None:
    """A number with its interval; an arrow where either goes on beyond the edge."""
    colour = COLOURS[each.verdict]
    value, low, high = each.difference
    if math.isfinite(low) and high > -EDGE and low < EDGE:
        axes.plot([max(low, -EDGE), min(high, EDGE)], [line, line], color=colour, linewidth=1.6, clip_on=False)
    if math.isfinite(low):
        for bound, beyond, arrow in ((-EDGE, low < -EDGE, "<"), (EDGE, high > EDGE, ">")):
            if beyond:
                axes.plot(bound, line, arrow, color=colour, markersize=5, clip_on=False)
    if abs(value) <= EDGE:
        axes.plot(value, line, MARKERS[each.verdict], color=colour, markersize=6.5, markeredgecolor="white",
                  markeredgewidth=0.5, clip_on=False)  # fmt: skip
    else:
        side = math.copysign(EDGE, value)
        axes.plot(side, line, "<" if value < 0 else ">", color=colour, markersize=6, clip_on=False)
        axes.text(side * 0.97, line, f"{value:+.0f}", ha="left" if value < 0 else "right", va="bottom", fontsize=7)


def plot_verdict_counts(every: Sequence[ClaimResult]) -> Figure:
    """How many claims of each paper have which verdict, as stacked bars."""
    names = {paper.short: paper.short for paper in PAPERS} | {OWN: "our own"}
    papers = [paper for paper in names if any(one.claim.paper == paper for one in every)]
    found = Counter((one.claim.paper, one.verdict) for one in every)
    figure = new_figure(8, 0.42 * len(papers) + 0.75)
    axes = figure.add_axes((0.09, 0.02, 0.89, 1 - 0.5 / figure.get_figheight()))
    widest = max(sum(found[paper, verdict] for verdict in Verdict) for paper in papers)
    for line, paper in enumerate(papers):
        left = 0
        for verdict in Verdict:
            count = found[paper, verdict]
            if not count:
                continue
            axes.barh(line, count, 0.68, left, color=COLOURS[verdict], hatch=HATCHES.get(verdict), edgecolor="white",
                      linewidth=1)  # fmt: skip
            inside = count > 0.025 * widest
            if inside:
                axes.text(left + count / 2, line, str(count), ha="center", va="center", fontsize=9,
                          bbox={"facecolor": "white", "edgecolor": "none", "pad": 1.6})  # fmt: skip
            left += count
    axes.set(ylim=(len(papers) - 0.5, -0.5), yticks=range(len(papers)), xticks=[], xlim=(0, widest * 1.01))
    axes.set_yticklabels([names[paper] for paper in papers], fontsize=9.5)
    axes.tick_params(length=0)
    axes.spines[:].set_visible(False)
    used = [verdict for verdict in Verdict if any(one.verdict is verdict for one in every)]
    for verdict in used:
        axes.barh(0, 0, color=COLOURS[verdict], hatch=HATCHES.get(verdict), edgecolor="white", label=verdict.value)
    figure.legend(loc="upper center", ncols=len(used), frameon=False, fontsize=9, handlelength=1.6, columnspacing=1.4)
    return figure
