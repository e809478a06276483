"""VC section 4.2 and figures 10 and 11: circuits of p = 2, and what finetuning to p = 3
makes of them.

A network of p = 2 from which finetuning begins is called the source."""

import dataclasses
from collections.abc import Sequence

import numpy as np
import torch
import xarray as xr

from analysis.clustering_heads import clusters, init_dependence, transfer_design
from analysis.clustering_heads.invariances import measure_invariances
from analysis.clustering_heads.labels import LabelThresholds, circuit_labels
from analysis.clustering_heads.vocabulary_transfer import train_ensemble
from analysis.reproduction import estimates
from analysis.reproduction.claim import Claim, Number, Sign, exact_number
from analysis.reproduction.estimates import Estimate
from analysis.reproduction.experiment import (
    Experiment,
    Params,
    RequiredRuns,
    Runner,
    Sizing,
    described,
)
from analysis.reproduction.odonnat2024 import transfer_claims
from analysis.reproduction.odonnat2024.circuit_claims import WHOLE
from dynamics.networks import clustering_head_of, weights
from dynamics.settings import SUCCESS_ACCURACY
from dynamics.trajectory.diverged import not_diverged

WIDER = 3
"""The vocabulary of the figures."""
LINKS = (clusters.CLUSTER_LINK, 2 * clusters.CLUSTER_LINK)
"""Link lengths at which clusters of the source are counted."""


def ensembles(params: Params) -> Sequence[RequiredRuns]:
    """The source; the finetuned networks begin from it, and are trained here."""
    return transfer_claims.ensembles({**params, "vocabs": [WIDER]})[:1]


def measure(runner: Runner, params: Params) -> xr.Dataset:
    """Circuits of the source, accuracy after finetuning, and how similar its ends are to
    starts, by run."""
    design = transfer_claims.experiment_design({**params, "vocabs": [WIDER]})
    source = design.source
    wider = transfer_design.larger_vocabulary_settings(source, WIDER)
    begun = design.epochs * source.epoch_steps
    device = runner.device
    path, first = train_ensemble(source, design, 2 * design.epochs, device)
    finetuning = dataclasses.replace(wider, start=str(path), start_step=begun)
    _, tuned = train_ensemble(finetuning, design, design.epochs, device)
    counts, coarse = (
        clusters.embedding_cluster_counts(first, begun, link).values for link in LINKS
    )
    labels = [one.label for one in circuit_labels(measure_invariances(first, begun))]
    correlations = init_dependence.attention_start_end_correlation(tuned).values.T
    own_distance, other_distance = estimates.own_and_others(_start_distances(tuned))
    own_correlation, other_correlation = estimates.own_and_others(correlations)
    columns = {
        "source_test": (
            transfer_claims.accuracy_by_frame(first)[0],
            "test accuracy of the source at p = 2",
        ),
        "clusters": (counts, "clusters of the source's sequence embeddings"),
        "coarse_clusters": (coarse, "the same, links twice as long"),
        "source_whole": (np.isin(labels, WHOLE), "whether it lacks no invariance"),
        "test": (
            transfer_claims.accuracy_by_frame(tuned)[-1],
            "test accuracy after finetuning",
        ),
        "own_distance": (own_distance, "distance of embeddings from their own start"),
        "other_distance": (other_distance, "the same from the starts of other runs"),
        "own_correlation": (
            own_correlation,
            "correlation of attention at the end with that at its own start",
        ),
        "other_correlation": (
            other_correlation,
            "the same with the starts of other runs",
        ),
    }
    ideal = clusters.ideal_cluster_count(source)
    return described("run", columns).assign_attrs(ideal=ideal)


@torch.no_grad()
def _start_distances(tuned: xr.Dataset) -> np.ndarray:
    """Root mean square distance of normalised embeddings Z(x, t) at the end from those
    at the start: (run, other_run).

    The starts are those of the other run. NaN for runs that have diverged."""
    network = clustering_head_of(tuned)
    last = int(tuned["step"][-1])
    tables = []
    for step in (0, last):
        frame = weights(tuned, step=step)
        table = network.table({name: item.double() for name, item in frame.items()})
        tables.append(table[:, :, : network.settings.vocab].flatten(1, 2))
    apart = [((tables[0] - end) ** 2).sum(-1).mean(-1).sqrt() for end in tables[1]]
    alive = not_diverged(tuned, last)[:, None]
    return np.where(alive, torch.stack(apart).numpy(), np.nan)


# ------------------------------------------------------------------------------- claims

PERFECT = "perfect runs"
ACCURATE = "finetuned runs above .98"


def perfect_from_ideal(evidence: xr.Dataset, name: str) -> Estimate:
    """Percentage of perfect runs that started from as many clusters as the ideal circuit
    has."""
    some = evidence.isel(run=evidence["test"].values == 1)
    counts = some[name].values
    ideal = evidence.attrs["ideal"]
    others = ", ".join(f"{count:.0f}" for count in np.sort(counts[counts != ideal]))
    note = f"others from {others}" if others else ""
    return estimates.percentage_of_ones(counts == ideal, PERFECT, note)


def perfect_from_whole(evidence: xr.Dataset) -> Estimate:
    """Percentage of perfect runs whose source lacks no invariance."""
    perfect = evidence["test"].values == 1
    whole = evidence["source_whole"].values == 1
    return estimates.percentage_among(whole, perfect, PERFECT)


SIX_CLUSTERS_ONLY = Claim(
    "VC.s4.2.six-clusters-only",
    "section 4.2",
    "the only models that achieved 100% test accuracy were those that captured",
    "Only runs with six clusters at p = 2 reach a test accuracy of 100% after finetuning"
    " to p = 3.",
    (
        Number(
            lambda evidence: perfect_from_ideal(evidence, "clusters"),
            exact_number(100),
            "perfect runs that had six clusters",
            "%",
        ),
        Number(
            lambda evidence: perfect_from_ideal(evidence, "coarse_clusters"),
            exact_number(100),
            "the same, if points twice as far apart count as one cluster",
            "%",
        ),
        Number(
            perfect_from_whole,
            exact_number(100),
            "perfect runs that had both invariances",
            "%",
        ),
    ),
    "A single exception is enough. The number of clusters depends on the distance up to"
    " which points are linked, here a tenth of their spread.",
    summary="only sources with six clusters become perfect",
    figure="vc9",
)


def whole_source_gain(evidence: xr.Dataset, perfect: bool = False) -> Estimate:
    """Mean test accuracy after finetuning, or percentage of perfect runs, from sources
    with both invariances less that from others, of sources above .98, in points."""
    some = evidence.isel(run=evidence["source_test"].values > SUCCESS_ACCURACY)
    whole = some["source_whole"].values == 1
    accuracy = some["test"].values
    values = accuracy == 1 if perfect else accuracy
    compare = (
        estimates.difference_of_ones if perfect else estimates.independent_difference
    )
    scale = 1 if perfect else 100
    gain = compare(scale * values[whole], scale * values[~whole], "sources")
    return gain._replace(
        note=f"{whole.sum()} sources with both, {(~whole).sum()} others"
    )


INVARIANCES_HELP = Claim(
    "VC.s4.2.invariances-help",
    "section 4.2",
    "initializing models with these invariants makes learning the sparse modular addition",
    "Networks that have both invariances at p = 2 learn p = 3 more easily.",
    (
        Number(
            whole_source_gain,
            Sign.POSITIVE,
            "accuracy at p = 3 from sources with both invariances, minus others",
            "points",
        ),
        Number(
            lambda evidence: whole_source_gain(evidence, perfect=True),
            Sign.POSITIVE,
            "perfect runs from sources with both invariances, minus others",
            "points",
        ),
    ),
    "Only sources that solve p = 2 (above .98) are compared. Others succeed as well, but"
    " less often. The paper says much easier.",
    summary="circuits with both invariances transfer better",
    figure="vc9",
)


def accurate_runs(evidence: xr.Dataset) -> xr.Dataset:
    """The finetuned runs that end above .98."""
    return evidence.isel(run=evidence["test"].values > SUCCESS_ACCURACY)


def start_distance(evidence: xr.Dataset) -> Estimate:
    """Distance of final normalised embeddings from their start, less that from other
    runs' starts, in percent of the latter."""
    some = accurate_runs(evidence)
    ratio = estimates.paired_ratio(
        some["own_distance"], some["other_distance"], ACCURATE
    )
    return estimates.percent_change(ratio)


def attention_similarity(evidence: xr.Dataset) -> Estimate:
    """Correlation of attention at the end of finetuning with that at its own start,
    less that with other runs' starts."""
    some = accurate_runs(evidence)
    own, others = some["own_correlation"], some["other_correlation"]
    difference = estimates.paired_difference(own, others, ACCURATE)
    return estimates.note_means(difference, own, others, digits=2)


LIKE_INITIAL = Claim(
    "VC.figure11.like-initial",
    "section 4.2, figure 11",
    "The final embeddings are not that far from the initial one",
    "Finetuned circuits stay close to those from which they start.",
    (
        Number(
            start_distance,
            Sign.NEGATIVE,
            "distance of embeddings from their own start, relative to other starts",
            "%",
            digits=0,
        ),
        Number(
            attention_similarity,
            Sign.POSITIVE,
            "correlation of attention with the own start, minus other starts",
            digits=2,
        ),
    ),
    "Of runs that end above .98 at p = 3; the paper shows one. Much closer than circuits"
    " after training from random weights (VC.s4.1.initial-weights). Some nearness is"
    " expected wherever training moves weights by a limited amount, so that its size is"
    " the result.",
    summary="finetuned circuits stay close to their source",
    figure="vc11",
)

FINETUNING = Experiment(
    "vc.finetuning",
    "circuits of p = 2, and accuracy and similarity to them after finetuning to p = 3",
    measure,
    quick=Sizing(8, {"runs": 24}, "24 runs instead of 250"),
    default=Sizing(55, {"runs": 250}),
    ensembles=ensembles,
    depends={
        "labels": {**LabelThresholds()._asdict(), "whole": WHOLE},
        "links": [*LINKS, clusters.MAX_REFERENCE_SEQUENCES],
        "success": SUCCESS_ACCURACY,
    },
    version=2,
    command="python -m analysis.paper transfer --runs 250 --vocabs 3",
    claims=(SIX_CLUSTERS_ONLY, INVARIANCES_HELP, LIKE_INITIAL),
)
