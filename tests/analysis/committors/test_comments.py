"""The comments of a committor's variables say what the numbers are."""

from analysis import committor
from dynamics import ParticleSettings, simulate
from dynamics.trajectory.schema import axis_label, describe_variables


def test_comments_do_not_repeat_the_name():
    trajectory = simulate(ParticleSettings(n=7), runs=2, progress=False)
    result = describe_variables(committor(trajectory, "circle", steps=[50], copies=3))
    for name in set(result.variables) - {"run"}:
        comment = result[name].attrs["comment"]
        assert comment.removeprefix(axis_label(name)), name
