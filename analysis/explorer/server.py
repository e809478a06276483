"""A server of one page for one person on this machine: nobody else reaches it, and it reaches nobody.

It listens on 127.0.0.1 alone. Requests for another host are refused, as a page elsewhere whose name has been pointed
at this machine would send (DNS rebinding), and so are websockets that a page of another origin opens. It gives out
the page, its websocket and Bokeh's own scripts, and no file of anybody's. The page may load nothing from elsewhere
(Content-Security-Policy), and only scripts that carry the word drawn for the answer run, so that a text out of a
file cannot. Bokeh needs eval for its callbacks and styles in place.
"""

import logging
import re
import secrets
from collections.abc import Callable

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
from tornado.web import OutputTransform, RequestHandler

from dynamics.settings import SettingsError

ADDRESS = "127.0.0.1"
HOSTS = (ADDRESS, "localhost")
UNUSED_SECONDS = 5
"""How long a session waits for a page that has gone to come back."""

FOREIGN_HOST = rf"(?!(?:{'|'.join(map(re.escape, HOSTS))})$).*"
OTHER_PATH = r"(?!(?:/|/ws|/favicon\.ico|/static/(?!.*\.\.)(?:[\w@^./-]|%5E|%40)+)$).*"
"""All paths but those of the page, its websocket and the scripts that come with the packages."""

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


class Guarded(OutputTransform):
    """Headers on every answer, and on a page its policy, with a word drawn anew on its scripts."""

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
            chunk = chunk.replace(b"<script", f'<script nonce="{nonce}"'.encode())
            if "Content-Length" in headers:
                headers["Content-Length"] = str(len(chunk))
        return status_code, headers, chunk


class Refused(RequestHandler):
    """What is not to be had, said in a sentence."""

    def initialize(self, status: int, sentence: str) -> None:
        self.status, self.sentence = status, sentence

    def prepare(self) -> None:
        self.set_status(self.status)
        self.set_header("Content-Type", "text/plain; charset=utf-8")
        self.finish(self.sentence + "\n")


def listening(make: Callable[[Document], None], port: int) -> tuple[BaseServer, str]:
    """A server that gives every visitor a document of their own, and its address. Raises SettingsError.

    make: fills the document. port: 0 is any free one.
    """
    try:
        sockets, port = bind_sockets(ADDRESS, port)
    except (OSError, OverflowError) as error:
        why = getattr(error, "strerror", None) or error
        raise SettingsError("port", f"{port} ({why})", "a free port, or 0, which takes any that is free") from None
    logging.getLogger("tornado.access").setLevel(logging.ERROR)  # what is refused is told to who asked
    logging.getLogger("bokeh.server.views.ws").setLevel(logging.ERROR)  # a page that is closed in the middle of a frame
    silence(EMPTY_LAYOUT, True)  # places where something will stand
    application = BokehTornado(
        {"/": Application(FunctionHandler(make))},
        extra_websocket_origins=[f"{host}:{port}" for host in HOSTS],
        sign_sessions=True,  # nobody else names a session
        secret_key=secrets.token_bytes(32),
        check_unused_sessions_milliseconds=1000,
        unused_session_lifetime_milliseconds=1000 * UNUSED_SECONDS,
    )
    guard(application)
    http = HTTPServer(application)
    http.add_sockets(sockets)
    return BaseServer(IOLoop.current(), application, http), f"http://{ADDRESS}:{port}/"


def guard(application: BokehTornado) -> None:
    """Put what is refused before what is given."""
    host = {"status": 403, "sentence": f"This page is for {' and '.join(HOSTS)} alone."}
    path = {"status": 404, "sentence": "There is nothing here. The page is at / and takes files from its command line."}
    application.add_transform(Guarded)
    application.add_handlers(FOREIGN_HOST, [(r".*", Refused, host)])
    application.add_handlers(r".*", [(OTHER_PATH, Refused, path)])
