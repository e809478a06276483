"""Compact buffers with all frames of a run's panels; the browser reads slices of them.

A buffer has the shape (frame, width), so that a frame is contiguous. Points: the x of
all points, then the y; arrows: x and y of all tails, then of all heads; both float32.
Maps: class indices with contours as in `analysis.panels.contours`; images: one
of 255 levels between low and high; both unsigned integers, the lowest row first.
`IMAGE_GAP` marks a missing value.

In an exported file, floats are rounded to 16 bits over the visible range and a margin,
each column is stored as the difference from the frame before, and the result is
compressed."""

import base64
import zlib
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from analysis.panels.common_panels import MAX_FRAMES, evenly_spaced_indices
from analysis.panels.contours import mark_contours
from analysis.panels.scene import Arrows, Curves, Image, Layer, Map, Points, Scene

IMAGE_GAP, IMAGE_LEVELS = 255, 254
"""Level that marks a missing value of an image, and highest level of other values."""

_MAX_BYTES = 256 << 20
"""Maximum total size of the buffers in bytes; of a larger run, fewer frames are
sent."""

QUANTIZATION_STEPS = 65534
"""Number of intervals into which a range is divided in a file; the next number marks a
missing value."""

_RANGE_MARGIN = 2.0
"""Margin around a panel within which positions are kept in a file, as a fraction of its
width."""

_Range = tuple[float, float]


def frames_to_send(scene: Scene, panels: Sequence[str]) -> np.ndarray:
    """Indices (kept,) of the frames that a browser receives: evenly spaced, as many as
    fit."""
    arrays = scene.compute_arrays(np.array([0]), list(changing_layers(scene, panels)))
    size = sum(array.nbytes for array in arrays.values() if array.dtype.kind == "f")
    count = int(np.clip(_MAX_BYTES // max(size, 1), 2, MAX_FRAMES))
    return evenly_spaced_indices(len(scene.steps), count)


def changing_layers(scene: Scene, panels: Sequence[str]) -> dict[str, Layer]:
    """The layers of panels that change over time, by the name of their array."""
    result: dict[str, Layer] = {}
    for panel in scene.panels:
        for layer in panel.layers if panel.name in panels else ():
            if not isinstance(layer, Curves):
                result.setdefault(layer.array, layer)
    return result


def encode_layer(layer: Layer, values: np.ndarray) -> np.ndarray:
    """The buffer (frame, width) of a layer's arrays at some frames, as returned by
    `Scene.compute_arrays`."""
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


@dataclass(frozen=True)
class CompressedBuffer:
    """A compressed buffer as text, with the numbers needed to decode it."""

    text: str  # base64 of zlib
    kind: str  # of the numbers: uint8 or uint16
    width: int
    low: float | None = None  # for floats: the value that 0 stands for
    step: float | None = None  # for floats: the difference between consecutive integers


def compress_buffer(
    buffer: np.ndarray, within: _Range | None = None
) -> CompressedBuffer:
    """Compress a buffer (frame, width); floats are rounded to 16 bits over `within`, by
    default their range."""
    low = step = None
    if buffer.dtype.kind == "f":
        finite = np.isfinite(buffer)
        values = np.clip(buffer, *(within or (-np.inf, np.inf))).astype(np.float64)
        some = values[finite] if finite.any() else np.zeros(1)
        low = float(some.min())
        step = (float(some.max()) - low) / QUANTIZATION_STEPS or 1.0
        levels = np.round((values - low) / step)
        buffer = np.where(finite, levels, QUANTIZATION_STEPS + 1).astype(np.uint16)
    change = buffer.copy()
    change[1:] -= buffer[:-1]  # modulo 2^8 or 2^16
    digits = change.view(np.uint8).reshape(*change.shape, change.itemsize)
    planes = np.moveaxis(digits, -1, 0)  # low bytes, then high ones
    text = base64.b64encode(zlib.compress(planes.tobytes(), 9)).decode()
    return CompressedBuffer(text, buffer.dtype.name, buffer.shape[1], low, step)


def visible_range(scene: Scene, panels: Sequence[str], array: str) -> _Range:
    """The range of an array that is visible in its panels, with a margin."""
    limits = [
        (panel.x, panel.y)
        for panel in scene.panels
        for layer in panel.layers
        if panel.name in panels
        and not isinstance(layer, Curves)
        and layer.array == array
    ]
    low, high = float(np.min(limits)), float(np.max(limits))
    return low - _RANGE_MARGIN * (high - low), high + _RANGE_MARGIN * (high - low)


def clip_arrows(arrows: np.ndarray, within: _Range) -> np.ndarray:
    """Arrows (..., 4), shortened where they leave the visible square; directions are
    kept."""
    tail, along = arrows[..., :2].astype(np.float64), arrows[..., 2:] - arrows[..., :2]
    with np.errstate(divide="ignore", invalid="ignore", over="ignore"):
        edge = np.where(along > 0, within[1], within[0]) - tail
        share = np.where(along == 0, np.inf, edge / along).min(axis=-1, keepdims=True)
        inside = ((tail >= within[0]) & (tail <= within[1])).all(-1, keepdims=True)
        shorter = np.where(inside & (share < 1), tail + share * along, arrows[..., 2:])
    return np.concatenate([tail, shorter], axis=-1)
