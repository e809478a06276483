"""Colours of all pictures, distinguishable with every kind of colour vision, and names
of layers: one meaning has one colour, one layer has one name.

Arrays of colours are sRGB in 0..1, (..., rgb). Differences are distances in Oklab, in
which equal distances look equal (Ottosson 2020). Every colour has a variant for dark
backgrounds, which the style in use decides."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
from matplotlib import colormaps
from matplotlib.colors import ListedColormap, to_rgb, to_rgba_array

from analysis.panels.style import current_style
from dynamics.settings import ParticleSettings

_COLOURS = {
    "background": ("#ffffff", "#14171b"),
    "paper": ("#fbfbfa", "#0d0f12"),
    "accent": ("#0b6fa4", "#6cb6e4"),
    "warning": ("#8a4b08", "#f0b060"),
    "ink": ("#1f2933", "#e8ebee"),
    "muted": ("#616e7c", "#a3adb8"),
    "faint": ("#bcc3ca", "#56606b"),
    "grid": ("#e9ebed", "#2a3037"),
    "band": ("#e3e7ea", "#30373f"),
    "plateau": ("#9aa5b1", "#7b8794"),
    "train": ("#243090", "#b4a5ff"),
    "validation": ("#3c9cc0", "#86f2ff"),
    "test": ("#3c9cc0", "#86f2ff"),
    "unseen": ("#e47800", "#ff6000"),
    "drop": ("#0c54e4", "#3b8bff"),
    "spike": ("#cc0030", "#ff9b9d"),
    "rise": ("#845490", "#b4729b"),
    "escape": ("#54300c", "#ffdb7b"),
    "memorisation": ("#a58ce8", "#905098"),
    "circuit formation": ("#ffb000", "#e88800"),
    "cleanup": ("#404040", "#959595"),
    "decision": ("#783090", "#c492e1"),
    "first": ("#186cb4", "#5199ff"),
    "second": ("#d86c30", "#ff9e7d"),
    "particles": ("#783090", "#d698ff"),
    "network": ("#249024", "#479668"),
    "successful": ("#0078c0", "#6ebbff"),
    "failed": ("#d86000", "#ff915e"),
}
"""On white and on a dark background: the colours of a page and its controls, of text,
of lines by their importance and of bands behind data, then those of meanings, which
have nearly the same hue on both. The test split has the colour of the validation split,
as no system has both."""

PHASES = ("memorisation", "circuit formation", "cleanup")
"""Phases of grokking, which are meanings of colours."""

_BAND_OPACITIES = (0.35, 0.25)
"""On a white and on a dark background. On a dark one, curves would be hard to see on bands
that are more opaque."""

_INTERVAL_OPACITIES = (0.2, 0.32)
"""On a white and on a dark background."""

_CLASSES = (
    (
        "3c5a78",
        "ffa500",
        "69d2c3",
        "f03c0f",
        "9600e1",
        "5a002d",
        "009687",
        "2d0087",
        "a50f00",
        "b478ff",
    ),
    (
        "007ec6",
        "ffc837",
        "b2fff3",
        "ff874b",
        "bcbbff",
        "a35475",
        "00e7ae",
        "9294ff",
        "db3d00",
        "bd96b2",
    ),
)
"""Ten colours for a white and for a dark background, of which any two are at least
0.15, or 0.1, apart in Oklab for readers with and without each kind of colour
blindness. A search chose those with the largest smallest distance."""

_PERMUTATION_LIGHTNESS = 0.03
"""Largest difference in lightness (Oklab) between a multiset's colour and those of its
permutations."""

_LIGHT = 0.62
"""Lightness (Oklab) above which text on a colour is dark."""

_TEXT_ON_LIGHT = 0.1
"""Grey of that text."""


def interval_opacity() -> float:
    """Opacity of an area that shows an interval or the range between quartiles."""
    return _INTERVAL_OPACITIES[current_style().dark]


def band_opacity() -> float:
    """Opacity of the vertical bands behind curves that mark drops of the loss and phases."""
    return _BAND_OPACITIES[current_style().dark]


def class_colours(n: int) -> np.ndarray:
    """Colours of N classes and of the tokens of the same numbers, (class, rgb): far
    apart up to ten, otherwise hues around the circle.

    Neighbouring hues differ in lightness, too.
    """
    distinct = _CLASSES[current_style().dark]
    if n <= len(distinct):
        return np.array([to_rgb(f"#{code}") for code in distinct[:n]]).reshape(n, 3)
    hue = 2 * np.pi * (np.arange(n) / n + 0.08)
    level = np.arange(n) % 3
    if n % 3 == 1:
        level[-1] = 1  # beside class 0, which has level 0
    lightness = np.array([0.50, 0.68, 0.84])[level]
    return from_oklab(lightness, 0.14 * np.cos(hue), 0.14 * np.sin(hue))


def prefix_colours(multiset: np.ndarray) -> np.ndarray:
    """Colours of prefixes by the index of their multiset of tokens: (prefix,) ->
    (prefix, rgb).

    Permutations of a multiset differ slightly in lightness.
    """
    rgb = class_colours(int(multiset.max(initial=-1)) + 1)[multiset]
    lightness, a, b = np.moveaxis(to_oklab(rgb), -1, 0)
    shift = np.zeros(len(multiset))
    for one in np.unique(multiset):
        indices = np.flatnonzero(multiset == one)
        if len(indices) > 1:
            shift[indices] = np.linspace(
                -_PERMUTATION_LIGHTNESS, _PERMUTATION_LIGHTNESS, len(indices)
            )
    return from_oklab(lightness + shift, a, b)


_OKLAB_TO_CONES = np.array(
    [
        [1.0, 1.0, 1.0],
        [0.3963377774, -0.1055613458, -0.0894841775],
        [0.2158037573, -0.0638541728, -1.2914855480],
    ]
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
    return np.cbrt(linear @ np.linalg.inv(_CONES_TO_RGB)) @ np.linalg.inv(
        _OKLAB_TO_CONES
    )


def from_oklab(lightness: np.ndarray, a: np.ndarray, b: np.ndarray) -> np.ndarray:
    """sRGB of colours in Oklab: (...) each -> (..., rgb) in 0..1."""
    cones = np.stack([np.ones_like(a), a, b], axis=-1) @ _OKLAB_TO_CONES
    cones += (lightness - 1)[..., None]
    linear = (cones**3 @ _CONES_TO_RGB).clip(0, 1)
    return np.where(
        linear <= 0.0031308, 12.92 * linear, 1.055 * linear ** (1 / 2.4) - 0.055
    )


def text_colours(rgb: np.ndarray) -> np.ndarray:
    """Colours of text on marks of colours (..., rgb): (..., rgb), dark or white."""
    light = to_oklab(np.asarray(rgb, float))[..., :1] > _LIGHT
    return np.where(light, _TEXT_ON_LIGHT, 1.0).repeat(3, axis=-1)


def pale_colours(colours: np.ndarray, opacity: float = 0.42) -> np.ndarray:
    """Colours (..., rgb) mixed with the background, for areas on which the full colours
    are visible."""
    return opacity * colours + (1 - opacity) * np.array(to_rgb(colour("background")))


_SERIES = (
    (
        "#0c4890",
        "#cc8400",
        "#009ccc",
        "#a80030",
        "#180c0c",
        "#787878",
        "#501e4e",
        "#306ca8",
    ),
    (
        "#008bdb",
        "#ebb700",
        "#3b788f",
        "#e45300",
        "#bab5b3",
        "#969696",
        "#ffdaff",
        "#81c3ff",
    ),
)
"""Colours of layers, and of other things that a figure distinguishes and that have no
colour of their own, on a white and on a dark background, with nearly the same hue on
both; any two are at least 0.1 apart."""


def colour(meaning: str) -> str:
    """The colour of a meaning, such as "train" or "spike", in the style in use."""
    return _COLOURS[meaning][current_style().dark]


def css_colours() -> str:
    """CSS declarations of all colours of meanings, such as `--spike`, of which each
    has the variant of the reader's colour scheme."""
    named = [(name.replace(" ", "-"), *pair) for name, pair in _COLOURS.items()]
    return " ".join(f"--{name}: light-dark({a}, {b});" for name, a, b in named)


def series_colours(n: int = 8) -> list[str]:
    """Colours of n things without a colour of their own, such as layers; they repeat
    after eight."""
    series = _SERIES[current_style().dark]
    return [series[place % len(series)] for place in range(n)]


def system_colour(system: str) -> str:
    """The colour of particles, or of networks."""
    return colour("particles" if system == ParticleSettings.system else "network")


def system_colours(systems: Sequence[str]) -> list[str]:
    """Colours of one or two trajectories by their systems: those of particles and of
    networks, or of two trajectories of the same kind two others."""
    result = [system_colour(system) for system in systems]
    if len(set(result)) < 2:
        return [colour("first"), colour("second")]
    return result


def named_colours(names: Sequence[str]) -> np.ndarray:
    """Colours of things by their names, (name, rgb), the same in all pictures: those of
    their meanings, or of layers and others distinct ones up to eight, otherwise from
    dark (first) to light (last)."""
    few = len(names) <= len(_SERIES[0])
    shades = line_colours_of_quantity()(np.linspace(0, 1, len(names)))
    others = series_colours(len(names)) if few else list(shades)
    named = [
        colour(name) if name in _COLOURS else other
        for name, other in zip(names, others, strict=True)
    ]
    return to_rgba_array(named)[:, :3]


QUANTITY_MAP = "viridis"
"""matplotlib's name of the colours of a quantity, such as attention, loss or power, from
dark (low) to light (high)."""

_LINE_RANGE = ((0.0, 0.85), (0.2, 1.0))
"""Part of the colours of a quantity that lines have on a white and on a dark
background, with which they contrast."""


def sequential_colours(n: int = 256) -> np.ndarray:
    """Colours of values from dark (low) to light (high): (n, rgb)."""
    return colormaps[QUANTITY_MAP](np.linspace(0, 1, n))[:, :3]


def line_colours_of_quantity() -> ListedColormap:
    """Colours of lines by a quantity, low to high, without those that the background
    swallows."""
    low, high = _LINE_RANGE[current_style().dark]
    return ListedColormap(colormaps[QUANTITY_MAP](np.linspace(low, high, 256)))


_ORDERED_LIGHTNESS = ((0.27, 0.66), (0.88, 0.5))
"""Lightness (Oklab) of the first and of the last of ordered things, on a white and on a
dark background."""

_ORDERED_HUE = -0.085, -0.02
"""Hue of ordered things: b and a in Oklab."""


def ordered_colours(n: int) -> np.ndarray:
    """Colours of n things in an order, such as weight decays or steps, by the lightness
    of one hue: (n, rgb). The first one contrasts most with the background."""
    first, last = _ORDERED_LIGHTNESS[current_style().dark]
    lightness = np.linspace(first, last, n) if n > 1 else np.array([first])
    b, a = _ORDERED_HUE
    return from_oklab(lightness, np.full(n, a), np.full(n, b))


def angle_colours(angle: np.ndarray) -> np.ndarray:
    """Colours of directions in the plane, by their angle (...) in radians: (...,
    rgb)."""
    return from_oklab(
        0.68 + 0.1 * np.cos(angle - 1), 0.13 * np.cos(angle), 0.13 * np.sin(angle)
    )


# ---------------------------------------------------------------------- names of layers

_LAYER_NAMES = {
    "receptor": "MLP input weights",
    "assembler": "MLP output weights",
    "transform_bias": "MLP output bias",
    "receptor_bias": "MLP input bias",
}
"""Names of the layers that differ from those of their variables."""

MAX_NAMED_LAYERS = 16
"""Largest number of layers whose names are all drawn."""


def layer_labels(layers: Sequence[str]) -> list[str]:
    """Names of layers in all pictures: the shortest end of each name that no other
    layer has, of at least two of the parts that dots separate."""
    names = []
    for layer in layers:
        parts = layer.split(".")
        ends = [".".join(parts[-count:]) for count in range(2, len(parts))]
        unique = (
            end
            for end in ends
            if sum(f".{other}".endswith(f".{end}") for other in layers) == 1
        )
        name = _LAYER_NAMES.get(layer, layer.replace("_", " "))
        names.append(next(unique, name))
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
