"""Figure of the transfer experiment (VC figure 9): accuracy over vocabularies, and by
clusters of the source."""

import numpy as np
import xarray as xr
from matplotlib.axes import Axes
from matplotlib.figure import Figure

from analysis.clustering_heads.vocabulary_transfer import (
    TRANSFER_KINDS,
    finite_accuracies,
)
from analysis.output.counts import count_of
from analysis.panels import colours, figure_panels
from analysis.plots.figure_files import (
    draw_intervals,
    draw_legend,
    in_style,
    new_panels,
)
from analysis.statistics.intervals import mean_interval

_CLUSTER_TICKS = (1, 2, 4, 6, 10, 20, 50, 100, 200, 500, 1000, 2000)


@in_style
def plot_transfer(result: xr.Dataset, ideal: int) -> Figure:
    """Mean and largest accuracies over vocabularies, and accuracies by the clusters of
    the source.

    result: from `run_transfer`; ideal: the number of clusters of an ideal circuit of
    the source."""
    epochs = result.attrs["epochs"]
    runs = result.sizes["run"]
    source = int(result["vocab"][0])
    title = (
        f"{count_of(runs, 'run')} of each kind, E = {count_of(epochs, 'epoch')};"
        f" finetuned from p = {source}"
    )
    drawn, (left, middle, right) = new_panels(
        [4 / 3] * 3, title, 1.2, figure_panels.TRANSFER
    )
    _draw_over_vocabs(left, result, largest=False)
    _draw_over_vocabs(middle, result, largest=True)
    _draw_by_clusters(right, result, int(result["vocab"][1]), ideal)
    draw_legend(drawn)
    return drawn


def _draw_over_vocabs(axes: Axes, result: xr.Dataset, largest: bool) -> None:
    """The kinds side by side at each vocabulary: means with 95% intervals, or largest
    values."""
    vocabs = result["vocab"].values
    for number, kind in enumerate(TRANSFER_KINDS):
        samples = [finite_accuracies(result, kind, vocab) for vocab in vocabs]
        present = [place for place, sample in enumerate(samples) if sample.size]
        if not present:
            continue
        x = vocabs[present] + 0.13 * (number - 1.5)
        colour = colours.series_colours()[number]
        if largest:
            axes.plot(
                x,
                [samples[place].max() for place in present],
                "o",
                color=colour,
                label=kind,
            )
            continue
        means = [mean_interval(samples[place], limits=(0, 1)) for place in present]
        draw_intervals(axes, x, means, fmt="o", color=colour, capsize=3, label=kind)
    muted = colours.colour("muted")
    chance = axes.hlines(1 / vocabs, vocabs - 0.4, vocabs + 0.4, muted, ":")
    chance.set_label("chance")
    axes.set(xlabel="vocabulary p", ylim=(-0.02, 1.04), xticks=vocabs)
    title = "largest accuracy" if largest else "mean accuracy, 95% intervals"
    axes.set(title=title, ylabel="accuracy on unseen sequences")


def _draw_by_clusters(axes: Axes, result: xr.Dataset, vocab: int, ideal: int) -> None:
    """Accuracy after finetuning against the number of clusters before it; a line marks
    that of an ideal circuit."""
    counts = result["clusters"].values
    successful = result["successful"].values
    accuracy = result["accuracy"].sel(kind="finetuned", vocab=vocab).values
    jitter = 0.25 * (
        np.arange(len(counts)) * 0.618 % 1 - 0.5
    )  # keeps runs with the same count apart
    for members, colour, label in (
        (~successful, "failed", "failed"),
        (successful, "successful", "successful"),
    ):
        x, y = (counts + jitter)[members], accuracy[members]
        if not np.isfinite(y).any():
            continue
        axes.plot(
            x, y, "s", color=colours.colour(colour), alpha=0.7, label=f"source: {label}"
        )
    axes.axhline(1 / vocab, color=colours.colour("muted"), linestyle=":")
    axes.axvline(
        ideal,
        color=colours.colour("muted"),
        linestyle="--",
        zorder=0,
        label="clusters of an ideal circuit",
    )
    axes.set(
        xlabel="clusters of the source's sequence embeddings, runs side by side",
        ylabel="accuracy on unseen sequences",
        ylim=(-0.02, 1.04),
        xscale="log",
    )
    ticks = [tick for tick in _CLUSTER_TICKS if tick <= 1.5 * counts.max()]
    axes.set_xticks(ticks, [str(tick) for tick in ticks])
    axes.set_xticks([], minor=True)
    axes.set_title(f"accuracy after finetuning to p = {vocab}")
