"""What a reader sees of the page without scrolling, and whether it can be read, in
Chromium at several widths and in both colour schemes."""

import time

import pytest

from tests.browser import change_colour_scheme, open_page, serve
from tests.contrast import contrast

PHONE = {"width": 390, "height": 844}
WIDTHS = (390, 900, 1440)
LIVE_TABS = {
    "particles": "alignment fₐ",
    "training": "learning rate",
    "transformer": "learning rate",
}
"""Tabs with a live run, and their first sliders."""

SLOW = pytest.mark.slow
VIEWS = [
    "tab=story#alignment",
    "tab=particles",
    "tab=runs",
    pytest.param("tab=story#numbers", marks=SLOW),
    pytest.param("tab=story#sums", marks=SLOW),
    pytest.param("tab=story#network", marks=SLOW),
    pytest.param("tab=story#decision", marks=SLOW),
    pytest.param("tab=story#transformer", marks=SLOW),
    pytest.param("tab=story#spike", marks=SLOW),
    pytest.param("tab=story#turn", marks=SLOW),
    pytest.param("tab=training", marks=SLOW),
    pytest.param("tab=transformer", marks=SLOW),
]


def bottom(locator):
    """The distance of the lower edge of an element from the top of the window."""
    box = locator.bounding_box()
    return box["y"] + box["height"]


@pytest.mark.parametrize("view", VIEWS)
def test_axe_finds_no_violation(explorer, chromium_page, violations, view):
    open_page(chromium_page, f"{explorer.address}?{view}")
    for scheme in ("light", "dark"):
        change_colour_scheme(chromium_page, scheme)
        for width in WIDTHS:
            chromium_page.set_viewport_size({"width": width, "height": 844})
            assert violations(chromium_page) == [], (scheme, width)


def test_the_alignment_of_the_story_is_on_a_phones_screen(explorer, chromium_page):
    chromium_page.set_viewport_size(PHONE)
    open_page(chromium_page, f"{explorer.address}?tab=story#alignment")
    view = chromium_page.locator("particle-view")
    for name in ("canvas", "input.fa", "button.play", ".verdict"):
        part = view.locator(name)
        part.wait_for()
        assert bottom(part) <= PHONE["height"], name


@pytest.mark.parametrize("width", WIDTHS)
@pytest.mark.parametrize("tab", LIVE_TABS)
def test_the_pictures_of_a_live_tab_fill_the_window(
    explorer, chromium_page, tab, width
):
    chromium_page.set_viewport_size({"width": width, "height": 900})
    open_page(chromium_page, f"{explorer.address}?tab={tab}")
    pictures = chromium_page.locator("canvas:visible")
    pictures.first.wait_for()
    boxes = [picture.bounding_box() for picture in pictures.all()]
    right = max(box["x"] + box["width"] for box in boxes)
    assert width - 40 < right <= width
    lefts = {round(box["x"]) for box in boxes}
    assert (len(lefts) == 1) == (width < 500)


@pytest.mark.parametrize(
    "tab",
    [
        pytest.param(name, marks=() if name == "particles" else SLOW)
        for name in LIVE_TABS
    ],
)
def test_the_first_sliders_are_above_the_first_picture_of_a_narrow_window(
    explorer, chromium_page, tab
):
    page = chromium_page
    page.set_viewport_size(PHONE)
    open_page(page, f"{explorer.address}?tab={tab}")
    slider = page.get_by_role("slider", name=LIVE_TABS[tab])
    seed = page.get_by_role("textbox", name="seed")
    picture, chart = page.locator("canvas").first, page.locator("canvas").last
    assert bottom(slider) < picture.bounding_box()["y"]
    assert bottom(picture) <= PHONE["height"]
    assert seed.bounding_box()["y"] > bottom(chart)
    page.set_viewport_size({"width": 1440, "height": 900})
    page.wait_for_function("() => innerWidth == 1440")
    page.wait_for_timeout(300)
    assert bottom(slider) < seed.bounding_box()["y"] < bottom(chart)
    left = picture.bounding_box()["x"]
    for control in (slider, seed):
        box = control.bounding_box()
        assert box["x"] + box["width"] < left


CONTRASTS = """() => {
  const pen = new OffscreenCanvas(1, 1).getContext("2d"), result = []
  for (let k = 0; k < 60; k++) {
    pen.fillStyle = markColour(k / 60)
    pen.fillRect(0, 0, 1, 1)
    result.push([...pen.getImageData(0, 0, 1, 1).data])
  }
  return result
}"""


def test_marks_of_all_hues_contrast_with_white_and_black(explorer, chromium_page):
    open_page(chromium_page, f"{explorer.address}?tab=story#sums")
    colours = chromium_page.evaluate(CONTRASTS)
    assert len({tuple(colour) for colour in colours}) == 60
    for *rgb, opacity in colours:
        assert opacity == 255
        colour = [channel / 255 for channel in rgb]
        assert contrast(colour, (1, 1, 1)) > 3
        assert contrast(colour, (0, 0, 0)) > 3


def test_a_page_that_is_closed_during_frames_leaves_no_traceback(chromium):
    server = serve()
    for wait in (0, 50, 300):
        page = chromium.new_page()
        open_page(page, f"{server.address}?tab=particles")
        page.get_by_role("button", name="Start").click()
        page.wait_for_timeout(wait)
        page.close()
    time.sleep(0.5)
    code, _, errors = server.interrupt()
    assert code == 130
    assert "Traceback" not in errors
    assert "Error" not in errors


PRESS_AND_LOOK = """(button, old) => new Promise((tell) => {
  const message = document.getElementById("preparing")
  new MutationObserver(() => tell([message.textContent, getComputedStyle(old).visibility])).observe(message, {childList: true})
  button.click()
})"""
"""Gives the first message after a click, and whether the old content is visible then."""


def test_a_tab_that_is_prepared_says_so_at_once(explorer, chromium_page):
    page = chromium_page
    open_page(page, f"{explorer.address}?tab=story")
    button = page.get_by_role("button", name="Particles", exact=True)
    message = "Particles: being prepared …"
    story = page.locator("training-story").element_handle()
    assert button.evaluate(PRESS_AND_LOOK, story) == [message, "hidden"]
    page.get_by_role("slider", name=LIVE_TABS["particles"]).wait_for()
    page.get_by_text(message).wait_for(state="detached")
    page.get_by_role("button", name="Start").click()
    page.get_by_role("button", name="Pause").wait_for()


def test_runs_and_panels_are_beside_each_other_below_the_pictures(
    explorer, chromium_page
):
    page = chromium_page
    page.set_viewport_size({"width": 820, "height": 900})
    open_page(page, f"{explorer.address}?tab=runs")
    runs, compare = (
        page.get_by_text(name, exact=True).last.bounding_box()
        for name in ("Runs", "Compare")
    )
    assert compare["x"] > runs["x"] + 250
    assert compare["y"] == pytest.approx(runs["y"], abs=80)  # with a choice of files
