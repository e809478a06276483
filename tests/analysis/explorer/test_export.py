"""A run as one file that plays without a server, opened as a file in a browser."""

import pytest

from analysis.explorer.export import export_page
from dynamics import SettingsError, TrajectoryError
from tests.analysis.explorer.player_state import (
    BUFFERS_ARE_THERE,
    assert_shows,
    scene_of,
    seek,
)


def opened(page, path):
    """The exported page, opened as a file, with its buffers unpacked."""
    page.set_viewport_size({"width": 1200, "height": 2200})
    page.goto(path.absolute().as_uri())
    page.wait_for_function(f"window.scrubber?.stage && {BUFFERS_ARE_THERE}")
    return page


def test_an_exported_page_is_accessible(
    runs_folder, chromium_page, violations, tmp_path
):
    export_page(tmp_path / "page.html", runs_folder / "sparse.nc", 1)
    page = opened(chromium_page, tmp_path / "page.html")
    assert violations(page) == []
    page.keyboard.press("?")
    page.get_by_role("dialog", name="Keys").wait_for()
    assert violations(page) == []
    page.keyboard.press("Escape")
    with page.expect_download() as saved:
        page.get_by_role("button", name="Save as PNG: loss").click()
    assert saved.value.suggested_filename == "sparse-run1-step120-loss.png"


HELD = """() => {
  const read = Response.prototype.arrayBuffer, held = new Promise((done) => { window.release = done })
  Response.prototype.arrayBuffer = function () { return held.then(() => read.call(this)) }
}"""


def test_the_time_bar_of_an_exported_page_is_disabled_until_its_frames_are_there(
    runs_folder, chromium_page, tmp_path
):
    export_page(
        tmp_path / "page.html", runs_folder / "particles.nc", 1, panels="embedding"
    )
    page = chromium_page.context.new_page()
    page.add_init_script(f"({HELD})()")
    page.goto((tmp_path / "page.html").absolute().as_uri())
    page.get_by_text("loading …").wait_for()
    page.wait_for_timeout(500)
    page.keyboard.press("Home")
    assert not [
        item
        for item in page.locator(".bar button, .bar select, .bar input").all()
        if item.is_enabled()
    ]
    page.evaluate("release()")
    page.get_by_text("step 60", exact=True).wait_for()
    assert page.get_by_role("slider", name="Frame").is_enabled()
    assert page.get_by_role("button", name="Play").is_enabled()


def test_an_exported_page_plays_without_network_access(
    runs_folder, chromium_page, tmp_path
):
    size = export_page(tmp_path / "page.html", runs_folder / "sparse.nc", 1)
    assert size == (tmp_path / "page.html").stat().st_size
    assert size < 4e6
    page = opened(chromium_page, tmp_path / "page.html")
    scene = scene_of(runs_folder, "sparse", 1)
    layers = {
        layer.array
        for panel in scene.panels
        for layer in panel.layers
        if hasattr(layer, "array")
    }
    for place in (0, 13):
        state = seek(page, place)
        assert {part["array"] for part in state["parts"]} >= layers
        assert_shows(state, [scene], precision=1e-4)
    page.evaluate("scrubber.speed = 60")
    page.keyboard.press("Home")
    page.get_by_role("button", name="Play").click()
    page.wait_for_function("scrubber.drawn > 5")
    page.get_by_role("slider", name="Frame").focus()
    page.keyboard.press("End")
    page.wait_for_function("scrubber.drawn == scrubber.last && !scrubber.playing")
    assert page.asked == [(tmp_path / "page.html").absolute().as_uri()]


def test_two_runs_are_exported_side_by_side_with_few_maps(
    runs_folder, chromium_page, tmp_path
):
    export_page(
        tmp_path / "two.html",
        runs_folder / "particles.nc",
        (0, 2),
        panels="embedding,pair_sums",
        map_frames=7,
    )
    page = opened(chromium_page, tmp_path / "two.html")
    state = seek(page, 13)
    assert state["frames"] == [13, 13]
    assert {part["lane"] for part in state["parts"]} == {0, 1}
    assert page.get_by_text("map of step 10").count() == 2  # of 0, 10, ..., 60
    assert page.get_by_text("B: particles").is_visible()


@pytest.mark.parametrize(
    ("page", "name", "words"),
    [
        ("page.png", "particles", ()),
        ("page.html", "particles", (7,)),
        ("page.html", "particles", (0, "nonsense")),
        ("page.html", "particles", ((0, 1, 2),)),
        ("page.html", "gone", ()),
    ],
)
def test_a_failed_export_writes_nothing(runs_folder, tmp_path, page, name, words):
    with pytest.raises(TrajectoryError if name == "gone" else SettingsError):
        export_page(tmp_path / page, runs_folder / f"{name}.nc", *words)
    assert not list(tmp_path.iterdir())


@pytest.mark.parametrize("place", [0.3, 0.6, 0.9])
def test_a_flipped_bit_is_found_before_the_export(runs_folder, typed, tmp_path, place):
    content = bytearray((runs_folder / "particles.nc").read_bytes())
    content[int(place * len(content))] ^= 1
    (tmp_path / "damaged.nc").write_bytes(content)
    code, out, errors = typed(
        "analysis.explore", tmp_path / "damaged.nc", "--export", tmp_path / "page.html"
    )
    assert (code, out) == (1, "")
    assert "damaged.nc" in errors
    assert "Traceback" not in errors
    assert not (tmp_path / "page.html").exists()
