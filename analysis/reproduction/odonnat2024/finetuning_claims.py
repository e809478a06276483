"""VC section 4.2 and figures 10 and 11: circuits of p = 2, the same with a third token,
and finetuned to p = 3.

A network of p = 2 from which finetuning begins is called the source.
"""

import dataclasses
from collections.abc import Sequence

import numpy as np
import torch
import xarray as xr

from analysis.clustering_heads import (
    clusters,
    init_dependence,
    invariances,
    transfer_design,
)
from analysis.clustering_heads.labels import LabelThresholds, circuit_labels
from analysis.clustering_heads.vocabulary_transfer import train_ensemble
from analysis.output.results import dimensionless
from analysis.reproduction.odonnat2024 import transfer_claims
from analysis.reproduction.odonnat2024.circuit_claims import (
    WHOLE,
    without_interval_if_few,
)
from analysis.reproduction.verification import (
    Estimate,
    Params,
    RequiredRuns,
    Runner,
    declare_experiment,
    described,
    percentage,
    samples,
)
from analysis.statistics import Interval, rank_biserial, rank_correlation
from dynamics.networks import clustering_head_of, weights
from dynamics.randomness import random_stream
from dynamics.settings import SUCCESS_ACCURACY, SparseSettings
from dynamics.tasks import sparse_sum
from dynamics.trajectory.diverged import not_diverged

DEFAULT_THRESHOLDS = LabelThresholds()

WIDER = 3
"""The vocabulary of the figures."""

OPENED = 0.5
"""Fraction of the way from chance to 1 below which a run has no circuit
(`analysis.clustering_heads.labels`)."""

ENOUGH = 1 / WIDER + OPENED * (1 - 1 / WIDER) - 0.05
"""Test accuracy, which is noisy, from which a circuit is looked at."""

LINKS = (clusters.CLUSTER_LINK, 2 * clusters.CLUSTER_LINK)
"""Link lengths at which clusters of the source are counted."""

VOCABS, CHECKED = range(2, 11), 1000
"""Vocabularies, and sequences of each, on which the invariances of the task are
checked."""


# --------------------------------------------------------------------------- experiment


def ensembles(params: Params) -> Sequence[RequiredRuns]:
    """The source and p = 3 from scratch, as in `vc.transfer`; the finetuned networks
    begin from the source."""
    return transfer_claims.ensembles({**params, "vocabs": [WIDER]})


def measure(runner: Runner, params: Params) -> xr.Dataset:
    """Circuits of the source, of the same with a third token, and of both ways to p =
    3, by run."""
    design = transfer_claims.experiment_design({**params, "vocabs": [WIDER]})
    source = design.source
    wider = transfer_design.larger_vocabulary_settings(design.source, WIDER)
    begun, device = design.epochs * source.epoch_steps, runner.device
    path, first = train_ensemble(source, design, 2 * design.epochs, device)
    _, scratch = train_ensemble(wider, design, 2 * design.epochs, device)
    finetuning = dataclasses.replace(wider, start=str(path), start_step=begun)
    _, tuned = train_ensemble(finetuning, design, design.epochs, device)
    of_source = _measure_source(first, begun)
    variables = [
        of_source,
        _measure_start(first, begun, tuned, of_source["source_whole"].values == 1),
        _measure_end(tuned),
        _measure_scratch(scratch),
        _similarities_to_starts(tuned),
        _invariance_of_task(source),
    ]
    attrs = {
        "ideal": clusters.ideal_cluster_count(source),
        "counting": len(source.counting),
        "length": source.length,
    }
    return xr.merge(variables).assign_attrs(attrs)


def _measure_source(first: xr.Dataset, begun: int) -> xr.Dataset:
    """Accuracy, clusters and invariances of the source when finetuning begins."""
    counts, coarse = (
        clusters.embedding_cluster_counts(first, begun, link).values for link in LINKS
    )
    accuracy = transfer_claims.accuracy_by_frame(first)[0]
    labels = _labels(_invariances(first, np.ones(len(accuracy), bool), begun))
    columns = {
        "source_test": (accuracy, "test accuracy of the source at p = 2"),
        "clusters": (counts, "clusters of the source's sequence embeddings"),
        "coarse_clusters": (coarse, "the same, links twice as long"),
        "source_whole": (_is_whole(labels), "whether the source lacks no invariance"),
    }
    return described("run", columns)


def _measure_start(
    first: xr.Dataset, begun: int, tuned: xr.Dataset, source_whole: np.ndarray
) -> xr.Dataset:
    """Weights and invariances in the first frame of finetuning."""
    at_start = _invariances(tuned, source_whole, 0)
    same_kind = _is_whole(_labels(at_start, LabelThresholds(learned=-np.inf)))
    columns = {
        "carried": (
            _starts_from_source(first, begun, tuned),
            "whether finetuning begins with the source's weights",
        ),
        "kept": (
            np.where(source_whole, same_kind, np.nan),
            "whether, with a third token, it still lacks no invariance",
        ),
    }
    return described("run", columns)


def _measure_end(tuned: xr.Dataset) -> xr.Dataset:
    """Accuracy, invariances and attention at the end of finetuning."""
    test = transfer_claims.accuracy_by_frame(tuned)[-1]
    at_end = _invariances(tuned, test > ENOUGH)
    labels = _labels(at_end)
    columns = {
        "test": (test, "test accuracy after finetuning"),
        "whole": (_is_whole(labels), "whether the finetuned run lacks no invariance"),
        "corrected": (
            (labels == "corrected").astype(float),
            "whether its values correct its attention",
        ),
    }
    # where a position holds the token
    given = at_end["token_attention"].sel(position=at_end["counting"].values)
    accurate = xr.DataArray(test > SUCCESS_ACCURACY, dims="run")
    attention = given.sum("position").where(accurate) / WIDER
    about = dimensionless("attention on non-spurious positions")
    result = described("run", columns)
    return result.assign(attention=attention.drop_vars("run").assign_attrs(about))


def _measure_scratch(scratch: xr.Dataset) -> xr.Dataset:
    """Accuracy and invariances of the networks trained from scratch."""
    test = transfer_claims.accuracy_by_frame(scratch)[-1]
    labels = _labels(_invariances(scratch, test > ENOUGH))
    columns = {
        "scratch_test": (
            test,
            "test accuracy from scratch after as many epochs in all",
        ),
        "scratch_whole": (
            _is_whole(labels),
            "whether the run from scratch lacks none",
        ),
    }
    return described("run", columns)


def _similarities_to_starts(tuned: xr.Dataset) -> xr.Dataset:
    """How similar embeddings and attention are to the start of the same and of other
    runs."""
    correlations = init_dependence.attention_start_end_correlation(tuned).values.T
    own_distance, other_distance = samples.own_and_others(_distances_from_starts(tuned))
    own_correlation, other_correlation = samples.own_and_others(correlations)
    columns = {
        "own_distance": (own_distance, "distance of embeddings from their own start"),
        "other_distance": (
            other_distance,
            "their distance from the starts of other runs",
        ),
        "own_correlation": (
            own_correlation,
            "correlation of attention at the end with that at its own start",
        ),
        "other_correlation": (
            other_correlation,
            "the same with the starts of other runs",
        ),
    }
    return described("run", columns)


def _invariance_of_task(source: SparseSettings) -> xr.Dataset:
    """How often both invariances keep the target, by vocabulary."""
    same = [_count_same_targets(source, vocab) for vocab in VOCABS]
    words = f"sequences of {CHECKED} with the same target"
    return described(
        "vocabulary", {"same_target": (same, words)}, {"vocabulary": VOCABS}
    )


def _is_whole(labels: np.ndarray) -> np.ndarray:
    """Which circuits lack no invariance, 0 or 1: (run,)."""
    return np.isin(labels, WHOLE).astype(np.float64)


def _invariances(
    trajectory: xr.Dataset, chosen: np.ndarray, step: int | None = None
) -> xr.Dataset:
    """Invariances of chosen runs at a step, by default the last; NaN for the others."""
    places = np.flatnonzero(chosen)
    measures = invariances.measure_invariances(
        trajectory.isel(run=places), step
    ).assign_coords(run=places)
    return measures.reindex(run=np.arange(len(chosen)))


def _labels(
    measures: xr.Dataset, by: LabelThresholds = DEFAULT_THRESHOLDS
) -> np.ndarray:
    """The label of each run's circuit, from its invariances; "none" where they are
    NaN."""
    return np.array([circuit.label for circuit in circuit_labels(measures, by)])


def _starts_from_source(
    source: xr.Dataset, begun: int, tuned: xr.Dataset
) -> np.ndarray:
    """Whether all weights of a source run are equal, bit for bit, to those in the first
    frame of finetuning: (run,)."""
    before, after = weights(source, step=begun), weights(tuned, step=0)
    after["embedding"] = after["embedding"][
        :, : before["embedding"].shape[1]
    ]  # without new tokens
    return np.all(
        [(before[name] == after[name]).flatten(1).all(1).numpy() for name in before],
        axis=0,
    )


@torch.no_grad()
def _distances_from_starts(tuned: xr.Dataset) -> np.ndarray:
    """Root mean square distance of normalised embeddings Z(x, t) at the end from those
    at the start: (run, other_run).

    The starts are those of the other run. NaN for runs that have diverged.
    """
    network, last, tables = clustering_head_of(tuned), int(tuned["step"][-1]), []
    for step in (0, last):
        table = network.table(
            {
                name: values.double()
                for name, values in weights(tuned, step=step).items()
            }
        )
        tables.append(
            table[:, :, : network.settings.vocab].reshape(
                len(table), -1, network.settings.dim
            )
        )
    apart = torch.stack(
        [((tables[0] - end) ** 2).sum(-1).mean(-1).sqrt() for end in tables[1]]
    ).numpy()
    return np.where(not_diverged(tuned, last)[:, None], apart, np.nan)


def _count_same_targets(source: SparseSettings, vocab: int) -> int:
    """The number of random sequences, of `CHECKED`, whose target is invariant.

    The non-spurious tokens change places, and all others their values.
    """
    settings = dataclasses.replace(source, vocab=vocab, table=0)
    generator = random_stream(vocab, "finetuning/task")
    counting = list(settings.counting)
    tokens = generator.integers(0, vocab, (CHECKED, settings.length))
    changed = generator.integers(0, vocab, tokens.shape)
    changed[:, counting] = generator.permuted(tokens[:, counting], axis=1)
    return int((sparse_sum(tokens, settings) == sparse_sum(changed, settings)).sum())


FINETUNING = declare_experiment(
    "vc.finetuning",
    measure,
    ensembles,
    depends={
        "labels": {**LabelThresholds()._asdict(), "whole": WHOLE, "opened": OPENED},
        "links": [*LINKS, clusters.MAX_REFERENCE_SEQUENCES],
        "success": SUCCESS_ACCURACY,
        "checked": CHECKED,
    },
)


# ---------------------------------------------------------------------------- estimates

ACCURATE, PERFECT = "finetuned runs above .98", "perfect runs"


def _chosen(evidence: xr.Dataset, kind: str) -> xr.Dataset:
    """The finetuned runs that end above .98, or with all test sequences right;
    otherwise all runs."""
    kinds = {
        ACCURATE: evidence["test"] > SUCCESS_ACCURACY,
        PERFECT: evidence["test"] == 1,
    }
    return evidence.isel(run=np.flatnonzero(kinds[kind])) if kind in kinds else evidence


def finetuned_percentage(
    evidence: xr.Dataset, name: str, of: str = "runs", interval: bool = True
) -> Estimate:
    """Percentage of runs of which a measure is 1, without those of which it is
    missing. A claim about all runs needs no interval, as a single exception decides."""
    estimate = samples.percentage_of_ones(_chosen(evidence, of)[name], of)
    return estimate if interval else without_interval_if_few(estimate, np.inf)


def both_invariances(evidence: xr.Dataset) -> Estimate:
    """Percentage of the runs of p = 2 above .98 that lack no invariance after E
    epochs."""
    whole, good = evidence["source_whole"], evidence["source_test"] > SUCCESS_ACCURACY
    note = f"of all runs of p = 2: {int(whole.sum())} of {whole.size}"
    return samples.percentage_of_ones(
        whole[good.values], "runs of p = 2 above .98", note
    )


def same_target(evidence: xr.Dataset) -> Estimate:
    """Percentage of sequences of p = 2 to 10 whose target both invariances keep."""
    counts = evidence["same_target"].values
    return percentage(int(counts.sum()), CHECKED * len(counts), "sequences")


def perfect_from_ideal(evidence: xr.Dataset) -> Estimate:
    """Percentage of perfect runs that started from as many clusters as the ideal
    circuit has.

    Without an interval: the claim is about all runs, so that a single exception
    decides."""
    ideal, some = evidence.attrs["ideal"], _chosen(evidence, PERFECT)
    hits = (some["clusters"] == ideal).values
    others = [f"{count:.0f}" for count in np.sort(some["clusters"].values[~hits])]
    coarse = int((some["coarse_clusters"] == ideal).sum())
    note = f"{hits.sum()} of {hits.size} started from {ideal} clusters"
    note += f", others from {', '.join(others)}" if others else ""
    note += f"; at twice the link length {coarse} from {ideal}"
    return without_interval_if_few(
        samples.percentage_of_ones(hits, PERFECT, note), np.inf
    )


def perfect_sources(evidence: xr.Dataset) -> Estimate:
    """Percentage of sources with both invariances whose finetuned run is perfect, minus
    that of other sources."""
    perfect, whole = evidence["test"] == 1, evidence["source_whole"].astype(bool)
    both, others = perfect[whole.values], perfect[~whole.values]
    note = (
        f"{int(both.sum())} of {both.size} sources with both invariances become"
        f" perfect, {int(others.sum())} of {others.size} others"
    )
    return samples.difference_of_ones(both, others, "sources")._replace(note=note)


def start_distance(evidence: xr.Dataset) -> Estimate:
    """Distance of final normalised embeddings from their start, in percent of that from
    other runs' starts."""
    some = _chosen(evidence, ACCURATE)
    return without_interval_if_few(
        samples.estimate_mean(
            100 * some["own_distance"] / some["other_distance"], ACCURATE
        )
    )


def attention_correlation(evidence: xr.Dataset) -> Estimate:
    """Correlation of attention at the start and the end of finetuning."""
    some = _chosen(evidence, ACCURATE)[["own_correlation", "other_correlation"]].dropna(
        "run"
    )
    estimate = samples.estimate_mean(some["own_correlation"], ACCURATE, limits=(-1, 1))
    note = (
        f"{float(some['other_correlation'].mean()):.2f} with the starts of other runs"
        if estimate.count
        else estimate.note
    )
    estimate = estimate._replace(
        effect=estimate.value, effect_name="Pearson's r", note=note
    )
    return without_interval_if_few(estimate)


def attention_on_old(evidence: xr.Dataset) -> Estimate:
    """Percentage of accurate finetuned runs with most of their attention on
    non-spurious positions that do not hold the new token, and less on the new token
    than on either of the old ones."""
    given = evidence["attention"].dropna("run", how="any")
    old, new = given.isel(token=slice(None, -1)), given.isel(token=-1)
    chance = (WIDER - 1) / WIDER * evidence.attrs["counting"] / evidence.attrs["length"]
    mean = 100 * float(old.sum("token").mean())
    note = (
        f"mean attention on old tokens: {mean:.0f}%; if it were uniform:"
        f" {100 * chance:.0f}%"
    )
    return samples.percentage_of_ones(
        (old.sum("token") > 0.5) & (new < old.min("token")), ACCURATE, note
    )


def invariance_gain(evidence: xr.Dataset) -> Estimate:
    """Percentage of all runs that end at p = 3 with both invariances: finetuned minus
    from scratch, in points."""
    first, second = evidence["whole"], evidence["scratch_whole"]
    note = (
        f"{first.sum():.0f} of {first.size} finetuned, {second.sum():.0f} of"
        f" {second.size} from scratch"
    )
    return samples.difference_of_ones(first, second)._replace(note=note)


def _sources(evidence: xr.Dataset, successful: bool) -> xr.Dataset:
    """The sources whose finetuning has not diverged: all, or those above .98 at p =
    2."""
    finite = evidence.isel(run=np.isfinite(evidence["test"].values))
    return (
        finite.isel(run=finite["source_test"].values > SUCCESS_ACCURACY)
        if successful
        else finite
    )


def cluster_correlation(evidence: xr.Dataset, successful: bool) -> Estimate:
    """Rank correlation of the source's clusters with test accuracy after finetuning."""
    some = _sources(evidence, successful)
    interval = rank_correlation(some["clusters"].values, some["test"].values)
    note = (
        ""
        if np.isfinite(interval.value)
        else "there are too few sources, or they do not differ"
    )
    return Estimate(
        interval, some.sizes["run"], "sources", interval.value, "Spearman's rho", note
    )


def fewer_clusters_probability(evidence: xr.Dataset, successful: bool) -> Estimate:
    """Probability that a source whose finetuned run ends above .98 has fewer clusters
    than another source."""
    some = _sources(evidence, successful)
    counts, well = some["clusters"].values, some["test"].values > SUCCESS_ACCURACY
    interval = rank_biserial(-counts[well], -counts[~well])
    note = f"{int(well.sum())} of {len(counts)} end above .98 at p = 3"
    area = Interval(*((1 + bound) / 2 for bound in interval))
    return Estimate(
        area, len(counts), "sources", interval.value, "rank-biserial correlation", note
    )
