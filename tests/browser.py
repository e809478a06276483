"""A browser for the tests of the explorer's page, which sees that nothing leaves the
machine, and its server.

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
FLAGS = [
    "--no-sandbox",
    "--disable-gpu",
    "--disable-quic",
    "--no-first-run",
    "--disable-background-networking",
    "--disable-component-update",
    "--disable-sync",
]
HERE = ("127.0.0.1", "localhost")
NOT_FETCHED = ("blob", "data", "about", "file")
"""Schemes of addresses of which nothing is fetched from another machine."""
DRAWN = "() => window.Bokeh && Bokeh.documents.length && Bokeh.documents[0].is_idle"
AXE = ROOT / ".browser/node_modules/axe-core/axe.min.js"
LEVELS = ["wcag2a", "wcag2aa", "wcag21a", "wcag21aa", "wcag22aa", "best-practice"]
"""Levels A and AA of WCAG 2.2, and good practice, in the words of axe-core."""
VIOLATIONS = """async (levels) => {
  const {violations} = await axe.run(document, {runOnly: {type: "tag", values: levels}})
  return violations.map(({id, nodes}) => `${id}: ${nodes.map((node) => node.html.slice(0, 200)).join(" | ")}`)
}"""
VIEWPORT = {"width": 1400, "height": 900}
SECONDS = 20
"""Until what is waited for must have come, on a machine that has much else to do."""


@pytest.fixture(scope="session")
def chromium():
    """A headless Chromium, one for all tests."""
    program = shutil.which("chromium") or shutil.which("chromium-browser")
    if program is None:
        pytest.skip("no Chromium: `make browser` installs it")
    playwright = pytest.importorskip(
        "playwright.sync_api", reason="no playwright: it comes with the extra `test`"
    )
    with playwright.sync_playwright() as running:
        browser = running.chromium.launch(executable_path=program, args=FLAGS)
        yield browser
        browser.close()


@pytest.fixture(scope="session")
def chromium_tab(chromium):
    """A page that all tests use one after another: a new one would compile the scripts
    anew."""
    context = chromium.new_context(viewport=VIEWPORT)
    yield context.new_page()
    context.close()


@pytest.fixture
def chromium_page(chromium_tab):
    """An empty page. Whatever it, or another that the test opens, asks of another
    machine, and every error in it, fails the test at its end.

    page.asked: addresses that were asked for. page.errors: what went wrong.
    """
    page, context, asked, errors = chromium_tab, chromium_tab.context, [], []
    listeners = {
        "request": lambda request: asked.append(request.url),
        "websocket": lambda socket: asked.append(socket.url),
        "pageerror": lambda error: errors.append(str(error)),
        "console": lambda line: (
            errors.append(line.text) if line.type == "error" else None
        ),
    }

    def listen(page):
        page.set_default_timeout(1000 * SECONDS)
        for event, listener in listeners.items():
            page.on(event, listener)

    page.set_viewport_size(VIEWPORT)
    context.clear_cookies()  # the page's style of an earlier test
    page.emulate_media(color_scheme="light")
    page.mouse.move(0, 0)
    listen(page)
    context.on("page", listen)
    page.asked, page.errors = asked, errors
    yield page
    for item in context.pages[1:]:
        item.close()
    page.goto("about:blank")
    context.remove_listener("page", listen)
    for event, listener in listeners.items():
        page.remove_listener(event, listener)
    assert not elsewhere_asked(asked)
    assert not errors


def elsewhere_asked(addresses):
    """Those of the addresses that are of another machine."""
    parts = [(address, urlsplit(address)) for address in addresses]
    return [
        address
        for address, part in parts
        if part.scheme not in NOT_FETCHED and part.hostname not in HERE
    ]


class Served:
    """A running `python -m analysis.explore`."""

    def __init__(self, process, address):
        self.process, self.address = process, address
        self.port = urlsplit(address).port

    def end(self):
        self.process.kill()
        self.process.communicate()

    def interrupt(self):
        """Press Ctrl-C; its exit code and what it said since."""
        self.process.send_signal(signal.SIGINT)
        out, err = self.process.communicate(timeout=SECONDS)
        return self.process.returncode, out, err


def serve(*words):
    """Serve the page of a command line."""
    environment = {
        **os.environ,
        "PYTHONPATH": str(ROOT),
        "OMP_NUM_THREADS": "1",
        "PYTHONUNBUFFERED": "1",
    }
    command = [
        sys.executable,
        "-m",
        "analysis.explore",
        *map(str, words),
        "--port",
        "0",
        "--no-browser",
    ]
    process = subprocess.Popen(
        command,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        env=environment,
    )
    line = process.stdout.readline()
    result = re.search(r"http://\S+", line)
    if result is None:
        process.kill()
        raise AssertionError(f"no address: {line}{process.communicate()[1]}")
    return Served(process, result.group())


@pytest.fixture(scope="module")
def served():
    """A function that serves the page of a command line and gives its `Served`; all end
    with the test module."""
    running = []

    def kept(*words):
        running.append(serve(*words))
        return running[-1]

    yield kept
    for item in running:
        item.end()


@pytest.fixture(scope="session")
def runs_folder(tmp_path_factory):
    """Small runs: particles, a network of VC, one of which only metrics were recorded,
    and what is no trajectory."""
    from dynamics.settings import ParticleSettings, SparseSettings
    from dynamics.simulation import simulate

    folder = tmp_path_factory.mktemp("runs")
    simulate(
        ParticleSettings(n=7, fa=2.0), runs=6, steps=60, out=folder / "particles.nc"
    )
    settings = SparseSettings(length=6, sparsity=2, data=64, batch=16, hidden=8)
    simulate(settings, runs=3, steps=120, every=4, out=folder / "sparse.nc")
    simulate(
        settings, runs=2, steps=40, every=4, out=folder / "metrics.nc", record="metrics"
    )
    (folder / "other.nc").write_text("no trajectory")
    return folder


@pytest.fixture(scope="session")
def explorer(runs_folder):
    """The page of two of these, one for all tests that leave it as it is."""
    server = serve(runs_folder / "particles.nc", runs_folder / "sparse.nc")
    yield server
    server.end()


@pytest.fixture
def violations():
    """A function that gives what axe-core finds wrong on a page."""
    if not AXE.exists():
        pytest.skip("no axe-core: `make browser` installs it")

    def result(page):
        page.evaluate(AXE.read_text(encoding="utf-8"))
        return page.evaluate(VIOLATIONS, LEVELS)

    return result


def show_browser_tab(page, visible):
    """Tell the page that the person has gone to another tab of the browser, or has
    returned."""
    page.evaluate(
        "(hidden) => { Object.defineProperty(document, 'hidden', {value: hidden,"
        " configurable: true}); document.dispatchEvent(new"
        " Event('visibilitychange')) }",
        not visible,
    )


def open_page(page, address):
    """Open an address and wait until Bokeh has drawn its document."""
    page.goto(address)
    page.wait_for_function(DRAWN)


def change_colour_scheme(page, scheme):
    """Prefer "light" or "dark" on an open page of the explorer, which loads itself anew
    in the style of another scheme."""
    dark = page.evaluate("matchMedia('(prefers-color-scheme: dark)').matches")
    if dark != (scheme == "dark"):
        with page.expect_navigation():
            page.emulate_media(color_scheme=scheme)
        page.wait_for_function(DRAWN)
