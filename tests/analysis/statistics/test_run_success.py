"""Success of runs: judged at the end, on the evaluation split, and never of a run that
diverged."""

import numpy as np
import pytest

from analysis.statistics.run_success import evaluation_split, success_mask
from dynamics import ModularSettings, ParticleSettings, SparseSettings, simulate
from dynamics.trajectory.success import exceeds


def test_success_depends_on_the_last_frame_of_the_evaluation_split_and_on_divergence():
    pytest.importorskip("torch")
    trajectory = simulate(ModularSettings(n=7, hidden=6), runs=4, steps=40)
    assert evaluation_split(trajectory) == "validation"
    assert (
        evaluation_split(simulate(SparseSettings(data=64, hidden=7), runs=1, steps=1))
        == "test"
    )
    trajectory["accuracy"][:, -1] = [[0, 1], [1, 0.98], [1, 0.981], [1, 1]]
    trajectory["last_step"][3] = 8
    assert success_mask(trajectory).tolist() == [True, False, True, False]
    assert not success_mask(simulate(ParticleSettings(n=7), runs=2, steps=1)).any()


@pytest.mark.parametrize("threshold", [0.9, 0.98, 0.99])
@pytest.mark.parametrize("total", [100, 1000])
def test_an_accuracy_equal_to_the_threshold_is_not_above_it(threshold, total):
    """In float32 and in float64, where the recorded value of 0.98 is above 0.98."""
    equal = np.float32(round(threshold * total) / total)
    more = np.float32((round(threshold * total) + 1) / total)
    for dtype in (np.float32, np.float64):
        recorded = np.array([equal, more, np.nan], dtype)
        assert exceeds(recorded, threshold).tolist() == [False, True, False]
