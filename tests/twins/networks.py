"""The loss of CA's network in float64."""

import numpy as np

from dynamics import all_pairs, read_settings, training_pairs

NAMES = ("embedding", "hidden_weight", "hidden_bias", "output_weight", "output_bias")


def pairs_of(trajectory, run):
    """The training pairs of a run, a list of (a, b)."""
    s = read_settings(trajectory)
    seeds = trajectory["seed"].values[run : run + 1]
    chosen = training_pairs(s.n, s.train_pairs, seeds)[0]
    return [tuple(map(int, p)) for p in all_pairs(s.n)[chosen]]


def weights_of(trajectory, run, frame):
    return {name: trajectory[name].values[run, frame].astype(float) for name in NAMES}


def flat(weights):
    return np.concatenate([weights[name].ravel() for name in NAMES])


def unflat(vector, like):
    result, at = {}, 0
    for name in NAMES:
        shape = like[name].shape
        result[name] = vector[at : at + like[name].size].reshape(shape)
        at += like[name].size
    return result


def modular_loss(weights, pairs, n):
    """The mean cross-entropy of CA's network."""
    total = 0.0
    for a, b in pairs:
        sums = weights["embedding"][a] + weights["embedding"][b]
        hidden = weights["hidden_weight"] @ sums + weights["hidden_bias"]
        o = weights["output_weight"] @ np.maximum(hidden, 0) + weights["output_bias"]
        most = o.max()
        total += most + np.log(np.exp(o - most).sum()) - o[(a + b) % n]
    return total / len(pairs)


def active_units(weights, pairs):
    """The hidden units that are on, for each pair."""
    e = weights["embedding"]
    before = [
        weights["hidden_weight"] @ (e[a] + e[b]) + weights["hidden_bias"]
        for a, b in pairs
    ]
    return np.array(before) > 0


def modular_gradient(weights, pairs, n, active=None):
    """Its derivative by all weights, flat in the order of NAMES; with given units on, if
    not those of the weights."""
    if active is None:
        active = active_units(weights, pairs)
    e, wh, bh, wo, bo = (weights[name] for name in NAMES)
    gradient = {name: np.zeros_like(weights[name]) for name in NAMES}
    for (a, b), on in zip(pairs, active, strict=True):
        hidden = (wh @ (e[a] + e[b]) + bh) * on
        o = wo @ hidden + bo
        p = np.exp(o - o.max())
        p /= p.sum()
        p[(a + b) % n] -= 1
        p /= len(pairs)
        back = (wo.T @ p) * on
        gradient["output_bias"] += p
        gradient["output_weight"] += np.outer(p, hidden)
        gradient["hidden_bias"] += back
        gradient["hidden_weight"] += np.outer(back, e[a] + e[b])
        gradient["embedding"][a] += wh.T @ back
        gradient["embedding"][b] += wh.T @ back
    return flat(gradient)


def embedding_gradient(weights, pairs, n):
    """Its derivative by the embedding."""
    return unflat(modular_gradient(weights, pairs, n), weights)["embedding"]


def modular_hessian(weights, pairs, n):
    """Central differences of the gradient, in which no unit is switched: the second
    derivative of ReLU is 0."""
    x, active = flat(weights), active_units(weights, pairs)
    rows = []
    for k in range(len(x)):
        ends = []
        for h in (2e-4, -2e-4, 1e-4, -1e-4):
            moved = x.copy()
            moved[k] += h
            ends.append(modular_gradient(unflat(moved, weights), pairs, n, active))
        coarse, fine = (ends[0] - ends[1]) / 4e-4, (ends[2] - ends[3]) / 2e-4
        rows.append((4 * fine - coarse) / 3)
    hessian = np.array(rows)
    return (hessian + hessian.T) / 2
