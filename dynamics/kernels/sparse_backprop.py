"""The gradient of VC's network for an ensemble on a processor: `clustering_head.ClusteringHead`, in closed form.

A lane is a run (`dynamics.kernels.simd`): sixteen runs, each with sequences of its own, go through the same
arithmetic, and a
run's bits depend on itself alone. Normalised embeddings are computed once a step, one for every position and token; a
lane takes from this table what its own token asks for. With z = N(E + P), attention a, mixed = sum_t a_t z_t, and
n = N(xi), backwards from the loss's derivative by the logits, dlogits = share (softmax - onehot):

    dzeta = E' dlogits,  da_i = u_i . dzeta,  ds_i = da_i GELU'(s_i),  dn = sum_i ds_i w_i,  dxi = dzeta + N'(xi) dn
    dmixed = V' dxi,  dscore_t = a_t (dmixed . (z_t - mixed)),  dz_t = a_t dmixed + dscore_t q / sqrt d
"""

from typing import NamedTuple

import numpy as np
from numba import njit

from dynamics.kernels.simd import (
    LANES_32,
    add_scalars,
    add_vectors,
    dot,
    exponential,
    load_scalars,
    load_vectors,
    maximum,
    multiply_add,
    repeat_axes,
    scalars,
    square_root,
    store_scalars,
    store_vectors,
    where_above,
    where_equal,
)
from dynamics.networks.clustering_head import NORMALISATION_EPSILON, ClusteringHead

_RELU, _GELU = range(2)


class SparseLayout(NamedTuple):
    """Sizes and choices, and at which row of `axis` numbers each weight begins in a run's flat parameters.

    Vectors stand before scalars, so that all of them are whole rows.
    """

    rows: int
    positions: int
    hidden: int
    position_embedding: int
    query: int
    value: int
    receptor: int
    assembler: int
    transform_bias: int  # -1 where there is none
    receptor_bias: int  # counted in single numbers, as is; -1 where there are none
    size: int  # of all parameters
    radius: float  # of the norm
    epsilon: float
    smooth: bool
    activation: int


def sparse_layout(network: ClusteringHead) -> SparseLayout:
    """Where each weight of a network stands."""
    s, dim = network.settings, network.settings.dim
    at = {name: begin // dim for name, begin in network.begins.items()}
    rms, smooth = s.norm.startswith("rms"), s.norm.endswith("smooth")
    return SparseLayout(
        rows=s.rows,
        positions=s.length,
        hidden=s.hidden,
        position_embedding=at["position_embedding"],
        query=at["query"],
        value=at["value"],
        receptor=at["receptor"],
        assembler=at["assembler"],
        transform_bias=at.get("transform_bias", -1),
        receptor_bias=network.begins.get("receptor_bias", -1),
        size=sum(network.lengths),
        radius=float(np.sqrt(dim)) if rms else 1.0,
        epsilon=NORMALISATION_EPSILON if rms and not smooth else 0.0,
        smooth=smooth,
        activation=_GELU if s.activation == "gelu" else _RELU,
    )


# ------------------------------------------------------------------------------------------ normalisation


@njit(error_model="numpy")
def _normalisation_factors(x, layout):
    """1/|x|, 0 at the origin; f with N(x) = f x; and g with N'(x) dn = f dn + g (x . dn) x / |x|."""
    one = scalars(np.float32(1))
    square = dot(x, x)
    length = square_root(square)
    inverse = where_above(square, np.float32(0), one / length)
    radius = scalars(np.float32(layout.radius))
    if layout.smooth:
        inside = where_above(one - length, np.float32(0), one)  # 1 where |x| < 1
        polynomial = length * (scalars(np.float32(3)) - (length + length))
        factor = radius * (inside * polynomial + (one - inside) * inverse)
        slope = inside * (scalars(np.float32(3)) - scalars(np.float32(4)) * length) - (one - inside) * inverse * inverse
        return inverse, factor, radius * slope
    root_mean = length / radius + scalars(np.float32(layout.epsilon))
    factor = where_above(square, np.float32(0), one / root_mean)
    return inverse, factor, scalars(np.float32(0)) - factor * factor / radius


@njit(error_model="numpy")
def _normalisation_backward(x, error, inverse, factor, slope):
    """The derivative by x of what has the derivative `error` by N(x)."""
    return error * factor + x * (slope * inverse * dot(x, error))


# --------------------------------------------------------------------------------------------- activation


@njit(error_model="numpy")
def gelu(x):
    """x Phi(x) and its derivative Phi(x) + x phi(x); Phi to 1e-7 by Abramowitz and Stegun 7.1.26."""
    one, zero = scalars(np.float32(1)), scalars(np.float32(0))
    size = maximum(x, zero - x) * scalars(np.float32(0.70710678))
    density = exponential(zero - size * size)  # e^(-x²/2)
    t = one / multiply_add(size, scalars(np.float32(0.3275911)), one)
    tail = scalars(np.float32(1.061405429))
    tail = multiply_add(tail, t, scalars(np.float32(-1.453152027)))
    tail = multiply_add(tail, t, scalars(np.float32(1.421413741)))
    tail = multiply_add(tail, t, scalars(np.float32(-0.284496736)))
    tail = multiply_add(tail, t, scalars(np.float32(0.254829592)))
    beyond = tail * t * density * scalars(np.float32(0.5))  # Phi(-|x|)
    above = where_above(x, np.float32(0), one)
    phi = beyond + above * (one - beyond - beyond)
    return x * phi, multiply_add(x * density, scalars(np.float32(0.39894228)), phi)


@njit(error_model="numpy")
def _activation(x, layout):
    """The activation and its derivative."""
    if layout.activation == _GELU:
        return gelu(x)
    one = where_above(x, np.float32(0), scalars(np.float32(1)))
    return one * x, one


# -------------------------------------------------------------------------------------- one block of runs


@njit(error_model="numpy")
def fill_normalised_table(weights, layout, table, scores, axes):
    """z (position x token, axis) and its score z . q / sqrt d."""
    query = load_vectors(weights, layout.query, axes) * scalars(np.float32(1 / np.sqrt(len(axes))))
    for place in range(layout.positions):
        position = load_vectors(weights, layout.position_embedding + place, axes)
        for token in range(layout.rows):
            x = load_vectors(weights, token, axes) + position
            factor = _normalisation_factors(x, layout)[1]
            z = x * factor
            store_vectors(table, place * layout.rows + token, z)
            store_scalars(scores, place * layout.rows + token, dot(z, query))


@njit(error_model="numpy")
def _vectors_of_tokens(table, place, tokens, layout, axes):
    """The row of a position at each lane's own token."""
    value = where_equal(tokens, np.float32(0), load_vectors(table, place * layout.rows, axes))
    for token in range(1, layout.rows):
        value += where_equal(tokens, np.float32(token), load_vectors(table, place * layout.rows + token, axes))
    return value


@njit(error_model="numpy")
def _scalars_of_tokens(scores, place, tokens, layout):
    """The score of a position at each lane's own token."""
    value = where_equal(tokens, np.float32(0), load_scalars(scores, place * layout.rows))
    for token in range(1, layout.rows):
        value += where_equal(tokens, np.float32(token), load_scalars(scores, place * layout.rows + token))
    return value


@njit(error_model="numpy")
def _attention_mixture(table, scores, layout, tokens, attention, axes):
    """The mixture of a sequence's embeddings, by its attention (position), which is kept."""
    peak = scalars(np.float32(-np.inf))
    for place in range(layout.positions):
        score = _scalars_of_tokens(scores, place, load_scalars(tokens, place), layout)
        store_scalars(attention, place, score)
        peak = maximum(peak, score)
    total, mixed = scalars(np.float32(0)), repeat_axes(scalars(np.float32(0)), axes)
    for place in range(layout.positions):
        power = exponential(load_scalars(attention, place) - peak)
        store_scalars(attention, place, power)
        total += power
        z = _vectors_of_tokens(table, place, load_scalars(tokens, place), layout, axes)
        mixed = multiply_add(z, power, mixed)
    scale = scalars(np.float32(1)) / total
    for place in range(layout.positions):
        store_scalars(attention, place, load_scalars(attention, place) * scale)
    return mixed * scale


@njit(error_model="numpy")
def _value_product(weights, layout, mixed, product, axes):
    """V mixed."""
    for axis in range(len(axes)):
        store_scalars(product, axis, dot(load_vectors(weights, layout.value + axis, axes), mixed))
    return load_vectors(product, 0, axes)


@njit(error_model="numpy")
def _mlp(weights, layout, xi, flat, active, slopes, axes):
    """zeta of a sequence embedding and its normalised form; activations and their derivatives are kept."""
    zeta = xi
    if layout.transform_bias >= 0:
        zeta = zeta + load_vectors(weights, layout.transform_bias, axes)
    for unit in range(layout.hidden):
        before = dot(load_vectors(weights, layout.receptor + unit, axes), flat)
        if layout.receptor_bias >= 0:
            before += load_scalars(weights, layout.receptor_bias + unit)
        after, slope = _activation(before, layout)
        store_scalars(active, unit, after)
        store_scalars(slopes, unit, slope)
        zeta = multiply_add(load_vectors(weights, layout.assembler + unit, axes), after, zeta)
    return zeta


@njit(error_model="numpy")
def _decode(weights, layout, zeta, logits, axes):
    """E zeta (token), and its largest."""
    peak = scalars(np.float32(-np.inf))
    for token in range(layout.rows):
        logit = dot(load_vectors(weights, token, axes), zeta)
        store_scalars(logits, token, logit)
        peak = maximum(peak, logit)
    return peak


@njit(error_model="numpy")
def _decode_backward(weights, layout, zeta, target, share, peak, errors, gradient, axes):
    """From logits, in errors, to the loss's derivative by zeta; the gradient of the decoding embeddings is added."""
    total = scalars(np.float32(0))
    for token in range(layout.rows):
        power = exponential(load_scalars(errors, token) - peak)
        store_scalars(errors, token, power)
        total += power
    scale, back = share / total, repeat_axes(scalars(np.float32(0)), axes)
    for token in range(layout.rows):
        error = load_scalars(errors, token) * scale - where_equal(target, np.float32(token), share)
        add_vectors(gradient, token, zeta * error, axes)
        back = multiply_add(load_vectors(weights, token, axes), error, back)
    return back


@njit(error_model="numpy")
def _mlp_backward(weights, layout, flat, back, active, slopes, gradient, axes):
    """From the derivative by zeta to that by N(xi); the gradient of the feed-forward layer is added."""
    if layout.transform_bias >= 0:
        add_vectors(gradient, layout.transform_bias, back, axes)
    towards = repeat_axes(scalars(np.float32(0)), axes)
    for unit in range(layout.hidden):
        assembler = load_vectors(weights, layout.assembler + unit, axes)
        add_vectors(gradient, layout.assembler + unit, back * load_scalars(active, unit), axes)
        error = dot(assembler, back) * load_scalars(slopes, unit)
        add_vectors(gradient, layout.receptor + unit, flat * error, axes)
        if layout.receptor_bias >= 0:
            add_scalars(gradient, layout.receptor_bias + unit, error)
        towards = multiply_add(load_vectors(weights, layout.receptor + unit, axes), error, towards)
    return towards


@njit(error_model="numpy")
def _attention_backward(weights, table, layout, tokens, attention, mixed, back, by_table, gradient, axes):
    """From the derivative by the mixture to those by the table's rows and by the query."""
    query = load_vectors(weights, layout.query, axes) * scalars(np.float32(1 / np.sqrt(len(axes))))
    mean, by_query = dot(back, mixed), repeat_axes(scalars(np.float32(0)), axes)
    for place in range(layout.positions):
        own = load_scalars(tokens, place)
        z, share = _vectors_of_tokens(table, place, own, layout, axes), load_scalars(attention, place)
        error = share * (dot(back, z) - mean)
        by_query = multiply_add(z, error, by_query)
        reached = back * share + query * error
        for token in range(layout.rows):
            row = place * layout.rows + token
            add_vectors(by_table, row, where_equal(own, np.float32(token), reached), axes)
    add_vectors(gradient, layout.query, by_query * scalars(np.float32(1 / np.sqrt(len(axes)))), axes)


@njit(error_model="numpy")
def add_embedding_gradients(weights, layout, by_table, gradient, axes):
    """From the gradient of the table to those of both embeddings."""
    for place in range(layout.positions):
        position = load_vectors(weights, layout.position_embedding + place, axes)
        for token in range(layout.rows):
            x = load_vectors(weights, token, axes) + position
            inverse, factor, slope = _normalisation_factors(x, layout)
            error = load_vectors(by_table, place * layout.rows + token, axes)
            error = _normalisation_backward(x, error, inverse, factor, slope)
            add_vectors(gradient, token, error, axes)
            add_vectors(gradient, layout.position_embedding + place, error, axes)


@njit(error_model="numpy")
def sequence_forward(weights, layout, work, tokens, axes):
    """A sequence's mixture, xi, N(xi) with what its derivative wants, zeta, the largest logit; work has the rest."""
    table, _, scores, attention, active, slopes, logits, product = work
    mixed = _attention_mixture(table, scores, layout, tokens, attention, axes)
    xi = _value_product(weights, layout, mixed, product, axes)
    inverse, factor, slope = _normalisation_factors(xi, layout)
    flat = xi * factor
    zeta = _mlp(weights, layout, xi, flat, active, slopes, axes)
    return mixed, xi, flat, inverse, factor, slope, zeta, _decode(weights, layout, zeta, logits, axes)


@njit(error_model="numpy")
def add_sequence_gradient(weights, layout, work, tokens, target, share, gradient, axes):
    """Add a sequence's part of the gradient: tokens (position x lane), target and the weight of its loss (lane)."""
    table, by_table, _, attention, active, slopes, errors, product = work
    mixed, xi, flat, inverse, factor, slope, zeta, peak = sequence_forward(weights, layout, work, tokens, axes)
    back = _decode_backward(weights, layout, zeta, target, share, peak, errors, gradient, axes)
    towards = _mlp_backward(weights, layout, flat, back, active, slopes, gradient, axes)
    by_xi = back + _normalisation_backward(xi, towards, inverse, factor, slope)
    store_vectors(product, 0, by_xi)
    by_mixed = repeat_axes(scalars(np.float32(0)), axes)
    for axis in range(len(axes)):
        error = load_scalars(product, axis)
        add_vectors(gradient, layout.value + axis, mixed * error, axes)
        by_mixed = multiply_add(load_vectors(weights, layout.value + axis, axes), error, by_mixed)
    _attention_backward(weights, table, layout, tokens, attention, mixed, by_mixed, by_table, gradient, axes)


@njit(error_model="numpy")
def sparse_workspace(layout, axes):
    """Memory for one block of sixteen runs."""
    rows, dim = layout.positions * layout.rows, len(axes)
    return (
        np.empty(rows * dim * LANES_32, np.float32),
        np.empty(rows * dim * LANES_32, np.float32),
        np.empty(rows * LANES_32, np.float32),
        np.empty(layout.positions * LANES_32, np.float32),
        np.empty(layout.hidden * LANES_32, np.float32),
        np.empty(layout.hidden * LANES_32, np.float32),
        np.empty(layout.rows * LANES_32, np.float32),
        np.empty(dim * LANES_32, np.float32),
    )
