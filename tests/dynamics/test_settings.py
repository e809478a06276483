"""Settings refuse what makes no sense, and name it."""

import math
import pickle

import pytest

from dynamics.settings import ParticleSettings, SettingsError


@pytest.mark.parametrize(
    ("field", "value"),
    [
        *((name, value) for name in ("fa", "ga", "gr") for value in (math.nan, math.inf, -1.0, 1e7, "1", None, True)),
        *(("step_size", value) for value in (0.0, -0.1, math.nan, math.inf, 1e7)),
        *((name, value) for name in ("n", "dim") for value in (0, -3, 2.5, 10**9, True, "17")),
        ("step_rule", "bogus"),
        ("repulsion_balance", ""),
        ("alignment_balance", 1),
        ("variance", None),
        ("diagonal", "sometimes"),
        ("start", ""),
        ("start_step", -2),
        ("start_step", 3),  # without a file
    ],
)
def test_nonsense_is_refused_by_name(field, value):
    with pytest.raises(SettingsError) as error:
        ParticleSettings(**{field: value})
    assert error.value.field == field
    assert str(error.value).startswith(f"{field}: found {value}, allowed is ")


def test_an_error_survives_the_way_between_processes():
    error = pickle.loads(pickle.dumps(SettingsError("fa", -1, "more")))  # in memory, never from a file
    assert (error.field, error.found, error.allowed) == ("fa", -1, "more")


def test_defaults_are_the_most_literal_reading():
    s = ParticleSettings()
    assert (s.fa, s.ga, s.gr, s.n, s.dim, s.step_size, s.default_steps) == (1, 1, 1, 17, 2, 0.003, 100)
    assert (s.step_rule, s.variance, s.diagonal) == ("force", "overall", "twice")
    assert (s.repulsion_balance, s.alignment_balance) == ("magnitude", "count")
