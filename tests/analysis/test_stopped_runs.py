"""Analyses of runs that have stopped at a condition, in comparison with the same runs
that go on: the end of a run is where it has stopped, and events until then are known."""

import numpy as np
import pytest
from numpy.testing import assert_array_equal

from analysis import circles, find_formation_times, structure_measures
from analysis.explorer.catalogue import run_catalogue, run_table_lines
from analysis.linearization.frame_results import valid_jobs
from analysis.panels.run_scene import RecordedRun, _run_status
from analysis.plots.curves import curves_caption
from analysis.progress_measures import grokking_times
from analysis.structures import compare_trajectories
from analysis.transitions import plateau_escape_times, trajectory_scalar
from dynamics import (
    ModularSettings,
    ParticleSettings,
    Selection,
    SparseSettings,
    count_diverged,
    count_stopped,
    simulate,
    valid_frames,
)
from dynamics.trajectory.schema import STOPPED
from dynamics.trajectory.success import successful_runs


@pytest.fixture(scope="module")
def particles():
    """Runs that end at the first circle, and the same runs that go on."""
    settings = ParticleSettings(n=5, fa=10.0)
    options = {"runs": 12, "steps": 80, "every": 4, "progress": False}
    plain = simulate(settings, **options)
    stopped = simulate(settings, until="circle", **options)
    count = int((stopped["status"] == STOPPED).sum())
    assert 0 < count < 12
    return plain, stopped


@pytest.mark.parametrize("selection", [Selection(), Selection(every=3)])
def test_a_circle_at_the_stop_has_formed_there(particles, selection):
    plain, stopped = particles
    times = find_formation_times(structure_measures(stopped, selection))
    is_stopped = stopped["status"].values == STOPPED
    circle = times.sel(event="circle")
    assert_array_equal(circle["formed"] == 1, is_stopped)
    last = stopped["last_step"].values / stopped["step"].values[-1]
    np.testing.assert_allclose(circle["onset"], last)
    never = find_formation_times(structure_measures(plain, selection))
    for event in times["event"].values:  # runs that go on are what they were
        for name in ("formed", "onset"):
            found, expected = (x[name].sel(event=event) for x in (times, never))
            assert_array_equal(found[~is_stopped], expected[~is_stopped])


def test_an_event_after_the_stop_is_censored_at_the_stop():
    settings = ParticleSettings(n=5, fa=10.0)
    options = {"runs": 12, "steps": 80, "every": 4, "progress": False}
    early = simulate(settings, until="update_norm.embedding > 0", **options)
    measures = structure_measures(early)
    times = find_formation_times(measures).sel(event="circle")
    formed = circles(early).isel(step=1).values == 1
    assert (early["last_step"] == 4).all()
    assert not formed.all()
    assert_array_equal(times["formed"], formed)
    assert early["step"].values.tolist() == [0, 4]


def test_a_measure_of_the_last_frame_has_the_stopped_runs(particles):
    _, stopped = particles
    assert valid_frames(stopped, [-1]).values.all()
    last = stopped.isel(step=[-1])
    assert valid_frames(last).values.all()
    assert np.isfinite(circles(last).values.astype(float)).all()
    assert len(valid_jobs(stopped, [len(stopped["step"]) - 1])) == 12
    whole = valid_frames(stopped).values
    steps, ends = stopped["step"].values, stopped["last_step"].values
    assert_array_equal(whole, steps <= ends[:, None])


def test_ends_are_compared_where_runs_have_stopped(particles):
    plain, stopped = particles
    result = compare_trajectories(stopped, plain)
    for name in ("circle", "norm_ratio", "departure", "from_start"):
        assert np.isfinite(result[f"first_{name}"].values.astype(float)).all(), name
    is_stopped = stopped["status"].values == STOPPED
    assert_array_equal(result["first_circle"], is_stopped)


def test_captions_and_lists_show_the_stopped_runs(particles):
    _, stopped = particles
    count = int((stopped["status"] == STOPPED).sum())
    assert (count_stopped(stopped), count_diverged(stopped)) == (count, 0)
    assert f"({count} stopped)" in curves_caption(stopped)
    run = int(np.flatnonzero(stopped["status"].values == STOPPED)[0])
    entries = run_catalogue(stopped)
    assert entries[run].status == "stopped"
    assert "circle" in run_table_lines(entries)[run + 1]
    status = _run_status(RecordedRun(stopped, run))
    assert status == f"stopped at step {int(stopped['last_step'][run])}"


def test_the_accuracy_at_the_stop_counts_and_a_delay_is_censored_there():
    settings = ModularSettings(n=7, hidden=64, weight_decay=0.1)
    options = {"runs": 8, "steps": 300, "every": 10, "progress": False}
    plain = simulate(settings, **options)
    best = plain["accuracy"].sel(split="validation").max("step").values
    threshold = float(np.median(best)) - 0.01
    until = f"accuracy.validation > {threshold!r}"
    stopped = simulate(settings, until=until, **options)
    ends = stopped["status"].values == STOPPED
    assert ends.any()
    found = successful_runs(stopped, threshold, "validation")
    assert_array_equal(found, ends | found)
    assert found[ends].all()
    times = grokking_times(stopped)
    both = np.isfinite(times["memorised"].values) & ~times["observed"].values
    expected = stopped["last_step"].values - times["memorised"].values
    assert_array_equal(times["delay"].values[both], np.maximum(expected, 0)[both])


def test_escapes_are_censored_at_the_stop():
    settings = SparseSettings(length=4, sparsity=2, data=64, batch=16)
    options = {"runs": 12, "steps": 240, "every": 4, "progress": False}
    plain = simulate(settings, **options)
    losses = plain["loss"].sel(split="train")
    threshold = float(losses.isel(step=30).median())
    stopped = simulate(settings, until=f"loss.train < {threshold!r}", **options)
    ends = stopped["last_step"].values
    assert (stopped["status"] == STOPPED).any()
    result = plateau_escape_times(trajectory_scalar(stopped, "loss"))
    assert (result["escape"] <= ends).all()
    censored = ~result["escaped"].values.astype(bool)
    assert_array_equal(result["escape"].values[censored], ends[censored])
