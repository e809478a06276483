"""All frames of what a run's panels show, as compact buffers that a browser takes slices of.

A buffer is (frame, width), so that what a frame shows is one piece of memory: of points the x of all and then the y, of
arrows the x and y of all tails and then of all heads, float32; of maps their numbers, the lowest row first, and of
images one of 255 levels between low and high, also the lowest row first, unsigned integers. `NONE` is a gap.

In a file, floats are rounded to 16 bits over the limits of their array, every column is a difference from the frame
before, which makes what moves slowly small, and all is compressed.
"""

import base64
import zlib
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from analysis.view.scene import Arrows, Curves, Image, Layer, Map, Points, Scene

NONE, LEVELS = 255, 254
"""The level of an image that is no number, and the highest that is one."""

MOST_FRAMES = 4000
"""Frames that a browser is given of a run; of a longer one so many, evenly."""

MOST_BYTES = 256 << 20
"""Of all buffers of points; of a run that has more, fewer frames are given."""

STEPS = 65534
"""Into which the limits of an array are divided in a file; the number after the last is a gap."""


def kept(count: int, most: int = MOST_FRAMES) -> np.ndarray:
    """At most so many (from 2) of `count` frames, evenly, the first and the last among them: (kept,) int64."""
    return np.unique(np.linspace(0, count - 1, min(count, max(most, 2))).round().astype(np.int64))


def layers_of(scene: Scene, panels: Sequence[str]) -> dict[str, Layer]:
    """The layers of some panels that change, by the array they show."""
    found: dict[str, Layer] = {}
    for panel in scene.panels:
        for layer in panel.layers if panel.name in panels else ():
            if not isinstance(layer, Curves):
                found.setdefault(layer.array, layer)
    return found


def packed(layer: Layer, values: np.ndarray) -> np.ndarray:
    """The buffer (frame, width) of what a layer shows at some frames, as `Scene.look` gives it."""
    frames = len(values)
    if isinstance(layer, Points | Arrows):
        return np.ascontiguousarray(np.moveaxis(values, 2, 1), np.float32).reshape(frames, -1)
    if isinstance(layer, Map):
        kind = np.uint8 if len(layer.palette) <= 256 else np.uint16
        return np.ascontiguousarray(values, kind).reshape(frames, -1)
    assert isinstance(layer, Image)
    share = (values - layer.low) / ((layer.high - layer.low) or 1.0)
    level = np.where(np.isfinite(share), np.round(np.clip(share, 0, 1) * LEVELS), NONE)
    return np.ascontiguousarray(np.nan_to_num(level, nan=NONE)[:, ::-1], np.uint8).reshape(frames, -1)


def unpacked(layer: Layer, buffer: np.ndarray, shape: tuple[int, ...]) -> np.ndarray:
    """What a layer shows, of its buffer (frame, width): the inverse of `packed`, up to the levels of an image.

    shape: of one frame, as `Scene.look` gives it.
    """
    frames = len(buffer)
    if isinstance(layer, Points | Arrows):
        return np.moveaxis(buffer.reshape(frames, shape[1], shape[0]), 1, 2)
    values = buffer.reshape(frames, *shape)
    if isinstance(layer, Map):
        return values
    assert isinstance(layer, Image)
    level = values[:, ::-1].astype(np.float64)
    return np.where(level == NONE, np.nan, layer.low + level / LEVELS * (layer.high - layer.low))


def is_map(layer: Layer) -> bool:
    """Whether a layer's buffer is large, so that it comes later, or of fewer frames."""
    return isinstance(layer, Map)


def pack(scene: Scene, frames: np.ndarray, layers: Mapping[str, Layer]) -> dict[str, np.ndarray]:
    """The buffers of some layers at frames: array -> (frame, width)."""
    shown = scene.look(frames, list(layers))
    return {name: packed(layer, shown[name]) for name, layer in layers.items()}


def from_coarse_to_fine(count: int, at_once: int) -> list[np.ndarray]:
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
class Squeezed:
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


def squeezed(buffer: np.ndarray) -> Squeezed:
    """A buffer (frame, width) for a file; floats within half a 65534th of their range."""
    low = step = None
    if np.issubdtype(buffer.dtype, np.floating):
        known = np.isfinite(buffer)
        low = float(buffer[known].min()) if known.any() else 0.0
        high = float(buffer[known].max()) if known.any() else 0.0
        step = (high - low) / STEPS or 1.0
        level = np.where(known, np.round((np.where(known, buffer, low).astype(np.float64) - low) / step), STEPS + 1)
        buffer = level.astype(np.uint16)
    change = buffer.copy()
    change[1:] -= buffer[:-1]  # modulo 2^8 or 2^16
    kind = buffer.dtype.name
    flat = change if kind == "uint8" else change.view(np.uint8).reshape(*change.shape, 2)
    planes = np.ascontiguousarray(flat if kind == "uint8" else np.moveaxis(flat, -1, 0))  # low bytes, then high ones
    text = base64.b64encode(zlib.compress(planes.tobytes(), 9)).decode()
    return Squeezed(text, kind, buffer.shape[1], low, step)


def released(squeezed: Squeezed) -> np.ndarray:
    """The buffer (frame, width) again, as a browser has it."""
    raw = np.frombuffer(zlib.decompress(base64.b64decode(squeezed.text)), np.uint8)
    if squeezed.kind == "uint16":
        half = len(raw) // 2
        raw = raw[:half].astype(np.uint16) + (raw[half:].astype(np.uint16) << 8)
    level = np.cumsum(raw.reshape(-1, squeezed.width), axis=0, dtype=squeezed.kind)
    if squeezed.low is None or squeezed.step is None:
        return level
    return np.where(level > STEPS, np.nan, squeezed.low + level * squeezed.step).astype(np.float32)
