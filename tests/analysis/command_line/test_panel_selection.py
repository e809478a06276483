"""Selection of runs and frames in the commands that draw panels, by the options of all
analyses and by their former names."""

import pytest

from dynamics import ParticleSettings, simulate


@pytest.fixture
def draw(output_of):
    simulate(ParticleSettings(n=5), runs=3, steps=9, out="p.nc")
    return lambda words, code=0: output_of(*words.split(), code=code)


@pytest.mark.parametrize(
    ("words", "picture"),
    [
        ("--at 5 --run-indices 2", "p-run2-step5.png"),
        ("--step 5 --run 2", "p-run2-step5.png"),
        ("p.nc --run-indices 1 0 --step 99", None),
        ("p.nc --run-indices 1 0", "p-run1-run0-step9.png"),
    ],
)
def test_a_run_and_a_frame(words, picture, draw):
    command = f"analysis.frame p.nc {words} --panels embedding"
    if picture is None:
        assert "--step: found 99" in draw(command, code=2)
    else:
        assert picture in draw(command)


@pytest.mark.parametrize(
    ("words", "frames"),
    [("--every 4", 4), ("--frames 3", 3), ("--at 0 2 9", 3), ("--frames 3 --at 4", 1)],
)
def test_frames_of_a_film(words, frames, draw):
    out = draw(f"analysis.film p.nc {words} --panels embedding --out a.gif")
    assert f"({frames})" in out


@pytest.mark.parametrize(
    ("words", "message"),
    [
        ("frame p.nc --run-indices 0 1", "--run-indices: found 0 1, allowed is the"),
        ("frame p.nc --run 1 --run-indices 0", "--run --run-indices: found both"),
        ("frame p.nc --at 1 2", "--at: found 1 2, allowed is one recorded step"),
        ("frame p.nc --at 1 --step 2", "--step --at: found both"),
        ("film p.nc --frames 0", "--frames: found 0"),
        ("compare p.nc p.nc --runs 4", "--runs: found 4"),
        ("explore p.nc --run 1", "--run-indices: found 1, allowed is no value without"),
    ],
)
def test_mistakes(words, message, draw):
    assert message in draw(f"analysis.{words}", code=2)


def test_both_sides_of_a_comparison_are_selected(draw):
    out = draw("analysis.compare p.nc p.nc --runs 2 --frames 4 --csv t.csv")
    assert "p.nc  (2 runs)" in out
