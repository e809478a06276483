"""Training of the transformer: against a plain loop, with other optimizers, in any
ensemble, where float32 fails."""

import dataclasses
import itertools

import numpy as np
import pytest
import torch

from dynamics import TransformerSettings, simulate
from dynamics.kernels.compiling import numba_threads
from dynamics.networks import Transformer
from dynamics.system import EpochClock
from dynamics.tasks import operation_pairs, operation_splits
from dynamics.training.minibatches import epoch_and_batch, epoch_orders
from dynamics.training.transformer_backends import (
    TransformerCpuBackend,
    TransformerTorchBackend,
    loss_gradient,
)
from tests.dynamics.training.single_updates import assert_same_update
from tests.plain_transformer import PlainTransformer, plain_tokens, plain_training

SMALL = TransformerSettings(n=7, dim=12, heads=3, train_share=0.7, lr=0.01, warmup=4)
CASES = [
    {},
    {"attention_rate": 0.0, "batch": 10},
    {
        "attention_rate": 0.4,
        "equals_token": True,
        "initialisation": "nanda",
        "n": 37,
    },  # more than one portion of pairs
    {
        "layers": 2,
        "causal": True,
        "batch": 10,
        "optimizer": "adam",
        "activation": "gelu",
    },
    {"activation": "tanh"},
    {
        "task": "dihedral",
        "n": 4,
        "optimizer": "sgd",
        "momentum": 0.5,
        "weight_decay": 0.1,
        "beta2": 0.98,
    },
]


def backend_of(kind, s, runs, *others):
    """A backend at the initial weights."""
    network = Transformer(s)
    backend, rows = (
        kind(network, np.arange(runs), *others),
        network.flatten(network.initial(np.arange(runs))),
    )
    backend.set_state(rows, dict.fromkeys(backend.names, np.zeros_like(rows)), 0)
    return backend


def batches(s, seed):
    """The indices of the pairs of each update."""
    train = operation_splits(s, np.array([seed]))[0][0]
    for step in itertools.count():
        epoch, batch = epoch_and_batch(s.epoch_steps, EpochClock(), step)
        order = (
            epoch_orders([seed], epoch, s.train_pairs)[0]
            if s.batch
            else np.arange(s.train_pairs)
        )
        yield torch.from_numpy(train[order][batch * s.batch_pairs :][: s.batch_pairs])


@pytest.mark.parametrize("changes", CASES, ids=str)
def test_training_is_that_of_a_plain_loop(changes):
    """In float64, to rounding, for 25 updates."""
    s = dataclasses.replace(SMALL, **changes)
    network, pairs = Transformer(s), torch.from_numpy(operation_pairs(s))
    backend = backend_of(TransformerCpuBackend, s, 2, EpochClock(), torch.float64)
    backend.train(0, 11)
    backend.train(11, 14)
    result = network.unflatten(torch.from_numpy(backend.weights()))
    for run in range(2):
        initial = {
            name: torch.from_numpy(values[run])
            for name, values in network.initial(np.arange(2)).items()
        }
        plain = PlainTransformer(s).double().load(initial)
        training = plain_training(
            plain, s, plain_tokens(s, pairs), network.target(pairs), batches(s, run)
        )
        list(itertools.islice(training, 25))
        trained = (
            PlainTransformer(s)
            .double()
            .load({name: values[run] for name, values in result.items()})
        )
        for (name, expected), value in zip(
            plain.named_parameters(), trained.parameters(), strict=True
        ):
            np.testing.assert_allclose(
                value.detach(),
                expected.detach(),
                rtol=1e-7,
                atol=1e-9,
                err_msg=f"{name} of run {run}",
            )


@pytest.mark.parametrize(
    "changes", [*CASES, {"ordered": False, "own_vocabularies": True}], ids=str
)
def test_both_backends_train_alike(changes):
    """Each of nine updates, from the same state."""
    s = dataclasses.replace(SMALL, **changes)
    here, there = (
        backend_of(TransformerCpuBackend, s, 3),
        backend_of(TransformerTorchBackend, s, 3, "cpu"),
    )
    for step in range(9):
        before = here.weights()
        there.set_state(before, here.moments(), here.updates)
        for backend in (here, there):
            backend.train(step, 1)
        assert_same_update(Transformer(s), before, here, there)
    there.set_state(here.weights(), here.moments(), here.updates)
    for (one, other), atol in zip(
        zip(there.scores(), here.scores(), strict=True), (1e-4, 0.03), strict=True
    ):
        np.testing.assert_allclose(one, other, atol=atol)
    for one, other in zip(
        here.exact_scores(np.array([True, False, True])), here.scores(), strict=True
    ):
        np.testing.assert_allclose(one, other[[0, 2]], atol=1e-4)


@pytest.mark.parametrize(
    "changes", [{"n": 37}, {"n": 37, "attention_rate": 0.0, "batch": 300}], ids=str
)
def test_a_run_has_the_same_bits_in_any_ensemble_on_any_threads(changes):
    s, options = (
        dataclasses.replace(SMALL, **changes),
        {
            "steps": 12,
            "every": 4,
        },
    )
    whole = simulate(s, runs=8, **options)
    for first, runs, threads in ((3, 1, 1), (3, 1, 2), (5, 3, 2), (0, 8, 1)):
        with numba_threads(threads):
            some = simulate(s, runs=runs, seed=first, **options)
        for name in whole.data_vars:
            np.testing.assert_array_equal(
                some[name], whole[name][first : first + runs], err_msg=str(name)
            )


def test_the_gradient_of_a_memorised_pair_keeps_its_precision():
    """The probability of the correct class rounds to 1 in float32, but its gradient is
    not 0."""
    logits, target = (
        torch.tensor([[40.0, 0.0, 1.0], [0.0, 25.0, -3.0]]),
        torch.tensor([0, 1]),
    )
    exact = torch.softmax(logits.double(), -1)
    others = torch.where(torch.nn.functional.one_hot(target, 3).bool(), 0.0, exact)
    expected = others - others.sum(-1, keepdim=True) * torch.nn.functional.one_hot(
        target, 3
    )
    assert (torch.softmax(logits, -1)[[0, 1], target] == 1).all()
    np.testing.assert_allclose(loss_gradient(logits, target, 1), expected, rtol=1e-6)


def test_a_run_without_a_test_split_has_only_training_scores():
    trajectory = simulate(dataclasses.replace(SMALL, train_share=1.0), runs=2, steps=2)
    assert list(trajectory["split"].values) == ["train"]
