"""Success of runs: judged at the end, on the evaluation split, and never of a run that
diverged."""

from analysis.statistics.run_success import evaluation_split, success_mask
from dynamics import ModularSettings, ParticleSettings, SparseSettings, simulate


def test_success_depends_on_the_last_frame_of_the_evaluation_split_and_on_divergence():
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
