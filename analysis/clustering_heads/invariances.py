"""Invariances of the sequence embeddings of VC's network, as fractions of their
variance.

The target is the same for all suffixes and for all orders of the tokens at non-spurious
positions. A circuit that uses this has a sequence embedding xi that changes neither
with the token at a spurious position nor with an exchange of two non-spurious positions
(VC section 3.1). Over sequences x drawn uniformly, with Var the variance summed over
axes:

    value fraction of position t       E Var(xi | all tokens but x_t) / Var(xi), the total-effect index of Sobol and
                                       Homma
    order fraction of positions t, u   E Var(xi | all but the order of x_t and x_u) / Var(xi)
                                       = E|xi(x) - xi(x with x_t and x_u exchanged)|² /
                                       4 Var(xi)
    class fraction                     Var E(xi | multiset of the tokens at non-spurious positions) / Var(xi)
                                       (eta squared)

All are dimensionless and from 0 to 1. If xi were a sum of c_t x_t for p = 2, a leak
with coefficient c beside k positions with coefficient 1 would have the value fraction
c²/(k + c²), and a coefficient 1 + e in place of 1 would give about the order fraction
e²/2k.

Expectations are exact if all sequences are few enough to be listed. Otherwise the outer
one is over a fixed sample, the inner one over all values or both orders. Positions and
tokens count from 0, as in the settings. Everything is computed in float64. Fractions
are NaN if xi does not vary; all values are NaN for a run that has diverged or whose
attention scores are too far apart to be exponentiated."""

import functools
import itertools
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from typing import NamedTuple

import numpy as np
import torch
import xarray as xr

from analysis.clustering_heads.clusters import count_clusters, reference_sequences
from analysis.output.results import dimensionless
from analysis.statistics.division import ratio
from dynamics.errors import TrajectoryError
from dynamics.networks.clustering_head import ClusteringHead
from dynamics.networks.from_trajectory import clustering_head_of, weights
from dynamics.networks.parameters import Weights
from dynamics.progress import progress_bar
from dynamics.settings import SparseSettings
from dynamics.tasks import sparse_sum
from dynamics.trajectory.diverged import not_diverged
from dynamics.trajectory.schema import check_variable_recorded

_MAX_NEIGHBOURS = 1 << 18
"""Largest number of changed sequences; if there would be more, fewer sequences are
changed."""

_BATCH = 1 << 14
"""Number of sequences whose embeddings are computed at a time."""

MAX_SCORE_GAP = 600
"""Largest difference of attention scores whose exponentials stay in the range of
float64."""

_NO_VARIANCE = 1e-12
"""Variance over the largest squared norm up to which embeddings count as constant."""


# ---------------------------------------------------------------------------- sequences


class InvarianceProbe(NamedTuple):
    """Sequences, and the indices of those that differ from base sequences by one
    change."""

    tokens: np.ndarray
    """(sequence, position) all sequences, each once"""
    base: np.ndarray
    """(base,) indices of the sequences that are changed: all, or a sample"""
    changed: np.ndarray
    """(base, position, token) indices of the base with that token at that position"""
    swapped: np.ndarray
    """(base, pair) indices of the base with the tokens of two non-spurious positions
    exchanged"""
    pairs: np.ndarray
    """(pair, 2) these positions, as indices among the non-spurious ones"""
    classes: np.ndarray
    """(base,) number of the multiset of the tokens at non-spurious positions"""
    exhaustive: bool
    """Whether the base is all sequences."""


@functools.lru_cache(maxsize=4)
def invariance_probe(s: SparseSettings) -> InvarianceProbe:
    """The sequences on which invariances of a network with these settings are
    measured."""
    base = reference_sequences(s)
    exhaustive = len(base) == s.vocab**s.length
    places = np.array(
        list(itertools.combinations(range(s.sparsity), 2)), dtype=np.int64
    ).reshape(-1, 2)
    most = max(1, _MAX_NEIGHBOURS // (s.length * s.vocab + len(places)))
    if not exhaustive and len(base) > most:
        base = base[np.linspace(0, len(base) - 1, most).round().astype(np.int64)]
    changed = np.tile(base[:, None, None], (1, s.length, s.vocab, 1))
    for position in range(s.length):
        changed[:, position, :, position] = np.arange(s.vocab)
    swapped = np.tile(base[:, None], (1, len(places), 1))
    for pair, (first, second) in enumerate(np.array(s.counting)[places]):
        swapped[:, pair, [first, second]] = base[:, [second, first]]
    every = np.concatenate(
        [item.reshape(-1, s.length) for item in (base, changed, swapped)]
    )
    tokens, where = np.unique(every, axis=0, return_inverse=True)
    parts = np.split(where.ravel(), np.cumsum([len(base), changed[..., 0].size]))
    classes = np.unique(
        np.sort(base[:, list(s.counting)], axis=1), axis=0, return_inverse=True
    )[1].ravel()
    return InvarianceProbe(
        tokens,
        parts[0],
        parts[1].reshape(changed.shape[:-1]),
        parts[2].reshape(swapped.shape[:-1]),
        places,
        classes,
        exhaustive,
    )


# --------------------------------------------------------------------------- embeddings


def one_hot_sequences(tokens: np.ndarray, rows: int) -> torch.Tensor:
    """Tokens (sequence, position) as float64 rows of zeros and ones: (sequence,
    position x token)."""
    return (
        (torch.from_numpy(tokens)[..., None] == torch.arange(rows)).flatten(-2).double()
    )


class AttentionOverflowError(ValueError):
    """Attention scores whose exponentials leave the range of float64."""


def _attention_factors(network: ClusteringHead, weights: Weights) -> torch.Tensor:
    """exp(score) of every position and token, up to a factor for each network: (...,
    position, token).

    The factor makes the sum over the positions of any sequence at least 1. Raises
    AttentionOverflowError."""
    scores = (network.table(weights) @ weights["query"][..., None, :, None])[
        ..., 0
    ] / network.settings.dim**0.5
    least = scores.amin(-1).amax(-1)[..., None, None]
    if not bool((scores - least < MAX_SCORE_GAP).all()):
        found_gap = f"found attention scores more than {MAX_SCORE_GAP} apart"
        raise AttentionOverflowError(
            f"query: {found_gap}, expected smaller differences"
        )
    return torch.exp(scores - least)


def batched_sequence_embeddings(
    network: ClusteringHead, weights: Weights, tokens: np.ndarray
) -> tuple[torch.Tensor, torch.Tensor]:
    """Sequence embeddings of many networks at once, and the denominators of their
    attention.

    Parameters
    ----------
    network : ClusteringHead
    weights : dict of tensors, (..., *shape)
        Float64 weights with any leading axes.
    tokens : array, (sequence, position)

    Returns
    -------
    xi : tensor, (..., sequence, axis)
        As `ClusteringHead.sequence_embedding`, but by one product for all networks:
        numerator and denominator of the softmax are sums over positions of entries of a
        table.
    denominator : tensor, (..., sequence)

    Raises
    ------
    AttentionOverflowError
    """
    attended = _attention_factors(network, weights)[..., None]
    values = network.table(weights) @ weights["value"].mT[..., None, :, :]
    terms = torch.cat([attended * values, attended], dim=-1).flatten(
        -3, -2
    )  # (..., position x token, axis + 1)
    lead = terms.shape[:-2]
    columns = terms.movedim(-2, 0).flatten(1)
    batches = (
        tokens[start : start + _BATCH] for start in range(0, len(tokens), _BATCH)
    )
    sums = torch.cat(
        [one_hot_sequences(batch, network.settings.rows) @ columns for batch in batches]
    )
    sums = sums.unflatten(1, (*lead, -1)).movedim(0, -2)
    return sums[..., :-1] / sums[..., -1:], sums[..., -1]


def _class_logits(
    network: ClusteringHead, weights: Weights, xi: torch.Tensor
) -> torch.Tensor:
    """Logits of sequence embeddings (sequence, axis): (sequence, token)."""
    pieces = xi.split(max(1, _BATCH * 32 // network.settings.hidden))
    return torch.cat(
        [
            network.transform(weights, piece) @ weights["embedding"].mT
            for piece in pieces
        ]
    )


# ---------------------------------------------------------------- fractions of variance


def total_variance(xi: np.ndarray) -> np.ndarray:
    """Variance summed over axes, (..., sequence, axis) -> (...); NaN if it is no more
    than rounding error."""
    x = np.asarray(xi, dtype=np.float64)
    result = x.var(axis=-2).sum(axis=-1)
    size = (x * x).sum(axis=-1).max(axis=-1)
    return np.where(result > _NO_VARIANCE * size, result, np.nan)


def token_variance_fractions(xi: np.ndarray, probe: InvarianceProbe) -> np.ndarray:
    """Half the mean squared change of xi between two tokens at a position, over
    Var(xi).

    xi (..., sequence, axis) of all sequences of the probe -> (..., position, token,
    token). The mean over both tokens is the value fraction of the position."""
    variance = total_variance(xi[..., probe.base, :])
    # without the mean, so that products of large numbers do not cancel
    xi = xi - xi[..., probe.base, :].mean(axis=-2, keepdims=True)
    parts = []
    for position in range(probe.changed.shape[1]):
        x = xi[..., probe.changed[:, position], :]  # (..., base, token, axis)
        inner = np.einsum("...bva,...bwa->...vw", x, x) / len(probe.base)
        own = np.diagonal(inner, axis1=-2, axis2=-1)
        parts.append((own[..., :, None] + own[..., None, :]) / 2 - inner)
    return np.maximum(np.stack(parts, axis=-3), 0) / variance[..., None, None, None]


def order_variance_fractions(xi: np.ndarray, probe: InvarianceProbe) -> np.ndarray:
    """Order fraction of pairs of non-spurious positions: (..., sequence, axis) -> (...,
    counting, counting)."""
    count = 1 + int(probe.pairs.max(initial=0))
    result = np.zeros((*xi.shape[:-2], count, count))
    base = xi[..., probe.base, :]
    size = total_variance(xi[..., probe.base, :])
    for pair, (first, second) in enumerate(probe.pairs):
        square = (
            ((base - xi[..., probe.swapped[:, pair], :]) ** 2)
            .sum(axis=-1)
            .mean(axis=-1)
        )
        result[..., first, second] = result[..., second, first] = square / (4 * size)
    return result


def between_group_fraction(
    xi: np.ndarray, labels: np.ndarray, sample: bool = False
) -> np.ndarray:
    """Fraction of the variance of xi that lies between groups of sequences.

    Parameters
    ----------
    xi : array, (..., sequence, axis)
    labels : array of int, (sequence,)
        Group of each sequence, from 0, without gaps.
    sample : bool
        Whether the sequences are a sample: the variance within groups is then divided
        by the number of sequences minus the number of groups, as in an analysis of
        variance.

    Returns
    -------
    array, (...)

    Examples
    --------
    >>> xi = np.array([[0.0], [0.0], [2.0], [2.0]])
    >>> float(between_group_fraction(xi, np.array([0, 0, 1, 1])))
    1.0
    """
    x = np.asarray(xi, dtype=np.float64)
    x = x - x.mean(axis=-2, keepdims=True)
    sizes = np.bincount(labels)
    begins = np.cumsum([0, *sizes[:-1]])
    sums = np.add.reduceat(
        x[..., np.argsort(labels, kind="stable"), :], begins, axis=-2
    )
    lost = 1 - ((sums**2).sum(axis=-1) / sizes).sum(axis=-1) / (
        total_variance(xi) * len(labels)
    )
    if sample and len(labels) > len(sizes):
        lost = lost * (len(labels) - 1) / (len(labels) - len(sizes))
    return np.clip(1 - lost, 0, 1)


# -------------------------------------------------------------------------- one network


@torch.no_grad()
def network_invariances(
    network: ClusteringHead, weights: Weights, probe: InvarianceProbe | None = None
) -> dict[str, np.ndarray]:
    """The `INVARIANCE_VARIABLES` of one network, with float64 weights without leading
    axes. Raises ValueError."""
    s = network.settings
    probe = probe or invariance_probe(s)
    xi, divided = batched_sequence_embeddings(network, weights, probe.tokens)
    scored = _class_logits(network, weights, xi)
    x = xi.numpy()
    best = scored == scored.amax(-1, keepdim=True)
    target = torch.from_numpy(sparse_sum(probe.tokens[probe.base], s))
    hit = torch.gather(best[probe.base], -1, target[:, None])[:, 0].double()
    hit = hit / best[probe.base].sum(-1)
    predicted = scored.argmax(-1).numpy()
    attended = _attention_factors(network, weights)[:, : s.vocab].numpy()
    given = (attended / divided.numpy()[probe.changed]).mean(
        axis=0
    )  # (position, token)
    own = (
        attended[np.arange(s.length), probe.tokens[probe.base]]
        / divided.numpy()[probe.base, None]
    )
    table = network.table(weights)[:, : s.vocab]
    values = (table @ weights["value"].mT).numpy()
    shares = token_variance_fractions(x, probe)
    others = s.vocab / (
        s.vocab - 1
    )  # from the mean over all tokens to that over those that differ from the original
    return {
        "accuracy": hit.mean().numpy(),
        "value_share": shares.mean(axis=(-2, -1)),
        "token_share": shares,
        "order_share": order_variance_fractions(x, probe),
        "class_share": between_group_fraction(
            x[probe.base], probe.classes, sample=not probe.exhaustive
        ),
        "clusters": np.array(count_clusters(x[probe.base])),
        "attention": own.mean(axis=0),
        "token_attention": given,
        "embedding_spread": relative_spread(table.numpy(), s),
        "value_spread": relative_spread(values, s),
        "contribution_spread": relative_spread(given[..., None] * values, s),
        "value_flips": (
            (predicted[probe.changed] != predicted[probe.base][:, None, None]).mean(
                axis=(0, 2)
            )
            * others
        ),
        "order_flips": np.array(
            [
                (predicted[probe.swapped[:, pair]] != predicted[probe.base]).mean()
                for pair in range(len(probe.pairs))
            ]
        ),
    }


def relative_spread(points: np.ndarray, s: SparseSettings) -> np.ndarray:
    """Spread of the points of the tokens at each position, over that at non-spurious
    positions.

    (..., position, token, axis) -> (..., position). Root mean squares; NaN if all
    points at non-spurious positions are the same."""
    size = np.sqrt(points.var(axis=-2).sum(axis=-1))
    usual = np.sqrt((size[..., list(s.counting)] ** 2).mean(axis=-1, keepdims=True))
    return ratio(size, usual)


# ---------------------------------------------------------------------- of a trajectory

INVARIANCE_VARIABLES: Mapping[str, tuple[tuple[str, ...], str]] = {
    "accuracy": ((), "fraction of all sequences that are classified correctly"),
    "value_share": (
        ("position",),
        "value fraction: part of the variance of xi from the token at a position",
    ),
    "token_share": (
        ("position", "token", "other_token"),
        "half the squared change of xi between tokens over Var(xi)",
    ),
    "order_share": (
        ("counting", "other_counting"),
        "order fraction: part of the variance of xi from the order",
    ),
    "class_share": (
        (),
        (
            "fraction of the variance of xi between multisets of the tokens at"
            " non-spurious positions"
        ),
    ),
    "clusters": ((), "clusters of sequence embeddings"),
    "attention": (("position",), "mean attention"),
    "token_attention": (
        ("position", "token"),
        "mean attention to a position that holds a token",
    ),
    "embedding_spread": (
        ("position",),
        "spread of tokens in z, relative to non-spurious ones",
    ),
    "value_spread": (
        ("position",),
        "spread of tokens in V z, relative to non-spurious ones",
    ),
    "contribution_spread": (
        ("position",),
        "spread of tokens in mean attention x V z, relative to non-spurious ones",
    ),
    "value_flips": (
        ("position",),
        "fraction of sequences whose predicted class changes with the token there",
    ),
    "order_flips": (
        ("pair",),
        "fraction of sequences whose predicted class changes with the order of two",
    ),
}
"""Dimensions after run, and meaning, of each variable."""


def measure_invariances(trajectory: xr.Dataset, step: int | None = None) -> xr.Dataset:
    """Invariances of the sequence embeddings of every run at a recorded step.

    Parameters
    ----------
    trajectory : xr.Dataset
        Of VC's network, with its weights.
    step : int, optional
        Default: the last one.

    Returns
    -------
    xr.Dataset
        `INVARIANCE_VARIABLES` by run, NaN for runs that have diverged; `far_scores`
        (run), 1 for runs that are NaN because their attention scores are too far apart.

    Raises
    ------
    TrajectoryError, SettingsError
    """
    network = clustering_head_of(trajectory)
    step = int(trajectory["step"][-1]) if step is None else step
    weights = weights_at_step(trajectory, network, step)
    probe = invariance_probe(network.settings)
    alive = not_diverged(trajectory, step)
    rows: list[dict[str, np.ndarray] | None] = []
    for run in progress_bar(
        range(trajectory.sizes["run"]),
        desc="invariances",
        unit="run",
    ):
        rows.append(None)
        if alive[run]:
            of_run = {name: value[run].double() for name, value in weights.items()}
            with run_error_context(trajectory, run):
                rows[run] = network_invariances(network, of_run, probe)
    result = _labelled(rows, network.settings, probe, trajectory["seed"].values, step)
    far = np.array([row is None for row in rows], bool) & alive
    meaning = dimensionless("whether attention scores are too far apart")
    return result.assign(far_scores=("run", far.astype(np.int8), meaning))


def weights_at_step(
    trajectory: xr.Dataset, network: ClusteringHead, step: int
) -> dict[str, torch.Tensor]:
    """The weights of all runs at a recorded step, (run, ...). Other frames are not
    read.

    Raises TrajectoryError, SettingsError.
    """
    for name in network.variables:
        check_variable_recorded(trajectory, name)
    one = (
        trajectory[list(network.variables)].sel(step=[step])
        if step in trajectory["step"].values
        else trajectory
    )
    return weights(one.assign_attrs(trajectory.attrs), step=step)


@contextmanager
def run_error_context(trajectory: xr.Dataset, run: int) -> Iterator[None]:
    """Skip the block for a run whose attention scores are too far apart; other
    ValueErrors become TrajectoryErrors."""
    try:
        yield
    except AttentionOverflowError:
        return
    except ValueError as error:
        raise TrajectoryError(
            f"run of seed {int(trajectory['seed'][run])}: {error}"
        ) from None


def _labelled(
    rows: list[dict[str, np.ndarray] | None],
    s: SparseSettings,
    probe: InvarianceProbe,
    seeds: np.ndarray,
    step: int,
) -> xr.Dataset:
    """`INVARIANCE_VARIABLES` by run, from those of each run; NaN for a run without."""
    counting = np.array(s.counting)
    tokens = np.arange(s.vocab)
    axes = {
        "position": np.arange(s.length),
        "counting": counting,
        "other_counting": counting,
    }
    axes |= {"token": tokens, "other_token": tokens}
    sizes = {name: len(ax) for name, ax in (axes | {"pair": probe.pairs}).items()}
    data = {}
    for name, (dims, meaning) in INVARIANCE_VARIABLES.items():
        missing = np.full([sizes[dim] for dim in dims], np.nan)
        values = [
            missing if row is None else np.asarray(row[name], dtype=np.float64)
            for row in rows
        ]
        by_run = np.reshape(values, (len(rows), *missing.shape))
        data[name] = (("run", *dims), by_run, dimensionless(meaning))
    first, second = counting[probe.pairs].reshape(-1, 2).T
    coords = {
        "seed": ("run", seeds),
        **axes,
        "first": ("pair", first),
        "second": ("pair", second),
    }
    attrs = {
        "step": step,
        "exhaustive": int(probe.exhaustive),
        "sequences": len(probe.base),
    }
    return xr.Dataset(data, coords, attrs)


# ---------------------------------------------------------------------------- summaries


def counting_attention(result: xr.Dataset) -> np.ndarray:
    """Total attention on non-spurious positions, (run,)."""
    return (
        result["attention"]
        .sel(position=result["counting"].values)
        .sum("position", skipna=False)
        .values
    )


def largest_leak(result: xr.Dataset) -> np.ndarray:
    """The largest value fraction of a spurious position, (run,); 0 if there is none,
    NaN for runs without value fractions."""
    spurious = np.isin(
        result["position"].values, result["counting"].values, invert=True
    )
    share = result["value_share"].transpose("run", "position").values
    # a sum is NaN if one of them is, also of the other positions
    known = np.where(np.isnan(share.sum(axis=1)), np.nan, 0.0)
    return known + share[:, spurious].max(axis=1, initial=0)
