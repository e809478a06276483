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

from analysis.clustering_heads import clusters, encoded_sums, init_dependence
from analysis.clustering_heads.invariances import measure_invariances
from analysis.clustering_heads.labels import LabelThresholds, circuit_labels
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
    experiment_runs,
)
from dynamics.networks import clustering_head_of, weights
from dynamics.settings import SUCCESS_ACCURACY, SparseSettings
from dynamics.trajectory import mask_diverged, not_diverged

WHOLE = ("ideal", "corrected", "part of the values")
"""Labels of circuits that lack no invariance."""
SUCCESSFUL = "successful runs"


def default_networks(params: Params) -> Sequence[RequiredRuns]:
    """VC's default networks."""
    return [experiment_runs(SparseSettings(), params)]


def measure(runner: Runner, params: Params) -> xr.Dataset:
    """Accuracies, invariances, labels and encoded sums by run; correlations of starts
    with ends, (run, other_run)."""
    trajectory = runner.ensemble(default_networks(params)[0])
    start, end = (
        measure_invariances(trajectory, step)
        for step in trajectory["step"].values[[0, -1]].tolist()
    )
    accuracy = mask_diverged(trajectory["accuracy"].astype(np.float64), trajectory)
    last = accuracy.isel(step=-1)
    sums = encoded_sums.measure_encoded_sums(trajectory)
    columns = {
        "test_accuracy": (last.sel(split="test").values, "final test accuracy"),
        "unseen_accuracy": (last.sel(split="unseen").values, "final, unseen sequences"),
        "label": (_labels(end), "kind of circuit"),
        "start_label": (
            _labels(start, LabelThresholds(learned=-np.inf)),
            "the same before training, whatever the accuracy",
        ),
        "class_share": (
            end["class_share"].values,
            "fraction of the variance of xi between multisets",
        ),
        "start_class_share": (
            start["class_share"].values,
            "the same before training",
        ),
        "clusters": (end["clusters"].values, "clusters of sequence embeddings"),
        "sum_congruent": (
            sums["sum_congruent"].values,
            "whether an encoded sum is congruent to the target",
        ),
    }
    variables = [
        described("run", columns),
        _spurious_positions(end),
        _similarities_to_starts(trajectory),
    ]
    return xr.merge(variables)


def _labels(
    measures: xr.Dataset,
    by: LabelThresholds = LabelThresholds(),  # noqa: B008  (immutable)
) -> list[str]:
    return [circuit.label for circuit in circuit_labels(measures, by)]


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


@torch.no_grad()
def _weight_correlations(trajectory: xr.Dataset) -> np.ndarray:
    """Pearson's correlation of initial with final weights: (run, other_run), NaN where
    either has diverged.

    Each weight matrix is divided by its root mean square over runs, so that none
    outweighs others."""
    ends = []
    alive = not_diverged(trajectory)
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


# --------------------------------------------------------------------------- invariances


def successful_runs(evidence: xr.Dataset) -> xr.Dataset:
    """The runs with a test accuracy above .98."""
    success = evidence["test_accuracy"].values > SUCCESS_ACCURACY
    return evidence.isel(run=success)


def invariant_variance_gain(evidence: xr.Dataset) -> Estimate:
    """Percentage of the variance of xi between multisets of the non-spurious tokens at
    the end of training, less that before it: successful runs."""
    some = successful_runs(evidence)
    end, start = 100 * some["class_share"], 100 * some["start_class_share"]
    gain = estimates.paired_difference(end, start, SUCCESSFUL)
    return estimates.note_means(gain, end, start, "%", 0)


def whole_circuit_gain(evidence: xr.Dataset) -> Estimate:
    """Percentage of the successful runs that lack no invariance, less that of the same
    networks before training."""
    some = successful_runs(evidence)
    end, start = (np.isin(some[name], WHOLE) for name in ("label", "start_label"))
    return estimates.difference_of_ones(end, start, "networks")


INVARIANCES = Claim(
    "VC.s3.2.circuits",
    "section 3.2",
    "they often capture the invariants of our problem",
    "Networks that solve the task have its invariances more often than untrained ones.",
    (
        Number(
            whole_circuit_gain,
            Sign.POSITIVE,
            "runs with test accuracy above .98 that have both invariances, at the end"
            " minus at the start of training",
            "points",
        ),
        Number(
            invariant_variance_gain,
            Sign.POSITIVE,
            "variance of their sequence embeddings between multisets of the five tokens,"
            " at the end minus at the start",
            "points",
        ),
    ),
    "Fewer than half have both invariances. In an ideal circuit all variance is between"
    " multisets; single networks have either nearly all of it or far less.",
    summary="some networks that solve the task have both of its invariances",
    figure="vc2",
)


def spread_change_by_value(evidence: xr.Dataset) -> Estimate:
    """Change of the spread of spurious tokens by the value matrix, in percent,
    geometric mean over corrected circuits.

    Spreads are relative to those of non-spurious tokens, and root mean squares over
    positions weighted by attention."""
    some = evidence.isel(run=evidence["label"].values == "corrected")
    names = ["embedding_spread", "value_spread"]
    squares = some[names] ** 2 * some["spurious_attention"]
    before, after = np.sqrt(squares.sum("place").to_array().values)
    ratio = estimates.paired_ratio(after, before, "corrected circuits")
    change = estimates.percent_change(ratio)
    return estimates.note_means(change, after, before, digits=2)


VALUE_CORRECTS = Claim(
    "VC.s3.2.value-corrects",
    "section 3.2",
    "this faulty attention pattern is compensated by the value matrix",
    "Where spurious positions get attention without effect, the value matrix brings the"
    " embeddings of their tokens somewhat closer together.",
    (
        Number(
            spread_change_by_value,
            Sign.NEGATIVE,
            "change, by the value matrix, of the spread of spurious tokens relative to"
            " non-spurious ones",
            "%",
            digits=0,
        ),
    ),
    "The paper credits the value matrix with the correction; here it does the smaller"
    " part. Already before it the tokens at these positions lie far closer together than"
    " those at non-spurious ones. Beside the verdict: means after and before it; the"
    " change is a geometric mean. The circuits are chosen by their small effect, which"
    " is measured behind the value matrix; this favours a decrease.",
    summary="the value matrix does a small part of correcting attention to spurious"
    " positions",
    figure="vc2",
)

# -------------------------------------------------------------------- the initial weights


def own_start_similarity(evidence: xr.Dataset, name: str) -> Estimate:
    """Correlation of a run's end with its own start, less its mean correlation with the
    starts of other runs."""
    own, others = estimates.own_and_others(evidence[name].values.T)
    return estimates.paired_difference(own, others)


INITIAL_WEIGHTS = Claim(
    "VC.s4.1.initial-weights",
    "section 4.1",
    "seems to be highly correlated with the initial weight configurations",
    "The final weights and attention patterns are correlated with the initial ones.",
    (
        Number(
            lambda evidence: own_start_similarity(evidence, "weights_kept"),
            Sign.POSITIVE,
            "correlation of all weights with their own start, minus that with other"
            " starts",
            digits=2,
        ),
        Number(
            lambda evidence: own_start_similarity(evidence, "inherited"),
            Sign.POSITIVE,
            "correlation of attention patterns with those at their own start, minus that"
            " with other starts",
            digits=2,
        ),
    ),
    "The paper says highly correlated; here most of the final configuration is learned."
    " Some correlation is expected wherever training moves weights by a limited amount,"
    " so that its size is the result.",
    summary="the final weights are correlated with the initial ones, but not highly",
    figure="vc8",
)

# --------------------------------------------------------------------------------- sums


def congruent_sums(evidence: xr.Dataset) -> Estimate:
    """Percentage of the successful runs that encode a sum congruent to the target."""
    values = successful_runs(evidence)["sum_congruent"]
    return estimates.percentage_of_ones(values, SUCCESSFUL)


def congruent_sums_beyond_others(evidence: xr.Dataset) -> Estimate:
    """The same less that of the other runs, in points."""
    success = evidence["test_accuracy"].values > SUCCESS_ACCURACY
    congruent = evidence["sum_congruent"].values
    return estimates.difference_of_ones(congruent[success], congruent[~success])


SUM = Claim(
    "OWN.sum",
    "",
    "",
    "Networks that solve the task at p = 2 all encode one sum of their tokens with"
    " whole-number coefficients that equals the target modulo p, such as"
    " x0 + x1 + x2 + x3 - x4, whatever invariances they lack.",
    (
        Number(
            congruent_sums, exact_number(100), "successful runs with such a sum", "%"
        ),
        Number(
            congruent_sums_beyond_others,
            Sign.POSITIVE,
            "the same percentage, less that of runs that do not solve the task",
            "points",
        ),
    ),
    "The coefficient of a token is how far the sequence embedding moves along its"
    " leading direction if the token changes from 0 to 1, in units of the median over"
    " the non-spurious positions; within a quarter of a whole number it counts as whole."
    " About a third of the other runs encode such a sum, too.",
    summary="networks that solve VC's task encode one sum that equals the target"
    " modulo p",
    figure="vc3",
)

CIRCUITS = Experiment(
    "vc.circuits",
    "circuits that runs learn, their encoded sums, and the correlation of ends with"
    " starts",
    measure,
    quick=Sizing(20, {"runs": 32}, "32 runs instead of the paper's 100"),
    default=Sizing(50, {"runs": 100}),
    ensembles=default_networks,
    depends={
        "labels": LabelThresholds()._asdict(),
        "sequences": [
            clusters.MAX_REFERENCE_SEQUENCES,
            init_dependence.ATTENTION_SEQUENCES,
        ],
        "link": clusters.CLUSTER_LINK,
        "whole": encoded_sums.INTEGER_TOLERANCE,
    },
    version=3,
    command="python -m analysis.circuits RUN.nc",
    claims=(INVARIANCES, VALUE_CORRECTS, INITIAL_WEIGHTS, SUM),
)
