"""Films: frames and seconds that are in the file, the same bytes twice, whole or not at all; events filmed."""

import os
import signal
import subprocess
import sys
import time

import imageio_ffmpeg
import numpy as np
import pytest
import xarray as xr

from analysis import film as command_of_film
from analysis.film import draw_frames, find_event, replay_range, steps_around_drop, write_film
from analysis.plots.drawing import film_encoder as encoder_module
from analysis.plots.drawing.film_encoder import open_film_encoder
from analysis.plots.drawing.film_timeline import film_frames
from analysis.plots.drawing.panel_grid import PanelGrid
from analysis.plots.scenes.scene import EventMark
from dynamics.errors import RecordingError, TrajectoryError
from dynamics.trajectory.reader import open_trajectory
from tests.analysis.plots.drawing.test_artists import FRAMES, drawn, made
from tests.analysis.test_frame import files  # noqa: F401


def in_file(path):
    """Frames and seconds."""
    return imageio_ffmpeg.count_frames_and_secs(path)


def decoded(path, width, height):
    """(frame, height, width, rgb)"""
    frames = imageio_ffmpeg.read_frames(path)
    about = next(frames)
    assert about["size"] == (width, height)
    return np.stack([np.frombuffer(frame, np.uint8).reshape(height, width, 3) for frame in frames])


# ------------------------------------------------------------------------------------------- the encoder


@pytest.mark.parametrize("suffix", ["mp4", "gif"])
def test_a_film_shows_every_frame_and_holds_the_last(suffix, tmp_path):
    sheet = PanelGrid([made()], ["points", "map"], width=320, even=True)
    out = tmp_path / f"film.{suffix}"
    write_film(sheet, film_frames([made()], last=5), out, 20, progress=False)
    frames, seconds = in_file(out)
    assert frames == FRAMES + 4
    assert seconds == pytest.approx(frames / 20, abs=0.03)
    assert [path.name for path in tmp_path.iterdir()] == [out.name]


def test_frames_in_the_film_are_those_drawn(tmp_path):
    sheet = PanelGrid([made()], ["points", "loss"], width=480, even=True)
    write_film(sheet, film_frames([made()]), tmp_path / "film.mp4", 20, progress=False)
    found = decoded(tmp_path / "film.mp4", sheet.width, sheet.height)
    for frame in (0, 9, FRAMES - 1):
        apart = [np.abs(each - drawn(sheet, frame)[..., :3].astype(float)).mean() for each in found.astype(float)]
        assert int(np.argmin(apart)) == frame
        assert apart[frame] < 4


def test_films_play_in_browsers(tmp_path):
    sheet = PanelGrid([made()], ["points"], width=321, even=True)
    write_film(sheet, film_frames([made()]), tmp_path / "film.mp4", 20, progress=False)
    about = next(imageio_ffmpeg.read_frames(tmp_path / "film.mp4"))
    assert about["codec"] == "h264"
    assert about["pix_fmt"].startswith("yuv420p")
    data = (tmp_path / "film.mp4").read_bytes()
    assert data.index(b"moov") < data.index(b"mdat")  # it begins before all is loaded


@pytest.mark.parametrize("suffix", ["mp4", "gif"])
def test_the_same_bytes_twice(suffix, tmp_path):
    for name in ("one", "two"):
        sheet = PanelGrid([made()], ["points", "map"], width=320, even=True)
        write_film(sheet, film_frames([made()]), tmp_path / f"{name}.{suffix}", 20, progress=False)
    assert (tmp_path / f"one.{suffix}").read_bytes() == (tmp_path / f"two.{suffix}").read_bytes()


def test_nothing_is_left_of_a_film_that_was_broken_off(tmp_path):
    (tmp_path / "film.mp4").write_text("an earlier one")
    with pytest.raises(KeyboardInterrupt), open_film_encoder(tmp_path / "film.mp4", (32, 32), 20) as write:
        write(np.zeros((32, 32, 4), np.uint8))
        raise KeyboardInterrupt
    assert [path.name for path in tmp_path.iterdir()] == ["film.mp4"]
    assert (tmp_path / "film.mp4").read_text() == "an earlier one"


def test_an_encoder_that_stops_is_told(tmp_path, monkeypatch):
    monkeypatch.setattr(encoder_module, "H264_OPTIONS", ["-f", "nonesuch"])
    told = pytest.raises(RecordingError, match=r"film\.mp4: could not be written \(the encoder stopped")
    with told, open_film_encoder(tmp_path / "film.mp4", (320, 320), 20) as write:
        for _ in range(50):
            write(np.zeros((320, 320, 4), np.uint8))
    assert not list(tmp_path.iterdir())


def test_a_film_that_is_too_short_is_told(tmp_path, monkeypatch):
    monkeypatch.setattr(encoder_module, "H264_OPTIONS", [*encoder_module.H264_OPTIONS, "-frames:v", "2"])
    told = pytest.raises(RecordingError, match="could not be written")
    with told, open_film_encoder(tmp_path / "film.mp4", (32, 32), 20) as write:
        for _ in range(5):
            write(np.zeros((32, 32, 4), np.uint8))
    assert not list(tmp_path.iterdir())


def test_a_missing_encoder_is_told(files, typed, tmp_path, monkeypatch):  # noqa: F811
    monkeypatch.setitem(sys.modules, "imageio_ffmpeg", None)
    monkeypatch.delitem(sys.modules, "analysis.plots.drawing.film_encoder")
    code, _, err = typed("analysis.film", files["particles"])
    assert code == 1
    assert "pip install 'training-dynamics[view]'" in err


def test_pictures_are_those_of_their_frames(monkeypatch):
    monkeypatch.setattr(command_of_film, "_FRAMES_PER_BATCH", 4)
    sheet, scenes = PanelGrid([made(), made()], ["points"], width=320), [made(), made()]
    found = film_frames(scenes)._replace(frames=np.array([[0, 20], [3, 3], [7, 1], [20, 0], [5, 5], [6, 6]]))
    copies = [picture.copy() for picture in draw_frames(sheet, found)]
    for picture, frames in zip(copies, found.frames, strict=True):
        np.testing.assert_array_equal(picture, drawn(sheet, *frames))


# -------------------------------------------------------------------------------------------- the command


@pytest.mark.parametrize(("name", "frames"), [("particles", 13), ("modular", 5), ("sparse", 4), ("metrics", 5)])
def test_films_of_every_system(name, frames, files, typed, tmp_path):  # noqa: F811
    recorded = open_trajectory(files[name]).sizes["step"]
    code, out, err = typed("analysis.film", files[name], "--width", 320, "--out", "film.mp4")
    assert code == 0, err
    assert recorded == frames
    assert "every recorded frame" in out
    assert in_file(tmp_path / "film.mp4") == (frames + 9, pytest.approx((frames + 9) / 20, abs=0.01))


def test_a_gif_is_as_long_as_is_said(files, typed, tmp_path):  # noqa: F811
    code, out, _ = typed("analysis.film", files["particles"], "--panels", "embedding", "--width", 120, "--fps", 240,
                         "--out", "x.gif")  # fmt: skip
    assert code == 0
    frames, seconds = in_file(tmp_path / "x.gif")
    assert f"{frames} frames, {frames / 50:.1f} s" in out
    assert seconds == pytest.approx(frames / 50, abs=0.02)


def test_where_a_film_lies_and_how_it_is_paced(files, typed):  # noqa: F811
    code, out, _ = typed("analysis.film", files["particles"], files["particles"], "--width", 400,
                         "--panels", "embedding", "force", "--time", "events", "--fps", 10, "--every", 2)  # fmt: skip
    assert code == 0
    path = files["particles"].with_name("particles-run0-run1.mp4")
    assert str(path) in out
    assert "one recorded frame in 2, and the last, 4 times as long near drops and spikes" in out
    assert in_file(path)[0] >= 7 + 4


def test_a_small_gif(files, typed, tmp_path):  # noqa: F811
    code, out, _ = typed("analysis.film", files["modular"], "--out", "film.gif")
    assert code == 0
    assert "embedding, pair_sums, loss" in out
    assert "480 x" in out
    assert (tmp_path / "film.gif").stat().st_size < 1_500_000


def test_a_run_that_diverged_is_filmed_until_then(files, typed, tmp_path):  # noqa: F811
    trajectory = open_trajectory(files["wild"])
    valid = int((trajectory["step"] <= trajectory["last_step"][0]).sum())
    assert 0 < valid < trajectory.sizes["step"]
    assert typed("analysis.film", files["wild"], "--run", 0, "--width", 320, "--out", "film.mp4")[0] == 0
    assert in_file(tmp_path / "film.mp4")[0] == valid + 9


@pytest.mark.parametrize(
    ("words", "field"),
    [
        (("--out", "film.avi"), "--out"),
        (("--fps", 0), "--fps"),
        (("--fps", 1e-9), "--fps"),
        (("--every", 0), "--every"),
        (("--begin", 50), "--begin"),
        (("--run", 9), "--run"),
        (("--columns", 0), "--columns"),
        (("--out", "film.gif", "--columns", -2), "--columns"),
        (("--panels", "film"), "--panels"),
        (("--event", "spike", "--begin", 3), "--event"),
    ],
)
def test_what_is_refused(words, field, files, typed, tmp_path):  # noqa: F811
    code, _, err = typed("analysis.film", files["modular"], *words)
    assert code == 2
    assert err.startswith(f"error: {field}: found")
    assert not list(tmp_path.iterdir())


def test_an_interrupted_film_leaves_nothing(files, environment, tmp_path):  # noqa: F811
    words = [sys.executable, "-m", "analysis.film", str(files["sparse"]), "--out", "film.mp4", "--width", "4000",
             "--panels", "loss", "receptors"]  # fmt: skip
    process = subprocess.Popen(words, env={**os.environ, **environment}, stderr=subprocess.PIPE, cwd=tmp_path)
    deadline = time.monotonic() + 60
    while not list(tmp_path.glob(".film.mp4.*")) and time.monotonic() < deadline:
        time.sleep(0.02)
    process.send_signal(signal.SIGINT)
    _, err = process.communicate(timeout=60)
    assert process.returncode == 130
    assert b"interrupted" in err
    assert b"Traceback" not in err
    assert not list(tmp_path.iterdir())


# ----------------------------------------------------------------------------------------------- events


def with_losses(losses):
    """A trajectory with nothing but a loss (run, step)."""
    losses = np.asarray(losses, np.float32)
    steps = 10 * np.arange(losses.shape[1])
    return xr.Dataset(
        {
            "loss": (("run", "step", "split"), losses[..., None]),
            "last_step": ("run", np.full(len(losses), steps[-1])),
        },
        {"step": steps, "split": ["train"]},
    )


def spiky(*heights, at=100, drop=None):
    loss = np.ones(200) + 0.001 * np.sin(np.arange(200))
    if drop:
        loss[drop:] *= 0.3
    for place, height in enumerate(heights):
        loss[at + 30 * place + np.arange(3)] += np.array([0.5, 1, 0.5]) * height
    return loss


def test_the_highest_spike_is_found():
    trajectory = with_losses([spiky(1.0, 2.0), spiky(0.5, 3.0), spiky(1.5)])
    run, spike = find_event(trajectory, None, "spike")
    assert (run, spike.kind, spike.middle) == (1, "spike", 1310)
    run, spike = find_event(trajectory, 0, "spike")
    assert (run, spike.middle) == (0, 1310)
    with pytest.raises(TrajectoryError, match="no spike in run 0"):
        find_event(with_losses([np.ones(200)]), 0, "spike")


def test_the_first_and_the_largest_drop_are_found():
    loss = spiky(drop=60)
    loss[140:] *= 0.01
    for kind, step in (("first-drop", 590), ("drop", 590)):
        _, drop = find_event(with_losses([loss]), 0, kind)
        assert drop.kind == kind
        assert abs(drop.middle - step) <= 20
    loss = spiky(drop=60) + np.where(np.arange(200) < 140, 5.0, 0.0)
    assert abs(find_event(with_losses([loss]), 0, "drop")[1].middle - 1390) <= 20


def test_steps_around_a_spike():
    steps = 64 * np.arange(100)
    first, last = replay_range(EventMark("spike", 3150, 3200, 3250), steps)
    assert first <= 3200 - 128
    assert 3200 < last <= 3200 + 3 * 64
    assert first in steps
    first, last = replay_range(EventMark("spike", 0, 64, 128), steps)
    assert (first, last) >= (0, 64)
    close = np.arange(1000)
    first, last = replay_range(EventMark("spike", 499, 500, 501), close)
    assert last - first >= 78
    assert replay_range(EventMark("spike", 998, 999, 999), close)[1] == 999


def test_steps_around_a_drop():
    steps = 64 * np.arange(100)
    assert steps_around_drop(EventMark("drop", 64 * 40, 64 * 45, 64 * 50), steps) == (64 * 30, 64 * 60)
    assert steps_around_drop(EventMark("drop", 64, 64, 64 * 97), steps) == (0, 64 * 99)


def test_an_event_that_there_is_not(files, typed, tmp_path):  # noqa: F811
    code, _, err = typed("analysis.film", files["modular"], "--run", 0, "--event", "spike")
    assert code == 1
    assert err.startswith("error: ")
    assert not list(tmp_path.iterdir())


def test_weights_of_a_spike_are_shown_where_only_metrics_were_recorded(files, typed, tmp_path, monkeypatch):  # noqa: F811
    monkeypatch.setattr(
        command_of_film, "find_event", lambda trajectory, run, kind: (0, EventMark("spike", 10, 20, 30))
    )
    code, out, err = typed("analysis.film", files["metrics"], "--event", "spike", "--out", "spike.gif")
    assert code == 0, err
    assert "embedding, pair_sums, loss" in out
    assert in_file(tmp_path / "spike.gif")[0] == 41 + 4


def test_a_spike_is_filmed_step_by_step(files, typed, tmp_path, monkeypatch):  # noqa: F811
    spike = EventMark("spike", 8, 16, 24)
    monkeypatch.setattr(command_of_film, "find_event", lambda trajectory, run, kind: (1, spike))
    code, out, err = typed("analysis.film", files["sparse"], "--event", "spike", "--width", 320, "--panels", "loss",
                           "receptors", "--out", "spike.mp4")  # fmt: skip
    assert code == 0, err
    assert "repeated from step 0 to 24, every step" in out
    assert "(run 1)" in out
    assert in_file(tmp_path / "spike.mp4")[0] == 25 + 9
