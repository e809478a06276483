"""The page of recorded runs: buffers, the list of runs, the time line, and the page itself in a browser."""

import base64
import re
import zlib
from dataclasses import replace

import numpy as np
import pytest
from bokeh.document import Document
from bokeh.models import Column

from analysis.explorer import streaming
from analysis.explorer.bokeh_panels import palette_pixels, pixel_palette, tick_values
from analysis.explorer.catalogue import (
    RunEntry,
    filter_runs,
    first_run_to_show,
    run_catalogue,
    run_endings,
    run_table_lines,
)
from analysis.explorer.codec import IMAGE_GAP as GAP
from analysis.explorer.codec import (
    IMAGE_LEVELS,
    QUANTIZATION_STEPS,
    clip_arrows,
    coarse_to_fine_batches,
    compress_buffer,
    encode_layer,
    frames_to_send,
)
from analysis.explorer.open_files import OpenFiles
from analysis.explorer.recorded_runs import RunsPage
from analysis.explorer.screen import facts_line, match_limits
from analysis.explorer.timeline import make_timeline
from analysis.explorer.view_settings import NO_CHOICE, default_panel_names, parse_axes, parse_panels
from analysis.plots.panels import build_scene, panel_names
from analysis.plots.scenes.scene import Arrows, Image, Map, Points, Scene
from analysis.structures.circles_and_grids import count_imperfections, is_circle
from dynamics.settings import ParticleSettings, SettingsError, SparseSettings
from dynamics.simulation import simulate
from dynamics.trajectory.reader import open_trajectory
from tests.browser import drawn

BLACK = np.zeros((3, 3))
NAMES = ("a", "b", "c")

# ------------------------------------------------------------------------------------------------ buffers


def unpacked(layer, buffer, shape):
    """What a layer shows, of its buffer (frame, width): the inverse of `packed`. shape: of one frame."""
    if isinstance(layer, Points | Arrows):
        return np.moveaxis(buffer.reshape(len(buffer), shape[1], shape[0]), 1, 2)
    values = buffer.reshape(len(buffer), *shape)
    if isinstance(layer, Map):
        return values // 4 if layer.lines else values
    level = values[:, ::-1].astype(np.float64)
    return np.where(level == GAP, np.nan, layer.low + level / IMAGE_LEVELS * (layer.high - layer.low))


def released(squeezed):
    """The buffer (frame, width) again, as a browser has it."""
    raw = np.frombuffer(zlib.decompress(base64.b64decode(squeezed.text)), np.uint8)
    if squeezed.kind == "uint16":
        half = len(raw) // 2
        raw = raw[:half].astype(np.uint16) + (raw[half:].astype(np.uint16) << 8)
    level = np.cumsum(raw.reshape(-1, squeezed.width), axis=0, dtype=squeezed.kind)
    if squeezed.low is None:
        return level
    return np.where(level > QUANTIZATION_STEPS, np.nan, squeezed.low + level * squeezed.step).astype(np.float32)


def test_points_survive_encoding_and_a_frame_is_contiguous(generator):
    layer, values = Points("x", BLACK, NAMES), generator.normal(size=(5, 3, 2)).astype(np.float32)
    values[2, 1] = np.nan
    buffer = encode_layer(layer, values)
    assert buffer.shape == (5, 6)
    np.testing.assert_array_equal(buffer[2, :3], values[2, :, 0])
    np.testing.assert_array_equal(unpacked(layer, buffer, (3, 2)), values)


def test_arrows_and_maps_survive_encoding(generator):
    arrows, values = Arrows("a", BLACK, NAMES), generator.normal(size=(4, 3, 4)).astype(np.float32)
    np.testing.assert_array_equal(unpacked(arrows, encode_layer(arrows, values), (3, 4)), values)
    for colours, lines, kind in ((7, True, np.uint8), (65, True, np.uint16), (256, False, np.uint8)):
        layer = Map("m", np.zeros((colours, 3)), ("",) * colours, lines)
        numbers = generator.integers(0, colours, (4, 6, 5))
        assert encode_layer(layer, numbers).dtype == kind
        np.testing.assert_array_equal(unpacked(layer, encode_layer(layer, numbers), (6, 5)), numbers)


def test_an_image_survives_encoding_to_half_a_level_with_its_gaps(generator):
    layer = Image("i", -1.0, 3.0, NAMES, ("k", "l"))
    values = generator.uniform(-1, 3, (4, 3, 2))
    values[1, 2, 0] = np.nan
    back = unpacked(layer, encode_layer(layer, values), (3, 2))
    np.testing.assert_allclose(back, values, atol=4 / 254 / 2 + 1e-12)
    assert np.isnan(back[1, 2, 0])
    assert encode_layer(layer, values)[0, 0] == round((values[0, 2, 0] + 1) / 4 * 254)  # the lowest row first


def test_compression_keeps_integers_exactly_and_floats_to_half_a_step(generator):
    walk = np.cumsum(generator.normal(size=(200, 12)), axis=0).astype(np.float32)
    walk[7, 3] = np.nan
    back = released(compress_buffer(walk))
    np.testing.assert_allclose(back, walk, atol=np.nanmax(walk) / 65534 + np.ptp(walk[~np.isnan(walk)]) / 65534)
    assert np.isnan(back[7, 3])
    for kind in (np.uint8, np.uint16):
        numbers = generator.integers(0, np.iinfo(kind).max, (30, 9), endpoint=True).astype(kind)
        np.testing.assert_array_equal(released(compress_buffer(numbers)), numbers)


def test_constant_and_empty_buffers_are_compressed():
    np.testing.assert_array_equal(released(compress_buffer(np.full((3, 2), 7, np.float32))), np.full((3, 2), 7))
    assert np.isnan(released(compress_buffer(np.full((3, 2), np.nan, np.float32)))).all()


@pytest.mark.parametrize(("count", "at_once"), [(1, 4), (5, 4), (101, 24), (1001, 24)])
def test_coarse_to_fine_batches_contain_every_frame_once(count, at_once):
    pieces = coarse_to_fine_batches(count, at_once)
    np.testing.assert_array_equal(np.sort(np.concatenate(pieces)), np.arange(count))
    assert max(map(len, pieces)) <= at_once
    assert len(set(np.diff(pieces[0]))) <= 1


def test_values_far_outside_a_panel_do_not_reduce_its_precision(generator):
    buffer = generator.uniform(-1, 1, (50, 6)).astype(np.float32)
    buffer[30:, 2] = 1e11
    back = released(compress_buffer(buffer, (-5.0, 5.0)))
    np.testing.assert_allclose(back[:, [0, 1, 3, 4, 5]], buffer[:, [0, 1, 3, 4, 5]], atol=1e-4)
    np.testing.assert_allclose(back[30:, 2], 5.0)


def test_a_clipped_arrow_keeps_its_direction():
    arrows = np.array([[[0, 0, 3e9, 1e9], [1, 1, 2, 2], [-4, 0, -4, -100], [0, 0, np.nan, 1]]])
    expected = [[[0, 0, 6, 2], [1, 1, 2, 2], [-4, 0, -4, -6], [0, 0, np.nan, 1]]]
    np.testing.assert_allclose(clip_arrows(arrows, (-6.0, 6.0)), expected, rtol=1e-6)


def test_frames_to_send_contain_both_ends_and_the_page_gives_their_number():
    few, many = made_up(np.arange(5)), made_up(np.arange(10001))
    np.testing.assert_array_equal(frames_to_send(few, ()), np.arange(5))
    some = frames_to_send(many, ())
    assert (some[0], some[-1], len(some)) == (0, 10000, 4000)
    assert "4000 of 10001 frames" in facts_line(many, some)
    assert "frames" not in facts_line(few, np.arange(5))


def test_edges_of_a_map_are_where_neighbours_differ():
    palette, edges = pixel_palette(Map("m", np.array([[1.0, 1.0, 1.0], [1.0, 0.0, 0.0]]), NAMES[:2]))
    pixels = palette_pixels(np.array([[0, 0], [0, 1]], np.uint8), palette, edges)
    inside, line = 0xFFFFFFFF, 0xFF9E9E9E
    red = 0xFF0000FF
    expected = [[inside] * 4, [inside, inside, line, line], [inside, line, red, red], [inside, line, red, red]]
    np.testing.assert_array_equal(pixels, expected)


def test_ticks_are_few_and_within_the_limits():
    for limits, log in (((-3.7, 2.2), False), ((1e-7, 20.0), True), ((0.65, 0.74), True)):
        found = tick_values(limits, log)
        assert 2 <= len(found) <= 5
        assert all(limits[0] <= tick <= limits[1] for tick in found)


# ---------------------------------------------------------------------------------------------- the time line


def made_up(steps, unit="step", every=1.0):
    steps = np.asarray(steps)
    return Scene("made up", steps, steps / every, unit, (), lambda frames, names: {})


def test_two_runs_share_steps_or_epochs_or_relative_time():
    first, second = made_up([0, 10, 20, 30], "epoch", 10.0), made_up([0, 5, 10], "epoch", 5.0)
    frames = [np.arange(4), np.arange(3)]
    line = make_timeline([first, second], frames, "step")
    np.testing.assert_array_equal(line.times, [0, 5, 10, 20, 30])
    np.testing.assert_array_equal(line.frames[0], [0, 0, 1, 2, 3])
    np.testing.assert_array_equal(line.frames[1], [0, 1, 2, 2, 2])  # it has ended
    line = make_timeline([first, second], frames, "clock")
    assert (line.unit, line.times.tolist()) == ("epoch", [0, 1, 2, 3])
    uneven = made_up([0, 1, 10, 20])  # a share of the clock, not of the frames
    line = make_timeline([uneven, made_up([0, 10])], [np.arange(4), np.arange(2)], "share")
    np.testing.assert_allclose(line.times, [0, 0.05, 0.5, 1])
    line = make_timeline([first, made_up([0, 1])], [np.arange(4), np.arange(2)], "clock")
    assert line.unit == "share"
    np.testing.assert_array_equal(line.frames[1], [0, 0, 0, 1])
    assert line.place(0, first, np.arange(4), 20) == 2


# --------------------------------------------------------------------------------------------- list of runs


@pytest.fixture(scope="module")
def files(tmp_path_factory):
    """Small runs: particles, a network of VC, one of which only metrics were recorded, and what is no trajectory."""
    folder = tmp_path_factory.mktemp("runs")
    particles = folder / "particles.nc"
    simulate(ParticleSettings(n=7, fa=2.0), runs=6, steps=60, out=particles)
    settings = SparseSettings(length=6, sparsity=2, data=64, batch=16, hidden=8)
    simulate(settings, runs=3, steps=120, every=4, out=folder / "sparse.nc")
    simulate(settings, runs=2, steps=40, every=4, out=folder / "metrics.nc", record="metrics")
    (folder / "other.nc").write_text("no trajectory")
    return folder


def test_the_catalogue_gives_the_end_state_of_each_run(files):
    trajectory = open_trajectory(files / "particles.nc")
    entries, last = run_catalogue(trajectory), trajectory["embedding"].values[:, -1]
    assert [entry.seed for entry in entries] == trajectory["seed"].values.tolist()
    assert [entry.structure == "circle" for entry in entries] == is_circle(last).tolist()
    assert [entry.imperfections for entry in entries] == count_imperfections(last).tolist()
    assert {(entry.accuracy, entry.successful, entry.spikes) for entry in entries} == {(None, None, None)}
    sparse = run_catalogue(open_trajectory(files / "sparse.nc"))
    assert all(0 <= entry.accuracy <= 1 and entry.loss > 0 and entry.structure is None for entry in sparse)


def test_the_catalogue_uses_only_results_of_its_own_file(files, typed, tmp_path):
    for name, of in (("mine.nc", "particles.nc"), ("yours.nc", "particles.nc")):
        (tmp_path / name).write_bytes((files / of).read_bytes())
    code, _, err = typed("analysis.events", tmp_path / "mine.nc")
    assert code == 0, err
    counted = run_catalogue(open_trajectory(tmp_path / "mine.nc"), tmp_path / "mine.nc")
    assert all(isinstance(entry.spikes, int) for entry in counted)
    (tmp_path / "mine-events.nc").rename(tmp_path / "yours-events.nc")
    for name in ("mine.nc", "yours.nc"):
        assert {entry.spikes for entry in run_catalogue(open_trajectory(tmp_path / name), tmp_path / name)} == {None}


def test_runs_are_chosen_by_end_kind_and_order():
    entries = [
        RunEntry(0, 10, "done", 0.5, 1.0, False, circuit="none", spikes=3),
        RunEntry(1, 11, "done", 0.99, 0.1, True, circuit="ideal", spikes=1),
        RunEntry(2, 12, "diverged", 0.999, None, False, circuit="none"),
        RunEntry(3, 13, "done", 1.0, 0.0, True, circuit="ideal", spikes=8),
    ]
    places = lambda *words, **more: [entry.place for entry in filter_runs(entries, *words, **more)]  # noqa: E731
    assert places() == [0, 1, 2, 3]
    assert places("successful") == [1, 3]
    assert places("failed") == [0, 2]
    assert places("diverged") == [2]
    assert list(run_endings(entries)) == ["all", "successful", "failed", "diverged"]
    unscored = [RunEntry(0, 1, "done"), RunEntry(1, 2, "done")]  # particles have no accuracy, so that none has failed
    assert filter_runs(unscored, "failed") == []
    assert list(run_endings(unscored)) == ["all"]
    assert places(kind="none") == [0, 2]
    assert places("successful", "ideal", "accuracy") == [3, 1]
    assert places(order="spikes") == [3, 0, 1, 2]
    assert first_run_to_show(entries) == 1
    assert first_run_to_show(entries[:1]) == 0
    header, lines = run_table_lines(entries)
    assert header.split() == ["seed", "acc", "loss", "spikes"]
    assert lines[2].split() == ["12", "0.999", "none", "diverged"]
    assert len({line.index(word) for line, word in zip(lines, ("none", "ideal", "none", "ideal"), strict=True)}) == 1


def test_results_of_another_scalar_or_of_a_shorter_run_are_ignored(typed, tmp_path):
    path = tmp_path / "run.nc"
    simulate(ParticleSettings(n=7, fa=2.0), runs=3, steps=40, out=path)

    def spikes():
        return {entry.spikes for entry in run_catalogue(open_trajectory(path), path)}

    assert typed("analysis.events", path, "--of", "speed")[0] == 0
    assert spikes() == {None}
    assert typed("analysis.events", path)[0] == 0
    assert None not in spikes()
    simulate(ParticleSettings(n=7, fa=2.0), runs=3, steps=60, out=path)
    assert spikes() == {None}


def test_a_changed_file_is_opened_again(tmp_path):
    path = tmp_path / "run.nc"
    simulate(ParticleSettings(n=7), runs=2, steps=10, out=path)
    opened = OpenFiles([path])
    assert opened.opened("run").trajectory is opened.opened("run").trajectory
    simulate(ParticleSettings(n=7), runs=2, steps=15, out=path)
    assert opened.opened("run").trajectory["step"].values[-1] == 15


# ------------------------------------------------------------------------------------------- two runs, parcels


def test_two_runs_have_equal_limits_and_matrix_colours(files):
    scenes = [of(files, "sparse", run) for run in (0, 1)]
    assert scenes[0].panels[0].x != scenes[1].panels[0].x
    both = match_limits(scenes)
    for own, first, second in zip(scenes[0].panels, both[0].panels, both[1].panels, strict=True):
        if not any(isinstance(layer, Map) for layer in own.layers):  # which tiles its own limits
            assert (first.x, first.y) == (second.x, second.y)
            assert first.x[0] <= own.x[0]
            assert first.y[1] >= own.y[1]
        for layer, other in zip(first.layers, second.layers, strict=True):
            if isinstance(layer, Image):
                assert (layer.low, layer.high) == (other.low, other.high)
                assert layer.scale in first.note


def test_data_not_yet_sent_to_a_hidden_page_are_sent_later(files, monkeypatch):
    sent, document = [], Document()
    monkeypatch.setattr(streaming, "_send", lambda screen, data: sent.append(data))
    page = RunsPage([files / "particles.nc"])
    root = Column(children=[page.layout])
    document.add_root(root)

    def called(most):
        while document.session_callbacks and most:
            callback, most = document.session_callbacks[0], most - 1
            document.callbacks.remove_session_callback(callback)
            callback.callback()

    page.show()
    called(2)
    page.hide()
    root.children = []
    before = len(sent)
    called(100)
    assert len(sent) == before
    assert page.parcels.waiting
    root.children = [page.layout]
    page.show()
    called(100)
    arrays = {name for data in sent for name in data if name != "frame"}
    assert len(arrays) > 2
    for name in arrays:
        every = np.concatenate([data.get("frame", np.arange(61)) for data in sent if name in data])
        np.testing.assert_array_equal(np.sort(every), np.arange(61))


# -------------------------------------------------------------------------------- the page without a browser


def looked_at(path, **settings):
    page = RunsPage([path])
    page.settings.param.update(**settings)
    page.show()
    return page


def test_names_of_panels_and_axes_are_parsed_or_refused():
    assert parse_panels("b, a", ("a", "b", "c")) == ["a", "b"]
    assert (parse_panels("", ("a",)), parse_panels("none", ("a",))) == ([], [])
    with pytest.raises(SettingsError, match="foo"):
        parse_panels("a,foo", ("a", "b"))
    assert (parse_axes(""), parse_axes("2,0")) == (None, (2, 0))
    for words in ("1", "a,b", "0,1,2", "-1,0"):
        with pytest.raises(SettingsError, match="axes"):
            parse_axes(words)


def test_a_run_with_metrics_only_shows_curves(files):
    page = looked_at(files / "metrics.nc")
    assert not page.message.visible
    assert {part["kind"] for part in page.screen.parts} == {"cursor"}


@pytest.mark.parametrize(
    ("name", "settings", "words"),
    [("other.nc", {}, "other.nc"), ("gone.nc", {}, "no such file"), ("particles.nc", {"run": 6}, "from 0 to 5"),
     ("particles.nc", {"panels": "nonsense"}, "panels"), ("particles.nc", {"axes": "0,9"}, "axes")],
)  # fmt: skip
def test_the_page_shows_why_a_run_cannot_be_shown(files, name, settings, words):
    page = looked_at(files / name, **settings)
    assert page.message.visible
    assert words in page.message.text
    assert not page.wall.children


def test_a_missing_second_run_is_reported_by_its_setting(files):
    page = looked_at(files / "particles.nc", other_file="particles", other_run=6)
    assert "other_run" in page.message.text


def test_no_panels_are_shown_if_none_is_selected(files):
    page = looked_at(files / "particles.nc", panels="none")
    assert (page.screen.panels, page.message.text) == ([], "no panel is chosen")
    page.settings.panels = ""
    assert page.screen.panels == default_panel_names([panel.name for panel in page.screen.scenes[0].panels])
    assert not page.message.visible


def test_a_page_recovers_from_an_error(files):
    page = looked_at(files / "particles.nc", axes="0,9")
    page.settings.axes = ""
    assert not page.message.visible
    assert page.wall.children


def test_without_a_file_the_page_explains_how_to_name_one():
    page = RunsPage([])
    page.show()
    assert "analysis.explore" in page.message.text


def test_another_file_starts_with_one_of_its_own_runs(files):
    page = RunsPage(OpenFiles([files / "particles.nc", files / "sparse.nc"]))
    page.show()
    page.settings.run = 5
    page.settings.file = "sparse"
    assert page.settings.run < 3
    assert page.screen.scenes[0].title.startswith("sparse")
    page.settings.other_file = "particles"
    assert page.screen.line.unit == "share"
    page.settings.other_file = NO_CHOICE
    assert len(page.screen.scenes) == 1


# -------------------------------------------------------------------------------------- the page in a browser


@pytest.fixture(scope="module")
def server(served, files):
    return served(files / "particles.nc", files / "sparse.nc")


@pytest.fixture
def page(chromium_page, server):
    """The page of recorded runs, with the buffers that follow it."""

    def opened(tall=False, **settings):
        if tall:  # what is out of sight is not drawn
            chromium_page.set_viewport_size({"width": 1400, "height": 2200})
        words = "&".join(f"{name}={value}" for name, value in {"tab": "runs", **settings}.items())
        chromium_page.goto(f"{server.address}?{words}")
        drawn(chromium_page)
        there(chromium_page)
        return chromium_page

    return opened


def there(page, number=0):
    """Wait for the buffers of a stage after one."""
    page.wait_for_function(
        "(number) => window.scrubber?.stage?.number > number && scrubber.stage.buffers.size > 0 && scrubber.painted > 0"
        " && scrubber.stage.parts.every((part) => part.kind == 'cursor' ||"
        "   scrubber.stage.buffers.has(`${part.lane}/${part.array}`))"
        " && ![...scrubber.stage.buffers.values()].some((buffer) => buffer.held)",
        arg=number,
    )


TIPS = """(() => {
  const all = (root) => [...root.querySelectorAll("*")]
  const deep = (root) => all(root).flatMap((node) => [node, ...(node.shadowRoot ? deep(node.shadowRoot) : [])])
  return deep(document).some((node) => node.matches(".bk-Tooltip") &&
    names.some((name) => (node.shadowRoot ?? node).textContent.endsWith(name)))
})()"""

STATE = """() => {
  const {stage} = scrubber, place = Math.floor(scrubber.place), document = Bokeh.documents[0]
  return {place, step: stage.lanes[0].steps[stage.lanes[0].frames[place]], number: stage.number,
    frames: stage.lanes.map((lane) => lane.frames[place]), playing: scrubber.playing, last: scrubber.last,
    parts: stage.parts.map((part) => {
      const {data} = document.get_model_by_id(part.source.id)
      const list = (name) => Array.from(data[name] ?? [])
      const number = data.number ? Array.from(data.number[0]) : []
      const image = data.image?.[0], pixels = image ? new Uint32Array(image.buffer, image.byteOffset, image.length) : []
      return {array: part.array, lane: part.lane, kind: part.kind, number, pixels: Array.from(pixels),
        x: list("x"), y: list("y"), x1: list("x1"), y1: list("y1")}
    })}
}"""


def seek(page, place):
    """Move the slider as a person does, and wait until that is painted."""
    slider = page.get_by_role("slider", name="Frame")
    slider.evaluate(
        "(slider, place) => { slider.value = place;"
        " slider.dispatchEvent(new InputEvent('input', {bubbles: true, composed: true})) }",
        place,
    )
    page.wait_for_function("(place) => scrubber.drawn == place", arg=place)
    page.evaluate("() => new Promise((done) => requestAnimationFrame(() => requestAnimationFrame(done)))")
    return page.evaluate(STATE)


def assert_shows(state, scenes):
    """What is drawn is what the scenes say of the frame."""
    for part in state["parts"]:
        content, frame = scenes[part["lane"]], state["frames"][part["lane"]]
        if part["kind"] == "cursor":
            assert part["x"] == [pytest.approx(content.clock[frame])]
            continue
        layer = next(each for panel in content.panels for each in panel.layers
                     if getattr(each, "array", None) == part["array"])  # fmt: skip
        values = content.compute_arrays(np.array([frame]), [part["array"]])[part["array"]]
        if part["kind"] == "pixels":
            number = values[0].ravel() if isinstance(layer, Map) else encode_layer(layer, values)[0]
            np.testing.assert_array_equal(part["number"], number)
            pixels = palette_pixels(np.reshape(number, values.shape[1:]).astype(np.int64), *pixel_palette(layer))
            np.testing.assert_array_equal(part["pixels"], pixels.ravel())
        else:
            names = ("x", "y") if part["kind"] == "points" else ("x1", "y1")
            found = np.array([part[name] for name in names], np.float32)
            np.testing.assert_allclose(found, values[0].T[-2:], rtol=1e-6)


def of(files, name, run):
    return build_scene(open_trajectory(files / f"{name}.nc"), run)


PART = "scrubber.stage.parts.find((part) => part.name_widths)"
NAMES = f"""() => {{
  const part = {PART}, {{data}} = part.source
  return [...["x", "y", "named"].map((name) => Array.from(data[name])), part.name_widths, part.name_height]
}}"""
LARGE = f"""() => {{
  const part = {PART}
  part.name_widths = part.name_widths.map((width) => 12 * width)
  part.name_height *= 4
}}"""


@pytest.mark.parametrize("large", [False, True])
def test_labels_do_not_overlap(page, large):
    shown = page(tall=True, file="particles", run=0, panels="embedding")
    if large:
        shown.evaluate(LARGE)
    for place in (1, 10, 20):
        seek(shown, place)
        x, y, named, width, height = map(np.array, shown.evaluate(NAMES))
        left, right = np.maximum(x[:, None], x), np.minimum((x + width)[:, None], x + width)
        over = (left < right) & (np.abs(y[:, None] - y) < height) & ~np.eye(len(x), dtype=bool)
        named = named.astype(bool)
        assert not over[np.ix_(named, named)].any()
        assert over[~named][:, named].any(axis=1).all()  # none is left out without need
        assert named.all() or large
        assert named[0]


def test_scrubbing_updates_every_panel(page, files):
    names = ",".join(panel_names(open_trajectory(files / "sparse.nc")))
    shown = page(tall=True, file="sparse", run=1, panels=names)
    content = of(files, "sparse", 1)
    for place in (0, 7, 30):
        state = seek(shown, place)
        assert len({part["array"] for part in state["parts"]}) > 10
        assert state["frames"] == [place]
        assert_shows(state, [content])


def test_keys_step_jump_and_play(page, files):
    shown = page(file="particles", run=2, step=20)
    assert shown.evaluate(STATE)["step"] == 20

    def pressed(key, place):
        shown.keyboard.press(key)
        shown.wait_for_function("(place) => scrubber.drawn == place", arg=place)

    pressed("ArrowRight", 21)
    pressed("ArrowLeft", 20)
    pressed("Shift+ArrowRight", 30)
    pressed("End", 60)
    pressed("Home", 0)
    events = sorted({mark["place"] for mark in shown.evaluate("scrubber.stage.marks.map((mark) => ({...mark}))")} - {0})
    pressed("PageDown", events[0])
    pressed("Home", 0)
    shown.evaluate("scrubber.speed = 60")
    shown.keyboard.press("Space")
    shown.wait_for_function("scrubber.playing && scrubber.drawn > 5")
    assert shown.get_by_role("button", name="Pause").is_visible()
    shown.keyboard.press("Space")
    shown.wait_for_function("!scrubber.playing")
    rest = shown.evaluate(STATE)
    assert_shows(rest, [of(files, "particles", 2)])
    shown.wait_for_function("(step) => location.search.includes(`step=${step}`)", arg=int(rest["step"]))


def test_playing_stops_at_the_last_frame_and_restarts(page):
    shown = page(file="particles", step=50)
    shown.evaluate("scrubber.speed = 120")
    play = shown.get_by_role("button", name="Play")
    play.click()
    shown.wait_for_function("!scrubber.playing && scrubber.drawn == 60")
    play.click()
    shown.wait_for_function("scrubber.playing && scrubber.drawn < 50")


def test_a_run_is_selected_while_another_plays(page, files):
    shown = page(file="particles", run=0)
    before = shown.evaluate(STATE)["number"]
    shown.evaluate("scrubber.speed = 5")
    shown.get_by_role("button", name="Play").click()
    shown.get_by_label("runs", exact=True).select_option("3")
    there(shown, before)
    assert shown.evaluate("scrubber.playing")
    shown.evaluate("scrubber.play(false)")
    assert_shows(seek(shown, 33), [of(files, "particles", 3)])
    shown.wait_for_function("location.search.includes('run=3')")


def test_the_list_is_filtered(page, files):
    shown = page(file="particles")
    entries = run_catalogue(open_trajectory(files / "particles.nc"))
    kinds = {entry.structure for entry in entries}
    for kind in kinds:
        expected = [str(entry.place) for entry in entries if entry.structure == kind]
        shown.get_by_label("kind of run").select_option(label=f"{kind} ({len(expected)})")
        shown.wait_for_function(
            "(expected) => { const deep = (root) => [...root.querySelectorAll('*')].flatMap((node) => [node,"
            " ...(node.shadowRoot ? deep(node.shadowRoot) : [])]);"
            " const list = deep(document).find((node) => node.matches('select[multiple]'));"
            " return String([...list.options].map((option) => option.value)) == String(expected) }",
            arg=expected,
        )


def test_two_runs_move_together(page, files):
    shown = page(tall=True, file="particles", run=0, other_file="particles", other_run=4)
    state = seek(shown, 41)
    assert state["frames"] == [41, 41]
    assert {part["lane"] for part in state["parts"]} == {0, 1}
    assert_shows(state, [of(files, "particles", 0), of(files, "particles", 4)])


def test_a_click_on_a_mark_jumps_to_its_event(page):
    shown = page(file="particles", run=0)
    marks = shown.evaluate("scrubber.stage.marks.map((mark) => ({...mark}))")
    assert marks
    shown.locator(f"[data-to='{marks[-1]['place']}']").first.evaluate("(tick) => tick.click()")
    shown.wait_for_function("(place) => scrubber.drawn == place", arg=marks[-1]["place"])


def test_a_click_on_a_curve_jumps_to_its_frame(page):
    shown = page(file="particles", run=0, panels="gradient_norm")
    box = shown.locator(".bk-Figure").first.bounding_box()
    shown.mouse.click(box["x"] + box["width"] / 2, box["y"] + box["height"] / 2)
    shown.wait_for_function("scrubber.drawn > 10 && scrubber.drawn < 50")


def test_the_tooltip_of_a_map_names_the_class(page, files):
    shown = page(file="particles", run=0, panels="pair_sums", step=60)
    box = shown.locator(".bk-Figure").first.bounding_box()
    shown.mouse.move(box["x"] + box["width"] * 0.25, box["y"] + box["height"] * 0.2)
    names = next(layer.names for layer in of(files, "particles", 0).panels[1].layers if isinstance(layer, Map))
    shown.wait_for_function("(names) => " + TIPS, arg=list(names))


def test_the_page_continues_after_a_change_of_tabs(page, files):
    shown = page(file="particles", run=1, step=30)
    for name in ("Particles", "Runs"):
        shown.get_by_role("button", name=name).click()
        shown.wait_for_function(f"!!scrubber.bar?.isConnected == {str(name == 'Runs').lower()}")
    shown.keyboard.press("ArrowRight")
    shown.wait_for_function("scrubber.drawn == 31")
    assert_shows(shown.evaluate(STATE), [of(files, "particles", 1)])


def test_panels_are_selected_by_labelled_checkboxes(page):
    shown = page(file="particles", run=0, panels="embedding")
    before = shown.evaluate(STATE)
    assert {part["array"] for part in before["parts"]} == {"embedding"}
    shown.get_by_role("checkbox", name="pair sums").check()
    there(shown, before["number"])
    assert "pair_sums" in {part["array"] for part in shown.evaluate(STATE)["parts"]}


def test_every_control_is_labelled_and_reached_by_tab(page):
    shown = page(file="particles")
    reached = set()
    for _ in range(60):
        shown.keyboard.press("Tab")
        name = shown.evaluate(
            """() => { let on = document.activeElement
            while (on?.shadowRoot?.activeElement) on = on.shadowRoot.activeElement
            if (!on || on === document.body) return null
            const label = on.getAttribute("aria-label") || on.labels?.[0]?.textContent || on.textContent || on.title
            return label.trim() || "nameless " + on.outerHTML.slice(0, 120) }"""
        )
        if name is None:
            break
        reached.add(re.sub(r"\s*\(.*", "", name))
    assert not [name for name in reached if name.startswith("nameless")]
    assert {"Play", "Frame", "Speed", "One frame on", "Next event", "file", "order", "embedding"} <= reached


def test_texts_of_a_file_are_escaped(files, tmp_path):
    content = of(files, "particles", 0)
    nasty = replace(content.panels[0], title="<img src=x onerror=alert(1)>", note="<b>")
    from analysis.explorer.bokeh_panels import panel_heading

    text = panel_heading(nasty, 200).text
    assert "<img" not in text
    assert "<b>" not in text
