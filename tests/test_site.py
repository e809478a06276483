"""The documentation site is built; its links lead somewhere; it loads nothing from
elsewhere. `make test-all` also runs its notebooks."""

import os
import re
import subprocess
import sys
from html.parser import HTMLParser
from urllib.parse import unquote, urlsplit

import pytest

from analysis.reproduction.report.headlines import HEADLINES
from tests.conftest import ROOT

pytest.importorskip("sphinx")
pytestmark = pytest.mark.timeout(600)  # the first test builds the site
LOADED = {
    "script": "src",
    "img": "src",
    "link": "href",
    "source": "src",
    "iframe": "src",
    "video": "src",
    "object": "data",
}
"""Attributes by tag whose resource a browser loads with the page."""
EXTERNAL_STYLE = re.compile(r"""(?:url\(|@import)\s*["']?(?:https?:)?//""")


class Page(HTMLParser):
    """The names of a page's anchors, the places that it links to, and the resources
    that it loads."""

    def __init__(self, text: str):
        super().__init__()
        self.anchors, self.links, self.loaded = set(), [], []
        self.feed(text)

    def handle_starttag(self, tag, attributes):
        result = dict(attributes)
        self.anchors |= {result[name] for name in ("id", "name") if result.get(name)}
        if tag == "a" and result.get("href"):
            self.links.append(result["href"])
        if result.get(LOADED.get(tag, "")):
            self.loaded.append(result[LOADED[tag]])


def build_site(folder, *options):
    """Build the site in a folder; return the folder of its pages."""
    command = [
        sys.executable,
        "-m",
        "sphinx",
        "--fail-on-warning",
        "--keep-going",
        "--quiet",
        "-d",
        "trees",
        *options,
    ]
    done = subprocess.run(
        [*command, ROOT / "docs", folder / "html"],
        cwd=folder,
        env=dict(os.environ),
        text=True,
        capture_output=True,
    )
    assert done.returncode == 0, done.stderr
    return folder / "html"


@pytest.fixture(scope="module")
def site(tmp_path_factory):
    """The folder of the site, built without pages of source code and outputs of
    notebooks, and a dict from the path of each page to the parsed page."""
    html = build_site(tmp_path_factory.mktemp("site"), "-t", "short")
    return html, {
        path: Page(path.read_text())
        for path in html.rglob("*.html")
        if "_static" not in path.parts
    }


def test_links_anchors_and_pictures_of_the_site_exist(site):
    folder, pages = site
    missing = []
    for path, page in pages.items():
        for link in (*page.links, *page.loaded):
            parts = urlsplit(link)
            if parts.scheme or parts.netloc:
                continue
            target = (
                (path.parent / unquote(parts.path)).resolve() if parts.path else path
            )
            named = (
                target not in pages
                or not parts.fragment
                or unquote(parts.fragment) in pages[target].anchors
            )
            if not target.exists() or not named:
                missing.append((str(path.relative_to(folder)), link))
    assert missing == []


def test_the_site_loads_nothing_from_another_host(site):
    folder, pages = site
    external = [
        (path.name, link)
        for path, page in pages.items()
        for link in page.loaded
        if urlsplit(link).netloc
    ]
    styles = [
        path.name
        for path in folder.rglob("*.css")
        if EXTERNAL_STYLE.search(path.read_text())
    ]
    assert external == styles == []


def test_formulas_are_mathml(site):
    folder, _ = site
    assert "<math " in (folder / "guides" / "networks.html").read_text()


@pytest.mark.slow
def test_notebooks_run_and_show_their_outputs(tmp_path):
    pages = build_site(tmp_path) / "notebooks"
    for notebook in (ROOT / "docs" / "notebooks").glob("*.ipynb"):
        assert 'class="cell_output' in (pages / f"{notebook.stem}.html").read_text()


@pytest.mark.parametrize(
    ("name", "element"),
    [
        ("index", "particle-view"),
        ("guides/particles", "particle-view"),
        ("story", "training-story"),
    ],
)
def test_particles_and_the_story_run_on_the_site(site, chromium, name, element):
    folder, _ = site
    page, errors = chromium.new_page(), []
    page.on("pageerror", lambda error: errors.append(str(error)))
    page.goto((folder / f"{name}.html").as_uri())
    canvas, picture = page.locator(f"{element} canvas").first, "it => it.toDataURL()"
    canvas.scroll_into_view_if_needed()  # particles move while they are in view
    before = canvas.evaluate(picture)
    page.wait_for_timeout(600)
    assert canvas.evaluate(picture) != before
    page.close()
    assert not errors


def test_what_was_found_stands_on_the_first_screen_of_the_home_page(site, chromium):
    folder, _ = site
    page = chromium.new_page(viewport={"width": 1440, "height": 900})
    page.goto((folder / "index.html").as_uri())
    cards = page.locator(".findings .sd-card")
    boxes = [card.bounding_box() for card in cards.all()]
    drawings = [card.locator("svg").bounding_box() for card in cards.all()]
    page.close()
    assert len(boxes) == len(HEADLINES)
    # the last lines of the second row may be lower in wider letters
    assert max(box["y"] for box in boxes) < 700
    assert max(box["y"] + box["height"] for box in drawings) < 900
