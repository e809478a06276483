"""VC section 4.2 and figure 9: larger vocabularies learned from scratch, and finetuned
from networks of p = 2."""

from collections.abc import Sequence

import numpy as np
import xarray as xr

from analysis.clustering_heads.transfer_design import (
    TransferDesign,
    larger_vocabulary_settings,
)
from analysis.clustering_heads.vocabulary_transfer import TRANSFER_KINDS, run_transfer
from analysis.output.results import dimensionless
from analysis.reproduction.verification import (
    Estimate,
    Params,
    RequiredRuns,
    Runner,
    as_percentage,
    declare_experiment,
    samples,
)
from analysis.statistics import difference_interval, rank_correlation
from analysis.statistics.intervals import NO_INTERVAL
from dynamics.settings import SUCCESS_ACCURACY, SparseSettings
from dynamics.trajectory import mask_diverged, open_trajectory

SCRATCH, LONG, FINETUNED = TRANSFER_KINDS[:3]
"""From scratch for E and for 2E epochs, and E epochs of finetuning after E epochs of p
= 2."""

LEARNED = 0.1
"""Fraction of the way from chance to 1 from which on a run has learned something; noise
of 2048 sequences is .01."""

NOISE = 0.01
"""Difference of accuracies up to which two runs count as equal."""


# -------------------------------------------------------------------------- experiments


def experiment_design(params: Params) -> TransferDesign:
    """The ensembles of the experiment; `python -m analysis.transfer` reads and writes
    the same files."""
    settings = SparseSettings(**params.get("settings", {}))
    epochs = params.get("epochs", TransferDesign.epochs)
    return TransferDesign(
        settings, tuple(params["vocabs"]), params["runs"], epochs=epochs
    )


def ensembles(params: Params) -> Sequence[RequiredRuns]:
    """The source and all vocabularies from scratch. Finetuned networks begin from the
    source, and are trained here."""
    design = experiment_design(params)
    vocabularies = [
        larger_vocabulary_settings(design.source, vocab) for vocab in design.vocabs
    ]
    return [
        RequiredRuns(
            settings, design.runs, epochs=2 * design.epochs, every=design.epochs
        )
        for settings in (design.source, *vocabularies)
    ]


def measure(runner: Runner, params: Params) -> xr.Dataset:
    """Accuracy on all test sequences and on those that occur in no training split,
    (kind, vocab, run)."""
    result, paths = run_transfer(experiment_design(params), runner.say, runner.device)
    test = result["accuracy"].copy(data=np.full(result["accuracy"].shape, np.nan))
    source, *others = (accuracy_by_frame(open_trajectory(path)) for path in paths)
    test[:2, 0] = source
    for place, (scratch, (tuned,)) in enumerate(
        zip(others[::2], others[1::2], strict=True), 1
    ):
        test[:, place] = [
            *scratch,
            tuned,
            np.where(result["successful"], tuned, np.nan),
        ]
    test.attrs = dimensionless("accuracy on all test sequences")
    return result.assign(test=test).drop_vars("clusters")


def accuracy_by_frame(trajectory: xr.Dataset) -> np.ndarray:
    """Test accuracy in every frame but the first, (step, run); NaN for runs that have
    diverged by then."""
    later = trajectory.isel(step=slice(1, None))
    accuracy = mask_diverged(later["accuracy"].sel(split="test"), later)
    return accuracy.transpose("step", "run").values


TRANSFER = declare_experiment(
    "vc.transfer", measure, ensembles, depends={"success": SUCCESS_ACCURACY}
)

VOCABULARIES = declare_experiment(
    "vc.vocabularies", measure, ensembles, depends={"success": SUCCESS_ACCURACY}
)


# ---------------------------------------------------------------------------- estimates


def _final_accuracies(evidence: xr.Dataset, kind: str, vocab: int) -> np.ndarray:
    """Test accuracies of a kind and vocabulary, (run,); empty if it was not run."""
    return samples.finite_values(evidence["test"].sel(kind=kind).reindex(vocab=[vocab]))


def _progress_from_chance(accuracy: np.ndarray, vocab: int) -> np.ndarray:
    """Fraction of the way from chance to 1."""
    return (accuracy - 1 / vocab) / (1 - 1 / vocab)


def learned_runs(evidence: xr.Dataset, vocab: int, something: bool = True) -> Estimate:
    """Percentage of runs from scratch that have learned something, or nothing, after E
    epochs."""
    values = _final_accuracies(evidence, SCRATCH, vocab)
    learned = _progress_from_chance(values, vocab) > LEARNED
    note = f"the best run has {100 * values.max():.1f}%" if values.size else ""
    return samples.percentage_of_ones(learned == something, "runs", note)


def vocabulary_correlation(evidence: xr.Dataset) -> Estimate:
    """Rank correlation of p with the fraction of the way from chance to 1, from scratch
    after E epochs."""
    vocabs = evidence["vocab"].values.tolist()
    progress = [
        _progress_from_chance(_final_accuracies(evidence, SCRATCH, vocab), vocab)
        for vocab in vocabs
    ]
    if sum(fractions.size > 0 for fractions in progress) < 3:
        return Estimate(
            NO_INTERVAL, 0, note="fewer than three vocabularies are among these runs"
        )
    interval = rank_correlation(
        np.repeat(vocabs, [fractions.size for fractions in progress]),
        np.concatenate(progress),
    )
    return Estimate(
        interval,
        sum(fractions.size for fractions in progress),
        "runs",
        interval.value,
        "Spearman's rho",
    )


def finetuning_gain(evidence: xr.Dataset, vocab: int, over: str = SCRATCH) -> Estimate:
    """Mean test accuracy of finetuned runs minus that of runs from scratch, in
    points."""
    tuned = _final_accuracies(evidence, FINETUNED, vocab)
    other = _final_accuracies(evidence, over, vocab)
    both = tuned.size and other.size
    note = (
        f"{100 * tuned.mean():.1f}% finetuned, {100 * other.mean():.1f}% from scratch"
        if both
        else ""
    )
    difference = as_percentage(difference_interval(tuned, other, (0, 1)))
    effect = samples.cohens_d(tuned, other)
    return Estimate(difference, len(tuned), "runs", effect, "Cohen's d", note)


def better_than_all(evidence: xr.Dataset, vocab: int) -> Estimate:
    """Percentage of finetuned runs better, by more than NOISE, than all runs from
    scratch, of E and of 2E epochs.

    If one from scratch is within NOISE of 100%, runs that equal it up to NOISE count as
    well."""
    tuned = _final_accuracies(evidence, FINETUNED, vocab)
    scratch = np.concatenate(
        [_final_accuracies(evidence, kind, vocab) for kind in (SCRATCH, LONG)]
    )
    best = scratch.max(initial=0)
    tie = best + NOISE >= 1
    hits = tuned >= best - NOISE if tie else tuned > best + NOISE
    note = (
        f"the best has {100 * tuned.max(initial=0):.1f}%, from scratch"
        f" {100 * best:.1f}%"
    )
    note += ", so that runs that equal it count" if tie else ""
    return samples.percentage_of_ones(hits, "finetuned runs", note)
