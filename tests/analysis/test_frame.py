"""Figures of runs of all systems: what is written, what is said, and what is refused."""

import numpy as np
import pytest
from matplotlib.image import imread

from analysis.plots.drawing.film_timeline import (
    EVENT_HOLD,
    film_frames,
    frame_times,
    nearest_frame,
    simultaneous_frames,
)
from analysis.plots.scenes.scene import EventMark
from dynamics.settings import ModularSettings, ParticleSettings, SettingsError, SparseSettings
from dynamics.simulation import simulate
from dynamics.trajectory.reader import open_trajectory
from tests.analysis.plots.drawing.test_artists import FRAMES, made

SMALL = {
    "particles": (ParticleSettings(n=7), {"steps": 12}),
    "modular": (ModularSettings(n=7, hidden=6), {"steps": 40}),
    "sparse": (SparseSettings(data=64, hidden=7), {"steps": 24, "every": 8}),
    "deep": (SparseSettings(data=64, hidden=7, dim=4), {"steps": 8, "every": 8}),
    "wild": (ModularSettings(n=7, hidden=6, optimizer="sgd", lr=1e-3, weight_decay=2500), {"steps": 40, "every": 1}),
}


@pytest.fixture(scope="module")
def files(tmp_path_factory):
    """A small trajectory of each kind, two runs each, and one that has metrics alone."""
    folder, found = tmp_path_factory.getbasetemp() / "small-runs", {}  # simulated once, then found
    for name, (settings, words) in SMALL.items():
        found[name] = folder / f"{name}.nc"
        simulate(settings, runs=2, seed=3, out=found[name], progress=False, **words)
    found["metrics"] = folder / "metrics.nc"
    settings, words = SMALL["modular"]
    simulate(settings, runs=2, seed=3, out=found["metrics"], record="metrics", progress=False, **words)
    return found


def size(path):
    height, width, _ = imread(path).shape
    return width, height


# -------------------------------------------------------------------------------------------- the command


@pytest.mark.parametrize("name", ["particles", "modular", "sparse", "deep", "metrics"])
def test_figures_of_every_system(name, files, typed):
    code, out, err = typed("analysis.frame", files[name], *([] if name == "metrics" else ["--width", 480]))
    assert (code, err) == (0, "")
    last = SMALL.get(name, SMALL["modular"])[1]["steps"]
    picture = files[name].with_name(f"{name}-run0-step{last}.png")
    assert str(picture) in out
    assert size(picture)[0] == (960 if name == "metrics" else 480)
    assert len(np.unique(imread(picture).reshape(-1, 4), axis=0)) > 50
    assert ("embedding" in out) == (name != "metrics")
    assert "loss" in out or name == "particles"


def test_a_run_of_metrics_says_which_panels_it_has(files, typed):
    code, _, err = typed("analysis.frame", files["metrics"], "--panels", "embedding")
    assert code == 2
    assert "--panels: found embedding" in err
    assert "loss" in err


def test_the_nearest_recorded_step_is_shown_and_said(files, typed):
    code, out, _ = typed("analysis.frame", files["sparse"], "--run", 1, "--step", 13, "--panels", "loss")
    assert code == 0
    assert "step        16, the nearest to 13 that was recorded" in out
    assert files["sparse"].with_name("sparse-run1-step16.png").exists()
    assert (
        "nearest" not in typed("analysis.frame", files["sparse"], "--step", 8, "--panels", "loss", "--out", "x.png")[1]
    )


@pytest.mark.parametrize("suffix", ["svg", "pdf", "png"])
def test_the_same_bytes_twice(suffix, files, typed, tmp_path):
    words = ("--panels", "embedding", "pair_sums", "--width", 480)
    for name in ("one", "two"):
        assert typed("analysis.frame", files["modular"], *words, "--out", f"{name}.{suffix}")[0] == 0
    assert (tmp_path / f"one.{suffix}").read_bytes() == (tmp_path / f"two.{suffix}").read_bytes()


def test_two_runs_side_by_side(files, typed, tmp_path):
    names = ("--panels", "embedding", "loss")
    code, out, _ = typed("analysis.frame", files["modular"], files["modular"], "--run", 0, *names)
    assert code == 0
    picture = files["modular"].with_name("modular-run0-run1-step40.png")
    assert str(picture) in out
    assert size(picture)[0] == 1920
    code, out, _ = typed(
        "analysis.frame", files["modular"], files["particles"], "--run-of-other", 1, "--out", "both.png", "--width", 400
    )
    assert code == 0
    assert "(run 1)" in out
    assert "hidden" not in out.split("panels")[1]  # particles have none


def test_axes_are_chosen(files, typed, tmp_path):
    words = ("--panels", "receptors", "--width", 240)
    typed("analysis.frame", files["deep"], *words, "--out", "principal.png")
    typed("analysis.frame", files["deep"], *words, "--axes", 0, 3, "--out", "chosen.png")
    assert (tmp_path / "principal.png").read_bytes() != (tmp_path / "chosen.png").read_bytes()
    code, _, err = typed("analysis.frame", files["deep"], "--axes", 0, 4)
    assert code == 2
    assert "--axes" in err


def test_a_run_that_diverged_ends_before(files, typed):
    code, out, _ = typed("analysis.frame", files["wild"], "--width", 240)
    assert code == 0
    assert "step40" not in out
    last = int(open_trajectory(files["wild"])["last_step"][0])
    assert last > 20
    assert f"(run 0, the first one, as none is a circle, which diverged after step {last})" in out
    code, _, err = typed("analysis.frame", files["wild"], "--step", 40)
    assert code == 2
    assert "--step: found 40" in err
    assert f"(diverged after epoch {last})" in err


@pytest.mark.parametrize(
    ("words", "field"),
    [
        (("--run", 2), "--run"),
        (("--run", -1), "--run"),
        (("--step", 41), "--step"),
        (("--step", -2), "--step"),
        (("--panels", "circles"), "--panels"),
        (("--out", "figure.jpg"), "--out"),
        (("--width", 7), "--width"),
        (("--columns", 0), "--columns"),
        (("--columns", 90, "--width", 240), "--width"),
        (("--width", 121), "--width"),
        (("--run-of-other", 1), "--run-of-other"),
        (("--panels", "loss", "loss"), "--panels"),
    ],
)
def test_what_is_refused(words, field, files, typed, tmp_path):
    code, _, err = typed("analysis.frame", files["modular"], *words)
    assert code == 2
    assert err.startswith(f"error: {field}: found")
    assert not list(tmp_path.iterdir())


@pytest.mark.parametrize("command", ["analysis.frame", "analysis.film"])
def test_data_are_not_overwritten(command, files, typed, tmp_path):
    suffix = {"analysis.frame": "png", "analysis.film": "mp4"}[command]
    data = tmp_path / f"data.{suffix}"
    data.write_bytes(files["particles"].read_bytes())
    for source in (data, files["modular"]):
        code, _, err = typed(command, source, "--panels", "embedding", "--out", data)
        assert code == 2
        assert "--out: found" in err
    assert data.read_bytes() == files["particles"].read_bytes()


def test_capitals_are_a_suffix_too(files, typed, tmp_path):
    assert typed("analysis.frame", files["particles"], "--panels", "embedding", "--out", "x.PNG")[0] == 0
    assert size(tmp_path / "x.PNG")[0] == 640


def test_a_file_that_is_none(typed, tmp_path):
    (tmp_path / "x.nc").write_text("no trajectory")
    code, _, err = typed("analysis.frame", "x.nc")
    assert code == 1
    assert err.startswith("error: x.nc")


# ------------------------------------------------------------------------------------------ frames and time


def test_the_nearest_frame():
    scene = made()
    assert [nearest_frame(scene, step) for step in (0, 15, 17, 600, 640, -1)] == [0, 0, 1, 19, 20, 20]
    with pytest.raises(SettingsError, match="from 0 to 640"):
        nearest_frame(scene, 641)


def test_linear_time_shows_every_frame_once():
    found = film_frames([made()], last=10)
    assert found.frames[:, 0].tolist() == list(range(FRAMES))
    assert found.holds.tolist() == [1] * (FRAMES - 1) + [10]
    assert found.length == FRAMES + 9


@pytest.mark.parametrize(("every", "shown"), [(5, [0, 5, 10, 15, 20]), (6, [0, 6, 12, 18, 20]), (99, [0, 20])])
def test_some_frames_and_the_last(every, shown):
    assert film_frames([made()], every=every).frames[:, 0].tolist() == shown


def test_from_a_step_to_another():
    found = film_frames([made()], begin=33, end=129)
    assert found.frames[:, 0].tolist() == [2, 3, 4]
    with pytest.raises(SettingsError, match="begin"):
        film_frames([made()], begin=641)
    with pytest.raises(SettingsError, match="recorded frame"):
        film_frames([made()], begin=33, end=40)


def test_time_is_slow_around_events():
    found = film_frames(
        [made(marks=(EventMark("drop", 160, 192, 224), EventMark("plateau", 320, 400, 480)))], by_events=True
    )
    assert np.flatnonzero(found.holds == EVENT_HOLD).tolist() == [3, 4, 5, 6, 7, 8, 9]  # 5 to 7, and two beside
    assert set(found.holds.tolist()) == {1, EVENT_HOLD}


def test_two_scenes_go_by_one_clock():
    rare = made(steps=np.array([0, 64, 640]), clock=np.array([0.0, 1.0, 10.0]))
    found = film_frames([rare, made()])
    assert found.frames[:, 1].tolist() == list(range(FRAMES))
    assert found.frames[:, 0].tolist() == [0, 0] + [1] * 18 + [2]
    short = made(steps=32 * np.arange(3), clock=np.arange(3) / 2)  # diverged
    assert film_frames([made(), short]).frames[:, 1].tolist() == [0, 1] + [2] * 19


def test_scenes_of_other_units_go_by_shares():
    steps = made(unit="step", steps=np.arange(0, 101, 50), clock=np.arange(0.0, 101, 50))
    assert [each.max() for each in frame_times([made(), steps])] == [1, 1]
    assert simultaneous_frames([made(), steps], 10) == [10, 1]
    assert simultaneous_frames([made(), steps], 9) == [9, 0]
    assert simultaneous_frames([steps, made()], 1) == [1, 10]
