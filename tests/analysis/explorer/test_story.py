"""The story on the page, in Chromium."""

import json

import numpy as np
import pytest

from analysis.explorer import story_data
from analysis.structures import count_imperfections, is_circle
from analysis.structures.circles_and_grids import GRID_FRACTION
from dynamics import ParticleSettings
from dynamics.particles import ParticleSystem
from tests.browser import open_page, serve

CHAPTERS = (
    "numbers",
    "sums",
    "alignment",
    "network",
    "decision",
    "transformer",
    "spike",
    "turn",
)
PIXELS = """() => {
  const roots = [document], canvases = []
  for (const root of roots) {
    for (const node of root.querySelectorAll("*")) if (node.shadowRoot) roots.push(node.shadowRoot)
    canvases.push(...root.querySelectorAll("canvas"))
  }
  return canvases.map((canvas) => canvas.toDataURL())
}"""
OVERFLOW = (
    "() => document.documentElement.scrollWidth - document.documentElement.clientWidth"
)


@pytest.fixture(scope="module")
def story():
    """The page without files."""
    server = serve()
    yield server
    server.end()


QUICK = ("numbers", "alignment", "network")
"""Chapters that `make test` opens; `make test-all` opens all."""


@pytest.fixture(scope="module")
def records():
    """The recorded runs of the story, by chapter."""
    text = (story_data.FOLDER / "story_data.js").read_text()
    return json.loads(text.partition("=")[2])


@pytest.mark.parametrize(
    "chapter",
    [
        pytest.param(name, marks=() if name in QUICK else pytest.mark.slow)
        for name in CHAPTERS
    ],
)
def test_a_chapter_opens_by_its_address_moves_and_fits(story, chromium_page, chapter):
    open_page(chromium_page, f"{story.address}#{chapter}")
    current = chromium_page.locator("nav button[aria-current]")
    assert current.inner_text().startswith(str(CHAPTERS.index(chapter) + 1))
    before = chromium_page.evaluate(PIXELS)
    assert before
    chromium_page.wait_for_timeout(600)
    assert chromium_page.evaluate(PIXELS) != before
    for width, height in ((1400, 900), (900, 700), (390, 844)):
        chromium_page.set_viewport_size({"width": width, "height": height})
        assert chromium_page.evaluate(OVERFLOW) == 0
    chromium_page.wait_for_timeout(300)  # on a phone text and picture are both visible
    for place in (".text p", ".picture canvas"):
        for item in chromium_page.locator(place).all():
            box = item.bounding_box()
            assert box["y"] + box["height"] <= 844


def open_tab(page):
    page.get_by_role("button", name="Particles", exact=True).click()


def follow_link(page):
    page.get_by_role("link", name="Particles with the alignment").click()


@pytest.mark.parametrize(
    "way", [follow_link, pytest.param(open_tab, marks=pytest.mark.slow)]
)
def test_alignment_makes_a_circle_and_the_setting_is_handed_on(
    story, chromium_page, way
):
    page = chromium_page
    open_page(page, f"{story.address}#alignment")
    page.get_by_text("strong alignment: circle 1").wait_for()
    page.get_by_text("3.5", exact=True).wait_for()
    page.get_by_role("button", name="Another seed").click()
    page.wait_for_timeout(500)
    for _ in range(5):
        page.keyboard.press("ArrowRight")
    page.get_by_role("heading", name="Your turn").wait_for()
    page.context.grant_permissions(["clipboard-read", "clipboard-write"])
    page.get_by_role("button", name="Copy link").click()
    page.get_by_text("Link copied").wait_for()
    link = page.evaluate("navigator.clipboard.readText()")
    assert link == f"{story.address}?tab=story#turn"
    address = page.get_by_role("link", name="Particles with the alignment")
    assert "fa=3.5&seed=27" in address.get_attribute("href")
    page.get_by_role("slider").press("ArrowRight")
    page.get_by_text("3.6", exact=True).wait_for()
    assert "fa=3.6&seed=27" in address.get_attribute("href")
    page.get_by_role("slider").press("ArrowLeft")
    way(page)
    page.get_by_role("textbox", name="seed").wait_for()
    assert page.get_by_role("textbox", name="seed").input_value() == "27"
    slider = page.get_by_role("slider", name="alignment f_a")
    assert float(slider.get_attribute("aria-valuenow")) == 3.5


def test_a_run_keeps_its_verdict_until_another_alignment_begins_it_again(
    story, chromium_page
):
    page = chromium_page
    open_page(page, f"{story.address}#alignment")
    view, state = (
        page.locator("particle-view"),
        "({particles, playing}) => [particles.step, playing]",
    )
    page.keyboard.press("Space")
    page.get_by_role("button", name="Play").wait_for()
    page.keyboard.press("Space")
    page.get_by_text("strong alignment: circle 1").wait_for()
    page.wait_for_timeout(300)
    assert view.evaluate(state) == [300, False]
    page.get_by_role("slider").fill("0.5")
    page.wait_for_timeout(300)
    step, playing = view.evaluate(state)
    assert playing
    assert 0 < step < 300


def test_ten_seeds_are_counted_and_their_ends_shown(story, chromium_page):
    page = chromium_page
    open_page(page, f"{story.address}#alignment")
    page.get_by_role("button", name="Pause").click()
    page.get_by_role("slider").fill("0.5")
    page.get_by_role("button", name="Try ten seeds").click()
    seeds = np.arange(27, 37) % story_data.SEEDS
    system = ParticleSystem(ParticleSettings(fa=0.5))
    ends = system.advance(system.initial(seeds), 300).embedding
    grids = int((count_imperfections(ends) <= GRID_FRACTION * 153).sum())
    assert not is_circle(ends).any()
    words = f"(below 1.5): circle 0, grid {grids}, neither {10 - grids}"
    page.get_by_text(words).wait_for()
    assert page.get_by_role("img", name="alignment 0.5: grid").count() == grids


def test_digits_open_chapters_and_their_python_is_copied(story, chromium_page):
    page = chromium_page
    open_page(page, story.address)
    page.context.grant_permissions(["clipboard-read", "clipboard-write"])
    for digit, words in (
        ("3", "ParticleSettings(fa="),
        ("7", "replay(simulate(Sparse"),
    ):
        page.keyboard.press(digit)
        current = page.locator("nav button[aria-current]")
        assert current.inner_text().startswith(digit)
        page.get_by_role("button", name="Copy Python").click()
        page.get_by_text("Python copied").wait_for()
        text = page.evaluate("navigator.clipboard.readText()")
        assert words in text
        compile(text, "story", "exec")
        page.get_by_text("Python copied").wait_for(state="hidden")


def test_a_click_on_numbers_shows_their_sum(story, chromium_page):
    page = chromium_page
    open_page(page, f"{story.address}#sums")
    page.get_by_role("button", name="Pause").click()
    canvas = page.locator("particle-view canvas")
    for number in (12, 13):
        x, y = page.locator("particle-view").evaluate(
            "(view, i) => [...view.particles.x.slice(2 * i, 2 * i + 2)]", number
        )
        box = canvas.bounding_box()
        half = box["width"] / 2
        place = {"x": half * (1 + x / 3.6), "y": half * (1 - y / 3.6)}
        canvas.click(position=place)
    page.get_by_text("12 + 13 = 8 (25 − 17).").wait_for()


def test_a_number_can_be_dragged(story, chromium_page):
    page = chromium_page
    open_page(page, f"{story.address}#sums")
    view = page.locator("particle-view")
    page.get_by_role("button", name="Pause").click()
    position = "(view) => [...view.particles.x.slice(6, 8)]"
    x, y = view.evaluate(position)
    box = page.locator("particle-view canvas").bounding_box()
    left, top = (box["x"] + box["width"] / 2, box["y"] + box["height"] / 2)
    half = box["width"] / 2 / 3.6
    page.mouse.move(left + half * x, top - half * y)
    page.mouse.down()
    page.mouse.move(left + half * 2, top - half * 2, steps=3)
    page.mouse.up()
    dragged = view.evaluate(position)
    assert dragged == pytest.approx([2, 2], abs=0.5)
    page.mouse.move(left, top)
    assert view.evaluate(position) == dragged


def test_nothing_moves_for_those_who_asked_for_less_motion(story, chromium):
    context = chromium.new_context(reduced_motion="reduce")
    page = context.new_page()
    for chapter in ("alignment", "spike"):
        page.goto("about:blank")
        open_page(page, f"{story.address}#{chapter}")
        page.wait_for_timeout(300)
        before = page.evaluate(PIXELS)
        page.wait_for_timeout(600)
        assert page.evaluate(PIXELS) == before
    context.close()


def test_the_recorded_runs_are_those_of_the_script(records):
    assert (story_data.FOLDER / "story_data.js").stat().st_size < 1_500_000
    network = json.loads(json.dumps(story_data.network_record()))
    assert records["network"].items() >= network.items()
    assert records["spike"]["words"][18].startswith("Step 37,046: loss 0.74")
    assert records["transformer"]["words"][-1].endswith("100% of the new ones.")


def test_points_and_arrows_lie_within_their_pictures(records):
    for record in records.values():
        for panel in record["panels"]:
            shown = [panel.get("points", [])]
            shown += [arrows["tips"] for arrows in panel.get("arrows", [])]
            for frames in shown:
                assert np.abs(np.array(frames)).max(initial=0) < 1


@pytest.mark.slow
def test_the_end_of_a_run_is_marked_as_firm_where_its_copies_agree(records):
    curves = records["decision"]["panels"][2]
    for line, mark, end in zip(curves["lines"], curves["marks"], (1, 0), strict=True):
        agreement = np.abs(1 - end - np.array(line["values"]))
        assert (agreement[mark["step"] :: 5] >= 0.9 - 1e-9).all()
        assert agreement[mark["step"] - 5] < 0.9


@pytest.mark.slow
def test_the_script_of_the_story_is_made_again():
    text = (story_data.FOLDER / "story_data.js").read_text()
    assert story_data.story_script() == text
