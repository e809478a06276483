"""The main results in a few sentences, for the first pages that a reader sees: README
and the documentation's home. The numbers are those of the claims."""

from collections.abc import Mapping, Sequence
from typing import NamedTuple

from analysis.reproduction.results import ClaimResult, format_number
from analysis.statistics.intervals import Interval


class HeadlineNumber(NamedTuple):
    """A number of a claim as a headline says it: (its value + added) times scale."""

    claim: str
    place: int = 0
    """Which number of the claim it is"""
    added: float = 0.0
    scale: float = 1.0
    unit: str = ""
    digits: int = 0


class Headline(NamedTuple):
    """A main result."""

    title: str
    text: str
    """Sentences with the names of numbers in braces"""
    numbers: Mapping[str, HeadlineNumber]
    picture: str
    """The picture below docs/"""
    shows: str
    """What the picture shows"""

    @property
    def claim(self) -> str:
        """The claim that has the first number."""
        return next(iter(self.numbers.values())).claim


HEADLINES = (
    Headline(
        "Numbers form circles and grids",
        "A small transformer that learns to add modulo 17 arranges the embeddings of its"
        " 17 numbers in a grid or, less often, on a circle. With weight decay 1, {here}"
        " of 1,000 networks become circles; CA prints 18 of 100.",
        {"here": HeadlineNumber("CA.table1.decay1", unit="%", digits=1)},
        "pictures/modular.png",
        "Embeddings and class maps of six networks, and the curves of twenty",
    ),
    Headline(
        "Particles under three simple forces do the same",
        "Without a network, 17 particles whose pair sums attract, repel and align form"
        " the same structures. At alignment 2, {here} of 1,000 simulations become"
        " circles; CA prints 56 of 100.",
        {"here": HeadlineNumber("CA.table2.fa2", unit="%", digits=1)},
        "pictures/particles.png",
        "Final positions of 17 particles in twenty simulations: circles and grids",
    ),
    Headline(
        "These forces are a part of what moves the embeddings",
        "At epoch 100 of the networks with weight decay 1, when their structure forms,"
        " the four forces, fitted to the gradient of the loss with respect to the"
        " embeddings, account for {here} of its squared length. With the numbers"
        " renamed at random, four such forces account for {gain} points less.",
        {
            "here": HeadlineNumber("OWN.audit", 0, 0.5, 100, "%"),
            "gain": HeadlineNumber("OWN.audit", 2, scale=100),
        },
        "pictures/audit.png",
        "Cosine, R² and the weight of each force during training",
    ),
    Headline(
        "Weight decay of one part changes another",
        "If weight decay acts on the classifier alone, the embeddings, which are not"
        " decayed, become more regular: of 153 pair sums, {here} fewer have a nearest"
        " other pair sum of another class.",
        {"here": HeadlineNumber("CA.s7.link", scale=-1)},
        "report-figures/ca-decay.png",
        "Final embeddings of the same seeds with weight decay of nothing, of the"
        " classifier, of the embedding and of all",
    ),
    Headline(
        "The MLP learns in the second drop of the loss",
        "The loss of VC's transformer falls in two drops. In the first one the sequences"
        " form clusters. The MLP accounts for {here} of the second drop, and for {first}"
        " points less of the first.",
        {
            "here": HeadlineNumber("VC.s4.1.second-drop", 0, 50, unit="%"),
            "first": HeadlineNumber("VC.s4.1.second-drop", 1),
        },
        "report-figures/vc5.png",
        "The classes of the plane and the sequence embeddings where the two drops begin"
        " and end",
    ),
)
"""The main results, in the order of the pages."""


def headline_claims() -> set[str]:
    """Names of the claims that the headlines quote."""
    return {
        number.claim for headline in HEADLINES for number in headline.numbers.values()
    }


def headline_text(headline: Headline, results: Sequence[ClaimResult]) -> str:
    """The sentences of a headline with its numbers and their 95% intervals."""
    judged = {result.claim.name: result.numbers for result in results}
    words = {}
    for name, number in headline.numbers.items():
        interval = judged[number.claim][number.place].estimate.interval
        ends = [(value + number.added) * number.scale for value in interval[1:3]]
        value = (interval.value + number.added) * number.scale
        shown = Interval(value, min(ends), max(ends))
        words[name] = format_number(shown, number.unit, number.digits)
    return headline.text.format(**words)
