"""A server for one page, which accepts clients on this machine only and opens no
connections.

It listens on 127.0.0.1 only. Requests that name another host are refused (protection
against DNS rebinding). Bokeh refuses websockets opened by a page of another origin, and
sessions that it has not signed. The
server serves only the page, its websocket and Bokeh's own files. A
Content-Security-Policy forbids the page to load anything from elsewhere, and only
scripts with the nonce of the response run, so that text from a file cannot run as a
script. Bokeh needs eval for its callbacks, and inline styles."""

import logging
import re
import secrets
from collections.abc import Callable
from typing import Any

from bokeh.application import Application
from bokeh.application.handlers import FunctionHandler
from bokeh.core.validation import silence
from bokeh.core.validation.warnings import EMPTY_LAYOUT
from bokeh.document import Document
from bokeh.resources import Resources
from bokeh.server.server import BaseServer
from bokeh.server.tornado import BokehTornado
from bokeh.server.util import bind_sockets
from tornado.httpserver import HTTPServer
from tornado.httputil import HTTPHeaders, HTTPServerRequest
from tornado.ioloop import IOLoop
from tornado.routing import Matcher, Rule
from tornado.web import OutputTransform, RequestHandler

from dynamics.settings import SettingsError

ADDRESS = "127.0.0.1"
HOSTS = (ADDRESS, "localhost")
UNUSED_SECONDS = 5
"""Time in seconds for which the session of a closed page is kept, in case the page is
opened again."""

NONCE_PLACEHOLDER = secrets.token_hex(18)
"""Placeholder in the template for the nonce of each response; known only in this
process."""

PATH = re.compile(
    r"/|/ws|/favicon\.ico|/static(?!.*\.\.)(?:/(?:[\w@^.-]|%5E|%40)+)+\.(?:js|css|map|ico|png|svg|woff2?)"
)
"""Paths of the page, its websocket and the packages' files."""
_MAX_ADDRESS = 8000
"""Maximum length of a request's path and query, in characters."""

POLICY = (
    "default-src 'none'; script-src 'nonce-{nonce}' 'strict-dynamic' 'unsafe-eval';"
    " style-src 'self' 'unsafe-inline'; img-src 'self' data: blob:; font-src 'self'"
    " data:; connect-src 'self' ws://{host}; worker-src 'self' blob:; base-uri 'none';"
    " form-action 'none'; frame-ancestors 'none'"
)
HEADERS = {
    "X-Content-Type-Options": "nosniff",
    "X-Frame-Options": "DENY",
    "Referrer-Policy": "no-referrer",
    "Cross-Origin-Opener-Policy": "same-origin",
    "Cross-Origin-Resource-Policy": "same-origin",
}


class SecurityHeaders(OutputTransform):
    """Adds security headers to every response, and a new nonce for scripts to every
    page and its policy."""

    def __init__(self, request: HTTPServerRequest) -> None:
        self.host = request.host

    def transform_first_chunk(
        self, status_code: int, headers: HTTPHeaders, chunk: bytes, finishing: bool
    ) -> tuple[int, HTTPHeaders, bytes]:
        headers.update(HEADERS)
        nonce = secrets.token_urlsafe(18)
        headers["Content-Security-Policy"] = POLICY.format(nonce=nonce, host=self.host)
        if headers.get("Content-Type", "").startswith("text/html"):
            headers["Cache-Control"] = "no-store"
            chunk = chunk.replace(NONCE_PLACEHOLDER.encode(), nonce.encode())
            if "Content-Length" in headers:
                headers["Content-Length"] = str(len(chunk))
        return status_code, headers, chunk


class _RefusalHandler(RequestHandler):
    """Responds to a refused request with one sentence of text."""

    def initialize(self, status: int, sentence: str) -> None:
        self.status = status
        self.sentence = sentence

    def prepare(self) -> None:
        self.set_status(self.status)
        self.set_header("Content-Type", "text/plain; charset=utf-8")
        self.finish(self.sentence + "\n")


class _RefusalMatcher(Matcher):
    """Matches the requests to be refused, with the status and the sentence of the
    response."""

    def __init__(self, port: int) -> None:
        self.hosts = [f"{host}:{port}" for host in HOSTS]

    def match(self, request: HTTPServerRequest) -> dict[str, Any] | None:
        websocket = request.path == "/ws"
        words = request.headers.get("Sec-WebSocket-Protocol", "").split(",")
        reasons = [
            (
                request.host not in self.hosts,
                403,
                f"This page is served only at {' and '.join(self.hosts)}.",
            ),
            (
                len(request.uri or "") > _MAX_ADDRESS,
                414,
                f"An address has at most {_MAX_ADDRESS} characters.",
            ),
            (
                not PATH.fullmatch(request.path),
                404,
                "Not found. The page is at /; its files are given on the command line.",
            ),
            (
                websocket and (len(words) != 2 or words[0].strip() != "bokeh"),
                400,
                "Only the page may open this websocket.",
            ),
        ]
        for unwanted, status, sentence in reasons:
            if unwanted:
                return {"target_kwargs": {"status": status, "sentence": sentence}}
        return None


def _is_error(record: logging.LogRecord) -> bool:
    """Whether a log message is about an error, not about a page closed while its
    websocket was being opened."""
    return not record.getMessage().startswith("Uncaught exception GET /ws")


class _Application(BokehTornado):
    """Bokeh's application, whose page loads no scripts for tables, WebGL and formulas:
    it contains none."""

    def resources(self, absolute_url: str | bool | None = None) -> Resources:
        return (
            super().resources(absolute_url).clone(components=["bokeh", "bokeh-widgets"])
        )


def make_server(make: Callable[[Document], None], port: int) -> tuple[BaseServer, str]:
    """A server that gives every visitor a new document, and its address. Raises
    SettingsError.

    make: fills the document. port: 0 means any free port.
    """
    try:
        sockets, port = bind_sockets(ADDRESS, port)
    except (OSError, OverflowError) as error:
        why = getattr(error, "strerror", None) or error
        raise SettingsError(
            "port", f"{port} ({why})", "a free port, or 0 for any free port"
        ) from None
    # refusals are answered, not logged; nor is a page that is closed during a frame
    for name in ("tornado.access", "bokeh.server.views.ws"):
        logging.getLogger(name).setLevel(logging.CRITICAL)
    logging.getLogger("tornado.application").addFilter(_is_error)
    silence(EMPTY_LAYOUT, True)  # empty placeholders are intended
    application = _Application(
        {"/": Application(FunctionHandler(make))},
        extra_websocket_origins=[f"{host}:{port}" for host in HOSTS],
        sign_sessions=True,  # session ids come from the server only
        secret_key=secrets.token_bytes(32),
        check_unused_sessions_milliseconds=1000,
        unused_session_lifetime_milliseconds=1000 * UNUSED_SECONDS,
    )
    application.add_transform(SecurityHeaders)
    application.add_handlers(r".*", [Rule(_RefusalMatcher(port), _RefusalHandler)])
    http = HTTPServer(
        application, max_header_size=1 << 20
    )  # longer requests get no response
    http.add_sockets(sockets)
    return BaseServer(IOLoop.current(), application, http), f"http://{ADDRESS}:{port}/"
