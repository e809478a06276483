"""Backpropagation through the clustering head (VC) for an ensemble on a CPU, written
out in closed form.

The gradient is that of `dynamics.networks.ClusteringHead.losses`. Each SIMD lane is a
run with its own sequences, so the bits of a run depend on that run alone. The
normalised embeddings z = N(E + P) of all positions and tokens are computed once per
step, as a table from which each lane selects the rows of its tokens. With attention a,
mixed = sum_t a_t z_t, xi = V mixed, n = N(xi), the receptors w_i and assemblers u_i of
VC (input and output weights of the MLP), preactivations s_i, the activation f and the
weight c of a sequence in the loss, dlogits = c (softmax - onehot) and

    dzeta = E' dlogits,  dg_i = u_i . dzeta,  ds_i = dg_i f'(s_i),  dn = sum_i ds_i w_i,  dxi = dzeta + N'(xi) dn
    dmixed = V' dxi,  dscore_t = a_t (dmixed . (z_t - mixed)),  dz_t = a_t dmixed + dscore_t q / sqrt d
"""

from typing import NamedTuple

import numpy as np

from dynamics.kernels.activations import ACTIVATION_CODES, activate
from dynamics.kernels.compiling import kernel_function
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


class SparseLayout(NamedTuple):
    """Sizes and settings of the network, and the offset of each weight in the flat
    parameters of a run.

    Offsets count rows of D numbers; vectors precede scalars, so that each vector begins
    at a whole row."""

    rows: int  # of the embedding table
    positions: int
    hidden: int
    position_embedding: int
    query: int
    value: int
    receptor: int
    assembler: int
    transform_bias: int  # -1 if there is none
    receptor_bias: int  # counted in single numbers; -1 if there are none
    size: int  # number of parameters
    radius: float  # norm of normalised vectors
    epsilon: float
    smooth: bool
    smooth_width: float
    activation: tuple[int, ...]  # one of `ACTIVATION_CODES`


def sparse_layout(network: ClusteringHead) -> SparseLayout:
    """The layout of a network's parameters."""
    s = network.settings
    dim = network.settings.dim
    at = {name: begin // dim for name, begin in network.begins.items()}
    smooth = s.norm.endswith("smooth")
    radius = 1.0
    epsilon = 0.0
    if s.norm.startswith("rms"):
        radius = float(np.sqrt(dim))
        epsilon = 0.0 if smooth else NORMALISATION_EPSILON
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
        radius=radius,
        epsilon=epsilon,
        smooth=smooth,
        smooth_width=s.smooth_width,
        activation=ACTIVATION_CODES[s.activation],
    )


# ------------------------------------------------------------------------ normalisation


@kernel_function
def _normalisation_factors(x, layout):
    """1/|x| (0 at the origin), f with N(x) = f x, and g with N'(x) dn = f dn + g (x .
    dn) x / |x|."""
    one = scalars(np.float32(1))
    square = dot(x, x)
    length = square_root(square)
    inverse = where_above(square, np.float32(0), one / length)
    radius = scalars(np.float32(layout.radius))
    if layout.smooth:
        shrink = scalars(np.float32(1 / layout.smooth_width))
        u = length * shrink
        inside = where_above(one - u, np.float32(0), one)  # 1 where |x| < width
        polynomial = u * (scalars(np.float32(3)) - (u + u)) * shrink
        factor = radius * (inside * polynomial + (one - inside) * inverse)
        rise = (scalars(np.float32(3)) - scalars(np.float32(4)) * u) * shrink * shrink
        slope = inside * rise - (one - inside) * inverse * inverse
        return inverse, factor, radius * slope
    root_mean = length / radius + scalars(np.float32(layout.epsilon))
    factor = where_above(square, np.float32(0), one / root_mean)
    return inverse, factor, scalars(np.float32(0)) - factor * factor / radius


@kernel_function
def _normalisation_backward(x, error, inverse, factor, slope):
    """Backpropagate `error`, the derivative of the loss with respect to N(x), to x."""
    return error * factor + x * (slope * inverse * dot(x, error))


# ------------------------------------------------------------ one block of sixteen runs


class SparseWorkspace(NamedTuple):
    """Working memory for one block of sixteen runs, each array float32 and flat."""

    table: np.ndarray  # (position x token x axis x lane) normalised embeddings
    d_table: np.ndarray  # the same shape, gradient with respect to the table
    scores: np.ndarray  # (position x token x lane) attention scores of the table
    attention: np.ndarray  # (position x lane)
    active: np.ndarray  # (hidden x lane) activations
    slopes: np.ndarray  # (hidden x lane) their derivatives
    logits: np.ndarray  # (token x lane) logits, then derivatives with respect to them
    product: np.ndarray  # (axis x lane) intermediate vector


@kernel_function
def sparse_workspace(layout, axes):
    """Allocate a workspace."""
    rows = layout.positions * layout.rows
    dim = len(axes)
    return SparseWorkspace(
        np.empty(rows * dim * LANES_32, np.float32),
        np.empty(rows * dim * LANES_32, np.float32),
        np.empty(rows * LANES_32, np.float32),
        np.empty(layout.positions * LANES_32, np.float32),
        np.empty(layout.hidden * LANES_32, np.float32),
        np.empty(layout.hidden * LANES_32, np.float32),
        np.empty(layout.rows * LANES_32, np.float32),
        np.empty(dim * LANES_32, np.float32),
    )


@kernel_function
def fill_normalised_table(weights, layout, table, scores, axes):
    """Store the table z of normalised embeddings (position x token, axis), and their
    scores z . q / sqrt d."""
    query = load_vectors(weights, layout.query, axes) * scalars(
        np.float32(1 / np.sqrt(len(axes)))
    )
    for t in range(layout.positions):
        position = load_vectors(weights, layout.position_embedding + t, axes)
        for token in range(layout.rows):
            x = load_vectors(weights, token, axes) + position
            factor = _normalisation_factors(x, layout)[1]
            z = x * factor
            store_vectors(table, t * layout.rows + token, z)
            store_scalars(scores, t * layout.rows + token, dot(z, query))


@kernel_function
def _vectors_of_tokens(table, t, tokens, layout, axes):
    """The table rows of position t and each lane's own token."""
    value = where_equal(
        tokens, np.float32(0), load_vectors(table, t * layout.rows, axes)
    )
    for token in range(1, layout.rows):
        value += where_equal(
            tokens,
            np.float32(token),
            load_vectors(table, t * layout.rows + token, axes),
        )
    return value


@kernel_function
def _scalars_of_tokens(scores, t, tokens, layout):
    """The attention scores at position t, each lane for its own token."""
    value = where_equal(tokens, np.float32(0), load_scalars(scores, t * layout.rows))
    for token in range(1, layout.rows):
        value += where_equal(
            tokens, np.float32(token), load_scalars(scores, t * layout.rows + token)
        )
    return value


@kernel_function
def _attention_mixture(table, scores, layout, tokens, attention, axes):
    """The embeddings of a sequence averaged with its attention; stores the attention
    (position)."""
    peak = scalars(np.float32(-np.inf))
    for t in range(layout.positions):
        score = _scalars_of_tokens(scores, t, load_scalars(tokens, t), layout)
        store_scalars(attention, t, score)
        peak = maximum(peak, score)
    total = scalars(np.float32(0))
    mixed = repeat_axes(scalars(np.float32(0)), axes)
    for t in range(layout.positions):
        power = exponential(load_scalars(attention, t) - peak)
        store_scalars(attention, t, power)
        total += power
        z = _vectors_of_tokens(table, t, load_scalars(tokens, t), layout, axes)
        mixed = multiply_add(z, power, mixed)
    scale = scalars(np.float32(1)) / total
    for t in range(layout.positions):
        store_scalars(attention, t, load_scalars(attention, t) * scale)
    return mixed * scale


@kernel_function
def _value_product(weights, layout, mixed, product, axes):
    """The product of the value matrix V with `mixed`."""
    for axis in range(len(axes)):
        store_scalars(
            product, axis, dot(load_vectors(weights, layout.value + axis, axes), mixed)
        )
    return load_vectors(product, 0, axes)


@kernel_function
def _mlp(weights, layout, xi, normalised, active, slopes, axes):
    """The output zeta of the MLP with its skip connection; stores the activations and
    their derivatives."""
    zeta = xi
    if layout.transform_bias >= 0:
        zeta = zeta + load_vectors(weights, layout.transform_bias, axes)
    for unit in range(layout.hidden):
        before = dot(load_vectors(weights, layout.receptor + unit, axes), normalised)
        if layout.receptor_bias >= 0:
            before += load_scalars(weights, layout.receptor_bias + unit)
        after, slope = activate(before, layout.activation)
        store_scalars(active, unit, after)
        store_scalars(slopes, unit, slope)
        zeta = multiply_add(
            load_vectors(weights, layout.assembler + unit, axes), after, zeta
        )
    return zeta


@kernel_function
def _decode(weights, layout, zeta, logits, axes):
    """Store the logits E zeta (token); return the largest."""
    peak = scalars(np.float32(-np.inf))
    for token in range(layout.rows):
        logit = dot(load_vectors(weights, token, axes), zeta)
        store_scalars(logits, token, logit)
        peak = maximum(peak, logit)
    return peak


@kernel_function
def _decode_backward(
    weights, layout, zeta, target, weight, peak, errors, gradient, axes
):
    """Derivative of the loss with respect to zeta, from the logits in `errors`; adds
    the gradient of E as decoder."""
    total = scalars(np.float32(0))
    for token in range(layout.rows):
        power = exponential(load_scalars(errors, token) - peak)
        store_scalars(errors, token, power)
        total += power
    scale = weight / total
    d_zeta = repeat_axes(scalars(np.float32(0)), axes)
    for token in range(layout.rows):
        error = load_scalars(errors, token) * scale - where_equal(
            target, np.float32(token), weight
        )
        add_vectors(gradient, token, zeta * error, axes)
        d_zeta = multiply_add(load_vectors(weights, token, axes), error, d_zeta)
    return d_zeta


@kernel_function
def _mlp_backward(weights, layout, normalised, d_zeta, active, slopes, gradient, axes):
    """Derivative of the loss with respect to N(xi), from that with respect to zeta;
    adds the gradient of the MLP."""
    if layout.transform_bias >= 0:
        add_vectors(gradient, layout.transform_bias, d_zeta, axes)
    d_normalised = repeat_axes(scalars(np.float32(0)), axes)
    for unit in range(layout.hidden):
        assembler = load_vectors(weights, layout.assembler + unit, axes)
        add_vectors(
            gradient, layout.assembler + unit, d_zeta * load_scalars(active, unit), axes
        )
        error = dot(assembler, d_zeta) * load_scalars(slopes, unit)
        add_vectors(gradient, layout.receptor + unit, normalised * error, axes)
        if layout.receptor_bias >= 0:
            add_scalars(gradient, layout.receptor_bias + unit, error)
        d_normalised = multiply_add(
            load_vectors(weights, layout.receptor + unit, axes), error, d_normalised
        )
    return d_normalised


@kernel_function
def _attention_backward(
    weights, table, layout, tokens, attention, mixed, d_mixed, d_table, gradient, axes
):
    """Add the gradients of the table and the query, from the derivative with respect to
    the attention average."""
    query = load_vectors(weights, layout.query, axes) * scalars(
        np.float32(1 / np.sqrt(len(axes)))
    )
    mean = dot(d_mixed, mixed)
    d_query = repeat_axes(scalars(np.float32(0)), axes)
    for t in range(layout.positions):
        own_token = load_scalars(tokens, t)
        z = _vectors_of_tokens(table, t, own_token, layout, axes)
        attended = load_scalars(attention, t)
        error = attended * (dot(d_mixed, z) - mean)
        d_query = multiply_add(z, error, d_query)
        d_z = d_mixed * attended + query * error
        for token in range(layout.rows):
            row = t * layout.rows + token
            add_vectors(
                d_table, row, where_equal(own_token, np.float32(token), d_z), axes
            )
    add_vectors(
        gradient,
        layout.query,
        d_query * scalars(np.float32(1 / np.sqrt(len(axes)))),
        axes,
    )


@kernel_function
def add_embedding_gradients(weights, layout, d_table, gradient, axes):
    """Add the gradients of token and position embeddings, from that of the table."""
    for t in range(layout.positions):
        position = load_vectors(weights, layout.position_embedding + t, axes)
        for token in range(layout.rows):
            x = load_vectors(weights, token, axes) + position
            inverse, factor, slope = _normalisation_factors(x, layout)
            error = load_vectors(d_table, t * layout.rows + token, axes)
            error = _normalisation_backward(x, error, inverse, factor, slope)
            add_vectors(gradient, token, error, axes)
            add_vectors(gradient, layout.position_embedding + t, error, axes)


@kernel_function
def sequence_forward(weights, layout, work, tokens, axes):
    """Compute the network on one sequence per lane.

    Returns the attention average, xi, N(xi), its three `_normalisation_factors`, zeta
    and the largest logit; attention, activations and logits are stored in `work`."""
    table, _, scores, attention, active, slopes, logits, product = work
    mixed = _attention_mixture(table, scores, layout, tokens, attention, axes)
    xi = _value_product(weights, layout, mixed, product, axes)
    inverse, factor, slope = _normalisation_factors(xi, layout)
    normalised = xi * factor
    zeta = _mlp(weights, layout, xi, normalised, active, slopes, axes)
    return (
        mixed,
        xi,
        normalised,
        inverse,
        factor,
        slope,
        zeta,
        _decode(weights, layout, zeta, logits, axes),
    )


@kernel_function
def add_sequence_gradient(
    weights, layout, work, tokens, target, weight, gradient, axes
):
    """Add the gradient of one sequence per lane: tokens (position x lane), its target
    and its weight in the loss."""
    table, d_table, _, attention, active, slopes, errors, product = work
    mixed, xi, normalised, inverse, factor, slope, zeta, peak = sequence_forward(
        weights, layout, work, tokens, axes
    )
    d_zeta = _decode_backward(
        weights, layout, zeta, target, weight, peak, errors, gradient, axes
    )
    d_normalised = _mlp_backward(
        weights, layout, normalised, d_zeta, active, slopes, gradient, axes
    )
    d_xi = d_zeta + _normalisation_backward(xi, d_normalised, inverse, factor, slope)
    store_vectors(product, 0, d_xi)
    d_mixed = repeat_axes(scalars(np.float32(0)), axes)
    for axis in range(len(axes)):
        error = load_scalars(product, axis)
        add_vectors(gradient, layout.value + axis, mixed * error, axes)
        d_mixed = multiply_add(
            load_vectors(weights, layout.value + axis, axes), error, d_mixed
        )
    _attention_backward(
        weights,
        table,
        layout,
        tokens,
        attention,
        mixed,
        d_mixed,
        d_table,
        gradient,
        axes,
    )
