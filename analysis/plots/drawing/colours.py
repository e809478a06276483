"""Colours that are distinguishable with every kind of colour vision: sRGB in 0..1, (..., rgb).

Differences are distances in Oklab, in which equal distances look equal (Ottosson 2020).
"""

from __future__ import annotations

import numpy as np
from matplotlib import colormaps
from matplotlib.colors import to_rgb

_DISTINCT_COLOURS = ("3c5a78", "ffa500", "69d2c3", "f03c0f", "9600e1", "5a002d", "009687", "2d0087", "a50f00", "b478ff")
"""Ten colours of which any two are at least 0.15 apart in Oklab, for readers with and without each kind of colour
blindness; an exchange search chose those with the largest minimum distance among colours that contrast with white."""

_PERMUTATION_LIGHTNESS = 0.03
"""Largest difference in lightness (Oklab) between a multiset's colour and those of its permutations."""


def class_colours(n: int) -> np.ndarray:
    """Colours of N classes, (class, rgb): far apart up to ten, otherwise hues around the circle.

    Neighbouring hues differ in lightness, too.
    """
    if n <= len(_DISTINCT_COLOURS):
        return np.array([to_rgb(f"#{code}") for code in _DISTINCT_COLOURS[:n]]).reshape(n, 3)
    hue = 2 * np.pi * (np.arange(n) / n + 0.08)
    level = np.arange(n) % 3
    if n % 3 == 1:
        level[-1] = 1  # beside class 0, which has level 0
    lightness = np.array([0.55, 0.70, 0.82])[level]
    return from_oklab(lightness, 0.14 * np.cos(hue), 0.14 * np.sin(hue))


def prefix_colours(multiset: np.ndarray) -> np.ndarray:
    """Colours of prefixes by the index of their multiset of tokens: (prefix,) -> (prefix, rgb).

    Permutations of a multiset differ slightly in lightness.
    """
    rgb = class_colours(int(multiset.max(initial=-1)) + 1)[multiset]
    lightness, a, b = np.moveaxis(to_oklab(rgb), -1, 0)
    shift = np.zeros(len(multiset))
    for one in np.unique(multiset):
        indices = np.flatnonzero(multiset == one)
        if len(indices) > 1:
            shift[indices] = np.linspace(-_PERMUTATION_LIGHTNESS, _PERMUTATION_LIGHTNESS, len(indices))
    return from_oklab(lightness + shift, a, b)


_OKLAB_TO_CONES = np.array(
    [[1.0, 1.0, 1.0], [0.3963377774, -0.1055613458, -0.0894841775], [0.2158037573, -0.0638541728, -1.2914855480]]
)
"""From lightness, a and b to the cube roots of the cones' responses."""

_CONES_TO_RGB = np.array(
    [
        [4.0767416621, -1.2684380046, -0.0041960863],
        [-3.3077115913, 2.6097574011, -0.7034186147],
        [0.2309699292, -0.3413193965, 1.7076147010],
    ]
)
"""From the cones' responses to linear sRGB."""


def to_oklab(rgb: np.ndarray) -> np.ndarray:
    """Lightness, a and b in Oklab of sRGB (..., rgb): the inverse of `from_oklab`."""
    linear = np.where(rgb <= 0.04045, rgb / 12.92, ((rgb + 0.055) / 1.055) ** 2.4)
    return np.cbrt(linear @ np.linalg.inv(_CONES_TO_RGB)) @ np.linalg.inv(_OKLAB_TO_CONES)


def from_oklab(lightness: np.ndarray, a: np.ndarray, b: np.ndarray) -> np.ndarray:
    """sRGB of colours in Oklab: (...) each -> (..., rgb) in 0..1."""
    cones = np.stack([np.ones_like(a), a, b], axis=-1) @ _OKLAB_TO_CONES
    cones += (lightness - 1)[..., None]
    linear = (cones**3 @ _CONES_TO_RGB).clip(0, 1)
    return np.where(linear <= 0.0031308, 12.92 * linear, 1.055 * linear ** (1 / 2.4) - 0.055)


def pale_colours(colours: np.ndarray, opacity: float = 0.42) -> np.ndarray:
    """Colours (..., rgb) mixed with white, for a background on which the full colours are visible."""
    return opacity * colours + (1 - opacity)


LAYER_COLOURS = ("#0072b2", "#d55e00", "#009e73", "#cc79a7", "#e69f00", "#56b4e9", "#000000", "#8a6d3b")
"""Colours of layers in the order of a trajectory's `layer` coordinate: those of Okabe and Ito, and brown."""

_COLOUR_OF_SPLIT = {"train": 0, "validation": 1, "test": 1, "unseen": 2}


def split_colours(splits: list[str]) -> np.ndarray:
    """Colours of the curves of splits, (split, rgb), the same for a split in all figures."""
    indices = [_COLOUR_OF_SPLIT.get(split, 3 + index) for index, split in enumerate(splits)]
    return class_colours(3 + len(splits))[indices]


def sequential_colours(n: int = 256) -> np.ndarray:
    """Colours of values, or of tokens along the number line, from dark (low) to light (high): (n, rgb)."""
    return colormaps["viridis"](np.linspace(0, 1, n))[:, :3]


def angle_colours(angle: np.ndarray) -> np.ndarray:
    """Colours of directions in the plane, by their angle (...) in radians: (..., rgb)."""
    return from_oklab(0.68 + 0.1 * np.cos(angle - 1), 0.13 * np.cos(angle), 0.13 * np.sin(angle))
