"""VC sections 2 to 4.1: what a hundred runs have learned, by which circuit, and what of it was there at the start."""

from collections.abc import Sequence

import numpy as np
import torch
import xarray as xr

from analysis.clustering_heads.clusters import CLUSTER_LINK, MAX_REFERENCE_SEQUENCES, ideal_cluster_count
from analysis.clustering_heads.encoded_sums import INTEGER_TOLERANCE, measure_encoded_sums
from analysis.clustering_heads.init_dependence import (
    ATTENTION_SEQUENCES,
    attention_start_end_correlation,
    compare_same_seed,
    pairwise_correlations,
)
from analysis.clustering_heads.invariances import (
    counting_attention,
    largest_leak,
    largest_order_fraction,
    measure_invariances,
)
from analysis.clustering_heads.labels import LabelThresholds, circuit_labels
from analysis.reproduction.verification.estimate import Estimate, as_percentage, percentage
from analysis.reproduction.verification.experiment import Experiment, Params, Runner, Size
from analysis.reproduction.verification.required_runs import RequiredRuns
from analysis.statistics.intervals import NO_INTERVAL, Interval, binomial_interval, mean_interval
from analysis.statistics.resampling import mean_distance_within
from dynamics.networks.from_trajectory import clustering_head_of, weights
from dynamics.settings import SUCCESS_ACCURACY, SparseSettings
from dynamics.trajectory.diverged import not_diverged

WHOLE = ("ideal", "corrected", "part of the values")
"""Labels of circuits that lack no invariance."""

HELD = 0.9
"""Test accuracy above which a run succeeds in VC's appendices A.2 and A.3."""


def ensembles(params: Params) -> Sequence[RequiredRuns]:
    """VC's default networks."""
    return [RequiredRuns(SparseSettings(), params["runs"], epochs=params.get("epochs"))]


def measure(runner: Runner, params: Params) -> xr.Dataset:
    """Accuracies, invariances, labels, sums by run, and how ends resemble starts, (run, other_run)."""
    trajectory = runner.ensemble(ensembles(params)[0])
    found, told = measure_invariances(trajectory), measure_encoded_sums(trajectory)
    judged = circuit_labels(found)
    spurious = np.setdiff1d(found["position"].values, found["counting"].values)
    steps = np.nan_to_num(told["sum_steps"].values.round(), nan=0).astype(np.int64)
    alive = not_diverged(trajectory)
    data: dict[str, tuple] = {
        "label": ("run", np.array([each.label for each in judged]), _named("kind of circuit", "")),
        "leaking": ("run", np.array([len(each.leaking) for each in judged]), _named("spurious positions that leak")),
        "apart": ("run", np.array([len(each.apart) for each in judged]), _named("counting positions that do not swap")),
        "clusters": ("run", found["clusters"].values, found["clusters"].attrs),
        "attention": ("run", counting_attention(found), _named("mean attention on counting positions")),
        "leak": ("run", largest_leak(found), _named("largest value share of a spurious position")),
        "unswapped": ("run", largest_order_fraction(found), _named("largest order share of two counting positions")),
        "spurious_attention": (("run", "place"), found["attention"].sel(position=spurious).values,
                               _named("mean attention on each spurious position")),
        "inherited": (("run", "other_run"), attention_start_end_correlation(trajectory).values,
                      _named("correlation of attention at the start of a run with that at the end of another")),
        "weights_kept": (("run", "other_run"), _weights_kept(trajectory),
                         _named("correlation of first weights of a run with final weights of another")),
        "sum_steps": (("run", "position"), steps[..., -1], _named("what token p - 1 counts in the encoded sum")),
    }  # fmt: skip
    for name in ("embedding_spread", "value_spread"):
        data[name] = (("run", "place"), found[name].sel(position=spurious).values, found[name].attrs)
    for name in ("sum_whole", "sum_congruent", "sum_share"):
        data[name] = ("run", told[name].values, told[name].attrs)
    for split in map(str, trajectory["split"].values):
        values = trajectory["accuracy"].isel(step=-1).sel(split=split).values.astype(np.float64)
        data[f"{split}_accuracy"] = ("run", np.where(alive, values, np.nan), _named(f"final accuracy, {split} split"))
    parameters = sum(clustering_head_of(trajectory).lengths)
    coords = {"seed": ("run", trajectory["seed"].values), "place": spurious}
    return xr.Dataset(data, coords, {"ideal_clusters": ideal_cluster_count(SparseSettings()), "parameters": parameters})


def _named(long_name: str, units: str = "1") -> dict[str, str]:
    return {"long_name": long_name, "units": units}


@torch.no_grad()
def _weights_kept(trajectory: xr.Dataset) -> np.ndarray:
    """Pearson's correlation of first with final weights: (run, other_run), NaN where either has diverged.

    Each weight matrix counts by its entries in units of its root mean square over runs, so that none outweighs others.
    """
    network = clustering_head_of(trajectory)
    ends = []
    for step in (int(trajectory["step"][0]), int(trajectory["step"][-1])):
        some = trajectory[list(network.variables)].sel(step=[step]).assign_attrs(trajectory.attrs)
        frame = {name: weight.double().numpy() for name, weight in weights(some, step=step).items()}
        sizes = {name: np.sqrt(np.mean(each**2)) or 1.0 for name, each in frame.items()}
        ends.append(network.flatten({name: each / sizes[name] for name, each in frame.items()}))
    alive = not_diverged(trajectory)
    return np.where(alive[:, None] & alive, pairwise_correlations(*ends), np.nan)


CIRCUITS = Experiment(
    "vc.circuits",
    "what each run has learned, by which circuit, and what of it was there at the start",
    sizes={Size.QUICK: {"runs": 32}, Size.DEFAULT: {"runs": 100}, Size.FULL: {"runs": 100}},
    seconds={Size.QUICK: 4, Size.DEFAULT: 10, Size.FULL: 10},
    measure=measure,
    reduced={Size.QUICK: "32 runs in place of the 100 that the paper averages over"},
    ensembles=ensembles,
    depends={
        "labels": LabelThresholds()._asdict(),
        "link": CLUSTER_LINK,
        "sequences": [MAX_REFERENCE_SEQUENCES, ATTENTION_SEQUENCES],
        "whole": INTEGER_TOLERANCE,
    },
    command="python -m analysis.circuits RUN.nc",
)


# ------------------------------------------------------------------------------------------------- findings


def _successful_runs(evidence: xr.Dataset, above: float = SUCCESS_ACCURACY) -> np.ndarray:
    """Which runs end with a test accuracy above a bound, (run,) bool."""
    return np.nan_to_num(evidence["test_accuracy"].values) > above


def _with_circuit(evidence: xr.Dataset) -> np.ndarray:
    """Which runs have a circuit: come at least half-way from chance to 1, (run,) bool."""
    return evidence["label"].values != "none"


def labelled_circuits(evidence: xr.Dataset, label: str) -> Estimate:
    """Percentage of the runs with a circuit that have one of a kind."""
    of = evidence["label"].values == label
    return percentage(
        int(of.sum()), int(_with_circuit(evidence).sum()), "runs with a circuit", f"{of.size} runs in all"
    )


def not_ideal(evidence: xr.Dataset) -> Estimate:
    """Percentage of the runs with a circuit whose circuit is not the ideal one."""
    total = int(_with_circuit(evidence).sum())
    ideal = int((evidence["label"].values == "ideal").sum())
    return percentage(total - ideal, total, "runs with a circuit")


def several_missing(evidence: xr.Dataset) -> Estimate:
    """Percentage of the runs with a circuit that leak at a spurious position and whose counting positions differ."""
    both = _with_circuit(evidence) & (evidence["leaking"].values > 0) & (evidence["apart"].values > 0)
    return percentage(int(both.sum()), int(_with_circuit(evidence).sum()), "runs with a circuit")


def more_clusters(evidence: xr.Dataset) -> Estimate:
    """Percentage of partial circuits with more clusters than the ideal one."""
    partial = evidence["label"].values == "partial"
    more = partial & (evidence["clusters"].values > evidence.attrs["ideal_clusters"])
    return percentage(int(more.sum()), int(partial.sum()), "partial circuits")


def fuzzy_and_accurate(evidence: xr.Dataset) -> Estimate:
    """Percentage of the runs with a circuit that have a fuzzy one and are above .9 on unseen sequences."""
    right = (evidence["label"].values == "fuzzy") & (np.nan_to_num(evidence["unseen_accuracy"].values) > HELD)
    return percentage(int(right.sum()), int(_with_circuit(evidence).sum()), "runs with a circuit")


def all_invariances(evidence: xr.Dataset) -> Estimate:
    """Percentage of successful runs that lack no invariance."""
    success = _successful_runs(evidence)
    whole = success & np.isin(evidence["label"].values, WHOLE)
    return percentage(int(whole.sum()), int(success.sum()), "successful runs")


def ideal_clusters(evidence: xr.Dataset) -> Estimate:
    """Percentage of successful runs whose sequence embeddings form as many clusters as the ideal circuit's."""
    success = _successful_runs(evidence)
    as_many = success & (evidence["clusters"].values == evidence.attrs["ideal_clusters"])
    return percentage(int(as_many.sum()), int(success.sum()), "successful runs")


def spurious_collapse(evidence: xr.Dataset) -> Estimate:
    """How far spurious tokens lie apart after the value matrix, over what it is before, in corrected circuits; both
    relative to counting tokens, as root mean squares over positions by their attention. Geometric mean over runs."""
    some = evidence.isel(run=np.flatnonzero(evidence["label"].values == "corrected"))
    by = some["spurious_attention"].values
    sizes = [np.sqrt((by * some[name].values ** 2).sum(axis=1)) for name in ("value_spread", "embedding_spread")]
    ratio = np.divide(sizes[0], sizes[1], out=np.full(len(by), np.nan), where=sizes[1] > 0)
    logs = np.log(ratio[ratio > 0])
    if not logs.size:
        return Estimate(NO_INTERVAL, 0, "corrected circuits", note="no run has a corrected circuit")
    note = f"from {np.median(sizes[1]):.2f} to {np.median(sizes[0]):.2f} of counting tokens, medians"
    return Estimate(Interval(*np.exp(mean_interval(logs))), len(logs), "corrected circuits", note=note)


def different_sums(evidence: xr.Dataset) -> Estimate:
    """Percentage of pairs of successful runs that encode different sums; its interval is over runs.

    It is the jackknife's of the logit, which keeps it between none and all; of none or all of the pairs the exact
    binomial one, of as many as there are pairs of which no two have a run in common.
    """
    some = evidence.isel(run=np.flatnonzero(_successful_runs(evidence) & evidence["sum_whole"].values.astype(bool)))
    steps = some["sum_steps"].values
    differ = (steps[:, None] != steps[None]).any(axis=-1).astype(np.float64)
    return Estimate(as_percentage(_of_pairs(differ)), len(steps), "successful runs that encode a sum")


def _of_pairs(hits: np.ndarray) -> Interval:
    """Share of the pairs of runs that count, (one, other) symmetric with 0 or 1, within its bounds."""
    found, runs = mean_distance_within(hits), len(hits)
    if found.value in (0, 1):
        return binomial_interval(round(found.value * (runs // 2)), runs // 2)
    if not found.half > 0:
        return Interval(found.value, np.nan, np.nan)
    odds = np.log(found.value / (1 - found.value))
    width = found.half / (found.value * (1 - found.value))
    return Interval(found.value, *(float(1 / (1 + np.exp(-each))) for each in (odds - width, odds + width)))


def congruent_sums(evidence: xr.Dataset) -> Estimate:
    """Percentage of successful runs that encode a whole-number sum congruent to the target."""
    success = _successful_runs(evidence)
    right = success & evidence["sum_congruent"].values.astype(bool)
    explained = evidence["sum_share"].values[right]
    note = f"it explains at least {100 * explained.min():.1f}% of the variance" if explained.size else ""
    return percentage(int(right.sum()), int(success.sum()), "successful runs", note)


def congruent_failures(evidence: xr.Dataset) -> Estimate:
    """Percentage of the other runs that do."""
    failed = ~_successful_runs(evidence)
    right = failed & evidence["sum_congruent"].values.astype(bool)
    return percentage(int(right.sum()), int(failed.sum()), "runs that are not successful")


def failed_runs(evidence: xr.Dataset) -> Estimate:
    """Percentage of runs that are not above .9."""
    return percentage(int((~_successful_runs(evidence, HELD)).sum()), evidence.sizes["run"])


def _own(matrix: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """The runs that have values, (run, other_run), and their diagonal."""
    some = np.isfinite(np.diagonal(matrix))
    kept = matrix[np.ix_(some, some)]
    return kept, np.diagonal(kept)


def start_similarity(evidence: xr.Dataset, name: str) -> Estimate:
    """Mean correlation of a run's start with its own end."""
    kept, own = _own(evidence[name].values)
    interval = mean_interval(own)
    return Estimate(interval, len(kept), effect=interval.value, effect_name="r")


def excess_start_similarity(evidence: xr.Dataset, name: str) -> Estimate:
    """How much more a run's end correlates with its own start than with the others'; the interval is over runs."""
    kept, own = _own(evidence[name].values)
    if len(kept) < 2:
        return Estimate(NO_INTERVAL, len(kept), note="fewer than two runs")
    others = (kept.sum(axis=0) - own) / (len(kept) - 1)  # of each end with all other starts
    gain = own - others
    size = float(gain.mean() / gain.std(ddof=1)) if np.ptp(gain) else np.nan
    p = compare_same_seed(kept, higher=True).p
    return Estimate(mean_interval(gain), len(kept), effect=size, effect_name="Cohen's d of pairs",
                   note=f"p = {p:.2g} by permutation of the ends")  # fmt: skip
