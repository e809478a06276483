"""Every claim of both papers that this package puts to the test, or says why it cannot, and some of its own.

A claim says where it stands, what it states, what the paper reports, how it is measured here, which rule judges it and
what would refute it (`analysis.reproduction.verification.claim`). The modules beside this one hold them by subject.
"""

import difflib
import textwrap
from collections.abc import Sequence

from analysis.reproduction.claims import (
    alignment,
    circuits,
    clustering,
    decay,
    heads,
    hyperparameters,
    networks,
    own,
    particles,
    phases,
    practice,
    saddles,
    sparsity,
    spikes,
    task,
    transfer,
)
from analysis.reproduction.verification.claim import Claim
from dynamics.settings import SettingsError

PAPERS = ("CA", "VC", "CH", "OWN")
"""Musat's paper, that of Odonnat, Bouaziz and Cabannes, its later version as its summary has it, and our own."""

SUBJECTS = (
    networks, clustering, decay, alignment, particles, own, task, circuits, phases, hyperparameters, transfer, spikes,
    saddles, sparsity, heads, practice,
)  # fmt: skip

ALL = "all"

CLAIMS: tuple[Claim, ...] = tuple(
    sorted((claim for subject in SUBJECTS for claim in subject.CLAIMS), key=lambda claim: PAPERS.index(claim.paper))
)
"""By paper, and then by subject, in the order of the papers' sections."""


def select_claims(names: Sequence[str]) -> list[Claim]:
    """The claims with the given names, or whose names begin with the given words, such as CA.table2; "all" for all.

    Case does not matter. Raises SettingsError for an empty sequence and for a name that no claim has.
    """
    if not names:
        raise SettingsError("only", "no name", f"names of claims, or their first words, such as {_similar_names('')}")
    for name in names:
        if name != ALL and not any(_name_begins_with(claim, name) for claim in CLAIMS):
            allowed = f"names of claims, or their first words up to a dot, such as {_similar_names(name)}"
            raise SettingsError("only", name or "no name", allowed)
    exact = {claim.name.lower() for claim in CLAIMS}  # CA.table1.wd0 is not CA.table1.wd0.3
    return [
        claim
        for claim in CLAIMS
        if ALL in names
        or any(
            claim.name.lower() == name.lower() if name.lower() in exact else _name_begins_with(claim, name)
            for name in names
        )
    ]


def _name_begins_with(claim: Claim, name: str) -> bool:
    """Whether a claim has this name, or a name that continues it after a dot."""
    return f"{claim.name}.".lower().startswith(f"{name.rstrip('.')}.".lower())


def _similar_names(name: str) -> str:
    """A few names of claims that are similar to an unknown name."""
    groups = list(dict.fromkeys(".".join(claim.name.split(".")[:2]) for claim in CLAIMS))
    names = {each.lower(): each for each in [*groups, *(claim.name for claim in CLAIMS)]}
    found = difflib.get_close_matches(name.lower(), names, 4, 0.4)
    return ", ".join([names[each] for each in found] or groups[:3])


def format_claim_list(claims: Sequence[Claim]) -> str:
    """The claims by experiment: each with its statement or, where it cannot be tested, the reason."""
    lines = []
    for experiment in dict.fromkeys(claim.study for claim in claims):
        lines += ["", experiment or "not testable"]
        for claim in claims:
            if claim.study == experiment:
                text = claim.statement + (f" Not testable: {claim.untestable}" if claim.untestable else "")
                lines += textwrap.wrap(f"{claim.name}: {text}", 118, initial_indent="  ", subsequent_indent="      ")
    return "\n".join([*lines[1:], "", f"{len(claims)} claims, {sum(not each.untestable for each in claims)} testable"])
