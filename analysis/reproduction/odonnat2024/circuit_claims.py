"""VC sections 3.2 and 4.1: the circuits that default networks learn, and how they
depend on the initial weights.

A run has a circuit if its accuracy over all sequences is at least half-way from chance
to 1. Circuits are labelled by the invariances that their sequence embeddings lack
(`analysis.clustering_heads.labels`). The tokens at the first five positions, the
non-spurious ones, are summed; the other positions are spurious."""

from collections.abc import Sequence

import numpy as np
import torch
import xarray as xr

from analysis.clustering_heads import (
    clusters,
    encoded_sums,
    init_dependence,
    invariances,
)
from analysis.clustering_heads.activation_sparsity import SUCCESSFUL_ACCURACY
from analysis.clustering_heads.labels import LabelThresholds, circuit_labels
from analysis.reproduction.verification import (
    Estimate,
    Params,
    RequiredRuns,
    Runner,
    as_percentage,
    declare_experiment,
    described,
    samples,
)
from analysis.statistics import Interval, binomial_interval, mean_distance_within
from dynamics.networks import clustering_head_of, weights
from dynamics.settings import SUCCESS_ACCURACY, SparseSettings
from dynamics.trajectory import mask_diverged, not_diverged

WHOLE = ("ideal", "corrected", "part of the values")
"""Labels of circuits that lack no invariance."""

LEARNED = "runs with a circuit"
FEWEST = 5
"""Smallest number of runs for which a mean has an interval."""

IDEAL_CLUSTERS = clusters.ideal_cluster_count(SparseSettings())


def default_networks(params: Params) -> Sequence[RequiredRuns]:
    """VC's default networks."""
    return [
        RequiredRuns(
            SparseSettings(**params.get("settings", {})),
            params["runs"],
            params.get("epochs"),
        )
    ]


def measure(runner: Runner, params: Params) -> xr.Dataset:
    """Accuracies, invariances, labels and encoded sums by run; correlations of starts
    with ends, (run, other_run)."""
    trajectory = runner.ensemble(default_networks(params)[0])
    measures = invariances.measure_invariances(trajectory)
    merges = clusters.embedding_merge_lengths(trajectory)
    variables = [
        _kinds_of_circuits(measures),
        _final_accuracies(trajectory),
        _spurious_positions(measures),
        _similarities_to_starts(trajectory),
        *_encoded_sums(trajectory),
    ]
    return (
        xr.merge(variables)
        .assign(merge_length=merges)
        .assign_coords(seed=("run", trajectory["seed"].values))
    )


def _kinds_of_circuits(measures: xr.Dataset) -> xr.Dataset:
    """Labels by invariances, and numbers of positions that are not invariant."""
    labels = circuit_labels(measures)
    leaking = [len(label.leaking) for label in labels]
    apart = [len(label.apart) for label in labels]
    columns = {
        "label": ([label.label for label in labels], "kind of circuit"),
        "leaking": (leaking, "spurious positions whose tokens matter"),
        "apart": (apart, "non-spurious positions that do not swap"),
    }
    return described("run", columns)


def _final_accuracies(trajectory: xr.Dataset) -> xr.Dataset:
    """Accuracies at the end; NaN for runs that have diverged."""
    accuracy = mask_diverged(trajectory["accuracy"].astype(np.float64), trajectory)
    columns = {
        f"{split}_accuracy": (
            accuracy.sel(split=split).isel(step=-1).values,
            f"final accuracy on {split} sequences",
        )
        for split in ("test", "unseen")
    }
    return described("run", columns)


def _spurious_positions(measures: xr.Dataset) -> xr.Dataset:
    """Attention on each spurious position, and the spread of its tokens."""
    words = {
        "attention": "mean attention",
        "embedding_spread": "spread of tokens in z",
        "value_spread": "spread of tokens in V z",
    }
    spurious = measures.drop_sel(position=measures["counting"].values)
    columns = {
        name: (spurious[name].transpose("run", "position").values, text)
        for name, text in words.items()
    }
    return described(("run", "place"), columns).rename(attention="spurious_attention")


def _similarities_to_starts(trajectory: xr.Dataset) -> xr.Dataset:
    """Correlations of starts with ends of the same and of other runs."""
    attention = init_dependence.attention_start_end_correlation(trajectory).values
    columns = {
        "inherited": (
            attention,
            "correlation of attention at the start and of another's end",
        ),
        "weights_kept": (
            _weight_correlations(trajectory),
            "the same for all weights",
        ),
    }
    return described(("run", "other_run"), columns)


def _encoded_sums(trajectory: xr.Dataset) -> list[xr.Dataset]:
    """Coefficients of the sums that sequence embeddings encode, and their
    properties."""
    sums = encoded_sums.measure_encoded_sums(trajectory)
    steps = np.nan_to_num(sums["sum_steps"].values.round()).astype(np.int64)[..., -1]
    words = {
        "sum_whole": "whether its coefficients are whole numbers",
        "sum_congruent": "whether it is congruent to the target",
        "sum_share": "fraction of variance between different sums",
    }
    coefficients = {
        "sum_steps": (steps, "coefficient of token p - 1 in the encoded sum")
    }
    properties = {name: (sums[name].values, text) for name, text in words.items()}
    return [
        described(("run", "position"), coefficients),
        described("run", properties),
    ]


@torch.no_grad()
def _weight_correlations(trajectory: xr.Dataset) -> np.ndarray:
    """Pearson's correlation of initial with final weights: (run, other_run), NaN where
    either has diverged.

    Each weight matrix is divided by its root mean square over runs, so that none
    outweighs others."""
    ends, alive = [], not_diverged(trajectory)
    for step in trajectory["step"].values[[0, -1]].tolist():
        frame = {
            name: weight.double().numpy()
            for name, weight in weights(trajectory, step=step).items()
        }
        scaled = {
            name: weight / (np.sqrt(np.mean(weight**2)) or 1.0)
            for name, weight in frame.items()
        }
        ends.append(clustering_head_of(trajectory).flatten(scaled))
    return np.where(
        alive[:, None] & alive, init_dependence.pairwise_correlations(*ends), np.nan
    )


CIRCUITS = declare_experiment(
    "vc.circuits",
    measure,
    default_networks,
    depends={
        "labels": LabelThresholds()._asdict(),
        "sequences": [
            clusters.MAX_REFERENCE_SEQUENCES,
            init_dependence.ATTENTION_SEQUENCES,
        ],
        "whole": encoded_sums.INTEGER_TOLERANCE,
    },
)


# ---------------------------------------------------------------------------- estimates


def without_interval_if_few(estimate: Estimate, fewest: float = FEWEST) -> Estimate:
    """The same estimate; without an interval if it is of fewer cases."""
    few = Interval(estimate.value, np.nan, np.nan)
    return estimate._replace(interval=few) if estimate.count < fewest else estimate


def runs_of_kind(evidence: xr.Dataset, kind: str, link: float = 0.0) -> np.ndarray:
    """Which runs are of a kind, (run,) bool, with clusters at a link length."""
    clusters_at_link = 1 + (evidence["merge_length"] > link).sum("clusters").values
    label, test, unseen = (
        evidence[name].values for name in ("label", "test_accuracy", "unseen_accuracy")
    )
    kinds = {
        **{
            f"{name} circuits": label == name
            for name in ("corrected", "part of the values", "partial", "fuzzy")
        },
        LEARNED: label != "none",
        "circuits that are not ideal": label != "ideal",
        "circuits with all invariances": np.isin(label, WHOLE),
        "circuits without either": (
            (evidence["leaking"].values > 0) & (evidence["apart"].values > 0)
        ),
        "fuzzy circuits that generalise": (
            (label == "fuzzy") & (unseen > SUCCESSFUL_ACCURACY)
        ),
        "ideal clusters": clusters_at_link == IDEAL_CLUSTERS,
        "more clusters": clusters_at_link > IDEAL_CLUSTERS,
        "congruent sums": evidence["sum_congruent"].values.astype(bool),
        "successful runs": test > SUCCESS_ACCURACY,
        "runs that are not successful": ~(test > SUCCESS_ACCURACY),
    }
    return kinds[kind]


def circuit_percentage(
    evidence: xr.Dataset, kind: str, among: str, link: float = 0.0
) -> Estimate:
    """Percentage of the runs of one kind that are of another one too. link: link length
    at which clusters are counted."""
    hits, runs = (runs_of_kind(evidence, name, link) for name in (kind, among))
    return samples.percentage_among(hits, runs, among)


def variance_between_sums(evidence: xr.Dataset) -> Estimate:
    """Percentage of the variance of sequence embeddings between different encoded sums,
    mean over successful runs."""
    chosen = runs_of_kind(evidence, "successful runs") & runs_of_kind(
        evidence, "congruent sums"
    )
    return samples.estimate_mean(
        100 * evidence["sum_share"].values[chosen], "successful runs that encode a sum"
    )


def lasting_six_clusters(evidence: xr.Dataset, factor: float) -> Estimate:
    """Percentage of successful runs with six clusters at all link lengths of a range
    that spans at least a factor."""
    success = runs_of_kind(evidence, "successful runs")
    begin, end = (
        evidence["merge_length"]
        .sel(clusters=[IDEAL_CLUSTERS, IDEAL_CLUSTERS - 1])
        .transpose("clusters", ...)
    )
    lasting = ((end > 0) & (end >= factor * begin)).values
    low, high = (float(lengths[lasting & success].median()) for lengths in (begin, end))
    note = (
        f"at link lengths from {low:.2f} to {high:.2f}, medians of these runs"
        if high > 0
        else ""
    )
    return samples.percentage_among(lasting, success, "successful runs", note)


def spurious_collapse(evidence: xr.Dataset) -> Estimate:
    """Spread of spurious tokens after the value matrix over that before it, geometric
    mean over corrected circuits.

    Spreads are relative to those of non-spurious tokens, and root mean squares over
    positions weighted by attention."""
    some = evidence.isel(run=np.flatnonzero(evidence["label"].values == "corrected"))
    squares = (
        some[["embedding_spread", "value_spread"]] ** 2 * some["spurious_attention"]
    )
    before, after = np.sqrt(squares.sum("place").to_array().values)
    estimate = samples.paired_ratio(after, before, "corrected circuits")
    note = (
        "median spread relative to non-spurious tokens: {:.2f} before, {:.2f} after the"
        " value matrix"
    )
    noted = (
        estimate._replace(note=note.format(np.median(before), np.median(after)))
        if estimate.count
        else estimate
    )
    return without_interval_if_few(noted)


def different_sums(evidence: xr.Dataset) -> Estimate:
    """Percentage of pairs of successful runs that encode different sums; its interval
    is over runs."""
    chosen = runs_of_kind(evidence, "successful runs") & evidence[
        "sum_whole"
    ].values.astype(bool)
    steps = evidence["sum_steps"].values[chosen]
    differ = (steps[:, None] != steps[None]).any(axis=-1).astype(np.float64)
    return Estimate(
        as_percentage(fraction_of_pairs(differ)),
        len(steps),
        "successful runs that encode a sum",
    )


def fraction_of_pairs(hits: np.ndarray) -> Interval:
    """Fraction of pairs of runs that are hits, (run, run) symmetric, 0 or 1.

    The interval is the jackknife interval of the logit, which stays between 0 and 1. If
    no pair or all pairs are hits, it is the exact binomial one of as many pairs as have
    no run in common."""
    fraction, runs = mean_distance_within(hits), len(hits)
    if fraction.value in (0, 1):
        return binomial_interval(round(fraction.value * (runs // 2)), runs // 2)
    if not fraction.half > 0:
        return Interval(fraction.value, np.nan, np.nan)
    odds = np.log(fraction.value / (1 - fraction.value))
    width = fraction.half / (fraction.value * (1 - fraction.value))
    return Interval(
        fraction.value,
        *(float(1 / (1 + np.exp(-logit))) for logit in (odds - width, odds + width)),
    )


def start_similarity(evidence: xr.Dataset, name: str, excess: bool = False) -> Estimate:
    """Correlation of a run's end with its own start; with `excess`, minus its mean
    correlation with the starts of other runs."""
    matrix = evidence[name].values
    if not excess:
        estimate = samples.estimate_mean(np.diagonal(matrix))
        return estimate._replace(effect=estimate.value, effect_name="r")
    estimate = samples.paired_difference(*samples.own_and_others(matrix.T))
    if estimate.count < 2:
        return estimate
    p = init_dependence.compare_same_seed(matrix, higher=True).p
    return estimate._replace(note=f"p = {p:.2g} by permutation of the ends")
