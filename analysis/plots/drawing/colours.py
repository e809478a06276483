"""Colours that a colour-blind reader can tell apart, in one place: sRGB in 0..1, (..., rgb).

Differences are distances in Oklab, in which equal steps look equal (Ottosson 2020).
"""

import numpy as np

_DISTINCT_COLOURS = ("3c5a78", "ffa500", "69d2c3", "f03c0f", "9600e1", "5a002d", "009687", "2d0087", "a50f00", "b478ff")
"""Ten colours of which any two are at least 0.15 apart in Oklab, for readers with and without each kind of colour
blindness: found by exchange from a grid of the colours that stand out from white, for the largest least distance."""

_PERMUTATION_LIGHTNESS = 0.03
"""How much lighter and darker permutations of a multiset are than its colour, in Oklab."""


def _distinct_colours(n: int) -> np.ndarray:
    """The first n, up to ten, of the colours that are far apart, (n, rgb)."""
    return (
        np.array([[int(hexadecimal[at : at + 2], 16) for at in (0, 2, 4)] for hexadecimal in _DISTINCT_COLOURS[:n]])
        / 255
    )


def class_colours(n: int) -> np.ndarray:
    """Colours of N classes, (class, rgb): far apart up to ten, else hues once round the circle, of which neighbours
    are also of unlike lightness."""
    if n <= len(_DISTINCT_COLOURS):
        return _distinct_colours(n).reshape(n, 3)
    hue = 2 * np.pi * (np.arange(n) / n + 0.08)
    level = np.arange(n) % 3
    if n % 3 == 1:
        level[-1] = 1  # beside class 0, which has level 0
    levels = np.array([0.55, 0.70, 0.82])[level]
    return from_oklab(levels, 0.14 * np.cos(hue), 0.14 * np.sin(hue))


def prefix_colours(multiset: np.ndarray) -> np.ndarray:
    """Colours of prefixes by the multiset of tokens that each has, numbered from 0: (prefix,) -> (prefix, rgb).

    Permutations of a multiset are a little lighter and darker than each other.
    """
    rgb = class_colours(int(multiset.max(initial=-1)) + 1)[multiset]
    lightness, a, b = np.moveaxis(to_oklab(rgb), -1, 0)
    shift = np.zeros(len(multiset))
    for one in np.unique(multiset):
        of_one = np.flatnonzero(multiset == one)
        if len(of_one) > 1:
            shift[of_one] = np.linspace(-_PERMUTATION_LIGHTNESS, _PERMUTATION_LIGHTNESS, len(of_one))
    return from_oklab(lightness + shift, a, b)


def to_oklab(rgb: np.ndarray) -> np.ndarray:
    """sRGB (..., rgb) in 0..1 as lightness, a and b of Oklab: the inverse of `from_oklab`."""
    linear = np.where(rgb <= 0.04045, rgb / 12.92, ((rgb + 0.055) / 1.055) ** 2.4)
    return np.cbrt(linear @ np.linalg.inv(TO_LINEAR)) @ np.linalg.inv(TO_CONES)


TO_CONES = np.array(
    [[1.0, 1.0, 1.0], [0.3963377774, -0.1055613458, -0.0894841775], [0.2158037573, -0.0638541728, -1.2914855480]]
)
"""From lightness, a and b to the roots of the cones' responses."""
TO_LINEAR = np.array(
    [
        [4.0767416621, -1.2684380046, -0.0041960863],
        [-3.3077115913, 2.6097574011, -0.7034186147],
        [0.2309699292, -0.3413193965, 1.7076147010],
    ]
)
"""From the cones' responses to linear sRGB."""


def from_oklab(lightness: np.ndarray, a: np.ndarray, b: np.ndarray) -> np.ndarray:
    """Oklab, in which equal steps look equal (Ottosson 2020), as sRGB: (...) each -> (..., 3) in 0..1."""
    cones = np.stack([np.ones_like(a), a, b], axis=-1) @ TO_CONES
    cones += (lightness - 1)[..., None]
    linear = cones**3 @ TO_LINEAR
    linear = linear.clip(0, 1)
    return np.where(linear <= 0.0031308, 12.92 * linear, 1.055 * linear ** (1 / 2.4) - 0.055)


def pale_colours(colours: np.ndarray, share: float = 0.42) -> np.ndarray:
    """Colours (..., rgb) for a background, on which the full ones can be seen."""
    return share * colours + (1 - share)


_COLOUR_INDEX_OF_SPLIT = {"train": 0, "validation": 1, "test": 1, "unseen": 2}


def split_colours(splits: list[str]) -> np.ndarray:
    """Colours of the curves of splits, (split, rgb): a split has the same everywhere."""
    return class_colours(3 + len(splits))[
        [_COLOUR_INDEX_OF_SPLIT.get(split, 3 + place) for place, split in enumerate(splits)]
    ]


def sequential_colours(n: int = 256) -> np.ndarray:
    """Colours of values, or of tokens along the number line, from low, dark, to high, light: (n, rgb)."""
    from matplotlib import colormaps

    return colormaps["viridis"](np.linspace(0, 1, n))[:, :3]


def angle_colours(angle: np.ndarray) -> np.ndarray:
    """Colours of directions in the plane, by their angle (...) in radians: (..., rgb)."""
    return from_oklab(0.68 + 0.1 * np.cos(angle - 1), 0.13 * np.cos(angle), 0.13 * np.sin(angle))
