"""Every table, figure, section and appendix of the papers, and the claims that cover
it."""

import re
import tomllib
from collections.abc import Mapping, Sequence
from importlib.resources import files
from typing import NamedTuple

from analysis.reproduction.verification.claim import Claim


class Paper(NamedTuple):
    """A paper, and its places in order."""

    short: str
    title: str
    authors: str = ""
    """Empty for our own claims"""
    address: str = ""
    introduction: str = ""
    """The terms that the report needs, in Markdown"""
    places: Sequence[str] = ()
    other_names: Mapping[str, str] = {}
    """The listed places to which places without a number belong"""
    untested: Mapping[str, str] = {}
    """Places without a testable statement, unless a claim covers them, each with the
    reason"""


_TEXT = files("analysis.reproduction").joinpath("papers.toml").read_text("utf-8")
PAPERS = {row["short"]: Paper(**row) for row in tomllib.loads(_TEXT)["paper"]}
"""By their abbreviation; our own claims are the last."""
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
    place, rest = ".".join(words[:count]), ".".join(words[count:])
    numbered = re.fullmatch(rf"({'|'.join(KINDS)})((?:\d|[A-F]\b).*)", place)
    return (f"{KINDS[numbered[1]]} {numbered[2]}" if numbered else place), rest


def claims_covering(
    claims: Sequence[Claim], paper: Paper, place: str, own: bool = False
) -> list[Claim]:
    """The claims that cover a place or a part of it, such as section 5.1 for section 5.

    own: leave out those that only cover a part that is listed separately.
    """
    parts = [item for item in paper.places if own and item.startswith(f"{place}.")]
    covering = []
    for claim in claims:
        if claim.paper != paper.short:
            continue
        inside = [item for item in places_of_claim(claim) if _is_within(item, place)]
        if any(not any(_is_within(item, part) for part in parts) for item in inside):
            covering.append(claim)
    return covering


def places_of_claim(claim: Claim) -> list[str]:
    """The places that a claim covers, by their listed names."""
    places = (claim.places or place_in_paper(claim.name)[0]).lower().split(", ")
    other_names = PAPERS[claim.paper].other_names
    return [other_names.get(place, place) for place in places]


def figure_of_claim(claim: Claim) -> str:
    """The figure of `analysis.paper` that shows a claim: the one given, or that of the
    first figure it covers."""
    if claim.figure or claim.paper not in ("CA", "VC"):
        return claim.figure
    for place in places_of_claim(claim):
        if number := re.fullmatch(r"figure (\d+)", place):
            return f"{claim.paper.lower()}{number[1]}"
    return ""


def _is_within(part: str, place: str) -> bool:
    return f"{part}.".startswith(f"{place.lower()}.")


def uncovered_places(claims: Sequence[Claim]) -> list[str]:
    """Places with testable statements that no claim covers, such as "CA table 2"."""
    return [
        f"{paper.short} {place}"
        for paper in PAPERS.values()
        for place in paper.places
        if place not in paper.untested and not claims_covering(claims, paper, place)
    ]
