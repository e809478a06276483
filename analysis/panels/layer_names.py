"""Names, colours and groups of the layers of a model, which may have hundreds."""

from collections.abc import Sequence

import numpy as np

from analysis.panels.colours import sequential_colours, series_colours

MAX_NAMED_LAYERS = 16
"""Layers whose names are all drawn."""


def layer_colours(count: int) -> Sequence[str] | np.ndarray:
    """Colours of layers: distinct ones up to eight, otherwise from dark (first) to
    light (last)."""
    return series_colours(count) if count <= 8 else sequential_colours(count)


def named_layers(count: int, most: int = MAX_NAMED_LAYERS) -> np.ndarray:
    """Indices of the layers whose names are drawn: all, or evenly spaced ones with the
    first and the last."""
    return np.unique(
        np.linspace(0, max(0, count - 1), min(count, most)).round().astype(int)
    )


MAX_DRAWN_LAYERS = 8
"""Layers in a figure that shows each one for itself."""


def largest_layers(sizes: np.ndarray) -> np.ndarray:
    """Indices of the layers that a figure shows, in their order: those with the largest
    finite sizes (layer,)."""
    return np.sort(
        np.argsort(-np.nan_to_num(sizes, nan=-np.inf), kind="stable")[:MAX_DRAWN_LAYERS]
    )


def short_names(layers: Sequence[str]) -> list[str]:
    """The shortest end of each name that no other layer has, of at least two of the
    parts that dots separate."""
    names = []
    for layer in layers:
        parts = layer.split(".")
        ends = [".".join(parts[-count:]) for count in range(2, len(parts))]
        unique = (
            end
            for end in ends
            if sum(f".{item}".endswith(f".{end}") for item in layers) == 1
        )
        names.append(next(unique, layer))
    return names


def grouped_layers(layers: Sequence[str]) -> list[str]:
    """The name of each layer's group: its own, or if there are too many layers, the
    beginning of its name up to a dot, such that there are few enough groups."""
    parts = [layer.split(".") for layer in layers]
    groups = list(layers)
    for depth in range(max(map(len, parts), default=1) - 1, 0, -1):
        if len(set(groups)) <= MAX_NAMED_LAYERS:
            break
        groups = [".".join(part[:depth]) for part in parts]
    return groups
