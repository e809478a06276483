"""All claims of the papers that are tested here, or not with the reason, some of our
own, and their experiments."""

import dataclasses
import difflib
import textwrap
import tomllib
from collections.abc import Iterator, Sequence
from importlib import import_module
from importlib.resources import files

from analysis.reproduction.musat2024 import networks
from analysis.reproduction.verification import samples
from analysis.reproduction.verification.claim import Claim, Kind, read_parts
from analysis.reproduction.verification.coverage import PAPERS, place_in_paper
from analysis.reproduction.verification.experiment import Experiment
from dynamics.settings import SettingsError

_MODULES = """
    musat2024.table1_claims musat2024.weight_decay_claims musat2024.particle_claims musat2024.classifier_claims
    musat2024.structure_claims musat2024.appendix_f_claims musat2024.force_audit_claims musat2024.region_claims own.sequence_claims
    odonnat2024.ideal_circuit_claims odonnat2024.normalisation_claims odonnat2024.circuit_claims odonnat2024.phase_claims
    odonnat2024.gradient_norm_claims odonnat2024.saddle_claims odonnat2024.sparsity_claims odonnat2024.recipe_claims
    odonnat2024.spike_claims odonnat2024.return_claims odonnat2024.remedy_claims odonnat2024.fixed_point_claims odonnat2024.transfer_claims
    odonnat2024.finetuning_claims odonnat2024.ablation_claims zhong2023.attention_rate_claims nanda2023.grokking_claims
    nanda2023.grokking_decay_claims own.fate_claims
"""
SECTIONS = [import_module(f"analysis.reproduction.{name}") for name in _MODULES.split()]
"""Modules, each with experiments and the tests of claims on their evidence, in the
order of their execution."""

_MODULE_OF_EXPERIMENT = {
    value.name: (section, value)
    for section in SECTIONS
    for value in vars(section).values()
    if isinstance(value, Experiment)
}
EXPERIMENTS = {
    name: experiment for name, (_, experiment) in _MODULE_OF_EXPERIMENT.items()
}
"""All experiments by name, in the order of their execution."""

ALL = "all"


def _order(claim: Claim) -> tuple[int, int]:
    """The index of a claim's paper, and that of the place in its name among the paper's
    places."""
    places = PAPERS[claim.paper].places
    place = place_in_paper(claim.name)[0]
    index = places.index(place) if place in places else len(places)
    return list(PAPERS).index(claim.paper), index


def mark_repeated(claims: Sequence[Claim]) -> Iterator[Claim]:
    """The same claims; an empirical one is marked as repeated if its numbers judge
    empirical ones that are more important, or as important and before it."""
    judged: set[tuple] = set()
    repeated = set()
    for claim in sorted(claims, key=lambda claim: -claim.importance):
        numbers = {(claim.experiment, *part.number) for part in claim.parts}
        if claim.kind is Kind.EMPIRICAL and numbers:
            if numbers <= judged:
                repeated.add(claim.name)
            judged |= numbers
    for claim in claims:
        kind = Kind.REPEATED if claim.name in repeated else claim.kind
        yield dataclasses.replace(claim, kind=kind)


def read_claims() -> list[Claim]:
    """The claims of the files in `claims`, by paper and in the order of the paper's
    sections. Functions and constants that they name are those of the module of their
    experiment, or the common ones."""
    claims = []
    for path in files("analysis.reproduction").joinpath("claims").iterdir():
        for row in tomllib.loads(path.read_text("utf-8"))["claim"]:
            if "experiment" in row:
                module, _ = _MODULE_OF_EXPERIMENT[row["experiment"]]
                names = {**vars(samples), **vars(networks), **vars(module)}
                parts = row["parts"]
                if isinstance(parts, dict):  # a function makes them from a table
                    parts = names[parts.pop("function")](**parts)
                else:
                    parts = read_parts(parts, names)
                row["parts"] = tuple(parts)
            row["kind"] = Kind(row.get("kind", Kind.EMPIRICAL))
            row["readings"] = tuple(row.get("readings", ()))
            claims.append(Claim(**row))
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
    selected: set[str] = set()
    for name in names:
        # CA.table1.wd0 is not CA.table1.wd0.3
        exact = {claim.name for claim in CLAIMS if claim.name.lower() == name.lower()}
        first_words = f"{name.rstrip('.')}.".lower()
        result = exact or {
            claim.name
            for claim in CLAIMS
            if name == ALL or f"{claim.name}.".lower().startswith(first_words)
        }
        if not result:
            allowed = (
                "names of claims, or their first words up to a dot, such as"
                f" {_similar_names(name)}"
            )
            raise SettingsError("only", name or "no name", allowed)
        selected |= result
    return [claim for claim in CLAIMS if claim.name in selected]


def required_experiments(claims: Sequence[Claim]) -> list[Experiment]:
    """The experiments that test some claims, in the order of `EXPERIMENTS`."""
    names = {claim.experiment for claim in claims}
    return [experiment for name, experiment in EXPERIMENTS.items() if name in names]


def _similar_names(name: str) -> str:
    """A few names of claims that are similar to an unknown name."""
    groups = [".".join(claim.name.split(".")[:2]) for claim in CLAIMS]
    groups = list(dict.fromkeys(groups))
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
            if claim.experiment != experiment:
                continue
            text = f"{claim.name}: {claim.statement}"
            if claim.untestable:
                text += f" Not testable: {claim.untestable}"
            lines += textwrap.wrap(
                text, 118, initial_indent="  ", subsequent_indent="      "
            )
    testable = sum(not claim.untestable for claim in claims)
    lines += ["", f"{len(claims)} claims, {testable} testable"]
    return "\n".join(lines[1:])
