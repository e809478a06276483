"""Every table, figure, section and appendix of the papers, and the claims that cover it."""

import re
from collections.abc import Iterable, Sequence
from typing import NamedTuple

from analysis.reproduction.verification.claim import Claim


class Paper(NamedTuple):
    """A paper, and its places in order."""

    short: str
    title: str
    authors: str
    address: str
    places: tuple[str, ...]


def _places(kind: str, names: Iterable[str | int]) -> tuple[str, ...]:
    return tuple(f"{kind} {name}" for name in names)


PAPERS = (
    Paper(
        "CA",
        "Clustering and Alignment: Understanding the Training Dynamics in Modular Addition",
        "Musat",
        "https://arxiv.org/abs/2408.09414",
        (
            "abstract",
            *_places("table", (1, 2)),
            *_places("figure", range(1, 7)),
            *_places("section", "1 2 3 4 5 5.1 5.2 6 7 8".split()),
            "limitations",
            "broader impact",
            "compute resources",
            *_places("appendix", "A.1 A.2 B C D E F".split()),
        ),
    ),
    Paper(
        "VC",
        "A Visual Case Study of the Training Dynamics in Neural Networks",
        "Odonnat, Bouaziz, Cabannes",
        "https://arxiv.org/abs/2410.24050",
        (
            "abstract",
            *_places("figure", range(1, 21)),
            *_places("section", "1 2 2.1 2.2 2.3 3 3.1 3.2 4 4.1 4.2 4.3 5".split()),
            "societal impact",
            *_places("appendix", "A.1 A.2 A.3".split()),
        ),
    ),
    Paper(
        "CH",
        "Clustering Head: A Visual Case Study of the Training Dynamics in Transformers",
        "Odonnat, Bouaziz, Cabannes",
        "https://arxiv.org/abs/2410.24050",
        ("tldr", "abstract", *_places("figure", range(1, 6)), *_places("remark", ("3.1", "3.2", "3.3"))),
    ),
)
"""CH is the later version of VC, of which the summary, five captions and the titles of remarks are known."""

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
    ("CA", "section 3"): "definition of the network and training, the defaults of this package",
    ("CA", "section 8"): "summary of sections 4 to 7 and open questions",
    ("CA", "limitations"): "list of limitations",
    ("CA", "broader impact"): "possible impact",
    ("CA", "compute resources"): "hours on another machine; ours are in the table of experiments",
    ("CA", "appendix A.2"): "definition of an algorithm, which this package uses",
    ("VC", "abstract"): "summary of sections 3 and 4",
    ("VC", "section 1"): "introduction: motivation, contributions, related work",
    ("VC", "section 2"): "introduction of its subsections",
    ("VC", "section 2.1"): "definition of the task",
    ("VC", "section 2.2"): "definition of the network and training, the defaults of this package",
    ("VC", "section 2.3"): "description of films; analysis.frame and analysis.film draw the same",
    ("VC", "section 5"): "summary of sections 3 and 4",
    ("VC", "societal impact"): "possible impact",
    ("CH", "remark 3.1"): "only the title is known, “Faithful to practice”",
    ("CH", "remark 3.2"): "only the title is known, “Beyond stationary points”",
    ("CH", "remark 3.3"): "only the title is known, “Other pathways”",
}
"""Places without a testable statement, unless a claim covers them."""


KINDS = {"s": "section", "app": "appendix", "table": "table", "figure": "figure", "remark": "remark"}
"""First letters of places in the names of claims."""


def place_in_paper(name: str) -> tuple[str, str]:
    """The place in a claim's name and the rest of the name: "section 5.1", "apart" for CA.s5.1.apart."""
    words = name.split(".")[1:]
    count = 2 if len(words) > 2 and words[1].isdigit() else 1  # of a place with a dot
    place = ".".join(words[:count])
    found = re.fullmatch(r"([a-z]+?)((?:\d|[A-F]\b).*)", place)
    kind = KINDS.get(found[1]) if found else None
    return f"{kind} {found[2]}" if found and kind else place, ".".join(words[count:])


def claims_covering(claims: Sequence[Claim], paper: str, place: str) -> list[Claim]:
    """The claims that cover a place or a part of it, such as section 5.1 for section 5."""
    own = [claim for claim in claims if claim.paper == paper]
    return [claim for claim in own if any(_within(known, place) for known in places_of_claim(claim))]


def directly_covering(claims: Sequence[Claim], paper: Paper, place: str) -> list[Claim]:
    """The claims that cover a place, without those that only cover a part of it that is listed separately."""
    parts = [each for each in paper.places if each.startswith(f"{place}.")]

    def covers(known: str) -> bool:
        return _within(known, place) and not any(_within(known, part) for part in parts)

    return [each for each in claims if each.paper == paper.short and any(map(covers, places_of_claim(each)))]


def places_of_claim(claim: Claim) -> list[str]:
    """The places that a claim covers, by their listed names."""
    places = (claim.places or place_in_paper(claim.name)[0]).lower().split(", ")
    return [OTHER_NAMES.get((claim.paper, place), place) for place in places]


def figure_of_claim(claim: Claim) -> str:
    """The figure of `analysis.paper` that shows a claim: the one given, or that of the first figure it covers."""
    found = [match for place in places_of_claim(claim) if (match := re.fullmatch(r"figure (\d+)", place))]
    return claim.figure or (f"{claim.paper.lower()}{found[0][1]}" if found and claim.paper in ("CA", "VC") else "")


def _within(part: str, place: str) -> bool:
    return f"{part}.".startswith(f"{place.lower()}.")


def uncovered_places(claims: Sequence[Claim]) -> list[str]:
    """Places with testable statements that no claim covers, such as "CA table 2"."""
    return [
        f"{paper.short} {place}"
        for paper in PAPERS
        for place in paper.places
        if (paper.short, place) not in UNTESTED_PLACES and not claims_covering(claims, paper.short, place)
    ]
