"""All claims of the papers that are tested here, or not with the reason, some of our
own, and their experiments."""

import dataclasses
import difflib
import textwrap
import tomllib
from collections.abc import Iterator, Sequence
from importlib import import_module
from importlib.resources import files
from typing import Any

from analysis.reproduction.verification.claim import Claim, Kind
from analysis.reproduction.verification.coverage import PAPERS, place_in_paper
from analysis.reproduction.verification.experiment import Experiment
from dynamics.settings import SettingsError

PAPER_NAMES = ("CA", "VC", "CH", "ZL", "NA", "OWN")
"""Musat's paper, that of Odonnat, Bouaziz and Cabannes, its later version as its
summary has it, those of Zhong et al. and of Nanda et al. on transformers that add, and
our own."""

_MODULES = """
    musat2024.table1 musat2024.weight_decay musat2024.particles musat2024.classifier
    musat2024.structures musat2024.appendix_f musat2024.force_audit own.sequence
    odonnat2024.ideal_circuits odonnat2024.normalisation odonnat2024.circuits odonnat2024.phases
    odonnat2024.gradient_norms odonnat2024.saddles odonnat2024.sparsity odonnat2024.recipe_changes
    odonnat2024.spikes odonnat2024.remedies odonnat2024.fixed_points odonnat2024.transfer
    odonnat2024.finetuning odonnat2024.ablations zhong2023.attention_rate nanda2023.phases
    nanda2023.weight_decay
"""
SECTIONS = [import_module(f"analysis.reproduction.{name}") for name in _MODULES.split()]
"""Modules, each with experiments and the tests of claims on their evidence, in the
order of their execution."""

EXPERIMENTS = {
    var.name: var
    for one in SECTIONS
    for var in vars(one).values()
    if isinstance(var, Experiment)
}
"""All experiments by name, in the order of their execution."""

ALL = "all"


def _order(claim: Claim) -> tuple[int, int]:
    """The index of a claim's paper, and that of the place in its name among the paper's
    places."""
    places = [
        place
        for paper in PAPERS
        if paper.short == claim.paper
        for place in paper.places
    ]
    place = place_in_paper(claim.name)[0]
    return PAPER_NAMES.index(claim.paper), (
        places.index(place) if place in places else len(places)
    )


def mark_repeated(claims: Sequence[Claim]) -> Iterator[Claim]:
    """The same claims; an empirical one is marked as repeated if its numbers judge
    empirical ones that are more important, or as important and before it."""
    known: set[tuple] = set()
    repeated = set()
    for claim in sorted(claims, key=lambda each: -each.importance):
        numbers = {(claim.experiment, *part.number) for part in claim.parts}
        if claim.kind is Kind.EMPIRICAL and numbers:
            repeated |= {claim.name} if numbers <= known else set()
            known |= numbers
    for claim in claims:
        yield (
            dataclasses.replace(claim, kind=Kind.REPEATED)
            if claim.name in repeated
            else claim
        )


def read_claims() -> list[Claim]:
    """The claims of the files in `claims`, with their tests, by paper and in the order
    of the paper's sections."""
    tests: dict[str, dict[str, Any]] = {
        name: {"experiment": experiment, "parts": tuple(parts)}
        for section in SECTIONS
        for experiment, by_name in section.TESTS.items()
        for name, parts in by_name.items()
    }
    claims = []
    for path in files("analysis.reproduction").joinpath("claims").iterdir():
        for row in tomllib.loads(path.read_text("utf-8"))["claim"]:
            row["kind"] = Kind(row.get("kind", Kind.EMPIRICAL))
            row["readings"] = tuple(row.get("readings", ()))
            test = {} if "untestable" in row else tests.pop(row["name"])
            claims.append(Claim(**row, **test))
    return sorted(claims, key=_order)


CLAIMS: tuple[Claim, ...] = tuple(mark_repeated(read_claims()))
"""All claims, by paper and in the order of the paper's sections."""


def select_claims(names: Sequence[str]) -> list[Claim]:
    """The claims with the given names, or whose names begin with the given words, such
    as CA.table2; "all" for all.

    Case does not matter. Raises SettingsError for an empty sequence and for a name that
    no claim has."""
    if not names:
        raise SettingsError(
            "only",
            "no name",
            f"names of claims, or their first words, such as {_similar_names('')}",
        )
    chosen: set[str] = set()
    for name in names:
        result = {
            item.name for item in CLAIMS if name == ALL or _name_begins_with(item, name)
        }
        if not result:
            allowed = (
                "names of claims, or their first words up to a dot, such as"
                f" {_similar_names(name)}"
            )
            raise SettingsError("only", name or "no name", allowed)
        exact = {
            item for item in result if item.lower() == name.lower()
        }  # CA.table1.wd0 is not CA.table1.wd0.3
        chosen |= exact or result
    return [claim for claim in CLAIMS if claim.name in chosen]


def required_experiments(claims: Sequence[Claim]) -> list[Experiment]:
    """The experiments that test some claims, in the order of `EXPERIMENTS`."""
    needed = {claim.experiment for claim in claims}
    return [
        experiment for experiment in EXPERIMENTS.values() if experiment.name in needed
    ]


def _name_begins_with(claim: Claim, name: str) -> bool:
    """Whether a claim has this name, or a name that continues it after a dot."""
    return f"{claim.name}.".lower().startswith(f"{name.rstrip('.')}.".lower())


def _similar_names(name: str) -> str:
    """A few names of claims that are similar to an unknown name."""
    groups = list(
        dict.fromkeys(".".join(claim.name.split(".")[:2]) for claim in CLAIMS)
    )
    names = {
        item.lower(): item for item in [*groups, *(claim.name for claim in CLAIMS)]
    }
    close_matches = difflib.get_close_matches(name.lower(), names, 4, 0.4)
    return ", ".join([names[item] for item in close_matches] or groups[:3])


def format_claim_list(claims: Sequence[Claim]) -> str:
    """The claims by experiment: each with its statement or, where it cannot be tested,
    the reason."""
    lines = []
    for experiment in dict.fromkeys(claim.experiment for claim in claims):
        lines += ["", experiment or "not testable"]
        for claim in claims:
            if claim.experiment == experiment:
                text = claim.statement + (
                    f" Not testable: {claim.untestable}" if claim.untestable else ""
                )
                lines += textwrap.wrap(
                    f"{claim.name}: {text}",
                    118,
                    initial_indent="  ",
                    subsequent_indent="      ",
                )
    return "\n".join(
        [
            *lines[1:],
            "",
            (
                f"{len(claims)} claims, {sum(not item.untestable for item in claims)}"
                " testable"
            ),
        ]
    )
