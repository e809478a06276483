"""The story on the page, in Chromium."""

import pytest

from analysis.explorer import story_data
from tests.browser import open_page, serve

CHAPTERS = ("numbers", "sums", "alignment", "network", "decision")


@pytest.fixture(scope="module")
def story():
    """The page without files."""
    server = serve()
    yield server
    server.end()


def test_the_story_opens_by_default_and_alignment_makes_a_circle(story, chromium_page):
    open_page(chromium_page, f"{story.address}#alignment")
    chromium_page.get_by_text("Circles so far: 1").wait_for()
    chromium_page.keyboard.press("ArrowRight")
    chromium_page.get_by_role("heading", name="A network does it too").wait_for()
    assert chromium_page.evaluate("location.hash") == "#network"


@pytest.mark.parametrize("chapter", CHAPTERS)
def test_a_chapter_opens_by_its_address(story, chromium_page, chapter):
    open_page(chromium_page, f"{story.address}#{chapter}")
    current = chromium_page.locator("nav button[aria-current]")
    assert current.inner_text().startswith(str(CHAPTERS.index(chapter) + 1))


def test_the_network_of_the_story_is_that_of_its_script():
    text = (story_data.FOLDER / "story_data.js").read_text()
    assert len(text) < 1_500_000
    assert len(story_data.network_record()["first"]) == story_data.NETWORK_FRAMES
