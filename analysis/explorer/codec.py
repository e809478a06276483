"""All frames of what a run's panels show, as compact buffers that a browser takes slices of.

A buffer is (frame, width), so that what a frame shows is one piece of memory: of points the x of all and then the y, of
arrows the x and y of all tails and then of all heads, float32; of maps their numbers, with level lines as
`analysis.plots.drawing.contours` has them, the lowest row first, and of images one of 255 levels between low and
high, also the
lowest row first, unsigned integers. `NONE` is a gap.

In a file, floats are rounded to 16 bits over what can be seen of their array and somewhat more, every column is a
difference from the frame before, which makes what moves slowly small, and all is compressed.
"""

import base64
import zlib
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from analysis.plots.drawing.contours import mark_contours
from analysis.plots.scenes.common_panels import MAX_FRAMES, evenly_spaced_indices
from analysis.plots.scenes.scene import Arrows, Curves, Image, Layer, Map, Points, Scene

IMAGE_GAP, IMAGE_LEVELS = 255, 254
"""The level of an image that is no number, and the highest that is one."""

_MAX_BYTES = 256 << 20
"""Of all buffers of points; of a run that has more, fewer frames are given."""

QUANTIZATION_STEPS = 65534
"""Into which a range of numbers is divided in a file; the number after the last is a gap."""

_RANGE_MARGIN = 2.0
"""How far beyond a panel points are kept apart in a file, as a share of its width: what is farther stands there."""

_Range = tuple[float, float]


def frames_to_send(scene: Scene, panels: Sequence[str]) -> np.ndarray:
    """The frames of a run that a browser is given, evenly, as many as there is room for: (kept,) int64."""
    shown = scene.compute_arrays(np.array([0]), list(changing_layers(scene, panels)))
    size = sum(array.nbytes for array in shown.values() if np.issubdtype(array.dtype, np.floating))
    return evenly_spaced_indices(len(scene.steps), max(2, min(MAX_FRAMES, _MAX_BYTES // max(size, 1))))


def changing_layers(scene: Scene, panels: Sequence[str]) -> dict[str, Layer]:
    """The layers of some panels that change, by the array they show."""
    found: dict[str, Layer] = {}
    for panel in scene.panels:
        for layer in panel.layers if panel.name in panels else ():
            if not isinstance(layer, Curves):
                found.setdefault(layer.array, layer)
    return found


def encode_layer(layer: Layer, values: np.ndarray) -> np.ndarray:
    """The buffer (frame, width) of what a layer shows at some frames, as `Scene.compute_arrays` gives it."""
    frames = len(values)
    if isinstance(layer, Points | Arrows):
        return np.ascontiguousarray(np.moveaxis(values, 2, 1), np.float32).reshape(frames, -1)
    if isinstance(layer, Map):
        count = len(layer.palette)
        numbers = mark_contours(values, count) if layer.lines else values
        kind = np.uint8 if count * (4 if layer.lines else 1) <= 256 else np.uint16
        return np.ascontiguousarray(numbers, kind).reshape(frames, -1)
    assert isinstance(layer, Image)
    share = (values - layer.low) / ((layer.high - layer.low) or 1.0)
    level = np.where(np.isfinite(share), np.round(np.clip(share, 0, 1) * IMAGE_LEVELS), IMAGE_GAP)
    return np.ascontiguousarray(np.nan_to_num(level, nan=IMAGE_GAP)[:, ::-1], np.uint8).reshape(frames, -1)


def is_map(layer: Layer) -> bool:
    """Whether a layer's buffer is large, so that it comes later, or of fewer frames."""
    return isinstance(layer, Map)


def encode_layers(scene: Scene, frames: np.ndarray, layers: Mapping[str, Layer]) -> dict[str, np.ndarray]:
    """The buffers of some layers at frames: array -> (frame, width)."""
    shown = scene.compute_arrays(frames, list(layers))
    return {name: encode_layer(layer, shown[name]) for name, layer in layers.items()}


def coarse_to_fine_batches(count: int, at_once: int) -> list[np.ndarray]:
    """All numbers below `count` once, in pieces: first few and evenly, then those between."""
    stride = 1
    while count > at_once * stride:
        stride *= 2
    done, pieces = np.zeros(count, bool), []
    while stride:
        every = np.arange(0, count, stride)
        fresh = every[~done[every]]
        done[fresh] = True
        pieces += [fresh[at : at + at_once] for at in range(0, len(fresh), at_once)]
        stride //= 2
    return [piece for piece in pieces if len(piece)]


# --------------------------------------------------------------------------------------------- in a file


@dataclass(frozen=True)
class CompressedBuffer:
    """A buffer as text, and what it takes to have it back."""

    text: str  # base64 of zlib
    kind: str  # of the numbers in it: uint8 or uint16
    width: int
    low: float | None = None  # of floats: what 0 stands for
    step: float | None = None  # of floats: what 1 is

    @property
    def words(self) -> dict[str, Any]:
        """As JSON has it."""
        return {"text": self.text, "kind": self.kind, "width": self.width, "low": self.low, "step": self.step}


def compress_buffer(buffer: np.ndarray, within: _Range | None = None) -> CompressedBuffer:
    """A buffer (frame, width) for a file; floats to half a 65534th of their range, or of `within`, where they end."""
    low = step = None
    if np.issubdtype(buffer.dtype, np.floating):
        known = np.isfinite(buffer)
        values = np.where(known, buffer, 0.0).astype(np.float64)
        if within is not None:
            values = np.clip(values, *within)
        low = float(values[known].min()) if known.any() else 0.0
        high = float(values[known].max()) if known.any() else 0.0
        step = (high - low) / QUANTIZATION_STEPS or 1.0
        buffer = np.where(known, np.round((values - low) / step), QUANTIZATION_STEPS + 1).astype(np.uint16)
    change = buffer.copy()
    change[1:] -= buffer[:-1]  # modulo 2^8 or 2^16
    kind = buffer.dtype.name
    flat = change if kind == "uint8" else change.view(np.uint8).reshape(*change.shape, 2)
    planes = np.ascontiguousarray(flat if kind == "uint8" else np.moveaxis(flat, -1, 0))  # low bytes, then high ones
    text = base64.b64encode(zlib.compress(planes.tobytes(), 9)).decode()
    return CompressedBuffer(text, kind, buffer.shape[1], low, step)


def visible_range(scene: Scene, panels: Sequence[str], array: str) -> _Range:
    """What of an array lies in the panels that show it, or near them."""
    ranges = [limits for panel in scene.panels if panel.name in panels for limits in (panel.x, panel.y)
              if any(not isinstance(layer, Curves) and layer.array == array for layer in panel.layers)]  # fmt: skip
    low, high = min(low for low, _ in ranges), max(high for _, high in ranges)
    return low - _RANGE_MARGIN * (high - low), high + _RANGE_MARGIN * (high - low)


def clip_arrows(arrows: np.ndarray, within: _Range) -> np.ndarray:
    """Arrows (..., 4) that end where they leave a square: those that point far away go on pointing there."""
    ends = np.asarray(arrows, np.float64).reshape(*arrows.shape[:-1], 2, 2)
    tail, head = ends[..., 0, :], ends[..., 1, :]
    with np.errstate(divide="ignore", invalid="ignore", over="ignore"):
        along = head - tail
        edge = (np.where(along > 0, within[1], within[0]) - tail) / along  # in lengths of the arrow
        edge[along == 0] = np.inf
        length = np.clip(np.fmin(*np.moveaxis(edge, -1, 0)), 0, 1)
    inside = ((tail >= within[0]) & (tail <= within[1])).all(axis=-1)
    shorter = np.where((inside & (length < 1))[..., None], tail + length[..., None] * along, head)
    return np.concatenate([tail, shorter], axis=-1)
