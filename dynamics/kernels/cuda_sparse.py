"""Training of the clustering head (VC) on a CUDA device, one block of threads for each
run.

The gradient is that of `dynamics.kernels.sparse_backprop`. A block holds weights,
moments and the activations of a portion of a mini-batch in shared memory, for a whole
launch, and sorts the data of each epoch itself. Threads share sequences, or sequences
and a part of the hidden units, or parameters, whose gradients they sum over sequences in
their order. Rows of sequences have an odd stride, so that neighbouring threads read
other banks, whether they have neighbouring sequences or neighbouring units."""

import functools
import math
from typing import Any, NamedTuple

import numpy as np
from numba import cuda, float32, int32, int64

from dynamics.kernels.cuda_activations import device_activation
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
    square_root,
)
from dynamics.kernels.cuda_updates import parameter_update
from dynamics.kernels.sparse_backprop import SparseLayout
from dynamics.optimizers import Optimizer

SEQUENCES = 32
"""Sequences that are computed together."""
UNIT_GROUPS = 4
"""Threads that share the hidden units of a sequence."""
MAX_SORTED_BYTES = 32 * 1024
"""Keys of an epoch that are sorted in shared memory; more are sorted in that of the
device."""


class SparsePlan(NamedTuple):
    """How a block computes the network, and the places of its arrays in shared memory,
    counted in numbers of four bytes."""

    layout: SparseLayout
    dim: int
    data: int
    """Number of training sequences."""
    batch: int
    moments: int
    """Number of moments of the optimizer."""
    threads: int
    portion: int
    """Sequences that are computed together."""
    groups: int
    """Threads that share the hidden units of a sequence."""
    max_sorted_bytes: int

    @property
    def stride(self) -> int:
        """Numbers between two rows (unit, token, axis, position) of sequences."""
        return odd_stride(self.portion)

    @property
    def sorted_length(self) -> int:
        """Number of keys that are sorted, a power of two."""
        return 1 << max(0, (self.data - 1).bit_length())

    @property
    def sorts_in_shared(self) -> bool:
        """Whether the keys of an epoch are sorted in shared memory."""
        return 8 * self.sorted_length <= self.max_sorted_bytes

    @property
    def places(self) -> dict[str, int]:
        """The first number of each array in shared memory, and the end of them all."""
        size, rows = self.layout.size, self.layout.positions * self.layout.rows
        vector, stride = self.dim * self.stride, self.stride
        sizes = {
            "weights": size,
            "gradient": size,
            "moments": self.moments * size,
            "table": rows * self.dim,
            "scores": rows,
            "d_table": rows * self.dim,
            "d_scores": rows,
            "tokens": self.layout.positions * stride,
            "target": stride,
            "attention": self.layout.positions * stride,
            "score_errors": self.layout.positions * stride,
            "active": self.layout.hidden * stride,
            "slopes": self.layout.hidden * stride,
            "logits": self.layout.rows * stride,
            "mixed": vector,
            "xi": vector,
            "normalised": vector,
            "zeta": vector,
            "d_zeta": vector,
            "d_xi": vector,
            "d_mixed": vector,
            "factors": 3 * stride,
            "mean": stride,
            "ones": stride,
            "partial": self.groups * vector,
        }
        ends = np.cumsum([0, *sizes.values()]).tolist()
        return dict(zip([*sizes, "end"], ends, strict=True))

    @property
    def first_key(self) -> int:
        """The place of the first key in shared memory, counted in eight bytes: after
        weights and moments, which stay."""
        return -(-self.places["table"] // 2)

    @property
    def shared_bytes(self) -> int:
        """Shared memory of a block."""
        keys = self.first_key + (self.sorted_length if self.sorts_in_shared else 0)
        return max(4 * self.places["end"], 8 * keys)


def sparse_plan(
    layout: SparseLayout, dim: int, data: int, batch: int, moments: int
) -> SparsePlan | None:
    """The plan of a network; None if its weights do not fit into shared memory."""
    portion = min(SEQUENCES, batch)
    threads = round_up(portion * UNIT_GROUPS, WARP)
    plan = SparsePlan(
        layout,
        dim,
        data,
        batch,
        moments,
        threads,
        portion,
        UNIT_GROUPS,
        MAX_SORTED_BYTES,
    )
    while plan.shared_bytes > MAX_SHARED_BYTES and plan.portion > 1:
        plan = plan._replace(portion=plan.portion // 2)
    return plan if plan.shared_bytes <= MAX_SHARED_BYTES else None


# ------------------------------------------------------------------------ normalisation


def _normalisation(layout: SparseLayout) -> Any:
    """A device function of |x|² that returns 1/|x| (0 at the origin), f with N(x) = f x,
    and g with N'(x) dn = f dn + g (x . dn) x / |x|."""
    radius = np.float32(layout.radius)
    epsilon = np.float32(layout.epsilon)
    shrink = np.float32(1 / layout.smooth_width)

    @device_function
    def plain_factors(square):
        if not square > 0:
            return np.float32(0), np.float32(0), np.float32(0)
        length = square_root(square)
        factor = np.float32(1) / (length / radius + epsilon)
        return np.float32(1) / length, factor, -factor * factor / radius

    @device_function
    def smooth_factors(square):
        length = square_root(square)
        inverse = np.float32(1) / length if square > 0 else np.float32(0)
        u = length * shrink
        if u < np.float32(1):
            factor = u * (np.float32(3) - (u + u)) * shrink
            slope = (np.float32(3) - np.float32(4) * u) * shrink * shrink
        else:
            factor = inverse
            slope = -inverse * inverse
        return inverse, radius * factor, radius * slope

    return smooth_factors if layout.smooth else plain_factors


# ------------------------------------------------------------------- order of an epoch


def _sort(plan: SparsePlan, shuffle_keys: Any, bits: int) -> Any:
    """A device function by which a block stores the order of the data of a run in an
    epoch: a bitonic sort of the keys of `dynamics.training.minibatches`."""
    length, data, threads = plan.sorted_length, plan.data, plan.threads
    mask = (1 << bits) - 1
    largest = np.iinfo(np.int64).max

    @device_function
    def sort_epoch(thread, run, seed, epoch, keys, first_key, order):
        """keys: memory for as many keys as are sorted, from `first_key` on."""
        for at in range(thread, length, threads):
            key = largest
            if at < data:
                key = shuffle_keys(seed, np.int64(epoch), np.int64(at), bits)
            keys[index(first_key + at)] = key
        cuda.syncthreads()
        size = 2
        while size <= length:
            step = size // 2
            while step > 0:
                for item in range(thread, length // 2, threads):
                    low = 2 * item - (item & (step - 1))
                    ascends = (low & size) == 0
                    low += first_key
                    first, second = keys[index(low)], keys[index(low + step)]
                    if (first > second) == ascends:
                        keys[index(low)] = second
                        keys[index(low + step)] = first
                cuda.syncthreads()
                step //= 2
            size *= 2
        for at in range(thread, data, threads):
            order[run, at] = keys[index(first_key + at)] & mask
        cuda.syncthreads()

    return sort_epoch


# ------------------------------------------------------------------------ steps of a block


class _Sizes(NamedTuple):
    """Constants of the device functions of a plan."""

    rows: int
    positions: int
    hidden: int
    dim: int
    stride: int
    portion: int
    groups: int
    threads: int


def _sizes(plan: SparsePlan) -> _Sizes:
    layout = plan.layout
    return _Sizes(
        layout.rows,
        layout.positions,
        layout.hidden,
        plan.dim,
        plan.stride,
        plan.portion,
        plan.groups,
        plan.threads,
    )


@functools.cache
def _forward(plan: SparsePlan) -> tuple[Any, ...]:
    """Device functions for the table of normalised embeddings, and for the network on a
    portion of sequences up to the partial sums of the MLP."""
    rows, positions, hidden, dim, stride, portion, groups, threads = _sizes(plan)
    layout, at = plan.layout, plan.places
    position_embedding = layout.position_embedding * dim
    query, value = layout.query * dim, layout.value * dim
    receptor, assembler = layout.receptor * dim, layout.assembler * dim
    receptor_bias = layout.receptor_bias
    at_table, at_scores = at["table"], at["scores"]
    at_tokens, at_attention = at["tokens"], at["attention"]
    at_active, at_slopes, at_partial = at["active"], at["slopes"], at["partial"]
    at_mixed, at_xi, at_normalised = at["mixed"], at["xi"], at["normalised"]
    at_factors = at["factors"]
    root = np.float32(1 / np.sqrt(dim))
    normalisation_factors, activation = (
        _normalisation(layout),
        device_activation(layout.activation),
    )

    @device_function
    def fill_table(thread, shared):
        """The table z of normalised embeddings (position x token, axis), and their
        scores z . q / sqrt d."""
        x = cuda.local.array(dim, float32)
        for row in range(thread, positions * rows, threads):
            square = np.float32(0)
            for axis in range(dim):
                position = position_embedding + quotient(row, rows) * dim + axis
                token = remainder(row, rows) * dim + axis
                x[axis] = shared[index(token)] + shared[index(position)]
                square += x[axis] * x[axis]
            factor = normalisation_factors(square)[1]
            score = np.float32(0)
            for axis in range(dim):
                z = x[axis] * factor
                shared[index(at_table + row * dim + axis)] = z
                score += z * shared[index(query + axis)]
            shared[index(at_scores + row)] = score * root

    @device_function
    def attend(thread, shared, ints, count):
        """Attention, its average, xi, N(xi) and its factors."""
        mixed = cuda.local.array(dim, float32)
        xi = cuda.local.array(dim, float32)
        for place in range(thread, count, threads):
            peak = np.float32(-np.inf)
            for t in range(positions):
                token = ints[index(at_tokens + t * stride + place)]
                score = shared[index(at_scores + t * rows + token)]
                shared[index(at_attention + t * stride + place)] = score
                peak = score if score > peak else peak
            total = np.float32(0)
            for axis in range(dim):
                mixed[axis] = np.float32(0)
            for t in range(positions):
                token = ints[index(at_tokens + t * stride + place)]
                weight = index(at_attention + t * stride + place)
                power = exponential(shared[weight] - peak)
                shared[weight] = power
                total += power
                for axis in range(dim):
                    z = shared[index(at_table + (t * rows + token) * dim + axis)]
                    mixed[axis] += z * power
            scale = np.float32(1) / total
            for t in range(positions):
                shared[index(at_attention + t * stride + place)] *= scale
            square = np.float32(0)
            for axis in range(dim):
                mixed[axis] *= scale
                shared[index(at_mixed + axis * stride + place)] = mixed[axis]
            for axis in range(dim):
                xi[axis] = np.float32(0)
                for other in range(dim):
                    weight = shared[index(value + axis * dim + other)]
                    xi[axis] += weight * mixed[other]
                square += xi[axis] * xi[axis]
            inverse, factor, slope = normalisation_factors(square)
            shared[index(at_factors + place)] = inverse
            shared[index(at_factors + stride + place)] = factor
            shared[index(at_factors + 2 * stride + place)] = slope
            for axis in range(dim):
                shared[index(at_xi + axis * stride + place)] = xi[axis]
                normalised = xi[axis] * factor
                shared[index(at_normalised + axis * stride + place)] = normalised

    @device_function
    def activate(thread, shared, count):
        """Activations, their derivatives, and partial sums of the output of the MLP."""
        normalised = cuda.local.array(dim, float32)
        total = cuda.local.array(dim, float32)
        for item in range(thread, portion * groups, threads):
            place = remainder(item, portion)
            if place < count:
                group = quotient(item, portion)
                for axis in range(dim):
                    total[axis] = np.float32(0)
                    from_axis = index(at_normalised + axis * stride + place)
                    normalised[axis] = shared[from_axis]
                for unit in range(group, hidden, groups):
                    before = np.float32(0)
                    for axis in range(dim):
                        weight = shared[index(receptor + unit * dim + axis)]
                        before += weight * normalised[axis]
                    if receptor_bias >= 0:
                        before += shared[index(receptor_bias + unit)]
                    after, slope = activation(before)
                    shared[index(at_active + unit * stride + place)] = after
                    shared[index(at_slopes + unit * stride + place)] = slope
                    for axis in range(dim):
                        weight = shared[index(assembler + unit * dim + axis)]
                        total[axis] += weight * after
                for axis in range(dim):
                    at = at_partial + (group * dim + axis) * stride + place
                    shared[index(at)] = total[axis]

    return fill_table, attend, activate


@functools.cache
def _decoder(plan: SparsePlan) -> Any:
    """A device function that stores zeta and the logits E zeta of a sequence, and
    returns the largest."""
    rows, _, _, dim, stride, _, groups, _ = _sizes(plan)
    at = plan.places
    at_xi, at_partial, at_zeta = at["xi"], at["partial"], at["zeta"]
    at_logits = at["logits"]
    transform_bias = plan.layout.transform_bias * dim

    @device_function
    def decode(shared, place):
        zeta = cuda.local.array(dim, float32)
        for axis in range(dim):
            zeta[axis] = shared[index(at_xi + axis * stride + place)]
            if transform_bias >= 0:
                zeta[axis] += shared[index(transform_bias + axis)]
            for group in range(groups):
                at = at_partial + (group * dim + axis) * stride + place
                zeta[axis] += shared[index(at)]
            shared[index(at_zeta + axis * stride + place)] = zeta[axis]
        peak = np.float32(-np.inf)
        for token in range(rows):
            logit = np.float32(0)
            for axis in range(dim):
                logit += shared[index(token * dim + axis)] * zeta[axis]
            shared[index(at_logits + token * stride + place)] = logit
            peak = logit if logit > peak else peak
        return peak

    return decode


@functools.cache
def _backward(plan: SparsePlan) -> tuple[Any, ...]:
    """Device functions that pass the derivatives of the loss of a portion back to
    preactivations and attention scores."""
    rows, positions, hidden, dim, stride, portion, groups, threads = _sizes(plan)
    layout, at = plan.layout, plan.places
    value = layout.value * dim
    receptor, assembler = layout.receptor * dim, layout.assembler * dim
    at_table, at_tokens, at_target = at["table"], at["tokens"], at["target"]
    at_attention, at_score_errors = at["attention"], at["score_errors"]
    at_slopes, at_partial, at_logits = at["slopes"], at["partial"], at["logits"]
    at_mixed, at_xi, at_factors = at["mixed"], at["xi"], at["factors"]
    at_d_zeta, at_d_xi, at_d_mixed = at["d_zeta"], at["d_xi"], at["d_mixed"]
    at_mean = at["mean"]
    decode = _decoder(plan)

    @device_function
    def decode_backward(thread, shared, ints, count, weight):
        """Replace logits by the derivatives with respect to them, weight (softmax -
        onehot), and store that with respect to zeta."""
        for place in range(thread, count, threads):
            peak = decode(shared, place)
            total = np.float32(0)
            for token in range(rows):
                at = index(at_logits + token * stride + place)
                shared[at] = exponential(shared[at] - peak)
                total += shared[at]
            scale = weight / total
            target = ints[index(at_target + place)]
            for token in range(rows):
                at = index(at_logits + token * stride + place)
                right = weight if token == target else np.float32(0)
                shared[at] = shared[at] * scale - right
            for axis in range(dim):
                error = np.float32(0)
                for token in range(rows):
                    passed = shared[index(at_logits + token * stride + place)]
                    error += shared[index(token * dim + axis)] * passed
                shared[index(at_d_zeta + axis * stride + place)] = error

    @device_function
    def activate_backward(thread, shared, count):
        """Replace derivatives of activations by those of the loss with respect to
        preactivations, and store partial sums of that with respect to N(xi)."""
        d_zeta = cuda.local.array(dim, float32)
        total = cuda.local.array(dim, float32)
        for item in range(thread, portion * groups, threads):
            place = remainder(item, portion)
            if place < count:
                group = quotient(item, portion)
                for axis in range(dim):
                    total[axis] = np.float32(0)
                    d_zeta[axis] = shared[index(at_d_zeta + axis * stride + place)]
                for unit in range(group, hidden, groups):
                    error = np.float32(0)
                    for axis in range(dim):
                        weight = shared[index(assembler + unit * dim + axis)]
                        error += weight * d_zeta[axis]
                    slope = index(at_slopes + unit * stride + place)
                    error *= shared[slope]
                    shared[slope] = error
                    for axis in range(dim):
                        weight = shared[index(receptor + unit * dim + axis)]
                        total[axis] += weight * error
                for axis in range(dim):
                    at = at_partial + (group * dim + axis) * stride + place
                    shared[index(at)] = total[axis]

    @device_function
    def mix_backward(thread, shared, count):
        """The derivatives with respect to xi and the attention average."""
        error = cuda.local.array(dim, float32)
        for place in range(thread, count, threads):
            inner = np.float32(0)
            for axis in range(dim):
                error[axis] = np.float32(0)
                for group in range(groups):
                    at = at_partial + (group * dim + axis) * stride + place
                    error[axis] += shared[index(at)]
                inner += error[axis] * shared[index(at_xi + axis * stride + place)]
            inverse = shared[index(at_factors + place)]
            factor = shared[index(at_factors + stride + place)]
            slope = shared[index(at_factors + 2 * stride + place)]
            along = slope * inverse * inner
            for axis in range(dim):
                at = axis * stride + place
                through = error[axis] * factor + shared[index(at_xi + at)] * along
                error[axis] = shared[index(at_d_zeta + at)] + through
                shared[index(at_d_xi + at)] = error[axis]
            mean = np.float32(0)
            for axis in range(dim):
                total = np.float32(0)
                for other in range(dim):
                    weight = shared[index(value + other * dim + axis)]
                    total += weight * error[other]
                at = axis * stride + place
                shared[index(at_d_mixed + at)] = total
                mean += total * shared[index(at_mixed + at)]
            shared[index(at_mean + place)] = mean

    @device_function
    def attend_backward(thread, shared, ints, count):
        """The derivatives with respect to attention scores."""
        for item in range(thread, portion * positions, threads):
            place = remainder(item, portion)
            if place < count:
                t = quotient(item, portion)
                token = ints[index(at_tokens + t * stride + place)]
                inner = np.float32(0)
                for axis in range(dim):
                    z = shared[index(at_table + (t * rows + token) * dim + axis)]
                    inner += shared[index(at_d_mixed + axis * stride + place)] * z
                attended = shared[index(at_attention + t * stride + place)]
                error = attended * (inner - shared[index(at_mean + place)])
                shared[index(at_score_errors + t * stride + place)] = error

    return decode_backward, activate_backward, mix_backward, attend_backward


@functools.cache
def _gradients(plan: SparsePlan) -> tuple[Any, ...]:
    """Device functions that sum the gradient over sequences and over the table."""
    rows, positions, hidden, dim, stride, _, _, threads = _sizes(plan)
    layout, at = plan.layout, plan.places
    size = layout.size
    position_embedding = layout.position_embedding * dim
    query, value = layout.query * dim, layout.value * dim
    receptor, assembler = layout.receptor * dim, layout.assembler * dim
    transform_bias = layout.transform_bias * dim
    receptor_bias = layout.receptor_bias
    at_gradient, at_table = at["gradient"], at["table"]
    at_d_table, at_d_scores = at["d_table"], at["d_scores"]
    at_tokens, at_attention = at["tokens"], at["attention"]
    at_score_errors = at["score_errors"]
    at_active, at_slopes, at_logits = at["active"], at["slopes"], at["logits"]
    at_mixed, at_normalised, at_zeta = at["mixed"], at["normalised"], at["zeta"]
    at_d_zeta, at_d_xi, at_d_mixed = at["d_zeta"], at["d_xi"], at["d_mixed"]
    at_ones = at["ones"]
    root = np.float32(1 / np.sqrt(dim))
    normalisation_factors = _normalisation(layout)

    @device_function
    def factors_of(parameter):
        """Places of the rows of sequences whose product, summed, is the gradient of a
        parameter; 0, 0 if it has none."""
        axis = remainder(parameter, dim)
        if parameter < rows * dim:
            token = quotient(parameter, dim)
            return at_logits + token * stride, at_zeta + axis * stride
        if parameter < value:
            return 0, 0
        if parameter < receptor:
            other = quotient(parameter - value, dim)
            return at_d_xi + other * stride, at_mixed + axis * stride
        if parameter < assembler:
            unit = quotient(parameter - receptor, dim)
            return at_slopes + unit * stride, at_normalised + axis * stride
        if parameter < assembler + hidden * dim:
            unit = quotient(parameter - assembler, dim)
            return at_active + unit * stride, at_d_zeta + axis * stride
        if transform_bias >= 0 and parameter < transform_bias + dim:
            return at_d_zeta + axis * stride, at_ones
        return at_slopes + (parameter - receptor_bias) * stride, at_ones

    @device_function
    def add_gradients(thread, shared, ints, count):
        """Add the sums over a portion of sequences: gradients of parameters, and of the
        table and its scores."""
        for parameter in range(thread, size, threads):
            left, right = factors_of(parameter)
            if left > 0:
                total = np.float32(0)
                for place in range(count):
                    total += shared[index(left + place)] * shared[index(right + place)]
                shared[index(at_gradient + parameter)] += total
        for item in range(thread, positions * rows * (dim + 1), threads):
            row = quotient(item, dim + 1)
            column = remainder(item, dim + 1)
            t = quotient(row, rows)
            token = remainder(row, rows)
            total = np.float32(0)
            for place in range(count):
                if ints[index(at_tokens + t * stride + place)] == token:
                    if column < dim:
                        attended = shared[index(at_attention + t * stride + place)]
                        error = shared[index(at_d_mixed + column * stride + place)]
                        total += attended * error
                    else:
                        total += shared[index(at_score_errors + t * stride + place)]
            if column < dim:
                shared[index(at_d_table + row * dim + column)] += total
            else:
                shared[index(at_d_scores + row)] += total

    @device_function
    def table_backward(thread, shared):
        """Replace the gradient of the table by that of what it normalises."""
        x = cuda.local.array(dim, float32)
        error = cuda.local.array(dim, float32)
        for row in range(thread, positions * rows, threads):
            square = np.float32(0)
            inner = np.float32(0)
            of_score = shared[index(at_d_scores + row)] * root
            for axis in range(dim):
                position = position_embedding + quotient(row, rows) * dim + axis
                token = remainder(row, rows) * dim + axis
                x[axis] = shared[index(token)] + shared[index(position)]
                square += x[axis] * x[axis]
                error[axis] = shared[index(at_d_table + row * dim + axis)]
                error[axis] += of_score * shared[index(query + axis)]
                inner += x[axis] * error[axis]
            inverse, factor, slope = normalisation_factors(square)
            along = slope * inverse * inner
            for axis in range(dim):
                passed = error[axis] * factor + x[axis] * along
                shared[index(at_d_table + row * dim + axis)] = passed

    @device_function
    def add_table_gradient(parameter, shared):
        """Add what the gradient of a parameter has from the table."""
        axis = remainder(parameter, dim)
        total = np.float32(0)
        if parameter < rows * dim:
            for t in range(positions):
                row = t * rows + quotient(parameter, dim)
                total += shared[index(at_d_table + row * dim + axis)]
        elif parameter < query:
            for token in range(rows):
                row = quotient(parameter - position_embedding, dim) * rows + token
                total += shared[index(at_d_table + row * dim + axis)]
        elif parameter < value:
            for row in range(positions * rows):
                z = shared[index(at_table + row * dim + axis)]
                total += z * shared[index(at_d_scores + row)]
            total *= root
        shared[index(at_gradient + parameter)] += total

    return add_gradients, table_backward, add_table_gradient


# ------------------------------------------------------------ kernels called from Python


@functools.cache
def sparse_cuda_trainer(
    optimizer: Optimizer, plan: SparsePlan, shuffle_keys: Any, bits: int
) -> Any:
    """The kernel that trains networks of one plan with an optimizer.

    shuffle_keys: that of `dynamics.training.minibatches` as a device function; bits: its
    number of bits for indices."""
    fill_table, attend, activate = _forward(plan)
    decode_backward, activate_backward, mix_backward, attend_backward = _backward(plan)
    add_gradients, table_backward, add_table_gradient = _gradients(plan)
    sort_epoch = _sort(plan, shuffle_keys, bits)
    update_parameter = parameter_update(optimizer)
    size, moments_size = plan.layout.size, plan.moments * plan.layout.size
    threads, portion = plan.threads, plan.portion
    batch, data = plan.batch, plan.data
    batches = -(-data // batch)
    sorts_in_shared, sorted_length = plan.sorts_in_shared, plan.sorted_length
    first_key = plan.first_key
    at = plan.places
    positions, stride = plan.layout.positions, plan.stride
    at_gradient, at_moments, at_table = at["gradient"], at["moments"], at["table"]
    at_target, at_d_table = at["target"], at["d_table"]
    at_tokens, at_ones = at["tokens"], at["ones"]

    @cuda_kernel
    def train_sparse(
        all_weights,
        all_moments,
        all_gradients,
        before,
        tokens,
        targets,
        seeds,
        keys,
        order,
        hyperparameters,
        lr,
        weight_decay,
        numbers,
        epoch,
        first_batch,
        is_ordered,
        steps,
    ):
        """Train the run of each block for `steps` mini-batches, from `first_batch` of an
        epoch on.

        With 0 steps only the gradient is computed. tokens: (run, sequence, position);
        targets: (run, sequence); seeds: (run,), of the order; keys: memory for it;
        order: (run, sequence), that of `epoch` if is_ordered; other arrays as in
        `modular_cuda_trainer`."""
        run = cuda.blockIdx.x
        thread = np.int64(np.uint32(cuda.threadIdx.x))
        shared = cuda.shared.array(0, float32)
        ints = cuda.shared.array(0, int32)
        shared_keys = cuda.shared.array(0, int64)
        weights = shared[:at_gradient]
        gradient = shared[at_gradient:at_moments]
        moments = shared[at_moments:at_table]
        for at in range(thread, size, threads):
            weights[index(at)] = all_weights[run, at]
        for at in range(thread, moments_size, threads):
            moments[index(at)] = all_moments[run, at]
        current = first_batch
        ordered = is_ordered
        for step in range(max(1, steps)):
            if current == batches:
                current = 0
                epoch += 1
                ordered = 0
            cuda.syncthreads()
            if ordered == 0:
                seed = seeds[run]
                if sorts_in_shared:
                    sort_epoch(thread, run, seed, epoch, shared_keys, first_key, order)
                else:
                    begin = run * sorted_length
                    sort_epoch(thread, run, seed, epoch, keys, begin, order)
                ordered = 1
            for at in range(thread, size, threads):
                gradient[index(at)] = np.float32(0)
            for at in range(at_d_table + thread, at_tokens, threads):
                shared[index(at)] = np.float32(0)
            for at in range(thread, stride, threads):
                shared[index(at_ones + at)] = np.float32(1)
            fill_table(thread, shared)
            end = min((current + 1) * batch, data)
            weight = np.float32(1) / np.float32(end - current * batch)
            for begin in range(current * batch, end, portion):
                count = min(portion, end - begin)
                for place in range(thread, count, threads):
                    row = order[run, begin + place]
                    ints[index(at_target + place)] = targets[run, row]
                for item in range(thread, count * positions, threads):
                    place, t = quotient(item, positions), remainder(item, positions)
                    row = order[run, begin + place]
                    ints[index(at_tokens + t * stride + place)] = tokens[run, row, t]
                cuda.syncthreads()
                attend(thread, shared, ints, count)
                cuda.syncthreads()
                activate(thread, shared, count)
                cuda.syncthreads()
                decode_backward(thread, shared, ints, count, weight)
                cuda.syncthreads()
                activate_backward(thread, shared, count)
                cuda.syncthreads()
                mix_backward(thread, shared, count)
                cuda.syncthreads()
                attend_backward(thread, shared, ints, count)
                cuda.syncthreads()
                add_gradients(thread, shared, ints, count)
                cuda.syncthreads()
            table_backward(thread, shared)
            cuda.syncthreads()
            for at in range(thread, size, threads):
                add_table_gradient(at, shared)
                if step == steps - 1:
                    before[run, at] = weights[index(at)]
                if step < steps:
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
            current += 1
        cuda.syncthreads()
        for at in range(thread, size, threads):
            all_weights[run, at] = weights[index(at)]
            all_gradients[run, at] = gradient[index(at)]
        for at in range(thread, moments_size, threads):
            all_moments[run, at] = moments[index(at)]

    return train_sparse


@functools.cache
def sparse_cuda_scorer(plan: SparsePlan) -> Any:
    """The kernel that evaluates networks of one plan."""
    fill_table, attend, activate = _forward(plan)
    decode = _decoder(plan)
    rows, positions, stride = plan.layout.rows, plan.layout.positions, plan.stride
    size, threads, portion = plan.layout.size, plan.threads, plan.portion
    at = plan.places
    at_target, at_tokens = at["target"], at["tokens"]
    at_logits, at_partial = at["logits"], at["partial"]

    @device_function
    def store_scores(shared, ints, place):
        """Cross-entropy and accuracy of a sequence; the accuracy is 1/m if its target
        is one of m equal largest logits."""
        peak = decode(shared, place)
        target = ints[index(at_target + place)]
        right = shared[index(at_logits + target * stride + place)]
        others = np.float32(0)
        equal = np.float32(1)
        best = np.float32(1)
        for token in range(rows):
            if token != target:
                z = shared[index(at_logits + token * stride + place)]
                others += exponential(z - peak)
                equal += np.float32(1) if z == right else np.float32(0)
                best = np.float32(0) if z > right else best
        ahead = right - peak
        if ahead > np.float32(-50):
            loss = np.float32(math.log1p(others / exponential(ahead)))
        elif others > np.float32(0):  # which contains the 1 of the peak
            loss = np.float32(math.log(others)) - ahead
        else:  # logits have overflowed
            loss = ahead
        shared[index(at_partial + place)] = loss
        shared[index(at_partial + stride + place)] = best / equal

    @cuda_kernel
    def score_sparse(all_weights, tokens, targets, counts, totals):
        """Store sums of cross-entropy and accuracy over the sequences of each split.

        counts: (run, sequence, split), how often a sequence occurs in each split;
        totals: (run, 2 x split) float64."""
        run = cuda.blockIdx.x
        thread = np.int64(np.uint32(cuda.threadIdx.x))
        shared = cuda.shared.array(0, float32)
        ints = cuda.shared.array(0, int32)
        splits = counts.shape[2]
        for at in range(thread, size, threads):
            shared[index(at)] = all_weights[run, at]
        for at in range(thread, 2 * splits, threads):
            totals[run, at] = 0.0
        cuda.syncthreads()
        fill_table(thread, shared)
        for begin in range(0, targets.shape[1], portion):
            count = min(portion, targets.shape[1] - begin)
            for place in range(thread, count, threads):
                ints[index(at_target + place)] = targets[run, begin + place]
            for item in range(thread, count * positions, threads):
                place, t = quotient(item, positions), remainder(item, positions)
                token = tokens[run, begin + place, t]
                ints[index(at_tokens + t * stride + place)] = token
            cuda.syncthreads()
            attend(thread, shared, ints, count)
            cuda.syncthreads()
            activate(thread, shared, count)
            cuda.syncthreads()
            for place in range(thread, count, threads):
                store_scores(shared, ints, place)
            cuda.syncthreads()
            for at in range(thread, 2 * splits, threads):
                values = at_partial + quotient(at, splits) * stride
                total = np.float32(0)
                for place in range(count):
                    occurs = np.float32(
                        counts[run, begin + place, remainder(at, splits)]
                    )
                    if occurs != np.float32(0):
                        total += occurs * shared[index(values + place)]
                totals[run, at] += total
            cuda.syncthreads()

    return score_sparse
