"""Runs that go on from another: branches as files, and the options --branch, --from and --step."""

import dataclasses
import json
import re

import numpy as np
import pytest
import xarray as xr

from dynamics.branching import branch, branch_path, replay
from dynamics.errors import TrajectoryError
from dynamics.networks.clustering_head import ClusteringHead
from dynamics.settings import ModularSettings, ParticleSettings, SettingsError, SparseSettings
from dynamics.simulation import simulate
from dynamics.system import EpochClock
from dynamics.training.sparse_backends import SparseSimdBackend
from dynamics.trajectory import recorder
from dynamics.trajectory.parts import closed_parts
from dynamics.trajectory.reader import checkpoints, open_trajectory

SPARSE = SparseSettings(length=6, sparsity=2, data=50, batch=8, hidden=5)
SMALL = ["--length", 6, "--sparsity", 2, "--data", 50, "--batch", 8, "--hidden", 5]


@pytest.fixture
def here(typed):
    """A simulation's exit code, the file it names, and what it says of errors."""

    def run(program, *words):
        code, out, errors = typed(program, *words)
        found = re.search(r"trajectory +(\S+) ", out)
        return code, found and found[1], errors

    return run


# --------------------------------------------------------------------------------------- branches as files


@pytest.mark.parametrize(
    ("settings", "change"),
    [(ParticleSettings(n=5), {"fa": 3.0}), (ModularSettings(n=5), {"lr": 0.1}), (SPARSE, {"norm": "rms-smooth"})],
    ids=["particles", "modular", "sparse"],
)
def test_a_branch_is_found_extended_and_replayed(settings, change, tmp_path):
    simulate(settings, runs=3, steps=40, every=5, out=tmp_path / "a.nc").close()
    direct = branch(tmp_path / "a.nc", 13, until=60, **change)
    path = tmp_path / "b.nc"
    branch(tmp_path / "a.nc", 13, out=path, **change).close()
    written = path.stat().st_mtime_ns
    branch(tmp_path / "a.nc", 13, out=path, **change).close()
    assert path.stat().st_mtime_ns == written
    extended = branch(tmp_path / "a.nc", 13, until=60, out=path, **change)
    xr.testing.assert_equal(extended.drop_attrs(), direct.drop_attrs())
    assert (int(extended["step"][0]), extended.attrs["branched_at"]) == (13, 13)
    with checkpoints(path) as states:
        assert int(states["checkpoint"][0]) == 13
    again = replay(path, 1, 27, 31)
    np.testing.assert_array_equal(again["embedding"].sel(step=30)[0], direct["embedding"].sel(step=30)[1])
    further = branch(path, 45, until=50)
    np.testing.assert_array_equal(further["embedding"].sel(step=50), direct["embedding"].sel(step=50))
    with pytest.raises(SettingsError, match="out: found .*branched_at"):
        branch(tmp_path / "a.nc", 14, out=path, **change)
    with pytest.raises(SettingsError, match="out: found .*a branch"):
        simulate(settings, runs=3, steps=40, every=5, out=path)
    with pytest.raises(SettingsError, match="another file than the one that this run begins from"):
        branch(tmp_path / "a.nc", 13, out=tmp_path / "a.nc", **change)


def test_a_branch_that_was_interrupted_goes_on(tmp_path, monkeypatch):
    simulate(SPARSE, runs=3, steps=40, every=5, out=tmp_path / "a.nc").close()
    expected = branch(tmp_path / "a.nc", 13, until=200, lr=0.01)
    path = tmp_path / "b.nc"
    monkeypatch.setattr(recorder, "PART_SECONDS", 0.0)
    from dynamics.training.system import SparseSystem

    advance, calls = SparseSystem.advance, []

    def failing(self, state, steps):
        calls.append(steps)
        if len(calls) > 9:
            raise KeyboardInterrupt
        return advance(self, state, steps)

    monkeypatch.setattr(SparseSystem, "advance", failing)
    with pytest.raises(KeyboardInterrupt):
        branch(tmp_path / "a.nc", 13, until=200, lr=0.01, out=path)
    parts = closed_parts(path)
    assert parts[0].begin == 13
    with open_trajectory(path) as unfinished:
        assert int(unfinished["step"][0]) == 13
    monkeypatch.setattr(SparseSystem, "advance", advance)
    found = branch(tmp_path / "a.nc", 13, until=200, lr=0.01, out=path)
    xr.testing.assert_equal(found.drop_attrs(), expected.drop_attrs())


@pytest.mark.parametrize(("settings", "change"), [(ModularSettings(n=5), {"lr": 0.1}), (SPARSE, {"lr": 0.01})])
@pytest.mark.parametrize(("first", "then"), [("adam", "sgd"), ("sgd", "adamw"), ("adamw", "adam")])
def test_a_branch_file_may_change_the_optimizer(settings, change, first, then, tmp_path):
    source = dataclasses.replace(settings, optimizer=first)
    simulate(source, runs=3, steps=20, every=5, out=tmp_path / "a.nc").close()
    direct = branch(tmp_path / "a.nc", 13, until=60, optimizer=then, **change)
    branch(tmp_path / "a.nc", 13, until=40, out=tmp_path / "b.nc", optimizer=then, **change).close()
    extended = branch(tmp_path / "a.nc", 13, until=60, out=tmp_path / "b.nc", optimizer=then, **change)
    xr.testing.assert_equal(extended.drop_attrs(), direct.drop_attrs())


def test_a_branch_that_changes_the_batch_begins_a_new_epoch(tmp_path):
    """Epochs go on to count from the beginning, and each is a whole pass through the data."""
    simulate(SPARSE, runs=2, steps=21, out=tmp_path / "a.nc").close()  # 7 steps an epoch
    whole = branch(tmp_path / "a.nc", 14, until=34, batch=5, out=tmp_path / "b.nc")  # 10 steps an epoch
    np.testing.assert_allclose(whole["epoch"], [2, 3, 4])
    np.testing.assert_array_equal(whole["step"], [14, 24, 34])
    assert float(branch(tmp_path / "a.nc", 14, batch=5)["epoch"][-1]) == 3
    partly = branch(tmp_path / "a.nc", 10, until=34, batch=5)
    np.testing.assert_allclose(partly["epoch"], 10 / 7 + (partly["step"] - 10) / 10)
    again = replay(tmp_path / "b.nc", None, 23, 34)
    np.testing.assert_array_equal(again["value"].sel(step=34), whole["value"].sel(step=34))
    np.testing.assert_allclose(again["epoch"].sel(step=30), 3.6)
    engine = SparseSimdBackend(ClusteringHead(dataclasses.replace(SPARSE, batch=5)), np.arange(2), EpochClock(14, 2.0))
    engine.differentiate(14)
    assert engine.order[0] == 2
    further = branch(tmp_path / "b.nc", 24, until=44)
    assert float(further["epoch"][-1]) == 5


def test_a_branch_has_no_start_of_its_own(tmp_path):
    simulate(SPARSE, runs=2, steps=21, out=tmp_path / "a.nc").close()
    with pytest.raises(SettingsError, match="start: found"):
        branch(tmp_path / "a.nc", 14, start=str(tmp_path / "a.nc"))
    with pytest.raises(SettingsError, match="steps, every"):
        branch(tmp_path / "a.nc", 14, until=10**15, every=1)


def test_where_branches_live(tmp_path):
    simulate(SPARSE, runs=3, steps=20, out=tmp_path / "a.nc").close()
    paths = {
        branch_path(tmp_path / "a.nc", 7),
        branch_path(tmp_path / "a.nc", 8),
        branch_path(tmp_path / "a.nc", 7, lr=0.1),
        branch_path(tmp_path / "a.nc", 7, every=3),
        branch_path(tmp_path / "a.nc", 7, record="metrics"),
    }
    assert len(paths) == 5
    with pytest.raises(SettingsError, match="a setting of sparse"):
        branch_path(tmp_path / "a.nc", 7, weight=1)


def test_a_branch_in_memory_cannot_be_branched(tmp_path):
    simulate(SPARSE, runs=2, steps=20, out=tmp_path / "a.nc").close()
    with pytest.raises(TrajectoryError, match="no restart states"):
        branch(branch(tmp_path / "a.nc", 7), 14)


# ---------------------------------------------------------------------------------------- on the command line


@pytest.mark.parametrize(
    ("program", "base", "change"),
    [
        ("sims.particles", ["--n", 5, "--steps", 30], ["--fa", 3]),
        ("sims.modular", ["--n", 5, "--hidden", 7, "--epochs", 30], ["--weight-decay", 0]),
        ("sims.sparse", [*SMALL, "--epochs", 5], ["--norm", "unit-smooth"]),
    ],
)
def test_branching_keeps_all_that_is_not_given(here, program, base, change):
    code, source, _ = here(program, *base, "--runs", 3, "--seed", 4)
    assert code == 0
    code, path, _ = here(program, "--branch", source, "--step", 20, *change)
    assert code == 0
    before, after = open_trajectory(source), open_trajectory(path)
    assert list(after["seed"].values) == [4, 5, 6]
    old, new = (json.loads(each.attrs["config_json"]) for each in (before, after))
    assert {name for name in new if new[name] != old[name]} == {change[0].strip("-").replace("-", "_")}
    assert int(after["step"][-1]) == int(before["step"][-1])
    np.testing.assert_array_equal(after["embedding"][:, 0], replay(source, None, 20, 20)["embedding"][:, 0])
    assert here(program, "--branch", source, "--step", 20, *change)[1] == path


def test_sparse_transfers_from_the_command_line(here):
    code, source, _ = here("sims.sparse", *SMALL, "--runs", 4, "--epochs", 3)
    code, path, _ = here("sims.sparse", "--from", source, "--vocab", 3, "--epochs", 2)
    assert code == 0
    begun, ended = open_trajectory(path), open_trajectory(source)
    assert begun.sizes["run"] == 4
    np.testing.assert_array_equal(begun["value"][:, 0], ended["value"][:, -1])
    code, path, _ = here("sims.sparse", "--from", source, "--step", 7, "--data", 60, "--epochs", 1)
    np.testing.assert_array_equal(open_trajectory(path)["value"][:, 0], ended["value"].sel(step=7))
    code, _, errors = here("sims.sparse", "--from", source, "--step", 8, "--epochs", 1)
    assert code == 2
    assert "--step: found 8" in errors


def test_a_batch_is_changed_from_the_command_line(here):
    _, source, _ = here("sims.sparse", *SMALL, "--runs", 2, "--epochs", 3)
    code, path, _ = here("sims.sparse", "--branch", source, "--step", 14, "--batch", 5, "--epochs", 4)
    assert code == 0
    trajectory = open_trajectory(path)
    assert (int(trajectory["step"][-1]), float(trajectory["epoch"][-1])) == (34, 4)


@pytest.mark.parametrize("flag", ["--only-successful", "--only_successful"])
def test_successful_runs_are_as_many_as_there_are(here, flag, monkeypatch):
    for module in ("dynamics.training", "dynamics.training.finetuning"):
        monkeypatch.setattr(f"{module}.successful_runs", lambda found: np.array([False, True, True, False]))
    _, source, _ = here("sims.sparse", *SMALL, "--runs", 4, "--epochs", 1)
    code, path, _ = here("sims.sparse", "--from", source, flag, "--vocab", 3, "--epochs", 1)
    assert code == 0
    begun = open_trajectory(path)
    np.testing.assert_array_equal(begun["value"][:, 0], open_trajectory(source)["value"][[1, 2], -1])


@pytest.mark.parametrize(
    ("words", "named"),
    [
        (["--sparsity", 13], "sparsity: found 13"),
        (["--out", "new.nc/"], "--out: found new.nc/, allowed is the name of a file"),
        (["--vocab", 1], "vocab: found 1"),
        (["--batch", 3000], "batch: found 3000"),
        (["--step", 4], "--step: found 4"),
        (["--only-successful"], "--only-successful: found True"),
        (["--from", "modular.nc"], "--from: found modular.nc of the system modular"),
        (["--branch", "modular.nc", "--step", 1], "--branch: found modular.nc of the system modular"),
        (["--branch", "a.nc"], "--step: found none"),
        (["--branch", "a.nc", "--from", "a.nc"], "--branch: found a.nc"),
        (["--branch", "a.nc", "--step", 3, "--runs", 3], "--runs: found 3"),
        (["--branch", "a.nc", "--step", 3, "--hidden", 9], "--hidden: found 9, allowed is 5 as before"),
        (["--branch", "a.nc", "--step", -3], "--step: found -3"),
        (["--branch", "a.nc", "--step", 30], "--step: found 30, allowed is at most 21"),
        (["--from", "a.nc", "--hidden", 9], "--hidden: found 9"),
        (["--from", "a.nc", "--step", -2], "--step: found -2"),
        (["--from", "a.nc", "--out", "a.nc", "--overwrite"], "--out: found a.nc, allowed is another file"),
        (["--branch", "a.nc", "--step", 7, "--out", "a.nc", "--overwrite"], "--out: found a.nc, allowed is another"),
        (["--from", "a.nc", "--only-successful"], "--only-successful: found no run"),
        (["--from", "a.nc", "--runs", 9], "--from: found no run of seed 2"),
    ],
)
def test_nonsense_is_refused_with_the_option_named(here, words, named):
    simulate(SPARSE, runs=2, steps=21, out="a.nc").close()
    simulate(ModularSettings(n=5), runs=2, steps=2, out="modular.nc").close()
    code, _, errors = here("sims.sparse", *words)
    assert code == 2
    assert named in re.sub(r"\s+│?\s*", " ", errors)


def test_a_file_that_is_not_there_or_empty_is_an_error(here, tmp_path):
    (tmp_path / "empty.nc").touch()
    for option in ("--from", "--branch"):
        for name in ("none.nc", "empty.nc"):
            code, _, errors = here("sims.sparse", option, name, "--step", 0)
            assert code == 1
            assert name in errors
            assert len(errors.splitlines()) == 1
