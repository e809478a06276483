"""All training systems: exactness, divergence, backends that agree, devices, and what
happens without torch."""

import dataclasses
import sys

import numpy as np
import pytest
import torch
import xarray as xr

from dynamics import (
    MissingPackage,
    TrajectoryError,
    branch,
    cost_model,
    replay,
)
from dynamics.ensemble import create_system, run_path
from dynamics.kernels.compiling import numba_threads
from dynamics.loop import restore_state
from dynamics.settings import (
    ModularSettings,
    ParticleSettings,
    SettingsError,
    SparseSettings,
    TransformerSettings,
)
from dynamics.simulation import simulate
from dynamics.system import system_class
from dynamics.training.modular_backends import (
    ModularBlasBackend,
    ModularSimdBackend,
    ModularTorchBackend,
)
from dynamics.training.sparse_backends import SparseSimdBackend, SparseTorchBackend
from dynamics.trajectory.schema import DIVERGED
from tests.dynamics.training.single_updates import (
    assert_same_update,
    assert_same_updates_on,
)

MODULAR = ModularSettings(n=5, hidden=7, dim=3, train_share=0.7)
SPARSE = SparseSettings(length=6, sparsity=2, data=50, batch=8, hidden=5)
TRANSFORMER = TransformerSettings(n=5, dim=8, heads=2, train_share=0.6, batch=6)
SMALL = pytest.mark.parametrize(
    "s", [MODULAR, SPARSE, TRANSFORMER], ids=lambda s: s.system
)
RULES = [
    dataclasses.replace(s, optimizer=rule, momentum=0.5 if rule == "sgd" else 0.0)
    for s in (ModularSettings(n=7, hidden=9), SPARSE)
    for rule in ("adamw", "adam", "sgd")
]
ALL_RULES = pytest.mark.parametrize(
    "s", RULES, ids=lambda s: f"{s.system}-{s.optimizer}"
)
WIDE = ModularSettings(n=17, hidden=128, dim=2)
DISCOUNTED = dataclasses.replace(SPARSE, optimizer="adamw", mlp_lr_discount=3.0)
UNSTABLE = ModularSettings(n=5, optimizer="sgd", lr=1e6, weight_decay=1.0)


def run(s, runs, steps, **options):
    return simulate(s, runs=runs, steps=steps, **options)


def system_of(s):
    return system_class(s.system)(s, "cpu")


def backends_of(s, runs):
    """All backends on the CPU, at the initial weights."""
    network, seeds, modular = (
        system_of(s).network,
        np.arange(runs),
        isinstance(s, ModularSettings),
    )
    kinds = (
        (ModularSimdBackend, ModularTorchBackend)
        if modular
        else (SparseSimdBackend, SparseTorchBackend)
    )
    result = [kinds[0](network, seeds), kinds[1](network, seeds, "cpu")]
    result += [ModularBlasBackend(network, seeds)] if modular else []
    rows = network.flatten(network.initial(seeds))
    for backend in result:
        backend.set_state(rows, dict.fromkeys(backend.names, np.zeros_like(rows)), 0)
    return result


def assert_same_state(system, one, other):
    for name, value in system.checkpoint(one).items():
        np.testing.assert_array_equal(
            system.checkpoint(other)[name], value, err_msg=name
        )


# ---------------------------------------------------------------------------- exactness


@ALL_RULES
def test_a_run_has_the_same_bits_in_any_ensemble_on_any_threads(s):
    whole = run(s, 40, 30, every=4)
    for first, runs, threads in ((7, 1, 1), (30, 10, 1), (0, 40, 1), (20, 20, 2)):
        with numba_threads(threads):
            some = run(s, runs, 30, every=4, seed=first)
        for name in whole.data_vars:
            np.testing.assert_array_equal(
                some[name], whole[name][first : first + runs], err_msg=str(name)
            )


@SMALL
def test_states_are_used_in_any_order_and_steps_in_any_portions(s):
    """The state that a trainer still holds never replaces the state that is given to
    it."""
    one, two = system_of(s), system_of(s)
    early = one.advance(one.initial(np.arange(20)), 5)
    late = one.advance(early, 20)
    one.observe(early)
    portions = early
    for steps in (1, 9, 0, 10):
        portions = system_of(s).restore(one.checkpoint(one.advance(portions, steps)))
    for state in (
        one.advance(early, 20),
        two.advance(two.advance(early, 3), 17),
        portions,
    ):
        assert_same_state(one, late, state)
    np.testing.assert_array_equal(
        one.observe(early)["loss"], two.observe(early)["loss"]
    )


@SMALL
def test_resumed_and_extended_runs_have_the_same_bits(s):
    run(s, 18, 17, every=5, out="a.nc").close()
    extended, direct = run(s, 18, 35, every=5, out="a.nc"), run(s, 18, 35, every=5)
    xr.testing.assert_equal(extended.drop_attrs(), direct.drop_attrs())


@SMALL
def test_replays_and_branches_have_the_same_bits(s):
    direct = run(s, 18, 35, every=5, out="a.nc")
    for result, runs in (
        (replay("a.nc", 17, 9, 23), [17]),
        (branch("a.nc", 10), slice(None)),
    ):
        steps = np.intersect1d(result["step"], direct["step"])
        assert len(steps) > 2
        for name in ("embedding", "loss", "gradient_norm", "update_norm"):
            xr.testing.assert_equal(
                result[name].sel(step=steps),
                direct[name].isel(run=runs).sel(step=steps),
            )
    changed = branch("a.nc", 20, weight_decay=0.5)
    xr.testing.assert_equal(
        changed["embedding"].sel(step=20), direct["embedding"].sel(step=20)
    )
    assert abs(changed["embedding"] - direct["embedding"]).sel(step=35).max() > 1e-3


# --------------------------------------------------------------------------- divergence


DIVERGING = [
    (dataclasses.replace(WIDE, optimizer="sgd", lr=1.0, weight_decay=0.0), 1e12, 40),
    (
        ModularSettings(
            n=5, optimizer="sgd", lr=1.0, weight_decay=0.0, train_share=1.0
        ),
        1e12,
        40,
    ),
    (dataclasses.replace(SPARSE, optimizer="sgd", lr=1.0, momentum=0.5), 100, 20),
    (dataclasses.replace(TRANSFORMER, optimizer="sgd", lr=0.1), 1e3, 20),
]


@pytest.mark.parametrize(
    ("s", "factor", "steps"),
    DIVERGING,
    ids=["products", "modular", "sparse", "transformer"],
)
def test_divergence_ends_a_run_and_not_the_ensemble(s, factor, steps):
    """It happens at a step that is not checked; the last finite state is kept, and
    other runs are not affected."""
    system = system_of(s)
    state = system.initial(np.arange(20))
    rows = state.weights.copy()
    rows[3] *= factor
    ill = one_by_one = dataclasses.replace(state, weights=rows)
    for _ in range(steps):
        one_by_one = system.advance(one_by_one, 1)
    at_once, healthy = system.advance(ill, steps), system.advance(state, steps)
    assert 0 < at_once.last_step[3] < steps
    assert (np.delete(at_once.last_step, 3) == steps).all()
    assert_same_state(system, one_by_one, at_once)
    for name, value in system.checkpoint(at_once).items():
        assert np.isfinite(value).all()
        if name not in ("step", "seeds"):
            np.testing.assert_array_equal(
                np.delete(value, 3, 0),
                np.delete(system.checkpoint(healthy)[name], 3, 0),
            )
    assert all(np.isfinite(value).all() for value in system.observe(at_once).values())


# ----------------------------------------------------------------- backends and devices


@pytest.mark.parametrize(
    "s",
    [
        *RULES,
        DISCOUNTED,
        dataclasses.replace(SPARSE, weight_decay=0.1, assembler_decay=2.0),
    ],
)
def test_all_backends_train_alike(s):
    """Each of 19 updates, from the same state."""
    network = system_of(s).network
    here, *others = backends_of(s, 5)
    for step in range(19):
        before, moments, updates = here.weights(), here.moments(), here.updates
        here.train(step, 1)
        for there in others:
            there.set_state(before, moments, updates)
            there.train(step, 1)
            assert_same_update(network, before, here, there)
    here.differentiate(20)
    for there in others:
        there.set_state(here.weights(), here.moments(), here.updates)
        there.differentiate(20)
        np.testing.assert_allclose(there.gradient(), here.gradient(), atol=1e-5)
        for one, other in zip(there.scores(), here.scores(), strict=True):
            np.testing.assert_allclose(one, other, atol=1e-4)


@pytest.mark.parametrize("dim", [3, 40])
def test_a_run_of_matrix_products_has_the_same_bits_in_any_ensemble_on_any_threads(dim):
    """With 61 tokens a run has two portions, which are computed on different threads if
    there are fewer runs."""
    s, options = (
        ModularSettings(n=61, hidden=50, dim=dim),
        {"every": 4, "backend": "blas"},
    )
    whole = run(s, 5, 12, **options)
    for first, runs, threads in ((2, 1, 1), (2, 1, 2), (3, 2, 2), (0, 5, 1)):
        with numba_threads(threads):
            some = run(s, runs, 12, seed=first, **options)
        for name in whole.data_vars:
            np.testing.assert_array_equal(
                some[name], whole[name][first : first + runs], err_msg=str(name)
            )


def test_the_backend_is_chosen_by_size_and_runs_and_recorded():
    wide = dataclasses.replace(WIDE, n=59, hidden=512)
    assert [create_system(WIDE, "cpu", runs=runs).backend_name for runs in (1, 16)] == [
        "blas",
        "simd",
    ]
    assert [
        create_system(wide, "cpu", runs=runs).backend_name for runs in (1, 400)
    ] == ["blas", "blas"]
    assert create_system(MODULAR, "cpu", runs=1).backend_name == "simd"
    paths = [
        run_path(WIDE, 2, 0, backend=backend) for backend in ("auto", "blas", "simd")
    ]
    assert paths[0] == paths[1] != paths[2]
    assert run(WIDE, 2, 1).attrs["backend"] == "blas"
    for s in (MODULAR, SPARSE, ParticleSettings(n=5)):
        with pytest.raises(SettingsError, match="backend: found fast"):
            run(s, 1, 1, backend="fast")
    with pytest.raises(
        SettingsError, match="backend: found blas, allowed is auto for sparse"
    ):
        run(SPARSE, 1, 1, backend="blas")


@pytest.mark.parametrize("backend", ["simd", "blas"])
def test_a_recorded_run_keeps_its_backend(backend, monkeypatch):
    """Whatever the cost model of a later version says, and whatever the number of
    replayed runs."""
    options = {"every": 5, "backend": backend}
    direct = run(WIDE, 3, 30, **options)
    run(WIDE, 3, 20, out="a.nc", **options).close()
    later = {"simd": 1.0, "blas": 1.0, backend: 2.0}
    monkeypatch.setattr(cost_model, "epoch_seconds", lambda settings, runs: later)
    assert create_system(WIDE, "cpu").backend_name != backend
    xr.testing.assert_equal(
        run(WIDE, 3, 30, every=5, out="a.nc").drop_attrs(), direct.drop_attrs()
    )
    for result, runs in (
        (replay("a.nc", 2, 5, 30), [2]),
        (branch("a.nc", 10), slice(None)),
    ):
        assert result.attrs["backend"] == backend
        steps = np.intersect1d(result["step"], direct["step"])
        for name in ("embedding", "loss"):
            xr.testing.assert_equal(
                result[name].sel(step=steps),
                direct[name].isel(run=runs).sel(step=steps),
            )
    with pytest.raises(SettingsError, match=f"out: found a.nc with backend={backend}"):
        run(WIDE, 3, 30, every=5, out="a.nc", backend=min({"simd", "blas"} - {backend}))


def test_a_file_without_the_name_of_the_backend_is_continued_on_simd_lanes():
    without = run(WIDE, 3, 10, every=5, backend="simd")
    del without.attrs["backend"]
    xr.testing.assert_equal(
        replay(without, 1, 10, 10)["embedding"],
        without["embedding"].isel(run=[1], step=[-1]),
    )


@pytest.mark.cuda
@pytest.mark.parametrize("s", [*RULES, DISCOUNTED])
def test_cuda_trains_alike(s):
    assert_same_updates_on(create_system(s, "cpu"), create_system(s, "cuda"), 5, 8)


@pytest.mark.skipif(torch.cuda.is_available(), reason="there is a CUDA device")
@pytest.mark.parametrize("device", ["cuda", "tpu"])
def test_a_missing_device_is_refused(device):
    with pytest.raises(SettingsError, match=f"device: found {device}"):
        run(MODULAR, 1, 1, device=device)


def test_without_torch_the_error_names_the_package(monkeypatch):
    monkeypatch.delitem(
        sys.modules, "dynamics.training.training_systems", raising=False
    )
    monkeypatch.setitem(sys.modules, "torch", None)
    for name in [
        name
        for name in sys.modules
        if name.startswith("dynamics.") and hasattr(sys.modules[name], "torch")
    ]:
        monkeypatch.delitem(sys.modules, name)
    with pytest.raises(MissingPackage, match=r"training-dynamics\[train\]"):
        run(MODULAR, 1, 1)


def test_a_restart_state_of_another_version_and_too_large_an_ensemble_are_errors():
    system = system_of(MODULAR)
    arrays = system.checkpoint(system.initial(np.arange(2)))
    del arrays["updates"]
    with pytest.raises(
        TrajectoryError, match="no 'updates': it was written by another version"
    ):
        restore_state(system, arrays)
    with pytest.raises(SettingsError, match="memory of"):
        run(ModularSettings(n=1000, hidden=100_000), 1_000_000, 1)


# ----------------------------------------------------------------------------- branches


def test_a_branch_may_change_the_optimizer_also_of_runs_that_diverged():
    """Its moments begin at 0, and so does its count: the first step of Adam is one
    learning rate long."""
    source = run(ModularSettings(n=5, optimizer="sgd", lr=0.01), 3, 300, every=50)
    after = branch(
        source, 300, until=301, every=1, optimizer="adamw", lr=0.001, weight_decay=0.0
    )
    assert abs(after["embedding"].diff("step").values).max() < 0.00101
    ill = run(UNSTABLE, 3, 20)
    assert (ill["status"] == DIVERGED).all()
    for changes in ({"optimizer": "adamw", "lr": 0.01}, {"momentum": 0.9}):
        assert (branch(ill, 10, **changes)["status"] == DIVERGED).all()
    assert np.isfinite(
        branch(source, 300, until=302, every=1, momentum=0.9)["loss"]
    ).all()


@pytest.mark.parametrize("record", ["all", "metrics"])
def test_a_branch_may_change_the_split_but_not_the_shape(record):
    for s in (SPARSE, MODULAR):
        run(s, 2, 10, record=record, out=f"{s.system}.nc").close()
    for s, name, value in (
        (SPARSE, "table", 5),
        (MODULAR, "hidden", 8),
        (MODULAR, "n", 4),
        (MODULAR, "dim", 2),
    ):
        with pytest.raises(
            SettingsError, match=f"{name}: found {value}, .* as before: a branch keeps"
        ):
            branch(f"{s.system}.nc", 5, **{name: value})
    assert list(branch("modular.nc", 5, train_share=1.0)["split"].values) == ["train"]
