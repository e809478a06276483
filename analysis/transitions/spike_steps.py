"""All steps of a spike, and ordinary steps before it: flips, distances to decision
boundaries, and crossings of these.

`analysis.transitions.spike_attribution` examines the step on which a spike rises most.
The measures here are

flips           at every step from the foot of the spike to its peak: the number of steps with a flip, the largest
                updates of E + P and of xi over their length, and the fraction of the
                rises that flips carry, which is that of each step weighted by the rise
                of the loss in it
distances       of the sequence embeddings xi, over |xi|, to the nearest decision boundary of the MLP at the foot; to
                first order, this is the smallest (l_t - l_j) / |d(l_t - l_j)/d xi| for
                the logits l of the target t and of the other classes j
closeness       the probability that a sequence that crosses a boundary in the spike was closer to one than a sequence
                that does not; 1/2 if crossing is independent of the distance. Both are
                classified correctly at the foot
ordinary steps  the control: the fraction of the sequences that one step misclassifies, in the examined step of a spike
                and in the steps before it, in the mean; the fraction of steps with a
                flip, from foot to peak and before; the median largest update of xi over
                its length before
"""

from collections.abc import Sequence

import numpy as np
import torch

from analysis.statistics.ranks import rank_biserial
from analysis.transitions import spike_attribution as attribution
from dynamics.networks.clustering_head import ClusteringHead
from dynamics.networks.parameters import Weights

MAX_ORDINARY_STEPS = 16
"""Ordinary steps that are examined for a spike, evenly spaced over those before it."""


def step_measures(
    network: ClusteringHead,
    sequences: attribution.TrainingSequences,
    weights: Weights,
    loss: np.ndarray,
    rise: attribution.LossRise,
    ordinary: int,
) -> dict[str, float]:
    """Measures of the steps of a spike.

    weights (step, ...) float64 and the training loss (step,) of its replay, whose first
    `ordinary` steps precede it."""
    at = [
        {name: values[frame] for name, values in weights.items()}
        for frame in range(loss.size)
    ]
    flips = _flip_measures(
        network,
        sequences,
        at[rise.foot : rise.peak + 1],
        loss[rise.foot : rise.peak + 1],
    )
    chosen = np.unique(
        np.linspace(0, ordinary - 1, min(ordinary, MAX_ORDINARY_STEPS))
        .round()
        .astype(int)
    )

    def correct(frame: int) -> torch.Tensor:
        return (
            network.logits(at[frame], sequences.tokens).argmax(-1) == sequences.targets
        )

    def misclassified_fraction(step: int) -> float:
        return float(sequences.weight[correct(step) & ~correct(step + 1)].sum())

    before = [misclassified_fraction(step) for step in chosen.tolist()]
    distances = boundary_distances(network, at[rise.foot], sequences).numpy()
    crossings = _crossing_measures(
        distances, correct(rise.foot).numpy(), correct(rise.step + 1).numpy()
    )
    return {
        **flips,
        **crossings,
        "flips_in_rise": flips["flip_steps"] / (rise.peak - rise.foot),
        **_ordinary_moves(network, sequences, at, chosen.tolist()),
        "crossed_in_step": misclassified_fraction(rise.step),
        "crossed_ordinary": float(np.mean(before)) if before else np.nan,
    }


def boundary_distances(
    network: ClusteringHead, weights: Weights, sequences: attribution.TrainingSequences
) -> torch.Tensor:
    """Distance of each xi to the nearest decision boundary over |xi|, to first order:
    (sequence,).

    Negative for sequences that are misclassified.
    """
    xi = network.sequence_embedding(weights, sequences.tokens).detach().requires_grad_()
    with torch.enable_grad():
        values = network.transform(weights, xi) @ weights["embedding"].mT
        gradients = [
            torch.autograd.grad(item.sum(), xi, retain_graph=True)[0]
            for item in values.mT
        ]
    slopes = torch.stack(gradients, dim=1)  # (sequence, class, axis)
    rows = torch.arange(len(xi))
    margins = (values[rows, sequences.targets][:, None] - values).detach()
    steepness = (slopes[rows, sequences.targets][:, None] - slopes).norm(dim=-1)
    distances = margins / steepness.clamp(min=1e-300)
    distances[rows, sequences.targets] = torch.inf
    return distances.min(dim=1).values / xi.detach().norm(dim=-1).clamp(min=1e-300)


def _flip_measures(
    network: ClusteringHead,
    sequences: attribution.TrainingSequences,
    at: Sequence[Weights],
    loss: np.ndarray,
) -> dict[str, float]:
    """Flips in the steps between some weights, at which the loss (step,) is known."""
    rises = np.clip(np.diff(loss), 0, None)
    ratios = [[0.0, 0.0]]
    steps = 0
    carried = 0.0
    for before, after, risen in zip(at[:-1], at[1:], rises, strict=True):
        flipped, moves = _normalised_moves(network, sequences, before, after)
        ratios.append(moves)
        if flipped:
            steps += 1
            step = attribution.SpikeStep(
                network, sequences, at[0], before, after, usual=1.0
            )
            carried += risen * step.measures()["normalisation_share"]
    largest = np.max(ratios, axis=0)
    return {
        "flip_steps": steps,
        "flip_rise": carried / rises.sum() if rises.any() else 0.0,
        "largest_input_ratio": largest[0],
        "largest_xi_ratio": largest[1],
    }


def _ordinary_moves(
    network: ClusteringHead,
    sequences: attribution.TrainingSequences,
    at: Sequence[Weights],
    chosen: Sequence[int],
) -> dict[str, float]:
    """How often vectors flip in ordinary steps, and how far xi moves in them; NaN
    without such steps."""
    moves = [
        _normalised_moves(network, sequences, at[step], at[step + 1]) for step in chosen
    ]
    if not moves:
        return {"flips_ordinary": np.nan, "xi_ratio_ordinary": np.nan}
    return {
        "flips_ordinary": float(np.mean([flipped for flipped, _ in moves])),
        "xi_ratio_ordinary": float(np.median([ratios[1] for _, ratios in moves])),
    }


def _normalised_moves(
    network: ClusteringHead,
    sequences: attribution.TrainingSequences,
    before: Weights,
    after: Weights,
) -> tuple[bool, list[float]]:
    """Whether a normalised vector flips in a step, and the largest updates of E + P and
    of xi over their length."""
    old, new = (
        _normalised_vectors(network, sequences, item) for item in (before, after)
    )
    pairs = list(zip(old, new, strict=True))
    flipped = any(bool(attribution.flipped_vectors(*pair).any()) for pair in pairs)
    return flipped, [float(attribution.largest_relative_move(*pair)) for pair in pairs]


def _normalised_vectors(
    network: ClusteringHead, sequences: attribution.TrainingSequences, weights: Weights
) -> tuple[torch.Tensor, torch.Tensor]:
    """E + P (position, token, axis) and xi (sequence, axis), before they are
    normalised."""
    inputs = weights["embedding"][None] + weights["position_embedding"][:, None]
    return inputs, network.sequence_embedding(weights, sequences.tokens)


def _crossing_measures(
    distances: np.ndarray, correct: np.ndarray, correct_after: np.ndarray
) -> dict[str, float]:
    """Closeness, and median distances of the sequences that cross a boundary and of the
    others; (sequence,) each."""
    crossing = distances[correct & ~correct_after]
    others = distances[correct & correct_after]
    return {
        "closeness": (1 - rank_biserial(crossing, others).value) / 2,
        "crossing_distance": float(np.median(crossing)) if crossing.size else np.nan,
        "other_distance": float(np.median(others)) if others.size else np.nan,
    }
