"""Figures of runs of all systems: what is written, what is said, and what is
refused."""

import re

import numpy as np
import pytest
from matplotlib.image import imread

from analysis.panels import panel_names
from dynamics.trajectory.reader import open_trajectory
from tests.analysis.conftest import SMALL_RUNS


@pytest.fixture
def frame(small_runs, output_of):
    """The output of the command with one of the small runs, or several, and words."""

    def run(names, words="", code=0):
        runs = [small_runs[name] for name in names.split()]
        return output_of("analysis.frame", *runs, *words.split(), code=code)

    return run


def size(path):
    """Width and height in pixels."""
    return imread(path).shape[1::-1]


@pytest.mark.parametrize("name", ["particles", "modular", "sparse", "deep", "metrics"])
def test_figures_of_every_system(name, small_runs, frame):
    out = frame(name, "" if name == "metrics" else "--width 480")
    steps = SMALL_RUNS[name][1]["steps"]
    picture = small_runs[name].with_name(f"{name}-run0-step{steps}.png")
    assert str(picture) in out
    assert size(picture)[0] == (960 if name == "metrics" else 480)
    assert len(np.unique(imread(picture).reshape(-1, 4), axis=0)) > 50
    assert ("embedding" in out.split("panels   ")[1]) == (name != "metrics")
    assert ("need a run with --record all" in out) == (name == "metrics")
    assert "loss" in out or name == "particles"
    printed = out.split("panels      ")[1].partition("\n")[0]
    assert set(panel_names(open_trajectory(small_runs[name]))) <= set(
        re.findall(r"\w+", printed)
    )


def test_the_nearest_recorded_step_is_drawn_and_named(small_runs, frame):
    out = frame("sparse", "--run 1 --step 13 --panels loss")
    assert "step        16, the nearest to 13 that was recorded" in out
    assert small_runs["sparse"].with_name("sparse-run1-step16.png").exists()
    assert "nearest" not in frame("sparse", "--step 8 --panels loss --out x.png")


@pytest.mark.parametrize("suffix", ["svg", "pdf", "PNG"])
def test_figures_are_reproducible_to_the_byte(suffix, frame, tmp_path):
    for name in ("one", "two"):
        out = frame("modular", f"--panels embedding --width 480 --out {name}.{suffix}")
        assert ("(480 x 535)" if suffix == "PNG" else "(122 x 136 mm)") in out
    first, second = (tmp_path / f"{name}.{suffix}" for name in ("one", "two"))
    assert first.read_bytes() == second.read_bytes()


def test_frames_for_print_have_the_width_of_a_page_or_column(frame):
    assert "(2127 x 1590)" in frame("particles", "--style paper --out page.png")
    words = "--style paper --column --panels embedding imperfections --out column.pdf"
    height = re.search(r"\(85 x (\d+) mm\)", frame("particles", words))
    assert 50 < int(height[1]) < 80  # beside each other
    assert "(453 x " in frame("particles", "--column --style dark --out narrow.png")
    words += " --columns 1"
    height = re.search(r"\(85 x (\d+) mm\)", frame("particles", words))
    assert 170 < int(height[1]) < 200


def test_a_picture_that_is_too_high_for_a_column_is_refused(frame):
    words = "--style paper --column --columns 1 --panels all"
    frame("particles", words, code=2)


def test_two_runs_side_by_side(small_runs, frame):
    out = frame("modular modular", "--run 0 --panels embedding loss")
    picture = small_runs["modular"].with_name("modular-run0-run1-step40.png")
    assert str(picture) in out
    assert size(picture)[0] == 1920
    out = frame("modular particles", "--run-of-other 1 --out both.png --width 400")
    assert "(run 1)" in out
    assert "hidden" not in out.split("panels")[1]  # particles have none


def test_main_panels_are_larger_and_all_panels_can_be_drawn(frame):
    names = "embedding, pair_sums, descent, imperfections, loss, accuracy; with"
    assert f"panels      {names}" in frame("modular")
    out = frame("modular", "--panels all --out all.png")
    assert "descent, law, hidden, norm_ratio" in out
    assert "also" not in out


def test_the_figure_of_a_diverged_run_is_that_of_its_last_frame(small_runs, frame):
    out = frame("wild", "--width 240")
    assert "step40" not in out
    last = int(open_trajectory(small_runs["wild"])["last_step"][0])
    assert last > 20
    assert (
        f"(run 0, the first one, as none is a circle, which diverged after step {last})"
        in out
    )
    err = frame("wild", "--step 40", code=2)
    assert "--step: found 40" in err
    assert f"(diverged after epoch {last})" in err
