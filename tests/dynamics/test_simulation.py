"""The loop: what it records, where runs live, and how they are found, extended, replayed and branched."""

import pickle
import shutil
from concurrent.futures import ThreadPoolExecutor

import numpy as np
import pytest
import xarray as xr
from xarray.backends.file_manager import FILE_CACHE

from analysis.structures.circles_and_grids import grid_imperfections
from dynamics import simulation as loop
from dynamics.branching import branch, final_embedding, replay
from dynamics.errors import RecordingError, TrajectoryError
from dynamics.particles.system import ParticleSystem
from dynamics.run_checks import run_path
from dynamics.settings import ParticleSettings, SettingsError
from dynamics.simulation import simulate
from dynamics.trajectory import recorder
from dynamics.trajectory.description import RecordingSchedule
from dynamics.trajectory.lock import trajectory_lock
from dynamics.trajectory.parts import closed_parts, part_file_name, parts_folder
from dynamics.trajectory.reader import checkpoints, open_trajectory, truncate_trajectory
from dynamics.trajectory.schema import DIVERGED, DONE
from tests.interruptions import interrupt_at

SETTINGS = ParticleSettings(n=7, fa=2.0)


def run(out=None, **changes):
    return simulate(SETTINGS, **{"runs": 6, "steps": 60, "out": out, **changes})


def same(a: xr.Dataset, b: xr.Dataset) -> bool:
    """Whether two trajectories are equal in every bit; when and where they were made may differ."""
    ignored = ("created_at", "git_commit", "threads")
    a, b = (data.assign_attrs(dict.fromkeys(ignored, "")) for data in (a, b))
    return a.load().identical(b.load())


def same_file(a, b) -> bool:
    with open_trajectory(a) as one, open_trajectory(b) as other, checkpoints(a) as states, checkpoints(b) as others:
        return same(one, other) and states.load().identical(others.load())


SMALL_PART = 6 * 7 * 2 * 8 * 9


def test_memory_and_file_hold_the_same(tmp_path):
    trajectory = run()
    assert list(tmp_path.iterdir()) == []  # without out nothing is written
    assert same(trajectory, run(out=tmp_path / "a.nc"))
    assert run(steps=0)["step"].values.tolist() == [0]


def test_what_is_recorded(tmp_path):
    trajectory = run(steps=10, every=4)
    assert trajectory["step"].values.tolist() == [0, 4, 8, 10]
    assert (trajectory["update_norm"].sel(step=0) == 0).all()
    full = run(steps=10)
    xr.testing.assert_equal(full.sel(step=[0, 4, 8, 10]), trajectory)
    np.testing.assert_array_equal(full["gradient_norm"].sel(step=0), full["gradient_norm"].sel(step=1))
    moved = np.sqrt((full["embedding"].diff("step") ** 2).sum(["token", "axis"])).transpose("run", "step")
    np.testing.assert_allclose(full["update_norm"].isel(step=slice(1, None), layer=0), moved, rtol=1e-4)


@pytest.mark.parametrize(("short", "every"), [(25, 4), (59, 7), (0, 1)])
def test_more_steps_extend_a_run(tmp_path, short, every):
    a, b = tmp_path / "extended.nc", tmp_path / "direct.nc"
    run(out=a, steps=short, every=every).close()
    run(out=a, every=every)
    run(out=b, every=every)
    assert same_file(a, b)


def test_a_finished_run_is_found_and_only_read(tmp_path):
    path = tmp_path / "a.nc"
    run(out=path).close()
    before = path.stat()
    again = run(out=path)
    assert path.stat().st_mtime_ns == before.st_mtime_ns
    assert same(again, run())
    assert same(run(out=path, steps=20), run(steps=20))
    run(out=tmp_path / "b.nc", every=7)
    with pytest.raises(SettingsError, match="steps: found 20"):
        run(out=tmp_path / "b.nc", every=7, steps=20)


@pytest.mark.parametrize("change", [{"runs": 5}, {"seed": 1}, {"every": 2}, {"record": "metrics"}])
def test_a_file_of_another_run_is_refused(tmp_path, change):
    path = tmp_path / "a.nc"
    run(out=path).close()
    before = path.read_bytes()
    with pytest.raises(SettingsError, match=f"out: found .*a.nc with {next(iter(change))}="):
        run(out=path, **change)
    with pytest.raises(SettingsError, match="out: found .*a.nc with fa=2.0"):
        simulate(ParticleSettings(n=7, fa=1.0), runs=6, steps=60, out=path)
    assert path.read_bytes() == before
    run(out=path, overwrite=True, **change)


def test_a_damaged_file_is_replaced_only_by_overwrite(tmp_path):
    path = tmp_path / "a.nc"
    path.write_bytes(b"precious")
    with pytest.raises(TrajectoryError):
        run(out=path)
    assert path.read_bytes() == b"precious"
    run(out=path, overwrite=True)


def test_the_path_of_a_run_depends_on_all_that_defines_it_but_not_on_steps():
    base = {"settings": SETTINGS, "runs": 5, "seed": 0}
    changes = [{}, {"settings": ParticleSettings(n=7)}, {"runs": 6}, {"seed": 1}, {"every": 3}, {"record": "metrics"}]
    paths = [run_path(**{**base, **change}) for change in changes]
    assert len(set(paths)) == len(paths)
    assert run_path(**base, every=1) == paths[0]
    assert all(path.parent.name == "runs" and path.name.startswith("particles-") for path in paths)


# ------------------------------------------------------------------------------------ damage between parts


@pytest.fixture(scope="module")
def killed(tmp_path_factory):
    """The file of a run that died after some parts."""
    path, real = tmp_path_factory.mktemp("killed") / "a.nc", recorder.FileRecorder.add

    def add(self, state, system):
        if state.step >= 40:
            raise MemoryError
        real(self, state, system)

    with pytest.MonkeyPatch.context() as patch, pytest.raises(MemoryError):
        patch.setattr(recorder, "PART_BYTES", SMALL_PART)
        patch.setattr(recorder.FileRecorder, "add", add)
        run(out=path)
    assert len(closed_parts(path)) >= 3
    return path


@pytest.fixture
def interrupted(killed, tmp_path):
    """A copy of it."""
    shutil.copytree(parts_folder(killed), parts_folder(tmp_path / "a.nc"))
    return tmp_path / "a.nc"


def test_parts_of_an_unfinished_run_are_a_trajectory(interrupted):
    with open_trajectory(interrupted) as partial:
        reached = int(partial["step"][-1])
        assert 30 <= reached < 40
        assert (partial["status"] == 0).all()
        assert (partial["last_step"] == reached).all()
        xr.testing.assert_equal(
            partial[["embedding", "update_norm"]], run().sel(step=slice(0, reached))[["embedding", "update_norm"]]
        )


def test_an_interrupted_run_continues_to_the_same_bits(interrupted, tmp_path):
    run(out=interrupted)
    run(out=tmp_path / "direct.nc")
    assert same_file(interrupted, tmp_path / "direct.nc")


def test_a_damaged_part_is_an_error_and_stays(interrupted):
    for victim in (closed_parts(interrupted)[0].path, closed_parts(interrupted)[-1].path):
        whole = victim.read_bytes()
        for damage in (whole[: len(whole) // 2], whole[:99] + bytes([whole[99] ^ 4]) + whole[100:], b""):
            victim.write_bytes(damage)
            for use in (open_trajectory, run):
                with pytest.raises(TrajectoryError, match=victim.name):
                    use(interrupted)
            assert victim.read_bytes() == damage
        victim.write_bytes(whole)
    run(out=interrupted)


def test_a_missing_part_is_an_error(interrupted):
    closed_parts(interrupted)[1].path.unlink()
    for use in (open_trajectory, run):
        with pytest.raises(TrajectoryError, match="a part is missing"):
            use(interrupted)


def test_parts_of_another_run_are_refused(interrupted):
    for amount, message in (
        ({"seed": 3}, "out: found .* with seed=0"),
        ({"steps": 10}, "steps: found 10, allowed is at l"),
    ):
        with pytest.raises(SettingsError, match=message):
            run(out=interrupted, **amount)


def test_parts_left_by_a_death_while_tidying_up_are_dropped_by_an_extension(interrupted, tmp_path):
    parts = {part.path: part.path.read_bytes() for part in closed_parts(interrupted)}
    run(out=interrupted).close()
    parts_folder(interrupted).mkdir()
    for path, content in parts.items():
        path.write_bytes(content)
    run(out=interrupted, steps=80)
    assert not parts_folder(interrupted).exists()
    run(out=tmp_path / "direct.nc", steps=80)
    assert same_file(interrupted, tmp_path / "direct.nc")


# -------------------------------------------------------------------------------------- replay and branch


def test_replay_gives_the_bits_of_the_original(tmp_path):
    original = run(out=tmp_path / "a.nc", every=10)
    full = run()
    for step, until in ((0, 60), (33, 41), (60, 60)):
        again = replay(tmp_path / "a.nc", 4, step, until)
        xr.testing.assert_equal(
            again.isel(run=0), full.isel(run=4).sel(step=slice(step, until)).assign(last_step=until)
        )
        assert again.attrs["branched_at"] == step
    xr.testing.assert_equal(
        replay(original, None, 20, 40, every=10)["embedding"], original["embedding"].sel(step=slice(20, 40))
    )
    xr.testing.assert_equal(replay(full, 2, 9, 12)["embedding"][0], full["embedding"][2].sel(step=slice(9, 12)))


def test_a_branch_is_the_same_run_with_other_settings_from_there_on(tmp_path):
    original = run(out=tmp_path / "a.nc")
    xr.testing.assert_equal(branch(original, 33)["embedding"], original["embedding"].sel(step=slice(33, None)))
    other = branch(original, 33, fa=0.5)
    xr.testing.assert_equal(other["embedding"].sel(step=33), original["embedding"].sel(step=33))
    assert not other["embedding"].sel(step=34).equals(original["embedding"].sel(step=34))
    assert '"fa": 0.5' in other.attrs["config_json"]
    recorder.save_trajectory(other, tmp_path / "b.nc")
    open_trajectory(tmp_path / "b.nc").close()
    for name, value in (("n", 9), ("bogus", 9), ("fa", -1)):
        with pytest.raises(SettingsError, match=f"{name}: found {value}"):
            branch(original, 3, **{name: value})


# ---------------------------------------------------------------------------------------------- refusals


@pytest.mark.parametrize(
    ("field", "value"),
    [
        *(("runs", value) for value in (0, -1, 10**9, 2.0, True)),
        *(("steps", value) for value in (-1, 10**17)),
        *(("device", value) for value in ("cuda", "gpu")),
        *(("out", value) for value in ("", ".", "a.png", "a" * 250 + ".nc")),
        *(("seed", -1), ("every", 0), ("record", "some")),
    ],
)
def test_invalid_arguments_are_refused_by_name(field, value):
    with pytest.raises(SettingsError) as error:
        run(**{field: value})
    assert error.value.field == field


@pytest.mark.parametrize(
    ("shape", "amount"),
    [
        ({"n": 100_000}, {}),
        ({"dim": 64, "n": 90_000}, {"runs": 10_000_000}),
        ({}, {"steps": 2**50}),
        ({}, {"steps": 2**50, "out": "a.nc"}),
        ({}, {"runs": 10_000_000}),
    ],
)
def test_ensembles_that_do_not_fit_are_refused_before_they_are_allocated(shape, amount):
    with pytest.raises(SettingsError, match="GiB"):
        simulate(ParticleSettings(**{"n": 7, **shape}), **{"runs": 5, **amount})


def test_a_schedule_of_a_longer_run_keeps_checkpoints_of_a_shorter_one():
    for steps in range(1, 300, 7):
        short, long = RecordingSchedule(steps, 3), RecordingSchedule(3 * steps, 3)
        kept = [step for step in range(steps) if long.keeps_checkpoint(step)]
        assert all(short.keeps_checkpoint(step) for step in kept)


def test_numpy_numbers_are_accepted():
    assert same(run(runs=np.int64(6), steps=np.int32(60), seed=np.uint8(0)), run())


# ------------------------------------------------------------------------------- runs that were interrupted


def test_an_interrupted_run_can_be_finished_at_its_last_step_but_not_before(tmp_path):
    """The state at which it stopped had no frame; asked for exactly that many steps, it gets one."""
    path = tmp_path / "a.nc"
    stop_at(path, 30, every=7, steps=1000)
    before = [part.path.read_bytes() for part in closed_parts(path)]
    with pytest.raises(SettingsError, match="steps: found 29, allowed is at least 30"):
        run(out=path, every=7, steps=29)
    assert [part.path.read_bytes() for part in closed_parts(path)] == before
    run(out=path, every=7, steps=30)
    xr.testing.assert_equal(open_trajectory(path), run(every=7, steps=30))


def test_an_extension_that_was_interrupted_beyond_what_is_asked_is_refused(tmp_path):
    path = tmp_path / "a.nc"
    run(out=path, steps=20, every=7)
    stop_at(path, 30, every=7, steps=1000)
    with pytest.raises(SettingsError, match="steps: found 25, allowed is at least 30"):
        run(out=path, every=7, steps=25)
    assert same(run(out=path, every=7, steps=20), run(every=7, steps=20))
    run(out=path, every=7)
    run(out=tmp_path / "b.nc", every=7)
    with open_trajectory(path) as a, open_trajectory(tmp_path / "b.nc") as b:
        assert same(a, b)


def stop_at(path, step, **amount):
    """Run until a signal comes at a step."""
    with interrupt_at(ParticleSystem, step) as stopped:
        run(out=path, **amount)
    assert stopped.value.step == step


def test_parts_are_kept_if_their_merge_would_be_incomplete(interrupted):
    """A part copied under the next one's name continues the chain of names, and nothing else."""
    last = closed_parts(interrupted)[-1]
    copy = last.path.with_name(part_file_name(last.end, 2 * last.end - last.begin))
    copy.write_bytes(last.path.read_bytes())
    before = sorted(parts_folder(interrupted).iterdir())
    with pytest.raises(TrajectoryError, match="ends at step"):
        run(out=interrupted)
    assert sorted(parts_folder(interrupted).iterdir()) == before
    copy.unlink()
    run(out=interrupted)


def test_a_part_of_another_run_is_not_merged(interrupted, tmp_path):
    with interrupt_at(ParticleSystem, 40):
        simulate(ParticleSettings(n=7, fa=0.5), runs=6, steps=60, out=tmp_path / "other.nc")
    closed_parts(interrupted)[0].path.write_bytes(closed_parts(tmp_path / "other.nc")[0].path.read_bytes())
    for use in (run, open_trajectory):
        with pytest.raises((TrajectoryError, SettingsError), match="another run|fa=0.5|ends at step"):
            use(interrupted)


def test_other_files_among_the_parts_are_left_alone(interrupted):
    others = [parts_folder(interrupted) / name for name in ("notes.txt", "part-copy (1).nc")]
    for path in others:
        path.write_text("mine")
    run(out=interrupted)
    assert [path.read_text() for path in others] == ["mine", "mine"]


def test_a_run_is_not_written_over_the_file_it_begins_from(tmp_path):
    path = tmp_path / "a.nc"
    run(out=path).close()
    before = path.read_bytes()
    own = ParticleSettings(n=7, start=str(path), start_step=-1)
    for overwrite in (True, False):
        with pytest.raises(SettingsError, match="another file than the one that this run begins from"):
            simulate(own, runs=6, steps=5, out=path, overwrite=overwrite)
    assert path.read_bytes() == before


def test_overwrite_removes_nothing_before_the_new_run_can_begin(tmp_path):
    path, other = tmp_path / "a.nc", tmp_path / "b.nc"
    run(out=path).close()
    run(out=other).close()
    wrong = ParticleSettings(n=6, start=str(other))
    before = path.read_bytes()
    with pytest.raises(SettingsError, match="start"):
        simulate(wrong, runs=6, steps=5, out=path, overwrite=True)
    assert path.read_bytes() == before


def test_parts_are_removed_only_by_overwrite(interrupted, tmp_path):
    with pytest.raises(RecordingError, match="exists already"):
        recorder.save_trajectory(run(), interrupted)
    assert parts_folder(interrupted).exists()
    run(out=interrupted, overwrite=True, steps=10)
    assert not parts_folder(interrupted).exists()
    assert same(open_trajectory(interrupted), run(steps=10))


def test_a_selection_is_replayed_by_its_seeds(tmp_path):
    full = run(out=tmp_path / "a.nc")
    chosen = full.isel(run=[4, 1])
    xr.testing.assert_equal(
        replay(chosen, 0, 30, 35)["embedding"], full["embedding"].isel(run=[4]).sel(step=slice(30, 35))
    )
    xr.testing.assert_equal(replay(chosen, None, 30, 35)["embedding"], chosen["embedding"].sel(step=slice(30, 35)))
    metrics = run(out=tmp_path / "m.nc", record="metrics")
    np.testing.assert_array_equal(final_embedding(metrics.isel(run=[4, 1])), final_embedding(chosen))


def test_a_saved_selection_or_branch_is_not_taken_for_the_run(tmp_path):
    full = run(out=tmp_path / "a.nc")
    recorder.save_trajectory(full.isel(run=[2, 4]), tmp_path / "selection.nc")
    recorder.save_trajectory(branch(full, 0, fa=1.0), tmp_path / "branch.nc")
    with pytest.raises(SettingsError, match="out: found .*selection or a branch"):
        run(out=tmp_path / "selection.nc")
    with pytest.raises(SettingsError, match="out: found"):
        simulate(ParticleSettings(n=7, fa=1.0), runs=6, steps=60, out=tmp_path / "branch.nc")
    for name in ("selection.nc", "branch.nc"):
        with pytest.raises(TrajectoryError, match="no restart states"):
            replay(tmp_path / name, 0, 1, 2)
    with pytest.raises(RecordingError, match="exists already"):
        recorder.save_trajectory(full, tmp_path / "a.nc")


def test_another_process_that_finishes_first_is_noticed_under_the_lock(tmp_path, monkeypatch):
    path = tmp_path / "a.nc"
    run(out=path, steps=80)
    monkeypatch.setattr(loop, "find_finished_run", lambda *_: None)  # what it saw before the lock
    with pytest.raises(SettingsError, match="steps: found 60, allowed is at least 80"):
        run(out=path)
    with pytest.raises(SettingsError, match="out: found"):
        run(out=path, seed=5)


def test_a_finished_run_in_a_folder_that_cannot_be_written_is_read(tmp_path, monkeypatch):
    path = tmp_path / "a.nc"
    run(out=path).close()
    monkeypatch.setattr("dynamics.trajectory.recorder.trajectory_lock", None)  # nothing may be locked
    monkeypatch.setattr(loop, "check_resources", None)  # nor measured
    run(out=path)


def test_long_stretches_between_frames_have_checkpoints_and_parts(tmp_path, monkeypatch):
    monkeypatch.setattr(recorder, "PART_SECONDS", 0.0)
    stop_at(tmp_path / "a.nc", 777, every=1000, steps=1000)
    assert len(closed_parts(tmp_path / "a.nc")) > 5
    run(out=tmp_path / "a.nc", every=1000, steps=1000)
    run(out=tmp_path / "b.nc", every=1000, steps=1000)
    assert same_file(tmp_path / "a.nc", tmp_path / "b.nc")
    assert 10 < checkpoints(tmp_path / "a.nc").sizes["checkpoint"] <= 22


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


def test_a_dataset_never_reads_the_numbers_of_a_file_that_took_its_name(tmp_path):
    """xarray closes files that have long not been used, and opens them again by name."""
    old = run(out=tmp_path / "a.nc")
    run(out=tmp_path / "a.nc", seed=3, overwrite=True)
    old._close = None
    FILE_CACHE.clear()
    with pytest.raises(TrajectoryError, match="has been overwritten since it was opened"):
        old["embedding"].load()
    with pytest.raises(TrajectoryError, match="the file no longer contains a run of seed 0"):
        replay(old, 0, 10, 20)
    simulate(ParticleSettings(n=7, fa=0.5), runs=6, steps=60, out=tmp_path / "a.nc", overwrite=True)
    with pytest.raises(TrajectoryError, match="another run has been written there"):
        replay(old, 0, 10, 20)


def test_a_dataset_can_be_pickled(tmp_path):
    sent = pickle.loads(pickle.dumps(run(out=tmp_path / "a.nc")))  # in memory, never from a file
    assert same(sent, run())


def test_the_end_of_metrics_alone_is_replayed_where_no_restart_state_is_at_it(tmp_path):
    run(out=tmp_path / "m.nc", record="metrics", steps=300)
    view = run(out=tmp_path / "m.nc", record="metrics", steps=31)
    np.testing.assert_array_equal(final_embedding(view), run(steps=31)["embedding"][:, -1])


def test_parts_of_another_run_beside_a_finished_one_are_not_removed(interrupted, tmp_path):
    other = ParticleSettings(n=7, fa=0.5)
    simulate(other, runs=6, steps=60, out=tmp_path / "b.nc").close()
    (tmp_path / "b.nc").replace(interrupted)
    before = closed_parts(interrupted)
    simulate(other, runs=6, steps=60, out=interrupted)
    assert closed_parts(interrupted) == before
    with pytest.raises(SettingsError, match="out: found"):
        simulate(other, runs=6, steps=80, out=interrupted)
    assert closed_parts(interrupted) == before


def test_a_branch_after_a_divergence_is_a_trajectory(diverging, tmp_path):
    original = simulate(diverging, runs=2, steps=20, out=tmp_path / "a.nc")
    recorder.save_trajectory(branch(original, 10, fa=2.0), tmp_path / "b.nc")
    with open_trajectory(tmp_path / "b.nc") as found:
        assert found["last_step"].values.tolist() == [20, 0]


def test_a_file_named_like_the_folder_of_parts_is_an_error(tmp_path):
    parts_folder(tmp_path / "a.nc").write_text("mine")
    with pytest.raises(RecordingError, match="is a file, expected a folder"):
        run(out=tmp_path / "a.nc")


@pytest.mark.parametrize("name", ["a.nc", "*.nc"])
def test_temporary_files_of_other_writers_are_left_alone(name, tmp_path):
    theirs = [tmp_path / f".{other}.12.34.tmp" for other in ("other.nc", f"{name}.b.nc")]
    ours = tmp_path / f".{name}.12.34.tmp"
    for path in (*theirs, ours):
        path.touch()
    run(out=tmp_path / name)
    assert [path.exists() for path in (*theirs, ours)] == [True, True, False]


def test_one_run_without_its_dimension_is_refused(tmp_path):
    one = run(out=tmp_path / "a.nc", record="metrics").isel(run=3)
    for use in (lambda t: recorder.save_trajectory(t, "b.nc"), lambda t: replay(t, 0, 0, 1), final_embedding):
        with pytest.raises(TrajectoryError, match="dimension run"):
            use(one)


def test_a_path_that_cannot_exist_is_refused():
    for out in ("d" * 300 + "/x.nc", "é" * 120 + ".nc", "a\0b.nc"):
        with pytest.raises((SettingsError, RecordingError)):
            run(out=out)


def test_two_threads_write_two_files(tmp_path):
    def work(name):
        run(out=tmp_path / name, steps=200)
        return run(out=tmp_path / name, steps=200).load()

    with ThreadPoolExecutor(2) as pool:
        found = list(pool.map(work, ["a.nc", "b.nc", "c.nc", "d.nc"]))
    assert all(same(one, found[0]) for one in found)


# ------------------------------------------------------------------------------------------- divergence


@pytest.fixture
def diverging(tmp_path, generator):
    """Two runs of which the second's positions pass the limit at the first step."""
    x = generator.standard_normal((2, 5, 2))
    x[1] *= 9e37 / np.abs(x[1]).max()
    x -= x.mean(axis=1, keepdims=True)
    np.save(tmp_path / "x.npy", x)
    return ParticleSettings(n=5, variance="none", start=str(tmp_path / "x.npy"))


def test_a_diverged_run_is_marked_masked_and_left_out(diverging, tmp_path):
    trajectory = simulate(diverging, runs=2, steps=30, out=tmp_path / "a.nc")
    assert trajectory["status"].values.tolist() == [DONE, DIVERGED]
    assert trajectory["last_step"].values.tolist() == [30, 0]
    assert (trajectory["embedding"][1] == trajectory["embedding"][1, 0]).all()
    assert final_embedding(trajectory)["seed"].values.tolist() == [0]
    measured = grid_imperfections(trajectory)
    assert measured[0].notnull().all()
    assert measured[1, 0].notnull()
    assert measured[1, 1:].isnull().all()
    xr.testing.assert_equal(truncate_trajectory(trajectory, 0).load(), simulate(diverging, runs=2, steps=0))


def test_a_diverged_run_survives_parts_and_extension(diverging, tmp_path, monkeypatch):
    simulate(diverging, runs=2, steps=30, out=tmp_path / "a.nc").close()
    monkeypatch.setattr(recorder, "PART_BYTES", 2000)
    extended = simulate(diverging, runs=2, steps=60, out=tmp_path / "a.nc")
    assert same(extended, simulate(diverging, runs=2, steps=60))


# ------------------------------------------------------------------------------- links and folders as --out


def test_the_target_of_a_link_is_written_and_the_link_stays(tmp_path):
    (tmp_path / "data").mkdir()
    link, target = tmp_path / "a.nc", tmp_path / "data" / "b.nc"
    link.symlink_to("data/b.nc")  # to a file that does not exist yet
    stop_at(link, 30)
    assert closed_parts(link) == closed_parts(target) != []
    assert open_trajectory(link).attrs["steps"] == 60
    with trajectory_lock(target), pytest.raises(RecordingError, match="another process"):
        run(out=link)
    run(out=link).close()
    run(out=link, steps=80).close()
    assert link.is_symlink()
    assert same(open_trajectory(target), run(steps=80))
    with pytest.raises(RecordingError, match="exists already"):
        recorder.save_trajectory(run(), link)
    run(out=link, overwrite=True, steps=3).close()
    assert link.is_symlink()
    assert open_trajectory(target).sizes["step"] == 4


@pytest.mark.parametrize("out", ["folder.nc", "new.nc/", "file.txt/a.nc", "/proc/a.nc", "/proc/new/a.nc", "loop.nc"])
def test_a_place_where_nothing_can_be_written_is_refused_at_once(out, tmp_path, monkeypatch):
    (tmp_path / "folder.nc").mkdir()
    (tmp_path / "file.txt").touch()
    (tmp_path / "loop.nc").symlink_to("loop.nc")
    monkeypatch.setattr(ParticleSystem, "initial", None)  # nothing is computed
    with pytest.raises(SettingsError, match="out: found"):
        run(out=out)
