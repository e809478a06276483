"""Animation of live pages: at most thirty frames a second, no more than the browser
paints, and none while hidden."""

import time
from collections.abc import Callable, Sequence
from functools import partial
from typing import Any

from bokeh.document import Document
from bokeh.events import DocumentReady
from bokeh.models import ColumnDataSource, CustomJS, Row, UIElement

from analysis.explorer.controls import is_page_pending
from analysis.explorer.theme import make_button

_INTERVAL = 33
"""Milliseconds between frames."""
TEXT_EVERY = 6
"""Frames between updates of text."""
_MAX_UNPAINTED = 4
"""Maximum number of frames that are sent but not yet painted. More would queue up in a
slow browser; with fewer, the browser would wait for the round trip."""
CHARTS_EVERY = 10
"""Frames between updates of curves, whose axes take longer to paint than all points."""

FRAME_SECONDS = 0.1
"""Seconds of computation per frame; the server serves other visitors as well."""


def advance_within_time(
    count: int, advance: Callable[[int], None], at_once: int = 1
) -> None:
    """Advance by a number of steps, or by fewer if they take too long."""
    end = time.perf_counter() + FRAME_SECONDS
    for first in range(0, count, at_once):
        advance(min(at_once, count - first))
        if time.perf_counter() > end:
            break


class _PaintMonitor:
    """Detects when the browser has painted the frames sent to it."""

    def __init__(self, painted: Callable[[], None]) -> None:
        self.sent = self.painted = 0
        self.after = painted
        self.out, self.back = (
            ColumnDataSource(tags=[0]),
            ColumnDataSource(tags=[0]),
        )  # has no view in the browser
        code = (
            "const k = this.tags[0], f = requestAnimationFrame; f(() => f(() => {"
            " back.tags = [k] }))"
        )
        self.out.js_on_change("tags", CustomJS(args={"back": self.back}, code=code))
        self.back.on_change("tags", self._painted)

    @property
    def waiting(self) -> bool:
        """Whether the largest number of unpainted frames has been sent."""
        return self.sent - self.painted >= _MAX_UNPAINTED

    def send(self) -> None:
        self.sent += 1
        self.out.tags = [self.sent]

    def _painted(self, attribute: str, old: Sequence[int], new: Sequence[int]) -> None:
        self.painted = max(self.painted, int(new[0]))
        self.after()


class LivePage:
    """A tab whose player runs while the tab is visible."""

    player: "Player"

    def show(self) -> None:
        self.player.show()

    def hide(self, briefly: bool = False) -> None:
        self.player.hide(briefly)


class Player:
    """Starts, pauses and paces the animation."""

    def __init__(
        self,
        document: Document,
        frame: Callable[[bool], None],
        step: Callable[[], None],
    ) -> None:
        """frame(moving): draws a frame, after advancing if `moving` is true. step:
        advances once."""
        self.document, self.frame = document, frame
        self.running = False
        self.stale = True
        self.late = False
        self.seen = False
        self.interrupted = False
        self.pulse = _PaintMonitor(self._caught_up)
        self.timer: Any = None
        self.start_button = make_button(
            "Start", self.toggle, "", ["key-Space"], width=84, button_type="primary"
        )
        self.step_button = make_button(
            "Step", partial(self._apart, step), "", ["key-ArrowRight"], width=64
        )

    def buttons(self, reset: Callable[[], None], *more: UIElement) -> UIElement:
        """Buttons to start or pause, to step, and to restart."""
        anew = make_button(
            "Reset", partial(self._apart, reset), "", ["key-Home"], width=70
        )
        carried = [self.pulse.out, self.pulse.back]
        return Row(
            self.start_button,
            self.step_button,
            anew,
            *more,
            margin=(0, 0, 8, 0),
            tags=carried,
        )

    def _apart(self, change: Callable[[], None]) -> None:
        """Change what is shown while the animation is paused."""
        self.pause()
        change()
        self.ask()

    def toggle(self) -> None:
        if self.running:
            self.pause()
        else:
            self.start()

    def start(self) -> None:
        self.running, self.start_button.label = True, "Pause"

    def pause(self) -> None:
        self.running, self.start_button.label = False, "Start"
        self.ask()

    def ask(self) -> None:
        """Request a frame, since something has changed."""
        self.stale = True

    def show(self) -> None:
        """The page becomes visible: draw at once, and again when something changes."""
        if self.interrupted:
            self.start()
        self.interrupted = False
        self.frame(False)
        self.seen = True
        if is_page_pending(self.document):
            self.document.on_event(DocumentReady, lambda event: self._wake())
        else:
            self._wake()

    def _wake(self) -> None:
        if self.seen and self.timer is None:
            self.pulse.painted = self.pulse.sent  # earlier frames may never be painted
            self.timer = self.document.add_periodic_callback(self._tick, _INTERVAL)
            self.ask()

    def hide(self, briefly: bool = False) -> None:
        """The page becomes hidden: pause. briefly: go on when it is shown, if the
        animation was running."""
        self.interrupted = briefly and self.running
        self.pause()
        self.seen = False
        if self.timer is not None:
            self.document.remove_periodic_callback(self.timer)
            self.timer = None

    def _tick(self) -> None:
        if not (self.running or self.stale):
            return
        if self.pulse.waiting:
            self.late = True
            return
        self.late = self.stale = False
        self.document.hold("combine")
        try:
            self.frame(self.running)
            self.pulse.send()
        finally:
            self.document.unhold()

    def _caught_up(self) -> None:
        if self.late and self.timer is not None:
            self._tick()
