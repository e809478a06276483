"""Runs that end at a condition, in comparison with the same runs without it."""

import dataclasses
import os
import signal
from pathlib import Path

import numpy as np
import pytest
from hypothesis import HealthCheck, given, settings, strategies
from numpy.testing import assert_array_equal

import dynamics.loop
from analysis import circles
from docs.momentum import MomentumSettings, MomentumSystem
from dynamics import (
    Ensemble,
    Interrupted,
    ModularSettings,
    ParticleSettings,
    SettingsError,
    SparseSettings,
    TransformerSettings,
    branch,
    branch_copies,
    final_embedding,
    not_diverged,
    open_trajectory,
    register,
    register_condition,
    replay,
    run_path,
    simulate,
    truncate_trajectory,
)
from dynamics.sweeps import sweep
from dynamics.trajectory.schema import DIVERGED, DONE, STOPPED

SYSTEMS = {
    "particles": (ParticleSettings(n=7), "auto"),
    "noise": (ParticleSettings(n=7, temperature=0.01), "auto"),
    "mesh": (ParticleSettings(n=7, method="mesh"), "auto"),
    "momentum": (MomentumSettings(n=7), "auto"),
    "simd": (ModularSettings(n=7, hidden=5), "simd"),
    "blas": (ModularSettings(n=7, hidden=5), "blas"),
    "scheduled": (ModularSettings(n=7, hidden=5, schedule="cosine:30"), "simd"),
    "sparse": (SparseSettings(length=4, sparsity=2, data=32, batch=8), "auto"),
    "transformer": (TransformerSettings(n=5, dim=4, heads=2, hidden=6), "auto"),
}


@pytest.fixture(autouse=True)
def registered(restored_registries):
    """The system of the guide is registered, whatever other tests have done."""
    register(MomentumSettings, MomentumSystem)


AMOUNT = {"runs": 7, "steps": 24, "every": 3, "seed": 2, "progress": False}


def numbers_of(trajectory, name):
    """A recorded number of each run and frame, by its name in a condition."""
    variable, _, entry = name.partition(".")
    values = trajectory[variable].transpose("run", "step", ...)
    dim = values.dims[-1]
    return values.sel({dim: entry}).values if entry else values.values


def assert_same_until_the_end(stopped, plain):
    """Frames up to last_step are those of the run without a condition, bit for bit, and
    later ones repeat the last."""
    steps = stopped["step"].values
    assert_array_equal(steps, plain["step"].values[: len(steps)])
    for name, values in plain.data_vars.items():
        if "step" not in values.dims:
            continue
        expected = values.transpose("run", "step", ...).values[:, : len(steps)].copy()
        for run in np.flatnonzero(stopped["status"].values == STOPPED):
            last = stopped["last_step"].values[run]
            at = int(np.searchsorted(steps, last, side="right")) - 1
            expected[run, at:] = expected[run, at]
        found = stopped[name].transpose("run", "step", ...).values
        assert_array_equal(found, expected, str(name))


def expected_ends(plain, holds):
    """`last_step` and `status` of runs that end at the first frame of (run, frame)
    booleans, as a plain loop finds them."""
    steps = plain["step"].values
    lasts, statuses = [], []
    for run, row in enumerate(holds):
        last, status = plain["last_step"].values[run], plain["status"].values[run]
        for frame, step in enumerate(steps):
            if step > plain["last_step"].values[run]:
                break
            if row[frame]:
                last, status = step, STOPPED
                break
        lasts.append(last)
        statuses.append(status)
    return np.array(lasts), np.array(statuses)


@pytest.fixture(params=SYSTEMS)
def example(request):
    """A system, its backend, its runs without a condition, and a condition at which
    about half of the runs end."""
    config, backend = SYSTEMS[request.param]
    plain = simulate(config, backend=backend, **AMOUNT)
    layer = str(plain["layer"].values[0])
    name = "loss.train" if "loss" in plain else f"gradient_norm.{layer}"
    values = numbers_of(plain, name)
    threshold = float(np.median(values.min(axis=1)))
    return config, backend, plain, name, threshold


def test_frames_up_to_the_stop_are_those_of_the_plain_run(example):
    config, backend, plain, name, threshold = example
    condition = f"{name} <= {threshold!r}"
    stopped = simulate(config, backend=backend, until=condition, **AMOUNT)
    holds = numbers_of(plain, name) <= np.float32(threshold)
    last, status = expected_ends(plain, holds)
    assert_array_equal(stopped["last_step"], last)
    assert_array_equal(stopped["status"], status)
    assert 0 < (status == STOPPED).sum() < len(status)
    assert_same_until_the_end(stopped, plain)
    assert stopped.attrs["until"] == condition


def test_it_is_interrupted_continued_and_extended(example, monkeypatch):
    config, backend, _, name, threshold = example
    condition = f"{name} <= {threshold!r}"
    options = {**AMOUNT, "backend": backend, "until": condition}
    whole = simulate(config, out="a.nc", **options)
    simulate(config, out="b.nc", **{**options, "steps": 10}).close()
    longer = simulate(config, out="b.nc", **options)
    for variable in ("status", "last_step", "gradient_norm"):
        assert_array_equal(longer[variable], whole[variable])
    measure = dynamics.loop.StepPacer.measure

    def interrupt(self, remaining):
        os.kill(os.getpid(), signal.SIGTERM)
        return measure(self, remaining)

    with monkeypatch.context() as patch:
        patch.setattr(dynamics.loop.StepPacer, "measure", interrupt)
        for _ in range(2):
            with pytest.raises(Interrupted):
                simulate(config, out="c.nc", **options)
    again = simulate(config, out="c.nc", **options)
    for variable in ("status", "last_step", "gradient_norm"):
        assert_array_equal(again[variable], whole[variable])


def test_replay_and_branch_keep_the_stops(example):
    config, backend, plain, name, threshold = example
    condition = f"{name} <= {threshold!r}"
    options = {**AMOUNT, "backend": backend}
    stopped = simulate(config, out="a.nc", until=condition, **options)
    frames = replay("a.nc", None, 3, 24, every=1)
    assert_array_equal(frames["last_step"], stopped["last_step"])
    assert_array_equal(frames["status"], stopped["status"])
    part = frames.sel(step=stopped["step"].values[1:])
    assert_array_equal(part["gradient_norm"], stopped["gradient_norm"][:, 1:])
    early = stopped["last_step"].values < 12
    begun = branch("a.nc", 12, every=3)
    assert_array_equal(begun["status"], np.where(early, STOPPED, DONE))
    assert_array_equal(begun["last_step"][early], stopped["last_step"][early])
    rest = plain["gradient_norm"].sel(step=slice(12, None)).values
    assert_array_equal(begun["gradient_norm"].values[~early], rest[~early])
    same = branch("a.nc", 12, every=3, condition=condition, out="b.nc")
    assert_array_equal(same["last_step"], stopped["last_step"])
    assert_array_equal(same["status"], stopped["status"])
    assert same.attrs["until"] == condition
    with pytest.raises(SettingsError, match="until="):
        branch("a.nc", 12, every=3, out="b.nc")


def test_a_run_begins_again_where_it_has_stopped():
    """A branch at the step of the stop goes on beyond it."""
    plain = simulate(ParticleSettings(n=7), **AMOUNT)
    norms = numbers_of(plain, "gradient_norm.embedding")
    condition = f"gradient_norm.embedding <= {float(norms[0, 4])!r}"
    for out in (None, "a.nc"):
        stopped = simulate(ParticleSettings(n=7), until=condition, out=out, **AMOUNT)
        last = int(stopped["last_step"][0])
        begun = branch(stopped, last, run=0, until=24)
        rest = plain["embedding"].sel(step=slice(last, None)).values[0]
        assert_array_equal(begun["embedding"].values[0], rest)


def test_the_loop_ends_when_no_run_is_left():
    config = ParticleSettings(n=7)
    frames = []

    def third(frame):
        frames.append(len(frames))
        return np.full(len(frame["embedding"]), len(frames) >= 3)

    stopped = simulate(config, until=third, **AMOUNT)
    assert stopped["step"].values.tolist() == [0, 3, 6]
    assert (stopped["status"] == STOPPED).all()
    assert stopped.attrs["steps"] == 6
    condition = "gradient_norm.embedding > 0"
    for steps in (24, 100, 0):
        options = {**AMOUNT, "steps": steps, "out": "a.nc", "until": condition}
        before = os.stat("a.nc").st_mtime_ns if os.path.exists("a.nc") else None
        whole = simulate(config, **options)
        assert whole["step"].values.tolist() == [0]
        assert before in (None, os.stat("a.nc").st_mtime_ns)  # found, not computed


def test_the_last_step_off_the_grid_is_not_tested():
    """What ends does not depend on the number of steps that are computed."""
    config = ParticleSettings(n=7)
    condition = "gradient_norm.embedding <= 20"
    options = {**AMOUNT, "every": 10, "until": condition}
    for steps in (7, 15, 30):
        part = simulate(config, out="a.nc", **{**options, "steps": steps})
        tested = part["step"].values % 10 == 0
        ends = part["last_step"].values[part["status"].values == STOPPED]
        assert set(ends) <= set(part["step"].values[tested])
    whole = simulate(config, **{**options, "steps": 30})
    assert_array_equal(part["last_step"], whole["last_step"])


def test_a_diverged_run_does_not_stop_and_ends_the_loop_with_the_others():
    config = SparseSettings(
        length=4, sparsity=2, data=32, batch=8, optimizer="sgd", lr=1e6
    )
    amount = {**AMOUNT, "runs": 12, "steps": 200, "every": 5}
    plain = simulate(config, **amount)
    assert (plain["status"] == DIVERGED).any()
    losses = numbers_of(plain, "loss.train")
    for rank in (0.5, 0.0):
        threshold = float(np.quantile(losses[:, :2].min(axis=1), rank))
        until = f"loss.train <= {threshold!r}"
        stopped = simulate(config, until=until, **amount)
        last, status = expected_ends(plain, losses <= np.float32(threshold))
        assert_array_equal(stopped["last_step"], last)
        assert_array_equal(stopped["status"], status)
        assert_same_until_the_end(stopped, plain)


def test_nan_is_never_true():
    config = ParticleSettings(n=7)
    for relation in ("<", ">", "<=", ">="):

        def values(frame):
            return np.full(len(frame["embedding"]), 1.0)

        def test(frame, relation=relation):
            nan = np.full(len(frame["embedding"]), np.nan)
            return {"<": nan < 0, ">": nan > 0, "<=": nan <= 0, ">=": nan >= 0}[
                relation
            ]

        assert (simulate(config, until=test, **AMOUNT)["status"] == DONE).all()


@settings(
    max_examples=25,
    deadline=None,
    suppress_health_check=[HealthCheck.function_scoped_fixture],
)
@given(
    relation=strategies.sampled_from(["<", ">", "<=", ">="]),
    every=strategies.integers(1, 7),
    steps=strategies.integers(0, 20),
    rank=strategies.floats(0, 1),
    subset=strategies.integers(0, 4),
)
def test_any_comparison_ends_runs_as_a_plain_loop(relation, every, steps, rank, subset):
    config = ParticleSettings(n=5)
    amount = {"runs": 5, "steps": steps, "every": every, "progress": False}
    plain = simulate(config, **amount)
    norms = numbers_of(plain, "update_norm.embedding")
    threshold = float(np.quantile(norms, rank))
    compare = {
        "<": np.less,
        ">": np.greater,
        "<=": np.less_equal,
        ">=": np.greater_equal,
    }
    holds = compare[relation](norms, np.float32(threshold))
    holds[:, plain["step"].values % every > 0] = False
    condition = f"update_norm.embedding {relation} {threshold!r}"
    stopped = simulate(config, until=condition, **amount)
    last, status = expected_ends(plain, holds)
    assert_array_equal(stopped["last_step"], last)
    assert_array_equal(stopped["status"], status)
    assert_same_until_the_end(stopped, plain)
    alone = simulate(config, until=condition, **{**amount, "runs": 1, "seed": subset})
    assert_array_equal(alone["last_step"][0], stopped["last_step"][subset])


def test_an_accuracy_is_compared_as_recorded():
    """.98 is the float32 value that is nearest to it, as 49 of 50 is recorded."""

    def share(frame):
        return np.full(len(frame["embedding"]), np.float32(0.98))

    for until, ends in (("share > .98", False), ("share >= .98", True)):
        found = simulate(
            ParticleSettings(n=5), observe={"share": share}, until=until, **AMOUNT
        )
        assert (found["status"] == STOPPED).all() == ends


def test_own_quantities_named_conditions_and_functions():
    config = ParticleSettings(n=5, fa=10.0)
    amount = {**AMOUNT, "steps": 80, "every": 8}
    plain = simulate(config, **amount)
    formed = circles(plain).values
    last, status = expected_ends(plain, formed)
    assert 0 < (status == STOPPED).sum() < len(status)

    def is_circle(frame):
        size = np.linalg.norm(frame["embedding"], axis=-1)
        return size.max(axis=1) < 1.2 * size.min(axis=1)

    def ratio(frame):
        size = np.linalg.norm(frame["embedding"], axis=-1)
        return size.max(axis=1) / size.min(axis=1)

    register_condition("round", lambda settings: is_circle)
    for options in (
        {"until": "circle"},
        {"until": "round"},
        {"until": is_circle},
        {"until": "ratio < 1.2", "observe": {"ratio": ratio}},
    ):
        found = simulate(config, **options, **amount)
        assert_array_equal(found["last_step"], last)
        assert_array_equal(found["status"], status)
        assert_same_until_the_end(found.drop_vars("ratio", errors="ignore"), plain)


def test_circles_of_a_transformer_leave_out_the_equals_token():
    config = TransformerSettings(n=5, dim=2, heads=1, hidden=4, equals_token=True)
    plain = simulate(config, runs=12, steps=6, every=1, progress=False)
    formed = circles(plain["embedding"].isel(token=slice(5))).values
    found = simulate(config, runs=12, steps=6, every=1, progress=False, until="circle")
    assert_array_equal(found["last_step"], expected_ends(plain, formed)[0])


def test_the_condition_is_part_of_the_identity():
    config = ParticleSettings(n=7)
    plain = run_path(config, 2, 0)
    texts = ("loss.train>1", "loss.train  >1.0", "loss.train > 2", "circle")
    paths = [run_path(config, 2, 0, until=text) for text in texts]
    assert paths[0] == paths[1]
    assert len({plain, *paths}) == 4

    def one(frame):
        return frame["update_norm"][:, 0] > 1

    def two(frame):
        return frame["update_norm"][:, 0] > 2

    assert run_path(config, 2, 0, until=one) != run_path(config, 2, 0, until=two)
    simulate(config, runs=2, steps=2, out="a.nc", until="circle").close()
    for until in (None, "gradient_norm.embedding > 1"):
        with pytest.raises(SettingsError, match="out: found"):
            simulate(config, runs=2, steps=2, out="a.nc", until=until)
    assert "until" not in Ensemble(config).identity
    assert (
        "until gradient"
        in Ensemble(config, until="gradient_norm.embedding>1").describe()
    )


@pytest.mark.parametrize(
    ("until", "told"),
    [
        ("accuracy.test > .9", "one of gradient_norm.embedding, update_norm.embedding"),
        ("gradient_norm > 1", "one of gradient_norm.embedding"),
        ("embedding > 1", "one of gradient_norm.embedding"),
        ("gradient_norm.embedding = 1", "NAME > NUMBER"),
        ("gradient_norm.embedding > x", "a finite number after >"),
        ("gradient_norm.embedding > nan", "a finite number after >"),
        ("gradient_norm.embedding > inf", "a finite number after >"),
        ("gradient_norm.embedding > 1 or circle", "NAME > NUMBER"),
        ("square", "circle"),
        ("", "NAME > NUMBER"),
        ("@", "NAME > NUMBER"),
        (3, "NAME > NUMBER"),
        (lambda frame: 3, "array of booleans"),
        (lambda frame: frame["embedding"] > 0, "array of booleans"),
        (lambda frame: frame["update_norm"][:, 0], "array of booleans"),
        (lambda frame: np.array([True]), "array of booleans"),
        (lambda frame: frame["loss"], "KeyError"),
        (lambda frame: frame["embedding"].fill(0), "read-only"),
    ],
)
def test_mistakes_are_one_clear_line(until, told):
    with pytest.raises(SettingsError, match=told) as error:
        simulate(ParticleSettings(n=7), out="a.nc", until=until, **AMOUNT)
    assert error.value.field == "until"
    assert "\n" not in str(error.value)
    assert not os.path.exists("a.nc")


def test_a_circle_needs_numbers():
    for config in (SparseSettings(), TransformerSettings(task="dihedral", n=5)):
        with pytest.raises(SettingsError, match="until: found circle"):
            simulate(config, runs=1, steps=1, until="circle")


def test_truncation_and_final_frames():
    config = ParticleSettings(n=7)
    norms = numbers_of(simulate(config, **AMOUNT), "gradient_norm.embedding")
    condition = f"gradient_norm.embedding <= {float(np.median(norms.min(axis=1)))!r}"
    stopped = simulate(config, until=condition, **AMOUNT)
    ends = stopped["last_step"].values
    is_stopped = stopped["status"].values == STOPPED
    for step in stopped["step"].values:
        cut = truncate_trajectory(stopped, int(step))
        assert_array_equal(cut["status"] == STOPPED, is_stopped & (ends <= step))
        assert_array_equal(cut["last_step"], np.minimum(ends, step))
    assert not_diverged(stopped).all()
    assert final_embedding(stopped).sizes["run"] == AMOUNT["runs"]
    metrics = simulate(config, until=condition, record="metrics", out="m.nc", **AMOUNT)
    assert_array_equal(final_embedding(metrics), final_embedding(stopped))
    assert not_diverged(metrics).all()


def test_copies_of_states_after_a_stop_have_stopped():
    config = ParticleSettings(n=7)
    norms = numbers_of(simulate(config, **AMOUNT), "gradient_norm.embedding")
    condition = f"gradient_norm.embedding <= {float(np.median(norms.min(axis=1)))!r}"
    stopped = simulate(config, until=condition, out="a.nc", **AMOUNT)
    plain = simulate(config, out="b.nc", **AMOUNT)
    steps = [3, 12, 18]
    found = branch_copies(stopped, steps, 2, 0.1, until=24, every=3)
    expected = branch_copies(plain, steps, 2, 0.1, until=24, every=3)
    ends = stopped["last_step"].values[found["of_run"]]
    is_past = ends < found["from_step"].values
    is_past &= stopped["status"].values[found["of_run"]] == STOPPED
    assert is_past.any()
    assert_array_equal(found["status"] == STOPPED, is_past)
    assert_array_equal(found["last_step"].values[is_past], ends[is_past])
    assert_array_equal(
        found["embedding"].values[~is_past], expected["embedding"].values[~is_past]
    )


def test_a_sweep_counts_the_stopped_runs(output_of):
    config = ModularSettings(n=5, hidden=4)
    options = {"runs": 4, "epochs": 40, "every": 10, "progress": False}
    plain = sweep(config, {"lr": [0.01, 0.1]}, folder="plain", **options)
    threshold = float(np.median(plain["lowest_loss"].sel(split="train")))
    condition = f"loss.train <= {threshold!r}"
    found = sweep(config, {"lr": [0.01, 0.1]}, folder="s", until=condition, **options)
    stopped = (found["status"] == STOPPED).sum("run").values
    assert 0 < stopped.sum() < 8
    words = "modular --n 5 --hidden 4 --lr .01 .1 --runs 4 --epochs 40 --every 10"
    command = f"sims.sweep {words} --folder s --csv t.csv"
    output_of(command, "--until", condition)
    lines = Path("t.csv").read_text().splitlines()
    header, *rows = [line.split(",") for line in lines]
    at = header.index("stopped")
    assert [int(row[at]) for row in rows] == stopped.tolist()


def test_commands_report_the_stopped_runs(output_of):
    words = "--n 7 --runs 6 --steps 40 --every 4"
    condition = "gradient_norm.embedding < 20"
    text = output_of(f"sims.particles {words} --out a.nc", "--until", condition)
    trajectory = open_trajectory("a.nc")
    count = int((trajectory["status"] == STOPPED).sum())
    assert 0 < count < 6
    assert f"stopped     {count} of 6 runs: gradient_norm.embedding < 20.0" in text
    assert "found" in output_of(
        f"sims.particles {words} --out a.nc", "--until", condition
    )
    rows = output_of("sims.runs --folder .")
    assert f"done, {count} stopped" in rows
    assert "--until 'gradient_norm.embedding < 20.0'" in rows
    output_of("sims.particles --branch a.nc --step 8 --steps 60 --out b.nc")
    begun = open_trajectory("b.nc")
    assert begun.attrs["until"] == "gradient_norm.embedding < 20.0"
    output_of(
        "sims.particles --branch a.nc --step 8 --until None --steps 60 --out c.nc"
    )
    assert "until" not in open_trajectory("c.nc").attrs
    error = output_of(f"sims.particles {words} --until loss.train>1", code=2)
    assert "--until" in error


def test_a_moved_setting_is_no_other_condition():
    """An ensemble with its condition is written and read as the same value."""
    ensemble = Ensemble(ParticleSettings(n=7), until="circle")
    assert dataclasses.replace(ensemble).identity == ensemble.identity
    assert ensemble.resolved().path == ensemble.path
    assert "until='circle'" in ensemble.code()
