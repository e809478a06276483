"""Every table, figure, section and appendix of the papers, and the claims that cover
it."""

import re
from collections.abc import Sequence
from typing import NamedTuple

from analysis.reproduction.verification.claim import Claim


class Paper(NamedTuple):
    """A paper, and its places in order."""

    short: str
    title: str
    authors: str
    address: str
    places: tuple[str, ...]


def _list_places(text: str) -> tuple[str, ...]:
    """Places in order, from text such as "abstract; table: 1 2", which is abstract,
    table 1, table 2."""
    places = []
    for entry in text.split(";"):
        kind, _, numbers = entry.strip().partition(":")
        places += [f"{kind} {number}" for number in numbers.split()] or [kind]
    return tuple(places)


_CA_PLACES = """abstract; table: 1 2; figure: 1 2 3 4 5 6; section: 1 2 3 4 5 5.1 5.2 6 7 8;
    limitations; broader impact; compute resources; appendix: A.1 A.2 B C D E F"""
_VC_PLACES = """abstract; figure: 1 2 3 4 5 6 7 8 9 10 11 12 13 14 15 16 17 18 19 20;
    section: 1 2 2.1 2.2 2.3 3 3.1 3.2 4 4.1 4.2 4.3 5; societal impact; appendix: A.1 A.2 A.3"""
_CH_PLACES = "tldr; abstract; figure: 1 2 3 4 5; remark: 3.1 3.2 3.3"
_CA_TITLE = (
    "Clustering and Alignment: Understanding the Training Dynamics in Modular Addition"
)
_VC_TITLE = "A Visual Case Study of the Training Dynamics in Neural Networks"
_CH_TITLE = (
    "Clustering Head: A Visual Case Study of the Training Dynamics in Transformers"
)
_VC_AUTHORS, _VC_ADDRESS = (
    "Odonnat, Bouaziz, Cabannes",
    "https://arxiv.org/abs/2410.24050",
)
_ZL_TITLE = (
    "The Clock and the Pizza: Two Stories in Mechanistic Explanation of Neural Networks"
)
_NA_TITLE = "Progress measures for grokking via mechanistic interpretability"
_ZL_AUTHORS, _NA_AUTHORS = (
    "Zhong, Liu, Tegmark, Andreas",
    "Nanda, Chan, Lieberum, Smith, Steinhardt",
)
_NA_PLACES = "grokking; record; phases; weight-decay"

PAPERS = (
    Paper(
        "CA",
        _CA_TITLE,
        "Musat",
        "https://arxiv.org/abs/2408.09414",
        _list_places(_CA_PLACES),
    ),
    Paper("VC", _VC_TITLE, _VC_AUTHORS, _VC_ADDRESS, _list_places(_VC_PLACES)),
    Paper("CH", _CH_TITLE, _VC_AUTHORS, _VC_ADDRESS, _list_places(_CH_PLACES)),
    Paper(
        "ZL",
        _ZL_TITLE,
        _ZL_AUTHORS,
        "https://arxiv.org/abs/2306.17844",
        ("models", "figure", "runs"),
    ),
    Paper(
        "NA",
        _NA_TITLE,
        _NA_AUTHORS,
        "https://arxiv.org/abs/2301.05217",
        _list_places(_NA_PLACES),
    ),
)
"""CH is the later version of VC, of which the summary, five captions and the titles of
remarks are known. Of ZL and NA, what is said of a few subjects is tested: two models,
the figure over the attention rate and the public table of runs; the delay of
generalisation, a public record of a smaller run, the phases, and weight decay."""

OWN = "OWN"

OTHER_NAMES = {
    ("CA", "conclusion"): "section 8",
    ("CA", "introduction"): "section 1",
    ("VC", "conclusion"): "section 5",
    ("VC", "introduction"): "section 1",
    ("CH", "summary"): "tldr",
}
"""The listed places to which places without a number belong."""

UNTESTED_PLACES = {
    ("CA", "abstract"): "summary of sections 4 to 7",
    ("CA", "section 1"): "introduction: motivation and related work",
    ("CA", "section 2"): "list of the statements of sections 4 to 7",
    (
        "CA",
        "section 3",
    ): "definition of the network and training, the defaults of this package",
    ("CA", "section 8"): "summary of sections 4 to 7 and open questions",
    ("CA", "limitations"): "list of limitations",
    ("CA", "broader impact"): "possible impact",
    (
        "CA",
        "compute resources",
    ): "hours on another machine; ours are in the table of experiments",
    ("CA", "appendix A.2"): "definition of an algorithm, which this package uses",
    ("VC", "abstract"): "summary of sections 3 and 4",
    ("VC", "section 1"): "introduction: motivation, contributions, related work",
    ("VC", "section 2"): "introduction of its subsections",
    ("VC", "section 2.1"): "definition of the task",
    (
        "VC",
        "section 2.2",
    ): "definition of the network and training, the defaults of this package",
    (
        "VC",
        "section 2.3",
    ): "description of films; analysis.frame and analysis.film draw the same",
    ("VC", "section 5"): "summary of sections 3 and 4",
    ("VC", "societal impact"): "possible impact",
    ("CH", "remark 3.1"): "only the title is known, “Faithful to practice”",
    ("CH", "remark 3.2"): "only the title is known, “Beyond stationary points”",
    ("CH", "remark 3.3"): "only the title is known, “Other pathways”",
}
"""Places without a testable statement, unless a claim covers them."""


KINDS = {
    "s": "section",
    "app": "appendix",
    "table": "table",
    "figure": "figure",
    "remark": "remark",
}
"""First letters of places in the names of claims."""


def place_in_paper(name: str) -> tuple[str, str]:
    """The place in a claim's name and the rest of the name: "section 5.1", "apart" for
    CA.s5.1.apart."""
    words = name.split(".")[1:]
    count = 2 if len(words) > 2 and words[1].isdigit() else 1  # of a place with a dot
    place = ".".join(words[:count])
    fullmatch = re.fullmatch(r"([a-z]+?)((?:\d|[A-F]\b).*)", place)
    kind = KINDS.get(fullmatch[1]) if fullmatch else None
    return f"{kind} {fullmatch[2]}" if fullmatch and kind else place, ".".join(
        words[count:]
    )


def claims_covering(
    claims: Sequence[Claim], paper: Paper, place: str, own: bool = False
) -> list[Claim]:
    """The claims that cover a place or a part of it, such as section 5.1 for section 5.

    own: leave out those that only cover a part that is listed separately.
    """
    parts = [item for item in paper.places if own and item.startswith(f"{place}.")]

    def covers(known: str) -> bool:
        return _within(known, place) and not any(_within(known, part) for part in parts)

    return [
        claim
        for claim in claims
        if claim.paper == paper.short and any(map(covers, places_of_claim(claim)))
    ]


def places_of_claim(claim: Claim) -> list[str]:
    """The places that a claim covers, by their listed names."""
    places = (claim.places or place_in_paper(claim.name)[0]).lower().split(", ")
    return [OTHER_NAMES.get((claim.paper, place), place) for place in places]


def figure_of_claim(claim: Claim) -> str:
    """The figure of `analysis.paper` that shows a claim: the one given, or that of the
    first figure it covers."""
    matchs = [
        match
        for place in places_of_claim(claim)
        if (match := re.fullmatch(r"figure (\d+)", place))
    ]
    return claim.figure or (
        f"{claim.paper.lower()}{matchs[0][1]}"
        if matchs and claim.paper in ("CA", "VC")
        else ""
    )


def _within(part: str, place: str) -> bool:
    return f"{part}.".startswith(f"{place.lower()}.")


def uncovered_places(claims: Sequence[Claim]) -> list[str]:
    """Places with testable statements that no claim covers, such as "CA table 2"."""
    return [
        f"{paper.short} {place}"
        for paper in PAPERS
        for place in paper.places
        if (paper.short, place) not in UNTESTED_PLACES
        and not claims_covering(claims, paper, place)
    ]
