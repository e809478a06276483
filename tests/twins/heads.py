"""VC's network in float64, with all sequences, and trajectories of given weights."""

import functools
import itertools
import math

import numpy as np

from dynamics import SparseSettings, simulate

EPSILON = 1e-5
LAYERS = (
    "embedding",
    "position_embedding",
    "query",
    "value",
    "receptor",
    "receptor_bias",
    "assembler",
    "transform_bias",
)


@functools.cache
def trained(settings, runs, frames):
    """Networks after a few updates."""
    steps = max(frames - 1, 1)
    return simulate(settings, runs=runs, steps=steps, every=1, progress=False)


def settings_of(vocab, length, positions, dim, norm, hidden=48):
    return SparseSettings(
        vocab=vocab,
        length=length,
        sparsity=len(positions),
        positions=positions,
        dim=dim,
        norm=norm,
        hidden=hidden,
        data=16,
        batch=16,
    )


def all_sequences(settings):
    return list(itertools.product(range(settings.vocab), repeat=settings.length))


def target_of(x, settings):
    return sum(x[t] for t in settings.counting) % settings.vocab


def normalise(x, name):
    """To norm 1 or to root mean square 1, smooth near the origin."""
    size = math.sqrt(float(x @ x))
    if size == 0:
        return 0 * x
    if name == "rms":
        return x / (size / math.sqrt(len(x)) + EPSILON)
    radius = math.sqrt(len(x)) if name.startswith("rms") else 1.0
    factor = 1.0
    if name.endswith("smooth") and size < 1:
        factor = size**2 * (3 - 2 * size)
    return radius * factor * x / size


def gelu(x):
    return 0.5 * x * (1 + math.erf(x / math.sqrt(2)))


def weights_of(trajectory, run, frame):
    return {name: trajectory[name].values[run, frame].astype(float) for name in LAYERS}


def table_of(weights, settings):
    """z of each position and token."""
    e, p = weights["embedding"], weights["position_embedding"]
    return np.array([[normalise(a + b, settings.norm) for a in e] for b in p])


def attend(x, weights, table):
    """The attention of a sequence to each position, and its embedding."""
    z = np.array([table[t, v] for t, v in enumerate(x)])
    scores = z @ weights["query"] / math.sqrt(z.shape[1])
    share = np.exp(scores - scores.max())
    share /= share.sum()
    return share, weights["value"] @ (share @ z)


def transform(xi, weights, settings, normalised=None):
    """zeta of a sequence embedding."""
    if normalised is None:
        normalised = normalise(xi, settings.norm)
    before = weights["receptor"] @ normalised + weights["receptor_bias"]
    return (
        xi
        + np.array([gelu(v) for v in before]) @ weights["assembler"]
        + weights["transform_bias"]
    )


def losses_of(logits, targets):
    """The cross-entropy of each sequence."""
    most = logits.max(axis=1)
    whole = most + np.log(np.exp(logits - most[:, None]).sum(axis=1))
    return whole - logits[range(len(targets)), targets]


def spread(xi):
    """The variance summed over axes."""
    return ((xi - xi.mean(axis=0)) ** 2).sum() / len(xi)


def variance(xi):
    """The variance summed over axes; NaN if it is rounding only."""
    result = spread(xi)
    return result if result > 1e-12 * (xi**2).sum(axis=1).max() else math.nan


def between(xi, groups):
    """The fraction of the variance between groups."""
    means = {}
    for group, point in zip(groups, xi, strict=True):
        means.setdefault(group, []).append(point)
    means = {group: np.mean(points, axis=0) for group, points in means.items()}
    centre = xi.mean(axis=0)
    return (
        sum(((means[g] - centre) ** 2).sum() for g in groups) / len(xi) / variance(xi)
    )
