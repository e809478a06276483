"""VC sections 2.2 and 3.1: what the ideal circuit has by construction, and networks so arranged at random.

The circuit is built by hand (`analysis.clustering_heads.constructions`) in every norm, for two and three tokens and
dimensions. Beside
it stand networks with first weights of training that are given one of its two properties alone: one position embedding
for all counting positions, or a query that points away from all spurious ones.
"""

import numpy as np
import torch
import xarray as xr

from analysis.clustering_heads.clusters import CLUSTER_LINK, ideal_cluster_count
from analysis.clustering_heads.constructions import CIRCUIT_GAIN, EMBEDDING_RADIUS, PREACTIVATION_STEP, ideal_circuit
from analysis.clustering_heads.invariances import (
    INVARIANCE_VARIABLES,
    batched_sequence_embeddings,
    invariance_probe,
    network_invariances,
    order_variance_fractions,
    token_variance_fractions,
)
from analysis.reproduction.verification.estimate import Estimate, percentage
from analysis.reproduction.verification.experiment import Experiment, Params, Runner, Size
from analysis.statistics.intervals import NO_INTERVAL, Interval
from dynamics.networks.clustering_head import ClusteringHead
from dynamics.networks.threads import single_torch_thread
from dynamics.randomness import random_stream
from dynamics.settings import NormName, SparseSettings

VOCABS, DIMS = (2, 3), (2, 3)
NORMS: tuple[NormName, ...] = ("rms", "unit", "rms-smooth", "unit-smooth")

BROKEN = 1e-9
"""Share of the variance of sequence embeddings, and difference of logits, that is no more than rounding."""
LEAK = 1e-2
"""Value share up to which a position counts as overlooked, as in `analysis.clustering_heads.labels`."""
AWAY = 8.0
"""How far the position embeddings of either kind lie from the origin, where the query tells them apart."""


def measure(runner: Runner, params: Params) -> xr.Dataset:
    """Circuits built by hand, by circuit; invariances of random networks so arranged, (vocab, network)."""
    norms = params.get("norms", NORMS)
    built = [(vocab, dim, norm) for vocab in VOCABS for dim in DIMS for norm in norms]
    found = [_built(SparseSettings(vocab=vocab, dim=dim, norm=norm)) for vocab, dim, norm in built]
    names = ("accuracy", "clusters", "attention", "leak", "unswapped")
    data: dict[str, tuple] = {
        name: ("circuit", np.array([each[name] for each in found]), _named(name)) for name in names
    }
    shape = (len(VOCABS), params["networks"])
    arranged = {name: np.full(shape, np.nan) for name in ("order_share", "value_share", "absorbed")}
    for place, vocab in enumerate(VOCABS):
        network = ClusteringHead(SparseSettings(vocab=vocab))
        for run in range(params["networks"]):
            with single_torch_thread():  # its products are small
                told = _arranged(network, run)
            for name, value in told.items():
                arranged[name][place, run] = value
    data |= {name: (("vocab", "network"), values, _named(name)) for name, values in arranged.items()}
    coords = {"vocab": list(VOCABS), **{name: ("circuit", [each[place] for each in built])
                                        for place, name in enumerate(("tokens", "dim", "norm"))}}  # fmt: skip
    return xr.Dataset(data, coords)


def _named(name: str) -> dict[str, str]:
    return {"long_name": MEANINGS[name], "units": "1"}


MEANINGS = {
    "accuracy": "share of sequences that a circuit built by hand classifies rightly",
    "clusters": "clusters of its sequence embeddings",
    "attention": "mean attention on its counting positions",
    "leak": "largest share of the variance of xi that the token at a spurious position makes",
    "unswapped": "largest share of the variance of xi that the order of two counting tokens makes",
    "order_share": "the same of a random network with one position embedding for all counting positions",
    "value_share": "largest share that the token at a spurious position makes in a random network whose query points "
    "away from these",
    "absorbed": "largest difference of xi from that of a network with key and output matrices beside, over its size",
}


def _built(s: SparseSettings) -> dict[str, float]:
    """What there is about the ideal circuit of some settings."""
    found = network_invariances(ClusteringHead(s), ideal_circuit(s))
    counting = list(s.counting)
    spurious = [t for t in range(s.length) if t not in counting]
    assert set(found) == set(INVARIANCE_VARIABLES)
    return {
        "accuracy": float(found["accuracy"]),
        "clusters": float(found["clusters"]),
        "attention": float(found["attention"][counting].sum()),
        "leak": float(found["value_share"][spurious].max()),
        "unswapped": float(found["order_share"].max()),
    }


@torch.no_grad()
def _arranged(network: ClusteringHead, seed: int) -> dict[str, float]:
    """How far a random network keeps each invariance that its arrangement gives it, and what a key and an output
    matrix would add to it."""
    s, at = network.settings, invariance_probe(network.settings)
    counting = list(s.counting)
    spurious = [t for t in range(s.length) if t not in counting]
    drawn = network.initial(np.array([seed]))
    first = {name: torch.from_numpy(values[0].astype(np.float64)) for name, values in drawn.items()}
    alike = dict(first, position_embedding=first["position_embedding"].clone())
    alike["position_embedding"][counting] = first["position_embedding"][counting[0]]
    away = dict(first, position_embedding=first["position_embedding"].clone())
    way = first["query"] / first["query"].norm()
    away["position_embedding"][counting] += AWAY * way
    away["position_embedding"][spurious] -= AWAY * way
    away["query"] = AWAY * way
    swapped = order_variance_fractions(batched_sequence_embeddings(network, alike, at.tokens)[0].numpy(), at).max()
    told = (
        token_variance_fractions(batched_sequence_embeddings(network, away, at.tokens)[0].numpy(), at)
        .mean(axis=(-2, -1))[spurious]
        .max()
    )
    return {"order_share": float(swapped), "value_share": float(told), "absorbed": _absorbed(network, first, seed)}


def _absorbed(network: ClusteringHead, weights: dict[str, torch.Tensor], seed: int) -> float:
    """The largest difference of xi with random key and output matrices K and O from that of a network without any,
    whose query is K'q and whose values are OV, over the largest xi."""
    s, generator = network.settings, random_stream(seed, "studies/absorbed")
    key, out = (torch.from_numpy(generator.standard_normal((s.dim, s.dim))) for _ in range(2))
    tokens = torch.from_numpy(generator.integers(0, s.vocab, (64, s.length)))
    z = network.table(weights)[torch.arange(s.length), tokens]  # (sequence, position, axis)
    attended = torch.softmax((z @ key.T) @ weights["query"] / s.dim**0.5, dim=-1)
    with_both = (attended[..., None] * (z @ weights["value"].T)).sum(1) @ out.T
    without = dict(weights, query=key.T @ weights["query"], value=out @ weights["value"])
    xi = network.sequence_embedding(without, tokens)
    return float((with_both - xi).abs().max() / xi.abs().max())


IDEALS = {"accuracy": 1.0, "attention": 1.0, "leak": 0.0, "unswapped": 0.0}
"""What the ideal circuit has by construction."""

IDEAL = Experiment(
    "vc.ideal",
    "the ideal circuit built by hand, and random networks that are arranged as it is",
    sizes={Size.QUICK: {"networks": 20}, Size.DEFAULT: {"networks": 100}, Size.FULL: {"networks": 100}},
    seconds={Size.QUICK: 6, Size.DEFAULT: 10, Size.FULL: 10},
    measure=measure,
    depends={
        "circuits": [VOCABS, DIMS, NORMS],
        "built": [CIRCUIT_GAIN, EMBEDDING_RADIUS, PREACTIVATION_STEP],
        "away": AWAY,
        "link": CLUSTER_LINK,
    },
)


# ------------------------------------------------------------------------------------------------- findings


def worst_construction(evidence: xr.Dataset, name: str, vocab: int = 2, dim: int | None = 2) -> Estimate:
    """A quantity of the circuits built by hand for a task, of that one in which it is furthest from the ideal.

    dim: None is every one. There is no chance in it, so that both bounds are the value.
    """
    wanted = evidence["tokens"].values == vocab
    if dim is not None:
        wanted &= evidence["dim"].values == dim
    ideal = ideal_cluster_count(SparseSettings(vocab=vocab)) if name == "clusters" else IDEALS[name]
    return _furthest(evidence[name].values[wanted], ideal, "circuits" if dim is None else "norms")


def _furthest(values: np.ndarray, ideal: float, of: str) -> Estimate:
    """The value furthest from an ideal one."""
    if not len(values):
        return Estimate(NO_INTERVAL, 0, of, note="no circuit of these settings was built")
    worst = float(values[np.abs(values - ideal).argmax()])
    note = f"built by hand: no chance, and the one of the {len(values)} that is furthest from {ideal:g}"
    return Estimate(Interval(worst, worst, worst), len(values), of, note=note)


def construction_accuracy(evidence: xr.Dataset, vocab: int = 2, dim: int = 2) -> Estimate:
    """The accuracy of these circuits, as a percentage."""
    wanted = (evidence["tokens"].values == vocab) & (evidence["dim"].values == dim)
    return _furthest(100 * evidence["accuracy"].values[wanted], 100.0, "norms")


def construction_attention(evidence: xr.Dataset) -> Estimate:
    """Percentage of the attention that circuits built by hand, of both tasks and dimensions, have on counting
    positions."""
    return _furthest(100 * evidence["attention"].values, 100.0, "circuits")


def networks_within_bound(evidence: xr.Dataset, name: str, up_to: float) -> Estimate:
    """Percentage of random networks, of both tasks, of which a quantity is no larger than rounding, or a bound."""
    values = evidence[name].values.ravel()
    return percentage(int((values <= up_to).sum()), len(values), "random networks", note=f"largest {values.max():.1g}")
