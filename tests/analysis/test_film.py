"""The command that films runs: what it writes and prints, and what it refuses."""

import os
import signal
import subprocess
import sys
import time

import pytest
from imageio_ffmpeg import count_frames_and_secs

from analysis import plots
from analysis.plots.scenes.scene import EventMark
from dynamics.trajectory.reader import open_trajectory


@pytest.mark.parametrize(("name", "frames"), [("particles", 13), ("modular", 5), ("sparse", 4), ("metrics", 5)])
def test_films_of_every_system(name, frames, small_runs, typed, tmp_path):
    assert open_trajectory(small_runs[name]).sizes["step"] == frames
    code, out, err = typed("analysis.film", small_runs[name], "--width", 320, "--out", "film.mp4")
    assert code == 0, err
    assert "every recorded frame" in out
    assert "with --panels also" not in out or name == "sparse"
    expected = frames + 9, pytest.approx((frames + 9) / 20, abs=0.01)
    assert count_frames_and_secs(tmp_path / "film.mp4") == expected


def test_a_gif_is_as_long_as_is_said(small_runs, typed, tmp_path):
    code, out, _ = typed("analysis.film", small_runs["particles"], "--panels", "embedding", "--width", 120, "--fps",
                         240, "--out", "x.gif")  # fmt: skip
    assert code == 0
    frames, seconds = count_frames_and_secs(tmp_path / "x.gif")
    assert f"{frames} frames, {frames / 50:.1f} s" in out
    assert seconds == pytest.approx(frames / 50, abs=0.02)


def test_where_a_film_lies_and_how_it_is_paced(small_runs, typed):
    code, out, _ = typed("analysis.film", small_runs["particles"], small_runs["particles"], "--width", 400,
                         "--panels", "embedding", "force", "--time", "events", "--fps", 10, "--every", 2)  # fmt: skip
    assert code == 0
    path = small_runs["particles"].with_name("particles-run0-run1.mp4")
    assert str(path) in out
    assert "one recorded frame in 2, and the last, 4 times as long near drops and spikes" in out
    assert count_frames_and_secs(path)[0] >= 7 + 4


def test_a_gif_is_small_and_names_the_panels_it_leaves_out(small_runs, typed, tmp_path):
    code, out, _ = typed("analysis.film", small_runs["modular"], "--out", "film.gif")
    assert code == 0
    assert "embedding, pair_sums, loss, imperfections; with --panels also descent, law, hidden, circularity" in out
    assert "480 x" in out
    assert (tmp_path / "film.gif").stat().st_size < 1_500_000


def test_a_run_that_diverged_is_filmed_until_then(small_runs, typed, tmp_path):
    trajectory = open_trajectory(small_runs["wild"])
    valid = int((trajectory["step"] <= trajectory["last_step"][0]).sum())
    assert 0 < valid < trajectory.sizes["step"]
    words = ("--run", 0, "--width", 320, "--panels", "embedding", "loss", "--out", "film.mp4")
    assert typed("analysis.film", small_runs["wild"], *words)[0] == 0
    assert count_frames_and_secs(tmp_path / "film.mp4")[0] == valid + 9


def test_a_missing_encoder_is_told(small_runs, typed, monkeypatch):
    monkeypatch.setitem(sys.modules, "imageio_ffmpeg", None)
    monkeypatch.delitem(sys.modules, "analysis.plots.drawing.film_encoder", raising=False)
    monkeypatch.delitem(vars(plots), "write_film", raising=False)
    code, _, err = typed("analysis.film", small_runs["particles"])
    assert code == 1
    assert "pip install 'training-dynamics[view]'" in err


def test_an_interrupted_film_leaves_nothing(small_runs, environment, tmp_path):
    words = [sys.executable, "-m", "analysis.film", str(small_runs["sparse"]), "--out", "film.mp4", "--width", "4000",
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


def test_a_spike_is_filmed_step_by_step(small_runs, typed, tmp_path, monkeypatch):
    monkeypatch.setattr(plots, "find_event", lambda trajectory, run, kind: (1, EventMark("spike", 8, 16, 24)))
    code, out, err = typed("analysis.film", small_runs["sparse"], "--event", "spike", "--width", 320, "--panels",
                           "loss", "receptors", "--out", "spike.mp4")  # fmt: skip
    assert code == 0, err
    assert "replayed from step 0 to 24, every step" in out
    assert "(run 1)" in out
    assert count_frames_and_secs(tmp_path / "spike.mp4")[0] == 25 + 9
    code, out, err = typed("analysis.film", small_runs["metrics"], "--event", "spike", "--out", "spike.gif")
    assert code == 0, err
    assert "embedding, pair_sums, loss" in out  # a replay has weights where only metrics were recorded
    assert count_frames_and_secs(tmp_path / "spike.gif")[0] == 41 + 4
