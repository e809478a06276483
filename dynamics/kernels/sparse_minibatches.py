"""Mini-batch training of an ensemble of clustering heads (VC) on a CPU: gather,
differentiate, update, evaluate.

Each SIMD lane is a run with its own sequences; the gradient is that of
`dynamics.kernels.sparse_backprop`."""

import functools
from collections.abc import Callable
from typing import NamedTuple

import numpy as np

from dynamics.kernels import activations, optimizers, simd, sparse_backprop
from dynamics.kernels.compiling import cached_kernel, kernel_function
from dynamics.kernels.optimizers import optimizer_update
from dynamics.kernels.simd import (
    LANES_32,
    add_scalars,
    copy_numbers,
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
from dynamics.optimizers import Optimizer

_PARTIAL_SUM_LENGTH = 64
"""Number of sequences whose losses are summed in float32 before they are added to a
float64 sum."""


class LabelledSequences(NamedTuple):
    """Sequences of each run: tokens (run, sequence, position) and targets (run,
    sequence), int16."""

    tokens: np.ndarray
    targets: np.ndarray


@kernel_function
def _fill_lane(sequences, run, row, lane, tokens, target):
    """Copy a sequence of a run to one lane of tokens (position x lane) and target
    (lane)."""
    target[lane] = sequences.targets[run, row]
    for position in range(sequences.tokens.shape[2]):
        tokens[position * LANES_32 + lane] = sequences.tokens[run, row, position]


@kernel_function
def _gather_minibatch_sequence(sequences, order, first, at, tokens, target):
    """Copy sequence number `at` in the order of each of sixteen runs, from run `first`
    on, to its lane."""
    runs = len(sequences.tokens)
    for lane in range(LANES_32):
        run = min(first + lane, runs - 1)  # lanes without a run repeat the last run
        _fill_lane(sequences, run, order[run, at], lane, tokens, target)


@kernel_function
def _gather_same_row(sequences, first, row, tokens, target):
    """Copy sequence number `row` of each of sixteen runs, from run `first` on, to its
    lane."""
    runs = len(sequences.tokens)
    for lane in range(LANES_32):
        _fill_lane(sequences, min(first + lane, runs - 1), row, lane, tokens, target)


@kernel_function
def _minibatch_gradient(
    weights, layout, work, sequences, order, first, begin, end, gradient, axes
):
    """The gradient of the mean loss over the sequences begin to end - 1 in each run's
    order."""
    gradient[:] = 0
    work.d_table[:] = 0
    fill_normalised_table(weights, layout, work.table, work.scores, axes)
    tokens = np.empty(layout.positions * LANES_32, np.float32)
    target = np.empty(LANES_32, np.float32)
    weight = scalars(np.float32(1 / (end - begin)))
    for at in range(begin, end):
        _gather_minibatch_sequence(sequences, order, first, at, tokens, target)
        add_sequence_gradient(
            weights,
            layout,
            work,
            tokens,
            load_scalars(target, 0),
            weight,
            gradient,
            axes,
        )
    add_embedding_gradients(weights, layout, work.d_table, gradient, axes)


@kernel_function
def _loss_and_credit(layout, logits, peak, target):
    """Cross-entropy and accuracy of a sequence; the accuracy is 1/m if its target is
    one of m equal largest logits."""
    one = scalars(np.float32(1))
    right = scalars(np.float32(-np.inf))
    others = scalars(np.float32(0))
    equal = scalars(np.float32(0))
    best = one
    for token in range(layout.rows):
        z = load_scalars(logits, token)
        here = where_equal(target, np.float32(token), one)
        power = exponential(z - peak)
        others += power - here * power
        right = maximum(
            right,
            where_above(one - here, np.float32(0.5), scalars(np.float32(-np.inf)) - z)
            + z,
        )
    for token in range(layout.rows):
        z = load_scalars(logits, token)
        equal += one - where_above(right - z, np.float32(0), one)
        best = best - where_above(z - right, np.float32(0), best)
    ahead = right - peak
    near = where_above(
        ahead, np.float32(-50), one
    )  # otherwise e^-ahead is large, and `others` contains the 1 of the peak
    argument = near * others / exponential(ahead) + (one - near) * (others - one)
    return log_one_plus(argument) - (one - near) * ahead, best / equal


@functools.cache
def sparse_trainer(optimizer: Optimizer) -> Callable[..., None]:
    """The kernel that trains with an optimizer."""
    update_weights = optimizer_update(optimizer)

    @cached_kernel(
        activations,
        sparse_backprop,
        simd,
        optimizers,
        variant=optimizer.digest,
        nogil=True,
    )
    def train_sparse(
        memory,
        layout,
        sequences,
        order,
        rates,
        factors,
        number,
        begin,
        batch,
        steps,
        axes,
    ):
        """Train all blocks for `steps` mini-batches of one epoch, from the sequence
        `begin` of the epoch's order on.

        order: (run, sequence) int64. rates: `UpdateRates`. factors: (step,), what
        multiplies learning rates. number: the number of the first update, counted from
        1. With 0 steps only the gradient is computed. Runs on the calling thread and
        releases Python's global interpreter lock."""
        work = sparse_workspace(layout, axes)
        for block in range(len(memory.weights)):
            weights = memory.weights[block]
            gradient = memory.gradient[block]
            first = block * LANES_32
            for step in range(max(1, steps)):
                start = begin + step * batch
                end = min(start + batch, order.shape[1])
                _minibatch_gradient(
                    weights,
                    layout,
                    work,
                    sequences,
                    order,
                    first,
                    start,
                    end,
                    gradient,
                    axes,
                )
                if step < steps:
                    copy_numbers(weights, memory.before[block])
                    update_weights(memory, block, rates, factors[step], number + step)

    return train_sparse


@cached_kernel(activations, sparse_backprop, simd, nogil=True)
def _score(weights, layout, sequences, counts, splits, totals, axes):
    """See `sparse_scores`; totals: (block, loss and accuracy x split x lane)."""
    work = sparse_workspace(layout, axes)
    count = sequences.targets.shape[1]
    tokens = np.empty(layout.positions * LANES_32, np.float32)
    target = np.empty(LANES_32, np.float32)
    partial = np.empty(2 * splits * LANES_32, np.float32)
    for block in range(len(weights)):
        fill_normalised_table(weights[block], layout, work.table, work.scores, axes)
        for begin in range(0, count, _PARTIAL_SUM_LENGTH):
            partial[:] = 0
            for at in range(begin, min(begin + _PARTIAL_SUM_LENGTH, count)):
                _gather_same_row(sequences, block * LANES_32, at, tokens, target)
                peak = sequence_forward(weights[block], layout, work, tokens, axes)[7]
                loss, credit = _loss_and_credit(
                    layout, work.logits, peak, load_scalars(target, 0)
                )
                for split in range(splits):
                    occurrences = load_scalars(counts[block], at * splits + split)
                    add_scalars(partial, split, occurrences * loss)
                    add_scalars(partial, splits + split, occurrences * credit)
            for at in range(partial.size):
                totals[block, at] += partial[at]


def sparse_scores(
    weights: np.ndarray,
    layout: SparseLayout,
    sequences: LabelledSequences,
    counts: np.ndarray,
    axes: tuple[int, ...],
) -> tuple[np.ndarray, np.ndarray]:
    """Sums of cross-entropy and of accuracy over the sequences of each split, both
    (run, split).

    counts: (block, sequence x split x lane), how often a sequence occurs in each split.
    The accuracy is 1/m where the correct token is one of m with the same largest logit.
    Not finite where float32 overflows."""
    splits = counts.shape[1] // (sequences.targets.shape[1] * LANES_32)
    totals = np.zeros((len(weights), 2 * splits * LANES_32))
    _score(weights, layout, sequences, counts, splits, totals, axes)
    rows = (
        totals.reshape(-1, 2, splits, LANES_32)
        .transpose(1, 0, 3, 2)
        .reshape(2, -1, splits)
    )
    loss, credit = rows[:, : len(sequences.tokens)]
    return loss, credit
