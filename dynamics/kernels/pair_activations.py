"""The hidden layer of the constant-attention network (CA) for one run: what is between
its matrix products.

With the projected embeddings T = E W_h', the activation of the pair (i, j) is a =
relu(T_i + T_j + b_h), and its gradient is added to the rows i and j of that of T where
a > 0."""

from dynamics.kernels.compiling import cached_kernel


@cached_kernel(nogil=True)
def activate_pairs(projected, bias, first, second, active):
    """Store the activations (pair, hidden) of pairs of tokens (pair,), from projected
    embeddings (token, hidden)."""
    zero = active.dtype.type(0)
    for pair in range(len(first)):
        one, other, out = projected[first[pair]], projected[second[pair]], active[pair]
        for k in range(len(bias)):
            value = one[k] + other[k] + bias[k]
            out[k] = zero if value <= 0 else value  # NaN remains NaN


@cached_kernel(nogil=True)
def add_pair_gradients(passed, active, first, second, by_token):
    """Add the gradients `passed` (pair, hidden) to the rows `by_token` (token, hidden)
    of both tokens of each pair.

    The gradients of units that are not active are first set to zero.
    """
    zero = passed.dtype.type(0)
    for pair in range(len(first)):
        gradient, values = passed[pair], active[pair]
        for k in range(len(values)):
            gradient[k] = gradient[k] if values[k] > 0 else zero
        for token in (first[pair], second[pair]):
            total = by_token[token]
            for k in range(len(values)):
                total[k] += gradient[k]
