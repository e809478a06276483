"""Settings of the transfer experiment of VC section 4.2: which networks are trained,
and for how long."""

from __future__ import annotations

import dataclasses

from dynamics.settings import SettingsError, SparseSettings, check_integer


@dataclasses.dataclass(frozen=True)
class TransferDesign:
    """Ensembles of the transfer experiment: a source vocabulary, and larger ones from
    scratch and finetuned."""

    source: SparseSettings = dataclasses.field(default_factory=SparseSettings)
    """Settings of the source, the smallest vocabulary."""
    vocabs: tuple[int, ...] = tuple(range(3, 11))
    """Larger vocabularies."""
    runs: int = 100
    """Runs of each ensemble."""
    seed: int = 0
    """Seed of the first run of each ensemble."""
    epochs: int = 1000
    """E: epochs of the source before finetuning, and of finetuning; networks from
    scratch are trained for 2 E."""


def check_transfer_design(design: TransferDesign) -> list[int]:
    """The larger vocabularies in ascending order. Raises SettingsError."""
    source = design.source
    vocabs = sorted(
        {check_integer("vocabs", vocab, 2, 10_000) for vocab in design.vocabs}
    )
    if not vocabs or vocabs[0] <= source.vocab:
        result = "none" if not vocabs else vocabs[0]
        raise SettingsError(
            "vocabs", result, f"one or more above the {source.vocab} tokens of --vocab"
        )
    check_integer("epochs", design.epochs, 1, 2**40)
    for vocab in vocabs:
        larger_vocabulary_settings(source, vocab)
    return vocabs


def larger_vocabulary_settings(source: SparseSettings, vocab: int) -> SparseSettings:
    """The source's settings with a larger vocabulary; the embedding table is enlarged
    if necessary."""
    return dataclasses.replace(
        source, vocab=vocab, table=source.table if source.table >= vocab else 0
    )
