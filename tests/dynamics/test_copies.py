"""Copies of many states of recorded runs as one ensemble: exact, the same alone and
when interrupted, perturbed as documented."""

import numpy as np
import pytest
import xarray as xr
from numpy.testing import assert_allclose, assert_array_equal

from dynamics import TrajectoryError, branch, branch_copies, open_trajectory, simulate
from dynamics.copies import JoiningSystem
from dynamics.settings import (
    ModularSettings,
    ParticleSettings,
    SettingsError,
    SparseSettings,
    TransformerSettings,
)
from dynamics.trajectory.reader import closed_parts
from tests.interruptions import interrupt_at

SYSTEMS = {
    "particles": ParticleSettings(n=5, fa=2.0),
    "noise": ParticleSettings(n=5, fa=2.0, temperature=0.05),
    "modular": ModularSettings(n=5),
    "sparse": SparseSettings(length=6, sparsity=2, data=50, batch=8, hidden=5),
    "transformer": TransformerSettings(n=5, dim=8, batch=6),
}
STEPS = [3, 7, 15]


@pytest.fixture(params=SYSTEMS)
def source(request):
    """Three runs of 30 steps."""
    return simulate(SYSTEMS[request.param], runs=3, steps=30, out="a.nc")


def last_embedding(trajectory):
    return trajectory["embedding"].isel(step=-1).transpose("run", ...).values


def select_copies(ends, **origin):
    mask = np.logical_and.reduce(
        [ends[name].values == value for name, value in origin.items()]
    )
    return ends.isel(run=np.flatnonzero(mask))


def test_copies_without_displacement_end_with_the_bits_of_the_original(source):
    ends = branch_copies(source, STEPS, 2, 0.0, every=4)
    assert ends.sizes["run"] == 3 * 3 * 2
    assert ends["step"].values.tolist() == [3, 7, 11, 15, 19, 23, 27, 30]
    assert_array_equal(last_embedding(ends), last_embedding(source)[ends["of_run"]])
    waiting = select_copies(ends, from_step=15).sel(step=[3, 7, 15])["embedding"]
    assert (waiting == waiting.isel(step=0)).all()


def test_a_copy_alone_has_the_bits_that_it_has_in_the_ensemble(source):
    ends = branch_copies(source, STEPS, 4, [0.01, 0.2])
    alone = branch_copies(source, {2: [7]}, [3], 0.2)
    same = select_copies(ends, of_run=2, from_step=7, displacement=0.2, copy=3)
    assert_array_equal(last_embedding(alone), last_embedding(same))
    others = select_copies(ends, of_run=2, from_step=7)
    assert len(np.unique(last_embedding(others), axis=0)) == 8


def test_interrupted_copies_continue(source):
    expected = branch_copies(source, STEPS, 2, every=5)
    with interrupt_at(JoiningSystem, 11):
        branch_copies(source, STEPS, 2, every=5, out="b.nc")
    assert [part.end for part in closed_parts("b.nc")] == [11]
    result = branch_copies(source, STEPS, 2, every=5, out="b.nc")
    xr.testing.assert_equal(result, expected)
    with open_trajectory("b.nc") as again:
        xr.testing.assert_equal(again["from_step"], expected["from_step"])
    with pytest.raises(SettingsError, match="out: found .*copies="):
        branch_copies(source, STEPS, 3, every=5, out="b.nc")
    with pytest.raises(TrajectoryError, match="cannot be replayed"):
        branch("b.nc", 20)


def test_displacements_are_relative_to_the_spread_of_each_variable():
    source = simulate(SYSTEMS["modular"], runs=1, steps=4)
    first = branch_copies(source, 4, 400, [0.0, 0.1, 0.2], until=5).isel(step=0)
    plain, small, large = (select_copies(first, displacement=d) for d in (0, 0.1, 0.2))
    for name in ("embedding", "hidden_weight", "output_weight"):
        moved = small[name] - plain[name].values
        spread = float(plain[name].isel(run=0).std())
        assert float(moved.std()) == pytest.approx(0.1 * spread, rel=0.03)
        twice = large[name] - plain[name].values
        assert_allclose(twice.values, 2 * moved.values, atol=1e-6)


def test_copies_move_along_a_direction():
    source = simulate(SYSTEMS["modular"], runs=2, steps=4)
    direction = np.arange(2 * 5 * 2.0).reshape(2, 5, 2)
    first = branch_copies(
        source, 4, 1, [-0.1, 0.0, 0.1], direction={"embedding": direction}, until=5
    )
    x = first["embedding"].isel(step=0).values.reshape(2, 3, 5, 2)
    for size, moved in zip((-0.1, 0.1), (x[:, 0], x[:, 2]), strict=True):
        assert_allclose(moved - x[:, 1], size * direction, atol=1e-6)


@pytest.mark.parametrize("name", ["sparse", "transformer", "noise"])
def test_reshuffled_copies_have_other_batches_or_noise_from_the_same_state(name):
    source = simulate(SYSTEMS[name], runs=2, steps=30)
    ends = branch_copies(source, 10, 3, 0.0, reshuffle=True, every=1)
    first, last = (ends["embedding"].isel(step=at).values for at in (0, -1))
    assert len(np.unique(first, axis=0)) == 2
    assert len(np.unique(last, axis=0)) == 6
    alone = branch_copies(source, {1: [10]}, [2], 0.0, reshuffle=True)
    assert_array_equal(last_embedding(alone)[0], last[-1])


@pytest.mark.parametrize("name", ["sparse", "noise"])
def test_reshuffled_copies_continue_when_interrupted(name):
    source = simulate(SYSTEMS[name], runs=2, steps=30)
    expected = branch_copies(source, STEPS, 2, 0.0, reshuffle=True)
    with interrupt_at(JoiningSystem, 9):
        branch_copies(source, STEPS, 2, 0.0, reshuffle=True, out="b.nc")
    result = branch_copies(source, STEPS, 2, 0.0, reshuffle=True, out="b.nc")
    xr.testing.assert_equal(result, expected)


def test_copies_with_a_changed_setting_are_a_branch():
    source = simulate(SYSTEMS["particles"], runs=2, steps=30)
    ends = branch_copies(source, [5, 10], 1, 0.0, fa=0.5)
    for step in (5, 10):
        assert_array_equal(
            last_embedding(select_copies(ends, from_step=step)),
            last_embedding(branch(source, step, fa=0.5)),
        )


def test_copies_of_runs_without_noise_have_that_of_a_branch():
    source = simulate(SYSTEMS["particles"], runs=2, steps=30)
    ends = branch_copies(source, [5, 10], 2, 0.0, temperature=0.1)
    for step in (5, 10):
        same = select_copies(ends, from_step=step)
        expected = last_embedding(branch(source, step, temperature=0.1))
        assert_array_equal(last_embedding(same), expected.repeat(2, axis=0))
    own = branch_copies(source, 5, 2, 0.0, reshuffle=True, temperature=0.1)
    assert len(np.unique(last_embedding(own), axis=0)) == 4
    assert len(np.unique(own["embedding"].values[:, 0], axis=0)) == 2


def test_copies_of_a_diverged_run_have_diverged(diverging):
    source = simulate(diverging, runs=2, steps=6)
    ends = branch_copies(source, [2, 4], 2, 0.01)
    assert_array_equal(ends["last_step"] < 6, ends["of_run"] == 1)


@pytest.mark.parametrize(
    ("name", "options", "message"),
    [
        ("particles", {"steps": [31]}, "until: found 30"),
        ("particles", {"steps": {3: [1]}}, "run: found 3"),
        ("particles", {"steps": [2, 2]}, "each once"),
        ("particles", {"displace": [0.1, 0.1]}, "displace: found"),
        ("particles", {"copies": 0}, "copies: found 0"),
        ("particles", {"reshuffle": True}, "reshuffle: found True"),
        ("particles", {"direction": {"x": 1}}, "direction: found x"),
        ("particles", {"direction": {"embedding": [1]}}, "of shape"),
        ("particles", {"start": "x.npy"}, "start: found"),
        ("sparse", {"steps": [1, 2], "batch": 5}, "a single step"),
        ("sparse", {"steps": [1, 2], "optimizer": "sgd"}, "a single step"),
    ],
)
def test_bad_input_is_said_in_one_line(name, options, message):
    source = simulate(SYSTEMS[name], runs=2, steps=30, every=30)
    with pytest.raises(SettingsError, match=message):
        branch_copies(source, **{"steps": 1, "copies": 2, **options})
