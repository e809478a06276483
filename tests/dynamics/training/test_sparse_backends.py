"""Training the clustering head: ensembles against a plain torch loop, random streams,
fine-tuning, branches."""

import dataclasses

import numpy as np
import pytest
import torch

from dynamics import (
    ModularSettings,
    SettingsError,
    SparseSettings,
    open_trajectory,
    replay,
    save_trajectory,
    simulate,
)
from dynamics.ensemble import create_system
from dynamics.networks import ClusteringHead
from dynamics.tasks import (
    evaluation_sequences,
    sample_sequences,
    sparse_splits,
    sparse_sum,
    unseen_mask,
)
from dynamics.training.minibatches import epoch_orders, index_bits, shuffle_keys
from dynamics.training.sparse_backends import SparseSimdBackend, SparseTorchBackend
from dynamics.trajectory.schema import DIVERGED
from tests.dynamics.training.single_updates import assert_updates_of_plain_runs
from tests.plain_head import Run

SMALL = SparseSettings(length=6, sparsity=2, data=50, batch=8, hidden=5)
CHANGES = pytest.mark.parametrize(
    "changes", [{}, {"optimizer": "sgd", "momentum": 0.9}, {"optimizer": "adamw"}]
)


def run(runs=2, steps=7, settings=SMALL, seed=0, out=None, **changes):
    return simulate(
        dataclasses.replace(settings, **changes),
        runs=runs,
        steps=steps,
        seed=seed,
        out=out,
    )


def begun(engine):
    """The engine at the first weights of its runs."""
    rows = engine.network.flatten(engine.network.initial(np.arange(engine.runs)))
    engine.set_state(rows, dict.fromkeys(engine.names, np.zeros_like(rows)), 0)
    return engine


def torch_backend(runs=5, **changes):
    return begun(
        SparseTorchBackend(
            ClusteringHead(dataclasses.replace(SMALL, **changes)),
            np.arange(runs),
            "cpu",
        )
    )


# ----------------------------------------------------------------- data and their order


@pytest.mark.parametrize("n", [1, 2, 3, 50, 2048, 5000])
def test_an_epoch_order_is_a_permutation_and_the_same_in_torch(n):
    seeds = np.array([0, 7, 2**62, 3])
    order = epoch_orders(seeds, 5, n)
    np.testing.assert_array_equal(
        np.sort(order, axis=1), np.arange(n)[None].repeat(4, 0)
    )
    keys = shuffle_keys(
        torch.from_numpy(seeds)[:, None],
        torch.tensor(5),
        torch.arange(n),
        index_bits(n),
    )
    assert (keys >= 0).all()
    np.testing.assert_array_equal(
        keys.sort(dim=1).values & ((1 << index_bits(n)) - 1), order
    )
    np.testing.assert_array_equal(epoch_orders(seeds[1:2], 5, n)[0], order[1])


def test_orders_are_uniform_and_independent():
    """Each datum is as often at each place; orders of other epochs and seeds have
    nothing in common."""
    all_orders = np.concatenate(
        [epoch_orders(np.arange(400), epoch, 8) for epoch in range(50)]
    )  # 20,000 of them
    counts = np.stack([np.bincount(column, minlength=8) for column in all_orders.T])
    assert abs(counts - 2500).max() < 5 * np.sqrt(2500 * 7 / 8)
    place = all_orders.argsort(axis=1).reshape(50, 400, 8).astype(float) - 3.5
    assert abs((place[:-1] * place[1:]).mean()) < 5 * 5.25 / np.sqrt(49 * 400 * 8)
    assert abs((place[:, :-1] * place[:, 1:]).mean()) < 5 * 5.25 / np.sqrt(50 * 399 * 8)


def test_orders_of_a_seed_are_fixed():
    """Fixed numbers: a change here changes every trajectory, and wants a higher
    numerics_version."""
    np.testing.assert_array_equal(
        epoch_orders(np.array([7]), 3, 8), [[4, 2, 3, 1, 6, 7, 5, 0]]
    )


def test_sequences_are_scored_once_and_weigh_as_often_as_they_occur():
    s, seeds = SparseSettings(length=7, sparsity=3, data=60, batch=8), np.arange(4)
    train, test = (
        sample_sequences(s, seeds, "train"),
        sample_sequences(s, seeds, "test"),
    )
    result, values = (
        evaluation_sequences(s, train, test),
        np.random.default_rng(0).normal(size=2**7),
    )
    number, *item = (
        tokens.astype(np.int64) @ 2 ** np.arange(7)
        for tokens in (result.tokens, train, test)
    )
    means = (values[number][..., None] * result.counts).sum(axis=1) / result.counts.sum(
        axis=1
    )
    np.testing.assert_array_equal(result.counts.sum(axis=1)[:, :2], 60)
    new = unseen_mask(train, test)
    assert sparse_splits(s) == ("train", "test", "unseen")
    for run in range(4):
        learned, other = (values[numbers[run]] for numbers in item)
        np.testing.assert_allclose(
            means[run],
            [learned.mean(), other.mean(), other[new[run]].mean()],
            rtol=1e-5,
        )
        used = result.counts[run].any(axis=1)
        assert len(np.unique(number[run][used])) == used.sum()
    np.testing.assert_array_equal(result.targets, sparse_sum(result.tokens, s))


def test_a_frame_is_recorded_each_epoch_without_a_split_that_may_be_empty():
    trajectory = run(steps=21, length=3)
    assert sparse_splits(SparseSettings(length=5)) == ("train", "test")
    assert list(trajectory["split"].values) == ["train", "test"]
    np.testing.assert_array_equal(
        [trajectory["step"], trajectory["epoch"]], [[0, 7, 14, 21], [0, 1, 2, 3]]
    )
    assert (trajectory.attrs["modulus"], SparseSettings().default_steps) == (2, 64_000)
    assert (trajectory["gradient_norm"] > 0).all()


# ----------------------------------------------------------------------------- training


TRAINED = [
    SparseSettings(data=100),
    SparseSettings(
        vocab=3, table=4, dim=3, hidden=70, data=64, mlp_lr_discount=5.0, beta1=0.8
    ),
    SparseSettings(
        data=70, batch=70, optimizer="adamw", weight_decay=0.1, mlp_lr_discount=0.5
    ),
    SparseSettings(
        data=40, batch=1, optimizer="sgd", lr=0.01, momentum=0.5, weight_decay=0.01
    ),
    SparseSettings(
        data=64, batch=16, optimizer="adamw", mlp_lr_discount=2.0, assembler_decay=1.0
    ),
]


@pytest.mark.parametrize(
    "s", TRAINED, ids=lambda s: f"{s.optimizer}-{s.vocab}-{s.batch}"
)
def test_updates_are_those_of_a_plain_loop(s):
    """Each of two epochs and of a part of a third, from the same state."""
    runs = {row: Run(s, 3 + row) for row in (0, 17)}
    for plain in runs.values():
        plain.net.double()
    updates = 2 * s.epoch_steps + (s.epoch_steps + 1) // 2
    system = create_system(s, "cpu")
    state = assert_updates_of_plain_runs(system, np.arange(3, 21), runs, updates)
    frame = system.observe(state)
    for row, plain in runs.items():
        for index, split in enumerate(("train", "test")):
            loss, accuracy = plain.scores(split)
            np.testing.assert_allclose(frame["loss"][row, index], loss, rtol=1e-5)
            np.testing.assert_allclose(
                frame["accuracy"][row, index], accuracy, atol=0.0101
            )


@CHANGES
def test_the_torch_backend_continues_from_its_state(changes):
    whole, first, second = (
        torch_backend(mlp_lr_discount=3.0, **changes) for _ in range(3)
    )
    whole.train(0, 19)
    first.train(0, 9)
    second.set_state(first.weights(), first.moments(), first.updates)
    second.train(9, 10)
    np.testing.assert_array_equal(second.weights(), whole.weights())
    for name, moment in whole.moments().items():
        np.testing.assert_array_equal(second.moments()[name], moment)


def test_wide_ensembles_are_scored_in_portions():
    engine = torch_backend(70)
    whole = engine.scores()
    engine.together = 16
    for one, other in zip(engine.scores(), whole, strict=True):
        np.testing.assert_allclose(one, other, rtol=1e-6)


def test_data_and_their_order_do_not_depend_on_the_network_and_the_optimizer():
    for change in (
        {"hidden": 9},
        {"lr": 0.1},
        {"table": 5},
        {"mlp_lr_discount": 7.0},
        {"batch": 3},
        {"norm": "unit"},
    ):
        s = dataclasses.replace(SMALL, **change)
        one, other = (
            SparseSimdBackend(ClusteringHead(item), np.arange(3)) for item in (SMALL, s)
        )
        np.testing.assert_array_equal(one.training.tokens, other.training.tokens)
        np.testing.assert_array_equal(one.evaluation.tokens, other.evaluation.tokens)
        for engine in (one, other):
            begun(engine).differentiate(0)
        np.testing.assert_array_equal(one.order[1], other.order[1])


# ----------------------------------------------------- resume, replay, branch, transfer


def test_transfer_carries_the_circuit_over():
    source = run(4, 35, seed=5, out="a.nc")
    s = dataclasses.replace(SMALL, vocab=3, start="a.nc", start_step=14)
    begun = run(3, 7, s, seed=6, out="b.nc")
    for name in (
        "position_embedding",
        "query",
        "value",
        "receptor",
        "assembler",
        "receptor_bias",
        "transform_bias",
    ):
        np.testing.assert_array_equal(
            begun[name][:, 0], source[name].sel(step=14)[1:], err_msg=name
        )
    np.testing.assert_array_equal(
        begun["embedding"][:, 0, :2], source["embedding"].sel(step=14)[1:]
    )
    np.testing.assert_array_equal(
        run(1, 7, s, seed=8)["embedding"][0], begun["embedding"][2]
    )
    assert len(np.unique(begun["embedding"][:, 0, 2, 0])) == 3
    larger = run(3, 0, s, seed=6, table=5, hidden=5)
    np.testing.assert_array_equal(
        larger["embedding"][:, 0, :3], begun["embedding"][:, 0]
    )
    np.testing.assert_array_equal(
        replay("b.nc", None, 0, 7, every=7)["value"], begun["value"]
    )
    last = run(3, 0, s, seed=6, start_step=-1)
    np.testing.assert_array_equal(last["value"][:, 0], source["value"].sel(step=35)[1:])


def test_transfer_from_successful_runs_alone():
    good = run(6)
    good["accuracy"].loc[{"split": "test", "step": 7}] = [
        0.5,
        0.99,
        1.0,
        0.98,
        0.985,
        0.2,
    ]
    save_trajectory(good, "b.nc")
    s = dataclasses.replace(SMALL, start="b.nc", start_step=7, start_runs="successful")
    for seed, rows in ((0, [1, 2, 4]), (1, [2, 4])):
        np.testing.assert_array_equal(
            run(len(rows), 1, s, seed)["value"][:, 0], good["value"].sel(step=7)[rows]
        )
    with pytest.raises(
        SettingsError, match="runs: found 4, allowed is at most 3, the successful"
    ):
        run(4, 1, s)


def test_an_invalid_source_is_refused(tmp_path):
    run(out="a.nc").close()
    run(out="three.nc", steps=0, vocab=3).close()
    simulate(SMALL, runs=2, steps=7, record="metrics", out="metrics.nc").close()
    simulate(ModularSettings(n=5), runs=2, steps=2, out="modular.nc").close()
    (tmp_path / "empty.nc").touch()
    for field, value in (
        *(
            ("start", name)
            for name in ("none.nc", "empty.nc", "modular.nc", "metrics.nc")
        ),
        *(
            ("start_step", 5),
            ("hidden", 6),
            ("length", 7),
            ("dim", 3),
            ("output_bias", False),
        ),
        ("vocab", "three.nc"),
    ):
        changes = (
            {"start": value}
            if str(value).endswith(".nc")
            else {"start": "a.nc", field: value}
        )
        with pytest.raises(SettingsError) as error:
            run(steps=1, **changes)
        assert error.value.field == field, changes
    with pytest.raises(SettingsError, match="no run of seed 2"):
        run(3, start="a.nc")


def test_a_diverged_run_is_no_source():
    assert (
        run(steps=14, out="a.nc", optimizer="sgd", lr=1e6)["status"] == DIVERGED
    ).any()
    with pytest.raises(SettingsError, match="diverged before step 14"):
        run(start="a.nc", start_step=14)
    assert open_trajectory("a.nc")
