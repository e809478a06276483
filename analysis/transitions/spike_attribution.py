"""Attribution of loss spikes to a part of the network, and a test of the cause by
changing one step (VC section 4.3).

A spike is replayed at every optimizer step. Its foot is the last step, before the loss
first reaches half of the spike, at which the loss is no more than a tenth of the spike
above the level before the spike. The step with the largest rise between the foot and
half of the spike is examined. VC names two causes:

normalisation
    A vector that is normalised flips: the step moves it by more than its length and
    turns it by more than a right angle. If E + P of a token and position flips, it
    affects the sequences whose embedding xi moves mostly because of that flip; if xi
    flips, it affects that sequence.
feed-forward
    A sequence without a flip that was classified correctly at the foot is misclassified
    after the step: it has crossed a decision boundary of the MLP. Either its embedding
    has moved across a boundary that stays ("embedding"), or the boundary has moved
    across it ("boundary").

A cause accounts for the fraction of the rise of the loss that is due to the sequences
it affects. A cause with half or more is the cause of the spike; the cause is "both" if
only both together have half, and "neither" otherwise.

The same step is then repeated with one change, and the fraction of the rise that
remains is measured:

unflipped       flipped vectors keep their direction from before the step, everything else moves
smooth          the step with the smooth norm, compared with the network with that norm before the step
frozen          the MLP is fixed: receptors and assemblers (VC's words for its input and output weights) and biases
held            the sequence embeddings are fixed
half, clipped   controls: half of the step, and a step of no more than the usual length; they remove any spike

A change removes the rise if less than half of it remains. A spike is explained if the
change against its cause removes the rise and changes against other causes do not: for
normalisation, unflipped but not frozen; for embeddings that cross a boundary, held but
not frozen, unflipped or smooth; for boundaries that move, frozen but not held,
unflipped or smooth; for both causes, the two changes at once. Holding the sequence
embeddings does not test for flips, which act through them. With the smooth norm the
network is a different one, so this change counts only if that network classifies nearly
all sequences as the original one does before the step."""

import dataclasses
import functools
import math
from collections.abc import Callable, Mapping
from typing import NamedTuple

import numpy as np
import torch

from dynamics.networks.clustering_head import ClusteringHead
from dynamics.networks.parameters import Weights
from dynamics.settings import MLP_VARIABLES, SparseSettings
from dynamics.tasks import distinct_sequences, sparse_sum

SPIKE_CAUSES = ("normalisation", "feed-forward", "both", "neither")
CROSSING_KINDS = ("embedding", "boundary")
STEP_CHANGES = ("unflipped", "smooth", "frozen", "held", "half", "clipped")

RISE_THRESHOLD = 0.5
"""Smallest fraction of the rise for the cause of a spike; a change with less remaining
has removed the rise."""

SMOOTH_NORM_AGREEMENT = 0.95
"""Fraction of sequences that the network with the smooth norm has to classify equally,
for the change to count."""


# --------------------------------------------------------------------------- which step


class LossRise(NamedTuple):
    """Where a spike rises, as indices into a loss at every step."""

    foot: int
    step: int
    """Index before the step that is examined."""
    half: int
    peak: int


def locate_loss_rise(loss: np.ndarray, level: float) -> LossRise | None:
    """Where a loss (step,) first rises from a level to half of its largest value, or
    None if it does not."""
    peak = int(np.argmax(loss))
    height = float(loss[peak]) - level
    above = np.flatnonzero(loss[: peak + 1] >= level + 0.5 * height)
    if height <= 0 or above[0] == 0:
        return None
    half = int(above[0])
    low = np.flatnonzero(loss[:half] <= level + 0.1 * height)
    foot = int(low[-1]) if low.size else int(np.argmin(loss[:half]))
    return LossRise(
        foot, foot + int(np.argmax(np.diff(loss[foot : half + 1]))), half, peak
    )


class TrainingSequences(NamedTuple):
    """The distinct training sequences of a run."""

    tokens: torch.Tensor  # (sequence, position)
    targets: torch.Tensor  # (sequence,)
    weight: torch.Tensor  # (sequence,) fraction of the training set


def training_sequences(settings: SparseSettings, seed: int) -> TrainingSequences:
    """The training sequences of the run with a seed."""
    tokens, counts = distinct_sequences(settings, seed, "train")
    arrays = tokens, sparse_sum(tokens, settings), counts / counts.sum()
    return TrainingSequences(*map(torch.from_numpy, arrays))


# ----------------------------------------------------------------------------- the step


class ForwardPass(NamedTuple):
    """Intermediate and final values of a network for some sequences."""

    inputs: torch.Tensor  # E + P, (position, token, axis)
    table: torch.Tensor  # z, the normalised inputs
    xi: torch.Tensor  # (sequence, axis)
    normalised_xi: torch.Tensor
    logits: torch.Tensor  # (sequence, token)
    losses: torch.Tensor  # (sequence,)


def forward_pass(
    network: ClusteringHead,
    weights: Weights,
    sequences: TrainingSequences,
    table: torch.Tensor | None = None,
    xi: torch.Tensor | None = None,
    replace_normalised: (
        Callable[[torch.Tensor, torch.Tensor], torch.Tensor] | None
    ) = None,
) -> ForwardPass:
    """Evaluate a network, optionally with another z or xi, or with
    replace_normalised(xi, N(xi)) for N(xi)."""
    inputs = weights["embedding"][None] + weights["position_embedding"][:, None]
    table = network.normalise(inputs) if table is None else table
    xi = (
        network.sequence_embedding(weights, sequences.tokens, table)
        if xi is None
        else xi
    )
    normalised = network.normalise(xi)
    normalised = (
        normalised if replace_normalised is None else replace_normalised(xi, normalised)
    )
    logits = network.transform(weights, xi, normalised) @ weights["embedding"].mT
    losses = torch.nn.functional.cross_entropy(
        logits, sequences.targets, reduction="none"
    )
    return ForwardPass(inputs, table, xi, normalised, logits, losses)


def flipped_vectors(before: torch.Tensor, after: torch.Tensor) -> torch.Tensor:
    """Which vectors (..., axis) move by more than their length and turn by more than a
    right angle: (...) bool."""
    moved = torch.linalg.vector_norm(after - before, dim=-1) > torch.linalg.vector_norm(
        before, dim=-1
    )
    return moved & ((before * after).sum(-1) < 0)


@dataclasses.dataclass(frozen=True)
class SpikeStep:
    """The examined step of one run: float64 weights at the foot of the spike, before
    and after the step."""

    network: ClusteringHead
    sequences: TrainingSequences
    foot: Weights
    before: Weights
    after: Weights
    usual: float
    """Norm of a usual update."""

    @torch.no_grad()
    def measures(self) -> dict[str, float]:
        """Fractions of the rise by cause, and other measures of the step (see
        `analysis.transitions.spike_replays`)."""
        old, new = self._passes
        weight = self.sequences.weight
        affected, z_flips, xi_flips = self._affected
        rise = (weight * (new.losses - old.losses)).clamp(min=0)
        rise = rise / rise.sum() if rise.sum() > 0 else rise
        foot = forward_pass(self.network, self.foot, self.sequences)
        crossed = ~self._misclassified(foot) & self._misclassified(new) & ~affected
        by_embedding = self._misclassified(
            forward_pass(self.network, self.foot, self.sequences, xi=new.xi)
        )
        by_boundary = self._misclassified(
            forward_pass(self.network, self.after, self.sequences, xi=foot.xi)
        )
        turn = (
            torch.nn.functional.cosine_similarity(
                old.normalised_xi, new.normalised_xi, dim=-1
            )
            .clamp(-1, 1)
            .arccos()
        )
        result = {
            "loss_before": (weight * old.losses).sum(),
            "loss_after": (weight * new.losses).sum(),
            "normalisation_share": rise[affected].sum(),
            "feed_forward_share": rise[crossed].sum(),
            "crossed": weight[crossed].sum(),
            "by_embedding_share": rise[crossed & by_embedding].sum(),
            "by_boundary_share": rise[crossed & by_boundary].sum(),
            "flipped_inputs": z_flips.sum(),
            "flipped_sequences": weight[xi_flips].sum(),
            "input_ratio": largest_relative_move(old.inputs, new.inputs),
            "xi_ratio": largest_relative_move(old.xi, new.xi),
            "turn": (rise * turn).sum(),
            "assembler_norm": torch.linalg.matrix_norm(self.before["assembler"]),
            "assembler_alignment": assembler_alignment(self.before["assembler"]),
            "update_norm": torch.tensor(self._length),
        }
        return {name: float(value) for name, value in result.items()}

    @torch.no_grad()
    def remaining_rise(self) -> dict[str, float]:
        """The remaining fraction of the rise after each of STEP_CHANGES and after
        changes against both causes at once.

        `smooth_alike` is the fraction of sequences that the smooth norm classifies as
        the network does before the step."""
        old, new = self._passes
        affected, _, xi_flips = self._affected
        table, unflipped = self._unflipped

        def keep(xi: torch.Tensor, normalised: torch.Tensor) -> torch.Tensor:
            return torch.where(xi_flips[:, None], old.normalised_xi, normalised)

        partly_held = torch.where(affected[:, None], unflipped, old.xi)
        frozen = self._weights_after(dict.fromkeys(MLP_VARIABLES, 0.0))
        losses = {
            "unflipped": self._loss(self.after, table=table, replace_normalised=keep),
            "frozen": self._loss(frozen),
            "held": self._loss(self.after, xi=old.xi),
            "half": self._loss(self._weights_after({}, 0.5)),
            "hundredth": self._loss(self._weights_after({}, 0.01)),
            "descent": self._loss(self._descend(1.0)),
            "descent_hundredth": self._loss(self._descend(0.01)),
            "clipped": self._loss(
                self._weights_after(
                    {}, min(1.0, self.usual / max(self._length, 1e-300))
                )
            ),
            "unflipped_frozen": self._loss(
                frozen, table=table, replace_normalised=keep
            ),
            "unflipped_held": self._loss(
                self.after, xi=partly_held, replace_normalised=keep
            ),
        }
        weight = self.sequences.weight
        first, last = ((weight * item.losses).sum() for item in (old, new))
        smooth = ClusteringHead(with_smooth_norm(self.network.settings))
        begin, end = (
            forward_pass(smooth, item, self.sequences)
            for item in (self.before, self.after)
        )
        rise = last - first if last > first else torch.nan
        left = {name: float((value - first) / rise) for name, value in losses.items()}
        left["smooth"] = float((weight * (end.losses - begin.losses)).sum() / rise)
        alike = begin.logits.argmax(-1) == old.logits.argmax(-1)
        return {**left, "smooth_alike": float(weight[alike].sum())}

    @functools.cached_property
    def _passes(self) -> tuple[ForwardPass, ForwardPass]:
        """Before and after the step."""
        before, after = (
            forward_pass(self.network, item, self.sequences)
            for item in (self.before, self.after)
        )
        return before, after

    @functools.cached_property
    def _affected(self) -> tuple[torch.Tensor, torch.Tensor, torch.Tensor]:
        """Which sequences are affected by flips, which inputs (position, token) flip,
        and which sequences flip."""
        old, new = self._passes
        z_flips = flipped_vectors(old.inputs, new.inputs)
        xi_flips = flipped_vectors(old.xi, new.xi)
        unflipped = self._unflipped[1]
        by_flips = (new.xi - unflipped).norm(dim=-1)
        moved = (new.xi - old.xi).norm(dim=-1)
        return (
            xi_flips | ((by_flips > 0) & (by_flips >= 0.5 * moved)),
            z_flips,
            xi_flips,
        )

    @functools.cached_property
    def _unflipped(self) -> tuple[torch.Tensor, torch.Tensor]:
        """z and xi after the step if inputs that flip keep their z."""
        old, new = self._passes
        table = torch.where(
            flipped_vectors(old.inputs, new.inputs)[..., None], old.table, new.table
        )
        return table, self.network.sequence_embedding(
            self.after, self.sequences.tokens, table
        )

    def _misclassified(self, result: ForwardPass) -> torch.Tensor:
        return result.logits.argmax(-1) != self.sequences.targets

    def _loss(self, weights: Weights, **changes) -> torch.Tensor:
        losses = forward_pass(self.network, weights, self.sequences, **changes).losses
        return (self.sequences.weight * losses).sum()

    def _weights_after(
        self, fractions: Mapping[str, float], other: float = 1.0
    ) -> Weights:
        """The weights after a fraction of the step, by variable."""
        return {
            name: value + fractions.get(name, other) * (self.after[name] - value)
            for name, value in self.before.items()
        }

    def _descend(self, fraction: float) -> Weights:
        """The weights after a fraction of a step as long as the update, along the
        negative gradient of the loss."""
        gradient = torch.func.grad(self._loss)(self.before)
        norm = math.sqrt(sum(float((value**2).sum()) for value in gradient.values()))
        scale = fraction * self._length / norm if norm else 0.0
        return {
            name: value - scale * gradient[name] for name, value in self.before.items()
        }

    @functools.cached_property
    def _length(self) -> float:
        return math.sqrt(
            sum(
                float(((self.after[name] - value) ** 2).sum())
                for name, value in self.before.items()
            )
        )


def largest_relative_move(before: torch.Tensor, after: torch.Tensor) -> torch.Tensor:
    """The largest |after - before| / |before| of vectors (..., axis)."""
    return ((after - before).norm(dim=-1) / before.norm(dim=-1).clamp(min=1e-300)).max()


def assembler_alignment(assemblers: torch.Tensor) -> torch.Tensor:
    """Fraction of the squared norm of assemblers (hidden, axis) along one direction:
    from 1/axes to 1 (parallel)."""
    singular = torch.linalg.svdvals(assemblers)
    total = (singular**2).sum()
    return singular[0] ** 2 / total if total > 0 else total


def with_smooth_norm(settings: SparseSettings) -> SparseSettings:
    """The settings with the norm of the same radius that is smooth at the origin."""
    smooth = (
        settings.norm if settings.norm.endswith("smooth") else f"{settings.norm}-smooth"
    )
    return dataclasses.replace(settings, norm=smooth)  # type: ignore[arg-type]


# -------------------------------------------------------------------------- the verdict


def spike_cause(measures: Mapping[str, float]) -> str:
    """One of SPIKE_CAUSES, from `SpikeStep.measures`."""
    norm = measures["normalisation_share"]
    forward = measures["feed_forward_share"]
    if max(norm, forward) >= RISE_THRESHOLD:
        return SPIKE_CAUSES[0] if norm >= forward else SPIKE_CAUSES[1]
    return SPIKE_CAUSES[2] if norm + forward >= RISE_THRESHOLD else SPIKE_CAUSES[3]


def crossing_kind(measures: Mapping[str, float]) -> str:
    """How sequences cross boundaries: one of CROSSING_KINDS."""
    return (
        CROSSING_KINDS[0]
        if measures["by_embedding_share"] >= measures["by_boundary_share"]
        else CROSSING_KINDS[1]
    )


def is_explained(measures: Mapping[str, float], remaining: Mapping[str, float]) -> bool:
    """Whether the change against a spike's cause removes its rise, and changes against
    other causes do not."""
    cause = spike_cause(measures)
    against, other = (
        ("held", "frozen")
        if crossing_kind(measures) == CROSSING_KINDS[0]
        else ("frozen", "held")
    )
    removes = {name: remaining[name] < RISE_THRESHOLD for name in remaining}
    if cause == "normalisation":
        return removes["unflipped"] and not removes["frozen"]
    if cause == "feed-forward":
        smooth = (
            removes["smooth"] and remaining["smooth_alike"] >= SMOOTH_NORM_AGREEMENT
        )
        return (
            removes[against]
            and not removes[other]
            and not removes["unflipped"]
            and not smooth
        )
    return cause == "both" and removes[f"unflipped_{against}"]
