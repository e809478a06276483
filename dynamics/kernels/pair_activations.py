"""The hidden layer of the constant-attention network (CA) for one run: what is between
its matrix products.

With the projected embeddings T = E W_h', the argument of the activation f for the pair
(i, j) is x = T_i + T_j + b_h, and its gradient, f'(x) times that of f(x), is added to the
rows i and j of that of T. ReLU is computed here, other activations by torch."""

from dynamics.kernels.compiling import cached_kernel


@cached_kernel(nogil=True)
def sum_pairs(projected, bias, first, second, rectify, sums):
    """Store the arguments of the activations (pair, hidden) of pairs of tokens (pair,),
    from projected embeddings (token, hidden); with `rectify` their ReLU."""
    zero = sums.dtype.type(0)
    for pair in range(len(first)):
        one, other, out = projected[first[pair]], projected[second[pair]], sums[pair]
        for k in range(len(bias)):
            value = one[k] + other[k] + bias[k]
            out[k] = zero if rectify and value <= 0 else value  # NaN remains NaN


@cached_kernel(nogil=True)
def add_pair_gradients(gradients, slopes, rectified, first, second, by_token):
    """Add gradients times slopes, both (pair, hidden), to the rows `by_token` (token,
    hidden) of both tokens of each pair.

    slopes: derivatives of the activations; of ReLU (`rectified`) the activations, which
    are positive where its derivative is 1.
    """
    zero = gradients.dtype.type(0)
    for pair in range(len(first)):
        gradient, slope = gradients[pair], slopes[pair]
        if rectified:
            for k in range(len(slope)):
                gradient[k] = gradient[k] if slope[k] > 0 else zero
        else:
            for k in range(len(slope)):
                gradient[k] *= slope[k]
        for token in (first[pair], second[pair]):
            total = by_token[token]
            for k in range(len(gradient)):
                total[k] += gradient[k]
