"""Mini-batches of an ensemble of VC's networks, as kernels: gather, differentiate, update, score.

Sixteen runs go through their batches side by side (`dynamics.kernels.sparse_backprop`), each with sequences of its own.
"""

from typing import NamedTuple

import numpy as np
from numba import njit

from dynamics.kernels import optimizers, simd, sparse_backprop
from dynamics.kernels.compiling import cached_kernel
from dynamics.kernels.optimizers import OptimizerRule, TrainingArrays, update_weights
from dynamics.kernels.simd import (
    LANES_32,
    add_scalars,
    exponential,
    load_scalars,
    log_one_plus,
    maximum,
    scalars,
    where_above,
    where_equal,
)
from dynamics.kernels.sparse_backprop import (
    SparseLayout,
    add_embedding_gradients,
    add_sequence_gradient,
    fill_normalised_table,
    sequence_forward,
    sparse_workspace,
)

_PARTIAL_SUM_LENGTH = 64
"""Sequences whose losses are summed in float32 before they go into a sum in float64."""


class LabelledSequences(NamedTuple):
    """What runs learn or are tested on: tokens (run, sequence, position) and targets (run, sequence), int16."""

    tokens: np.ndarray
    targets: np.ndarray


@njit(error_model="numpy")
def _fill_lane(sequences, run, row, lane, tokens, target):
    """A sequence of a run as a lane of tokens (position x lane) and target (lane)."""
    target[lane] = sequences.targets[run, row]
    for place in range(sequences.tokens.shape[2]):
        tokens[place * LANES_32 + lane] = sequences.tokens[run, row, place]


@njit(error_model="numpy")
def _gather_minibatch_sequence(sequences, order, first, at, tokens, target):
    """Number `at` in each run's order, of sixteen runs from `first` on, as lanes: tokens (position x lane), target."""
    runs = len(sequences.tokens)
    for lane in range(LANES_32):
        run = min(first + lane, runs - 1)  # lanes without a run repeat the last one's
        _fill_lane(sequences, run, order[run, at], lane, tokens, target)


@njit(error_model="numpy")
def _gather_same_row(sequences, first, row, tokens, target):
    """As `gather`, the same row of each run."""
    runs = len(sequences.tokens)
    for lane in range(LANES_32):
        _fill_lane(sequences, min(first + lane, runs - 1), row, lane, tokens, target)


@njit(error_model="numpy")
def _minibatch_gradient(weights, layout, work, sequences, order, first, begin, end, gradient, axes):
    """The gradient of the mean loss over places begin..end of each run's order."""
    gradient[:] = 0
    work[1][:] = 0
    fill_normalised_table(weights, layout, work[0], work[2], axes)
    tokens, target = np.empty(layout.positions * LANES_32, np.float32), np.empty(LANES_32, np.float32)
    share = scalars(np.float32(1 / (end - begin)))
    for at in range(begin, end):
        _gather_minibatch_sequence(sequences, order, first, at, tokens, target)
        add_sequence_gradient(weights, layout, work, tokens, load_scalars(target, 0), share, gradient, axes)
    add_embedding_gradients(weights, layout, work[1], gradient, axes)


@njit(error_model="numpy")
def _loss_and_credit(layout, logits, peak, target):
    """A sequence's cross-entropy, and how right it is, 1/m where its target is one of the m largest logits."""
    one, right = scalars(np.float32(1)), scalars(np.float32(-np.inf))
    others, equal, best = scalars(np.float32(0)), scalars(np.float32(0)), one
    for token in range(layout.rows):
        z = load_scalars(logits, token)
        here = where_equal(target, np.float32(token), one)
        power = exponential(z - peak)
        others += power - here * power
        right = maximum(right, where_above(one - here, np.float32(0.5), scalars(np.float32(-np.inf)) - z) + z)
    for token in range(layout.rows):
        z = load_scalars(logits, token)
        equal += one - where_above(right - z, np.float32(0), one)
        best = best - where_above(z - right, np.float32(0), best)
    ahead = right - peak
    near = where_above(ahead, np.float32(-50), one)  # beyond, e^-ahead is large and others holds the 1 of the peak
    argument = near * others / exponential(ahead) + (one - near) * (others - one)
    return log_one_plus(argument) - (one - near) * ahead, best / equal


@cached_kernel(sparse_backprop, simd, optimizers, nogil=True)
def _train(memory, layout, sequences, order, rule, discount, decayed, number, begin, batch, steps, axes):
    work = sparse_workspace(layout, axes)
    mlp, heavy = layout.receptor * len(axes), layout.assembler * len(axes)
    rest = heavy + layout.hidden * len(axes)
    for block in range(len(memory.weights)):
        weights, gradient, first = memory.weights[block], memory.gradient[block], block * LANES_32
        for step in range(max(1, steps)):
            start = begin + step * batch
            end = min(start + batch, order.shape[1])
            _minibatch_gradient(weights, layout, work, sequences, order, first, start, end, gradient, axes)
            if step < steps:
                memory.before[block][:] = weights
                update_weights(memory, block, rule, number + step, 0, mlp, 1.0)
                update_weights(memory, block, rule, number + step, mlp, heavy, discount)
                update_weights(memory, block, decayed, number + step, heavy, rest, discount)
                update_weights(memory, block, rule, number + step, rest, layout.size, discount)


@cached_kernel(sparse_backprop, simd, optimizers, nogil=True)
def _score(weights, layout, sequences, counts, splits, totals, axes):
    work, count = sparse_workspace(layout, axes), sequences.targets.shape[1]
    tokens, target = np.empty(layout.positions * LANES_32, np.float32), np.empty(LANES_32, np.float32)
    part = np.empty(2 * splits * LANES_32, np.float32)
    for block in range(len(weights)):
        fill_normalised_table(weights[block], layout, work[0], work[2], axes)
        for begin in range(0, count, _PARTIAL_SUM_LENGTH):
            part[:] = 0
            for at in range(begin, min(begin + _PARTIAL_SUM_LENGTH, count)):
                _gather_same_row(sequences, block * LANES_32, at, tokens, target)
                peak = sequence_forward(weights[block], layout, work, tokens, axes)[7]
                loss, credit = _loss_and_credit(layout, work[6], peak, load_scalars(target, 0))
                for split in range(splits):
                    often = load_scalars(counts[block], at * splits + split)
                    add_scalars(part, split, often * loss)
                    add_scalars(part, splits + split, often * credit)
            totals[block] += part


def train_sparse(
    memory: TrainingArrays,
    layout: SparseLayout,
    sequences: LabelledSequences,
    order: np.ndarray,
    rule: OptimizerRule,
    discount: float,
    decay: float,
    number: int,
    begin: int,
    batch: int,
    steps: int,
    dim: int,
) -> None:
    """Take steps within an epoch, the first of them update `number` and at place `begin` of the epoch's order.

    order: (run, place) int64. With 0 steps only the gradient at that place is found. The feed-forward layer learns at
    the rate over `discount`, its assemblers with `decay` added to their weight decay. Runs on the calling thread,
    without Python's lock.
    """
    axes, decayed = tuple(range(dim)), rule._replace(weight_decay=rule.weight_decay + decay)
    _train(memory, layout, sequences, order, rule, float(discount), decayed, number, begin, batch, steps, axes)


def sparse_scores(
    weights: np.ndarray, layout: SparseLayout, sequences: LabelledSequences, counts: np.ndarray, splits: int, dim: int
) -> tuple[np.ndarray, np.ndarray]:
    """Sums of cross-entropy and of right answers in each split, (run, split), of sequences that occur counts (block,
    sequence x split x lane) times in each.

    Where m rows of the table tie at the top, the right one among them, it counts 1/m. Not finite where float32 does
    not suffice.
    """
    totals = np.zeros((len(weights), 2 * splits * LANES_32))
    _score(weights, layout, sequences, counts, splits, totals, tuple(range(dim)))
    rows = totals.reshape(-1, 2, splits, LANES_32).transpose(1, 0, 3, 2).reshape(2, -1, splits)
    loss, credit = rows[:, : len(sequences.tokens)]
    return loss, credit
