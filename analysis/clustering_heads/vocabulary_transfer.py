"""Transfer of circuits to larger vocabularies (VC section 4.2, figure 9).

Larger vocabularies are learned from scratch, for E and for 2 E epochs, and by
finetuning networks that were trained on the source vocabulary for E epochs. Accuracy is
on sequences that occur in no training split ("unseen"), or on the test split where a
task has so few sequences that none is unseen."""

from __future__ import annotations

import dataclasses
import json
from pathlib import Path
from typing import TextIO

import numpy as np
import pandas as pd
import xarray as xr

from analysis.clustering_heads.clusters import embedding_cluster_counts
from analysis.clustering_heads.transfer_design import (
    TransferDesign,
    check_transfer_design,
    larger_vocabulary_settings,
)
from analysis.output.results import dimensionless
from analysis.output.tables import (
    Column,
    format_interval,
    format_table,
    interval_columns,
    make_table,
)
from analysis.statistics.intervals import difference_interval, mean_interval
from dynamics.ensemble import Ensemble
from dynamics.settings import SUCCESS_ACCURACY, SettingsError, SparseSettings
from dynamics.trajectory.diverged import mask_diverged, not_diverged
from dynamics.trajectory.success import exceeds, successful_runs

TRANSFER_TITLE = "Transfer of circuits to larger vocabularies"

SCRATCH = "scratch"
"""E epochs."""
SCRATCH_TWICE = "scratch, twice as long"
"""2 E epochs."""
FINETUNED = "finetuned"
"""E epochs after E epochs of the source."""
FROM_SUCCESSFUL = "finetuned from successful"
"""The same, from successful sources only."""
TRANSFER_KINDS = (SCRATCH, SCRATCH_TWICE, FINETUNED, FROM_SUCCESSFUL)


def train_ensemble(
    settings: SparseSettings, design: TransferDesign, epochs: int, device: str = "auto"
) -> tuple[Path, xr.Dataset]:
    """The file and the trajectory of an ensemble, recorded every E epochs; trained if
    the file does not exist.

    Raises the errors of `simulate`.
    """
    every = design.epochs * settings.epoch_steps
    steps = epochs * settings.epoch_steps
    ensemble = Ensemble(settings, design.runs, design.seed, steps, every, device=device)
    return ensemble.path, ensemble.simulate(ensemble.path)


def run_transfer(
    design: TransferDesign, log: TextIO, device: str = "auto"
) -> tuple[xr.Dataset, list[Path]]:
    """Train all ensembles of the experiment, or read those that exist.

    Parameters
    ----------
    design : TransferDesign
        Source settings, vocabularies, runs and epochs.
    log : TextIO
        Where the file of each ensemble is printed.
    device : str
        As for `dynamics.simulate`.

    Returns
    -------
    xr.Dataset
        `accuracy` (kind, vocab, run) on unseen sequences, NaN for runs that have
        diverged; `successful` and `clusters` (run) of the source when finetuning
        begins.
    list of Path
        Files of the source, and for each vocabulary of the ensemble from scratch and
        the finetuned one.

    Raises
    ------
    SettingsError, TrajectoryError, RecordingError, Interrupted
    """
    vocabs = check_transfer_design(design)
    once = design.epochs
    twice = 2 * design.epochs
    path, first = train_ensemble(design.source, design, twice, device)
    print(f"p = {design.source.vocab}: {path}", file=log)
    begin = once * design.source.epoch_steps
    diverged = int((~not_diverged(first, begin)).sum())
    if diverged:
        outcome = (
            f"{design.source.lr:g}, with which {diverged} of {design.runs} sources"
            " diverge"
        )
        raise SettingsError("lr", outcome, "settings with which none does")
    source = first.sel(step=[0, begin])
    result = _empty_result(design, vocabs, source)
    accuracy = result["accuracy"]
    paths = [path]
    accuracy.loc[SCRATCH, design.source.vocab] = _unseen_accuracy(first, begin)
    accuracy.loc[SCRATCH_TWICE, design.source.vocab] = _unseen_accuracy(
        first, 2 * begin
    )
    for vocab in vocabs:
        larger = larger_vocabulary_settings(design.source, vocab)
        end = once * larger.epoch_steps
        scratch_path, scratch = train_ensemble(larger, design, twice, device)
        finetuning = dataclasses.replace(larger, start=str(path), start_step=begin)
        finetuned_path, finetuned = train_ensemble(finetuning, design, once, device)
        tuned = _unseen_accuracy(finetuned, end)
        accuracy.loc[SCRATCH, vocab] = _unseen_accuracy(scratch, end)
        accuracy.loc[SCRATCH_TWICE, vocab] = _unseen_accuracy(scratch, 2 * end)
        accuracy.loc[FINETUNED, vocab] = tuned
        accuracy.loc[FROM_SUCCESSFUL, vocab] = np.where(
            result["successful"], tuned, np.nan
        )
        paths += [scratch_path, finetuned_path]
        print(
            f"p = {vocab}: {scratch_path} from scratch, {finetuned_path} finetuned",
            file=log,
        )
    return result, paths


def _unseen_accuracy(trajectory: xr.Dataset, step: int) -> np.ndarray:
    """Accuracy on unseen sequences at a recorded step, (run,); NaN for runs that have
    diverged by then."""
    split = "unseen" if "unseen" in trajectory["split"].values else "test"
    one = trajectory.sel(split=split, step=step)
    return mask_diverged(one["accuracy"], one).values


def _empty_result(
    design: TransferDesign, vocabs: list[int], source: xr.Dataset
) -> xr.Dataset:
    """The result with the variables of the source; all accuracies are NaN."""
    values = np.full((len(TRANSFER_KINDS), 1 + len(vocabs), design.runs), np.nan)
    clusters = embedding_cluster_counts(source, int(source["step"][-1])).values
    when = {
        "long_name": (
            "whether the source's test accuracy was above .98 when finetuning began"
        )
    }
    data = {
        "accuracy": (
            ("kind", "vocab", "run"),
            values,
            dimensionless("accuracy on unseen sequences"),
        ),
        "successful": ("run", successful_runs(source), when),
        "clusters": (
            "run",
            clusters,
            dimensionless("clusters of the source's sequence embeddings"),
        ),
    }
    vocab = [design.source.vocab, *vocabs]
    seed = ("run", source["seed"].values)
    attrs = {"title": TRANSFER_TITLE, "epochs": design.epochs}
    attrs["config_json"] = json.dumps(dataclasses.asdict(design.source))
    return xr.Dataset(
        data, {"kind": list(TRANSFER_KINDS), "vocab": vocab, "seed": seed}, attrs
    )


def finite_accuracies(result: xr.Dataset, kind: str, vocab: int) -> np.ndarray:
    """Accuracies of the runs of one kind and vocabulary that have not diverged,
    (run,)."""
    values = result["accuracy"].sel(kind=kind, vocab=vocab).values
    return values[np.isfinite(values)]


def transfer_table(result: xr.Dataset) -> pd.DataFrame:
    """A row for each vocabulary: mean and largest accuracy of each kind, and the gain
    by finetuning.

    The gain is that of networks finetuned from successful sources over networks trained
    from scratch for 2 E epochs."""
    rows = []
    for vocab in result["vocab"].values.tolist():
        row = {"p": vocab}
        samples = {
            kind: finite_accuracies(result, kind, vocab) for kind in TRANSFER_KINDS
        }
        for kind, sample in samples.items():
            name = _column_name(kind)
            row |= interval_columns(name, mean_interval(sample, limits=(0, 1)))
            row |= {
                f"{name}_max": sample.max() if sample.size else np.nan,
                f"{name}_runs": sample.size,
            }
        gain = difference_interval(
            samples[FROM_SUCCESSFUL], samples[SCRATCH_TWICE], (0, 1)
        )
        rows.append(row | interval_columns("gain", gain))
    return make_table(rows)


def _column_name(kind: str) -> str:
    """Name of the column of one of `TRANSFER_KINDS`."""
    return kind.replace(",", "").replace(" ", "_")


def _kind_column(heading: str, kind: str) -> Column:
    name = _column_name(kind)
    return Column(heading, name, digits=1, interval="half-width", scale=100)


def _format_gain(row: dict) -> str:
    gain = [100 * row[f"gain{end}"] for end in ("", "_low", "_high")]
    if np.isnan(gain[0]):
        return "-"
    sign = "+" if gain[0] >= 0 else ""
    return sign + format_interval(gain, 1)


TRANSFER_COLUMNS = (
    Column("p", "p"),
    Column("chance", "p", text=lambda vocab: f"{100 / vocab:.1f}"),
    _kind_column("scratch E", SCRATCH),
    _kind_column("scratch 2E", SCRATCH_TWICE),
    _kind_column("finetuned E+E", FINETUNED),
    _kind_column("from successful", FROM_SUCCESSFUL),
    Column("gain over scratch 2E", text=_format_gain),
    Column("max scratch 2E", f"{_column_name(SCRATCH_TWICE)}_max", digits=1, scale=100),
    Column("max finetuned", f"{_column_name(FINETUNED)}_max", digits=1, scale=100),
)
"""The printed table; accuracies are in percent."""


def format_transfer_by_clusters(result: xr.Dataset, ideal: int) -> str:
    """A text table of the accuracy after finetuning to the smallest larger vocabulary,
    by clusters of the source.

    ideal: the number of clusters of an ideal circuit of the source.
    """
    counts = result["clusters"].values
    vocab = int(result["vocab"][1])
    accuracy = result["accuracy"].sel(kind="finetuned", vocab=vocab).values
    groups = {
        f"1-{ideal - 1}": counts < ideal,
        f"{ideal} (ideal)": counts == ideal,
        f"{ideal + 1}-{2 * ideal}": (counts > ideal) & (counts <= 2 * ideal),
        f"more than {2 * ideal}": counts > 2 * ideal,
    }
    rows = []
    for name, members in groups.items():
        values = accuracy[members & np.isfinite(accuracy)]
        row = {"clusters of the source": name, "runs": values.size}
        row |= {
            "above .98": int(exceeds(values, SUCCESS_ACCURACY).sum()),
            "at 1": int((values == 1).sum()),
        }
        rows.append(
            row | interval_columns("accuracy", mean_interval(values, limits=(0, 1)))
        )
    columns = [Column(name, name) for name in list(rows[0])[:4]]
    accuracy_column = Column(
        f"accuracy at p = {vocab}",
        "accuracy",
        digits=1,
        interval="half-width",
        scale=100,
    )
    return format_table(make_table(rows), [*columns, accuracy_column])
