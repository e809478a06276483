"""The main results in a few sentences, for the first pages that a reader sees: README
and the documentation's home. The numbers are those of the claims, or are computed from
their evidence."""

from collections.abc import Callable, Mapping, Sequence
from typing import NamedTuple

import xarray as xr

from analysis.output.counts import number_in_words
from analysis.reproduction import estimates
from analysis.reproduction.claim import Verdict
from analysis.reproduction.estimates import Estimate
from analysis.reproduction.musat2024 import networks
from analysis.reproduction.odonnat2024.phase_claims import typical_loss_fall
from analysis.reproduction.papers import OWN, PAPERS, count_papers
from analysis.reproduction.results import ClaimResult, expected_text, format_number
from analysis.statistics.intervals import Interval
from analysis.structures.circles_and_grids import GRID_FRACTION
from dynamics.settings import MLP_VARIABLES

PAIRS = 17 * 18 // 2
"""Pair sums of the 17 numbers."""
SUPPORTED = (Verdict.AGREES, Verdict.HOLDS)
AGAINST = (Verdict.DIFFERS, Verdict.CONTRADICTED)


class HeadlineNumber(NamedTuple):
    """A number as a headline says it: (value + added) times scale."""

    claim: str
    place: int = 0
    """Which number of the claim it is"""
    added: float = 0.0
    scale: float = 1.0
    unit: str = ""
    digits: int = 0
    estimate: Callable[[xr.Dataset], Estimate] | None = None
    """The number, from the claim's evidence, if it is none of the claim's own"""


class Headline(NamedTuple):
    """A main result."""

    title: str
    text: str
    """Sentences with the names of numbers in braces; NAME_printed is the number of the
    paper, and NAME_verdict its verdict"""
    numbers: Mapping[str, HeadlineNumber]
    card: str
    """The small picture, in docs/cards"""
    picture: str
    """The large picture below docs/, or none"""
    shows: str
    """What the large picture shows"""
    more: str = ""
    """Sentences for a page that has room for them"""

    @property
    def claim(self) -> str:
        """The claim that has the first number."""
        return next(iter(self.numbers.values())).claim


class Findings(NamedTuple):
    """What was measured: all claims as judged, and the evidence of their experiments."""

    results: Sequence[ClaimResult]
    evidence: Mapping[str, xr.Dataset]
    runs: int
    """Number of runs with which the statements of papers are tested"""

    def of(self, claim: str) -> ClaimResult:
        """The result of a claim."""
        return next(item for item in self.results if item.claim.name == claim)

    def of_papers(self, verdicts: Sequence[Verdict] = tuple(Verdict)) -> int:
        """How many statements of papers have one of some verdicts."""
        return sum(
            result.claim.paper != OWN.short and result.verdict in verdicts
            for result in self.results
        )


def networks_that_are_grids(evidence: xr.Dataset) -> Estimate:
    """Percentage of the networks with weight decay 1 that are no circles and have few
    imperfections."""
    ends = evidence.sel(weight_decay=1.0)
    few = ends["imperfections"] <= GRID_FRACTION * PAIRS
    return estimates.percentage_of_ones(few & (ends["circle"] == 0), "networks")


def renamed_r_squared(evidence: xr.Dataset) -> Estimate:
    """R² of the fields with tokens renamed at random, at epoch 100 and weight decay
    1."""
    here = networks.at_epoch(evidence, 100).sel(weight_decay=1.0)
    return estimates.estimate_mean(here["renamed_r_squared"], "networks")


def accuracy_by_decayed_part(part: str) -> Callable[[xr.Dataset], Estimate]:
    """A function that estimates the mean accuracy, on the sums that they were not trained
    on, of the networks whose weight decay acts on a part of the weights only."""
    return lambda evidence: estimates.estimate_mean(
        evidence["accuracy"].sel(decayed=part), "networks"
    )


def mlp_part(phase: str) -> Callable[[xr.Dataset], Estimate]:
    """A function that estimates which percentage of the fall of the loss in a drop is due
    to the MLP, minus 50."""
    return lambda evidence: typical_loss_fall(evidence, MLP_VARIABLES, phase)


CIRCLES = "CA.table1.decay1"
LINK = "CA.s7.link"
AUDIT = "OWN.audit"
DROP = "VC.s4.1.second-drop"
EXPLAINED = HeadlineNumber(AUDIT, 0, 0.5, 100, "%")
"""Percentage of the gradient that the forces explain."""
HEADLINES = (
    Headline(
        "Networks form circles and grids",
        "A network with one hidden layer is trained on 80% of the sums modulo 17. With"
        " weight decay 1, {here} of 1,000 form a circle and {grids} a grid. Musat"
        " (CA) prints {here_printed} circles, which {here_verdict} within the error of"
        " so few. Networks with a circle answer {accuracy} of the other sums correctly,"
        " those without {others}.",
        {
            "here": HeadlineNumber(CIRCLES, unit="%", digits=1),
            "grids": HeadlineNumber(
                CIRCLES, unit="%", estimate=networks_that_are_grids
            ),
            "accuracy": HeadlineNumber(CIRCLES, 1, unit="%"),
            "others": HeadlineNumber(CIRCLES, 2, unit="%"),
        },
        "networks",
        "pictures/modular.png",
        "Embeddings and class maps of six networks; below, losses and accuracies of a"
        " hundred",
        "On a circle all embeddings have nearly the same length. In a"
        " grid they form arithmetic progressions, so that equal sums lie next to each"
        " other: at most a fifth of the pair sums are *imperfections*, which have a sum"
        " of another value as nearest neighbour. A circle has many of these, which is"
        " no fault of it.",
    ),
    Headline(
        "Particles under three forces do, too",
        "Without a network, 17 particles form circles and grids: equal pair sums"
        " attract, different ones repel, and pair sums align. At alignment 2, {here} of"
        " 1,000 simulations become circles. CA prints {here_printed}, which"
        " {here_verdict}.",
        {"here": HeadlineNumber("CA.table2.fa2", unit="%", digits=1)},
        "particles",
        "pictures/particles.png",
        "Final positions of 17 particles in twenty simulations: circles and grids",
    ),
    Headline(
        "Forces explain part of the gradient",
        "At epoch 100, when circles and grids form, these forces explain {here} of the"
        " gradient of the embeddings (R², without a common shift or change of size)."
        " With the numbers renamed at random they explain {renamed}. Most of the"
        " gradient is something else.",
        {
            "here": EXPLAINED,
            "renamed": HeadlineNumber(
                AUDIT, scale=100, unit="%", estimate=renamed_r_squared
            ),
        },
        "forces",
        "pictures/audit.png",
        "Cosine, R² and the weight of each force during training",
        "Networks with weight decay 1. The strengths of the forces are fitted to each"
        " gradient; the alignment of equal sums and that of different sums count as two"
        " forces, so four are fitted. With shift and change of size the forces with the"
        " paper's strengths even point against the gradient step: see"
        " [the force audit](analyses/audit.md).",
    ),
    Headline(
        "Weight decay of one part orders another",
        "With weight decay of the classifier alone the embeddings are not decayed, and"
        " still become more regular: networks answer {decayed} of the sums that they"
        " were not trained on, and {plain} without decay. Among those that are no"
        " circles {here} fewer of 153 pair sums are nearest to one of another value.",
        {
            "here": HeadlineNumber(LINK, scale=-1),
            "decayed": HeadlineNumber(
                LINK, unit="%", estimate=accuracy_by_decayed_part("classifier")
            ),
            "plain": HeadlineNumber(
                LINK, unit="%", estimate=accuracy_by_decayed_part("nothing")
            ),
        },
        "decay",
        "report-figures/ca-decay.png",
        "Final embeddings of the same seeds with weight decay of nothing, of the"
        " classifier, of the embedding and of all",
        "In the figure each column is a seed. Above a panel stand the seed and the"
        " number of pair sums next to a different sum, or ○ for a circle.",
    ),
    Headline(
        "More of the second drop is due to the MLP",
        "The transformer of Odonnat et al. (VC) learns whether the sum of five of twelve"
        " bits is even. Its loss falls in two drops. The MLP accounts for {here} of the"
        " second drop and for {first} of the first. That it is learned in the second"
        " drop, as VC states, {here_verdict} in this sense.",
        {
            "here": HeadlineNumber(DROP, 0, 50, unit="%"),
            "first": HeadlineNumber(DROP, 0, 50, unit="%", estimate=mlp_part("first")),
        },
        "drops",
        "report-figures/vc5.png",
        "The classes of the plane and the sequence embeddings where the two drops begin"
        " and end",
        "Medians of the successful runs. The rest is due to the layers before the MLP."
        " Around the first drop the embeddings of the sequences form clusters.",
    ),
    Headline(
        "What did not hold",
        "{against} of {claims} statements differ or are contradicted. With weight decay"
        " 0.6, {circles} of networks become circles; CA prints {circles_printed}. The"
        " repulsion falls as 1 / rᵖ with p = {power}; CA has {power_printed}. The angle"
        " of hidden weights to the nearest pair sum is {angle} larger than that of"
        " random directions; in CA it is smaller.",
        {
            "circles": HeadlineNumber("CA.table1.decay0.6", unit="%", digits=1),
            "power": HeadlineNumber("CA.s5.1.inverse", digits=2),
            "angle": HeadlineNumber("CA.s5.2.weights-align", unit="%"),
        },
        "verdicts",
        "",
        "",
    ),
)
"""The main results, in the order of the pages; the last has those that differ."""
SUMMARY = (
    "Of {claims} statements of {papers} papers, tested with {runs} runs, {supported}"
    " agree or hold, {against} do not, and {open} are open. Networks and particles form"
    " the same circles and grids, but the forces of the particles explain only"
    " {explained} of the gradient of the networks' embeddings. (Brackets: 95% intervals.)"
)
"""All results in three sentences."""


def number_interval(number: HeadlineNumber, findings: Findings) -> Interval:
    """A number of a headline with its 95% interval."""
    result = findings.of(number.claim)
    if number.estimate is None:
        interval = result.numbers[number.place].estimate.interval
    else:
        interval = number.estimate(findings.evidence[result.experiment.name]).interval
    value, *ends = ((item + number.added) * number.scale for item in interval)
    return Interval(value, min(ends), max(ends))


def number_words(number: HeadlineNumber, findings: Findings) -> str:
    """A number of a headline with its 95% interval and its unit."""
    return format_number(number_interval(number, findings), number.unit, number.digits)


def count_words(findings: Findings) -> dict[str, str]:
    """Numbers of statements, papers and runs."""
    return {
        "claims": f"{findings.of_papers()}",
        "supported": f"{findings.of_papers(SUPPORTED)}",
        "against": f"{findings.of_papers(AGAINST)}",
        "open": f"{findings.of_papers((Verdict.OPEN,))}",
        "papers": number_in_words(count_papers(PAPERS.values())),
        "runs": f"{findings.runs:,}",
    }


def summary_text(findings: Findings) -> str:
    """The summary with its numbers."""
    explained = number_words(EXPLAINED, findings)
    return SUMMARY.format(**count_words(findings), explained=explained)


def headline_text(headline: Headline, findings: Findings) -> str:
    """The sentences of a headline with its numbers and their 95% intervals."""
    words = count_words(findings)
    for name, number in headline.numbers.items():
        words[name] = number_words(number, findings)
        judged = findings.of(number.claim).numbers[number.place]
        words[f"{name}_printed"] = expected_text(judged)
        words[f"{name}_verdict"] = str(judged.verdict)
    return headline.text.format(**words)
