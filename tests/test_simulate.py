"""The loop: what it records, where runs live, and how they are found, extended, replayed and branched."""

import dataclasses

import numpy as np
import pytest
import xarray as xr

from dynamics import recorder
from dynamics.recorder import Schedule, lock_of
from dynamics.settings import ParticleSettings, SettingsError
from dynamics.simulate import branch, replay, run_path, simulate
from dynamics.storage import RecordingError, TrajectoryError
from dynamics.trajectory import checkpoints, open_trajectory, part_files, parts_folder

SETTINGS = ParticleSettings(n=7, fa=2.0)


def run(out=None, **changes):
    return simulate(SETTINGS, **{"runs": 6, "steps": 60, "progress": False, "out": out, **changes})


def same(a: xr.Dataset, b: xr.Dataset) -> bool:
    """Whether two trajectories are equal in every bit; when and where they were made may differ."""
    ignored = ("created_at", "git_commit", "threads")
    a, b = (data.assign_attrs(dict.fromkeys(ignored, "")) for data in (a, b))
    return a.load().identical(b.load())


def same_file(a, b) -> bool:
    with open_trajectory(a) as one, open_trajectory(b) as other, checkpoints(a) as states, checkpoints(b) as others:
        return same(one, other) and states.load().identical(others.load())


@pytest.fixture
def small_parts(monkeypatch):
    monkeypatch.setattr(recorder, "PART_BYTES", 6 * 7 * 2 * 8 * 9)


def test_without_out_nothing_is_written(tmp_path):
    run()
    assert list(tmp_path.iterdir()) == []


def test_what_is_recorded(tmp_path):
    trajectory = run(steps=10, every=4)
    assert trajectory["step"].values.tolist() == [0, 4, 8, 10]
    assert (trajectory["update_norm"].sel(step=0) == 0).all()
    full = run(steps=10)
    xr.testing.assert_equal(full.sel(step=[0, 4, 8, 10]), trajectory)
    np.testing.assert_array_equal(full["gradient_norm"].sel(step=0), full["gradient_norm"].sel(step=1))
    moved = np.sqrt((full["embedding"].diff("step") ** 2).sum(["token", "axis"])).transpose("run", "step")
    np.testing.assert_allclose(full["update_norm"].isel(step=slice(1, None), layer=0), moved, rtol=1e-4)


def test_zero_steps():
    assert run(steps=0)["step"].values.tolist() == [0]


def test_memory_and_file_hold_the_same(tmp_path):
    assert same(run(), run(out=tmp_path / "a.nc"))


def test_run_4_of_6_alone(tmp_path):
    alone, among = run(runs=1, seed=4), run()
    xr.testing.assert_equal(alone.isel(run=0), among.isel(run=4))


def test_a_run_in_parts_is_the_run_at_once(tmp_path, small_parts):
    run(out=tmp_path / "parts.nc")
    assert not parts_folder(tmp_path / "parts.nc").exists()
    recorder.PART_BYTES = 1 << 30
    run(out=tmp_path / "whole.nc")
    assert same_file(tmp_path / "parts.nc", tmp_path / "whole.nc")


@pytest.mark.parametrize(("short", "every"), [(25, 1), (25, 4), (59, 7), (0, 1), (60, 1)])
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
    assert same(run(out=path, steps=20).drop_attrs(), run(steps=60).sel(step=slice(0, 20)).drop_attrs())


def test_fewer_steps_than_there_are_must_be_recorded(tmp_path):
    run(out=tmp_path / "a.nc", every=7)
    with pytest.raises(SettingsError, match="steps: found 20"):
        run(out=tmp_path / "a.nc", every=7, steps=20)


@pytest.mark.parametrize("change", [{"runs": 5}, {"seed": 1}, {"every": 2}, {"record": "metrics"}])
def test_a_file_of_another_run_is_refused(tmp_path, change):
    path = tmp_path / "a.nc"
    run(out=path).close()
    before = path.read_bytes()
    with pytest.raises(SettingsError, match=f"out: found .*a.nc with {next(iter(change))}="):
        run(out=path, **change)
    with pytest.raises(SettingsError, match="out: found .*a.nc with fa=2.0"):
        simulate(ParticleSettings(n=7, fa=1.0), runs=6, steps=60, out=path, progress=False)
    assert path.read_bytes() == before
    run(out=path, overwrite=True, **change)


def test_a_damaged_file_is_never_written_over_unasked(tmp_path):
    path = tmp_path / "a.nc"
    path.write_bytes(b"precious")
    with pytest.raises(TrajectoryError):
        run(out=path)
    assert path.read_bytes() == b"precious"
    run(out=path, overwrite=True)


def test_where_a_run_lives_depends_on_all_that_defines_it_and_not_on_steps():
    base = {"settings": SETTINGS, "runs": 5, "seed": 0}
    changes = [{}, {"settings": ParticleSettings(n=7)}, {"runs": 6}, {"seed": 1}, {"every": 3}, {"record": "metrics"}]
    paths = [run_path(**{**base, **change}) for change in changes]
    assert len(set(paths)) == len(paths)
    assert run_path(**base, every=1) == paths[0]
    assert all(path.parent.name == "runs" and path.name.startswith("particles-") for path in paths)


def test_a_second_writer_is_refused(tmp_path):
    path = tmp_path / "a.nc"
    with lock_of(path), pytest.raises(RecordingError, match="another process is writing it"):
        run(out=path)
    run(out=path)


# ------------------------------------------------------------------------------------ damage between parts


@pytest.fixture
def interrupted(tmp_path, small_parts, monkeypatch):
    """A run that died after some parts, and the file it should become."""
    path = tmp_path / "a.nc"
    real = recorder.FileRecorder.add

    def add(self, state, *rest):
        if state.step == 40:
            raise MemoryError
        real(self, state, *rest)

    with monkeypatch.context() as patch, pytest.raises(MemoryError):
        patch.setattr(recorder.FileRecorder, "add", add)
        run(out=path)
    assert len(part_files(path)) >= 3
    return path


def test_parts_of_an_unfinished_run_are_a_trajectory(interrupted):
    with open_trajectory(interrupted) as partial:
        reached = int(partial["step"][-1])
        assert 30 <= reached < 40
        assert (partial["status"] == 0).all()
        assert (partial["last_step"] == reached).all()
        xr.testing.assert_equal(
            partial[["embedding", "update_norm"]], run().sel(step=slice(0, reached))[["embedding", "update_norm"]]
        )


def test_it_goes_on_to_the_same_bits(interrupted, tmp_path):
    run(out=interrupted)
    run(out=tmp_path / "direct.nc")
    assert same_file(interrupted, tmp_path / "direct.nc")


def test_a_damaged_part_is_an_error_and_stays(interrupted):
    for victim in (part_files(interrupted)[0], part_files(interrupted)[-1]):
        whole = victim.read_bytes()
        for damage in (whole[: len(whole) // 2], whole[:99] + bytes([whole[99] ^ 4]) + whole[100:], b""):
            victim.write_bytes(damage)
            with pytest.raises(TrajectoryError, match=victim.name):
                open_trajectory(interrupted)
            with pytest.raises(TrajectoryError, match=victim.name):
                run(out=interrupted)
            assert victim.read_bytes() == damage
        victim.write_bytes(whole)
    run(out=interrupted)


def test_a_missing_part_is_an_error(interrupted):
    part_files(interrupted)[1].unlink()
    with pytest.raises(TrajectoryError, match="a part is missing"):
        run(out=interrupted)


def test_parts_of_another_run_are_refused(interrupted):
    with pytest.raises(SettingsError, match="out: found .* with seed=0"):
        run(out=interrupted, seed=3)
    with pytest.raises(SettingsError, match="steps: found 10, allowed is at least"):
        run(out=interrupted, steps=10)


@pytest.mark.parametrize("steps", [60, 80])
def test_parts_left_behind_by_a_death_while_tidying_up_are_dropped(interrupted, tmp_path, steps):
    parts = {part.name: part.read_bytes() for part in part_files(interrupted)}
    run(out=interrupted).close()
    parts_folder(interrupted).mkdir()
    for name, content in parts.items():
        (parts_folder(interrupted) / name).write_bytes(content)
    run(out=interrupted, steps=steps)
    assert not parts_folder(interrupted).exists()
    run(out=tmp_path / "direct.nc", steps=steps)
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


def test_replay_of_what_was_never_written(tmp_path):
    full = run()
    xr.testing.assert_equal(replay(full, 2, 9, 12)["embedding"][0], full["embedding"][2].sel(step=slice(9, 12)))


def test_a_branch_without_a_change_is_the_original(tmp_path):
    original = run(out=tmp_path / "a.nc")
    xr.testing.assert_equal(branch(original, 33)["embedding"], original["embedding"].sel(step=slice(33, None)))


def test_a_branch_is_the_same_run_with_other_settings_from_there_on(tmp_path):
    original = run(out=tmp_path / "a.nc")
    other = branch(original, 33, fa=0.5)
    xr.testing.assert_equal(other["embedding"].sel(step=33), original["embedding"].sel(step=33))
    assert not other["embedding"].sel(step=34).equals(original["embedding"].sel(step=34))
    assert '"fa": 0.5' in other.attrs["config_json"]
    recorder.save(other, tmp_path / "b.nc")
    open_trajectory(tmp_path / "b.nc").close()


def test_a_branch_cannot_change_the_shape_of_the_state(tmp_path):
    original = run(out=tmp_path / "a.nc")
    with pytest.raises(SettingsError, match="n: found"):
        branch(original, 3, n=9)
    with pytest.raises(SettingsError, match="bogus"):
        branch(original, 3, bogus=9)
    with pytest.raises(SettingsError, match="fa: found -1"):
        branch(original, 3, fa=-1)


# ---------------------------------------------------------------------------------------------- refusals


@pytest.mark.parametrize(
    ("field", "value"),
    [
        ("runs", 0),
        ("runs", -1),
        ("runs", 10**9),
        ("runs", 2.0),
        ("seed", -1),
        ("steps", -1),
        ("steps", 10**17),
        ("every", 0),
        ("record", "some"),
        ("device", "cuda"),
        ("device", "gpu"),
    ],
)
def test_nonsense_is_refused_by_name(field, value):
    with pytest.raises(SettingsError) as error:
        run(**{field: value})
    assert error.value.field == field


@pytest.mark.parametrize(
    ("settings", "amount"),
    [
        (ParticleSettings(n=100_000), {}),
        (ParticleSettings(dim=1000, n=90_000), {"runs": 10_000_000}),
        (SETTINGS, {"steps": 2**50}),
        (SETTINGS, {"steps": 2**50, "out": "a.nc"}),
        (SETTINGS, {"runs": 10_000_000}),
    ],
)
def test_what_cannot_fit_is_refused_before_it_is_allocated(settings, amount):
    with pytest.raises(SettingsError, match="GiB"):
        simulate(settings, **{"runs": 5, "progress": False, **amount})


def test_a_schedule_of_a_longer_run_keeps_checkpoints_of_a_shorter_one():
    for steps in range(1, 300, 7):
        short, long = Schedule(steps, 3), Schedule(3 * steps, 3)
        kept = [step for step in range(steps) if long.keeps_checkpoint(step)]
        assert all(short.keeps_checkpoint(step) for step in kept)
        assert all(short.records(step) for step in kept)


def test_a_system_from_outside_goes_through_the_loop(monkeypatch):
    """The protocol is all that the loop knows: a system with its own settings needs no change anywhere."""
    from dynamics import simulate as loop
    from dynamics.particles import ParticleSystem
    from dynamics.settings import SETTINGS as KNOWN

    @dataclasses.dataclass(frozen=True)
    class DriftSettings(ParticleSettings):
        system = "drift"

    class DriftSystem(ParticleSystem):
        pass

    monkeypatch.setattr(loop, "SYSTEMS", dict(loop.SYSTEMS))
    monkeypatch.delitem(KNOWN, "drift", raising=False)
    loop.register(DriftSettings, DriftSystem)
    try:
        trajectory = simulate(DriftSettings(n=3), runs=2, steps=3, out="drift.nc", progress=False)
        assert trajectory.attrs["system"] == "drift"
    finally:
        del KNOWN["drift"]
