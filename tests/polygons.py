"""Perfect circles: regular polygons as embeddings."""

import numpy as np


def polygon(n, step=1, radius=1.0):
    """The corners (token, 2) of a regular polygon, in which token i has the angle 2 pi
    step i / n."""
    angle = 2 * np.pi * step * np.arange(n) / n
    return radius * np.stack([np.cos(angle), np.sin(angle)], axis=-1)
