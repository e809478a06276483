"""Comparisons of one update from the same state.

Two ways to train in float32 drift apart: a hidden unit that switches at one rounding
and not at another changes all later weights. So each update starts from the same state
in both ways."""

import numpy as np
import torch
from numpy.testing import assert_allclose

TOLERANCE = 1e-3
"""Largest norm of the difference between two updates of a variable, relative to the
norm of the update. Rounding of the weights contributes some 1e-5."""
SWITCH = 1e-6
"""States in which a hidden unit of the plain network is closer than this to its
threshold have no unique update in float32, and are left out."""


def variable_norms(network, rows):
    """Norm of each variable (run, layer) of rows (run, parameter)."""
    weights = network.unflatten(torch.as_tensor(rows, dtype=torch.float64))
    norms = [values.flatten(1).norm(dim=1) for values in weights.values()]
    return torch.stack(norms, dim=1).numpy()


def assert_same_rows(network, rows, expected, sizes, name):
    """Rows (run, parameter) agree in each variable, relative to the norms `sizes`
    (run, layer)."""
    difference = variable_norms(network, np.asarray(rows, float) - expected)
    limit = TOLERANCE * sizes + 1e-7
    assert (difference <= limit).all(), f"{name}: {(difference / limit).max():.3g}"


def assert_same_update(network, before, one, other):
    """Two backends that made one update from the same weights `before`
    (run, parameter) have the same gradients, moments and weights."""
    for name in ("gradient", "last_update"):
        expected = getattr(one, name)()
        rows = getattr(other, name)()
        assert_same_rows(
            network, rows, expected, variable_norms(network, expected), name
        )
    update = variable_norms(network, one.weights() - before)
    assert_same_rows(network, other.weights(), one.weights(), update, "weights")
    for name, moment in one.moments().items():
        size = variable_norms(network, moment)
        assert_same_rows(network, other.moments()[name], moment, size, name)


def assert_same_updates_on(here, there, runs, updates):
    """Each of some updates of a system on one device is that of the system on another
    one, from the same state."""
    state = here.initial(np.arange(runs))
    for _ in range(updates):
        begin = here.checkpoint(state)
        state = here.advance(state, 1)
        end = here.checkpoint(state)
        other = there.checkpoint(there.advance(there.restore(begin), 1))
        moved = variable_norms(here.network, end["weights"] - begin["weights"])
        assert_same_rows(
            here.network, other["weights"], end["weights"], moved, "weights"
        )
        for name in here.moment_names:
            size = variable_norms(here.network, end[name])
            assert_same_rows(here.network, other[name], end[name], size, name)
    for name, values in here.observe(state).items():
        expected = there.observe(there.restore(end))[name]
        assert_allclose(values, expected, rtol=1e-3, atol=0.03, err_msg=name)


def assert_updates_of_plain_runs(system, seeds, plain_runs, updates):
    """Each of some updates of an ensemble is that of plain runs in float64, which
    start it from the ensemble's state.

    system: the training system. seeds: (run,). plain_runs: plain run by row. Returns
    the last state of the ensemble, at which the plain runs are, too."""
    network, compared = system.network, 0
    state = system.initial(seeds)
    for step in range(updates):
        begin = system.checkpoint(state)
        state = system.advance(state, 1)
        end = system.checkpoint(state)
        frame = system.observe(state)
        for row, plain in plain_runs.items():
            plain.load(network, begin, row)
            distance = plain.update(step)
            if distance < SWITCH:
                continue
            compared += 1
            result, expected = end["weights"][[row]], plain.rows(network)
            first = begin["weights"][[row]].astype(float)
            moved = variable_norms(network, expected - first)
            assert_same_rows(network, result, expected, moved, f"weights, {step}")
            for name, values in plain.moments(network).items():
                size = variable_norms(network, values)
                assert_same_rows(network, end[name][[row]], values, size, name)
            gradient = variable_norms(network, plain.gradient(network))
            assert_allclose(
                frame["gradient_norm"][[row]], gradient, rtol=TOLERANCE, atol=1e-7
            )
            assert_allclose(
                frame["update_norm"][[row]], moved, rtol=TOLERANCE, atol=1e-7
            )
    assert compared > 0.9 * updates * len(plain_runs)
    for row, plain in plain_runs.items():
        plain.load(network, end, row)
    return state
