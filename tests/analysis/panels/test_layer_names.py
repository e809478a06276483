"""Names of the layers of models that have many."""

import numpy as np
import pytest
from matplotlib.figure import Figure

from analysis.panels.colours import grouped_layers, layer_labels, named_colours
from analysis.plots.curves import draw_layer_names, largest_layers

BLOCKS = [
    f"blocks.{block}.{part}.{kind}"
    for block in range(12)
    for part in ("mlp", "head")
    for kind in ("w", "b")
]


@pytest.mark.parametrize(
    ("layers", "groups"),
    [
        (["embed.w", "out.w", "out.b"], 3),
        ([f"block{at}" for at in range(40)], 40),
        (["embed.w", *BLOCKS, "out.w"], 14),
        ([f"{block}.{at}" for block in BLOCKS for at in range(3)], 12),
        ([f"h.{at}.w" for at in range(40)], 1),
    ],
)
def test_many_layers_are_grouped_by_the_beginning_of_their_names(layers, groups):
    result = grouped_layers(layers)
    assert len(set(result)) == groups
    assert all(
        layer.startswith(group) for layer, group in zip(layers, result, strict=True)
    )


@pytest.mark.parametrize(
    ("count", "drawn"), [(0, 0), (1, 1), (16, 16), (17, 16), (500, 16)]
)
def test_few_names_are_drawn_with_the_first_and_the_last(count, drawn):
    layers = [f"layer_{at}" for at in range(count)]
    assert len(named_colours(layers)) == count
    axes = Figure().subplots()
    draw_layer_names(axes, layers, 25)
    labels = [label.get_text() for label in axes.get_xticklabels()]
    assert len(labels) == drawn
    assert not count or labels[:: max(1, drawn - 1)][:2] == layers[:: max(1, count - 1)]


@pytest.mark.parametrize(
    ("layers", "names"),
    [
        (["position_embedding", "query"], ["position embedding", "query"]),
        (["receptor", "receptor_bias"], ["MLP input weights", "MLP input bias"]),
        (
            ["m.embed.weight", "m.h.0.a.weight", "m.h.1.a.weight"],
            ["embed.weight", "0.a.weight", "1.a.weight"],
        ),
        (["a.w", "b.a.w"], ["a.w", "b.a.w"]),
    ],
)
def test_names_are_short_and_distinct(layers, names):
    assert layer_labels(layers) == names


def test_the_largest_layers_stay_in_their_order():
    largest = largest_layers(np.array([1, np.nan, 9, 2, 8, 3, 7, 4, 6, 5]))
    assert largest.tolist() == list(range(2, 10))
