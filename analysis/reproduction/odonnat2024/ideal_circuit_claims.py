"""VC sections 2.2 and 3.1, figure 1: the ideal circuit, built by hand, and properties
that follow from definitions.

The circuit (`analysis.clustering_heads.constructions`) is built for each normalisation
and for two and three tokens and dimensions. Random networks are given one of its two
properties at a time: equal position embeddings at the non-spurious positions, or a
query along the embeddings at these positions and opposite to the others."""

import numpy as np
import pandas as pd
import torch
import xarray as xr

from analysis.clustering_heads import constructions, invariances
from analysis.clustering_heads.clusters import CLUSTER_LINK, ideal_cluster_count
from analysis.output.results import dimensionless
from analysis.reproduction.verification import (
    Estimate,
    Params,
    Runner,
    declare_experiment,
    samples,
)
from analysis.statistics.intervals import NO_INTERVAL, Interval
from dynamics.networks import ClusteringHead
from dynamics.networks.threads import single_torch_thread
from dynamics.randomness import random_stream
from dynamics.settings import NormName, SparseSettings

VOCABS, DIMS = (2, 3), (2, 3)
NORMS: tuple[NormName, ...] = ("rms", "unit", "rms-smooth", "unit-smooth")

AWAY = 8.0
"""Distance from the origin of the position embeddings that the query separates."""

MEANINGS = {
    "accuracy": "accuracy of a circuit built by hand over all sequences",
    "clusters": "clusters of its sequence embeddings",
    "attention": "mean attention on its non-spurious positions",
    "leak": (
        "largest fraction of the variance of its xi due to the token at a spurious"
        " position"
    ),
    "unswapped": (
        "largest fraction of the variance of its xi due to the order of two"
        " non-spurious tokens"
    ),
    "order_share": (
        "the same for a random network with equal position embeddings at non-spurious"
        " positions"
    ),
    "value_share": (
        "fraction due to a spurious token for a random network with a query away from"
        " spurious positions"
    ),
    "absorbed": (
        "difference of xi from that of a network with key and output matrices, over its"
        " size"
    ),
}


def measure(runner: Runner, params: Params) -> xr.Dataset:
    """Properties of circuits built by hand, (circuit,), and of random networks, (vocab,
    network)."""
    given = params.get("settings", {})
    built = pd.MultiIndex.from_product(
        [VOCABS, DIMS, params.get("norms", NORMS)], names=["tokens", "dim", "norm"]
    )
    drawn = pd.MultiIndex.from_product(
        [VOCABS, range(params["networks"])], names=["vocab", "network"]
    )
    circuits = [
        _circuit_properties(SparseSettings(vocab=p, dim=d, norm=norm, **given))
        for p, d, norm in built
    ]
    networks = [
        _network_properties(ClusteringHead(SparseSettings(vocab=p, **given)), seed)
        for p, seed in drawn
    ]
    by_circuit = (
        pd.DataFrame(circuits, built).reset_index().rename_axis("circuit").to_xarray()
    )
    evidence = xr.merge(
        [by_circuit, pd.DataFrame(networks, drawn).to_xarray()]
    ).set_coords(built.names)
    for name, meaning in MEANINGS.items():
        evidence[name].attrs = dimensionless(meaning)
    return evidence


def _circuit_properties(s: SparseSettings) -> dict[str, float]:
    """Properties of the ideal circuit of some settings."""
    measures = invariances.network_invariances(
        ClusteringHead(s), constructions.ideal_circuit(s)
    )
    counting = list(s.counting)
    return {
        "accuracy": float(measures["accuracy"]),
        "clusters": float(measures["clusters"]),
        "attention": float(measures["attention"][counting].sum()),
        "leak": float(np.delete(measures["value_share"], counting).max()),
        "unswapped": float(measures["order_share"].max()),
    }


@single_torch_thread()
@torch.no_grad()
def _network_properties(network: ClusteringHead, seed: int) -> dict[str, float]:
    """Invariances of a random network that is arranged for them, and the effect of key
    and output matrices."""
    s, probe = network.settings, invariances.invariance_probe(network.settings)
    counting = list(s.counting)
    spurious = np.setdiff1d(range(s.length), counting)
    drawn = network.initial(np.array([seed]))
    first = {
        name: torch.from_numpy(values[0].astype(np.float64))
        for name, values in drawn.items()
    }
    direction = first["query"] / first["query"].norm()
    alike = first["position_embedding"].clone()
    away = first["position_embedding"].clone()
    alike[counting] = first["position_embedding"][counting[0]]
    away[counting] += AWAY * direction
    away[spurious] -= AWAY * direction
    xi_alike, xi_away = (
        invariances.batched_sequence_embeddings(
            network, {**first, **changed}, probe.tokens
        )[0].numpy()
        for changed in (
            {"position_embedding": alike},
            {"position_embedding": away, "query": AWAY * direction},
        )
    )
    leaks = invariances.token_variance_fractions(xi_away, probe).mean(axis=(-2, -1))[
        spurious
    ]
    return {
        "order_share": float(
            invariances.order_variance_fractions(xi_alike, probe).max()
        ),
        "value_share": float(leaks.max()),
        "absorbed": _absorbed_difference(network, first, seed),
    }


def _absorbed_difference(
    network: ClusteringHead, weights: dict[str, torch.Tensor], seed: int
) -> float:
    """The largest difference, over the largest xi, between xi of two networks: one with
    random key and output matrices K and O, and one without them whose query is K'q and
    whose value matrix is OV."""
    s, generator = network.settings, random_stream(seed, "studies/absorbed")
    key, out = (
        torch.from_numpy(generator.standard_normal((s.dim, s.dim))) for _ in range(2)
    )
    tokens = torch.from_numpy(generator.integers(0, s.vocab, (64, s.length)))
    z = network.table(weights)[
        torch.arange(s.length), tokens
    ]  # (sequence, position, axis)
    attention = torch.softmax((z @ key.T) @ weights["query"] / s.dim**0.5, dim=-1)
    with_both = (attention[..., None] * (z @ weights["value"].T)).sum(1) @ out.T
    without = dict(
        weights, query=key.T @ weights["query"], value=out @ weights["value"]
    )
    xi = network.sequence_embedding(without, tokens)
    return float((with_both - xi).abs().max() / xi.abs().max())


IDEAL = declare_experiment(
    "vc.ideal",
    measure,
    depends={
        "circuits": [VOCABS, DIMS, NORMS],
        "built": [
            constructions.CIRCUIT_GAIN,
            constructions.EMBEDDING_RADIUS,
            constructions.PREACTIVATION_STEP,
        ],
        "away": AWAY,
        "link": CLUSTER_LINK,
    },
)


# ---------------------------------------------------------------------------- estimates

WHOLE = ("accuracy", "attention")
"""Properties that are 1 in the ideal circuit; fractions of variance are 0."""


def worst_circuit(
    evidence: xr.Dataset,
    name: str,
    vocab: int | None = None,
    dim: int | None = None,
    scale: float = 1,
) -> Estimate:
    """A property of the circuit in which it is furthest from its ideal value; not
    random, so both bounds are the value.

    vocab, dim: those of the circuits to choose from; None for all. scale: 100 for a
    percentage."""
    chosen = evidence["tokens"].isin(vocab or VOCABS) & evidence["dim"].isin(
        dim or DIMS
    )
    if not chosen.any():
        return Estimate(
            NO_INTERVAL, 0, "circuits", note="no circuit of these settings was built"
        )
    values = scale * evidence[name].values[chosen.values]
    ideal = (
        ideal_cluster_count(SparseSettings(vocab=vocab))
        if vocab and name == "clusters"
        else name in WHOLE
    )
    worst = float(values[np.abs(values - scale * ideal).argmax()])
    return Estimate(
        Interval(worst, worst, worst),
        len(values),
        "circuits",
        note=f"the worst of {len(values)} circuits",
    )


def networks_within_bound(evidence: xr.Dataset, name: str, bound: float) -> Estimate:
    """Percentage of random networks in which a quantity is at most a bound."""
    values = evidence[name]
    return samples.percentage_of_ones(
        values <= bound, "random networks", f"largest value {values.max():.1g}"
    )
