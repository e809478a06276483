"""Signals during a simulation: SIGINT and SIGTERM take effect between two steps, so
that no state is lost."""

import signal
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager

SIGNAL_SECONDS = 0.5
"""Longest time between a signal and its effect, unless a single step takes longer."""


@contextmanager
def deferred_signals() -> Iterator[list[int]]:
    """Collect the first SIGINT or SIGTERM in a list instead of raising; a second one
    has its usual effect.

    Outside the main thread, where Python delivers no signals, the list stays empty.
    """
    received: list[int] = []
    if threading.current_thread() is not threading.main_thread():
        yield received
        return

    def handle(signum: int, frame: object) -> None:
        received.append(signum)
        restore_handlers()

    def restore_handlers() -> None:
        for number, handler in before.items():
            signal.signal(number, signal.SIG_DFL if handler is None else handler)

    before = {
        number: signal.signal(number, handle)
        for number in (signal.SIGINT, signal.SIGTERM)
    }
    try:
        yield received
    finally:
        restore_handlers()


class StepPacer:
    """Chooses how many steps to take at once, so that they take at most about
    `SIGNAL_SECONDS`."""

    def __init__(self) -> None:
        self.seconds_per_step = SIGNAL_SECONDS

    @contextmanager
    def measure(self, remaining: int) -> Iterator[int]:
        """Yield a number of steps, at most `remaining`, and measure the time of the `with`
        block that takes them."""
        number = max(1, min(remaining, int(SIGNAL_SECONDS / self.seconds_per_step)))
        begin = time.perf_counter()
        yield number
        self.seconds_per_step = max(1e-9, (time.perf_counter() - begin) / number)
