"""All studies, in the order in which they are done."""

from collections.abc import Sequence

from analysis.reproduction.clustering_heads import fixed_points
from analysis.reproduction.experiments import (
    ablation,
    alignment,
    audit,
    classifier,
    distance,
    finetuning,
    late_movement,
    normalisation,
    norms,
    phases,
    recipe_changes,
    remedies,
    saddles,
    sequence,
    spikes,
    transfer,
    weights,
)
from analysis.reproduction.musat2024 import appendix_f, particles, structures, table1
from analysis.reproduction.odonnat2024 import circuits, dimensions, ideal_circuits, sparsity
from analysis.reproduction.own import sensitivity
from analysis.reproduction.verification.claim import Claim
from analysis.reproduction.verification.experiment import Experiment

EXPERIMENTS: tuple[Experiment, ...] = (
    table1.TABLE_1,
    late_movement.HALT,
    particles.TABLE_2,
    weights.FIGURE_6,
    alignment.ALIGNMENT,
    classifier.CLASSIFIER,
    structures.STRUCTURES,
    appendix_f.APPENDIX_F,
    audit.AUDIT,
    distance.DISTANCE,
    sequence.SEQUENCE,
    sensitivity.SENSITIVITY,
    ideal_circuits.IDEAL,
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
