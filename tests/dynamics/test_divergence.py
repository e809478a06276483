"""A value that is not finite, from a system that is not built in: the run is marked as
diverged, the others go on."""

import dataclasses

import numpy as np
import pytest
from numpy.testing import assert_array_equal

from dynamics import SettingsError, branch, open_trajectory, register, replay, simulate
from tests.dynamics.test_external_systems import Noise, NoiseSettings
from tests.interruptions import interrupt_at


class Failing(Noise):
    """Run 1 of the walkers has an infinite position from step 13 on, in `bad` of the
    arrays."""

    bad = "x"

    def advance(self, state, steps):
        for _ in range(steps):
            state = super().advance(state, 1)
            if state.step >= 13:
                values = np.array(getattr(state, self.bad), dtype=float)
                values[state.seeds == 1] = np.inf
                state = dataclasses.replace(state, **{self.bad: values})
        return state


@pytest.fixture(autouse=True)
def failing(restored_registries):
    register(NoiseSettings, Failing)


def run(**amount):
    return simulate(NoiseSettings(), **{"runs": 3, "steps": 40, "every": 4, **amount})


def assert_diverged(result, last_step=12):
    """Run 1 repeats its frame at `last_step`; the others are as in a run in which
    nothing fails."""
    register(NoiseSettings, Noise)
    expected = run(every=1)["embedding"]
    register(NoiseSettings, Failing)
    steps = result["step"].values
    assert result["last_step"].values.tolist() == [steps[-1], last_step, steps[-1]]
    assert result["status"].values.tolist() == [1, 2, 1]
    for member, shown in enumerate((steps, np.minimum(steps, last_step), steps)):
        assert_array_equal(
            result["embedding"][member], expected[member].sel(step=shown)
        )


CASES = [("x", "embedding", 4), ("x", "embedding", 1), ("moved", "gradient_norm", 7)]


@pytest.mark.parametrize(("bad", "name", "every"), CASES)
def test_the_run_and_the_step_are_named_and_the_frames_before_are_kept(
    bad, name, every, monkeypatch
):
    monkeypatch.setattr(Failing, "bad", bad)
    message = (
        f"walkers: {name} of run 1 is not finite at step 13; .* up to step 12 are kept"
    )
    with pytest.warns(UserWarning, match=message):
        assert_diverged(run(every=every, out="a.nc"))


def test_a_value_of_the_restart_state_alone_counts_too(monkeypatch):
    def observe(self, state):
        return Noise.observe(self, dataclasses.replace(state, x=np.ones_like(state.x)))

    monkeypatch.setattr(Failing, "observe", observe)
    with pytest.warns(
        UserWarning, match="walkers: x of run 1 is not finite at step 13"
    ):
        assert run()["last_step"].values.tolist() == [40, 12, 40]


@pytest.mark.filterwarnings("ignore:walkers")
def test_a_diverged_run_is_extended_resumed_replayed_and_branched():
    run(steps=20, out="a.nc").close()
    with interrupt_at(Failing, 24):
        run(out="b.nc")
    for result in (
        run(out="a.nc"),
        run(out="b.nc"),
        replay("a.nc", None, 9, 30, every=3),
    ):
        assert_diverged(result)
    later = branch("a.nc", 22, until=30, every=4)
    assert later["last_step"].values.tolist() == [30, 12, 30]
    assert (later["embedding"][1] == open_trajectory("a.nc")["embedding"][1, -1]).all()


def test_values_at_step_0_are_refused_before_anything_is_written(tmp_path, monkeypatch):
    def initial(self, seeds):
        x = np.where(seeds[:, None, None] == 2, np.nan, np.ones((3, 2)))
        return dataclasses.replace(Noise.initial(self, seeds), x=x)

    monkeypatch.setattr(Failing, "initial", initial)
    message = (
        r"Failing.initial: found embedding of run 2 \(seed 2\) at step 0 is not finite"
    )
    with pytest.raises(SettingsError, match=message):
        run(out="a.nc")
    assert not (tmp_path / "a.nc").exists()
