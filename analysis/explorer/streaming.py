"""Sending of buffers to a browser after it has painted: first the frames near the one
that is shown, then all others from coarse to fine in time, maps last.

Batches are small, since the server does nothing else while it encodes one. Nothing can
be sent to a hidden page, as it has no document: call `stop`, and `go_on` when the page
is visible again."""

import time
import warnings
from collections.abc import Sequence
from typing import NamedTuple

import numpy as np
from bokeh.models.ui import UIElement

from analysis.explorer.codec import (
    changing_layers,
    coarse_to_fine_batches,
    encode_layer,
)
from analysis.explorer.controls import is_page_pending
from analysis.explorer.screen import Screen
from analysis.panels.scene import Map

_MAP_FRAMES = 24
"""Largest number of frames of maps in a batch."""
_SECONDS = 0.1
"""Approximate time to encode a batch, in seconds."""
_PAUSE = 20
"""Milliseconds between two batches, in which the server handles requests."""


class _FrameBatch(NamedTuple):
    """A batch of frames of a run: of its maps, or of all other layers."""

    lane: int
    maps: bool
    frames: np.ndarray  # indices into the frames that are kept


class BufferStream:
    """Sends the buffers of a screen to a visitor's browser."""

    def __init__(self, layout: UIElement) -> None:
        """layout: a model that is in the visitor's document while the page is
        visible."""
        self.layout = layout
        self.screen: Screen | None = None
        self.waiting: list[_FrameBatch] = []
        self.near: list[int] | None = None
        self._fresh = False
        self._turn = 0

    def begin(self, screen: Screen | None) -> None:
        """Send the buffers of a screen instead of any other; None stops sending."""
        self.screen, self._fresh, self.waiting = screen, screen is not None, []
        self.near = None if screen is None else screen.first_frames
        self.go_on()

    def stop(self) -> None:
        """Send nothing until `go_on`."""
        self._turn += 1

    def go_on(self) -> None:
        """Send the remaining batches, after the browser has painted."""
        self._turn += 1  # cancels callbacks under way
        document, turn = self.layout.document, self._turn
        if document is None or (not self._fresh and not self.waiting):
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
        if self._fresh:
            self._fresh, self.waiting = False, _frame_batches(screen)
            if not self.waiting:
                _send(screen, {"nothing": np.zeros((1, 1), np.uint8)})
        if self.near is not None:
            self.waiting, self.near = _nearest_first(self.waiting, self.near), None
        if self.waiting:
            _send(screen, _encode_batch(screen, self.waiting.pop(0)))
        if self.waiting:
            document.add_timeout_callback(lambda: self._next(turn), _PAUSE)


def _frame_batches(screen: Screen) -> list[_FrameBatch]:
    """All batches of a screen: maps last, coarse ones of both runs first."""
    result: list[_FrameBatch] = []
    for lane, (scene, frames) in enumerate(
        zip(screen.scenes, screen.frames, strict=True)
    ):
        kinds = {
            isinstance(layer, Map)
            for layer in changing_layers(scene, screen.panels).values()
        }
        for maps in kinds:
            begun = time.perf_counter()
            _encode_batch(
                screen, _FrameBatch(lane, maps, np.arange(min(2, len(frames))))
            )
            most = int(2 * _SECONDS / (time.perf_counter() - begun))
            at_once = min(max(most, 1), _MAP_FRAMES if maps else len(frames))
            result += [
                _FrameBatch(lane, maps, some)
                for some in coarse_to_fine_batches(len(frames), at_once)
            ]
    return sorted(result, key=_urgency)


def _nearest_first(
    batches: Sequence[_FrameBatch], near: Sequence[int]
) -> list[_FrameBatch]:
    """Batches of the same frames, of which the first contain those nearest to a frame
    of each run."""
    first, rest = [], []
    for maps in (False, True):
        for lane, frame in enumerate(near):
            own = [
                batch for batch in batches if (batch.lane, batch.maps) == (lane, maps)
            ]
            if own:
                every = np.sort(np.concatenate([batch.frames for batch in own]))
                most = max(len(batch.frames) for batch in own)
                some = np.sort(
                    every[np.argsort(np.abs(every - frame), kind="stable")[:most]]
                )
                first.append(_FrameBatch(lane, maps, some))
    for batch in batches:
        sent = [
            item.frames
            for item in first
            if (item.lane, item.maps) == (batch.lane, batch.maps)
        ]
        frames = np.setdiff1d(batch.frames, sent[0], assume_unique=True)
        if len(frames):
            rest.append(batch._replace(frames=frames))
    return first + rest


def _urgency(batch: _FrameBatch) -> tuple[bool, int]:
    """Key by which batches are sent: those without maps first, then those whose frames
    are farthest apart."""
    frames = batch.frames
    spacing = int(frames[1] - frames[0]) if len(frames) > 1 else 1
    return batch.maps, -spacing


def _encode_batch(screen: Screen, piece: _FrameBatch) -> dict[str, np.ndarray]:
    """The buffers of a batch by lane/array, and the indices of its frames."""
    scene, frames = screen.scenes[piece.lane], screen.frames[piece.lane]
    layers = changing_layers(scene, screen.panels).items()
    some = {
        name: layer for name, layer in layers if isinstance(layer, Map) == piece.maps
    }
    arrays = scene.compute_arrays(frames[piece.frames], list(some))
    result = {
        f"{piece.lane}/{name}": encode_layer(layer, arrays[name])
        for name, layer in some.items()
    }
    return (
        result
        if len(piece.frames) == len(frames)
        else {**result, "frame": piece.frames.astype(np.int32)}
    )


def _send(screen: Screen, data: dict[str, np.ndarray]) -> None:
    """Send a batch; its columns need not have equal lengths."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        screen.parcel.data = data
