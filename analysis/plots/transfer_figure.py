"""Figure of the transfer experiment (VC figure 9): accuracy over vocabularies, and by clusters of the source."""

import numpy as np
import xarray as xr
from matplotlib.axes import Axes
from matplotlib.figure import Figure

from analysis.clustering_heads.vocabulary_transfer import TRANSFER_KINDS, finite_accuracies
from analysis.plots.figure_files import draw_intervals, new_figure
from analysis.statistics.intervals import mean_interval

_COLOURS = dict(zip(TRANSFER_KINDS, ("0.6", "0.25", "tab:orange", "tab:red"), strict=True))
_CLUSTER_TICKS = (1, 2, 4, 6, 10, 20, 50, 100, 200, 500, 1000, 2000)


def plot_transfer(result: xr.Dataset, ideal: int) -> Figure:
    """Mean and largest accuracies over vocabularies, and accuracies by the clusters of the source.

    result: from `run_transfer`; ideal: the number of clusters of an ideal circuit of the source.
    """
    drawn = new_figure(13.5, 4.6)
    epochs, runs, source = result.attrs["epochs"], result.sizes["run"], int(result["vocab"][0])
    drawn.suptitle(f"{runs} runs of each kind, {epochs} epochs (E) each, finetuned from p = {source}", fontsize=11)
    left, middle, right = drawn.subplots(1, 3, width_ratios=(1, 1, 0.8))
    _draw_over_vocabs(left, result, largest=False)
    _draw_over_vocabs(middle, result, largest=True)
    _draw_by_clusters(right, result, int(result["vocab"][1]), ideal)
    entries = left.get_legend_handles_labels()
    drawn.legend(*entries, loc="lower left", bbox_to_anchor=(0.04, 0.0), ncols=5, frameon=False, fontsize=9)
    drawn.subplots_adjust(left=0.05, right=0.985, top=0.84, bottom=0.21, wspace=0.18)
    return drawn


def _draw_over_vocabs(axes: Axes, result: xr.Dataset, largest: bool) -> None:
    """The kinds side by side at each vocabulary: means with 95% intervals, or largest values."""
    vocabs = result["vocab"].values
    for number, kind in enumerate(TRANSFER_KINDS):
        samples = [finite_accuracies(result, kind, vocab) for vocab in vocabs]
        present = [place for place, sample in enumerate(samples) if sample.size]
        x, colour = vocabs[present] + 0.13 * (number - 1.5), _COLOURS[kind]
        if largest:
            axes.plot(x, [samples[place].max() for place in present], "o", color=colour, markersize=5, label=kind)
            continue
        means = [mean_interval(samples[place], limits=(0, 1)) for place in present]
        draw_intervals(axes, x, means, fmt="o", color=colour, markersize=5, capsize=3, label=kind)
    axes.plot(vocabs, 1 / vocabs, color="0.4", linestyle=":", label="chance")
    axes.set(xlabel="vocabulary p", ylim=(-0.02, 1.04), xticks=vocabs)
    title = "largest accuracy on unseen sequences" if largest else "mean accuracy on unseen sequences, 95%"
    axes.set_title(title, fontsize=10)
    axes.grid(color="0.92")
    axes.set_axisbelow(True)


def _draw_by_clusters(axes: Axes, result: xr.Dataset, vocab: int, ideal: int) -> None:
    """Accuracy after finetuning against the number of clusters before it; a line marks that of an ideal circuit."""
    counts, successful = result["clusters"].values, result["successful"].values
    accuracy = result["accuracy"].sel(kind="finetuned", vocab=vocab).values
    jitter = 0.25 * (np.arange(len(counts)) * 0.618 % 1 - 0.5)  # keeps runs with the same count apart
    for members, colour, label in ((~successful, "tab:orange", "other"), (successful, "tab:red", "successful")):
        x, y = (counts + jitter)[members], accuracy[members]
        axes.plot(x, y, "o", color=colour, alpha=0.7, markersize=5, label=f"source: {label}")
    axes.axhline(1 / vocab, color="0.4", linestyle=":")
    axes.axvline(ideal, color="0.75", linewidth=0.8, zorder=0)
    axes.set(xlabel="clusters of the source's sequence embeddings", ylim=(-0.02, 1.04), xscale="log")
    ticks = [tick for tick in _CLUSTER_TICKS if tick <= 1.5 * counts.max()]
    axes.set_xticks(ticks, [str(tick) for tick in ticks])
    axes.set_xticks([], minor=True)
    axes.set_title(f"accuracy after finetuning to p = {vocab}", fontsize=10)
    axes.legend(frameon=False, fontsize=9, ncols=2, loc="upper right", bbox_to_anchor=(1.02, -0.16))
    axes.grid(color="0.92")
    axes.set_axisbelow(True)
