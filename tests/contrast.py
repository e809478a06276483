"""Contrasts of colours, as in the Web Content Accessibility Guidelines."""

import numpy as np

_LUMINANCE = (0.2126, 0.7152, 0.0722)
"""Weights of linear sRGB in the luminance."""


def linear_rgb(rgb):
    """Linear sRGB of colours in sRGB, both (..., rgb) in 0..1."""
    rgb = np.asarray(rgb, float)
    return np.where(rgb <= 0.04045, rgb / 12.92, ((rgb + 0.055) / 1.055) ** 2.4)


def contrast(rgb, other):
    """The contrast, 1 to 21, of colours (..., rgb) with another one, (rgb,)."""
    luminances = [linear_rgb(item) @ _LUMINANCE + 0.05 for item in (rgb, other)]
    return np.maximum(*luminances) / np.minimum(*luminances)
