"""Periodic calls while a page is visible."""

from collections.abc import Callable
from typing import Any

from bokeh.document import Document
from bokeh.events import DocumentReady


def is_page_pending(document: Document) -> bool:
    """Whether a page is still being built and has not been sent."""
    context = document.session_context
    return context is not None and context.session is None


class PageTimer:
    """Calls a function at intervals, from the first painting of the page on."""

    def __init__(self, call: Callable[[], None], interval: int) -> None:
        """interval: in milliseconds, from the end of a call to the next one."""
        self.call = call
        self.interval = interval
        self._handle: Any = None
        self._document: Document | None = None

    @property
    def is_running(self) -> bool:
        return self._handle is not None

    def start(self, document: Document | None) -> None:
        """Start, unless it is running; a hidden page has no document."""
        self._document = document
        if document is not None and is_page_pending(document):
            document.on_event(DocumentReady, lambda event: self._begin())
        else:
            self._begin()

    def _begin(self) -> None:
        if self._document is not None and not self.is_running:
            handle = self._document.add_periodic_callback(self.call, self.interval)
            self._handle = handle

    def stop(self) -> None:
        if self._document is not None and self.is_running:
            self._document.remove_periodic_callback(self._handle)
        self._document = self._handle = None
