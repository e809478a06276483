"""The loop: what it records, where runs live, and how they are found, extended,
replayed and branched."""

import pickle
import shutil
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import numpy as np
import pytest
import xarray as xr
from numpy.testing import assert_allclose, assert_array_equal
from xarray.backends.file_manager import FILE_CACHE

from analysis.structures.circles_and_grids import grid_imperfections
from dynamics import (
    RecordingError,
    TrajectoryError,
    branch,
    ensemble,
    final_embedding,
    replay,
    run_path,
    simulate,
)
from dynamics.particles.particle_system import ParticleSystem
from dynamics.settings import ParticleSettings, SettingsError
from dynamics.trajectory import (
    DIVERGED,
    DONE,
    checkpoints,
    open_trajectory,
    recorder,
    truncate_trajectory,
)
from dynamics.trajectory.description import RecordingSchedule
from dynamics.trajectory.netcdf import trajectory_lock
from dynamics.trajectory.reader import closed_parts, part_file_name, parts_folder
from tests.interruptions import interrupt_at

SETTINGS, OTHER = ParticleSettings(n=7, fa=2.0), ParticleSettings(n=7, fa=0.5)


def run(out=None, settings=SETTINGS, **changes):
    return simulate(settings, **{"runs": 6, "steps": 60, "out": out, **changes})


def same(a: xr.Dataset, b: xr.Dataset) -> bool:
    """Whether two trajectories are equal in every bit; when and where they were made
    may differ."""
    ignored = ("created_at", "git_commit", "threads")
    a, b = (data.assign_attrs(dict.fromkeys(ignored, "")) for data in (a, b))
    return a.load().identical(b.load())


def assert_direct(path, **amount):
    """A file has, restart states included, the bits of a run that nothing has
    interrupted."""
    run("direct.nc", **amount)
    for read in (open_trajectory, checkpoints):
        with read(path) as one, read("direct.nc") as other:
            assert same(one, other)


def assert_refused(path, told):
    for use in (open_trajectory, run):
        with pytest.raises((TrajectoryError, SettingsError), match=told):
            use(path)


def test_memory_file_and_pickle_hold_the_same(tmp_path):
    trajectory = run()
    assert list(tmp_path.iterdir()) == []  # without out nothing is written
    assert same(trajectory, run("a.nc"))
    assert same(trajectory, run(runs=np.int64(6), steps=np.int32(60), seed=np.uint8(0)))
    assert same(
        trajectory, pickle.loads(pickle.dumps(run("a.nc")))
    )  # in memory, never from a file
    assert run(steps=0)["step"].values.tolist() == [0]


def test_what_is_recorded():
    trajectory = run(steps=10, every=4)
    assert trajectory["step"].values.tolist() == [0, 4, 8, 10]
    assert (trajectory["update_norm"].sel(step=0) == 0).all()
    full = run(steps=10)
    xr.testing.assert_equal(full.sel(step=[0, 4, 8, 10]), trajectory)
    assert_array_equal(
        full["gradient_norm"].sel(step=0), full["gradient_norm"].sel(step=1)
    )
    moved = np.sqrt(
        (full["embedding"].diff("step") ** 2).sum(["token", "axis"])
    ).transpose("run", "step")
    assert_allclose(
        full["update_norm"].isel(step=slice(1, None), layer=0), moved, rtol=1e-4
    )


@pytest.mark.parametrize(("short", "every"), [(25, 4), (59, 7), (0, 1)])
def test_more_steps_extend_a_run(short, every):
    run("a.nc", steps=short, every=every).close()
    run("a.nc", every=every)
    assert_direct("a.nc", every=every)


def test_a_finished_run_is_found_and_only_read(monkeypatch):
    """It is found also in a folder that cannot be written: nothing is locked, nor is
    space measured."""
    expected, path = run("a.nc").load(), Path("a.nc")
    before = path.stat()
    with monkeypatch.context() as patch:
        patch.setattr(recorder, "hold_lock", None)
        patch.setattr(ensemble, "check_resources", None)
        assert same(run(path), expected)
        assert same(run(path, steps=20), truncate_trajectory(expected, 20))
    assert path.stat().st_mtime_ns == before.st_mtime_ns
    assert same(run(path, steps=20), run(steps=20))
    run("b.nc", every=7)
    with pytest.raises(SettingsError, match="steps: found 20 steps"):
        run("b.nc", every=7, steps=20)


@pytest.mark.parametrize(
    "change", [{"runs": 5}, {"seed": 1}, {"every": 2}, {"record": "metrics"}]
)
def test_a_file_of_another_run_is_refused(change):
    path = Path("a.nc")
    run(path).close()
    before = path.read_bytes()
    for changes, told in (
        (change, f"{next(iter(change))}="),
        ({"settings": OTHER}, "fa=2.0"),
    ):
        with pytest.raises(SettingsError, match=f"out: found .*a.nc with {told}"):
            run(path, **changes)
    assert path.read_bytes() == before
    run(path, overwrite=True, **change)


def test_a_damaged_file_is_replaced_only_by_overwrite_and_a_file_is_no_folder_of_parts():
    Path("a.nc").write_bytes(b"precious")
    with pytest.raises(TrajectoryError):
        run("a.nc")
    assert Path("a.nc").read_bytes() == b"precious"
    run("a.nc", overwrite=True)
    parts_folder(Path("b.nc")).write_text("mine")
    with pytest.raises(RecordingError, match="is a file, expected a folder"):
        run("b.nc")


def test_the_path_of_a_run_depends_on_all_that_defines_it_but_not_on_steps():
    base = {"settings": SETTINGS, "runs": 5, "seed": 0}
    changes = [
        {},
        {"settings": ParticleSettings(n=7)},
        {"runs": 6},
        {"seed": 1},
        {"every": 3},
        {"record": "metrics"},
    ]
    paths = [run_path(**{**base, **change}) for change in changes]
    assert len(set(paths)) == len(paths)
    assert run_path(**base, every=1) == paths[0]
    assert all(
        path.parent.name == "runs" and path.name.startswith("particles-")
        for path in paths
    )


# ----------------------------------------------------------------- damage between parts


@pytest.fixture(scope="module")
def killed(tmp_path_factory):
    """The file of a run that died after some parts."""
    path, real = tmp_path_factory.mktemp("killed") / "a.nc", recorder.FileRecorder.add

    def add(self, state, system):
        if state.step >= 40:
            raise MemoryError
        real(self, state, system)

    with pytest.MonkeyPatch.context() as patch, pytest.raises(MemoryError):
        patch.setattr(recorder, "PART_BYTES", 6 * 7 * 2 * 8 * 9)
        patch.setattr(recorder.FileRecorder, "add", add)
        run(out=path)
    assert len(closed_parts(path)) >= 3
    return path


@pytest.fixture
def interrupted(killed, tmp_path):
    """A copy of it."""
    shutil.copytree(parts_folder(killed), parts_folder(tmp_path / "a.nc"))
    return tmp_path / "a.nc"


def test_parts_of_an_unfinished_run_are_a_trajectory_that_continues_to_the_same_bits(
    interrupted,
):
    with open_trajectory(interrupted) as partial:
        reached = int(partial["step"][-1])
        assert 30 <= reached < 40
        assert (partial["status"] == 0).all()
        assert (partial["last_step"] == reached).all()
        expected = run().sel(step=slice(0, reached))
        for name in ("embedding", "update_norm"):
            xr.testing.assert_equal(partial[name], expected[name])
    with pytest.raises(SettingsError, match="out: found .* with seed=0"):
        run(interrupted, seed=3)
    run(interrupted)
    assert_direct(interrupted)


def test_a_damaged_part_is_an_error_and_stays(interrupted):
    for victim in (
        closed_parts(interrupted)[0].path,
        closed_parts(interrupted)[-1].path,
    ):
        whole = victim.read_bytes()
        for damage in (
            whole[: len(whole) // 2],
            whole[:99] + bytes([whole[99] ^ 4]) + whole[100:],
            b"",
        ):
            victim.write_bytes(damage)
            assert_refused(interrupted, victim.name)
            assert victim.read_bytes() == damage
        victim.write_bytes(whole)
    run(interrupted)


def test_a_missing_part_is_an_error(interrupted):
    closed_parts(interrupted)[1].path.unlink()
    assert_refused(interrupted, "a part is missing")


def test_parts_left_by_a_death_while_tidying_up_are_dropped_by_an_extension(
    interrupted,
):
    shutil.copytree(parts_folder(interrupted), "copy")
    run(interrupted).close()
    Path("copy").rename(parts_folder(interrupted))
    run(interrupted, steps=80)
    assert not parts_folder(interrupted).exists()
    assert_direct(interrupted, steps=80)


# -------------------------------------------------------------------- replay and branch


def test_replay_gives_the_bits_of_the_original():
    original, full = run("a.nc", every=10), run()
    for step, until in ((0, 60), (33, 41), (60, 60)):
        again = replay("a.nc", 4, step, until)
        expected = full.isel(run=4).sel(step=slice(step, until)).assign(last_step=until)
        xr.testing.assert_equal(again.isel(run=0), expected)
        assert again.attrs["branched_at"] == step
    some = replay(original, None, 20, 40, every=10)["embedding"]
    xr.testing.assert_equal(some, original["embedding"].sel(step=slice(20, 40)))
    xr.testing.assert_equal(
        replay(full, 2, 9, 12)["embedding"][0],
        full["embedding"][2].sel(step=slice(9, 12)),
    )


def test_a_branch_is_the_same_run_with_other_settings_from_there_on():
    original = run("a.nc")
    xr.testing.assert_equal(
        branch(original, 33)["embedding"],
        original["embedding"].sel(step=slice(33, None)),
    )
    other = branch(original, 33, fa=0.5)
    xr.testing.assert_equal(
        other["embedding"].sel(step=33), original["embedding"].sel(step=33)
    )
    assert (
        not other["embedding"].sel(step=34).equals(original["embedding"].sel(step=34))
    )
    assert '"fa": 0.5' in other.attrs["config_json"]
    recorder.save_trajectory(other, "b.nc")
    open_trajectory("b.nc").close()
    for name, value in (("n", 9), ("bogus", 9), ("fa", -1)):
        with pytest.raises(SettingsError, match=f"{name}: found {value}"):
            branch(original, 3, **{name: value})


# ----------------------------------------------------------------------------- refusals


INVALID = [
    *(("runs", value) for value in (0, -1, 10**9, 2.0, True)),
    *(("steps", value) for value in (-1, 10**17)),
    *(("device", value) for value in ("cuda", "gpu")),
    *(
        ("out", value)
        for value in (
            "",
            ".",
            "a.png",
            "a" * 250 + ".nc",
            "é" * 120 + ".nc",
            "d" * 300 + "/x.nc",
        )
    ),
    *(("out", "a\0b.nc"), ("seed", -1), ("every", 0), ("record", "some")),
    *(("out", value) for value in (3, b"a.nc", ["a.nc"])),
    *(("settings", value) for value in (None, 3, "particles", {}, ParticleSettings)),
]


@pytest.mark.parametrize(("field", "value"), INVALID)
def test_invalid_arguments_are_refused_by_name(field, value):
    with pytest.raises(SettingsError) as error:
        run(**{field: value})
    assert error.value.field == field


LARGE, LARGEST = ParticleSettings(n=100_000), ParticleSettings(dim=64, n=90_000)


HUGE = [
    {"settings": LARGE},
    {"settings": LARGEST, "runs": 10**7},
    {"runs": 10**7},
    {"steps": 2**50, "out": "a.nc"},
]


@pytest.mark.parametrize("amount", HUGE)
def test_ensembles_that_do_not_fit_are_refused_before_they_are_allocated(
    amount, monkeypatch
):
    monkeypatch.setattr(ensemble, "physical_memory", lambda: 16 * 2**30)
    with pytest.raises(SettingsError, match="GiB"):
        run(**amount)


def test_a_schedule_of_a_longer_run_keeps_checkpoints_of_a_shorter_one():
    for steps in range(1, 300, 7):
        short, long = RecordingSchedule(steps, 3), RecordingSchedule(3 * steps, 3)
        assert all(
            short.keeps_checkpoint(step)
            for step in range(steps)
            if long.keeps_checkpoint(step)
        )


# ----------------------------------------------------------- runs that were interrupted


def test_an_interrupted_run_can_be_finished_at_its_last_step_but_not_before():
    """The state at which it stopped had no frame; asked for exactly that many steps, it
    gets one."""
    stop_at("a.nc", 30, every=7, steps=1000)
    before = [part.path.read_bytes() for part in closed_parts("a.nc")]
    with pytest.raises(
        SettingsError, match="steps: found 29 steps, allowed is at least 30"
    ):
        run("a.nc", every=7, steps=29)
    assert [part.path.read_bytes() for part in closed_parts("a.nc")] == before
    run("a.nc", every=7, steps=30)
    xr.testing.assert_equal(open_trajectory("a.nc"), run(every=7, steps=30))


def test_an_extension_that_was_interrupted_beyond_what_is_asked_is_refused():
    run("a.nc", steps=20, every=7)
    stop_at("a.nc", 30, every=7, steps=1000)
    with pytest.raises(
        SettingsError, match="steps: found 25 steps, allowed is at least 30"
    ):
        run("a.nc", every=7, steps=25)
    for steps in (20, 60):
        assert same(run("a.nc", every=7, steps=steps), run(every=7, steps=steps))


def stop_at(path, step, **amount):
    """Run until a signal comes at a step."""
    with interrupt_at(ParticleSystem, step) as stopped:
        run(path, **amount)
    assert stopped.value.step == step


def test_parts_are_kept_if_their_merge_would_be_incomplete(interrupted):
    """A part copied under the next one's name continues the chain of names, and nothing
    else; other files stay."""
    others = [
        parts_folder(interrupted) / name for name in ("notes.txt", "part-copy (1).nc")
    ]
    for path in others:
        path.write_text("mine")
    last = closed_parts(interrupted)[-1]
    copy = last.path.with_name(part_file_name(last.end, 2 * last.end - last.begin))
    copy.write_bytes(last.path.read_bytes())
    before = sorted(parts_folder(interrupted).iterdir())
    with pytest.raises(TrajectoryError, match="ends at step"):
        run(out=interrupted)
    assert sorted(parts_folder(interrupted).iterdir()) == before
    copy.unlink()
    run(out=interrupted)
    assert [path.read_text() for path in others] == ["mine", "mine"]


def test_a_part_of_another_run_is_not_merged(interrupted):
    stop_at("other.nc", 40, settings=OTHER)
    shutil.copy(closed_parts("other.nc")[0].path, closed_parts(interrupted)[0].path)
    assert_refused(interrupted, "another run|fa=0.5|ends at step")


def test_a_file_is_kept_if_the_run_that_replaces_it_cannot_begin():
    for path in ("a.nc", "b.nc"):
        run(path).close()
    before = Path("a.nc").read_bytes()
    own, wrong = (
        ParticleSettings(n=7, start="a.nc", start_step=-1),
        ParticleSettings(n=6, start="b.nc"),
    )
    itself = "another file than the one that this run begins from"
    for settings, overwrite, told in (
        (own, True, itself),
        (own, False, itself),
        (wrong, True, "start"),
    ):
        with pytest.raises(SettingsError, match=told):
            run("a.nc", settings, steps=5, overwrite=overwrite)
        assert Path("a.nc").read_bytes() == before


def test_parts_are_removed_only_by_overwrite(interrupted):
    with pytest.raises(RecordingError, match="exists already"):
        recorder.save_trajectory(run(), interrupted)
    assert parts_folder(interrupted).exists()
    run(interrupted, overwrite=True, steps=10)
    assert not parts_folder(interrupted).exists()
    assert same(open_trajectory(interrupted), run(steps=10))


def test_a_selection_is_replayed_by_its_seeds():
    chosen, metrics = (
        run(f"{record}.nc", record=record).isel(run=[4, 1])
        for record in ("all", "metrics")
    )
    for number, rows in ((0, [0]), (None, [0, 1])):
        result = replay(chosen, number, 30, 35)["embedding"]
        xr.testing.assert_equal(
            result, chosen["embedding"].isel(run=rows).sel(step=slice(30, 35))
        )
    assert_array_equal(final_embedding(metrics), final_embedding(chosen))


def test_a_saved_selection_or_branch_is_not_taken_for_the_run_and_one_run_needs_its_dimension():
    full = run("a.nc")
    recorder.save_trajectory(full.isel(run=[2, 4]), "selection.nc")
    recorder.save_trajectory(branch(full, 0, fa=0.5), "branch.nc")
    for name, settings, told in (
        ("selection", SETTINGS, ".*selection or a branch"),
        ("branch", OTHER, ""),
    ):
        with pytest.raises(SettingsError, match=f"out: found{told}"):
            run(f"{name}.nc", settings)
        with pytest.raises(TrajectoryError, match="no restart states"):
            replay(f"{name}.nc", 0, 1, 2)
    with pytest.raises(RecordingError, match="exists already"):
        recorder.save_trajectory(full, "a.nc")
    one = run("m.nc", record="metrics").isel(run=3)
    for use in (
        lambda t: recorder.save_trajectory(t, "b.nc"),
        lambda t: replay(t, 0, 0, 1),
        final_embedding,
    ):
        with pytest.raises(TrajectoryError, match="dimension run"):
            use(one)


def test_another_process_that_finishes_first_is_noticed_under_the_lock(monkeypatch):
    run("a.nc", steps=80)
    monkeypatch.setattr(
        ensemble, "find_finished_run", lambda *_: None
    )  # what it saw before the lock
    for amount, told in (
        ({}, "steps: found 60 steps, allowed is at least 80"),
        ({"seed": 5}, "out: found"),
    ):
        with pytest.raises(SettingsError, match=told):
            run("a.nc", **amount)


def test_long_stretches_between_frames_have_checkpoints_and_parts(monkeypatch):
    monkeypatch.setattr(recorder, "PART_SECONDS", 0.0)
    amount = {"every": 1000, "steps": 1000}
    stop_at("a.nc", 777, **amount)
    assert len(closed_parts("a.nc")) > 5
    run("a.nc", **amount)
    assert_direct("a.nc", **amount)
    assert 10 < checkpoints("a.nc").sizes["checkpoint"] <= 22


def test_a_run_stopped_between_frames_can_be_opened_and_replayed(tmp_path, monkeypatch):
    path = tmp_path / "a.nc"
    stop_at(path, 30, every=7, steps=1000)
    with open_trajectory(path) as partial:
        assert partial["step"].values.tolist() == [0, 7, 14, 21, 28]
        assert (partial["last_step"] == 28).all()
        monkeypatch.chdir("/")
        expected = run()["embedding"][2].sel(step=slice(25, 33))
        xr.testing.assert_equal(replay(partial, 2, 25, 33)["embedding"][0], expected)
        with pytest.raises(SettingsError, match="run: found 6"):
            replay(partial, 6, 25, 33)


def test_a_dataset_never_reads_the_numbers_of_a_file_that_took_its_name():
    """xarray closes files that have long not been used, and opens them again by
    name."""
    old = run("a.nc")
    run("a.nc", seed=3, overwrite=True)
    old._close = None
    FILE_CACHE.clear()
    with pytest.raises(
        TrajectoryError, match="has been overwritten since it was opened"
    ):
        old["embedding"].load()
    with pytest.raises(
        TrajectoryError, match="the file no longer contains a run of seed 0"
    ):
        replay(old, 0, 10, 20)
    run("a.nc", OTHER, overwrite=True)
    with pytest.raises(TrajectoryError, match="another run has been written there"):
        replay(old, 0, 10, 20)


def test_the_end_of_metrics_alone_is_replayed_where_no_restart_state_is_at_it():
    run("m.nc", record="metrics", steps=300)
    view = run("m.nc", record="metrics", steps=31)
    assert_array_equal(final_embedding(view), run(steps=31)["embedding"][:, -1])


def test_parts_of_another_run_beside_a_finished_one_are_not_removed(interrupted):
    run("b.nc", OTHER).close()
    Path("b.nc").replace(interrupted)
    before = closed_parts(interrupted)
    run(interrupted, OTHER)
    assert closed_parts(interrupted) == before
    with pytest.raises(SettingsError, match="out: found"):
        run(interrupted, OTHER, steps=80)
    assert closed_parts(interrupted) == before


@pytest.mark.parametrize("name", ["a.nc", "*.nc"])
def test_temporary_files_of_other_writers_are_left_alone(name, tmp_path):
    theirs = [
        tmp_path / f".{other}.12.34.tmp" for other in ("other.nc", f"{name}.b.nc")
    ]
    ours = tmp_path / f".{name}.12.34.tmp"
    for path in (*theirs, ours):
        path.touch()
    run(out=tmp_path / name)
    assert [path.exists() for path in (*theirs, ours)] == [True, True, False]


def test_two_threads_write_two_files():
    def work(name):
        run(name, steps=200)
        return run(name, steps=200).load()

    with ThreadPoolExecutor(2) as pool:
        result = list(pool.map(work, ["a.nc", "b.nc", "c.nc", "d.nc"]))
    assert all(same(one, result[0]) for one in result)


# --------------------------------------------------------------------------- divergence


def test_a_diverged_run_is_marked_masked_left_out_and_extended_over_parts(
    diverging, monkeypatch
):
    trajectory = simulate(diverging, runs=2, steps=30, out="a.nc")
    assert trajectory["status"].values.tolist() == [DONE, DIVERGED]
    assert trajectory["last_step"].values.tolist() == [30, 0]
    assert (trajectory["embedding"][1] == trajectory["embedding"][1, 0]).all()
    assert final_embedding(trajectory)["seed"].values.tolist() == [0]
    measured = grid_imperfections(trajectory)
    assert_array_equal(measured.notnull(), [[True] * 31, [True] + [False] * 30])
    xr.testing.assert_equal(
        truncate_trajectory(trajectory, 0).load(), simulate(diverging, runs=2, steps=0)
    )
    recorder.save_trajectory(branch(trajectory, 10, fa=2.0), "b.nc")
    assert open_trajectory("b.nc")["last_step"].values.tolist() == [30, 0]
    trajectory.close()
    monkeypatch.setattr(recorder, "PART_BYTES", 2000)
    extended, direct = (
        simulate(diverging, runs=2, steps=60, out=out) for out in ("a.nc", None)
    )
    assert same(extended, direct)


# ----------------------------------------------------------- links and folders as --out


def test_the_target_of_a_link_is_written_and_the_link_stays():
    link, target = Path("a.nc"), Path("data/b.nc").resolve()
    target.parent.mkdir()
    link.symlink_to("data/b.nc")  # to a file that does not exist yet
    stop_at(link, 30)
    assert closed_parts(link) == closed_parts(target) != []
    assert open_trajectory(link).attrs["steps"] == 60
    with (
        trajectory_lock(target),
        pytest.raises(RecordingError, match="another process"),
    ):
        run(link)
    run(link).close()
    run(link, steps=80).close()
    assert link.is_symlink()
    assert same(open_trajectory(target), run(steps=80))
    with pytest.raises(RecordingError, match="exists already"):
        recorder.save_trajectory(run(), link)
    run(link, overwrite=True, steps=3).close()
    assert link.is_symlink()
    assert open_trajectory(target).sizes["step"] == 4


@pytest.mark.parametrize(
    "out",
    [
        "folder.nc",
        "new.nc/",
        "file.txt/a.nc",
        "/proc/a.nc",
        "/proc/new/a.nc",
        "loop.nc",
    ],
)
def test_a_place_where_nothing_can_be_written_is_refused_at_once(
    out, tmp_path, monkeypatch
):
    (tmp_path / "folder.nc").mkdir()
    (tmp_path / "file.txt").touch()
    (tmp_path / "loop.nc").symlink_to("loop.nc")
    monkeypatch.setattr(ParticleSystem, "initial", None)  # nothing is computed
    with pytest.raises(SettingsError, match="out: found"):
        run(out=out)


@pytest.mark.parametrize("by_signal", [True, False])
def test_an_interrupted_call_in_a_notebook_goes_on_when_it_is_repeated(
    monkeypatch, by_signal
):
    """Python raises KeyboardInterrupt itself at a second signal, or before and after
    the loop: what is in a part by then is not computed again."""
    if by_signal:
        with interrupt_at(ParticleSystem, 25):
            run("a.nc")
    else:
        real = ParticleSystem.advance

        def advance(self, state, steps):
            if state.step >= 25:
                raise KeyboardInterrupt
            return real(self, state, steps)

        with pytest.MonkeyPatch.context() as patch, pytest.raises(KeyboardInterrupt):
            patch.setattr(recorder, "PART_SECONDS", 0)
            patch.setattr(ParticleSystem, "advance", advance)
            run("a.nc")
    reached = closed_parts("a.nc")[-1].end
    assert 0 < reached <= 25
    steps = []
    real_advance = ParticleSystem.advance

    def counted(self, state, number):
        steps.append(state.step)
        return real_advance(self, state, number)

    monkeypatch.setattr(ParticleSystem, "advance", counted)
    run("a.nc").close()
    assert steps[0] == reached
    assert not parts_folder("a.nc").exists()
    assert_direct("a.nc")
    steps.clear()
    run("a.nc", steps=90).close()  # larger: extends the file
    assert steps[0] == 60
    run("a.nc", steps=60).close()  # the file stays longer
    assert int(open_trajectory("a.nc")["step"][-1]) == 90
