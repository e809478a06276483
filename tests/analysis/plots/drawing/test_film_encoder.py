"""Film files: the frames and seconds in them, the same bytes twice, complete or not at
all."""

import resource

import imageio_ffmpeg
import numpy as np
import pytest
from numpy.testing import assert_array_equal

from analysis.plots import PanelGrid, film_frames
from analysis.plots.drawing import film_encoder
from analysis.plots.drawing.film_encoder import (
    draw_frames,
    open_film_encoder,
    write_film,
)
from dynamics.errors import RecordingError
from tests.analysis.plots.drawing.test_artists import FRAMES, draw_at, make_scene


def grid():
    return PanelGrid([make_scene()], ["points", "map"], width=321, even=True)


@pytest.fixture(scope="module", params=["mp4", "gif"])
def film(request, tmp_path_factory):
    path = tmp_path_factory.mktemp("film") / f"film.{request.param}"
    write_film(grid(), film_frames([make_scene()], last=5), path, 20, progress=False)
    return path


def test_a_film_shows_every_frame_and_holds_the_last(film):
    frames, seconds = imageio_ffmpeg.count_frames_and_secs(film)
    assert frames == FRAMES + 4
    assert seconds == pytest.approx(frames / 20, abs=0.03)
    assert list(film.parent.iterdir()) == [film]


def test_the_same_bytes_twice(film, tmp_path):
    again = tmp_path / film.name
    write_film(grid(), film_frames([make_scene()], last=5), again, 20, progress=False)
    assert again.read_bytes() == film.read_bytes()


@pytest.mark.parametrize("film", ["mp4"], indirect=True)
def test_an_mp4_plays_in_browsers_and_has_the_frames_that_were_drawn(film):
    panels, frames = grid(), imageio_ffmpeg.read_frames(film)
    about = next(frames)
    assert about["codec"] == "h264"
    assert about["pix_fmt"].startswith("yuv420p")
    assert about["size"] == (panels.width, panels.height)
    data = film.read_bytes()
    assert data.index(b"moov") < data.index(b"mdat")  # it begins before all is loaded
    decoded = [
        np.frombuffer(frame, np.uint8)
        .reshape(panels.height, panels.width, 3)
        .astype(float)
        for frame in frames
    ]
    for frame in (0, 9, FRAMES - 2):
        apart = [
            np.abs(item - draw_at(panels, frame)[..., :3]).mean() for item in decoded
        ]
        assert int(np.argmin(apart)) == frame
        assert apart[frame] < 4


def test_film_pictures_equal_their_frames(monkeypatch):
    monkeypatch.setattr(film_encoder, "_FRAMES_PER_BATCH", 4)
    scenes = [make_scene(), make_scene()]
    panels = PanelGrid(scenes, ["points"], width=320)
    film = film_frames(scenes)._replace(
        frames=np.array([[0, 20], [3, 3], [7, 1], [20, 0], [5, 5], [6, 6]])
    )
    copies = [picture.copy() for picture in draw_frames(panels, film)]
    for picture, frames in zip(copies, film.frames, strict=True):
        assert_array_equal(picture, draw_at(panels, *frames))


def test_an_interrupted_film_leaves_no_file(tmp_path):
    (tmp_path / "film.mp4").write_text("an earlier one")
    with (
        pytest.raises(KeyboardInterrupt),
        open_film_encoder(tmp_path / "film.mp4", (32, 32), 20) as write,
    ):
        write(np.zeros((32, 32, 4), np.uint8))
        raise KeyboardInterrupt
    assert [path.name for path in tmp_path.iterdir()] == ["film.mp4"]
    assert (tmp_path / "film.mp4").read_text() == "an earlier one"


@pytest.mark.parametrize(
    ("options", "side", "frames"),
    [
        (["-f", "nonesuch"], 320, 50),
        ([*film_encoder.H264_OPTIONS, "-frames:v", "2"], 32, 5),
    ],
    ids=["an encoder that stops", "a film that is too short"],
)
def test_an_incomplete_film_is_reported(options, side, frames, tmp_path, monkeypatch):
    monkeypatch.setattr(film_encoder, "H264_OPTIONS", options)
    refusal = pytest.raises(
        RecordingError, match=r"film\.mp4: could not be written \(the encoder stopped"
    )
    with refusal, open_film_encoder(tmp_path / "film.mp4", (side, side), 20) as write:
        for _ in range(frames):
            write(np.zeros((side, side, 4), np.uint8))
    assert not list(tmp_path.iterdir())


def test_a_limit_on_the_size_of_files_is_named(tmp_path):
    before = resource.getrlimit(resource.RLIMIT_FSIZE)
    generator = np.random.default_rng(0)
    resource.setrlimit(resource.RLIMIT_FSIZE, (4096, before[1]))
    try:
        with (
            pytest.raises(RecordingError, match=r"film\.mp4: .*a limit on file size"),
            open_film_encoder(tmp_path / "film.mp4", (320, 320), 20) as write,
        ):
            for _ in range(40):
                write(generator.integers(0, 256, (320, 320, 4), np.uint8))
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, before)
    assert not list(tmp_path.iterdir())
