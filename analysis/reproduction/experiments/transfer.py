"""VC section 4.2 and figure 9: larger vocabularies from scratch, and finetuned from runs of p = 2."""

from collections.abc import Sequence

import numpy as np
import xarray as xr

from analysis.clustering_heads.transfer_design import TransferDesign, larger_vocabulary_settings
from analysis.clustering_heads.vocabulary_transfer import TRANSFER_KINDS, run_transfer
from analysis.reproduction.verification.estimate import Estimate, as_percentage, percentage
from analysis.reproduction.verification.experiment import Experiment, Params, Runner, Size
from analysis.reproduction.verification.required_runs import RequiredRuns
from analysis.reproduction.verification.samples import cohens_d
from analysis.statistics.intervals import NO_INTERVAL, difference_interval
from analysis.statistics.ranks import rank_correlation
from dynamics.settings import SUCCESS_ACCURACY, SparseSettings
from dynamics.trajectory.diverged import mask_diverged
from dynamics.trajectory.reader import open_trajectory

VOCABS = tuple(range(3, 11))
"""Vocabularies of the figure, but for the source's."""

LEARNED = 0.1
"""Share of the way from chance to 1 from which a run has learned something; noise of 2048 sequences is .01 of it."""

NOISE = 0.01
"""Accuracy by which one run must be ahead of another to be better."""


def experiment_design(params: Params, vocabs: Sequence[int]) -> TransferDesign:
    """The ensembles of the experiment; `python -m analysis.transfer` reads and writes the same files."""
    settings = SparseSettings(**params.get("settings", {}))
    return TransferDesign(settings, tuple(vocabs), params["runs"], epochs=params.get("epochs", TransferDesign.epochs))


def scratch_ensembles(params: Params, vocabs: Sequence[int]) -> list[RequiredRuns]:
    """The source, and vocabularies from scratch."""
    design = experiment_design(params, vocabs)
    each = [design.source, *(larger_vocabulary_settings(design.source, vocab) for vocab in vocabs)]
    return [RequiredRuns(settings, design.runs, epochs=2 * design.epochs, every=design.epochs) for settings in each]


def ensembles(params: Params) -> Sequence[RequiredRuns]:
    """The source and every vocabulary from scratch; what is finetuned begins from the source, and is made here."""
    return scratch_ensembles(params, params["vocabs"])


def measure(runner: Runner, params: Params) -> xr.Dataset:
    """Accuracy on all test sequences and on those not trained on, (kind, vocab, run); NaN for what diverged."""
    result, paths = run_transfer(experiment_design(params, params["vocabs"]), runner.say, runner.device)
    test = np.full(result["accuracy"].shape, np.nan)
    ends = [accuracy_by_frame(open_trajectory(path)) for path in paths]
    test[:2, 0] = ends[0]
    for place in range(1, result.sizes["vocab"]):
        test[:2, place], test[2, place] = ends[2 * place - 1], ends[2 * place][-1]
        test[3, place] = np.where(result["successful"].values, test[2, place], np.nan)
    about = {"long_name": "accuracy on all test sequences", "units": "1"}
    return result.assign(test=(("kind", "vocab", "run"), test, about)).drop_vars("clusters")


def accuracy_by_frame(trajectory: xr.Dataset) -> np.ndarray:
    """Test accuracy in every frame but the first, (step, run); NaN for runs that have diverged by then."""
    later = trajectory.isel(step=slice(1, None))
    found = mask_diverged(later["accuracy"].sel(split="test"), later)
    return found.transpose("step", "run").values


TRANSFER = Experiment(
    "vc.transfer",
    "accuracy at p = 3 from scratch, after 1000 and 2000 epochs, and finetuned from p = 2",
    sizes={
        Size.QUICK: {"runs": 24, "vocabs": [3]},
        Size.DEFAULT: {"runs": 250, "vocabs": [3]},
        Size.FULL: {"runs": 250, "vocabs": [3]},
    },
    seconds={Size.QUICK: 7, Size.DEFAULT: 50, Size.FULL: 50},
    reduced={Size.QUICK: "24 runs in place of 250"},
    measure=measure,
    ensembles=ensembles,
    depends={"success": SUCCESS_ACCURACY},
    command="python -m analysis.transfer --runs 250 --vocabs 3",
)

VOCABULARIES = Experiment(
    "vc.vocabularies",
    "the same for p = 3 to 10",
    sizes={Size.DEFAULT: {"runs": 250, "vocabs": list(VOCABS)}, Size.FULL: {"runs": 250, "vocabs": list(VOCABS)}},
    seconds={Size.DEFAULT: 320, Size.FULL: 320},
    measure=measure,
    ensembles=ensembles,
    depends={"success": SUCCESS_ACCURACY},
    command="python -m analysis.transfer --runs 250",
)


# ----------------------------------------------------------------------------------------------- what was found


def _final_accuracies(evidence: xr.Dataset, kind: str, vocab: int) -> np.ndarray:
    """Test accuracies of a kind and vocabulary, (run,); none where it was not run."""
    if vocab not in evidence["vocab"].values:
        return np.empty(0)
    values = evidence["test"].sel(kind=kind, vocab=vocab).values
    return values[np.isfinite(values)]


def _vocabulary_not_run(vocab: int) -> Estimate:
    """Of a vocabulary that was not run."""
    return Estimate(NO_INTERVAL, 0, note=f"p = {vocab} is not among these runs")


def _progress_from_chance(accuracy: np.ndarray, vocab: int) -> np.ndarray:
    """Share of the way from chance to 1."""
    return (accuracy - 1 / vocab) / (1 - 1 / vocab)


def learned_runs(evidence: xr.Dataset, vocab: int) -> Estimate:
    """Percentage of runs from scratch that have learned something after E epochs."""
    values = _final_accuracies(evidence, TRANSFER_KINDS[0], vocab)
    if not values.size:
        return _vocabulary_not_run(vocab)
    return percentage(
        int((_progress_from_chance(values, vocab) > LEARNED).sum()), len(values), note=_best_accuracy(values)
    )


def not_learned_runs(evidence: xr.Dataset, vocab: int) -> Estimate:
    """Percentage of runs from scratch that have learned nothing after E epochs."""
    values = _final_accuracies(evidence, TRANSFER_KINDS[0], vocab)
    if not values.size:
        return _vocabulary_not_run(vocab)
    return percentage(
        int((_progress_from_chance(values, vocab) <= LEARNED).sum()), len(values), note=_best_accuracy(values)
    )


def _best_accuracy(values: np.ndarray) -> str:
    """What the best of some runs has."""
    return f"the best run has {100 * values.max():.1f}%"


def vocabulary_correlation(evidence: xr.Dataset) -> Estimate:
    """Rank correlation of p with the share of the way from chance to 1, from scratch after E epochs."""
    pairs = [
        (vocab, each)
        for vocab in evidence["vocab"].values.tolist()
        for each in _progress_from_chance(_final_accuracies(evidence, TRANSFER_KINDS[0], vocab), vocab)
    ]
    if len({vocab for vocab, _ in pairs}) < 3:
        return Estimate(NO_INTERVAL, 0, note="fewer than three vocabularies are among these runs")
    vocabs, ways = np.array(pairs).T
    found = rank_correlation(vocabs, ways)
    return Estimate(found, len(pairs), effect=found.value, effect_name="Spearman's rho")


def finetuning_gain(
    evidence: xr.Dataset, vocab: int, kind: str = TRANSFER_KINDS[2], over: str = TRANSFER_KINDS[0]
) -> Estimate:
    """What finetuning adds to the mean test accuracy, in points."""
    first, second = _final_accuracies(evidence, kind, vocab), _final_accuracies(evidence, over, vocab)
    if not first.size or not second.size:
        return (
            _vocabulary_not_run(vocab)
            if vocab not in evidence["vocab"].values
            else Estimate(NO_INTERVAL, 0, note=f"no run {kind}")
        )
    note = f"{100 * first.mean():.1f}% against {100 * second.mean():.1f}%"
    interval = as_percentage(difference_interval(first, second))
    return Estimate(interval, len(first), effect=cohens_d(first, second), effect_name="Cohen's d", note=note)


def better_than_all(evidence: xr.Dataset, vocab: int) -> Estimate:
    """Percentage of finetuned runs better, by more than NOISE, than every run from scratch, of E and of 2E epochs.

    None is where one from scratch has every sequence right.
    """
    tuned = _final_accuracies(evidence, TRANSFER_KINDS[2], vocab)
    scratch = np.concatenate([_final_accuracies(evidence, kind, vocab) for kind in TRANSFER_KINDS[:2]])
    if not tuned.size or not scratch.size:
        return _vocabulary_not_run(vocab)
    note = f"the best has {100 * tuned.max():.1f}%, from scratch {100 * scratch.max():.1f}%"
    if scratch.max() + NOISE >= 1:
        note += ", which leaves no room to be better by more than noise"
    return percentage(int((tuned > scratch.max() + NOISE).sum()), len(tuned), "finetuned runs", note)
