"""The story on the page, in Chromium."""

import json

import numpy as np
import pytest

from analysis.explorer import story_data
from analysis.explorer.live_run import embedding_structure
from analysis.structures import count_imperfections, is_circle
from analysis.structures.circles_and_grids import GRID_FRACTION
from dynamics import (
    ModularSettings,
    ParticleSettings,
    TransformerSettings,
    simulate,
    trained_pairs,
)
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
    page.get_by_text("rising alignment: circle 1").wait_for()
    page.get_by_text("3.5", exact=True).wait_for()
    page.get_by_role("button", name="Another start").click()
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
    slider = page.get_by_role("slider", name="alignment fₐ")
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
    page.get_by_text("rising alignment: circle 1").wait_for()
    page.wait_for_timeout(300)
    assert view.evaluate(state) == [300, False]
    page.get_by_role("slider").fill("0.5")
    page.wait_for_timeout(300)
    step, playing = view.evaluate(state)
    assert playing
    assert 0 < step < 300


def copied_python(page):
    """The Python lines that the page copies."""
    page.context.grant_permissions(["clipboard-read", "clipboard-write"])
    page.get_by_role("button", name="Copy Python").click()
    page.get_by_text("Python copied").wait_for()
    text = page.evaluate("navigator.clipboard.readText()")
    page.get_by_text("Python copied").wait_for(state="hidden")
    return text


def test_an_alignment_that_is_dragged_begins_a_run_that_python_repeats(
    story, chromium_page
):
    page = chromium_page
    open_page(page, f"{story.address}#alignment")
    page.get_by_text("rising alignment: circle 1").wait_for()
    assert "# On the page the alignment changed" in copied_python(page)
    slider = page.get_by_role("slider")
    box = slider.bounding_box()
    middle = box["y"] + box["height"] / 2
    places = box["x"] + box["width"] * np.linspace(3.5 / 4, 0.5 / 4, 21)
    page.mouse.move(places[0], middle)
    page.mouse.down()
    for x in places[1:]:
        page.mouse.move(x, middle)
        page.wait_for_timeout(30)
    page.mouse.up()
    fa = float(slider.input_value())
    assert 0.2 <= fa <= 0.8
    run = simulate(ParticleSettings(fa=fa), runs=1, seed=26, steps=300, every=300)
    end = run["embedding"].values[0, -1].astype(np.float64)
    kind = embedding_structure(end).kind
    page.get_by_text("weak alignment (below 1.5):").wait_for()
    assert page.locator("particle-view .verdict").inner_text() == kind
    assert page.get_by_role("img", name=f"alignment {fa:g}: {kind}").count() == 1
    text = copied_python(page)
    assert "#" not in text
    assert f"ParticleSettings(fa={fa:g}), runs=1, seed=26, steps=300" in text
    shown = page.locator("particle-view").evaluate("(view) => [...view.particles.x]")
    np.testing.assert_allclose(np.reshape(shown, (17, 2)), end, atol=1e-5)


RECORD_CANVAS = """() => {
  const pen = CanvasRenderingContext2D.prototype, {lineTo, beginPath, fillText} = pen
  globalThis.painted = {texts: [], lines: []}
  let points = []
  pen.beginPath = function () { points = []; beginPath.call(this) }
  pen.lineTo = function (x, y) {
    points.push([x, y])
    if (points.length == 2 && points[0][0] == x) painted.lines.push([x, points[0][1], y])
    lineTo.call(this, x, y)
  }
  pen.fillText = function (text, x, y) {
    if (["start", "left"].includes(this.textAlign)) painted.texts.push([text, x, y, this.measureText(text).width])
    fillText.call(this, text, x, y)
  }
}"""
"""Notes texts and vertical lines of charts while they are painted."""


@pytest.mark.parametrize("width", [390, 820])
def test_names_above_charts_are_not_struck_through(story, chromium_page, width):
    page = chromium_page
    page.set_viewport_size({"width": width, "height": 844})
    for chapter, count in (("decision", 2), ("transformer", 3), ("spike", 2)):
        page.goto("about:blank")
        open_page(page, f"{story.address}#numbers")
        page.evaluate(RECORD_CANVAS)
        page.keyboard.press(str(1 + CHAPTERS.index(chapter)))
        page.wait_for_function(f"painted.texts.length >= {count}")
        painted = page.evaluate("painted")
        names = {text: rest for text, *rest in painted["texts"] if text[0].isalpha()}
        assert len(names) == count
        for text, (x, y, length) in names.items():
            for at, *ends in painted["lines"]:
                inside = x - 1 < at < x + length + 1
                assert not (inside and min(ends) < y < max(ends)), text


TARGETS = "button, input, ul a"


@pytest.mark.parametrize(
    "chapter", ["alignment", pytest.param("turn", marks=pytest.mark.slow)]
)
def test_targets_on_a_phone_are_large_and_in_view(story, chromium, chapter):
    context = chromium.new_context(
        viewport={"width": 390, "height": 844}, has_touch=True, is_mobile=True
    )
    page = context.new_page()
    open_page(page, f"{story.address}#{chapter}")
    page.locator("particle-view").wait_for()
    for target in page.locator(f"training-story :is({TARGETS})").all():
        if target.is_visible():
            box = target.bounding_box()
            assert min(box["height"], box["width"] + 16) >= 40, target.inner_html()
    if chapter == "alignment":
        assert page.locator("input.fa").bounding_box()["width"] > 200
        button = page.get_by_role("button", name="Try ten starts")
        assert button.bounding_box()["y"] + 40 <= 844
        page.get_by_role("button", name="Pause").tap()
        button.tap()
        pictures = page.locator(".ends canvas")
        pictures.nth(9).wait_for()
        page.wait_for_timeout(500)
        box = pictures.nth(9).bounding_box()
        assert box["y"] + box["height"] <= 844
    context.close()


def test_ten_seeds_are_counted_and_their_ends_shown(story, chromium_page):
    page = chromium_page
    open_page(page, f"{story.address}#alignment")
    page.get_by_role("button", name="Pause").click()
    page.get_by_role("slider").fill("0.5")
    page.get_by_role("button", name="Try ten starts").click()
    seeds = np.arange(27, 37) % story_data.SEEDS
    system = ParticleSystem(ParticleSettings(fa=0.5))
    ends = system.advance(system.initial(seeds), 300).embedding
    grids = int((count_imperfections(ends) <= GRID_FRACTION * 153).sum())
    assert not is_circle(ends).any()
    words = f"(below 1.5): circle 0, grid {grids}, neither {10 - grids}"
    page.get_by_text(words).wait_for()
    assert page.get_by_role("img", name="alignment 0.5: grid").count() == grids
    verdicts = page.locator(".ends figcaption").all_inner_texts()
    assert verdicts == ["grid"] * grids + ["neither"] * (10 - grids)


def test_digits_open_chapters_and_their_python_is_copied(story, chromium_page):
    page = chromium_page
    open_page(page, story.address)
    for digit, words in (
        ("3", "ParticleSettings(fa="),
        ("7", "replay(simulate(Sparse"),
    ):
        page.keyboard.press(digit)
        current = page.locator("nav button[aria-current]")
        assert current.inner_text().startswith(digit)
        text = copied_python(page)
        assert words in text
        compile(text, "story", "exec")


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
    page.mouse.move(left + half * 1.5, top - half * 1.5, steps=3)
    page.mouse.up()
    dragged = view.evaluate(position)
    assert dragged == pytest.approx([1.5, 1.5], abs=0.5)
    page.mouse.move(left, top)
    assert view.evaluate(position) == dragged
    assert "# On the page numbers were dragged" in copied_python(page)


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


def words_at(record, beginning):
    """The line of a record that begins with a time."""
    return next(line for line in record["words"] if line.startswith(beginning))


def test_numbers_in_the_text_are_those_of_the_records(records):
    text = (story_data.FOLDER / "story.js").read_text()
    assert "by 0.7 at step 100" in text
    assert "agree by 0.7" in words_at(records["network"], "Training step 100:")
    later = [
        float(line.split("agree by ")[1].split()[0])
        for line in records["network"]["words"]
    ]
    assert min(later[3:17]) > 0.45
    assert max(later[35:]) < 0.5
    assert "of 200 with weight decay 0.6" in text.replace("${networks}", "200")
    assert (story_data.NETWORKS, ModularSettings().weight_decay) == (200, 0.6)
    assert "56 and 59 of 100" in text
    assert records["decision"]["words"][0].startswith("Step 0: 56%")
    assert " 41% of" in records["decision"]["words"][0]
    assert "nine of ten new sums are correct after 4,300 epochs" in text
    new = records["transformer"]["panels"][1]["lines"][1]
    assert new["name"] == "new sums"
    assert (np.array(new["values"][43:]) >= 0.9).all()
    assert new["values"][42] < 0.9
    assert "After 200 epochs" in text
    assert words_at(records["transformer"], "Epoch 200:").endswith(
        " 0% of the new ones."
    )


@pytest.mark.parametrize("ordered", [True, False])
def test_new_sums_are_those_of_pairs_that_are_trained_in_neither_order(ordered):
    settings = TransformerSettings(
        n=7, dim=8, heads=2, train_share=0.5, ordered=ordered
    )
    run = simulate(settings, runs=1, steps=3, every=1, progress=False)
    trained = trained_pairs(run)[0]
    pairs = np.stack([trained["first"], trained["second"]], axis=1)
    shown = {frozenset(pair) for pair in pairs[trained.values].tolist()}
    unseen = story_data.unseen_pairs(run).tolist()
    assert [pair for pair in pairs.tolist() if frozenset(pair) not in shown] == unseen
    accuracy, loss = story_data.unseen_scores(run)
    if not ordered:  # the test split has no pair of which the other order is trained
        for values, name in ((accuracy, "accuracy"), (loss, "loss")):
            recorded = run[name].sel(split="test").values[0]
            np.testing.assert_allclose(values, recorded, rtol=1e-5)


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
