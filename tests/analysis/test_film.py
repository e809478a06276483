"""The command that films runs: what it writes and prints."""

import os
import re
import signal
import sys
import time
from pathlib import Path

import pytest
from imageio_ffmpeg import count_frames_and_secs

from analysis import plots
from analysis.film import Options
from analysis.panels import EventMark
from analysis.plots import PanelGrid
from dynamics.settings import SettingsError
from dynamics.trajectory.reader import open_trajectory


@pytest.fixture
def film(small_runs, output_of, tmp_path):
    """The output of the command with some of the small runs, and the number of frames
    and seconds of its film."""

    def run(names, words, path=tmp_path / "film.mp4"):
        runs = [small_runs[name] for name in names.split()]
        words += "" if "--out" in words else " --out film.mp4"
        said = output_of("analysis.film", *runs, *words.split())
        return said, *count_frames_and_secs(path)

    return run


@pytest.mark.parametrize(
    ("name", "frames"),
    [("particles", 13), ("modular", 5), ("sparse", 4), ("metrics", 5)],
)
def test_films_of_every_system(name, frames, film):
    out, *length = film(name, "--width 320 --time even")
    assert (
        f"every recorded frame ({frames}), the last one for 10 film frames:"
        f" {frames + 9} frames" in out
    )
    assert ("with --panels also" in out) == (name != "metrics")
    assert length == [frames + 9, pytest.approx((frames + 9) / 20, abs=0.01)]


@pytest.mark.parametrize(("seconds", "fps"), [(3, 20), (0.5, 28)])
def test_a_film_has_the_duration_that_is_asked_for(seconds, fps, film):
    words = f"--width 320 --time even --panels embedding --duration {seconds}"
    out, frames, length = film("modular", words)
    assert length == pytest.approx(seconds, abs=0.05)
    assert frames / length == pytest.approx(fps, rel=0.05)
    assert f"{seconds:.1f} s" in out


def test_frames_between_recorded_ones_are_interpolated_and_the_title_says_so(
    film, monkeypatch
):
    titles = []
    size_of_film = plots.film_size
    monkeypatch.setattr(
        plots,
        "film_size",
        lambda grid, *rest: (
            titles.extend(scene.title for scene in grid.scenes)
            or size_of_film(grid, *rest)
        ),
    )
    words = "--width 320 --time even --panels embedding"
    out, frames, _ = film("modular", words)
    assert "interpolated" not in out + titles[-1]
    out, smooth, _ = film("modular", f"{words} --interpolate 3")
    assert smooth - 10 == 4 * (frames - 10)
    assert "3 interpolated between two of them" in out
    assert "interpolated between recorded frames" in titles[-1]


@pytest.mark.parametrize("number", [-1, 101])
def test_a_wrong_number_of_interpolated_frames_is_refused(number):
    with pytest.raises(SettingsError, match="interpolate"):
        Options(Path("run.nc"), interpolate=number)


def test_assemblers_are_beside_receptors(film):
    out, *_ = film("sparse", "--width 320")
    assert "receptors, assemblers," in out


@pytest.mark.parametrize(
    ("aspect", "words"), [("16:9", ""), ("1:2", "--width 320"), ("16:9", "--width 640")]
)
def test_a_film_has_the_aspect_that_is_asked_for(aspect, words, film):
    panels = "--panels embedding loss accuracy imperfections"
    out, *_ = film("modular", f"--time even {panels} --aspect {aspect} {words}")
    width, height = map(int, re.search(r"\((\d+) x (\d+)", out).groups())
    assert width % 2 == height % 2 == 0
    across, down = map(int, aspect.split(":"))
    assert width / height == pytest.approx(across / down, rel=0.01)
    if words:
        assert f"--width {width}" == words


def test_the_panels_of_a_film_stay_whole_in_its_margins():
    grid = PanelGrid.__new__(PanelGrid)
    grid.width, grid.height = 640, 480
    assert plots.film_size(grid) == (640, 480)
    assert plots.film_size(grid, 16 / 9) == (854, 480)
    assert plots.film_size(grid, 1.0) == (640, 640)


def test_a_gif_is_as_long_as_printed(film, tmp_path):
    words = "--panels embedding --width 120 --fps 240 --out x.gif"
    out, frames, seconds = film("particles", words, tmp_path / "x.gif")
    assert f"{frames} frames, {frames / 50:.1f} s" in out
    assert seconds == pytest.approx(frames / 50, abs=0.02)


def test_the_default_name_and_the_pace_of_a_film(small_runs, output_of):
    words = "--width 400 --panels embedding force --fps 10"
    run = small_runs["particles"]
    out = output_of("analysis.film", run, run, *words.split())
    path = run.with_name("particles-run0-run1.mp4")
    assert str(path) in out
    assert re.search(
        r"slower at drops and spikes, faster in plateaus \(\d+\), the last one for \d+",
        out,
    )
    assert count_frames_and_secs(path)[0] >= 13 + 4
    out = output_of("analysis.film", run, *words.split(), "--every", "2")
    assert "one recorded frame in 2, and the last (7)" in out


def test_a_diverged_run_is_filmed_until_its_last_frame(small_runs, film):
    trajectory = open_trajectory(small_runs["wild"])
    valid = int((trajectory["step"] <= trajectory["last_step"][0]).sum())
    assert 0 < valid < trajectory.sizes["step"]
    options = "--run 0 --width 320 --time even --panels embedding loss"
    assert film("wild", options)[1] == valid + 9


def test_a_missing_encoder_is_told(small_runs, output_of, monkeypatch):
    monkeypatch.setitem(sys.modules, "imageio_ffmpeg", None)
    monkeypatch.delitem(
        sys.modules, "analysis.plots.drawing.film_encoder", raising=False
    )
    monkeypatch.delitem(vars(plots), "write_film", raising=False)
    error = output_of("analysis.film", small_runs["particles"], code=1)
    assert "pip install 'training-dynamics[view]'" in error


def test_an_interrupted_film_leaves_no_file(
    small_runs, output_of, tmp_path, monkeypatch
):
    draw, drawn = PanelGrid.draw, []

    def interrupt_second_frame(grid):
        drawn.append(grid)
        if len(drawn) == 2:
            deadline = time.monotonic() + 30
            while not list(tmp_path.glob(".film.mp4.*")):
                assert time.monotonic() < deadline
                time.sleep(0.01)
            os.kill(os.getpid(), signal.SIGINT)
        return draw(grid)

    monkeypatch.setattr(PanelGrid, "draw", interrupt_second_frame)
    words = "--out film.mp4 --width 320 --panels loss receptors".split()
    error = output_of("analysis.film", small_runs["sparse"], *words, code=130)
    assert "interrupted" in error
    assert not list(tmp_path.iterdir())


def test_a_spike_is_filmed_step_by_step(film, tmp_path, monkeypatch):
    spike = EventMark("spike", 8, 16, 24)
    monkeypatch.setattr(plots, "find_event", lambda trajectory, run, kind: (1, spike))
    out, frames, _ = film("sparse", "--event spike --width 320 --panels loss receptors")
    assert "replayed from step 0 to 24, every step" in out
    assert "(run 1)" in out
    assert frames == 25 + 9
    words = "--event spike --width 240 --out spike.gif"
    out, frames, _ = film("metrics", words, tmp_path / "spike.gif")
    # a replay has weights where only metrics were recorded
    assert "embedding, pair_sums, loss" in out
    assert frames == 41 + 4
