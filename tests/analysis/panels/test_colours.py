"""Colours against simulated colour blindness (Machado, Oliveira and Fernandes 2009,
table of full severity)."""

import itertools

import numpy as np
import pytest
from matplotlib.colors import to_rgb
from numpy.testing import assert_allclose, assert_array_equal

from analysis import plots
from analysis.panels import colours
from analysis.panels.colours import (
    class_colours,
    named_colours,
    prefix_colours,
    to_oklab,
)
from analysis.panels.probe_sequences import make_probe_sequences
from analysis.panels.style import STYLES, style_in_use
from dynamics.settings import SparseSettings
from tests.contrast import contrast, linear_rgb

READERS = {
    "all": np.eye(3),
    "without red": [
        [0.152286, 1.052583, -0.204868],
        [0.114503, 0.786281, 0.099216],
        [-0.003882, -0.048116, 1.051998],
    ],
    "without green": [
        [0.367322, 0.860646, -0.227968],
        [0.280085, 0.672501, 0.047413],
        [-0.011820, 0.042940, 0.968881],
    ],
    "without blue": [
        [1.255528, -0.076749, -0.178779],
        [-0.078411, 0.930809, 0.147602],
        [0.004733, 0.691367, 0.303900],
    ],
}
"""What linear sRGB becomes for readers with all cones, or without one kind."""


def seen(rgb, reader):
    """Colours (colour, rgb) in Oklab as a reader sees them."""
    linear = (linear_rgb(rgb) @ np.transpose(READERS[reader])).clip(0, 1)
    return to_oklab(
        np.where(
            linear <= 0.0031308, 12.92 * linear, 1.055 * linear ** (1 / 2.4) - 0.055
        )
    )


def distances(rgb, reader):
    lab = seen(rgb, reader)
    return np.linalg.norm(lab[:, None] - lab, axis=-1)


def test_oklab_conversion_is_invertible(generator):
    rgb = generator.random((50, 3))
    assert_allclose(
        colours.from_oklab(*np.moveaxis(to_oklab(rgb), -1, 0)), rgb, atol=1e-6
    )
    assert_allclose(
        to_oklab(np.array([[1.0, 1, 1], [0, 0, 0]])), [[1, 0, 0], [0, 0, 0]], atol=2e-4
    )
    assert_allclose(
        to_oklab(np.array([1.0, 0, 0])), [0.62796, 0.22486, 0.12585], atol=1e-4
    )  # Ottosson's


@pytest.mark.parametrize("n", [1, 2, 3, 10, 11, 16, 17, 59, 1000])
def test_class_colours_are_valid_and_distinct(n):
    rgb = class_colours(n)
    assert rgb.shape == (n, 3)
    assert 0 <= rgb.min() <= rgb.max() <= 1
    if 1 < n < 100:
        assert (np.abs(rgb[:, None] - rgb).max(axis=-1) + np.eye(n)).min() > 0.015
        assert (
            np.abs(rgb - np.roll(rgb, 1, axis=0)).max(axis=-1).min() > 0.08
        )  # neighbours, first and last too


@pytest.mark.parametrize("reader", READERS)
def test_classes_have_distinct_colours_with_every_colour_vision(reader):
    for rgb in map(class_colours, range(2, 11)):
        assert (distances(rgb, reader) + np.eye(len(rgb))).min() > 0.145
    for n in (11, 12, 13, 17, 31, 59):
        assert (
            distances(class_colours(n), reader)[
                np.arange(n), (np.arange(n) + 1) % n
            ].min()
            > 0.07
        )


TOGETHER = {
    ("train", "test", "unseen", "spike", "rise"): 0.12,
    ("train", "validation", "unseen", "drop", "spike", "rise", "escape"): 0.09,
    ("ink", "spike", "rise", "drop"): 0.09,
    ("first", "second"): 0.2,
    ("particles", "network"): 0.2,
    ("successful", "failed"): 0.2,
}
"""Meanings that occur in the same picture, and the smallest distance between their
colours."""


@pytest.mark.parametrize("name", STYLES)
@pytest.mark.parametrize("reader", READERS)
def test_meanings_that_occur_together_have_distinct_colours(reader, name):
    with style_in_use(name):
        for meanings, apart in TOGETHER.items():
            rgb = np.array([to_rgb(colours.colour(meaning)) for meaning in meanings])
            assert (distances(rgb, reader) + np.eye(len(rgb))).min() > apart, meanings
        layers, classes = (
            np.array(list(map(to_rgb, colours.series_colours()))),
            class_colours(10),
        )
        assert (
            min(
                (distances(rgb, reader) + np.eye(len(rgb))).min()
                for rgb in (layers, classes)
            )
            > 0.099
        )
        named = {*itertools.chain(*TOGETHER)} - {"validation"}
        item = [
            *(tuple(rgb) for rgb in (*layers, *classes)),
            *(to_rgb(colours.colour(one)) for one in named),
        ]
        assert (
            distances(np.array(item), "all") + np.eye(len(item))
        ).min() > 0.02  # one meaning per colour
        text = np.array(
            [
                to_rgb(colours.colour(item))
                for item in ("background", "ink", "muted", *named)
            ]
        )
        assert contrast(text[1:], text[0]).min() > 2.99


@pytest.mark.parametrize("name", STYLES)
@pytest.mark.parametrize("reader", READERS)
def test_bands_beside_each_other_are_distinct_and_keep_curves_visible(reader, name):
    with style_in_use(name):
        layers = np.array(list(map(to_rgb, colours.series_colours())))
        for meanings in ((*colours.PHASES, "drop"), ("drop", "rise")):
            rgb = np.array([to_rgb(colours.colour(meaning)) for meaning in meanings])
            bands = colours.pale_colours(rgb, colours.band_opacity())
            item = np.vstack([bands, to_rgb(colours.colour("background"))])
            assert (distances(item, reader) + np.eye(len(item))).min() > 0.045
            assert min(contrast(layers, band).min() for band in bands) > 1.6


@pytest.mark.parametrize("reader", READERS)
@pytest.mark.parametrize(
    "task",
    [{}, {"vocab": 3}, {"vocab": 4}, {"vocab": 5, "sparsity": 3}, {"vocab": 10}],
    ids=str,
)
def test_prefix_colours_are_similar_only_for_permutations(reader, task):
    multiset = make_probe_sequences(SparseSettings(**task)).multiset
    apart = distances(prefix_colours(multiset), reader)
    same = multiset[:, None] == multiset
    assert apart[~same].min() > 0.08
    off = same & ~np.eye(len(same), dtype=bool)
    for one in np.unique(multiset):
        within = off & (multiset == one)[:, None] & (multiset == one)
        others = ~same & (multiset == one)[:, None]
        if within.any():
            assert apart[within].max() < apart[others].min()
            assert (
                distances(prefix_colours(multiset), "all")[within].min() > 0.01
            )  # and still not the same


def test_prefixes_of_any_number_of_multisets_have_colours():
    rgb = prefix_colours(np.repeat(np.arange(14), 2))
    assert rgb.shape == (28, 3)
    assert 0 <= rgb.min() <= rgb.max() <= 1
    assert prefix_colours(np.array([0])).shape == (1, 3)


@pytest.mark.parametrize("name", STYLES)
def test_systems_have_their_colours_and_two_of_a_kind_differ(name):
    with style_in_use(name):
        particles, network = map(colours.colour, ("particles", "network"))
        assert colours.system_colours(["modular", "particles"]) == [network, particles]
        for systems in (["particles"] * 2, ["modular", "sparse"]):
            assert len({particles, network, *colours.system_colours(systems)}) == 4


def test_the_colour_of_a_split_does_not_depend_on_other_splits():
    assert_array_equal(
        named_colours(["train", "test", "unseen"])[:2], named_colours(["train", "test"])
    )
    assert_array_equal(named_colours(["test"]), named_colours(["validation"]))
    assert (
        len(
            np.unique(
                named_colours(["train", "validation", "unseen", "far", "farther"]),
                axis=0,
            )
        )
        == 5
    )


@pytest.mark.parametrize("reader", READERS)
def test_colour_scales_are_monotonic_with_every_colour_vision(reader):
    lightness = seen(colours.sequential_colours(64), reader)[:, 0]
    assert (np.diff(lightness) > 0).all()
    assert lightness[-1] - lightness[0] > 0.5
    assert (np.diff(seen(colours.sequential_colours(17), reader)[:, 0]) > 0).all()


@pytest.mark.parametrize("style", ["screen", "dark"])
def test_ordered_things_have_one_hue_and_lightness_in_their_order(style):
    with plots.use_style(style):
        for n in (1, 2, 11):
            rgb = colours.ordered_colours(n)
            lightness, a, b = colours.to_oklab(rgb).T
            background = colours.to_oklab(
                np.array(to_rgb(colours.colour("background")))
            )
            assert (np.diff(np.abs(lightness - background[0])) < 0).all()
            assert np.ptp(np.arctan2(b, a)) < 0.25
            assert (np.abs(lightness - background[0]) > 0.2).all()


def test_colours_contrast_with_white_and_pale_backgrounds():
    rgb = class_colours(10)
    assert np.linalg.norm(to_oklab(rgb) - [1, 0, 0], axis=-1).min() > 0.2
    assert (
        np.linalg.norm(
            to_oklab(rgb) - to_oklab(colours.pale_colours(rgb)), axis=-1
        ).min()
        > 0.1
    )


def test_direction_colours_are_periodic():
    ring = colours.angle_colours(np.linspace(0, 2 * np.pi, 33))
    assert_allclose(ring[0], ring[-1], atol=1e-9)
    lab = to_oklab(ring[:-1])
    assert min(np.linalg.norm(a - b) for a, b in itertools.combinations(lab, 2)) > 0.01


def hues(hex_colours):
    """Hues (radians) and chroma of colours in Oklab."""
    lab = to_oklab(np.array([to_rgb(code) for code in hex_colours]))
    return np.arctan2(lab[:, 2], lab[:, 1]), np.hypot(lab[:, 1], lab[:, 2])


def test_meanings_and_series_have_nearly_the_same_hue_in_light_and_dark():
    named = {*itertools.chain(*TOGETHER), *colours.PHASES} - {"ink"}
    pairs = [colours._COLOURS[name] for name in named]
    pairs += zip(*colours._SERIES, strict=True)
    light, chroma = hues([pair[0] for pair in pairs])
    dark, _ = hues([pair[1] for pair in pairs])
    turned = np.abs(np.angle(np.exp(1j * (light - dark))))
    assert turned[chroma > 0.04].max() < np.radians(30)
