"""The page of recorded runs: buffers, the list of runs, the time line, and the page
itself in a browser."""

import base64
import re
import zlib
from dataclasses import replace

import matplotlib.pyplot as plt
import numpy as np
import pytest
from bokeh.document import Document
from bokeh.models import Column

from analysis.explorer import OpenFiles, catalogue, codec, streaming
from analysis.explorer.bokeh_panels import (
    MARKED_EVENTS,
    make_bokeh_panel,
    palette_pixels,
    panel_heading,
    pixel_palette,
)
from analysis.explorer.recorded_runs import RunsPage
from analysis.explorer.screen import facts_line, match_limits
from analysis.explorer.timeline import make_timeline
from analysis.explorer.view_settings import (
    NO_CHOICE,
    default_panel_names,
    parse_axes,
    parse_panels,
)
from analysis.panels import (
    Arrows,
    Curves,
    EventMark,
    Image,
    Map,
    Panel,
    Points,
    Scene,
    panel_names,
)
from analysis.panels.run_scene import build_scene
from analysis.structures.circles_and_grids import count_imperfections, is_circle
from dynamics import (
    ModularSettings,
    ParticleSettings,
    SettingsError,
    SparseSettings,
    TransformerSettings,
    open_trajectory,
    simulate,
)
from tests.analysis.explorer.player_state import (
    BUFFERS_ARE_THERE,
    PIXEL,
    STATE,
    assert_shows,
    scene_of,
    seek,
    wait_for_frame,
)
from tests.browser import open_page, show_browser_tab

BLACK = np.zeros((3, 3))
NAMES = ("a", "b", "c")

# ------------------------------------------------------------------------------ buffers


def decoded(layer, buffer, shape):
    """What a layer shows, of its buffer (frame, width): the inverse of `encode_layer`.
    shape: of one frame."""
    if isinstance(layer, Points | Arrows):
        return np.moveaxis(buffer.reshape(len(buffer), shape[1], shape[0]), 1, 2)
    values = buffer.reshape(len(buffer), *shape)
    if isinstance(layer, Map):
        return values // 4 if layer.lines else values
    level = values[:, ::-1].astype(np.float64)
    fraction = np.where(level == codec.IMAGE_GAP, np.nan, level / codec.IMAGE_LEVELS)
    return layer.low + fraction * (layer.high - layer.low)


def decompressed(buffer):
    """The buffer (frame, width) again, as a browser has it."""
    kind = np.dtype(buffer["kind"])
    raw = np.frombuffer(zlib.decompress(base64.b64decode(buffer["text"])), np.uint8)
    digits = np.moveaxis(raw.reshape(kind.itemsize, -1, buffer["width"]), 0, -1)
    change = np.ascontiguousarray(digits).view(f"u{kind.itemsize}")[..., 0]
    numbers = np.cumsum(change, axis=0, dtype=change.dtype)
    return (numbers << 10).view(kind) if kind.kind == "f" else numbers


@pytest.mark.parametrize(
    ("layer", "width"), [(Points("x", BLACK, NAMES), 2), (Arrows("a", BLACK, NAMES), 4)]
)
def test_points_and_arrows_survive_encoding_and_a_frame_is_contiguous(
    layer, width, generator
):
    values = generator.normal(size=(5, 3, width)).astype(np.float32)
    values[2, 1] = np.nan
    buffer = codec.encode_layer(layer, values)
    assert buffer.shape == (5, 3 * width)
    np.testing.assert_array_equal(buffer[2, :3], values[2, :, 0])
    np.testing.assert_array_equal(decoded(layer, buffer, (3, width)), values)


@pytest.mark.parametrize(
    ("colours", "lines", "kind"),
    [(7, True, "u1"), (65, True, "u2"), (256, False, "u1")],
)
def test_maps_survive_encoding(colours, lines, kind, generator):
    layer = Map("m", np.zeros((colours, 3)), ("",) * colours, lines)
    numbers = generator.integers(0, colours, (4, 6, 5))
    buffer = codec.encode_layer(layer, numbers)
    assert buffer.dtype == kind
    np.testing.assert_array_equal(decoded(layer, buffer, (6, 5)), numbers)


def test_an_image_survives_encoding_to_half_a_level_with_its_gaps(generator):
    layer = Image("i", -1.0, 3.0, NAMES, ("k", "l"))
    values = generator.uniform(-1, 3, (4, 3, 2))
    values[1, 2, 0] = np.nan
    buffer = codec.encode_layer(layer, values)
    np.testing.assert_allclose(
        decoded(layer, buffer, (3, 2)), values, atol=4 / 254 / 2 + 1e-12
    )  # a gap is NaN
    assert buffer[0, 0] == round(
        (values[0, 2, 0] + 1) / 4 * 254
    )  # the lowest row first


def test_compression_keeps_integers_exactly_and_floats_to_half_a_digit(generator):
    walk = np.cumsum(generator.normal(size=(200, 12)), axis=0).astype(np.float32)
    walk[7, 3], walk[30:, 2], walk[9] = np.nan, 1e11, 0.0
    walk[:, 5] *= 1e-30
    back = decompressed(codec.compress_buffer(walk))
    np.testing.assert_allclose(back, walk, rtol=2**-14)
    numbers = [
        generator.integers(0, 2**bits, (30, 9)).astype(f"u{bits // 8}")
        for bits in (8, 16)
    ]
    values = (7, -0.5, np.nan, np.inf)
    for exact in (*numbers, *(np.full((3, 2), x, np.float32) for x in values)):
        np.testing.assert_array_equal(decompressed(codec.compress_buffer(exact)), exact)


@pytest.mark.parametrize("count", [1, 5, 101, 1001])
def test_frames_are_ordered_from_coarse_to_fine(count):
    order = codec.coarse_to_fine(count)
    np.testing.assert_array_equal(np.sort(order), np.arange(count))
    for power in range(10):
        every = np.arange(0, count, 2**power)
        np.testing.assert_array_equal(np.sort(order[: len(every)]), every)


def test_frames_to_send_contain_both_ends_and_the_page_gives_their_number():
    few, many = made_up(np.arange(5)), made_up(np.arange(10001))
    np.testing.assert_array_equal(codec.frames_to_send(few, ()), np.arange(5))
    some = codec.frames_to_send(many, ())
    assert (some[0], some[-1], len(some)) == (0, 10000, 4000)
    assert "4000 of 10001 frames" in facts_line(many, some)
    assert "frames" not in facts_line(few, np.arange(5))


def test_facts_of_a_run_are_in_words():
    facts = {
        "seed": "3",
        "status": "done",
        "accuracy": "99.8% train",
        "loss": "0.01 train",
        "structure": "circle",
    }
    scene = replace(made_up(np.arange(5)), facts=facts)
    assert facts_line(scene, np.arange(5)) == (
        "finished; at the last step: correct: 99.8% train; loss: 0.01 train; circle"
    )


def test_edges_of_a_map_are_where_neighbours_differ():
    palette, edges = pixel_palette(
        Map("m", np.array([[1.0, 1.0, 1.0], [1.0, 0.0, 0.0]]), NAMES[:2])
    )
    pixels = palette_pixels(np.array([[0, 0], [0, 1]], np.uint8), palette, edges)
    inside, line, red = 0xFFFFFFFF, 0xFF9E9E9E, 0xFF0000FF
    expected = [
        [inside] * 4,
        [inside, inside, line, line],
        [inside, line, red, red],
        [inside, line, red, red],
    ]
    np.testing.assert_array_equal(pixels, expected)


@pytest.mark.parametrize(("log", "lowest"), [(False, 80.0), (True, 10**1.6)])
def test_events_are_ticks_in_the_upper_tenth_of_their_panel(log, lowest):
    curves = Curves(np.arange(5), np.full((1, 5), 9.0), BLACK[:1], ("loss",))
    limits = {"x": (0, 4), "y": (1e-2, 1e2)}
    panel = Panel("loss", "loss", (curves,), **limits, equal=False, log=log)
    scene = replace(
        made_up(np.arange(5)), detect_events=lambda: (EventMark("drop", 1, 2, 3),)
    )
    plot = make_bokeh_panel(panel, {}, scene).plot
    (ticks,) = [glyph for glyph in plot.renderers if "y0" in glyph.data_source.data]
    data = ticks.data_source.data
    assert (data["x0"].tolist(), data["x1"].tolist()) == ([2], [2])
    assert ticks.glyph.y1 == 1e2
    assert lowest < data["y0"][0] < 1e2


# ------------------------------------------------------------------------ the time line


def made_up(steps, unit="step", every=1.0):
    steps = np.asarray(steps)
    return Scene("made up", steps, steps / every, unit, ())


def test_two_runs_share_epochs_or_relative_time():
    first, second = (
        made_up([0, 10, 20, 30], "epoch", 10.0),
        made_up([0, 5, 10], "epoch", 5.0),
    )
    frames = [np.arange(4), np.arange(3)]
    line = make_timeline([first, second], frames)
    assert (line.unit, line.times.tolist()) == ("epoch", [0, 1, 2, 3])
    np.testing.assert_array_equal(line.frames[0], [0, 1, 2, 3])
    np.testing.assert_array_equal(line.frames[1], [0, 1, 2, 2])  # it has ended
    uneven = made_up([0, 1, 10, 20])  # a share of the clock, not of the frames
    line = make_timeline([uneven, second], [np.arange(4), np.arange(3)])
    np.testing.assert_allclose(line.times, [0, 0.05, 0.5, 1])
    line = make_timeline([first, made_up([0, 1])], [np.arange(4), np.arange(2)])
    assert line.unit == "share"
    np.testing.assert_array_equal(line.frames[1], [0, 0, 0, 1])
    assert line.index_of_step(0, first, np.arange(4), 20) == 2


# ------------------------------------------------------------------------- list of runs


def test_the_catalogue_gives_the_end_state_of_each_run(runs_folder):
    trajectory = open_trajectory(runs_folder / "particles.nc")
    entries, last = (
        catalogue.run_catalogue(trajectory),
        trajectory["embedding"].values[:, -1],
    )
    assert [entry.seed for entry in entries] == trajectory["seed"].values.tolist()
    assert [entry.structure == "circle" for entry in entries] == is_circle(
        last
    ).tolist()
    assert [entry.imperfections for entry in entries] == count_imperfections(
        last
    ).tolist()
    assert {(entry.accuracy, entry.successful, entry.spikes) for entry in entries} == {
        (None, None, None)
    }
    sparse = catalogue.run_catalogue(open_trajectory(runs_folder / "sparse.nc"))
    assert all(
        0 <= entry.accuracy <= 1 and entry.loss > 0 and entry.structure is None
        for entry in sparse
    )


def test_the_catalogue_uses_only_results_of_its_own_file_and_of_the_loss(
    output_of, tmp_path
):
    mine, yours = tmp_path / "mine.nc", tmp_path / "yours.nc"
    simulate(ParticleSettings(n=7, fa=2.0), runs=3, steps=40, out=mine)

    def spikes(path=mine):
        return {
            entry.spikes
            for entry in catalogue.run_catalogue(open_trajectory(path), path)
        }

    output_of("analysis.events", mine, "--of", "speed")
    assert spikes() == {None}
    output_of("analysis.events", mine)
    assert all(isinstance(spike, int) for spike in spikes())
    yours.write_bytes(mine.read_bytes())
    (tmp_path / "yours-events.nc").write_bytes(
        (tmp_path / "mine-events.nc").read_bytes()
    )
    assert spikes(yours) == {None}
    simulate(
        ParticleSettings(n=7, fa=2.0), runs=3, steps=60, out=mine
    )  # the results are of a shorter run
    assert spikes() == {None}


def test_runs_are_grouped_and_sorted():
    entries = [
        catalogue.RunEntry(0, 10, "done", 0.5, 1.0, False, circuit="none", spikes=3),
        catalogue.RunEntry(1, 11, "done", 0.99, 0.1, True, circuit="ideal", spikes=1),
        catalogue.RunEntry(2, 12, "diverged", 0.999, None, False, circuit="none"),
        catalogue.RunEntry(3, 13, "done", 1.0, 0.0, True, circuit="ideal", spikes=8),
    ]
    assert entries[1].groups == ["accuracy above .98", "ideal"]
    assert entries[2].groups == ["diverged", "accuracy up to .98", "none"]
    assert catalogue.RunEntry(0, 0, "done").groups == []
    for order, expected in (
        ("run", [0, 1, 2, 3]),
        ("accuracy", [3, 2, 1, 0]),
        ("spikes", [3, 0, 1, 2]),
    ):
        result = catalogue.sort_runs(entries, order)
        assert [entry.run for entry in result] == expected
    assert [catalogue.first_run(some) for some in (entries, entries[:1])] == [
        1,
        0,
    ]
    header, *lines = catalogue.run_table_lines(entries)
    assert header.split() == ["seed", "acc", "loss", "spikes", "end"]
    assert lines[2].split() == ["12", "0.999", "diverged"]
    words = ("none", "ideal", "diverged", "ideal")
    assert {line.index(word) for line, word in zip(lines, words, strict=True)} == {
        header.index("end")
    }


def test_losses_of_the_list_have_two_digits():
    losses = (0.7, 2.04e-05, 0.123, 12.3)
    entries = [catalogue.RunEntry(k, k, "done", loss=x) for k, x in enumerate(losses)]
    _, *lines = catalogue.run_table_lines(entries)
    assert [line.split()[1] for line in lines] == ["0.70", "2.0e-05", "0.12", "12"]


def test_a_changed_file_is_opened_again(tmp_path):
    path = tmp_path / "run.nc"
    simulate(ParticleSettings(n=7), runs=2, steps=10, out=path)
    opened = OpenFiles([path])
    assert opened.opened("run").trajectory is opened.opened("run").trajectory
    simulate(ParticleSettings(n=7), runs=2, steps=15, out=path)
    assert opened.opened("run").trajectory["step"].values[-1] == 15


# -------------------------------------------------------------------- two runs, batches


def test_two_runs_have_equal_limits_and_matrix_colours(runs_folder):
    scenes = [scene_of(runs_folder, "sparse", run) for run in (0, 1)]
    assert scenes[0].panels[0].x != scenes[1].panels[0].x
    both = match_limits(scenes)
    for own, first, second in zip(
        scenes[0].panels, both[0].panels, both[1].panels, strict=True
    ):
        if not any(
            isinstance(layer, Map) for layer in own.layers
        ):  # which tiles its own limits
            assert (first.x, first.y) == (second.x, second.y)
            assert first.x[0] <= own.x[0]
            assert first.y[1] >= own.y[1]
        for layer, other in zip(first.layers, second.layers, strict=True):
            if isinstance(layer, Image):
                assert (layer.low, layer.high) == (other.low, other.high)


def test_data_not_yet_sent_to_a_hidden_page_are_sent_later(runs_folder, monkeypatch):
    sent, document = [], Document()
    monkeypatch.setattr(streaming, "_send", lambda screen, data: sent.append(data))
    page = RunsPage(OpenFiles([runs_folder / "particles.nc"]))
    root = Column()
    document.add_root(root)

    def called(most, visible):
        root.children = [page.layout] if visible else []
        page.show() if visible else page.hide()
        for _ in range(most):
            for callback in document.session_callbacks:
                callback.callback()
        return len(sent)

    assert called(2, True) == called(100, False)
    assert page.buffer_stream.unsent
    called(100, True)
    arrays = {name for data in sent for name in data if name != "frame"}
    assert len(arrays) > 2
    for name in arrays:
        every = np.concatenate([data["frame"] for data in sent if name in data])
        np.testing.assert_array_equal(np.sort(every), np.arange(61))


# ----------------------------------------------------------- the page without a browser


def page_of(paths, **settings):
    page = RunsPage(OpenFiles(paths))
    page.settings.param.update(**settings)
    page.show()
    return page


def test_names_of_panels_and_axes_are_parsed_or_refused():
    assert parse_panels("b, a", ("a", "b", "c")) == ["a", "b"]
    assert (parse_panels("", ("a",)), parse_panels("none", ("a",))) == ([], [])
    assert (parse_axes(""), parse_axes("2,0")) == (None, (2, 0))
    with pytest.raises(SettingsError, match="foo"):
        parse_panels("a,foo", ("a", "b"))
    for words in ("1", "a,b", "0,1,2", "-1,0"):
        with pytest.raises(SettingsError, match="axes"):
            parse_axes(words)


def test_a_run_with_metrics_only_shows_curves(runs_folder):
    page = page_of([runs_folder / "metrics.nc"])
    assert not page.message.visible
    assert {part["kind"] for part in page.screen.parts} == {"cursor"}


@pytest.mark.parametrize(
    ("settings", "words"),
    [
        ({"run": 6}, "from 0 to 5"),
        ({"panels": "nonsense"}, "no nonsense here. The main panels are shown"),
        ({"panels": "attention,force"}, "no attention here. The others are shown"),
        ({"axes": "0,9"}, "axes"),
        ({"other_file": "particles", "other_run": 6}, "other_run"),
    ],
)
def test_settings_that_a_file_does_not_allow_are_replaced_with_a_note(
    runs_folder, settings, words
):
    page = page_of([runs_folder / "particles.nc"], **settings)
    assert page.message.visible
    assert words in page.message.text
    assert page.panel_column.children
    names = {"attention,force": ["force"]}.get(
        settings.get("panels"), default_panel_names(page.screen.scenes)
    )
    assert page.screen.panels == names
    page.settings.param.update(
        {
            setting: RunsPage(OpenFiles([])).settings.param[setting].default
            for setting in settings
        }
    )
    assert not page.message.visible


@pytest.mark.parametrize(
    ("name", "words"), [("other.nc", "other.nc"), ("gone.nc", "no such file")]
)
def test_the_page_shows_why_a_file_cannot_be_shown(runs_folder, name, words):
    page = page_of([runs_folder / name])
    assert page.message.visible
    assert words in page.message.text
    assert not page.panel_column.children


def test_no_panels_are_shown_if_none_is_selected(runs_folder):
    assert "analysis.explore" in page_of([]).message.text  # how to name a file
    page = page_of([runs_folder / "particles.nc"], panels="none")
    assert (page.screen.panels, page.message.text) == ([], "no panel is chosen")
    page.settings.panels = ""
    assert page.screen.panels == default_panel_names(page.screen.scenes)
    assert not page.message.visible


def test_a_page_opens_at_the_end_or_at_its_step(runs_folder):
    for step, start in ((None, 60), (20, 20)):
        assert (
            page_of([runs_folder / "particles.nc"], step=step).screen.arguments["start"]
            == start
        )


def test_another_file_starts_at_the_end_of_one_of_its_own_runs(runs_folder):
    page = page_of(
        [runs_folder / "particles.nc", runs_folder / "sparse.nc"], run=5, step=20
    )
    page.settings.file = "sparse"
    assert page.settings.run < 3
    assert (page.screen.arguments["start"], page.screen.arguments["keep"]) == (
        30,
        False,
    )
    assert page.screen.scenes[0].title.startswith("sparse")
    page.settings.other_file = "particles"
    assert page.screen.line.unit == "share"
    for wall in page.screen.layout.children:  # which both systems have
        assert wall.children[-1].children[0].name == "gradient_norm"
    page.settings.other_file = NO_CHOICE
    assert len(page.screen.scenes) == 1


@pytest.mark.parametrize(
    "settings",
    [
        ParticleSettings(n=5),
        ModularSettings(n=5, hidden=4),
        SparseSettings(length=4, sparsity=2, data=16, batch=8, hidden=4),
        TransformerSettings(n=5, dim=8, heads=2, train_share=0.6),
    ],
    ids=lambda settings: settings.system,
)
def test_every_panel_is_explained(settings):
    run = simulate(settings, runs=1, steps=4, every=1, progress=False)
    scene = build_scene(run, 0)
    for panel in scene.panels:
        assert panel.explanation
        assert panel.explanation in panel_heading(panel).text


def test_the_caption_of_a_matrix_says_what_its_rows_and_columns_are(runs_folder):
    panels = {panel.name: panel for panel in scene_of(runs_folder, "sparse", 0).panels}
    text = panel_heading(panels["attention"]).text
    assert "; rows: sequence; columns: position" in re.sub("<[^>]*>", "", text)
    named = make_bokeh_panel(
        Panel(
            "map",
            "map",
            (Image("values", 0.0, 1.0, ("a",), tuple(map(str, range(12)))),),
            (-0.5, 11.5),
            (-0.5, 0.5),
            equal=False,
        ),
        {"values": np.zeros((1, 1, 12))},
    )
    assert list(named.plot.xaxis[0].ticker.ticks) == [0, 2, 4, 6, 8, 10]


def test_texts_of_a_file_are_escaped(runs_folder):
    panel = scene_of(runs_folder, "particles", 0).panels[0]
    text = panel_heading(
        replace(panel, title="<img src=x onerror=alert(1)>", note="<b>")
    ).text
    assert not re.search("<img|<b>", text)


# ---------------------------------------------------------------- the page in a browser


@pytest.fixture
def page(chromium_page, explorer):
    """The page of recorded runs, with the buffers that follow it."""

    def opened(tall=False, **settings):
        if tall:  # what is out of sight is not drawn
            chromium_page.set_viewport_size({"width": 1400, "height": 2200})
        words = "&".join(
            f"{name}={value}" for name, value in {"tab": "runs", **settings}.items()
        )
        open_page(chromium_page, f"{explorer.address}?{words}")
        there(chromium_page)
        return chromium_page

    return opened


def there(page, number=0):
    """Wait for the buffers of a stage after one."""
    page.wait_for_function(
        "(number) => window.scrubber?.stage?.number > number &&"
        f" {BUFFERS_ARE_THERE} &&"
        " ![...scrubber.stage.buffers.values()].some((buffer) => buffer.held)",
        arg=number,
    )


LABELS = """() => {
  const {glyph} = [...Bokeh.index.all_views()].find(({model, glyph}) => glyph?.model.type == "Text")
  const offsets = Array.from({length: glyph.data_size}, (_, k) => glyph.x_offset.get(k) ?? NaN)
  return [...["sx", "sy"].map((name) => Array.from(glyph[name])), offsets]
}"""
CROWD = """() => {
  const {x_range, y_range} = scrubber.stage.parts[0].plot
  for (const range of [x_range, y_range]) range.setv({start: 20 * range.start, end: 20 * range.end})
}"""
COVERING = 12.6
"""Distance in pixels below which a mark covers the label of an earlier one."""


def test_labels_are_on_their_marks_unless_a_later_one_covers_them(page):
    tab = page(tall=True, file="particles", run=0, panels="embedding")
    for crowded in (False, True):
        if crowded:
            tab.evaluate(CROWD)
        seek(tab, 1 + crowded)
        for _ in range(100):  # until Bokeh has painted
            x, y, offset = np.array(tab.evaluate(LABELS), float)
            near = np.hypot(x[:, None] - x, y[:, None] - y) < COVERING
            covered = np.tril(near, -1).any(axis=0)
            if covered.any() == crowded == np.isnan(offset).any():
                break
            tab.wait_for_timeout(100)
        np.testing.assert_array_equal(np.isnan(offset), covered)
        assert not offset[~covered].any()
        assert covered.any() == crowded
        assert not covered[-1]


def test_panels_of_another_frame_are_marked_until_theirs_has_come(page):
    tab = page(file="particles", run=0, panels="embedding,pair_sums", step=20)
    tab.evaluate("""() => {
      const {parts, buffers} = scrubber.stage, map = buffers.get(`0/${parts.find((part) => part.map).array}`)
      map.held = new Uint8Array(61).fill(1, 0, 21)
      window.missing = buffers.get("0/embedding")
      buffers.delete("0/embedding")
    }""")
    seek(tab, 33)
    for words in (
        "computing step 33; shown: 20",
        "computing map of step 33; shown: 20",
    ):
        assert tab.get_by_text(words).is_visible()
    tab.evaluate("scrubber.stage.buffers.forEach((buffer) => delete buffer.held)")
    tab.evaluate("scrubber.stage.buffers.set('0/embedding', missing)")
    seek(tab, 34)
    assert not tab.get_by_text("shown: 20").count()


def test_scrubbing_updates_every_panel(page, runs_folder):
    names = ",".join(panel_names(open_trajectory(runs_folder / "sparse.nc")))
    tab = page(tall=True, file="sparse", run=1, panels=names)
    content = scene_of(runs_folder, "sparse", 1)
    for place in (0, 7, 30):
        state = seek(tab, place)
        assert len({part["array"] for part in state["parts"]}) > 10
        assert state["frames"] == [place]
        assert_shows(state, [content])


def test_keys_step_jump_and_play_to_the_end(page, runs_folder):
    tab = page(file="particles", run=2, step=20)
    assert tab.evaluate(STATE)["step"] == 20
    events = sorted(
        set(tab.evaluate("scrubber.stage.marks.map((mark) => mark.place)")) - {0}
    )
    for key, place in (
        ("ArrowRight", 21),
        ("ArrowLeft", 20),
        ("Shift+ArrowRight", 30),
        ("End", 60),
        ("Home", 0),
        ("PageDown", events[0]),
        ("Home", 0),
    ):
        tab.keyboard.press(key)
        wait_for_frame(tab, place)
    tab.evaluate("scrubber.speed = 60")
    tab.keyboard.press("Space")
    tab.wait_for_function("scrubber.playing && scrubber.drawn > 5")
    assert tab.get_by_role("button", name="Pause").is_visible()
    tab.keyboard.press("Space")
    tab.wait_for_function("!scrubber.playing")
    rest = tab.evaluate(STATE)
    assert_shows(rest, [scene_of(runs_folder, "particles", 2)])
    tab.wait_for_function(
        "(step) => location.search.includes(`step=${step}`)", arg=int(rest["step"])
    )
    play = tab.get_by_role("button", name="Play")
    play.click()
    tab.wait_for_function("!scrubber.playing && scrubber.drawn == 60")
    play.click()
    tab.wait_for_function("scrubber.playing && scrubber.drawn < 50")


def test_the_legend_has_the_events_of_the_run_alone(page, runs_folder):
    tab = page(file="particles", run=2)
    kinds = set(tab.evaluate("scrubber.stage.marks.map((mark) => mark.kind)"))
    legend = tab.locator(".kinds > span:visible").all_inner_texts()
    assert set(legend) == kinds
    assert len(legend) == len(kinds) < len(MARKED_EVENTS)


def test_escape_closes_an_explanation_and_the_page_has_landmarks(page):
    tab = page(file="particles")
    assert tab.get_by_label("order").input_value() == "as in the file"
    assert tab.get_by_role("main").count() == 1
    assert tab.get_by_role("heading", level=1).inner_text() == "training dynamics"
    button = tab.get_by_label("About: embedding").first
    button.click()
    opened = tab.locator("details[open]")
    assert opened.count() == 1
    tab.keyboard.press("Escape")
    assert opened.count() == 0
    assert button.evaluate("it => it.getRootNode().activeElement === it")
    tab.locator(".skip").focus()
    tab.keyboard.press("Enter")
    seek_bar = tab.locator("[data-do=seek]")
    assert seek_bar.evaluate("it => it.getRootNode().activeElement === it")


def test_a_run_is_selected_while_another_plays(page, runs_folder):
    tab = page(file="particles", run=0)
    before = tab.evaluate(STATE)["number"]
    tab.evaluate(
        "scrubber.chosen = true, scrubber.speed = 0.5"
    )  # 60 frames take longer than all that is waited for
    tab.get_by_role("button", name="Play").click()
    tab.get_by_label("runs", exact=True).select_option("3")
    there(tab, before)
    place = tab.evaluate("scrubber.place")
    tab.wait_for_function(
        "(place) => scrubber.playing && scrubber.place > place", arg=place
    )
    assert tab.evaluate("scrubber.speed") == 0.5
    show_browser_tab(tab, False)
    assert not tab.evaluate("scrubber.playing")
    show_browser_tab(tab, True)
    assert tab.evaluate("scrubber.playing")
    tab.evaluate("scrubber.play(false)")
    assert_shows(seek(tab, 33), [scene_of(runs_folder, "particles", 3)])
    tab.wait_for_function("location.search.includes('run=3')")


def test_the_list_is_filtered(page, runs_folder):
    tab = page(file="particles")
    entries = catalogue.run_catalogue(open_trajectory(runs_folder / "particles.nc"))
    for kind in {entry.structure for entry in entries}:
        expected = [str(entry.run) for entry in entries if entry.structure == kind]
        tab.get_by_label("show").select_option(label=f"{kind} ({len(expected)})")
        some = "".join(f":has([value='{place}'])" for place in expected)
        tab.locator(
            f"select[multiple]{some}:not(:has(:nth-child({len(expected) + 1})))"
        ).wait_for()


ROWS = """() => [...scrubber.bar.querySelectorAll(".ticks div")].map((row) => [
  row.dataset.name, row.children.length,
  [...row.querySelectorAll("button:not(.plateau)")].map((mark) => mark.getBoundingClientRect().left)])"""


def test_two_runs_move_together_and_have_their_own_event_marks(page, runs_folder):
    tab = page(tall=True, file="particles", run=0, other_file="particles", other_run=4)
    marks = tab.evaluate("scrubber.stage.marks.map((mark) => mark.lane)")
    for lane, (name, count, places) in enumerate(tab.evaluate(ROWS)):
        assert (name, count) == ("AB"[lane], marks.count(lane))
        assert np.diff(places).min(initial=5) >= 5  # marks are 5 pixels wide
    state = seek(tab, 41)
    assert state["frames"] == [41, 41]
    assert {part["lane"] for part in state["parts"]} == {0, 1}
    assert_shows(
        state,
        [scene_of(runs_folder, "particles", 0), scene_of(runs_folder, "particles", 4)],
    )


def test_clicks_on_a_mark_and_on_a_curve_jump_to_their_frames(page):
    tab = page(file="particles", run=0, panels="gradient_norm")
    place = tab.evaluate("scrubber.stage.marks.at(-1).place")
    tab.locator(f"[data-to='{place}']").first.evaluate("(tick) => tick.click()")
    wait_for_frame(tab, place)
    tab.keyboard.press("Home")
    wait_for_frame(tab, 0)
    box = tab.locator(".bk-Figure").first.bounding_box()
    tab.mouse.click(box["x"] + box["width"] / 2, box["y"] + box["height"] / 2)
    tab.wait_for_function("scrubber.drawn > 10 && scrubber.drawn < 50")


def hover(page, figure, x, y):
    """The texts that appear when the pointer is at a point of a figure."""
    page.mouse.move(0, 0)
    page.locator(".bk-Tooltip").first.wait_for(state="hidden")
    page.mouse.move(*page.evaluate(PIXEL, [figure, float(x), float(y)]))
    page.locator(".bk-Tooltip").first.wait_for()
    return page.locator(".bk-tooltip-content").all_inner_texts()


@pytest.mark.parametrize("step", [60, 20])
def test_the_pointer_shows_names_and_values(page, runs_folder, step):
    tab = page(
        tall=True, file="particles", run=0, step=60, panels="embedding,pair_sums"
    )
    scene = scene_of(runs_folder, "particles", 0)
    seek(tab, step)
    arrays = scene.arrays([step])
    embedding, sums = scene.panels[:2]
    x, y = arrays["embedding"][0, 3]
    (said,) = hover(tab, embedding.title, x, y)
    assert re.fullmatch(r"3 \((.*), (.*)\)", said)
    places = [float(value) for value in said[3:-1].split(", ")]
    np.testing.assert_allclose(places, [x, y], atol=2e-3)
    classes = next(layer.names for layer in sums.layers if isinstance(layer, Map))
    assert hover(tab, sums.title, 0.9 * sums.x[0], 0.9 * sums.y[0])[0] in classes


def test_the_pointer_shows_the_loss_and_the_attention(page, runs_folder):
    tab = page(tall=True, file="sparse", run=1, step=60, panels="attention,loss")
    scene = scene_of(runs_folder, "sparse", 1)
    loss, matrix = (
        next(panel for panel in scene.panels if panel.name == name)
        for name in ("loss", "attention")
    )
    (curves,), (image,), frame = loss.layers, matrix.layers, 7
    seek(tab, frame)
    said = hover(
        tab, loss.title, scene.clock[frame], loss.y[0] ** 0.5 * loss.y[1] ** 0.5
    )
    words = [text.split(": ") for text in said[0].splitlines()]
    assert [name for name, _ in words] == list(curves.names)
    values = [float(text.split(",")[0]) for _, text in words]
    np.testing.assert_allclose(values, curves.y[:, frame], rtol=2e-3)
    assert {text.split()[-2] for _, text in words} == {"epoch"}
    (said,) = hover(tab, matrix.title, 1, 1)
    cell, value = said.split(": ")
    assert cell == f"{image.rows[-2]}, {image.columns[1]}"
    assert float(value) == pytest.approx(
        scene.arrays([frame])["attention"][0, -2, 1], abs=image.high / 254
    )


def copied(page, button):
    """What a button puts on the clipboard."""
    page.get_by_role("button", name=button).click()
    page.get_by_text(button.removeprefix("Copy ").capitalize() + " copied").wait_for()
    return page.evaluate("navigator.clipboard.readText()")


def test_a_copied_link_and_copied_python_repeat_the_view(page, monkeypatch, tmp_path):
    tab = page(
        file="particles",
        run=1,
        other_file="particles",
        other_run=4,
        panels="embedding,imperfections",
    )
    tab.context.grant_permissions(["clipboard-read", "clipboard-write"])
    state = seek(tab, 41)
    code, link = copied(tab, "Copy Python"), copied(tab, "Copy link")
    monkeypatch.chdir(tmp_path)
    exec(code, result := {})
    for name, run, part in zip(
        ("first", "second"), (1, 4), state["parts"][::2], strict=True
    ):
        frame = result[name].isel(run=run).sel(step=41)
        assert f"build_scene({name}, {run}, None)" in code
        np.testing.assert_allclose(
            np.transpose([part["x"], part["y"]]), frame["embedding"], rtol=1e-6
        )
    assert result["frames"] == [41, 41]
    assert result["grid"].layout.columns == 2
    assert (tmp_path / "view.png").stat().st_size > 1000
    open_page(tab, link)
    there(tab)
    again = tab.evaluate(STATE)
    assert (again["frames"], again["parts"]) == (state["frames"], state["parts"])
    tab.evaluate("() => { navigator.clipboard.writeText = () => Promise.reject() }")
    tab.get_by_role("button", name="Copy link").click()
    lines = tab.get_by_role("dialog", name="Link").get_by_role("textbox")
    lines.wait_for()
    assert lines.input_value() == link
    assert lines.evaluate("(area) => area.selectionEnd - area.selectionStart") == len(
        link
    )


@pytest.mark.parametrize(
    ("file", "panel"), [("particles", "pair_sums"), ("sparse", "loss")]
)
def test_a_panel_is_saved_as_a_picture(page, runs_folder, file, panel, tmp_path):
    name = next(
        item.title
        for item in scene_of(runs_folder, file, 0).panels
        if item.name == panel
    )
    tab = page(file=file, run=0)
    box = tab.locator(f".bk-events[aria-label='{name}']").bounding_box()
    with tab.expect_download() as saved:
        tab.get_by_role("button", name=f"Save as PNG: {name}").click()
    last = tab.evaluate("scrubber.step_shown")
    assert saved.value.suggested_filename == f"{file}-run0-step{last}-{panel}.png"
    saved.value.save_as(tmp_path / "panel.png")
    picture = plt.imread(tmp_path / "panel.png")
    scale = picture.shape[1] / box["width"]
    assert scale >= 1
    assert 0 < picture.shape[0] / scale - box["height"] < 60  # its heading is above it
    heading, panel = np.split(
        picture[..., :3], [picture.shape[0] - round(scale * box["height"])]
    )
    assert heading.min() < 0.3
    assert len(np.unique(panel.reshape(-1, 3), axis=0)) > 50


def test_the_page_continues_after_a_change_of_tabs(page, runs_folder):
    tab = page(file="particles", run=1, step=30)
    for name in ("Particles", "Runs"):
        tab.get_by_role("button", name=name).click()
        tab.wait_for_function(
            f"!!scrubber.bar?.isConnected == {str(name == 'Runs').lower()}"
        )
    tab.keyboard.press("ArrowRight")
    wait_for_frame(tab, 31)
    assert_shows(tab.evaluate(STATE), [scene_of(runs_folder, "particles", 1)])


def test_panels_are_selected_by_labelled_checkboxes(page):
    tab = page(file="particles", run=0, panels="embedding")
    before = tab.evaluate(STATE)
    assert {part["array"] for part in before["parts"]} == {"embedding"}
    tab.get_by_role("checkbox", name="pair sums").check()
    there(tab, before["number"])
    assert "pair_sums" in {part["array"] for part in tab.evaluate(STATE)["parts"]}


LAYOUT = """() => {
  const views = [...Bokeh.index.all_views()], of = (type) => views.filter(({model}) => model.type == type)
  const boxes = of("Figure").map((view) => view.el.getBoundingClientRect())
  const {documentElement: {scrollWidth, scrollHeight}} = document
  const [list] = of("MultiSelect").map((view) => view.shadow_el.querySelector("select"))
  return {
    overflow: [scrollWidth > innerWidth, scrollHeight > innerHeight],
    columns: new Set(boxes.map((box) => Math.round(box.left))).size,
    frames: of("Figure").map(({model}) => Math.abs(model.inner_width - model.inner_height)),
    titles: of("Div").filter(({shadow_el}) => {
      const title = shadow_el.querySelector("h2")
      return title?.scrollWidth > title?.clientWidth
    }).length,
    rows: list.clientHeight / 16 - list.options.length,
    cut: of("Div").filter(({model, el}) => model.render_as_text && el.scrollWidth > el.clientWidth + 1).length,
  }
}"""


@pytest.mark.parametrize(
    ("other", "columns_by_size"),
    [
        ("none", {(1400, 900): 4, (1000, 700): 3, (400, 800): 1}),
        ("sparse", {(1400, 900): 6}),
    ],
)
def test_panels_fill_the_width_of_the_page(page, other, columns_by_size):
    tab = page(file="sparse", other_file=other)
    for size, columns in columns_by_size.items():
        tab.set_viewport_size(dict(zip(("width", "height"), size, strict=True)))
        assert_columns(tab, columns)


def assert_columns(tab, columns):
    """Panels fill the width in a number of columns once the layout has settled."""
    expected = {
        "columns": columns,
        "overflow": [False, True],
        "rows": 0,
        "cut": 0,
        "titles": 0,
    }
    for _ in range(150):  # until the layout has settled
        result = tab.evaluate(LAYOUT)
        frames = result.pop("frames")
        if result == expected and max(frames) <= 1:
            break
        tab.wait_for_timeout(100)
    assert result == expected
    assert max(frames) <= 1
