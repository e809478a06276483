"""All studies, in the order in which they are done."""

from collections.abc import Sequence

from analysis.reproduction.experiments import (
    ablation,
    alignment,
    audit,
    circuits,
    classifier,
    dimensions,
    distance,
    finetuning,
    fixed_points,
    ideal,
    late_movement,
    networks,
    normalisation,
    norms,
    particles,
    phases,
    projections,
    recipe_changes,
    remedies,
    saddles,
    sensitivity,
    sequence,
    sparsity,
    spikes,
    structures,
    transfer,
    weights,
)
from analysis.reproduction.verification.claim import Claim
from analysis.reproduction.verification.experiment import Experiment

EXPERIMENTS: tuple[Experiment, ...] = (
    networks.TABLE_1,
    late_movement.HALT,
    particles.TABLE_2,
    weights.FIGURE_6,
    alignment.ALIGNMENT,
    classifier.CLASSIFIER,
    structures.STRUCTURES,
    projections.APPENDIX_F,
    audit.AUDIT,
    distance.DISTANCE,
    sequence.SEQUENCE,
    sensitivity.SENSITIVITY,
    ideal.IDEAL,
    normalisation.NORMALISATION,
    circuits.CIRCUITS,
    phases.PHASES,
    norms.NORMS,
    saddles.SADDLES,
    sparsity.SPARSITY,
    dimensions.DIMENSIONS,
    recipe_changes.RELATIVES,
    spikes.SPIKES,
    remedies.REMEDIES,
    fixed_points.FIXED,
    transfer.TRANSFER,
    transfer.VOCABULARIES,
    finetuning.FINETUNING,
    ablation.ABLATION,
)
"""Every experiment, in the order in which they are done."""


def required_experiments(claims: Sequence[Claim]) -> list[Experiment]:
    """The experiments that some claims are tested by, in the order of `EXPERIMENTS`."""
    needed = {claim.experiment for claim in claims}
    return [each for each in EXPERIMENTS if each.name in needed]
