"""Every claim of both papers that this package puts to the test, or says why it cannot, and some of its own.

A claim says where it stands, what it states, what the paper reports, how it is measured here, which rule judges it and
what would refute it (`analysis.reproduction.verification.claim`). `analysis/statements` has them by their subjects.
"""

import difflib
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
    """The claims that a person asks for, by name or by the first words of names, such as CA.table2, or all.

    Whatever their case. Raises SettingsError for none, and for a name of none.
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
    """Whether a claim's name is this one, or goes on from it after a dot."""
    return f"{claim.name}.".lower().startswith(f"{name.rstrip('.')}.".lower())


def _similar_names(name: str) -> str:
    """A few names that look like one that is none."""
    groups = list(dict.fromkeys(".".join(claim.name.split(".")[:2]) for claim in CLAIMS))
    names = {each.lower(): each for each in [*groups, *(claim.name for claim in CLAIMS)]}
    found = difflib.get_close_matches(name.lower(), names, 4, 0.4)
    return ", ".join([names[each] for each in found] or groups[:3])
