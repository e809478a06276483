"""Compact buffers with all frames of a run's panels; the browser reads slices of them.

A buffer has the shape (frame, width), so that a frame is contiguous. Points: the x of
all points, then the y; arrows: x and y of all tails, then of all heads; both float32.
Maps: class indices with contours as in `analysis.panels.contours`; images: one
of 255 levels between low and high; both unsigned integers, the lowest row first.
`IMAGE_GAP` marks a missing value.

In an exported file, floats keep 13 binary digits after the first, every column is stored
as the difference from the frame before, and the result is compressed."""

import base64
import zlib
from collections.abc import Sequence
from typing import Any

import numpy as np

from analysis.panels.common_panels import MAX_FRAMES, evenly_spaced_indices
from analysis.panels.contours import mark_contours
from analysis.panels.scene import Arrows, ChangingLayer, Image, Map, Points, Scene

IMAGE_GAP = 255
"""Level that marks a missing value of an image."""

IMAGE_LEVELS = 254
"""Highest level of other values."""

_MAX_BYTES = 256 << 20
"""Maximum total size of the buffers in bytes; of a larger run, fewer frames are
sent."""

_CUT_DIGITS = 10
"""Binary digits of a float32, of 23 after the first, that a file does not keep."""


def frames_to_send(scene: Scene, panels: Sequence[str]) -> np.ndarray:
    """Indices (kept,) of the frames that a browser receives: evenly spaced, as many as
    fit."""
    arrays = scene.arrays([0], panels).values()
    size = sum(array.nbytes for array in arrays if array.dtype.kind == "f")
    count = int(np.clip(_MAX_BYTES // max(size, 1), 2, MAX_FRAMES))
    return evenly_spaced_indices(len(scene.steps), count)


def encode_layer(layer: ChangingLayer, values: np.ndarray) -> np.ndarray:
    """The buffer (frame, width) of a layer's array at some frames."""
    frames = len(values)
    if isinstance(layer, Points | Arrows):
        return np.moveaxis(values, 2, 1).astype(np.float32).reshape(frames, -1)
    if isinstance(layer, Map):
        count = len(layer.palette)
        if layer.lines:
            return mark_contours(values, count).reshape(frames, -1)
        return values.astype(np.min_scalar_type(count - 1)).reshape(frames, -1)
    assert isinstance(layer, Image)
    share = (values - layer.low) / ((layer.high - layer.low) or 1.0)
    level = np.round(np.clip(share, 0, 1) * IMAGE_LEVELS)
    level[~np.isfinite(share)] = IMAGE_GAP
    return level[:, ::-1].astype(np.uint8).reshape(frames, -1)


def coarse_to_fine(count: int) -> np.ndarray:
    """All indices below `count`: first a few evenly spaced ones, then those between
    them."""
    index = np.arange(count)
    spacing = np.where(
        index, index & -index, count
    )  # largest power of two that divides
    return np.argsort(-spacing, kind="stable")


# ----------------------------------------------------------------------- exported files


def compress_buffer(buffer: np.ndarray) -> dict[str, Any]:
    """A buffer (frame, width) for a file: base64 of zlib, the type of its numbers, and
    its width. Floats are rounded to a relative precision of 2^-14."""
    numbers = buffer
    if buffer.dtype.kind == "f":  # round the bits, which also carries into the exponent
        half = np.uint32(1 << (_CUT_DIGITS - 1))
        numbers = (buffer.view(np.uint32) + half) >> _CUT_DIGITS
    change = np.diff(numbers, axis=0, prepend=numbers[:1] * 0)  # modulo 2^bits
    digits = change.view(np.uint8).reshape(*change.shape, change.itemsize)
    planes = np.moveaxis(digits, -1, 0)  # low bytes, then high ones
    text = base64.b64encode(zlib.compress(planes.tobytes(), 9)).decode()
    return {"text": text, "kind": buffer.dtype.name, "width": buffer.shape[1]}
