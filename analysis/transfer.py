"""Transfer of circuits to larger vocabularies: trained from scratch against finetuned (VC figure 9).

python -m analysis.transfer
"""

from __future__ import annotations

import dataclasses
from pathlib import Path

from analysis import clustering_heads, output, plots
from analysis.clustering_heads.transfer_design import TransferDesign, check_transfer_design
from analysis.command_line.options import SparseOptions, TableOptions
from analysis.command_line.parsing import run_command


@dataclasses.dataclass(frozen=True)
class Options(TableOptions):
    """Accuracy on unseen sequences of larger vocabularies, for networks that are trained from scratch and for networks
    that are finetuned from runs of the vocabulary --vocab, also by the number of clusters of these runs' sequence
    embeddings. Figure 9 of VC."""

    settings: SparseOptions = dataclasses.field(default_factory=SparseOptions)
    vocabs: tuple[int, ...] = TransferDesign.vocabs
    """Larger vocabularies; the paper has 3 to 10."""
    runs: int = TransferDesign.runs
    """Networks of each kind; the paper has 250."""
    seed: int = TransferDesign.seed
    """Seed of the first run of each kind."""
    epochs: int = TransferDesign.epochs
    """Epochs of training before finetuning, and of finetuning. Networks from scratch are also trained twice as long."""
    out: Path | None = None
    """File for the result. Default: runs/transfer-HASH.nc, with a hash over the names of the ensembles' files."""


def main(options: Options) -> None:
    """Train the ensembles, or find them; print the tables, write the result and draw the figure."""
    design = TransferDesign(options.settings.settings, options.vocabs, options.runs, options.seed, options.epochs)
    check_transfer_design(design)
    title = {"title": clustering_heads.TRANSFER_TITLE}
    if options.out is not None:
        output.check_result_path(options.out, title)
    result, paths = clustering_heads.run_transfer(design, options.log)
    out = output.check_result_path(options.out or output.combined_path(paths, "transfer", ".nc"), title)
    output.write_result(result, out)
    ideal = clustering_heads.ideal_cluster_count(design.source)
    picture = out.with_suffix(".png")
    plots.save_figure(plots.plot_transfer(result, ideal), picture)
    print(f"result: {out}\nfigure: {picture}", file=options.log)
    output.output_table(clustering_heads.transfer_table(result), clustering_heads.TRANSFER_COLUMNS, options.csv)
    print("\n" + clustering_heads.format_transfer_by_clusters(result, ideal), file=options.log)


if __name__ == "__main__":
    run_command(main, Options, "analysis.transfer")
