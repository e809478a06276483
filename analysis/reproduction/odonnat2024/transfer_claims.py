"""VC section 4.2 and figure 9: larger vocabularies learned from scratch, and finetuned
from networks of p = 2."""

from collections.abc import Sequence

import numpy as np
import xarray as xr
from scipy import stats

from analysis.clustering_heads.transfer_design import (
    TransferDesign,
    larger_vocabulary_settings,
)
from analysis.clustering_heads.vocabulary_transfer import (
    FINETUNED,
    SCRATCH,
    SCRATCH_TWICE,
    run_transfer,
)
from analysis.output.results import dimensionless
from analysis.reproduction import estimates
from analysis.reproduction.claim import Claim, Number, Sign, exact_number
from analysis.reproduction.estimates import Estimate, as_percentage
from analysis.reproduction.experiment import (
    Experiment,
    Params,
    RequiredRuns,
    Runner,
    Sizing,
)
from analysis.statistics import difference_interval
from dynamics.settings import SUCCESS_ACCURACY, SparseSettings
from dynamics.trajectory import mask_diverged, open_trajectory

# -------------------------------------------------------------------------- experiments


def experiment_design(params: Params) -> TransferDesign:
    """The ensembles of the experiment; `analysis.paper transfer` reads and writes
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


# ------------------------------------------------------------------------------- claims


def final_accuracies(evidence: xr.Dataset, kind: str, vocab: int) -> np.ndarray:
    """Test accuracies of a kind and vocabulary, (run,); empty if it was not run."""
    values = evidence["test"].sel(kind=kind).reindex(vocab=[vocab])
    return estimates.finite_values(values)


def finetuning_gain(evidence: xr.Dataset, vocab: int) -> Estimate:
    """Mean test accuracy of finetuned runs minus that of runs from scratch of as many
    epochs in all, in points."""
    tuned = final_accuracies(evidence, FINETUNED, vocab)
    scratch = final_accuracies(evidence, SCRATCH_TWICE, vocab)
    difference = as_percentage(difference_interval(tuned, scratch, (0, 1)))
    note = ""
    if len(tuned):
        note = f"{100 * tuned.mean():.1f}% against {100 * scratch.mean():.1f}%"
    return Estimate(difference, len(tuned), note=note)


def gain_number(vocab: int) -> Number:
    """The gain by finetuning at a vocabulary."""
    return Number(
        lambda evidence: finetuning_gain(evidence, vocab),
        Sign.POSITIVE,
        f"accuracy of finetuned runs minus that of runs from scratch, p = {vocab}",
        "points",
    )


FINETUNED_BETTER = Claim(
    "VC.figure9.transfer",
    "section 4.2, figure 9",
    "Finetuned models display better performances than pretrained-only models",
    "1000 epochs of p = 2 and then 1000 of p = 3 give a higher mean accuracy at p = 3"
    " than 2000 epochs of p = 3.",
    tuple(map(gain_number, (3, 4, 6, 8, 10))),
    "Runs from scratch have 2000 epochs, as many as finetuned ones in all; the paper does"
    " not say how long its own are. The gain shrinks with p, because hardly any run learns the"
    " task at large p.",
    summary="finetuning from p = 2 learns p = 3 better than training from scratch",
    figure="vc9",
)


ABOVE_4 = range(5, 11)
"""Vocabularies at which the paper finds no learning."""


def runs_without_learning(evidence: xr.Dataset, vocabs: Sequence[int]) -> Estimate:
    """Percentage of runs from scratch whose test accuracy after E epochs may be that of
    guessing: by a binomial test of each, at a level of .05 for all runs with p > 4
    together."""
    sequences = SparseSettings().data
    by_vocab = [final_accuracies(evidence, SCRATCH, vocab) for vocab in vocabs]
    runs = sum(map(len, by_vocab))
    tests = sum(len(final_accuracies(evidence, SCRATCH, p)) for p in ABOVE_4)
    guesses = [
        accuracy * sequences <= stats.binom.isf(0.05 / tests, sequences, 1 / vocab)
        for vocab, accuracy in zip(vocabs, by_vocab, strict=True)
        if len(accuracy)
    ]
    best = max((accuracy.max() for accuracy in by_vocab if len(accuracy)), default=0)
    hits = int(sum(map(np.sum, guesses)))
    note = f"the best run has {100 * best:.1f}%"
    return estimates.percentage_or_none(hits, runs, "runs", note if runs else "")


def nothing_number(vocabs: Sequence[int], label: str) -> Number:
    """The percentage of runs that learn nothing at some vocabularies."""
    return Number(
        lambda evidence: runs_without_learning(evidence, vocabs),
        exact_number(100),
        f"runs that learn nothing, {label}",
        "%",
    )


NOTHING_ABOVE_4 = Claim(
    "VC.s4.2.nothing-above-4",
    "section 4.2",
    "1000 epochs does not result in any learning for p > 4",
    "With p above 4 nothing is learned from scratch within 1000 epochs.",
    (
        nothing_number(ABOVE_4, "p = 5 to 10"),
        nothing_number([5], "p = 5"),
        nothing_number(range(6, 11), "p = 6 to 10"),
    ),
    "A run has learned something if guessing cannot explain its accuracy on 2048 test"
    " sequences. The exceptions are few, and all at p = 5. The paper says none, so a"
    " single exception is enough.",
    summary="nothing at all is learned from scratch above p = 4 (a few runs learn p = 5)",
    figure="vc9",
)

VOCABULARIES = Experiment(
    "vc.vocabularies",
    "accuracy at p = 3 to 10 from scratch, after 1000 and 2000 epochs, and finetuned"
    " from p = 2",
    measure,
    quick=Sizing(
        7, {"runs": 24, "vocabs": [3]}, "24 runs instead of 250, and only p = 3"
    ),
    default=Sizing(320, {"runs": 250, "vocabs": [3, 4, 5, 6, 7, 8, 9, 10]}),
    ensembles=ensembles,
    depends={"success": SUCCESS_ACCURACY},
    command="python -m analysis.paper transfer --runs 250",
    claims=(FINETUNED_BETTER, NOTHING_ABOVE_4),
)
