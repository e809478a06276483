"""A run as one file that plays without a server, opened as a file in a browser."""

import numpy as np
import pytest

from analysis.explorer.codec import encode_layer
from analysis.explorer.export import export_page
from analysis.plots.panels import build_scene
from analysis.plots.scenes.scene import Map
from dynamics.errors import TrajectoryError
from dynamics.settings import ParticleSettings, SettingsError, SparseSettings
from dynamics.simulation import simulate
from dynamics.trajectory.reader import open_trajectory


@pytest.fixture(scope="module")
def files(tmp_path_factory):
    folder = tmp_path_factory.mktemp("runs")
    simulate(ParticleSettings(n=7, fa=2.0), runs=3, steps=40, out=folder / "particles.nc")
    settings = SparseSettings(length=6, sparsity=2, data=64, batch=16, hidden=8)
    simulate(settings, runs=2, steps=80, every=4, out=folder / "sparse.nc")
    return folder


LAYERS = """(place) => {
  const {stage} = scrubber
  return stage.parts.map((part) => {
    const frame = stage.lanes[part.lane].frames[place], {data} = part.source
    const list = (name) => Array.from(data[name] ?? [])
    return {array: part.array, kind: part.kind, lane: part.lane, frame, x: list("x"), y: list("y"),
      number: data.number ? Array.from(data.number[0]) : []}
  })
}"""


def opened(page, path):
    """The exported page, opened as a file, with its buffers unpacked."""
    page.set_viewport_size({"width": 1200, "height": 2200})
    page.goto(path.absolute().as_uri())
    page.wait_for_function(
        "window.scrubber?.painted > 0 && scrubber.stage.parts.every((part) => part.kind == 'cursor'"
        " || scrubber.stage.buffers.has(`${part.lane}/${part.array}`))"
    )
    return page


def shown(page, place):
    page.evaluate("(place) => scrubber.show(place)", place)
    page.wait_for_function("(place) => scrubber.drawn == place", arg=place)
    page.evaluate("() => new Promise((done) => requestAnimationFrame(() => requestAnimationFrame(done)))")
    return page.evaluate(LAYERS, place)


def test_an_exported_page_plays_without_network_access(files, chromium_page, tmp_path):
    size = export_page(tmp_path / "page.html", files / "sparse.nc", 1)
    assert size == (tmp_path / "page.html").stat().st_size
    assert size < 4e6
    page = opened(chromium_page, tmp_path / "page.html")
    content = build_scene(open_trajectory(files / "sparse.nc"), 1)
    layers = {layer.array: layer for panel in content.panels for layer in panel.layers if hasattr(layer, "array")}
    for place in (0, 13):
        found = shown(page, place)
        assert {part["array"] for part in found} >= set(layers)
        for part in found:
            if part["kind"] not in ("points", "pixels"):
                continue
            values = content.compute_arrays(np.array([part["frame"]]), [part["array"]])[part["array"]]
            if part["kind"] == "pixels":
                layer = layers[part["array"]]
                number = values[0].ravel() if isinstance(layer, Map) else encode_layer(layer, values)[0]
                np.testing.assert_array_equal(part["number"], number)
            else:
                whole = content.compute_arrays(np.arange(len(content.steps)), [part["array"]])[part["array"]]
                near = np.nanmax(np.abs(whole)) / 10_000
                np.testing.assert_allclose([part["x"], part["y"]], values[0].T, atol=near)
    page.evaluate("scrubber.speed = 60")
    page.keyboard.press("Home")
    page.get_by_role("button", name="Play").click()
    page.wait_for_function("scrubber.drawn > 5")
    page.get_by_role("slider", name="Frame").focus()
    page.keyboard.press("End")
    page.wait_for_function("scrubber.drawn == scrubber.last && !scrubber.playing")
    assert page.asked == [(tmp_path / "page.html").absolute().as_uri()]


def test_two_runs_are_exported_side_by_side_with_few_maps(files, chromium_page, tmp_path):
    export_page(tmp_path / "two.html", files / "particles.nc", (0, 2), panels="embedding,pair_sums", map_frames=5)
    page = opened(chromium_page, tmp_path / "two.html")
    found = shown(page, 13)
    assert {(part["lane"], part["frame"]) for part in found} == {(0, 13), (1, 13)}
    assert page.get_by_text("map of step 10").count() == 2  # of 0, 10, 20, 30 and 40
    assert page.get_by_text("B: particles").is_visible()


def test_a_failed_export_writes_nothing(files, tmp_path):
    for words, error in (
        ((tmp_path / "page.png", files / "particles.nc"), SettingsError),
        ((tmp_path / "page.html", files / "particles.nc", 7), SettingsError),
        ((tmp_path / "page.html", files / "particles.nc", 0, "nonsense"), SettingsError),
        ((tmp_path / "page.html", files / "particles.nc", (0, 1, 2)), SettingsError),
        ((tmp_path / "page.html", tmp_path / "gone.nc"), TrajectoryError),
    ):
        with pytest.raises(error):
            export_page(*words)
    assert not list(tmp_path.iterdir())


@pytest.mark.parametrize("place", [0.3, 0.6, 0.9])
def test_a_flipped_bit_is_found_before_the_export(files, typed, tmp_path, place):
    content = bytearray((files / "particles.nc").read_bytes())
    content[int(place * len(content))] ^= 1
    (tmp_path / "damaged.nc").write_bytes(content)
    code, out, errors = typed("analysis.explore", tmp_path / "damaged.nc", "--export", tmp_path / "page.html")
    assert (code, out) == (1, "")
    assert "damaged.nc" in errors
    assert "Traceback" not in errors
    assert not (tmp_path / "page.html").exists()
