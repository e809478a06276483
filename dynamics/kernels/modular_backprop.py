"""CA's network for an ensemble on a processor: the gradient of `networks.ConstantAttention.loss` in closed form.

A lane is a run (`dynamics.kernels.simd`), so that sixteen runs go through the same arithmetic together and a run's
bits depend on itself alone. Four pairs are taken at a time, so that a weight, once loaded, serves four times.
With hidden activations a, logits z, and the share s_p of pair p in the loss:

    a_p = relu(E_i W_h' + E_j W_h' + b_h),  z_p = W_o a_p + b_o,  loss = sum_p s_p (log sum_c e^z_pc - z_py)
    dz_p = s_p (softmax(z_p) - onehot(y)),  dW_o = sum dz_p a_p',  db_o = sum dz_p
    da_p = W_o' dz_p where a_p > 0,         db_h = sum da_p,       and da_p reaches both tokens' rows of E W_h'

All pairs of tokens are visited in every run; those outside its training split have share 0. That costs a
quarter more at the usual split, and spares every run a list of its own.
"""

from typing import NamedTuple

import numpy as np
from numba import njit

from dynamics.kernels import optimizers, simd
from dynamics.kernels.compiling import cached_kernel
from dynamics.kernels.optimizers import OptimizerRule, TrainingArrays, update_weights
from dynamics.kernels.simd import (
    LANES_32,
    add_scalars,
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
from dynamics.tasks import all_pairs, modular_sum

_FOUR = (0, 1, 2, 3)


class ModularLayout(NamedTuple):
    """Sizes, and where in a run's flat parameters each weight begins."""

    n: int
    hidden: int
    dim: int
    hidden_weight: int
    hidden_bias: int
    output_weight: int
    output_bias: int
    size: int


def modular_layout(n: int, hidden: int, dim: int) -> ModularLayout:
    """The parameters in the order of `ConstantAttention.variables`."""
    begins = np.cumsum([n * dim, hidden * dim, hidden, n * hidden, n])
    return ModularLayout(n, hidden, dim, *(int(begin) for begin in begins))


class PairQuads(NamedTuple):
    """All pairs of tokens in the order of `all_pairs`, the last repeated to make fours."""

    first: np.ndarray  # (pair,)
    second: np.ndarray  # (pair,)
    target: np.ndarray  # (pair,)


def pair_quads(n: int) -> PairQuads:
    """The pairs of n tokens."""
    pairs = all_pairs(n)
    pairs = np.concatenate([pairs, np.repeat(pairs[-1:], -len(pairs) % 4, axis=0)])
    first, second = np.ascontiguousarray(pairs.T)
    return PairQuads(first, second, modular_sum(pairs, n))


# --------------------------------------------------------------------------------- one block of runs


@njit(error_model="numpy")
def _project_tokens(weights, shape, projected):
    """E W_h' (token, hidden)."""
    for i in range(shape.n):
        for k in range(shape.hidden):
            total = scalars(np.float32(0))
            for d in range(shape.dim):
                embedding = load_scalars(weights, i * shape.dim + d)
                total = multiply_add(embedding, load_scalars(weights, shape.hidden_weight + k * shape.dim + d), total)
            store_scalars(projected, i * shape.hidden + k, total)


@njit(error_model="numpy")
def _quad_logits(weights, shape, projected, pairs, quad, active, logits):
    """Activations (hidden, four) and logits (class, four) of four pairs; gives their largest logits."""
    zero = scalars(np.float32(0))
    for place in range(4):
        i = pairs.first[4 * quad + place] * shape.hidden
        j = pairs.second[4 * quad + place] * shape.hidden
        for k in range(shape.hidden):
            both = load_scalars(projected, i + k) + load_scalars(projected, j + k)
            store_scalars(active, 4 * k + place, maximum(zero, both + load_scalars(weights, shape.hidden_bias + k)))
    peak = repeat_axes(scalars(np.float32(-np.inf)), _FOUR)
    for c in range(shape.n):
        z = repeat_axes(load_scalars(weights, shape.output_bias + c), _FOUR)
        for k in range(shape.hidden):
            weight = load_scalars(weights, shape.output_weight + c * shape.hidden + k)
            z = multiply_add(load_vectors(active, k, _FOUR), weight, z)
        store_vectors(logits, c, z)
        peak = maximum(peak, z)
    return peak


@njit(error_model="numpy")
def _logits_to_errors(shape, share, pairs, quad, peak, logits):
    """Turn logits into the loss's derivatives by them, share (softmax - onehot)."""
    total = repeat_axes(scalars(np.float32(0)), _FOUR)
    for c in range(shape.n):
        power = exponential(load_vectors(logits, c, _FOUR) - peak)
        store_vectors(logits, c, power)
        total += power
    scale = load_vectors(share, quad, _FOUR) / total
    for c in range(shape.n):
        store_vectors(logits, c, load_vectors(logits, c, _FOUR) * scale)
    for place in range(4):
        at = 4 * pairs.target[4 * quad + place] + place
        store_scalars(logits, at, load_scalars(logits, at) - load_scalars(share, 4 * quad + place))


@njit(error_model="numpy")
def _quad_backward(weights, shape, pairs, quad, active, errors, gradient, by_token):
    """Add what four pairs contribute to the gradient of all but embedding and W_h, and to that of E W_h'."""
    for c in range(shape.n):
        add_scalars(gradient, shape.output_bias + c, sum_axes(load_vectors(errors, c, _FOUR)))
    for k in range(shape.hidden):
        a = load_vectors(active, k, _FOUR)
        passed = repeat_axes(scalars(np.float32(0)), _FOUR)
        for c in range(shape.n):
            at = shape.output_weight + c * shape.hidden + k
            error = load_vectors(errors, c, _FOUR)
            passed = multiply_add(error, load_scalars(weights, at), passed)
            store_scalars(gradient, at, dot_add(error, a, load_scalars(gradient, at)))
        passed = where_above(a, np.float32(0), passed)
        add_scalars(gradient, shape.hidden_bias + k, sum_axes(passed))
        store_vectors(active, k, passed)
    for place in range(4):
        i = pairs.first[4 * quad + place] * shape.hidden
        j = pairs.second[4 * quad + place] * shape.hidden
        for k in range(shape.hidden):
            add_scalars(by_token, i + k, load_scalars(active, 4 * k + place))
            add_scalars(by_token, j + k, load_scalars(active, 4 * k + place))


@njit(error_model="numpy")
def _projection_backward(weights, shape, by_token, gradient):
    """From the gradient of E W_h' to those of E and W_h."""
    for i in range(shape.n):
        for k in range(shape.hidden):
            value = load_scalars(by_token, i * shape.hidden + k)
            for d in range(shape.dim):
                e, w = i * shape.dim + d, shape.hidden_weight + k * shape.dim + d
                store_scalars(gradient, e, multiply_add(value, load_scalars(weights, w), load_scalars(gradient, e)))
                store_scalars(gradient, w, multiply_add(value, load_scalars(weights, e), load_scalars(gradient, w)))


@njit(error_model="numpy")
def _workspace(shape):
    """Memory for one block: E W_h', its gradient, activations, logits."""
    tokens, width = shape.n * shape.hidden, LANES_32
    return (
        np.empty(tokens * width, np.float32),
        np.empty(tokens * width, np.float32),
        np.empty(4 * shape.hidden * width, np.float32),
        np.empty(4 * shape.n * width, np.float32),
    )


@njit(error_model="numpy")
def _block_gradient(weights, shape, share, pairs, work, gradient):
    """The gradient of sixteen runs: weights and gradient (parameter, lane), share (pair, lane), all flat."""
    projected, by_token, active, logits = work
    by_token[:] = 0
    gradient[:] = 0
    _project_tokens(weights, shape, projected)
    for quad in range(pairs.first.size // 4):
        peak = _quad_logits(weights, shape, projected, pairs, quad, active, logits)
        _logits_to_errors(shape, share, pairs, quad, peak, logits)
        _quad_backward(weights, shape, pairs, quad, active, logits, gradient, by_token)
    _projection_backward(weights, shape, by_token, gradient)


@njit(error_model="numpy")
def _block_scores(weights, shape, pairs, work, others, behind, credit):
    """What loss and accuracy of every pair follow from, (pair, lane): the sum of e^(z - peak) over all classes but
    the right one, y; z_y - peak; and how much of a right answer that is, 1/m where z_y is one of m largest."""
    projected, _, active, logits = work
    _project_tokens(weights, shape, projected)
    for quad in range(pairs.first.size // 4):
        peak = _quad_logits(weights, shape, projected, pairs, quad, active, logits)
        store_vectors(behind, quad, peak)
        for place in range(4):
            at = 4 * quad + place
            top = load_scalars(behind, at)
            right = load_scalars(logits, 4 * pairs.target[at] + place)
            one, total = scalars(np.float32(1)), scalars(np.float32(0))
            equal, best = one, one
            for c in range(shape.n):
                if c != pairs.target[at]:
                    z = load_scalars(logits, 4 * c + place)
                    total += exponential(z - top)
                    equal += one - where_above(right - z, np.float32(0), one)
                    best = best - where_above(z - right, np.float32(0), best)
            store_scalars(others, at, total)
            store_scalars(behind, at, right - top)
            store_scalars(credit, at, best / equal)


# ------------------------------------------------------------------------------------- for use from Python


@cached_kernel(simd, optimizers, nogil=True)
def _train(memory, shape, share, pairs, rule, number, steps):
    work = _workspace(shape)
    for block in range(len(memory.weights)):
        for step in range(max(1, steps)):
            _block_gradient(memory.weights[block], shape, share[block], pairs, work, memory.gradient[block])
            if step == steps - 1:
                memory.before[block][:] = memory.weights[block]
            if step < steps:
                update_weights(memory, block, rule, number + step, 0, shape.size, 1.0)


@cached_kernel(simd, optimizers, nogil=True)
def _scores(weights, shape, pairs, others, behind, credit):
    work = _workspace(shape)
    for block in range(len(weights)):
        _block_scores(weights[block], shape, pairs, work, others[block], behind[block], credit[block])


def train_modular(
    memory: TrainingArrays,
    shape: ModularLayout,
    share: np.ndarray,
    pairs: PairQuads,
    rule: OptimizerRule,
    number: int,
    steps: int,
) -> None:
    """Take steps, the first of them update `number`; with 0 steps only the gradient is found.

    share: (block, pair x lane), the weight of each pair in the loss. Runs on the calling thread, without Python's lock.
    """
    _train(memory, shape, share, pairs, rule, number, steps)


def modular_scores(
    weights: np.ndarray, shape: ModularLayout, pairs: PairQuads, runs: int
) -> tuple[np.ndarray, np.ndarray]:
    """Cross-entropy of each of `all_pairs`, and how right it is, 1/m of m classes that tie: both (run, pair)."""
    parts = [np.empty((len(weights), pairs.first.size * LANES_32), np.float32) for _ in range(3)]
    _scores(weights, shape, pairs, *parts)
    count = shape.n * (shape.n + 1) // 2
    others, behind, credit = (from_lanes(part, runs)[:, :count].astype(np.float64) for part in parts)
    near = np.log1p(others * np.exp(np.minimum(-behind, 50.0)))  # exact also for a loss far below float32's 1 + 1e-7
    with np.errstate(divide="ignore"):
        return np.where(behind > -50, near, np.log(others) - behind), credit
