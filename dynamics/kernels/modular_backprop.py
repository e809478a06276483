"""Backpropagation through the constant-attention network (CA) for an ensemble on a CPU,
written out in closed form.

The gradient is that of `dynamics.networks.ConstantAttention.loss`. Each SIMD lane is a
run, so the bits of a run depend on that run alone. Four pairs are computed at a time,
so that each loaded weight is used four times. With hidden activations a, logits z, and
the weight s_p of pair p in the loss:

    x_p = E_i W_h' + E_j W_h' + b_h,        a_p = f(x_p),          z_p = W_o a_p + b_o
    loss = sum_p s_p (log sum_c e^z_pc - z_py)
    dz_p = s_p (softmax(z_p) - onehot(y)),  dW_o = sum dz_p a_p',  db_o = sum dz_p
    dx_p = f'(x_p) W_o' dz_p,               db_h = sum dx_p,       and dx_p is added to both tokens' rows of E W_h'

The activation f is one of `dynamics.kernels.activations`.

All pairs of tokens are computed in every run; those outside its training split have
weight 0. At the default split this is 25% more work, but all runs can share one list of
pairs."""

import functools
from collections.abc import Callable
from typing import NamedTuple

import numpy as np

from dynamics.kernels import activations, optimizers, simd
from dynamics.kernels.activations import ACTIVATION_CODES, activate, pass_back
from dynamics.kernels.compiling import cached_kernel, kernel_function
from dynamics.kernels.optimizers import optimizer_update
from dynamics.kernels.simd import (
    LANES_32,
    add_scalars,
    copy_numbers,
    dot_add,
    exponential,
    from_lanes,
    load_scalars,
    load_vectors,
    maximum,
    multiply_add,
    repeat_axes,
    scalars,
    store_scalars,
    store_vectors,
    sum_axes,
    where_above,
)
from dynamics.optimizers import Optimizer
from dynamics.settings import ModularSettings
from dynamics.tasks import all_pairs, modular_sum

_FOUR = (0, 1, 2, 3)


class ModularLayout(NamedTuple):
    """Sizes, the offset of each weight in the flat parameters of a run, and the
    activation."""

    n: int
    hidden: int
    dim: int
    activation: tuple[int, ...]  # one of `ACTIVATION_CODES`
    hidden_weight: int
    hidden_bias: int
    output_weight: int
    output_bias: int
    size: int


def modular_layout(s: ModularSettings) -> ModularLayout:
    """The layout of parameters in the order of `ConstantAttention.variables`."""
    n, hidden, dim = s.n, s.hidden, s.dim
    begins = np.cumsum([n * dim, hidden * dim, hidden, n * hidden, n]).tolist()
    activation = ACTIVATION_CODES[s.activation]
    return ModularLayout(n, hidden, dim, activation, *begins)


class PairQuads(NamedTuple):
    """All pairs of tokens in the order of `all_pairs`; the last pair is repeated to
    fill a group of four."""

    first: np.ndarray  # (pair,)
    second: np.ndarray  # (pair,)
    target: np.ndarray  # (pair,)


def pair_quads(n: int) -> PairQuads:
    """All pairs of n tokens, with their classes."""
    pairs = all_pairs(n)
    pairs = np.concatenate([pairs, np.repeat(pairs[-1:], -len(pairs) % 4, axis=0)])
    first, second = np.ascontiguousarray(pairs.T)
    return PairQuads(first, second, modular_sum(pairs, n))


# ------------------------------------------------------------ one block of sixteen runs


@kernel_function
def _project_tokens(weights, layout, projected):
    """Store the projected embeddings E W_h', (token, hidden)."""
    for i in range(layout.n):
        for k in range(layout.hidden):
            total = scalars(np.float32(0))
            for d in range(layout.dim):
                embedding = load_scalars(weights, i * layout.dim + d)
                total = multiply_add(
                    embedding,
                    load_scalars(weights, layout.hidden_weight + k * layout.dim + d),
                    total,
                )
            store_scalars(projected, i * layout.hidden + k, total)


@kernel_function
def _quad_logits(weights, layout, projected, pairs, quad, active, slopes, logits):
    """Store activations and their derivatives (hidden, 4), and logits (class, 4) of
    four pairs; return their largest logits."""
    for place in range(4):
        i = pairs.first[4 * quad + place] * layout.hidden
        j = pairs.second[4 * quad + place] * layout.hidden
        for k in range(layout.hidden):
            both = load_scalars(projected, i + k) + load_scalars(projected, j + k)
            before = both + load_scalars(weights, layout.hidden_bias + k)
            after, slope = activate(before, layout.activation)
            store_scalars(active, 4 * k + place, after)
            store_scalars(slopes, 4 * k + place, slope)
    peak = repeat_axes(scalars(np.float32(-np.inf)), _FOUR)
    for c in range(layout.n):
        z = repeat_axes(load_scalars(weights, layout.output_bias + c), _FOUR)
        for k in range(layout.hidden):
            weight = load_scalars(weights, layout.output_weight + c * layout.hidden + k)
            z = multiply_add(load_vectors(active, k, _FOUR), weight, z)
        store_vectors(logits, c, z)
        peak = maximum(peak, z)
    return peak


@kernel_function
def _logits_to_errors(layout, pair_weights, pairs, quad, peak, logits):
    """Replace the logits by the derivatives of the loss with respect to them, s_p
    (softmax(z_p) - onehot(y))."""
    total = repeat_axes(scalars(np.float32(0)), _FOUR)
    for c in range(layout.n):
        power = exponential(load_vectors(logits, c, _FOUR) - peak)
        store_vectors(logits, c, power)
        total += power
    scale = load_vectors(pair_weights, quad, _FOUR) / total
    for c in range(layout.n):
        store_vectors(logits, c, load_vectors(logits, c, _FOUR) * scale)
    for place in range(4):
        at = 4 * pairs.target[4 * quad + place] + place
        store_scalars(
            logits,
            at,
            load_scalars(logits, at) - load_scalars(pair_weights, 4 * quad + place),
        )


@kernel_function
def _quad_backward(
    weights, layout, pairs, quad, active, slopes, errors, gradient, by_token
):
    """Add the gradient of four pairs with respect to b_h, W_o, b_o and the projected
    embeddings E W_h'."""
    for c in range(layout.n):
        add_scalars(
            gradient, layout.output_bias + c, sum_axes(load_vectors(errors, c, _FOUR))
        )
    for k in range(layout.hidden):
        a = load_vectors(active, k, _FOUR)
        passed = repeat_axes(scalars(np.float32(0)), _FOUR)
        for c in range(layout.n):
            at = layout.output_weight + c * layout.hidden + k
            error = load_vectors(errors, c, _FOUR)
            passed = multiply_add(error, load_scalars(weights, at), passed)
            store_scalars(gradient, at, dot_add(error, a, load_scalars(gradient, at)))
        passed = pass_back(passed, load_vectors(slopes, k, _FOUR), layout.activation)
        add_scalars(gradient, layout.hidden_bias + k, sum_axes(passed))
        store_vectors(active, k, passed)
    for place in range(4):
        i = pairs.first[4 * quad + place] * layout.hidden
        j = pairs.second[4 * quad + place] * layout.hidden
        for k in range(layout.hidden):
            add_scalars(by_token, i + k, load_scalars(active, 4 * k + place))
            add_scalars(by_token, j + k, load_scalars(active, 4 * k + place))


@kernel_function
def _projection_backward(weights, layout, by_token, gradient):
    """Add the gradient with respect to E and W_h, from that with respect to E W_h'."""
    for i in range(layout.n):
        for k in range(layout.hidden):
            value = load_scalars(by_token, i * layout.hidden + k)
            for d in range(layout.dim):
                e, w = i * layout.dim + d, layout.hidden_weight + k * layout.dim + d
                store_scalars(
                    gradient,
                    e,
                    multiply_add(
                        value, load_scalars(weights, w), load_scalars(gradient, e)
                    ),
                )
                store_scalars(
                    gradient,
                    w,
                    multiply_add(
                        value, load_scalars(weights, e), load_scalars(gradient, w)
                    ),
                )


@kernel_function
def _workspace(layout):
    """Working memory for one block: E W_h', its gradient, activations, their
    derivatives, logits."""
    tokens = layout.n * layout.hidden
    width = LANES_32
    return (
        np.empty(tokens * width, np.float32),
        np.empty(tokens * width, np.float32),
        np.empty(4 * layout.hidden * width, np.float32),
        np.empty(4 * layout.hidden * width, np.float32),
        np.empty(4 * layout.n * width, np.float32),
    )


@kernel_function
def _block_gradient(weights, layout, pair_weights, pairs, work, gradient):
    """The gradient of sixteen runs. weights and gradient: (parameter x lane);
    pair_weights: (pair x lane)."""
    projected, by_token, active, slopes, logits = work
    by_token[:] = 0
    gradient[:] = 0
    _project_tokens(weights, layout, projected)
    for quad in range(pairs.first.size // 4):
        peak = _quad_logits(
            weights, layout, projected, pairs, quad, active, slopes, logits
        )
        _logits_to_errors(layout, pair_weights, pairs, quad, peak, logits)
        _quad_backward(
            weights, layout, pairs, quad, active, slopes, logits, gradient, by_token
        )
    _projection_backward(weights, layout, by_token, gradient)


@kernel_function
def _block_scores(weights, layout, pairs, work, others, behind, credit):
    """Store three numbers per pair (pair x lane), from which `modular_scores` computes
    loss and accuracy.

    others: sum of exp(z_c - max z) over all classes c except the correct class y;
    behind: z_y - max z; credit: 1/m if z_y is one of m equal largest logits, else 0.
    """
    projected, _, active, slopes, logits = work
    _project_tokens(weights, layout, projected)
    for quad in range(pairs.first.size // 4):
        peak = _quad_logits(
            weights, layout, projected, pairs, quad, active, slopes, logits
        )
        store_vectors(behind, quad, peak)
        for place in range(4):
            at = 4 * quad + place
            top = load_scalars(behind, at)
            right = load_scalars(logits, 4 * pairs.target[at] + place)
            one, total = scalars(np.float32(1)), scalars(np.float32(0))
            equal, best = one, one
            for c in range(layout.n):
                if c != pairs.target[at]:
                    z = load_scalars(logits, 4 * c + place)
                    total += exponential(z - top)
                    equal += one - where_above(right - z, np.float32(0), one)
                    best = best - where_above(z - right, np.float32(0), best)
            store_scalars(others, at, total)
            store_scalars(behind, at, right - top)
            store_scalars(credit, at, best / equal)


# ----------------------------------------------------------- kernels called from Python


@functools.cache
def modular_trainer(optimizer: Optimizer) -> Callable[..., None]:
    """The kernel that trains with an optimizer."""
    update_weights = optimizer_update(optimizer)

    @cached_kernel(activations, simd, optimizers, variant=optimizer.digest, nogil=True)
    def train_modular(
        memory, layout, pair_weights, pairs, rates, factors, number, steps
    ):
        """Train all blocks for `steps` updates, the first of which has the number
        `number`, counted from 1.

        With 0 steps only the gradient is computed. memory: `TrainingArrays`;
        pair_weights: (block, pair x lane), the weight of each pair in the loss; rates:
        `UpdateRates`; factors: (step,), what multiplies learning rates. Runs on the
        calling thread and releases Python's global interpreter lock."""
        work = _workspace(layout)
        for block in range(len(memory.weights)):
            for step in range(max(1, steps)):
                _block_gradient(
                    memory.weights[block],
                    layout,
                    pair_weights[block],
                    pairs,
                    work,
                    memory.gradient[block],
                )
                if step == steps - 1:
                    copy_numbers(memory.weights[block], memory.before[block])
                if step < steps:
                    update_weights(memory, block, rates, factors[step], number + step)

    return train_modular


@cached_kernel(activations, simd, nogil=True)
def _scores(weights, layout, pairs, others, behind, credit):
    work = _workspace(layout)
    for block in range(len(weights)):
        _block_scores(
            weights[block],
            layout,
            pairs,
            work,
            others[block],
            behind[block],
            credit[block],
        )


def modular_scores(
    weights: np.ndarray, layout: ModularLayout, pairs: PairQuads, runs: int
) -> tuple[np.ndarray, np.ndarray]:
    """Cross-entropy and accuracy of each pair of `all_pairs`, (run, pair) float64.

    The accuracy is 1/m where the correct class is one of m classes with the same
    largest logit."""
    parts = [
        np.empty((len(weights), pairs.first.size * LANES_32), np.float32)
        for _ in range(3)
    ]
    _scores(weights, layout, pairs, *parts)
    count = layout.n * (layout.n + 1) // 2
    others, behind, credit = (from_lanes(part, runs)[:, :count] for part in parts)
    return pair_scores(others, behind, credit)


def pair_scores(
    others: np.ndarray, behind: np.ndarray, credit: np.ndarray
) -> tuple[np.ndarray, np.ndarray]:
    """Cross-entropy and accuracy of each pair, (run, pair) float64, from the numbers
    that `_block_scores` describes, (run, pair) each."""
    others, behind, credit = (
        part.astype(np.float64) for part in (others, behind, credit)
    )
    near = np.log1p(
        others * np.exp(np.minimum(-behind, 50.0))
    )  # exact also for a loss far below float32's 1 + 1e-7
    with np.errstate(divide="ignore"):
        return np.where(behind > -50, near, np.log(others) - behind), credit
