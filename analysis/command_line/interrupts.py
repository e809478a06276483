"""Handling of SIGINT and SIGTERM in commands: a one-line message and exit code 130 or
143, without a traceback.

While modules are being imported the process ends at once: a KeyboardInterrupt raised
inside an import leaves half-initialised modules behind, and extension modules turn it
into other errors. This module uses only the standard library, because it is imported
before all other modules."""

import os
import signal
import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from types import FrameType
from typing import NoReturn

MESSAGE = (
    "interrupted; files that are complete are kept, and the same command computes the"
    " rest"
)
BEFORE_START = "interrupted before the command began, so nothing was computed or saved"


def exit_on_interrupt() -> None:
    """Let SIGINT and SIGTERM end the process at once while `python -m` looks for a
    command and imports its module.

    Has no effect on programs that import the package: sys.argv begins with "-m" only
    until the module has been found."""
    if getattr(sys, "argv", [])[:1] == ["-m"]:
        _handle(_exit_before_start)


@contextmanager
def interruptible() -> Iterator[None]:
    """While a command runs, let SIGINT raise KeyboardInterrupt and SIGTERM exit; during
    an import both exit at once.

    After a command of `python -m`, both are ignored until its process has ended, as Python
    resets other handlers while it shuts down; otherwise the earlier handlers return."""
    before = {
        number: signal.getsignal(number) for number in (signal.SIGINT, signal.SIGTERM)
    }
    _handle(_interrupt)
    try:
        yield
    finally:
        for number, handler in before.items():
            if handler is _exit_before_start:
                handler = signal.SIG_IGN
            signal.signal(number, signal.SIG_DFL if handler is None else handler)


def _handle(handler: Callable[[int, FrameType | None], object]) -> None:
    for number in (signal.SIGINT, signal.SIGTERM):
        if (
            signal.getsignal(number) is not signal.SIG_IGN
        ):  # ignored in background processes of a shell
            signal.signal(number, handler)


def _exit_before_start(signum: int, frame: FrameType | None) -> None:
    _exit(signum, BEFORE_START)


def _interrupt(signum: int, frame: FrameType | None) -> None:
    while frame is not None:
        if frame.f_code.co_filename.startswith("<frozen importlib"):
            _exit(signum)
        frame = frame.f_back
    if signum == signal.SIGINT:
        raise KeyboardInterrupt
    print(MESSAGE, file=sys.stderr)
    sys.exit(128 + signum)


def _exit(signum: int, message: str = MESSAGE) -> NoReturn:
    with suppress(Exception):
        sys.stdout.flush()
    with suppress(Exception):
        print(message, file=sys.stderr, flush=True)
    os._exit(128 + signum)
