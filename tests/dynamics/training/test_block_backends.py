"""Training a run in a block of threads of a CUDA device, in Numba's simulator: against
plain networks in float64, and the bits of a run."""

import dataclasses

import numpy as np
import pytest
import torch
import xarray as xr
from hypothesis import given, settings
from hypothesis import strategies as st

from dynamics import (
    ModularSettings,
    SparseSettings,
    replay,
    simulate,
    system,
)
from dynamics.networks.activation_functions import ACTIVATIONS
from dynamics.networks.clustering_head import ClusteringHead
from dynamics.networks.constant_attention import ConstantAttention
from dynamics.tasks import all_pairs, sample_sequences, sparse_sum
from dynamics.training import cuda_backends, cuda_memory, training_systems
from dynamics.training.minibatches import epoch_orders
from dynamics.trajectory.schema import DIVERGED
from tests import plain_head
from tests.dynamics.training.block_backends import (
    block_backend,
    block_system,
    small_plan,
)
from tests.dynamics.training.single_updates import assert_updates_of_plain_runs
from tests.dynamics.training.test_modular_backends import shares
from tests.plain_torch import Run

MODULAR = ModularSettings(n=5, hidden=6, dim=3, train_share=0.7)
SPARSE = SparseSettings(length=5, sparsity=2, data=14, batch=4, hidden=5)
NETWORKS = pytest.mark.parametrize("s", [MODULAR, SPARSE], ids=lambda s: s.system)


# ---------------------------------------------------------------------------- gradients


@settings(max_examples=8)
@given(
    n=st.integers(2, 6),
    hidden=st.integers(1, 6),
    dim=st.integers(1, 3),
    activation=st.sampled_from(list(ACTIVATIONS)),
    scale=st.sampled_from([0.1, 1.0, 8.0]),
    threads=st.integers(1, 6),
    portion=st.integers(1, 21),
    segments=st.integers(1, 4),
)
def test_gradients_and_scores_of_ca_equal_those_of_autograd(
    n, hidden, dim, activation, scale, threads, portion, segments
):
    s = ModularSettings(
        n=n,
        hidden=hidden,
        dim=dim,
        activation=activation,
        train_share=1.0 if n < 3 else 0.8,
    )
    portion = min(portion, s.pairs)
    plan = small_plan(s, threads=threads, portion=portion, segments=segments)
    backend = block_backend(s, 2, scale=scale, plan=plan)
    backend.differentiate(0)
    network = ConstantAttention(s)
    exact = torch.from_numpy(backend.weights()).double().requires_grad_()
    weights, pairs = network.unflatten(exact), torch.from_numpy(all_pairs(n))
    network.loss(weights, pairs, torch.from_numpy(shares(s, 2))).sum().backward()
    largest = float(exact.grad.abs().max())
    np.testing.assert_allclose(
        backend.gradient(), exact.grad, atol=3e-6 * largest + 1e-9
    )
    for values, expected in zip(
        backend.scores(), backend.exact_scores(np.full(2, True)), strict=True
    ):
        np.testing.assert_allclose(values, expected, rtol=1e-5, atol=3e-6 * scale)


@settings(max_examples=12)
@given(
    network=st.fixed_dictionaries(
        {
            "norm": st.sampled_from(["rms", "unit", "rms-smooth", "unit-smooth"]),
            "activation": st.sampled_from(list(ACTIVATIONS)),
            "receptor_biases": st.booleans(),
            "output_bias": st.booleans(),
            "vocab": st.integers(2, 3),
            "dim": st.integers(1, 3),
            "hidden": st.integers(1, 6),
            "data": st.integers(2, 11),
        }
    ),
    smooth_width=st.sampled_from([0.5, 2.0]),
    further_rows=st.integers(0, 2),
    batch=st.integers(1, 5),
    scale=st.sampled_from([0.3, 1.0, 4.0]),
    threads=st.integers(1, 6),
    portion=st.integers(1, 5),
    groups=st.integers(2, 4),
    sorts_in_shared=st.booleans(),
)
def test_gradients_and_scores_of_vc_equal_those_of_autograd(
    network,
    smooth_width,
    further_rows,
    batch,
    scale,
    threads,
    portion,
    groups,
    sorts_in_shared,
):
    """Of the last mini-batch of the second epoch, which may be smaller."""
    if network["norm"].endswith("smooth"):
        network = {**network, "smooth_width": smooth_width}
    s = SparseSettings(
        length=4,
        sparsity=2,
        batch=min(batch, network["data"]),
        table=network["vocab"] + further_rows,
        **network,
    )
    changes = {"threads": threads, "portion": min(portion, s.batch), "groups": groups}
    plan = small_plan(s, max_sorted_bytes=2**15 if sorts_in_shared else 0, **changes)
    backend = block_backend(s, 2, scale=scale, plan=plan)
    backend.differentiate(2 * s.epoch_steps - 1)
    head, seeds = ClusteringHead(s), np.arange(2)
    exact = torch.from_numpy(backend.weights()).double().requires_grad_()
    tokens = sample_sequences(s, seeds, "train")
    order = epoch_orders(seeds, 1, s.data)[:, (s.epoch_steps - 1) * s.batch :]
    tokens = np.take_along_axis(tokens, order[..., None], axis=1)
    targets = torch.from_numpy(sparse_sum(tokens, s)).long()
    losses = head.losses(
        head.unflatten(exact), torch.from_numpy(tokens).long(), targets
    )
    losses.mean(-1).sum().backward()
    largest = float(exact.grad.abs().max())
    np.testing.assert_allclose(
        backend.gradient(), exact.grad, atol=1e-5 * largest + 1e-9
    )
    for values, expected in zip(
        backend.scores(), backend.exact_scores(np.full(2, True)), strict=True
    ):
        np.testing.assert_allclose(values, expected, rtol=1e-5, atol=1e-5 * scale)


@NETWORKS
def test_classes_with_the_same_largest_logit_share_the_accuracy(s):
    backend = block_backend(s, 2, scale=0.0)
    loss, accuracy = backend.scores()
    classes = s.n if s.system == "modular" else s.rows
    np.testing.assert_allclose(accuracy, 1 / classes, rtol=1e-6)
    np.testing.assert_allclose(loss, np.log(classes), rtol=1e-6)


# ------------------------------------------------------------------------------ training


@pytest.mark.parametrize(
    "changes",
    [{}, {"optimizer": "sgd", "momentum": 0.9}, {"optimizer": "adamw"}],
    ids=str,
)
def test_updates_of_ca_are_those_of_a_plain_loop(changes):
    s = dataclasses.replace(MODULAR, **changes)
    plain = {row: Run(s, 3 + row) for row in range(2)}
    for run in plain.values():
        run.net.double()
    assert_updates_of_plain_runs(block_system(s), np.arange(3, 5), plain, 4)


@pytest.mark.parametrize(
    "changes",
    [{"mlp_lr_discount": 3.0}, {"optimizer": "adamw", "assembler_decay": 1.0}],
    ids=str,
)
def test_updates_of_vc_are_those_of_a_plain_loop(changes):
    """Of two epochs, whose last mini-batches are smaller."""
    s = dataclasses.replace(SPARSE, **changes)
    plain = {row: plain_head.Run(s, 3 + row) for row in range(2)}
    for run in plain.values():
        run.net.double()
    assert_updates_of_plain_runs(block_system(s), np.arange(3, 5), plain, 8)


def test_the_data_are_visited_in_the_order_of_each_epoch():
    """Also where the keys are sorted in the memory of the device, and in the order of
    other seeds."""
    for changes in ({}, {"max_sorted_bytes": 0}):
        s = dataclasses.replace(SPARSE, data=21)
        backend = block_backend(s, 2, plan=small_plan(s, **changes))
        for step in (0, 5, 6, 13):
            backend.differentiate(step)
            expected = epoch_orders(np.arange(2), step // s.epoch_steps, s.data)
            np.testing.assert_array_equal(backend.order.copy_to_host(), expected)
        backend.order_batches_by(np.array([5, 2**62]))
        backend.train(6, 1)
        expected = epoch_orders(np.array([5, 2**62]), 1, s.data)
        np.testing.assert_array_equal(backend.order.copy_to_host(), expected)


@NETWORKS
def test_the_bits_of_a_run_depend_on_that_run_alone(s):
    """Not on other runs, on the number of threads, on the division into launches, and
    on a restart."""
    updates = 7
    together = block_backend(s, 3)
    together.train(0, updates)
    alone = block_backend(s, 1, seed=2, plan=small_plan(s, threads=3))
    alone.launches.updates = 2
    alone.train(0, 4)
    again = block_backend(s, 1, seed=2)
    again.set_state(alone.weights(), alone.moments(), alone.updates)
    again.train(4, updates - 4)
    for name in ("weights", "gradient", "last_update"):
        first, second = (getattr(each, name)() for each in (together, again))
        np.testing.assert_array_equal(first[2:], second, err_msg=name)
        assert np.abs(first).max() > 0
    for name, values in again.moments().items():
        np.testing.assert_array_equal(together.moments()[name][2:], values)
    for values, expected in zip(again.scores(), together.scores(), strict=True):
        np.testing.assert_array_equal(values, expected[2:])


@NETWORKS
def test_weights_that_are_not_finite_stay_so(s):
    for value in (np.nan, np.inf):
        backend = block_backend(s, 2)
        rows = backend.weights()
        rows[1, 0] = value
        moments = backend.moments()
        backend.set_state(rows, moments, 0)
        backend.train(0, 1)
        finite = np.isfinite(backend.weights()).all(axis=1)
        np.testing.assert_array_equal(finite, [True, False])
        assert not np.isfinite(backend.scores()[0][1]).all()


@pytest.fixture
def simulated_device(monkeypatch):
    """A CUDA device, which is Numba's simulator."""
    memory = property(lambda self: 2**30)
    monkeypatch.setattr(system, "cuda_is_available", lambda: True)
    monkeypatch.setattr(system, "numba_cuda_is_installed", lambda: True)
    monkeypatch.setattr(training_systems.TrainingSystem, "device_memory", memory)
    monkeypatch.setattr(training_systems, "resolve_device", lambda device, kind: device)
    plan = cuda_backends.block_plan
    monkeypatch.setattr(
        cuda_backends, "block_plan", lambda s: plan(s)._replace(threads=4)
    )


@NETWORKS
def test_a_file_names_its_backend_and_is_continued_with_it(
    s, simulated_device, monkeypatch
):
    options = {"runs": 2, "every": 2, "device": "cuda", "progress": False}
    whole = simulate(s, steps=6, **options)
    assert (whole.attrs["device"], whole.attrs["backend"]) == ("cuda", "blocks")
    simulate(s, steps=4, out="a.nc", **options).close()
    monkeypatch.setattr(system.SystemKind, "fastest_device", lambda *size: "cpu")
    longer = simulate(s, steps=6, out="a.nc", **{**options, "device": "auto"}).load()
    assert longer.attrs["device"] == "cuda"
    xr.testing.assert_equal(longer.drop_attrs(), whole.drop_attrs())
    repeated = replay("a.nc", 1, 2, 6)
    np.testing.assert_array_equal(
        repeated["embedding"].sel(step=6)[0], whole["embedding"].sel(step=6)[1]
    )


@NETWORKS
def test_runs_that_diverge_keep_their_last_finite_state(s, simulated_device):
    unstable = dataclasses.replace(s, optimizer="sgd", lr=1e6, weight_decay=1.0)
    trajectory = simulate(
        unstable, runs=2, steps=8, every=4, device="cuda", progress=False
    )
    assert (trajectory["status"] == DIVERGED).all()
    assert np.isfinite(trajectory["embedding"]).all()
    expected = simulate(unstable, runs=2, steps=8, every=4, device="cpu")
    np.testing.assert_array_equal(trajectory["last_step"], expected["last_step"])


@pytest.mark.parametrize("s", [ModularSettings(), SparseSettings()], ids=str)
def test_an_ensemble_takes_no_more_memory_than_estimated(s):
    backend = block_backend(s, 8)
    arrays = [
        item
        for value in vars(backend).values()
        for item in (value if isinstance(value, list) else [value])
        if hasattr(item, "copy_to_host")
    ]
    used = sum(array.copy_to_host().nbytes for array in arrays)
    estimated = cuda_memory.block_bytes(s, backend.size, 8) - cuda_memory.WORKSPACE
    assert 0.4 * estimated < used <= estimated
