"""Training of the constant-attention network (CA) on a CUDA device, one block of threads
for each run.

The gradient is that of `dynamics.kernels.modular_backprop`. A block computes it in
shared memory: it holds weights and moments there for a whole launch, and the activations
and logits of a portion of pairs, all pairs if they fit. The three matrix products are
computed in tiles of 4 x 4 numbers in registers, so that a number from shared memory is
used four times. The items of a tile are a quarter of all items apart: neighbouring
threads read neighbouring banks. Every sum has a fixed order, which does not depend on
the number of threads."""

import functools
from collections.abc import Callable
from typing import Any, NamedTuple

import numpy as np
from numba import cuda, float32

from dynamics.kernels.cuda_activations import device_activation, is_relu
from dynamics.kernels.cuda_launching import (
    MAX_SHARED_BYTES,
    WARP,
    cuda_kernel,
    device_function,
    exponential,
    index,
    odd_stride,
    quotient,
    remainder,
    round_up,
)
from dynamics.kernels.cuda_updates import parameter_update
from dynamics.kernels.modular_backprop import ModularLayout
from dynamics.optimizers import Optimizer

TILE = 4
"""Rows and columns of a tile."""
UNIT_GROUPS = 4
"""Threads that share the hidden units of a pair."""
MAX_THREADS = 256
AIMED_SHARED_BYTES = 64 * 1024
"""Shared memory of a block with which a multiprocessor runs three blocks."""


class ModularPlan(NamedTuple):
    """How a block computes the network, and the places of its arrays in shared memory,
    counted in float32."""

    layout: ModularLayout
    pairs: int
    moments: int
    """Number of moments of the optimizer."""
    threads: int
    portion: int
    """Pairs that are computed together."""
    segments: int
    """Parts of a portion that are summed by different threads for the gradient of W_o."""

    @property
    def stride(self) -> int:
        """Numbers between two rows (hidden or class) of activations and logits."""
        return odd_stride(round_up(self.portion, TILE))

    @property
    def token_stride(self) -> int:
        """Numbers between two rows (token) of E W_h'."""
        return odd_stride(self.layout.hidden)

    @property
    def places(self) -> dict[str, int]:
        """The first number of each array in shared memory, and the end of them all.

        Tiles also read rows beyond the last class or unit; what they compute of these is
        not stored."""
        size, n, hidden = self.layout.size, self.layout.n, self.layout.hidden
        rows = round_up(n, TILE)
        sizes = {
            "weights": max(size, self.layout.output_weight + rows * hidden + TILE),
            "gradient": size,
            "moments": self.moments * size,
            "projected": n * self.token_stride,
            "by_token": n * self.token_stride,
            "active": round_up(hidden, TILE) * self.stride,
            "errors": rows * self.stride,
            "partial": (self.segments - 1) * n * hidden,
        }
        ends = np.cumsum([0, *sizes.values()]).tolist()
        return dict(zip([*sizes, "end"], ends, strict=True))

    @property
    def shared_bytes(self) -> int:
        """Shared memory of a block."""
        return 4 * self.places["end"]


def modular_plan(layout: ModularLayout, moments: int) -> ModularPlan | None:
    """The plan of a network; None if its weights do not fit into shared memory."""
    n, hidden = layout.n, layout.hidden
    pairs = n * (n + 1) // 2
    for portion in [pairs, *(2**power for power in range(12, 4, -1))]:
        if portion > pairs:
            continue
        logit_tiles = -(-portion // TILE) * -(-n // TILE)
        threads = min(MAX_THREADS, round_up(logit_tiles, WARP))
        weight_tiles = -(-n // TILE) * -(-hidden // TILE)
        segments = max(1, min(TILE, threads // weight_tiles))
        plan = ModularPlan(layout, pairs, moments, threads, portion, segments)
        if plan.shared_bytes <= AIMED_SHARED_BYTES or (
            portion <= 2 * WARP and plan.shared_bytes <= MAX_SHARED_BYTES
        ):
            return plan
    return None


# ---------------------------------------------------------------------- products in tiles


@device_function
def _clear(tile):
    for row in range(TILE):
        for column in range(TILE):
            tile[row, column] = np.float32(0)


def _product_of(left_row: int, left_step: int, right_row: int, right_step: int) -> Any:
    """A device function that adds sum_m left[r, m] right[c, m] to a tile (r, c), from
    the places of left[0, 0] and right[0, 0] on.

    left_row, right_row: numbers from a row to the next row of the tile; left_step,
    right_step: from m to m + 1."""

    @device_function
    def add_product(tile, left, left_at, right, right_at, count):
        for _ in range(count):
            for row in range(TILE):
                value = left[index(left_at + row * left_row)]
                for column in range(TILE):
                    at = index(right_at + column * right_row)
                    tile[row, column] += value * right[at]
            left_at += left_step
            right_at += right_step

    return add_product


# ------------------------------------------------------------------------ steps of a block


@functools.cache
def _forward(plan: ModularPlan) -> tuple[Any, Any, Any]:
    """Device functions that store the projected embeddings E W_h', and the activations
    and logits of a portion of pairs."""
    layout = plan.layout
    n, hidden, dim = layout.n, layout.hidden, layout.dim
    hidden_weight, hidden_bias = layout.hidden_weight, layout.hidden_bias
    output_weight, output_bias = layout.output_weight, layout.output_bias
    stride, token_stride, portion = plan.stride, plan.token_stride, plan.portion
    threads = plan.threads
    activation = device_activation(layout.activation)
    pair_tiles = -(-portion // TILE)
    class_tiles = -(-n // TILE)
    add_product = _product_of(pair_tiles, stride, class_tiles * hidden, 1)

    @device_function
    def project_tokens(thread, weights, projected):
        for item in range(thread, n * hidden, threads):
            i = quotient(item, hidden)
            k = remainder(item, hidden)
            total = np.float32(0)
            for d in range(dim):
                total += (
                    weights[index(i * dim + d)]
                    * weights[index(hidden_weight + k * dim + d)]
                )
            projected[index(i * token_stride + k)] = total

    @device_function
    def activate(thread, weights, projected, first, second, begin, active):
        for item in range(thread, portion * UNIT_GROUPS, threads):
            place = remainder(item, portion)
            if begin + place < len(first):
                i = first[index(begin + place)] * token_stride
                j = second[index(begin + place)] * token_stride
                for k in range(quotient(item, portion), hidden, UNIT_GROUPS):
                    both = projected[index(i + k)] + projected[index(j + k)]
                    before = both + weights[index(hidden_bias + k)]
                    active[index(k * stride + place)] = activation(before)[0]

    @device_function
    def store_logits(thread, weights, active, logits):
        tile = cuda.local.array((TILE, TILE), float32)
        for item in range(thread, pair_tiles * class_tiles, threads):
            pair = remainder(item, pair_tiles)
            first_class = quotient(item, pair_tiles)
            _clear(tile)
            at = output_weight + first_class * hidden
            add_product(tile, active, pair, weights, at, hidden)
            for column in range(TILE):
                c = first_class + column * class_tiles
                if c < n:
                    bias = weights[index(output_bias + c)]
                    for row in range(TILE):
                        at = c * stride + pair + row * pair_tiles
                        logits[index(at)] = tile[row, column] + bias

    return project_tokens, activate, store_logits


@functools.cache
def _backward(plan: ModularPlan) -> tuple[Any, ...]:
    """Device functions that replace logits by errors, and add gradients of a portion of
    pairs; the last one stores the rest of the gradient."""
    layout = plan.layout
    n, hidden, dim = layout.n, layout.hidden, layout.dim
    hidden_weight, hidden_bias = layout.hidden_weight, layout.hidden_bias
    output_weight, output_bias = layout.output_weight, layout.output_bias
    stride, token_stride, portion = plan.stride, plan.token_stride, plan.portion
    threads = plan.threads
    segments, all_pairs, size = plan.segments, plan.pairs, layout.size
    pair_tiles, unit_tiles = -(-portion // TILE), -(-hidden // TILE)
    class_tiles = -(-n // TILE)
    weight_tiles = class_tiles * unit_tiles
    activation, rectified = (
        device_activation(layout.activation),
        is_relu(layout.activation),
    )
    segment_length = -(-portion // segments)
    add_output_product = _product_of(class_tiles * stride, 1, unit_tiles * stride, 1)
    add_hidden_product = _product_of(pair_tiles, stride, unit_tiles, hidden)

    @device_function
    def logits_to_errors(thread, pair_weights, first, second, begin, logits):
        """The derivatives of the loss with respect to logits, s_p (softmax(z_p) -
        onehot(y)); 0 for places without a pair."""
        for place in range(thread, portion, threads):
            if begin + place < all_pairs:
                peak = logits[index(place)]
                for c in range(1, n):
                    z = logits[index(c * stride + place)]
                    peak = z if z > peak else peak
                total = np.float32(0)
                for c in range(n):
                    power = exponential(logits[index(c * stride + place)] - peak)
                    logits[index(c * stride + place)] = power
                    total += power
                weight = pair_weights[index(begin + place)]
                scale = weight / total
                for c in range(n):
                    logits[index(c * stride + place)] *= scale
                target = first[index(begin + place)] + second[index(begin + place)]
                target = target - n if target >= n else target
                logits[index(target * stride + place)] -= weight

    @device_function
    def add_output_gradient(thread, begin, active, errors, gradient, partial):
        """Add the gradient of W_o, a part for each segment, and that of b_o."""
        count = min(portion, all_pairs - begin)
        tile = cuda.local.array((TILE, TILE), float32)
        for item in range(thread, segments * weight_tiles + n, threads):
            if item >= segments * weight_tiles:
                c = item - segments * weight_tiles
                total = np.float32(0)
                for place in range(count):
                    total += errors[index(c * stride + place)]
                gradient[index(output_bias + c)] += total
            else:
                segment = quotient(item, weight_tiles)
                class_tile = quotient(remainder(item, weight_tiles), unit_tiles)
                unit_tile = remainder(item, unit_tiles)
                start = segment * segment_length
                _clear(tile)
                add_output_product(
                    tile,
                    errors,
                    class_tile * stride + start,
                    active,
                    unit_tile * stride + start,
                    min(segment_length, count - start),
                )
                for row in range(TILE):
                    c = class_tile + row * class_tiles
                    for column in range(TILE):
                        k = unit_tile + column * unit_tiles
                        if c < n and k < hidden:
                            at = c * hidden + k
                            if segment == 0:
                                gradient[index(output_weight + at)] += tile[row, column]
                            else:
                                place = (segment - 1) * n * hidden + at
                                partial[index(place)] += tile[row, column]

    @device_function
    def slope_of(active, weights, projected, first, second, pair, k):
        """The derivative of an activation of a pair, from its value or, if that is not
        enough, computed again."""
        if rectified:
            return np.float32(1) if active > 0 else np.float32(0)
        i = first[index(pair)] * token_stride
        j = second[index(pair)] * token_stride
        both = projected[index(i + k)] + projected[index(j + k)]
        return activation(both + weights[index(hidden_bias + k)])[1]

    @device_function
    def pass_errors_back(
        thread, weights, projected, first, second, begin, errors, active
    ):
        """Replace the activations by the derivatives of the loss with respect to what
        they are the activations of."""
        tile = cuda.local.array((TILE, TILE), float32)
        for item in range(thread, pair_tiles * unit_tiles, threads):
            pair = remainder(item, pair_tiles)
            unit = quotient(item, pair_tiles)
            _clear(tile)
            add_hidden_product(tile, errors, pair, weights, output_weight + unit, n)
            for column in range(TILE):
                k = unit + column * unit_tiles
                if k < hidden:
                    for row in range(TILE):
                        place = pair + row * pair_tiles
                        if place < min(portion, all_pairs - begin):
                            at = index(k * stride + place)
                            slope = slope_of(
                                active[at],
                                weights,
                                projected,
                                first,
                                second,
                                begin + place,
                                k,
                            )
                            # units of ReLU that are off pass no infinite error
                            is_off = rectified and slope == 0
                            error = tile[row, column] * slope
                            active[at] = np.float32(0) if is_off else error

    @device_function
    def add_token_gradient(thread, begin, passed, by_token):
        """Add the derivatives with respect to E W_h': for each token those of its
        pairs, of the pair with itself twice."""
        count = min(portion, all_pairs - begin)
        for item in range(thread, n * hidden, threads):
            i = quotient(item, hidden)
            k = remainder(item, hidden)
            total = np.float32(0)
            place = i - begin  # of the pair (j, i), in the order of all pairs
            for j in range(i):
                if place >= 0 and place < count:
                    total += passed[index(k * stride + place)]
                place += n - 1 - j
            if place >= 0 and place < count:
                total += passed[index(k * stride + place)]
            for _ in range(i, n):
                if place >= 0 and place < count:
                    total += passed[index(k * stride + place)]
                place += 1
            by_token[index(i * token_stride + k)] += total

    @device_function
    def store_gradient(thread, weights, by_token, partial, gradient):
        """Store the gradients of E, W_h and b_h, and add the segments of that of
        W_o."""
        for at in range(thread, size, threads):
            total = np.float32(0)
            if at < hidden_weight:
                i = quotient(at, dim)
                d = remainder(at, dim)
                for k in range(hidden):
                    weight = weights[index(hidden_weight + k * dim + d)]
                    total += by_token[index(i * token_stride + k)] * weight
                gradient[index(at)] = total
            elif at < hidden_bias:
                k = quotient(at - hidden_weight, dim)
                d = remainder(at - hidden_weight, dim)
                for i in range(n):
                    weight = weights[index(i * dim + d)]
                    total += by_token[index(i * token_stride + k)] * weight
                gradient[index(at)] = total
            elif at < output_weight:
                k = at - hidden_bias
                for i in range(n):
                    total += by_token[index(i * token_stride + k)]
                gradient[index(at)] = total * np.float32(0.5)  # two tokens a pair
            elif at < output_bias:
                for segment in range(segments - 1):
                    total += partial[index(segment * n * hidden + at - output_weight)]
                gradient[index(at)] += total

    return (
        logits_to_errors,
        add_output_gradient,
        pass_errors_back,
        add_token_gradient,
        store_gradient,
    )


# ------------------------------------------------------------ kernels called from Python


@functools.cache
def modular_cuda_trainer(optimizer: Optimizer, plan: ModularPlan) -> Any:
    """The kernel that trains networks of one plan with an optimizer."""
    project_tokens, activate, store_logits = _forward(plan)
    (
        logits_to_errors,
        add_output_gradient,
        pass_errors_back,
        add_token_gradient,
        store_gradient,
    ) = _backward(plan)
    update_parameter = parameter_update(optimizer)
    size, moments_size = plan.layout.size, plan.moments * plan.layout.size
    threads, portion, pairs = plan.threads, plan.portion, plan.pairs
    places = plan.places
    at_gradient, at_moments = places["gradient"], places["moments"]
    at_projected, at_by_token = places["projected"], places["by_token"]
    at_active, at_errors = places["active"], places["errors"]
    at_partial, end = places["partial"], places["end"]

    @cuda_kernel
    def train_modular(
        all_weights,
        all_moments,
        all_gradients,
        before,
        all_pair_weights,
        first,
        second,
        hyperparameters,
        lr,
        weight_decay,
        numbers,
        steps,
    ):
        """Train the run of each block for `steps` updates.

        With 0 steps only the gradient is computed. all_weights, all_gradients, before:
        (run, parameter); all_moments: (run, moment x parameter); all_pair_weights:
        (run, pair), the weight of each pair in the loss; first, second: (pair,) tokens;
        further arrays as in `DeviceRates` and `step_numbers`."""
        run = cuda.blockIdx.x
        thread = np.int64(np.uint32(cuda.threadIdx.x))
        shared = cuda.shared.array(0, float32)
        weights = shared[:at_gradient]
        gradient = shared[at_gradient:at_moments]
        moments = shared[at_moments:at_projected]
        projected = shared[at_projected:at_by_token]
        by_token = shared[at_by_token:at_active]
        active = shared[at_active:at_errors]
        errors = shared[at_errors:at_partial]
        partial = shared[at_partial:end]
        pair_weights = all_pair_weights[run]
        for at in range(thread, size, threads):
            weights[index(at)] = all_weights[run, at]
        for at in range(thread, moments_size, threads):
            moments[index(at)] = all_moments[run, at]
        cuda.syncthreads()
        for step in range(max(1, steps)):
            for at in range(thread, size, threads):
                gradient[index(at)] = np.float32(0)
            for at in range(thread, at_active - at_by_token, threads):
                by_token[index(at)] = np.float32(0)
            for at in range(thread, end - at_partial, threads):
                partial[index(at)] = np.float32(0)
            project_tokens(thread, weights, projected)
            cuda.syncthreads()
            for begin in range(0, pairs, portion):
                activate(thread, weights, projected, first, second, begin, active)
                cuda.syncthreads()
                store_logits(thread, weights, active, errors)
                cuda.syncthreads()
                logits_to_errors(thread, pair_weights, first, second, begin, errors)
                cuda.syncthreads()
                add_output_gradient(thread, begin, active, errors, gradient, partial)
                cuda.syncthreads()
                pass_errors_back(
                    thread, weights, projected, first, second, begin, errors, active
                )
                cuda.syncthreads()
                add_token_gradient(thread, begin, active, by_token)
                cuda.syncthreads()
            store_gradient(thread, weights, by_token, partial, gradient)
            cuda.syncthreads()
            if step == steps - 1:
                for at in range(thread, size, threads):
                    before[run, at] = weights[index(at)]
            if step < steps:
                for at in range(thread, size, threads):
                    update_parameter(
                        weights,
                        gradient,
                        moments,
                        at,
                        size,
                        hyperparameters,
                        lr,
                        weight_decay,
                        numbers,
                        step,
                    )
            cuda.syncthreads()
        for at in range(thread, size, threads):
            all_weights[run, at] = weights[index(at)]
            all_gradients[run, at] = gradient[index(at)]
        for at in range(thread, moments_size, threads):
            all_moments[run, at] = moments[index(at)]

    return train_modular


@functools.cache
def modular_cuda_scorer(plan: ModularPlan) -> Callable[..., Any]:
    """The kernel that evaluates networks of one plan."""
    project_tokens, activate, store_logits = _forward(plan)
    n, stride, threads = plan.layout.n, plan.stride, plan.threads
    size, portion, pairs = plan.layout.size, plan.portion, plan.pairs
    places = plan.places
    at_gradient, at_projected = places["gradient"], places["projected"]
    at_by_token, at_active = places["by_token"], places["active"]
    at_errors, at_partial = places["errors"], places["partial"]

    @cuda_kernel
    def score_modular(all_weights, first, second, others, behind, credit):
        """Store three numbers of each pair (run, pair), from which
        `modular_backprop.pair_scores` computes loss and accuracy."""
        run = cuda.blockIdx.x
        thread = np.int64(np.uint32(cuda.threadIdx.x))
        shared = cuda.shared.array(0, float32)
        weights = shared[:at_gradient]
        projected = shared[at_projected:at_by_token]
        active = shared[at_active:at_errors]
        logits = shared[at_errors:at_partial]
        for at in range(thread, size, threads):
            weights[index(at)] = all_weights[run, at]
        cuda.syncthreads()
        project_tokens(thread, weights, projected)
        cuda.syncthreads()
        for begin in range(0, pairs, portion):
            activate(thread, weights, projected, first, second, begin, active)
            cuda.syncthreads()
            store_logits(thread, weights, active, logits)
            cuda.syncthreads()
            for place in range(thread, min(portion, pairs - begin), threads):
                target = (
                    first[index(begin + place)] + second[index(begin + place)]
                ) % n
                right = logits[index(target * stride + place)]
                peak = right
                for c in range(n):
                    z = logits[index(c * stride + place)]
                    peak = z if z > peak else peak
                total = np.float32(0)
                equal = np.float32(1)
                best = np.float32(1)
                for c in range(n):
                    if c != target:
                        z = logits[index(c * stride + place)]
                        total += exponential(z - peak)
                        equal += np.float32(1) if z == right else np.float32(0)
                        best = np.float32(0) if z > right else best
                others[run, begin + place] = total
                behind[run, begin + place] = right - peak
                credit[run, begin + place] = best / equal
            cuda.syncthreads()

    return score_modular
