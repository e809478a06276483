"""A server of one page for one person on this machine: nobody else reaches it, and it reaches nobody.

It listens on 127.0.0.1 alone. Requests for another host are refused, as a page elsewhere whose name has been pointed
at this machine would send (DNS rebinding), and so are websockets that a page of another origin opens. It gives out
the page, its websocket and Bokeh's own scripts, and no file of anybody's. The page may load nothing from elsewhere
(Content-Security-Policy), and only scripts run that carry a word drawn for the answer: those that the page's template
says are its own, so that a text out of a file cannot, whatever it says. Bokeh needs eval for its callbacks and styles
in place.
"""

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
SESSION = "bokeh-session-id"
UNUSED_SECONDS = 5
"""How long a session waits for a page that has gone to come back."""

NONCE_PLACEHOLDER = secrets.token_hex(18)
"""Stands in a page where the word drawn for the answer is to stand; nobody outside this process knows it."""

PATH = re.compile(
    r"/|/ws|/favicon\.ico|/static(?!.*\.\.)(?:/(?:[\w@^.-]|%5E|%40)+)+\.(?:js|css|map|ico|png|svg|woff2?)"
)
"""Those of the page, its websocket and the files that come with the packages."""
_MAX_ADDRESS = 8000
"""Letters of an address that is read."""

POLICY = (
    "default-src 'none'; script-src 'nonce-{nonce}' 'strict-dynamic' 'unsafe-eval'; style-src 'self' 'unsafe-inline'; "
    "img-src 'self' data: blob:; font-src 'self' data:; connect-src 'self' ws://{host}; worker-src 'self' blob:; "
    "base-uri 'none'; form-action 'none'; frame-ancestors 'none'"
)
HEADERS = {
    "X-Content-Type-Options": "nosniff",
    "X-Frame-Options": "DENY",
    "Referrer-Policy": "no-referrer",
    "Cross-Origin-Opener-Policy": "same-origin",
    "Cross-Origin-Resource-Policy": "same-origin",
}


class SecurityHeaders(OutputTransform):
    """Headers on every answer, and on a page its policy, with a word drawn anew for its scripts."""

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
    """What is not to be had, said in a sentence."""

    def initialize(self, status: int, sentence: str) -> None:
        self.status, self.sentence = status, sentence

    def prepare(self) -> None:
        self.set_status(self.status)
        self.set_header("Content-Type", "text/plain; charset=utf-8")
        self.finish(self.sentence + "\n")


class _RequestMatcher(Matcher):
    """Requests that are refused, each for the same reason."""

    def __init__(self, unwanted: Callable[[HTTPServerRequest], bool]) -> None:
        self.unwanted = unwanted

    def match(self, request: HTTPServerRequest) -> dict[str, Any] | None:
        return {} if self.unwanted(request) else None


def _refusal_rules(port: int) -> list[Rule]:
    """What is refused, and why, before anything is given."""
    hosts = [f"{host}:{port}" for host in HOSTS]
    origins = [f"http://{host}" for host in hosts]

    def foreign(request: HTTPServerRequest) -> bool:
        return request.path == "/ws" and request.headers.get("Origin", origins[0]) not in origins

    def wordless(request: HTTPServerRequest) -> bool:
        words = request.headers.get("Sec-WebSocket-Protocol", "").split(",")
        return request.path == "/ws" and (len(words) != 2 or words[0].strip() != "bokeh")

    reasons: list[tuple[Callable[[HTTPServerRequest], bool], int, str]] = [
        (lambda request: request.host not in hosts, 403, f"This page is for {' and '.join(hosts)} alone."),
        (lambda request: len(request.uri or "") > _MAX_ADDRESS, 414, f"An address has at most {_MAX_ADDRESS} letters."),
        (lambda request: PATH.fullmatch(request.path) is None, 404,
         "There is nothing here. The page is at / and takes files from its command line."),
        (lambda request: SESSION in request.query_arguments, 403, "A session is not chosen by who visits."),
        (foreign, 403, "Pages from elsewhere are not served."),
        (wordless, 400, "This is for the page alone."),
    ]  # fmt: skip
    return [
        Rule(_RequestMatcher(unwanted), _RefusalHandler, {"status": status, "sentence": sentence})
        for unwanted, status, sentence in reasons
    ]


class _ClosedPageFilter(logging.Filter):
    """Leaves out that a page was closed while its websocket was being opened, which Bokeh takes for a fault."""

    def filter(self, record: logging.LogRecord) -> bool:
        return not record.getMessage().startswith("Uncaught exception GET /ws")


def make_server(make: Callable[[Document], None], port: int) -> tuple[BaseServer, str]:
    """A server that gives every visitor a document of their own, and its address. Raises SettingsError.

    make: fills the document. port: 0 is any free one.
    """
    try:
        sockets, port = bind_sockets(ADDRESS, port)
    except (OSError, OverflowError) as error:
        why = getattr(error, "strerror", None) or error
        raise SettingsError("port", f"{port} ({why})", "a free port, or 0, which takes any that is free") from None
    logging.getLogger("tornado.access").setLevel(logging.CRITICAL)  # what is refused is told to who asked
    logging.getLogger("bokeh.server.views.ws").setLevel(logging.CRITICAL)  # a page that is closed amid a frame
    logging.getLogger("tornado.application").addFilter(_ClosedPageFilter())
    silence(EMPTY_LAYOUT, True)  # places where something will stand
    application = BokehTornado(
        {"/": Application(FunctionHandler(make))},
        extra_websocket_origins=[f"{host}:{port}" for host in HOSTS],
        sign_sessions=True,  # nobody else names a session
        secret_key=secrets.token_bytes(32),
        check_unused_sessions_milliseconds=1000,
        unused_session_lifetime_milliseconds=1000 * UNUSED_SECONDS,
    )
    application.add_transform(SecurityHeaders)
    application.add_handlers(r".*", _refusal_rules(port))
    http = HTTPServer(application, max_header_size=1 << 20)  # what is longer gets no answer
    http.add_sockets(sockets)
    return BaseServer(IOLoop.current(), application, http), f"http://{ADDRESS}:{port}/"
