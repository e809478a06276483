"""Names of the layers of models that have many."""

import numpy as np
import pytest
from matplotlib.figure import Figure

from analysis.panels.layer_names import (
    grouped_layers,
    largest_layers,
    layer_colours,
    named_layers,
    short_names,
)
from analysis.plots.curves import draw_layer_names

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
    places = named_layers(count)
    assert len(places) == drawn
    assert places[[0, -1]].tolist() == [0, count - 1] if count else not places.size
    assert len(layer_colours(count)) >= count
    axes = Figure().subplots()
    draw_layer_names(axes, [f"layer_{at}" for at in range(count)], 25)
    assert len(axes.get_xticklabels()) == drawn


@pytest.mark.parametrize(
    ("layers", "names"),
    [
        (["embedding", "query"], ["embedding", "query"]),
        (
            ["m.embed.weight", "m.h.0.a.weight", "m.h.1.a.weight"],
            ["embed.weight", "0.a.weight", "1.a.weight"],
        ),
        (["a.w", "b.a.w"], ["a.w", "b.a.w"]),
    ],
)
def test_names_are_short_and_distinct(layers, names):
    assert short_names(layers) == names


def test_the_largest_layers_stay_in_their_order():
    assert largest_layers(np.array([1, np.nan, 9, 2, 8, 3, 7, 4, 6, 5])).tolist() == [
        2,
        3,
        4,
        5,
        6,
        7,
        8,
        9,
    ]
