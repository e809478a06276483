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

from analysis.explorer.codec import coarse_to_fine
from analysis.explorer.page_timer import PageTimer
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
    batch_size: int = 2


class BufferStream:
    """Sends the buffers of a screen to a visitor's browser."""

    def __init__(self, layout: UIElement) -> None:
        """layout: a model that is in the visitor's document while the page is
        visible."""
        self.layout = layout
        self.screen: Screen | None = None
        self.unsent: list[_Unsent] = []
        self.timer = PageTimer(self._send_batch, _PAUSE)
        self.stop = self.timer.stop

    def begin(self, screen: Screen | None) -> None:
        """Send the buffers of a screen instead of any other; None stops sending."""
        self.screen = screen
        self.unsent = []
        if screen is not None:
            for lane, scene in enumerate(screen.scenes):
                layers = scene.changing_layers(screen.panels)
                order = coarse_to_fine(len(screen.frames[lane]))
                for maps in {isinstance(layer, Map) for layer in layers} or {False}:
                    self.unsent.append(_Unsent(lane, maps, order))
            self.look_at(screen.first_frames)
        self.go_on()

    def look_at(self, frames: list[int]) -> None:
        """Send the next batch of each run from the frames nearest to one."""
        for part in self.unsent:
            distance = np.abs(part.frames - frames[part.lane])
            near = np.argsort(distance, kind="stable")[: part.batch_size]
            rest = np.delete(part.frames, near)
            part.frames = np.concatenate([part.frames[near], rest])

    def go_on(self) -> None:
        """Send the remaining batches, after the browser has painted."""
        self.stop()
        if self.unsent:
            self.timer.start(self.layout.document)

    def _send_batch(self) -> None:
        """Send the next batch."""
        assert self.screen is not None
        part = min(self.unsent, key=lambda part: (part.maps, -len(part.frames)))
        frames, part.frames = np.split(part.frames, [part.batch_size])
        begin = time.perf_counter()
        kept = np.sort(frames)
        buffers = self.screen.buffers(part.lane, part.maps, kept)
        _send(self.screen, buffers | {"frame": kept.astype(np.int32)})
        frames_a_second = len(frames) / (time.perf_counter() - begin)
        most = _MAX_MAPS if part.maps else len(part.frames)
        part.batch_size = max(1, min(int(_SECONDS * frames_a_second), most))
        self.unsent = [part for part in self.unsent if len(part.frames)]
        if not self.unsent:
            self.stop()


def _send(screen: Screen, data: dict[str, np.ndarray]) -> None:
    """Send a batch; its columns need not have equal lengths."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        screen.parcel.data = data
