"""Transfer of circuits to larger vocabularies: trained from scratch against finetuned
(VC figure 9).

python -m analysis.paper transfer
"""

from __future__ import annotations

import dataclasses
import functools
from pathlib import Path

from analysis import clustering_heads, output, plots
from analysis.clustering_heads.transfer_design import (
    TransferDesign,
    check_transfer_design,
)
from analysis.command_line.options import PictureOptions, SparseOptions
from analysis.command_line.result_files import write_result_and_picture
from analysis.panels import figure_panels


@dataclasses.dataclass(frozen=True)
class Options(PictureOptions):
    """Reproduce figure 9 of VC: accuracy on unseen sequences of larger vocabularies,
    for networks trained from scratch and for networks finetuned from runs with the
    vocabulary --vocab. A second table groups the finetuned networks by the number of
    clusters of sequence embeddings before finetuning."""

    settings: SparseOptions = dataclasses.field(default_factory=SparseOptions)
    vocabs: tuple[int, ...] = TransferDesign.vocabs
    """Larger vocabularies; the paper uses 3 to 10."""
    runs: int = TransferDesign.runs
    """Number of networks of each kind; the paper uses 250."""
    seed: int = TransferDesign.seed
    """Seed of the first run of each kind."""
    epochs: int = TransferDesign.epochs
    """Number of epochs before finetuning, and of finetuning. Networks from
    scratch are trained for twice this number."""
    out: Path | None = None
    """File for the result. Default: runs/transfer-HASH.nc, with a hash of the file
    names of the ensembles."""

    def names_of_panels(self) -> tuple[str, ...]:
        return figure_panels.TRANSFER


def main(options: Options) -> None:
    """Train the ensembles, or find them; print the tables, write the result and draw
    the figure."""
    design = TransferDesign(
        options.settings.settings,
        options.vocabs,
        options.runs,
        options.seed,
        options.epochs,
    )
    check_transfer_design(design)
    title = {"title": clustering_heads.TRANSFER_TITLE}
    if options.out is not None:
        output.check_result_path(options.out, title)
    result, paths = clustering_heads.run_transfer(design, options.log)
    out = output.check_result_path(
        options.out or output.combined_path(paths, "transfer", ".nc"), title
    )
    ideal = clustering_heads.ideal_cluster_count(design.source)
    figure = functools.partial(plots.plot_transfer, result, ideal)
    write_result_and_picture(options, result, figure, out)
    output.output_table(
        clustering_heads.transfer_table(result),
        clustering_heads.TRANSFER_COLUMNS,
        options.csv,
    )
    print(
        "\n" + clustering_heads.format_transfer_by_clusters(result, ideal),
        file=options.log,
    )
