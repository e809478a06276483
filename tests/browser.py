"""A browser for the tests of the explorer's page, which sees that nothing leaves the machine, and its server.

Skipped where there is no Chromium: `make browser` installs Debian's.
"""

import os
import re
import shutil
import signal
import subprocess
import sys
from pathlib import Path
from urllib.parse import urlsplit

import pytest

ROOT = Path(__file__).parent.parent
FLAGS = ["--no-sandbox", "--disable-gpu", "--disable-quic", "--no-first-run", "--disable-background-networking",
         "--disable-component-update", "--disable-sync"]  # fmt: skip
HERE = ("127.0.0.1", "localhost")
NOT_FETCHED = ("blob", "data", "about", "file")
"""Schemes of addresses of which nothing is fetched from another machine."""
SECONDS = 20
"""Until what is waited for must have come, on a machine that has much else to do."""


@pytest.fixture(scope="session")
def chromium():
    """A headless Chromium, one for all tests."""
    program = shutil.which("chromium") or shutil.which("chromium-browser")
    if program is None:
        pytest.skip("no Chromium: `make browser` installs it")
    playwright = pytest.importorskip("playwright.sync_api", reason="no playwright: it comes with the extra `test`")
    with playwright.sync_playwright() as running:
        browser = running.chromium.launch(executable_path=program, args=FLAGS)
        yield browser
        browser.close()


@pytest.fixture
def chromium_page(chromium):
    """An empty page. Whatever it asks of another machine, and every error in it, fails the test at its end.

    page.asked: addresses that were asked for.
    """
    context = chromium.new_context(viewport={"width": 1400, "height": 900})
    page = context.new_page()
    page.set_default_timeout(1000 * SECONDS)
    page.asked, errors = [], []
    context.on("request", lambda request: page.asked.append(request.url))
    page.on("websocket", lambda socket: page.asked.append(socket.url))
    page.on("pageerror", lambda error: errors.append(str(error)))
    page.on("console", lambda line: errors.append(line.text) if line.type == "error" else None)
    page.errors = errors
    yield page
    context.close()
    assert not elsewhere_asked(page.asked)
    assert not errors


def elsewhere_asked(addresses):
    """Those of the addresses that are of another machine."""
    parts = [(address, urlsplit(address)) for address in addresses]
    return [address for address, part in parts if part.scheme not in NOT_FETCHED and part.hostname not in HERE]


class Served:
    """A running `python -m analysis.explore`."""

    def __init__(self, process, address):
        self.process, self.address = process, address
        self.port = urlsplit(address).port

    def interrupt(self):
        """Press Ctrl-C; its exit code and what it said since."""
        self.process.send_signal(signal.SIGINT)
        out, err = self.process.communicate(timeout=SECONDS)
        return self.process.returncode, out, err


@pytest.fixture(scope="module")
def served():
    """A function that serves the page of a command line and gives its `Served`; all end with the test module."""
    running = []
    environment = {**os.environ, "PYTHONPATH": str(ROOT), "OMP_NUM_THREADS": "1", "PYTHONUNBUFFERED": "1"}

    def serve(*words):
        command = [sys.executable, "-m", "analysis.explore", *map(str, words), "--port", "0", "--no-browser"]
        process = subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, env=environment)
        running.append(process)
        line = process.stdout.readline()
        found = re.search(r"http://\S+", line)
        if found is None:
            process.kill()
            raise AssertionError(f"no address: {line}{process.communicate()[1]}")
        return Served(process, found.group())

    yield serve
    for process in running:
        process.kill()
        process.communicate()


def drawn(page):
    """Wait until Bokeh has drawn its document."""
    page.wait_for_function("() => window.Bokeh && Bokeh.documents.length && Bokeh.documents[0].is_idle")
