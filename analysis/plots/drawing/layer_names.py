"""Names, colours and groups of the layers of a model, which may have hundreds."""

from collections.abc import Sequence

import numpy as np
from matplotlib.axes import Axes

from analysis.plots.drawing.colours import sequential_colours, series_colours

MAX_NAMED_LAYERS = 16
"""Layers whose names are all drawn."""


def layer_colours(count: int) -> Sequence[str] | np.ndarray:
    """Colours of layers: distinct ones up to eight, otherwise from dark (first) to light (last)."""
    return series_colours(count) if count <= 8 else sequential_colours(count)


def named_layers(count: int, most: int = MAX_NAMED_LAYERS) -> np.ndarray:
    """Indices of the layers whose names are drawn: all, or evenly spaced ones with the first and the last."""
    return np.unique(np.linspace(0, max(0, count - 1), min(count, most)).round().astype(int))


def draw_layer_names(axes: Axes, layers: Sequence[str], rotation: int) -> None:
    """Draw the names of layers below an axis with a layer at each whole number."""
    places = named_layers(len(layers))
    names = [layers[place] for place in places]
    axes.set_xticks(places, names, rotation=rotation, ha="right", rotation_mode="anchor")


def grouped_layers(layers: Sequence[str]) -> list[str]:
    """The name of each layer's group: its own, or if there are too many layers, the beginning of its name up to a dot,
    such that there are few enough groups."""
    parts = [layer.split(".") for layer in layers]
    groups = list(layers)
    for depth in range(max(map(len, parts), default=1) - 1, 0, -1):
        if len(set(groups)) <= MAX_NAMED_LAYERS:
            break
        groups = [".".join(each[:depth]) for each in parts]
    return groups
