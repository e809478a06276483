"""VC section 3.1, figure 1: the ideal circuit, built by hand for two and three tokens
(`analysis.clustering_heads.constructions`)."""

from functools import partial

import numpy as np
import xarray as xr

from analysis.clustering_heads import constructions
from analysis.clustering_heads.clusters import CLUSTER_LINK, ideal_cluster_count
from analysis.clustering_heads.invariances import network_invariances
from analysis.reproduction.claim import Claim, Number, exact_number
from analysis.reproduction.estimates import Estimate
from analysis.reproduction.experiment import (
    Experiment,
    Params,
    Runner,
    Sizing,
    described,
)
from analysis.statistics.intervals import Interval
from dynamics.networks import ClusteringHead
from dynamics.settings import NormName, SparseSettings

VOCABS = (2, 3)
NORMS: tuple[NormName, ...] = ("rms", "unit", "rms-smooth", "unit-smooth")


def measure(runner: Runner, params: Params) -> xr.Dataset:
    """Accuracy and clusters of the circuit for each vocabulary and norm."""
    given = params.get("settings", {})
    norms = params.get("norms", NORMS)
    circuits = [
        [
            _circuit_properties(SparseSettings(vocab=p, norm=norm, **given))
            for norm in norms
        ]
        for p in VOCABS
    ]
    accuracy, clusters = np.moveaxis(np.array(circuits), -1, 0)
    columns = {
        "accuracy": (accuracy, "accuracy over all sequences, or some of many"),
        "clusters": (clusters, "clusters of sequence embeddings"),
    }
    coords = {"vocab": list(VOCABS), "norm": list(norms)}
    return described(("vocab", "norm"), columns, coords)


def _circuit_properties(settings: SparseSettings) -> tuple[float, float]:
    """Accuracy and number of clusters of the ideal circuit."""
    weights = constructions.ideal_circuit(settings)
    measures = network_invariances(ClusteringHead(settings), weights)
    return float(measures["accuracy"]), float(measures["clusters"])


# ------------------------------------------------------------------------------- claims


def worst_circuit(
    evidence: xr.Dataset, name: str, vocab: int, ideal: float, scale: float = 1.0
) -> Estimate:
    """A property of the circuit, of the four norms, that is furthest from the ideal. It
    is not random."""
    values = scale * evidence[name].sel(vocab=vocab).values
    worst = float(values[np.abs(values - ideal).argmax()])
    note = f"the worst of {len(values)} norms"
    return Estimate(Interval(worst, worst, worst), len(values), "circuits", note)


def accuracy_number(vocab: int) -> Number:
    """Percentage of the sequences that the circuit classifies correctly."""
    return Number(
        partial(worst_circuit, name="accuracy", vocab=vocab, ideal=100, scale=100),
        exact_number(100),
        f"sequences in their class, p = {vocab}",
        "%",
    )


def cluster_number(vocab: int) -> Number:
    """Number of clusters of the circuit."""
    count = ideal_cluster_count(SparseSettings(vocab=vocab))
    return Number(
        partial(worst_circuit, name="clusters", vocab=vocab, ideal=count),
        exact_number(count),
        f"clusters, p = {vocab}",
        digits=0,
    )


IDEAL_CIRCUIT = Claim(
    "VC.s3.1.ideal",
    "section 3.1",
    "map each sequence embedding ξ to the correct output class",
    "An ideal circuit solves the task with embeddings in the plane.",
    (*map(accuracy_number, VOCABS), *map(cluster_number, VOCABS)),
    "The circuits are built by hand with the default width, so this shows that a"
    " solution exists, not that training finds it. With p = 3 the accuracy is that on"
    " about 2,000 random sequences of 531,441. That there are as many clusters as"
    " ways to choose five tokens of p kinds follows from the construction.",
    summary="an ideal circuit solves the task with two dimensions",
    figure="vc1",
)
IDEAL = Experiment(
    "vc.ideal",
    "accuracy and clusters of the ideal circuit built by hand",
    measure,
    quick=Sizing(3, {}),
    default=Sizing(3, {}),
    depends={
        "circuits": [VOCABS, NORMS],
        "built": [
            constructions.CIRCUIT_GAIN,
            constructions.EMBEDDING_RADIUS,
            constructions.PREACTIVATION_STEP,
        ],
        "link": CLUSTER_LINK,
    },
    version=2,
    claims=(IDEAL_CIRCUIT,),
)
