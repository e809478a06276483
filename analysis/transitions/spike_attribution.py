"""What made a loss spike: measured at the step on which it rose most, and checked by changing that step.

VC section 4.3 names two causes. A spike is followed at every single step. Its foot is the last step at which the loss
stood at the level before, or up to a tenth of the spike above it, before it first reached half of the spike. Between
the two lies the step that is examined, the one with the largest rise. Two causes are told apart by what it does:

normalisation   a vector x that is normalised flips: the step moves it by more than its length, and turns it by more
                than a right angle. For x = E + P that concerns the sequences whose embedding xi moves mostly because of
                flipped N(x), for N(xi) those whose own xi flips.
feed-forward    a sequence that was classified rightly at the foot, and is not concerned by a flip, is classified
                wrongly after the step: it has crossed a decision boundary since. Either its embedding has moved over a
                boundary that stays ("embedding"), or the boundary has moved over it ("boundary").

A cause is given the share of the loss's rise that the sequences have which it concerns. A cause with half or more is
that of the spike; "both" if only the two together have; "neither" otherwise.

The same step is then taken again with one thing changed, and it is asked which part of its rise remains:

unflipped       what is flipped keeps its direction from before the step, all else moves
smooth          the same step with the smoothed norm, against the network with that norm just before it
frozen          receptors, assemblers and their biases stay
held            sequence embeddings stay
half, clipped   controls: half the step; a step no longer than usual at the foot. They remove spikes of any cause

A change removes the rise if less than half of it remains. A spike is explained if what is against its cause removes it
and nothing else does: for flips unflipped, but not frozen; for embeddings that cross held, but not frozen, unflipped
or, where that is fair, smooth; for a boundary that moves frozen, but not held, unflipped or smooth; for both causes
the two changes at once. Holding the sequence embeddings is no check against flips, which act through them. The smoothed
norm is another network: it is fair where, just before the step, it classifies nearly all sequences as the network does.

A turn by less than a right angle is no flip, however short the vector. So near the origin the step from one cause to
the other is one of degree: `turn` and `xi_ratio` tell where a spike stands.
"""

import dataclasses
import functools
import math
from collections.abc import Callable, Mapping
from typing import NamedTuple

import numpy as np
import torch

from dynamics.networks.clustering_head import MLP_VARIABLES, ClusteringHead
from dynamics.networks.parameters import Weights
from dynamics.settings import SparseSettings
from dynamics.tasks import distinct_sequences, sparse_sum

SPIKE_CAUSES = ("normalisation", "feed-forward", "both", "neither")
CROSSING_KINDS = ("embedding", "boundary")
STEP_CHANGES = ("unflipped", "smooth", "frozen", "held", "half", "clipped")

RISE_THRESHOLD = 0.5
"""Share of a rise that makes a cause the spike's, and below which a change has removed it."""

SMOOTH_NORM_AGREEMENT = 0.95
"""Share of the sequences that the smoothed norm classifies as the network does, from which it says something."""


# ------------------------------------------------------------------------------------------- which step


class LossRise(NamedTuple):
    """Where a spike rises, as places in a loss of every step."""

    foot: int
    step: int
    """The step examined leads from here to the next place."""
    half: int
    peak: int


def locate_loss_rise(loss: np.ndarray, level: float) -> LossRise | None:
    """Where a loss (step,) first rises from a level to half of its largest value; None where it never does."""
    peak = int(np.argmax(loss))
    height = float(loss[peak]) - level
    above = np.flatnonzero(loss[: peak + 1] >= level + 0.5 * height)
    if height <= 0 or above[0] == 0:
        return None
    half = int(above[0])
    low = np.flatnonzero(loss[:half] <= level + 0.1 * height)
    foot = int(low[-1]) if low.size else int(np.argmin(loss[:half]))
    return LossRise(foot, foot + int(np.argmax(np.diff(loss[foot : half + 1]))), half, peak)


class TrainingSequences(NamedTuple):
    """The distinct sequences that a run is trained on."""

    tokens: torch.Tensor  # (sequence, position)
    targets: torch.Tensor  # (sequence,)
    share: torch.Tensor  # (sequence,) of all draws


def training_sequences(s: SparseSettings, seed: int) -> TrainingSequences:
    """Those of the run of a seed."""
    tokens, counts = distinct_sequences(s, seed, "train")
    return TrainingSequences(
        *(torch.from_numpy(each) for each in (tokens, sparse_sum(tokens, s), counts / counts.sum()))
    )


# --------------------------------------------------------------------------------------------- the step


class ForwardPass(NamedTuple):
    """What a network makes of examples on the way to its logits."""

    inputs: torch.Tensor  # E + P, (position, token, axis)
    table: torch.Tensor  # z, likewise
    xi: torch.Tensor  # (sequence, axis)
    flat: torch.Tensor  # N(xi)
    logits: torch.Tensor  # (sequence, token)
    losses: torch.Tensor  # (sequence,)


def forward_pass(
    network: ClusteringHead,
    weights: Weights,
    on: TrainingSequences,
    table: torch.Tensor | None = None,
    xi: torch.Tensor | None = None,
    turned: Callable[[torch.Tensor, torch.Tensor], torch.Tensor] | None = None,
) -> ForwardPass:
    """From weights, or with a table of z or sequence embeddings in place of their own.

    turned: gives what stands for N(xi), of xi and N(xi).
    """
    inputs = weights["embedding"][None] + weights["position_embedding"][:, None]
    table = network.normalise(inputs) if table is None else table
    xi = network.sequence_embedding(weights, on.tokens, table) if xi is None else xi
    flat = network.normalise(xi)
    flat = flat if turned is None else turned(xi, flat)
    logits = network.transform(weights, xi, flat) @ weights["embedding"].mT
    losses = torch.nn.functional.cross_entropy(logits, on.targets, reduction="none")
    return ForwardPass(inputs, table, xi, flat, logits, losses)


def flipped_vectors(before: torch.Tensor, after: torch.Tensor) -> torch.Tensor:
    """Which vectors (..., axis) move by more than their length and turn by more than a right angle: (...) bool."""
    moved = torch.linalg.vector_norm(after - before, dim=-1) > torch.linalg.vector_norm(before, dim=-1)
    return moved & ((before * after).sum(-1) < 0)


@dataclasses.dataclass(frozen=True)
class SpikeStep:
    """A step of one run, from weights to weights (float64), with those at the foot of the spike."""

    network: ClusteringHead
    on: TrainingSequences
    foot: Weights
    before: Weights
    after: Weights
    usual: float
    """Norm of a usual update, at the foot."""

    @torch.no_grad()
    def measured(self) -> dict[str, float]:
        """What tells the causes apart, and what else there is to know of the step. All values are dimensionless."""
        old, new = self._states
        concerned, z_flips, xi_flips = self._concerned
        rise = (self.on.share * (new.losses - old.losses)).clamp(min=0)
        rise = rise / rise.sum() if rise.sum() > 0 else rise
        foot = forward_pass(self.network, self.foot, self.on)
        right = foot.logits.argmax(-1) == self.on.targets
        crossed = right & (new.logits.argmax(-1) != self.on.targets) & ~concerned
        by_embedding = forward_pass(self.network, self.foot, self.on, xi=new.xi).logits.argmax(-1) != self.on.targets
        by_boundary = forward_pass(self.network, self.after, self.on, xi=foot.xi).logits.argmax(-1) != self.on.targets
        lengths = {"input": old.inputs, "xi": old.xi}
        moves = {"input": new.inputs - old.inputs, "xi": new.xi - old.xi}
        ratios = {
            name: (moves[name].norm(dim=-1) / lengths[name].norm(dim=-1).clamp(min=1e-300)).max() for name in lengths
        }
        turn = torch.nn.functional.cosine_similarity(old.flat, new.flat, dim=-1).clamp(-1, 1).arccos()
        found = {
            "loss_before": (self.on.share * old.losses).sum(),
            "loss_after": (self.on.share * new.losses).sum(),
            "normalisation_share": rise[concerned].sum(),
            "feed_forward_share": rise[crossed].sum(),
            "crossed": self.on.share[crossed].sum(),
            "by_embedding_share": rise[crossed & by_embedding].sum(),
            "by_boundary_share": rise[crossed & by_boundary].sum(),
            "flipped_inputs": z_flips.sum(),
            "flipped_sequences": self.on.share[xi_flips].sum(),
            "input_ratio": ratios["input"],
            "xi_ratio": ratios["xi"],
            "turn": (rise * turn).sum(),
            "assembler_norm": torch.linalg.matrix_norm(self.before["assembler"]),
            "assembler_alignment": assembler_alignment(self.before["assembler"]),
            "update_norm": torch.tensor(self._size()),
        }
        return {name: float(value) for name, value in found.items()}

    @torch.no_grad()
    def remaining(self) -> dict[str, float]:
        """Which part of the rise remains with each of CHANGES, and with both causes' changes at once; 1 is all of it.

        `smooth_alike` is the share of sequences that the smoothed norm classifies as the network does before the step.
        """
        old, new = self._states
        concerned, z_flips, xi_flips = self._concerned
        table = torch.where(z_flips[..., None], old.table, new.table)

        def keep(xi: torch.Tensor, flat: torch.Tensor) -> torch.Tensor:
            return torch.where(xi_flips[:, None], old.flat, flat)

        unflipped = self.network.sequence_embedding(self.after, self.on.tokens, table)
        partly = torch.where(concerned[:, None], unflipped, old.xi)
        frozen = self._moved(dict.fromkeys(MLP_VARIABLES, 0.0))
        changed = {
            "unflipped": self._loss(self.after, table=table, turned=keep),
            "frozen": self._loss(frozen),
            "held": self._loss(self.after, xi=old.xi),
            "half": self._loss(self._moved({}, 0.5)),
            "clipped": self._loss(self._moved({}, min(1.0, self.usual / max(self._size(), 1e-300)))),
            "unflipped_frozen": self._loss(frozen, table=table, turned=keep),
            "unflipped_held": self._loss(self.after, xi=partly, turned=keep),
        }
        first, last = ((self.on.share * each.losses).sum() for each in (old, new))
        smooth = ClusteringHead(with_smooth_norm(self.network.settings))
        begun, ended = (forward_pass(smooth, each, self.on) for each in (self.before, self.after))
        rise = last - first if last > first else torch.nan
        left = {name: float((value - first) / rise) for name, value in changed.items()}
        left["smooth"] = float((self.on.share * (ended.losses - begun.losses)).sum() / rise)
        alike = begun.logits.argmax(-1) == old.logits.argmax(-1)
        return {**left, "smooth_alike": float(self.on.share[alike].sum())}

    @functools.cached_property
    def _states(self) -> tuple[ForwardPass, ForwardPass]:
        return forward_pass(self.network, self.before, self.on), forward_pass(self.network, self.after, self.on)

    @functools.cached_property
    def _concerned(self) -> tuple[torch.Tensor, torch.Tensor, torch.Tensor]:
        """Which sequences flips concern, which inputs (position, token) flip, and which sequences do themselves."""
        old, new = self._states
        z_flips, xi_flips = flipped_vectors(old.inputs, new.inputs), flipped_vectors(old.xi, new.xi)
        table = torch.where(z_flips[..., None], old.table, new.table)
        without = self.network.sequence_embedding(self.after, self.on.tokens, table)
        by_flips, moved = (new.xi - without).norm(dim=-1), (new.xi - old.xi).norm(dim=-1)
        return xi_flips | ((by_flips > 0) & (by_flips >= 0.5 * moved)), z_flips, xi_flips

    def _loss(self, weights: Weights, **changes) -> torch.Tensor:
        return (self.on.share * forward_pass(self.network, weights, self.on, **changes).losses).sum()

    def _moved(self, parts: Mapping[str, float], other: float = 1.0) -> Weights:
        """The weights after a part of the step, by name."""
        return {
            name: value + parts.get(name, other) * (self.after[name] - value) for name, value in self.before.items()
        }

    def _size(self) -> float:
        return math.sqrt(sum(float(((self.after[name] - value) ** 2).sum()) for name, value in self.before.items()))


def assembler_alignment(assemblers: torch.Tensor) -> torch.Tensor:
    """Share of the assemblers' squares (hidden, axis) along one direction, from 1/axes to 1, where all are parallel."""
    singular = torch.linalg.svdvals(assemblers)
    total = (singular**2).sum()
    return singular[0] ** 2 / total if total > 0 else total


def with_smooth_norm(s: SparseSettings) -> SparseSettings:
    """The same network with the norm of the same radius that is smooth at the origin."""
    return s if s.norm.endswith("smooth") else dataclasses.replace(s, norm=f"{s.norm}-smooth")  # type: ignore[arg-type]


# ------------------------------------------------------------------------------------------- the verdict


def spike_cause(measured: Mapping[str, float]) -> str:
    """One of CAUSES."""
    norm, forward = measured["normalisation_share"], measured["feed_forward_share"]
    if max(norm, forward) >= RISE_THRESHOLD:
        return SPIKE_CAUSES[0] if norm >= forward else SPIKE_CAUSES[1]
    return SPIKE_CAUSES[2] if norm + forward >= RISE_THRESHOLD else SPIKE_CAUSES[3]


def crossing_kind(measured: Mapping[str, float]) -> str:
    """How boundaries are crossed: one of WAYS."""
    return CROSSING_KINDS[0] if measured["by_embedding_share"] >= measured["by_boundary_share"] else CROSSING_KINDS[1]


def is_explained(measured: Mapping[str, float], remaining: Mapping[str, float]) -> bool:
    """Whether the change against a spike's cause removes its rise, and those against other causes do not."""
    cause = spike_cause(measured)
    against, other = ("held", "frozen") if crossing_kind(measured) == CROSSING_KINDS[0] else ("frozen", "held")
    removes = {name: remaining[name] < RISE_THRESHOLD for name in remaining}
    if cause == "normalisation":
        return removes["unflipped"] and not removes["frozen"]
    if cause == "feed-forward":
        by_norm = removes["unflipped"] or (removes["smooth"] and remaining["smooth_alike"] >= SMOOTH_NORM_AGREEMENT)
        return removes[against] and not removes[other] and not by_norm
    return cause == "both" and removes[f"unflipped_{against}"]
