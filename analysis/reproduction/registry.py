"""All experiments, in the order of their execution, and their claims."""

import difflib
import textwrap
from collections.abc import Sequence

from analysis.reproduction.claim import Claim
from analysis.reproduction.experiment import Experiment
from analysis.reproduction.musat2024 import (
    appendix_f_claims,
    classifier_claims,
    decay_by_part_claims,
    figure6_claims,
    force_audit_claims,
    particle_claims,
    table1_claims,
    weight_angle_claims,
)
from analysis.reproduction.nanda2023 import grokking_claims, weight_decay_claims
from analysis.reproduction.odonnat2024 import (
    ablation_claims,
    circuit_claims,
    finetuning_claims,
    fixed_point_claims,
    gradient_norm_claims,
    ideal_circuit_claims,
    phase_claims,
    recipe_claims,
    remedy_claims,
    saddle_claims,
    sparsity_claims,
    spike_claims,
    transfer_claims,
)
from analysis.reproduction.own import (
    fate_claims,
    pair_law_claims,
    scaling_claims,
    sensitivity_claims,
)
from analysis.reproduction.papers import PAPERS
from analysis.reproduction.zhong2023 import attention_rate_claims
from dynamics.settings import SettingsError

EXPERIMENTS: dict[str, Experiment] = {
    experiment.name: experiment
    for experiment in (
        table1_claims.TABLE_1,
        figure6_claims.FIGURE_6,
        decay_by_part_claims.DECAY_BY_PART,
        particle_claims.TABLE_2,
        classifier_claims.CLASSIFIER,
        weight_angle_claims.WEIGHT_ANGLES,
        appendix_f_claims.APPENDIX_F,
        force_audit_claims.AUDIT,
        sensitivity_claims.SENSITIVITY,
        pair_law_claims.EXPERIMENT,
        scaling_claims.EXPERIMENT,
        ideal_circuit_claims.IDEAL,
        circuit_claims.CIRCUITS,
        phase_claims.PHASES,
        gradient_norm_claims.NORMS,
        saddle_claims.SADDLES,
        sparsity_claims.SPARSITY,
        recipe_claims.RELATIVES,
        spike_claims.SPIKES,
        spike_claims.FLIP_GRID,
        remedy_claims.REMEDIES,
        fixed_point_claims.FIXED,
        transfer_claims.VOCABULARIES,
        finetuning_claims.FINETUNING,
        ablation_claims.ABLATION,
        attention_rate_claims.RATE,
        grokking_claims.PHASES,
        weight_decay_claims.WEIGHT_DECAY,
        fate_claims.PARTICLES,
        fate_claims.NETWORKS,
        fate_claims.SPARSE,
        fate_claims.EPOCHS,
    )
}
"""All experiments by name, in the order of their execution."""

EXPERIMENT_OF_CLAIM: dict[str, Experiment] = {
    claim.name: experiment
    for experiment in EXPERIMENTS.values()
    for claim in experiment.claims
}
"""The experiment that tests a claim, by the claim's name."""


def _all_claims() -> tuple[Claim, ...]:
    """Claims by paper; within a paper by experiment."""
    claims = [claim for item in EXPERIMENTS.values() for claim in item.claims]
    order = list(PAPERS)
    return tuple(sorted(claims, key=lambda claim: order.index(claim.paper)))


CLAIMS = _all_claims()
"""All claims, by paper."""

ALL = "all"


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
    names = {EXPERIMENT_OF_CLAIM[claim.name].name for claim in claims}
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
    """The claims by experiment, each with its statement."""
    lines = []
    for experiment in required_experiments(claims):
        lines += ["", experiment.name]
        for claim in claims:
            if claim not in experiment.claims:
                continue
            lines += textwrap.wrap(
                f"{claim.name}: {claim.statement}",
                118,
                initial_indent="  ",
                subsequent_indent="      ",
            )
    lines += ["", f"{len(claims)} claim{'s' * (len(claims) != 1)}"]
    return "\n".join(lines[1:])
