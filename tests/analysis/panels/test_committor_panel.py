"""The committor of a run as a panel of its scene."""

import numpy as np
import pytest
from numpy.testing import assert_array_equal

from analysis.committors import committor
from analysis.panels.committor_panel import add_committor
from analysis.panels.run_scene import build_scene
from dynamics import ParticleSettings, simulate


@pytest.fixture(scope="module")
def trajectory():
    return simulate(ParticleSettings(n=7, fa=2.0), runs=3, steps=60)


@pytest.fixture(scope="module")
def result(trajectory):
    return committor(trajectory.isel(run=[0, 2]), steps=[0, 20, 40], copies=20)


def test_the_curve_ends_at_the_outcome_of_the_run_itself(trajectory, result):
    scene = build_scene(trajectory, 2)
    panel = add_committor(scene, result, 2).panels[-1]
    (curves,) = panel.layers
    assert_array_equal(curves.x, [0, 20, 40, 60])
    shares = result["committor"].values[1, :, 0]
    assert_array_equal(curves.y, [[*shares, result["outcome"][1]]])
    assert panel.name == "committor"
    assert "20 copies" in panel.note


def test_the_decision_is_an_event(trajectory, result):
    scene = build_scene(trajectory, 0)
    decided = result.assign(decision_step=("run", [23.4, np.nan]))
    first, last = add_committor(scene, decided, 0), add_committor(scene, decided, 2)
    marks = [mark for mark in first.marks if mark.kind == "decision"]
    assert marks == [("decision", 23, 23, 23)]
    assert set(scene.marks) < set(first.marks)
    assert "decision" not in {mark.kind for mark in last.marks}
    assert "decisions" not in first.event_counts()


def test_a_run_that_was_not_measured_has_no_panel(trajectory, result):
    scene = build_scene(trajectory, 1)
    assert add_committor(scene, result, 1) is scene
