"""Transfer of circuits: a larger vocabulary learned from scratch against finetuned from a smaller one (VC figure 9).

python -m analysis.transfer
"""

import dataclasses
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, TextIO

from analysis.command_line.options import SparseOptions
from analysis.command_line.parsing import run_command
from analysis.output.files import combined_path
from dynamics.settings import SUCCESS_ACCURACY, SettingsError, SparseSettings, check_integer

if TYPE_CHECKING:
    import numpy as np
    import xarray as xr
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

    from analysis.output.tables import TableRow

TRANSFER_TITLE = "Transfer of circuits to larger vocabularies"

TRANSFER_KINDS = ("scratch", "scratch, twice as long", "finetuned", "finetuned from successful")
"""Trained for E epochs; for 2 E; for E after E of the smaller vocabulary; the same, where that had succeeded."""

_HEADER = (
    "p", "chance", "scratch E", "scratch 2E", "finetuned E+E", "from successful", "gain over scratch 2E",
    "max scratch 2E", "max finetuned",
)  # fmt: skip


def _kind_columns() -> list[str]:
    """Columns of the CSV for each kind."""
    names = [kind.replace(",", "").replace(" ", "_") for kind in TRANSFER_KINDS]
    return [f"{name}{end}" for name in names for end in ("", "_low", "_high", "_max", "_runs")]


@dataclasses.dataclass(frozen=True)
class Options:
    """VC figure 9: accuracy on unseen sequences of larger vocabularies, trained from scratch and finetuned from runs
    of the vocabulary given by --vocab, and by how many clusters these runs' sequence embeddings had formed."""

    settings: SparseOptions = dataclasses.field(default_factory=SparseOptions)
    vocabs: tuple[int, ...] = tuple(range(3, 11))
    """Vocabularies to transfer to; the paper has 3 to 10."""
    runs: int = 100
    """Networks of each kind; the paper has 250."""
    seed: int = 0
    """Seed of the first run of each kind."""
    epochs: int = 1000
    """How long to train and how long to finetune; from scratch also twice as long is shown."""
    out: Path | None = None
    """Result to write. None is runs/transfer-HASH.nc, the hash over the runs that are in it."""
    csv: Path | None = None
    """Also write the table, as numbers, to a CSV file; - is the terminal."""


# ---------------------------------------------------------------------------------------------- what is run


def check_transfer(options: Options) -> tuple[SparseSettings, list[int]]:
    """The settings of the source and the vocabularies, in order. Raises SettingsError."""
    source = options.settings.settings
    vocabs = sorted({check_integer("vocabs", each, 2, 10_000) for each in options.vocabs})
    if not vocabs or vocabs[0] <= source.vocab:
        found = "none" if not vocabs else vocabs[0]
        raise SettingsError("vocabs", found, f"one or more above the {source.vocab} tokens of --vocab")
    check_integer("epochs", options.epochs, 1, 2**40)
    for each in vocabs:
        larger_vocabulary_settings(source, each)
    return source, vocabs


def larger_vocabulary_settings(source: SparseSettings, vocab: int) -> SparseSettings:
    """The settings for a larger vocabulary, whose table has its size at least."""
    return dataclasses.replace(source, vocab=vocab, table=source.table if source.table >= vocab else 0)


def train_ensemble(
    settings: SparseSettings, options: Options, epochs: int, device: str = "auto"
) -> "tuple[Path, xr.Dataset]":
    """An ensemble, run or found, recorded every E epochs. Raises as `simulate` does."""
    from dynamics.preparation import run_path
    from dynamics.simulation import simulate

    every, runs, seed = options.epochs * settings.epoch_steps, options.runs, options.seed
    path, steps = run_path(settings, runs, seed, every=every, device=device), epochs * settings.epoch_steps
    return path, simulate(settings, runs, seed, steps=steps, every=every, device=device, out=path)


def run_transfer(options: Options, say: TextIO, device: str = "auto") -> "tuple[xr.Dataset, list[Path]]":
    """Train or find all ensembles: unseen accuracies by kind, vocabulary and run; and the files they are in, the
    source's, then of each vocabulary that from scratch and that finetuned.

    Runs that diverged are NaN. Raises SettingsError, TrajectoryError, RecordingError, Interrupted.
    """
    from analysis.clustering_heads.clusters import embedding_cluster_counts
    from dynamics.training.finetuning import successful_runs

    source, vocabs = check_transfer(options)
    once, twice = options.epochs, 2 * options.epochs
    path, first = train_ensemble(source, options, twice, device)
    print(f"p = {source.vocab}: {path}", file=say)
    begun = once * source.epoch_steps
    learned, paths = first.sel(step=[0, begun]), [path]
    lost = int((first["last_step"].values < begun).sum())
    if lost:
        found = f"{options.settings.lr:g}, with which {lost} of {options.runs} sources diverge"
        raise SettingsError("lr", found, "settings with which none does")
    kept = {source.vocab: [_unseen_accuracy(first, begun), _unseen_accuracy(first, 2 * begun), None]}
    for vocab in vocabs:
        wider = larger_vocabulary_settings(source, vocab)
        path, scratch = train_ensemble(wider, options, twice, device)
        half = once * wider.epoch_steps
        finetuning = dataclasses.replace(wider, start=str(paths[0]), start_step=begun)
        other, finetuned = train_ensemble(finetuning, options, once, device)
        kept[vocab] = [
            _unseen_accuracy(scratch, half),
            _unseen_accuracy(scratch, 2 * half),
            _unseen_accuracy(finetuned, half),
        ]
        paths += [path, other]
        print(f"p = {vocab}: {path} from scratch, {other} finetuned", file=say)
    return _combined(
        kept, successful_runs(learned), embedding_cluster_counts(learned, begun).values, first, options
    ), paths


def _unseen_accuracy(trajectory: "xr.Dataset", step: int) -> "np.ndarray":
    """Accuracy on unseen sequences at a recorded step, (run,); NaN for runs that have diverged by then."""
    split = "unseen" if "unseen" in trajectory["split"].values else "test"
    values = trajectory["accuracy"].sel(split=split, step=step)
    return values.where(trajectory["last_step"] >= step).values


def _combined(
    kept: "dict[int, list]", succeeded: "np.ndarray", counts: "np.ndarray", first: "xr.Dataset", options: Options
) -> "xr.Dataset":
    """All accuracies as one dataset, (kind, vocab, run)."""
    import json

    import numpy as np
    import xarray as xr

    values = np.full((len(TRANSFER_KINDS), len(kept), options.runs), np.nan)
    for place, found in enumerate(kept.values()):
        for kind, each in enumerate(found):
            if each is not None:
                values[kind, place] = each
        if found[2] is not None:
            values[3, place] = np.where(succeeded, found[2], np.nan)
    accuracy = (("kind", "vocab", "run"), values, {"long_name": "accuracy on unseen sequences", "units": "1"})
    about = "whether the source run was above .98 test accuracy when it was left"
    return xr.Dataset(
        {
            "accuracy": accuracy,
            "successful": ("run", succeeded, {"long_name": about}),
            "clusters": ("run", counts, {"long_name": "clusters of the source's sequence embeddings", "units": "1"}),
        },
        {"kind": list(TRANSFER_KINDS), "vocab": list(kept), "seed": ("run", first["seed"].values)},
        {
            "title": TRANSFER_TITLE,
            "epochs": options.epochs,
            "config_json": json.dumps(dataclasses.asdict(options.settings)),
        },
    )


# ------------------------------------------------------------------------------------------------ the table


def _known_accuracies(result: "xr.Dataset", kind: str, vocab: int) -> "np.ndarray":
    """The accuracies that there are, (run,)."""
    import numpy as np

    values = result["accuracy"].sel(kind=kind, vocab=vocab).values
    return values[np.isfinite(values)]


def transfer_row(result: "xr.Dataset", vocab: int) -> "TableRow":
    """A vocabulary: mean and largest accuracies of each kind in percent, and the gain of finetuning."""
    from analysis.output.tables import TableRow, format_number, format_percent_plus_minus
    from analysis.statistics.intervals import difference_interval, mean_interval

    samples = [_known_accuracies(result, kind, vocab) for kind in TRANSFER_KINDS]
    means = [mean_interval(sample) for sample in samples]
    gain = difference_interval(samples[3], samples[1])
    largest = [float(sample.max()) if sample.size else float("nan") for sample in samples]
    text = [str(vocab), f"{100 / vocab:.1f}", *(format_percent_plus_minus(mean) for mean in means)]
    low, high = 100 * gain.low, 100 * gain.high
    text.append(f"{100 * gain.value:+.1f} [{low:.1f}, {high:.1f}]" if gain.value == gain.value else "-")
    text += [f"{100 * largest[kind]:.1f}" if samples[kind].size else "-" for kind in (1, 2)]
    numbers = [str(vocab)]
    for mean, top, sample in zip(means, largest, samples, strict=True):
        numbers += [*(format_number(value) for value in mean), format_number(top), str(sample.size)]
    return TableRow(text, [*numbers, *(format_number(value) for value in gain)])


def _cluster_table(result: "xr.Dataset", ideal: int) -> str:
    """How the runs finetuned to the first larger vocabulary did, by the clusters of their source, as a table."""
    import numpy as np

    from analysis.output.tables import TextTable, format_percent_plus_minus
    from analysis.statistics.intervals import mean_interval

    counts = result["clusters"].values
    accuracy = result["accuracy"].sel(kind="finetuned").isel(vocab=1).values
    groups = {
        f"1-{ideal - 1}": counts < ideal,
        f"{ideal} (ideal)": counts == ideal,
        f"{ideal + 1}-{2 * ideal}": (counts > ideal) & (counts <= 2 * ideal),
        f"more than {2 * ideal}": counts > 2 * ideal,
    }
    rows = []
    for name, chosen in groups.items():
        found = accuracy[chosen & np.isfinite(accuracy)]
        mean = format_percent_plus_minus(mean_interval(found))
        rows.append(
            [name, str(found.size), str(int((found > SUCCESS_ACCURACY).sum())), str(int((found == 1).sum())), mean]
        )
    vocab = int(result["vocab"][1])
    header = ("clusters of the source", "runs", "above .98", "at 1", f"accuracy at p = {vocab}")
    return TextTable(header, rows).text()


# ----------------------------------------------------------------------------------------------- the figure

_KIND_COLOURS = dict(zip(TRANSFER_KINDS, ("0.6", "0.25", "tab:orange", "tab:red"), strict=True))


def plot_transfer(result: "xr.Dataset", ideal: int) -> "Figure":
    """Means with 95% intervals and largest accuracies over vocabularies; accuracies by clusters of the source, whose
    ideal circuit has so many."""
    from analysis.plots.figure_files import new_figure

    drawn = new_figure(13.5, 4.6)
    epochs, runs, source = result.attrs["epochs"], result.sizes["run"], int(result["vocab"][0])
    drawn.suptitle(f"{runs} runs of each kind, {epochs} epochs (E) each, finetuned from p = {source}", fontsize=11)
    left, middle, right = drawn.subplots(1, 3, width_ratios=(1, 1, 0.8))
    _draw_over_vocabs(left, result, largest=False)
    _draw_over_vocabs(middle, result, largest=True)
    _draw_by_clusters(right, result, int(result["vocab"][1]), ideal)
    lines, labels = left.get_legend_handles_labels()
    drawn.legend(lines, labels, loc="lower left", bbox_to_anchor=(0.04, 0.0), ncols=5, frameon=False, fontsize=9)
    drawn.subplots_adjust(left=0.05, right=0.985, top=0.84, bottom=0.21, wspace=0.18)
    return drawn


def _draw_over_vocabs(axes: "Axes", result: "xr.Dataset", largest: bool) -> None:
    """Each kind beside the others at every vocabulary."""
    import numpy as np

    from analysis.statistics.intervals import mean_interval

    vocabs = result["vocab"].values
    for at, kind in enumerate(TRANSFER_KINDS):
        samples = [_known_accuracies(result, kind, vocab) for vocab in vocabs]
        some = [place for place, sample in enumerate(samples) if sample.size]
        x = vocabs[some] + 0.13 * (at - 1.5)
        if largest:
            axes.plot(
                x, [samples[place].max() for place in some], "o", color=_KIND_COLOURS[kind], markersize=5, label=kind
            )
            continue
        means = [mean_interval(samples[place]) for place in some]
        half = np.nan_to_num([mean.half for mean in means])
        axes.errorbar(x, [mean.value for mean in means], half, fmt="o", color=_KIND_COLOURS[kind], markersize=5,
            capsize=3,
                      label=kind)  # fmt: skip
    axes.plot(vocabs, 1 / vocabs, color="0.4", linestyle=":", label="chance")
    axes.set(xlabel="vocabulary p", ylim=(-0.02, 1.04), xticks=vocabs)
    axes.set_title("largest accuracy on unseen sequences" if largest else "mean accuracy on unseen sequences, 95%",
                   fontsize=10)  # fmt: skip
    axes.grid(color="0.92")
    axes.set_axisbelow(True)


def _draw_by_clusters(axes: "Axes", result: "xr.Dataset", vocab: int, ideal: int) -> None:
    """Accuracy after finetuning against the number of clusters at its beginning; a line marks the ideal circuit's."""
    import numpy as np

    counts, succeeded = result["clusters"].values, result["successful"].values
    accuracy = result["accuracy"].sel(kind="finetuned", vocab=vocab).values
    aside = 0.25 * (np.arange(len(counts)) * 0.618 % 1 - 0.5)  # runs of one count beside each other
    for chosen, colour, label in ((~succeeded, "tab:orange", "other"), (succeeded, "tab:red", "successful")):
        x, y = (counts + aside)[chosen], accuracy[chosen]
        axes.plot(x, y, "o", color=colour, alpha=0.7, markersize=5, label=f"source: {label}")
    axes.axhline(1 / vocab, color="0.4", linestyle=":")
    axes.axvline(ideal, color="0.75", linewidth=0.8, zorder=0)
    axes.set(xlabel="clusters of the source's sequence embeddings", ylim=(-0.02, 1.04), xscale="log")
    ticks = [tick for tick in (1, 2, 4, 6, 10, 20, 50, 100, 200, 500, 1000, 2000) if tick <= 1.5 * counts.max()]
    axes.set_xticks(ticks, [str(tick) for tick in ticks])
    axes.set_xticks([], minor=True)
    axes.set_title(f"accuracy after finetuning to p = {vocab}", fontsize=10)
    axes.legend(frameon=False, fontsize=9, ncols=2, loc="upper right", bbox_to_anchor=(1.02, -0.16))
    axes.grid(color="0.92")
    axes.set_axisbelow(True)


# ---------------------------------------------------------------------------------------------- the command


def _result_path(paths: Sequence[Path]) -> Path:
    """Where the result of some runs lives, beside them: its name is a hash over theirs."""
    return combined_path(paths, "transfer", ".nc")


def main(options: Options) -> None:
    """Train, or find, all ensembles; print the table, write the result and draw the figure."""
    from analysis.clustering_heads.clusters import ideal_cluster_count
    from analysis.output import tables
    from analysis.output.results import check_result_path, write_result
    from analysis.plots.figure_files import save_figure

    say = sys.stderr if str(options.csv) == "-" else sys.stdout
    check_transfer(options)
    if options.out is not None:
        check_result_path(options.out, {"title": TRANSFER_TITLE})
    result, paths = run_transfer(options, say)
    out = check_result_path(options.out or _result_path(paths), {"title": TRANSFER_TITLE})
    write_result(result, out)
    ideal = ideal_cluster_count(options.settings)
    save_figure(plot_transfer(result, ideal), out.with_suffix(".png"))
    print(f"result: {out}\nfigure: {out.with_suffix('.png')}", file=say)
    columns = ["p", *_kind_columns(), "gain", "gain_low", "gain_high"]
    tables.print_rows(
        _HEADER, columns, [transfer_row(result, int(vocab)) for vocab in result["vocab"].values], options.csv, left=()
    )
    print("\n" + _cluster_table(result, ideal), file=say)


if __name__ == "__main__":
    run_command(main, Options, "analysis.transfer")
