"""Animation of live pages: at most thirty frames a second, no more than the browser
paints, and none while hidden."""

import time
from collections.abc import Callable, Sequence
from functools import partial

from bokeh.document import Document
from bokeh.models import ColumnDataSource, CustomJS, Row

from analysis.explorer.page_timer import PageTimer
from analysis.explorer.theme import make_button

_FRAME_INTERVAL = 1 / 30
"""Seconds between frames."""
_CHECK_INTERVAL = 8
"""Milliseconds between checks whether a frame is due. A timer of the frames' interval
would add its delays to it."""
_MAX_UNPAINTED = 4
"""Maximum number of frames that are sent but not yet painted. More would queue up in a
slow browser; with fewer, the browser would wait for the round trip."""

FRAME_SECONDS = 0.1
"""Seconds of computation per frame; the server serves other visitors as well."""


def advance_within_time(
    count: int, advance: Callable[[int], None], together: int = 1
) -> None:
    """Advance by a number of steps, or by fewer if they take too long. together: steps
    of one call of `advance`."""
    end = time.perf_counter() + FRAME_SECONDS
    for first in range(0, count, together):
        advance(min(together, count - first))
        if time.perf_counter() > end:
            break


class Player:
    """Starts, pauses and paces the animation."""

    def __init__(
        self,
        document: Document,
        frame: Callable[[bool], None],
        step: Callable[[], None],
        reset: Callable[[], None],
    ) -> None:
        """frame(moving): draws a frame, after advancing if `moving` is true. step:
        advances once. reset: restarts the run."""
        self.document = document
        self.frame = frame
        self.running = False
        self.stale = False
        """Whether something has changed that no frame shows."""
        self.late = False
        """Whether the browser has not painted the last frames."""
        self.interrupted = False
        """Whether the animation goes on when the page is shown again."""
        self.timer = PageTimer(self._tick, _CHECK_INTERVAL)
        self.due = 0.0
        """Time from which on the next frame is drawn, of `time.perf_counter`."""
        self.sent = self.painted = 0
        # without views
        self.out = ColumnDataSource()
        self.back = ColumnDataSource()
        code = """
            const [frame] = this.tags, next = requestAnimationFrame
            next(() => next(() => { back.tags = [frame] }))
        """
        self.out.js_on_change("tags", CustomJS(args={"back": self.back}, code=code))
        self.back.on_change("tags", self._confirm)
        self.start_button = make_button(
            "Start", self.toggle, "", ["key-Space"], width=84, button_type="primary"
        )
        pause_and_step = partial(self._pause_and_change, step)
        pause_and_reset = partial(self._pause_and_change, reset)
        self.layout = Row(
            self.start_button,
            make_button("Step", pause_and_step, "", ["key-ArrowRight"], width=64),
            make_button("Reset", pause_and_reset, "", ["key-Home"], width=70),
            tags=[self.out, self.back],
        )

    def _pause_and_change(self, change: Callable[[], None]) -> None:
        """Change what is shown while the animation is paused."""
        self.pause()
        change()
        self.request_frame()

    def toggle(self) -> None:
        (self.pause if self.running else self.start)()

    def start(self) -> None:
        self.running = True
        self.start_button.label = "Pause"

    def pause(self) -> None:
        self.running = False
        self.start_button.label = "Start"
        self.request_frame()

    def request_frame(self) -> None:
        """Request a frame, since something has changed."""
        self.stale = True

    def show(self) -> None:
        """The page becomes visible: draw at once, and again when something changes."""
        if self.interrupted:
            self.start()
        self.interrupted = False
        self.frame(False)
        self.painted = self.sent  # earlier frames may never be painted
        self.timer.start(self.document)
        self.request_frame()

    def hide(self, briefly: bool = False) -> None:
        """The page becomes hidden: pause. briefly: go on when it is shown, if the
        animation was running."""
        self.interrupted = briefly and self.running
        self.pause()
        self.timer.stop()

    def _tick(self) -> None:
        """Draw a frame if it is due, something moves or has changed, and the browser
        has painted earlier ones."""
        now = time.perf_counter()
        if now < self.due:
            return
        self.late = self.sent - self.painted >= _MAX_UNPAINTED
        if self.late or not (self.running or self.stale):
            return
        self.due = max(self.due + _FRAME_INTERVAL, now)
        self.stale = False
        self.document.hold("combine")
        try:
            self.frame(self.running)
            self.sent += 1
            self.out.tags = [self.sent]
        finally:
            self.document.unhold()

    def _confirm(self, attribute: str, old: Sequence[int], new: Sequence[int]) -> None:
        """The browser has painted a frame."""
        self.painted = max(self.painted, int(new[0]))
        if self.late and self.timer.is_running:
            self._tick()
