"""Committors: counts of copies by plain loops, decisions of constructed curves, the
command, and errors."""

from pathlib import Path

import numpy as np
import pytest
import xarray as xr
from numpy.testing import assert_allclose, assert_array_equal

from analysis import binomial_interval, committor
from analysis.committors import (
    add_decisions,
    branching_probability,
    explained_variance,
    find_outcome,
    transition_states,
)
from analysis.committors.decision import (
    basin_radius,
    crossing_step,
    explained_fraction,
)
from dynamics import (
    ModularSettings,
    ParticleSettings,
    SettingsError,
    branch_copies,
    replay,
    simulate,
)

SETTINGS = ParticleSettings(n=7, fa=2.0)


@pytest.fixture
def source():
    return simulate(SETTINGS, runs=4, steps=60, every=5, out="a.nc")


def is_wide(ends):
    """Whether the first particle ends at positive x."""
    last = ends["embedding"].isel(step=-1, token=0, axis=0)
    return last.values > 0


def test_steps_at_or_after_the_end_are_refused(source, output_of):
    at = source["step"].values[1:].tolist()
    end = at[1]
    words = " ".join(map(str, at))
    text = output_of(
        f"analysis.fate a.nc --copies 2 --until {end} --at {words}", code=2
    )
    assert f"--at: found {at[1:]}, allowed is steps before {end}," in text


@pytest.mark.parametrize("level", [-0.1, 1.0, float("nan")])
def test_levels_that_no_accuracy_can_pass_are_refused(level):
    network = simulate(ModularSettings(n=5), runs=1, steps=1)
    with pytest.raises(SettingsError, match="from 0 to less than 1"):
        find_outcome("accuracy", level, network)


def test_committors_count_the_copies_that_end_so(source):
    result = committor(source, is_wide, [0, 30], 12, [0.05, 0.4])
    assert result["trials"].values.tolist() == [[[12] * 2] * 2] * 4
    assert_array_equal(result["outcome"], is_wide(source))
    ends = branch_copies(source, {2: [30]}, 12, 0.4)
    count = int(is_wide(ends).sum())
    at = result.sel(step=30, displacement=0.4).isel(run=2)
    expected = binomial_interval(count, 12)
    names = ("committor", "committor_low", "committor_high")
    assert [float(at[name]) for name in names] == list(expected)
    assert int(at["successes"]) == count


def test_bisections_close_in_on_the_decision():
    """All copies have the outcome from step 21 on, and none before."""
    source = simulate(SETTINGS, runs=2, steps=64)

    def begins_late(ends):
        return ((ends["displacement"] == 0) | (ends["from_step"] >= 21)).values

    result = committor(source, begins_late, [0, 32, 48], 3, bisections=5)
    assert result["step"].values.tolist() == [0, 16, 20, 21, 22, 24, 32, 48]
    assert (result["trials"] == 3).all()
    assert_array_equal(result["decision_step"], [20.5, 20.5])


def test_transition_states_are_those_of_the_runs_at_their_decisions(source):
    def begins_late(ends):
        copies = ends["displacement"] > 0
        return (~copies | (ends["of_run"] > 1) | (ends["from_step"] >= 21)).values

    result = committor(source, begins_late, [0, 20, 21], 3)
    states = transition_states(source, result)
    assert states["of_run"].values.tolist() == [0, 1]
    expected = replay(source, None, 20, 20)["embedding"].isel(run=[0, 1])
    assert_array_equal(states["embedding"], expected)
    early = committor(source, begins_late, [30], 3)
    with pytest.raises(SettingsError, match="decided in the first state"):
        transition_states(source, early)


def constructed_result(curves, outcome, sizes=(0.1,), trials=1000):
    """A result with committors (run, step, size) at steps 0, 10, ..."""
    p = np.asarray(curves, float).reshape(len(curves), -1, len(sizes))
    dims = ("run", "step", "displacement")
    data = {"committor": p, "committor_low": p - 0.05, "committor_high": p + 0.05}
    return xr.Dataset(
        {
            **{name: (dims, values) for name, values in data.items()},
            "trials": (dims, np.full(p.shape, trials)),
            "outcome": ("run", np.asarray(outcome, float)),
        },
        {"step": 10 * np.arange(p.shape[1]), "displacement": list(sizes)},
        {"until": 10 * p.shape[1]},
    )


def test_decisions_of_constructed_curves():
    curves = [[0.1, 0.3, 0.7, 0.9, 1.0], [0.02] * 5, [0.6, 0.9, 0.4, 0.1, 0.0]]
    result = add_decisions(constructed_result(curves, [1, 0, 0]))
    assert_allclose(result["decision_step"], [15, 0, 18])
    assert_allclose(result["decision_step_low"], [13.75, 0, 17])
    assert_allclose(result["decision_step_high"], [16.25, 0, 19])
    assert_allclose(result["decision_duration"], [30, np.nan, 20])


def test_firmness_is_where_the_agreement_leaves_nine_tenths():
    sizes = np.array([0.01, 0.1, 1.0])
    assert basin_radius(sizes, np.array([1.0, 1.0, 0.95])) == np.inf
    assert basin_radius(sizes, np.array([0.8, 1.0, 1.0])) == 0
    assert basin_radius(sizes, np.array([1.0, 0.95, 0.85])) == pytest.approx(10**-0.5)


def test_explained_variance_is_that_between_runs(generator):
    """Copies of runs with committors 0 and 1 share all their variance, copies of equal
    runs none, beyond the error of a finite number of copies."""
    ends = [[0.0], [1.0], [1.0], [0.0], [1.0], [0.0]]
    assert explained_variance(constructed_result(ends, [0] * 6)).value == 1
    equal = generator.binomial(20, 0.5, 4000)[:, None] / 20
    result = constructed_result(equal, np.zeros(4000), trials=20)
    assert explained_variance(result).value == pytest.approx(0, abs=0.01)
    p = generator.beta(1, 1, 4000)
    drawn = generator.binomial(20, p)[:, None] / 20
    result = constructed_result(drawn, np.zeros(4000), trials=20)
    assert explained_variance(result).value == pytest.approx(1 / 3, abs=0.03)


def test_an_outcome_by_chance_is_not_explained_and_has_an_interval(generator):
    p = generator.binomial(20, 0.5, (30, 1, 1)) / 20
    dims = ("run", "step", "displacement")
    result = xr.Dataset(
        {"committor": (dims, p), "trials": (dims, np.full(p.shape, 20))}
    )
    value, low, high = explained_variance(result)
    assert low == 0
    assert 0 <= value < high < 0.2


def test_nothing_is_explained_with_one_copy_a_state():
    """The variance of the outcome within a state is then unknown."""
    assert np.isnan(explained_fraction(np.zeros(0), np.zeros(0)))
    ends = np.array([[0], [1], [1]])
    result = constructed_result(ends, [0] * 3, trials=1)
    assert np.isnan(explained_variance(result).value)


@pytest.mark.parametrize("trials", [2, 3, 10])
@pytest.mark.parametrize("a", [0.3, 1.0, 3.0])
def test_explained_variance_does_not_depend_on_the_number_of_copies(
    generator, trials, a
):
    """Committors of beta(a, a): the variance between is 1 / (2 a + 1) of the whole."""
    p = generator.beta(a, a, 20_000)
    drawn = generator.binomial(trials, p)[:, None] / trials
    result = constructed_result(drawn, np.zeros(len(p)), trials=trials).isel(step=[0])
    fraction = explained_fraction(
        result["committor"].values.ravel(), np.full(len(p), trials)
    )
    assert fraction == pytest.approx(1 / (2 * a + 1), abs=0.02)


@pytest.mark.parametrize("level", [0.1, 0.5, 0.9])
def test_a_level_is_passed_or_reached(level):
    steps, values = np.arange(4.0), np.array([0.0, level, level, 1.0])
    assert crossing_step(steps, values, level, reached=True) == 1
    assert crossing_step(steps, values, level) == 2


def test_the_command(source, output_of):
    text = output_of("analysis.fate a.nc --copies 5 --frames 3 --displace .01 .1")
    assert "8 states, 80 copies until step 60" in text
    assert "decided at" in text
    with xr.open_dataset("a-fate.nc") as result:
        assert dict(result["committor"].sizes) == {
            "run": 4,
            "step": 2,
            "displacement": 2,
        }
        assert result.attrs["frames_left"] == 0


def test_the_command_displaces_along_modes_with_changed_settings(source, output_of):
    options = "--copies 6 --frames 3 --set fa=.5 --direction growing"
    text = output_of(f"analysis.fate a.nc {options}")
    assert "copies continue with fa=0.5" in text
    assert "along the fastest growing mode of their state" in text
    assert "growing modes (median)" in text
    expected = committor(source, "circle", [0, 30], 6, direction="growing", fa=0.5)
    with xr.open_dataset("a-fate.nc") as result:
        assert_array_equal(result["successes"], expected["successes"])
        assert_array_equal(result["growing_modes"], expected["growing_modes"])
        assert result["event"].values.tolist() == ["escape", "circle", "rest"]
    text = output_of("analysis.fate a.nc --copies 5 --frames 2 --no-modes --out b.nc")
    assert "modes" not in text


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ("--set fa=x", "--set: found fa=x, allowed is a number"),
        ("--set n=5", "--set: found n=5, allowed is 7 as before"),
        ("--set", "--set: found no value, allowed is NAME=VALUE"),
        ("--direction up", "--direction: found up, allowed is one of all, growing"),
        ("--direction growing --reshuffle", "--reshuffle: found True"),
        ("--displace", "--displace: found"),
        ("--level 3", "--level: found 3.0, allowed is no value for the outcome circle"),
    ],
)
def test_bad_options_write_nothing(source, output_of, options, message):
    files = sorted(Path().iterdir())
    text = output_of(f"analysis.fate a.nc --copies 2 --frames 3 {options}", code=2)
    assert message in text
    assert sorted(Path().iterdir()) == files


def test_an_interrupted_measurement_keeps_the_states_that_are_measured(
    source, monkeypatch
):
    calls = []

    def interrupted(*arguments, **options):
        calls.append(arguments)
        if len(calls) > 4:  # the runs themselves, the cost, and two steps
            raise KeyboardInterrupt
        return branch_copies(*arguments, **options)

    monkeypatch.setattr(branching_probability, "branch_copies", interrupted)
    result = committor(source, "circle", [0, 20, 40], 4)
    assert result.attrs["frames_left"] == 4
    assert result["step"].values.tolist() == [20, 40]


def test_an_outcome_is_a_function_of_a_file(source):
    with open("ends.py", "w") as file:
        file.write("def wide(ends):\n    return ends['embedding'][:, -1, 0, 0] > 0\n")
    result = committor(source, "ends.py:wide", [30], 4)
    assert_array_equal(result["outcome"], is_wide(source))


def test_copies_are_displaced_along_a_direction_by_normal_numbers(source):
    """Half of the copies move the first particle to positive x, and the other half to
    negative x, if they are displaced by much along this axis alone."""
    axis = np.zeros((7, 2))
    axis[0, 0] = 1

    def begins_right(ends):
        return ends["embedding"].isel(step=0, token=0, axis=0).values > 0

    options = {"copies": 400, "displace": [1e-9, 1e3]}
    result = committor(
        source, begins_right, [40], direction={"embedding": axis}, **options
    )
    begins = source["embedding"].sel(step=40).isel(token=0, axis=0).values > 0
    assert_array_equal(result["committor"][:, 0, 0], begins)
    assert (result["committor_low"][:, 0, 1] < 0.5).all()
    assert (result["committor_high"][:, 0, 1] > 0.5).all()


def test_copies_have_changed_settings(source):
    result = committor(source, is_wide, [30], 12, 0.4, fa=0.5)
    ends = branch_copies(source, 30, 12, 0.4, fa=0.5)
    counts = is_wide(ends).reshape(4, 12).sum(axis=1)
    assert_array_equal(result["successes"].values.ravel(), counts)


def test_outcomes_of_a_network():
    source = simulate(ModularSettings(n=5), runs=3, steps=40, every=10)
    for outcome, level in (("accuracy", 0.5), ("escape", 1.5), ("clusters", 5)):
        result = committor(source, outcome, [0, 20], 4, level=level)
        assert np.isfinite(result["committor"]).all()


def test_copies_that_diverge_are_no_trials(diverging):
    """Some copies that begin near the limit of 1e38 pass it."""
    source = simulate(diverging, runs=1, steps=6)
    result = committor(source, "circle", [2], 40, [0.01, 5e37])
    assert int(result["trials"][0, 0, 0]) == 40
    assert 0 < int(result["trials"][0, 0, 1]) < 40


def test_diverged_runs_are_left_out(diverging):
    source = simulate(diverging, runs=2, steps=6)
    result = committor(source, "circle", [2], 3)
    assert result["trials"].values.ravel().tolist() == [3, 0]
    assert np.isnan(result["committor"].values.ravel()[1])
    assert np.isnan(result["outcome"].values[1])


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"outcome": "square"}, "outcome: found square"),
        ({"outcome": "accuracy"}, "one that particles has: no accuracy"),
        ({"outcome": "clusters"}, "level: found None"),
        ({"outcome": "clusters", "level": 0}, "level: found 0, allowed is a whole"),
        ({"outcome": "clusters", "level": 2.5}, "level: found 2.5, allowed is a whole"),
        ({"outcome": len, "level": 1.0}, "no value for the outcome a function"),
        ({"outcome": "missing.py:f"}, "FILE.py:FUNCTION"),
        ({"outcome": lambda ends: 1 / 0}, "the function raises ZeroDivisionError"),
        ({"outcome": lambda ends: np.ones(3)}, "returns float64 of shape"),
        ({"steps": [60]}, "steps: found 60"),
        ({"steps": 0}, "steps: found 0"),
        ({"displace": 0.0}, "displace: found 0.0"),
        ({"direction": {"x": np.ones(3)}}, "direction: found x"),
        ({"direction": {}, "reshuffle": True}, "reshuffle: found True"),
        ({"gb": 2.0}, "gb: found 2.0"),
    ],
)
def test_bad_input_is_said_in_one_line(source, options, message):
    with pytest.raises(SettingsError, match=message):
        committor(source, **{"copies": 2, **options})


def test_runs_that_all_diverge_are_refused(diverging):
    source = simulate(diverging, runs=2, steps=6).isel(run=[1])
    with pytest.raises(SettingsError, match="only runs that diverge before step 6"):
        committor(source, "circle", [2], 3)
