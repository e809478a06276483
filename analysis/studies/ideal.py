"""VC sections 2.2 and 3.1: what the ideal circuit has by construction, and networks so arranged at random.

The circuit is built by hand (`analysis.heads.handmade`) in every norm, for two and three tokens and dimensions. Beside
it stand networks with first weights of training that are given one of its two properties alone: one position embedding
for all counting positions, or a query that points away from all spurious ones.
"""

import numpy as np
import torch
import xarray as xr

from analysis.fixed_points import PUSHED, Options, landscape
from analysis.heads.handmade import ideal_circuit
from analysis.heads.invariances import NAMES, measured, mixtures, order_shares, probe, token_shares
from analysis.intervals import Interval
from analysis.options import SparseOptions
from analysis.threads import one_thread
from analysis.verification.finding import Finding, share
from analysis.verification.study import Lab, Params, Size, Study
from dynamics.clustering_head import ClusteringHead
from dynamics.randomness import stream
from dynamics.settings import Norm, SparseSettings

VOCABS, DIMS = (2, 3), (2, 3)
NORMS: tuple[Norm, ...] = ("rms", "unit", "rms-smooth", "unit-smooth")

BROKEN = 1e-9
"""Share of the variance of sequence embeddings, and difference of logits, that is no more than rounding."""
LEAK = 1e-2
"""Value share up to which a position counts as overlooked, as in `analysis.heads.labels`."""
AWAY = 8.0
"""How far the position embeddings of either kind lie from the origin, where the query tells them apart."""


def measure(lab: Lab, params: Params) -> xr.Dataset:
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
            with one_thread():  # its products are small
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
    found = measured(ClusteringHead(s), ideal_circuit(s))
    counting = list(s.counting)
    spurious = [t for t in range(s.length) if t not in counting]
    assert set(found) == set(NAMES)
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
    s, at = network.settings, probe(network.settings)
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
    swapped = order_shares(mixtures(network, alike, at.tokens)[0].numpy(), at).max()
    told = token_shares(mixtures(network, away, at.tokens)[0].numpy(), at).mean(axis=(-2, -1))[spurious].max()
    return {"order_share": float(swapped), "value_share": float(told), "absorbed": _absorbed(network, first, seed)}


def _absorbed(network: ClusteringHead, weights: dict[str, torch.Tensor], seed: int) -> float:
    """The largest difference of xi with random key and output matrices K and O from that of a network without any,
    whose query is K'q and whose values are OV, over the largest xi."""
    s, generator = network.settings, stream(seed, "studies/absorbed")
    key, out = (torch.from_numpy(generator.standard_normal((s.dim, s.dim))) for _ in range(2))
    tokens = torch.from_numpy(generator.integers(0, s.vocab, (64, s.length)))
    z = network.table(weights)[torch.arange(s.length), tokens]  # (sequence, position, axis)
    attended = torch.softmax((z @ key.T) @ weights["query"] / s.dim**0.5, dim=-1)
    with_both = (attended[..., None] * (z @ weights["value"].T)).sum(1) @ out.T
    without = dict(weights, query=key.T @ weights["query"], value=out @ weights["value"])
    xi = network.sequence_embedding(without, tokens)
    return float((with_both - xi).abs().max() / xi.abs().max())


IDEAL = Study(
    "vc.ideal",
    "the ideal circuit built by hand, and random networks that are arranged as it is",
    sizes={Size.QUICK: {"networks": 20}, Size.DEFAULT: {"networks": 100}, Size.FULL: {"networks": 100}},
    seconds={Size.QUICK: 6, Size.DEFAULT: 10, Size.FULL: 10},
    measure=measure,
)


# ------------------------------------------------------------------------------------------------- findings


def of_circuits(evidence: xr.Dataset, name: str, vocab: int = 2, dim: int = 2) -> Finding:
    """Mean of a quantity over the circuits built by hand for a task, with their range; they are not drawn at random."""
    kept = (evidence["tokens"].values == vocab) & (evidence["dim"].values == dim)
    values = evidence[name].values[kept]
    if not len(values):
        return Finding(Interval(np.nan, np.nan, np.nan), 0, "norms", note="no circuit of these settings was built")
    interval = Interval(float(values.mean()), float(values.min()), float(values.max()))
    return Finding(interval, len(values), "norms", note="built by hand: the interval is the range over norms")


def solved(evidence: xr.Dataset, vocab: int = 2, dim: int = 2) -> Finding:
    """The same of the accuracy, as a percentage."""
    found = of_circuits(evidence, "accuracy", vocab, dim)
    return found._replace(interval=Interval(*(100 * each for each in found.interval)))


def kept(evidence: xr.Dataset, name: str, up_to: float) -> Finding:
    """Percentage of random networks, of both tasks, of which a quantity is no larger than rounding, or a bound."""
    values = evidence[name].values.ravel()
    return share(int((values <= up_to).sum()), len(values), "random networks", note=f"largest {values.max():.1g}")


def attended(evidence: xr.Dataset) -> Finding:
    """Percentage of the attention that circuits built by hand have on counting positions: mean and range."""
    values = 100 * evidence["attention"].values
    interval = Interval(float(values.mean()), float(values.min()), float(values.max()))
    return Finding(interval, len(values), "circuits", note="built by hand: the interval is their range")


# ----------------------------------------------------------------------------------------- as a fixed point


def fixed_measure(lab: Lab, params: Params) -> xr.Dataset:
    """What `analysis.fixed_points` says of the circuit as it was built and as it has settled under weight decay."""
    settings = SparseOptions(**params.get("settings", {}))
    options = Options(settings, push=tuple(params["push"]), steps=params["steps"], draws=params["draws"])
    with one_thread():
        found = landscape(options)
    some = found[["gradient", "loss", "circuit_accuracy", "order_eigenvalue", "suffix_eigenvalue"]]
    moved = found[["order_share", "value_share", "distance", "accuracy"]].isel(step=[0, -1])
    moved = moved.assign_coords(step=["pushed", "after"])
    lowest = found["eigenvalue"].min("mode").rename("lowest").assign_attrs(long_name="lowest eigenvalue", units="1")
    return some.assign(lowest=lowest).merge(moved, combine_attrs="override").assign_attrs(built=f"gain {PUSHED:g}")


FIXED = Study(
    "ch.fixed-points",
    "the ideal circuit built by hand as a fixed point of gradient descent, with and without weight decay",
    sizes={
        Size.DEFAULT: {"push": [1e-4, 1e-3, 1e-2], "steps": 300, "draws": 1},
        Size.FULL: {"push": [1e-4, 1e-3, 1e-2], "steps": 300, "draws": 5},
    },
    seconds={Size.DEFAULT: 40, Size.FULL: 150},
    measure=fixed_measure,
    command="python -m analysis.fixed_points",
)


def gradient_left(evidence: xr.Dataset, circuit: str = "") -> Finding:
    """Norm of the gradient at a circuit, of the loss with its weight decay; without a name, as it was built."""
    name = circuit or str(evidence.attrs["built"])
    value = float(evidence["gradient"].sel(circuit=name))
    loss = float(evidence["loss"].sel(circuit=name))
    return Finding(Interval(value, value, value), 1, "circuits", note=f"one point, computed; its loss is {loss:.2g}")


def solves(evidence: xr.Dataset) -> Finding:
    """Accuracy of the circuit that has settled, as a percentage."""
    value = 100 * float(evidence["circuit_accuracy"].sel(circuit="settled"))
    return Finding(Interval(value, value, value), 1, "circuits", note="over all sequences, so that there is no chance")


def least_breaking(evidence: xr.Dataset) -> Finding:
    """The lowest eigenvalue of the Hessian at the settled circuit among directions that break an invariance."""
    one = evidence.sel(circuit="settled")
    value = min(float(one[f"{part}_eigenvalue"].min()) for part in ("order", "suffix"))
    whole = float(one["lowest"])
    return Finding(Interval(value, value, value), 1, "circuits", note=f"of all directions {whole:.1g}")


def comes_back(evidence: xr.Dataset, start: str = "settled") -> Finding:
    """Percentage of pushes, by any way and length, after which gradient descent brings a circuit nearer to where it
    was than it was pushed to."""
    one = evidence["distance"].sel(start=start).isel(pushed=np.flatnonzero(evidence["push"].values > 0))
    ratio = (one.sel(step="after") / one.sel(step="pushed")).values
    note = f"distances shrink to {np.median(ratio):.2f} in the median, at most to {ratio.max():.2f}"
    return share(int((ratio < 1).sum()), len(ratio), "pushes", note)
