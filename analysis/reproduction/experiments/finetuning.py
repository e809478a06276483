"""VC section 4.2 and figures 10 and 11: circuits of p = 2, with a token more, and after finetuning to p = 3."""

import dataclasses
from collections.abc import Sequence

import numpy as np
import torch
import xarray as xr

from analysis.clustering_heads.clusters import (
    CLUSTER_LINK,
    MAX_REFERENCE_SEQUENCES,
    embedding_cluster_counts,
    ideal_cluster_count,
)
from analysis.clustering_heads.init_dependence import attention_start_end_correlation
from analysis.clustering_heads.invariances import measure_invariances
from analysis.clustering_heads.labels import LabelThresholds, circuit_label, circuit_labels
from analysis.clustering_heads.transfer_design import larger_vocabulary_settings
from analysis.clustering_heads.vocabulary_transfer import train_ensemble
from analysis.reproduction.experiments.transfer import accuracy_by_frame, experiment_design, scratch_ensembles
from analysis.reproduction.odonnat2024.circuits import WHOLE
from analysis.reproduction.verification.estimate import Estimate, as_percentage, percentage
from analysis.reproduction.verification.experiment import Experiment, Params, Runner, Size
from analysis.reproduction.verification.required_runs import RequiredRuns
from analysis.reproduction.verification.samples import percentage_difference
from analysis.statistics.intervals import NO_INTERVAL, Interval, mean_interval
from analysis.statistics.ranks import rank_biserial, rank_correlation
from dynamics.networks.from_trajectory import clustering_head_of, weights
from dynamics.randomness import random_stream
from dynamics.settings import SUCCESS_ACCURACY, SparseSettings
from dynamics.tasks import sparse_sum
from dynamics.trajectory.diverged import not_diverged

WIDER = 3
"""The vocabulary of the figures."""

OPENED = 0.5
"""Share of the way from chance to 1 below which a run has no circuit (`analysis.clustering_heads.labels`)."""

CHECKED = 1000
"""Sequences of each vocabulary on which the task's own invariances are checked."""


def ensembles(params: Params) -> Sequence[RequiredRuns]:
    """The source and p = 3 from scratch, as in `vc.transfer`; what is finetuned begins from the source."""
    return scratch_ensembles(params, [WIDER])


def measure(runner: Runner, params: Params) -> xr.Dataset:
    """Circuits of the source, of the same with a token more, and of both ways to p = 3, by run."""
    design = experiment_design(params, [WIDER])
    source, once = design.source, design.epochs
    path, first = train_ensemble(source, design, 2 * once, runner.device)
    begun, wider = once * source.epoch_steps, larger_vocabulary_settings(source, WIDER)
    scratch = train_ensemble(wider, design, 2 * once, runner.device)[1]
    finetuning = dataclasses.replace(wider, start=str(path), start_step=begun)
    tuned = train_ensemble(finetuning, design, once, runner.device)[1]
    source_test, (test,), scratch_test = (
        accuracy_by_frame(first)[0],
        accuracy_by_frame(tuned),
        accuracy_by_frame(scratch)[-1],
    )
    labelled = np.array([each.label in WHOLE for each in circuit_labels(measure_invariances(first, begun))])
    found = {
        "source_test": (source_test, "test accuracy of the source at p = 2"),
        "clusters": (embedding_cluster_counts(first, begun).values, "clusters of the source's sequence embeddings"),
        "coarse_clusters": (
            embedding_cluster_counts(first, begun, 2 * CLUSTER_LINK).values,
            "the same with links twice as long",
        ),
        "source_whole": (labelled, "whether the source lacks no invariance"),
        "test": (test, "test accuracy after finetuning"),
        "scratch_test": (scratch_test, "test accuracy from scratch after as many epochs in all"),
        "carried": (_inherited(first, begun, tuned), "whether finetuning begins with all weights of the source"),
        "kept": (
            _invariances_kept(tuned, labelled),
            "whether the source, with a token more, still lacks no invariance",
        ),
        "whole": (_with_labels(tuned, test), "whether the finetuned run lacks no invariance"),
        "corrected": (_with_labels(tuned, test, ("corrected",)), "whether it attends elsewhere to no effect"),
        "scratch_whole": (_with_labels(scratch, scratch_test), "whether the run from scratch lacks no invariance"),
    }
    evidence = xr.Dataset({name: ("run", np.asarray(values, np.float64), {"long_name": about, "units": "1"})
                           for name, (values, about) in found.items()})  # fmt: skip
    evidence = (
        evidence.merge(_attention_by_token(tuned, test))
        .merge(_similarity_to_starts(tuned))
        .merge(_target_invariance(source))
    )
    return evidence.assign_attrs(ideal=ideal_cluster_count(source), counting=len(source.counting), length=source.length)


def _inherited(source: xr.Dataset, begun: int, tuned: xr.Dataset) -> np.ndarray:
    """Whether all weights of a source run, (run,), stand bit for bit in the first frame of the finetuned one."""
    network, same = clustering_head_of(source), np.ones(tuned.sizes["run"], bool)
    before, after = weights(source, step=begun), weights(tuned, step=0)
    for name in network.variables:
        old = before[name]
        new = after[name][:, : old.shape[1]] if name == "embedding" else after[name]
        same &= (old == new).flatten(1).all(1).numpy()
    return same


def _invariances_kept(tuned: xr.Dataset, chosen: np.ndarray) -> np.ndarray:
    """Whether chosen sources lack no invariance with the new token in their sequences, whatever the accuracy: (run,),
    NaN for the others."""
    result, places = np.full(len(chosen), np.nan), np.flatnonzero(chosen)
    if places.size:
        found = measure_invariances(tuned.isel(run=places), 0)
        any_accuracy = LabelThresholds(learned=-np.inf)
        result[places] = [circuit_label(found.isel(run=run), any_accuracy).label in WHOLE for run in range(len(places))]
    return result


def _with_labels(trajectory: xr.Dataset, test: np.ndarray, labels: Sequence[str] = WHOLE) -> np.ndarray:
    """Whether runs end with one of some labels: (run,); without a circuit they do not."""
    result, places = np.zeros(len(test)), _runs_that_learned(test)
    if places.size:
        result[places] = [
            each.label in labels for each in circuit_labels(measure_invariances(trajectory.isel(run=places)))
        ]
    return result


def _runs_that_learned(test: np.ndarray) -> np.ndarray:
    """Places of the runs that have come half-way from chance to 1 or more, in test accuracy less its noise."""
    return np.flatnonzero(test > 1 / WIDER + OPENED * (1 - 1 / WIDER) - 0.05)


def _attention_by_token(tuned: xr.Dataset, test: np.ndarray) -> xr.Dataset:
    """Mean attention after finetuning on each token at counting positions, summed over these: (run, token).

    NaN for runs that do not end above .98.
    """
    values, places = np.full((len(test), WIDER), np.nan), np.flatnonzero(test > SUCCESS_ACCURACY)
    if places.size:
        found = measure_invariances(tuned.isel(run=places))
        given = found["token_attention"].sel(position=found["counting"].values)  # where a position holds the token
        values[places] = given.sum("position").transpose("run", "token").values / WIDER
    attrs = {"long_name": "mean attention on a token at counting positions", "units": "1"}
    return xr.Dataset({"attention": (("run", "token"), values, attrs)}, {"token": np.arange(WIDER)})


@torch.no_grad()
def _similarity_to_starts(tuned: xr.Dataset) -> xr.Dataset:
    """How near a run's end is to its start, and how near to the starts of other runs: (run,) each.

    Normalised embeddings Z(x, t) by root mean square distance, attention by correlation.
    """
    network, count = clustering_head_of(tuned), tuned.sizes["run"]
    last, tables = int(tuned["step"][-1]), []
    for step in (0, last):
        table = network.table({name: each.double() for name, each in weights(tuned, step=step).items()})
        tables.append(table[:, :, : network.settings.vocab].reshape(count, -1, network.settings.dim))
    apart = torch.stack([((tables[0] - end) ** 2).sum(-1).mean(-1).sqrt() for end in tables[1]]).numpy()
    alive = not_diverged(tuned, last)
    result = {}
    for name, matrix, about in (
        ("distance", np.where(alive[:, None], apart, np.nan), "distance of normalised embeddings at the end"),
        ("correlation", attention_start_end_correlation(tuned).values.T, "correlation of attention at the end"),
    ):
        others = np.where(np.eye(count, dtype=bool), np.nan, matrix)
        known = np.isfinite(others).any(axis=1)
        usual = np.full(count, np.nan)
        usual[known] = np.nanmean(others[known], axis=1)
        result[f"own_{name}"] = ("run", np.diagonal(matrix), {"long_name": f"{about}, from its own start"})
        result[f"other_{name}"] = ("run", usual, {"long_name": f"{about}, from other runs' starts"})
    return xr.Dataset(result)


def _target_invariance(source: SparseSettings) -> xr.Dataset:
    """Of how many random sequences of each vocabulary the target stays what it is when the counting tokens change
    places and all others their values: (vocabulary,)."""
    vocabs, counts = np.arange(2, 11), []
    for vocab in vocabs.tolist():
        settings = dataclasses.replace(source, vocab=vocab, table=0)
        generator, counting = random_stream(vocab, "finetuning/task"), list(settings.counting)
        tokens = generator.integers(0, vocab, (CHECKED, settings.length))
        changed = generator.integers(0, vocab, tokens.shape)
        changed[:, counting] = generator.permuted(tokens[:, counting], axis=1)
        counts.append(int((sparse_sum(tokens, settings) == sparse_sum(changed, settings)).sum()))
    about = {"long_name": f"sequences of {CHECKED} that keep their target", "units": "1"}
    return xr.Dataset({"same_target": ("vocabulary", np.array(counts), about)}, {"vocabulary": vocabs})


FINETUNING = Experiment(
    "vc.finetuning",
    "circuits of p = 2, the same with a token more, and after finetuning to p = 3",
    sizes={Size.QUICK: {"runs": 24}, Size.DEFAULT: {"runs": 250}, Size.FULL: {"runs": 250}},
    seconds={Size.QUICK: 8, Size.DEFAULT: 55, Size.FULL: 55},
    reduced={Size.QUICK: "24 runs in place of 250"},
    measure=measure,
    ensembles=ensembles,
    depends={
        "labels": {**LabelThresholds()._asdict(), "whole": WHOLE, "opened": OPENED},
        "links": [CLUSTER_LINK, 2 * CLUSTER_LINK, MAX_REFERENCE_SEQUENCES],
        "success": SUCCESS_ACCURACY,
        "checked": CHECKED,
    },
    command="python -m analysis.transfer --runs 250 --vocabs 3",
)


# ----------------------------------------------------------------------------------------------- what was found


NO_SUCCESS = "no finetuned run ends above .98"

NO_PERFECT = "no finetuned run has every test sequence right"


def both_invariances(evidence: xr.Dataset) -> Estimate:
    """Percentage of runs of p = 2 that lack no invariance after E epochs."""
    values = evidence["source_whole"].values
    good = evidence["source_test"].values > SUCCESS_ACCURACY
    note = f"of the {int(good.sum())} runs above .98 it is {int(values[good].sum())}"
    return percentage(int(values.sum()), len(values), "runs of p = 2", note)


def same_target(evidence: xr.Dataset) -> Estimate:
    """Percentage of sequences of p = 2 to 10 whose target both invariances keep."""
    counts = evidence["same_target"].values
    return percentage(int(counts.sum()), CHECKED * len(counts), "sequences")


def intact_with_token(evidence: xr.Dataset) -> Estimate:
    """Percentage of whole circuits that are whole with a token more, before any training on it."""
    values = evidence["kept"].dropna("run").values
    return percentage(
        int(values.sum()), len(values), "circuits", "" if values.size else "no run of p = 2 has both invariances"
    )


def _perfect_runs(evidence: xr.Dataset) -> np.ndarray:
    """Which finetuned runs have every test sequence right, (run,)."""
    return evidence["test"].values == 1


def perfect_from_ideal(evidence: xr.Dataset) -> Estimate:
    """Of the runs that end at 100%, the percentage that began from as many clusters as the ideal circuit has."""
    ideal, of = evidence.attrs["ideal"], "runs that end at 100%"
    counts, coarse = (
        evidence[name].values[_perfect_runs(evidence)].astype(int) for name in ("clusters", "coarse_clusters")
    )
    if not counts.size:
        return Estimate(NO_INTERVAL, 0, of, note=NO_PERFECT)
    other = sorted(counts[counts != ideal].tolist())
    note = f"the others from {', '.join(map(str, other))}; " if other else ""
    note += f"with links twice as long {int((coarse == ideal).sum())} of {len(coarse)} are from {ideal}"
    return percentage(int((counts == ideal).sum()), len(counts), of, note)


def perfect_from_invariant(evidence: xr.Dataset) -> Estimate:
    """Of the runs that end at 100%, the percentage that began from a circuit with both invariances."""
    values = evidence["source_whole"].values[_perfect_runs(evidence)]
    return percentage(int(values.sum()), len(values), "runs that end at 100%", "" if values.size else NO_PERFECT)


def started_from_source(evidence: xr.Dataset) -> Estimate:
    """Percentage of runs whose finetuning begins with all of their source's weights."""
    values = evidence["carried"].values
    return percentage(int(values.sum()), len(values))


def _accurate_runs(evidence: xr.Dataset) -> np.ndarray:
    """Which finetuned runs end above .98, (run,)."""
    return evidence["test"].values > SUCCESS_ACCURACY


def start_distance(evidence: xr.Dataset) -> Estimate:
    """Distance of final normalised embeddings from their start, in percent of that from other runs' starts."""
    some = evidence.isel(run=_accurate_runs(evidence))
    ratio = (some["own_distance"] / some["other_distance"]).values
    ratio = ratio[np.isfinite(ratio)]
    if not ratio.size:
        return Estimate(NO_INTERVAL, 0, note=NO_SUCCESS)
    return Estimate(as_percentage(mean_interval(ratio)), len(ratio), "finetuned runs above .98")


def attention_correlation(evidence: xr.Dataset) -> Estimate:
    """Correlation of attention at the start and the end of finetuning."""
    some = evidence.isel(run=_accurate_runs(evidence))
    own, other = (some[f"{whose}_correlation"].values for whose in ("own", "other"))
    known = np.isfinite(own) & np.isfinite(other)
    if not known.any():
        return Estimate(NO_INTERVAL, 0, note=NO_SUCCESS)
    mean = mean_interval(own[known])
    note = f"with the starts of other runs {other[known].mean():.2f}"
    mean = Interval(mean.value, max(mean.low, -1.0), min(mean.high, 1.0))
    return Estimate(mean, int(known.sum()), "finetuned runs above .98", mean.value, "Pearson's r", note)


def attention_on_old(evidence: xr.Dataset) -> Estimate:
    """Percentage of successful runs with most of their attention on counting positions that do not hold the new token,
    and less on the new token than on either of the old ones."""
    given = evidence["attention"].dropna("run", how="any").transpose("run", "token").values
    if not len(given):
        return Estimate(NO_INTERVAL, 0, note=NO_SUCCESS)
    old, new = given[:, :-1], given[:, -1]
    right = (old.sum(axis=1) > 0.5) & (new < old.min(axis=1))
    chance = (WIDER - 1) / WIDER * evidence.attrs["counting"] / evidence.attrs["length"]
    note = f"there is {100 * old.sum(axis=1).mean():.0f}% of attention in the mean, {100 * chance:.0f}% if it were even"
    return percentage(int(right.sum()), len(given), "finetuned runs above .98", note)


def corrected_runs(evidence: xr.Dataset) -> Estimate:
    """Percentage of successful runs that attend to spurious positions too, to no effect."""
    values = evidence["corrected"].values[_accurate_runs(evidence)]
    return percentage(int(values.sum()), len(values), "finetuned runs above .98", "" if values.size else NO_SUCCESS)


def invariance_gain(evidence: xr.Dataset) -> Estimate:
    """What finetuning adds to the percentage of all runs that end at p = 3 with both invariances, in points."""
    first, second = evidence["whole"].values, evidence["scratch_whole"].values
    hits, totals = (int(first.sum()), int(second.sum())), (len(first), len(second))
    note = f"{hits[0]} of {totals[0]} against {hits[1]} of {totals[1]}"
    return percentage_difference(hits, totals)._replace(note=note)


def cluster_correlation(evidence: xr.Dataset, successful: bool) -> Estimate:
    """Rank correlation of the source's clusters with test accuracy after finetuning."""
    some = evidence.isel(run=_sources(evidence, successful))
    found = rank_correlation(some["clusters"].values, some["test"].values)
    which = "those above .98 at p = 2" if successful else "all, whether they learned p = 2 or not"
    note = which if np.isfinite(found.value) else f"of {which} there are too few, or none that differ"
    return Estimate(found, some.sizes["run"], _word(successful), found.value, "Spearman's rho", note)


def fewer_clusters_probability(evidence: xr.Dataset, successful: bool) -> Estimate:
    """Chance that of two sources, one that leads above .98 and one that does not, the former has fewer clusters."""
    some = evidence.isel(run=_sources(evidence, successful))
    counts, well = some["clusters"].values, _accurate_runs(some)
    found = rank_biserial(-counts[well], -counts[~well])
    if not np.isfinite(found.value):
        return Estimate(
            NO_INTERVAL, len(counts), note="all sources above .98 at p = 2, or none, lead above .98 at p = 3"
        )
    area = Interval(*((1 + bound) / 2 for bound in found))
    note = f"of those above .98 at p = 2, {int(well.sum())} of {len(counts)} lead above .98 at p = 3"
    return Estimate(area, len(counts), _word(successful), found.value, "rank-biserial correlation", note)


def _sources(evidence: xr.Dataset, successful: bool) -> np.ndarray:
    known = np.isfinite(evidence["test"].values)
    return known & (evidence["source_test"].values > SUCCESS_ACCURACY) if successful else known


def _word(successful: bool) -> str:
    return "sources above .98" if successful else "sources"
