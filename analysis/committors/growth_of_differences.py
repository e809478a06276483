"""Finite-time Lyapunov exponents: how fast small differences between a run and its
copies grow.

    exponent = log(|difference at the end| / |difference at the beginning|) / time

Differences are those of all variables of the state. The largest few exponents are those
of orthonormal differences that are orthonormalised again after each span of steps
(Benettin, Galgani, Giorgilli and Strelcyn, Meccanica 15 (1980), 9)."""

from __future__ import annotations

import itertools
from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING, Any

import lazy_loader as lazy
import numpy as np
import xarray as xr

from analysis import linearization
from analysis.linearization.force_jacobian import force_and_jacobian
from dynamics import networks
from dynamics.branching import open_source, replay, states_at
from dynamics.copies import branch_copies
from dynamics.optimizers import update_numbers
from dynamics.settings import (
    ModularSettings,
    ParticleSettings,
    Settings,
    SettingsError,
    check_integer,
)
from dynamics.trajectory.description import METRIC_VARIABLES
from dynamics.trajectory.schema import read_settings

if TYPE_CHECKING:
    import torch
else:
    torch = lazy.load("torch")


def lyapunov(
    trajectory: xr.Dataset,
    steps: Sequence[int],
    span: int,
    displace: Sequence[float] = (1e-8, 1e-6, 1e-4),
    copies: int = 8,
    *,
    batches: str = "common",
) -> xr.Dataset:
    """Finite-time Lyapunov exponents along recorded runs, by copies with several
    displacements.

    Parameters
    ----------
    trajectory : xarray.Dataset
        A trajectory with restart states, or one that was not written to a file.
    steps : sequence of int
        Steps at which copies begin.
    span : int
        Number of steps over which differences grow.
    displace : sequence of float
        Sizes of the displacements. Where differences grow linearly, the exponents of
        several sizes agree; networks in float32 need 1e-4 and more.
    copies : int
        Number of copies of each state and size.
    batches : {"common", "different"}
        Whether a copy has the mini-batches, or the noise, of the run with which it is
        compared.

    Returns
    -------
    xarray.Dataset
        `exponent` (run, step, displacement), the mean over copies per unit of time
        (`step` times the step size), and its standard deviation `spread` over copies.
        NaN for a run that has diverged.

    Raises
    ------
    SettingsError, TrajectoryError

    Examples
    --------
    >>> from analysis import lyapunov
    >>> from dynamics import ParticleSettings, simulate
    >>> trajectory = simulate(ParticleSettings(n=7), runs=3, progress=False)
    >>> dict(lyapunov(trajectory, [0, 50], span=20)["exponent"].sizes)
    {'run': 3, 'step': 2, 'displacement': 3}
    """
    check_integer("span", span, 1, 2**53)
    if batches not in ("common", "different"):
        raise SettingsError("batches", batches, "common or different")
    different = batches == "different"
    sizes = sorted(displace)
    settings = read_settings(trajectory)
    means, spreads = [], []
    for step in steps:
        ends = branch_copies(
            trajectory,
            step,
            copies,
            [0.0, *sizes],
            reshuffle=different,
            until=step + span,
        )
        shape = (trajectory.sizes["run"], 1 + len(sizes), copies, -1)
        first, last = (state_vectors(ends, at).reshape(shape) for at in (0, -1))
        undisturbed = np.roll(last[:, :1], 1, axis=2) if different else last[:, :1]
        begin = np.linalg.norm(first[:, 1:] - first[:, :1], axis=-1)
        end = np.linalg.norm(last[:, 1:] - undisturbed, axis=-1)
        with np.errstate(divide="ignore", invalid="ignore"):
            duration = elapsed_time(settings, step, step + span)
            growth = np.log(end / begin) / duration
        diverged = (ends["last_step"] < step + span).values.reshape(shape[:-1])
        growth[diverged[:, 1:] | diverged[:, :1]] = np.nan
        means.append(growth.mean(axis=-1))
        spreads.append(growth.std(axis=-1))
    dims = ("run", "step", "displacement")
    return xr.Dataset(
        {
            "exponent": (dims, np.stack(means, axis=1)),
            "spread": (dims, np.stack(spreads, axis=1)),
        },
        {
            "step": list(steps),
            "displacement": sizes,
            "seed": ("run", trajectory["seed"].values),
        },
        {"span": span, "batches": batches},
    )


def largest_exponents(
    trajectory: xr.Dataset,
    step: int,
    until: int,
    count: int,
    span: int = 1,
    size: float = 1e-7,
    transient: int = 0,
) -> np.ndarray:
    """The largest Lyapunov exponents between two steps, by differences along
    orthonormal directions.

    Parameters
    ----------
    trajectory : xarray.Dataset
        A trajectory with restart states, or one that was not written to a file.
    step, until : int
        First and last step.
    count : int
        Number of exponents.
    span : int
        Steps between two orthonormalisations.
    size : float
        Length of the differences. Networks in float32 need about 1e-4; larger ones may
        switch hidden units of ReLU, where derivatives jump.
    transient : int
        Number of steps, a multiple of `span`, in which the directions turn before
        their growth counts.

    Returns
    -------
    numpy.ndarray
        (run, exponent) per unit of time, from the largest.

    Examples
    --------
    >>> from analysis.committors import largest_exponents
    >>> from dynamics import ParticleSettings, simulate
    >>> trajectory = simulate(ParticleSettings(n=5), runs=2, steps=20, progress=False)
    >>> largest_exponents(trajectory, 0, 10, count=2).shape
    (2, 2)
    """
    frame = replay(trajectory, None, step, step)
    runs, length = state_vectors(frame, 0).shape
    check_integer("count", count, 1, length)
    generator = np.random.default_rng(0)
    start = generator.standard_normal((runs, length, count))
    directions = np.linalg.qr(start)[0]
    sums = np.zeros((runs, count))
    begins = range(step, until, span)
    ends = [step, *(min(until, begin + span) for begin in begins)]
    for begin, end in zip([step, *begins], ends, strict=True):
        moved = np.empty_like(directions)
        for column in range(count):
            direction = _as_variables(frame, directions[..., column])
            copies = branch_copies(
                trajectory, begin, 1, [0.0, size], direction=direction, until=end
            )
            last = state_vectors(copies, -1).reshape(runs, 2, length)
            moved[..., column] = (last[:, 1] - last[:, 0]) / size
        directions, triangle = np.linalg.qr(moved)
        if end > step + transient:
            sums += np.log(np.abs(np.diagonal(triangle, axis1=1, axis2=2)))
    settings = read_settings(trajectory)
    return sums / elapsed_time(settings, step + transient, until)


def linearized_exponents(
    trajectory: xr.Dataset, step: int, until: int, count: int
) -> np.ndarray:
    """The exponents of `largest_exponents` by products of the derivatives of steps: of
    particles, and of CA's network with any optimizer whose update has a derivative. With
    y = x + step_size F(x) of mean 0 and its standard deviation s, and the gradient g of
    the loss with its derivative H,

        particles   (1 - mean - y y^T / |y|²) (1 + step_size dF/dx) / s
        networks    d(w', m') / d(w, m) + d(w', m') / dg H,  (w', m') = update(g, w, m)

    Differences of a network have its weights w and the moments m of the optimizer. Raises
    SettingsError for other systems, step rules and normalisations, and for optimizers
    without a derivative."""
    settings = read_settings(trajectory)
    # settings of a user's system, which may be derived from these, have no known step
    is_built_in = type(settings) in (ParticleSettings, ModularSettings)
    match settings:
        case ParticleSettings(
            step_rule="force", variance="overall", temperature=0.0
        ) if is_built_in:
            frames = replay(trajectory, None, step, until)
            derivatives = _particle_derivatives(frames, settings)
        case ModularSettings() if is_built_in:
            derivatives = _update_derivatives(trajectory, settings, step, until)
        case _:
            allowed = (
                "particles with step_rule force, variance overall and temperature 0,"
            )
            allowed += " or CA's network"
            raise SettingsError("trajectory", trajectory.attrs["system"], allowed)
    first = next(derivatives)
    runs, length, _ = first.shape
    directions = np.random.default_rng(0).standard_normal((runs, length, count))
    if isinstance(settings, ParticleSettings):
        # project on the moves that keep mean and variance of the first frame
        rows = state_vectors(frames, 0)[:, :, None]
        variance = rows @ rows.swapaxes(1, 2) / length
        directions = (_centring(settings) - variance) @ directions
    directions = np.linalg.qr(directions)[0]
    sums = np.zeros((runs, count))
    for derivative in itertools.chain([first], derivatives):
        directions, triangle = np.linalg.qr(derivative @ directions)
        sums += np.log(np.abs(np.diagonal(triangle, axis1=1, axis2=2)))
    return sums / elapsed_time(settings, step, until)


def elapsed_time(settings: Settings, begin: int, end: int) -> float:
    """The time from step `begin` to step `end`: the sum of the step sizes."""
    times = getattr(settings, "elapsed_times", None)
    if times is None:
        return (end - begin) * settings.time_step
    return times[end] - times[begin]


def _centring(settings: ParticleSettings) -> np.ndarray:
    """The projection that removes the mean of each axis, (component, component)."""
    return np.kron(np.eye(settings.n) - 1 / settings.n, np.eye(settings.dim))


def _particle_derivatives(
    frames: xr.Dataset, settings: ParticleSettings
) -> Iterator[np.ndarray]:
    """The derivative of each step between the frames, (run, component, component)."""
    centring = _centring(settings)
    h = settings.step_size
    length = settings.n * settings.dim
    for at in range(frames.sizes["step"] - 1):
        rows = state_vectors(frames, at)
        field = force_and_jacobian(rows.reshape(-1, settings.n, settings.dim), settings)
        y = (rows + h * field.force.reshape(rows.shape)) @ centring
        square = (y * y).sum(axis=1)[:, None, None]
        projection = centring - y[:, :, None] * y[:, None] / square
        moved = projection @ (np.eye(length) + h * field.jacobian)
        yield moved / np.sqrt(square / length)


def _update_derivatives(
    trajectory: xr.Dataset, settings: ModularSettings, step: int, until: int
) -> Iterator[np.ndarray]:
    """The derivative of each update between two steps, (run, component, component), of
    the weights and then of the moments."""
    network = networks.ConstantAttention(settings)
    seeds = trajectory["seed"].values
    objectives = [
        linearization.training_objective(network, int(seed)) for seed in seeds
    ]
    steps = list(range(step, until))
    states: Any = states_at(open_source(trajectory), seeds, steps, [])
    for at, state in zip(steps, states, strict=True):
        yield np.stack(
            [
                _update_derivative(network, objective, state, run, at)
                for run, objective in enumerate(objectives)
            ]
        )


def _update_derivative(
    network: networks.ConstantAttention, objective: Any, state: Any, run: int, step: int
) -> np.ndarray:
    """The derivative of the update of one run that follows a state, (component,
    component). Raises SettingsError if the update has none."""
    settings = network.settings
    optimizer = settings.optimizer_value
    factor = settings.learning_rate_factor(step)
    numbers = update_numbers(settings.hyperparameters, state.updates + 1)
    for name, values in (
        (
            "lr",
            [factor * settings.learning_rate_of(name) for name in network.variables],
        ),
        (
            "weight_decay",
            [settings.weight_decay_of(name) for name in network.variables],
        ),
    ):
        by_parameter = np.repeat(np.array(values, float), network.lengths)
        numbers[name] = torch.from_numpy(by_parameter)
    weight = torch.from_numpy(state.weights[run].astype(float))
    moments = [
        torch.from_numpy(state.moments[name][run].astype(float))
        for name in optimizer.moments
    ]
    gradient = torch.func.grad(objective.loss)(weight)
    inputs = [item.requires_grad_() for item in (gradient, weight, *moments)]
    results = optimizer.apply(inputs[0], inputs[1], inputs[2:], numbers)
    partial = [_elementwise_derivatives(result, inputs) for result in results]
    by_gradient, _, *by_moments = partial[0]
    if not any(values.any() for values in (by_gradient, *by_moments)):
        allowed = "one whose update of the weights has a derivative"
        raise SettingsError("optimizer", optimizer.name, allowed)
    hessian = objective.hessian(weight.detach()).numpy()
    rows = []
    for by_gradient, by_weight, *by_moments in partial:
        by_weights = np.diag(by_weight) + by_gradient[:, None] * hessian
        rows.append([by_weights, *map(np.diag, by_moments)])
    return np.block(rows)


def _elementwise_derivatives(result: Any, inputs: Sequence[Any]) -> list[np.ndarray]:
    """The derivative of each element of a result with respect to that of each input,
    (parameter,) each."""
    total = result.sum()
    if not total.requires_grad:
        return [np.zeros(len(result))] * len(inputs)
    found = torch.autograd.grad(
        total, inputs, retain_graph=True, materialize_grads=True
    )
    return [item.numpy() for item in found]


def state_vectors(trajectory: xr.Dataset, at: int) -> np.ndarray:
    """All recorded variables of the state at a frame, (run, component) float64."""
    frame = trajectory.isel(step=at)
    pieces = [
        frame[name].transpose("run", ...).values.reshape(frame.sizes["run"], -1)
        for name in _state_names(trajectory)
    ]
    return np.concatenate(pieces, axis=1).astype(np.float64)


def _state_names(trajectory: xr.Dataset) -> list[str]:
    return [
        str(name)
        for name, variable in trajectory.data_vars.items()
        if {"run", "step"} < set(variable.dims) and name not in METRIC_VARIABLES
    ]


def _as_variables(frame: xr.Dataset, vectors: np.ndarray) -> dict[str, np.ndarray]:
    """Vectors (run, component) of `state_vectors` as arrays by the names of the
    variables."""
    names = _state_names(frame)
    first = frame.isel(step=0)
    shapes = [first[name].transpose("run", ...).shape for name in names]
    ends = np.cumsum([np.prod(shape[1:], dtype=int) for shape in shapes])
    pieces = np.split(vectors, ends[:-1], axis=1)
    return {
        name: piece.reshape(shape)
        for name, piece, shape in zip(names, pieces, shapes, strict=True)
    }
