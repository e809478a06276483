"""Changed settings as words of a command line."""

import pytest

from analysis.committors import changed_settings
from dynamics import ParticleSettings, SettingsError, SparseSettings, simulate


def test_values_have_the_types_of_the_settings():
    source = simulate(ParticleSettings(n=5), runs=1, steps=2)
    words = ["fa=.5", "step-rule=direction", "variance=axis", "step_size=1e-3"]
    assert changed_settings(source, words) == {
        "fa": 0.5,
        "step_rule": "direction",
        "variance": "axis",
        "step_size": 0.001,
    }
    settings = SparseSettings(length=4, sparsity=2, data=20, batch=4, hidden=3)
    source = simulate(settings, runs=1, steps=5)
    words = ["batch=5", "positions=0,3", "activation=relu"]
    assert changed_settings(source, words) == {
        "batch": 5,
        "positions": (0, 3),
        "activation": "relu",
    }


@pytest.mark.parametrize(
    ("words", "message"),
    [
        (
            "fa",
            "set: found fa, allowed is NAME=VALUE of a setting of particles: fa, ga",
        ),
        ("fb=1", "set: found fb=1, allowed is NAME=VALUE"),
        ("fa=", "set: found fa=, allowed is a number"),
        ("fa=nan", "set: found fa=nan, allowed is a finite number"),
        ("n=5.5", "set: found n=5.5, allowed is a whole number"),
        ("n=6", "set: found n=6, allowed is 5 as before"),
        ("fa=1 fa=2", "set: found fa=1 fa=2, allowed is fa once"),
        ("step_rule=up", "allowed is one of force, direction, particle"),
        ("start=a.nc", "a branch begins with the state of the trajectory"),
        ("system=modular", "set: found system=modular"),
    ],
)
def test_bad_words_are_said_in_one_line(words, message):
    source = simulate(ParticleSettings(n=5), runs=1, steps=2)
    with pytest.raises(SettingsError, match=message):
        changed_settings(source, words.split())
