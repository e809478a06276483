"""The panels that are shown of a run if none are chosen."""

from __future__ import annotations

from collections.abc import Sequence

MAX_PANELS = 16
"""Panels that are drawn by default, of a system without a choice of its own."""

_MAIN_PANELS = (
    (
        "embedding",
        "pair_sums",
        "force",
        "imperfections",
        "circularity",
        "gradient_norm",
    ),
    ("embedding", "pair_sums", "descent", "imperfections", "loss", "accuracy"),
    (
        "attention",
        "transform_map",
        "position_embeddings",
        "normalised_sums",
        "values",
        "normalised_sequences",
        "receptors",
        "output_map",
        "loss",
        "accuracy",
    ),
    (
        "frequency_1",
        "frequency_2",
        "attention",
        "correct_logits",
        "loss",
        "accuracy",
        "restricted_loss",
        "fourier_norms",
    ),
    (
        "frequency_1",
        "frequency_2",
        "correct_logits",
        "loss",
        "accuracy",
        "restricted_loss",
        "fourier_norms",
    ),
)
"""Panels that are drawn by default: a run uses the first tuple of which it has all
panels."""


def main_panel_names(names: Sequence[str]) -> list[str]:
    """The main panels of a run whose panels have these names, or the first ones."""
    choices = [main for main in _MAIN_PANELS if set(main) <= set(names)]
    return list(next(iter(choices), names[:MAX_PANELS]))
