"""VC's network in plain numpy, float64."""

import itertools
import math

import numpy as np

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


def weights_of(trajectory, run, frame):
    return {name: trajectory[name].values[run, frame].astype(float) for name in LAYERS}


def sequences(vocab, length):
    """All sequences."""
    return list(itertools.product(range(vocab), repeat=length))


def normalised(x):
    """To a root mean square of 1; 0 stays 0."""
    return x / (math.sqrt((x**2).mean()) + 1e-5)


def sequence_embedding(weights, tokens):
    """The sequence embedding, and the attention on each position."""
    e, p, q = (weights[name] for name in ("embedding", "position_embedding", "query"))
    z = np.array([normalised(e[x] + p[t]) for t, x in enumerate(tokens)])
    scores = z @ q / math.sqrt(len(q))
    attention = np.exp(scores - scores.max())
    attention /= attention.sum()
    return weights["value"] @ (attention @ z), attention


def logits(weights, tokens):
    xi, _ = sequence_embedding(weights, tokens)
    before = weights["receptor"] @ normalised(xi) + weights["receptor_bias"]
    hidden = [b * (1 + math.erf(b / math.sqrt(2))) / 2 for b in before]
    zeta = xi + hidden @ weights["assembler"] + weights["transform_bias"]
    return weights["embedding"] @ zeta


def variance(points):
    """Summed over axes."""
    points = np.asarray(points)
    result = ((points - points.mean(axis=0)) ** 2).sum(axis=1).mean()
    return result if result > 1e-24 * (points**2).mean() else 0.0


def variance_fraction(points, groups):
    """The fraction of the variance between groups."""
    means = {}
    for group in set(groups):
        inside = [x for x, g in zip(points, groups, strict=True) if g == group]
        means[group] = np.mean(inside, axis=0)
    whole = variance(points)
    return variance([means[g] for g in groups]) / whole if whole > 0 else math.nan


def linked(points):
    """The number of the cluster of each point: single linkage with links up to a tenth
    of the root mean square distance from the mean."""
    longest = 0.1 * math.sqrt(variance(points))
    cluster = list(range(len(points)))
    for i, j in itertools.combinations(range(len(points)), 2):
        if cluster[i] != cluster[j] and math.dist(points[i], points[j]) <= longest:
            old, new = cluster[i], cluster[j]
            cluster = [new if c == old else c for c in cluster]
    return cluster
