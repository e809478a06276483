"""Every table, figure, section and appendix of the papers, and which claims answer for it."""

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


def _numbered(kind: str, last: int) -> tuple[str, ...]:
    return tuple(f"{kind} {number}" for number in range(1, last + 1))


def _named(kind: str, names: str) -> tuple[str, ...]:
    return tuple(f"{kind} {name}" for name in names.split())


PAPERS = (
    Paper(
        "CA",
        "Clustering and Alignment: Understanding the Training Dynamics in Modular Addition",
        "Musat",
        "https://arxiv.org/abs/2408.09414",
        (
            "abstract",
            *_numbered("table", 2),
            *_numbered("figure", 6),
            *_named("section", "1 2 3 4 5 5.1 5.2 6 7 8"),
            "limitations",
            "broader impact",
            "compute resources",
            *_named("appendix", "A.1 A.2 B C D E F"),
        ),
    ),
    Paper(
        "VC",
        "A Visual Case Study of the Training Dynamics in Neural Networks",
        "Odonnat, Bouaziz, Cabannes",
        "https://arxiv.org/abs/2410.24050",
        (
            "abstract",
            *_numbered("figure", 20),
            *_named("section", "1 2 2.1 2.2 2.3 3 3.1 3.2 4 4.1 4.2 4.3 5"),
            "societal impact",
            *_named("appendix", "A.1 A.2 A.3"),
        ),
    ),
    Paper(
        "CH",
        "Clustering Head: A Visual Case Study of the Training Dynamics in Transformers",
        "Odonnat, Bouaziz, Cabannes",
        "https://arxiv.org/abs/2410.24050",
        ("tldr", "abstract", *_numbered("figure", 5), *_named("remark", "3.1 3.2 3.3")),
    ),
)
"""CH is the later version of VC, known by its summary: of its 17 figures five captions, of its remarks the titles."""

OWN = "OWN"

OTHER_NAMES = {
    ("CA", "conclusion"): "section 8",
    ("CA", "introduction"): "section 1",
    ("VC", "conclusion"): "section 5",
    ("VC", "introduction"): "section 1",
    ("CH", "summary"): "tldr",
}
"""What places without a number in a paper's text are listed as."""

UNTESTED_PLACES = {
    ("CA", "abstract"): "sums up sections 4 to 7",
    ("CA", "section 1"): "introduction: other work, and why the subject matters",
    ("CA", "section 2"): "lists what sections 4 to 7 say",
    ("CA", "section 3"): "defines network and training, which are this package's defaults",
    ("CA", "section 8"): "sums up sections 4 to 7, and names open questions",
    ("CA", "limitations"): "says what was left out",
    ("CA", "broader impact"): "hopes for what may come of it",
    ("CA", "compute resources"): "hours on another machine; ours are told at the top",
    ("CA", "appendix A.2"): "defines an algorithm, which is this package's",
    ("VC", "abstract"): "sums up sections 3 and 4",
    ("VC", "section 1"): "introduction: why the subject matters, contributions, other work",
    ("VC", "section 2"): "introduces its subsections",
    ("VC", "section 2.1"): "defines the task",
    ("VC", "section 2.2"): "defines network and training, which are this package's defaults",
    ("VC", "section 2.3"): "says what its films show; analysis.frame and analysis.film show the same",
    ("VC", "section 5"): "sums up sections 3 and 4",
    ("VC", "societal impact"): "hopes for what may come of it",
    ("CH", "remark 3.1"): "known by its title alone, “Faithful to practice”",
    ("CH", "remark 3.2"): "known by its title alone, “Beyond stationary points”",
    ("CH", "remark 3.3"): "known by its title alone, “Other pathways”",
}
"""Places that state nothing to test, as long as no claim answers for them."""


KINDS = {"s": "section", "app": "appendix", "table": "table", "figure": "figure", "remark": "remark"}
"""How places begin in the names of claims."""


def place_in_paper(name: str) -> tuple[str, str]:
    """The place in a claim's name, in words, and what is beside it: CA.s5.1.apart is section 5.1, apart."""
    words = name.split(".")[1:]
    count = 2 if len(words) > 2 and words[1].isdigit() else 1  # of a place with a dot
    place = ".".join(words[:count])
    found = re.fullmatch(r"([a-z]+?)((?:\d|[A-F]\b).*)", place)
    kind = KINDS.get(found[1]) if found else None
    return f"{kind} {found[2]}" if found and kind else place, ".".join(words[count:])


def claims_covering(claims: Sequence[Claim], paper: str, place: str) -> list[Claim]:
    """The claims that answer for a place, or for a part of it, such as section 5.1 for section 5."""
    return [
        each for each in claims if each.paper == paper and any(_within(known, place) for known in places_of_claim(each))
    ]


def directly_covering(claims: Sequence[Claim], paper: Paper, place: str) -> list[Claim]:
    """The claims that answer for a place, those aside that only answer for a part of it which is listed itself."""
    parts = [each for each in paper.places if each.startswith(f"{place}.")]
    return [
        claim
        for claim in claims_covering(claims, paper.short, place)
        if any(
            _within(known, place) and not any(_within(known, part) for part in parts)
            for known in places_of_claim(claim)
        )
    ]


def places_of_claim(claim: Claim) -> list[str]:
    """The places that a claim answers for, by the names that they are listed under."""
    places = claim.places.lower().split(", ") if claim.places else [place_in_paper(claim.name)[0]]
    return [OTHER_NAMES.get((claim.paper, place), place) for place in places]


def _within(part: str, place: str) -> bool:
    return f"{part}.".startswith(f"{place.lower()}.")


def uncovered_places(claims: Sequence[Claim]) -> list[str]:
    """Places such as "CA table 2" that no claim answers for though they state something to test."""
    return [
        f"{paper.short} {place}"
        for paper in PAPERS
        for place in paper.places
        if (paper.short, place) not in UNTESTED_PLACES and not claims_covering(claims, paper.short, place)
    ]


def unlisted_places(claims: Sequence[Claim], paper: str) -> dict[str, list[Claim]]:
    """Further places that claims name, which are not listed, and these claims."""
    listed = next(each.places for each in PAPERS if each.short == paper)
    found: dict[str, list[Claim]] = {}
    for claim in claims:
        for place in places_of_claim(claim) if claim.paper == paper else ():
            if not any(_within(place, each) for each in listed):
                found.setdefault(place, []).append(claim)
    return found
