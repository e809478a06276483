"""Artists after an update, and pictures of panel grids: against small references, and
against a complete redrawing.

`python -m tests.analysis.plots.drawing.test_artists`, from the root, draws the
references anew."""

import dataclasses
import io
import itertools
from pathlib import Path

import numpy as np
import pytest
from matplotlib.collections import PathCollection
from matplotlib.image import imread
from matplotlib.text import Text
from numpy.testing import assert_allclose, assert_array_equal

from analysis.panels.contours import (
    DARKER,
    contour_tiles,
    mark_contours,
    tile_pixels,
)
from analysis.panels.scene import (
    MARKER_SHAPES,
    Arrows,
    Curves,
    EventMark,
    Image,
    Map,
    Panel,
    Points,
    Scene,
)
from analysis.plots.drawing import artists
from analysis.plots.drawing.axes_decoration import format_tick
from analysis.plots.drawing.panel_grid import PanelGrid, default_columns, place_panels
from dynamics.settings import SettingsError

REFERENCES = Path(__file__).parent / "references"

FRAMES = 21
SQUARE = (-2.0, 2.0)
RGB = np.array(
    [
        [0.06, 0.47, 0.53],
        [0.88, 0.47, 0.0],
        [0.59, 0.0, 0.88],
        [0.47, 0.0, 0.24],
        [0.29, 0.71, 0.65],
    ]
)
PALE = 0.6 + 0.4 * RGB[:3]
NAMES = tuple(f"token {token}" for token in range(5))
TURN = 2 * np.pi * np.arange(5) / 5


def part_of_run(frames):
    return frames[:, None] / (FRAMES - 1)


def places(frames):
    """Five points on a circle that turns."""
    angle = TURN + part_of_run(frames)
    return np.stack([np.cos(angle), np.sin(angle)], axis=-1)


def arrow_ends(frames):
    """Arrows around the points."""
    return np.concatenate([0.5 * places(frames), 1.5 * places(frames)], axis=-1)


def sectors(frames):
    """A map of three sectors that turns."""
    x, y = np.meshgrid(*[(np.arange(40) + 0.5) / 10 - 2] * 2)
    angle = np.arctan2(y, x)[None] - part_of_run(frames)[..., None]
    return (np.floor(3 * angle / (2 * np.pi)) % 3).astype(np.uint8)


def matrix(frames):
    """A matrix that grows."""
    return part_of_run(frames)[..., None] * np.arange(12).reshape(3, 4) / 11


def panels(places=places) -> tuple[Panel, ...]:
    points = Points(
        "places",
        RGB,
        NAMES,
        MARKER_SHAPES,
        np.array([1, 0, 1, 0, 1], bool),
        1.5,
        labelled=True,
        values=places,
    )
    small = Points("places", RGB, NAMES, values=places)
    arrows = Arrows("arrows", RGB, NAMES, arrow_ends)
    class_map = Map("map", PALE, ("class 0", "class 1", "class 2"), values=sectors)
    image = Image("matrix", 0, 1, tuple("abc"), tuple("0123"), RGB[:3], matrix)
    epochs = np.arange(FRAMES) / 2
    losses = np.stack([2.0 ** -np.arange(FRAMES), np.full(FRAMES, 0.3)])
    return (
        Panel(
            "points",
            "points",
            (points,),
            SQUARE,
            SQUARE,
            origin=True,
            note="all shapes",
        ),
        Panel("arrows", "arrows", (small, arrows), SQUARE, SQUARE),
        Panel(
            "map",
            "map",
            (class_map, small),
            SQUARE,
            SQUARE,
            origin=True,
        ),
        Panel(
            "matrix",
            "matrix",
            (image,),
            (0, 4),
            (0, 3),
            "position",
            "sentence",
            equal=False,
        ),
        Panel(
            "loss",
            "loss",
            (Curves(epochs, losses, RGB[:2], ("train", "test")),),
            (0, 10),
            (1e-6, 2),
            "epoch",
            equal=False,
            log=True,
        ),
    )


def make_scene(**more) -> Scene:
    """A scene of its own, which needs no run."""
    marks = (EventMark("drop", 32, 96, 160), EventMark("spike", 400, 400, 400))
    steps = 32 * np.arange(FRAMES)
    scene = Scene(
        "a scene, seed 3",
        steps,
        steps / 64,
        "epoch",
        panels(),
        detect_events=lambda: marks,
    )
    return dataclasses.replace(scene, **more)


def draw_at(grid: PanelGrid, *frames: int) -> np.ndarray:
    """A copy of the grid drawn at a frame of each of its scenes."""
    grid.show(
        frames,
        [
            scene.arrays(np.array([frame]))
            for scene, frame in zip(grid.scenes, frames, strict=True)
        ],
    )
    return grid.draw().copy()


def drawn_panel(panel: str, frame: int = 10):
    """A grid of one panel at a frame, its picture, and the artists of its layers."""
    grid = PanelGrid([make_scene()], [panel], width=240)
    return grid, draw_at(grid, frame), [artist for _, artist in grid.artists[0]]


# -------------------------------------------------------------------- what artists hold


def test_points_are_grouped_by_shape_and_hollow_ones_are_white_with_a_coloured_edge():
    _, _, (artist,) = drawn_panel("points", 7)
    at = places(np.array([7]))[0]
    assert [of.tolist() for of, _ in artist.groups] == [
        [0],
        [1],
        [2],
        [3],
        [4],
    ]  # a collection a shape
    for of, collection in artist.groups:
        assert_array_equal(collection.get_offsets(), at[of])
    assert_array_equal(artist.labels.labels.get_offsets(), at)
    assert len(artist.labels.labels.get_paths()) == 5
    filled, hollow = artist.groups[0][1], artist.groups[1][1]
    colours = [filled.get_facecolor(), hollow.get_facecolor(), hollow.get_edgecolor()]
    assert_allclose([colour[0, :3] for colour in colours], [RGB[0], np.ones(3), RGB[1]])


def test_a_label_that_a_later_marker_covers_is_not_drawn():
    _, _, (artist,) = drawn_panel("points")
    x, y = np.diag(artists.point_size(artist.labels.axes) * artist.labels.covering)
    artist.show(
        np.array([[0, 0], 0.9 * x, 1.2 * x + y, 1.2 * x + 2.2 * y, [np.nan, np.nan]]), 0
    )
    result = artist.labels.labels.get_offsets()
    assert_allclose(result[[1, 2, 3]], [0.9 * x, 1.2 * x + y, 1.2 * x + 2.2 * y])
    assert np.isfinite(result[:, 0]).tolist() == [False, True, True, True, False]
    assert all(
        np.isfinite(marks.get_offsets()).all() for of, marks in artist.groups[:4]
    )  # the marks are all there


def test_a_closed_line_joins_successive_points():
    panel = dataclasses.replace(
        panels()[0], layers=(dataclasses.replace(panels()[0].layers[0], joined=True),)
    )
    grid = PanelGrid([make_scene(panels=(panel,))], width=240)
    draw_at(grid, 3)
    at = places(np.array([3]))[0]
    assert_array_equal(grid.artists[0][0][1].line.get_xydata(), at[[0, 1, 2, 3, 4, 0]])


def moved(change):
    """The panels, the third point changed by a function of all (frame, point, 2)."""
    is_third = np.arange(5)[:, None] == 2
    return panels(
        lambda frames: np.where(is_third, change(places(frames)), places(frames))
    )


def test_a_point_that_is_nan_is_not_drawn():
    scene = make_scene(panels=moved(lambda places: np.nan))
    picture = draw_at(PanelGrid([scene], ["points"], width=240), 10)[..., :3].astype(
        int
    )
    seen = [
        (np.abs(picture - colour).max(-1) < 24).any()
        for colour in np.round(255 * RGB).astype(int)
    ]
    assert seen == [True, True, False, True, True]


@pytest.mark.parametrize(
    ("names", "expected"),
    [
        (NAMES, list("01234")),
        (["a 1", "b 1"], ["a 1", "b 1"]),
        (["same", "same"], ["same", "same"]),
        ([], []),
    ],
)
def test_labels_omit_the_common_prefix(names, expected):
    assert artists.strip_common_words(names) == expected


def test_arrows_run_from_tail_to_head():
    ends = np.array([[[0, 0], [30, 0]], [[5, 5], [5, 1]], [[1, 1], [1, 1]]], float)
    result = artists.arrow_polygons(ends)
    assert_array_equal(result[:2, 3], ends[:2, 1])  # the tip
    assert_allclose(result[:2, [0, 6]].mean(1), ends[:2, 0])
    assert np.ptp(result[0, :, 1]) > 2 * np.ptp(
        result[0, [0, 1], 1]
    )  # a head wider than the shaft
    assert np.ptp(result[1, :, 0]) < np.ptp(
        result[0, :, 1]
    )  # a short arrow is a smaller one
    assert np.isnan(result[2]).all()  # without a length there is none


def test_arrows_are_polygons_within_the_panel():
    _, picture, (_, artist) = drawn_panel("arrows", 0)
    first, *_ = artist.arrows.get_paths()
    assert_allclose(first.vertices[3], [1.5, 0], atol=1e-12)
    assert (np.abs(picture[..., :3] - np.round(255 * RGB[0])).max(-1) < 2).sum() > 40


def edges(numbers):
    """Which of the four pixels of each place lie on a line, (2 row, 2 column) bool."""
    count = int(numbers.max()) + 1
    return tile_pixels(
        contour_tiles(np.ones((count, 3)))[..., 0] < 1, mark_contours(numbers, count)
    )


def test_maps_show_the_palette_lowest_row_first_with_darker_lines():
    grid, picture, (artist, _) = drawn_panel("map", 0)
    numbers = sectors(np.array([0]))[0]
    cells = artist.image.fill(80, 80)
    plain = np.round(255 * PALE[numbers]).repeat(2, 0).repeat(2, 1)
    on_lines = edges(numbers)
    assert_array_equal(cells[~on_lines][:, :3], plain[~on_lines])
    dark = np.round(DARKER * 255 * PALE[numbers]).repeat(2, 0).repeat(2, 1)
    assert_array_equal(cells[on_lines][:, :3], dark[on_lines])
    assert 0 < on_lines.mean() < 0.1
    x, y, width, height = grid.layout.boxes(0)[0]
    inside = picture[y : y + height, x : x + width, :3]
    for right, up in ((0.9, 0.9), (0.1, 0.7), (0.6, 0.1)):
        at = plain[int(80 * up), int(80 * right)]
        assert_array_equal(inside[int(height * (1 - up)), int(width * right)], at)


def test_contours_of_isolated_pixels():
    numbers = np.array([[0, 0, 1, 1], [0, 0, 1, 1]])
    result = edges(numbers)
    assert (np.argwhere(result)[:, 1].tolist(), result.sum()) == ([3] * 4, 4)
    assert not edges(np.array([[0, 1, 2, 3]])).any()  # bands of one cell
    assert not edges(np.zeros((3, 3), int)).any()
    assert edges(numbers.T).T.tolist() == result.tolist()


@pytest.mark.parametrize("size", [(37, 37), (40, 61), (79, 80), (190, 191), (333, 160)])
def test_contours_are_unbroken_at_any_size(size):
    numbers = np.zeros((40, 40), np.uint8)
    numbers[:, 17:] = 1
    _, _, (artist, _) = drawn_panel("map", 0)
    for axis in (0, 1):
        filled = artist.filled(numbers if axis == 0 else numbers.T, *size)[..., 0]
        dark = filled == np.round(255 * DARKER * PALE[0, 0])
        assert (
            dark.all(axis=axis).sum()
            == dark.any(axis=axis).sum()
            == max(1, round(size[1 - axis] / 80))
        )


def test_matrices_of_two_scenes_have_the_same_scale():
    matrix = panels()[3]
    brighter = dataclasses.replace(
        matrix, layers=(dataclasses.replace(matrix.layers[0], high=5.0),)
    )
    scenes = [make_scene(), make_scene(panels=(brighter, panels()[0]))]
    grid = PanelGrid(scenes, ["matrix", "points"], width=480)
    images = [
        artist
        for block in grid.artists
        for _, artist in block
        if isinstance(artist, artists.ImageArtist)
    ]
    assert [artist.high for artist in images] == [5.0, 5.0]
    assert [panel.name for panel in grid.layout.blocks[1]] == ["matrix", "points"]


@pytest.mark.parametrize(
    ("count", "kind"),
    [(3, np.uint8), (64, np.uint8), (65, np.uint16), (16385, np.uint32)],
)
def test_contours_of_many_maps_equal_those_of_each(count, kind, generator):
    numbers = generator.integers(0, 3, (4, 9, 7)).astype(np.uint16)
    result = mark_contours(numbers, count)
    assert result.dtype == kind
    assert_array_equal(result // 4, numbers)
    for item, one in zip(result, numbers, strict=True):
        assert_array_equal(item, mark_contours(one, count))


def test_images_have_the_first_row_at_the_top():
    _, _, (artist,) = drawn_panel("matrix", FRAMES - 1)
    cells = artist.image.fill(*artist.image.count)
    assert_array_equal(cells[[-1, 0], [0, -1]], artists.MATRIX_COLOURS[[0, 255]])
    artist.show(np.array([[np.nan, -5.0], [0.5, 9.0]]), 0)
    cells = artist.image.fill(*artist.image.count)
    assert_array_equal(cells[1, 0], artist.missing)
    assert_array_equal(cells[[1, 0], [1, 1]], artists.MATRIX_COLOURS[[0, 255]])


def test_the_cursor_is_at_the_frame():
    grid, _, (artist,) = drawn_panel("loss", 6)
    assert_array_equal(artist.cursor.get_xdata(), [3, 3])
    assert_allclose(artist.dots.get_offsets(), [[3, 0.3], [3, 2.0**-6]])  # train on top
    draw_at(grid, 8)
    assert_array_equal(artist.cursor.get_xdata(), [4, 4])


def test_a_gap_in_a_curve_has_no_dot():
    gap = Curves(np.arange(3.0), np.array([[1, np.nan, 2]]), RGB[:1], ("loss",))
    panel = Panel("loss", "loss", (gap,), (0, 2), (0, 3), equal=False)
    grid = PanelGrid(
        [
            make_scene(
                panels=(panel,),
                steps=np.arange(3),
                clock=np.arange(3.0),
                detect_events=tuple,
            )
        ],
        width=240,
    )
    pictures = np.stack([draw_at(grid, frame)[..., :3] for frame in range(3)])
    coloured = (np.abs(pictures - np.round(255 * RGB[0])).max(-1) < 40).sum(axis=(1, 2))
    assert coloured[1] < min(coloured[0], coloured[2])


# -------------------------------------------------------------------------------- grids


def redrawn(grid: PanelGrid) -> np.ndarray:
    """The whole figure by matplotlib, without anything kept."""
    for artist in grid.figure_artists:
        artist.set_animated(False)
    buffer = io.BytesIO()
    grid.figure.savefig(buffer, format="raw", dpi=grid.figure.dpi)
    for artist in grid.figure_artists:
        artist.set_animated(True)
    return np.frombuffer(buffer.getvalue(), np.uint8).reshape(
        grid.height, grid.width, 4
    )


@pytest.mark.parametrize(
    ("titles", "options", "frames"),
    [
        (("a",), {"width": 480}, [(0,), (20,), (7,)]),
        (("a",), {"width": 733}, [(0,), (20,), (7,)]),
        (("a", "b"), {"width": 960, "columns": 3}, [(3, 18)]),
    ],
)
def test_a_blitted_frame_is_the_redrawn_one(titles, options, frames):
    grid = PanelGrid([make_scene(title=title) for title in titles], **options)
    for frame in frames:
        assert_array_equal(draw_at(grid, *frame), redrawn(grid))


def test_frames_differ_only_where_something_moves():
    grid = PanelGrid([make_scene()], ["points"], width=240)
    x, y, width, height = grid.layout.boxes(0)[0]
    differ = draw_at(grid, 0) != draw_at(grid, 10)
    assert differ[y : y + height, x : x + width].any()
    differ[:y], differ[y : y + height, x : x + width] = (
        False,
        False,
    )  # the clock, and the panel
    assert not differ.any()


def test_two_scenes_have_common_limits():
    _, arrows, classes, *others = panels()
    wide = (
        *(dataclasses.replace(panel, x=(-5.0, 1.0)) for panel in (arrows, classes)),
        *others,
    )
    scenes = [make_scene(), make_scene(panels=wide)]
    left, right = limits_by_name(scenes, ["arrows", "matrix", "loss", "map"])
    assert left["arrows"] == right["arrows"] == ((-5, 2), (-3.5, 3.5))  # still a square
    assert left["matrix"] == ((0, 4), (0, 3))
    assert left["map"] == (SQUARE, SQUARE)  # which its pixels tile
    assert right["map"] == ((-5, 1), SQUARE)
    in_steps = (*panels()[:4], dataclasses.replace(panels()[4], x=(0, 640)))
    other = dataclasses.replace(scenes[1], unit="step", panels=in_steps)
    left, right = limits_by_name([scenes[0], other], ["loss"])
    # epochs and steps cannot be compared
    assert (left["loss"][0], right["loss"][0]) == ((0, 10), (0, 640))


def limits_by_name(scenes, names):
    """Limits of the panels of each scene as a grid draws them."""
    blocks = PanelGrid(scenes, names).layout.blocks
    return [{panel.name: (panel.x, panel.y) for panel in block} for block in blocks]


def test_only_panels_of_both_scenes_are_drawn_and_others_are_refused():
    first, fewer = make_scene(panels=panels()[:1]), make_scene(panels=panels()[1:3])
    assert PanelGrid([make_scene(), fewer]).panels == ["arrows", "map"]
    with pytest.raises(SettingsError, match="^panels: "):
        PanelGrid([first, fewer])
    with pytest.raises(SettingsError, match="points, arrows, map, matrix, loss"):
        PanelGrid([make_scene()], ["points", "circles"])


def test_geometry_keeps_its_proportions():
    flat = dataclasses.replace(panels()[0], y=(-0.5, 0.5))
    for width, columns in itertools.product((300, 961), (1, 2)):
        grid = PanelGrid(
            [make_scene(panels=(flat, *panels()[1:3]))], columns=columns, width=width
        )
        first, second, _ = grid.layout.boxes(0)
        assert first[2] == pytest.approx(4 * first[3], abs=4)
        assert second[2] == second[3]


def test_sizes():
    assert PanelGrid([make_scene()], width=961).width == 961
    even = PanelGrid([make_scene()], width=961, even=True)
    assert (even.width, even.height % 2) == (962, 0)
    assert draw_at(even, 0).shape == (even.height, 962, 4)
    sixteen = make_scene(
        panels=tuple(dataclasses.replace(panels()[0], name=f"p{k}") for k in range(16))
    )
    grid = PanelGrid([sixteen], width=960)
    assert grid.layout.columns == 4
    assert abs(grid.height - 960) < 30
    assert [default_columns(count) for count in (1, 2, 4, 5, 6, 7, 16, 40)] == [
        1,
        2,
        2,
        3,
        3,
        3,
        4,
        4,
    ]


def test_leading_panels_take_two_by_two_cells():
    assert place_panels("abcde", 4, "ca") == [
        (0, 0, 2),
        (2, 0, 1),
        (0, 2, 2),
        (2, 1, 1),
        (2, 2, 1),
    ]
    assert place_panels("abc", 3, "a") == [(0, 0, 2), (0, 2, 1), (1, 2, 1)]
    assert place_panels("ab", 1, "a") == [(0, 0, 1), (1, 0, 1)]
    grid = PanelGrid([make_scene()], width=960, leading=["map"])
    boxes = dict(zip(grid.panels, grid.layout.boxes(0), strict=True))
    assert boxes["map"][2] > 2 * boxes["points"][2]
    assert boxes["map"][2] == boxes["map"][3]
    assert boxes["map"][1] + boxes["map"][3] == pytest.approx(
        boxes["matrix"][1] + boxes["matrix"][3], abs=25
    )


def test_limits_that_follow_are_those_of_the_frame_and_common_to_scenes():
    def following(size):
        views = (
            size
            * np.linspace(1, 2, FRAMES)[:, None, None]
            * np.array([[-1.0, 1], [-1, 1]])
        )
        return dataclasses.replace(panels()[0], views=views)

    grid = PanelGrid(
        [make_scene(panels=(following(size),)) for size in (1, 3)], width=480
    )
    (alone,) = (PanelGrid([make_scene(panels=(following(1),))], width=240),)
    assert_array_equal(draw_at(alone, 20), redrawn(alone))
    for panel_grid, frames, reach in (
        (alone, (20,), 2),
        (alone, (0,), 1),
        (grid, (20, 0), 3),
    ):
        draw_at(panel_grid, *frames)
        assert {axes.get_xlim() for axes in panel_grid.figure.axes} == {(-reach, reach)}
    assert [artists.round_length(most) for most in (0.3, 0.99, 1, 7, 4.9e-5)] == [
        0.2,
        0.5,
        1,
        5,
        2e-5,
    ]
    (x0, _), (x1, _) = 100 * grid.following.bars.get_path().get_extents().get_points()
    left, right = (box[0] for box in grid.layout.boxes(0) + grid.layout.boxes(1))
    assert (x0, x1) == pytest.approx(
        (left, right + 189 / 6 + 8), abs=8
    )  # bars of length 1, and their lengths


def test_numbers_of_axes_are_short():
    plain = {0: "0", 0.5: "0.5", -2: "−2", 22750: "22750", 912.25: "912.25"}
    powers = {1e-4: "10⁻⁴", 1.5e-7: "1.5·10⁻⁷", 3e5: "3·10⁵", -1e12: "−10¹²"}
    for value, text in (plain | powers).items():
        assert format_tick(value) == text
    assert format_tick(1e-17, least=1e-9) == "0"


def test_the_heading_says_run_step_and_epoch():
    grid = PanelGrid([make_scene(), make_scene(title="the other")], ["points"])
    draw_at(grid, 3, 4)
    assert [clock.get_text() for clock in grid.clocks] == [
        "step 96, epoch 1.50",
        "step 128, epoch 2.00",
    ]
    assert {"a scene, seed 3", "the other"} <= {
        text.get_text() for text in grid.figure.texts
    }
    whole = PanelGrid(
        [make_scene(unit="step", clock=32.0 * np.arange(FRAMES))], ["points"]
    )
    draw_at(whole, 3)
    assert whole.clocks[0].get_text() == "step 96"


@pytest.mark.parametrize("width", [320, 480, 960, 1500])
@pytest.mark.parametrize("long", [False, True])
def test_no_texts_overlap_or_are_cut(width, long):
    words = " of a panel with a long name" if long else ""
    curves = dataclasses.replace(
        panels()[4].layers[0], names=(f"train{words}", f"test{words}")
    )
    several = [dataclasses.replace(panel, note=f"a note{words}") for panel in panels()]
    several[4] = dataclasses.replace(several[4], layers=(curves,))
    grid = PanelGrid([make_scene(panels=tuple(several))], width=width)
    draw_at(grid, 20)
    texts = [
        item
        for item in grid.figure.findobj(Text)
        if item.get_visible() and item.get_figure()
    ]
    extents = [
        (text.get_text(), text.get_window_extent())
        for text in texts
        if text.get_text().strip()
    ]
    boxes = [(text, box) for text, box in extents if box.width > 0 and box.height > 0]
    assert len(boxes) > 12
    for text, box in boxes:
        assert min(box.x0, box.y0, grid.width - box.x1) >= -1, text
    for (a, one), (b, two) in itertools.combinations(boxes, 2):
        across, up = (
            min(one.x1, two.x1) - max(one.x0, two.x0),
            min(one.y1, two.y1) - max(one.y0, two.y0),
        )
        assert across <= 1.5 or up <= 2.5, f"{a} over {b}"


@pytest.mark.parametrize("count", [3, 24])
def test_texts_for_print_are_wrapped_instead_of_smaller(count):
    palette = np.full((count, 3), 0.5)
    names = tuple(f"class {number}" for number in range(count))
    of_map = next(panel for panel in panels() if isinstance(panel.layers[0], Map))
    layer = dataclasses.replace(of_map.layers[0], palette=palette, names=names)
    shown = (dataclasses.replace(of_map, layers=(layer,)), panels()[4])
    scene = make_scene(panels=shown, title="a title with a setting and a value, " * 3)
    grid = PanelGrid([scene], columns=2, width=335, legible=True)
    draw_at(grid, 20)
    least = artists.TICK * grid._px
    inside = grid.figure.bbox.padded(1)
    for text in grid.figure.texts:
        assert text.get_fontsize() >= 0.99 * least, text
        box = text.get_window_extent()
        assert inside.x0 <= box.x0 <= box.x1 <= inside.x1, text
        assert inside.y0 <= box.y0 <= box.y1 <= inside.y1, text
    shown_texts = {text.get_text() for text in grid.figure.texts}
    assert {str(number) for number in range(count)} <= shown_texts or count == 3


# --------------------------------------------------------------------------- references


def differences(picture: np.ndarray, name: str, box: tuple[int, ...]) -> np.ndarray:
    """The mean difference to a reference and the fraction of pixels that differ
    clearly, within the axes; and that fraction in the whole picture. Each as a fraction
    of what is allowed: titles and ticks may be drawn a little otherwise by other
    versions."""
    expected = np.round(255 * imread(REFERENCES / f"{name}.png"))
    apart = np.abs(picture[..., :3] - expected[..., :3]).max(-1)
    x, y, width, height = map(int, box)
    inside = apart[y : y + height, x : x + width]
    return np.array([inside.mean(), (inside > 48).mean(), (apart > 48).mean()]) / [
        0.6,
        0.001,
        0.04,
    ]


@pytest.mark.parametrize("name", [panel.name for panel in panels()])
def test_panels_match_the_reference_images(name):
    grid, picture, _ = drawn_panel(name)
    assert max(differences(picture, name, grid.layout.boxes(0)[0])) < 1
    assert (REFERENCES / f"{name}.png").stat().st_size < 20_000


def test_a_shifted_mark_differs_from_the_reference():
    scene = make_scene(panels=moved(lambda places: places + np.array([0, 0.1])))
    grid = PanelGrid([scene], ["points"], width=240)
    assert max(differences(draw_at(grid, 10), "points", grid.layout.boxes(0)[0])) >= 1


# -------------------------------------------------------------------------- other files


@pytest.mark.parametrize("suffix", ["png", "svg", "pdf"])
def test_saved_grids_have_no_date_and_contain_what_is_drawn(suffix, tmp_path):
    grid, path = (
        PanelGrid([make_scene()], ["points", "map"], width=480),
        tmp_path / f"grid.{suffix}",
    )
    picture = draw_at(grid, 5)
    grid.save(path)
    content = path.read_bytes()
    assert b"Date" not in content
    assert grid.clocks[0].get_animated()  # as before
    if suffix == "png":
        assert_array_equal(np.round(255 * imread(path)), picture)
    if suffix == "svg":
        assert content.count(b"<image") == 1  # the map alone
        marks = [
            item for item in grid.figure.findobj(PathCollection) if item.get_animated()
        ]
        assert content.count(b"PathCollection_") >= len(marks) > 5


if __name__ == "__main__":
    from PIL import Image as Picture

    REFERENCES.mkdir(exist_ok=True)
    for panel in panels():
        picture = Picture.fromarray(drawn_panel(panel.name)[1]).convert("RGB")
        picture.save(REFERENCES / f"{panel.name}.png", optimize=True)
