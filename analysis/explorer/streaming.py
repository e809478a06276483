"""Sending of buffers to a browser after it has painted: frames near the one that is
looked at first, then all others from coarse to fine in time, maps last.

Batches are small, since the server does nothing else while it encodes one. Nothing can
be sent to a hidden page, as it has no document: call `stop`, and `go_on` when the page
is visible again."""

import time
import warnings
from dataclasses import dataclass

import numpy as np
from bokeh.models.ui import UIElement

from analysis.explorer.codec import changing_layers, coarse_to_fine, encode_layer
from analysis.explorer.controls import is_page_pending
from analysis.explorer.screen import Screen
from analysis.panels.scene import Map

_MAX_MAPS = 24
"""Largest number of frames of maps in a batch."""
_SECONDS = 0.1
"""Approximate time to encode a batch, in seconds."""
_PAUSE = 20
"""Milliseconds between two batches, in which the server handles requests."""


@dataclass
class _Unsent:
    """Frames of a run that were not sent: of its maps, or of all its other layers."""

    lane: int
    maps: bool
    frames: np.ndarray  # indices into the frames that are kept, most urgent first
    at_once: int = 2


class BufferStream:
    """Sends the buffers of a screen to a visitor's browser."""

    def __init__(self, layout: UIElement) -> None:
        """layout: a model that is in the visitor's document while the page is
        visible."""
        self.layout = layout
        self.screen: Screen | None = None
        self.unsent: list[_Unsent] = []
        self._turn = 0

    def begin(self, screen: Screen | None) -> None:
        """Send the buffers of a screen instead of any other; None stops sending."""
        self.screen, self.unsent = screen, [] if screen is None else _all_frames(screen)
        if screen is not None:
            self.look_at(screen.first_frames)
        self.go_on()

    def look_at(self, frames: list[int]) -> None:
        """Send the next batch of each run from the frames nearest to one."""
        for part in self.unsent:
            distance = np.abs(part.frames - frames[part.lane])
            near = np.argsort(distance, kind="stable")[: part.at_once]
            rest = np.delete(part.frames, near)
            part.frames = np.concatenate([part.frames[near], rest])

    def stop(self) -> None:
        """Send nothing until `go_on`."""
        self._turn += 1

    def go_on(self) -> None:
        """Send the remaining batches, after the browser has painted."""
        self._turn += 1  # cancels callbacks under way
        document, turn = self.layout.document, self._turn
        if document is None or not self.unsent:
            return
        if is_page_pending(document):
            document.on_event("document_ready", lambda event: self._next(turn))
        else:
            document.add_next_tick_callback(lambda: self._next(turn))

    def _next(self, turn: int) -> None:
        """Send the next batch, unless the page was hidden or shows another screen
        since."""
        document, screen = self.layout.document, self.screen
        if turn != self._turn or document is None or screen is None:
            return
        part = min(self.unsent, key=lambda part: (part.maps, -len(part.frames)))
        frames, part.frames = np.split(part.frames, [part.at_once])
        begin = time.perf_counter()
        _send(screen, _encode(screen, part, np.sort(frames)))
        frames_a_second = len(frames) / (time.perf_counter() - begin)
        part.at_once = max(1, int(_SECONDS * frames_a_second))
        if part.maps:
            part.at_once = min(part.at_once, _MAX_MAPS)
        self.unsent = [part for part in self.unsent if len(part.frames)]
        if self.unsent:
            document.add_timeout_callback(lambda: self._next(turn), _PAUSE)


def _all_frames(screen: Screen) -> list[_Unsent]:
    """All frames of a screen."""
    result = []
    for lane, scene in enumerate(screen.scenes):
        layers = changing_layers(scene, screen.panels).values()
        order = coarse_to_fine(len(screen.frames[lane]))
        for maps in {isinstance(layer, Map) for layer in layers} or {False}:
            result.append(_Unsent(lane, maps, order))
    return result


def _encode(screen: Screen, part: _Unsent, kept: np.ndarray) -> dict[str, np.ndarray]:
    """The buffers of a batch by lane/array, and the indices of its frames."""
    scene = screen.scenes[part.lane]
    layers = {
        name: layer
        for name, layer in changing_layers(scene, screen.panels).items()
        if isinstance(layer, Map) == part.maps
    }
    arrays = scene.compute_arrays(screen.frames[part.lane][kept], list(layers))
    buffers = {
        f"{part.lane}/{name}": encode_layer(layer, arrays[name])
        for name, layer in layers.items()
    }
    return {**buffers, "frame": kept.astype(np.int32)}


def _send(screen: Screen, data: dict[str, np.ndarray]) -> None:
    """Send a batch; its columns need not have equal lengths."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        screen.parcel.data = data
