"""All claims of both papers that are tested here, or not with the reason, some of our own, and their experiments."""

import dataclasses
import difflib
import textwrap
from collections.abc import Iterable, Iterator, Mapping, Sequence

from analysis.reproduction.clustering_heads import fixed_points, summary
from analysis.reproduction.musat2024 import (
    alignment,
    appendix_f,
    classifier,
    clustering,
    distance,
    force_audit,
    particles,
    structures,
    table1,
    untestable,
    weight_decay,
)
from analysis.reproduction.odonnat2024 import (
    ablations,
    circuits,
    finetuning,
    gradient_norms,
    ideal_circuits,
    normalisation,
    phases,
    practice,
    recipe_changes,
    remedies,
    saddles,
    sparsity,
    spikes,
    transfer,
)
from analysis.reproduction.own import sensitivity, sequence, sparse_networks
from analysis.reproduction.verification.claim import Claim, Kind
from analysis.reproduction.verification.coverage import PAPERS, place_in_paper
from analysis.reproduction.verification.experiment import Experiment
from dynamics.settings import SettingsError

PAPER_NAMES = ("CA", "VC", "CH", "OWN")
"""Musat's paper, that of Odonnat, Bouaziz and Cabannes, its later version as its summary has it, and our own."""

SECTIONS = (
    table1, weight_decay, particles, alignment, classifier, clustering, structures, appendix_f, force_audit, distance,
    untestable, sequence, sensitivity, ideal_circuits, normalisation, circuits, phases, gradient_norms, saddles,
    sparsity, recipe_changes, spikes, remedies, fixed_points, transfer, finetuning, ablations, practice, summary,
    sparse_networks,
)  # fmt: skip
"""Modules, each with claims and, in most of them, the experiments that test them, in the order of their execution."""

EXPERIMENTS = {each.name: each for one in SECTIONS for each in vars(one).values() if isinstance(each, Experiment)}
"""All experiments by name, in the order of their execution."""

ALL = "all"


def _sort_claims(claims: Iterable[Claim]) -> list[Claim]:
    """Claims by paper, and for each paper in the order of its tables, figures and sections."""
    places = {paper.short: list(paper.places) for paper in PAPERS}
    return sorted(claims, key=lambda claim: (PAPER_NAMES.index(claim.paper), _index(places, claim)))


def _index(places: Mapping[str, Sequence[str]], claim: Claim) -> int:
    """The index of the place in a claim's name among its paper's places."""
    listed, place = places.get(claim.paper, ()), place_in_paper(claim.name)[0]
    return listed.index(place) if place in listed else len(listed)


def mark_repeated(claims: Iterable[Claim]) -> Iterator[Claim]:
    """The same claims; an empirical one is marked as repeated if empirical ones before it are judged by its numbers."""
    known: set[tuple] = set()
    for claim in claims:
        numbers = {(claim.experiment, *part.number) for part in claim.parts}
        if claim.kind is Kind.EMPIRICAL and numbers and numbers <= known:
            claim = dataclasses.replace(claim, kind=Kind.REPEATED)
        if claim.kind is Kind.EMPIRICAL:
            known |= numbers
        yield claim


CLAIMS: tuple[Claim, ...] = tuple(mark_repeated(_sort_claims(claim for one in SECTIONS for claim in one.CLAIMS)))
"""All claims, by paper and in the order of the paper's sections."""


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


def required_experiments(claims: Sequence[Claim]) -> list[Experiment]:
    """The experiments that test some claims, in the order of `EXPERIMENTS`."""
    needed = {claim.experiment for claim in claims}
    return [each for each in EXPERIMENTS.values() if each.name in needed]


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
    for experiment in dict.fromkeys(claim.experiment for claim in claims):
        lines += ["", experiment or "not testable"]
        for claim in claims:
            if claim.experiment == experiment:
                text = claim.statement + (f" Not testable: {claim.untestable}" if claim.untestable else "")
                lines += textwrap.wrap(f"{claim.name}: {text}", 118, initial_indent="  ", subsequent_indent="      ")
    return "\n".join([*lines[1:], "", f"{len(claims)} claims, {sum(not each.untestable for each in claims)} testable"])
