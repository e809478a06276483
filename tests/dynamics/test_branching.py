"""Branches as files: found, extended, resumed, replayed, with another optimizer or
length of an epoch."""

import dataclasses
from pathlib import Path

import numpy as np
import pytest
import xarray as xr
from numpy.testing import assert_allclose, assert_array_equal

from dynamics import (
    TrajectoryError,
    branch,
    branch_path,
    checkpoints,
    open_trajectory,
    replay,
    simulate,
)
from dynamics.networks.clustering_head import ClusteringHead
from dynamics.settings import (
    ModularSettings,
    ParticleSettings,
    SettingsError,
    SparseSettings,
)
from dynamics.system import EpochClock
from dynamics.training.sparse_backends import SparseSimdBackend
from dynamics.training.training_systems import SparseSystem
from dynamics.trajectory.reader import closed_parts
from tests.interruptions import interrupt_at

SPARSE = SparseSettings(length=6, sparsity=2, data=50, batch=8, hidden=5)


@pytest.fixture
def source():
    """Two runs of three epochs."""
    simulate(SPARSE, runs=2, steps=21, out="a.nc").close()
    return "a.nc"


CHANGES = [
    (ParticleSettings(n=5), {"fa": 3.0}),
    (ModularSettings(n=5), {"lr": 0.1}),
    (SPARSE, {"norm": "rms-smooth"}),
]


@pytest.mark.parametrize(
    ("settings", "change"), CHANGES, ids=["particles", "modular", "sparse"]
)
def test_a_branch_is_found_extended_and_replayed(settings, change):
    simulate(settings, runs=3, steps=40, every=5, out="a.nc").close()
    path, direct = Path("b.nc"), branch("a.nc", 13, until=60, **change)
    branch("a.nc", 13, out=path, **change).close()
    written = path.stat().st_mtime_ns
    branch("a.nc", 13, out=path, **change).close()
    assert path.stat().st_mtime_ns == written
    extended = branch("a.nc", 13, until=60, out=path, **change)
    xr.testing.assert_equal(extended.drop_attrs(), direct.drop_attrs())
    assert (int(extended["step"][0]), extended.attrs["branched_at"]) == (13, 13)
    with checkpoints(path) as states:
        assert int(states["checkpoint"][0]) == 13
    again = replay(path, 1, 27, 31)
    assert_array_equal(
        again["embedding"].sel(step=30)[0], direct["embedding"].sel(step=30)[1]
    )
    further = branch(path, 45, until=50)
    assert_array_equal(
        further["embedding"].sel(step=50), direct["embedding"].sel(step=50)
    )
    with pytest.raises(SettingsError, match="out: found .*branched_at"):
        branch("a.nc", 14, out=path, **change)
    with pytest.raises(SettingsError, match="out: found .*a branch"):
        simulate(settings, runs=3, steps=40, every=5, out=path)
    with pytest.raises(
        SettingsError, match="another file than the one that this run begins from"
    ):
        branch("a.nc", 13, out="a.nc", **change)


def test_an_interrupted_branch_continues(source):
    expected = branch(source, 13, until=80, lr=0.01)
    with interrupt_at(SparseSystem, 32):
        branch(source, 13, until=80, lr=0.01, out="b.nc")
    (part,) = closed_parts("b.nc")
    assert (part.begin, part.end) == (13, 32)
    with open_trajectory("b.nc") as unfinished:
        assert int(unfinished["step"][0]) == 13
    xr.testing.assert_equal(branch(source, 13, until=80, lr=0.01, out="b.nc"), expected)


@pytest.mark.parametrize(
    "settings", [ModularSettings(n=5), SPARSE], ids=lambda s: s.system
)
@pytest.mark.parametrize(
    ("first", "then"), [("adam", "sgd"), ("sgd", "adamw"), ("adamw", "adam")]
)
def test_a_branch_file_may_change_the_optimizer(settings, first, then):
    change = {"optimizer": then, "lr": 0.1}
    simulate(
        dataclasses.replace(settings, optimizer=first),
        runs=3,
        steps=20,
        every=10,
        out="a.nc",
    ).close()
    direct = branch("a.nc", 13, until=30, **change)
    branch("a.nc", 13, until=20, out="b.nc", **change).close()
    xr.testing.assert_equal(branch("a.nc", 13, until=30, out="b.nc", **change), direct)


def test_a_branch_that_changes_the_batch_begins_a_new_epoch(source):
    """Epochs go on to count from the beginning, and each is a whole pass through the
    data."""
    whole = branch(
        source, 14, until=34, batch=5, out="b.nc"
    )  # 10 steps an epoch, in the source 7
    assert_allclose(whole["epoch"], [2, 3, 4])
    assert_array_equal(whole["step"], [14, 24, 34])
    assert float(branch(source, 14, batch=5)["epoch"][-1]) == 3
    partly = branch(source, 10, until=34, batch=5)
    assert_allclose(partly["epoch"], 10 / 7 + (partly["step"] - 10) / 10)
    again = replay("b.nc", None, 23, 34)
    assert_array_equal(again["value"].sel(step=34), whole["value"].sel(step=34))
    assert_allclose(again["epoch"].sel(step=30), 3.6)
    network = ClusteringHead(dataclasses.replace(SPARSE, batch=5))
    for step in (14, 10):  # the data of epoch 1 are left over at step 10
        clock = EpochClock(step, step / 7)
        engine = SparseSimdBackend(network, np.arange(2), clock)
        engine.differentiate(step)
        assert engine.order[0] == 2
    assert float(branch("b.nc", 24, until=44)["epoch"][-1]) == 5


def test_a_branch_with_a_start_too_many_frames_or_from_memory_is_refused(source):
    with pytest.raises(SettingsError, match="start: found"):
        branch(source, 14, start=source)
    with pytest.raises(SettingsError, match="steps, every"):
        branch(source, 14, until=10**15, every=1)
    with pytest.raises(TrajectoryError, match="no restart states"):
        branch(branch(source, 7), 14)


def test_the_path_of_a_branch_depends_on_all_that_defines_it(source):
    changes = ({}, {"lr": 0.1}, {"every": 3}, {"record": "metrics"})
    assert (
        len(
            {branch_path(source, 7, **change) for change in changes}
            | {branch_path(source, 8)}
        )
        == 5
    )
    with pytest.raises(SettingsError, match="a setting of sparse"):
        branch_path(source, 7, weight=1)
