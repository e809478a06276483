"""All studies, in the order in which they are done."""

from collections.abc import Sequence

from analysis.reproduction.clustering_heads import fixed_points
from analysis.reproduction.musat2024 import (
    alignment,
    appendix_f,
    classifier,
    distance,
    force_audit,
    particles,
    structures,
    table1,
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
    recipe_changes,
    remedies,
    saddles,
    sparsity,
    spikes,
    transfer,
)
from analysis.reproduction.own import sensitivity, sequence
from analysis.reproduction.verification.claim import Claim
from analysis.reproduction.verification.experiment import Experiment

EXPERIMENTS: tuple[Experiment, ...] = (
    table1.TABLE_1,
    weight_decay.HALT,
    particles.TABLE_2,
    weight_decay.FIGURE_6,
    alignment.WEIGHT_ANGLES,
    classifier.CLASSIFIER,
    structures.STRUCTURES,
    appendix_f.APPENDIX_F,
    force_audit.AUDIT,
    distance.DISTANCE,
    sequence.SEQUENCE,
    sensitivity.SENSITIVITY,
    ideal_circuits.IDEAL,
    *normalisation.EXPERIMENTS,
    circuits.CIRCUITS,
    *phases.EXPERIMENTS,
    *gradient_norms.EXPERIMENTS,
    *saddles.EXPERIMENTS,
    sparsity.SPARSITY,
    *recipe_changes.EXPERIMENTS,
    *spikes.EXPERIMENTS,
    *remedies.EXPERIMENTS,
    fixed_points.FIXED,
    *transfer.EXPERIMENTS,
    *finetuning.EXPERIMENTS,
    *ablations.EXPERIMENTS,
)
"""Every experiment, in the order in which they are done."""


def required_experiments(claims: Sequence[Claim]) -> list[Experiment]:
    """The experiments that some claims are tested by, in the order of `EXPERIMENTS`."""
    needed = {claim.experiment for claim in claims}
    return [each for each in EXPERIMENTS if each.name in needed]
